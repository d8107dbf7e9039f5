"""Claims about other objects of a database than the columns of its tables: each is refused or changes no answer.

An attacker who can write `public.duckdb` alters a value and adds objects that could hide the change from a comparison:
a collation that makes two codes equal, another type, a view that depends on its reader. Each kind of object that
DuckDB's catalog functions list has at least one such addition. A version of DuckDB with a further function, or a
further column of one, fails here until a developer has examined it.
"""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from assets.gates.shared import differing_table
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse, WarehouseError
from tests.additions import ADDITIONS, CARRIED, LIES, OF_A_SESSION, PLACE, Place
from tests.depth import deep_cases, quick_cases

MADE = {
    "counts": "SELECT * FROM (VALUES ('A', 5::BIGINT, 1.50::DECIMAL(18, 2), true, DATE '2020-01-01'), "
    "('a', 7, 2.25, false, NULL), ('é', 9, 0.00, true, DATE '2020-01-03'), ('e', 2, NULL, NULL, DATE '2020-01-04')) "
    "AS t(code, count, share, flag, day)",
    "labels": "SELECT * FROM (VALUES ('A', 'Owned'), ('a', 'owned'), ('b', 'Rented')) AS t(code, label)",
    "measurements": "SELECT 'q' || i AS query, [i, i + 1]::INTEGER[] AS answers, i::UTINYINT AS level, i / 4 AS loss "
    "FROM range(5) AS r(i)",
}
TABLES = {name: Table(Zone.PUBLIC, "village", name) for name in (*MADE, "joined")}
VIEW = (
    "CREATE VIEW public.village.joined AS SELECT a.code, a.count, b.label "
    "FROM public.village.counts AS a INNER JOIN public.village.labels AS b USING (code)"
)
TRIES = 20
"""The number of tries of a case."""


NOT_REFUSED = {
    *("nothing", "rows in another order", "rows that were deleted", "columns that were dropped", "another compression"),
    *("changes left in the log", "table more", "table that changes its name", "table in another case"),
    *("row more", "row less", "no rows", "two values exchanged", "tables that change their names"),
    *("column in another case", "column more", "column less", "columns in another order"),
    "columns that change their names",
    "collation in a list",
    "type",
    "type of the same values",
    "nested type",
    "text",
    "view in place of a table",
    "view of a table in another schema",
    "view of rows twice",
    "view that joins the table with itself",
    "comment of a column",
    "macro",
    "macro of the first schema",
    "macro that is a table",
    "macros of one name",
    "schema with a name of a database",
}
"""Those with which a zone is opened, or may be: every comparison then sees values, bytes and types as they are."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public zone as Stirred writes it."""
    path = tmp_path_factory.mktemp("base") / "public.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA village")
        for name, text in MADE.items():
            connection.execute(f"CREATE TABLE village.{name} AS {text}")
        connection.execute(VIEW)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(folder=str(tmp_path_factory.mktemp("warehouse")), threads=1)


@pytest.fixture(scope="module")
def original(base: Path, warehouse: Warehouse) -> dict[str, tuple[pa.Table, str]]:
    shutil.copy(base, warehouse.path(Zone.PUBLIC))
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        return {name: read(session, table) for name, table in TABLES.items()}


def read(session: Session, table: Table) -> tuple[pa.Table, str]:
    return session.arrow("warehouse/all", source=table), session.content_version([table])


def alter(base: Path, warehouse: Warehouse, rng: random.Random, addition: str, lie: str) -> str | None:
    """Alter a value and add to a copy of a zone; the table that was altered, or None if DuckDB does not let anyone."""
    path = warehouse.path(Zone.PUBLIC)
    shutil.copy(base, path)
    with duckdb.connect(str(path), config={"threads": 1}) as connection:
        at = Place.choose(connection, rng, "village", table := rng.choice(list(MADE)))
        return table if at.alter(addition, lie) else None


def passes(warehouse: Warehouse, original: dict[str, tuple[pa.Table, str]], altered: str) -> Iterator[str]:
    """Alterations that pass the comparison or the version of an opened zone.

    The comparison of the stored values must also notice each text written in the other case.
    """
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name in {altered, "joined"}:
            table, (made, version) = TABLES[name], original[name]
            stored, stored_version = read(session, table)
            is_same = stored.schema == made.schema and count_rows(stored) == count_rows(made)
            if is_same != (stored_version == version):
                yield f"version of {name}"
            if is_same == bool(differing(session, table, made)):
                yield f"comparison of {name}"
            for number, field in enumerate(made.schema):
                if pa.types.is_string(field.type):
                    texts = [value and value.swapcase() for value in made[field.name].to_pylist()]
                    other = made.set_column(number, field.name, pa.array(texts, pa.string()))
                    if not differing(session, table, other):
                        yield f"comparison of {name} in another case"


def count_rows(table: pa.Table) -> Counter[str]:
    # Python has no dates as far from now as DuckDB.
    kinds = [field.with_type(pa.int32()) if pa.types.is_date32(field.type) else field for field in table.schema]
    return Counter(map(repr, table.cast(pa.schema(kinds)).to_pylist()))


def differing(session: Session, stored: Table, made: pa.Table) -> list[str]:
    return differing_table(session, stored, ("warehouse/all", {}, {"source": session.register("made", made)}))


def test_every_function_of_the_catalog_was_looked_at() -> None:
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name LIKE 'duckdb\\_%' ESCAPE '\\'"
        ).fetchall()
        assert {name for (name,) in found} == CARRIED.keys() | OF_A_SESSION
        for function, columns in CARRIED.items():
            described = {name for name, *_ in connection.execute(f"DESCRIBE FROM {function}()").fetchall()}
            assert described - PLACE == set(columns.split()), function
    assert {shows for shows, _ in ADDITIONS.values()} - {""} == CARRIED.keys()


def end(warehouse: Warehouse, original: dict[str, tuple[pa.Table, str]], altered: str) -> str:
    """The outcome of an alteration: the zone is refused, a view no longer fits its tables, or the alteration is
    seen."""
    try:
        passed = list(passes(warehouse, original, altered))
    except WarehouseError as error:
        return "refused" if "public.duckdb was altered: Stirred did not write" in str(error) else "unreadable"
    return ", ".join(passed) or "seen"


@deep_cases(6)
@quick_cases(6)
@pytest.mark.parametrize("addition", ADDITIONS)
def test_what_a_database_carries_is_refused_or_hides_nothing(
    base: Path, warehouse: Warehouse, original: dict[str, tuple[pa.Table, str]], addition: str
) -> None:
    rng, altered = random.Random(addition), None
    while altered is None:
        altered = alter(base, warehouse, rng, addition, "none")
    ended = end(warehouse, original, altered)
    assert ended in ({"refused", "seen", "unreadable"} if addition in NOT_REFUSED else {"refused"})


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("case", range(100))
def test_no_alteration_passes_whatever_is_added(
    base: Path, warehouse: Warehouse, original: dict[str, tuple[pa.Table, str]], case: int
) -> None:
    """2,000 tries: an addition, a lie, and a column of a table. Alterations that DuckDB rejects do not count."""
    rng, ends = random.Random(case), Counter[str]()
    while ends.total() < TRIES:
        addition, lie = rng.choice(list(ADDITIONS)), rng.choice(list(LIES))
        if altered := alter(base, warehouse, rng, addition, lie):
            ended = end(warehouse, original, altered)
            assert ended in {"refused", "seen", "unreadable"}, (addition, lie, altered)
            ends[ended] += 1
    assert {"refused", "seen"} <= ends.keys()


@pytest.mark.parametrize(("column", "refused"), [("answers", False), ("query", True)])
def test_bytes_are_refused_but_in_answers(base: Path, warehouse: Warehouse, column: str, refused: bool) -> None:
    """DuckDB takes a text for bytes that it stands for, so that the text '\\x41' equals the bytes of 'A'."""
    path = warehouse.path(Zone.PUBLIC)
    shutil.copy(base, path)
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"ALTER TABLE public.village.measurements ALTER {column} TYPE BLOB USING 'A'::BLOB")
    words = "has a column of a type that no stage stores"
    with (
        pytest.raises(WarehouseError, match=words) if refused else nullcontext(),
        warehouse.session(reads=[Zone.PUBLIC]) as session,
    ):
        assert session.columns(TABLES["measurements"])[column] == "BLOB"
