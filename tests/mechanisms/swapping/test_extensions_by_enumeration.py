"""The losses of extended swaps by enumeration: every pair of data sets, every output, and no rounding.

Every statement of `docs/mechanisms/swapping-extensions.md` is compared with exact output distributions. The charges are
those of the code; the distributions are those of `extended`, which never calls it. The same comparison rejects wrong
charges and wrong mechanisms. `test_extended_permutation` shows that the code draws with these probabilities.
"""

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mechanisms.accounting.losses import PureLoss
from mechanisms.swapping.loss import EXEMPT, Stir, loss_of_stir, theorem_1
from mechanisms.swapping.response import Response, loss_of_responses
from tests.depth import deep_but, deep_cases
from tests.mechanisms.swapping import enumeration
from tests.mechanisms.swapping.extended import (
    Kernel,
    Table,
    alike,
    attained_loss,
    by_holding,
    compositions,
    distance,
    every_pair,
    holds,
    laplace,
    largest_ratio,
    moving_all,
    not_vacuous,
    preferring_near,
    randomized_response,
    stir,
    stir_by_weight,
    tables,
)

Pairs = list[tuple[int, int]]
LOW, HALF, HIGH = Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)


def exponential(loss: PureLoss) -> Fraction:
    """e^ε, which is rational for all losses here."""
    assert loss.rational == 0
    return loss.argument


def charge(rows: Sequence[int], strata: Sequence[int], rates: Sequence[Fraction]) -> Fraction:
    """e^ε as the code charges a stir of these rows, all of whose strata can hold distinct records."""
    distinct = sorted(set(rates))
    classes = np.array([distinct.index(rate) for rate in rates], dtype=np.int32)
    every = Stir(np.array(strata, dtype=np.int32), classes, tuple(distinct))
    counts = np.ones(len(set(strata)), dtype=bool)
    return exponential(loss_of_stir(every, np.array(rows, dtype=np.int64), counts).loss)


def positive(total: int, parts: int) -> list[tuple[int, ...]]:
    """Every division of records among values, each of which has some."""
    return [each for each in compositions(total, parts) if all(each)]


def column_sums(table: Table) -> tuple[int, ...]:
    return tuple(map(sum, zip(*table, strict=True)))


def row_sums(table: Table) -> tuple[int, ...]:
    return tuple(map(sum, table))


def agreeing(states: Sequence[Table], pairs: Pairs, strata: Sequence[int]) -> Pairs:
    """The pairs whose members have the same swap values in every stratum."""

    def swap_margin(table: Table) -> list[tuple[int, ...]]:
        return [
            column_sums(tuple(row for row, own in zip(table, strata, strict=True) if own == stratum))
            for stratum in sorted(set(strata))
        ]

    return [(one, other) for one, other in pairs if swap_margin(states[one]) == swap_margin(states[other])]


def test_a_kernel_with_one_rate_is_algorithm_1() -> None:
    """Two enumerations that share no code but the derangement numbers agree."""
    for rows, columns in [((2, 2), (1, 3)), ((1, 1, 2), (2, 2)), ((1, 1, 1), (1, 1, 1))]:
        states = tables(rows, columns)
        universe = enumeration.Universe((enumeration.Stratum(rows, columns),))
        assert [sum(table, ()) for table in states] == [tuple(table) for table in universe.strata[0].tables.tolist()]
        for rate in (LOW, HALF, HIGH):
            weights = universe.distributions(enumeration.algorithm_1, rate)
            kernel = stir(states, [0] * len(rows), by_holding(*[rate] * len(rows)))
            assert np.all(kernel == weights * Fraction(1, sum(weights[0])))


SIZES = [(records, values) for records in (2, 3, 4) for values in (2, 3)]
GRID = (LOW, Fraction(1, 3), HALF, HIGH)


@deep_cases(6)
@pytest.mark.parametrize(
    ("records", "values", "rates"),
    deep_but(
        {
            *((records, 2, rates) for records in (2, 3, 4) for rates in [(LOW, HIGH), (HIGH, HALF)]),
            (3, 3, (LOW, HALF, HIGH)),
        },
        (
            (records, values, rates)
            for records, values in SIZES
            for rates in product(GRID, repeat=values)
            if len(set(rates)) > 1
        ),
    ),
)
def test_the_charge_bounds_every_pair_with_rates_by_record(
    records: int, values: int, rates: tuple[Fraction, ...]
) -> None:
    for rows in positive(records, values):
        for columns in (*positive(records, 2), *positive(records, 3)):
            states = tables(rows, columns)
            kernel = stir(states, [0] * values, by_holding(*rates))
            assert holds(kernel, states, charge(rows, [0] * values, rates), every_pair(states))


def test_the_loss_of_the_lowest_or_of_the_highest_rate_alone_is_too_small() -> None:
    """Both ends count: with rates on both sides of 1/2, each alone would understate the loss."""
    rows, columns, strata = (1, 1, 1), (1, 1, 1), [0, 0, 0]
    states = tables(rows, columns)
    for rates, alone in [((LOW, HALF, HALF), HALF), ((Fraction(99, 100), Fraction(99, 100), HALF), HALF)]:
        kernel = stir(states, strata, by_holding(*rates))
        assert holds(kernel, states, charge(rows, strata, rates), every_pair(states))
        assert not holds(kernel, states, exponential(theorem_1(3, alone)), every_pair(states))


def test_the_greatest_loss_of_all_strata_is_charged_with_rates_by_stratum() -> None:
    rows, strata, rates = (1, 1, 1, 1, 1), (0, 0, 1, 1, 1), (LOW, LOW, HIGH, HIGH, HIGH)
    margins = [((1, 1), (1, 1)), ((1, 1, 1), (1, 2))]
    assert charge(rows, strata, rates) == max(
        charge((1, 1), (0, 0), (LOW, LOW)), charge((1, 1, 1), (0,) * 3, (HIGH,) * 3)
    )
    for (within, columns), rate in zip(margins, (LOW, HIGH), strict=True):
        states = tables(within, columns)
        kernel = stir(states, [0] * len(within), by_holding(*[rate] * len(within)))
        assert holds(kernel, states, charge(rows, strata, rates), every_pair(states))


def test_exempt_records_are_in_no_loss_and_never_change() -> None:
    """Rows 2 and 3 are exempt. Data sets that differ there have no output in common: the loss is infinite."""
    rows, strata, rates = (1, 1, 2, 2), (0, 0, 1, 1), (HALF, HALF, EXEMPT, EXEMPT)
    assert charge(rows, strata, rates) == exponential(theorem_1(2, HALF))
    states = tables(rows, (3, 3))
    kernel = stir(states, strata, by_holding(*rates))
    same = [(one, other) for one, other in every_pair(states) if states[one][2:] == states[other][2:]]
    assert same
    assert holds(kernel, states, charge(rows, strata, rates), agreeing(states, same, strata))
    differ = [(one, other) for one, other in every_pair(states) if states[one][2:] != states[other][2:]]
    assert all(largest_ratio(kernel, [pair]) == math.inf for pair in differ)


def test_a_rate_by_rarity_among_swap_values_breaks_the_charge() -> None:
    """A household that is alone in its cell of holding and swap value is swapped more often: the charge fails.

    A change of two records then changes the rates of others too.
    """
    low, high = Fraction(1, 1000), HALF
    rows = columns = (3, 2)
    states = tables(rows, columns)
    charged = max(6 * (1 - low) / low, high / (1 - high))
    wrong = stir(states, [0, 0], lambda holding, swap, table: high if table[holding][swap] == 1 else low)
    assert not holds(wrong, states, charged, every_pair(states))
    for rates in product((low, high), repeat=2):
        right = stir(states, [0, 0], by_holding(*rates))
        assert holds(right, states, charged, every_pair(states)), "the same rates by holding value"


def test_a_rate_by_the_own_holding_and_swap_value_breaks_the_charge() -> None:
    """Data sets of a universe then have other rates, and the normalizers do not cancel."""
    low, high = Fraction(1, 1000), Fraction(999, 1000)
    states = tables((2, 2), (2, 2))
    charged = max(5 * (1 - low) / low, high / (1 - high))
    wrong = stir(states, [0, 0], lambda holding, swap, table: high if (holding, swap) == (1, 1) else low)
    assert not holds(wrong, states, charged, every_pair(states))


@pytest.mark.parametrize("rates", [(LOW, HIGH), (HIGH, HALF), (Fraction(1, 1000), Fraction(999, 1000))])
def test_a_rate_by_the_swap_value_alone_has_the_same_loss_by_symmetry(rates: tuple[Fraction, Fraction]) -> None:
    """The same as a rate by the holding value in the transposed universe. It is refused, but not for its loss."""
    for rows in positive(4, 2):
        for columns in positive(4, 2):
            states, transposed = tables(rows, columns), tables(columns, rows)
            kernel = stir(states, [0, 0], lambda holding, swap, table: rates[swap])
            mirrored = stir(transposed, [0, 0], by_holding(*rates))
            places = [transposed.index(tuple(zip(*table, strict=True))) for table in states]
            assert np.all(kernel == mirrored[np.ix_(places, places)])
            assert holds(kernel, states, charge(columns, [0, 0], rates), every_pair(states))


TWO_STIRS = [
    ((1, 1, 1), (0, 0, 1), (1, 2)),
    ((1, 1, 1), (0, 0, 1), (1, 1, 1)),
    ((2, 1, 1), (0, 0, 1), (2, 2)),
    ((2, 2), (0, 1), (2, 2)),
    ((1, 1, 1, 1), (0, 0, 1, 1), (2, 2)),
    ((1, 1, 1, 1), (0, 0, 1, 1), (1, 1, 2)),
    ((1, 1, 1, 1), (0, 0, 0, 1), (1, 3)),
    ((1, 1, 2, 1), (0, 0, 1, 1), (2, 3)),
]
"""Rows, their strata within one superstratum, and columns."""

RATES_OF_TWO = [(LOW, HALF), (HALF, LOW), (HIGH, LOW), (LOW, HIGH), (HALF, HALF)]


@pytest.mark.parametrize(
    ("margins", "rates"),
    deep_but({(TWO_STIRS[n], RATES_OF_TWO[n % 4]) for n in range(5)}, product(TWO_STIRS, RATES_OF_TWO)),
)
def test_two_stirs_have_the_loss_of_the_second_and_within_strata_the_smaller(
    margins: tuple[tuple[int, ...], ...], rates: tuple[Fraction, Fraction]
) -> None:
    rows, strata, columns = margins
    states, once = tables(rows, columns), [0] * len(rows)
    first, second = ([rate] * len(rows) for rate in rates)
    kernel = stir(states, strata, by_holding(*first)).dot(stir(states, once, by_holding(*second)))
    coarse, fine = charge(rows, once, second), charge(rows, strata, first)
    assert holds(kernel, states, coarse, every_pair(states))
    assert holds(kernel, states, min(coarse, fine), agreeing(states, every_pair(states), strata))


@pytest.mark.deep
@pytest.mark.parametrize("rates", [(LOW, HALF), (HIGH, LOW)])
def test_two_stirs_with_rates_by_record_in_the_first_have_the_same_losses(rates: tuple[Fraction, Fraction]) -> None:
    for rows, strata, columns in TWO_STIRS:
        states, once = tables(rows, columns), [0] * len(rows)
        first = [rates[place % 2] for place in range(len(rows))]
        for second in (LOW, HALF, HIGH):
            kernel = stir(states, strata, by_holding(*first)).dot(stir(states, once, by_holding(*[second] * len(rows))))
            coarse, fine = charge(rows, once, [second] * len(rows)), charge(rows, strata, first)
            assert holds(kernel, states, coarse, every_pair(states))
            assert holds(kernel, states, min(coarse, fine), agreeing(states, every_pair(states), strata))


def test_the_smaller_loss_is_too_small_for_two_stirs_in_coarse_universes() -> None:
    rows, strata, columns = TWO_STIRS[4]
    states, once = tables(rows, columns), [0] * len(rows)
    first, second = [HIGH] * len(rows), [LOW] * len(rows)
    kernel = stir(states, strata, by_holding(*first)).dot(stir(states, once, by_holding(*second)))
    smaller = charge(rows, strata, first)
    assert smaller < charge(rows, once, second)
    assert holds(kernel, states, smaller, agreeing(states, every_pair(states), strata))
    assert not holds(kernel, states, smaller, every_pair(states))


def with_any_rows(values: int, columns: tuple[int, ...]) -> list[Table]:
    """Every table with these counts by swap value and any counts by holding value."""
    return [table for rows in compositions(sum(columns), values) for table in tables(rows, columns)]


RESPONSES = [
    (values, columns, keep, rate)
    for values, columns in [(2, (1, 1)), (2, (1, 2)), (2, (2, 2)), (2, (1, 1, 1)), (3, (1, 1)), (3, (1, 2))]
    for keep in (Fraction(3, 5), HIGH, Fraction(1, 5))
    for rate in (LOW, HALF, HIGH)
]


@deep_cases(15)
@pytest.mark.parametrize(("values", "columns", "keep", "rate"), deep_but(set(RESPONSES[::5]), RESPONSES))
def test_noise_before_a_swap_has_its_own_loss_and_with_both_margins_the_smaller(
    values: int, columns: tuple[int, ...], keep: Fraction, rate: Fraction
) -> None:
    states, strata = with_any_rows(values, columns), [0] * values
    noise = exponential(loss_of_responses([Response("h", keep, values)]))
    kernel = randomized_response(states, keep).dot(stir(states, strata, by_holding(*[rate] * values)))
    assert holds(kernel, states, noise, every_pair(states))
    both = [pair for pair in every_pair(states) if row_sums(states[pair[0]]) == row_sums(states[pair[1]])]
    assert holds(kernel, states, min(noise, exponential(theorem_1(sum(columns), rate))), both)
    near = [pair for pair in every_pair(states) if distance(states[pair[0]], states[pair[1]]) == 1]
    assert largest_ratio(kernel, near) > noise * Fraction(99, 100), "the loss is attained"


def test_the_loss_of_the_swap_is_too_small_for_noise_before_it_without_the_holding_margin() -> None:
    states = with_any_rows(2, (1, 2))
    kernel = randomized_response(states, HIGH).dot(stir(states, [0, 0], by_holding(HALF, HALF)))
    swap = exponential(theorem_1(3, HALF))
    assert swap < exponential(Response("h", HIGH, 2).loss)
    assert not holds(kernel, states, swap, every_pair(states))


def test_two_perturbed_variables_lose_the_sum_of_their_losses() -> None:
    """Four combinations of two values each: a record that changes in both variables attains the sum."""
    keeps = (HIGH, Fraction(3, 5))
    law = np.array([[_both(one, other, keeps) for other in range(4)] for one in range(4)])
    loss = loss_of_responses([Response("one", keeps[0], 2), Response("two", keeps[1], 2)])
    assert largest_ratio(law, [(one, other) for one in range(4) for other in range(4)]) == exponential(loss)
    assert max(Response("one", keep, 2).loss.argument for keep in keeps) < exponential(loss)


def _both(one: int, other: int, keeps: tuple[Fraction, Fraction]) -> Fraction:
    same = (one // 2 == other // 2, one % 2 == other % 2)
    return math.prod((keep if kept else 1 - keep for keep, kept in zip(keeps, same, strict=True)), start=Fraction(1))


def every_table(records: int) -> list[Table]:
    """Every table of some records with two holding and two swap values: the universe that fixes their number alone."""
    return [
        table
        for rows in compositions(records, 2)
        for columns in compositions(records, 2)
        for table in tables(rows, columns)
    ]


def noisy_swap(records: int, rate: Fraction, ratio: Fraction) -> tuple[list[Table], Kernel]:
    """A swap and then discrete Laplace noise on every cell, on a window that is enough (`laplace`)."""
    states = every_table(records)
    return states, stir(states, [0, 0], by_holding(rate, rate)).dot(laplace(states, ratio))


def single_changes(states: Sequence[Table]) -> tuple[Pairs, Pairs]:
    """The pairs that differ in one record: in its holding or its swap value, or in both."""
    one_value, both = [], []
    for one, other in every_pair(states):
        if distance(states[one], states[other]) == 1:
            same = row_sums(states[one]) == row_sums(states[other]) or column_sums(states[one]) == column_sums(
                states[other]
            )
            (one_value if same else both).append((one, other))
    return one_value, both


AFTER = [(records, rate, ratio) for records in (2, 3) for rate in (LOW, HALF, HIGH) for ratio in (HALF, Fraction(4, 5))]


@deep_cases(3)
@pytest.mark.parametrize(("records", "rate", "ratio"), deep_but({(2, HALF, HALF), (2, HIGH, Fraction(4, 5))}, AFTER))
def test_noise_after_a_swap_has_its_own_loss_for_one_value_and_twice_that_for_both(
    records: int, rate: Fraction, ratio: Fraction
) -> None:
    """Noise of P(k) ∝ ratio^|k| on every cell costs ε_N = -2 ln ratio for a change of one record's cell."""
    states, kernel = noisy_swap(records, rate, ratio)
    one_value, both = single_changes(states)
    noise = 1 / ratio**2
    assert largest_ratio(kernel, one_value) == noise
    assert noise < largest_ratio(kernel, both) <= noise**2, "charged ε_N for a change of both, the loss is too small"
    swapped = [
        pair
        for pair in every_pair(states)
        if all(sums(states[pair[0]]) == sums(states[pair[1]]) for sums in (row_sums, column_sums))
    ]
    assert holds(kernel, states, exponential(theorem_1(records, rate)), swapped), "the swap's loss, by post-processing"


def test_rates_by_record_break_the_loss_of_noise_after_a_swap() -> None:
    """The selection then depends on the holding value that changes."""
    states, ratio = every_table(3), HALF
    kernel = stir(states, [0, 0], by_holding(Fraction(1, 1000), Fraction(999, 1000))).dot(laplace(states, ratio))
    one_value, _ = single_changes(states)
    assert largest_ratio(kernel, one_value) > 5 / ratio**2


def test_a_window_of_outputs_is_enough_for_noise_after_a_swap() -> None:
    """Beyond the window, every probability is that of the nearest output in it times the same power for all inputs."""
    states, ratio = every_table(2), HALF
    swap = stir(states, [0, 0], by_holding(HALF, HALF))
    cells = np.array([sum(table, ()) for table in states])

    def chances(output: tuple[int, ...]) -> list[Fraction]:
        away = np.abs(cells - np.array(output)).sum(axis=1)
        return list(swap.dot(np.array([ratio ** int(exponent) for exponent in away])))

    for output in product((-2, 0, 2, 5), repeat=4):
        nearest = tuple(min(2, max(0, cell)) for cell in output)
        beyond = sum(abs(cell - near) for cell, near in zip(output, nearest, strict=True))
        assert chances(output) == [ratio**beyond * chance for chance in chances(nearest)]


PAGE = Path(__file__).parents[3] / "docs" / "mechanisms" / "swapping-extensions.md"
WEIGHTS = (alike, not_vacuous, moving_all, preferring_near(4))


def rows_of_page() -> list[tuple[str, ...]]:
    """The cells of the table on derangements that are not offered."""
    section = PAGE.read_text().split("## Derangements that are not offered")[1].split("\n## ")[0]
    lines = (re.fullmatch(r"\| ([\d, ]+) \| ([\d/]+) \|(.*)\|", line) for line in section.splitlines())
    rows = [(line[1], line[2], *map(str.strip, line[3].split("|"))) for line in lines if line]
    assert len(rows) == 6
    return rows


@pytest.mark.parametrize("row", rows_of_page(), ids=lambda row: f"{row[0]} at {row[1]}")
def test_the_losses_of_other_derangements_are_those_of_the_page(row: tuple[str, ...]) -> None:
    """The first is Algorithm 1, which reveals an enumeration that selects or weighs wrongly."""
    margin, rate = tuple(map(int, row[0].split(", "))), Fraction(row[1])
    states = tables(margin, margin)
    assert np.all(
        stir_by_weight(states, rate, alike) == stir(states, [0] * len(margin), by_holding(*[rate] * len(margin)))
    )
    losses = [attained_loss(stir_by_weight(states, rate, weight), states) for weight in WEIGHTS]
    losses.append(float(theorem_1(sum(margin), rate)))
    assert [f"{loss:.4f}" for loss in losses] == [cell.strip("*") for cell in row[2:]]
    assert [loss > losses[-1] + 1e-9 for loss in losses] == [cell.startswith("**") for cell in row[2:]]


@pytest.mark.parametrize("size", [2, 3, *(pytest.param(size, marks=pytest.mark.prove) for size in (4, 5))])
def test_derangements_that_move_every_swap_value_stay_within_theorem_1_where_tried(size: int) -> None:
    margins = [parts for values in (2, 3) for parts in positive(size, values) if list(parts) == sorted(parts)]
    for rows, columns in product(margins, repeat=2):
        states = tables(rows, columns)
        for rate in (Fraction(1, 50), Fraction(1, 10), HALF, HIGH, Fraction(49, 50)):
            kernel = stir_by_weight(states, rate, moving_all)
            assert holds(kernel, states, exponential(theorem_1(size, rate)), every_pair(states))
