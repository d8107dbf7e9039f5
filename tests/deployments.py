"""A small deployment for tests: a dataset and a release on it, in separate files, run through Dagster.

This module has the helpers that the tests of all kinds of release share, and the deployment of a release by permutation
swapping. `phsafe_deployments` and `topdown_deployments` have other deployments. There are no mocks: CSV files, DuckDB
files and the Dagster instance are real.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, TypeVar, cast

import dagster as dg
import duckdb

from assets.confidentiality import list_nodes
from assets.gates.shared import all_gates
from assets.release.dataset import DatasetDeclaration
from assets.release.gate import ReleaseContext
from assets.release.release import Release
from assets.swapping.declaration import SwappingDeclaration
from assets.swapping.release import SwappingRelease
from orchestration.components.dataset import Dataset
from orchestration.components.release import ReleaseComponent
from orchestration.components.swapping import PermutationSwapping
from orchestration.definitions import budget
from orchestration.release_definitions import without_configuration
from resources.chain import Entry
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.packing import with_packing
from tests.templates import MASTER_KEY, reuse
from tests.whole_repository import known

COUNTIES = ("Avon", "Brent", "Cairn")

UNITS = {
    "serial": {"type": "integer", "role": "key"},
    "region": {"type": "string", "role": "geography", "values": ["N", "S"]},
    "county": {"type": "string", "role": "geography", "values": list(COUNTIES)},
    "size": {"type": "integer", "minimum": 1, "maximum": 9},
    "tenure": {"type": "string", "values": {"own": "Owned", "rent": "Rented"}},
}
PERSONS = {
    "household": {"type": "integer", "role": "unit"},
    "age": {"type": "integer", "minimum": 0, "maximum": 115},
    "sex": {"type": "string", "values": ["f", "m"]},
}
PRODUCTS = [
    {"name": "tenure_by_county", "geography": ["county"], "dimensions": ["tenure"], "totals": ["tenure"]},
    {"name": "size_by_county", "geography": ["county"], "dimensions": ["size"], "totals": ["size", "county"]},
]
PERSON_PRODUCTS = [
    *PRODUCTS,
    {"name": "age_by_county", "of": "persons", "geography": ["county"], "dimensions": ["sex", "age"], "zeros": False},
    {"name": "sex_by_tenure", "of": "persons", "dimensions": ["sex", "tenure"], "totals": ["sex"]},
]


def households(count: int = 120) -> list[dict[str, Any]]:
    """Households whose variables follow from plain arithmetic."""
    return [
        {
            "serial": number,
            "region": "NS"[number % 2],
            "county": COUNTIES[number * 7 % 11 % 3],
            "size": 1 + number % 4,
            "tenure": ("own", "rent")[number * 5 % 7 % 2],
        }
        for number in range(1, count + 1)
    ]


def members(units: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The persons of households, as many as each household's size."""
    return [
        {"household": unit["serial"], "age": (unit["serial"] * 13 + 29 * person) % 90, "sex": "fm"[person % 2]}
        for unit in units
        for person in range(unit["size"])
    ]


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a source file."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


R = TypeVar("R", bound=Release)


@dataclass
class Deployment(Generic[R]):
    """A dataset, a release, and their assets and resources, all in one folder."""

    root: Path
    context: ReleaseContext[R]
    definitions: dg.Definitions
    instance: dg.DagsterInstance
    declared: str
    """All declarations, as a text that differs between deployments of different declarations."""
    authorization: Mapping[str, str] | None = None
    """The configuration that runs give to the release's charge, if any."""
    reached: dict[str, str] = field(default_factory=dict)
    """The data versions that `reach` took over."""

    @property
    def release(self) -> R:
        return self.context.release

    def run(self, *stages: str, raise_on_error: bool = True, checks: bool | None = None) -> dg.ExecuteInProcessResult:
        """Run the whole release, or the assets of some stages.

        Args:
            checks: whether the checks of the assets run; by default, the checks of a whole release, and of stages in a
                run that may fail. A publication evaluates every gate, whether or not its check ran.
        """
        if checks is None:
            checks = not (stages and raise_on_error)
        return self.run_assets(*map(self.key, stages), raise_on_error=raise_on_error, checks=checks)

    def reach(self, *stages: str) -> None:
        """Provide the files as after a run of these stages, or of all: copied from a first run of another test, if any.

        The Dagster instance then has no events of it; `versions` knows the data versions. Files are not copied after an
        earlier run, or for a lake, whose tables are elsewhere.
        """
        if (self.root / "warehouse").exists() or self.context.warehouse.lake:
            self.run(*stages)
            return

        def make() -> dict[str, str]:
            self.run(*stages)
            return self.versions()

        self.reached = reuse(self.root, repr((self.declared, stages, self.authorization)), make)

    def run_assets(
        self, *keys: dg.AssetKey, raise_on_error: bool = True, checks: bool = True
    ) -> dg.ExecuteInProcessResult:
        """Run some assets, with their checks or without, of this release or of another one in the deployment."""
        return self._execute("release", keys, raise_on_error, checks)

    def failed_checks(self) -> set[str]:
        """Run every asset check separately on the stored tables. Returns the names of those that fail."""
        result = self._execute("checks", [], raise_on_error=False)
        found = result.get_asset_check_evaluations()
        steps = {event.step_key for event in result.all_events if event.is_step_failure}
        crashed = {check.name for check in self._checks() if any(step.endswith(f"_{check.name}") for step in steps)}
        return crashed | {evaluation.check_name for evaluation in found if not evaluation.passed}

    def _checks(self) -> list[dg.AssetCheckKey]:
        return sorted(self.definitions.resolve_asset_graph().asset_check_keys)

    def _execute(
        self, job: str, keys: Sequence[dg.AssetKey], raise_on_error: bool, checks: bool = True
    ) -> dg.ExecuteInProcessResult:
        repository = self.definitions.get_repository_def()
        op = "__".join(self.release.key("charge").path)
        given = {"ops": {op: {"config": dict(self.authorization)}}} if self.authorization else {}
        definition = repository.get_job(job)
        if not checks:
            definition = definition.get_subset(asset_selection=set(keys), asset_check_selection=set())
        with known(repository):
            return definition.execute_in_process(
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}, **given},
                instance=self.instance,
                asset_selection=list(keys) if keys and checks else None,
                raise_on_error=raise_on_error,
            )

    def refusal(self, *stages: str) -> str:
        """The messages of the first failed step of a run that must fail, including their causes.

        Raises:
            AssertionError: if the run succeeds.
        """
        result = self.run(*stages, raise_on_error=False)
        assert not result.success, "the run was to fail, and did not"
        (failed, *_) = (event for event in result.all_events if event.is_step_failure)
        error = failed.step_failure_data.error
        metadata = failed.step_failure_data.user_failure_data
        said = [f"{failed.step_key}:", (metadata.description or "") if metadata else ""]
        while error:
            said.append(error.message)
            error = error.cause
        return "\n".join(said)

    def executed(self, result: dg.ExecuteInProcessResult) -> set[str]:
        """The stages whose assets a run materialized."""
        return {event.asset_key.path[-1] for event in result.get_asset_materialization_events() if event.asset_key}

    def key(self, stage: str) -> dg.AssetKey:
        """The asset key of a stage of the release or the dataset, of the ledger, or of the dataset's composition."""
        others = {"ledger": dg.AssetKey(["ledger"]), "composition": dg.AssetKey([self.release.dataset.name, stage])}
        return others.get(stage) or self.release.key(stage)

    def published(self) -> dict[str, bytes]:
        """The files of the published edition by name; empty without a publication."""
        folder = self.release.folder
        files = [path for path in sorted(folder.iterdir()) if path.is_file()] if folder.exists() else []
        return {path.name: path.read_bytes() for path in files}

    def versions(self) -> dict[str, str]:
        """The instance's data version of every materialized asset."""
        found = dict(self.reached)
        for key in self.definitions.resolve_asset_graph().get_all_asset_keys():
            version = data_version(self.instance, key)
            if version:
                found[key.to_user_string()] = version
        return found

    @property
    def ledger(self) -> tuple[Entry, ...]:
        """The ledger's entries."""
        return self.context.ledger.entries()

    @contextmanager
    def opened(self, zone: str = "public") -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection to a zone's file that bypasses every safeguard, in the release's schema, with the functions of
        `packing`."""
        with with_packing(duckdb.connect(str(self.context.warehouse.path(Zone(zone))))) as connection:
            if zone == "public":
                connection.execute(f"USE public.{self.release.schema}")
            yield connection


def resources_of(warehouse: Warehouse, custody: Custody) -> dict[str, Any]:
    """The resources of a deployment's stages, by the names that these ask for."""
    return {"warehouse": warehouse, "custody": custody, "ledger": Ledger(warehouse=warehouse, custody=custody)}


def data_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> str | None:
    """The data version of an asset's latest materialization; None if there is none."""
    event = instance.get_latest_materialization_event(key)
    materialization = event.asset_materialization if event else None
    return (materialization.tags or {}).get("dagster/data_version") if materialization else None


def first_failing(deployment: Deployment[Any], failing: set[str]) -> set[str]:
    """The failing gates of the first stage that has any. Gates of later stages depend on it and are not evaluated."""
    gates = all_gates(deployment.context.method)
    stages = [gate.stage for gate in gates if gate.name in failing]
    return {gate.name for gate in gates if gate.stage == stages[0]} & failing


def refuses_to_publish(deployment: Deployment[Any], failing: set[str], says: str, *stages: str) -> None:
    """Assert that publishing fails, names exactly the failing gates, and leaves the earlier publication unchanged."""
    before, ledger = deployment.published(), deployment.ledger
    folders = sorted(deployment.release.folder.parent.iterdir())
    refusal = deployment.refusal(*(stages or ("publication",)))
    assert refusal.startswith(f"{deployment.release.schema}__publication:")
    named = {gate.name for gate in all_gates(deployment.context.method) if f"{gate.name}: " in refusal}
    assert (says and says in refusal) or named == first_failing(deployment, failing)
    assert deployment.published() == before != {}
    assert sorted(deployment.release.folder.parent.iterdir()) == folders, "nothing is left half-way"
    assert deployment.ledger == ledger


# The stages that a publication needs. A run of all stages takes twice as long, most of it for pictures.
TO_PUBLICATION = ("cef", "invariants", "charge", "swapped", "tables", "publication")


SHOWN = ("ledger", "composition")
"""The pages of the budget. A publication does not need them, but `failed_checks` runs their checks too."""


def small_dataset(root: Path, *, with_persons: bool = False, **changes: Any) -> DatasetDeclaration:
    """The declaration of the small dataset."""
    declared: dict[str, Any] = {
        "name": "village",
        "title": "A village",
        "reader": "csv",
        "record_name": "household",
        "cap": 40,
        "charging": "automatic",
        "units": {"path": str(root / "units.csv"), "columns": UNITS},
    }
    if with_persons:
        declared["persons"] = {"path": str(root / "persons.csv"), "columns": PERSONS}
    return DatasetDeclaration.model_validate(declared | changes)


def deploy(
    root: Path, dataset: DatasetDeclaration, component: ReleaseComponent, *beside: ReleaseComponent
) -> Deployment[Any]:
    """A deployment of a dataset and its releases, with resources below its folder, before any run.

    Args:
        root: the folder.
        dataset: as declared; its source files exist.
        component: the release under test.
        beside: other releases of the dataset.
    """
    warehouse = Warehouse(folder=str(root / "warehouse"), threads=1)
    custody = Custody(folder=str(root / "custody"), databases=warehouse.folder, variable=MASTER_KEY)
    ledger = Ledger(warehouse=warehouse, custody=custody)
    data, releases = Dataset(dataset), [component, *beside]
    # The only parts of the load context that components use.
    tree = SimpleNamespace(get_all_components=lambda kind: [data] if isinstance(data, kind) else [])
    context = cast(dg.ComponentLoadContext, SimpleNamespace(project_root=root, component_tree=tree))
    whole = dg.Definitions.merge(
        *(each.build_defs(context) for each in [data, *releases]),
        budget([dataset], releases),
        dg.Definitions(
            resources=without_configuration({"warehouse": warehouse, "custody": custody, "ledger": ledger}),
            jobs=[
                dg.define_asset_job("release", selection=dg.AssetSelection.all()),
                dg.define_asset_job("checks", selection=dg.AssetSelection.all_asset_checks()),
            ],
            executor=dg.in_process_executor,
        ),
    )
    declared = repr([dataset, *((type(each), each.release(dataset, root / "published")) for each in releases)])
    assert " at 0x" not in declared, "every declaration has its fields in its text"
    method = component.method(component.release(dataset, root / "published"))
    release_context = ReleaseContext(method, warehouse, custody, ledger, list_nodes(whole.resolve_all_asset_specs()))
    return Deployment(root, release_context, whole, dg.DagsterInstance.ephemeral(), declared)


def small_release(dataset: DatasetDeclaration, **changes: Any) -> PermutationSwapping:
    """The declaration of the small release."""
    declared: dict[str, Any] = {
        "name": "counties",
        "dataset": dataset.name,
        "title": "Households by county",
        "match": ["region", "size"],
        "swap": ["county"],
        "swap_rate": "1/3",
        "publishes_unique_records": "accepted",
        "products": PERSON_PRODUCTS if dataset.persons else PRODUCTS,
    }
    return PermutationSwapping(SwappingDeclaration.model_validate(declared | changes))


def small_deployment(
    root: Path,
    *,
    persons: bool | Sequence[Mapping[str, Any]] = False,
    dataset: Mapping[str, Any] | None = None,
    units: Sequence[Mapping[str, Any]] | None = None,
    **changes: Any,
) -> Deployment[SwappingRelease]:
    """A small deployment with its source files, before any run.

    Args:
        root: a new or empty folder, or one with the files of another small deployment, which is then continued.
        persons: the persons, or whether households have the usual ones.
        dataset: changes to the dataset's declaration.
        units: the households, if not the usual ones.
        changes: to the release's declaration.
    """
    rows = units if units is not None else households()
    root.mkdir(exist_ok=True)
    write_csv(root / "units.csv", rows)
    if persons:
        write_csv(root / "persons.csv", members(rows) if persons is True else persons)
    declared = small_dataset(root, with_persons=bool(persons), **(dataset or {}))
    return deploy(root, declared, small_release(declared, **changes))
