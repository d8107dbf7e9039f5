"""A picture of the margin of error against the budget, as PNG bytes.

The figures come from the design. `assets.pictures` defines style and size.
"""

import math
from collections.abc import Collection
from fractions import Fraction
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from assets.phsafe.planning import margin_of
from assets.pictures import GRID, INK, QUIET, VERMILION, blank, png, shades
from mechanisms.noise import Noise
from mechanisms.phsafe.design import PHSafeDesign, Released
from mechanisms.phsafe.margins import margin_of_error
from mechanisms.phsafe.runs import Geography

_MARKERS = {Geography.NATION: "o", Geography.STATE: "s"}
_PLACES = {Geography.NATION: "released for the nation", Geography.STATE: "released for states"}
_PLANNED = "D"
_DEFINITION = {Noise.GAUSSIAN: "ρ (zCDP)", Noise.LAPLACE: "ε (pure DP)"}
_LEGEND_LETTERS = 36
_STEPS = 200
_BEYOND = 4
"""The factor by which the curves extend beyond the least and the greatest budget, so that even a single budget spans
more than a decade."""
_PLAINLY = 0.001, 100_000
"""The range in which powers of ten are written in full."""
_LEAST_MARGIN = 0.5
"""Where a margin of 0 is drawn, because it has no logarithm."""


def margin_against_budget(design: PHSafeDesign, planned: PHSafeDesign | None = None) -> bytes:
    """Draw the 90% margin of error against the budget, both logarithmic: one curve for each Δ, with marks on it.

    Args:
        design: the design of the release; marks show its runs and levels, by geographic level.
        planned: another design with the same noise; diamonds mark where it differs.

    Returns:
        PNG bytes, 1080 pixels wide.
    """
    remark = (
        "One curve for each sensitivity Δ: runs with the same Δ need the same budget for a margin.\n"
        "Each mark is the budget of a run at a level; marks of several runs may coincide."
    )
    figure, axes = blank("Margin of error against budget", remark, height=5.4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    designs = [design, planned] if planned else [design]
    budgets = [float(each.budget) for which in designs for each in which.released]
    runs = _runs_by_stability(design, planned)
    colors = dict(zip(runs, shades(len(runs)), strict=True))
    ends = min(budgets) / _BEYOND, max(budgets) * _BEYOND
    grid = [Fraction(budget) for budget in np.geomspace(*ends, _STEPS)]
    for stability, names in runs.items():
        margins = [max(_LEAST_MARGIN, margin_of_error(design.noise, stability, budget)) for budget in grid]
        label = fill(f"Δ = {stability}: {', '.join(names)}", _LEGEND_LETTERS, subsequent_indent="    ")
        axes.plot([float(budget) for budget in grid], margins, color=colors[stability], linewidth=1.8, label=label)
    for each in design.released:
        _mark(axes, design, each, _MARKERS[each.level.geography], colors[design.stability(each.run)], size=7)
    if planned:
        for each in _differing(design, planned):
            _mark(axes, planned, each, _PLANNED, VERMILION, size=5.5)
    _add_legends(axes, {each.level.geography for each in design.released}, planned is not None)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=12))
        axis.set_major_formatter(_power_of_ten)
        axis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel(f"Budget {_DEFINITION[design.noise]} of a run at a level, for one person added or removed")
    axes.set_ylabel("90% margin of error of one count")
    return png(figure)


def _power_of_ten(number: float, _: float) -> str:
    return f"{number:g}" if _PLAINLY[0] <= number <= _PLAINLY[1] else f"$10^{{{round(math.log10(number))}}}$"


def _runs_by_stability(design: PHSafeDesign, planned: PHSafeDesign | None) -> dict[int, list[str]]:
    """The names of the released runs, and of runs that have this Δ only in the plan, by Δ, the greatest first."""
    found: dict[int, list[str]] = {}
    declared = dict.fromkeys((design.stability(each.run), each.run.name) for each in design.released)
    for stability, name in declared:
        found.setdefault(stability, []).append(name)
    if planned:
        for stability, name in dict.fromkeys((planned.stability(each.run), each.run.name) for each in planned.released):
            if (stability, name) not in declared:
                found.setdefault(stability, []).append(f"{name} (planned)")
    return dict(sorted(found.items(), reverse=True))


def _differing(design: PHSafeDesign, planned: PHSafeDesign) -> list[Released]:
    declared = {(each, design.truncation(each.run)) for each in design.released}
    return [each for each in planned.released if (each, planned.truncation(each.run)) not in declared]


def _mark(axes: Axes, design: PHSafeDesign, each: Released, marker: str, color: object, size: float) -> None:
    axes.plot(
        float(each.budget),
        max(_LEAST_MARGIN, margin_of(design, each)),
        marker=marker,
        markersize=size,
        color=color,
        markeredgecolor="white",
        markeredgewidth=0.8,
        linestyle="none",
        zorder=4,
    )


def _add_legends(axes: Axes, geographies: Collection[Geography], planned: bool) -> None:
    """Add the legend of the curves on the upper right, where no curve runs, and that of the marks on the lower left."""
    look: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "fontsize": 10, "labelcolor": INK}
    axes.add_artist(axes.legend(loc="upper right", handlelength=1.6, **look))
    handles = [
        Line2D([], [], marker=_MARKERS[place], color=QUIET, markersize=7, linestyle="none", label=_PLACES[place])
        for place in Geography
        if place in geographies
    ]
    if planned:
        handles.append(
            Line2D([], [], marker=_PLANNED, color=VERMILION, markersize=5.5, linestyle="none", label="planned")
        )
    axes.legend(handles=handles, loc="lower left", **look)
