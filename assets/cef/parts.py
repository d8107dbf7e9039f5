"""The CEF of a dataset with partitions, each of which is read in a run of its own.

A partition is a dataset by itself: it has files, tables, versions, a seal and a sketch of its own, and it satisfies all
rules of the declaration. The CEF is a view over the tables of all partitions. What none of them can know is checked
when they are put together: that no key is in two of them, and no place in several larger ones. The content version of
the CEF is that of the same records in one file, and so is the sketch. Both are made of those of the partitions, whose
records are not read again.
"""

from collections.abc import Mapping
from pathlib import Path

from assets.cef.ingestion import ingest
from assets.cef.readers import measure_source
from assets.cef.sketch import merge_sketches
from assets.cef.validation import Finding, SourceError, crossing_findings
from assets.release.contents import (
    CefVersions,
    PartContents,
    drop_parts,
    find_unchanged_version,
    hash_files,
    hash_source,
    keep_sums,
    list_united,
    publish_contents,
    read_part,
    with_recodes,
)
from assets.release.dataset import OF_PART, DatasetDeclaration
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse


def read_source(
    warehouse: Warehouse, custody: Custody, declaration: DatasetDeclaration, root: Path, code_version: str
) -> tuple[str, bool]:
    """Read the source of a dataset, or of a partition, unless the stored tables were read from it as it is now. Return
    the content version of the CEF, and whether it was read."""
    key = custody.version_key()
    files = hash_files(declaration, root, key)
    read_from = hash_source(declaration, code_version, files, key)
    version = find_unchanged_version(warehouse, custody, declaration, read_from)
    if version is not None:
        return version, False
    size = measure_source(declaration, root)
    with warehouse.session(writes=Zone.CONFIDENTIAL, source_bytes=size) as session:
        versions = ingest(session, declaration, root, key, files)
        if OF_PART in declaration.name:
            keep_sums(session, custody, declaration)
    publish_contents(warehouse, custody, declaration, versions, files, read_from)
    return versions.content, True


def unite_parts(
    warehouse: Warehouse, custody: Custody, declaration: DatasetDeclaration, root: Path, code_version: str
) -> tuple[str, bool]:
    """Put the partitions together, after reading those that are missing, or were read from another source. Return as
    `read_source`.

    Raises SourceError with all rules that the source violates; the views stay as they were.
    """
    contents = {
        key: read_source(warehouse, custody, part, root, code_version)[0] for key, part in declaration.parts.items()
    }
    read_from = hash_source(declaration, code_version, contents, custody.version_key())
    version = find_unchanged_version(warehouse, custody, declaration, read_from)
    if version is not None:
        return version, False
    with warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
        parts = {key: read_part(session, custody, part) for key, part in declaration.parts.items()}
        with session.transaction():
            drop_parts(session, Zone.CONFIDENTIAL, declaration)
            for table in declaration.cef_tables():
                session.drop(table)
                session.create_view(table, "warehouse/united", **list_united(declaration, table))
            findings = [*_find_other_headers(declaration, parts), *crossing_findings(session, declaration)]
            if findings:
                raise SourceError(findings)
        versions = _combine(session, custody, declaration, parts)
    files = {f"{name} {key}": version for key, part in parts.items() for name, version in part.files.items()}
    read = {key: part.content for key, part in parts.items()}
    publish_contents(warehouse, custody, declaration, versions, files, read_from, read)
    return versions.content, True


def _find_other_headers(declaration: DatasetDeclaration, parts: Mapping[str, PartContents]) -> list[Finding]:
    first, *others = parts
    rule = f"its files have other columns, or in another order, than those of {first}"
    return [Finding(f"partition {key}", rule) for key in others if parts[key].headers != parts[first].headers]


def _combine(
    session: Session, custody: Custody, declaration: DatasetDeclaration, parts: Mapping[str, PartContents]
) -> CefVersions:
    sums: dict[Table, list[int]] = {
        table: [sum(numbers) for numbers in zip(*(part.sums[table.name] for part in parts.values()), strict=True)]
        for table in declaration.cef_tables()
    }
    content = session.version_of_sums(sums, with_recodes(custody.version_key(), declaration.recodes()))
    sketch = merge_sketches([part.sketch for part in parts.values()])
    return CefVersions(content, sketch=sketch, is_checked=all(part.is_checked for part in parts.values()))
