"""The rejection samplers are exact: their two choices over all toy words, and everything above over all choices.

Which wrong program would still pass? One whose numbers overflow for a wide distribution: they are Python's, which do
not, and the chi-square test is also made at σ² = 2^40.
"""

import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from mechanisms.sampling import reader, rejection
from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.discrete_laplace import DiscreteLaplace
from mechanisms.sampling.reader import WordReader
from mechanisms.sampling.rejection import Choices, WordChoices, bernoulli_exponential, gaussian, laplace
from mechanisms.sampling.stream import RandomStream
from tests.mechanisms.chi_square import alarm, power
from tests.mechanisms.exact_noise import Noise, OutOfWordsError, ToyStream, alarms, reference
from tests.mechanisms.word_tree import Finished, bracket

KEY = b"\x05" * 32
DRAWS = 40_000


@pytest.mark.parametrize("word_bits", [1, 2, 3])
@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 11, 64, 65])
def test_over_all_toy_words_an_integer_below_a_bound_is_uniform(bound: int, word_bits: int) -> None:
    def step(words: tuple[int, ...], word: int) -> tuple[int, ...] | Finished:
        try:
            return Finished(WordChoices(WordReader(ToyStream([*words, word])), word_bits).below(bound))
        except OutOfWordsError:
            size = max(1, -(-(bound - 1).bit_length() // word_bits))
            return () if len(words) + 1 == size else (*words, word)

    found = bracket(step, (), 1 << word_bits, Fraction(1, 10**6))
    assert set(found) == set(range(bound))
    assert len(set(found.values())) == 1, "no integer is favoured at any depth"
    assert all(low <= Fraction(1, bound) <= high for low, high in found.values())


def test_wide_bounds_take_as_few_words_as_hold_them() -> None:
    for bound, words in ((1, 0), (2, 1), (2**64, 1), (2**64 + 1, 2), (2**128, 2), (3**200, 5)):
        stream = ToyStream([0] * 8)
        assert WordChoices(WordReader(stream)).below(bound) == 0
        assert stream.used == words


class _Fork(Exception):  # noqa: N818 - not an error
    def __init__(self, branches: list[tuple[Any, Fraction]]) -> None:
        self.branches = branches


class Scripted:
    """Choices by a script; where it ends, the branches with their probabilities are told."""

    def __init__(self, script: tuple[Any, ...]) -> None:
        self._script = iter(script)

    def choose(self, branches: list[tuple[Any, Fraction]]) -> Any:
        for choice in self._script:
            return choice
        raise _Fork(branches)

    def below(self, bound: int) -> int:
        return self.choose([(value, Fraction(1, bound)) for value in range(bound)])

    def coin(self, numerator: int, denominator: int) -> bool:
        heads = Fraction(numerator, denominator)
        return self.choose([(True, heads), (False, 1 - heads)])


def enumerated(draw: Callable[[Choices], Any], least: float) -> tuple[Counter[Any], Fraction]:
    """Probabilities by outcome over all scripts of probability `least` or more, and what is left undecided."""
    found: Counter[Any] = Counter()
    undecided = Fraction(0)
    open_scripts: list[tuple[tuple[Any, ...], Fraction]] = [((), Fraction(1))]
    while open_scripts:
        script, chance = open_scripts.pop()
        if chance < least:
            undecided += chance
            continue
        try:
            found[draw(Scripted(script))] += chance
        except _Fork as fork:
            # Rationals of bounded size: rounded down, and the rest counted as undecided.
            for choice, share in fork.branches:
                if share:
                    kept = Fraction(int(chance * share * 2**100), 2**100)
                    undecided += chance * share - kept
                    open_scripts.append(((*script, choice), kept))
    return found, undecided


def within(found: Counter[Any], undecided: Fraction, exact: dict[Any, Fraction]) -> bool:
    return all(found[value] <= chance <= found[value] + undecided for value, chance in exact.items())


@pytest.mark.parametrize("ratio", ["0", "1/7", "1/2", "1", "8/7", "2", "5/2"])
def test_a_bernoulli_trial_succeeds_with_probability_exp_of_minus_the_ratio(ratio: str) -> None:
    exponent = Fraction(ratio)
    success = Fraction((-Decimal(exponent.numerator) / exponent.denominator).exp())
    found, undecided = enumerated(
        lambda choices: bernoulli_exponential(exponent.numerator, exponent.denominator, choices), 1e-14
    )
    assert undecided < 1e-10
    assert within(found, undecided + Fraction(1, 10**25), {True: success, False: 1 - success})


@pytest.fixture
def exponential_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bernoulli(exp(−γ)) as one choice: shown exact above, it need not be taken apart again."""

    def one_choice(numerator: int, denominator: int, choices: Scripted) -> bool:
        heads = Fraction((-Decimal(numerator) / denominator).exp())
        return choices.choose([(True, heads), (False, 1 - heads)])

    monkeypatch.setattr(rejection, "bernoulli_exponential", one_choice)


def exact(noise: Noise, most: int) -> dict[int, Fraction]:
    return {value: Fraction(reference(noise).probability(value)) for value in range(-most, most + 1)}


@pytest.mark.usefixtures("exponential_coin")
@pytest.mark.parametrize("scale", ["1/3", "1", "3/2", "4"])
def test_over_all_choices_a_laplace_draw_has_its_probabilities(scale: str) -> None:
    found, undecided = enumerated(lambda choices: laplace(Fraction(scale), choices), 1e-7)
    assert undecided < 1e-3
    assert within(found, undecided, exact(DiscreteLaplace(Fraction(scale)), 12))


@pytest.mark.usefixtures("exponential_coin")
@pytest.mark.parametrize("variance", ["1/10", "1/2", "2/3", "2"])
def test_over_all_choices_a_gaussian_draw_has_its_probabilities(variance: str) -> None:
    found, undecided = enumerated(lambda choices: gaussian(Fraction(variance), choices), 1e-7)
    assert undecided < 2e-3
    assert within(found, undecided, exact(DiscreteGaussian(Fraction(variance)), 5))


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


@pytest.mark.usefixtures("exponential_coin")
def test_the_enumeration_finds_wrong_samplers() -> None:
    found, undecided = enumerated(lambda choices: zero_twice(Fraction(1), choices), 1e-6)
    assert not within(found, undecided, exact(DiscreteLaplace(Fraction(1)), 5))
    found, undecided = enumerated(lambda choices: width_unrounded(Fraction(2, 3), choices), 1e-6)
    assert not within(found, undecided, exact(DiscreteGaussian(Fraction(2, 3)), 5))


def by_rejection(noise: Noise, draws: int, label: str) -> np.ndarray:
    def draw(choices: Choices) -> int:
        if isinstance(noise, DiscreteGaussian):
            return gaussian(noise.variance, choices)
        return laplace(noise.scale, choices)

    return rejection.sample(draw, draws, RandomStream(KEY, label))


@pytest.mark.parametrize(
    "noise",
    [
        DiscreteGaussian(Fraction(1, 10)),
        DiscreteGaussian(Fraction(92416, 3)),
        DiscreteLaplace(Fraction(1)),
        DiscreteLaplace(Fraction(22, 7)),
    ],
    ids=str,
)
def test_draws_by_rejection_pass_every_test_of_the_distribution(noise: Noise) -> None:
    assert alarms(by_rejection(noise, DRAWS, "narrow"), noise) == set()


@pytest.mark.deep
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
    return {place: Fraction(high - low) for place, (low, high) in enumerate(zip(cumulative, cumulative[1:]))}


def below_laplace(edge: float) -> float:
    return math.exp(edge) / 2 if edge < 0 else 1 - math.exp(-edge) / 2


def test_wide_distributions_have_their_shape() -> None:
    """In units of σ and t they are continuous to six places, which 40,000 draws cannot tell from exact."""
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
    monkeypatch.setattr(reader, "WORDS_AT_A_TIME", 7)
    stream = RandomStream(KEY, "pieces")
    assert np.array_equal(np.concatenate([noise.sample(count, stream) for count in (1, 0, 99, 900)]), whole)
