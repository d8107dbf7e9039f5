"""The cells of each detail: ages that nest, sums that agree, thresholds that count when equal, and the tables of H."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.safetab.details import (
    AGES,
    DATA_CELLS,
    DETAILS,
    FINEST,
    HOUSEHOLD_CELLS,
    HOUSEHOLD_TABLES,
    HouseholdTable,
    cells,
    find_details,
    fold,
)

TABLES = [table for tables in HOUSEHOLD_TABLES.values() for table in tables]


def test_each_detail_has_the_published_number_of_cells() -> None:
    assert [cells(detail) for detail in DETAILS] == [1, 8, 18, 46]
    assert FINEST == 46


def test_the_age_groups_are_the_published_ones() -> None:
    text = {detail: ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in AGES[detail]) for detail in AGES}
    assert text[1] == "0–17, 18–44, 45–64, 65–115"
    assert text[2] == "0–4, 5–17, 18–24, 25–34, 35–44, 45–54, 55–64, 65–74, 75–115"
    assert text[3] == (
        "0–4, 5–9, 10–14, 15–17, 18–19, 20, 21, 22–24, 25–29, 30–34, 35–39, 40–44, 45–49, 50–54, 55–59, 60–61, 62–64, "
        "65–66, 67–69, 70–74, 75–79, 80–84, 85–115"
    )


def cell_of(detail: int, sex: int, age: int) -> int:
    """The cell of a person, by the definition: sexes first, then age groups."""
    place = next(place for place, (first, last) in enumerate(AGES[detail]) if first <= age <= last)
    return (sex - 1) * len(AGES[detail]) + place


@pytest.mark.parametrize("detail", [1, 2, 3])
def test_every_person_is_in_the_cell_of_their_sex_and_age(detail: int) -> None:
    for sex, age in product((1, 2), range(116)):
        finest = np.zeros(FINEST, dtype=np.int64)
        finest[cell_of(3, sex, age)] = 1
        assert np.flatnonzero(fold(detail, finest)).tolist() == [cell_of(detail, sex, age)]
        assert fold(0, finest).tolist() == [1]


def test_counts_of_many_groups_are_added_up_group_by_group() -> None:
    counts = np.random.default_rng(5).integers(0, 100, (3, 4, FINEST))
    for detail in DETAILS:
        found = fold(detail, counts)
        assert found.shape == (3, 4, cells(detail))
        assert (found.sum(axis=-1) == counts.sum(axis=-1)).all()
        assert (found[1, 2] == fold(detail, counts[1, 2])).all()


@given(st.lists(st.integers(-50, 50), min_size=3, max_size=3), st.lists(st.integers(-60, 60)))
def test_a_detail_is_the_number_of_thresholds_reached(thresholds: list[int], totals: list[int]) -> None:
    expected = [sum(threshold <= total for threshold in thresholds) for total in totals]
    assert find_details(np.array(totals, dtype=np.int64), sorted(thresholds)).tolist() == expected


PUBLISHED = {
    "T03001": ({1: 0, 2: 0, 3: 0, 4: 0, 5: 0}, set()),
    "T03002": ({1: 1, 2: 1, 3: 1, 4: 6, 5: 6}, {0}),
    "T03003": ({1: 2, 2: 3, 3: 3, 4: 7, 5: 8}, {0, 1, 6}),
    "T03004": ({1: 2, 2: 4, 3: 5, 4: 7, 5: 8}, {0, 1, 3, 6}),
    "T04001": ({1: 0, 2: 0, 3: 0, 4: 0}, set()),
    "T04002": ({1: 1, 2: 2, 3: 3, 4: 3}, {0}),
}
"""The data cell of each code of HOUSEHOLD_TYPE or TEN, and the margins added (SafeTab-H's specification)."""

HOLDS = {
    "T3": {0: {1, 2, 3, 4, 5}, 1: {1, 2, 3}, 2: {1}, 3: {2, 3}, 4: {2}, 5: {3}, 6: {4, 5}, 7: {4}, 8: {5}},
    "T4": {0: {1, 2, 3, 4}, 1: {1}, 2: {2}, 3: {3, 4}},
}
"""The codes that each data cell counts."""


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_each_table_of_households_has_the_published_cells(table: HouseholdTable) -> None:
    cell_of_code, margins = PUBLISHED[table.name]
    assert {code: cell for cell, held in table.basis.items() for code in held} == cell_of_code
    assert set(table.margins) == margins
    assert list(table.data_cells) == sorted({*table.basis, *table.margins})
    assert len(table.data_cells) == {"T3": (1, 3, 7, 9), "T4": (1, 4)}[table.family][table.detail]
    for cell, basis in table.data_cells.items():
        held = [code for each in basis for code in table.basis[each]]
        assert len(held) == len(set(held))
        assert set(held) == HOLDS[table.family][cell]
    assert set(DATA_CELLS[table.family]) >= set(table.data_cells)


def test_the_variance_of_each_total_is_the_published_multiple() -> None:
    assert {table.name: len(table.data_cells[0]) for table in TABLES} == {
        "T03001": 1, "T03002": 2, "T03003": 4, "T03004": 5, "T04001": 1, "T04002": 3,
    }  # fmt: skip


def test_tables_are_listed_by_detail() -> None:
    for family, tables in HOUSEHOLD_TABLES.items():
        assert [table.detail for table in tables] == list(range(len(tables)))
        assert {table.family for table in tables} == {family}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_household_is_in_the_cell_of_its_type_or_tenure(table: HouseholdTable) -> None:
    for household_type, tenure in product(range(1, 6), range(1, 5)):
        finest = np.zeros((2, HOUSEHOLD_CELLS), dtype=np.int64)
        finest[1, (household_type - 1) * 4 + tenure - 1] = 7
        found = table.fold(finest)
        code = household_type if table.family == "T3" else tenure
        expected = [7 * (PUBLISHED[table.name][0][code] == cell) for cell in table.basis]
        assert found.tolist() == [[0] * len(table.basis), expected]
