"""An attacker on an S-DHC release, who knows every record but one and has no custody key.

The counts themselves are confidential, and a keyed version of them names the draw. The attacker searches all that the
deployment shows for a hash that he can compute for a guessed record; then he runs the deployment himself under keys of
his own. Both times he also gets the custody's key, to show that he would have found the record. The last tests compare
words and figures between deployments of other records: before the draw, nothing may depend on the records.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.measurement.grid import IN_ORDER
from assets.measurement.method import COUNTS, BatchedCounts
from assets.phsafe.counts import JOINED, REPORT
from assets.phsafe.release import PHSafeRelease
from resources.custody import canonicalize
from resources.statements import Zone
from tests.attacker import (
    GUESSED_KEYS,
    OF_CONTENT,
    find_suspects,
    forget_keys,
    hashes_shown,
    in_the_open,
    kept_by_dagster,
    on_disk,
    plainly_hashed,
    read_outputs,
    tells,
)
from tests.deployments import Deployment
from tests.depth import deep_cases
from tests.phsafe_deployments import FEW, TO_COUNTS, TO_DRAW, TO_PUBLICATION, Files, census, changed, phsafe_deployment

PHSafeDeployment = Deployment[PHSafeRelease]
RACES = ("01", "02")
"""The possible answers of the unknown person, a householder who lives alone."""

TRUTH = 1


def guessed(race: str) -> Files:
    """All known records, and the guess."""
    alone = next(row["MAFID"] for row in census()["units"] if row["HHT"] == "4")

    def set_race(column: str) -> Callable[[list[dict[str, str]]], None]:
        return lambda rows: [row.update({column: race}) for row in rows if row["MAFID"] == alone].clear()

    return changed(census(), persons=set_race("CENRACE"), units=set_race("HHRACE"))


def build(root: Path, race: str, **changes: Any) -> PHSafeDeployment:
    return on_disk(phsafe_deployment(root, files=guessed(race), runs=FEW, **changes))


pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> PHSafeDeployment:
    """The deployment under attack, after a whole run."""
    deployment = build(tmp_path_factory.mktemp("deployment"), RACES[TRUTH])
    deployment.run(*TO_PUBLICATION, checks=True)
    return deployment


@pytest.fixture(scope="module")
def shown(deployment: PHSafeDeployment) -> set[str]:
    return hashes_shown(deployment)


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[PHSafeDeployment]:
    """The attacker's own deployments, one for every guess, run up to the exact counts."""
    deployments = []
    for race in RACES:
        deployment = phsafe_deployment(tmp_path_factory.mktemp("candidate"), files=guessed(race), runs=FEW)
        deployment.run(*TO_COUNTS, checks=True)
        deployments.append(deployment)
    return deployments


def guesses(deployment: PHSafeDeployment, version_keys: Sequence[bytes | None]) -> Iterator[str]:
    """Every hash that he tries, from a deployment of his own whose records are the guess."""
    release, method, custody = deployment.release, deployment.context.method, deployment.context.custody
    assert isinstance(method, BatchedCounts)
    for path in (deployment.root / name for name in ("persons.csv", "units.csv")):
        text = path.read_bytes()
        for content in (text, text.strip(), text.replace(b"\r\n", b"\n")):
            yield from plainly_hashed(content)
    tables = [release.confidential(name) for name in (JOINED, COUNTS, REPORT)]
    with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        for key in version_keys:
            yield session.content_version(list(release.dataset.cef_tables()), key)
            yield session.content_version(tables, key)
            yield from (session.content_version([table], key) for table in tables)
        yield method.version_of(method.describe(session, custody), method.exact(session))
        counts = session.arrow(IN_ORDER, table=release.confidential(COUNTS))
    values = counts["count"].to_numpy()
    yield from plainly_hashed(values.tobytes())
    for content in (
        canonicalize(values.tolist()),
        str(values.tolist()).encode(),
        json.dumps(counts.to_pylist()).encode(),
    ):
        yield from plainly_hashed(content)


@pytest.mark.prove
def test_no_hash_that_is_shown_can_be_tried_with_a_guessed_record(
    shown: set[str], candidates: list[PHSafeDeployment]
) -> None:
    assert find_suspects(shown, candidates, guesses, [None, *GUESSED_KEYS]) == []


@pytest.mark.prove
def test_with_the_custodys_key_the_very_same_search_finds_the_record(
    deployment: PHSafeDeployment, shown: set[str], candidates: list[PHSafeDeployment]
) -> None:
    assert find_suspects(shown, candidates, guesses, [deployment.context.custody.version_key()]) == [TRUTH]


@pytest.mark.prove
def test_in_a_deployment_that_forgot_its_key_the_attacker_finds_the_record(
    candidates: list[PHSafeDeployment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_keys(monkeypatch, OF_CONTENT)
    careless = build(tmp_path, RACES[TRUTH])
    careless.run(*TO_DRAW, checks=True)
    monkeypatch.undo()
    assert find_suspects(hashes_shown(careless), candidates, guesses, [None]) == [TRUTH]


@pytest.mark.prove
def test_what_names_the_counts_and_the_draw_is_shown_and_differs(deployment: PHSafeDeployment, shown: set[str]) -> None:
    """Otherwise the search would mean nothing. The commitment is the SHA-256 of a key that nobody has."""
    entry, versions = deployment.ledger[0], deployment.versions()
    named = [entry.draw_id, entry.commitment, *(versions[f"town/{stage}"] for stage in ("cef", "s_dhc/counts"))]
    assert len({*named, versions["town/s_dhc/truncated_join"]}) == 5
    assert {*named, versions["town/s_dhc/truncated_join"]} <= shown
    assert not set(plainly_hashed(bytes(32))) & shown


# The second attacker


def imitated(root: Path, race: str, key: str | None, custody: Path | None = None) -> set[str]:
    """All hashes that a deployment of the attacker's own shows for a guess, under a key of his own."""
    with pytest.MonkeyPatch.context() as patch:
        if key:
            patch.setenv("STIRRED_TEST_MASTER_KEY", key)
        deployment = phsafe_deployment(root, files=guessed(race), runs=FEW)
        if custody:
            patch.setenv("STIRRED_TEST_MASTER_KEY", (custody / "master.key").read_text().strip())
        deployment.run("plan", *TO_DRAW, checks=True)
    return hashes_shown(deployment)


@pytest.mark.prove
def test_who_runs_the_deployment_under_guessed_keys_cannot_tell_the_guesses_apart(
    shown: set[str], tmp_path: Path
) -> None:
    """His runs and the deployment share the same hashes for every guess: those that follow from the declaration
    alone."""
    common = [shown & imitated(tmp_path / race, race, "00" * 32) for race in RACES]
    assert common[0], "the parameters' version at least is the same everywhere"
    assert common[0] == common[1]


@pytest.mark.prove
def test_with_the_custody_itself_he_tells_them_apart(
    deployment: PHSafeDeployment, shown: set[str], tmp_path: Path
) -> None:
    draws = {entry.draw_id for entry in deployment.ledger} | {entry.commitment for entry in deployment.ledger}
    custody = deployment.root / "custody"
    found = [draws <= imitated(tmp_path / race, race, None, custody) & shown for race in RACES]
    assert found == [number == TRUTH for number in range(2)]


# Words and figures


BEFORE_THE_DRAW = ("cef", "truncated_join", "counts", "charge", "plan")


def other_records() -> Files:
    """Another census of the same size and states."""
    return census(seed=7)


@pytest.mark.prove
def test_nothing_that_is_shown_before_the_draw_depends_on_the_records(tmp_path: Path) -> None:
    """Neither metadata nor checks nor public tables do, nor the numbers of truncated units and of empty cells."""
    shown = []
    for number, files in enumerate((census(), other_records())):
        deployment = phsafe_deployment(tmp_path / str(number), files=files, runs=FEW)
        deployment.run(*TO_COUNTS, "charge", "plan", checks=True)
        shown.append(read_outputs(deployment, BEFORE_THE_DRAW))
    assert len(shown[0]) > 30
    assert shown[0] == shown[1]


@pytest.mark.prove
def test_the_truncation_report_is_shown_of_synthetic_records_only(deployment: PHSafeDeployment, tmp_path: Path) -> None:
    with deployment.opened("confidential") as connection:
        report = connection.execute(
            "SELECT run, truncation, persons_truncated, persons_kept FROM confidential.town__s_dhc.truncation_report"
        ).fetchall()
    assert sum(row[2] for row in report) > 0, "there is something to be shown"
    assert "truncation report" not in in_the_open(deployment)
    synthetic = phsafe_deployment(tmp_path, files=guessed(RACES[TRUTH]), runs=FEW, dataset={"synthetic": True})
    synthetic.run(*TO_COUNTS[:2], checks=True)
    event = synthetic.instance.get_latest_materialization_event(synthetic.key("truncated_join"))
    assert event
    assert event.asset_materialization
    shown = event.asset_materialization.metadata["truncation report (synthetic data)"]
    assert isinstance(shown, dg.TableMetadataValue)
    names = ("run", "truncation", "truncated", "kept")
    rows = [[record.data[name] for name in names] for record in shown.records]
    assert rows == [[f"{value:,}" if isinstance(value, int) else value for value in row] for row in report]


@pytest.mark.prove
def test_the_exact_counts_are_nowhere_in_the_open(deployment: PHSafeDeployment) -> None:
    """No public table or file has the counts as a column, whole or for one run."""
    with deployment.opened("confidential") as connection:
        exact = connection.execute(
            "SELECT run, list(count ORDER BY draw_order) FROM confidential.town__s_dhc.counts GROUP BY run"
        ).fetchall()
    shown = in_the_open(deployment)
    columns = []
    with deployment.opened() as connection:
        for (table,) in connection.execute("SHOW TABLES").fetchall():
            rows = connection.table(table).fetchall()
            columns += [" ".join(str(row[place]) for row in rows) for place in range(len(rows[0]))]
    assert len(columns) > 60
    for _, counts in exact:
        sought = " ".join(map(str, counts))
        assert len(counts) < 2 or not any(sought in column for column in columns)
        assert len(counts) < 2 or str(counts) not in shown


@pytest.mark.prove
def test_no_key_of_a_unit_is_shown_anywhere(deployment: PHSafeDeployment) -> None:
    keys = {row["MAFID"] for row in census()["units"]}
    assert not keys & set(re.findall(r"\d{6,}", in_the_open(deployment)))


@deep_cases(1)
@pytest.mark.parametrize(
    ("file", "column", "value"),
    [("persons", "QAGE", "77319"), pytest.param("units", "FINAL_POP", "77319", marks=pytest.mark.deep)],
)
def test_a_failed_run_shows_no_value_of_the_record_that_failed_it(
    file: str, column: str, value: str, tmp_path: Path
) -> None:
    """A value out of its domain, or against the layout's structure, is in no error, stack trace, event or log."""
    files = changed(census(), **{file: lambda rows: rows[3].update({column: value})})
    deployment = on_disk(phsafe_deployment(tmp_path, files=files, runs=FEW))
    assert not deployment.run(*TO_DRAW, raise_on_error=False).success
    shown = "\n".join(kept_by_dagster(deployment))
    assert column in shown, "the failure itself is on record"
    assert not tells(shown, value)
    assert deployment.ledger == ()
