"""The differencing attack of papers/002, Appendix C: two tables that differ by one case.

Everyone knows that the second table leaves out one person, and who that person is. The person's cell must not be
disclosed. Under cell consistency, all cells without that person have the same records in both tables, hence the same
results: a difference that is not 0 shows the person's cell with certainty. Under query consistency, each table has its
own noise.
"""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from docs.pictures.differencing import CASE, PARAMETERS, draw_two_tables
from mechanisms.table_builder.entropy import Parameters, make
from mechanisms.table_builder.keys import KeyedWords, record_keys
from mechanisms.table_builder.p_table import PTable

CELLS, RECORDS = 20, 300
TABLE = make(Parameters(5, Fraction(3), 2)).table


def sums(keys: NDArray[np.uint64], cells: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The key of every cell: the sum of its records' keys modulo 2^128."""
    whole = [0] * CELLS
    for (upper, lower), cell in zip(keys.tolist(), cells.tolist(), strict=True):
        whole[cell] = (whole[cell] + (upper << 64) + lower) % 2**128
    return np.array([[key >> 64, key % 2**64] for key in whole], dtype=np.uint64)


def published(
    seed: int, table: PTable, consistency: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]:
    """The exact counts, the table of all records, the one that leaves out the last record, and that record's cell."""
    cells = np.random.default_rng(seed).integers(0, CELLS - 2, RECORDS)
    keys = record_keys(seed.to_bytes(32, "big"), np.array([[0, record] for record in range(RECORDS)], dtype=np.uint64))
    tables = []
    for universe, known in (("all", RECORDS), ("all but one", RECORDS - 1)):
        query = None if consistency == "cell" else f"counts by cell, universe: {universe}"
        words = KeyedWords(seed.to_bytes(32, "big"), sums(keys[:known], cells[:known]), query)
        counts = np.bincount(cells[:known], minlength=CELLS)
        tables.append((counts, table.draw_by_cell(counts, words)))
    return tables[0][0], tables[0][1], tables[1][1], int(cells[-1])


def guess(first: NDArray[np.int64], second: NDArray[np.int64]) -> int | None:
    """The attacker's answer: the one cell that differs, if there is one."""
    differing = np.flatnonzero(first != second)
    return int(differing[0]) if len(differing) == 1 else None


def test_cell_consistency_discloses_the_attribute_of_the_one_case_that_two_tables_differ_by() -> None:
    """The answer is right where the results of the person's cell differ; the results of other cells never differ."""
    right = wrong = silent = 0
    for seed in range(60):
        _, first, second, cell = published(seed, TABLE, "cell")
        answer = guess(first, second)
        right, wrong, silent = right + (answer == cell), wrong + (answer not in (cell, None)), silent + (answer is None)
    assert wrong == 0
    assert right > 40
    assert right + silent == 60


def test_query_consistency_gives_no_such_answer() -> None:
    """Most cells differ: that all but one agree has a probability below 1e-8 in each pair of tables."""
    for seed in range(60):
        _, first, second, _ = published(seed, TABLE, "query")
        assert guess(first, second) is None
        assert np.count_nonzero(first != second) > CELLS // 4


@pytest.mark.parametrize("consistency", ["cell", "query"])
def test_the_same_question_has_the_same_answer(consistency: str) -> None:
    assert np.array_equal(published(1, TABLE, consistency)[1], published(1, TABLE, consistency)[1])


def test_under_cell_consistency_all_empty_cells_have_the_same_noise() -> None:
    """They share the key 0. A p-table that perturbs zeros shows it: under query consistency they differ."""
    wide = PTable.of([{result: Fraction(1, 1000) for result in range(1000)}])
    counts, first, _, _ = published(3, wide, "cell")
    assert np.count_nonzero(counts == 0) >= 2
    assert len(set(first[counts == 0].tolist())) == 1
    counts, first, _, _ = published(3, wide, "query")
    assert len(set(first[counts == 0].tolist())) > 1


def test_the_picture_of_the_documentation_shows_the_attack() -> None:
    table = make(PARAMETERS).table
    first, second = draw_two_tables(table, "cell")
    assert guess(first, second) == CASE
    first, second = draw_two_tables(table, "query")
    assert guess(first, second) is None
