"""A DHC design: the queries measured at each level, and the resulting guarantee.

Allocations are for one record that changes. Changing one person's record in any way changes at most three records of
persons: if the person moves, one householder is left alone and another is no longer alone. A query that distinguishes
these two states has a squared L2 distance of up to 6 instead of 2, and its ρ counts three times. Other queries see only
the person. The change affects at most two units: one becomes vacant and the other occupied, so a query's squared L2
distance is 4 instead of 2, and ρ of units counts twice. It affects two households, perhaps alike, so the distance, not
its square, doubles: ρ of households counts four times. An only child is not measured and its ρ is its parent's, so no
path spends more than the charge (`levels`). Sources: the Census Bureau's production code; Bailie, Gong and Meng,
Theorem 2, which counts each once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.accounting.specification import Flavor, Line, Specification
from mechanisms.design import LARGEST_BUDGET, LARGEST_DENOMINATOR, DesignError
from mechanisms.sampling.noise import LARGEST_TABULATED_VARIANCE, DiscreteGaussian
from mechanisms.topdown.allocation import Allocation, compute_variances
from mechanisms.topdown.design import words
from mechanisms.topdown.dhc.allocation import count_times
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.passes import (
    PLANS,
    PLANS_WITHIN_PERSONS,
    PassesError,
    Plan,
    divide_queries,
    list_queries,
)
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.schema import DETAILED, Marginal, Schema

SCHEMAS: Mapping[str, Schema] = {schema.name: schema for schema in (PERSONS, UNITS, HOUSEHOLDS)}
"""The measured histograms, in order."""


MECHANISM = "TopDown DHC"

VERSION = 2
"""Increase it when the same key would give other noise or other estimates, as an old draw cannot be replayed."""

MOST_RATIO = 1000
"""The largest ratio of ρ of two queries of one pass. Production's is 20.4."""


class Measured(NamedTuple):
    """One independent measurement: all cells of a query of a histogram, in all places of a level, with its part of ρ
    for one record and σ² of the noise, 1/ρ."""

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
    def times(self) -> int:
        return count_times(SCHEMAS[self.histogram], self.query)

    @property
    def charged(self) -> ConcentratedLoss:
        """ρ for any change of one person's record."""
        return ConcentratedLoss(self.loss.rho * self.times)


@dataclass(frozen=True)
class DHCDesign:
    """The measurements, by histogram. Levels are from the root to the finest. With `full`, a place is estimated from
    the answers at and below it, otherwise from its own level's; answers that are not read are not measured. With
    `householders_among_persons`, households lie within the persons of the householder's origin and race. With
    `complete`, queries with few answers are measured in full. By histogram, `passes` has the queries of each pass of
    estimation, if they are not production's; a level may omit all except the last of a pass. Raises DesignError if the
    histograms, levels or queries are not those that estimation needs, or a budget or its noise is out of range."""

    levels: tuple[str, ...]
    allocations: Mapping[str, Allocation]
    full: bool = True
    householders_among_persons: bool = False
    complete: bool = False
    passes: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.levels)) < len(self.levels) or len(self.levels) < 2:
            raise DesignError("spine: there are two levels or more, each with a name of its own")
        if list(self.allocations) != list(SCHEMAS):
            raise DesignError(f"allocations are for {', '.join(SCHEMAS)}")
        for histogram, allocation in self.allocations.items():
            if tuple(allocation.levels) != self.levels:
                raise DesignError(
                    f"{histogram}: levels {', '.join(allocation.levels)} are not those of the spine, "
                    f"{', '.join(self.levels)}"
                )
            if not 0 < allocation.loss.rho <= LARGEST_BUDGET:
                raise DesignError(
                    f"{histogram}: rho lies above 0 and up to {LARGEST_BUDGET}, not at {float(allocation.loss.rho):g}"
                )
            # Units are checked before households, whose estimation may read answers about them.
            check_plan(self.plans[histogram], allocation, self.full, self.allocations[UNITS.name])
        for query in self.measured:
            if query.variance.numerator > LARGEST_DENOMINATOR**3:
                raise DesignError(f"{query.label}: shares and rho are fractions with denominators up to a trillion")
            if query.variance > LARGEST_TABULATED_VARIANCE:
                raise DesignError(f"{query.label}: σ² = {float(query.variance):.3g} drowns any count; give it more")

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """All measurements by histogram, level and query, in the order of the queries in the passes of estimation."""
        return tuple(
            Measured(histogram, level, query, allocation.part(level, query), variances[query])
            for histogram, allocation in self.allocations.items()
            for level in self.levels
            for variances in [compute_variances(allocation, level)]
            for query in list_queries(self.plans[histogram])
            if query in variances
        )

    def measured_at(self, histogram: str, level: str) -> tuple[Measured, ...]:
        return tuple(query for query in self.measured if (query.histogram, query.level) == (histogram, level))

    @cached_property
    def plans(self) -> Mapping[str, Plan]:
        """The plan of estimation of each histogram."""
        plans = PLANS_WITHIN_PERSONS if self.householders_among_persons else PLANS
        if self.householders_among_persons and UNITS.name in self.passes:
            raise DesignError(
                f"passes: {UNITS.name}: with householders_among_persons, the tenure of households is estimated from "
                f"the answers to {DETAILED} alone"
            )
        own = dict[str, Plan]()
        for histogram, passes in self.passes.items():
            try:
                own[histogram] = divide_queries(plans[histogram], passes)
            except PassesError as error:
                raise DesignError(f"passes: {histogram}: {error}") from None
        return {**plans, **own}

    @property
    def loss(self) -> ConcentratedLoss:
        """ρ for any change of one person's record. This loss is charged."""
        return sum((self.of_histogram(histogram) for histogram in SCHEMAS), ConcentratedLoss())

    @property
    def once(self) -> ConcentratedLoss:
        """ρ if one record of each histogram changes, as stated for production (Theorem 2)."""
        return sum((allocation.loss for allocation in self.allocations.values()), ConcentratedLoss())

    def of_histogram(self, histogram: str) -> ConcentratedLoss:
        return sum((each.charged for each in self.measured if each.histogram == histogram), ConcentratedLoss())

    @property
    def multiverse(self) -> tuple[str, ...]:
        """The invariants in words."""
        finest = words(self.levels[-1])
        return (
            f"which {finest}s have a housing unit or group quarters, and the places they lie in",
            f"the number of housing units in each {finest}",
            f"the number of occupied group quarters of each of 24 types in each {finest}",
        )

    def specification(self, dataset: str) -> Specification:
        """The DP specification that is charged."""
        return Specification(
            Flavor(
                domain=f"all possible files of persons with the variables of {dataset}, each in a housing unit or "
                "group quarters of a type, with the housing units, in possible combinations of relationship and age "
                "and with one householder in each household",
                multiverse=self.multiverse,
                unit="person",
                changes_per_person=None,
                output_premetric=ConcentratedLoss.output_premetric,
            ),
            self.loss,
            tuple(Line(_name_line(query), query.charged) for query in self.measured),
        )

    def as_record(self) -> dict[str, Any]:
        """The measurements as exact plain values, equal for designs with the same draws."""
        passes = {histogram: [list(queries) for queries in own] for histogram, own in sorted(self.passes.items())}
        return {
            "levels": list(self.levels),
            "full": self.full,
            **({"householders_among_persons": True} if self.householders_among_persons else {}),
            **({"complete": True} if self.complete else {}),
            **({"passes": passes} if passes else {}),
            "measured": [[part.histogram, part.level, part.query, str(part.loss)] for part in self.measured],
        }


def _name_line(query: Measured) -> str:
    return query.label if query.times == 1 else f"{query.label} (counted {query.times} times)"


def check_plan(plan: Plan, allocation: Allocation, full: bool, units: Allocation | None = None) -> None:
    """Raise DesignError unless every query with a share is in a pass, the last query of every pass has a share at every
    level, and no query of a pass has over `MOST_RATIO` times the share of another.

    Args:
        full: whether a place is estimated from the answers at and below it, not only from its own level's.
        units: the allocation of units, whose answers the passes of households may read `beside`.
    """
    histogram, queries = plan.schema.name, list_queries(plan)
    for level, shares in allocation.queries.items():
        if surplus := [query for query, share in shares.items() if share and query not in queries]:
            raise DesignError(
                f"{histogram}: {level}: the query {surplus[0]} is in no pass, so that estimation does not read it"
            )
        if missing := [step.cells for step in plan.passes if not allocation.part(level, step.cells).rho]:
            raise DesignError(
                f"{histogram}: {level}: the query {missing[0]}, with which a pass ends, has no share, and estimation "
                "needs it at every level"
            )
    if unasked := [query for query in queries if not allocation.of_query(query).rho]:
        raise DesignError(f"{histogram}: the query {unasked[0]} is in a pass, and no level has a share for it")
    levels = list(allocation.levels)
    for depth, step in product(range(len(levels)), plan.passes):
        of_pass = [units.part(levels[depth], DETAILED).rho for _ in step.beside] if units else []
        for query in step.queries:
            rho, *below = (allocation.part(level, query).rho for level in levels[depth:])
            # With full estimation, the levels below answer a query that is not asked at this level.
            of_pass.append(rho or max(below, default=rho) if full else rho)
        if max(of_pass) > MOST_RATIO * min(filter(None, of_pass)):
            raise DesignError(
                f"{histogram}: {levels[depth]}: one query has over {MOST_RATIO:,} times the share of another, so that "
                "estimation could not be relied on to end"
            )
