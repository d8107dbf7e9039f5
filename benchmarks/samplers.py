"""The exact samplers against the keystream words they consume, OpenDP's exact samplers, and numpy's normal draws.

Times are processor time of one core. All samplers are called with batches of at most the same size.
"""

import time
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import opendp.prelude as opendp

from benchmarks.result import Result
from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.discrete_laplace import DiscreteLaplace
from mechanisms.sampling.inversion import tabulate
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
    results = []
    for noise, name in (
        (DiscreteGaussian(Fraction(2)), "discrete Gaussian, σ² = 2"),
        (DiscreteGaussian(Fraction(100)), "discrete Gaussian, σ² = 100"),
        (DiscreteGaussian(Fraction(92_416)), "discrete Gaussian, σ² = 92,416"),
        (DiscreteLaplace(Fraction(24)), "discrete Laplace, t = 24"),
    ):
        tabulate.cache_clear()
        started = time.thread_time()
        tabulate(noise)
        results.append(Result(f"{name}: table (s)", time.thread_time() - started, 0.1, 1.0))
        results.append(_median(f"{name}: a draw, against a word of keystream (ns)", noise.sample, _words, 3.0))
    results.append(
        _median(
            "discrete Gaussian, σ² = 92,416: a draw, against numpy's (ns)",
            DiscreteGaussian(Fraction(92_416)).sample,
            _numpy(),
            1.0,
        )
    )
    integers = opendp.vector_domain(opendp.atom_domain(T="i64"))
    opendp.enable_features("contrib")
    for noise, peer, name, rate in (
        (
            DiscreteGaussian(Fraction(92_416)),
            opendp.m.make_gaussian(integers, opendp.l2_distance(T="f64"), scale=304.0),
            "discrete Gaussian, σ² = 92,416",
            500,
        ),
        (
            DiscreteLaplace(Fraction(24)),
            opendp.m.make_laplace(integers, opendp.l1_distance(T="i64"), scale=24.0),
            "discrete Laplace, t = 24",
            300,
        ),
    ):
        results.append(
            _median(f"{name}: a draw, against OpenDP's (ns)", noise.sample, _opendp(peer), 1 / rate, peer_draws=1 << 15)
        )
    return results


def _median(name: str, ours: Draw, other: Draw, limit: float, peer_draws: int = BATCH * BATCHES) -> Result:
    _nanoseconds(ours, BATCH * BATCHES), _nanoseconds(other, peer_draws)
    runs = sorted(
        ((_nanoseconds(ours, BATCH * BATCHES), _nanoseconds(other, peer_draws)) for _ in range(RUNS)),
        key=lambda run: run[0] / run[1],
    )
    return Result(name, *runs[RUNS // 2], limit)


def _nanoseconds(draw: Draw, draws: int) -> float:
    stream, batch = RandomStream(KEY, "benchmark"), min(BATCH, draws)
    started = time.thread_time()
    for _ in range(draws // batch):
        draw(batch, stream)
    return (time.thread_time() - started) / draws * 1e9


def _opendp(measurement: Callable[[list[int]], list[int]]) -> Draw:
    return lambda count, stream: measurement([0] * count)


def _words(count: int, stream: RandomStream) -> object:
    return stream.words(count)


def _numpy() -> Draw:
    generator = np.random.default_rng(0)
    return lambda count, stream: generator.standard_normal(count)
