"""The draw: the noise of every count that a design releases, from the draw's own key.

Here belongs which stream each noise is read from. How it is sampled belongs in `mechanisms.sampling`.
"""

import numpy as np
from numpy.typing import NDArray

from mechanisms.phsafe.design import PHSafeDesign
from mechanisms.sampling.stream import RandomStream

VERSION = 1
"""Raised when the same key would give other noise: an old draw could not be replayed then."""


def draw_noise(design: PHSafeDesign, key: bytes) -> NDArray[np.int64]:
    """The noise of all counts in the order in which the design releases them; shape (cells,).

    Every run and level has a stream of its own, so that no other has a part in its noise.
    """
    return np.concatenate(
        [
            design.noise_of(run, level).sample(
                design.groups(level) * len(run.cells), RandomStream(key, f"PHSafe {run.name} {level.name}")
            )
            for run, level, _ in design.released
        ]
    )
