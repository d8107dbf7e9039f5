"""The stated losses hold and are tight, by enumeration of all neighbors and all results on small universes.

A universe has the records of a small hypercube: every cell with every number of steps that the bounds allow. Neighbors
are enumerated from the records, and the tables are counted here, not by the code under test. Of two neighbors, only the
differences of their counts matter, as the noise is independent of them. Results are not listed one by one: the noises
of the cells are independent, so the exact privacy loss is distributed as a sum, whose terms are listed.

Probabilities are decimals with 60 digits; privacy losses are exact multiples of the scale's inverse.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import NamedTuple

import pytest

from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, PureLoss
from mechanisms.sampling.noise import CappedLaplace, DiscreteGaussian, DiscreteLaplace, Distribution
from mechanisms.table_builder.hypercube import Hypercube, Margins, NoiseFamily, Table
from tests.depth import deep_but, deep_cases

TINY = Decimal("1e-40")
INFINITE = None
"""The privacy loss of results that are possible under only one neighbor."""

Losses = Mapping[Fraction | None, Decimal]
"""The probability of every privacy loss."""
NoiseOf = Callable[[Table], Distribution]


class Record(NamedTuple):
    """A record: its category of each variable, and its contribution."""

    cell: tuple[int, ...]
    steps: int


Difference = frozenset[tuple[Table, tuple[int, ...], int]]
"""The cells of all measured tables in which two data sets differ, with the difference."""


def records(cube: Hypercube) -> list[Record]:
    cells = product(*(range(size) for size in cube.sizes.values()))
    return [Record(cell, steps) for cell in cells for steps in range(cube.least, cube.most + 1)]


def difference(cube: Hypercube, tables: tuple[Table, ...], gone: list[Record], come: list[Record]) -> Difference:
    counts: Counter[tuple[Table, tuple[int, ...]]] = Counter()
    for sign, some in ((-1, gone), (1, come)):
        for record, table in product(some, tables):
            place = tuple(code for name, code in zip(cube.sizes, record.cell, strict=True) if name in table)
            counts[table, place] += sign * record.steps
    return frozenset((*where, by) for where, by in counts.items() if by)


def added(cube: Hypercube, tables: tuple[Table, ...] | None = None) -> set[Difference]:
    """Differences of all neighbors of which one has one record more. Removing it only changes the sign."""
    return {difference(cube, tables or cube.tables, [], [record]) for record in records(cube)}


def changed(cube: Hypercube, tables: tuple[Table, ...] | None = None) -> set[Difference]:
    """Differences of all neighbors of which one record differs in any way."""
    every = records(cube)
    return {difference(cube, tables or cube.tables, [one], [other]) for one in every for other in every}


@cache
def chances(noise: DiscreteLaplace | CappedLaplace) -> dict[int, Decimal]:
    """The probability of every value, or of all with more than 10^−60 of the greatest probability."""
    rate = Decimal(noise.scale.denominator) / noise.scale.numerator
    reach = noise.cap if isinstance(noise, CappedLaplace) else int(Decimal(140) / rate) + 1
    weights = {value: (-rate * abs(value)).exp() for value in range(-reach, reach + 1)}
    total = sum(weights.values())
    return {value: weight / total for value, weight in weights.items()}


@cache
def losses_of_cell(noise: DiscreteLaplace | CappedLaplace, by: int) -> Losses:
    """The distribution of ln P(x) / P(x − by) under P, for one cell."""
    with localcontext(Context(prec=60)):
        found: dict[Fraction | None, Decimal] = defaultdict(Decimal)
        for value, chance in chances(noise).items():
            possible = value - by in chances(noise) or not isinstance(noise, CappedLaplace)
            loss = (abs(value - by) - abs(value)) / noise.scale if possible else INFINITE
            found[loss] += chance
    return found


def losses(noise_of: NoiseOf, differences: Difference) -> Losses:
    """The distribution of the privacy loss of all cells together."""
    together: Losses = {Fraction(0): Decimal(1)}
    for table, _, by in differences:
        noise = noise_of(table)
        assert not isinstance(noise, DiscreteGaussian)
        further: dict[Fraction | None, Decimal] = defaultdict(Decimal)
        with localcontext(Context(prec=60)):
            for (one, first), (other, second) in product(together.items(), losses_of_cell(noise, by).items()):
                further[INFINITE if one is None or other is None else one + other] += first * second
        together = further
    return together


def hockey_stick(found: Losses, epsilon: Fraction) -> Decimal:
    """δ(ε) = Σ max(0, P − e^ε Q)."""
    with localcontext(Context(prec=60)):
        exponent = Decimal(epsilon.numerator) / epsilon.denominator
        delta = found.get(INFINITE, Decimal(0))
        for loss, chance in found.items():
            if loss is not None and loss > epsilon:
                delta += chance * (1 - (exponent - Decimal(loss.numerator) / loss.denominator).exp())
    return delta


def worst_epsilon(noise_of: NoiseOf, neighbors: set[Difference]) -> Fraction | None:
    """The least ε that holds for all neighbors in both directions; None for none."""
    greatest = Fraction(0)
    for each in neighbors | {mirrored(each) for each in neighbors}:
        found = losses(noise_of, each)
        if INFINITE in found:
            return None
        greatest = max(greatest, max(loss for loss in found if loss is not None))
    return greatest


def worst_delta(noise_of: NoiseOf, neighbors: set[Difference], epsilon: Fraction) -> Decimal:
    return max(hockey_stick(losses(noise_of, each), epsilon) for each in neighbors | set(map(mirrored, neighbors)))


def mirrored(differences: Difference) -> Difference:
    return frozenset((table, place, -by) for table, place, by in differences)


@cache
def renyi(variance: Fraction, by: int, order: int) -> Decimal:
    """D_α of the discrete Gaussian and itself, moved by a whole number."""
    with localcontext(Context(prec=60)):
        twice = 2 * Decimal(variance.numerator) / variance.denominator
        reach = int((twice * 140).sqrt()) + abs(by) * order + 2
        weights = {value: (-(value**2) / twice).exp() for value in range(-reach - abs(by) - 1, reach + abs(by) + 2)}
        total = sum(weights.values())
        mean = sum((weights[value] ** order / weights[value - by] ** (order - 1)) for value in range(-reach, reach + 1))
        return (mean / total).ln() / (order - 1)


def worst_rho(noise_of: NoiseOf, neighbors: set[Difference], order: int = 2) -> Decimal:
    """The greatest D_α / α of all neighbors, added up over cells."""

    def of_cell(table: Table, by: int) -> Decimal:
        noise = noise_of(table)
        assert isinstance(noise, DiscreteGaussian)
        return renyi(noise.variance, by, order)

    return max(sum((of_cell(table, by) for table, _, by in each), Decimal(0)) / order for each in neighbors)


def small(budget: str = "3/2", **fields: object) -> Hypercube:
    return Hypercube({"a": 2, "b": 2}, Fraction(budget), **fields)  # type: ignore[arg-type]


KINDS = {
    "counts": {"least": 1, "most": 1},
    "weights": {"least": 0, "most": 3},
    "magnitudes of either sign": {"least": -3, "most": 2},
    "magnitudes above 0": {"least": 2, "most": 3},
}
SHARES = {("a", "b"): Fraction(1, 2), ("a",): Fraction(1, 3), ("b",): Fraction(1, 6)}
WAYS = {
    "summed": {},
    "independent": {"margins": Margins.INDEPENDENT},
    "with shares": {"margins": Margins.FITTED, "shares": SHARES},
}


QUICK = {"counts, summed", "counts, with shares", "magnitudes of either sign, summed"}


@pytest.fixture(params=deep_but(QUICK, map(", ".join, product(KINDS, WAYS))))
def fields(request: pytest.FixtureRequest) -> dict[str, object]:
    kind, way = request.param.split(", ")
    return {**KINDS[kind], **WAYS[way]}


@deep_cases(4)
def test_epsilon_holds_for_all_neighbors_and_no_smaller_one_does(fields: dict[str, object]) -> None:
    cube = small(**fields)
    assert cube.unbounded == PureLoss(worst_epsilon(cube.distribution, added(cube)) or Fraction(-1))
    assert cube.bounded == PureLoss(worst_epsilon(cube.distribution, changed(cube)) or Fraction(-1))


@deep_cases(4)
def test_rho_holds_for_all_neighbors_and_no_smaller_one_does(fields: dict[str, object]) -> None:
    cube = small("2/3", noise=NoiseFamily.GAUSSIAN, **fields)
    for loss, neighbors in ((cube.unbounded, added(cube)), (cube.bounded, changed(cube))):
        assert isinstance(loss, ConcentratedLoss)
        for order in (2, 3):
            assert float(worst_rho(cube.distribution, neighbors, order)) == pytest.approx(float(loss.rho), rel=1e-12)


@deep_cases(4)
def test_delta_holds_for_all_neighbors_and_no_smaller_one_does(fields: dict[str, object]) -> None:
    """Of one table, the unbounded δ is exact. `bounded_delta` is exact for all tables together, except for magnitudes
    of either sign: their worst change is not the same in all tables."""
    cube = small(cap=11, **fields)
    assert isinstance(cube.unbounded, ApproximateLoss)
    assert isinstance(cube.bounded, ApproximateLoss)
    assert cube.bounded_delta is not None
    near, far = added(cube), changed(cube)
    exact = worst_delta(cube.distribution, near, cube.budget)
    assert exact <= Decimal(float(cube.unbounded.delta)) + TINY
    if len(cube.tables) == 1:
        assert float(exact) == pytest.approx(float(cube.unbounded.delta), rel=3e-5)
    exact = worst_delta(cube.distribution, far, 2 * cube.budget)
    if len(cube.tables) == 1 or cube.least >= 0:
        assert float(exact) == pytest.approx(float(cube.bounded_delta), rel=3e-5)
    assert float(exact) <= float(cube.bounded_delta) <= float(cube.bounded.delta)


def test_the_charge_for_adding_a_record_is_too_small_for_a_change() -> None:
    """The factor of 2 forgotten."""
    cube = small()
    assert worst_epsilon(cube.distribution, changed(cube)) == 2 * cube.budget > cube.budget
    cube = small(noise=NoiseFamily.GAUSSIAN)
    assert worst_rho(cube.distribution, changed(cube)) > Decimal(float(cube.budget)) * Decimal("1.99")


def test_a_cap_that_is_ignored_leaves_no_epsilon() -> None:
    cube = small(cap=7)
    assert worst_epsilon(cube.distribution, added(cube)) is None
    assert worst_delta(cube.distribution, added(cube), 100 * cube.budget) > 0


def test_margins_that_are_charged_once_lose_as_often_as_they_are_measured() -> None:
    """Every table with the noise of the whole budget."""
    cube = small(margins=Margins.INDEPENDENT)
    assert worst_epsilon(lambda _: DiscreteLaplace(1 / cube.budget), added(cube)) == 3 * cube.budget


def test_weights_without_a_cap_have_no_finite_loss() -> None:
    """The noise of weights up to 3 steps, and a record of ever more steps: the loss grows with it."""
    up_to = {most: Hypercube({"a": 2}, Fraction(3, 2), most=most) for most in (3, 6, 30)}
    found = [worst_epsilon(up_to[3].distribution, added(cube)) for cube in up_to.values()]
    assert found == [Fraction(3, 2), Fraction(3), Fraction(15)]


def test_magnitudes_of_either_sign_cost_more_than_two_rho() -> None:
    cube = small(noise=NoiseFamily.GAUSSIAN, least=-3, most=3)
    worst = worst_rho(cube.distribution, changed(cube))
    assert worst > Decimal(float(2 * cube.budget)) * Decimal("1.99")
    assert cube.bounded == ConcentratedLoss(4 * cube.budget)


def test_group_privacy_of_two_charges_more_delta_than_the_bounded_loss() -> None:
    cube = small(cap=7)
    assert isinstance(cube.unbounded, ApproximateLoss)
    assert isinstance(cube.bounded, ApproximateLoss)
    group = cube.unbounded.of_group(2)
    assert group.epsilon == cube.bounded.epsilon
    assert group.delta > 2 * cube.bounded.delta


def results(weights: list[Fraction], noise: int) -> set[Fraction]:
    """All results ŵ + p·w̄ of a cell, with w̄ the average of its weights, for perturbations p up to a size."""
    average = sum(weights) / len(weights)
    return {sum(weights) + place * average for place in range(-noise, noise + 1)}


def test_noise_in_units_of_the_average_weight_leads_to_other_results_under_neighbors() -> None:
    """So some results distinguish neighbors with certainty, for noise of any width. On a grid, none does."""
    others = [Fraction(1), Fraction(3, 2)]
    for more, hidden in ((Fraction(1), False), (Fraction(2), False), (Fraction(5, 4), True)):
        without, with_one = results(others, 50), results([*others, more], 50)
        inside = {value for value in with_one if abs(value) < 20}
        assert (not inside - without) == hidden, "only a weight that equals the others' average is hidden"
    on_grid = {Fraction(5, 2) + Fraction(1, 4) * place for place in range(-500, 501)}
    for more in (Fraction(1), Fraction(2), Fraction(5, 4)):
        assert not {value + more for value in on_grid if abs(value) < 20} - on_grid


CUBES = (
    Hypercube({"a": 2, "b": 2, "c": 2}, Fraction(7), margins=Margins.INDEPENDENT),
    Hypercube({"a": 3, "b": 2, "c": 1}, Fraction(7, 2), margins=Margins.FITTED),
)


@pytest.mark.deep
@pytest.mark.parametrize("cube", CUBES, ids=lambda cube: prod(cube.sizes.values()))
def test_epsilon_of_three_variables_is_that_of_seven_tables(cube: Hypercube) -> None:
    """A variable of one category makes a table of one cell, which no change of a record changes."""
    single = sum(cube.cells(table) == 1 for table in cube.tables)
    counts = Hypercube(cube.sizes, cube.budget, margins=cube.margins, least=1)
    assert worst_epsilon(cube.distribution, added(counts)) == cube.budget
    worst = worst_epsilon(cube.distribution, changed(counts))
    assert worst == 2 * cube.budget * Fraction(7 - single, 7)
    assert cube.bounded == PureLoss(2 * cube.budget)
