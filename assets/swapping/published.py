"""The published tables of permutation swapping: the products, and the saturated contingency table.

This module describes them for the data dictionary. `tables` makes them.
"""

from assets.release.published import PublishedColumn, PublishedTable, error_columns
from assets.swapping.declaration import SwappedProduct
from assets.swapping.release import SwappingRelease
from assets.swapping.tables import HOUSEHOLD_TYPES, SATURATED
from assets.tabulation.dictionary import published_column

_INTERVAL = (
    "1.645 standard errors and the greatest bias on both sides of the estimate, but never beyond what the counts held "
    "fixed allow."
)


def published_tables(release: SwappingRelease) -> list[PublishedTable]:
    """The published tables of a release: its products, and the saturated contingency table unless it is left out."""
    unit = release.design.unit
    tables = [_describe_product(release, product) for product in release.declaration.products]
    if not release.declaration.saturated:
        return tables
    household_type = PublishedColumn(
        "household_type", "integer", f"Number of the kind of {unit}; {HOUSEHOLD_TYPES} lists its persons"
    )
    types = (household_type,) if release.has_persons_following else ()
    variables = (published_column(name, column) for name, column in release.variables.items())
    tables.append(
        PublishedTable(
            SATURATED,
            "Saturated contingency table",
            f"The number of {unit}s after swapping for each combination of values that occurs.",
            release.public(SATURATED),
            (*types, *variables, _count_column(f"{unit}s")),
            (*(column.name for column in types), *release.variables),
        )
    )
    if types:
        variables = (published_column(name, column) for name, column in release.person_variables.items())
        persons = PublishedColumn("persons", "integer", f"Number of such persons in each {unit} of the kind")
        tables.append(
            PublishedTable(
                HOUSEHOLD_TYPES,
                f"Persons by kind of {unit}",
                f"The persons in each {unit} of a kind; {SATURATED} has the number of {unit}s of each kind.",
                release.public(HOUSEHOLD_TYPES),
                (household_type, *variables, persons),
                ("household_type", *release.person_variables),
            )
        )
    return tables


def _describe_product(release: SwappingRelease, product: SwappedProduct) -> PublishedTable:
    variables, reason = release.variables_of(product), release.design.without_estimates
    counted = "persons" if product.of == "persons" else f"{release.design.unit}s"
    note = f"The numbers before swapping are not estimated, because {reason}." if reason else ""
    if not reason and not product.zeros:
        note = (
            f"Cells without {counted} after swapping are left out, so the estimates of the smallest cells that are "
            "listed are too high on average."
        )
    return PublishedTable(
        product.name,
        product.title or product.name,
        f"{product.description} All tables of the release are counted from the same swapped data, so they add up and "
        f"agree. {note}".strip(),
        release.public(product.table),
        (
            *(published_column(name, variables[name], product.flags.get(name, "")) for name in product.columns),
            *(_flag_column(name, flag) for name, flag in product.flags.items()),
            _count_column(counted),
            *(() if reason else _error_columns(counted)),
        ),
        (*product.columns, *product.flags.values()),
        interval="" if reason else _INTERVAL,
    )


def _flag_column(name: str, flag: str) -> PublishedColumn:
    words = f"Whether the row is a total over {name}, which then has no value"
    return PublishedColumn(flag, "boolean", words, title=f"{name}: total")


def _error_columns(counted: str) -> tuple[PublishedColumn, ...]:
    estimate = (
        f"Unbiased estimate of the number of {counted} before swapping, from the numbers after swapping, the counts "
        "held fixed and the swap rates; it may be negative"
    )
    bias = (
        "How far the estimate may be off on average; above 0 only where numbers after swapping stand for those before, "
        "in strata that the swap changes too much to be corrected"
    )
    return (
        *error_columns("decimal", estimate, "Standard error of the estimate, over the random choices of the swap"),
        PublishedColumn("greatest_bias", "decimal", bias),
    )


def _count_column(counted: str) -> PublishedColumn:
    return PublishedColumn("count", "integer", f"Number of {counted} after swapping")
