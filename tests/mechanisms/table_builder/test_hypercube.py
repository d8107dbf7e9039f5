"""Hypercubes: which tables are measured with which noise, the charge, and the refusals."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.composition import compose_like
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, PureLoss
from mechanisms.accounting.rounding import bound_exponential
from mechanisms.accounting.specification import Flavor, Specification
from mechanisms.sampling.noise import CappedLaplace, DiscreteGaussian, DiscreteLaplace
from mechanisms.table_builder.asking import Question
from mechanisms.table_builder.fitting import Fit
from mechanisms.table_builder.hypercube import (
    LARGEST_BUDGET,
    LARGEST_RATE,
    Hypercube,
    HypercubeError,
    Margins,
    NoiseFamily,
    Table,
)

FOUR = {"state": 5, "sex": 2, "age": 4, "race": 3}
FAMILIES = (NoiseFamily.LAPLACE, NoiseFamily.GAUSSIAN)


@st.composite
def hypercubes(draw: st.DrawFn) -> Hypercube:
    """Hypercubes of all kinds, with equal or declared shares."""
    sizes = dict(zip("abcd", draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)), strict=False))
    margins = draw(st.sampled_from(Margins))
    shares: dict[Table, Fraction] = {}
    if margins is not Margins.SUMMED and draw(st.booleans()):
        tables = [table for count in range(1, len(sizes) + 1) for table in combinations(sizes, count)]
        parts = {table: draw(st.integers(0, 5)) for table in tables} | {tables[-1]: draw(st.integers(1, 5))}
        shares = {table: Fraction(part, sum(parts.values())) for table, part in parts.items() if part}
    noise = draw(st.sampled_from(FAMILIES))
    least = draw(st.integers(-20, 5))
    most = draw(st.integers(max(least, 0), 20).filter(lambda bound: (least, bound) != (0, 0)))
    cap = draw(st.one_of(st.none(), st.just(10**5))) if noise is NoiseFamily.LAPLACE else None
    return Hypercube(sizes, draw(st.fractions(Fraction(1, 10), 10)), noise, margins, shares, cap, least, most)


@pytest.mark.parametrize("margins", [Margins.INDEPENDENT, Margins.FITTED])
def test_four_variables_with_all_margins_have_a_sensitivity_of_fifteen(margins: Margins) -> None:
    """The report on the SIPP, Appendix C: one four-way table, four three-way, six two-way and four one-way margins."""
    cube = Hypercube(FOUR, Fraction(3), margins=margins)
    assert cube.total_sensitivity == 15
    assert [sum(len(table) == count for table in cube.tables) for count in (4, 3, 2, 1)] == [1, 4, 6, 4]
    assert {cube.distribution(table) for table in cube.tables} == {DiscreteLaplace(Fraction(15, 3))}
    assert Hypercube(FOUR, Fraction(3)).total_sensitivity == 1


def test_the_inner_table_has_the_whole_budget_if_margins_are_summed() -> None:
    cube = Hypercube(FOUR, Fraction(3))
    assert cube.tables == (cube.inner,) == (("state", "sex", "age", "race"),)
    assert cube.distribution(cube.inner) == DiscreteLaplace(Fraction(1, 3))
    assert cube.cells(cube.inner) == 120
    assert cube.unbounded == PureLoss(Fraction(3))
    assert cube.bounded == PureLoss(Fraction(6))


@given(hypercubes())
def test_lines_add_up_to_the_loss_and_shares_to_the_budget(cube: Hypercube) -> None:
    assert sum(cube.budget_of(table) for table in cube.tables) == cube.budget
    total = cube.bounded
    assert compose_like(total, [line.loss for line in cube.lines]) == total
    flavor = Flavor("files", (), "person", None, total.output_premetric)
    assert Specification(flavor, total, cube.lines).charge == total
    unbounded = cube.unbounded
    if isinstance(unbounded, ConcentratedLoss):
        assert unbounded.rho == cube.budget
    elif isinstance(unbounded, ApproximateLoss):
        assert unbounded.epsilon == PureLoss(cube.budget)
    else:
        assert unbounded == PureLoss(cube.budget)


@given(hypercubes())
def test_a_change_of_one_record_never_costs_more_than_group_privacy_of_two(cube: Hypercube) -> None:
    """With a cap, δ of a change in one cell is the δ of the greatest most − least noises, which is less too."""
    group = cube.unbounded.of_group(2) if not isinstance(cube.unbounded, ApproximateLoss) else None
    if isinstance(group, PureLoss):
        assert cube.bounded == group
    elif group is not None:
        assert isinstance(cube.bounded, ConcentratedLoss)
        assert cube.bounded <= group
        if cube.least >= 0:
            assert cube.bounded == ConcentratedLoss(2 * cube.budget)
    else:
        assert isinstance(cube.bounded, ApproximateLoss)
        assert cube.bounded.epsilon == PureLoss(2 * cube.budget)
        assert cube.bounded_delta is not None
        assert cube.bounded_delta <= cube.bounded.delta


@given(hypercubes())
def test_noise_is_that_of_the_budget_of_the_table(cube: Hypercube) -> None:
    for table in cube.tables:
        noise, budget, most = cube.distribution(table), cube.budget_of(table), cube.sensitivity
        if isinstance(noise, DiscreteGaussian):
            assert budget == Fraction(most**2) / (2 * noise.variance)
        else:
            assert budget == most / noise.scale
        assert isinstance(noise, CappedLaplace) == (cube.cap is not None)


@pytest.mark.parametrize("noise", [NoiseFamily.LAPLACE, NoiseFamily.GAUSSIAN])
@pytest.mark.parametrize("margins", Margins)
def test_a_budget_for_which_noise_is_always_0_is_refused_and_a_smaller_one_can_be_answered(
    noise: NoiseFamily, margins: Margins
) -> None:
    """Beyond the limit, tables could not be fitted after the charge: a variance would be 0 as a float."""
    sizes, greatest = {"a": 2, "b": 3}, LARGEST_RATE * (1 if margins is Margins.SUMMED else 3)
    with pytest.raises(HypercubeError, match="protects nobody; a table has at most 400"):
        Hypercube(sizes, greatest + Fraction(1, 10), noise, margins)
    cube = Hypercube(sizes, Fraction(greatest), noise, margins)
    counts = np.array([[1, 2, 3], [4, 5, 0]])
    found = {table: cube.margin(counts, table) for table in cube.tables}
    inner = {cube.inner: Fit(cube, counts > 0).inner(found)} if margins is Margins.FITTED else found
    answer = Question(cube, ("b",), {"a": (0, 1)}, counts > 0).answer(inner)
    assert np.allclose(answer.values, [5, 7, 3])
    assert (answer.variance > 0).all()


def test_the_loss_of_every_hypercube_can_be_stated() -> None:
    """Wrong program: one that charges ε = 18 million, of a sum of amounts up to a million, and cannot certify it."""
    amounts = Hypercube({"a": 2}, Fraction(LARGEST_BUDGET), most=10**6)
    assert isinstance(amounts.bounded, PureLoss)
    assert bound_exponential(amounts.bounded.rational, 12) > 10**80_000
    with pytest.raises(HypercubeError, match="protects nobody; a hypercube has at most 100,000"):
        replace(amounts, budget=Fraction(LARGEST_BUDGET + 1))


def test_both_deltas_of_the_report_are_charged_twice_for_a_change() -> None:
    for epsilon, delta in (("1.5", 1.749e-5), ("0.5", 7.568e-3)):
        cube = Hypercube({"sex": 2}, Fraction(epsilon), cap=7)
        assert isinstance(cube.unbounded, ApproximateLoss)
        assert isinstance(cube.bounded, ApproximateLoss)
        assert float(cube.unbounded.delta) == pytest.approx(delta, rel=1e-4)
        assert cube.bounded.delta == 2 * cube.unbounded.delta
        assert cube.bounded_delta == 2 * cube.unbounded.delta - cube.unbounded.delta**2


def test_margins_of_numbers_and_of_possible_cells() -> None:
    cube = Hypercube({"a": 2, "b": 3, "c": 2}, Fraction(1))
    counts = np.arange(12).reshape(2, 3, 2)
    assert cube.margin(counts, ("a", "c")).tolist() == [[6, 9], [24, 27]]
    possible = np.zeros((2, 3, 2), dtype=bool)
    possible[1, 2, 0] = possible[1, 0, 0] = True
    assert cube.margin(possible, ("a", "c")).tolist() == [[False, False], [True, False]]


def test_a_table_that_has_no_share_is_not_measured() -> None:
    shares = {("a", "b"): Fraction(2, 3), ("b",): Fraction(1, 3)}
    cube = Hypercube({"a": 2, "b": 3}, Fraction(3), margins=Margins.FITTED, shares=shares)
    assert cube.tables == (("a", "b"), ("b",))
    assert [cube.distribution(table) for table in cube.tables] == [
        DiscreteLaplace(Fraction(1, 2)),
        DiscreteLaplace(1 * Fraction(1)),
    ]
    with pytest.raises(KeyError, match="by a is not measured"):
        cube.distribution(("a",))


HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sizes": {}}, "variables: a hypercube has from 1 to 8, not 0"),
        ({"sizes": dict.fromkeys("abcdefghi", 2)}, "not 9"),
        ({"sizes": {"a": 0}}, "variables: a has no category"),
        ({"budget": Fraction(0)}, "budget: must be greater than 0"),
        ({"least": 2}, "bounds"),
        ({"most": 0}, "bounds"),
        ({"shares": {("a", "b"): Fraction(1)}}, "shares: summed margins are not measured"),
        ({"margins": Margins.FITTED, "shares": {("a", "b"): HALF}}, "shares: they add up to 1/2"),
        ({"margins": Margins.FITTED, "shares": {("a", "b"): HALF, ("b", "a"): HALF}}, "has no table by b, a"),
        ({"margins": Margins.FITTED, "shares": {("a", "b"): HALF, (): HALF}}, "has no table by no variable"),
        ({"margins": Margins.FITTED, "shares": {("a",): HALF, ("b",): HALF}}, "by all variables is always measured"),
        ({"margins": Margins.FITTED, "shares": {("a", "b"): Fraction(2), ("a",): Fraction(-1)}}, "greater than 0"),
        ({"margins": Margins.FITTED, "shares": {("a", "b"): Fraction(1), ("a",): Fraction(0)}}, "greater than 0"),
        ({"cap": 7, "noise": NoiseFamily.GAUSSIAN}, "cap: only discrete Laplace noise"),
        ({"cap": 0}, "cap: 0 is too small, or out of range"),
        ({"cap": 10**8}, "cap: 100000000 is too small, or out of range"),
        ({"cap": 5, "most": 11}, "cap: 5 is too small"),
        ({"cap": 2, "budget": Fraction(1, 100), "margins": Margins.INDEPENDENT}, "cap: 2 is too small"),
    ],
)
def test_what_cannot_be_measured_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(HypercubeError, match=message):
        Hypercube(**({"sizes": {"a": 2, "b": 2}, "budget": Fraction(1)} | fields))  # type: ignore[arg-type]
