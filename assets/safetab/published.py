"""The published tables of SafeTab-P and SafeTab-H, as the data dictionary describes them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from assets.release.published import PublishedColumn, PublishedTable, error_columns
from assets.safetab.plan import PARAMETER_COLUMNS
from assets.safetab.release import PARAMETERS, REGIONS, SafeTabHRelease, SafeTabPRelease, SafeTabRelease
from assets.safetab.tables import IN_WORDS, SEX_BY_AGE, T1, T2, TOTALS, measured_tables, name_cell_column, name_product
from mechanisms.safetab.details import DATA_CELLS
from mechanisms.safetab.lists import RegionType

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
                    PublishedColumn("label", "string", "What the cell counts"),
                ),
            )
        )
        for table in tables:
            labels = {cell: DATA_CELLS[family][cell] for cell in table.data_cells}
            column = PublishedColumn(name_cell_column(table), "integer", "Cell", labels)
            title = f"{table.name} in the production layout"
            layout.append(_in_layout(release, name_product(table), title, _PRODUCTION, (column,)))
    return (*words, *layout, _parameters(release))


def column_descriptions(tables: Iterable[PublishedTable]) -> dict[str, str]:
    """The descriptions of the columns of tables, by name, for the page of the asset that makes them."""
    return {column.name: column.description for table in tables for column in table.columns}


def _in_words(
    release: SafeTabRelease, name: str, title: str, description: str, columns: Sequence[PublishedColumn] = ()
) -> PublishedTable:
    """A table in words, with the columns that tell the rows of a group apart, and labels of them."""
    keys = [column.name for column in columns if column.name != "label"]
    return PublishedTable(
        name,
        title,
        description,
        release.public(name),
        (
            _region_type(release),
            PublishedColumn("region_id", "string", "Code of the region; 1 for the nation"),
            PublishedColumn("region", "string", "Name of the region, as far as the dataset names it"),
            PublishedColumn("level", "integer", "Level of the iteration", {1: "Regional", 2: "Detailed"}),
            PublishedColumn("iteration_code", "string", "Characteristic iteration"),
            PublishedColumn("iteration", "string", "The iteration in words"),
            *columns,
            *error_columns("integer", "Noisy count, or a sum of noisy counts", "Standard deviation of the noise"),
        ),
        ("region_type", "region_id", "iteration_code", *keys),
        interval=INTERVAL,
    )


def _in_layout(
    release: SafeTabRelease, name: str, title: str, description: str, columns: Sequence[PublishedColumn] = ()
) -> PublishedTable:
    """A table in the production layout, with the columns that tell the rows of a group apart."""
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
            PublishedColumn("COUNT", "integer", "Noisy count"),
        ),
        ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", *(column.name for column in columns)),
        delimiter="|",
    )


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
