"""An attacker on hypercubes with cell consistency, whose noise follows from secret keys of records.

No finite loss bounds such a release, and other tests cover the information in equal noise (the differencing attack).
These tests prove the remaining claims: no public file or table shows a key, or a hash that can be computed for a
guessed record, and a later edition has keys of its own.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assets.table_builder.cells import add_up_cells, add_up_given_keys, add_up_keys, derive_keys, describe_records
from assets.table_builder.release import HypercubeRelease
from resources.statements import Zone
from tests.attacker import GUESSED_KEYS, hashes_shown, in_the_open, on_disk, plainly_hashed, shows
from tests.contract.kinds import before_draw, to_publication
from tests.deployments import SHOWN, Deployment, households, write_csv
from tests.depth import deep_cases
from tests.table_builder_deployments import hypercube_deployment

pytestmark = pytest.mark.deep

EXPORT = "i;j;p;v;p_int_ub\n0;0;1;0;1\n1;0;0.25;-1;0.25\n1;1;0.5;0;0.75\n1;2;0.25;1;1\n"
KEYS = (7_001, 2_000_000_000)
"""The least and the greatest key that records bring along."""

HIS_KEY = "00" * 32


def units(guess: int) -> list[dict[str, Any]]:
    """All records that are known, each with a key, and the guess: the tenure of the last household."""
    rows = [{**row, "record_key": KEYS[0] + row["serial"] * 15_485_863 % (KEYS[1] - KEYS[0])} for row in households()]
    rows[-1]["tenure"] = ("own", "rent")[guess]
    return rows


def build(root: Path, guess: int, given: bool) -> Deployment[HypercubeRelease]:
    root.mkdir(exist_ok=True)
    (root / "p_table.csv").write_text(EXPORT)
    cube = {
        "name": "keyed",
        "variables": ["county", "tenure"],
        "margins": "independent",
        "p_table": {"path": str(root / "p_table.csv"), "form": "sdctools"},
        "consistency": "cell",
        "record_keys": "record_key" if given else None,
    }
    columns = {
        "serial": {"type": "integer", "role": "key"},
        "region": {"type": "string", "values": ["N", "S"]},
        "county": {"type": "string", "role": "geography", "values": ["Avon", "Brent", "Cairn"]},
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "tenure": {"type": "string", "values": ["own", "rent"]},
        "record_key": {"type": "integer", "minimum": KEYS[0], "maximum": KEYS[1]},
    }
    dataset = {"unbounded_releases": "allowed", "units": {"path": str(root / "units.csv"), "columns": columns}}
    return on_disk(hypercube_deployment(root, cube, units=units(guess), dataset=dataset))


@pytest.fixture(scope="module", params=[False, True], ids=["keys of the draw", "keys of the data"])
def victim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Deployment[HypercubeRelease]:
    made = build(tmp_path_factory.mktemp("victim") / "release", 1, request.param)
    made.run(*to_publication(made.context.method), checks=True)
    return made


def imitated(root: Path, guess: int, given: bool, custody: Path | None) -> Deployment[HypercubeRelease]:
    """The attacker's own deployment, up to the charge."""
    made = build(root, guess, given)
    with pytest.MonkeyPatch.context() as patch:
        key = (custody / "master.key").read_text().strip() if custody else HIS_KEY
        patch.setenv("STIRRED_TEST_MASTER_KEY", key)
        made.run(*before_draw(made.context.method), checks=True)
    return made


@pytest.mark.prove
def test_who_knows_all_records_but_one_cannot_tell_guesses_apart(
    victim: Deployment[HypercubeRelease], tmp_path: Path
) -> None:
    """He compares hashes that his deployments and the true one share. With the custody, he tells the guesses apart."""
    given, shown = victim.release.cube.record_keys is not None, hashes_shown(victim)
    own = [imitated(tmp_path / f"guess {guess}", guess, given, None) for guess in (0, 1)]
    common = [shown & hashes_shown(each) for each in own]
    assert common[0] == common[1]
    computed = {found for each in own for found in guesses(each)}
    assert len(computed) > 50
    assert not shows(shown, computed)
    draw = {victim.ledger[0].draw_id}
    known = [imitated(tmp_path / f"with custody {guess}", guess, given, victim.root / "custody") for guess in (0, 1)]
    assert [draw <= hashes_shown(each) for each in known] == [False, True]


def guesses(deployment: Deployment[HypercubeRelease]) -> set[str]:
    """Hashes of the records, of the exact cells and of the cells' keys under keys that anyone would try."""
    release, found = deployment.release, set()
    content = (deployment.root / "units.csv").read_bytes()
    with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        exact = add_up_cells(session, release, release.amount)
        tables = [release.dataset.cef_tables()[0], release.confidential("counts")]
        for key in (None, *(each for each in GUESSED_KEYS if len(each) >= 32)):
            found |= {session.content_version([table], key) for table in tables}
        inner = [_keys(session, release, bytes(32)), add_up_given_keys(session, release, "record_key")]
    for each in (content, exact.tobytes(), str(exact.ravel().tolist()).encode(), *(keys.tobytes() for keys in inner)):
        found |= set(plainly_hashed(each))
    return found


def _keys(session: Any, release: HypercubeRelease, key: bytes) -> np.ndarray:
    records = derive_keys(session, "serial", key, describe_records(session, release, None))
    return add_up_keys(session, records, release.design.cells(release.design.inner))


@deep_cases(1)
def test_no_key_of_a_record_or_cell_is_public(victim: Deployment[HypercubeRelease]) -> None:
    """Neither as a number nor in hexadecimal digits."""
    shown, release, entry = in_the_open(victim), victim.release, victim.ledger[0]
    key = victim.context.custody.open_key(entry.draw_id, release.custody, entry.commitment)
    with victim.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        records = derive_keys(session, "serial", key, describe_records(session, release, None))
        cells = add_up_keys(session, records, release.design.cells(release.design.inner))
        sums = add_up_given_keys(session, release, "record_key")
    numbers = [*records["key_upper"].to_pylist(), *records["key_lower"].to_pylist(), *cells.ravel().tolist()]
    secrets = {str(number) for number in numbers} | {f"{number:016x}" for number in numbers}
    secrets |= {key.hex(), *(str(row["record_key"]) for row in units(1)), *map(str, sums.ravel().tolist())}
    assert len(secrets) > 400
    assert [each for each in secrets if each in shown] == []


@pytest.mark.prove
def test_an_edition_of_other_records_with_the_same_counts_is_another_draw(
    victim: Deployment[HypercubeRelease], tmp_path: Path
) -> None:
    """Two households in different cells exchange their serial numbers and keys: every count stays as it is.

    The same draw would have another result, because its noise follows from the records. So the edition is charged and
    has a key of its own. Without a change, nothing is charged.
    """
    deployment = build(tmp_path / "release", 1, victim.release.cube.record_keys is not None)
    every = [*to_publication(deployment.context.method), *SHOWN]
    deployment.run(*every, checks=True)
    deployment.run(*every, checks=True)
    assert [entry.kind for entry in deployment.ledger] == ["reserve", "settle"]
    rows = units(1)
    one, other = rows[0], next(row for row in rows if row["county"] != rows[0]["county"])
    for name in ("serial", "record_key"):
        one[name], other[name] = other[name], one[name]
    write_csv(deployment.root / "units.csv", rows)
    deployment.run(*every, checks=True)
    reserved = [entry for entry in deployment.ledger if entry.kind == "reserve"]
    assert len({entry.draw_id for entry in reserved}) == len({entry.commitment for entry in reserved}) == 2
    assert deployment.failed_checks() == set()


def test_nothing_is_drawn_by_the_keys_of_other_records_than_were_charged(tmp_path: Path) -> None:
    """Wrong program: it draws after a run that ended when it had stored records with other keys and the same counts,
    but not their version. The draw passes for the charged one, but its noise is that of other records: one charge, two
    noisy results."""
    made = build(tmp_path / "release", 1, given=False)
    made.run(*before_draw(made.context.method))
    with made.opened("confidential") as connection:
        connection.execute(f"UPDATE {made.release.dataset.name}.units SET serial = serial + 1000")
    assert "not those that were read from the source" in made.refusal("noisy_measurements")
