"""A level of the tree at a time: what is measured there, and the histograms of all its places."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.dhc.estimation import Family, estimate
from mechanisms.dhc.passes import Plan
from mechanisms.dhc.quarters import Quarters
from mechanisms.sampling.noise import DiscreteGaussian, NumberedNoise
from mechanisms.topdown.least_squares import NotSolvedError
from mechanisms.topdown.rounding import NotRoundedError
from mechanisms.topdown.schema import Counts, Schema


@dataclass(frozen=True)
class Measuring:
    """The noisy answers of a level, of which only those are made that are read. An answer is that of the complete draw,
    in which every place answers every query: its noise depends on the query, the place and the marginal cell."""

    schema: Schema
    exact: Counts
    noise: NumberedNoise

    @classmethod
    def of(
        cls, schema: Schema, level: str, exact: Counts, variances: Mapping[str, Fraction], key: bytes
    ) -> "Measuring":
        distributions = {query: DiscreteGaussian(variance) for query, variance in variances.items()}
        return cls(schema, exact, NumberedNoise(f"DHC {schema.name} {level}", distributions, key))

    def read(self, query: str, first: int, last: int, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """The answers of the places from `first` up to `last`, shape (places, cells), for some cells of the query's
        marginal, ascending."""
        marginal = self.schema.marginal(query)
        own = slice(*np.searchsorted(self.exact.number, [first, last]))
        found = marginal.find(self.exact.cell[own])
        position = np.minimum(np.searchsorted(cells, found), len(cells) - 1)
        asked = cells[position] == found
        places, counts = self.exact.number[own][asked] - first, self.exact.count[own][asked]
        numbers = np.arange(first, last)[:, None] * marginal.size + cells
        answers = self.noise.at(query, numbers.ravel()).reshape(numbers.shape)
        np.add.at(answers, (places, position[asked]), counts)
        return answers


@dataclass(frozen=True)
class Level:
    """The estimated histograms of a level, and the certificate of its real-valued steps: the largest duality gap,
    relative to its objective (absolute below 1), and the largest violation of a constraint."""

    counts: Counts
    gap: float
    violation: float


def estimate_level(
    plan: Plan,
    variances: Mapping[str, Fraction],
    measuring: Measuring,
    held: NDArray[np.int64],
    parents: NDArray[np.int64],
    above: Counts | None,
    quarters: Quarters | None = None,
) -> Level:
    """The histograms of all places of a level.

    Args:
        variances: σ² of the noise of each query.
        held: shape (places, groups): the answers to the plan's held query.
        parents: shape (places,): the position of each place's parent, in ascending order; only 0 at the root.
        above: the histograms of the level above; None at the root.
    """
    number, cells, counts = [], [], []
    gap, violation = 0.0, 0.0
    for parent, first, last, own, sums in _list_families(plan, held, parents, above):

        def read(query: str, of_cells: NDArray[np.int64], span: tuple[int, int] = (first, last)) -> NDArray[np.int64]:
            return measuring.read(query, *span, of_cells)

        family = Family(plan, variances, own, sums, held[first:last], read, first, last, quarters)
        try:
            found = estimate(family)
        except (NotSolvedError, NotRoundedError) as error:
            raise type(error)(f"{plan.schema.name} of the place {parent} of the level above: {error}") from None
        child, position = np.nonzero(found.counts)
        number.append(child + first)
        cells.append(own[position])
        counts.append(found.counts[child, position])
        for solution in found.solutions:
            gap = max(gap, solution.gap / max(solution.objective, 1.0))
            violation = max(violation, solution.violation)
    return Level(Counts(np.concatenate(number), np.concatenate(cells), np.concatenate(counts)), gap, violation)


def _list_families(
    plan: Plan, held: NDArray[np.int64], parents: NDArray[np.int64], above: Counts | None
) -> Iterator[tuple[int, int, int, NDArray[np.int64], NDArray[np.int64] | None]]:
    """Each parent's number, the first and the last of its children, its cells and its counts."""
    if above is None:
        schema = plan.schema
        cells = np.flatnonzero(schema.possible)
        yield 0, 0, 1, cells[held[0, schema.marginal(plan.held).find(cells)] > 0], None
        return
    ends = np.searchsorted(parents, np.arange(parents[-1] + 2))
    rows = np.searchsorted(above.number, np.arange(len(ends)))
    for parent, (first, last) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        own = slice(int(rows[parent]), int(rows[parent + 1]))
        yield parent, first, last, above.cell[own], above.count[own]
