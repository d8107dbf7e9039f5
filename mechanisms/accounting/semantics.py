"""The loss for part of a person's record: one attribute, or where within a place the person lives.

Source: the certificate that the Census Bureau's production system writes for the 2020 Census.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from fractions import Fraction

from mechanisms.accounting.losses import ConcentratedLoss


class AllocationError(ValueError):
    """A budget whose shares are inconsistent."""


@dataclass(frozen=True)
class Allocation:
    """ρ, divided over geographic levels and, within each level, over queries.

    All measurements are independent given the data, so their losses add up. The part of a (level, query) pair is ρ
    times the level's share times the query's share.

    Attributes:
        loss: for a change of one record.
        levels: from the widest to the finest.
        involved: by query, the attributes that define its cells, as they are or recoded. Only a change of one of
            these can change its counts. Empty for a total.

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
        """ρ for a record's move within one unit of a level: the sum over the levels below it.

        The move stays within the same units at this level and above, so the counts there do not change.
        """
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
