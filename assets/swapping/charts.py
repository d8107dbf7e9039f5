"""Pictures of the errors and of the protection loss of swapping, as PNG bytes.

The figures are computed elsewhere. `assets.pictures` defines style and size.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from assets.pictures import BLUE, INK, PALE_BLUE, QUIET, VERMILION, blank, png, shades
from mechanisms.swapping.loss import theorem_1

_LOWEST_RATE = 0.005


def mape_boxplots(errors: Mapping[Fraction, Sequence[float]], title: str) -> bytes:
    """Draw the mean absolute percentage errors of draws as one box for each swap rate, with its median above it.

    The form is that of Bailie, Gong and Meng, Figure 1. Whiskers reach to the farthest draw within 1.5 times the
    interquartile range; draws beyond are points.

    Args:
        errors: by swap rate, the MAPE of each draw as a fraction of 1.

    Returns:
        PNG bytes, 1080 pixels wide.

    Raises:
        ValueError: if there is no swap rate, or a swap rate has no draw.
    """
    if not errors or not all(len(draws) for draws in errors.values()):
        raise ValueError("a boxplot needs at least one swap rate, and at least one draw at each")
    rates = sorted(errors)
    percent = [100 * np.asarray(errors[rate], dtype=float) for rate in rates]
    counts = sorted({len(draws) for draws in percent})
    drawn = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    remark = f"{drawn} draw{'s' if counts[-1] > 1 else ''} at each swap rate; the median is above each box"
    figure, axes = blank(title, remark, height=4.2)
    axes.boxplot(
        percent,
        widths=0.5,
        patch_artist=True,
        boxprops={"facecolor": PALE_BLUE, "edgecolor": BLUE, "linewidth": 1},
        medianprops={"color": VERMILION, "linewidth": 1.4},
        whiskerprops={"color": BLUE, "linewidth": 1},
        capprops={"color": BLUE, "linewidth": 1},
        flierprops={"marker": "o", "markersize": 3.5, "markerfacecolor": "none", "markeredgecolor": BLUE},
    )
    for position, draws in enumerate(percent, start=1):
        axes.annotate(
            f"{np.median(draws):.1f}%",
            (position, draws.max()),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=10,
            color=INK,
        )
    axes.set_xticks(range(1, len(rates) + 1), [_percent(rate) for rate in rates])
    axes.set_ylim(0, 1.14 * max(draws.max() for draws in percent) or 1)
    axes.yaxis.set_major_formatter("{x:g}%")
    axes.set_xlabel("Swap rate p")
    axes.set_ylabel("Mean absolute percentage error (MAPE)")
    return png(figure)


def epsilon_against_swap_rate(strata: Sequence[int], marked: tuple[int, Fraction] | None) -> bytes:
    """Draw ε by Theorem 1 against the swap rate, with one line for each size of the largest stratum.

    The form is that of Bailie, Gong and Meng, Figure 2. Diamonds mark the smallest ε that each b can attain, and dotted
    lines the swap rates 5% and 50%.

    Args:
        strata: the values of b, each at least 2.
        marked: b and p of a release to mark, or None; if b is 0, so is ε.

    Returns:
        PNG bytes, 1080 pixels wide.

    Raises:
        ValueError: if there is no b, or a b is below 2.
    """
    sizes = sorted(strata)
    if not sizes or sizes[0] < 2:
        raise ValueError("at least one b is needed, and each b must be at least 2")
    remark = (
        "b: the largest stratum with two distinct records. ◇: the smallest ε attainable for b.\n"
        "Different b come with different invariants; their values of ε are not comparable."
    )
    figure, axes = blank("Protection loss by swap rate and largest stratum", remark, height=5.4)
    rates = np.linspace(_LOWEST_RATE, 1 - 1e-4, 4000)
    top = float(_epsilon(sizes[-1], rates).max())
    for rate, words in ((0.05, "p = 5%"), (0.5, "p = 50%")):
        axes.axvline(rate, color=QUIET, linestyle=":", linewidth=1.2, zorder=1)
        axes.text(rate, 0.985, f" {words}", transform=axes.get_xaxis_transform(), va="top", fontsize=10, color=QUIET)
    colors = shades(len(sizes))
    for size, color in zip(sizes, colors, strict=True):
        axes.plot(rates, _epsilon(size, rates), color=color, linewidth=1.8, zorder=2)
        _write_on_line(axes, size)
        root = np.sqrt(size + 1)
        axes.plot(
            root / (root + 1),
            np.log(size + 1) / 2,
            marker="D",
            markersize=6.5,
            markerfacecolor="white",
            markeredgecolor=color,
            markeredgewidth=1.6,
            clip_on=False,
            zorder=4,
        )
    if marked:
        top = max(top, _mark(axes, *marked))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.04 * top)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.set_xticks(np.linspace(0, 1, 11))
    axes.xaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.0f}%")
    axes.set_xlabel("Swap rate p")
    axes.set_ylabel("Protection loss ε (Theorem 1)")
    return png(figure)


def _epsilon(largest_stratum: int, rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Theorem 1 in floating point, for b > 0; `mechanisms.swapping.loss.theorem_1` gives the exact value."""
    log_odds = np.log(rates) - np.log1p(-rates)
    return np.maximum(np.log(largest_stratum + 1) - log_odds, log_odds)


def _write_on_line(axes: Axes, size: int) -> None:
    axes.text(
        0.25,
        float(_epsilon(size, np.array([0.25]))[0]),
        f"b = {size:,}",
        fontsize=10,
        color=INK,
        ha="center",
        va="center",
        zorder=3,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )


def _mark(axes: Axes, size: int, rate: Fraction) -> float:
    """Mark one b and p, with a label on the upper right, where no line runs; return its ε."""
    loss = theorem_1(size, rate)
    epsilon = float(loss)
    axes.plot(
        float(rate),
        epsilon,
        marker="o",
        markersize=9,
        color=VERMILION,
        markeredgecolor="white",
        clip_on=False,
        zorder=5,
    )
    axes.annotate(
        f"this release: ε = {loss.round_up(4)}\nat b = {size:,}, p = {_percent(rate)}",
        (float(rate), epsilon),
        xytext=(0.985, 0.9),
        textcoords="axes fraction",
        ha="right",
        va="center",
        fontsize=10.5,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": VERMILION, "boxstyle": "round,pad=0.35"},
        arrowprops={"arrowstyle": "-", "color": VERMILION, "shrinkB": 6, "linewidth": 1.2},
        zorder=6,
    )
    return epsilon


def _percent(rate: Fraction) -> str:
    return f"{float(100 * rate):g}%"
