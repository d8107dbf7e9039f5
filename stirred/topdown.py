"""TopDown on small trees: noisy marginals of every place, and histograms of whole numbers that agree with each other.

Everything is in memory, as arrays; a release of a nation needs a deployment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assets.release.numbers import exact_fraction, positive_fraction
from assets.topdown.anew import Histograms, estimate_both, walk
from assets.topdown.asking import (
    Measured,
    PlacesError,
    add_up_places,
    read_published,
)
from assets.topdown.bureau import FilesError, read_bureau
from mechanisms.accounting.specification import Flavor, Line, Specification
from mechanisms.sampling.noise import DiscreteGaussian, Noise
from mechanisms.topdown.allocation import Allocation, AllocationError, allocate, compute_variances
from mechanisms.topdown.estimation import Measurement
from mechanisms.topdown.feasibility import Limits, propagate
from mechanisms.topdown.schema import (
    DETAILED,
    PERSONS,
    UNITS,
    Attribute,
    QueryError,
    Recode,
    Schema,
)
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
    "FilesError",
    "Histograms",
    "Limits",
    "Measured",
    "Measurement",
    "PlacesError",
    "QueryError",
    "Recode",
    "Schema",
    "add_up_places",
    "estimate",
    "estimate_published",
    "measure_and_estimate",
    "read_bureau",
    "read_published",
]

MOST_RECORDS = 2**31
"""The maximum number of records of all places, and a bound for a place whose number is not held."""


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


def estimate(
    measured: Measured,
    *,
    total_first: Sequence[str] = (),
    types_first: str | None = None,
    units: ArrayLike | None = None,
) -> Histograms:
    """Estimate the histograms of all places from noisy measurements, without reading a record and without a draw.

    Args:
        total_first: the levels at which a separate pass determines the totals.
        types_first: a level above the finest. With it, every place is estimated from all measurements at and below the
            place (full information), and counts of groups are estimated before single cells, down to this level.
        units: with `types_first`, for persons whose first group is households: the number of housing units of each of
            the finest places, toward which the estimates of persons in households lean.

    Raises ArithmeticError if a parent's children cannot be estimated, and ValueError for impossible levels or units.
    """
    _require_options(measured, total_first, types_first)
    levels = list(measured.tree)
    stock = None if units is None else read_counts(units)
    if stock is not None and not (
        types_first and stock.shape == (len(measured.tree[levels[-1]]),) and stock.min() >= 0
    ):
        raise ValueError("units: with types_first, one number that is not negative for each of the finest places")
    return walk(measured, measured.limits, tuple(total_first), types_first, units=stock)


def _require_options(measured: Measured, total_first: Sequence[str], types_first: str | None) -> None:
    levels = list(measured.tree)
    if not {*total_first} <= {*levels} or (types_first and (total_first or types_first not in levels[:-1])):
        raise ValueError("total_first: levels of the tree; types_first: one above the finest, without total_first")
    if not types_first and not all(measured.measurements.values()):
        raise ValueError("types_first: a level without measurements is estimated with full information alone")


def estimate_published(
    published: str | Path | Mapping[str, Measured],
    *,
    total_first: Sequence[str] = (),
    types_first: str | None = None,
    lean_on_housing_units: bool = False,
) -> dict[str, Histograms]:
    """Reestimate persons and units, without a charge, from the noisy measurements of a published release, or from
    measurements that `read_published` or `read_bureau` returned. `total_first` and `types_first` are as in `estimate`,
    for persons. With full information, units are estimated after persons and agree with them, and the finest places may
    lean on their number of housing units, if it is exact. Raises PlacesError as `read_published`, and ValueError for
    incompatible options."""
    measured = published if isinstance(published, Mapping) else read_published(published)
    for own in measured.values():
        _require_options(own, total_first, types_first)
    return estimate_both(measured, tuple(total_first), types_first, leaning=lean_on_housing_units)


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
    types_first: str | None = None,
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
        total_first, types_first: as in `estimate`.

    Raises QueryError, AllocationError and DesignError for impossible queries and shares, and ValueError for histograms
    or trees of other shapes.
    """
    roots, *parents = map(read_counts, tree.values() or [[]])
    if roots.tolist() != [0]:
        raise ValueError("tree: the root is a single place, [0]")
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
    records = int(exact[next(iter(tree))].sum())
    if records > MOST_RECORDS:
        raise ValueError("there are more than 2^31 records")
    most = records if held else MOST_RECORDS
    limits = propagate(list(tree), parents, finest, np.full_like(finest, most), totals)

    found = estimate(Measured(schema, tree, measurements, limits), total_first=total_first, types_first=types_first)
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
    return Estimated(specification, allocation, found.histograms, measurements, found.gap, found.violation)


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
