"""The process of attacks, `python -m assets.laboratory.process`: confine it, then run the attacks that come in.

It can open the programs, and of the deployment nothing at all: a publication and the attacker's file come in by its
standard input, and guesses go out by its standard output. Each attack runs in a process of its own that is forked for
it, so that nothing is remembered from one publication to the next. Nothing is imported before the process is confined
but the standard library: a thread that runs already would not be restricted.
"""

import io
import json
import os
import pickle
import struct
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import IO, Any

from resources.confinement import SYSTEM, confine, end_with_parent, exclude
from resources.project import CODE

LENGTH = struct.Struct("=?Q")
"""Before each answer: whether it is one, or the name of an error; and its length in bytes."""


def main() -> None:
    """Confine this process and attack until its input ends."""
    end_with_parent()
    tasks, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    # What an attack prints is nobody's answer.
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    left_out, own = (json.loads(argument) for argument in sys.argv[1:3])
    refused = [Path(path) for path in left_out]
    programs = [*map(Path, SYSTEM), Path(sys.prefix), Path(sys.base_prefix)]
    programs += [CODE / name for name in ("assets", "mechanisms", "resources")]
    confine([*exclude(programs, refused), *(Path(path) for _, path, _ in own)], [], refused, None)
    attack = _load_attacks(own)
    while header := tasks.read(LENGTH.size):
        content = tasks.read(LENGTH.unpack(header)[1])
        child = os.fork()
        if child == 0:
            _answer(answers, *_attempt(attack, content))
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            _answer(answers, False, b"the process of the attack was ended")


def _load_attacks(own: Sequence[tuple[str, str, str]]) -> Any:
    """A function that runs an attack by name, with the built-in ones and those of an import path."""
    # Only now: they start threads.
    from importlib import import_module

    from assets.laboratory.attacks import ATTACKS, reconstruct
    from assets.laboratory.publication import Guesses

    functions = dict(ATTACKS)
    for name, path, target in own:
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
        functions[name] = getattr(import_module(module), function)

    def attack(name: str, publication: Any, *given: Any) -> Any:
        if name == "reconstruct":
            return reconstruct(publication, *given)
        (persons,) = given
        return Guesses.of(functions[name](publication, persons), len(persons.block), publication.tier.shape[1])

    return attack


def _attempt(attack: Any, content: bytes) -> tuple[bool, bytes]:
    import numpy as np

    try:
        answer, buffer = attack(*pickle.loads(content)), io.BytesIO()
        np.savez(buffer, **vars(answer))
        return True, buffer.getvalue()
    except Exception as error:
        # A message could quote what is in the publication.
        return False, type(error).__name__.encode()


def _answer(answers: IO[bytes], succeeded: bool, content: bytes) -> None:
    answers.write(LENGTH.pack(succeeded, len(content)) + content)
    answers.flush()


if __name__ == "__main__":
    main()
