"""Claims about what a database can carry besides the columns of its tables: it is refused, or changes no answer.

Whoever can write `public.duckdb` alters a value, and adds what could keep a comparison from noticing: a collation that
makes two codes equal, another type, a view that knows who reads it. The additions are one or more for each kind that
the catalog functions of DuckDB list. A version of DuckDB with a further function, or a further column of one, fails
here until somebody has looked at it.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from assets.gates.shared import differing_table
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse, WarehouseError
from tests.depth import deep_cases, quick_cases

CARRIED = {
    "duckdb_columns": "column_name column_index comment internal column_default is_nullable data_type data_type_id "
    "character_maximum_length numeric_precision numeric_precision_radix numeric_scale",
    "duckdb_constraints": "constraint_index constraint_type constraint_text expression constraint_column_indexes "
    "constraint_column_names constraint_name referenced_table referenced_column_names",
    "duckdb_functions": "function_name alias_of function_type description comment tags return_type parameters "
    "parameter_types varargs macro_definition has_side_effects internal function_oid examples stability categories",
    "duckdb_indexes": "index_name index_oid comment tags is_unique is_primary expressions sql",
    "duckdb_schemas": "oid comment tags internal sql",
    "duckdb_sequences": "sequence_name sequence_oid comment tags temporary start_value min_value max_value "
    "increment_by cycle last_value sql",
    "duckdb_tables": "comment tags internal temporary has_primary_key estimated_size column_count index_count "
    "check_constraint_count sql",
    "duckdb_types": "type_oid type_name type_size logical_type type_category comment tags internal labels",
    "duckdb_views": "view_name view_oid comment tags internal temporary column_count sql is_bound",
}
"""The catalog functions that list what a database carries, and their columns, but for those that name the place."""

OF_A_SESSION = {
    *("duckdb_approx_database_count", "duckdb_connection_count", "duckdb_coordinate_systems", "duckdb_databases"),
    *("duckdb_dependencies", "duckdb_extensions", "duckdb_external_file_cache", "duckdb_keywords"),
    *("duckdb_log_contexts", "duckdb_logs", "duckdb_logs_parsed", "duckdb_memory", "duckdb_optimizers"),
    *("duckdb_prepared_statements", "duckdb_profiling_settings", "duckdb_secret_types", "duckdb_secrets"),
    *("duckdb_settings", "duckdb_table_sample", "duckdb_temporary_files", "duckdb_variables"),
}
"""Those that list what a session or DuckDB itself has. A sample of a table is read by `duckdb_table_sample` alone."""

PLACE = {f"{of}_{what}" for of in ("database", "schema", "table") for what in ("name", "oid")}

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


@dataclass(frozen=True)
class Place:
    """A column of a table that is altered, and the randomness of the alteration."""

    connection: duckdb.DuckDBPyConnection
    table: str
    column: str
    rng: random.Random

    @property
    def columns(self) -> dict[str, str]:
        return {name: kind for name, kind, *_ in self.connection.execute(f"DESCRIBE {self.table}").fetchall()}

    def draw(self, text: str) -> str:
        """One of the results of a query about what DuckDB itself has."""
        return self.rng.choice(known_to_duckdb(text))

    def make_again(self, change: str = "", *constraints: str) -> str:
        """Statements that make the table again, with a change of the column's definition, or with constraints."""
        parts = [f"{name} {kind} {change if name == self.column else ''}" for name, kind in self.columns.items()]
        others = ", ".join(name for name in self.columns if name != self.column or "GENERATED" not in change)
        return (
            f"CREATE TABLE again ({', '.join([*parts, *constraints])}); "
            f"INSERT INTO again ({others}) SELECT {others} FROM {self.table}; "
            f"DROP TABLE {self.table}; ALTER TABLE again RENAME TO {self.table}"
        )

    def retype(self, kind: str) -> str:
        return f"ALTER TABLE {self.table} ALTER {self.column} TYPE {kind}"


@cache
def known_to_duckdb(text: str) -> list[str]:
    with duckdb.connect() as connection:
        return sorted({name for (name,) in connection.execute(text).fetchall()})


COLLATIONS = "SELECT * FROM pragma_collations()"
TYPES = "SELECT type_name FROM duckdb_types() WHERE database_name = 'system'"
FUNCTIONS = "SELECT function_name FROM duckdb_functions() WHERE regexp_full_match(function_name, '\\w+')"
SCALAR, OF_TABLES = f"{FUNCTIONS} AND function_type <> 'table'", f"{FUNCTIONS} AND function_type = 'table'"

LIKE_ERRORS = [
    "Connection refused",
    'a": server closed the connection',
    "too many clients",
    "canceling statement due to",
    "Transaction conflict",
]
"""Names that an error quotes, and that made it one of a lost server, which no gate takes for a finding."""

ADDITIONS: dict[str, tuple[str, Callable[[Place], str]]] = {
    "nothing": ("", lambda at: "SELECT 1"),
    "collation": ("duckdb_tables", lambda at: at.retype(f"VARCHAR COLLATE {at.draw(COLLATIONS)}")),
    "case": ("duckdb_tables", lambda at: at.retype(f"VARCHAR COLLATE {at.rng.choice(['NOCASE', 'NOCASE.NOACCENT'])}")),
    "collation that was always there": (
        "duckdb_tables",
        lambda at: (
            f"CREATE OR REPLACE TABLE {at.table} AS SELECT * REPLACE ({at.column} COLLATE NOCASE AS {at.column}) "
            f"FROM {at.table}"
        ),
    ),
    "collation in a list": ("duckdb_columns", lambda at: at.retype(f"VARCHAR[] USING [{at.column} COLLATE NOCASE]")),
    "type": ("duckdb_columns", lambda at: at.retype(f"{at.draw(TYPES)} USING TRY_CAST({at.column} AS VARCHAR)")),
    "text": ("duckdb_columns", lambda at: at.retype("VARCHAR")),
    "enumeration": (
        "duckdb_columns",
        lambda at: (
            f"CREATE TYPE codes AS ENUM (SELECT DISTINCT {at.column}::VARCHAR FROM {at.table}); "
            + at.retype("codes")
            + "; DROP TYPE codes"
        ),
    ),
    "struct": ("duckdb_columns", lambda at: at.retype(f"STRUCT(a VARCHAR) USING {{'a': {at.column}}}")),
    "default": ("duckdb_columns", lambda at: f"ALTER TABLE {at.table} ALTER {at.column} SET DEFAULT NULL || 'x'"),
    "generated": (
        "duckdb_columns",
        lambda at: at.make_again("GENERATED ALWAYS AS (if(current_query() LIKE 'COPY%', NULL, NULL))"),
    ),
    "not null": ("duckdb_constraints", lambda at: f"ALTER TABLE {at.table} ALTER {at.column} SET NOT NULL"),
    "check": ("duckdb_constraints", lambda at: at.make_again("", f"CHECK ({at.column} IS NOT NULL OR random() < 2)")),
    "key": (
        "duckdb_constraints",
        lambda at: at.make_again("", f"{at.rng.choice(['UNIQUE', 'PRIMARY KEY'])} ({at.column})"),
    ),
    "foreign key": (
        "duckdb_constraints",
        lambda at: (
            at.make_again("UNIQUE") + f"; CREATE TABLE other ({at.column} {at.columns[at.column]} "
            f"REFERENCES {at.table}({at.column}))"
        ),
    ),
    "index": ("duckdb_indexes", lambda at: f"CREATE INDEX found ON {at.table} ({at.column})"),
    "index of what is computed": (
        "duckdb_indexes",
        lambda at: f"CREATE INDEX found ON {at.table} ((md5({at.column})))",
    ),
    "sequence": ("duckdb_sequences", lambda at: "CREATE SEQUENCE numbers"),
    "type with a name of DuckDB's": ("duckdb_types", lambda at: f'CREATE TYPE "{at.draw(TYPES)}" AS VARCHAR'),
    "view in place of a table": (
        "duckdb_views",
        lambda at: (
            f"ALTER TABLE {at.table} RENAME TO kept; CREATE VIEW {at.table} AS SELECT "
            + ", ".join(f"a.{name}" for name in at.columns)
            + " FROM public.village.kept AS a"
        ),
    ),
    "view that knows its reader": (
        "duckdb_views",
        lambda at: (
            f"ALTER TABLE {at.table} RENAME TO kept; CREATE VIEW {at.table} AS SELECT k.* REPLACE (if("
            f"current_query() LIKE 'COPY%', NULL, {at.column}) AS {at.column}) FROM public.village.kept AS k"
        ),
    ),
    "view with a collation": (
        "duckdb_views",
        lambda at: (
            f"ALTER TABLE {at.table} RENAME TO kept; CREATE VIEW {at.table} AS SELECT k.* REPLACE ({at.column} "
            f"COLLATE NOCASE AS {at.column}) FROM public.village.kept AS k"
        ),
    ),
    "view that joins the table with itself": (
        "duckdb_views",
        lambda at: (
            f"ALTER TABLE {at.table} RENAME TO kept; CREATE VIEW {at.table} AS SELECT "
            + ", ".join(f"a.{name}" for name in at.columns)
            + f" FROM public.village.kept AS a INNER JOIN public.village.kept AS b USING ({at.column})"
        ),
    ),
    "two views of one name": (
        "duckdb_views",
        lambda at: (
            'CREATE SCHEMA a; CREATE SCHEMA "a.b"; '
            f'CREATE VIEW "a.b".c AS SELECT k.{at.column} FROM public.village.{at.table} AS k; '
            f'CREATE VIEW a."b.c" AS SELECT now() AS {at.column}'
        ),
    ),
    "view with other columns": (
        "duckdb_views",
        lambda at: f"CREATE VIEW renamed (other) AS SELECT k.{at.column} FROM public.village.{at.table} AS k",
    ),
    "comment": ("duckdb_tables", lambda at: f"COMMENT ON TABLE {at.table} IS 'COLLATE NOCASE'"),
    "comment of a column": ("duckdb_columns", lambda at: f"COMMENT ON COLUMN {at.table}.{at.column} IS 'looked at'"),
    "comment of a view": ("duckdb_views", lambda at: "COMMENT ON VIEW joined IS 'looked at'"),
    "macro": (
        "duckdb_functions",
        lambda at: f'CREATE MACRO "{at.draw(SCALAR)}"({", ".join(at.rng.choice(["", "x", "xy", "xyz"]))}) AS NULL',
    ),
    "macro of the first schema": ("duckdb_functions", lambda at: f'CREATE MACRO main."{at.draw(SCALAR)}"(x) AS NULL'),
    "macro that is a table": (
        "duckdb_functions",
        lambda at: f'CREATE MACRO "{at.draw(OF_TABLES)}"(x) AS TABLE SELECT 1',
    ),
    "name of a table like an error": (
        "duckdb_tables",
        lambda at: f'CREATE TABLE "{at.rng.choice(LIKE_ERRORS)}" AS SELECT NULL AS code',
    ),
    "name of a column like an error": (
        "duckdb_columns",
        lambda at: f'ALTER TABLE {at.table} RENAME {at.column} TO "x{at.rng.choice(LIKE_ERRORS)}y"',
    ),
    "schema with a name of a database": (
        "duckdb_schemas",
        lambda at: (lambda name: f'CREATE SCHEMA "{name}"; CREATE TABLE "{name}".{at.table} AS SELECT NULL AS code')(
            at.rng.choice(["public", "confidential", "memory", "village.public", "again", "DEFAULT(NULL)"])
        ),
    ),
}
"""What a database can carry: the function that lists it, and how it gets there."""

NOT_REFUSED = {
    "nothing",
    "collation in a list",
    "type",
    "text",
    "view in place of a table",
    "view that joins the table with itself",
    "comment of a column",
    "macro",
    "macro of the first schema",
    "macro that is a table",
    "schema with a name of a database",
}
"""Those with which a zone is opened, or may be: every comparison then sees values, bytes and types as they are."""

LIES = {
    "none": "{column}",
    "case": "if({column}::VARCHAR = upper({column}::VARCHAR), lower({column}::VARCHAR), upper({column}::VARCHAR))",
    "accent": "replace({column}::VARCHAR, 'é', 'e')",
    "composition": "replace({column}::VARCHAR, 'é', 'e' || chr(769))",
    "fraction": "{column}::VARCHAR || '.4'",
    "zero": "'0' || {column}::VARCHAR",
    "space": "{column}::VARCHAR || ' '",
    "nothing at all": "NULL",
    "more": "{column} + 1",
}
"""What a value is altered to, such that some addition could hide it."""


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
        connection.execute("USE public.village; SET preserve_insertion_order = true")
        table = rng.choice(list(MADE))
        columns = [row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall()]
        at = Place(connection, table, rng.choice(columns), rng)
        changed = (
            f"UPDATE {table} SET {at.column} = {LIES[lie].format(column=at.column)} WHERE rowid = {rng.randrange(3)}"
        )
        shows, add = ADDITIONS[addition]
        try:
            before = listed(connection, shows)
            # Some types cannot hold the lie before the addition, and some not after it.
            for text in rng.sample([add(at), changed], 2):
                connection.execute(text)
            if shows and listed(connection, shows) == before:
                return None
        except duckdb.Error:
            return None
    return table


def listed(connection: duckdb.DuckDBPyConnection, function: str) -> list[tuple[object, ...]]:
    """What a catalog function lists of the zone."""
    if not function:
        return []
    names = [name for name in CARRIED[function].split() if not name.endswith("oid")]
    chosen = ", ".join(f'"{name}"' for name in names)
    return connection.execute(
        f"SELECT schema_name, {chosen} FROM {function}() WHERE database_name = 'public' ORDER BY ALL"
    ).fetchall()


def passes(warehouse: Warehouse, original: dict[str, tuple[pa.Table, str]], altered: str) -> Iterator[str]:
    """What passes a comparison or a version of an opened zone although it is not what was written.

    With the values that are stored, the comparison must also see each text that is written in the other case.
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
    return Counter(map(repr, table.to_pylist()))


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
    """How an alteration ends: the zone is refused, a view no longer fits its tables, or nothing passes."""
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
    """2,000 tries: an addition, a lie, and a column of a table. What DuckDB does not make is not a try."""
    rng, ends = random.Random(case), Counter[str]()
    while ends.total() < TRIES:
        addition, lie = rng.choice(list(ADDITIONS)), rng.choice(list(LIES))
        if altered := alter(base, warehouse, rng, addition, lie):
            ended = end(warehouse, original, altered)
            assert ended in {"refused", "seen", "unreadable"}, (addition, lie, altered)
            ends[ended] += 1
    assert {"refused", "seen"} <= ends.keys()
