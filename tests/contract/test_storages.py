"""A release of every kind is the same on DuckDB files and in a lake: files, draw ids and data versions."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assets.gates.shared import all_gates
from resources import chain
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.contract.kinds import KINDS, to_publication
from tests.deployments import SHOWN, Deployment
from tests.depth import deep_cases
from tests.lake import ZONES, make_lake
from tests.postgres import Server

KEY = "5a" * 32


class Stopped(datetime):
    """A clock that stands still: the time of a charge is all that differs between two runs."""

    @classmethod
    def now(cls, tz: Any = None) -> "Stopped":
        return cls(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("name", KINDS)
def test_a_release_is_the_same_on_files_and_in_a_lake(
    name: str, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every published file is compared, with the certificate, and every data version of an asset."""
    monkeypatch.setenv("STIRRED_TEST_MASTER_KEY", KEY)
    monkeypatch.setattr(chain, "datetime", Stopped)
    on_files = KINDS[name].build(tmp_path / "files")
    run(on_files)
    lake = make_lake(postgres, tmp_path / "kept")
    lake.name_services(monkeypatch)
    monkeypatch.setattr("tests.deployments.Warehouse", partial(Warehouse, lake=lake.data))
    in_lake = KINDS[name].build(tmp_path / "lake")
    run(in_lake)
    assert [entry.draw_id for entry in in_lake.ledger] == [entry.draw_id for entry in on_files.ledger] != []
    assert whatever_the_run(in_lake) == whatever_the_run(on_files)
    of_the_run = {"ledger", f"{in_lake.release.dataset.name}/composition", in_lake.key("publication").to_user_string()}
    versions = [
        {key: of[key] for key in of if key not in of_the_run} for of in (on_files.versions(), in_lake.versions())
    ]
    assert versions[0] == versions[1]
    assert len(versions[0]) >= 5
    # Forged statistics of a catalog change no gate, but of those that read large tables in pieces.
    in_pieces = in_lake.release.adapt(in_lake.context.warehouse).by_statistics
    for zone in () if in_pieces else ZONES:
        for table in ("ducklake_file_column_stats", "ducklake_table_column_stats"):
            lake.catalog(zone, f"UPDATE {table} SET max_value = min_value")
        lake.catalog(zone, "UPDATE ducklake_data_file SET record_count = 1")
    # Those of another release beside it, which was not launched, fail in both.
    assert in_lake.failed_checks() == on_files.failed_checks()
    with in_lake.context.snapshot() as held:
        assert [problem for gate in all_gates(held.method) for problem in gate.evaluate(held)] == []
    assert not in_lake.context.warehouse.path(Zone.PUBLIC).exists()
    require_catalogs_without_data(lake)


def whatever_the_run(deployment: Deployment[Any]) -> dict[str, bytes]:
    """The published files without values that depend on the id of Dagster's run, which is in the ledger's entry."""
    files = deployment.published()
    assert len([name for name in files if name.endswith((".csv", ".parquet"))]) >= 2
    kept = {name: content for name, content in files.items() if not name.startswith(("SHA256SUMS", "certificate.html"))}
    for entry in deployment.ledger:
        kept = {name: content.replace(entry.hash.encode(), b"") for name, content in kept.items()}
    return kept


def run(deployment: Deployment[Any]) -> None:
    deployment.run(*to_publication(deployment.context.method), *SHOWN)


def require_catalogs_without_data(lake: Any) -> None:
    for zone in (Zone.CONFIDENTIAL, Zone.PUBLIC):
        (files, keys) = lake.catalog(zone, "SELECT count(*), count(encryption_key) FROM ducklake_data_file")[0]
        assert files > 0
        assert keys == (files if zone is Zone.CONFIDENTIAL else 0)
        assert lake.catalog(zone, "SELECT * FROM ducklake_inlined_data_tables") == []
