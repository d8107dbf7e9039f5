"""Published records of the DHC give their cells back: counts from the files equal the histograms."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from assets.cef.census import COLUMNS
from assets.topdown.dhc.declaration import TABLES
from assets.topdown.dhc.products import cell_names, count_cells, describe_table
from assets.topdown.dhc.recount import ATTRIBUTES, find_counts
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.records import PRESENT, list_households, list_relationships
from mechanisms.topdown.schema import Counts, Schema
from resources.statements import Zone
from resources.warehouse import Warehouse

SCHEMAS = {schema.name: schema for schema in (PERSONS, HOUSEHOLDS, UNITS)}
PLACES = 3


def draw(schema: Schema) -> Counts:
    random = np.random.default_rng(4)
    cells = random.choice(np.flatnonzero(schema.possible), 4000)
    keys, count = np.unique(np.sort(random.integers(0, PLACES, 4000)) * schema.size + cells, return_counts=True)
    return Counts(keys // schema.size, keys % schema.size, count.astype(np.int64))


def add_up(counts: Counts, size: int) -> dict[int, int]:
    keys, inverse = np.unique(counts.number * size + counts.cell, return_inverse=True)
    return dict(zip(keys.tolist(), np.bincount(inverse, counts.count).astype(int).tolist(), strict=True))


def test_every_cell_is_found_again_in_the_records_that_a_release_writes(tmp_path: Path) -> None:
    """The records are made by the release's own statements. Households and units are estimated alike in tenure."""
    persons, households = draw(PERSONS), draw(HOUSEHOLDS)
    tenure = HOUSEHOLDS.marginal("hhtenshort_3lev").find(households.cell)
    random = np.random.default_rng(5)
    units = np.zeros((PLACES, UNITS.size), dtype=np.int64)
    np.add.at(units, (households.number, tenure), households.count)
    free = units[:, 2] // 4
    units[:, 2] -= free
    units[:, 3] = free
    units[:, 4:] = random.integers(0, 3, (PLACES, UNITS.size - 4))
    number, cell = np.nonzero(units)
    drawn = {"persons": persons, "households": households, "units": Counts(number, cell, units[number, cell])}
    estimates = pa.concat_tables(
        pa.table({"level": pa.repeat("Block", len(own.cell)), "histogram": pa.repeat(name, len(own.cell)),
                  "number": own.number, "cell": own.cell, "count": own.count})
        for name, own in drawn.items()
    )  # fmt: skip
    spine = pa.table({"level": ["Block"] * PLACES, "number": range(PLACES), "geoid": ["0", "1", "2"]})
    with Warehouse(folder=str(tmp_path)).session(writes=Zone.PUBLIC) as session:
        lists = {"relationships": [{"relgq": code, **row} for code, row in enumerate(list_relationships())],
                 "households": list_households()}  # fmt: skip
        shared = {name: session.register(name, pa.Table.from_pylist(rows)) for name, rows in lists.items()}
        shared |= {"estimates": session.register("estimates", estimates), "spine": session.register("spine", spine)}
        steps = {
            schema.name: {
                part.name: int(np.prod([each.size for each in schema.attributes[place + 1 :]], dtype=np.int64))
                for place, part in enumerate(schema.attributes)
            }
            for schema in (PERSONS, HOUSEHOLDS)
        }
        finest = {"finest": "Block"}
        codes = finest | {"present": list(PRESENT), "quarters": [row["GQTYPE"] for row in list_relationships()[18:]]}
        names = {"place_columns": [], **shared}
        records = {
            "persons": session.arrow("dhc/persons_records", finest, inner=steps["persons"], ages=116, **names),
            "units": session.arrow("dhc/units_records", codes, inner=steps["households"], **names),
        }
    for histogram, schema in SCHEMAS.items():
        table, attributes = ATTRIBUTES[histogram]
        rows = records[table].select(["geoid", *attributes])
        counted = rows.append_column("number", rows["geoid"].cast(pa.int64())).append_column(
            "count", pa.array(np.ones(len(rows), dtype=np.int64))
        )
        found = find_counts(histogram, counted)
        assert add_up(found, schema.size) == add_up(drawn[histogram], schema.size), histogram
        for name in TABLES:
            if describe_table(name)[3] == histogram and len(name) < 5:
                both = [list(count_cells(name, counts, PLACES)) for counts in (found, drawn[histogram])]
                assert both[0] == both[1], name
                assert len(both[0]) == len(cell_names(name))


@pytest.mark.parametrize("histogram", list(ATTRIBUTES))
def test_what_is_counted_by_is_in_the_layout(histogram: str) -> None:
    table, attributes = ATTRIBUTES[histogram]
    assert set(attributes) <= set(COLUMNS[f"PPMF dhc {table}"])
