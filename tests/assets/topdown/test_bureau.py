"""Noisy measurement files in the Census Bureau's layout: read as they are, and estimated with an unmeasured level of
states."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click import UsageError

from assets.topdown.anew import Source, write_anew
from assets.topdown.asking import PlacesError
from assets.topdown.bureau import PART, FilesError, list_files, read_bureau
from assets.topdown.ways import Estimation
from mechanisms.refusal import RefusedError
from mechanisms.topdown.schema import HOUSEHOLDS, OCCUPIED, PERSONS
from orchestration.cli import main
from stirred.topdown import estimate, estimate_published

PLACES = {
    "US": ["0"],
    "State": ["001", "102", "002"],
    "County": ["001000001", "001000003", "002000001", "102000001", "102000005"],
}
"""State 02 has a part with American Indian areas, and one without."""

ABOVE = {"US": [0], "State": [0, 0, 0], PART: [0, 1, 1], "County": [0, 0, 1, 2, 2]}
ORDERED = ["001", "002", "102"]
QUERIES = {
    "total_dpq": ("*", "*", "*", "*"),
    "hhinstlevels_dpq": ("hhinstlevels", "*", "*", "*"),
    "cenrace * votingage_dpq": ("*", "votingage", "*", "cenrace"),
    "detailed_dpq": ("detailed", "detailed", "detailed", "detailed"),
}
AXES = ("hhgq", "votingage", "hispanic", "cenrace")
OTHER = ("hhinstlevels_dpq", "001000001")
SIGMA = {"total_dpq": 4.0, "hhinstlevels_dpq": 30.0, "cenrace * votingage_dpq": 12.5, "detailed_dpq": 9.25}


def asks(specifications: tuple[str, ...]) -> str:
    asked = [each for each in specifications if each != "*"]
    return "detailed" if set(asked) == {"detailed"} else " * ".join(asked) or "total"


def write(path: Path, rows: list[dict[str, Any]], integers: pa.DataType) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    fields = {"value": pa.list_(integers), "variance": pa.float32()}
    pq.write_table(pa.table({name: pa.array(own, fields.get(name)) for name, own in columns.items()}), path)


def made(folder: Path, change: Callable[[dict[str, Any]], Any] = lambda row: None) -> dict[str, Any]:
    """Write files of three levels, and return the true counts by histogram and level. The change "out" leaves a row
    out; other changes are fields that replace the row's."""
    random = np.random.default_rng(4)
    truth = random.poisson(0.4, (5, PERSONS.size)) * PERSONS.possible
    truth[:, PERSONS.groups.cells == 6] = 0
    persons = {"County": truth, "State": np.add.reduceat(truth[[0, 1, 3, 4, 2]], [0, 2, 4])}
    persons["US"] = truth.sum(axis=0)[None]
    households = PERSONS.groups.answer(truth)[:, HOUSEHOLDS]
    units = np.column_stack([random.integers(1, 40, 5), np.minimum(households, random.integers(20, 90, 5))])
    for level, codes in PLACES.items():
        of_level = persons[level]
        rows = [
            {
                "geocode": code,
                "query_name": name,
                **dict(zip(AXES, axes, strict=True)),
                "value": PERSONS.marginal(asks(axes)).answer(own[None])[0]
                + np.rint(random.normal(0, SIGMA[name] ** 0.5, PERSONS.marginal(asks(axes)).size)).astype(int),
                "variance": SIGMA[name],
            }
            for name, axes in QUERIES.items()
            for code, own in zip(codes, of_level, strict=True)
        ]
        kinds = PERSONS.groups.answer(of_level)
        bounds = [
            {
                **rows[0],
                "geocode": code,
                "query_name": name,
                "hhgq": "hhgq",
                "value": value,
                "variance": 0.0,
                "sign": sign,
            }
            for code, own in zip(codes, kinds, strict=True)
            for name, sign, value in (
                ("hhgq_total_lb_con", ">=", np.where(np.arange(8) == HOUSEHOLDS, 0, own > 0)),
                ("hhgq_total_ub_con", "<=", 99_999 * (own > 0)),
            )
        ]
        of_units = (
            units
            if level == "County"
            else np.array(
                [
                    units[
                        [
                            number
                            for number, each in enumerate(PLACES["County"])
                            if level == "US" or each.startswith(code)
                        ]
                    ].sum(axis=0)
                    for code in codes
                ]
            )
        )
        stock = [
            {
                "geocode": code,
                "query_name": "detailed_dpq",
                "h1": "detailed",
                "value": own + random.integers(-3, 4, 2),
                "variance": 10.0,
            }
            for code, own in zip(codes, of_units, strict=True)
        ]
        held = [
            {"geocode": code, "query_name": "total_con", "h1": "*", "value": [own.sum()], "variance": 0.0, "sign": "="}
            for code, own in zip(codes, of_units, strict=True)
        ]
        for part, kind, every in (
            ("Person", "DPQuery", rows),
            ("Person", "Constraint", bounds),
            ("Unit", "DPQuery", stock),
            ("Unit", "Constraint", held),
        ):
            changed = [(row, change(row | {"level": level})) for row in every[::-1]]
            kept = [row | (new or {}) for row, new in changed if new != "out"]
            for state in ("1", "2"):
                own = [row for row in kept if level == "US" or row["geocode"][2] == state]
                at = folder / f"US_{part}_PL_PROD" / f"{level}.parquet" / kind
                if own and not (level == "US" and state == "2"):
                    write(at / f"State={state}" / "part-0.parquet", own, pa.int32() if state == "1" else pa.int64())
    return {"persons": persons, "units": units, "populations": {"01": int(truth[:2].sum()), "02": int(truth[2:].sum())}}


@pytest.mark.deep
def test_files_are_read_and_estimated_with_a_level_of_whole_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: hold parts of states as if they were states, or hold no invariant; take answers in the order of
    the files; take vacant units for occupied ones."""
    truth = made(tmp_path)
    found = read_bureau(tmp_path, truth["populations"])
    persons, units = found["persons"], found["units"]
    assert persons.codes == {"US": ["0"], "State": ["01", "02"], PART: ORDERED, "County": PLACES["County"]}
    assert {level: list(above) for level, above in persons.tree.items()} == {
        "US": [0],
        "State": [0, 0],
        PART: [0, 1, 1],
        "County": [0, 0, 1, 2, 2],
    }
    assert persons.measurements["State"] == ()
    (total, kinds, ages, detailed) = persons.measurements["County"]
    assert [each.query for each in (total, kinds, ages, detailed)] == [
        "total",
        "hhinstlevels",
        "votingage * cenrace",
        "detailed",
    ]
    assert detailed.variance == Fraction(37, 4)
    assert np.abs(detailed.answers - truth["persons"]["County"]).mean() < 4
    assert np.abs(units.measurements["County"][0].answers - truth["units"][:, ::-1]).max() <= 3
    states = [truth["populations"][code] for code in ("01", "02")]
    again = estimate_published(found, types_first="State")
    by_level = again["persons"].histograms
    assert by_level["State"].sum(axis=1).tolist() == states
    assert by_level[PART].sum(axis=1)[1:].sum() == states[1]
    assert np.array_equal(np.add.reduceat(by_level["County"], [0, 2, 3]), by_level[PART])
    assert not by_level["County"][:, PERSONS.groups.cells == 6].any(), "there are no such facilities"
    occupied = again["units"].histograms["County"][:, OCCUPIED]
    assert again["units"].histograms["County"].sum(axis=1).tolist() == truth["units"].sum(axis=1).tolist()
    assert np.all(occupied <= PERSONS.groups.answer(by_level["County"])[:, HOUSEHOLDS])
    with pytest.raises(ValueError, match="a level without measurements"):
        estimate(persons)
    given = [f"--population={state}={persons}" for state, persons in truth["populations"].items()]
    command = ["estimate", str(tmp_path), "--to", str(tmp_path / "tables" / "anew"), *given]
    main(command, standalone_mode=False)
    with pytest.raises(UsageError, match="--population: 01=5 is not of the form 44=1097379, once for each state"):
        main([*command, "--population=01=5"], standalone_mode=False)
    monkeypatch.setenv("STIRRED_PUBLISHED", str(tmp_path / "tables"))
    with pytest.raises(UsageError, match="is among the publications"):
        main([*command[:3], str(tmp_path / "tables" / "other"), *given], standalone_mode=False)
    names = {path.name for path in (tmp_path / "tables" / "anew").iterdir()}
    assert {"README.txt", "cells.csv", "h1.csv", "p1_intervals.parquet"} <= names
    (state,) = [row for row in pq.read_table(tmp_path / "tables/anew/p1.parquet").to_pylist() if row["geoid"] == "02"]
    assert state["P0010001"] == states[1]
    for name, options, message in (
        ("other", Estimation(own_levels=True), "own_levels: a level without measurements"),
        ("other", Estimation(types_first="County"), "types_first: with full estimation, one of US, State, State_Part"),
        ("anew", Estimation(), "anew: it exists; name a new folder"),
    ):
        with pytest.raises(RefusedError, match=message):
            write_anew(Source(tmp_path, truth["populations"]), tmp_path / "tables" / name, options)
    with pytest.raises(PlacesError, match="neither a published redistricting release"):
        Source(tmp_path / "tables", {}).read()
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["anew"], "nothing is half-written"
    for wrong in ([5] * 4, [-1] * 5, [[5]] * 5):
        with pytest.raises(ValueError, match="units: with types_first, one number"):
            estimate(persons, types_first="State", units=wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda row: (
                "out"
                if (row["level"], row["query_name"], row["geocode"]) == ("County", "total_dpq", "102000001")
                else ""
            ),
            "County total_dpq: not every place has 1 values",
        ),
        (
            lambda row: "out" if row["query_name"] == "detailed_dpq" and row["level"] == PART[:5] else "",
            "State_Part: the query detailed is missing",
        ),
        (lambda row: "out" if row["query_name"] == "hhgq_total_ub_con" else "", "the bounds .* are missing"),
        (lambda row: "out" if row["level"] == "State" else "", "levels from US or State down, without a gap"),
        (
            lambda row: (
                {"001000001": {"value": [1]}, "001000003": {"value": [1, 2, 3, 4, 5]}}.get(row["geocode"])
                if row["query_name"] == "hhinstlevels_dpq"
                else None
            ),
            "County hhinstlevels_dpq: not every place has 3 values, once; 2 of 5 rows have not",
        ),
        (
            lambda row: {"value": [None, 1]} if row["level"] == "US" and "h1" in row else None,
            r"US_Unit.*US\.parquet/DPQuery.*parquet: column value: 1 values are missing",
        ),
        (
            lambda row: {"hhgq": "*", "value": [5]} if (row["query_name"], row["geocode"]) == OTHER else None,
            "County hhinstlevels_dpq: 2 queries of this name",
        ),
        (
            lambda row: (
                {"query_name": "again", **dict.fromkeys(AXES, "*"), "value": [5]}
                if row["query_name"] == "hhinstlevels_dpq"
                else None
            ),
            "the query total has another name too",
        ),
        (lambda row: {"variance": float("inf")} if row["level"] == "US" else None, r"inf is not from 2\^-60 to 2\^60"),
        (lambda row: {"variance": 1e-40} if row["level"] == "US" else None, r"variance .*e-41 is not from 2\^-60 to"),
        (
            lambda row: {"variance": 1e-13} if row["query_name"] == "total_dpq" else None,
            r"persons: the greatest variance is over 2\^40 times the smallest",
        ),
        (lambda row: {"geocode": "0\n"} if row["level"] == "US" else None, r"US: '0\\n' has a character that cannot"),
        (lambda row: {"sign": ">="} if row["query_name"] == "total_con" else None, "total_con: the sign >=, not ="),
    ],
)
def test_files_that_are_not_whole_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    truth = made(tmp_path, change)
    with pytest.raises(FilesError, match=message):
        read_bureau(tmp_path, truth["populations"])


@pytest.mark.parametrize("linked", ["the files", "US_Person_PL", "US.parquet", "DPQuery", "data.parquet"])
def test_no_link_in_the_folder_leads_to_other_data(tmp_path: Path, linked: str) -> None:
    """A certificate, or the refusal of another hash, would show the hash of these data. Wrong program: refuses only
    links to files."""
    path = tmp_path / "the files" / "US_Person_PL" / "US.parquet" / "DPQuery" / "data.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"confidential")
    link = next(each for each in (path, *path.parents) if each.name == linked)
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    if linked == "the files":
        assert list_files(tmp_path / "the files") == [path]
    else:
        with pytest.raises(FilesError, match="is or lies behind a link"):
            list_files(tmp_path / "the files")


def test_every_state_has_a_population(tmp_path: Path) -> None:
    truth = made(tmp_path)
    with pytest.raises(FilesError, match=r"populations: 02 is missing; there are 01, 02"):
        read_bureau(tmp_path, {"01": 5})
    for path in filter(Path.is_file, tmp_path.rglob("*.parquet")):
        path.write_bytes(b"")
    with pytest.raises(FilesError, match=r"parquet: it is empty"):
        read_bureau(tmp_path, truth["populations"])
