"""Refusals for a reason that people can act on. Every other exception is a fault in the code."""

from collections.abc import Iterable


class RefusedError(Exception):
    """A refusal, whose one sentence names the file or release, the field, the rule and the count. No trace is shown."""


def are_lists(*given: object) -> bool:
    """Whether all are lists or other collections. A text is none: each of its letters would count as an entry."""
    return all(isinstance(each, Iterable) and not isinstance(each, str) for each in given)
