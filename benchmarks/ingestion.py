"""The CEF: validation of ten million rows, and a synthetic survey of a million persons over four waves, against limits.

Rows are read from a CSV file and each is checked by pandera. The survey is also compared with a census of as many
persons, from the parameters on. Every measurement ends with the validated tables of the CEF and their data version.
"""

from pathlib import Path

from assets.cef.ingestion import ingest
from assets.cef.survey import SurveyParameters, synthetic_survey
from assets.release.dataset import DatasetDeclaration
from benchmarks.harness import Result, Run, declare_census, declare_dataset, limit_costs, run_step, temporary_home
from resources.statements import SQL, Zone, quote_literal
from resources.warehouse import Warehouse

ROWS = 10_000_000
STATES = ["01", "06", "36"]
PERSONS = 1_000_000
"""The survey and the census have at least as many persons."""

_WRITE_CSV = SQL("benchmarks/write_csv", "COPY {{ rows }} TO {{ path }} (FORMAT csv, HEADER true)")


def measure_validation() -> list[Result]:
    """Time and peak memory of the process that reads, validates and writes."""
    with temporary_home() as home:
        run_step(write_source, home)
        run = run_step(validate, home)
    return limit_costs(f"CEF of {ROWS:,} rows from CSV", run.seconds, 60.0, run.peak, 2.0)


def measure_survey() -> list[Result]:
    """Time and peak memory of the process that generates, validates and writes; and the time of a census."""
    survey, census = (_run_in_own_home(kind) for kind in ("survey", "census"))
    name = "Synthetic survey of 1 million persons"
    return [
        Result(f"{name}, 4 waves, as CEF (s)", survey.seconds, 60.0),
        Result(f"{name}, 4 waves: peak memory (GiB)", survey.peak, 2.0),
        Result(f"{name} / synthetic census of as many (s)", survey.seconds, census.seconds, 3.0),
    ]


def _run_in_own_home(kind: str) -> Run:
    with temporary_home() as home:
        run = run_step(generate, home, kind)
    assert run.returned >= PERSONS
    return run


def write_source(home: str) -> None:
    with Warehouse(folder=home).session(writes=Zone.PUBLIC, folder=Path(home)) as session:
        rows = session.stage("rows", "benchmarks/households", {"households": ROWS})
        session.run(_WRITE_CSV, rows=rows, path=quote_literal(Path(home) / "units.csv"))


def validate(home: str) -> None:
    integer = {"type": "integer", "minimum": 1, "maximum": 100}
    columns = {
        "state": {"type": "string", "role": "geography", "values": [f"S{number:02}" for number in range(10)]},
        "block_group": {"type": "string", "role": "geography", "pattern": "S?[0-9]+"},
        "size": integer,
        "tenure": {"type": "integer", "values": [1, 2, 3, 4]},
        "age": integer,
    }
    _ingest(home, declare_dataset(columns))


def generate(home: str, kind: str) -> int:
    """Write the CEF of a survey or a census; return the number of persons."""
    if kind == "census":
        return _ingest(home, declare_census(390_000, STATES))
    parameters = SurveyParameters.model_validate({"households": 440_000, "states": STATES, "waves": 4})
    return _ingest(home, synthetic_survey(parameters, name="bench", cap=1))


def _ingest(home: str, declaration: DatasetDeclaration) -> int:
    with Warehouse(folder=home).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, Path(home), bytes(32))
        return session.count(declaration.cef_tables()[-1])
