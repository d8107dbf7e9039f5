"""The noisy measurements of a DHC release: how they are made, stored and read.

The table `noisy_measurements` has a row for every query and place, with the marginal cells that were read and the noisy
answers for them. Each answer's noise is a function of the draw's key, the query, the place and the number of the cell,
so that these answers are those of the complete measurement of all cells, of which only they are ever made. Siblings
have the same cells, those of their parent.

The version of measurements is a hash over the digests of all queries of all histograms at all levels.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.gates.shared import count_problem
from assets.measurement.method import MEASUREMENTS, GridError
from assets.topdown.dhc.levels import Given, Inputs, hold_homes, read_inputs, require_estimated
from assets.topdown.dhc.release import DHCRelease
from assets.topdown.histograms import read_counts
from assets.topdown.spine import read_tree
from mechanisms.sampling.goodness import BinCounts, bin_draws, find_misfits
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.levels import Level, Listing, Measuring
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.schema import Counts, Schema
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

EMPTY = Counts(*(np.zeros(0, dtype=np.int64) for _ in range(3)))


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
        files = list[Path]()

        def write() -> Iterator[tuple[Listing, Answers]]:
            for listing, answers in self._make():
                files.append(folder / f"{len(files)}.parquet")
                yield listing, _write(files[-1], listing, answers)

        return replace(self, version=hash_answers(write()), files=tuple(files))

    def _make(self) -> Iterator[tuple[Listing, Answers]]:
        for listing, exact in list_measured(self.session, self.release):
            yield listing, make_answers(listing, exact, self.key)


def make_answers(listing: Listing, exact: Counts, key: bytes) -> Answers:
    measuring = Measuring(listing.schema, listing.level, exact, key)
    for query, first, last, cells in listing.list_reads():
        yield query, first, last, cells, measuring.read(query, first, last, cells)


def list_measured(session: Session, release: DHCRelease) -> Iterator[tuple[Listing, Counts]]:
    """By level from the root and by histogram: which answers the estimation reads, and the exact counts, if the session
    reads them."""
    exact: Mapping[str, Sequence[Counts]] = {}
    listings = dict[str, list[Listing]]()
    for depth, (inputs, of_level) in enumerate(list_inputs(session, release)):
        if not depth:
            exact = inputs.exact
            listings = {name: [Listing(SCHEMAS[name], each) for each in own] for name, own in inputs.levels.items()}
        for given in of_level:
            inputs.read_again(given, listings[given.histogram][depth:])
    for depth, _ in enumerate(release.levels):
        for histogram in SCHEMAS:
            yield listings[histogram][depth], exact[histogram][depth] if exact else EMPTY


def list_inputs(session: Session, release: DHCRelease) -> Iterator[tuple[Inputs, Sequence[Given]]]:
    """By level from the root: what it is estimated from, and the same of each histogram."""
    tree = read_tree(session, release)
    for level in release.levels:
        inputs = read_inputs(session, release, tree, level, listing=True)
        require_estimated(session, release, level)
        table = release.public(release.level(level))
        homes = [read_counts(session, table, histogram=name) for name in (UNITS.name, HOUSEHOLDS.name)]
        yield inputs, (inputs.given[PERSONS.name], *hold_homes(inputs, *homes))


def hash_answers(answers: Iterable[tuple[Listing, Answers]]) -> str:
    """The version of all answers, which are read to the end."""
    version = sha256()
    for listing, of_level in answers:
        version.update(_label(listing).encode())
        for query, first, last, cells, values in of_level:
            version.update(f"{query} {first} {last} {len(cells)}".encode())
            for numbers in (cells, values):
                version.update(np.ascontiguousarray(numbers, dtype="<i8").data)
    return version.hexdigest()


def _label(listing: Listing) -> str:
    return f"{listing.schema.name} {listing.level.name}"


class Stored:
    """The stored answers of a histogram at a level. Raises GridError for answers that are not stored as numbers in
    lists, or are stored twice."""

    def __init__(self, session: Session, release: DHCRelease, schema: Schema, level: Level) -> None:
        self.schema, self.level = schema, level
        values = {"histogram": schema.name, "level": level.name}
        rows = session.arrow("dhc/answers", values, measurements=release.public(MEASUREMENTS))
        self.wrong = GridError(
            f"{release.schema}: {schema.name} {level.name}: not every place is measured once in the cells that are read"
        )
        lists = [rows[name].combine_chunks() for name in ("cells", "answers")]
        if any(each.null_count or each.flatten().null_count for each in lists):
            raise self.wrong
        self._starts = [each.offsets.to_numpy() for each in lists]
        self._numbers = [each.values.to_numpy() for each in lists]
        keys = zip(rows["query"].to_pylist(), rows["number"].to_pylist(), strict=True)
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


def read_answers(session: Session, release: DHCRelease, listing: Listing) -> Answers:
    """The stored answers of a histogram at a level, in the order in which they are made. Raises GridError unless every
    place has the answers that are read once, and no others."""
    stored, read = Stored(session, release, listing.schema, listing.level), 0
    for query, first, last, cells in listing.list_reads():
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
    measured = list_measured(session, release)
    return hash_answers((listing, read_answers(session, release, listing)) for listing, _ in measured)


def read_again(session: Session, release: DHCRelease) -> dict[str, dict[str, str]]:
    """By level and histogram, the digest of the stored answers, read as the estimation reads them."""
    digests = dict[str, dict[str, str]]()
    stored = dict[tuple[str, str], Stored]()
    for level, (inputs, of_level) in zip(release.levels, list_inputs(session, release), strict=True):
        digests[level] = {}
        for given in of_level:
            answers = []
            for below in inputs.levels[given.histogram]:
                key = given.histogram, below.name
                if key not in stored:
                    stored[key] = Stored(session, release, given.plan.schema, below)
                answers.append(stored[key])
            digests[level][given.histogram] = inputs.read_again(given, answers)
    return digests


def find_unmeasured(session: Session, release: DHCRelease) -> list[str]:
    """The problems if not every place is measured once in exactly the cells that its parent has."""
    try:
        compute_stored_version(session, release)
    except GridError as error:
        return [str(error)]
    due = {"histograms": list(SCHEMAS), "levels": list(release.levels)}
    (other,) = session.row("dhc/other_answers", due, measurements=release.public(MEASUREMENTS))
    return count_problem(other, "measurements of other histograms or levels")


def find_wrong_noise(session: Session, release: DHCRelease) -> tuple[list[str], str]:
    """The queries whose noise does not fit the declared distribution, and the version of the measurements read. At a
    level, queries of places with the budgets of only children below them are queries of their own."""
    noise: dict[str, BinCounts] = {}

    def bin_noise(listing: Listing, exact: Counts) -> Answers:
        for query, first, last, cells, answers in read_answers(session, release, listing):
            marginal, runs = listing.schema.marginal(query), listing.level.runs[first:last]
            differences = answers - exact.answer_cells(marginal, first, last, cells)
            for run in np.unique(runs).tolist():
                label = f"{_label(listing)} {query}" + (f", {run} only children" if run else "")
                variance = listing.level.variances[query] / listing.level.scales[run]
                own = bin_draws(differences[runs == run].ravel(), DiscreteGaussian(variance))
                noise[label] = noise[label] + own if label in noise else own
            yield query, first, last, cells, answers

    version = hash_answers((each, bin_noise(each, exact)) for each, exact in list_measured(session, release))
    return find_misfits(noise), version


def _write(path: Path, listing: Listing, answers: Answers) -> Answers:
    with open_part(path, SCHEMA) as writer:
        rows, size = list[pa.Table](), 0
        for query, first, last, cells, values in answers:
            if np.abs(values).max() > _LARGEST:
                raise GridError(f"{_label(listing)} {query}: answers beyond 2^31")
            places = last - first
            offsets = pa.array(np.arange(places + 1, dtype=np.int32) * len(cells))
            lists = (np.tile(cells, places), values.ravel())
            columns = {
                "histogram": pa.repeat(listing.schema.name, places),
                "level": pa.repeat(listing.level.name, places),
                "query": pa.repeat(query, places),
                "number": np.arange(first, last),
                **{
                    name: pa.ListArray.from_arrays(offsets, pa.array(own.astype(np.int32)))
                    for name, own in zip(("cells", "answers"), lists, strict=True)
                },
            }
            rows.append(pa.table(columns, schema=SCHEMA))
            size += values.size
            if size >= _WRITTEN:
                writer.write_table(pa.concat_tables(rows).combine_chunks())
                rows, size = [], 0
            yield query, first, last, cells, values
        if rows:
            writer.write_table(pa.concat_tables(rows).combine_chunks())
