"""The losses of parts of a record match all figures of the 2020 Census's certificate, to both decimals."""

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from operator import add
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.composition import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.topdown.allocation import Allocation, AllocationError

PUBLISHED = json.loads(((Path(__file__).parents[2] / "data") / "pl94_us_persons_production.json").read_text())
CERTIFICATE = PUBLISHED["certificate"]
DELTA = Fraction(PUBLISHED["delta"])
ATTRIBUTES = frozenset({"hhgq", "votingage", "hispanic", "cenrace"})


def attributes_of(query: str) -> frozenset[str]:
    """The attributes of a query of the production run; `hhinstlevels` is a recode of `hhgq`."""
    named = {"total": frozenset[str](), "detailed": ATTRIBUTES, "hhinstlevels": frozenset({"hhgq"})}
    return named[query] if query in named else frozenset(query.split(" * "))


def shares(texts: dict[str, str]) -> dict[str, Fraction]:
    return {name: Fraction(text) for name, text in texts.items()}


def production() -> Allocation:
    queries = {level: shares(texts) for level, texts in PUBLISHED["queries"].items()}
    return Allocation(
        loss=ConcentratedLoss(Fraction(PUBLISHED["rho"])),
        levels=shares(PUBLISHED["geolevels"]),
        queries=queries,
        involved={query: attributes_of(query) for asked in queries.values() for query in asked},
    )


def stated(loss: ConcentratedLoss) -> Decimal:
    """A loss as certificates print it, to the nearest hundredth. Stirred itself rounds up."""
    return round(canonne_kamath_steinke(loss, DELTA), 2)


def test_the_whole_loss_is_that_of_the_certificate() -> None:
    loss = production().loss
    assert loss.rho == Fraction(293764, 114921)
    assert stated(loss) == Decimal(str(CERTIFICATE["zcdp_implied_epsilon"]))
    assert round(bun_steinke(loss, DELTA), 2) == Decimal(str(CERTIFICATE["bun_steinke_epsilon"]))


@pytest.mark.parametrize(("attribute", "epsilon"), CERTIFICATE["per_attribute_epsilon"].items())
def test_the_loss_of_an_attribute_is_that_of_the_certificate(attribute: str, epsilon: float) -> None:
    assert stated(production().of_attribute(attribute)) == Decimal(str(epsilon))


@pytest.mark.parametrize(("move", "epsilon"), CERTIFICATE["per_geography_epsilon"].items())
def test_the_loss_of_a_move_between_blocks_is_that_of_the_certificate(move: str, epsilon: float) -> None:
    assert stated(production().of_move_within(move.removeprefix("Block-within-"))) == Decimal(str(epsilon))


def test_the_certificate_states_eleven_figures() -> None:
    """Two for the whole, four for attributes and five for moves. Each is in a test above."""
    assert set(CERTIFICATE["per_attribute_epsilon"]) == ATTRIBUTES
    assert list(CERTIFICATE["per_geography_epsilon"]) == [
        f"Block-within-{level}" for level in ("Block_Group", "Tract", "County", "State", "US")
    ]


def test_the_shares_of_the_production_run_add_up_to_1() -> None:
    """`Allocation` refuses anything else. This test computes the sums independently."""
    assert sum(shares(PUBLISHED["geolevels"]).values()) == 1
    for texts in PUBLISHED["queries"].values():
        assert sum(shares(texts).values()) == 1


def test_the_parts_add_up_to_the_whole_by_level_and_by_query() -> None:
    allocation = production()
    by_level = reduce(add, map(allocation.of_level, allocation.levels))
    by_query = reduce(add, map(allocation.of_query, allocation.involved))
    assert by_level == by_query == allocation.loss
    assert allocation.of_move_within("US") + allocation.of_level("US") == allocation.loss


def test_without_a_recode_or_a_detailed_query_the_figure_differs_from_the_certificate() -> None:
    allocation = production()
    for forgotten in ("hhinstlevels", "detailed"):
        involved = {**allocation.involved, forgotten: frozenset[str]()}
        assert stated(replace(allocation, involved=involved).of_attribute("hhgq")) != Decimal("7.24")


def test_a_level_without_a_query_spends_nothing_on_it() -> None:
    assert production().part("US", "total") == ConcentratedLoss()


@st.composite
def allocations(draw: st.DrawFn) -> Allocation:
    def whole(names: list[str]) -> dict[str, Fraction]:
        parts = draw(st.lists(st.integers(1, 9), min_size=len(names), max_size=len(names)))
        return {name: Fraction(part, sum(parts)) for name, part in zip(names, parts, strict=True)}

    levels = [f"level {number}" for number in range(draw(st.integers(1, 4)))]
    involved = {
        f"query {number}": draw(st.frozensets(st.sampled_from("abc"))) for number in range(draw(st.integers(1, 4)))
    } | {"every": frozenset("abc")}
    rho = draw(st.fractions(0, 20, max_denominator=1000))
    queries = {level: whole(list(involved)) for level in levels}
    return Allocation(ConcentratedLoss(rho), whole(levels), queries, involved)


@given(allocations())
def test_no_part_loses_more_than_the_whole_and_a_wider_move_loses_no_less(allocation: Allocation) -> None:
    for attribute in "abc":
        assert allocation.of_attribute(attribute) <= allocation.loss
    moves = [allocation.of_move_within(level) for level in allocation.levels]
    assert moves[-1] == ConcentratedLoss()
    assert all(wider <= allocation.loss for wider in moves)
    assert all(finer <= wider for wider, finer in pairwise(moves))


@given(allocations())
def test_an_attribute_loses_the_sum_over_every_level_and_query_that_involves_it(allocation: Allocation) -> None:
    for attribute in "abc":
        expected = sum(
            allocation.loss.rho * share * asked[query]
            for level, share in allocation.levels.items()
            for query, asked in ((query, allocation.queries[level]) for query in allocation.queries[level])
            if attribute in allocation.involved[query]
        )
        assert allocation.of_attribute(attribute).rho == expected


HALF = Fraction(1, 2)
SOUND = {
    "loss": ConcentratedLoss(Fraction(1)),
    "levels": {"state": HALF, "block": HALF},
    "queries": {"state": {"total": HALF, "sex": HALF}, "block": {"sex": Fraction(1)}},
    "involved": {"total": frozenset[str](), "sex": frozenset({"sex"})},
}


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("levels", {"state": HALF, "block": Fraction(1, 3)}, "levels: the shares add up to 5/6, not to 1"),
        ("levels", {"state": HALF, "tract": HALF}, "2 levels have shares in one map only: .*block.*tract"),
        ("levels", {"state": Fraction(3, 2), "block": -HALF}, "levels: 1 shares are negative: .*block"),
        (
            "queries",
            {"state": {"total": HALF}, "block": {"sex": Fraction(1)}},
            "queries of state: the shares add up to 1/2",
        ),
        ("involved", {"sex": frozenset({"sex"})}, "involved: 1 queries of state are missing: .*total"),
    ],
)
def test_a_budget_with_inconsistent_shares_is_refused(field: str, value: object, complaint: str) -> None:
    with pytest.raises(AllocationError, match=complaint):
        Allocation(**SOUND | {field: value})


def test_an_unknown_attribute_or_level_is_refused() -> None:
    allocation = Allocation(**SOUND)
    with pytest.raises(AllocationError, match="no query involves the attribute age"):
        allocation.of_attribute("age")
    with pytest.raises(AllocationError, match="there is no level county; the levels are state, block"):
        allocation.of_move_within("county")
