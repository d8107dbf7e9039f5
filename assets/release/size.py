"""How large a dataset is expected to be. It follows from what is public, never from the records.

What a release takes in time, memory and disk follows from it (`assets.planning.expectation`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

_PERSONS_2020, _UNITS_2020 = 331_449_281, 140_498_736
"""The persons and the housing units of the 2020 Census, in the states and the District of Columbia."""

_PLACES_2020 = {
    "TABBLKST": 51,
    "TABBLKCOU": 3_143,
    "TABTRACTCE": 84_414,
    "TABBLKGRPCE": 239_780,
    "TABBLK": 8_132_968,
    "PLACEFP": 31_617,
    "AIANNHCE": 704,
}
"""Its places, by the column of the census layout that tells them apart. Source: the Census Bureau's tallies of
geographic entities."""


@dataclass(frozen=True)
class Size:
    """The expected size of a dataset.

    Attributes:
        persons: the number of persons; 0 if the dataset has none.
        places: by geographic column of the census layout, how many places there are that it tells apart from others.
    """

    units: int
    persons: int
    places: Mapping[str, int] = field(default_factory=dict)

    @property
    def records(self) -> int:
        return self.units + self.persons

    def places_of(self, columns: Collection[str]) -> int:
        """How many places a code of these columns has; no more than there are units. A code of none has one."""
        return max((self.places.get(column, self.units) for column in columns), default=1)


def like_2020(persons: int) -> Size:
    """The size of a census in which there are as many housing units and places for each person as in 2020.

    Args:
        persons: the number of persons, at least 1.
    """

    def share(number: int) -> int:
        return max(1, -(-number * persons // _PERSONS_2020))

    return Size(share(_UNITS_2020), persons, {column: share(number) for column, number in _PLACES_2020.items()})
