"""How the tests are run: which examples Hypothesis tries, and which files come first.

The examples are the same every time, and there is no deadline, because the first one may wait for numba. `make test`
tries a fifth of them, and `make test-deep` all of them, so that there every test by Hypothesis is a deep one.
"""

from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.depth import QUICK, WHOLE

settings.register_profile("whole", deadline=None, derandomize=True, max_examples=WHOLE)
settings.register_profile("quick", settings.get_profile("whole"), max_examples=QUICK)

LONGEST_FIRST = ("browser", "test_compilation.py", "contract", "assets", "orchestration", "resources")
"""Folders and files in the order in which they are begun, so that no long file is left to one process at the end."""


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("quick" if _quick(config) else "whole")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _quick(config):
        for item in items:
            if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
                item.add_marker(pytest.mark.deep)
    items.sort(key=_turn)


def _quick(config: pytest.Config) -> bool:
    return "not deep" in config.getoption("markexpr")


def _turn(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)
