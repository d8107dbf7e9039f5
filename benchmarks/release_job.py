"""The whole `ma1940` release, against an empty Dagster job of as many assets.

Here belongs the measurement: whole processes, imports included, each with a Dagster instance on disk of its own.
What the compiler of the mechanism does once on a machine is done before.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob

from benchmarks.result import Result

RUNS = 3
JOB = "ma1940__tenure_by_county"


def measure() -> list[Result]:
    """Seconds that a first publication takes beyond the empty job: the median of three runs in turn."""
    _seconds("release")
    more = [_seconds("release") - _seconds("empty") for _ in range(RUNS)]
    return [Result(f"job {JOB}, beyond an empty job of as many assets (s)", statistics.median(more), 10.0, 1.0)]


def _seconds(what: str) -> float:
    with tempfile.TemporaryDirectory(prefix="stirred-bench-") as home:
        environment = os.environ | {"STIRRED_HOME": home, "STIRRED_PUBLISHED": f"{home}/published"}
        command = [sys.executable, "-m", __name__, what, home]
        started = time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return time.perf_counter() - started


def _run(what: str, home: Path) -> None:
    repository = (_release() if what == "release" else _empty()).get_repository_def()
    # As in a deployment, and unlike in a bare in-process run, assets see the whole repository they are in.
    whole = patch.object(InMemoryJob, "get_repository_definition", lambda job: repository)
    with dg.DagsterInstance.local_temp(str(home)) as instance, whole:
        repository.get_job(JOB).execute_in_process(instance=instance)


def _release() -> dg.Definitions:
    from orchestration.definitions import defs

    return defs()


def _empty() -> dg.Definitions:
    names = ["cef", "invariants", "charge", "swapped", "tables", "utility", "experiment", "publication"]
    names += ["ledger", "composition"]
    assets = []
    for name in names:

        @dg.asset(name=name)
        def nothing() -> None:
            return None

        assets.append(nothing)
    return dg.Definitions(assets=assets, jobs=[dg.define_asset_job(JOB)], executor=dg.in_process_executor)


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]))
