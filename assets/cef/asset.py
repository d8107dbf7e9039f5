"""The CEF as a Dagster asset with its blocking checks.

`ingestion` makes the CEF, and `validation` holds its rules.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg

from assets.cef.ingestion import ingest
from assets.cef.readers import measure_source, source_paths
from assets.cef.validation import Finding, cef_findings, form_findings, structure_findings, structure_offenders
from assets.conventions import StageKind, check_result, escape_markdown, markdown_table, write_count
from assets.release.columns import Column, Role
from assets.release.contents import (
    find_content_problems,
    find_unchanged_version,
    hash_files,
    hash_source,
    publish_contents,
)
from assets.release.dataset import DROPPED, DatasetDeclaration
from assets.release.seal import SealError
from assets.stages import stage, stage_check
from resources.chain import canonicalize
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Warehouse

CODE_VERSION = "3"
"""Increased when the same source would give another CEF, or none any more."""


def build_cef(declaration: DatasetDeclaration, root: Path) -> list[dg.AssetsDefinition | dg.AssetChecksDefinition]:
    """The asset `[dataset, "cef"]`, its checks `schema_and_keys` and `as_read`, and `structure` if there are rules."""
    key = dg.AssetKey([declaration.name, "cef"])

    @stage(
        key,
        declaration.name,
        StageKind.CEF,
        describe(declaration),
        code_version=code_version(declaration),
        kinds={"duckdb", "pandera"},
    )
    def cef(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        key = custody.version_key()
        source = ", ".join(path.name for path in source_paths(declaration, root))
        source = source or f"built-in {declaration.reader.value}"
        files = hash_files(declaration, root, key)
        read_from = hash_source(declaration, code_version(declaration), files, key)
        version = find_unchanged_version(warehouse, custody, declaration, read_from)
        if version is None:
            size = measure_source(declaration, root)
            with warehouse.session(writes=Zone.CONFIDENTIAL, source_bytes=size) as session:
                versions = ingest(session, declaration, root, key, files)
            publish_contents(warehouse, custody, declaration, versions, files, read_from)
            version = versions.content
        else:
            source += ": unchanged since the stored tables were read from it, so it was not read again"
        metadata: dict[str, Any] = {"dagster/column_schema": column_schema(declaration), "source": source}
        if declaration.synthetic:
            with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
                counts = [session.count(table) for table in declaration.cef_tables()]
                if declaration.drops_unmatched:
                    dropped = session.rows("warehouse/all", source=Table(Zone.CONFIDENTIAL, declaration.name, DROPPED))
                    metadata |= {f"{table} left out": records for table, records in dropped}
            metadata |= dict(zip(["dagster/row_count", *list(declaration.tables)[1:]], counts, strict=True))
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    @stage_check(
        key,
        "schema_and_keys",
        "The stored tables have the declared columns and types, no null where none is allowed, no repeated key, "
        "and a unit for every person.",
    )
    def schema_and_keys(warehouse: Warehouse) -> dg.AssetCheckResult:
        with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            findings = cef_findings(session, declaration)
        return _check_result(
            findings, {finding.statement: finding.rows for finding in findings if finding.rows is not None}
        )

    @stage_check(key, "as_read", "The stored tables are those that were read from the source.")
    def as_read(warehouse: Warehouse, custody: Custody) -> dg.AssetCheckResult:
        with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            try:
                return check_result(find_content_problems(session, custody, declaration))
            except SealError as error:
                return check_result([str(error)])

    @stage_check(
        key,
        "structure",
        "The stored records satisfy the rules of their layout; each rule is shown with its violations.",
    )
    def structure(warehouse: Warehouse) -> dg.AssetCheckResult:
        with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            if findings := form_findings(session, declaration):
                return _check_result(findings, {})
            offenders = structure_offenders(session, declaration)
        counts = {Finding(rule.table, rule.offence, rule.column).statement: rows for rule, rows in offenders.items()}
        return _check_result(structure_findings(offenders), counts)

    return [cef, schema_and_keys, as_read, *([structure] if declaration.structure else [])]


def code_version(declaration: DatasetDeclaration) -> str:
    """The code version of a dataset's CEF, which changes with its recodes, so that the UI shows the CEF as stale."""
    recodes = declaration.recodes()
    return f"{CODE_VERSION}-{sha256(canonicalize(recodes)).hexdigest()[:8]}" if recodes else CODE_VERSION


def _check_result(findings: Sequence[Finding], counts: Mapping[str, int]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=not findings,
        description="\n".join(str(finding) for finding in findings) or None,
        metadata={
            "violated rules": write_count(len(findings)),
            **{words: write_count(counts[words]) for words in counts},
        },
    )


def describe(declaration: DatasetDeclaration) -> str:
    origin = (
        f"**Public data, no budget charged**: {escape_markdown(declaration.source)}. No page shows its values."
        if declaration.public
        else "**Synthetic**: these records are generated or public; experiments may draw on them."
        if declaration.synthetic
        else "**Confidential**: these records are about real people; this page shows none of their values."
    )
    title, record, words = map(escape_markdown, (declaration.title, declaration.record_name, declaration.description))
    parts = [
        f"The census edited file (CEF) of **{title}**: validated microdata with one record for each "
        f"{record}{' and each of its persons' if declaration.persons else ''}.",
        origin,
        words.strip(),
    ]
    header = ("column", "type", "role", "domain", "null", "description")
    for name, records in declaration.tables.items():
        table = markdown_table(header, [_describe_column(*column) for column in records.stored.items()])
        parts.append(f"Table `{name}`:\n\n{table}")
    if declaration.drops_unmatched:
        parts.append(
            f"Records in a {record} that the table of {record}s lacks are left out. The table `{DROPPED}` in the "
            "confidential zone has their number."
        )
    return "\n\n".join(part for part in parts if part)


def _describe_column(name: str, column: Column) -> list[str]:
    nullable = "yes" if column.nullable else "no"
    cells = [name, column.type.value, column.role.value, column.domain_in_words, nullable, column.description]
    return list(map(escape_markdown, cells))


def column_schema(declaration: DatasetDeclaration) -> dg.TableSchema:
    """The columns for the UI; if there are persons, each column is prefixed with its table."""
    several = declaration.persons is not None
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                f"{table}.{name}" if several else name,
                type=column.type.stored,
                description=escape_markdown(column.description) or None,
                constraints=dg.TableColumnConstraints(
                    nullable=column.nullable, unique=column.role is Role.KEY, other=[column.domain_in_words]
                ),
                tags={"role": column.role.value},
            )
            for table, records in declaration.tables.items()
            for name, column in records.stored.items()
        ]
    )
