"""The style of all charts, and their conversion to an asset's metadata.

The content of a chart is in the package of its stage. Pictures are made with matplotlib's objects and without its
global state, so that several threads can draw, and equal figures give equal bytes. Pages show them 720 pixels wide;
they are drawn at 1.5 times that resolution.

Importing matplotlib takes half a second, so only processes that draw import it: this module does so in its drawing
functions, and stages import their modules `charts` in theirs.
"""

from base64 import b64encode
from io import BytesIO
from textwrap import fill
from typing import TYPE_CHECKING

import dagster as dg
import numpy as np
from numpy.typing import NDArray

from assets.conventions import escape_markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150
WIDTH = 7.2
TITLE_LETTERS = 58
TITLE_LINE = 0.24
INK = "#1d2530"
QUIET = "#5b6573"
BLUE = "#0072b2"
PALE_BLUE = "#cfe3f1"
VERMILION = "#b84a00"
GRID = "#e3e7ec"
SERIES = (BLUE, "#8a5a00", "#00795a", "#a8447f", "#5e4fa2", "#5f7000", "#1b7a94", "#6b5527")
"""Colors of series; charts also label each series beside its color. Vermilion is reserved for a limit or a mark.

Every color but the pale ones, which only fill or separate, has a contrast of at least 4.5 : 1 to white."""


def blank(title: str, remark: str, height: float) -> "tuple[Figure, Axes]":
    """An empty chart with a title and a remark below it.

    Args:
        height: the height of the whole chart in inches, for a title of one line.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    title = fill(title, TITLE_LETTERS)
    height += TITLE_LINE * title.count("\n")
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, facecolor="white")
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    # Titles of datasets are not formulas, even if they contain dollar signs.
    lines = remark.count("\n") + 1
    axes.set_title(
        title,
        loc="left",
        pad=9 + 13 * lines,
        fontsize=13,
        fontweight="bold",
        color=INK,
        parse_math=False,
    )
    axes.annotate(
        remark,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 8),
        textcoords="offset points",
        fontsize=10,
        color=QUIET,
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    axes.tick_params(labelsize=10.5, colors=INK)
    axes.xaxis.label.set(size=11.5, color=INK)
    axes.yaxis.label.set(size=11.5, color=INK)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def shades(count: int) -> NDArray[np.float64]:
    """Colors for ordered lines, from dark to lighter, as rows of red, green, blue and opacity."""
    from matplotlib import colormaps

    shaded: NDArray[np.float64] = colormaps["plasma"](np.linspace(0.0, 0.48, count))
    return shaded


def png(figure: "Figure") -> bytes:
    """A figure as PNG bytes; equal figures give equal bytes."""
    content = BytesIO()
    figure.savefig(content, format="png", metadata={"Software": None})
    return content.getvalue()


def picture(content: bytes, words: str) -> dg.MarkdownMetadataValue:
    """PNG bytes as metadata that the UI renders as a picture.

    Args:
        words: a description of the picture with its main figures, for readers who cannot see it.
    """
    alternative = " ".join(escape_markdown(words).split())
    return dg.MetadataValue.md(f"![{alternative}](data:image/png;base64,{b64encode(content).decode()})")
