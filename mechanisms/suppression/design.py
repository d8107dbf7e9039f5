"""The parameters of suppression."""

from dataclasses import dataclass
from typing import Any

MECHANISM = "suppression"

VERSION = 1
"""Raised when the same counts would give other suppressed cells."""


@dataclass(frozen=True)
class SuppressionDesign:
    """Which cells are suppressed, and how little may be known of them.

    Attributes:
        of: units or persons.
        threshold: counts from 1 to below it are suppressed.
        width: the least difference of the greatest and the least count that a suppressed cell can have.
        tables: by name, the variables, in alphabetical order.
    """

    of: str
    threshold: int
    width: int
    tables: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, in alphabetical order."""
        return tuple(sorted({name for _, names in self.tables for name in names}))

    def as_record(self) -> dict[str, Any]:
        tables = {name: list(variables) for name, variables in self.tables}
        return {"of": self.of, "threshold": self.threshold, "width": self.width, "tables": tables}
