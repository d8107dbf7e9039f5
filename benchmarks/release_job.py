"""The whole `ma1940` release, against an empty Dagster job with as many assets.

Each run is started by `dg launch`, includes the imports, and has its own Dagster instance on disk. The set-up has
compiled the kernels, and one run that does not count goes first.
"""

import statistics
import tempfile
import time

from benchmarks.processes import launch
from benchmarks.result import Result

RUNS = 3
JOB = "ma1940__tenure_by_county"
RELEASE, EMPTY = "orchestration.definitions", "benchmarks.empty_job"


def measure() -> list[Result]:
    """The seconds that a first publication takes beyond the empty job: the median of three alternating runs."""
    _seconds(RELEASE)
    more = [_seconds(RELEASE) - _seconds(EMPTY) for _ in range(RUNS)]
    return [Result(f"job {JOB}, beyond an empty job of as many assets (s)", statistics.median(more), 5.0, 1.0)]


def _seconds(module: str) -> float:
    with tempfile.TemporaryDirectory(prefix="stirred-bench-") as home:
        places = {"DAGSTER_HOME": home, "STIRRED_HOME": home, "STIRRED_PUBLISHED": f"{home}/published"}
        started = time.perf_counter()
        launch(module, JOB, places)
        return time.perf_counter() - started
