"""The published tables: T1 and T2 of SafeTab-P, T3 and T4 of SafeTab-H, and the stages that make them.

All are post-processing of the measurements: in the production layout, and in words, with standard errors and 90%
intervals. A published number is the sum of one or more measured cells. The data dictionary takes its descriptions from
here.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.cef.census import find_place_names
from assets.conventions import preview
from assets.measurement.method import MEASUREMENTS
from assets.release.dataset import DatasetDeclaration
from assets.release.published import PublishedColumn, PublishedTable, describe_published, error_columns
from assets.safetab.plan import PARAMETER_COLUMNS
from assets.safetab.release import GROUPS, PARAMETERS, REGIONS, SafeTabHRelease, SafeTabPRelease, SafeTabRelease
from assets.tabulation.asset import build_tables
from mechanisms.safetab.design import MeasuredLine
from mechanisms.safetab.details import AGES, DATA_CELLS, DETAILS, HOUSEHOLD_TABLES, SEXES, HouseholdTable, cells
from mechanisms.safetab.lists import LEVELS_ABOVE, RegionType
from mechanisms.sampling.quantiles import Uncapped, half_width
from mechanisms.states import STATES
from resources.statements import Table
from resources.warehouse import Recipe, Session

T1, T2, TOTALS, SEX_BY_AGE = "t1", "t2", "total_population", "sex_by_age"
IN_WORDS = {"T3": "household_type", "T4": "tenure"}
"""By family, the name of its tables in words."""

NATION = "Nation"
FIRST_ROWS = 12
"""The number of groups that the asset's page shows."""

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


def build_person_tables(release: SafeTabPRelease) -> dg.AssetsDefinition:
    return build_tables(
        release,
        [REGIONS, MEASUREMENTS],
        "T1, the total of every published group, and T2, sex by age of those published in detail: in the production "
        "layout, and in words with standard errors and 90% intervals. Made from public data only.",
        lambda session: person_table_recipes(session, release),
        describe_published(person_products(release)),
        shown=lambda session: _preview_largest(session, release.public(TOTALS)),
    )


def _preview_largest(session: Session, totals: Table) -> dict[str, dg.MetadataValue]:
    rows = [
        (region, iteration, f"{estimate:,}", f"{lower:,}\u00a0–\u00a0{upper:,}")
        for region, iteration, estimate, lower, upper in session.rows(
            "safetab/largest", {"rows": FIRST_ROWS}, table=totals
        )
    ]
    return {"largest groups": preview(["region", "iteration", "estimate", "90% interval"], rows)}


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
    """The cells of T2 to which each measured cell of a detail contributes: itself, and all ages of its sex."""
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
    """Identifiers of `safetab/in_words`: names of iterations and regions, and the errors, rows of `list_errors`."""
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
    """The known names of regions: the nation, the states, and the places that the dataset names."""
    known = find_place_names(dataset)
    for region_type in RegionType:
        named = dict(STATES) if region_type.digits == 2 else {}
        named |= {code: name for code, name in known.items() if len(code) == region_type.digits}
        if region_type is RegionType.USA:
            named = {"1": NATION}
        for code, name in named.items():
            yield {"region_type": region_type.value, "region_id": code, "name": name}


def list_errors(
    line: MeasuredLine, noise: Uncapped, sums: Collection[int], *, total_only: bool = False
) -> list[dict[str, Any]]:
    """The standard errors and the half widths of the 90% intervals of sums of cells of a line, by number of cells
    (`sums`).

    With `total_only`, the rows are for groups whose iteration is measured as a total only.
    """
    rows = []
    for added in sorted(sums):
        error = Decimal(f"{sqrt(added * float(noise.exact_variance)):.{PLACES}f}")
        errors = {"standard_error": error, "half_width": half_width(noise, added, COVERAGE)}
        rows.append(line.region_and_level | {"total_only": total_only, "added": added} | errors)
    return rows


def measured_tables(release: SafeTabHRelease) -> dict[str, tuple[HouseholdTable, ...]]:
    families = {line.family for line in release.design.measured}
    return {family: tables for family, tables in HOUSEHOLD_TABLES.items() if family in families}


def name_product(table: HouseholdTable) -> str:
    return table.name.lower()


def name_cell_column(table: HouseholdTable) -> str:
    return f"{table.family}_DATA_CELL"


def build_household_tables(release: SafeTabHRelease) -> dg.AssetsDefinition:
    return build_tables(
        release,
        [GROUPS, MEASUREMENTS],
        "T3, household type, and T4, tenure: in the production layout, and in words with standard errors and 90% "
        "intervals. Made from public data only.",
        lambda session: household_table_recipes(session, release),
        describe_published(household_products(release)),
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


_PRODUCTION = "The columns and their order are those of the production system."

_APART = (
    "Every group was measured by itself: regions do not add up to larger ones, iterations not to each other, and an "
    "iteration alone may exceed the same in any combination."
)

_NEGATIVE, _NOT_NEGATIVE = "Numbers may be negative.", "Measured numbers below zero became 0."

_SUPPRESSED = (
    "Below the states, totals that are hardly above zero are left out. So a total that is there tends to be too high "
    "if the true one is small; intervals do not account for that."
)

INTERVAL = (
    "The noisy count, or sum of noisy counts, and on both sides the least number that bounds its noise, a sum of "
    "independent discrete noises, with a probability of at least 0.9."
)

_AGES = "10, 20 or 48 rows a group: two sexes by 4, 9 or 23 age groups, each sex with its total (* as age)."


def person_products(release: SafeTabPRelease) -> tuple[PublishedTable, ...]:
    suppression = _SUPPRESSED if any(line.cut_off is not None for line in release.design.measured) else ""
    independence = _independence(release)
    sex = PublishedColumn("sex", "string", "Sex", {"1": "Male", "2": "Female"})
    return (
        _in_words(
            release,
            TOTALS,
            "T1: total population of detailed groups",
            f"Noisy totals with standard errors and 90% intervals. {independence} {suppression}".strip(),
        ),
        _in_words(
            release,
            SEX_BY_AGE,
            "T2: sex by age of detailed groups",
            f"Noisy counts of the groups that are large enough, with standard errors and 90% intervals. The larger a "
            f"group, the finer are its ages. Its total in T1 is the sum of its cells. {independence}",
            (sex, PublishedColumn("age", "string", "Age group, or all ages")),
        ),
        _in_layout(release, T1, "T1 in the production layout", f"The total of every published group. {_PRODUCTION}"),
        _in_layout(
            release,
            T2,
            "T2 in the production layout",
            f"{_AGES} {_PRODUCTION}",
            (
                PublishedColumn("AGESTART", "string", "Least age of the group; * for all ages"),
                PublishedColumn("AGEEND", "string", "Greatest age of the group; * for all ages"),
                replace(sex, name="SEX"),
            ),
        ),
        PublishedTable(
            REGIONS,
            "The measured regions",
            "The regions in which there is a unit. The list is exact: it is an invariant of the release.",
            release.public(REGIONS),
            (
                _region_type(release),
                PublishedColumn("number", "integer", "Number of the region within its type"),
                PublishedColumn("region_id", "string", "Code of the region"),
            ),
            ("region_type", "number"),
        ),
        _parameters(release),
    )


def household_products(release: SafeTabHRelease) -> tuple[PublishedTable, ...]:
    words, layout = [], []
    for family, tables in measured_tables(release).items():
        words.append(
            _in_words(
                release,
                IN_WORDS[family],
                f"{family}: {IN_WORDS[family].replace('_', ' ')} of detailed groups",
                "Noisy counts of households by the householder's detailed race or ethnicity, with standard errors and "
                "90% intervals. The larger the published total of a group of persons, the more cells there are. T3 and "
                f"T4 are measured apart, so that their totals differ. {_independence(release)}",
                (
                    PublishedColumn("cell", "integer", "Number of the cell"),
                    PublishedColumn("label", "string", "What the cell counts", names="cell"),
                ),
            )
        )
        for table in tables:
            labels = {cell: DATA_CELLS[family][cell] for cell in table.data_cells}
            column = PublishedColumn(name_cell_column(table), "integer", "Cell", labels)
            title = f"{table.name} in the production layout"
            layout.append(_in_layout(release, name_product(table), title, _PRODUCTION, (column,)))
    return (*words, *layout, _parameters(release))


def _in_words(
    release: SafeTabRelease, name: str, title: str, description: str, columns: Sequence[PublishedColumn] = ()
) -> PublishedTable:
    """A table in words, with the columns that distinguish the rows of a group, and their labels."""
    keys = [column.name for column in columns if column.name != "label"]
    return PublishedTable(
        name,
        title,
        description,
        release.public(name),
        (
            _region_type(release),
            PublishedColumn("region_id", "string", "Code of the region; 1 for the nation"),
            PublishedColumn(
                "region", "string", "Name of the region, as far as the dataset names it", names="region_id"
            ),
            PublishedColumn("level", "integer", "Level of the iteration", {1: "Regional", 2: "Detailed"}),
            PublishedColumn("iteration_code", "string", "Characteristic iteration"),
            PublishedColumn("iteration", "string", "The iteration in words", names="iteration_code"),
            *columns,
            *error_columns(
                "integer", "Noisy count, or a sum of noisy counts", "Standard deviation of the noise", _unit(release)
            ),
        ),
        ("region_type", "region_id", "iteration_code", *keys),
        interval=INTERVAL,
        geography=("region_type", "region_id"),
        levels=LEVELS_ABOVE,
    )


def _in_layout(
    release: SafeTabRelease, name: str, title: str, description: str, columns: Sequence[PublishedColumn] = ()
) -> PublishedTable:
    """A table in the production layout, with the columns that distinguish the rows of a group."""
    return PublishedTable(
        name,
        title,
        description,
        release.public(name),
        (
            PublishedColumn("REGION_ID", "string", "Code of the region; 1 for the nation"),
            replace(_region_type(release), name="REGION_TYPE"),
            PublishedColumn("ITERATION_CODE", "string", "Characteristic iteration"),
            *columns,
            PublishedColumn("COUNT", "integer", "Noisy count", unit=_unit(release)),
        ),
        ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", *(column.name for column in columns)),
        delimiter="|",
        geography=("REGION_TYPE", "REGION_ID"),
        levels=LEVELS_ABOVE,
    )


def _unit(release: SafeTabRelease) -> str:
    return "persons" if isinstance(release, SafeTabPRelease) else "households"


def _region_type(release: SafeTabRelease) -> PublishedColumn:
    measured = {line.region_type for line in release.design.measured}
    words = {region_type.value: region_type.words for region_type in RegionType if region_type in measured}
    return PublishedColumn("region_type", "string", "Type of the region", words)


def _independence(release: SafeTabRelease) -> str:
    return f"{_APART} {_NEGATIVE if release.design.negative_counts else _NOT_NEGATIVE}"


def _parameters(release: SafeTabRelease) -> PublishedTable:
    return PublishedTable(
        PARAMETERS,
        "Budgets, thresholds and noise",
        "What was measured for each region type and level, with which budget, thresholds and noise.",
        release.public(PARAMETERS),
        tuple(
            PublishedColumn(name, kind, words, required=required)
            for name, (kind, words, _, required) in PARAMETER_COLUMNS.items()
        ),
        ("region_type", "level", "part"),
    )
