"""SafeTab designs: every figure of production, the guarantee line by line, both runs together, and the refusals."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.safetab.lists import read_lists
from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.accounting.specification import Specification
from mechanisms.design import DesignError
from mechanisms.noise import Noise
from mechanisms.safetab.design import Key, Measured, Pair, SafeTabHDesign, SafeTabPDesign
from mechanisms.safetab.lists import RegionType
from mechanisms.safetab.planning import (
    BUDGETS_H,
    BUDGETS_P,
    PAIRS,
    THRESHOLDS_H,
    THRESHOLDS_P,
)
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.states import PUERTO_RICO, STATES
from tests.mechanisms.safetab.designs import PUBLISHED_BOUNDED_H, PUBLISHED_BOUNDED_P, production_h, production_p

STATES_AND_DC = tuple(code for code in STATES if code != PUERTO_RICO)
BOTH = (*STATES_AND_DC, PUERTO_RICO)
RUNS = {"US": STATES_AND_DC, "PR": (PUERTO_RICO,), "both": BOTH}
NINE = dict.fromkeys(PAIRS, 9)
PAIR = (RegionType.COUNTY, 2)
DATA = Path(__file__).parents[2] / "data"


def design_p(**changes: Any) -> SafeTabPDesign:
    """A small design of SafeTab-P with some changes."""
    declared: dict[str, Any] = {
        "states": ("01",),
        "noise": Noise.GAUSSIAN,
        "stabilities": NINE,
        "budgets": {PAIR: Fraction(1)},
        "thresholds": {PAIR: (1, 2, 3)},
    }
    return SafeTabPDesign(**(declared | changes))


def design_h(**changes: Any) -> SafeTabHDesign:
    """A small design of SafeTab-H with some changes."""
    declared: dict[str, Any] = {
        "states": ("01",),
        "noise": Noise.GAUSSIAN,
        "stabilities": NINE,
        "budgets": {(*PAIR, "T3"): Fraction(1)},
        "thresholds": {(*PAIR, "T3"): (1, 2, 3), (*PAIR, "T4"): (1,)},
    }
    return SafeTabHDesign(**(declared | changes))


@lru_cache
def configuration(name: str) -> Mapping[str, Any]:
    """A configuration of the 2020 Census, as the Census Bureau published it with the code."""
    found: dict[str, Any] = json.loads((DATA / name).read_text("utf-8"))
    return found


def published(kind: str, prefix: str = "") -> dict[Pair, Any]:
    """The values of a configuration by region type and level."""
    if kind.startswith("thresholds"):
        values = configuration(f"safetab_{kind[11]}_config.json")[kind]
        return {pair: tuple(values[f"({pair[0]}, {pair[1]})"]) for pair in PAIRS}
    values = configuration(f"safetab_{kind}_config.json")
    names = {pair: f"{prefix}_level_{pair[1]}_{pair[0].lower().replace('-', '_')}" for pair in PAIRS}
    return {pair: Fraction(str(values[name])) for pair, name in names.items() if name in values}


def of_family(values: Mapping[Key, Any], family: str) -> dict[Pair, Any]:
    """The values of SafeTab-H's lines for one family of tables."""
    return {key[:2]: value for key, value in values.items() if key[-1] == family}


def test_the_budgets_are_those_of_the_published_configurations() -> None:
    assert len(published("p", "privacy_budget_p")) == 20
    assert published("p", "privacy_budget_p") == BUDGETS_P
    for family in ("T3", "T4"):
        assert published("h", f"privacy_budget_h_{family.lower()}") == of_family(BUDGETS_H, family)


def test_the_thresholds_are_those_of_the_published_configurations() -> None:
    assert published("thresholds_p") == THRESHOLDS_P
    for family in ("T3", "T4"):
        assert published(f"thresholds_h_{family.lower()}") == of_family(THRESHOLDS_H, family)


def test_the_other_parameters_are_those_of_the_published_configurations() -> None:
    values, design = configuration("safetab_p_config.json"), production_p(BOTH, NINE)
    assert design.stage_1_share == Fraction(str(values["privacy_budget_p_stage_1_fraction"]))
    assert design.zero_suppression_chance == Fraction(str(values["zero_suppression_chance"]))
    for name in ("safetab_p_config.json", "safetab_h_config.json"):
        values = configuration(name)
        assert set(values["state_filter_us"]) == set(STATES_AND_DC)
        assert (values["max_race_codes"], values["allow_negative_counts"]) == (8, True)
        assert values["privacy_defn"] == "zcdp"
    for each in (design, production_h(BOTH, NINE)):
        assert (each.max_race_codes, each.negative_counts, each.noise) == (8, True, Noise.GAUSSIAN)


@pytest.mark.parametrize(
    ("run", "p", "h"), [("US", "4.944", "8.895302"), ("PR", "2.643", "4.754134"), ("both", "4.944", "8.895302")]
)
def test_production_loses_the_published_totals(run: str, p: str, h: str) -> None:
    for design, total in ((production_p(RUNS[run], NINE), p), (production_h(RUNS[run], NINE), h)):
        assert design.unbounded == ConcentratedLoss(Fraction(total))
        assert design.bounded == ConcentratedLoss(2 * Fraction(total))
        stated = design.specification("census")
        assert stated.loss == design.bounded
        assert Specification.from_record(stated.as_record()) == stated
        assert stated.lines


def test_the_published_bounded_losses_are_four_and_two_times_the_unbounded_ones() -> None:
    assert 4 * Fraction("4.944") == PUBLISHED_BOUNDED_P == Fraction("19.776")
    assert 2 * Fraction("8.895302") == PUBLISHED_BOUNDED_H == Fraction("17.790604")
    p, h = production_p(BOTH, NINE), production_h(BOTH, NINE)
    assert p.bounded == ConcentratedLoss(Fraction("9.888"))
    assert h.bounded == ConcentratedLoss(PUBLISHED_BOUNDED_H)


def test_a_move_between_the_runs_costs_less_than_is_charged() -> None:
    move = Fraction("4.944") + Fraction("2.643")
    assert move == Fraction("7.587")
    assert ConcentratedLoss(move) <= production_p(BOTH, NINE).bounded


def test_the_sums_by_run_and_level_are_the_published_ones() -> None:
    def total(budgets: Mapping[Key, Fraction], run: str, level: int) -> Fraction:
        return sum(budget for pair, budget in budgets.items() if pair[0].run == run and pair[1] == level)

    assert [total(BUDGETS_P, *key) for key in (("US", 1), ("US", 2), ("PR", 1), ("PR", 2))] == [
        *(Fraction("0.040"), Fraction("4.904"), Fraction("0.032"), Fraction("2.611")),
    ]
    assert [total(of_family(BUDGETS_H, "T3"), *key) for key in (("US", 1), ("US", 2), ("PR", 1), ("PR", 2))] == [
        *(Fraction("0.034575"), Fraction("4.413076"), Fraction("0.02766"), Fraction("2.349407")),
    ]


FIGURES = {
    Fraction("2.134"): (2.10872, 21.0872, 2.34302, None),
    Fraction("0.159"): (28.3019, 283.019, 31.4465, 21),
    Fraction("0.008"): (562.5, 5625, 625, 93),
}
"""By ρ: σ² of totals only, of stage 1 and of stage 2, and the cut-off c (SafeTab-P's specification)."""


def test_variances_and_cut_offs_of_production_are_the_published_ones() -> None:
    lists = read_lists()
    stabilities = {pair: lists.stability(*pair, max_race_codes=8) for pair in PAIRS}
    design = production_p(BOTH, stabilities)
    assert len(design.measured) == 19
    for each in design.measured:
        expected = FIGURES[each.budget]
        noises = (each.total_only, each.stage_1, each.stage_2)
        for noise, variance in zip(noises, expected, strict=False):
            assert isinstance(noise, DiscreteGaussian)
            assert float(noise.variance) == pytest.approx(variance, rel=3e-6)
        assert each.cut_off == (None if each.region_type.detailed else expected[3])
    for table in production_h(BOTH, stabilities).measured:
        expected_variance = {"1.9208": 2.342774, "0.142869": 31.497386, "0.006915": 650.759219}
        assert isinstance(table.noise, DiscreteGaussian)
        assert float(table.noise.variance) == pytest.approx(expected_variance[str(float(table.budget))], abs=1e-6)


@pytest.mark.parametrize(("variance", "cut_off", "beyond"), [("31.446540880503143", 21, 6.2e-5), ("625", 93, 9.2e-5)])
def test_noise_exceeds_the_cut_offs_as_seldom_as_stated(variance: str, cut_off: int, beyond: float) -> None:
    noise = DiscreteGaussian(Fraction(variance))
    above = float(noise.probabilities(np.arange(cut_off + 1, cut_off + 1000)).sum())
    assert above == pytest.approx(beyond, rel=0.01)
    assert above <= 1e-4 < above + float(noise.probabilities(np.array([cut_off]))[0])


def test_the_draw_goes_through_region_types_in_order_and_levels_within() -> None:
    labels = [each.label for each in production_p(BOTH, NINE).measured]
    assert labels[:5] == ["USA 1", "USA 2", "STATE 1", "STATE 2", "COUNTY 1"]
    assert labels[10:13] == ["AIANNH 2", "PR-STATE 1", "PR-STATE 2"]
    assert [each.label for each in production_h(("01",), NINE).measured][:5] == [
        *("USA 1 T3", "USA 1 T4", "USA 2 T3", "USA 2 T4", "STATE 1 T3"),
    ]
    measured = production_p(("01",), NINE).measured
    queries = [query for each in measured for query in (*each.distributions, each.query("cells"))]
    assert len(queries) == len(set(queries)) == 4 * len(measured)
    assert (measured[3].query("total only"), measured[3].query("stage 1")) == ("STATE 2 total only", "STATE 2 stage 1")
    assert (measured[3].query("total"), measured[3].query("cells")) == ("STATE 2 total", "STATE 2 cells")


BUDGETS = st.dictionaries(st.sampled_from(PAIRS), st.fractions(0, 10, max_denominator=1000), min_size=1)


@given(BUDGETS, st.sampled_from(list(RUNS.values())))
def test_a_line_has_the_greater_of_a_region_types_budget_and_its_namesakes(
    budgets: Mapping[Pair, Fraction], states: Sequence[str]
) -> None:
    runs = {"PR" if state == PUERTO_RICO else "US" for state in states}
    budgets = {pair: budget for pair, budget in budgets.items() if pair[0].run in runs}
    if not any(budgets.values()):
        return
    design = design_p(states=states, budgets=budgets, thresholds=THRESHOLDS_P)
    expected = {
        (pair[0].shared_name, pair[1]): max(
            budget,
            *(
                other
                for key, other in budgets.items()
                if (key[0].shared_name, key[1]) == (pair[0].shared_name, pair[1])
            ),
        )
        for pair, budget in budgets.items()
    }
    assert design.unbounded == ConcentratedLoss(sum(expected.values(), Fraction(0)))
    assert len(design.lines) == sum(loss > 0 for loss in expected.values())
    of_runs = {run: sum(budget for pair, budget in budgets.items() if pair[0].run == run) for run in runs}
    assert ConcentratedLoss(max(of_runs.values())) <= design.unbounded
    assert ConcentratedLoss(sum(of_runs.values(), Fraction(0))) <= design.bounded


def test_both_runs_share_labels_of_lines() -> None:
    lines = [line.label for line in production_p(BOTH, NINE).lines]
    assert lines[:3] == ["USA 1", "USA 2", "STATE and PR-STATE 1"]
    assert production_h((PUERTO_RICO,), NINE).lines[0].label == "PR-STATE 1 T3"
    assert "PLACE and PR-PLACE 2 T4" in [line.label for line in production_h(BOTH, NINE).lines]


def test_each_measurement_spends_its_part_of_the_budget() -> None:
    """One person in Δ groups, each of which changes by 1, costs the budget, for groups of any kinds."""
    for noise in Noise:
        (each,) = design_p(noise=noise, stage_1_share=Fraction(1, 4)).measured
        spent = [_cost(part) for part in (each.total_only, each.stage_1, each.stage_2)]
        assert spent[0] == spent[1] + spent[2] == each.budget / each.stability
        assert spent[1] == spent[0] / 4


def _cost(noise: DiscreteGaussian | DiscreteLaplace) -> Fraction:
    """The loss of a change by 1: 1/2σ² or 1/t."""
    return 1 / (2 * noise.variance) if isinstance(noise, DiscreteGaussian) else 1 / noise.scale


def test_pure_dp_is_charged_in_epsilon_and_has_discrete_laplace_noise() -> None:
    design = design_p(noise=Noise.LAPLACE, zero_suppression_chance=Fraction(9, 10))
    (each,) = design.measured
    assert each.stage_2 == DiscreteLaplace(Fraction(10))
    assert each.total_only == DiscreteLaplace(Fraction(9))
    assert design.bounded == PureLoss(Fraction(2))
    # P(X <= k) = 1 - q^(k + 1) / (1 + q) for k >= 0, q = exp(-1/10).
    assert each.cut_off == math.ceil(10 * math.log(10 / (1 + math.exp(-0.1)))) - 1
    assert design_h(noise=Noise.LAPLACE).measured[0].noise == DiscreteLaplace(Fraction(9))


@pytest.mark.parametrize("pair", [(RegionType.STATE, 2), (RegionType.USA, 1), (RegionType.PR_STATE, 1)])
def test_nothing_is_suppressed_for_the_nation_and_states_or_without_a_chance(pair: Pair) -> None:
    chance = Fraction(1, 2)
    design = design_p(
        states=BOTH, budgets={pair: Fraction(1)}, thresholds={pair: (1, 2, 3)}, zero_suppression_chance=chance
    )
    assert design.measured[0].cut_off is None
    assert design_p(zero_suppression_chance=chance).measured[0].cut_off == 0
    assert design_p().measured[0].cut_off is None


def test_the_guarantees_are_for_persons_and_for_households() -> None:
    person, household = design_p().specification("census").flavor, design_h().specification("census").flavor
    assert (person.unit, person.changes_per_person) == ("person", None)
    assert (household.unit, household.changes_per_person) == ("household", 1)
    assert (
        person.multiverse == household.multiverse == ("which blocks have at least one housing unit or group quarters",)
    )
    assert "census" in person.domain


def test_designs_that_release_the_same_have_the_same_record() -> None:
    zero = {(RegionType.TRACT, 1): Fraction(0)}
    unused = {(RegionType.TRACT, 1): (7, 8, 9)}
    one = design_p(states=("02", "01"), budgets=zero | {PAIR: Fraction(1)}, thresholds={PAIR: [1, 2, 3]} | unused)
    assert one.as_record() == design_p(states=("01", "02")).as_record()
    assert json.loads(json.dumps(one.as_record())) == one.as_record()
    assert list(one.as_record()["measured"]) == ["COUNTY 2"]
    for changed in (
        {"states": ("02",)},
        {"noise": Noise.LAPLACE},
        {"stabilities": {PAIR: 1}},
        {"negative_counts": False},
        {"max_race_codes": 7},
        {"budgets": {PAIR: Fraction(2)}},
        {"thresholds": {PAIR: (1, 2, 4)}},
        {"stage_1_share": Fraction(1, 5)},
        {"zero_suppression_chance": Fraction(1, 5)},
    ):
        assert design_p(**changed).as_record() != design_p().as_record(), changed
    assert design_h().as_record() != design_h(negative_counts=False).as_record()
    assert design_h().as_record() != design_h(budgets={(*PAIR, "T4"): Fraction(1)}).as_record()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"states": ()}, "states: at least one"),
        ({"states": ("03",)}, "states: 03 is not"),
        ({"states": ("01", "01")}, "states: 01 is given 2 times"),
        ({"max_race_codes": 0}, "max_race_codes: .* 1 to 8"),
        ({"max_race_codes": 9}, "max_race_codes: "),
        ({"budgets": {PAIR: Fraction(0)}}, "budgets: nothing is measured"),
        ({"budgets": {PAIR: Fraction(-1)}}, "budgets: COUNTY 2: .*not negative"),
        ({"budgets": {PAIR: Fraction(1001)}}, "budgets: COUNTY 2: .*hardly any noise"),
        ({"budgets": {PAIR: Fraction(1, 10**13)}}, "budgets: COUNTY 2: .*trillion"),
        ({"budgets": {PAIR: Fraction(1, 10**9)}}, "budgets: COUNTY 2: .*drowns any count"),
        ({"budgets": {(RegionType.COUNTY, 3): Fraction(1)}}, "budgets: COUNTY 3: a level is 1 or 2"),
        ({"budgets": {(RegionType.COUNTY, 0): Fraction(1)}}, "budgets: COUNTY 0: a level is 1 or 2"),
        ({"budgets": {(RegionType.PR_TRACT, 1): Fraction(1)}}, "budgets: PR-TRACT 1: .*Puerto Rico is not among"),
        ({"states": ("72",)}, "budgets: COUNTY 2: .*no state besides Puerto Rico"),
        ({"stabilities": {}}, "budgets: COUNTY 2: .*Δ"),
        ({"stabilities": {PAIR: 0}}, "budgets: COUNTY 2: .*Δ"),
        ({"thresholds": {}}, "thresholds: COUNTY 2: 3 thresholds are needed, and there are 0"),
        ({"thresholds": {PAIR: (1, 2, 3, 4)}}, "thresholds: COUNTY 2: 3 thresholds .* are 4"),
        (
            {"thresholds": {PAIR: (1, 2, 3), (RegionType.PR_TRACT, 2): (1, 2)}},
            "thresholds: PR-TRACT 2: 3 thresholds are needed, and there are 2",
        ),
        ({"thresholds": {PAIR: (1, 3, 2)}}, "thresholds: COUNTY 2: .*do not decrease"),
        ({"thresholds": {PAIR: (1, 2, 10**10)}}, "thresholds: COUNTY 2: a threshold lies between"),
        ({"stage_1_share": Fraction(0)}, "stage_1_share: .*above 0 and below 1"),
        ({"stage_1_share": Fraction(1)}, "stage_1_share: "),
        ({"stage_1_share": Fraction(1, 10**13)}, "stage_1_share: .*trillion"),
        ({"stage_1_share": Fraction(1, 10**9)}, "budgets: COUNTY 2: .*drowns any count"),
        ({"zero_suppression_chance": Fraction(1)}, "zero_suppression_chance: .*at least 0 and below 1"),
        ({"zero_suppression_chance": Fraction(-1, 2)}, "zero_suppression_chance: "),
    ],
)
def test_a_design_that_cannot_be_carried_out_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DesignError, match=f"^{message}"):
        design_p(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"thresholds": {(*PAIR, "T3"): (1, 2, 3), (RegionType.TRACT, 2, "T4"): (1, 2)}},
            "thresholds: TRACT 2 T4: one threshold is needed, and there are 2",
        ),
        ({"budgets": {(*PAIR, "T4"): Fraction(-1)}}, "budgets: COUNTY 2 T4: .*not negative"),
        ({"budgets": {(*PAIR, "T3"): Fraction(1, 10**9)}}, "budgets: COUNTY 2 T3: .*drowns any count"),
        ({"budgets": {}}, "budgets: nothing is measured"),
        ({"thresholds": {}}, "thresholds: COUNTY 2 T3: 3 thresholds are needed, and there are 0"),
        (
            {"budgets": {(*PAIR, "T4"): Fraction(1)}, "thresholds": {(*PAIR, "T4"): (1, 2)}},
            "thresholds: COUNTY 2 T4: one threshold is needed, and there are 2",
        ),
        ({"states": ("1",)}, "states: 1 is not"),
    ],
)
def test_a_design_of_households_that_cannot_be_carried_out_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DesignError, match=f"^{message}"):
        design_h(**changes)


def test_equal_thresholds_and_extreme_permitted_numbers_are_accepted() -> None:
    (each,) = design_p(thresholds={PAIR: (5, 5, 5)}, zero_suppression_chance=Fraction(10**12 - 1, 10**12)).measured
    assert isinstance(each, Measured)
    assert replace(each, cut_off=0).cut_off == 0
    assert design_p(budgets={PAIR: Fraction(1000)}).measured[0].cut_off is None
