"""Noise that bounds no loss, for comparison with noise that does: multiplicative noise by keys, and on score functions.

Both are from the report on the SIPP (papers/002), which names Shlomo et al. (2019) and Shlomo (2020):

- a sum Ŷ over records of average weight w̄ becomes Ŷ(1 + p·w̄), where p follows from the key of the sum's records and
  lies in a range such as ±0.2. Without weights, w̄ = 1;
- coefficients β of a least-squares regression become β + (X'X)⁻¹s with s = p·max |residual|, one p for each.

**Loss.** ε = ∞ for both, with any range. Multiplicative noise keeps 0, and without a residual there is no noise. So if
one record makes a sum different from 0, or a fit imperfect, some outcomes are possible under one of the neighbors
alone. A caller has to allow such noise explicitly.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.refusal import RefusedError
from mechanisms.table_builder.keys import KeyedWords

Floats = NDArray[np.float64]

_UNIT = 2.0**-64


class UnboundedError(RefusedError, ValueError):
    """Noise without a finite loss, which was not allowed."""


def require_allowed(allowed: bool) -> None:
    if not allowed:
        raise UnboundedError(
            "no finite loss bounds this noise (ε = ∞); allow it only for records that are synthetic or public"
        )


def perturbations(key: bytes, cell_keys: NDArray[np.uint64], most: Fraction) -> Floats:
    """By sum, p from −most to most: a function of the key of its records, shape (sums, 2), and of the secret key."""
    words = KeyedWords(key, cell_keys).words(0)
    return np.asarray((2 * (words.astype(np.float64) + 0.5) * _UNIT - 1) * float(most))


def multiply(sums: Floats, p: Floats, average_weights: Floats | float = 1.0) -> Floats:
    return np.asarray(sums * (1 + p * average_weights), dtype=np.float64)


def perturb_coefficients(predictors: Floats, outcome: Floats, p: Floats) -> Floats:
    """The perturbed least-squares coefficients of an outcome, shape (records,), on predictors, shape (records,
    coefficients), including a column of ones for the intercept; p has one number for each coefficient."""
    inverse = np.linalg.pinv(predictors.T @ predictors, hermitian=True)
    coefficients = inverse @ (predictors.T @ outcome)
    greatest = float(np.abs(outcome - predictors @ coefficients).max(initial=0.0))
    return np.asarray(coefficients + inverse @ (p * greatest))
