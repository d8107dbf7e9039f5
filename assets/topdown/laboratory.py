"""TopDown's redistricting data in the laboratory: noisy measurements of a tract, its block groups and blocks, or of a
county with its tracts and below, and the microdata estimated from them.

A tract or county stands alone: the levels above it and their share of ρ are left out, and it is the root. The histogram
has the attributes of T1: voting age, ethnicity and race. Queries of group quarters are left out, and the others keep
their relative shares of the 2020 Census.

Tables of units are estimated separately: persons by type of group quarters from the query `hhgq`, with its share in
addition to the others and the number of persons in the microdata as the total; and occupied and vacant units with the
budget of units, scaled like the budget of persons. As in production, each block's number of housing units and its types
of group quarters are invariant.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from assets.laboratory.points import Draw, Grid, Point
from assets.laboratory.publication import Measured, Publication
from assets.laboratory.records import Tract
from assets.release.numbers import Rho
from mechanisms.risk.tiers import RACES, Counts
from mechanisms.sampling.noise import DiscreteGaussian, Noise
from mechanisms.sampling.stream import RandomStream
from mechanisms.topdown.allocation import PERSON_ALLOCATION, UNIT_ALLOCATION
from mechanisms.topdown.design import MECHANISM
from mechanisms.topdown.schema import HOUSEHOLDS, TOTAL, UNITS_BY_OCCUPANCY, Attribute, Schema

SCHEMA = Schema("persons", (Attribute("votingage", 2), Attribute("hispanic", 2), Attribute("cenrace", RACES)))
"""The cells are the types of T1, in the same order."""

QUARTERS = Schema("quarters", (Attribute("hhgq", 8),), bounded="hhgq", rounding=(TOTAL, "hhgq"))
"""Persons in households, and in each type of group quarters."""

_PAIRS = 500

_REPLICATES = 10
"""The number of replicates behind the intervals."""


@dataclass(frozen=True)
class TopDown(Point):
    """Microdata, optionally with the noisy measurements behind them, which the attacker then also uses. If populations
    are invariant, every place has exactly as many persons as the records."""

    rho: Fraction
    measurements: bool
    populations: bool = False

    @property
    def method(self) -> str:  # type: ignore[override]
        return "TopDown" if self.measurements else "TopDown, microdata alone"

    @property
    def parameters(self) -> str:
        return f"ρ = {float(self.rho):g}" + (", populations invariant" if self.populations else "")

    def draw(self, tract: Tract, key: bytes) -> Draw:
        measured = self.measure(tract, key)
        compared = self.compare(tract, measured, choose_pairs(tract, key)) if self.measurements else np.zeros(0)
        return Draw(self._publish(tract, measured, key), compared, None)

    def publish_without(self, tract: Tract, person: int, key: bytes) -> Publication:
        without = tract.without(person)
        return self._publish(without, self.measure(without, key), key)

    def _publish(self, tract: Tract, measured: dict[tuple[str, str], Counts], key: bytes) -> Publication:
        estimates = self.estimate(tract, measured)
        units = self.estimate_units(tract, estimates.sum(axis=(1, 2)), key)
        published = replace(self.publish(tract, estimates, None), units=units)
        return replace(published, measured=tuple(self.describe(tract, measured))) if self.measurements else published

    def estimate_units(self, tract: Tract, persons: Counts, key: bytes) -> Counts | None:
        """The tables of units, shape (blocks, cells), given the persons in each block; None if the tract has none."""
        exact = tract.count_units()
        if exact is None:
            return None
        in_quarters, units = np.split(exact, [QUARTERS.size - 1], axis=1)
        types = np.zeros((tract.blocks, QUARTERS.size), dtype=np.bool_)
        types[tract.block, tract.quarters] = True
        # In a block with only group quarters, all persons live in them.
        types[:, HOUSEHOLDS] = units.any(axis=1) | ~types.any(axis=1)
        in_households = tract.count().sum(axis=(1, 2)) - in_quarters.sum(axis=1)
        by_type, occupancy = np.column_stack([in_households, in_quarters]), units.sum(axis=1)
        variances = [self.find_variances_of_units(level) for level in list_places(tract)]
        of_quarters, of_units = zip(*variances, strict=True)
        found = [
            estimate_down(tract, key, QUARTERS, by_type, np.where(types, persons[:, None], 0), persons, of_quarters),
            estimate_down(tract, key, UNITS_BY_OCCUPANCY, units, np.tile(occupancy, (2, 1)).T, occupancy, of_units),
        ]
        return np.hstack([np.delete(found[0], HOUSEHOLDS, axis=1), found[1]])

    def find_variances_of_units(self, level: str) -> tuple[Fraction, Fraction]:
        """σ² of the counts of persons by type of group quarters, and of units."""
        queries = PERSON_ALLOCATION.queries[level]
        whole = sum(share for query, share in queries.items() if "hh" not in query)
        quarters = self.rho * PERSON_ALLOCATION.levels[level] * queries["hhgq"] / whole
        units = self.rho / PERSON_ALLOCATION.loss.rho * UNIT_ALLOCATION.of_level(level).rho
        return 1 / quarters, 1 / units

    def find_intervals(self, tract: Tract, published: Publication, key: bytes) -> tuple[Counts, Counts]:
        return make_intervals(self.draw, tract, published, key)

    def find_variances(self, levels: Iterable[str]) -> dict[tuple[str, str], Fraction]:
        """σ² of each level and query: 1 divided by its ρ."""
        shares = {}
        for level in levels:
            queries = {query: share for query, share in PERSON_ALLOCATION.queries[level].items() if "hh" not in query}
            whole = sum(queries.values())
            for query, share in queries.items():
                shares[level, query] = PERSON_ALLOCATION.levels[level] * share / whole
        return {place: 1 / (self.rho * share) for place, share in shares.items()}

    def measure(self, tract: Tract, key: bytes) -> dict[tuple[str, str], Counts]:
        """By level and query, the noisy answers of all places, shape (places, cells)."""
        return measure_levels(tract, key, MECHANISM, SCHEMA, self.find_variances(list_places(tract)))

    def estimate(self, tract: Tract, measured: dict[tuple[str, str], Counts]) -> Counts:
        """The microdata, as the counts of all types by block."""
        from mechanisms.topdown.estimation import Measurement, estimate
        from mechanisms.topdown.feasibility import FREE, Limits

        exact = count_levels(tract, SCHEMA) if self.populations else {}
        above, variances = None, self.find_variances(list_places(tract))
        for level, parent in list_parents(tract).items():
            found = np.zeros((len(parent), SCHEMA.size), dtype=np.int64)
            totals = exact[level].sum(axis=1) if self.populations else np.full(len(parent), FREE)
            for number in range(int(parent.max()) + 1):
                children = np.flatnonzero(parent == number)
                answers = [
                    Measurement(query, variance, measured[of, query][children])
                    for (of, query), variance in variances.items()
                    if of == level
                ]
                bounds = np.zeros((len(children), 1), np.int64), np.full((len(children), 1), 10**6)
                limits = Limits(*bounds, totals[children])
                own = None if above is None else above[number]
                found[children] = estimate(SCHEMA, answers, limits, own, total_first=level != "Block").histograms
            above = found
        assert above is not None
        return above.reshape(-1, *tract.tier.shape)

    def describe(self, tract: Tract, measured: dict[tuple[str, str], Counts]) -> list[Measured]:
        """The published measurements of blocks and of the block groups around them."""
        variances = self.find_variances(("Block_Group", "Block"))
        queries = [query for level, query in variances if level == "Block"]
        return describe_queries(tract, SCHEMA, queries, measured, variances)

    def compare(
        self, tract: Tract, measured: dict[tuple[str, str], Counts], pairs: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """As `compare_worlds`, of all measurements."""
        return compare_worlds(tract, pairs, SCHEMA, measured, self.find_variances(list_places(tract)))


def make_intervals(
    draw: Callable[[Tract, bytes], Draw], tract: Tract, published: Publication, key: bytes
) -> tuple[Counts, Counts]:
    """The ends of the 90% intervals of all tables' cells, shape (blocks, cells), as in a release: from replicates that
    take the published microdata as the records."""
    from mechanisms.topdown.replicates import add_deviations, compute_intervals

    tabulate, records = tract.tier.tabulate, tract.with_records(published.counts)
    keys = RandomStream(key, "replicates").words(4 * _REPLICATES).reshape(_REPLICATES, 4)
    replicates = (tabulate(draw(records, words.tobytes()).publication.counts) for words in keys)
    found = compute_intervals(add_deviations(tabulate(published.counts), replicates), _REPLICATES)
    return found.lower, found.upper


def estimate_down(
    tract: Tract,
    key: bytes,
    schema: Schema,
    exact: Counts,
    most: Counts,
    totals: Counts,
    variances: Sequence[Fraction],
) -> Counts:
    """The counts of blocks by a single attribute, shape (blocks, cells), estimated from noisy counts of all levels with
    these σ².

    Args:
        exact, most: the true and the maximum possible counts of blocks, same shape.
        totals: the fixed total of each block, shape (blocks,).
    """
    from mechanisms.topdown.estimation import Measurement, estimate
    from mechanisms.topdown.feasibility import propagate

    places, parents, query = list_places(tract), list_parents(tract), schema.attributes[0].name
    limits = propagate(
        list(places), list(parents.values())[1:], np.zeros_like(most), most, [*[None] * (len(places) - 1), totals]
    )
    counts = {level: np.zeros((len(parent), schema.size), dtype=np.int64) for level, parent in parents.items()}
    for level, place in places.items():
        np.add.at(counts[level], place, exact)
    labels = [f"{level} {schema.name}" for level in places]
    noise = _draw_noise(
        MECHANISM, key, tuple(zip(labels, variances, (each.size for each in counts.values()), strict=True))
    )
    above: Counts | None = None
    for (level, parent), own, variance, limit in zip(parents.items(), noise, variances, limits, strict=True):
        answers, found = counts[level] + own.reshape(counts[level].shape), np.zeros_like(counts[level])
        for number in range(int(parent.max()) + 1):
            first, last = np.searchsorted(parent, [number, number + 1])
            family = [Measurement(query, variance, answers[first:last])], limit.between(first, last)
            found[first:last] = estimate(schema, *family, None if above is None else above[number]).histograms
        above = found
    assert above is not None
    return above


def choose_pairs(tract: Tract, key: bytes) -> NDArray[np.int64]:
    """Random pairs of persons of different categories, shape (2, pairs)."""
    persons = len(tract.household)
    chosen = RandomStream(key, "pairs").words(2 * _PAIRS if persons else 0) % np.uint64(max(1, persons))
    pairs = chosen.astype(np.int64).reshape(-1, 2).T
    first, other = tract.category[pairs]
    return np.asarray(pairs[:, first != other])


def measure_levels(
    tract: Tract, key: bytes, mechanism: str, schema: Schema, variances: Mapping[tuple[str, str], Fraction]
) -> dict[tuple[str, str], Counts]:
    """By level and query, the noisy answers of all places, shape (places, cells), with these σ²."""
    places, types = list_places(tract), tract.frame * tract.tier.shape[1] + tract.category
    exact = {}
    for level, query in variances:
        marginal, number = schema.marginal(query), int(places[level].max()) + 1
        cells = places[level][tract.place] * marginal.size + marginal.find(types)
        exact[level, query] = np.bincount(cells, minlength=number * marginal.size).reshape(number, -1)
    queries = tuple((f"{level} {query}", own, exact[level, query].size) for (level, query), own in variances.items())
    noise = _draw_noise(mechanism, key, queries)
    return {
        asked: counts + own.reshape(counts.shape) for (asked, counts), own in zip(exact.items(), noise, strict=True)
    }


@lru_cache(maxsize=4)
def _draw_noise(mechanism: str, key: bytes, queries: tuple[tuple[str, Fraction, int], ...]) -> list[Counts]:
    """The noise of the answers of each query, from its name, σ² and number of answers. It is cached for the worlds
    without one person, which have the same noise: in both releases of persons, for group quarters and for units."""
    noise = Noise(mechanism, {query: DiscreteGaussian(variance) for query, variance, _ in queries}, key)
    return [noise.of_next(query, answers) for query, _, answers in queries]


def compare_worlds(
    tract: Tract,
    pairs: NDArray[np.int64],
    schema: Schema,
    measured: Mapping[tuple[str, str], Counts],
    variances: Mapping[tuple[str, str], Fraction],
) -> NDArray[np.float64]:
    """ln of likelihood ratios of worlds in which the first person of a pair has the category of the second, from the
    answers of `measure_levels`."""
    first, ratios = pairs[0], np.zeros(pairs.shape[1])
    types = tract.frame[first] * tract.tier.shape[1] + tract.category[pairs]
    counts, places = count_levels(tract, schema), list_places(tract)
    for (level, query), variance in variances.items():
        marginal = schema.marginal(query)
        errors = measured[level, query] - marginal.answer(counts[level])
        left, entered = marginal.find(types)
        place = places[level][tract.place[first]]
        # The noise e becomes e + 1 in the cell that the person leaves, and e − 1 in the cell that the person enters.
        steps = (2 * errors[place, left] + 1) + (1 - 2 * errors[place, entered])
        ratios += np.where(left != entered, steps, 0) / (2 * float(variance))
    return ratios


def describe_queries(
    tract: Tract,
    schema: Schema,
    queries: Sequence[str],
    measured: Mapping[tuple[str, str], Counts],
    variances: Mapping[tuple[str, str], Fraction],
) -> list[Measured]:
    """The measurements of some queries in blocks and in the block groups around them."""
    return [
        Measured(
            schema.marginal(query).cells.reshape(tract.tier.shape),
            measured["Block", query],
            measured["Block_Group", query][tract.block_group],
            float(variances["Block", query]),
            float(variances["Block_Group", query]),
        )
        for query in queries
    ]


def list_places(tract: Tract) -> dict[str, NDArray[np.int64]]:
    """By level, the widest first, the place of each block."""
    blocks = np.arange(tract.blocks)
    widest = {"County": np.zeros_like(blocks)} if tract.is_county else {}
    return {**widest, "Tract": tract.tract, "Block_Group": tract.block_group, "Block": blocks}


def list_parents(tract: Tract) -> dict[str, NDArray[np.int64]]:
    """By level, the widest first, the parent of each place in the level above; 0 at the widest level."""
    above, parents = np.zeros(tract.blocks, dtype=np.int64), {}
    for level, places in list_places(tract).items():
        parents[level] = above[np.unique(places, return_index=True)[1]]
        above = places
    return parents


def count_levels(tract: Tract, schema: Schema) -> dict[str, Counts]:
    """By level, the histograms of all places, shape (places, cells)."""
    blocks, counted = tract.count().reshape(tract.blocks, -1), {}
    for level, places in list_places(tract).items():
        counted[level] = np.zeros((int(places.max()) + 1, schema.size), dtype=np.int64)
        np.add.at(counted[level], places, blocks)
    return counted


class TopDownGrid(Grid):
    """TopDown's redistricting data, for each ρ."""

    rhos: tuple[Rho, ...] = Field(
        min_length=1,
        description="ρ of persons for all levels of a census together (2.56 in 2020). The tract or county and the "
        "levels below it get the shares that they had in 2020. Units have their own ρ, in proportion as in 2020.",
    )

    populations: bool = Field(
        False,
        description="Whether to compare, with the same noise, also releases in which the number of persons of every "
        "block is invariant.",
    )

    def points(self) -> Sequence[Point]:
        kinds = (False, True) if self.populations else (False,)
        return [TopDown(rho, published, kind) for rho in self.rhos for kind in kinds for published in (True, False)]
