"""The exact samplers against the keystream words they consume, OpenDP's exact samplers, and numpy's normal draws.

Times are processor time of one core. All samplers are called with batches of at most the same size.
"""

import time
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import opendp.prelude as opendp

from benchmarks.harness import Result, find_median_run
from mechanisms.sampling.inversion import tabulate
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.stream import RandomStream

BATCH = 1 << 20
BATCHES = 16
RUNS = 5
KEY = bytes(32)

Draw: TypeAlias = Callable[[int, RandomStream], object]


def measure() -> list[Result]:
    """Nanoseconds per draw, from the run with the median ratio of five alternating runs; and seconds per table.

    The limit is the largest ratio of our time to the peer's, such as 1/500 for OpenDP's discrete Gaussian.
    """
    integers = opendp.vector_domain(opendp.atom_domain(T="i64"))
    opendp.enable_features("contrib")
    gaussian, laplace = DiscreteGaussian(Fraction(92_416)), DiscreteLaplace(Fraction(24))
    gaussian_name, laplace_name = "discrete Gaussian, σ² = 92,416", "discrete Laplace, t = 24"
    peer_gaussian = opendp.m.make_gaussian(integers, opendp.l2_distance(T="f64"), scale=304.0)
    peer_laplace = opendp.m.make_laplace(integers, opendp.l1_distance(T="i64"), scale=24.0)
    results = []
    for noise, name in (
        (DiscreteGaussian(Fraction(2)), "discrete Gaussian, σ² = 2"),
        (DiscreteGaussian(Fraction(100)), "discrete Gaussian, σ² = 100"),
        (gaussian, gaussian_name),
        (laplace, laplace_name),
    ):
        tabulate.cache_clear()
        started = time.thread_time()
        tabulate(noise)
        results.append(Result(f"{name}: table (s)", time.thread_time() - started, 0.1))
        results.append(_compare(f"{name}: a draw, against a word of keystream (ns)", noise.sample, _draw_words, 3.0))
    name = f"{gaussian_name}: a draw, against numpy's (ns)"
    results.append(_compare(name, gaussian.sample, _normal_draws(), 1.0))
    for noise, peer, name, rate in (
        (gaussian, peer_gaussian, gaussian_name, 500),
        (laplace, peer_laplace, laplace_name, 300),
    ):
        name = f"{name}: a draw, against OpenDP's (ns)"
        results.append(_compare(name, noise.sample, _opendp_draws(peer), 1 / rate, peer_draws=1 << 15))
    return results


def _compare(name: str, ours: Draw, other: Draw, limit: float, peer_draws: int = BATCH * BATCHES) -> Result:
    # The first run does not count.
    runs = [(_time_draw(ours, BATCH * BATCHES), _time_draw(other, peer_draws)) for _ in range(RUNS + 1)]
    return Result(name, *find_median_run(runs[1:]), limit)


def _time_draw(draw: Draw, draws: int) -> float:
    stream, batch = RandomStream(KEY, "benchmark"), min(BATCH, draws)
    started = time.thread_time()
    for _ in range(draws // batch):
        draw(batch, stream)
    return (time.thread_time() - started) / draws * 1e9


def _opendp_draws(measurement: Callable[[list[int]], list[int]]) -> Draw:
    return lambda count, stream: measurement([0] * count)


def _draw_words(count: int, stream: RandomStream) -> object:
    return stream.words(count)


def _normal_draws() -> Draw:
    generator = np.random.default_rng(0)
    return lambda count, stream: generator.standard_normal(count)
