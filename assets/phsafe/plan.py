"""The plan of a PHSafe release: the accuracy that its budgets give and the price of a margin of error, for every run
and level.

The stage `plan` stores the rows of the declared release in two tables: `parameters`, which is published, and
`planning`.
"""

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import pyarrow as pa

from assets.phsafe.release import PHSafeRelease
from assets.planning.lines import (
    LEAST_MARGIN,
    budgets_for_margins,
    format_cell,
    format_exactly,
    margins_by_budget,
    plan_line,
)
from assets.release.plan import Cells, Curve, Line, Plan
from mechanisms.accounting.composition import bun_steinke, canonne_kamath_steinke, compose_approximate
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.accounting.rounding import format_decimal, round_up
from mechanisms.design import LARGEST_BUDGET
from mechanisms.noise import Noise
from mechanisms.phsafe.design import PLACES, PHSafeDesign, budget_for_margin, exact_margin, noise_of_count
from mechanisms.phsafe.design import margin_of_error as planned_margin
from resources.statements import Table

PARAMETERS, PLANNING = "parameters", "planning"
"""The tables: the released runs and levels, and the budget that each margin of error of a grid needs."""

PARAMETER_COLUMNS = {
    "run": ("string", "The run, such as PH1_num"),
    "level": ("string", "The population group level, such as state_A-G"),
    "truncation": ("integer", "τ, the maximal number of persons kept in a unit; empty for runs that count units"),
    "stability": (
        "integer",
        "Δ, the maximal number of records that one added or removed person changes: 2τ + 2, or 2 units",
    ),
    "budget_exact": ("string", "ρ, or ε under pure DP, for one person added or removed, exact"),
    "budget": ("decimal", "Budget for one person added or removed, rounded up to six decimals"),
    "share": ("decimal", "Share of the release's budget, as a fraction of 1"),
    "variance": ("string", "Variance of the noise of one count, to 40 digits"),
    "standard_deviation": ("decimal", "σ, the standard deviation of the noise of one count"),
    "margin": ("decimal", "Planned 90% margin of error of one count: 1.645·Δ/√(2ρ); under pure DP, the exact margin"),
    "exact_margin": (
        "integer",
        "Least integer that bounds the noise in at least 90% of draws; empty if it was not computed",
    ),
    "groups": ("integer", "Population groups of the level: regions times iterations"),
    "cells": ("integer", "Basis cells of each group; each is a count with its own noise"),
    "budget_for_half_the_margin": ("string", "Budget that would halve the margin, exact"),
}
"""The columns of the table `parameters`: their types and descriptions."""

NULLABLE = frozenset({"truncation", "exact_margin"})
"""The columns of `parameters` that may be empty."""

PLANNING_COLUMNS = {
    **{name: PARAMETER_COLUMNS[name] for name in ("run", "truncation", "stability")},
    "margin": ("integer", "90% margin of error of one count, at any level"),
    "budget_exact": ("string", "ρ, or ε under pure DP, that this margin needs, exact"),
    "budget": PARAMETER_COLUMNS["budget"],
}
"""The columns of the table `planning`."""

_STORED = {"string": pa.string(), "integer": pa.int64(), "decimal": pa.decimal128(24, 6)}


GRID = (10, 20, 50, 68, 100, 200, 500, 1000)
"""The margins of error for which the budget is computed."""

PLACES_OF_EPSILON = 4


def phsafe_plan(release: PHSafeRelease) -> Plan:
    design = release.design
    facts = format_totals(design, release.declaration.delta)
    if not release.declaration.private:
        facts["charge"] = "none: with private: false there is neither a draw nor a publication"
    return Plan(
        design.specification(release.dataset.name) if release.declaration.private else None,
        tuple(planned_lines(design)),
        facts,
        {"Runs and levels": _tabulate_runs(design), "Budget for a margin": _tabulate_budgets(design)},
        (_curve(design),),
    )


def runs_with_budgets(
    design: PHSafeDesign, margins: Mapping[str, Fraction], factor: Fraction = Fraction(1)
) -> dict[str, Any]:
    """The field `runs` with the budgets of a design multiplied by a factor, and without declared margins.

    Lines in `margins` get the least budgets that give their margins, in millionths, times the factor. Raises ValueError
    if no budget gives a margin.
    """
    by_line = budgets_for_margins(planned_lines(design), margins, LARGEST_BUDGET)
    budgets: dict[str, dict[str, Fraction]] = {}
    for released in design.released:
        budgets.setdefault(released.run.name, {})[released.level.name] = factor * by_line[released.label]
    runs = {
        run: {"truncation": design.runs[run].truncation, "budget": by_level, "moe": None}
        for run, by_level in budgets.items()
    }
    return {"runs": runs}


def planned_lines(design: PHSafeDesign) -> Iterator[Line]:
    """A line for each released run and level, in their order."""
    for released in design.released:
        run, level, budget = released
        truncation = design.truncation(run)
        kept = "" if truncation is None else f", at most {truncation} of a unit"
        noise_at = partial(noise_of_count, design.noise, design.stability(run))
        counted, title = f"{run.counts}{kept}", f"{run.name}, {level.words}"
        yield plan_line(released.label, counted, budget, noise_at, len(run.cells), level.words, title)


def _tabulate_runs(design: PHSafeDesign) -> Cells:
    """The figures that the lines do not show: truncation, Δ, share, and the margin from which a declared `moe` derives
    budgets."""
    header = ["run, level", "τ", "Δ", "share", "1.645·Δ/√(2ρ)" if design.noise is Noise.GAUSSIAN else "margin"]
    rows = []
    for row in parameters(design):
        label, share, margin = f"{row['run']} {row['level']}", f"{row['share']:.4f}", f"{row['margin']:,.2f}"
        rows.append([label, format_cell(row["truncation"]), str(row["stability"]), share, margin])
    return header, rows


def _tabulate_budgets(design: PHSafeDesign) -> Cells:
    """The budget that each margin needs: a row for each margin and Δ, because runs with the same Δ need the same
    budget."""
    rows = grid(design)
    budgets = {(row["stability"], row["margin"]): row["budget"] for row in rows}
    runs: dict[int, list[str]] = {}
    for run, stability in dict.fromkeys((row["run"], row["stability"]) for row in rows):
        runs.setdefault(stability, []).append(run)
    return ["margin", "Δ", design.noise.symbol, "runs"], [
        [f"±{margin:,}", str(stability), format_cell(budgets.get((stability, margin))), ", ".join(names)]
        for margin in sorted({row["margin"] for row in rows})
        for stability, names in runs.items()
    ]


def _curve(design: PHSafeDesign) -> Curve:
    """The margin of error against the budget: a series for each Δ, with a mark for each run and level."""
    runs: dict[int, list[str]] = {}
    for stability, name in sorted({(design.stability(line.run), line.run.name) for line in design.released}):
        runs.setdefault(stability, []).append(name)

    def margin_at(stability: int, budget: Fraction) -> float:
        return max(LEAST_MARGIN, planned_margin(design.noise, stability, budget))

    return margins_by_budget(
        f"{design.noise.symbol} of a run at a level, for one person added or removed",
        "90% margin of error of one count",
        {f"Δ = {stability}: {', '.join(names)}": partial(margin_at, stability) for stability, names in runs.items()},
        [(line.label, line.budget, partial(margin_at, design.stability(line.run))) for line in design.released],
    )


def parameter_tables(release: PHSafeRelease) -> dict[Table, pa.Table]:
    tables = {
        PARAMETERS: (PARAMETER_COLUMNS, parameters(release.design)),
        PLANNING: (PLANNING_COLUMNS, grid(release.design)),
    }
    return {
        release.public(name): pa.Table.from_pylist(
            rows, pa.schema([(column, _STORED[kind]) for column, (kind, _) in columns.items()])
        )
        for name, (columns, rows) in tables.items()
    }


def parameters(design: PHSafeDesign) -> list[dict[str, Any]]:
    """One row for each released run and level, in their order."""
    rows = []
    total = sum((released.budget for released in design.released), Fraction())
    for run, level, budget in design.released:
        noise, stability = design.noise_of(run, level), design.stability(run)
        margin = planned_margin(design.noise, stability, budget)
        rows.append(
            {
                "run": run.name,
                "level": level.name,
                "truncation": design.truncation(run),
                "stability": stability,
                "budget_exact": str(budget),
                "budget": round_up(budget, PLACES),
                "share": _six_places(float(budget / total)),
                "variance": str(noise.exact_variance),
                "standard_deviation": _six_places(math.sqrt(noise.exact_variance)),
                "margin": _six_places(margin),
                "exact_margin": exact_margin(noise),
                "groups": design.groups(level),
                "cells": len(run.cells),
                "budget_for_half_the_margin": str(_halve_margin(design.noise, stability, budget, margin)),
            }
        )
    return rows


def _halve_margin(noise: Noise, stability: int, budget: Fraction, margin: float) -> Fraction:
    """The budget that would halve a margin; if the margin is already 0, the budget itself.

    The planned margin of the discrete Gaussian is proportional to 1/√ρ, so this is 4ρ, without rounding.
    """
    if noise is Noise.GAUSSIAN:
        return 4 * budget
    return budget_for_margin(noise, stability, Fraction(margin) / 2) if margin else budget


def grid(design: PHSafeDesign) -> list[dict[str, Any]]:
    """The budget that each released run needs for each margin of `GRID`; budgets beyond the largest are left out."""
    rows = []
    for run in dict.fromkeys(released.run for released in design.released):
        stability = design.stability(run)
        for margin in GRID:
            budget = budget_for_margin(design.noise, stability, Fraction(margin))
            if budget <= LARGEST_BUDGET:
                rows.append(
                    {
                        "run": run.name,
                        "truncation": design.truncation(run),
                        "stability": stability,
                        "margin": margin,
                        "budget_exact": str(budget),
                        "budget": round_up(budget, PLACES),
                    }
                )
    return rows


def format_totals(design: PHSafeDesign, delta: Fraction) -> dict[str, str]:
    """The loss of the whole release, rounded up, by label: unbounded, bounded, and as (ε, δ)."""
    bounded = design.bounded
    stated = {
        "one person added or removed": format_exactly(design.unbounded),
        "one person changed (charged)": format_exactly(bounded),
    }
    if isinstance(bounded, ConcentratedLoss):
        converted = {
            "Canonne, Kamath and Steinke": canonne_kamath_steinke(bounded, delta, PLACES_OF_EPSILON),
            "Bun and Steinke": bun_steinke(bounded, delta, PLACES_OF_EPSILON),
        }
    else:
        loss = compose_approximate([line.loss for line in design.lines], delta)
        converted = {"composition of its lines": loss.round_up(PLACES_OF_EPSILON)}
    return stated | {
        f"charged, as (ε, δ) by {source}": f"ε = {epsilon} at δ = {format_decimal(delta)}"
        for source, epsilon in converted.items()
    }


def _six_places(number: float) -> Decimal:
    return Decimal(f"{number:.6f}")
