"""Extracts of IPUMS: a DDI codebook beside a file of fixed-width text, plain or compressed by gzip.

This module reads the codebook through `ipumspy`, checks the form of the text byte by byte, and gives the relation of
its variables as texts. `readers` opens it as a source. An extract in CSV, in Parquet, or in the format of a statistical
package is read by the reader of that format; its codebook only describes the columns (`orchestration.proposal`).
"""

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from assets.cef.validation import EMPTY, Finding, SourceError
from resources.statements import Fragment, quote_literal, render
from resources.warehouse import Session

_BLOCK_BYTES = 1 << 23
HOUSEHOLD = "household"
"""The name of the field that identifies the household in a hierarchical extract."""

_GZIP = b"\x1f\x8b"
_SPECIAL = re.compile(r"^\s*(-?[0-9]+(?:\.[0-9]+)?)\s*=\s*(\S.*?)\s*$", re.MULTILINE)
"""A code with its meaning in the instructions of a codebook."""

_OF_TEXTS = ("character", "string")

NO_CODEBOOK = (
    "not a readable DDI codebook of an IPUMS extract. Of other fixed-width text, write the fields into a CSV file"
)
_TABLES = {"H": "Household Record", "P": "Person Record"}
"""The types of records that become tables, if they have no label, and their labels."""


@dataclass(frozen=True)
class Variable:
    """The description of a column by a codebook, or by the file of a statistical package.

    Attributes:
        codes: the label of each code, as written in the file.
        missing: the codes that the file declares as no value, and ranges of them, least and greatest.
        of_units: whether the column describes the unit instead of the person; None if unknown.
        filled_up: whether it is padded with zeros if it is a number and no code.
    """

    label: str = ""
    codes: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[tuple[str, str]] = ()
    of_units: bool | None = None
    filled_up: bool = False


@dataclass(frozen=True)
class Field(Variable):
    """A variable of fixed-width text.

    Attributes:
        start: the number of bytes before it in a line.
        width: its bytes.
        decimals: the digits after the decimal point, which is not written.
        number: whether it is a number instead of a text.
        record_types: the types of records that have it; empty if there is only one type.
    """

    start: int = 0
    width: int = 0
    decimals: int = 0
    number: bool = True
    record_types: frozenset[str] = frozenset()

    @property
    def end(self) -> int:
        return self.start + self.width


@dataclass(frozen=True)
class Codebook:
    """The description of an extract by a DDI codebook.

    Attributes:
        data_file: the name of the data file, without a suffix for its compression.
        charset: its encoding, in lower case.
        type_field: the name of the field with the type of a record; empty if all records have one type.
        key: the name of the field that identifies the unit.
        tables: the types of records of households and of persons, if there are any.
    """

    name: str
    data_file: str
    charset: str
    fields: Mapping[str, Field]
    type_field: str = ""
    key: str = ""
    tables: Sequence[str] = ()

    @property
    def shared(self) -> Sequence[str]:
        """The fields of all types of records, in the order of a line; none if all records have one type."""
        types = frozenset(self.record_types) if self.type_field else None
        names = [name for name, field in self.fields.items() if field.record_types == types]
        return sorted(names, key=lambda name: self.fields[name].start)

    @property
    def record_types(self) -> Sequence[str]:
        """The types that the codebook lists, each with variables of its own; one empty text if there is only one."""
        return sorted(frozenset().union(*(field.record_types for field in self.fields.values()))) or [""]


def read_codebook(path: Path) -> Codebook:
    """Read a DDI codebook of IPUMS. Raises SourceError if it is missing, not a codebook, or contradictory."""
    from ipumspy.ddi import Codebook as Ddi

    if not path.is_file():
        raise SourceError([Finding(path.name, "there is no such file")])
    if not path.stat().st_size:
        raise SourceError([Finding(path.name, EMPTY)])
    try:
        root = ElementTree.parse(path).getroot()
        namespace = (re.match(r"\{(.*)\}", root.tag) or ["", ""])[1]
        ddi = Ddi.read(root, namespace)
    except (ElementTree.ParseError, OSError, AttributeError, KeyError, ValueError, NotImplementedError):
        raise SourceError([Finding(path.name, NO_CODEBOOK)]) from None
    described = ddi.file_description
    several = described.structure == "hierarchical"
    fields: dict[str, Field] = {}
    findings = []
    # ipumspy drops the leading zeros of codes, all but the last code with the same label, widths, and instructions.
    for variable, element in zip(ddi.data_description, root.iterfind(".//{*}dataDscr/{*}var"), strict=True):
        location = element.find("{*}location")
        width = int(location.attrib["width"])  # type: ignore[union-attr]
        if variable.name in fields:
            findings.append(Finding(path.name, "more than one variable of that name", variable.name))
        if variable.end - variable.start != width or width < 1 or variable.start < 0:
            findings.append(Finding(path.name, "its width differs from its positions", variable.name))
        codes = {
            str(category.findtext("{*}catValu")).strip(): " ".join(str(category.findtext("{*}labl")).split())
            for category in element.iterfind("{*}catgry")
        }
        instructions = dict(_SPECIAL.findall(element.findtext("{*}codInstr") or ""))
        concept = variable.concept or ""
        fields[variable.name] = Field(
            label=" ".join((variable.label or "").split()),
            codes={**instructions, **codes},
            of_units=concept.upper().endswith("HOUSEHOLD") if " -- " in concept else None,
            filled_up=variable.vartype not in _OF_TEXTS and not concept.startswith("Geographic"),
            start=variable.start,
            width=width,
            decimals=variable.shift or 0,
            number=variable.vartype not in _OF_TEXTS,
            record_types=frozenset(variable.rectype.split()) if several else frozenset(),
        )
    kinds = {group.get("rectype", ""): group.findtext("{*}labl", "") for group in root.iterfind(".//{*}recGrp")}
    book = Codebook(
        path.name,
        described.filename,
        described.encoding,
        fields,
        described.rectype_idvar,
        described.rectype_keyvar,
        [
            kind
            for of in _TABLES.items()
            for kind, label in kinds.items()
            if label == of[1] or (kind, label) == (of[0], "")
        ],
    )
    findings += _find_overlaps(book)
    if not fields:
        findings.append(Finding(path.name, "describes no variables"))
    if several and (
        book.type_field not in fields or any(len(kind) > fields[book.type_field].width for kind in book.record_types)
    ):
        findings.append(Finding(path.name, "names no variable that has the types of its records"))
    if findings:
        raise SourceError(findings)
    return book


def _select(book: Codebook, record_type: str) -> dict[str, Field]:
    """The fields of one type of records, by name; all fields if there is only one type."""
    return {name: field for name, field in book.fields.items() if not record_type or record_type in field.record_types}


def _find_overlaps(book: Codebook) -> list[Finding]:
    findings = {}
    for record_type in book.record_types:
        ordered = sorted(_select(book, record_type).items(), key=lambda item: item[1].start)
        for (_, before), (name, after) in pairwise(ordered):
            # A few variables have two names.
            if after.start < before.end and (after.start, after.end) != (before.start, before.end):
                findings[name] = Finding(book.name, "its positions are also another variable's", name)
    return list(findings.values())


@dataclass(frozen=True)
class LinesOfText:
    """A file of fixed-width text, or its records of one type."""

    path: Path
    book: Codebook
    record_type: str

    unfit: ClassVar[Mapping[str, str]] = {}

    @property
    def variables(self) -> dict[str, Field]:
        """The fields of the records. The fields common to all types are also joined into one field, which identifies
        the household of a hierarchical extract, because a serial number is unique only within its sample and year."""
        fields = _select(self.book, self.record_type)
        shared = [name for name in self.book.shared if name != self.book.type_field]
        if not shared:
            return fields
        first, last = fields[shared[0]], fields[shared[-1]]
        if self.book.key in shared and last.end - first.start == sum(fields[name].width for name in shared):
            label = f"Household ({', '.join(shared)})"
            household = Field(label, start=first.start, width=last.end - first.start, number=False)
            return {HOUSEHOLD: household, **fields}
        return fields

    def relate(self, columns: Mapping[str, str]) -> Fragment:
        """The relation of variables as texts, by the names that it gives them."""
        names: dict[str, Any] = {
            "columns": {name: self.variables[source] for name, source in columns.items()},
            "compression": quote_literal("gzip" if _is_compressed(self.path) else "none"),
            "of_type": self.book.fields.get(self.book.type_field),
            "record_type": quote_literal(self.record_type),
        }
        return Fragment(render("cef/read_lines", names))

    def count_records(self) -> int:
        """The number of records. Raises SourceError if a line of the file is not as the codebook describes it."""
        return _count_records(self.path, self.book)[self.record_type]

    def stage(self, session: Session) -> None:
        """DuckDB reads such a file itself."""


def open_lines(path: Path, codebook: Path, record_type: str | None) -> LinesOfText:
    """Raises SourceError as `read_codebook`, or if the record type is not listed there."""
    book = read_codebook(codebook)
    if (record_type or "") not in book.record_types:
        rule = f"has records of several types: declare record_type as one of {', '.join(book.record_types)}"
        raise SourceError(
            [Finding(book.name, rule if book.type_field else "has records of one type: drop record_type")]
        )
    return LinesOfText(path, book, record_type or "")


def _count_records(path: Path, book: Codebook) -> Counter[str]:
    """The records by type. Raises SourceError if a line is not as the codebook describes it."""
    widths = {kind: max(field.end for field in _select(book, kind).values()) for kind in book.record_types}
    longest = max(widths.values())
    of_type = book.fields[book.type_field] if book.type_field else None
    of_bytes = book.charset not in ("utf-8", "utf8")
    records: Counter[str] = Counter()
    offenders: Counter[str] = Counter()
    returns: bool | None = None
    for lines in _read_lines(path):
        ends = np.flatnonzero(lines == ord("\n"))
        starts = np.concatenate([[0], ends[:-1] + 1])
        with_return = (ends > starts) & (lines[ends - 1] == ord("\r"))
        returns = bool(with_return[0]) if returns is None else returns
        offenders["line end that differs from the first one's"] += int((with_return != returns).sum())
        lengths = ends - starts - with_return
        control = lines < ord(" ")
        control[ends] = False
        control[ends[with_return] - 1] = False
        offenders["control character"] += _count_lines(control, ends)
        if lines.max() > 0x7E:
            # In UTF-8, a position could count bytes or letters.
            foreign = (lines > 0x7E) & (lines < 0xA0) if of_bytes else lines > 0x7E
            rule = (
                "ISO-8859-1, which fixed-width text is read in"
                if of_bytes
                else "ASCII, which fixed-width text in UTF-8 needs"
            )
            offenders[f"byte that is not a letter of {rule}"] += _count_lines(foreign, ends)
        if of_type is None:
            records[""] += len(ends)
            offenders[f"line of another length than the {longest:,} bytes that {book.name} gives"] += int(
                (lengths != longest).sum()
            )
            continue
        known = np.zeros(len(ends), dtype=bool)
        whole = np.flatnonzero(lengths >= of_type.end)
        letters = lines[starts[whole, None] + np.arange(of_type.start, of_type.end)]
        for kind, width in widths.items():
            is_kind = np.zeros(len(ends), dtype=bool)
            written = np.frombuffer(kind.ljust(of_type.width).encode("latin-1"), dtype=np.uint8)
            is_kind[whole] = (letters == written).all(axis=1)
            known |= is_kind
            records[kind] += int(is_kind.sum())
            rule = f"record of type {kind} of another length than the {width:,} bytes that {book.name} gives"
            offenders[rule] += int((is_kind & (lengths != width) & (lengths != longest)).sum())
        offenders[f"record of a type that {book.name} does not list"] += int((~known).sum())
    if findings := [Finding(path.name, rule, "", rows) for rule, rows in offenders.items() if rows]:
        raise SourceError(findings)
    return records


def _count_lines(marked: NDArray[np.bool_], ends: NDArray[np.intp]) -> int:
    return len(np.unique(np.searchsorted(ends, np.flatnonzero(marked))))


def _read_lines(path: Path) -> Iterator[NDArray[np.uint8]]:
    """The bytes of a file, decompressed, in pieces of whole lines, each of which ends in a line feed."""
    rest, end = b"", b"\n"
    with gzip.open(path) if _is_compressed(path) else path.open("rb") as file:
        while block := _read_block(file, path):
            whole, newline, rest_of_block = block.rpartition(b"\n")
            if newline:
                yield np.frombuffer(rest + whole + newline, dtype=np.uint8)
                end = b"\r\n" if whole.endswith(b"\r") else newline
                rest = rest_of_block
            else:
                rest += block
            if len(rest) > _BLOCK_BYTES:
                raise SourceError([Finding(path.name, "not text in lines")])
    if rest:
        # The last line may end with the file.
        yield np.frombuffer(rest + end, dtype=np.uint8)


def _is_compressed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == _GZIP


def _read_block(file: Any, path: Path) -> bytes:
    try:
        return bytes(file.read(_BLOCK_BYTES))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise SourceError([Finding(path.name, "compressed data that end early or are damaged")]) from None
