"""Attacks on tables of counts, and their success: reconstruction, matching, guessers, and the gain from one record.

`reconstruct` and `match` are attacks, which read tables and the attacker's knowledge. All other measures compare with
the true records. They are for evaluations: their results have no DP guarantee, so do not publish them for confidential
records. The component `Laboratory` runs these attacks on many draws of many methods.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.risk import baselines
from mechanisms.risk.matching import match_persons
from mechanisms.risk.reconstruction import NotSolvedError, System, measure_variability
from mechanisms.risk.tiers import Tier
from stirred.noise import read_counts
from stirred.results import Frame, frame_kind, is_missing, read_column, read_frame, write_frame

__all__ = [
    "Matches",
    "NotSolvedError",
    "Reconstruction",
    "guess_by_mode",
    "guess_by_share",
    "match",
    "measure_gain",
    "reconstruct",
]

COUNT = "count"


@dataclass(frozen=True, repr=False, eq=False)
class Reconstruction:
    """Records that have all published counts: in `table`, one row for each kind that occurs, with its `count`.

    Attributes:
        variability: the greatest share of the records, from 0 to 1, in which another solution differs; if it is 0, the
            tables determine the records.
    """

    arrow: pa.Table
    kind: str
    variability: float
    _system: System = field(repr=False)
    _solutions: tuple[NDArray[np.int64], NDArray[np.int64]] = field(repr=False)

    @property
    def table(self) -> Any:
        return write_frame(self.arrow, self.kind)

    @property
    def records(self) -> int:
        return int(self._solutions[0].sum())

    @cached_property
    def provable(self) -> int:
        """The number of records that every solution has, by an integer program for each kind that could change."""
        return self._system.count_provable(*self._solutions)

    def measure_agreement(self, records: Frame) -> float:
        """The share of the true records, one in each row, that the reconstruction contains. Raises KeyError if the
        records lack one of its columns."""
        columns = [name for name in self.arrow.column_names if name != COUNT]
        found = Counter(dict(zip(_rows(self.arrow, columns), self.arrow[COUNT].to_pylist(), strict=True)))
        true = Counter(_rows(read_frame(records), columns))
        return (found & true).total() / max(1, true.total())

    def __repr__(self) -> str:
        return (
            f"{self.records:,} records of {self.arrow.num_rows:,} kinds; "
            f"other solutions differ in up to {self.variability:.0%} of them"
        )


def reconstruct(tables: Sequence[Frame], categories: Mapping[str, Sequence[Any]]) -> Reconstruction:
    """Records behind exact tables, by an integer program (HiGHS), as in the Census Bureau's "A Simulated Reconstruction
    and Reidentification Attack on the 2010 U.S. Census", Supplement, Equations 4.1 and 4.6.

    Args:
        tables: each with some of the variables as columns, and `count`. All tables count the same records. Combinations
            without a row have the count 0.
        categories: by variable, all possible values. The program has an unknown for each combination that no count of 0
            rules out.

    Raises NotSolvedError if no records have these counts, as for noisy counts, KeyError for a table without `count`,
    and ValueError for an unknown column or value, a repeated row, a negative count, or no table.
    """
    if not tables:
        raise ValueError("there is no table")
    names, shape = list(categories), tuple(map(len, categories.values()))
    places = dict(zip(names, np.indices(shape).reshape(len(shape), -1), strict=True))
    cells, counts = {}, []
    for number, table in enumerate(map(read_frame, tables)):
        by = [name for name in table.column_names if name != COUNT]
        if unknown := [name for name in by if name not in categories]:
            raise ValueError(f"{unknown[0]} is none of the variables {', '.join(names)}")
        sizes = [len(categories[name]) for name in by]
        cell = np.ravel_multi_index([places[name] for name in by], sizes) if by else np.zeros(prod(shape), np.int64)
        cells[str(number)] = cell.astype(np.int32)[:, None]
        counts.append(_read_cells(table, by, categories))
    tier = Tier("", "", tuple(map(str, range(prod(shape)))), cells, categories=("",))
    published = np.concatenate(counts)
    system = System.of(tier, published)
    solution = system.reconstruct()
    histogram = np.zeros((1, prod(shape), 1), dtype=np.int64)
    histogram[0, system.types, 0] = solution
    # The program leaves out a second count of the same kinds.
    if not np.array_equal(tier.tabulate(histogram)[0], published):
        raise NotSolvedError("no histogram of records has the published counts")
    other = system.differ_most(solution)
    occurring = np.flatnonzero(solution)
    columns = {
        name: pa.array(list(categories[name])).take(pa.array(places[name][system.types[occurring]])) for name in names
    }
    arrow = pa.table(columns | {COUNT: solution[occurring]})
    return Reconstruction(arrow, frame_kind(tables[0]), measure_variability(solution, other), system, (solution, other))


@dataclass(frozen=True, repr=False, eq=False)
class Matches:
    """The expected result of linking persons to records.

    Attributes:
        values: the values of the wanted column, as in the records.
        shares: for each person, the probability of a match with a record of each value, shape (persons, values); their
            sum is the probability of any match.
    """

    values: tuple[Any, ...]
    shares: NDArray[np.float64]

    @property
    def named(self) -> float:
        """The expected number of matched persons."""
        return float(self.shares.sum())

    def score(self, truth: Sequence[Any]) -> NDArray[np.float64]:
        """For each person, the probability that the match is right, given the true values, shape (persons,). Its sum is
        the expected number of confirmed matches, and this sum divided by `named` is the precision."""
        true = [None if is_missing(own) else own for own in truth]
        hits = np.array([[value == own for value in self.values] for own in true]).reshape(self.shares.shape)
        return np.asarray((self.shares * hits).sum(axis=1))


def match(persons: Frame, records: Frame, *, known: Sequence[str], wanted: str) -> Matches:
    """Link an attacker's persons to records that agree on the known columns, one to one in random order: expectations
    instead of one random matching (the same Supplement, Algorithms 3 and 4).

    Args:
        persons: one in each row, with the columns `known`.
        records: such as `Reconstruction.table`, with `known`, `wanted` and, if rows stand for several records, `count`.

    Raises KeyError for a missing column.
    """
    theirs, ours = read_frame(records), read_frame(persons)
    weights = read_counts(theirs[COUNT].to_numpy() if COUNT in theirs.column_names else np.ones(len(theirs), np.int64))
    values, value_of = _number(read_column(theirs, wanted).to_pylist())
    frame, frame_of = _number(_rows(ours, known))
    counts = np.zeros((len(frame_of), len(value_of)), dtype=np.int64)
    for row, value, weight in zip(_rows(theirs, known), values.tolist(), weights.tolist(), strict=True):
        if row in frame_of:
            counts[frame_of[row], value] += weight
    return Matches(tuple(value_of), match_persons(np.bincount(frame, minlength=len(frame_of)), counts)[frame])


def guess_by_mode(records: Frame, *, place: Sequence[str], wanted: str) -> NDArray[np.float64]:
    """For each record, the probability that a guess of the most frequent wanted value among the others of its place is
    right: a baseline of an attacker who knows all other records. Ties are broken at random; for the only record of a
    place, the guess is the mode of all others. Raises KeyError for a missing column."""
    return baselines.guess_by_mode(*_encode(records, place, wanted))


def guess_by_share(records: Frame, *, place: Sequence[str], wanted: str) -> NDArray[np.float64]:
    """As `guess_by_mode`, for a guess drawn from the distribution of the wanted value among the others of its place."""
    return baselines.guess_by_share(*_encode(records, place, wanted))


def measure_gain(
    records: Frame,
    publish: Callable[[pa.Table], Any],
    attack: Callable[[Any, Mapping[str, Any]], Mapping[Any, float]],
    *,
    wanted: str,
    targets: Sequence[int],
) -> NDArray[np.float64]:
    """The gain of an attacker from a target's participation, shape (targets,): the probability of the right guess from
    a publication of all records, minus the same probability from a publication without the target, made separately for
    each target.

    Args:
        publish: the publication of records, given as an Arrow table. A random mechanism must start from the same key at
            each call, so that only the target makes the difference.
        attack: from a publication and the target's other columns, the probability of each wanted value.
        targets: the positions of records.

    Raises KeyError for a missing column, and IndexError for a position without a record.
    """
    table = read_frame(records)
    everybody, gains = publish(table), []
    for target in targets:
        if not 0 <= target < table.num_rows:
            raise IndexError(f"there is no record {target}")
        (row,) = table.slice(target, 1).to_pylist()
        own = row.pop(wanted)
        others = publish(pa.concat_tables([table.slice(0, target), table.slice(target + 1)]))
        gains.append(attack(everybody, row).get(own, 0.0) - attack(others, row).get(own, 0.0))
    return np.array(gains, dtype=np.float64)


def _rows(table: pa.Table, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(read_column(table, name).to_pylist() for name in columns), strict=True)) or [()] * (
        0 if columns else table.num_rows
    )


def _read_cells(table: pa.Table, by: Sequence[str], categories: Mapping[str, Sequence[Any]]) -> NDArray[np.int64]:
    """The counts of all combinations of some variables, shape (combinations,), from the rows of a table."""
    counts = read_counts(table[COUNT].to_numpy())
    codes = [{value: code for code, value in enumerate(categories[name])} for name in by]
    sizes = [len(categories[name]) for name in by]
    found = np.zeros(prod(sizes), dtype=np.int64)
    seen = set[int]()
    for row, count in zip(_rows(table, by), counts.tolist(), strict=True):
        if unknown := [name for name, code, value in zip(by, codes, row, strict=True) if value not in code]:
            raise ValueError(f"{unknown[0]}: a value of a table is not among the categories")
        cell = (
            int(np.ravel_multi_index([code[value] for code, value in zip(codes, row, strict=True)], sizes)) if by else 0
        )
        if cell in seen or count < 0:
            raise ValueError("a table has one row for each combination, with a count of 0 or more")
        seen.add(cell)
        found[cell] = count
    return found


def _encode(records: Frame, place: Sequence[str], wanted: str) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """The codes of places and of wanted values by record, and the number of values."""
    table = read_frame(records)
    (places, _), (values, value_of) = _number(_rows(table, place)), _number(read_column(table, wanted).to_pylist())
    return places, values, len(value_of)


def _number(keys: Sequence[Any]) -> tuple[NDArray[np.int64], dict[Any, int]]:
    """The number of each item, in the order in which the keys first occur, and the number by key."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.int64), numbers
