"""The sketch of a dataset's records, made from all columns of its source files, before any recode.

`mechanisms.people` has the sketch itself. This module reads the values and hashes them under a key of the custody.
"""

import hmac
import json
from collections.abc import Iterable, Sequence
from hashlib import shake_256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.cef.readers import Source, UnreadableError
from mechanisms.people import Coded, Sketcher, TableSketch, Words, from_bytes, merge, to_bytes
from resources.arrays import read_texts
from resources.digests import count_rows_at_a_time
from resources.statements import SQL
from resources.warehouse import Session, WarehouseError

_LETTERS = 64
"""The letters of a text that are hashed, to bound the memory for long texts."""
_BYTES = 4 * _LETTERS
_ODD = np.uint64(0x9E3779B97F4A7C15)
"""Any odd number, so that the order of the columns in a key matters."""

_HEADER = SQL("cef/header_of_source", "FROM ({{ relation }}) LIMIT 0")
_RECORDS = SQL("cef/records_of_source", "SELECT left(COLUMNS(*), $letters) FROM ({{ relation }})")


def sketch_records(session: Session, sources: Iterable[Source], version_key: bytes) -> bytes:
    """The sketch of the records of source files; empty if all records are built in.

    Raises UnreadableError if a file cannot be read any more.
    """
    secret = shake_256(hmac.digest(version_key, b"people", "sha256")).digest(8 * (_BYTES + 2))
    factors, sketches = np.frombuffer(secret, dtype="<u8").astype(np.uint64), []
    for source in sources:
        if source.every_column is None:
            continue
        sketcher, relation = Sketcher(), {"relation": source.every_column}
        units = _UnitSketcher()
        values = {name: value for name, value in source.values.items() if name == "path"}
        try:
            names = session.arrow(_HEADER, values, **relation).column_names
            rows, key = count_rows_at_a_time(len(names)), [names.index(name) for name in source.household]
            for batch in session.batches(_RECORDS, rows, {**values, "letters": _LETTERS}, **relation):
                columns = [hash_values(column, factors) for column in batch.columns]
                sketcher.add(columns)
                if key:
                    units.add(columns, key)
        except WarehouseError as error:
            if "OutOfMemory" in str(error):
                raise
            raise UnreadableError(source.label, source.kind) from None
        sketches += [sketcher.finish(), *([units.sketcher.finish()] if source.household else [])]
    return to_bytes(sketches)


def hash_headers(session: Session, sources: Iterable[Source], version_key: bytes) -> str:
    """An HMAC of the names of all columns of source files, in their order."""
    headers = []
    for source in sources:
        if source.every_column is not None:
            values = {name: value for name, value in source.values.items() if name == "path"}
            headers.append(session.arrow(_HEADER, values, relation=source.every_column).column_names)
    return hmac.new(version_key, json.dumps(headers).encode(), "sha256").hexdigest()


def merge_sketches(sketches: Sequence[bytes]) -> bytes:
    """The sketch of the records of all parts of a source, whose files have the same columns."""
    by_file = zip(*map(from_bytes, sketches), strict=True)
    return to_bytes([each for files in by_file for each in _merge(files)])


def _merge(sketches: Sequence[TableSketch]) -> Sequence[TableSketch]:
    merged = merge(sketches)
    return sketches if merged is None else [merged]


class _UnitSketcher:
    """Makes the sketch of the households in a rectangular file, independent of the declaration: of the columns with the
    same value for all persons of each household in the first batch.

    The rows of a household are expected to follow each other, at least within a batch.
    """

    def __init__(self) -> None:
        self.sketcher = Sketcher()
        self._repeated: list[int] = []
        self._last = np.zeros(0, dtype=np.uint64)

    def add(self, columns: Sequence[Coded], key: Sequence[int]) -> None:
        hashes = np.zeros(1, dtype=np.uint64)
        for words, codes in (columns[place] for place in key):
            hashes = hashes * _ODD + words[codes]
        _, first, household = np.unique(hashes, return_index=True, return_inverse=True)
        if not self._repeated:
            self._repeated = [
                place for place, (_, codes) in enumerate(columns) if np.array_equal(codes, codes[first][household])
            ]
        first = first[~np.isin(hashes[first], self._last)]
        self._last = hashes[-1:]
        if len(first):
            self.sketcher.add([(columns[place][0], columns[place][1][first]) for place in self._repeated])


def hash_values(values: pa.Array, factors: Words) -> Coded:
    """Keyed hashes that are equal for equal values, however a file writes them: 7, 07, 7.0, 7,0 and " 7"; 0.5 and .5.

    Args:
        factors: secret random words, two more than a text has bytes.

    Returns:
        The hashes of the distinct texts, and for each value the index of its hash.
    """
    coded = pc.fill_null(values.cast(pa.large_string()), "").dictionary_encode()
    return _hash_texts(_normalize(coded.dictionary), factors), coded.indices.to_numpy()


def _normalize(texts: pa.Array) -> pa.Array:
    texts = pc.ascii_lower(pc.utf8_trim_whitespace(texts))
    first = pc.utf8_slice_codeunits(texts, 0, 1)
    signed = pc.is_in(first, pa.array(["0", "-", "+"], pa.large_string()))
    unusual = pc.or_(signed, pc.match_substring_regex(texts, "[.,]"))
    if not pc.any(unusual).as_py():
        return texts
    written = texts.filter(unusual)
    for pattern, replacement in (
        ("^([-+]?)([.,][0-9]+)$", r"\10\2"),
        ("^([-+]?[0-9]+),([0-9]+)$", r"\1.\2"),
        (r"^([-+]?[0-9]+)(?:\.0*|(\.[0-9]*[1-9])0*)$", r"\1\2"),
        (r"^\+?(-?)0*([0-9]+(?:\.[0-9]+)?)$", r"\1\2"),
        ("^-0$", "0"),
    ):
        written = pc.replace_substring_regex(written, pattern, replacement)
    return pc.replace_with_mask(texts, unusual, written)


def _hash_texts(texts: pa.Array, factors: Words) -> Words:
    """A multilinear hash of the bytes (Carter and Wegman), whose bits are then mixed (SplitMix64)."""
    data, bounds = read_texts(texts)
    lengths = np.diff(bounds)
    letters = data[bounds[0] : bounds[-1]].astype(np.uint64)
    positions = np.arange(len(letters)) - np.repeat(bounds[:-1] - bounds[0], lengths)
    weighed = np.append((letters + np.uint64(1)) * factors[2 + positions], np.uint64(0))
    sums = np.add.reduceat(weighed, bounds[:-1] - bounds[0]) if len(texts) else np.empty(0, dtype=np.uint64)
    hashes = np.where(lengths > 0, sums, 0) + factors[0] + lengths.astype(np.uint64) * factors[1]
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    return hashes ^ (hashes >> np.uint64(31))
