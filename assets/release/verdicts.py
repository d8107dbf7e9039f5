"""Kept verdicts of gates: a gate that passed is evaluated again only if its inputs have changed.

The result of a gate depends on the tables that it read, the code, and the declaration of the release. The verdict is an
HMAC of all of them under the custody, so that forging one for other contents takes the key. A damaged or missing record
only costs time. The custody has a file of verdicts for each release, and for each part of a release with a run of its
own.
"""

import hmac
import json
import platform
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path, PosixPath
from types import MappingProxyType, NoneType
from typing import Any

from pydantic import BaseModel

from resources import keyfiles
from resources.chain import canonicalize
from resources.custody import Custody, CustodyError
from resources.project import CODE
from resources.warehouse import Read

VERDICTS = "verdicts"
"""The folder of kept verdicts in the custody's folder."""

_LAYERS = ("assets", "mechanisms", "resources", "sql")
_LIBRARIES = ("cryptography", "duckdb", "highspy", "numba", "numpy", "pyarrow")
_STARTED = time.time()

_PLAIN = frozenset({NoneType, bool, int, str})
_WRITTEN = frozenset({bytes, float, Decimal, Fraction, date, datetime, timedelta, PosixPath})
"""Types whose values have an exact text, the same in every process."""


class Verdicts:
    """The kept verdicts of a release, by name, each with the reads of its gate.

    No verdicts are kept if `code` is None or the file cannot be written.
    """

    def __init__(
        self, custody: Custody, schema: str, declared: Sequence[str], code: str | None, part: str = ""
    ) -> None:
        self._custody, self._schema, self._part = custody, schema, part
        self._declared, self._code = declared, code
        self._follows_from = None if code is None else [*declared, code]
        self._path = Path(custody.folder) / VERDICTS / (f"{schema}.{part}" if part else schema)

    def of_part(self, part: str) -> "Verdicts":
        """The kept verdicts on one part of the release. Runs of several parts may keep verdicts at the same time."""
        return Verdicts(self._custody, self._schema, self._declared, self._code, part)

    def list_reads(self, name: str) -> list[Read]:
        """The reads noted for a verdict; empty if there is none."""
        reads = self._load().get(name, {}).get("reads")
        return [tuple(map(str, read)) for read in reads if isinstance(read, list)] if isinstance(reads, list) else []

    def holds(self, name: str, *basis: str | None) -> bool:
        """Whether a verdict is kept on this basis: its inputs besides code and declaration. False if the custody cannot
        be read: then the gate is evaluated, and fails only if it needs the custody itself."""
        kept = str(self._load().get(name, {}).get("verdict", "")).encode(errors="replace")
        try:
            return None not in basis and hmac.compare_digest(kept, self._seal(name, basis).encode())
        except CustodyError:
            return False

    def keep(self, name: str, *basis: str | None, reads: Sequence[Read] = ()) -> None:
        """Keep the verdict that a gate found no problem on this basis. If a value of the basis is None, keep
        nothing."""
        if self._follows_from is None or None in basis:
            return
        with suppress(CustodyError):
            kept = {**self._load(), name: {"reads": list(map(list, reads)), "verdict": self._seal(name, basis)}}
            self._custody.private_folder(VERDICTS)
            keyfiles.replace(self._path, canonicalize(kept))

    def _seal(self, name: str, basis: Sequence[str | None]) -> str:
        facts = {"verdict": name, "release": self._schema, "follows from": self._follows_from, "basis": list(basis)}
        facts |= {"part": self._part} if self._part else {}
        return self._custody.seal(facts)

    def _load(self) -> dict[str, Any]:
        """The record; empty if it is missing or damaged, or verdicts may not be kept."""
        if self._follows_from is None:
            return {}
        try:
            record = json.loads(keyfiles.read_file(self._path) or b"{}")
            # Refuse a record that `keep` could not write again with a further verdict.
            canonicalize(record)
        except (CustodyError, TypeError, ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) and all(isinstance(each, dict) for each in record.values()) else {}


def describe(value: Any, modules: set[str]) -> Any:
    """A declared value as plain values that identify it, the same in every process. They include all that it holds,
    such as the content of a file that it was read from, the types, and the names of the fields that were given. Modules
    that define types are added to `modules`.

    Raises TypeError for a value without an exact text, such as a function, or an array, whose text is abridged.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in _WRITTEN:
        return [kind.__name__, repr(value)]
    if kind in (list, tuple):
        return [kind.__name__, *(describe(part, modules) for part in value)]
    if kind in (set, frozenset):
        return ["set", *sorted((describe(part, modules) for part in value), key=json.dumps)]
    if kind in (dict, MappingProxyType):
        return ["dict", *([describe(name, modules), describe(part, modules)] for name, part in value.items())]
    modules.add(kind.__module__)
    named = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, Enum):
        return [named, value.name, describe(value.value, modules)]
    if isinstance(value, BaseModel):
        parts = {name: getattr(value, name) for name in kind.model_fields}
        given = value.model_fields_set
        return [named, describe([parts, given, value.__pydantic_extra__, value.__pydantic_private__], modules)]
    if is_dataclass(value) and not isinstance(value, type):
        return [named, describe({each.name: getattr(value, each.name) for each in fields(value)}, modules)]
    # Dagster's keys are tuples that cannot be iterated.
    if isinstance(value, tuple) and hasattr(value, "_fields") and kind.__iter__ is tuple.__iter__:
        return [named, describe(tuple(value), modules)]
    raise TypeError(f"{named} has no exact text")


@cache
def hash_code(*modules: str) -> str | None:
    """The SHA-256 of all inputs of gates besides data and declaration: all layers, the versions of libraries and
    Python, and the machine. None if a module is outside the layers, or if a file was changed after this process
    started, because the process may run the earlier code."""
    layers = {CODE / layer for layer in _LAYERS}
    files = [getattr(sys.modules.get(name), "__file__", None) or "/" for name in modules]
    if any(layers.isdisjoint(Path(file).parents) for file in files):
        return None
    digest = sha256(f"{sys.version} {platform.machine()} {[version(name) for name in _LIBRARIES]}".encode())
    for path in sorted(path for layer in _LAYERS for path in (CODE / layer).rglob("*") if path.is_file()):
        if "__pycache__" not in path.parts:
            # Not `st_mtime`, the time of the last change of the content, which a copy preserves.
            if path.stat().st_ctime > _STARTED:
                return None
            digest.update(f"{path.relative_to(CODE)} {path.stat().st_size} ".encode() + path.read_bytes())
    return digest.hexdigest()
