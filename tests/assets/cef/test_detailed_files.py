"""SafeTab's input files become a CEF exactly as they are written, or are refused by file, column, rule and number.

The oracle of a good file is the rows that it was written from.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count, pairwise, product
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.cef.asset import build_cef
from assets.cef.census import BLOCK_FILES, PLACE, BlockFilesDeclaration, detailed_files, find_place_names
from assets.cef.ingestion import ingest
from assets.cef.validation import AS_MEANT, SourceError, cef_problems
from orchestration.components import SafeTabDataset
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse
from tests.deployments import resources_of
from tests.depth import deep_cases

VERSION_KEY = bytes(range(32))
NAMES = {table: file.name for table, file in BLOCK_FILES.items()}
CODES = [f"QRACE{place}" for place in range(1, 9)]
PLACE_NAMES = list(PLACE)

Row = dict[str, str]
Files = dict[str, list[Row]]

# Two blocks of one tract, and a block of another state with the same codes below the state.
BLOCKS = [("01", "001", "000100", "1000"), ("01", "001", "000100", "1001"), ("72", "001", "000100", "1000")]


def good() -> Files:
    """Two persons in each of three blocks, and a household in two of them; one of the blocks is in no place."""
    blocks = [
        dict(zip(PLACE_NAMES, place, strict=True), PLACEFP=f"{99999 - number:05}", AIANNHCE="9999")
        for number, place in enumerate(BLOCKS)
    ]
    codes = dict.fromkeys(CODES, "Null") | {"QRACE1": "1010", "QRACE2": "1015", "QSPAN": "9950"}
    persons = [
        {
            **{"QAGE": age, "QSEX": str(number % 2 + 1), "HOUSEHOLDER": str(number % 2 == 0)},
            **dict(zip(PLACE_NAMES, BLOCKS[number % 3], strict=True)),
            **{"CENRACE": "01", **codes},
        }
        for number, age in enumerate(["0", "115", "007", "40", "041", "5"])
    ]
    households = [
        {**dict(zip(PLACE_NAMES, place, strict=True)), "HHRACE": "63", **codes, "HOUSEHOLD_TYPE": "5", "TEN": "4"}
        for place in BLOCKS[:2]
    ]
    return {"units": blocks, "persons": persons, "households": households}


def text_of(rows: list[Row], table: str, end: str = "\n") -> bytes:
    names = list(rows[0]) if rows else list(BLOCK_FILES[table].columns)
    return "".join("|".join(fields) + end for fields in [names, *(list(row.values()) for row in rows)]).encode()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that do not exist yet. DuckDB remembers files by their paths, so each is used only once."""
    parent = tmp_path_factory.mktemp("files")
    return (parent / str(number) for number in count())


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Warehouse(folder=str(tmp_path_factory.mktemp("warehouse")), threads=1).session(
        writes=Zone.CONFIDENTIAL
    ) as session:
        yield session


def declared(with_households: bool = True, **described: Any) -> BlockFilesDeclaration:
    households = NAMES["households"] if with_households else None
    return detailed_files(
        NAMES["units"], NAMES["persons"], households, **{"name": "detailed", "title": "Files", "cap": 1} | described
    )


def write(folder: Path, contents: Mapping[str, bytes | None]) -> Path:
    folder.mkdir()
    for table, content in contents.items():
        if content is not None:
            (folder / NAMES[table]).write_bytes(content)
    return folder


def texts(files: Files) -> dict[str, bytes | None]:
    return {table: text_of(rows, table) for table, rows in files.items()}


def stored(session: Session) -> dict[str, list[Row]]:
    """The rows of the CEF's tables, in any order, with all values as texts."""
    tables = {}
    for table in BLOCK_FILES:
        address = Table(Zone.CONFIDENTIAL, "detailed", table)
        if columns := session.columns(address):
            rows = session.rows("cef/records", columns=list(columns), table=address)
            tables[table] = [dict(zip(columns, map(str, row), strict=True)) for row in rows]
    return tables


def refusal(session: Session, folder: Path, contents: Mapping[str, bytes | None], **how: Any) -> list[str]:
    before = stored(session)
    with pytest.raises(SourceError) as refused:
        ingest(session, declared(**how), write(folder, contents), VERSION_KEY)
    assert stored(session) == before, "nothing was written"
    return str(refused.value).splitlines()


def as_stored(rows: list[Row], table: str) -> list[Row]:
    """The CEF's rows for the rows of a file: the place in one column, and ages as numbers."""
    kept = []
    for row in rows:
        others = {name: value for name, value in row.items() if table == "units" or name not in PLACE}
        if "QAGE" in others:
            others["QAGE"] = str(int(others["QAGE"]))
        kept.append({"BLOCK": "".join(row[name] for name in PLACE), **others})
    return kept


def in_order(tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    return {table: sorted(rows, key=str) for table, rows in tables.items()}


@pytest.mark.parametrize("end", ["\n", pytest.param("\r\n", marks=pytest.mark.deep)])
def test_good_files_are_read_exactly_as_written(session: Session, folders: Iterator[Path], end: str) -> None:
    files = good()
    contents = {table: text_of(rows, table, end) for table, rows in files.items()}
    ingest(session, declared(), write(next(folders), contents), VERSION_KEY)
    assert in_order(stored(session)) == in_order({table: as_stored(rows, table) for table, rows in files.items()})
    assert cef_problems(session, declared()) == []
    persons = session.columns(Table(Zone.CONFIDENTIAL, "detailed", "persons"))
    assert persons == {"BLOCK": "VARCHAR", **dict.fromkeys(persons, "VARCHAR"), "QAGE": "BIGINT"}


def test_further_columns_of_blocks_are_ignored_wherever_they_stand(session: Session, folders: Iterator[Path]) -> None:
    plain = ingest(session, declared(), write(next(folders), texts(good())), VERSION_KEY)
    files = good()
    files["units"] = [{"X": "", **row, "BLOCK": "no block", "Y": '"a|b"'} for row in files["units"]]
    assert ingest(session, declared(), write(next(folders), texts(files)), VERSION_KEY).content == plain.content


def test_households_that_are_no_longer_declared_leave_the_cef(session: Session, folders: Iterator[Path]) -> None:
    ingest(session, declared(), write(next(folders), texts(good())), VERSION_KEY)
    assert set(stored(session)) == {"units", "persons", "households"}
    contents = texts(good()) | {"households": b"not read"}
    version = ingest(session, declared(with_households=False), write(next(folders), contents), VERSION_KEY)
    assert set(stored(session)) == {"units", "persons"}
    assert version.content != ingest(session, declared(), write(next(folders), texts(good())), VERSION_KEY).content


# Headers


def _headers() -> Iterator[tuple[str, str, Callable[[list[str]], list[str]], str]]:
    for table in BLOCK_FILES:
        columns = list(BLOCK_FILES[table].columns)
        rule = BLOCK_FILES[table].header_problem([])
        assert rule is not None
        assert "|".join(columns) in rule
        yield table, "two columns exchanged", lambda names: [names[1], names[0], *names[2:]], rule
        yield table, "a column less", lambda names: names[:-1], rule
        yield table, "another case", lambda names: [names[0].lower(), *names[1:]], rule
        yield table, "a column twice", lambda names: [*names, names[0]], rule
        if table != "units":
            yield table, "a further column", lambda names: [*names, "X"], rule


@deep_cases(5)
@pytest.mark.parametrize(
    ("table", "change", "rule"),
    [
        pytest.param(table, change, rule, id=f"{table}: {kind}", marks=[pytest.mark.deep] if number % 4 else [])
        for number, (table, kind, change, rule) in enumerate(_headers())
    ],
)
def test_the_columns_are_exactly_those_of_the_layout_in_its_order(
    session: Session, folders: Iterator[Path], table: str, change: Callable[[list[str]], list[str]], rule: str
) -> None:
    """The rows change with the header, so that only the header is wrong."""
    rows = [list(row.values()) for row in good()[table]]
    names = list(BLOCK_FILES[table].columns)
    changed = change(names)
    lines = [changed, *([dict(zip(names, row, strict=True)).get(name, row[0]) for name in changed] for row in rows)]
    content = "".join("|".join(line) + "\n" for line in lines).encode()
    assert refusal(session, next(folders), texts(good()) | {table: content}) == [f"{NAMES[table]}: {rule}"]


# Values


OUTSIDE = {
    "QAGE": ["116", "-1", "1a", "4.5"],
    "QSEX": ["0", "3", "01", "M"],
    "HOUSEHOLDER": ["true", "1", "FALSE"],
    "TABBLKST": ["1", "001", "0a", " 1"],
    "TABBLKCOU": ["01", "0001"],
    "TABTRACTCE": ["00010", "0001000"],
    "TABBLK": ["100", "10000", "100 "],
    "PLACEFP": ["9999", "999999"],
    "AIANNHCE": ["999", "99999"],
    "CENRACE": ["00", "64", "1"],
    "HHRACE": ["00", "64", "1"],
    **{code: ["0101", "101", "10100", "NULL", "null", "10a0", " Null"] for code in CODES},
    "QRACE1": ["0101", "101", "10100", "Null", "10a0"],
    "QSPAN": ["995", "99500", "Null", "995a"],
    "HOUSEHOLD_TYPE": ["0", "6", "01"],
    "TEN": ["0", "5", "01"],
}
EVERY_VALUE = [
    (table, column, value)
    for table, file in BLOCK_FILES.items()
    for column in file.columns
    if column not in CODES[3:7]
    for value in [*OUTSIDE[column], ""]
]


@pytest.mark.deep
def test_every_value_outside_its_domain_is_refused_under_the_column_of_the_file(
    session: Session, folders: Iterator[Path]
) -> None:
    """This includes the values of the place, for which the CEF has only one column. The quick suite takes some of the
    values."""
    ingest(session, declared(), write(next(folders), texts(good())), VERSION_KEY)
    every_value = random.Random(13).sample(EVERY_VALUE, 8)
    _refuse_each(session, folders, every_value)


@pytest.mark.prove
def test_all_values_outside_their_domains_are_refused(session: Session, folders: Iterator[Path]) -> None:
    ingest(session, declared(), write(next(folders), texts(good())), VERSION_KEY)
    assert len(EVERY_VALUE) > 100
    _refuse_each(session, folders, EVERY_VALUE)


def _refuse_each(session: Session, folders: Iterator[Path], values: list[tuple[str, str, str]]) -> None:
    for table, column, value in values:
        files = good()
        files[table][1][column] = value
        meant = BLOCK_FILES[table].columns[column]
        rule = f"value outside its domain {meant.domain_in_words}"
        if value == "":
            rule = "null where none is allowed"
        elif column == "QAGE" and value in ("1a", "4.5"):
            rule = "not of type integer"
        said = [re.sub(f"; ({'|'.join(AS_MEANT)})", "", line) for line in refusal(session, next(folders), texts(files))]
        if table == "units" and column in PLACE:
            # The persons and households of the block are then without one.
            assert said.pop(0) == f"{NAMES[table]}: column {column}: {rule}: 1 row"
            assert said == [
                f"{NAMES[other]}: column BLOCK: {other[:-1]} without a unit in BLOCK: {rows}"
                for other, rows in (("persons", "2 rows"), ("households", "1 row"))
            ]
            continue
        expected = [f"{NAMES[table]}: column {column}: {rule}: 1 row"]
        if column in CODES[3:] and value:
            place = CODES.index(column) + 1
            expected.append(f"{NAMES[table]}: column {column}: a code although QRACE{place - 1} is Null: 1 row")
        assert said == expected, (table, column, value)


def test_no_part_of_a_place_is_taken_for_another(session: Session, folders: Iterator[Path]) -> None:
    """Columns of wrong lengths whose digits, one after the other, are those of a block."""
    files = good()
    files["persons"][0].update(TABBLKST="010", TABBLKCOU="01")
    files["households"][0].update(TABTRACTCE="0001001", TABBLK="000")
    assert refusal(session, next(folders), texts(files)) == [
        "person-records.txt: column TABBLKST: value outside its domain matching [0-9]{2}: 1 row",
        "person-records.txt: column TABBLKCOU: value outside its domain matching [0-9]{3}: 1 row",
        "household-records.txt: column TABTRACTCE: value outside its domain matching [0-9]{6}: 1 row",
        "household-records.txt: column TABBLK: value outside its domain matching [0-9]{4}: 1 row",
    ]


# Records that do not fit together


def test_a_record_of_an_unknown_block_and_a_repeated_block_are_refused(
    session: Session, folders: Iterator[Path]
) -> None:
    files = good()
    files["persons"][0]["TABBLK"] = files["households"][1]["TABBLK"] = "1002"
    files["units"].append(files["units"][0] | {"PLACEFP": "12345"})
    assert refusal(session, next(folders), texts(files)) == [
        "GRF-C.txt: column BLOCK: key that another row has: 1 row",
        "person-records.txt: column BLOCK: person without a unit in BLOCK: 1 row",
        "household-records.txt: column BLOCK: household without a unit in BLOCK: 1 row",
    ]


@pytest.mark.parametrize("table", ["households", pytest.param("persons", marks=pytest.mark.deep)])
def test_no_race_code_follows_a_null(session: Session, folders: Iterator[Path], table: str) -> None:
    """Every pattern of Null and code in the eight columns: accepted if and only if all Nulls are behind all codes."""
    files = good()
    patterns = [f"{pattern:07b}" for pattern in range(128)]
    template = files[table][0]
    files[table] = [
        template | {name: "1010" if digit == "1" else "Null" for name, digit in zip(CODES[1:], pattern, strict=True)}
        for pattern in patterns
    ]
    broken = [sum(pattern[place - 2 : place] == "01" for pattern in patterns) for place in range(2, 8)]
    assert refusal(session, next(folders), texts(files)) == [
        f"{NAMES[table]}: column QRACE{place}: a code although QRACE{place - 1} is Null: {rows} rows"
        for place, rows in enumerate(broken, 3)
    ]
    kept = [pattern for pattern in patterns if all(first >= second for first, second in pairwise(pattern))]
    assert len(kept) == 8
    files[table] = [row for row, pattern in zip(files[table], patterns, strict=True) if pattern in kept]
    ingest(session, declared(), write(next(folders), texts(files)), VERSION_KEY)
    assert len(stored(session)[table]) == 8


# The form of the text

DAMAGES: dict[str, tuple[Callable[[bytes], bytes | None], str]] = {
    "missing": (lambda whole: None, "there is no such file"),
    "only a header": (lambda whole: whole.split(b"\n")[0] + b"\n", "contains no records"),
    "a field more": (lambda whole: whole[:-1] + b"|\n", "more fields than the header: 1 row"),
    "a field less": (lambda whole: whole[: whole.rindex(b"|")] + b"\n", "fewer fields than the header: 1 row"),
    "an empty line": (lambda whole: whole + b"\n", "empty line: 1 row"),
    "a quote that is never closed": (
        lambda whole: whole[: whole.rindex(b"|") + 1] + b'"9\n', "quote that is never closed: 1 row"),
    "another line end": (lambda whole: whole[:-1] + b"\r\n", "line end that differs from the header's: 1 row"),
    "a comma in a field": (
        lambda whole: whole.replace(b"|", b",").replace(b",", b"|", 1), ""),
}  # fmt: skip


@deep_cases(8)
@pytest.mark.parametrize(
    ("table", "kind"),
    [
        pytest.param(table, kind, marks=[pytest.mark.deep] if number % 5 else [])
        for number, (table, kind) in enumerate(product(BLOCK_FILES, DAMAGES))
    ],
)
def test_the_text_is_checked_by_the_grammar_of_every_text_file(
    session: Session, folders: Iterator[Path], table: str, kind: str
) -> None:
    damage, rule = DAMAGES[kind]
    contents = texts(good())
    whole = contents[table]
    assert whole is not None
    said = refusal(session, next(folders), contents | {table: damage(whole)})
    assert said == [f"{NAMES[table]}: {rule or BLOCK_FILES[table].header_problem([])}"]


@pytest.mark.deep
def test_quotes_are_those_of_the_grammar(session: Session, folders: Iterator[Path]) -> None:
    plain = ingest(session, declared(), write(next(folders), texts(good())), VERSION_KEY)
    content = text_of(good()["persons"], "persons").replace(b"|1010|", b'|"1010"|')
    read = ingest(session, declared(), write(next(folders), texts(good()) | {"persons": content}), VERSION_KEY)
    assert read.content == plain.content
    inside = text_of(good()["persons"], "persons").replace(b"|1010|", b'|10"10|', 1)
    assert refusal(session, next(folders), texts(good()) | {"persons": inside}) == [
        "person-records.txt: column QRACE1: quote in a field that does not begin with one: 1 row"
    ]


# The component and the asset

YAML = """
name: detailed
title: Files of SafeTab
cap: {rho: 30}
persons: "{{ env.CEF_FOLDER }}/person-records.txt"
blocks: files/GRF-C.txt
"""


def test_the_component_becomes_the_declaration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEF_FOLDER", str(tmp_path))
    alone = SafeTabDataset.resolve_from_yaml(YAML).declaration
    assert {name: records.path for name, records in alone.tables.items()} == {
        "units": "files/GRF-C.txt",
        "persons": f"{tmp_path}/person-records.txt",
    }
    assert (alone.record_name, alone.population, alone.synthetic, alone.asks) == ("block", "detailed", False, True)
    more = "households: h.txt\nsynthetic: true\nplace_names: {'01': Østlandet}"
    both = SafeTabDataset.resolve_from_yaml(f"{YAML}{more}").declaration
    assert both.tables["households"].path == "h.txt"
    assert find_place_names(both) == {"01": "Østlandet"}


@pytest.mark.deep
def test_the_asset_shows_every_table_and_the_files(tmp_path: Path) -> None:
    write(tmp_path / "files", texts(good()))
    paths = (f"{tmp_path}/files/{NAMES[table]}" for table in ("units", "persons", "households"))
    declaration = detailed_files(*paths, name="detailed", title="Files", cap=1, synthetic=True)
    resources = resources_of(Warehouse(folder=str(tmp_path)), Custody(folder=str(tmp_path / "custody")))
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(build_cef(declaration, tmp_path), resources=resources, instance=instance)
        assert {found.check_name: found.passed for found in result.get_asset_check_evaluations()} == {
            "schema_and_keys": True,
            "as_read": True,
            "structure": True,
        }
        (made,) = result.asset_materializations_for_node("detailed__cef")
    counts = {name: made.metadata[name].value for name in ("dagster/row_count", "persons", "households")}
    assert counts == {"dagster/row_count": 3, "persons": 6, "households": 2}
    assert made.metadata["source"].value == "GRF-C.txt, person-records.txt, household-records.txt"


def test_the_check_of_the_stored_tables_finds_households_without_a_block(
    session: Session, folders: Iterator[Path]
) -> None:
    ingest(session, declared(), write(next(folders), texts(good())), VERSION_KEY)
    units = Table(Zone.CONFIDENTIAL, "detailed", "units")
    columns = list(session.columns(units))
    first = session.stage("first", "warehouse/first_rows", {"rows": 1}, columns=columns, source=units)
    session.create(units, "warehouse/all", source=first)
    assert cef_problems(session, declared()) == [
        "persons: column BLOCK: person without a unit in BLOCK: 4 rows",
        "households: column BLOCK: household without a unit in BLOCK: 1 row",
    ]


@pytest.mark.prove
def test_records_in_blocks_that_the_geography_lacks_are_left_out_if_that_is_declared(
    session: Session, folders: Iterator[Path]
) -> None:
    """The CEF is that of files without these records, and only the confidential zone has their number. Wrong programs:
    leave out too many records, or none, or change the units; each gives another version."""
    files = good()
    lost = dict(zip(PLACE_NAMES, ("01", "001", "000100", "1002"), strict=True))
    more = {
        "units": files["units"],
        "persons": [*files["persons"], {**files["persons"][0], **lost}, {**files["persons"][1], **lost}],
        "households": [{**files["households"][0], **lost}, *files["households"]],
    }
    assert refusal(session, next(folders), texts(more)) == [
        "person-records.txt: column BLOCK: person without a unit in BLOCK: 2 rows",
        "household-records.txt: column BLOCK: household without a unit in BLOCK: 1 row",
    ]
    dropping = declared(unmatched="drop")
    version = ingest(session, declared(), write(next(folders), texts(files)), VERSION_KEY).content
    dropped = Table(Zone.CONFIDENTIAL, "detailed", "dropped")
    assert not session.columns(dropped)
    assert ingest(session, dropping, write(next(folders), texts(more)), VERSION_KEY).content == version
    assert sorted(session.rows("warehouse/all", source=dropped)) == [("households", 1), ("persons", 2)]
    assert cef_problems(session, dropping) == []
    assert dropping.describe_reading([]) == ("Records in a block that the file of blocks lacks are left out.",)
    nowhere = {**more, "households": more["households"][:1]}
    with pytest.raises(SourceError, match=r"household-records\.txt: no record is in one of the blocks"):
        ingest(session, dropping, write(next(folders), texts(nowhere)), VERSION_KEY)
    ingest(session, declared(), write(next(folders), texts(files)), VERSION_KEY)
    assert not session.columns(dropped), "an earlier declaration's number does not stay"


def test_households_need_no_file_of_persons(
    session: Session, folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = good()
    del files["persons"]
    alone = detailed_files(NAMES["units"], None, NAMES["households"], name="detailed", title="Files", cap=1)
    ingest(session, alone, write(next(folders), texts(files)), VERSION_KEY)
    assert in_order(stored(session)) == in_order({table: as_stored(rows, table) for table, rows in files.items()})
    files["households"][0] |= {"QRACE2": "Null", "QRACE3": "1010"}
    with pytest.raises(
        SourceError, match=r"household-records\.txt: column QRACE3: a code although QRACE2 is Null: 1 row"
    ):
        ingest(session, alone, write(next(folders), texts(files)), VERSION_KEY)
    monkeypatch.setenv("CEF_FOLDER", "here")
    without = YAML.replace("persons: ", "households: ")
    assert SafeTabDataset.resolve_from_yaml(without).declaration.persons is None
    with pytest.raises(Exception, match="persons: declare the file of persons, of households, or both"):
        SafeTabDataset.resolve_from_yaml(
            "".join(line for line in YAML.splitlines(True) if not line.startswith("persons"))
        )
