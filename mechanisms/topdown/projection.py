"""Euclidean projection onto the constraints of siblings' histograms, compiled.

The constraints are {x >= 0, children add up to their parent cell by cell, fixed totals of sections, counts of groups
within bounds}. A section is several groups. `least_squares` uses the projection.

With multipliers ν of cells, λ of sections' totals and μ of group bounds, the projection of v is
x = max(0, v + ν + λ + μ). For a given ν, a child's sections are independent. The sum over groups, each a clipped sum of
max(0, ·), is non-decreasing and piecewise linear in λ, so finitely many safeguarded Newton steps find its root. The
remaining dual in ν is concave with a piecewise linear gradient (the parent less the children's sum), and is solved by
semismooth Newton with a line search. Its matrix is a diagonal less one rank-one block for every fixed total and every
tight bound, so conjugate gradients solve each step in time proportional to the number of positive cells.
"""

import numpy as np
from numba import njit

from mechanisms.topdown.tables import LONGEST_SIDE, project_table

_ROOT_STEPS = 200
_NEWTON_STEPS = 200
_HALVINGS = 40
_NEARLY = 1e4


@njit(cache=True, nogil=True)
def _clipped_sum(v, nu, starts, first, last, lower, upper, multiplier):  # type: ignore[no-untyped-def]
    """The sum over the groups from `first` up to `last`, each within its bounds, of max(0, v + ν + multiplier), and its
    slope."""
    total = 0.0
    slope = 0
    for g in range(first, last):
        if upper[g] == 0.0:
            continue
        group, positive = 0.0, 0
        for k in range(starts[g], starts[g + 1]):
            value = v[k] + nu[k] + multiplier
            group += max(value, 0.0)
            positive += value > 0.0
        if group < lower[g]:
            total += lower[g]
        elif group > upper[g]:
            total += upper[g]
        else:
            total += group
            slope += positive
    return total, slope


@njit(cache=True, nogil=True)
def _multiplier_of_total(v, nu, starts, first, last, lower, upper, total, start):  # type: ignore[no-untyped-def]
    """The λ for which the clipped sum equals the total."""
    low, high = -np.inf, np.inf
    multiplier = start
    reach = 1.0
    tolerance = 1e-12 + 4e-15 * total
    for _ in range(_ROOT_STEPS):
        value, slope = _clipped_sum(v, nu, starts, first, last, lower, upper, multiplier)
        excess = value - total
        if abs(excess) <= tolerance:
            break
        if excess > 0.0:
            high = multiplier
        else:
            low = multiplier
        if slope > 0:
            following = multiplier - excess / slope
        else:
            following = multiplier - np.sign(excess) * reach
            reach *= 4.0
        if not low < following < high:
            following = (
                0.5 * (low + high)
                if np.isfinite(low) and np.isfinite(high)
                else multiplier + (-np.sign(excess) * reach)
            )
        if following == multiplier:
            break
        multiplier = following
    return multiplier


@njit(cache=True, nogil=True)
def _multiplier_of_group(v, nu, first, last, shift, target, values):  # type: ignore[no-untyped-def]
    """The μ for which the sum of max(0, v + ν + shift + μ) over the cells of a group equals the target (> 0). The sum
    is convex in μ, so Newton steps that start where it is at least the target descend to the root. A cell that is not
    positive at one step is not positive at any later one: `values` keeps the positive ones."""
    largest, kept = -np.inf, last - first
    for k in range(first, last):
        values[k - first] = v[k] + nu[k] + shift
        largest = max(largest, values[k - first])
    multiplier = target - largest
    for _ in range(_ROOT_STEPS):
        total, positive = 0.0, 0
        for k in range(kept):
            value = values[k] + multiplier
            total += max(value, 0.0)
            values[positive] = values[k]
            positive += value > 0.0
        kept = positive
        excess = total - target
        if excess <= 1e-13 * target or positive == 0:
            break
        following = multiplier - excess / positive
        if following == multiplier:
            break
        multiplier = following
    return multiplier


@njit(cache=True, nogil=True)
def _project_children(v, nu, starts, sections, lower, upper, totals, lam, mu, x):  # type: ignore[no-untyped-def]
    """Write every child's x for given ν into `x`, its λ, which is 0 if the total is free, into `lam`, and its μ."""
    values = np.empty(v.shape[1])
    for c in range(v.shape[0]):
        for s in range(sections.size - 1):
            shift = 0.0
            if not np.isnan(totals[c, s]):
                shift = _multiplier_of_total(
                    v[c], nu, starts, sections[s], sections[s + 1], lower[c], upper[c], totals[c, s], lam[c, s]
                )
            lam[c, s] = shift
            for g in range(sections[s], sections[s + 1]):
                first, last = starts[g], starts[g + 1]
                mu[c, g] = 0.0
                if upper[c, g] == 0.0 or first == last:
                    x[c, first:last] = 0.0
                    continue
                group = 0.0
                for k in range(first, last):
                    x[c, k] = max(0.0, v[c, k] + nu[k] + shift)
                    group += x[c, k]
                target = min(max(group, lower[c, g]), upper[c, g])
                if target != group:
                    mu[c, g] = _multiplier_of_group(v[c], nu, first, last, shift, target, values)
                    for k in range(first, last):
                        x[c, k] = max(0.0, v[c, k] + nu[k] + shift + mu[c, g])


@njit(cache=True, nogil=True)
def _residual(parent, tolerated, x, residual):  # type: ignore[no-untyped-def]
    """Write the parent less the children's sum, by cell, into `residual`. Returns the largest over its tolerance."""
    residual[:] = parent
    for c in range(x.shape[0]):
        for k in range(x.shape[1]):
            residual[k] -= x[c, k]
    worst = 0.0
    for k in range(parent.size):
        worst = max(worst, abs(residual[k]) / (tolerated + 4e-15 * parent[k]))
    return worst


@njit(cache=True, nogil=True)
def _newton_direction(v, nu, starts, sections, upper, totals, lam, mu, x, parent, residual, direction):  # type: ignore[no-untyped-def]
    """The semismooth Newton direction in ν, by conjugate gradients scaled by the diagonal."""
    children, cells = x.shape
    groups = starts.size - 1
    block_of = np.empty((children, groups), dtype=np.int64)
    blocks = 0
    for c in range(children):
        for s in range(sections.size - 1):
            own = -1
            for g in range(sections[s], sections[s + 1]):
                if upper[c, g] == 0.0:
                    block_of[c, g] = -1
                elif mu[c, g] != 0.0:
                    block_of[c, g] = blocks
                    blocks += 1
                elif np.isnan(totals[c, s]):
                    block_of[c, g] = -1
                else:
                    if own < 0:
                        own = blocks
                        blocks += 1
                    block_of[c, g] = own
    weight = np.zeros(blocks)
    diagonal = np.zeros(cells)
    entries = 0
    for c in range(children):
        for g in range(groups):
            for k in range(starts[g], starts[g + 1]):
                if x[c, k] > 0.0:
                    diagonal[k] += 1.0
                    if block_of[c, g] >= 0:
                        weight[block_of[c, g]] += 1.0
                        entries += 1
    entry_cell = np.empty(entries, dtype=np.int64)
    entry_block = np.empty(entries, dtype=np.int64)
    entry = 0
    for c in range(children):
        for g in range(groups):
            block = block_of[c, g]
            if block >= 0:
                for k in range(starts[g], starts[g + 1]):
                    if x[c, k] > 0.0:
                        entry_cell[entry] = k
                        entry_block[entry] = block
                        entry += 1
    norm = 0.0
    for k in range(cells):
        norm = max(norm, abs(residual[k]))
    for k in range(cells):
        direction[k] = 0.0
    r = residual.copy()
    # A cell that is 0 in every child has no curvature: its ν is raised until one child has the parent's count.
    lifted = np.zeros(cells)
    for k in range(cells):
        if diagonal[k] == 0.0:
            group = np.searchsorted(starts, k, side="right") - 1
            section = np.searchsorted(sections, group, side="right") - 1
            highest = -np.inf
            for c in range(children):
                if upper[c, group] > 0.0:
                    highest = max(highest, v[c, k] + nu[k] + lam[c, section] + mu[c, group])
            lifted[k] = parent[k] - highest
            r[k] = 0.0
    # If the positive cells do not connect all children, the matrix is singular: the diagonal is slightly enlarged.
    scale = 1.0 + min(1e-4, 1e-8 + 1e-6 * norm)
    z = np.zeros(cells)
    for k in range(cells):
        if diagonal[k] > 0.0:
            z[k] = r[k] / diagonal[k]
    p = z.copy()
    rz = _inner(r, z)
    limit = rz * 1e-20
    sums = np.empty(blocks)
    product = np.empty(cells)
    for _ in range(2 * (blocks + 1) + 20):
        if rz <= limit or rz == 0.0:
            break
        sums[:] = 0.0
        for e in range(entries):
            sums[entry_block[e]] += p[entry_cell[e]]
        for b in range(blocks):
            sums[b] /= max(weight[b], 1.0)
        for k in range(cells):
            product[k] = scale * diagonal[k] * p[k]
        for e in range(entries):
            product[entry_cell[e]] -= sums[entry_block[e]]
        curvature = _inner(p, product)
        if curvature <= 0.0:
            break
        step = rz / curvature
        for k in range(cells):
            direction[k] += step * p[k]
            r[k] -= step * product[k]
            z[k] = r[k] / diagonal[k] if diagonal[k] > 0.0 else 0.0
        following = _inner(r, z)
        ratio = following / rz
        rz = following
        for k in range(cells):
            p[k] = z[k] + ratio * p[k]
    for k in range(cells):
        if lifted[k] != 0.0:
            direction[k] = lifted[k]


@njit(cache=True, nogil=True)
def _inner(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@njit(cache=True, nogil=True)
def project_together(v, parent, starts, sections, lower, upper, totals, nu, lam, mu, x):  # type: ignore[no-untyped-def]
    """Write the projection of `v` onto the constraints into `x`. Starts from the given multipliers and updates them.

    Args:
        v, x: shape (children, cells), the cells in order of their groups.
        parent: shape (cells,); empty if there is no parent, so that children are independent.
        starts: shape (groups + 1,): group g has the cells from `starts[g]` up to `starts[g + 1]`.
        sections: shape (sections + 1,): section s has the groups from `sections[s]` up to `sections[s + 1]`.
        lower, upper: shape (children, groups): bounds of the groups' counts; if the upper is 0, the cells are 0.
        totals: shape (children, sections): fixed totals; NaN where a total is free.
        nu, lam, mu: shapes (cells,), (children, sections) and (children, groups).

    Returns the largest difference over cells between the parent and the children's sum, as a multiple of the rounding
    errors in double precision. If it is above 1, no step came closer.
    """
    _project_children(v, nu, starts, sections, lower, upper, totals, lam, mu, x)
    if parent.size == 0:
        return 0.0
    cells = parent.size
    residual = np.empty(cells)
    following = np.empty(cells)
    direction = np.empty(cells)
    trial = np.empty(cells)
    tolerated = 1e-12 + 2e-15 * parent.sum()
    worst = _residual(parent, tolerated, x, residual)
    stalled = 0
    for _ in range(_NEWTON_STEPS):
        if worst <= 1.0:
            break
        _newton_direction(v, nu, starts, sections, upper, totals, lam, mu, x, parent, residual, direction)
        slope = _inner(residual, direction)
        if not slope > 0.0:
            direction[:] = residual / v.shape[0]
            slope = _inner(residual, direction)
        length = 1.0
        reached = worst
        for _ in range(_HALVINGS):
            for k in range(cells):
                trial[k] = nu[k] + length * direction[k]
            _project_children(v, trial, starts, sections, lower, upper, totals, lam, mu, x)
            reached = _residual(parent, tolerated, x, following)
            # The dual is concave along the direction: it still rises, or has only just begun to fall.
            if reached <= 1.0 or _inner(following, direction) >= -0.1 * slope:
                break
            length *= 0.5
        nu[:] = trial
        residual[:] = following
        stalled = stalled + 1 if reached < _NEARLY and reached > 0.5 * worst else 0
        worst = reached
        if stalled == 3:
            break
    return worst


@njit(cache=True, nogil=True)
def project(v, parent, starts, sections, lower, upper, totals, nu, lam, mu, x):  # type: ignore[no-untyped-def]
    """As `project_together`, but section by section, as sections are independent. A section of one group with given
    counts is a table. Without a parent, children are independent, and all sections are projected at once."""
    if sections.size == 2 or parent.size == 0:
        return project_together(v, parent, starts, sections, lower, upper, totals, nu, lam, mu, x)
    worst, children = 0.0, np.empty(v.shape[0], dtype=np.int64)
    for s in range(sections.size - 1):
        first, last = sections[s], sections[s + 1]
        cells, groups = slice(starts[first], starts[last]), slice(first, last)
        if last == first + 1 and np.isnan(totals[:, s]).all():
            filled = 0
            for c in range(v.shape[0]):
                if upper[c, first] > 0.0:
                    children[filled] = c
                    filled += 1
                elif lower[c, first] == upper[c, first]:
                    x[c, cells] = 0.0
                    mu[c, first] = 0.0
            own = children[:filled]
            if np.array_equal(lower[own, first], upper[own, first]) and (
                min(filled, starts[last] - starts[first]) <= LONGEST_SIDE
            ):
                worst = max(worst, _project_group(v, parent, starts, first, own, upper[own, first], nu, mu, x))
                continue
        own_x, own_nu = x[:, cells].copy(), nu[cells].copy()
        own_lam, own_mu = lam[:, s : s + 1].copy(), mu[:, groups].copy()
        own_starts, own_section = starts[first : last + 1] - starts[first], np.array([0, last - first])
        lacking = project_together(
            v[:, cells].copy(), parent[cells].copy(), own_starts, own_section,
            lower[:, groups].copy(), upper[:, groups].copy(), totals[:, s : s + 1].copy(), own_nu, own_lam, own_mu,
            own_x,
        )  # fmt: skip
        worst = max(worst, lacking)
        x[:, cells], nu[cells], lam[:, s : s + 1], mu[:, groups] = own_x, own_nu, own_lam, own_mu
    return worst


@njit(cache=True, nogil=True)
def _project_group(v, parent, starts, group, children, sums, nu, mu, x):  # type: ignore[no-untyped-def]
    """`project` for a group that is a table of some children and its cells."""
    first, cells = starts[group], starts[group + 1] - starts[group]
    if cells == 1:
        for c in range(children.size):
            x[children[c], first] = sums[c]
            mu[children[c], group] = sums[c] - v[children[c], first] - nu[first]
        return 0.0
    by_cell = children.size <= cells
    table = np.empty((cells, children.size) if by_cell else (children.size, cells))
    of_children = np.empty(children.size)
    for c in range(children.size):
        of_children[c] = mu[children[c], group]
        for k in range(cells):
            if by_cell:
                table[k, c] = v[children[c], first + k]
            else:
                table[c, k] = v[children[c], first + k]
    of_cells, above = nu[first : first + cells], parent[first : first + cells]
    found = np.empty(table.shape)
    if by_cell:
        lacking = project_table(table, above, sums, of_cells, of_children, found)
    else:
        lacking = project_table(table, sums, above, of_children, of_cells, found)
    for c in range(children.size):
        mu[children[c], group] = of_children[c]
        for k in range(cells):
            x[children[c], first + k] = found[k, c] if by_cell else found[c, k]
    return lacking
