"""No finite ε holds: on small universes, some outputs are possible under one of two neighbors and impossible under the
other.

Enumeration: the procedure sees the words only through the order of word / weight in each state and of words among equal
risks. Here every household is alone in its group with its key values, so all risks are equal, and all orders of the
words are all draws.
"""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.accounting.losses import InfiniteLoss
from mechanisms.pair_swapping.design import PairSwappingDesign, RiskFactors
from mechanisms.pair_swapping.pairing import NOBODY, Households, Places, Swapped, Traits, pairs_of_words, risks, weigh
from tests.depth import deep_cases, quick_cases

State = tuple[int, ...]
"""A data set: the held value of the household in each block; the margins are fixed, so it is a permutation."""


def outputs(data: State, rate: Fraction, above: np.ndarray) -> dict[State, int]:
    """All outputs from a data set, with the number of orders of words that give each."""
    number = len(data)
    block = np.arange(number, dtype=np.int32)
    table = Households(block, np.zeros(number, dtype=np.int32), np.array(data, dtype=np.int32), Places(above))
    assert set(risks(table).tolist()) == {5}
    found: dict[State, int] = {}
    for order in permutations(range(number)):
        words = (np.array(order, dtype=np.uint64) + np.uint64(1)) << np.uint64(48)
        moved = pairs_of_words(table, rate, words).of(block)
        output = [0] * number
        for value, place in zip(data, moved.tolist(), strict=True):
            output[place] = value
        found[tuple(output)] = found.get(tuple(output), 0) + 1
    return found


def neighbors(data: State) -> list[State]:
    """All data sets with the same margins that differ from it in two households, the fewest possible."""
    swapped = []
    for one in range(len(data)):
        for other in range(one):
            changed = list(data)
            changed[one], changed[other] = changed[other], changed[one]
            swapped.append(tuple(changed))
    return swapped


ONE_COUNTY = np.zeros((4, 4), dtype=np.int32)
ONE_COUNTY[0] = ONE_COUNTY[1] = [0, 0, 1, 1]
FAR = np.array([[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [0, 0, 0, 0]], dtype=np.int32)
SMALL = FAR[:, :3]


@quick_cases(4)
@deep_cases(1)
@pytest.mark.parametrize("above", [ONE_COUNTY, FAR, SMALL], ids=["nested", "far apart", "three blocks"])
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 2), Fraction(3, 4), Fraction(1)])
def test_every_two_neighbors_have_other_possible_outputs(above: np.ndarray, rate: Fraction) -> None:
    """For every ε, P(S) <= exp(ε) P'(S) fails for an S that has probability 0 under one of them."""
    universe = list(permutations(range(above.shape[1])))
    support = {data: set(outputs(data, rate, above)) for data in universe}
    for data in universe:
        for other in neighbors(data):
            assert support[data] - support[other], "possible under one, and impossible under the other"
            assert support[other] - support[data]


def test_a_draw_contradicts_only_neighbors_from_which_it_is_impossible() -> None:
    """Three households match, and two others. If both selected households match, one exchange is made, otherwise two.

    Fails for: two households that both stay, or two partners, taken for a contradiction; and two of which only one
    stays, not taken for one.
    """
    group, start = np.array([0, 0, 0, 1, 1], dtype=np.int32), np.arange(5, dtype=np.int32)
    pairs = [(0, 1), (0, 2), (1, 2), (3, 4)]
    orders = [(np.array(order, dtype=np.uint64) + np.uint64(1)) << np.uint64(48) for order in permutations(range(5))]

    def draw(data: NDArray[np.int32]) -> list[tuple[State, Swapped]]:
        table = Households(start, group, data, Places(np.zeros((4, 5), dtype=np.int32)))
        drawn = [pairs_of_words(table, Fraction(2, 5), words) for words in orders]
        return [(tuple(swapped.of(data).tolist()), swapped) for swapped in drawn]

    reached = []
    for one, other in pairs:
        exchanged = start.copy()
        exchanged[[one, other]] = other, one
        reached.append({output for output, _ in draw(exchanged)})
    found = set()
    for output, swapped in draw(start):
        contradicted = swapped.contradicts(*np.array(pairs).T).tolist()
        found |= {(output in outputs, says) for outputs, says in zip(reached, contradicted, strict=True)}
    assert {(False, True), (True, False)} <= found
    assert (True, True) not in found


@pytest.mark.prove
def test_pairs_do_not_reach_what_their_repetition_reaches() -> None:
    """The reason is not transitivity: a cycle of three is two exchanges, but never one set of disjoint exchanges."""
    start = (0, 1, 2)
    reached = set(outputs(start, Fraction(1, 3), SMALL))
    assert reached == {(1, 0, 2), (2, 1, 0), (0, 2, 1)}
    twice = {data for once in reached for data in outputs(once, Fraction(1, 3), SMALL)}
    assert twice == {(0, 1, 2), (1, 2, 0), (2, 0, 1)}
    assert not twice & reached


def test_the_specification_states_no_finite_loss() -> None:
    design = PairSwappingDesign(unit="unit", key=("HHRACE",), swap_rate=Fraction(1, 20), place=("BLOCK",))
    specification = design.specification("town")
    assert specification.loss == specification.charge == InfiniteLoss()
    assert len(specification.flavor.multiverse) == 3


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize("always", [None, "county"])
def test_risk_factors_leave_no_finite_loss(always: str | None) -> None:
    """Weights that depend on a household's values: every neighbor still has possible outputs that the other has not.

    The test enumerates the draws with three different words of six, which give every order of the words and of
    word / weight.
    """
    factors = RiskFactors(unique_race=("CENRACE", Fraction(2)), always_selected=always)
    block = np.arange(3, dtype=np.int32)
    support = {}
    for data in permutations(range(3)):
        held = np.array(data, dtype=np.int32)
        table = Households(block, np.zeros(3, dtype=np.int32), held, Places(SMALL))
        rare = (held == 0).astype(np.int32)
        weights = weigh(factors, Traits(block * 0 + 1, block * 0, rare, block * 0), risks(table))
        found = set()
        for order in permutations(range(1, 7), 3):
            words = np.array(order, dtype=np.uint64) << np.uint64(56)
            partner = pairs_of_words(table, Fraction(1, 3), words, weights).partner
            found.add(tuple(data[each if other == NOBODY else other] for each, other in enumerate(partner.tolist())))
        support[data] = found
    for data, found in support.items():
        for other in neighbors(data):
            assert found - support[other]
