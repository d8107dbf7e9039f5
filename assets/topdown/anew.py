"""New estimates from the noisy measurements that this project or the Census Bureau published: histograms as arrays, and
tables with intervals as files. This module reads no records and charges no budget."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from assets.publication.tables import PublishedTables
from assets.release.signature import SignedFolder, altered_files, read_public_key
from assets.topdown.asking import (
    Measured,
    PlacesError,
    inform_levels,
    list_all_families,
    list_families,
    read_measured,
    read_published,
)
from assets.topdown.bureau import read_bureau
from assets.topdown.ways import Estimation
from mechanisms.topdown.decomposition import Decomposition
from mechanisms.topdown.estimation import estimate_families
from mechanisms.topdown.feasibility import FREE, Limits, limit_by_occupancy
from mechanisms.topdown.information import (
    descend,
    find_standard_errors,
    finish_root,
    inform_finest,
    prepare_sums,
    round_intervals,
    sum_cells,
)
from mechanisms.topdown.leaning import estimate_spreads, lean, measure_spread
from mechanisms.topdown.least_squares import NotSolvedError
from mechanisms.topdown.redistricting import REDISTRICTING, RedistrictingTable
from mechanisms.topdown.rounding import NotRoundedError
from mechanisms.topdown.schema import HOUSEHOLDS, PERSONS, TOTAL, UNITS, UNITS_BY_OCCUPANCY

_PLACES_AT_A_TIME = 4096


@dataclass(frozen=True)
class Histograms:
    """Estimated histograms of all places.

    Attributes:
        histograms: by level, nonnegative int64, shape (places, cells). Parents are the sums of their children.
        gap, violation: the largest duality gap of a real-valued solution, and the largest violation of a constraint.
    """

    histograms: Mapping[str, NDArray[np.int64]]
    gap: float
    violation: float


def walk(
    measured: Measured,
    limits: Sequence[Limits],
    total_first: tuple[str, ...] = (),
    types_first: str | None = None,
    *,
    full: bool = False,
    units: NDArray[np.int64] | None = None,
) -> Histograms:
    """Estimate down the tree within `limits`. If `full`, first collect information up the tree, within the limits of
    the measurements. The finest places may lean on their housing units."""
    schema, levels = measured.schema, list(measured.tree)
    of_levels = list_families(measured, total_first)
    informed = inform_levels(of_levels) if full or types_first else [None] * len(levels)
    histograms: dict[str, NDArray[np.int64]] = {}
    gap, violation, counts = 0.0, 0.0, None
    for level, families, information, of_level in zip(levels, of_levels, informed, limits, strict=True):
        hold = types_first is not None and types_first not in histograms
        below = replace(families, limits=of_level, histograms=counts, information=information, hold=hold)
        if units is not None and level == levels[-1]:
            parents = [np.asarray(places) for places in list(measured.tree.values())[1:]]
            below = lean(below, units, estimate_spreads(measure_spread(below, units), levels, parents))
        children = estimate_families(below)
        counts = np.zeros((len(of_level.totals), schema.size), dtype=np.int64)
        counts[children.children, children.cells] = children.counts
        histograms[level] = counts
        gap, violation = max(gap, children.gap), max(violation, children.violation)
    return Histograms(histograms, gap, violation)


def estimate_units(units: Measured, persons: Histograms | None) -> Histograms:
    """Units that agree with persons estimated with full information; without `persons`, estimated from their own
    levels."""
    if persons is None:
        return walk(units, units.limits)
    levels = list(units.tree)
    parents = [np.asarray(places, dtype=np.int64) for places in list(units.tree.values())[1:]]
    households = PERSONS.groups.answer(persons.histograms[levels[-1]])[:, HOUSEHOLDS]
    free = limit_by_occupancy(levels, parents, units.limits)
    limits = limit_by_occupancy(levels, parents, units.limits, households)
    return walk(replace(units, schema=UNITS_BY_OCCUPANCY, limits=free), limits, full=True)


def estimate_both(
    measured: Mapping[str, Measured], total_first: tuple[str, ...], types_first: str | None, *, leaning: bool
) -> dict[str, Histograms]:
    """Persons and units; under full information, the units agree with the persons. Raises PlacesError if persons cannot
    lean on the number of housing units of each of the finest places."""
    persons, units = measured[PERSONS.name], measured[UNITS.name]
    stock = units.limits[-1].totals if leaning else None
    if stock is not None and (not types_first or (stock == FREE).any()):
        raise PlacesError("lean_on_housing_units: with types_first, and where housing units are published exactly")
    of_persons = walk(persons, persons.limits, total_first, types_first, units=stock)
    return {PERSONS.name: of_persons, UNITS.name: estimate_units(units, of_persons if types_first else None)}


def estimate_as(measured: Mapping[str, Measured], estimation: Estimation) -> dict[str, Histograms]:
    """Persons and units; under full estimation, the units agree with the persons. Raises DeclarationError as
    `Estimation.complete`, and PlacesError if the options do not suit the measurements or the estimation fails."""
    types_first = estimation.complete(list(measured[PERSONS.name].tree)).types_first
    if not estimation.full and not all(answers for own in measured.values() for answers in own.measurements.values()):
        raise PlacesError("own_levels: a level without measurements is estimated with full information alone")
    queries = measured[PERSONS.name].measurements
    with_totals = [level for level in list(queries)[:-1] if any(each.query == TOTAL for each in queries[level])]
    total_first = () if types_first else tuple(with_totals)
    try:
        return estimate_both(measured, total_first, types_first, leaning=estimation.leaning)
    except (NotSolvedError, NotRoundedError) as error:
        raise PlacesError(f"the measurements cannot be estimated so: {error}") from None


@dataclass(frozen=True)
class Source:
    """A folder of published noisy measurements: a publication, verified if there is a public key, or the Census
    Bureau's files, with the published population of every state by its two-digit code."""

    folder: Path
    populations: Mapping[str, int]
    key: Path | None = None

    def read(self) -> dict[str, Measured]:
        """Raises PlacesError, FilesError and VerificationError, and InfeasibleError as `read_bureau`."""
        if not self.folder.is_dir():
            raise PlacesError(f"{self.folder}: there is no such folder")
        if not (self.folder / "spine.parquet").exists():
            if not any(path.is_dir() for path in self.folder.glob("*_Person_PL_*")):
                raise PlacesError(
                    f"{self.folder}: neither a published redistricting release, with spine.parquet, nor the Census "
                    "Bureau's noisy measurement files, with a folder such as US_Person_PL_PROD"
                )
            if self.key:
                raise PlacesError(f"{self.folder}: the Census Bureau's files are not signed; leave the key out")
            return read_bureau(self.folder, self.populations)
        if self.populations:
            raise PlacesError(f"{self.folder}: a publication says itself how many persons a state has")
        return read_measured(PublishedTables.of(self.verify(self.key))) if self.key else read_published(self.folder)

    def verify(self, key: Path) -> SignedFolder:
        """The publication as it was signed. Raises PlacesError unless it is intact, and VerificationError."""
        public_key = read_public_key(key)
        if problems := altered_files(self.folder, public_key):
            raise PlacesError(f"{self.folder}: the publication is not intact: {problems[0]}")
        # Files may have been exchanged since.
        return SignedFolder.open(self.folder, public_key)


def write_anew(source: Source, target: Path, estimation: Estimation) -> list[str]:
    """Estimate the tables anew and write them, with a README, into a new folder. Return the names of the files.

    Raises PlacesError if the options conflict, the folder exists or the estimation fails, and errors as `Source.read`.
    A failure leaves no partial folder.
    """
    if target.exists():
        raise PlacesError(f"{target}: it exists; name a new folder")
    measured = source.read()
    levels = list(measured[PERSONS.name].tree)
    estimation = estimation.complete(levels)
    estimated = estimate_as(measured, estimation)
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}") as made:
        folder = Path(made) / "tables"
        folder.mkdir()
        write_tables(measured, estimated, folder)
        (folder / "README.txt").write_text(
            _README.format(
                folder=source.folder.name,
                verified="whose signature was verified" if source.key else "whose signature was not verified",
                how=str(estimation),
                levels=", ".join(levels),
            ),
            encoding="utf-8",
        )
        folder.rename(target)
    return sorted(path.name for path in target.iterdir())


_README = """\
Redistricting tables estimated anew from published noisy measurements
=====================================================================

Source: the folder {folder}, {verified}.
Estimation: {how}.
Levels: {levels}.

No record was read and no budget was charged: whatever is computed from published measurements has their privacy
guarantee. This is no publication of the office that measured, and is not signed.

p1.csv and p1.parquet (and so on): the estimated counts of every place, which agree between tables and levels.
p1_intervals.parquet (and so on): a row for every place and cell, with the best linear unbiased estimate from all
measurements, its standard error, and the ends of a 90% interval around it. These need not add up.
cells.csv: the title and universe of each table, and the label of each cell.

pandas:
  pandas.read_csv('p1.csv', dtype={{'level': 'str', 'geoid': 'str'}})
"""


def write_tables(measured: Mapping[str, Measured], estimated: Mapping[str, Histograms], folder: Path) -> None:
    """Write the redistricting tables into a folder: `p1.csv` and `p1.parquet` with the estimated counts of every place,
    and `p1_intervals.parquet` with a row for every place and cell: the best linear unbiased estimate from all
    measurements, its standard error, and the ends of a 90% interval around it."""
    for table in REDISTRICTING.values():
        rows = count_cells(table, measured[table.schema.name], estimated[table.schema.name])
        pa.csv.write_csv(rows, folder / f"{table.name.lower()}.csv")
        pq.write_table(rows, folder / f"{table.name.lower()}.parquet", compression="zstd")
    with ExitStack() as opened:
        writers: dict[str, pq.ParquetWriter] = {}
        for cells in bound_cells(measured):
            rows = _list_rows(cells)
            name = cells.table.name
            if name not in writers:
                path = folder / "_".join([name.lower(), "intervals.parquet"])
                writers[name] = opened.enter_context(pq.ParquetWriter(path, rows.schema, compression="zstd"))
            writers[name].write_table(rows)
    described = [
        {"table": table.name, "title": table.title, "universe": table.universe, "cell": cell.name, "label": cell.label}
        for table in REDISTRICTING.values()
        for cell in table.cells
    ]
    pa.csv.write_csv(pa.Table.from_pylist(described), folder / "cells.csv")


def count_cells(table: RedistrictingTable, measured: Measured, estimated: Histograms) -> pa.Table:
    """A row for each place with its level and code, and the estimated count of each cell of a table."""
    counted = np.array([cell.counted for cell in table.cells])
    counts = [
        _places(level, measured.codes[level])
        | {cell.name: column for cell, column in zip(table.cells, (of_level @ counted.T).T, strict=True)}
        for level, of_level in estimated.histograms.items()
    ]
    return pa.concat_tables(map(pa.table, counts))


@dataclass(frozen=True)
class Bounded:
    """The linear estimates of the cells of a table in some places of a level, their variances, and the ends of the
    intervals around them, shape (places, cells)."""

    table: RedistrictingTable
    level: str
    codes: Sequence[str]
    estimate: NDArray[np.float64]
    variance: NDArray[np.float64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]


def bound_cells(measured: Mapping[str, Measured]) -> Iterator[Bounded]:
    """The linear estimates of the cells of all redistricting tables, level by level, in batches of places."""
    for schema in (PERSONS, UNITS):
        of_schema = [table for table in REDISTRICTING.values() if table.schema is schema]
        yield from _bound_cells(measured[schema.name], of_schema)


def _places(level: str, codes: Sequence[str]) -> dict[str, Any]:
    return {"level": pa.repeat(level, len(codes)), "geoid": pa.array(codes, pa.string())}


def _list_rows(cells: Bounded) -> pa.Table:
    size = len(cells.table.cells)
    columns = {
        "level": pa.repeat(cells.level, cells.estimate.size),
        "geoid": pa.array(np.repeat(np.array(cells.codes, dtype=object), size), pa.string()),
        "cell": pa.array([cell.name for cell in cells.table.cells] * len(cells.codes)),
        "linear_estimate": cells.estimate.ravel(),
        "standard_error": find_standard_errors(cells.variance).ravel(),
        "linear_lower": cells.lower.ravel(),
        "linear_upper": cells.upper.ravel(),
    }
    return pa.table(columns)


def _bound_cells(measured: Measured, tables: Sequence[RedistrictingTable]) -> Iterator[Bounded]:
    families = list_all_families(measured)
    informed = inform_levels(families)
    split = Decomposition(families[0].schema)
    sums = {table.name: prepare_sums(split, np.array([cell.counted for cell in table.cells])) for table in tables}
    most = {table.name: np.full((1, len(table.cells)), np.inf) for table in tables}
    linear = finish_root(informed[0] or inform_finest(families[0]), families[0])
    for level, own, information in zip(measured.tree, families, informed, strict=True):
        if level != next(iter(measured.tree)):
            linear = descend(linear, own, information or inform_finest(own))
        above = np.repeat(np.arange(len(own.starts) - 1), np.diff(own.starts))
        for table in tables:
            ends = np.empty((len(above), len(table.cells)))
            for first in range(0, len(above), _PLACES_AT_A_TIME):
                places = slice(first, first + _PLACES_AT_A_TIME)
                estimate, variance = sum_cells(sums[table.name], linear.between(first, min(places.stop, len(above))))
                lower, upper = round_intervals(estimate, variance, most[table.name][above[places]])
                ends[places] = upper
                yield Bounded(table, level, measured.codes[level][places], estimate, variance, lower, upper)
            most[table.name] = ends
