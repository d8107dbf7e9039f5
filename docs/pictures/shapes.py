"""Shapes on a canvas, and PNG files of them that carry the shapes as text. Lengths are pixels at a width of 900; a file
has half as many again in each direction."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Polygon
from PIL import Image

from assets.pictures import INK, QUIET

WIDTH = 900
WHITE = "#ffffff"
SHAPES = "Stirred shapes"
"""The name under which a file carries its shapes."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle with rounded corners."""

    left: float
    top: float
    width: float
    height: float
    fill: str
    edge: str
    line: float = 1.0

    @property
    def center(self) -> Point:
        return self.left + self.width / 2, self.top + self.height / 2


@dataclass(frozen=True)
class Text:
    """A line of text; `align` is where its anchor is: left, center or right. Vertically it is centered."""

    x: float
    y: float
    text: str
    size: float
    color: str = INK
    background: str = WHITE
    align: str = "left"
    bold: bool = False


@dataclass(frozen=True)
class Arrow:
    """A line through points, with a head at the last, from one shape to another."""

    source: str
    target: str
    points: tuple[Point, ...]
    color: str


@dataclass(frozen=True)
class Line:
    """A dashed line without a head."""

    points: tuple[Point, ...]
    color: str


@dataclass(frozen=True)
class Diamond:
    """A mark at a point."""

    x: float
    y: float
    color: str


Shape = Box | Text | Arrow | Line | Diamond


@dataclass
class Drawing:
    """Shapes on a canvas, the first at the bottom."""

    height: float = 0
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        self.shapes += shapes

    def write(self, x: float, y: float, text: str, size: float = 12, color: str = INK, **look: Any) -> None:
        """Add a line of text; `look` has the other fields of `Text`."""
        self.add(Text(x, y, text, size, color, **look))

    def write_head(self, title: str, words: str) -> None:
        self.write(20, 20, title, 16, bold=True)
        self.write(20, 42, words, color=QUIET)

    def text(self) -> str:
        """All shapes as JSON, a line each."""
        lines = [json.dumps({"height": self.height})]
        lines += [json.dumps({type(shape).__name__: asdict(shape)}, ensure_ascii=False) for shape in self.shapes]
        return "\n".join(lines)


def save(drawing: Drawing, path: Path) -> None:
    """Draw the shapes as PNG; the file holds them as text too."""
    dots = 100
    figure = Figure(figsize=(WIDTH / dots, drawing.height / dots), dpi=1.5 * dots, facecolor=WHITE)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(drawing.height, 0)
    axes.axis("off")
    for order, shape in enumerate(drawing.shapes):
        match shape:
            case Box():
                axes.add_patch(
                    FancyBboxPatch(
                        (shape.left, shape.top), shape.width, shape.height, boxstyle="round,pad=0,rounding_size=4",
                        facecolor=shape.fill, edgecolor=shape.edge, linewidth=0.72 * shape.line, zorder=order,
                    )
                )  # fmt: skip
            case Text():
                axes.text(
                    shape.x, shape.y, shape.text, fontsize=0.72 * shape.size, color=shape.color, ha=shape.align,
                    va="center", fontweight="bold" if shape.bold else "normal", zorder=order, parse_math=False,
                )  # fmt: skip
            case Arrow():
                axes.plot(*zip(*shape.points, strict=True), color=shape.color, linewidth=1.0, zorder=order)
                head = _find_corners(*shape.points[-2:])
                axes.add_patch(Polygon(head, facecolor=shape.color, edgecolor="none", zorder=order))
            case Line():
                across = zip(*shape.points, strict=True)
                axes.plot(*across, color=shape.color, linewidth=0.9, linestyle="--", zorder=order)
            case Diamond():
                corners = [(shape.x + x, shape.y + y) for x, y in ((0, -7), (7, 0), (0, 7), (-7, 0))]
                axes.add_patch(Polygon(corners, facecolor=shape.color, edgecolor=WHITE, zorder=order))
    figure.savefig(path, metadata={"Software": None, SHAPES: drawing.text()}, pil_kwargs={"optimize": True})


def _find_corners(before: Point, tip: Point) -> list[Point]:
    across, down = tip[0] - before[0], tip[1] - before[1]
    length = (across**2 + down**2) ** 0.5
    x, y = across / length, down / length
    return [tip, *((tip[0] - 8 * x - 4 * side * y, tip[1] - 8 * y + 4 * side * x) for side in (1, -1))]


def read_shapes(path: Path) -> str:
    with Image.open(path) as picture:
        picture.load()
        return str(getattr(picture, "text", {}).get(SHAPES, ""))
