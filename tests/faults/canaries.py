"""Unmistakable values are planted in the confidential data, and searched for in everything that a release leaves.

The planted values are the keys of all records, which are numbers of twelve digits in the census files and texts in the
small dataset, and in one scenario a text and a number in place of a code. The search covers all files in the
deployment's folder, including Dagster's own storage and the process's output, except the source files and the
confidential database. It goes byte by byte in several encodings, and value by value in databases and Parquet files.
"""

import csv
import logging
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb

from tests.contract.kinds import KINDS, before_draw, to_publication
from tests.deployments import UNITS, Deployment, households, small_deployment
from tests.faults import strace
from tests.faults.releases import Child, in_child

TEXT, NUMBER = "canary-5d1e7b", 7_316_204_958_317
"""The values planted in place of codes; texts of keys begin with `TEXT` too."""

KEYED = ("swapping", "phsafe", "topdown")
"""The kinds of release with planted values in their data."""

SCENARIOS = ("published", "over the cap", "refused files", "altered draw", "killed", "full disk")

SHOWN_TO_NOBODY = ("confidential.duckdb", "confidential.duckdb.wal")


def _deployment(root: Path, kind: str, scenario: str) -> Deployment[Any]:
    dataset: dict[str, Any] = {"cap": KINDS[kind].small_cap} if scenario == "over the cap" else {}
    if kind == "swapping":
        columns = {**UNITS, "serial": {"type": "string", "role": "key", "pattern": "[a-z0-9-]+"}}
        units = [{**row, "serial": f"{TEXT}-{row['serial']}"} for row in households()]
        here: Deployment[Any] = small_deployment(
            root, units=units, dataset=dataset | {"units": {"path": str(root / "units.csv"), "columns": columns}}
        )
    else:
        here = KINDS[kind].build(root, dataset=dataset)
    (root / "dagster").mkdir(exist_ok=True)
    here.instance = dg.DagsterInstance.local_temp(str(root / "dagster"))
    return here


def planted(root: Path, kind: str) -> list[str]:
    """The planted texts: the keys of all records in the source files, and the values in place of codes."""
    with (root / "units.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    key = "serial" if kind == "swapping" else "MAFID"
    # All keys of a kind begin alike, so a few of them and their common beginning are enough.
    found = {row[key] for row in rows[::10]} | {TEXT, str(NUMBER)}
    return sorted(text for text in found if len(text) >= 12)


def left(folder: Path, kind: str, scenario: str, label: str) -> tuple[bool, list[str]]:
    """Let a release succeed or fail, and search its remains. Returns whether it went as planned, and the finds."""
    root = folder / label
    root.mkdir()
    went = _WORK.get(scenario, _job)(root, kind, scenario)
    texts = planted(root, kind)
    ended = in_child(lambda: list(_finds(root, texts)))
    known = in_child(lambda: _known(root, texts))
    shutil.rmtree(root)
    wrong = list(ended.answer) if not ended.status else [f"the search failed: {ended.error}"]
    if scenario != "refused files" and not known.answer:
        wrong.append("the canaries are not even in the confidential database")
    return went, wrong


def _work(root: Path, kind: str, scenario: str) -> bool:
    """The whole job, printing into a file of the deployment's folder. Returns whether it succeeds."""
    with (root / "printed").open("ab") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    logging.disable(logging.NOTSET)
    here = _deployment(root, kind, scenario)
    if scenario == "refused files":
        _spoil(root / "units.csv", kind)
    result = here.run(*to_publication(here.context.method), raise_on_error=False)
    if scenario == "altered draw":
        with here.opened() as connection:
            connection.execute(KINDS[kind].tampering)
        result = here.run("publication", raise_on_error=False)
    return bool(result.success)


def _spoil(path: Path, kind: str) -> None:
    """Plant a text and a number where codes are expected."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    text, number = ("tenure", "size") if kind == "swapping" else ("TEN", "FINAL_POP")
    rows[3][text], rows[5][number] = TEXT, str(NUMBER)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _job(root: Path, kind: str, scenario: str) -> bool:
    ended = in_child(lambda: _work(root, kind, scenario))
    return ended.status == 0 and bool(ended.answer) == (scenario == "published")


def _killed(root: Path, kind: str, scenario: str) -> bool:
    child = Child(lambda: _work(root, kind, scenario))
    child.go()
    while not (root / "warehouse" / "public.duckdb").exists():
        time.sleep(0.01)
    time.sleep(random.Random(kind).random())
    child.kill()
    return child.ended().status == -signal.SIGKILL


def _full(root: Path, kind: str, scenario: str) -> bool:
    def prepared() -> None:
        here = _deployment(root, kind, scenario)
        here.run(*before_draw(here.context.method)[:-1])

    in_child(prepared)
    options = [text for call in strace.WRITES for text in ("-e", f"inject={call}:error=ENOSPC:when=400+")]
    ended = strace.traced(lambda: _work(root, kind, scenario), *options)
    return ended.status == 1 or ended.answer is False


_WORK = {"killed": _killed, "full disk": _full}


def _finds(root: Path, texts: list[str]) -> Iterator[str]:
    sources = {path.name for path in root.glob("*.csv")}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if not path.is_file() or name in sources or path.name in SHOWN_TO_NOBODY:
            continue
        content = path.read_bytes() + b"\n" + "\n".join(_decoded(path)).encode()
        found = sorted(text for text in texts if any(form in content for form in _forms(text)))
        if found or any(text in name for text in texts):
            yield f"{len(found)} planted values are in {name}"


def _forms(text: str) -> Iterator[bytes]:
    """A text in the encodings that a file may have."""
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        yield text.encode(encoding)
    yield text.encode().hex().encode()
    if text.isdigit():
        yield int(text).to_bytes(8, "little")
        yield f"{int(text):,}".encode()


def _decoded(path: Path) -> Iterator[str]:
    """The values of a database or of a Parquet file, as texts."""
    content = path.read_bytes()
    if path.suffix == ".parquet":
        yield from map(repr, duckdb.sql(f"FROM read_parquet('{path}')").fetchall())
    elif path.suffix == ".duckdb":
        with duckdb.connect(str(path)) as connection:
            for name, schema in connection.execute("SELECT table_name, schema_name FROM duckdb_tables()").fetchall():
                yield from map(repr, connection.execute(f'FROM "{schema}"."{name}"').fetchall())
    elif content.startswith(b"SQLite format 3"):
        connection_ = sqlite3.connect(path)
        for (name,) in connection_.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            yield from map(repr, connection_.execute(f'SELECT * FROM "{name}"').fetchall())
        connection_.close()


def _known(root: Path, texts: list[str]) -> bool:
    """Whether the search finds the planted values where they belong, in the confidential database."""
    path = root / "warehouse" / "confidential.duckdb"
    content = "\n".join(_decoded(path)) if path.exists() else ""
    return any(text in content for text in texts)
