"""The integer step: from real-valued histograms of siblings to nearby integers that meet the same constraints.

It is controlled rounding, query by query from coarse to fine. `schema` lists the queries; `least_squares` computes the
real values.

Every cell, and every marginal of the rounded queries, goes up or down to a neighboring integer; an integer stays. The
queries refine each other, so a child's counts form a tree, and the children's cells meet in the parent's. The choices
are therefore a flow of 0 or 1 through a network, which has an integral solution wherever it has a real one (Edmonds,
1970): the real values are one. The distance |y − m| of an integer y next to m is linear in the choice. Query by query
from coarse to fine, the sum of these distances is minimized in integer arithmetic (`network`), among the choices that
keep the distances of all coarser queries least. So every cell and every marginal differs by less than 1 from its real
value, and the L1 distance of each query is the least that those of coarser queries allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.network import cheapest_flow
from mechanisms.topdown.schema import add_up

Bounds: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
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
    """Siblings' histograms as integers, shape (children, cells).

    Args:
        x: shape (children, cells): the real values, which meet the constraints up to `NEAR`.
        chain: for each rounded query, from coarse to fine, shape (cells,): the marginal cell of each cell, numbered
            from 0. Each query refines the one before.
        parent: shape (cells,): the children's sum; None at the root.
        bounds: by query of the chain; None for a query without bounds. A fixed total has equal bounds.

    Raises:
        NotRoundedError: if there are no such integers.
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
    """By level, the choices taken, each 0 or 1; None if none meet the constraints.

    A choice up is a flow from the node of the coarser answer, of which its own is a part, to its own node. A cell has
    no node of its own: it leads to that of the parent's cell, or back to the root. A choice down flows the other way.
    """
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
