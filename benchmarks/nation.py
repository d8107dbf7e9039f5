"""Redistricting data of a synthetic census of eight states: the whole job, at three sizes.

A job makes every stage from the CEF to the publication, with every gate before and at the publication, and is started
by `dg launch`. `python -m benchmarks.nation tenth` measures a tenth of the nation, which takes too long for
`make bench`, and states what the nation would take if time grew in proportion.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from assets.topdown.spine import count_places
from benchmarks import swap_stage
from benchmarks.harness import Result, open_deployment, run_step, sample_memory, temporary_home
from benchmarks.jobs import EIGHT_STATES, Case
from resources.statements import Zone

HOUSEHOLDS = {"small": 390_000, "medium": 1_170_000, "large": 3_900_000, "tenth": 13_000_000}
"""By name of the size, the households in all states: about 1, 3, 10 and 33.6 million persons."""

MEMORY = 4.0
"""The limit of the large size, in GiB."""

ORDERS = 300 / 7.8
"""The limit of the large size, in random orders of 20 million households by DuckDB (`swap_stage`): five minutes on a
machine that took 7.8 s for one."""

DUCKDB_MEMORY = {"small": "256MiB", "medium": "256MiB", "large": "256MiB", "tenth": "1GiB"}
"""The memory limit of DuckDB in each job. The three sizes that are compared all reach theirs: below it, DuckDB keeps
more of larger data in memory just because there is room."""

MEMORY_GROWTH = 0.2
"""The limit of what ten million persons more may add to the peak memory, in GiB."""

NATION_PERSONS, NATION_BLOCKS = 331_449_281, 5_892_698
"""Persons, and blocks with persons, in the 2020 Census."""


@dataclass(frozen=True)
class JobRun:
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
    with temporary_home() as home:
        # How fast the machine is.
        run_step(swap_stage.generate, home, swap_stage.HOUSEHOLDS)
        order = median(run_step(swap_stage.shuffle, home).seconds for _ in range(swap_stage.RUNS))
    small, medium, large = (run_job(size) for size in ("small", "medium", "large"))
    job = "redistricting data, CEF to publication"
    growths = [
        Result(
            f"redistricting data: growth of time from {smaller.persons:,} to {larger.persons:,} persons",
            larger.seconds / smaller.seconds,
            larger.persons / smaller.persons,
        )
        for smaller, larger in ((small, medium), (medium, large))
    ]
    more = (large.persons - medium.persons) / 1e7
    return [
        Result(f"{job}, {large.persons:,} persons, {large.blocks:,} blocks (s)", large.seconds, ORDERS * order),
        Result(f"{job}: peak memory of all processes (GiB)", large.peak, MEMORY),
        *growths,
        Result(
            "redistricting data: growth of peak memory with ten million persons more (GiB)",
            (large.peak - medium.peak) / more,
            MEMORY_GROWTH,
        ),
    ]


def run_job(size: str) -> JobRun:
    """Run the job of one size in an empty deployment."""
    case = Case(EIGHT_STATES, HOUSEHOLDS[size])
    with temporary_home() as home:
        with sample_memory() as memory:
            seconds = case.launch(home, case.releases[-1], {"STIRRED_MEMORY_LIMIT": DUCKDB_MEMORY[size]})
        persons, blocks = run_step(count_records, home, size).returned
        disk = sum(path.stat().st_size for path in Path(home).rglob("*") if path.is_file())
    return JobRun(persons, blocks, seconds, max(memory), disk / 2**30)


def count_records(home: str, size: str) -> tuple[int, int]:
    """The numbers of persons and of blocks."""
    warehouse, _, _ = open_deployment(home)
    case = Case(EIGHT_STATES, HOUSEHOLDS[size])
    release = case.releases[-1].release(case.census, Path(home) / "published")
    with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        return session.count(case.census.cef_tables()[1]), count_places(session, release)[release.finest]


def main(size: str = "") -> None:
    """Print a measurement of one size with what the nation would take; without a size, the rows of `make bench`."""
    if not size:
        print(*measure(), sep="\n")
        return
    run = run_job(size)
    times = max(NATION_PERSONS / run.persons, NATION_BLOCKS / run.blocks)
    print(
        f"{run.persons:,} persons, {run.blocks:,} blocks: {run.seconds:,.0f} s, {run.peak:.2f} GiB of memory, "
        f"{run.disk:.1f} GiB on disk"
    )
    hours = times * run.seconds / 3600
    print(f"the nation, {times:.1f} times as much: {hours:.1f} hours if time grows in proportion")


if __name__ == "__main__":
    main(*sys.argv[1:])
