"""Files of lists: both line ends, exact headers, values kept as written, and errors that name file, field and rule."""

import tomllib
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest
from setuptools import find_namespace_packages

from assets.safetab.lists import FIELDS, PRODUCTION, ListsFileError, read_lists
from mechanisms.safetab.lists import CODES_FILE, ETHNICITY_FILE, MAP_FILE, RACE_FILE

ROOT = Path(__file__).parents[3]

SMALL = {
    RACE_FILE: [
        "ITERATION_CODE|ITERATION_NAME|LEVEL|ALONE|DETAILED_ONLY|COARSE_ONLY",
        "1001|White alone|0|True|Null|Null",
        "1003|Albanian alone |2|True|False|False",
        "0014|Albanian alone or in any combination|2|False|True|False",
    ],
    ETHNICITY_FILE: ["ITERATION_CODE|ITERATION_NAME|LEVEL|DETAILED_ONLY|COARSE_ONLY", "4001|Latino|2|False|True"],
    CODES_FILE: ["RACE_ETH_CODE|RACE_ETH_NAME", '1010|"Albanian', "2010|Null"],
    MAP_FILE: ["ITERATION_CODE|RACE_ETH_CODE", "1003|1010", "0014|1010", "4001|2010"],
}


def write(folder: Path, end: str = "\n", last: str = "\n", **changes: list[str]) -> Path:
    """The small lists with some files replaced."""
    for name, lines in (SMALL | changes).items():
        (folder / name).write_bytes((end.join(lines) + last).encode())
    return folder


@pytest.mark.parametrize(("end", "last"), [("\n", "\n"), ("\r\n", "\r\n"), ("\n", ""), ("\r\n", "")])
def test_values_are_taken_as_written_whatever_the_line_ends(tmp_path: Path, end: str, last: str) -> None:
    lists = read_lists(write(tmp_path, end, last))
    assert dict(lists.names) == {"1010": '"Albanian', "2010": "Null"}
    assert [each.name for each in lists.race] == ["White alone", "Albanian alone ", SMALL[RACE_FILE][3].split("|")[1]]
    assert [(each.level, each.alone, each.detailed_only, each.coarse_only) for each in lists.race] == [
        (0, True, None, None),
        (2, True, False, False),
        (2, False, True, False),
    ]
    assert [(each.code, each.alone, each.coarse_only) for each in lists.ethnicity] == [("4001", None, True)]
    assert lists.pairs == (("1003", "1010"), ("0014", "1010"), ("4001", "2010"))


def test_files_that_begin_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / CODES_FILE
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_lists(tmp_path) == read_lists(write(tmp_path))


def test_the_shipped_lists_end_in_lf_and_name_their_source_and_license() -> None:
    assert {path.name for path in PRODUCTION.iterdir()} == {*FIELDS, "NOTICE.txt"}
    for path in PRODUCTION.iterdir():
        assert b"\r" not in path.read_bytes()
    notice = (PRODUCTION / "NOTICE.txt").read_text("utf-8")
    for words in (
        "SafeTab-P 5.0.0",
        "NMFv7-2020",
        "Apache License, Version 2.0",
        "Copyright 2023 Tumult Labs",
        "Changes:",
    ):
        assert words in notice
    assert (ROOT / "LICENSE").read_text("utf-8").split()[:4] == ["Apache", "License", "Version", "2.0,"]


def test_105_names_of_production_end_in_a_blank() -> None:
    lists = read_lists()
    names = [*lists.names.values(), *(each.name for each in lists.iteration.values())]
    assert sum(name.endswith(" ") for name in names) == 105


def edited(file: str, change: Callable[[list[str]], list[str]]) -> dict[str, list[str]]:
    return {file: change(SMALL[file])}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            edited(RACE_FILE, lambda rows: [rows[0].replace("LEVEL", "level"), *rows[1:]]),
            f"{RACE_FILE}: the first line",
        ),
        (edited(RACE_FILE, lambda rows: [rows[0] + "|CIFLAG", *rows[1:]]), f"{RACE_FILE}: the first line must be"),
        (edited(ETHNICITY_FILE, lambda rows: ["ITERATION_CODE|LEVEL", *rows[1:]]), f"{ETHNICITY_FILE}: the first line"),
        (edited(CODES_FILE, lambda rows: []), f"{CODES_FILE}: the file is empty"),
        (edited(CODES_FILE, lambda rows: rows[:1]), f"{CODES_FILE}: the file has no rows"),
        (edited(MAP_FILE, lambda rows: [*rows, ""]), f"{MAP_FILE}: all fields: a row has 2 fields: 1 row$"),
        (edited(MAP_FILE, lambda rows: [*rows, "1003|1010|1", "1"]), f"{MAP_FILE}: all fields: .*: 2 rows$"),
        (edited(MAP_FILE, lambda rows: [*rows, "100|1010"]), f"{MAP_FILE}: ITERATION_CODE: .*four digits: 1 row$"),
        (
            edited(CODES_FILE, lambda rows: [*rows, "0010|x"]),
            f"{CODES_FILE}: RACE_ETH_CODE: .*first from 1 to 9: 1 row$",
        ),
        (edited(CODES_FILE, lambda rows: [*rows, "1٠10|x"]), f"{CODES_FILE}: RACE_ETH_CODE: "),
        (
            edited(CODES_FILE, lambda rows: [*rows, "1011|"]),
            f"{CODES_FILE}: RACE_ETH_NAME: a name is not empty: 1 row$",
        ),
        (edited(CODES_FILE, lambda rows: [*rows, rows[1]]), f"{CODES_FILE}: RACE_ETH_CODE: a code is repeated: 1 row$"),
        (edited(RACE_FILE, lambda rows: [*rows, "1|x|3|True|False|False"]), f"{RACE_FILE}: ITERATION_CODE: "),
        (edited(RACE_FILE, lambda rows: [*rows, "1004|x|3|True|False|False"]), f"{RACE_FILE}: LEVEL: .*: 1 row$"),
        (edited(RACE_FILE, lambda rows: [*rows, "1004|x|2|Null|False|False"]), f"{RACE_FILE}: ALONE: .*: 1 row$"),
        (
            edited(RACE_FILE, lambda rows: [*rows, "1004|x|2|True|null|False"]),
            f"{RACE_FILE}: DETAILED_ONLY: .*: 1 row$",
        ),
        (edited(RACE_FILE, lambda rows: [*rows, "1004|x|2|True|False| "]), f"{RACE_FILE}: COARSE_ONLY: .*: 1 row$"),
        (edited(RACE_FILE, lambda rows: [*rows, "1004|x|2|True|True|True"]), "not both True: 1 offender$"),
        (edited(MAP_FILE, lambda rows: [*rows, "1009|1010"]), f"{MAP_FILE}: ITERATION_CODE: .*: 1 offender$"),
        (edited(MAP_FILE, lambda rows: [*rows, rows[1]]), f"{MAP_FILE}: all fields: a row is repeated: 1 offender$"),
    ],
)
def test_files_that_break_a_rule_are_refused(tmp_path: Path, changes: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ListsFileError, match=f"^{tmp_path}: .*{message}"):
        read_lists(write(tmp_path, **changes))


@pytest.mark.parametrize("file", FIELDS)
def test_a_missing_file_is_named(tmp_path: Path, file: str) -> None:
    (write(tmp_path) / file).unlink()
    with pytest.raises(ListsFileError, match=f"{file}: the file cannot be read .No such file"):
        read_lists(tmp_path)


def test_a_file_that_is_not_utf_8_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    (tmp_path / CODES_FILE).write_bytes(b"RACE_ETH_CODE|RACE_ETH_NAME\n1010|\xff\n")
    with pytest.raises(ListsFileError, match=f"{CODES_FILE}: the file is not UTF-8 text"):
        read_lists(tmp_path)
    monkeypatch.setattr("assets.safetab.lists.LARGEST", 30)
    with pytest.raises(ListsFileError, match=f"{CODES_FILE}: .*it has more than 30 bytes"):
        read_lists(tmp_path)


@pytest.mark.deep
def test_the_shipped_lists_are_part_of_an_installation() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    packages = find_namespace_packages(str(ROOT), include=declared["packages"]["find"]["include"])
    assert ".".join(PRODUCTION.relative_to(ROOT).parts) in packages
    for path in PRODUCTION.iterdir():
        assert any(fnmatch(path.name, pattern) for pattern in declared["package-data"]["*"])
