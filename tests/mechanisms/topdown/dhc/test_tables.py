"""Tables count the records of their labels: compared with records counted one by one, by rules written out again."""

from collections import Counter
from fractions import Fraction
from math import floor, sqrt

import numpy as np
import pytest

from mechanisms.topdown.allocation import compute_variances
from mechanisms.topdown.dhc.allocation import HOUSEHOLD_ALLOCATION, PERSON_ALLOCATION
from mechanisms.topdown.dhc.households import HOUSEHOLDS, TYPES, UNITS
from mechanisms.topdown.dhc.persons import PERSONS, REDISTRICTING
from mechanisms.topdown.dhc.tables import (
    DHC_TABLES,
    ITERATIONS,
    P_L_TABLES,
    count_figures,
    find_median_ages,
)
from mechanisms.topdown.redistricting import REDISTRICTING as REDISTRICTING_TABLES
from mechanisms.topdown.schema import DETAILED, Counts, Schema
from tests.mechanisms.topdown.dhc.country import count

CELLS = {"P1": 1, "P3": 8, "P4": 3, "P5": 17, "P12": 49, "P14": 43, "P18": 63, "PCT12": 209, "PCT19": 195, "P15": 17,
         "P16": 9, "P19": 11, "P20": 19, "P22": 21, "H1": 1, "H3": 3, "H4": 4, "H5": 8, "H10": 17, "H12": 17, "H13": 21,
         "H14": 69, "PCT14": 3, "P17": 30, "PCT15": 12}  # fmt: skip
"""The numbers of cells of the published tables."""


def draw(schema: Schema, records: int, places: int) -> tuple[Counts, np.ndarray, dict[str, np.ndarray]]:
    random = np.random.default_rng(records)
    cells = random.choice(np.flatnonzero(schema.possible), records)
    number = random.integers(0, places, records)
    codes = {part.name: schema.marginal(part.name).find(cells) for part in schema.attributes}
    return count(schema, number, cells), number, codes


@pytest.mark.parametrize("name", CELLS)
def test_a_table_has_the_published_number_of_cells_and_they_add_up(name: str) -> None:
    table = DHC_TABLES[name]
    assert len(table.cells) == CELLS[name]
    counts, _, _ = draw(table.schema, 400, 3)
    found = dict(zip((cell.path for cell in table.cells), table.count(counts, 3).T.tolist(), strict=True))
    assert len(found) == CELLS[name]
    for path, value in found.items():
        parts = [other for other in found if other[:-1] == path]
        if len(parts) > 1:  # P20 has one part of persons living alone, 65 years and over; P17 of children, under 18.
            assert np.array_equal(np.sum([found[part] for part in parts], axis=0), value), path
        # A label ends in a colon if and only if it has parts.
        assert path[-1].endswith(":") == bool(parts) or len(table.cells) == 1


def test_tables_of_persons() -> None:
    counts, number, codes = draw(PERSONS, 500, 2)
    for cell, value in zip(DHC_TABLES["P12"].cells, DHC_TABLES["P12"].count(counts, 2).T, strict=True):
        words = cell.path[-1].split()
        numbers = [int(word) for word in words if word.isdigit()]
        ages = {"Under": (0, numbers[-1] - 1 if numbers else 0)}.get(words[0]) or (
            (numbers[0], 200 if "over" in words else numbers[-1]) if numbers else (0, 200)
        )
        sexes = {"Male:": [0], "Female:": [1]}.get(cell.path[min(1, len(cell.path) - 1)], [0, 1])
        counted = np.isin(codes["sex"], sexes) & (codes["age"] >= ages[0]) & (codes["age"] <= ages[1])
        assert value.tolist() == np.bincount(number[counted], minlength=2).tolist(), cell.label
    by_label = {
        cell.label: value
        for cell, value in zip(DHC_TABLES["PCT19"].cells, DHC_TABLES["PCT19"].count(counts, 2).T, strict=True)
    }
    minors = "!!Total:!!Female:!!Under 18 years:!!Noninstitutionalized population:!!Other noninstitutional facilities:"
    counted = (codes["relgq"] == 39) & (codes["sex"] == 1) & (codes["age"] < 18)
    assert by_label[f"{minors}!!Maritime/merchant vessels"].sum() == counted.sum()
    assert by_label[minors].sum() == ((codes["relgq"] >= 36) & (codes["sex"] == 1) & (codes["age"] < 18)).sum()


def test_the_relationships_of_persons_and_the_couples_of_households() -> None:
    counts, _, codes = draw(PERSONS, 500, 1)
    found = {
        cell.path[-1]: value
        for cell, value in zip(DHC_TABLES["P17"].cells, DHC_TABLES["P17"].count(counts, 1)[0], strict=True)
    }
    relgq, minor = codes["relgq"], codes["age"] < 18
    assert found["Same-sex spouse"] == (relgq == 4).sum()
    assert found["Opposite-sex unmarried partner"] == (relgq == 3).sum()
    assert found["Grandchild:"] == (relgq == 11).sum()
    assert found["Nonrelatives"] == np.isin(relgq, (15, 16, 17)).sum()
    assert found["Noninstitutionalized population"] == (relgq >= 33).sum()
    minors = [
        value
        for cell, value in zip(DHC_TABLES["P17"].cells, DHC_TABLES["P17"].count(counts, 1)[0], strict=True)
        if cell.path[-1] == "Under 18 years"
    ]
    assert minors == [((relgq == code) & minor).sum() for code in (6, 7, 8, 11)]
    homes, _, of_home = draw(HOUSEHOLDS, 300, 1)
    couples, men = np.array([each.couple for each in TYPES])[of_home["hhtype_dhch"]], of_home["sex"] == 0
    due = [np.ones(300)]
    for opposite in (1, 3):
        same = couples == opposite + 1
        due += [(couples == opposite) | same, couples == opposite, same, same & men, same & ~men]
    due.append(couples == 0)
    assert DHC_TABLES["PCT15"].count(homes, 1)[0].tolist() == [np.sum(each) for each in due]


def test_iterations_count_their_populations_alone() -> None:
    counts, _, codes = draw(PERSONS, 500, 1)
    of_people = {letter: DHC_TABLES[f"PCT12{letter}"].count(counts, 1)[0, 0] for letter in ITERATIONS}
    race, hispanic = codes["cenrace"], codes["hispanic"] == 1
    expected = {"A": race == 0, "F": race == 5, "G": race > 5, "H": hispanic, "I": (race == 0) & ~hispanic,
                "J": (race == 1) & ~hispanic, "O": (race > 5) & ~hispanic}  # fmt: skip
    assert {letter: of_people[letter] for letter in expected} == {k: v.sum() for k, v in expected.items()}
    assert of_people["H"] + sum(of_people[letter] for letter in "IJKLMNO") == 500
    homes, _, of_householder = draw(HOUSEHOLDS, 300, 1)
    assert DHC_TABLES["P16G"].count(homes, 1)[0, 0] == (of_householder["race"] == 6).sum()
    assert "P12J" not in DHC_TABLES


def test_tables_of_households_follow_their_types() -> None:
    counts, number, codes = draw(HOUSEHOLDS, 800, 2)
    expected: Counter[tuple[str, int]] = Counter()
    for place, code, sex, age, tenure in zip(
        number, codes["hhtype_dhch"], codes["sex"], codes["hhage"], codes["hhtenshort_3lev"], strict=True
    ):
        each, whose = TYPES[code], "Female" if sex else "Male"
        kind = ("family" if each.relatives else "nonfamily") if each.size > 1 else "alone"
        expected["P16 " + ("married" if each.couple in (1, 2) else kind), place] += 1
        expected[f"H12 {'owner' if tenure < 2 else 'renter'} {each.size}", place] += 1
        if each.couple == 0 and each.size > 1 and not each.own:
            expected[f"P20 {whose} {'relatives' if each.relatives else 'nonrelatives'}", place] += 1
        if each.size == 1 and age >= 6:
            expected[f"P20 {whose} 65", place] += 1
        expected["PCT14 three", place] += each.multigenerational
    rows = {
        "P16_003N": "P16 married", "P16_008N": "P16 alone", "P16_009N": "P16 nonfamily", "P16_004N": "P16 family",
        "P20_010N": "P20 Male 65", "P20_016N": "P20 Female 65", "P20_012N": "P20 Male relatives",
        "P20_019N": "P20 Female nonrelatives", "H12_004N": "H12 owner 2", "H12_017N": "H12 renter 7",
        "PCT14_002N": "PCT14 three",
    }  # fmt: skip
    for name, described in rows.items():
        table = DHC_TABLES[name.split("_")[0]]
        found = table.count(counts, 2)[:, int(name[-4:-1]) - 1]
        assert found.tolist() == [expected[described, place] for place in range(2)], name


def test_units_are_occupied_vacant_or_no_housing() -> None:
    counts, _, codes = draw(UNITS, 200, 1)
    units = codes["tenvacgq"]
    assert DHC_TABLES["H3"].count(counts, 1).tolist() == [
        [*((units < 11).sum(), (units < 4).sum(), ((units > 3) & (units < 11)).sum())]
    ]
    assert DHC_TABLES["H4"].count(counts, 1)[0, 3] == np.isin(units, (2, 3)).sum()


def test_tables_of_the_redistricting_data_count_the_same_persons() -> None:
    counts, number, codes = draw(PERSONS, 300, 2)
    found = count_figures(P_L_TABLES, counts, 2)
    groups = counts.answer(PERSONS.marginal(REDISTRICTING), 0, 2)
    for name, of_redistricting in zip(P_L_TABLES, ("P1", "P2", "P3", "P4"), strict=True):
        due = [groups[:, cell.counted].sum(axis=1) for cell in REDISTRICTING_TABLES[of_redistricting].cells]
        assert np.array_equal(found[name], np.transpose(due)), name
    assert [found[name].shape[1] for name in P_L_TABLES] == [71, 73, 71, 73]
    adults = found["P11"]
    chosen = (codes["age"] >= 18) & (codes["hispanic"] == 1)
    assert adults[:, 1].tolist() == np.bincount(number[chosen], minlength=2).tolist()


@pytest.mark.parametrize(
    ("ages", "median"),
    [([30], Fraction(61, 2)), ([10, 20], Fraction(11)), ([10, 10, 20], Fraction(43, 4)), ([], None),
     ([7, 7, 7, 7], Fraction(15, 2)), ([0, 50, 51], Fraction(101, 2))],
)  # fmt: skip
def test_median_ages_lie_within_the_year_of_the_middle_person(ages: list[int], median: Fraction | None) -> None:
    """Men of these ages; and a woman aged 90, in another race."""
    cells = [((17 * 2 * 116 + age) * 2) * 63 for age in ages] + [(((17 * 2 + 1) * 116 + 90) * 2) * 63 + 1]
    counts = count(PERSONS, np.zeros(len(cells), dtype=np.int64), np.array(cells))
    ((both, men, women),) = find_median_ages(counts, 1)
    assert (men, women) == (median, Fraction(181, 2))
    ((white, _, nobody),) = find_median_ages(counts, 1, "A")
    assert (white, nobody) == (median, None)
    tenths = [-1 if each is None else floor(10 * each + Fraction(1, 2)) for each in (both, men, women)]
    assert count_figures(["P13"], counts, 1)["P13"].tolist() == [tenths]
    assert both is not None
    if median is not None:
        assert both >= median


@pytest.mark.parametrize(("name", "answers", "error"), [("P16_002N", 931_140, 1539), ("P12_009N", 4_914, 222)])
def test_sums_of_detailed_answers_have_the_errors_that_the_page_names(name: str, answers: int, error: int) -> None:
    """Fails for: sums that include impossible cells."""
    table = DHC_TABLES[name.partition("_")[0]]
    (cell,) = (position for position, cell in enumerate(table.cells) if cell.name == name)
    possible = np.flatnonzero(table.schema.possible)
    each = Counts(np.zeros_like(possible), possible, np.ones_like(possible))
    assert table.count(each, 1)[0, cell] == answers
    allocation = PERSON_ALLOCATION if table.schema is PERSONS else HOUSEHOLD_ALLOCATION
    assert round(sqrt(answers * compute_variances(allocation, "State")[DETAILED])) == error
