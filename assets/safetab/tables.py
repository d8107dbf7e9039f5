"""The published tables: T1 and T2 of SafeTab-P, T3 and T4 of SafeTab-H, and the stages that make them.

All are post-processing of the measurements: in the production layout, and in words, with standard errors and 90%
intervals. A published number is the sum of one or more measured cells.
"""

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.cef.census import CensusDeclaration
from assets.conventions import preview
from assets.measurement.method import MEASUREMENTS
from assets.release.dataset import DatasetDeclaration
from assets.safetab.release import GROUPS, REGIONS, SafeTabHRelease, SafeTabPRelease, SafeTabRelease
from assets.tabulation.asset import build_tables
from mechanisms.safetab.design import MeasuredLine
from mechanisms.safetab.details import AGES, DATA_CELLS, DETAILS, HOUSEHOLD_TABLES, SEXES, HouseholdTable, cells
from mechanisms.safetab.lists import RegionType
from mechanisms.sampling.quantiles import Uncapped, half_width
from mechanisms.states import STATES
from resources.statements import Table
from resources.warehouse import Recipe, Session

T1, T2, TOTALS, SEX_BY_AGE = "t1", "t2", "total_population", "sex_by_age"
IN_WORDS = {"T3": "household_type", "T4": "tenure"}
"""By family, the name of its tables in words."""

NATION = "United States"
FIRST_ROWS = 12
"""How many groups the asset's page shows."""

PLACES = 4
"""The decimals of a stored standard error."""
COVERAGE = Fraction(9, 10)

_ITERATIONS = pa.schema([("iteration_code", pa.string()), ("name", pa.string()), ("total_only", pa.bool_())])
_ERRORS = pa.schema(
    [
        ("region_type", pa.string()),
        ("level", pa.uint8()),
        ("total_only", pa.bool_()),
        ("added", pa.int64()),
        ("standard_error", pa.decimal128(24, PLACES)),
        ("half_width", pa.int64()),
    ]
)


def build_person_tables(release: SafeTabPRelease, columns: Mapping[str, str]) -> dg.AssetsDefinition:
    return build_tables(
        release,
        [REGIONS, MEASUREMENTS],
        "T1, the total of every published group, and T2, sex by age of those published in detail: in the production "
        "layout, and in words with standard errors and 90% intervals. Made from public data only.",
        lambda session: person_table_recipes(session, release),
        columns,
        shown=lambda session: {
            "largest groups": preview(
                ["region", "iteration", "estimate", "90% interval"],
                [
                    (region, iteration, f"{estimate:,}", f"{lower:,}\u00a0–\u00a0{upper:,}")
                    for region, iteration, estimate, lower, upper in session.rows(
                        "safetab/largest", {"rows": FIRST_ROWS}, table=release.public(TOTALS)
                    )
                ],
            )
        },
    )


def person_table_recipes(session: Session, release: SafeTabPRelease) -> dict[Table, Recipe]:
    of_cells = {
        "measurements": release.public(MEASUREMENTS),
        "cells": session.register("cells_of_details", pa.Table.from_pylist(list(_list_cells()))),
        "measured": ("detail", "cell"),
    }
    sums = {cells(detail) // part for detail in DETAILS[1:] for part in (1, len(SEXES), cells(detail))}
    errors = [row for line in release.design.measured for row in list_errors(line, line.stage_2, sums)]
    for line in release.design.measured:
        if line.region_type.detailed:
            errors += list_errors(line, line.total_only, [1], total_only=True)
    layout = {"AGESTART": "age_start", "AGEEND": "age_end", "SEX": "sex"}
    in_words = of_cells | register_words(session, release, "errors", errors)
    return {
        release.public(T1): ("safetab/in_layout", {}, of_cells | {"columns": {}}),
        release.public(T2): ("safetab/in_layout", {}, of_cells | {"columns": layout}),
        release.public(TOTALS): ("safetab/in_words", {}, in_words | {"columns": ()}),
        release.public(SEX_BY_AGE): ("safetab/in_words", {}, in_words | {"columns": ("sex", "age")}),
    }


def _list_cells() -> Iterator[dict[str, Any]]:
    """The cells of T2 that each measured cell of a detail counts for: itself, and its sex of all ages."""
    for detail, ages in AGES.items():
        for place in range(cells(detail)):
            sex, age = divmod(place, len(ages))
            start, end = ages[age]
            of_sex = {"detail": detail, "cell": place, "sex": str(SEXES[sex])}
            yield of_sex | {"age_start": "*", "age_end": "*", "age": "All ages"}
            age_words = f"{start}" if start == end else f"{start} to {end}"
            yield of_sex | {"age_start": str(start), "age_end": str(end), "age": age_words}


def register_words(
    session: Session, release: SafeTabRelease, name: str, errors: list[dict[str, Any]]
) -> dict[str, Any]:
    """Identifiers of `safetab/in_words`: the names of iterations and of regions, and the errors of sums of cells.

    The errors are rows of `list_errors`, registered under a name.
    """
    iterations = [
        {
            "iteration_code": iteration.code,
            "name": iteration.name.strip(),
            "total_only": isinstance(release, SafeTabPRelease) and bool(iteration.detailed_only),
        }
        for iteration in release.lists.iteration.values()
    ]
    return {
        "iterations": session.register("iterations_in_words", pa.Table.from_pylist(iterations, _ITERATIONS)),
        "names": session.register("names", pa.Table.from_pylist(list(_list_names(release.dataset)))),
        "errors": session.register(name, pa.Table.from_pylist(errors, _ERRORS)),
    }


def _list_names(dataset: DatasetDeclaration) -> Iterator[dict[str, str]]:
    """The names of regions that are known: of the nation, of the states, and of the places that the dataset names."""
    known = dataset.place_names if isinstance(dataset, CensusDeclaration) else {}
    yield {"region_type": RegionType.USA.value, "region_id": "1", "name": NATION}
    for region_type in RegionType:
        named = dict(STATES) if region_type.digits == 2 else {}
        named |= {code: name for code, name in known.items() if len(code) == region_type.digits}
        for code, name in named.items():
            yield {"region_type": region_type.value, "region_id": code, "name": name}


def list_errors(
    line: MeasuredLine, noise: Uncapped, sums: Collection[int], *, total_only: bool = False
) -> list[dict[str, Any]]:
    """The standard errors and the half widths of the 90% intervals of sums of cells of a line.

    Args:
        sums: how many cells are added up.
        total_only: whether the noise is that of groups with an iteration that is measured as a total only.
    """
    return [
        line.region_and_level
        | {
            "total_only": total_only,
            "added": added,
            "standard_error": Decimal(f"{sqrt(added * float(noise.exact_variance)):.{PLACES}f}"),
            "half_width": half_width(noise, added, COVERAGE),
        }
        for added in sorted(sums)
    ]


def measured_tables(release: SafeTabHRelease) -> dict[str, tuple[HouseholdTable, ...]]:
    families = {line.family for line in release.design.measured}
    return {family: tables for family, tables in HOUSEHOLD_TABLES.items() if family in families}


def name_product(table: HouseholdTable) -> str:
    return table.name.lower()


def name_cell_column(table: HouseholdTable) -> str:
    return f"{table.family}_DATA_CELL"


def build_household_tables(release: SafeTabHRelease, columns: Mapping[str, str]) -> dg.AssetsDefinition:
    return build_tables(
        release,
        [GROUPS, MEASUREMENTS],
        "T3, household type, and T4, tenure: in the production layout, and in words with standard errors and 90% "
        "intervals. Made from public data only.",
        lambda session: household_table_recipes(session, release),
        columns,
    )


def household_table_recipes(session: Session, release: SafeTabHRelease) -> dict[Table, Recipe]:
    in_words: dict[Table, Recipe] = {}
    in_layout: dict[Table, Recipe] = {}
    for family, tables in measured_tables(release).items():
        cells = [row for table in tables for row in _list_published_cells(table)]
        sums = {len(parts) for table in tables for parts in table.data_cells.values()}
        lines = [line for line in release.design.measured if line.family == family]
        errors = [row for line in lines for row in list_errors(line, line.noise, sums)]
        of_cells = {
            "measurements": release.public(MEASUREMENTS),
            "cells": session.register(f"cells_{family}", pa.Table.from_pylist(cells)),
            "measured": ("table_name", "data_cell"),
        }
        names = of_cells | register_words(session, release, f"errors_{family}", errors)
        in_words[release.public(IN_WORDS[family])] = ("safetab/in_words", {}, names | {"columns": ("cell", "label")})
        for table in tables:
            cells_of_table = session.register(f"cells_{table.name}", pa.Table.from_pylist(_list_published_cells(table)))
            names = of_cells | {"cells": cells_of_table, "columns": {name_cell_column(table): "cell"}}
            in_layout[release.public(name_product(table))] = ("safetab/in_layout", {}, names)
    return in_words | in_layout


def _list_published_cells(table: HouseholdTable) -> list[dict[str, Any]]:
    """The cells of a table, each with the measured cells that add up to it."""
    return [
        {"table_name": table.name, "cell": cell, "data_cell": part, "label": DATA_CELLS[table.family][cell]}
        for cell, parts in table.data_cells.items()
        for part in parts
    ]
