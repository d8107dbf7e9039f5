"""A synthetic census as files in the production layout: persons, units and geo, as CSV or Parquet.

The command is `python -m assets.cef.sample FOLDER --households 1000 --states 01`. The census itself comes from
`synthetic`.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from assets.cef.census import DETAILED_COLUMNS, PERSON_COLUMNS, UNIT_COLUMNS
from assets.cef.generated import SEED
from assets.cef.readers import in_source
from assets.cef.synthetic import SyntheticPopulation, synthetic_names, synthetic_values
from assets.release.columns import Column, Role
from resources.statements import literal
from resources.warehouse import Warehouse


def _fields(columns: dict[str, Column], first: Sequence[str]) -> dict[str, str]:
    """The name of each column in a file, by its name in the CEF; the columns `first` come before the others."""
    return {name: in_source(name, columns[name]) for name in dict.fromkeys([*first, *columns])}


_PLACES = {name: column for name, column in UNIT_COLUMNS.items() if column.role is Role.GEOGRAPHY}
_FILES = {
    "persons": ("persons", _fields(PERSON_COLUMNS, ("PERSON_RTYPE", "MAFID"))),
    "units": (
        "units",
        _fields({name: column for name, column in UNIT_COLUMNS.items() if name not in _PLACES}, ("RTYPE", "MAFID")),
    ),
    "geo": (
        "units",
        _fields({name: UNIT_COLUMNS[name] for name in ("RTYPE", "MAFID", *_PLACES)}, ()),
    ),
}
"""The three files: the table of the CEF that each comes from, and its columns."""


def write_sample(
    folder: Path, population: SyntheticPopulation, file_format: Literal["csv", "parquet"] = "csv"
) -> list[Path]:
    """Write a synthetic census as `persons`, `units` and `geo`. Rows are sorted, so the same parameters give the same
    files.

    Args:
        folder: the folder of the files; created if it does not exist.
        population: the parameters of the census.
        file_format: the format of the files.

    Returns:
        The three paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with tempfile.TemporaryDirectory(prefix="stirred-sample-") as home, Warehouse(folder=home).session() as session:
        for name, (table, columns) in _FILES.items():
            if table == "persons" and population.detailed_codes:
                columns = {**columns, **_fields(DETAILED_COLUMNS, ())}
            rows = session.stage(
                name,
                f"cef/synthetic_{table}",
                synthetic_values(population, table),
                **synthetic_names(population),
                columns=list(columns),
            )
            paths.append(folder / f"{name}.{file_format}")
            session.run(
                "cef/write_file", rows=rows, columns=columns, path=literal(paths[-1]), format=literal(file_format)
            )
            session.run("warehouse/drop_table", table=rows)
    return paths


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a sample as the command line says, or report what is wrong with the command line."""
    parser = argparse.ArgumentParser(prog="python -m assets.cef.sample", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder for persons, units and geo")
    parser.add_argument("--households", type=int, default=1000, help="the number of households (default: 1000)")
    parser.add_argument("--states", nargs="+", default=["01"], help="FIPS codes (default: 01)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"each seed gives another census (default: {SEED})")
    parser.add_argument(
        "--format", choices=["csv", "parquet"], default="csv", help="the format of the files (default: csv)"
    )
    parser.add_argument(
        "--detailed-codes", action="store_true", help="whether persons have QSEX, QRACE1 to QRACE8 and QSPAN"
    )
    given = parser.parse_args(arguments)
    try:
        population = SyntheticPopulation(
            seed=given.seed, households=given.households, states=given.states, detailed_codes=given.detailed_codes
        )
    except ValidationError as error:
        parser.error("; ".join(f"{'.'.join(map(str, line['loc']))}: {line['msg']}" for line in error.errors()))
    for path in write_sample(given.folder, population, given.format):
        print(path)


if __name__ == "__main__":
    main()
