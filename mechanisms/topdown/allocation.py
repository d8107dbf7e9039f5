"""The division of ρ over levels and queries, the 2020 Census's division, and the loss for part of a person's record:
one attribute, or the person's location within a place. `design` has the resulting noise.

Sources: the certificate that the Census Bureau's production system writes for the 2020 Census; the parameter files that
it published with its production code for P.L. 94-171 (United States, persons and units); and Bailie, Gong and Meng,
Section 4.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from fractions import Fraction

from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.topdown.schema import PERSONS, UNITS, Schema


class AllocationError(ValueError):
    """A budget whose shares are inconsistent."""


@dataclass(frozen=True)
class Allocation:
    """ρ, divided over geographic levels, the widest first, and within each level over queries.

    All measurements are independent given the data, so their losses add up. The part of a (level, query) pair is ρ, the
    loss for a change of one record, times the level's share times the query's share. `involved` lists, by query, the
    attributes that define its cells, as they are or recoded; a total has none. Only a change of one of these attributes
    can change the query's counts.
    """

    loss: ConcentratedLoss
    levels: Mapping[str, Fraction]
    queries: Mapping[str, Mapping[str, Fraction]]
    involved: Mapping[str, Set[str]]

    def __post_init__(self) -> None:
        _require_whole("levels", self.levels)
        if set(self.queries) != set(self.levels):
            differing = sorted(set(self.queries) ^ set(self.levels))
            raise AllocationError(f"queries: {len(differing)} levels have shares in one map only: {differing}")
        for level, shares in self.queries.items():
            _require_whole(f"queries of {level}", shares)
            unknown = sorted(set(shares) - set(self.involved))
            if unknown:
                raise AllocationError(f"involved: {len(unknown)} queries of {level} are missing: {unknown}")

    def part(self, level: str, query: str) -> ConcentratedLoss:
        """ρ of one query at one level; 0 if the level does not ask it."""
        share = self.queries[level].get(query, Fraction(0))
        return ConcentratedLoss(self.loss.rho * self.levels[level] * share)

    def of_level(self, level: str) -> ConcentratedLoss:
        return ConcentratedLoss(self.loss.rho * self.levels[level])

    def of_query(self, query: str) -> ConcentratedLoss:
        return sum((self.part(level, query) for level in self.levels), ConcentratedLoss())

    def of_attribute(self, attribute: str) -> ConcentratedLoss:
        """ρ for a change of one attribute of one record: the sum over the queries that involve it."""
        queries = [query for query, attributes in self.involved.items() if attribute in attributes]
        if not queries:
            raise AllocationError(f"no query involves the attribute {attribute}")
        return sum(map(self.of_query, queries), ConcentratedLoss())

    def of_move_within(self, level: str) -> ConcentratedLoss:
        """ρ for a record's move within one unit of a level: the sum over the levels below it. The counts at this level
        and above do not change."""
        order = list(self.levels)
        if level not in order:
            raise AllocationError(f"there is no level {level}; the levels are {', '.join(order)}")
        return sum(map(self.of_level, order[order.index(level) + 1 :]), ConcentratedLoss())


def _require_whole(name: str, shares: Mapping[str, Fraction]) -> None:
    negative = [key for key, share in shares.items() if share < 0]
    if negative:
        raise AllocationError(f"{name}: {len(negative)} shares are negative: {negative}")
    total = sum(shares.values())
    if total != 1:
        raise AllocationError(f"{name}: the shares add up to {total}, not to 1")


def allocate(
    schema: Schema, rho: Fraction, levels: Mapping[str, Fraction], queries: Mapping[str, Mapping[str, Fraction]]
) -> Allocation:
    """ρ, divided over levels and queries of a histogram. Raises QueryError if the histogram cannot answer a query, and
    AllocationError if shares do not add up to 1."""
    names = {query for shares in queries.values() for query in shares}
    involved = {query: schema.marginal(query).involved for query in sorted(names)}
    return Allocation(ConcentratedLoss(rho), levels, queries, involved)


def compute_variances(divided: Allocation, level: str) -> dict[str, Fraction]:
    """σ² of each query at a level: 1/ρ of the query. Replacing one record takes 1 from one marginal cell and adds 1 to
    another: a squared L2 distance of 2. So discrete Gaussian noise of variance σ² costs ρ = 2/(2σ²) (Canonne, Kamath
    and Steinke, 2020, Theorem 4)."""
    return {query: 1 / divided.part(level, query).rho for query, share in divided.queries[level].items() if share}


LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
"""The geographic levels of production, from the widest to the finest."""

_PERSON_QUERIES = (
    "total", "cenrace", "hispanic", "votingage", "hhinstlevels", "hhgq", "hispanic * cenrace", "votingage * cenrace",
    "votingage * hispanic", "votingage * hispanic * cenrace", "detailed",
)  # fmt: skip


def _shares(denominator: int, *numerators: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(numerator, denominator) for numerator in numerators)


_PERSON_SHARES = {
    "US": _shares(4097, 0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213),
    "State": _shares(4097, 3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230),
    "County": _shares(4097, 3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754),
    "Tract": _shares(4102, 1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482),
    "Block_Group": _shares(4099, 1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288),
    "Block": _shares(4097, 5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945),
}

PERSON_ALLOCATION = allocate(
    PERSONS,
    Fraction(542, 339) ** 2,
    dict(zip(LEVELS, _shares(4099, 104, 1440, 447, 687, 1256, 165), strict=True)),
    {
        level: {query: share for query, share in zip(_PERSON_QUERIES, shares, strict=True) if share}
        for level, shares in _PERSON_SHARES.items()
    },
)
"""Persons: ρ = 2.56. The nation's `total` is not measured: it is the sum of the states' totals, which are invariant."""

UNIT_ALLOCATION = allocate(
    UNITS,
    Fraction(3379, 12343) ** 2,
    dict(zip(LEVELS, _shares(4100, 20, 20, 350, 1456, 1759, 495), strict=True)),
    {level: {"detailed": Fraction(1)} for level in LEVELS},
)
"""Units: ρ = 0.07, all for counts of occupied and vacant units."""
