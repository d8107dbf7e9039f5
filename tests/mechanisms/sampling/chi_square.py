"""Pearson's chi-square test against exact probabilities, at a false-alarm rate of one in a million.

The samplers' tests share this test and its power against a given wrong distribution. Outcomes expected fewer than ten
times are merged. An outcome that is impossible under the exact distribution raises an alarm at once.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import chi2, ncx2

FALSE_ALARM = 1e-6
FEWEST = 10.0

Probabilities = Mapping[Any, Fraction]


def alarm(counts: Mapping[Any, int], exact: Probabilities) -> bool:
    """Whether the exact distribution would give such counts at most once in a million times."""
    draws = sum(counts.values())
    if any(count and not exact.get(outcome) for outcome, count in counts.items()):
        return True
    groups = _groups(exact, draws)
    expected = _expected(groups, exact, draws)
    observed = np.array([sum(counts.get(outcome, 0) for outcome in group) for group in groups], dtype=float)
    return bool(np.sum((observed - expected) ** 2 / expected) > chi2.isf(FALSE_ALARM, len(groups) - 1))


def power(wrong: Probabilities, exact: Probabilities, draws: int) -> float:
    """The probability of an alarm after `draws` draws from a wrong distribution (noncentral chi-square)."""
    outside = sum((chance for outcome, chance in wrong.items() if not exact.get(outcome)), Fraction(0))
    if outside:
        return -math.expm1(draws * math.log1p(-float(outside)))
    groups = _groups(exact, draws)
    expected, shifted = _expected(groups, exact, draws), _expected(groups, wrong, draws)
    distance = float(np.sum((shifted - expected) ** 2 / expected))
    return (
        float(ncx2.sf(chi2.isf(FALSE_ALARM, len(groups) - 1), len(groups) - 1, distance)) if distance else FALSE_ALARM
    )


def sample(distribution: Probabilities, draws: int, seed: int) -> dict[Any, int]:
    """Counts of `draws` draws from a distribution given as rational numbers."""
    chances = np.array([float(chance) for chance in distribution.values()])
    counts = np.random.default_rng(seed).multinomial(draws, chances / chances.sum())
    return dict(zip(distribution, counts.tolist(), strict=True))


def _groups(exact: Probabilities, draws: int) -> list[list[Any]]:
    ascending = sorted((outcome for outcome in exact if exact[outcome]), key=lambda outcome: exact[outcome])
    rare: list[Any] = []
    while ascending and (draws * exact[ascending[0]] < FEWEST or 0 < draws * sum(exact[one] for one in rare) < FEWEST):
        rare.append(ascending.pop(0))
    return [group for group in (rare, *([outcome] for outcome in ascending)) if group]


def _expected(groups: Sequence[Sequence[Any]], chances: Probabilities, draws: int) -> np.ndarray:
    return np.array([draws * float(sum(chances.get(outcome, Fraction(0)) for outcome in group)) for group in groups])
