"""The tree of word sequences: what a sampler makes of every sequence, with exact weights.

A sampler that goes on word by word is a walk whose next state depends on its state and one word alone.
Sequences that led to the same state are kept as one number, so that a tree of 8^200 sequences is walked in
a moment and nothing is approximated. Here belongs the walk; what the states are belongs to the tests.
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
    """What a sampler made of a sequence of words, once it needs no more."""

    outcome: Any


Step = Callable[[Any, int], State | Finished]


def walk(step: Step, start: State, words: int) -> Iterator[tuple[Counter[Any], int, int]]:
    """For depth 1, 2, …: sequences of that many words by outcome; how many go on; how many there are.

    Args:
        step: the state, or the outcome, that one more word leads to from a state.
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
    """For every outcome two rationals, less than `width` apart, between which its probability lies."""
    for finished, going, every in walk(step, start, words):
        if going < width * every:
            return {
                outcome: (Fraction(count, every), Fraction(count + going, every)) for outcome, count in finished.items()
            }
    raise AssertionError("the walk has no end")
