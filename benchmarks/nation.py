"""Redistricting data of a synthetic census of eight states: the whole job, at three sizes.

A job makes every stage from the CEF to the publication, with every gate before and at the publication, and is started
by `dg launch`. `python -m benchmarks.nation tenth` measures a tenth of the nation, which takes too long for
`make bench`, and states what the nation would take if time grew in proportion.
"""

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from assets.topdown.spine import places_of
from benchmarks import swap_stage
from benchmarks.nation_jobs import HOUSEHOLDS, RELEASE, SIZES, census, redistricting
from benchmarks.processes import launch, measured
from benchmarks.resources import opened
from benchmarks.result import Result
from benchmarks.topdown_estimation import memory
from resources.statements import Zone

SMALL, MEDIUM, LARGE, TENTH = HOUSEHOLDS
MEMORY = 4.0
"""The limit of the large size, in GiB."""

ORDERS = 300 / 7.8
"""The limit of the large size, in random orders of 20 million households by DuckDB (`swap_stage`): five minutes on a
machine that took 7.8 s for one."""

DUCKDB_MEMORY = {SMALL: "256MiB", MEDIUM: "256MiB", LARGE: "256MiB", TENTH: "1GiB"}
"""The memory limit of DuckDB in each job. The three sizes that are compared all reach theirs: below it, DuckDB keeps
more of larger data in memory just because there is room."""

MEMORY_OF_FURTHER = 0.2
"""The limit of what ten million persons more may add to the peak memory, in GiB."""

NATION_PERSONS, NATION_BLOCKS = 331_449_281, 5_892_698
"""Persons, and blocks with persons, in the 2020 Census."""


@dataclass(frozen=True)
class Job:
    """A measured job.

    Attributes:
        persons: the number of persons in the CEF.
        blocks: the number of blocks.
        seconds: the duration, including all imports.
        peak: the peak memory of all processes together in GiB.
        disk: the size of the warehouse and of the publication at the end in GiB.
    """

    persons: int
    blocks: int
    seconds: float
    peak: float
    disk: float


def measure() -> list[Result]:
    """Seconds and peak memory of the large size, and their growth over the three sizes."""
    order = _order()
    small, medium, large = (job(name) for name in (SMALL, MEDIUM, LARGE))
    size = f"{large.persons:,} persons, {large.blocks:,} blocks"
    more = (large.persons - medium.persons) / 1e7
    return [
        Result(f"redistricting data, CEF to publication, {size} (s)", large.seconds, ORDERS * order, 1.0),
        Result("redistricting data, CEF to publication: peak memory of all processes (GiB)", large.peak, MEMORY, 1.0),
        *(
            Result(
                f"redistricting data: growth of time from {one.persons:,} to {other.persons:,} persons",
                other.seconds / one.seconds,
                other.persons / one.persons,
                1.0,
            )
            for one, other in ((small, medium), (medium, large))
        ),
        Result(
            "redistricting data: growth of peak memory with ten million persons more (GiB)",
            (large.peak - medium.peak) / more,
            MEMORY_OF_FURTHER,
            1.0,
        ),
    ]


def _order() -> float:
    """Median seconds of a random order by DuckDB, which say how fast the machine is."""
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        measured(swap_stage.generate, str(home), swap_stage.HOUSEHOLDS)
        return median(measured(swap_stage.shuffle, str(home))[0] for _ in range(swap_stage.RUNS))
    finally:
        shutil.rmtree(home)


def job(name: str) -> Job:
    """Run the job of one size in an empty deployment."""
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        seconds, peak = _launched(home, name)
        persons, blocks = measured(_size, str(home), name)[2]
        disk = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
        return Job(persons, blocks, seconds, peak, disk / 2**30)
    finally:
        shutil.rmtree(home)


def _launched(home: Path, name: str) -> tuple[float, float]:
    instance = home / "dagster"
    instance.mkdir()
    environment = {
        "DAGSTER_HOME": str(instance),
        "STIRRED_HOME": str(home),
        "STIRRED_PUBLISHED": str(home / "published"),
        "STIRRED_MEMORY_LIMIT": DUCKDB_MEMORY[name],
        SIZES: name,
    }
    with memory() as peak:
        started = perf_counter()
        launch("benchmarks.nation_jobs", f"{name}__{RELEASE}", environment)
        seconds = perf_counter() - started
    return seconds, max(peak)


def _size(home: str, name: str) -> tuple[int, int]:
    """The numbers of persons and of blocks."""
    warehouse, _, _ = opened(home)
    dataset = census(name)
    release = redistricting(name).release(dataset, Path(home) / "published")
    with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        return session.count(dataset.cef_tables()[1]), places_of(session, release)[release.finest]


def main(name: str) -> None:
    """Measure one size, and print it with what the nation would take."""
    found = job(name)
    times = max(NATION_PERSONS / found.persons, NATION_BLOCKS / found.blocks)
    print(
        f"{found.persons:,} persons, {found.blocks:,} blocks: {found.seconds:,.0f} s, {found.peak:.2f} GiB of memory, "
        f"{found.disk:.1f} GiB on disk"
    )
    hours = times * found.seconds / 3600
    print(f"the nation, {times:.1f} times as much: {hours:.1f} hours if time grows in proportion")


if __name__ == "__main__":
    main(*sys.argv[1:])
