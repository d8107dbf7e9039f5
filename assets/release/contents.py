"""The keyed versions of a dataset's content, which show that two datasets hold the same records.

The charge records them in the ledger, which thereby recognizes records that are charged again as another dataset, under
a cap of its own. The versions cover the CEF and every source file of records, so that another selection of columns from
the same file is recognized too. Testing them against guessed records takes the key. Two more versions are kept: one of
the whole source, so that an unchanged source is not read again, and one of the CEF in the order of its rows, which
takes less time to compute than its content version. A further entry identifies the code that checked the rules of the
CEF when it was read, so that the same code need not check the same records again.

The versions and the sketch of a partition are beside its records in the confidential zone, so that readers of the
public zone learn that a dataset has changed, but not in which partition.

A rewritten file has other versions. To recognize its records, the custody keeps a sketch of them under a name that is
published here (`mechanisms.people`).
"""

import hmac
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import file_digest, sha256
from importlib.metadata import version as installed
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from assets.release.dataset import CEF, CEF_TABLES, DROPPED, OF_PART, DatasetDeclaration
from assets.release.seal import SealError, require_sealed, store_sealed
from assets.release.verdicts import hash_code
from resources.chain import RESERVE, Details, canonicalize
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Table, Zone
from resources.storage import NothingWrittenError
from resources.warehouse import UNITED, Session, Warehouse

CONTENTS = "cef_contents"
_CEF, _SOURCE, _ORDERED, _SKETCH, _CHECKED = "cef", "source", "ordered", "sketch", "checked"
_HEADERS, _SUMS = "headers", "sums"
"""For partitions: the version of the files' headers, and by table, the sums from which the content version is made."""

_UNPUBLISHED = timedelta(days=1)
"""The age from which an unpublished sketch no longer counts as one that a process is about to publish."""


@dataclass(frozen=True)
class CefVersions:
    """The keyed versions of one CEF: of its tables as multisets of rows (the data version), and of the rows in order.

    Attributes:
        sketch: of the records in its source files (`mechanisms.people`); empty if they are built in.
        is_checked: whether these tables were found to satisfy every rule of `assets.cef.validation`.
        headers: of the source files of a partition; otherwise empty.
        sums: by table, the sums from which the content version is made (`Session.content_sums`).
    """

    content: str
    ordered: str = ""
    sketch: bytes = field(default=b"", repr=False)
    is_checked: bool = False
    headers: str = ""
    sums: Mapping[str, Sequence[int]] = field(default_factory=dict, repr=False)


def hash_files(dataset: DatasetDeclaration, root: Path, key: bytes) -> dict[str, str]:
    """The HMACs of the source files that can be read: by table, or by table and field for a second file."""
    versions = {
        name if field == "path" else f"{name}.{field}": _hash_file(root / path, key)
        for name, records in dataset.tables.items()
        for field, path in records.paths.items()
    }
    return {name: version for name, version in versions.items() if version is not None}


def hash_source(dataset: DatasetDeclaration, code_version: str, files: Mapping[str, str], key: bytes) -> str:
    """The keyed version of all inputs of a CEF: its source files, by name, and the declaration.

    The paths of the files do not matter, except whether they are given.
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
) -> None:
    """Write the keyed versions of the CEF and of its source, sealed, to the public zone, or for a partition to the
    confidential zone.

    The stored CEF is not read, because another one may have replaced it by now: its versions were computed when no
    other process could have written it (`ingest`). If `source` (`hash_source`) is empty, the source is read again.
    """
    table = contents_table(dataset)
    published = {_CEF: versions.content, **files, _SOURCE: source, _ORDERED: versions.ordered}
    if dataset.is_part:
        published |= {_HEADERS: versions.headers, _SKETCH: versions.sketch.hex()}
        published |= {f"{_SUMS} {name}": " ".join(map(str, sums)) for name, sums in versions.sums.items()}
    elif versions.sketch:
        published[_SKETCH] = custody.keep_sketch(versions.sketch, published)
    if versions.is_checked and (check := _identify_check(custody, dataset)):
        published[_CHECKED] = check
    columns = {"content": list(published), "version": list(published.values())}
    with warehouse.session(writes=table.zone) as session, session.transaction():
        store_sealed(session, custody, dataset.name, CEF, table, pa.table(columns))


def read_contents(session: Session, custody: Custody, dataset: DatasetDeclaration) -> tuple[str, ...]:
    """The keyed versions of the CEF and of its files of records. Raises SealError if they are missing or altered."""
    published = _published(session, custody, dataset)
    return tuple(sorted(published[name] for name in published if name in {_CEF, *dataset.tables}))


def read_sketch_name(session: Session, custody: Custody, dataset: DatasetDeclaration) -> str:
    """The name of the sketch of the records; "" if they are built in, or an earlier version of Stirred read them."""
    return _published(session, custody, dataset).get(_SKETCH, "")


def require_synthetic(session: Session, ledger: Ledger, dataset: DatasetDeclaration) -> None:
    """Refuse records of a synthetic dataset as `Ledger.require_synthetic` does, with the same errors.

    The session reads the public zone. Also raises SealError, as `read_contents` does.
    """
    contents = read_contents(session, ledger.custody, dataset)
    sketch = read_sketch_name(session, ledger.custody, dataset)
    ledger.require_synthetic(dataset.name, describe_records(dataset, contents, sketch=sketch))


def describe_records(
    dataset: DatasetDeclaration,
    contents: tuple[str, ...] = (),
    made_of: Mapping[str, Any] = MappingProxyType({}),
    sketch: str = "",
) -> Details:
    """The details that the ledger keeps with a charge: on a dataset's records, and on the inputs of the draw."""
    public = dataset.source if dataset.public else ""
    return Details(dataset.population, contents, made_of, sketch=sketch, public=public, synthetic=dataset.synthetic)


def forget_sketches(ledger: Ledger) -> None:
    """Delete the sketches of records that were never charged and are in no stored CEF any more.

    Sketches of the last day stay: another process may be about to publish their names.

    Raises LedgerError if there are older sketches and the ledger is not intact, WarehouseError if the public zone
    cannot be read, and CustodyError if a file cannot be deleted.
    """
    left = ledger.custody.list_sketches(_UNPUBLISHED)
    # Read before the ledger: the name of a sketch charged meanwhile is published already, or no longer.
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
        with warehouse.session(reads=dict.fromkeys([Zone.CONFIDENTIAL, contents_table(dataset).zone])) as session:
            published = _published(session, custody, dataset)
            if published.get(_SOURCE) != source or find_content_problems(session, custody, dataset):
                return None
            if not dataset.reader.built_in and _open_sketch(custody, dataset, published) is None:
                return None
            if _list_surplus(session, dataset):
                return None
            return published[_CEF]
    except (NothingWrittenError, SealError):
        return None


def compute_basis(
    session: Session, custody: Custody, dataset: DatasetDeclaration, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """The inputs of counts, as their seal records them: the CEF as it is stored now, and `Release.counted_with`.

    The session is the one that counts, in the confidential zone. Raises SealError if there is no CEF.
    """
    return {"cef": _stored_version(session, custody, dataset), "parameters": dict(parameters)}


def read_basis(
    session: Session, custody: Custody, dataset: DatasetDeclaration, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """`compute_basis` of current counts, with the CEF as it was published. Raises SealError as `read_contents`."""
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
    """The keyed version of all inputs of a check of a CEF except its content; None if the code cannot be identified."""
    code = hash_code(type(dataset).__module__)
    if code is None:
        return None
    return hmac.new(
        custody.version_key(), canonicalize({_CHECKED: _describe(dataset), "code": code}), sha256
    ).hexdigest()


def hash_cef(session: Session, dataset: DatasetDeclaration, key: bytes) -> CefVersions:
    """The keyed versions of the stored CEF: of its tables and of the recodes that it was made with. Call it in a
    transaction if others can write the zone, and after it otherwise."""
    tables, keyed = dataset.cef_tables(), with_recodes(key, dataset.recodes())

    def add_up() -> dict[Table, tuple[int, ...]]:
        return {table: session.content_sums(table, keyed) for table in tables}

    if session.shared:
        # This is inside a transaction. Another connection would miss its writes, and see commits of others.
        ordered, sums = session.ordered_version(tables, keyed), add_up()
    else:
        # If the block raises, the sibling ends first, and with it the thread's running statement.
        with ThreadPoolExecutor(1) as thread, session.open_sibling() as beside:
            hashing = thread.submit(beside.ordered_version, tables, keyed)
            sums, ordered = add_up(), hashing.result()
    content = session.version_of_sums(sums.items(), keyed)
    return CefVersions(content, ordered, sums={table.name: own for table, own in sums.items()})


def with_recodes(key: bytes, recodes: Mapping[str, Any]) -> bytes:
    """The key of versions of confidential data that were made with these recodes; the key itself if there are none.

    The version must not depend on the data alone. If it stayed the same when the end of a band moved, every reader of
    both versions, in two certificates or in the event log, would know that no record lies between the two ends.
    """
    return hmac.new(key, canonicalize(dict(recodes)), sha256).digest() if recodes else key


def _published(session: Session, custody: Custody, dataset: DatasetDeclaration) -> dict[str, str]:
    table = contents_table(dataset)

    def read() -> dict[str, str]:
        require_sealed(session, custody, dataset.name, CEF, [table])
        return dict(session.rows("warehouse/all", source=table))

    return session.compute_once(("contents", dataset.name), read)


def _stored_version(session: Session, custody: Custody, dataset: DatasetDeclaration) -> str:
    tables, key = dataset.cef_tables(), with_recodes(custody.version_key(), dataset.recodes())
    if not all(session.columns(table) for table in tables):
        raise SealError(f"{dataset.name}: the CEF is missing; materialize cef")
    if dataset.parts:
        parts = _read_united(session, custody, dataset)
        return hash_cef_of_parts(session, dataset, parts, key) if parts else session.content_version(tables, key)
    try:
        published = _published(session, custody, dataset)
    except SealError:
        published = {}
    if _ORDERED in published and published[_ORDERED] == session.ordered_version(tables, key):
        return published[_CEF]
    return session.content_version(tables, key)


def _read_united(session: Session, custody: Custody, dataset: DatasetDeclaration) -> list["PartContents"]:
    """The contents of each partition; empty if the tables of the CEF are not the views that unite the partitions, or
    the records of a partition are not the ones read from its source."""
    if not is_united(session, dataset):
        return []
    try:
        return [read_part(session, custody, part) for part in dataset.parts.values()]
    except SealError:
        return []


def is_united(session: Session, dataset: DatasetDeclaration) -> bool:
    """Whether the tables of the CEF are the views that unite the partitions."""
    tables = dataset.cef_tables()
    return all(session.is_view_of(table, UNITED, **list_united(dataset, table)) for table in tables)


def hash_cef_of_parts(
    session: Session, dataset: DatasetDeclaration, parts: Sequence["PartContents"], key: bytes
) -> str:
    """The content version of a CEF that unites these partitions, under a key of `with_recodes`."""
    added = [
        (table, [sum(own) for own in zip(*(part.sums[table.name] for part in parts), strict=True)])
        for table in dataset.cef_tables()
    ]
    return session.version_of_sums(added, key)


@dataclass(frozen=True)
class PartContents:
    """The contents kept beside the records of a partition: the versions of its source (`hash_source`), of its files and
    of their headers, and its sketch.

    Attributes:
        sums: by table, the sums from which its content version is made.
        is_checked: whether this code has found that it satisfies every rule of the declaration.
    """

    source: str
    files: Mapping[str, str]
    headers: str
    sketch: bytes = field(repr=False)
    sums: Mapping[str, Sequence[int]] = field(repr=False)
    is_checked: bool


def read_part(session: Session, custody: Custody, part: DatasetDeclaration) -> PartContents:
    """The contents kept beside the records of a partition. Raises SealError if they are missing or altered, or if the
    records are not the ones read from its source."""
    if problems := find_content_problems(session, custody, part):
        raise SealError(problems[0])
    kept = _published(session, custody, part)
    return PartContents(
        kept[_SOURCE],
        {name: version for name, version in kept.items() if name.partition(".")[0] in part.tables},
        kept[_HEADERS],
        bytes.fromhex(kept[_SKETCH]),
        {table.name: tuple(map(int, kept[f"{_SUMS} {table.name}"].split())) for table in part.cef_tables()},
        kept.get(_CHECKED, "") == _identify_check(custody, part),
    )


def read_source_version(session: Session, custody: Custody, dataset: DatasetDeclaration) -> str:
    """The version of the source (`hash_source`) that a CEF was read from. Raises SealError as `read_contents`."""
    return _published(session, custody, dataset)[_SOURCE]


def list_united(dataset: DatasetDeclaration, table: Table) -> dict[str, Any]:
    """The identifiers of the view that unites a table of all partitions."""
    (name,) = (name for name, own in zip(dataset.tables, dataset.cef_tables(), strict=True) if own == table)
    tables = [Table(table.zone, part.name, name) for part in dataset.parts.values()]
    return {"tables": tables, "columns": list(dataset.tables[name].stored)}


def drop_surplus(session: Session, dataset: DatasetDeclaration) -> None:
    """Drop the confidential tables that an earlier declaration of a dataset had: other kinds of records, partitions,
    and the views over these."""
    for table in _list_surplus(session, dataset):
        session.drop(table)


def _list_surplus(session: Session, dataset: DatasetDeclaration) -> list[Table]:
    others = {name for name in CEF_TABLES if name not in dataset.tables} | ({DROPPED} if dataset.parts else set())
    # DuckDB ignores upper and lower case.
    due = {part.name.lower() for part in dataset.parts.values()}
    prefix = f"{dataset.name}{OF_PART}"
    of_parts = (name for name in session.schemas(Zone.CONFIDENTIAL) if name.startswith(prefix))
    return [
        Table(Zone.CONFIDENTIAL, schema, name)
        for schema in (dataset.name, *(schema for schema in of_parts if schema.lower() not in due))
        for name, is_view in session.tables(Zone.CONFIDENTIAL, schema).items()
        if schema != dataset.name or name in others or (is_view and not dataset.parts)
    ]


def _open_sketch(custody: Custody, dataset: DatasetDeclaration, published: Mapping[str, str]) -> bytes | None:
    kept = published.get(_SKETCH, "")
    return bytes.fromhex(kept) if dataset.is_part else custody.open_sketch(kept)


def contents_table(dataset: DatasetDeclaration) -> Table:
    return Table(Zone.CONFIDENTIAL if dataset.is_part else Zone.PUBLIC, dataset.name, CONTENTS)


def _hash_file(path: Path, key: bytes) -> str | None:
    """The HMAC of a file's bytes; None if it cannot be read."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            return file_digest(file, lambda: hmac.new(key, digestmod=sha256)).hexdigest()
    except OSError:
        return None
