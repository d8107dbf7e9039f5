"""The input and output of an attack: plain arrays, without the records behind the publication."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.posterior import Law
from mechanisms.risk.tiers import TIERS, Counts, Shares, Tier

NONE = -1
"""In place of a category: no guess."""


@dataclass(frozen=True)
class Measured:
    """Noisy answers to a query, published along with the microdata made from them.

    Attributes:
        cells: the cell of each type, shape (frames, categories).
        counts: the answers of each block, shape (blocks, cells).
        totals: by block, the answers of the smallest measured place around it; same shape.
        variance, totals_variance: σ² of the discrete Gaussian noise of counts and totals.
    """

    cells: NDArray[np.int32]
    counts: Counts
    totals: Counts
    variance: float
    totals_variance: float


@dataclass(frozen=True)
class Choice:
    """A first noisy total of each category decides on its table. If the second total is at most a threshold, no table
    is published.

    Attributes:
        variance: σ² of the first total.
        second: σ² of the second total.
        above: the threshold that the second total must exceed; None if every table is published.
    """

    variance: float
    second: float
    above: int | None


@dataclass(frozen=True)
class Swaps:
    """The public parameters of a swap of households between blocks: its rate, and the rate of households in a category
    of at most `at_most` households, if it differs."""

    rate: float
    rare_rate: float | None = None
    at_most: int = 0

    def find_stay(self, persons: Counts) -> Shares:
        """By category, the probability that a person's household stays in its block. The number of households of a
        category is not published, so a category counts as rare if at most `at_most` persons of the tract have it."""
        rare = np.zeros(len(persons), dtype=np.bool_) if self.rare_rate is None else persons <= self.at_most
        return 1 - np.where(rare, self.rare_rate or self.rate, self.rate)


_OF_BLOCKS = ("counts", "totals", "blocks", "around", "published", "units")
"""The fields of a publication with a row for each block."""


@dataclass(frozen=True)
class Publication:
    """The publication of the blocks of a tract, or of all tracts of a county.

    Attributes:
        counts: the counts of every block: of the cells of all tables, shape (blocks, cells); or, for microdata and
            hypercubes, of all types, shape (blocks, frames, categories).
        totals: by block, the counts of its whole tract, in the same shape, since an attack may receive only some
            blocks.
        blocks: by block, the number of blocks in the totals.
        law: how each published count depends on the true one; None if they are exact for some records.
        measured: the noisy measurements behind microdata, if they are published too.
        places: by block, the number of the place published instead of it, whose counts it has; None if all blocks are
            published.
        moves: maps the number of the place, sex and age, and persons by row to the sexes and ages after rare ones were
            moved; None if none were moved, or by values that no attacker knows beforehand.
        around: the counts of the cells of the tract's tables, for each block, shape (blocks, cells); None in a tier
            without such tables.
        published: whether each cell of each block is published, shape (blocks, cells); None if all are. Others are 0.
        choice: how the published cells were chosen, if from noisy totals.
        swaps: the parameters of the swap of households between blocks; None if there was none.
        units: the counts of the cells of the tier's tables of units, for each block, shape (blocks, cells); None in a
            tier without such tables.
    """

    tier_name: str
    method: str
    parameters: str
    counts: Counts
    totals: Counts
    blocks: Counts
    law: Law | None
    measured: tuple[Measured, ...] = ()
    places: NDArray[np.int64] | None = None
    moves: Callable[[NDArray[np.int64], NDArray[np.int64], Counts], NDArray[np.int64]] | None = None
    around: Counts | None = None
    published: NDArray[np.bool_] | None = None
    choice: Choice | None = None
    swaps: Swaps | None = None
    units: Counts | None = None

    @property
    def tier(self) -> Tier:
        return TIERS[self.tier_name]

    @property
    def by_type(self) -> bool:
        """Whether the counts are of types instead of tables' cells."""
        return self.counts.ndim == 3

    @property
    def needs_program(self) -> bool:
        """Whether all tables of a block together are more informative than single counts: perturbed ones, or sums over
        types."""
        return self.tier.of_types or (self.law is not None and not self.by_type)

    @property
    def is_exact(self) -> bool:
        """Whether the counts of each block are exact for some records."""
        return self.law is None and self.places is None

    @property
    def links_blocks(self) -> bool:
        """Whether the publication of other blocks helps to infer the records of a block."""
        return self.law is None and self.around is not None

    def table(self, name: str, counts: Counts) -> Counts:
        """The cells of one table, from counts of all tables' cells, shape (…, cells)."""
        return np.asarray(counts[..., self.tier.table_of_cell == list(self.tier.tables).index(name)])

    def find_neighbors(self, block: int) -> NDArray[np.int64]:
        """The blocks whose records are published together with the records of a block, or inferred with them; the block
        itself included."""
        if self.links_blocks:
            return np.arange(len(self.counts))
        return np.array([block]) if self.places is None else np.flatnonzero(self.places == self.places[block])

    def add_up(self, counts: Counts) -> Counts:
        """By block, the sum over its published place of counts of blocks, shape (blocks, …)."""
        if self.places is None:
            return counts
        sums = np.zeros_like(counts)
        np.add.at(sums, self.places, counts)
        return np.asarray(sums[self.places])

    def share(self, counts: Counts) -> NDArray[Any]:
        """The counts of blocks as a reader estimates them from published counts, shape (blocks, …): the counts of a
        place in equal parts."""
        if self.places is None:
            return counts
        blocks = np.bincount(self.places)[self.places]
        return np.asarray(counts / blocks.reshape(-1, *(1,) * (counts.ndim - 1)))

    def take(self, blocks: Sequence[int] | NDArray[np.int64]) -> "Publication":
        """The publication of some blocks."""
        places = list(blocks)
        measured = tuple(
            replace(query, counts=query.counts[places], totals=query.totals[places]) for query in self.measured
        )
        together = None if self.places is None else np.unique(self.places[places], return_inverse=True)[1]
        taken: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[places] for name in _OF_BLOCKS
        }
        return replace(self, measured=measured, places=together, **taken)

    @staticmethod
    def join(publications: Sequence["Publication"]) -> "Publication":
        """One publication of the blocks of several publications by the same method."""
        first = publications[0]
        measured = tuple(
            replace(
                queries[0],
                counts=np.concatenate([query.counts for query in queries]),
                totals=np.concatenate([query.totals for query in queries]),
            )
            for queries in zip(*(publication.measured for publication in publications), strict=True)
        )
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(publication, name) for publication in publications])
            for name in _OF_BLOCKS
            if getattr(first, name) is not None
        }
        together, number = [], 0
        for places in (publication.places for publication in publications if publication.places is not None):
            together.append(places + number)
            number += int(places.max()) + 1
        return replace(first, measured=measured, places=np.concatenate(together) if together else None, **joined)


def split_frames(tier: Tier, frames: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Sex and age, as numbers, of frames; in T1, 0 and the voting age."""
    return list(np.divmod(frames, max(2, len(tier.frames) // 2)))


def join_frames(tier: Tier, known: NDArray[np.int64]) -> NDArray[np.int64]:
    """Frames from their parts, shape (rows, 2 or more)."""
    return np.asarray(known[:, 0] * max(2, len(tier.frames) // 2) + known[:, 1])


@dataclass(frozen=True)
class NamedPersons:
    """The attacker's file: each person's block and the values known beforehand; shapes (persons,).

    Attributes:
        block: the position of the block in the publication.
        frame: the number of the frame in the tier.
        household: the number of the household, shared by persons who live together; None if unknown.
    """

    block: NDArray[np.int64]
    frame: NDArray[np.int64]
    household: NDArray[np.int64] | None = None

    def count(self, blocks: int, frames: int) -> Counts:
        """The persons by block and frame."""
        return np.bincount(self.block * frames + self.frame, minlength=blocks * frames).reshape(blocks, frames)


class GuessesError(ValueError):
    """The value returned by an attack is no guesses. The message quotes no part of the publication."""


@dataclass(frozen=True)
class Guesses:
    """The guesses of an attack about the persons of the attacker's file.

    Attributes:
        shares: the probability of each category, shape (persons, categories). They sum to the probability that the
            attack names a category at all, at most 1.
        fallback: the category that it would otherwise name, shape (persons,); `NONE` for none.
    """

    shares: Shares
    fallback: NDArray[np.int64]

    @classmethod
    def of(cls, given: object, persons: int, categories: int) -> "Guesses":
        """Guesses from an attack's return value: guesses, shares, or one category for each person. Raises GuessesError
        if it is none of these."""
        if isinstance(given, Guesses):
            shares, fallback = given.shares, given.fallback
        else:
            array = np.asarray(given)
            shares, fallback = array, np.full(persons, NONE)
            if array.shape == (persons,) and np.issubdtype(array.dtype, np.integer):
                cls._require_categories(array, categories)
                shares = (array[:, None] == np.arange(categories)).astype(np.float64)
        if shares.shape != (persons, categories) or fallback.shape != (persons,):
            raise GuessesError("an attack returns a category or the shares of all categories for each person")
        if np.iscomplexobj(shares) or not (np.all(shares >= 0) and np.all(shares.sum(axis=1) < 1 + 1e-6)):
            raise GuessesError("the shares of a person's categories are not negative, and sum to 1 at most")
        cls._require_categories(fallback, categories)
        return cls(shares.astype(np.float64), fallback.astype(np.int64))

    def spread(self, there: NDArray[np.int64], persons: int) -> "Guesses":
        """Guesses of `persons` persons: these guesses at the positions `there`, and none elsewhere."""
        shares, fallback = np.zeros((persons, self.shares.shape[1])), np.full(persons, NONE)
        shares[there], fallback[there] = self.shares, self.fallback
        return Guesses(shares, fallback)

    @staticmethod
    def join(parts: Sequence["Guesses"]) -> "Guesses":
        """The guesses of several attackers' files, one after another."""
        shares, fallbacks = [part.shares for part in parts], [part.fallback for part in parts]
        return Guesses(np.concatenate(shares), np.concatenate(fallbacks))

    @staticmethod
    def _require_categories(named: NDArray[np.int64], categories: int) -> None:
        if not np.all((named >= NONE) & (named < categories)):
            raise GuessesError(f"categories are numbered from 0 to {categories - 1}, and {NONE} is none")


@dataclass(frozen=True)
class Reconstruction:
    """The records that an attacker without prior knowledge writes down, and how far others fit as well.

    Attributes:
        histograms: shape (blocks, frames, categories).
        variability: the solution variability of each block, 0 to 1; `NONE` if unknown.
        provable: the number of records of each block that are certain to be in the tabulated file; `NONE` if unknown.
        confidence: the confidence in each type, 0 to 1, shape (blocks, frames, categories), for the frames that the
            tables of a block distinguish; empty if unknown.
        variability_in_years: the variability by single years of age, of all blocks of the tract together; `NONE` if
            ages are not so fine.
    """

    histograms: Counts
    variability: Shares
    provable: Counts
    variability_in_years: float = NONE
    confidence: Shares = field(default_factory=lambda: np.zeros(0))
