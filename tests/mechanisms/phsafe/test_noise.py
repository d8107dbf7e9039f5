"""A key gives the same noise for ever, and every run and level has noise of its own."""

from hashlib import sha256
from itertools import combinations

import numpy as np
import pytest

from mechanisms.phsafe.design import production
from mechanisms.phsafe.margins import Noise
from mechanisms.phsafe.noise import VERSION, draw_noise

KEY = bytes(range(32))
PINNED = {
    Noise.GAUSSIAN: "decd976fbc5e8044917d9bbba08e7d5b6f3be79cca37287fa3cec1c24663efdd",
    Noise.LAPLACE: "fa646fbc3f21af411e985a6d6de0957e045677da4ddcee843c5a25046f7c2d2a",
}


@pytest.mark.parametrize("noise", Noise)
def test_a_key_gives_the_noise_that_it_always_gave(noise: Noise) -> None:
    """If a digest changes, `VERSION` has to be raised with it: a charged draw could not be made again."""
    drawn = draw_noise(production(("10", "44"), noise), KEY)
    assert (VERSION, sha256(drawn.astype("<i8").tobytes()).hexdigest()) == (1, PINNED[noise])


def test_every_run_and_level_has_noise_of_its_own() -> None:
    """Levels of equal variance and size would show a shared stream at once."""
    design = production(("10", "44"))
    noise, start, parts = draw_noise(design, KEY), 0, []
    for run, level, _ in design.released:
        size = design.groups(level) * len(run.cells)
        parts.append(noise[start : start + size])
        start += size
    assert start == len(noise)
    for one, other in combinations([part for part in parts if len(part) >= 4], 2):
        shared = min(len(one), len(other))
        assert not np.array_equal(one[:shared], other[:shared])
        assert not np.array_equal(np.abs(one[:shared]), np.abs(other[:shared]))


def test_another_key_gives_other_noise() -> None:
    design = production(("10", "44"))
    assert not np.array_equal(draw_noise(design, KEY), draw_noise(design, bytes(32)))
