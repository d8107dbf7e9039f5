"""Releases by SafeTab-P and SafeTab-H as values, which all their stages receive, and the rules of their declarations.

The rules are checked before anything runs. Those that need no dataset are in `assets.safetab.declaration` and
`mechanisms.safetab.design`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar

from assets.release.release import Release
from assets.safetab.declaration import SafeTabDeclaration, SafeTabHDeclaration, SafeTabPDeclaration
from assets.safetab.records import Counted, columns_read, lacks_household_file
from mechanisms.safetab.design import Pair, SafeTabHDesign, SafeTabPDesign
from mechanisms.safetab.lists import CodeLists
from resources.canonical import canonicalize

COUNTS, REGIONS, GROUPS, PARAMETERS = "counts", "regions", "population_groups", "parameters"
"""The tables, and the stages that make them: exact counts, the regions of SafeTab-P, the groups of SafeTab-H, and what
follows from the declaration."""


@dataclass(frozen=True)
class SafeTabRelease(Release):
    """What releases by both mechanisms have in common.

    Attributes:
        lists: the codes of race and ethnicity, and the iterations that they belong to.
    """

    declaration: SafeTabDeclaration
    design: SafeTabPDesign | SafeTabHDesign
    lists: CodeLists

    counted: ClassVar[Counted]

    def __post_init__(self) -> None:
        if self.counted is Counted.HOUSEHOLDS and lacks_household_file(self.dataset):
            self.refuse(f"dataset: {self.dataset.name} has no records of households; declare their file as households")
        for table, columns in columns_read(self.dataset, self.counted).items():
            records = self.dataset.tables.get(table)
            missing = [name for name in columns if records is None or name not in records.stored]
            if missing:
                self.refuse(
                    f"dataset: {table} of {self.dataset.name} have no column {missing[0]}; declare the dataset with "
                    "detailed_codes: true, or as a SafeTabDataset"
                )
        codes = self.dataset.units.stored["TABBLKST"].codes
        for state in self.design.states:
            if codes and state not in codes:
                known = ", ".join(str(code) for code in codes)
                self.refuse(f"states: {state} is not a state of {self.dataset.name}, which has {known}")

    @property
    def columns_read(self) -> list[str]:
        return [name for columns in columns_read(self.dataset, self.counted).values() for name in columns]

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The measured region types and levels, in the order of the draw."""
        return tuple(dict.fromkeys((line.region_type, line.level) for line in self.design.measured))

    @cached_property
    def counted_with(self) -> Mapping[str, Any]:
        """What the exact counts, the regions and the groups follow from, besides the records."""
        return {
            "states": sorted(self.design.states),
            "max_race_codes": self.design.max_race_codes,
            "lists": _version(self.lists),
            "measured": self._counted_lines,
        }

    @property
    @abstractmethod
    def _counted_lines(self) -> Any:
        """What the exact counts, the regions and the groups follow from of the measured lines."""


def _version(lists: CodeLists) -> str:
    """A hash of everything in the lists but names: lists that count the same have the same."""
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

    @property
    def _counted_lines(self) -> list[str]:
        return [line.label for line in self.design.measured]


@dataclass(frozen=True)
class SafeTabHRelease(SafeTabRelease):
    """A declared release by SafeTab-H.

    Attributes:
        detail: the release by SafeTab-P whose published totals say which groups there are, and in what detail.
    """

    declaration: SafeTabHDeclaration
    design: SafeTabHDesign
    detail: SafeTabPRelease

    counted = Counted.HOUSEHOLDS

    @property
    def _counted_lines(self) -> dict[str, list[int]]:
        """With the thresholds, because they say in what detail the groups are."""
        return {line.label: list(line.thresholds) for line in self.design.measured}
