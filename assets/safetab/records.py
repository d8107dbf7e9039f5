"""The records that SafeTab counts, in either layout of a dataset: persons, or households by their householders' codes.

A *unit* of the production layout is a housing unit or group quarters, and one of SafeTab's own files is a block. Either
way, `units` has the geography, and a record lies in the regions of its unit. Households are a file of their own, or the
occupied housing units of the production layout with the person who is their householder.

What makes records impossible to count is found here, before anything is charged, and stated as rule and number alone.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa

from assets.cef.census import RACE_CODES
from assets.cef.detailed_files import BLOCK
from assets.release.dataset import DatasetDeclaration
from mechanisms.refusal import RefusedError
from mechanisms.safetab.details import AGES
from mechanisms.safetab.lists import CODES_FILE, MOST_RACE_CODES
from mechanisms.states import PUERTO_RICO
from resources.warehouse import Session

ETHNICITY_CODE = "QSPAN"
AREA_COLUMNS = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "PLACEFP", "AIANNHCE")
"""The columns of `units` that determine its regions."""

_MAY_BE_NULL = range(1, MOST_RACE_CODES)
"""The positions of the codes that may be the text Null."""
_CODES = (*RACE_CODES, ETHNICITY_CODE)
_FINEST_AGES = [first for first, _ in AGES[3]]


class RecordsError(RefusedError, ValueError):
    """Records that cannot be counted. The message states rules and numbers of records, and no value."""


class Counted(StrEnum):
    """What a release counts."""

    PERSONS = "persons"
    HOUSEHOLDS = "households"


def columns_read(dataset: DatasetDeclaration, counted: Counted) -> Mapping[str, tuple[str, ...]]:
    """The columns that counting reads, by the table of the CEF. A dataset without them cannot be counted.

    Args:
        counted: what is counted. Households are read from the table of households if the dataset has one, and
            otherwise from persons and units of the production layout.
    """
    if counted is Counted.PERSONS:
        return {"units": AREA_COLUMNS, "persons": ("QAGE", "QSEX", *_CODES)}
    if has_household_file(dataset):
        return {"units": AREA_COLUMNS, "households": (*_CODES, "HOUSEHOLD_TYPE", "TEN")}
    return {"units": (*AREA_COLUMNS, "RTYPE", "HHT", "TEN"), "persons": ("RELSHIP", *_CODES)}


def has_household_file(dataset: DatasetDeclaration) -> bool:
    """Whether households are records of their own, as in SafeTab's files."""
    return Counted.HOUSEHOLDS in dataset.tables


def lacks_household_file(dataset: DatasetDeclaration) -> bool:
    """Whether a dataset from SafeTab's files is declared without that of households."""
    return dataset.units.key == BLOCK and not has_household_file(dataset)


def relation(dataset: DatasetDeclaration, counted: Counted, max_race_codes: int = MOST_RACE_CODES) -> dict[str, Any]:
    """The identifiers of `sql/safetab/records.sql`: what is counted, the tables, and the columns of codes.

    Args:
        max_race_codes: how many of the race codes are read, from the first.
    """
    tables = dict(zip(dataset.tables, dataset.cef_tables(), strict=True))
    table = Counted.PERSONS if counted is Counted.PERSONS or not has_household_file(dataset) else Counted.HOUSEHOLDS
    return {
        **tables,
        "counted": str(counted) if counted is Counted.PERSONS or table is Counted.HOUSEHOLDS else "householders",
        "unit": dataset.tables[table].unit,
        "codes": [*RACE_CODES[:max_race_codes], ETHNICITY_CODE],
        "ages": _FINEST_AGES,
    }


def require_countable_records(
    session: Session, dataset: DatasetDeclaration, counted: Counted, codes: Collection[str], states: Sequence[str]
) -> None:
    """Refuse records that SafeTab cannot count. Nothing is reported but rules and numbers of records.

    Codes must be in the list, in all eight columns of all records of the dataset. States are treated as follows.
    SafeTab's two runs are separate, and each leaves the blocks of the other alone: a dataset with blocks of Puerto Rico
    may have a release for the US only, and the other way round. Within the run for the US, the production layout is
    the whole country's, from which a release takes its states; but SafeTab's own files must be those of the declared
    states, as its validation says. So a state that was forgotten is an error, instead of people missing in the nation.

    Args:
        session: a session that reads the CEF.
        codes: all codes of the release's lists.
        states: FIPS codes of the release's states.

    Raises:
        RecordsError: if a code is not in the list, or if a block of SafeTab's files lies in another state.
    """
    known = session.register("known_codes", pa.table({"code": pa.array(sorted(codes), pa.string())}))
    read = relation(dataset, counted)
    problems = [
        f"{counted}: {read['codes'][column]}: a code is not in {CODES_FILE}: {_number(records, 'record')}"
        for column, records in session.rows("safetab/unknown_codes", known=known, optional=_MAY_BE_NULL, **read)
    ]
    within_us = [state for state in states if state != PUERTO_RICO]
    if dataset.units.key == BLOCK and within_us:
        others = session.row("safetab/other_states", {"states": [*within_us, PUERTO_RICO]}, units=read["units"])[0]
        if others:
            problems.append(f"units: TABBLKST: a block lies in none of the declared states: {_number(others, 'block')}")
    if problems:
        raise RecordsError(f"{dataset.name}: {'; '.join(problems)}")


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
