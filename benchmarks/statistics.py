"""Errors of deciles and of a mean against OpenDP's algorithms, on the same bounds and with the same total budget.

OpenDP's algorithms are written here from their documentation (0.16), in floats, because only their errors are compared:

- *exponential mechanism*: each decile q with a ninth of ε, the candidate c with the probability exp(−ε·s/2Δ), where
  s = |(1 − q)·#(x < c) − q·#(x > c)| and Δ = max(q, 1 − q);
- *b-ary tree*: the same noisy counts as Stirred, made consistent as by Hay et al. (2010), and the first number whose
  cumulative count reaches the decile;
- *sums*: count, sum and sum of squares of clamped numbers with a third of ε each, for a data set of unknown size.

Stirred answers all from one tree, and mean and deviation from one draw of moments. For a single quantile, the
exponential mechanism with all of ε is better: `docs/mechanisms/table-builder-hypercubes.md` says so.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Result
from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder.moments import MeasuredMoments, Moments, Scale
from mechanisms.table_builder.quantiles import FittedTree, Tree

NUMBERS, BRANCHING, DRAWS = 1024, 16, 60
DECILES = [Fraction(part, 10) for part in range(1, 10)]
SIZES, EPSILONS = (1_000, 100_000), (Fraction(1, 10), Fraction(1))

Numbers = NDArray[np.int64]


def measure() -> list[Result]:
    """Mean absolute errors: of nine deciles in steps of the grid, and of a mean in units of the variable."""
    results = []
    for size in SIZES:
        values = np.minimum(np.random.default_rng(1).lognormal(5.5, 0.6, size).astype(np.int64), NUMBERS - 1)
        for epsilon in EPSILONS:
            ours, tree, exponential = _find_errors_of_deciles(values, epsilon)
            said = f"of nine deciles in grid steps, {size:,} records, ε = {float(epsilon):g}, against OpenDP's"
            results.append(Result(f"error {said} exponential mechanism", ours, exponential, 1.0))
            # The same noisy counts: they differ by the isotonic regression alone.
            results.append(Result(f"error {said} b-ary tree", ours, tree, 1.05))
        mean, peer = _find_errors_of_mean(values, Fraction(1))
        results.append(Result(f"error of a mean, {size:,} records, ε = 1, against OpenDP's sums", mean, peer, 1.0))
    return results


def _find_errors_of_deciles(values: Numbers, epsilon: Fraction) -> tuple[float, float, float]:
    tree, random = Tree.shared(NUMBERS, BRANCHING, epsilon), np.random.default_rng(2)
    stream, exact = RandomStream(b"k" * 32, f"deciles, {len(values)}, {epsilon}"), tree.count(values)
    truth = np.array([np.quantile(values, float(decile), method="inverted_cdf") for decile in DECILES])
    errors = np.zeros(3)
    for _ in range(DRAWS):
        pairs = zip(exact, tree.noises, strict=True)
        fit = FittedTree(tree, tuple(level + noise.sample(len(level), stream) for level, noise in pairs))
        cumulative = np.cumsum(fit.leaves)
        found = [
            [fit.quantile(decile) for decile in DECILES],
            [int(np.argmax(cumulative >= float(decile) * cumulative[-1])) for decile in DECILES],
            [_choose(values, float(decile), float(epsilon) / len(DECILES), random) for decile in DECILES],
        ]
        errors += [float(np.abs(np.array(each) - truth).mean()) for each in found]
    ours, peer, exponential = (errors / DRAWS).tolist()
    return ours, peer, exponential


def _choose(values: Numbers, quantile: float, epsilon: float, random: np.random.Generator) -> int:
    counts = np.bincount(values, minlength=NUMBERS)
    up_to = np.cumsum(counts)
    scores = np.abs((1 - quantile) * (up_to - counts) - quantile * (len(values) - up_to))
    return int(np.argmax(random.gumbel(size=NUMBERS) - epsilon * scores / (2 * max(quantile, 1 - quantile))))


def _find_errors_of_mean(values: Numbers, epsilon: Fraction) -> tuple[float, float]:
    bound, random, errors = NUMBERS - 1, np.random.default_rng(3), np.zeros(2)
    scale = Scale(Fraction(0), Fraction(bound), 1000)
    moments, stream = Moments(1, 1000, epsilon, gaussian=False), RandomStream(b"k" * 32, f"mean, {len(values)}")
    sums = moments.vectors(scale.round(10_000 * values)[:, None]).sum(axis=0)
    for _ in range(10 * DRAWS):
        noisy = sums + moments.noise.sample(moments.components, stream)
        ours = float(MeasuredMoments(moments, noisy, [scale]).mean(0).estimate)
        count = len(values) + random.laplace(0, 3 / float(epsilon))
        peer = (values.sum() + random.laplace(0, 3 * bound / float(epsilon))) / max(count, 1)
        errors += np.abs(np.array([ours, peer]) - values.mean())
    found, other = (errors / (10 * DRAWS)).tolist()
    return found, other
