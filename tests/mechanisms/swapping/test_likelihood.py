"""Likelihood ratios of permutation swapping: compared with the probabilities of Algorithm 1, and held to Theorem 1."""

import math
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest

from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.likelihood import compute_log_ratios, log_derangements
from mechanisms.swapping.loss import derangement_number, theorem_1
from mechanisms.swapping.permutation import permute_strata
from tests.mechanisms.swapping.enumeration import algorithm_1, cycle_type, shuffled_anew

RATES = [Fraction(1, 20), Fraction(1, 2), Fraction(19, 20)]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_ratios_are_those_of_the_enumerated_algorithm_and_within_twice_epsilon(size: int, rate: Fraction) -> None:
    """Fails for: ratios of an algorithm that permutes the selected records instead of deranging them."""
    pairs, greatest, agrees = np.array(list(combinations(range(size), 2))), 0.0, True
    for permutation in permutations(range(size)):
        ratios = compute_log_ratios(np.array(permutation), rate, pairs)
        for (u, v), ratio in zip(pairs.tolist(), ratios, strict=True):
            # In the other world, the record that got the value of u got the value of v.
            exchanged = tuple({u: v, v: u}.get(value, value) for value in permutation)
            cycles = cycle_type(permutation), cycle_type(exchanged)
            here, there, wrong, wrong_there = (float(m(c, rate)) for m in (algorithm_1, shuffled_anew) for c in cycles)
            assert ratio == pytest.approx(math.log(here / there), abs=1e-9)
            agrees &= math.isclose(ratio, math.log(wrong / wrong_there), abs_tol=1e-9)
            greatest = max(greatest, abs(ratio))
    assert not agrees or size == 2
    bound = 2 * float(theorem_1(size, rate))
    assert greatest <= bound + 1e-9
    if rate == Fraction(19, 20):
        assert greatest == pytest.approx(bound), "the bound is reached where ε = ln(p / (1 - p))"


def test_ratios_of_real_draws_are_within_twice_epsilon_and_come_close() -> None:
    size, rate = 50, Fraction(1, 20)
    pairs, bound = np.array(list(combinations(range(size), 2))), 2 * float(theorem_1(50, Fraction(1, 20)))
    sizes = []
    for number in range(200):
        order = np.arange(size, dtype=np.int32)
        permute_strata(np.array([0, size]), order, (rate,), RandomStream(bytes(32), f"draw {number}"))
        sizes.append(np.abs(compute_log_ratios(order.astype(np.int64), rate, pairs)).max())
    assert max(sizes) <= bound
    assert max(sizes) > 0.5 * bound


def test_the_logarithm_of_many_derangements_is_that_of_their_number() -> None:
    for size in (0, 2, 19, 20, 21, 22, 60):
        assert log_derangements(size) == pytest.approx(float(np.log(float(derangement_number(size)))), rel=1e-14)
