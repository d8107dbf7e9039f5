"""A page of panels and text that is written from top to bottom, with whatever height results.

This module is about layout: it wraps and measures text, and positions everything in inches. `charts` fills the page,
and `assets.pictures` defines the style.
"""

import re

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from assets.pictures import DOTS_PER_INCH, INK, WIDTH

MARGIN = 0.18
TEXT = 9.5
"""The font size of the text. Its lines are `LINE` high; those of other sizes are in proportion."""
LINE = 0.165
_PARTS = re.compile("[^_]*_+|[^_]+")


class Sheet:
    """A page that is written from top to bottom; positions are in inches from its upper left corner.

    Everything is kept until the height of the page is known.
    """

    def __init__(self) -> None:
        self._figure = Figure(figsize=(WIDTH, 1), dpi=DOTS_PER_INCH, facecolor="white")
        self._canvas = FigureCanvasAgg(self._figure)
        self._texts: list[tuple[float, float, str, dict[str, object]]] = []
        self._axes: list[tuple[Axes, float, float, float, float]] = []
        self.down = MARGIN

    def width(self, text: str, size: float, weight: str = "normal") -> float:
        """The width of a text in inches."""
        font = FontProperties(size=size, weight=weight)
        wide, _, _ = self._canvas.get_renderer().get_text_width_height_descent(text, font, False)
        return float(wide) / DOTS_PER_INCH

    def wrapped(self, text: str, size: float, width: float, weight: str = "normal") -> list[str]:
        """Wrap a text into lines of at most `width` inches.

        A word that is too long for a line is broken too: after an underscore if possible, because the names of
        releases contain underscores.
        """
        lines = [""]

        def fits(more: str) -> bool:
            return self.width(lines[-1] + more, size, weight) <= width

        for word in text.split():
            if fits(f" {word}" if lines[-1] else word):
                lines[-1] += f" {word}" if lines[-1] else word
                continue
            if lines[-1]:
                lines.append("")
            for part in _PARTS.findall(word):
                if lines[-1] and not fits(part):
                    lines.append("")
                for letter in part:
                    if lines[-1] and not fits(letter):
                        lines.append("")
                    lines[-1] += letter
        return lines

    def write(self, right: float, down: float, text: str, size: float, **look: object) -> None:
        """Place a text by its upper left corner, unless `look` says otherwise."""
        self._texts.append((right, down, text, {"fontsize": size, "color": INK, "va": "top"} | look))

    def say(self, text: str, size: float, **look: object) -> None:
        """Write a paragraph over the whole width, and continue below it."""
        height = LINE * size / TEXT
        for line in self.wrapped(text, size, WIDTH - 2 * MARGIN, str(look.get("weight", "normal"))):
            self.write(MARGIN, self.down, line, size, **look)
            self.down += height
        self.down += 0.05

    def plot(self, right: float, width: float, height: float) -> Axes:
        """Axes at the current position."""
        axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.append((axes, right, self.down, width, height))
        return axes

    def finished(self) -> Figure:
        """The finished page."""
        height = self.down + MARGIN
        self._figure.set_size_inches(WIDTH, height)
        for axes, right, down, width, tall in self._axes:
            axes.set_position((right / WIDTH, 1 - (down + tall) / height, width / WIDTH, tall / height))
        for right, down, text, look in self._texts:
            self._figure.text(right / WIDTH, 1 - down / height, text, parse_math=False, **look)  # type: ignore[arg-type]
        return self._figure
