"""TopDown on small trees: noisy marginals of every place, and histograms of whole numbers that agree with each other.

Everything is in memory, as arrays; a release of a nation is a deployment's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assets.release.numbers import exact_fraction, positive_fraction
from mechanisms.accounting.specification import Flavor, Line, Specification
from mechanisms.sampling.noise import DiscreteGaussian, Noise
from mechanisms.topdown.allocation import Allocation, AllocationError, allocate, compute_variances
from mechanisms.topdown.estimation import Families, Measurement, estimate_families
from mechanisms.topdown.feasibility import propagate
from mechanisms.topdown.replicates import find_starts
from mechanisms.topdown.schema import DETAILED, PERSONS, UNITS, Attribute, QueryError, Recode, Schema
from stirred.accounting import Number
from stirred.noise import read_counts
from stirred.random import Randomness
from stirred.results import Draw

__all__ = [
    "PERSONS",
    "UNITS",
    "Allocation",
    "AllocationError",
    "Attribute",
    "Estimated",
    "Measurement",
    "QueryError",
    "Recode",
    "Schema",
    "measure_and_estimate",
]

MOST_RECORDS = 2**31
"""The most records of a place whose number is not held."""


@dataclass(frozen=True, repr=False, eq=False)
class Estimated(Draw):
    """Estimated histograms of all places.

    Attributes:
        histograms: by level, int64, shape (places, cells): not negative, and parents are the sums of their children.
        measurements: by level, the noisy answers from which the histograms follow.
        gap, violation: the largest duality gap of a real-valued solution, and the largest violation of a constraint.
    """

    allocation: Allocation
    histograms: Mapping[str, NDArray[np.int64]]
    measurements: Mapping[str, tuple[Measurement, ...]]
    gap: float
    violation: float

    @property
    def _title(self) -> str:
        sizes = ", ".join(f"{len(counts):,} of level {level}" for level, counts in self.histograms.items())
        return f"TopDown's histograms of {sizes}"


def measure_and_estimate(
    schema: Schema,
    tree: Mapping[str, Sequence[int]],
    histograms: ArrayLike,
    *,
    rho: Number,
    levels: Mapping[str, Number],
    queries: Mapping[str, Mapping[str, Number]],
    randomness: Randomness,
    held: str | None = None,
    total_first: Sequence[str] = (),
    unit: str = "record",
    name: str = "the data",
) -> Estimated:
    """Measure marginals of all places of a tree with discrete Gaussian noise, and estimate their histograms from the
    root down.

    Args:
        schema: the attributes of a record, and their recodes.
        tree: by level, from the root's to the finest, the position of each place's parent in the level above; `[0]` at
            the root, which is a single place. Places lie in the order of their parents.
        histograms: the exact counts of the finest places, shape (places, schema.size).
        rho: ρ for one record changed, exactly.
        levels, queries: each level's share of ρ, and by level the shares of its queries, such as "total", "detailed" or
            "sex * age". The shares add up to 1, and every level measures "detailed".
        held: the level at which the number of records of each place is published exactly, as it is at all levels above.
        total_first: the levels at which a separate pass determines the totals.

    Raises QueryError, AllocationError and DesignError for queries and shares that are not possible, and ValueError for
    histograms or trees of other shapes.
    """
    parents = [np.asarray(places, dtype=np.int64) for places in list(tree.values())[1:]]
    exact = _add_up(schema, list(tree), parents, read_counts(histograms))
    allocation = allocate(
        schema,
        positive_fraction(rho),
        {level: exact_fraction(share) for level, share in levels.items()},
        {level: {query: exact_fraction(share) for query, share in own.items()} for level, own in queries.items()},
    )
    if list(allocation.levels) != list(tree) or not all(allocation.part(level, DETAILED).rho for level in tree):
        raise AllocationError(f"every level of the tree has a share, in their order, and measures {DETAILED}")
    if held is not None and held not in tree:
        raise AllocationError(f"held: there is no level {held}; levels are {', '.join(tree)}")
    key, measurements = randomness.next_key(), {}
    for level, counts in exact.items():
        noises = {name: DiscreteGaussian(variance) for name, variance in compute_variances(allocation, level).items()}
        noise = Noise(f"TopDown {level}", noises, key)
        measurements[level] = tuple(_measure(schema, query, noises[query], noise, counts) for query in noises)
    totals = [exact[level].sum(axis=1) if level == held else None for level in tree]
    finest = np.zeros((len(exact[[*tree][-1]]), schema.groups.size), dtype=np.int64)
    most = int(exact[next(iter(tree))].sum()) if held else MOST_RECORDS
    limits = propagate(list(tree), parents, finest, np.full_like(finest, most), totals)

    estimated: dict[str, NDArray[np.int64]] = {}
    above, gap, violation = None, 0.0, 0.0
    for depth, level in enumerate(tree):
        starts = find_starts(parents, depth)
        places = tuple(f"{level}, parent {number}" for number in range(len(starts) - 1))
        first = level in total_first
        children = estimate_families(Families(schema, places, starts, measurements[level], limits[depth], first, above))
        above = np.zeros_like(exact[level])
        above[children.children, children.cells] = children.counts
        estimated[level] = above
        gap, violation = max(gap, children.gap), max(violation, children.violation)
    lines = tuple(
        Line(f"{level} {query}", allocation.part(level, query))
        for level in tree
        for query, share in allocation.queries[level].items()
        if share
    )
    flavor = Flavor(
        f"all possible files of {unit}s with the attributes of {name}, each in one of the places",
        ("which places there are", *([f"the number of {unit}s in each {held}"] if held else [])),
        unit,
        None,
        allocation.loss.output_premetric,
    )
    specification = Specification(flavor, allocation.loss, lines)
    return Estimated(specification, allocation, estimated, measurements, gap, violation)


def _measure(
    schema: Schema, query: str, noise: DiscreteGaussian, draw: Noise, counts: NDArray[np.int64]
) -> Measurement:
    answers = schema.marginal(query).answer(counts)
    return Measurement(query, noise.variance, answers + draw.of_next(query, answers.size).reshape(answers.shape))


def _add_up(
    schema: Schema, levels: Sequence[str], parents: Sequence[NDArray[np.int64]], finest: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """By level, from the root's, the exact histograms. Raises ValueError for shapes and trees that do not fit."""
    places = len(parents[-1]) if parents else 1
    if finest.shape != (places, schema.size):
        raise ValueError(f"histograms have the shape ({places}, {schema.size}), not {finest.shape}")
    if (finest < 0).any() or finest[:, ~schema.possible].any():
        raise ValueError("a histogram has negative counts, or records in impossible cells")
    counts = [finest]
    for above, own in zip([*reversed([len(places) for places in parents[:-1]]), 1], reversed(parents), strict=False):
        if len(own) != len(counts[-1]) or (np.diff(own) < 0).any() or set(own.tolist()) != set(range(above)):
            raise ValueError("a tree has its places in the order of their parents, each of which has one or more")
        counts.append(np.add.reduceat(counts[-1], np.searchsorted(own, np.arange(above))))
    return dict(zip(levels, reversed(counts), strict=True))
