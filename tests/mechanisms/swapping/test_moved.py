"""The expected shares of moved records equal averages over all selections and derangements, by probability."""

from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from mechanisms.swapping.uncertainty import moved


def enumerated(strata: list[str], rate: Fraction) -> tuple[Fraction, Fraction]:
    """The expected numbers of selected and of changed records; each letter is the swap value of a record."""
    selected = changed = Fraction()
    for values in strata:
        size, whole = len(values), Fraction()
        in_stratum = [Fraction(), Fraction()]
        for chosen in product((0, 1), repeat=size):
            places = [place for place in range(size) if chosen[place]]
            if len(places) == 1:
                continue
            probability = rate ** len(places) * (1 - rate) ** (size - len(places))
            whole += probability
            deranged = [
                order
                for order in permutations(range(len(places)))
                if all(place != new for place, new in enumerate(order))
            ]
            for order in deranged:
                other = sum(values[places[new]] != values[place] for new, place in zip(order, places, strict=True))
                in_stratum[1] += probability * Fraction(other, len(deranged))
            in_stratum[0] += probability * len(places)
        if size > 1:
            selected += in_stratum[0] / whole
            changed += in_stratum[1] / whole
    every = sum(map(len, strata))
    return selected / every, changed / every


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("strata", [["ab"], ["aab", "a"], ["abbc", "abbc", "cc", "b"], ["aaab", "abcd"]])
def test_expected_shares_are_those_of_all_draws(strata: list[str], rate: Fraction) -> None:
    """Without the repetition of single selections, or with permutations that may leave a record in its place, both
    shares are smaller; if records got other values whenever they are selected, the second would be the first."""
    kinds = Counter((len(values), sum(count**2 for count in Counter(values).values())) for values in strata)
    records, squares = np.array(list(kinds)).T
    found = moved(records, squares, np.array(list(kinds.values())), rate)
    selected, changed = enumerated(strata, rate)
    assert found.selected == pytest.approx(float(selected), abs=1e-12)
    assert found.changed == pytest.approx(float(changed), abs=1e-12)


def test_nothing_moves_where_there_is_nothing_to_exchange() -> None:
    none = np.array([], dtype=np.int64)
    assert moved(none, none, none, Fraction(1, 2)).selected == 0
    alone = moved(np.array([1, 3]), np.array([1, 9]), np.array([5, 1]), Fraction(1, 2))
    assert alone.selected > 0
    assert alone.changed == 0
