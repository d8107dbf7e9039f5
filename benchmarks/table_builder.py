"""Hypercubes against DuckDB's GROUP BY CUBE, and a table perturbed by keys against the package of the ONS.

The stages of a release of four variables with all margins are measured, from the CEF to its settled noisy measurements,
with versions, charge and ledger, but without the hash of the CEF. DuckDB's statement writes the exact counts of the
same tables.

The perturbed table begins with a million records that carry a record key from 0 to 255, and ends with the perturbed
count of every cell and the marks of suppressed cells. The package of the Office for National Statistics has the records
as a pandas frame of integers, and Stirred as a table of its warehouse.
"""

import io
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
from cell_key_perturbation.create_perturbed_table import create_perturbed_table
from cell_key_perturbation.utils.generate_test_ptable import generate_ptable_10_5_rule
from numpy.typing import NDArray

from assets.release.contents import read_basis
from assets.release.dataset import DatasetDeclaration
from assets.table_builder.declaration import TableBuilderDeclaration
from assets.table_builder.method import TableBuilderMethod
from benchmarks import harness
from mechanisms.table_builder.p_table import PTable
from mechanisms.table_builder.reading import read_ons
from orchestration.components.table_builder import SingleHypercube
from resources.statements import SQL, Table, Zone
from resources.warehouse import Session, Warehouse

RECORDS = 10_000_000
SIZES = {"age": 20, "region": 25, "occupation": 20, "income": 20}
NOISES: dict[str, dict[str, Any]] = {
    "discrete Laplace noise": {"epsilon": 1},
    "keys of records and cells, and a p-table": {
        "p_table": {"largest_change": 5, "variance": 2, "threshold": 2},
        "consistency": "cell",
    },
}
RUNS = 3

_CUBE = SQL(
    "benchmarks/cube",
    "SELECT {{ columns | ids }}, count(*) AS count FROM {{ table }} GROUP BY CUBE ({{ columns | ids }})",
)

KEYED_RECORDS = 1_000_000
DOMAINS = {"region": 25, "age": 20, "activity": 10}
THRESHOLD = 10
KEYED_RUNS = 5


def measure_hypercubes() -> list[harness.Result]:
    """Seconds of the stages with each kind of noise: the run with the median ratio of three alternating runs."""
    results = []
    with harness.temporary_home() as home:
        harness.run_step(harness.generate_cef, home, _declare_dataset(), "benchmarks/persons", {"records": RECORDS})
        for words, noise in NOISES.items():
            name = f"hypercube of 200,000 cells with margins, {RECORDS:,} records: {words}, against GROUP BY CUBE (s)"
            ours = partial(_time_stages, home, noise)
            results.append(harness.compare(name, ours, lambda: harness.run_step(cube, home).seconds, 3.0, RUNS))
    return results


def _time_stages(home: str, noise: dict[str, Any]) -> float:
    return harness.run_step(run_stages, home, harness.name_release(), noise).seconds


def cube(home: str) -> None:
    """Run the peer."""
    dataset = _declare_dataset()
    with harness.open_warehouse(home).session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        table = Table(Zone.CONFIDENTIAL, dataset.name, "cube")
        session.create(table, _CUBE, table=dataset.cef_tables()[0], columns=list(SIZES))


def run_stages(home: str, name: str, noise: dict[str, Any]) -> None:
    declaration = TableBuilderDeclaration.model_validate(
        {
            "name": name,
            "dataset": "bench",
            "title": "Generated records",
            "hypercubes": [{"name": "cells", "variables": list(SIZES), "margins": "independent"} | noise],
        }
    )
    release = SingleHypercube(declaration.by_hypercube()[0]).release(_declare_dataset(), Path(home) / "published")
    method = TableBuilderMethod(release)
    warehouse, custody, _ = harness.open_deployment(home)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        basis = read_basis(session, custody, release.dataset, release.counted_with)
    with patch("assets.release.stage.compute_basis", lambda *_: basis):
        harness.make_stages(home, method, method.counts_stage)
    harness.charge(home, method)
    harness.make(home, method)


def _declare_dataset() -> DatasetDeclaration:
    codes = {name: {"type": "integer", "minimum": 0, "maximum": size - 1} for name, size in SIZES.items()}
    return harness.declare_dataset(codes, record_name="person")


def measure_cell_keys() -> list[harness.Result]:
    """Seconds of wall-clock time: the run with the median ratio of five alternating runs. The results are compared."""
    generator = np.random.default_rng(1)
    data = pd.DataFrame({name: generator.integers(0, size, KEYED_RECORDS) for name, size in DOMAINS.items()})
    data["record_key"] = generator.integers(0, 256, KEYED_RECORDS)
    p_table = generate_ptable_10_5_rule()
    p_table["pvalue"] = np.maximum(generator.integers(-5, 6, len(p_table)), -p_table["pcv"])
    our_p_table = read_ons(p_table.to_csv(index=False))
    records = Table(Zone.CONFIDENTIAL, "bench", "persons")
    with (
        harness.temporary_home() as home,
        Warehouse(folder=f"{home}/warehouse").session(writes=Zone.CONFIDENTIAL) as session,
    ):
        session.create(records, "warehouse/all", source=session.register("source", pa.Table.from_pandas(data)))
        runs = []
        for _ in range(KEYED_RUNS + 1):
            ours, perturbed = harness.time_call(lambda: _perturb(session, records, our_p_table))
            other, expected = harness.time_call(lambda: _perturb_by_package(data, p_table))
            if not np.array_equal(perturbed, expected["count"].fillna(-1).to_numpy(dtype=np.int64)):
                raise RuntimeError("the perturbed table differs from the package's")
            runs.append((ours, other))
    ours, other = harness.find_median_run(runs[1:])
    name = f"perturbed table of {len(expected):,} cells, {KEYED_RECORDS:,} records, against the ONS package (s)"
    return [harness.Result(name, ours, other, 1 / 3)]


def _perturb(session: Session, records: Table, p_table: PTable) -> NDArray[np.int64]:
    """The perturbed counts, −1 where they are suppressed."""
    size = int(np.prod(list(DOMAINS.values())))
    places = np.unravel_index(np.arange(size), list(DOMAINS.values()))
    cells = session.register("cells", pa.table({"cell": np.arange(size), **dict(zip(DOMAINS, places, strict=True))}))
    counts = session.arrow(
        "benchmarks/counts_and_record_keys",
        cells=cells,
        columns=list(DOMAINS),
        records=records,
        record_key="record_key",
    )
    results = p_table.look_up(counts["count"].to_numpy(), counts["key_sum"].to_numpy())
    return np.where(results < THRESHOLD, -1, results)


def _perturb_by_package(data: pd.DataFrame, p_table: pd.DataFrame) -> pd.DataFrame:
    geography, *others = DOMAINS
    with redirect_stdout(io.StringIO()):
        return create_perturbed_table(data, p_table, [geography], others, "record_key", threshold=THRESHOLD)
