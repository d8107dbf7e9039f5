"""The parts of a deployment that an attacker can see, and the hashes to try, for the tests that play the attacker.

This module collects all public content and computes the plain hashes that any attacker would try. The tests of each
kind of release make its specific guesses.
"""

import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import md5, sha1, sha256, sha512
from typing import Any, TypeVar

import dagster as dg
import duckdb
import pandas as pd
import pytest
from dagster_shared.serdes import serialize_value

from assets.release.release import Release
from resources.statements import Zone
from resources.warehouse import Session
from tests.deployments import Deployment

R = TypeVar("R", bound=Release)

HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{12,128}(?![0-9a-f])")
"""Hexadecimal hashes and prefixes of them: a shortened id is just as useful to an attacker who tries candidates."""

GROUPED = re.compile(r"(?<=[0-9a-f]{16}) (?=[0-9a-f]{16})")
"""The blanks between the groups of a hash shown in full."""

OF_CONTENT = ("content_sums", "version_of_sums")
"""What a session computes for a content version, of which some versions need only one."""

GUESSED_KEYS = (b"", b"\0" * 32, b"stirred", b"0" * 64)


def on_disk(deployment: Deployment[R]) -> Deployment[R]:
    """The deployment with a Dagster instance that stores on disk, in the deployment's folder."""
    (deployment.root / "dagster").mkdir(exist_ok=True)
    deployment.instance = dg.DagsterInstance.local_temp(str(deployment.root / "dagster"))
    return deployment


def in_the_open(deployment: Deployment[Any]) -> str:
    """Everything visible without access to the confidential zone and the custody."""
    shown = [content.decode("utf-8", "replace") for content in deployment.published().values()]
    shown += [pd.read_parquet(path).to_csv() for path in deployment.release.folder.glob("*.parquet")]
    for zone in ("public", "ledger"):
        with duckdb.connect(str(deployment.context.warehouse.path(Zone(zone))), read_only=True) as connection:
            names = connection.execute(
                "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = $zone", {"zone": zone}
            ).fetchall()
            assert names
            shown += [connection.table(f'{zone}."{schema}"."{name}"').df().to_csv() for schema, name in names]
    return "\n".join([*shown, *kept_by_dagster(deployment)])


def kept_by_dagster(deployment: Deployment[Any]) -> list[str]:
    """Every event and run that the instance returns, and every file of its storage, including logs."""
    runs = deployment.instance.get_runs()
    events = [serialize_value(event) for run in runs for event in deployment.instance.all_logs(run.run_id)]
    assert events
    files = [path for path in (deployment.root / "dagster").rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files) == deployment.instance.is_persistent
    return [
        *events,
        *[serialize_value(run) for run in runs],
        *[path.read_bytes().decode("utf-8", "replace") for path in files],
    ]


def hashes_shown(deployment: Deployment[Any]) -> set[str]:
    """All hashes except those of Dagster's snapshots of jobs and plans, which depend on the code, and vary between
    builds with the order in which Dagster iterates over its own sets.
    """
    runs = deployment.instance.get_runs()
    of_the_code = {snapshot for run in runs for snapshot in (run.job_snapshot_id, run.execution_plan_snapshot_id)}
    shown = in_the_open(deployment)
    # Pages show hashes in groups of digits.
    return {*HEX.findall(shown), *HEX.findall(GROUPED.sub("", shown))} - of_the_code


def shows(shown: set[str], computed: set[str]) -> bool:
    """Whether one of the computed hashes is shown, in full or as a prefix."""
    return any(hash_.startswith(seen) or seen in hash_ for hash_ in computed for seen in shown if len(seen) >= 12)


def plainly_hashed(content: bytes) -> Iterator[str]:
    for plain in (sha256, sha1, md5, sha512):
        yield plain(content).hexdigest()
    for key in GUESSED_KEYS:
        yield hmac.new(key, content, sha256).hexdigest()


def forget_keys(monkeypatch: pytest.MonkeyPatch, versions: Sequence[str]) -> None:
    """Let sessions compute some versions without a key."""
    for version in versions:
        keyed = getattr(Session, version)
        monkeypatch.setattr(Session, version, lambda self, content, key=None, keyed=keyed: keyed(self, content))


def find_suspects(
    shown: set[str],
    candidates: Sequence[Deployment[R]],
    guesses: Callable[[Deployment[R], Sequence[bytes | None]], Iterable[str]],
    version_keys: Sequence[bytes | None],
) -> list[int]:
    """The numbers of the candidates, the attacker's own deployments with a guessed record each, for which one of the
    hashes is shown that he computes under some keys."""
    return [number for number, own in enumerate(candidates) if shows(shown, set(guesses(own, version_keys)))]


def read_outputs(deployment: Deployment[Any], stages: Sequence[str]) -> list[str]:
    """The output of some stages, all evaluated checks, and all public tables, with hashes and runs blotted out."""
    said, runs = list[str](), deployment.instance.get_runs()
    for stage in stages:
        event = deployment.instance.get_latest_materialization_event(deployment.key(stage))
        assert event
        assert event.asset_materialization
        said += [f"{stage}: {name}: {value.value}" for name, value in event.asset_materialization.metadata.items()]
    for run in runs:
        for record in deployment.instance.all_logs(run.run_id):
            if record.dagster_event and record.dagster_event.event_type_value == "ASSET_CHECK_EVALUATION":
                check = record.dagster_event.asset_check_evaluation_data
                figures = {name: value.value for name, value in check.metadata.items()}
                said.append(f"{check.check_name}: {check.passed} {check.description} {figures}")
    with deployment.opened() as connection:
        tables = sorted(name for (name,) in connection.execute("SHOW TABLES").fetchall())
        assert tables
        said += [f"{name}: {connection.table(name).fetchall()}" for name in tables]
    blotted = "|".join(run.run_id for run in runs)
    return [HEX.sub("…", re.sub(blotted, "…", text)).replace(str(deployment.root), "") for text in said]


def tells(shown: str, value: str) -> bool:
    """Whether a value is shown separately, and not as digits of a time or of a run's id."""
    return re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.])", shown) is not None
