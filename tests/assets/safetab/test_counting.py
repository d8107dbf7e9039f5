"""Codes to iterations, exact counts and regions, against the twelve vetted cases and the oracle."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assets.release.dataset import DatasetDeclaration
from assets.safetab.counting import (
    COUNT_COLUMNS,
    REGION_COLUMNS,
    RecordsError,
    counts_recipe,
    regions_recipe,
    require_countable_records,
    require_households_in_groups,
)
from assets.safetab.lists import PRODUCTION
from assets.safetab.release import Counted, SafeTabRelease, columns_read
from mechanisms.safetab.design import Pair
from mechanisms.safetab.lists import RegionType
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse
from tests.assets.safetab import examples, oracle
from tests.assets.safetab.oracle import PAIRS, TYPES, Block, CensusPerson, Configuration, Household, Lists, Person, Unit
from tests.depth import deep_but, deep_cases, quick_cases
from tests.depth import examples as examples_tried

COUNTS = Table(Zone.CONFIDENTIAL, "release", "counts")
FILES, PRODUCTION_LAYOUT = examples.of_files(), examples.of_production()
TOY = examples.toy_lists()
HERE = Block("01")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("warehouse")
    with Warehouse(folder=str(folder), threads=2).session(writes=Zone.CONFIDENTIAL) as opened:
        yield opened


def counts(
    session: Session,
    dataset: DatasetDeclaration,
    counted: Counted,
    lists: Lists,
    configuration: Configuration,
    measured: Collection[tuple[str, int]],
    groups: Sequence[tuple[str, str, str]] | None = None,
) -> dict[tuple[Any, ...], int]:
    """The counts as Stirred makes them; no cell may occur twice, or be 0."""
    named = None
    if groups is not None:
        columns = ("region_type", "region_id", "iteration_code")
        arrays = [pa.array([group[place] for group in groups], pa.string()) for place in range(3)]
        # Tables of groups have columns of their own, whose names may equal names of columns in the statement.
        others = {name: pa.array(range(len(groups))) for name in ("number", "level", "member", "cell", "count")}
        named = session.register("groups", pa.table({**dict(zip(columns, arrays, strict=True)), **others}))
    pairs = [(RegionType(region_type), level) for region_type, level in measured]
    release = examples.counting_release(
        dataset, counted, examples.code_lists(lists), pairs, configuration.states, configuration.max_race_codes
    )
    name, values, names = counts_recipe(session, release, named)
    session.create(COUNTS, name, values, **names)
    assert session.columns(COUNTS) == dict(
        zip(COUNT_COLUMNS, ("VARCHAR", "UTINYINT", "VARCHAR", "VARCHAR", "UTINYINT", "BIGINT"), strict=True)
    )
    rows = session.rows("warehouse/all", source=COUNTS)
    found = {row[:-1]: row[-1] for row in rows}
    assert len(found) == len(rows)
    assert rows == sorted(rows, key=lambda row: (TYPES.index(row[0]), *row[1:]))
    assert all(found.values())
    return found


def listed(
    session: Session, dataset: DatasetDeclaration, types: Collection[str], states: Sequence[str]
) -> list[tuple[str, int, str]]:
    """The regions as Stirred makes them, in order."""
    target = Table(Zone.CONFIDENTIAL, "release", "regions")
    pairs = [(RegionType(region_type), 1) for region_type in types]
    release = examples.counting_release(dataset, Counted.PERSONS, examples.code_lists(TOY), pairs, states)
    name, values, names = regions_recipe(session, release)
    session.create(target, name, values, **names)
    assert session.columns(target) == dict(zip(REGION_COLUMNS, ("VARCHAR", "INTEGER", "VARCHAR"), strict=True))
    return session.rows("warehouse/all", source=target)


# The vetted cases


def cases() -> list[tuple[tuple[str, ...], str, set[str], set[str]]]:
    """Race codes, ethnicity code, and iterations in the detailed and coarse universes."""
    lines = (examples.TOY / "codes_to_iterations_cases.txt").read_text().splitlines()[1:]
    split = [line.split("|") for line in lines]
    return [
        (tuple(races.split(",")), ethnicity, set(detailed.split(",")), set(coarse.split(",")))
        for races, ethnicity, detailed, coarse in split
    ]


def test_the_twelve_vetted_cases_are_told_alike_by_the_oracle() -> None:
    assert len(cases()) == 12
    for races, ethnicity, detailed, coarse in cases():
        for region_type, expected in (("STATE", detailed), ("TRACT", coarse)):
            found = [TOY.of_record(races, ethnicity, region_type, level) for level in (1, 2)]
            assert set.union(*found) == expected


def test_the_twelve_vetted_cases_are_counted_alike_by_the_sql(session: Session) -> None:
    # One state for each case, so that a state's groups are one person's.
    blocks = [Block(f"{number:02}", f"{number:03}") for number in (1, 2, 4, 5, 6, 8, 9, 10, 11, 12, 13, 15)]
    people = [
        Person(block.key, 30, "2", races, ethnicity)
        for block, (races, ethnicity, _, _) in zip(blocks, cases(), strict=True)
    ]
    examples.write_files(session, FILES, blocks, people)
    everywhere = Configuration(states=tuple(block.TABBLKST for block in blocks))
    measured = [(kind, level) for kind in ("STATE", "COUNTY") for level in (1, 2)]
    found = counts(session, FILES, Counted.PERSONS, TOY, everywhere, measured)
    for block, (_, _, detailed, coarse) in zip(blocks, cases(), strict=True):
        for region_type, expected in (("STATE", detailed), ("COUNTY", coarse)):
            region = oracle.regions_of(block)[region_type]
            assert {code for kind, _, at, code, _ in found if (kind, at) == (region_type, region)} == expected
    assert set(found.values()) <= set(range(1, 13))


def test_the_production_lists_give_the_iterations_that_the_specification_names(session: Session) -> None:
    lists = Lists.read(PRODUCTION)
    named = {
        "01": (("1010",), 2, {"1003", "1114"}),
        "02": (("1010", "1015"), 2, {"1114", "1115"}),
        "04": (("1010", "1015"), 1, {"1002", "1113"}),
        "05": (("1000", "1010"), 1, {"1113", "1211"}),
    }
    blocks = [Block(state) for state in named]
    people = [Person(block.key, races=named[block.TABBLKST][0]) for block in blocks]
    examples.write_files(session, FILES, blocks, people)
    found = counts(
        session, FILES, Counted.PERSONS, lists, Configuration(states=tuple(named)), [("STATE", 1), ("STATE", 2)]
    )
    for state, (races, level, expected) in named.items():
        assert lists.of_record(races, "9950", "STATE", level) == expected
        assert {code for _, at_level, region, code, _ in found if (at_level, region) == (level, state)} == expected


# Against the oracle

FEW = settings(max_examples=examples_tried(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
MANY = settings(FEW, max_examples=examples_tried(150))


def check_files(session: Session, data: st.DataObject) -> None:
    """Persons and households of SafeTab's files, with random lists or those of the vetted cases."""
    lists = data.draw(st.one_of(examples.lists(), st.just(TOY)))
    blocks = data.draw(examples.BLOCKS)
    people = data.draw(examples.persons(blocks, lists.codes))
    homes = data.draw(examples.households(blocks, lists.codes))
    configuration = data.draw(examples.configurations())
    examples.write_files(session, FILES, blocks, people, homes)
    check_counts(session, FILES, lists, configuration, blocks, people, homes)
    expected = oracle.regions(blocks, configuration.states)
    types = {region_type for region_type, _ in configuration.p}
    assert listed(session, FILES, types, configuration.states) == [
        (region_type, number, region_id)
        for region_type in TYPES
        if region_type in types
        for number, region_id in enumerate(expected[region_type])
    ]


def check_production(session: Session, data: st.DataObject) -> None:
    """Persons and households of the production layout."""
    lists = data.draw(st.one_of(examples.lists(), st.just(TOY)))
    units, people = data.draw(examples.censuses(data.draw(examples.BLOCKS), lists.codes))
    configuration = data.draw(examples.configurations())
    examples.write_production(session, PRODUCTION_LAYOUT, units, people)
    blocks, alike, homes = oracle.from_production(units, people)
    check_counts(session, PRODUCTION_LAYOUT, lists, configuration, blocks, alike, homes)


def check_counts(
    session: Session,
    dataset: DatasetDeclaration,
    lists: Lists,
    configuration: Configuration,
    blocks: Sequence[Block],
    people: Sequence[Person],
    homes: Sequence[Household],
) -> None:
    expected = oracle.exact_counts(people, blocks, lists, configuration)
    assert counts(session, dataset, Counted.PERSONS, lists, configuration, configuration.p) == expected
    # A third of the groups with a total are published by P, and so is a group that is not in the universe.
    totals = oracle.safetab_p(people, blocks, lists, configuration)["t1"][::3]
    groups = [(str(kind), str(region), str(code)) for region, kind, code, _ in totals] + [("STATE", "01", "9999")]
    measured = configuration.t3 | configuration.t4
    expected = oracle.exact_counts(homes, blocks, lists, configuration, measured)
    found = counts(session, dataset, Counted.HOUSEHOLDS, lists, configuration, measured, groups)
    assert found == {key: count for key, count in expected.items() if (key[0], key[2], key[3]) in groups}


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize("most", deep_but([2], [8, 3, 2, 1]))
def test_towns_are_counted_as_the_oracle_counts(session: Session, most: int) -> None:
    town = examples.town(seed=most, persons=200, lists=TOY)
    configuration = Configuration(states=("01", "02", "72"), max_race_codes=most)
    examples.write_files(session, FILES, town.blocks, town.persons, town.households)
    check_counts(session, FILES, TOY, configuration, town.blocks, town.persons, town.households)
    units, people = examples.in_units(town)
    examples.write_production(session, PRODUCTION_LAYOUT, units, people)
    blocks, alike, homes = oracle.from_production(units, people)
    assert sorted(alike) == sorted(town.persons)
    assert len(homes) > 30
    check_counts(session, PRODUCTION_LAYOUT, TOY, configuration, blocks, alike, homes)


@pytest.mark.prove
@FEW
@given(st.data())
def test_records_of_safetabs_files_are_counted_as_the_oracle_counts(session: Session, data: st.DataObject) -> None:
    check_files(session, data)


@pytest.mark.prove
@MANY
@given(st.data())
def test_many_records_of_safetabs_files_are_counted_as_the_oracle_counts(session: Session, data: st.DataObject) -> None:
    check_files(session, data)


@pytest.mark.prove
@MANY
@given(st.data())
def test_records_of_the_production_layout_are_counted_as_the_oracle_counts(
    session: Session, data: st.DataObject
) -> None:
    check_production(session, data)


# Corners


def of_person(
    session: Session,
    races: tuple[str, ...],
    ethnicity: str = "1000",
    most: int = 8,
    block: Block = HERE,
    measured: Collection[tuple[str, int]] = (("USA", 1), ("USA", 2), ("COUNTY", 1), ("COUNTY", 2)),
) -> set[tuple[str, str, str]]:
    """Region type, region and iteration of the groups of one person, with the lists of the vetted cases."""
    examples.write_files(session, FILES, [block], [Person(block.key, 40, "1", races, ethnicity)])
    configuration = Configuration(states=("01", "02", "72"), max_race_codes=most)
    found = counts(session, FILES, Counted.PERSONS, TOY, configuration, measured)
    assert set(found.values()) <= {1}
    return {(kind, region, code) for kind, _, region, code, _ in found}


def test_a_repeated_code_counts_once(session: Session) -> None:
    assert of_person(session, ("1010", "1010", "1010")) == of_person(session, ("1010",))


def test_a_code_without_an_iteration_leaves_nothing_alone(session: Session) -> None:
    # 2000 has no iteration. In combination, the other code still counts.
    codes = {code for _, _, code in of_person(session, ("1010", "2000"))}
    assert codes == {"1130", "1140"}
    assert of_person(session, ("2000",)) == set()


def test_a_code_without_an_alone_iteration_in_the_universe_leaves_none_there(session: Session) -> None:
    # 4001 Alsatian alone is for the nation and states only, 7000 Other European alone below the state only.
    found = of_person(session, ("1020",))
    assert {code for kind, _, code in found if kind == "USA"} == {"2001", "4001", "1130", "1150"}
    assert {code for kind, _, code in found if kind == "COUNTY"} == {"2001", "7000", "1130", "1810"}


def test_only_the_first_race_codes_count(session: Session) -> None:
    assert of_person(session, ("1010", "7030"), most=1) == of_person(session, ("1010",))
    assert of_person(session, ("1010", "7030"), most=2) == of_person(session, ("1010", "7030"))


def test_a_code_counts_as_race_or_ethnicity_by_its_column(session: Session) -> None:
    assert {code for _, _, code in of_person(session, ("2020",))} == set()
    assert {code for _, _, code in of_person(session, ("2000",), "2020")} == {"3010", "3011"}
    assert of_person(session, ("1010",), "1010") == of_person(session, ("1010",))


def test_an_area_that_crosses_states_is_one_region_and_a_place_is_two(session: Session) -> None:
    blocks = [Block("01", PLACEFP="10000", AIANNHCE="0010"), Block("02", PLACEFP="10000", AIANNHCE="0010")]
    examples.write_files(session, FILES, blocks, [Person(block.key) for block in blocks])
    found = counts(session, FILES, Counted.PERSONS, TOY, Configuration(), [("AIANNH", 1), ("PLACE", 1)])
    assert {(kind, region, count) for (kind, _, region, _, _), count in found.items()} == {
        ("AIANNH", "0010", 2),
        ("PLACE", "0110000", 1),
        ("PLACE", "0210000", 1),
    }


def test_a_block_in_no_place_and_no_area_is_in_no_such_region(session: Session) -> None:
    assert {kind for kind, _, _ in of_person(session, ("1010",), measured=PAIRS)} == {"USA", "STATE", "COUNTY", "TRACT"}
    assert listed(session, FILES, ["PLACE", "AIANNH", "STATE"], ["01"]) == [("STATE", 0, "01")]


def test_puerto_rico_is_in_its_own_region_types_only(session: Session) -> None:
    found = of_person(session, ("1010",), block=Block("72", PLACEFP="10000", AIANNHCE="0010"), measured=PAIRS)
    assert {(kind, region) for kind, region, _ in found} == {
        ("PR-STATE", "72"),
        ("PR-COUNTY", "72001"),
        ("PR-TRACT", "72001000100"),
        ("PR-PLACE", "7210000"),
    }


def test_regions_are_those_with_a_unit_whether_anyone_lives_there_or_not(session: Session) -> None:
    vacant = Unit(1, Block("01", "003"), HHT="0", TEN="1")
    examples.write_production(session, PRODUCTION_LAYOUT, [vacant, Unit(2, Block("01", "001"))], [CensusPerson(2)])
    assert listed(session, PRODUCTION_LAYOUT, ["COUNTY"], ["01"]) == [("COUNTY", 0, "01001"), ("COUNTY", 1, "01003")]


# Refusals


def refuse(
    session: Session,
    dataset: DatasetDeclaration,
    counted: Counted = Counted.PERSONS,
    states: Sequence[str] = ("01",),
) -> str:
    """The sentence with which records are refused; empty if they are accepted."""
    try:
        release = examples.counting_release(dataset, counted, examples.code_lists(TOY), [], states)
        require_countable_records(session, release)
    except RecordsError as error:
        return str(error)
    return ""


def test_codes_that_are_not_in_the_list_are_refused_by_column_without_their_values(session: Session) -> None:
    block = Block()
    people = [
        Person(block.key, races=("1010",), QSPAN="1000"),
        Person(block.key, races=("1010", "6789"), QSPAN="1000"),
        Person(block.key, races=("1010", "6788"), QSPAN="1000"),
        Person(block.key, races=("1010",) * 7 + ("6789",), QSPAN="6789"),
    ]
    examples.write_files(session, FILES, [block], people[:1])
    assert refuse(session, FILES) == ""
    examples.write_files(session, FILES, [block], people)
    found = refuse(session, FILES)
    file = "race-and-ethnicity-codes.txt"
    assert found == (
        f"files: persons: QRACE2: a code is not in {file}: 2 records; "
        f"persons: QRACE8: a code is not in {file}: 1 record; persons: QSPAN: a code is not in {file}: 1 record"
    )


def test_null_is_no_first_race_code_and_no_ethnicity(session: Session) -> None:
    block = Block()
    examples.write_files(session, FILES, [block], [Person(block.key, races=("Null",), QSPAN="Null")])
    assert "QRACE1" in refuse(session, FILES)
    assert "QSPAN" in refuse(session, FILES)


def test_codes_of_households_are_checked_where_households_are_counted(session: Session) -> None:
    block = Block()
    people, homes = [Person(block.key, QSPAN="1000")], [Household(block.key, races=("6789",), QSPAN="1000")]
    examples.write_files(session, FILES, [block], people, homes)
    assert refuse(session, FILES) == ""
    assert "households: QRACE1: a code is not in" in refuse(session, FILES, Counted.HOUSEHOLDS)
    unit, wrong = Unit(1, block), CensusPerson(1, races=("6789",), QSPAN="1000")
    examples.write_production(session, PRODUCTION_LAYOUT, [unit], [wrong])
    assert "households: QRACE1" in refuse(session, PRODUCTION_LAYOUT, Counted.HOUSEHOLDS)
    examples.write_production(session, PRODUCTION_LAYOUT, [unit], [wrong._replace(RELSHIP="25")])
    assert refuse(session, PRODUCTION_LAYOUT, Counted.HOUSEHOLDS) == ""
    assert "persons: QRACE1" in refuse(session, PRODUCTION_LAYOUT)


@pytest.mark.parametrize(
    ("states", "refused"),
    [(("01", "02"), False), (("01", "02", "72"), False), (("01",), True), (("01", "72"), True), (("72",), False)],
)
def test_blocks_of_another_state_are_refused_within_the_run_and_left_out_of_the_other(
    session: Session, states: tuple[str, ...], refused: bool
) -> None:
    blocks = [Block("01"), Block("02"), Block("72")]
    examples.write_files(session, FILES, blocks, [])
    words = "files: units: TABBLKST: a block is in none of the declared states: 1 block"
    assert refuse(session, FILES, states=states) == (words if refused else "")
    # The production layout is the whole country's: a release takes its states from it.
    examples.write_production(session, PRODUCTION_LAYOUT, [Unit(1, blocks[0]), Unit(2, blocks[1])], [])
    assert refuse(session, PRODUCTION_LAYOUT, states=states) == ""


def test_a_run_without_a_household_in_a_published_group_is_refused_without_a_number(session: Session) -> None:
    blocks = [Block("01"), Block("72")]
    configuration = Configuration(states=("01", "72"))
    groups = [("STATE", "01", "3001"), ("PR-STATE", "72", "3001")]
    measured = [(RegionType.STATE, 2), (RegionType.PR_STATE, 2)]

    def measuring(pairs: Sequence[Pair]) -> SafeTabRelease:
        lists = examples.code_lists(TOY)
        return examples.counting_release(FILES, Counted.HOUSEHOLDS, lists, pairs, configuration.states)

    def counted(homes: Sequence[Household]) -> None:
        examples.write_files(session, FILES, blocks, [], homes)
        counts(session, FILES, Counted.HOUSEHOLDS, TOY, configuration, measured, groups)
        require_households_in_groups(session, measuring(measured), COUNTS)

    here = [Household(block.key, QSPAN="1000") for block in blocks]
    counted(here)
    for kept, run in ((here[:1], "PR"), (here[1:], "US"), ([here[0], here[1]._replace(races=("7030",))], "PR")):
        with pytest.raises(RecordsError, match=f"no household of the {run} run is in a group") as refused:
            counted(kept)
        assert not any(letter.isdigit() for letter in str(refused.value))
    of_states = [pair for pair in measured if pair[0].run == "US"]
    require_households_in_groups(session, measuring(of_states), COUNTS)


@pytest.mark.parametrize("counted", Counted)
@pytest.mark.parametrize("dataset", [FILES, PRODUCTION_LAYOUT, examples.of_files(with_households=False)])
def test_the_columns_read_are_those_of_the_layout(dataset: DatasetDeclaration, counted: Counted) -> None:
    for table, columns in columns_read(dataset, counted).items():
        missing = set(columns) - set(dataset.tables[table].stored)
        # Households need a file of households, or the production layout.
        assert bool(missing) == (
            counted is Counted.HOUSEHOLDS and dataset.units.key == "BLOCK" and not has_file(dataset)
        )


def has_file(dataset: DatasetDeclaration) -> bool:
    return "households" in dataset.tables
