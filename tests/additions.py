"""Objects that a DuckDB file can have besides columns with values, and altered values that they could hide.

An attacker who can write a public zone could make such additions and alterations (`tests/resources/test_additions.py`,
`tests/faults/attacks.py`). There are one or more for each kind that the catalog functions of DuckDB list, and some for
features that no function lists: the order of rows, their compression, the history of a table.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import duckdb

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
"""The catalog functions that list a database's content, and their columns, except those that name the place."""

OF_A_SESSION = {
    *("duckdb_approx_database_count", "duckdb_connection_count", "duckdb_coordinate_systems", "duckdb_databases"),
    *("duckdb_dependencies", "duckdb_extensions", "duckdb_external_file_cache", "duckdb_keywords"),
    *("duckdb_log_contexts", "duckdb_logs", "duckdb_logs_parsed", "duckdb_memory", "duckdb_optimizers"),
    *("duckdb_prepared_statements", "duckdb_profiling_settings", "duckdb_secret_types", "duckdb_secrets"),
    *("duckdb_settings", "duckdb_table_sample", "duckdb_temporary_files", "duckdb_variables"),
}
"""The functions that list objects of a session or of DuckDB itself. A sample of a table is read by
`duckdb_table_sample` alone."""

PLACE = {f"{of}_{what}" for of in ("database", "schema", "table") for what in ("name", "oid")}


@dataclass(frozen=True)
class Place:
    """A column of a table that is altered, and the randomness of the alteration. Names are in quotes."""

    connection: duckdb.DuckDBPyConnection
    schema: str
    table: str
    column: str
    rng: random.Random

    @classmethod
    def choose(cls, connection: duckdb.DuckDBPyConnection, rng: random.Random, schema: str, table: str) -> "Place":
        """A column of a table of the database `public`, whose schema becomes the default for new objects."""
        connection.execute(f'USE public."{schema}"')
        columns = [row[0] for row in connection.execute(f'DESCRIBE "{table}"').fetchall()]
        return cls(connection, f'public."{schema}"', f'"{table}"', f'"{rng.choice(columns)}"', rng)

    @property
    def columns(self) -> dict[str, str]:
        return {f'"{name}"': kind for name, kind, *_ in self.connection.execute(f"DESCRIBE {self.table}").fetchall()}

    @property
    def neighbors(self) -> list[str]:
        """The other tables of the schema; the table itself if it is the only one."""
        listed = (
            "SELECT table_name FROM duckdb_tables() WHERE database_name = 'public' AND schema_name = current_schema()"
        )
        names = [name for (name,) in self.connection.execute(f"{listed} ORDER BY ALL").fetchall()]
        return [name for name in names if f'"{name}"' != self.table] or names

    def alter(self, addition: str, lie: str) -> bool:
        """Make an addition, and alter a value, in either order; False if DuckDB does not make them."""
        shows, add = ADDITIONS[addition]
        (count,) = self.connection.execute(f"SELECT count(*) FROM {self.table}").fetchall()[0]
        row, other = (self.rng.randrange(max(count, 1)) for _ in range(2))
        told = LIES[lie].format(column=self.column, table=self.table, other=other)
        changed = f"UPDATE {self.table} SET {self.column} = {told} WHERE rowid = {row}"
        try:
            before = listed(self.connection, shows)
            # Some types cannot hold the lie before the addition, and some not after it.
            for text in self.rng.sample([add(self), changed], 2):
                self.connection.execute(text)
            return not shows or listed(self.connection, shows) != before
        except (duckdb.Error, UnicodeDecodeError):
            # DuckDB cuts a text in an error within a letter.
            return False

    def draw(self, text: str) -> str:
        """One of the results of a query about DuckDB's own objects."""
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

    def replace(self, rows: str) -> str:
        """Statements that make the table again from a query's result about it."""
        return f"CREATE OR REPLACE TABLE {self.table} AS {rows.format(table=self.table, column=self.column)}"

    def show(self, query: str) -> str:
        """Statements that put a view in place of the table, which is kept under another name."""
        columns = ", ".join(f"a.{name}" for name in self.columns)
        shown = query.format(columns=columns, kept=f"{self.schema}.kept", column=self.column)
        return f"ALTER TABLE {self.table} RENAME TO kept; CREATE VIEW {self.table} AS {shown}"


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
"""Names that an error quotes, and that made it look like the error of a lost server, which no gate takes for a
finding."""

ODD_NAMES = ["more", "a b", "a\nb", "a\u202eb", "", "x" * 300, "public", "drаw", "=1+1"]
"""Names of further tables: no words, another table's with a Cyrillic letter, a formula."""

ADDITIONS: dict[str, tuple[str, Callable[[Place], str]]] = {
    "nothing": ("", lambda at: "SELECT 1"),
    "rows in another order": ("", lambda at: at.replace("FROM {table} ORDER BY hash({column}), random()")),
    "rows that were deleted": (
        "",
        lambda at: (
            f"CREATE TEMP TABLE earlier AS FROM {at.table}; INSERT INTO {at.table} FROM earlier; "
            f"DELETE FROM {at.table} WHERE rowid >= (SELECT count(*) FROM earlier)"
        ),
    ),
    "columns that were dropped": (
        "",
        lambda at: (
            f"ALTER TABLE {at.table} ADD COLUMN dropped VARCHAR DEFAULT 'x'; CHECKPOINT; "
            f"ALTER TABLE {at.table} DROP dropped"
        ),
    ),
    "row more": ("", lambda at: f"INSERT INTO {at.table} FROM {at.table} WHERE rowid = 1"),
    "row less": ("", lambda at: f"DELETE FROM {at.table} WHERE rowid = 1"),
    "no rows": ("", lambda at: f"DELETE FROM {at.table}"),
    "two values exchanged": (
        "",
        lambda at: (
            f"UPDATE {at.table} SET {at.column} = b.{at.column} FROM {at.table} AS b "
            f"WHERE {at.table}.rowid < 2 AND b.rowid = 1 - {at.table}.rowid"
        ),
    ),
    "another compression": (
        "",
        lambda at: (
            f"SET force_compression = '{at.rng.choice(['uncompressed', 'rle', 'dictionary', 'bitpacking', 'zstd'])}'; "
            + at.replace("FROM {table}")
            + "; CHECKPOINT"
        ),
    ),
    "changes left in the log": ("", lambda at: "PRAGMA disable_checkpoint_on_shutdown"),
    "collation": ("duckdb_tables", lambda at: at.retype(f"VARCHAR COLLATE {at.draw(COLLATIONS)}")),
    "case": ("duckdb_tables", lambda at: at.retype(f"VARCHAR COLLATE {at.rng.choice(['NOCASE', 'NOCASE.NOACCENT'])}")),
    "collation that was always there": (
        "duckdb_tables",
        lambda at: at.replace("SELECT * REPLACE ({column} COLLATE NOCASE AS {column}) FROM {table}"),
    ),
    "collation in a list": ("duckdb_columns", lambda at: at.retype(f"VARCHAR[] USING [{at.column} COLLATE NOCASE]")),
    "type": ("duckdb_columns", lambda at: at.retype(f"{at.draw(TYPES)} USING TRY_CAST({at.column} AS VARCHAR)")),
    "text": ("duckdb_columns", lambda at: at.retype("VARCHAR")),
    "type of the same values": (
        "duckdb_columns",
        lambda at: at.retype(
            at.rng.choice(
                [
                    "DECIMAL(38, 9)",
                    "DECIMAL(18, 3)",
                    "HUGEINT",
                    "UBIGINT",
                    "FLOAT",
                    "BLOB",
                    "BIT",
                    "TIMESTAMPTZ",
                    "UUID",
                ]
            )
        ),
    ),
    "nested type": (
        "duckdb_columns",
        lambda at: at.retype(
            at.rng.choice(
                [
                    "{kind}[1] USING [{column}]",
                    "{kind}[][] USING [[{column}]]",
                    "MAP(VARCHAR, {kind}) USING MAP {{'a': {column}}}",
                    "UNION(a {kind}, b VARCHAR) USING union_value(a := {column})",
                    "VARIANT USING {column}::VARIANT",
                    "JSON USING to_json({column})",
                ]
            ).format(kind=at.columns[at.column], column=at.column)
        ),
    ),
    "enumeration": (
        "duckdb_columns",
        lambda at: (
            f"CREATE TYPE codes AS ENUM (SELECT DISTINCT {at.column}::VARCHAR FROM {at.table}); "
            + at.retype("codes")
            + "; DROP TYPE codes"
        ),
    ),
    "struct": ("duckdb_columns", lambda at: at.retype(f"STRUCT(a VARCHAR) USING {{'a': {at.column}}}")),
    "column in another case": (
        "duckdb_columns",
        lambda at: f"ALTER TABLE {at.table} RENAME {at.column} TO {at.column.swapcase()}",
    ),
    "column more": (
        "duckdb_columns",
        lambda at: f'ALTER TABLE {at.table} ADD COLUMN "{at.rng.choice(["more", "rowid", "a b", "ｍore"])}" BIGINT',
    ),
    "column less": ("duckdb_columns", lambda at: f"ALTER TABLE {at.table} DROP {at.column}"),
    "columns in another order": (
        "duckdb_columns",
        lambda at: at.replace("SELECT {column}, * EXCLUDE ({column}) FROM {table}"),
    ),
    "columns that change their names": (
        "duckdb_columns",
        lambda at: (
            lambda other: (
                f"ALTER TABLE {at.table} RENAME {at.column} TO x; "
                f"ALTER TABLE {at.table} RENAME {other} TO {at.column}; ALTER TABLE {at.table} RENAME x TO {other}"
            )
        )(at.rng.choice(list(at.columns))),
    ),
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
    "view in place of a table": ("duckdb_views", lambda at: at.show("SELECT {columns} FROM {kept} AS a")),
    "view of some rows": ("duckdb_views", lambda at: at.show("SELECT {columns} FROM {kept} AS a WHERE rowid <> 1")),
    "view of rows twice": (
        "duckdb_views",
        lambda at: at.show("SELECT {columns} FROM {kept} AS a UNION ALL SELECT {columns} FROM {kept} AS a"),
    ),
    "view in another order": (
        "duckdb_views",
        lambda at: at.show("SELECT {columns} FROM {kept} AS a ORDER BY random()"),
    ),
    "view that knows its reader": (
        "duckdb_views",
        lambda at: at.show(
            "SELECT a.* REPLACE (if(current_query() LIKE 'COPY%', NULL, {column}) AS {column}) FROM {kept} AS a"
        ),
    ),
    "view with a collation": (
        "duckdb_views",
        lambda at: at.show("SELECT a.* REPLACE ({column} COLLATE NOCASE AS {column}) FROM {kept} AS a"),
    ),
    "view that joins the table with itself": (
        "duckdb_views",
        lambda at: at.show("SELECT {columns} FROM {kept} AS a INNER JOIN {kept} AS b USING ({column})"),
    ),
    "two views of one name": (
        "duckdb_views",
        lambda at: (
            'CREATE SCHEMA a; CREATE SCHEMA "a.b"; '
            f'CREATE VIEW "a.b".c AS SELECT k.{at.column} FROM {at.schema}.{at.table} AS k; '
            f'CREATE VIEW a."b.c" AS SELECT now() AS {at.column}'
        ),
    ),
    "view of the confidential zone": (
        "duckdb_views",
        lambda at: (
            f"ATTACH ':memory:' AS confidential; CREATE SCHEMA confidential.village; "
            f"CREATE TABLE confidential.village.records AS FROM {at.table}; "
            + at.show("SELECT {columns} FROM confidential.village.records AS a")
        ),
    ),
    "view of files": (
        "duckdb_views",
        lambda at: at.show("SELECT {columns} FROM {kept} AS a, glob('/etc/hostname') AS b"),
    ),
    "view of a variable": (
        "duckdb_views",
        lambda at: at.show("SELECT a.* REPLACE (coalesce(getvariable('x'), {column}) AS {column}) FROM {kept} AS a"),
    ),
    "view of a table in another schema": (
        "duckdb_views",
        lambda at: (
            f"CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.kept AS FROM {at.table}; DROP TABLE {at.table}; "
            f"CREATE VIEW {at.table} AS SELECT {', '.join(f'a.{name}' for name in at.columns)} "
            "FROM public.elsewhere.kept AS a"
        ),
    ),
    "view with other columns": (
        "duckdb_views",
        lambda at: f"CREATE VIEW renamed (other) AS SELECT k.{at.column} FROM {at.schema}.{at.table} AS k",
    ),
    "comment": ("duckdb_tables", lambda at: f"COMMENT ON TABLE {at.table} IS 'COLLATE NOCASE'"),
    "comment of a column": ("duckdb_columns", lambda at: f"COMMENT ON COLUMN {at.table}.{at.column} IS 'looked at'"),
    "comment of a view": (
        "duckdb_views",
        lambda at: f"CREATE VIEW IF NOT EXISTS joined AS FROM {at.table}; COMMENT ON VIEW joined IS 'looked at'",
    ),
    "macro": (
        "duckdb_functions",
        lambda at: f'CREATE MACRO "{at.draw(SCALAR)}"({", ".join(at.rng.choice(["", "x", "xy", "xyz"]))}) AS NULL',
    ),
    "macro of the first schema": ("duckdb_functions", lambda at: f'CREATE MACRO main."{at.draw(SCALAR)}"(x) AS NULL'),
    "macro that is a table": (
        "duckdb_functions",
        lambda at: f'CREATE MACRO "{at.draw(OF_TABLES)}"(x) AS TABLE SELECT 1',
    ),
    "macros of one name": ("duckdb_functions", lambda at: f'CREATE MACRO "{at.draw(SCALAR)}"(x) AS 1, (x, y) AS 2'),
    "table in another case": (
        "duckdb_tables",
        lambda at: f"ALTER TABLE {at.table} RENAME TO kept; ALTER TABLE kept RENAME TO {at.table.swapcase()}",
    ),
    "table more": ("duckdb_tables", lambda at: f'CREATE TABLE "{at.rng.choice(ODD_NAMES)}" AS FROM {at.table}'),
    "tables that change their names": (
        "duckdb_tables",
        lambda at: (
            lambda other: (
                f"ALTER TABLE {at.table} RENAME TO kept; ALTER TABLE {other} RENAME TO {at.table}; "
                f"ALTER TABLE kept RENAME TO {other}"
            )
        )(f'"{at.rng.choice(at.neighbors)}"'),
    ),
    "table that changes its name": (
        "duckdb_tables",
        lambda at: f"ALTER TABLE {at.table} RENAME TO kept; CREATE TABLE {at.table} AS FROM kept LIMIT 1",
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
"""The objects that a database can have: the function that lists them, and the statements that add them."""

LIES = {
    "none": "{column}",
    "value of another row": "(SELECT {column} FROM {table} WHERE rowid = {other})",
    "empty": "''",
    "invisible": "{column}::VARCHAR || chr(8203)",
    "byte of no text": "{column}::VARCHAR || chr(0)",
    "other letter": "replace(replace({column}::VARCHAR, 'A', chr(1040)), 'a', chr(1072))",
    "negative zero": "if({column} = 0, '-0.0', {column}::VARCHAR)",
    "no number": "'NaN'",
    "a little more": "{column} + 1e-12",
    "case": "if({column}::VARCHAR = upper({column}::VARCHAR), lower({column}::VARCHAR), upper({column}::VARCHAR))",
    "accent": "replace({column}::VARCHAR, 'é', 'e')",
    "composition": "replace({column}::VARCHAR, 'é', 'e' || chr(769))",
    "fraction": "{column}::VARCHAR || '.4'",
    "zero": "'0' || {column}::VARCHAR",
    "space": "{column}::VARCHAR || ' '",
    "nothing at all": "NULL",
    "more": "{column} + 1",
    "negative": "-{column}",
    "largest": "9223372036854775807",
    "infinite": "'Infinity'",
    "sign": "'+' || {column}::VARCHAR",
    "exponent": "{column}::VARCHAR || 'e0'",
    "digits of another script": "translate({column}::VARCHAR, '0123456789', '٠١٢٣٤٥٦٧٨٩')",
    "digits in groups": "regexp_replace({column}::VARCHAR, '(\\d)(\\d)', '\\1_\\2')",
    "line": "{column}::VARCHAR || chr(10)",
    "direction": "chr(8238) || {column}::VARCHAR",
    "key of JSON twice": "regexp_replace({column}::VARCHAR, '^\\{{(\"\\w+\":)', '{{\\1 5, \\1')",
    "other form of JSON": "replace({column}::VARCHAR, '\":', '\" :')",
    "list in another order": "list_reverse({column})",
    "list one less": "{column}[:-2]",
    "list one more": "list_append({column}, {column}[1])",
    "list with nothing in it": "list_append({column}[:-2], NULL)",
    "no list": "[]",
}
"""Altered values that some addition could hide."""


def listed(connection: duckdb.DuckDBPyConnection, function: str) -> list[tuple[object, ...]]:
    """The rows of a catalog function about the zone."""
    if not function:
        return []
    names = [name for name in CARRIED[function].split() if not name.endswith("oid")]
    chosen = ", ".join(f'"{name}"' for name in names)
    return connection.execute(
        f"SELECT schema_name, {chosen} FROM {function}() WHERE database_name = 'public' ORDER BY ALL"
    ).fetchall()
