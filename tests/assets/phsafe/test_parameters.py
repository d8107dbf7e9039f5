"""The parameters of a PHSafe release: the contents of its tables and the figures of its plan, without any data."""

import csv
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from assets.phsafe.declaration import PHSafeDeclaration
from assets.phsafe.plan import (
    GRID,
    NULLABLE,
    PARAMETER_COLUMNS,
    PARAMETERS,
    PLANNING,
    PLANNING_COLUMNS,
    parameter_tables,
    parameters,
    phsafe_plan,
)
from assets.phsafe.release import PHSafeRelease
from mechanisms.noise import Noise
from mechanisms.phsafe.design import PHSafeDesign, RunDesign, margin_of_error, production
from mechanisms.phsafe.runs import RUN
from mechanisms.states import PUERTO_RICO, STATES
from orchestration.components.phsafe import PHSafe
from tests.phsafe_deployments import census_dataset

STATES_AND_DC = tuple(code for code in STATES if code != PUERTO_RICO)

with (Path(__file__).parents[2] / "data" / "phsafe_production.csv").open(newline="") as file:
    PRODUCTION = list(csv.DictReader(file))


def declared(design: PHSafeDesign) -> PHSafeRelease:
    """A release with a design, and no data."""
    named = {"name": "sdhc", "dataset": "town", "title": "Households and the persons in them", "states": ["10", "44"]}
    release = PHSafe(PHSafeDeclaration.model_validate(named)).release(census_dataset(Path("/none")), Path("/none"))
    return replace(release, design=design)


def stored(release: PHSafeRelease, name: str) -> list[dict[str, Any]]:
    """The rows of a table that the stage stores."""
    rows: list[dict[str, Any]] = parameter_tables(release)[release.public(name)].to_pylist()
    return rows


@pytest.fixture(scope="module")
def of_2020() -> PHSafeRelease:
    return declared(production(STATES_AND_DC))


def test_the_stored_parameters_are_the_production_table_with_its_margins(of_2020: PHSafeRelease) -> None:
    rows = {(row["run"], row["level"]): row for row in stored(of_2020, PARAMETERS)}
    assert len(rows) == len(PRODUCTION)
    for published in PRODUCTION:
        row = rows[published["run"], published["level"]]
        assert (str(row["truncation"] or ""), str(row["budget"])) == (
            published["truncation"],
            published["rho_unbounded"],
        )
        assert Fraction(row["budget_exact"]) == Fraction(published["rho_unbounded"])
        assert float(row["margin"]) == pytest.approx(float(published["moe_target"]), rel=0.01)
        assert abs(row["exact_margin"] - row["margin"]) < 1
        assert float(row["variance"]) == pytest.approx(row["stability"] ** 2 / 2 / float(row["budget"]))
        assert float(row["standard_deviation"]) ** 2 == pytest.approx(float(row["variance"]))
        assert Fraction(row["budget_for_half_the_margin"]) == 4 * Fraction(row["budget_exact"])
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1, abs=1e-4)
    race = rows["PH3", "state_A-G"]
    assert (race["groups"], race["cells"]) == (51 * 7, 7)


def test_only_the_columns_that_may_be_empty_are(of_2020: PHSafeRelease) -> None:
    rows = stored(of_2020, PARAMETERS)
    assert set(rows[0]) == set(PARAMETER_COLUMNS)
    assert {name for row in rows for name, value in row.items() if value is None} <= NULLABLE
    assert all((row["truncation"] is None) == row["run"].endswith("_denom") for row in rows)


def test_the_grid_answers_the_other_way_for_every_run(of_2020: PHSafeRelease) -> None:
    rows = stored(of_2020, PLANNING)
    assert set(rows[0]) == set(PLANNING_COLUMNS)
    budgets = {(row["run"], row["margin"]): Fraction(row["budget_exact"]) for row in rows}
    assert {margin for _, margin in budgets} == set(GRID)
    assert len(rows) == len(GRID) * len(RUN)
    for published in PRODUCTION:
        assert budgets[published["run"], int(published["moe_target"])] == Fraction(published["rho_unbounded"])


def test_the_plan_states_the_totals_with_both_conversions(of_2020: PHSafeRelease) -> None:
    plan = phsafe_plan(of_2020)
    assert plan.facts["one person added or removed"].startswith("ρ = 1.2573 ")
    assert plan.facts["one person changed (charged)"].startswith("ρ = 2.5146 ")
    assert plan.facts["charged, as (ε, δ) by Canonne, Kamath and Steinke"] == "ε = 16.9802 at δ = 1e-10"
    assert plan.facts["charged, as (ε, δ) by Bun and Steinke"] == "ε = 17.7330 at δ = 1e-10"
    assert len(plan.lines) == len(plan.tables["Runs and levels"][1]) == len(plan.curves[0].marks) == 46


def test_every_mark_of_the_plan_is_on_the_curve_of_its_sensitivity(of_2020: PHSafeRelease) -> None:
    (curve,) = phsafe_plan(of_2020).curves
    for name, budget, margin in curve.marks:
        (points,) = (points for series, points in curve.series.items() if name.split()[0] in series.split(": ")[1])
        # Margin times √ρ is constant on a curve.
        assert {round(y * x**0.5, 6) for x, y in points} == {round(margin * budget**0.5, 6)}


@pytest.mark.deep
def test_in_pure_dp_the_parameters_are_epsilons_with_exact_margins() -> None:
    release = declared(production(("25",), Noise.LAPLACE))
    facts, rows = phsafe_plan(release).facts, stored(release, PARAMETERS)
    assert facts["one person added or removed"].startswith("ε = ")
    assert not any("Bun and Steinke" in name for name in facts)
    assert all(row["margin"] == row["exact_margin"] for row in rows)
    for row in rows:
        half = margin_of_error(Noise.LAPLACE, row["stability"], Fraction(row["budget_for_half_the_margin"]))
        assert half <= row["margin"] / 2


def test_noise_too_wide_to_search_has_no_exact_margin() -> None:
    wide = PHSafeDesign(("25",), Noise.GAUSSIAN, {"PH2": RunDesign(99_999, {"state_*": Fraction(1, 10**6)})})
    (row,) = parameters(wide)
    assert row["exact_margin"] is None
    assert float(row["margin"]) == pytest.approx(1.645 * 200_000 / (2e-6) ** 0.5)
