"""SafeTab-P and SafeTab-H on 10 million persons in 5,000 tracts: the whole jobs, and the draw of empty groups.

A job makes every stage from the CEF to the publication, with every gate before and at the publication, and is started
by `dg launch`. The groups of a tract are nearly all empty, and all are measured; a nation of 85,000 tracts has 180
million of them at the level of detailed iterations and of regional ones.
"""

import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from assets.safetab.measurements import GROUPS_AT_A_TIME
from benchmarks import processes
from benchmarks.processes import measured
from benchmarks.result import Result
from benchmarks.safetab_jobs import HOUSEHOLDS, RELEASES, census, prepare, releases
from mechanisms.safetab.adaptive import StreamedNoise, draw_block
from mechanisms.safetab.details import FINEST
from mechanisms.safetab.regions import RegionType

SECONDS, MEMORY = 600.0, 6.0
"""The limits of both jobs together, and of the larger one."""

EMPTY_GROUPS = 20_000_000
"""The least number of empty groups that are drawn."""

NATION = 180_000_000
"""The groups of the nation's tracts in the 2020 Census."""

SECONDS_OF_NATION = 60.0


def measure() -> list[Result]:
    """Seconds and peak memory of both jobs, the growth of their time, and the seconds of the nation's empty groups."""
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        seconds, tracts, peak, size = {}, {}, 0.0, ""
        for name in HOUSEHOLDS:
            _, _, (persons, tracts[name]) = measured(prepare, str(home), name)
            runs = [measured(launch, str(home), name, release)[2] for release in RELEASES]
            seconds[name], peak = sum(run[0] for run in runs), max(run[1] for run in runs)
            size = f"{persons:,} persons, {tracts[name]:,} tracts"
        groups, taken = measured(empty_groups)[2]
    finally:
        shutil.rmtree(home)
    half, whole = HOUSEHOLDS
    return [
        Result(f"SafeTab-P and -H, CEF to publication, {size} (s)", seconds[whole], SECONDS, 1.0),
        Result("SafeTab-P and -H, CEF to publication: peak memory (GiB)", peak, MEMORY, 1.0),
        Result(
            "SafeTab-P and -H, CEF to publication: growth of time, against tracts",
            seconds[whole] / seconds[half],
            tracts[whole] / tracts[half],
            1.25,
        ),
        Result(
            f"SafeTab-P, {NATION:,} empty tract groups, from {groups:,} (s)",
            taken * NATION / groups,
            SECONDS_OF_NATION,
            1.0,
        ),
    ]


def launch(home: str, name: str, release: str) -> tuple[float, float]:
    """Run a job; return its seconds, including all imports, and its peak memory in GiB."""
    instance = Path(home) / "dagster"
    instance.mkdir(exist_ok=True)
    places = {"DAGSTER_HOME": str(instance), "STIRRED_HOME": home, "STIRRED_PUBLISHED": f"{home}/published"}
    started = time.perf_counter()
    processes.launch("benchmarks.safetab_jobs", f"{name}__{release}", places)
    return time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def empty_groups() -> tuple[int, float]:
    """Draw all groups of many tracts without persons; return the number of groups and the seconds."""
    name = next(iter(HOUSEHOLDS))
    release = releases(name)[0].release(census(name), Path())
    universes = {
        measured: release.lists.universe(measured.region_type, measured.level)
        for measured in release.design.measured
        if measured.region_type is RegionType.TRACT
    }
    tracts = -(-EMPTY_GROUPS // sum(map(len, universes.values())))
    started = time.perf_counter()
    noise = StreamedNoise(release.design.measured, bytes(32))
    drawn = 0
    for line, universe in universes.items():
        size = GROUPS_AT_A_TIME // len(universe)
        for first in range(0, tracts, size):
            block = [f"{number:011}" for number in range(first, min(first + size, tracts))]
            empty = np.zeros((len(block), len(universe)), dtype=np.int64)
            draw_block(line, block, universe, empty, lambda regions, _: np.zeros((len(regions), FINEST), int), noise)
            drawn += empty.size
    return drawn, time.perf_counter() - started
