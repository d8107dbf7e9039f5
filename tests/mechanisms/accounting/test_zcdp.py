"""ρ is an exact number: sums are exact, and pure ε counts as ε²/2 and never as less.

A wrong program might multiply ρ by the size of a group, or add ε before squaring it. The published figure for imputed
records, and losses that floats cannot distinguish, reveal both mistakes.
"""

import csv
import json
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import reduce
from itertools import permutations
from operator import add
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.losses import ConcentratedLoss, PureLoss

PHSAFE = (Path(__file__).parents[2] / "data") / "phsafe_production.csv"

concentrated_losses = st.builds(ConcentratedLoss, st.fractions(0, 10**6, max_denominator=10**9))


@given(st.lists(concentrated_losses, max_size=5))
def test_sums_are_exact_in_any_order(losses: list[ConcentratedLoss]) -> None:
    total = sum((loss.rho for loss in losses), Fraction(0))
    for order in permutations(losses):
        assert reduce(add, order, ConcentratedLoss()) == ConcentratedLoss(total)


def test_a_loss_too_small_for_a_float_counts() -> None:
    whole, tiny = ConcentratedLoss(Fraction(1)), ConcentratedLoss(Fraction(1, 10**50))
    assert whole <= whole + tiny
    assert not whole + tiny <= whole
    assert (whole + tiny).round_up(2) == Decimal("1.01")


@given(concentrated_losses, st.integers(1, 50))
def test_a_group_loses_the_square_of_its_size(loss: ConcentratedLoss, size: int) -> None:
    assert loss.of_group(size).rho == sum((loss.rho for _ in range(size**2)), Fraction(0))


@given(concentrated_losses, st.integers(1, 20), st.integers(1, 20))
def test_a_group_of_groups_is_a_group(loss: ConcentratedLoss, size: int, times: int) -> None:
    assert loss.of_group(size).of_group(times) == loss.of_group(size * times)


@given(st.fractions(0, 100, max_denominator=10**6))
def test_a_rational_epsilon_is_half_its_square(epsilon: Fraction) -> None:
    assert ConcentratedLoss.of_pure(PureLoss(epsilon)).rho == epsilon * epsilon / 2


@given(st.fractions(0, 20, max_denominator=1000), st.fractions(1, 10**9, max_denominator=10**6))
def test_an_epsilon_with_a_logarithm_is_never_charged_less_than_half_its_square(
    rational: Fraction, argument: Fraction
) -> None:
    rho = ConcentratedLoss.of_pure(PureLoss(rational, argument)).rho
    with localcontext(Context(prec=100)):
        logarithm = Decimal(argument.numerator).ln() - Decimal(argument.denominator).ln()
        epsilon = Decimal(rational.numerator) / Decimal(rational.denominator) + logarithm
        excess = Decimal(rho.numerator) / Decimal(rho.denominator) - epsilon**2 / 2
    assert Decimal("-1e-95") <= excess <= (epsilon + 1) * Decimal("1e-20")


def test_releases_in_pure_dp_count_one_by_one() -> None:
    """Half the square of the sum would be 2, twice the loss of the composition."""
    one = ConcentratedLoss.of_pure(PureLoss(Fraction(1)))
    assert (one + one).rho == 1


@given(concentrated_losses)
def test_a_loss_survives_json_without_rounding(loss: ConcentratedLoss) -> None:
    assert ConcentratedLoss.from_record(json.loads(json.dumps(loss.as_record()))) == loss


@given(concentrated_losses, st.integers(0, 8))
def test_rounding_up_gives_the_smallest_decimal_not_below(loss: ConcentratedLoss, places: int) -> None:
    rounded = loss.round_up(places)
    assert rounded.as_tuple().exponent == -places
    assert 0 <= Fraction(rounded) - loss.rho < Fraction(1, 10**places)


def test_a_negative_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="not negative"):
        ConcentratedLoss(Fraction(-1, 10**50))


def test_the_losses_of_the_2020_census_add_up_as_in_table_4() -> None:
    """Bailie, Gong and Meng, Table 4 and Section 5.2: TopDown, SafeTab-P, SafeTab-H, PHSafe; then imputed twice."""
    losses = [ConcentratedLoss(Fraction(rho)) for rho in ("15.29", "19.776", "17.79", "2.515")]
    total = reduce(add, losses)
    assert total.rho == Fraction("55.371")
    assert f"{float(total.of_group(2)):.2f}" == "221.48"


def test_the_losses_of_topdown_add_up_as_in_table_3_and_theorem_2() -> None:
    household, person, dhc_household, dhc_person = map(Fraction, ("0.07", "2.56", "7.70", "4.96"))
    assert household + person == Fraction("2.63")
    assert household + person + dhc_household + dhc_person == Fraction("15.29")


def test_phsafe_loses_2_514562_when_a_person_changes() -> None:
    """The production table of the S-DHC has six decimals in each line. Table 4 of Bailie, Gong and Meng has 2.515."""
    with PHSAFE.open(newline="") as file:
        lines = [ConcentratedLoss(Fraction(line["rho_unbounded"])) for line in csv.DictReader(file)]
    unbounded = reduce(add, lines)
    assert len(lines) == 46
    assert unbounded.rho == Fraction("1.257281")
    bounded = unbounded + unbounded
    assert bounded.rho == Fraction("2.514562")
    assert str(bounded.round_up(3)) == "2.515"
