"""The plan of a hypercube: the noise, the loss and the accuracy of every measured table.

The stage `plan` stores what is declared of the measured tables, categories and the p-table, which is published.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from assets.measurement.grid import DISTRIBUTIONS
from assets.planning.lines import budgets_for_margins
from assets.release.plan import Cells, Curve, Line, Plan
from assets.table_builder.asking import CATEGORIES, P_TABLE, TABLES
from assets.table_builder.counting import categories, table_name
from assets.table_builder.perturbation import noise_of
from assets.table_builder.release import HypercubeRelease
from mechanisms.accounting.losses import PureLoss, format_loss
from mechanisms.sampling.noise import DiscreteGaussian, Distribution, Perturbation
from mechanisms.table_builder.asking import margin_of_one
from mechanisms.table_builder.fitting import Fit
from mechanisms.table_builder.hypercube import LARGEST_RATE, Hypercube, HypercubeError, Margins, NoiseFamily
from mechanisms.table_builder.hypercube import Table as Variables
from mechanisms.table_builder.judging import (
    Judgment,
    curve,
    discrete_laplace_delta,
    discrete_laplace_epsilon,
    judge,
    ratio_below,
    smallest_epsilon,
)
from mechanisms.table_builder.p_table import PTable
from resources.statements import Table

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

_POINTS = 80
_STEP = 10**6
"""Ratios e^ε are multiples of a millionth, so that each point of a curve is exact."""
_FURTHER = 1.5
_LEAST_END = 3.0
_LOWEST = 1e-12


def round_planned(number: float) -> Decimal:
    """A number in the units of the table, to four decimals."""
    return Decimal(number).quantize(Decimal("0.0001"))


def planned_tables(release: HypercubeRelease) -> dict[Table, pa.Table]:
    """The content of the stage's tables, from the declaration."""
    rows = [_table_row(release, table) for table in release.design.tables]
    category_rows = [
        {
            "variable": name,
            "number": number,
            "category": None if value is None else str(value),
            "label": release.columns[name].labels.get(value, None) if value is not None else None,
        }
        for name, values in categories(release)
        for number, value in enumerate(values.to_pylist())
    ]
    tables = {
        release.public(TABLES): _as_table(rows, TABLE_COLUMNS),
        release.public(CATEGORIES): _as_table(category_rows, CATEGORY_COLUMNS),
    }
    if release.design.p_table is None:
        return tables
    p_table_rows = [
        {"count": count, "change": change, "probability": str(probability)}
        for count, row in enumerate(release.design.p_table.rows)
        for change, probability in row.probabilities.items()
    ]
    return tables | {release.public(P_TABLE): _as_table(p_table_rows, P_TABLE_COLUMNS)}


def _as_table(rows: list[dict[str, Any]], columns: dict[str, tuple[str, str, pa.DataType]]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([(name, kind) for name, (_, _, kind) in columns.items()]))


def _table_row(release: HypercubeRelease, table: Variables) -> dict[str, Any]:
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
        "grid": round_planned(release.unit_of_cells),
        "least": design.least,
        "most": design.most,
        "standard_error": round_planned(sqrt(design.variance(table)) * release.unit_of_cells),
        "margin": round_planned(margin_of_one(design, table) * release.unit_of_cells),
    }


def _parameter(design: Hypercube, noise: Distribution | Perturbation) -> str:
    if isinstance(noise, Perturbation):
        return design.p_table.version if design.p_table else ""
    return str(noise.variance if isinstance(noise, DiscreteGaussian) else noise.scale)


def hypercube_plan(release: HypercubeRelease) -> Plan:
    """What the hypercube would charge, and how exact its cells would be."""
    design, specification = release.design, release.specification
    facts = {
        "charged, for one record changed": format_loss(specification.charge),
        "one record added or removed": format_loss(design.unbounded),
        "cells": f"{sum(release.cells_of(table) for table in design.tables):,}",
        "sensitivity": f"{design.sensitivity} in each of {len(design.tables)} measured tables, "
        f"{design.total_sensitivity} in all; in steps of {release.grid_step}",
    }
    title = "σ of one cell by margins, at the same budget"
    tables: dict[str, Cells] = {
        f"{title}, at most" if release.cube.structural_zeros else title: _tabulate_by_margins(release)
    }
    curves: tuple[Curve, ...] = ()
    if design.p_table is not None:
        declared = PureLoss(design.budget_of(design.inner)) if design.is_bounded else None
        words, table, curve = describe_p_table(design.p_table, declared)
        facts["p-table"] = words
        if table and curve:
            tables["δ at some ε"], curves = table, (curve,)
    return Plan(specification, tuple(planned_lines(release)), facts, tables, curves)


def budgets_for(release: HypercubeRelease, margins: Mapping[str, Fraction]) -> dict[Variables, Fraction]:
    """By measured table, its budget; the least one of tables for which margins are wanted.

    The other tables keep theirs exactly if the shares can then be declared, and otherwise get the next billionth.

    Raises:
        ValueError: if the noise is that of a p-table, or no budget gives a margin.
    """
    design = release.design
    if design.p_table is not None:
        raise ValueError("margins: the noise is that of the p-table, so change p_table")
    most = LARGEST_RATE * design.sensitivity ** (2 if design.noise is NoiseFamily.GAUSSIAN else 1)
    budgets = budgets_for_margins(planned_lines(release), margins, most, as_shares=True)
    return {table: budgets[table_name(table)] for table in design.tables}


def planned_lines(release: HypercubeRelease) -> Iterator[Line]:
    """A line for each measured table, in their order."""
    design = release.design

    def margin_at(budget: Fraction) -> Fraction:
        # The noise of a p-table follows from no budget, and that of a cell from the budget of its table alone.
        single = design
        if design.p_table is None:
            single = replace(design, sizes={"cell": 1}, margins=Margins.SUMMED, shares={}, budget=budget)
        return Fraction(margin_of_one(single, single.inner)) * release.grid_step

    for table in design.tables:
        yield Line(
            table_name(table),
            release.quantity,
            design.budget_of(table),
            sqrt(design.variance(table)) * release.unit_of_cells,
            margin_at,
            release.cells_of(table),
        )


def _tabulate_by_margins(release: HypercubeRelease) -> Cells:
    """σ of one cell of every table, if margins were made in each way with the same budget in equal shares.

    Structural zeros can only make it smaller, and are not taken into account.
    """
    design = release.design
    ways = {}
    for margins in Margins:
        try:
            ways[margins] = replace(design, margins=margins, shares={})
        except HypercubeError:
            # Fitted tables of a p-table, or a cap that a smaller budget does not allow.
            continue
    variances = [_variances(design_of_way) for design_of_way in ways.values()]
    every = ways[Margins.INDEPENDENT].tables if Margins.INDEPENDENT in ways else (design.inner,)
    return ["table", *(margins.value for margins in ways)], [
        [
            table_name(table),
            *(f"{sqrt(variance_of(table)) * release.unit_of_cells:,.2f}" for variance_of in variances),
        ]
        for table in every
    ]


def _variances(design: Hypercube) -> Callable[[Variables], float]:
    """The variance of a cell of a table as it is published: measured, summed from the inner table, or fitted."""
    if design.margins is Margins.INDEPENDENT:
        return lambda table: float(design.variance(table))
    if design.margins is Margins.SUMMED:
        of_all = float(design.variance(design.inner)) * design.cells(design.inner)
        return lambda table: of_all / design.cells(table)
    fit = Fit(design)

    def fitted(table: Variables) -> float:
        weights = {name: np.ones(size) for name, size in design.sizes.items()}
        for name in table:
            weights[name][1:] = 0
        return fit.variance(weights)

    return fitted


def describe_p_table(p_table: PTable, declared: PureLoss | None) -> tuple[str, Cells | None, Curve | None]:
    """δ against ε of a p-table, beside the discrete Laplace of the same variance: in words, at some ε, and as a curve.

    Args:
        declared: ε of the table by all variables for one record added or removed; None if none is declared.
    """
    variance = max(row.variance for row in p_table.rows)
    if not variance:
        return "The p-table changes no count, so it guarantees nothing.", None, None
    charged = None if declared is None else judge(p_table, declared)
    ratios = [ratio_below(PureLoss(epsilon)) for epsilon in SHOWN]
    deltas = list(zip(SHOWN, curve(p_table, ratios), strict=True))
    laplace_deltas = [discrete_laplace_delta(variance, ratio) for ratio in ratios]
    smallest, laplace = smallest_epsilon(p_table), discrete_laplace_epsilon(variance)
    last, least = deltas[-1]
    pure = (
        f"No ε holds without a δ, which is still {format_delta(least)} at ε = {last}"
        if smallest is None
        else f"From ε = {smallest.round_up(4)} on, δ is 0"
    )
    words = (
        "δ of the p-table for one record added or removed in one table. At ε = 0 it is "
        f"{format_delta(deltas[0][1])}. {pure}. A discrete Laplace distribution with the same variance, "
        f"{float(variance):.4g}, has δ = 0 from ε = {laplace.round_up(4)} on."
    )
    if charged:
        shown = charged.epsilon.round_up(4)
        words += f" Declared for the table by all variables: ε = {shown}, δ = {format_delta(charged.delta)}."
    table = (
        ["ε", "p-table", "discrete Laplace"],
        [
            [f"{float(epsilon):g}", format_delta(delta), format_delta(laplace_delta)]
            for (epsilon, delta), laplace_delta in zip(deltas, laplace_deltas, strict=True)
        ],
    )
    return words, table, p_table_curve(p_table, charged)


def p_table_curve(p_table: PTable, declared: Judgment | None = None) -> Curve:
    """δ(ε) of a p-table and of the discrete Laplace distribution with the greatest variance of its rows.

    Both are for one record added or removed in one table. A line ends where δ is 0 from there on.

    Args:
        p_table: the p-table; at least one of its rows changes a count.
        declared: what is declared for one record added or removed; a mark shows it.

    Raises:
        ValueError: if no row changes a count.
    """
    variance = max(row.variance for row in p_table.rows)
    if not variance:
        raise ValueError("a p-table that changes no count guarantees nothing, and has no discrete Laplace beside it")
    laplace, smallest = discrete_laplace_epsilon(variance), smallest_epsilon(p_table)
    ends = (laplace, smallest, declared.epsilon if declared else None)
    reach = [float(epsilon) for epsilon in ends if epsilon is not None]
    end = max(_LEAST_END, _FURTHER * max(reach))
    ratios = [Fraction(round(exp(epsilon) * _STEP), _STEP) for epsilon in np.linspace(0, end, _POINTS)]
    ratios = sorted({max(Fraction(1), ratio) for ratio in ratios})
    marks = []
    if declared is not None and declared.delta:
        label = f"declared: ε = {declared.epsilon.round_up(3)}, δ = {format_delta(declared.delta)}"
        marks.append((label, float(declared.epsilon), float(declared.delta)))
    of_ratios = {
        "p-table": curve(p_table, ratios),
        "discrete Laplace of the same variance": [discrete_laplace_delta(variance, ratio) for ratio in ratios],
    }
    return Curve(
        "What the p-table guarantees",
        "ε",
        "δ",
        {
            name: [(log(ratio), float(delta)) for ratio, delta in zip(ratios, deltas, strict=True) if delta >= _LOWEST]
            for name, deltas in of_ratios.items()
        },
        marks,
        log_y=True,
    )


def format_delta(delta: Fraction) -> str:
    """A δ rounded up to four significant digits."""
    if not delta:
        return "0"
    exact = Decimal(delta.numerator) / Decimal(delta.denominator)
    up = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), rounding=ROUND_CEILING)
    return f"{up:f}" if up >= Decimal("0.0001") else f"{up:.3E}"
