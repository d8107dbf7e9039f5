"""The whole `ma1940` release, against an empty Dagster job with as many assets.

Each run is started by `dg launch`, includes the imports, and has its own Dagster instance on disk. The set-up has
compiled the kernels, and one run that does not count goes first.
"""

import tempfile
import time

from benchmarks.processes import launch
from benchmarks.result import Result

RUNS = 5
JOB = "ma1940__tenure_by_county"
RELEASE, EMPTY = "orchestration.definitions", "benchmarks.empty_job"
LIMIT = 3.9
"""In durations of the empty job: five seconds where the code of version df8cf5d took ten, half of what that code took
in three runs that alternated with the empty job (8.8, 6.6 and 8.2 of its durations)."""


def measure() -> list[Result]:
    """The seconds that a first publication takes beyond the empty job: the median ratio of five alternating runs."""
    _seconds(RELEASE)
    pairs = [(_seconds(RELEASE), _seconds(EMPTY)) for _ in range(RUNS)]
    release, empty = sorted(pairs, key=lambda pair: pair[0] / pair[1])[RUNS // 2]
    return [Result(f"job {JOB}, beyond an empty job of as many assets (s)", release - empty, empty, LIMIT)]


def _seconds(module: str) -> float:
    with tempfile.TemporaryDirectory(prefix="stirred-bench-") as home:
        places = {"DAGSTER_HOME": home, "STIRRED_HOME": home, "STIRRED_PUBLISHED": f"{home}/published"}
        started = time.perf_counter()
        launch(module, JOB, places)
        return time.perf_counter() - started
