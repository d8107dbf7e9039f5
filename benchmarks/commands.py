"""Processes against Dagster's own: the command `stirred`, and the whole `ma1940` release.

The release is made by `dg launch` for its duration, and by `stirred launch` for its processor time; so is an empty job
of as many assets by Dagster's commands. Each run imports everything and has its own Dagster instance on disk. A warm-up
run, which does not count, goes first.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.harness import Result, find_median_run, launch, read_processor_seconds, temporary_home
from resources.project import PROJECT

RUNS = 5
JOB = "ma1940__tenure_by_county"
RELEASE, EMPTY = "orchestration.definitions", "benchmarks.empty_job"
LIMIT = 3.9
"""In durations of the empty job: five seconds where the code of version df8cf5d took ten, half of that code's time in
three runs that alternated with the empty job (8.8, 6.6 and 8.2 of its durations)."""


def measure() -> list[Result]:
    """CPU seconds of help against `dg --help`, and of two commands against `import dagster`, which both need."""
    stirred = [sys.executable, "-m", "orchestration.cli"]
    dagster = _time_command([sys.executable, "-c", "import dagster"])
    dagster_help = _time_command([str(Path(sys.executable).with_name("dg")), "--help"])
    return [
        Result("stirred --help, CPU s / dg --help", _time_command([*stirred, "--help"]), dagster_help, 1.0),
        Result("stirred status, CPU s / import dagster", _time_command([*stirred, "status"]), dagster, 4.0),
        Result("stirred budget, CPU s / import dagster", _time_command([*stirred, "budget"]), dagster, 3.5),
    ]


def measure_launch() -> list[Result]:
    """CPU seconds of a first `stirred launch`, and of the empty job by Dagster's own command in the same run."""
    stirred = [sys.executable, "-m", "orchestration.cli", "launch", JOB.replace("__", "/", 1)]
    dagster = [str(Path(sys.executable).with_name("dagster")), "job", "execute", "-m", EMPTY, "-j", JOB]
    runs = ((_time_command(stirred, 1), _time_command(dagster, 1)) for _ in range(RUNS))
    launched, empty = find_median_run(runs)
    return [Result(f"stirred launch, job {JOB}, CPU s / an empty job of as many assets", launched, empty, 3.6)]


def _time_command(command: Sequence[str], runs: int = RUNS) -> float:
    """The median CPU seconds, user and system, of runs of a command on an empty deployment."""
    seconds = []
    with temporary_home() as home:
        folders = {name: f"{home}/{name}" for name in ("STIRRED_HOME", "STIRRED_PUBLISHED", "DAGSTER_HOME")}
        Path(home, "DAGSTER_HOME").mkdir()
        for _ in range(runs):
            before = read_processor_seconds()
            subprocess.run(command, cwd=PROJECT, env=os.environ | folders, check=True, capture_output=True)
            seconds.append(read_processor_seconds() - before)
    return median(seconds)


def measure_release() -> list[Result]:
    """The seconds that a first publication takes beyond the empty job: the median ratio of five alternating runs."""
    _time_job(RELEASE)
    release, empty = find_median_run((_time_job(RELEASE), _time_job(EMPTY)) for _ in range(RUNS))
    return [Result(f"job {JOB}, beyond an empty job of as many assets (s)", release - empty, empty, LIMIT)]


def _time_job(module: str) -> float:
    with temporary_home() as home:
        return launch(home, module, JOB)
