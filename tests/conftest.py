"""How the tests run: which examples Hypothesis tries, and the order of files.

The examples are the same every time, and have no deadline, as the first one may wait for Numba. `make test` tries a
fifth of them and `make test-deep` tries all, so every Hypothesis test is marked as deep there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.depth import QUICK, WHOLE

if TYPE_CHECKING:
    from tests.postgres import Server

settings.register_profile("whole", deadline=None, derandomize=True, max_examples=WHOLE)
settings.register_profile("quick", settings.get_profile("whole"), max_examples=QUICK)

LONGEST_FIRST = ("browser", "test_compilation.py", "contract", "assets", "orchestration", "resources")
"""The folders and files that start first, in this order, so that no long file runs alone in one process at the end."""


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("quick" if _quick(config) else "whole")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _quick(config):
        for item in items:
            if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
                item.add_marker(pytest.mark.deep)
    for cases in _by_test(items).values():
        if marked := cases[0].get_closest_marker("quick_cases"):
            (number,) = marked.args
            others = [case for case in cases if not case.get_closest_marker("deep")]
            quick = [others[len(others) * turn // number] for turn in range(min(number, len(others)))]
            for case in others:
                if case not in quick:
                    case.add_marker(pytest.mark.deep)
    items.sort(key=_turn)


def _by_test(items: Sequence[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """All cases of each test."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.split("[")[0], []).append(item)
    return tests


def _quick(config: pytest.Config) -> bool:
    return "not deep" in config.getoption("markexpr")


def _turn(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One PostgreSQL server for all tests of this process that need one."""
    from tests.postgres import server

    with server() as started:
        yield started
