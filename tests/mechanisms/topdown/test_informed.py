"""The objective with full information, its passes, and the histograms that they give, against dense linear algebra and
a general convex solver; wrong variants fail."""

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256

import clarabel
import numpy as np
import pytest
import scipy.sparse as sparse

from benchmarks.topdown_trees import TOWN, Dense, Floats, answer_at_random, draw_five, draw_town
from mechanisms.topdown import estimation, least_squares
from mechanisms.topdown.decomposition import Decomposition, Information
from mechanisms.topdown.estimation import Estimate, estimate, estimate_families
from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.rounding import NotRoundedError
from mechanisms.topdown.schema import UNITS
from tests.depth import deep_cases, quick_cases

SPLIT = Decomposition(TOWN)


def make_dense(matrices: Floats) -> Floats:
    """Σ_S M_S ⊗ P_S of one place, over the cells of the town's histogram."""
    total = np.zeros((TOWN.size, TOWN.size))
    order = SPLIT.kept.cells * SPLIT.summed.size + SPLIT.summed.cells
    for own, matrix in enumerate(matrices):
        projector = np.ones((1, 1))
        for bit, size in enumerate(SPLIT.codes):
            mean = np.full((size, size), 1 / size)
            projector = np.kron(projector, np.eye(size) - mean if own >> bit & 1 else mean)
        total += np.kron(matrix, projector)[np.ix_(order, order)]
    return total


def flatten(estimate: Floats) -> Floats:
    return estimate[:, SPLIT.kept.cells, SPLIT.summed.cells]


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("fixed", [False, True])
def test_children_given_their_parent_are_those_of_the_dense_problem(
    fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No constraint binds, and the parent is not the linear estimate. The final linear estimate as the target makes no
    difference, but its covariance as the curvature counts the measurements from above twice, and the covariance of the
    own measurements leaves out the levels below."""
    monkeypatch.setattr(least_squares, "GAP", -1.0)
    monkeypatch.setattr(least_squares, "ITERATIONS", 400)
    tree, truth, limits = draw_town(1, 4_000, fixed=fixed)
    informed = tree.inform()
    linear, own = tree.descend(informed)[1], informed[1]
    random = np.random.default_rng(4)
    moved = random.integers(-40, 40, TOWN.size) * (truth.sum(axis=0) > 100)
    parent = truth.sum(axis=0) + moved - (moved.sum() * (np.arange(TOWN.size) == 0) if fixed else 0)
    dense = Dense(tree)
    dense.hold_root(parent)
    expected = dense.solve(np.zeros((1, len(dense.cell))))[0][1]

    def solve(information: Information) -> Floats:
        found = estimate(TOWN, (), limits[1], parent, information=information)
        support = np.argsort(TOWN.groups.cells, kind="stable")
        x = np.zeros((3, TOWN.size))
        x[:, support[parent[support] > 0]] = found.solutions[-1].x
        return x

    assert np.abs(solve(own) - expected).max() < 1e-6
    assert np.abs(solve(replace(own, estimate=linear.estimate)) - expected).max() < 1e-6
    assert np.abs(solve(replace(own, variance=linear.variance)) - expected).max() > 0.05
    precision = SPLIT.add_precisions((each.query, float(1 / each.variance)) for each in tree.measurements[1])
    of_level = np.zeros_like(own.variance)
    for child, present in enumerate(own.present):
        for number, matrix in enumerate(precision):
            of_level[child, number][np.ix_(present, present)] = np.linalg.inv(matrix[np.ix_(present, present)])
    assert np.abs(solve(replace(own, variance=of_level)) - expected).max() > 0.05


def test_information_and_estimates_have_the_same_bytes_on_every_machine() -> None:
    """The digest is the same without vectors of the processor and without fused operations. Wrong programs: LAPACK, or
    sums in an order that depends on the processor, whose last bits make other published bytes elsewhere. If the digest
    changes, the versions of `information` and of `estimation` must increase: otherwise, a run that was killed continues
    with an earlier program's output."""
    digest, tree = sha256(), draw_five()
    informed = tree.inform()
    for own in (*informed, *tree.descend(informed)):
        digest.update(own.present.tobytes() + own.estimate.tobytes() + own.variance.tobytes())
    for seed, hold in ((0, False), (1, True)):
        town, truth, limits = draw_town(seed, 3, fixed=True)
        found = estimate(TOWN, (), limits[1], truth.sum(axis=0), information=town.inform()[1], hold=hold)
        assert not found.without_parts
        for solution in found.solutions:
            digest.update(solution.x.tobytes())
        digest.update(found.histograms.astype("<i8").tobytes())
    assert digest.hexdigest() == "b32cb5790f0df86120a80f7c46e45de5d5c8a467ff881c6d6e0f96fd2097b906"


def minimize(
    curvature: list[Floats], target: Floats, equal: tuple[Floats, Floats], within: tuple[Floats, Floats, Floats]
) -> Floats:
    """The x >= 0 that minimizes Σ (x_c − z_c)ᵀ H_c (x_c − z_c) under A x = b and l <= B x <= u, by Clarabel."""
    hessian = sparse.block_diag(curvature).tocsc()
    sums, lower, upper = within
    rows = sparse.csc_matrix(np.vstack([equal[0], sums, -sums, -np.eye(target.size)]))
    right = np.concatenate([equal[1], upper, -lower, np.zeros(target.size)])
    cones = [clarabel.ZeroConeT(len(equal[1])), clarabel.NonnegativeConeT(len(right) - len(equal[1]))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    linear = -2 * (hessian @ target.ravel())
    solution = clarabel.DefaultSolver(sparse.triu(2 * hessian).tocsc(), linear, rows, right, cones, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved"), solution.status
    return np.array(solution.x).reshape(target.shape)


def evaluate(curvature: list[Floats], target: Floats, x: Floats) -> float:
    return sum(float((own - z) @ h @ (own - z)) for h, z, own in zip(curvature, target, x, strict=True))


def sum_children(children: int, cells: int) -> Floats:
    return np.kron(np.ones((1, children)), np.eye(cells))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_cells_have_the_least_objective_and_the_gap_proves_it(seed: int, fixed: bool) -> None:
    tree, truth, limits = draw_town(seed, 2, fixed=fixed)
    own, parent = tree.inform()[1], truth.sum(axis=0)
    found = estimate(TOWN, (), limits[1], parent, information=own)
    (solution,) = found.solutions
    curvature = [make_dense(np.linalg.pinv(matrices, rcond=1e-10, hermitian=True)) for matrices in own.variance]
    target = flatten(own.estimate)
    kinds = np.kron(np.eye(3), (TOWN.groups.cells == np.arange(3)[:, None]).astype(float))
    held = limits[1].totals != FREE
    totals = np.kron(np.eye(3), np.ones((1, TOWN.size)))[held]
    equal = np.vstack([sum_children(3, TOWN.size), totals]), np.concatenate([parent, limits[1].totals[held]])
    x = minimize(curvature, target, equal, (kinds, limits[1].lower.ravel(), limits[1].upper.ravel()))
    least = evaluate(curvature, target, x)
    assert solution.objective == pytest.approx(least, rel=1e-6)
    assert solution.gap <= 1e-9 * max(solution.objective, 1)
    require_constraints(found, limits[1], parent)


def require_constraints(found: Estimate, limits: Limits, parent: np.ndarray) -> None:
    kinds = TOWN.groups.answer(found.histograms)
    assert found.histograms.min() >= 0
    assert np.array_equal(found.histograms.sum(axis=0), parent)
    assert np.all((limits.lower <= kinds) & (kinds <= limits.upper))
    held = limits.totals != FREE
    assert np.array_equal(found.histograms.sum(axis=1)[held], limits.totals[held])


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_held_parts_fit_best_in_turn(seed: int, fixed: bool) -> None:
    """Counts by kind, then by kind and races alone or combined within those, then cells within these: each is the
    minimizer, by Clarabel, of the quadratic form of its own covariance."""
    tree, truth, limits = draw_town(seed, 3, fixed=fixed)
    own, parent = tree.inform()[1], truth.sum(axis=0)
    found = estimate(TOWN, (), limits[1], parent, information=own, hold=True)
    require_constraints(found, limits[1], parent)
    assert not found.without_parts
    kinds, parts, cells = found.solutions
    variance, target = [make_dense(matrices) for matrices in own.variance], flatten(own.estimate)
    of_kind = (TOWN.groups.cells == np.arange(3)[:, None]).astype(float)
    held = limits[1].totals != FREE
    equal = (
        np.vstack([sum_children(3, 3), np.kron(np.eye(3), np.ones((1, 3)))[held]]),
        np.concatenate([of_kind @ parent, limits[1].totals[held]]),
    )
    curvature = [np.linalg.pinv(of_kind @ own @ of_kind.T, rcond=1e-10, hermitian=True) for own in variance]
    within = np.eye(9), limits[1].lower.ravel(), limits[1].upper.ravel()
    expected = minimize(curvature, target @ of_kind.T, equal, within)
    assert np.allclose(kinds.x, expected[:, (of_kind @ parent) > 0], atol=1e-3)

    counts = TOWN.groups.answer(found.histograms)
    assert np.abs(counts[:, (of_kind @ parent) > 0] - kinds.x).max() < 1
    codes = np.array(TOWN.combined.codes)[TOWN.codes["race"]]  # type: ignore[union-attr]
    of_part = (TOWN.groups.cells * 3 + codes == np.arange(9)[:, None]).astype(float)
    conditional = [
        own - own @ of_kind.T @ np.linalg.pinv(of_kind @ own @ of_kind.T, rcond=1e-10) @ of_kind @ own
        for own in variance
    ]
    moved = [
        z + own @ of_kind.T @ np.linalg.pinv(of_kind @ own @ of_kind.T, rcond=1e-10) @ (count - of_kind @ z)
        for z, own, count in zip(target, variance, counts, strict=True)
    ]
    curvature = [np.linalg.pinv(of_part @ own @ of_part.T, rcond=1e-9, hermitian=True) for own in conditional]
    kind_of_part = np.kron(np.eye(3), np.ones((1, 3)))
    sums = np.kron(np.eye(3), kind_of_part)
    equal = (
        np.vstack([sum_children(3, 9), sums]),
        np.concatenate([of_part @ parent, counts.ravel().astype(float)]),
    )
    free = np.zeros((1, 27)), np.zeros(1), np.ones(1)
    expected = minimize(curvature, np.array(moved) @ of_part.T, equal, free)
    shown = (of_part @ parent) > 0
    assert evaluate(curvature, np.array(moved) @ of_part.T, spread(parts.x, shown)) == pytest.approx(
        evaluate(curvature, np.array(moved) @ of_part.T, expected), rel=1e-5, abs=1e-5
    )

    curvature = [np.linalg.pinv(own, rcond=1e-10, hermitian=True) for own in conditional]
    at_parts = spread(parts.x, shown)
    equal = (
        np.vstack([sum_children(3, TOWN.size), np.kron(np.eye(3), of_part)]),
        np.concatenate([parent, at_parts.ravel()]),
    )
    expected = minimize(curvature, np.array(moved), equal, (np.zeros((1, 180)), np.zeros(1), np.ones(1)))
    order = np.lexsort((codes, TOWN.groups.cells))
    x = np.zeros((3, TOWN.size))
    x[:, order[parent[order] > 0]] = cells.x
    assert evaluate(curvature, np.array(moved), x) == pytest.approx(
        evaluate(curvature, np.array(moved), expected), rel=1e-5, abs=1e-5
    )


def spread(x: Floats, shown: np.ndarray) -> Floats:
    every = np.zeros((len(x), len(shown)))
    every[:, shown] = x
    return every


def test_a_family_that_cannot_be_rounded_within_parts_is_estimated_without(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, truth, limits = draw_town(2, 3, fixed=True)
    rounded = estimation._round

    def refuse_parts(family: estimation._Family, x: Floats) -> np.ndarray:
        if np.array_equal(family.support, np.sort(family.support)) or refused:
            return rounded(family, x)
        refused.append(True)
        raise NotRoundedError("no integers")

    refused: list[bool] = []
    monkeypatch.setattr(estimation, "_round", refuse_parts)
    parent = truth.sum(axis=0)
    families = replace(
        tree.families(1), limits=limits[1], histograms=parent[None], information=tree.inform()[1], hold=True
    )
    assert estimate_families(families).without_parts == 1


def test_units_whose_number_is_held_follow_the_scalar_formulas() -> None:
    """Occupied units: a block's own estimate is (occupied + n − vacant)/2 with the variance σ²/2, a parent's
    combines with the sum of its children's, and siblings move by their variances until they add up, within bounds."""
    schema = replace(UNITS, bounded="occupancy", rounding=("total", "occupancy"))
    parents = (np.zeros(3, dtype=np.int64), np.array([0, 0, 1, 1, 2]))
    units, random = np.array([40, 0, 30, 25, 60]), np.random.default_rng(3)
    of_middle = np.array([40, 55, 60])
    variances = [{"detailed": Fraction(n)} for n in (8, 18, 50)]
    tree = answer_at_random(schema, parents, np.column_stack([units, units]), variances, random)
    tree = replace(tree, totals=(np.array([155]), of_middle, units))
    informed = tree.inform()
    finest, middle = (tree.measurements[depth][0].answers for depth in (2, 1))
    own = np.where(units > 0, (finest[:, 0] + units - finest[:, 1]) / 2, 0)
    sums, spread = np.add.reduceat(own, [0, 2, 4]), 25 * np.add.reduceat((units > 0).astype(float), [0, 2, 4])
    of_level = (middle[:, 0] + of_middle - middle[:, 1]) / 2
    z, v = (spread * of_level + 9 * sums) / (spread + 9), spread * 9 / (spread + 9)
    assert np.allclose(informed[1].estimate[:, 0, 0], z)
    assert np.allclose(informed[1].variance[:, 0, 0, 0], v)
    least, most = np.array([10, 20, 5]), np.array([38, 50, 60])
    lower, upper = np.column_stack([least, of_middle - most]), np.column_stack([most, of_middle - least])
    parent = np.array([100, 55])
    found = estimate(schema, (), Limits(lower, upper, of_middle), parent, information=informed[1])
    low, high = -1e6, 1e6
    for _ in range(200):
        shift = (low + high) / 2
        low, high = (shift, high) if np.clip(z + shift * v, least, most).sum() < 100 else (low, shift)
    assert np.allclose(found.solutions[0].x[:, 0], np.clip(z + low * v, least, most), atol=1e-5)
    assert found.histograms.sum(axis=0).tolist() == [100, 55]


@pytest.mark.parametrize("rest", [0.0, 2e-16])
def test_places_without_a_choice_do_not_slow_down_the_others(rest: float) -> None:
    """One place must be empty, and one has a single fixed count, but for rounding errors of its variance. Wrong
    programs: their curvature is 1, or the inverse of the rounding error; the solver then fails after 20,000
    iterations."""
    schema, v = replace(UNITS, bounded="occupancy", rounding=("total", "occupancy")), 5e7
    present = np.array([[False, False], [True, True], [True, True], [False, True]])
    variance = np.array(
        [[[0.0, 0], [0, 0]], [[v, -v], [-v, v]], [[2 * v, -2 * v], [-2 * v, 2 * v]], [[0, 0], [0, rest]]]
    )
    estimate_of = np.array([[0.0, 0], [300, 100], [-80, 280], [0, 40]])
    limits = Limits(
        np.zeros((4, 2), np.int64),
        np.array([[0, 0], [400, 400], [200, 200], [0, 40]]),
        estimate_of.sum(axis=1).astype(np.int64),
    )
    information = Information(present, estimate_of[..., None], variance[:, None])
    found = estimate(schema, (), limits, np.array([430, 210]), information=information)
    assert found.histograms.tolist() == [[0, 0], [370, 30], [60, 140], [0, 40]]
