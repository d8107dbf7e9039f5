"""The integer step: from real-valued histograms of siblings to nearby integers that meet the same constraints.

It is controlled rounding, query by query from coarse to fine. `schema` lists the queries; `least_squares` computes the
real values.

Every cell, and every marginal of the rounded queries, goes up or down to a neighboring integer; an integer stays. The
queries refine each other, so a child's counts form a tree, and the children's cells meet in the parent's. The choices
are therefore a flow of 0 or 1 through a network, which has an integral solution wherever it has a real one (Edmonds,
1970): the real values are one. The distance |y − m| of an integer y next to m is linear in the choice. Query by query
from coarse to fine, the sum of these distances is minimized in integer arithmetic, among the choices that keep the
distances of all coarser queries least. So every cell and every marginal differs by less than 1 from its real value, and
the L1 distance of each query is the least that the distances of coarser queries allow.

The network simplex method, compiled, moves from spanning tree to spanning tree of the network. The first stage finds a
flow that meets all balances. Every further stage minimizes the cost of its own arcs. A stage ends when no arc has a
reduced cost that lowers the total. An arc with a reduced cost that is not 0 then has the same flow in every optimal
flow, so it is left as it is, and the remaining arcs keep all earlier costs least in all later stages.

Trees are strongly feasible (Cunningham, 1976): from every node, some flow can be sent along the tree to the root. Among
the arcs that limit a change, the last one around the cycle leaves, which keeps trees strongly feasible and rules out
cycling. All costs are integers, so there are no tolerances.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bounds = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The least and the greatest answers to a query, shape (children, marginal cells) each."""

NEAR = 1e-5
"""A real value this near to an integer counts as that integer. If this leaves no solution, it may go up or down too."""

_UNIT = 2.0**16
"""Distances are integers in fractions of a person or unit that are about as small as `NEAR`. In smaller ones, errors of
the real-valued step would decide between coarse answers that are equally near, at the cost of finer answers."""


class NotRoundedError(ArithmeticError):
    """No nearby integers replace the histograms, or the solver did not find them."""


def round_children(
    x: NDArray[np.float64],
    chain: Sequence[NDArray[np.int32]],
    parent: NDArray[np.int64] | None,
    bounds: Sequence[Bounds | None],
) -> NDArray[np.int64]:
    """Siblings' histograms as integers, shape (children, cells). Raises NotRoundedError if there are no such integers.

    Args:
        x: shape (children, cells): the real values, which meet the constraints up to `NEAR`.
        chain: for each rounded query, from coarse to fine, shape (cells,): the marginal cell of each cell, numbered
            from 0. Each query refines the one before.
        parent: shape (cells,): the children's sum; None at the root.
        bounds: by query of the chain; None for a query without bounds. A fixed total has equal bounds.
    """
    children, cells = x.shape
    maps = np.array([*chain, np.arange(cells)], dtype=np.int64).reshape(len(chain) + 1, cells)
    begins = np.concatenate([[0], np.cumsum(maps.max(axis=1, initial=-1) + 1)])
    least = np.zeros((children, begins[-1]), dtype=np.int64)
    greatest = np.full(least.shape, np.iinfo(np.int64).max)
    for number, limits in enumerate(bounds):
        if limits is not None:
            least[:, begins[number] : begins[number + 1]], greatest[:, begins[number] : begins[number + 1]] = limits
    sums = np.empty(0, np.int64) if parent is None else np.require(parent, np.int64, ["C", "W"])
    reals = np.require(x, np.float64, ["C", "W"])
    for widened in (False, True):
        real, base, up, down = _answer(reals, maps, begins, least, greatest, widened)
        tails, heads, stages, costs, balances = _list_arcs(real, base, up, down, maps, begins, sums)
        flow = cheapest_flow(tails, heads, stages, costs, balances) if len(balances) else None
        if flow is not None:
            _choose(base, up, down, begins, flow)
            if not _meets(base, maps, begins, sums, least, greatest):
                raise NotRoundedError(f"{children} children of {cells} cells: a constraint is not met")
            return base[:, begins[-2] :]
    raise NotRoundedError(f"{children} children of {cells} cells: no integers within 1 meet the constraints")


@njit(cache=True, nogil=True)
def _answer(x, maps, begins, least, greatest, widened):  # type: ignore[no-untyped-def]
    """The real answers to all queries next to each other, shape (children, answers), and the integers allowed: `base`,
    one more where `up`, one less where `down`."""
    real, base = np.zeros(least.shape), np.empty(least.shape, np.int64)
    up, down = np.zeros(least.shape, np.bool_), np.zeros(least.shape, np.bool_)
    for c in range(x.shape[0]):
        for stage in range(maps.shape[0]):
            for k in range(x.shape[1]):
                real[c, begins[stage] + maps[stage, k]] += x[c, k]
        for m in range(real.shape[1]):
            nearest = np.rint(real[c, m])
            near = abs(real[c, m] - nearest) <= NEAR
            below = np.int64(nearest if near else np.floor(real[c, m]))
            base[c, m] = min(max(below, least[c, m]), greatest[c, m])
            if base[c, m] == below:
                up[c, m] = (not near or widened) and below < greatest[c, m]
                down[c, m] = near and widened and below > least[c, m]
    return real, base, up, down


@njit(cache=True, nogil=True)
def _list_arcs(real, base, up, down, maps, begins, parent):  # type: ignore[no-untyped-def]
    """The choices as arcs, as `cheapest_flow` takes them, query by query, those up first; without any balances if no
    choices can meet the constraints. A choice up is a flow from the node of the coarser answer, of which its own is a
    part, to its own node. A cell has no node: it leads to the node of the parent's cell, or back to the root. A choice
    down flows the other way."""
    children, last = base.shape[0], maps.shape[0] - 1
    balance = np.zeros(1 + children * begins[last] + parent.size, np.int64)
    used = np.zeros(balance.size, np.bool_)
    arcs = up.sum() + down.sum()
    tails, heads = np.empty(arcs, np.int64), np.empty(arcs, np.int64)
    stages, costs = np.empty(arcs, np.int64), np.empty(arcs, np.int64)
    used[0], at, first, above = True, 0, 1, 0
    for stage in range(last + 1):
        begin, nodes = begins[stage], begins[stage + 1] - begins[stage]
        coarser = begins[stage] - begins[stage - 1] if stage else 0
        # Cells are nodes of the parent, which all children share.
        of_child, is_node = nodes if stage < last else 0, stage < last or parent.size > 0
        part_of = np.zeros(nodes, np.int64)
        if stage:
            for k in range(maps.shape[1]):
                part_of[maps[stage, k]] = maps[stage - 1, k]
        for sign in (1, -1):
            allowed = up if sign > 0 else down
            for c in range(children):
                for m in range(nodes):
                    if not allowed[c, begin + m]:
                        continue
                    tail = above + c * coarser + part_of[m] if stage else 0
                    head = first + c * of_child + m if is_node else 0
                    tails[at], heads[at] = (tail, head) if sign > 0 else (head, tail)
                    own, value = base[c, begin + m], real[c, begin + m]
                    costs[at] = np.int64(np.rint((abs(own + sign - value) - abs(own - value)) * _UNIT))
                    stages[at] = stage
                    used[tail] = used[head] = True
                    at += 1
        for c in range(children):
            for m in range(nodes):
                if stage:
                    balance[above + c * coarser + part_of[m]] -= base[c, begin + m]
                if is_node:
                    balance[first + c * of_child + m] += base[c, begin + m]
        above = first
        first += children * nodes
    for k in range(parent.size):
        balance[above + k] -= parent[k]
    number = np.cumsum(used) - 1
    for node in range(balance.size):
        if balance[node] != 0 and not used[node]:
            return tails, heads, stages, costs, balance[:0]
    return number[tails], number[heads], stages, costs, balance[used]


@njit(cache=True, nogil=True)
def _choose(base, up, down, begins, flow):  # type: ignore[no-untyped-def]
    """Add the choices, in the order of `_list_arcs`, to the answers."""
    at = 0
    for stage in range(begins.size - 1):
        for sign in (1, -1):
            allowed = up if sign > 0 else down
            for c in range(base.shape[0]):
                for m in range(begins[stage], begins[stage + 1]):
                    if allowed[c, m]:
                        base[c, m] += sign * flow[at]
                        at += 1


@njit(cache=True, nogil=True)
def _meets(answers, maps, begins, parent, least, greatest):  # type: ignore[no-untyped-def]
    """Whether integers meet all constraints, checked independently of the solver."""
    cells = begins[-2]
    sums = np.zeros(begins[-1], np.int64)
    left = parent.copy()
    for c in range(answers.shape[0]):
        sums[:] = 0
        for k in range(maps.shape[1]):
            count = answers[c, cells + k]
            if parent.size:
                left[k] -= count
            for stage in range(maps.shape[0]):
                sums[begins[stage] + maps[stage, k]] += count
        for m in range(sums.size):
            if answers[c, m] != sums[m] or not max(least[c, m], 0) <= answers[c, m] <= greatest[c, m]:
                return False
    return not left.any()


_UNLIMITED = 1 << 60
_AT_LOWER, _LEFT, _AT_UPPER = 1, 0, -1
"""The states of an arc: it may enter the tree with a flow of 0 or of 1; or it is in the tree, or left as it is."""


def cheapest_flow(
    tails: NDArray[np.int64],
    heads: NDArray[np.int64],
    stages: NDArray[np.int64],
    costs: NDArray[np.int64],
    balances: NDArray[np.int64],
) -> NDArray[np.int64] | None:
    """The flow of every arc, 0 or 1, that meets the balances with the least cost of the first stage; among such flows,
    the least cost of the second; and so on. None if no flow meets the balances.

    Args:
        tails, heads: shape (arcs,): the nodes that an arc leads from and to. Node 0 is the root.
        stages: shape (arcs,): the stage at which an arc's cost counts, from 0.
        costs: shape (arcs,): their sums must stay below 2^62.
        balances: shape (nodes,): the flow out of a node less the flow in; the root's is not read.
    """
    nodes, arcs = len(balances), len(tails)
    others = np.arange(1, nodes)
    # Every node has its own arc from or to the root, which must end without a flow.
    out = balances[1:] >= 0
    flow = np.concatenate([np.zeros(arcs, dtype=np.int64), np.abs(balances[1:])])
    feasible = _simplex(
        np.concatenate([tails, np.where(out, others, 0)]),
        np.concatenate([heads, np.where(out, 0, others)]),
        np.concatenate([stages, np.full(nodes - 1, -1, dtype=np.int64)]),
        np.concatenate([costs, np.ones(nodes - 1, dtype=np.int64)]),
        flow,
        arcs,
        int(stages.max(initial=-1)),
    )
    return flow[:arcs] if feasible else None


@njit(cache=True, nogil=True)
def _simplex(tails, heads, stages, costs, flow, arcs, last_stage):  # type: ignore[no-untyped-def]
    """Optimize `flow`, starting from the tree of the arcs after the first `arcs`; whether these end without any."""
    nodes = tails.size - arcs + 1
    state = np.empty(tails.size, dtype=np.int8)
    state[:arcs] = _AT_LOWER
    state[arcs:] = _LEFT
    parent, arc_of, depth = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.ones(nodes, np.int64)
    child, following, preceding = np.full(nodes, -1), np.full(nodes, -1), np.full(nodes, -1)
    potential, stack = np.zeros(nodes, np.int64), np.empty(nodes, np.int64)
    depth[0] = 0
    for node in range(1, nodes):
        arc_of[node] = arcs + node - 1
        _attach(node, 0, parent, child, following, preceding)
    eligible = np.arange(arcs)
    for stage in range(-1, last_stage + 1):
        _set_potentials(stage, tails, stages, costs, parent, arc_of, child, following, potential, stack)
        position, size = 0, max(10, int(np.sqrt(eligible.size)))
        while True:
            entering, least, looked_at = -1, 0, 0
            while looked_at < eligible.size:
                for _ in range(min(size, eligible.size - looked_at)):
                    arc = eligible[position]
                    position = position + 1 if position + 1 < eligible.size else 0
                    looked_at += 1
                    if state[arc] != _LEFT:
                        reduced = _reduced(arc, stage, tails, heads, stages, costs, potential) * state[arc]
                        if reduced < least:
                            entering, least = arc, reduced
                if entering >= 0:
                    break
            if entering < 0:
                break
            _pivot(
                entering, stage, arcs, tails, heads, stages, costs, flow, state, parent, arc_of, depth, child,
                following, preceding, potential, stack,
            )  # fmt: skip
        if stage < 0 and flow[arcs:].any():
            return False
        kept = 0
        for arc in eligible:
            if state[arc] != _LEFT and _reduced(arc, stage, tails, heads, stages, costs, potential) != 0:
                state[arc] = _LEFT
            else:
                eligible[kept] = arc
                kept += 1
        eligible = eligible[:kept]
    return True


@njit(cache=True, nogil=True)
def _reduced(arc, stage, tails, heads, stages, costs, potential):  # type: ignore[no-untyped-def]
    own = costs[arc] if stages[arc] == stage else 0
    return own + potential[tails[arc]] - potential[heads[arc]]


@njit(cache=True, nogil=True)
def _attach(node, above, parent, child, following, preceding):  # type: ignore[no-untyped-def]
    parent[node] = above
    preceding[node] = -1
    following[node] = child[above]
    if child[above] >= 0:
        preceding[child[above]] = node
    child[above] = node


@njit(cache=True, nogil=True)
def _detach(node, parent, child, following, preceding):  # type: ignore[no-untyped-def]
    if preceding[node] >= 0:
        following[preceding[node]] = following[node]
    else:
        child[parent[node]] = following[node]
    if following[node] >= 0:
        preceding[following[node]] = preceding[node]


@njit(cache=True, nogil=True)
def _set_potentials(stage, tails, stages, costs, parent, arc_of, child, following, potential, stack):  # type: ignore[no-untyped-def]
    """The potentials with which every arc of the tree has a reduced cost of 0, and the root a potential of 0."""
    stack[0], filled = 0, 1
    while filled:
        filled -= 1
        node = stack[filled]
        if node:
            arc = arc_of[node]
            own = costs[arc] if stages[arc] == stage else 0
            potential[node] = potential[parent[node]] + (-own if tails[arc] == node else own)
        below = child[node]
        while below >= 0:
            stack[filled] = below
            filled += 1
            below = following[below]


@njit(cache=True, nogil=True)
def _pivot(  # type: ignore[no-untyped-def]
    entering, stage, arcs, tails, heads, stages, costs, flow, state, parent, arc_of, depth, child, following,
    preceding, potential, stack,
):  # fmt: skip
    """Change the flow around the cycle that an arc closes, and exchange the arc for one that limits the change."""
    first, second = (
        (tails[entering], heads[entering]) if state[entering] == _AT_LOWER else (heads[entering], tails[entering])
    )
    one, other = first, second
    while one != other:
        if depth[one] >= depth[other]:
            one = parent[one]
        else:
            other = parent[other]
    join = one
    change, leaving, from_first = 1, -1, False
    node = first
    while node != join:
        arc = arc_of[node]
        room = flow[arc] if tails[arc] == node else (1 if arc < arcs else _UNLIMITED) - flow[arc]
        if room < change:
            change, leaving, from_first = room, node, True
        node = parent[node]
    node = second
    while node != join:
        arc = arc_of[node]
        room = flow[arc] if heads[arc] == node else (1 if arc < arcs else _UNLIMITED) - flow[arc]
        if room <= change:
            change, leaving, from_first = room, node, False
        node = parent[node]
    if change:
        flow[entering] += change * state[entering]
        node = first
        while node != join:
            flow[arc_of[node]] += -change if tails[arc_of[node]] == node else change
            node = parent[node]
        node = second
        while node != join:
            flow[arc_of[node]] += -change if heads[arc_of[node]] == node else change
            node = parent[node]
    if leaving < 0:
        state[entering] = -state[entering]
        return
    left = arc_of[leaving]
    state[entering] = _LEFT
    state[left] = (_AT_LOWER if flow[left] == 0 else _AT_UPPER) if left < arcs else _LEFT
    # The part of the tree below the leaving arc is attached at the entering arc.
    top, above = (first, second) if from_first else (second, first)
    reduced = _reduced(entering, stage, tails, heads, stages, costs, potential)
    shift = -reduced if tails[entering] == top else reduced
    node, arc = top, entering
    while True:
        old_parent, old_arc = parent[node], arc_of[node]
        _detach(node, parent, child, following, preceding)
        _attach(node, above, parent, child, following, preceding)
        arc_of[node] = arc
        if node == leaving:
            break
        above, arc, node = node, old_arc, old_parent
    stack[0], filled = top, 1
    while filled:
        filled -= 1
        node = stack[filled]
        depth[node] = depth[parent[node]] + 1
        potential[node] += shift
        below = child[node]
        while below >= 0:
            stack[filled] = below
            filled += 1
            below = following[below]
