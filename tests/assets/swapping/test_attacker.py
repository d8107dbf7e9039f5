"""An attacker who knows all code, everything public, and every record but one, but has no custody key.

The tests search everything that the deployment shows for hashes that the attacker can compute from a guessed record:
published files, the ledger's entries, the public tables, Dagster's event log with its run and sensor storage, and
compute logs. There are two attackers. One computes, for each candidate, the hashes that a careless program would show.
The other runs the deployment on each candidate, under keys of his own. Both are then given the custody's key, or a
deployment that forgot to key its versions, to show that they would find the record.

The invariants are published exactly. Anyone can find the unknown record by subtracting the known ones from them: ε does
not cover this, and it needs no hash. The second attacker's candidates therefore agree on all invariants and differ only
in the joint table.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest

from assets.swapping.records import cells_version, read_contingency, stage_records
from orchestration.automation import source_sensor
from resources.custody import Custody, canonicalize
from resources.statements import Zone
from tests.attacker import (
    GUESSED_KEYS,
    OF_CONTENT,
    forget_keys,
    hashes_shown,
    in_the_open,
    kept_by_dagster,
    on_disk,
    plainly_hashed,
    shows,
    tells,
)
from tests.deployments import COUNTIES, TO_PUBLICATION, Deployment, households, small_deployment
from tests.depth import deep_cases

FIRST_KEY = 941_700_000_000
KEYED = [row | {"serial": FIRST_KEY + 8_191 * row["serial"]} for row in households(16)]
KNOWN, LAST = KEYED[:-1], KEYED[-1]
CANDIDATES = [LAST | {"county": county, "tenure": tenure} for county in COUNTIES for tenure in ("own", "rent")]
LAST_AT = CANDIDATES.index(LAST)
TRUTH = CANDIDATES[LAST_AT]


def build(root: Path, units: Sequence[Mapping[str, Any]], **changes: Any) -> Deployment:
    """The deployment under attack, or the attacker's own, with an instance that stores on disk."""
    return on_disk(small_deployment(root, units=units, **changes))


def tick(deployment: Deployment) -> None:
    """Let the source sensor see a change, and write its cursor and run requests to a public file."""
    release = deployment.release
    sensor = source_sensor(release, "as declared", deployment.root)
    cursor, kept = None, []
    for look in range(3):
        if look == 1:
            with (deployment.root / "units.csv").open("a") as file:
                file.write("\r\n")
        context = dg.build_sensor_context(cursor=cursor, resources={"custody": deployment.context.custody})
        answer = sensor(context)
        assert isinstance(answer, dg.SensorResult)
        cursor = answer.cursor
        kept += [cursor, *[request.run_key for request in answer.run_requests or []]]
    assert len(kept) == 4, "the change was seen"
    (deployment.root / "dagster" / "sensor.json").write_text(json.dumps(kept))


def guesses(deployment: Deployment, unit: Mapping[str, Any], version_keys: Sequence[bytes | None]) -> set[str]:
    """Every hash that the first attacker tries, from his own deployment, whose last record is the candidate."""
    release, found = deployment.release, set[str]()
    for path in (deployment.root / "units.csv",):
        text = path.read_bytes()
        for content in (text, text.strip(), text.replace(b"\r\n", b"\n")):
            found.update(plainly_hashed(content))
    for line in (
        ",".join(map(str, unit.values())),
        canonicalize(dict(unit)).decode(),
        json.dumps(unit),
        str(dict(unit)),
    ):
        found.update(plainly_hashed(line.encode()))
        found.update(plainly_hashed(f"{line}\r\n".encode()))
    with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        records = stage_records(session, release)
        table = read_contingency(session, release, records)
        for key in version_keys:
            found.add(session.content_version(list(release.dataset.cef_tables()), key))
            found.add(cells_version(table, key or None))
            found.add(cells_version(table, key if key is not None else b"\0" * 32))
    arrays = [table.stratum, table.holding, table.swap, table.count]
    for content in (*(array.tobytes() for array in arrays), b"".join(array.tobytes() for array in arrays)):
        found.update(plainly_hashed(content))
    return found


@dataclass(frozen=True)
class Attack:
    """The first attacker's knowledge: everything that is shown, and his guesses for every candidate."""

    shown: set[str]
    deployment: Deployment
    candidates: dict[int, Deployment]

    def suspects(self, version_keys: Sequence[bytes | None]) -> list[int]:
        """The candidates for which a hash is shown."""
        return [
            number
            for number, own in self.candidates.items()
            if shows(self.shown, guesses(own, CANDIDATES[number], version_keys))
        ]


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Deployment]:
    """The attacker's own deployments, one for every candidate, run up to the invariants."""
    deployments = {}
    for number, candidate in enumerate(CANDIDATES):
        deployment = small_deployment(tmp_path_factory.mktemp("candidate"), units=[*KNOWN, candidate])
        deployment.run("cef", "invariants", checks=True)
        deployments[number] = deployment
    return deployments


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """The deployment under attack, after a whole run and a tick of its source sensor."""
    deployment = build(tmp_path_factory.mktemp("deployment"), [*KNOWN, TRUTH])
    deployment.run()
    tick(deployment)
    return deployment


@pytest.fixture(scope="module")
def attack(deployment: Deployment, candidates: dict[int, Deployment]) -> Attack:
    return Attack(hashes_shown(deployment), deployment, candidates)


@pytest.mark.prove
def test_no_hash_shown_confirms_a_guessed_record(attack: Attack) -> None:
    assert attack.suspects([None, *GUESSED_KEYS]) == []


@pytest.mark.prove
def test_with_the_custodys_key_the_same_search_finds_the_record(attack: Attack) -> None:
    """So the hashes are shown, the attacker computes them correctly, and he lacks only the key."""
    assert attack.suspects([attack.deployment.context.custody.version_key()]) == [LAST_AT]


@pytest.mark.prove
@pytest.mark.parametrize("forgotten", ["version_key", "session"])
def test_in_a_deployment_that_forgot_its_key_the_attacker_finds_the_record(
    forgotten: str, candidates: dict[int, Deployment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if forgotten == "version_key":
        monkeypatch.setattr(Custody, "version_key", lambda self: b"")
    else:
        forget_keys(monkeypatch, OF_CONTENT)
    careless = build(tmp_path, [*KNOWN, TRUTH])
    careless.context.custody.establish()
    careless.run(*TO_PUBLICATION, checks=True)
    monkeypatch.undo()
    assert Attack(hashes_shown(careless), careless, candidates).suspects([None, *GUESSED_KEYS]) == [LAST_AT]


@pytest.mark.prove
def test_a_plain_hash_of_the_source_file_would_be_found(attack: Attack) -> None:
    careless = attack.shown | {sha256((attack.candidates[3].root / "units.csv").read_bytes()).hexdigest()[:16]}
    assert Attack(careless, attack.deployment, attack.candidates).suspects([None]) == [3]


@pytest.mark.deep
def test_draw_id_commitment_and_version_are_shown_and_distinct(deployment: Deployment) -> None:
    """The search covers draw id, commitment and the version of the records."""
    entries = deployment.ledger
    shown = {entries[0].draw_id, entries[0].commitment, deployment.versions()["village/cef"]}
    assert shown <= hashes_shown(deployment), "they are shown, or the search means nothing"
    assert len(shown) == 3


# The second attacker: two candidates that agree on every invariant.

PAIR = ({"county": "Avon", "tenure": "own"}, {"county": "Brent", "tenure": "rent"})
OTHERS = [row for row in KEYED if row["size"] != 3]


def universe(exchanged: bool) -> list[dict[str, Any]]:
    """Two households of a stratum whose counties and tenures are combined in one way or the other."""
    one, other = PAIR
    if exchanged:
        one, other = one | {"county": other["county"]}, other | {"county": one["county"]}
    base = {"region": "N", "size": 3}
    return [
        *OTHERS,
        {"serial": FIRST_KEY + 77, **base, **one},
        {"serial": FIRST_KEY + 78, **base, **other},
    ]


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in KEYED[0]} for row in rows]


VICTIMS_KEY = "5a" * 32
"""A fixed key: of so few records, two swapped tables are equal by chance once in a while."""


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", VICTIMS_KEY)
        deployment = build(tmp_path_factory.mktemp("victim"), ordered(universe(False)))
        deployment.run(*TO_PUBLICATION, checks=True)
        yield deployment


def imitated(root: Path, key: str, exchanged: bool) -> set[str]:
    """All hashes that the attacker's own deployment shows for a candidate, under a key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", key)
        deployment = small_deployment(root, units=ordered(universe(exchanged)))
        deployment.run(*TO_PUBLICATION, checks=True)
    return hashes_shown(deployment)


@pytest.mark.prove
def test_guessed_keys_do_not_distinguish_candidates_of_one_universe(victim: Deployment, tmp_path: Path) -> None:
    """His runs share the same hashes with the victim's for both candidates: only the hashes of the invariants."""
    shown = hashes_shown(victim)
    common = [shown & imitated(tmp_path / str(exchanged), "00" * 32, exchanged) for exchanged in (False, True)]
    assert len(common[0]) > 1, "the invariants' versions at least are the same everywhere"
    assert common[0] == common[1]


@pytest.mark.prove
def test_the_custody_itself_distinguishes_them(victim: Deployment, tmp_path: Path) -> None:
    shown = hashes_shown(victim)
    draws = {entry.draw_id for entry in victim.ledger} | {entry.commitment for entry in victim.ledger}
    assert draws <= imitated(tmp_path / "true", VICTIMS_KEY, False) & shown
    assert not draws & imitated(tmp_path / "false", VICTIMS_KEY, True)


# Values, not hashes.


@pytest.mark.deep
def test_no_key_of_a_record_is_shown_anywhere(deployment: Deployment) -> None:
    keys = {str(row["serial"]) for row in [*KNOWN, TRUTH]}
    seen = set(re.findall(r"\d{6,}", in_the_open(deployment)))
    assert not keys & seen
    with deployment.opened("confidential") as connection:
        stored = {str(key) for (key,) in connection.execute("SELECT serial FROM confidential.village.units").fetchall()}
    assert stored == keys, "the CEF has them, so there was something to be shown"


@pytest.mark.deep
def test_the_error_of_a_confidential_release_is_shown_nowhere(deployment: Deployment) -> None:
    """MAPE compares with confidential data, so its figures stay in the confidential zone unless the dataset is
    synthetic.
    """
    with deployment.opened("confidential") as connection:
        rows = connection.execute("SELECT * FROM confidential.village__counties.utility").fetchall()
    assert len(rows) == len(deployment.release.declaration.products), "there is an error to be shown"
    shown = in_the_open(deployment)
    for _, figure, *_ in rows:
        assert f"{figure:.4%}" not in shown
        assert len(repr(figure)) < 12 or repr(figure)[:12] not in shown
    event = deployment.instance.get_latest_materialization_event(deployment.key("utility"))
    assert event
    assert event.asset_materialization
    assert set(event.asset_materialization.metadata) == {"table", "ε against swap rate"}


@pytest.mark.prove
def test_nothing_in_the_utilitys_metadata_depends_on_the_joint_table(tmp_path: Path) -> None:
    """Two deployments of one universe, with different records and draws, show the same words and the same picture."""
    shown = []
    for exchanged in (False, True):
        deployment = small_deployment(tmp_path / str(exchanged), units=ordered(universe(exchanged)))
        deployment.run("cef", "invariants", "charge", "swapped", "utility", checks=True)
        event = deployment.instance.get_latest_materialization_event(deployment.key("utility"))
        assert event
        assert event.asset_materialization
        shown.append({name: value.value for name, value in event.asset_materialization.metadata.items()})
    assert shown[0] == shown[1]


@pytest.mark.deep
def test_the_number_of_records_is_not_in_the_metadata_of_a_confidential_cef(deployment: Deployment) -> None:
    event = deployment.instance.get_latest_materialization_event(deployment.key("cef"))
    assert event
    assert event.asset_materialization
    assert "dagster/row_count" not in event.asset_materialization.metadata


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize(
    ("column", "value"),
    [("tenure", "Qxv7731"), ("size", "77319"), ("size", "z77319z"), ("serial", str(FIRST_KEY + 8_191))],
)
def test_a_failed_run_shows_no_value_of_the_record_that_caused_it(column: str, value: str, tmp_path: Path) -> None:
    """Neither in the error, the stack trace and the events, nor in the logs of the process."""
    deployment = build(tmp_path, [*KNOWN, TRUTH | {column: value}])
    assert not deployment.run(*TO_PUBLICATION, raise_on_error=False).success
    shown = "\n".join(kept_by_dagster(deployment))
    assert "units.csv" in shown, "the failure itself is on record"
    assert not tells(shown, value)
    with (
        deployment.opened()
        if deployment.context.warehouse.path(Zone.PUBLIC).exists()
        else duckdb.connect() as connection
    ):
        assert connection.execute("SHOW ALL TABLES").fetchall() == []
