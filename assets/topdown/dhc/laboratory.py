"""The DHC in the laboratory: persons of a tract or county by sex and age, within the redistricting data by TopDown.

As in the redistricting data, a tract stands alone. Tables of units come from the redistricting data. Queries leave out
relationships and group quarters, which the records of the tier do not have; queries that become redundant are not
measured. Ages are the groups of the tier.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from assets.laboratory.points import Draw, Grid, Point
from assets.laboratory.publication import Publication
from assets.laboratory.records import Tract
from assets.release.numbers import Rho
from assets.topdown.laboratory import (
    TopDown,
    choose_pairs,
    compare_worlds,
    describe_queries,
    list_parents,
    list_places,
    make_intervals,
    measure_levels,
)
from mechanisms.risk.tiers import AGE_STARTS, RACES, REDISTRICTING, Counts
from mechanisms.topdown.allocation import PERSON_ALLOCATION as REDISTRICTING_ALLOCATION
from mechanisms.topdown.dhc.allocation import PERSON_ALLOCATION, PERSON_QUERIES
from mechanisms.topdown.dhc.design import MECHANISM
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.schema import DETAILED, Attribute, Schema

SCHEMA = Schema(
    "persons",
    (Attribute("sex", 2), Attribute("age", len(AGE_STARTS)), Attribute("hispanic", 2), Attribute("cenrace", RACES)),
    tuple(
        replace(recode, codes=tuple(recode.codes[age] for age in AGE_STARTS))
        for recode in PERSONS.recodes
        if recode.attribute == "age"
    ),
)
"""The cells are the types of T2, in the same order."""

_HELD = "votingage * hispanic * cenrace"
_FINE = "hispanic * sex * age_40_groups * cenrace"
_QUERIES: Mapping[str, str] = {
    **{query: query for query in PERSON_QUERIES[1:4]},
    _FINE: PERSON_QUERIES[7],
    DETAILED: DETAILED,
}
"""The measured queries, each with the production query whose ρ it has."""
_TYPES = (_FINE, DETAILED)
"""The queries that distinguish race and ethnicity by sex and age, which the attacker uses."""
Answers = dict[tuple[str, str], Counts]
"""By level and query, the noisy answers of all places, shape (places, cells)."""
_LEVELS = {"County": "County", "Tract": "Tract_Subset", "Block_Group": "Block_Group", "Block": "Block"}
"""By level, the production level."""


@dataclass(frozen=True)
class DHC(Point):
    """Microdata with the 2020 Census's budgets for redistricting data and the DHC's persons, times a factor; optionally
    with the noisy measurements of blocks and block groups, which the attacker then also uses."""

    factor: Fraction
    measurements: bool

    tiers = ("T2",)

    @property
    def method(self) -> str:  # type: ignore[override]
        return "DHC" if self.measurements else "DHC, microdata alone"

    @property
    def parameters(self) -> str:
        return f"budgets × {float(self.factor):g}"

    def find_variances(self, levels: Iterable[str]) -> dict[tuple[str, str], Fraction]:
        """σ² of each level and query: 1 divided by its ρ."""
        return {
            (level, query): 1 / (self.factor * PERSON_ALLOCATION.part(_LEVELS[level], asked).rho)
            for level in levels
            for query, asked in _QUERIES.items()
        }

    def draw(self, tract: Tract, key: bytes) -> Draw:
        before, measured = self._measure(tract, key)
        published = self._publish(tract, before, measured, key)
        if not self.measurements:
            return Draw(published, np.zeros(0), None)
        pairs, variances = choose_pairs(tract, key), self.find_variances(list_places(tract))
        ratios = self._within.compare(_by_adults(tract), before, pairs)
        return Draw(published, ratios + compare_worlds(tract, pairs, SCHEMA, measured, variances), None)

    def publish_without(self, tract: Tract, person: int, key: bytes) -> Publication:
        without = tract.without(person)
        return self._publish(without, *self._measure(without, key), key)

    def find_intervals(self, tract: Tract, published: Publication, key: bytes) -> tuple[Counts, Counts]:
        return make_intervals(self.draw, tract, published, key)

    @property
    def _within(self) -> TopDown:
        """The redistricting data."""
        return TopDown(self.factor * REDISTRICTING_ALLOCATION.loss.rho, measurements=True)

    def _measure(self, tract: Tract, key: bytes) -> tuple[Answers, Answers]:
        """The noisy answers of the redistricting data and of the DHC."""
        variances = self.find_variances(list_places(tract))
        return self._within.measure(_by_adults(tract), key), measure_levels(tract, key, MECHANISM, SCHEMA, variances)

    def _publish(self, tract: Tract, before: Answers, measured: Answers, key: bytes) -> Publication:
        within, adults, variances = self._within, _by_adults(tract), self.find_variances(list_places(tract))
        found = _estimate(tract, within.estimate(adults, before), measured, variances)
        units = within.estimate_units(adults, found.sum(axis=(1, 2)), key)
        published = replace(self.publish(tract, found, None), units=units)
        if not self.measurements:
            return published
        adult = (tract.tier.tables["P3"][:, 0] >= 0).astype(np.int64)
        described = [replace(each, cells=each.cells[adult]) for each in within.describe(adults, before)]
        described += describe_queries(tract, SCHEMA, _TYPES, measured, variances)
        return replace(published, measured=tuple(described))


def _by_adults(tract: Tract) -> Tract:
    """The same records with the categories of the redistricting data."""
    return replace(tract, tier=REDISTRICTING, frame=tract.adult.astype(np.int64))


def _estimate(
    tract: Tract,
    held: Counts,
    measured: Mapping[tuple[str, str], Counts],
    variances: Mapping[tuple[str, str], Fraction],
) -> Counts:
    """The counts of all types by block, shape (blocks, frames, categories). Their adults and minors by race and
    ethnicity equal `held`."""
    from mechanisms.topdown.dhc.estimation import Family, estimate
    from mechanisms.topdown.dhc.passes import Pass, Plan

    first = Pass(tuple(_QUERIES)[:4], ("hispanic * sex * votingage * cenrace", _FINE))
    plan = Plan(SCHEMA, _HELD, (first, Pass((DETAILED,), (DETAILED,))))
    places, of_cell = list_places(tract), SCHEMA.marginal(_HELD).cells
    above: Counts | None = None
    for level, parents in list_parents(tract).items():
        of_level = np.zeros((len(parents), held[0].size), dtype=np.int64)
        np.add.at(of_level, places[level], held.reshape(len(held), -1))
        found = np.zeros((len(parents), SCHEMA.size), dtype=np.int64)
        for number in range(int(parents.max()) + 1):
            children = np.flatnonzero(parents == number)
            own = of_level[children]
            cells = np.flatnonzero(own.sum(axis=0)[of_cell] if above is None else above[number])
            read = partial(_read, measured, variances, level, children)
            family = Family(plan, cells, None if above is None else above[number, cells], own, read)
            found[np.ix_(children, cells)] = estimate(family).counts
        above = found
    assert above is not None
    return above.reshape(-1, *tract.tier.shape)


def _read(
    measured: Mapping[tuple[str, str], Counts],
    variances: Mapping[tuple[str, str], Fraction],
    level: str,
    children: NDArray[np.int64],
    query: str,
    cells: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    answers = measured[level, query][np.ix_(children, cells)].astype(np.float64)
    return answers, np.full(len(children), float(1 / variances[level, query]))


class DHCGrid(Grid):
    """The DHC's persons, for each factor of the budgets."""

    factors: tuple[Rho, ...] = Field(
        min_length=1, description="Multiples of the budgets of the 2020 Census, which have factor 1."
    )

    def points(self) -> Sequence[Point]:
        return [DHC(factor, measurements) for factor in self.factors for measurements in (True, False)]
