"""What an attack is given, and what it returns: plain arrays, without the records that were published from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.posterior import Law
from mechanisms.risk.tiers import TIERS, Counts, Shares, Tier

NONE = -1
"""In place of a category where nothing is guessed."""


@dataclass(frozen=True)
class Publication:
    """What is published of the blocks of a tract.

    Attributes:
        counts: the counts of every block: of a publication without a law, those of the cells of all tables, shape
            (blocks, cells), exact for some records; with one, those of all types, shape (blocks, frames, categories).
        totals: the same of the whole tract, for each block, in the same shape. It is given because an attack may be
            given some blocks alone.
        blocks: the number of blocks that the totals are of.
        law: how each published count depends on the true one; None if tables are exact for some records.
    """

    tier_name: str
    method: str
    parameters: str
    counts: Counts
    totals: Counts
    blocks: int
    law: Law | None

    @property
    def tier(self) -> Tier:
        return TIERS[self.tier_name]


@dataclass(frozen=True)
class NamedPersons:
    """The attacker's file: of each person, the block and what is known beforehand; shapes (persons,).

    Attributes:
        block: the position of the block in the publication.
        frame: the number of the frame in the tier.
    """

    block: NDArray[np.int64]
    frame: NDArray[np.int64]

    def count(self, blocks: int, frames: int) -> Counts:
        """The persons by block and frame."""
        return np.bincount(self.block * frames + self.frame, minlength=blocks * frames).reshape(blocks, frames)


@dataclass(frozen=True)
class Guesses:
    """What an attack says of the persons of the attacker's file.

    Attributes:
        shares: the probability of each category, shape (persons, categories). They sum to the probability that the
            attack names one at all, at most 1.
        fallback: the category that it would name otherwise, shape (persons,); `NONE` for none.
    """

    shares: Shares
    fallback: NDArray[np.int64]

    @classmethod
    def of(cls, given: object, persons: int, categories: int) -> "Guesses":
        """Guesses from what an attack returned: such a value, shares, or one category for each person. Raises
        ValueError if it is none of these."""
        if isinstance(given, Guesses):
            shares, fallback = given.shares, given.fallback
        else:
            array = np.asarray(given)
            shares, fallback = array, np.full(persons, NONE)
            if array.shape == (persons,) and np.issubdtype(array.dtype, np.integer):
                cls._require_categories(array, categories)
                shares = (array[:, None] == np.arange(categories)).astype(np.float64)
        if shares.shape != (persons, categories) or fallback.shape != (persons,):
            raise ValueError("an attack returns a category or the shares of all categories for each person")
        if not (np.all(shares >= 0) and np.all(shares.sum(axis=1) < 1 + 1e-6)):
            raise ValueError("the shares of a person's categories are not negative, and sum to 1 at most")
        cls._require_categories(fallback, categories)
        return cls(shares.astype(np.float64), fallback.astype(np.int64))

    @staticmethod
    def _require_categories(named: NDArray[np.int64], categories: int) -> None:
        if not np.all((named >= NONE) & (named < categories)):
            raise ValueError(f"categories are numbered from 0 to {categories - 1}, and {NONE} is none")


@dataclass(frozen=True)
class Reconstruction:
    """The records that an attacker without any knowledge writes down, and how far others fit as well.

    Attributes:
        histograms: shape (blocks, frames, categories).
        variability: the solution variability of each block, 0 to 1.
        provable: the records of each block that are certain to be in the file that was tabulated; `NONE` if unknown.
    """

    histograms: Counts
    variability: Shares
    provable: Counts
