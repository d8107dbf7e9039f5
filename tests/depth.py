"""The part of `make test-deep` that `make test` runs: a fifth of Hypothesis's examples, and some parameters.

Test modules use these functions to select it; `conftest` determines which of the two runs.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

WHOLE, QUICK = 100, 20
"""The default numbers of examples in `make test-deep` and in `make test`; `settings` has one of them as its default."""


def examples(count: int) -> int:
    """The share of `count` examples to be tried in this run: for `settings(max_examples=examples(1500))`."""
    return max(1, count * settings.default.max_examples // WHOLE)


def quick_cases(number: int) -> pytest.MarkDecorator:
    """Mark the cases of a test as deep, but for this number of those that are not. They are spread evenly."""
    return pytest.mark.quick_cases(number)


def deep_but(quick: Collection[Any], parameters: Iterable[Any]) -> list[pytest.ParameterSet]:
    """The parameters of a test, with all but those in `quick` marked as deep. A tuple is several parameters."""
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=[] if each in quick else [pytest.mark.deep])
        for each in parameters
    ]
