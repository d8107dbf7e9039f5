"""Trees of all margins of a hypercube: their loss is the charge, and their fit equals a dense solver's."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.table_builder.asking import Question
from mechanisms.table_builder.fitted_trees import FittedTrees
from mechanisms.table_builder.hypercube import Hypercube, Margins, Table
from mechanisms.table_builder.quantiles import FittedTree, Tree

SIZES = {"a": 2, "b": 3}
SHARES = {("a", "b"): Fraction(1, 2), ("a",): Fraction(1, 3), ("b",): Fraction(1, 6)}
BUDGETS = (Fraction(1), Fraction(1, 2), Fraction(2))
Shares = Mapping[Table, Fraction]


def design(shares: Shares) -> Hypercube:
    return Hypercube(SIZES, Fraction(1), margins=Margins.FITTED, shares=shares)


def tree(gaussian: bool) -> Tree:
    return Tree(5, 3, BUDGETS, gaussian, weight=2)


def count(cube: Hypercube, leaves: np.ndarray, of: Tree) -> list[dict[Table, np.ndarray]]:
    """By level and table, the counts of inner leaves, shape (*inner, numbers)."""
    by_table = {table: of.add_up(cube.margin(leaves, table)) for table in cube.tables}
    return [{table: by_table[table][level] for table in cube.tables} for level in range(len(of.sizes))]


Weighted = tuple[int, int, int, int]
"""A record: its categories of both variables, its number and its weight in steps."""


@pytest.mark.parametrize("gaussian", [False, True])
def test_the_charge_is_the_greatest_loss_of_a_changed_record_over_all_tables_and_levels(gaussian: bool) -> None:
    """Every change of one record. Wrong programs: one table charged for all, and a change as a record added."""
    cube, whole, power = design(SHARES), tree(gaussian), 2 if gaussian else 1
    kind = ConcentratedLoss if gaussian else PureLoss

    def loss(one: Sequence[Weighted], other: Sequence[Weighted]) -> Fraction:
        moved = np.zeros((2, 3, 5), dtype=np.int64)
        for sign, records in ((1, one), (-1, other)):
            for a, b, number, weight in records:
                moved[a, b, number] += sign * weight
        return sum(
            (
                SHARES[table] * budget * Fraction(int((np.abs(change) ** power).sum()), 2**power)
                for budget, level in zip(BUDGETS, count(cube, moved, whole), strict=True)
                for table, change in level.items()
            ),
            Fraction(0),
        )

    universe = list(product(range(2), range(3), range(5), (1, 2)))
    assert kind(max(loss([], [new]) for new in universe)) == whole.unbounded
    worst = max(loss([old], [new]) for old in universe[:3] for new in universe)
    assert kind(worst) == whole.bounded
    parts = [whole.scaled(share) for share in SHARES.values()]
    assert kind(sum((sum(part.budgets) for part in parts), Fraction(0))) == whole.unbounded
    for wrong in (whole.unbounded, parts[0].bounded):
        assert not kind(worst) <= wrong  # type: ignore[operator]


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("shares", [SHARES, {("a", "b"): Fraction(2, 3), ("b",): Fraction(1, 3)}, {}])
@pytest.mark.parametrize(("by", "where"), [((), {}), (("a",), {}), (("b",), {"a": (1,)}), (("b", "a"), {"b": (0, 2)})])
def test_the_fit_and_its_variances_are_those_of_a_dense_solver(
    shares: Shares, gaussian: bool, by: Table, where: Mapping[str, Sequence[int]]
) -> None:
    cube, whole, random = design(shares), tree(gaussian), np.random.default_rng(6)
    noise = {
        (level, table): float(whole.scaled(share).noises[level].exact_variance)
        for table, share in ((table, cube.budget_of(table)) for table in cube.tables)
        for level in range(3)
    }
    measured = [
        {table: random.integers(-5, 40, (*cube.shape(table), size)) for table in cube.tables} for size in whole.sizes
    ]
    each = np.eye(30, dtype=np.int64).reshape(30, 2, 3, 5)
    rows: dict[tuple[int, Table], list[np.ndarray]] = {place: [] for place in noise}
    for leaves in each:
        for level, tables in enumerate(count(cube, leaves, whole)):
            for table, counts in tables.items():
                rows[level, table].append(counts.ravel())
    matrix = np.concatenate([np.array(columns).T / np.sqrt(noise[place]) for place, columns in rows.items()])
    right = np.concatenate([measured[level][table].ravel() / np.sqrt(noise[level, table]) for level, table in rows])
    covariance = np.linalg.inv(matrix.T @ matrix)
    dense = (covariance @ matrix.T @ right).reshape(2, 3, 5)
    question = Question(cube, by, where)
    answers = list(FittedTrees(cube, whole, measured).answer(question))
    wanted = question.add_up(cube.inner, dense).reshape(-1, 5)
    of_cells = question.add_up(cube.inner, np.moveaxis(each, 0, -1).reshape(2, 3, -1)).reshape(-1, 5, 30)
    assert len(answers) == len(wanted)
    for answer, leaves, queries in zip(answers, wanted, of_cells, strict=True):
        assert answer.leaves == pytest.approx(leaves, abs=1e-7)
        assert answer.total == pytest.approx(leaves.sum(), abs=1e-7)
        for quantile in (Fraction(0), Fraction(3, 10)):
            sums = (np.tril(np.ones((5, 5))) - float(quantile)) @ queries
            deviations = np.sqrt(np.einsum("ij,jk,ik->i", sums, covariance, sums))
            assert answer.deviation(quantile) == pytest.approx(deviations, abs=1e-7)


def test_margins_have_less_noise_than_sums_of_cells_and_cells_more() -> None:
    """With the same budget, of 3 × 30 cells: the purpose of `fitted`."""
    cube = Hypercube({"a": 3, "b": 30}, Fraction(1), margins=Margins.FITTED)
    whole = Tree.shared(64, 8, Fraction(1))
    zeros = [{table: np.zeros((*cube.shape(table), size)) for table in cube.tables} for size in whole.sizes]
    fitted, half = FittedTrees(cube, whole, zeros), Fraction(1, 2)
    (margin, *_), (cell, *_) = fitted.answer(Question(cube, ("a",))), fitted.answer(Question(cube, ("a", "b")))

    def summed(cells: int) -> float:
        return float(FittedTree(whole, tuple(np.zeros(size) for size in whole.sizes), cells).deviation(half).max())

    assert margin.deviation(half).max() < 0.7 * summed(30)
    assert cell.deviation(half).max() > summed(1)
