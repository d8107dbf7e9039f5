"""The exact answers and the noisy measurements of TopDown, in batches of places.

The table `noisy_measurements` has a row for every place and query, with the answers for all cells in a list. Batches
keep memory bounded. `assets.charge.drawing` makes the draw.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.gates.shared import count_problem
from assets.measurement.method import MEASUREMENTS, Batch, GridError
from assets.topdown.histograms import stage_level
from assets.topdown.release import SPINE, TopDownRelease
from assets.topdown.spine import geoids, places_of, stage_ancestry
from assets.topdown.streams import Stream, hashed, streams_of, version_of_streams
from mechanisms.sampling.stream import RandomStream
from mechanisms.topdown.design import Measured
from resources.statements import Fragment
from resources.warehouse import Session

BATCH = 1024
"""The number of places whose measurements are made, written or read at a time: about ten megabytes."""

COLUMNS = {
    "histogram": "Histogram: persons or units",
    "level": "Geographic level",
    "query": "Measured marginal",
    "number": "Number of the place within its level, as in the spine",
    "geoid": "Code of the place",
    "answers": "Noisy answers, one for each cell of the query, in order",
}

_LARGEST = np.iinfo(np.int32).max


class Digest(Protocol):
    """A running hash."""

    def update(self, data: memoryview, /) -> None:
        """Add bytes."""

    def hexdigest(self) -> str:
        """The hash of all bytes so far."""


@dataclass(frozen=True)
class PlacesBatch(Batch):
    """The exact or noisy answers of some places to one query, shape (places, marginal cells).

    Attributes:
        stream: the stream that they are a part of.
        first: the number of the first place.
    """

    stream: Stream
    first: int


def exact_batches(session: Session, release: TopDownRelease) -> Iterator[PlacesBatch]:
    """The exact answers: by histogram, level and state, then by batch of places, then by query."""
    ancestry, counts, rolled_up = stage_ancestry(session, release), Fragment(""), None
    for streams, first, last in _parts(streams_of(session, release)):
        measured = streams[0].measured
        if rolled_up != (rolled_up := (measured.histogram, measured.level)):
            counts = stage_level(session, release, *rolled_up, ancestry)
        number, cell, count = counts_between(session, counts, first, last)
        for stream in streams:
            marginal = stream.measured.marginal
            answers = np.zeros((last - first, marginal.size), dtype=np.int64)
            np.add.at(answers, (number, marginal.cells[cell]), count)
            yield PlacesBatch(stream.measured.label, answers, stream, first)


def noisy_batches(session: Session, release: TopDownRelease, key: bytes) -> Iterator[PlacesBatch]:
    """The exact answers of `exact_batches` plus their noise, each from its own stream."""
    random: dict[str, RandomStream] = {}
    for batch in exact_batches(session, release):
        stream = batch.stream
        if batch.first == stream.first:
            random[stream.label] = stream.random(key)
        noise = stream.measured.noise.sample(batch.values.size, random[stream.label])
        yield replace(batch, values=batch.values + noise.reshape(batch.values.shape))


def _parts(streams: Iterable[Stream]) -> Iterator[tuple[list[Stream], int, int]]:
    """Batches of places, from the first up to but excluding the last, with the streams that have answers there."""
    for _, own in groupby(streams, lambda stream: (stream.measured.histogram, stream.measured.level, stream.state)):
        together = list(own)
        for first in range(together[0].first, together[0].last, BATCH):
            yield together, first, min(first + BATCH, together[0].last)


def counts_between(
    session: Session, counts: Fragment, first: int, last: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The nonzero counts of the places from `first` up to but excluding `last`: place (from 0), cell, count."""
    found = session.arrow("topdown/counts_between", {"first": first, "last": last}, counts=counts)
    number, cell, count = (found[name].to_numpy() for name in ("number", "cell", "count"))
    return number, cell, count


def write_measurements(session: Session, release: TopDownRelease, batches: Iterator[PlacesBatch]) -> None:
    """Store measurements.

    Raises:
        GridError: if the absolute value of an answer is 2^31 or more.
    """
    table = release.public(MEASUREMENTS)
    session.create(table, "topdown/no_measurements")
    codes = {level: geoids(session, release, level) for level in release.levels}
    for batch in batches:
        rows = _rows(batch, codes[batch.stream.measured.level][batch.first : batch.first + len(batch.values)])
        session.run("topdown/append", table=table, rows=session.register("rows", rows))


def _rows(batch: PlacesBatch, codes: NDArray[np.object_]) -> pa.Table:
    places, size = batch.values.shape
    if np.abs(batch.values).max(initial=0) > _LARGEST:
        raise GridError(f"{batch.query}: answers beyond 2^31")
    answers = pa.array(batch.values.astype(np.int32).ravel())
    return pa.table(
        {
            "histogram": pa.repeat(batch.stream.measured.histogram, places),
            "level": pa.repeat(batch.stream.measured.level, places),
            "query": pa.repeat(batch.stream.measured.query, places),
            "number": np.arange(batch.first, batch.first + places),
            "geoid": pa.array(codes, pa.string()),
            "answers": pa.ListArray.from_arrays(np.arange(places + 1, dtype=np.int32) * size, answers),
        }
    )


def stored_batches(session: Session, release: TopDownRelease) -> Iterator[PlacesBatch]:
    """The stored measurements, in the batches of `exact_batches`.

    Raises:
        GridError: unless every place is stored exactly once for each query of its level, with an answer for every cell.
    """
    for streams, first, last in _parts(streams_of(session, release)):
        for stream in streams:
            values = read_answers(session, release, stream.measured, first, last)
            yield PlacesBatch(stream.measured.label, values, stream, first)


class Hashed:
    """Measurements that are hashed while they are iterated over, in the order of `exact_batches`."""

    def __init__(self, batches: Iterable[PlacesBatch]) -> None:
        self._batches = batches
        self._digests: dict[str, Digest] = {}

    def __iter__(self) -> Iterator[PlacesBatch]:
        for batch in self._batches:
            self._digests.setdefault(batch.stream.label, sha256()).update(hashed(batch.values))
            yield batch

    def version(self) -> str:
        """The version of the measurements, once all batches have been consumed."""
        return version_of_streams({label: digest.hexdigest() for label, digest in self._digests.items()})


def read_answers(
    session: Session, release: TopDownRelease, measured: Measured, first: int, last: int
) -> NDArray[np.int64]:
    """The stored answers to one query in the places from `first` up to but excluding `last`: (places, marginal cells).

    Raises:
        GridError: unless each of these places is stored exactly once, with an answer for every cell.
    """
    found = session.arrow(
        "topdown/answers_between",
        {
            "histogram": measured.histogram,
            "level": measured.level,
            "query": measured.query,
            "first": first,
            "last": last,
        },
        measurements=release.public(MEASUREMENTS),
    )
    size = measured.marginal.size
    lists = found["answers"].combine_chunks()
    offsets = lists.offsets.to_numpy() if len(lists) else np.zeros(1, dtype=np.int64)
    regular = np.array_equal(found["number"].to_numpy(), np.arange(first, last)) and np.all(np.diff(offsets) == size)
    if not regular or lists.null_count or lists.flatten().null_count:
        raise GridError(
            f"{release.schema}: {measured.label}: not every place is measured exactly once with {size:,} answers"
        )
    return lists.flatten().to_numpy().astype(np.int64).reshape(last - first, size)


def surplus(session: Session, release: TopDownRelease) -> list[str]:
    """The problems of rows beyond one for each place and query, and of rows with the code of another place."""
    table, places = release.public(MEASUREMENTS), places_of(session, release)
    due = sum(places[measured.level] for measured in release.design.measured)
    (misplaced,) = session.row("topdown/misplaced", measurements=table, spine=release.public(SPINE))
    return [
        *count_problem(session.count(table) - due, "measurements of undeclared queries or unknown places"),
        *count_problem(misplaced, "measurements with the code of another place"),
    ]
