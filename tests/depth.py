"""The cases that a run of the tests tries: the cases of `make test`, of `make test-deep`, or of `make prove`.

Test modules use these functions to select them; `conftest` determines which of them runs.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

WHOLE, QUICK = 100, 20
"""The numbers of examples in `make prove` and in all other runs; `settings` has one of them as its default."""


def examples(count: int) -> int:
    """The share of `count` examples to be tried in this run: for `settings(max_examples=examples(1500))`."""
    return max(1, count * settings.default.max_examples // WHOLE)


def quick_cases(number: int) -> pytest.MarkDecorator:
    """Mark all but this number of a test's cases as deep. The others are spread evenly."""
    return pytest.mark.quick_cases(number)


def deep_cases(number: int) -> pytest.MarkDecorator:
    """Leave all but this number of a test's deep cases to `make prove`. The others are spread evenly."""
    return pytest.mark.deep_cases(number)


def deep_but(quick: Collection[Any], parameters: Iterable[Any]) -> list[pytest.ParameterSet]:
    """The parameters of a test, with all except `quick` marked as deep. A tuple is several parameters."""
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=[] if each in quick else [pytest.mark.deep])
        for each in parameters
    ]
