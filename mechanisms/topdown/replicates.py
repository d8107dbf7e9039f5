"""Replicates: noise and estimation once more, on counts that are already published.

This module runs the whole algorithm on given counts of the finest level, for all levels, in memory. Given the exact
counts and the draw's own noise, it gives the release's estimates. Given the published counts and noise of its own, it
gives a replicate, whose deviations from the published counts stand for those of the published counts from the truth
(the Bureau's approximate Monte Carlo method; Ashmead and others, 2024). `uncertainty` makes errors of them, and
`assets.topdown.replicates` stores them.

The noise of a replicate needs no secret key, because a replicate is computed from what is published. The labels of its
streams differ from those of every draw.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.noise import Noise
from mechanisms.topdown.design import MECHANISM, SCHEMAS, TopDownDesign
from mechanisms.topdown.estimation import Families, Measurement, divide_parents, estimate_families
from mechanisms.topdown.feasibility import Limits
from mechanisms.topdown.schema import DETAILED, Counts, Schema

PLACES_AT_A_TIME = 256
"""The places whose answers are in memory at a time, unless a single parent has more."""

LevelLimits = Mapping[str, Sequence[Limits]]
"""By histogram, the limits of each level, the root's first."""


def replicate_noise(design: TopDownDesign, key: bytes) -> Noise:
    """Noise of the same distributions as a draw's, from streams that no draw has; each replicate has its own key."""
    return Noise(f"{MECHANISM} replicate", {query.label: query.noise for query in design.measured}, key)


def estimate_finest(
    design: TopDownDesign,
    parents: Sequence[NDArray[np.int64]],
    counts: Mapping[str, Counts],
    limits: LevelLimits,
    noise: Noise,
) -> dict[str, Counts]:
    """The estimates of the finest level that follow from counts and noise, by histogram.

    Args:
        parents: for each level below the root, the number of each place's parent, in ascending order.
        counts: by histogram, the counts of the finest level; they satisfy the limits.
        noise: of all measurements. The order in which it is read is that of a draw: by query, in the order of places.

    Raises:
        NotSolvedError, NotRoundedError: as `estimate`.
    """
    finest = {}
    for histogram, schema in SCHEMAS.items():
        above: Counts | None = None
        for depth, exact in enumerate(roll_up(counts[histogram], parents, schema.size)):
            of_level = limits[histogram][depth]
            above = _estimate_level(design, schema, depth, starts_of(parents, depth), exact, of_level, above, noise)
        assert above is not None
        finest[histogram] = above
    return finest


def roll_up(finest: Counts, parents: Sequence[NDArray[np.int64]], cells: int) -> tuple[Counts, ...]:
    """The counts of every level, the root's first."""
    counts = [finest]
    for of_level in reversed(parents):
        counts.append(one_level_up(counts[-1], of_level, cells))
    return tuple(reversed(counts))


def one_level_up(counts: Counts, parents: NDArray[np.int64], cells: int) -> Counts:
    """The counts of the parents of a level's places; `parents` has the shape (places,)."""
    keys, positions = np.unique(parents[counts.number] * cells + counts.cell, return_inverse=True)
    summed = np.zeros(len(keys), dtype=np.int64)
    np.add.at(summed, positions, counts.count)
    return Counts(keys // cells, keys % cells, summed)


def starts_of(parents: Sequence[NDArray[np.int64]], depth: int) -> NDArray[np.int64]:
    """Shape (parents + 1,): the children of parent p are the places from `starts[p]` up to `starts[p + 1]`.

    The root is the only child of a single, unknown parent.
    """
    if not depth:
        return np.array([0, 1])
    above = len(parents[depth - 2]) if depth > 1 else 1
    return np.searchsorted(parents[depth - 1], np.arange(above + 1))


def _estimate_level(
    design: TopDownDesign,
    schema: Schema,
    depth: int,
    starts: NDArray[np.int64],
    exact: Counts,
    limits: Limits,
    above: Counts | None,
    noise: Noise,
) -> Counts:
    level = design.levels[depth]
    estimates = []
    for begin, end in divide_parents(starts, 0, len(starts) - 1, PLACES_AT_A_TIME):
        first, last = int(starts[begin]), int(starts[end])
        measurements = []
        for query in design.measured_at(schema.name, level):
            answers = exact.answer(query.marginal, first, last)
            answers += noise.of_next(query.label, answers.size).reshape(answers.shape)
            measurements.append(Measurement(query.query, query.variance, answers))
        children = estimate_families(
            Families(
                schema,
                tuple(f"{level}: parent {number}" for number in range(begin, end)),
                starts[begin : end + 1] - first,
                tuple(measurements),
                limits.between(first, last),
                level in design.total_first,
                None if above is None else above.answer(schema.marginal(DETAILED), begin, end),
            )
        )
        estimates.append((first + children.children, children.cells, children.counts))
    return Counts(*(np.concatenate(arrays) for arrays in zip(*estimates, strict=True)))
