"""The recipes of a release's tables: products from the swapped data, or from the original records for `utility`."""

from collections.abc import Sequence
from math import prod
from typing import Any

import dagster as dg

from assets.conventions import preview
from assets.swapping.cells import SWAPPED
from assets.swapping.estimated import stored_moments, with_estimates
from assets.swapping.product import SwappedProduct, titles_of
from assets.swapping.records import COMPOSITIONS, SWAPPING, holding_table
from assets.swapping.release import SwappingRelease
from mechanisms.refusal import RefusedError
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

SATURATED, HOUSEHOLD_TYPES = "saturated", "saturated_persons"
MOST_CELLS = 20_000_000
FIRST_ROWS = 10
"""How many rows of each product the asset's page shows."""

_ESTIMATES = """Beside every count stands an unbiased estimate of the count before the swap, with its standard error and
90% interval. In a stratum of n records, with F of them in the cell by holding variables and G by swap variables,

    E y = c x + (1 − c) F G / n,   so the estimate is F G / n + (y − F G / n) / c;   c = 1 − p̃ n / (n − 1).

Here x and y are the counts before and after the swap, and p̃ is the probability that a record moves. Estimates add up
over strata."""


class TooManyCellsError(RefusedError):
    """A product would list too many cells."""


def counted(
    session: Session, release: SwappingRelease, product: SwappedProduct, units: Fragment | Table
) -> Fragment | Table:
    """The records that a product counts: the units, or the persons who follow them, each with a count.

    Args:
        session: a session that reads the public zone.
        units: a table of units in the form of the swapped table, with `holding_code` and `count`.
    """
    if product.of == "units":
        return units
    return session.stage("persons_counted", "swapping/persons", units=units, persons=release.public(COMPOSITIONS))


def product_names(product: SwappedProduct, records: Fragment | Table) -> dict[str, Any]:
    """The identifiers of a product's statement; `records` come from `counted`."""
    return {
        "records": records,
        "columns": list(product.columns),
        "totals": product.flags,
        "zeros": product.zeros,
    }


def saturated_statements(release: SwappingRelease) -> dict[str, tuple[str, dict[str, Any]]]:
    """The statements, with their identifiers, of the saturated contingency table and of the persons in it, by table.

    There are none if the release leaves them out.
    """
    if not release.declaration.saturated:
        return {}
    swapped, persons = release.public(SWAPPED), release.has_persons_following
    names: dict[str, Any] = {"swapped": swapped, "persons": persons, "columns": list(release.variables)}
    statements = {SATURATED: ("swapping/saturated", names)}
    if persons:
        names = {"persons": release.public(COMPOSITIONS), "columns": list(release.person_variables)}
        statements[HOUSEHOLD_TYPES] = ("swapping/household_types", names)
    return statements


def table_recipes(session: Session, release: SwappingRelease) -> dict[Table, Recipe]:
    """The recipe of every published table, products first."""
    recipes: dict[Table, Recipe] = {}
    estimated = bool(release.declaration.products) and not release.design.without_estimates
    moments = stored_moments(session, release) if estimated else None
    for product in release.declaration.products:
        names = product_names(product, counted(session, release, product, release.public(SWAPPED)))
        recipe: Recipe = ("swapping/product", {}, names)
        if moments is not None:
            recipe = with_estimates(session, release, product, recipe, moments)
        recipes[release.public(product.table)] = recipe
    for table, (name, names) in saturated_statements(release).items():
        recipes[release.public(table)] = (name, {}, names)
    return recipes


def require_readable(session: Session, release: SwappingRelease) -> None:
    """Refuse products with too many empty cells. Only the invariants are needed, so this is checked before the charge.

    Raises:
        TooManyCellsError: if a product with its empty cells and its totals could have more than 20 million rows.
    """
    sources = {
        holding_table(release): set(release.design.holding),
        release.public(SWAPPING): set(release.design.swap),
        release.public(COMPOSITIONS): set(release.person_variables),
    }
    for product in release.declaration.products:
        cells = 1
        for table, variables in sources.items():
            columns = [name for name in product.columns if name in variables]
            if columns:
                cells *= prod(session.row("swapping/combinations", table=table, columns=columns))
        # Totals over a column at most double the rows.
        cells <<= len(product.totals)
        if product.zeros and cells > MOST_CELLS:
            raise TooManyCellsError(
                f"{release.schema}: product {product.name} would list {cells:,} cells, most of them empty; "
                "declare it with zeros: false"
            )


def first_rows(session: Session, release: SwappingRelease) -> dict[str, dg.MetadataValue]:
    """The first rows of every product, for the asset's page. Geography and dimensions have a column each."""
    shown: dict[str, dg.MetadataValue] = {}
    titles = titles_of(release.declaration.products)
    figures = [] if release.design.without_estimates else ["estimate", "lower", "upper"]
    for product in release.declaration.products:
        table = release.public(product.table)
        rows = session.rows(
            "warehouse/first_rows", {"rows": FIRST_ROWS}, source=table, columns=[*product.columns, "count", *figures]
        )
        border, last = len(product.geography), len(product.columns)
        header = {
            "place": ", ".join(product.geography) or "all places",
            "cell": ", ".join(product.dimensions) or f"all {product.of}",
            "count": f"number of {product.of}",
            **({"estimate": "estimate before the swap, with its 90% interval"} if figures else {}),
        }
        first = f"first {len(rows)} of {session.count(table):,} rows"
        shown[f"{titles[product.name]} ({first})"] = preview(
            header,
            [
                (_joined(row[:border]), _joined(row[border:last]), f"{row[last]:,}", *_estimate(row[last + 1 :]))
                for row in rows
            ],
        )
    return shown


def _estimate(figures: Sequence[Any]) -> tuple[str, ...]:
    """An estimate with its interval, if there is one, without a break in the middle of the interval."""
    if not figures:
        return ()
    estimate, lower, upper = figures
    return (f"{estimate:,.1f} ({lower:,.1f}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{upper:,.1f})",)


def _joined(codes: Sequence[object]) -> str:
    return " / ".join("–" if code is None else str(code) for code in codes) or "all"


def describe_tables(release: SwappingRelease) -> str:
    counted = {"units": f"{release.design.unit}s", "persons": "persons"}
    lines = [
        f"- **{product.name}**: {product.title or product.name}; {counted[product.of]} by {' × '.join(product.columns)}"
        for product in release.declaration.products
    ]
    return "\n".join(
        [
            "Products, tabulated from the swapped data only:",
            "",
            *lines,
            "",
            _ESTIMATES
            if not release.design.without_estimates
            else f"Counts before the swap are not estimated, because {release.design.without_estimates}.",
            "",
            *(
                ["- **saturated**: the saturated contingency table, from which every other table can be computed"]
                if release.declaration.saturated
                else []
            ),
            "",
            "ε covers every table made from the swapped data (post-processing), so more tables add no loss.",
        ]
    )
