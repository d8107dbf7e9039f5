"""The CEF as a Dagster asset with its blocking checks.

`ingestion` makes the CEF, and `validation` holds its rules.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg

from assets.cef.parts import read_source, unite_parts
from assets.cef.readers import source_paths
from assets.cef.validation import (
    Finding,
    cef_findings,
    form_findings,
    list_rules,
    structure_findings,
    structure_offenders,
)
from assets.conventions import (
    NO_CONFIG,
    POOL,
    StageKind,
    check_result,
    escape_markdown,
    list_some,
    markdown_table,
    write_count,
)
from assets.release.columns import Column, Role
from assets.release.contents import find_content_problems, is_checked, require_synthetic
from assets.release.dataset import CEF_OF_PARTS, DROPPED, DatasetDeclaration, Rule
from assets.release.seal import SealError
from assets.stages import guard_step, read_partition, stage
from resources.chain import canonicalize
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse, WarehouseError

CODE_VERSION = "3"
"""Increase it when the same source would give a different CEF, or be refused."""


def build_cef(declaration: DatasetDeclaration, root: Path) -> list[dg.AssetsDefinition | dg.AssetChecksDefinition]:
    """The asset `[dataset, "cef"]`, its checks `schema_and_keys` and `as_read`, and `structure` if there are rules;
    with partitions, also the asset that reads each of them."""
    key = dg.AssetKey([declaration.name, "cef"])

    @stage(
        key,
        declaration.name,
        StageKind.CEF,
        describe(declaration),
        [dg.AssetKey([declaration.name, CEF_OF_PARTS])] if declaration.partitions else [],
        code_version=code_version(declaration),
        kinds={"duckdb", "pandera"},
    )
    def cef(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        read = unite_parts if declaration.partitions else read_source
        version, is_new = read(warehouse, custody, declaration, root, code_version(declaration))
        source = list_some([path.name for path in source_paths(declaration, root)])
        source = source or f"built-in {declaration.reader.value}"
        if not is_new:
            source += ": unchanged since the stored tables were read from it, so it was not read again"
        metadata: dict[str, Any] = {"dagster/column_schema": column_schema(declaration), "source": source}
        if declaration.synthetic:
            with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
                require_synthetic(session, ledger, declaration)
                counts = [session.count(table) for table in declaration.cef_tables()]
                if declaration.drops_unmatched:
                    dropped = session.rows("warehouse/all", source=Table(Zone.CONFIDENTIAL, declaration.name, DROPPED))
                    metadata |= {f"{table} left out": records for table, records in dropped}
            metadata |= dict(zip(["dagster/row_count", *list(declaration.tables)[1:]], counts, strict=True))
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    by_part = [_build_parts(declaration, root)] if declaration.partitions else []
    return [cef, _build_checks(key, declaration), *by_part]


def _build_parts(declaration: DatasetDeclaration, root: Path) -> dg.AssetsDefinition:
    """The asset `[dataset, "cef_of_parts"]`, which reads the records of a partition. The CEF itself reads partitions
    that this asset has not read."""

    @stage(
        dg.AssetKey([declaration.name, CEF_OF_PARTS]),
        declaration.name,
        StageKind.CEF,
        "The records of one partition of the CEF, read from its files and checked. Nothing of one partition is public.",
        code_version=code_version(declaration),
        kinds={"duckdb", "pandera"},
        parts=declaration.partitions or (),
    )
    def parts(context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        part = declaration.parts[read_partition(context, declaration.parts)]
        read_source(warehouse, custody, part, root, code_version(declaration))
        # No data version, because it would show whether the records of this partition have changed.
        return dg.MaterializeResult()

    return parts


_AS_READ = "as_read"
_CHECKS = {
    "schema_and_keys": "The stored tables have the declared columns and types, no null where none is allowed, no "
    "repeated key, and a unit for every person.",
    "structure": "The stored records satisfy the rules of their layout; each rule is shown with its violations.",
    _AS_READ: "The stored tables are those that were read from the source.",
}


def _build_checks(key: dg.AssetKey, declaration: DatasetDeclaration) -> dg.AssetChecksDefinition:
    """The checks, evaluated in one step on a snapshot, which is hashed once. If its content is as read, and the same
    code has found that it satisfies the rules, they are not evaluated again."""
    find: dict[str, Callable[[Session], tuple[Sequence[Finding], Mapping[str, int]]]] = {
        "schema_and_keys": lambda session: _find_in_tables(session, declaration),
        "structure": lambda session: _find_in_structure(session, declaration),
    }
    without_problems = {
        "schema_and_keys": {},
        "structure": dict.fromkeys(map(_describe_rule, list_rules(declaration)), 0),
    }
    names = [name for name in _CHECKS if name != "structure" or declaration.structure]

    @dg.multi_asset_check(
        name="__".join([*key.path, "gates"]),
        specs=[dg.AssetCheckSpec(name, asset=key, description=_CHECKS[name], blocking=True) for name in names],
        can_subset=True,
        pool=POOL,
        config_schema=NO_CONFIG,
    )
    def checks(
        context: dg.AssetCheckExecutionContext, warehouse: Warehouse, custody: Custody
    ) -> Iterator[dg.AssetCheckResult]:
        selected = {check.name for check in context.selected_asset_check_keys}
        with guard_step(), ExitStack() as opened:
            held, checked = warehouse, False
            # Without published versions, the rules are evaluated.
            with suppress(WarehouseError):
                held = opened.enter_context(warehouse.snapshot([Zone.CONFIDENTIAL, Zone.PUBLIC]))
                with held.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
                    checked = is_checked(session, custody, declaration)
            for name in names:
                if name not in selected:
                    continue
                if name == _AS_READ:
                    yield _check_as_read(held, custody, declaration)
                elif checked:
                    yield _check_result(name, [], without_problems[name])
                else:
                    with held.session(reads=[Zone.CONFIDENTIAL]) as session:
                        yield _check_result(name, *find[name](session))

    return checks


def _find_in_tables(session: Session, declaration: DatasetDeclaration) -> tuple[Sequence[Finding], Mapping[str, int]]:
    findings = cef_findings(session, declaration)
    return findings, {finding.statement: finding.rows for finding in findings if finding.rows is not None}


def _find_in_structure(
    session: Session, declaration: DatasetDeclaration
) -> tuple[Sequence[Finding], Mapping[str, int]]:
    if findings := form_findings(session, declaration):
        return findings, {}
    offenders = structure_offenders(session, declaration)
    return structure_findings(offenders), {_describe_rule(rule): rows for rule, rows in offenders.items()}


def _describe_rule(rule: Rule) -> str:
    return Finding(rule.table, rule.offence, rule.column).statement


def _check_as_read(warehouse: Warehouse, custody: Custody, declaration: DatasetDeclaration) -> dg.AssetCheckResult:
    with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        try:
            return check_result(_AS_READ, find_content_problems(session, custody, declaration))
        except SealError as error:
            return check_result(_AS_READ, [error])


def code_version(declaration: DatasetDeclaration) -> str:
    """The code version of a dataset's CEF, which changes with its recodes, so that the UI shows the CEF as stale."""
    recodes = declaration.recodes()
    return f"{CODE_VERSION}-{sha256(canonicalize(recodes)).hexdigest()[:8]}" if recodes else CODE_VERSION


def _check_result(name: str, findings: Sequence[Finding], counts: Mapping[str, int]) -> dg.AssetCheckResult:
    numbers = {words: write_count(counts[words]) for words in counts}
    return check_result(name, findings, {"violated rules": write_count(len(findings)), **numbers})


def describe(declaration: DatasetDeclaration) -> str:
    origin = (
        f"**Public data, no budget charged**: {escape_markdown(declaration.source)}. No page shows its values."
        if declaration.public
        else "**Synthetic**: these records are made up; experiments may draw on them."
        if declaration.synthetic
        else "**Confidential**: these records are about real people; this page shows none of their values."
    )
    title, record, words = map(escape_markdown, (declaration.title, declaration.record_name, declaration.description))
    parts = [
        f"The census edited file (CEF): {title}. Validated microdata with one record for each "
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
