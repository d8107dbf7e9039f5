"""Quantiles from a tree: exact loss, a fit equal to a dense solver's, and intervals with their stated coverage."""

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder.quantiles import FittedTree, Tree, make_monotone
from tests.depth import examples


def even(numbers: int, branching: int, budget: Fraction, gaussian: bool = False) -> Tree:
    return Tree.shared(numbers, branching, budget, gaussian=gaussian)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    numbers, branching = draw(st.integers(2, 40)), draw(st.integers(2, 5))
    levels = len(even(numbers, branching, Fraction(1)).sizes)
    budgets = draw(st.lists(st.fractions(Fraction(1, 8), 2, max_denominator=8), min_size=levels, max_size=levels))
    return Tree(numbers, branching, tuple(budgets), draw(st.booleans()), draw(st.integers(1, 9)))


def changes(tree: Tree, one: Sequence[int], other: Sequence[int]) -> list[np.ndarray]:
    pair = zip(*(tree.count(np.array(values, dtype=np.int64)) for values in (one, other)), strict=True)
    return [before - after for before, after in pair]


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("numbers", [4, 5])
def test_no_change_of_a_record_costs_more_than_the_tree_and_one_costs_as_much(numbers: int, gaussian: bool) -> None:
    """Every data set of up to two records, and every neighbor. For independent noise of budget b on counts that change
    by d, the loss is exactly Σ b|d| (discrete Laplace) or Σ b d² (discrete Gaussian, at every order of the divergence).
    A program that charged one level, or a change as a record added, would charge less than some neighbors cost."""
    levels = len(even(numbers, 2, Fraction(1)).sizes)
    tree = Tree(numbers, 2, tuple(Fraction(1, 4) * 2**level for level in range(levels)), gaussian)
    power = 2 if gaussian else 1

    def cost(one: Sequence[int], other: Sequence[int]) -> Fraction:
        moved = changes(tree, one, other)
        return sum((b * int((np.abs(d) ** power).sum()) for b, d in zip(tree.budgets, moved, strict=True)), Fraction(0))

    kind = ConcentratedLoss if gaussian else PureLoss
    added = {cost(rest, (*rest, new)) for rest in [(), *product(range(numbers))] for new in range(numbers)}
    assert {kind(loss) for loss in added} == {tree.unbounded}
    changed = [
        cost((*rest, old), (*rest, new)) for rest in [(), (0,)] for old, new in product(range(numbers), repeat=2)
    ]
    # Within one cell, the root does not change; from one cell to another, it does in both.
    root = 2 * tree.budgets[0]
    assert kind(max(changed) + root) == tree.bounded
    assert kind(max(changed)) != tree.unbounded


Weighted = tuple[int, int, int]
"""A record: its cell, its number and its weight."""


def loss_between(tree: Tree, one: Sequence[Weighted], other: Sequence[Weighted], scale: int | None = None) -> Fraction:
    """The exact loss of the tree's noise between two data sets of two cells. Discrete Laplace noise of scale t loses
    |d|/t for a count that differs by d, and discrete Gaussian noise d²/2σ². `scale` is W, as a wrong program has it."""
    total = Fraction(0)
    leaves = np.zeros((2, 2, tree.numbers), dtype=np.int64)
    for place, records in enumerate((one, other)):
        for cell, number, weight in records:
            leaves[place, cell, number] += min(weight, tree.weight)
    weight, power = scale or tree.weight, 2 if tree.gaussian else 1
    for budget, level in zip(tree.budgets, tree.add_up(leaves), strict=True):
        moved = np.abs(level[0] - level[1]).astype(object) ** power
        total += budget * Fraction(int(moved.sum()), weight**power)
    return total


@settings(max_examples=examples(40), deadline=None)
@given(trees(), st.data())
def test_the_charge_of_weighted_trees_is_the_greatest_loss_of_their_neighbors(tree: Tree, data: st.DataObject) -> None:
    """Neighbors in a universe of two cells, all numbers, and weights, some above the bound. No neighbors lose more than
    the charge, and some lose as much. Fails for: a charge for a record added where one changes, one level charged
    for all, and noise for the greatest weight in the data."""
    records = st.tuples(st.integers(0, 1), st.integers(0, tree.numbers - 1), st.integers(0, tree.weight + 3))
    rest, old, new = data.draw(st.tuples(st.lists(records, max_size=3), records, records))
    kind = ConcentratedLoss if tree.gaussian else PureLoss
    assert kind(loss_between(tree, [*rest, old], [*rest, new])) <= tree.bounded
    assert kind(loss_between(tree, rest, [*rest, new])) <= tree.unbounded
    worst = [*rest, (0, 0, tree.weight)], [*rest, (1, tree.numbers - 1, tree.weight)]
    assert kind(loss_between(tree, *worst)) == tree.bounded
    assert reduce(add, [line.loss for line in tree.lines]) == tree.bounded  # type: ignore[arg-type]
    for wrong in (tree.unbounded, *(line.loss for line in tree.lines)):
        assert not tree.bounded <= wrong  # type: ignore[operator]
    if tree.weight > 1:
        assert not kind(loss_between(tree, *worst, scale=tree.weight - 1)) <= tree.bounded


@settings(max_examples=examples(40), deadline=None)
@given(trees(), st.integers(0, 2**32))
def test_the_fit_and_its_variances_are_those_of_a_dense_solver(tree: Tree, seed: int) -> None:
    rows = [np.eye(tree.numbers)]
    for _ in tree.sizes[1:]:
        rows.append(np.add.reduceat(rows[-1], np.arange(0, len(rows[-1]), tree.branching), axis=0))
    rows.reverse()
    weights = np.concatenate(
        [np.full(size, 1 / float(noise.exact_variance)) for size, noise in zip(tree.sizes, tree.noises, strict=True)]
    )
    design = np.concatenate(rows)
    random = np.random.default_rng(seed)
    measured = [random.normal(5, 10, size) for size in tree.sizes]
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    leaves = covariance @ design.T @ (weights * np.concatenate(measured))
    fit = FittedTree(tree, tuple(measured))
    assert fit.leaves == pytest.approx(leaves, abs=1e-7)
    assert fit.total == pytest.approx(leaves.sum(), abs=1e-7)
    for quantile in (Fraction(0), Fraction(1, 2), Fraction(9, 10)):
        queries = np.tril(np.ones((tree.numbers, tree.numbers))) - float(quantile)
        deviations = np.sqrt(np.einsum("ij,jk,ik->i", queries, covariance, queries))
        assert fit.deviation(quantile) == pytest.approx(deviations, abs=1e-6)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=12))
def test_the_isotonic_regression_is_the_greatest_least_mean(values: list[float]) -> None:
    """The min-max formula: the value at i is the greatest over a <= i of the least over b >= i of the mean of a … b."""
    size = len(values)
    want = [max(min(np.mean(values[a : b + 1]) for b in range(i, size)) for a in range(i + 1)) for i in range(size)]
    assert make_monotone(np.array(values)) == pytest.approx(want, abs=1e-9)


def test_without_noise_quantiles_are_those_of_the_records() -> None:
    values = np.random.default_rng(3).integers(0, 100, 501)
    tree = even(100, 4, Fraction(1))
    fit = FittedTree(tree, tuple(level.astype(float) for level in tree.count(values)))
    for quantile in (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)):
        assert fit.quantile(quantile) == int(np.quantile(values, float(quantile), method="inverted_cdf"))
    assert FittedTree(tree, tuple(np.zeros(size) for size in tree.sizes)).interval(Fraction(1, 2), 1.6449)[0] == 0


@pytest.mark.parametrize("gaussian", [False, True])
def test_intervals_of_medians_cover_them(gaussian: bool) -> None:
    """300 draws on skewed values: the 90% interval covers the true median in at least 90% less 4 standard deviations.
    It covers more often where a number has many records. An interval of the numbers whose own F is near half of N
    covers it in 73% of draws with the Gaussian, whose noise is small beside the number of records at the median."""
    random = np.random.default_rng(8)
    values = np.minimum(random.lognormal(5.5, 0.6, 2000).astype(np.int64), 1023)
    tree = even(1024, 8, Fraction(1, 4), gaussian)
    truth, covered, near, errors = int(np.quantile(values, 0.5, method="inverted_cdf")), 0, 0, []
    stream, exact, half = RandomStream(b"k" * 32, "median"), tree.count(values), Fraction(1, 2)
    for _ in range(300):
        pairs = zip(exact, tree.noises, strict=True)
        fit = FittedTree(tree, tuple(level + noise.sample(len(level), stream) for level, noise in pairs))
        low, high = fit.interval(half, 1.6449)
        covered += low <= truth <= high
        near += abs(np.cumsum(fit.leaves)[truth] - fit.total / 2) <= 1.6449 * fit.deviation(half)[truth]
        errors.append(abs(fit.quantile(half) - truth))
    assert covered >= 270 - 4 * 5.2
    assert not gaussian or near < 270 - 4 * 5.2
    assert np.mean(errors) < 12


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((1, 2, (Fraction(1),)), "grid: a variable has from 2 to 1,048,576 numbers, not 1"),
        ((4, 1, (Fraction(1),)), "branching: a node has 2 children or more"),
        ((4, 2, (Fraction(1),) * 2), "budgets: there is one greater than 0 for each of 3 levels"),
        ((4, 2, (Fraction(1), Fraction(0), Fraction(1))), "budgets: there is one greater than 0"),
    ],
)
def test_a_tree_that_is_none_is_refused(arguments: tuple[int, int, tuple[Fraction, ...]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Tree(*arguments)
