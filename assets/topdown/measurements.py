"""The measurements of TopDown: their random streams, their storage and their reading.

A *stream* has the answers to one query of a histogram at a level; below the level of the states, each state has its own
streams. The noise of a state is independent of the other states in a release, of the order of the draw, and of the
number of streams drawn at a time. The version of measurements is a hash over the hashes of all streams.

The table `noisy_measurements` has a row for every place and query. The answers for all cells are packed in bytes
(`resources.packed`), which take a fraction of the time of lists; lists stored by earlier versions can still be read. A
*part* is all streams of a histogram, level and state. Its rows lie next to each other: by batch of places, then by
query, then by place. It is also read in such batches, which accept any order of rows and check that every place has its
answers exactly once. With partitions, each state has its own table, and `noisy_measurements` is a view. `drawing` makes
the draw, and `measured` the draw of one state.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.gates.shared import count_problem
from assets.measurement.method import MEASUREMENTS, GridError
from assets.topdown.release import ABOVE, SPINE, TopDownRelease
from assets.topdown.spine import count_places, read_states, read_tree
from mechanisms.sampling.stream import RandomStream
from mechanisms.topdown.design import MECHANISM, Measured, TopDownDesign, level_of_states
from resources.packed import LISTS, PACKED, Packed, pack
from resources.parts import store_parts
from resources.processes import Stopped, in_threads
from resources.statements import Table
from resources.warehouse import UNITED, Session

BATCH = 1024
"""The number of places whose measurements are drawn, written or read at a time: about 10 MB."""

_READ_TOGETHER = 4
"""The number of batches per statement when a whole part is read, because each statement scans many other batches."""

COLUMNS = {
    "histogram": "Histogram: persons or units",
    "level": "Geographic level",
    "query": "Measured marginal",
    "number": "Number of the place within its level, as in the spine",
    "geoid": "Code of the place",
    "answers": "Noisy answers, one for each cell of the query, in order",
}

_TYPES = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.string(), pa.binary())
SCHEMA = pa.schema(list(zip(COLUMNS, _TYPES, strict=True)))

_LARGEST = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Stream:
    """The answers to one query in the places from `first` up to `last` of a level, whose noise is one random stream.

    `state` is the code of the state that contains the places; None at the level of the states and above.
    """

    measured: Measured
    state: str | None
    first: int
    last: int

    @property
    def label(self) -> str:
        """The name of the stream: a JSON array, so that names are distinct for any codes."""
        return json.dumps([self.measured.histogram, self.measured.level, self.measured.query, self.state])

    @property
    def answers(self) -> int:
        return (self.last - self.first) * self.measured.marginal.size

    def random(self, key: bytes) -> RandomStream:
        """The random stream of the noise, from its beginning. The key of the draw has 32 bytes and is secret."""
        return RandomStream(key, f"{MECHANISM} {self.label}")


@dataclass(frozen=True)
class Part:
    """All streams of a histogram, level and state, in the places from `first` up to `last`, by query in the order of
    the draw."""

    level: tuple[str, str]
    first: int
    last: int
    streams: tuple[Stream, ...]

    @property
    def label(self) -> str:
        return self.streams[0].label

    @property
    def state(self) -> str | None:
        return self.streams[0].state

    @property
    def answers(self) -> int:
        return sum(stream.answers for stream in self.streams)

    def batches(self, together: int = 1) -> Iterator[tuple[int, int]]:
        places = together * BATCH
        for first in range(self.first, self.last, places):
            yield first, min(first + places, self.last)


def read_streams(session: Session, release: TopDownRelease) -> tuple[Stream, ...]:
    """All streams of a release in the order of the draw, from the stored spine. Raises SpineError if the spine is not a
    tree with the levels of the release, or if two states share a code."""
    return session.compute_once(("streams", release.schema), lambda: _read_streams(session, release))


def _read_streams(session: Session, release: TopDownRelease) -> tuple[Stream, ...]:
    tree, above = read_tree(session, release), level_of_states(release.levels)
    below = release.levels.index(above) + 1
    starts = {level: np.array([0, tree.places(level)]) for level in release.levels[:below]}
    starts |= {level: tree.starts_within(level, above) for level in release.levels[below:]}
    return list_streams(release.design, read_states(session, release), starts)


def list_streams(
    design: TopDownDesign, states: Sequence[str], starts: Mapping[str, NDArray[np.int64]]
) -> tuple[Stream, ...]:
    """All streams in the order of the draw: by histogram, level, state and query.

    The starts of each level below the level of the states come from `Tree.starts_within`, shape (states + 1,). For each
    other level, they are 0 and the number of places.
    """
    below = design.levels.index(level_of_states(design.levels)) + 1
    streams: list[Stream] = []
    for histogram in design.allocations:
        for depth, level in enumerate(design.levels):
            measured = design.measured_at(histogram, level)
            for number, state in enumerate(states if depth >= below else [None]):
                first, last = (int(start) for start in starts[level][number : number + 2])
                streams += (Stream(query, state, first, last) for query in measured)
    return tuple(streams)


def group_parts(streams: Iterable[Stream]) -> list[Part]:
    """The parts of a release, in the order in which they are stored."""
    by_part = groupby(streams, lambda stream: (stream.measured.histogram, stream.measured.level, stream.state))
    parts = (((histogram, level), tuple(own)) for (histogram, level, _), own in by_part)
    return [Part(level, own[0].first, own[0].last, own) for level, own in parts]


def order_parts(streams: Iterable[Stream]) -> list[Part]:
    """The parts in an order that lets threads finish at about the same time: histogram and level by size, then
    parts."""
    parts, sizes = group_parts(streams), Counter[tuple[str, str]]()
    for part in parts:
        sizes[part.level] += part.answers
    return sorted(parts, key=lambda part: (-sizes[part.level], part.level, -part.answers))


def encode_answers(answers: NDArray[Any]) -> memoryview:
    """The bytes of answers for hashing: 32-bit integers by place and cell."""
    return np.ascontiguousarray(answers, dtype="<i4").data


class Digests:
    """The SHA-256 of the answers of some streams, updated as they arrive."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        self._digests = {stream.label: sha256() for stream in streams}

    def add(self, answers: Mapping[Stream, NDArray[np.int32]]) -> None:
        for stream, own in answers.items():
            self._digests[stream.label].update(encode_answers(own))

    def by_label(self) -> dict[str, str]:
        return {label: digest.hexdigest() for label, digest in self._digests.items()}


def hash_streams(digests: Mapping[str, str]) -> str:
    """The version of measurements, from the SHA-256 of the answers of each stream, in the order of the draw."""
    return sha256(json.dumps(list(digests.items())).encode()).hexdigest()


def hash_parts(streams: Iterable[Stream], parts: Iterable[Mapping[str, str]]) -> str:
    """The version of measurements from the digests of all parts, in any order."""
    digests = {label: digest for part in parts for label, digest in part.items()}
    return hash_streams({stream.label: digests[stream.label] for stream in streams})


def to_stored(answers: NDArray[np.int64], stream: Stream) -> NDArray[np.int32]:
    """Noisy answers in the stored type. Raises GridError if the absolute value of an answer is 2^31 or more."""
    if answers.size and (answers.max() > _LARGEST or answers.min() < -_LARGEST):
        raise GridError(f"{stream.measured.label}: answers beyond 2^31")
    return answers.astype(np.int32)


def to_rows(stream: Stream, first: int, answers: NDArray[np.int32], codes: pa.Array) -> pa.Table:
    """The rows of the table, for answers of shape (places, marginal cells) and the codes of these places."""
    places = len(answers)
    return pa.table(
        {
            "histogram": pa.repeat(stream.measured.histogram, places),
            "level": pa.repeat(stream.measured.level, places),
            "query": pa.repeat(stream.measured.query, places),
            "number": np.arange(first, first + places),
            "geoid": codes,
            "answers": pack(answers),
        },
        schema=SCHEMA,
    )


def measurements_table(release: TopDownRelease, state: str = "") -> Table:
    """The table of all measurements; with partitions, a view over the table of the states and above and the table of
    each state. With a state, the table of that state."""
    return release.public(release.of_state(MEASUREMENTS, state))


def store_measurements(session: Session, release: TopDownRelease, parts: Sequence[Path], state: str = "") -> None:
    """Store the measurements in the files: those of one state, or all others, which with partitions are those of the
    states and above. Measurements of other partitions that an earlier version stored as lists are then packed too,
    because a view needs one type."""
    is_above = release.partitioned and not state
    table = release.public(f"{MEASUREMENTS}_{ABOVE}") if is_above else measurements_table(release, state)
    # If the release had partitions before, the table is a view.
    session.drop(table)
    store_parts(session, table, parts)
    if not release.partitioned:
        return
    view, united = measurements_table(release), _list_united(session, release)
    lists = [each for each in united["tables"] if session.columns(each).get("answers") == LISTS]
    for each in lists:
        session.create(each, "topdown/packed_lists", measurements=each)
    if is_above or (lists and session.tables(view.zone, view.schema).get(view.name)):
        session.drop(view)
        session.create_view(view, UNITED, **united)


def read_answers(
    session: Session,
    release: TopDownRelease,
    measured: Sequence[Measured],
    first: int,
    last: int,
    *,
    strict: bool = False,
    state: str = "",
) -> dict[Measured, NDArray[np.int32]]:
    """The stored answers in the places from `first` up to `last`, by query of one histogram and level, shape (places,
    marginal cells). If `strict`, answers to other queries are an error. With a state, its own table is read.

    Raises GridError unless each of these places is stored exactly once for each query, with an answer for every cell.
    """
    histogram, level = measured[0].histogram, measured[0].level
    values = {"histogram": histogram, "level": level, "first": first, "last": last}
    values |= {} if strict else {"queries": [query.query for query in measured]}
    table = measurements_table(release, state) if state else _find_table(session, release, level, first, last)
    # A statement could convert other types to these.
    if session.columns(table).get("answers") not in (PACKED, LISTS):
        raise GridError(f"{table}: answers: they are neither packed nor lists of 32-bit integers")
    rows = session.arrow("topdown/measured", values, measurements=table, chosen=not strict)
    where = f"{histogram} {level}"
    # Forged statistics of the table could make DuckDB leave out rows of this part and pass others.
    if any(
        not pc.all(pc.equal(rows[name], values[name]).fill_null(False), min_count=0).as_py()
        for name in ("histogram", "level")
    ):
        raise GridError(f"{release.schema}: {where}: answers of another level")
    queries = pc.dictionary_encode(rows["query"].fill_null("")).combine_chunks()
    codes, known = queries.indices.to_numpy(), queries.dictionary.to_pylist()
    declared = {query.query: query for query in measured}
    if not declared.keys() >= set(known):
        raise GridError(f"{release.schema}: {where}: undeclared queries")
    try:
        packed = Packed.read(rows["answers"])
    except pa.ArrowInvalid:
        raise GridError(f"{release.schema}: {where}: more bytes than any answers take") from None
    answers = dict[Measured, NDArray[np.int32]]()
    numbers = rows["number"].fill_null(-1).to_numpy() - first
    for query in measured:
        own = np.flatnonzero(codes == known.index(query.query)) if query.query in known else codes[:0]
        places = numbers[own]
        if places.min(initial=0) < 0 or places.max(initial=0) >= last - first:
            raise GridError(f"{release.schema}: {query.label}: answers in other places")
        if np.any(np.bincount(places, minlength=last - first) != 1):
            raise GridError(f"{release.schema}: {query.label}: not every place is measured exactly once")
        try:
            answers[query] = packed.take(own[np.argsort(places)], query.marginal.size)
        except ValueError:
            raise GridError(f"{release.schema}: {query.label}: not every place has an answer for every cell") from None
    return answers


def _find_table(session: Session, release: TopDownRelease, level: str, first: int, last: int) -> Table:
    """The table with the measurements in some places: with partitions, the table of their state. The view over all
    states would take time for each state, however few rows are read."""
    for begin, end, table in list_partitions(session, release).get(level, ()):
        if begin <= first and last <= end:
            return table
    return measurements_table(release)


def list_partitions(session: Session, release: TopDownRelease) -> Mapping[str, Sequence[tuple[int, int, Table]]]:
    """By level, the range of places in the table of each partition. Empty if the session writes and so could not cache
    this; if the view over all tables is not the stored one; or if a table has other rows, such as measurements in
    places of another state."""
    if not (release.partitioned and session.only_reads):
        return {}
    return session.compute_once(("partitions", release.schema), lambda: _read_partitions(session, release))


def _read_partitions(session: Session, release: TopDownRelease) -> Mapping[str, Sequence[tuple[int, int, Table]]]:
    united = _list_united(session, release)
    if not all(map(session.columns, united["tables"])):
        return {}
    if not session.is_view_of(measurements_table(release), UNITED, **united):
        return {}
    of_states = defaultdict[str | None, list[Stream]](list)
    places = defaultdict[str, list[tuple[int, int, Table]]](list)
    for stream in read_streams(session, release):
        of_states[stream.state].append(stream)
    for state, table in zip([None, *read_states(session, release)], united["tables"], strict=True):
        due = Counter[str]()
        for stream in of_states[state]:
            due[stream.measured.level] += stream.last - stream.first
        if Counter(dict(session.rows("topdown/rows_by_level", measurements=table))) != due:
            return {}
        for level, first, last in {(each.measured.level, each.first, each.last) for each in of_states[state]}:
            places[level].append((first, last, table))
    return places


def _list_united(session: Session, release: TopDownRelease) -> dict[str, Any]:
    """The tables and columns of the view over the measurements of all partitions."""
    of_states = [measurements_table(release, state) for state in read_states(session, release)]
    return {"tables": [release.public(f"{MEASUREMENTS}_{ABOVE}"), *of_states], "columns": list(COLUMNS)}


def read_part(
    session: Session, release: TopDownRelease, part: Part, stopped: Stopped, state: str = ""
) -> Iterator[tuple[int, int, dict[Stream, NDArray[np.int32]]]]:
    """The stored answers of a part in batches of places: the first place, the place after the last, and the answers by
    stream. With a state, its own table is read.

    Raises GridError as `read_answers`, and if there are answers to other queries.
    """
    queries = [stream.measured for stream in part.streams]
    for first, last in part.batches(_READ_TOGETHER):
        if stopped():
            return
        answers = read_answers(session, release, queries, first, last, strict=True, state=state)
        yield first, last, {stream: answers[stream.measured] for stream in part.streams}


def compute_stored_version(session: Session, release: TopDownRelease) -> str:
    streams = read_streams(session, release)
    return hash_parts(streams, [_hash_stored(session, release, streams)])


def are_as_read(session: Session, release: TopDownRelease, read: str, state: str = "") -> bool:
    """Whether the stored answers of some streams, with a state in its own table, still match `read`: their SHA-256 by
    label, as JSON. Raises GridError if answers are missing."""
    digests = json.loads(read)
    streams = [stream for stream in read_streams(session, release) if stream.label in digests]
    return _hash_stored(session, release, streams, state) == digests


def _hash_stored(
    session: Session, release: TopDownRelease, streams: Sequence[Stream], state: str = ""
) -> dict[str, str]:
    """By label, the SHA-256 of the stored answers of streams. The streams must make up whole parts."""

    def digest_part(part: Part, stopped: Stopped) -> dict[str, str]:
        digests = Digests(part.streams)
        with session.open_sibling() as own:
            for _, _, answers in read_part(own, release, part, stopped, state):
                digests.add(answers)
        return digests.by_label()

    if not state:
        # Computed once, before the threads ask for it concurrently.
        list_partitions(session, release)
    with closing(in_threads(digest_part, order_parts(streams), release.processes)) as parts:
        return {label: digest for part in parts for label, digest in part.items()}


def find_unmeasured(session: Session, release: TopDownRelease) -> list[str]:
    """The problems unless every place is stored exactly once for each query of its level, with all answers and its own
    code.

    SQL counts the rows, independently of the code that reads measurements.
    """
    table, places = release.public(MEASUREMENTS), count_places(session, release)
    rows = (
        (query.histogram, query.level, query.query, places.get(query.level, 0), query.marginal.size)
        for query in release.design.measured
    )
    names = ["histogram", "level", "query", "places", "cells"]
    due = session.register("due", pa.table(list(zip(*rows, strict=True)), names))
    packed = session.columns(table).get("answers") == PACKED
    wrong = session.rows("topdown/not_measured_once", measurements=table, due=due, packed=packed)
    (misplaced,) = session.row("topdown/misplaced", measurements=table, spine=release.public(SPINE))
    return [
        *(
            f"{histogram} {level} {query}: not every place is measured exactly once with an answer for every cell"
            for histogram, level, query in wrong
        ),
        *count_problem(misplaced, "measurements with the code of another place"),
    ]
