"""A picture of the differencing attack: two tables that differ by one case, under both consistencies.

The tables are drawn by the code that draws those of a release, from a p-table of greatest entropy and a fixed key.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from assets.pictures import GRID, INK, QUIET, VERMILION
from docs.pictures.shapes import WHITE, Box, Drawing, Text
from mechanisms.table_builder.entropy import Parameters, make
from mechanisms.table_builder.keys import KeyedWords, record_keys
from mechanisms.table_builder.p_table import PTable

KEY = bytes(31) + b"\x0c"
GROUPS = ("under 15", "15 to 24", "25 to 34", "35 to 44", "45 to 54", "55 to 64", "65 to 74", "75 and over")
COUNTS = (14, 9, 0, 21, 6, 17, 4, 0)
"""How many of the records are in each group; the case in question is one of them."""
CASE = 4
"""The group of the case in question."""
PARAMETERS = Parameters(5, Fraction(3), 2)

_MARKED = "#fbe3d6"
_ROW = 28


def two_tables(table: PTable, consistency: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The table of all records, and the one without the case in question.

    Args:
        table: the p-table.
        consistency: `cell` or `query`.
    """
    groups = np.repeat(np.arange(len(COUNTS)), COUNTS)
    keys = record_keys(KEY, np.array([[0, record] for record in range(len(groups))], dtype=np.uint64))
    left_out = int(np.flatnonzero(groups == CASE)[0])
    results = []
    for universe, kept in (
        ("all", np.arange(len(groups))),
        ("without one", np.delete(np.arange(len(groups)), left_out)),
    ):
        sums = [_sum(keys[kept][groups[kept] == group]) for group in range(len(COUNTS))]
        cell_keys = np.array([[each >> 64, each % 2**64] for each in sums], dtype=np.uint64)
        words = KeyedWords(KEY, cell_keys, None if consistency == "cell" else f"age groups, universe: {universe}")
        counts = np.bincount(groups[kept], minlength=len(COUNTS))
        results.append(table.draw_by_cell(counts, words))
    return results[0], results[1]


def differencing_drawing() -> Drawing:
    """Both tables and their difference, under cell consistency and under query consistency."""
    table = make(PARAMETERS).table
    drawing = Drawing(150 + _ROW * len(GROUPS) + 48)
    drawing.add(
        Text(20, 20, "Two tables that differ by one case", 16, bold=True),
        Text(
            20,
            42,
            "One person, of the group in bold, is in the first table and not in the second. The boxes are published.",
            12,
            QUIET,
        ),
        Text(20, 118, "Age", 12, QUIET),
        Text(190, 118, "records", 12, QUIET, align="right"),
    )
    for left, name in ((220, "cell"), (560, "query")):
        drawing.add(Text(left + 30, 84, f"{name.capitalize()} consistency", 13.5, bold=True))
        for right, head in ((110, "all"), (200, "without one"), (300, "difference")):
            drawing.add(Text(left + right, 118, head, 12, QUIET, align="right"))
        first, second = two_tables(table, name)
        for row, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            y = 150 + _ROW * row
            fill = _MARKED if one != other else WHITE
            if one != other:
                drawing.add(Box(left + 20, y - 13, 300, 26, fill, VERMILION))
            else:
                drawing.add(Box(left + 20, y - 13, 300, 26, fill, GRID))
            for right, number in ((110, str(one)), (200, str(other)), (300, _signed(one - other))):
                drawing.add(Text(left + right, y, number, 13, INK, fill, "right", bold=right == 300 and one != other))
    for row, (name, count) in enumerate(zip(GROUPS, COUNTS, strict=True)):
        y = 150 + _ROW * row
        drawing.add(Text(20, y, name, 13, bold=row == CASE), Text(190, y, str(count), 13, QUIET, align="right"))
    words = "Under cell consistency, only the person's own group can differ: whoever subtracts the tables reads it off."
    drawing.add(Text(20, 150 + _ROW * len(GROUPS) + 16, words, 12))
    return drawing


def _sum(keys: NDArray[np.uint64]) -> int:
    return sum((upper << 64) + lower for upper, lower in keys.tolist()) % 2**128


def _signed(number: int) -> str:
    return f"{number:+d}".replace("-", "−") if number else "0"
