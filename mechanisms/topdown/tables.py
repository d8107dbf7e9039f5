"""Euclidean projection onto tables with given margins, compiled: the groups of a family whose counts are held.

With multipliers α of one side and β of the other, the projection of v is x = max(0, v + α + β). For given α, each β is
the root of a convex, piecewise linear function. The remaining problem is a concave dual in α, the shorter side, with a
piecewise linear gradient: semismooth Newton steps with a line search end at the solution after a few tiny systems.
"""

import numpy as np
from numba import njit

LONGEST_SIDE = 128
"""`projection` takes the tables whose sides are both longer."""

_STEPS = 100
_HALVINGS = 30
_ROOT_STEPS = 100


@njit(cache=True, nogil=True)
def _fill(v, sums, alpha, beta, x):  # type: ignore[no-untyped-def]
    """For given α, write β and x, both shapes (lines, entries) and (lines,), with the sums of lines."""
    lines, entries = v.shape
    for line in range(lines):
        multiplier, highest = beta[line], -np.inf
        for entry in range(entries):
            highest = max(highest, v[line, entry] + alpha[entry])
        if highest + multiplier <= 0.0:
            multiplier = sums[line] - highest
        for _ in range(_ROOT_STEPS):
            total, positive = 0.0, 0
            for entry in range(entries):
                value = v[line, entry] + alpha[entry] + multiplier
                total += max(0.0, value)
                positive += value > 0.0
            if positive == 0:
                multiplier = sums[line] - highest
                continue
            following = multiplier - (total - sums[line]) / positive
            if abs(total - sums[line]) <= 1e-15 * sums[line] or following == multiplier:
                break
            multiplier = following
        beta[line] = multiplier
        for entry in range(entries):
            x[line, entry] = max(0.0, v[line, entry] + alpha[entry] + multiplier)


@njit(cache=True, nogil=True)
def _lack(x, sums, lacking):  # type: ignore[no-untyped-def]
    """Write the amounts that entries lack to their sums; returns the largest, as a multiple of rounding errors."""
    lacking[:] = sums
    for line in range(x.shape[0]):
        for entry in range(x.shape[1]):
            lacking[entry] -= x[line, entry]
    worst = 0.0
    for entry in range(sums.size):
        worst = max(worst, abs(lacking[entry]) / (1e-12 + 4e-15 * sums[entry]))
    return worst


@njit(cache=True, nogil=True)
def _solve_step(x, lacking, step):  # type: ignore[no-untyped-def]
    """Write Newton's step, by Cholesky's factors of the entries' Laplacian, slightly enlarged."""
    lines, entries = x.shape
    matrix = np.zeros((entries, entries))
    active = np.empty(entries, dtype=np.int64)
    for line in range(lines):
        filled = 0
        for entry in range(entries):
            if x[line, entry] > 0.0:
                active[filled] = entry
                filled += 1
        if filled < 2:
            continue
        share = 1.0 / filled
        for one in range(filled):
            matrix[active[one], active[one]] += 1.0
            for other in range(one + 1):
                matrix[active[one], active[other]] -= share
    norm = 0.0
    for entry in range(entries):
        norm = max(norm, abs(lacking[entry]))
    ridge = min(1e-4, 1e-9 + 1e-7 * norm)
    for i in range(entries):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i == j:
                matrix[i, i] = np.sqrt(max(total + ridge, 0.5 * ridge))
            else:
                matrix[i, j] = total / matrix[j, j]
    for i in range(entries):
        total = lacking[i]
        for k in range(i):
            total -= matrix[i, k] * step[k]
        step[i] = total / matrix[i, i]
    for i in range(entries - 1, -1, -1):
        total = step[i]
        for k in range(i + 1, entries):
            total -= matrix[k, i] * step[k]
        step[i] = total / matrix[i, i]


@njit(cache=True, nogil=True)
def project_table(v, of_lines, of_entries, beta, alpha, x):  # type: ignore[no-untyped-def]
    """Write the projection of `v`, shape (lines, entries), onto the tables with the given positive sums into `x`.
    Starts from the given multipliers and updates them. Returns the largest difference of an entry from its sum, as a
    multiple of rounding errors."""
    lacking, following = np.empty(alpha.size), np.empty(alpha.size)
    step, trial = np.empty(alpha.size), np.empty(alpha.size)
    _fill(v, of_lines, alpha, beta, x)
    worst = _lack(x, of_entries, lacking)
    for _ in range(_STEPS):
        if worst <= 1.0:
            break
        _solve_step(x, lacking, step)
        slope = 0.0
        for entry in range(alpha.size):
            slope += step[entry] * lacking[entry]
        length, reached = 1.0, worst
        for _ in range(_HALVINGS):
            for entry in range(alpha.size):
                trial[entry] = alpha[entry] + length * step[entry]
            _fill(v, of_lines, trial, beta, x)
            reached = _lack(x, of_entries, following)
            ahead = 0.0
            for entry in range(alpha.size):
                ahead += step[entry] * following[entry]
            # The dual still rises along the step, or has only just begun to fall.
            if reached <= 1.0 or ahead >= -0.1 * slope:
                break
            length *= 0.5
        alpha[:] = trial
        lacking[:] = following
        if reached > 0.5 * worst and worst < 1e4:
            worst = reached
            break
        worst = reached
    return worst
