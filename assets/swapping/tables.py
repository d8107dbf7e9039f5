"""The published tables, in the words of the data dictionary, and their recipes: products, and the saturated table.

Beside each swapped count stands an unbiased estimate with its standard error and 90% interval. They follow from public
values alone: the invariants, the swapped data and the declared swap rates. `mechanisms.swapping.uncertainty` has the
mathematics.
"""

from collections.abc import Sequence
from itertools import chain, combinations
from math import prod
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.conventions import escape_markdown, preview
from assets.release.published import ESTIMATE, PublishedColumn, PublishedTable, describe_column, error_columns
from assets.swapping.declaration import ESTIMATED, SwappedProduct, name_products
from assets.swapping.draw import CELLS, SWAPPED
from assets.swapping.records import COMPOSITIONS, HOLDING, SWAPPING, holding_table, read_groups, swap_variables
from assets.swapping.release import SwappingRelease
from assets.swapping.statement import PROSE
from mechanisms.refusal import RefusedError
from mechanisms.swapping.uncertainty import (
    Contributions,
    Estimates,
    MomentsOfStrata,
    estimates,
    intervals,
    moments_of_strata,
)
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

SATURATED, HOUSEHOLD_TYPES = "saturated", "saturated_persons"
MOST_CELLS = 20_000_000
FIRST_ROWS = 10
"""The number of rows of each product that the asset's page shows."""

_CONTRIBUTIONS_AT_A_TIME = 1 << 20


class TooManyCellsError(RefusedError):
    """A product would list too many cells."""


def stage_counted(
    session: Session, release: SwappingRelease, product: SwappedProduct, units: Fragment | Table
) -> Fragment | Table:
    """The records that a product counts: `units`, in the swapped table's form, or the persons who follow them."""
    if product.of == "units":
        return units
    return session.stage("persons_counted", "swapping/persons", units=units, persons=release.public(COMPOSITIONS))


def product_names(release: SwappingRelease, product: SwappedProduct, records: Fragment | Table) -> dict[str, Any]:
    """The identifiers of a product's statement; `records` come from `stage_counted`."""
    larger, listed = find_larger_places(release, product), dict[str, list[str]]()
    for column in product.columns:
        largest = column
        while largest in larger:
            largest = larger[largest]
        listed.setdefault(largest, []).append(column)
    names = {"records": records, "columns": list(product.columns), "totals": product.flags, "zeros": product.zeros}
    return names | {"listed": list(listed.values())}


def find_larger_places(release: SwappingRelease, product: SwappedProduct) -> dict[str, str]:
    """By place of a product, the larger place that still contains it after the swap: both move, or neither does."""
    sides = set(swap_variables(release)), set(release.design.holding)
    within = {name: release.variables_of(product)[name].within for name in product.columns}
    return {
        name: larger
        for name, larger in within.items()
        if larger in within and any({name, larger} <= side for side in sides)
    }


def table_recipes(session: Session, release: SwappingRelease) -> dict[Table, Recipe]:
    recipes: dict[Table, Recipe] = {}
    swapped, products = release.public(SWAPPED), release.declaration.products
    moments = derive_moments(session, release) if products and not release.design.without_estimates else None
    for product in products:
        names = product_names(release, product, stage_counted(session, release, product, swapped))
        recipe: Recipe = ("swapping/product", {}, names)
        recipes[release.public(product.table)] = (
            recipe if moments is None else add_estimates(session, release, product, recipe, moments)
        )
    if release.declaration.saturated:
        persons, columns = release.has_persons_following, list(release.variables)
        names = {"swapped": swapped, "persons": persons, "columns": columns}
        recipes[release.public(SATURATED)] = ("swapping/saturated", {}, names)
        if persons:
            names = {"persons": release.public(COMPOSITIONS), "columns": list(release.person_variables)}
            recipes[release.public(HOUSEHOLD_TYPES)] = ("swapping/household_types", {}, names)
    return recipes


def derive_moments(session: Session, release: SwappingRelease) -> MomentsOfStrata:
    """The moments of all strata of a release with constant rates within strata, from stored invariants."""
    groups = read_groups(session, release, release.public(HOLDING), "holding_code")
    firsts = np.flatnonzero(np.diff(groups.first.stratum, prepend=-1))
    sizes = np.add.reduceat(groups.records, firsts) if len(firsts) else groups.records
    return moments_of_strata(sizes, [groups.first.rates[place] for place in groups.first.rate_class[firsts]])


def add_estimates(
    session: Session, release: SwappingRelease, product: SwappedProduct, counts: Recipe, moments: MomentsOfStrata
) -> Recipe:
    """The recipe of a product with estimates, in hundredths, of a release with constant rates within strata."""
    name, values, names = counts
    table = session.stage(f"counts_of_{product.name}", name, values, **names)
    key = [*product.columns, *product.flags.values()]
    cells = session.stage(f"cells_of_{product.name}", "swapping/numbered", product=table, key=key)
    (number,) = session.row("warehouse/count", table=cells)
    sums = _estimate_cells(session, release, product, cells, int(number), moments)
    figures = zip(ESTIMATED, (sums.estimate, *intervals(sums), sums.greatest_bias), strict=True)
    hundredths = {name: np.rint(figure * 100).astype(np.int64) for name, figure in figures}
    rows = session.register(f"estimates_of_{product.name}", pa.table({"cell_number": np.arange(number), **hundredths}))
    return "swapping/estimated", {}, {"product": cells, "estimates": rows, "figures": list(ESTIMATED)}


def _estimate_cells(
    session: Session,
    release: SwappingRelease,
    product: SwappedProduct,
    cells: Fragment,
    number: int,
    moments: MomentsOfStrata,
) -> Estimates:
    """The estimates of all cells, in the order of the rows: sums of the estimated contributions of strata."""
    amounts = session.stage(
        "amounts",
        "swapping/amounts",
        holding=release.public(HOLDING),
        held=[column for column in product.columns if column in release.design.holding],
        persons=release.public(COMPOSITIONS) if product.of == "persons" else None,
        of_persons=[column for column in product.columns if column in release.person_variables],
    )
    sums = Estimates(*(np.zeros(number) for _ in range(5)))
    for summed in chain.from_iterable(combinations(product.totals, size) for size in range(len(product.totals) + 1)):
        columns = [column for column in product.columns if column not in summed]
        names: dict[str, Any] = {
            "amounts": amounts,
            "swapping": release.public(SWAPPING),
            "cells": release.public(CELLS),
            "product": cells,
            "held": [column for column in columns if column not in release.design.swap],
            # Match variables on either side determine the strata of a cell.
            "swapped": [column for column in columns if column in swap_variables(release)],
            "summed": [product.flags[column] for column in summed],
            "single": [flag for column, flag in product.flags.items() if column not in summed],
        }
        for batch in session.batches("swapping/contributions", _CONTRIBUTIONS_AT_A_TIME, **names):
            column = {name: batch.column(name).to_numpy() for name in batch.schema.names}
            cell, stratum = column.pop("cell_number"), column.pop("stratum")
            for name, values in vars(estimates(Contributions(**column), moments[stratum])).items():
                np.add.at(getattr(sums, name), cell, values)
    return sums


def require_readable(session: Session, release: SwappingRelease) -> None:
    """Raise TooManyCellsError, before the charge, if a product with its empty cells and totals could have more than 20
    million rows. Only the invariants are needed."""
    sources = {
        holding_table(release): set(release.design.holding),
        release.public(SWAPPING): set(release.design.swap),
        release.public(COMPOSITIONS): set(release.person_variables),
    }
    for product in release.declaration.products:
        # A place lies in one larger place, which adds no cells.
        cells, larger = 1, find_larger_places(release, product).values()
        for table, variables in sources.items():
            columns = [name for name in product.columns if name in variables and name not in larger]
            if columns:
                cells *= prod(session.row("swapping/combinations", table=table, columns=columns))
        # Totals over a column at most double the rows.
        cells <<= len(product.totals)
        if product.zeros and cells > MOST_CELLS:
            raise TooManyCellsError(
                f"{release.schema}: product {product.name} would list {cells:,} cells, most of them empty; "
                "declare it with zeros: false"
            )


def preview_products(session: Session, release: SwappingRelease) -> dict[str, dg.MetadataValue]:
    """The first rows of every product, for the asset's page. Geography and dimensions have a column each."""
    shown: dict[str, dg.MetadataValue] = {}
    titles = name_products(release.declaration.products)
    figures = [] if release.design.without_estimates else ["estimate", "lower", "upper"]
    for product in release.declaration.products:
        table = release.public(product.table)
        rows = session.rows(
            "warehouse/first_rows", {"rows": FIRST_ROWS}, source=table, columns=[*product.columns, "count", *figures]
        )
        header = {
            "place": ", ".join(product.geography) or "all places",
            "cell": ", ".join(product.dimensions) or f"all {product.of}",
            "count": f"number of {product.of}",
            **({"estimate": "estimate before the swap, with its 90% interval"} if figures else {}),
        }
        first = f"first {len(rows)} of {session.count(table):,} rows"
        shown[f"{titles[product.name]} ({first})"] = preview(header, [_format_row(product, row) for row in rows])
    return shown


def _format_row(product: SwappedProduct, row: Sequence[Any]) -> list[str]:
    border, last = len(product.geography), len(product.columns)
    count, *figures = row[last:]
    cells = [_join_codes(row[:border]), _join_codes(row[border:last]), f"{count:,}"]
    if figures:
        estimate, lower, upper = figures
        # Keep the interval on one line.
        cells.append(f"{estimate:,.1f} ({lower:,.1f}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{upper:,.1f})")
    return cells


def _join_codes(codes: Sequence[object]) -> str:
    return " / ".join("–" if code is None else str(code) for code in codes) or "all"


def describe_tables(release: SwappingRelease) -> str:
    counted = {"units": f"{release.design.unit}s", "persons": "persons"}
    lines = [
        f"- **{product.name}**: "
        + escape_markdown(f"{product.title or product.name}; {counted[product.of]} by {' × '.join(product.columns)}")
        for product in release.declaration.products
    ]
    saturated = release.declaration.saturated
    return PROSE("tables", design=release.design, products="\n".join(lines), saturated=saturated)


def published_tables(release: SwappingRelease) -> list[PublishedTable]:
    unit = release.design.unit
    tables = [_describe_product(release, product) for product in release.declaration.products]
    if not release.declaration.saturated:
        return tables
    kind = PublishedColumn(
        "household_type", "integer", f"Number of the kind of {unit}; {HOUSEHOLD_TYPES} lists its persons"
    )
    kinds = (kind,) if release.has_persons_following else ()
    title = "Saturated contingency table"
    description = f"The number of {unit}s after swapping for each combination of values that occurs."
    variables = (describe_column(name, column) for name, column in release.variables.items())
    columns = (*kinds, *variables, _count_column(f"{unit}s"))
    key = (*(column.name for column in kinds), *release.variables)
    tables.append(PublishedTable(SATURATED, title, description, release.public(SATURATED), columns, key))
    if kinds:
        title = f"Persons by kind of {unit}"
        description = f"The persons in each {unit} of a kind; {SATURATED} has the number of {unit}s of each kind."
        variables = (describe_column(name, column) for name, column in release.person_variables.items())
        words = f"Number of such persons in each {unit} of the kind"
        persons = PublishedColumn("persons", "integer", words, unit="persons")
        columns, key = (kind, *variables, persons), ("household_type", *release.person_variables)
        tables.append(
            PublishedTable(HOUSEHOLD_TYPES, title, description, release.public(HOUSEHOLD_TYPES), columns, key)
        )
    return tables


def _describe_product(release: SwappingRelease, product: SwappedProduct) -> PublishedTable:
    variables, reason = release.variables_of(product), release.design.without_estimates
    counted = "persons" if product.of == "persons" else f"{release.design.unit}s"
    estimate, error = PROSE("estimate", counted=counted), PROSE("standard error")
    errors = (
        *error_columns("decimal", estimate, error, counted),
        PublishedColumn("greatest_bias", "decimal", PROSE("bias"), error_of=ESTIMATE),
    )
    flags = (
        PublishedColumn(flag, "boolean", PROSE("total", name=name), title=f"{name}: total")
        for name, flag in product.flags.items()
    )
    return PublishedTable(
        product.name,
        product.title or product.name,
        f"{product.description} {PROSE('product', reason=reason, zeros=product.zeros, counted=counted)}".strip(),
        release.public(product.table),
        (
            *(describe_column(name, variables[name], product.flags.get(name, "")) for name in product.columns),
            *flags,
            _count_column(counted),
            *(() if reason else errors),
        ),
        (*product.columns, *product.flags.values()),
        interval="" if reason else PROSE("interval"),
        geography=tuple(product.geography),
    )


def _count_column(counted: str) -> PublishedColumn:
    return PublishedColumn("count", "integer", f"Number of {counted} after swapping", unit=counted)
