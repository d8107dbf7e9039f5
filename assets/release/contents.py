"""The keyed versions of a dataset's content, which show that two datasets hold the same records.

The charge records them in the ledger. If the records of one dataset are charged again as another dataset, under a cap
of its own, the ledger recognizes them. The versions cover the CEF and every source file of records, so that another
selection of columns from the same file is recognized too. Nobody can test them against guessed records without the key.

The seals of stages that count the CEF contain its version as they counted it. A charge follows from counts of the
current CEF only.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from assets.release.dataset import DatasetDeclaration
from assets.release.seal import SealError, require_sealed, seal_stage
from resources.canonical import canonical
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

CONTENTS = "cef_contents"
_CEF = "cef"
_CHUNK = 1 << 20


def publish_contents(
    warehouse: Warehouse, custody: Custody, dataset: DatasetDeclaration, cef_version: str, files: Mapping[str, Path]
) -> None:
    """Write the keyed versions of the CEF and of its source files to the public zone, sealed.

    Args:
        warehouse: the warehouse.
        custody: the custody.
        dataset: the dataset.
        cef_version: the keyed version of its CEF.
        files: its files of records, by table.
    """
    key = custody.version_key()
    versions = {_CEF: cef_version} | {name: _version(path, key) for name, path in files.items()}
    columns = {"content": list(versions), "version": list(versions.values())}
    table = _table(dataset)
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        rows = session.register("contents", pa.table(columns))
        session.create(table, "warehouse/all", source=rows)
        seal_stage(session, custody, dataset.name, "cef", [table])


def published_contents(session: Session, custody: Custody, dataset: DatasetDeclaration) -> tuple[str, ...]:
    """The keyed versions that `publish_contents` wrote.

    Raises:
        SealError: if they are missing or were altered.
    """
    return tuple(sorted(_published(session, custody, dataset).values()))


def counted_from(
    session: Session, custody: Custody, dataset: DatasetDeclaration, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """What the seal of counts says that they follow from: the CEF as it is stored now, and the parameters.

    Args:
        session: the session that counts, which reads the confidential zone.
        custody: the custody.
        dataset: the dataset.
        parameters: the parameters that the counts follow from (`Method.counted_with`).

    Raises:
        SealError: if there is no CEF.
    """
    return {"cef": _stored_version(session, custody, dataset), "parameters": dict(parameters)}


def cef_version(session: Session, custody: Custody, dataset: DatasetDeclaration) -> str:
    """The keyed version of the CEF that `publish_contents` wrote.

    Raises:
        SealError: if it is missing or was altered.
    """
    return _published(session, custody, dataset)[_CEF]


def _published(session: Session, custody: Custody, dataset: DatasetDeclaration) -> dict[str, str]:
    table = _table(dataset)
    require_sealed(session, custody, dataset.name, "cef", [table])
    return dict(session.rows("warehouse/all", source=table))


def content_problems(session: Session, custody: Custody, dataset: DatasetDeclaration) -> list[str]:
    """The problem if the stored CEF is not the one that was read from the source; empty if it is.

    Args:
        session: a session that reads the confidential and the public zone.
        custody: the custody.
        dataset: the dataset.

    Raises:
        SealError: if there is no CEF, or the published versions are missing or were altered.
    """
    if _stored_version(session, custody, dataset) == cef_version(session, custody, dataset):
        return []
    return [f"{dataset.name}: the stored records are not those that were read from the source; materialize cef again"]


def content_of_cef(session: Session, dataset: DatasetDeclaration, key: bytes) -> str:
    """The keyed version of the stored CEF: of its tables and of the recodes that it was made with.

    Args:
        session: a session that reads the confidential zone.
        dataset: the dataset.
        key: the key of versions.
    """
    return session.content_version(dataset.cef_tables(), with_recodes(key, dataset.recodes()))


def with_recodes(key: bytes, recodes: Mapping[str, Any]) -> bytes:
    """The key of versions of confidential data that were made with these recodes; the key itself if there are none.

    The data alone are not enough. If another end of a band left a version as it was, everyone who sees both versions,
    in two certificates or in the event log, would know that no record lies between the two ends.

    Args:
        key: the key of versions.
        recodes: the recodes of the columns that the data follow from (`DatasetDeclaration.recodes`).
    """
    return hmac.new(key, canonical(dict(recodes)), sha256).digest() if recodes else key


def _stored_version(session: Session, custody: Custody, dataset: DatasetDeclaration) -> str:
    if not all(session.columns(table) for table in dataset.cef_tables()):
        raise SealError(f"{dataset.name}: the CEF is missing; materialize cef")
    return content_of_cef(session, dataset, custody.version_key())


def _table(dataset: DatasetDeclaration) -> Table:
    return Table(Zone.PUBLIC, dataset.name, CONTENTS)


def _version(path: Path, key: bytes) -> str:
    """The HMAC of a file's bytes."""
    digest = hmac.new(key, digestmod=sha256)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
