"""From the source into the CEF's tables, whole or not at all.

Here belongs the order of the steps: open, read, write, judge, and keep or undo. What is a rule belongs in
`validation`.
"""

from collections import Counter
from pathlib import Path

from assets.cef.declaration import DatasetDeclaration, RecordTable
from assets.cef.findings import Finding, SourceError
from assets.cef.readers import Source, open_source, unreadable
from assets.cef.validation import key_findings, row_findings, unit_findings
from resources.statements import Table, Zone
from resources.warehouse import Session, WarehouseError


def ingest(session: Session, declaration: DatasetDeclaration, root: Path, version_key: bytes) -> str:
    """Replace the CEF of a dataset by what its source holds.

    Args:
        session: one that writes the confidential zone.
        root: the folder that relative paths start from.
        version_key: what the data version is keyed with.

    Returns:
        The data version of the new CEF.

    Raises:
        SourceError: with everything that is wrong with the source; the tables stay as they were.
    """
    findings: list[Finding] = []
    sources: dict[str, Source] = {}
    ill_typed: dict[str, Counter[str]] = {}
    states = {}
    for name, records in declaration.tables.items():
        try:
            sources[name] = open_source(declaration, records, root)
            states[name] = sources[name].state()
            ill_typed[name] = _count_ill_typed(session, sources[name], records)
        except SourceError as error:
            sources.pop(name, None)
            findings += error.findings
    with session.transaction():
        for table, (name, records) in zip(declaration.cef_tables(), declaration.tables.items(), strict=True):
            if name in sources:
                findings += _write(session, table, records, sources[name], ill_typed[name])
        if len(sources) == len(declaration.tables) == 2:
            findings += unit_findings(session, declaration, sources["persons"].label)
        findings += [
            Finding(source.label, "changed while it was read")
            for name, source in sources.items()
            if source.state() != states[name]
        ]
        if findings:
            raise SourceError(findings)
        if declaration.persons is None:
            session.run("cef/drop_table", table=Table(Zone.CONFIDENTIAL, declaration.name, "persons"))
    # DuckDB reads committed rows on all cores, and those of a running transaction on one.
    return session.content_version(declaration.cef_tables(), version_key)


def _types(records: RecordTable) -> dict[str, str]:
    return {name: column.type.value for name, column in records.stored.items()}


def _count_ill_typed(session: Session, source: Source, records: RecordTable) -> Counter[str]:
    """The values of each column that are not of its type; reads the whole source."""
    try:
        records_in_source, *counts = session.row(
            "cef/count_ill_typed", source.values, relation=source.relation, columns=_types(records)
        )
    except WarehouseError as error:
        if "OutOfMemory" in str(error):
            raise
        raise SourceError([unreadable(source.label, source.kind)]) from None
    if not records_in_source:
        raise SourceError([Finding(source.label, "holds no records")])
    return Counter(dict(zip(records.stored, counts, strict=True)))


def _write(
    session: Session, table: Table, records: RecordTable, source: Source, ill_typed: Counter[str]
) -> list[Finding]:
    session.create(table, "cef/typed", source.values, relation=source.relation, columns=_types(records))
    return [
        *(
            Finding(source.label, f"not of type {records.columns[column].type.value}", column, rows)
            for column, rows in ill_typed.items()
            if rows
        ),
        *row_findings(session, table, records, source.label, ill_typed),
        *key_findings(session, table, records, source.label),
    ]
