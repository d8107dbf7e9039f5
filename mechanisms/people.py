"""Sketches of records, which show whether two files are about the same people, independently of their declarations.

A sketch does not depend on the order of the records, nor on names, types and order of the columns. It holds, for each
of many sets of columns, the combinations of values that records have there with the smallest keyed hashes, and the
number of records that have each (bottom-k, Cohen and Kaplan, 2007). The sets are each column, each pair of columns, all
columns, and all but one or two. So a file shares most of its sets with a version that lacks one column, and a sample of
the records shares combinations with the whole that few people have.

This module makes sketches of hashed values and compares them. `assets.cef.sketch` reads and hashes the values, and
`resources.custody` keeps the sketches: anyone with a sketch and its key can test guesses about records.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHARE = 0.5
"""The share from which the records of two files count as records of the same people."""

MOST_COLUMNS = 32
"""The columns compared in a wider table: those with the most different values among the first records."""

_NARROW = 12
"""The most columns of a table for which sets without two of them are compared."""
_COMBINATIONS = 16_384
"""The approximate number of combinations of values in a table's sketch."""
_FEWEST, _MOST = 12, 1024
"""The fewest and the most combinations of a set of columns."""
_UNIQUE = 0.8
"""The share of records with a unique combination from which a set of columns distinguishes records."""
_FEWEST_COMPARED = 16
"""The fewest combinations from which a share is computed."""
_FEWEST_OF_COLUMN = 4
"""The fewest combinations from which a column's share is computed."""
_FEWEST_BITS = 24
"""The least improbability of equal frequencies, in bits, if the frequencies of any two combinations were
independent."""
_TIMES = (2, 3, 5, 7)
"""The numbers of times that all records may be repeated, along with their products."""
_OTHERS = 0.1
"""The share of record counts, beyond one in each set, that need not be multiples although records are repeated."""
_CANDIDATES = 8
"""The number of sets, those with the most combinations in common, with which a set is compared."""
_FEW_VALUES = 1 << 14
"""The most combinations of values that are counted one by one."""
_FIRST = 4096
"""The first records, from which the limit of a hash is found."""

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class TableSketch:
    """The sketch of a table: its number of records, the columns compared, the most combinations of a set, and for each
    set of `list_sets` the smallest hashes of its combinations, ascending, with the number of records that have each."""

    records: int
    columns: int
    limit: int
    hashes: tuple[Words, ...]
    counts: tuple[NDArray[np.uint32], ...]

    @cached_property
    def sets(self) -> list[tuple[int, ...]]:
        return list_sets(self.columns)

    @cached_property
    def ends(self) -> Words:
        """For each set, the greatest hash that it would hold: the greatest of all hashes, if it holds all
        combinations."""
        last = np.iinfo(np.uint64).max
        ends = [hashes[-1] if len(hashes) == self.limit else last for hashes in self.hashes]
        return np.array(ends, dtype=np.uint64)

    @cached_property
    def uniqueness(self) -> NDArray[np.float64]:
        """For each set, the share of records with a unique combination: the same share of another sample from the
        distribution would have none of these combinations (Good and Turing)."""
        return np.array([(counts == 1).sum() / max(1, counts.sum()) for counts in self.counts])

    @cached_property
    def agreement(self) -> NDArray[np.float64]:
        """For each column, the probability that two records have the same value there; 0 if it has many values."""
        shares = [
            counts / counts.sum() if len(counts) < self.limit else np.zeros(1) for counts in self.counts[: self.columns]
        ]
        return np.array([(share**2).sum() for share in shares])


def list_sets(columns: int) -> list[tuple[int, ...]]:
    """The sets of columns in a sketch: each, each pair, all, and all but one; of a narrow table also all but two."""
    least = columns - (2 if columns <= _NARROW else 1)
    sizes = [1, 2, *range(max(3, least), columns + 1)]
    return [chosen for size in sizes for chosen in combinations(range(columns), size)]


Coded = tuple[Words, NDArray[np.int32]]
"""A column of some records: the hashes of its different values, and the place of each record's value among them."""


class Sketcher:
    """Makes the sketch of a table from batches of its records."""

    def __init__(self) -> None:
        self._records = self._limit = 0
        self._chosen: list[int] = []
        self._smallest: list[_Smallest] = []

    def add(self, columns: Sequence[Coded]) -> None:
        """Add records. The first ones show which columns of a wide table have the most values."""
        if not self._smallest:
            by_values = sorted(range(len(columns)), key=lambda number: -len(columns[number][0]))
            self._chosen = sorted(by_values[:MOST_COLUMNS])
            sets = len(list_sets(len(self._chosen)))
            self._limit = min(_MOST, max(_FEWEST, _COMBINATIONS // sets))
            self._smallest = [_Smallest(self._limit) for _ in range(sets)]
        chosen, records = [columns[number] for number in self._chosen], len(columns[0][1])
        # The first records show how small a hash must be.
        for part in (slice(_FIRST), slice(_FIRST, None)) if self._records == 0 else (slice(None),):
            self._add([(words, codes[part]) for words, codes in chosen])
        self._records += records

    def _add(self, coded: Sequence[Coded]) -> None:
        columns = [words[codes] for words, codes in coded]
        every = np.add.reduce(columns)
        for chosen, smallest in zip(list_sets(len(columns)), self._smallest, strict=True):
            if math.prod(len(coded[number][0]) for number in chosen) <= _FEW_VALUES:
                smallest.merge(*_count_combinations([coded[number] for number in chosen]))
            elif len(chosen) <= 2:
                smallest.add(np.add.reduce([columns[number] for number in chosen]))
            else:
                rest = every
                for number in set(range(len(columns))).difference(chosen):
                    rest = rest - columns[number]
                smallest.add(rest)

    def finish(self) -> TableSketch:
        found = self._smallest
        return TableSketch(
            self._records,
            len(self._chosen),
            self._limit,
            tuple(smallest.hashes for smallest in found),
            tuple(smallest.counts.astype(np.uint32) for smallest in found),
        )


def _count_combinations(coded: Sequence[Coded]) -> tuple[Words, NDArray[np.int64]]:
    """The hashes of the combinations of values that occur, with the frequency of each."""
    codes, words = np.zeros(len(coded[0][1]), dtype=np.int64), np.zeros(1, dtype=np.uint64)
    for of_values, of_records in coded:
        codes = codes * len(of_values) + of_records
        words = np.add.outer(words, of_values).ravel()
    counts = np.bincount(codes)
    present = np.flatnonzero(counts)
    return words[present], counts[present]


class _Smallest:
    """The smallest of many hashes, with the frequency of each."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.hashes = np.empty(0, dtype=np.uint64)
        self.counts = np.empty(0, dtype=np.int64)

    def add(self, hashes: Words) -> None:
        if len(self.hashes) == self._limit:
            hashes = hashes[hashes <= self.hashes[-1]]
        if not len(hashes):
            return
        self.merge(*np.unique(hashes, return_counts=True))

    def merge(self, new: Words, counts: NDArray[np.int64]) -> None:
        joined, places = np.unique(np.concatenate([self.hashes, new]), return_inverse=True)
        sums = np.zeros(len(joined), dtype=np.int64)
        np.add.at(sums, places, np.concatenate([self.counts, counts]))
        self.hashes, self.counts = joined[: self._limit], sums[: self._limit]


def merge(sketches: Sequence[TableSketch]) -> TableSketch | None:
    """The sketch of all records of tables with the same columns in the same order, as if they had been one table; None
    for wide tables, whose compared columns may differ.

    A hash that is among the smallest of all is among the smallest of each table that has it, with all its records.
    """
    first = sketches[0]
    if first.columns == MOST_COLUMNS or any(
        (each.columns, each.limit) != (first.columns, first.limit) for each in sketches
    ):
        return None
    found = [_Smallest(first.limit) for _ in first.sets]
    for each in sketches:
        for smallest, hashes, counts in zip(found, each.hashes, each.counts, strict=True):
            smallest.merge(hashes, counts.astype(np.int64))
    return TableSketch(
        sum(each.records for each in sketches),
        first.columns,
        first.limit,
        tuple(smallest.hashes for smallest in found),
        tuple(smallest.counts.astype(np.uint32) for smallest in found),
    )


def to_bytes(sketches: Sequence[TableSketch]) -> bytes:
    """Sketches as bytes: for each its records, columns and limit, then its content for each set."""
    parts: list[NDArray[np.generic]] = []
    for one in sketches:
        sizes = [len(hashes) for hashes in one.hashes]
        parts += [np.array([one.records, one.columns, one.limit, *sizes], dtype="<i8")]
        parts += [*(hashes.astype("<u8") for hashes in one.hashes), *(counts.astype("<u4") for counts in one.counts)]
    return b"".join(part.tobytes() for part in parts)


def from_bytes(content: bytes) -> tuple[TableSketch, ...]:
    sketches, place = [], 0

    def take(kind: str, number: int) -> NDArray[Any]:
        nonlocal place
        taken = np.frombuffer(content, dtype=kind, count=number, offset=place)
        place += taken.nbytes
        return taken

    while place < len(content):
        records, columns, limit = take("<i8", 3).tolist()
        sizes = take("<i8", len(list_sets(columns))).tolist()
        hashes, counts = (tuple(take(kind, size) for size in sizes) for kind in ("<u8", "<u4"))
        sketches.append(TableSketch(records, columns, limit, hashes, counts))
    return tuple(sketches)


def compute_overlap(one: Sequence[TableSketch], other: Sequence[TableSketch]) -> float:
    """The share of people that two datasets have in common, judged by the tables that have most in common; 0 if too
    little can be compared. It is the share of the smaller table's records with combinations of values that distinguish
    records and also occur in the larger table; or the share of combinations that equally many records of both tables
    have. A table whose records are all repeated equally often is also compared without the repetitions."""
    ours, theirs = ([version for sketch in of for version in _list_versions(sketch)] for of in (one, other))
    return max((_compare(left, right) for left in ours for right in theirs), default=0.0)


def _list_versions(sketch: TableSketch) -> Iterator[TableSketch]:
    yield sketch
    for times in _TIMES:
        reduced = _reduce(sketch, times)
        while reduced:
            yield reduced
            sketch, reduced = reduced, _reduce(reduced, times)


def _reduce(sketch: TableSketch, times: int) -> TableSketch | None:
    """The sketch of a table that keeps one of every `times` equal records; None unless the numbers of records are
    multiples. There may be one record more or fewer, and keys may have been replaced: columns whose numbers are not
    multiples stay as they are."""
    others = [np.count_nonzero(counts % times) for counts in sketch.counts]
    sizes = [len(counts) for counts in sketch.counts]
    whole = {
        column
        for column, size in enumerate(sizes[: sketch.columns])
        if others[column] < size and others[column] <= 1 + _OTHERS * size
    }
    pairs = [place for place, chosen in enumerate(sketch.sets) if len(chosen) == 2 and whole.issuperset(chosen)]
    combinations_of_pairs = sum(sizes[place] for place in pairs)
    if sketch.records < times * _FEWEST_COMPARED or combinations_of_pairs * math.log2(times) < _FEWEST_BITS:
        return None
    if sum(others[place] for place in pairs) > len(pairs) + _OTHERS * combinations_of_pairs:
        return None
    counts = tuple(
        np.maximum(1, (counts + times // 2) // times) if whole.issuperset(chosen) else counts
        for chosen, counts in zip(sketch.sets, sketch.counts, strict=True)
    )
    return replace(sketch, records=sketch.records // times, counts=counts)


def _compare(one: TableSketch, other: TableSketch) -> float:
    few, many = sorted((one, other), key=lambda sketch: sketch.columns)
    known = _find_known_columns(few, many)
    if known.sum() < 2:
        return 0.0
    shares = [_compare_pairs(few, many, known), _compare_large_sets(few, many, known)]
    computed = [share for share in shares if share is not None]
    return max(sum(computed) / max(1, len(computed)), _compare_frequencies(few, many, known))


def _find_known_columns(few: TableSketch, many: TableSketch) -> NDArray[np.bool_]:
    """Whether most values of each column occur in a column of the other table, or vice versa. Very few values, such as
    0 and 1, occur in many columns: in tables of about the same size, they must be most values of both columns."""
    alike = min(few.records, many.records) >= SHARE * max(few.records, many.records)
    known = np.zeros(few.columns, dtype=np.bool_)
    for column in range(few.columns):
        matches = [_match(few, column, many, candidate) for candidate in range(many.columns)]
        known[column] = any(
            match.common
            >= max(1, SHARE * (match.most if alike and match.compared < _FEWEST_OF_COLUMN else match.compared))
            for match in matches
        )
    return known


@dataclass(frozen=True)
class _Match:
    """A set of columns, compared with the set of another table that has most combinations in common with it, whose
    `uniqueness` is 1 if no set has any. Up to the lesser limit of both sketches, the set with fewer combinations has
    `compared` of them, and the other has `most`; `common` is the number in both. `equal` has, for each combination that
    equally many records of both tables have, that number of records."""

    uniqueness: float
    compared: int
    most: int
    common: int
    equal: NDArray[np.uint32]


def _match(few: TableSketch, place: int, many: TableSketch, candidate: int) -> _Match:
    end = min(few.ends[place], many.ends[candidate])
    ours, theirs = few.hashes[place], many.hashes[candidate]
    sizes = [int(np.searchsorted(hashes, end, "right")) for hashes in (ours, theirs)]
    _, at, other_at = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    counts = few.counts[place][at]
    equal = counts[counts == many.counts[candidate][other_at]]
    return _Match(float(many.uniqueness[candidate]), min(sizes), max(sizes), len(at), equal)


def _match_sets(
    few: TableSketch, many: TableSketch, known: NDArray[np.bool_], sizes: range, *, unique: bool
) -> Iterator[tuple[list[int], _Match]]:
    """The sets of known columns that distinguish records (`unique`), or do not, each with its match in the other
    table."""
    for size in sizes:
        places = [
            place
            for place, chosen in enumerate(few.sets)
            if len(chosen) == size and known[list(chosen)].all() and (few.uniqueness[place] >= _UNIQUE) == unique
        ]
        candidates = [place for place, chosen in enumerate(many.sets) if len(chosen) == size]
        if not places or not candidates:
            continue
        pool, counts = (np.concatenate([of[place] for place in candidates]) for of in (many.hashes, many.counts))
        order = np.argsort(pool, kind="stable")
        owners = np.repeat(candidates, [len(many.hashes[candidate]) for candidate in candidates])[order]
        pool, counts = pool[order], counts[order]
        usual = sorted(candidates, key=lambda candidate: many.ends[candidate])[len(candidates) // 2]
        for place in places:
            first, last = (np.searchsorted(pool, few.hashes[place], side) for side in ("left", "right"))
            found = np.concatenate([np.arange(*pair) for pair in zip(first, last, strict=True)])
            equal = counts[found] == np.repeat(few.counts[place], last - first)
            # Combinations with equally many records count first, then all that occur.
            scores = np.bincount(owners[found], weights=np.where(equal, 2 * _MOST, 1))
            likely = np.argsort(-scores, kind="stable")[: min(_CANDIDATES, np.count_nonzero(scores))]
            matches = [_match(few, place, many, int(candidate)) for candidate in likely]
            match = max(matches, key=lambda match: (len(match.equal), match.common), default=None)
            if match is None:
                match = replace(_match(few, place, many, usual), uniqueness=1.0)
            yield list(few.sets[place]), match


def _compare_pairs(few: TableSketch, many: TableSketch, known: NDArray[np.bool_]) -> float | None:
    """The share of records of a table that are in the other one, by pairs of columns; None if too few are compared.
    Agreement by chance is subtracted: files number their records alike, so records with the same number sometimes have
    the same value."""
    common, compared, combinations_compared = np.zeros(few.columns), np.zeros(few.columns), 0
    for chosen, match in _match_sets(few, many, known, range(2, 3), unique=True):
        if match.uniqueness >= _UNIQUE:
            chance = max(1 - match.uniqueness, few.agreement[chosen].max())
            common[chosen] += match.common - chance * match.compared
            compared[chosen] += (1 - chance) * match.compared
            combinations_compared += match.compared
    return _judge_columns(common, compared) if combinations_compared >= _FEWEST_COMPARED else None


def _compare_large_sets(few: TableSketch, many: TableSketch, known: NDArray[np.bool_]) -> float | None:
    """The same by sets of three columns or more."""
    common, compared = 0.0, 0.0
    for _, match in _match_sets(few, many, known, range(3, many.columns + 1), unique=True):
        if match.uniqueness >= _UNIQUE:
            common += match.common - (1 - match.uniqueness) * match.compared
            compared += match.uniqueness * match.compared
    return max(0.0, common / compared) if compared >= _FEWEST_COMPARED else None


def _compare_frequencies(few: TableSketch, many: TableSketch, known: NDArray[np.bool_]) -> float:
    """The share of the combinations of two columns that equally many records of both tables have; 0 if unknown."""
    equal, compared, bits = np.zeros(few.columns), np.zeros(few.columns), 0.0
    # Where all records have the same value, the only frequency is the number of records.
    known = known & (few.agreement < 1)
    for chosen, match in _match_sets(few, many, known, range(2, 3), unique=False):
        equal[chosen] += len(match.equal)
        compared[chosen] += match.most
        bits += float(np.log2(1 + np.sqrt(4 * np.pi * match.equal)).sum())
    return (_judge_columns(equal, compared) or 0.0) if bits >= _FEWEST_BITS else 0.0


def _judge_columns(equal: NDArray[np.float64], compared: NDArray[np.float64]) -> float | None:
    """The share that three of four columns reach, as places and designs are alike in files about different people."""
    enough = compared >= _FEWEST_OF_COLUMN
    shares = equal[enough] / compared[enough]
    return max(0.0, float(np.quantile(shares, 0.25, method="lower"))) if len(shares) else None
