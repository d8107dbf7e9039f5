"""Faults at single system calls, by strace: every effect on disk is counted once, then killed or refused one by one.

strace is attached to a waiting process, so that it traces only the work. It counts the calls of each kind and, at the
named call, sends SIGKILL before the call has any effect, or makes it fail with an error.
"""

import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.releases import Child, Ended

WRITES = ("write", "pwrite64", "writev", "pwritev", "copy_file_range", "sendfile")
EFFECTS = (
    *WRITES, "fsync", "fdatasync", "sync_file_range", "rename", "renameat", "renameat2", "link", "linkat", "symlink",
    "unlink", "unlinkat", "ftruncate", "truncate", "fallocate",
)  # fmt: skip
"""System calls that change the content of the disk, or make it durable. Folders are made and removed only around
these."""


@dataclass(frozen=True)
class Effect:
    """A system call that had an effect in a deployment's folder.

    Attributes:
        call: its name.
        number: the number of calls of this name in the process, including this one.
        earlier: the numbers of calls that the process made before this one, by name.
        words: the call and the file, for people.
    """

    call: str
    number: int
    earlier: tuple[tuple[str, int], ...]
    words: str


def available() -> bool:
    """Whether strace is installed and may trace a process."""
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


def traced(work: Callable[[], Any], *options: str) -> Ended:
    """Do some work in a separate process to which strace is attached.

    Raises:
        RuntimeError: if strace cannot be attached.
    """
    child = Child(work)
    command = ["strace", "-f", "-p", str(child.process), "-e", f"trace={','.join(EFFECTS)}", "-qq", *options]
    if "-o" not in options:
        command += ["-o", "/dev/null"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as tracer:
        status = Path(f"/proc/{child.process}/status")
        while "TracerPid:\t0\n" in status.read_text():
            if tracer.poll() is not None:
                child.kill()
                child.ended()
                raise RuntimeError(f"strace cannot be attached: {tracer.stderr.read()!r}" if tracer.stderr else "")
            time.sleep(0.002)
        child.go()
        ended = child.ended()
        tracer.wait()
    return ended


def effects(root: Path, work: Callable[[], Any]) -> list[Effect]:
    """Do some work once, and list its effects below a folder, in order.

    Raises:
        RuntimeError: if the work fails, or another thread than the first has an effect there: strace counts the calls
            of each thread separately. `releases.InTurn` keeps the threads of the project's own code from it.
    """
    with tempfile.NamedTemporaryFile("r") as log:
        ended = traced(work, "-y", "-s", "0", "-o", log.name)
        if ended.status:
            raise RuntimeError(f"the work to be counted ended with {ended.status}: {ended.error}")
        lines = [match for line in log if (match := _CALL.match(line))]
    if not lines:
        raise RuntimeError("strace saw no system call")
    found, counted = [], Counter[str]()
    first = str(ended.process)
    for line in lines:
        here = str(root) + "/" in line["arguments"] or f"{root}>" in line["arguments"]
        if line["thread"] != first:
            if here:
                raise RuntimeError(f"another thread has effects: {line[0]}")
            continue
        earlier = tuple(counted.items())
        counted[line["call"]] += 1
        if here and int(line["result"]) >= 0:
            words = f"{line['call']} {_plain(line['arguments'], root)}"
            found.append(Effect(line["call"], counted[line["call"]], earlier, words))
    return found


_CALL = re.compile(r"(?P<thread>\d+) +(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)")


def _plain(arguments: str, root: Path) -> str:
    """The files that a call names, below the folder, without random parts of their names."""
    paths = re.findall(re.escape(str(root)) + r"/?([^\">]*)", arguments)
    return " to ".join(re.sub(r"[0-9a-f]{16,}", "…", re.sub(r"stirred-\d+", "stirred", path)) for path in paths)


def killing(effect: Effect) -> Sequence[str]:
    """Options of strace that kill the process right before an effect."""
    return ["-e", f"inject={effect.call}:signal=KILL:when={effect.number}"]


def full(effect: Effect) -> Sequence[str]:
    """Options of strace that simulate a full disk from an effect on: every later write fails."""
    earlier = dict(effect.earlier)
    options: list[str] = []
    for call in WRITES:
        options += ["-e", f"inject={call}:error=ENOSPC:when={earlier.get(call, 0) + 1}+"]
    return options
