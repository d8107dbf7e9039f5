"""The oracle itself, against files written out by hand, with the lists of the vetted cases."""

from dataclasses import replace

from tests.assets.safetab import examples
from tests.assets.safetab.oracle import (
    Block,
    Configuration,
    Household,
    Person,
    Row,
    Unit,
    from_production,
    regions,
    safetab_h,
    safetab_p,
    text,
)
from tests.assets.safetab.oracle import CensusPerson as Member

TOY = examples.toy_lists()
HERE = Block("01")
COUNTY = frozenset({("COUNTY", 2)})
ALBANIANS = [Person(HERE.key, 17, "1", ("1010",), "1000"), Person(HERE.key, 18, "2", ("1012", "1010"), "1000")]


def thresholds(*numbers: int) -> Configuration:
    """A configuration that measures counties at level 2 with these thresholds of P and of T3; T4 has the first."""
    three = (numbers[0], numbers[1], numbers[2])
    return Configuration(
        p=COUNTY,
        t3=COUNTY,
        t4=COUNTY,
        p_thresholds={("COUNTY", 2): three},
        t3_thresholds={("COUNTY", 2): three},
        t4_thresholds={("COUNTY", 2): three[0]},
    )


def test_a_group_that_reaches_the_first_threshold_has_four_ages() -> None:
    tables = safetab_p(ALBANIANS, [HERE], TOY, thresholds(2, 3, 4))
    assert text("t1", tables["t1"]) == (
        "REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT\n01001|COUNTY|1140|2\n01001|COUNTY|3001|2\n"
    )
    of_one = [row for row in tables["t2"] if row[2] == "3001"]
    assert text("t2", of_one) == (
        "REGION_ID|REGION_TYPE|ITERATION_CODE|AGESTART|AGEEND|SEX|COUNT\n"
        "01001|COUNTY|3001|*|*|1|1\n"
        "01001|COUNTY|3001|*|*|2|1\n"
        "01001|COUNTY|3001|0|17|1|1\n"
        "01001|COUNTY|3001|0|17|2|0\n"
        "01001|COUNTY|3001|18|44|1|0\n"
        "01001|COUNTY|3001|18|44|2|1\n"
        "01001|COUNTY|3001|45|64|1|0\n"
        "01001|COUNTY|3001|45|64|2|0\n"
        "01001|COUNTY|3001|65|115|1|0\n"
        "01001|COUNTY|3001|65|115|2|0\n"
    )
    assert len(tables["t2"]) == 20


def test_equal_thresholds_are_reached_together() -> None:
    for reached, rows in (((2, 2, 3), 20), ((2, 2, 2), 48), ((3, 3, 3), 0)):
        tables = safetab_p(ALBANIANS, [HERE], TOY, thresholds(*reached))
        assert len([row for row in tables["t2"] if row[2] == "1140"]) == rows


def test_empty_groups_are_suppressed_below_the_state_only() -> None:
    everywhere = frozenset({("COUNTY", 2), ("STATE", 2)})
    few = Configuration(p=everywhere)
    coarse = {each.code for each in TOY.universe("COUNTY", 2)}
    detailed = {each.code for each in TOY.universe("STATE", 2)}
    assert "4001" in detailed - coarse
    assert "7000" in coarse - detailed
    for configuration, in_county in ((few, {"3001", "1140"}), (replace(few, suppression=False), coarse)):
        rows = safetab_p(ALBANIANS, [HERE], TOY, configuration)["t1"]
        assert {row[2] for row in rows if row[1] == "STATE"} == detailed
        assert {row[2] for row in rows if row[1] == "COUNTY"} == in_county


def test_a_group_that_is_a_total_only_never_has_cells() -> None:
    state = frozenset({("STATE", 2)})
    configuration = Configuration(p=state, p_thresholds={("STATE", 2): (1, 1, 1)})
    tables = safetab_p([Person(HERE.key, races=("1020",), QSPAN="1000")] * 9, [HERE], TOY, configuration)
    assert ("01", "STATE", "4001", 9) in tables["t1"]
    assert ("01", "STATE", "1150", 9) in tables["t1"]
    assert tables["t2"] == []


def test_households_are_tabulated_in_the_detail_of_the_published_total() -> None:
    homes = [Household(HERE.key, ("1010",), "1000", *codes) for codes in ("11", "14", "23", "32", "41", "51")]

    def of(total: int, table: str, first: int = 10) -> dict[object, object]:
        totals: list[Row] = [("01001", "COUNTY", "3001", total)]
        rows = safetab_h(homes, [HERE], TOY, thresholds(first, 20, 30), totals)[table]
        assert all(row[:3] == ("01001", "COUNTY", "3001") for row in rows)
        return {row[3]: row[4] for row in rows}

    assert of(-5, "T03001") == of(9, "T03001") == {0: 6}
    assert of(10, "T03002") == {0: 6, 1: 4, 6: 2}
    assert of(20, "T03003") == {0: 6, 1: 4, 2: 2, 3: 2, 6: 2, 7: 1, 8: 1}
    assert of(30, "T03004") == {0: 6, 1: 4, 2: 2, 3: 2, 4: 1, 5: 1, 6: 2, 7: 1, 8: 1}
    assert of(9, "T04001") == {0: 6}
    assert of(10, "T04002") == {0: 6, 1: 3, 2: 1, 3: 2}
    assert of(10, "T03001") == of(10, "T04001") == of(9, "T04002") == {}


def test_only_groups_of_the_run_and_of_the_universe_are_tabulated() -> None:
    blocks = [Block("01", AIANNHCE="0010"), Block("72")]
    rows: dict[str, list[Row]] = {
        "US": [("1", "USA", "3001", 4), ("01", "STATE", "3001", 4), ("0010", "AIANNH", "3001", 4)],
        "PR": [("72", "PR-STATE", "3001", 4), ("72001", "PR-COUNTY", "3001", 4)],
        # Of another state, an area that GRF-C lacks, no such iteration, level 0, and the wrong granularity, as the
        # coterminous step makes them.
        "no": [
            ("02", "STATE", "3001", 4),
            ("0020", "AIANNH", "3001", 4),
            ("01", "STATE", "9999", 4),
            ("01", "STATE", "1001", 4),
            ("01001", "COUNTY", "4001", 4),
            ("01", "STATE", "7000", 4),
        ],
    }
    for states, runs in ((("01",), ["US"]), (("72",), ["PR"]), (("01", "72"), ["US", "PR"])):
        tables = safetab_h(
            [], blocks, TOY, Configuration(states=states), [row for each in rows.values() for row in each]
        )
        expected = {row[:3] for run in runs for row in rows[run]}
        # A group without a household has its row.
        assert {row[:3] for row in tables["T03001"]} == {row[:3] for row in tables["T04001"]} == expected
        assert {row[4] for row in tables["T03001"]} == {0}


def test_householders_of_occupied_housing_units_make_households() -> None:
    units = [
        Unit(1, HERE, HHT="6", TEN="2"),
        Unit(2, HERE, HHT="7", TEN="3"),
        Unit(3, HERE, HHT="0"),
        Unit(4, HERE, RTYPE="4"),
        Unit(5, Block("01", "003"), HHT="2"),
    ]
    people = [Member(1), Member(1, RELSHIP="25"), Member(2), Member(4), Member(5, races=("1020",))]
    blocks, persons, households = from_production(units, people)
    assert regions(blocks, ["01"])["COUNTY"] == ["01001", "01003"]
    assert [person.races for person in persons] == [("1010",)] * 4 + [("1020",)]
    assert [(home.HOUSEHOLD_TYPE, home.TEN, home.races) for home in households] == [
        ("4", "2", ("1010",)),
        ("5", "3", ("1010",)),
        ("2", "1", ("1020",)),
    ]
