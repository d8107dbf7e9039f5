"""Forged estimates: what someone can do who writes the public database, but has no access to the custody.

Every attack here passed while estimates were labelled with a plain hash of what they were made of.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assets.topdown.estimation import estimate_level, levels_not_as_made
from assets.topdown.release import TopDownRelease
from assets.topdown.streams import streams_of, version_of_streams
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.assets.topdown.table_oracle import (
    Country,
    custody_of,
    release_of,
    village,
    write_measurements,
    written,
)

pytestmark = pytest.mark.deep


Village = tuple[Country, TopDownRelease, Warehouse]


def silent(done: int, parents: int) -> None:
    """No report."""


def estimate_all(warehouse: Warehouse, release: TopDownRelease) -> None:
    for level in release.levels:
        estimate_level(warehouse, custody_of(warehouse), release, level, silent)


def made(warehouse: Warehouse, release: TopDownRelease) -> tuple[tuple[str, ...], dict[str, str]]:
    """The levels that are not as made, and the digests of the answers that were read."""
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        wrong, read = levels_not_as_made(session, custody_of(warehouse), release)
    return tuple(map(str, wrong)), dict(read)


def labels_of(warehouse: Warehouse, release: TopDownRelease) -> list[str]:
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        return [stream.label for stream in streams_of(session, release)]


def attacked(warehouse: Warehouse, release: TopDownRelease, *statements: str) -> None:
    """Run statements on the database's file, past every safeguard."""
    with duckdb.connect(str(warehouse.path(Zone.PUBLIC))) as connection:
        connection.execute(f"USE public.{release.schema}")
        for statement in statements:
            connection.execute(statement)


@pytest.fixture(scope="module")
def estimated(tmp_path_factory: pytest.TempPathFactory) -> Village:
    """A village all of whose levels are estimated."""
    country = village()
    release = release_of(country)
    warehouse = written(tmp_path_factory.mktemp("estimated"), release, country)
    estimate_all(warehouse, release)
    assert made(warehouse, release)[0] == ()
    return country, release, warehouse


@pytest.fixture
def estimates(estimated: Village, tmp_path: Path) -> Village:
    """A copy of the village, for a test to attack."""
    country, release, warehouse = estimated
    folder = shutil.copytree(warehouse.folder, tmp_path / "copy")
    return country, release, Warehouse(folder=str(folder), threads=1)


SIBLINGS = """
    UPDATE level_block SET number = 1 - number
    WHERE number IN (0, 1)
"""


def test_exchanged_siblings_are_found(estimates: Village) -> None:
    """All sums and invariants of two blocks of one parent may still hold; only the seal tells."""
    _, release, warehouse = estimates
    attacked(warehouse, release, SIBLINGS)
    assert made(warehouse, release)[0] == ("Block",)


def test_a_recomputed_plain_hash_does_not_help(estimates: Village) -> None:
    _, release, warehouse = estimates
    attacked(warehouse, release, SIBLINGS)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        plain = session.content_version([release.public("level_block")])
    attacked(warehouse, release, f"UPDATE level_block_made SET content = '{plain}'")
    assert made(warehouse, release)[0] == ("Block",)


@pytest.mark.parametrize("column", ["made_of", "read", "content", "places", "parents", "solved", "gap", "seconds"])
def test_every_field_of_an_account_is_sealed(estimates: Village, column: str) -> None:
    _, release, warehouse = estimates
    changed = {"made_of": "'x'", "read": "'{}'", "content": "'x'"}.get(column, f"{column} + 1")
    attacked(warehouse, release, f"UPDATE level_county_made SET {column} = {changed}")
    assert made(warehouse, release)[0] == ("County",)


TABLES_OF_A_LEVEL = ("level_block", "level_block_made", "level_block_seal")


def test_estimates_of_an_earlier_draw_with_their_own_seal_are_found(estimates: Village) -> None:
    """A seal is genuine, but of other measurements: it does not fit the account of the level above."""
    country, release, warehouse = estimates
    attacked(warehouse, release, *(f"CREATE TABLE old_{name} AS FROM {name}" for name in TABLES_OF_A_LEVEL))
    with warehouse.session(writes=Zone.PUBLIC) as session:
        write_measurements(session, release, country, seed=1, draw="two")
    estimate_all(warehouse, release)
    assert made(warehouse, release)[0] == ()
    attacked(warehouse, release, *(f"CREATE OR REPLACE TABLE {name} AS FROM old_{name}" for name in TABLES_OF_A_LEVEL))
    assert made(warehouse, release)[0] == ("Block",)


def test_a_seal_of_another_level_or_release_does_not_fit(estimates: Village) -> None:
    _, release, warehouse = estimates
    attacked(warehouse, release, "CREATE OR REPLACE TABLE level_block_seal AS FROM level_county_seal")
    assert made(warehouse, release)[0] == ("Block",)
    other: Any = replace(release, name="beside")
    attacked(
        warehouse,
        release,
        f"CREATE SCHEMA {other.schema}",
        *(f"CREATE TABLE {other.schema}.{name} AS FROM {name}" for (name,) in _tables(warehouse, release)),
    )
    assert made(warehouse, other)[0] == (release.levels[0],)


def test_measurements_that_were_altered_only_while_they_were_read_are_found(estimates: Village) -> None:
    """The estimates are sealed as of the draw, but the answers that were read are not those that were drawn."""
    _, release, warehouse = estimates
    labels = labels_of(warehouse, release)
    drawn = version_of_streams({label: made(warehouse, release)[1][label] for label in labels})
    attacked(
        warehouse,
        release,
        "CREATE TABLE kept AS FROM noisy_measurements",
        "UPDATE noisy_measurements SET answers = list_transform(answers, x -> (x + 1)::INTEGER) WHERE level = 'Nation'",
        "DROP TABLE level_nation_made",
    )
    estimate_all(warehouse, release)
    attacked(warehouse, release, "CREATE OR REPLACE TABLE noisy_measurements AS FROM kept")
    wrong, read = made(warehouse, release)
    assert wrong == (), "everything is made of the same draw, spine and invariants"
    assert version_of_streams({label: read[label] for label in labels}) != drawn


def test_the_answers_that_were_read_are_those_of_the_draw(estimates: Village) -> None:
    """The digests cover every stream of every level, each once."""
    _, release, warehouse = estimates
    read = made(warehouse, release)[1]
    assert sorted(read) == sorted(labels_of(warehouse, release))
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        accounts = [
            json.loads(session.row("warehouse/all", source=release.public(f"{release.estimates(level)}_made"))[1])
            for level in release.levels
        ]
    assert sum(map(len, accounts)) == len(read)


def _tables(warehouse: Warehouse, release: TopDownRelease) -> list[tuple[str]]:
    with duckdb.connect(str(warehouse.path(Zone.PUBLIC))) as connection:
        return connection.execute("SELECT name FROM (SHOW ALL TABLES) WHERE schema = ?", [release.schema]).fetchall()
