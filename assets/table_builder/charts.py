"""A picture of what a p-table guarantees, as PNG bytes: δ against ε, beside the discrete Laplace of the same variance.

The figures come from `mechanisms.table_builder.judging`. `assets.pictures` defines style and size.
"""

from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from math import exp, log

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from assets.pictures import BLUE, GRID, INK, SERIES, VERMILION, blank, png
from mechanisms.table_builder.judging import (
    Judgment,
    curve,
    discrete_laplace_delta,
    discrete_laplace_epsilon,
    smallest_epsilon,
)
from mechanisms.table_builder.p_table import PTable

_POINTS = 80
_STEP = 10**6
"""Ratios e^ε are multiples of a millionth, so that each point of a curve is exact."""
_FURTHER = 1.5
_LEAST_END = 3.0
_BELOW, _LOWEST = 20.0, 1e-12
_PLAINLY = 0.001


def loss_against_epsilon(table: PTable, title: str, declared: Judgment | None = None) -> bytes:
    """Draw δ(ε) of a p-table and of the discrete Laplace distribution with the greatest variance of its rows.

    Both are for one record added or removed in one table; the scale of δ is logarithmic. Where a curve meets the lower
    edge, δ is 0 from there on.

    Args:
        table: the p-table; at least one of its rows changes a count.
        title: of the chart.
        declared: what is declared for one record added or removed; a mark shows it.

    Returns:
        PNG bytes, 1080 pixels wide.

    Raises:
        ValueError: if no row changes a count.
    """
    variance = max(row.variance for row in table.rows)
    if not variance:
        raise ValueError("a p-table that changes no count guarantees nothing, and has no discrete Laplace beside it")
    laplace, smallest = discrete_laplace_epsilon(variance), smallest_epsilon(table)
    reach = [float(each) for each in (laplace, smallest, declared.epsilon if declared else None) if each is not None]
    end = max(_LEAST_END, _FURTHER * max(reach))
    ratios = [Fraction(round(exp(epsilon) * _STEP), _STEP) for epsilon in np.linspace(0, end, _POINTS)]
    ratios = sorted({max(Fraction(1), ratio) for ratio in ratios})
    epsilons = [log(ratio) for ratio in ratios]
    ours, theirs = curve(table, ratios), [discrete_laplace_delta(variance, ratio) for ratio in ratios]
    lowest = max(_LOWEST, float(min(delta for delta in [*ours, *theirs] if delta)) / _BELOW)
    pure = "infinite" if smallest is None else f"{smallest.rounded_up(3)}"
    remark = (
        f"For one record added or removed in one table. ε without a δ: {pure} for the p-table,\n"
        f"{laplace.rounded_up(3)} for the discrete Laplace distribution, each with a variance of {float(variance):.4g}."
    )
    figure, axes = blank(title, remark, height=4.6)
    axes.set_yscale("log")
    for deltas, color, style, label in (
        (ours, BLUE, "solid", "p-table"),
        (theirs, SERIES[1], "dashed", "discrete Laplace of the same variance"),
    ):
        drawn = [max(float(delta), lowest / 10) for delta in deltas]
        axes.plot(epsilons, drawn, color=color, linestyle=style, linewidth=1.8, label=label)
    if declared is not None:
        label = f"declared: ε = {declared.epsilon.rounded_up(3)}, δ = {upwards(declared.delta)}"
        place = float(declared.epsilon), max(float(declared.delta), lowest)
        axes.plot(*place, marker="D", markersize=6.5, color=VERMILION, linestyle="none", label=label, clip_on=False)
    axes.set_ylim(lowest, 1)
    axes.set_xlim(0, end)
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_major_formatter(_power_of_ten)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel("ε")
    axes.set_ylabel("δ")
    axes.legend(loc="best", frameon=True, facecolor="white", edgecolor="none", fontsize=10, labelcolor=INK)
    return png(figure)


def upwards(delta: Fraction) -> str:
    """A δ rounded up to four significant digits."""
    if not delta:
        return "0"
    exact = Decimal(delta.numerator) / Decimal(delta.denominator)
    up = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), rounding=ROUND_CEILING)
    return f"{up:f}" if up >= Decimal("0.0001") else f"{up:.3E}"


def _power_of_ten(number: float, _: float) -> str:
    return f"{number:g}" if number >= _PLAINLY else f"$10^{{{round(np.log10(number))}}}$"
