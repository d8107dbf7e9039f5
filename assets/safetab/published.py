"""The published tables of SafeTab-P and SafeTab-H, as the data dictionary describes them."""

from collections.abc import Iterable

from assets.release.published import PublishedColumn, PublishedTable, error_columns
from assets.safetab.households import IN_WORDS, cell_column, measured_tables, product_of
from assets.safetab.plan import PARAMETER_COLUMNS
from assets.safetab.release import PARAMETERS, REGIONS, SafeTabHRelease, SafeTabPRelease, SafeTabRelease
from assets.safetab.tables import SEX_BY_AGE, T1, T2, TOTALS
from mechanisms.safetab.details import DATA_CELLS, HouseholdTable
from mechanisms.safetab.regions import RegionType

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
"""How the intervals are made, as the data dictionary says it."""

_AGES = "10, 20 or 48 rows a group: two sexes by 4, 9 or 23 age groups, each sex with its total (* as age)."


def person_products(release: SafeTabPRelease) -> tuple[PublishedTable, ...]:
    """T1 and T2 in the production layout and in words, the regions and the parameters."""
    suppression = _SUPPRESSED if any(each.cut_off is not None for each in release.design.measured) else ""
    alone = _alone(release)
    return (
        PublishedTable(
            TOTALS,
            "T1: total population of detailed groups",
            f"Noisy totals with standard errors and 90% intervals. {alone} {suppression}".strip(),
            release.public(TOTALS),
            (*_in_words(release), *_figures(release)),
            ("region_type", "region_id", "iteration_code"),
            interval=INTERVAL,
        ),
        PublishedTable(
            SEX_BY_AGE,
            "T2: sex by age of detailed groups",
            f"Noisy counts of the groups that are large enough, with standard errors and 90% intervals. The larger a "
            f"group, the finer are its ages. Its total in T1 is the sum of its cells. {alone}",
            release.public(SEX_BY_AGE),
            (
                *_in_words(release),
                PublishedColumn("sex", "string", "Sex", {"1": "Male", "2": "Female"}),
                PublishedColumn("age", "string", "Age group, or all ages"),
                *_figures(release),
            ),
            ("region_type", "region_id", "iteration_code", "sex", "age"),
            interval=INTERVAL,
        ),
        PublishedTable(
            T1,
            "T1 in the production layout",
            f"The total of every published group. {_PRODUCTION}",
            release.public(T1),
            (*_group(release), PublishedColumn("COUNT", "integer", "Noisy count")),
            ("REGION_ID", "REGION_TYPE", "ITERATION_CODE"),
            delimiter="|",
        ),
        PublishedTable(
            T2,
            "T2 in the production layout",
            f"{_AGES} {_PRODUCTION}",
            release.public(T2),
            (
                *_group(release),
                PublishedColumn("AGESTART", "string", "Least age of the group; * for all ages"),
                PublishedColumn("AGEEND", "string", "Greatest age of the group; * for all ages"),
                PublishedColumn("SEX", "string", "Sex", {"1": "Male", "2": "Female"}),
                PublishedColumn("COUNT", "integer", "Noisy count"),
            ),
            ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "AGESTART", "AGEEND", "SEX"),
            delimiter="|",
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
    """T3 and T4 in the production layout and in words, and the parameters."""
    tables = measured_tables(release)
    return (
        *(_in_household_words(release, family) for family in dict.fromkeys(table.family for table in tables)),
        *(_in_production_layout(release, table) for table in tables),
        _parameters(release),
    )


def column_descriptions(tables: Iterable[PublishedTable]) -> dict[str, str]:
    """The descriptions of the columns of tables, by name, for the page of the asset that makes them."""
    return {column.name: column.description for table in tables for column in table.columns}


def _in_household_words(release: SafeTabHRelease, family: str) -> PublishedTable:
    name = IN_WORDS[family]
    return PublishedTable(
        name,
        f"{family}: {name.replace('_', ' ')} of detailed groups",
        "Noisy counts of households by the householder's detailed race or ethnicity, with standard errors and 90% "
        "intervals. The larger the published total of a group of persons, the more cells there are. T3 and T4 are "
        f"measured apart, so that their totals differ. {_alone(release)}",
        release.public(name),
        (
            *_in_words(release),
            PublishedColumn("cell", "integer", "Number of the cell"),
            PublishedColumn("label", "string", "What the cell counts"),
            *_figures(release),
        ),
        ("region_type", "region_id", "iteration_code", "cell"),
        interval=INTERVAL,
    )


def _in_production_layout(release: SafeTabHRelease, table: HouseholdTable) -> PublishedTable:
    cell, labels = cell_column(table), {each: DATA_CELLS[table.family][each] for each in table.data_cells}
    return PublishedTable(
        product_of(table),
        f"{table.name} in the production layout",
        _PRODUCTION,
        release.public(product_of(table)),
        (
            *_group(release),
            PublishedColumn(cell, "integer", "Cell", labels),
            PublishedColumn("COUNT", "integer", "Noisy count"),
        ),
        ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", cell),
        delimiter="|",
    )


def _region_types(release: SafeTabRelease) -> dict[str, str]:
    measured = {region_type for region_type, _ in release.pairs}
    return {kind.value: kind.words for kind in RegionType if kind in measured}


def _region_type(release: SafeTabRelease) -> PublishedColumn:
    return PublishedColumn("region_type", "string", "Type of the region", _region_types(release))


def _group(release: SafeTabRelease) -> tuple[PublishedColumn, ...]:
    return (
        PublishedColumn("REGION_ID", "string", "Code of the region; 1 for the nation"),
        PublishedColumn("REGION_TYPE", "string", "Type of the region", _region_types(release)),
        PublishedColumn("ITERATION_CODE", "string", "Characteristic iteration"),
    )


def _in_words(release: SafeTabRelease) -> tuple[PublishedColumn, ...]:
    return (
        _region_type(release),
        PublishedColumn("region_id", "string", "Code of the region; 1 for the nation"),
        PublishedColumn("region", "string", "Name of the region, as far as the dataset names it"),
        PublishedColumn("level", "integer", "Level of the iteration", {1: "Regional", 2: "Detailed"}),
        PublishedColumn("iteration_code", "string", "Characteristic iteration"),
        PublishedColumn("iteration", "string", "The iteration in words"),
    )


def _alone(release: SafeTabRelease) -> str:
    return f"{_APART} {_NEGATIVE if release.design.negative_counts else _NOT_NEGATIVE}"


def _figures(release: SafeTabRelease) -> tuple[PublishedColumn, ...]:
    return error_columns("integer", "Noisy count, or a sum of noisy counts", "Standard deviation of the noise")


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
