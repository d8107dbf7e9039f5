"""The integer step: from real-valued histograms of siblings to nearby integers that meet the same constraints.

It is controlled rounding, query by query from coarse to fine. `schema` lists the queries; `least_squares` computes the
real values.

Every cell, and every marginal of the rounded queries, goes up or down to a neighboring integer; an integer stays. The
queries refine each other, so a child's counts form a tree, and the children's cells meet in the parent's. The choices
are therefore a flow of 0 or 1 through a network, which has an integral solution wherever it has a real one (Edmonds,
1970): the real values are one. The distance |y − m| of an integer y next to m is linear in the choice. Query by query
from coarse to fine, the sum of these distances is minimized in integer arithmetic, among the choices that keep the
distances of all coarser queries least. So every cell and every marginal differs by less than 1 from its real value, and
the L1 distance of each query is the least that those of coarser queries allow.

The network simplex method, compiled, moves from spanning tree to spanning tree of the network. The first stage finds a
flow that meets all balances. Every further stage minimizes the cost of its own arcs. A stage ends when no arc has a
reduced cost that lowers the total. An arc with a reduced cost that is not 0 then has the same flow in every optimal
flow, so it is left as it is, and the arcs that remain keep all earlier costs least, whatever later stages do.

Trees are strongly feasible (Cunningham, 1976): from every node, some flow can be sent along the tree to the root. Among
the arcs that limit a change, the last one around the cycle leaves, which keeps trees so and rules out cycling. All
costs are integers, so there are no tolerances.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.topdown.schema import add_up

Bounds = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The least and the greatest answers to a query, shape (children, marginal cells) each."""

NEAR = 1e-5
"""A real value this near to an integer counts as that integer. If this leaves no solution, it may go up or down too."""

_UNIT = 2.0**16
"""Distances are integers in fractions of a person or unit that are about as small as `NEAR`. In smaller ones, errors of
the real-valued step would decide between coarse answers that are equally near, at the cost of finer answers."""


class NotRoundedError(ArithmeticError):
    """No nearby integers replace the histograms, or the solver did not find them."""


@dataclass(frozen=True)
class _Answers:
    """The real answers to a query and the integers allowed: `base`, one more where `up`, one less where `down`."""

    nodes: NDArray[np.int64]
    real: NDArray[np.float64]
    base: NDArray[np.int64]
    up: NDArray[np.bool_]
    down: NDArray[np.bool_]

    def chosen(self, choices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The answers after the choices; `choices` lists those up first."""
        answers = self.base.copy()
        ups = int(self.up.sum())
        answers[self.up] += choices[:ups]
        answers[self.down] -= choices[ups:]
        return answers


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
    maps = [np.asarray(nodes, dtype=np.int64) for nodes in chain] + [np.arange(x.shape[1])]
    limits = [*bounds, None]
    for widened in (False, True):
        levels = [_answers(x, nodes, limit, widened) for nodes, limit in zip(maps, limits, strict=True)]
        choices = _choices(levels, parent)
        if choices is not None:
            rounded = [level.chosen(own) for level, own in zip(levels, choices, strict=True)]
            _require(rounded, maps, parent, limits)
            return rounded[-1]
    raise NotRoundedError(f"{x.shape[0]} children of {x.shape[1]} cells: no integers within 1 meet the constraints")


def _answers(x: NDArray[np.float64], nodes: NDArray[np.int64], limits: Bounds | None, widened: bool) -> _Answers:
    real = add_up(x, nodes, int(nodes.max(initial=-1)) + 1)
    nearest = np.rint(real)
    near = np.abs(real - nearest) <= NEAR
    below = np.where(near, nearest, np.floor(real)).astype(np.int64)
    least, greatest = limits or (np.zeros_like(below), np.full_like(below, np.iinfo(np.int64).max))
    base = np.clip(below, least, greatest)
    free = base == below
    up = free & (~near | widened) & (base < greatest)
    return _Answers(nodes, real, base, up, free & near & widened & (base > least))


def _choices(levels: Sequence[_Answers], parent: NDArray[np.int64] | None) -> list[NDArray[np.int64]] | None:
    """By level, the choices taken, each 0 or 1; None if none meet the constraints. A choice up is a flow from the node
    of the coarser answer, of which its own is a part, to its own node. A cell has no node of its own: it leads to that
    of the parent's cell, or back to the root. A choice down flows the other way."""
    tails, heads, stages, costs, balances = [], [], [], [], [np.zeros(1, dtype=np.int64)]
    above = np.zeros((len(levels[0].base), 1), dtype=np.int64)
    first = 1
    for stage, level in enumerate(levels):
        children, nodes = level.base.shape
        part_of = np.zeros(nodes, dtype=np.int64)
        if stage:
            coarser = levels[stage - 1]
            part_of[level.nodes] = coarser.nodes
            balances.append((coarser.base - add_up(level.base, part_of, coarser.base.shape[1])).ravel())
        above = above[:, part_of]
        if stage < len(levels) - 1:
            own = np.arange(first, first + children * nodes).reshape(children, nodes)
            first += children * nodes
        elif parent is not None:
            own = np.tile(np.arange(first, first + nodes), (children, 1))
            balances.append(level.base.sum(axis=0) - parent)
        else:
            own = np.zeros((children, nodes), dtype=np.int64)
        for chosen, sign, tail, head in ((level.up, 1, above, own), (level.down, -1, own, above)):
            real, base = level.real[chosen], level.base[chosen]
            tails.append(tail[chosen])
            heads.append(head[chosen])
            costs.append(np.rint((np.abs(base + sign - real) - np.abs(base - real)) * _UNIT).astype(np.int64))
            stages.append(np.full(len(base), stage))
        above = own
    every_tail, every_head, balance = np.concatenate(tails), np.concatenate(heads), np.concatenate(balances)
    used = np.zeros(len(balance), dtype=bool)
    used[0] = used[every_tail] = used[every_head] = True
    if balance[~used].any():
        return None
    number = np.cumsum(used) - 1
    flow = cheapest_flow(
        number[every_tail], number[every_head], np.concatenate(stages), np.concatenate(costs), balance[used]
    )
    if flow is None:
        return None
    of_levels = np.cumsum([len(up) + len(down) for up, down in zip(tails[::2], tails[1::2], strict=True)])
    return np.split(flow, of_levels[:-1])


def _require(
    rounded: Sequence[NDArray[np.int64]],
    maps: Sequence[NDArray[np.int64]],
    parent: NDArray[np.int64] | None,
    bounds: Sequence[Bounds | None],
) -> None:
    """Check all constraints in integers, whatever the solver's tolerances."""
    histograms = rounded[-1]
    sound = bool(np.all(histograms >= 0))
    if parent is not None:
        sound &= np.array_equal(histograms.sum(axis=0), parent)
    for answers, nodes, limits in zip(rounded, maps, bounds, strict=True):
        sound &= np.array_equal(add_up(histograms, nodes, answers.shape[1]), answers)
        if limits is not None:
            sound &= bool(np.all((limits[0] <= answers) & (answers <= limits[1])))
    if not sound:
        raise NotRoundedError(f"{histograms.shape[0]} children of {histograms.shape[1]} cells: a constraint is not met")


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
    """The flow of every arc, 0 or 1, that meets the balances with the least cost of the first stage; of these, that of
    the second; and so on. None if no flow meets the balances.

    Args:
        tails, heads: shape (arcs,): the nodes that an arc leads from and to. Node 0 is the root.
        stages: shape (arcs,): the stage at which an arc's cost counts, from 0.
        costs: shape (arcs,): their sums must stay below 2^62.
        balances: shape (nodes,): what flows out of a node less what flows in; that of the root is not read.
    """
    nodes, arcs = len(balances), len(tails)
    others = np.arange(1, nodes)
    # Every node has an arc of its own from or to the root, which must end without a flow.
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
    # The part of the tree below the arc that leaves is hung up anew at the arc that enters.
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
