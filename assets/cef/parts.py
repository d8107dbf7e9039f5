"""The CEF of a dataset with partitions, each of which is read in a run of its own.

A partition is a dataset by itself: it has its own files, tables, versions, seal and sketch, and it satisfies all rules
of the declaration. The CEF is a view over the tables of all partitions. Rules across partitions are checked when they
are put together: a key is in one partition only, and a place in one larger place only. The content version of the CEF
is made of the versions of the partitions and equals the version of the same records in one file. This holds for the
sketch too, unless the files have so many columns that a sketch covers only some of them (`mechanisms.people.merge`).
"""

import hmac
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from assets.cef.ingestion import ingest
from assets.cef.readers import measure_source
from assets.cef.sketch import merge_sketches
from assets.cef.validation import REPEATED_KEY, Finding, SourceError, crossing_findings
from assets.conventions import list_some
from assets.release.contents import (
    CefVersions,
    PartContents,
    drop_surplus,
    find_unchanged_version,
    hash_cef_of_parts,
    hash_files,
    hash_source,
    list_united,
    publish_contents,
    read_part,
    read_source_version,
    with_recodes,
)
from assets.release.dataset import DatasetDeclaration
from resources.chain import canonicalize
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import UNITED, Session, Warehouse


def read_source(
    warehouse: Warehouse, custody: Custody, declaration: DatasetDeclaration, root: Path, code_version: str
) -> tuple[str, bool]:
    """Read the source of a dataset, or of a partition, unless the stored tables were read from its present content.
    Return the content version of the CEF, and whether it was read."""
    key = custody.version_key()
    files = hash_files(declaration, root, key)
    read_from = hash_source(declaration, code_version, files, key)
    version = find_unchanged_version(warehouse, custody, declaration, read_from)
    if version is not None:
        return version, False
    size = measure_source(declaration, root)
    with warehouse.session(writes=Zone.CONFIDENTIAL, source_bytes=size) as session:
        versions = ingest(session, declaration, root, key, files)
    publish_contents(warehouse, custody, declaration, versions, files, read_from)
    return versions.content, True


def unite_parts(
    warehouse: Warehouse, custody: Custody, declaration: DatasetDeclaration, root: Path, code_version: str
) -> tuple[str, bool]:
    """Put the partitions together, after reading those that are missing or were read from another source. Return as
    `read_source`.

    Raises SourceError with all rules that the source violates, and SealError if a partition changes meanwhile; the
    views stay as they were.
    """
    for part in declaration.parts.values():
        read_source(warehouse, custody, part, root, code_version)
    key = custody.version_key()
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        sources = {name: read_source_version(session, custody, part) for name, part in declaration.parts.items()}
    version = find_unchanged_version(
        warehouse, custody, declaration, hash_source(declaration, code_version, sources, key)
    )
    if version is not None:
        return version, False
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        parts = {name: read_part(session, custody, part) for name, part in declaration.parts.items()}
        drop_surplus(session, declaration)
        for table in declaration.cef_tables():
            session.drop(table)
            session.create_view(table, UNITED, **list_united(declaration, table))
        crossing = [_name_partitions(session, declaration, each) for each in crossing_findings(session, declaration)]
        findings = [*_find_other_headers(parts), *crossing]
        if findings:
            raise SourceError(findings)
        keyed = with_recodes(key, declaration.recodes())
        content = hash_cef_of_parts(session, declaration, list(parts.values()), keyed)
    sketch = merge_sketches([part.sketch for part in parts.values()])
    versions = CefVersions(content, sketch=sketch, is_checked=all(part.is_checked for part in parts.values()))
    # The versions of the united partitions: another run may have read one from another source since.
    read_from = hash_source(declaration, code_version, {name: part.source for name, part in parts.items()}, key)
    publish_contents(warehouse, custody, declaration, versions, _hash_files(parts, key), read_from)
    return content, True


def _hash_files(parts: Mapping[str, PartContents], key: bytes) -> dict[str, str]:
    """By table, an HMAC of the files of all partitions, regardless of the partitions' names. It does not show which
    partition has changed."""
    names = {name for part in parts.values() for name in part.files}
    of_parts = {name: sorted(part.files.get(name, "") for part in parts.values()) for name in sorted(names)}
    return {name: hmac.new(key, canonicalize(versions), sha256).hexdigest() for name, versions in of_parts.items()}


def _find_other_headers(parts: Mapping[str, PartContents]) -> list[Finding]:
    first, *others = parts
    rule = f"its files have other columns, or in another order, than those of {first}"
    return [Finding(f"partition {key}", rule) for key in others if parts[key].headers != parts[first].headers]


def _name_partitions(session: Session, declaration: DatasetDeclaration, finding: Finding) -> Finding:
    """A finding about keys in several partitions, with these partitions; other findings as they are."""
    if finding.rule != REPEATED_KEY:
        return finding
    (table,) = (table for table in declaration.cef_tables() if table.name == finding.place)
    tables, parts = list_united(declaration, table)["tables"], list(declaration.parts)
    rows = session.rows("cef/with_repeated_keys", key=finding.column, tables=tables)
    return replace(finding, hint=f"in partitions {list_some([parts[part] for (part,) in rows])}")
