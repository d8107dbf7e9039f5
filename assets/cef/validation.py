"""The validation of records against their declaration: the number of records that violate each rule.

Rules of rows are in `row_rules`, applied in batches, or once for each text of a code column. Rules of keys, of a
layout's structure and of stored tables are in SQL. Every finding is a count; no value of a record leaves this module.
Findings name tables and columns of the CEF; the findings of `readers` and `ingestion` name files and their columns.
`ingestion` and `asset` decide on the consequences.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from assets.release.columns import IDENTIFIERS, Column, RecordTable, whole
from assets.release.dataset import DatasetDeclaration, Rule
from mechanisms.refusal import RefusedError
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Session

BATCH_ROWS = 250_000
"""The number of rows validated at a time, which bounds memory for tables of any size."""

CODES_AT_ONCE = 50
"""The most code columns in a statement. DuckDB would take longer to plan more of them than to read them."""

_DIVIDED_BLOCK = "divided_block"
_OF_DIVIDED_BLOCKS = SQL("cef/of_divided_blocks", 'SELECT {% include "cef/divided_blocks.sql" %} AS units')
"""The rule of the layout that looks at several units at once, and its offenders."""

REPEATED_KEY = "key that another row has"
NULL = "null where none is allowed"
EMPTY = "is empty"


AS_MEANT: Mapping[str, Callable[[pa.StringArray], Iterable[pa.StringArray]]] = {
    "leading zeros are missing, as in 1 for 01": lambda codes: (
        pc.utf8_lpad(codes, width, "0") for width in range(2, 16)
    ),
    "there are blanks around codes": lambda codes: [pc.utf8_trim_whitespace(codes)],
    "codes have a decimal point, as in 1.0 for 1": lambda codes: [
        pc.replace_substring_regex(codes, r"^([0-9]+)\.0+$", r"\1")
    ],
}
"""By possible error in codes, the function to the intended codes."""


def describe_domain_rule(column: Column) -> str:
    return f"value outside its domain {column.domain_in_words}"


@dataclass(frozen=True)
class Finding:
    """A violated rule of a source or a table, stated without any value of a record.

    Attributes:
        place: the file, the built-in source or the table.
        column: empty if the finding is about all of it.
        rows: the number of rows that violate the rule; None if the finding is not about rows.
        hint: the likely cause; empty if none is known.
    """

    place: str
    rule: str
    column: str = ""
    rows: int | None = None
    hint: str = ""

    @property
    def statement(self) -> str:
        rule = f"{self.rule}; {self.hint}" if self.hint else self.rule
        return f"{self.place}: column {self.column}: {rule}" if self.column else f"{self.place}: {rule}"

    def __str__(self) -> str:
        if self.rows is None:
            return self.statement
        return f"{self.statement}: {self.rows:,} {'row' if self.rows == 1 else 'rows'}"


class SourceError(RefusedError):
    """A source cannot become a CEF. The message names files, columns, rules and counts, and contains no value."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        # Two columns of the CEF may come from the same column of the source and have the same finding. If one of the
        # findings has a hint, the other is left out.
        hinted = {replace(item, hint="") for item in findings if item.hint}
        self.findings = tuple(item for item in dict.fromkeys(findings) if item not in hinted)
        super().__init__("\n".join(str(finding) for finding in self.findings))


def row_findings(
    session: Session, table: Table | Fragment, records: RecordTable, place: str, explained: Counter[str]
) -> list[Finding]:
    """The rules that rows of a typed table violate by themselves, with the number of rows.

    Args:
        place: the name of the table in the findings.
        explained: by column, the number of NULLs in the table that another finding explains.
    """
    # Imported here, because pandera takes most of a second to import, and only an ingestion needs it.
    from assets.cef.row_rules import count_offenders, row_schema

    code_columns = _find_code_columns(session, table, records)
    others = {name: column for name, column in records.stored.items() if name not in code_columns}
    offenders: Counter[tuple[str, str]] = Counter()
    if others:
        schema = row_schema(others)
        for batch in session.batches("cef/records", BATCH_ROWS, columns=list(others), table=table):
            offenders += count_offenders(schema, batch)
    meant = dict[str, list[str]]()
    for first in range(0, len(code_columns), CODES_AT_ONCE):
        columns = dict(list(code_columns.items())[first : first + CODES_AT_ONCE])
        schemas = {name: row_schema({name: column}) for name, column in columns.items()}
        for batch in session.batches("cef/distinct_codes", BATCH_ROWS, columns=list(columns), table=table):
            for number, (name, schema) in enumerate(schemas.items()):
                of_column = batch.filter(pc.equal(batch["number"], number))
                if of_column.num_rows:
                    values = pa.record_batch({name: of_column["code"]})
                    offenders += count_offenders(schema, values, of_column["records"].to_numpy())
                    if (name, describe_domain_rule(columns[name])) in offenders:
                        meant[name] = _find_meant(columns[name], of_column["code"], meant.get(name, AS_MEANT))
    offenders -= Counter({(column, NULL): rows for column, rows in explained.items()})
    findings = [Finding(place, rule, column, rows) for (column, rule), rows in sorted(offenders.items())]
    return [
        replace(item, hint=meant[item.column][0]) if meant.get(item.column) and item.rule != NULL else item
        for item in findings
    ]


def _find_meant(column: Column, codes: pa.StringArray, possible: Iterable[str]) -> list[str]:
    """The keys of `AS_MEANT` that explain all codes outside the domain of a column."""

    def is_inside(texts: pa.StringArray) -> pa.BooleanArray:
        if column.values is not None:
            return pc.is_in(texts, pa.array(column.codes))
        return pc.match_substring_regex(texts, whole(str(column.pattern)))

    present = codes.drop_null()
    outside = present.filter(pc.invert(is_inside(present)))
    # `min_count` is for batches without codes outside the domain.
    return [
        words
        for words in possible
        if any(pc.all(is_inside(texts), min_count=0).as_py() for texts in AS_MEANT[words](outside))
    ]


def _find_code_columns(session: Session, table: Table | Fragment, records: RecordTable) -> dict[str, Column]:
    """The columns whose distinct texts are judged once for all rows, which takes a fraction of the time, because they
    are usually few; otherwise DuckDB spills them. Keys are left out, because they differ in every row, and so are
    columns of another type than declared, which pandera refuses."""
    stored = session.columns(table)
    return {
        name: column
        for name, column in records.stored.items()
        if (column.values is not None or column.pattern is not None)
        and column.role not in IDENTIFIERS
        and stored.get(name) == column.type.stored == "VARCHAR"
    }


def count_repeated_keys(session: Session, table: Table | Fragment, key: str) -> int:
    """The number of rows whose key an earlier row has. Keys are mostly stored in ascending order and then need no
    counting, which would take a table of all keys."""
    if session.row("cef/is_ascending", key=key, table=table) == (True,):
        return 0
    return int(session.row("cef/count_repeated_keys", key=key, table=table)[0])


def key_findings(session: Session, table: Table, records: RecordTable) -> list[Finding]:
    """The findings about records that contradict each other: repeated keys, and places in several larger ones."""
    findings = []
    if records.key is not None:
        repeated = count_repeated_keys(session, table, records.key)
        findings += [Finding(table.name, REPEATED_KEY, records.key, repeated)] if repeated else []
    for name, column in records.variables.items():
        if column.within is not None:
            names = {"place": name, "larger": column.within, "table": table}
            rule, statement = f"place in more than one {column.within}", "cef/count_divided_places"
            if column.nesting is not None:
                rule, statement = f"place in another {column.within} than nesting says", "cef/count_misplaced"
                places = column.larger_places(records.variables[column.within])
                names["places"] = session.register(
                    "places", pa.table([[*places], [*places.values()]], ["code", "larger"])
                )
            (rows,) = session.row(statement, **names)
            findings += [Finding(table.name, rule, name, int(rows))] if rows else []
    return findings


def unit_findings(session: Session, declaration: DatasetDeclaration) -> list[Finding]:
    """The findings about persons and households without a unit, by table, and about units made of persons that have no
    persons; empty if all units exist and have persons."""
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
    if declaration.rectangular is not None and declaration.persons is not None:
        (empty,) = session.row(
            "cef/count_records_without_unit",
            records=units,
            unit=declaration.units.key,
            units=others[0],
            key=declaration.persons.unit,
        )
        findings += [Finding("units", "unit without a person", str(declaration.units.key), empty)] if empty else []
    return findings


def copy_findings(session: Session, declaration: DatasetDeclaration) -> list[Finding]:
    """The findings about donors, whose answers may be in at most `copies` records, including their own."""
    findings = []
    for table, records in zip(declaration.cef_tables(), declaration.tables.values(), strict=True):
        if records.donor is not None:
            names = {"donor": records.donor, "key": records.key, "table": table}
            offenders = session.row("cef/count_donors", {"copies": declaration.copies}, **names)
            rules = (
                "donor that is not a record",
                "donor that has a donor itself",
                f"donor whose answers are in more than {declaration.copies} records (copies)",
            )
            of_table = zip(rules, offenders, strict=True)
            findings += [Finding(table.name, rule, records.donor, rows) for rule, rows in of_table if rows]
    return findings


def _select_rules(declaration: DatasetDeclaration) -> Mapping[str, Rule]:
    if declaration.structure is None:
        return {}
    columns = {name for records in declaration.tables.values() for name in records.columns}
    return declaration.structure.select_rules(columns)


def list_rules(declaration: DatasetDeclaration) -> list[Rule]:
    """The rules of the layout that records with the declared columns must satisfy."""
    return list(_select_rules(declaration).values())


def structure_offenders(session: Session, declaration: DatasetDeclaration) -> dict[Rule, int]:
    """The number of records that violate each rule of the layout. The tables must have the declared columns."""
    structure, rules = declaration.structure, _select_rules(declaration)
    if structure is None:
        return {}
    addresses = dict(zip(declaration.tables, declaration.cef_tables(), strict=True))
    names: dict[str, Any] = {**addresses, "rules": list(rules)}
    if "possible_type" in rules:
        # Imported here, because only a dataset with the columns of the DHC needs it.
        from assets.cef.dhc import register_codes, register_impossible

        names |= {**register_codes(session), **register_impossible(session), "carried": ["MAFID"]}
    (offenders,) = session.arrow(structure.statement, **names).to_pylist()
    return {rule: offenders[name] for name, rule in rules.items()}


def structure_findings(offenders: Mapping[Rule, int]) -> list[Finding]:
    return [Finding(rule.table, rule.offence, rule.column, rows) for rule, rows in offenders.items() if rows]


def crossing_findings(session: Session, declaration: DatasetDeclaration) -> list[Finding]:
    """The findings about contradictions between records of different partitions."""
    findings = []
    for table, records in zip(declaration.cef_tables(), declaration.tables.values(), strict=True):
        findings += key_findings(session, table, records)
    if rule := _select_rules(declaration).get(_DIVIDED_BLOCK):
        (units,) = session.row(_OF_DIVIDED_BLOCKS, units=declaration.cef_tables()[0])
        findings += structure_findings({rule: units})
    return findings


def form_findings(session: Session, declaration: DatasetDeclaration) -> list[Finding]:
    """The findings about stored tables whose columns or types are not as declared."""
    return [
        Finding(table.name, "columns or types are not as declared")
        for table, records in zip(declaration.cef_tables(), declaration.tables.values(), strict=True)
        if list(session.columns(table).items())
        != [(name, column.type.stored) for name, column in records.stored.items()]
    ]


def cef_findings(session: Session, declaration: DatasetDeclaration) -> list[Finding]:
    """The findings about the stored CEF: its columns, types, nulls, keys, and the units of persons."""
    findings = form_findings(session, declaration)
    malformed = {finding.place for finding in findings}
    for table, records in zip(declaration.cef_tables(), declaration.tables.values(), strict=True):
        if table.name in malformed:
            continue
        required = [name for name, column in records.stored.items() if not column.nullable]
        nulls = session.row("cef/count_nulls", columns=required, table=table) if required else ()
        findings += [Finding(table.name, NULL, name, rows) for name, rows in zip(required, nulls, strict=True) if rows]
        findings += key_findings(session, table, records)
    # Persons can be matched with their units only if both tables have the declared columns.
    if not malformed:
        findings += unit_findings(session, declaration) + copy_findings(session, declaration)
    return findings


def cef_problems(session: Session, declaration: DatasetDeclaration) -> list[str]:
    """The problems of the stored CEF, in words and counts; empty if there are none."""
    return [str(finding) for finding in cef_findings(session, declaration)]
