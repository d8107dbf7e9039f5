"""Quantiles that are drawn by permute-and-flip: the loss, the draw and the stated error are exact.

With a rational z in the place of e^(−λ), all probabilities are rational. A loss of ε means that no probability is more
than e^ε times that of a neighbor, which is a power of z.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from math import log

import numpy as np
import pytest

from mechanisms.accounting.losses import PureLoss
from mechanisms.sampling.fixed_point import exponential
from mechanisms.sampling.goodness import fit
from mechanisms.sampling.stream import RandomStream, Words
from mechanisms.table_builder.choosing import Chosen, find_law, keep

Z = Fraction(9, 10)
Probabilities = tuple[Fraction, ...]


@cache
def find_probabilities(scores: Sequence[int]) -> Probabilities:
    """P(y) = p(y)·∫ Π (1 − t·p(x)) dt over the other numbers x, t from 0 to 1, with p = Z^score."""
    chances = [Z**score for score in scores]
    found = []
    for place, own in enumerate(chances):
        polynomial = [Fraction(1)]
        for chance in chances[:place] + chances[place + 1 :]:
            pairs = zip([*polynomial, Fraction(0)], [Fraction(0), *polynomial], strict=True)
            polynomial = [one - chance * other for one, other in pairs]
        found.append(own * sum(part / (power + 1) for power, part in enumerate(polynomial)))
    return tuple(found)


def test_probabilities_are_those_of_the_first_number_in_a_random_order_whose_coin_shows_heads() -> None:
    """The definition of permute-and-flip, by all orders of three numbers."""
    chances = [Fraction(1), Z, Z**3]
    wanted = [Fraction(0)] * 3
    for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
        left = Fraction(1, 6)
        for number in order:
            wanted[number] += left * chances[number]
            left *= 1 - chances[number]
    assert find_probabilities((0, 1, 3)) == tuple(wanted)
    _, law = find_law(np.array([0, 1, 3]), Fraction(-log(Z)))
    assert law == pytest.approx([float(chance) for chance in wanted])


Weighted = tuple[int, int]
"""A record: its number and its weight in steps."""


def leaves(numbers: int, records: Sequence[Weighted]) -> np.ndarray:
    counts = np.zeros(numbers, dtype=np.int64)
    for number, weight in records:
        counts[number] += weight
    return counts


def neighbors(numbers: int, weight: int) -> Iterator[tuple[Sequence[Weighted], Sequence[Weighted]]]:
    universe = list(product(range(numbers), range(1, weight + 1)))
    for records in range(4 if weight == 1 else 2):
        for rest in combinations_with_replacement(universe, records):
            for new in universe:
                yield rest, (*rest, new)


@pytest.mark.parametrize(
    ("quantile", "numbers", "weight"),
    [(Fraction(1, 2), 4, 1), (Fraction(1, 2), 4, 2), (Fraction(1, 4), 4, 1), (Fraction(2, 3), 3, 2)],
)
def test_no_record_added_or_changed_costs_more_than_is_charged(quantile: Fraction, numbers: int, weight: int) -> None:
    """Every data set of up to three records, and every neighbor. Wrong programs: one without the factor of 2 in λ, one
    that takes the smaller of q and 1 − q for the sensitivity, one with the sensitivity of a weight of one step, and one
    that charges a change, by which two cells differ, as a record added."""
    parts = max(quantile.numerator, quantile.denominator - quantile.numerator)
    # One unit of the score, 1/2b, then has λ = 1, and z stands for e^−1.
    budget = 4 * weight * parts
    chosen = Chosen(numbers, (quantile,), (Fraction(budget),), weight)

    def probabilities(records: Sequence[Weighted], factor: int = 1) -> Probabilities:
        scores, rate = chosen.scores(leaves(numbers, records), 0)
        assert rate == 1
        return find_probabilities(tuple((factor * scores).tolist()))

    def find_ratios(factor: int = 1) -> set[Fraction]:
        pairs = [
            (probabilities(one, factor), probabilities(other, factor)) for one, other in neighbors(numbers, weight)
        ]
        both = [*pairs, *((other, one) for one, other in pairs)]
        return {max(p / q for p, q in zip(one, other, strict=True)) for one, other in both}

    assert chosen.unbounded == PureLoss(Fraction(budget))
    assert chosen.bounded == PureLoss(Fraction(2 * budget)) == chosen.lines[0].loss
    worst, allowed = max(find_ratios()), Z**-budget
    assert worst <= allowed
    # A record leaves one cell and enters another: both ratios multiply.
    assert allowed < worst**2 <= Z ** -(2 * budget)
    smaller = quantile.denominator - parts
    wrong = [2, *([parts // smaller] if parts > smaller else []), *([weight] if weight > 1 else [])]
    for factor in wrong:
        assert max(find_ratios(factor)) > allowed


class Given:
    """A source of given words."""

    def __init__(self, words: Sequence[int]) -> None:
        self._words = list(words)

    def words(self, count: int) -> Words:
        taken, self._words = self._words[:count], self._words[count:]
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize("exponent", [Fraction(1, 100), Fraction(1, 3), Fraction(2), Fraction(9)])
def test_coins_are_exact_to_every_digit(exponent: Fraction) -> None:
    """All pairs of words of four bits: as many as the first eight digits of the probability say are kept, and only the
    pair that equals these digits needs a third word. A program that rounds after one word keeps another number."""
    low, high = exponential(exponent, 64)
    digits = low >> 56
    assert digits == high >> 56
    kept = 0
    for words in product(range(16), repeat=2):
        third = 0 if words == (digits >> 4, digits & 15) else None
        source = Given([*words, *([] if third is None else [0, 0, 0, 0])])
        kept += bool(keep(np.array([3]), exponent / 3, source, 4)[0])
    # With the words 0 behind them, the digits themselves are below the probability.
    assert kept in (digits, digits + 1)
    assert keep(np.array([0, 3]), exponent / 3, Given([15, 15, 15, 15, 15]), 4).tolist() == [True, False]


SKEWED = np.minimum(np.random.default_rng(4).lognormal(2.2, 0.7, 60).astype(np.int64), 39)


@pytest.mark.parametrize("quantile", [Fraction(1, 2), Fraction(9, 10)])
def test_draws_have_their_probabilities_and_errors_their_bounds(quantile: Fraction) -> None:
    """2,000 draws: no number is 5 standard deviations from its frequency. The exponential mechanism fails."""
    chosen = Chosen(40, (quantile,), (Fraction(2),))
    counts, draws = np.bincount(SKEWED, minlength=40), 2000
    scores, rate = chosen.scores(counts, 0)
    different, law = find_law(scores, rate)
    _, which, times = np.unique(scores, return_inverse=True, return_counts=True)
    chances = (law / times)[which]
    assert different[which].tolist() == scores.tolist()
    stream = RandomStream(b"k" * 32, f"choosing {quantile}")
    drawn = np.array([chosen.draw(counts, 0, stream) for _ in range(draws)])
    frequencies = np.bincount(drawn, minlength=40)
    deviations = np.sqrt(draws * chances * (1 - chances)) + 1
    assert (np.abs(frequencies - draws * chances) < 5 * deviations).all()
    weights = np.exp(-scores * float(rate))
    exponential_mechanism = weights / weights.sum()
    # At 9/10, five numbers are equally good, so the two mechanisms are nearly the same.
    assert quantile > Fraction(1, 2) or (np.abs(frequencies - draws * exponential_mechanism) > 5 * deviations).any()
    assert chances @ scores < exponential_mechanism @ scores
    truth = int(np.quantile(SKEWED, float(quantile), method="inverted_cdf"))
    assert scores[truth] == 0 < min(score for number, score in enumerate(scores) if number != truth)
    up_to, wanted = np.cumsum(counts), float(quantile) * len(SKEWED)
    off = np.maximum(0, np.maximum(up_to - counts - wanted, wanted - up_to))
    assert chances[off >= chosen.margin(0)].sum() <= 0.1
    assert chances @ off**2 <= float(chosen.error(0).exact_variance)


def test_the_gate_on_draws_accepts_them_and_finds_others() -> None:
    """Cells of different sizes. Fails for: numbers without noise, uniform numbers, far numbers, and cells with two
    numbers."""
    chosen, random = Chosen(40, (Fraction(1, 2),), (Fraction(1, 5),)), np.random.default_rng(5)
    cells = np.array([np.bincount(random.choice(SKEWED, 10 + size % 30), minlength=40) for size in range(300)])
    drawn = chosen.draw_cells(cells, 0, RandomStream(b"k" * 32, "gate"))
    assert not fit([chosen.check_cells(cells, 0, drawn)]).alarm
    exact = np.zeros_like(drawn)
    exact[np.arange(300), [int(chosen.scores(cell, 0)[0].argmin()) for cell in cells]] = 1
    uniform = np.eye(40, dtype=np.int64)[random.integers(0, 40, 300)]
    for wrong in (exact, uniform):
        assert fit([chosen.check_cells(cells, 0, wrong)]).alarm
    twice = drawn.copy()
    twice[0] = 1
    assert chosen.check_cells(cells, 0, twice).impossible == 1
    many = np.bincount(np.zeros(10_000, dtype=np.int64), minlength=40)
    assert chosen.check(many, 0, 39).impossible == 1
    assert chosen.check(many, 0, 0).expected.sum() == pytest.approx(1)


def test_an_empty_cell_has_every_number_with_the_same_probability() -> None:
    scores, _ = Chosen(7, (Fraction(1, 3),), (Fraction(1),)).scores(np.zeros(7, dtype=np.int64), 0)
    assert not scores.any()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((1, (Fraction(1, 2),), (Fraction(1),)), "grid: a variable has from 2 to 1,048,576 numbers, not 1"),
        ((4, (Fraction(1, 2),), ()), "budgets: there is one greater than 0 for each of 1 quantiles"),
        ((4, (Fraction(1, 20_000),), (Fraction(1),)), "a denominator of at most 10,000"),
    ],
)
def test_quantiles_that_cannot_be_drawn_are_refused(
    arguments: tuple[int, tuple[Fraction, ...], tuple[Fraction, ...]], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        Chosen(*arguments)
