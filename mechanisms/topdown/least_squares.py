"""The real-valued step: the histograms of a parent's children that best fit their noisy measurements.

One parent's problem is solved by accelerated projected gradients, and only a certified solution is returned.
`estimation` selects the measurements of each pass; `projection` does the projection.

The objective is f(x) = Σ_children Σ_queries ‖Q_q x_c − m_cq‖² / σ²_q. All children share one Hessian 2QᵀΣ⁻¹Q. Its
smallest eigenvalue is at least 2κ, where κ is the precision of a query that measures each cell separately. Its largest
is bounded from above by Collatz and Wielandt's quotient, as the matrix is non-negative. So the method (Beck and
Teboulle, 2009, with the restarts of O'Donoghue and Candès, 2015) converges linearly, at a rate given by the root of
their ratio: 1.2 at production's blocks, 10 at its states.

In the DHC, the root is 200 at a state. There, the directions are alternated (Boyd, Parikh, Chu, Peleato and Eckstein,
2011): `splitting` minimizes the objective without constraints, near a point that has them, and a projection follows.

With full information, it is f(x) = Σ_children (x_c − z_c)ᵀ H_c (x_c − z_c), where each child has a matrix of its own,
in the form of `decomposition`, and κ_c is its smallest eigenvalue.

The certificate. For any multipliers ν, λ, μ of the constraints and s = ∇f(x) − ν − λ − μ, every feasible y has
f(y) >= f(x) + s·(y − x) + Σ κ_c‖y_c − x_c‖² + (multipliers times the slack or the violation of the constraints at x).
Taking the least value over each cell of y separately bounds f(x) − min f from above, for any multipliers. This bound is
the gap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.topdown.projection import project
from mechanisms.topdown.splitting import count_answers, prepare, take_step

GAP = 1e-9
"""The duality gap at which the step ends, relative to its objective (absolute below 1)."""

LARGEST_GAP = 1e-6
"""The largest gap of a returned solution, if the step gives up before it reaches `GAP`."""

CONSTRAINT = 1e-7
"""The largest violation of a constraint, absolute, in persons or units; relative above 10^7 of them, 1e-14."""

ITERATIONS = 20_000
"""The iterations after which the step gives up: a hundred times as many as production's problems take."""

_AGREE = 1e-6

_RELAXED = 1.7

_STEEP = 1000
"""Problems with sections whose curvatures have a greater ratio are solved by alternating directions, if they can be."""

_CHECKED = 10
"""The gap of problems with sections is computed each time after this number of iterations."""


class NotSolvedError(ArithmeticError):
    """The solution of a least-squares problem could not be certified."""


@dataclass(frozen=True)
class Query:
    """A measured marginal of every child, shape (children, marginal cells), with its precision 1/σ² and the marginal
    cell of each cell, numbered from 0, shape (cells,). Children may have precisions of their own, shape (children,)."""

    cells: NDArray[np.int32]
    precision: float | NDArray[np.float64]
    measured: NDArray[Any]


@dataclass(frozen=True)
class Quadratic:
    """The objective Σ_children (x_c − z_c)ᵀ H_c (x_c − z_c), where z_c also has cells that x does not have, whose
    counts are 0. With U the sets of `decomposition.to_terms`, H_c is the sum over U of A_U[row, row'] where two cells
    have the same column of U; for the first, empty set also times the column's weight.

    Attributes:
        terms: shape (children, sets, rows, rows): the A_U.
        rows, columns: shapes (cells,) and (sets, cells): the row of each cell, and its column of each set, from 0.
        weights: shape (columns,): of the first set.
        target, slope: shape (children, cells): z at the cells, and H_c z of all other cells at them.
        constant: Σ zᵀ H z over the other cells.
        least, greatest: shape (children,): bounds of the eigenvalues of H_c.
    """

    terms: NDArray[np.float64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    weights: NDArray[np.float64]
    target: NDArray[np.float64]
    slope: NDArray[np.float64]
    constant: float
    least: NDArray[np.float64]
    greatest: NDArray[np.float64]


@dataclass(frozen=True)
class Constraints:
    """The constraints on siblings' histograms, in addition to non-negativity.

    Attributes:
        parent: shape (cells,): their sum, positive integers; None at the root, which is an only child.
        starts: shape (groups + 1,): group g has the cells from `starts[g]` up to `starts[g + 1]`.
        lower, upper: shape (children, groups): bounds of the groups' counts.
        totals: shape (children,): fixed totals; NaN where a total is free. With sections, shape (children, sections).
        sections: shape (sections + 1,): section s has the groups from `sections[s]` up to `sections[s + 1]`; None if
            all groups are one.
    """

    parent: NDArray[Any] | None
    starts: NDArray[np.int64]
    lower: NDArray[Any]
    upper: NDArray[Any]
    totals: NDArray[np.float64]
    sections: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Solution:
    """Histograms with their certificate: x, of shape (children, cells) and not negative, the most by which f(x) can
    exceed the minimum, and the largest violation of a constraint."""

    x: NDArray[np.float64]
    objective: float
    gap: float
    violation: float


def solve(objective: Sequence[Query] | Quadratic, constraints: Constraints, within: float | None = None) -> Solution:
    """The least-squares histograms under the constraints. The step ends at a gap of `within`, by default `GAP`,
    relative to the objective (absolute below 1). Raises NotSolvedError if no solution with a gap of `LARGEST_GAP` and
    violations of `CONSTRAINT` was found."""
    children, cells = len(constraints.totals), int(constraints.starts[-1])
    parent = np.empty(0) if constraints.parent is None else _floats(constraints.parent)
    if isinstance(objective, Quadratic):
        start, curvature = objective.target, objective.least
        answers, steepest = _gather([], children, cells), 2.0 * objective.greatest.max()
        quadratic = tuple(vars(objective).values())[:-2]
    else:
        answers = _gather(objective, children, cells)
        wide = (query for query in objective if query.measured.shape[1] >= cells)
        detailed = [query for query in wide if count_answers(query.cells) == cells]
        curvature = np.zeros(children) + sum(query.precision for query in detailed)
        if detailed:
            start = detailed[0].measured[:, detailed[0].cells]
        else:
            start = np.tile(parent / children if parent.size else np.zeros(cells), (children, 1))
        steepest = 2.0 * _largest_curvature(answers[0], answers[1], answers[2].max(axis=0))
        quadratic = _NO_QUADRATIC
    starts = np.require(constraints.starts, np.int64, ["C", "W"])
    sections = np.array([0, len(starts) - 1]) if constraints.sections is None else constraints.sections
    totals = constraints.totals.reshape(children, len(sections) - 1)
    sections = np.require(sections, np.int64, ["C", "W"])
    bounds = _floats(constraints.lower), _floats(constraints.upper), _floats(totals)
    end = GAP if within is None else within
    step, least = None, float(2 * curvature.min())
    if len(sections) > 2 and steepest > _STEEP * least > 0:
        sigma = float(np.sqrt(steepest * least))
        step = prepare(*answers, sigma)
    if step is None:
        x, value, gap, iterations = _descend(
            _floats(start), answers, quadratic, float(steepest), parent, (starts, sections), bounds, curvature, end,
            ITERATIONS,
        )  # fmt: skip
    else:
        x, value, gap, iterations = _alternate(
            _floats(start), answers, step, sigma, float(steepest), parent, (starts, sections), bounds, curvature, end,
            ITERATIONS,
        )  # fmt: skip
    violation = _violation(x, parent, starts, sections, *bounds)
    if not (gap <= LARGEST_GAP * max(value, 1.0) and violation <= CONSTRAINT):
        raise NotSolvedError(
            f"{children} children of {cells} cells: after {iterations} iterations the duality gap is {gap:.1e} of an "
            f"objective of {value:.6g}, the largest violation of a constraint {violation:.1e}"
        )
    return Solution(x, value, gap, violation)


def solve_apart(query: Query, constraints: Constraints, within: float | None = None) -> Solution:
    """As `solve`, where the only query measures each cell separately, totals are free, bounds are equal, and every
    group is a problem of its own."""
    children, cells = len(constraints.totals), len(query.cells)
    precision = np.zeros(children) + query.precision
    parent = np.empty(0) if constraints.parent is None else _floats(constraints.parent)
    starts = np.require(constraints.starts, np.int64, ["C", "W"])
    bounds = _floats(constraints.lower), _floats(constraints.upper)
    end = GAP if within is None else within
    x = np.empty((children, cells))
    measured = _floats(query.measured[:, query.cells])
    objective, gap, violation = _solve_apart(
        x, measured, precision, _NO_QUADRATIC, parent, starts, *bounds, end, ITERATIONS
    )
    if not (gap <= LARGEST_GAP * max(objective, 1.0) and violation <= CONSTRAINT):
        raise NotSolvedError(
            f"{children} children of {cells} cells in {len(starts) - 1} problems: the duality gap is {gap:.1e} of an "
            f"objective of {objective:.6g}, the largest violation of a constraint {violation:.1e}"
        )
    return Solution(x, objective, gap, violation)


_Answers = tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


def _gather(queries: Sequence[Query], children: int, cells: int) -> _Answers:
    """The answers to all queries next to each other: the answers in which each cell counts, shape (cells, queries);
    where the answers of each query begin; their precisions, shape (children, queries); and the answers, shape
    (children, answers)."""
    begins = np.cumsum([0, *(query.measured.shape[1] for query in queries)])
    maps = np.empty((cells, len(queries)), dtype=np.uint32)
    precisions = np.empty((children, len(queries)))
    for number, query in enumerate(queries):
        maps[:, number] = query.cells + begins[number]
        precisions[:, number] = query.precision
    measured = _floats(np.concatenate([np.empty((children, 0)), *(query.measured for query in queries)], axis=1))
    return maps, begins, precisions, measured


_NO_QUADRATIC = (
    np.empty((0, 0, 0, 0)), np.empty(0, np.int64), np.empty((0, 0), np.int64), np.empty(0), np.empty((0, 0)),
    np.empty((0, 0)), 0.0,
)  # fmt: skip


def _floats(values: NDArray[Any]) -> NDArray[np.float64]:
    """Values in one type and layout, so that the method is compiled only once."""
    return np.require(values, np.float64, ["C", "W"])


@njit(cache=True, nogil=True)
def _violation(x, parent, starts, sections, lower, upper, totals):  # type: ignore[no-untyped-def]
    """The largest violation of a constraint, multiplied by 10^7 / limit for limits above 10^7."""
    most = 0.0
    for c in range(x.shape[0]):
        for s in range(sections.size - 1):
            total = 0.0
            for g in range(sections[s], sections[s + 1]):
                count = 0.0
                for k in range(starts[g], starts[g + 1]):
                    count += x[c, k]
                    most = max(most, -x[c, k])
                most = max(most, (lower[c, g] - count) / max(1.0, lower[c, g] * 1e-7))
                most = max(most, (count - upper[c, g]) / max(1.0, upper[c, g] * 1e-7))
                total += count
            if not np.isnan(totals[c, s]):
                most = max(most, abs(total - totals[c, s]) / max(1.0, totals[c, s] * 1e-7))
    for k in range(parent.size):
        most = max(most, abs(x[:, k].sum() - parent[k]) / max(1.0, parent[k] * 1e-7))
    return most


@njit(cache=True, nogil=True)
def _gradient(x, maps, begins, precisions, measured, gradient, scratch):  # type: ignore[no-untyped-def]
    """f(x), and its gradient written into `gradient`."""
    queries = maps.shape[1]
    objective = 0.0
    for c in range(x.shape[0]):
        scratch[:] = -measured[c]
        for k in range(x.shape[1]):
            value = x[c, k]
            if value != 0.0:
                for q in range(queries):
                    scratch[maps[k, q]] += value
        for q in range(queries):
            for m in range(begins[q], begins[q + 1]):
                weighted = precisions[c, q] * scratch[m]
                objective += weighted * scratch[m]
                scratch[m] = 2.0 * weighted
        for k in range(x.shape[1]):
            total = 0.0
            for q in range(queries):
                total += scratch[maps[k, q]]
            gradient[c, k] = total
    return objective


@njit(cache=True, nogil=True)
def _gradient_of_quadratic(x, quadratic, gradient):  # type: ignore[no-untyped-def]
    """As `_gradient`, of the objective with full information."""
    terms, rows, columns, weights, target, slope, constant = quadratic
    sets, size = terms.shape[1], terms.shape[2]
    width = weights.size
    sums, image = np.empty((size, width)), np.empty((size, width))
    widths = np.ones(sets, dtype=np.int64)
    for own in range(sets):
        for k in range(rows.size):
            widths[own] = max(widths[own], columns[own, k] + 1)
    objective = constant
    for c in range(x.shape[0]):
        for k in range(x.shape[1]):
            gradient[c, k] = -slope[c, k]
        for own in range(sets):
            wide = widths[own]
            sums[:, :wide] = 0.0
            for k in range(rows.size):
                sums[rows[k], columns[own, k]] += x[c, k] - target[c, k]
            for i in range(size):
                image[i, :wide] = 0.0
                for j in range(size):
                    factor = terms[c, own, i, j]
                    if factor != 0.0:
                        for m in range(wide):
                            image[i, m] += factor * sums[j, m]
                if own == 0:
                    for m in range(wide):
                        image[i, m] *= weights[m]
            for k in range(rows.size):
                gradient[c, k] += image[rows[k], columns[own, k]]
        for k in range(x.shape[1]):
            objective += (x[c, k] - target[c, k]) * (gradient[c, k] - slope[c, k])
            gradient[c, k] *= 2.0
    return objective


@njit(cache=True, nogil=True)
def _evaluate(x, answers, quadratic, gradient, scratch):  # type: ignore[no-untyped-def]
    if quadratic[0].size > 0:
        return _gradient_of_quadratic(x, quadratic, gradient)
    maps, begins, precisions, measured = answers
    return _gradient(x, maps, begins, precisions, measured, gradient, scratch)


@njit(cache=True, nogil=True)
def _largest_curvature(maps, begins, precisions):  # type: ignore[no-untyped-def]
    """An upper bound of the largest eigenvalue of QᵀΣ⁻¹Q: max (Hz)/z for a positive z (Collatz and Wielandt)."""
    cells, queries = maps.shape
    z = np.ones(cells)
    image = np.empty(cells)
    bound = np.inf
    for _ in range(20):
        sums = np.zeros(begins[-1])
        for k in range(cells):
            for q in range(queries):
                sums[maps[k, q]] += z[k]
        largest = 0.0
        for k in range(cells):
            image[k] = 0.0
            for q in range(queries):
                image[k] += precisions[q] * sums[maps[k, q]]
            largest = max(largest, image[k] / z[k])
        bound = min(bound, largest)
        z[:] = image / image.max()
        z[:] = np.maximum(z, 1e-6)
    return bound


@njit(cache=True, nogil=True)
def _gap(x, gradient, nu, lam, mu, scale, parent, starts, sections, lower, upper, totals, curvature):  # type: ignore[no-untyped-def]
    """The duality gap of x with the multipliers scale · (ν, λ, μ)."""
    gap = 0.0
    if parent.size > 0:
        for k in range(x.shape[1]):
            gap += scale * nu[k] * (x[:, k].sum() - parent[k])
    for c in range(x.shape[0]):
        for s in range(sections.size - 1):
            if not np.isnan(totals[c, s]):
                own = x[c, starts[sections[s]] : starts[sections[s + 1]]]
                gap += scale * lam[c, s] * (own.sum() - totals[c, s])
            for g in range(sections[s], sections[s + 1]):
                if upper[c, g] == 0.0:
                    continue
                count = x[c, starts[g] : starts[g + 1]].sum()
                if mu[c, g] != 0.0:
                    gap += scale * mu[c, g] * (count - (lower[c, g] if mu[c, g] > 0.0 else upper[c, g]))
                most = upper[c, g] if np.isnan(totals[c, s]) else min(upper[c, g], totals[c, s])
                for k in range(starts[g], starts[g + 1]):
                    slope = gradient[c, k] - scale * (nu[k] + lam[c, s] + mu[c, g])
                    largest = min(most, parent[k]) if parent.size > 0 else most
                    if curvature[c] > 0.0:
                        move = min(max(slope / (2.0 * curvature[c]), x[c, k] - largest), x[c, k])
                        gap += slope * move - curvature[c] * move * move
                    elif slope != 0.0:
                        gap += slope * (x[c, k] if slope > 0.0 else x[c, k] - largest)
    return gap


@njit(cache=True, nogil=True)
def _gap_of_totals(x, gradient, nu, lam, scale, precision, parent, lower, upper, totals):  # type: ignore[no-untyped-def]
    """The duality gap where only the children's totals are measured and a cell is a group.

    The objective is curved along totals only, so s must be exactly 0 wherever a count is inside its bounds, without
    rounding errors. Therefore a child's slope and a group's multiplier that nearly agree are moved to their mean. By
    the curvature along the total, moving a slope costs the square of the move over 4/σ².
    """
    children, groups = x.shape
    values = np.zeros(children + groups)
    for c in range(children):
        values[c] = gradient[c, 0] - scale * lam[c]
    for g in range(groups):
        if parent.size > 0:
            values[children + g] = scale * nu[g]
    order = np.argsort(values)
    moved = values.copy()
    first = 0
    for position in range(1, order.size + 1):
        if position < order.size and values[order[position]] - values[order[position - 1]] <= _AGREE * precision:
            continue
        if parent.size > 0:
            mean = 0.0
            for member in range(first, position):
                mean += (values[order[member]] - values[order[first]]) / (position - first)
            for member in range(first, position):
                moved[order[member]] = values[order[first]] + mean
        elif abs(values[order[first]]) <= _AGREE * precision:
            # At the root, groups have no multipliers: values that are nearly 0 are moved to 0.
            for member in range(first, position):
                moved[order[member]] = 0.0
        first = position
    gap = 0.0
    for c in range(children):
        difference = abs(values[c] - moved[c])
        if np.isnan(totals[c]):
            gap += difference * difference / (4.0 * precision)
        else:
            gap += (difference + scale * abs(lam[c])) * abs(x[c].sum() - totals[c])
        for g in range(groups):
            slope = moved[c] - moved[children + g]
            if slope > 0.0:
                gap += slope * (x[c, g] - lower[c, g])
            elif slope < 0.0:
                gap += -slope * (upper[c, g] - x[c, g])
    if parent.size > 0:
        for g in range(groups):
            gap += abs(moved[children + g]) * abs(x[:, g].sum() - parent[g])
    return gap


@njit(cache=True, nogil=True)
def _descend(start, answers, quadratic, steepest, parent, groups_of, bounds, curvature, tolerance, iterations):  # type: ignore[no-untyped-def]
    starts, sections = groups_of
    lower, upper, totals = bounds
    children, cells = start.shape
    groups = starts.size - 1
    nu, lam, mu = np.zeros(cells), np.zeros(totals.shape), np.zeros((children, groups))
    precisions, scratch = answers[2], np.empty(answers[3].shape[1])
    x, before = np.empty((children, cells)), np.empty((children, cells))
    v, ahead = np.empty((children, cells)), np.empty((children, cells))
    gradient, gradient_before = np.empty((children, cells)), np.empty((children, cells))
    root = np.sqrt(2.0 * curvature.min() / steepest)
    most = (1.0 - root) / (1.0 + root)
    project(start, parent, starts, sections, lower, upper, totals, nu, lam, mu, x)
    nu[:] = 0.0
    lam[:] = 0.0
    mu[:] = 0.0
    objective = _evaluate(x, answers, quadratic, gradient, scratch)
    before[:] = x
    gradient_before[:] = gradient
    pace = 1.0
    gap = np.inf
    for iteration in range(iterations):
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * pace * pace))
        momentum = min((pace - 1.0) / following, most)
        pace = following
        # The gradient is affine, so the gradient at the point ahead follows from two known ones.
        for c in range(children):
            for k in range(cells):
                ahead[c, k] = x[c, k] + momentum * (x[c, k] - before[c, k])
                slope = gradient[c, k] + momentum * (gradient[c, k] - gradient_before[c, k])
                v[c, k] = ahead[c, k] - slope / steepest
        before[:] = x
        gradient_before[:] = gradient
        lacking = project(v, parent, starts, sections, lower, upper, totals, nu, lam, mu, x)
        objective = _evaluate(x, answers, quadratic, gradient, scratch)
        if lacking <= 1e3 and (sections.size == 2 or iteration % _CHECKED == _CHECKED - 1):
            if scratch.size == 1 and cells == groups:
                gap = _gap_of_totals(
                    x, gradient, nu, lam[:, 0], steepest, precisions[0, 0], parent, lower, upper, totals[:, 0]
                )
            else:
                gap = _gap(
                    x, gradient, nu, lam, mu, steepest, parent, starts, sections, lower, upper, totals, curvature
                )
            if gap <= tolerance * max(objective, 1.0):
                return x, objective, gap, iteration + 1
        turning = 0.0
        for c in range(children):
            for k in range(cells):
                turning += (ahead[c, k] - x[c, k]) * (x[c, k] - before[c, k])
        if turning > 0.0:
            pace = 1.0
    return x, objective, gap, iterations


@njit(cache=True, nogil=True)
def _alternate(start, answers, step, sigma, steepest, parent, groups_of, bounds, curvature, tolerance, iterations):  # type: ignore[no-untyped-def]
    """As `_descend`, by alternating directions: the quadratic step and the projection, over-relaxed. The last step is
    one of projected gradients, whose multipliers have a smaller gap."""
    starts, sections = groups_of
    lower, upper, totals = bounds
    children, cells = start.shape
    nu, lam, mu = np.zeros(cells), np.zeros(totals.shape), np.zeros((children, starts.size - 1))
    maps, begins, precisions, measured = answers
    scratch, gradient = np.empty(measured.shape[1]), np.empty((children, cells))
    x, z, v = start.copy(), np.empty((children, cells)), np.empty((children, cells))
    project(start, parent, starts, sections, lower, upper, totals, nu, lam, mu, z)
    nu[:] = 0.0
    last_nu, last_lam, last_mu = np.zeros(nu.shape), np.zeros(lam.shape), np.zeros(mu.shape)
    dual, y = np.zeros((children, cells)), np.empty((children, cells))
    objective, gap = np.inf, np.inf
    for iteration in range(iterations):
        for c in range(children):
            for k in range(cells):
                v[c, k] = z[c, k] - dual[c, k]
        take_step(step, sigma, v, x)
        for c in range(children):
            for k in range(cells):
                v[c, k] = _RELAXED * x[c, k] + (1.0 - _RELAXED) * z[c, k] + dual[c, k]
        project(v, parent, starts, sections, lower, upper, totals, nu, lam, mu, z)
        for c in range(children):
            for k in range(cells):
                dual[c, k] = v[c, k] - z[c, k]
        if iteration % _CHECKED == _CHECKED - 1:
            _gradient(z, maps, begins, precisions, measured, gradient, scratch)
            for c in range(children):
                for k in range(cells):
                    v[c, k] = z[c, k] - gradient[c, k] / steepest
            lacking = project(v, parent, starts, sections, lower, upper, totals, last_nu, last_lam, last_mu, y)
            objective = _gradient(y, maps, begins, precisions, measured, gradient, scratch)
            if lacking <= 1e3:
                gap = _gap(
                    y, gradient, last_nu, last_lam, last_mu, steepest, parent, starts, sections, lower, upper, totals,
                    curvature,
                )  # fmt: skip
                if gap <= tolerance * max(objective, 1.0):
                    return y, objective, gap, iteration + 1
    return y, objective, gap, iterations


@njit(cache=True, nogil=True)
def _solve_apart(x, measured, precision, quadratic, parent, starts, lower, upper, tolerance, iterations):  # type: ignore[no-untyped-def]
    """Write the least-squares counts of all groups into `x`; their objective, gap and largest violation."""
    children = x.shape[0]
    objective, gap, violation = 0.0, 0.0, 0.0
    free, one = np.full((children, 1), np.nan), np.array([0, 1])
    for g in range(starts.size - 1):
        first, last = starts[g], starts[g + 1]
        if last - first == 1:
            x[:, first] = lower[:, g]
            objective += (precision * (x[:, first] - measured[:, first]) ** 2).sum()
            if parent.size > 0:
                violation = max(violation, abs(x[:, first].sum() - parent[first]) / max(1.0, parent[first] * 1e-7))
            continue
        maps = np.arange(last - first).astype(np.uint32).reshape(last - first, 1)
        target = measured[:, first:last].copy()
        above = parent[first:last].copy() if parent.size > 0 else parent
        bounds = (lower[:, g : g + 1].copy(), upper[:, g : g + 1].copy(), free)
        whole = np.array([0, last - first])
        own, value, of_group, _ = _descend(
            target, (maps, whole, precision.reshape(children, 1), target), quadratic, 2.0 * precision.max(), above,
            (whole, one), bounds, precision, tolerance, iterations,
        )  # fmt: skip
        objective += value
        gap += of_group
        violation = max(violation, _violation(own, above, whole, one, *bounds))
        x[:, first:last] = own
    return objective, gap, violation
