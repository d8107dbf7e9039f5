"""The pairs are those that the written procedure gives: compared with it, word by word, on small tables.

The reference in this file is quadratic and does not sort. It checks the rules of the selection, of the rounds and of
the preferences one by one, so that a program that pairs nearly right fails.
"""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mechanisms.design import DesignError
from mechanisms.pair_swapping import pairing
from mechanisms.pair_swapping.design import RiskFactors
from mechanisms.pair_swapping.pairing import (
    NOBODY,
    WEIGHTS,
    Households,
    Places,
    Swapped,
    Traits,
    pairs_of_words,
    risks,
    swap_pairs,
    weigh,
)
from mechanisms.sampling.stream import RandomStream
from tests.depth import examples

CLOSEST = ("block group", "tract", "county", "state")


@st.composite
def places(draw: st.DrawFn) -> Places:
    """Blocks nested in block groups, tracts, counties and states."""
    blocks = draw(st.integers(1, 9))
    deepest = draw(st.lists(st.integers(0, 4), min_size=blocks - 1, max_size=blocks - 1))
    above = np.zeros((4, blocks), dtype=np.int32)
    for block, level in enumerate(deepest, 1):
        above[:, block] = above[:, block - 1]
        above[:level, block] += 1
    return Places(above)


@st.composite
def tables(draw: st.DrawFn) -> Households:
    where = draw(places())
    number = draw(st.integers(1, 24))
    block = np.sort(
        np.array(draw(st.lists(st.integers(0, where.above.shape[1] - 1), min_size=number, max_size=number)))
    )
    kind = np.array(draw(st.lists(st.integers(0, 2), min_size=number, max_size=number)))
    key = np.array(draw(st.lists(st.integers(0, 5), min_size=number, max_size=number)))
    group = where.above[3][block] * 3 + kind
    return Households(*(codes.astype(np.int32) for codes in (block, group, key)), where)


def words_of(number: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, number, dtype=np.uint64)


def apart(table: Households, one: int, other: int) -> int:
    """0 for the same block, 1 to 4 by the nearest place with both, and 5 for none."""
    first, second = table.block[one], table.block[other]
    if first == second:
        return 0
    return next(
        (level + 1 for level in range(4) if table.places.above[level][first] == table.places.above[level][second]), 5
    )


def brute_risks(table: Households) -> list[int]:
    """1, and 1 more for each of block, block group, tract and county in which no other household has the key values."""
    found = []
    for one in range(len(table.block)):
        same = [other for other in range(len(table.block)) if other != one and table.key[other] == table.key[one]]
        found.append(1 + sum(all(apart(table, one, other) > level for other in same) for level in range(4)))
    return found


@given(tables())
@settings(max_examples=examples(150), deadline=None)
def test_the_risk_rises_with_the_place_in_which_a_household_is_unique(table: Households) -> None:
    assert risks(table).tolist() == brute_risks(table)


THREE_BESIDE_ONE = Households(
    *(np.array(codes, dtype=np.int32) for codes in ([0, 1, 2, 3], [0] * 4, [0, 1, 2, 3])),
    Places(np.array([[0, 1, 2, 3], [0, 1, 1, 1], [0] * 4, [0] * 4], dtype=np.int32)),
)
"""A tract of three blocks, with one household left, next to a tract of one block, with all left."""


@given(tables(), st.fractions(Fraction(1, 8), 1, max_denominator=8), st.integers(0, 2**32))
@example(THREE_BESIDE_ONE, Fraction(1), 0)
@settings(max_examples=examples(300), deadline=None)
def test_every_rule_of_the_procedure_holds(table: Households, rate: Fraction, seed: int) -> None:
    words = words_of(len(table.block), seed)
    swapped = pairs_of_words(table, rate, words)
    partner, selected, risk = swapped.partner, swapped.selected, risks(table)
    everyone = range(len(partner))
    order = [(-int(risk[each]), int(words[each] >> np.uint64(5))) for each in everyone]
    # The selection: the number in each state, by word over weight.
    for state in set(table.state.tolist()):
        members = [each for each in everyone if table.state[each] == state]
        ranked = sorted(members, key=lambda each: Fraction(int(words[each]) >> 5, WEIGHTS[risk[each] - 1]))
        assert {each for each in members if selected[each]} == set(ranked[: int(rate * len(members))])
    # Pairs are disjoint, of one group, of other blocks, with at least one selected.
    paired = [each for each in everyone if partner[each] != NOBODY]
    for each in paired:
        assert partner[partner[each]] == each
        assert table.group[partner[each]] == table.group[each]
        assert table.block[partner[each]] != table.block[each]
        assert selected[each] or selected[partner[each]]
    # Rounds among selected ones: in each place as many as possible, and the lowest risks are left.
    for level in range(1, 5):
        before = [
            each
            for each in everyone
            if selected[each] and (partner[each] == NOBODY or _round(table, swapped, each) >= level)
        ]
        for place in {
            (int(table.group[each]), int(table.places.above[level - 1][table.block[each]])) for each in before
        }:
            there = [
                each for each in before
                if (int(table.group[each]), int(table.places.above[level - 1][table.block[each]])) == place
            ]  # fmt: skip
            left = [each for each in there if partner[each] == NOBODY or _round(table, swapped, each) > level]
            sizes = Counter(int(table.block[each]) for each in there)
            (block, largest), *_ = sizes.most_common(1)
            assert len(left) == max(2 * largest - len(there), len(there) % 2)
            could = [each for each in there if 2 * largest <= len(there) or table.block[each] == block]
            assert sorted(left) == sorted(sorted(could, key=lambda each: order[each])[len(could) - len(left) :])
    # Those left take, the riskiest first, the nearest of the others, and of these the riskiest.
    for group in set(table.group.tolist()):
        left = [
            each for each in everyone
            if table.group[each] == group and selected[each]
            and (partner[each] == NOBODY or not selected[partner[each]])
        ]  # fmt: skip
        left.sort(key=lambda each: order[each])
        free = [each for each in everyone if table.group[each] == group and not selected[each]]
        for each in left:
            possible = [other for other in free if table.block[other] != table.block[each]]
            best = min(possible, key=lambda other: (apart(table, each, other), order[other]), default=NOBODY)
            assert partner[each] == best
            if best != NOBODY:
                free.remove(best)
        assert all(partner[other] == NOBODY for other in free)


def _round(table: Households, swapped: Swapped, one: int) -> int:
    """The round in which a selected household found a selected partner; 5 if in none."""
    other = int(swapped.partner[one])
    return apart(table, one, other) if other != NOBODY and swapped.selected[other] else 5


@given(tables(), st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_only_places_change_and_only_within_groups(table: Households, seed: int) -> None:
    swapped = pairs_of_words(table, Fraction(1, 2), words_of(len(table.block), seed))
    after = swapped.of(table.block)
    assert Counter(zip(table.group.tolist(), after.tolist(), strict=True)) == Counter(
        zip(table.group.tolist(), table.block.tolist(), strict=True)
    )
    assert {each for each in range(len(after)) if after[each] != table.block[each]} == set(
        np.flatnonzero(swapped.partner != NOBODY).tolist()
    ), "no pair is in one block, so every swapped household moves"


def three_levels_of_risk() -> Households:
    """Sixty households of one group in one county, in blocks of five, whose key values recur at three distances."""
    blocks = np.arange(12, dtype=np.int32)
    zeros = np.zeros(12, dtype=np.int32)
    where = Places(np.stack([blocks // 2, blocks // 4, zeros, zeros]))
    block = np.repeat(blocks, 5).astype(np.int32)
    key = np.tile(np.array([0, 0, 1, 2, 3], dtype=np.int32), 12)
    key[3::5] += block[3::5] // 4
    key[4::5] = 100 + block[4::5]
    return Households(block, np.zeros(60, dtype=np.int32), key, where)


def test_a_higher_risk_is_selected_more_often() -> None:
    """400 draws; the rates differ by more than 10 standard errors, so a false alarm is rarer than 1e-20."""
    table = three_levels_of_risk()
    risk = risks(table)
    found = np.zeros(60)
    for draw in range(400):
        found += swap_pairs(table, Fraction(1, 5), RandomStream(draw.to_bytes(32, "big"), "test")).selected
    rates = {int(level): float(found[risk == level].mean() / 400) for level in np.unique(risk)}
    assert list(rates) == [1, 2, 5]
    assert 0 < rates[1] < rates[2] < rates[5]
    assert rates[2] - rates[1] > 0.04
    assert rates[5] - rates[2] > 0.15


def test_without_a_partner_in_another_block_nobody_moves() -> None:
    one_block = Places(np.zeros((4, 1), dtype=np.int32))
    zeros = np.zeros(9, dtype=np.int32)
    swapped = swap_pairs(Households(zeros, zeros, zeros, one_block), Fraction(1), RandomStream(b"k" * 32, "test"))
    assert swapped.selected.all()
    assert (swapped.partner == NOBODY).all()


def test_no_households_are_no_pairs() -> None:
    nothing = np.zeros(0, dtype=np.int32)
    empty = Households(nothing, nothing, nothing, Places(np.zeros((4, 0), dtype=np.int32)))
    assert len(swap_pairs(empty, Fraction(1, 2), RandomStream(b"k" * 32, "test")).partner) == 0


def test_the_stream_determines_the_pairs() -> None:
    """If this changes, increase `VERSION`."""
    swapped = swap_pairs(three_levels_of_risk(), Fraction(1, 5), RandomStream(b"k" * 32, "test"))
    pairs = [(each, int(other)) for each, other in enumerate(swapped.partner) if each < other]
    assert pairing.VERSION == 1
    assert pairs == PINNED


PINNED = [(4, 9), (6, 36), (14, 19), (34, 39), (44, 49), (54, 59)]


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1, 2), Fraction(3, 2)])
def test_a_rate_that_is_none_is_refused(rate: Fraction) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        swap_pairs(three_levels_of_risk(), rate, RandomStream(b"k" * 32, "test"))


def test_tables_that_are_not_in_order_or_not_nested_are_refused() -> None:
    table = three_levels_of_risk()
    with pytest.raises(ValueError, match="order of block"):
        Households(table.block[::-1], table.group, table.key, table.places)
    two_states = Places(np.repeat([[0, 1]], 6, axis=1).repeat(4, axis=0).astype(np.int32))
    with pytest.raises(ValueError, match="one state"):
        Households(table.block, table.group, table.key, two_states)
    with pytest.raises(ValueError, match="every wider place"):
        Places(np.array([[0, 0], [0, 0], [0, 0], [0, 1]], dtype=np.int32))
    with pytest.raises(ValueError, match="ascend"):
        Places(np.array([[1, 0]] * 4, dtype=np.int32))
    with pytest.raises(ValueError, match="has its places"):
        Households(table.block + np.int32(1), table.group, table.key, table.places)
    with pytest.raises(ValueError, match="4 levels"):
        Places(table.places.above[:3])


def test_the_partner_is_the_nearest_at_every_nesting_of_four_blocks() -> None:
    """All tables of four blocks, each with one household, at every nesting: the partner is the nearest of the group."""
    for deepest in product(range(1, 4), repeat=3):
        above = np.zeros((4, 4), dtype=np.int32)
        for block, level in enumerate(deepest, 1):
            above[:, block] = above[:, block - 1]
            above[:level, block] += 1
        table = Households(
            np.arange(4, dtype=np.int32), np.zeros(4, np.int32), np.arange(4, dtype=np.int32), Places(above)
        )
        for chosen in range(4):
            words = np.full(4, 2**63, dtype=np.uint64)
            words[chosen] = 0
            swapped = pairs_of_words(table, Fraction(1, 4), words)
            other = int(swapped.partner[chosen])
            assert apart(table, chosen, other) == min(apart(table, chosen, each) for each in range(4) if each != chosen)


factors = st.builds(Fraction, st.integers(0, 5), st.integers(1, 4))
steps = st.lists(st.integers(1, 6), unique=True, max_size=3).flatmap(
    lambda numbers: st.tuples(*(st.tuples(st.just(Fraction(number)), factors) for number in sorted(numbers)))
)
shares = steps.map(lambda given: tuple((least / 6, factor) for least, factor in given))
declared = st.builds(
    RiskFactors,
    block_size=steps,
    unique_race=st.none() | factors.map(lambda factor: ("CENRACE", factor)),
    block_imputation=shares,
    imputed_items=st.none() | steps.map(lambda given: ("ITEMS", given)),
    always_selected=st.none() | st.sampled_from(["block", "block_group", "tract", "county"]),
)


def brute_weight(found: RiskFactors, risk: int, size: int, imputed: int, rare: int, items: int) -> Fraction | None:
    """The weight of a household, factor by factor; None if it is always selected."""
    if found.always_selected and risk > 1 + ["block", "block_group", "tract", "county"].index(found.always_selected):
        return None
    weight = Fraction(WEIGHTS[risk - 1])
    for number, by_step in (
        (Fraction(size), found.block_size),
        (Fraction(imputed, size), found.block_imputation),
        (Fraction(items), found.imputed_items[1] if found.imputed_items else ()),
    ):
        holding = [factor for least, factor in by_step if least <= number]
        weight *= holding[-1] if holding else 1
    return weight * found.unique_race[1] if found.unique_race and rare else weight


@given(tables(), declared, st.fractions(Fraction(1, 8), 1, max_denominator=8), st.integers(0, 2**32))
@settings(max_examples=examples(100), deadline=None)
def test_declared_factors_multiply_the_weights_of_the_selection(
    table: Households, found: RiskFactors, rate: Fraction, seed: int
) -> None:
    """A program that took a step only above its number, a factor upside down, the share of imputed among those that may
    be swapped, or the rate before those that are always selected, would select others."""
    number = len(table.block)
    random = np.random.default_rng(seed)
    size = random.integers(1, 8, number)
    imputed, rare, items = random.integers(0, size + 1), random.integers(0, 2, number), random.integers(0, 8, number)
    risk, words = risks(table), words_of(number, seed)
    weights = weigh(found, Traits(size, imputed, rare, items), risk)
    selected = pairs_of_words(table, rate, words, weights).selected
    for state in set(table.state.tolist()):
        members = [each for each in range(number) if table.state[each] == state]
        weight = {
            each: brute_weight(found, int(risk[each]), *(int(part[each]) for part in (size, imputed, rare, items)))
            for each in members
        }
        always = {each for each in members if weight[each] is None}
        others = [each for each in members if weight[each]]
        others.sort(key=lambda each: Fraction(int(words[each])) / (weight[each] or 1))
        more = others[: max(0, int(rate * len(members)) - len(always))]
        assert {each for each in members if selected[each]} == always | set(more)


def test_factors_of_one_select_as_none() -> None:
    """Today's draws: the same words select the same households, with neutral factors or without factors."""
    table, words = three_levels_of_risk(), words_of(len(three_levels_of_risk().block), 4)
    zeros = np.zeros(len(words), dtype=np.int32)
    ones = weigh(RiskFactors(), Traits(zeros + 1, zeros, zeros, zeros), risks(table))
    with_ones, without = (pairs_of_words(table, Fraction(1, 5), words, weights) for weights in (ones, None))
    assert np.array_equal(with_ones.partner, without.partner)


def test_steps_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(DesignError, match="risk_factors: block_size: every step is at least more"):
        RiskFactors(block_size=((Fraction(2), Fraction(1)), (Fraction(2), Fraction(2))))
