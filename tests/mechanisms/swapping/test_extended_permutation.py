"""`stir` draws with the probabilities that `extended` enumerates, and the plain swap's output is unchanged.

The compiled mechanism is run on every sequence of toy words, so that each permutation's probability is exact. The real
stream is compared by chi-square, with several stirs and noise.
"""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.swapping.records import cells_version
from mechanisms.sampling.stream import Coin, RandomStream
from mechanisms.swapping import permutation
from mechanisms.swapping.loss import EXEMPT, Stir
from mechanisms.swapping.permutation import Contingency, permute, stir
from mechanisms.swapping.response import Response, shifts
from tests.mechanisms.sampling.chi_square import alarm
from tests.mechanisms.sampling.word_tree import Finished, bracket
from tests.mechanisms.swapping import extended
from tests.mechanisms.swapping.extended import by_holding, permutation_probabilities, randomized_response, tables
from tests.mechanisms.swapping.test_permutation import cells, columns, contingency, counts, stream

DRAWS = 40_000
HALF = Fraction(1, 2)
PINNED = {
    "1/20": "53302d438a640480a6e23f9db6af7c6b97e05ceaea78b6e359eea2c864fb4fc3",
    "1/2": "91de54ed86f73ae4ea2a4e36cb32b61beac24b25f75ba9d444d7621e2c90fad7",
    "9/10": "1158fc651243d2cb290146bc613aa393757ffc8bf79a93651b2460dd228e597b",
}
"""The versions of plain swaps of 5,000 records, from the code as it was before rates could vary."""


@pytest.mark.parametrize("rate", PINNED)
def test_a_plain_swap_draws_what_it_drew_before_rates_could_vary(rate: str) -> None:
    record = np.arange(5000)
    table = contingency(
        list(zip((record % 7).tolist(), (record * 3 % 5).tolist(), (record * 11 % 13).tolist(), strict=True))
    )
    # The holding codes of those runs.
    held = (table.stratum * 10 + table.holding % 5).astype(np.int32)
    before = Contingency(table.stratum, held, table.swap, table.count)
    drawn = permute(before, Fraction(rate), RandomStream(bytes(range(32)), "permutation swapping"))
    assert cells_version(drawn, None) == PINNED[rate]


def test_with_one_rate_a_stir_is_the_plain_swap() -> None:
    table = contingency([(record % 3, record % 5, record % 7) for record in range(300)])
    zeros = np.zeros(len(table.stratum), dtype=np.int32)
    once = Stir(table.stratum, zeros, (Fraction(2, 7),))
    assert cells(stir(table, [once], [stream()])) == cells(permute(table, Fraction(2, 7), stream()))


def rates_on_words(rates: tuple[Fraction, ...], top: int):  # type: ignore[no-untyped-def]
    """The compiled mechanism as a walk over words: one stratum, whose records have these rates."""
    coins = [Coin.of(rate, top) for rate in rates]
    heads, last_fair = np.array([coin.heads for coin in coins]), np.array([coin.last_fair for coin in coins])
    size = len(rates)

    def step(state, word):  # type: ignore[no-untyped-def]
        place, selected, shuffle, values = state
        workspace, permuted = np.zeros((3, size), dtype=np.int32), np.array(values, dtype=np.int32)
        workspace[0, : len(selected)], workspace[1, : len(shuffle)] = selected, shuffle
        place = permutation._go_on(
            np.array([0, size]),
            permuted,
            np.arange(size, dtype=np.int32),
            workspace,
            np.array([word], dtype=np.uint64),
            np.uint64(top),
            heads,
            last_fair,
            place,
        )
        stratum, phase, _, chosen = place
        if stratum:
            return Finished(tuple(permuted.tolist()))
        kept = tuple(workspace[0, :chosen].tolist())
        shuffling = tuple(workspace[1, :chosen].tolist()) if phase == permutation._DERANGING else ()
        return place, kept, shuffling, tuple(permuted.tolist())

    return step, ((0, permutation._SELECTING, 0, 0), (), (), tuple(range(size)))


@pytest.mark.parametrize(
    ("rates", "top"),
    [
        ((Fraction(1, 4), Fraction(3, 4)), 3),
        ((Fraction(1, 4), HALF, Fraction(3, 4)), 3),
        ((Fraction(1, 3), HALF, Fraction(5, 7)), 7),
        ((Fraction(1, 8), Fraction(1, 8), Fraction(2, 5), Fraction(7, 8)), 7),
    ],
)
def test_over_all_words_every_record_has_its_own_rate(rates: tuple[Fraction, ...], top: int) -> None:
    step, start = rates_on_words(rates, top)
    found = bracket(step, start, top + 1, width=Fraction(1, 10**12))
    exact = permutation_probabilities(rates)
    assert set(found) == {order for order, chance in exact.items() if chance}
    assert all(low <= exact[order] <= high for order, (low, high) in found.items())
    wrong = permutation_probabilities(rates[:1] * len(rates))
    assert not all(low <= wrong[order] <= high for order, (low, high) in found.items())


def copies_of(table: extended.Table, times: int) -> Contingency:
    """One table in `times` strata."""
    values, width = len(table), len(table[0])
    cell = [(held, swap, count) for held, row in enumerate(table) for swap, count in enumerate(row) if count]
    return (
        columns(
            [(number, number * values + held, swap, count) for number in range(times) for held, swap, count in cell]
        )
        if width
        else columns([])
    )


def seen(swapped: Contingency, states: list[extended.Table], times: int) -> dict[int, int]:
    """How often each table was the output."""
    values, width = len(states[0]), len(states[0][0])
    dense = np.zeros((times, values, width), dtype=np.int64)
    dense[swapped.holding // values, swapped.holding % values, swapped.swap] = swapped.count
    number = {table: index for index, table in enumerate(states)}
    outputs = Counter(tuple(map(tuple, each)) for each in dense.tolist())
    return {number[output]: times_seen for output, times_seen in outputs.items()}


def exact_outputs(kernel: extended.Kernel, start: int) -> dict[int, Fraction]:
    return dict(enumerate(kernel[start]))


def test_draws_with_rates_by_record_have_the_exact_distribution() -> None:
    rates = (Fraction(1, 10), Fraction(7, 10))
    states = tables((2, 3), (2, 3))
    table = copies_of(states[0], DRAWS)
    each = Stir(table.stratum, (table.holding % 2).astype(np.int32), rates)
    found = seen(stir(table, [each], [stream("by record")]), states, DRAWS)
    kernel, wrong = (extended.stir(states, [0, 0], by_holding(*order)) for order in (rates, rates[::-1]))
    assert not alarm(found, exact_outputs(kernel, 0))
    assert alarm(found, exact_outputs(wrong, 0))


def test_two_stirs_have_the_exact_distribution_of_one_after_the_other() -> None:
    """With one rate in the coarse strata, the other order has the same distribution."""
    rows, strata, margin, rates = (1, 1, 2), (0, 0, 1), (2, 2), (Fraction(9, 10), Fraction(1, 5))
    states, start = tables(rows, margin), 1
    table = copies_of(states[start], DRAWS)
    fine = table.stratum * 2 + (table.holding % 3 == 2)
    zeros = np.zeros(len(fine), dtype=np.int32)
    stirs = [Stir(fine.astype(np.int32), zeros, rates[:1]), Stir(table.stratum, zeros, rates[1:])]
    found = seen(stir(table, stirs, [stream("first"), stream("second")]), states, DRAWS)
    first, second = (
        extended.stir(states, strata, by_holding(*[rates[0]] * 3)),
        extended.stir(states, (0, 0, 0), by_holding(*[rates[1]] * 3)),
    )
    assert not alarm(found, exact_outputs(first.dot(second), start))
    assert alarm(found, exact_outputs(second, start)), "the second alone"
    assert alarm(found, exact_outputs(first, start)), "the first alone"


def test_noise_before_a_swap_has_the_exact_distribution() -> None:
    keep, rate, margin = Fraction(3, 4), Fraction(1, 3), (2, 1)
    states = [table for rows in extended.compositions(3, 3) for table in tables(rows, margin)]
    start = states.index(((2, 0), (0, 1), (0, 0)))
    table = copies_of(states[start], DRAWS)
    once = Stir(table.stratum, np.zeros(len(table.stratum), dtype=np.int32), (rate,))
    found = seen(stir(table, [once], [stream("swap")], [Response("h", keep, 3)], stream("noise")), states, DRAWS)
    swap = extended.stir(states, [0, 0, 0], by_holding(rate, rate, rate))
    assert not alarm(found, exact_outputs(randomized_response(states, keep).dot(swap), start))
    assert alarm(found, exact_outputs(swap, start))


class ToyWords:
    """All words from 0 to `top` in order, and then again."""

    def __init__(self, top: int) -> None:
        self.top, self.next = top, 0

    def words(self, count: int) -> np.ndarray:
        found = (self.next + np.arange(count)) % (self.top + 1)
        self.next += count
        return found.astype(np.uint64)


@pytest.mark.parametrize(("keep", "size", "top"), [("2/3", 3, 5), ("1/5", 4, 14), ("9/10", 2, 9), ("3/4", 2, 6)])
def test_over_all_words_a_value_is_kept_or_moved_with_its_exact_probability(keep: str, size: int, top: int) -> None:
    response = Response("h", Fraction(keep), size)
    fair = (top + 1) // response.outcomes * response.outcomes
    moved = Counter(shifts(response, fair, ToyWords(top), top).tolist())  # type: ignore[arg-type]
    assert Fraction(moved[0], fair) == response.keep
    assert {moved[other] for other in range(1, size)} == {(1 - response.keep) / (size - 1) * fair}
    assert set(moved) == set(range(size))


def test_words_beyond_the_last_whole_run_are_drawn_again() -> None:
    response, top = Response("h", Fraction(3, 4), 2), 6
    assert response.outcomes == 4
    found = shifts(response, 2 * (top + 1), ToyWords(top), top)  # type: ignore[arg-type]
    assert len(found) == 14
    assert set(found.tolist()) <= {0, 1}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), max_size=40), st.integers(0, 99))
def test_exempt_strata_are_left_alone_and_the_others_keep_their_margins(
    records: list[tuple[int, int, int]], label: int
) -> None:
    table = contingency(records)
    exempt = table.stratum % 2 == 1
    each = Stir(table.stratum, np.where(exempt, 0, 1).astype(np.int32), (EXEMPT, Fraction(4, 5)))
    swapped = stir(table, [each], [stream(str(label))])
    for margin in (("stratum", "holding"), ("stratum", "swap")):
        assert counts(swapped, *margin) == counts(table, *margin)
    odd = {cell: count for cell, count in cells(table).items() if cell[0] % 2}
    assert {cell: count for cell, count in cells(swapped).items() if cell[0] % 2} == odd


def test_exempt_strata_use_no_words() -> None:
    """The other strata are swapped as if the exempt ones were not there."""
    records = [(stratum, record % 2, record) for stratum in range(3) for record in range(20)]
    table, others = contingency(records), contingency([record for record in records if record[0] != 1])
    each = Stir(table.stratum, (table.stratum == 1).astype(np.int32), (HALF, EXEMPT))
    swapped = stir(table, [each], [stream()])
    alone = permute(others, HALF, stream())
    assert swapped.swap[swapped.stratum != 1].tolist() == alone.swap.tolist()


def test_a_stratum_of_exempt_and_other_records_is_refused() -> None:
    with pytest.raises(ValueError, match="a stratum consists of exempt records, or of none"):
        Stir(np.zeros(2, dtype=np.int32), np.arange(2, dtype=np.int32), (EXEMPT, HALF))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 3)), max_size=40), st.integers(0, 99))
def test_noise_keeps_strata_with_their_swap_values(records: list[tuple[int, int, int]], label: int) -> None:
    cell_counts = Counter(records)
    table = columns([(s, s * 6 + held, swap, n) for (s, held, swap), n in sorted(cell_counts.items())])
    each = Stir(table.stratum, np.zeros(len(table.stratum), dtype=np.int32), (HALF,))
    responses = [Response("a", Fraction(1, 3), 2), Response("b", Fraction(1, 3), 3)]
    noisy = stir(table, [each], [stream(str(label))], responses, RandomStream(bytes(32), str(label)))
    assert counts(noisy, "stratum", "swap") == counts(table, "stratum", "swap")
    assert np.array_equal(noisy.holding // 6, noisy.stratum)


def test_each_variable_is_perturbed_by_its_own_response() -> None:
    """Code 4 of 2 × 3 values is (1, 1): the first digit moves with probability 1/5, the second with 1/2."""
    count = 100_000
    table = columns([(0, 4, 0, count)])
    each = Stir(table.stratum, np.zeros(1, dtype=np.int32), (HALF,))
    responses = [Response("a", Fraction(4, 5), 2), Response("b", HALF, 3)]
    noisy = stir(table, [each], [stream()], responses, stream("noise"))
    exact = {
        held: (Fraction(4, 5) if held // 3 else Fraction(1, 5)) * (HALF if held % 3 == 1 else HALF / 2)
        for held in range(6)
    }
    assert not alarm(dict(zip(noisy.holding.tolist(), noisy.count.tolist(), strict=True)), exact)
