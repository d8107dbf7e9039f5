"""ε for a given δ is a valid bound: never below the formula, and never far above it.

A wrong program that rounds to nearest, or searches α on a coarse grid, would still reproduce the published figures. So
the bounds are compared, to 30 digits, with the formulas evaluated independently of the code, and with the values that
Google's and OpenDP's libraries give.
"""

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mechanisms.accounting.composition import (
    bun_steinke,
    bun_steinke_above,
    canonne_kamath_steinke,
    canonne_kamath_steinke_above,
)
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.accounting.rounding import bound_exponential, bound_logarithm, bound_square_root, round_up

DELTA = Fraction(1, 10**10)
DIGITS = 120

rhos = st.one_of(
    st.fractions(Fraction(1, 10**9), 10**3, max_denominator=10**9),
    st.integers(-30, 12).map(lambda exponent: Fraction(10) ** exponent),
)
deltas = st.one_of(
    st.integers(1, 40).map(lambda exponent: Fraction(1, 10**exponent)),
    st.integers(7, 60).map(lambda exponent: 1 - Fraction(1, 10**exponent)),
    st.fractions(Fraction(1, 10**6), 1 - Fraction(1, 10**6), max_denominator=10**6),
)


def concentrated(rho: Fraction | str) -> ConcentratedLoss:
    return ConcentratedLoss(Fraction(rho))


def decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def by_order(rho: Fraction, delta: Fraction, order_less_one: Decimal) -> Decimal:
    """ε(α) as printed: ρα + ln(1/(αδ))/(α - 1) + ln(1 - 1/α)."""
    order = 1 + order_less_one
    return decimal(rho) * order - (order * decimal(delta)).ln() / order_less_one + (1 - 1 / order).ln()


@given(rhos, deltas)
def test_bun_steinke_is_its_formula_rounded_up(rho: Fraction, delta: Fraction) -> None:
    with localcontext(Context(prec=DIGITS)):
        exact = decimal(rho) + 2 * (decimal(rho) * -decimal(delta).ln()).sqrt()
        excess = bun_steinke(ConcentratedLoss(rho), delta, 12) - exact
    assert 0 <= excess <= Decimal("1.0000001e-12")


@given(rhos, deltas, st.floats(-12, 12))
def test_no_order_gives_less_than_the_order_found(rho: Fraction, delta: Fraction, logarithm_of_factor: float) -> None:
    """Every α, from 10⁻¹² to 10¹² times as far from 1 as Bun and Steinke's, gives at least as much."""
    epsilon = canonne_kamath_steinke(ConcentratedLoss(rho), delta, 12)
    with localcontext(Context(prec=DIGITS)):
        of_bun_steinke = (-decimal(delta).ln() / decimal(rho)).sqrt()
        other = of_bun_steinke * Decimal(10) ** Decimal(logarithm_of_factor)
        assert epsilon <= max(Decimal(0), by_order(rho, delta, other)) + Decimal("1.0000001e-12")


@pytest.mark.parametrize("x", [Fraction(1, 7), Fraction(1000)])
@given(st.fractions(Fraction(1, 100), 100, max_denominator=100), deltas, st.integers(2, 9))
def test_both_bounds_hold_for_any_number_of_digits_of_the_logarithms(
    x: Fraction, rho: Fraction, delta: Fraction, digits: int
) -> None:
    """With 40 digits or more, as in use, a logarithm rounded in the wrong direction would not show."""
    with localcontext(Context(prec=DIGITS)):
        least = decimal(rho) + 2 * (decimal(rho) * -decimal(delta).ln()).sqrt()
        assert decimal(bun_steinke_above(rho, delta, digits)) >= least
        assert decimal(canonne_kamath_steinke_above(rho, delta, x, digits)) >= by_order(rho, delta, decimal(x))


@given(rhos, deltas)
def test_the_tighter_bound_is_the_least_of_its_formula_rounded_up(rho: Fraction, delta: Fraction) -> None:
    """At the minimum, by the derivative, it is ρ(2α - 1) + ln(1 - 1/α) with ρ(α - 1)² + ln α = ln(1/δ)."""
    with localcontext(Context(prec=DIGITS)):
        log_inverse_delta = -decimal(delta).ln()
        low, high = Decimal(0), (log_inverse_delta / decimal(rho)).sqrt()
        for _ in range(300):
            middle = (low + high) / 2
            if decimal(rho) * middle**2 + (1 + middle).ln() < log_inverse_delta:
                low = middle
            else:
                high = middle
        least = max(Decimal(0), decimal(rho) * (2 * high + 1) + (high / (1 + high)).ln())
        excess = canonne_kamath_steinke(ConcentratedLoss(rho), delta, 12) - least
    assert Decimal("-1e-40") <= excess <= Decimal("1.0000001e-12")


@given(rhos, deltas, st.integers(0, 12))
def test_the_tighter_bound_is_never_above_the_other(rho: Fraction, delta: Fraction, places: int) -> None:
    loss = ConcentratedLoss(rho)
    assert canonne_kamath_steinke(loss, delta, places) <= bun_steinke(loss, delta, places)


@pytest.mark.parametrize("bound", [bun_steinke, canonne_kamath_steinke])
@given(rhos, rhos, deltas, deltas)
def test_a_greater_loss_or_a_smaller_delta_never_gives_a_smaller_epsilon(
    bound, one: Fraction, other: Fraction, delta: Fraction, another: Fraction
) -> None:
    assume(one != other or delta != another)
    lesser, greater = sorted((one, other))
    stricter, looser = sorted((delta, another))
    assert bound(ConcentratedLoss(lesser), looser) <= bound(ConcentratedLoss(greater), stricter)


@pytest.mark.parametrize("bound", [bun_steinke, canonne_kamath_steinke])
@given(rhos, deltas, st.integers(0, 12))
def test_fewer_decimals_only_round_up(bound, rho: Fraction, delta: Fraction, places: int) -> None:
    coarse, fine = bound(ConcentratedLoss(rho), delta, places), bound(ConcentratedLoss(rho), delta, places + 8)
    assert coarse.as_tuple().exponent == -places
    assert fine <= coarse < fine + Decimal(1).scaleb(-places)


@pytest.mark.parametrize("bound", [bun_steinke, canonne_kamath_steinke])
def test_a_zero_loss_converts_to_zero(bound) -> None:
    assert bound(ConcentratedLoss(), DELTA) == 0


def test_where_the_tighter_bound_is_negative_epsilon_is_0() -> None:
    assert canonne_kamath_steinke(concentrated("1/1000000"), Fraction(1, 10)) == 0
    assert bun_steinke(concentrated("1/1000000"), Fraction(1, 10)) > 0


@pytest.mark.parametrize("bound", [bun_steinke, canonne_kamath_steinke])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1), Fraction(-1, 2), Fraction(3, 2)])
@pytest.mark.parametrize("rho", ["0", "1"])
def test_a_meaningless_delta_is_refused(bound, delta: Fraction, rho: str) -> None:
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        bound(concentrated(rho), delta)


REFERENCES = [
    # ρ, δ, ε of OpenDP 0.16.0 (make_zCDP_to_approxDP), ε of dp-accounting 0.6.0 (ZCDpEvent, at the best order)
    ("0.0001", "1e-6", 0.05372712063485988, 0.05372712063485987),
    ("0.0001", "1e-10", 0.08014369844172597, 0.08014369844172597),
    ("0.01", "1e-6", 0.6216926545596027, 0.6216926545596024),
    ("0.01", "1e-10", 0.864321185724173, 0.8643211857241728),
    ("0.5", "1e-6", 5.22153444453017, 5.221534444530169),
    ("0.5", "1e-10", 6.83932941312085, 6.839329413120849),
    ("1.257281", "1e-6", 8.876063577454662, 8.87606357745466),
    ("1.257281", "1e-10", 11.412372225023597, 11.412372225023596),
    ("293764/114921", "1e-6", 13.555606768598464, 13.555606768598462),
    ("293764/114921", "1e-10", 17.143550743595927, 17.143550743595924),
    ("55.371", "1e-6", 108.7711915419428, 108.77119154194278),
    ("55.371", "1e-10", 125.0720064935672, 125.07200649356719),
    ("221.484", "1e-6", 329.61049304016865, 329.61049304016854),
    ("221.484", "1e-10", 362.02983955993756, 362.02983955993744),
]


@pytest.mark.parametrize(("rho", "delta", "opendp", "dp_accounting"), REFERENCES)
def test_google_and_opendp_agree(rho: str, delta: str, opendp: float, dp_accounting: float) -> None:
    epsilon = float(canonne_kamath_steinke(concentrated(rho), Fraction(delta), 20))
    assert epsilon == pytest.approx(opendp, rel=2e-15, abs=0)
    assert epsilon == pytest.approx(dp_accounting, rel=2e-15, abs=0)


TABLE_3 = [("0.07", "2.70"), ("2.56", "17.90"), ("7.70", "34.33"), ("4.96", "26.34"), ("15.29", "52.83")]


@pytest.mark.parametrize(("rho", "epsilon"), TABLE_3)
def test_losses_of_topdown_are_those_of_table_3(rho: str, epsilon: str) -> None:
    """Bailie, Gong and Meng print ρ rounded to two decimals. Some ρ that rounds to it has the ε that they print."""
    half = Fraction("0.005")
    low, high = (bun_steinke(ConcentratedLoss(Fraction(rho) + shift), DELTA) for shift in (-half, half))
    assert low - Decimal("0.005") <= Decimal(epsilon) <= high + Decimal("0.005")


def test_only_one_printed_loss_of_table_3_gives_the_printed_epsilon() -> None:
    """The printed ρ gives the printed ε = 34.33. The other four differ in the second decimal, 0.07 by nearly 0.1."""
    from_printed = {rho: f"{bun_steinke(concentrated(rho), DELTA):.2f}" for rho, _ in TABLE_3}
    assert [rho for rho, epsilon in TABLE_3 if from_printed[rho] == epsilon] == ["7.70"]
    assert from_printed["0.07"] == "2.61"


def test_the_person_loss_of_table_3_is_that_of_the_production_run() -> None:
    exact = Fraction(293764, 114921)
    assert f"{float(exact):.2f}" == "2.56"
    assert f"{bun_steinke(ConcentratedLoss(exact), DELTA):.2f}" == "17.90"


@pytest.mark.parametrize(("rho", "epsilon"), [("55.371", "126.78"), ("221.484", "364.31")])
def test_losses_of_the_2020_census_are_those_of_table_4_and_section_5_2(rho: str, epsilon: str) -> None:
    assert f"{bun_steinke(concentrated(rho), DELTA):.2f}" == epsilon


# The rounding on which all bounds depend


def series_of_logarithm(number: Fraction) -> tuple[Fraction, Fraction]:
    """ln(number) = 2 artanh(z) for z = (number - 1)/(number + 1), by its series, with the remainder bounded."""
    z = (number - 1) / (number + 1)
    terms = 60
    partial = 2 * sum((z ** (2 * n + 1) / (2 * n + 1) for n in range(terms)), Fraction(0))
    rest = 2 * abs(z) ** (2 * terms + 1) / (1 - z * z)
    return partial - rest, partial + rest


@given(st.fractions(Fraction(1, 3), 3, max_denominator=10**6), st.integers(5, 25))
def test_a_logarithm_lies_between_its_bounds(number: Fraction, digits: int) -> None:
    low, high = bound_logarithm(number, digits)
    series_low, series_high = series_of_logarithm(number)
    assert low <= series_high
    assert series_low <= high
    assert high - low <= Fraction(10) ** (9 - digits)


@given(st.fractions(0, 10**9, max_denominator=10**9), st.integers(0, 30))
def test_a_square_root_lies_below_its_bound_by_little(number: Fraction, digits: int) -> None:
    bound = bound_square_root(number, digits)
    assert number < bound**2
    assert bound <= Fraction(1, 10**digits) or (bound - Fraction(1, 10**digits)) ** 2 <= number


@given(st.fractions(0, 50, max_denominator=10**6))
def test_an_exponential_is_not_above_its_bound(number: Fraction) -> None:
    with localcontext(Context(prec=DIGITS)):
        excess = decimal(bound_exponential(number, 40)) / decimal(number).exp() - 1
    assert 0 <= excess <= Decimal("1e-38")


@given(st.fractions(0, 10**30, max_denominator=10**30), st.integers(0, 40))
def test_a_ceiling_is_exact_at_any_length(number: Fraction, places: int) -> None:
    assert 0 <= Fraction(round_up(number, places)) - number < Fraction(1, 10**places)
