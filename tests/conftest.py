"""How the tests run: the examples that Hypothesis tries, and the order of files.

The examples are the same every time, and have no deadline, as the first one may wait for Numba. `make prove` tries all
of them, so every Hypothesis test belongs to it; all other runs try a fifth.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from hypothesis import is_hypothesis_test, settings

from tests.depth import QUICK, WHOLE
from tests.templates import VARIABLE, template_folder

if TYPE_CHECKING:
    from tests.postgres import Server

# The matrices are small: a second thread of OpenBLAS mostly waits for the first, in a loop that keeps a core busy.
# NumPy reads this when it is first imported, here and in every process that a test starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile("whole", deadline=None, derandomize=True, max_examples=WHOLE)
settings.register_profile("quick", settings.get_profile("whole"), max_examples=QUICK)

LONGEST_FIRST = (
    "browser/test_ui.py",
    "contract",
    "docs/test_tutorial.py",
    "browser",
    "test_compilation.py",
    "assets",
    "orchestration",
    "resources",
    "",
)
"""The folders and files that start first, in this order, so that no long file runs alone in one process at the end, and
that tests in a browser, which wait most of the time, run beside others."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than processors, because tests of pages and of processes wait for others most of the time.

    With two more, CI took longer: each process makes the shared parts of its tests again.
    """
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    if VARIABLE not in os.environ:
        folder = template_folder()
        folder.__enter__()
        config.add_cleanup(lambda: folder.__exit__(None, None, None))
    settings.load_profile("whole" if _proves(config) else "quick")


def pytest_collection_finish() -> None:
    """Spare runs most searches for garbage, which go through all tests, and new instances of Dagster 90 files."""
    gc.freeze()
    gc.set_threshold(50_000)
    read, folders = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()

    def read_once(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in folders:
            folders[place] = read(config)
        return folders[place]

    ScriptDirectory.from_config = staticmethod(read_once)  # type: ignore[method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _proves(config):
        for item in items:
            if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
                item.add_marker("prove")
    for cases in _by_test(item for item in items if not item.get_closest_marker("fault")).values():
        _spread(cases, "quick_cases", "deep")
        _spread([case for case in cases if case.get_closest_marker("deep")], "deep_cases", "prove")
    items.sort(key=_turn)


def _spread(cases: Sequence[pytest.Item], marker: str, others: str) -> None:
    """Run as many cases of a test as its marker gives, evenly spread, and mark the others."""
    marked = cases[0].get_closest_marker(marker) if cases else None
    if marked is None:
        return
    (number,) = marked.args
    open_cases = [case for case in cases if not case.get_closest_marker(others)]
    kept = [open_cases[len(open_cases) * turn // number] for turn in range(min(number, len(open_cases)))]
    for case in open_cases:
        if case not in kept:
            case.add_marker(others)


def _by_test(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """All cases of each test."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.split("[")[0], []).append(item)
    return tests


def _proves(config: pytest.Config) -> bool:
    return config.getoption("markexpr") == "prove"


def _turn(item: pytest.Item) -> int:
    path = item.path.relative_to(Path(__file__).parent).as_posix()
    return next(turn for turn, beginning in enumerate(LONGEST_FIRST) if path.startswith(beginning))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One PostgreSQL server for all tests of this process that need one."""
    from tests.postgres import server

    with server() as started:
        yield started
