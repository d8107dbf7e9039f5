"""The fit is the weighted least-squares solution, its variances are exact, and it is better than separate margins.

The reference is a dense weighted least-squares problem: one row for every cell of every measured table, solved by
`numpy.linalg.lstsq`, with the inverse of the normal equations' matrix as the covariance.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder import fitting
from mechanisms.table_builder.fitting import Fit, Floats, NotFittedError
from mechanisms.table_builder.hypercube import Hypercube, Margins, NoiseFamily, Table
from tests.depth import examples

FAMILIES = (NoiseFamily.LAPLACE, NoiseFamily.GAUSSIAN)
KEY = b"\x0c" * 32
Measured = dict[Table, NDArray[np.int64]]


@dataclass(frozen=True)
class Dense:
    """The weighted least-squares problem of a hypercube, written out.

    Attributes:
        inner: the fitted inner table.
        covariance: of the inner cells, in the order of a flattened inner table; 0 for structural zeros.
        influence: by table, how each inner cell depends on each measured cell.
    """

    inner: Floats
    covariance: Floats
    influence: dict[Table, Floats]


def dense(cube: Hypercube, measured: Measured, possible: NDArray[np.bool_] | None = None) -> Dense:
    shape, names = cube.shape(cube.inner), list(cube.sizes)
    cells = cube.cells(cube.inner)
    codes = dict(zip(names, np.indices(shape).reshape(len(names), -1), strict=True))
    rows, values, precise = [], [], []
    for table in cube.tables:
        places = np.ravel_multi_index([codes[name] for name in table], cube.shape(table))
        matrix = np.zeros((cube.cells(table), cells))
        matrix[places, np.arange(cells)] = 1
        root = float(cube.distribution(table).exact_variance) ** -0.5
        rows.append(matrix * root)
        values.append(measured[table].ravel() * root)
        precise.append(np.full(cube.cells(table), root))
    design, wanted = np.concatenate(rows), np.concatenate(values)
    free = np.ones(cells, dtype=bool) if possible is None else possible.ravel()
    inner, covariance = np.zeros(cells), np.zeros((cells, cells))
    inner[free] = np.linalg.lstsq(design[:, free], wanted, rcond=None)[0]
    covariance[np.ix_(free, free)] = np.linalg.inv(design[:, free].T @ design[:, free])
    influence = covariance @ design.T * np.concatenate(precise)
    ends = np.cumsum([cube.cells(table) for table in cube.tables])[:-1]
    return Dense(
        inner.reshape(shape), covariance, dict(zip(cube.tables, np.split(influence, ends, axis=1), strict=True))
    )


@st.composite
def hypercubes(draw: st.DrawFn) -> Hypercube:
    """Small hypercubes, in which each table but the inner one may have any share or none."""
    sizes = dict(zip("abcd", draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)), strict=False))
    tables = [table for count in range(1, len(sizes) + 1) for table in combinations(sizes, count)]
    parts = {table: draw(st.integers(0, 9)) for table in tables} | {tables[-1]: draw(st.integers(1, 9))}
    shares = {table: Fraction(part, sum(parts.values())) for table, part in parts.items() if part}
    noise = draw(st.sampled_from(FAMILIES))
    budget = draw(st.fractions(Fraction(1, 10), 5, max_denominator=20))
    return Hypercube(sizes, budget, noise, Margins.FITTED, shares)


def measurements(cube: Hypercube, seed: int) -> Measured:
    """Any numbers: the fit is linear in them."""
    random = np.random.default_rng(seed)
    return {table: random.integers(-1000, 1000, cube.shape(table)) for table in cube.tables}


def close(found: Floats, expected: Floats) -> bool:
    return bool(np.allclose(found, expected, rtol=1e-8, atol=1e-7))


@settings(max_examples=examples(50))
@given(hypercubes(), st.integers(0, 2**32 - 1))
def test_the_fit_is_the_dense_solution(cube: Hypercube, seed: int) -> None:
    measured = measurements(cube, seed)
    assert close(Fit(cube).inner(measured), dense(cube, measured).inner)


@settings(max_examples=examples(50))
@given(hypercubes(), st.integers(0, 2**32 - 1), st.floats(0.2, 0.95))
def test_the_fit_under_structural_zeros_is_the_dense_solution(cube: Hypercube, seed: int, share: float) -> None:
    measured = measurements(cube, seed)
    possible = np.random.default_rng(seed).random(cube.shape(cube.inner)) < share
    for table in cube.tables:
        measured[table] = np.where(cube.margin(possible, table), measured[table], 0)
    found = Fit(cube, possible).inner(measured)
    assert close(found, dense(cube, measured, possible).inner)
    assert not found[~possible].any()


@settings(max_examples=examples(50))
@given(hypercubes(), st.integers(0, 2**32 - 1))
def test_the_variance_of_every_product_query_is_that_of_the_dense_covariance(cube: Hypercube, seed: int) -> None:
    random, covariance = np.random.default_rng(seed), dense(cube, measurements(cube, seed)).covariance
    weights = {name: random.normal(size=size) for name, size in cube.sizes.items() if random.random() < 0.7}
    query = np.ones(())
    for name, size in cube.sizes.items():
        query = np.multiply.outer(query, weights.get(name, np.ones(size)))
    assert Fit(cube).variance(weights) == pytest.approx(query.ravel() @ covariance @ query.ravel(), rel=1e-8)


@settings(max_examples=examples(50))
@given(hypercubes(), st.integers(0, 2**32 - 1), st.floats(0.2, 0.95))
def test_structural_zeros_never_raise_a_variance(cube: Hypercube, seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    possible = random.random(cube.shape(cube.inner)) < share
    covariance = dense(cube, measurements(cube, seed), possible).covariance
    weights = {name: random.integers(0, 2, size).astype(float) for name, size in cube.sizes.items()}
    query = np.ones(())
    for name in cube.sizes:
        query = np.multiply.outer(query, weights[name])
    assert query.ravel() @ covariance @ query.ravel() <= Fit(cube, possible).variance(weights) * (1 + 1e-8) + 1e-12


@settings(max_examples=examples(50))
@given(hypercubes(), st.data())
def test_the_error_of_a_sum_has_the_coefficients_of_the_dense_solution(cube: Hypercube, data: st.DataObject) -> None:
    chosen = {
        name: data.draw(st.sets(st.integers(0, size - 1), min_size=1), label=name) for name, size in cube.sizes.items()
    }
    query = np.ones(())
    for name, size in cube.sizes.items():
        query = np.multiply.outer(query, np.isin(np.arange(size), list(chosen[name])))
    influence = dense(cube, measurements(cube, 0)).influence
    terms = list(Fit(cube).error([len(places) for places in chosen.values()]))
    found = np.sort([term.coefficient for term in terms for _ in range(term.times)])
    expected = np.concatenate([query.ravel() @ matrix for matrix in influence.values()])
    assert close(np.sort(np.append(found, np.zeros(len(expected) - len(found)))), np.sort(expected))
    by_noise = {cube.distribution(table): 0.0 for table in cube.tables}
    for term in terms:
        by_noise[term.noise] += term.times * term.coefficient**2
    for table, matrix in influence.items():
        by_noise[cube.distribution(table)] -= float(((query.ravel() @ matrix) ** 2).sum())
    assert np.allclose(list(by_noise.values()), 0, atol=1e-8), "each coefficient belongs to its table's noise"


@pytest.mark.parametrize("possible", [False, True])
def test_exact_tables_are_fitted_exactly(possible: bool) -> None:
    cube = Hypercube({"a": 3, "b": 4, "c": 2}, Fraction(1), margins=Margins.FITTED)
    random = np.random.default_rng(5)
    mask = random.random((3, 4, 2)) < 0.6 if possible else None
    counts = random.integers(0, 10**6, (3, 4, 2)) * (1 if mask is None else mask)
    fitted = Fit(cube, mask).inner({table: cube.margin(counts, table) for table in cube.tables})
    assert np.allclose(fitted, counts, rtol=0, atol=1e-3)


def test_a_fit_of_a_wrong_weighting_is_told_apart() -> None:
    """Equal weights, or the scale of the margins forgotten: the difference is far beyond rounding."""
    shares = {("a", "b"): Fraction(1, 5), ("a",): Fraction(3, 5), ("b",): Fraction(1, 5)}
    cube = Hypercube({"a": 3, "b": 4}, Fraction(1), margins=Margins.FITTED, shares=shares)
    equal = Hypercube({"a": 3, "b": 4}, Fraction(1), margins=Margins.FITTED)
    measured = measurements(cube, 1)
    expected = dense(cube, measured).inner
    assert close(Fit(cube).inner(measured), expected)
    assert np.abs(Fit(equal).inner(measured) - expected).max() > 1
    assert abs(Fit(equal).variance({}) / Fit(cube).variance({}) - 1) > 0.1


def test_a_fit_that_does_not_converge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cube = Hypercube({"a": 3, "b": 4, "c": 2}, Fraction(1), margins=Margins.FITTED)
    possible = np.random.default_rng(5).random((3, 4, 2)) < 0.6
    monkeypatch.setattr(fitting, "ITERATIONS", 1)
    with pytest.raises(NotFittedError, match="did not converge in 1 iterations"):
        Fit(cube, possible).inner(measurements(cube, 2))


def test_a_missing_table_is_an_error() -> None:
    cube = Hypercube({"a": 3, "b": 4}, Fraction(1), margins=Margins.FITTED)
    with pytest.raises(KeyError):
        Fit(cube).inner({cube.inner: np.zeros((3, 4), dtype=np.int64)})


def drawn(cube: Hypercube, counts: NDArray[np.int64], draw: int) -> Measured:
    return {
        table: cube.margin(counts, table)
        + cube.distribution(table)
        .sample(cube.cells(table), RandomStream(KEY, f"{draw} {table}"))
        .reshape(cube.shape(table))
        for table in cube.tables
    }


DRAWS = 20


@pytest.mark.parametrize("noise", FAMILIES)
def test_fitted_tables_have_less_error_than_independent_ones_on_every_table(noise: NoiseFamily) -> None:
    """20 draws of a hypercube of four variables on random data.

    The stated variance of every table is that of its errors to 5 standard errors, and far below that of the
    measurements. The key is fixed. Errors of one draw's cells are correlated, so the standard error is that of the
    draws' averages.
    """
    cube = Hypercube({"state": 6, "sex": 2, "age": 5, "race": 4}, Fraction(1), noise, Margins.FITTED)
    counts = np.random.default_rng(12).poisson(3.0, cube.shape(cube.inner))
    fit = Fit(cube)
    fitted_errors, measured_errors = {table: [] for table in cube.tables}, {table: [] for table in cube.tables}
    for draw in range(DRAWS):
        measured = drawn(cube, counts, draw)
        inner = fit.inner(measured)
        for table in cube.tables:
            truth = cube.margin(counts, table)
            fitted_errors[table].append(np.mean((cube.margin(inner, table) - truth) ** 2))
            measured_errors[table].append(np.mean((measured[table] - truth) ** 2))
    for table in cube.tables:
        fitted, separate = np.mean(fitted_errors[table]), np.mean(measured_errors[table])
        assert fitted < separate, table
        one = {name: np.eye(cube.sizes[name])[0] for name in table}
        stated = fit.variance(one)
        assert stated < float(cube.distribution(table).exact_variance)
        assert abs(fitted - stated) < 5 * np.std(fitted_errors[table], ddof=1) / np.sqrt(DRAWS)


@settings(max_examples=examples(30))
@given(hypercubes())
def test_fitting_never_has_more_variance_than_measuring(cube: Hypercube) -> None:
    for table in cube.tables:
        one = {name: np.eye(cube.sizes[name])[0] for name in table}
        assert Fit(cube).variance(one) <= float(cube.distribution(table).exact_variance) * (1 + 1e-9)
