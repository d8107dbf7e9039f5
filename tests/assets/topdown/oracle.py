"""The expected content of a redistricting release, computed independently in plain Python, and the releases under test.

It has small censuses with places of several levels, the counts of their records from the files' own rows, the cells of
the redistricting tables, and each release with its declared levels, budgets and products. It is independent of the
project's SQL, schemas and table definitions.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

from assets.topdown.release import TopDownRelease
from tests.deployments import Deployment
from tests.phsafe_deployments import Files, census, changed
from tests.topdown_deployments import TO_CHARGE, TO_DRAW, TWO_LEVELS, topdown_deployment, with_quarters

TopDownDeployment = Deployment[TopDownRelease]
Row = Mapping[str, str]
Levels = Mapping[str, Callable[[Row], str]]
"""By level from the root, the code of the place that a row of geo lies in."""

Shares = Mapping[str, Mapping[str, Fraction]]

ATTRIBUTES = {"persons": ("hhgq", "votingage", "hispanic", "cenrace"), "units": ("occupancy",)}
SIZES = {"hhgq": 8, "hhinstlevels": 3, "votingage": 2, "hispanic": 2, "cenrace": 63, "occupancy": 2}
RACES = [races for number in range(1, 7) for races in combinations("WBIAPO", number)]
"""The 63 combinations in the order of their codes."""

TYPES = range(1, 8)
NURSING = 3


# The censuses


def spread(files: Files) -> Files:
    """Blocks in several counties, tracts and groups, one county having a single block; codes recur in many of them.

    Residents of all types are in both states, one type in a block without other residents. The second home has the
    residents of the first with the origin the other way round.
    """
    with_places = with_quarters(files)
    state_of = {row["MAFID"]: row["TABBLKST"] for row in with_places["geo"]}
    homes = [row for row in with_places["units"] if row["RTYPE"] == "4" and row["FINAL_POP"] != "0"]
    second = {row["MAFID"]: str(int(row["MAFID"]) + 4_096) for row in homes}

    def units(rows: list[dict[str, str]]) -> None:
        rows += [row | {"MAFID": second[row["MAFID"]]} for row in homes]

    def persons(rows: list[dict[str, str]]) -> None:
        moved = [row for row in rows if row["MAFID"] in second]
        rows += [row | {"MAFID": second[row["MAFID"]], "CENHISP": "21"[row["CENHISP"] == "2"]} for row in moved]

    def geo(rows: list[dict[str, str]]) -> None:
        places = {state: [row for row in rows if row["TABBLKST"] == state] for state in ("10", "44")}
        for number, home in enumerate(second):
            there = places[{"10": "44", "44": "10"}[state_of[home]]]
            rows.append(there[7 * number] | {"MAFID": second[home], "RTYPE": "4"})
        for row in rows:
            number = int(row["TABBLK"]) - 1000
            group = 1 + number // 2 % 2
            row["TABBLKCOU"] = "001" if number < 10 else "003" if number == 10 else "005"
            row["TABTRACTCE"] = f"{1 + number % 2:04}00"
            row["TABBLKGRPCE"] = str(group)
            row["TABBLK"] = f"{group}{number // 4:03}"
        rows[-1]["TABBLK"] = f"{rows[-1]['TABBLKGRPCE']}999"

    return changed(with_places, units=units, persons=persons, geo=geo)


def code(*columns: str) -> Callable[[Row], str]:
    return lambda row: "".join(row[column] for column in columns)


BLOCK = code("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")


# The cases


@dataclass(frozen=True)
class Budget:
    """ρ with its shares by level and query, as declared."""

    rho: Fraction
    levels: Mapping[str, Fraction]
    queries: Shares

    @classmethod
    def declared(cls, texts: Mapping[str, Any]) -> "Budget":
        levels = {level: Fraction(share) for level, share in texts["levels"].items()}
        queries = {
            level: {query: Fraction(share) for query, share in shares.items()}
            for level, shares in texts["queries"].items()
        }
        return cls(Fraction(texts["rho"]), levels, queries)

    def parts(self) -> dict[tuple[str, str], Fraction]:
        return {
            (level, query): self.rho * self.levels[level] * share
            for level, shares in self.queries.items()
            for query, share in shares.items()
        }


@dataclass
class Case:
    """A release and its declaration.

    Attributes:
        products: files that it is to publish, by stem; besides spine and queries.
        key: of the draw.
    """

    deployment: TopDownDeployment
    files: Files
    levels: Levels
    invariants: Mapping[str, str]
    budgets: Mapping[str, Budget]
    products: set[str]
    ephemeral: bool = False
    key: bytes = field(default=b"", repr=False)

    @property
    def stages(self) -> tuple[str, ...]:
        return (*TO_DRAW, *self.estimates, "microdata", "tables", "publication")

    @property
    def estimates(self) -> tuple[str, ...]:
        return tuple(f"level_{level.lower()}" for level in self.levels)

    @property
    def finest(self) -> str:
        return list(self.levels)[-1]

    def publish(self) -> "Case":
        """Run it; an ephemeral key is read between charge and draw, for it is gone afterwards."""
        if self.ephemeral:
            self.deployment.reach(*TO_CHARGE)
        else:
            self.deployment.reach(*self.stages)
        charge = self.deployment.ledger[0]
        self.key = self.deployment.context.custody.open_key(
            charge.draw_id, self.deployment.release.custody, charge.commitment
        )
        if self.ephemeral:
            self.deployment.reach(*self.stages[len(TO_CHARGE) :])
        return self

    @cached_property
    def places_of(self) -> dict[str, dict[str, str]]:
        """By unit: by level, the place it lies in."""
        return {row["MAFID"]: {level: place(row) for level, place in self.levels.items()} for row in self.files["geo"]}

    @cached_property
    def ancestors(self) -> dict[str, dict[str, str]]:
        """By place of the finest level: the places it lies in."""
        return {places[self.finest]: places for places in self.places_of.values()}

    @cached_property
    def places(self) -> dict[str, list[str]]:
        """By level, its places in order: by the number of the one above, then by code."""
        found: dict[str, list[str]] = {}
        above: tuple[str, list[str]] | None = None
        for level in self.levels:
            pairs = {
                (above[1].index(places[above[0]]) if above else 0, places[level]) for places in self.places_of.values()
            }
            found[level] = [geoid for _, geoid in sorted(pairs)]
            above = level, found[level]
        return found

    @cached_property
    def records(self) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
        """By histogram: where each person or housing unit is, and its codes."""
        kinds = {row["MAFID"]: int(row["GQTYPE"]) for row in self.files["units"]}
        persons = [
            (
                self.places_of[row["MAFID"]][self.finest],
                (kinds[row["MAFID"]], int(int(row["QAGE"]) > 17), "12".index(row["CENHISP"]), int(row["CENRACE"]) - 1),
            )
            for row in self.files["persons"]
        ]
        units = [
            (self.places_of[row["MAFID"]][self.finest], (int(row["FINAL_POP"] == "0"),))
            for row in self.files["units"]
            if row["RTYPE"] == "2"
        ]
        return {"persons": persons, "units": units}

    def at(self, histogram: str, level: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The records with the place of a level that they are in."""
        for block, codes in self.records[histogram]:
            yield self.ancestors[block][level], codes

    def count(self, histogram: str, level: str) -> dict[str, int]:
        """By place of a level: its records, zeros included."""
        found = Counter(geoid for geoid, _ in self.at(histogram, level))
        return {geoid: found[geoid] for geoid in self.places[level]}

    @cached_property
    def facilities(self) -> Counter[tuple[str, int]]:
        """Inhabited group quarters, by place of the finest level and type."""
        lived_in = {row["MAFID"] for row in self.files["persons"]}
        return Counter(
            (self.places_of[row["MAFID"]][self.finest], int(row["GQTYPE"]))
            for row in self.files["units"]
            if row["RTYPE"] == "4" and row["MAFID"] in lived_in
        )

    @cached_property
    def microdata(self) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
        """The published records, in the form of `records`."""
        return {
            name: [
                (row["geoid"], tuple(position(attribute, row[attribute]) for attribute in attributes))
                for row in rows_of(self.deployment, name)
            ]
            for name, attributes in ATTRIBUTES.items()
        }

    def of_microdata(self, name: str, level: str) -> dict[str, list[tuple[int, ...]]]:
        """By place of a level, the codes of the published records there."""
        found: dict[str, list[tuple[int, ...]]] = {geoid: [] for geoid in self.places[level]}
        for block, codes in self.microdata[name]:
            found[self.ancestors[block][level]].append(codes)
        return found

    def table(self, name: str) -> dict[tuple[str, str], list[int]]:
        """A redistricting table by level and place, which are there once each."""
        found = {}
        for row in rows_of(self.deployment, name.lower()):
            depth, level, geoid, _, *counts = row.values()
            assert int(depth) == list(self.levels).index(level)
            assert (level, geoid) not in found
            assert list(row)[4:] == [f"{name[0]}00{name[1]}{cell:04}" for cell in range(1, len(counts) + 1)]
            found[level, geoid] = [int(count) for count in counts]
        return found


def position(name: str, code: str) -> int:
    """The position of a published code among its attribute's codes: races and Hispanic origin are numbered from 1."""
    assert len(code) == (2 if name == "cenrace" else 1)
    return int(code) - (name in ("cenrace", "hispanic"))


def rows_of(deployment: TopDownDeployment, name: str) -> list[dict[str, str]]:
    text = deployment.published()[f"{name}.csv"].decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


TABLES = {"p1", "p2", "p3", "p4", "p5", "h1"}
RECORDS = {"persons", "units"}
PUBLISHED = Path(__file__).parents[2] / "data" / "pl94_us_persons_production.json"

PRODUCTION_UNITS = {
    "rho": Fraction(3379, 12343) ** 2,
    "levels": {
        "US": "20/4100", "State": "20/4100", "County": "350/4100", "Tract": "1456/4100", "Block_Group": "1759/4100",
        "Block": "495/4100",
    },
    "queries": {
        level: {"detailed": 1} for level in ("US", "State", "County", "Tract", "Block_Group", "Block")
    },
}  # fmt: skip


def production(root: Path, files: Files | None = None) -> Case:
    """All six levels, the budgets and invariants of 2020, every product."""
    files = files or spread(census())
    published = json.loads(PUBLISHED.read_text())
    persons = {"rho": published["rho"], "levels": published["geolevels"], "queries": published["queries"]}
    return Case(
        topdown_deployment(root, files=files),
        files,
        {
            "US": lambda row: "US",
            "State": code("TABBLKST"),
            "County": code("TABBLKST", "TABBLKCOU"),
            "Tract": code("TABBLKST", "TABBLKCOU", "TABTRACTCE"),
            "Block_Group": code("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE"),
            "Block": BLOCK,
        },
        {"population": "State", "housing_units": "Block", "group_quarters": "Block"},
        {"persons": Budget.declared(persons), "units": Budget.declared(PRODUCTION_UNITS)},
        {*TABLES, *RECORDS, "noisy_measurements", "population", "housing_units", "group_quarters"},
    )


def budgets_of(changes: Mapping[str, Any]) -> dict[str, Budget]:
    return {histogram: Budget.declared(changes[histogram]) for histogram in ATTRIBUTES}


NATION_AND_BLOCK: Levels = {"Nation": lambda row: "Nation", "Block": BLOCK}


def other_invariants(root: Path) -> Case:
    """The population of every block is held, group quarters are not; some products of a synthetic dataset."""
    files = with_quarters(census())
    invariants = {"population": "Block", "housing_units": "Block"}
    changes = TWO_LEVELS | {
        "invariants": invariants,
        "products": ["P1", "H1", "persons", "units", "noisy_measurements", "population"],
        "dataset": {"synthetic": True},
    }
    products = {"p1", "h1", *RECORDS, "noisy_measurements", "population"}
    return Case(
        topdown_deployment(root, files=files, **changes),
        files,
        NATION_AND_BLOCK,
        invariants,
        budgets_of(changes),
        products,
    )


PREFIXES: dict[str, Any] = {
    "spine": {
        "Nation": [],
        "State": {"prefix": 2},
        "County": {"prefix": 5},
        "Block": ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"],
    },
    "invariants": {"population": "County", "housing_units": "Block"},
    "persons": {
        "rho": "2/3",
        "levels": {"Nation": "1/8", "State": "1/8", "County": "1/4", "Block": "1/2"},
        "queries": {
            "Nation": {"detailed": 1},
            "State": {"hhinstlevels": "1/3", "detailed": "2/3"},
            "County": {"hhgq * hispanic": "0.25", "detailed": "0.75"},
            "Block": {"total": "1/10", "votingage * cenrace": "4/10", "detailed": "1/2"},
        },
    },
    "units": {
        "rho": 1,
        "levels": {"Nation": "1/4", "State": "1/4", "County": "1/4", "Block": "1/4"},
        "queries": {level: {"detailed": 1} for level in ("Nation", "State", "County", "Block")},
    },
    "products": ["P5", "persons", "units", "noisy_measurements"],
}


def by_prefix(root: Path) -> Case:
    """Levels that are prefixes of the block's code, and few products."""
    files = spread(census())
    levels = {
        "Nation": lambda row: "Nation",
        "State": lambda row: BLOCK(row)[:2],
        "County": lambda row: BLOCK(row)[:5],
        "Block": BLOCK,
    }
    products = {"p5", *RECORDS, "noisy_measurements"}
    deployment = topdown_deployment(root, files=files, **PREFIXES)
    return Case(deployment, files, levels, PREFIXES["invariants"], budgets_of(PREFIXES), products)


def nothing_held(root: Path) -> Case:
    """No invariant at all, other products, and an ephemeral key."""
    files = with_quarters(census())
    products = {"p2", "p4", *RECORDS, "noisy_measurements"}
    declared = ["P2", "P4", "persons", "units", "noisy_measurements"]
    changes = TWO_LEVELS | {"invariants": {}, "custody": "ephemeral", "products": declared}
    deployment = topdown_deployment(root, files=files, **changes)
    return Case(deployment, files, NATION_AND_BLOCK, {}, budgets_of(changes), products, ephemeral=True)


# The redistricting tables


def by_race(people: Sequence[tuple[int, ...]]) -> list[int]:
    """The rows below a total: one race, each of the six, two or more races, and so on to all six."""
    counts = Counter(race for *_, race in people)
    rows: list[int] = []
    for number in range(1, 7):
        codes = [position for position, races in enumerate(RACES) if len(races) == number]
        own = [counts[position] for position in codes]
        if number == 2:
            rows.append(sum(counts[position] for position, races in enumerate(RACES) if len(races) > 1))
        rows += [sum(own), *own]
    return rows


def race_table(people: Sequence[tuple[int, ...]]) -> list[int]:
    return [len(people), *by_race(people)]


def origin_table(people: Sequence[tuple[int, ...]]) -> list[int]:
    others = [each for each in people if each[2] == 0]
    return [len(people), len(people) - len(others), len(others), *by_race(others)]


def adults(people: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [each for each in people if each[1] == 1]


def quarters_table(people: Sequence[tuple[int, ...]]) -> list[int]:
    kinds = Counter(kind for kind, *_ in people)
    institutional, others = [kinds[kind] for kind in (1, 2, 3, 4)], [kinds[kind] for kind in (5, 6, 7)]
    return [sum(institutional) + sum(others), sum(institutional), *institutional, sum(others), *others]


def occupancy_table(units: Sequence[tuple[int, ...]]) -> list[int]:
    vacant = sum(unit[0] for unit in units)
    return [len(units), len(units) - vacant, vacant]


COUNTED: dict[str, tuple[str, int, Callable[[Sequence[tuple[int, ...]]], list[int]]]] = {
    "P1": ("persons", 71, race_table),
    "P2": ("persons", 73, origin_table),
    "P3": ("persons", 71, lambda people: race_table(adults(people))),
    "P4": ("persons", 73, lambda people: origin_table(adults(people))),
    "P5": ("persons", 10, quarters_table),
    "H1": ("units", 3, occupancy_table),
}
"""The redistricting tables: the records they count, their number of cells, and the cells."""
