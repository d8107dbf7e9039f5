"""The palette of all charts can be read on white."""

import pytest
from matplotlib.colors import to_hex, to_rgb

from assets.pictures import BLUE, INK, QUIET, SERIES, VERMILION, picture, shades

LEAST = 4.5
"""WCAG 2, level AA, for text."""


def contrast(color: str) -> float:
    """The contrast of a color to white by WCAG 2, from 1 to 21."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color))
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


def test_the_contrast_is_that_of_the_standard() -> None:
    assert (contrast("white"), contrast("black")) == pytest.approx((1, 21))
    assert contrast("#767676") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize(
    "color", [INK, QUIET, BLUE, VERMILION, *SERIES, *(to_hex(shade) for count in (1, 7, 40) for shade in shades(count))]
)
def test_every_color_stands_out_from_white(color: str) -> None:
    assert contrast(color) >= LEAST


def test_the_colors_of_series_differ_from_each_other_and_from_the_mark() -> None:
    assert len({VERMILION, *SERIES}) == 1 + len(SERIES)


def test_a_picture_has_an_alternative_text_that_markdown_leaves_alone() -> None:
    shown = picture(b"png", "a [b]\nof s_dhc * 2").md_str
    assert shown == r"![a \[b\] of s\_dhc \* 2](data:image/png;base64,cG5n)"
