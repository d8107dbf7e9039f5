"""CSV files as they occur: recognized and read exactly, cell by cell, or refused with the option that would decide."""

import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assets.cef.ingestion import ingest
from assets.cef.notation import examine_columns
from assets.cef.profile import profile
from assets.cef.readers import open_every_column
from assets.cef.text_files import list_characters
from assets.cef.validation import SourceError
from assets.release.dataset import DatasetDeclaration, Reader
from assets.release.dialect import ENCODINGS, UTF_8, UTF_16, Dialect
from resources.statements import SQL, Table, Zone
from resources.warehouse import Session, Warehouse
from tests.depth import examples

EVERYTHING = SQL("tests/source", "FROM ({{ relation }})")
KEY = bytes(32)

COLUMNS = {
    "id": {"type": "integer", "role": "key"},
    "région": {"type": "string", "role": "geography", "pattern": "(?s).*"},
    "income": {"type": "decimal", "nullable": True, "null": ["NA"]},
    "born": {"type": "date", "nullable": True, "null": ["99.99.9999"]},
}
Row = tuple[int, str, Decimal | None, date | None]

REGIONS = ["Zürich", "Genève", "Île-de-France", 'a "b"', "it's", "x;y,z|\tw", "two\nlines", "C:\\temp\\", " ", "Nord"]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(REGIONS),
        st.none() | st.decimals(-1000, 10**9, places=2),
        st.none() | st.dates(date(1900, 1, 1), date(2030, 12, 31)),
    ),
    min_size=1,
    max_size=5,
).map(lambda rows: [(number, *row) for number, row in enumerate(rows)])
DIALECTS = st.builds(
    Dialect,
    separator=st.sampled_from([",", ";", "tab", "|"]),
    encoding=st.sampled_from(["utf-8", "windows-1252", "iso-8859-15", "utf-16", "utf-16-le", "utf-16-be", "cp850"]),
    quote=st.sampled_from(['"', "'"]),
    escape=st.sampled_from(["doubled", "backslash"]),
    compression=st.sampled_from(["none", "gzip", "zstd"]),
    decimal=st.sampled_from([".", ","]),
    dates=st.sampled_from(["YYYY-MM-DD", "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "YYYY/MM/DD"]),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dialects")


@pytest.fixture(scope="module")
def warehouse(folder: Path) -> Warehouse:
    return Warehouse(folder=str(folder / "warehouse"))


@pytest.fixture(scope="module")
def session(warehouse: Warehouse) -> Iterator[Session]:
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        yield session


def write(path: Path, rows: Sequence[Row], dialect: Dialect, line_end: str = "\n", mark: str = "") -> Path:
    """Rows as Python writes them in a dialect, with a header; `mark` is a byte-order mark."""
    text = io.StringIO()
    writer = csv.writer(
        text,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        quoting=csv.QUOTE_NONNUMERIC,
        doublequote=dialect.escape == "doubled",
        escapechar=dialect.escape_character or None,
        lineterminator=line_end,
    )
    form = re.sub("DD|MM|YYYY", lambda part: {"DD": "%d", "MM": "%m", "YYYY": "%Y"}[part[0]], dialect.dates)
    writer.writerow(COLUMNS)
    for number, region, income, born in rows:
        amount = "NA" if income is None else str(income).replace(".", dialect.decimal)
        writer.writerow([number, region, amount, "" if born is None else born.strftime(form)])
    content = (mark + text.getvalue()).encode(dialect.encoding)
    if dialect.compression != "none":
        content = pa.compress(content, codec=dialect.compression, asbytes=True)
    path.write_bytes(content)
    return path


def declare(path: Path, fields: dict[str, Any], **columns: Any) -> DatasetDeclaration:
    units = {"path": str(path), "columns": {**COLUMNS, **columns}, **({"csv": fields} if fields else {})}
    return DatasetDeclaration.model_validate(
        {"name": "town", "title": "A town", "reader": "csv", "cap": 1, "units": units}
    )


def read(session: Session, declaration: DatasetDeclaration) -> list[Row]:
    ingest(session, declaration, Path("/"), KEY)
    table = Table(Zone.CONFIDENTIAL, "town", "units")
    return sorted(session.rows("cef/records", columns=list(COLUMNS), table=table))


def recognize(session: Session, path: Path, **given: str) -> dict[str, str]:
    return dict(profile(session, Reader.CSV, path, given=given).csv)


MIXED: list[Row] = [
    (0, "Genève", Decimal("1.5"), date(2020, 12, 31)),
    (1, "Zürich", Decimal("1234.25"), date(1999, 2, 1)),
    (2, 'x;y, "z"', None, None),
]


@pytest.mark.prove
@settings(max_examples=examples(75), deadline=None)
@given(rows=ROWS, dialect=DIALECTS, line_end=st.sampled_from(["\n", "\r\n"]), marked=st.booleans())
@example(rows=MIXED, dialect=Dialect(separator=";", encoding="windows-1252", decimal=","), line_end="\n", marked=False)
def test_a_file_is_read_cell_by_cell_as_it_was_written_in_whatever_dialect(
    session: Session, folder: Path, rows: list[Row], dialect: Dialect, line_end: str, marked: bool
) -> None:
    """Wrong programs: read any character, digit, day or blank differently, or guess a dialect."""
    mark = "\ufeff" if marked and dialect.encoding in (UTF_8, *UTF_16[1:]) else ""
    path = write(folder / "grid.csv", rows, dialect, line_end, mark)
    assert read(session, declare(path, dialect.unusual)) == rows
    given: dict[str, str] = {}
    while True:
        try:
            found = recognize(session, path, **given)
            break
        except SourceError as error:
            # Options, which are fields of the dialect, decide where the bytes are ambiguous.
            refusal = str(error)
        (field, *_) = re.findall(r"--csv (\w+)=", refusal)
        assert field not in given, refusal
        given[field] = getattr(dialect, field)
    # A notation that no value shows need not be declared.
    notation = {"decimal": dialect.decimal, "dates": dialect.dates}
    assert read(session, declare(path, notation | found)) == rows


@pytest.mark.parametrize("encoding", ENCODINGS.values())
def test_every_character_of_an_encoding_is_read_as_it_is(session: Session, folder: Path, encoding: str) -> None:
    if encoding in (UTF_8, *UTF_16):
        characters = "".join(map(chr, (*range(0x20, 0x7F), *range(0xA0, 0xD800, 7), 0xFEFF, 0xFFFD, 0x1F642)))
    else:
        characters = "".join(each for each in list_characters(encoding)[32:] if each not in "\x7f\ufffe")
        assert characters.encode(encoding).decode(encoding) == characters
    rows = ["".join(part) for part in re.findall(".{1,64}", characters.replace('"', ""))]
    path = folder / "characters.csv"
    path.write_bytes("\n".join(["n;text", *(f'{n};"{row}"' for n, row in enumerate(rows))]).encode(encoding))
    source, _ = open_every_column(Reader.CSV, path, dialect=Dialect(separator=";", encoding=encoding))
    source.stage(session)
    assert session.arrow(EVERYTHING, source.values, relation=source.relation)["text"].to_pylist() == rows


def test_recognized_dialects_are_declared_where_they_differ_from_the_default(session: Session, folder: Path) -> None:
    dialect = Dialect(
        separator=";", encoding="windows-1252", decimal=",", dates="DD.MM.YYYY", compression="gzip", escape="backslash"
    )
    path = write(folder / "unusual.csv.gz", MIXED, dialect)
    assert recognize(session, path) == dialect.unusual
    assert recognize(session, write(folder / "usual.csv", MIXED, Dialect())) == {}
    several = folder / "members.csv.gz"
    several.write_bytes(gzip.compress(b"id;a\n1;x\n") + gzip.compress(b"2;y\n"))
    assert profile(session, Reader.CSV, several).columns[0].records == 2


def test_another_reading_of_the_same_people_has_their_sketch_and_content(session: Session, folder: Path) -> None:
    """Wrong program: sketches the texts as they are written, which would open a second cap."""
    rows = [(n, REGIONS[n % 3], Decimal(n) / 4, date(1950, 1 + n % 12, 1 + n % 28)) for n in range(200)]
    plain = write(folder / "plain.csv", rows, Dialect())
    dialect = Dialect(separator=";", encoding="iso-8859-1", decimal=",", dates="DD.MM.YYYY", compression="zstd")
    again = write(folder / "again.csv.zst", rows, dialect)
    one, other = (
        ingest(session, declare(path, fields), Path("/"), KEY)
        for path, fields in ((plain, {}), (again, dialect.unusual))
    )
    assert (one.sketch, one.content) == (other.sketch, other.content)
    # This holds even if commas are not declared, and the numbers are texts.
    undeclared = {name: value for name, value in dialect.unusual.items() if name != "decimal"}
    texts = declare(again, undeclared, income={"type": "string", "pattern": ".*"})
    assert ingest(session, texts, Path("/"), KEY).sketch == one.sketch


def test_floating_point_numbers_are_sketched_as_the_same_numbers_in_text(session: Session, folder: Path) -> None:
    """Wrong program: sketches only the columns of a Parquet file that are stored exactly; a file of pandas with missing
    values has hardly any of them."""
    numbers = pa.table({name: [float(n * 7 % size) / 4 for n in range(200)] for name, size in (("a", 97), ("b", 89))})
    arrow_csv.write_csv(numbers, folder / "numbers.csv")
    pq.write_table(numbers, folder / "numbers.parquet")
    columns = {name: {"type": "decimal", "rounded": True} for name in numbers.column_names}
    one, other = (
        ingest(
            session,
            DatasetDeclaration.model_validate(
                {"name": "town", "title": "T", "reader": reader, "cap": 1}
                | {"units": {"path": str(folder / f"numbers.{reader}"), "columns": columns}}
            ),
            Path("/"),
            KEY,
        )
        for reader in ("csv", "parquet")
    )
    assert (one.sketch, one.content) == (other.sketch, other.content)


TABLE = "id;région;income;born\n1;Nord;1,5;31.12.2020\n2;Süd;2;01.02.1999\n"
SECRETS = "1,5", "31.12", "Nord", "Süd"
NUMBERS, GERMAN = {"decimal": ","}, {"decimal": ",", "dates": "DD.MM.YYYY"}
NOT_DECIMAL, NOT_DATE = "column income: not of type decimal: ", "column born: not of type date: "


@pytest.mark.parametrize(
    ("content", "declared", "finding"),
    [
        (TABLE, {"separator": ","}, "is separated by semicolons, which `csv: {separator: ';'}` declares"),
        (TABLE.replace(";", "\t"), {}, "is separated by tabs, which `csv: {separator: tab}` declares"),
        (TABLE.encode("cp1252"), {}, "is in windows-1252, which `csv: {encoding: windows-1252}` declares"),
        (TABLE.encode("utf-16"), {}, "is in utf-16, which `csv: {encoding: utf-16}` declares"),
        (TABLE, {"encoding": "cp1252"}, "is in utf-8, which `csv: {encoding: utf-8}` declares"),
        (TABLE.encode("utf-16-le"), {"encoding": "utf-16"}, "is in utf-16-le, which `csv: {encoding: utf-16-le}` d"),
        (gzip.compress(TABLE.encode(), mtime=0), {}, "is compressed by gzip, which `csv: {compression: gzip}` d"),
        (TABLE, {"compression": "zstd"}, "is not compressed, which `csv: {compression: none}` declares"),
        (gzip.compress(TABLE.encode(), mtime=0)[:-6], {"compression": "gzip"}, "cut off or damaged: not a whole file"),
        (b"PK\x03\x04" + TABLE.encode(), {}, "is a zip archive, as Excel's workbooks are; export the table as CSV"),
        (TABLE, {}, f"{NOT_DECIMAL}decimal commas, which `csv: {{decimal: ','}}` declares: 1 row"),
        (TABLE.replace(",", "."), NUMBERS, f"{NOT_DECIMAL}decimal points, although `csv: {{decimal: ','}}`"),
        (TABLE.replace("1,5", "1,5%"), NUMBERS, f"{NOT_DECIMAL}a sign of percent or of a currency, which is left out"),
        (TABLE.replace("1,", "1\u202f000,"), NUMBERS, f"{NOT_DECIMAL}spaces or apostrophes between thousands, "),
        (TABLE, NUMBERS, f"{NOT_DATE}written in another order, which `csv: {{dates: …}}` declares as in DD"),
        (TABLE.replace(".2020", ".20"), GERMAN, f"{NOT_DATE}years of two digits, which do not tell the century: 1"),
        (TABLE.replace("1,5", "1,500").replace("0,25", "2"), {}, f"{NOT_DECIMAL}commas, as in 1,234: thousands are"),
        (TABLE.replace("1,5", "1.234,5"), NUMBERS, f"{NOT_DECIMAL}marks between thousands, which are written without"),
        (TABLE.replace("31.12.2020", "20201231"), GERMAN, f"{NOT_DATE}no marks between year, month and day: write"),
        (TABLE.replace("31.12", "31.11"), GERMAN, f"{NOT_DATE}no days of the calendar as DD.MM.YYYY, the order that `"),
        (TABLE.replace(";2;", ";.;") + "3;West;NA;\n", NUMBERS, f"{NOT_DECIMAL}a word such as NA, which `null` lis"),
        (TABLE.replace(";2;", ";x;") + "3;West;NA;\n", GERMAN, "column income: not of type decimal: 1 row"),
        (TABLE.replace("31.12.2020", "2020-12-31"), GERMAN, "column born: not of type date: 1 row"),
        (TABLE.replace("N", "\x85").encode("latin1"), {"encoding": "latin1"}, "column région: not in iso-8859-1: 1"),
        (TABLE.replace("Nord", '"N\\d"'), {"escape": "backslash"}, "column région: backslash that is not inside quo"),
        (TABLE.replace("\n", "\r"), {}, "is written with carriage returns alone at the ends of lines"),
        (TABLE.replace("2020\n", "2020\r\n"), {}, "line end that differs from the header's: 1 row"),
        (TABLE + "3;West;2;01.01.2000;\n", {}, "more fields than the header: 1 row"),
        ("# made in 2020\n" + TABLE, {}, "is not a table from its first line on, which begins with #; delete it"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_as_declared_is_refused_with_how_it_is(
    session: Session, folder: Path, content: str | bytes, declared: dict[str, Any], finding: str
) -> None:
    path = folder / "other.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(SourceError) as refusal:
        read(session, declare(path, {"separator": ";"} | declared))
    assert f"other.csv: {finding}" in str(refusal.value)
    assert not any(secret in str(refusal.value) for secret in SECRETS)


@pytest.mark.parametrize(
    ("content", "rule", "given", "found"),
    [
        (
            "id;born\n1;3/4/2020\n2;5/6/2020\n",
            "column born: the day or the month may come first in its dates, as no number is above 12. Say which with "
            "--csv dates=DD/MM/YYYY or --csv dates=MM/DD/YYYY",
            {"dates": "MM/DD/YYYY"},
            {"separator": ";", "dates": "MM/DD/YYYY"},
        ),
        (
            "id;a\n1;1,234\n2;5\n",
            "column a: its commas may be decimal marks (--csv decimal=,), or mark thousands or parts of a code "
            "(--csv decimal=.). Say which",
            {"decimal": ","},
            {"separator": ";", "decimal": ","},
        ),
        (
            "id;a\n1;1.234\n",
            "column a: its points may be decimal marks (--csv decimal=.), or",
            {"decimal": "."},
            {"separator": ";"},
        ),
        ('id,a\n1,"2,5"\n2,3\n', "column a: its commas may be decimal marks", {"decimal": ","}, {"decimal": ","}),
        (
            "id;a;b\n1;1,5;2.5\n",
            "column a: it has decimal commas, and column b has decimal points. Say which",
            {"decimal": ","},
            {"separator": ";", "decimal": ","},
        ),
        (
            "a;b,c\n1;2,3\n",
            "separated by commas or semicolons, with as many fields in every row. Say which with --csv separator=',' "
            "or --csv separator=';'",
            {"separator": ";", "decimal": ","},
            {"separator": ";", "decimal": ","},
        ),
        (
            "id;name\n1;Isère\n".encode("latin-1"),
            "not in UTF-8, and two readings are possible: line 2, field 2, column name, where byte E8 is è in "
            "windows-1252 and č in windows-1250. Say which with --csv encoding=windows-1252 or",
            {"encoding": "latin1"},
            {"separator": ";", "encoding": "iso-8859-1"},
        ),
        (
            "id;name\n1;東京\n".encode("shift-jis"),
            "not in UTF-8, and its letters show no encoding: line 2, field 2, column name. Name it, as in --csv "
            "encoding=windows-1252, or write the file in UTF-8: Stirred does not read GB18030, Big5, Shift-JIS,",
            {"encoding": "cp437"},
            {"separator": ";", "encoding": "cp437"},
        ),
        ("sep=;\nid;a\n1;2\n", "is not a table from its first line on, which begins with sep=; delete it", None, {}),
        (
            gzip.compress(gzip.compress(b"id;a\n1;2\n", mtime=0), mtime=0),
            "is compressed twice; unpack it once",
            None,
            {},
        ),
        (gzip.compress(b"PAR1", mtime=0), "is a Parquet file; name it .parquet", None, {}),
        ("id,income\n1,2,5\n2,3,5\n", "is not a table with a name for each field: every row has one more", None, {}),
        ('"id" "g"\n"1" 1 "a"\n"2" 2 "b"\n', "is not a table with a name for each field: every row ha", None, {}),
        ("Survey of 2020\n\nid;g\n1;a\n2;b\n", "is not a table from its first line on, which has one te", None, {}),
        ("Survey;;\nid;g;h\n1;a;b\n2;b;b\n", "is not a table from its first line on, which has one te", None, {}),
        ("<!DOCTYPE html><html>Sign in</html>\n", "is a page in HTML; download the file itself", None, {}),
        ("id g\n1 a\n2 b\n", "is separated by spaces; write commas, semicolons or tabs", None, {}),
        ("1,north,m\n2,south,f\n3,north,m\n", "is not a table with a header: its first row has numbers", None, {}),
        ("north;m\nsouth;f\nnorth;f\nsouth;m\n", "is not a table with a header: its first row", None, {}),
    ],
)
def test_what_the_bytes_leave_open_is_refused_with_what_settles_it(
    session: Session, folder: Path, content: str | bytes, rule: str, given: dict[str, str] | None, found: dict[str, str]
) -> None:
    path = folder / "open.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(SourceError) as refusal:
        recognize(session, path)
    assert f"open.csv: {rule}" in str(refusal.value)
    if given is not None:
        assert recognize(session, path, **given) == found


def test_columns_that_only_look_like_numbers_or_dates_have_the_reason(session: Session, folder: Path) -> None:
    values = {
        "spaced": ("1\u00a0000", "12\u202f345"), "swiss": ("1'000", "2"), "grouped": ("1.234.567,5", "1"),
        "percent": ("12,5%", "7"),
        "signs": ("(5)", "7"), "open": ("100000+", "5"), "script": ("٣", "१२"),
        "euros": ("7,50 €", "1.234,50 EUR"),
        "short": ("31.12.20", "1.2.99"), "named": ("3 March 2020", "12-Jan-99"),
        "timed": ("2020-01-01 12:30", "2020-01-02T01:02"),
        "forms": ("31.12.2020", "2020-12-31"), "orders": ("31-12-2020", "12-31-2020"),
        "mixed": ("1,5", "1.25"), "sure": ("-,5", "2,25"), "day": ("31/12/2020", "1/2/2020"), "none": ("NA", "0,5"),
    }  # fmt: skip
    path = folder / "looks.csv"
    path.write_text("\n".join(map(";".join, (values, *zip(*values.values(), strict=True)))) + "\n", encoding="utf-8")
    found = profile(session, Reader.CSV, path)
    assert found.csv == {"separator": ";", "decimal": ",", "dates": "DD/MM/YYYY"}
    assert {column.name: column.type.value for column in found.columns if column.name in ("sure", "day")} == {
        "sure": "decimal",
        "day": "date",
    }
    assert {name: reason.partition(";")[0] for name, reason in found.reasons.items()} == {
        "spaced": "some numbers may have spaces or apostrophes between thousands",
        "swiss": "some numbers may have spaces or apostrophes between thousands",
        "grouped": "some numbers may have points or commas between thousands",
        "percent": "its numbers have a sign of percent or of a currency",
        "euros": "its numbers have a sign of percent or of a currency",
        "signs": "some of its numbers have a sign such as +5, (5) or 5-",
        "open": "some of its numbers have the mark of a bound, as in 100000+ or <5",
        "script": "its numbers have the digits of another script",
        "short": "its years have two digits, which do not tell the century",
        "named": "it has dates with the names of months",
        "timed": "its dates have times of the day",
        "forms": "it has dates in more than one form",
        "orders": "some of its dates have the day first and others the month",
        "mixed": "it has decimal commas in some rows and decimal points in others",
    }


def test_words_among_decimals_or_dates_stand_for_no_value_whatever_the_dialect(session: Session, folder: Path) -> None:
    """Wrong programs: propose k.A. as no value beside 1.5, but take 1,5 beside it, or both beside #DIV/0!, for texts
    that identify persons."""
    path = folder / "words.csv"
    words = {
        "income": ("k.A.", "#DIV/0!"),
        "share": ("#DIV/0!", "#DIV/0!"),
        "birth": ("unbekannt", "k.A."),
        "died": ("99.99.9999", "unbekannt"),
    }
    lines = [
        (f"{number},5", f"0,{number}", f"{1 + number % 28}.1.{1900 + number}", f"{1 + number % 28}.2.{2000 + number}")
        for number in range(1, 150)
    ]
    lines += [*zip(*words.values(), strict=True)] * 9
    path.write_text("\n".join(map(";".join, (words, *lines))) + "\n", encoding="utf-8")
    found = profile(session, Reader.CSV, path)
    assert found.csv == {"separator": ";", "decimal": ",", "dates": "DD.MM.YYYY"}
    assert {column.name: (column.type.value, column.missing) for column in found.columns} == {
        name: (kind, {word: 9 * own.count(word) for word in own})
        for (name, own), kind in zip(words.items(), ("decimal", "decimal", "date", "date"), strict=True)
    }


def test_many_columns_are_examined_some_at_a_time_and_too_many_refused(tmp_path: Path) -> None:
    """Wrong programs: one statement about a thousand columns, which DuckDB refuses; hours over a hundred thousand."""
    asked: list[int] = []

    def row(statement: str, values: object, *, columns: Sequence[str]) -> Sequence[str]:
        asked.append(len(columns))
        return columns

    names = [f"v{number}" for number in range(2001)]
    assert list(examine_columns(Mock(row=row), "cef/profile", {}, columns=names)) == names
    assert max(asked) <= 100
    (tmp_path / "wide.csv").write_text(f"{','.join(names)}\n")
    with pytest.raises(SourceError, match="has 2,001 columns: write a file of those that you need"):
        open_every_column(Reader.CSV, tmp_path / "wide.csv")


def test_a_mark_between_thousands_in_one_column_is_no_decimal_mark_in_another(session: Session, folder: Path) -> None:
    """Wrong programs: one that takes the 1,234 employees of Excel's file for 1.234, as the person answered its
    question; one that proposes a number that cannot be read as declared."""
    grouped, other = folder / "grouped.csv", folder / "other.csv"
    grouped.write_text('revenue,employees\n"1,234,567","1,234"\n"2,345,678",12\n')
    found = profile(session, Reader.CSV, grouped)
    assert (found.csv, [column.type.value for column in found.columns]) == ({}, ["string", "string"])
    rule = (
        "column revenue: it has commas between thousands, as in 1,234,567, so that they are no decimal marks in column"
    )
    with pytest.raises(SourceError, match=f"{rule} employees"):
        profile(session, Reader.CSV, grouped, given={"decimal": ","})
    other.write_text("a;b\n1;1.234\n2;12\n")
    found = profile(session, Reader.CSV, other, given={"decimal": ","})
    assert [column.type.value for column in found.columns] == ["integer", "string"]


def test_dates_as_in_iso_8601_are_dates_beside_others(session: Session, folder: Path) -> None:
    """Wrong program: one that reports the dates it can read as no dates."""
    path = folder / "two_forms.csv"
    path.write_text("a,b\n2020-12-31,31/12/2020\n2020-12-30,30/12/2020\n")
    assert profile(session, Reader.CSV, path).reasons == {
        "b": "it has dates in another form than csv declares, which is YYYY-MM-DD"
    }


def test_names_that_are_numbers_are_names_where_the_column_has_none(session: Session, folder: Path) -> None:
    """Wrong program: refuses columns named by years, or names that are two words, because all of their values are."""
    path = folder / "years.csv"
    path.write_text("id;2019;2020\n1;5;6\n2;7;8\n", encoding="utf-8")
    assert [column.name for column in profile(session, Reader.CSV, path).columns] == ["id", "2019", "2020"]
    path.write_text("id;full name\n1;Anna Ek\n2;Bo Ek\n", encoding="utf-8")
    assert recognize(session, path) == {"separator": ";"}


def test_columns_without_a_name_are_left_out_and_said(session: Session, folder: Path) -> None:
    path = folder / "from_r.csv"
    path.write_text('"","id","g"\n"1",1,"a"\n"2",2,"b"\n', encoding="utf-8")
    found = profile(session, Reader.CSV, path)
    assert [column.name for column in found.columns] == ["id", "g"]
    assert found.unfit[""].startswith("it has no name")


def test_integers_that_duckdb_cannot_decode_are_refused_with_their_encoding(session: Session, folder: Path) -> None:
    path = folder / "split.parquet"
    encodings = {"id": "BYTE_STREAM_SPLIT", "g": "PLAIN"}
    pq.write_table(pa.table({"id": [1], "g": ["a"]}), path, use_dictionary=False, column_encoding=encodings)
    with pytest.raises(SourceError, match="column id: stored in the encoding BYTE_STREAM_SPLIT, which DuckDB reads of"):
        profile(session, Reader.PARQUET, path)
