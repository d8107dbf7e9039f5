"""A published table as a cube, for the formats that describe cubes: dimensions with codes, figures, and attributes.

A cube follows from the table's description in `assets.release.published` and from its rows. `sdmx`, `px` and
`json_stat` write a cube, with the same ids in each format. The cells stay in DuckDB, and are read in order.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from assets.release.published import SUPPRESSED, PublishedColumn, PublishedTable
from assets.release.release import Release
from mechanisms.refusal import RefusedError
from resources.statements import SQL, Fragment
from resources.warehouse import Session

_CODES = "publication/codes"
_COUNT_CODES = SQL("publication/count_codes", "SELECT count(*) FROM {{ codes }}")
_COUNT_CELLS = SQL(
    "publication/count_cells", "SELECT count(*) FROM (SELECT DISTINCT {{ columns | ids }} FROM {{ cells }})"
)
_CELLS = SQL("publication/cells", "SELECT {{ columns | ids }} FROM {{ cells }} ORDER BY {{ order | ids }}")

MOST_CODES = 200_000
"""The most codes of a dimension: they are in memory, here and in the programs that read the files."""

MOST_CELLS = 10_000_000
"""The most figures in a file that lists empty cells (PX), or that its readers have in memory at once (JSON-stat)."""

TOTAL, MISSING = "_T", "_X"
"""The codes of totals and of missing values, as in the code lists of SDMX."""

REF_AREA, OBS_STATUS, CONF_STATUS = "REF_AREA", "OBS_STATUS", "CONF_STATUS"

RESERVED = frozenset(
    {
        *("STRUCTURE", "STRUCTURE_ID", "STRUCTURE_NAME", "ACTION", "SERIES_KEY", "OBS_KEY", "TIME_PERIOD", "TYPE"),
        *(REF_AREA, OBS_STATUS, CONF_STATUS, "FIGURE"),
    }
)
"""Ids that have a meaning in the formats or these modules."""

_ID, _PLACE = "id: of a code", "place: of a code"
"""Columns in addition to a table's own, which cannot have such names: see `assets.release.names.Name`."""

_LONGEST_TITLE = 140
_ROWS_AT_A_TIME = 20_000


class UnfitTableError(RefusedError):
    """A table has no rows, or too many codes or cells for a format. The message is a sentence for readers."""


@dataclass(frozen=True)
class Heading:
    """The content of all files of an edition besides their cells.

    Attributes:
        charged_at: the time of the edition's charge, which never changes.
        revision: the number of other estimates of the same draw that were published before.
    """

    release: Release
    edition: int
    charged_at: datetime
    revision: int = 0

    @property
    def agency(self) -> str:
        return self.release.publisher.agency

    @property
    def source(self) -> str:
        return self.release.publisher.authority or self.release.dataset.title


@dataclass(frozen=True)
class Code:
    """A code of a dimension, and the values that it stands for: a text for each column, None for a missing value."""

    id: str
    label: str
    values: tuple[str | None, ...]
    parent: str = ""

    @property
    def value(self) -> str:
        """The values in one text, with | between the values of several columns."""
        return "|".join(text for text in self.values if text is not None)

    @property
    def differs(self) -> bool:
        """Whether the id differs from the value."""
        return bool(self.value) and self.value != self.id


@dataclass(frozen=True)
class Dimension:
    """A dimension of one column, or of the columns that together name a place.

    The first `used` codes occur in the table, in its order; the others are only parents of other codes.
    """

    id: str
    columns: tuple[PublishedColumn, ...]
    codes: tuple[Code, ...]
    used: int
    is_place: bool

    @property
    def title(self) -> str:
        return title_column(self.columns[0]) if len(self.columns) == 1 else "Geography"

    @property
    def used_codes(self) -> tuple[Code, ...]:
        return self.codes[: self.used]


@dataclass(frozen=True)
class Figure:
    """A column of figures, with the number of its decimals in the CSV file."""

    id: str
    column: PublishedColumn
    decimals: int

    @property
    def title(self) -> str:
        words = self.column.title or self.column.description
        return title_column(self.column) if self.column.error_of or len(words) > _LONGEST_TITLE else words


@dataclass(frozen=True)
class Cube:
    """A published table as a cube.

    Attributes:
        attributes: the columns that are neither dimensions nor figures, by id.
        cells: the staged cells: for each dimension `at_<n>`, the place of the code, from 0, and `code_<n>`, its id; for
            each figure and attribute `figure_<n>` and `attribute_<n>`, the text of the CSV file, or NULL; `status`, the
            observation status, and `confidentiality`, the confidentiality status.
        rows: the number of cells in the table.
    """

    table: PublishedTable
    dimensions: tuple[Dimension, ...]
    figures: tuple[Figure, ...]
    attributes: dict[str, PublishedColumn]
    cells: Fragment
    rows: int

    @property
    def measures(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in self.figures if not figure.column.error_of)

    @property
    def errors(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in self.figures if figure.column.error_of)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(text for text in (self.table.description, self.table.interval) if text)

    def read(self, session: Session, *names: str) -> Iterator[tuple[Any, ...]]:
        """Columns of the cells, in the order of the cells."""
        for batch in session.batches(_CELLS, _ROWS_AT_A_TIME, columns=names, cells=self.cells, order=self.place_names):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    @property
    def place_names(self) -> list[str]:
        return [f"at_{number}" for number in range(len(self.dimensions))]

    @property
    def code_names(self) -> list[str]:
        return [f"code_{number}" for number in range(len(self.dimensions))]

    @property
    def figure_names(self) -> list[str]:
        return [f"figure_{number}" for number in range(len(self.figures))]

    @property
    def names_by_id(self) -> dict[str, str]:
        """The columns of the cells by id, in the order of SDMX: dimensions, measures, their errors, and attributes."""
        figures = {figure.id: name for figure, name in zip(self.figures, self.figure_names, strict=True)}
        return {
            **{dimension.id: name for dimension, name in zip(self.dimensions, self.code_names, strict=True)},
            **{figure.id: figures[figure.id] for figure in (*self.measures, *self.errors)},
            **{name: f"attribute_{number}" for number, name in enumerate(self.attributes)},
            OBS_STATUS: "status",
            CONF_STATUS: "confidentiality",
        }


def title_column(column: PublishedColumn) -> str:
    return column.title or column.name.replace("_", " ")


def encode_code(value: str | None) -> str:
    """The id of a value: its ASCII letters, digits, _ and -, and $ with two hexadecimal digits for any other byte.

    So no two values have the same id, and no value has the id of a total or of a missing value, which begin with _.
    """
    if value is None:
        return MISSING
    encoded = "".join(map(_encode_letter, value))
    return "$5F" + encoded[1:] if encoded.startswith("_") else encoded or "$"


def _encode_letter(letter: str, kept: str = "_-", escape: str = "$") -> str:
    if letter.isascii() and (letter.isalnum() or letter in kept):
        return letter
    return "".join(f"{escape}{byte:02X}" for byte in letter.encode())


def encode_name(name: str) -> str:
    """The id of a column: its letters in upper case, and - with two hexadecimal digits for any other byte.

    It gets the prefix X-- if it would not begin with a letter, or would have a reserved meaning. Columns of one table
    differ in more than case, and so do their ids.
    """
    encoded = "".join(_encode_letter(letter, "_", "-") for letter in name).upper()
    return encoded if re.match("[A-Z]", encoded) and encoded not in RESERVED else f"X--{encoded}"


def make_cube(session: Session, table: PublishedTable) -> Cube:
    """Stage the cells of a published table with their codes.

    Raises:
        UnfitTableError: if there are no rows, which the formats cannot represent, or a dimension has more than
            `MOST_CODES` codes.
        ValueError: if two rows have the same codes.
    """
    if not (rows := session.count(table.table)):
        raise UnfitTableError("it has no rows")
    columns = {column.name: column for column in table.columns}
    flags = {column.total for column in table.columns if column.total}
    names = [name for name in table.dimensions or table.primary_key if name not in flags]
    places = [name for name in table.geography if name in names]
    groups = [[name] for name in names if name not in places]
    if places:
        groups.insert(0, places)
    naming = {column.names: column.name for column in table.columns if column.names}
    described: list[Dimension] = []
    joined: list[tuple[Fragment, list[str]]] = []
    for group in groups:
        keys = [*group, *(columns[name].total for name in group if columns[name].total)]
        named = naming.get(group[-1])
        codes = session.stage("codes_of_cube", _CODES, table=table.source, columns=keys, named=named)
        (number,) = session.row(_COUNT_CODES, codes=codes)
        if number > MOST_CODES:
            raise UnfitTableError(f"{', '.join(group)} has {number:,} codes, and the format takes {MOST_CODES:,}")
        values = session.arrow("warehouse/all", source=codes)
        dimension, order = _describe_dimension(table, [columns[name] for name in group], values, named)
        described.append(dimension)
        listed = values.select(keys).take(pa.array(order, pa.int64()))
        listed = listed.append_column(_ID, pa.array([code.id for code in dimension.used_codes], pa.string()))
        listed = listed.append_column(_PLACE, pa.array(range(dimension.used), pa.int64()))
        joined.append((session.register(f"listed_{len(joined)}", listed), keys))
    types = session.columns(table.source)
    figures = tuple(
        Figure(encode_name(column.name), column, _count_decimals(types[column.name]))
        for column in table.columns
        if column.has_figures
    )
    left_out = {*names, *flags, *naming.values(), *(figure.column.name for figure in figures)}
    attributes = {encode_name(column.name): column for column in table.columns if column.name not in left_out}
    cells = session.stage(
        "cells_of_cube",
        "publication/cube",
        {"normal": "E" if table.interval else "A"},
        table=table.source,
        codes=joined,
        code_id=_ID,
        code_place=_PLACE,
        figures=[figure.column.name for figure in figures],
        attributes=[column.name for column in attributes.values()],
        suppressed=SUPPRESSED if SUPPRESSED in columns else None,
    )
    cube = Cube(table, tuple(described), figures, attributes, cells, rows)
    if session.row(_COUNT_CELLS, cells=cells, columns=cube.place_names) != (rows,):
        raise ValueError(f"product {table.name}: its dimensions do not tell its rows apart")
    return cube


def _count_decimals(kind: str) -> int:
    return int(kind.rstrip(")").split(",")[1]) if kind.startswith("DECIMAL") else 0


def _describe_dimension(
    table: PublishedTable, columns: Sequence[PublishedColumn], values: pa.Table, named: str | None
) -> tuple[Dimension, list[int]]:
    """A dimension, and for each code that occurs, its place among the rows of `values`, in the order of the codes."""
    parts = [_parts(column, values) for column in columns]
    rows = list(zip(*parts, strict=True))
    order = sorted(range(len(rows)), key=lambda row: [part.order for part in rows[row]])
    names = values[named].to_pylist() if named else [None] * len(rows)
    codes = []
    for row in order:
        kept = list(rows[row])
        while len(kept) > 1 and kept[-1].total:
            kept.pop()
        labels = (text for text in (names[row], kept[-1].label, kept[0].label) if text and text.strip())
        codes.append(Code(_join(kept), next(labels, "(blank)"), tuple(part.value for part in kept)))
    used = len(codes)
    if table.levels and len(columns) > 1:
        codes = _add_parents(codes, table.levels)
    elif len(columns) > 1:
        codes = _nest(codes, {_join(row[:depth]): row[:depth] for row in rows for depth in range(1, len(row))})
    place = columns[0].name in table.geography
    name = REF_AREA if place else encode_name(columns[0].name)
    return Dimension(name, tuple(columns), tuple(codes), used, place), order


@dataclass(frozen=True)
class _Part:
    """A value of a column: its text in the CSV file, and its place in the order of the column."""

    value: str | None
    label: str
    order: tuple[int, Any]
    total: bool = False


def _parts(column: PublishedColumn, values: pa.Table) -> Iterator[_Part]:
    declared = {value: number for number, value in enumerate(column.values)}
    totals = values[column.total].to_pylist() if column.total else [False] * values.num_rows
    for value, total in zip(values[column.name].to_pylist(), totals, strict=True):
        if total:
            yield _Part(None, "Total", (0, 0), total=True)
        elif value is None:
            yield _Part(None, "No value", (3, 0))
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            place = (1, declared[value]) if value in declared else (2, value)
            yield _Part(text, column.values.get(value, "") or text, place)


def _join(parts: Sequence[_Part]) -> str:
    """The id of a place: the ids of its parts, joined by @, which no id of a part contains."""
    return "@".join(TOTAL if part.total else encode_code(part.value) for part in parts)


def _nest(codes: Sequence[Code], above: dict[str, tuple[_Part, ...]]) -> list[Code]:
    """Places with their parents, which are the places of fewer columns. Parents that do not occur themselves come
    last."""
    present = {code.id for code in codes}
    further = [
        Code(name, parts[-1].label, tuple(part.value for part in parts))
        for name, parts in above.items()
        if name not in present and not parts[-1].total
    ]
    present |= {code.id for code in further}

    def parent(code: Code) -> str:
        while code_id := code.id.rpartition("@")[0]:
            if code_id in present:
                return code_id
            code = Code(code_id, "", ())
        return TOTAL if TOTAL in present and code.id != TOTAL and "@" not in code.id else ""

    return [Code(code.id, code.label, code.values, parent(code)) for code in (*codes, *further)]


def _add_parents(codes: Sequence[Code], levels: Mapping[str, str]) -> list[Code]:
    """Places with a level and a code, with their parents, if the parents are in the table."""
    of_level: dict[str | None, dict[str, str]] = {}
    for code in codes:
        of_level.setdefault(code.values[0], {})[code.values[-1] or ""] = code.id

    def parent(code: Code) -> str:
        level = levels.get(code.values[0] or "")
        while level is not None:
            above, own = of_level.get(level, {}), code.values[-1] or ""
            if len(above) == 1:
                return next(iter(above.values()))
            for size in sorted(set(map(len, above)), reverse=True):
                if size <= len(own) and own[:size] in above:
                    return above[own[:size]]
            level = levels.get(level)
        return ""

    return [Code(code.id, code.label, code.values, parent(code)) for code in codes]


def require_written(
    session: Session, cube: Cube, path: Path, found: Iterator[tuple[str | None, ...]], names: Iterable[str]
) -> None:
    """Raise ValueError unless a file, read back, has the codes and texts of the cells in their order."""
    for number, (read, cell) in enumerate(zip_longest(found, cube.read(session, *names)), start=1):
        if read != cell:
            raise ValueError(f"{path.name}: cell {number:,} does not read back as it is in {cube.table.table}")
