"""Generated source files: every bad one is refused in one clear error, and every good one is read exactly as written.

The oracles are Python's csv module and pyarrow. `bad_files` generates the bad files.
"""

import csv
import io
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.parquet import encryption

from assets.cef.ingestion import ingest
from assets.cef.text_files import LONGEST_ROW
from assets.cef.validation import AS_MEANT, SourceError, cef_problems
from assets.release.dataset import DatasetDeclaration
from resources.statements import Zone
from resources.warehouse import Session, Warehouse
from tests.assets.cef.bad_files import (
    DIRECTORY,
    MARKER,
    NAMES,
    BadFile,
    Files,
    as_csv,
    as_parquet,
    as_table,
    bad_files,
    declaration,
    good_files,
    rows_of,
    vocabulary,
)
from tests.depth import examples

VERSION_KEY = bytes(range(32))
COUNT = re.compile(r": [0-9,]+ rows?$")
MEANT = re.compile(f"; ({'|'.join(AS_MEANT)})$")


def write(folder: Path, files: Files) -> Path:
    folder.mkdir()
    for name, content in files.items():
        if content == DIRECTORY:
            (folder / name).mkdir()
        elif content is not None:
            (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session in whose warehouse the good datasets are."""
    folder = tmp_path_factory.mktemp("warehouse")
    with Warehouse(folder=str(folder), threads=1).session(writes=Zone.CONFIDENTIAL) as session:
        for dataset in NAMES:
            files = write(folder / dataset, good_files(dataset, "csv"))
            ingest(session, declaration(dataset, "csv"), files, VERSION_KEY)
        yield session


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that do not exist yet. DuckDB remembers files by their paths, so each is used only once."""
    parent = tmp_path_factory.mktemp("files")
    return (parent / str(number) for number in count())


# Bad files


def versions(session: Session) -> dict[str, str]:
    return {name: session.content_version(declaration(name, "csv").cef_tables(), VERSION_KEY) for name in NAMES}


def lines_of(session: Session, declared: DatasetDeclaration, folder: Path) -> list[str] | None:
    """The lines of the error that refuses a source; None if it is accepted."""
    try:
        ingest(session, declared, folder, VERSION_KEY)
    except SourceError as error:
        return str(error).splitlines()
    return None


def outcome(session: Session, bad: BadFile, folder: Path, words: set[str]) -> str:
    write(folder, {**good_files(bad.dataset, bad.reader), **bad.files})
    try:
        lines = lines_of(session, declaration(bad.dataset, bad.reader), folder)
    except Exception as error:
        return f"bare exception {type(error).__name__}"
    if lines is None:
        return "accepted"
    # The error consists of sentences that are known without the file, and of counts.
    if MARKER in "".join(lines) or not {COUNT.sub("", line) for line in lines} <= words:
        return "more is said than rules and counts"
    said = [line for line in lines if MEANT.sub("", COUNT.sub("", line)) == bad.finding]
    if len(said) != 1 or bool(COUNT.search(said[0])) is not bad.counted:
        return "file, column, rule or count is not said"
    return "refused"


def outcomes(session: Session, folders: Iterator[Path], bad: Sequence[BadFile]) -> dict[str, list[str]]:
    """The names of bad files by outcome."""
    words = {(dataset, reader): vocabulary(dataset, reader) for dataset in NAMES for reader in ("csv", "parquet")}
    found: dict[str, list[str]] = {}
    before = versions(session)
    for one in bad:
        became = outcome(session, one, next(folders), words[one.dataset, one.reader])
        found.setdefault(became, []).append(one.name)
    assert versions(session) == before, "nothing was written"
    return found


class _NoKeys(encryption.KmsClient):
    """Wraps keys by leaving them as they are."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return b64encode(key_bytes)


def test_a_parquet_file_with_an_encrypted_column_is_refused(session: Session, folders: Iterator[Path]) -> None:
    """If asked for the metadata of that column, Arrow ends the process, and with it a run or the UI's code."""
    factory = encryption.CryptoFactory(lambda _: _NoKeys())
    columns = encryption.EncryptionConfiguration("footer", column_keys={"column": ["tenure"]}, plaintext_footer=True)
    keys = factory.file_encryption_properties(encryption.KmsConnectionConfig(), columns)
    folder, table = write(next(folders), good_files("town", "parquet")), as_table(rows_of("town", "households"))
    with pq.ParquetWriter(folder / "households.parquet", table.schema, encryption_properties=keys) as writer:
        writer.write_table(table)
    said = lines_of(session, declaration("town", "parquet"), folder)
    assert said == ["households.parquet: not a readable Parquet file"]


@pytest.mark.fault
def test_every_generated_bad_file_is_refused(
    session: Session, folders: Iterator[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    bad = bad_files()
    assert len({one.name for one in bad}) == len(bad)
    assert len({(one.dataset, *sorted(one.files.items(), key=str)) for one in bad}) == len(bad), "each is another file"
    found = outcomes(session, folders, bad)
    tried, refused = len(bad), len(found.pop("refused"))
    with capsys.disabled():
        kinds = Counter(one.reader for one in bad)
        print(f"\n{tried:,} bad files ({dict(kinds)}): {refused:,} refused, {tried - refused} not as they should be")
    assert found == {}
    assert tried == refused >= 1500
    assert min(Counter((one.dataset, one.reader) for one in bad).values()) >= 200
    for dataset in NAMES:
        assert cef_problems(session, declaration(dataset, "csv")) == []
        before = versions(session)
        for reader in ("csv", "parquet"):
            good = write(next(folders), good_files(dataset, reader))
            assert lines_of(session, declaration(dataset, reader), good) is None, "nothing in the way of a good file"
            assert versions(session) == before


@pytest.mark.deep
def test_some_generated_bad_files_are_refused(session: Session, folders: Iterator[Path]) -> None:
    bad = bad_files()[::130]
    assert outcomes(session, folders, bad) == {"refused": [one.name for one in bad]}


# Good files

ANY_CHARACTER = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXT = st.text(st.sampled_from("\",\n\r\t ;'\\#a0é€🙂\u00a0\ufeff\u2028") | ANY_CHARACTER, max_size=8)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-(10**18) + 1, 10**18 - 1) | st.integers(-9, 9),
    "string": TEXT,
    "boolean": st.booleans(),
    "date": st.dates() | st.sampled_from([date.min, date.max]),
    "decimal": st.decimals(-(10**14) + 1, 10**14 - 1, places=4),
}
DOMAINS: Mapping[str, dict[str, Any]] = {
    "integer": {"minimum": -(10**18) + 1, "maximum": 10**18 - 1},
    "string": {"pattern": "(?s).*"},
}


def declared(kinds: Sequence[str], reader: str) -> DatasetDeclaration:
    columns = {
        f"c{number}": {"type": kind, "nullable": True, **DOMAINS.get(kind, {})} for number, kind in enumerate(kinds)
    }
    units = {"path": f"good.{reader}", "columns": columns}
    return DatasetDeclaration.model_validate(
        {"name": "good", "title": "Good", "reader": reader, "cap": 1, "units": units}
    )


def content(session: Session, declaration: DatasetDeclaration) -> list[tuple[Any, ...]]:
    (table,) = declaration.cef_tables()
    return sorted(session.rows("cef/records", columns=list(session.columns(table)), table=table), key=str)


def value(kind: str, text: str) -> Any:
    """The value that a field of a CSV file stands for."""
    if text == "":
        return None
    return {
        "integer": int,
        "string": str,
        "boolean": "true".__eq__,
        "date": date.fromisoformat,
        "decimal": lambda digits: Decimal(digits).quantize(Decimal("0.0001")),
    }[kind](text)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    row = st.tuples(*(st.none() | VALUES[kind] for kind in kinds)).map(list)
    return kinds, draw(st.lists(row, min_size=1, max_size=6))


def spelt(draw: st.DrawFn, kind: str, meant: Any) -> str:
    if meant is None:
        return ""
    if kind == "boolean":
        return str(meant).lower()
    if kind == "integer" and draw(st.booleans()):
        return f"{'-' * (meant < 0)}{abs(meant):0{draw(st.integers(1, 18))}}"
    if kind == "decimal" and draw(st.booleans()) and meant == meant.to_integral():
        return str(int(meant))
    return str(meant)


@st.composite
def csv_files(draw: st.DrawFn) -> tuple[list[str], bytes]:
    """The types of the columns c0, c1, …, and a file that has these and others, in any order."""
    kinds, rows = draw(tables())
    texts = [[f"c{number}" for number in range(len(kinds))]]
    texts += [[spelt(draw, kind, meant) for kind, meant in zip(kinds, row, strict=True)] for row in rows]
    others = draw(st.integers(0, 2))
    texts = [[*row, *(f"other {number}, {place}" for number in range(others))] for place, row in enumerate(texts)]
    order = draw(st.permutations(range(len(texts[0]))))
    written = io.StringIO(newline="")
    # Python before 3.13 leaves a carriage return unquoted if rows do not end in it.
    returns = any("\r" in field for row in texts for field in row)
    quoting = csv.QUOTE_ALL if returns else draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    writer = csv.writer(written, lineterminator=draw(st.sampled_from(["\n", "\r\n"])), quoting=quoting)
    writer.writerows([row[place] for place in order] for row in texts)
    text = written.getvalue()
    if draw(st.booleans()) and not text.rstrip("\r\n").endswith('"'):
        text = text.rstrip("\r\n")
    return kinds, draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


@pytest.mark.deep
@settings(max_examples=examples(100))
@given(file=csv_files())
def test_a_csv_file_is_read_value_by_value(
    session: Session, folders: Iterator[Path], file: tuple[list[str], bytes]
) -> None:
    kinds, written = file
    declaration = declared(kinds, "csv")
    assert lines_of(session, declaration, write(next(folders), {"good.csv": written})) is None
    header, *rows = csv.reader(io.StringIO(written.decode("utf-8-sig"), newline=""), strict=True)
    places = [header.index(f"c{number}") for number in range(len(kinds))]
    meant = [tuple(value(kind, row[place]) for kind, place in zip(kinds, places, strict=True)) for row in rows]
    assert content(session, declaration) == sorted(meant, key=str)


DAMAGES = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.sampled_from(
            [b"", b'"', b'""', b",", b"\n", b"\r\n", b"\r", b" ", b"0", b"-", b"\0", b"\xe9", "é".encode()]
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.deep
@settings(max_examples=examples(200))
@given(damages=DAMAGES)
def test_a_damaged_csv_file_is_read_exactly_or_refused(
    session: Session, folders: Iterator[Path], damages: list[tuple[int, bytes, bool]]
) -> None:
    """A few bytes are inserted or replaced. If the file is accepted, its values are those that Python's csv reads in
    it."""
    kinds = ["integer", "string", "date", "string"]
    written = b'c0,c1,c2,c3\n1,owned,1939-01-01,"a ""b"""\n-20, x,,"c,\nd"\n007,"",1940-04-01,z z \n'
    for place, inserted, replaces in damages:
        place %= len(written)
        written = written[:place] + inserted + written[place + replaces :]
    declaration = declared(kinds, "csv")
    lines = lines_of(session, declaration, write(next(folders), {"good.csv": written}))
    if lines is not None:
        assert all(line.startswith("good.csv: ") for line in lines)
        return
    header, *rows = csv.reader(io.StringIO(written.decode("utf-8-sig"), newline=""), strict=True)
    assert {len(row) for row in rows} == {len(header)}
    places = [header.index(f"c{number}") for number in range(len(kinds))]
    meant = [tuple(value(kind, row[place]) for kind, place in zip(kinds, places, strict=True)) for row in rows]
    assert content(session, declaration) == sorted(meant, key=str)


STORED: Mapping[str, Sequence[pa.DataType]] = {
    "integer": (pa.int64(), pa.decimal128(18, 0), pa.string()),
    "string": (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())),
    "boolean": (pa.bool_(), pa.string()),
    "date": (pa.date32(), pa.date64(), pa.string()),
    "decimal": (pa.decimal128(18, 4), pa.decimal128(38, 4), pa.string(), pa.large_string()),
}


@st.composite
def parquet_files(draw: st.DrawFn) -> tuple[list[str], pa.Table]:
    kinds, rows = draw(tables())
    columns = []
    for kind, values in zip(kinds, zip(*rows, strict=True), strict=True):
        stored = draw(st.sampled_from(STORED[kind]))
        if all(one is None for one in values) and draw(st.booleans()):
            columns.append(pa.nulls(len(values)))
        elif kind != "string" and stored in (pa.string(), pa.large_string()):
            columns.append(pa.array([spelt(draw, kind, one) or None for one in values], stored))
        elif pa.types.is_dictionary(stored):
            columns.append(pa.array(values, pa.string()).dictionary_encode())
        else:
            columns.append(pa.array(values, stored))
    return kinds, pa.table(columns, [f"c{number}" for number in range(len(kinds))])


@settings(max_examples=examples(100))
@given(file=parquet_files())
def test_a_parquet_file_is_read_value_by_value(
    session: Session, folders: Iterator[Path], file: tuple[list[str], pa.Table]
) -> None:
    kinds, table = file
    declaration = declared(kinds, "parquet")
    assert lines_of(session, declaration, write(next(folders), {"good.parquet": as_parquet(table)})) is None
    meant = []
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        texts = zip(kinds, row, strict=True)
        meant.append(
            tuple(value(kind, one) if isinstance(one, str) and kind != "string" else one for kind, one in texts)
        )
    assert content(session, declaration) == sorted(meant, key=str)


@pytest.mark.prove
def test_a_field_may_be_longer_than_what_a_thread_reads_and_look_like_rows(
    session: Session, folders: Iterator[Path], tmp_path: Path
) -> None:
    """DuckDB's threads begin in the middle of a file, each at an apparent beginning of a row."""
    inner = "7,looks like a row\n" * (LONGEST_ROW // 20)
    rows = [["1", inner], *(["2", "short"] for _ in range(70_000))] * 12
    declaration = declared(["integer", "string"], "csv")
    folder = write(next(folders), {"good.csv": as_csv([["c0", "c1"], *rows])})
    with Warehouse(folder=str(tmp_path), threads=8).session(writes=Zone.CONFIDENTIAL) as threaded:
        assert lines_of(threaded, declaration, folder) is None
        assert Counter(content(threaded, declaration)) == Counter({(1, inner): 12, (2, "short"): 840_000})


@pytest.mark.prove
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_large_file_full_of_quotes_is_read_exactly(folders: Iterator[Path], tmp_path: Path, end: str) -> None:
    """25 MB without a line break in a field, which threads read together."""
    texts = ["", "a", "x,y", 'say "hi"', '"', '""', ",", '","', " lead", "trail ", "é", "1,2,3", '",1,"' * 200]
    rows = [[str(number), texts[number * 7 % 13], texts[number * number % 13]] for number in range(250_000)]
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator=end).writerows([["c0", "c1", "c2"], *rows])
    declaration = declared(["integer", "string", "string"], "csv")
    folder = write(next(folders), {"good.csv": written.getvalue().encode()})
    with Warehouse(folder=str(tmp_path), threads=8).session(writes=Zone.CONFIDENTIAL) as threaded:
        assert lines_of(threaded, declaration, folder) is None
        meant = [(int(serial), first or None, second or None) for serial, first, second in rows]
        assert content(threaded, declaration) == sorted(meant, key=str)


def test_a_good_town_is_the_one_that_is_declared(session: Session) -> None:
    """The good rows behind the bad files are read value by value too."""
    units, persons = declaration("town", "csv").cef_tables()
    assert session.count(units) == len(rows_of("town", "households")) - 1
    assert session.count(persons) == len(rows_of("town", "persons")) - 1
