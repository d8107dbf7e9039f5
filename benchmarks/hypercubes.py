"""A hypercube of four variables with all its margins, against DuckDB's own GROUP BY CUBE of the same variables.

What is measured are the stages of a release from the CEF to its settled noisy measurements, with their versions, charge
and ledger, but without the hash of the CEF, which is that of every kind of release: with discrete Laplace noise, and
with keys of records and cells and a p-table. DuckDB's statement writes the exact counts of the same tables.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from assets.charge.asset import reserve
from assets.charge.drawing import make_draw
from assets.release.contents import cef_version, publish_contents, versions_of_cef
from assets.release.dataset import DatasetDeclaration
from assets.release.draw import publish_version
from assets.table_builder.declaration import TableBuilderDeclaration
from assets.table_builder.method import TableBuilderMethod
from benchmarks.processes import measured
from benchmarks.resources import opened
from benchmarks.result import Result
from orchestration.components.table_builder import SingleHypercube
from resources.statements import Table, Zone

RECORDS = 10_000_000
SIZES = {"age": 20, "region": 25, "occupation": 20, "income": 20}
RUNS = 3
LIMIT = 3.0

NOISES: dict[str, dict[str, Any]] = {
    "discrete Laplace noise": {"epsilon": 1},
    "keys of records and cells, and a p-table": {
        "p_table": {"largest_change": 5, "variance": 2, "threshold": 2},
        "consistency": "cell",
    },
}


def measure() -> list[Result]:
    """Seconds of the stages with each kind of noise: the run with the median ratio of three alternating runs."""
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        measured(prepare, str(home))
        return [_measure(str(home), number, words) for number, words in enumerate(NOISES)]
    finally:
        shutil.rmtree(home)


def _measure(home: str, number: int, words: str) -> Result:
    runs = []
    for run in range(RUNS):
        other, _, _ = measured(cube, home)
        ours, _, _ = measured(stages, home, f"run{number}_{run}", NOISES[words])
        runs.append((ours, other))
    ours, other = sorted(runs, key=lambda run: run[0] / run[1])[RUNS // 2]
    name = f"hypercube of 200,000 cells with margins, {RECORDS:,} records: {words}, against GROUP BY CUBE (s)"
    return Result(name, ours, other, LIMIT)


def prepare(home: str) -> None:
    """Generate the CEF."""
    warehouse, custody, _ = opened(home)
    dataset, key = _dataset(), custody.version_key()
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        session.create(dataset.cef_tables()[0], "benchmarks/persons", {"records": RECORDS})
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        versions = versions_of_cef(session, dataset, key)
    publish_contents(warehouse, custody, dataset, versions, {})


def cube(home: str) -> None:
    """Run the peer."""
    warehouse, _, _ = opened(home)
    dataset = _dataset()
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        made = Table(Zone.CONFIDENTIAL, dataset.name, "cube")
        session.create(made, "benchmarks/cube", table=dataset.cef_tables()[0], columns=list(SIZES))


def stages(home: str, name: str, noise: dict[str, Any]) -> None:
    """Run the stages of a release. Each run has a release of its own, so that every run charges and draws."""
    warehouse, custody, ledger = opened(home)
    declared = TableBuilderDeclaration.model_validate(
        {
            "name": name,
            "dataset": "bench",
            "title": "Generated records",
            "hypercubes": [{"name": "cells", "variables": list(SIZES), "margins": "independent"} | noise],
        }
    )
    release = SingleHypercube(declared.by_hypercube()[0]).release(_dataset(), Path(home) / "published")
    method = TableBuilderMethod(release)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        with session.transaction():
            counts, values, names = method.counts_recipe(session)
            session.create(method.counts_table, counts, values, **names)
            method.require_countable(session, custody)
        version = method.counts_version(session, custody)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        counted = {"cef": cef_version(session, custody, release.dataset), "parameters": dict(method.counted_with())}
    publish_version(warehouse, custody, release, method.counts_stage, method.version_table, version, counted)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = method.describe(session, custody)
    reserve(release, draw, custody, ledger)
    make_draw(method, warehouse, custody, ledger)


def _dataset() -> DatasetDeclaration:
    codes = {name: {"type": "integer", "minimum": 0, "maximum": size - 1} for name, size in SIZES.items()}
    return DatasetDeclaration.model_validate(
        {
            "name": "bench",
            "title": "Generated records",
            "synthetic": True,
            "reader": "csv",
            "record_name": "person",
            "cap": 1000,
            "units": {"path": "none.csv", "columns": {"serial": {"type": "integer", "role": "key"}, **codes}},
        }
    )
