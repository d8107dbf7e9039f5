"""The keyed versions of a dataset's content, which show that two datasets hold the same records.

The charge records them in the ledger, which thereby recognizes records that are charged again as another dataset, under
a cap of its own. The versions cover the CEF and every source file of records, so that another selection of columns from
the same file is recognized too. Nobody can test them against guessed records without the key. Two more versions are
kept: of the whole source, so that an unchanged source is not read again; and of the CEF in the order of its rows, which
takes less time to compute than its content version. Beside them is by which code the CEF was found to satisfy its rules
when it was read, so that the same code need not check the same records again.

A file that was written anew has other versions. For it, a sketch of the records is kept in the custody under a name
that is published here (`mechanisms.people`).
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import file_digest, sha256
from importlib.metadata import version as installed
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from assets.release.dataset import CEF, CEF_TABLES, OF_PART, DatasetDeclaration
from assets.release.seal import SealError, require_sealed, seal_stage
from assets.release.verdicts import hash_code
from resources.chain import RESERVE, canonicalize
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Table, Zone
from resources.storage import NothingWrittenError
from resources.warehouse import Session, Warehouse

CONTENTS = "cef_contents"
_CEF, _SOURCE, _ORDERED, _SKETCH, _CHECKED = "cef", "source", "ordered", "sketch", "checked"
_HEADERS, _PART = "headers", "part"
_SUMS = "content_sums"
"""The table of a partition with the sums that its content version is made of, beside its records."""

_UNPUBLISHED = timedelta(days=1)
"""The age from which a sketch whose name is not published is no longer one that a process is about to publish."""


@dataclass(frozen=True)
class CefVersions:
    """The keyed versions of one CEF: of its tables as multisets of rows, its data version, and in their order.

    Attributes:
        sketch: of the records in its source files (`mechanisms.people`); empty if they are built in.
        is_checked: whether these tables were found to satisfy every rule of `assets.cef.validation`.
        headers: of the source files; empty if they are built in.
    """

    content: str
    ordered: str = ""
    sketch: bytes = field(default=b"", repr=False)
    is_checked: bool = False
    headers: str = ""


def hash_files(dataset: DatasetDeclaration, root: Path, key: bytes) -> dict[str, str]:
    """The HMACs of the source files that can be read: by table, or by table and field for a second file."""
    versions = {
        name if field == "path" else f"{name}.{field}": _hash_file(root / path, key)
        for name, records in dataset.tables.items()
        for field, path in records.paths.items()
    }
    return {name: version for name, version in versions.items() if version is not None}


def hash_source(dataset: DatasetDeclaration, code_version: str, files: Mapping[str, str], key: bytes) -> str:
    """The keyed version of everything that a CEF follows from: its source files, by name, and the declaration.

    Of the places of the files, only whether they are given matters.
    """
    parts = {
        "code": code_version,
        "stirred": installed("stirred"),
        "declaration": _describe(dataset),
        "files": dict(files),
    }
    return hmac.new(key, canonicalize(parts), sha256).hexdigest()


def _describe(dataset: DatasetDeclaration) -> str:
    """The declaration as text, without the places of files."""
    placeless = {
        name: records.model_copy(update=dict.fromkeys(records.paths, "")) for name, records in dataset.tables.items()
    }
    return f"{type(dataset).__qualname__} {dataset.model_copy(update=placeless)!r}"


def publish_contents(
    warehouse: Warehouse,
    custody: Custody,
    dataset: DatasetDeclaration,
    versions: CefVersions,
    files: Mapping[str, str],
    source: str = "",
    parts: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the keyed versions of the CEF and of its source to the public zone, sealed.

    The stored CEF is not read for it, because it may be another one by now: its versions were computed when no other
    process could have written it (`ingest`). If `source` (`hash_source`) is empty, the source is read again. `parts`
    are the content versions of the partitions, by key.
    """
    table = _table(dataset)
    published = {_CEF: versions.content, **files, _SOURCE: source, _ORDERED: versions.ordered}
    published |= {f"{_PART} {key}": version for key, version in parts.items()}
    if OF_PART in dataset.name:
        published[_HEADERS] = versions.headers
    if versions.sketch:
        published[_SKETCH] = custody.keep_sketch(versions.sketch, published)
    if versions.is_checked and (check := _identify_check(custody, dataset)):
        published[_CHECKED] = check
    columns = {"content": list(published), "version": list(published.values())}
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        drop_parts(session, Zone.PUBLIC, dataset)
        session.create(table, "warehouse/all", source=session.register("contents", pa.table(columns)))
        seal_stage(session, custody, dataset.name, CEF, [table])


def read_contents(session: Session, custody: Custody, dataset: DatasetDeclaration) -> tuple[str, ...]:
    """The keyed versions of the CEF and of its files of records. Raises SealError if they are missing or altered."""
    published = _published(session, custody, dataset)
    return tuple(sorted(published[name] for name in published if name.partition(" ")[0] in {_CEF, *dataset.tables}))


def read_sketch_name(session: Session, custody: Custody, dataset: DatasetDeclaration) -> str:
    """The name of the sketch of the records; "" if they are built in, or an earlier version of Stirred read them."""
    return _published(session, custody, dataset).get(_SKETCH, "")


def forget_sketches(ledger: Ledger) -> None:
    """Delete the sketches of records that were never charged and are in no stored CEF any more.

    Those of the last day stay: another process may be about to publish their names.

    Raises LedgerError if there are older ones and the ledger is not intact, WarehouseError if the public zone cannot be
    read, and CustodyError if a file cannot be deleted.
    """
    left = ledger.custody.list_sketches(_UNPUBLISHED)
    # Before the ledger: what is charged meanwhile is published now, or no longer.
    if left and ledger.warehouse.holds(Zone.PUBLIC):
        with ledger.warehouse.session(reads=[Zone.PUBLIC]) as session:
            for table in (Table(Zone.PUBLIC, schema, CONTENTS) for schema in session.schemas(Zone.PUBLIC)):
                if session.columns(table):
                    left.difference_update(*session.rows("warehouse/all", source=table))
    if left:
        entries = ledger.read().require_intact()
        left -= {entry.parse_details().sketch for entry in entries if entry.kind == RESERVE}
    for name in left:
        ledger.custody.forget_sketch(name)


def find_unchanged_version(
    warehouse: Warehouse, custody: Custody, dataset: DatasetDeclaration, source: str
) -> str | None:
    """The keyed version of the stored CEF if it was read from the source as it is now (`hash_source`), or None."""
    try:
        with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            published = _published(session, custody, dataset)
            if published.get(_SOURCE) != source or find_content_problems(session, custody, dataset):
                return None
            if not dataset.reader.built_in and custody.open_sketch(published.get(_SKETCH, "")) is None:
                return None
            left = [name for name in CEF_TABLES if name not in dataset.tables]
            if any(session.columns(Table(Zone.CONFIDENTIAL, dataset.name, name)) for name in left):
                return None
            return published[_CEF]
    except (NothingWrittenError, SealError):
        return None


def compute_basis(
    session: Session, custody: Custody, dataset: DatasetDeclaration, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """What the seal of counts says that they follow from: the CEF as it is stored now, and `Release.counted_with`.

    The session is the one that counts, in the confidential zone. Raises SealError if there is no CEF.
    """
    return {"cef": _stored_version(session, custody, dataset), "parameters": dict(parameters)}


def read_basis(
    session: Session, custody: Custody, dataset: DatasetDeclaration, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """The same of current counts: the CEF as it was published. Raises SealError as `read_contents`."""
    return {"cef": read_cef_version(session, custody, dataset), "parameters": dict(parameters)}


def read_cef_version(session: Session, custody: Custody, dataset: DatasetDeclaration) -> str:
    """The keyed version of the CEF that `publish_contents` wrote. Raises SealError as `read_contents`."""
    return _published(session, custody, dataset)[_CEF]


def find_content_problems(session: Session, custody: Custody, dataset: DatasetDeclaration) -> list[str]:
    """The problem if the stored CEF is not the one that was read from the source; empty if it is.

    The session reads both zones. Raises SealError if there is no CEF, or its published versions are missing or altered.
    """
    if _stored_version(session, custody, dataset) == read_cef_version(session, custody, dataset):
        return []
    return [f"{dataset.name}: the stored records are not those that were read from the source; materialize cef again"]


def is_checked(session: Session, custody: Custody, dataset: DatasetDeclaration) -> bool:
    """Whether the stored CEF is the one that was read from the source, and this code found then that it satisfies every
    rule of this declaration. The session reads both zones."""
    try:
        checked = _published(session, custody, dataset).get(_CHECKED)
        if checked is None or checked != _identify_check(custody, dataset):
            return False
        return not find_content_problems(session, custody, dataset)
    except SealError:
        return False


def _identify_check(custody: Custody, dataset: DatasetDeclaration) -> str | None:
    """The keyed version of all that a check of a CEF follows from besides its content; None if it cannot be told."""
    code = hash_code(type(dataset).__module__)
    if code is None:
        return None
    return hmac.new(
        custody.version_key(), canonicalize({_CHECKED: _describe(dataset), "code": code}), sha256
    ).hexdigest()


def hash_cef(session: Session, dataset: DatasetDeclaration, key: bytes) -> CefVersions:
    """The keyed versions of the stored CEF: of its tables and of the recodes that it was made with."""
    tables, keyed = dataset.cef_tables(), with_recodes(key, dataset.recodes())
    return CefVersions(session.content_version(tables, keyed), session.ordered_version(tables, keyed))


def with_recodes(key: bytes, recodes: Mapping[str, Any]) -> bytes:
    """The key of versions of confidential data that were made with these recodes; the key itself if there are none.

    The data alone are not enough. If another end of a band left a version as it was, every reader of both versions, in
    two certificates or in the event log, would know that no record lies between the two ends.
    """
    return hmac.new(key, canonicalize(dict(recodes)), sha256).digest() if recodes else key


def _published(session: Session, custody: Custody, dataset: DatasetDeclaration) -> dict[str, str]:
    table = _table(dataset)

    def read() -> dict[str, str]:
        require_sealed(session, custody, dataset.name, CEF, [table])
        return dict(session.rows("warehouse/all", source=table))

    return session.compute_once(("contents", dataset.name), read)


def _stored_version(session: Session, custody: Custody, dataset: DatasetDeclaration) -> str:
    stored = [table for each in (dataset, *dataset.parts.values()) for table in each.cef_tables()]
    if not all(session.columns(table) for table in stored):
        raise SealError(f"{dataset.name}: the CEF is missing; materialize cef")
    try:
        published = _published(session, custody, dataset)
    except SealError:
        published = {}
    tables, key = dataset.cef_tables(), with_recodes(custody.version_key(), dataset.recodes())
    if dataset.parts and published:
        as_united = all(
            session.is_view_of(table, "warehouse/united", **list_united(dataset, table)) for table in tables
        ) and all(
            published.get(f"{_PART} {key}") == _stored_version(session, custody, part)
            for key, part in dataset.parts.items()
        )
        return published[_CEF] if as_united else session.content_version(tables, key)
    if _ORDERED in published and published[_ORDERED] == session.ordered_version(tables, key):
        return published[_CEF]
    return session.content_version(tables, key)


@dataclass(frozen=True)
class PartContents:
    """What was published of a partition as it is stored: its content version, those of its files, and of their headers;
    and its sketch.

    Attributes:
        sums: by table, those that its content version is made of.
        is_checked: whether this code has found that it satisfies every rule of the declaration.
    """

    content: str
    files: Mapping[str, str]
    headers: str
    sketch: bytes = field(repr=False)
    sums: Mapping[str, Sequence[int]] = field(repr=False)
    is_checked: bool


def keep_sums(session: Session, custody: Custody, part: DatasetDeclaration) -> None:
    """Keep the sums that the content version of a partition is made of beside its records, so that they need not be
    hashed again when all partitions are put together."""
    key = with_recodes(custody.version_key(), part.recodes())
    sums = {table.name: session.content_sums(table, key) for table in part.cef_tables()}
    rows = [{"table_name": name, "sums": " ".join(map(str, numbers))} for name, numbers in sums.items()]
    session.create(_sums_table(part), "warehouse/all", source=session.register("sums", pa.Table.from_pylist(rows)))


def read_part(session: Session, custody: Custody, part: DatasetDeclaration) -> PartContents:
    """What was published of a partition. The sums are only taken from beside the records if the version follows from
    them. Raises SealError if it is missing or altered."""
    published, key = _published(session, custody, part), with_recodes(custody.version_key(), part.recodes())
    kept = {}
    if list(session.columns(_sums_table(part)).values()) == ["VARCHAR", "VARCHAR"]:
        rows = session.rows("warehouse/all", source=_sums_table(part))
        kept = {name: tuple(map(int, str(numbers).split())) for name, numbers in rows}
    tables = part.cef_tables()
    if set(kept) != {table.name for table in tables} or published[_CEF] != session.version_of_sums(
        {table: kept[table.name] for table in tables}, key
    ):
        kept = {table.name: session.content_sums(table, key) for table in tables}
    sketch = custody.open_sketch(published.get(_SKETCH, ""))
    return PartContents(
        published[_CEF],
        {name: version for name, version in published.items() if name.partition(".")[0] in part.tables},
        published.get(_HEADERS, ""),
        sketch or b"",
        kept,
        published.get(_CHECKED, "") == _identify_check(custody, part),
    )


def list_united(dataset: DatasetDeclaration, table: Table) -> dict[str, Any]:
    """The identifiers of the view that puts together a table of all partitions."""
    (name,) = (name for name, own in zip(dataset.tables, dataset.cef_tables(), strict=True) if own == table)
    tables = [Table(table.zone, part.name, name) for part in dataset.parts.values()]
    return {"tables": tables, "columns": list(dataset.tables[name].stored)}


def drop_parts(session: Session, zone: Zone, dataset: DatasetDeclaration) -> None:
    """Drop the tables of partitions that a dataset does not have, or no more."""
    due = {part.name for part in dataset.parts.values()}
    for schema in session.schemas(zone):
        if schema.startswith(f"{dataset.name}{OF_PART}") and schema not in due:
            for name in session.tables(zone, schema):
                session.drop(Table(zone, schema, name))


def _sums_table(part: DatasetDeclaration) -> Table:
    return Table(Zone.CONFIDENTIAL, part.name, _SUMS)


def _table(dataset: DatasetDeclaration) -> Table:
    return Table(Zone.PUBLIC, dataset.name, CONTENTS)


def _hash_file(path: Path, key: bytes) -> str | None:
    """The HMAC of a file's bytes; None if it cannot be read."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            return file_digest(file, lambda: hmac.new(key, digestmod=sha256)).hexdigest()
    except OSError:
        return None
