"""What `make test` tries of all that `make test-deep` tries: a fifth of Hypothesis's examples, and some parameters.

Here belongs what test modules need to say so; which of the two is run is decided in `conftest`.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

WHOLE, QUICK = 100, 20
"""Examples of a test that does not say how many it wants; `settings` has one or the other as its default."""


def examples(count: int) -> int:
    """So many of the examples as are to be tried now: for `settings(max_examples=examples(1500))`."""
    return max(1, count * settings.default.max_examples // WHOLE)


def deep_but(quick: Collection[Any], parameters: Iterable[Any]) -> list[pytest.ParameterSet]:
    """Parameters of a test, of which all but some are for deep tests alone; a tuple is several parameters."""
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=[] if each in quick else [pytest.mark.deep])
        for each in parameters
    ]
