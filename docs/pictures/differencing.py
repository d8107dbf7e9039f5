"""A picture of the differencing attack: two tables that differ by one case, under both consistencies.

The code that perturbs the tables of a release makes these tables, from a p-table of greatest entropy and a fixed key.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from assets.pictures import GRID, QUIET, VERMILION
from docs.pictures.shapes import WHITE, Box, Drawing
from mechanisms.table_builder.entropy import Parameters, make
from mechanisms.table_builder.keys import KeyedWords, record_keys
from mechanisms.table_builder.p_table import PTable

KEY = bytes(31) + b"\x0c"
GROUPS = ("under 15", "15 to 24", "25 to 34", "35 to 44", "45 to 54", "55 to 64", "65 to 74", "75 and over")
COUNTS = (14, 9, 0, 21, 6, 17, 4, 0)
"""The number of records in each group, including the case in question."""
CASE = 4
"""The group of the case in question."""
PARAMETERS = Parameters(5, Fraction(3), 2)

_MARKED = "#fbe3d6"
_TOP, _ROW = 150, 28


def draw_two_tables(table: PTable, consistency: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The table of all records, and the one without the case in question, under `cell` or `query` consistency."""
    groups = np.repeat(np.arange(len(COUNTS)), COUNTS)
    keys = record_keys(KEY, np.array([[0, record] for record in range(len(groups))], dtype=np.uint64))
    left_out = int(np.flatnonzero(groups == CASE)[0])
    everyone = np.arange(len(groups))
    results = []
    for universe, records in (("all", everyone), ("without one", np.delete(everyone, left_out))):
        sums = [_sum(keys[records][groups[records] == group]) for group in range(len(COUNTS))]
        cell_keys = np.array([[total >> 64, total % 2**64] for total in sums], dtype=np.uint64)
        words = KeyedWords(KEY, cell_keys, None if consistency == "cell" else f"age groups, universe: {universe}")
        results.append(table.draw_by_cell(np.bincount(groups[records], minlength=len(COUNTS)), words))
    return results[0], results[1]


def draw_differencing() -> Drawing:
    table = make(PARAMETERS).table
    drawing = Drawing(_TOP + _ROW * len(GROUPS) + 48)
    drawing.write_head(
        "Two tables that differ by one case",
        "One person, of the group in bold, is in the first table and not in the second. The boxes are published.",
    )
    drawing.write(20, 118, "Age", color=QUIET)
    drawing.write(190, 118, "records", color=QUIET, align="right")
    for left, name in ((220, "cell"), (560, "query")):
        drawing.write(left + 30, 84, f"{name.capitalize()} consistency", 13.5, bold=True)
        for right, head in ((110, "all"), (200, "without one"), (300, "difference")):
            drawing.write(left + right, 118, head, color=QUIET, align="right")
        first, second = draw_two_tables(table, name)
        for row, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            y, differ = _TOP + _ROW * row, one != other
            fill, edge = (_MARKED, VERMILION) if differ else (WHITE, GRID)
            drawing.add(Box(left + 20, y - 13, 300, 26, fill, edge))
            for right, number in ((110, str(one)), (200, str(other))):
                drawing.write(left + right, y, number, 13, background=fill, align="right")
            drawing.write(left + 300, y, _signed(one - other), 13, background=fill, align="right", bold=differ)
    for row, (name, count) in enumerate(zip(GROUPS, COUNTS, strict=True)):
        y = _TOP + _ROW * row
        drawing.write(20, y, name, 13, bold=row == CASE)
        drawing.write(190, y, str(count), 13, QUIET, align="right")
    words = "Under cell consistency, only the person's own group can differ: whoever subtracts the tables reads it off."
    drawing.write(20, _TOP + _ROW * len(GROUPS) + 16, words)
    return drawing


def _sum(keys: NDArray[np.uint64]) -> int:
    return sum((upper << 64) + lower for upper, lower in keys.tolist()) % 2**128


def _signed(number: int) -> str:
    return f"{number:+d}".replace("-", "−") if number else "0"
