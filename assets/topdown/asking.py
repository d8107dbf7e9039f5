"""Queries on a published redistricting release: its noisy measurements as arrays, and sums over any places.

The answers depend only on the published files, so everyone gets the same ones, and they cost no budget.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.publication.tables import PublishedTables
from assets.release.numbers import shown
from assets.texts import find_unseen
from assets.topdown.ways import MOST
from mechanisms.refusal import RefusedError
from mechanisms.topdown.decomposition import Decomposition, Information
from mechanisms.topdown.design import (
    GROUP_QUARTERS,
    HOUSING_UNITS,
    POPULATION,
    SCHEMAS,
    STATISTICS,
    bound_groups,
    unbounded,
)
from mechanisms.topdown.estimation import Families, Measurement
from mechanisms.topdown.feasibility import Limits, limit_by_occupancy, propagate
from mechanisms.topdown.information import (
    find_standard_errors,
    inform,
    prepare_sums,
    round_intervals,
    sum_cells,
    unite,
)
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.replicates import find_starts
from mechanisms.topdown.schema import PERSONS, UNITS, UNITS_BY_OCCUPANCY, Schema

_MEASURED, _QUERIES = "noisy_measurements", "queries"
_LISTED = 5
_FRACTION = re.compile(r"[0-9]{1,400}(/[0-9]{1,400})?", re.ASCII)
_WIDEST = 2**60


class PlacesError(RefusedError, ValueError):
    """A request for places or measurements that a publication cannot answer. The message names the file or the code,
    and the rule."""


@dataclass(frozen=True)
class Measured:
    """Noisy measurements of all places of a tree, from any source, and the statistics known exactly.

    Attributes:
        schema: the attributes of a record.
        tree: by level, from the root to the finest, the position of each place's parent in the level above; `[0]` at
            the root.
        measurements: by level, the answers of all places to each query, among them "detailed".
        limits: by level, the bounds and the totals of `mechanisms.topdown.feasibility.propagate`.
        codes: by level, the places' codes, if they have any.
    """

    schema: Schema
    tree: Mapping[str, Sequence[int]]
    measurements: Mapping[str, tuple[Measurement, ...]]
    limits: Sequence[Limits]
    codes: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_published(folder: str | Path) -> dict[str, Measured]:
    """The noisy measurements of persons and of units in the folder of a redistricting publication, with its exact
    statistics. The signature is not verified. Raises PlacesError if a file is missing or cannot be read."""
    return read_measured(PublishedTables(Path(folder)))


def read_measured(tables: PublishedTables) -> dict[str, Measured]:
    """The noisy measurements of persons and of units of a published redistricting release, with all its exact
    statistics. The products of the release must include `noisy_measurements` and its invariants.

    Raises PlacesError if one of these files is missing or cannot be read, or unless the places form a tree and each has
    every measurement and statistic exactly once; and VerificationError.
    """

    def read(name: str, **options: Any) -> pa.Table:
        try:
            return tables.read(name, **options)
        except (OSError, pa.ArrowException):
            raise PlacesError(
                f"{tables.folder}: {name}.parquet is missing or cannot be read; give the folder of a published "
                f"redistricting release whose products include {_MEASURED}"
            ) from None

    tree, codes = read_tree(read)
    levels, places = list(tree), len(list(codes.values())[-1])
    exact = {name: _read_exact(read, name, codes) for name in STATISTICS if name in tables}
    finest = {name: counts for name, (level, counts) in exact.items() if level == levels[-1]}
    parents = [np.array(above, dtype=np.int64) for above in list(tree.values())[1:]]
    limits = {}
    for name, held in ((PERSONS.name, POPULATION), (UNITS.name, HOUSING_UNITS)):
        totals = [exact[held][1][:, 0] if held in exact and exact[held][0] == level else None for level in levels]
        most = unbounded(places, SCHEMAS[name].groups.size)
        limits[name] = propagate(levels, parents, *bound_groups(name, places, finest, most), totals)
    return read_answers(read, tree, codes, limits)


def read_answers(
    read: Callable[..., pa.Table],
    tree: Mapping[str, Sequence[int]],
    codes: Mapping[str, Sequence[str]],
    limits: Mapping[str, Sequence[Limits]],
) -> dict[str, Measured]:
    """The measurements of a tree, by histogram, from tables in the published layout. Raises PlacesError."""
    variances, found = _read_variances(read, list(tree)), {}
    for name, schema in SCHEMAS.items():
        measurements = {}
        for level in tree:
            own = []
            for (histogram, of_level, query), variance in variances.items():
                if (histogram, of_level) == (name, level):
                    answers = _read_answers(read, (name, level, query), codes[level], schema.marginal(query).size)
                    own.append(Measurement(query, variance, answers))
            order = sorted(own, key=lambda each: (schema.marginal(each.query).size, each.query))
            measurements[level] = tuple(order)
        found[name] = Measured(schema, tree, measurements, limits[name], codes)
    return found


def _read_columns(read: Callable[..., pa.Table], name: str, columns: Sequence[str], **options: Any) -> pa.Table:
    table = read(name, **options)
    if missing := [column for column in columns if column not in table.column_names]:
        raise PlacesError(f"{name}: the column {missing[0]} is missing")
    return table.select(columns)


def read_tree(read: Callable[..., pa.Table]) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
    """The position of each place's parent in the level above, and the codes, by level from the root, from a table
    `spine` in the published layout. Raises PlacesError unless the places form a tree."""
    spine = _read_columns(read, "spine", ["depth", "level", "number", "geoid", "parent"])
    places = spine.sort_by([("depth", "ascending"), ("number", "ascending")]).to_pylist()
    tree: dict[str, list[int]] = {}
    codes: dict[str, list[str]] = {}
    above = 1
    for depth, level in enumerate(dict.fromkeys(place["level"] for place in places)):
        own = [place for place in places if place["level"] == level]
        parents = [place["parent"] if depth else 0 for place in own]
        if [(place["depth"], place["number"]) for place in own] != [(depth, number) for number in range(len(own))]:
            raise PlacesError(f"spine: {level}: its places are not numbered from 0 without a gap")
        if not set(parents) <= set(range(above)) or parents != sorted(parents) or not (depth or len(own) == 1):
            raise PlacesError(f"spine: {level}: its places are not in the order of those above, below a single root")
        tree[level], codes[level] = parents, [place["geoid"] for place in own]
        if len(set(codes[level])) < len(own) or None in codes[level]:
            raise PlacesError(f"spine: {level}: not every place has a code of its own")
        if odd := [text for text in (level, *codes[level]) if not isinstance(text, str) or find_unseen(text)]:
            raise PlacesError(f"spine: {odd[0]!r} is no text whose characters can all be seen")
        above = len(own)
    if not tree:
        raise PlacesError("spine: it has no places")
    return tree, codes


def _read_exact(
    read: Callable[..., pa.Table], name: str, codes: Mapping[str, Sequence[str]]
) -> tuple[str, NDArray[np.int64]]:
    """The level of a published invariant, and its counts, shape (places, types of group quarters or 1)."""
    by_type = name == GROUP_QUARTERS
    size = PERSONS.groups.size - 1 if by_type else 1
    rows = _read_columns(read, name, ["level", "geoid", *(["category"] if by_type else []), "count"]).to_pylist()
    level = str(rows[0]["level"]) if rows else ""
    due = {(level, code, category) for code in codes.get(level, ()) for category in range(1, size + 1)}
    counts = {(row["level"], row["geoid"], row.get("category", 1)): row["count"] for row in rows}
    if not due or counts.keys() != due or len(rows) != len(due):
        raise PlacesError(f"{name}: not every place of a level has its numbers once")
    if wrong := sum(not isinstance(count, int) or not 0 <= count <= MOST for count in counts.values()):
        raise PlacesError(f"{name}: {wrong} numbers are missing, negative or over 2^40")
    found = [[counts[level, code, category] for category in range(1, size + 1)] for code in codes[level]]
    return level, np.array(found, dtype=np.int64)


def _read_variances(read: Callable[..., pa.Table], levels: Sequence[str]) -> dict[tuple[str, str, str], Fraction]:
    """The variance of the noise by histogram, level and query."""
    rows = _read_columns(read, _QUERIES, ["histogram", "level", "query", "parameter"]).to_pylist()
    variances = {}
    for row in rows:
        histogram, level, query = key = row["histogram"], row["level"], row["query"]
        where = f"{_QUERIES}: {histogram} {level} {query}"
        if histogram not in SCHEMAS or level not in levels or key in variances:
            raise PlacesError(f"{where}: there is no such histogram or level, or it is there twice")
        try:
            SCHEMAS[histogram].marginal(query)
            variances[key] = read_variance(row["parameter"])
        except (TypeError, ValueError) as error:
            raise PlacesError(f"{where}: {error}") from None
    for name in SCHEMAS:
        own = [variance for (histogram, _, _), variance in variances.items() if histogram == name]
        if problem := find_problem_of_variances(own):
            raise PlacesError(f"{_QUERIES}: {name}: {problem}")
    return variances


def read_variance(stated: str | float) -> Fraction:
    """The variance of noise from its published form: a fraction as text, or a number. Raises ValueError for any other
    text, and for a variance outside [2^-60, 2^60]."""
    if isinstance(stated, str) and not _FRACTION.fullmatch(stated):
        raise ValueError(f"the variance {shown(stated)} is not a fraction such as 37/4")
    try:
        variance = Fraction(stated)
    except (ArithmeticError, ValueError):
        # A division by zero, an infinity, or not a number.
        variance = Fraction(0)
    if not Fraction(1, _WIDEST) <= variance <= _WIDEST:
        raise ValueError(f"the variance {shown(stated)} is not from 2^-60 to 2^60")
    return variance


def find_problem_of_variances(variances: Collection[Fraction]) -> str:
    """Why measurements with these variances cannot be added up as floating-point numbers; "" if they can."""
    if not variances or max(variances) <= MOST * min(variances):
        return ""
    return f"the greatest variance is over 2^40 times the smallest: {float(max(variances))}, {float(min(variances))}"


def _read_answers(
    read: Callable[..., pa.Table], of: tuple[str, str, str], codes: Sequence[str], size: int
) -> NDArray[np.signedinteger]:
    """The answers to a query in all places of a level, shape (places, size)."""
    filters = [(column, "=", value) for column, value in zip(("histogram", "level", "query"), of, strict=True)]
    rows = _read_columns(read, _MEASURED, ["number", "geoid", "answers"], filters=filters).sort_by("number")
    lists = rows["answers"].combine_chunks()
    if lists.type not in (pa.list_(pa.int32()), pa.list_(pa.int64())):
        raise PlacesError(f"{_MEASURED}: answers: they are not lists of 32-bit or 64-bit integers")
    answers = stack_lists(lists, size, lists.type.value_type)
    if answers is not None and not -MOST <= answers.min(initial=0) <= answers.max(initial=0) <= MOST:
        raise PlacesError(f"{_MEASURED}: {' '.join(of)}: there are answers beyond ±2^40")
    if rows["number"].to_pylist() != list(range(len(codes))) or rows["geoid"].to_pylist() != list(codes):
        raise PlacesError(f"{_MEASURED}: {' '.join(of)}: not every place of the spine is measured once")
    if answers is None:
        raise PlacesError(f"{_MEASURED}: {' '.join(of)}: not every place has {size:,} answers")
    return answers


def stack_lists(lists: pa.Array, size: int, kind: pa.DataType) -> NDArray[Any] | None:
    """Lists of numbers as an array, shape (lists, size). None unless each list has `size` numbers of this kind."""
    if not pa.types.is_list(lists.type):
        return None
    numbers = lists.flatten()
    regular = not lists.null_count and np.all(np.diff(lists.offsets.to_numpy()) == size)
    if not regular or numbers.null_count or numbers.type != kind:
        return None
    return numbers.to_numpy().reshape(len(lists), size)


def list_families(measured: Measured, total_first: Sequence[str] = ()) -> list[Families]:
    """The families of each level, from the root."""
    parents = [np.asarray(places, dtype=np.int64) for places in list(measured.tree.values())[1:]]
    families = []
    for depth, level in enumerate(measured.tree):
        starts = find_starts(parents, depth)
        names = tuple(f"{level}, parent {number}" for number in range(len(starts) - 1))
        own, first = measured.measurements[level], level in total_first
        families.append(Families(measured.schema, names, starts, own, measured.limits[depth], first, None))
    return families


def list_all_families(measured: Measured) -> list[Families]:
    """The families of each level, from the root; the limits bound the units by the number of units."""
    if measured.schema.name == UNITS.name:
        parents = [np.asarray(places, dtype=np.int64) for places in list(measured.tree.values())[1:]]
        limits = limit_by_occupancy(list(measured.tree), parents, measured.limits)
        measured = replace(measured, schema=UNITS_BY_OCCUPANCY, limits=limits)
    return list_families(measured)


def inform_levels(families: Sequence[Families]) -> list[Information | None]:
    """The information about each level from the measurements at and below its places; None for the finest level, which
    has no level below it."""
    informed: list[Information | None] = [None]
    for own, above in zip(reversed(families[1:]), reversed(families[:-1]), strict=True):
        informed.insert(0, inform(own, informed[0], above.measurements))
    return informed


def add_up_places(
    folder: str | Path | PublishedTables,
    codes: Sequence[str],
    tables: Sequence[str] = (),
    measured: Mapping[str, Measured] | None = None,
) -> pa.Table:
    """The sum over places of any levels, given by their codes: a row for each cell of the given tables, by default all
    published tables.

    `estimate` is the sum of the published counts. `linear_estimate` is the best linear unbiased estimate from all
    measurements, with its standard error, and the ends of a 90% interval around it; the estimate accounts for the
    dependence between the errors of places. Raises PlacesError for a code that is unknown, given twice, or of a place
    within another given place; for a table that is not published; and if the noisy measurements are not published,
    unless `measured` gives the measurements behind the published estimates.
    """
    files = folder if isinstance(folder, PublishedTables) else PublishedTables(Path(folder))
    published = [name for name in REDISTRICTING if name.lower() in files]
    if not published or (measured is None and (_MEASURED not in files or _QUERIES not in files)):
        raise PlacesError(
            f"{files.folder.name}: sums of places follow from redistricting data whose products are {_MEASURED} and a "
            "table, and are not of these; for a DHC release, ask its redistricting release, or declare a retabulation"
        )
    if unknown := [name for name in tables if name not in published]:
        raise PlacesError(f"{unknown[0]}: there is no such table; published are {', '.join(published)}")
    chosen = list(tables) or published
    measured = read_measured(files) if measured is None else measured
    places = _find_places(measured[PERSONS.name], codes)
    unions = {
        name: _join(measured[name], places)
        for name in SCHEMAS
        if any(REDISTRICTING[table].schema.name == name for table in chosen)
    }
    rows: list[dict[str, Any]] = []
    for name in chosen:
        table = REDISTRICTING[name]
        split, union = unions[table.schema.name]
        counted = np.array([cell.counted for cell in table.cells])
        (estimates,), (variances,) = sum_cells(prepare_sums(split, counted), union)
        errors = find_standard_errors(variances)
        (lower,), (upper,) = round_intervals(estimates[None], variances[None], np.full((1, len(counted)), np.inf))
        counts = files.read(name.lower(), filters=[("geoid", "in", list(codes))])
        for number, cell in enumerate(table.cells):
            rows.append(
                {
                    "table": name,
                    "cell": cell.name,
                    "label": cell.label,
                    "estimate": sum(counts[cell.name].to_pylist()),
                    "linear_estimate": float(estimates[number]),
                    "standard_error": float(errors[number]),
                    "linear_lower": int(lower[number]),
                    "linear_upper": int(upper[number]),
                }
            )
    return pa.Table.from_pylist(rows)


def _find_places(measured: Measured, codes: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """By level, a mask of the requested places."""
    wanted = set(codes)
    if len(wanted) < len(codes):
        twice = next(code for code in codes if codes.count(code) > 1)
        raise PlacesError(f"{twice}: given {codes.count(twice)} times; a place counts once")
    chosen = {level: np.array([code in wanted for code in own]) for level, own in measured.codes.items()}
    known = {code for own in measured.codes.values() for code in own}
    if unknown := sorted(wanted - known):
        more = f" and {len(unknown) - _LISTED} more" if len(unknown) > _LISTED else ""
        raise PlacesError(f"there is no place {', '.join(unknown[:_LISTED])}{more} in the publication's spine")
    covered = np.zeros(1, dtype=np.bool_)
    for level, own in chosen.items():
        above = covered[np.asarray(measured.tree[level], dtype=np.int64)]
        if (both := np.flatnonzero(own & above)).size:
            raise PlacesError(
                f"{measured.codes[level][both[0]]}: it lies in another one of the places, and counts once"
            )
        covered = own | above
    return chosen


def _join(measured: Measured, chosen: Mapping[str, NDArray[np.bool_]]) -> tuple[Decomposition, Information]:
    """The chosen places joined to a single place."""
    families = list_all_families(measured)
    union = unite(families, inform_levels(families), [np.flatnonzero(chosen[level]) for level in measured.tree])
    return Decomposition(families[0].schema), union
