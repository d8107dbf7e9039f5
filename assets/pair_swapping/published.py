"""The published tables of pair swapping, for the data dictionary: the swapped records, and the products."""

from assets.pair_swapping.release import SWAPPED, SWAPPED_PERSONS, PairSwappingRelease
from assets.release.published import Product, PublishedColumn, PublishedTable, describe_column

UNIT = PublishedColumn("unit", "integer", "Number of the unit, from 1; the order is by content, not that of any file")


def published_tables(release: PairSwappingRelease) -> list[PublishedTable]:
    persons = tuple(describe_column(name, column) for name, column in release.person_variables.items())
    units = tuple(describe_column(name, column) for name, column in release.variables.items())
    return [
        PublishedTable(
            SWAPPED,
            "Units after swapping",
            "Every unit, with the place that it has after swapping.",
            release.public(SWAPPED),
            (UNIT, *units),
            ("unit",),
        ),
        PublishedTable(
            SWAPPED_PERSONS,
            "Persons after swapping",
            "Every person, with the number of the unit that the person lives in.",
            release.public(SWAPPED_PERSONS),
            (UNIT, *persons),
            (),
        ),
        *(_product(release, product) for product in release.declaration.products),
    ]


def _product(release: PairSwappingRelease, product: Product) -> PublishedTable:
    variables = release.columns_of(product)
    return PublishedTable(
        product.name,
        product.title or product.name,
        f"{product.description} Counted from the swapped records; combinations that do not occur have no row.".strip(),
        release.public(product.table),
        (
            *(describe_column(name, variables[name]) for name in product.columns),
            PublishedColumn("count", "integer", f"Number of {product.of} after swapping"),
        ),
        product.columns,
    )
