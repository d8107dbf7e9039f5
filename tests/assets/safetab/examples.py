"""Random lists, records and configurations of SafeTab, and datasets in both layouts with these records in their CEF.

All data are small enough that codes repeat, some groups are empty, some groups reach thresholds and others miss them,
and areas cross states.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pyarrow as pa
from hypothesis import strategies as st

from assets.cef.census import RACE_CODES, CensusDeclaration, census_persons, census_units, detailed_files
from assets.release.dataset import DatasetDeclaration
from assets.safetab.release import Counted, SafeTabRelease
from mechanisms.safetab.design import Pair
from mechanisms.safetab.lists import CodeLists, RegionType
from mechanisms.safetab.lists import Iteration as ListedIteration
from resources.statements import Table, Zone
from resources.warehouse import Session
from tests.assets.safetab.oracle import (
    NULL,
    PAIRS,
    Block,
    CensusPerson,
    Configuration,
    Household,
    Iteration,
    Lists,
    Person,
    Unit,
)

TOY = Path(__file__).parents[2] / "data" / "safetab_toy"
"""The twelve vetted cases and their lists."""

CODES = ("1000", "1010", "1020", "2010", "3000", "8080", "9950")
"""The codes of random lists. 9950 never has an iteration."""

STATE_LISTS = (("01",), ("72",), ("01", "02"), ("01", "72"), ("01", "02", "72"))
AGES = (0, 4, 5, 9, 10, 14, 15, 17, 18, 19, 20, 21, 22, 24, 25, 40, 44, 45, 59, 60, 61, 62, 64, 65, 66, 67, 69, 70, 75)
AGES_AND_OLDEST = (*AGES, 74, 79, 80, 84, 85, 115)


@st.composite
def lists(draw: st.DrawFn) -> Lists:
    """Lists that satisfy all rules: codes with several iterations, with none, and iterations without codes."""
    flags = st.sampled_from([(False, False), (False, False), (True, False), (False, True)])
    kinds = draw(st.lists(st.tuples(st.sampled_from([0, 1, 1, 2, 2]), st.sampled_from([True, False, None]), flags)))
    iterations = {}
    for place, (level, alone, (detailed_only, coarse_only)) in enumerate(kinds):
        code = f"{(7 * place + 3) % 97 + 1001}"
        both = (detailed_only, coarse_only) if level else (None, None)
        iterations[code] = Iteration(code, f"iteration {code}", level, alone, *both)
    pairs: set[tuple[str, str]] = set()
    taken: set[tuple[Any, ...]] = set()
    for code in draw(st.lists(st.sampled_from(sorted(iterations)), max_size=40)) if iterations else []:
        iteration = iterations[code]
        for of in draw(st.sets(st.sampled_from(CODES[:-1]), max_size=4)):
            universes = [
                flag for flag in ("detailed_only", "coarse_only") if iteration.level and not getattr(iteration, flag)
            ]
            keys = {(of, iteration.alone, iteration.level, universe) for universe in universes}
            if (code, of) not in pairs and not keys & taken:
                pairs.add((code, of))
                taken |= keys
    return Lists(CODES, iterations, frozenset(pairs))


def toy_lists() -> Lists:
    """The lists of the twelve cases."""
    return Lists.read(TOY)


def counting_release(
    dataset: DatasetDeclaration,
    counted: Counted,
    lists: CodeLists,
    pairs: Collection[Pair],
    states: Sequence[str],
    max_race_codes: int = 8,
) -> SafeTabRelease:
    """A stand-in for a release that measures pairs of a region type and a level, for counting only."""
    order = list(RegionType)
    ordered = tuple(sorted(set(pairs), key=lambda pair: (order.index(pair[0]), pair[1])))
    design = SimpleNamespace(states=states, max_race_codes=max_race_codes)
    release = SimpleNamespace(dataset=dataset, counted=counted, lists=lists, pairs=ordered, design=design)
    return cast(SafeTabRelease, release)


def code_lists(known: Lists) -> CodeLists:
    """The same lists in Stirred's form."""
    listed = [
        ListedIteration(each.code, each.name, each.level, each.alone, each.detailed_only, each.coarse_only)
        for each in known.iterations.values()
    ]
    return CodeLists(
        {code: f"code {code}" for code in known.codes},
        tuple(each for each in listed if each.alone is not None),
        tuple(each for each in listed if each.alone is None),
        tuple(sorted(known.pairs)),
    )


BLOCKS = st.lists(
    st.builds(
        Block,
        st.sampled_from(["01", "01", "02", "44", "72"]),
        st.sampled_from(["001", "003"]),
        st.sampled_from(["000100", "000200"]),
        st.sampled_from(["1000", "1001"]),
        st.sampled_from(["99999", "10000", "10001"]),
        st.sampled_from(["9999", "9999", "0010", "0020"]),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda block: block.key,
)


def races(codes: Sequence[str] = CODES) -> st.SearchStrategy[tuple[str, ...]]:
    """One to eight race codes, mostly few, some of them twice."""
    several = st.lists(st.sampled_from(list(codes)), min_size=1, max_size=3)
    return st.one_of(several, several, st.lists(st.sampled_from(list(codes)), min_size=1, max_size=8)).map(tuple)


def persons(blocks: Sequence[Block], codes: Sequence[str] = CODES) -> st.SearchStrategy[list[Person]]:
    """Persons in the blocks."""
    return st.lists(
        st.builds(
            Person,
            st.sampled_from([block.key for block in blocks]),
            st.sampled_from(AGES_AND_OLDEST),
            st.sampled_from("12"),
            races(codes),
            st.sampled_from(list(codes)),
        ),
        max_size=30,
    )


def households(blocks: Sequence[Block], codes: Sequence[str] = CODES) -> st.SearchStrategy[list[Household]]:
    """Households in the blocks."""
    return st.lists(
        st.builds(
            Household,
            st.sampled_from([block.key for block in blocks]),
            races(codes),
            st.sampled_from(list(codes)),
            st.sampled_from("12345"),
            st.sampled_from("1234"),
        ),
        max_size=30,
    )


@st.composite
def censuses(
    draw: st.DrawFn, blocks: Sequence[Block], codes: Sequence[str] = CODES
) -> tuple[list[Unit], list[CensusPerson]]:
    """Units and persons of the production layout, in which a unit has at most one householder."""
    units = draw(
        st.lists(
            st.tuples(
                st.sampled_from(list(blocks)),
                st.sampled_from("2224"),
                st.sampled_from("01234567"),
                st.sampled_from("1234"),
            ),
            min_size=1,
            max_size=12,
        )
    )
    made = [Unit(100 + place, *unit) for place, unit in enumerate(units)]
    people = draw(
        st.lists(
            st.tuples(
                st.sampled_from([unit.MAFID for unit in made]),
                st.sampled_from(AGES_AND_OLDEST),
                st.sampled_from("12"),
                st.sampled_from(["21", "25", "37"]),
                races(codes),
                st.sampled_from(list(codes)),
            ),
            max_size=25,
        )
    )
    seen: set[int] = set()
    members = []
    for unit, age, sex, relationship, race, ethnicity in people:
        members.append(CensusPerson(unit, age, sex, relationship if unit in seen else "20", race, ethnicity))
        seen.add(unit)
    return made, members


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    """States, measured pairs, thresholds that small groups reach, and numbers of race codes."""
    pairs = st.frozensets(st.sampled_from(PAIRS), min_size=1, max_size=5)
    three = st.lists(st.integers(-2, 9), min_size=3, max_size=3).map(lambda numbers: tuple(sorted(numbers)))
    return Configuration(
        states=draw(st.sampled_from(STATE_LISTS)),
        p=draw(pairs),
        t3=draw(pairs),
        t4=draw(pairs),
        p_thresholds={pair: draw(three) for pair in PAIRS},
        t3_thresholds={pair: draw(three) for pair in PAIRS},
        t4_thresholds={pair: draw(st.integers(-2, 5)) for pair in PAIRS},
        suppression=draw(st.booleans()),
        max_race_codes=draw(st.sampled_from([8, 8, 1, 2, 3])),
    )


# Towns


class Town(NamedTuple):
    """Records of SafeTab's files."""

    blocks: list[Block]
    persons: list[Person]
    households: list[Household]


def town(seed: int, persons: int, lists: Lists, states: Sequence[str] = ("01", "02", "72", "44")) -> Town:
    """A town with twelve blocks in every state, two of them without anyone. A third of the persons are householders.

    Args:
        seed: the same seed gives the same town.
        persons: the number of persons.
        lists: the lists with the records' codes; some codes are far more frequent than others.
        states: FIPS codes.
    """
    random = Random(seed)
    blocks = [
        Block(state, county, tract, block, place, area)
        for state in states
        for county in ("001", "003")
        for tract in ("000100", "000200")
        for block, place, area in (("1000", "10000", "9999"), ("1001", "10001", "0010"), ("1002", "99999", "0020"))
    ]
    inhabited = [block.key for block in blocks if (block.TABBLKCOU, block.TABTRACTCE) != ("003", "000200")]
    codes = random.sample(lists.codes, len(lists.codes))

    def code() -> str:
        return codes[int(len(codes) ** random.random()) - 1]

    def race_codes() -> tuple[str, ...]:
        return tuple(code() for _ in range(random.choice([1, 1, 1, 1, 2, 2, 3, 8])))

    people = [
        Person(random.choice(inhabited), random.randint(0, 115), random.choice("12"), race_codes(), code())
        for _ in range(persons)
    ]
    homes = [
        Household(person.block, person.races, person.QSPAN, random.choice("12345"), random.choice("1234"))
        for person in people[: persons // 3]
    ]
    return Town(blocks, people, homes)


def in_units(made: Town) -> tuple[list[Unit], list[CensusPerson]]:
    """The persons of a town in units of the production layout: three to a unit, in housing units and group quarters.

    Every block has a vacant unit. Codes of units do not fit the persons, because counting does not check consistency.
    """
    at = {block.key: block for block in made.blocks}
    units = [Unit(number, block, "2", "0", "1") for number, block in enumerate(made.blocks)]
    people = []
    for key, block in at.items():
        here = [person for person in made.persons if person.block == key]
        for place, person in enumerate(here):
            if place % 3 == 0:
                number = len(units)
                units.append(Unit(number, block, "2224"[number % 4], str(number % 8), str(number % 3 + 1)))
            relationship = "20" if place % 3 == 0 else "25"
            people.append(
                CensusPerson(units[-1].MAFID, person.QAGE, person.QSEX, relationship, person.races, person.QSPAN)
            )
    return units, people


def deal_out(made: Town, parts: Sequence[str]) -> dict[str, Town]:
    """The town in parts, each with every n-th block and its residents, so that most regions are in several parts."""
    place = {block.key: parts[number % len(parts)] for number, block in enumerate(made.blocks)}
    return {
        part: Town(
            [block for block in made.blocks if place[block.key] == part],
            [person for person in made.persons if place[person.block] == part],
            [home for home in made.households if place[home.block] == part],
        )
        for part in parts
    }


def write_input_files(folder: Path, made: Town) -> None:
    """Write person-records.txt, household-records.txt and GRF-C.txt, with a column in GRF-C that is ignored."""
    place = {block.key: block[:4] for block in made.blocks}

    def codes(record: Person | Household) -> tuple[str, ...]:
        return tuple(_codes(record).values())

    of = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
    files = {
        "person-records.txt": (
            ("QAGE", "QSEX", "HOUSEHOLDER", *of, "CENRACE", *RACE_CODES, "QSPAN"),
            [
                (f"{person.QAGE:03}", person.QSEX, "False", *place[person.block], "01", *codes(person))
                for person in made.persons
            ],
        ),
        "household-records.txt": (
            (*of, "HHRACE", *RACE_CODES, "QSPAN", "HOUSEHOLD_TYPE", "TEN"),
            [(*place[home.block], "01", *codes(home), home.HOUSEHOLD_TYPE, home.TEN) for home in made.households],
        ),
        "GRF-C.txt": ((*Block._fields, "OTHER"), [(*block, "x") for block in made.blocks]),
    }
    for name, (header, rows) in files.items():
        lines = ["|".join(row) for row in (header, *rows)]
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


# Datasets

PLACE_NAMES = {"1": "Not the nation", "01": "Østlandet"}
"""A code may have a name that is not a SafeTab region's: `1` may be a place of a redistricting spine."""

_DECLARED: dict[str, Any] = {"title": "A town", "cap": 100, "place_names": PLACE_NAMES}


def of_files(name: str = "files", with_households: bool = True) -> DatasetDeclaration:
    """A dataset of SafeTab's files; there are no files."""
    return detailed_files(
        "GRF-C.txt", "persons.txt", "households.txt" if with_households else None, name=name, **_DECLARED
    )


def of_production(name: str = "production") -> DatasetDeclaration:
    """A dataset in the production layout with detailed codes; there are no files."""
    return CensusDeclaration(
        name=name,
        reader="csv",
        units=census_units("units.csv", "geo.csv"),
        persons=census_persons("persons.csv", detailed_codes=True),
        **_DECLARED,
    )


def write_files(
    session: Session,
    dataset: DatasetDeclaration,
    blocks: Sequence[Block],
    people: Sequence[Person],
    homes: Sequence[Household] = (),
) -> None:
    """Write the columns that are counted as the CEF of a dataset of SafeTab's files."""
    _write(session, dataset, "units", [{"BLOCK": block.key, **block._asdict()} for block in blocks])
    _write(
        session,
        dataset,
        "persons",
        [{"BLOCK": each.block, "QAGE": each.QAGE, "QSEX": each.QSEX, **_codes(each)} for each in people],
    )
    _write(
        session,
        dataset,
        "households",
        [
            {"BLOCK": each.block, "HOUSEHOLD_TYPE": each.HOUSEHOLD_TYPE, "TEN": each.TEN, **_codes(each)}
            for each in homes
        ],
    )


def write_production(
    session: Session, dataset: DatasetDeclaration, units: Sequence[Unit], people: Sequence[CensusPerson]
) -> None:
    """Write the columns that are counted as the CEF of a dataset in the production layout."""
    _write(
        session,
        dataset,
        "units",
        [
            {"MAFID": unit.MAFID, "RTYPE": unit.RTYPE, "HHT": unit.HHT, "TEN": unit.TEN, **unit.block._asdict()}
            for unit in units
        ],
    )
    _write(
        session,
        dataset,
        "persons",
        [
            {
                **{"MAFID": each.MAFID, "QAGE": each.QAGE, "QSEX": each.QSEX, "RELSHIP": each.RELSHIP},
                **_codes(each),
            }
            for each in people
        ],
    )


def _codes(record: Person | Household | CensusPerson) -> dict[str, str]:
    padded = (*record.races, *[NULL] * len(RACE_CODES))
    return {**dict(zip(RACE_CODES, padded, strict=False)), "QSPAN": record.QSPAN}


def _write(session: Session, dataset: DatasetDeclaration, table: str, records: list[dict[str, Any]]) -> None:
    columns = {
        "units": ["BLOCK", "MAFID", "RTYPE", "HHT", "TEN", *Block._fields],
        "persons": ["BLOCK", "MAFID", "QAGE", "QSEX", "RELSHIP", *RACE_CODES, "QSPAN"],
        "households": ["BLOCK", "HOUSEHOLD_TYPE", "TEN", *RACE_CODES, "QSPAN"],
    }[table]
    integers = {"MAFID", "QAGE"}
    made = pa.table(
        {
            name: pa.array([record.get(name) for record in records], pa.int64() if name in integers else pa.string())
            for name in columns
            if not records or name in records[0]
        }
    )
    session.create(
        Table(Zone.CONFIDENTIAL, dataset.name, table), "warehouse/all", source=session.register("records", made)
    )
