"""From the source into the tables of the CEF, in one transaction.

The steps are: open, read, write, validate, and then commit or roll back. The rules are in `validation`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from assets.cef.notation import explain_ill_typed
from assets.cef.readers import Source, UnreadableError, name_in_source, open_geography, open_source, source_paths
from assets.cef.sketch import hash_headers, sketch_records
from assets.cef.validation import (
    NULL,
    REPEATED_KEY,
    Finding,
    SourceError,
    copy_findings,
    count_repeated_keys,
    describe_domain_rule,
    form_findings,
    key_findings,
    row_findings,
    structure_findings,
    structure_offenders,
    unit_findings,
)
from assets.release.columns import Column, ColumnType, RecordTable
from assets.release.contents import CefVersions, drop_surplus, hash_cef, hash_files
from assets.release.dataset import DROPPED, DatasetDeclaration
from assets.release.dialect import USUAL, Dialect
from assets.release.names import LONGEST_COLUMN
from assets.release.recodes import Bands, Coding, Merge
from resources.statements import SQL, Fragment, Table, Zone, render
from resources.warehouse import Session, WarehouseError

TOO_FINE = (
    "more than 4 digits after the decimal point, which a decimal column does not keep; declare rounded: true to round "
    "them, or type string with a pattern to keep them all"
)
"""The rule about decimals such as survey weights."""

CHANGED = "changed while it was read"

_WITH_COPIES = SQL(
    "cef/with_copies",
    "SELECT *{% for new, old in copies.items() %}, {{ old | id }} AS {{ new | id }}{% endfor %} FROM ({{ relation }})",
)
_DIFFERENT = SQL(
    "cef/different", "SELECT DISTINCT {{ columns | ids }} FROM {{ rows }} WHERE {{ key | id }} IS NOT NULL"
)


@dataclass(frozen=True)
class _ReadSource:
    """A source that has been read once.

    Attributes:
        findings: the findings about single values.
        missing: by column, the number of the source's values that are NULL in the CEF.
    """

    source: Source
    findings: Sequence[Finding]
    missing: Counter[str]

    def find(self, column: str, rule: str, rows: int) -> Finding:
        return Finding(self.source.label, rule, name_in_source(column, self.source.columns[column]), rows)


def ingest(
    session: Session,
    declaration: DatasetDeclaration,
    root: Path,
    version_key: bytes,
    files: Mapping[str, str] | None = None,
) -> CefVersions:
    """Replace the CEF of a dataset with the content of its source.

    Args:
        files: the versions of the source files before (`hash_files`), which they must still have afterwards.

    Returns:
        The versions of the new CEF, all of which was written by this call.

    Raises:
        SourceError: with all rules that the source violates; the tables stay as they were.
    """
    findings: list[Finding] = []
    sources: dict[str, list[_ReadSource]] = {}
    for name, records in declaration.files.items():
        openers = (open_source, open_geography) if records.geography_path else (open_source,)
        read = []
        for opener in openers:
            try:
                read.append(_read_through(session, opener(declaration, name, root)))
            except SourceError as error:
                findings += error.findings
        findings += [finding for source in read for finding in source.findings]
        if len(read) == len(openers):
            sources[name] = read
    addresses = dict(zip(declaration.tables, declaration.cef_tables(), strict=True))
    with session.transaction():
        drop_surplus(session, declaration)
        for name, records in declaration.files.items():
            if name in sources:
                try:
                    if declaration.rectangular is not None:
                        findings += _write_rectangular(session, declaration, records, sources[name][0])
                    else:
                        findings += _write(session, addresses[name], records, *sources[name])
                except WarehouseError:
                    # The file was readable a moment ago.
                    if changed := _find_changes(sources):
                        raise SourceError([*findings, *changed]) from None
                    raise
        if len(sources) == len(declaration.files):
            of_tables = _drop_unmatched(session, declaration) + copy_findings(session, declaration)
            findings += [_name_source(finding, sources[finding.place]) for finding in of_tables]
        if len(sources) == len(declaration.files) > 1:
            session.spread(declaration.cef_tables())
            of_tables = unit_findings(session, declaration)
            of_tables += structure_findings(structure_offenders(session, declaration))
            findings += [_name_source(finding, sources[finding.place]) for finding in of_tables]
        # Geography files and files of blocks describe places, which can be the same for files about different people.
        of_people = [read[0].source for name, read in sources.items() if not (read[0].source.parts and name == "units")]
        findings += _find_changes(sources)
        if not findings:
            try:
                sketch = sketch_records(session, of_people, version_key)
                headers = hash_headers(session, of_people, version_key) if declaration.is_part else ""
            except SourceError as error:
                findings += _find_changes(sources) or error.findings
        if files is not None and hash_files(declaration, root, version_key) != files:
            findings += [Finding(path.name, CHANGED) for path in source_paths(declaration, root)]
        if findings:
            raise SourceError(findings)
        versions = hash_cef(session, declaration, version_key) if session.shared else None
    # For a rectangular file, not every rule was evaluated: some follow from how its units are made.
    asked = declaration.rectangular is None and (len(declaration.files) > 1 or declaration.structure is None)
    is_checked = asked and not form_findings(session, declaration)
    # DuckDB reads the committed rows of a file on all cores, but the rows of a running transaction on one.
    versions = versions or hash_cef(session, declaration, version_key)
    return replace(versions, sketch=sketch, is_checked=is_checked, headers=headers)


def _drop_unmatched(session: Session, declaration: DatasetDeclaration) -> list[Finding]:
    """Leave out the records without a unit, if that is declared, and store their numbers. A table must keep some."""
    dropped = Table(Zone.CONFIDENTIAL, declaration.name, DROPPED)
    session.drop(dropped)
    if not declaration.drops_unmatched:
        return []
    units, *others = declaration.cef_tables()
    before = [session.count(table) for table in others]
    for table, records in zip(others, list(declaration.tables.values())[1:], strict=True):
        session.run("cef/drop_unmatched", records=table, unit=records.unit, units=units, key=declaration.units.key)
    left = [session.count(table) for table in others]
    rows = {"table_name": [table.name for table in others], "records": np.subtract(before, left)}
    session.create(dropped, "warehouse/all", source=session.register("unmatched", pa.table(rows)))
    return [
        Finding(table.name, f"no record is in one of the {declaration.record_name}s")
        for table, number in zip(others, left, strict=True)
        if not number
    ]


def _drop_recode(column: Column) -> Column:
    return Column.model_construct(type=column.type, rounded=column.rounded, null=column.null, zero=column.zero)


def _find_changes(sources: Mapping[str, Sequence[_ReadSource]]) -> list[Finding]:
    return [
        Finding(read.source.label, CHANGED) for of_table in sources.values() for read in of_table if read.source.changed
    ]


def describe_conversion(
    columns: Mapping[str, Column], dialect: Dialect | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """How each column is read and recoded, as placeholders of `cef/converted.sql`, and the values bound there."""
    read: dict[str, Any] = {}
    bound: dict[str, Any] = {}
    for number, (name, column) in enumerate(columns.items()):
        kind = "rounded" if column.rounded else column.type.value
        read[name] = {"type": kind, "stored": Fragment(column.type.stored), "recode": "", "bands": 0}
        read[name] |= {"written": list(column.written)}
        bound |= {
            f"{field}_{number}": [(dialect or USUAL).as_usual(code, column.type) for code in codes]
            for field, codes in column.written.items()
        }
        match column.recode:
            case Bands(labels, ends):
                read[name] |= {"recode": "bands", "bands": len(labels)}
                bound[f"labels_{number}"] = list(labels)
                bound[f"starts_{number}"], bound[f"ends_{number}"] = (
                    [None if end is None else str(end) for end in side] for side in zip(*ends, strict=True)
                )
            case Merge() as merge:
                read[name] |= {"recode": "merge"}
                bound[f"codes_{number}"] = [str(code) for code in merge.category_of]
                bound[f"labels_{number}"] = list(merge.category_of.values())
                bound[f"else_{number}"] = merge.everything_else
            case Coding(bottom, top):
                read[name] |= {"recode": "coding"}
                bound[f"bottom_{number}"], bound[f"top_{number}"] = (
                    None if end is None else str(end) for end in (bottom, top)
                )
    return read, bound


def describe_ill_typed(kind: ColumnType) -> str:
    """The rule about values that are not of a type, for an unknown reason."""
    return f"not of type {kind.value}{', which is true or false' if kind is ColumnType.BOOLEAN else ''}"


def _read_through(session: Session, source: Source) -> _ReadSource:
    """Read the whole source once, and count the values of each column that are not of its type.

    Generated records are skipped.
    """
    if source.typed:
        return _ReadSource(source, (), Counter())
    try:
        source.stage(session)
        columns, bound = describe_conversion(source.columns, source.dialect)
        records, *counts = session.row(
            "cef/count_ill_typed", {**source.values, **bound}, relation=source.relation, columns=columns
        )
    except WarehouseError as error:
        if "OutOfMemory" in str(error):
            raise
        raise UnreadableError(source.label, source.kind) from None
    if source.records not in (None, records):
        raise UnreadableError(source.label, source.kind)
    if not records:
        raise SourceError([Finding(source.label, "contains no records")])
    findings, missing = _read_parts(session, source) if source.parts else ([], Counter())
    read = _ReadSource(source, findings, missing)
    for (name, column), ill_typed, too_fine, unplaced in zip(
        source.columns.items(), counts[::3], counts[1::3], counts[2::3], strict=True
    ):
        places = "bands" if column.bands is not None else "categories"
        explained = explain_ill_typed(session, source, name, ill_typed - too_fine)
        findings += [
            read.find(name, rule, rows)
            for rule, rows in (
                (TOO_FINE, too_fine),
                *explained.items(),
                (describe_ill_typed(column.type), ill_typed - too_fine - sum(explained.values())),
                (f"value in none of the {places} of {name}", unplaced),
            )
            if rows
        ]
        missing[name] += ill_typed + unplaced
    return read


def _read_parts(session: Session, source: Source) -> tuple[list[Finding], Counter[str]]:
    """The findings about the parts of a composite column, and the number of rows in which it cannot be made."""
    unmade, *counts = session.row(
        "cef/count_malformed_parts", source.values, relation=source.relation, made=source.made, parts=list(source.parts)
    )
    findings = [
        Finding(source.label, rule, name_in_source(name, column), rows)
        for (name, column), nulls, outside in zip(source.parts.items(), counts[::2], counts[1::2], strict=True)
        for rule, rows in ((NULL, nulls), (describe_domain_rule(column), outside))
        if rows
    ]
    return findings, Counter({source.made: unmade})


def _write_rectangular(
    session: Session, declaration: DatasetDeclaration, records: RecordTable, read: _ReadSource
) -> list[Finding]:
    """Write the persons of a rectangular file, and one unit for each household, whose rows must agree in its columns.

    Values are compared before recodes, which could give different values the same name.
    """
    assert declaration.persons is not None
    units, persons = declaration.cef_tables()
    columns = {name: records.columns[name] for name in records.stored}
    # No declared column has as long a name.
    again = {f"{name:{LONGEST_COLUMN + 1}}": name for name in declaration.units.variables if columns[name].recode}
    compared = {name: name for name in declaration.units.variables} | {name: new for new, name in again.items()}
    columns |= {new: _drop_recode(columns[name]) for new, name in again.items()}
    read_as, bound = describe_conversion(columns, read.source.dialect)
    values, relation = {**read.source.values, **bound}, read.source.relation
    if again:
        relation = Fragment(render(_WITH_COPIES, {"relation": relation, "copies": again}))
    rows = session.stage("rectangular", "cef/converted", values, relation=relation, columns=read_as)
    findings = row_findings(session, rows, records, read.source.label, read.missing)
    session.create(persons, "cef/records", table=rows, columns=list(declaration.persons.stored))
    key = str(declaration.units.key)
    distinct = list(dict.fromkeys([*declaration.units.stored, *compared.values()]))
    households = session.stage("households", _DIFFERENT, columns=distinct, rows=rows, key=key)
    session.create(units, "cef/records", table=households, columns=list(declaration.units.stored))
    of_units = key_findings(session, units, declaration.units)
    findings += key_findings(session, persons, declaration.persons)
    findings += [finding for finding in of_units if finding.rule != REPEATED_KEY]
    if any(finding.rule == REPEATED_KEY for finding in of_units):
        differing = session.row("cef/differing_columns", table=households, key=key, columns=list(compared.values()))
        findings += [
            Finding(
                read.source.label, f"differs within {number:,} {'household' if number == 1 else 'households'}", name
            )
            for name, number in zip(compared, differing, strict=True)
            if number
        ]
    return [_name_source(finding, [read]) for finding in findings]


def _write(
    session: Session, table: Table, records: RecordTable, main: _ReadSource, geography: _ReadSource | None = None
) -> list[Finding]:
    source, explained = main.source, main.missing.copy()
    findings: list[Finding] = []
    columns, bound = describe_conversion(
        {name: records.columns[name] for name in records.stored if name in source.columns}, source.dialect
    )
    values = {**source.values, **bound}
    names: dict[str, Any] = {"relation": source.relation, "columns": columns}
    if source.typed:
        session.create(table, "cef/typed", values, **names)
    elif geography is None:
        session.create(table, "cef/converted", values, **names)
    else:
        key = str(records.key)
        places_columns, places_bound = describe_conversion(geography.source.columns, geography.source.dialect)
        places = session.stage(
            "places",
            "cef/converted",
            {**geography.source.values, **places_bound},
            relation=geography.source.relation,
            columns=places_columns,
        )
        repeated = count_repeated_keys(session, places, key)
        names |= {"places": places, "repeated": repeated, "key": key}
        names |= {"stored": list(records.stored), "located": list(records.places)}
        session.create(table, "cef/converted_with_places", values, **names)
        disagreements, placeless = _compare(session, table, key, main, geography, places)
        findings = [geography.find(key, REPEATED_KEY, repeated)] if repeated else []
        findings += disagreements
        explained += Counter({name: geography.missing[name] + placeless for name in records.places})
    of_table = row_findings(session, table, records, table.name, explained) + key_findings(session, table, records)
    read = [main] if geography is None else [main, geography]
    return findings + [_name_source(finding, read) for finding in of_table]


def _compare(
    session: Session, table: Table, key: str, main: _ReadSource, geography: _ReadSource, places: Fragment
) -> tuple[list[Finding], int]:
    """The findings about records and their places, and the number of records without a place."""
    shared = [name for name in geography.source.columns if name in main.source.columns and name != key]
    unplaced, unnamed, unfilled, keyless, *differing = session.row(
        "cef/compare_places", records=table, places=places, key=key, shared=shared
    )
    findings = [
        main.find(key, f"record without one in {geography.source.label}", unplaced),
        geography.find(key, f"record without one in {main.source.label}", unfilled),
        geography.find(key, NULL, keyless - geography.missing[key]),
        *(
            geography.find(name, f"differs from {main.source.label}", rows)
            for name, rows in zip(shared, differing, strict=True)
        ),
    ]
    return [finding for finding in findings if finding.rows], unplaced + unnamed


def _name_source(finding: Finding, sources: Sequence[_ReadSource]) -> Finding:
    for read in sources:
        if column := read.source.columns.get(finding.column):
            return replace(finding, place=read.source.label, column=name_in_source(finding.column, column))
    return replace(finding, place=sources[0].source.label)
