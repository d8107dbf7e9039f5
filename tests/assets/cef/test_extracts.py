"""Extracts of IPUMS and files of Stata, SPSS and SAS: every value is read as it is written, or the file is refused.

The oracles are the tables that the files were written from, and the readers of `ipumspy` and `pyreadstat`.
"""

import gzip
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyreadstat
import pytest

from assets.cef import statistical
from assets.cef.extracts import NO_CODEBOOK, read_codebook
from assets.cef.ingestion import ingest
from assets.cef.readers import RENAMED, SUFFIXES, describe_file, open_every_column
from assets.cef.validation import SourceError
from assets.release.dataset import DatasetDeclaration, Reader
from resources.statements import SQL, Zone
from resources.warehouse import Session, Warehouse
from tests.assets.cef.extracts import HOUSEHOLD, PERSON, Variable, write_codebook, write_lines, write_record

EVERYTHING = SQL("test/everything", "FROM ({{ relation }})")
RECTANGULAR = (*HOUSEHOLD, *PERSON)
_IN_BOTH = ("YEAR", "SERIAL")
HIERARCHICAL = (
    Variable("RECTYPE", 1, "Record type", text=True, types="H P"),
    *(replace(each, types="H P") for each in HOUSEHOLD if each.name in _IN_BOTH),
    *(replace(each, types="H") for each in HOUSEHOLD if each.name not in _IN_BOTH),
    *(replace(each, types="P") for each in PERSON),
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("warehouse")
    with Warehouse(folder=str(folder), threads=1).session(writes=Zone.CONFIDENTIAL) as session:
        yield session


def make_records(count: int, draw: random.Random) -> list[dict[str, str]]:
    """Persons with the columns of their households, three in each."""
    households = [
        {
            "YEAR": "2021",
            "SAMPLE": draw.choice(["202101", "202102"]),
            "SERIAL": f"{number:08}",
            "HHWT": f"{draw.randrange(10**8):08}.{draw.randrange(100):02}",
            "STATEFIP": draw.choice(["01", "02", "06"]),
            "GQ": draw.choice(["0", "1"]),
        }
        for number in range(count // 3 + 1)
    ]
    return [
        {
            **households[number // 3],
            "PERNUM": f"{number % 3 + 1:04}",
            "PERWT": draw.choice(["0.05", "-12.34", "7.00", "1234567.89"]),
            "SEX": draw.choice("129"),
            "AGE": f"{draw.randrange(120):03}",
            "OCC": draw.choice(["", "A b", "x\xe9", "0010"]),
            "INCTOT": draw.choice(["9999999", "-000123", "0042000", ""]),
        }
        for number in range(count)
    ]


def read_texts(session: Session, reader: Reader, path: Path, *described: Any) -> list[dict[str, str | None]]:
    source, _ = open_every_column(reader, path, describe_file(reader, path, *described))
    source.stage(session)
    table = session.arrow(EVERYTHING, source.values, relation=source.relation)
    assert source.records in (None, table.num_rows)
    return table.to_pylist()


@pytest.mark.parametrize(("suffix", "end", "cut"), [(".dat", "\r\n", 2), (".dat", "\n", 0), (".dat.gz", "\n", 1)])
def test_fixed_width_text_is_read_as_it_is_written(
    session: Session, tmp_path: Path, suffix: str, end: str, cut: int
) -> None:
    """Wrong programs: one that reads codes as numbers, drops the sign of a decimal, or counts letters in UTF-8."""
    records = make_records(500, random.Random(1))
    codebook = write_codebook(tmp_path / "usa_1.xml", RECTANGULAR)
    path = write_lines(tmp_path / f"usa_1{suffix}", [write_record(RECTANGULAR, each) for each in records], end)
    content = gzip.decompress(path.read_bytes()) if suffix.endswith("gz") else path.read_bytes()
    content = content[: len(content) - cut]
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    texts = read_texts(session, Reader.DDI, path, codebook)
    assert texts == [{name: value or None for name, value in each.items()} for each in records]
    if end == "\n":
        from ipumspy import readers

        with pytest.warns(readers.CitationWarning):
            book = readers.read_ipums_ddi(codebook)
        peer = readers.read_microdata(book, path)
        for name in ("PERWT", "HHWT", "AGE", "SERIAL", "STATEFIP"):
            assert [float(str(each[name])) for each in texts] == peer[name].astype(float).to_list()


def write_hierarchical(codebook: Path, data: Path, records: Sequence[Mapping[str, str]]) -> Path:
    """An extract whose households have three persons each; return the codebook."""
    lines = []
    for number, each in enumerate(records):
        for kind in ("H", "P") if number % 3 == 0 else ("P",):
            of_kind = [variable for variable in HIERARCHICAL if kind in variable.types]
            lines.append(write_record(of_kind, {**each, "RECTYPE": kind}))
    write_lines(data, lines)
    return write_codebook(codebook, HIERARCHICAL, hierarchical=True)


def test_the_records_of_a_hierarchical_extract_are_units_and_persons(session: Session, tmp_path: Path) -> None:
    """Wrong programs: one that reads persons' fields at households' places, or persons as households."""
    records = make_records(90, random.Random(2))
    write_hierarchical(tmp_path / "cps_1.xml", tmp_path / "cps_1.dat", records)
    of_file = {"path": "cps_1.dat", "codebook": "cps_1.xml"}
    units = {
        "SERIAL": {"type": "string", "role": "key"},
        "STATEFIP": {"type": "string", "role": "geography", "values": ["01", "02", "06"]},
        "HHWT": {"type": "decimal"},
    }
    persons = {
        "household": {"type": "string", "role": "unit", "source": "SERIAL"},
        "AGE": {"type": "integer", "minimum": 0, "maximum": 130},
        "INCTOT": {"type": "integer", "minimum": -1000, "maximum": 100000, "null": ["9999999"]},
    }
    declared = DatasetDeclaration.model_validate(
        {"name": "cps", "title": "CPS", "reader": "ddi", "cap": 1}
        | {"units": {**of_file, "record_type": "H", "columns": units}}
        | {"persons": {**of_file, "record_type": "P", "columns": persons}}
    )
    ingest(session, declared, tmp_path, b"key")
    households, people = (session.arrow("warehouse/all", source=table).to_pylist() for table in declared.cef_tables())
    assert sorted((each["SERIAL"], each["STATEFIP"], str(each["HHWT"])) for each in households) == [
        (each["SERIAL"], each["STATEFIP"], f"{each['HHWT']}00".lstrip("0").rjust(6, "0")) for each in records[::3]
    ]
    incomes = {"9999999": None, "": None}
    assert sorted(map(str, [(each["household"], each["AGE"], each["INCTOT"]) for each in people])) == sorted(
        str((each["SERIAL"], int(each["AGE"]), incomes.get(each["INCTOT"], int(each["INCTOT"] or 0))))
        for each in records
    )
    again = declared.model_dump(mode="json", exclude_unset=True) | {"cap": 1}
    del again["persons"]["record_type"]
    with pytest.raises(
        SourceError, match=r"^cps_1\.xml: has records of several types: declare record_type as one of H, P$"
    ):
        ingest(session, DatasetDeclaration.model_validate(again), tmp_path, b"key")


def change_width(text: str) -> str:
    return text.replace('EndPos="4" StartPos="1" width="4"', 'EndPos="4" StartPos="1" width="3"')


BAD_EXTRACTS: Mapping[str, tuple[Callable[[bytes], bytes], Callable[[str], str], str]] = {
    "another extract": (
        lambda data: data.replace(b"\n", b"0\n"),
        str,
        "usa_1.dat: line of another length than the 60 bytes that usa_1.xml gives: 4 rows",
    ),
    "a short line": (
        lambda data: data[:-9] + b"\n",
        str,
        "usa_1.dat: line of another length than the 60 bytes that usa_1.xml gives: 1 row",
    ),
    "an empty line": (
        lambda data: data + b"\n",
        str,
        "usa_1.dat: line of another length than the 60 bytes that usa_1.xml gives: 1 row",
    ),
    "mixed ends": (
        lambda data: data.replace(b"\n", b"\r\n", 2).replace(b"\r\n", b"\n", 1),
        str,
        "usa_1.dat: line end that differs from the first one's: 1 row",
    ),
    "a control character": (lambda data: b"\x00" + data[1:], str, "usa_1.dat: control character: 1 row"),
    "windows-1252": (
        lambda data: b"\x80" + data[1:],
        str,
        "usa_1.dat: byte that is not a letter of ISO-8859-1, which fixed-width text is read in: 1 row",
    ),
    "no records": (lambda data: b"", str, "usa_1.dat: is empty"),
    "no lines": (lambda data: b"0" * (1 << 24), str, "usa_1.dat: not text in lines"),
    "a truncated gzip": (
        lambda data: gzip.compress(data)[:-9],
        str,
        "usa_1.dat: compressed data that end early or are damaged",
    ),
    "letters in UTF-8": (
        lambda data: b"\xc3\xa9" + data[2:],
        lambda text: text.replace("ISO-8859-1", "UTF-8"),
        "usa_1.dat: byte that is not a letter of ASCII, which fixed-width text in UTF-8 needs: 1 row",
    ),
    "widths that do not add up": (
        bytes,
        change_width,
        "usa_1.xml: column YEAR: its width differs from its positions",
    ),
    "positions twice": (
        bytes,
        lambda text: text.replace('EndPos="10" StartPos="5" width="6"', 'EndPos="9" StartPos="4" width="6"'),
        "usa_1.xml: column SAMPLE: its positions are also another variable's",
    ),
    "no codebook": (bytes, lambda text: text[:-20], f"usa_1.xml: {NO_CODEBOOK}"),
    "another XML": (bytes, lambda text: "<a/>", f"usa_1.xml: {NO_CODEBOOK}"),
    "a variable that is not there": (
        bytes,
        lambda text: text.replace('name="AGE"', 'name="AGE2"'),
        f"usa_1.dat: column AGE: missing column; {RENAMED}",
    ),
}


@pytest.mark.parametrize("bad", BAD_EXTRACTS)
def test_an_extract_that_is_not_as_its_codebook_says_is_refused(session: Session, tmp_path: Path, bad: str) -> None:
    change, change_codebook, error = BAD_EXTRACTS[bad]
    codebook = write_codebook(tmp_path / "usa_1.xml", RECTANGULAR)
    records = make_records(4, random.Random(3))
    path = write_lines(tmp_path / "usa_1.dat", [write_record(RECTANGULAR, {**each, "OCC": ""}) for each in records])
    path.write_bytes(change(path.read_bytes()))
    codebook.write_text(change_codebook(codebook.read_text()))
    columns = {"AGE": {"type": "integer", "minimum": 0, "maximum": 130}}
    declared = DatasetDeclaration.model_validate(
        {"name": "usa", "title": "USA", "reader": "ddi", "cap": 1}
        | {"units": {"path": "usa_1.dat", "codebook": "usa_1.xml", "columns": columns}}
    )
    with pytest.raises(SourceError) as refused:
        ingest(session, declared, tmp_path, b"key")
    assert str(refused.value) == error


def test_a_codebook_gives_labels_widths_and_codes_for_no_value(tmp_path: Path) -> None:
    book = read_codebook(write_codebook(tmp_path / "usa_1.xml", RECTANGULAR))
    fields = book.fields
    assert fields["STATEFIP"].codes == {"01": "Alabama", "02": "Alaska", "06": "California"}
    assert (fields["INCTOT"].codes, fields["PERWT"].codes) == ({"9999999": "N/A"}, {"9999.99": "N/A"})
    assert (fields["HHWT"].decimals, fields["HHWT"].of_units, fields["PERWT"].of_units) == (2, True, False)
    assert fields["AGE"].label == "Age"


# Files of statistical packages

EPOCH = date(1960, 1, 1)


def make_table(count: int, draw: random.Random) -> dict[str, list[Any]]:
    return {
        "whole": [draw.choice([None, 0, -7, 1, 2**53 - 1, 12]) for _ in range(count)],
        "amount": [draw.choice([None, 0.1, -12.34, 1234567.8901, 3.0, 0.0001]) for _ in range(count)],
        "text": [draw.choice(["", "a", "01", " b", "Zo e"]) for _ in range(count)],
        "day": [
            draw.choice([None, EPOCH - timedelta(draw.randrange(90000)), EPOCH + timedelta(7)]) for _ in range(count)
        ],
    }


def write_text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.4f}".rstrip("0")
    return str(value)


WRITERS: Mapping[str, Callable[..., None]] = {
    ".dta": pyreadstat.write_dta,
    ".sav": pyreadstat.write_sav,
    ".zsav": lambda frame, path: pyreadstat.write_sav(frame, path, compress=True),
    ".por": pyreadstat.write_por,
    ".xpt": pyreadstat.write_xport,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_files_of_statistical_packages_are_read_as_they_are_written(
    session: Session, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: one that reads 1 as 1.0, a missing day as 1960, or only the first piece of a file."""
    monkeypatch.setattr(statistical, "CELLS", 200)
    table = make_table(130, random.Random(4))
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in table.items()})
    frame = frame.astype({"whole": float, "amount": float})
    path = tmp_path / f"survey{suffix}"
    WRITERS[suffix](frame, str(path))
    texts = read_texts(session, SUFFIXES[suffix], path)
    expected = [
        {name.upper() if suffix == ".por" else name: write_text(value) for name, value in zip(table, row, strict=True)}
        for row in zip(*table.values(), strict=True)
    ]
    if suffix in (".sav", ".zsav", ".por", ".xpt"):
        assert len(texts) == len(expected)
    assert texts == expected


def test_special_and_declared_missing_values_keep_their_reason(session: Session, tmp_path: Path) -> None:
    """Wrong program: reads .b as an empty field, which hides that it was an answer."""
    frame = pd.DataFrame({"income": pd.Series([1.0, "b", None, 99.0], dtype=object)})
    stata = tmp_path / "a.dta"
    pyreadstat.write_dta(
        frame,
        str(stata),
        column_labels={"income": "Income"},
        variable_value_labels={"income": {"b": "Refused", 99: "Most"}},
        missing_user_values={"income": ["b"]},
    )
    assert read_texts(session, Reader.STATA, stata) == [{"income": text} for text in ("1", ".b", None, "99")]
    described = statistical.open_file(stata).variables["income"]
    assert (described.label, described.codes) == ("Income", {".b": "Refused", "99": "Most"})
    columns = {"income": {"type": "integer", "minimum": 0, "maximum": 100}}
    declared = {"name": "s", "title": "S", "reader": "stata", "cap": 1, "units": {"path": "a.dta", "columns": columns}}
    columns["income"]["nullable"] = True
    with pytest.raises(SourceError, match=r"^a\.dta: column income: not of type integer: 1 row$"):
        ingest(session, DatasetDeclaration.model_validate(declared), tmp_path, b"key")
    columns["income"]["null"] = [".b"]  # type: ignore[assignment]
    ingest(session, DatasetDeclaration.model_validate(declared), tmp_path, b"key")
    spss = tmp_path / "a.sav"
    numbers = pd.DataFrame({"income": [1.0, 98.0, None, 99.0]})
    pyreadstat.write_sav(numbers, str(spss), missing_ranges={"income": [{"lo": 98, "hi": 99}]})
    assert read_texts(session, Reader.SPSS, spss) == [{"income": text} for text in ("1", "98", None, "99")]
    assert statistical.open_file(spss).variables["income"].missing == [("98", "99")]
    sas = tmp_path / "a.xpt"
    pyreadstat.write_xport(numbers, str(sas), file_format_version=5)
    content = bytearray(sas.read_bytes())
    start = content.find(b"HEADER RECORD*******OBS") + 80
    content[start + 8 : start + 16] = b"C" + bytes(7)
    sas.write_bytes(content)
    assert read_texts(session, Reader.SAS, sas) == [{"income": text} for text in ("1", ".C", None, "99")]


def test_a_file_of_sas_is_read_as_it_is(session: Session, tmp_path: Path) -> None:
    """Fisher's measurements, which SAS itself wrote. `pyreadstat` writes no such file."""
    packed = Path(__file__).with_name("iris.sas7bdat.gz")
    path = tmp_path / "iris.sas7bdat"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    texts = read_texts(session, Reader.SAS, path)
    assert texts[0] == dict(zip(texts[0], ("5.1", "3.5", "1.4", "0.2", "setosa"), strict=True))
    assert Counter(each["Species"] for each in texts) == dict.fromkeys(("setosa", "versic", "virgin"), 50)
    sums = [sum(Decimal(str(each[name])) for each in texts) for name in texts[0] if name != "Species"]
    assert list(map(str, sums)) == ["876.5", "458.6", "563.7", "179.9"]
    path.write_bytes(path.read_bytes()[:70_000])
    with pytest.raises(SourceError, match=rf"^iris\.sas7bdat: {statistical.NOT_WHOLE}$"):
        read_texts(session, Reader.SAS, path)


@pytest.mark.parametrize("version", [5, 8])
def test_transport_files_are_read_once_and_whole(session: Session, tmp_path: Path, version: int) -> None:
    """Wrong programs: one that reads a number of base 16 with another exponent, sign or last digit; one that takes
    blanks, or another table, for records; and one that drops a record of a file that was cut off."""
    draw = random.Random(8)
    numbers = [0.0, -1.5, 0.1, 2.0**53 - 1, 1e-40, -3e70, *(draw.uniform(-1e9, 1e9) for _ in range(300))]
    table = pd.DataFrame({"a": numbers, "b": ["x", "éab", ""] * 102})
    path = tmp_path / "a.xpt"
    pyreadstat.write_xport(table, str(path), file_format_version=version)
    peer, _ = pyreadstat.read_xport(str(path))
    texts = read_texts(session, Reader.SAS, path)
    assert [float(str(each["a"])) for each in texts] == peer["a"].to_list()
    assert [each["b"] or "" for each in texts] == table["b"].to_list()
    content = path.read_bytes()
    (cut,) = [400] if version == 8 else [160]
    for wrong in (content[:-cut], content[:-1], content + b" " * 80, content + content[240:]):
        path.write_bytes(wrong)
        with pytest.raises(SourceError, match=r"not a whole file of its format|more than one table"):
            read_texts(session, Reader.SAS, path)


def truncate(suffix: str, path: Path) -> None:
    frame = pd.DataFrame({"a": [float(number) for number in range(2000)], "b": ["x"] * 2000})
    WRITERS[suffix](frame, str(path))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def write_floats(path: Path) -> None:
    pyreadstat.write_dta(pd.DataFrame({"a": [1.5, 0.1 + 0.2, 2.0**60]}), str(path))


def write_times(path: Path) -> None:
    pyreadstat.write_sav(pd.DataFrame({"a": [datetime(2020, 1, 1, 12)] * 3}), str(path))


BAD_FILES: Mapping[str, tuple[str, Callable[[Path], Any], Sequence[str]]] = {
    "truncated Stata": ("a.dta", lambda path: truncate(".dta", path), [statistical.NOT_WHOLE]),
    "truncated SPSS": ("a.sav", lambda path: truncate(".sav", path), [statistical.NOT_WHOLE]),
    "truncated SPSS, compressed": ("a.zsav", lambda path: truncate(".zsav", path), [statistical.NOT_WHOLE]),
    "truncated SPSS, portable": ("a.por", lambda path: truncate(".por", path), [statistical.NOT_WHOLE]),
    "truncated SAS": ("a.xpt", lambda path: truncate(".xpt", path), [statistical.NOT_WHOLE]),
    "no file": ("a.dta", lambda path: None, ["there is no such file"]),
    "text": ("a.sas7bdat", lambda path: path.write_text("a,b\n1,2\n"), [f"{statistical.NOT_WHOLE}: it is text s"]),
    "of another package": ("a.sav", lambda path: truncate(".dta", path), [f"{statistical.NOT_WHOLE}: it is a Stata f"]),
    "of no package": ("a.dat", lambda path: path.write_text("1"), ["its suffix is not one of .sav, .zsav, .por"]),
    "floats": ("a.dta", write_floats, ["column a: more than 4 digits", "column a: not of type decimal: 1 row"]),
    "times": ("a.sav", write_times, ["(DATETIME20), which Stirred does not read; write its day as a date"]),
}


@pytest.mark.parametrize("bad", BAD_FILES)
def test_a_file_that_is_not_exactly_readable_is_refused(session: Session, tmp_path: Path, bad: str) -> None:
    name, write, errors = BAD_FILES[bad]
    write(tmp_path / name)
    reader = SUFFIXES.get(Path(name).suffix, Reader.SPSS)
    declared = DatasetDeclaration.model_validate(
        {"name": "s", "title": "S", "reader": reader, "cap": 1}
        | {"units": {"path": name, "columns": {"A" if name.endswith(".por") else "a": {"type": "decimal"}}}}
    )
    with pytest.raises(SourceError) as refused:
        ingest(session, declared, tmp_path, b"key")
    lines = str(refused.value).splitlines()
    assert len(lines) == len(errors)
    assert all(line.startswith(name) and error in line for line, error in zip(lines, errors, strict=True)), lines
