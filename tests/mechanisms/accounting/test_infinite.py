"""An infinite loss is in no finite total, under no limit, and every total that counts it is infinite."""

import json
from fractions import Fraction

import pytest

from mechanisms.accounting.composition import (
    NOT_FINITE,
    DoesNotCompose,
    compose_like,
    drop_infinite,
    fits,
    warn_of_infinite,
)
from mechanisms.accounting.losses import (
    ApproximateLoss,
    ConcentratedLoss,
    InfiniteLoss,
    Loss,
    PureLoss,
    format_loss,
    format_number,
)
from mechanisms.accounting.specification import UNBOUNDED, Flavor, Specification, compose

LIMITS: list[Loss] = [
    PureLoss(Fraction(10**9)),
    ConcentratedLoss(Fraction(10**9)),
    ApproximateLoss(PureLoss(Fraction(10**9)), Fraction(1, 2)),
]


def specified(loss: Loss, *invariants: str, unit: str = "household", persons: int | None = 1) -> Specification:
    return Specification(Flavor("all files", invariants, unit, persons, loss.output_premetric), loss)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("others", [[], [PureLoss(Fraction(1))], [PureLoss(Fraction(1, 8))] * 40])
def test_no_total_under_a_limit_counts_an_infinite_loss_silently(limit: Loss, others: list[Loss]) -> None:
    """A composition that skips unknown losses would give the total of the others."""
    for losses in ([InfiniteLoss(), *others], [*others, InfiniteLoss()]):
        with pytest.raises(DoesNotCompose, match=r"ε = ∞"):
            compose_like(limit, losses)
        assert drop_infinite(losses) == others
    with pytest.raises(DoesNotCompose):
        fits(InfiniteLoss(), limit)


def test_a_total_that_counts_an_infinite_loss_is_infinite() -> None:
    assert compose_like(InfiniteLoss(), [PureLoss(), *LIMITS, InfiniteLoss()]) == InfiniteLoss()
    with pytest.raises(DoesNotCompose):
        fits(PureLoss(), InfiniteLoss())


def test_an_infinite_release_stands_beside_the_finite_totals() -> None:
    """Each finite total leaves it out and says so; one total of ∞ counts every release, on all invariants."""
    pure, rho = specified(PureLoss(Fraction(3)), "a"), specified(ConcentratedLoss(Fraction(1)), "b")
    only_finite = compose([pure, rho])
    totals = compose([pure, specified(InfiniteLoss(), "c"), rho])
    infinite = [total for total in totals if total.loss == InfiniteLoss()]
    assert {(total.unit, total.releases, total.multiverse, total.left_out) for total in infinite} == {
        (unit, 3, ("a", "c", "b"), ()) for unit in ("household", "person")
    }
    rest = [total for total in totals if total.loss != InfiniteLoss()]
    assert [(total.unit, total.loss, total.releases, total.multiverse) for total in rest] == [
        (total.unit, total.loss, total.releases, total.multiverse) for total in only_finite
    ]
    assert all(f"1 release: {NOT_FINITE}" in total.left_out for total in rest)
    (alone, person) = compose([specified(InfiniteLoss())])
    assert (alone.unit, person.unit, alone.loss, person.loss) == ("household", "person", InfiniteLoss(), InfiniteLoss())


@pytest.mark.parametrize("neighbors", ["bounded", UNBOUNDED])
def test_groups_and_records_keep_it(neighbors: str) -> None:
    flavor = Flavor("all files", (), "household", 3, InfiniteLoss.output_premetric, neighbors)
    specification = Specification(flavor, InfiniteLoss())
    assert specification.charge == specification.loss_for("person") == InfiniteLoss()
    record = json.loads(json.dumps(specification.as_record()))
    assert Specification.from_record(record) == specification
    assert specification.protects_like(Specification.from_record(record))
    assert not specification.protects_like(Specification(Flavor("all files", (), "household", 3), PureLoss()))
    for other in ({"rational": "5", "ln": "1"}, {"epsilon": "5"}, {}):
        with pytest.raises(ValueError, match="infinite"):
            InfiniteLoss.from_record(other)


def test_it_is_written_as_a_sign_and_never_as_a_word_or_a_number() -> None:
    assert (format_loss(InfiniteLoss()), format_number(InfiniteLoss(), 6), str(InfiniteLoss())) == ("ε = ∞", "∞", "∞")
    assert format_number(PureLoss(Fraction(1, 3))) == "0.3334"
    assert warn_of_infinite(0) == ""
    assert "one charge has no finite loss" in warn_of_infinite(1)
    assert "2 charges have no finite loss" in warn_of_infinite(2)
