"""The whole `ma1940` release, against an empty Dagster job with as many assets.

Each run is started by `dg launch`, includes the imports, and has its own Dagster instance on disk. The set-up has
compiled the kernels, and one run that does not count goes first.
"""

from benchmarks.harness import Result, find_median_run, launch, temporary_home

RUNS = 5
JOB = "ma1940__tenure_by_county"
RELEASE, EMPTY = "orchestration.definitions", "benchmarks.empty_job"
LIMIT = 3.9
"""In durations of the empty job: five seconds where the code of version df8cf5d took ten, half of what that code took
in three runs that alternated with the empty job (8.8, 6.6 and 8.2 of its durations)."""


def measure() -> list[Result]:
    """The seconds that a first publication takes beyond the empty job: the median ratio of five alternating runs."""
    _time_job(RELEASE)
    release, empty = find_median_run((_time_job(RELEASE), _time_job(EMPTY)) for _ in range(RUNS))
    return [Result(f"job {JOB}, beyond an empty job of as many assets (s)", release - empty, empty, LIMIT)]


def _time_job(module: str) -> float:
    with temporary_home() as home:
        return launch(home, module, JOB)
