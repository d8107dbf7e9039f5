"""A cube as a JSON-stat 2.0 dataset. The figures are the categories of a dimension of role metric, which comes last.

Only published cells have values, by their number, so that a sparse cube takes no more room than its cells.
"""

import json
import re
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from assets.publication.cube import (
    MOST_CELLS,
    Cube,
    Dimension,
    Heading,
    UnfitTableError,
    require_written,
)
from resources.warehouse import Session

_FIGURE = "FIGURE"
_MOST_PLACES = 2**53
"""The number up to which every program reads the numbers of cells exactly."""


def write_json_stat(session: Session, folder: Path, cube: Cube, heading: Heading) -> Path:
    """Write `<name>.json`, and read it back.

    Raises:
        UnfitTableError: if the file would have more than `MOST_CELLS` figures, or cells that cannot be numbered.
        ValueError: if it does not read back as written.
    """
    described = _describe(cube, heading)
    sizes = described["size"]
    if (figures := cube.rows * len(cube.figures)) > MOST_CELLS:
        raise UnfitTableError(f"it has {figures:,} figures, and a JSON-stat file takes {MOST_CELLS:,}")
    if prod(sizes) >= _MOST_PLACES:
        raise UnfitTableError("its codes have more combinations than JSON can number")
    strides = [prod(sizes[place:]) for place in range(1, len(sizes))]
    path = folder / f"{cube.table.name}.json"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(described, ensure_ascii=False).removesuffix("}") + ',"value":{')
        mark, suppressed = "\n", []
        for *cell, status in cube.read(session, *cube.place_names, *cube.figure_names, "status"):
            place = sum(at * stride for at, stride in zip(cell[: len(strides)], strides, strict=True))
            for number, text in enumerate(cell[len(strides) :], start=place):
                file.write(f'{mark}"{number}":{"null" if text is None else text}')
                mark = ",\n"
                if status == "Q" and text is None:
                    suppressed.append(number)
        file.write(f'\n}},"status":{json.dumps(dict.fromkeys(suppressed, "Q"))}}}\n')
    require_written(session, cube, path, _read(path), [*cube.code_names, *cube.figure_names])
    return path


def _describe(cube: Cube, heading: Heading) -> dict[str, Any]:
    dimensions = {dimension.id: _describe_dimension(dimension) for dimension in cube.dimensions}
    measures = {figure.column.name: figure for figure in cube.measures}
    children: dict[str, list[str]] = {}
    for figure in cube.errors:
        children.setdefault(measures[figure.column.error_of].id, []).append(figure.id)
    units = {figure.id: measures.get(figure.column.error_of, figure).column.unit for figure in cube.figures}
    dimensions[_FIGURE] = {
        "label": "Figure",
        "category": {
            "index": [figure.id for figure in cube.figures],
            "label": {figure.id: figure.title for figure in cube.figures},
            "unit": {figure.id: {"label": units[figure.id], "decimals": figure.decimals} for figure in cube.figures},
            "note": {figure.id: [figure.column.description] for figure in cube.figures if figure.column.description},
            **({"child": children} if children else {}),
        },
    }
    places = [dimension.id for dimension in cube.dimensions if dimension.is_place]
    return {
        "version": "2.0",
        "class": "dataset",
        "label": cube.table.title,
        "source": heading.source,
        "updated": heading.charged_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "note": list(cube.notes),
        "id": list(dimensions),
        "size": [len(dimension["category"]["index"]) for dimension in dimensions.values()],
        "role": {"metric": [_FIGURE], **({"geo": places} if places else {})},
        "dimension": dimensions,
        "extension": {"status": {"label": {"Q": "Missing value; suppressed"}}},
    }


def _describe_dimension(dimension: Dimension) -> dict[str, Any]:
    children: dict[str, list[str]] = {}
    for code in dimension.codes:
        if code.parent:
            children.setdefault(code.parent, []).append(code.id)
    values = {code.id: code.value for code in dimension.codes if code.differs}
    notes = [column.description for column in dimension.columns if column.description]
    return {
        "label": dimension.title,
        "category": {
            "index": [code.id for code in dimension.codes],
            "label": {code.id: code.label for code in dimension.codes},
            **({"child": children} if children else {}),
        },
        **({"note": notes} if notes else {}),
        **({"extension": {"values": values}} if values else {}),
    }


def _read(path: Path) -> Iterator[tuple[str | None, ...]]:
    """The codes and figures of the cells of a file that `write_json_stat` wrote."""
    with path.open(encoding="utf-8", newline="\n") as file:
        head = json.loads(file.readline().removesuffix(',"value":{\n') + "}")
        codes = [head["dimension"][name]["category"]["index"] for name in head["id"]]
        figures: list[str | None] = []
        for line in file:
            if not (found := re.fullmatch(r'"(\d+)":(null|-?[\d.]+),?\n', line)):
                break
            figures.append(None if found[2] == "null" else found[2])
            if len(figures) == len(codes[-1]):
                place, cell = int(found[1]) // len(figures), []
                for listed in reversed(codes[:-1]):
                    place, at = divmod(place, len(listed))
                    cell.append(listed[at])
                yield (*reversed(cell), *figures)
                figures = []
