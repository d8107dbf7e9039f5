"""The published tables of permutation swapping: the products, and the saturated contingency table.

This module describes them for the data dictionary. `tables` makes them.
"""

from assets.release.published import PublishedColumn, PublishedTable, describe_column, error_columns
from assets.swapping.product import SwappedProduct
from assets.swapping.release import SwappingRelease
from assets.swapping.tables import HOUSEHOLD_TYPES, SATURATED

ESTIMATED_NUMBER = (
    "Unbiased estimate of the number of {counted} before swapping, from the numbers after swapping, the counts held "
    "fixed and the swap rates; it may be negative"
)
GREATEST_BIAS = (
    "How far the estimate may be off on average; above 0 only where numbers after swapping stand for those before, in "
    "strata that the swap changes too much to be corrected"
)
INTERVAL = (
    "1.645 standard errors and the greatest bias on both sides of the estimate, but never beyond what the counts held "
    "fixed allow."
)
"""What the data dictionary says of the estimates."""

_ADDING_UP = "All tables of the release are counted from the same swapped data, so they add up and agree."


def published_tables(release: SwappingRelease) -> list[PublishedTable]:
    """The published tables of a release: its products, and the saturated contingency table unless it is left out."""
    unit = release.design.unit
    tables = [_published_product(release, product) for product in release.declaration.products]
    if not release.declaration.saturated:
        return tables
    household_type = PublishedColumn(
        "household_type", "integer", f"Number of the kind of {unit}; {HOUSEHOLD_TYPES} lists its persons"
    )
    types = (household_type,) if release.has_persons_following else ()
    tables.append(
        PublishedTable(
            SATURATED,
            "Saturated contingency table",
            f"The number of {unit}s after swapping for each combination of values that occurs.",
            release.public(SATURATED),
            (
                *types,
                *(describe_column(name, column) for name, column in release.variables.items()),
                _count(f"{unit}s"),
            ),
            (*(column.name for column in types), *release.variables),
        )
    )
    if types:
        variables = release.person_variables
        tables.append(
            PublishedTable(
                HOUSEHOLD_TYPES,
                f"Persons by kind of {unit}",
                f"The persons in each {unit} of a kind; {SATURATED} has the number of {unit}s of each kind.",
                release.public(HOUSEHOLD_TYPES),
                (
                    household_type,
                    *(describe_column(name, column) for name, column in variables.items()),
                    PublishedColumn("persons", "integer", f"Number of such persons in each {unit} of the kind"),
                ),
                ("household_type", *variables),
            )
        )
    return tables


def _published_product(release: SwappingRelease, product: SwappedProduct) -> PublishedTable:
    variables = release.variables_of(product)
    counted = "persons" if product.of == "persons" else f"{release.design.unit}s"
    columns = [describe_column(name, variables[name], product.flags.get(name, "")) for name in product.columns]
    flags = [
        PublishedColumn(
            flag, "boolean", f"Whether the row is a total over {name}, which then has no value", title=f"{name}: total"
        )
        for name, flag in product.flags.items()
    ]
    reason = release.design.without_estimates
    return PublishedTable(
        product.name,
        product.title or product.name,
        f"{product.description} {_ADDING_UP} {_estimates_in_words(product, counted, reason)}".strip(),
        release.public(product.table),
        (
            *columns,
            *flags,
            _count(counted),
            *(() if reason else _errors(counted)),
        ),
        (*product.columns, *product.flags.values()),
        interval="" if reason else INTERVAL,
    )


def _errors(counted: str) -> tuple[PublishedColumn, ...]:
    return (
        *error_columns(
            "decimal",
            ESTIMATED_NUMBER.format(counted=counted),
            "Standard error of the estimate, over the random choices of the swap",
        ),
        PublishedColumn("greatest_bias", "decimal", GREATEST_BIAS),
    )


def _estimates_in_words(product: SwappedProduct, counted: str, reason: str) -> str:
    if reason:
        return f"The numbers before swapping are not estimated, because {reason}."
    if product.zeros:
        return ""
    return (
        f"Cells without {counted} after swapping are left out, so the estimates of the smallest cells that are listed "
        "are too high on average."
    )


def _count(counted: str) -> PublishedColumn:
    return PublishedColumn("count", "integer", f"Number of {counted} after swapping")
