"""Lines by their names: every line has one, budgets and margins become a design's, and the refusals."""

from dataclasses import replace
from fractions import Fraction

import pytest

from mechanisms.design import DesignError
from mechanisms.noise import Noise
from mechanisms.safetab.design import Key, SafeTabPDesign
from mechanisms.safetab.lists import RegionType
from mechanisms.safetab.planning import MARGINS, PAIRS, complete_budgets, read_lines
from tests.mechanisms.safetab.designs import margin_of_error, production_h, production_p

NINE = dict.fromkeys(PAIRS, 9)
TRACT = (RegionType.TRACT, 2)
STATES = ("01", "72")


def test_every_line_has_the_name_of_its_measurement() -> None:
    for line in production_p(STATES, NINE).measured:
        assert read_lines("budgets", {line.label: 1}, with_tables=False) == {(line.region_type, line.level): 1}
    for table in production_h(STATES, NINE).measured:
        key = (table.region_type, table.level, table.family)
        assert read_lines("budgets", {table.label: 1}, with_tables=True) == {key: 1}


@pytest.mark.parametrize("line", ["TRACT", "TRACT 0", "TRACT 3", "TRACT 2 T5", "TRACT 2 ", "Tract 2", "- 2", "AREA 1"])
def test_a_name_of_no_line_is_refused(line: str) -> None:
    with pytest.raises(DesignError, match=r"^budgets: .* is not a line such as TRACT 2"):
        read_lines("budgets", {line: 1}, with_tables=False)


def test_lines_name_a_family_of_tables_if_and_only_if_they_are_of_households() -> None:
    found = read_lines("budgets", {"TRACT 2": 1, "PR-STATE 1": 2}, with_tables=False)
    assert found == {TRACT: 1, (RegionType.PR_STATE, 1): 2}
    assert read_lines("budgets", {"TRACT 2 T4": 1}, with_tables=True) == {(*TRACT, "T4"): 1}
    with pytest.raises(DesignError, match=r"^budgets: TRACT 2 T3: SafeTab-P has no tables T3"):
        read_lines("budgets", {"TRACT 2 T3": 1}, with_tables=False)
    with pytest.raises(DesignError, match=r"^budgets: TRACT 2: say which tables: TRACT 2 T3, or TRACT 2 T4"):
        read_lines("budgets", {"TRACT 2": 1}, with_tables=True)


@pytest.mark.parametrize("noise", Noise)
def test_margins_become_the_budgets_that_meet_them(noise: Noise) -> None:
    share = Fraction(1, 10)
    nation = (RegionType.USA, 1)
    found = complete_budgets(noise, NINE, {nation: Fraction(1)}, {TRACT: Fraction(11)}, share)
    assert found[nation] == 1
    margin = margin_of_error(noise, 9, found[TRACT], share)
    assert margin == pytest.approx(11, rel=1e-4) if noise is Noise.GAUSSIAN else margin <= 11


def with_budgets(design: SafeTabPDesign, budgets: dict[Key, Fraction], margins: dict[Key, Fraction]) -> SafeTabPDesign:
    """The design with other budgets or margins of error for some lines."""
    found = complete_budgets(design.noise, design.stabilities, budgets, margins, design.stage_1_share)
    return replace(design, budgets={**design.budgets, **found})


def test_productions_margins_change_production_only_in_the_last_decimals() -> None:
    design = production_p(STATES, NINE)
    margins: dict[Key, Fraction] = {line.key: Fraction(MARGINS[line.key[:2]]) for line in design.measured}
    for each, planned in zip(design.measured, with_budgets(design, {}, margins).measured, strict=True):
        assert abs(each.budget - planned.budget) <= Fraction(5, 10**4)
    households = production_h(STATES, NINE)
    margins = {line.key: Fraction(MARGINS[line.key[:2]]) for line in households.measured}
    found = complete_budgets(households.noise, NINE, {}, margins)
    assert replace(households, budgets=found).measured == households.measured


def test_lines_that_are_not_named_are_kept() -> None:
    design = production_p(STATES, NINE)
    planned = with_budgets(design, {TRACT: Fraction(1), (RegionType.USA, 2): Fraction(0)}, {})
    budgets = {each.label: each.budget for each in design.measured} | {"TRACT 2": Fraction(1)}
    del budgets["USA 2"]
    assert {each.label: each.budget for each in planned.measured} == budgets


@pytest.mark.parametrize(
    ("budgets", "margins", "message"),
    [
        ({TRACT: Fraction(1)}, {TRACT: Fraction(9)}, "moe: TRACT 2: a line has a budget or a margin of error"),
        ({}, {TRACT: Fraction(0)}, "moe: TRACT 2: a margin of error must be greater than 0"),
        ({}, {TRACT: Fraction(10**6)}, "moe: TRACT 2: .*rounds to 0"),
        ({}, {(RegionType.PR_TRACT, 2): Fraction(9)}, "moe: PR-TRACT 2: there are no regions of this type"),
        ({TRACT: Fraction(-1)}, {}, "budgets: TRACT 2: .*not negative"),
    ],
)
def test_budgets_that_cannot_be_carried_out_is_refused(
    budgets: dict[Key, Fraction], margins: dict[Key, Fraction], message: str
) -> None:
    of_states = {pair: 9 for pair in PAIRS if pair[0].run == "US"}
    with pytest.raises(DesignError, match=f"^{message}"):
        with_budgets(production_p(("01",), of_states), budgets, margins)
