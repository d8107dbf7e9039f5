"""A design's parameters as rows, the effect of planned parameters, and the totals.

This module computes the figures. `parameters` and `charts` turn them into tables, metadata and pictures.
"""

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import dagster as dg
from pydantic import Field

from assets.release.numbers import exact_fraction
from mechanisms.accounting.composition import approximate_total
from mechanisms.accounting.conversions import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.rounding import ceiling, decimal_text
from mechanisms.accounting.zcdp import ConcentratedLoss
from mechanisms.noise import Noise
from mechanisms.phsafe.design import (
    LARGEST_BUDGET,
    DesignError,
    PHSafeDesign,
    Released,
    RunDesign,
    run_design,
)
from mechanisms.phsafe.margins import PLACES, budget_for_margin, exact_margin, margin_of_error

GRID = (10, 20, 50, 68, 100, 200, 500, 1000)
"""The margins of error for which the budget is computed."""

PLACES_OF_EPSILON = 4


class PlannedRun(dg.Config):
    """Parameters to try for one run; parameters that are left out have their declared values."""

    truncation: int | None = Field(None, description="Persons kept in each unit.")
    budget: dict[str, Any] = Field(
        default_factory=dict, description="By level, such as state_A-G: a number or a fraction; 0 means not released."
    )
    moe: dict[str, Any] = Field(default_factory=dict, description="By level: the 90% margin of error.")


class Plan(dg.Config):
    """Parameters to try. Their effect is shown in the metadata; neither the release nor its tables change."""

    runs: dict[str, PlannedRun] = Field(default_factory=dict, description="By run, such as PH1_num.")


def planned_design(design: PHSafeDesign, plan: Plan) -> PHSafeDesign:
    """The design with the parameters of a plan in place of the declared ones.

    Raises:
        DesignError: if the planned design is not valid, or a value in the plan is not a number.
    """
    return PHSafeDesign(
        design.states,
        design.noise,
        {**design.runs, **{name: _planned_run(design, name, planned) for name, planned in plan.runs.items()}},
    )


def _planned_run(design: PHSafeDesign, name: str, planned: PlannedRun) -> RunDesign:
    declared = design.runs.get(name, RunDesign())
    kept = {level: budget for level, budget in declared.budgets.items() if level not in planned.moe}
    return run_design(
        name,
        design.noise,
        declared.truncation if planned.truncation is None else planned.truncation,
        kept | _numbers(name, "budget", planned.budget),
        _numbers(name, "moe", planned.moe),
    )


def _numbers(name: str, field: str, given: Mapping[str, object]) -> dict[str, Fraction]:
    numbers = {}
    for level, value in given.items():
        try:
            numbers[level] = exact_fraction(value)
        except ValueError as error:
            raise DesignError(f"runs: {name}: {field}: {level}: {error}") from None
    return numbers


def parameters(design: PHSafeDesign) -> list[dict[str, Any]]:
    """One row for each released run and level, in their order."""
    total = sum((each.budget for each in design.released), Fraction())
    return [_parameters(design, each, total) for each in design.released]


def _parameters(design: PHSafeDesign, each: Released, total: Fraction) -> dict[str, Any]:
    run, level, budget = each
    noise = design.noise_of(run, level)
    return {
        "run": run.name,
        "level": level.name,
        "truncation": design.truncation(run),
        "stability": design.stability(run),
        "budget_exact": str(budget),
        "budget": rounded_up(budget),
        "share": _six_places(float(budget / total)),
        "variance": str(noise.exact_variance),
        "standard_deviation": _six_places(math.sqrt(noise.exact_variance)),
        "margin": _six_places(margin_of(design, each)),
        "exact_margin": exact_margin(noise),
        "groups": design.groups(level),
        "cells": len(run.cells),
        "budget_for_half_the_margin": str(_budget_for_half(design, each)),
    }


def margin_of(design: PHSafeDesign, each: Released) -> float:
    """The 90% margin of error of a run's counts at a level."""
    return margin_of_error(design.noise, design.stability(each.run), each.budget)


def _budget_for_half(design: PHSafeDesign, each: Released) -> Fraction:
    """The budget that would halve a margin; if the margin is already 0, the budget itself.

    The planned margin of the discrete Gaussian is proportional to 1/√ρ, so this is 4ρ, without rounding.
    """
    if design.noise is Noise.GAUSSIAN:
        return 4 * each.budget
    margin = Fraction(margin_of(design, each))
    return budget_for_margin(design.noise, design.stability(each.run), margin / 2) if margin else each.budget


def grid(design: PHSafeDesign) -> list[dict[str, Any]]:
    """The budget that each released run needs for each margin of `GRID`; budgets beyond the largest are left out."""
    rows = []
    for run in dict.fromkeys(each.run for each in design.released):
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
                        "budget": rounded_up(budget),
                    }
                )
    return rows


def answers(design: PHSafeDesign, plan: Plan, planned: PHSafeDesign) -> Iterator[tuple[Released | None, Released]]:
    """The planned runs at each released level, each preceded by its declared counterpart, or None if there is none."""
    declared = {each.label: each for each in design.released}
    for each in planned.released:
        if each.run.name in plan.runs:
            yield declared.get(each.label), each


def totals(design: PHSafeDesign, delta: Fraction) -> dict[str, str]:
    """The loss of the whole release, rounded up, by label: unbounded, bounded, and as (ε, δ).

    Args:
        design: the design of the release.
        delta: the δ at which the loss is stated.
    """
    symbol, bounded = design.noise.symbol, design.bounded
    stated = {
        f"unbounded {symbol}": f"{design.unbounded.rounded_up()} (exactly {design.unbounded})",
        f"bounded {symbol}": f"{bounded.rounded_up()} (exactly {bounded})",
    }
    if isinstance(bounded, ConcentratedLoss):
        converted = {
            "Canonne, Kamath and Steinke": canonne_kamath_steinke(bounded, delta, PLACES_OF_EPSILON),
            "Bun and Steinke": bun_steinke(bounded, delta, PLACES_OF_EPSILON),
        }
    else:
        loss = approximate_total([line.loss for line in design.lines], delta)
        converted = {"composition of its lines": loss.rounded_up(PLACES_OF_EPSILON)}
    return stated | {
        f"bounded (ε, δ) by {source}": f"ε = {epsilon} at δ = {decimal_text(delta)}"
        for source, epsilon in converted.items()
    }


def rounded_up(budget: Fraction) -> Decimal:
    """A budget rounded up to six decimals."""
    return ceiling(budget, PLACES)


def _six_places(number: float) -> Decimal:
    return Decimal(f"{number:.6f}")
