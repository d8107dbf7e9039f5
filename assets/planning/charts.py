"""A picture of a plan's curve, as PNG bytes. `assets.pictures` defines style and size."""

from textwrap import fill
from typing import Any

from matplotlib.ticker import NullFormatter

from assets.pictures import GRID, INK, SERIES, VERMILION, blank, png, shades
from assets.release.plan import Curve

_LEGEND_LETTERS = 44
_MOST_SERIES_WITHIN = 4
"""The most series whose legend is within the axes; that of more is below."""
_MARKS_IN_LEGEND = 3
"""The most marks that the legend names; further ones are marked alike."""


def draw_curve(curve: Curve) -> bytes:
    """Draw a curve: a line for each series, and diamonds for what is planned.

    Returns:
        PNG bytes, 1080 pixels wide.
    """
    many = len(curve.series) > _MOST_SERIES_WITHIN
    figure, axes = blank(curve.title, "Diamonds: what is planned." if curve.marks else "", height=6.0 if many else 5.0)
    axes.set_xscale("log" if curve.log_x else "linear")
    axes.set_yscale("log" if curve.log_y else "linear")
    colors = SERIES if len(curve.series) <= len(SERIES) else shades(len(curve.series))
    for (name, points), color in zip(curve.series.items(), colors, strict=False):
        x, y = [point[0] for point in points], [point[1] for point in points]
        axes.plot(x, y, color=color, linewidth=1.8, label=fill(name, _LEGEND_LETTERS))
    for number, (name, x_mark, y_mark) in enumerate(curve.marks):
        axes.plot(
            x_mark,
            y_mark,
            marker="D",
            markersize=6,
            color=VERMILION,
            markeredgecolor="white",
            linestyle="none",
            label=name if len(curve.marks) <= _MARKS_IN_LEGEND else "planned" if number == 0 else None,
            zorder=4,
        )
    for logarithmic, axis in ((curve.log_x, axes.xaxis), (curve.log_y, axes.yaxis)):
        if logarithmic:
            axis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel(curve.x)
    axes.set_ylabel(curve.y)
    look: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "labelcolor": INK}
    if many:
        figure.legend(loc="outside lower left", ncols=2, fontsize=9, **look)
    else:
        axes.legend(loc="best", fontsize=10, **look)
    return png(figure)
