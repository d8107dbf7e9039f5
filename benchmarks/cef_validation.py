"""Validation of ten million rows, each checked by pandera, against limits on memory and time.

The measurement covers everything from a CSV file to the table of the CEF and its data version.
"""

import shutil
import tempfile
from pathlib import Path

from assets.cef.ingestion import ingest
from assets.release.dataset import DatasetDeclaration
from benchmarks.processes import measured
from benchmarks.result import Result
from resources.statements import Zone, literal
from resources.warehouse import Warehouse

ROWS = 10_000_000


def measure() -> list[Result]:
    """Peak memory and time of the process that reads, validates and writes."""
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        measured(prepare, str(home))
        seconds, peak, _ = measured(validate, str(home))
        return [
            Result(f"CEF of {ROWS:,} rows from CSV: peak memory (GiB)", peak, 2.0, 1.0),
            Result(f"CEF of {ROWS:,} rows from CSV (s)", seconds, 60.0, 1.0),
        ]
    finally:
        shutil.rmtree(home)


def prepare(home: str) -> None:
    """Write the source file."""
    with Warehouse(folder=home).session(writes=Zone.PUBLIC) as session:
        rows = session.stage("rows", "benchmarks/households", {"households": ROWS})
        session.run("benchmarks/write_csv", rows=rows, path=literal(Path(home) / "units.csv"))


def validate(home: str) -> None:
    """Read, validate and write."""
    integer = {"type": "integer", "minimum": 1, "maximum": 100}
    place = {"type": "string", "role": "geography", "pattern": "S?[0-9]+"}
    columns = {
        "serial": {"type": "integer", "role": "key"},
        "state": {"type": "string", "role": "geography", "values": [f"S{number:02}" for number in range(10)]},
        "block_group": place,
        "size": integer,
        "tenure": {"type": "integer", "values": [1, 2, 3, 4]},
        "age": integer,
    }
    declaration = DatasetDeclaration.model_validate(
        {
            "name": "bench",
            "title": "Generated households",
            "reader": "csv",
            "cap": 1,
            "units": {"path": "units.csv", "columns": columns},
        }
    )
    with Warehouse(folder=home).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, Path(home), bytes(32))
