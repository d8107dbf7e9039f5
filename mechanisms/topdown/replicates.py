"""Replicates: noise and estimation repeated on published counts.

This module runs the whole algorithm on given counts of the finest level, for all levels, in memory. Given the exact
counts and the draw's own noise, it gives the release's estimates. Given the published counts and noise of its own, it
gives a replicate, whose deviations from the published counts stand for those of the published counts from the truth
(the Bureau's approximate Monte Carlo method; Ashmead and others, 2024). Exact sums of these deviations and of their
squares become standard errors, biases and intervals. `assets.topdown.replicates` stores replicates.

The noise of a replicate needs no secret key, because a replicate is computed from published numbers. The labels of its
streams differ from those of every draw.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.noise import Noise
from mechanisms.topdown.decomposition import Floats, Information
from mechanisms.topdown.design import MECHANISM, TopDownDesign
from mechanisms.topdown.estimation import Families, Measurement, divide_parents, estimate_families
from mechanisms.topdown.feasibility import Limits, limit_by_occupancy
from mechanisms.topdown.information import inform
from mechanisms.topdown.leaning import estimate_spreads, lean, measure_spread
from mechanisms.topdown.schema import DETAILED, HOUSEHOLDS, PERSONS, UNITS, Counts, Schema

PLACES_AT_A_TIME = 256
"""The places whose answers are in memory at a time, unless a single parent has more."""

QUANTILE = 2.015
"""The 95% quantile of Student's t with 5 degrees of freedom, as in the Census Bureau's approximate Monte Carlo
confidence intervals for the 2020 Census. It was chosen by experiment; there is no theory for it."""

LevelLimits = Mapping[str, Sequence[Limits]]
"""By histogram, the limits of each level, the root's first."""


def replicate_noise(design: TopDownDesign, key: bytes) -> Noise:
    """Noise with the distributions of a draw, from streams that no draw uses; each replicate has its own key."""
    return Noise(f"{MECHANISM} replicate", {query.label: query.noise for query in design.measured}, key)


def estimate_finest(
    design: TopDownDesign,
    parents: Sequence[NDArray[np.int64]],
    counts: Mapping[str, Counts],
    limits: LevelLimits,
    noise: Noise,
) -> dict[str, Counts]:
    """The estimates of the finest level that follow from counts and noise, by histogram. Raises NotSolvedError and
    NotRoundedError as `estimate`.

    Args:
        parents: for each level below the root, the number of each place's parent, in ascending order.
        counts: by histogram, the counts of the finest level; they satisfy the limits.
        noise: the noise of all measurements, read as in a draw: by query, in the order of places.
    """
    finest: dict[str, Counts] = {}
    for histogram, schema in design.schemas.items():
        census = Census(design, schema, parents, roll_up(counts[histogram], parents, schema.size), limits[histogram])
        informed: list[Information | None] = [None] * len(census.exact)
        if design.full:
            informed = census.inform(noise.from_the_beginning())
            if histogram == UNITS.name:
                households = finest[PERSONS.name].answer(PERSONS.groups, 0, len(parents[-1]))[:, HOUSEHOLDS]
                census = replace(census, limits=limit_by_occupancy(design.levels, parents, census.limits, households))
        above: Counts | None = None
        for depth, information in enumerate(informed):
            hold = histogram == PERSONS.name and design.is_types_first(design.levels[depth])
            total_first, leaning = design.levels[depth] in design.total_first, None
            if above and depth == len(parents) and design.leans(histogram, design.levels[depth]):
                units = limits[UNITS.name][depth].totals
                leaning = units, census.estimate_spreads(above, units, noise.from_the_beginning())
            above = census.estimate(depth, above, noise, information, leaning, hold=hold, total_first=total_first)
        assert above is not None
        finest[histogram] = above
    return finest


def roll_up(finest: Counts, parents: Sequence[NDArray[np.int64]], cells: int) -> tuple[Counts, ...]:
    """The counts of every level, the root's first."""
    counts = [finest]
    for of_level in reversed(parents):
        counts.append(roll_up_once(counts[-1], of_level, cells))
    return tuple(reversed(counts))


def roll_up_once(counts: Counts, parents: NDArray[np.int64], cells: int) -> Counts:
    """The counts of the parents of a level's places; `parents` has the shape (places,)."""
    keys, positions = np.unique(parents[counts.number] * cells + counts.cell, return_inverse=True)
    summed = np.zeros(len(keys), dtype=np.int64)
    np.add.at(summed, positions, counts.count)
    return Counts(keys // cells, keys % cells, summed)


def find_starts(parents: Sequence[NDArray[np.int64]], depth: int) -> NDArray[np.int64]:
    """Shape (parents + 1,): the children of parent p are the places from `starts[p]` up to `starts[p + 1]`. The root is
    the only child of a single, unknown parent."""
    if not depth:
        return np.array([0, 1])
    above = len(parents[depth - 2]) if depth > 1 else 1
    return np.searchsorted(parents[depth - 1], np.arange(above + 1))


@dataclass(frozen=True)
class Census:
    """The exact counts and the limits of a histogram by level, to be measured and estimated."""

    design: TopDownDesign
    schema: Schema
    parents: Sequence[NDArray[np.int64]]
    exact: Sequence[Counts]
    limits: Sequence[Limits]

    def inform(self, noise: Noise) -> list[Information | None]:
        """By level, the information about all places from the levels below and their own; None for the finest."""
        informed: list[Information | None] = [None]
        for depth in reversed(range(len(self.exact) - 1)):
            parts = [
                inform(
                    families := self.take(depth + 1, begin, end, None if informed[0] else noise, informed[0]),
                    families.information,
                    self._measure(depth, begin, end, noise),
                )
                for begin, end in self.divide(depth + 1)
            ]
            arrays = (np.concatenate(own) for own in zip(*(vars(part).values() for part in parts), strict=True))
            informed.insert(0, Information(*arrays))
        return informed

    def estimate(
        self,
        depth: int,
        above: Counts | None,
        noise: Noise,
        information: Information | None,
        leaning: tuple[NDArray[np.int64], Floats] | None = None,
        *,
        hold: bool,
        total_first: bool,
    ) -> Counts:
        """`leaning` has the housing units of all places, and the τ² of each parent."""
        estimates = []
        for begin, end in self.divide(depth):
            families = self.take(depth, begin, end, noise if information is None else None, information)
            histograms = None if above is None else above.answer(self.schema.marginal(DETAILED), begin, end)
            families = replace(families, hold=hold, total_first=total_first, histograms=histograms)
            first, last = self.find_children(depth, begin, end)
            if leaning is not None:
                families = lean(families, leaning[0][first:last], leaning[1][begin:end])
            children = estimate_families(families)
            estimates.append((first + children.children, children.cells, children.counts))
        return Counts(*(np.concatenate(arrays) for arrays in zip(*estimates, strict=True)))

    def estimate_spreads(self, above: Counts, units: NDArray[np.int64], noise: Noise) -> Floats:
        """By parent of the finest level, with these estimates, the τ² of the state that it is in."""
        depth, sums = len(self.parents), []
        for begin, end in self.divide(depth):
            histograms = above.answer(self.schema.marginal(DETAILED), begin, end)
            families = replace(self.take(depth, begin, end, noise, None), histograms=histograms)
            sums.append(measure_spread(families, units[slice(*self.find_children(depth, begin, end))]))
        return estimate_spreads(np.concatenate(sums), self.design.levels, self.parents)

    def divide(self, depth: int) -> Iterator[tuple[int, int]]:
        starts = find_starts(self.parents, depth)
        return divide_parents(starts, 0, len(starts) - 1, PLACES_AT_A_TIME)

    def find_children(self, depth: int, begin: int, end: int) -> tuple[int, int]:
        first, last = find_starts(self.parents, depth)[[begin, end]]
        return int(first), int(last)

    def take(self, depth: int, begin: int, end: int, noise: Noise | None, information: Information | None) -> Families:
        """Some families of a level, measured if there is noise."""
        first, last = self.find_children(depth, begin, end)
        return Families(
            self.schema,
            tuple(f"{self.design.levels[depth]}: parent {number}" for number in range(begin, end)),
            find_starts(self.parents, depth)[begin : end + 1] - first,
            () if noise is None else self._measure(depth, first, last, noise),
            self.limits[depth].between(first, last),
            total_first=False,
            histograms=None,
            information=None if information is None else information.between(first, last),
        )

    def _measure(self, depth: int, first: int, last: int, noise: Noise) -> tuple[Measurement, ...]:
        measurements = []
        for query in self.design.measured_at(self.schema.name, self.design.levels[depth]):
            answers = self.exact[depth].answer(query.marginal, first, last)
            answers += noise.of_next(query.label, answers.size).reshape(answers.shape)
            measurements.append(Measurement(query.query, query.variance, answers))
        return tuple(measurements)


@dataclass(frozen=True)
class Moments:
    """The deviations of all replicates from published counts, summed up; all of one shape: Σ (q(θ_i) − q(θ₀)), Σ
    (q(θ_i) − q(θ₀))² and Σ |q(θ_i) − q(θ₀)|."""

    estimate: NDArray[np.int64]
    deviations: NDArray[np.int64]
    squares: NDArray[np.int64]
    distances: NDArray[np.int64]


def add_deviations(estimate: NDArray[np.int64], replicates: Iterable[NDArray[np.int64]]) -> Moments:
    """The moments of the replicates' deviations from published counts of the same shape."""
    sums = np.zeros((3, *estimate.shape), dtype=np.int64)
    for counts in replicates:
        deviations = counts - estimate
        sums += deviations, deviations**2, np.abs(deviations)
    return Moments(estimate, *sums)


@dataclass(frozen=True)
class Intervals:
    """Errors of published counts, from R replicates; arrays of one shape. The standard error is √(Σ
    (q(θ_i) − q(θ₀))² / R), which contains the bias Σ (q(θ_i) − q(θ₀)) / R: the expected excess of the count over the
    truth."""

    standard_error: NDArray[np.float64]
    bias: NDArray[np.float64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]


def compute_intervals(moments: Moments, replicates: int, *, median: bool = False) -> Intervals:
    """90% intervals: the published count ± 2.015 √MSE, or, except for medians, the count less its bias ± the same.

    The bias is taken off where the count is above 5, the bias is half a standard deviation of the replicates or more,
    and it is negative or the count is 25 or more. The lower end is rounded down and is not below 0; the upper end is
    rounded up. Where no replicate deviates, for example because an invariant decides, the interval is the count itself.
    """
    estimate = moments.estimate
    bias, error = moments.deviations / replicates, np.sqrt(moments.squares / replicates)
    # |bias| >= sd / 2 is 4 bias² >= MSE - bias², which floating-point numbers compare exactly below 2^53.
    large = 5 * moments.deviations.astype(np.float64) ** 2 >= replicates * moments.squares.astype(np.float64)
    moved = (estimate > 5) & (bias != 0) & large & ((bias < 0) | (estimate >= 25)) & (not median)
    center = estimate - np.where(moved, bias, 0.0)
    lower = np.maximum(np.floor(center - QUANTILE * error), 0.0)
    upper = np.maximum(np.ceil(center + QUANTILE * error), 0.0)
    return Intervals(error, bias, lower.astype(np.int64), upper.astype(np.int64))
