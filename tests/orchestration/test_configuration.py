"""Claims about a run's configuration: it reaches no resource, and only assets that take a configuration."""

import json
import resource
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.release.release import DeclarationError
from orchestration import datasets
from orchestration.definitions import defs
from orchestration.environment import deployment_resources
from orchestration.launch import OF_DATASET
from resources.custody import CustodyError
from resources.ledger import Ledger
from resources.statements import Zone
from tests.deployments import small_deployment

RESOURCES = {
    "custody": {"folder": "elsewhere", "databases": "elsewhere", "variable": "ANOTHER"},
    "warehouse": {"folder": "elsewhere", "memory_limit": "1GiB", "threads": 1, "spill_folder": "elsewhere"},
    "ledger": {"warehouse": {}, "custody": {}},
    "io_manager": {"base_dir": "elsewhere"},
}


@pytest.fixture(params=["demo", "small"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> dg.RepositoryDefinition:
    built = defs() if request.param == "demo" else small_deployment(tmp_path / "small").definitions
    return built.get_repository_def()


def refusal(job: dg.JobDefinition, run_config: dict[str, Any]) -> str:
    with pytest.raises(dg.DagsterInvalidConfigError) as caught:
        dg.validate_run_config(job, run_config)
    return str(caught.value)


@pytest.mark.prove
def test_every_key_that_no_asset_check_or_resource_takes_is_refused_in_every_job(
    repository: dg.RepositoryDefinition,
) -> None:
    """Wrong program: an operation of any job without a schema, which accepts and ignores any configuration."""
    jobs = repository.get_all_jobs()
    asked: set[str] = set()
    for job in jobs:
        names = [node.name for node in job.nodes]
        said = refusal(job, {"ops": {name: {"config": {"cap": 100}} for name in names}})
        assert [name for name in names if f"root:ops:{name}:config" not in said] == []
        asked.update(names)
        for name, fields in RESOURCES.items():
            for field, value in fields.items():
                said = refusal(job, {"resources": {name: {"config": {field: value}}}})
                assert f'unexpected config entry "{field}" at path root:resources:{name}:config' in said
        for executor in ("dask", "celery", "multiprocess"):
            said = refusal(job, {"execution": {"config": {executor: {}}}})
            assert f'unexpected config entry "{executor}" at path root:execution:config' in said
    graph = repository.asset_graph
    assert len(jobs) > 1
    assert {"__".join(key.path) for key in graph.materializable_asset_keys} <= asked
    for check in graph.asset_check_keys:
        asset = "__".join(check.asset_key.path)
        assert {f"{asset}_{check.name}", f"{asset}__gates"} & asked, check


@pytest.mark.parametrize("published", ["site", "link", "site/var"])
def test_no_key_lies_among_the_publications(published: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong program: copies the master key and the records into a backup without keys, as if they were published."""
    (tmp_path / "site/var").mkdir(parents=True)
    (tmp_path / "link").symlink_to("site")
    monkeypatch.setenv("STIRRED_HOME", str(tmp_path / "site/var"))
    monkeypatch.setenv("STIRRED_PUBLISHED", str(tmp_path / published))
    with pytest.raises(DeclarationError, match="STIRRED_HOME is inside STIRRED_PUBLISHED"):
        deployment_resources(tmp_path / "site/var")


def test_a_run_with_other_folders_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """Earlier, such a run made a new master key, published over the release, and certified it."""
    deployment = small_deployment(tmp_path / "release")
    before = sorted(tmp_path.rglob("*"))
    for name in ("custody", "warehouse"):
        config = {"resources": {name: {"config": {"folder": str(tmp_path / "elsewhere")}}}}
        with pytest.raises(dg.DagsterInvalidConfigError):
            deployment.definitions.get_repository_def().get_job("release").execute_in_process(
                run_config=config, instance=deployment.instance
            )
    assert sorted(tmp_path.rglob("*")) == before


def test_the_deployments_custody_knows_its_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    resources = deployment_resources(tmp_path)
    with resources["warehouse"].session(writes=Zone.CONFIDENTIAL):
        pass
    with pytest.raises(CustodyError, match=r"confidential\.duckdb exists in .*, but master\.key .* are missing"):
        resources["custody"].version_key()


def test_a_process_that_can_read_the_master_key_leaves_no_core_file(tmp_path: Path) -> None:
    """The process may read the key long before it opens a session, as Dagster's code server does. A crash left the key
    in a file."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    deployment_resources(tmp_path)
    assert resource.getrlimit(resource.RLIMIT_CORE) == (1, most)


@pytest.mark.parametrize("threads", ["many", "-1", "", "²"])
def test_a_setting_that_is_no_number_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    monkeypatch.setenv("STIRRED_THREADS", threads)
    with pytest.raises(DeclarationError, match="STIRRED_THREADS is not a number of threads"):
        deployment_resources(tmp_path)


def test_a_time_authority_is_named_with_the_file_of_its_root_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file alone verifies earlier stamps."""
    monkeypatch.setenv("STIRRED_TIME_AUTHORITY", "http://clock.example/tsr")
    with pytest.raises(DeclarationError, match="STIRRED_TIME_AUTHORITY_ROOT is not a file with the root certificate"):
        deployment_resources(tmp_path)
    (tmp_path / "root.pem").touch()
    monkeypatch.setenv("STIRRED_TIME_AUTHORITY_ROOT", str(tmp_path / "root.pem"))
    for address in ("http://clock.example/tsr", ""):
        monkeypatch.setenv("STIRRED_TIME_AUTHORITY", address)
        ledger = deployment_resources(tmp_path)["ledger"]
        assert isinstance(ledger, Ledger)
        assert (ledger.time_authority, ledger.time_authority_root) == (address, str(tmp_path / "root.pem"))


@pytest.mark.deep
@pytest.mark.parametrize("number", [1, pytest.param(5, marks=pytest.mark.prove)])
def test_the_jobs_of_a_dataset_alone_are_those_of_the_whole_deployment(number: int) -> None:
    """A launch that left out a stage, a check or an order of them would be noticed here only."""

    def in_order(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: in_order(part) for name, part in value.items()}
        return sorted(map(in_order, value), key=repr) if isinstance(value, list) else value

    def describe(job: dg.JobDefinition) -> list[Any]:
        snapshot = in_order(json.loads(dg.serialize_value(job.get_job_snapshot())))
        return [snapshot, job.run_tags, job.executor_def.name, sorted(job.resource_defs)]

    sources = [spec.key.path[0] for spec in defs().resolve_all_asset_specs() if spec.key.path[-1] == "cef"]
    assert len(sources) == 5
    jobs = [job for job in defs().resolve_all_job_defs() if "__" in job.name.strip("_")]
    others = tuple(f"{name}__" for name in sources[number:])
    whole = {job.name: describe(job) for job in jobs if not any(other in job.name for other in others)}
    parts: dict[str, list[Any]] = {}
    for name in sources[:number]:
        jobs = getattr(datasets, f"{OF_DATASET}{name}").resolve_all_job_defs()
        parts |= {job.name: describe(job) for job in jobs if not job.name.startswith("__")}
    assert parts == whole


def test_the_stages_of_a_release_are_one_group() -> None:
    """It fails for a stage in its own group, which splits the graph of the release."""
    for spec in defs().resolve_all_asset_specs():
        if len(spec.key.path) == 3:
            assert spec.group_name == "__".join(spec.key.path[:2])


def test_a_deployment_that_defines_more_than_datasets_and_releases_is_loaded_whole(tmp_path: Path) -> None:
    """A check of its own blocks a launch from the command line too."""
    (tmp_path / "__init__.py").touch()
    for dataset, name in (("town", "town"), ("town", "swapped"), ("village", "village")):
        folder = tmp_path / dataset / name
        folder.mkdir(parents=True)
        of = "" if name == dataset else f"\n  dataset: {dataset}"
        (folder / "defs.yaml").write_text(f"type: orchestration.components.Any\nattributes:\n  name: {name}{of}\n")
    (tmp_path / "village").rename(tmp_path.with_suffix(".village"))
    (tmp_path / "village").symlink_to(tmp_path.with_suffix(".village"))
    assert datasets.find_folders(tmp_path, "town") == [tmp_path / "town" / "swapped", tmp_path / "town" / "town"]
    assert datasets.find_folders(tmp_path, "village") == [tmp_path / "village" / "village"]
    other = tmp_path / "town" / "checks.py"
    other.write_text("check = 1\n")
    assert datasets.find_folders(tmp_path, "town") is None
    other.unlink()
    (tmp_path / "defs.yaml").write_text("type: dagster.DefsFolderComponent\nattributes: {}\n")
    assert datasets.find_folders(tmp_path, "town") is None
