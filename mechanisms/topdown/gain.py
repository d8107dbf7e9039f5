"""The standard errors of linear estimates before any measurement, from budgets and a regular tree.

`information` has the mathematics, and the errors of estimates from measurements. Here, all places of a level have the
same number of children and only households, so no record is needed. The effect of non-negativity is not included.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.decomposition import Decomposition, Floats
from mechanisms.topdown.design import POPULATION, TopDownDesign
from mechanisms.topdown.information import prepare_sums
from mechanisms.topdown.schema import HOUSEHOLDS, PERSONS

SHOWN = {
    "population": np.ones(PERSONS.size, dtype=np.bool_),
    "of voting age": PERSONS.marginal("votingage").cells == 1,
    "a race × Hispanic cell": PERSONS.marginal("hispanic * cenrace").cells == 0,
    "a single cell": np.arange(PERSONS.size) == 0,
}
"""By name, the cells of persons that are added up."""


def compare_errors(design: TopDownDesign, places: Sequence[float]) -> dict[str, list[tuple[float, float]]]:
    """For each sum of `SHOWN`, by level, its standard errors without and with full estimation, if the levels have these
    numbers of places."""
    children = [max(below / above, 1.0) for above, below in pairwise(places)]
    own, full = (expect_errors(design, children, full=full) for full in (False, True))
    return {name: list(zip(own[name].tolist(), full[name].tolist(), strict=True)) for name in SHOWN}


def expect_errors(design: TopDownDesign, children: Sequence[float], *, full: bool) -> dict[str, Floats]:
    """For each sum of `SHOWN`, its standard error by level.

    `children` has the mean number of children of a place, from the root to the level above the finest. Estimates are
    made from each level's own measurements and the level above, or if `full`, from all measurements.
    """
    split, levels = Decomposition(PERSONS), design.levels
    rows = np.flatnonzero(split.possible & (split.groups == HOUSEHOLDS))
    held = levels.index(design.invariants[POPULATION]) if POPULATION in design.invariants else -1
    primed = list[NDArray[np.floating[Any]]]()
    for depth in reversed(range(len(levels))):
        queries = [(each.query, float(1 / each.variance)) for each in design.measured_at(PERSONS.name, levels[depth])]
        precision = split.add_precisions(queries)[:, rows[:, None], rows]
        if full and depth < len(children):
            below = children[depth] * primed[0]
            own = np.linalg.solve(np.eye(len(rows)) + below @ precision, below)
        else:
            own = np.linalg.inv(precision)
        along = own[0].sum(axis=1)
        if depth <= held and along.sum() > 1e-10 * np.trace(own[0]):
            own[0] -= np.outer(along, along) / along.sum()
        primed.insert(0, own)
    found = primed[:1]
    for count, own in zip(children, primed[1:], strict=True):
        solved = np.array([np.linalg.pinv(count * each, rcond=1e-10, hermitian=True) for each in own])
        found.append(own - own @ solved @ (count * own - found[-1]) @ solved @ own)
    squares = prepare_sums(split, np.array([*SHOWN.values()])).squares[:, :, rows[:, None], rows]
    variances = np.einsum("nsij,lsij->nl", squares, np.array(found))
    return dict(zip(SHOWN, np.sqrt(np.maximum(variances, 0.0)), strict=True))
