"""The CEF: validation of ten million rows, extracts of the same size against the same CSV file, and a synthetic survey
of a million persons over four waves, against limits.

Rows are read from a CSV file and each is checked by pandera. The survey is also compared with a census of as many
persons, from the parameters to the tables. Every measurement ends with the validated tables of the CEF and their data
version.
"""

import gzip
import shutil
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any

from assets.cef.ingestion import ingest
from assets.cef.survey import SurveyParameters, synthetic_survey
from assets.release.dataset import DatasetDeclaration, Reader
from assets.release.dialect import parse_dialect
from benchmarks.harness import (
    Result,
    Run,
    declare_census,
    declare_dataset,
    limit_costs,
    run_step,
    temporary_home,
    time_call,
)
from resources.statements import SQL, Zone, quote_literal
from resources.warehouse import Warehouse

ROWS = 10_000_000
STATES = ["01", "06", "36"]
PERSONS = 1_000_000
"""The survey and the census have at least as many persons."""

_WIDTHS = {"serial": 8, "state": 3, "block_group": 12, "size": 1, "tenure": 1, "age": 2}
"""The columns of an extract with their widths in bytes."""

_DDI = {"codebook": "units.xml"}
_EXTRACTS: Mapping[str, tuple[Reader, Mapping[str, Any]]] = {
    "units.csv": (Reader.CSV, {}),
    "units.csv.gz": (Reader.CSV, {"csv": parse_dialect({"compression": "gzip"})}),
    "units.parquet": (Reader.PARQUET, {}),
    "units.dat": (Reader.DDI, _DDI),
    "units.dat.gz": (Reader.DDI, _DDI),
    "units.dta": (Reader.STATA, {}),
    "units.sav": (Reader.SPSS, {}),
}
"""The files of the same records, with their readers and the fields of their declarations."""

_INTEGER = {"type": "integer", "minimum": 1, "maximum": 100}
_COLUMNS = {
    "state": {"type": "string", "role": "geography", "values": [f"S{number:02}" for number in range(10)]},
    "block_group": {"type": "string", "role": "geography", "pattern": "S?[0-9]+"},
    "size": _INTEGER,
    "tenure": {"type": "integer", "values": [1, 2, 3, 4]},
    "age": _INTEGER,
}

_CODEBOOK = (
    '<codeBook xmlns="ddi:codebook:2_5"><stdyDscr><citation><serStmt><serName abbr="usa"/><serInfo/></serStmt>'
    "</citation><dataAccs><useStmt><citReq/><conditions/></useStmt></dataAccs></stdyDscr><fileDscr><fileTxt>"
    '<fileName>units.dat</fileName><fileCont/><fileStrc type="rectangular"/><fileType charset="ISO-8859-1"/><format/>'
    "<filePlac/></fileTxt></fileDscr><dataDscr>{variables}</dataDscr></codeBook>"
)

_CHOSEN = SQL("benchmarks/chosen", "SELECT {{ columns | ids }} FROM {{ rows }}")

_WRITE_PARQUET = SQL("benchmarks/write_parquet", "COPY {{ rows }} TO {{ path }} (FORMAT parquet)")
_WRITE_CSV = SQL("benchmarks/write_csv", "COPY {{ rows }} TO {{ path }} (FORMAT csv, HEADER true)")


def measure_validation() -> list[Result]:
    """Time and peak memory of the process that reads, validates and writes."""
    with temporary_home() as home:
        run_step(write_source, home)
        run = run_step(validate, home)
    return limit_costs(f"CEF of {ROWS:,} rows from CSV", run.seconds, 60.0, run.peak, 2.0)


def measure_extracts() -> list[Result]:
    """Processor time from an extract to its CEF, against the same records in a CSV file, and the peak memory."""
    with temporary_home() as home:
        run_step(write_extracts, home)
        runs = {kind: run_step(validate_extract, home, kind) for kind in _EXTRACTS}
    seconds = {kind: run.returned for kind, run in runs.items()}
    most = max(run.peak for run in runs.values())
    return [
        *(
            Result(f"CEF of {ROWS:,} rows from {kind} / from CSV (CPU s)", seconds[kind], seconds["units.csv"], 4.0)
            for kind in list(_EXTRACTS)[1:]
        ),
        Result(f"CEF of {ROWS:,} rows from an extract: peak memory (GiB)", most, 2.0),
    ]


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
    _ingest(home, declare_dataset(_COLUMNS))


def write_extracts(home: str) -> None:
    """The same records as CSV and fixed-width text, plain and in gzip, as Parquet and as files of packages."""
    import pyreadstat

    folder = Path(home)
    with Warehouse(folder=home).session(writes=Zone.PUBLIC, folder=folder) as session:
        rows = session.stage("rows", "benchmarks/households", {"households": ROWS})
        chosen = session.stage("chosen", _CHOSEN, columns=list(_WIDTHS), rows=rows)
        session.run(_WRITE_CSV, rows=chosen, path=quote_literal(folder / "units.csv"))
        session.run("benchmarks/write_lines", rows=chosen, widths=_WIDTHS, path=quote_literal(folder / "units.dat"))
        session.run(_WRITE_PARQUET, rows=chosen, path=quote_literal(folder / "units.parquet"))
        table = session.arrow("warehouse/all", source=chosen).to_pandas()
    for name in ("units.dat", "units.csv"):
        with (folder / name).open("rb") as lines, gzip.open(folder / f"{name}.gz", "wb", 6) as compressed:
            shutil.copyfileobj(lines, compressed)
    pyreadstat.write_dta(table, str(folder / "units.dta"))
    pyreadstat.write_sav(table, str(folder / "units.sav"))
    variables, start = [], 0
    for name, width in _WIDTHS.items():
        kind = "character" if name in ("state", "block_group") else "numeric"
        variables.append(
            f'<var ID="{name}" intrvl="contin" name="{name}"><location StartPos="{start + 1}" EndPos="{start + width}" '
            f'width="{width}"/><labl>{name}</labl><txt/><concept/><varFormat type="{kind}"/></var>'
        )
        start += width
    (folder / "units.xml").write_text(_CODEBOOK.format(variables="".join(variables)))


def validate_extract(home: str, path: str) -> float:
    """Write the CEF of an extract; return the seconds of the processor."""
    reader, fields = _EXTRACTS[path]
    declared = declare_dataset(_COLUMNS)
    units = declared.units.model_copy(update={"path": path, **fields})
    seconds, _ = time_call(
        lambda: _ingest(home, declared.model_copy(update={"reader": reader, "units": units})), process_time
    )
    return seconds


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
