"""Draws from the capped discrete Laplace, its exact moments, and the published examples of it.

The enumeration of all sequences of toy words, every floor of the table and the bounds of F are compared with the
definition here as `test_inversion` does it for noise without a cap.
"""

import csv
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.rounding import format_decimal
from mechanisms.sampling import inversion
from mechanisms.sampling.goodness import bin_draws, find_misfits
from mechanisms.sampling.inversion import tabulate
from mechanisms.sampling.noise import LARGEST_CAP, LEAST_PROBABILITY, CappedLaplace, DiscreteLaplace
from mechanisms.sampling.stream import RandomStream
from tests.depth import deep_but, deep_cases
from tests.mechanisms.sampling.exact_noise import ToyStream, alarms, reference
from tests.mechanisms.sampling.test_inversion import is_exact

KEY = b"\x05" * 32
PUBLISHED = Path(__file__).parents[2] / "data" / "discrete_laplace_perturbation.csv"
"""Table C-1 of the report on the SIPP (Appendix C): D = 7, for ε = 1.5 and ε = 0.5."""

TABLE = {"1_5": CappedLaplace(Fraction(2, 3), 7), "0_5": CappedLaplace(Fraction(2), 7)}
NARROW = [CappedLaplace(Fraction(scale), cap) for scale, cap in (("1/2", 1), ("2", 1), ("2/3", 7), ("2", 7), ("50", 3))]
WORDS = (2, 3, 5, 8)


def published(column: str) -> dict[int, Decimal]:
    with PUBLISHED.open() as file:
        return {int(row["perturbation"]): Decimal(row[column]) for row in csv.DictReader(file)}


@pytest.mark.parametrize("epsilon", TABLE)
def test_every_probability_is_that_of_table_c_1(epsilon: str) -> None:
    exact, printed = reference(TABLE[epsilon]), published(f"probability_eps_{epsilon}")
    assert sorted(printed) == list(range(-7, 8))
    for value, probability in printed.items():
        assert round(exact.probability(value), -int(probability.as_tuple().exponent)) == probability
    assert TABLE[epsilon].probabilities(np.arange(-8, 9)) == pytest.approx(
        [float(exact.probability(value)) for value in range(-8, 9)], rel=1e-12
    )


@pytest.mark.parametrize("epsilon", TABLE)
def test_every_cumulative_probability_of_table_c_1_is_a_sum_of_rounded_ones(epsilon: str) -> None:
    """So they differ from the exact ones by at most half a unit for each summand."""
    exact, printed = reference(TABLE[epsilon]), published(f"cumulative_eps_{epsilon}")
    rounded, total = published(f"probability_eps_{epsilon}"), Decimal(0)
    for value, cumulative in printed.items():
        total += rounded[value]
        assert cumulative == total
        unit = Decimal(1).scaleb(int(rounded[value].as_tuple().exponent))
        assert abs(cumulative - exact.cumulative[value + exact.reach]) <= (value + 8) * unit / 2


def test_both_deltas_are_those_of_the_report() -> None:
    assert [float(noise.greatest(1)) for noise in TABLE.values()] == pytest.approx([1.749e-5, 7.568e-3], rel=1e-4)
    assert [round(noise.greatest(1), 5 if place == 0 else 3) for place, noise in enumerate(TABLE.values())] == [
        Fraction("0.00002"),
        Fraction("0.008"),
    ]


def test_a_uniform_number_of_eight_tenths_perturbs_by_two() -> None:
    """The example of the report: 0.8 is between 0.77 and 0.87, the cumulative probabilities of 1 and 2."""
    words = [int(Fraction(8, 10) * 2**64)]
    assert TABLE["0_5"].sample(1, ToyStream(words)).tolist() == [2]


QUICK = [(noise, bits) for noise in NARROW[:3] for bits in (2, 3)]


@pytest.mark.parametrize(
    ("noise", "word_bits"), deep_but(QUICK, [(noise, bits) for noise in NARROW for bits in WORDS]), ids=str
)
def test_over_all_sequences_of_toy_words_every_value_has_its_probability(noise: CappedLaplace, word_bits: int) -> None:
    assert is_exact(noise, word_bits)


def test_the_enumeration_tells_noise_without_a_cap_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clipped at the cap, or simply not capped, the greatest value has another probability."""
    capped, free = CappedLaplace(Fraction(2), 2), DiscreteLaplace(Fraction(2))
    draw = inversion.sample
    for change in (lambda values: np.clip(values, -2, 2), lambda values: values):
        monkeypatch.setattr(
            "tests.mechanisms.sampling.test_inversion.sample", lambda _, *rest, change=change: change(draw(free, *rest))
        )
        assert not is_exact(capped, 3)


@pytest.mark.parametrize("noise", NARROW, ids=str)
def test_every_floor_and_every_bound_is_that_of_another_computation(noise: CappedLaplace) -> None:
    exact = reference(noise)
    for bits in (2, 7, 32, 64, 128):
        table = tabulate(noise, bits) if bits <= 64 else None
        floors = table.floors.tolist() if table else inversion._finer_floors(noise, bits)
        half = len(floors) // 2
        assert floors == [exact.floor(value, bits) for value in range(-half, half)]
    for value, (low, high) in zip(range(noise.cap), noise.cumulative(70), strict=False):
        assert low <= exact.cumulative[value + exact.reach] * 2**70 <= high
        assert high - low < 2**12


def test_draws_pass_every_test_of_the_distribution_and_none_is_beyond_the_cap() -> None:
    noise = TABLE["0_5"]
    values = noise.sample(1_000_000, RandomStream(KEY, "capped"))
    assert alarms(values, noise) == set()
    assert np.abs(values).max() == 7
    assert "chi-square" in alarms(DiscreteLaplace(Fraction(2)).sample(1_000_000, RandomStream(KEY, "free")), noise)


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("noise", NARROW, ids=str)
def test_ten_million_draws_pass_every_test_of_the_distribution(noise: CappedLaplace) -> None:
    assert alarms(noise.sample(10_000_000, RandomStream(KEY, "deep")), noise) == set()


@given(st.fractions(Fraction(1, 50), 200, max_denominator=50), st.integers(1, 300))
def test_the_exact_variance_is_that_of_the_probabilities(scale: Fraction, cap: int) -> None:
    noise = CappedLaplace(scale, cap)
    assert abs(noise.exact_variance / reference(noise).moment(2) - 1) < Decimal("1e-39")


@given(st.fractions(Fraction(1, 50), 200, max_denominator=50), st.integers(1, 60), st.integers(0, 130))
def test_the_probability_of_the_greatest_values_is_rounded_up_by_little(scale: Fraction, cap: int, values: int) -> None:
    noise = CappedLaplace(scale, cap)
    exact = sum(
        (Fraction(reference(noise).probability(cap - place)) for place in range(min(values, 2 * cap + 1))), Fraction()
    )
    above, tiny = noise.greatest(values), Fraction(1, 10**90)
    assert exact - tiny <= above <= exact * (1 + Fraction(3, 10**5)) + tiny
    assert above >= LEAST_PROBABILITY or not values
    assert above <= 1
    assert "/" not in format_decimal(above), "a δ is written with six digits"


def test_the_scale_of_the_largest_cap_does_not_matter_to_the_bounds() -> None:
    """Nearly uniform, and nearly without a cap: both ends of the declarable range."""
    wide = CappedLaplace(Fraction(10**12), LARGEST_CAP)
    assert float(wide.exact_variance) == pytest.approx(LARGEST_CAP * (LARGEST_CAP + 1) / 3, rel=1e-5)
    assert float(wide.greatest(1)) == pytest.approx(1 / (2 * LARGEST_CAP + 1), rel=1e-4)
    assert CappedLaplace(Fraction(1), LARGEST_CAP).greatest(3) == LEAST_PROBABILITY
    assert (
        CappedLaplace(Fraction(1), 691).greatest(1)
        < LEAST_PROBABILITY * 10
        < CappedLaplace(Fraction(1), 685).greatest(1)
    )
    assert CappedLaplace(Fraction(1), LARGEST_CAP).exact_variance == DiscreteLaplace(Fraction(1)).exact_variance


def test_gates_find_noise_that_fits_but_for_one_value_beyond_the_cap() -> None:
    noise = TABLE["1_5"]
    values = noise.sample(200_000, RandomStream(KEY, "gate"))
    assert find_misfits({"cube": bin_draws(values, noise)}) == []
    values[17] = 8
    assert find_misfits({"cube": bin_draws(values, noise)}) == ["cube", "all together"]
    other = CappedLaplace(Fraction(2, 3) * Fraction(11, 10), 7).sample(200_000, RandomStream(KEY, "gate"))
    assert find_misfits({"cube": bin_draws(other, noise)}) == ["cube", "all together"]


@pytest.mark.parametrize(
    ("scale", "cap", "error"),
    [
        (2.0, 7, TypeError),
        (Fraction(2), 7.0, TypeError),
        (Fraction(2), True, TypeError),
        (Fraction(0), 7, ValueError),
        (Fraction(2), 0, ValueError),
        (Fraction(2), LARGEST_CAP + 1, ValueError),
    ],
)
def test_a_scale_or_cap_out_of_range_is_refused(scale: Fraction, cap: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="capped discrete Laplace"):
        CappedLaplace(scale, cap)


def test_first_draws_have_not_changed() -> None:
    assert TABLE["0_5"].sample(12, RandomStream(KEY, "pinned")).tolist() == [1, 1, 1, 3, 2, -4, 1, 3, 2, 2, 1, 0]
