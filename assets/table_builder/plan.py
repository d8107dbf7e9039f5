"""The asset `plan`: the noise, the loss and the accuracy of every measured table, from the declaration alone.

No record is read, so a hypercube can be planned before there is any data, and judged before anything is charged.
"""

from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.conventions import StageKind, attributes, named, preview, table_schema
from assets.failures import stated_plainly
from assets.measurement.grid import DISTRIBUTIONS
from assets.pictures import picture
from assets.table_builder.asking import CATEGORIES, P_TABLE, TABLES
from assets.table_builder.charts import loss_against_epsilon, upwards
from assets.table_builder.counting import categories, table_name
from assets.table_builder.perturbation import noise_of
from assets.table_builder.release import HypercubeRelease
from mechanisms.accounting.composition import stated
from mechanisms.accounting.loss import PureLoss
from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.noise import Distribution, Perturbation
from mechanisms.table_builder.asking import margin_of_one
from mechanisms.table_builder.hypercube import Hypercube
from mechanisms.table_builder.hypercube import Table as Variables
from mechanisms.table_builder.judging import (
    curve,
    discrete_laplace_delta,
    discrete_laplace_epsilon,
    judge,
    ratio_below,
    smallest_epsilon,
)
from mechanisms.table_builder.p_table import PTable
from resources.statements import Table, Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"
PLAN = "plan"
"""The name of the stage."""


PLANNED = pa.decimal128(24, 4)
TABLE_COLUMNS = {
    "table_name": ("string", "The measured table: its variables", pa.string()),
    "counted": ("string", "What is counted or added up", pa.string()),
    "cells": ("integer", "Number of measured cells", pa.int64()),
    "budget": ("string", "ε or ρ of the table for one record added or removed, exact", pa.string()),
    "charged": ("string", "Loss of the table for one record changed, exact", pa.string()),
    "noise": ("string", "Distribution of the noise", pa.string()),
    "parameter": (
        "string",
        "Scale of the discrete Laplace or σ² of the discrete Gaussian, exact, in steps; SHA-256 of a p-table",
        pa.string(),
    ),
    "cap": ("integer", "The greatest noise, in steps; empty without a cap", pa.int64()),
    "margins": ("string", "How margins are made: summed, independent or fitted", pa.string()),
    "grid": ("decimal", "What one step stands for: 1 record, or the step of the grid", PLANNED),
    "least": ("integer", "The least number of steps that a record adds", pa.int64()),
    "most": ("integer", "The greatest number of steps that a record adds", pa.int64()),
    "standard_error": ("decimal", "Standard deviation of the noise of a cell", PLANNED),
    "margin": ("decimal", "Noise is within this margin with a probability of at least 90%", PLANNED),
}
"""The columns of the measured tables: their types and descriptions, and their types in Arrow."""

CATEGORY_COLUMNS = {
    "variable": ("string", "The variable", pa.string()),
    "number": ("integer", "Number of the category, from 0", pa.int64()),
    "category": ("string", "The category, as text; empty for records without a value", pa.string()),
    "label": ("string", "The category in words; empty if it has no label", pa.string()),
}
"""The columns of `categories`."""

P_TABLE_COLUMNS = {
    "count": ("integer", "The exact count", pa.int64()),
    "change": ("integer", "What is added to it", pa.int64()),
    "probability": ("string", "Probability of the change, exact", pa.string()),
}
"""The columns of `p_table`, which there is if counts are perturbed by one."""

OPTIONAL = frozenset({"cap", "category", "label"})
"""The columns of both tables that may be empty."""


SHOWN = tuple(map(Fraction, ("0", "1/2", "1", "2", "5")))
"""The values of ε at which the page states δ."""


def rounded(number: float) -> Decimal:
    """A number in the units of the table, to four decimals."""
    return Decimal(number).quantize(Decimal("0.0001"))


def planned_tables(release: HypercubeRelease) -> dict[Table, pa.Table]:
    """The content of the stage's tables, from the declaration."""
    rows = [_planned(release, table) for table in release.design.tables]
    named = [
        {
            "variable": name,
            "number": number,
            "category": None if value is None else str(value),
            "label": release.columns[name].labels.get(value, None) if value is not None else None,
        }
        for name, values in categories(release)
        for number, value in enumerate(values.to_pylist())
    ]
    planned = {
        release.public(TABLES): _as_table(rows, TABLE_COLUMNS),
        release.public(CATEGORIES): _as_table(named, CATEGORY_COLUMNS),
    }
    if release.design.p_table is None:
        return planned
    changes = [
        {"count": count, "change": change, "probability": str(probability)}
        for count, row in enumerate(release.design.p_table.rows)
        for change, probability in row.probabilities.items()
    ]
    return planned | {release.public(P_TABLE): _as_table(changes, P_TABLE_COLUMNS)}


def _as_table(rows: list[dict[str, Any]], columns: dict[str, tuple[str, str, pa.DataType]]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([(name, kind) for name, (_, _, kind) in columns.items()]))


def _planned(release: HypercubeRelease, table: Variables) -> dict[str, Any]:
    design, noise, name = release.design, noise_of(release.design, table), table_name(table)
    loss = next((line.loss for line in design.lines if line.label == name), design.bounded)
    return {
        "table_name": name,
        "counted": release.quantity,
        "cells": release.cells_of(table),
        "budget": str(design.budget_of(table)),
        "charged": str(release.charged(loss)),
        "noise": noise.name if isinstance(noise, Perturbation) else DISTRIBUTIONS[type(noise)],
        "parameter": _parameter(design, noise),
        "cap": design.cap,
        "margins": design.margins.value,
        "grid": rounded(release.unit_of_cells),
        "least": design.least,
        "most": design.most,
        "standard_error": rounded(sqrt(design.variance(table)) * release.unit_of_cells),
        "margin": rounded(margin_of_one(design, table) * release.unit_of_cells),
    }


def _parameter(design: Hypercube, noise: Distribution | Perturbation) -> str:
    if isinstance(noise, Perturbation):
        return design.p_table.version if design.p_table else ""
    return str(noise.variance if isinstance(noise, DiscreteGaussian) else noise.scale)


def loss_of_p_table(p_table: PTable, declared: PureLoss | None) -> dict[str, Any]:
    """δ against ε of a p-table, beside the discrete Laplace of the same variance: a picture, and some figures.

    Args:
        p_table: the p-table.
        declared: ε of the table by all variables for one record added or removed; None if none is declared.
    """
    variance = max(row.variance for row in p_table.rows)
    if not variance:
        return {"δ against ε": "The p-table changes no count, so it guarantees nothing."}
    charged = None if declared is None else judge(p_table, declared)
    ratios = [ratio_below(PureLoss(epsilon)) for epsilon in SHOWN]
    deltas = list(zip(SHOWN, curve(p_table, ratios), strict=True))
    beside = [discrete_laplace_delta(variance, ratio) for ratio in ratios]
    smallest, laplace = smallest_epsilon(p_table), discrete_laplace_epsilon(variance)
    last, least = deltas[-1]
    pure = (
        f"No ε holds without a δ, which is still {upwards(least)} at ε = {last}"
        if smallest is None
        else f"From ε = {smallest.rounded_up(4)} on, δ is 0"
    )
    words = (
        "δ of the p-table for one record added or removed in one table. At ε = 0 it is "
        f"{upwards(deltas[0][1])}. {pure}. A discrete Laplace distribution with the same variance, "
        f"{float(variance):.4g}, has δ = 0 from ε = {laplace.rounded_up(4)} on."
    )
    if charged:
        shown = charged.epsilon.rounded_up(4)
        words += (
            f" A mark shows what is declared for the table by all variables: ε = {shown}, δ = {upwards(charged.delta)}."
        )
    return {
        "δ against ε": picture(loss_against_epsilon(p_table, "What the p-table guarantees", charged), words),
        "δ at some ε": preview(
            {"ε": "", "p-table": "", "discrete Laplace": "That of the same variance"},
            [
                (f"{float(epsilon):g}", upwards(ours), upwards(theirs))
                for (epsilon, ours), theirs in zip(deltas, beside, strict=True)
            ],
        ),
    }


def build_plan(release: HypercubeRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "plan"]`."""

    @dg.asset(
        key=release.key(PLAN),
        group_name=release.schema,
        description="Which tables are measured, with which noise, at which loss, and how accurate they will be. "
        "Everything follows from the declaration: no record is read.",
        code_version=CODE_VERSION,
        **attributes(StageKind.PLAN, Zone.PUBLIC, {"duckdb"}),
    )
    @stated_plainly(StageKind.PLAN)
    def plan(warehouse: Warehouse) -> dg.MaterializeResult:
        tables = planned_tables(release)
        with warehouse.session(writes=Zone.PUBLIC) as session:
            with session.transaction():
                for table, source in tables.items():
                    session.create(table, "warehouse/all", source=session.register(table.name, source))
            version = session.content_version(list(tables))
            schema = table_schema(
                session.columns(release.public(TABLES)), {name: words for name, (_, words, _) in TABLE_COLUMNS.items()}
            )
        design, rows = release.design, tables[release.public(TABLES)].to_pylist()
        declared = PureLoss(design.budget_of(design.inner)) if design.is_bounded else None
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                "loss, charged": stated(release.specification.charge),
                "loss, one record added or removed": stated(design.unbounded),
                "cells": sum(row["cells"] for row in rows),
                "measured tables": preview(
                    ["table", "cells", "standard error", "90% margin"],
                    [
                        (
                            row["table_name"],
                            f"{row['cells']:,}",
                            f"{row['standard_error']:,.2f}",
                            f"{row['margin']:,.2f}",
                        )
                        for row in rows
                    ],
                ),
                **({} if design.p_table is None else loss_of_p_table(design.p_table, declared)),
                "table": named(release.public(TABLES)),
                "dagster/row_count": len(rows),
                "dagster/column_schema": schema,
            },
        )

    return plan
