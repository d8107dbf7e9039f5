"""The process of attacks, `python -m assets.laboratory.process`: confine it, then run the attacks that come in.

It can open the programs but no file of the deployment: a publication and the attacker's file arrive on its standard
input, and guesses leave on its standard output. A researcher's own attack runs in a process forked for it, which loads
the attack's module and has a pipe for its own answer only, so that it neither remembers earlier publications nor
changes another attack's answer. The reader of the pipe judges the answer. Hostile code can still leave a process or
shared memory behind. Built-in attacks run in a process of their own and keep their solutions. Only the standard library
is imported before the process is confined, because a thread that already runs would not be restricted.
"""

import builtins
import io
import json
import os
import pickle
import signal
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from select import select
from typing import Any

from resources.confinement import SYSTEM, confine, end_with_parent, exclude
from resources.project import CODE

QUESTION = struct.Struct("=QQ")
"""Before each question: the most bytes of an answer to it, 0 for a built-in attack, whose length and time have no
limit; and the length of the question in bytes."""
ANSWER = struct.Struct("=?Q")
"""Before each answer: whether the attack succeeded (otherwise the answer is the name of an error), and its length in
bytes."""
_BLOCK = 2**20
"""The most bytes read at a time."""


def main() -> None:
    """Confine this process and attack until its input ends."""
    end_with_parent()
    tasks, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    # An attack's own output must not mix with the answers.
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    left_out, own, own_seconds = json.loads(tasks.readline())
    refused = [Path(path) for path in left_out]
    programs = [*map(Path, SYSTEM), Path(sys.prefix), Path(sys.base_prefix)]
    programs += [CODE / name for name in ("assets", "mechanisms", "resources")]
    confine(exclude([*programs, *(Path(path) for _, path, _ in own)], refused), [], refused, None)
    attack = _load_attacks({name: (path, target) for name, path, target in own})
    while header := tasks.read(QUESTION.size):
        most, length = QUESTION.unpack(header)
        content = tasks.read(length)
        if not most:
            answers.write(_attempt(attack, content))
            answers.flush()
            continue
        incoming, outgoing = os.pipe()
        this, child = os.getpid(), os.fork()
        if child == 0:
            # A fork does not inherit this setting, and the parent may already have ended.
            end_with_parent()
            if os.getppid() != this:
                os._exit(1)
            os.setsid()
            for descriptor in (tasks.fileno(), answers.fileno(), incoming):
                os.close(descriptor)
            # The standard error goes to the run's log.
            os.dup2(nothing, 2)
            try:
                with os.fdopen(outgoing, "wb") as answer:
                    answer.write(_attempt(attack, content))
            finally:
                os._exit(0)
        os.close(outgoing)
        received = _receive(incoming, own_seconds, most)
        answers.write(received or _frame(False, b"the process of the attack was ended"))
        answers.flush()
        # Processes that the attack started may still run.
        for end in (os.killpg, os.kill):
            with suppress(ProcessLookupError):
                end(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _receive(descriptor: int, seconds: int, most: int) -> bytes:
    """A whole framed answer, or a framed failure if it takes more than `seconds` or has more than `most` bytes; empty
    if the process ended before."""
    end, received, wanted = time.monotonic() + seconds, bytearray(), ANSWER.size
    try:
        while len(received) < wanted:
            if not select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                return _frame(False, f"it took over {seconds} seconds, the limit of attack_seconds".encode())
            block = os.read(descriptor, _BLOCK)
            if not block:
                return b""
            received += block
            if wanted == ANSWER.size <= len(received):
                wanted += ANSWER.unpack_from(received)[1]
                if wanted > ANSWER.size + most:
                    # The exact length could reveal contents of the publication.
                    return _frame(False, b"it returned more than one share for each person and category")
    finally:
        os.close(descriptor)
    content = bytes(received[ANSWER.size : wanted])
    succeeded = bool(ANSWER.unpack_from(received)[0])
    return _frame(succeeded, content if succeeded else _name_error(content))


def _name_error(name: bytes) -> bytes:
    """The name, if it is one of Python's own errors. Any other name could quote the publication."""
    return name if hasattr(builtins, name.decode("ascii", "replace")) else b"an error that is not Python's"


def _load_attacks(own: Mapping[str, tuple[str, str]]) -> Any:
    """A function that runs an attack by name: a built-in one, or a researcher's own, given by path and target."""
    # Imported only after confinement, because these modules start threads.
    import numpy as np

    from assets.laboratory.attacks import ATTACKS, reconstruct
    from assets.laboratory.publication import Guesses

    def attack(name: str, *given: Any) -> Any:
        if name == "reconstruct":
            return vars(reconstruct(*given))
        if name in own:
            guesses = _import_from(*own[name])(*given)
            return vars(guesses) if isinstance(guesses, Guesses) else {"shares": np.asarray(guesses)}
        (worlds,) = given
        each = [vars(ATTACKS[name](*pickle.loads(world))) for world in worlds]
        return {
            f"{array} {number}": values for number, of_world in enumerate(each) for array, values in of_world.items()
        }

    return attack


def _import_from(path: str, target: str) -> Any:
    """The function of an import path; `path` is the file or folder of its top module or package."""
    from importlib import import_module

    module, _, function = target.partition(":")
    top, package = module.split(".")[0], Path(path)
    folders = [path] if package.is_dir() else None
    spec = spec_from_file_location(
        top, package / "__init__.py" if folders else package, submodule_search_locations=folders
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[top] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[top])
    return getattr(import_module(module), function)


def _attempt(attack: Any, content: bytes) -> bytes:
    import numpy as np

    try:
        answer, buffer = attack(*pickle.loads(content)), io.BytesIO()
        np.savez(buffer, **answer)
        return _frame(True, buffer.getvalue())
    except Exception as error:
        # The message could quote the publication.
        return _frame(False, type(error).__name__.encode())


def _frame(succeeded: bool, content: bytes) -> bytes:
    return ANSWER.pack(succeeded, len(content)) + content


if __name__ == "__main__":
    main()
