"""A PHSafe design: the production table from its margins of error, the guarantee line by line, and the refusals."""

import csv
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.composition import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.accounting.specification import DELTA, Specification
from mechanisms.design import DesignError
from mechanisms.noise import Noise
from mechanisms.phsafe.design import (
    LARGEST_TRUNCATION,
    PHSafeDesign,
    RunDesign,
    budget_for_margin,
    design_run,
    margin_of_error,
    production,
)
from mechanisms.phsafe.runs import LEVELS, RUN, RUNS
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.states import PUERTO_RICO, STATES

STATES_AND_DC = tuple(code for code in STATES if code != PUERTO_RICO)
LEVEL = {level.name: level for level in LEVELS}

with (Path(__file__).parents[2] / "data" / "phsafe_production.csv").open(newline="") as file:
    PRODUCTION = list(csv.DictReader(file))

BUDGETS = st.fractions(min_value=Fraction(1, 10**6), max_value=10, max_denominator=10**6)


def design(noise: Noise = Noise.GAUSSIAN, states: tuple[str, ...] = ("01", "06"), **runs: RunDesign) -> PHSafeDesign:
    """A design of some runs, or of one run."""
    return PHSafeDesign(states, noise, runs or {"PH2": RunDesign(10, {"state_*": Fraction(1, 10)})})


def test_production_has_every_row_of_the_published_table_and_no_other() -> None:
    released = production(STATES_AND_DC)
    rows = {
        (row["run"], row["level"]): (int(row["truncation"] or 0) or None, Fraction(row["rho_unbounded"]))
        for row in PRODUCTION
    }
    assert len(rows) == len(PRODUCTION) == 46
    assert rows == {
        (run.name, level.name): (released.truncation(run), budget) for run, level, budget in released.released
    }


@pytest.mark.parametrize("row", PRODUCTION, ids=lambda row: f"{row['run']} {row['level']}")
def test_each_row_of_production_follows_from_its_margin_of_error(row: Mapping[str, str]) -> None:
    truncation = int(row["truncation"]) if row["truncation"] else None
    stability = RUN[row["run"]].stability(truncation)
    assert stability == (22 if truncation == 10 else 14 if truncation == 6 else 2)
    assert budget_for_margin(Noise.GAUSSIAN, stability, Fraction(row["moe_target"])) == Fraction(row["rho_unbounded"])


def test_production_loses_exactly_2_514562_for_bounded_neighbors() -> None:
    released = production(STATES_AND_DC)
    assert released.unbounded == ConcentratedLoss(Fraction(1_257_281, 10**6))
    assert released.bounded == ConcentratedLoss(Fraction(2_514_562, 10**6))


def test_both_conversions_of_production_are_those_of_their_formulas() -> None:
    bounded = production(STATES_AND_DC).bounded
    assert isinstance(bounded, ConcentratedLoss)
    rho, log = 2.514562, 10 * math.log(10)
    assert float(bun_steinke(bounded, DELTA, 6)) == pytest.approx(rho + 2 * math.sqrt(rho * log), abs=1e-6)
    least = min(
        rho * alpha + (log - math.log(alpha)) / (alpha - 1) + math.log(1 - 1 / alpha)
        for alpha in (1 + step / 10_000 for step in range(10_000, 100_000))
    )
    assert float(canonne_kamath_steinke(bounded, DELTA, 6)) == pytest.approx(least, abs=1e-6)
    assert str(bun_steinke(bounded, DELTA, 4)) == "17.7330"
    assert str(canonne_kamath_steinke(bounded, DELTA, 4)) == "16.9802"


def test_puerto_rico_is_production_without_the_nation() -> None:
    island = production((PUERTO_RICO,))
    assert island.region_types == {"STATE"}
    nation = [row for row in PRODUCTION if row["level"].startswith("nation")]
    assert island.unbounded == ConcentratedLoss(
        Fraction(1_257_281, 10**6) - sum(Fraction(row["rho_unbounded"]) for row in nation)
    )
    assert {level.geography.value for _, level, _ in island.released} == {"state"}


def test_production_in_pure_dp_keeps_every_margin_of_error() -> None:
    pure = production(STATES_AND_DC, Noise.LAPLACE)
    targets = {(row["run"], row["level"]): int(row["moe_target"]) for row in PRODUCTION}
    for run, level, budget in pure.released:
        margin = margin_of_error(pure.noise, pure.stability(run), budget)
        assert margin == targets[run.name, level.name]
    assert isinstance(pure.bounded, PureLoss)


def test_what_is_released_comes_in_the_order_of_runs_and_levels_whatever_the_order_of_the_declaration() -> None:
    given_backwards = {
        run.name: RunDesign(10 if run.joins else None, {level.name: Fraction(1, 100) for level in reversed(run.levels)})
        for run in reversed(RUNS)
    }
    released = PHSafeDesign(("06", "01"), Noise.GAUSSIAN, given_backwards)
    assert [(run, level) for run, level, _ in released.released] == [
        (run, level) for run in RUNS for level in run.levels
    ]
    in_order = {name: given_backwards[name] for name in sorted(given_backwards)}
    assert PHSafeDesign(("01", "06"), Noise.GAUSSIAN, in_order).as_record() == released.as_record()


def test_a_level_with_budget_0_and_one_left_out_are_not_released_and_name_the_same_design() -> None:
    with_zero = design(PH3=RunDesign(6, {"state_*": Fraction(1, 3), "nation_*": Fraction(0)}), PH4=RunDesign(10))
    without = design(PH3=RunDesign(6, {"state_*": Fraction(1, 3)}))
    assert [each.label for each in with_zero.released] == ["PH3 state_*"]
    assert with_zero.as_record() == without.as_record()
    with pytest.raises(KeyError):
        with_zero.noise_of(RUN["PH3"], LEVEL["nation_*"])


def test_another_design_has_another_record() -> None:
    variants = [
        design(),
        design(noise=Noise.LAPLACE),
        design(states=("01",)),
        design(PH2=RunDesign(9, {"state_*": Fraction(1, 10)})),
        design(PH2=RunDesign(10, {"state_*": Fraction(1, 11)})),
        design(PH2=RunDesign(10, {"nation_*": Fraction(1, 10)})),
        design(PH6=RunDesign(10, {"state_*": Fraction(1, 10)})),
    ]
    assert len({str(variant.as_record()) for variant in variants}) == len(variants)


@given(st.lists(BUDGETS, min_size=6, max_size=6), st.sampled_from(Noise), st.integers(1, 30))
def test_the_lines_add_up_to_twice_the_unbounded_loss_and_each_noise_costs_its_line(
    budgets: list[Fraction], noise: Noise, truncation: int
) -> None:
    levels = {level.name: budget for level, budget in zip(LEVELS, budgets, strict=True)}
    released = design(noise, PH1_num=RunDesign(truncation, levels), PH1_denom=RunDesign(None, levels))
    specification = released.specification("made_up")
    assert released.bounded == noise.loss(4 * sum(budgets, Fraction()))
    assert released.unbounded == noise.loss(2 * sum(budgets, Fraction()))
    assert specification.loss == released.bounded
    assert specification.lines == released.lines
    for line, each in zip(released.lines, released.released, strict=True):
        assert line.label == f"{each.run.name} {each.level.name}"
        assert line.loss == noise.loss(2 * each.budget)
        stability, drawn = released.stability(each.run), released.noise_of(each.run, each.level)
        assert stability == (2 * truncation + 2 if each.run.joins else 2)
        if isinstance(drawn, DiscreteGaussian):
            assert Fraction(stability**2) / (2 * drawn.variance) == each.budget
        else:
            assert isinstance(drawn, DiscreteLaplace)
            assert stability / drawn.scale == each.budget


@given(st.integers(1, 3), st.integers(0, 3), st.data())
def test_no_change_of_one_person_reaches_more_than_twice_the_squared_stability(
    truncation: int, cells: int, data: st.DataObject
) -> None:
    """Of the two units touched, at most τ joined records leave and τ enter, in any cells, even all in one."""
    several = st.lists(st.integers(0, cells), max_size=2 * truncation)
    change = Counter(data.draw(several))
    change.subtract(Counter(data.draw(several)))
    stability = RUN["PH1_num"].stability(truncation)
    assert sum(entry**2 for entry in change.values()) <= 2 * stability**2
    assert sum(abs(entry) for entry in change.values()) <= 2 * stability
    ((_, numbers),) = design(PH1_num=RunDesign(truncation, {"state_*": Fraction(1)})).changes_by_line
    assert sum(entry != 0 for entry in change.values()) <= numbers


def test_a_change_that_lined_up_would_lose_four_times_rho_and_is_not_what_is_charged() -> None:
    one = Fraction(1, 10)
    released = design(PH2=RunDesign(10, {"state_*": one}))
    assert released.unbounded.of_group(2) == ConcentratedLoss(4 * one)
    assert released.specification("made_up").charge == ConcentratedLoss(2 * one)


@pytest.mark.parametrize("noise", Noise)
def test_the_specification_says_who_what_and_how_and_survives_the_ledger(noise: Noise) -> None:
    released = production(("01", "06"), noise)
    charged = released.specification("county_file")
    assert (charged.flavor.unit, charged.flavor.changes_per_person) == ("person", None)
    assert charged.flavor.neighbors == "bounded"
    assert charged.flavor.multiverse == ("whether a block has a housing unit or not",)
    assert "county_file" in charged.flavor.domain
    assert charged.charge == charged.loss_for("person") == released.bounded
    assert Specification.from_record(charged.as_record()) == charged


@pytest.mark.parametrize(("states", "nation"), [(("01",), True), (("01", "06", "11"), True), (("72",), False)])
def test_groups_are_regions_times_iterations(states: tuple[str, ...], nation: bool) -> None:
    released = production(states)
    sizes = {"*": 1, "A-G": 7, "H,I": 2}
    for geography, iterations in product(("state", "nation") if nation else ("state",), sizes):
        regions = len(states) if geography == "state" else 1
        assert released.groups(LEVEL[f"{geography}_{iterations}"]) == regions * sizes[iterations]


SOME = {"state_*": Fraction(1, 10)}


@pytest.mark.parametrize(
    ("states", "runs", "message"),
    [
        ((), {"PH2": RunDesign(10, SOME)}, "states: at least one"),
        (("03",), {"PH2": RunDesign(10, SOME)}, "states: 03 is not the FIPS code"),
        (("01", "01"), {"PH2": RunDesign(10, SOME)}, "states: 01 is given 2 times"),
        (("01", "72"), {"PH2": RunDesign(10, SOME)}, "states: Puerto Rico is released by itself"),
        (("01",), {"PH9": RunDesign(10, SOME)}, "runs: there is no run PH9"),
        (("01",), {"PH5_num": RunDesign(10, SOME)}, "runs: there is no run PH5_num"),
        (("01",), {"PH2": RunDesign(None, SOME)}, "runs: PH2: truncation: PH2 counts persons"),
        (("01",), {"PH1_denom": RunDesign(10, SOME)}, "runs: PH1_denom: truncation: PH1_denom counts units"),
        (("01",), {"PH2": RunDesign(0, SOME)}, "runs: PH2: truncation: .* between 1 and 99,999"),
        (("01",), {"PH2": RunDesign(LARGEST_TRUNCATION + 1, SOME)}, "runs: PH2: truncation: .* not at 100,000"),
        (("01",), {"PH2": RunDesign(10, {"nation_A-G": Fraction(1)})}, "PH2: budget: there is no level nation_A-G"),
        (("01",), {"PH2": RunDesign(10, {"county_*": Fraction(0)})}, "runs: PH2: budget: there is no level county_"),
        (("01",), {"PH2": RunDesign(10, {"state_*": Fraction(-1, 2)})}, "runs: PH2: budget: state_.* not negative"),
        (("01",), {"PH2": RunDesign(10, {"state_*": Fraction(1001)})}, "runs: PH2: budget: state_.* the most is 1000"),
        (("01",), {"PH2": RunDesign(10, {"state_*": Fraction(1, 10**12 + 1)})}, "denominator is at most a trillion"),
        (("72",), {"PH2": RunDesign(10, {"nation_*": Fraction(1)})}, "nation_.*: Puerto Rico has no levels"),
        (("01",), {}, "runs: nothing is released"),
        (("01",), {"PH2": RunDesign(10, {"state_*": Fraction(0)})}, "runs: nothing is released"),
    ],
)  # fmt: skip
def test_a_design_that_cannot_be_carried_out_is_refused_with_run_field_and_rule(
    states: tuple[str, ...], runs: dict[str, RunDesign], message: str
) -> None:
    with pytest.raises(DesignError, match=message):
        PHSafeDesign(states, Noise.GAUSSIAN, runs)


@pytest.mark.parametrize(
    ("name", "truncation", "budgets", "margins", "message"),
    [
        ("PH9", 10, {}, {}, "there is no run PH9"),
        ("PH2", None, {}, {"state_*": Fraction(5)}, "PH2: truncation: PH2 counts persons"),
        ("PH2", 10, SOME, {"state_*": Fraction(5)}, "PH2: state_.*: a level has a budget or an moe target, not both"),
        ("PH2", 10, {}, {"nation_A-G": Fraction(5)}, "PH2: moe: there is no level nation_A-G"),
        ("PH2", 10, {}, {"state_*": Fraction(10**6)}, "PH2: moe: state_.* rounds to 0 at 6 decimals"),
        ("PH2", 10, {}, {"state_*": Fraction(0)}, "PH2: moe: state_.* greater than 0"),
    ],
)
def test_a_run_that_does_not_follow_from_what_is_given_is_refused(
    name: str,
    truncation: int | None,
    budgets: dict[str, Fraction],
    margins: dict[str, Fraction],
    message: str,
) -> None:
    with pytest.raises(DesignError, match=message):
        design_run(name, Noise.GAUSSIAN, truncation, budgets, margins)


def test_a_run_takes_budgets_for_some_levels_and_margins_for_others() -> None:
    run = design_run("PH3", Noise.GAUSSIAN, 6, {"nation_*": Fraction(1, 7)}, {"state_A-G": Fraction(20)})
    assert run == RunDesign(6, {"nation_*": Fraction(1, 7), "state_A-G": Fraction(662_976, 10**6)})


@pytest.mark.parametrize("noise", Noise)
def test_noise_that_could_not_be_written_down_is_refused_before_it_is_charged(noise: Noise) -> None:
    with pytest.raises(DesignError, match=r"PH2: budget: state_\*: .* variance above"):
        design(noise=noise, PH2=RunDesign(99_999, {"state_*": Fraction(1, 10**11)}))
