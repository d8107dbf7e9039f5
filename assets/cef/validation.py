"""The validation of records against their declaration: how many records violate which rule.

The rules are those of rows (`row_rules`, in batches), and those of keys, of a layout's structure and of stored tables
(SQL). Every finding is a count; no value of a record leaves this module. Findings name tables and columns of the CEF.
`ingestion` and `asset` decide what follows from them.
"""

from collections import Counter
from collections.abc import Mapping

from assets.cef.findings import NULL, Finding
from assets.release.columns import RecordTable
from assets.release.dataset import DatasetDeclaration, Rule
from resources.statements import Table
from resources.warehouse import Session

BATCH_ROWS = 250_000
"""The number of rows validated at a time, which bounds memory whatever the size of the table."""

REPEATED_KEY = "key that another row has"


def row_findings(
    session: Session, table: Table, records: RecordTable, place: str, ill_typed: Counter[str]
) -> list[Finding]:
    """The rules that rows of a typed table violate by themselves, with the number of rows.

    Args:
        place: the name of the source in the findings.
        ill_typed: by column, the number of values that are NULL in the table because they could not be converted; they
            are not counted as nulls again.
    """
    # Here, because pandera takes most of a second to import, and only an ingestion needs it.
    from assets.cef.row_rules import count_offenders, row_schema

    schema, columns = row_schema(records), list(records.stored)
    offenders: Counter[tuple[str, str]] = Counter()
    for batch in session.batches("cef/records", BATCH_ROWS, columns=columns, table=table):
        offenders += count_offenders(schema, batch)
    offenders -= Counter({(column, NULL): rows for column, rows in ill_typed.items()})
    return [Finding(place, rule, column, rows) for (column, rule), rows in sorted(offenders.items())]


def key_findings(session: Session, table: Table, records: RecordTable, place: str) -> list[Finding]:
    """The finding about repeated keys of a table; none if its key is unique."""
    if records.key is None:
        return []
    (repeated,) = session.row("cef/count_repeated_keys", key=records.key, table=table)
    return [Finding(place, REPEATED_KEY, records.key, repeated)] if repeated else []


def unit_findings(session: Session, declaration: DatasetDeclaration) -> list[Finding]:
    """The findings about persons and households without a unit, by table; none if the unit of each of them exists."""
    units, *others = declaration.cef_tables()
    findings = []
    for table, (name, records) in zip(others, list(declaration.tables.items())[1:], strict=True):
        (orphans,) = session.row(
            "cef/count_records_without_unit",
            records=table,
            unit=records.unit,
            units=units,
            key=declaration.units.key,
        )
        rule = f"{name.removesuffix('s')} without a unit in {declaration.units.key}"
        findings += [Finding(name, rule, records.unit or "", orphans)] if orphans else []
    return findings


def structure_offenders(session: Session, declaration: DatasetDeclaration) -> dict[Rule, int]:
    """The number of records that violate each rule of the dataset's layout; empty for a layout without rules.

    Args:
        session: a session that sees both tables, with the declared columns.
    """
    structure = declaration.structure
    if structure is None:
        return {}
    addresses = dict(zip(declaration.tables, declaration.cef_tables(), strict=True))
    rules = structure.select_rules({name for records in declaration.tables.values() for name in records.columns})
    (offenders,) = session.arrow(structure.statement, **addresses, rules=list(rules)).to_pylist()
    return {rule: offenders[name] for name, rule in rules.items()}


def structure_findings(offenders: Mapping[Rule, int]) -> list[Finding]:
    return [Finding(rule.table, rule.offence, rule.column, rows) for rule, rows in offenders.items() if rows]


def form_findings(session: Session, declaration: DatasetDeclaration) -> list[Finding]:
    """The findings about stored tables whose columns or types are not as declared."""
    return [
        Finding(table.name, "columns or types are not as declared")
        for table, records in zip(declaration.cef_tables(), declaration.tables.values(), strict=True)
        if list(session.columns(table).items())
        != [(name, column.type.stored) for name, column in records.stored.items()]
    ]


def cef_findings(session: Session, declaration: DatasetDeclaration) -> list[Finding]:
    """The findings about the stored CEF: its columns, types, nulls, keys, and the units of persons.

    Args:
        session: a session that reads the confidential zone.
    """
    findings = form_findings(session, declaration)
    malformed = {finding.place for finding in findings}
    for table, records in zip(declaration.cef_tables(), declaration.tables.values(), strict=True):
        if table.name in malformed:
            continue
        required = [name for name, column in records.stored.items() if not column.nullable]
        nulls = session.row("cef/count_nulls", columns=required, table=table) if required else ()
        findings += [Finding(table.name, NULL, name, rows) for name, rows in zip(required, nulls, strict=True) if rows]
        findings += key_findings(session, table, records, table.name)
    # Persons can be matched with their units only if both tables have the declared columns.
    if not malformed:
        findings += unit_findings(session, declaration)
    return findings


def cef_problems(session: Session, declaration: DatasetDeclaration) -> list[str]:
    """The problems of the stored CEF, in words and counts; empty if there are none."""
    return [str(finding) for finding in cef_findings(session, declaration)]
