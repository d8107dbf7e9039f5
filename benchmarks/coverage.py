"""How often the 90% intervals of post-processing cover the truth: `python -m benchmarks.coverage`, about six minutes.

It makes the charts and figures for `docs/mechanisms/phsafe-post-processing.md`, without simulation. For counts, it goes
through every value of the noise, with its probability. For averages, it divides the noise of numerator and denominator
into equally likely parts, each represented by its median, and goes through all pairs.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from assets.pictures import BLUE, GRID, QUIET, VERMILION, blank, png
from mechanisms.noise import Noise
from mechanisms.phsafe.averages import MOST_PERSONS, estimate_averages, log_on_ray
from mechanisms.phsafe.design import budget_for_margin, noise_of_count, production_margin
from mechanisms.phsafe.estimation import Estimates, Interval, estimate_counts
from mechanisms.phsafe.runs import RUNS
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from resources.project import PROJECT

PICTURES = PROJECT / "docs" / "pictures"

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
OneCell: TypeAlias = DiscreteGaussian | DiscreteLaplace

NEGLIGIBLE = 1e-12
PARTS = 200
DEVIATIONS = 10
"""True values range from 0 to this number of standard deviations of the noise."""
PLACES: list[float] = np.arange(0, DEVIATIONS + 0.125, 0.25).tolist()
"""True denominators of the averages, in standard deviations of their noise."""


class Draws:
    """The distribution of the noise of a sum of basis cells: the convolution of one cell's exact probabilities."""

    def __init__(self, one: OneCell, cells: int) -> None:
        tail = 9 if isinstance(one, DiscreteGaussian) else 25
        reach = int(tail * float(one.exact_variance) ** 0.5) + 3
        single = one.probabilities(np.arange(-reach, reach + 1))
        chances = single
        for _ in range(cells - 1):
            chances = np.convolve(chances, single)
        values = np.flatnonzero(chances > NEGLIGIBLE / len(chances))
        self.chances: Floats = chances[values[0] : values[-1] + 1] / chances[values].sum()
        self.values: Integers = np.arange(len(self.chances)) - len(self.chances) // 2
        self.variance = cells * float(one.exact_variance)

    def list_medians(self, parts: int) -> Integers:
        return self.values[np.searchsorted(self.chances.cumsum(), (np.arange(parts) + 0.5) / parts)]


def compute_count_coverage(estimator: Callable[[Integers], Estimates], draws: Draws, truths: Integers) -> Floats:
    """The probability that the interval covers each of the true counts; exact except for tails below 10⁻¹²."""
    first = truths.min() + draws.values[0]
    estimates = estimator(np.arange(first, truths.max() + draws.values[-1] + 1))

    def compute(truth: int) -> float:
        start = truth + draws.values[0] - first
        noisy = slice(start, start + len(draws.values))
        return float(draws.chances[(estimates.lower[noisy] <= truth) & (truth <= estimates.upper[noisy])].sum())

    return np.array([compute(truth) for truth in truths.tolist()])


def compute_average_coverage(
    estimator: Callable[[Integers, Integers], Estimates],
    draws: tuple[Draws, Draws],
    truth: tuple[int, int],
    parts: int = PARTS,
) -> float:
    """The probability that the interval covers the true average; accurate to about 0.2 percentage points."""
    above, below = (noise.list_medians(parts) + true for noise, true in zip(draws, truth, strict=True))
    estimates = estimator(*(pairs.ravel() for pairs in np.meshgrid(above, below)))
    average = truth[0] / truth[1]
    return float(np.mean((estimates.lower <= average) & (average <= estimates.upper)))


@dataclass(frozen=True)
class Quotient:
    """A kind of average in the finished tables, with the numbers of basis cells that are summed in the numerator and in
    the denominator, the least plausible average, and examples of true ones."""

    name: str
    cells: tuple[int, int]
    least: int
    averages: tuple[float, ...]

    def make_draws(self, one: OneCell) -> tuple[Draws, Draws]:
        return Draws(one, self.cells[0]), Draws(one, self.cells[1])

    def make_estimator(self, draws: tuple[Draws, Draws], noise: Noise) -> Callable[[Integers, Integers], Estimates]:
        above, below = draws
        return lambda numerator, denominator: estimate_averages(
            numerator, above.variance, denominator, below.variance, self.least, noise=noise
        )

    def list_truths(
        self, average: float, deviations: Sequence[float], draws: tuple[Draws, Draws]
    ) -> list[tuple[int, int]]:
        """Integer numerators and denominators whose quotient is close to an average."""
        denominators = [max(1, round(deviation * draws[1].variance ** 0.5)) for deviation in deviations]
        return [(round(average * denominator), denominator) for denominator in denominators]


QUOTIENTS = (
    Quotient("persons per household (PH1, owners in PH8)", (2, 1), 1, (1.0, 1.2, 1.5, 2.5, 3.2)),
    Quotient("persons per family (PH5)", (2, 1), 2, (2.0, 2.3, 3.1, 4.0)),
    Quotient("persons of an age per household or family (PH1, PH5)", (1, 1), 0, (0.0, 0.3, 0.6, 1.0, 2.0)),
    Quotient("persons per household (PH8)", (3, 2), 1, (1.0, 1.5, 2.5, 3.2)),
    Quotient("persons per household of renters (PH8)", (1, 1), 1, (1.0, 1.5, 2.5, 3.2)),
)
"""The averages of PH1, PH5 and PH8."""

MARGINS = tuple(sorted({production_margin(run, level) for run in RUNS for level in run.levels}))
"""The margins of error planned for the 2020 Census."""

SUMS = (1, 2, 3, 4, 7, 8, 16)
"""The numbers of basis cells that are summed in the counts of the finished tables."""


def make_noise(margin: int, noise: Noise = Noise.GAUSSIAN, stability: int = 22) -> OneCell:
    """The noise of one basis cell for a given margin of error."""
    return noise_of_count(noise, stability, budget_for_margin(noise, stability, Fraction(margin)))


def choose_true_counts(draws: Draws) -> Integers:
    """The true counts to evaluate: all of them, or about a thousand evenly spaced ones."""
    return np.unique(np.linspace(0, DEVIATIONS * draws.variance**0.5, 1001).astype(np.int64))


def _print_counts(noise: Noise) -> None:
    print(f"\nCounts, discrete {noise.value}, true counts from 0 to {DEVIATIONS}σ")
    for margin in MARGINS:
        for cells in SUMS:
            draws = Draws(make_noise(margin, noise), cells)
            truths = choose_true_counts(draws)
            covered = compute_count_coverage(_make_estimator(draws, cells, noise, Interval.SHORTEST), draws, truths)
            places = truths / draws.variance**0.5
            print(
                f"margin {margin:3}, {cells:2} cells: least {covered.min():.4f} at {places[covered.argmin()]:.2f}σ, "
                f"most {covered.max():.4f} at {places[covered.argmax()]:.2f}σ, at 0 {covered[0]:.4f}"
            )


def _make_estimator(draws: Draws, cells: int, noise: Noise, interval: Interval) -> Callable[[Integers], Estimates]:
    return lambda noisy: estimate_counts(noisy, draws.variance, cells, noise, interval)


def _print_averages(noise: Noise) -> list[list[float]]:
    one, places = make_noise(200, noise), PLACES
    print(f"\nAverages, discrete {noise.value}, margin 200, denominators of 1 and {places[1]:g}σ to {DEVIATIONS}σ")
    curves = []
    for quotient in QUOTIENTS:
        draws = quotient.make_draws(one)
        estimator = quotient.make_estimator(draws, noise)
        for average in quotient.averages:
            truths = quotient.list_truths(average, places, draws)
            covered = [compute_average_coverage(estimator, draws, truth) for truth in truths]
            curves.append(covered)
            print(
                f"{quotient.name}, {average}: least {min(covered):.4f} at {places[np.argmin(covered)]:g}σ, "
                f"most {max(covered):.4f} at {places[np.argmax(covered)]:g}σ, at {DEVIATIONS}σ {covered[-1]:.4f}"
            )
    return curves


def find_shortest_credible(
    numerator: Integers, denominator: Integers, variances: tuple[float, float], least: float, most: float
) -> Estimates:
    """The shortest 90% credible interval under a flat prior on plausible pairs, for comparison. It starts at one of 801
    averages, evenly spaced in the angle. The estimate is its midpoint."""
    stretch = (variances[1] / variances[0]) ** 0.5
    edges = np.linspace(np.arctan(least * stretch), np.arctan(most * stretch), 801)
    above, below = numerator / variances[0] ** 0.5, denominator / variances[1] ** 0.5
    turn = (edges[1:] + edges[:-1]) / 2 - np.arctan2(above, below)[:, None]
    weight = log_on_ray(np.hypot(above, below)[:, None] * np.cos(turn))
    below_edge = np.exp(weight - weight.max(axis=1, keepdims=True)).cumsum(axis=1)
    below_edge = np.pad(below_edge / below_edge[:, -1:], ((0, 0), (1, 0)))
    averages = np.tan(edges) / stretch
    lower, upper = np.empty(len(numerator)), np.empty(len(numerator))
    for row, share in enumerate(below_edge):
        end = np.interp(share + 0.9, share, averages, right=np.inf)
        start = int((end - averages).argmin())
        lower[row], upper[row] = averages[start], end[start]
    return Estimates((lower + upper) / 2, lower, upper)


def _print_credible() -> list[list[float]]:
    quotient = QUOTIENTS[0]
    draws = quotient.make_draws(make_noise(200))
    variances = draws[0].variance, draws[1].variance
    estimator = partial(find_shortest_credible, variances=variances, least=quotient.least, most=MOST_PERSONS)
    curves = []
    print("\nShortest credible interval of persons per household, for comparison")
    for average in (1.0, 1.5, 2.5):
        truths = quotient.list_truths(average, PLACES, draws)
        curves.append([compute_average_coverage(estimator, draws, truth, 60) for truth in truths])
        first = curves[-1][: bisect_right(PLACES, 1.5)]
        print(f"{average}: up to 1.5σ least {min(first):.3f}, most {max(first):.3f}")
    return curves


def _draw_counts() -> bytes:
    draws = Draws(make_noise(200), 1)
    truths = choose_true_counts(draws)
    remark = "Discrete Gaussian noise with a margin of error of 200, exact.\nShaded: 86% to 95%."
    figure, axes = blank("Coverage of the 90% intervals of counts", remark, height=4.4)
    axes.axhspan(86, 95, color=GRID, zorder=0)
    for interval, color, words in (
        (Interval.EQUAL_TAILED, VERMILION, "equal-tailed"),
        (Interval.SHORTEST, BLUE, "shortest"),
    ):
        covered = compute_count_coverage(_make_estimator(draws, 1, Noise.GAUSSIAN, interval), draws, truths)
        axes.plot(truths / draws.variance**0.5, 100 * covered, color=color, linewidth=1.6, label=words)
    return _finish(figure, axes, "True count, in standard deviations of its noise", (0, 100))


def _draw_averages(curves: list[list[float]], credible: list[list[float]]) -> bytes:
    remark = (
        "Discrete Gaussian noise with a margin of error of 200 in every cell.\n"
        "A line for each kind of average and each true one. Shaded: 86% to 96%."
    )
    figure, axes = blank("Coverage of the 90% intervals of averages", remark, height=5.0)
    axes.axhspan(86, 96, color=GRID, zorder=0)
    in_credible = "1, 1.5 and 2.5 persons per household: shortest credible interval"
    for label, covered in zip_longest([in_credible], credible):
        axes.plot(PLACES, 100 * np.array(covered), color=VERMILION, linewidth=1.2, linestyle="--", label=label)
    for label, covered in zip_longest(["all averages: the interval that is published"], curves):
        axes.plot(PLACES, 100 * np.array(covered), color=BLUE, linewidth=1.0, alpha=0.7, label=label)
    return _finish(figure, axes, "True denominator, in standard deviations of its noise", (80, 101))


def _finish(figure: Figure, axes: Axes, words: str, limits: tuple[float, float]) -> bytes:
    axes.axhline(90, color=QUIET, linewidth=0.8, linestyle=":")
    axes.set_xlim(0, DEVIATIONS)
    axes.set_ylim(*limits)
    axes.yaxis.set_major_formatter("{x:g}%")
    axes.set_xlabel(words)
    axes.set_ylabel("Draws in which the interval covers")
    axes.legend(loc="lower right", frameon=False, fontsize=10)
    return png(figure)


def main() -> None:
    for noise in Noise:
        _print_counts(noise)
    (PICTURES / "phsafe-coverage-counts.png").write_bytes(_draw_counts())
    curves = {noise: _print_averages(noise) for noise in Noise}
    (PICTURES / "phsafe-coverage-averages.png").write_bytes(_draw_averages(curves[Noise.GAUSSIAN], _print_credible()))


if __name__ == "__main__":
    main()
