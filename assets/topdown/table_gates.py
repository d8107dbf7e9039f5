"""The evaluation of TopDown's gates on the microdata and the redistricting tables, as currently stored."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pyarrow as pa

from assets.gates.shared import count_problem
from assets.release.gate import ReleaseContext
from assets.topdown.microdata import INPUT_CODES, RECORDED
from assets.topdown.release import RECORDS, SPINE, TopDownRelease
from assets.topdown.tables import redistricting_table, redistricting_tables
from mechanisms.topdown.redistricting import RedistrictingTable, TableCell
from mechanisms.topdown.schema import Schema
from resources.statements import Zone
from resources.warehouse import Session

Context = ReleaseContext[TopDownRelease]

PLACES_AT_A_TIME = 100_000
"""The number of places whose records are compared with the estimates at a time."""


def microdata_of_estimates(context: Context) -> list[str]:
    """Cells of places whose records differ from the estimate in their number or order, and wrong record numbers."""
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name in RECORDS:
            problems += _records_problems(session, context.release, name)
    return problems


def tables_agree(context: Context) -> list[str]:
    """Contradictions within tables and between tables.

    Each table has every place once. Cells are the sums of their parts, and places the sums of the places in them. No
    table counts more of a part than another table counts of the whole.
    """
    release, problems = context.release, []
    published = redistricting_tables(release)
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for table in published:
            problems += _inner_problems(session, release, table)
        for one, other in combinations(published, 2):
            rules = [*_rules(one, other), *_rules(other, one)]
            if rules:
                (rows,) = session.row(
                    "topdown/disagreeing",
                    one=redistricting_table(release, one.name),
                    other=redistricting_table(release, other.name),
                    rules=rules,
                )
                problems += count_problem(int(rows), f"{one.name} and {other.name}: places where they disagree")
    return problems


def _records_problems(session: Session, release: TopDownRelease, name: str) -> list[str]:
    """Group by group of consecutive places, whose records are consecutive too, so that memory is bounded."""
    schema, records = RECORDED[name], release.public(name)
    tables = {"estimates": release.public(release.estimates(release.finest)), "records": records}
    of = {"histogram": schema.name}
    codes = session.register(f"codes_of_{name}", _codes(schema))
    differing = before = found = numbered = nowhere = 0
    for piece, due in session.rows("topdown/records_due", of | {"places": PLACES_AT_A_TIME}, **tables):
        if piece is None:
            nowhere = due
            break
        bounds = {"first": before + 1, "last": before + due, "place": piece * PLACES_AT_A_TIME}
        bounds["to_place"] = bounds["place"] + PLACES_AT_A_TIME
        rows, numbers, cells = session.row(
            "topdown/differing_records",
            {**of, **bounds, "finest": release.finest},
            **tables,
            spine=release.public(SPINE),
            codes=codes,
            attributes=[attribute.name for attribute in schema.attributes],
        )
        before, found, numbered, differing = before + due, found + rows, numbered + numbers, differing + cells
    return [
        *count_problem(nowhere, f"{records}: estimated records of places that do not exist"),
        *count_problem(differing, f"{records}: cells whose records differ from the estimate in their number or order"),
        *count_problem(found - numbered, f"{records}: records with the number of another one"),
        *count_problem(session.count(records) - found, f"{records}: records numbered beyond the estimates"),
    ]


def _codes(schema: Schema) -> pa.Table:
    codes = {
        each.name: np.array(INPUT_CODES[each.name])[schema.marginal(each.name).cells] for each in schema.attributes
    }
    return pa.table({"cell": range(schema.size), **codes})


def _inner_problems(session: Session, release: TopDownRelease, table: RedistrictingTable) -> list[str]:
    stored, spine = redistricting_table(release, table.name), release.public(SPINE)
    columns = [cell.name for cell in table.cells]
    sums = [(cell.name, [part.name for part in _direct_parts(table, cell)]) for cell in table.cells]
    (rows,) = session.row(
        "topdown/inconsistent",
        table=stored,
        spine=spine,
        columns=columns,
        sums=[(name, parts) for name, parts in sums if parts],
    )
    (places,) = session.row("topdown/table_not_adding_up", table=stored, spine=spine, columns=columns)
    return [
        *count_problem(
            int(rows),
            f"{table.name}: places that are missing, repeated or unknown, or have cells that do not add up",
        ),
        *count_problem(int(places), f"{table.name}: places that differ from the sums over the places in them"),
    ]


def _direct_parts(table: RedistrictingTable, cell: TableCell) -> list[TableCell]:
    return [part for part in table.cells if part.path[:-1] == cell.path]


def _rules(one: RedistrictingTable, other: RedistrictingTable) -> Iterator[tuple[str, str]]:
    """Cells of one table, each with the smallest cell of the other table that contains it; equal cells contain each
    other."""
    if one.schema is not other.schema:
        return
    for cell in one.cells:
        wholes = [whole for whole in other.cells if not (cell.counted & ~whole.counted).any()]
        if wholes:
            yield cell.name, min(wholes, key=lambda whole: whole.counted.sum()).name
