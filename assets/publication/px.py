"""A cube as a PX file, as PxWeb serves it (PX-file format, AXIS-VERSION 2013), in UTF-8.

The figures are the values of a contents variable, in the heading; the dimensions are the stub. All cells are listed:
a file with KEYS would leave out empty rows, which readers take for zeros.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product
from math import prod
from pathlib import Path

from assets.publication.cube import MOST_CELLS, Cube, Dimension, Heading, UnfitTableError, require_written
from assets.texts import show_line
from resources.warehouse import Session

_NO_CELL, _NO_FIGURE, _SUPPRESSED = '".."', '"."', '"..."'
_SYMBOLS = "A cell that is not published has two dots, a figure that there is not one dot, a suppressed one three dots."

_LONGEST_TEXT, _LONGEST_CODE, _LONGEST_LINE = 256, 100, 200
_MOST_DECIMALS, _MOST_SHOWN = 15, 6


def write_px(session: Session, folder: Path, cube: Cube, heading: Heading) -> Path:
    """Write `<name>.px`, and read it back.

    Raises:
        UnfitTableError: if the file would list more than `MOST_CELLS` figures.
        ValueError: if it does not read back as written.
    """
    sizes = [dimension.used for dimension in cube.dimensions]
    if (figures := prod(sizes) * len(cube.figures)) > MOST_CELLS:
        raise UnfitTableError(f"with its empty cells it has {figures:,} figures, and a PX file takes {MOST_CELLS:,}")
    path = folder / f"{cube.table.name}.px"
    strides = [prod(sizes[place:]) for place in range(1, len(sizes) + 1)]
    empty = f"{' '.join([_NO_CELL] * len(cube.figures))} \n"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(_keywords(cube, heading))
        file.write("DATA=\n")
        written = 0
        for *cell, status in cube.read(session, *cube.place_names, *cube.figure_names, "status"):
            place = sum(at * stride for at, stride in zip(cell[: len(sizes)], strides, strict=True))
            missing = _SUPPRESSED if status == "Q" else _NO_FIGURE
            file.writelines(empty for _ in range(place - written))
            file.write(f"{' '.join(missing if text is None else text for text in cell[len(sizes) :])} \n")
            written = place + 1
        file.writelines(empty for _ in range(prod(sizes) - written))
        file.write(";\n")
    require_written(session, cube, path, _read(path, len(sizes)), [*cube.code_names, *cube.figure_names])
    return path


def _keywords(cube: Cube, heading: Heading) -> Iterator[str]:
    publisher, dataset = heading.release.publisher, heading.release.dataset
    decimals = [min(figure.decimals, _MOST_SHOWN) for figure in cube.figures]
    charged_at = heading.charged_at.strftime("%Y%m%d %H:%M")
    *names, contents = [*(_clean(dimension.title) for dimension in cube.dimensions), "Figure"]
    fit = all(0 < len(name) <= _LONGEST_TEXT for name in names)
    if not fit or len({name.casefold() for name in (*names, contents)}) <= len(names):
        *names, contents = [*(dimension.id for dimension in cube.dimensions), "FIGURE"]
    dimensions = dict(zip(names, cube.dimensions, strict=True))
    figures = _name_values([(figure.id, figure.title) for figure in cube.figures])
    yield 'CHARSET="ANSI";\nAXIS-VERSION="2013";\nCODEPAGE="utf-8";\nLANGUAGE="en";\n'
    yield _entry("CREATION-DATE", charged_at)
    stored = max(figure.decimals for figure in cube.figures)
    yield f"DECIMALS={min(stored, _MOST_DECIMALS)};\nSHOWDECIMALS={min(decimals)};\n"
    yield _entry("MATRIX", cube.table.name)
    yield _entry("SUBJECT-CODE", dataset.name)
    yield _entry("SUBJECT-AREA", dataset.title)
    yield _entry("TITLE", cube.table.title)
    yield _entry("CONTENTS", cube.table.title)
    yield _list("STUB", dimensions)
    yield _list("HEADING", [contents])
    yield _entry("CONTVARIABLE", contents)
    for name, dimension in dimensions.items():
        yield _list(f'VALUES("{name}")', _name_codes(dimension))
    yield _list(f'VALUES("{contents}")', figures)
    for name, dimension in dimensions.items():
        yield _list(f'CODES("{name}")', (code.id for code in dimension.used_codes))
    yield _list(f'CODES("{contents}")', (figure.id for figure in cube.figures))
    for name, dimension in dimensions.items():
        if tree := _list_tree(dimension):
            yield _list(f'HIERARCHIES("{name}")', tree)
    units = {figure.column.name: figure.column.unit for figure in cube.figures}
    for figure, name, shown in zip(cube.figures, figures, decimals, strict=True):
        # PRECISION can only show more decimals than SHOWDECIMALS, the least of all figures.
        if shown > min(decimals):
            yield f'PRECISION("{contents}","{name}")={shown};\n'
        yield _entry(f'UNITS("{name}")', figure.column.unit or units[figure.column.error_of])
        yield _entry(f'LAST-UPDATED("{name}")', charged_at)
        if publisher.contact:
            yield _entry(f'CONTACT("{name}")', publisher.contact)
        if figure.column.description:
            yield _entry(f'VALUENOTE("{contents}","{name}")', figure.column.description)
    yield _entry("SOURCE", heading.source)
    yield _entry("NOTE", "##".join([*cube.notes, _SYMBOLS]))


def _name_codes(dimension: Dimension) -> list[str]:
    return _name_values([(code.id, code.label) for code in dimension.used_codes])


def _list_tree(dimension: Dimension) -> list[str]:
    """The code at the top, and for each other code its parent's code and its own, parents first, as they stand within
    quotation marks.

    Empty if there are several codes at the top, or a parent has no rows: PxWeb accepts a single tree of a variable's
    codes.
    """
    children: dict[str, list[str]] = {}
    for code in dimension.codes:
        children.setdefault(code.parent, []).append(code.id)
    listed = tops = children.get("", [])
    if dimension.used < len(dimension.codes) or len(tops) != 1 or len(children) == 1:
        return []
    tree = [*tops]
    while listed:
        below = [(above, code) for above in listed for code in children.get(above, [])]
        tree += [f'{above}":"{code}' for above, code in below]
        listed = [code for _, code in below]
    return tree


def _name_values(labels: Sequence[tuple[str, str]]) -> list[str]:
    """The labels of codes, with the code in parentheses if the labels would not identify the codes, or are too long.

    A long code, such as a code in non-Latin letters, is replaced by # and its place.
    """
    texts = [_clean(label) for _, label in labels]
    distinct = len({text.casefold() for text in texts}) == len(texts)
    if distinct and all(0 < len(text) <= _LONGEST_TEXT for text in texts):
        return texts
    shown = (code if len(code) <= _LONGEST_CODE else f"#{place}" for place, (code, _) in enumerate(labels, start=1))
    ends = [f" ({code})" for code in shown]
    return [text[: _LONGEST_TEXT - len(end)] + end for text, end in zip(texts, ends, strict=True)]


def _clean(text: str) -> str:
    """A text on one line, with apostrophes for quotation marks, which PX cannot represent."""
    return " ".join(show_line(text).replace('"', "'").split())


def _entry(keyword: str, text: str) -> str:
    """A keyword with one text, split over lines."""
    words, lines = _clean(text).split(" "), [""]
    for word in words:
        for piece in (word[start : start + _LONGEST_LINE] for start in range(0, len(word) or 1, _LONGEST_LINE)):
            if len(lines[-1]) + len(piece) >= _LONGEST_LINE:
                lines.append("")
            lines[-1] += piece
        lines[-1] += " "
    lines[-1] = lines[-1][:-1]
    return f"{keyword}=" + "\n".join(f'"{line}"' for line in lines) + ";\n"


def _list(keyword: str, texts: Iterable[str]) -> str:
    """A keyword with several texts, with line breaks between them."""
    lines = [f"{keyword}="]
    for text in texts:
        if len(lines[-1]) + len(text) > _LONGEST_LINE and not lines[-1].endswith("="):
            lines.append("")
        lines[-1] += f'"{text}",'
    return "\n".join(lines)[:-1] + ";\n"


def _read(path: Path, dimensions: int) -> Iterator[tuple[str | None, ...]]:
    """The codes and figures of the cells of a file that `write_px` wrote."""
    with path.open(encoding="utf-8", newline="\n") as file:
        head = "".join(iter(file.readline, "DATA=\n"))
        texts = re.findall(r'^CODES\("[^"]*"\)=([^;]*);$', head, re.MULTILINE)
        codes = [re.findall(r'"([^"]*)"', text) for text in texts[:dimensions]]
        end: list[tuple[str, ...]] = [()]
        for cell, line in zip(chain(product(*codes), end), file, strict=True):
            figures = line.split()
            if cell and set(figures) != {_NO_CELL}:
                yield (*cell, *(None if text in (_NO_FIGURE, _SUPPRESSED) else text for text in figures))
