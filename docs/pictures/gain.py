"""A picture of the gain from full information, from the measured errors on the page that explains it."""

import csv
from pathlib import Path

from assets.pictures import BLUE, GRID, QUIET
from docs.pictures.shapes import WHITE, Box, Drawing

ERRORS = Path(__file__).parents[1] / "mechanisms" / "topdown-gain.csv"

_LEFT, _TOP, _WIDTH, _HEIGHT, _BAR = 190, 108, 116, 34, 62


def read_errors(path: Path) -> tuple[list[str], dict[str, list[tuple[float, float] | None]]]:
    """The levels, and by measure the mean error at each with own levels and in full; None where a count is held."""
    levels: dict[str, None] = {}
    errors: dict[str, list[tuple[float, float] | None]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["census"] == "two_states" and "bias" not in row["error"]:
                levels[row["level"]] = None
                own, full = row["own_levels"], row["full"]
                errors.setdefault(row["error"], []).append(None if own == "held" else (float(own), float(full)))
    return list(levels), errors


def draw_gain() -> Drawing:
    levels, errors = read_errors(ERRORS)
    drawing = Drawing(_TOP + _HEIGHT * len(errors) + 40)
    drawing.write_head(
        "The error that is left with full information",
        "Mean absolute error of full estimation, in percent of that of own levels. Full boxes: no gain.",
    )
    for column, level in enumerate(levels):
        drawing.write(_LEFT + _WIDTH * column, _TOP - 28, level, 13, bold=True)
    for row, (name, pairs) in enumerate(errors.items()):
        y = _TOP + _HEIGHT * row
        drawing.write(20, y, name, 13)
        for column, pair in enumerate(pairs):
            left = _LEFT + _WIDTH * column
            if pair is None:
                drawing.write(left, y, "held exactly", 12, QUIET)
                continue
            share = pair[1] / pair[0]
            drawing.add(Box(left, y - 8, _BAR, 16, WHITE, GRID), Box(left, y - 8, max(_BAR * share, 9), 16, BLUE, BLUE))
            drawing.write(left + _BAR + 8, y, f"{share:.0%}", 12)
    drawing.write(
        20, _TOP + _HEIGHT * len(errors) + 8, "Five draws of the dataset two_states, measured 2026-11-26.", 12, QUIET
    )
    return drawing
