"""Problems of TopDown's shape, for measurements and tests: random siblings of production's shape, with true counts,
noisy measurements and limits, and the solution of their real-valued step by a general convex solver, Clarabel."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import clarabel
import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from mechanisms.topdown.allocation import PERSON_ALLOCATION, compute_variances
from mechanisms.topdown.estimation import Measurement
from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.least_squares import Constraints, Query
from mechanisms.topdown.schema import PERSONS, Schema


@dataclass(frozen=True)
class Siblings:
    """The children of one parent, with their true counts."""

    schema: Schema
    measurements: tuple[Measurement, ...]
    limits: Limits
    truth: NDArray[np.int64]

    @property
    def parent(self) -> NDArray[np.int64]:
        return self.truth.sum(axis=0)

    def build_problem(self) -> tuple[list[Query], Constraints]:
        """The real-valued step on the parent's support, with totals fixed or free, by the limits."""
        support = np.flatnonzero(self.parent)
        present, groups = np.unique(self.schema.groups.cells[support], return_inverse=True)
        totals = np.where(self.limits.totals == FREE, np.nan, self.limits.totals)
        constraints = Constraints(
            self.parent[support],
            np.searchsorted(groups, np.arange(len(present) + 1)),
            self.limits.lower[:, present],
            self.limits.upper[:, present],
            totals,
        )
        queries = []
        for measurement in self.measurements:
            answered, cells = np.unique(self.schema.marginal(measurement.query).cells[support], return_inverse=True)
            queries.append(
                Query(cells.astype(np.int32), float(1 / measurement.variance), measurement.answers[:, answered])
            )
        return queries, constraints


def measure(
    schema: Schema, truth: NDArray[np.int64], noises: dict[str, Fraction], random: np.random.Generator, scale: float = 1
) -> tuple[Measurement, ...]:
    """Answers with rounded normal noise; a scale of 0 switches the noise off."""
    measurements = []
    for query, variance in noises.items():
        answers = schema.marginal(query).answer(truth)
        noise = np.rint(scale * float(variance) ** 0.5 * random.standard_normal(answers.shape)).astype(np.int64)
        measurements.append(Measurement(query, variance, answers + noise))
    return tuple(measurements)


def draw_siblings(
    level: str, children: int, cells: int, kinds: int, population: int, *, seed: int, fixed: bool, scale: float = 1
) -> Siblings:
    """Siblings at a level of production, with that level's queries and noise, at random by `seed`. At most `cells`
    cells have people, distributed as unequally as over races and blocks. `kinds` is the number of types of group
    quarters, including households. If `fixed`, the children's totals are fixed."""
    random = np.random.default_rng(seed)
    types = np.concatenate(([0], random.choice(np.arange(1, 8), size=kinds - 1, replace=False)))
    allowed = np.flatnonzero(PERSONS.possible & np.isin(PERSONS.groups.cells, types))
    weights = (random.pareto(0.7, size=allowed.size) + 0.01) * np.where(PERSONS.groups.cells[allowed] == 0, 20, 1)
    support = random.choice(allowed, size=min(cells, allowed.size), replace=False, p=weights / weights.sum())
    weights = random.pareto(0.7, size=support.size) + 0.01
    sizes = random.pareto(1.5, size=children) + 0.1
    sizes = (population * sizes / sizes.sum()).astype(int)
    truth = np.zeros((children, PERSONS.size), dtype=np.int64)
    truth[:, support] = [random.multinomial(size, weights / weights.sum()) for size in sizes]
    counts = PERSONS.groups.answer(truth)
    places = np.where(counts > 0, np.maximum(1, counts // 40), 0)
    places[:, 0] = counts[:, 0] // 2 + 1
    lower = places * (np.arange(8) > 0)
    totals = truth.sum(axis=1) if fixed else np.full(children, FREE)
    noises = compute_variances(PERSON_ALLOCATION, level)
    return Siblings(
        PERSONS, measure(PERSONS, truth, noises, random, scale), Limits(lower, 99_999 * places, totals), truth
    )


def compute_objective(queries: Sequence[Query], x: NDArray[np.float64]) -> float:
    """Σ_children Σ_queries ‖Q_q x_c − m_cq‖² / σ²_q, computed with matrices."""
    total = 0.0
    for query in queries:
        matrix = _make_matrix(query)
        total += query.precision * float(np.sum((x @ matrix.T - query.measured) ** 2))
    return total


def _make_matrix(query: Query) -> sparse.csr_matrix:
    cells = len(query.cells)
    return sparse.csr_matrix((np.ones(cells), (query.cells, np.arange(cells))), shape=(query.measured.shape[1], cells))


class ConvexProblem:
    """The real-valued step for Clarabel: the residuals are extra variables, which is the fastest form for it."""

    def __init__(self, queries: Sequence[Query], constraints: Constraints, *, tight: bool = False) -> None:
        self.children, self.cells = len(constraints.totals), int(constraints.starts[-1])
        size = self.children * self.cells
        identity = sparse.identity(self.children, format="csr")
        answers = sparse.vstack([_make_matrix(query) for query in queries])
        precisions = np.concatenate([np.full(query.measured.shape[1], query.precision) for query in queries])
        observed = np.concatenate([query.measured for query in queries], axis=1).ravel()
        equal = [sparse.hstack([sparse.kron(identity, answers), -sparse.identity(observed.size)])]
        equal_to = [observed]

        def widen(matrix: sparse.spmatrix) -> sparse.spmatrix:
            return sparse.hstack([matrix, sparse.csr_matrix((matrix.shape[0], observed.size))])

        if constraints.parent is not None:
            equal.append(widen(sparse.hstack([sparse.identity(self.cells)] * self.children)))
            equal_to.append(constraints.parent)
        fixed = ~np.isnan(constraints.totals)
        if fixed.any():
            equal.append(widen(sparse.kron(identity[fixed], np.ones((1, self.cells)))))
            equal_to.append(constraints.totals[fixed])
        number = np.repeat(np.arange(len(constraints.starts) - 1), np.diff(constraints.starts))
        groups = sparse.csr_matrix((np.ones(self.cells), (number, np.arange(self.cells))))
        groups.resize(len(constraints.starts) - 1, self.cells)
        counts = widen(sparse.kron(identity, groups))
        at_most = [counts, -counts, widen(-sparse.identity(size))]
        limits = [constraints.upper.ravel(), -constraints.lower.ravel(), np.zeros(size)]
        rows = sparse.vstack([*equal, *at_most]).tocsc()
        right = np.concatenate([*equal_to, *limits]).astype(float)
        curvature = sparse.diags(np.concatenate([np.zeros(size), np.tile(2 * precisions, self.children)])).tocsc()
        equalities = sum(len(values) for values in equal_to)
        cones = [clarabel.ZeroConeT(equalities), clarabel.NonnegativeConeT(len(right) - equalities)]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        if tight:
            settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
        self.solver = clarabel.DefaultSolver(curvature, np.zeros(size + observed.size), rows, right, cones, settings)

    def solve(self) -> NDArray[np.float64]:
        """Shape (children, cells): the minimizer."""
        solution = self.solver.solve()
        assert str(solution.status) in ("Solved", "AlmostSolved"), solution.status
        return np.array(solution.x)[: self.children * self.cells].reshape(self.children, self.cells)
