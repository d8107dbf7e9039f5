"""Starts the process of attacks and sends it one publication after another."""

import io
import json
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from hashlib import sha256
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from assets.laboratory.process import ANSWER, QUESTION
from assets.laboratory.publication import Guesses, GuessesError, NamedPersons, Publication, Reconstruction
from mechanisms.refusal import RefusedError
from resources.processes import KEPT
from resources.project import IMPORTED_FROM, PROJECT

_LOT = 2**26
"""The bytes of worlds sent to an attack at a time, to bound its memory."""
_WIDEST, _AROUND = 16, 65_536
"""The bytes of the widest number, and the bytes allowed for all headers together."""


class AttackError(RefusedError):
    """An attack cannot be found, failed, or returned no guesses."""


@dataclass(frozen=True)
class OwnAttack:
    """A researcher's own attack: its import path `module:function`, and the file or package that contains it."""

    target: str
    path: Path

    @classmethod
    def find(cls, target: str) -> "OwnAttack":
        """Find the module in the deployment's folder or on Python's path, without importing it. Raises AttackError if
        there is none."""
        top = target.partition(":")[0].split(".")[0]
        spec = PathFinder.find_spec(top, [str(PROJECT), *sys.path])
        if spec is None or spec.origin is None:
            raise AttackError(
                f"{target}: there is no module {top} in the deployment's folder or among what is installed"
            )
        origin = Path(spec.origin).resolve()
        return cls(target, origin.parent if spec.submodule_search_locations else origin)

    @property
    def version(self) -> str:
        """The SHA-256 of its code."""
        files = sorted(self.path.rglob("*.py")) if self.path.is_dir() else [self.path]
        return sha256(b"".join(sha256(file.read_bytes()).digest() for file in files)).hexdigest()


class Attacker:
    """One process for the built-in attacks and one for a researcher's own, each started at its first question. Neither
    may open `left_out`, the paths of keys, databases and sources, on systems without Landlock either. A researcher's
    own attack may take `own_seconds` for a publication."""

    def __init__(self, own: Mapping[str, OwnAttack], left_out: Sequence[Path], own_seconds: int) -> None:
        self._own, self._left_out, self._own_seconds = own, left_out, own_seconds
        self._processes: dict[bool, subprocess.Popen[bytes]] = {}

    def _start(self, own: Mapping[str, OwnAttack]) -> subprocess.Popen[bytes]:
        listed = [[name, str(attack.path), attack.target] for name, attack in own.items()]
        settings = json.dumps([list(map(str, self._left_out)), listed, self._own_seconds])
        command = [sys.executable, "-W", "ignore", "-m", f"{__package__}.process"]
        environment = {"PYTHONPATH": str(IMPORTED_FROM), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
        started = subprocess.Popen(command, cwd="/", env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert started.stdin is not None
        # Not arguments, which everyone on the machine can read, and which cannot hold the paths of many partitions.
        with suppress(BrokenPipeError):
            started.stdin.write(f"{settings}\n".encode())
        return started

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.communicate()

    def guess(self, attack: str, publication: Publication, persons: NamedPersons) -> Guesses:
        """The guesses of an attack. Raises AttackError."""
        return self.guess_each(attack, [(publication, persons)])[0]

    def guess_each(self, attack: str, worlds: Sequence[tuple[Publication, NamedPersons]]) -> list[Guesses]:
        """The guesses of an attack in each world. A built-in attack keeps earlier solutions; a researcher's own attack
        starts afresh in each world. Raises AttackError."""
        if attack in self._own:
            return [self._guess_by_own(attack, *world) for world in worlds]
        names, given = [field.name for field in fields(Guesses)], []
        for lot in _divide(map(pickle.dumps, worlds)):
            arrays = _read_arrays(self._ask(attack, 0, lot))
            given += [Guesses(*(arrays[f"{name} {number}"] for name in names)) for number in range(len(lot))]
        return [
            Guesses.of(each, len(persons.block), publication.tier.shape[1])
            for each, (publication, persons) in zip(given, worlds, strict=True)
        ]

    def _guess_by_own(self, attack: str, publication: Publication, persons: NamedPersons) -> Guesses:
        asked, categories = len(persons.block), publication.tier.shape[1]
        answer = self._ask(attack, _WIDEST * asked * (categories + 1) + _AROUND, publication, persons)
        try:
            arrays = _read_arrays(answer, len(fields(Guesses)))
            given = Guesses(**arrays) if len(arrays) > 1 else arrays["shares"]
            return Guesses.of(given, asked, categories)
        except GuessesError as error:
            raise AttackError(f"attack {attack}: it failed ({error}); {KEPT}") from None
        except Exception:
            # The attack may have written any bytes to the pipe, so reading them may raise any error.
            raise AttackError(f"attack {attack}: it failed (what it returned is no guesses); {KEPT}") from None

    def reconstruct(self, publication: Publication, *, certain: bool) -> Reconstruction:
        """The records behind exact tables. Raises AttackError."""
        answer = self._ask("reconstruct", 0, publication, certain)
        found: dict[str, Any] = dict(_read_arrays(answer))
        return Reconstruction(**found | {"variability_in_years": float(found["variability_in_years"])})

    def _ask(self, attack: str, most: int, *given: Any) -> bytes:
        content, is_own = pickle.dumps((attack, *given)), attack in self._own
        if is_own not in self._processes:
            self._processes[is_own] = self._start(self._own if is_own else {})
        asked, answers = self._processes[is_own].stdin, self._processes[is_own].stdout
        assert asked is not None
        assert answers is not None
        header = b""
        with suppress(BrokenPipeError):
            asked.write(QUESTION.pack(most, len(content)) + content)
            asked.flush()
            header = answers.read(ANSWER.size)
        if len(header) < ANSWER.size:
            of_own, built_in = "is its module importable with nothing but its own files?", f"it was killed; {KEPT}"
            raise AttackError(f"attack {attack}: its process ended; {of_own if is_own else built_in}")
        succeeded, length = ANSWER.unpack(header)
        answer = answers.read(length)
        if not succeeded:
            raise AttackError(f"attack {attack}: it failed ({answer.decode()}); {KEPT}")
        return answer


def _divide(pickled: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Worlds in lots of at most `_LOT` bytes; a larger world is a lot by itself."""
    lot: list[bytes] = []
    for world in pickled:
        if lot and sum(map(len, lot)) + len(world) > _LOT:
            yield lot
            lot = []
        lot.append(world)
    yield lot


def _read_arrays(answer: bytes, most: int | None = None) -> dict[str, np.ndarray]:
    """Up to `most` arrays by name, none of them larger than the answer. May raise any error."""
    with ZipFile(io.BytesIO(answer)) as archive:
        entries = archive.infolist()
    if len(entries) > (most or len(entries)) or any(entry.compress_type != ZIP_STORED for entry in entries):
        raise ValueError("no arrays as numpy.savez writes them")
    with np.load(io.BytesIO(answer), allow_pickle=False) as arrays:
        return dict(arrays)
