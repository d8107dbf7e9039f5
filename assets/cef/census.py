"""The layouts of census files: the production layout of the decennial census, and the input files of SafeTab.

The columns are listed in `columns.csv`, their codes in `codes.csv`, and the rules that persons and units must satisfy
together in `rules.csv`. `readers` reads the files, and `synthetic` generates a synthetic census in the production
layout.

In the production layout, a unit is a housing unit or group quarters. A housing unit without persons is vacant; with
persons it is a household, and one of the persons is its householder. The columns of the DHC are an option, and so are
the detailed codes of race and Hispanic origin; either option includes sex. The lists of a release define the detailed
codes.

SafeTab's files are persons, households and blocks, as text separated by `|`. There, a unit is a block, one row of
GRF-C.txt. Each person and each household lies in a block, which four columns of its record identify together. In the
CEF, these are one column, BLOCK, the key of the table of blocks.
"""

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from assets.release.columns import Column, RecordTable, Role, name_error
from assets.release.columns import require_recodes as require_recoded_columns
from assets.release.dataset import DatasetDeclaration, Reader, Rule, Structure
from assets.release.numbers import shown
from mechanisms.races import RACE_COMBINATIONS, race_label
from mechanisms.states import STATES

RACES = {f"{number:02}": race_label(races) for number, races in enumerate(RACE_COMBINATIONS, 1)}
"""The 63 race codes: the six races alone, then their combinations, from two races up to six."""


def _read_groups(name: str) -> dict[str, list[dict[str, str]]]:
    """The rows of a file, by the value in the first column."""
    groups: dict[str, list[dict[str, str]]] = {}
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            groups.setdefault(next(iter(row.values())), []).append(row)
    return groups


CODES = {name: {row["code"]: row["label"] for row in rows} for name, rows in _read_groups("codes.csv").items()}
CODES |= {"CENRACE": RACES, "HHRACE": {"00": CODES["HHSPAN"]["0"], **RACES}, "TABBLKST": STATES}
"""Lists of codes with their labels, mostly by the name of their column; a label is empty if its code needs none.

Types 1 to 4 of group quarters are institutional, 5 to 7 are not. The last lists are of the synthetic survey.
"""

NO_CODE = "Null"
"""The text in place of a race code, in the file and in the CEF: it is a value, not a missing value."""

RACE_CODES = tuple(f"QRACE{place}" for place in range(1, 9))


def _make_column(row: Mapping[str, str]) -> Column:
    """A column from a row of `columns.csv`, where the description is by default the title as a sentence."""
    fields: dict[str, Any] = {name: text for name, text in row.items() if text and name not in ("table", "column")}
    title = row["title"]
    fields.setdefault("description", f"{title[:1].upper()}{title[1:]}.")
    if name := fields.pop("codes", ""):
        codes = CODES[name]
        fields["values"] = codes if any(codes.values()) else list(codes)
    fields |= {name: int(row[name]) for name in ("minimum", "maximum") if row[name]}
    return Column.model_validate(fields)


COLUMNS = {
    table: {row["column"]: _make_column(row) for row in rows} for table, rows in _read_groups("columns.csv").items()
}
"""By table of the production layout or by file of SafeTab, its columns in the order of the file."""

UNIT_COLUMNS = COLUMNS["units"]
"""The columns of `units`: those of units.csv, then those of geo.csv. Not every units.csv has GQTYPE.

The type of a unit, the type of group quarters and the tenure are facts about the unit, which one person's record does
not change for the others in the unit. (A unit's tenure becomes 0 when its last person leaves; the unit then has no
other record.) All other columns except geography follow from the persons.
"""

PERSON_COLUMNS = COLUMNS["persons"]

DETAILED_COLUMNS = COLUMNS["detailed persons"]
"""The columns of `persons` that only a file with detailed codes has; one with the columns of the DHC has QSEX too."""

DHC_UNIT_COLUMNS = COLUMNS["dhc units"]
"""The columns of `units` that only a file with the columns of the DHC has. The DHC's other attributes of a unit follow
from these and from its persons."""


def list_optional_columns(detailed_codes: bool, dhc: bool) -> tuple[dict[str, Column], dict[str, Column]]:
    """The columns of units and of persons that these options add to the layout's."""
    persons = {name: column for name, column in DETAILED_COLUMNS.items() if detailed_codes or (dhc and name == "QSEX")}
    return dict(DHC_UNIT_COLUMNS) if dhc else {}, persons


_RULES = {
    layout: {row["rule"]: Rule(row["table"], row["column"], row["offence"], needs=row["needs"] or None) for row in rows}
    for layout, rows in _read_groups("rules.csv").items()
}


def _leave_out(rule: str) -> Structure:
    return Structure("cef/census_structure", {name: held for name, held in _RULES["census"].items() if name != rule})


STRUCTURE, AS_GIVEN = _leave_out("divided_block"), _leave_out("block_group")
"""The rules that persons and units must satisfy together.

The codes that follow from a household's persons are checked only if all their relationships are known, with one
householder and at most one spouse or partner. Otherwise the household already violates a rule, and the codes are not
defined. `AS_GIVEN` is for block groups `as_given`.
"""


BlockGroup = Literal["first_digit", "as_given"]
Unmatched = Literal["refuse", "drop"]


def _require_text(code: object) -> object:
    if isinstance(code, int | float):
        raise ValueError(f"{shown(code)} is a number; put the code in quotes, as it is written in releases")
    return code


PlaceNames = dict[
    Annotated[str, Field(min_length=1), BeforeValidator(_require_text)], Annotated[str, Field(min_length=1)]
]


def find_place_names(dataset: DatasetDeclaration) -> Mapping[str, str]:
    """By code, the names that a dataset declares for its places. Only a census can declare names."""
    return dataset.place_names if isinstance(dataset, NamedPlacesDeclaration) else {}


def name_states(declared: Mapping[str, str], states: Iterable[str] = STATES) -> dict[str, str]:
    """By code, the names of states: declared names of places, or else the states of the United States."""
    return {code: declared.get(code, STATES[code]) for code in states}


class NamedPlacesDeclaration(DatasetDeclaration):
    """A census in any layout. Its places can have names, because other countries use the codes of states for theirs."""

    place_names: PlaceNames = Field(
        default_factory=dict,
        description="The names of places by code, in quotes and written as in releases: '10001' for county 001 of "
        "state 10. Tables for places show the names, except for codes that places of two levels share.",
    )


class CensusDeclaration(NamedPlacesDeclaration):
    """A dataset in the production layout, which must also satisfy the rules of the layout's structure."""

    block_group: BlockGroup = Field(
        "first_digit",
        description="first_digit: TABBLKGRPCE must be the first digit of TABBLK. as_given: it may be another digit, "
        "but every block must lie in one block group.",
    )

    @property
    def structure(self) -> Structure:
        return STRUCTURE if self.block_group == "first_digit" else AS_GIVEN

    def describe_reading(self, names: Collection[str]) -> tuple[str, ...]:
        as_given = "block group: As given, which need not be the first digit of the block."
        given = self.block_group == "as_given" and "TABBLKGRPCE" in names
        return (*super().describe_reading(names), *([as_given] if given else []))


def census_units(
    path: str | None = None,
    geography_path: str | None = None,
    group_quarters_types: bool = False,
    recodes: Mapping[str, Column] | None = None,
    dhc: bool = False,
    place_names: Mapping[str, str] | None = None,
) -> RecordTable:
    """The table of units, of a built-in source if there are no paths.

    Args:
        group_quarters_types: whether the units have the column GQTYPE, the type of group quarters.
        recodes: further columns, recoded from columns of the files.
        dhc: whether the units have the columns of the DHC, and GQTYPE.
        place_names: names of places by code; the names of states label the codes of the column.
    """
    columns = {name: column for name, column in UNIT_COLUMNS.items() if group_quarters_types or dhc or name != "GQTYPE"}
    columns["TABBLKST"] = columns["TABBLKST"].model_copy(update={"values": name_states(place_names or {})})
    optional, _ = list_optional_columns(False, dhc)
    return RecordTable(path=path, geography_path=geography_path, columns={**columns, **optional, **(recodes or {})})


def census_persons(
    path: str | None = None,
    recodes: Mapping[str, Column] | None = None,
    detailed_codes: bool = False,
    dhc: bool = False,
) -> RecordTable:
    """The table of persons, as `census_units`. `detailed_codes` adds sex and the codes of race and Hispanic origin;
    `dhc` adds sex."""
    _, optional = list_optional_columns(detailed_codes, dhc)
    return RecordTable(path=path, geography_path=None, columns={**PERSON_COLUMNS, **optional, **(recodes or {})})


def require_recodes(
    units: Mapping[str, Column],
    persons: Mapping[str, Column],
    *,
    recoded_units: dict[str, Column],
    recoded_persons: dict[str, Column],
) -> None:
    """Raise ValueError, with the field, if a column is not recoded, has the name of a column of the layout, or is
    recoded from a column of units that depends on persons but is itself declared independent of them."""
    with name_error("recoded_units"):
        require_recoded_columns({**units, **persons}, recoded_units)
        for name, column in recoded_units.items():
            source = units.get(column.source or name)
            if source and source.role is Role.CHARACTERISTIC and source.follows_persons and not column.follows_persons:
                raise ValueError(
                    f"{name}: {column.source} depends on the persons of a unit, and so does what is recoded from it; "
                    "leave out role: geography and depends_on_persons: false"
                )
    with name_error("recoded_persons"):
        require_recoded_columns({**units, **persons}, recoded_persons)


BLOCK = "BLOCK"
"""The column of the CEF that identifies a block: the four columns of its place, concatenated."""

PLACE = {name: COLUMNS["GRF-C.txt"][name] for name in ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")}
"""The columns that name a block together."""


@dataclass(frozen=True)
class BlockFile:
    """One of SafeTab's files."""

    name: str
    others_allowed: bool = False
    """Whether it may have further columns, which are ignored."""

    @property
    def columns(self) -> Mapping[str, Column]:
        return COLUMNS[self.name]

    def header_problem(self, names: Sequence[str]) -> str | None:
        """The rule that the names in the file's header violate; None if they are the columns, in their order."""
        if [name for name in names if name in self.columns or not self.others_allowed] == list(self.columns):
            return None
        further = ", with others between them or not" if self.others_allowed else ""
        return f"its columns are not {'|'.join(self.columns)}, in this order{further}"


BLOCK_FILES = {
    "units": BlockFile("GRF-C.txt", others_allowed=True),
    "persons": BlockFile("person-records.txt"),
    "households": BlockFile("household-records.txt"),
}


def _make_block_table(table: str, path: str) -> RecordTable:
    """The table `units`, `persons` or `households`: BLOCK, and the columns of the file, the place in `units` only."""
    role = "key" if table == "units" else "unit"
    block = Column.model_validate(
        {"type": "string", "title": "block", "description": f"{', '.join(PLACE)}, one after the other.", "role": role}
    )
    columns = {
        name: column for name, column in BLOCK_FILES[table].columns.items() if table == "units" or name not in PLACE
    }
    return RecordTable(path=path, geography_path=None, columns={BLOCK: block, **columns})


class BlockFilesDeclaration(NamedPlacesDeclaration):
    """A dataset from the input files of SafeTab."""

    households: RecordTable | SkipJsonSchema[None] = Field(
        None, description="The table of households, each of which is in one unit."
    )
    unmatched: Unmatched = Field(
        "refuse",
        description="What happens to persons and households in a block that the file of blocks lacks: refuse the "
        "files, or drop these records, as the Census Bureau's production system does. The certificate states the rule; "
        "the number of dropped records is in the confidential zone.",
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

    @property
    def structure(self) -> Structure:
        return Structure("cef/detailed_files_structure", _RULES["block files"])

    @property
    def drops_unmatched(self) -> bool:
        return self.unmatched == "drop"

    def describe_reading(self, names: Collection[str]) -> tuple[str, ...]:
        dropped = "Records in a block that the file of blocks lacks are left out."
        return (*super().describe_reading(names), *([dropped] if self.drops_unmatched else []))


def detailed_files(
    units: str, persons: str | None, households: str | None = None, **described: Any
) -> BlockFilesDeclaration:
    """The declaration of a dataset from blocks and persons, households or both. `described` has its other fields:
    `name`, `title`, `cap` etc."""
    paths = {"units": units, "persons": persons, "households": households}
    tables = {table: _make_block_table(table, path) for table, path in paths.items() if path is not None}
    return BlockFilesDeclaration(**described | tables, reader=Reader.PIPE_SEPARATED, record_name="block")
