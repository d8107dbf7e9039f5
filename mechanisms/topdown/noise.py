"""The draw: the noise of every answer that a design releases, from the draw's own key.

Here belongs which stream each noise is read from. How it is sampled belongs in `mechanisms.sampling`.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.stream import RandomStream
from mechanisms.topdown.design import Measured, TopDownDesign

VERSION = 1
"""Raised when the same key would give other noise: an old draw could not be replayed then."""


class Noise:
    """The noise of a draw, read unit by unit.

    Every histogram, level and query has a stream of its own, which holds the units' noise in their order, all cells of
    one after all of another: how many units are read at a time makes no difference.

    Args:
        design: what is measured.
        key: 32 bytes, secret.
    """

    def __init__(self, design: TopDownDesign, key: bytes) -> None:
        self._streams: Mapping[str, RandomStream] = {
            each.label: RandomStream(key, f"TopDown {each.label}") for each in design.measured
        }

    def of_next(self, measured: Measured, units: int) -> NDArray[np.int64]:
        """The noise of the next units' answers, shape (units, marginal cells)."""
        size = measured.marginal.size
        return measured.noise.sample(units * size, self._streams[measured.label]).reshape(units, size)
