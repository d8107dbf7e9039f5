"""The exact distribution of the output of SafeTab-P's draw of a block, and its Rényi divergences.

The draw is called with a source of noise that gives every combination of values within a support: one region of the
block for each combination, all with the same exact counts. Probabilities of the noise come from its definition, to 100
decimals. The noise of cells in which no person can be is 0 in every combination.

Values outside a support are left out. A support reaches α + 6σ, where α is the greatest order that is tested. The terms
of a Rényi divergence of counts that differ by 1 are distributed like noise around α, so that less than 10^−7 of them is
left out. All sums are compared with a tolerance of 10^−6.

That groups are independent, so that divergences add up over groups, is tested on two groups at once, and in
`test_adaptive` for any number.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.noise import Noise
from mechanisms.safetab.adaptive import GroupNoise, Kept, draw_block
from mechanisms.safetab.design import Measured, SafeTabPDesign
from mechanisms.safetab.details import FINEST, cells, fold
from mechanisms.safetab.lists import Iteration, RegionType
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.sampling.quantiles import Uncapped
from tests.depth import deep_but, deep_cases
from tests.mechanisms.sampling.exact_noise import reference

Integers = NDArray[np.int64]
ExactCells = Callable[[Integers, Integers], Integers]
Draw = Callable[[Measured, Sequence[str], Sequence[Iteration], Integers, ExactCells, GroupNoise], Sequence[Kept]]
Outcome = tuple[int, ...]
Masses = Mapping[Outcome, float]

DELTA = 2
RHO = Fraction(4)
TOLERANCE = 1e-6
PLACES = (0, 30)
"""The finest cells in which persons can be: a boy under 5, and a woman between 22 and 24."""

COMMON = Iteration("0001", "common", 2, False, False, False)
ONLY = Iteration("0002", "only a total", 2, False, True, False)
SUPPRESSED = (-1, 0, 0)


def measured(noise: Noise = Noise.GAUSSIAN, below: bool = True, **changes: object) -> Measured:
    """Noise of σ² = 1/4 (totals only), 1 (stage 1) and 1/3 (stage 2) for Δ = 2 and ρ = 4; details from 1, 3 and 4."""
    pair = (RegionType.COUNTY if below else RegionType.STATE, 2)
    design = SafeTabPDesign(
        states=("01",),
        noise=noise,
        stabilities={pair: DELTA},
        budgets={pair: RHO},
        thresholds={pair: (1, 3, 4)},
        stage_1_share=Fraction(1, 4),
        zero_suppression_chance=Fraction(9, 10),
    )
    return replace(design.measured[0], **changes)  # type: ignore[arg-type]


def support(noise: Uncapped, order: float) -> Integers:
    """The values of noise that are enumerated."""
    if isinstance(noise, DiscreteGaussian):
        most = math.ceil(order + 6 * math.sqrt(noise.variance))
    else:
        most = math.ceil(order + 12 * noise.scale)
    return np.arange(-most, most + 1)


@dataclass(frozen=True)
class Axis:
    """Values of one independent noise, and their probabilities."""

    values: Integers
    masses: NDArray[np.float64]

    @classmethod
    def of(cls, noise: Uncapped, order: float) -> "Axis":
        values = support(noise, order)
        exact = reference(noise)
        return cls(values, np.array([float(exact.probability(int(value))) for value in values]))


class Enumerated:
    """A source of noise in which each region has another combination of values.

    Args:
        axes: by query, one axis for each group of a region that takes from the query's stream; under `cells`, those of
            the places in `PLACES`.
    """

    def __init__(self, axes: Mapping[str, Sequence[Axis]]) -> None:
        flat = [axis for each in axes.values() for axis in each]
        grids = np.meshgrid(*(axis.values for axis in flat), indexing="ij")
        masses = np.meshgrid(*(axis.masses for axis in flat), indexing="ij")
        columns = np.stack([grid.ravel() for grid in grids], axis=1)
        self.masses = np.prod(np.stack([mass.ravel() for mass in masses]), axis=0)
        self.region_ids = [str(place) for place in range(len(columns))]
        ends = np.cumsum([len(each) for each in axes.values()])
        self._values = dict(zip(axes, np.split(columns, ends[:-1], axis=1), strict=True))

    def of_next(self, query: str, count: int) -> Integers:
        kind = query.removeprefix("STATE 2 ").removeprefix("COUNTY 2 ")
        if not count:
            return np.empty(0, dtype=np.int64)
        assert count == self._values[kind].size
        return self._values[kind].ravel().copy()

    def of_group(self, query: str, region_id: str, iteration_code: str, count: int) -> Integers:
        detail = [cells(each) for each in range(4)].index(count)
        found = np.zeros(count, dtype=np.int64)
        found[relevant(detail)] = self._values["cells"][int(region_id)]
        return found


@lru_cache
def relevant(detail: int) -> list[int]:
    """The cells of a detail in which persons can be."""
    return [int(np.flatnonzero(fold(detail, np.eye(FINEST, dtype=np.int64)[place]))[0]) for place in PLACES]


def outcomes(kept: Sequence[Kept], regions: int, columns: int = 1) -> Integers:
    """The published output of each group, shape (regions, columns, 3): the detail, or −1, and one or two counts."""
    found = np.tile(np.array(SUPPRESSED), (regions, columns, 1))
    for each in kept:
        assert (found[each.regions, each.iterations, 0] == -1).all(), "a group is published once"
        found[each.regions, each.iterations, 0] = each.detail
        if each.detail == 0:
            found[each.regions, each.iterations, 1] = each.cells[:, 0]
        else:
            places = relevant(each.detail)
            found[each.regions, each.iterations, 1:] = each.cells[:, places]
            assert not np.delete(each.cells, places, axis=1).any()
    return found


def added(rows: Integers, masses: NDArray[np.float64]) -> Masses:
    """The mass of each different row."""
    different, of_row = np.unique(rows.reshape(len(rows), -1), axis=0, return_inverse=True)
    total = np.bincount(of_row.ravel(), weights=masses)
    return dict(zip(map(tuple, different.tolist()), total.tolist(), strict=True))


def run(
    draw: Draw, each: Measured, groups: Sequence[Iteration], counts: Sequence[Sequence[int]], source: Enumerated
) -> Sequence[Kept]:
    """The output of a draw if every region has the same exact counts: for each group, those at `PLACES`."""
    regions = len(source.region_ids)
    exact = np.zeros((len(groups), FINEST), dtype=np.int64)
    exact[:, PLACES] = counts
    totals = np.broadcast_to(exact.sum(axis=1), (regions, len(groups))).copy()
    return draw(each, source.region_ids, groups, totals, lambda _, columns: exact[columns], source)


def of_group(draw: Draw, each: Measured, iteration: Iteration, counts: Sequence[int], order: float) -> Masses:
    """The masses of a draw's output for one group."""
    if iteration.detailed_only:
        source = Enumerated({"total only": [Axis.of(each.total_only, order)]})
    else:
        of_cell = Axis.of(each.stage_2, order)
        source = Enumerated(
            {"stage 1": [Axis.of(each.stage_1, order)], "total": [of_cell], "cells": [of_cell, of_cell]}
        )
    kept = run(draw, each, [iteration], [counts], source)
    return added(outcomes(kept, len(source.region_ids)), source.masses)


def by_definition(each: Measured, iteration: Iteration, counts: Sequence[int], order: float) -> Masses:
    """The masses of the output for one group, by the specification's algorithm."""
    total = sum(counts)
    if iteration.detailed_only:
        return {(0, total + x, 0): p for x, p in _pairs(each.total_only, order)}
    found: dict[Outcome, float] = {}
    of_detail = [0.0] * 4
    for x, p in _pairs(each.stage_1, order):
        of_detail[sum(threshold <= total + x for threshold in each.thresholds)] += p
    for x, p in _pairs(each.stage_2, order):
        stays = each.cut_off is None or total + x > each.cut_off
        outcome = (0, total + x, 0) if stays else SUPPRESSED
        found[outcome] = found.get(outcome, 0.0) + of_detail[0] * p
    for (x, p), (y, q) in product(_pairs(each.stage_2, order), repeat=2):
        for detail in (1, 2, 3):
            found[detail, counts[0] + x, counts[1] + y] = of_detail[detail] * p * q
    return found


def _pairs(noise: Uncapped, order: float) -> list[tuple[int, float]]:
    axis = Axis.of(noise, order)
    return list(zip(axis.values.tolist(), axis.masses.tolist(), strict=True))


def differ(one: Masses, other: Masses) -> bool:
    """Whether two distributions differ by more than the mass left out."""
    return sum(abs(one.get(each, 0.0) - other.get(each, 0.0)) for each in one.keys() | other.keys()) > TOLERANCE


def divergence(one: Masses, other: Masses, order: float) -> float:
    """The Rényi divergence of an order; infinite if something is possible under the first only."""
    if sum(mass for outcome, mass in one.items() if not other.get(outcome)) > TOLERANCE:
        return math.inf
    return math.log(sum(m * (m / other[o]) ** (order - 1) for o, m in one.items() if other.get(o))) / (order - 1)


def suppresses_by_the_exact_count(each, region_ids, iterations, totals, exact_cells, noise):  # type: ignore[no-untyped-def]
    first, *rest = draw_block(replace(each, cut_off=None), region_ids, iterations, totals, exact_cells, noise)
    stays = totals[first.regions, first.iterations] > each.cut_off
    return [Kept(0, first.regions[stays], first.iterations[stays], first.cells[stays]), *rest]


def chooses_the_detail_by_the_exact_count(each, region_ids, iterations, totals, exact_cells, noise):  # type: ignore[no-untyped-def]
    class Without(Enumerated):
        def __init__(self) -> None:
            pass

        def of_next(self, query: str, count: int) -> Integers:
            return noise.of_next(query, count) * ("stage 1" not in query)  # type: ignore[no-any-return]

        def of_group(self, query: str, region_id: str, iteration_code: str, count: int) -> Integers:
            return noise.of_group(query, region_id, iteration_code, count)  # type: ignore[no-any-return]

    return draw_block(each, region_ids, iterations, totals, exact_cells, Without())


def publishes_the_total_of_stage_1(each, region_ids, iterations, totals, exact_cells, noise):  # type: ignore[no-untyped-def]
    """At detail 0, the total that chose the detail is published instead of a fresh one."""
    first, *rest = draw_block(replace(each, cut_off=None), region_ids, iterations, totals, exact_cells, noise)
    stage_1 = totals + noise.of_next(each.query("stage 1"), totals.size).reshape(totals.shape)
    cells_of_first = stage_1[first.regions, first.iterations][:, np.newaxis]
    stays = cells_of_first[:, 0] > each.cut_off
    return [Kept(0, first.regions[stays], first.iterations[stays], cells_of_first[stays]), *rest]


QUICK, GREATEST = 2.0, 6.0
"""The greatest orders of the quick tests, and of all."""

STATES = [(first, second) for first in range(3) for second in range(3 - first)]
"""Exact counts of a group at the two places, of up to two persons."""


@lru_cache
def kernel(draw: Draw, iteration: Iteration, counts: tuple[int, int], order: float, below: bool = True) -> Masses:
    """The masses of a draw's output for one group, cached for further tests."""
    return of_group(draw, measured(below=below), iteration, counts, order)


@deep_cases(2)
@pytest.mark.parametrize(("counts", "below"), deep_but([((1, 0), True)], product(STATES, (True, False))))
def test_what_is_published_of_a_group_has_exactly_the_specified_distribution(
    counts: tuple[int, int], below: bool
) -> None:
    each = measured(below=below)
    assert (each.cut_off is not None) == below
    for iteration in (COMMON, ONLY):
        found = kernel(draw_block, iteration, counts, QUICK, below)
        assert not differ(found, by_definition(each, iteration, counts, QUICK))
        assert sum(found.values()) == pytest.approx(1, abs=TOLERANCE)
    assert {outcome[0] for outcome in kernel(draw_block, COMMON, counts, QUICK, below)} >= {0, 1, 2, 3}
    assert (SUPPRESSED in kernel(draw_block, COMMON, counts, QUICK, below)) == below


WRONG = (suppresses_by_the_exact_count, chooses_the_detail_by_the_exact_count, publishes_the_total_of_stage_1)


@pytest.mark.parametrize("wrong", deep_but([publishes_the_total_of_stage_1], WRONG))
def test_a_wrong_variant_has_another_distribution(wrong: Draw) -> None:
    each = measured()
    assert differ(kernel(wrong, COMMON, (1, 0), QUICK), by_definition(each, COMMON, (1, 0), QUICK))


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("below", [True, False])
def test_adding_a_person_costs_each_group_at_most_its_share(below: bool) -> None:
    for order in (1.25, 1.5, QUICK):
        most = {COMMON: 0.0, ONLY: 0.0}
        for iteration, counts in product((COMMON, ONLY), STATES):
            for place in (0, 1):
                more = (counts[0] + (place == 0), counts[1] + (place == 1))
                if sum(more) <= 2:
                    pair = [kernel(draw_block, iteration, each, QUICK, below) for each in (counts, more)]
                    most[iteration] = max(most[iteration], divergence(*pair, order), divergence(*reversed(pair), order))
        share = order * float(RHO) / DELTA
        assert max(most.values()) <= share + TOLERANCE
        # The bound is nearly reached: a mechanism that spent a tenth more would exceed it.
        assert most[COMMON] > 0.9 * share
        if order == QUICK:
            assert most[ONLY] == pytest.approx(share, abs=TOLERANCE)


@pytest.mark.deep
@pytest.mark.parametrize("wrong", WRONG[:2])
def test_deciding_by_exact_counts_has_no_finite_divergence(wrong: Draw) -> None:
    found = {
        divergence(kernel(wrong, COMMON, one, QUICK), kernel(wrong, COMMON, other, QUICK), QUICK)
        for one, other in (((0, 0), (1, 0)), ((1, 0), (0, 0)), ((1, 0), (2, 0)), ((2, 0), (1, 0)))
    }
    assert math.inf in found


def test_measuring_a_group_as_a_total_only_and_in_stages_exceeds_its_share() -> None:
    """DETAILED_ONLY groups that are measured with both budgets cost more than ρ/Δ."""
    each = measured(below=False, thresholds=(10**6,) * 3)
    axes = {
        "total only": [Axis.of(each.total_only, QUICK)],
        "stage 1": [Axis.of(each.stage_1, QUICK)],
        "total": [Axis.of(each.stage_2, QUICK)],
    }
    source = Enumerated(axes)

    def both(counts: Sequence[int]) -> Masses:
        rows = [
            outcomes(run(draw_block, each, [iteration], [counts], source), len(source.region_ids))
            for iteration in (ONLY, COMMON)
        ]
        return added(np.concatenate(rows, axis=1), source.masses)

    share = QUICK * float(RHO) / DELTA
    assert divergence(both((1, 0)), both((0, 0)), QUICK) > 1.5 * share


def test_two_groups_and_a_total_only_are_independent() -> None:
    """The joint distribution is the product, on supports of 3 and 5 values, which need not contain nearly all mass."""
    each = measured(below=False, thresholds=(1, 10**6, 10**6))

    def short(noise: Uncapped, most: int) -> Axis:
        exact = reference(noise)
        values = np.arange(-most, most + 1)
        return Axis(values, np.array([float(exact.probability(int(value))) for value in values]))

    of_cells = {"cells": [short(each.stage_2, 1), short(each.stage_2, 0)]}
    one, two, total = short(each.stage_1, 2), short(each.stage_2, 1), short(each.total_only, 1)
    groups, counts = [COMMON, ONLY, replace(COMMON, code="0003")], [(0, 0), (1, 0), (1, 0)]
    joint = Enumerated({"stage 1": [one, one], "total": [two, two], "total only": [total]} | of_cells)
    kept = run(draw_block, each, groups, counts, joint)
    found = added(outcomes(kept, len(joint.region_ids), 3), joint.masses)

    alone = []
    for iteration, of_iteration in zip(groups, counts, strict=True):
        axes = {"total only": [total]} if iteration.detailed_only else {"stage 1": [one], "total": [two]} | of_cells
        source = Enumerated(axes)
        rows = outcomes(run(draw_block, each, [iteration], [of_iteration], source), len(source.region_ids))
        alone.append(added(rows, source.masses))
    # Both common groups take the same noise of cells in a combination, which only matters if they have a detail.
    of_noise = float(np.prod([axis.masses.sum() for axis in of_cells["cells"]]))
    expected = {
        first + second + third: p * q * r / of_noise
        for (first, p), (second, q), (third, r) in product(*(each.items() for each in alone))
    }
    totals = [outcome for outcome in found if outcome[0] == outcome[6] == 0]
    assert len(totals) == 27
    for outcome in totals:
        assert found[outcome] == pytest.approx(expected[outcome], rel=1e-12)
    details = [(first, third) for first in (0, 1) for third in (0, 1)]
    for pair in details:
        both = [sum(m for o, m in masses.items() if (o[0], o[6]) == pair) for masses in (found, expected)]
        assert both[0] == pytest.approx(both[1], rel=1e-12)
        assert both[0] > 0


Person = tuple[tuple[int, ...], int]
"""A person of a tiny universe: in which of two common groups and two that are a total only, and at which place."""

PERSONS: list[Person] = [
    (groups, place) for size in range(DELTA + 1) for groups in combinations(range(4), size) for place in (0, 1)
]


@pytest.mark.prove
@pytest.mark.parametrize("order", [1.25, 2.0, GREATEST])
def test_all_neighboring_tiny_data_sets_lose_at_most_rho_and_at_most_twice_rho(order: float) -> None:
    """Unbounded: one person added to or removed from up to one other; bounded: one of up to two persons changed."""
    groups = (COMMON, COMMON, ONLY, ONLY)

    def of_groups(persons: Sequence[Person]) -> list[tuple[int, int]]:
        return [
            (sum(g in of and not place for of, place in persons), sum(g in of and place for of, place in persons))
            for g in range(len(groups))
        ]

    @lru_cache
    def lost(iteration: Iteration, one: tuple[int, int], other: tuple[int, int]) -> float:
        pair = [kernel(draw_block, iteration, each, GREATEST, below=False) for each in (one, other)]
        return divergence(*pair, order)

    def total(one: Sequence[Person], other: Sequence[Person]) -> float:
        return sum(lost(g, a, b) for g, a, b in zip(groups, of_groups(one), of_groups(other), strict=True) if a != b)

    data_sets = [list(each) for size in (0, 1) for each in combinations_with_replacement(PERSONS, size)]
    added_person = [(each, [*each, person]) for each in data_sets for person in PERSONS]
    unbounded = max(max(total(*pair), total(*reversed(pair))) for pair in added_person)
    assert 0.9 * order * float(RHO) < unbounded <= order * float(RHO) + TOLERANCE

    changed = [([*each, one], [*each, other]) for each in data_sets for one, other in product(PERSONS, repeat=2)]
    bounded = max(total(*pair) for pair in changed)
    assert 1.9 * order * float(RHO) < bounded <= 2 * order * float(RHO) + TOLERANCE


def test_pure_dp_holds_with_discrete_laplace_noise() -> None:
    """No outcome is more than e^(ε/Δ) times as likely after a person is added, and some outcome nearly is."""
    each = measured(Noise.LAPLACE, below=True)
    for iteration in (COMMON, ONLY):
        small, large = (of_group(draw_block, each, iteration, counts, 0.0) for counts in ((0, 0), (1, 0)))
        likely = {outcome for outcome in small.keys() | large.keys() if small.get(outcome, 0) > 1e-4}
        most = max(abs(math.log(small[outcome] / large[outcome])) for outcome in likely)
        assert 0.9 * float(RHO) / DELTA < most <= float(RHO) / DELTA + 1e-3
