"""Errors of quantiles and of a mean against OpenDP's, on the same bounds and with the same total budget.

OpenDP's algorithms (0.16) are written here from their documentation, because only their errors are compared:

- *quantile*: the candidate c with the least s/Δ, where s = |(1 − q)·#(x < c) − q·#(x > c)| and Δ = max(q, 1 − q), less
  exponential noise of scale 2/ε, which is permute-and-flip; each of nine deciles with a ninth of ε;
- *b-ary tree*: the same noisy counts as Stirred, made consistent as by Hay et al. (2010), and the first number whose
  cumulative count reaches the decile;
- *sums*: count and sum of clamped numbers with half of ε each, for a data set of unknown size.

Stirred answers deciles from one tree, a single quantile by `mechanisms.table_builder.choosing`, and a mean from one
draw of moments, which has deviations too. The errors of single quantiles are expected errors, computed from the exact
distributions of the draws. OpenDP itself is run to check that its draws have the computed error.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Result
from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder.choosing import Chosen, find_law
from mechanisms.table_builder.moments import MeasuredMoments, Moments, Scale
from mechanisms.table_builder.quantiles import FittedTree, Tree

NUMBERS, BRANCHING, DRAWS, DATA_SETS = 1024, 16, 60, 40
DECILES = [Fraction(part, 10) for part in range(1, 10)]
SINGLE = {"a median": Fraction(1, 2), "one upper decile": Fraction(9, 10)}
SIZES, EPSILONS = (1_000, 100_000), (Fraction(1, 10), Fraction(1))

Numbers = NDArray[np.int64]


def measure() -> list[Result]:
    """Mean absolute errors: of quantiles in steps of the grid, and of a mean in units of the variable."""
    results = []
    for size in SIZES:
        values = _draw_values(size, 1)
        for epsilon in EPSILONS:
            against = f", {size:,} records, ε = {float(epsilon):g}, against OpenDP's"
            ours, tree, quantiles = _find_errors_of_deciles(values, epsilon)
            said = f"error of nine deciles in grid steps{against}"
            results.append(Result(f"{said} quantiles", ours, quantiles, 1.0))
            # The same noisy counts: the estimates differ by the isotonic regression alone.
            results.append(Result(f"{said} b-ary tree", ours, tree, 1.05))
            for name, quantile in SINGLE.items():
                samples = [_draw_values(size, seed) for seed in range(1, DATA_SETS + 1)]
                errors = np.mean([list(_expect_errors(sample, quantile, epsilon)) for sample in samples], axis=0)
                results.append(Result(f"error of {name} in grid steps{against} quantile", *errors.tolist(), 1.0))
            mean, peer = _find_errors_of_mean(values, epsilon)
            results.append(Result(f"error of a mean{against} sums", mean, peer, 1.0))
    _check_opendp(_draw_values(SIZES[0], 1), EPSILONS[-1])
    return results


def _draw_values(size: int, seed: int) -> Numbers:
    return np.minimum(np.random.default_rng(seed).lognormal(5.5, 0.6, size).astype(np.int64), NUMBERS - 1)


def _expect_errors(values: Numbers, quantile: Fraction, epsilon: Fraction) -> Iterator[float]:
    """The expected error of Stirred's single quantile, and of OpenDP's."""
    counts, chosen = np.bincount(values, minlength=NUMBERS), Chosen(NUMBERS, (quantile,), (epsilon,))
    off = np.abs(np.arange(NUMBERS) - int(np.quantile(values, float(quantile), method="inverted_cdf")))
    part, whole = quantile.numerator, quantile.denominator
    scores = _score(counts, part, whole - part)
    theirs = scores - scores.min(), epsilon / (2 * max(part, whole - part))
    for distances, rate in (chosen.scores(counts, 0), theirs):
        _, law = find_law(distances, rate)
        _, which, times = np.unique(distances, return_inverse=True, return_counts=True)
        yield float((law / times)[which] @ off)


def _score(counts: Numbers, below: int, above: int) -> Numbers:
    """By candidate, |(1 − q)·#(x < c) − q·#(x > c)| in whole numbers: `below` stands for q, `above` for 1 − q."""
    up_to = np.cumsum(counts)
    return np.abs(above * (up_to - counts) - below * (up_to[-1] - up_to))


def _check_opendp(values: Numbers, epsilon: Fraction) -> None:
    """Raise ArithmeticError unless OpenDP's draws have the computed error, up to 5 standard errors, and their
    budget."""
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    for quantile in SINGLE.values():
        domain, metric = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.symmetric_distance()
        scale = 2 * float(max(quantile, 1 - quantile)) / float(epsilon)
        candidates = list(range(NUMBERS))
        draw = opendp.m.make_private_quantile(
            domain, metric, opendp.max_divergence(), candidates, float(quantile), scale
        )
        truth = int(np.quantile(values, float(quantile), method="inverted_cdf"))
        errors = [abs(draw(values.tolist()) - truth) for _ in range(20 * DRAWS)]
        _, expected = _expect_errors(values, quantile, epsilon)
        spent = draw.map(1)
        if abs(np.mean(errors) - expected) > 5 * np.std(errors) / len(errors) ** 0.5 or abs(spent - epsilon) > 1e-6:
            raise ArithmeticError(f"OpenDP's error of {quantile} is {np.mean(errors)}, not {expected}; ε = {spent}")


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
            [_choose(exact[-1], decile, float(epsilon) / len(DECILES), random) for decile in DECILES],
        ]
        errors += [float(np.abs(np.array(each) - truth).mean()) for each in found]
    ours, peer, quantiles = (errors / DRAWS).tolist()
    return ours, peer, quantiles


def _choose(counts: Numbers, quantile: Fraction, epsilon: float, random: np.random.Generator) -> int:
    part, whole = quantile.numerator, quantile.denominator
    scores = _score(counts, part, whole - part) / max(part, whole - part)
    return int(np.argmax(random.exponential(size=NUMBERS) - epsilon * scores / 2))


def _find_errors_of_mean(values: Numbers, epsilon: Fraction) -> tuple[float, float]:
    bound, random, errors = NUMBERS - 1, np.random.default_rng(3), np.zeros(2)
    scale = Scale(Fraction(0), Fraction(bound), 1000)
    moments, stream = Moments(1, 1000, epsilon, gaussian=False), RandomStream(b"k" * 32, f"mean, {len(values)}")
    sums = moments.vectors(scale.round(10_000 * values)[:, None]).sum(axis=0)
    for _ in range(10 * DRAWS):
        noisy = sums + moments.noise.sample(moments.components, stream)
        ours = float(MeasuredMoments(moments, noisy, [scale]).mean(0).estimate)
        count = len(values) + random.laplace(0, 2 / float(epsilon))
        peer = (values.sum() + random.laplace(0, 2 * bound / float(epsilon))) / max(count, 1)
        errors += np.abs(np.array([ours, peer]) - values.mean())
    found, other = (errors / (10 * DRAWS)).tolist()
    return found, other
