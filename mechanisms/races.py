"""The six races and the combinations of them that a person may report, in the order of census codes and tables."""

from itertools import combinations

SIX_RACES = (
    "White",
    "Black or African American",
    "American Indian and Alaska Native",
    "Asian",
    "Native Hawaiian and Other Pacific Islander",
    "Some Other Race",
)

RACE_COMBINATIONS = tuple(races for number in range(1, len(SIX_RACES) + 1) for races in combinations(SIX_RACES, number))
"""All 63: each race alone, then two races, up to all six; for each number of races in lexical order."""


def race_label(races: tuple[str, ...]) -> str:
    """A combination in words: `White alone`, or `White; Asian`."""
    return f"{races[0]} alone" if len(races) == 1 else "; ".join(races)
