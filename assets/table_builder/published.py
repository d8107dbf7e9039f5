"""The published tables of a hypercube, as the data dictionary describes them. `tables` and `plan` make them."""

from collections.abc import Mapping
from typing import Any

from assets.release.columns import describe_columns
from assets.release.published import ERRORS, PublishedColumn, PublishedTable, describe_column, error_columns
from assets.table_builder.asking import CATEGORIES, HYPERCUBE, P_TABLE, TABLES
from assets.table_builder.declaration import SubTableDeclaration
from assets.table_builder.plan import CATEGORY_COLUMNS, OPTIONAL, P_TABLE_COLUMNS, TABLE_COLUMNS
from assets.table_builder.release import HypercubeRelease
from mechanisms.table_builder.hypercube import Margins

_ADDING_UP = {
    Margins.SUMMED: "Only cells by all variables are listed; every other table is a sum of them, whose error "
    "the command stirred table states.",
    Margins.INDEPENDENT: "Every margin was measured with noise of its own, so margins are not the sums of inner cells.",
    Margins.FITTED: "Estimates add up: every margin is the sum of its inner cells. The measurements do not.",
}


def published_tables(release: HypercubeRelease) -> tuple[PublishedTable, ...]:
    """The hypercube, the declared products, the measured tables with their noise, and the categories."""
    return (
        _hypercube(release),
        *(_product(release, product) for product in release.cube.products),
        PublishedTable(
            TABLES,
            "The measured tables and their noise",
            "Which tables were measured, with which budget and noise. It follows from the declaration alone.",
            release.public(TABLES),
            _planned(TABLE_COLUMNS),
            ("table_name",),
        ),
        PublishedTable(
            CATEGORIES,
            "The categories of the variables",
            "By variable, its categories in the order in which cells are numbered: the last variable of a table varies "
            "fastest.",
            release.public(CATEGORIES),
            _planned(CATEGORY_COLUMNS),
            ("variable", "number"),
        ),
        *(() if release.design.p_table is None else (_p_table(release),)),
    )


def column_descriptions(release: HypercubeRelease) -> dict[str, str]:
    return describe_columns(release.columns) | {
        column.name: column.description for column in _hypercube(release).columns if column.name not in release.columns
    }


def _planned(columns: Mapping[str, tuple[str, str, Any]]) -> tuple[PublishedColumn, ...]:
    return tuple(
        PublishedColumn(name, kind, words, required=name not in OPTIONAL) for name, (kind, words, _) in columns.items()
    )


def _p_table(release: HypercubeRelease) -> PublishedTable:
    cycle = release.design.p_table.cycle if release.design.p_table else 1
    rest = "the last one" if cycle == 1 else f"the last {cycle} in turn"
    return PublishedTable(
        P_TABLE,
        "The p-table",
        f"With which probability each count was changed by how much. Greater counts use {rest}.",
        release.public(P_TABLE),
        _planned(P_TABLE_COLUMNS),
        ("count", "change"),
    )


def _hypercube(release: HypercubeRelease) -> PublishedTable:
    amount = release.amount
    totals = release.design.margins is not Margins.SUMMED
    measured = f"Noisy sum of {amount.column}" if amount else "Noisy count"
    return PublishedTable(
        HYPERCUBE,
        release.title,
        f"{release.description} {_ADDING_UP[release.design.margins]}".strip(),
        release.public(HYPERCUBE),
        (
            PublishedColumn("table_name", "string", "The measured table: its variables"),
            PublishedColumn("cell", "integer", "Number of the cell in its table"),
            *(
                describe_column(name, release.columns[name], f"{name}_total" if totals else "")
                for name in release.cube.variables
            ),
            *(
                PublishedColumn(f"{name}_total", "boolean", f"Whether the row is a total over {name}")
                for name in (release.cube.variables if totals else ())
            ),
            PublishedColumn(
                "measured",
                "decimal" if amount else "integer",
                f"{measured}, as drawn; it may be negative",
                required=not release.cube.suppress_below,
            ),
            *_figures(release),
        ),
        ("table_name", "cell"),
        interval=interval(release),
    )


def _product(release: HypercubeRelease, product: SubTableDeclaration) -> PublishedTable:
    counted = "; ".join(
        f"{name}: {', '.join('no value' if value is None else str(value) for value in values)}"
        for name, values in product.where.items()
    )
    return PublishedTable(
        product.name,
        product.title or product.name.replace("_", " "),
        "Built from the hypercube, at no further loss." + (f" Counted are only {counted}." if counted else ""),
        release.public(f"product_{product.name}"),
        (*(describe_column(name, release.columns[name]) for name in product.by), *_figures(release)),
        tuple(product.by),
        interval=interval(release),
    )


def interval(release: HypercubeRelease) -> str:
    if release.design.margins is Margins.FITTED:
        return (
            "The estimate, and on both sides the least number that bounds its error, a weighted sum of the "
            "measurements' noises, with a probability of at least 0.9."
        )
    return (
        "All numbers from which what was measured differs by a value in the shortest set that has its noise with a "
        "probability of at least 0.9."
    )


def _figures(release: HypercubeRelease) -> tuple[PublishedColumn, ...]:
    negative = release.design.margins is Margins.FITTED or release.design.least < 0
    columns = error_columns(
        "decimal",
        "Estimate; it may be negative" if negative else "Estimate: what was measured, or 0 if that is negative",
        "Standard error of the estimate, from the noise alone",
        optional=ERRORS if release.cube.suppress_below else (),
    )
    if not release.cube.suppress_below:
        return columns
    flag = PublishedColumn(
        "suppressed",
        "boolean",
        f"Whether the estimate is below {float(release.cube.suppress_below):g} and not published",
    )
    return (*columns, flag)
