"""A synthetic survey of a million persons over four waves, against limits and against a census of as many persons.

Both measurements cover everything from the parameters to the validated tables of the CEF and its data version.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from assets.cef.ingestion import ingest
from assets.cef.survey import SurveyParameters, synthetic_survey
from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.release.dataset import DatasetDeclaration
from benchmarks.processes import measured
from benchmarks.result import Result
from resources.statements import Zone
from resources.warehouse import Warehouse

STATES = ["01", "06", "36"]
PERSONS = 1_000_000
"""Both datasets have at least as many persons."""


def measure() -> list[Result]:
    """Time and peak memory of the process that generates, validates and writes; and the time of a census."""
    seconds, peak = _measured(survey)
    census_seconds, _ = _measured(census)
    return [
        Result("Synthetic survey of 1 million persons, 4 waves, as CEF (s)", seconds, 60.0, 1.0),
        Result("Synthetic survey of 1 million persons, 4 waves: peak memory (GiB)", peak, 2.0, 1.0),
        Result("Synthetic survey of 1 million persons / synthetic census of as many (s)", seconds, census_seconds, 3.0),
    ]


def _measured(step: Callable[[str], int]) -> tuple[float, float]:
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        seconds, peak, persons = measured(step, str(home))
        assert persons >= PERSONS
        return seconds, peak
    finally:
        shutil.rmtree(home)


def survey(home: str) -> int:
    """Write the CEF of a survey; return the number of persons."""
    parameters = SurveyParameters.model_validate({"households": 440_000, "states": STATES, "waves": 4})
    return _written(home, synthetic_survey(parameters, name="bench", cap=1))


def census(home: str) -> int:
    """Write the CEF of a census; return the number of persons."""
    population = SyntheticPopulation.model_validate({"households": 390_000, "states": STATES})
    return _written(home, synthetic_census(population, name="bench", cap=1))


def _written(home: str, declaration: DatasetDeclaration) -> int:
    with Warehouse(folder=home).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, Path(home), bytes(32))
        return session.count(declaration.cef_tables()[1])
