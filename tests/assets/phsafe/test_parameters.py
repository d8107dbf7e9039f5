"""The parameters of a PHSafe release: what its tables say, and what a planner is answered, without any data."""

import csv
import struct
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.phsafe.charts import margin_against_budget
from assets.phsafe.parameters import (
    NULLABLE,
    PARAMETER_COLUMNS,
    PARAMETERS,
    PLANNING,
    PLANNING_COLUMNS,
    build_parameters,
)
from assets.phsafe.planning import GRID, Plan, PlannedRun, parameters, planned_design
from assets.release.release import Release
from mechanisms.accounting.rounding import ceiling
from mechanisms.noise import Noise
from mechanisms.phsafe.design import PHSafeDesign, RunDesign, production
from mechanisms.phsafe.margins import margin_of_error
from mechanisms.phsafe.runs import RUN
from mechanisms.states import PUERTO_RICO, STATES
from resources.custody import CustodyMode
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.deployments import data_version, small_dataset

STATES_AND_DC = tuple(code for code in STATES if code != PUERTO_RICO)
DELTA = Fraction(1, 10**10)

with (Path(__file__).parents[2] / "data" / "phsafe_production.csv").open(newline="") as file:
    PRODUCTION = list(csv.DictReader(file))


@dataclass(frozen=True)
class PlannedRelease(Release):
    """What planning needs of a release, without data."""

    design: PHSafeDesign
    delta: Fraction


@dataclass(frozen=True)
class Planner:
    """A release that has a design and no data, and a warehouse of its own."""

    release: PlannedRelease
    warehouse: Warehouse
    instance: dg.DagsterInstance

    def run(self, plan: dict[str, Any] | None = None, raise_on_error: bool = True) -> dg.ExecuteInProcessResult:
        """Materialize the parameters, with what a planner gives in the launchpad."""
        key = self.release.key("parameters")
        return dg.materialize(
            [build_parameters(self.release)],
            resources={"warehouse": self.warehouse},
            instance=self.instance,
            run_config={
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                "ops": {key.to_python_identifier(): {"config": {"runs": plan or {}}}},
            },
            raise_on_error=raise_on_error,
        )

    def answered(self, plan: dict[str, Any] | None = None) -> dict[str, Any]:
        """The metadata of a run, as plain values."""
        (event,) = self.run(plan).get_asset_materialization_events()
        return {name: value.value for name, value in event.materialization.metadata.items()}

    def version(self) -> str:
        """The data version of the latest run."""
        version = data_version(self.instance, self.release.key("parameters"))
        assert version is not None
        return version

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of a stored table."""
        with self.warehouse.session(reads=[Zone.PUBLIC]) as session:
            return session.arrow("warehouse/all", source=self.release.public(name)).to_pylist()


@contextmanager
def planner(root: Path, design: PHSafeDesign) -> Iterator[Planner]:
    """A planner of a design."""
    release = PlannedRelease(
        dataset=small_dataset(root),
        name="sdhc",
        title="Households and the persons in them",
        description="",
        custody=CustodyMode.ESCROWED,
        published=root / "published",
        design=design,
        delta=DELTA,
    )
    with dg.instance_for_test() as instance:
        yield Planner(release, Warehouse(folder=str(root / "warehouse"), threads=1), instance)


@pytest.fixture(scope="module")
def production_planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    with planner(tmp_path_factory.mktemp("production"), production(STATES_AND_DC)) as ready:
        ready.run()
        yield ready


@pytest.fixture(scope="module")
def answered(production_planner: Planner) -> dict[str, Any]:
    """The metadata of a run without a plan."""
    return production_planner.answered()


def test_the_stored_parameters_are_the_production_table_with_its_margins(production_planner: Planner) -> None:
    rows = {(row["run"], row["level"]): row for row in production_planner.table(PARAMETERS)}
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


def test_only_the_columns_that_may_be_empty_are(production_planner: Planner) -> None:
    rows = production_planner.table(PARAMETERS)
    assert set(rows[0]) == set(PARAMETER_COLUMNS)
    assert {name for row in rows for name, value in row.items() if value is None} <= NULLABLE
    assert all((row["truncation"] is None) == row["run"].endswith("_denom") for row in rows)


def test_the_grid_answers_the_other_way_for_every_run(production_planner: Planner) -> None:
    rows = production_planner.table(PLANNING)
    assert set(rows[0]) == set(PLANNING_COLUMNS)
    budgets = {(row["run"], row["margin"]): Fraction(row["budget_exact"]) for row in rows}
    assert {margin for _, margin in budgets} == set(GRID)
    assert len(rows) == len(GRID) * len(RUN)
    for published in PRODUCTION:
        assert budgets[published["run"], int(published["moe_target"])] == Fraction(published["rho_unbounded"])


def test_the_totals_are_in_the_metadata_with_both_conversions(answered: dict[str, Any]) -> None:
    assert answered["unbounded ρ"].startswith("1.2573 ")
    assert answered["bounded ρ"].startswith("2.5146 ")
    assert answered["bounded (ε, δ) by Canonne, Kamath and Steinke"] == "ε = 16.9802 at δ = 1e-10"
    assert answered["bounded (ε, δ) by Bun and Steinke"] == "ε = 17.7330 at δ = 1e-10"
    assert answered["dagster/row_count"] == 46
    assert answered["parameters"].count("\n") == 47
    assert "plan" not in answered


def _png(metadata: dict[str, Any]) -> bytes:
    _, encoded = metadata["margin against budget"].split("base64,")
    return b64decode(encoded.rstrip(")"))


def test_the_chart_is_a_png_of_the_width_of_all_others(answered: dict[str, Any]) -> None:
    png = _png(answered)
    width, height = struct.unpack(">II", png[16:24])
    assert width == 1080
    assert 600 <= height <= 900
    assert png == margin_against_budget(production(STATES_AND_DC))


@pytest.mark.deep
def test_other_designs_and_plans_give_other_pictures() -> None:
    declared = production(("01",))
    planned = planned_design(declared, Plan(runs={"PH3": PlannedRun(truncation=9)}))
    single = PHSafeDesign(("01",), Noise.LAPLACE, {"PH1_denom": RunDesign(None, {"state_*": Fraction(30)})})
    pictures = [
        margin_against_budget(declared),
        margin_against_budget(declared, planned),
        margin_against_budget(production((PUERTO_RICO,))),
        margin_against_budget(production(("01",), Noise.LAPLACE)),
        margin_against_budget(single),
    ]
    assert len(set(pictures)) == len(pictures)
    assert margin_against_budget(declared, declared) != pictures[0], "the legend says that there is a plan"


def test_a_plan_is_answered_both_ways_and_changes_nothing_that_is_stored(
    production_planner: Planner, answered: dict[str, Any]
) -> None:
    before = production_planner.version(), production_planner.table(PARAMETERS), production_planner.table(PLANNING)
    plan = {
        "PH3": {"moe": {"state_A-G": 40}},
        "PH2": {"truncation": 4, "budget": {"state_*": "1/100", "nation_*": 0}},
    }
    metadata = production_planner.answered(plan)
    after = production_planner.version(), production_planner.table(PARAMETERS), production_planner.table(PLANNING)
    assert before == after
    answer = {(row[0], row[1].partition(":")[0]): row[1:] for row in _rows(metadata["plan"])}
    assert {name.split()[0] for name, _ in answer} == {"PH2", "PH3"}
    assert answer["PH3 state_A-G", "plan"] == ["plan: τ = 6, Δ = 14", "0.165744", "40.00, exactly 40"]
    assert answer["PH3 state_A-G", "declared"] == ["declared", "0.662976", "20.00"]
    assert answer["PH2 state_*", "plan"][:2] == ["plan: τ = 4, Δ = 10", "0.010000"]
    assert answer["PH2 state_*", "plan"][2].startswith("116.32")
    assert ("PH2 nation_*", "plan") not in answer
    total = Fraction(1_257_281 - 662_976 + 165_744 - 16_371 - 2_619 + 10_000, 10**6)
    totals = {(name, of): value for name, of, value in _rows(metadata["plan: totals"])}
    assert totals["bounded ρ", "plan"] == f"{ceiling(2 * total, 4)} (exactly {2 * total})"
    assert totals["bounded ρ", "declared"] == metadata["bounded ρ"]
    assert _png(metadata) != _png(answered)


def _rows(table: dg.TableMetadataValue) -> list[list[str]]:
    assert len(table.schema.columns) <= 4
    return [[str(cell) for cell in record.data.values()] for record in table.records]


def test_a_plan_may_ask_about_a_run_that_is_not_released(tmp_path: Path) -> None:
    design = PHSafeDesign(("25",), Noise.GAUSSIAN, {"PH2": RunDesign(10, {"state_*": Fraction(1, 50)})})
    with planner(tmp_path, design) as ready:
        metadata = ready.answered({"PH8_denom": {"moe": {"state_A-G": 68}}})
    assert _rows(metadata["plan"]) == [
        ["PH8_denom state_A-G", "plan: τ = –, Δ = 2", "0.001170", "68.01, exactly 68"],
        ["PH8_denom state_A-G", "declared", "not released", "–"],
    ]


@pytest.mark.deep
def test_in_pure_dp_the_parameters_are_epsilons_with_exact_margins(tmp_path: Path) -> None:
    with planner(tmp_path, production(("25",), Noise.LAPLACE)) as ready:
        metadata = ready.answered()
        rows = ready.table(PARAMETERS)
    assert "unbounded ε" in metadata
    assert "bounded (ε, δ) by Bun and Steinke" not in metadata
    assert all(row["margin"] == row["exact_margin"] for row in rows)
    for row in rows:
        half = margin_of_error(Noise.LAPLACE, row["stability"], Fraction(row["budget_for_half_the_margin"]))
        assert half <= row["margin"] / 2


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"PH9": {}}, "plan: runs: there is no run PH9"),
        ({"PH2": {"truncation": 0}}, "plan: runs: PH2: truncation: "),
        ({"PH1_denom": {"truncation": 3}}, "plan: runs: PH1_denom: truncation: PH1_denom counts units"),
        ({"PH2": {"budget": {"state_*": "much"}}}, "plan: runs: PH2: budget: state_*: 'much' is not a number"),
        ({"PH2": {"budget": {"state_*": -1}}}, "plan: runs: PH2: budget: state_*: a budget is not negative"),
        ({"PH2": {"moe": {"state_*": 0}}}, "plan: runs: PH2: moe: state_*: a margin of error must be greater than 0"),
        ({"PH2": {"moe": {"state_A-G": 5}}}, "plan: runs: PH2: moe: there is no level state_A-G"),
        ({"PH2": {"moe": {"state_*": 5}, "budget": {"state_*": 1}}}, "a budget or an moe target, not both"),
        ({"PH2": {"moe": {"state_*": 0.01}}}, "the most is 1000"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_release_field_and_rule(
    production_planner: Planner, plan: dict[str, Any], message: str
) -> None:
    before = production_planner.table(PARAMETERS)
    result = production_planner.run(plan, raise_on_error=False)
    (failed,) = (event for event in result.all_events if event.is_step_failure)
    refusal = failed.step_failure_data.user_failure_data.description
    assert "release village/sdhc: plan: " in refusal
    assert message in refusal
    assert production_planner.table(PARAMETERS) == before


def test_noise_too_wide_to_search_has_no_exact_margin() -> None:
    wide = PHSafeDesign(("25",), Noise.GAUSSIAN, {"PH2": RunDesign(99_999, {"state_*": Fraction(1, 10**6)})})
    (row,) = parameters(wide)
    assert row["exact_margin"] is None
    assert float(row["margin"]) == pytest.approx(1.645 * 200_000 / (2e-6) ** 0.5)
