"""The colors of pages, which all of them share: text stands out in a light and in a dark theme."""

import re
from pathlib import Path

from assets import publication

FOLDER = Path(publication.__file__).parent
TEXTS, PAPERS = ("ink", "quiet", "accent", "warn", "good", "bad"), ("paper", "band", "warn-band")
CONTRAST = 4.5
"""WCAG 2.2, success criterion 1.4.3."""


def test_text_stands_out_in_both_themes_and_no_page_has_a_color_of_its_own() -> None:
    """It fails for a page that is dark on dark, or that a dark theme leaves half light."""
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#\w+)", theme)) for theme in (FOLDER / "colors.css").read_text().split("@media")
    )
    assert set(light) == set(dark)
    for theme in (light, dark):
        for text in TEXTS:
            for paper in PAPERS:
                low, high = sorted((luminance(theme[text]), luminance(theme[paper])))
                assert (high + 0.05) / (low + 0.05) >= CONTRAST, (text, paper)
    for page in FOLDER.glob("*.html"):
        style = page.read_text().partition("</style>")[0]
        assert '{% include "colors.css" %}' in style, page.name
        assert set(re.findall(r"var\(--([a-z-]+)\)", style)) <= set(light), page.name
        assert not re.search(r"#[0-9a-f]{3,6}\b", re.sub("@page.*", "", style)), page.name


def luminance(color: str) -> float:
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
