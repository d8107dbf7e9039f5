"""The exact samplers against the keystream words they consume, OpenDP's exact samplers, and numpy's normal draws.

Times are processor time of one core. All samplers are called with batches of at most the same size.
"""

import time
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import opendp.prelude as opendp

from benchmarks.harness import Result, compare, time_call
from mechanisms.sampling.inversion import tabulate
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.stream import RandomStream

BATCH = 1 << 20
BATCHES = 16
RUNS = 5
KEY = bytes(32)

Draw: TypeAlias = Callable[[int, RandomStream], object]


def measure() -> list[Result]:
    """Nanoseconds per draw, from the run with the median ratio of five alternating runs; and seconds per table. The
    limit is the largest ratio of our time to the peer's, such as 1/500 for OpenDP's discrete Gaussian."""
    integers = opendp.vector_domain(opendp.atom_domain(T="i64"))
    opendp.enable_features("contrib")
    gaussian, laplace = DiscreteGaussian(Fraction(92_416)), DiscreteLaplace(Fraction(24))
    gaussian_name, laplace_name = "discrete Gaussian, σ² = 92,416", "discrete Laplace, t = 24"
    peer_gaussian = opendp.m.make_gaussian(integers, opendp.l2_distance(T="f64"), scale=304.0)
    peer_laplace = opendp.m.make_laplace(integers, opendp.l1_distance(T="i64"), scale=24.0)
    generator = np.random.default_rng(0)
    results = []
    for noise, name in (
        (DiscreteGaussian(Fraction(2)), "discrete Gaussian, σ² = 2"),
        (DiscreteGaussian(Fraction(100)), "discrete Gaussian, σ² = 100"),
        (gaussian, gaussian_name),
        (laplace, laplace_name),
    ):
        tabulate.cache_clear()
        seconds, _ = time_call(lambda noise=noise: tabulate(noise), time.thread_time)
        results.append(Result(f"{name}: table (s)", seconds, 0.1))
        peer = "a word of keystream"
        results.append(_compare(name, noise.sample, peer, lambda count, stream: stream.words(count), 3.0))
    normal = _compare(gaussian_name, gaussian.sample, "numpy's", lambda count, _: generator.standard_normal(count), 1.0)
    return [
        *results,
        normal,
        _compare(gaussian_name, gaussian.sample, "OpenDP's", _draw_by_opendp(peer_gaussian), 1 / 500, 1 << 15),
        _compare(laplace_name, laplace.sample, "OpenDP's", _draw_by_opendp(peer_laplace), 1 / 300, 1 << 15),
    ]


def _compare(name: str, ours: Draw, peer: str, other: Draw, limit: float, peer_draws: int = BATCH * BATCHES) -> Result:
    return compare(
        f"{name}: a draw, against {peer} (ns)",
        lambda: _time_draw(ours, BATCH * BATCHES),
        lambda: _time_draw(other, peer_draws),
        limit,
        RUNS,
        warm_up=True,
    )


def _time_draw(draw: Draw, draws: int) -> float:
    stream, batch = RandomStream(KEY, "benchmark"), min(BATCH, draws)
    started = time.thread_time()
    for _ in range(draws // batch):
        draw(batch, stream)
    return (time.thread_time() - started) / draws * 1e9


def _draw_by_opendp(measurement: Callable[[list[int]], list[int]]) -> Draw:
    return lambda count, stream: measurement([0] * count)
