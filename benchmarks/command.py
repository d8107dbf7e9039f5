"""The CPU time of the command `stirred` before it does anything, against Dagster's own command and its import."""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.harness import Result

_TIMES = 5


def measure() -> list[Result]:
    """Help against `dg --help`; a status against `import dagster`, which it cannot do without."""
    folder = Path(sys.executable).parent
    stirred = [sys.executable, "-m", "orchestration.cli"]
    dagster = _seconds([sys.executable, "-c", "import dagster"])
    return [
        Result(
            "stirred --help, CPU s / dg --help",
            _seconds([*stirred, "--help"]),
            _seconds([str(folder / "dg"), "--help"]),
            1.0,
        ),
        Result("stirred status, CPU s / import dagster", _seconds([*stirred, "status"]), dagster, 4.0),
        Result("stirred budget, CPU s / import dagster", _seconds([*stirred, "budget"]), dagster, 3.5),
    ]


def _seconds(command: Sequence[str]) -> float:
    """The median CPU time of a command on an empty deployment, user and system."""

    def once(home: str) -> float:
        folders = {name: f"{home}/{name}" for name in ("STIRRED_HOME", "STIRRED_PUBLISHED", "DAGSTER_HOME")}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        root = Path(__file__).parents[1]
        subprocess.run(command, cwd=root, env=os.environ | folders, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    with TemporaryDirectory() as home:
        return median(once(home) for _ in range(_TIMES))
