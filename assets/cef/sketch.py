"""The sketch of a dataset's records, made of its source files as they are: of all columns, before any recode.

`mechanisms.people` has the sketch itself. Here the values are read, and hashed under a key of the custody.
"""

import hmac
from collections.abc import Iterable
from hashlib import shake_256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.cef.readers import Source, UnreadableError
from mechanisms.people import Coded, Sketcher, Words, to_bytes
from resources.statements import SQL
from resources.warehouse import Session, WarehouseError, count_rows_at_a_time, read_texts

_LETTERS = 64
"""The letters of a text that count: a text of any length could take any memory."""
_BYTES = 4 * _LETTERS

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
        values = {name: value for name, value in source.values.items() if name == "path"}
        try:
            rows = count_rows_at_a_time(session.arrow(_HEADER, values, **relation).num_columns)
            for batch in session.batches(_RECORDS, rows, {**values, "letters": _LETTERS}, **relation):
                sketcher.add([hash_values(column, factors) for column in batch.columns])
        except WarehouseError as error:
            if "OutOfMemory" in str(error):
                raise
            raise UnreadableError(source.label, source.kind) from None
        sketches.append(sketcher.finish())
    return to_bytes(sketches)


def hash_values(values: pa.Array, factors: Words) -> Coded:
    """Keyed hashes that are equal for equal values, however a file writes them: 7, 07, 7.0 and " 7".

    Args:
        factors: secret random words, two more than a text has bytes.

    Returns:
        The hashes of the different texts, and for each value the place of its own among them.
    """
    coded = pc.fill_null(values.cast(pa.large_string()), "").dictionary_encode()
    return _hash_texts(_normalize(coded.dictionary), factors), coded.indices.to_numpy()


def _normalize(texts: pa.Array) -> pa.Array:
    texts = pc.ascii_lower(pc.utf8_trim_whitespace(texts))
    first = pc.utf8_slice_codeunits(texts, 0, 1)
    unusual = pc.or_(pc.is_in(first, pa.array(["0", "-", "+"], pa.large_string())), pc.match_substring(texts, "."))
    if not pc.any(unusual).as_py():
        return texts
    written = texts.filter(unusual)
    for pattern, replacement in (
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
