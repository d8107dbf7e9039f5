"""The noisy measurements of a DHC release: how they are made, stored and read.

The table `noisy_measurements` has a row for every query and place, with the marginal cells that were read and the noisy
answers for them. Each answer's noise is a function of the draw's key, the query, the place and the number of the cell,
so that these answers are those of the complete measurement of all cells, of which only they are ever made. Siblings
have the same cells, those of their parent.

The version of measurements is a hash over the digests of all queries of all histograms at all levels. Answers are made,
written and read for a few families at a time, as `levels` estimates them.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from hashlib import sha256
from itertools import groupby, pairwise, product
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.gates.shared import count_problem
from assets.measurement.method import MEASUREMENTS, GridError
from assets.topdown.dhc.levels import (
    Given,
    Inputs,
    Span,
    digest_all,
    hold_homes,
    list_parents,
    list_scopes,
    list_spans,
    read_above,
    read_exact,
    read_inputs,
    read_partitions,
    require_estimated,
)
from assets.topdown.dhc.release import DHCRelease
from assets.topdown.histograms import read_counts
from assets.topdown.reading import Scope
from assets.topdown.release import SPINE
from assets.topdown.spine import Tree, read_tree
from mechanisms.sampling.goodness import BinCounts, bin_draws, find_misfits
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.levels import (
    Level,
    Listing,
    Measuring,
    list_coarse,
    list_nothing,
    plan_levels,
    reach_cells,
)
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.schema import Counts, Schema
from resources.statements import Zone
from resources.warehouse import Session, open_part

COLUMNS = {
    "histogram": "Histogram: persons, units or households",
    "level": "Geographic level",
    "query": "Measured marginal",
    "number": "Number of the place within its level, as in the spine",
    "cells": "Cells of the query that were read, by number; the others were not drawn",
    "answers": "Noisy answers, one for each of these cells, in order",
}

_TYPES = (
    *(pa.string(), pa.string(), pa.string(), pa.int64()),
    *(pa.list_(pa.int32()), pa.list_(pa.int32())),
)
SCHEMA = pa.schema(list(zip(COLUMNS, _TYPES, strict=True)))

Answers = Iterator[tuple[str, int, int, NDArray[np.int64], NDArray[np.int64]]]
"""A query, the first of some places and the one after the last, marginal cells, and the noisy answers, shape (places,
cells)."""

_LARGEST = np.iinfo(np.int32).max

_WRITTEN = 2**18
"""So many answers are written at once, or those of some siblings to a query if they are more. Of a part written a few
places at a time, DuckDB needs many times its size to make a table."""

NO_CELLS = np.zeros(0, dtype=np.int64)

EMPTY = Counts(NO_CELLS, NO_CELLS, NO_CELLS)


@dataclass(frozen=True)
class Batch:
    """What is measured of a histogram in the places of a span, which are counted from 0.

    Attributes:
        listing: whose estimation reads which answers.
        parents: shape (places,): the position of each place's parent among those of the span.
        exact: the exact counts, if the session reads them.
        reach: the marginal cells of a query that are read in the estimation of a level of the children of a parent.
    """

    listing: Listing
    parents: NDArray[np.int64]
    exact: Counts
    reach: Callable[[str, int, int], NDArray[np.int64]]

    @property
    def label(self) -> tuple[str, str]:
        return self.listing.schema.name, self.listing.level.name

    def list_reads(self) -> Iterator[tuple[str, int, int, NDArray[np.int64]]]:
        """By query and place: the query, the first of some siblings and the one after the last, and marginal cells."""
        starts = np.flatnonzero(np.diff(self.parents, prepend=-1, append=-1))
        for query, readers in sorted(self.listing.readers.items()):
            for first, last in pairwise(starts.tolist()):
                if readers[first] >= 0:
                    yield query, first, last, self.reach(query, int(readers[first]), int(self.parents[first]))


@dataclass(frozen=True)
class Drawing:
    """The output of a draw, which is not made before it is asked for, in a session that reads both zones. If the
    measurements are made in parts, it has their version and files, in the order in which they are stored."""

    release: DHCRelease
    session: Session
    key: bytes = field(repr=False)
    version: str = ""
    files: tuple[Path, ...] = ()

    def compute_version(self) -> str:
        """The version of the measurements; makes them unless that is done, and keeps nothing but hashes."""
        return self.version or hash_answers(self._make())

    def in_parts(self, folder: Path) -> "Drawing":
        with closing(_Parts(folder)) as parts:
            version = hash_answers((batch, parts.write(batch, answers)) for batch, answers in self._make())
        return replace(self, version=version, files=tuple(parts.list_files()))

    def _make(self) -> Iterator[tuple[Batch, Answers]]:
        for batch in list_measured(self.session, self.release):
            yield batch, make_answers(batch, self.key)


def make_answers(batch: Batch, key: bytes) -> Answers:
    measuring = Measuring(batch.listing.schema, batch.listing.level, batch.exact, key)
    for query, first, last, cells in batch.list_reads():
        yield query, first, last, cells, measuring.read(query, first, last, cells)


def list_measured(session: Session, release: DHCRelease) -> Iterator[Batch]:
    """By level from the root, by histogram and by span: which answers the estimation reads, and the exact counts, if
    the session reads them."""
    tree, states = read_tree(session, release), read_partitions(session, release)
    listings, roots = session.compute_once(("readers", release.schema), lambda: _list_readers(session, release, tree))
    scopes = list_scopes(release, states)
    for (depth, level), histogram in product(enumerate(release.levels), SCHEMAS):
        for scope in scopes:
            if scope.level == level:
                for span in list_spans(session, release, tree, scope):
                    yield _read_batch(session, release, tree, span, listings[histogram][depth], roots[histogram])


def _read_batch(
    session: Session, release: DHCRelease, tree: Tree, span: Span, listing: Listing, root: NDArray[np.int64]
) -> Batch:
    schema, level = listing.schema, span.scope.level
    depth, ((first, last), *_) = release.levels.index(level), span.cut(release, tree)
    own = listing.take(first, last, depth)
    exact = EMPTY
    if Zone.CONFIDENTIAL in session.zones:
        exact = read_exact(session, release, tree, schema.name, own.level)
    parents = list_parents(tree)
    # The span's parents and all places above them, and what is estimated together with the level below these.
    ancestors, scope = np.arange(span.first, span.last), span.scope
    lineage, scopes = dict[int, NDArray[np.int64]](), {depth: scope}
    for above in range(depth - 1, -1, -1):
        lineage[above], ancestors = ancestors, parents[above][ancestors]
        scopes[above] = scope = scope.above(release) or scope

    @cache
    def read_level(reader: int) -> tuple[int, Counts]:
        """The estimates that the estimation of a level reads, in the ancestors of the span, and the first of these."""
        begin, end = lineage[reader - 1][[0, -1]].tolist()
        counts = read_above(session, release, scopes[reader], schema.name, begin, end + 1)
        assert counts is not None
        return begin, counts

    @lru_cache(maxsize=len(listing.readers))
    def find_cells(query: str, reader: int, place: int) -> NDArray[np.int64]:
        if not reader:
            return reach_cells(schema, listing.level, query, root)
        begin, counts = read_level(reader)
        of_place = slice(*np.searchsorted(counts.number, [place - begin, place - begin + 1]))
        return reach_cells(schema, listing.level, query, counts.cell[of_place])

    def reach(query: str, reader: int, parent: int) -> NDArray[np.int64]:
        return find_cells(query, reader, int(lineage[reader - 1][parent]) if reader else 0)

    return Batch(own, parents[depth][first:last] - span.first, exact, reach)


def _list_readers(
    session: Session, release: DHCRelease, tree: Tree
) -> tuple[dict[str, list[Listing]], dict[str, NDArray[np.int64]]]:
    """By histogram and level: which answers the estimation of which level reads first; and by histogram, the cells that
    are read at the root."""
    every, roots = list_parents(tree), dict[str, NDArray[np.int64]]()
    listings = {
        name: [list_nothing(SCHEMAS[name], level) for level in plan_levels(allocation, every, release.design.complete)]
        for name, allocation in release.design.allocations.items()
    }
    for inputs, of_span in list_inputs(session, release):
        depth = release.levels.index(inputs.span.scope.level)
        for given in of_span:
            if not depth:
                ((_, _, _, roots[given.histogram], _),) = given.list_families()
            levels = zip(listings[given.histogram][depth:], inputs.span.cut(release, tree), strict=True)
            answers = [listing.take(*own, depth) for listing, own in levels][: len(inputs.parents)]
            reading = inputs.read(answers)
            for query, first, last, _ in given.list_siblings():
                reading.read(query, first, last, NO_CELLS)
    return listings, roots


def list_inputs(session: Session, release: DHCRelease) -> Iterator[tuple[Inputs, Sequence[Given]]]:
    """By level from the root and by span: what it is estimated from, and the same of each histogram."""
    tree = read_tree(session, release)
    for scope in list_scopes(release, read_partitions(session, release)):
        require_estimated(session, release, scope)
        for span in list_spans(session, release, tree, scope):
            inputs = read_inputs(session, release, tree, span, listing=True)
            homes = inputs.given[UNITS.name], inputs.given[HOUSEHOLDS.name]
            if scope.above(release) is None:
                table, _ = scope.tables(release)
                counts = (
                    read_counts(session, table, SCHEMAS[each.histogram].size, 0, 1, histogram=each.histogram)
                    for each in homes
                )
                homes = hold_homes(inputs, *counts)
            yield inputs, (inputs.given[PERSONS.name], *homes)


def hash_answers(answers: Iterable[tuple[Batch, Answers]]) -> str:
    """The version of all answers, which are read to the end."""
    digests = dict[tuple[str, str, str], Any]()
    for batch, of_batch in answers:
        begin = batch.listing.level.first
        for query, first, last, cells, values in of_batch:
            digest = digests.setdefault((*batch.label, query), sha256())
            digest.update(f"{begin + first} {begin + last} {len(cells)}".encode())
            for numbers in (cells, values):
                digest.update(np.ascontiguousarray(numbers, dtype="<i8").data)
    of_queries = [[*of, digest.hexdigest()] for of, digest in sorted(digests.items())]
    return sha256(json.dumps(of_queries).encode()).hexdigest()


class Stored:
    """The stored answers of a histogram at a level, or in some of its places, which are then counted from 0; to some
    queries, or to all. Raises GridError for answers that are not lists of 32-bit integers, or are stored twice."""

    def __init__(
        self, session: Session, release: DHCRelease, schema: Schema, level: Level, queries: Sequence[str] = ()
    ) -> None:
        self.schema, self.level = schema, level
        values: dict[str, Any] = {"histogram": schema.name, "level": level.name}
        values |= {"first": level.first, "last": level.first + len(level.runs)}
        values |= {"queries": list(queries)} if queries else {}
        rows = session.arrow("dhc/answers", values, measurements=release.public(MEASUREMENTS), chosen=bool(queries))
        self.wrong = GridError(
            f"{release.schema}: {schema.name} {level.name}: not every place is measured once in the cells that are read"
        )
        lists = [rows[name].combine_chunks() for name in ("cells", "answers")]
        if any(each.type != pa.list_(pa.int32()) or each.null_count or each.flatten().null_count for each in lists):
            raise self.wrong
        self._starts = [each.offsets.to_numpy() for each in lists]
        self._numbers = [each.values.to_numpy() for each in lists]
        numbers = (number - level.first for number in rows["number"].to_pylist())
        keys = zip(rows["query"].to_pylist(), numbers, strict=True)
        self._place = {key: position for position, key in enumerate(keys)}
        if len(self._place) != len(rows):
            raise self.wrong

    def __len__(self) -> int:
        return len(self._place)

    def places(self, query: str) -> list[int]:
        """Those with answers to the query. Estimation may read none of siblings without anybody."""
        return [number for of, number in self._place if of == query]

    def find(self, query: str, number: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The cells of a place, and its answers."""
        at = self._place.get((query, number), -1)
        cells, answers = (
            each[start[at] : start[at + 1]] for each, start in zip(self._numbers, self._starts, strict=True)
        )
        if at < 0 or len(cells) != len(answers):
            raise self.wrong
        return cells, answers

    def read(self, query: str, first: int, last: int, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.empty((last - first, len(cells)), dtype=np.int64)
        for number in range(first, last):
            own, answers = self.find(query, number)
            position = np.searchsorted(own, cells)
            if not len(own) or not np.array_equal(own[np.minimum(position, len(own) - 1)], cells):
                raise self.wrong
            found[number - first] = answers[position]
        return found


def read_answers(session: Session, release: DHCRelease, batch: Batch) -> Answers:
    """The stored answers of a batch, in the order in which they are made. Raises GridError unless every place has the
    answers that are read once, and no others."""
    stored, read = Stored(session, release, batch.listing.schema, batch.listing.level), 0
    for query, first, last, cells in batch.list_reads():
        found = list[NDArray[np.int32]]()
        for number in range(first, last):
            own, answers = stored.find(query, number)
            if not np.array_equal(own, cells):
                raise stored.wrong
            found.append(answers)
        read += last - first
        yield query, first, last, cells, np.array(found, dtype=np.int64)
    if read != len(stored):
        raise stored.wrong


def compute_stored_version(session: Session, release: DHCRelease) -> str:
    """Raises GridError as `read_answers`."""
    return session.compute_once(("stored answers", release.schema), lambda: _hash_stored(session, release))


def _hash_stored(session: Session, release: DHCRelease) -> str:
    return hash_answers((batch, read_answers(session, release, batch)) for batch in list_measured(session, release))


def read_again(session: Session, release: DHCRelease) -> dict[Scope, dict[str, str]]:
    """By scope and histogram, the digest of the stored answers, read as the estimation reads them."""
    digests = dict[Scope, dict[str, Any]]()
    for inputs, of_span in list_inputs(session, release):
        own = digests.setdefault(inputs.span.scope, {histogram: sha256() for histogram in SCHEMAS})
        for given in of_span:
            schema, levels = given.plan.schema, inputs.levels[given.histogram]
            queries = [(), (), *(list_coarse(schema, level) for level in levels[2:])]
            stored = [Stored(session, release, schema, *each) for each in zip(levels, queries, strict=False)]
            inputs.read_again(given, digest_all(stored, own[given.histogram]))
    return {scope: {name: digest.hexdigest() for name, digest in own.items()} for scope, own in digests.items()}


def find_unmeasured(session: Session, release: DHCRelease) -> list[str]:
    """The problems if not every place is measured once in exactly the cells that its parent has."""
    try:
        compute_stored_version(session, release)
    except GridError as error:
        return [str(error)]
    due = {"histograms": list(SCHEMAS)}
    names = {"measurements": release.public(MEASUREMENTS), "spine": release.public(SPINE)}
    (other,) = session.row("dhc/other_answers", due, **names)
    return count_problem(other, "measurements of other histograms or places")


def find_wrong_noise(session: Session, release: DHCRelease) -> tuple[list[str], str]:
    """The queries whose noise does not fit the declared distribution, and the version of the measurements read. At a
    level, queries of places with the budgets of only children below them are queries of their own."""
    noise: dict[str, BinCounts] = {}

    def bin_noise(batch: Batch) -> Answers:
        listing = batch.listing
        for query, first, last, cells, answers in read_answers(session, release, batch):
            marginal, runs = listing.schema.marginal(query), listing.level.runs[first:last]
            differences = answers - batch.exact.answer_cells(marginal, first, last, cells)
            for run in np.unique(runs).tolist():
                label = f"{' '.join(batch.label)} {query}" + (f", {run} only children" if run else "")
                variance = listing.level.variances[query] / listing.level.scales[run]
                own = bin_draws(differences[runs == run].ravel(), DiscreteGaussian(variance))
                noise[label] = noise[label] + own if label in noise else own
            yield query, first, last, cells, answers

    version = hash_answers((batch, bin_noise(batch)) for batch in list_measured(session, release))
    return find_misfits(noise), version


class _Parts:
    """The files of answers, one for each query of a histogram at a level, of which those of one level are open."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._writers = folder, dict[str, pa.RecordBatchFileWriter]()
        self._files = dict[tuple[str, str], dict[str, Path]]()

    def write(self, batch: Batch, answers: Answers) -> Answers:
        """Write the answers of a batch as they are made. Those of a histogram at a level follow each other."""
        if batch.label not in self._files:
            self.close()
        of_label = self._files.setdefault(batch.label, {})
        for query, of_query in groupby(answers, itemgetter(0)):
            if query not in self._writers:
                of_label[query] = self._folder / f"{len(self._files)}_{len(of_label)}.arrow"
                self._writers[query] = open_part(of_label[query], SCHEMA)
            rows, size = list[pa.Table](), 0
            for _, first, last, cells, values in of_query:
                if np.abs(values).max(initial=0) > _LARGEST:
                    raise GridError(f"{' '.join(batch.label)} {query}: answers beyond 2^31")
                rows.append(_to_rows(batch, query, first, last, cells, values))
                size += values.size
                if size >= _WRITTEN:
                    self._writers[query].write_table(pa.concat_tables(rows).combine_chunks())
                    rows, size = [], 0
                yield query, first, last, cells, values
            if rows:
                self._writers[query].write_table(pa.concat_tables(rows).combine_chunks())

    def list_files(self) -> list[Path]:
        """Those of each histogram at a level in order of queries."""
        return [of_label[query] for of_label in self._files.values() for query in sorted(of_label)]

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers = {}


def _to_rows(
    batch: Batch, query: str, first: int, last: int, cells: NDArray[np.int64], values: NDArray[np.int64]
) -> pa.Table:
    places, begin = last - first, batch.listing.level.first
    offsets = pa.array(np.arange(places + 1, dtype=np.int32) * len(cells))
    lists = (np.tile(cells, places), values.ravel())
    columns = {
        "histogram": pa.repeat(batch.label[0], places),
        "level": pa.repeat(batch.label[1], places),
        "query": pa.repeat(query, places),
        "number": np.arange(begin + first, begin + last),
        **{
            name: pa.ListArray.from_arrays(offsets, pa.array(own.astype(np.int32)))
            for name, own in zip(("cells", "answers"), lists, strict=True)
        },
    }
    return pa.table(columns, schema=SCHEMA)
