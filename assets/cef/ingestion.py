"""From the source into the tables of the CEF, in one transaction.

The steps are: open, read, write, validate, and then commit or roll back. The rules are in `validation`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assets.cef.findings import NULL, Finding, SourceError, outside_its_domain
from assets.cef.readers import Source, in_source, open_geography, open_source, source_paths, unreadable
from assets.cef.validation import (
    REPEATED_KEY,
    key_findings,
    row_findings,
    structure_findings,
    structure_offenders,
    unit_findings,
)
from assets.release.columns import Column, RecordTable
from assets.release.contents import CefVersions, hash_cef, hash_files
from assets.release.dataset import CEF_TABLES, DatasetDeclaration
from assets.release.recodes import Bands, Coding, Merge
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Session, WarehouseError

TOO_FINE = (
    "more than 4 digits after the decimal point, which a decimal column does not keep; declare type string with a "
    "pattern to keep them all, or leave the column out if no release needs it"
)
"""The rule about decimals such as survey weights."""

CHANGED = "changed while it was read"


@dataclass(frozen=True)
class _Opened:
    """A source that has been read once.

    Attributes:
        ill_typed: by column, the number of values that are not of its type.
        too_fine: by column, the number of those that are decimals with too many digits after the point.
        unplaced: by recoded column, the number of values that are in none of its bands or categories.
        of_parts: the findings about the columns that another one is made of.
        unmade: for the column that is made of them, the number of rows in which it cannot be made.
    """

    source: Source
    ill_typed: Counter[str]
    too_fine: Counter[str]
    unplaced: Counter[str]
    of_parts: tuple[Finding, ...]
    unmade: Counter[str]

    @property
    def missed(self) -> Counter[str]:
        """By column, the number of values that are NULL in the CEF because of what the source has instead."""
        return self.ill_typed + self.unplaced + self.unmade

    def finding(self, column: str, rule: str, rows: int) -> Finding:
        return Finding(self.source.label, rule, in_source(column, self.source.columns[column]), rows)

    def findings(self) -> Iterator[Finding]:
        yield from self.of_parts
        for name, column in self.source.columns.items():
            if rows := self.too_fine[name]:
                yield self.finding(name, TOO_FINE, rows)
            if rows := self.ill_typed[name] - self.too_fine[name]:
                yield self.finding(name, f"not of type {column.type.value}", rows)
            if rows := self.unplaced[name]:
                places = "bands" if column.bands is not None else "categories"
                yield self.finding(name, f"value in none of the {places} of {name}", rows)


def ingest(
    session: Session,
    declaration: DatasetDeclaration,
    root: Path,
    version_key: bytes,
    files: Mapping[str, str] | None = None,
) -> CefVersions:
    """Replace the CEF of a dataset with the content of its source.

    Args:
        files: the versions of the source files before (`hash_files`), which they must have afterwards too.

    Returns:
        The versions of the new CEF, of which nobody else can have written any part.

    Raises:
        SourceError: if the source violates any rules, with all of them; the tables stay as they were.
    """
    findings: list[Finding] = []
    sources: dict[str, list[_Opened]] = {}
    for name, records in declaration.tables.items():
        openers = (open_source, open_geography) if records.geography_path else (open_source,)
        opened = []
        for opener in openers:
            try:
                opened.append(_read_through(session, opener(declaration, name, root)))
            except SourceError as error:
                findings += error.findings
        findings += [finding for one in opened for finding in one.findings()]
        if len(opened) == len(openers):
            sources[name] = opened
    with session.transaction():
        for table, (name, records) in zip(declaration.cef_tables(), declaration.tables.items(), strict=True):
            if name in sources:
                try:
                    findings += _write(session, table, records, *sources[name])
                except WarehouseError:
                    # The file was readable a moment ago.
                    if changed := _changed(sources):
                        raise SourceError([*findings, *changed]) from None
                    raise
        if len(sources) == len(declaration.tables) > 1:
            judged = [
                *unit_findings(session, declaration),
                *structure_findings(structure_offenders(session, declaration)),
            ]
            findings += [_at_source(finding, sources[finding.place]) for finding in judged]
        findings += _changed(sources)
        if files is not None and hash_files(declaration, root, version_key) != files:
            findings += [Finding(path.name, CHANGED) for path in source_paths(declaration, root)]
        if findings:
            raise SourceError(findings)
        for name in CEF_TABLES:
            # An earlier declaration of the dataset may have had it.
            if name not in declaration.tables:
                session.run("warehouse/drop_table", table=Table(Zone.CONFIDENTIAL, declaration.name, name))
        versions = hash_cef(session, declaration, version_key) if session.shared else None
    # Of a file, DuckDB reads committed rows on all cores, and those of a running transaction on one.
    return versions or hash_cef(session, declaration, version_key)


def _changed(sources: Mapping[str, list[_Opened]]) -> list[Finding]:
    return [Finding(one.source.label, CHANGED) for opened in sources.values() for one in opened if one.source.changed]


def conversion(columns: Mapping[str, Column]) -> tuple[dict[str, Any], dict[str, Any]]:
    """How each column is read and recoded, as placeholders of `cef/converted.sql`, and the values bound there."""
    read: dict[str, Any] = {}
    bound: dict[str, Any] = {}
    for number, (name, column) in enumerate(columns.items()):
        read[name] = {"type": column.type.value, "stored": Fragment(column.type.stored), "recode": "", "bands": 0}
        match column.recode:
            case Bands(labels, ends):
                read[name] |= {"recode": "bands", "bands": len(labels)}
                bound[f"labels_{number}"] = list(labels)
                bound[f"starts_{number}"], bound[f"ends_{number}"] = (
                    [None if end is None else str(end) for end in one] for one in zip(*ends, strict=True)
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


def _read_through(session: Session, source: Source) -> _Opened:
    """Read the whole source once, and count the values of each column that are not of its type.

    Records that are generated are not generated just to be counted.
    """
    if source.generated and not any(column.recode for column in source.columns.values()):
        return _Opened(source, Counter(), Counter(), Counter(), (), Counter())
    try:
        columns, bound = conversion(source.columns)
        records_in_source, *counts = session.row(
            "cef/count_ill_typed", {**source.values, **bound}, relation=source.relation, columns=columns
        )
    except WarehouseError as error:
        if "OutOfMemory" in str(error):
            raise
        raise SourceError([unreadable(source.label, source.kind)]) from None
    if source.records not in (None, records_in_source):
        raise SourceError([unreadable(source.label, source.kind)])
    if not records_in_source:
        raise SourceError([Finding(source.label, "contains no records")])
    ill_typed, too_fine, unplaced = (
        Counter(dict(zip(source.columns, counts[first::3], strict=True))) for first in range(3)
    )
    return _Opened(source, ill_typed, too_fine, unplaced, *_parts(session, source))


def _parts(session: Session, source: Source) -> tuple[tuple[Finding, ...], Counter[str]]:
    if source.made is None:
        return (), Counter()
    unmade, *counts = session.row(
        "cef/count_malformed_parts",
        source.values,
        relation=source.relation,
        made=source.made.name,
        parts=list(source.made.parts),
    )
    judged = [
        Finding(source.label, rule, name, rows)
        for (name, column), nulls, outside in zip(source.made.parts.items(), counts[::2], counts[1::2], strict=True)
        for rule, rows in ((NULL, nulls), (outside_its_domain(column), outside))
        if rows
    ]
    return tuple(judged), Counter({source.made.name: unmade})


def _write(
    session: Session, table: Table, records: RecordTable, main: _Opened, geography: _Opened | None = None
) -> list[Finding]:
    # The NULLs in the table that another finding already explains.
    explained = main.missed
    findings: list[Finding] = []
    source = main.source
    columns, bound = conversion({name: records.columns[name] for name in records.stored if name in source.columns})
    values = {**source.values, **bound}
    if geography is None:
        session.create(table, "cef/converted", values, relation=source.relation, columns=columns)
    else:
        places_columns, places_bound = conversion(geography.source.columns)
        places = session.stage(
            "places",
            "cef/converted",
            {**geography.source.values, **places_bound},
            relation=geography.source.relation,
            columns=places_columns,
        )
        (repeated,) = session.row("cef/count_repeated_keys", key=records.key, table=places)
        session.create(
            table,
            "cef/converted_with_places",
            values,
            relation=source.relation,
            columns=columns,
            places=places,
            repeated=repeated,
            key=records.key,
            stored=list(records.stored),
            located=list(records.places),
        )
        if repeated:
            findings.append(geography.finding(str(records.key), REPEATED_KEY, repeated))
        disagreements, placeless = _compare(session, table, str(records.key), main, geography, places)
        findings += disagreements
        explained += Counter({name: geography.missed[name] + placeless for name in records.places})
    judged = [
        *row_findings(session, table, records, table.name, explained),
        *key_findings(session, table, records, table.name),
    ]
    opened = [main] if geography is None else [main, geography]
    return findings + [_at_source(finding, opened) for finding in judged]


def _compare(
    session: Session, table: Table, key: str, main: _Opened, geography: _Opened, places: Fragment
) -> tuple[list[Finding], int]:
    shared = [name for name in geography.source.columns if name in main.source.columns and name != key]
    unplaced, unnamed, unfilled, keyless, *differing = session.row(
        "cef/compare_places", records=table, places=places, key=key, shared=shared
    )
    found = [
        main.finding(key, f"record without one in {geography.source.label}", unplaced),
        geography.finding(key, f"record without one in {main.source.label}", unfilled),
        geography.finding(key, NULL, keyless - geography.ill_typed[key]),
        *(
            geography.finding(name, f"differs from {main.source.label}", rows)
            for name, rows in zip(shared, differing, strict=True)
        ),
    ]
    return [finding for finding in found if finding.rows], unplaced + unnamed


def _at_source(finding: Finding, opened: list[_Opened]) -> Finding:
    for one in opened:
        if finding.column in one.source.columns:
            return replace(
                finding, place=one.source.label, column=in_source(finding.column, one.source.columns[finding.column])
            )
    return replace(finding, place=opened[0].source.label)
