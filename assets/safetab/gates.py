"""The gates that SafeTab-P adds to those of all releases and of noisy counts.

The stage-1 totals of SafeTab-P are stored nowhere. The replay of a draw computes them again; the gates here hold
whether a draw can be replayed or not. They compare what is stored with the exact counts, so that a draw which chose
details or left out totals by another rule than the declared one is noticed.
"""

from collections.abc import Iterable
from fractions import Fraction
from math import log

import numpy as np

from assets.gates.shared import count_problem, differing_table
from assets.measurement.method import MEASUREMENTS, parameters_gate
from assets.release.gate import Gate, ReleaseContext
from assets.safetab.counting import regions_recipe
from assets.safetab.measurements import KeptCells, read_exact_batches
from assets.safetab.release import COUNTS, REGIONS, SafeTabPRelease
from assets.safetab.tables import T1, T2, person_table_recipes
from assets.tabulation.asset import tables_gate
from mechanisms.safetab.design import Measured
from mechanisms.sampling.goodness import FALSE_ALARM, BinCounts, bin_draws, find_misfits
from mechanisms.sampling.quantiles import Uncapped, quantile
from resources.statements import Zone

Context = ReleaseContext[SafeTabPRelease]

IMPOSSIBLE = Fraction(1, 10**31)
"""A probability that counts as none."""


def person_gates(release: SafeTabPRelease) -> list[Gate[SafeTabPRelease]]:
    return [
        parameters_gate(),
        Gate("regions_of_the_cef", REGIONS, "The stored regions are those of the current CEF.", _regions),
        Gate(
            "detail_as_declared",
            MEASUREMENTS,
            "The detail of every group is one that its count and the noise of its first total make possible.",
            _details,
        ),
        Gate(
            "suppression_as_declared",
            MEASUREMENTS,
            "No group whose count is far above the cut-off is missing, and as many empty groups were kept as the noise "
            "makes expect.",
            _suppression,
        ),
        tables_gate(lambda session: person_table_recipes(session, release)),
        Gate("margins_agree", "tables", "The total of every group in T1 is the sum of its cells in T2.", _margins),
    ]


def find_unlikely_noise(release: SafeTabPRelease, pairs: Iterable[tuple[KeptCells, KeptCells]]) -> list[str]:
    """The region types and levels whose noise does not fit the declared distributions, by chi-square tests.

    A total that suppression might have left out, and a number that clipping might have changed, says less about its
    noise than its distribution does. Only cells whose counts are far above both take part.
    """
    draws: dict[str, BinCounts] = {}
    for exact, noisy in pairs:
        measured, total_only = noisy.measured, noisy.of_totals_only(release)
        for noise, rows, name in (
            (measured.total_only, total_only, "totals only"),
            (measured.stage_2, ~total_only, "stage 2"),
        ):
            chosen = rows & (exact.values[:, 4] >= _least_tested(release, measured, noise, noisy.values[:, 2]))
            differences = noisy.values[chosen, 4] - exact.values[chosen, 4]
            draws[f"{measured.label}, {name}"] = bin_draws(differences, noise)
    return find_misfits(draws)


def _least_tested(release: SafeTabPRelease, measured: Measured, noise: Uncapped, detail: np.ndarray) -> np.ndarray:
    """By cell, the least exact count whose noise was neither cut off nor clipped."""
    noisiest = find_farthest(noise)
    least = np.full(len(detail), 0 if release.design.negative_counts else noisiest)
    if measured.cut_off is not None:
        least[detail == 0] = np.maximum(least[detail == 0], measured.cut_off + noisiest)
    return least


def find_farthest(noise: Uncapped) -> int:
    """The least value that the noise reaches with a probability of at most `IMPOSSIBLE`.

    It follows from the distribution and not from σ: the discrete Laplace is beyond 12σ with 4 · 10^-8, and of many
    groups some are.
    """
    return quantile(noise, 1 - IMPOSSIBLE) + 1


def _regions(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        return differing_table(session, release.public(REGIONS), regions_recipe(session, release))


def _details(context: Context) -> list[str]:
    impossible = 0
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        for exact in read_exact_batches(session, context.release):
            measured = exact.measured
            _, _, detail, cell, count = exact.values.T
            starts = np.flatnonzero(cell == 0)
            totals = np.add.reduceat(count, starts) if len(starts) else count
            adaptive = ~exact.of_totals_only(context.release)[starts]
            most_noise, ends = find_farthest(measured.stage_1), np.array([-np.inf, *measured.thresholds, np.inf])
            least, most = ends[detail[starts]] - totals, ends[detail[starts] + 1] - totals
            impossible += int(np.count_nonzero(adaptive & ((least > most_noise) | (most <= -most_noise))))
    return count_problem(impossible, "groups in another detail than their counts and the thresholds allow")


def _suppression(context: Context) -> list[str]:
    release, problems = context.release, []
    suppressed = [measured for measured in release.design.measured if measured.cut_off is not None]
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        for measured in suppressed:
            assert measured.cut_off is not None
            missing, empty, kept = session.row(
                "safetab/kept_and_left_out",
                measured.region_and_level
                | {
                    "iterations": len(release.universe_of(measured)),
                    "least": measured.cut_off + find_farthest(measured.stage_2),
                },
                counts=release.confidential(COUNTS),
                measurements=release.public(MEASUREMENTS),
                regions=release.public(REGIONS),
            )
            problems += count_problem(missing, f"{measured.label}: groups far above the cut-off that are missing")
            if not _is_binomial(kept, empty, _chances_of_empty(measured), FALSE_ALARM / len(suppressed)):
                problems.append(f"{measured.label}: more or fewer empty groups were kept than the noise makes expect")
    return problems


def _chances_of_empty(measured: Measured) -> tuple[float, float]:
    """The probabilities that an empty group's total is above the cut-off, and that it is not."""
    assert measured.cut_off is not None
    noise, most = measured.stage_2, find_farthest(measured.stage_2)
    above, below = np.arange(measured.cut_off + 1, most), np.arange(-most + 1, measured.cut_off + 1)
    return float(noise.probabilities(above).sum()), float(noise.probabilities(below).sum())


def _is_binomial(successes: int, trials: int, probabilities: tuple[float, float], false_alarm: float) -> bool:
    """Whether a binomial number is no further from its mean than happens with some probability (Chernoff's bound).

    Args:
        probabilities: of a success and of a failure. Each is given, because either may be tiny.
        false_alarm: the probability that a true binomial number is further away.
    """
    if trials <= 0:
        return successes == 0
    counts = (successes, trials - successes)
    terms = [(count / trials, expected) for count, expected in zip(counts, probabilities, strict=True) if count]
    if not all(expected for _, expected in terms):
        return False
    return trials * sum(share * log(share / expected) for share, expected in terms) <= log(2 / false_alarm)


def _margins(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        (groups,) = session.row(
            "safetab/disagreeing_margins", t1=context.release.public(T1), t2=context.release.public(T2)
        )
    return count_problem(int(groups), "groups whose total is not the sum of their cells, or of their sexes")
