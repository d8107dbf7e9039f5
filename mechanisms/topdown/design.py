"""A TopDown design: the queries measured at each level, the exact statistics, and the resulting guarantee.

`schema` defines the counts; `allocation` divides ρ, as the 2020 Census did or otherwise. Source: Bailie, Gong and Meng,
Section 4, Theorem 2 and Appendix H.

Allocations are for bounded neighbors. Changing one person's record in any way takes one person out of a cell and puts
one in, so the persons' measurements cost their ρ. The change affects the occupancy of at most two units: the one left
empty and the one no longer vacant. Each takes 1 from a cell and adds 1 to another, and if the two units are in
different places, the squared L2 distance of a query is 4 instead of 2. So units count with twice their ρ, the second
time in a separate line. Theorem 2 assumes that one unit changes; its ρ is `one_unit`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.accounting.pairs import GaussianPair, Pair
from mechanisms.accounting.specification import Flavor, Line, Specification
from mechanisms.design import LARGEST_BUDGET, LARGEST_DENOMINATOR, DesignError
from mechanisms.sampling.noise import LARGEST_TABULATED_VARIANCE, DiscreteGaussian
from mechanisms.topdown.allocation import Allocation, compute_variances
from mechanisms.topdown.schema import DETAILED, HOUSEHOLDS, PERSONS, TOTAL, UNITS, UNITS_BY_OCCUPANCY, Marginal, Schema

SCHEMAS: Mapping[str, Schema] = {schema.name: schema for schema in (PERSONS, UNITS)}
"""The measured histograms, in order."""

POPULATION, HOUSING_UNITS, GROUP_QUARTERS = "population", "housing_units", "group_quarters"

STATISTICS: Mapping[str, str] = {
    POPULATION: "the number of persons in each {level}",
    HOUSING_UNITS: "the number of housing units in each {level}",
    GROUP_QUARTERS: "the number of occupied group quarters of each type in each {level}",
}
"""The statistics that a release may hold exactly, in words."""

LARGEST_CURVATURE = 10**5
"""The largest ratio of the greatest to the least curvature of the least-squares objective. Above it, the real-valued
step might not end. Production's greatest ratio is 6,600, in a pass without `total`, and 62,000 with full estimation,
for which it is a bound."""

MOST_PERSONS_OUT_OF_NOISE = 10**7
"""The most persons that noise alone may add to the microdata, where the population is not held. Each becomes a record;
ten million take about a minute."""

MOST_PERSONS = 99_999
"""The most persons in one household or one group-quarters facility."""

LEAST_SPREAD = 1
"""The least τ² of places that lean on their housing units: the persons in a given number of units are never known
better."""

STATE = "State"
"""The name of the level of the states, unless it is the finest."""

_MOST, _EXACT = 10**9, 2**53

MECHANISM = "TopDown"

VERSION = 3
"""Increase it when the same key would give other noise, as an old draw cannot be replayed."""


class Measured(NamedTuple):
    """One independent measurement: all cells of a query of a histogram, in all units of a level, with its part of ρ and
    σ² of the noise, 1/ρ."""

    histogram: str
    level: str
    query: str
    loss: ConcentratedLoss
    variance: Fraction

    @property
    def label(self) -> str:
        return f"{self.histogram} {self.level} {self.query}"

    @property
    def marginal(self) -> Marginal:
        return SCHEMAS[self.histogram].marginal(self.query)

    @property
    def noise(self) -> DiscreteGaussian:
        return DiscreteGaussian(self.variance)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """A change of one record takes 1 from a cell and adds 1 to another, at most."""
        return (GaussianPair(self.variance),) * 2


@dataclass(frozen=True)
class TopDownDesign:
    """The measurements, the exact statistics, and the method of estimation.

    Levels are from the root to the finest, allocations by histogram. By name, `invariants` has the level at which a
    statistic is held exactly, and so at all levels above. At the levels `total_first`, a separate pass of estimation
    determines totals from `total`. With `types_first`, estimation is full: a place is estimated from all measurements
    at and below it, and units after persons; from the root to this level, counts by type of dwelling and by race alone
    or combined are decided before single cells. Without it, places are estimated from their own level's measurements.
    With `lean_on_housing_units`, the finest level leans on them (`leaning`). These options do not change the
    measurements. Raises DesignError if the histograms, levels or invariants are invalid, or a budget or its noise is
    out of range.
    """

    levels: tuple[str, ...]
    allocations: Mapping[str, Allocation]
    invariants: Mapping[str, str]
    total_first: tuple[str, ...] = ()
    types_first: str | None = None
    lean_on_housing_units: bool = False

    def __post_init__(self) -> None:
        if len(set(self.levels)) < len(self.levels) or len(self.levels) < 2:
            raise DesignError("spine: there are two levels or more, each with a name of its own")
        if list(self.allocations) != list(SCHEMAS):
            raise DesignError(f"allocations are for {' and '.join(SCHEMAS)}")
        for name, level in self.invariants.items():
            if name not in STATISTICS:
                raise DesignError(f"invariants: there is no invariant {name}; there are {', '.join(STATISTICS)}")
            if level not in self.levels:
                raise DesignError(f"invariants: {name}: there is no level {level}; levels are {', '.join(self.levels)}")
            if name != POPULATION and level != self.levels[-1]:
                raise DesignError(
                    f"invariants: {name}: name the finest level of the spine, {self.levels[-1]}, or leave it out: "
                    f"bounds of every {words(self.levels[-1])} rest on it"
                )
        if self.lean_on_housing_units and not (self.full and HOUSING_UNITS in self.invariants):
            raise DesignError(
                f"lean_on_housing_units: it belongs to estimation: full, with {HOUSING_UNITS} among the invariants"
            )
        for histogram, allocation in self.allocations.items():
            self._check_allocation(histogram, allocation)
        self._check_persons_out_of_noise()
        for level in self.total_first:
            if level not in self.levels or not self.allocations[PERSONS.name].part(level, TOTAL).rho:
                raise DesignError(f"total_first: {level}: persons have no query {TOTAL} there")
        if self.types_first is not None:
            if self.total_first:
                raise DesignError("total_first: with full estimation, all queries together determine the totals")
            if self.types_first not in self.levels[:-1]:
                raise DesignError(
                    f"types_first: there is no level {self.types_first} above the finest; there are "
                    f"{', '.join(self.levels[:-1])}"
                )

    def _check_persons_out_of_noise(self) -> None:
        """Estimates are not negative, so the noise of empty cells adds persons unless their number is held.

        Noise of σ adds σ/√(2π) to a cell on average. If the root measures `total`, with σ_t, least squares adds
        at most about 4σ_t²/σ in all: each cell is lowered by λ = zσ, where the sum exceeds its measurement by
        zσ_t²/σ, and less than one of 2,016 cells is expected above 4σ. The levels below add up to the root.
        """
        if POPULATION in self.invariants:
            return
        root, allocation = self.levels[0], self.allocations[PERSONS.name]
        of_root = compute_variances(allocation, root)
        deviation = float(of_root[DETAILED]) ** 0.5
        added = PERSONS.size * deviation / (2 * np.pi) ** 0.5
        if TOTAL in of_root:
            added = min(added, 4 * float(of_root[TOTAL]) / deviation)
        if added > MOST_PERSONS_OUT_OF_NOISE:
            raise DesignError(
                f"{PERSONS.name}: {root}: noise of σ = {deviation:,.0f} in {DETAILED} would add about {added:,.0f} "
                f"persons, as the {POPULATION} is not held; hold it, measure {TOTAL} more precisely, or give {root} "
                "more of ρ"
            )

    def _check_allocation(self, histogram: str, allocation: Allocation) -> None:
        if tuple(allocation.levels) != self.levels:
            raise DesignError(
                f"{histogram}: levels {', '.join(allocation.levels)} are not those of the spine, "
                f"{', '.join(self.levels)}"
            )
        if not 0 < allocation.loss.rho <= LARGEST_BUDGET:
            raise DesignError(
                f"{histogram}: rho lies above 0 and up to {LARGEST_BUDGET}, not at {float(allocation.loss.rho):g}"
            )
        for level in self.levels:
            if not allocation.part(level, DETAILED).rho:
                raise DesignError(
                    f"{histogram}: {level}: the query {DETAILED} has no share; estimation needs every cell measured"
                )
            curvature = self._curvature(histogram, allocation, level)
            if curvature > LARGEST_CURVATURE:
                raise DesignError(
                    f"{histogram}: {level}: {DETAILED} has so small a share beside the coarser queries that estimation "
                    f"could not be relied on to end; give it {curvature / LARGEST_CURVATURE:.3g} times as much or more"
                    + (", or estimate each level from its own measurements" if self.full else "")
                )
        for query in _measure(histogram, allocation):
            if query.variance.numerator > LARGEST_DENOMINATOR**3:
                raise DesignError(f"{query.label}: shares and rho are fractions with denominators up to a trillion")
            if query.variance > LARGEST_TABULATED_VARIANCE:
                raise DesignError(
                    f"{query.label}: σ² = {float(query.variance):.3g} drowns any count; give it more or no share"
                )

    def _curvature(self, histogram: str, allocation: Allocation, level: str) -> float:
        """A bound on the ratio of the objective's greatest to its least curvature, with all queries in one pass. With
        full estimation, the levels below add at most their own greatest curvatures."""
        own = allocation.part(level, DETAILED).rho
        curvature = Fraction()
        if self.leans(histogram, level):
            # The model's answer counts the cells of households, with a variance of LEAST_SPREAD or more.
            curvature = int(np.count_nonzero(PERSONS.groups.cells == HOUSEHOLDS)) / (LEAST_SPREAD * own)
        for counted in self.levels[self.levels.index(level) :] if self.full else (level,):
            for query, share in allocation.queries[counted].items():
                apart = query == TOTAL and histogram == PERSONS.name and counted in self.total_first
                if share and not apart:
                    most = int(np.bincount(SCHEMAS[histogram].marginal(query).cells).max())
                    curvature += most * allocation.part(counted, query).rho / own
        return float(curvature)

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """All measurements by histogram, level and query, those with fewer cells first."""
        return tuple(
            query for histogram, allocation in self.allocations.items() for query in _measure(histogram, allocation)
        )

    def measured_at(self, histogram: str, level: str) -> tuple[Measured, ...]:
        return tuple(query for query in self.measured if (query.histogram, query.level) == (histogram, level))

    @property
    def full(self) -> bool:
        return self.types_first is not None

    def is_types_first(self, level: str) -> bool:
        """Whether counts by type and by race are decided before single cells."""
        return self.types_first in self.levels[self.levels.index(level) :]

    def leans(self, histogram: str, level: str) -> bool:
        return self.lean_on_housing_units and (histogram, level) == (PERSONS.name, self.levels[-1])

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The histograms as they are estimated."""
        return {**SCHEMAS, UNITS.name: UNITS_BY_OCCUPANCY} if self.full else SCHEMAS

    @property
    def persons(self) -> ConcentratedLoss:
        return self.allocations[PERSONS.name].loss

    @property
    def units(self) -> ConcentratedLoss:
        """ρ of the units' measurements, for a change of one unit."""
        return self.allocations[UNITS.name].loss

    @property
    def one_unit(self) -> ConcentratedLoss:
        """ρ for a change of one person that changes the occupancy of one unit at most (Theorem 2)."""
        return self.persons + self.units

    @property
    def loss(self) -> ConcentratedLoss:
        """ρ for any change of one person's record. This loss is charged."""
        return self.one_unit + self.units

    @property
    def lines(self) -> tuple[Line, ...]:
        """ρ of every measurement, and of the second unit whose occupancy a move can change."""
        second = tuple(pair for query in self.measured if query.histogram == UNITS.name for pair in query.pairs)
        return (
            *(Line(query.label, query.loss, query.pairs) for query in self.measured),
            Line("units, the second one of a move: all levels and queries", self.units, second),
        )

    @property
    def invariants_in_words(self) -> tuple[str, ...]:
        return tuple(STATISTICS[name].format(level=words(level)) for name, level in self.invariants.items())

    @property
    def places_in_words(self) -> str:
        """The list of places, which is exact in every release."""
        return f"which {words(self.levels[-1])}s have a housing unit or group quarters, and the places they lie in"

    @property
    def multiverse(self) -> tuple[str, ...]:
        """The invariants in words. They always include the list of places and the number of housing units: a change of
        persons changes which units are occupied, but never their number."""
        stock = STATISTICS[HOUSING_UNITS].format(level=words(self.levels[-1]))
        return (
            self.places_in_words,
            *self.invariants_in_words,
            *([] if HOUSING_UNITS in self.invariants else [f"{stock}, though it is not published exactly"]),
        )

    def specification(self, dataset: str) -> Specification:
        """The DP specification that is charged."""
        return Specification(
            Flavor(
                domain=f"all possible files of persons with the variables of {dataset}, each in a housing unit or "
                "group quarters of a type, no minor in a nursing facility, with the housing units",
                multiverse=self.multiverse,
                unit="person",
                changes_per_person=None,
                output_premetric=ConcentratedLoss.output_premetric,
            ),
            self.loss,
            self.lines,
        )

    def as_record(self) -> dict[str, Any]:
        """The measurements and the exact statistics, as exact plain values, equal for designs with the same draws. The
        method of estimation is not included."""
        return {
            "levels": list(self.levels),
            "invariants": dict(sorted(self.invariants.items())),
            "measured": [[part.histogram, part.level, part.query, str(part.loss.rho)] for part in self.measured],
        }


def _measure(histogram: str, allocation: Allocation) -> list[Measured]:
    """The queries of a histogram by level, those with fewer cells first, in any order of declaration."""
    measured = []
    for level in allocation.levels:
        queries = [
            Measured(histogram, level, query, allocation.part(level, query), variance)
            for query, variance in compute_variances(allocation, level).items()
        ]
        measured += sorted(queries, key=lambda query: (query.marginal.size, query.query))
    return measured


def level_of_states(levels: Sequence[str]) -> str:
    """The level of the states: the one of that name if it is not the finest, otherwise the root."""
    return STATE if STATE in levels[:-1] else levels[0]


def words(level: str) -> str:
    return level.replace("_", " ") if level.isupper() else level.replace("_", " ").lower()


def bound_groups(
    histogram: str, places: int, invariants: Mapping[str, NDArray[np.int64]], unbounded: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the greatest counts of groups in the places of the finest level, shape (places, groups), from the
    counts of invariants there, shape (places, categories), and from the bound for groups without an invariant."""
    lower = np.zeros((places, SCHEMAS[histogram].groups.size), dtype=np.int64)
    upper = np.full_like(lower, unbounded)
    if histogram == PERSONS.name:
        if (facilities := invariants.get(GROUP_QUARTERS)) is not None:
            lower[:, HOUSEHOLDS + 1 :] = facilities
            upper[:, HOUSEHOLDS + 1 :] = MOST_PERSONS * facilities
        if (housing := invariants.get(HOUSING_UNITS)) is not None:
            upper[:, HOUSEHOLDS] = MOST_PERSONS * housing[:, 0]
        nobody = PERSONS.groups.answer(PERSONS.possible[None].astype(np.int64))[0] == 0
        upper[:, nobody] = 0
    return lower, upper


def unbounded(places: int, groups: int) -> int:
    """The upper bound of a group's count in a place if no invariant bounds it.

    It is a billion, or less in trees with over a million places, so that sums over all places and groups stay below
    2^53, and neither 64-bit integers nor floating-point numbers lose precision. For ten million blocks, it is 112
    million.
    """
    return min(_MOST, _EXACT // (places * groups))
