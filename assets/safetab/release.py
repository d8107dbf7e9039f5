"""Releases by SafeTab-P and SafeTab-H as values, which all their stages receive, with the rules of their declarations.

Records are counted in either layout of a dataset: persons, or households by their householders' codes. A *unit* of the
production layout is a housing unit or group quarters; a unit of SafeTab's own files is a block. In both, `units` has
the geography, and a record lies in the regions of its unit. Households are records of a separate file, or the occupied
housing units of the production layout, joined with their householders.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from assets.cef.census import BLOCK, RACE_CODES, BlockFilesDeclaration, CensusDeclaration
from assets.measurement.declaration import require_known_states
from assets.release.dataset import DatasetDeclaration
from assets.release.release import Release
from assets.safetab.declaration import SafeTabDeclaration, SafeTabHDeclaration, SafeTabPDeclaration
from mechanisms.safetab.design import MeasuredLine, Pair, SafeTabHDesign, SafeTabPDesign
from mechanisms.safetab.details import AGES
from mechanisms.safetab.lists import MOST_RACE_CODES, CodeLists, Iteration
from resources.chain import canonicalize

COUNTS, REGIONS, GROUPS, PARAMETERS = "counts", "regions", "population_groups", "parameters"
"""The tables, and the stages that make them: exact counts, the regions of SafeTab-P, the groups of SafeTab-H, and the
parameters that follow from the declaration."""

COLUMNS_OF_GROUPS = {
    "region_type": "Type of the region, such as TRACT",
    "level": "Level of the iteration: 1 regional, 2 detailed",
    "region_id": "Code of the region",
    "iteration_code": "Characteristic iteration",
}

ETHNICITY_CODE = "QSPAN"
AREA_COLUMNS = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "PLACEFP", "AIANNHCE")
"""The columns of `units` that determine its regions."""

_CODES = (*RACE_CODES, ETHNICITY_CODE)


class Counted(StrEnum):
    PERSONS = "persons"
    HOUSEHOLDS = "households"


_READ: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "persons": {"units": AREA_COLUMNS, "persons": ("QAGE", "QSEX", *_CODES)},
    "households": {"units": AREA_COLUMNS, "households": (*_CODES, "HOUSEHOLD_TYPE", "TEN")},
    "householders": {"units": (*AREA_COLUMNS, "RTYPE", "HHT", "TEN"), "persons": ("RELSHIP", *_CODES)},
}
"""By kind of counted record in `sql/safetab/records.sql`, the columns that the statement reads, by table of the CEF."""


def _counted_records(dataset: DatasetDeclaration, counted: Counted) -> str:
    if counted is Counted.HOUSEHOLDS and Counted.HOUSEHOLDS not in dataset.tables:
        return "householders"
    return counted.value


def columns_read(dataset: DatasetDeclaration, counted: Counted) -> Mapping[str, tuple[str, ...]]:
    """The columns that counting reads, by table of the CEF. A dataset without them cannot be counted."""
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


@dataclass(frozen=True)
class SafeTabRelease(Release):
    """The common parts of releases by both mechanisms."""

    declaration: SafeTabDeclaration
    design: SafeTabPDesign | SafeTabHDesign
    lists: CodeLists

    counted: ClassVar[Counted]

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, CensusDeclaration | BlockFilesDeclaration):
            self.refuse(
                f"dataset: {self.dataset.name} is neither a census in the production layout (CensusDataset, "
                "SyntheticCensus) nor in SafeTab's files (SafeTabDataset). The loss rests on their rules, such as that "
                "a household has one householder"
            )
        lacks_file = self.dataset.units.key == BLOCK and Counted.HOUSEHOLDS not in self.dataset.tables
        if self.counted is Counted.HOUSEHOLDS and lacks_file:
            self.refuse(f"dataset: {self.dataset.name} has no records of households; declare their file as households")
        for table, columns in columns_read(self.dataset, self.counted).items():
            records = self.dataset.tables.get(table)
            if records is None:
                self.refuse(f"dataset: {self.dataset.name} has no records of {table}; declare their file as {table}")
            missing = [name for name in columns if name not in records.stored]
            if missing:
                self.refuse(
                    f"dataset: {table} of {self.dataset.name} have no column {missing[0]}; declare the dataset with "
                    "detailed_codes: true"
                )
        require_known_states(self, self.design.states)

    @property
    def columns_read(self) -> list[str]:
        return [name for columns in columns_read(self.dataset, self.counted).values() for name in columns]

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The measured region types and levels, in the order of the draw."""
        return tuple(dict.fromkeys((line.region_type, line.level) for line in self.design.measured))

    def universe_of(self, line: MeasuredLine) -> tuple[Iteration, ...]:
        """The iterations whose groups a line measures, in the order of their codes."""
        return self.lists.universe(line.region_type, line.level)

    @cached_property
    def counted_with(self) -> Mapping[str, Any]:
        """The values, besides the records, that determine the exact counts, the regions and the groups."""
        lines = {line.label: list(line.thresholds) for line in self.design.measured}
        return {
            "states": sorted(self.design.states),
            "max_race_codes": self.design.max_race_codes,
            "lists": _version(self.lists),
            # Only in SafeTab-H do thresholds determine the detail of the groups.
            "measured": lines if self.counted is Counted.HOUSEHOLDS else list(lines),
        }

    @property
    def counted_as(self) -> Mapping[str, Any]:
        return {name: self.counted_with[name] for name in ("max_race_codes", "lists")}


def _version(lists: CodeLists) -> str:
    """A hash of the lists without their names, so lists that count alike have the same hash."""
    iterations = sorted(
        [listed.code, listed.level, listed.alone, listed.detailed_only, listed.coarse_only]
        for listed in lists.iteration.values()
    )
    return sha256(canonicalize([iterations, sorted(lists.names), sorted(map(list, lists.pairs))])).hexdigest()


@dataclass(frozen=True)
class SafeTabPRelease(SafeTabRelease):
    declaration: SafeTabPDeclaration
    design: SafeTabPDesign

    counted = Counted.PERSONS


@dataclass(frozen=True)
class SafeTabHRelease(SafeTabRelease):
    """A release by SafeTab-H. The totals that `detail` published, or the totals of the declared file if it is None,
    determine the groups and their detail."""

    declaration: SafeTabHDeclaration
    design: SafeTabHDesign
    detail: SafeTabPRelease | None

    counted = Counted.HOUSEHOLDS

    @property
    def totals_in_words(self) -> str:
        """The origin of the totals."""
        if self.detail is not None:
            return f"published by {self.dataset.name}/{self.detail.name}"
        assert self.declaration.totals is not None
        return f"in {Path(self.declaration.totals.path).name}, from {self.declaration.totals.source}"
