"""Every design that can be declared can be estimated: no draw is charged whose real-valued step then does not end."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.design import DesignError
from mechanisms.topdown.allocation import allocate
from mechanisms.topdown.design import LARGEST_CURVATURE, TopDownDesign
from mechanisms.topdown.estimation import Families, Measurement, estimate
from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.information import inform
from mechanisms.topdown.least_squares import LARGEST_GAP
from mechanisms.topdown.schema import PERSONS, UNITS
from tests.depth import deep_cases, quick_cases

LEVELS = ("Nation", "Block")
UNITS_ALLOCATION = allocate(
    UNITS, Fraction(1), dict.fromkeys(LEVELS, Fraction(1, 2)), {key: {"detailed": Fraction(1)} for key in LEVELS}
)


def design(query: str, ratio: int, types_first: str | None = None) -> TopDownDesign:
    """A query with so many times the share of `detailed`."""
    shares = {query: Fraction(ratio, ratio + 1), "detailed": Fraction(1, ratio + 1)}
    persons = allocate(PERSONS, Fraction(5), dict.fromkeys(LEVELS, Fraction(1, 2)), dict.fromkeys(LEVELS, shares))
    return TopDownDesign(LEVELS, {"persons": persons, "units": UNITS_ALLOCATION}, {}, (), types_first)


def most_permitted(query: str, types_first: str | None = None) -> int:
    """The greatest ratio that is not refused."""
    for ratio in (50_000, 24_000, 20_000, 5_000, 1_000, 500, 390, 195, 98, 79, 49, 39, 24):
        try:
            design(query, ratio, types_first)
        except DesignError:
            continue
        return ratio
    raise AssertionError("every ratio is refused")


def measured(
    truth: NDArray[np.int64], permitted: TopDownDesign, random: np.random.Generator, level: str = "Nation"
) -> list[Measurement]:
    return [
        Measurement(
            each.query,
            each.variance,
            each.marginal.answer(truth)
            + np.rint(random.normal(0, float(each.variance) ** 0.5, (len(truth), each.marginal.size))).astype(np.int64),
        )
        for each in permitted.measured_at("persons", level)
    ]


def unbounded(places: int, total: int) -> Limits:
    bounds = np.zeros((places, 8), dtype=np.int64)
    return Limits(bounds, np.full_like(bounds, 10**9), np.full(places, total))


QUERIES = ("total", "hispanic", "hhinstlevels", "hhgq", "votingage * hispanic", "cenrace", "hispanic * cenrace")


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("query", QUERIES)
def test_the_most_uneven_shares_that_are_permitted_can_be_estimated(query: str) -> None:
    """At the root with all 2,016 cells, the hardest case: everything is on its support."""
    permitted, random = design(query, most_permitted(query)), np.random.default_rng(11)
    truth = (random.poisson(0.6, (1, PERSONS.size)) * random.poisson(60, (1, PERSONS.size))) * PERSONS.possible
    for total in (FREE, int(truth.sum())):
        found = estimate(PERSONS, measured(truth, permitted, random), unbounded(1, total), None, total_first=False)
        (solution,) = found.solutions
        assert solution.gap <= LARGEST_GAP * max(solution.objective, 1)
        assert total in (FREE, found.histograms.sum())


@deep_cases(3)
@quick_cases(2)
@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_the_most_uneven_shares_that_are_permitted_can_be_estimated_with_full_information(
    query: str, hold: bool
) -> None:
    """A root with two children."""
    permitted, random = design(query, most_permitted(query, "Nation"), "Nation"), np.random.default_rng(11)
    truth = (random.poisson(0.6, (2, PERSONS.size)) * random.poisson(30, (2, PERSONS.size))) * PERSONS.possible
    root, blocks = truth.sum(axis=0, keepdims=True), tuple(measured(truth, permitted, random, "Block"))
    below = Families(PERSONS, ("",), np.array([0, 2]), blocks, unbounded(2, FREE), False, None)
    information = inform(below, None, measured(root, permitted, random))
    for total in (FREE, int(truth.sum())):
        found = estimate(PERSONS, (), unbounded(1, total), None, information=information, hold=hold)
        assert not found.without_parts
        assert total in (FREE, found.histograms.sum())
        for solution in found.solutions:
            assert solution.gap <= LARGEST_GAP * max(solution.objective, 1)


@pytest.mark.parametrize("query", QUERIES)
def test_shares_more_uneven_are_refused_before_anything_is_charged(query: str) -> None:
    size = PERSONS.marginal(query).size
    with pytest.raises(DesignError, match="detailed has so small a share"):
        design(query, 2 * LARGEST_CURVATURE * size // PERSONS.size)
    # With full estimation, the level below adds as much again.
    ratio = 7 * LARGEST_CURVATURE // (10 * int(np.bincount(PERSONS.marginal(query).cells).max()))
    design(query, ratio)
    with pytest.raises(DesignError, match="or estimate each level from its own measurements"):
        design(query, ratio, "Nation")


@pytest.mark.parametrize("persons", [10**3, 10**6, 10**8])
@pytest.mark.parametrize("seed", range(5))
def test_a_root_whose_total_is_free_is_estimated_from_its_total_first(persons: int, seed: int) -> None:
    """Bounds of a billion, as for unbounded counts."""
    random, permitted = np.random.default_rng(seed), design("total", 40)
    truth = random.multinomial(persons, PERSONS.possible / PERSONS.possible.sum())[None]
    measurements = measured(truth, permitted, random)
    found = estimate(PERSONS, measurements, unbounded(1, FREE), None, total_first=True)
    assert abs(found.histograms.sum() - max(0, int(measurements[0].answers[0, 0]))) <= 1
