"""The swap stage on 20 million households, against DuckDB's random order of the same table.

The stage is the one that the asset `swapped` runs: from the table of the CEF to the stored and settled swapped data,
including randomness and ledger.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from assets.charge.asset import reserve
from assets.charge.drawing import make_draw
from assets.release.contents import counted_from, publish_contents, versions_of_cef
from assets.release.dataset import DatasetDeclaration
from assets.release.seal import seal_stage
from assets.swapping.cells import SWAPPED
from assets.swapping.declaration import SwappingDeclaration
from assets.swapping.invariants import counted_with, invariant_tables, write_invariants
from assets.swapping.method import Swapping
from assets.swapping.release import SwappingRelease
from benchmarks.processes import measured
from benchmarks.resources import opened
from benchmarks.result import Result
from orchestration.components.swapping import PermutationSwapping
from resources.statements import Table, Zone

HOUSEHOLDS = 20_000_000
RUNS = 3


def measure() -> list[Result]:
    """Seconds and peak memory of the stage: the run with the median ratio of three runs alternating with the peer's."""
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        measured(prepare, str(home))
        pairs = []
        for run in range(RUNS):
            seconds, peak, _ = measured(swap, str(home), run)
            decoded, _, _ = measured(decode, str(home), run)
            other, _, _ = measured(shuffle, str(home))
            pairs.append((seconds, decoded, peak, other))
        seconds, decoded, peak, other = sorted(pairs, key=lambda pair: pair[0] / pair[3])[RUNS // 2]
        size = f"{HOUSEHOLDS:,} households"
        return [
            Result(f"swap stage, {size} (s)", seconds, other, 1.0),
            Result(f"swap stage, with its codes written out as values, {size} (s)", seconds + decoded, other, 2.0),
            Result(f"swap stage, {size}: peak memory (GiB)", peak, 4.0, 1.0),
        ]
    finally:
        shutil.rmtree(home)


def prepare(home: str) -> None:
    """Generate the CEF and charge three draws, each of a release of its own."""
    generate(home, HOUSEHOLDS)
    for run in range(RUNS):
        charge(home, declared(home, f"run{run}"))


def generate(home: str, households: int) -> None:
    """Generate the CEF."""
    warehouse, custody, _ = opened(home)
    dataset, key = declared(home, "run0").dataset, custody.version_key()
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        session.create(dataset.cef_tables()[0], "benchmarks/households", {"households": households})
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        versions = versions_of_cef(session, dataset, key)
    publish_contents(warehouse, custody, dataset, versions, {})


def charge(home: str, release: SwappingRelease) -> None:
    """Write a release's invariants, and charge its draw."""
    warehouse, custody, ledger = opened(home)
    method = Swapping(release)
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        with session.transaction():
            write_invariants(session, release, method.version_key(custody))
            counted = counted_from(session, custody, release.dataset, counted_with(release))
            seal_stage(session, custody, release.schema, "invariants", invariant_tables(release), counted)
        draw = method.describe(session, custody)
    reserve(release, draw, custody, ledger)


def swap(home: str, run: int) -> None:
    """Run the swap stage."""
    swap_release(home, declared(home, f"run{run}"))


def swap_release(home: str, release: SwappingRelease) -> None:
    """Run the swap stage of a release."""
    warehouse, custody, ledger = opened(home)
    make_draw(Swapping(release), warehouse, custody, ledger)


def decode(home: str, run: int) -> None:
    """Write the swapped data as a table of values, for comparison: the stage itself stores codes."""
    write_values(home, declared(home, f"run{run}"))


def write_values(home: str, release: SwappingRelease) -> None:
    """Write the swapped data of a release as a table of values."""
    warehouse, _, _ = opened(home)
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        session.create(release.public("values"), "warehouse/all", source=release.public(SWAPPED))


def shuffle(home: str) -> None:
    """Run the peer: write the same table in random order within strata."""
    warehouse, _, _ = opened(home)
    release = declared(home, "run0")
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        session.create(
            Table(Zone.CONFIDENTIAL, release.dataset.name, "shuffled"),
            "benchmarks/shuffled",
            table=release.dataset.cef_tables()[0],
            stratum=list(release.design.match),
        )


def declared(home: str, name: str, **changes: Any) -> SwappingRelease:
    """A release on the generated households.

    Args:
        home: the folder of the deployment.
        name: the name of the release.
        changes: what differs in its declaration.
    """

    def code(lowest: int, highest: int) -> dict[str, Any]:
        return {"type": "integer", "minimum": lowest, "maximum": highest}

    place = {"type": "string", "role": "geography", "pattern": "S?[0-9]+"}
    dataset = DatasetDeclaration.model_validate(
        {
            "name": "bench",
            "title": "Generated households",
            "synthetic": True,
            "reader": "csv",
            "record_name": "household",
            "cap": 1000,
            "units": {
                "path": "none.csv",
                "columns": {
                    "serial": {"type": "integer", "role": "key"},
                    **dict.fromkeys(("state", "county", "block_group"), place),
                    "size": code(1, 7),
                    "tenure": code(1, 4),
                    "race": code(1, 7),
                    "age": code(15, 99),
                },
            },
        }
    )
    declaration = SwappingDeclaration.model_validate(
        {
            "name": name,
            "dataset": "bench",
            "title": "Generated households",
            "match": ["state", "size"],
            "swap": ["county", "block_group"],
            "swap_rate": "1/2",
            "publishes_unique_records": "accepted",
        }
        | changes
    )
    return PermutationSwapping(declaration).release(dataset, Path(home) / "published")
