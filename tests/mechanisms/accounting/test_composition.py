"""Losses of different kinds add up if one implies the other. Otherwise they are refused with the reason."""

import json
import math
from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.composition import (
    DoesNotCompose,
    canonne_kamath_steinke,
    compose_approximate,
    compose_concentrated,
    compose_like,
    compose_pure,
    fits,
)
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, Loss, PureLoss, format_loss

DELTA = Fraction(1, 10**10)

pure = st.one_of(
    st.builds(PureLoss, st.fractions(0, 20, max_denominator=100)),
    st.builds(PureLoss.logarithm, st.fractions(1, 10**6, max_denominator=100)),
)
concentrated = st.builds(ConcentratedLoss, st.fractions(0, 50, max_denominator=1000))
approximate = st.builds(ApproximateLoss, pure, st.integers(12, 20).map(lambda exponent: Fraction(1, 10**exponent)))


def epsilon(value: str | int | Fraction) -> PureLoss:
    return PureLoss(Fraction(value))


def rho(value: str) -> ConcentratedLoss:
    return ConcentratedLoss(Fraction(value))


def from_rho(value: Fraction, delta: Fraction = DELTA) -> PureLoss:
    return epsilon(Fraction(canonne_kamath_steinke(ConcentratedLoss(value), delta)))


@given(st.lists(pure, max_size=4), st.lists(concentrated, max_size=3), st.lists(approximate, max_size=3))
def test_the_order_of_releases_does_not_change_a_total(
    epsilons: list[Loss], rhos: list[Loss], pairs: list[Loss]
) -> None:
    assert {compose_pure(order) for order in permutations(epsilons)} == {compose_pure(epsilons)}
    without_pairs = [*epsilons, *rhos]
    assert compose_concentrated(without_pairs) == compose_concentrated(reversed(without_pairs))
    every = [*without_pairs, *pairs]
    assert compose_approximate(every, DELTA) == compose_approximate(reversed(every), DELTA)


@given(st.lists(st.one_of(pure, concentrated), max_size=4), st.one_of(pure, concentrated))
def test_a_further_release_never_lowers_a_total(losses: list[Loss], further: Loss) -> None:
    assert compose_concentrated(losses) <= compose_concentrated([*losses, further])
    assert compose_approximate(losses, DELTA) <= compose_approximate([*losses, further], DELTA)


def test_pure_losses_count_in_concentrated_ones_one_by_one() -> None:
    assert compose_concentrated([epsilon(1), rho("1/3"), epsilon(2)]) == rho("17/6")


def test_a_few_large_pure_losses_are_added_and_many_small_ones_converted() -> None:
    """Swapping at ε = 12.5 with ρ = 2.5: ε²/2 alone would give more than 160. 400 times ε = 0.01 is less than 4."""
    large = compose_approximate([epsilon("12.5"), rho("2.5")], DELTA)
    assert large.epsilon == epsilon("12.5") + from_rho(Fraction("2.5"))
    small = compose_approximate([epsilon("0.01")] * 400, DELTA)
    assert small.epsilon == from_rho(400 * Fraction("0.01") ** 2 / 2) <= epsilon(4)
    assert compose_approximate([epsilon("0.1")], DELTA).epsilon == epsilon("0.1")


def test_the_deltas_of_releases_are_subtracted_from_the_delta_of_the_total() -> None:
    half = DELTA / 2
    total = compose_approximate([rho("1"), ApproximateLoss(epsilon(1), half)], DELTA)
    assert total == ApproximateLoss(epsilon(1) + from_rho(Fraction(1), half), DELTA)
    assert compose_approximate([ApproximateLoss(epsilon(1), half)] * 2, DELTA).epsilon == epsilon(2)


@pytest.mark.parametrize(
    "losses",
    [
        [ApproximateLoss(epsilon(1), DELTA), rho("1")],
        [ApproximateLoss(epsilon(1), DELTA), ApproximateLoss(epsilon(1), DELTA**9)],
    ],
)
def test_a_delta_that_is_used_up_is_refused(losses: list[Loss]) -> None:
    with pytest.raises(DoesNotCompose, match="own δs add up"):
        compose_approximate(losses, DELTA)


def test_the_total_of_no_losses_is_zero() -> None:
    assert compose_pure([]) == PureLoss()
    assert compose_concentrated([]) == ConcentratedLoss()
    assert compose_approximate([], DELTA) == ApproximateLoss(PureLoss(), DELTA)


@pytest.mark.parametrize("other", [rho("1"), ApproximateLoss(epsilon(1), DELTA)])
def test_only_pure_losses_have_a_pure_total(other: Loss) -> None:
    with pytest.raises(DoesNotCompose, match="no ε holds without a δ"):
        compose_pure([epsilon(1), other])


def test_approximate_losses_have_no_concentrated_total() -> None:
    with pytest.raises(DoesNotCompose, match="which no ρ bounds"):
        compose_concentrated([rho("1"), ApproximateLoss(epsilon(1), DELTA)])


@pytest.mark.deep
@given(st.lists(pure, max_size=3), st.lists(concentrated, max_size=3), st.lists(approximate, max_size=2))
def test_a_limit_determines_the_kind_of_total(epsilons: list[Loss], rhos: list[Loss], pairs: list[Loss]) -> None:
    every = [*epsilons, *rhos, *pairs]
    assert compose_like(PureLoss(), epsilons) == compose_pure(epsilons)
    assert compose_like(ConcentratedLoss(), [*epsilons, *rhos]) == compose_concentrated([*epsilons, *rhos])
    assert compose_like(ApproximateLoss(PureLoss(), DELTA), every) == compose_approximate(every, DELTA)


@pytest.mark.parametrize(
    ("limit", "losses"),
    [
        (epsilon("1.5"), [epsilon(1), epsilon("1/2")]),
        (rho("5/8"), [epsilon(1), rho("1/8")]),
        (ApproximateLoss(from_rho(Fraction("0.1")), DELTA), [rho("0.04"), rho("0.06")]),
    ],
)
def test_a_limit_can_be_used_up_exactly(limit: Loss, losses: list[Loss]) -> None:
    """A further 10⁻³⁰ of pure loss no longer fits. Under (ε, δ), a loss of 10⁻³ must show in six decimals."""
    assert fits(compose_like(limit, losses), limit)
    little = PureLoss(Fraction(1, 10**3) if isinstance(limit, ApproximateLoss) else Fraction(1, 10**30))
    assert not fits(compose_like(limit, [*losses, little]), limit)


def test_losses_of_different_kinds_do_not_compare() -> None:
    kinds: list[Loss] = [epsilon(1), rho("1"), ApproximateLoss(epsilon(1), DELTA)]
    for total, limit in permutations(kinds, 2):
        with pytest.raises(DoesNotCompose, match="do not compare"):
            fits(total, limit)


def test_a_loss_is_written_rounded_up_and_with_its_symbol() -> None:
    assert format_loss(PureLoss.logarithm(2), 3) == "ε = 0.694"
    assert format_loss(rho("2.514562")) == "ρ = 2.5146"
    assert format_loss(ApproximateLoss(epsilon("3.1"), DELTA)) == "ε = 3.1000 at δ = 1e-10"


def test_a_loss_as_text_is_not_rounded() -> None:
    assert str(rho("2.514562")) == "1257281/500000"
    assert str(ApproximateLoss(epsilon("3.1"), DELTA)) == "31/10 at δ = 1e-10"


# (ε, δ)


@given(approximate, approximate)
def test_approximate_losses_add_up_in_both_parts(one: ApproximateLoss, other: ApproximateLoss) -> None:
    assert one + other == ApproximateLoss(one.epsilon + other.epsilon, one.delta + other.delta)
    assert one <= one + other


def test_opendp_composes_approximate_losses_to_the_same_total() -> None:
    """OpenDP 0.16.0: discrete Gaussians of σ = 3 at δ = 10⁻⁷ and σ = 1 at δ = 10⁻⁸, and both together."""
    one = ApproximateLoss(from_rho(Fraction(1, 18), Fraction(1, 10**7)), Fraction(1, 10**7))
    other = ApproximateLoss(from_rho(Fraction(1, 2), Fraction(1, 10**8)), Fraction(1, 10**8))
    for loss, reference in ((one, 1.713160254967524), (other, 6.0861586146698), (one + other, 7.799318869637324)):
        assert 0 <= float(loss) - reference <= 2e-6
    assert (one + other).delta == Fraction("1.1e-7")


def test_two_losses_that_trade_epsilon_for_delta_do_not_compare() -> None:
    small_epsilon, small_delta = ApproximateLoss(epsilon(1), DELTA), ApproximateLoss(epsilon(2), DELTA / 2)
    assert not small_epsilon <= small_delta
    assert not small_delta <= small_epsilon


@given(st.builds(ApproximateLoss, pure, st.just(Fraction(1, 10**80))), st.integers(1, 5))
def test_a_group_loses_as_much_epsilon_and_more_delta(loss: ApproximateLoss, size: int) -> None:
    of_group = loss.of_group(size)
    assert of_group.epsilon == loss.epsilon.of_group(size)
    growth = sum(math.exp(times * float(loss.epsilon)) for times in range(size))
    assert float(of_group.delta) == pytest.approx(float(loss.delta) * growth, rel=1e-9)


def test_a_group_of_two_where_epsilon_is_a_logarithm_is_exact() -> None:
    assert ApproximateLoss(PureLoss.logarithm(3), DELTA).of_group(3).delta == 13 * DELTA
    assert ApproximateLoss(epsilon(1), DELTA).of_group(1) == ApproximateLoss(epsilon(1), DELTA)


def test_a_vacuous_guarantee_is_refused() -> None:
    half = ApproximateLoss(epsilon(1), Fraction(1, 2))
    for say_nothing in (
        lambda: half + half,
        lambda: half.of_group(2),
        lambda: ApproximateLoss(epsilon(1), Fraction(0)),
    ):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            say_nothing()
    with pytest.raises(ValueError, match="at least one unit"):
        half.of_group(0)


@given(approximate)
def test_an_approximate_loss_survives_json_without_rounding(loss: ApproximateLoss) -> None:
    assert ApproximateLoss.from_record(json.loads(json.dumps(loss.as_record()))) == loss


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        ("1e-10", "1e-10"),
        ("1.234567e-9", "1.234567e-09"),
        ("1/3", "0.333334"),
        ("1000001/3000000000000", "3.33334e-07"),
    ],
)
def test_a_delta_that_is_no_short_decimal_is_stated_rounded_up(delta: str, text: str) -> None:
    assert format_loss(ApproximateLoss(PureLoss(Fraction(1)), Fraction(delta))) == f"ε = 1.0000 at δ = {text}"
