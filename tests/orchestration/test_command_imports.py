"""What the command imports: help and completion need none of the heavy libraries, `status` only what it reads with."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestration.cli import main
from orchestration.environment import PROJECT
from resources.custody import Custody
from resources.ledger import Ledger
from resources.warehouse import Warehouse
from tests.depth import quick_cases
from tests.resources.test_ledger import reserve

HEAVY = {"dagster", "duckdb", "matplotlib", "numba", "numpy", "pandas", "pandera", "pyarrow"}
"""Libraries that take a quarter of a second or more to import, or import one that does."""


def imported(arguments: Sequence[str], home: Path) -> set[str]:
    """The packages that a process has imported when the command has ended."""
    code = (
        "import json, sys\n"
        "from orchestration.cli import main\n"
        f"main({list(arguments)!r}, standalone_mode=False)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)\n"
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
    return set(json.loads(ended.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "name", ["", *main.commands, "new dataset", "new release", "export registry", "ledger move", "ledger migrate"]
)
def test_help_imports_no_heavy_library(name: str, tmp_path: Path) -> None:
    assert not imported([*name.split(), "--help"], tmp_path) & HEAVY


@quick_cases(0)
@pytest.mark.parametrize("command", ["status", "budget"])
def test_what_only_shows_imports_nothing_that_draws_or_validates(command: str, tmp_path: Path) -> None:
    """DuckDB imports pandas for the first parameter of a statement, so opening a database needs none."""
    home = tmp_path / "STIRRED_HOME"
    warehouse = Warehouse(folder=str(home / "warehouse"))
    reserve(Ledger(warehouse=warehouse, custody=Custody(folder=str(home / "custody"))), "charged")
    assert not imported([command], tmp_path) & {"matplotlib", "numba", "pandas", "pandera", "scipy"}
