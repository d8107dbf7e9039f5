"""The columns of the DHC as an option of the census layout: the checks of the columns, and the codes of records.

The codes of random households, however unlikely, are those that plain Python finds.
"""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

import stirred
from assets.cef.census import DHC_UNIT_COLUMNS, UNIT_COLUMNS
from assets.cef.dhc import register_codes
from assets.cef.ingestion import ingest
from assets.cef.sample import main
from assets.cef.synthetic import SyntheticPopulation, synthetic_census, write
from assets.cef.validation import structure_findings, structure_offenders
from mechanisms.topdown.dhc.allocation import count_times
from mechanisms.topdown.dhc.households import TYPES, Children, Couple, HouseholdType
from mechanisms.topdown.dhc.passes import PERSON_PLAN, list_queries
from mechanisms.topdown.dhc.persons import MAJOR_TYPE, QUARTERS, REDISTRICTING
from orchestration.components import CensusDataset
from resources.statements import Zone
from resources.warehouse import Session, Warehouse
from stirred import dhc
from tests.assets.cef.test_synthetic import VERSION_KEY, make_census
from tests.depth import deep_cases, quick_cases

COUPLES = {21: Couple.OPPOSITE_SEX_MARRIED, 22: Couple.OPPOSITE_SEX_COHABITING, 23: Couple.SAME_SEX_MARRIED,
           24: Couple.SAME_SEX_COHABITING}  # fmt: skip
OF_DHC = ("quarters_level", "vacancy", "couple_sex", "possible_age", "possible_type", "possible_household")
POSSIBLE = {schema.name: schema.possible for schema in (dhc.PERSONS, dhc.HOUSEHOLDS)}


def population(households: int, *states: str, **options: bool) -> SyntheticPopulation:
    return SyntheticPopulation(seed=7, households=households, states=list(states or ("01", "02")), **options)


def draw_records(random: np.random.Generator) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Units and their persons, of any relationships, ages, types and vacancies, with one householder and at most one
    spouse or partner."""
    for mafid in range(3000):
        kind = random.choice(["household", "vacant", "quarters"], p=[0.8, 0.1, 0.1])
        number = {"household": int(random.integers(1, 10)), "vacant": 0, "quarters": int(random.integers(0, 4))}[kind]
        facility = f"{random.choice(QUARTERS)}" if kind == "quarters" else "000"
        relations = random.integers(25, 37, number)
        if kind == "quarters":
            relations[:] = 37
        elif number:
            relations[0] = 20
        if kind == "household" and number > 1 and random.random() < 0.5:
            relations[1] = random.integers(21, 25)
        ages = random.integers(0, 116, number) // random.choice([1, 3, 8], number)
        ages[:1] = np.maximum(ages[:1], random.integers(13, 20))
        unit = {
            "MAFID": mafid, "RTYPE": "4" if kind == "quarters" else "2", "FINAL_POP": number,
            "TEN": str(random.integers(1, 5)) if kind == "household" else "0",
            "VACS": str(random.integers(0, 8)), "GQTYPE": str(random.integers(0, 8)), "GQTYPE3": facility,
        }  # fmt: skip
        persons = [
            {"MAFID": mafid, "RELSHIP": str(relation), "QAGE": int(age), "QSEX": str(random.integers(1, 3)),
             "CENHISP": str(random.integers(1, 3)), "CENRACE": f"{random.integers(1, 64):02}"}
            for relation, age in zip(relations, ages, strict=True)
        ]  # fmt: skip
        if kind == "household":
            unit |= {"HHSPAN": persons[0]["CENHISP"], "HHRACE": persons[0]["CENRACE"]}
        yield unit, persons


@cache
def records() -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Drawn in the tests that need them, not in every process that reads this file."""
    return list(draw_records(np.random.default_rng(5)))


def code_person(unit: dict[str, Any], person: dict[str, Any]) -> tuple[int, ...]:
    relation = int(person["RELSHIP"])
    if unit["RTYPE"] == "4":
        relgq = 18 + QUARTERS.index(int(unit["GQTYPE3"]))
    elif relation == 20:
        relgq = 0 if unit["FINAL_POP"] == 1 else 1
    else:
        relgq = relation - 19
    race = int(person["CENRACE"]) - 1
    return relgq, int(person["QSEX"]) - 1, person["QAGE"], int(person["CENHISP"]) - 1, race


def test_a_move_changes_the_codes_of_householders_who_live_alone() -> None:
    """Each query counts exactly as often as a child's move to a person who lived alone requires. Wrong program: counts
    each query once, as if only the child's record changed."""
    left, joined = ({"MAFID": mafid, "RTYPE": "2"} for mafid in range(2))
    child: dict[str, Any] = {"RELSHIP": "25", "QAGE": 9, "QSEX": "1", "CENHISP": "1", "CENRACE": "01"}
    parent, other = ({**child, "RELSHIP": "20", "QAGE": age} for age in (40, 70))
    before = [(left, 2, parent), (left, 2, child), (joined, 1, other)]
    after = [(left, 1, parent), (joined, 2, {**child, "RELSHIP": "31"}), (joined, 2, other)]
    places = np.array([[unit["MAFID"] for unit, _, _ in records] for records in (before, after)])
    cells = np.array(
        [
            [find_cell(dhc.PERSONS, code_person({**unit, "FINAL_POP": size}, person)) for unit, size, person in records]
            for records in (before, after)
        ]
    )
    for query in list_queries(PERSON_PLAN):
        marginal = dhc.PERSONS.marginal(query)
        counted = [
            Counter(zip(own.tolist(), marginal.find(of).tolist(), strict=True))
            for own, of in zip(places, cells, strict=True)
        ]
        counted[0].subtract(counted[1])
        assert sum(change**2 for change in counted[0].values()) == 2 * count_times(dhc.PERSONS, query), query


def code_children(ages: list[int]) -> Children:
    young, older = any(age < 6 for age in ages), any(6 <= age < 18 for age in ages)
    return {(0, 0): Children.NONE, (1, 0): Children.UNDER_6, (0, 1): Children.FROM_6, (1, 1): Children.BOTH}[
        young, older
    ]


def code_household(unit: dict[str, Any], persons: list[dict[str, Any]]) -> tuple[int, ...]:
    ages = [(int(person["RELSHIP"]), person["QAGE"]) for person in persons]
    relations = {relation for relation, _ in ages}
    householder = persons[0]
    couple = next((COUPLES[relation] for relation in relations if relation in COUPLES), Couple.NONE)
    kind = HouseholdType(
        min(len(persons), 7),
        bool(relations & {25, 26, 27}) and bool(relations & {29, 30, 31}),
        couple,
        bool(relations & {21, 23, *range(25, 34)}),
        code_children([age for relation, age in ages if relation in (25, 26, 27)]),
        code_children([age for relation, age in ages if relation not in (20, 21, 22, 23, 24)]),
        any(age < 18 for _, age in ages),
    )
    age, oldest = householder["QAGE"], max(age for _, age in ages)
    race = min(int(householder["CENRACE"]), 7) - 1
    tenure = {"1": 0, "2": 1, "3": 2, "4": 2}[unit["TEN"]]
    number = TYPES.index(kind) if kind in TYPES else -1
    hhage = sum(first <= age for first in (15, 25, 35, 45, 55, 60, 65, 75, 85)) - 1
    elderly = sum(first <= oldest for first in (60, 65, 75))
    return int(householder["QSEX"]) - 1, hhage, int(householder["CENHISP"]) - 1, race, elderly, tenure, number


def code_unit(unit: dict[str, Any]) -> int:
    if unit["RTYPE"] == "4":
        return 11 + QUARTERS.index(int(unit["GQTYPE3"]))
    return int(unit["TEN"]) - 1 if unit["TEN"] != "0" else int(unit["VACS"]) + 3


def find_cell(schema: Any, codes: tuple[int, ...]) -> int:
    return int(np.ravel_multi_index(codes, [attribute.size for attribute in schema.attributes]))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Warehouse(folder=str(tmp_path_factory.mktemp("random"))).session(writes=Zone.CONFIDENTIAL) as session:
        units = [{**dict.fromkeys(UNIT_COLUMNS, "0"), "NPF": 0, **unit} for unit, _ in records()]
        persons = [{**person, "PERSON_RTYPE": "3"} for _, of_unit in records() for person in of_unit]
        declaration = synthetic_census(population(2, dhc=True), name="random", cap=1)
        for table, rows in zip(declaration.cef_tables(), (units, persons), strict=True):
            session.create(table, "warehouse/all", source=session.register("rows", pa.Table.from_pylist(rows)))
        yield session


def code(session: Session, statement: str) -> list[tuple[int, ...]]:
    declaration = synthetic_census(population(2, dhc=True), name="random", cap=1)
    units, persons = declaration.cef_tables()
    names = {"units": units, "persons": persons, "carried": ["MAFID"], **register_codes(session)}
    return sorted(session.rows(statement, **names))


def test_every_record_has_the_codes_that_plain_python_finds(session: Session) -> None:
    persons = [(unit["MAFID"], *code_person(unit, person)) for unit, own in records() for person in own]
    assert code(session, "dhc/persons") == sorted(persons)
    households = [(unit["MAFID"], *code_household(unit, own)) for unit, own in records() if unit["TEN"] != "0"]
    found = [tuple(-1 if part is None else part for part in row) for row in code(session, "dhc/households")]
    assert found == sorted(households)
    assert len({row[-1] for row in households}) > 150
    units = [(unit["MAFID"], code_unit(unit)) for unit, own in records() if unit["RTYPE"] == "2" or own]
    assert code(session, "dhc/units") == sorted(units)
    assert len({each for _, each in units}) > 30


def test_each_rule_counts_its_offenders(session: Session) -> None:
    declaration = synthetic_census(population(2, dhc=True), name="random", cap=1)
    offenders = structure_offenders(session, declaration)
    rules = declaration.structure.select_rules({"GQTYPE", "QSEX", "VACS", "GQTYPE3"})
    found = {name: offenders[rules[name]] for name in OF_DHC}
    expected = Counter[str]()
    for unit, persons in records():
        kinds = {0: 0, **dict(zip(QUARTERS, MAJOR_TYPE[1:], strict=True))}
        expected["quarters_level"] += unit["GQTYPE"] != str(kinds[int(unit["GQTYPE3"])])
        vacant = unit["RTYPE"] == "2" and not persons
        expected["vacancy"] += (unit["VACS"] != "0") != vacant
        for person in persons:
            expected["possible_age"] += not POSSIBLE["persons"][find_cell(dhc.PERSONS, code_person(unit, person))]
            if person["RELSHIP"] in ("21", "22"):
                expected["couple_sex"] += person["QSEX"] == persons[0]["QSEX"]
            if person["RELSHIP"] in ("23", "24"):
                expected["couple_sex"] += person["QSEX"] != persons[0]["QSEX"]
        if unit["TEN"] != "0":
            codes = code_household(unit, persons)
            expected["possible_type"] += codes[-1] < 0
            if min(codes) >= 0:
                cell = find_cell(dhc.HOUSEHOLDS, codes)
                expected["possible_household"] += not POSSIBLE["households"][cell]
    assert found == dict(expected)
    assert min(found.values()) > 0


def equal(one: pd.DataFrame, other: pd.DataFrame, columns: pd.DataFrame) -> bool:
    """Whether two tables have the same records by some columns, in any order."""
    names = list(columns.columns)
    return bool((one[names].sort_values(names).to_numpy() == other[names].sort_values(names).to_numpy()).all())


@pytest.mark.prove
def test_a_synthetic_census_has_the_columns_and_else_only_other_ages_in_some_group_quarters(tmp_path: Path) -> None:
    version, units, persons = make_census(tmp_path / "dhc", population(6000, dhc=True))
    plain_version, plain_units, plain_persons = make_census(tmp_path / "plain", population(6000))
    _, detailed_units, detailed_persons = make_census(
        tmp_path / "both", population(6000, dhc=True, detailed_codes=True)
    )
    assert version != plain_version
    assert set(units) - set(plain_units) == set(DHC_UNIT_COLUMNS)
    assert set(persons) - set(plain_persons) == {"QSEX"}
    assert equal(units, plain_units, plain_units)
    assert equal(detailed_units, units, units.drop(columns="AIANNHCE"))
    assert equal(detailed_persons, persons, persons)
    assert equal(persons, plain_persons, plain_persons.drop(columns="QAGE"))
    housed = [each[each["PERSON_RTYPE"] == "3"] for each in (persons, plain_persons)]
    assert equal(*housed, plain_persons)
    # Figures of a run. If they change, increase `CODE_VERSION` of the CEF.
    assert version == "aa7186fbfaae2de6df09f3cc84458199db927ac8ca71c9a85b1ea13e488208ab"


@pytest.mark.prove
def test_a_large_synthetic_census_has_every_type_of_group_quarters_and_most_households(tmp_path: Path) -> None:
    """`make_census` checks that no record is impossible."""
    _, units, persons = make_census(tmp_path, population(300_000, dhc=True))
    assert set(units["GQTYPE3"]) == {"000", *map(str, QUARTERS)}
    assert set(units["VACS"]) == set("01234567")
    assert persons["QAGE"].nunique() > 100
    assert 0.46 < (persons["QSEX"] == "1").mean() < 0.51


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("codes", [False, True])
def test_files_with_the_columns_give_the_same_census(tmp_path: Path, codes: bool) -> None:
    census = synthetic_census(population(60, "44", dhc=True, detailed_codes=codes), name="census", cap=1)
    options = ["--dhc", *(["--detailed-codes"] if codes else [])]
    main([str(tmp_path), "--households", "60", "--states", "44", "--seed", "7", *options])
    declared = {"name": "census", "title": "t", "cap": 1, "format": "csv", "dhc": True, "detailed_codes": codes}
    declared |= {name: f"{name}.csv" for name in ("persons", "units", "geo")}
    declaration = CensusDataset.resolve_from_yaml(yaml.safe_dump(declared)).declaration
    with Warehouse(folder=str(tmp_path)).session(writes=Zone.CONFIDENTIAL) as session:
        write(session, census)
        version = session.content_version(census.cef_tables())
        ingest(session, declaration, tmp_path, VERSION_KEY)
        assert session.content_version(declaration.cef_tables()) == version
        assert structure_findings(structure_offenders(session, declaration)) == []


@pytest.mark.prove
def test_the_algorithm_takes_the_codes_of_a_synthetic_census(tmp_path: Path) -> None:
    declaration = synthetic_census(population(40, "44", dhc=True), name="census", cap=1)
    with Warehouse(folder=str(tmp_path)).session(writes=Zone.CONFIDENTIAL) as session:
        write(session, declaration)
        units, persons = declaration.cef_tables()
        names = {"units": units, "persons": persons, "carried": ["TABBLK"], **register_codes(session)}
        coded = {name: session.arrow(f"dhc/{name}", **names).to_pandas() for name in ("persons", "households", "units")}
    blocks = sorted(set(coded["units"].TABBLK))
    for frame in coded.values():
        frame["block"] = frame.TABBLK.map(blocks.index)
    tree = {"State": [0], "Block": [0] * len(blocks)}
    assert len(coded["households"]) == 40
    held = np.zeros((len(blocks), 2016), dtype=np.int64)
    cells = dhc.PERSONS.marginal(REDISTRICTING).find(
        np.array(
            [
                find_cell(dhc.PERSONS, row)
                for row in coded["persons"][[each.name for each in dhc.PERSONS.attributes]].itertuples(index=False)
            ]
        )
    )
    np.add.at(held, (coded["persons"].block, cells), 1)
    occupied = coded["units"].tenvacgq < 4
    published = np.array(
        [
            [((coded["units"].block == block) & (occupied == each)).sum() for each in (True, False)]
            for block in range(len(blocks))
        ]
    )
    allocations = [
        divide(schema, allocation)
        for schema, allocation in (
            (dhc.PERSONS, dhc.PERSON_ALLOCATION),
            (dhc.UNITS, dhc.UNIT_ALLOCATION),
            (dhc.HOUSEHOLDS, dhc.HOUSEHOLD_ALLOCATION),
        )
    ]
    randomness = stirred.random.from_key(bytes(range(32)))
    of_persons = dhc.measure_persons(
        tree,
        coded["persons"],
        held,
        np.zeros((len(blocks), 24), dtype=np.int64),
        allocation=allocations[0],
        randomness=randomness,
    )
    of_homes = dhc.measure_homes(
        tree,
        coded["units"],
        coded["households"],
        published,
        unit_allocation=allocations[1],
        household_allocation=allocations[2],
        randomness=randomness,
    )
    assert of_persons.table("persons", "State")["count"].sum() == len(coded["persons"])
    assert of_homes.table("households", "State")["count"].sum() == 40


def divide(schema: Any, allocation: dhc.Allocation) -> dhc.Allocation:
    """Production's State and Block levels."""
    parts = {
        level: [Fraction(allocation.part(level, query).rho * 10_000) for query in allocation.queries["Block"]]
        for level in ("State", "Block")
    }
    return dhc.divide(schema, list(allocation.queries["Block"]), parts)
