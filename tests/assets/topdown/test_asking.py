"""Published noisy measurements after any alteration: every answer is in its own place, or the file is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from assets.release.signature import VerificationError
from assets.topdown import anew
from assets.topdown.anew import Source
from assets.topdown.asking import PlacesError, read_published
from mechanisms.topdown.design import SCHEMAS
from tests.depth import deep_cases

PLACES = {"Nation": ["Nation"], "Block": ["01", "02"]}
Rows = list[dict[str, Any]]


def write(folder: Path) -> None:
    """A release of one nation and two blocks, in which the answers of a place are its number."""
    spine: Rows = [
        {"depth": depth, "level": level, "number": number, "geoid": code, "parent": 0 if depth else None}
        for depth, (level, codes) in enumerate(PLACES.items())
        for number, code in enumerate(codes)
    ]
    queries: Rows = [
        {"histogram": name, "level": level, "query": query, "parameter": "4/3"}
        for name in SCHEMAS
        for level in PLACES
        for query in ("total", "detailed")
    ]
    answers: Rows = [
        {column: query[column] for column in ("histogram", "level", "query")}
        | {"number": number, "geoid": code}
        | {"answers": [number] * SCHEMAS[query["histogram"]].marginal(query["query"]).size}
        for query in queries
        for number, code in enumerate(PLACES[query["level"]])
    ]
    units: Rows = [{"level": "Block", "geoid": code, "count": 3} for code in PLACES["Block"]]
    tables = {"spine": spine, "queries": queries, "noisy_measurements": answers, "housing_units": units}
    for name, rows in tables.items():
        table = pa.Table.from_pylist(rows)
        if name == "noisy_measurements":
            table = table.set_column(5, "answers", table["answers"].cast(pa.list_(pa.int32())))
        pq.write_table(table, folder / f"{name}.parquet")


def alter(name: str, change: Callable[[Rows], object]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        table = pq.read_table(folder / f"{name}.parquet")
        rows = table.to_pylist()
        change(rows)
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), folder / f"{name}.parquet")

    return rewrite


def put(name: str, row: int, /, **values: Any) -> Callable[[Path], None]:
    return alter(name, lambda rows: rows[row].update(values))


def drop(name: str, column: str) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        pq.write_table(pq.read_table(folder / f"{name}.parquet").drop([column]), folder / f"{name}.parquet")

    return rewrite


def shift(rows: Rows) -> None:
    first, second = [row["answers"] for row in rows if (row["level"], row["query"]) == ("Block", "detailed")][:2]
    first.append(second.pop())


def exchange(rows: Rows) -> None:
    first, second = [row for row in rows if (row["level"], row["query"]) == ("Block", "detailed")][:2]
    first["geoid"], second["geoid"] = second["geoid"], first["geoid"]


@deep_cases(8)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (alter("spine", list.clear), "spine: it has no places"),
        (drop("spine", "parent"), "spine: the column parent is missing"),
        (put("spine", 2, parent=5), "spine: Block: its places are not in the order of those above"),
        (put("spine", 2, parent=None), "spine: Block: its places are not in the order of those above"),
        (put("spine", 2, number=2), "spine: Block: its places are not numbered from 0"),
        (put("spine", 2, geoid="01"), "spine: Block: not every place has a code of its own"),
        (put("spine", 2, geoid="0\n"), r"spine: '0\\n' is no text whose characters can all be seen"),
        (alter("noisy_measurements", list.pop), "units Block detailed: not every place of the spine is measured once"),
        (alter("housing_units", list.clear), "housing_units: not every place of a level has its numbers once"),
        (alter("housing_units", list.pop), "housing_units: not every place of a level has its numbers once"),
        (put("housing_units", 0, geoid="03"), "housing_units: not every place of a level has its numbers once"),
        (alter("housing_units", lambda rows: rows.append(rows[0])), "housing_units: not every place of a level has"),
        (put("housing_units", 0, count=None), "housing_units: 1 numbers are missing, negative or over 2"),
        (put("housing_units", 0, count=-1), "housing_units: 1 numbers are missing, negative or over 2"),
        (put("queries", 0, parameter="0"), r"queries: persons Nation total: the variance '0' is not from 2\^-60"),
        (put("queries", 0, parameter="-4/3"), "the variance '-4/3' is not a fraction"),
        (put("queries", 0, parameter="1/0"), r"queries: persons Nation total: the variance '1/0' is not from 2\^-60"),
        (put("queries", 0, parameter="1e999999999999"), "the variance '1e999999999999' is not a fraction"),
        (put("queries", 0, parameter=None), "queries: persons Nation total: "),
        (put("queries", 0, query="age"), "queries: persons Nation age: persons: the query 'age' names"),
        (put("queries", 0, level="Tract"), "queries: persons Tract total: there is no such histogram or level"),
        (put("queries", 1, query="total"), "queries: persons Nation total: .* or it is there twice"),
        (put("noisy_measurements", 2, number=1), "persons Block total: not every place of the spine is measured once"),
        (put("noisy_measurements", 0, answers=None), "persons Nation total: not every place has 1 answers"),
        (put("noisy_measurements", 0, answers=[None]), "persons Nation total: not every place has 1 answers"),
        (alter("noisy_measurements", exchange), "persons Block detailed: not every place of the spine is measured"),
        (alter("noisy_measurements", shift), "persons Block detailed: not every place has 2,016 answers"),
        (drop("noisy_measurements", "answers"), "noisy_measurements: the column answers is missing"),
    ],
)
def test_altered_measurements_are_refused(tmp_path: Path, change: Callable[[Path], None], message: str) -> None:
    """Wrong programs: cut lists again, so that answers move between places; compare no numbers or codes; take a missing
    invariant for 0; raise Python's own errors."""
    write(tmp_path)
    blocks = read_published(tmp_path)["persons"].measurements["Block"]
    assert [each.answers.mean(axis=1).tolist() for each in blocks] == [[0, 1], [0, 1]]
    change(tmp_path)
    with pytest.raises(PlacesError, match=message):
        read_published(tmp_path)


def test_a_key_verifies_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong programs: report the Bureau's unsigned files as verified; miss files exchanged after the verification."""
    key = tmp_path / "key.pem"
    public = Ed25519PrivateKey.generate().public_key()
    key.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    (tmp_path / "bureau" / "US_Person_PL_PROD").mkdir(parents=True)
    with pytest.raises(PlacesError, match="the Census Bureau's files are not signed; leave the key out"):
        Source(tmp_path / "bureau", {}, key).read()
    (tmp_path / "release").mkdir()
    write(tmp_path / "release")
    monkeypatch.setattr(anew, "altered_files", lambda *_: [])
    with pytest.raises(VerificationError):
        Source(tmp_path / "release", {}, key).read()
