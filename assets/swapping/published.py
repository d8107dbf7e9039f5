"""What is published of a release by permutation swapping: its products, and the saturated contingency table.

Here belong the tables as the data dictionary describes them. Tabulating them belongs in `assets.tabulation`.
"""

from assets.release.published import PublishedColumn, PublishedTable
from assets.swapping.product import SwappedProduct
from assets.swapping.release import SwappingRelease
from assets.swapping.tables import HOUSEHOLD_TYPES, SATURATED
from assets.tabulation.dictionary import published_column


def published_tables(release: SwappingRelease) -> list[PublishedTable]:
    """What is published of a release: its products, and the saturated contingency table."""
    unit = release.design.unit
    tables = [_published_product(release, product) for product in release.products]
    household_type = PublishedColumn(
        "household_type", "integer", f"Number of the {unit}'s kind: its persons are listed"
    )
    types = (household_type,) if release.has_persons_following else ()
    tables.append(
        PublishedTable(
            SATURATED,
            "Saturated contingency table",
            f"How many swapped {unit}s there are with each combination of values that occurs.",
            release.public(SATURATED),
            (
                *types,
                *(published_column(name, column) for name, column in release.variables.items()),
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
                f"The persons in each {unit} of a kind; how many {unit}s there are of it, {SATURATED} says.",
                release.public(HOUSEHOLD_TYPES),
                (
                    household_type,
                    *(published_column(name, column) for name, column in variables.items()),
                    PublishedColumn("persons", "integer", f"Number of such persons in each {unit} of the kind"),
                ),
                ("household_type", *variables),
            )
        )
    return tables


def _published_product(release: SwappingRelease, product: SwappedProduct) -> PublishedTable:
    variables = release.variables_of(product)
    counted = "persons" if product.of == "persons" else f"{release.design.unit}s"
    columns = [
        published_column(name, variables[name], product.total_label if name in product.totals else "")
        for name in product.columns
    ]
    return PublishedTable(
        product.name,
        product.title or product.name,
        product.description,
        release.public(product.table),
        (*columns, _count(counted)),
        product.columns,
    )


def _count(counted: str) -> PublishedColumn:
    return PublishedColumn("count", "integer", f"Number of {counted} after swapping")
