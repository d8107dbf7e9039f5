"""Theorem 1 by enumeration: every permutation, every pair of data sets, every output, and no rounding.

A program that charges too much would satisfy the bound. So there are universes in which the loss is attained, and
understated losses are rejected there. A mechanism other than the algorithm might satisfy it too. So wrong mechanisms
are rejected below, and `test_permutation` shows that the code has the probabilities used here.

In these universes, records that differ in both values attain the *evaluated* bound at every swap rate. Theorem 1 itself
is attained above the rate at which its two branches meet. Below that rate it is not tight: ln b in place of ln(b + 1)
would hold too, so no enumeration could find that mistake. The exact values in `test_loss` do.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.swapping.loss import evaluated, theorem_1
from tests.depth import deep_cases, quick_cases
from tests.mechanisms.swapping.enumeration import (
    Mechanism,
    Stratum,
    Universe,
    algorithm_1,
    attained_loss,
    bound_holds,
    capped,
    cyclic,
    derangement_number,
    margins,
    permutations_by_cycles,
    shuffled,
    shuffled_anew,
    single_released,
)

ROUNDING = 1e-9
Charge = Callable[[int, Fraction], Fraction]
MILLION = 10**6


def one_stratum(*margins_of: tuple[int, ...]) -> Universe:
    return Universe((Stratum(*margins_of),))


def all_distinct(records: int) -> Universe:
    """Records of which no two share a holding value or a swap value."""
    return one_stratum((1,) * records, (1,) * records)


def universes(records: int, values: int) -> list[Universe]:
    """Every universe of one stratum with `records` records over at most `values` holding and swap values."""
    every = margins(records, 1, values)
    return [one_stratum(holding, swap) for holding in every for swap in every]


PROPOSITION_9 = one_stratum((1, 1, 2, 2), (1, 1, 2, 2))
"""The universe of Bailie, Gong and Meng, Proposition 9: six records over four values each."""


def around_the_switch(largest_stratum: int) -> tuple[Fraction, Fraction]:
    """Swap rates within 10⁻⁶ below and above √(b + 1) / (√(b + 1) + 1)."""
    below = Fraction(math.isqrt((largest_stratum + 1) * MILLION**2), MILLION)
    above = below + Fraction(1, MILLION)
    return below / (below + 1), above / (above + 1)


def rates(largest_stratum: int) -> list[Fraction]:
    grid = ["1/1000", "1/20", "1/10", "1/5", "1/3", "1/2", "3/5", "7/10", "4/5", "9/10", "99/100", "999/1000"]
    return [*map(Fraction, grid), *around_the_switch(largest_stratum)]


def holds(universe: Universe, mechanism: Mechanism, swap_rate: Fraction) -> bool:
    """Whether a mechanism satisfies the loss of Theorem 1 for the universe."""
    loss = theorem_1(universe.largest_stratum, swap_rate)
    assert loss.rational == 0
    return bound_holds(universe, mechanism, swap_rate, loss.argument)


def assert_theorem_1(universe: Universe) -> None:
    for swap_rate in rates(universe.largest_stratum):
        assert np.all(universe.distributions(algorithm_1, swap_rate) > 0), "every member may come of every member"
        assert holds(universe, algorithm_1, swap_rate), f"{universe} at p = {swap_rate}"
        bound = evaluated(universe.largest_stratum, swap_rate)
        assert attained_loss(universe, algorithm_1, swap_rate) <= bound + ROUNDING
        assert bound <= float(theorem_1(universe.largest_stratum, swap_rate)) + ROUNDING


@pytest.mark.parametrize("records", range(1, 7))
@pytest.mark.parametrize("mechanism", [algorithm_1, shuffled, shuffled_anew, capped, single_released, cyclic])
def test_every_mechanism_is_a_distribution_over_all_permutations(mechanism: Mechanism, records: int) -> None:
    _, type_of, types = permutations_by_cycles(records)
    for swap_rate in (Fraction(1, 7), Fraction(4, 5)):
        assert sum(mechanism(types[number], swap_rate) for number in type_of) == 1


@deep_cases(0)
@quick_cases(3)
@pytest.mark.parametrize("records", range(2, 7))
def test_theorem_1_bounds_every_pair_of_every_universe(records: int) -> None:
    for universe in universes(records, values=3):
        assert_theorem_1(universe)


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize(
    "universe", [all_distinct(4), pytest.param(all_distinct(5), marks=pytest.mark.deep), PROPOSITION_9]
)
def test_theorem_1_bounds_every_pair_of_the_hardest_universes(universe: Universe) -> None:
    assert_theorem_1(universe)


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("records", range(4, 8))
def test_theorem_1_bounds_every_pair_of_every_larger_universe(records: int) -> None:
    for universe in universes(records, values=3 if records == 7 else 4):
        assert_theorem_1(universe)


TWO_STRATA = [
    Universe((Stratum((1, 1), (1, 1)), Stratum((1, 1, 1), (1, 1, 1)))),
    Universe((Stratum((1, 2), (1, 2)), Stratum((1, 2), (1, 1, 1)))),
    Universe((Stratum((1, 1), (1, 1)), Stratum((1, 1, 2), (2, 2)))),
    Universe((Stratum((1, 1), (1, 1)), Stratum((4,), (4,)))),
    Universe((Stratum((2,), (1, 1)), Stratum((1, 2), (1, 2)))),
    Universe((Stratum((1,), (1,)), Stratum((2, 3), (2, 3)))),
]


@pytest.mark.parametrize("universe", TWO_STRATA)
def test_theorem_1_bounds_every_pair_over_two_strata(universe: Universe) -> None:
    assert_theorem_1(universe)


def test_a_stratum_of_equal_records_does_not_count() -> None:
    equal_and_distinct = Universe((Stratum((1, 1), (1, 1)), Stratum((4,), (4,))))
    assert equal_and_distinct.largest_stratum == 2
    only_equal = Universe((Stratum((4,), (4,)), Stratum((1,), (1,))))
    assert only_equal.largest_stratum == 0
    assert bound_holds(only_equal, algorithm_1, Fraction(1, 2), Fraction(1))


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("swap_rate", [Fraction(1, 2), pytest.param(Fraction(1, 1000), marks=pytest.mark.deep)])
def test_the_loss_of_the_smaller_stratum_is_too_small(swap_rate: Fraction) -> None:
    universe = Universe((Stratum((1, 1), (1, 1)), Stratum((1,) * 5, (1,) * 5)))
    assert universe.largest_stratum == 5
    assert bound_holds(universe, algorithm_1, swap_rate, theorem_1(5, swap_rate).argument)
    assert not bound_holds(universe, algorithm_1, swap_rate, theorem_1(2, swap_rate).argument)


@quick_cases(1)
@pytest.mark.parametrize("universe", [*map(all_distinct, range(2, 6))])
def test_the_evaluated_loss_is_attained_where_all_records_are_distinct(universe: Universe) -> None:
    for swap_rate in rates(universe.largest_stratum):
        attained = attained_loss(universe, algorithm_1, swap_rate)
        assert attained == pytest.approx(evaluated(universe.largest_stratum, swap_rate), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("universe", [*map(all_distinct, range(2, 6))])
def test_theorem_1_is_attained_above_the_switch(universe: Universe) -> None:
    """Theorem 3(B): members two records apart attain exactly ln o."""
    _, above = around_the_switch(universe.largest_stratum)
    for swap_rate in (above, Fraction(9, 10), Fraction(99, 100)):
        charged = theorem_1(universe.largest_stratum, swap_rate).argument
        assert charged == swap_rate / (1 - swap_rate)
        assert largest_ratio(universe, swap_rate) == charged**2


@pytest.mark.parametrize("universe", [all_distinct(2), all_distinct(4), PROPOSITION_9])
def test_theorem_3_c_is_attained(universe: Universe) -> None:
    """Members two records apart attain exactly ½ ln[d(b) / d(b - 2)] - ln o."""
    b = universe.largest_stratum
    for swap_rate in (Fraction(1, 1000), Fraction(1, 10), Fraction(1, 2)):
        odds = swap_rate / (1 - swap_rate)
        ratio = Fraction(derangement_number(b), derangement_number(b - 2)) / odds**2
        assert largest_ratio(universe, swap_rate) == ratio
        assert evaluated(b, swap_rate) == pytest.approx(math.log(ratio) / 2, rel=1e-12, abs=1e-12)


def largest_ratio(universe: Universe, swap_rate: Fraction) -> Fraction:
    """The largest P_x(c) / P_x'(c) over members two records apart."""
    weights, distances = universe.distributions(algorithm_1, swap_rate), universe.distances()
    return max(
        Fraction(mine, theirs)
        for one, other in zip(*np.nonzero(distances == 2), strict=True)
        for mine, theirs in set(zip(weights[one], weights[other], strict=True))
    )


def no_odds(b: int, odds: Fraction) -> Fraction:
    return Fraction(b + 1)


def odds_upside_down(b: int, odds: Fraction) -> Fraction:
    return max((b + 1) * odds, 1 / odds)


def one_branch(b: int, odds: Fraction) -> Fraction:
    return max((b + 1) / odds, Fraction(1))


def two_records_fewer(b: int, odds: Fraction) -> Fraction:
    return max((b - 1) / odds, odds)


@quick_cases(1)
@pytest.mark.parametrize(
    ("understated", "swap_rate"),
    [
        (no_odds, Fraction(1, 10)),
        (odds_upside_down, Fraction(1, 10)),
        (one_branch, Fraction(9, 10)),
        (two_records_fewer, Fraction(1, 10)),
    ],
)
def test_an_understated_loss_is_refused(understated: Charge, swap_rate: Fraction) -> None:
    universe = all_distinct(5)
    charge = understated(universe.largest_stratum, swap_rate / (1 - swap_rate))
    assert charge < theorem_1(universe.largest_stratum, swap_rate).argument
    assert holds(universe, algorithm_1, swap_rate)
    assert not bound_holds(universe, algorithm_1, swap_rate, charge)


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize(
    "swap_rate", [Fraction(1, 10**12), around_the_switch(5)[1], Fraction(9, 10), Fraction(99, 100)]
)
def test_one_hundredth_less_than_theorem_1_is_refused(swap_rate: Fraction) -> None:
    """The loss is attained, or almost attained, above the switch and as p goes to 0."""
    universe = all_distinct(5)
    assert holds(universe, algorithm_1, swap_rate)
    assert attained_loss(universe, algorithm_1, swap_rate) > 0.99 * float(theorem_1(5, swap_rate)) + ROUNDING


@pytest.mark.parametrize("swap_rate", [Fraction(1, 1000), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_one_hundredth_less_than_the_evaluated_loss_is_refused(swap_rate: Fraction) -> None:
    assert attained_loss(all_distinct(5), algorithm_1, swap_rate) > 0.99 * evaluated(5, swap_rate) + ROUNDING


@pytest.mark.parametrize(
    ("mechanism", "universe", "swap_rate"),
    [
        (shuffled, all_distinct(2), around_the_switch(2)[0]),
        (shuffled, all_distinct(3), around_the_switch(3)[0]),
        (shuffled, all_distinct(4), Fraction(7, 10)),
        (shuffled_anew, all_distinct(4), Fraction(7, 10)),
        (shuffled_anew, PROPOSITION_9, Fraction(7, 10)),
        (capped, one_stratum((1, 4), (1, 4)), around_the_switch(5)[1]),
        (cyclic, one_stratum((1, 1, 3), (1, 1, 3)), Fraction(9, 10)),
        (cyclic, one_stratum((3, 3), (3, 3)), Fraction(99, 100)),
    ],
)
def test_a_wrong_mechanism_breaks_the_bound(mechanism: Mechanism, universe: Universe, swap_rate: Fraction) -> None:
    assert holds(universe, algorithm_1, swap_rate)
    assert not holds(universe, mechanism, swap_rate)
    assert attained_loss(universe, mechanism, swap_rate) < math.inf, "not for want of a common support"


@pytest.mark.parametrize(
    ("mechanism", "universe"),
    [
        (capped, one_stratum((2, 2), (2, 2))),
        (capped, all_distinct(3)),
        (cyclic, all_distinct(4)),
        (cyclic, all_distinct(5)),
    ],
)
@pytest.mark.parametrize("swap_rate", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_a_wrong_mechanism_that_cannot_reach_every_output_has_infinite_loss(
    mechanism: Mechanism, universe: Universe, swap_rate: Fraction
) -> None:
    assert attained_loss(universe, mechanism, swap_rate) == math.inf
    assert not holds(universe, mechanism, swap_rate)


def test_releasing_a_single_selected_record_satisfies_theorem_1_but_is_rejected() -> None:
    """Identity gains n·o times its weight: at most (1 + n·o) / o² for members two apart, below ((n + 1) / o)².

    So Theorem 1 also bounds this wrong mechanism in every universe here. The evaluated loss, which the algorithm
    satisfies and this mechanism does not, and the output distribution reveal it.
    """
    pair = all_distinct(2)
    for swap_rate in (Fraction(1, 1000), Fraction(1, 10), Fraction(1, 2)):
        assert attained_loss(pair, algorithm_1, swap_rate) <= evaluated(2, swap_rate) + ROUNDING
        assert attained_loss(pair, single_released, swap_rate) > evaluated(2, swap_rate) + 1e-4
    for records in range(2, 6):
        for universe in (all_distinct(min(records, 4)), *universes(records, values=3)):
            for swap_rate in rates(universe.largest_stratum):
                assert holds(universe, single_released, swap_rate)
