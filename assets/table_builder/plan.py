"""The plan of a hypercube: the noise, the loss and the accuracy of every measured table.

`assets.table_builder.tables` has the tables that the stage `plan` stores.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from math import exp, log, sqrt

import numpy as np

from assets.release.plan import Cells, Curve, Line, Plan
from assets.table_builder.cells import table_name
from assets.table_builder.release import HypercubeRelease
from assets.table_builder.statement import PROSE
from mechanisms.accounting.losses import PureLoss, format_loss
from mechanisms.table_builder import judging
from mechanisms.table_builder.asking import margin_of_one
from mechanisms.table_builder.fitting import Fit
from mechanisms.table_builder.hypercube import Hypercube, HypercubeError, Margins
from mechanisms.table_builder.hypercube import Table as Variables
from mechanisms.table_builder.p_table import PTable

SHOWN = tuple(map(Fraction, ("0", "1/2", "1", "2", "5")))
"""The values of ε at which the page states δ."""

_POINTS = 80
_STEP = 10**6
"""Ratios e^ε are multiples of a millionth, so that each point of a curve is exact."""
_FURTHER = 1.5
_LEAST_END = 3.0
_LOWEST = 1e-12


def hypercube_plan(release: HypercubeRelease) -> Plan:
    design, specification = release.design, release.specification
    facts = {
        "charged, for one record changed": format_loss(specification.charge),
        "one record added or removed": format_loss(design.unbounded),
        "cells": f"{sum(release.cells_of(table) for table in design.tables):,}",
        "sensitivity": _describe_sensitivity(release),
    }
    title = "σ of one cell by margins, at the same budget"
    tables: dict[str, Cells] = {
        f"{title}, at most" if release.structural_zeros else title: _tabulate_by_margins(release)
    }
    curves: tuple[Curve, ...] = ()
    if design.p_table is not None:
        declared = PureLoss(design.budget_of(design.inner)) if design.is_bounded else None
        facts["p-table"], table, curve = describe_p_table(design.p_table, declared)
        if table and curve:
            tables["δ at some ε"], curves = table, (curve,)
    return Plan(specification, tuple(planned_lines(release)), facts, tables, curves)


def _describe_sensitivity(release: HypercubeRelease) -> str:
    design, of_one = release.design, f"{release.design.sensitivity:,}"
    several = f" in each of {len(design.tables)} measured tables, {design.total_sensitivity:,} in all"
    return f"{of_one}{several if len(design.tables) > 1 else ''}; in steps of {release.grid_step}"


def planned_lines(release: HypercubeRelease) -> Iterator[Line]:
    design = release.design

    def margin_at(budget: Fraction) -> Fraction:
        # The noise of a p-table does not depend on a budget; other noise of a cell depends only on its table's budget.
        single = design
        if design.p_table is None:
            single = replace(design, sizes={"cell": 1}, margins=Margins.SUMMED, shares={}, budget=budget)
        return Fraction(margin_of_one(single, single.inner)) * release.grid_step

    for table in design.tables:
        yield Line(
            table_name(table),
            release.quantity,
            design.budget_of(table),
            sqrt(design.variance(table)) * float(release.grid_step),
            margin_at,
            release.cells_of(table),
        )


def _tabulate_by_margins(release: HypercubeRelease) -> Cells:
    """σ of one cell of every table, for each way of making margins with the same budget in equal shares.

    The figures ignore structural zeros, which can only reduce σ.
    """
    design = release.design
    ways = {}
    for margins in Margins:
        try:
            ways[margins] = replace(design, margins=margins, shares={})
        except HypercubeError:
            # A p-table has no fitted tables, and a smaller budget may not allow the cap.
            continue
    variances = [_variances(design_of_way) for design_of_way in ways.values()]
    every = ways[Margins.INDEPENDENT].tables if Margins.INDEPENDENT in ways else (design.inner,)
    return ["table", *(margins.value for margins in ways)], [
        [
            table_name(table),
            *(f"{sqrt(variance_of(table)) * float(release.grid_step):,.2f}" for variance_of in variances),
        ]
        for table in every
    ]


def _variances(design: Hypercube) -> Callable[[Variables], float]:
    """The variance of a cell of a table as published: measured, summed from the inner table, or fitted."""
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
    """δ against ε of a p-table for one record added or removed in one table: in words, at some ε, and as a curve.

    The discrete Laplace distribution with the greatest variance of the p-table's rows serves as comparison. A line of
    the curve ends where δ becomes 0. `declared` is the ε of the table by all variables, if any.
    """
    variance = max(row.variance for row in p_table.rows)
    if not variance:
        return "The p-table changes no count, so it guarantees nothing.", None, None
    charged = None if declared is None else judging.judge(p_table, declared)
    smallest, laplace = judging.smallest_epsilon(p_table), judging.discrete_laplace_epsilon(variance)

    def deltas_at(ratios: list[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
        return judging.curve(p_table, ratios), [judging.discrete_laplace_delta(variance, ratio) for ratio in ratios]

    deltas, laplace_deltas = (
        [format_delta(delta) for delta in column]
        for column in deltas_at([judging.ratio_below(PureLoss(epsilon)) for epsilon in SHOWN])
    )
    words = PROSE(
        "p-table",
        deltas=deltas,
        last=SHOWN[-1],
        smallest=smallest,
        laplace=laplace,
        variance=variance,
        charged=charged,
        charged_delta=format_delta(charged.delta) if charged else "",
    )
    shown = [f"{float(epsilon):g}" for epsilon in SHOWN]
    table = ["ε", "p-table", "discrete Laplace"], list(map(list, zip(shown, deltas, laplace_deltas, strict=True)))
    ends = (laplace, smallest, charged.epsilon if charged else None)
    end = max(_LEAST_END, *(_FURTHER * float(epsilon) for epsilon in ends if epsilon is not None))
    ratios = [Fraction(round(exp(epsilon) * _STEP), _STEP) for epsilon in np.linspace(0, end, _POINTS)]
    ratios = sorted({max(Fraction(1), ratio) for ratio in ratios})
    marks = []
    if charged and charged.delta:
        label = f"declared: ε = {charged.epsilon.round_up(3)}, δ = {format_delta(charged.delta)}"
        marks.append((label, float(charged.epsilon), float(charged.delta)))
    names = ("p-table", "discrete Laplace of the same variance")
    series = {
        name: [(log(ratio), float(delta)) for ratio, delta in zip(ratios, column, strict=True) if delta >= _LOWEST]
        for name, column in zip(names, deltas_at(ratios), strict=True)
    }
    return words, table, Curve("What the p-table guarantees", "ε", "δ", series, marks, log_y=True)


def format_delta(delta: Fraction) -> str:
    """A δ rounded up to four significant digits."""
    if not delta:
        return "0"
    exact = Decimal(delta.numerator) / Decimal(delta.denominator)
    up = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), rounding=ROUND_CEILING)
    return f"{up:f}" if up >= Decimal("0.0001") else f"{up:.3E}"
