"""Small countries in tables: spine, invariants and measurements of a TopDown release, written without its stages.

Tests of single TopDown stages build on them: places with the truth about them, and the public tables that earlier
stages would have written.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from numpy.typing import NDArray

from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.measurement.method import MEASUREMENTS
from assets.release.draw import DRAWN
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.measurements import measurements_table, read_streams
from assets.topdown.release import INVARIANTS, SPINE, TopDownRelease
from assets.topdown.spine import count_places, read_states
from mechanisms.sampling.noise import Noise
from mechanisms.topdown.allocation import allocate
from mechanisms.topdown.design import GROUP_QUARTERS, HOUSING_UNITS, POPULATION, SCHEMAS, TopDownDesign
from mechanisms.topdown.schema import PERSONS
from resources.custody import Custody
from resources.packed import pack
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

CODES = {"Nation": (), "State": ("TABBLKST",), "County": ("TABBLKCOU",), "Block": ("TABBLK",)}
PRODUCTION_LIKE = {POPULATION: "State", HOUSING_UNITS: "Block", GROUP_QUARTERS: "Block"}
TYPES = PERSONS.groups.size
QUERIES = ("total", "hhgq", "hispanic", "votingage * hispanic")


@dataclass(frozen=True)
class Country:
    """Places and the truth about them.

    Attributes:
        parents: by level below the root, shape (places,): each place's parent.
        histograms: by histogram, the finest level's, shape (places, cells).
        facilities: shape (places of the finest level, types of group quarters).
    """

    parents: tuple[NDArray[np.int64], ...]
    histograms: Mapping[str, NDArray[np.int64]]
    facilities: NDArray[np.int64]
    levels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = list(CODES)
        object.__setattr__(self, "levels", (*names[: len(self.parents)], names[-1]))

    def places(self, level: str) -> int:
        depth = self.levels.index(level)
        return len(self.parents[depth - 1]) if depth else 1

    def added_up(self, finest: NDArray[np.int64], level: str) -> NDArray[np.int64]:
        """The truth about the finest level's places, added up for the places of another level."""
        found = finest
        for depth in range(len(self.parents), self.levels.index(level), -1):
            above = np.zeros((self.places(self.levels[depth - 1]), found.shape[1]), dtype=np.int64)
            np.add.at(above, self.parents[depth - 1], found)
            found = above
        return found

    def truth(self, histogram: str, level: str) -> NDArray[np.int64]:
        """Shape (places, cells)."""
        return self.added_up(self.histograms[histogram], level)

    def held(self, name: str, level: str) -> NDArray[np.int64]:
        """An invariant's counts, shape (places, categories)."""
        if name == GROUP_QUARTERS:
            return self.added_up(self.facilities, level)
        return self.truth("persons" if name == POPULATION else "units", level).sum(axis=1, keepdims=True)


def release_of(
    country: Country,
    invariants: Mapping[str, str] = PRODUCTION_LIKE,
    *,
    processes: int = 1,
    rho: Fraction = Fraction(8),
    types_first: str | None = None,
) -> TopDownRelease:
    """A release of a country, with a few queries at every level; its nation's total is asked only if it is held."""
    levels = country.levels
    queries = {}
    for level in levels:
        asked = ["detailed", *(query for query in QUERIES if level != levels[0] or query != "total")]
        queries[level] = {query: Fraction(1, len(asked)) for query in asked}
    shares = {level: Fraction(1, len(levels)) for level in levels}
    units = {level: {"detailed": Fraction(1)} for level in levels}
    design = TopDownDesign(
        levels,
        {
            "persons": allocate(SCHEMAS["persons"], rho, shares, queries),
            "units": allocate(SCHEMAS["units"], rho, shares, units),
        },
        invariants,
        types_first=types_first,
    )
    declaration = TopDownDeclaration(
        name="redistricting",
        dataset="village",
        title="Redistricting",
        spine={level: list(CODES[level]) for level in levels},
        products=["P1"],
        processes=processes,
    )
    dataset = synthetic_census(
        SyntheticPopulation(households=1, states=["44"]), name="village", cap={"rho": Fraction(100)}
    )
    return TopDownRelease(declaration, dataset, design, Path("published"))


def written(
    folder: Path, release: TopDownRelease, country: Country, *, seed: int = 0, scale: float = 1.0, draw: str = "one"
) -> Warehouse:
    """A warehouse with the public tables up to the measurements, noise of which is normal, rounded and scaled."""
    warehouse = Warehouse(folder=str(folder), threads=1)
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        write_spine(session, release, country)
        write_invariants(session, release, country)
        write_measurements(session, release, country, seed=seed, scale=scale, draw=draw)
    return warehouse


def custody_of(warehouse: Warehouse) -> Custody:
    """A custody with the same master key for all warehouses of these tests, so that their seals compare."""
    os.environ["STIRRED_ORACLE_MASTER_KEY"] = "5e" * 32
    return Custody(folder=f"{warehouse.folder}/custody", variable="STIRRED_ORACLE_MASTER_KEY")


def write_spine(session: Session, release: TopDownRelease, country: Country) -> None:
    rows: dict[str, list[Any]] = {name: [] for name in ("level", "depth", "number", "geoid", "parent")}
    for depth, level in enumerate(country.levels):
        for number in range(country.places(level)):
            parent = int(country.parents[depth - 1][number]) if depth else None
            row = level, depth, number, geoid(level, number), parent
            for name, value in zip(rows, row, strict=True):
                rows[name].append(value)
    _write(session, release, SPINE, rows | {"parent": pa.array(rows["parent"], pa.int64())})


def geoid(level: str, number: int) -> str:
    """The code of a place."""
    return f"{level[0]}{number:03}"


def write_invariants(
    session: Session, release: TopDownRelease, country: Country, said: Mapping[str, NDArray[np.int64]] | None = None
) -> None:
    """Write the true invariants of a release, or the given ones, shape (places, categories) each."""
    counts = {name: country.held(name, level) for name, level in release.design.invariants.items()} | dict(said or {})
    rows: list[tuple[str, str, int, str, int, int]] = []
    for name, level in release.design.invariants.items():
        for number, of_place in enumerate(counts[name]):
            for category, count in enumerate(of_place, start=name == GROUP_QUARTERS):
                rows.append((name, level, number, geoid(level, number), category, int(count)))
    names = ("invariant", "level", "number", "geoid", "category", "count")
    kinds = (pa.string(), pa.string(), pa.int64(), pa.string(), pa.int64(), pa.int64())
    columns = {
        name: pa.array([row[position] for row in rows], kind)
        for position, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }
    _write(session, release, INVARIANTS, columns)


def write_measurements(
    session: Session,
    release: TopDownRelease,
    country: Country,
    *,
    seed: int = 0,
    scale: float = 1.0,
    draw: str = "one",
    drawn: Noise | None = None,
) -> None:
    """Write noisy answers, and the draw they are said to be of; with partitions, those below each state also in a table
    of its own. The noise is `drawn`, or normal, rounded and scaled."""
    random = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {name: [] for name in ("histogram", "level", "query", "number", "geoid", "answers")}
    for measured in release.design.measured:
        exact = measured.marginal.answer(country.truth(measured.histogram, measured.level))
        noise = np.rint(scale * float(measured.variance) ** 0.5 * random.standard_normal(exact.shape))
        if drawn is not None:
            noise = drawn.of_next(measured.label, exact.size).reshape(exact.shape)
        for number, answers in enumerate(pack((exact + noise).astype(np.int32))):
            place = geoid(measured.level, number)
            row = measured.histogram, measured.level, measured.query, number, place, answers.as_py()
            for name, value in zip(rows, row, strict=True):
                rows[name].append(value)
    whole = pa.table(rows | {"answers": pa.array(rows["answers"], pa.binary())})
    _write(session, release, MEASUREMENTS, whole)
    session.create(release.public(DRAWN), "warehouse/label", {"text": draw}, column="draw_id")
    if release.partitioned:
        streams = read_streams(session, release)
        for state in read_states(session, release):
            ranges = {(stream.measured.level, stream.first, stream.last) for stream in streams if stream.state == state}
            below = [
                any(row["level"] == level and first <= row["number"] < last for level, first, last in ranges)
                for row in whole.select(["level", "number"]).to_pylist()
            ]
            table = measurements_table(release, state).name
            _write(session, release, table, whole.filter(pa.array(below)))
            _write(session, release, f"{table}_made", {"draw_id": [draw]})


def _write(session: Session, release: TopDownRelease, name: str, columns: Mapping[str, Any] | pa.Table) -> None:
    rows = columns if isinstance(columns, pa.Table) else pa.table(dict(columns))
    session.create(release.public(name), "warehouse/all", source=session.register("lent", rows))


def estimated(warehouse: Warehouse, release: TopDownRelease, level: str) -> dict[str, NDArray[np.int64]]:
    """The stored estimates by histogram, shape (places, cells)."""
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        rows = session.arrow("warehouse/all", source=release.public(release.estimates(level))).to_pylist()
        places = count_places(session, release)[level]
    found = {name: np.zeros((places, schema.size), dtype=np.int64) for name, schema in SCHEMAS.items()}
    for row in rows:
        found[row["histogram"]][row["number"], row["cell"]] += row["count"]
    return found


@st.composite
def countries(draw: st.DrawFn, most_children: int = 3) -> Country:
    """Countries of three or four levels, up to 27 finest places, and a few cells that have people in some of them."""
    depth = draw(st.integers(2, 3))
    parents: list[NDArray[np.int64]] = []
    places = 1
    for _ in range(depth):
        children = draw(st.lists(st.integers(1, most_children), min_size=places, max_size=places))
        parents.append(np.repeat(np.arange(places), children))
        places = sum(children)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    types = draw(st.lists(st.integers(1, TYPES - 1), unique=True, max_size=2))
    return peopled(parents, [0, *types], random, persons=draw(st.sampled_from((0.0, 1.0, 6.0))))


def peopled(
    parents: Sequence[NDArray[np.int64]], types: Sequence[int], random: np.random.Generator, *, persons: float
) -> Country:
    """A country with people of some types of dwelling in three cells each, with a given mean per cell and place."""
    places = len(parents[-1])
    histogram = np.zeros((places, PERSONS.size), dtype=np.int64)
    for kind in types:
        cells = random.choice(np.flatnonzero(PERSONS.possible & (PERSONS.groups.cells == kind)), 3, replace=False)
        there = random.random(places) < 0.6
        histogram[:, cells] = random.poisson(persons, (places, 3)) * there[:, None]
    living = PERSONS.groups.answer(histogram)
    units = np.stack([random.integers(1, 5, places) * (living[:, 0] > 0), random.poisson(1, places)], axis=1)
    facilities = random.integers(1, 3, (places, TYPES)).clip(max=living)[:, 1:]
    return Country(tuple(parents), {"persons": histogram, "units": units}, facilities)


def village(seed: int = 0) -> Country:
    """Two states, five counties, fourteen blocks, with households, prisons and colleges."""
    random = np.random.default_rng(seed)
    parents = (np.array([0, 0]), np.array([0, 0, 1, 1, 1]), np.repeat(np.arange(5), [3, 1, 4, 2, 4]))
    return peopled(parents, [0, 1, 5], random, persons=9.0)
