"""A swapping design is either valid or rejected with the reason, and its specification states the guarantee."""

import json
from fractions import Fraction
from typing import Any

import pytest

from mechanisms.accounting.specification import Specification
from mechanisms.swapping.design import DesignError, SwappingDesign
from mechanisms.swapping.loss import theorem_1

PERSONS = ("sex", "age")


def design(**changes: Any) -> SwappingDesign:
    roles: dict[str, Any] = {
        "unit": "household",
        "match": ("state", "persons"),
        "swap": ("county",),
        "held": ("tenure",),
        "swap_rate": Fraction(1, 2),
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
        ({"swap_rate": Fraction(0)}, "swap_rate: .*strictly between 0 and 1"),
        ({"swap_rate": Fraction(1)}, "swap_rate: .*strictly between 0 and 1"),
        ({"swap_rate": Fraction(6, 5)}, "swap_rate: .*not 6/5"),
        ({"swap_rate": Fraction(-1, 5)}, "swap_rate: .*not -1/5"),
    ],
)
def test_a_design_that_cannot_be_carried_out_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DesignError, match=complaint):
        design(**changes)


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
    specification = design(swap_rate=Fraction(1, 3)).specification("ma1940", 264_331)
    assert Specification.from_record(json.loads(json.dumps(specification.as_record()))) == specification
