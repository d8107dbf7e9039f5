"""Planned lines of noise, and the budgets and charts that follow from them, for the plans of all mechanisms.

A mechanism's `plan` module defines its lines. `mechanisms.sampling.quantiles` searches for one budget.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import sqrt

import numpy as np

from assets.release.plan import Curve, Line
from mechanisms.accounting.losses import ApproximateLoss, Loss, format_loss, is_decimal
from mechanisms.accounting.rounding import format_decimal
from mechanisms.sampling.quantiles import MILLION, Uncapped, least_budget, margin_of_error, rounded_up, unit_of

LEAST_MARGIN = 0.5
"""The value at which a margin of 0 is drawn, because it has no logarithm."""

_STEPS = 60
_BEYOND = 4
"""The factor by which curves extend beyond the least and the greatest budget, so that even a single budget spans more
than a decade."""


def plan_line(
    name: str,
    counted: str,
    budget: Fraction,
    noise_at: Callable[[Fraction], Uncapped],
    numbers: int | None = None,
    level: str = "",
    title: str = "",
) -> Line:
    """A line whose noise has a distribution without a cap, given by budget."""
    error = sqrt(noise_at(budget).exact_variance)
    return Line(name, counted, budget, error, lambda other: margin_of_error(noise_at(other)), numbers, level, title)


def budgets_for_margins(
    lines: Iterable[Line], margins: Mapping[str, Fraction], most: int | Fraction, *, as_shares: bool = False
) -> dict[str, Fraction]:
    """By line, its budget: the least one, up to `most`, that keeps a wanted 90% margin, and otherwise its own.

    The least budgets are multiples of a millionth. If budgets are declared as shares of their sum, all are multiples of
    one unit, of a millionth or less: other lines keep their budgets exactly if such shares can be declared, and
    otherwise get the next billionth. Raises ValueError if no budget achieves a margin.
    """
    lines = list(lines)
    unit = unit_of(line.budget for line in lines if line.name not in margins) if as_shares else Fraction(1, MILLION)
    budgets = {}
    for line in lines:
        if line.name not in margins:
            budgets[line.name] = rounded_up(line.budget, unit) if as_shares else line.budget
            continue
        try:
            budgets[line.name] = least_budget(line.margin_at, margins[line.name], line.budget, unit, Fraction(most))
        except ValueError as error:
            raise ValueError(f"margins: {line.name}: {error}") from None
    return budgets


def margins_by_budget(
    x: str,
    y: str,
    series: Mapping[str, Callable[[Fraction], float]],
    marks: Sequence[tuple[str, Fraction, Callable[[Fraction], float]]],
) -> Curve:
    """Margins of error against budgets; `x` and `y` are the titles of the axes.

    A series is a function from budget to margin, and a mark is the name of a line, its budget, and its margin by
    budget.
    """
    budgets = [float(budget) for _, budget, _ in marks]
    steps = [Fraction(step) for step in np.geomspace(min(budgets) / _BEYOND, max(budgets) * _BEYOND, _STEPS)]
    points = {name: [(float(step), margin_at(step)) for step in steps] for name, margin_at in series.items()}
    return Curve(
        "Margin of error against budget",
        x,
        title_margins(y, points),
        points,
        [(name, float(budget), margin_at(budget)) for name, budget, margin_at in marks],
        log_x=True,
        log_y=True,
    )


def title_margins(y: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """The title of an axis of margins, which also states where margins of 0 are drawn, if there are any."""
    has_zero = any(margin == LEAST_MARGIN for points in series.values() for _, margin in points)
    return f"{y}; 0 is drawn at {LEAST_MARGIN}" if has_zero else y


def format_cell(value: object) -> str:
    """A value in a small table; a dash if there is none."""
    return "–" if value is None else str(value)


def format_exactly(loss: Loss) -> str:
    """A loss as shown to a reader, with its exact value if it differs."""
    return format_loss(loss) if is_shown_exactly(loss) else f"{format_loss(loss)} (exactly {loss})"


def is_shown_exactly(loss: Loss) -> bool:
    """Whether `format_loss` shows a loss without rounding."""
    return is_decimal(loss) and not (isinstance(loss, ApproximateLoss) and "/" in format_decimal(loss.delta))
