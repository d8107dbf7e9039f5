"""The parameters of suppression."""

from dataclasses import dataclass
from typing import Any

from mechanisms.design import DesignError

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

    Raises DesignError if the width is more than the threshold itself leaves open.
    """

    of: str
    threshold: int
    width: int
    tables: tuple[tuple[str, tuple[str, ...]], ...]

    def __post_init__(self) -> None:
        if self.width > self.threshold - 2:
            raise DesignError(
                f"width: at most {self.threshold - 2}, because a count below the threshold is from 1 to "
                f"{self.threshold - 1}"
            )

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, in alphabetical order."""
        return tuple(sorted({name for _, names in self.tables for name in names}))

    def as_record(self) -> dict[str, Any]:
        tables = {name: list(variables) for name, variables in self.tables}
        return {"of": self.of, "threshold": self.threshold, "width": self.width, "tables": tables}
