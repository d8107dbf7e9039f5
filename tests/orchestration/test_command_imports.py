"""The command's imports: help and completion need none of the heavy libraries, `status` only those that it reads
with."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestration.cli import main
from resources.custody import Custody
from resources.ledger import Ledger
from resources.project import PROJECT
from resources.warehouse import Warehouse
from tests.depth import deep_cases, quick_cases
from tests.resources.test_ledger import reserve

HEAVY = {"dagster", "duckdb", "matplotlib", "numba", "numpy", "pandas", "pandera", "pyarrow"}
"""Libraries that take a quarter of a second or more to import, or import one that does."""


def imported(home: Path, *commands: Sequence[str]) -> list[set[str]]:
    """The packages that one process has imported when each of these commands has ended."""
    code = (
        "import json, sys\n"
        "from orchestration.cli import main\n"
        "found = []\n"
        f"for arguments in {list(map(list, commands))!r}:\n"
        "    main(arguments, standalone_mode=False)\n"
        "    found.append(sorted({name.partition('.')[0] for name in sys.modules}))\n"
        "print(json.dumps(found), file=sys.stderr)\n"
    )
    folders = {name: str(home / name) for name in ("STIRRED_HOME", "STIRRED_PUBLISHED", "DAGSTER_HOME")}
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=PROJECT,
        env=os.environ | folders,
        capture_output=True,
        text=True,
        check=True,
    )
    return [set(packages) for packages in json.loads(ended.stderr.splitlines()[-1])]


def test_help_imports_no_heavy_library(tmp_path: Path) -> None:
    """One process tries all commands; the first command with a finding is the one that imports the library."""
    names = ["", *main.commands, "new dataset", "new release", "export registry", "ledger move", "ledger migrate"]
    found = imported(tmp_path, *([*name.split(), "--help"] for name in names))
    assert {name: packages & HEAVY for name, packages in zip(names, found, strict=True) if packages & HEAVY} == {}


@deep_cases(1)
@quick_cases(0)
@pytest.mark.parametrize("command", ["status", "budget"])
def test_what_only_shows_imports_nothing_that_draws_or_validates(command: str, tmp_path: Path) -> None:
    """DuckDB imports pandas for the first parameter of a statement, so opening a database needs none."""
    home = tmp_path / "STIRRED_HOME"
    warehouse = Warehouse(folder=str(home / "warehouse"))
    reserve(Ledger(warehouse=warehouse, custody=Custody(folder=str(home / "custody"))), "charged")
    (packages,) = imported(tmp_path, [command])
    assert not packages & {"matplotlib", "numba", "pandas", "pandera", "scipy"}


def test_a_launch_by_the_queue_imports_no_heavy_library() -> None:
    """The imports of a launch that only asks the webserver. With Dagster, the launch takes ten times as long."""
    code = "import sys, orchestration.cli.runs\nprint(*{name.partition('.')[0] for name in sys.modules})"
    shown = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=PROJECT, capture_output=True, check=True)
    assert not HEAVY & set(shown.stdout.decode().split())
