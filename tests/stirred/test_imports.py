"""The imports of `stirred`: none before its use, and neither Dagster nor a database for a mechanism."""

import json
import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import stirred

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 0.5


def imported(code: str) -> tuple[set[str], float]:
    """The packages that a process has imported after some code, and its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    show = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return set(json.loads(done.stdout)), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_package_loads_nothing_until_it_is_used() -> None:
    packages, seconds = imported("import stirred; dir(stirred)")
    assert not packages & {"numpy", "pyarrow", "dagster", "assets", "mechanisms", "orchestration"}
    assert seconds < MOST_SECONDS


def test_mechanisms_need_neither_dagster_nor_a_database_nor_pandas() -> None:
    names = ", ".join(name for name in stirred.__all__ if name != "open")
    packages, _ = imported(f"from stirred import {names}")
    assert {"numpy", "pyarrow"} <= packages
    assert not packages & {"dagster", "duckdb", "pandas", "orchestration", "streamlit", "matplotlib"}


def test_there_is_one_version() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == stirred.__version__
    assert f"\nversion: {stirred.__version__}\n" in (ROOT / "CITATION.cff").read_text()
