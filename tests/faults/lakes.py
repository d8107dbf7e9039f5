"""Generated alterations by an attacker who can write a public zone in a lake, its catalog and its data files, but has
no key.

Rows, tables and views are altered through DuckLake (`attacks.alter_rows`), rows and definitions of the catalog by the
role that owns it, and Parquet files in the folder, with or without matching entries in the catalog. Tables and catalog
are put back to earlier states. The release is then verified, audited and requested (`attacks.judge`).
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from resources import storage
from resources.statements import Zone
from resources.warehouse import Warehouse, WarehouseError
from tests.deployments import Deployment
from tests.faults.attacks import FILES, NotMadeError, alter_rows, entries, judge, read_by, told
from tests.faults.releases import ask_for_publication, deployment, hashes, in_child, launch, names, prepare_charge
from tests.faults.tampering import another, audited
from tests.gates import failing
from tests.lake import COMPUTING, Lake, make_lake
from tests.postgres import Server, server


class OneServer:
    """A PostgreSQL server that is started when needed."""

    def __init__(self) -> None:
        self._opened = ExitStack()

    @cache  # noqa: B019
    def started(self) -> Server:
        return self._opened.enter_context(server())

    def close(self) -> None:
        """End it, if it was started."""
        self._opened.close()


SERVER = OneServer()


@dataclass(frozen=True, eq=False)
class InLake:
    """A release with an earlier edition, of another record, whose public zone is in a lake.

    Attributes:
        name: one of `releases.RELEASES`.
        root: its folder, which is restored for each alteration, because a lake names its files by their place.
        lake: the lake; the catalog has a copy under the name with `_kept`.
        original: the published files, and the tables of the public zone, with a hash of each.
        earlier: the state of the lake at the earlier edition.
    """

    name: str
    root: Path
    lake: Lake
    original: tuple[Mapping[str, str], Mapping[str, str]]
    earlier: int

    @property
    def role(self) -> str:
        return self.lake.role(Zone.PUBLIC)

    def restore(self) -> None:
        """Put folder and catalog back."""
        shutil.rmtree(self.root)
        shutil.copytree(_kept(self.root), self.root, symlinks=True)
        run = SERVER.started().administration.run
        run(f"DROP DATABASE {self.role} WITH (FORCE)")
        run(f"CREATE DATABASE {self.role} TEMPLATE {self.role}_kept OWNER {self.role}")
        run(f"REVOKE CONNECT ON DATABASE {self.role} FROM PUBLIC")
        run(f"ALTER ROLE {self.role} RESET ALL")

    @contextmanager
    def here(self) -> Iterator[Deployment[Any]]:
        """The deployment of the release in the lake, with sessions that do not wait for a server that is lost."""
        with _in_lake(self.lake):
            yield deployment(self.root, self.name)


@contextmanager
def _in_lake(lake: Lake) -> Iterator[None]:
    made = partial(Warehouse, lake={Zone.PUBLIC.value: lake.data[Zone.PUBLIC.value]})
    at_once = patch.object(storage, "WAITS", ())
    with at_once, patch.dict(os.environ, lake.environment), patch("tests.deployments.Warehouse", made):
        yield


def _kept(root: Path) -> Path:
    return root.with_name("kept")


@cache
def published(folder: Path, name: str) -> InLake:
    """Publish a release twice in its own lake."""
    root = folder / "lakes" / sha256(name.encode()).hexdigest()[:8] / "attacked"
    lake = make_lake(SERVER.started(), root)

    def publish_twice() -> tuple[int, tuple[dict[str, str], dict[str, str]], list[str]]:
        with _in_lake(lake):
            prepare_charge(deployment(root, name))
            launch(deployment(root, name, guess=1))
            ((state,),) = lake.catalog(Zone.PUBLIC, "SELECT max(snapshot_id) FROM ducklake_snapshot")
            here = deployment(root, name)
            launch(here)
            return state, (entries(root / "published"), _content(here)), [*failing(here), *audited(here, repeats=False)]

    ended = in_child(publish_twice)
    if ended.status or ended.answer[2]:
        raise RuntimeError(f"{name} is not published as it should be: {ended.error or ended.answer[2]}")
    state, original, _ = ended.answer
    shutil.copytree(root, _kept(root), symlinks=True)
    role = lake.role(Zone.PUBLIC)
    SERVER.started().administration.run(f"CREATE DATABASE {role}_kept TEMPLATE {role}")
    return InLake(name, root, lake, tuple(original), state)


def attacked(folder: Path, name: str, seed: int) -> tuple[str, list[str]]:
    """The first alteration of a seed that can be made. Returns its words, and the errors."""
    release = published(folder, name)
    with release.here():
        # Once, before it forks.
        pass
    for attempt in count():
        release.restore()
        rng = random.Random(f"{name} in a lake {seed} {attempt}")
        ended = in_child(lambda rng=rng: _attack(release, rng))  # type: ignore[misc]
        if NotMadeError.__name__ not in ended.error:
            return told(ended)
    raise AssertionError


def _attack(release: InLake, rng: random.Random) -> tuple[str, list[str]]:
    alter = rng.choices([_alter_zone, _alter_catalog, _alter_files, _put_back], [7, 8, 5, 2])[0]
    with release.here() as here:
        altered, content = partial(alter, release, here, rng), partial(_content, here)
        return judge(here, altered, content, release.original, ask_for_publication)


def _content(here: Deployment[Any]) -> dict[str, str]:
    """The tables and views of the public zone; none if they cannot be read."""
    try:
        with here.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
            # Not `main`, which is empty, and which the catalog may not have.
            session._connection.execute(f'USE public."{min({*session.schemas(Zone.PUBLIC)} - {"main"})}"')
            found = hashes(session._connection, "public", views=True)
        return {name.lower(): content for name, content in found.items()}
    except (duckdb.Error, WarehouseError):
        return {}


Alter = Callable[[InLake, Deployment[Any], random.Random], str]


def _requireanother(release: InLake, here: Deployment[Any], words: str) -> str:
    """The words, unless tables and views are as they were."""
    if _content(here) == release.original[1]:
        raise NotMadeError
    return words


def _alter_zone(release: InLake, here: Deployment[Any], rng: random.Random) -> str:
    """By statements of DuckLake."""
    try:
        with here.context.warehouse.session(writes=Zone.PUBLIC) as session:
            session._connection.execute("USE public")
            words = alter_rows(session._connection, rng, read_by(here))
    except (duckdb.Error, WarehouseError) as error:
        raise NotMadeError from error
    return _requireanother(release, here, words) if words.startswith("nothing") else words


VALUES = [
    *("NULL", "''", "0", "1", "-1", "9223372036854775807", "gen_random_uuid()"),
    *("'0'", "'x'", "'true'", "'false'", "'../x'"),
]
"""The values that a value of the catalog can become, besides another row's value and neighboring values."""


def _alter_catalog(release: InLake, here: Deployment[Any], rng: random.Random) -> str:
    """By statements of PostgreSQL: a value, a row, or a definition."""
    if rng.random() < 0.1:
        words = rng.choice(COMPUTING)
        _run(release, words)
        return words
    tables = _run(
        release,
        "SELECT table_name, string_agg(column_name || ' ' || data_type, ',' ORDER BY ordinal_position) "
        "FROM information_schema.columns WHERE table_name LIKE 'ducklake%' GROUP BY 1 ORDER BY 1",
    )
    table, columns = rng.choice([found for found in tables if _run(release, f"SELECT 1 FROM {found[0]} LIMIT 1")])
    column, kind = rng.choice(columns.split(",")).split(" ", 1)
    rows = [row for (row,) in _run(release, f"SELECT ctid::text FROM {table} ORDER BY {table}::text")]
    row, other = rng.choice(rows), rng.choice(rows)
    near = [f"{column} + 1", f"{column} - 1"]
    if "int" not in kind:
        near = [f"{column} || 'x'", f"upper({column})", f"NOT {column}"]
    value = rng.choice([*VALUES, *near * 3, *[f"(SELECT {column} FROM {table} WHERE ctid = '{other}')"] * 6])
    where = f"WHERE ctid = '{row}'"
    update = f"UPDATE {table} SET {column} = {value} {where} AND {column} IS DISTINCT FROM {value}"
    statement, words = rng.choices(
        [
            (update, f"{table}.{column} = {value}"),
            (f"DELETE FROM {table} {where}", f"a row less in {table}"),
            (f"INSERT INTO {table} SELECT * FROM {table} {where}", f"a row twice in {table}"),
        ],
        [10, 2, 1],
    )[0]
    if not _run(release, f"{statement} RETURNING 1"):
        raise NotMadeError
    return words


def _run(release: InLake, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement as the role that owns the catalog."""
    try:
        catalog = release.lake.catalogs[Zone.PUBLIC]
        return catalog.run(statement, acting=release.role)
    except psycopg.Error as error:
        raise NotMadeError from error


def _alter_value(path: Path, rng: random.Random) -> None:
    """Write a data file again, with a value altered, a row less, or a row more, its identifiers of columns kept."""
    table, row = pq.read_table(path), 0
    if len(table):
        row = rng.randrange(len(table))
    number = rng.randrange(table.num_columns)
    match rng.randrange(4):
        case 0:
            table = pa.concat_tables([table.slice(0, row), table.slice(row + 1)])
        case 1:
            table = pa.concat_tables([table, table.slice(row, 1)])
        case _:
            field, values = table.schema.field(number), table.column(number).to_pylist()
            kind = str(field.type)
            kinds = {"string": "VARCHAR", "double": "DOUBLE", "bool": "BOOLEAN"}
            if not values or not (kind in kinds or "int" in kind) or "list" in kind:
                raise NotMadeError
            values[row] = another(kinds.get(kind, "INT"), values[row])
            table = table.set_column(number, field, pa.array(values, field.type))
    pq.write_table(table, path)


def _level(path: Path, rng: random.Random) -> None:
    table = pq.read_table(path)
    number = rng.randrange(table.num_columns)
    field, values = table.schema.field(number), table.column(number).to_pylist()
    pq.write_table(table.set_column(number, field, pa.array([values[0]] * len(values), field.type)), path)


DATA_FILES: Mapping[str, Callable[[Path, random.Random], object]] = {
    "a value, a row more or a row less": _alter_value,
    "the value of one row in all": _level,
    **{
        words: FILES[words]
        for words in (
            *("a bit", "cut", "more bytes", "a Parquet file written again", "an encrypted Parquet file", "deleted"),
            *("exchanged", "a link to the file elsewhere", "a link to the folder elsewhere", "a file more"),
            *("a pipe instead of a file", "a folder instead of a file", "a name in another case instead"),
        )
    },
}
"""The alterations of a Parquet file of the zone."""


def _alter_files(release: InLake, here: Deployment[Any], rng: random.Random) -> str:
    """A data file and, in half of the cases, the catalog's entries about it."""
    folder = Path(release.lake.data[Zone.PUBLIC.value])
    path = rng.choice(sorted(folder.rglob("*.parquet")))
    words = rng.choice([*DATA_FILES, *list(DATA_FILES)[:2] * 4])
    is_refitted, before = rng.random() < 0.5, entries(folder)
    try:
        DATA_FILES[words](path, rng)
        if is_refitted and path.is_file():
            rows = pq.read_metadata(path).num_rows if "encrypted" not in words else 1
            _run(
                release,
                f"UPDATE ducklake_data_file SET file_size_bytes = {path.stat().st_size}, footer_size = NULL, "
                f"record_count = {rows} WHERE path LIKE '%{path.name}'",
            )
    except Exception as error:
        raise NotMadeError from error
    if entries(folder) == before:
        raise NotMadeError
    return f"{words} of {path.relative_to(folder)}{', catalog made to fit' if is_refitted else ''}"


def _put_back(release: InLake, here: Deployment[Any], rng: random.Random) -> str:
    """Some tables, or the whole catalog, as they were at the earlier edition or at any time."""
    if rng.random() < 0.3:
        state = rng.choice([release.earlier, rng.randrange(release.earlier)])
        _run(release, f"DELETE FROM ducklake_snapshot WHERE snapshot_id > {state}")
        return _requireanother(release, here, f"the catalog at state {state}")
    with here.context.warehouse.session(writes=Zone.PUBLIC) as session:
        connection = session._connection
        connection.execute("USE public")
        places = [f'public."{schema}"."{table}"' for schema, table in names(connection) if schema not in read_by(here)]
        chosen = rng.sample(places, min(rng.choice([1, 1, 2, 3, len(places) - 1]), len(places)))
        try:
            for place in chosen:
                earlier = f"{place} AT (VERSION => {release.earlier})"
                connection.execute(f"CREATE OR REPLACE TEMP TABLE earlier AS FROM {earlier}")
                connection.execute(f"DELETE FROM {place}; INSERT INTO {place} FROM earlier")
        except duckdb.Error as error:
            raise NotMadeError from error
    return _requireanother(release, here, f"{', '.join(chosen)} of the earlier edition")
