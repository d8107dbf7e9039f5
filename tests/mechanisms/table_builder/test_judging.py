"""Claims about the loss of p-tables, against an evaluation of every event of small tables."""

from fractions import Fraction
from itertools import chain, combinations, product
from math import exp, inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.rounding import round_up
from mechanisms.sampling.noise import DiscreteLaplace
from mechanisms.table_builder import judging
from mechanisms.table_builder.entropy import Parameters, make
from mechanisms.table_builder.judging import (
    curve,
    discrete_laplace_delta,
    discrete_laplace_epsilon,
    divergence_of_two_cells,
    judge,
    ratio_below,
    smallest_epsilon,
)
from mechanisms.table_builder.p_table import PTable, Row
from tests.depth import examples

PAGE = Path(__file__).parents[3] / "docs" / "mechanisms" / "table_builder.md"
RATIOS = st.fractions(1, 6, max_denominator=12)
FAR = 12
"""Counts up to here meet every pair of rows of the tables below."""


@st.composite
def tables(draw: st.DrawFn) -> PTable:
    """One to four rows with at most three results each."""
    rows = []
    for number in range(draw(st.integers(1, 4))):
        changes = draw(st.lists(st.integers(max(-number, -2), 2), min_size=1, max_size=3))
        rows.append(Row(tuple(changes), tuple(draw(st.integers(1, 9)) for _ in changes)))
    return PTable(tuple(rows), draw(st.integers(1, len(rows))))


def results(table: PTable, before: int) -> dict[int, Fraction]:
    return {before + change: chance for change, chance in table.row(before).probabilities.items()}


def greatest_event(one: dict, other: dict, ratio: Fraction) -> Fraction:
    """The greatest P(S) − t·Q(S) over all events S, by trying each."""
    outcomes = [*{**one, **other}]
    events = chain.from_iterable(combinations(outcomes, size) for size in range(len(outcomes) + 1))
    return max(sum(one.get(each, 0) - ratio * other.get(each, 0) for each in event) for event in events)


def neighbors(table: PTable) -> list[tuple[int, int]]:
    return [(count, count + sign) for count in range(FAR) for sign in (-1, 1) if count + sign >= 0]


@given(tables(), RATIOS)
def test_delta_is_the_greatest_over_all_events_of_all_neighbors(table: PTable, ratio: Fraction) -> None:
    expected = max(greatest_event(results(table, a), results(table, b), ratio) for a, b in neighbors(table))
    assert curve(table, [ratio]) == [expected]


@given(tables())
def test_the_smallest_epsilon_is_the_greatest_ratio_of_probabilities(table: PTable) -> None:
    greatest: float | Fraction = Fraction(0)
    for before, after in neighbors(table):
        one, other = results(table, before), results(table, after)
        for result, chance in one.items():
            greatest = max(greatest, chance / other[result]) if result in other else inf
    found = smallest_epsilon(table)
    assert (inf if found is None else found.argument) == greatest
    if found is not None:
        assert curve(table, [found.argument]) == [0]
        assert found.argument == 1 or curve(table, [(found.argument + 1) / 2])[0] > 0


@settings(max_examples=examples(60))
@given(tables(), st.fractions(1, 12, max_denominator=6))
def test_for_two_cells_it_is_that_of_their_product(table: PTable, ratio: Fraction) -> None:
    """A changed record leaves one cell and enters another. Events of two cells are sets of pairs of results."""
    expected = Fraction(0)
    for a, c in product(range(1, FAR), range(FAR)):
        one, other = (
            {
                (left, right): p * q
                for left, p in results(table, first).items()
                for right, q in results(table, second).items()
            }
            for first, second in ((a, c), (a - 1, c + 1))
        )
        expected = max(expected, sum(max(Fraction(0), one[each] - ratio * other.get(each, 0)) for each in one))
    assert divergence_of_two_cells(table, ratio) == expected


@given(tables(), st.fractions(0, 3, max_denominator=10))
def test_what_is_charged_holds_and_is_not_below_the_exact_value_for_two_cells(table: PTable, epsilon: Fraction) -> None:
    judgment = judge(table, PureLoss(epsilon))
    assert judgment.delta == curve(table, [ratio_below(PureLoss(epsilon))])[0]
    assert judgment.changed_exactly <= 2 * judgment.delta + Fraction(1, 10**30)


def test_the_exact_value_for_two_cells_may_be_much_smaller_than_basic_composition_states() -> None:
    table = PTable((Row((0, 1, 2), (1, 1, 1)), Row((-1, 0, 1), (1, 1, 1))))
    judgment = judge(table, PureLoss())
    assert judgment.delta == Fraction(1, 3)
    assert judgment.changed_exactly == Fraction(5, 9)


@pytest.mark.parametrize(
    "table",
    [
        PTable((Row((0,), (1,)), Row((-1, 1), (1, 1)))),
        PTable((Row((0, 1), (1, 1)), Row((-1, 0), (1, 1)))),
        PTable((Row((0, 1, 2), (1, 1, 1)), Row((-1, 0, 1), (1, 1, 1)), Row((-2, -1, 0), (1, 1, 1)))),
    ],
    ids=["zero stays zero", "a greatest change", "a greatest change from the last row on"],
)
def test_supports_that_differ_make_epsilon_infinite(table: PTable) -> None:
    assert smallest_epsilon(table) is None
    assert curve(table, [Fraction(10**9)])[0] > 0


def test_the_pair_of_the_last_row_and_the_first_of_the_cycle_is_judged() -> None:
    """Within the rows, every result is possible for every count; from the last row on, only the same change."""
    rows = tuple(Row(tuple(range(-number, 3 - number)), (1, 1, 1)) for number in range(3))
    assert smallest_epsilon(PTable(rows, 3)) is None
    assert curve(PTable(rows, 3), [Fraction(1)]) == [1]


@given(st.fractions(-3, 3, max_denominator=20), st.fractions(1, 40, max_denominator=9))
def test_a_ratio_is_never_above_the_exponential_and_close_to_it(rational: Fraction, argument: Fraction) -> None:
    try:
        epsilon = PureLoss(rational, argument)
    except ValueError:
        return
    below = ratio_below(epsilon)
    assert below >= 1
    assert PureLoss.logarithm(below) <= epsilon
    assert float(below) == pytest.approx(exp(float(epsilon)), rel=1e-12)


@given(st.fractions("1/10", 60, max_denominator=20), RATIOS)
def test_the_discrete_laplace_of_a_variance_is_judged_as_its_probabilities_say(
    variance: Fraction, ratio: Fraction
) -> None:
    epsilon = discrete_laplace_epsilon(variance)
    noise = DiscreteLaplace(Fraction(1 / float(epsilon)))
    assert float(noise.exact_variance) == pytest.approx(float(variance), rel=1e-9)
    support = np.arange(-3000, 3001)
    here, there = noise.probabilities(support), noise.probabilities(support - 1)
    expected = np.maximum(0, here - float(ratio) * there).sum()
    delta = discrete_laplace_delta(variance, ratio)
    assert float(delta) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    q = exp(-float(epsilon))
    assert float(delta) >= max(0.0, (1 - float(ratio) * q) / (1 + q)) - 1e-15


def test_a_ratio_below_1_is_refused() -> None:
    table = PTable((Row((0,), (1,)),))
    for ask in (lambda: curve(table, [Fraction(1, 2)]), lambda: divergence_of_two_cells(table, Fraction(1, 2))):
        with pytest.raises(ValueError, match="ε is not negative"):
            ask()


def test_of_many_different_pairs_of_cells_the_greatest_is_found_among_those_that_floats_leave() -> None:
    generator = np.random.default_rng(8)
    rows = [Row((0,), (1,))]
    rows += [
        Row(tuple(range(-min(5, n), 6)), tuple(generator.integers(1, 30, min(5, n) + 6).tolist())) for n in range(1, 90)
    ]
    table = PTable(tuple(rows), 40)
    falling, rising = judging._neighbors(table)
    ratio = Fraction(3, 2)
    found = divergence_of_two_cells(table, ratio)
    some = [judging._product(one, other, ratio) for one in list(falling)[:9] for other in list(rising)[:9]]
    assert max(some) <= found <= 2 * curve(table, [ratio])[0]


def test_the_figures_of_the_page_are_those_of_a_run() -> None:
    """docs/mechanisms/table_builder.md, for D = 5, V = 3, js = 2 and the rounding of ONS."""
    table = make(Parameters(5, Fraction(3), 2)).table
    figures = {}
    for epsilon in (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(5)):
        judgment = judge(table, PureLoss(epsilon))
        laplace = discrete_laplace_delta(Fraction(3), ratio_below(PureLoss(epsilon)))
        figures[epsilon] = [round_up(delta, 4) for delta in (judgment.delta, laplace)]
    page = PAGE.read_text("utf-8")
    for epsilon, (ours, theirs) in figures.items():
        assert f"| {float(epsilon):g} | {ours} | {theirs if theirs else 0} |" in page
    judgment = judge(table, PureLoss(Fraction(1)))
    assert f"(2, {round_up(2 * judgment.delta, 4)})" in page
    assert f"{round_up(judgment.changed_exactly, 4)}." in page
    assert f"ε = {discrete_laplace_epsilon(Fraction(3)).round_up(4)} on" in page
    rounding = PTable(tuple(Row((5 * ((n + 2) // 5) - n if n >= 10 else -n,), (1,)) for n in range(15)), 5)
    assert curve(rounding, [Fraction(1), Fraction(10**6)]) == [1, 1]
