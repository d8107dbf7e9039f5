"""The input files of SafeTab: persons, households and blocks, as text separated by `|`.

This module defines the columns of the files with their codes, and the tables that they become. `readers` reads them.

A unit of this layout is a block, one row of GRF-C.txt. Each person and each household lies in a block, which four
columns of its record name together. In the CEF, these are one column, BLOCK, the key of the table of blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from assets.cef.census import RACES, TENURES
from assets.cef.detailed_codes import DETAILED_CODES, SEX, race_code_rules
from assets.release.columns import Column, RecordTable
from assets.release.dataset import DatasetDeclaration, Reader, Structure

BLOCK = "BLOCK"
"""The column of the CEF that identifies a block: the four columns of its place, one after the other."""

HOUSEHOLD_TYPES = {
    "1": "Married couple family",
    "2": "Family, male householder, no spouse",
    "3": "Family, female householder, no spouse",
    "4": "Householder living alone",
    "5": "Nonfamily, not living alone",
}


def _codes(values: Mapping[str, str] | Sequence[str], title: str, description: str) -> Column:
    return Column.model_validate({"type": "string", "values": values, "title": title, "description": description})


def _digits(number: int, title: str, description: str) -> Column:
    pattern = f"[0-9]{{{number}}}"
    declared = {"type": "string", "role": "geography", "pattern": pattern, "title": title, "description": description}
    return Column.model_validate(declared)


PLACE = {
    "TABBLKST": _digits(2, "state", "State (FIPS)."),
    "TABBLKCOU": _digits(3, "county", "County (FIPS), within the state."),
    "TABTRACTCE": _digits(6, "census tract", "Census tract, within the county."),
    "TABBLK": _digits(4, "block", "Block, within the tract."),
}
"""The columns that name a block together."""


@dataclass(frozen=True)
class BlockFile:
    """One of the files.

    Attributes:
        others_allowed: whether it may have further columns, which are ignored.
    """

    name: str
    columns: Mapping[str, Column]
    others_allowed: bool = False

    def header_problem(self, names: Sequence[str]) -> str | None:
        """The rule that the names in the file's header violate; None if they are the columns, in their order."""
        if [name for name in names if name in self.columns or not self.others_allowed] == list(self.columns):
            return None
        further = ", with others between them or not" if self.others_allowed else ""
        return f"its columns are not {'|'.join(self.columns)}, in this order{further}"


FILES = {
    "units": BlockFile(
        "GRF-C.txt",
        PLACE
        | {
            "PLACEFP": _digits(5, "place", "Place (FIPS), within the state; 99999 for none."),
            "AIANNHCE": _digits(
                4,
                "American Indian, Alaska Native or Native Hawaiian area",
                "American Indian, Alaska Native or Native Hawaiian area, which may cross states; 9999 for none.",
            ),
        },
        others_allowed=True,
    ),
    "persons": BlockFile(
        "person-records.txt",
        {
            "QAGE": Column.model_validate(
                {
                    **{"type": "integer", "minimum": 0, "maximum": 115},
                    **{"title": "age", "description": "Age in years; may have leading zeros in the file."},
                }
            ),
            **SEX,
            "HOUSEHOLDER": _codes(
                ["True", "False"], "whether the person is the householder", "Whether the person is the householder."
            ),
            **PLACE,
            "CENRACE": _codes(RACES, "race", "Race."),
            **DETAILED_CODES,
        },
    ),
    "households": BlockFile(
        "household-records.txt",
        {
            **PLACE,
            "HHRACE": _codes(RACES, "race of the householder", "Race of the householder."),
            **DETAILED_CODES,
            "HOUSEHOLD_TYPE": _codes(HOUSEHOLD_TYPES, "type of household", "Type of household."),
            "TEN": _codes(TENURES, "tenure", "Tenure."),
        },
    ),
}

STRUCTURE = Structure(
    "cef/detailed_files_structure",
    race_code_rules("persons") | race_code_rules("households", "householder_", needs="HHRACE"),
)


def block_table(table: str, path: str) -> RecordTable:
    """A table of the CEF: the column BLOCK, and the columns of the file; the place is in `units` only.

    Args:
        table: `units`, which are the blocks, `persons` or `households`.
    """
    role = "key" if table == "units" else "unit"
    made = f"{', '.join(PLACE)}, one after the other."
    block = Column.model_validate({"type": "string", "role": role, "title": "block", "description": made})
    columns = {name: column for name, column in FILES[table].columns.items() if table == "units" or name not in PLACE}
    return RecordTable(path=path, geography_path=None, columns={BLOCK: block, **columns})


class BlockFilesDeclaration(DatasetDeclaration):
    """A dataset from the input files of SafeTab."""

    structure: ClassVar[Structure | None] = STRUCTURE

    households: RecordTable | SkipJsonSchema[None] = Field(
        None, description="The table of households, each of which is in one unit."
    )

    @field_validator("reader")
    @classmethod
    def _check_reader(cls, reader: Reader) -> Reader:
        if reader is not Reader.PIPE_SEPARATED:
            raise ValueError(f"the reader of SafeTab's files is {Reader.PIPE_SEPARATED.value}")
        return reader

    @property
    def tables(self) -> dict[str, RecordTable]:
        return super().tables | ({"households": self.households} if self.households else {})


def detailed_files(units: str, persons: str, households: str | None = None, **described: Any) -> BlockFilesDeclaration:
    """The declaration of a dataset from the input files of SafeTab.

    Args:
        households: the file of households, household-records.txt; None if the dataset has none.
        described: the other fields of the dataset: `name`, `title`, `cap` and so on.
    """
    return BlockFilesDeclaration(
        **described,
        reader=Reader.PIPE_SEPARATED,
        record_name="block",
        units=block_table("units", units),
        persons=block_table("persons", persons),
        households=None if households is None else block_table("households", households),
    )
