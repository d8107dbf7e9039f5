"""The publications of SafeTab-P and SafeTab-H without noise, computed in plain Python.

The oracle is written from the description of the Bureau's programs (SafeTab-P 5.0.0, SafeTab-H 3.0.0) alone, record by
record and group by group. It shares no code with Stirred. From records, blocks, lists and configuration, it gives:

- `exact_counts`: the counts of population groups and finest cells that are not 0, as the stage `counts` stores them;
- `regions`: the regions of each type;
- `safetab_p`: the rows of T1 and T2; `safetab_h`: those of T3 and T4, from the rows of a T1 file;
- `text`: a file of such rows in the published format, sorted.

There is no randomness: every noisy number is its exact value, so stage 1 sees the exact total, and suppression keeps
totals greater than c = 0. Only effects of the noise cannot be tested here.

Records of the production layout become those of SafeTab's own files by `from_production`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

US_TYPES = ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH")
PR_TYPES = ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE")
TYPES = (*US_TYPES, *PR_TYPES)
PAIRS = tuple((region_type, level) for region_type in TYPES for level in (1, 2))
"""All pairs of a region type and a level."""

NULL = "Null"


# Input


class Block(NamedTuple):
    """A row of GRF-C."""

    TABBLKST: str = "01"
    TABBLKCOU: str = "001"
    TABTRACTCE: str = "000100"
    TABBLK: str = "1000"
    PLACEFP: str = "99999"
    AIANNHCE: str = "9999"

    @property
    def key(self) -> str:
        """State, county, tract and block."""
        return "".join(self[:4])


class Person(NamedTuple):
    """A row of person-records: the block's key, the race codes without trailing Nulls, and the counted variables."""

    block: str
    QAGE: int = 40
    QSEX: str = "1"
    races: tuple[str, ...] = ("1010",)
    QSPAN: str = "9950"


class Household(NamedTuple):
    """A row of household-records."""

    block: str
    races: tuple[str, ...] = ("1010",)
    QSPAN: str = "9950"
    HOUSEHOLD_TYPE: str = "1"
    TEN: str = "1"


class Unit(NamedTuple):
    """A unit of the production layout."""

    MAFID: int
    block: Block
    RTYPE: str = "2"
    HHT: str = "1"
    TEN: str = "1"


class CensusPerson(NamedTuple):
    """A person of the production layout; a householder of 40 unless said otherwise."""

    MAFID: int
    QAGE: int = 40
    QSEX: str = "1"
    RELSHIP: str = "20"
    races: tuple[str, ...] = ("1010",)
    QSPAN: str = "9950"


@dataclass(frozen=True)
class Iteration:
    """A row of a file of iterations. `alone` is None for an ethnicity; the last two are None at level 0."""

    code: str
    name: str
    level: int
    alone: bool | None
    detailed_only: bool | None
    coarse_only: bool | None


@dataclass(frozen=True)
class Lists:
    """The four lists: codes, iterations by code, and (iteration, code) pairs."""

    codes: tuple[str, ...]
    iterations: Mapping[str, Iteration]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def read(cls, folder: Path) -> "Lists":
        """The lists in a folder."""
        flag = {"True": True, "False": False, NULL: None}
        iterations = {}
        for code, name, level, alone, detailed_only, coarse_only in _rows(
            folder / "race-characteristic-iterations.txt"
        ):
            iterations[code] = Iteration(code, name, int(level), flag[alone], flag[detailed_only], flag[coarse_only])
        for code, name, level, detailed_only, coarse_only in _rows(folder / "ethnicity-characteristic-iterations.txt"):
            iterations[code] = Iteration(code, name, int(level), None, flag[detailed_only], flag[coarse_only])
        return cls(
            tuple(code for code, _ in _rows(folder / "race-and-ethnicity-codes.txt")),
            iterations,
            frozenset((one, two) for one, two in _rows(folder / "race-and-ethnicity-code-to-iteration.txt")),
        )

    def universe(self, region_type: str, level: int) -> list[Iteration]:
        """The iterations of the groups of a region type and level, in the order of their codes."""
        detailed = region_type in ("USA", "STATE", "PR-STATE")
        return [
            each
            for _, each in sorted(self.iterations.items())
            if each.level == level and (each.coarse_only is False if detailed else each.detailed_only is False)
        ]

    def of_record(
        self, races: Sequence[str], ethnicity: str, region_type: str, level: int, max_race_codes: int = 8
    ) -> set[str]:
        """The iterations of a universe that a record with these codes is in."""
        codes = {code for code in races[:max_race_codes] if code != NULL}
        universe = self.universe(region_type, level)
        of: dict[bool | None, dict[str, set[str]]] = {True: {}, False: {}, None: {}}
        for each in universe:
            for code in (*codes, ethnicity):
                of[each.alone].setdefault(code, set())
                if (each.code, code) in self.pairs:
                    of[each.alone][code].add(each.code)
        alone = set.intersection(*(of[True].get(code, set()) for code in codes)) if codes else set()
        combination = set().union(*(of[False].get(code, set()) for code in codes))
        return alone | combination | of[None].get(ethnicity, set())


def _rows(path: Path) -> Iterator[list[str]]:
    for line in path.read_text(encoding="utf-8").split("\n")[1:]:
        if line:
            yield line.rstrip("\r").split("|")


P_THRESHOLDS = {
    (region_type, level): (
        (4971, 19971, 149971)
        if level == 1
        else (471, 971, 6971)
        if region_type in ("USA", "STATE", "PR-STATE")
        else (971, 4971, 19971)
    )
    for region_type, level in PAIRS
}
"""The thresholds of production for P."""


@dataclass(frozen=True)
class Configuration:
    """The declaration of a release.

    Attributes:
        states: FIPS codes; 72 is the run for Puerto Rico, all others together are the run for the US.
        p: the pairs of a region type and a level with a budget in SafeTab-P.
        t3: the pairs of SafeTab-H's T3.
        t4: the pairs of SafeTab-H's T4.
        p_thresholds: three thresholds of each pair.
        t3_thresholds: three thresholds of each pair.
        t4_thresholds: one threshold of each pair.
        suppression: whether there is a chance of zero suppression.
        max_race_codes: the number of race codes read.
    """

    states: tuple[str, ...] = ("01", "02")
    p: frozenset[tuple[str, int]] = frozenset(PAIRS) - {("AIANNH", 1)}
    t3: frozenset[tuple[str, int]] = frozenset(PAIRS) - {("AIANNH", 1)}
    t4: frozenset[tuple[str, int]] = frozenset(PAIRS) - {("AIANNH", 1)}
    p_thresholds: Mapping[tuple[str, int], tuple[int, int, int]] = field(default_factory=lambda: P_THRESHOLDS)
    t3_thresholds: Mapping[tuple[str, int], tuple[int, int, int]] = field(default_factory=lambda: P_THRESHOLDS)
    t4_thresholds: Mapping[tuple[str, int], int] = field(
        default_factory=lambda: {pair: first for pair, (first, _, _) in P_THRESHOLDS.items()}
    )
    suppression: bool = True
    max_race_codes: int = 8


# Regions and groups


def regions_of(block: Block) -> dict[str, str]:
    """The regions that a block lies in: an identifier for each region type that has one there."""
    state, county, tract = block.TABBLKST, block.TABBLKCOU, block.TABTRACTCE
    prefix = "PR-" if state == "72" else ""
    found = {f"{prefix}STATE": state, f"{prefix}COUNTY": state + county, f"{prefix}TRACT": state + county + tract}
    if block.PLACEFP != "99999":
        found[f"{prefix}PLACE"] = state + block.PLACEFP
    if state != "72":
        found["USA"] = "1"
        if block.AIANNHCE != "9999":
            found["AIANNH"] = block.AIANNHCE
    return found


def regions(blocks: Iterable[Block], states: Sequence[str]) -> dict[str, list[str]]:
    """The regions of each type, in order: all regions of the states' blocks, inhabited or not."""
    found: dict[str, set[str]] = {region_type: set() for region_type in TYPES}
    for block in blocks:
        if block.TABBLKST in states:
            for region_type, region_id in regions_of(block).items():
                found[region_type].add(region_id)
    return {region_type: sorted(ids) for region_type, ids in found.items()}


Group = tuple[str, str, str]
"""Region type, region, iteration."""


def members(
    records: Iterable[Person] | Iterable[Household],
    blocks: Iterable[Block],
    lists: Lists,
    configuration: Configuration,
) -> dict[Group, list[Person] | list[Household]]:
    """The records of each population group that has any, at both levels."""
    at = {block.key: block for block in blocks if block.TABBLKST in configuration.states}
    found = defaultdict(list)
    known: dict[tuple[tuple[str, ...], str, str], set[str]] = {}
    for record in records:
        if record.block not in at:
            continue
        for region_type, region_id in regions_of(at[record.block]).items():
            codes = (record.races, record.QSPAN, region_type)
            if codes not in known:
                of = [lists.of_record(*codes, level, configuration.max_race_codes) for level in (1, 2)]
                known[codes] = set.union(*of)
            for code in known[codes]:
                found[region_type, region_id, code].append(record)
    return found


FINEST_AGES = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85)


def finest_cell(record: Person | Household) -> int:
    """The number of the finest cell of a record."""
    if isinstance(record, Person):
        return (int(record.QSEX) - 1) * 23 + sum(first <= record.QAGE for first in FINEST_AGES) - 1
    return (int(record.HOUSEHOLD_TYPE) - 1) * 4 + int(record.TEN) - 1


def exact_counts(
    records: Iterable[Person] | Iterable[Household],
    blocks: Sequence[Block],
    lists: Lists,
    configuration: Configuration,
    measured: Iterable[tuple[str, int]] | None = None,
) -> dict[tuple[str, int, str, str, int], int]:
    """The counts that are not 0, by region type, level, region, iteration and finest cell.

    Args:
        records: persons, or households.
        blocks: GRF-C.
        lists: the lists.
        configuration: states and number of race codes.
        measured: the pairs to count; SafeTab-P's if None.
    """
    pairs = configuration.p if measured is None else set(measured)
    found: Counter[tuple[str, int, str, str, int]] = Counter()
    for (region_type, region_id, code), group in members(records, blocks, lists, configuration).items():
        level = lists.iterations[code].level
        if (region_type, level) in pairs:
            for record in group:
                found[region_type, level, region_id, code, finest_cell(record)] += 1
    return dict(found)


# SafeTab-P

T1_COLUMNS = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "COUNT")
T2_COLUMNS = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "AGESTART", "AGEEND", "SEX", "COUNT")
T3_COLUMNS = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "T3_DATA_CELL", "COUNT")
T4_COLUMNS = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "T4_DATA_CELL", "COUNT")
COLUMNS = {
    "t1": T1_COLUMNS,
    "t2": T2_COLUMNS,
    **{f"T0300{number}": T3_COLUMNS for number in range(1, 5)},
    **{f"T0400{number}": T4_COLUMNS for number in range(1, 3)},
}
"""The columns of each file."""

AGES = {
    1: ((0, 17), (18, 44), (45, 64), (65, 115)),
    2: ((0, 4), (5, 17), (18, 24), (25, 34), (35, 44), (45, 54), (55, 64), (65, 74), (75, 115)),
    3: (
        *((0, 4), (5, 9), (10, 14), (15, 17), (18, 19), (20, 20), (21, 21), (22, 24), (25, 29), (30, 34), (35, 39)),
        *((40, 44), (45, 49), (50, 54), (55, 59), (60, 61), (62, 64), (65, 66), (67, 69), (70, 74), (75, 79), (80, 84)),
        (85, 115),
    ),
}
"""The age groups of the stat levels 1 to 3, ends included."""

Row = tuple[str | int, ...]


def stat_level(total: int, thresholds: Iterable[int]) -> int:
    """The number of thresholds that a total reaches."""
    return sum(threshold <= total for threshold in thresholds)


def safetab_p(
    persons: Sequence[Person], blocks: Sequence[Block], lists: Lists, configuration: Configuration
) -> dict[str, list[Row]]:
    """The rows of `t1` and `t2`, without noise."""
    tables: dict[str, list[Row]] = {"t1": [], "t2": []}
    in_group = members(persons, blocks, lists, configuration)
    for region_type, region_ids in regions(blocks, configuration.states).items():
        for level in (1, 2):
            if (region_type, level) not in configuration.p:
                continue
            for region_id in region_ids:
                for iteration in lists.universe(region_type, level):
                    group = (region_id, region_type, iteration.code)
                    people = in_group.get((region_type, region_id, iteration.code), [])
                    total = len(people)
                    detail = stat_level(total, configuration.p_thresholds[region_type, level])
                    below_state = region_type not in ("USA", "STATE", "PR-STATE")
                    if iteration.detailed_only:
                        tables["t1"].append((*group, total))
                    elif detail == 0:
                        if not (below_state and configuration.suppression) or total > 0:
                            tables["t1"].append((*group, total))
                    else:
                        tables["t1"].append((*group, total))
                        for sex in ("1", "2"):
                            of_sex = [person for person in people if sex == person.QSEX]
                            tables["t2"].append((*group, "*", "*", sex, len(of_sex)))
                            for first, last in AGES[detail]:
                                count = sum(first <= person.QAGE <= last for person in of_sex)
                                tables["t2"].append((*group, first, last, sex, count))
    return tables


# SafeTab-H

T3_TABLES = {
    0: ("T03001", {"1": 0, "2": 0, "3": 0, "4": 0, "5": 0}, {}),
    1: ("T03002", {"1": 1, "2": 1, "3": 1, "4": 6, "5": 6}, {0: (1, 6)}),
    2: ("T03003", {"1": 2, "2": 3, "3": 3, "4": 7, "5": 8}, {1: (2, 3), 6: (7, 8), 0: (2, 3, 7, 8)}),
    3: (
        "T03004",
        {"1": 2, "2": 4, "3": 5, "4": 7, "5": 8},
        {3: (4, 5), 1: (2, 4, 5), 6: (7, 8), 0: (2, 4, 5, 7, 8)},
    ),
}
"""By stat level: the table, the basis cell of each HOUSEHOLD_TYPE, and the basis cells of each margin."""

T4_TABLES = {
    0: ("T04001", {"1": 0, "2": 0, "3": 0, "4": 0}, {}),
    1: ("T04002", {"1": 1, "2": 2, "3": 3, "4": 3}, {0: (1, 2, 3)}),
}
"""By stat level: the table, the basis cell of each TEN, and the basis cells of the margin."""


def measured_totals(
    totals: Iterable[Row], blocks: Sequence[Block], lists: Lists, configuration: Configuration
) -> Iterator[tuple[str, str, str, int, int]]:
    """The rows of a T1 file that are groups of SafeTab-H: region type, region, iteration, level, total.

    Rows of other runs and states, and rows whose iteration is not in the universe of their region type, are left out.
    """
    of_us = [state for state in configuration.states if state != "72"]
    areas = regions(blocks, configuration.states)["AIANNH"]
    for region_id, region_type, code, total in totals:
        region_id, region_type, code, total = str(region_id), str(region_type), str(code), int(total)
        if region_type == "USA":
            here = bool(of_us)
        elif region_type == "AIANNH":
            here = region_id in areas
        elif region_type in PR_TYPES:
            here = "72" in configuration.states and region_id.startswith("72")
        else:
            here = region_id[:2] in of_us
        for level in (1, 2):
            if here and code in [each.code for each in lists.universe(region_type, level)]:
                yield region_type, region_id, code, level, total


def safetab_h(
    households: Sequence[Household],
    blocks: Sequence[Block],
    lists: Lists,
    configuration: Configuration,
    totals: Iterable[Row],
) -> dict[str, list[Row]]:
    """The rows of `T03001` … `T03004`, `T04001` and `T04002`, without noise.

    Args:
        households: household-records.
        blocks: GRF-C.
        lists: the lists.
        configuration: states, budgets and thresholds.
        totals: the rows of SafeTab-P's T1, of `safetab_p` or of any other publication.
    """
    tables: dict[str, list[Row]] = {name: [] for name in COLUMNS if name.startswith("T0")}
    in_group = members(households, blocks, lists, configuration)
    for region_type, region_id, code, level, total in measured_totals(totals, blocks, lists, configuration):
        group = (region_id, region_type, code)
        there = in_group.get((region_type, region_id, code), [])
        pair = (region_type, level)
        kinds = []
        if pair in configuration.t3:
            detail = stat_level(total, configuration.t3_thresholds[pair])
            kinds.append((T3_TABLES[detail], [household.HOUSEHOLD_TYPE for household in there]))
        if pair in configuration.t4:
            detail = stat_level(total, [configuration.t4_thresholds[pair]])
            kinds.append((T4_TABLES[detail], [household.TEN for household in there]))
        for (name, basis, margins), values in kinds:
            counts = dict.fromkeys(basis.values(), 0)
            for value in values:
                counts[basis[value]] += 1
            counts |= {margin: sum(counts[cell] for cell in cells) for margin, cells in margins.items()}
            tables[name] += [(*group, cell, count) for cell, count in counts.items()]
    return tables


def text(table: str, rows: Iterable[Row]) -> str:
    """A file in the published format: header and rows separated by `|`, rows sorted as text, each line with its end."""
    lines = sorted("|".join(str(value) for value in row) for row in rows)
    return "".join(f"{line}\n" for line in ("|".join(COLUMNS[table]), *lines))


# The production layout


def from_production(
    units: Sequence[Unit], persons: Sequence[CensusPerson]
) -> tuple[list[Block], list[Person], list[Household]]:
    """Records of the production layout as records of SafeTab's files: blocks with a unit, persons, and households.

    A household is an occupied housing unit with its householder. HHT 6 becomes 4 and 7 becomes 5.
    """
    at = {unit.MAFID: unit for unit in units}
    merged = {"6": "4", "7": "5"}
    return (
        sorted({unit.block for unit in units}),
        [
            Person(at[person.MAFID].block.key, person.QAGE, person.QSEX, person.races, person.QSPAN)
            for person in persons
            if person.MAFID in at
        ],
        [
            Household(unit.block.key, person.races, person.QSPAN, merged.get(unit.HHT, unit.HHT), unit.TEN)
            for person in persons
            if (unit := at.get(person.MAFID)) and unit.RTYPE == "2" and unit.HHT != "0" and person.RELSHIP == "20"
        ],
    )
