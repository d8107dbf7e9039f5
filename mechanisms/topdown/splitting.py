"""The quadratic step of alternating directions: for each child, the x that minimizes f(x) + σ/2 ‖x − w‖², exactly.

The matrix is 2H + σI = a I + 2p TᵀT + 2 UᵀWU, where T is the query with the most answers that are not cells, with the
precision p, and U has the answers to all coarser queries, a few hundred. With the sums over the cells of each answer of
T, A = a I + 2p TᵀT is inverted in closed form, and the whole by Woodbury's formula with one matrix a child, which has
a row for each coarse answer.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.topdown.decomposition import invert

Floats = NDArray[np.float64]

MOST_COARSE = 400
"""With more coarse answers, a problem is not solved by splitting: the time grows with their cube."""


class Step(NamedTuple):
    """The common part of all children's steps.

    Attributes:
        fine: shape (cells,): the answer of T that counts each cell, from 0.
        kind: shape (cells,): cells of a kind, from 0, are counted by the same answers of U.
        coarse: shape (kinds, queries): these answers, from 0. There are far fewer kinds than cells.
        own: shape (children,): a.
        shrunk: shape (children, answers of T): 2p/(a + 2p n), where n is the number of cells.
        inner: shape (children, coarse answers, coarse answers): (W⁻¹/2 + U A⁻¹ Uᵀ)⁻¹.
        linear: shape (children, cells): 2 QᵀΣ⁻¹m.
    """

    fine: NDArray[np.uint32]
    kind: NDArray[np.uint32]
    coarse: NDArray[np.uint32]
    own: Floats
    shrunk: Floats
    inner: Floats
    linear: Floats


def prepare(
    maps: NDArray[np.uint32], begins: NDArray[np.int64], precisions: Floats, measured: Floats, sigma: float
) -> Step | None:
    """The step for the answers of `least_squares`; None if a step with a matrix of all coarse answers is too large, or
    some children have no answers to one of the queries."""
    children, cells = len(precisions), len(maps)
    sizes, of_queries = np.diff(begins), maps.T.astype(np.int64)
    detailed = np.array([count_answers(own) == cells for own in of_queries])
    others = np.flatnonzero(~detailed)
    if not others.size:
        return None
    finest = others[sizes[others].argmax()]
    coarse = others[others != finest]
    if sizes[coarse].sum() > MOST_COARSE or not precisions[:, coarse].all():
        return None
    own = 2 * precisions[:, detailed].sum(axis=1) + sigma
    fine = of_queries[finest] - begins[finest]
    twice = 2 * precisions[:, finest, None]
    shrunk = twice / (own[:, None] + twice * np.bincount(fine, minlength=sizes[finest]))
    offsets = np.cumsum(sizes[coarse]) - sizes[coarse]
    of_coarse = of_queries[coarse] - (begins[coarse] - offsets)[:, None]
    weights = np.repeat(precisions[:, coarse], sizes[coarse], axis=1)
    linear = np.zeros((children, cells))
    for query, (first, last) in enumerate(pairwise(begins)):
        linear += 2 * (precisions[:, query, None] * measured[:, first:last])[:, of_queries[query] - first]
    order = np.argsort(fine, kind="stable")
    ends = np.append(0, np.cumsum(np.bincount(fine, minlength=sizes[finest])))
    inner = _invert(of_coarse, order, ends, own, shrunk, weights)
    kind, example = np.zeros(cells, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for of_query in of_coarse:
        _, example, kind = np.unique(kind * MOST_COARSE + of_query, return_index=True, return_inverse=True)
    answers = np.ascontiguousarray(of_coarse[:, example].T, np.uint32)
    return Step(fine.astype(np.uint32), kind.astype(np.uint32), answers, own, shrunk, inner, linear)


def count_answers(cells: NDArray[np.integer[Any]]) -> int:
    """The number of answers of a query that have a cell, from the answer of each cell."""
    reached = np.zeros(int(cells.max(initial=-1)) + 1, dtype=np.bool_)
    reached[cells] = True
    return int(np.count_nonzero(reached))


@njit(cache=True, nogil=True)
def _invert(coarse, order, ends, own, shrunk, weights):  # type: ignore[no-untyped-def]
    children, answers = weights.shape
    queries, cells = coarse.shape
    inner = np.empty((children, answers, answers))
    together = np.zeros((answers, answers))
    for k in range(cells):
        for q in range(queries):
            for r in range(queries):
                together[coarse[q, k], coarse[r, k]] += 1.0
    for c in range(children):
        matrix = together.copy()
        for j in range(ends.size - 1):
            for one in range(ends[j], ends[j + 1]):
                for other in range(ends[j], ends[j + 1]):
                    for q in range(queries):
                        for r in range(queries):
                            matrix[coarse[q, order[one]], coarse[r, order[other]]] -= shrunk[c, j]
        matrix /= own[c]
        for m in range(answers):
            matrix[m, m] += 0.5 / weights[c, m]
        inner[c] = invert(matrix)
    return inner


@njit(cache=True, nogil=True)
def take_step(step, sigma, w, x):  # type: ignore[no-untyped-def]
    """Write the minimum into `x`, for w of the same shape (children, cells)."""
    fine, kind, coarse, own, shrunk, inner, linear = step
    sums, of_kind, of_coarse = np.empty(shrunk.shape[1]), np.empty(coarse.shape[0]), np.empty(inner.shape[1])
    multipliers = np.empty(inner.shape[1])
    for c in range(x.shape[0]):
        sums[:] = 0.0
        for k in range(fine.size):
            value = linear[c, k] + sigma * w[c, k]
            sums[fine[k]] += value
            x[c, k] = value
        sums *= shrunk[c]
        of_kind[:] = 0.0
        for k in range(fine.size):
            value = (x[c, k] - sums[fine[k]]) / own[c]
            of_kind[kind[k]] += value
            x[c, k] = value
        of_coarse[:] = 0.0
        for each in range(of_kind.size):
            for q in range(coarse.shape[1]):
                of_coarse[coarse[each, q]] += of_kind[each]
        for m in range(of_coarse.size):
            total = 0.0
            for n in range(of_coarse.size):
                total += inner[c, m, n] * of_coarse[n]
            multipliers[m] = total
        for each in range(of_kind.size):
            of_kind[each] = 0.0
            for q in range(coarse.shape[1]):
                of_kind[each] += multipliers[coarse[each, q]]
        sums[:] = 0.0
        for k in range(fine.size):
            sums[fine[k]] += of_kind[kind[k]]
        sums *= shrunk[c]
        for k in range(fine.size):
            x[c, k] -= (of_kind[kind[k]] - sums[fine[k]]) / own[c]
