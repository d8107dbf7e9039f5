"""Estimates after a permutation swap are exactly unbiased, and so are those of their variances.

All outcomes of small strata are enumerated with their probabilities, in rationals. The same enumeration rejects wrong
estimates: with p instead of p̃, with n instead of n - 1, and with the margins of another stratum.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from mechanisms.swapping import uncertainty
from mechanisms.swapping.uncertainty import (
    Contributions,
    Estimates,
    Moments,
    estimates,
    intervals,
    laws,
    moments,
    moments_of_strata,
)
from tests.depth import deep_cases, quick_cases
from tests.mechanisms.swapping.enumeration import algorithm_1, cycle_type

RATES = tuple(map(Fraction, ("1/100", "1/20", "1/10", "1/4", "2/5", "1/2", "3/5", "4/5", "9/10", "99/100")))
UNDEFINED = (2, Fraction(1, 2))
WEIGHTS = ((2, 0, 1, 3, 1, 1), (0, 5, 0, 0, 1, 2))

Values = tuple[int, ...]
Outcomes = dict[tuple[int, int], Fraction]


def exact(values: Sequence[Any]) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = [Fraction(value) for value in values]
    return found


@cache
def permutations_of(size: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    return tuple((moved, cycle_type(moved)) for moved in permutations(range(size)))


def outcomes(held: Values, taken: Values, rate: Fraction) -> Outcomes:
    """The distribution of the swapped count and of that with squared weights."""
    found: Counter[tuple[int, int, tuple[int, ...]]] = Counter()
    for moved, cycles in permutations_of(len(held)):
        after = [taken[place] for place in moved]
        count, squares = (sum(each**power * g for each, g in zip(held, after, strict=True)) for power in (1, 2))
        found[count, squares, tuple(sorted(cycles))] += 1
    law: Outcomes = {}
    for (count, squares, cycles), number in found.items():
        law[count, squares] = law.get((count, squares), Fraction(0)) + number * algorithm_1(cycles, rate)
    return law


def estimated(held: Values, taken: Values, law: Outcomes, given: Moments) -> Estimates:
    """The estimates after every outcome, in rationals."""
    number = len(law)
    margins = (sum(held), sum(each * each for each in held), max(held), sum(taken))
    figures = {field.name: exact([getattr(given, field.name)] * number) for field in fields(Moments)}
    flags = {name: np.array([getattr(given, name)] * number) for name in ("correctable", "has_variance")}
    columns = {"records": exact([len(held)] * number), **figures, **flags}
    of_stratum = np.rec.fromarrays(list(columns.values()), names=",".join(columns))
    counts = (exact([outcome[place] for outcome in law]) for place in (0, 1))
    return estimates(Contributions(*(exact([margin] * number) for margin in margins), *counts), of_stratum)


def expected(values: Any, law: Outcomes) -> Fraction:
    return sum((chance * value for chance, value in zip(law.values(), values, strict=True)), Fraction(0))


def strata(sizes: Sequence[int]) -> Iterator[tuple[Values, Values]]:
    """All values held and counted, up to the order of records; and some numbers of persons."""
    for size in sizes:
        for taken in product((0, 1), repeat=size):
            for ones in range(size + 1):
                yield (1,) * ones + (0,) * (size - ones), taken
            for weights in WEIGHTS:
                yield weights[:size], taken


def require_unbiased(held: Values, taken: Values, rate: Fraction) -> None:
    law, given = outcomes(held, taken, rate), moments(len(held), rate)
    assert sum(law.values()) == 1
    true = sum(f * g for f, g in zip(held, taken, strict=True))
    found = estimated(held, taken, law, given)
    mean = expected(found.estimate, law)
    variance = expected(found.estimate**2, law) - mean**2
    (bias,) = set(found.greatest_bias)
    assert abs(mean - true) <= bias
    assert bias == 0 or not given.correctable
    if given.has_variance or len(set(found.variance)) == 1 == len(law):
        assert expected(found.variance, law) == variance
    assert expected(found.variance, law) >= variance
    for least, greatest in zip(found.fewest, found.most, strict=True):
        assert least <= true <= greatest
        assert all(least <= count <= greatest for count, _ in law)


@pytest.mark.prove
def test_estimates_and_their_variances_are_unbiased_after_every_swap_of_small_strata() -> None:
    for held, taken in strata((1, 2, 3, 4)):
        for rate in RATES:
            require_unbiased(held, taken, rate)


@pytest.mark.prove
def test_they_are_unbiased_in_strata_of_five_and_six_records() -> None:
    for held, taken in strata((5, 6)):
        if list(taken) == sorted(taken) or held in [weights[: len(held)] for weights in WEIGHTS]:
            for rate in RATES[::3]:
                require_unbiased(held, taken, rate)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("rate", RATES[1::3])
def test_the_laws_of_one_and_of_two_records_are_those_of_the_enumeration(size: int, rate: Fraction) -> None:
    one, both, exchange = (Fraction(0),) * 3
    for moved, cycles in permutations_of(size):
        chance = algorithm_1(cycles, rate)
        one += chance * (moved[0] != 0)
        both += chance * (moved[0] != 0 and moved[1] != 1)
        exchange += chance * (moved[0] == 1 and moved[1] == 0)
    assert laws(size, rate) == (one, both, exchange)


@pytest.mark.parametrize("wrong", ["p for p̃", "n for n - 1", "margins of another stratum", "one stratum for all"])
def test_wrong_estimates_are_told_apart(wrong: str) -> None:
    """Each is off by more than a hundredth on average, and the right one is exact."""
    rate, other = Fraction(1, 3), (6, 3, 4)
    held, taken = (1, 1, 0, 0), (1, 1, 0, 0)
    law, given = outcomes(held, taken, rate), moments(4, rate)
    n, of_holding, of_swap = 4, 2, 2
    moves = given.entering * 3
    if wrong == "p for p̃":
        moves = rate
    elif wrong == "margins of another stratum":
        _, of_holding, of_swap = other
    elif wrong == "one stratum for all":
        # As if both strata were one, with their margins together.
        n, of_holding, of_swap = n + other[0], of_holding + other[1], of_swap + other[2]
    others = n if wrong == "n for n - 1" else n - 1
    kept, entering = 1 - moves * Fraction(n, others), moves * of_holding * of_swap / others
    wrongly = expected([(count - entering) / kept for count, _ in law], law)
    assert abs(wrongly - 2) > Fraction(1, 100)
    assert expected(estimated(held, taken, law, given).estimate, law) == 2


def test_a_variance_from_independent_records_is_told_apart() -> None:
    """Each record moves independently, and others arrive independently: right on average for no small stratum."""
    rate, held, taken = Fraction(1, 4), (1, 1, 0, 0), (1, 0, 0, 1)
    law, given = outcomes(held, taken, rate), moments(4, rate)
    found = estimated(held, taken, law, given).estimate
    true = expected(found**2, law) - expected(found, law) ** 2
    moves, enters = given.entering * 3, given.entering
    binomial = (moves * (1 - moves) + 2 * enters * (1 - enters)) / given.kept**2
    assert abs(binomial - true) > Fraction(1, 100)


def test_where_no_correction_is_possible_the_swapped_count_stands_with_its_bias() -> None:
    size, rate = UNDEFINED
    given = moments(size, rate)
    assert given.kept == 0
    assert not given.correctable
    law = outcomes((1, 0), (1, 0), rate)
    found = estimated((1, 0), (1, 0), law, given)
    assert list(found.estimate) == [count for count, _ in law]
    assert set(found.greatest_bias) == {Fraction(1, 2)}
    assert 1 - expected(found.estimate, law) == Fraction(1, 2)
    assert set(found.variance) == {Fraction(1, 4)}


def test_what_the_invariants_decide_is_exact_at_every_rate() -> None:
    for rate in RATES:
        for held, taken in (((1, 1, 1), (1, 0, 1)), ((1, 0, 0), (1, 1, 1)), ((2, 2), (0, 1)), ((3,), (1,))):
            law = outcomes(held, taken, rate)
            found = estimated(held, taken, law, moments(len(held), rate))
            true = sum(f * g for f, g in zip(held, taken, strict=True))
            for field in fields(found):
                expects = 0 if field.name in ("variance", "greatest_bias") else true
                assert set(getattr(found, field.name)) == {expects}


def test_exempt_records_and_those_that_are_alone_stay() -> None:
    for size, rate in ((1, Fraction(1, 2)), (50, Fraction(0))):
        assert moments(size, rate) == Moments(1, 0, 1, 0, 0)


@deep_cases(3)
@quick_cases(3)
@pytest.mark.parametrize("rate", RATES)
def test_floats_agree_with_rationals(rate: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [2, 3, 10, 30, 31, 200]
    monkeypatch.setattr(uncertainty, "MOST_EXACT", 200)
    monkeypatch.setattr(uncertainty, "LAST_TERM", 200)
    in_rationals = [moments(size, rate) for size in sizes]
    monkeypatch.undo()
    monkeypatch.setattr(uncertainty, "MOST_EXACT", 0)
    for size, each in zip(sizes, in_rationals, strict=True):
        floats = moments(size, rate)
        for field in fields(Moments):
            figure, right = getattr(floats, field.name), getattr(each, field.name)
            assert isinstance(figure, float)
            assert figure == pytest.approx(float(right), rel=1e-9, abs=1e-12)


def test_large_strata_have_the_moments_of_their_limit() -> None:
    """Of very many records, a share p moves, and p² / n of the pairs do it by exchange."""
    given = moments(10**8, Fraction(1, 5))
    assert given.kept == pytest.approx(0.8, rel=1e-7)
    assert given.square == pytest.approx(0.64, rel=1e-7)
    assert given.entering * 10**8 == pytest.approx(0.2, rel=1e-7)
    assert given.spread * 10**8 == pytest.approx(0.2, rel=1e-7)
    assert given.fourth == pytest.approx(0.16, rel=1e-7)


def test_moments_in_arrays_are_those_of_each_stratum() -> None:
    kinds = [(1, Fraction(1, 2)), (2, Fraction(1, 2)), (40, Fraction(1, 10)), (7, Fraction(0))]
    found = moments_of_strata(np.array([size for size, _ in kinds]), [rate for _, rate in kinds])
    for place, (size, rate) in enumerate(kinds):
        each = moments(size, rate)
        assert found.records[place] == size
        for field in fields(Moments):
            assert getattr(found, field.name)[place] == float(getattr(each, field.name))
        assert found.correctable[place] == each.correctable
        assert found.has_variance[place] == each.has_variance
    picked = found[np.array([2, 0, 2])]
    assert list(picked.records) == [40, 1, 40]


def test_intervals_are_widened_by_the_bias_and_cut_to_what_the_invariants_allow() -> None:
    found = Estimates(
        estimate=np.array([50.0, 50.0, 1.0, 50.0, 50.0]),
        variance=np.array([4.0, 4.0, 4.0, -0.5, 4.0]),
        greatest_bias=np.array([0.0, 3.0, 0.0, 0.0, 0.0]),
        fewest=np.array([0.0, 0.0, 0.0, 0.0, 48.0]),
        most=np.array([100.0, 100.0, 100.0, 100.0, 52.0]),
    )
    standard_error, lower, upper = intervals(found)
    assert list(standard_error) == [2, 2, 2, 0, 2]
    half = 2 * 1.6448536269514722
    assert lower == pytest.approx([50 - half, 47 - half, 0, 50, 48])
    assert upper == pytest.approx([50 + half, 53 + half, 1 + half, 50, 52])
