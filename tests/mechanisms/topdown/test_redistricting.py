"""The redistricting tables: their standard cells, and that each counts the records of its label."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.races import RACE_COMBINATIONS
from mechanisms.topdown.redistricting import CODES, REDISTRICTING, RedistrictingTable
from mechanisms.topdown.schema import PERSONS, UNITS
from tests.depth import examples

TABLES = list(REDISTRICTING.values())
NUMBERS = {1: "one race", 2: "two races", 3: "three races", 4: "four races", 5: "five races", 6: "six races"}
SIX = [
    "White",
    "Black or African American",
    "American Indian and Alaska Native",
    "Asian",
    "Native Hawaiian and Other Pacific Islander",
    "Some Other Race",
]


def cells(table: RedistrictingTable) -> dict[str, np.ndarray]:
    return {cell.name: cell.counted for cell in table.cells}


def by_race(race: int) -> tuple[str, ...]:
    """The place of a race code below its population, by the order of the codes: one race, two races, and so on."""
    code = 0
    for number in range(1, 7):
        for races in combinations(SIX, number):
            if code == race:
                one = f"Population of {NUMBERS[number]}:"
                if number == 1:
                    return one, f"{races[0]} alone"
                return "Population of two or more races:", one, "; ".join(races)
            code += 1
    raise AssertionError


def leaf(name: str, hhgq: int, adult: int, hispanic: int, race: int) -> tuple[str, ...] | None:
    """The path of the leaf that a person is counted in, from the tables' definitions; None for none."""
    if name in ("P3", "P4") and not adult:
        return None
    if name in ("P1", "P3"):
        return ("Total:", *by_race(race))
    if name in ("P2", "P4"):
        return ("Total:", "Hispanic or Latino") if hispanic else ("Total:", "Not Hispanic or Latino:", *by_race(race))
    if hhgq == 0:
        return None
    kinds = [
        "Correctional facilities for adults",
        "Juvenile facilities",
        "Nursing facilities/Skilled-nursing facilities",
    ]
    kinds += ["Other institutional facilities", "College/University student housing", "Military quarters"]
    kinds += ["Other noninstitutional facilities"]
    kind = "Institutionalized" if hhgq <= 4 else "Noninstitutionalized"
    return "Total:", f"{kind} population:", kinds[hhgq - 1]


def test_there_are_the_standard_numbers_of_cells() -> None:
    assert {table.name: len(table.cells) for table in TABLES} == {
        "P1": 71,
        "P2": 73,
        "P3": 71,
        "P4": 73,
        "P5": 10,
        "H1": 3,
    }


def test_cells_bear_the_standard_names_in_order() -> None:
    for table in TABLES:
        stem = {"P1": "P001", "P2": "P002", "P3": "P003", "P4": "P004", "P5": "P005", "H1": "H001"}[table.name]
        assert [cell.name for cell in table.cells] == [f"{stem}{n:04}" for n in range(1, len(table.cells) + 1)]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("P0010001", "!!Total:"),
        ("P0010003", "!!Total:!!Population of one race:!!White alone"),
        ("P0010009", "!!Total:!!Population of two or more races:"),
        ("P0010010", "!!Total:!!Population of two or more races:!!Population of two races:"),
        (
            "P0010025",
            "!!Total:!!Population of two or more races:!!Population of two races:"
            "!!Native Hawaiian and Other Pacific Islander; Some Other Race",
        ),
        ("P0010026", "!!Total:!!Population of two or more races:!!Population of three races:"),
        ("P0010047", "!!Total:!!Population of two or more races:!!Population of four races:"),
        ("P0010063", "!!Total:!!Population of two or more races:!!Population of five races:"),
        ("P0010070", "!!Total:!!Population of two or more races:!!Population of six races:"),
        ("P0020002", "!!Total:!!Hispanic or Latino"),
        ("P0020005", "!!Total:!!Not Hispanic or Latino:!!Population of one race:!!White alone"),
        (
            "P0020073",
            "!!Total:!!Not Hispanic or Latino:!!Population of two or more races:!!Population of six races:!!"
            "White; Black or African American; American Indian and Alaska Native; Asian; "
            "Native Hawaiian and Other Pacific Islander; Some Other Race",
        ),
        ("P0050002", "!!Total:!!Institutionalized population:"),
        ("P0050010", "!!Total:!!Noninstitutionalized population:!!Other noninstitutional facilities"),
        ("H0010003", "!!Total:!!Vacant"),
    ],
)
def test_labels_are_the_standard_ones(name: str, label: str) -> None:
    (found,) = (cell.label for table in TABLES for cell in table.cells if cell.name == name)
    assert found == label


def test_known_cells_count_what_an_independent_definition_says() -> None:
    """Sums over a cube of hhgq × votingage × hispanic × cenrace, written by hand."""
    cube = np.random.default_rng(5).integers(0, 1000, size=(8, 2, 2, 63))
    expected = {
        "P0010001": cube.sum(),
        "P0010004": cube[..., 1].sum(),
        "P0010009": cube[..., 6:].sum(),
        "P0010010": cube[..., 6:21].sum(),
        "P0010026": cube[..., 21:41].sum(),
        "P0010071": cube[..., 62].sum(),
        "P0020002": cube[:, :, 1].sum(),
        "P0020003": cube[:, :, 0].sum(),
        "P0020008": cube[:, :, 0, 3].sum(),
        "P0030001": cube[:, 1].sum(),
        "P0030071": cube[:, 1, :, 62].sum(),
        "P0040002": cube[:, 1, 1].sum(),
        "P0040005": cube[:, 1, 0, 0].sum(),
        "P0050001": cube[1:].sum(),
        "P0050002": cube[1:5].sum(),
        "P0050005": cube[3].sum(),
        "P0050007": cube[5:].sum(),
        "P0050009": cube[6].sum(),
    }
    counted = {name: mask for table in TABLES if table.schema is PERSONS for name, mask in cells(table).items()}
    assert {name: cube.ravel()[counted[name]].sum() for name in expected} == expected


def test_occupied_and_vacant_units_are_told_apart() -> None:
    histogram = np.array([70, 5])
    assert [histogram[cell.counted].sum() for cell in REDISTRICTING["H1"].cells] == [75, 70, 5]
    assert CODES["occupancy"] == {0: "Occupied", 1: "Vacant"}


@pytest.mark.parametrize("table", [table for table in TABLES if table.schema is PERSONS], ids=lambda table: table.name)
def test_every_possible_person_is_counted_in_its_leaf_and_in_whatever_contains_it_and_nowhere_else(
    table: RedistrictingTable,
) -> None:
    by_path = {cell.path: cell.counted for cell in table.cells}
    assert len(by_path) == len(table.cells)
    for cell, codes in enumerate(product(range(8), range(2), range(2), range(63))):
        path = leaf(table.name, *codes)
        within = {path[:depth] for depth in range(1, len(path) + 1)} if path else set()
        assert {place for place, counted in by_path.items() if counted[cell]} == within, codes


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_leaves_divide_the_universe_exactly(table: RedistrictingTable) -> None:
    times = np.sum([leaf.counted for leaf in table.leaves], axis=0)
    assert np.array_equal(times, table.cells[0].counted.astype(int))
    assert np.array_equal(table.leaf_of >= 0, table.cells[0].counted)
    for number, each in enumerate(table.leaves):
        assert np.array_equal(table.leaf_of == number, each.counted)
    added = table.add_leaves(np.array([each.counted for each in table.leaves]).astype(np.int64))
    for cell, counts in zip(table.cells, added, strict=True):
        assert np.array_equal(counts, cell.counted), cell.label


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_subtotal_is_the_sum_of_its_parts_for_any_histogram(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for table in TABLES:
        histogram = generator.integers(0, 10**9, size=table.schema.size)
        counts = {cell.path: int(histogram[cell.counted].sum()) for cell in table.cells}
        for path, count in counts.items():
            parts = [part for place, part in counts.items() if place[:-1] == path]
            assert not parts or sum(parts) == count, path
            assert bool(parts) == path[-1].endswith(":")


def test_every_code_of_the_histograms_has_words() -> None:
    for schema in (PERSONS, UNITS):
        for attribute in schema.attributes:
            assert list(CODES[attribute.name]) == list(range(attribute.size))
        for recode in schema.recodes:
            assert list(CODES[recode.name]) == sorted(set(recode.codes))


def test_races_are_combined_in_the_order_of_their_codes() -> None:
    assert len(RACE_COMBINATIONS) == len(set(RACE_COMBINATIONS)) == 63
    assert [CODES["cenrace"][code] for code in (0, 5, 6, 20, 62)] == [
        "White alone",
        "Some Other Race alone",
        "White; Black or African American",
        "Native Hawaiian and Other Pacific Islander; Some Other Race",
        "; ".join(SIX),
    ]
