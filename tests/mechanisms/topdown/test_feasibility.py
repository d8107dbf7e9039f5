"""A declaration can be met, by every way down the tree, or it is refused.

For declarations that bounds and totals do not decide, see `test_sets`.
"""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mechanisms.topdown.estimation import Measurement, estimate
from mechanisms.topdown.feasibility import FREE, InfeasibleError, Limits, limit_by_occupancy, propagate
from mechanisms.topdown.schema import DETAILED, UNITS_BY_OCCUPANCY
from mechanisms.topdown.sets import satisfies_sets
from tests.depth import examples

LEVELS = ("State", "County", "Block")
PARENTS = (np.array([0, 0]), np.array([0, 0, 1]))
"""A state of two counties, with two blocks and one block."""


def declared(
    lower: list[list[int]], upper: list[list[int]], blocks: list[int] | None = None, state: int = FREE
) -> tuple[Limits, ...]:
    totals = [np.array([state]), None, None if blocks is None else np.array(blocks)]
    return propagate(LEVELS, PARENTS, np.array(lower), np.array(upper), totals)


def test_bounds_are_added_up_to_the_root() -> None:
    limits = declared([[0, 1], [0, 0], [0, 2]], [[9, 5], [8, 0], [7, 3]])
    assert limits[1].lower.tolist() == [[0, 1], [0, 2]]
    assert limits[1].upper.tolist() == [[17, 5], [7, 3]]
    assert limits[0].lower.tolist() == [[0, 3]]
    assert limits[0].upper.tolist() == [[24, 8]]
    assert all(np.all(level.totals == FREE) for level in limits)


def test_a_fixed_total_tightens_bounds() -> None:
    """Ten people, at least three of them in group quarters: at most seven in households, at least two."""
    limits = declared([[0, 1], [0, 0], [0, 2]], [[9, 5], [8, 0], [7, 3]], state=10)
    assert limits[0].lower.tolist() == [[2, 3]]
    assert limits[0].upper.tolist() == [[7, 8]]


@pytest.mark.parametrize("answer", [[0, 9], [9, 0]])
def test_units_are_occupied_where_people_live_and_by_no_more_than_these(answer: list[int]) -> None:
    """Blocks of 4, 3 and 5 units have no, two and nine persons, for any answers. Fails for: bounds of the
    blocks alone, which the state's estimate would break; every unit occupied or none; an occupied unit without
    persons."""
    units = declared([[0, 0]] * 3, [[4, 4], [3, 3], [5, 5]], blocks=[4, 3, 5])
    limits = limit_by_occupancy(LEVELS, PARENTS, units, np.array([0, 2, 9]))
    occupied = [
        [(int(own[0]), int(most[0])) for own, most in zip(each.lower, each.upper, strict=True)] for each in limits
    ]
    assert occupied == [[(2, 7)], [(1, 2), (1, 5)], [(0, 0), (1, 2), (1, 5)]]
    above: list[NDArray[np.int64] | None] = [None]
    for own, parents in zip(limits, [np.array([0]), *PARENTS], strict=True):
        starts = np.searchsorted(parents, np.arange(len(above) + 1))
        found = list[NDArray[np.int64] | None]()
        for parent, (first, last) in zip(above, pairwise(starts), strict=True):
            answers = np.tile(np.array([answer]), (last - first, 1))
            measured = (Measurement(DETAILED, Fraction(1), answers),)
            found += list(estimate(UNITS_BY_OCCUPANCY, measured, own.between(first, last), parent).histograms)
        above = found
    some = answer[0] > 0
    assert np.array(above).tolist() == [[0, 4], [2, 1] if some else [1, 2], [5, 0] if some else [1, 4]]


def test_a_total_is_fixed_where_it_is_the_sum_of_fixed_ones() -> None:
    limits = declared([[0, 0]] * 3, [[9, 9]] * 3, blocks=[4, 5, 6])
    assert limits[1].totals.tolist() == [9, 6]
    assert limits[0].totals.tolist() == [15]


@pytest.mark.parametrize(
    ("lower", "upper", "blocks", "state", "complaint"),
    [
        ([[0, 2], [0, 0], [0, 0]], [[9, 1], [9, 0], [9, 0]], None, FREE, "a lower bound exceeds the upper, in 1 of 3"),
        ([[0, -1], [0, 0], [0, -1]], [[9, 1]] * 3, None, FREE, "Block: a lower bound is negative, in 2 of 3 units"),
        ([[0, 1]] * 3, [[9, 9]] * 3, [0, 3, 0], FREE, "Block: the fixed total is less than the lower"),
        ([[0, 0]] * 3, [[1, 1]] * 3, [0, 3, 2], FREE, "Block: the fixed total is more than the upper"),
        ([[0, 1]] * 3, [[9, 9]] * 3, None, 2, "State: the fixed total is less than the lower bounds' sum, in 1 of 1"),
        ([[0, 0]] * 3, [[9, 9]] * 3, [1, 2, 3], 7, "State: the fixed totals of the units below add up to another than"),
        ([[0, 0]] * 3, [[9, 9]] * 3, [5, FREE, 6], 10, "State: the fixed total is less than the units below must add"),
        ([[0, 0]] * 3, [[9, 9]] * 3, [5, FREE, 6], 30, "State: the fixed total is more than the units below can add"),
    ],
)  # fmt: skip
def test_contradictions_are_refused_with_level_rule_and_count(
    lower: list[list[int]], upper: list[list[int]], blocks: list[int] | None, state: int, complaint: str
) -> None:
    with pytest.raises(InfeasibleError, match=complaint):
        declared(lower, upper, blocks, state)


def test_a_unit_with_nothing_below_it_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="State: 1 units have no unit below them"):
        propagate(("State", "Block"), (np.array([1]),), np.zeros((1, 1), int), np.ones((1, 1), int), [None] * 2)


def divisible(sums: NDArray[np.int64], limits: Limits) -> bool:
    """Whether children within their limits can add up to the sums: by trying all of the first two children."""
    boxes = [
        [range(low, high + 1) for low, high in zip(*pair, strict=True)]
        for pair in zip(limits.lower, limits.upper, strict=True)
    ]
    reachable = {(0,) * len(sums)}
    for box, total in zip(boxes, limits.totals, strict=True):
        own = [counts for counts in product(*box) if total in (FREE, sum(counts))]
        reachable = {tuple(map(sum, zip(before, counts, strict=True))) for before in reachable for counts in own}
    return tuple(sums) in reachable


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_every_parent_within_its_limits_can_be_divided_among_its_children(data: st.DataObject) -> None:
    """By enumeration of all parents within their bounds, and of all their children's histograms of groups."""
    children, groups = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    cells = st.lists(st.integers(0, 2), min_size=children * groups, max_size=children * groups)
    lower = np.array(data.draw(cells)).reshape(children, groups)
    upper = lower + np.array(data.draw(cells)).reshape(children, groups)
    within = [data.draw(st.integers(low, high)) for low, high in zip(lower.sum(axis=1), upper.sum(axis=1), strict=True)]
    fixed = data.draw(st.lists(st.booleans(), min_size=children, max_size=children))
    totals = np.where(fixed, within, FREE)
    parents = (np.zeros(children, dtype=np.int64),)
    root, leaves = propagate(("State", "Block"), parents, lower, upper, [None, totals])
    for sums in product(*(range(low, high + 1) for low, high in zip(root.lower[0], root.upper[0], strict=True))):
        if root.totals[0] in (FREE, sum(sums)) and satisfies_sets(root.sets, np.array([sums])):
            assert divisible(np.array(sums), leaves)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_limits_that_the_truth_keeps_to_exclude_no_truth(data: st.DataObject) -> None:
    """Tightening keeps every possible count."""
    truth = np.array(data.draw(st.lists(st.integers(0, 5), min_size=6, max_size=6))).reshape(3, 2)
    slack = np.array(data.draw(st.lists(st.integers(0, 3), min_size=12, max_size=12))).reshape(2, 3, 2)
    state = data.draw(st.sampled_from([FREE, int(truth.sum())]))
    limits = propagate(
        LEVELS, PARENTS, np.maximum(truth - slack[0], 0), truth + slack[1], [np.array([state]), None, None]
    )
    for level, counts in zip(
        limits, (truth.sum(axis=0)[None], np.array([truth[:2].sum(axis=0), truth[2]]), truth), strict=True
    ):
        assert np.all((level.lower <= counts) & (counts <= level.upper))
