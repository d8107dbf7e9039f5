"""Rates that vary: their loss is the greatest over strata, exactly, and one ε gives each stratum the smallest rate."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.losses import PureLoss
from mechanisms.swapping.design import Case, Rates
from mechanisms.swapping.loss import (
    EXEMPT,
    FINEST,
    Stir,
    loss_of_stir,
    odds,
    rates_of_sizes,
    smallest_rate,
    theorem_1,
)
from mechanisms.swapping.uncertainty import expected_selected, moved

RATES = (Fraction(1, 20), Fraction(1, 2), Fraction(9, 10), Fraction(2, 3))
HALF = Fraction(1, 2)

groups = st.lists(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=4), min_size=1, max_size=6
)


def stirred(strata: list[list[tuple[int, int]]], rates: tuple[Fraction, ...] = RATES) -> tuple[Stir, np.ndarray]:
    stratum = np.repeat(np.arange(len(strata)), [len(within) for within in strata]).astype(np.int32)
    flat = np.array([group for within in strata for group in within])
    return Stir(stratum, flat[:, 1].astype(np.int32), rates), flat[:, 0]


@given(groups, st.randoms(use_true_random=False))
def test_the_loss_is_the_greatest_over_strata_that_count(strata: list[list[tuple[int, int]]], chooser: object) -> None:
    counts = np.array([chooser.random() < 0.7 for _ in strata])  # type: ignore[attr-defined]
    stir, records = stirred(strata)
    expected, sizes = [Fraction(1)], [0]
    for within, counted in zip(strata, counts, strict=True):
        size = sum(number for number, _ in within)
        if counted and size > 1:
            every = [odds(RATES[place]) for _, place in within]
            expected.append(max((size + 1) / min(every), max(every)))
            sizes.append(size)
    found = loss_of_stir(stir, records, counts)
    assert found.loss == PureLoss.logarithm(max(expected))
    assert found.largest_stratum == max(sizes)
    assert found.strata == len(strata)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.sampled_from(RATES))
def test_with_one_rate_the_loss_is_theorem_1(sizes: list[int], rate: Fraction) -> None:
    stir, records = stirred([[(size, 0)] for size in sizes], (rate,))
    largest = max(sizes) if max(sizes) > 1 else 0
    assert loss_of_stir(stir, records, np.ones(len(sizes), dtype=bool)).loss == theorem_1(largest, rate)


def test_exempt_strata_do_not_count_and_are_counted() -> None:
    stir, records = stirred([[(100, 0)], [(3, 1), (2, 1)]], (EXEMPT, HALF))
    found = loss_of_stir(stir, records, np.ones(2, dtype=bool))
    assert (found.loss, found.largest_stratum, found.exempt) == (theorem_1(5, HALF), 5, 100)
    assert (found.lowest, found.highest) == (HALF, HALF)


@given(st.integers(2, 10**7), st.fractions(Fraction(1), Fraction(20), max_denominator=50))
def test_one_epsilon_gives_the_smallest_rate(size: int, epsilon: Fraction) -> None:
    try:
        rate = smallest_rate(size, epsilon)
    except ValueError:
        # Between two steps of the grid, there may be a rate that gives ε: no more than one step is lost.
        assert not theorem_1(size, Fraction(FINEST - 1, FINEST)) <= PureLoss(epsilon)
        assert float(epsilon) < math.log(size + 1) / 2 + 0.01 or size > FINEST
        return
    assert theorem_1(size, rate) <= PureLoss(epsilon)
    smaller = rate - Fraction(1, FINEST)
    assert smaller == 0 or not theorem_1(size, smaller) <= PureLoss(epsilon)


def test_an_epsilon_below_the_smallest_attainable_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"no swap rate gives ε = 1 in a stratum of 10 records; the smallest .* 1\.1989"
    ):
        smallest_rate(10, Fraction(1))


def test_every_stratum_gets_the_rate_of_its_size() -> None:
    place, rates = rates_of_sizes(np.array([5, 1, 40, 5]), Fraction(4))
    assert [rates[each] for each in place] == [smallest_rate(size, Fraction(4)) for size in (5, 2, 40, 5)]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.sampled_from(RATES))
def test_with_one_rate_the_expected_share_is_that_of_a_plain_swap(sizes: list[int], rate: Fraction) -> None:
    stir, records = stirred([[(size, 0)] for size in sizes], (rate,))
    squares = np.array([size * size for size in sizes])
    plain = moved(np.array(sizes), squares, np.ones(len(sizes), dtype=np.int64), rate)
    assert expected_selected(stir, records) == pytest.approx(plain.selected, abs=1e-12)


def test_the_expected_share_selected_is_that_of_every_selection() -> None:
    """Three records with three rates: all selections but those of one record."""
    rates = RATES[:3]
    stir, records = stirred([[(1, 0), (1, 1), (1, 2)]], rates)
    mean = whole = Fraction(0)
    for chosen in product((0, 1), repeat=3):
        if sum(chosen) != 1:
            chance = math.prod(
                (rate if one else 1 - rate for one, rate in zip(chosen, rates, strict=True)), start=Fraction(1)
            )
            whole, mean = whole + chance, mean + chance * sum(chosen)
    assert expected_selected(stir, records) == pytest.approx(float(mean / whole / 3), abs=1e-12)


def test_rates_that_could_never_count_are_refused() -> None:
    everybody, some = Case((), None, HALF), Case((("size", (1,)),), None, HALF)
    with pytest.raises(ValueError, match="those after it would never count"):
        Rates((everybody, some))
    with pytest.raises(ValueError, match="rarity would never count"):
        Rates((some, everybody), rarity_of=("size",))
    Rates((some, Case((), 3, HALF), everybody), rarity_of=("size",))


def test_rates_need_cases_or_one_epsilon() -> None:
    with pytest.raises(ValueError, match="cases, or one ε"):
        Rates()
    with pytest.raises(ValueError, match="not from both"):
        Rates((Case((), None, HALF),), None, Fraction(3))
