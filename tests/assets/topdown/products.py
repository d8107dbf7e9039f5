"""A TopDown release with invented public and confidential tables, for tests of its products.

The warehouse gets a spine, histograms, estimates and measurements of any size, without charge, draw or estimation. The
claims of tests about tables, microdata and accuracy hold for any estimates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.cef.census import CensusDeclaration, census_persons, census_units
from assets.measurement.method import MEASUREMENTS
from assets.release.dataset import Reader
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.release import (
    HISTOGRAMS,
    INVARIANTS,
    SPINE,
    TopDownRelease,
)
from mechanisms.topdown.allocation import allocate
from mechanisms.topdown.design import SCHEMAS, TopDownDesign
from mechanisms.topdown.schema import PERSONS, UNITS
from resources.packed import pack
from resources.statements import Table
from resources.warehouse import Warehouse
from tests.packing import with_packing

LEVELS = ("US", "County", "Block")
PERSON_QUERIES = {
    "US": {"hispanic * cenrace": Fraction(1, 4), "detailed": Fraction(3, 4)},
    "County": {"total": Fraction(1, 2), "hhinstlevels": Fraction(1, 8), "detailed": Fraction(3, 8)},
    "Block": {"total": Fraction(1, 3), "hispanic * cenrace": Fraction(1, 3), "detailed": Fraction(1, 3)},
}

Histogram = NDArray[np.int64]
"""Shape (places, cells)."""


def design(
    levels: Sequence[str] = LEVELS, queries: Mapping[str, Mapping[str, Fraction]] | None = None
) -> TopDownDesign:
    """A design with equal shares of levels."""
    shares = {level: Fraction(1, len(levels)) for level in levels}
    asked = queries or PERSON_QUERIES
    return TopDownDesign(
        tuple(levels),
        {
            PERSONS.name: allocate(PERSONS, Fraction(3), shares, {level: asked[level] for level in levels}),
            UNITS.name: allocate(UNITS, Fraction(2), shares, {level: {"detailed": Fraction(1)} for level in levels}),
        },
        {"population": levels[0]},
    )


def release(root: Path, *, synthetic: bool = False, **changes: Any) -> TopDownRelease:
    """A release that publishes everything."""
    dataset = CensusDeclaration(
        name="town",
        title="A town",
        cap={"rho": 20},
        synthetic=synthetic,
        reader=Reader.CSV,
        record_name="unit",
        units=census_units(str(root / "units.csv"), str(root / "geo.csv"), group_quarters_types=True),
        persons=census_persons(str(root / "persons.csv")),
        place_names={"10": "Delaware", "100001": "A block", "99": "Nowhere"},
    )
    declaration = TopDownDeclaration(
        name="redistricting",
        dataset=dataset.name,
        title="Redistricting",
        description="For redistricting.",
        spine={"US": [], "County": ["TABBLKST"], "Block": ["TABBLKST", "TABBLK"]},
        processes=1,
        **changes,
    )
    return TopDownRelease(declaration, dataset, design(), root / "published")


@dataclass
class Products:
    """A warehouse with a spine, and counts in it.

    Attributes:
        release: of the tables.
        warehouse: which holds them.
        parents: by level below the root, the parent's number of each place.
        geoids: by level, the places' codes.
    """

    release: TopDownRelease
    warehouse: Warehouse
    parents: dict[str, list[int]]
    geoids: dict[str, list[str]]

    @property
    def levels(self) -> tuple[str, ...]:
        return self.release.levels

    def roll_up(self, finest: Histogram) -> dict[str, Histogram]:
        """The histograms of every level, from the finest level's."""
        found = {self.levels[-1]: finest}
        for above, level in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            found[above] = np.zeros((len(self.geoids[above]), finest.shape[1]), dtype=np.int64)
            np.add.at(found[above], self.parents[level], found[level])
        return found

    def write(self, table: Table, rows: pa.Table) -> None:
        """Replace a table."""
        with duckdb.connect(str(self.warehouse.path(table.zone))) as connection:
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{table.schema}"')
            connection.execute(f'CREATE OR REPLACE TABLE "{table.schema}"."{table.name}" AS SELECT * FROM rows')
        self.warehouse.path(table.zone).chmod(0o600)

    def change(self, table: Table, statement: str) -> None:
        """Tamper with a table: `{}` stands for it; with the functions of `packing`."""
        with with_packing(duckdb.connect(str(self.warehouse.path(table.zone)))) as connection:
            connection.execute(statement.format(f'"{table.schema}"."{table.name}"'))

    def read(self, table: Table, statement: str = "SELECT * FROM {}") -> list[dict[str, Any]]:
        """Rows of a table, as dictionaries."""
        with with_packing(duckdb.connect(str(self.warehouse.path(table.zone)), read_only=True)) as connection:
            found = connection.execute(statement.format(f'"{table.schema}"."{table.name}"')).to_arrow_table()
        return list(found.to_pylist())

    def write_estimates(self, level: str, histograms: Mapping[str, Histogram]) -> None:
        """Replace the estimates of a level."""
        self.write(self.release.public(self.release.estimates(level)), sparse(histograms))

    def write_truth(self, histograms: Mapping[str, Histogram]) -> None:
        """Replace the exact histograms of the finest level."""
        self.write(self.release.confidential(HISTOGRAMS), sparse(histograms))

    def read_measurements(self) -> list[dict[str, Any]]:
        """The stored measurements, with answers as lists."""
        return self.read(self.release.public(MEASUREMENTS), LISTS)

    def write_measurements(self, exact: Mapping[str, Histogram], generator: np.random.Generator, noise: int) -> None:
        """Replace the measurements by exact answers plus evenly spread noise up to `noise`, in a jumbled order."""
        rows = []
        by_level = {name: self.roll_up(finest) for name, finest in exact.items()}
        for each in self.release.design.measured:
            answers = each.marginal.answer(by_level[each.histogram][each.level])
            answers = answers + generator.integers(-noise, noise, size=answers.shape, endpoint=True)
            rows += [
                (each.histogram, each.level, each.query, number, self.geoids[each.level][number], found.as_py())
                for number, found in enumerate(pack(answers.astype(np.int32)))
            ]
        generator.shuffle(rows)  # type: ignore[arg-type]
        names = ("histogram", "level", "query", "number", "geoid", "answers")
        table = pa.table({name: [row[position] for row in rows] for position, name in enumerate(names)})
        self.write(self.release.public(MEASUREMENTS), table)


LISTS = "SELECT * REPLACE (unpacked(answers) AS answers) FROM {0}"


def sparse(histograms: Mapping[str, Histogram]) -> pa.Table:
    """Histograms as a table of counts above 0."""
    parts = []
    for name, histogram in histograms.items():
        number, cell = np.nonzero(histogram)
        parts.append(
            pa.table(
                {
                    "histogram": pa.repeat(name, len(number)),
                    "number": number,
                    "cell": cell,
                    "count": histogram[number, cell],
                }
            )
        )
    return pa.concat_tables(parts)


def random_histograms(generator: np.random.Generator, places: int, occupied: int = 12) -> dict[str, Histogram]:
    """Histograms of places some of which are empty, with up to `occupied` cells of the persons' each."""
    found = {name: np.zeros((places, schema.size), dtype=np.int64) for name, schema in SCHEMAS.items()}
    for number in range(places):
        cells = generator.choice(PERSONS.size, size=generator.integers(0, occupied, endpoint=True), replace=False)
        found[PERSONS.name][number, cells] = generator.integers(1, 9, size=len(cells))
        found[UNITS.name][number] = generator.integers(0, 5, size=2)
    return found


def products(
    root: Path, generator: np.random.Generator, *, counties: int = 3, blocks: int = 8, **changes: Any
) -> Products:
    """A deployment with a spine of three levels no invariants and no histograms yet."""
    root.mkdir(exist_ok=True)
    made = release(root, **changes)
    parents = {"County": [0] * counties, "Block": sorted(generator.integers(0, counties, size=blocks).tolist())}
    geoids = {
        "US": ["US"],
        "County": [f"{number + 10:02}" for number in range(counties)],
        "Block": [f"{parent + 10:02}{number:04}" for number, parent in enumerate(parents["Block"])],
    }
    warehouse = Warehouse(folder=str(root / "warehouse"), threads=1)
    found = Products(made, warehouse, parents, geoids)
    Path(warehouse.folder).mkdir(mode=0o700)
    rows = [
        {"level": level, "depth": depth, "number": number, "geoid": geoid, "parent": parent}
        for depth, level in enumerate(made.levels)
        for number, (geoid, parent) in enumerate(
            zip(geoids[level], parents.get(level, [None]), strict=True)  # type: ignore[list-item]
        )
    ]
    generator.shuffle(rows)  # type: ignore[arg-type]
    found.write(made.public(SPINE), pa.Table.from_pylist(rows))
    held = {"invariant": "population", "level": "US", "number": 0, "geoid": "US", "category": 0, "count": 0}
    found.write(made.public(INVARIANTS), pa.Table.from_pylist([held]))
    return found
