"""The time of a replicate of TopDown against that of the estimation, on the same census and with as many processes.

`python -m benchmarks.topdown_replicates 99250` measures a smaller census.
"""

import shutil
import sys
import tempfile
from dataclasses import replace
from time import perf_counter

from assets.topdown.replicates import make_replicates
from benchmarks.processes import measured
from benchmarks.resources import opened
from benchmarks.result import Result
from benchmarks.topdown_estimation import SIZES, bench_release, draw, estimate, memory, prepare

REPLICATES = 4
"""How many are made: enough to keep all processes busy. Each takes as long as any other."""


def measure(households: int = SIZES[-1]) -> list[Result]:
    """Seconds for each replicate, against the seconds of the estimation, and the peak memory of all processes together.

    The estimation reads stored measurements; a replicate also draws its noise, and is stored.
    """
    home = tempfile.mkdtemp(prefix="stirred-bench-")
    try:
        _, _, (blocks, persons, _) = measured(prepare, home, households)
        measured(draw, home, households)
        _, _, (estimating, _) = measured(estimate, home, households)
        _, _, (repeating, peak) = measured(repeat, home, households)
    finally:
        shutil.rmtree(home)
    size = f"{blocks:,} blocks, {persons:,} persons"
    return [
        Result(f"TopDown, a replicate against the estimation: {size} (s)", repeating / REPLICATES, estimating, 1.0),
        Result(f"TopDown, replicates: {size}: peak memory (GiB)", peak, 8.0, 1.0),
    ]


def repeat(home: str, households: int) -> tuple[float, float]:
    """Make the replicates; return the seconds, and the peak memory of all processes together in GiB."""
    warehouse, custody, _ = opened(home)
    release = replace(bench_release(home, households), replicates=REPLICATES)
    with memory() as peak:
        started = perf_counter()
        make_replicates(warehouse, custody, release, lambda done, declared: None)
        seconds = perf_counter() - started
    return seconds, max(peak)


if __name__ == "__main__":
    for result in measure(*map(int, sys.argv[1:2])):
        print(f"{result.name}: {result.ours:,.2f}, other {result.other:,.2f}, ratio {result.ratio:.3g}")
