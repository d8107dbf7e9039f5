"""Alterations by an attacker who can write to the databases and to the published folder, but has no key.

Tables, columns and files are listed from a published release itself, so a new one is covered without a change here.
After each alteration, the publication is requested again, then every gate is evaluated, and then the whole job is run.
Either an error names the alteration, or the published files stay the same; and no altered value is ever taken over.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb

from assets.publication.asset import publication_problems, publish
from assets.publication.audit import Verdict, audit
from assets.release.signature import CHECKSUMS, PUBLIC_KEY, checksums
from resources.chain import Entry
from resources.statements import Table, Zone
from resources.warehouse import Session
from tests.deployments import Deployment
from tests.faults.releases import (
    deployment,
    every_stage,
    in_child,
    names,
    prepared,
    settled_state,
    tables,
    tree,
    visible,
)
from tests.gates import failing

DISPLAYED: Mapping[str, str] = {
    "confidential.*.utility.*": "for the staff, made again by every run (docs/explanation/limits.md)",
    "confidential.*.accuracy.*": "for the staff, made again by every run (docs/explanation/limits.md)",
    "confidential.*.truncation_report.*": "for the staff, made again by every run (docs/explanation/limits.md)",
}
"""Columns that are only shown, as patterns of `database.schema.table.column`, each with its place in the docs. Altered
values in them are not published, and the next run repairs them."""

UNNAMED = "nothing names it"

DATABASES = ("confidential", "public", "ledger")


@dataclass(frozen=True)
class Published:
    """A published release to be tampered with.

    Attributes:
        name: one of `RELEASES`.
        root: its folder, of which every alteration gets a copy.
        settled: its settled state.
    """

    name: str
    root: Path
    settled: Mapping[str, Any] = field(hash=False)

    def copy(self) -> Path:
        """A fresh copy, in the same folder each time, so that a process makes its deployment once. No alteration is
        kept in memory: processes that are forked afterwards make and judge every alteration."""
        root = self.root.parent / f"altered-{os.getpid()}"
        deployment(root, self.name)
        shutil.rmtree(root)
        return Path(shutil.copytree(self.root, root))


@dataclass(frozen=True)
class Alteration:
    """An alteration of a table.

    Attributes:
        database, schema, table: where.
        what: "value", "swap", "delete" or "repeat"; "type" if a column becomes one of texts; "view" or "computed" if
            the table becomes an object that could show values other than the stored ones.
        column: the column whose value is altered, or whose values in two rows are exchanged; empty for whole rows.
        relabelled: whether every stored hash of a table's content that needs no key is made to fit afterwards.
        again: whether the whole job is run again afterwards. A stage writes a table as a whole, so of all columns of a
            table that are altered in the same way, one is enough; of the ledger, which only grows, all are.
    """

    database: str
    schema: str
    table: str
    what: str
    column: str = ""
    relabelled: bool = False
    again: bool = True

    def __str__(self) -> str:
        column = f".{self.column}" if self.column else ""
        labels = ", labels made to fit" if self.relabelled else ""
        return f"{self.what} in {self.database}.{self.schema}.{self.table}{column}{labels}"


@cache
def published(folder: Path, name: str) -> Published:
    """Publish a release with all its assets, once."""
    root = prepared(folder, name).parent / "published"
    if not root.exists():
        shutil.copytree(root.parent / "start", root)

    def work() -> tuple[dict[str, Any], list[str]]:
        every_stage(root, name)
        here = deployment(root, name)
        return settled_state(root, name), [*failing(here), *audited(here)]

    ended = in_child(work)
    if ended.status or ended.answer[1]:
        raise RuntimeError(f"{name} is not published as it should be: {ended.error or ended.answer[1]}")
    return Published(name, root, ended.answer[0])


def alterations(release: Published) -> list[Alteration]:
    """Every effective alteration of every column of every table of the three databases.

    Tables of a release that this one reads are left out: the gates of that release look at them.
    """
    ended = in_child(lambda: [asdict(each) for each in _alterations(deployment(release.root, release.name))])
    if ended.status:
        raise RuntimeError(ended.error)
    return [Alteration(**each) for each in ended.answer]


def _alterations(here: Deployment[Any]) -> Iterator[Alteration]:
    root, read = here.root, {release.schema for release in here.context.method.reads_publications_of}
    for database in DATABASES:
        with opened(root, database, read_only=True) as connection:
            for schema, table in names(connection):
                if schema in read:
                    continue
                address = f'"{schema}"."{table}"'
                ((rows,),) = connection.execute(f"SELECT count(*) FROM {address}").fetchall()
                if not rows:
                    continue
                kinds = {row[0]: row[1] for row in connection.execute(f"DESCRIBE {address}").fetchall()}
                columns = list(kinds)
                found = [Alteration(database, schema, table, what) for what in ("delete", "repeat", "view")]
                if len(columns) > 1:
                    found.append(Alteration(database, schema, table, "computed", columns[-1]))
                texts = [column for column in columns if kinds[column] != "VARCHAR" and database != "ledger"]
                found += [Alteration(database, schema, table, "type", column, again=False) for column in texts]
                for column in columns:
                    again = column == columns[0] or database == "ledger"
                    found.append(Alteration(database, schema, table, "value", column, again=again))
                    ((distinct,),) = connection.execute(f'SELECT count(DISTINCT "{column}") FROM {address}').fetchall()
                    if distinct > 1 and rows < 5_000_000:
                        again = again or "swap" not in {each.what for each in found}
                        found.append(Alteration(database, schema, table, "swap", column, again=again))
                yield from found
                if database == "public" and _labelled(connection, root, schema, table):
                    stored = (each for each in found if each.what not in ("view", "computed", "type"))
                    yield from (replace(each, relabelled=True) for each in stored)


def _labelled(connection: duckdb.DuckDBPyConnection, root: Path, schema: str, table: str) -> bool:
    """Whether the content version without a key of a table is stored anywhere."""
    version = plain_version(connection, schema, table)
    return any(
        connection.execute(f'SELECT 1 FROM "{other}"."{name}" WHERE "{column}" = $1 LIMIT 1', [version]).fetchall()
        for other, name, column in _texts(connection)
    )


def _texts(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str]]:
    """Schema, table and name of every column with texts."""
    return [
        (schema, table, str(column))
        for schema, table in names(connection)
        for column, kind, *_ in connection.execute(f'DESCRIBE "{schema}"."{table}"').fetchall()
        if kind == "VARCHAR"
    ]


def opened(root: Path, database: str, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    path = str(root / "warehouse" / f"{database}.duckdb")
    return duckdb.connect(path, read_only=read_only, config={"threads": 1})


def alter(here: Deployment[Any], alteration: Alteration) -> None:
    """Alter a stored table, past every safeguard."""
    with opened(here.root, alteration.database) as connection:
        before = plain_version(connection, alteration.schema, alteration.table) if alteration.relabelled else ""
        address = f'"{alteration.schema}"."{alteration.table}"'
        _ALTER[alteration.what](connection, address, alteration.column)
        if alteration.relabelled:
            relabel(connection, before, plain_version(connection, alteration.schema, alteration.table))


def relabel(connection: duckdb.DuckDBPyConnection, before: str, after: str) -> None:
    """Replace a text wherever it is stored: a content version without a key by the version of the altered content."""
    for schema, table, column in _texts(connection):
        statement = f'UPDATE "{schema}"."{table}" SET "{column}" = $2 WHERE "{column}" = $1'
        connection.execute(statement, [before, after])


def _value(connection: duckdb.DuckDBPyConnection, address: str, column: str) -> None:
    """Another value of the same type in the middle row."""
    ((row,),) = connection.execute(f"SELECT quantile_disc(rowid, 0.5) FROM {address}").fetchall()
    where = f"WHERE rowid = {row}"
    ((kind, value),) = connection.execute(f'SELECT typeof("{column}"), "{column}" FROM {address} {where}').fetchall()
    connection.execute(f'UPDATE {address} SET "{column}" = $value {where}', {"value": another(kind, value)})


def another(kind: str, value: Any) -> Any:
    if kind.endswith("[]"):
        return [another(kind.removesuffix("[]"), (value or [None])[0]), *(value or [])[1:]]
    if kind == "BOOLEAN":
        return not value
    if "INT" in kind or kind.startswith("DECIMAL"):
        return 1 if value is None else value + 1 if value < 100 else value - 1
    if kind in ("DOUBLE", "FLOAT"):
        return 1.5 if value is None else value * 2 + 1
    if kind == "VARCHAR":
        # A digit stays a digit, so that numbers and hashes stay well formed.
        text = value or ""
        return text[:-1] + str((int(text[-1]) + 1) % 10) if text[-1:].isdigit() else text + "x"
    raise ValueError(f"no other value is known of type {kind}")


def _swap(connection: duckdb.DuckDBPyConnection, address: str, column: str) -> None:
    """Two rows with different values exchange them."""
    (first, value), *others = connection.execute(f'SELECT rowid, "{column}" FROM {address} ORDER BY rowid').fetchall()
    second, other = next((row, found) for row, found in others if found != value)
    for row, new in ((first, other), (second, value)):
        connection.execute(f'UPDATE {address} SET "{column}" = $value WHERE rowid = {row}', {"value": new})


def _delete(connection: duckdb.DuckDBPyConnection, address: str, column: str) -> None:
    connection.execute(f"DELETE FROM {address} WHERE rowid = (SELECT quantile_disc(rowid, 0.5) FROM {address})")


def _type(connection: duckdb.DuckDBPyConnection, address: str, column: str) -> None:
    """The same values as texts."""
    connection.execute(f'ALTER TABLE {address} ALTER "{column}" TYPE VARCHAR')


def _repeat(connection: duckdb.DuckDBPyConnection, address: str, column: str) -> None:
    connection.execute(f"INSERT INTO {address} SELECT * FROM {address} LIMIT 1")


def _view(connection: duckdb.DuckDBPyConnection, address: str, column: str) -> None:
    """A view of the same rows, which could show others at any time."""
    kept = f'{address[:-1]}_kept"'
    connection.execute(f"CREATE TABLE {kept} AS FROM {address}")
    connection.execute(f"DROP TABLE {address}")
    connection.execute(f"CREATE VIEW {address} AS FROM {kept}")


def _computed(connection: duckdb.DuckDBPyConnection, address: str, column: str) -> None:
    """A column that is computed when it is read, with a constant value."""
    described = connection.execute(f"DESCRIBE {address}").fetchall()
    ((value,),) = connection.execute(f'SELECT "{column}" FROM {address} LIMIT 1').fetchall()
    parts = ", ".join(
        f'"{name}" {kind}' + (f" GENERATED ALWAYS AS (CAST({_literal(value)} AS {kind}))" if name == column else "")
        for name, kind, *_ in described
    )
    others = ", ".join(f'"{name}"' for name, *_ in described if name != column)
    connection.execute(f"CREATE TEMP TABLE kept AS FROM {address}")
    connection.execute(f"DROP TABLE {address}")
    connection.execute(f"CREATE TABLE {address} ({parts})")
    connection.execute(f"INSERT INTO {address} ({others}) SELECT {others} FROM kept")


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return "'" + str(value).replace("'", "''") + "'" if isinstance(value, str) else str(value)


_ALTER: dict[str, Callable[[duckdb.DuckDBPyConnection, str, str], None]] = {
    "value": _value,
    "swap": _swap,
    "delete": _delete,
    "repeat": _repeat,
    "type": _type,
    "view": _view,
    "computed": _computed,
}


def plain_version(connection: duckdb.DuckDBPyConnection, schema: str, table: str) -> str:
    """The content version without a key of a public table, which anyone can compute."""
    ((catalog,),) = connection.execute("SELECT current_database()").fetchall()
    assert catalog == "public"
    return Session(connection, {Zone.PUBLIC}).content_version([Table(Zone.PUBLIC, schema, table)])


def _asked(release: Published, root: Path, change: Callable[[Deployment[Any]], None]) -> dict[str, Any] | None:
    """Make an alteration, and request the publication and every gate; None without an effect.

    The tables' constraints forbid some alterations, and two rows may be the same afterwards in the other order.
    """
    here = deployment(root, release.name)
    before = tree(root / "custody")
    with suppress(duckdb.ConstraintException):
        change(here)
    if (tables(root, *DATABASES), tree(root / "custody")) == (release.settled["tables"], before):
        return None
    try:
        publish(here.context)
        refusal = ""
    except Exception as error:
        refusal = f"{type(error).__name__}: {error.description if isinstance(error, dg.Failure) else error}"
    gates = [] if refusal else [*failing(here), *audited(here)]
    return {"refusal": refusal, "gates": gates, "published": visible(root)}


def audited(here: Deployment[Any], *, repeats: bool = True) -> list[str]:
    """The claims that an audit does not confirm. The audit reports as not checked a page that shows an earlier state,
    and a draw without its release: the draw of a publication that this release reads.

    Args:
        repeats: whether the records of all draws of this release are there, so that the audit can repeat them.
    """
    context = here.context
    unchecked = ("repeated",) if context.method.reads_publications_of or not repeats else ()
    # Of a deployment, all releases that charge are audited.
    record = audit([charging(here)], context.nodes, context.ledger, context.release.published, "2030-01-01")
    return [
        each["name"]
        for each in record["findings"]
        if each["verdict"] == Verdict.FAILS or (each["verdict"] != Verdict.HOLDS and each["name"] not in unchecked)
    ]


def charging(here: Deployment[Any]) -> Any:
    """The method that charges: of the release, or of the release from which it is made."""
    method = here.context.method
    return method if here.release.declaration.charges else method.counted


def _run_again(root: Path, name: str) -> dict[str, Any]:
    """Run the whole job again on the altered deployment."""
    try:
        every_stage(root, name)
        refusal = ""
    except Exception as error:
        refusal = f"{type(error).__name__}: {error.description if isinstance(error, dg.Failure) else error}"
    return {"refusal": refusal, "published": visible(root), "tables": tables(root, *DATABASES)}


def tampered(
    release: Published, change: Callable[[Deployment[Any]], None], *, rerun: bool = True
) -> tuple[bool, list[str]]:
    """Make an alteration in a copy, and run the whole job again if requested.

    Returns:
        Whether the alteration could be made, and the errors.
    """
    root = release.copy()
    asked = in_child(lambda: _asked(release, root, change))
    if asked.status:
        return False, [f"it could not be altered: {asked.error}"]
    said = asked.answer
    if said is None:
        return False, []
    again = in_child(lambda: _run_again(root, release.name)) if rerun else None
    named = bool(said["refusal"] or said["gates"])
    wrong = []
    if said["published"] != release.settled["published"]:
        wrong.append("FORGED: another publication is made from it")
    elif not named:
        wrong.append(UNNAMED)
    if again is None:
        return True, wrong
    if again.status:
        wrong.append(f"running everything again ended with {again.status}: {again.error}")
    elif again.answer["published"] != release.settled["published"]:
        wrong.append("FORGED: running everything again publishes something else")
    elif not again.answer["refusal"] and again.answer["tables"] != release.settled["tables"]:
        odd = sorted(
            table
            for table in again.answer["tables"].keys() | release.settled["tables"].keys()
            if again.answer["tables"].get(table) != release.settled["tables"].get(table)
        )
        wrong.append(f"running everything again succeeds and keeps it in {', '.join(odd)}")
    return True, wrong


def table_altered(release: Published, alteration: Alteration) -> tuple[bool, list[str]]:
    """One alteration of a table."""
    altered, wrong = tampered(release, lambda here: alter(here, alteration), rerun=alteration.again)
    where = f"{alteration.database}.{alteration.schema}.{alteration.table}"
    column = f"{where}.{alteration.column}"
    if any(fnmatch(column, shown) for shown in DISPLAYED):
        wrong = [problem for problem in wrong if problem != UNNAMED]
    return altered, wrong


# The ledger: its entries, with and without a chain that is made to fit, and its anchor.


def ledger_alterations(release: Published) -> list[tuple[str, str]]:
    """Alterations of the ledger beyond its table: the words of each, and its argument."""
    ended = in_child(lambda: len(deployment(release.root, release.name).context.ledger.entries()))
    names = [each.name for each in fields(Entry) if each.name != "hash"]
    rebuilt = [
        (f"entry {number}: {name} altered, and the chain rebuilt", f"{number} {name}")
        for number in range(1, ended.answer + 1)
        for name in names
    ]
    cut = [(f"cut off after entry {number}", f"cut {number}") for number in range(ended.answer)]
    anchor = json.loads((release.root / "custody" / "ledger.anchor").read_text())
    return [
        *rebuilt,
        *cut,
        ("the anchor deleted", "anchor-deleted"),
        ("the anchor empty", "anchor-empty"),
        ("the anchor cut in half", "anchor-half"),
        *((f"the anchor's {name} altered", f"anchor {name}") for name in anchor),
        ("the ledger's file deleted", "file-deleted"),
        ("the ledger's file and its anchor deleted", "both-deleted"),
    ]


def ledger_altered(release: Published, argument: str) -> tuple[bool, list[str]]:
    """One alteration of the ledger, which an error must name, and which must never heal by itself."""
    return tampered(release, lambda here: _alter_ledger(here, argument))


def _alter_ledger(here: Deployment[Any], argument: str) -> None:
    anchor, book = here.root / "custody" / "ledger.anchor", here.root / "warehouse" / "ledger.duckdb"
    match argument.split():
        case ["cut", number]:
            _rewrite(here, list(here.context.ledger.entries())[: int(number)])
        case ["anchor", name]:
            record = json.loads(anchor.read_text())
            value = record[name]
            record[name] = (
                value + 1 if isinstance(value, int) else f"{value[:-1]}{'0' if value[-1] != '0' else '1'}" if value
                else "0" * 64
            )  # fmt: skip
            anchor.write_text(json.dumps(record, sort_keys=True, separators=(",", ":")))
        case ["anchor-deleted"]:
            anchor.unlink()
        case ["anchor-empty"]:
            anchor.write_bytes(b"")
        case ["anchor-half"]:
            content = anchor.read_bytes()
            anchor.write_bytes(content[: len(content) // 2])
        case ["file-deleted"]:
            book.unlink()
        case ["both-deleted"]:
            anchor.unlink()
            book.unlink()
        case [number, name]:
            _rewrite(here, _with_another(list(here.context.ledger.entries()), int(number), name))


def _with_another(entries: list[Entry], number: int, name: str) -> list[Entry]:
    """The entries with another value in one field, and with every hash from there on made to fit."""
    value = getattr(entries[number - 1], name)
    kind = "INT" if isinstance(value, int) else "VARCHAR"
    changed = replace(entries[number - 1], **{name: another(kind, value)})
    entries = [*entries[: number - 1], changed, *entries[number:]]
    for position in range(number - 1, len(entries)):
        previous = entries[position - 1].hash if position > number - 1 else entries[position].previous_hash
        linked = replace(entries[position], previous_hash=previous)
        entries[position] = replace(linked, hash=linked.digest())
    return entries


def _rewrite(here: Deployment[Any], entries: list[Entry]) -> None:
    with opened(here.root, "ledger") as connection:
        connection.execute("DELETE FROM main.entries")
        for entry in entries:
            record = asdict(entry)
            columns, values = ", ".join(f'"{name}"' for name in record), ", ".join(f"${name}" for name in record)
            connection.execute(f"INSERT INTO main.entries ({columns}) VALUES ({values})", record)


# The published files.


def file_alterations(release: Published) -> list[tuple[str, str, str]]:
    """Every published file altered, cut off and deleted, with and without new checksums; and a file too many. The list
    of all publications is left out, which is not signed (docs/reference/deployment.md)."""
    folder = deployment(release.root, release.name).release.folder
    extra = (folder / "extra.csv").relative_to(release.root).as_posix()
    found = [
        path.relative_to(release.root).as_posix()
        for path in sorted((release.root / "published").rglob("*"))
        if path.is_file() and (path.is_relative_to(folder) or path.name == PUBLIC_KEY)
    ]
    return [
        *(
            (f"{how} {name}", how, name)
            for name in found
            for how in ("altered", "cut", "deleted", "altered with new checksums", "deleted with new checksums")
            if CHECKSUMS not in name or "new" not in how
        ),
        ("added extra.csv", "added", extra),
        ("added extra.csv with new checksums", "added with new checksums", extra),
    ]


def file_altered(release: Published, how: str, name: str) -> tuple[bool, list[str]]:
    """One alteration of a published file, which the check of files must name.

    The next publication must mend it, or refuse to replace files that it does not know.
    """
    root = release.copy()
    ended = in_child(lambda: _file_altered(root, release.name, how, name))
    if ended.status:
        return False, [f"it ended with {ended.status}: {ended.error}"]
    problems, refusal, mended = ended.answer
    wrong = [] if problems else [UNNAMED]
    if not refusal and mended != release.settled["published"]:
        wrong.append("publishing again does not mend it")
    return True, wrong


def _file_altered(root: Path, name: str, how: str, file: str) -> tuple[list[str], str, dict[str, str]]:
    here = deployment(root, name)
    folder, path = here.release.folder, root / file
    content = path.read_bytes() if path.exists() else b"x"
    match how.split()[0]:
        case "altered":
            path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "deleted":
            path.unlink()
        case "added":
            path.write_bytes(content)
    if "checksums" in how:
        (folder / CHECKSUMS).write_bytes(checksums(folder))
    release, context = here.release, here.context
    problems = publication_problems(
        release.published, release.dataset.name, release.name, context.custody, context.ledger
    )
    try:
        publish(context)
        refusal = ""
    except dg.Failure as failure:
        refusal = str(failure.description)
    return problems, refusal, visible(root)
