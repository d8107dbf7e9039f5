"""Permutation swapping preserves both margins, never mixes strata, and has exactly the distribution of Algorithm 1.

Many wrong programs would preserve the margins. So the compiled mechanism is run on every sequence of toy words, and
every permutation's probability is compared with the paper's. It also draws from the real stream. Both tests reject five
wrong mechanisms.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations, product
from math import comb
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.sampling.stream import Coin, RandomStream
from mechanisms.swapping import permutation
from mechanisms.swapping.permutation import Contingency, count_cells, permute, permute_strata
from tests.depth import deep_but, deep_cases, examples, quick_cases
from tests.mechanisms.sampling.chi_square import alarm, power, sample
from tests.mechanisms.sampling.word_tree import Finished, bracket
from tests.mechanisms.swapping.enumeration import (
    Mechanism,
    Stratum,
    Universe,
    algorithm_1,
    capped,
    cycle_type,
    cyclic,
    selected_exactly,
    selected_one,
    shuffled,
    shuffled_anew,
    single_released,
)

WRONG = [shuffled, shuffled_anew, capped, single_released, cyclic]
HALF = Fraction(1, 2)
DRAWS = 200_000
PINNED = [1, 4, 0, 2, 3, 5, 8, 14, 13, 15, 10, 9, 7, 11, 6, 12]

Record = tuple[int, int, int]


def stream(label: str = "test") -> RandomStream:
    return RandomStream(bytes(range(32)), label)


def contingency(records: Sequence[Record]) -> Contingency:
    """Count records (stratum, holding value within it, swap value). Holding codes ascend with the stratum."""
    holding = {pair: code for code, pair in enumerate(sorted({record[:2] for record in records}))}
    cells = sorted(Counter((stratum, holding[stratum, held], swap) for stratum, held, swap in records).items())
    return columns([(*cell, count) for cell, count in cells])


def columns(cells: Sequence[tuple[int, int, int, int]]) -> Contingency:
    table = np.array(cells, dtype=np.int64).reshape(-1, 4)
    codes = table[:, :3].astype(np.int32)
    return Contingency(codes[:, 0], codes[:, 1], codes[:, 2], table[:, 3])


def counts(table: Contingency, *names: str) -> Counter[tuple[int, ...]]:
    totals: Counter[tuple[int, ...]] = Counter()
    codes = zip(*(getattr(table, name).tolist() for name in names), strict=True)
    for cell, count in zip(codes, table.count.tolist(), strict=True):
        totals[cell] += count
    return totals


def cells(table: Contingency) -> Counter[tuple[int, ...]]:
    return counts(table, "stratum", "holding", "swap")


records = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)),
    max_size=60,
)
rates = st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=1000)


@given(records, rates, st.integers(0, 1000))
def test_swapping_preserves_both_margins_exactly(records: list[Record], rate: Fraction, label: int) -> None:
    table = contingency(records)
    swapped = permute(table, rate, stream(str(label)))
    assert counts(swapped, "stratum", "holding") == counts(table, "stratum", "holding")
    assert counts(swapped, "stratum", "swap") == counts(table, "stratum", "swap")


@given(records, rates, st.randoms(use_true_random=False))
def test_a_draw_depends_only_on_key_label_and_content(records: list[Record], rate: Fraction, shuffler: object) -> None:
    table = contingency(records)
    shuffler.shuffle(records)  # type: ignore[attr-defined]
    before = cells(table)
    assert cells(permute(contingency(records), rate, stream())) == cells(permute(table, rate, stream()))
    assert cells(table) == before, "the confidential table is left as it was"


@given(records, rates)
def test_strata_never_mix(records: list[Record], rate: Fraction) -> None:
    marked = [(stratum, held, 10 * stratum + swap) for stratum, held, swap in records]
    swapped = permute(contingency(marked), rate, stream())
    assert np.array_equal(swapped.swap // 10, swapped.stratum)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=30), rates)
def test_a_record_alone_in_its_stratum_is_not_swapped(values: list[tuple[int, int]], rate: Fraction) -> None:
    table = contingency([(stratum, held, swap) for stratum, (held, swap) in enumerate(values)])
    assert cells(permute(table, rate, stream())) == cells(table)


def test_draws_with_other_labels_and_keys_differ() -> None:
    table = contingency([(0, record % 2, record) for record in range(200)])
    draws = [permute(table, HALF, stream(label)) for label in ("a", "b")]
    draws.append(permute(table, HALF, RandomStream(bytes(32), "a")))
    assert len({frozenset(cells(draw).items()) for draw in draws}) == 3


@pytest.mark.parametrize("words_at_a_time", [1, 2, 3, 5, 64, 1000])
def test_the_number_of_words_read_at_a_time_does_not_matter(
    words_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [1, 2, 1, 3, 17, 1, 40, 2, 2, 1]
    table = contingency([(stratum, one % 3, one) for stratum, size in enumerate(sizes) for one in range(size)])
    expected = cells(permute(table, Fraction(2, 3), stream()))
    monkeypatch.setattr(permutation, "WORDS_AT_A_TIME", words_at_a_time)
    assert cells(permute(table, Fraction(2, 3), stream())) == expected


def test_the_draw_of_a_fixed_key_has_not_changed() -> None:
    """Distinct records in two strata: the swap codes are the permutation. If this changes, increase `VERSION`."""
    table = contingency([(int(record >= 6), record, record) for record in range(16)])
    assert permutation.VERSION == 2
    assert permute(table, Fraction(2, 3), stream("pinned")).swap.tolist() == PINNED


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1), Fraction(6, 5), Fraction(-1, 2)])
def test_a_swap_rate_without_protection_is_refused(rate: Fraction) -> None:
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        permute(contingency([(0, 0, 0), (0, 1, 1)]), rate, stream())


@pytest.mark.parametrize(
    "disorder",
    [
        [(1, 0, 0, 1), (0, 1, 0, 1)],
        [(0, 1, 0, 1), (0, 0, 0, 1)],
        [(0, 0, 1, 1), (0, 0, 0, 1)],
        [(0, 0, 0, 1), (0, 0, 0, 1)],
        [(0, 0, 5, 1), (1, 1, 5, 1), (1, 1, 0, 1)],
    ],
    ids=["strata", "holding values", "swap values", "a cell twice", "swap values in a later stratum"],
)
@pytest.mark.parametrize("cells_at_a_time", [1, 2, 1000])
def test_cells_out_of_order_are_refused(
    disorder: list[tuple[int, int, int, int]], cells_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any start of the parts in which cells are checked."""
    monkeypatch.setattr(permutation, "_CELLS_AT_A_TIME", cells_at_a_time)
    with pytest.raises(ValueError, match="ascend"):
        columns(disorder)


@pytest.mark.parametrize("count", [0, -1])
def test_cells_without_records_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="only cells with records"):
        columns([(0, 0, 0, 3), (0, 1, 0, count)])


CODES = st.one_of(st.integers(0, 3), st.integers(2**31 - 2, 2**31 - 1))


@given(st.lists(st.tuples(CODES, CODES), max_size=30))
def test_cells_are_counted_in_ascending_order(records: list[tuple[int, int]]) -> None:
    """Up to the greatest codes, and for no records."""
    found = count_cells(np.array([holding * 2**32 + swap for holding, swap in records], dtype=np.int64))
    expected = sorted(Counter(records).items())
    assert list(zip(*(column.tolist() for column in found), strict=True)) == [(*cell, n) for cell, n in expected]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), CODES), max_size=30), st.randoms())
def test_swapped_records_are_counted_as_if_they_were_sorted(records: list[Record], shuffler: Random) -> None:
    """Up to the greatest codes, and for no records."""
    table = contingency(records)
    values, positions = permutation._number_values(table.swap)
    assert values[positions].tolist() == table.swap.tolist()
    swap = np.repeat(positions, table.count)
    shuffler.shuffle(swap)
    keys = (np.repeat(table.holding, table.count).astype(np.int64) << 32) | values[swap]
    found = permutation._count_swapped(table, swap, values)
    for column, expected in zip((found.holding, found.swap, found.count), count_cells(keys), strict=True):
        assert column.tolist() == expected.tolist()
    assert counts(found, "stratum", "holding") == counts(table, "stratum", "holding")


def test_columns_of_different_lengths_are_refused() -> None:
    codes = np.zeros(2, dtype=np.int32)
    with pytest.raises(ValueError, match="one length"):
        Contingency(codes, codes, codes, np.ones(1, dtype=np.int64))


def one_word_on(sizes: tuple[int, ...], rate: Fraction, top: int):  # type: ignore[no-untyped-def]
    """The compiled mechanism as a walk over words. Its outcome is its permutation of 0, 1, 2, …

    Its state between two words is its position, the records selected in the stratum, their shuffle, and the values
    permuted so far.
    """
    starts, coin = np.cumsum([0, *sizes]), Coin.of(rate, top)
    phases = permutation._SELECTING, permutation._DERANGING

    def step(state, word):  # type: ignore[no-untyped-def]
        place, selected, shuffle, values = state
        workspace, permuted = np.zeros((3, max(sizes)), dtype=np.int32), np.array(values, dtype=np.int32)
        workspace[0, : len(selected)], workspace[1, : len(shuffle)] = selected, shuffle
        place = permutation._go_on(
            starts,
            permuted,
            np.zeros(len(values), dtype=np.int32),
            workspace,
            np.array([word], dtype=np.uint64),
            np.uint64(top),
            np.array([coin.heads]),
            np.array([coin.last_fair]),
            place,
        )
        stratum, phase, _, chosen = place
        if stratum == len(sizes):
            return Finished(tuple(permuted.tolist()))
        assert phase in phases
        kept = tuple(workspace[0, :chosen].tolist())
        shuffling = tuple(workspace[1, :chosen].tolist()) if phase == permutation._DERANGING else ()
        return place, kept, shuffling, tuple(permuted.tolist())

    return step, ((0, permutation._SELECTING, 0, 0), (), (), tuple(range(starts[-1])))


def probability(values: tuple[int, ...], sizes: tuple[int, ...], mechanism: Mechanism, rate: Fraction) -> Fraction:
    """The probability of a permutation of all records, over all strata; 0 if it mixes strata."""
    chance, first = Fraction(1), 0
    for size in sizes:
        within = tuple(value - first for value in values[first : first + size])
        if sorted(within) != list(range(size)):
            return Fraction(0)
        chance, first = chance * mechanism(cycle_type(within), rate), first + size
    return chance


@pytest.mark.parametrize(
    ("sizes", "rate", "top"),
    [
        ((2,), Fraction(1, 3), 3),
        ((3,), Fraction(1, 2), 3),
        ((3,), Fraction(2, 3), 7),
        ((4,), Fraction(1, 4), 7),
        ((4,), Fraction(1, 3), 7),
        ((4,), Fraction(5, 7), 7),
        ((2, 3), Fraction(3, 5), 7),
        ((1, 2, 1, 2, 1), Fraction(1, 2), 3),
    ],
)
def test_over_all_words_the_mechanism_permutes_with_the_probabilities_of_algorithm_1(
    sizes: tuple[int, ...], rate: Fraction, top: int
) -> None:
    step, start = one_word_on(sizes, rate, top)
    found = bracket(step, start, top + 1, width=Fraction(1, 10**12))

    def agrees(mechanism: Mechanism) -> bool:
        exact = {values: probability(values, sizes, mechanism, rate) for values in permutations(range(sum(sizes)))}
        possible = {values for values, chance in exact.items() if chance}
        return possible == set(found) and all(found[one][0] <= exact[one] <= found[one][1] for one in possible)

    assert agrees(algorithm_1)
    told_apart = [mechanism for mechanism in WRONG if not agrees(mechanism)]
    small = max(sizes)
    same_when_small = {capped: 2, cyclic: 3}
    assert told_apart == [mechanism for mechanism in WRONG if small > same_when_small.get(mechanism, 1)]


def copies(stratum: Stratum, times: int) -> Contingency:
    """One table of a universe in `times` strata of the same design, with independent draws."""
    table = stratum.tables[0]
    cell = np.flatnonzero(table)
    held, swap = np.divmod(cell, len(stratum.swap))
    number = np.arange(times).repeat(len(cell))
    holding = number * len(stratum.holding) + np.tile(held, times)
    swap_codes, count = np.tile(swap, times).astype(np.int32), np.tile(table[cell], times)
    return Contingency(number.astype(np.int32), holding.astype(np.int32), swap_codes, count)


def output_counts(stratum: Stratum, swapped: Contingency, times: int) -> dict[int, int]:
    """How often each table of the universe was the output."""
    dense = np.zeros((times, len(stratum.holding), len(stratum.swap)), dtype=np.int64)
    dense[swapped.stratum, swapped.holding % len(stratum.holding), swapped.swap] = swapped.count
    number = {tuple(table): index for index, table in enumerate(stratum.tables.tolist())}
    outputs, times_seen = np.unique(dense.reshape(times, -1), axis=0, return_counts=True)
    return {number[tuple(output)]: int(seen) for output, seen in zip(outputs.tolist(), times_seen, strict=True)}


def exact_outputs(stratum: Stratum, mechanism: Mechanism, rate: Fraction) -> dict[int, Fraction]:
    weights = Universe((stratum,)).distributions(mechanism, rate)[0]
    return {output: Fraction(weight, sum(weights)) for output, weight in enumerate(weights)}


FOUR_DISTINCT = Stratum((1, 1, 1, 1), (1, 1, 1, 1))
FIVE_MIXED = Stratum((2, 3), (1, 2, 2))
SIX_MIXED = Stratum((1, 1, 2, 2), (2, 4))


RATES = [Fraction(1, 10), Fraction(1, 2), Fraction(7, 10), Fraction(19, 20)]
QUICK = {(FIVE_MIXED, RATES[0]), (SIX_MIXED, RATES[1]), (FOUR_DISTINCT, RATES[2]), (FIVE_MIXED, RATES[3])}


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize(("stratum", "rate"), deep_but(QUICK, product([FOUR_DISTINCT, FIVE_MIXED, SIX_MIXED], RATES)))
def test_draws_from_the_real_stream_have_the_exact_output_distribution(stratum: Stratum, rate: Fraction) -> None:
    exact = exact_outputs(stratum, algorithm_1, rate)
    swapped = permute(copies(stratum, DRAWS), rate, stream(f"{rate}"))
    assert not alarm(output_counts(stratum, swapped, DRAWS), exact)


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(7, 10)])
@pytest.mark.parametrize("wrong", WRONG)
def test_the_same_chi_square_at_the_same_size_rejects(wrong: Mechanism, rate: Fraction) -> None:
    exact, other = (exact_outputs(FOUR_DISTINCT, mechanism, rate) for mechanism in (algorithm_1, wrong))
    assert power(other, exact, DRAWS) > 1 - 1e-6
    assert alarm(sample(other, DRAWS, seed=2), exact)


def numbers_selected(size: int, rate: Fraction, *, anew: bool) -> dict[int, Fraction]:
    """The binomial distribution without 1, which is drawn again, or (wrongly) counted as 0."""
    binomial = {chosen: comb(size, chosen) * selected_exactly(chosen, size, rate) for chosen in range(size + 1)}
    single = binomial.pop(1)
    assert single == selected_one(size, rate)
    if anew:
        return {chosen: chance / (1 - single) for chosen, chance in binomial.items()}
    return binomial | {0: binomial[0] + single}


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("size", [2, 5, 9])
def test_the_number_selected_is_binomial_but_never_one(size: int, rate: Fraction) -> None:
    values = np.arange(size * DRAWS, dtype=np.int32)
    permute_strata(np.arange(0, size * DRAWS + 1, size, dtype=np.int64), values, (rate,), stream(f"{size} {rate}"))
    selected = (values != np.arange(size * DRAWS)).reshape(DRAWS, size).sum(axis=1)
    exact = numbers_selected(size, rate, anew=True)
    assert not alarm(dict(Counter(selected.tolist())), exact)
    if selected_one(size, rate) > Fraction(1, 1000):
        wrong = numbers_selected(size, rate, anew=False)
        assert power(wrong, exact, DRAWS) > 1 - 1e-4
        assert alarm(sample(wrong, DRAWS, seed=3), exact)


@settings(max_examples=examples(20))
@given(st.integers(0, 10**6))
def test_each_record_is_swapped_with_equal_probability(label: int) -> None:
    """At each of ten positions, the share moved over 20,000 strata is within six standard deviations of the mean."""
    size, strata = 10, 20_000
    values = np.arange(size * strata, dtype=np.int32)
    permute_strata(np.arange(0, size * strata + 1, size, dtype=np.int64), values, (HALF,), stream(str(label)))
    share = (values != np.arange(size * strata)).reshape(strata, size).mean(axis=0)
    expected = float((HALF - selected_exactly(1, size, HALF)) / (1 - selected_one(size, HALF)))
    assert np.all(np.abs(share - expected) < 6 * np.sqrt(expected * (1 - expected) / strata))
