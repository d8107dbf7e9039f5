"""The asset `plan`: its page, its stored tables, and its refusals, before there are any data."""

from base64 import b64decode
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest
import yaml

from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.conventions import ZONE
from assets.phsafe.declaration import PHSafeDeclaration
from assets.planning.asset import build_plan, draw_curve, plan_metadata
from assets.planning.expectation import Machine
from assets.release.plan import Curve, PlanRequest
from orchestration.components import PHSafe
from orchestration.planning import PlannedDeclaration, plan_declaration
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.deployments import data_version, small_dataset, small_release
from tests.phsafe_deployments import FEW, census_dataset


class Planner:
    """The asset of a release without data, with a warehouse and a ledger of its own."""

    def __init__(self, root: Path, component: Any, dataset: Any) -> None:
        self.instance = dg.DagsterInstance.ephemeral()
        self.declaration = component.declaration
        self.method = component.method(component.release(dataset, root / "published"))
        self.warehouse = Warehouse(folder=str(root / "warehouse"), threads=1)
        custody = Custody(folder=str(root / "custody"), databases=self.warehouse.folder, variable="STIRRED_TEST_KEY")
        self.ledger = Ledger(warehouse=self.warehouse, custody=custody)

        def plan_of(asked: PlanRequest) -> PlannedDeclaration:
            return plan_declaration(component, dataset, root / "published", asked)

        self.plan_of = plan_of
        self.asset = build_plan(self.method, plan_of)

    def run(self, raise_on_error: bool = True, **asked: Any) -> dg.ExecuteInProcessResult:
        name = self.asset.key.to_python_identifier()
        return dg.materialize(
            [self.asset],
            resources={"warehouse": self.warehouse, "ledger": self.ledger},
            instance=self.instance,
            run_config={
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                "ops": {name: {"config": asked}},
            },
            raise_on_error=raise_on_error,
        )

    def page(self, machine: Machine | None = None, **asked: Any) -> dict[str, Any]:
        """The metadata of a request, without a run."""
        found = plan_metadata(self.plan_of(PlanRequest(**asked)), None, self.ledger, asked.get("records"), machine)
        return {name: getattr(value, "value", value) for name, value in found.items()}

    def run_page(self, **asked: Any) -> dict[str, Any]:
        """The metadata of a run, as plain values."""
        (event,) = self.run(**asked).get_asset_materialization_events()
        return {name: value.value for name, value in event.materialization.metadata.items()}

    def stored(self) -> tuple[str | None, list[list[Any]]]:
        """The data version, and the rows of the stored tables."""
        with self.warehouse.session(reads=[Zone.PUBLIC]) as session:
            rows = [session.arrow("warehouse/all", source=table).to_pylist() for table in self.method.plan_tables()]
        return data_version(self.instance, self.asset.key), rows


@pytest.fixture
def phsafe(tmp_path: Path) -> Planner:
    declared = {"name": "s_dhc", "dataset": "town", "title": "Households", "states": ["10", "44"], "runs": FEW}
    component = PHSafe(PHSafeDeclaration.model_validate(declared))
    return Planner(tmp_path, component, census_dataset(tmp_path, cap={"rho": 1}))


def _rows(table: dg.TableMetadataValue) -> list[list[str]]:
    return [[str(cell) for cell in record.data.values()] for record in table.records]


@pytest.mark.prove
def test_a_plan_is_shown_beside_what_is_declared_and_changes_nothing_that_is_stored(phsafe: Planner) -> None:
    declared = phsafe.run_page()
    stored = phsafe.stored()
    # 2 (1/50 + 1/10 + 1/20 + 1/10).
    assert declared["total"] == "ρ = 0.5400"
    assert "0.4600 after it" in declared["budget"]
    assert "refusal" not in declared
    assert declared["tables"].startswith("parameters in town__s_dhc (public), planning in")
    assert declared["dagster/row_count"] == 4
    assert b64decode(declared["Margin of error against budget"].split("base64,")[1].rstrip(")"))[:4] == b"\x89PNG"
    tried = phsafe.run_page(fields={"runs": {"PH1_num": None}}, margins={"PH2 state_*": 5})
    assert tried["declared total"] == declared["total"]
    assert "refusal" in tried
    assert "does not fit under the cap" in tried["refusal"]
    lines = {row[0]: row[1:] for row in _rows(tried["lines"])}
    assert set(lines) == {"PH1_denom nation_*", "PH2 state_*", "PH2 state_*, as declared"}
    assert lines["PH2 state_*"][2] == "±5"
    assert lines["PH2 state_*, as declared"][0] == "0.1"
    text = tried["defs.yaml"].split("```yaml\n")[1].rstrip().removesuffix("```")
    assert set(yaml.safe_load(text)["attributes"]["runs"]) == {"PH1_denom", "PH2"}
    assert phsafe.stored() == stored


def test_what_cannot_be_planned_fails_with_one_sentence_and_stores_nothing(phsafe: Planner) -> None:
    result = phsafe.run(raise_on_error=False, margins={"PH9": 3})
    (failed,) = (event for event in result.all_events if event.is_step_failure)
    said = failed.step_failure_data.user_failure_data.description
    assert said.startswith("release town/s_dhc: plan: margins: there is no line 'PH9'")
    assert "Nothing was charged, drawn or published." in said
    assert not phsafe.warehouse.path(Zone.PUBLIC).exists()


@pytest.mark.prove
def test_a_swap_is_planned_with_a_guess_of_b_and_stores_nothing(tmp_path: Path) -> None:
    dataset = small_dataset(tmp_path, cap=5)
    planner = Planner(tmp_path, small_release(dataset), dataset)
    assert planner.page()["total"].startswith("none, or unknown")
    page = planner.page(largest_stratum=100)
    assert page["total"] == "ε = 5.3083 (exactly ln(202))"
    assert "does not fit under the cap" in page["refusal"]
    assert planner.page(largest_stratum=100, total="9/2")["total"].startswith("ε = 4.5000")
    assert not planner.warehouse.path(Zone.PUBLIC).exists()


@pytest.mark.prove
def test_a_plan_of_a_deployment_whose_ledger_was_altered_says_that_nothing_is_known_of_what_is_left(
    phsafe: Planner,
) -> None:
    Path(phsafe.warehouse.folder).mkdir(parents=True)
    with duckdb.connect(str(phsafe.warehouse.path(Zone.LEDGER))) as connection:
        connection.execute("CREATE TABLE entries (altered INTEGER)")
    assert phsafe.page()["budget"].startswith("not known: the ledger is not intact")


@pytest.mark.prove
def test_the_page_states_what_a_launch_takes_and_what_the_machine_lacks(phsafe: Planner, tmp_path: Path) -> None:
    unknown = phsafe.run_page()
    assert "expected disk" not in unknown
    assert unknown["expected time"].startswith(
        "Time, memory and disk depend on the number of persons of town, which is"
    )
    stored = phsafe.stored()
    found = phsafe.run_page(records=1_000_000)
    assert found["expected size"].startswith("1,423,893 records, ")
    assert "declared total" not in found, "the number of records is no other declaration"
    assert phsafe.stored() == stored
    large = phsafe.page(Machine(2, 2**60, 0.2, 2**60, 2**60, one_disk=True), records=1_000_000)
    assert "warning" not in large
    small = phsafe.page(Machine(2, 2**20, 0.2, 2**60, 2**60, one_disk=True), records=1_000_000)
    assert small["warning"].startswith("This machine has 1 MiB of memory, which is less than")
    census = synthetic_census(SyntheticPopulation(households=40_000, states=["10", "44"]), name="town", cap={"rho": 1})
    generated = Planner(tmp_path / "generated", PHSafe(phsafe.declaration), census).page()
    assert generated["expected size"].startswith("147,721 records, ")
    assert {"expected time", "expected memory", "expected disk"} <= set(generated)


def test_the_plan_is_public_and_reads_nothing(phsafe: Planner) -> None:
    (spec,) = phsafe.asset.specs
    assert spec.tags[ZONE] == Zone.PUBLIC.value
    assert not spec.deps
    assert phsafe.asset.required_resource_keys <= {"warehouse", "ledger", "io_manager"}


def test_a_curve_is_a_png_of_the_usual_width_and_the_same_every_time() -> None:
    curve = Curve("A curve", "x", "y", {"one": [(1, 2), (10, 3)], "two": [(1, 3)]}, [("planned", 2, 2.5)], log_x=True)
    once, again = draw_curve(curve), draw_curve(curve)
    assert once.startswith(b"\x89PNG")
    assert int.from_bytes(once[16:20], "big") == 1080
    assert once == again
