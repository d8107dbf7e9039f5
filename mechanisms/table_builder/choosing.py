"""Single quantiles drawn instead of noisy counts: permute-and-flip on a number's distance from the quantile.

A variable is a number from 0 to G − 1, as in `quantiles`. Of N records, F(y) have a number of at most y. The quantile
of q = a/b is the number y with F(y − 1) < qN <= F(y), so with F(y − 1) < T < F(y) for T = qN − 1/2b, which no F equals.
The score of y is

    s(y) = max(F(y − 1) − T, T − F(y)),

below 0 for the quantile alone, and for other numbers the number of records by which they miss it. (The score of OpenDP
is the distance of qN from (1 − q)F(y − 1) + qF(y), which prefers another number where many records have the same one.)
With m the least score, the draw keeps every number y with the probability e^(−λ(s(y) − m)), independently, and picks
one of the kept numbers, each with the same probability. This is permute-and-flip (McKenna and Sheldon, 2020), whose
scores are never worse in expectation than with the exponential mechanism at the same loss.

**Loss.** A record that is added or removed changes F(y − 1) − T and T − F(y) by at most Δ = max(q, 1 − q); a record
with a weight of up to W steps, by WΔ. With λ = ε/2WΔ the loss is ε. For 1/(1 + k) = ∫₀¹ tᵏ dt, where k other numbers
are kept, so that with w = e^(−λs) and u = te^(λm), y is picked with the probability

    P(y) = w(y) · ∫ Π_{x ≠ y} (1 − u·w(x)) du, for u from 0 to 1/max w.

Under a neighbor, every w is at least w/a and at most aw with a = e^(ε/2). So P'(y) is at least w(y)/a times the
integral of Π (1 − au·w(x)) up to 1/(a·max w), which is the former one over a: P'(y) >= P(y)/a². A record that changes
leaves one cell and enters another, or stays: 2ε, by group privacy. No ρ below ε²/2 is claimed.

**Error.** A number with the score m + t is picked only if it is kept, and then with a probability of at most 1/2, as
one with the score m is kept too. If there are records, m < 0, and the score is t or more with a probability of at most
(G − 1)e^(−λt)/2. This bounds the number of records by which the number misses the quantile, but not the number itself,
which depends on the records. So there is no interval.

**The draw.** Every number reads one word as the first digits of U, uniform on [0, 1), and is kept if U is less than
its probability. Where these digits equal those of the probability, which is irrational, further words decide, so the
draw is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.specification import Line
from mechanisms.sampling.fixed_point import exponential
from mechanisms.sampling.goodness import BINS, BinCounts
from mechanisms.sampling.inversion import WORD_BITS
from mechanisms.sampling.noise import Perturbation
from mechanisms.sampling.rejection import Choices
from mechanisms.sampling.stream import WordReader, Words, WordSource
from mechanisms.table_builder.quantiles import require_numbers

NAME = "permute-and-flip"

FINEST = 10_000
"""The greatest denominator of a quantile, so that scores are 64-bit integers."""

_IMPOSSIBLE = 50.0
"""A score whose probability is below e^−50 counts as impossible."""

_NEGLIGIBLE = 60.0
_NODES = 64

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Chosen:
    """Quantiles of a variable with `numbers` numbers, each drawn with an exact ε. A record adds at most `weight` steps.
    Raises ValueError if a parameter is out of range."""

    numbers: int
    quantiles: tuple[Fraction, ...]
    budgets: tuple[Fraction, ...]
    weight: int = 1

    def __post_init__(self) -> None:
        require_numbers(self.numbers)
        if max(quantile.denominator for quantile in self.quantiles) > FINEST:
            raise ValueError(f"at: a quantile is a fraction with a denominator of at most {FINEST:,}")
        if len(self.budgets) != len(self.quantiles) or min(self.budgets) <= 0:
            raise ValueError(f"budgets: there is one greater than 0 for each of {len(self.quantiles)} quantiles")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of counts from which each quantile is drawn."""
        return (self.numbers,) * len(self.quantiles)

    @classmethod
    def shared(
        cls, numbers: int, quantiles: Sequence[Fraction], budget: Fraction, shares: Sequence[Fraction], weight: int
    ) -> "Chosen":
        """Quantiles that share a budget; equally by default. Their order does not matter. Raises ValueError."""
        if shares and len(shares) != len(quantiles):
            raise ValueError(f"shares: there is one for each of {len(quantiles)} quantiles, not {len(shares)}")
        pairs = sorted(zip(quantiles, shares or [Fraction(1, len(quantiles))] * len(quantiles), strict=True))
        return cls(
            numbers, tuple(quantile for quantile, _ in pairs), tuple(budget * share for _, share in pairs), weight
        )

    @property
    def unbounded(self) -> PureLoss:
        return PureLoss(sum(self.budgets, Fraction(0)))

    @property
    def bounded(self) -> PureLoss:
        """The loss for one record changed in any way."""
        return self.unbounded.of_group(2)

    @property
    def lines(self) -> tuple[Line, ...]:
        """By quantile, the loss for one record changed."""
        pairs = zip(self.quantiles, self.budgets, strict=True)
        return tuple(Line(f"quantile {quantile}", PureLoss(2 * budget)) for quantile, budget in pairs)

    def as_record(self) -> dict[str, Any]:
        """Exact plain values, equal for quantiles with the same draws."""
        return {
            "numbers": self.numbers,
            "quantiles": list(map(str, self.quantiles)),
            "budgets": list(map(str, self.budgets)),
            "weight": self.weight,
        }

    def rate(self, place: int) -> Fraction:
        """λ of a quantile, for a score of one step."""
        quantile = self.quantiles[place]
        return self.budgets[place] / (2 * self.weight * max(quantile, 1 - quantile))

    def margin(self, place: int, budget: Fraction | None = None) -> float:
        """A score in steps that at most 10% of draws reach; at its own budget by default."""
        rate = self.rate(place) * ((budget or self.budgets[place]) / self.budgets[place])
        return log(5 * (self.numbers - 1)) / float(rate)

    def error(self, place: int) -> Perturbation:
        """A bound on the mean square of scores above 0, in squared steps: ∫ 2t·min(1, (G − 1)e^(−λt)/2) dt."""
        beyond = max(0.0, log((self.numbers - 1) / 2))
        return Perturbation(NAME, Decimal((beyond**2 + 2 * beyond + 2) / float(self.rate(place)) ** 2))

    def scores(self, leaves: Counts, place: int) -> tuple[Counts, Fraction]:
        """s − m of all numbers in whole units, from their counts, and λ for such a unit."""
        quantile, up_to = self.quantiles[place], np.cumsum(leaves)
        units = 2 * quantile.denominator
        off = units * up_to - 2 * quantile.numerator * up_to[-1] + 1
        scores = np.maximum(off - units * leaves, -off)
        return scores - scores.min(), self.rate(place) / units

    def draw(self, leaves: Counts, place: int, source: WordSource) -> int:
        """A quantile of the records with these counts by number, shape (numbers,)."""
        scores, rate = self.scores(leaves, place)
        reader = WordReader(source)
        kept = np.flatnonzero(keep(scores, rate, source))
        return int(kept[Choices(reader).below(len(kept))]) if len(kept) > 1 else int(kept[0])

    def draw_cells(self, leaves: Counts, place: int, source: WordSource) -> Counts:
        """By cell, shape (cells, numbers), a 1 where a number is drawn, and 0 elsewhere."""
        drawn = np.zeros_like(leaves)
        for cell, counts in enumerate(leaves):
            drawn[cell, self.draw(counts, place, source)] = 1
        return drawn

    def check_cells(self, leaves: Counts, place: int, drawn: Counts) -> BinCounts:
        """The draws of `draw_cells` in bins of nearly equal probability. Cells without exactly one number that is drawn
        are counted as impossible."""
        wrong = (drawn.sum(axis=1) != 1) | (drawn.min(axis=1) < 0)
        total = BinCounts(np.zeros(BINS), np.zeros(BINS), int(wrong.sum()))
        for cell in np.flatnonzero(~wrong):
            total = total + self.check(leaves[cell], place, int(drawn[cell].argmax()))
        return total

    def check(self, leaves: Counts, place: int, number: int) -> BinCounts:
        """A draw and its expected bin: numbers by score, from the most probable on. A number that a draw could not give
        is counted as impossible."""
        scores, rate = self.scores(leaves, place)
        different, law = find_law(scores, rate)
        bins = np.minimum((np.cumsum(law) - law / 2) * BINS, BINS - 1).astype(np.int64)
        beyond = float(scores[number] * rate) > log(self.numbers) + _IMPOSSIBLE
        observed = np.bincount(bins[different == scores[number]], minlength=BINS)
        return BinCounts(observed.astype(np.float64), np.bincount(bins, law, BINS).astype(np.float64), int(beyond))


def keep(scores: Counts, rate: Fraction, source: WordSource, word_bits: int = WORD_BITS) -> NDArray[np.bool_]:
    """Which places are kept, independently and exactly with the probabilities e^(−rate·score). Each place reads one
    word; then undecided places, in their order, read further words."""
    words = source.words(len(scores))
    different, which = np.unique(scores, return_inverse=True)
    floors = [_floor(score * rate, word_bits) if score else 0 for score in different.tolist()]
    own: Words = np.array(floors, np.uint64)[which]
    kept = (scores == 0) | (words < own)
    for place in np.flatnonzero((words == own) & (scores > 0)).tolist():
        number, digits = int(words[place]), word_bits
        while number == (floor := _floor(int(scores[place]) * rate, digits)):
            number, digits = number << word_bits | int(source.words(1)[0]), digits + word_bits
        kept[place] = number < floor
    return kept


@lru_cache(maxsize=1 << 16)
def _floor(exponent: Fraction, digits: int) -> int:
    """⌊2^digits·e^(−exponent)⌋, for an exponent greater than 0, where the power is irrational."""
    # ln 2 < 7/10, so e^−γ is then below 2^−digits.
    if exponent > digits * Fraction(7, 10):
        return 0
    precision = digits + WORD_BITS
    while True:
        low, high = exponential(exponent, precision)
        if low >> (precision - digits) == high >> (precision - digits):
            return low >> (precision - digits)
        precision *= 2


def find_law(scores: Counts, rate: Fraction) -> tuple[Counts, NDArray[np.float64]]:
    """The different scores, ascending, and the probability that a number with each is picked, to about six digits: for
    checks, not for drawing."""
    different, times = np.unique(scores, return_counts=True)
    exponents = different * float(rate)
    chances, near = np.exp(-exponents), exponents < _NEGLIGIBLE
    t, widths = _find_nodes()
    others = 1 - np.outer(t, chances[near])
    none = np.exp(np.log(others) @ times[near])
    law = np.zeros(len(different))
    law[near] = times[near] * chances[near] * ((none * widths) @ (1 / others))
    return different, law


@lru_cache
def _find_nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Places from 0 to 1 with their weights. The places are fourth powers, so most are near 0, where the integrand is
    steep if many numbers are kept."""
    nodes, widths = np.polynomial.legendre.leggauss(_NODES)
    roots = (nodes + 1) / 2
    return roots**4, widths * 2 * roots**3
