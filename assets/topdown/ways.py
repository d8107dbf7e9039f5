"""The options of estimation. This module does not import Dagster, so that `import stirred` does not either.
Declarations are not here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

MOST = 2**40
"""The maximum number of persons or units in a place of published measurements; their sums are exact."""


@dataclass(frozen=True)
class Estimation:
    """The options of estimation, with the meaning of the fields of a release.

    Attributes:
        types_first: by default, with full information, the second level.
    """

    own_levels: bool = False
    types_first: str | None = None
    leaning: bool = False

    @property
    def full(self) -> bool:
        return not self.own_levels

    def complete(self, levels: Sequence[str]) -> "Estimation":
        """The options with the default of `types_first` for these levels. Raises DeclarationError for a level that is
        not above the finest."""
        from assets.release.release import DeclarationError

        types_first = self.types_first or (None if self.own_levels else levels[min(1, len(levels) - 2)])
        if types_first and (self.own_levels or types_first not in levels[:-1]):
            raise DeclarationError(f"types_first: with full estimation, one of {', '.join(levels[:-1])}")
        return replace(self, types_first=types_first)

    def __str__(self) -> str:
        down_to = self.types_first or "the second level"
        how = f"full information, types first down to {down_to}" if self.full else ""
        return f"{how or 'each level from its own measurements'}{', leaning on housing units' if self.leaning else ''}"
