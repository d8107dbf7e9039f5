"""What a machine has for a job: its speed, cores, memory, and the free space where databases and publications lie."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

_REPEATED = 5
_SORTED, _HASHED, _LOOPED = 2**19, 2**23, 2**18
_LIMIT_OF_CONTAINER = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        cores: the cores that this process may use.
        memory: bytes of memory.
        reference_seconds: the duration of the reference work.
        free_home: the bytes that are free where the databases lie; without a bound if they are in a lake.
        free_published: the bytes that are free where the publications lie.
        one_disk: whether both lie on one known disk, so that its free space is for both together.
    """

    cores: int
    memory: int
    reference_seconds: float
    free_home: int
    free_published: int
    one_disk: bool


def this_machine(home: Path, published: Path, *, in_lake: bool = False) -> Machine:
    """This machine.

    Args:
        home: the folder of the databases; it need not exist yet.
        published: the same of the publications.
        in_lake: whether the databases are in a lake, and not in that folder.
    """
    home, published = _existing(home), _existing(published)
    return Machine(
        _cores(),
        _memory(),
        reference_seconds(),
        sys.maxsize if in_lake else shutil.disk_usage(home).free,
        shutil.disk_usage(published).free,
        not in_lake and home.stat().st_dev == published.stat().st_dev,
    )


@cache
def reference_seconds() -> float:
    """The seconds of one core that a small reference work takes, which is done once in a process.

    It sorts, hashes and loops, for a tenth of a second. What other programs use at the time is not counted, and the
    least of several times is taken, because they slow it down all the same.
    """
    return min(_durations())


def _durations() -> Iterator[float]:
    numbers = np.arange(_SORTED, dtype=np.int64) * 2_654_435_761 % (2**31 - 1)
    text = bytes(_HASHED)
    for _ in range(_REPEATED):
        started = time.thread_time()
        np.sort(numbers)
        sha256(text).digest()
        found: dict[int, int] = {}
        for number in range(_LOOPED):
            found[number & 1023] = found.get(number & 1023, 0) + number
        yield time.thread_time() - started


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int:
    """The memory of the machine, or of the container if that is less."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Without a limit, the file has the word max; elsewhere there is no such file.
    with suppress(OSError, ValueError):
        memory = min(memory, int(_LIMIT_OF_CONTAINER.read_text()))
    return memory
