"""The truncated join, the exact counts and the truncation report, against the run table in plain Python."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mechanisms.phsafe.runs import LEVELS, RUN, RUNS, Geography, Iterations, Level
from resources.statements import Zone
from resources.warehouse import Session, Warehouse
from tests.assets.phsafe.oracle import (
    ALL_RELEASED,
    JOINING,
    THRESHOLDS,
    VACANT,
    Census,
    Person,
    Unit,
    expected_counts,
    random_census,
    thresholds,
    truncate_and_join,
)
from tests.depth import examples, quick_cases

NATION = Level(Geography.NATION, Iterations.ALL)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("warehouse")
    with Warehouse(folder=str(folder), threads=2).session(writes=Zone.CONFIDENTIAL) as opened:
        yield opened


def nation(census: Census, run: str, truncation: dict[str, int | None] = THRESHOLDS) -> dict[int, int]:
    """The nation's non-zero counts of a run, over the total population."""
    counts = census.counts({run: truncation[run]}, [(run, NATION)])
    return {key[-1]: count for key, count in counts.items() if count}


def household(key: int, *ages: int) -> list[Person]:
    """A householder of 40 with own children."""
    return [Person(key), *(Person(key, QAGE=age, RELSHIP="25") for age in ages)]


# Every rule of the run table

KEYS = st.integers(1, 4)
RACES = st.sampled_from(["01", "01", "02", "03", "04", "05", "06", "07", "42", "63"])
UNITS = st.builds(
    Unit,
    KEYS,
    st.sampled_from("224"),
    st.sampled_from("012"),
    st.one_of(st.just("00"), RACES),
    st.sampled_from("01234"),
    st.sampled_from("01234567"),
    st.sampled_from([f"{code:02d}" for code in range(13)]),
    st.sampled_from("012345"),
    st.sampled_from(["01", "02", "72"]),
)
PERSONS = st.builds(
    Person,
    KEYS,
    st.sampled_from("3335"),
    st.sampled_from([0, 3, 4, 5, 6, 11, 12, 17, 18, 115]),
    st.sampled_from("12"),
    RACES,
    st.sampled_from([str(code) for code in range(20, 39)] + ["25"] * 10),
)


@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    units=st.lists(UNITS, max_size=8),
    persons=st.lists(PERSONS, max_size=24),
    threshold=st.integers(1, 4),
    states=st.sampled_from([("01",), ("01", "02"), ("72",)]),
)
def test_every_run_counts_what_the_run_table_says(
    session: Session, units: list[Unit], persons: list[Person], threshold: int, states: tuple[str, ...]
) -> None:
    census = Census(session, units, [*persons, *persons[:3]], states)
    truncation = thresholds(threshold)
    joined = census.joined_records(truncation)
    assert joined == {run: truncate_and_join(run, census, threshold) for run in JOINING}
    assert census.counts(truncation) == expected_counts(census, truncation)


@pytest.mark.prove
def test_every_combination_of_codes_is_counted_by_the_run_table(session: Session) -> None:
    # Few persons to a unit, so that truncation hides no rule; every iteration of every cell is met.
    census = random_census(session, units=24_000, persons=24_000, seed=1)
    counts = census.counts(THRESHOLDS)
    assert counts == expected_counts(census, THRESHOLDS)
    met = {(key[0], key[4], key[5]) for key, count in counts.items() if count}
    assert met == {
        (run.name, code, cell)
        for run in RUNS
        for level in run.levels
        for code in level.iterations.codes
        for cell in run.cells
    }


def test_every_run_counts_by_its_rules_where_thresholds_bind(session: Session) -> None:
    census = random_census(session, units=400, persons=9_000, seed=2, keys=700)
    truncation = THRESHOLDS | {"PH3": 2, "PH6": 1, "PH4": 5}
    assert census.counts(truncation) == expected_counts(census, truncation)


# Corners


def test_a_person_in_group_quarters_is_in_no_run(session: Session) -> None:
    quarters = Unit(1, RTYPE="4", **VACANT)
    persons = [Person(1, PERSON_RTYPE="5", RELSHIP="37", QAGE=age) for age in (10, 30)]
    census = Census(session, [quarters], persons)
    assert not any(census.counts(THRESHOLDS).values())


def test_a_vacant_unit_is_in_no_denominator(session: Session) -> None:
    census = Census(session, [Unit(1, **VACANT), Unit(2)], [Person(2)])
    assert [nation(census, run) for run in ("PH1_denom", "PH5_denom", "PH8_denom")] == [{1: 1}, {1: 1}, {2: 1}]


def test_a_person_whose_key_no_unit_bears_is_not_counted(session: Session) -> None:
    census = Census(session, [Unit(1)], [Person(1), Person(2)])
    assert nation(census, "PH1_num") == {3: 1}
    assert census.report(THRESHOLDS)["PH1_num"]["persons_without_unit"] == 1


def test_a_person_whose_unit_is_in_another_state_is_not_counted(session: Session) -> None:
    census = Census(session, [Unit(1), Unit(2, TABBLKST="44")], [Person(1), Person(2)], states=["01"])
    assert nation(census, "PH1_num") == {3: 1}
    assert nation(census, "PH1_denom") == {1: 1}


def test_an_own_child_in_a_household_without_own_children_is_in_no_cell(session: Session) -> None:
    census = Census(session, [Unit(1, HHT2="02")], household(1, 5))
    assert nation(census, "PH3") == {}
    assert nation(census, "PH6") == {}
    assert census.report(THRESHOLDS)["PH3"]["persons_kept"] == 1


def test_universes_apply_before_truncation(session: Session) -> None:
    persons = household(1, *[30] * 12, 3, 7)
    census = Census(session, [Unit(1)], persons)
    assert nation(census, "PH3") == {4: 2}, "adults take no child's place"
    assert sum(nation(census, "PH1_num").values()) == 10


def test_the_same_persons_stay_in_a_household_over_the_threshold_whatever_their_order(session: Session) -> None:
    persons = [*household(1, 1, 2, 3, 3, 3, 4, 4, 5), *household(2, 7)]
    truncation = thresholds(4)
    expected = Census(session, [Unit(1), Unit(2)], persons).joined_records(truncation)
    assert sum(expected["PH1_num"].values()) == 6
    for seed in range(8):
        shuffled = random.Random(seed).sample(persons, len(persons))
        assert Census(session, [Unit(2), Unit(1)], shuffled).joined_records(truncation) == expected


@pytest.mark.parametrize("equals", [4, 5, 9])
def test_equal_records_are_distinct_persons(session: Session, equals: int) -> None:
    census = Census(session, [Unit(1)], [Person(1, QAGE=10, RELSHIP="25")] * equals)
    assert nation(census, "PH3", thresholds(4)) == {4: 4}


@pytest.mark.deep
def test_equal_records_are_not_kept_or_dropped_together(session: Session) -> None:
    # If equal records stood side by side in the order, a third person could never come between them.
    kept = []
    for key in range(1, 30):
        twins, other = [Person(key, QAGE=10)] * 2, Person(key, QAGE=11)
        joined = Census(session, [Unit(key)], [*twins, other]).joined_records({"PH1_num": 2})["PH1_num"]
        kept.append(joined[twins[0], Unit(key)])
    assert set(kept) == {1, 2}


def test_units_with_one_key_are_dropped_from_joins_and_counted_as_units(session: Session) -> None:
    census = Census(session, [Unit(1), Unit(1, TEN="3"), Unit(2)], [Person(1), Person(2)])
    assert nation(census, "PH1_num") == {3: 1}
    assert nation(census, "PH8_denom") == {2: 2, 3: 1}
    assert census.report(THRESHOLDS)["PH1_num"]["units_repeated"] == 2


def test_only_units_in_universe_make_a_key_repeated(session: Session) -> None:
    units = [Unit(1), Unit(1, HHT="4"), Unit(1, TABBLKST="44")]
    census = Census(session, units, [Person(1)], states=["01"])
    assert nation(census, "PH1_num") == {}
    assert nation(census, "PH4") == {3: 1}, "the nonfamily unit is out of the universe of PH4 before keys are compared"


def test_two_or_more_races_are_one_iteration(session: Session) -> None:
    units = [Unit(key, HHRACE=race) for key, race in enumerate(["06", "07", "36", "63", "01"])]
    census = Census(session, units, [])
    counts = census.counts({"PH1_denom": None}, [("PH1_denom", Level(Geography.NATION, Iterations.RACE))])
    assert [count for _, count in sorted(counts.items())] == [1, 0, 0, 0, 0, 1, 3]


def test_a_state_without_a_household_of_an_iteration_has_its_zeros(session: Session) -> None:
    census = Census(session, [Unit(1)], household(1, 5), states=["01", "56"])
    counts = census.counts(THRESHOLDS)
    assert len(counts) == sum(
        (1 if level.geography is Geography.NATION else 2) * len(level.iterations.codes) * len(run.cells)
        for run in RUNS
        for level in run.levels
    )
    assert counts["PH3", "state_A-G", "STATE", "56", "E", 4] == 0
    assert not any(count for key, count in counts.items() if key[3] == "56")


def test_a_census_of_no_records_has_every_cell(session: Session) -> None:
    counts = Census(session, [], []).counts(THRESHOLDS)
    assert set(counts.values()) == {0}
    assert counts.keys() == expected_counts(Census(session, [], []), THRESHOLDS).keys()


def test_a_level_that_is_not_released_is_absent(session: Session) -> None:
    census = Census(session, [Unit(1)], household(1, 5))
    released = [pair for pair in ALL_RELEASED if pair != ("PH3", LEVELS[1]) and pair[0] != "PH7"]
    truncation = {name: threshold for name, threshold in THRESHOLDS.items() if name != "PH7"}
    counts = census.counts(truncation, released)
    assert {key[:2] for key in counts} == {(name, level.name) for name, level in released}
    assert counts == expected_counts(census, truncation, released)


def test_puerto_rico_has_no_nation_level(session: Session) -> None:
    units = [Unit(1, TABBLKST="72"), Unit(2)]
    census = Census(session, units, [Person(1), Person(2)], states=["72"])
    released = [(name, level) for name, level in ALL_RELEASED if level.geography is Geography.STATE]
    counts = census.counts(THRESHOLDS, released)
    assert {key[2:4] for key in counts} == {("STATE", "72")}
    assert counts["PH1_num", "state_*", "STATE", "72", "*", 3] == 1


@quick_cases(2)
@pytest.mark.parametrize("run", list(RUN))
def test_a_run_may_be_released_alone(session: Session, run: str) -> None:
    census = random_census(session, units=60, persons=200, seed=3)
    released = [pair for pair in ALL_RELEASED if pair[0] == run]
    truncation = {run: THRESHOLDS[run]}
    assert census.counts(truncation, released) == expected_counts(census, truncation, released)


# The order in which noise is drawn


def test_the_order_of_the_draw_is_the_declarations(session: Session) -> None:
    first = random_census(session, units=60, persons=200, seed=3, states=["02", "01"])
    table = first.write(THRESHOLDS, reversed(ALL_RELEASED)).drop_columns("count")
    second = Census(session, [], [], states=["01", "02"])
    assert second.write(THRESHOLDS, ALL_RELEASED).drop_columns("count") == table
    rows = [
        (list(RUN).index(row["run"]), [level.name for level in LEVELS].index(row["level"]), *list(row.values())[3:])
        for row in table.to_pylist()
    ]
    assert rows == sorted(rows)


@pytest.mark.prove
def test_counts_depend_neither_on_the_order_of_rows_nor_on_threads(session: Session, tmp_path: Path) -> None:
    census = random_census(session, units=70_000, persons=130_000, seed=4, keys=35_000)
    truncation = thresholds(2)
    counts = census.write(truncation, ALL_RELEASED)
    joined = session.arrow("warehouse/all", source=census.table("truncated_join"))
    for threads in (1, 3):
        units, persons = list(census.units), list(census.persons)
        random.Random(threads).shuffle(units)
        random.Random(threads).shuffle(persons)
        warehouse = Warehouse(folder=str(tmp_path / str(threads)), threads=threads)
        with warehouse.session(writes=Zone.CONFIDENTIAL) as other:
            shuffled = Census(other, units, persons)
            assert shuffled.write(truncation, ALL_RELEASED) == counts
            assert other.arrow("warehouse/all", source=shuffled.table("truncated_join")) == joined


# The truncation report


def test_the_truncation_report_accounts_for_every_person(session: Session) -> None:
    census = random_census(session, units=400, persons=4_000, seed=5, keys=500)
    truncation = thresholds(3)
    report, joined = census.report(truncation), census.joined_records(truncation)
    unlimited = census.joined_records(thresholds(10_000))
    assert list(report) == JOINING
    for run, row in report.items():
        assert row.pop("truncation") == 3
        kept, all_joined = (sum(records[run].values()) for records in (joined, unlimited))
        sizes = [0] * 501
        for (person, _), times in unlimited[run].items():
            sizes[person.MAFID] += times
        assert row["persons_kept"] == kept
        assert row["persons_truncated"] == all_joined - kept > 0
        assert row["units_truncated"] == sum(size > 3 for size in sizes) > 0
        assert row["persons_in_universe"] == row["persons_without_unit"] + row["persons_truncated"] + kept
    assert report["PH1_num"]["persons_in_universe"] == sum(person.PERSON_RTYPE == "3" for person in census.persons)
    keys = [unit.MAFID for unit in census.units if unit.TABBLKST in census.states]
    assert report["PH1_num"]["units_repeated"] == sum(keys.count(key) > 1 for key in keys)
    families = [unit.MAFID for unit in census.units if unit.TABBLKST in census.states and unit.HHT in "123"]
    assert report["PH4"]["units_repeated"] == sum(families.count(key) > 1 for key in families)


def test_nothing_is_truncated_in_a_census_of_no_records(session: Session) -> None:
    (row,) = Census(session, [], []).report({"PH3": 6}).values()
    assert row.pop("truncation") == 6
    assert set(row.values()) == {0}
