"""Derangements are uniform: exactly, over every sequence of toy words, and on the real stream by chi-square.

The walk over toy words runs the compiled sampler itself, so it misses only a program that is wrong at 64 bits alone.
The chi-square test on AES words covers that case. The tests reject four wrong samplers: Sattolo's cycles, a shuffle
whose fixed points are afterwards swapped away, a plain modulo, and an early refusal that forgets position 0.
"""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import islice, pairwise, permutations
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.sampling.derangements import FINISHED, derange
from mechanisms.sampling.stream import TOP_WORD, RandomStream
from tests.depth import deep_cases, quick_cases
from tests.mechanisms.sampling.chi_square import alarm, power, sample
from tests.mechanisms.sampling.word_tree import Finished, walk

Permutation: TypeAlias = tuple[int, ...]
Distribution: TypeAlias = dict[Permutation, Fraction]
Below: TypeAlias = Callable[[int], int]

DRAWS = 200_000


def derangements(size: int) -> set[Permutation]:
    return {one for one in permutations(range(size)) if all(place != value for place, value in enumerate(one))}


def uniform(size: int) -> Distribution:
    every = derangements(size)
    return dict.fromkeys(sorted(every), Fraction(1, len(every)))


def one_word_on(top: int) -> Callable[[tuple[int, Permutation], int], tuple[int, Permutation] | Finished]:
    """The sampler under test as a walk: the next state, given (unsettled, shuffle so far) and one word."""

    def step(state: tuple[int, Permutation], word: int) -> tuple[int, Permutation] | Finished:
        unsettled, so_far = state
        shuffle = np.array(so_far, dtype=np.int32)
        words = np.array([word], dtype=np.uint64)
        unsettled, used = derange(shuffle, len(so_far), unsettled, words, 0, np.uint64(top))
        assert used == 1
        reached = tuple(shuffle.tolist())
        return Finished(reached) if unsettled == FINISHED else (unsettled, reached)

    return step


@deep_cases(2)
@quick_cases(3)
@pytest.mark.parametrize(
    ("size", "top"),
    [
        (2, 3),
        (3, 3),
        (2, 7),
        (3, 7),
        (4, 7),
        (5, 7),
        (6, 7),
        (4, 4),
        (5, 6),
        (6, 6),
        pytest.param(6, 15, marks=pytest.mark.deep),
    ],
)
def test_after_any_number_of_words_every_derangement_has_exactly_the_same_probability(size: int, top: int) -> None:
    start = (size + 1, tuple(range(size)))
    depth = 40 * size
    unfinished = Fraction(1)
    for words, (finished, going, every) in enumerate(islice(walk(one_word_on(top), start, top + 1), depth), start=1):
        if words < size - 1:
            assert not finished
        elif finished:
            assert set(finished) == derangements(size)
            assert len(set(finished.values())) == 1
        assert Fraction(going, every) <= unfinished
        unfinished = Fraction(going, every)
    assert unfinished < Fraction(1, 10**6)


@pytest.mark.parametrize("size", [2, 5, 6, 40])
def test_the_expected_number_of_words_is_a_small_multiple_of_the_size(size: int) -> None:
    words, shuffle = RandomStream(bytes(32), "work").words(400 * size), np.empty(size, dtype=np.int32)
    finished = cursor = 0
    while cursor < len(words):
        unsettled, cursor = derange(shuffle, size, size + 1, words, cursor, TOP_WORD)
        finished += unsettled == FINISHED
    assert len(words) / finished < 3 * size


@given(size=st.integers(2, 12), cuts=st.lists(st.integers(0, 200), max_size=8), label=st.text(max_size=3))
def test_words_may_arrive_in_any_pieces(size: int, cuts: list[int], label: str) -> None:
    words = RandomStream(bytes(32), label.encode("utf-8", "replace").hex()).words(200)
    whole = np.full(size + 1, -1, dtype=np.int32)
    unsettled, used = derange(whole, size, size + 1, words, 0, TOP_WORD)

    pieces, left, consumed = np.full(size + 1, -1, dtype=np.int32), size + 1, 0
    edges = sorted({0, *cuts, len(words)})
    for start, stop in pairwise(edges):
        left, cursor = derange(pieces, size, left, words[start:stop], 0, TOP_WORD)
        consumed += cursor
        if left == FINISHED:
            break
    assert (left, consumed) == (unsettled, used)
    assert np.array_equal(pieces, whole)
    assert whole[size] == -1, "nothing is written past the size"


def drawn(size: int, draws: int) -> Counter[Permutation]:
    counts: Counter[Permutation] = Counter()
    stream, shuffle = RandomStream(b"\x07" * 32, f"derangements of {size}"), np.empty(size, np.int32)
    words, cursor = stream.words(1 << 20), 0
    for _ in range(draws):
        unsettled, cursor = derange(shuffle, size, size + 1, words, cursor, TOP_WORD)
        while unsettled != FINISHED:
            words = stream.words(1 << 20)
            unsettled, cursor = derange(shuffle, size, unsettled, words, 0, TOP_WORD)
        counts[tuple(shuffle.tolist())] += 1
    return counts


@pytest.mark.parametrize("size", [5, 6])
def test_derangements_from_the_real_stream_are_uniform(size: int) -> None:
    assert not alarm(drawn(size, DRAWS), uniform(size))


class _UndecidedError(Exception):
    def __init__(self, bound: int) -> None:
        self.bound = bound


def exact_distribution(
    attempt: Callable[[int, Below], Permutation | None],
    size: int,
    chance: Callable[[int, int], Fraction] = lambda bound, value: Fraction(1, bound),
) -> Distribution:
    """A sampler's distribution, by trying every value of every integer that it requests. None is a refused attempt.

    Args:
        attempt: one attempt, given a source of integers below a bound.
        size: how many positions are permuted.
        chance: the probability that an integer below `bound` is `value`; uniform by default.
    """
    found: Counter[Permutation | None] = Counter()
    branches: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while branches:
        script, probability = branches.pop()
        choices = iter(script)

        def below(bound: int, choices: object = choices) -> int:
            for choice in choices:  # type: ignore[attr-defined]
                return int(choice)
            raise _UndecidedError(bound)

        try:
            found[attempt(size, below)] += probability  # type: ignore[assignment]
        except _UndecidedError as undecided:
            branches += [
                ((*script, value), probability * chance(undecided.bound, value)) for value in range(undecided.bound)
            ]
    accepted = 1 - Fraction(found[None])
    return {outcome: Fraction(mass) / accepted for outcome, mass in found.items() if outcome is not None}


def early_refusal(size: int, below: Below, settled_below: int = 0) -> Permutation | None:
    """The paper's method, except that positions below `settled_below` may be fixed points."""
    shuffle = list(range(size))
    for last in range(size - 1, -1, -1):
        other = below(last + 1) if last else 0
        shuffle[last], shuffle[other] = shuffle[other], shuffle[last]
        if shuffle[last] == last and last >= settled_below:
            return None
    return tuple(shuffle)


def position_0_forgotten(size: int, below: Below) -> Permutation | None:
    """Wrong: the last remaining position is not checked."""
    return early_refusal(size, below, settled_below=1)


def sattolo(size: int, below: Below) -> Permutation:
    """Wrong: never choosing the position itself leaves no fixed point, but gives only cycles."""
    shuffle = list(range(size))
    for last in range(size - 1, 0, -1):
        other = below(last)
        shuffle[last], shuffle[other] = shuffle[other], shuffle[last]
    return tuple(shuffle)


def swapped_away(size: int, below: Below) -> Permutation:
    """Wrong: a fair shuffle, after which each fixed point is exchanged with another position."""
    shuffle = list(range(size))
    for last in range(size - 1, 0, -1):
        other = below(last + 1)
        shuffle[last], shuffle[other] = shuffle[other], shuffle[last]
    for place in range(size):
        if shuffle[place] == place:
            other = (place + 1 + below(size - 1)) % size
            shuffle[place], shuffle[other] = shuffle[other], shuffle[place]
    return tuple(shuffle)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_early_refusal_is_exactly_uniform(size: int) -> None:
    assert exact_distribution(early_refusal, size) == uniform(size)


@pytest.mark.parametrize("size", [5, 6])
@pytest.mark.parametrize("wrong", [sattolo, swapped_away, position_0_forgotten])
def test_the_chi_square_rejects(wrong: Callable[[int, Below], Permutation], size: int) -> None:
    distribution = exact_distribution(wrong, size)
    assert power(distribution, uniform(size), DRAWS) > 1 - 1e-6
    assert alarm(sample(distribution, DRAWS, seed=1), uniform(size))


@pytest.mark.parametrize(("size", "top"), [(3, 3), (4, 7), (5, 7), (6, 7)])
def test_a_plain_modulo_is_not_uniform_over_toy_words(size: int, top: int) -> None:
    def chance(bound: int, value: int) -> Fraction:
        return Fraction(sum(word % bound == value for word in range(top + 1)), top + 1)

    biased = exact_distribution(early_refusal, size, chance)
    assert set(biased) == derangements(size)
    assert len(set(biased.values())) > 1
