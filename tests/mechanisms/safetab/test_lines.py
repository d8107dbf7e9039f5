"""Lines by their names: every line has one, budgets and margins become a design's, and what is refused."""

from dataclasses import replace
from fractions import Fraction

import pytest

from mechanisms.design import DesignError
from mechanisms.noise import Noise
from mechanisms.safetab.design import SafeTabPDesign
from mechanisms.safetab.lines import budgets_of, by_family, by_pair, line_of, pair_of
from mechanisms.safetab.planning import margin_of_error
from mechanisms.safetab.production import MARGINS, PAIRS, production_h, production_p
from mechanisms.safetab.regions import RegionType

NINE = dict.fromkeys(PAIRS, 9)
TRACT = (RegionType.TRACT, 2)
STATES = ("01", "72")


def test_every_line_has_the_name_of_its_measurement() -> None:
    for each in production_p(STATES, NINE).measured:
        assert line_of((each.region_type, each.level)) == each.label
        assert pair_of("budgets", each.label) == ((each.region_type, each.level), "")
    for table in production_h(STATES, NINE).measured:
        assert line_of((table.region_type, table.level), table.family) == table.label
        assert pair_of("budgets", table.label) == ((table.region_type, table.level), table.family)


@pytest.mark.parametrize("line", ["TRACT", "TRACT 0", "TRACT 3", "TRACT 2 T5", "TRACT 2 ", "Tract 2", "- 2", "AREA 1"])
def test_a_name_of_no_line_is_refused(line: str) -> None:
    with pytest.raises(DesignError, match=r"^budgets: .* is no line such as TRACT 2"):
        pair_of("budgets", line)


def test_values_of_lines_are_those_of_pairs_or_of_families() -> None:
    assert by_pair("budgets", {"TRACT 2": 1, "PR-STATE 1": 2}) == {TRACT: 1, (RegionType.PR_STATE, 1): 2}
    assert by_family("budgets", {"TRACT 2 T4": 1}) == {"T3": {}, "T4": {TRACT: 1}}
    with pytest.raises(DesignError, match=r"^budgets: TRACT 2 T3: SafeTab-P has no tables T3"):
        by_pair("budgets", {"TRACT 2 T3": 1})
    with pytest.raises(DesignError, match=r"^budgets: TRACT 2: say which tables: TRACT 2 T3, or TRACT 2 T4"):
        by_family("budgets", {"TRACT 2": 1})


@pytest.mark.parametrize("noise", Noise)
def test_margins_become_the_budgets_that_meet_them(noise: Noise) -> None:
    share = Fraction(1, 10)
    found = budgets_of(noise, NINE, {"USA 1": Fraction(1)}, {"TRACT 2": Fraction(11)}, share)
    assert found["USA 1"] == 1
    margin = margin_of_error(noise, 9, found["TRACT 2"], share)
    assert margin == pytest.approx(11, rel=1e-4) if noise is Noise.GAUSSIAN else margin <= 11


def with_budgets(design: SafeTabPDesign, budgets: dict[str, Fraction], margins: dict[str, Fraction]) -> SafeTabPDesign:
    """The design with other budgets or margins of error for some lines."""
    found = budgets_of(design.noise, design.stabilities, budgets, margins, design.stage_1_share)
    return replace(design, budgets={**design.budgets, **by_pair("budgets", found)})


def test_productions_margins_change_production_only_in_the_last_decimals() -> None:
    design = production_p(STATES, NINE)
    margins = {each.label: Fraction(MARGINS[each.region_type, each.level]) for each in design.measured}
    for each, planned in zip(design.measured, with_budgets(design, {}, margins).measured, strict=True):
        assert abs(each.budget - planned.budget) <= Fraction(5, 10**4)
    households = production_h(STATES, NINE)
    margins = {f"{line} {family}": margin for line, margin in margins.items() for family in ("T3", "T4")}
    found = by_family("budgets", budgets_of(households.noise, NINE, {}, margins))
    assert replace(households, budgets=found).measured == households.measured


def test_lines_that_are_not_named_are_kept() -> None:
    design = production_p(STATES, NINE)
    planned = with_budgets(design, {"TRACT 2": Fraction(1), "USA 2": Fraction(0)}, {})
    budgets = {each.label: each.budget for each in design.measured} | {"TRACT 2": Fraction(1)}
    del budgets["USA 2"]
    assert {each.label: each.budget for each in planned.measured} == budgets


@pytest.mark.parametrize(
    ("budgets", "margins", "message"),
    [
        ({"TRACT 2": Fraction(1)}, {"TRACT 2": Fraction(9)}, "moe: TRACT 2: a line has a budget or a margin of error"),
        ({}, {"TRACT 2": Fraction(0)}, "moe: TRACT 2: a margin of error must be greater than 0"),
        ({}, {"TRACT 2": Fraction(10**6)}, "moe: TRACT 2: .*rounds to 0"),
        ({}, {"PR-TRACT 2": Fraction(9)}, "moe: PR-TRACT 2: there are no regions of this type"),
        ({"TRACT 2": Fraction(-1)}, {}, "budgets: TRACT 2: .*not negative"),
    ],
)
def test_budgets_that_cannot_be_carried_out_is_refused(
    budgets: dict[str, Fraction], margins: dict[str, Fraction], message: str
) -> None:
    of_states = {pair: 9 for pair in PAIRS if pair[0].run == "US"}
    with pytest.raises(DesignError, match=f"^{message}"):
        with_budgets(production_p(("01",), of_states), budgets, margins)
