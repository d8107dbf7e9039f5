"""A picture of a plan's curve, as PNG bytes. `assets.pictures` defines style and size."""

from matplotlib.ticker import NullFormatter

from assets.pictures import GRID, INK, VERMILION, blank, png, shades
from assets.release.plan import Curve

_LONGEST_LEGEND = 12
_NAMED = 3
"""The most marks that are named in the legend; further ones are marked alike."""


def curve_picture(curve: Curve) -> bytes:
    """Draw a curve: a line for each series, and diamonds for what is planned.

    Returns:
        PNG bytes, 1080 pixels wide.
    """
    remark = "Diamonds: what is planned." if curve.marks else "Nothing is marked, as what is planned is not known."
    figure, axes = blank(curve.title, remark, height=5.0)
    axes.set_xscale("log" if curve.log_x else "linear")
    axes.set_yscale("log" if curve.log_y else "linear")
    for (name, points), color in zip(curve.series.items(), shades(len(curve.series)), strict=True):
        x, y = [point[0] for point in points], [point[1] for point in points]
        axes.plot(x, y, color=color, linewidth=1.8, label=name)
    for number, (name, x_mark, y_mark) in enumerate(curve.marks):
        axes.plot(
            x_mark,
            y_mark,
            marker="D",
            markersize=6,
            color=VERMILION,
            markeredgecolor="white",
            linestyle="none",
            label=name if len(curve.marks) <= _NAMED else "planned" if number == 0 else None,
            zorder=4,
        )
    for logarithmic, axis in ((curve.log_x, axes.xaxis), (curve.log_y, axes.yaxis)):
        if logarithmic:
            axis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel(curve.x)
    axes.set_ylabel(curve.y)
    small = len(curve.series) > _LONGEST_LEGEND // 2
    axes.legend(loc="best", facecolor="white", edgecolor="none", fontsize=8 if small else 10, labelcolor=INK)
    return png(figure)
