"""The gates that SafeTab-P and SafeTab-H add to those of all releases and of noisy counts.

The stage-1 totals of SafeTab-P are stored nowhere. The replay of a draw computes them again; the gates here hold
whether a draw can be replayed or not. They compare what is stored with the exact counts, so that a draw which chose
details or left out totals by another rule than the declared one is noticed.
"""

from collections.abc import Iterable
from fractions import Fraction
from math import log
from typing import Any

import numpy as np

from assets.gates.shared import count_problem, differing_table
from assets.measurement.method import MEASUREMENTS
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import PLAN
from assets.safetab.measurements import KeptCells, exact_batches
from assets.safetab.plan import parameters_recipe
from assets.safetab.regions import recipe_of_regions
from assets.safetab.release import COUNTS, PARAMETERS, REGIONS, SafeTabPRelease, SafeTabRelease
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


def parameters_gate() -> Gate[Any]:
    return Gate("parameters_as_declared", PLAN, "The published parameters are the declared ones.", _parameters)


def unlikely_noise(release: SafeTabPRelease, pairs: Iterable[tuple[KeptCells, KeptCells]]) -> list[str]:
    """The region types and levels whose noise does not fit the declared distributions, by chi-square tests.

    A total that suppression might have left out, and a number that clipping might have changed, says less about its
    noise than its distribution does. Only cells whose counts are far above both take part.
    """
    counted: dict[str, BinCounts] = {}
    totals_only = {each.code for each in release.lists.iteration.values() if each.detailed_only}
    for exact, noisy in pairs:
        measured, of = noisy.measured, noisy.values
        alone = np.isin(of[:, 1], [int(code) for code in totals_only]) & measured.region_type.detailed
        for noise, rows, name in (
            (measured.total_only, alone, "totals only"),
            (measured.stage_2, ~alone, "stage 2"),
        ):
            chosen = rows & (exact.values[:, 4] >= _least_tested(release, measured, noise, of[:, 2]))
            part = bin_draws(of[chosen, 4] - exact.values[chosen, 4], noise)
            counted[f"{measured.label}, {name}"] = part
    return find_misfits(counted)


def _least_tested(release: SafeTabPRelease, measured: Measured, noise: Uncapped, detail: np.ndarray) -> np.ndarray:
    """By cell, the least exact count whose noise was neither cut off nor clipped."""
    noisiest = farthest(noise)
    least = np.full(len(detail), 0 if release.design.negative_counts else noisiest)
    if measured.cut_off is not None:
        least[detail == 0] = np.maximum(least[detail == 0], measured.cut_off + noisiest)
    return least


def farthest(noise: Uncapped) -> int:
    """The least value that the noise reaches with a probability of at most `IMPOSSIBLE`.

    It follows from the distribution and not from σ: the discrete Laplace is beyond 12σ with 4 · 10^-8, and of many
    groups some are.
    """
    return quantile(noise, 1 - IMPOSSIBLE) + 1


def _regions(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        return differing_table(session, context.release.public(REGIONS), recipe_of_regions(session, context.release))


def _parameters(context: ReleaseContext[SafeTabRelease]) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        recipe = parameters_recipe(session, context.release)
        return differing_table(session, context.release.public(PARAMETERS), recipe)


def _details(context: Context) -> list[str]:
    release, impossible = context.release, 0
    totals_only = [int(each.code) for each in release.lists.iteration.values() if each.detailed_only]
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        for exact in exact_batches(session, release):
            measured = exact.measured
            _, iteration, detail, cell, count = exact.values.T
            starts = np.flatnonzero(cell == 0)
            totals = np.add.reduceat(count, starts) if len(starts) else count
            adaptive = ~(np.isin(iteration[starts], totals_only) & measured.region_type.detailed)
            most_noise, ends = farthest(measured.stage_1), np.array([-np.inf, *measured.thresholds, np.inf])
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
                {
                    "region_type": measured.region_type.value,
                    "level": measured.level,
                    "iterations": len(release.lists.universe(measured.region_type, measured.level)),
                    "least": measured.cut_off + farthest(measured.stage_2),
                },
                counts=release.confidential(COUNTS),
                measurements=release.public(MEASUREMENTS),
                regions=release.public(REGIONS),
            )
            problems += count_problem(missing, f"{measured.label}: groups far above the cut-off that are missing")
            if not _binomial(kept, empty, _kept_and_left_out(measured), FALSE_ALARM / len(suppressed)):
                problems.append(f"{measured.label}: more or fewer empty groups were kept than the noise makes expect")
    return problems


def _kept_and_left_out(measured: Measured) -> tuple[float, float]:
    """The probabilities that an empty group's total is above the cut-off, and that it is not."""
    assert measured.cut_off is not None
    noise, most = measured.stage_2, farthest(measured.stage_2)
    above, below = np.arange(measured.cut_off + 1, most), np.arange(-most + 1, measured.cut_off + 1)
    return float(noise.probabilities(above).sum()), float(noise.probabilities(below).sum())


def _binomial(found: int, of: int, probabilities: tuple[float, float], false_alarm: float) -> bool:
    """Whether a binomial number is no further from its mean than happens with some probability (Chernoff's bound).

    Args:
        found: the number of successes.
        of: the number of trials.
        probabilities: of a success and of a failure. Each is given, because either may be tiny.
        false_alarm: the probability that a true binomial number is further away.
    """
    if of <= 0:
        return found == 0
    terms = [(one / of, other) for one, other in zip((found, of - found), probabilities, strict=True) if one]
    if not all(other for _, other in terms):
        return False
    return of * sum(one * log(one / other) for one, other in terms) <= log(2 / false_alarm)


def _margins(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        (groups,) = session.row(
            "safetab/disagreeing_margins", t1=context.release.public(T1), t2=context.release.public(T2)
        )
    return count_problem(int(groups), "groups whose total is not the sum of their cells, or of their sexes")
