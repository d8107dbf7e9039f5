"""The layouts of census files: the production layout of the decennial census, and the input files of SafeTab.

This module defines the columns with their codes, and the rules that persons and units must satisfy together. `readers`
reads the files, and `synthetic` generates a synthetic census in the production layout.

In the production layout, a unit is a housing unit or group quarters. A housing unit without persons is vacant. One with
persons is a household, and one of the persons is its householder. Sex and the detailed codes of race and Hispanic
origin are an option. The lists of a release state which codes there are and what they mean.

SafeTab's files are persons, households and blocks, as text separated by `|`. There, a unit is a block, one row of
GRF-C.txt. Each person and each household lies in a block, which four columns of its record name together. In the CEF,
these are one column, BLOCK, the key of the table of blocks.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from assets.release.columns import Column, RecordTable
from assets.release.columns import require_recodes as require_recoded_columns
from assets.release.dataset import DatasetDeclaration, Reader, Rule, Structure
from assets.release.names import ColumnName
from mechanisms.races import RACE_COMBINATIONS, race_label
from mechanisms.states import STATES

RACES = {f"{number:02}": race_label(races) for number, races in enumerate(RACE_COMBINATIONS, 1)}
"""The 63 race codes: the six races alone, then their combinations, from two races up to six."""

with Path(__file__).with_name("codes.csv").open(newline="") as lines:
    CODES = {
        column: {row["code"]: row["label"] for row in rows}
        for column, rows in groupby(csv.DictReader(lines), key=itemgetter("column"))
    }
"""By column, its codes with their labels: those of both census layouts, then those of the synthetic survey.

Types 1 to 4 of group quarters are institutional, 5 to 7 are not.
"""

NOWHERE = "Not in universe: vacant or group quarters"

NO_CODE = "Null"
"""The text in place of a race code, in the file and in the CEF: it is a value, and not a missing one."""

RACE_CODES = tuple(f"QRACE{place}" for place in range(1, 9))


def _make_column(kind: str, title: str, description: str = "", **others: Any) -> Column:
    """A column, whose description is by default its title as a sentence."""
    sentence = description or f"{title[0].upper()}{title[1:]}."
    return Column.model_validate({"type": kind, "title": title, "description": sentence, **others})


def _make_codes(values: Mapping[str, str] | Iterable[str], title: str, description: str = "", **others: Any) -> Column:
    return _make_column("string", title, description, values=values, **others)


def _make_digits(number: int, title: str, description: str) -> Column:
    return _make_column("string", title, description, role="geography", pattern=f"[0-9]{{{number}}}")


def _make_count(highest: int, title: str, description: str = "") -> Column:
    return _make_column("integer", title, description, minimum=0, maximum=highest)


def _make_race_code(place: int) -> Column:
    title, code = f"detailed race code {place}", "[1-9][0-9]{3}"
    if place == 1:
        return _make_column("string", title, "Detailed race code number 1 of the person.", pattern=code)
    fewer = f"Detailed race code number {place} of the person; {NO_CODE} if the person has fewer."
    return _make_column("string", title, fewer, pattern=f"{code}|{NO_CODE}")


AREA = "American Indian, Alaska Native or Native Hawaiian area"

UNIT_COLUMNS = {
    "MAFID": _make_column("integer", "unit identifier", "Identifier of the unit.", role="key"),
    "RTYPE": _make_codes({"2": "Housing unit", "4": "Group quarters"}, "type of unit", depends_on_persons=False),
    "FINAL_POP": _make_count(99999, "persons in the unit"),
    "NPF": _make_count(
        99999,
        "persons in the householder's family",
        "Persons in the householder's family, including the householder; 0 without a family.",
    ),
    "HHSPAN": _make_codes({"0": NOWHERE, **CODES["CENHISP"]}, "Hispanic origin of the householder"),
    "HHRACE": _make_codes({"00": NOWHERE, **RACES}, "race of the householder"),
    "TEN": _make_codes({"0": NOWHERE, **CODES["TEN"]}, "tenure", depends_on_persons=False),
    "HHT": _make_codes({"0": NOWHERE, **CODES["HHT"]}, "type of household"),
    "HHT2": _make_codes(
        {"00": NOWHERE, **CODES["HHT2"]},
        "type of household with cohabiting couples",
        "Type of household, with cohabiting couples.",
    ),
    "CPLT": _make_codes({"0": NOWHERE, **CODES["CPLT"]}, "type of couple"),
    "GQTYPE": _make_codes({"0": "Housing unit", **CODES["GQTYPE"]}, "type of group quarters", depends_on_persons=False),
    "TABBLKST": _make_codes(STATES, "state", "State (FIPS).", role="geography"),
    "TABBLKCOU": _make_digits(3, "county", "County (FIPS), within the state."),
    "TABTRACTCE": _make_digits(6, "census tract", "Census tract, within the county."),
    "TABBLKGRPCE": _make_digits(1, "block group", "Block group, within the tract."),
    "TABBLK": _make_digits(4, "block", "Block, within the tract."),
    "REGIONCE": _make_codes(CODES["REGIONCE"], "census region", role="geography"),
    "DIVISIONCE": _make_codes(CODES["DIVISIONCE"], "census division", role="geography"),
    "PLACEFP": _make_digits(5, "place", "Place (FIPS), within the state; 99999 for none."),
    "AIANNHCE": _make_digits(4, AREA, f"{AREA}; 9999 for none."),
}
"""The columns of `units`: those of units.csv, then those of geo.csv. Not every units.csv has GQTYPE.

The type of a unit, the type of group quarters and the tenure are facts about the unit, which no person's record changes
for the others in the unit. (A unit's tenure becomes 0 when its last person leaves; there is no other record then.) All
others but geography follow from the persons.
"""

PERSON_COLUMNS = {
    "MAFID": _make_column("integer", "unit identifier", "The unit the person lives in.", role="unit"),
    "PERSON_RTYPE": _make_codes(
        {"3": "In a housing unit", "5": "In group quarters"}, "where the person lives", source="RTYPE"
    ),
    "QAGE": _make_count(115, "age", "Age in years."),
    "CENHISP": _make_codes(CODES["CENHISP"], "Hispanic origin"),
    "CENRACE": _make_codes(RACES, "race"),
    "RELSHIP": _make_codes(CODES["RELSHIP"], "relationship to the householder"),
}

SEX = {"QSEX": _make_codes({"1": "Male", "2": "Female"}, "sex")}

DETAILED_CODES = {name: _make_race_code(place) for place, name in enumerate(RACE_CODES, 1)} | {
    "QSPAN": _make_column(
        "string",
        "detailed Hispanic origin code",
        "Detailed Hispanic origin code; 9950 is not Hispanic in the lists of 2020.",
        pattern="[0-9]{4}",
    )
}
"""The columns of the detailed codes, in the order of SafeTab's files."""

DETAILED_COLUMNS = {**SEX, **DETAILED_CODES}
"""The columns of `persons` that only a file with detailed codes has."""


def _race_code_rules(table: str, prefix: str = "", needs: str | None = None) -> dict[str, Rule]:
    """The rule that no race code follows one that is Null, for every column that can violate it.

    The statement that counts violations includes `cef/race_codes_after_null.sql`. `needs` is a column that only
    datasets with these codes have.
    """
    return {
        f"{prefix}race_code_{place}": Rule(table, name, f"a code although {before} is {NO_CODE}", needs=needs)
        for place, (before, name) in enumerate(pairwise(RACE_CODES[1:]), 3)
    }


def _require_recodes(columns: dict[str, Column]) -> dict[str, Column]:
    return require_recoded_columns({**UNIT_COLUMNS, **PERSON_COLUMNS}, columns)


Recodes = Annotated[dict[ColumnName, Column], AfterValidator(_require_recodes)]
"""Columns beyond those of the layout, each recoded from one of the file."""

STRUCTURE = Structure(
    "cef/census_structure",
    {
        "persons_housed": Rule(
            "persons", "PERSON_RTYPE", "3 in group quarters (RTYPE 4) or 5 in a housing unit (RTYPE 2)"
        ),
        "relationships_housed": Rule(
            "persons", "RELSHIP", "37 or 38 in a housing unit (RTYPE 2) or another code in group quarters (RTYPE 4)"
        ),
        "population": Rule("units", "FINAL_POP", "not the number of the unit's persons"),
        "householder": Rule("units", "MAFID", "occupied housing unit without exactly one householder (RELSHIP 20)"),
        "couple": Rule("units", "MAFID", "more than one spouse or partner (RELSHIP 21 to 24)"),
        "family": Rule("units", "NPF", "not the number of persons in the householder's family"),
        "hispanic": Rule("units", "HHSPAN", "not the householder's CENHISP, or not 0 without a householder"),
        "race": Rule("units", "HHRACE", "not the householder's CENRACE, or not 00 without a householder"),
        "tenure": Rule("units", "TEN", "0 in an occupied housing unit, or not 0 in a vacant one or in group quarters"),
        "household_type": Rule("units", "HHT", "inconsistent with FINAL_POP and the persons' RELSHIP"),
        "household_type_2": Rule("units", "HHT2", "inconsistent with FINAL_POP and the persons' RELSHIP and QAGE"),
        "couple_type": Rule("units", "CPLT", "inconsistent with FINAL_POP and the persons' RELSHIP"),
        "sex": Rule("units", "HHT2", "sex of the householder differs from that in HHT"),
        "block_group": Rule("units", "TABBLKGRPCE", "not the first digit of TABBLK"),
        "group_quarters_type": Rule(
            "units",
            "GQTYPE",
            "0 in group quarters (RTYPE 4) or another code in a housing unit (RTYPE 2)",
            needs="GQTYPE",
        ),
        "institution": Rule(
            "persons",
            "RELSHIP",
            "37 in noninstitutional group quarters (GQTYPE 5 to 7) or 38 in institutional ones (GQTYPE 1 to 4)",
            needs="GQTYPE",
        ),
        "nursing_age": Rule("persons", "QAGE", "under 18 in a nursing facility (GQTYPE 3)", needs="GQTYPE"),
        "householder_sex": Rule(
            "persons", "QSEX", "sex of the householder differs from that in HHT or HHT2", needs="QSEX"
        ),
        **_race_code_rules("persons", needs="QSEX"),
    },
)
"""The rules that persons and units must satisfy together.

The codes that follow from a household's persons are checked only if it has one householder and at most one spouse or
partner. Otherwise the household already violates a rule, and the codes are not defined.
"""


PlaceNames = dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]]


class CensusDeclaration(DatasetDeclaration):
    """A dataset in the production layout, which must also satisfy the rules of the layout's structure."""

    structure: ClassVar[Structure | None] = STRUCTURE

    place_names: PlaceNames = Field(
        default_factory=dict,
        description="The names of places by code, as releases write it: '10001' for county 001 of state 10. Codes are "
        "in quotes. Tables for places show the names, but none for a code that stands for places of two levels.",
    )


def census_units(
    path: str | None = None,
    geography_path: str | None = None,
    group_quarters_types: bool = False,
    recodes: Mapping[str, Column] | None = None,
) -> RecordTable:
    """The table of units, of a built-in source if there are no paths.

    Args:
        group_quarters_types: whether the units have the column GQTYPE, the type of group quarters.
        recodes: further columns, recoded from those of the files.
    """
    columns = {name: column for name, column in UNIT_COLUMNS.items() if group_quarters_types or name != "GQTYPE"}
    return RecordTable(path=path, geography_path=geography_path, columns={**columns, **(recodes or {})})


def census_persons(
    path: str | None = None, recodes: Mapping[str, Column] | None = None, detailed_codes: bool = False
) -> RecordTable:
    """The table of persons, as `census_units`; `detailed_codes` adds sex, and the codes of race and Hispanic origin."""
    detailed = DETAILED_COLUMNS if detailed_codes else {}
    return RecordTable(path=path, geography_path=None, columns={**PERSON_COLUMNS, **detailed, **(recodes or {})})


def require_recodes(layout: Mapping[str, Column], **recodes: dict[str, Column]) -> None:
    """Raise ValueError, with the field, if one of its columns is not recoded or has the name of one of the layout."""
    for field, columns in recodes.items():
        try:
            require_recoded_columns(layout, columns)
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from None


BLOCK = "BLOCK"
"""The column of the CEF that identifies a block: the four columns of its place, one after the other."""

PLACE = {
    "TABBLKST": _make_digits(2, "state", "State (FIPS)."),
    **{name: UNIT_COLUMNS[name] for name in ("TABBLKCOU", "TABTRACTCE", "TABBLK")},
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


BLOCK_FILES = {
    "units": BlockFile(
        "GRF-C.txt",
        PLACE
        | {
            "PLACEFP": UNIT_COLUMNS["PLACEFP"],
            "AIANNHCE": _make_digits(4, AREA, f"{AREA}, which may cross states; 9999 for none."),
        },
        others_allowed=True,
    ),
    "persons": BlockFile(
        "person-records.txt",
        {
            "QAGE": _make_column(
                "integer", "age", "Age in years; may have leading zeros in the file.", minimum=0, maximum=115
            ),
            **SEX,
            "HOUSEHOLDER": _make_codes(["True", "False"], "whether the person is the householder"),
            **PLACE,
            "CENRACE": PERSON_COLUMNS["CENRACE"],
            **DETAILED_CODES,
        },
    ),
    "households": BlockFile(
        "household-records.txt",
        {
            **PLACE,
            "HHRACE": _make_codes(RACES, "race of the householder"),
            **DETAILED_CODES,
            "HOUSEHOLD_TYPE": _make_codes(CODES["HOUSEHOLD_TYPE"], "type of household"),
            "TEN": _make_codes(CODES["TEN"], "tenure"),
        },
    ),
}

BLOCK_FILES_STRUCTURE = Structure(
    "cef/detailed_files_structure",
    _race_code_rules("persons") | _race_code_rules("households", "householder_", needs="HHRACE"),
)


def _make_block_table(table: str, path: str) -> RecordTable:
    """The table `units`, `persons` or `households`: BLOCK, and the columns of the file, the place in `units` only."""
    role = "key" if table == "units" else "unit"
    block = _make_column("string", "block", f"{', '.join(PLACE)}, one after the other.", role=role)
    columns = {
        name: column for name, column in BLOCK_FILES[table].columns.items() if table == "units" or name not in PLACE
    }
    return RecordTable(path=path, geography_path=None, columns={BLOCK: block, **columns})


class BlockFilesDeclaration(DatasetDeclaration):
    """A dataset from the input files of SafeTab."""

    structure: ClassVar[Structure | None] = BLOCK_FILES_STRUCTURE

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
