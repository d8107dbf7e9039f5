"""A table perturbed by keys and a p-table, against the package of the Office for National Statistics at its own size.

Both begin with a million records that carry a record key from 0 to 255, and end with the perturbed count of every cell
and the mark of those that are suppressed. The package has the records as a pandas frame of integers, and Stirred as a
table of its warehouse.
"""

import io
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from cell_key_perturbation.create_perturbed_table import create_perturbed_table
from cell_key_perturbation.utils.generate_test_ptable import generate_ptable_10_5_rule
from numpy.typing import NDArray

from benchmarks.result import Result
from mechanisms.table_builder.p_table import PTable
from mechanisms.table_builder.reading import read_ons
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

RECORDS = 1_000_000
DOMAINS = {"region": 25, "age": 20, "activity": 10}
THRESHOLD = 10
RUNS = 5

T = TypeVar("T")


def measure() -> list[Result]:
    """Seconds of wall-clock time: the run with the median ratio of five alternating runs. The results are compared."""
    generator = np.random.default_rng(1)
    data = pd.DataFrame({name: generator.integers(0, size, RECORDS) for name, size in DOMAINS.items()})
    data["record_key"] = generator.integers(0, 256, RECORDS)
    given = generate_ptable_10_5_rule()
    given["pvalue"] = np.maximum(generator.integers(-5, 6, len(given)), -given["pcv"])
    table = read_ons(given.to_csv(index=False))
    records = Table(Zone.CONFIDENTIAL, "bench", "persons")
    with tempfile.TemporaryDirectory(prefix="stirred-bench-") as home:
        warehouse = Warehouse(folder=str(Path(home) / "warehouse"))
        with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            session.create(records, "warehouse/all", source=session.register("source", pa.Table.from_pandas(data)))
            runs = []
            for _ in range(RUNS + 1):
                ours, found = _seconds(lambda: _ours(session, records, table))
                other, expected = _seconds(lambda: _theirs(data, given))
                if not np.array_equal(found, expected["count"].fillna(-1).to_numpy(dtype=np.int64)):
                    raise RuntimeError("the perturbed table differs from the package's")
                runs.append((ours, other))
    ours, other = sorted(runs[1:], key=lambda run: run[0] / run[1])[RUNS // 2]
    name = f"perturbed table of {len(expected):,} cells, {RECORDS:,} records, against the ONS package (s)"
    return [Result(name, ours, other, 1 / 3)]


def _ours(session: Session, records: Table, table: PTable) -> NDArray[np.int64]:
    """The perturbed counts, −1 where they are suppressed."""
    size = int(np.prod(list(DOMAINS.values())))
    places = np.unravel_index(np.arange(size), list(DOMAINS.values()))
    cells = session.register("cells", pa.table({"cell": np.arange(size), **dict(zip(DOMAINS, places, strict=True))}))
    counted = session.arrow(
        "benchmarks/counts_and_record_keys",
        cells=cells,
        columns=list(DOMAINS),
        records=records,
        record_key="record_key",
    )
    results = table.look_up(counted["count"].to_numpy(), counted["key_sum"].to_numpy())
    return np.where(results < THRESHOLD, -1, results)


def _theirs(data: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    geography, *others = DOMAINS
    with redirect_stdout(io.StringIO()):
        return create_perturbed_table(data, table, [geography], others, "record_key", threshold=THRESHOLD)


def _seconds(run: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result
