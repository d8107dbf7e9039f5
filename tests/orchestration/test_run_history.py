"""Claims about how a process writes the history of its runs."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import create_engine, text

from orchestration import run_history
from orchestration.launch import prepare_instance
from orchestration.run_history import hold_history


@dg.op
def say() -> None: ...


@dg.job
def talk() -> None:
    say()


@pytest.fixture
def instance(tmp_path: Path) -> dg.DagsterInstance:
    hold_history()
    return dg.DagsterInstance.local_temp(str(tmp_path))


def count_events(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM event_logs").fetchone()[0])


def test_only_the_owner_can_access_the_folder_of_the_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong programs: a folder in which all users of the machine read findings about confidential records; under a
    umask of 000, a folder `var` in which they can replace the folder of the keys."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "var" / "dagster"))
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "")
    umask = os.umask(0)
    try:
        prepare_instance()
    finally:
        os.umask(umask)
    assert (tmp_path / "var" / "dagster").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "var").stat().st_mode & 0o777 == 0o755


def test_the_log_of_a_history_stays_while_its_process_goes_on(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    """Others read it all the same. Wrong programs: connections that have not opened the file, so that SQLite empties
    and removes the log after each event; files that stay open after run upon run; and files that seem older than their
    log, so that the UI shows no event of a run before its end."""
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    runs = [talk.execute_in_process(instance=instance, run_config=quiet).run_id for _ in range(4)]
    history = tmp_path / "history"
    for name in ("runs/index", f"runs/{runs[-1]}"):
        log = history / f"{name}.db-wal"
        assert log.exists()
        assert log.stat().st_size > 0
        assert log.stat().st_mtime_ns <= log.with_suffix(".db").stat().st_mtime_ns
        assert count_events(history / f"{name}.db") > 0
    assert not (history / f"runs/{runs[0]}.db-wal").exists()
    assert len(run_history._held) == run_history._MOST


@pytest.mark.parametrize(("mode", "synchronous"), [("wal", 1), ("delete", 2)])
def test_only_a_file_with_a_log_is_written_without_waiting_for_the_disk(
    tmp_path: Path, mode: str, synchronous: int
) -> None:
    """Others could be damaged by a power failure."""
    hold_history()
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE some (number INTEGER)")
    with create_engine(f"sqlite:///{path}").connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == synchronous
