"""The rejection samplers are exact: their two choices over all toy words, and the samplers over all choices.

Only a program whose numbers overflow for wide distributions could pass wrongly. Python's integers do not overflow, and
the chi-square test is also made at σ² = 2^40.
"""

import math
from collections import Counter
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from mechanisms.sampling import rejection
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.rejection import Choices, bernoulli_exponential, gaussian, laplace
from mechanisms.sampling.stream import RandomStream, WordReader
from tests.depth import deep_but, deep_cases, quick_cases
from tests.mechanisms.sampling.chi_square import alarm, power
from tests.mechanisms.sampling.exact_noise import Noise, OutOfWordsError, ToyStream, alarms, reference
from tests.mechanisms.sampling.word_tree import Finished, bracket

KEY = b"\x05" * 32
DRAWS = 40_000
ROUNDING = Fraction(1, 10**50)
"""More than the error of scripts whose probabilities are given with 60 digits."""


@pytest.mark.parametrize("word_bits", [1, 2, 3])
@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 11, 64, 65])
def test_over_all_toy_words_an_integer_below_a_bound_is_uniform(bound: int, word_bits: int) -> None:
    def step(words: tuple[int, ...], word: int) -> tuple[int, ...] | Finished:
        try:
            return Finished(Choices(WordReader(ToyStream([*words, word])), word_bits).below(bound))
        except OutOfWordsError:
            size = max(1, -(-(bound - 1).bit_length() // word_bits))
            return () if len(words) + 1 == size else (*words, word)

    found = bracket(step, (), 1 << word_bits, Fraction(1, 10**6))
    assert set(found) == set(range(bound))
    assert len(set(found.values())) == 1, "no integer is favoured at any depth"
    assert all(low <= Fraction(1, bound) <= high for low, high in found.values())


def test_wide_bounds_use_as_few_words_as_possible() -> None:
    for bound, words in ((1, 0), (2, 1), (2**64, 1), (2**64 + 1, 2), (2**128, 2), (3**200, 5)):
        stream = ToyStream([0] * 8)
        assert Choices(WordReader(stream)).below(bound) == 0
        assert stream.used == words


class _ForkError(Exception):
    def __init__(self, branches: list[tuple[Any, Fraction]]) -> None:
        self.branches = branches


class _AgainError(Exception):
    """An attempt was rejected: the sampler starts again from scratch."""


class Scripted:
    """Choices that follow a script. Where it ends, `_ForkError` gives the branches with their probabilities."""

    def __init__(self, script: tuple[Any, ...]) -> None:
        self._script = iter(script)
        self._begun = False

    def begin(self) -> None:
        """The first choice of every attempt calls it."""
        if self._begun:
            raise _AgainError
        self._begun = True

    def choose(self, branches: list[tuple[Any, Fraction]]) -> Any:
        for choice in self._script:
            return choice
        raise _ForkError(branches)

    def below(self, bound: int) -> int:
        self.begin()
        return self.choose([(value, Fraction(1, bound)) for value in range(bound)])

    def coin(self, numerator: int, denominator: int) -> bool:
        heads = Fraction(numerator, denominator)
        return self.choose([(True, heads), (False, 1 - heads)])


def enumerated(draw: Callable[[Choices], Any]) -> dict[Any, tuple[Fraction, Fraction]]:
    """For every outcome, two rational numbers that enclose its probability, by trying every script.

    Scripts of probability below 10^-20 are left undecided. All attempts have the same distribution, so an outcome's
    probability is its share of those that are not rejected.
    """
    found: Counter[Any] = Counter()
    undecided = refused = Fraction(0)
    open_scripts: list[tuple[tuple[Any, ...], Fraction]] = [((), Fraction(1))]
    while open_scripts:
        script, chance = open_scripts.pop()
        if chance < Fraction(1, 10**20):
            undecided += chance
            continue
        try:
            found[draw(Scripted(script))] += chance
        except _AgainError:
            refused += chance
        except _ForkError as fork:
            open_scripts += [((*script, choice), chance * share) for choice, share in fork.branches]
            undecided += chance * (1 - sum(share for _, share in fork.branches))
    undecided += ROUNDING
    assert undecided < Fraction(1, 10**15)
    return {
        outcome: ((chance - ROUNDING) / (1 - refused), (chance + undecided) / (1 - refused - undecided))
        for outcome, chance in found.items()
    }


def within(found: dict[Any, tuple[Fraction, Fraction]], exact: dict[Any, Fraction]) -> bool:
    return all(found[value][0] <= chance <= found[value][1] for value, chance in exact.items())


def exact(noise: Noise, most: int) -> dict[int, Fraction]:
    return {value: Fraction(reference(noise).probability(value)) for value in range(-most, most + 1)}


def exponential(exponent: Fraction) -> Fraction:
    with localcontext(Context(prec=60)):
        return Fraction((-Decimal(exponent.numerator) / exponent.denominator).exp())


@pytest.mark.parametrize("ratio", ["0", "1/7", "1/2", "1", "8/7", "2", "5/2"])
def test_a_bernoulli_trial_succeeds_with_probability_exp_of_minus_the_ratio(ratio: str) -> None:
    exponent, success = Fraction(ratio), exponential(Fraction(ratio))
    found = enumerated(lambda choices: bernoulli_exponential(exponent.numerator, exponent.denominator, choices))
    assert within(found, {True: success, False: 1 - success} if exponent else {True: success})
    assert not within(found, {True: success + Fraction(1, 10**14)})


@pytest.fixture
def exponential_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bernoulli(exp(−γ)) as one choice, as the test above shows that it is exact."""

    def one_choice(numerator: int, denominator: int, choices: Scripted) -> bool:
        heads = exponential(Fraction(numerator, denominator))
        return choices.choose([(True, heads), (False, 1 - heads)])

    monkeypatch.setattr(rejection, "bernoulli_exponential", one_choice)


@cache
def laplace_branches(scale: Fraction) -> list[tuple[int, Fraction]]:
    chances = exact(DiscreteLaplace(scale), int(45 * scale))
    return [(value, Fraction(int(chance * 2**200), 2**200)) for value, chance in chances.items()]


@pytest.fixture
def laplace_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The discrete Laplace as one choice, which begins every attempt at a Gaussian draw."""

    def one_choice(scale: Fraction, choices: Scripted) -> int:
        choices.begin()
        return choices.choose(laplace_branches(scale))

    monkeypatch.setattr(rejection, "laplace", one_choice)


@deep_cases(1)
@quick_cases(1)
@pytest.mark.usefixtures("exponential_coin")
@pytest.mark.parametrize("scale", deep_but(["1/3", "1", "3/2"], ["1/3", "1", "3/2", "4", "8/3"]))
def test_over_all_choices_a_laplace_draw_has_its_probabilities(scale: str) -> None:
    found = enumerated(lambda choices: laplace(Fraction(scale), choices))
    assert within(found, exact(DiscreteLaplace(Fraction(scale)), 12))
    assert not within(found, exact(DiscreteLaplace(Fraction(scale) + Fraction(1, 10**12)), 12))


@pytest.mark.usefixtures("exponential_coin", "laplace_choice")
@pytest.mark.parametrize("variance", ["1/10", "1/2", "2/3", "2", "9", "37/3"])
def test_over_all_choices_a_gaussian_draw_has_its_probabilities(variance: str) -> None:
    found = enumerated(lambda choices: gaussian(Fraction(variance), choices))
    assert within(found, exact(DiscreteGaussian(Fraction(variance)), 2))
    assert not within(found, exact(DiscreteGaussian(Fraction(variance) + Fraction(1, 10**10)), 2))


def zero_twice(scale: Fraction, choices: Choices) -> int:
    """Wrong: a negative zero is kept."""
    size = 0
    while rejection.bernoulli_exponential(scale.denominator, scale.numerator, choices):
        size += 1
    return -size if choices.coin(1, 2) else size


def width_unrounded(variance: Fraction, choices: Choices) -> int:
    """Wrong: the Laplace draw is kept with probability exp(−(|y| − σ)² / 2σ²), as if t were σ."""
    root, scale = Fraction(math.sqrt(variance)).limit_denominator(1000), math.isqrt(int(variance)) + 1
    while True:
        value = rejection.laplace(Fraction(scale), choices)
        exponent = (abs(value) - root) ** 2 / (2 * variance)
        if rejection.bernoulli_exponential(exponent.numerator, exponent.denominator, choices):
            return value


@pytest.mark.usefixtures("exponential_coin", "laplace_choice")
def test_the_enumeration_finds_wrong_samplers() -> None:
    found = enumerated(lambda choices: zero_twice(Fraction(1), choices))
    assert not within(found, exact(DiscreteLaplace(Fraction(1)), 5))
    found = enumerated(lambda choices: width_unrounded(Fraction(2, 3), choices))
    assert not within(found, exact(DiscreteGaussian(Fraction(2, 3)), 2))


def by_rejection(noise: Noise, draws: int, label: str) -> np.ndarray:
    def draw(choices: Choices) -> int:
        if isinstance(noise, DiscreteGaussian):
            return gaussian(noise.variance, choices)
        return laplace(noise.scale, choices)

    return rejection.sample(draw, draws, RandomStream(KEY, label))


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(DiscreteGaussian(Fraction(1, 10)), marks=pytest.mark.deep),
        pytest.param(DiscreteGaussian(Fraction(92416, 3)), marks=pytest.mark.deep),
        pytest.param(DiscreteLaplace(Fraction(1)), marks=pytest.mark.deep),
        DiscreteLaplace(Fraction(22, 7)),
    ],
    ids=str,
)
def test_draws_by_rejection_pass_every_test_of_the_distribution(noise: Noise) -> None:
    assert alarms(by_rejection(noise, DRAWS, "narrow"), noise) == set()


@pytest.mark.prove
@pytest.mark.parametrize("noise", [DiscreteGaussian(Fraction(100)), DiscreteLaplace(Fraction(100, 3))], ids=str)
def test_a_million_draws_by_rejection_pass_every_test_of_the_distribution(noise: Noise) -> None:
    assert alarms(by_rejection(noise, 1_000_000, "deep"), noise) == set()


WIDE_VARIANCE = Fraction(2**40) + Fraction(1, 3)
WIDE_SCALE = Fraction(10**6, 3)
EDGES = np.arange(-4, 4.01, 0.25)


def binned(values: np.ndarray, unit: float) -> dict[int, int]:
    counts = np.bincount(np.searchsorted(np.ceil(EDGES * unit), values, side="right"), minlength=len(EDGES) + 1)
    return dict(enumerate(counts.tolist()))


def chances(below: Callable[[float], float]) -> dict[int, Fraction]:
    cumulative = [0.0, *(below(edge) for edge in EDGES), 1.0]
    return {place: Fraction(high - low) for place, (low, high) in enumerate(pairwise(cumulative))}


def below_laplace(edge: float) -> float:
    return math.exp(edge) / 2 if edge < 0 else 1 - math.exp(-edge) / 2


@pytest.mark.prove
def test_wide_distributions_have_their_shape() -> None:
    """In units of σ and t they are continuous to six decimals, which 40,000 draws cannot distinguish from exact."""
    gaussian_values = DiscreteGaussian(WIDE_VARIANCE).sample(DRAWS, RandomStream(KEY, "wide"))
    laplace_values = DiscreteLaplace(WIDE_SCALE).sample(DRAWS, RandomStream(KEY, "wide"))
    normal = chances(norm.cdf)
    assert not alarm(binned(gaussian_values, math.sqrt(WIDE_VARIANCE)), normal)
    assert not alarm(binned(laplace_values, float(WIDE_SCALE)), chances(below_laplace))
    assert alarm(binned(laplace_values, math.sqrt(2) * float(WIDE_SCALE)), normal)
    assert power(chances(lambda edge: norm.cdf(edge * 1.05)), normal, DRAWS) > 1 - 1e-6, "σ wrong by 5%"


@pytest.mark.parametrize("noise", [DiscreteGaussian(WIDE_VARIANCE), DiscreteLaplace(WIDE_SCALE)], ids=str)
def test_one_key_gives_the_same_draws_in_any_pieces(monkeypatch: pytest.MonkeyPatch, noise: Noise) -> None:
    whole = noise.sample(1000, RandomStream(KEY, "pieces"))
    monkeypatch.setattr("mechanisms.sampling.stream.WORDS_AT_A_TIME", 7)
    stream = RandomStream(KEY, "pieces")
    assert np.array_equal(np.concatenate([noise.sample(count, stream) for count in (1, 0, 99, 900)]), whole)


def test_no_word_is_read_unnecessarily() -> None:
    """With t = 1, a draw can take only two words, so one word too many would soon show."""
    one_by_one = RandomStream(KEY, "few words")
    singles = [rejection.sample(lambda choices: laplace(Fraction(1), choices), 1, one_by_one)[0] for _ in range(500)]
    stream = RandomStream(KEY, "few words")
    assert rejection.sample(lambda choices: laplace(Fraction(1), choices), 500, stream).tolist() == singles
    assert stream.words(1) == one_by_one.words(1)
