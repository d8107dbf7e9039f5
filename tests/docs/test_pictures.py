"""The pictures of the documentation match the code, and are legible."""

import ast
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest

from docs.pictures.__main__ import FOLDER, RELEASES, make_drawings
from docs.pictures.layers import LAYERS, draw_layers
from docs.pictures.lineage import draw_lineage, list_stages, load_definitions
from docs.pictures.shapes import WIDTH, Arrow, Box, Diamond, Drawing, Text, read_shapes, save

ROOT = FOLDER.parents[1]
SMALLEST, CONTRAST = 10, 4.5
"""The least height of a text in pixels, and its least contrast with the background (WCAG 2.1, level AA)."""

PARTS = {
    "orchestration/definitions.py": "from orchestration.components.noise import Noise",
    "orchestration/components/noise.py": "from assets.noise.method import method",
    "assets/noise/method.py": "import assets.gates.shared\nfrom mechanisms import noise",
    "assets/gates/shared.py": "def late():\n    from assets.release.gate import Gate\n    from assets.cef import asset",
    "assets/cef/asset.py": "import dagster",
    "assets/release/gate.py": "from assets.conventions import ZONE",
    "assets/conventions.py": "from resources.statements import Zone",
    "resources/statements.py": "",
    "mechanisms/noise/design.py": "import numpy",
}


@pytest.fixture(scope="module")
def all_drawings() -> dict[str, Drawing]:
    return make_drawings()


@pytest.fixture(scope="module")
def layers(all_drawings: dict[str, Drawing]) -> Drawing:
    return all_drawings["layers.png"]


@pytest.fixture(scope="module")
def defined() -> dg.Definitions:
    return load_definitions()


def arrows(drawing: Drawing) -> list[Arrow]:
    return [shape for shape in drawing.shapes if isinstance(shape, Arrow)]


def ends(drawing: Drawing) -> set[tuple[str, str]]:
    return {(arrow.source, arrow.target) for arrow in arrows(drawing)}


def written(root: Path, parts: dict[str, str]) -> Path:
    for name, text in parts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


def imported(path: Path) -> set[str]:
    """The modules that a module imports, found without the code under test."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.deep
def test_the_pictures_are_those_of_the_code_as_it_is(all_drawings: dict[str, Drawing]) -> None:
    stale = [name for name, drawing in all_drawings.items() if read_shapes(FOLDER / name) != drawing.text()]
    assert not stale, f"stale: {', '.join(stale)}; draw them again with `make pictures`"


def test_a_file_carries_what_it_shows(tmp_path: Path) -> None:
    drawing = draw_layers(written(tmp_path, PARTS))
    save(drawing, tmp_path / "once.png")
    save(drawing, tmp_path / "again.png")
    assert read_shapes(tmp_path / "once.png") == drawing.text()
    assert (tmp_path / "once.png").read_bytes() == (tmp_path / "again.png").read_bytes()


@pytest.mark.deep
def test_the_picture_of_layers_has_the_arrows_of_the_imports(layers: Drawing) -> None:
    mechanisms = {path.name for path in (ROOT / "mechanisms").iterdir() if path.is_dir()}

    def places(module: str) -> tuple[str, str]:
        """The layer of a module, and its part of the layer."""
        top, rest = module.split(".")[:2]
        if top != "assets":
            return top, f"{top}/{rest}"
        package = (ROOT / "assets" / rest).is_dir() and rest != "release"
        kind = "mechanisms" if rest in mechanisms else "shared stages" if package else "release"
        return f"assets: {kind}", f"assets/{rest}"

    expected = set()
    for top in ("stirred", "orchestration", "assets", "resources", "mechanisms"):
        for path in (ROOT / top).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for name in imported(path):
                if name.split(".")[0] in ("stirred", "orchestration", "assets", "resources", "mechanisms"):
                    (above, one), (below, other) = places(module), places(name)
                    if above != below:
                        expected.add((above, below))
                    elif top == "assets" and one != other:
                        expected.add((one, other))
    assert ends(layers) == expected


@pytest.mark.deep
def test_every_arrow_between_layers_points_down(layers: Drawing) -> None:
    order = list(LAYERS)
    for arrow in arrows(layers):
        if arrow.source in order:
            assert order.index(arrow.source) < order.index(arrow.target)
        else:
            assert arrow.points[0][1] < arrow.points[-1][1]


def test_the_layers_of_a_small_project_are_as_its_imports_say(tmp_path: Path) -> None:
    assert ends(draw_layers(written(tmp_path, PARTS))) == {
        ("orchestration", "assets: mechanisms"),
        ("assets: mechanisms", "assets: shared stages"),
        ("assets: mechanisms", "mechanisms"),
        ("assets: shared stages", "assets: release"),
        ("assets: release", "resources"),
        ("assets/gates", "assets/cef"),
        ("assets/release", "assets/conventions"),
    }


def test_one_new_import_is_one_new_arrow(tmp_path: Path) -> None:
    before = ends(draw_layers(written(tmp_path, PARTS)))
    written(tmp_path, {"resources/statements.py": "from mechanisms.noise.design import x"})
    assert ends(draw_layers(tmp_path)) - before == {("resources", "mechanisms")}


def test_imports_in_a_circle_are_not_drawn(tmp_path: Path) -> None:
    written(tmp_path, PARTS | {"assets/cef/asset.py": "from assets.gates.shared import gate"})
    with pytest.raises(ValueError, match="circle: assets/cef, assets/gates"):
        draw_layers(tmp_path)


@pytest.mark.parametrize("mechanism", RELEASES)
def test_a_lineage_has_the_arrows_of_the_asset_graph(mechanism: str, defined: dg.Definitions) -> None:
    dataset, release = RELEASES[mechanism]
    graph = set()
    for spec in defined.resolve_all_asset_specs():
        for dep in spec.deps:
            paths = [list(key.path) for key in (dep.asset_key, spec.key)]
            if all(path[:-1] in ([dataset, release], [dataset], []) for path in paths):
                graph.add((paths[0][-1], paths[1][-1]))
    drawing = draw_lineage("a release", list_stages(defined, dataset, release))
    assert ends(drawing) == graph
    assert all(arrow.points[0][1] < arrow.points[-1][1] for arrow in arrows(drawing))


@pytest.mark.parametrize("mechanism", RELEASES)
def test_every_way_out_of_the_confidential_zone_is_marked(mechanism: str, defined: dg.Definitions) -> None:
    flow = list_stages(defined, *RELEASES[mechanism])
    confidential = {stage.name for stage in flow if stage.zone == "confidential"}
    out = {(parent, stage.name) for stage in flow for parent in stage.parents if stage.name not in confidential}
    drawing = draw_lineage("a release", flow)
    marks = {shape.y for shape in drawing.shapes if isinstance(shape, Diamond)}
    ends: dict[str, list[float]] = {}
    for arrow in arrows(drawing):
        if (arrow.source, arrow.target) in out and arrow.source in confidential:
            ends.setdefault(arrow.target, []).append(arrow.points[-1][1])
    assert len(ends) >= 2
    # One mark is on all arrows into a stage; one more mark explains the others.
    assert {sum(each) / len(each) for each in ends.values()} < marks
    assert len(marks) == len(ends) + 1


def test_texts_are_large_enough_and_inside_as_are_arrows(all_drawings: dict[str, Drawing]) -> None:
    for drawing in all_drawings.values():
        for shape in drawing.shapes:
            if isinstance(shape, Text):
                assert shape.size >= SMALLEST, shape.text
                assert 0 < shape.x < WIDTH, shape.text
                assert 0 < shape.y < drawing.height, shape.text
            if isinstance(shape, Arrow):
                assert all(0 < x < WIDTH and 0 < y < drawing.height for x, y in shape.points), shape


def test_texts_stand_out_from_their_background(all_drawings: dict[str, Drawing]) -> None:
    for drawing in all_drawings.values():
        fills = {"#ffffff", *(shape.fill for shape in drawing.shapes if isinstance(shape, Box))}
        for shape in drawing.shapes:
            if isinstance(shape, Text):
                assert shape.background in fills
                assert contrast(shape.color, shape.background) >= CONTRAST, shape.text


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted(map(luminance, (one, other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: str) -> float:
    parts = [int(color[start:end], 16) / 255 for start, end in pairwise((1, 3, 5, 7))]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
