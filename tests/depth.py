"""How many examples a test by Hypothesis tries: all that it asks for, or, in `make test`, a fifth of them.

Here belongs what test modules need for that; which of the two is meant is decided in `conftest`.
"""

from hypothesis import settings

WHOLE, QUICK = 100, 20
"""Examples of a test that does not say how many it wants; `settings` has one or the other as its default."""


def examples(count: int) -> int:
    """So many of the examples as are to be tried now: for `settings(max_examples=examples(1500))`."""
    return max(1, count * settings.default.max_examples // WHOLE)
