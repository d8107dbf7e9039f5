"""Fitted margins of the synthetic survey: nearer than measured ones, and with errors as stated.

Every key is fixed. Rates of false alarms refer to other keys.
"""

from collections.abc import Iterator, Mapping
from math import sqrt
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from assets.cef.ingestion import ingest
from assets.cef.survey import SurveyParameters, synthetic_survey
from assets.table_builder.cells import add_up_cells, table_name
from assets.table_builder.release import HypercubeRelease
from mechanisms.sampling.noise import Noise
from mechanisms.table_builder.asking import COVERAGE, Question
from mechanisms.table_builder.fitting import Fit
from mechanisms.table_builder.hypercube import MECHANISM, Hypercube, Table
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.table_builder_deployments import hypercubes

VARIABLES = ("age_band", "education", "employment_1", "race_hispanic")

Tables = Mapping[Table, NDArray[Any]]
Counted = tuple[HypercubeRelease, NDArray[np.int64]]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    """A hypercube of four variables with 960 cells of about 3,500 persons, and its exact cells."""
    home = tmp_path_factory.mktemp("survey")
    parameters = SurveyParameters.model_validate({"households": 1500, "states": ["01", "06", "36"], "waves": 1})
    survey = synthetic_survey(parameters, name="survey", cap=1)
    cube = {"name": "persons", "of": "persons", "variables": VARIABLES, "epsilon": 1, "margins": "fitted"}
    (component,) = hypercubes("survey", cube)
    made = component.release(survey, home)
    assert isinstance(made, HypercubeRelease)
    with Warehouse(folder=str(home / "warehouse"), threads=1).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, survey, home, bytes(32))
        return made, add_up_cells(session, made, made.amount)


def drawn(design: Hypercube, exact: NDArray[np.int64], draws: int) -> Iterator[tuple[Tables, Tables]]:
    """The measured tables of each draw, and the margins of their fit."""
    fit, distributions = Fit(design), {table_name(table): design.distribution(table) for table in design.tables}
    for number in range(draws):
        noise = Noise(MECHANISM, distributions, number.to_bytes(32, "big"))
        measured = {
            table: design.margin(exact, table)
            + noise.of_next(table_name(table), design.cells(table)).reshape(design.shape(table))
            for table in design.tables
        }
        inner = fit.inner(measured)
        yield measured, {table: design.margin(inner, table) for table in design.tables}


@pytest.mark.prove
@pytest.mark.parametrize("draws", [20, 400])
def test_fitted_margins_are_nearer_than_measured_ones_on_every_margin(counted: Counted, draws: int) -> None:
    """In mean squared error over the cells of each of the 15 tables.

    With 20 draws of other keys, a margin by a single variable, with 4 to 8 cells, would be measured nearer by chance in
    about one of a hundred repetitions. With 400 draws, every difference is at least 11 of its standard deviations.
    """
    release, exact = counted
    design = release.design
    assert len(design.tables) == 15
    measured, fitted = (dict.fromkeys(design.tables, 0.0) for _ in range(2))
    for noisy, agreeing in drawn(design, exact, draws):
        for table in design.tables:
            truth = design.margin(exact, table)
            measured[table] += float(((noisy[table] - truth) ** 2).mean())
            fitted[table] += float(((agreeing[table] - truth) ** 2).mean())
    assert [table for table in design.tables if fitted[table] >= measured[table]] == []


@pytest.mark.prove
def test_stated_errors_of_fitted_margins_are_those_of_400_draws(counted: Counted) -> None:
    """Standard errors: the mean squared error of each table's cells is the stated variance, within six standard
    deviations of it. Intervals: those of each table's last cell cover it at least as often as they would, but for a
    probability of a millionth for all 15 tables together, if each covered it with 90%."""
    release, exact = counted
    design = release.design
    answers = {table: Question(design, table) for table in design.tables}
    covered: dict[Table, int] = dict.fromkeys(design.tables, 0)
    ratios: dict[Table, list[float]] = {table: [] for table in design.tables}
    for _, agreeing in drawn(design, exact, 400):
        for table, question in answers.items():
            answer, truth = question.answer(agreeing), design.margin(exact, table)
            assert np.allclose(answer.values, agreeing[table])
            ratios[table].append(float(((answer.values - truth) ** 2 / answer.variance).mean()))
            covered[table] += bool((answer.lower <= truth).flat[-1] and (truth <= answer.upper).flat[-1])
    for each in ratios.values():
        assert abs(mean(each) - 1) < 6 * stdev(each) / sqrt(len(each))
    assert min(covered.values()) >= binom.ppf(1e-6 / len(design.tables), 400, COVERAGE)
