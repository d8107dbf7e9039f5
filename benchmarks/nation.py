"""Whole jobs on synthetic censuses, started by `dg launch`: redistricting data at three sizes, and detailed groups.

A job makes every stage from the CEF to the publication, with every gate. `python -m benchmarks.nation` measures the
redistricting data of eight states; with `tenth`, it measures a tenth of the nation, which takes too long for
`make bench`, and extrapolates to the nation in proportion.

The groups of SafeTab in a tract are nearly all empty, and all are measured; a nation of 85,000 tracts has 180 million
of them at the level of detailed iterations and of regional ones.
"""

import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from assets.cef.synthetic import write as write_census
from assets.safetab.measurements import GROUPS_AT_A_TIME
from assets.topdown.spine import count_places
from benchmarks import swap_stage
from benchmarks.harness import Result, open_warehouse, run_step, temporary_home, time_with_memory, write_cef
from benchmarks.jobs import DETAILED, EIGHT_STATES, Case
from mechanisms.safetab.adaptive import GroupNoise, draw_block
from mechanisms.safetab.details import FINEST
from mechanisms.safetab.lists import RegionType
from resources.statements import SQL, Zone
from resources.warehouse import Session

HOUSEHOLDS = {"small": 390_000, "medium": 1_170_000, "large": 3_900_000, "tenth": 13_000_000}
"""By name of the size, the households in all states: about 1, 3, 10 and 33.6 million persons."""

MEMORY = 4.0
"""The limit of the large size, in GiB."""

ORDERS = 300 / 7.8
"""The limit of the large size, in random orders of 20 million households by DuckDB (`swap_stage`): five minutes on a
machine that took 7.8 s for one."""

DUCKDB_MEMORY = {"small": "256MiB", "medium": "256MiB", "large": "256MiB", "tenth": "1GiB"}
"""The memory limit of DuckDB in each job. All three sizes compared reach the limit: below it, DuckDB keeps more of
larger data in memory just because there is room."""

MEMORY_GROWTH = 0.2
"""The limit of the growth of peak memory with ten million more persons, in GiB."""

NATION_PERSONS, NATION_BLOCKS = 331_449_281, 5_892_698
"""Persons, and blocks with persons, in the 2020 Census."""

HALF, WHOLE = 1_950_000, 3_900_000
"""Households in all states, for detailed groups. The larger size has over 10 million persons and over 5,000 tracts."""

EMPTY_GROUPS, NATION_GROUPS = 20_000_000, 180_000_000
"""The minimum number of empty groups drawn, and the number of groups of the nation's tracts in the 2020 Census."""

_TRACTS = SQL(
    "benchmarks/tracts", "SELECT count(*) FROM (SELECT DISTINCT TABBLKST, TABBLKCOU, TABTRACTCE FROM {{ units }})"
)


@dataclass(frozen=True)
class JobRun:
    """A measured job: its duration with all imports, and GiB of memory, of all processes at once, and of disk."""

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
    job, data = "redistricting data, CEF to publication", "redistricting data"
    growths = [
        Result(
            f"{data}: growth of time from {smaller.persons:,} to {larger.persons:,} persons",
            larger.seconds / smaller.seconds,
            larger.persons / smaller.persons,
        )
        for smaller, larger in ((small, medium), (medium, large))
    ]
    added = (large.peak - medium.peak) / ((large.persons - medium.persons) / 1e7)
    return [
        Result(f"{job}, {large.persons:,} persons, {large.blocks:,} blocks (s)", large.seconds, ORDERS * order),
        Result(f"{job}: peak memory of all processes (GiB)", large.peak, MEMORY),
        *growths,
        Result(f"{data}: growth of peak memory with ten million persons more (GiB)", added, MEMORY_GROWTH),
    ]


def run_job(size: str) -> JobRun:
    case = Case(EIGHT_STATES, HOUSEHOLDS[size])
    limit = {"STIRRED_MEMORY_LIMIT": DUCKDB_MEMORY[size]}
    with temporary_home() as home:
        seconds, peak = time_with_memory(partial(case.launch, home, case.releases[-1], limit))
        persons, blocks = run_step(count_records, home, size).returned
        disk = sum(path.stat().st_size for path in Path(home).rglob("*") if path.is_file())
    return JobRun(persons, blocks, seconds, peak, disk / 2**30)


def count_records(home: str, size: str) -> tuple[int, int]:
    case = Case(EIGHT_STATES, HOUSEHOLDS[size])
    release = case.releases[-1].release(case.census, Path(home) / "published")
    with open_warehouse(home).session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        return session.count(case.census.cef_tables()[1]), count_places(session, release)[release.finest]


def measure_detailed_groups() -> list[Result]:
    """Seconds and peak memory of both jobs, the growth of their time, and the seconds of the nation's empty groups."""
    seconds, tracts = {}, {}
    for households in (HALF, WHOLE):
        with temporary_home() as home:
            persons, tracts[households] = run_step(prepare, home, households).returned
            case = Case(DETAILED, households)
            runs = [time_with_memory(partial(case.launch, home, release)) for release in case.releases]
        seconds[households] = sum(duration for duration, _ in runs)
    groups, drawing = run_step(draw_empty_groups).returned
    growth, expected = seconds[WHOLE] / seconds[HALF], tracts[WHOLE] / tracts[HALF]
    jobs = "SafeTab-P and -H, CEF to publication"
    nation = f"SafeTab-P, {NATION_GROUPS:,} empty tract groups, from {groups:,} (s)"
    return [
        Result(f"{jobs}, {persons:,} persons, {tracts[WHOLE]:,} tracts (s)", seconds[WHOLE], 600.0),
        Result(f"{jobs}: peak memory (GiB)", max(peak for _, peak in runs), 6.0),
        Result(f"{jobs}: growth of time, against tracts", growth, expected, 1.25),
        Result(nation, drawing * NATION_GROUPS / groups, 60.0),
    ]


def prepare(home: str, households: int) -> tuple[int, int]:
    """Generate the CEF; return the numbers of persons and of tracts. A tract of the synthetic census has three block
    groups. Here the third is a separate tract, so that 10 million persons live in over 5,000 tracts."""
    dataset = Case(DETAILED, households).census
    units = dataset.cef_tables()[0]
    tracts = 0

    def write(session: Session) -> None:
        nonlocal tracts
        write_census(session, dataset)
        session.create(units, "benchmarks/units_in_smaller_tracts", units=units)
        tracts = int(session.row(_TRACTS, units=units)[0])

    return write_cef(home, dataset, write), tracts


def draw_empty_groups() -> tuple[int, float]:
    """Draw all groups of many tracts without persons; return the number of groups and the seconds."""
    case = Case(DETAILED, HALF)
    release = case.releases[0].release(case.census, Path())
    universes = {
        measured: release.lists.universe(measured.region_type, measured.level)
        for measured in release.design.measured
        if measured.region_type is RegionType.TRACT
    }
    tracts = -(-EMPTY_GROUPS // sum(map(len, universes.values())))
    started = time.perf_counter()
    noise = GroupNoise(release.design.measured, bytes(32))
    groups = 0
    for line, universe in universes.items():
        size = GROUPS_AT_A_TIME // len(universe)
        for first in range(0, tracts, size):
            block = [f"{number:011}" for number in range(first, min(first + size, tracts))]
            empty = np.zeros((len(block), len(universe)), dtype=np.int64)
            draw_block(line, block, universe, empty, lambda regions, _: np.zeros((len(regions), FINEST), int), noise)
            groups += empty.size
    return groups, time.perf_counter() - started


def main(size: str = "") -> None:
    """Print a measurement of one size with its extrapolation to the nation; without a size, the rows of
    `make bench`."""
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
