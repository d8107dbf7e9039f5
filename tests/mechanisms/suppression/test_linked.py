"""Intervals of suppressed cells, against the enumeration of all counts; wrong ways to suppress are found."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.design import DesignError
from mechanisms.suppression.design import Dominance
from mechanisms.suppression.linked import (
    SUPPRESSED,
    Attacker,
    Counts,
    LinkedTablesError,
    Tables,
    count_narrow,
    count_revealed,
    rank_contributions,
    suppress,
    suppress_totals,
)

LINKED = Tables((2, 2, 2), ((0, 1), (1, 2), (0,), (1,)))
"""Two tables that share a margin, which is published, and the other variable of the first."""


def enumerate_intervals(tables: Tables, published: Counts, most: int) -> dict[int, tuple[int, int]]:
    """By suppressed cell, the least and the greatest count in all combinations of at most so many records each that
    have the published cells, and whose suppressed cells are not 0."""
    size = int(np.prod(tables.sizes))
    counts = np.stack(np.unravel_index(np.arange((most + 1) ** size), [most + 1] * size), axis=1)
    cells = counts @ np.stack([tables.add_up(one) for one in np.eye(size, dtype=np.int64)])
    suppressed = published == SUPPRESSED
    found = cells[np.all(np.where(suppressed, cells > 0, cells == published), axis=1)]
    return {int(cell): (int(found[:, cell].min()), int(found[:, cell].max())) for cell in np.flatnonzero(suppressed)}


@pytest.mark.parametrize("combinations", [[1, 2, 0, 1, 2, 1, 1, 0], [2, 0, 1, 1, 0, 2, 1, 2]])
def test_the_intervals_are_those_of_all_counts_that_have_the_published_cells(combinations: list[int]) -> None:
    true = LINKED.add_up(np.array(combinations))
    published = suppress(LINKED.cell_of, true, [int(cell) for cell in np.flatnonzero((true > 0) & (true < 3))], 1)
    assert (published == SUPPRESSED).any()
    enumerated = enumerate_intervals(LINKED, published, 3)
    attacker = Attacker(LINKED.cell_of, published)
    for cell, (least, greatest) in enumerated.items():
        found = attacker.find_interval(cell)
        assert found[0] <= least
        # The enumeration stops at 3 records of a combination.
        assert found[1] >= greatest
        assert greatest - least >= 1


def test_primary_suppression_alone_is_found() -> None:
    true = LINKED.add_up(np.array([1, 0, 4, 5, 6, 2, 3, 4]))
    published = true.copy()
    published[true == 1] = SUPPRESSED
    assert count_narrow(LINKED.cell_of, published, 1) == (published == SUPPRESSED).sum() > 0


def test_tables_that_are_each_protected_alone_but_not_together_are_found() -> None:
    """Fails for: a gate that looks at each table by itself. Both tables have the same cells."""
    one = Tables((2, 2), ((0, 1), (0,), (1,)))
    true = one.add_up(np.array([1, 7, 8, 9]))
    whole = true.copy()
    whole[:4] = SUPPRESSED
    assert count_narrow(one.cell_of, whole, 3) == 0
    linked = Tables((2, 2, 2), ((0, 1), (0,), (1,), (0, 2), (1, 2), (0, 1, 2)))
    counts = np.array([1, 0, 3, 4, 4, 4, 4, 5])
    published = linked.add_up(counts)
    published[:4] = SUPPRESSED
    # The table of all three variables publishes every combination.
    assert count_narrow(linked.cell_of, published, 3) == 4
    protected = suppress(linked.cell_of, linked.add_up(counts), [0], 3)
    assert (protected == SUPPRESSED)[12:].any()
    assert count_narrow(linked.cell_of, protected, 3) == 0


def test_tables_that_do_not_add_up_are_refused() -> None:
    published = LINKED.add_up(np.array([1, 2, 3, 4, 5, 6, 7, 8]))
    published[0] += 1
    with pytest.raises(LinkedTablesError, match="add up"):
        count_narrow(LINKED.cell_of, published, 1)
    hidden = LINKED.add_up(np.array([1, 2, 3, 4, 5, 6, 7, 8]))
    hidden[:4] = 0
    with pytest.raises(LinkedTablesError, match="add up"):
        count_narrow(LINKED.cell_of, hidden, 1)


SHAPES = [
    Tables((2, 3), ((0, 1), (0,), (1,))),
    Tables((3, 2, 2), ((0, 1), (1, 2), (0, 2), (0,))),
    Tables((2, 2, 3), ((0,), (1,), (0, 2), (1, 2), (2,))),
]


@given(st.sampled_from(SHAPES), st.data(), st.integers(2, 6), st.integers(1, 5))
def test_every_suppressed_cell_of_any_linked_tables_is_wide_and_the_true_count_is_in_its_interval(
    tables: Tables, data: st.DataObject, threshold: int, width: int
) -> None:
    size = int(np.prod(tables.sizes))
    true = tables.add_up(np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))))
    primary = [int(cell) for cell in np.flatnonzero((true > 0) & (true < threshold))]
    published = suppress(tables.cell_of, true, primary, width)
    shown = published != SUPPRESSED
    assert np.array_equal(published[shown], true[shown])
    assert not shown[primary].any()
    assert not (~shown & (true == 0)).any()
    assert count_narrow(tables.cell_of, published, width) == 0
    attacker = Attacker(tables.cell_of, published)
    for cell in np.flatnonzero(~shown).tolist():
        least, greatest = attacker.find_interval(cell)
        assert least <= true[cell] <= greatest
        assert greatest - least >= width


def test_a_rule_of_dominance_has_its_known_answers() -> None:
    """Of 90, 8 and 2: all but the two greatest are 2, and p% of the greatest 9; the greatest is 90% of the total."""
    assert Dominance("income", p=10).measure_need(100, [90, 8]) == 7
    assert Dominance("income", p=2).measure_need(100, [90, 8]) == 0
    assert Dominance("income", n=1, k=80).measure_need(100, [90]) == 13, "90 is 80% of 112.5"
    assert Dominance("income", n=1, k=90).measure_need(100, [90]) == 0, "not over 90%"
    assert Dominance("income", p=10).measure_need(50, [50]) == 5, "who is alone"
    assert Dominance("income", p=10).measure_need(0, []) == 0
    for wrong in ({}, {"p": 1, "n": 1, "k": 1}, {"n": 1}, {"p": 5, "k": 2}):
        with pytest.raises(DesignError):
            Dominance("income", **wrong)


RULES = [Dominance("income", p=20), Dominance("income", n=1, k=70), Dominance("income", n=3, k=90)]


@given(st.sampled_from(SHAPES), st.sampled_from(RULES), st.data())
def test_totals_that_few_records_dominate_stay_uncertain_in_all_linked_tables(
    tables: Tables, rule: Dominance, data: st.DataObject
) -> None:
    """Fails for: a rule that looks at combinations instead of cells, at values instead of records that share one, or at
    the records of a holding (1 or 2) instead of their sum in the cell; and primary suppression alone."""
    size, cell_of = int(np.prod(tables.sizes)), tables.cell_of
    records = st.tuples(
        st.integers(0, size - 1), st.sampled_from([0, 1, 2, 30, 30, 1000]), st.sampled_from([0, 0, 0, 1, 2])
    )
    drawn = data.draw(st.lists(records, min_size=1, max_size=25))
    combination, values, holdings = np.array(drawn, dtype=np.int64).T
    contributor = np.where(holdings > 0, holdings, -1 - np.arange(len(drawn)))
    true, greatest, needs = np.zeros(tables.cells, np.int64), [], []
    for cell in range(tables.cells):
        within = [(value, holding) for place, value, holding in drawn if cell in cell_of[:, place]]
        alone = [value for value, holding in within if not holding]
        together = [sum(value for value, of in within if of == holding) for holding in (1, 2)]
        own = sorted(alone + together, reverse=True)
        true[cell] = sum(own)
        greatest.append([*own, 0, 0, 0][: rule.contributions])
        dominated = within and (
            own[0] * 20 > 100 * sum(own[2:]) if rule.p else 100 * sum(own[: rule.n]) > (rule.k or 0) * sum(own)
        )
        needs.append(rule.measure_need(sum(own), own[: rule.contributions]))
        assert bool(dominated) == (needs[-1] > 0)
    ranked = rank_contributions(cell_of, combination, values, tables.cells, rule.contributions, contributor)
    assert ranked.tolist() == greatest
    needed = np.array(needs)
    hidden = suppress_totals(cell_of, true, needed > 0, needed)
    assert count_revealed(cell_of, np.where(hidden, SUPPRESSED, true), true, needed) == 0
    assert count_revealed(cell_of, true, true, needed) == (needed > 0).sum()


def test_intervals_of_totals_are_those_of_all_values_that_have_the_published_ones() -> None:
    """Both ends are reached by some totals of combinations, and a total beyond the interval by none of them. Fails for:
    needs above a total alone, and primary suppression alone."""
    one = Tables((2, 2), ((0, 1), (0,), (1,)))
    true, needs = one.add_up(np.array([9, 3, 4, 2])), np.array([3, 0, 0, 0, 0, 0, 0, 0])
    hidden = suppress_totals(one.cell_of, true, needs > 0, needs)
    published = np.where(hidden, SUPPRESSED, true)
    values = np.stack(np.unravel_index(np.arange(20**4), [20] * 4), axis=1)
    cells = values @ np.stack([one.add_up(each) for each in np.eye(4, dtype=np.int64)])
    first = cells[np.all(hidden | (cells == published), axis=1)][:, 0]
    assert first.min() <= 9 - 3
    assert first.max() >= 9 + 3
    attacker = Attacker(one.cell_of, published, 0)
    assert attacker.reaches(0, int(first.min()), 9)
    assert not attacker.reaches(0, int(first.min()) - 1, 9)
    assert count_revealed(one.cell_of, np.where(needs > 0, SUPPRESSED, true), true, needs) == 1


def test_small_cells_beside_very_large_ones_are_protected_or_refused() -> None:
    """Fails for: counts scaled like totals, so that no counts add up to the published ones; and a tolerance too wide
    for a small total, so that a total which the others give away passes."""
    tables = Tables((2, 3), ((0,), (0, 1), (1,)))
    counts = tables.add_up(np.array([2, 3, 3_000_000, 7, 4, 9]))
    published = suppress(tables.cell_of, counts, np.flatnonzero(counts < 5).tolist(), 3)
    assert count_narrow(tables.cell_of, published, 3) == 0
    assert (published == 3_000_000).any()
    for largest in (10**12, 10**15):
        true = tables.add_up(np.array([500, largest, largest, largest, largest, largest]))
        needs = np.where(true == 500, 500, 0)
        with pytest.raises(LinkedTablesError, match="too small") if largest > 10**12 else nullcontext():
            assert suppress_totals(tables.cell_of, true, needs > 0, needs).sum() > 1
