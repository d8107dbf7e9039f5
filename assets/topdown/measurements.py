"""The stored measurements of TopDown: how they are written in parts, and read by stream.

The table `noisy_measurements` has a row for every place and query, with the answers for all cells in a list. A *part*
is all streams of a histogram, level and state. Its rows lie next to each other: by batch of places, then by query, then
by place. Whoever reads a part reads it in that order, so that memory stays bounded, and checks that every place has its
answers once. `drawing` makes the draw.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.gates.shared import count_problem
from assets.measurement.method import MEASUREMENTS, GridError
from assets.topdown.release import SPINE, TopDownRelease
from assets.topdown.spine import places_of
from assets.topdown.streams import Stream, hashed, streams_of, version_of_streams
from assets.topdown.threads import Stopped, in_threads, threads_of
from mechanisms.topdown.design import Measured
from resources.warehouse import Session, store_parts

BATCH = 1024
"""The number of places whose measurements are made, written or read at a time: about ten megabytes."""

ROWS_AT_A_TIME = 4096
"""The number of rows that are read at a time: at most 33 megabytes."""

COLUMNS = {
    "histogram": "Histogram: persons or units",
    "level": "Geographic level",
    "query": "Measured marginal",
    "number": "Number of the place within its level, as in the spine",
    "geoid": "Code of the place",
    "answers": "Noisy answers, one for each cell of the query, in order",
}

SCHEMA = pa.schema(
    [
        ("histogram", pa.string()),
        ("level", pa.string()),
        ("query", pa.string()),
        ("number", pa.int64()),
        ("geoid", pa.string()),
        ("answers", pa.list_(pa.int32())),
    ]
)

_LARGEST = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Part:
    """All streams of a histogram, level and state.

    Attributes:
        streams: by query, in the order of the draw.
    """

    streams: tuple[Stream, ...]

    @property
    def measured(self) -> Measured:
        return self.streams[0].measured

    @property
    def first(self) -> int:
        return self.streams[0].first

    @property
    def last(self) -> int:
        """The number after that of the last place."""
        return self.streams[0].last

    @property
    def answers(self) -> int:
        return sum(stream.answers for stream in self.streams)

    def batches(self) -> Iterator[tuple[int, int]]:
        """The numbers of the places in batches, from the first up to but excluding the last."""
        for first in range(self.first, self.last, BATCH):
            yield first, min(first + BATCH, self.last)


@dataclass(frozen=True)
class Run:
    """The stored answers of consecutive places to one query.

    Attributes:
        first: the number of the first place.
        answers: shape (places, marginal cells).
    """

    stream: Stream
    first: int
    answers: NDArray[np.int32]


class _NotInOrderError(Exception):
    """The rows of a part do not come by query in the order of places."""


def parts_of(streams: Iterable[Stream]) -> list[Part]:
    """The parts of a release, in the order in which they are stored."""
    by_part = groupby(streams, lambda stream: (stream.measured.histogram, stream.measured.level, stream.state))
    return [Part(tuple(own)) for _, own in by_part]


def storable(answers: NDArray[np.int64], stream: Stream) -> NDArray[np.int32]:
    """Noisy answers as they are stored.

    Raises:
        GridError: if the absolute value of an answer is 2^31 or more.
    """
    if answers.size and (answers.max() > _LARGEST or answers.min() < -_LARGEST):
        raise GridError(f"{stream.measured.label}: answers beyond 2^31")
    return answers.astype(np.int32)


def rows(stream: Stream, first: int, answers: NDArray[np.int32], codes: pa.Array) -> pa.Table:
    """The rows of the table, for answers of shape (places, marginal cells) and the codes of these places."""
    places, size = answers.shape
    offsets = pa.array(np.arange(places + 1, dtype=np.int32) * size)
    return pa.table(
        {
            "histogram": pa.repeat(stream.measured.histogram, places),
            "level": pa.repeat(stream.measured.level, places),
            "query": pa.repeat(stream.measured.query, places),
            "number": np.arange(first, first + places),
            "geoid": codes,
            "answers": pa.ListArray.from_arrays(offsets, pa.array(answers.ravel())),
        },
        schema=SCHEMA,
    )


def store_measurements(session: Session, release: TopDownRelease, parts: Iterable[Path]) -> None:
    """Store the files of all parts, in their order, as the table of measurements."""
    store_parts(session, release.public(MEASUREMENTS), list(parts))


def stored_runs(session: Session, release: TopDownRelease, part: Part, stopped: Stopped) -> Iterator[Run]:
    """The stored answers of a part: those of each stream in the order of places, streams in turns.

    Rows that were stored in another order, such as by somebody else's copy, are sorted, which takes longer. What was
    given before that was noticed is given again: `first` is then the first place of its stream.

    Raises:
        GridError: unless every place is stored exactly once for each query, with an answer for every cell.
    """
    try:
        yield from _runs(session, release, part, stopped, in_order=False)
    except _NotInOrderError:
        try:
            yield from _runs(session, release, part, stopped, in_order=True)
        except _NotInOrderError:
            raise GridError(
                f"{release.schema}: {part.measured.histogram} {part.measured.level}: not every place is measured "
                "exactly once for every query"
            ) from None


def _runs(session: Session, release: TopDownRelease, part: Part, stopped: Stopped, *, in_order: bool) -> Iterator[Run]:
    streams = {stream.measured.query: stream for stream in part.streams}
    following = dict.fromkeys(streams, part.first)
    values = {
        "histogram": part.measured.histogram,
        "level": part.measured.level,
        "first": part.first,
        "last": part.last,
    }
    names = {"measurements": release.public(MEASUREMENTS), "in_order": in_order}
    for batch in session.batches("topdown/answers_between", ROWS_AT_A_TIME, values, **names):
        if stopped():
            return
        for query, number, answers in _by_query(batch):
            stream = streams.get(query)
            if stream is None or not np.array_equal(number, np.arange(len(number)) + following[query]):
                raise _NotInOrderError
            following[query] += len(number)
            yield Run(stream, int(number[0]), _matrix(release, stream, answers))
    if any(each != part.last for each in following.values()):
        raise _NotInOrderError


def _by_query(batch: pa.RecordBatch) -> Iterator[tuple[str, NDArray[np.int64], pa.ListArray]]:
    """The rows of a batch in runs of the same query: its name, the numbers of the places, and their answers."""
    queries = batch.column("query").dictionary_encode()
    codes = queries.indices.fill_null(-1).to_numpy()
    numbers, answers = batch.column("number").fill_null(-1).to_numpy(), batch.column("answers")
    starts = np.flatnonzero(np.diff(codes, prepend=-2))
    for start, end in zip(starts, [*starts[1:], len(codes)], strict=True):
        name = queries.dictionary[codes[start]].as_py() if codes[start] >= 0 else ""
        yield name, numbers[start:end], answers.slice(start, end - start)


def _matrix(release: TopDownRelease, stream: Stream, lists: pa.ListArray) -> NDArray[np.int32]:
    """Answers as an array, shape (places, marginal cells). Raises GridError unless every place has all of them."""
    size = stream.measured.marginal.size
    regular = not lists.null_count and np.all(np.diff(lists.offsets.to_numpy()) == size)
    answers = lists.flatten()
    if not regular or answers.null_count or answers.type != pa.int32():
        raise GridError(
            f"{release.schema}: {stream.measured.label}: not every place is measured exactly once with {size:,} answers"
        )
    return answers.to_numpy().reshape(len(lists), size)


def read_answers(
    session: Session, release: TopDownRelease, measured: Sequence[Measured], first: int, last: int
) -> dict[Measured, NDArray[np.int32]]:
    """The stored answers in the places from `first` up to but excluding `last`, by query: (places, marginal cells).

    Args:
        session: a session that reads the public zone.
        measured: queries of one histogram at one level.
        first, last: the numbers of places.

    Raises:
        GridError: unless each of these places is stored exactly once for each query, with an answer for every cell.
    """
    streams = {each.query: Stream(each, None, first, last) for each in measured}
    answers = {
        query: np.empty((last - first, each.measured.marginal.size), np.int32) for query, each in streams.items()
    }
    seen = {query: np.zeros(last - first, dtype=np.int64) for query in streams}
    values = {
        "histogram": measured[0].histogram,
        "level": measured[0].level,
        "queries": list(streams),
        "first": first,
        "last": last,
    }
    for batch in session.batches(
        "topdown/answers_to", ROWS_AT_A_TIME, values, measurements=release.public(MEASUREMENTS)
    ):
        for query, number, lists in _by_query(batch):
            places = number - first
            answers[query][places] = _matrix(release, streams[query], lists)
            np.add.at(seen[query], places, 1)
    for query, times in seen.items():
        if np.any(times != 1):
            raise GridError(
                f"{release.schema}: {streams[query].measured.label}: not every place is measured exactly once"
            )
    return {each.measured: answers[query] for query, each in streams.items()}


class Digests:
    """The SHA-256 of the answers of every stream of a part, as they come."""

    def __init__(self, part: Part) -> None:
        self._digests = {stream.label: sha256() for stream in part.streams}

    def add(self, stream: Stream, first: int, answers: NDArray[np.int32]) -> None:
        """Add the next answers of a stream; from its first place, the stream begins anew."""
        if first == stream.first:
            self._digests[stream.label] = sha256()
        self._digests[stream.label].update(hashed(answers))

    def found(self) -> dict[str, str]:
        """By label of a stream, the SHA-256."""
        return {label: digest.hexdigest() for label, digest in self._digests.items()}


def largest_first(streams: Iterable[Stream]) -> list[Part]:
    """The parts in an order in which threads finish at about the same time: histogram and level by size, then parts."""

    def where(part: Part) -> tuple[str, str]:
        return part.measured.histogram, part.measured.level

    parts = parts_of(streams)
    sizes = Counter[tuple[str, str]]()
    for part in parts:
        sizes[where(part)] += part.answers
    return sorted(parts, key=lambda part: (-sizes[where(part)], where(part), -part.answers))


def version_of_parts(streams: Iterable[Stream], found: Iterable[Mapping[str, str]]) -> str:
    """The version of measurements from the digests of all parts, in any order."""
    digests = {label: digest for of_part in found for label, digest in of_part.items()}
    return version_of_streams({stream.label: digests[stream.label] for stream in streams})


def stored_version(session: Session, release: TopDownRelease) -> str:
    """The version of the stored measurements."""

    def digests_of(part: Part, stopped: Stopped) -> dict[str, str]:
        digests = Digests(part)
        with session.open_sibling() as own:
            for run in stored_runs(own, release, part, stopped):
                digests.add(run.stream, run.first, run.answers)
        return digests.found()

    streams = streams_of(session, release)
    return version_of_parts(
        streams, in_threads(digests_of, largest_first(streams), threads_of(release.declaration.processes))
    )


def not_measured_once(session: Session, release: TopDownRelease) -> list[str]:
    """The problems if not every place is stored once for each query of its level, with all answers and its own code.

    Everything is counted by SQL, apart from how measurements are read.
    """
    table, places = release.public(MEASUREMENTS), places_of(session, release)
    due = pa.Table.from_pylist(
        [
            {
                "histogram": each.histogram,
                "level": each.level,
                "query": each.query,
                "places": places.get(each.level, 0),
                "cells": each.marginal.size,
            }
            for each in release.design.measured
        ]
    )
    wrong = session.rows("topdown/not_measured_once", measurements=table, due=session.register("due", due))
    (misplaced,) = session.row("topdown/misplaced", measurements=table, spine=release.public(SPINE))
    return [
        *(
            f"{histogram} {level} {query}: not every place is measured exactly once with an answer for every cell"
            for histogram, level, query in wrong
        ),
        *count_problem(misplaced, "measurements with the code of another place"),
    ]
