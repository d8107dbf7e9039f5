"""Losses are exact numbers: they are ordered exactly, their sums are exact, and only losses of one kind are added.

A program with floats would still reproduce every figure. So these tests compare losses that differ by less than any
float, or not at all. The reference values are Python's decimals with 150 digits.
"""

import json
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import reduce
from itertools import permutations
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.composition import NOT_CONCENTRATED, NOT_PURE, bun_steinke, compose_approximate
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, Loss, PureLoss
from mechanisms.accounting.risks import assess_risk
from mechanisms.accounting.specification import (
    CONTRIBUTOR,
    DELTA,
    UNBOUNDED,
    Flavor,
    Specification,
    Total,
    compose,
    explain_omission,
)

LOG = PureLoss.logarithm
DIGITS = 150


def value(loss: PureLoss) -> Decimal:
    with localcontext(Context(prec=DIGITS)):
        quotient = Decimal(loss.argument.numerator).ln() - Decimal(loss.argument.denominator).ln()
        return Decimal(loss.rational.numerator) / Decimal(loss.rational.denominator) + quotient


@st.composite
def pure_losses(draw: st.DrawFn) -> PureLoss:
    argument = draw(st.fractions(Fraction(1, 10**9), 10**12, max_denominator=10**9))
    if argument >= 1 and draw(st.booleans()):
        return LOG(argument)
    smallest = 50 - value(PureLoss(Fraction(50), argument))
    rational = draw(st.fractions(0, 20, max_denominator=10**9))
    return PureLoss(rational + Fraction(smallest.quantize(Decimal("1e-9"), ROUND_CEILING)), argument)


@given(pure_losses(), pure_losses())
def test_losses_are_ordered_like_their_values(one: PureLoss, other: PureLoss) -> None:
    assert (one <= other) == (value(one) <= value(other))
    assert (other <= one) == (value(other) <= value(one))


def test_equal_losses_are_equal_however_they_were_computed() -> None:
    four, twice_two, two_and_two = LOG(4), LOG(2).of_group(2), LOG(2) + LOG(2)
    assert four == twice_two == two_and_two
    assert four <= twice_two <= four


TINY = Fraction(1, 10**50)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (LOG(1 + TINY), PureLoss(TINY)),
        (PureLoss(TINY - TINY**2), LOG(1 + TINY)),
        (LOG(10**60), LOG(10**60 + 1)),
        (PureLoss(Fraction("0.693147180559945309417232121458")), LOG(2)),
        (LOG(2), PureLoss(Fraction("0.693147180559945309417232121459"))),
        (PureLoss(Fraction(1), 1 - TINY), PureLoss(Fraction(1))),
        (PureLoss(), LOG(1 + TINY**10)),
        (LOG(2).of_group(1000), LOG(2**1000 + 1)),
    ],
)
def test_losses_closer_than_any_float_are_distinguished(less: PureLoss, more: PureLoss) -> None:
    assert less <= more
    assert not more <= less


@given(pure_losses(), st.integers(0, 12))
def test_rounding_up_gives_the_smallest_decimal_not_below(loss: PureLoss, places: int) -> None:
    rounded, unit = loss.round_up(places), Decimal(1).scaleb(-places)
    assert rounded.as_tuple().exponent == -places
    assert rounded >= value(loss)
    assert rounded - unit < value(loss)


@pytest.mark.parametrize(
    ("loss", "rounded"),
    [
        (PureLoss(), "0.00"),
        (PureLoss(Fraction(3)), "3.00"),
        (PureLoss(Fraction("12.48")), "12.48"),
        (PureLoss(Fraction(1), 1 + TINY**2), "1.01"),
        (PureLoss(Fraction(1), 1 - TINY**2), "1.00"),
        (LOG(1 + TINY), "0.01"),
        (LOG(264_332), "12.49"),
    ],
)
def test_rounding_up_is_decided_at_the_edges(loss: PureLoss, rounded: str) -> None:
    assert str(loss.round_up(2)) == rounded


@pytest.mark.parametrize("number", range(1000, 1060))
def test_rounding_up_is_decided_however_close_a_logarithm_comes_to_a_decimal(number: int) -> None:
    """ε within 10⁻⁶⁰ of 7 on either side: the sum of a rational and two logarithms, each truncated differently."""
    argument = Fraction(number, 997)
    with localcontext(Context(prec=DIGITS)):
        below = Fraction((7 - value(LOG(argument))).quantize(Decimal("1e-60"), ROUND_FLOOR))
    assert str(PureLoss(below, argument).round_up(2)) == "7.00"
    assert str(PureLoss(below + Fraction(1, 10**60), argument).round_up(2)) == "7.01"


@given(st.lists(pure_losses(), min_size=1, max_size=6))
def test_sums_are_exact_in_any_order(losses: list[PureLoss]) -> None:
    total = reduce(add, losses)
    assert total == reduce(add, reversed(losses))
    assert total.rational == sum(loss.rational for loss in losses)
    with localcontext(Context(prec=DIGITS)):
        assert abs(value(total) - sum(map(value, losses))) < Decimal(10) ** (5 - DIGITS)


@given(pure_losses(), st.integers(1, 9))
def test_a_group_loses_as_many_times_as_it_has_units(loss: PureLoss, times: int) -> None:
    assert loss.of_group(times) == reduce(add, [loss] * times)


@given(pure_losses())
def test_a_loss_survives_json_without_rounding(loss: PureLoss) -> None:
    assert PureLoss.from_record(json.loads(json.dumps(loss.as_record()))) == loss


def test_the_total_of_many_swaps_is_written_exactly() -> None:
    """Python writes no integer of over 4,300 digits as text, and the argument of this total has 6,000."""
    swap = LOG(Fraction(264_332 * 876_543_211, 123_456_789))
    total = reduce(add, [swap] * 400)
    with localcontext(Context(prec=9_000)):
        numerator, denominator = total.as_record()["ln"].split("/")
        assert Decimal(numerator) == total.argument.numerator
        assert Decimal(denominator) == total.argument.denominator
    assert str(total) == f"ln({numerator}/{denominator})"
    assert PureLoss.from_record(total.as_record()) == total


@pytest.mark.parametrize("text", ["", "abc", "Infinity", "1e99999999", "1/0", "1/2/3", "1.5"])
def test_what_is_no_fraction_is_refused_by_the_error_that_callers_expect(text: str) -> None:
    """An entry of an altered ledger can have any text."""
    with pytest.raises(ValueError, match="not a fraction"):
        PureLoss.from_record({"rational": "0", "ln": text})


@pytest.mark.parametrize("delta", [1e-10, "1e-10"])
def test_a_delta_that_is_not_exact_is_refused(delta: object) -> None:
    """A float is not the decimal that it was written as."""
    flavor = Flavor("files", (), "household", None, ConcentratedLoss.output_premetric)
    stated = Specification(flavor, ConcentratedLoss(Fraction(1)))
    for of_delta in (lambda: compose([stated], delta), lambda: assess_risk(stated, delta=delta)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="δ is a Fraction"):
            of_delta()


@given(pure_losses())
def test_a_loss_as_a_float_is_the_nearest_one_or_its_neighbor(loss: PureLoss) -> None:
    assert float(loss) == pytest.approx(float(value(loss)), rel=1e-15, abs=1e-24)


@pytest.mark.parametrize(
    ("rational", "argument", "complaint"),
    [
        (Fraction(0), Fraction(0), "greater than 0"),
        (Fraction(5), Fraction(-1), "greater than 0"),
        (Fraction(-1), Fraction(1), "not negative"),
        (Fraction(0), Fraction(1, 2), "not negative"),
        (Fraction(0), 1 - TINY, "not negative"),
    ],
)
def test_what_is_not_a_loss_is_refused(rational: Fraction, argument: Fraction, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PureLoss(rational, argument)


def spent(
    loss: Loss,
    unit: str = "household",
    per_person: int | None = 1,
    invariants: tuple[str, ...] = ("total",),
    **more: str,
) -> Specification:
    return Specification(
        Flavor("all files", invariants, unit, per_person, **{"output_premetric": loss.output_premetric} | more), loss
    )


def totals(*specifications: Specification) -> dict[tuple[str, str], tuple[Loss, int]]:
    return {(total.unit, total.output_premetric): (total.loss, total.releases) for total in compose(specifications)}


PURE = "multiplicative distance (pure DP)"


def test_without_releases_there_is_no_total() -> None:
    assert compose([]) == ()


def test_losses_for_one_unit_add_and_count_towards_its_persons() -> None:
    assert totals(spent(LOG(3)), spent(LOG(5))) == {
        ("household", PURE): (LOG(15), 2),
        ("person", PURE): (LOG(15), 2),
    }


def test_a_person_loses_once_for_each_unit_that_it_can_change_and_once_for_itself() -> None:
    assert totals(spent(LOG(3), per_person=2), spent(LOG(7), unit="person")) == {
        ("household", PURE): (LOG(3), 1),
        ("person", PURE): (LOG(63), 2),
    }


def test_a_person_total_does_not_count_towards_households() -> None:
    assert totals(spent(LOG(7), unit="person")) == {("person", PURE): (LOG(7), 1)}


def test_units_without_persons_and_other_units_have_separate_totals() -> None:
    assert totals(spent(LOG(3), unit="record", per_person=None), spent(LOG(5))) == {
        ("record", PURE): (LOG(3), 1),
        ("household", PURE): (LOG(5), 1),
        ("person", PURE): (LOG(5), 1),
    }


CONCENTRATED, APPROXIMATE = ConcentratedLoss.output_premetric, ApproximateLoss.output_premetric
RHO = ConcentratedLoss(Fraction(1, 2))
PAIR = ApproximateLoss(PureLoss(Fraction(1)), Fraction(1, 10**12))


def composed(*specifications: Specification) -> dict[tuple[str, str], Total]:
    return {(total.unit, total.output_premetric): total for total in compose(specifications)}


def test_each_total_includes_what_implies_it_and_lists_what_it_leaves_out() -> None:
    rows = composed(spent(PureLoss(Fraction(1)), "person"), spent(RHO, "person"), spent(PAIR, "person"))
    assert {key: (row.loss, row.releases) for key, row in rows.items() if key[1] != APPROXIMATE} == {
        ("person", PURE): (PureLoss(Fraction(1)), 1),
        ("person", CONCENTRATED): (ConcentratedLoss(Fraction(1)), 2),
    }
    every = rows["person", APPROXIMATE]
    assert every.loss == compose_approximate([PureLoss(Fraction(1)), RHO, PAIR], DELTA + PAIR.delta)
    assert (every.releases, every.left_out) == (3, ())
    assert rows["person", CONCENTRATED].left_out == (f"1 release: {NOT_CONCENTRATED}",)
    assert rows["person", PURE].left_out == tuple(f"1 release: {NOT_PURE[type(loss)]}" for loss in (PAIR, RHO))


def test_pure_releases_alone_have_only_a_pure_total() -> None:
    assert {row.output_premetric for row in compose([spent(LOG(3)), spent(LOG(5))])} == {PURE}


def test_a_household_guarantee_in_zcdp_counts_for_persons_with_the_square() -> None:
    rows = composed(spent(RHO, per_person=3))
    assert rows["household", CONCENTRATED].loss == RHO
    assert rows["person", CONCENTRATED].loss == ConcentratedLoss(Fraction(9, 2))


def test_a_guarantee_for_added_and_removed_units_counts_as_a_group_of_two() -> None:
    for loss, doubled in ((RHO, ConcentratedLoss(Fraction(2))), (LOG(3), LOG(9))):
        unbounded = spent(loss, "person", neighbors=UNBOUNDED)
        assert composed(unbounded)["person", loss.output_premetric].loss == doubled == unbounded.charge


def test_a_guarantee_that_does_not_cover_a_unit_is_left_out_of_its_total_with_the_reason() -> None:
    rows = composed(spent(LOG(3), "record", None), spent(LOG(5), "person"), spent(LOG(7)))
    assert rows["household", PURE].left_out == (
        "1 release: a guarantee for one person bounds no change of a household",
        "1 release: a guarantee for one record bounds no change of a household",
    )
    assert rows["person", PURE].left_out == ("1 release: a guarantee for one record bounds no change of a person",)


def test_a_charge_covers_one_person_and_one_unit() -> None:
    assert spent(LOG(3), per_person=2).charge == LOG(9)
    assert spent(RHO, "record", None).charge == RHO


@pytest.mark.parametrize("loss", [LOG(3), RHO, PAIR])
def test_a_specification_survives_json_whatever_its_loss(loss: Loss) -> None:
    specification = spent(loss)
    assert Specification.from_record(json.loads(json.dumps(specification.as_record()))) == specification


def test_a_specification_written_before_neighbors_were_stated_is_bounded() -> None:
    record = spent(LOG(3)).as_record()
    del record["flavor"]["neighbors"]
    assert Specification.from_record(record) == spent(LOG(3))


def test_a_loss_in_another_premetric_than_the_flavors_is_refused() -> None:
    with pytest.raises(ValueError, match="output premetric"):
        Specification(Flavor("all files", (), "person", 1, output_premetric=PURE), RHO)
    with pytest.raises(ValueError, match="neighbors"):
        Flavor("all files", (), "person", 1, neighbors="some")


def test_a_total_holds_within_exactly_the_invariants_involved() -> None:
    (total,) = compose([spent(LOG(2), "person", None, ("a", "b")), spent(LOG(2), "person", None, ("b", "c"))])
    assert total.multiverse == ("a", "b", "c")
    by_unit = {each.unit: each for each in compose([spent(LOG(2), "record", None, ("a",)), spent(LOG(2), "person")])}
    assert by_unit["record"].multiverse == ("a",)


def test_the_order_of_releases_does_not_change_a_total() -> None:
    releases = [spent(LOG(2)), spent(LOG(3), "person"), spent(PureLoss(Fraction(1, 3)), "record", None)]
    assert len({frozenset(totals(*order).items()) for order in permutations(releases)}) == 1


def test_a_contributor_loses_k_epsilon_and_k_squared_rho() -> None:
    """Bailie, Gong and Meng, Section 5.2: the products of 2020, ρ = 55.37, for a person whose record was duplicated
    once: ρ = 221.48, which is ε = 364.31 at δ = 1e-10. With kρ, it would be 110.74; and no charge may grow with k."""
    zcdp = ConcentratedLoss.output_premetric
    census = Specification(Flavor("files", (), "person", None, zcdp), ConcentratedLoss(Fraction("55.37")))
    twice = census.with_copies(2)
    assert twice.loss_for("contributor") == ConcentratedLoss(Fraction("221.48"))
    assert bun_steinke(ConcentratedLoss(Fraction("221.48")), DELTA, 2) == Decimal("364.31")
    assert (twice.charge, twice.as_record()) == (census.charge, census.as_record())
    households = Specification(Flavor("files", (), "household", 1), LOG(3)).with_copies(2)
    person, contributor = (
        [total.loss for total in compose([twice, households]) if total.unit == unit and total.output_premetric == zcdp]
        for unit in ("person", "contributor")
    )
    assert person == [census.loss + ConcentratedLoss.of_pure(LOG(3))]
    assert contributor == [ConcentratedLoss(Fraction("221.48")) + ConcentratedLoss.of_pure(LOG(9))]
    removed = Specification(Flavor("files", (), "person", None, neighbors=UNBOUNDED), LOG(3)).with_copies(3)
    assert removed.loss_for("contributor") == LOG(3**6)


def test_a_contributor_has_a_total_only_where_copies_are_declared_and_a_person_has_a_loss() -> None:
    records = Specification(Flavor("files", (), "person record", None), LOG(3))
    assert {total.unit for total in compose([records])} == {"person record"}
    assert "contributor: a change of one person can change" in str(
        explain_omission(records.with_copies(2), CONTRIBUTOR, LOG(2))
    )
    approximate = ApproximateLoss.output_premetric
    pair = Specification(Flavor("files", (), "person", None, approximate), ApproximateLoss(LOG(9), Fraction(1, 10)))
    assert pair.with_copies(2).loss_for(CONTRIBUTOR) is None
    assert "its δ grows to 1 or more" in str(explain_omission(pair.with_copies(2), CONTRIBUTOR, LOG(2)))
    assert {total.unit for total in compose([pair.with_copies(2)])} == {"person"}
