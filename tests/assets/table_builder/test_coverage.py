"""The intervals of quantiles and moments of the synthetic survey cover the true numbers as often as they state.

Every key is fixed. `docs/mechanisms/table-builder-hypercubes.md` has the rates that this test prints (`-s`).
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from assets.cef.ingestion import ingest
from assets.cef.survey import SurveyParameters, synthetic_survey
from assets.table_builder.statistics import StatisticRelease
from assets.table_builder.statistics_cells import add_up_numbers
from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder.asking import Question
from mechanisms.table_builder.fitted_trees import FittedTrees
from mechanisms.table_builder.hypercube import Margins
from mechanisms.table_builder.moments import Derived, MeasuredMoments, Moments
from mechanisms.table_builder.quantiles import FittedCounts, FittedTree, Tree
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.table_builder_deployments import hypercubes

EPSILONS = (1, 4)
CUBE: Mapping[str, Any] = {
    "name": "work",
    "of": "persons",
    "variables": ["state", "employment_1"],
    "epsilon": 1,
    "quantiles": {"income_1": {"bounds": [0, 20000], "grid": 5}},
    "moments": {"variables": ["income_1", "age"], "bounds": {"income_1": [0, 20000]}},
}
EMPLOYED = 0
"""The place of the category among the kinds of employment, in alphabetical order."""


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[StatisticRelease, list[NDArray[np.int64]]]]:
    """By statistic, its release and its exact numbers by state and employment, of about 20,000 persons."""
    home = tmp_path_factory.mktemp("survey")
    parameters = SurveyParameters.model_validate({"households": 8800, "states": ["10", "44", "50"], "waves": 1})
    survey = synthetic_survey(parameters, name="survey", cap=100)
    found = {}
    with Warehouse(folder=str(home / "warehouse"), threads=1).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, survey, home, bytes(32))
        for component in hypercubes("survey", CUBE)[1:]:
            release = component.release(survey, home)
            shape = release.design.shape(release.design.inner)
            numbers = add_up_numbers(session, release)
            found[release.named] = release, [part.reshape(*shape, part.shape[-1]) for part in numbers]
    return found


def of_cells(
    numbers: list[NDArray[np.int64]], employment: int, state: int | None
) -> tuple[int, list[NDArray[np.int64]]]:
    """The number of cells that are added up, and their numbers: for one kind of employment in one state, or in all."""
    chosen = [part[employment] for part in numbers]
    return (1, [part[state] for part in chosen]) if state is not None else (3, [part.sum(axis=0) for part in chosen])


@pytest.mark.prove
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("state", [None, 2])
def test_intervals_of_moments_cover_in_88_to_92_percent(exact: Any, epsilon: int, state: int | None) -> None:
    """Means, deviations, correlations and coefficients of employed persons, of all states and of Vermont: 1,500 draws
    each, of which 90% would be covered up to 1.6% with 95% probability. Intervals of the noise alone without the
    products' part, or of a deviation around the unprojected matrix, cover less."""
    release, numbers = exact["moments"]
    cells, (sums,) = of_cells(numbers, EMPLOYED, state)
    moments, scales = Moments(2, release.measured.scale, Fraction(epsilon), gaussian=False), [*release.scales.values()]
    stream = RandomStream(b"k" * 32, f"coverage of moments, {epsilon}, {state}")

    def ends(found: MeasuredMoments) -> tuple[NDArray[np.float64], ...]:
        derived: list[Derived] = [found.mean(1), found.deviation(1), found.correlation(0, 1), found.regression(1, [0])]
        return tuple(
            np.concatenate([np.atleast_1d(getattr(each, name)) for each in derived])
            for name in ("estimate", "lower", "upper")
        )

    truth, _, _ = ends(MeasuredMoments(Moments(2, release.measured.scale, Fraction(10**12)), sums, scales))
    covered, draws = np.zeros(len(truth)), 1500
    for _ in range(draws):
        noise = moments.noise.sample(cells * moments.components, stream).reshape(cells, -1).sum(axis=0)
        _, lower, upper = ends(MeasuredMoments(moments, sums + noise, scales, cells))
        covered += (lower <= truth) & (truth <= upper)
    rates = covered / draws
    print(
        f"ε = {epsilon}, {'all states' if state is None else 'Vermont'}: mean, deviation, correlation, b0, b1 {rates}"
    )
    assert ((rates >= 0.88) & (rates <= 0.92)).all(), rates


@pytest.mark.prove
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("state", [None, 2])
@pytest.mark.parametrize("margins", [Margins.SUMMED, Margins.FITTED])
def test_intervals_of_medians_cover_in_90_percent_or_more(
    exact: Any, epsilon: int, state: int | None, margins: Margins
) -> None:
    """They cover more, because the isotonic regression brings F nearer than its stated error, and because a number is
    covered as a whole, however many records have it. The intervals are not longer than they need to be for that: they
    are within a factor of 2.5 of the central 90% of the errors, or 3 steps of the grid."""
    release, numbers = exact["quantiles: income_1"]
    cells, levels = of_cells(numbers, EMPLOYED, state)
    tree = Tree.shared(release.measured.numbers, release.measured.branching, Fraction(epsilon))
    stream = RandomStream(b"k" * 32, f"coverage of medians, {epsilon}, {state}")
    cube = replace(release.design, margins=Margins.FITTED)
    tables = [{table: cube.margin(part, table) for table in cube.tables} for part in numbers]
    trees = {table: tree.scaled(cube.budget_of(table) / cube.budget) for table in cube.tables}
    question = Question(cube, (), {"employment_1": [EMPLOYED]} | ({} if state is None else {"state": [state]}))

    def draw_fit() -> FittedCounts:
        if margins is Margins.SUMMED:
            pairs = zip(levels, tree.noises, strict=True)
            noisy = [
                part + noise.sample(cells * len(part), stream).reshape(cells, -1).sum(axis=0) for part, noise in pairs
            ]
            return FittedTree(tree, tuple(part.astype(np.float64) for part in noisy), cells)
        measured = [
            {
                table: part + trees[table].noises[level].sample(part.size, stream).reshape(part.shape)
                for table, part in by_table.items()
            }
            for level, by_table in enumerate(tables)
        ]
        return next(FittedTrees(cube, tree, measured).answer(question))

    truth = int(np.searchsorted(np.cumsum(levels[-1]), levels[0][0] / 2))
    covered, draws, lengths, errors = 0, 300, [], []
    for _ in range(draws):
        fit = draw_fit()
        low, high = fit.interval(Fraction(1, 2))
        covered += low <= truth <= high
        lengths.append(high - low)
        errors.append(fit.quantile(Fraction(1, 2)) - truth)
    central = np.subtract(*np.quantile(errors, [0.95, 0.05]))
    place = "all states" if state is None else "Vermont"
    print(f"{margins}, ε = {epsilon}, {place}: {covered / draws}, {np.mean(lengths)} steps")
    assert covered / draws >= 0.88
    assert np.mean(lengths) <= max(2.5 * central, 3)
