"""The records that SafeTab counts, in either layout of a dataset: persons, or households by their householders' codes.

A *unit* of the production layout is a housing unit or group quarters, and one of SafeTab's own files is a block. Either
way, `units` has the geography, and a record lies in the regions of its unit. Households are a file of their own, or the
occupied housing units of the production layout with the person who is their householder.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from assets.cef.census import RACE_CODES
from assets.release.dataset import DatasetDeclaration
from mechanisms.safetab.details import AGES
from mechanisms.safetab.lists import MOST_RACE_CODES

ETHNICITY_CODE = "QSPAN"
AREA_COLUMNS = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "PLACEFP", "AIANNHCE")
"""The columns of `units` that determine its regions."""

_CODES = (*RACE_CODES, ETHNICITY_CODE)


class Counted(StrEnum):
    """What a release counts."""

    PERSONS = "persons"
    HOUSEHOLDS = "households"


_READ: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "persons": {"units": AREA_COLUMNS, "persons": ("QAGE", "QSEX", *_CODES)},
    "households": {"units": AREA_COLUMNS, "households": (*_CODES, "HOUSEHOLD_TYPE", "TEN")},
    "householders": {"units": (*AREA_COLUMNS, "RTYPE", "HHT", "TEN"), "persons": ("RELSHIP", *_CODES)},
}
"""By what is counted in `sql/safetab/records.sql`, the columns that it reads by the table of the CEF."""


def _counted_records(dataset: DatasetDeclaration, counted: Counted) -> str:
    if counted is Counted.HOUSEHOLDS and Counted.HOUSEHOLDS not in dataset.tables:
        return "householders"
    return counted.value


def columns_read(dataset: DatasetDeclaration, counted: Counted) -> Mapping[str, tuple[str, ...]]:
    """The columns that counting reads, by the table of the CEF. A dataset without them cannot be counted.

    Households are read from the table of households if the dataset has one, and otherwise from persons and units of the
    production layout.
    """
    return _READ[_counted_records(dataset, counted)]


def identify_records(
    dataset: DatasetDeclaration, counted: Counted, max_race_codes: int = MOST_RACE_CODES
) -> dict[str, Any]:
    """The identifiers of `sql/safetab/records.sql`, with the first race codes."""
    records = _counted_records(dataset, counted)
    _, table = _READ[records]
    return {
        **dict(zip(dataset.tables, dataset.cef_tables(), strict=True)),
        "counted": records,
        "unit": dataset.tables[table].unit,
        "codes": [*RACE_CODES[:max_race_codes], ETHNICITY_CODE],
        "ages": [first for first, _ in AGES[3]],
    }
