"""PHSafe's counts, computed independently in plain Python, and small censuses for comparison with the SQL.

The oracle reads the run table row by row and record by record. It shares only the text of a person's digest with the
SQL.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from assets.phsafe.counts import counts_recipe, join_recipe, list_cells, report_recipe
from assets.phsafe.release import PHSafeRelease
from mechanisms.phsafe.runs import RUNS, Geography, Iterated, Level
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session


class Unit(NamedTuple):
    """A unit; an occupied one of a married couple unless said otherwise."""

    MAFID: int
    RTYPE: str = "2"
    HHSPAN: str = "1"
    HHRACE: str = "01"
    TEN: str = "1"
    HHT: str = "1"
    HHT2: str = "01"
    CPLT: str = "1"
    TABBLKST: str = "01"


class Person(NamedTuple):
    """A person; a householder of 40 unless said otherwise."""

    MAFID: int
    PERSON_RTYPE: str = "3"
    QAGE: int = 40
    CENHISP: str = "1"
    CENRACE: str = "01"
    RELSHIP: str = "20"


VACANT = {"HHSPAN": "0", "HHRACE": "00", "TEN": "0", "HHT": "0", "HHT2": "00", "CPLT": "0"}
THRESHOLDS: dict[str, int | None] = {
    "PH1_num": 10,
    "PH1_denom": None,
    "PH2": 10,
    "PH3": 6,
    "PH4": 10,
    "PH5_denom": None,
    "PH6": 6,
    "PH7": 10,
    "PH8_denom": None,
}
"""The truncation thresholds of production (Sexton et al., Table 10)."""
JOINING = [run.name for run in RUNS if run.joins]
ALL_RELEASED = [(run.name, level) for run in RUNS for level in run.levels]


def thresholds(threshold: int) -> dict[str, int | None]:
    """The same threshold for every run that joins."""
    return {run.name: threshold if run.joins else None for run in RUNS}


@dataclass
class Census:
    """Units and persons in the CEF of a warehouse, and Stirred's results for them."""

    session: Session
    units: Sequence[Unit]
    persons: Sequence[Person]
    states: Sequence[str] = ("01", "02")
    name: str = "town"
    tables: tuple[Table, Table] = field(init=False)

    def __post_init__(self) -> None:
        self.tables = (Table(Zone.CONFIDENTIAL, self.name, "units"), Table(Zone.CONFIDENTIAL, self.name, "persons"))
        kinds = ((Unit._fields, self.units), (Person._fields, self.persons))
        for table, (names, records) in zip(self.tables, kinds, strict=True):
            columns = {
                name: pa.array([record[position] for record in records], _TYPES.get(name, pa.string()))
                for position, name in enumerate(names)
            }
            self.session.create(table, "warehouse/all", source=self.session.register("records", pa.table(columns)))

    def release(
        self, truncation: Mapping[str, int | None], released: Iterable[tuple[str, Level]] = ()
    ) -> PHSafeRelease:
        """A stand-in for a release, with only the tables' addresses and a part of the design."""
        pairs = set(released)
        ordered = [(run, level, 0) for run in RUNS for level in run.levels if (run.name, level) in pairs]
        design = SimpleNamespace(states=self.states, thresholds=truncation, released=ordered)
        dataset = SimpleNamespace(cef_tables=lambda: self.tables)
        return cast(PHSafeRelease, SimpleNamespace(dataset=dataset, design=design))

    def table(self, name: str) -> Table:
        """A table of the release."""
        return Table(Zone.CONFIDENTIAL, f"{self.name}__release", name)

    def joined_records(self, truncation: Mapping[str, int | None]) -> dict[str, Counter[tuple[Person, Unit]]]:
        """The truncated join of every run as a multiset of records."""
        joining = {name: threshold for name, threshold in truncation.items() if threshold is not None}
        _, values, names = join_recipe(self.session, self.release(joining))
        rows = self.session.arrow("phsafe/truncated_join", values, **names).to_pylist()
        joined: dict[str, Counter[tuple[Person, Unit]]] = {name: Counter() for name in joining}
        for row in rows:
            person = Person(*(row[name] for name in Person._fields))
            unit = Unit(*(row[name] for name in Unit._fields))
            for name in joining:
                joined[name][person, unit] += bool(row[name])
        return {name: +records for name, records in joined.items()}

    def write(self, truncation: Mapping[str, int | None], released: Iterable[tuple[str, Level]]) -> pa.Table:
        """Write the truncated join and the exact counts; returns the counts."""
        release = self.release(truncation, released)
        cells = list_cells(release.design)
        cells = cells.add_column(0, "draw_order", pa.array(range(len(cells)), pa.int64()))
        joined = self.make("truncated_join", join_recipe(self.session, release))
        counts = self.make("counts", counts_recipe(self.session, joined, cells))
        return self.session.arrow("warehouse/all", source=counts)

    def make(self, name: str, recipe: Recipe) -> Table:
        """Make a table of the release by its recipe."""
        statement, values, names = recipe
        self.session.create(self.table(name), statement, values, **names)
        return self.table(name)

    def counts(
        self, truncation: Mapping[str, int | None], released: Iterable[tuple[str, Level]] = ALL_RELEASED
    ) -> dict[tuple[Any, ...], int]:
        """The exact counts by run, level, region, iteration and cell; no cell may be there twice."""
        rows = self.write(truncation, released).to_pylist()
        assert [row.pop("draw_order") for row in rows] == list(range(len(rows)))
        counted = {tuple(row[name] for name in _CELL): row["count"] for row in rows}
        assert len(counted) == len(rows)
        return counted

    def report(self, truncation: Mapping[str, int | None]) -> dict[str, dict[str, int]]:
        """The truncation report by run."""
        report = self.make("report", report_recipe(self.release(truncation)))
        rows = self.session.arrow("warehouse/all", source=report).to_pylist()
        return {row.pop("run"): row for row in rows}


_TYPES = {"MAFID": pa.int64(), "QAGE": pa.int64()}
_CELL = ("run", "level", "region_type", "region_id", "iteration_code", "data_cell")


def random_census(
    session: Session, units: int, persons: int, seed: int, states: Sequence[str] = ("01", "02"), keys: int = 0
) -> Census:
    """Records of independent, inconsistent codes: every rule meets every combination."""
    random = np.random.default_rng(seed)
    keys = keys or units

    def codes(count: int, *values: str) -> list[str]:
        return [values[index] for index in random.integers(len(values), size=count)]

    races = ["01", "02", "03", "04", "05", "06", "07", "08", "35", "63"]
    drawn_units = [
        Unit(*row)
        for row in zip(
            random.integers(keys, size=units).tolist(),
            codes(units, "2", "2", "4"),
            codes(units, "0", "1", "2"),
            codes(units, "00", *races),
            codes(units, *"01234"),
            codes(units, *"01234567"),
            codes(units, *(f"{code:02d}" for code in range(13))),
            codes(units, *"012345"),
            codes(units, *states, "72"),
            strict=True,
        )
    ]
    drawn_persons = [
        Person(*row)
        for row in zip(
            random.integers(keys + 1, size=persons).tolist(),
            codes(persons, "3", "3", "3", "5"),
            random.choice([0, 3, 4, 5, 6, 11, 12, 17, 18, 64, 115], size=persons).tolist(),
            codes(persons, "1", "2"),
            codes(persons, *races),
            codes(persons, *(f"{code}" for code in range(20, 39))),
            strict=True,
        )
    ]
    return Census(session, drawn_units, drawn_persons, states)


# The oracle


def in_person_universe(run: str, person: Person) -> bool:
    in_household, minor, relationship = person.PERSON_RTYPE == "3", person.QAGE < 18, int(person.RELSHIP)
    return {
        "PH1_num": in_household,
        "PH2": in_household,
        "PH3": in_household and minor,
        "PH4": relationship in {20, 21, 23, *range(25, 34)},
        "PH6": minor and relationship in {25, 26, 27},
        "PH7": in_household,
    }[run]


def in_unit_universe(run: str, unit: Unit) -> bool:
    if run in {"PH1_denom", "PH8_denom"}:
        return unit.RTYPE == "2" and unit.HHT != "0"
    if run in {"PH4", "PH5_denom"}:
        return unit.HHT in {"1", "2", "3"}
    return True


def cell(run: str, person: Person | None, unit: Unit) -> int | None:
    age = person.QAGE if person else -1
    relationship = int(person.RELSHIP) if person else -1
    household, couple, tenure = int(unit.HHT2), int(unit.CPLT), int(unit.TEN)
    if run in {"PH1_num", "PH4"}:
        return 2 if age <= 17 else 3
    if run in {"PH1_denom", "PH5_denom"}:
        return 1
    if run == "PH2":
        couples = {(1, 1): 3, (2, 1): 3, (1, 2): 4, (2, 2): 4, (3, 3): 6, (4, 3): 6, (3, 4): 7, (4, 4): 7}
        singles = {9: 9, 10: 10, 11: 10, 12: 10, 5: 12, 6: 13, 7: 13, 8: 13}
        return couples.get((household, couple), singles.get(household))
    own_child_of = {1: 0, 3: 1, 10: 2, 6: 3}
    if run == "PH3":
        if relationship in {25, 26, 27}:
            return 4 + own_child_of[household] if household in own_child_of else None
        if relationship == 30:
            return 9
        return 10 if relationship in {28, 29, 31, 32, 33} else 2 if relationship not in {37, 38} else None
    if run == "PH6":
        if household not in own_child_of:
            return None
        return 3 + 5 * own_child_of[household] + sum(age >= start for start in (4, 6, 12))
    if run == "PH7":
        return {1: 2, 2: 3, 3: 4, 4: 4}.get(tenure)
    return {1: 2, 2: 2, 3: 3, 4: 3}.get(tenure)


def iterations(race: str, hispanic: str) -> list[str]:
    found = ["*"]
    if 1 <= int(race) <= 63:
        found.append("ABCDEFG"[min(int(race), 7) - 1])
    if hispanic == "2":
        found.append("H")
    elif hispanic == "1" and race == "01":
        found.append("I")
    return found


def truncated(persons: Sequence[Person], threshold: int) -> list[Person]:
    """The persons of one unit that are kept: the first by SHA-256 of their record and of its number among equals."""
    seen: Counter[Person] = Counter()
    ranked = []
    for person in persons:
        seen[person] += 1
        text = f"{seen[person]}" + "".join(f"|{len(str(value))}:{value}" for value in person)
        ranked.append((sha256(text.encode()).hexdigest(), person))
    return [person for _, person in sorted(ranked)[:threshold]]


def truncate_and_join(run: str, census: Census, threshold: int) -> Counter[tuple[Person, Unit]]:
    """Algorithm 3, line by line, on filtered records."""
    persons_of, units_of = defaultdict(list), defaultdict(list)
    for person in census.persons:
        if in_person_universe(run, person):
            persons_of[person.MAFID].append(person)
    for unit in census.units:
        if in_unit_universe(run, unit) and unit.TABBLKST in census.states:
            units_of[unit.MAFID].append(unit)
    return Counter(
        (person, units[0])
        for key, units in units_of.items()
        if len(units) == 1
        for person in truncated(persons_of[key], threshold)
    )


def expected_counts(
    census: Census, truncation: Mapping[str, int | None], released: Iterable[tuple[str, Level]] = ALL_RELEASED
) -> dict[tuple[Any, ...], int]:
    """The exact counts of all released cells."""
    found: Counter[tuple[str, str, str, int | None]] = Counter()
    for run in RUNS:
        if run.name not in truncation:
            continue
        threshold = truncation[run.name]
        records: Iterable[tuple[tuple[Person | None, Unit], int]]
        if threshold is not None:
            records = truncate_and_join(run.name, census, threshold).items()
        else:
            here = [unit for unit in census.units if unit.TABBLKST in census.states]
            records = (((None, unit), 1) for unit in here if in_unit_universe(run.name, unit))
        for (person, unit), times in records:
            codes = (unit.HHRACE, unit.HHSPAN)
            if run.iterated is Iterated.PERSON and person:
                codes = (person.CENRACE, person.CENHISP)
            for iteration in iterations(*codes):
                for region in ("1", unit.TABBLKST):
                    found[run.name, region, iteration, cell(run.name, person, unit)] += times
    nation = Geography.NATION
    runs = {run.name: run for run in RUNS}
    return {
        (name, level.name, "USA" if level.geography is nation else "STATE", region, code, number): found[
            name, region, code, number
        ]
        for name, level in released
        for region in (["1"] if level.geography is nation else census.states)
        for code in level.iterations.codes
        for number in runs[name].cells
    }
