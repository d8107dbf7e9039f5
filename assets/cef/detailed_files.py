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

from assets.cef import census
from assets.cef.census import make_codes, make_digits
from assets.release.columns import Column, RecordTable
from assets.release.dataset import DatasetDeclaration, Reader, Structure

BLOCK = "BLOCK"
"""The column of the CEF that identifies a block: the four columns of its place, one after the other."""

PLACE = {
    "TABBLKST": make_digits(2, "state", "State (FIPS)."),
    **{name: census.UNIT_COLUMNS[name] for name in ("TABBLKCOU", "TABTRACTCE", "TABBLK")},
}
"""The columns that name a block together."""


@dataclass(frozen=True)
class BlockFile:
    """One of the files."""

    name: str
    columns: Mapping[str, Column]
    others_allowed: bool = False
    """Whether it may have further columns, which are ignored."""

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
            "PLACEFP": census.UNIT_COLUMNS["PLACEFP"],
            "AIANNHCE": make_digits(4, census.AREA, f"{census.AREA}, which may cross states; 9999 for none."),
        },
        others_allowed=True,
    ),
    "persons": BlockFile(
        "person-records.txt",
        {
            "QAGE": census.make_column(
                "integer", "age", "Age in years; may have leading zeros in the file.", minimum=0, maximum=115
            ),
            **census.SEX,
            "HOUSEHOLDER": make_codes(["True", "False"], "whether the person is the householder"),
            **PLACE,
            "CENRACE": census.PERSON_COLUMNS["CENRACE"],
            **census.DETAILED_CODES,
        },
    ),
    "households": BlockFile(
        "household-records.txt",
        {
            **PLACE,
            "HHRACE": make_codes(census.RACES, "race of the householder"),
            **census.DETAILED_CODES,
            "HOUSEHOLD_TYPE": make_codes(census.CODES["HOUSEHOLD_TYPE"], "type of household"),
            "TEN": make_codes(census.CODES["TEN"], "tenure"),
        },
    ),
}

STRUCTURE = Structure(
    "cef/detailed_files_structure",
    census.race_code_rules("persons") | census.race_code_rules("households", "householder_", needs="HHRACE"),
)


def _make_block_table(table: str, path: str) -> RecordTable:
    """The table `units`, `persons` or `households`: BLOCK, and the columns of the file, the place in `units` only."""
    role = "key" if table == "units" else "unit"
    block = census.make_column("string", "block", f"{', '.join(PLACE)}, one after the other.", role=role)
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
    """The declaration of a dataset from three files. `described` has its other fields: `name`, `title`, `cap` etc."""
    paths = {"units": units, "persons": persons, "households": households}
    tables = {table: _make_block_table(table, path) for table, path in paths.items() if path is not None}
    return BlockFilesDeclaration(**described | tables, reader=Reader.PIPE_SEPARATED, record_name="block")
