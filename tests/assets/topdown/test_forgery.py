"""Forged estimates: attacks by a writer of the public database who has no access to the custody.

Every attack here passed while the labels of estimates were plain hashes of their inputs, or while no record named the
tables in the view over all states.
"""

import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assets.release import stage
from assets.release.draw import StaleInputError
from assets.topdown.drawing import count_parts
from assets.topdown.estimation import estimate_level, find_wrong_levels, unite_states
from assets.topdown.measurements import hash_streams, read_streams
from assets.topdown.reading import list_scopes
from assets.topdown.release import TopDownRelease
from assets.topdown.replicates import TopDownReplication
from assets.topdown.spine import read_states
from resources.statements import Zone
from resources.warehouse import Session, Warehouse
from tests.assets.topdown.table_oracle import (
    Country,
    custody_of,
    release_of,
    village,
    write_measurements,
    written,
)
from tests.depth import deep_cases
from tests.dhc_deployments import dhc_deployment
from tests.packing import with_packing
from tests.topdown_deployments import FOUR_LEVELS, redeclared, topdown_deployment

STATES = ["S000", "S001"]

Village = tuple[Country, TopDownRelease, Warehouse]


def silent(done: int, parents: int) -> None:
    """No report."""


def estimate_all(warehouse: Warehouse, release: TopDownRelease) -> None:
    """Estimate everything that is stored together, in order; with partitions, unite the states."""
    custody = custody_of(warehouse)
    for scope in list_scopes(release, STATES):
        estimate_level(warehouse, custody, release, scope, silent)
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        assert read_states(session, release) == STATES
        unite_states(session, custody, release)


def made(warehouse: Warehouse, release: TopDownRelease) -> tuple[tuple[str, ...], dict[str, str]]:
    """The levels that are not as made, and the digests of the answers that were read."""
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        wrong, read = find_wrong_levels(session, custody_of(warehouse), release)
    return tuple(map(str, wrong)), dict(read)


def labels_of(warehouse: Warehouse, release: TopDownRelease) -> list[str]:
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        return [stream.label for stream in read_streams(session, release)]


def attacked(warehouse: Warehouse, release: TopDownRelease, *statements: str) -> None:
    """Run statements on the database's file, past every safeguard."""
    with with_packing(duckdb.connect(str(warehouse.path(Zone.PUBLIC)))) as connection:
        connection.execute(f"USE public.{release.schema}")
        for statement in statements:
            connection.execute(statement)


def first(release: TopDownRelease, level: str) -> tuple[str, str]:
    """The table with the estimates of a level's first places, and how these are called."""
    state = STATES[0] if release.is_by_state(level) else ""
    return release.estimates(level, state), f"{level} in {state}" if state else level


def estimated(folder: Path, partitions: str) -> Village:
    """A village all of whose levels are estimated."""
    country = village()
    release = redeclared(release_of(country), partitions=partitions)
    warehouse = written(folder, release, country)
    estimate_all(warehouse, release)
    assert made(warehouse, release)[0] == ()
    return country, release, warehouse


def copied(original: Village, folder: Path) -> Village:
    country, release, warehouse = original
    return country, release, Warehouse(folder=str(shutil.copytree(warehouse.folder, folder)), threads=1)


@pytest.fixture(scope="module", params=["", "state"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Village:
    """A village without partitions, and one with them."""
    return estimated(tmp_path_factory.mktemp("estimated"), request.param)


@pytest.fixture
def estimates(original: Village, tmp_path: Path) -> Village:
    """A copy of each village, for a test to attack."""
    return copied(original, tmp_path / "copy")


@pytest.fixture(scope="module")
def by_state(tmp_path_factory: pytest.TempPathFactory) -> Village:
    return estimated(tmp_path_factory.mktemp("by_state"), "state")


@pytest.fixture
def parted(by_state: Village, tmp_path: Path) -> Village:
    """A copy of the village with partitions."""
    return copied(by_state, tmp_path / "copy")


def siblings(table: str) -> str:
    """Exchange two blocks of one parent."""
    return f"UPDATE {table} SET number = 1 - number WHERE number IN (0, 1)"


def view_of(release: TopDownRelease, *selected: str) -> str:
    """The view of all blocks, over the tables that are selected from."""
    parts = (part.replace("FROM ", f"FROM public.{release.schema}.") for part in selected)
    return f"CREATE VIEW level_block AS {' UNION ALL '.join(f'{part} AS part' for part in parts)}"


COLUMNS = "part.histogram, part.number, part.cell, part.count"
PARTS = tuple(f"SELECT {COLUMNS} FROM level_block__{state}" for state in STATES)
EXCHANGED = "SELECT part.histogram, part.cell, part.number, part.count FROM level_block__S001"
FORGED = {
    "a table": [],
    "another table": [f"SELECT {COLUMNS} FROM forged"],
    "another table and one of a state": [f"SELECT {COLUMNS} FROM forged", PARTS[1]],
    "one state": [PARTS[0]],
    "a state twice": [PARTS[0], PARTS[1], PARTS[1]],
    "exchanged columns": [PARTS[0], EXCHANGED],
    "tables of another level": [part.replace("block", "county") for part in PARTS],
}


def forge(village: Village, shown: str) -> None:
    """Have the name of all blocks show other rows than the tables of their states, which stay unchanged."""
    _, release, warehouse = village
    attacked(warehouse, release, "CREATE TABLE forged AS FROM level_block", siblings("forged"), "DROP VIEW level_block")
    made = FORGED[shown]
    attacked(warehouse, release, view_of(release, *made) if made else "CREATE TABLE level_block AS FROM forged")


def require_found(parted: Village) -> None:
    _, release, warehouse = parted
    assert made(warehouse, release)[0] == ("Block",)
    with (
        warehouse.session(reads=[Zone.PUBLIC]) as session,
        pytest.raises(StaleInputError, match="Block are missing or were altered; materialize estimates first"),
    ):
        TopDownReplication(release).read_basis(session, custody_of(warehouse))
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        unite_states(session, custody_of(warehouse), release)
    assert made(warehouse, release)[0] == ()


@pytest.mark.deep
def test_a_view_of_other_estimates_than_those_of_the_states_is_found(parted: Village) -> None:
    forge(parted, "another table")
    require_found(parted)


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("shown", [each for each in FORGED if each != "another table"])
def test_whatever_is_shown_in_place_of_all_states_is_found(parted: Village, shown: str) -> None:
    forge(parted, shown)
    require_found(parted)


@deep_cases(1)
@pytest.mark.deep
def test_exchanged_siblings_are_found(estimates: Village) -> None:
    """All sums and invariants of two blocks of one parent may still hold; only the seal tells."""
    _, release, warehouse = estimates
    table, name = first(release, "Block")
    attacked(warehouse, release, siblings(table))
    assert made(warehouse, release)[0] == (name,)


@deep_cases(1)
@pytest.mark.deep
def test_a_recomputed_plain_hash_does_not_help(estimates: Village) -> None:
    _, release, warehouse = estimates
    table, name = first(release, "Block")
    attacked(warehouse, release, siblings(table))
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        plain = session.content_version([release.public(table)])
    attacked(warehouse, release, f"UPDATE {table}_made SET content = '{plain}'")
    assert made(warehouse, release)[0] == (name,)


@deep_cases(3)
@pytest.mark.deep
@pytest.mark.parametrize("column", ["made_of", "read", "content", "places", "parents", "solved", "gap", "seconds"])
def test_every_field_of_an_account_is_sealed(estimates: Village, column: str) -> None:
    _, release, warehouse = estimates
    changed = {"made_of": "'x'", "read": "'{}'", "content": "'x'"}.get(column, f"{column} + 1")
    table, name = first(release, "County")
    attacked(warehouse, release, f"UPDATE {table}_made SET {column} = {changed}")
    assert made(warehouse, release)[0] == (name,)


@deep_cases(1)
@pytest.mark.deep
def test_estimates_of_an_earlier_draw_with_their_own_seal_are_found(estimates: Village) -> None:
    """The seal is genuine, but of other measurements: it does not fit the account of the level above."""
    country, release, warehouse = estimates
    table, name = first(release, "Block")
    tables = (table, f"{table}_made", f"{table}_seal")
    attacked(warehouse, release, *(f"CREATE TABLE old_{each} AS FROM {each}" for each in tables))
    with warehouse.session(writes=Zone.PUBLIC) as session:
        write_measurements(session, release, country, seed=1, draw="two")
    estimate_all(warehouse, release)
    assert made(warehouse, release)[0] == ()
    attacked(warehouse, release, *(f"CREATE OR REPLACE TABLE {each} AS FROM old_{each}" for each in tables))
    assert made(warehouse, release)[0] == (name,)


@deep_cases(1)
@pytest.mark.deep
def test_a_seal_of_another_level_or_release_does_not_fit(estimates: Village) -> None:
    _, release, warehouse = estimates
    (block, name), (county, _) = first(release, "Block"), first(release, "County")
    attacked(warehouse, release, f"CREATE OR REPLACE TABLE {block}_seal AS FROM {county}_seal")
    assert made(warehouse, release)[0] == (name,)
    other: Any = redeclared(release, name="beside")
    attacked(
        warehouse,
        release,
        f"CREATE SCHEMA {other.schema}",
        *(f"CREATE TABLE {other.schema}.{name} AS FROM {name}" for (name,) in _tables(warehouse, release)),
    )
    assert made(warehouse, other)[0] == (release.levels[0],)


@deep_cases(1)
@pytest.mark.prove
def test_measurements_that_were_altered_only_while_they_were_read_are_found(estimates: Village) -> None:
    """The estimates are sealed as of the draw, but the answers read were not those of the draw, and the level is made
    again."""
    _, release, warehouse = estimates
    labels = labels_of(warehouse, release)
    drawn = hash_streams({label: made(warehouse, release)[1][label] for label in labels})
    attacked(
        warehouse,
        release,
        "CREATE TABLE kept AS FROM noisy_measurements",
        "UPDATE noisy_measurements SET answers = packed(list_transform(unpacked(answers), x -> x + 1)) "
        "WHERE level = 'Nation'",
        "DROP TABLE level_nation_made",
    )
    estimate_all(warehouse, release)
    attacked(warehouse, release, "CREATE OR REPLACE TABLE noisy_measurements AS FROM kept")
    wrong, read = made(warehouse, release)
    assert wrong == (), "everything is made of the same draw, spine and invariants"
    assert hash_streams({label: read[label] for label in labels}) != drawn
    estimate_all(warehouse, release)
    wrong, read = made(warehouse, release)
    assert (wrong, hash_streams({label: read[label] for label in labels})) == ((), drawn)


@pytest.mark.deep
def test_the_answers_that_were_read_are_those_of_the_draw(estimates: Village) -> None:
    """The digests cover every stream of every level, each once."""
    _, release, warehouse = estimates
    read = made(warehouse, release)[1]
    assert sorted(read) == sorted(labels_of(warehouse, release))
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        accounts = [
            json.loads(session.row("warehouse/all", source=release.public(f"{table}_made"))[1])
            for table in (release.estimates(scope.level, scope.state) for scope in list_scopes(release, STATES))
        ]
    assert sum(map(len, accounts)) == len(read)


def _tables(warehouse: Warehouse, release: TopDownRelease) -> list[tuple[str]]:
    with duckdb.connect(str(warehouse.path(Zone.PUBLIC))) as connection:
        return connection.execute("SELECT name FROM (SHOW ALL TABLES) WHERE schema = ?", [release.schema]).fetchall()


@pytest.mark.parametrize(
    ("deploy", "exact"),
    [(topdown_deployment, "invariants"), pytest.param(dhc_deployment, "facilities", marks=pytest.mark.deep)],
    ids=["redistricting", "DHC"],
)
def test_nothing_is_counted_by_a_forged_spine(tmp_path: Path, deploy: Any, exact: str) -> None:
    """Wrong programs: count one block as all others too, each with noise of its own, so that their average is near the
    exact counts; or count it as a larger place, whose counts are exact. The attacker could restore the spine before any
    check reads it, in a lake even within a session, so the counts must be right whatever spine is stored."""
    deployment = deploy(tmp_path / "release")
    deployment.run("cef", "spine", "histograms")
    with deployment.opened() as connection:
        own = "(SELECT min(geoid) FROM spine AS own WHERE own.level = spine.level)"
        connection.execute("CREATE TABLE histograms_before AS FROM histograms_version")
        connection.execute(f"UPDATE spine SET geoid = {own} WHERE level = '{deployment.release.finest}'")
    assert "the stored spine is not that of the current records" in deployment.refusal(exact)
    deployment.run("histograms")
    with deployment.opened() as connection:
        tables = {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
        versions = connection.execute("FROM histograms_before UNION FROM histograms_version").fetchall()
    assert exact not in tables
    assert len(versions) == 1


def test_a_record_is_drawn_in_one_place_of_each_level_by_a_forged_spine(tmp_path: Path) -> None:
    """Wrong program: a block is in the places above all rows that have its number and are said to be blocks, and is
    measured in each. In a lake, the spine could be altered after the draw has found it sealed."""
    deployment = topdown_deployment(tmp_path / "release", **FOUR_LEVELS)
    deployment.run("cef", "spine", "histograms")
    with deployment.opened() as connection:
        connection.execute("UPDATE spine SET level = 'Block' WHERE level = 'County'")
    drawn = defaultdict[str, Counter[str]](Counter)
    with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        for each in count_parts(session, deployment.release, read_streams(session, deployment.release)):
            histogram, level = each.part.level
            drawn[histogram][level] += int(each.exact.count.sum())
    assert {histogram: len(set(of_levels.values())) for histogram, of_levels in drawn.items()} == {
        "persons": 1,
        "units": 1,
    }


def test_invariants_follow_only_from_current_histograms(tmp_path: Path) -> None:
    """Wrong program: adds up any stored histograms, even those of records that have since been replaced, and seals the
    sums as invariants of the current records."""
    deployment = topdown_deployment(tmp_path / "release")
    deployment.run("cef", "spine")
    assert "materialize histograms again" in deployment.refusal("invariants")
    deployment.run("histograms")
    with deployment.opened(Zone.CONFIDENTIAL) as connection:
        connection.execute(f"UPDATE {deployment.release.schema}.histograms SET count = count + 1")
    assert "materialize histograms again" in deployment.refusal("invariants")
    deployment.run("histograms", "invariants")
    persons = deployment.root / "persons.csv"
    persons.write_text(persons.read_text().replace(",41,", ",42,", 1))
    deployment.run("cef")
    assert "materialize histograms again" in deployment.refusal("invariants")


def test_histograms_are_of_the_records_by_whose_places_they_were_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: in a lake, counts records by places of earlier records, which another run replaced after the
    places were found, and seals the counts as those of the current records."""
    deployment = topdown_deployment(tmp_path / "release")
    deployment.run("cef", "spine")
    versions = iter(({"cef": "before"}, {"cef": "after"}))
    monkeypatch.setattr(stage, "compute_basis", lambda *_: next(versions))
    monkeypatch.setattr(Session, "shared", property(lambda _: True, lambda *_: None), raising=False)
    assert "the records were read again while histograms was made" in deployment.refusal("histograms")
