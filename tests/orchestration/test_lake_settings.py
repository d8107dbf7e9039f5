"""Claims about the settings of a lake, and about the additional parts of a deployment in a cluster."""

from pathlib import Path

import dagster as dg
import pytest

from assets.release.release import DeclarationError
from assets.retention import RETENTION_KEY
from orchestration.backup import BackupError, back_up, restore
from orchestration.environment import deployment_resources, find_lake_paths
from orchestration.jobs import retention_automation
from orchestration.release_definitions import without_configuration
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Table
from resources.warehouse import Warehouse
from tests.lake import ZONES, make_lake
from tests.postgres import Server


def cluster(monkeypatch: pytest.MonkeyPatch, confidential: str, public: str) -> None:
    monkeypatch.setenv("STIRRED_DEPLOYMENT", "cluster")
    monkeypatch.setenv("STIRRED_LEDGER", "file")
    monkeypatch.setenv("STIRRED_LAKE_CONFIDENTIAL", confidential)
    monkeypatch.setenv("STIRRED_LAKE_PUBLIC", public)


def test_a_deployment_on_files_has_no_lake_whatever_else_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STIRRED_LAKE_CONFIDENTIAL", "/srv/lake")
    assert find_lake_paths() == {}


@pytest.mark.parametrize(
    "places", [("/srv/one", "/srv/two/"), ("s3://a-bucket", "s3://b.bucket/a/b"), ("/c", "s3://ab/c")]
)
def test_data_paths_are_folders_or_places_on_an_s3_server(
    monkeypatch: pytest.MonkeyPatch, places: tuple[str, str]
) -> None:
    cluster(monkeypatch, *places)
    assert find_lake_paths() == {
        zone: f"{place.rstrip('/')}/" for zone, place in zip(("confidential", "public"), places, strict=True)
    }


@pytest.mark.parametrize(
    "place",
    [
        "",
        "/",
        "srv/lake",
        "http://host/lake",
        "s3://",
        "s3://lake?s3_secret_access_key=x",
        "/srv/*/lake",
        "/srv/other/in",
        "/srv/published",
    ],
)
def test_an_impossible_data_path_is_refused_naming_the_setting(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Wrong program: a retention that mistakes the data files of publications for files of killed writers."""
    monkeypatch.setenv("STIRRED_PUBLISHED", "/srv/published/tables")
    cluster(monkeypatch, place, "/srv/other")
    with pytest.raises(DeclarationError, match="STIRRED_LAKE_CONFIDENTIAL"):
        find_lake_paths()


@pytest.mark.parametrize(
    ("confidential", "public", "refusal"),
    [
        ("link", "other", "STIRRED_PUBLISHED is inside STIRRED_LAKE_CONFIDENTIAL"),
        ("other", "other/../web", "STIRRED_PUBLISHED is inside STIRRED_LAKE_PUBLIC"),
        ("link/published/lake", "other", "STIRRED_LAKE_CONFIDENTIAL is inside STIRRED_PUBLISHED"),
        ("other", "to_other/in", "not apart"),
    ],
)
def test_data_paths_are_compared_without_links(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, confidential: str, public: str, refusal: str
) -> None:
    """Wrong program: one that compares texts, so that its retention deletes publications behind a link."""
    for folder, link in (("web", "link"), ("other", "to_other")):
        (tmp_path / folder).mkdir()
        (tmp_path / link).symlink_to(folder)
    monkeypatch.setenv("STIRRED_PUBLISHED", str(tmp_path / "web" / "published"))
    cluster(monkeypatch, str(tmp_path / confidential), str(tmp_path / public))
    with pytest.raises(DeclarationError, match=refusal):
        find_lake_paths()


def test_a_cluster_needs_no_more_than_its_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster(monkeypatch, "s3://bucket/confidential", "s3://bucket/public")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://host:8333")
    resources = deployment_resources(tmp_path)
    warehouse, custody = resources["warehouse"], resources["custody"]
    assert isinstance(warehouse, Warehouse)
    assert isinstance(custody, Custody)
    assert custody.lake == warehouse.lake
    assert warehouse.lake == {"confidential": "s3://bucket/confidential/", "public": "s3://bucket/public/"}
    assert warehouse.object_storage == "http://host:8333"


def test_a_lake_is_not_backed_up_or_restored_in_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster(monkeypatch, str(tmp_path / "one"), str(tmp_path / "two"))
    ledger = deployment_resources(tmp_path / "home")["ledger"]
    assert isinstance(ledger, Ledger)
    with pytest.raises(BackupError, match="nothing was backed up, because zones of this deployment are in a lake"):
        back_up(ledger, tmp_path / "published", tmp_path / "backup")
    with pytest.raises(BackupError, match="nothing was restored, because zones of this deployment are in a lake"):
        restore(tmp_path / "backup", tmp_path / "home", tmp_path / "published")
    assert not list(tmp_path.iterdir())


def test_what_only_a_cluster_has_loads_as_a_code_location_loads_it(tmp_path: Path) -> None:
    warehouse = Warehouse(folder=str(tmp_path))
    resources = without_configuration({"warehouse": warehouse})
    dg.Definitions.validate_loadable(dg.Definitions.merge(retention_automation(), dg.Definitions(resources=resources)))


@pytest.mark.prove
def test_retention_deletes_what_was_replaced_and_says_how_much(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: keeps replaced files of the public zone forever."""
    made = make_lake(postgres, tmp_path)
    made.name_services(monkeypatch)
    warehouse, tables = made.warehouse(), [Table(zone, "village", "units") for zone in ZONES]
    for table in tables:
        for number in range(3):
            with warehouse.session(writes=table.zone) as session:
                session.create(table, "warehouse/label", {"text": f"state {number}"}, column="value")
        # Two days later.
        made.catalog(table.zone, "UPDATE ducklake_snapshot SET snapshot_time = snapshot_time - INTERVAL '2 days'")
    custody = Custody(folder=str(tmp_path / "custody"), databases=warehouse.folder)
    resources = {"warehouse": warehouse, "custody": custody}
    whole = dg.Definitions.merge(retention_automation(), dg.Definitions(resources=without_configuration(resources)))
    job = whole.resolve_job_def("delete_replaced")
    found = []
    for _ in range(2):
        result = job.execute_in_process(instance=dg.DagsterInstance.ephemeral())
        (event,) = result.asset_materializations_for_node("retention")
        assert event.asset_key == RETENTION_KEY
        found.append({name: each.value for name, each in event.metadata.items()})
    assert found[0]["files deleted"] == 2 * len(ZONES)
    assert found[0]["bytes deleted"] > 400
    assert found[1] == {"files deleted": 0, "bytes deleted": 0}
    with warehouse.session(reads=ZONES) as session:
        for table in tables:
            assert session.row("warehouse/labelled", table=table, column="value") == ("state 2",)
    (schedule,) = whole.schedules or ()
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
