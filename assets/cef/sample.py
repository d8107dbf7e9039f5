"""A synthetic census as files: persons, units and geo in the production layout, as CSV or Parquet, or SafeTab's files.

The command is `python -m assets.cef.sample FOLDER --households 1000 --states 01`. The census itself comes from
`synthetic`.
"""

import argparse
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from assets.cef.census import BLOCK_FILES, UNIT_COLUMNS
from assets.cef.generated import SEED
from assets.cef.readers import PIPED, name_in_source
from assets.cef.synthetic import SyntheticPopulation
from assets.release.columns import Column, Role
from resources.statements import Fragment, quote_literal
from resources.warehouse import Session, Warehouse


def _name_in_file(columns: Mapping[str, Column], first: Sequence[str] = ()) -> dict[str, str]:
    """The columns of a file in their order, with their names in it."""
    return {name: name_in_source(name, columns[name]) for name in dict.fromkeys([*first, *columns])}


def _list_files(population: SyntheticPopulation) -> dict[str, tuple[str, dict[str, str]]]:
    """The three files: the table of the CEF of each, and its columns."""
    units, persons = population.columns()
    places = [name for name, column in units.items() if column.role is Role.GEOGRAPHY]
    return {
        "persons": ("persons", _name_in_file(persons, ("PERSON_RTYPE", "MAFID"))),
        "units": (
            "units",
            _name_in_file({name: units[name] for name in units if name not in places}, ("RTYPE", "MAFID")),
        ),
        "geo": ("units", _name_in_file({name: units[name] for name in ("RTYPE", "MAFID", *places)})),
    }


def write_sample(
    folder: Path, population: SyntheticPopulation, file_format: Literal["csv", "parquet"] = "csv"
) -> list[Path]:
    """Write a synthetic census as `persons`, `units` and `geo`.

    Rows are sorted, so the same parameters give the same files.
    """
    paths = []
    with _open_session(folder) as session:
        for name, (table, columns) in _list_files(population).items():
            rows = _stage(session, name, table, population, columns)
            paths.append(folder / f"{name}.{file_format}")
            _write(session, rows, columns, paths[-1], quote_literal(file_format))
            session.run("warehouse/drop_table", table=rows)
    return paths


def write_block_files(folder: Path, population: SyntheticPopulation) -> list[Path]:
    """Write a synthetic census with detailed codes as SafeTab's files: blocks, persons, households. Rows are sorted."""
    paths = []
    piped = Fragment(f"csv, DELIMITER {quote_literal(PIPED.separator)}")
    with _open_session(folder) as session:
        records = {
            "units": _stage(session, "units", "units", population, UNIT_COLUMNS),
            "persons": _stage(session, "persons", "persons", population, population.columns()[1]),
        }
        for table, file in BLOCK_FILES.items():
            columns = {name: name for name in file.columns}
            rows = session.stage("rows", f"cef/block_file_{table}", **records, columns=list(columns))
            paths.append(folder / file.name)
            _write(session, rows, columns, paths[-1], piped)
    return paths


@contextmanager
def _open_session(folder: Path) -> Iterator[Session]:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stirred-sample-") as home, Warehouse(folder=home).session() as session:
        yield session


def _stage(
    session: Session, name: str, table: str, population: SyntheticPopulation, columns: Iterable[str]
) -> Fragment:
    statement, values, names = population.recipe(table, columns)
    return session.stage(name, statement, values, **names)


def _write(session: Session, rows: Fragment, columns: Mapping[str, str], path: Path, file_format: Fragment) -> None:
    session.run("cef/write_file", rows=rows, columns=columns, path=quote_literal(path), format=file_format)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m assets.cef.sample", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder for the files")
    parser.add_argument("--households", type=int, default=1000, help="the number of households (default: 1000)")
    parser.add_argument("--states", nargs="+", default=["01"], help="FIPS codes (default: 01)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"each seed gives another census (default: {SEED})")
    parser.add_argument(
        "--format",
        choices=["csv", "parquet", "safetab"],
        default="csv",
        help="csv (default) or parquet in the production layout, or safetab for SafeTab's files, with detailed codes",
    )
    parser.add_argument(
        "--detailed-codes", action="store_true", help="whether persons have QSEX, QRACE1 to QRACE8 and QSPAN"
    )
    parser.add_argument("--dhc", action="store_true", help="whether there are the columns of the DHC")
    parser.add_argument(
        "--varied-blocks", type=int, default=0, help="the percentage of blocks of another mixture of races (default: 0)"
    )
    options = parser.parse_args(arguments)
    try:
        population = SyntheticPopulation(
            seed=options.seed,
            households=options.households,
            states=options.states,
            detailed_codes=options.detailed_codes or options.format == "safetab",
            dhc=options.dhc,
            varied_blocks=options.varied_blocks,
        )
    except ValidationError as error:
        parser.error("; ".join(f"{'.'.join(map(str, line['loc']))}: {line['msg']}" for line in error.errors()))
    if options.format == "safetab":
        paths = write_block_files(options.folder, population)
    else:
        paths = write_sample(options.folder, population, options.format)
    for path in paths:
        print(path)


if __name__ == "__main__":
    main()
