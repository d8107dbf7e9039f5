"""A release whose ledger is on a PostgreSQL server: the same draws and bytes, gates and backups as with a file."""

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from orchestration.backup import BackupError, back_up, restore
from orchestration.cli import main
from orchestration.environment import deployment_resources
from resources.custody import Custody
from resources.ledger import Ledger, LedgerError
from resources.warehouse import Warehouse
from tests import deployments
from tests.contract.kinds import KINDS, Kind, to_publication
from tests.deployments import Deployment
from tests.depth import deep_cases
from tests.postgres import OWNER, Database, Server, logged_in
from tests.resources.test_ledger import reserve

pytestmark = pytest.mark.deep


@pytest.fixture
def database(postgres: Server) -> Iterator[Database]:
    found = postgres.migrated()
    with logged_in(found.environment()):
        yield found


@pytest.fixture(params=["laplace tables", "swapping"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    monkeypatch.setenv("STIRRED_TEST_MASTER_KEY", "ab" * 32)
    return KINDS[request.param]


def on_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, deployments of tests have their ledger on the server."""
    monkeypatch.setattr(deployments, "Ledger", partial(Ledger, on_server=True))


def published(deployment: Deployment[Any]) -> Deployment[Any]:
    assert deployment.run(*to_publication(deployment.context.method)).success
    return deployment


@deep_cases(1)
def test_a_release_on_a_server_has_the_draw_and_the_data_of_one_on_files(
    database: Database, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only files with the time of the charge or its hash differ: certificate, signature and checksums."""
    in_file = published(kind.build(tmp_path / "file"))
    on_server(monkeypatch)
    made = kind.build(tmp_path / "server")
    made.context.ledger.move_to_server()
    published(made)
    terms = ("sequence", "kind", "dataset", "release", "draw_id", "specification", "commitment", "output_version")
    assert [[getattr(entry, term) for term in terms] for entry in made.ledger] == [
        [getattr(entry, term) for term in terms] for entry in in_file.ledger
    ]
    one, other = in_file.published(), made.published()
    assert one.keys() == other.keys()
    data = [name for name in one if Path(name).suffix in {".csv", ".parquet"}]
    assert data
    assert [name for name in data if one[name] != other[name]] == []


@pytest.mark.prove
def test_a_release_goes_on_after_the_move_with_the_same_bytes_and_without_a_charge(
    database: Database, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_file = published(kind.build(tmp_path))
    files, entries = in_file.published(), in_file.ledger
    # A time stamp, which stays with the custody.
    (in_file.context.custody.private_folder("timestamps") / f"{len(entries)}-{entries[-1].hash}.tsr").touch()
    on_server(monkeypatch)
    moved = kind.build(tmp_path)
    assert moved.context.ledger.move_to_server() == len(entries)
    assert published(moved).published() == files
    assert moved.ledger == entries
    assert moved.context.ledger.verify() == ()


def test_a_backup_needs_a_server_that_ends_where_its_anchor_says(
    postgres: Server, database: Database, tmp_path: Path
) -> None:
    """Wrong program: a backup that waits for the next charge, which waits for it, while it is verified."""

    def resources(home: Path) -> dict[str, Any]:
        warehouse = Warehouse(folder=str(home / "warehouse"), threads=1, patience=10)
        custody = Custody(folder=str(home / "custody"), databases=warehouse.folder)
        ledger = Ledger(warehouse=warehouse, custody=custody, on_server=True)
        return {"warehouse": warehouse, "custody": custody, "ledger": ledger}

    home, published = tmp_path / "home", tmp_path / "published"
    ledger = resources(home)["ledger"]
    ledger.move_to_server()
    reserve(ledger, "first")
    before = postgres.copy(database)
    reserve(ledger, "second")
    back_up(ledger, published, tmp_path / "kept", resources, with_keys=True)
    shutil.rmtree(home)
    with logged_in(before.environment()), pytest.raises(BackupError, match=r"on the server .* 2 to 2 are missing"):
        restore(tmp_path / "kept", home, published, resources)
    assert not (home / "warehouse").exists()
    restore(tmp_path / "kept", home, published, resources)
    assert len(ledger.entries()) == 2
    assert reserve(ledger, "third").sequence == 3
    charging = Thread(target=reserve, args=(ledger, "fourth"))

    def resources_as_one_charges(home: Path) -> dict[str, Any]:
        if charging.ident is None:
            charging.start()
            with psycopg.connect(autocommit=True) as looking:
                while not looking.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
                    time.sleep(0.05)
        return resources(home)

    back_up(ledger, published, tmp_path / "later", resources_as_one_charges)
    charging.join()
    assert len(ledger.entries()) == 4
    shutil.rmtree(home)
    with pytest.raises(BackupError, match=r"restore a later backup"):
        restore(tmp_path / "kept", home, published, resources)
    assert not (home / "warehouse").exists()


def test_the_commands_bring_a_deployment_to_a_server(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STIRRED_HOME", "STIRRED_PUBLISHED", "DAGSTER_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    in_file = deployment_resources(tmp_path / "stirred_home")["ledger"]
    assert isinstance(in_file, Ledger)
    reserve(in_file, "tenure_by_county")

    def stirred(*arguments: str) -> tuple[int, str]:
        found = CliRunner().invoke(main, arguments)
        assert "Traceback" not in found.output
        return found.exit_code, found.output

    empty = postgres.empty()
    with logged_in(empty.environment(OWNER)):
        assert stirred("ledger", "migrate") == (0, "Applied: 0001_entries, 0002_turns.\n")
        assert stirred("ledger", "migrate") == (0, "Nothing to apply: the ledger's schema is up to date.\n")
    with logged_in(empty.environment()):
        code, said = stirred("ledger", "move")
        assert (code, "set STIRRED_LEDGER=postgres" in said) == (1, True)
        assert in_file.verify() == ()
        monkeypatch.setenv("STIRRED_LEDGER", "postgres")
        code, said = stirred("budget")
        assert (code, "was not moved there" in said) == (1, True)
        code, said = stirred("ledger", "move")
        assert (code, "The ledger is on the server, with 1 entries" in said) == (0, True)
        code, said = stirred("budget")
        assert (code, "Ledger, intact" in said, "tenure_by_county" in said) == (0, True, True)
        code, said = stirred("backup", str(tmp_path / "kept"))
        assert (code, "The ledger's entries are not in it" in said) == (0, True)
        monkeypatch.setenv("STIRRED_LEDGER", "file")
        code, said = stirred("budget")
        assert (code, "moved to a server" in said) == (1, True)
        with pytest.raises(LedgerError, match="moved to a server"):
            reserve(in_file, "another")
