"""The types of regions for which population groups are counted.

This module names them, and says which run each belongs to and how its identifiers look. Which regions there are follows
from the blocks of the dataset.
"""

from enum import StrEnum

PUERTO_RICO_ONLY = "PR-"
"""What the names of the region types of Puerto Rico begin with."""


class RegionType(StrEnum):
    """A type of regions, in the order of the draw."""

    USA = "USA"
    STATE = "STATE"
    COUNTY = "COUNTY"
    TRACT = "TRACT"
    PLACE = "PLACE"
    AIANNH = "AIANNH"
    """American Indian, Alaska Native and Native Hawaiian areas. They may cross states."""
    PR_STATE = "PR-STATE"
    PR_COUNTY = "PR-COUNTY"
    PR_TRACT = "PR-TRACT"
    PR_PLACE = "PR-PLACE"

    @property
    def detailed(self) -> bool:
        """Whether it is a nation or a state, which have other iterations (`Iteration.is_in`)."""
        return self in (RegionType.USA, RegionType.STATE, RegionType.PR_STATE)

    @property
    def run(self) -> str:
        """The run that counts these regions: `US` or `PR`. The runs share no record."""
        return "PR" if self.startswith(PUERTO_RICO_ONLY) else "US"

    @property
    def shared_name(self) -> str:
        """The name without the run: STATE for both STATE and PR-STATE."""
        return self.removeprefix(PUERTO_RICO_ONLY)

    @property
    def digits(self) -> int:
        return _DIGITS[self.shared_name]

    @property
    def words(self) -> str:
        words = _WORDS[self.shared_name]
        return f"{words} of Puerto Rico" if self.run == "PR" and self is not RegionType.PR_STATE else words


_DIGITS = {"USA": 1, "STATE": 2, "COUNTY": 5, "TRACT": 11, "PLACE": 7, "AIANNH": 4}

_WORDS = {
    "USA": "The nation: all states of the release",
    "STATE": "State or its equivalent",
    "COUNTY": "County",
    "TRACT": "Census tract",
    "PLACE": "Place",
    "AIANNH": "American Indian, Alaska Native or Native Hawaiian area",
}
