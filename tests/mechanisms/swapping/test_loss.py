"""The loss of swapping is exactly that of Theorem 1, and reproduces every published figure.

A program with ln b for ln(b + 1) would still reproduce the figures with large b. So Theorem 1 is also compared, as a
rational number, with its three branches, down to b = 2. The figures are those of Bailie, Gong and Meng: Table 2,
Table 5, and Sections 3.5 and 3.6.
"""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.losses import PureLoss
from mechanisms.swapping.loss import evaluated, odds, smallest_attainable, theorem_1
from tests.depth import deep_cases
from tests.mechanisms.swapping.enumeration import derangement_number

swap_rates = st.fractions(Fraction(1, 10**6), 1 - Fraction(1, 10**6), max_denominator=10**6)
strata = st.integers(2, 10**8)


def rounded(loss: PureLoss) -> str:
    return f"{float(loss):.2f}"


@pytest.mark.parametrize(
    ("swap_rate", "epsilon"), [("0.01", "17.08"), ("0.05", "15.43"), ("0.10", "14.68"), ("0.50", "12.48")]
)
def test_losses_of_massachusetts_1940_are_those_of_table_2(swap_rate: str, epsilon: str) -> None:
    assert rounded(theorem_1(264_331, Fraction(swap_rate))) == epsilon


@pytest.mark.parametrize(
    ("match", "largest_stratum", "at_5_percent", "at_50_percent"),
    [
        ("state", 13_475_623, "19.36", "16.42"),
        ("state x household size", 3_948_028, "18.13", "15.19"),
        ("county", 3_420_628, "17.99", "15.05"),
        ("county x household size", 939_185, "16.70", "13.75"),
        ("block group", 6_204, "11.68", "8.73"),
        ("block group x household size", 4_549, "11.37", "8.42"),
    ],
)
def test_losses_of_a_swapped_2020_census_are_those_of_table_5(
    match: str, largest_stratum: int, at_5_percent: str, at_50_percent: str
) -> None:
    assert rounded(theorem_1(largest_stratum, Fraction("0.05"))) == at_5_percent
    assert rounded(theorem_1(largest_stratum, Fraction("0.5"))) == at_50_percent


@pytest.mark.parametrize(("swap_rate", "epsilon"), [("0.04", "18.29"), ("0.02", "19.00")])
def test_losses_of_the_2010_census_are_those_of_section_3_5(swap_rate: str, epsilon: str) -> None:
    assert rounded(theorem_1(3_650_000, Fraction(swap_rate))) == epsilon


@pytest.mark.parametrize(("largest_stratum", "epsilon", "swap_rate"), [(10, "1.20", "0.77"), (10**6, "6.91", "0.999")])
def test_the_smallest_attainable_losses_are_those_of_section_3_6(
    largest_stratum: int, epsilon: str, swap_rate: str
) -> None:
    smallest, rate = smallest_attainable(largest_stratum)
    assert f"{smallest:.2f}" == epsilon
    assert f"{rate:.{len(swap_rate) - 2}f}" == swap_rate


def test_two_swap_rates_give_a_loss_of_3_in_section_3_6() -> None:
    """The paper prints 35.4% and 95.2%. The second is 95.257…%, so the paper truncates it instead of rounding."""
    for swap_rate in ("0.354", "0.9526"):
        assert rounded(theorem_1(10, Fraction(swap_rate))) == "3.00"
    assert math.floor(1000 / (1 + math.exp(-3))) == 952


@given(strata, swap_rates)
def test_theorem_1_is_the_logarithm_of_the_rational_of_its_branch(b: int, swap_rate: Fraction) -> None:
    o = swap_rate / (1 - swap_rate)
    below_the_switch = o**2 <= b + 1
    assert theorem_1(b, swap_rate) == PureLoss(Fraction(0), (b + 1) / o if below_the_switch else o)


@given(swap_rates)
def test_without_distinct_records_in_a_stratum_nothing_is_lost(swap_rate: Fraction) -> None:
    assert theorem_1(0, swap_rate) == PureLoss()
    assert evaluated(0, swap_rate) == 0


@pytest.mark.parametrize("swap_rate", [Fraction(0), Fraction(1), Fraction(6, 5), Fraction(-1, 2)])
@pytest.mark.parametrize("b", [0, 2, 264_331])
def test_a_swap_rate_of_infinite_loss_is_refused(b: int, swap_rate: Fraction) -> None:
    for refuse in (lambda: theorem_1(b, swap_rate), lambda: evaluated(b, swap_rate), lambda: odds(swap_rate)):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            refuse()


@given(strata, swap_rates)
def test_no_swap_rate_has_a_loss_below_the_smallest_attainable(b: int, swap_rate: Fraction) -> None:
    smallest, best = smallest_attainable(b)
    assert float(theorem_1(b, swap_rate)) >= smallest * (1 - 1e-12)
    assert float(theorem_1(b, Fraction(best))) == pytest.approx(smallest, rel=1e-6)


def evaluated_by_trying_everything(b: int, swap_rate: Fraction) -> float:
    """The maximum of (1/Δ) ln[o^δ d(k - δ) / d(k)] over 2 <= Δ <= b, |δ| <= Δ and feasible k and k - δ (E.5)."""
    log_odds = math.log(swap_rate / (1 - swap_rate))
    feasible = [count for count in range(b + 1) if count != 1]
    logarithms = {count: math.log(derangement_number(count)) for count in feasible}
    return max(
        ((k - other) * log_odds + logarithms[other] - logarithms[k]) / distance
        for k in feasible
        for other in feasible
        for distance in range(max(2, abs(k - other)), b + 1)
    )


GRID = [
    Fraction(rate)
    for rate in ("1/10000", "1/20", "1/2", "7/10", "9/10", "19/20", "39/40", "49/50", "99/100", "999/1000")
]


@deep_cases(5)
@pytest.mark.parametrize("b", [*range(2, 13), 20, 39, 40, 41, 42, 45, 50, 60])
def test_the_evaluated_loss_is_the_maximum_over_every_case(b: int) -> None:
    for swap_rate in GRID:
        assert evaluated(b, swap_rate) == pytest.approx(
            evaluated_by_trying_everything(b, swap_rate), rel=1e-12, abs=1e-12
        )


@deep_cases(2)
@pytest.mark.deep
@pytest.mark.parametrize("b", range(13, 61))
def test_the_evaluated_loss_is_the_maximum_over_every_case_for_every_stratum_up_to_60(b: int) -> None:
    switch = smallest_attainable(b)[1]
    for swap_rate in (*GRID, *(Fraction(switch + shift / 1000) for shift in range(-20, 10))):
        assert evaluated(b, swap_rate) == pytest.approx(
            evaluated_by_trying_everything(b, swap_rate), rel=1e-12, abs=1e-12
        )


@given(st.one_of(st.integers(2, 80), strata), swap_rates)
def test_the_evaluated_loss_lies_between_theorem_3_and_theorem_1(b: int, swap_rate: Fraction) -> None:
    """Theorem 3(C) requires d(b - 2) > 0, so it does not apply to b = 3."""
    loss, charged = evaluated(b, swap_rate), float(theorem_1(b, swap_rate))
    log_odds = math.log(swap_rate / (1 - swap_rate))
    assert loss <= charged * (1 + 1e-12)
    assert loss >= log_odds - 1e-12
    if b != 3:
        assert loss >= log_of_derangement_ratio(b) / 2 - log_odds - 1e-9


@given(st.one_of(st.integers(2, 80), strata).filter(lambda b: b != 3), swap_rates)
def test_the_gap_to_the_evaluated_loss_is_at_most_that_of_theorem_4(b: int, swap_rate: Fraction) -> None:
    """Theorem 4 follows from Theorem 3(C), so it does not apply to b = 3 either."""
    gap = float(theorem_1(b, swap_rate)) - evaluated(b, swap_rate)
    below_the_switch = (swap_rate / (1 - swap_rate)) ** 2 < b + 1
    assert -1e-9 <= gap <= (f(b) if below_the_switch else 0) + 1e-9


def test_three_records_leave_a_wider_gap_than_the_formula_of_theorem_4() -> None:
    """As p goes to 0, the worst case moves all three records: ε = ln(2) / 3 - ln o, which enumeration attains."""
    swap_rate = Fraction(1, 10**6)
    gap = float(theorem_1(3, swap_rate)) - evaluated(3, swap_rate)
    assert gap == pytest.approx(math.log(4) - math.log(2) / 3)
    assert gap > f(3)


def test_theorem_4_bounds_the_gap_by_0_148_from_ten_records_on() -> None:
    """The bound has the three decimals of the paper: f(10) is 0.148007…"""
    gaps = [f(b) for b in range(2, 200)]
    assert gaps == sorted(gaps, reverse=True)
    assert f"{f(10):.6f}" == "0.148007"
    assert all(0 < round(gap, 3) <= 0.148 for gap in gaps[8:])


def f(b: int) -> float:
    """f(b) of Bailie, Gong and Meng, Theorem 4."""

    def inverse_factorial(size: int) -> float:
        return math.exp(-math.lgamma(size + 1))

    correction = (1 + math.e / 2 * inverse_factorial(b - 2)) / (1 - math.e / 2 * inverse_factorial(b))
    return math.log((b + 1) ** 2 / (b * (b - 1)) * correction) / 2


def log_of_derangement_ratio(b: int) -> float:
    """ln[d(b) / d(b - 2)]; above 80 records, d(b) = b!/e to the precision of a float."""
    if b <= 80:
        return math.log(Fraction(derangement_number(b), derangement_number(b - 2)))
    return math.log(b) + math.log(b - 1)
