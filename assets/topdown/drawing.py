"""The draw of TopDown's measurements, part by part in threads: the exact answers plus the noise of their streams.

`measurements` says what a part is, and how parts are stored. The draw is made twice for each release: in files, which
become the table, and once more by the gate `replay`, which keeps only the hashes. Both make the same answers, in
batches of places, whatever the number of threads.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby, repeat
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.topdown.histograms import stage_level
from assets.topdown.measurements import (
    SCHEMA,
    Digests,
    Part,
    largest_first,
    parts_of,
    rows,
    storable,
    stored_runs,
    version_of_parts,
)
from assets.topdown.release import TopDownRelease
from assets.topdown.spine import codes_of, stage_ancestry
from assets.topdown.streams import Stream, streams_of
from assets.topdown.threads import Stopped, in_threads, threads_of
from mechanisms.sampling.goodness import BinCounts, bin_draws, find_misfits
from mechanisms.sampling.stream import RandomStream
from resources.statements import Fragment
from resources.warehouse import Session, open_part


@dataclass(frozen=True)
class Exact:
    """The exact counts of the places of a part that are not zero, in the order of places. Confidential.

    Attributes:
        number, cell, count: of each count: the number of the place, the cell of the histogram, and the count.
    """

    number: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]

    def answers(self, stream: Stream, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The counts that add up to the answers in the places from `first` up to `last`: to which answer, and how much.

        Answers are numbered by place and cell, from those of the place `first`.
        """
        own = slice(*np.searchsorted(self.number, [first, last]))
        marginal = stream.measured.marginal
        return (self.number[own] - first) * marginal.size + marginal.cells[self.cell[own]], self.count[own]


@dataclass(frozen=True)
class _Counted:
    """A part with its exact counts, and the codes of its places if they are to be stored."""

    part: Part
    exact: Exact
    codes: pa.ChunkedArray | None = None


@dataclass(frozen=True)
class Drawing:
    """The output of a draw. It is not made before it is asked for.

    Attributes:
        session: a session that reads the confidential and the public zone.
        version: the version of the measurements, if they are made in parts.
        files: the files of the parts, if they are made, in the order in which they are stored.
    """

    release: TopDownRelease
    session: Session
    key: bytes = field(repr=False)
    version: str = ""
    files: tuple[Path, ...] = ()

    def made_version(self) -> str:
        """The version of the measurements; makes them unless that is done, and keeps nothing but hashes."""
        return self.version or self._made(streams_of(self.session, self.release), None)

    def in_parts(self, folder: Path) -> "Drawing":
        """Make the measurements in files of a folder."""
        streams = streams_of(self.session, self.release)
        files = tuple(_file(folder, part) for part in parts_of(streams))
        return replace(self, version=self._made(streams, folder), files=files)

    def _made(self, streams: tuple[Stream, ...], folder: Path | None) -> str:
        def make(counted: _Counted, stopped: Stopped) -> dict[str, str]:
            return _draw(counted, self.key, folder, stopped)

        counted = _counted(self.session, self.release, streams, codes=folder is not None)
        return version_of_parts(streams, in_threads(make, counted, threads_of(self.release.declaration.processes)))


def noise_found(session: Session, release: TopDownRelease) -> tuple[list[str], str]:
    """The queries whose noise does not fit the declared distribution, and the version of the measurements read."""

    def differences(counted: _Counted, stopped: Stopped) -> tuple[dict[str, BinCounts], dict[str, str]]:
        part, digests, found = counted.part, Digests(counted.part), dict[str, BinCounts]()
        with session.open_sibling() as own:
            for run in stored_runs(own, release, part, stopped):
                digests.add(run.stream, run.first, run.answers)
                noise = run.answers.astype(np.int64).ravel()
                place, count = counted.exact.answers(run.stream, run.first, run.first + len(run.answers))
                np.subtract.at(noise, place, count)
                of_run, label = bin_draws(noise, run.stream.measured.noise), run.stream.measured.label
                found[label] = of_run if run.first == run.stream.first else found[label] + of_run
        return found, digests.found()

    streams = streams_of(session, release)
    found = in_threads(differences, _counted(session, release, streams), threads_of(release.declaration.processes))
    drawn: dict[str, BinCounts] = {}
    for of_part, _ in found:
        for label, counted in of_part.items():
            drawn[label] = drawn[label] + counted if label in drawn else counted
    unlikely = find_misfits({each.label: drawn[each.label] for each in release.design.measured})
    return unlikely, version_of_parts(streams, (digests for _, digests in found))


def _counted(
    session: Session, release: TopDownRelease, streams: tuple[Stream, ...], *, codes: bool = False
) -> Iterator[_Counted]:
    ancestry = stage_ancestry(session, release)
    for (histogram, level), parts in groupby(
        largest_first(streams), lambda part: (part.measured.histogram, part.measured.level)
    ):
        counts = stage_level(session, release, histogram, level, ancestry)
        every = codes_of(session, release, level) if codes else None
        for part in parts:
            own = every.slice(part.first, part.last - part.first) if every is not None else None
            yield _Counted(part, _exact(session, counts, part), own)


def _exact(session: Session, counts: Fragment, part: Part) -> Exact:
    found = session.arrow("topdown/counts_between", {"first": part.first, "last": part.last}, counts=counts)
    return Exact(*(found[name].to_numpy() for name in ("number", "cell", "count")))


def _draw(counted: _Counted, key: bytes, folder: Path | None, stopped: Stopped) -> dict[str, str]:
    part, digests = counted.part, Digests(counted.part)
    random = [stream.random(key) for stream in part.streams]
    with ExitStack() as opened:
        writer = opened.enter_context(open_part(_file(folder, part), SCHEMA)) if folder else None
        for first, last in part.batches():
            if stopped():
                break
            made = [
                _noisy(stream, counted.exact, own, first, last)
                for stream, own in zip(part.streams, random, strict=True)
            ]
            for stream, answers in zip(part.streams, made, strict=True):
                digests.add(stream, first, answers)
            if writer and counted.codes is not None:
                codes = counted.codes.slice(first - part.first, last - first)
                tables = map(rows, part.streams, repeat(first), made, repeat(codes))
                writer.write_table(pa.concat_tables(tables))
    return digests.found()


def _noisy(stream: Stream, exact: Exact, random: RandomStream, first: int, last: int) -> NDArray[np.int32]:
    """The noisy answers to a query in the places from `first` up to `last`, shape (places, marginal cells)."""
    size = stream.measured.marginal.size
    answers = stream.measured.noise.sample((last - first) * size, random)
    place, count = exact.answers(stream, first, last)
    np.add.at(answers, place, count)
    return storable(answers, stream).reshape(last - first, size)


def _file(folder: Path, part: Part) -> Path:
    depth = part.measured.level.encode().hex()
    return folder / f"{part.measured.histogram}-{depth}-{part.first}.parquet"
