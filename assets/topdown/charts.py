"""A picture of the accuracy of measurements and estimates by geographic level, as PNG bytes.

The figures come from `accuracy`. `assets.pictures` defines style and size.
"""

import math
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from assets.pictures import BLUE, DOTS_PER_INCH, GRID, INK, QUIET, VERMILION, WIDTH, png

_COLUMNS = 2
_PANEL_HEIGHT = 2.8
_ABOVE, _BELOW, _BETWEEN = 0.95, 1.35, 1.05
"""Inches above, below and between the panels, for titles, levels and the legend."""
_LEVEL_LETTERS = 7
_FEW_LEVELS = 6
_LOOKS = ((VERMILION, "s", -0.09), (BLUE, "o", 0.09))
"""The color, the marker and the horizontal offset of the first and of the second source."""
_BEYOND = 2.5
"""The factor by which the axis extends beyond the smallest and largest values."""
_PLAINLY = 0.001, 100_000
"""The range in which powers of ten are written in full."""


def accuracy_by_level(levels: Sequence[str], panels: Mapping[str, Mapping[str, Sequence[float | None]]]) -> bytes:
    """A PNG, 1080 pixels wide: panels by title with the values at every level by source, on a logarithmic scale.

    A value of 0, which has no logarithm, is an empty mark on the lower edge. Raises ValueError unless there is at least
    one panel, each with two sources and a value or None for each level.
    """
    shapes = [[len(values) for values in sources.values()] for sources in panels.values()]
    if not shapes or any(shape != [len(levels)] * len(_LOOKS) for shape in shapes):
        raise ValueError("a chart of accuracy needs at least one panel, each with two sources and all levels")
    rows = math.ceil(len(panels) / _COLUMNS)
    height = 0.9 + _PANEL_HEIGHT * rows
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)
    figure.suptitle("Accuracy by geographic level", x=0.015, ha="left", fontsize=13, fontweight="bold", color=INK)
    # Layout engines of matplotlib 3.11 find no room for logarithmic axes.
    panel = (height - _ABOVE - _BELOW - _BETWEEN * (rows - 1)) / rows
    sides = {"left": 0.09, "right": 0.98, "top": 1 - _ABOVE / height, "bottom": _BELOW / height}
    grid = figure.add_gridspec(rows, _COLUMNS, **sides, hspace=_BETWEEN / panel, wspace=0.22)
    for number, (title, sources) in enumerate(panels.items()):
        axes = figure.add_subplot(grid[divmod(number, _COLUMNS)])
        _style(axes, title)
        _draw(axes, sources)
        axes.set_xticks(range(len(levels)), [fill(level, _LEVEL_LETTERS) for level in levels])
        axes.tick_params(axis="x", labelsize=9 if len(levels) <= _FEW_LEVELS else 7)
        axes.set_xlim(-0.5, len(levels) - 0.5)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        loc="lower center",
        ncols=len(_LOOKS),
        frameon=False,
        fontsize=10,
        labelcolor=INK,
        title="Scales are logarithmic. An empty mark on the lower edge is an error of exactly 0.",
        title_fontproperties={"size": 10},
    ).get_title().set_color(QUIET)
    return png(figure)


def _style(axes: Axes, title: str) -> None:
    axes.set_title(title.replace(": ", ":\n"), loc="left", fontsize=10, color=INK, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    axes.tick_params(labelsize=9, colors=INK)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _draw(axes: Axes, sources: Mapping[str, Sequence[float | None]]) -> None:
    positive = [value for values in sources.values() for value in values if value]
    least, most = (min(positive) / _BEYOND, max(positive) * _BEYOND) if positive else (0.1, 10.0)
    axes.set_yscale("log")
    axes.set_ylim(least, most)
    axes.yaxis.set_major_locator(LogLocator(numticks=6))
    axes.yaxis.set_major_formatter(_power_of_ten)
    axes.yaxis.set_minor_formatter(NullFormatter())
    for (source, values), (color, marker, aside) in zip(sources.items(), _LOOKS, strict=True):
        places = [number + aside for number in range(len(values))]
        drawn = [value or math.nan for value in values]
        axes.plot(places, drawn, color=color, marker=marker, markersize=5.5, linewidth=1.2, label=source)
        exact = [place for place, value in zip(places, values, strict=True) if value == 0]
        empty: dict[str, Any] = {"color": color, "marker": marker, "markersize": 6.5, "markerfacecolor": "white"}
        axes.plot(exact, [least] * len(exact), linestyle="none", clip_on=False, zorder=4, **empty)


def _power_of_ten(number: float, _: float) -> str:
    return f"{number:g}" if _PLAINLY[0] <= number <= _PLAINLY[1] else f"$10^{{{round(math.log10(number))}}}$"
