"""The imports between parts of the code, from the parsed modules, and their picture."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from assets.pictures import BLUE, INK, PALE_BLUE, QUIET, VERMILION
from docs.pictures.shapes import WHITE, Arrow, Box, Drawing

ROOT = Path(__file__).resolve().parents[2]

LAYERS = {
    "stirred": "the public Python package, thin over the layers",
    "orchestration": "what Dagster loads: components, automation, and which releases this deployment has",
    "assets: mechanisms": "a package of stages for each mechanism",
    "assets: shared stages": "stages that all mechanisms use",
    "assets: release": "the interface that a mechanism fills in, the values that stages exchange, and conventions",
    "resources": "what holds state: warehouse, custody of keys, ledger",
    "mechanisms": "the mathematics, without Dagster, DuckDB or files",
}
"""The layers from top to bottom, and their contents."""

FOLDERS = frozenset(name.partition(":")[0] for name in LAYERS)
"""The folders that the layers are in."""

PALE_GREY = "#f3f5f8"
TRUNKS = ("#8a6100", BLUE, VERMILION, "#00795a", "#7b3f8c", QUIET)
"""Colors of the arrows by the layer that they start in."""


def list_modules(root: Path = ROOT) -> list[str]:
    """Every module of the layers, as a path such as `assets/gates/shared`."""
    paths = [path for folder in sorted(FOLDERS) for path in sorted((root / folder).rglob("*.py"))]
    return [path.relative_to(root).with_suffix("").as_posix() for path in paths]


def list_module_imports(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Every module of the layers with each name of theirs that it imports."""
    for module in list_modules(root):
        for node in ast.walk(ast.parse((root / f"{module}.py").read_text("utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                # A name imported from a package may be one of its modules.
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((module, name.replace(".", "/")) for name in names if name.split(".")[0] in FOLDERS)


def find_part(module: str) -> str:
    """The part of the code that a module belongs to, such as `assets/gates` or `resources/ledger`."""
    return "/".join(module.split("/")[:2])


def find_layer(name: str, root: Path = ROOT) -> str:
    top, _, rest = name.partition("/")
    if top != "assets":
        return top
    if (root / "mechanisms" / rest).is_dir():
        return "assets: mechanisms"
    shared = (root / name).is_dir() and rest != "release"
    return "assets: shared stages" if shared else "assets: release"


def list_arrows(root: Path = ROOT) -> set[tuple[str, str]]:
    """The arrows of the picture: between layers, and between the parts of one layer of `assets`."""
    arrows = set()
    for one, other in {(find_part(module), find_part(name)) for module, name in list_module_imports(root)}:
        above, below = find_layer(one, root), find_layer(other, root)
        if above != below:
            arrows.add((above, below))
        elif one != other and above.startswith("assets"):
            arrows.add((one, other))
    return arrows


def arrange_rows(parts: Iterable[str], arrows: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Parts in rows, so that every arrow between them points to a row further down."""
    inner = {name: {target for source, target in arrows if source == name} for name in parts}
    rows: list[list[str]] = []
    while inner:
        # The lowest rows first: parts that import none of the remaining parts.
        row = sorted(name for name, targets in inner.items() if not targets & inner.keys())
        if not row:
            raise ValueError(f"imports go round in a circle: {', '.join(sorted(inner))}")
        rows.insert(0, row)
        inner = {name: targets for name, targets in inner.items() if name not in row}
    return rows


def measure_chip(part: str) -> float:
    """The width of the box of a part, enough for its full name."""
    return 24 + 8.2 * len(part.partition("/")[2])


def wrap_row(row: Iterable[str], width: float) -> list[list[str]]:
    """Parts of one row in as many lines as they need."""
    lines: list[list[str]] = [[]]
    for part in row:
        if lines[-1] and sum(measure_chip(other) + 8 for other in [*lines[-1], part]) > width:
            lines.append([])
        lines[-1].append(part)
    return lines


def draw_layers(root: Path = ROOT) -> Drawing:
    arrows = list_arrows(root)
    parts: dict[str, set[str]] = {name: set() for name in LAYERS}
    for name in map(find_part, list_modules(root)):
        if not name.endswith("__init__"):
            parts[find_layer(name, root)].add(name)
    drawing, boxes = Drawing(), dict[str, Box]()
    top, left, width = 64.0, 20.0, 710.0
    edge = left + width
    drawing.write_head(
        "The layers, and which imports which",
        "An arrow points from what imports to what is imported. Every arrow points down.",
    )
    for name, words in LAYERS.items():
        fill = PALE_BLUE if name.startswith("assets") else PALE_GREY
        rows = [line for row in arrange_rows(parts[name], arrows) for line in wrap_row(row, width - 24)]
        boxes[name] = Box(left, top, width, 34 + 44.0 * len(rows), fill, QUIET)
        drawing.add(boxes[name])
        drawing.write(left + 12, top + 17, name, 13, background=fill, bold=True)
        drawing.write(left + 196, top + 17, words, 11, background=fill)
        chips: dict[str, Box] = {}
        for number, row in enumerate(rows):
            taken = sum(map(measure_chip, row))
            gap = min(40.0, (width - 24 - taken) / len(row))
            here = left + (width - taken - gap * (len(row) - 1)) / 2
            for chip in row:
                chips[chip] = Box(here, top + 36 + 44 * number, measure_chip(chip), 26, WHITE, QUIET)
                here += measure_chip(chip) + gap
        for one, other in sorted(arrows):
            if one in chips and other in chips:
                start, end = chips[one], chips[other]
                points = ((start.center[0], start.top + start.height), (end.center[0], end.top))
                drawing.add(Arrow(one, other, points, INK))
        for chip, box in chips.items():
            drawing.add(box)
            drawing.write(*box.center, chip.partition("/")[2], align="center")
        top += boxes[name].height + 16
    for number, source in enumerate(LAYERS):
        trunk, start = edge + 32 + 26 * number, boxes[source]
        leaves = start.top + start.height - 10
        for target in (name for name in LAYERS if (source, name) in arrows):
            end = boxes[target]
            enters = end.top + 12 + (end.height - 24) * number / len(LAYERS)
            corners = ((edge, leaves), (trunk, leaves), (trunk, enters), (edge, enters))
            drawing.add(Arrow(source, target, corners, TRUNKS[number % len(TRUNKS)]))
    drawing.height = top + 4
    return drawing
