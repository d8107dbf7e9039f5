"""SafeTab-P and SafeTab-H on 10 million persons in 5,000 tracts: the whole jobs, and the draw of empty groups.

A job makes every stage from the CEF to the publication, with every gate before and at the publication, and is started
by `dg launch`. The groups of a tract are nearly all empty, and all are measured; a nation of 85,000 tracts has 180
million of them at the level of detailed iterations and of regional ones.
"""

import resource
import time
from pathlib import Path

import numpy as np

from assets.cef.synthetic import write as write_census
from assets.safetab.measurements import GROUPS_AT_A_TIME
from benchmarks.harness import Result, run_step, temporary_home, write_cef
from benchmarks.jobs import DETAILED, Case
from mechanisms.safetab.adaptive import StreamedNoise, draw_block
from mechanisms.safetab.details import FINEST
from mechanisms.safetab.regions import RegionType
from resources.statements import SQL
from resources.warehouse import Session

SIZES = HALF, WHOLE = 1_950_000, 3_900_000
"""Households in all states. The larger size has over 10 million persons and over 5,000 tracts."""

SECONDS, MEMORY = 600.0, 6.0
"""The limits of both jobs together, and of the larger one."""

EMPTY_GROUPS = 20_000_000
"""The least number of empty groups that are drawn."""

NATION_GROUPS = 180_000_000
"""The groups of the nation's tracts in the 2020 Census."""

NATION_SECONDS = 60.0

_TRACTS = SQL(
    "benchmarks/tracts", "SELECT count(*) FROM (SELECT DISTINCT TABBLKST, TABBLKCOU, TABTRACTCE FROM {{ units }})"
)


def measure() -> list[Result]:
    """Seconds and peak memory of both jobs, the growth of their time, and the seconds of the nation's empty groups."""
    seconds, tracts, peak, size = {}, {}, 0.0, ""
    for households in SIZES:
        with temporary_home() as home:
            persons, tracts[households] = run_step(prepare, home, households).returned
            runs = [run_step(launch, home, households, number).returned for number in range(2)]
        seconds[households], peak = sum(run[0] for run in runs), max(run[1] for run in runs)
        size = f"{persons:,} persons, {tracts[households]:,} tracts"
    groups, taken = run_step(draw_empty_groups).returned
    jobs = "SafeTab-P and -H, CEF to publication"
    growth, expected = seconds[WHOLE] / seconds[HALF], tracts[WHOLE] / tracts[HALF]
    nation = f"SafeTab-P, {NATION_GROUPS:,} empty tract groups, from {groups:,} (s)"
    return [
        Result(f"{jobs}, {size} (s)", seconds[WHOLE], SECONDS),
        Result(f"{jobs}: peak memory (GiB)", peak, MEMORY),
        Result(f"{jobs}: growth of time, against tracts", growth, expected, 1.25),
        Result(nation, taken * NATION_GROUPS / groups, NATION_SECONDS),
    ]


def prepare(home: str, households: int) -> tuple[int, int]:
    """Generate the CEF; return the numbers of persons and of tracts.

    A tract of the synthetic census has three block groups. Here the third is a tract of its own, so that 10 million
    persons live in over 5,000 tracts.
    """
    dataset = Case(DETAILED, households).census
    units = dataset.cef_tables()[0]
    tracts = 0

    def write(session: Session) -> None:
        nonlocal tracts
        write_census(session, dataset)
        session.create(units, "benchmarks/units_in_smaller_tracts", units=units)
        tracts = int(session.row(_TRACTS, units=units)[0])

    return write_cef(home, dataset, write), tracts


def launch(home: str, households: int, number: int) -> tuple[float, float]:
    """Run the job of a release; return its seconds and its peak memory in GiB."""
    case = Case(DETAILED, households)
    seconds = case.launch(home, case.releases[number])
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


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
    noise = StreamedNoise(release.design.measured, bytes(32))
    groups = 0
    for line, universe in universes.items():
        size = GROUPS_AT_A_TIME // len(universe)
        for first in range(0, tracts, size):
            block = [f"{number:011}" for number in range(first, min(first + size, tracts))]
            empty = np.zeros((len(block), len(universe)), dtype=np.int64)
            draw_block(line, block, universe, empty, lambda regions, _: np.zeros((len(regions), FINEST), int), noise)
            groups += empty.size
    return groups, time.perf_counter() - started
