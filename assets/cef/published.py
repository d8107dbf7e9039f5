"""The layouts of microdata that the Census Bureau publishes: PPMF and PUMS, which are declared as public.

The columns are those of `columns.csv` whose names and codes are certain: from the Bureau's own code that wrote the
files, and from its data dictionaries. Other columns of the files are ignored.
"""

from typing import Any, Literal

from assets.cef.census import COLUMNS
from assets.release.columns import RecordTable
from assets.release.dataset import DatasetDeclaration, Reader
from assets.release.dialect import Dialect
from mechanisms.accounting.specification import PERSON_RECORD

Product = Literal["dhc", "redistricting"]
Records = Literal["persons", "units"]
State = Literal["STATE", "ST"]


def ppmf(product: Product, records: Records, path: str, csv: Dialect | None, **described: Any) -> DatasetDeclaration:
    """The declaration of a file of the 2020 Privacy-Protected Microdata File, whose persons have no unit.

    Args:
        product: the product whose columns are read: the Demographic and Housing Characteristics File, or P.L. 94-171.
        csv: how the file is written, if not with commas.
        described: the other fields of the declaration: `name`, `title`, `source` etc.
    """
    columns = COLUMNS["PPMF places"] | COLUMNS[f"PPMF {product} {records}"]
    return DatasetDeclaration(
        **described,
        public=True,
        reader=Reader.CSV,
        record_name=PERSON_RECORD if records == "persons" else "unit",
        units=RecordTable(path=path, geography_path=None, csv=csv, columns=columns),
    )


def pums(housing: str, persons: str, state: State, csv: Dialect | None, **described: Any) -> DatasetDeclaration:
    """The declaration of the two files of the Public Use Microdata Sample of the American Community Survey, as `ppmf`.

    Args:
        state: the name of the column with the state.
    """
    units = {state if name == "STATE" else name: column for name, column in COLUMNS["PUMS units"].items()}
    return DatasetDeclaration(
        **described,
        public=True,
        reader=Reader.CSV,
        record_name="unit",
        units=RecordTable(path=housing, geography_path=None, csv=csv, columns=units),
        persons=RecordTable(path=persons, geography_path=None, csv=csv, columns=COLUMNS["PUMS persons"]),
    )
