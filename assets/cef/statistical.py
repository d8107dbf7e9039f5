"""Files of Stata, SPSS and SAS, read through `pyreadstat`.

This module reads the descriptions of a file's variables, copies its records in pieces into a temporary table of a
session, which DuckDB encrypts if it spills to disk, and gives the relation of the variables as texts. `readers` opens
it as a source.

A number is read as the shortest decimal that stands for it, as the packages show it: no other number has the same text.
Beyond 2^53, whole numbers are no longer distinct. They are not written as whole numbers, so that no type accepts them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyreadstat
from numpy.typing import NDArray

from assets.cef.extracts import Variable
from assets.cef.validation import Finding, SourceError
from resources.statements import SQL, Fragment, quote, render
from resources.warehouse import Session

CELLS = 4_000_000
"""The approximate number of values of a file in memory at a time."""

FILES: Mapping[str, Callable[..., Any]] = {
    ".dta": pyreadstat.read_dta,
    ".sav": pyreadstat.read_sav,
    ".zsav": pyreadstat.read_sav,
    ".por": pyreadstat.read_por,
    ".sas7bdat": pyreadstat.read_sas7bdat,
    ".xpt": pyreadstat.read_xport,
}
_KEEPS_REASONS = (".dta", ".sav", ".zsav", ".sas7bdat")
"""The files whose special and declared missing values pyreadstat returns unchanged."""

_DATES = re.compile(
    r"%-?t?d.*|(A|E|S|J)?DATE[\d.]*|WEEKDAT[EX][\d.]*|(MMDDYY|DDMMYY|YYMMDD)[BCDNPS]?[\d.]*|(E8601|B8601|IS8601)DA[\d.]*"
)
_TIMES = re.compile(
    r"%-?t[^d].*|(D|DATE)?TIME[\d.]*|(TIME|DATE|MDY)AMPM[\d.]*|(HHMM|TOD|YMDHMS|MOYR|QYR|WKYR|DTDATE)[\d.]*"
    r"|(E8601|B8601|IS8601)(DT|DN|TM)[\d.]*"
)

NOT_WHOLE = "not a readable or not a whole file of its format"
FOREIGN = "letters that are not of the file's encoding"

_TRANSPORT = ".xpt"
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ_.", dtype=np.uint8)
"""The first bytes of missing values in a transport file, all of whose other bytes are 0."""

_APPEND = SQL("cef/append", "INSERT INTO {{ table }} FROM {{ rows }}")
_OF_SPSS = (".sav", ".zsav", ".por")


@dataclass(frozen=True)
class StatisticalFile:
    """A file's description of itself.

    Attributes:
        kinds: how each variable is stored: text, number, float (of four bytes), date, or a format of times.
        widths: the bytes of each variable in a record.
        records: the number of records; None if the file does not state it.
    """

    path: Path
    variables: Mapping[str, Variable]
    kinds: Mapping[str, str]
    widths: Mapping[str, int]
    records: int | None

    def count_records(self) -> int | None:
        return self.records

    @property
    def unfit(self) -> dict[str, str]:
        """The formats of the variables that are not read, with a remedy, by name."""
        return {name: kind for name, kind in self.kinds.items() if kind not in ("text", "number", "float", "date")}

    @property
    def _name(self) -> str:
        return f"records of {self.path}"

    @property
    def _table(self) -> Fragment:
        return quote(self._name)

    def relate(self, columns: Mapping[str, str]) -> Fragment:
        """The relation of the variables as texts, once `stage` has read the file; `columns` as in `Source`."""
        # SPSS counts seconds from the first day of the Gregorian calendar, Stata and SAS count days.
        epoch, units = ("1582-10-14", 86400) if self.path.suffix.lower() in _OF_SPSS else ("1960-01-01", 1)
        names: dict[str, Any] = {
            "columns": {
                name: {"source": source, "kind": self.kinds[source], "letter": _name_letter(source)}
                for name, source in columns.items()
            },
            "table": self._table,
            "epoch": Fragment(f"DATE '{epoch}'"),
            "units": units,
        }
        return Fragment(render("cef/read_staged", names))

    def stage(self, session: Session) -> None:
        """Read the records into a temporary table of a session. Raises SourceError if the file is not whole."""
        rows = 0
        for batch in self._read_batches():
            fresh = session.register("batch of records", batch)
            if rows:
                session.run(_APPEND, table=self._table, rows=fresh)
            else:
                session.stage(self._name, "warehouse/all", source=fresh)
            rows += batch.num_rows
        if self.records not in (None, rows):
            raise SourceError([Finding(self.path.name, NOT_WHOLE)])

    def _read_batches(self) -> Iterator[pa.Table]:
        size = max(1, CELLS // len(self.kinds))
        if self.path.suffix.lower() == _TRANSPORT:
            # pyreadstat would read all earlier records again for each piece, and drops the letters of missing values.
            records = map_records(self.path, sum(self.widths.values()))
            for first in range(0, max(1, len(records)), size):
                yield pa.table(dict(self._convert_records(records[first : first + size])))
            return
        offset = 0
        while True:
            values, _ = _read(self.path, row_offset=offset, row_limit=size)
            batch = pa.table(dict(self._convert(values)))
            yield batch
            offset += batch.num_rows
            if batch.num_rows < size:
                return

    def _convert_records(self, records: NDArray[np.uint8]) -> Iterator[tuple[str, pa.Array]]:
        """The columns of records of a transport file: texts, and numbers of base 16 (SAS, TS-140)."""
        start = 0
        for name, kind in self.kinds.items():
            width = self.widths[name]
            written = np.zeros((len(records), width if kind == "text" else 8), dtype=np.uint8)
            written[:, :width] = records[:, start : start + width]
            start += width
            if kind == "text":
                texts = pa.array(written.view(f"S{width}")[:, 0], pa.binary())
                try:
                    yield name, pc.utf8_rtrim(texts.cast(pa.string()), " ")
                except pa.ArrowInvalid:
                    raise SourceError([Finding(self.path.name, FOREIGN)]) from None
                continue
            bits, letters = written.view(">u8")[:, 0].astype(np.uint64), written[:, 0]
            exponents = (bits >> np.uint64(56) & np.uint64(127)).astype(np.int32)
            sizes = np.ldexp((bits & np.uint64(2**56 - 1)).astype(float), 4 * exponents - 312)
            absent = np.isin(letters, _LETTERS) & ~written[:, 1:].any(axis=1)
            yield name, pa.array(np.where(letters >> 7, -sizes, sizes), mask=absent)
            yield _name_letter(name), pa.array(letters, mask=~absent | (letters == ord(".")))

    def _convert(self, values: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, pa.Array]]:
        for name, kind in self.kinds.items():
            of_column = values[name]
            if kind == "text":
                yield name, pa.array(of_column, pa.string())
                continue
            letters = pa.nulls(len(of_column), pa.uint8())
            try:
                numbers = pa.array(of_column, pa.float64(), from_pandas=True)
            except pa.ArrowException:
                # The missing values .a to .z of Stata, and those of SAS, are letters among the numbers.
                letters = pa.array([ord(value) if isinstance(value, str) else None for value in of_column], pa.uint8())
                of_column = [None if isinstance(value, str) else value for value in of_column]
                numbers = pa.array(of_column, pa.float64(), from_pandas=True)
            yield name, numbers.cast(pa.float32()) if kind == "float" else numbers
            yield _name_letter(name), letters


def _name_letter(name: str) -> str:
    return f"missing value of {name}"


def _read(path: Path, **options: Any) -> tuple[Mapping[str, Sequence[Any]], Any]:
    suffix = path.suffix.lower()
    if suffix in _KEEPS_REASONS:
        options["user_missing"] = True
    try:
        values, metadata = FILES[suffix](str(path), output_format="dict", disable_datetime_conversion=True, **options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeError, OverflowError) as error:
        foreign = isinstance(error, UnicodeError) or "encoding" in str(error)
        rule = FOREIGN if foreign else NOT_WHOLE
        raise SourceError([Finding(path.name, rule)]) from None
    return values, metadata


def map_records(path: Path, width: int) -> NDArray[np.uint8]:
    """The records of a transport file, one per row. They begin after a line of 80 bytes and are padded with blanks to
    a full line.

    Version 8 states their number. In version 5, a file that was cut off between two records looks whole. Raises
    SourceError if the file is otherwise incomplete, or has further tables.
    """
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        start = content.find(b"HEADER RECORD*******OBS") + 80
        stated = content[start - 32 : start].split()
        others = content.find(b"HEADER RECORD*******MEMB", start) >= 0
        size = len(content) - start
        end = content[max(start, len(content) - width - 80) :].rstrip(b" ")
    if others:
        raise SourceError([Finding(path.name, "has more than one table; write each to a file of its own")])
    filled = size - min(size, width + 80) + len(end)
    rows = int(stated[0]) if len(stated) == 1 and int(stated[0]) else -(-filled // width)
    if not filled <= rows * width <= size < rows * width + 80 or size % 80:
        raise SourceError([Finding(path.name, NOT_WHOLE)])
    if not rows:
        return np.empty((0, width), dtype=np.uint8)
    return np.memmap(path, np.uint8, "r", offset=start, shape=(rows, width))


def open_file(path: Path) -> StatisticalFile:
    """Read the descriptions of a file's variables. Raises SourceError if it is unreadable or its suffix unknown."""
    if path.suffix.lower() not in FILES:
        raise SourceError([Finding(path.name, f"none of the suffixes {', '.join(FILES)}")])
    catalog = path.with_suffix(".sas7bcat")
    with_labels = {"catalog_file": str(catalog)} if path.suffix.lower() == ".sas7bdat" and catalog.is_file() else {}
    _, metadata = _read(path, metadataonly=True, **with_labels)
    if not metadata.column_names:
        raise SourceError([Finding(path.name, "describes no variables")])
    variables, kinds = {}, {}
    for name, label in zip(metadata.column_names, metadata.column_labels, strict=True):
        stored, shown = metadata.readstat_variable_types[name], metadata.original_variable_types[name] or ""
        is_text = stored.startswith("string")
        codes = {
            write_code(code, is_text): " ".join(str(text).split())
            for code, text in metadata.variable_value_labels.get(name, {}).items()
        }
        ranges = metadata.missing_ranges.get(name, ())
        missing = [(write_code(given["lo"], is_text), write_code(given["hi"], is_text)) for given in ranges]
        variables[name] = Variable(" ".join((label or "").split()), codes, missing)
        if ranges and path.suffix.lower() == ".por":
            kinds[name] = (
                "numbers of which some are declared as missing, which pyreadstat does not tell apart; save it as .sav"
            )
        elif is_text:
            kinds[name] = "text"
        elif _DATES.fullmatch(shown):
            kinds[name] = "date"
        elif _TIMES.fullmatch(shown):
            kinds[name] = f"a time or a period ({shown}), which Stirred does not read; {_find_remedy(path, shown)}"
        else:
            kinds[name] = "float" if stored == "float" else "number"
    return StatisticalFile(path, variables, kinds, metadata.variable_storage_width, metadata.number_rows)


def _find_remedy(path: Path, shown: str) -> str:
    """The function of the package that makes a date of a time or a period in the format `shown`."""
    suffix = path.suffix.lower()
    functions = {".dta": f"dof{shown.lstrip('%-t')[:1]}() and the format %td in Stata"}
    functions |= dict.fromkeys(_OF_SPSS, "XDATE.DATE() and the format ADATE in SPSS")
    return f"write its day as a date, with {functions.get(suffix, 'DATEPART() and the format DATE9 in SAS')}"


def write_code(code: float | str, is_text: bool) -> str:
    """A code as written in a relation: a whole number without a point, the letter of a missing value after a point."""
    if isinstance(code, str):
        return code if is_text else f".{code}"
    return str(int(code)) if float(code).is_integer() else repr(float(code))
