"""A swapping design is either valid or rejected with the reason, and its specification states the guarantee."""

import json
from fractions import Fraction
from typing import Any

import pytest

from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.specification import Specification
from mechanisms.design import DesignError
from mechanisms.swapping.design import Case, Rates, SecondStir, SwappingDesign
from mechanisms.swapping.loss import StirLoss, theorem_1
from mechanisms.swapping.response import Response

PERSONS = ("sex", "age")


def design(**changes: Any) -> SwappingDesign:
    roles: dict[str, Any] = {
        "unit": "household",
        "match": ("state", "persons"),
        "swap": ("county",),
        "held": ("tenure",),
        "swap_rate": Rates.single(HALF),
        "persons": (),
        **changes,
    }
    return SwappingDesign(**roles)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"swap": ()}, "swap: at least one variable must be swapped"),
        ({"match": (), "held": ()}, "holding: at least one variable must be held"),
        ({"swap": ("county", "persons")}, "swap: persons cannot be a swap variable and a match variable"),
        ({"held": ("tenure", "county")}, "county: a variable has one role"),
        ({"held": ("tenure", "state")}, "state: a variable has one role"),
        ({"match": ("state", "state")}, "state: a variable has one role"),
        ({"swap": ("tract", "county", "tract")}, "tract: a variable has one role"),
        ({"swap_rate": Rates.single(Fraction(0))}, "swap_rate: .*strictly between 0 and 1"),
        ({"swap_rate": Rates.single(Fraction(1))}, "swap_rate: .*strictly between 0 and 1"),
        ({"swap_rate": Rates.single(Fraction(6, 5))}, "swap_rate: .*not 6/5"),
        ({"swap_rate": Rates.single(Fraction(-1, 5))}, "swap_rate: .*not -1/5"),
    ],
)
def test_a_design_that_cannot_be_carried_out_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DesignError, match=complaint):
        design(**changes)


def cases(*names: str, at_most: int | None = None) -> Rates:
    """Rates by the values of some variables."""
    return Rates((Case(tuple((name, ("a",)) for name in names), at_most, HALF), Case((), None, Fraction(1, 3))))


HALF = Fraction(1, 2)
NOISE = (Response("tenure", Fraction(9, 10), 2),)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"swap_rate": cases("county")}, "may not depend on county, which is swapped: .* not known to be bounded"),
        ({"swap_rate": Rates((Case((), 3, HALF),), ("county",))}, "may not depend on county, which is swapped"),
        ({"swap_rate": cases("income")}, "match and holding variables only, and income is neither"),
        ({"swap_rate": cases("age"), "persons": PERSONS}, "match and holding variables only, and age is neither"),
        ({"swap_rate": Rates((Case((), None, Fraction(0)),))}, "swap_rate: .*strictly between 0 and 1"),
        ({"exempt": (("tenure", ("own",)),)}, "exempt: tenure is not a match variable"),
        ({"second_stir": SecondStir(("state", "persons"), HALF)}, "second_stir: match: it must leave out"),
        ({"second_stir": SecondStir(("tenure",), HALF)}, "second_stir: match: tenure is not a match variable"),
        ({"second_stir": SecondStir(("state",), Fraction(1))}, "second_stir: swap_rate: .*strictly between 0 and 1"),
        (
            {"second_stir": SecondStir(("state",), HALF), "exempt": (("persons", (1,)),)},
            "exempt: persons is not a match variable of the second stir",
        ),
        ({"noise": (Response("county", HALF, 2), *NOISE)}, "noise_before: county is not a holding variable"),
        ({"noise": (Response("state", HALF, 2), *NOISE)}, "noise_before: state is not a holding variable"),
        ({"noise": NOISE, "held": ("tenure", "race")}, "noise_before: race would stay exact"),
        ({"noise": NOISE, "persons": PERSONS}, "noise_before: age, sex would stay exact"),
        ({"noise": NOISE, "second_stir": SecondStir((), HALF)}, "noise_before: no loss is known together with second"),
        ({"noise": NOISE, "exempt": (("state", ("A",)),)}, "noise_before: no loss is known together with exempt"),
        ({"noise": NOISE, "swap_rate": cases("tenure")}, "noise_before: swap rates may differ between strata only"),
        ({"noise": NOISE, "swap_rate": cases("state", at_most=2)}, "noise_before: swap rates may differ between str"),
    ],
)
def test_an_extension_without_a_known_loss_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DesignError, match=complaint):
        design(**changes)


def test_a_plain_design_names_its_draws_as_before_there_were_extensions() -> None:
    assert design(persons=PERSONS).as_record() == {
        "unit": "household",
        "persons": ["age", "sex"],
        "match": ["persons", "state"],
        "swap": ["county"],
        "held": ["tenure"],
        "swap_rate": "1/2",
    }


def test_designs_with_other_draws_have_other_records() -> None:
    every = [
        design(),
        design(swap_rate=Rates((Case((), None, HALF),))),
        design(swap_rate=cases("state")),
        design(swap_rate=cases("tenure")),
        design(swap_rate=cases("state", at_most=3)),
        design(swap_rate=Rates(cases("state", at_most=3).cases, ("tenure",))),
        design(swap_rate=Rates(epsilon=Fraction(3))),
        design(exempt=(("state", ("A",)),)),
        design(exempt=(("state", ("A", "B")),)),
        design(second_stir=SecondStir(("state",), HALF)),
        design(second_stir=SecondStir((), HALF)),
        design(second_stir=SecondStir(("state",), Fraction(1, 3))),
        design(noise=NOISE),
        design(noise=(Response("tenure", Fraction(8, 10), 2),)),
    ]
    assert len({json.dumps(each.as_record(), sort_keys=True) for each in every}) == len(every)
    assert [each.plain_rate for each in every] == [HALF, *[None] * (len(every) - 1)]


def test_a_second_stir_counts_swap_values_by_its_own_match_variables() -> None:
    two = design(second_stir=SecondStir(("state",), Fraction(1, 3)))
    assert two.invariants == (
        "the number of households by state × persons × tenure",
        "the number of households by state × county",
    )
    assert two.finer_invariant == "the number of households by persons × state × county"
    first, second = loss(7, HALF), loss(900, Fraction(1, 3))
    found = two.losses(first, second)
    assert (found.charged, found.finer) == (second.loss, first.loss), "the coarse universes pay for the second stir"
    assert two.losses(second, first).finer == first.loss, "the smaller of both"


def test_noise_leaves_the_swap_margin_alone_invariant_and_is_charged() -> None:
    noisy = design(noise=NOISE)
    assert noisy.invariants == ("the number of households by persons × state × county",)
    assert noisy.finer_invariant == "the number of households by persons × state × tenure"
    found = noisy.losses(loss(2, HALF), None)
    assert found.charged == PureLoss.logarithm(9)
    assert found.finer == theorem_1(2, HALF)
    assert noisy.losses(loss(10**6, HALF), None).finer == PureLoss.logarithm(9)
    assert noisy.specification("town", found.charged).loss == PureLoss.logarithm(9)


def test_the_specification_says_that_exempt_records_are_not_protected() -> None:
    flavor = design(exempt=(("state", ("A",)),)).specification("town", PureLoss.logarithm(3)).flavor
    assert "households with state = A are not protected" in flavor.domain
    assert "infinitely far apart" in flavor.domain
    assert flavor.multiverse[2] == "every household with state = A, with all its values"


def test_the_loss_of_an_extended_swap_is_not_taken_from_b_alone() -> None:
    with pytest.raises(ValueError, match="does not follow from b alone"):
        design(noise=NOISE).specification("town", 5)


def loss(size: int, rate: Fraction) -> StirLoss:
    return StirLoss(1, size, 0, rate, rate, theorem_1(size, rate))


@pytest.mark.parametrize("changes", [{"match": ()}, {"held": ()}, {"swap": ("county", "tract")}])
def test_a_design_may_have_no_swap_key_or_hold_only_the_swap_key(changes: dict[str, Any]) -> None:
    assert design(**changes)


def test_the_invariants_are_the_two_margins_in_words() -> None:
    assert design().invariants == (
        "the number of households by persons × state × tenure",
        "the number of households by persons × state × county",
    )


def test_without_a_swap_key_the_margins_are_those_of_the_whole_file() -> None:
    assert design(match=()).invariants == ("the number of households by tenure", "the number of households by county")


def test_persons_who_follow_their_unit_are_held_with_it() -> None:
    held, moved = design(persons=PERSONS).invariants
    assert held == "the number of households by persons × state × tenure × the household's persons, each with age × sex"
    assert "age" not in moved


@pytest.mark.parametrize(
    ("unit", "persons", "changes"),
    [
        ("household", PERSONS, 1),
        ("household", (), 1),
        ("dwelling", PERSONS, 1),
        ("dwelling", (), 1),
        ("person", (), None),
        ("person record", (), None),
    ],
)
def test_a_persons_change_counts_as_one_unit_where_persons_belong_to_one(
    unit: str, persons: tuple[str, ...], changes: int | None
) -> None:
    flavor = design(unit=unit, persons=persons).specification("ma1940", 10).flavor
    assert (flavor.unit, flavor.changes_per_person) == (unit, changes)


def test_the_specification_states_all_five_building_blocks() -> None:
    specification = design(persons=PERSONS).specification("ma1940", 264_331)
    assert "ma1940" in specification.flavor.domain
    for variable in ("state", "persons", "county", "tenure"):
        assert variable in specification.flavor.domain
    assert "persons in it" in specification.flavor.domain
    assert "persons in it" not in design().specification("ma1940", 10).flavor.domain
    assert specification.flavor.multiverse == design(persons=PERSONS).invariants
    assert specification.flavor.unit == "household"
    assert specification.flavor.output_premetric == "multiplicative distance (pure DP)"
    assert specification.loss == theorem_1(264_331, Fraction(1, 2))


def test_a_file_whose_records_are_equal_within_every_stratum_loses_nothing() -> None:
    assert float(design().specification("ma1940", 0).loss) == 0


def test_a_specification_survives_json_without_rounding() -> None:
    specification = design(swap_rate=Rates.single(Fraction(1, 3))).specification("ma1940", 264_331)
    assert Specification.from_record(json.loads(json.dumps(specification.as_record()))) == specification
