"""The charts have the stated size, are reproducible, and show the right figures."""

import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from assets.swapping.plan import estimate_epsilon
from assets.swapping.utility import draw_boxplots, draw_epsilon
from mechanisms.swapping.loss import smallest_attainable, theorem_1

ERRORS = {Fraction(rate, 100): [0.007 * rate + 0.0004 * draw for draw in range(20)] for rate in (1, 5, 10, 25, 50)}
RELEASE = (264_331, Fraction(1, 2))


def _chunks(png: bytes) -> dict[bytes, bytes]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, place = {}, 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        chunks[png[place + 4 : place + 8]] = png[place + 8 : place + 8 + length]
        place += 12 + length
    return chunks


def test_a_chart_is_a_png_1080_pixels_wide_that_names_no_program_and_no_time() -> None:
    for picture in (draw_boxplots(ERRORS, "Error"), draw_epsilon(RELEASE)):
        chunks = _chunks(picture)
        width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
        assert width == 1080
        assert 600 <= height <= 900
        assert not {b"tEXt", b"iTXt", b"zTXt", b"tIME", b"eXIf"} & chunks.keys()


@pytest.mark.prove
def test_the_same_figures_give_the_same_bytes_in_concurrent_threads() -> None:
    with ThreadPoolExecutor(4) as pool:
        boxes = set(pool.map(lambda _: draw_boxplots(ERRORS, "Error"), range(4)))
        curves = set(pool.map(lambda _: draw_epsilon(RELEASE), range(4)))
    assert (len(boxes), len(curves)) == (1, 1)


def test_the_order_in_which_figures_are_given_does_not_matter() -> None:
    assert draw_boxplots(dict(reversed(ERRORS.items())), "Error") == draw_boxplots(ERRORS, "Error")


@pytest.mark.prove
def test_other_figures_give_another_picture() -> None:
    pictures = [
        draw_boxplots(ERRORS, "Error"),
        draw_boxplots(ERRORS, "Other error"),
        draw_boxplots(ERRORS | {Fraction(1, 2): [0.4] * 20}, "Error"),
        draw_epsilon(RELEASE),
        draw_epsilon(None),
        draw_epsilon((264_331, Fraction(1, 4))),
    ]
    assert len(set(pictures)) == len(pictures)


@pytest.mark.parametrize("size", [2, 3, 10, 1_000, 264_331, 1_000_000])
def test_the_drawn_curve_is_theorem_1(size: int) -> None:
    rates = [Fraction(percent, 1000) for percent in range(5, 1000, 5)]
    drawn = estimate_epsilon(size, np.array([float(rate) for rate in rates]))
    assert drawn == pytest.approx([float(theorem_1(size, rate)) for rate in rates], rel=1e-12)
    smallest, rate = smallest_attainable(size)
    assert estimate_epsilon(size, np.array([rate])) == pytest.approx([smallest])
    assert (drawn >= smallest - 1e-12).all()


def test_titles_are_plain_text_and_not_formulas() -> None:
    assert draw_boxplots(ERRORS, r"Income under $10_000 or over $\frac{20") != draw_boxplots(ERRORS, "Error")


def test_a_release_without_distinct_records_in_a_stratum_can_be_marked() -> None:
    assert draw_epsilon((0, Fraction(1, 2))) != draw_epsilon(None)


@pytest.mark.parametrize("draws", [[0.0], [0.0, 0.0], [0.25]])
def test_boxes_of_few_or_perfect_draws_can_be_drawn(draws: Sequence[float]) -> None:
    assert _chunks(draw_boxplots({Fraction(1, 3): draws}, "Error"))
