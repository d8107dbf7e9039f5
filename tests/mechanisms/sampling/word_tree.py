"""The tree of word sequences: the outcome of a sampler for every sequence, with exact weights.

A sampler that reads word by word is a walk whose next state depends only on its state and one word. Sequences that lead
to the same state are counted together, so a tree of 8^200 sequences takes a moment, without approximation. This module
does the walk; the tests define the states.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

State = Hashable


@dataclass(frozen=True)
class Finished:
    """The outcome of a sequence of words, once the sampler needs no more."""

    outcome: Any


Step = Callable[[Any, int], State | Finished]


def walk(step: Step, start: State, words: int) -> Iterator[tuple[Counter[Any], int, int]]:
    """For depth 1, 2, …: the number of sequences of that length by outcome, of those that continue, and of all.

    Args:
        step: gives the state, or the outcome, to which one more word leads from a state.
        start: the state before the first word.
        words: words are 0 .. words - 1, equally likely.
    """
    remembered = cache(step)
    finished: Counter[Any] = Counter()
    going: Counter[State] = Counter({start: 1})
    every = 1
    while True:
        every *= words
        finished = Counter({outcome: count * words for outcome, count in finished.items()})
        further: Counter[State] = Counter()
        for state, count in going.items():
            for word in range(words):
                reached = remembered(state, word)
                if isinstance(reached, Finished):
                    finished[reached.outcome] += count
                else:
                    further[reached] += count
        going = further
        yield finished, going.total(), every


def bracket(step: Step, start: State, words: int, width: Fraction) -> dict[Any, tuple[Fraction, Fraction]]:
    """For every outcome, two rational numbers, less than `width` apart, that enclose its probability."""
    for finished, going, every in walk(step, start, words):
        if going < width * every:
            return {
                outcome: (Fraction(count, every), Fraction(count + going, every)) for outcome, count in finished.items()
            }
    raise AssertionError("the walk has no end")
