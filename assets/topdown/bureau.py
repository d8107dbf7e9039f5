"""The Census Bureau's noisy measurement files of redistricting data as arrays, for new estimates, which cost no budget.
`asking` reads the publications of this project.

There are folders of persons (`…_Person_PL_…`) and of units (`…_Unit_PL_…`), each with a folder `<level>.parquet` for
every level. Its folders `DPQuery` and `Constraint` contain Parquet files, partitioned by state, with a row for each
place and query: `geocode`, `query_name`, a column for each attribute with its form in the query (`*` if the query
ignores it), `value` with all answers in the order of the attributes, and `variance`. Constraints have the `sign` =, <=
or >=. A place's geocode begins with that of the place above. Its first character is 1 in American Indian areas and
otherwise 0, and the next two are the state.

A state with such areas is therefore two places of the Bureau's level State. Here these places form the level
`State_Part`, below a level State without measurements. The population of a state is exact, but the populations of its
two parts are not. No file contains it, so the caller passes it as an argument.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from assets.texts import find_unseen, show_line
from assets.topdown.asking import Measured, find_problem_of_variances, read_variance
from assets.topdown.ways import MOST
from mechanisms.refusal import RefusedError
from mechanisms.topdown.design import SCHEMAS, STATE, unbounded
from mechanisms.topdown.estimation import Measurement
from mechanisms.topdown.feasibility import Limits, propagate
from mechanisms.topdown.schema import DETAILED, PERSONS, TOTAL, UNITS

LEVELS = ("US", STATE, "County", "Tract", "Block_Group", "Block")
PART = "State_Part"

_AXES = {PERSONS.name: [attribute.name for attribute in PERSONS.attributes], UNITS.name: ["h1"]}
_WHOLE = "*"
_LOWER, _UPPER, _TOTAL = "hhgq_total_lb_con", "hhgq_total_ub_con", "total_con"
_SIGNS = {_LOWER: ">=", _UPPER: "<=", _TOTAL: "="}


class FilesError(RefusedError, ValueError):
    """Noisy measurement files that are incomplete or do not follow the layout. The message names the file or level."""


def read_bureau(folder: str | Path, populations: Mapping[str, int]) -> dict[str, Measured]:
    """The Census Bureau's noisy measurements of persons and of units in the nation or in one state, with the exact
    statistics.

    Each place takes 16 KB of memory or more, so read one state at a time, even on a large machine.

    Args:
        folder: the folder that contains the folders of persons and of units, each with all levels from US or State down
            to the finest.
        populations: the published number of persons of every state, by its two-digit code.

    Raises FilesError if levels, places or queries are missing, or if the measurements of a level differ in their
    variance, and InfeasibleError if the populations contradict the bounds in the files.
    """
    found = {}
    for name in SCHEMAS:
        files = _Files(Path(folder), name)
        codes = {level: files.list_places(level) for level in files.levels}
        if STATE in codes:
            states = sorted({code[1:3] for code in codes[STATE]})
            if missing := [state for state in states if state not in populations]:
                raise FilesError(f"populations: {missing[0]} is missing; there are {', '.join(states)}")
            for state in states:
                if not isinstance(populations[state], int | np.integer) or not 0 <= populations[state] <= MOST:
                    raise FilesError(f"populations: {state}: {populations[state]!r} is not a number of persons")
            codes = {
                each: of_level
                for level, own in codes.items()
                for each, of_level in ({STATE: states, PART: own} if level == STATE else {level: own}).items()
            }
        levels = list(codes)
        tree = {level: _find_parents(codes, depth) for depth, level in enumerate(levels)}
        measurements = {level: files.read(level, codes[level]) for level in levels}
        every = [each.variance for of_level in measurements.values() for each in of_level]
        if problem := find_problem_of_variances(every):
            raise FilesError(f"{name}: {problem}")
        found[name] = Measured(SCHEMAS[name], tree, measurements, files.limit(codes, tree, populations), codes)
    persons, units = (list(found[name].codes.values())[-1] for name in SCHEMAS)
    if persons != units:
        raise FilesError("persons and units are of different places")
    return found


def list_files(folder: Path) -> list[Path]:
    """The files of measurements and constraints of all levels, sorted by path. `read_bureau` reads no other files.

    Raises FilesError for a link to a file or folder, because it could lead to any data, whose hash would be published;
    and for a name with invisible characters.
    """
    root = folder.resolve()
    parts = [f"_{name[:-1]}_" for name in SCHEMAS]
    own = [path for path in folder.glob("*") if path.is_dir() and any(part in path.name.lower() for part in parts)]
    kinds = [(each, level, kind) for each in own for level in LEVELS for kind in ("DPQuery", "Constraint")]
    files = sorted(path for kind in kinds for path in _list_kind(*kind) if not path.is_dir())
    for path in files:
        name = path.relative_to(folder)
        if path.resolve() != root / name or not path.is_file() or find_unseen(str(name)):
            raise FilesError(
                f"{folder}: {show_line(str(name))} is or lies behind a link, or is no file, or its name cannot be seen"
            )
    return files


def _list_kind(folder: Path, level: str, kind: str) -> Iterator[Path]:
    """The files of a level: its measurements (DPQuery), or its constraints (Constraint)."""
    return (folder / f"{level}.parquet" / kind).rglob("*.parquet")


class _Files:
    """The files of a histogram."""

    def __init__(self, folder: Path, histogram: str) -> None:
        self._histogram, self._axes = histogram, _AXES[histogram]
        names = [path for path in folder.glob("*") if f"_{histogram[:-1]}_".lower() in path.name.lower()]
        if len(names) != 1:
            raise FilesError(f"{folder}: {len(names)} folders of {histogram}, not one such as US_Person_PL_PROD")
        (self._folder,) = names
        self.levels = [level for level in LEVELS if (self._folder / f"{level}.parquet").is_dir()]
        first = LEVELS.index(self.levels[0]) if self.levels else 0
        if first > 1 or len(self.levels) < 2 or self.levels != list(LEVELS[first : first + len(self.levels)]):
            raise FilesError(f"{self._folder.name}: levels from US or State down, without a gap; not {self.levels}")
        self._rows: dict[tuple[str, str], pa.Table] = {}

    def list_places(self, level: str) -> list[str]:
        """The geocodes of a level, in the order of states, and within them of the places above."""
        codes = pc.unique(self._read(level, "DPQuery")["geocode"]).to_pylist()
        if odd := [code for code in codes if find_unseen(code)]:
            raise FilesError(f"{self._histogram} {level}: {odd[0]!r} has a character that cannot be seen")
        return sorted(codes, key=lambda code: (code[1:3], code))

    def read(self, level: str, codes: Sequence[str]) -> tuple[Measurement, ...]:
        """All measurements of a level, those with fewer cells first; none for State, which the files do not measure as
        whole states."""
        if level == STATE:
            return ()
        rows = self._read(STATE if level == PART else level, "DPQuery")
        measured: list[Measurement] = []
        for name in pc.unique(rows["query_name"]).to_pylist():
            own = rows.filter(pc.equal(rows["query_name"], name))
            asked = own.select(self._axes).group_by(self._axes).aggregate([]).to_pylist()
            if len(asked) != 1 or None in asked[0].values():
                raise FilesError(f"{self._histogram} {level} {name}: {len(asked)} queries of this name, or one unnamed")
            query = self._name(asked[0])
            if query in {each.query for each in measured}:
                raise FilesError(f"{self._histogram} {level} {name}: the query {query} has another name too")
            marginal = SCHEMAS[self._histogram].marginal(query)
            variances = pc.unique(own["variance"]).to_pylist()
            if len(variances) != 1 or variances[0] is None:
                raise FilesError(f"{self._histogram} {level} {query}: variances {variances[:3]}, not one")
            try:
                variance = read_variance(variances[0])
            except ValueError as error:
                raise FilesError(f"{self._histogram} {level} {query}: {error}") from None
            answers = self._arrange(level, own, codes, marginal.size)
            # The Bureau's first cell is vacant; ours is occupied.
            answers = answers[:, ::-1] if self._histogram == UNITS.name and query == DETAILED else answers
            measured.append(Measurement(query, variance, np.ascontiguousarray(answers)))
        if DETAILED not in {each.query for each in measured}:
            raise FilesError(f"{self._histogram} {level}: the query {DETAILED} is missing")
        return tuple(sorted(measured, key=lambda each: (each.answers.shape[1], each.query)))

    def limit(
        self, codes: Mapping[str, Sequence[str]], tree: Mapping[str, Sequence[int]], populations: Mapping[str, int]
    ) -> tuple[Limits, ...]:
        """The limits of all levels: bounds for the finest, totals where they are exact."""
        levels, schema, finest = list(codes), SCHEMAS[self._histogram], list(codes.values())[-1]
        most = unbounded(len(finest), schema.groups.size)
        lower = np.zeros((len(finest), schema.groups.size), dtype=np.int64)
        upper, totals = np.full_like(lower, most), list[NDArray[np.int64] | None]()
        for level, own in codes.items():
            exact = None if level == STATE else self._constrain(STATE if level == PART else level, _TOTAL, own, 1)
            totals.append(None if exact is None else exact[:, 0])
        if self._histogram == PERSONS.name:
            if STATE in levels:
                totals[levels.index(STATE)] = np.array([populations[code] for code in codes[STATE]], dtype=np.int64)
            bounds = [self._constrain(levels[-1], name, finest, schema.groups.size) for name in (_LOWER, _UPPER)]
            if bounds[0] is None or bounds[1] is None:
                raise FilesError(f"{self._histogram} {levels[-1]}: the bounds {_LOWER} and {_UPPER} are missing")
            lower, upper = bounds[0], np.minimum(bounds[1], most)
            upper[:, schema.groups.answer(schema.possible[None].astype(np.int64))[0] == 0] = 0
        parents = [np.asarray(places, dtype=np.int64) for places in list(tree.values())[1:]]
        return propagate(levels, parents, lower, upper, totals)

    def _constrain(self, level: str, name: str, codes: Sequence[str], size: int) -> NDArray[np.int64] | None:
        """The values of a constraint in all places of a level; None if no place has it."""
        rows = self._read(level, "Constraint")
        own = rows.filter(pc.equal(rows["query_name"], name))
        if signs := set(pc.unique(own["sign"]).to_pylist()) - {_SIGNS[name]}:
            raise FilesError(f"{self._histogram} {level} {name}: the sign {signs.pop()}, not {_SIGNS[name]}")
        return self._arrange(level, own, codes, size) if own.num_rows else None

    def _read(self, level: str, kind: str) -> pa.Table:
        if (level, kind) not in self._rows:
            paths = sorted(_list_kind(self._folder, level, kind))
            # Files differ in integer widths and text types.
            columns = ("geocode", "query_name", *self._axes, *(["sign"] if kind == "Constraint" else []))
            texts = [(column, pa.string()) for column in columns]
            schema = pa.schema([*texts, ("value", pa.list_(pa.int64())), ("variance", pa.float64())])
            parts = [_read_file(path, schema) for path in paths]
            if not parts and kind == "DPQuery":
                raise FilesError(f"{self._folder.name}: {level}: there are no files of measurements")
            self._rows[level, kind] = pa.concat_tables([schema.empty_table(), *parts])
        return self._rows[level, kind]

    def _name(self, row: Mapping[str, str]) -> str:
        asked = [row[axis] for axis in self._axes]
        if all(each == _WHOLE for each in asked):
            return TOTAL
        if all(each == DETAILED for each in asked):
            return DETAILED
        return " * ".join(each for each in asked if each != _WHOLE)

    def _arrange(self, level: str, rows: pa.Table, codes: Sequence[str], size: int) -> NDArray[np.int64]:
        """The values of all places in order, shape (places, size)."""
        geocodes = rows["geocode"].combine_chunks()
        order = pc.index_in(pa.array(codes), value_set=geocodes)
        wrong = int(np.count_nonzero(pc.list_value_length(rows["value"]).to_numpy() != size))
        if len(geocodes) != len(codes) or order.null_count or wrong:
            name, of = rows["query_name"][0], f"{wrong} of {len(rows)} rows have not"
            raise FilesError(f"{self._histogram} {level} {name}: not every place has {size} values, once; {of}")
        return np.asarray(rows["value"].combine_chunks().take(order).flatten()).reshape(len(codes), size)


def _read_file(path: Path, schema: pa.Schema) -> pa.Table:
    """The columns of a file. Raises FilesError if one is missing, or has values that are missing or of other types."""
    columns, where = [], f"{path}"
    try:
        if not path.stat().st_size:
            raise FilesError(f"{path}: it is empty")
        names = pq.read_schema(path).names
        if missing := [name for name in schema.names if name not in names]:
            raise FilesError(f"{path}: the column {missing[0]} is missing")
        table = pq.read_table(path, columns=schema.names, partitioning=None)
        for field in schema:
            where = f"{path}: column {field.name}"
            columns.append(table[field.name].cast(field.type))
    except (pa.ArrowException, OSError) as error:
        raise FilesError(f"{where}: it cannot be read: {str(error).splitlines()[0]}") from None
    read = pa.table(columns, schema=schema)
    for name in ("geocode", "query_name", "value"):
        nulls = read[name].null_count or (pc.list_flatten(read[name]).null_count if name == "value" else 0)
        if nulls:
            raise FilesError(f"{path}: column {name}: {nulls} values are missing")
    values = pc.min_max(pc.list_flatten(read["value"])).as_py()
    if read.num_rows and not -MOST <= (values["min"] or 0) <= (values["max"] or 0) <= MOST:
        raise FilesError(f"{path}: column value: {values['min']} to {values['max']}, beyond ±2^40")
    return read


def _find_parents(codes: Mapping[str, Sequence[str]], depth: int) -> list[int]:
    """The position of each place's parent: the only place above, the state, or the place whose code begins its own."""
    level, above = list(codes)[depth], list(codes)[max(depth - 1, 0)]
    position = {code: number for number, code in enumerate(codes[above])}
    if depth < 2:
        if len(position) > 1:
            raise FilesError(f"{above}: {len(position)} places; without a level above, there is one")
        return [0] * len(codes[level])
    if level == PART:
        return [position[code[1:3]] for code in codes[level]]
    lengths = sorted({len(code) for code in position}, reverse=True)
    parents = [next((position[code[:n]] for n in lengths if code[:n] in position), -1) for code in codes[level]]
    if -1 in parents:
        raise FilesError(f"{level}: {codes[level][parents.index(-1)]} lies in no place of {above}")
    return parents
