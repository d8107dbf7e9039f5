"""The draw of TopDown's measurements, part by part in threads: the exact answers plus the noise of their streams.

`measurements` defines parts and stores them. Each release is drawn twice: into files, which become the table, and again
by the gate `replay`, which keeps only the hashes. Both draws produce the same answers, in batches of places, with any
number of threads. With partitions, each state's own run makes its files (`measured`).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.measurement.method import MEASUREMENTS
from assets.topdown.histograms import read_counts, roll_up
from assets.topdown.measurements import (
    SCHEMA,
    Digests,
    Part,
    Stream,
    group_parts,
    hash_parts,
    list_partitions,
    order_parts,
    read_part,
    read_streams,
    to_rows,
    to_stored,
)
from assets.topdown.release import HISTOGRAMS, TopDownRelease
from assets.topdown.spine import read_codes
from assets.topdown.sums import SCHEMA as SUMS_SCHEMA
from assets.topdown.sums import SUMS, Adding, Summed, SumsAccount, find_summed
from mechanisms.sampling.goodness import BinCounts, bin_answers, find_misfits
from mechanisms.sampling.stream import RandomStream
from mechanisms.topdown.design import SCHEMAS
from mechanisms.topdown.schema import Counts
from resources.custody import Custody
from resources.parts import open_part
from resources.processes import Stopped, in_threads
from resources.warehouse import Session


@dataclass(frozen=True)
class CountedPart:
    """A part with its exact counts, which are confidential. A part to be stored also has the codes of its places and,
    if sums are kept, the grouping of its answers."""

    part: Part
    exact: Counts
    codes: pa.ChunkedArray | None = None
    summed: Summed | None = None


@dataclass(frozen=True)
class DrawnPart:
    """A part of a draw: by label, the SHA-256 of the answers of each stream. If its answers are added up, it also has
    the digest of the region that determines the sums and, unless the sums cannot be kept, their digest."""

    part: Part
    digests: Mapping[str, str]
    region: str = ""
    sums: str = ""


@dataclass(frozen=True)
class Drawing:
    """The output of a draw, made on demand in a session that reads both zones.

    For measurements made in parts, it has their version, their files in the order of storage, and by label the SHA-256
    of the answers of their streams. If sums are kept, it also has their files, their account, and the custody that
    seals the account.
    """

    release: TopDownRelease
    session: Session
    key: bytes = field(repr=False)
    version: str = ""
    answers: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    sums: tuple[Path, ...] = ()
    account: SumsAccount | None = None
    custody: Custody | None = None

    def compute_version(self, known: Mapping[str, str] = {}) -> str:
        """The version of the measurements. Unless they have been made, draws the streams whose SHA-256 is not `known`
        by label, and keeps only hashes."""
        if self.version:
            return self.version
        streams = read_streams(self.session, self.release)
        drawn = self._draw([stream for stream in streams if stream.label not in known], None)
        return hash_parts(streams, [known, *(each.digests for each in drawn)])

    def repeat_state(self, state: str) -> dict[str, str]:
        """By label, the SHA-256 of the answers of the streams of one state."""
        streams = [stream for stream in read_streams(self.session, self.release) if stream.state == state]
        parts = self._draw(streams, None, state)
        return {label: digest for part in parts for label, digest in part.digests.items()}

    def in_parts(self, draw_id: str, folder: Path, custody: Custody, taken: Mapping[str, str] = {}) -> "Drawing":
        """All measurements in parts, except the streams drawn by other runs: `taken` has the SHA-256 of their answers
        by label."""
        streams = read_streams(self.session, self.release)
        made = self._make(draw_id, folder, custody, [stream for stream in streams if stream.label not in taken])
        return replace(made, version=hash_parts(streams, [made.answers, taken]))

    def of_state(self, draw_id: str, folder: Path, custody: Custody, state: str) -> "Drawing":
        """The measurements below one state, in parts."""
        streams = [stream for stream in read_streams(self.session, self.release) if stream.state == state]
        return self._make(draw_id, folder, custody, streams, state)

    def _make(
        self, draw_id: str, folder: Path, custody: Custody, streams: Sequence[Stream], state: str = ""
    ) -> "Drawing":
        drawn, parts = list(self._draw(streams, folder, state)), group_parts(streams)
        account, summed = None, [each for each in drawn if each.region]
        if summed and all(each.sums for each in summed):
            account = SumsAccount(
                draw_id,
                {str(each.part.state): each.region for each in summed},
                {label: digest for each in summed for label, digest in each.digests.items()},
                {each.part.label: each.sums for each in summed},
            )
        return replace(
            self,
            answers={label: digest for each in drawn for label, digest in each.digests.items()},
            files=tuple(_file(folder, part) for part in parts),
            sums=tuple(_file(folder, each.part, SUMS) for each in summed if account),
            account=account,
            custody=custody,
        )

    def _draw(self, streams: Sequence[Stream], folder: Path | None, state: str = "") -> Iterator[DrawnPart]:
        def draw(counted: CountedPart, stopped: Stopped) -> DrawnPart:
            return _draw_part(counted, self.key, folder, stopped)

        counted = count_parts(self.session, self.release, streams, stored=folder is not None, state=state)
        with closing(in_threads(draw, counted, self.release.processes)) as parts:
            yield from parts


def find_wrong_noise(session: Session, release: TopDownRelease) -> tuple[list[str], str]:
    """The queries whose noise does not fit the declared distribution, and the version of the measurements read."""

    def bin_noise(counted: CountedPart, stopped: Stopped) -> tuple[dict[str, BinCounts], dict[str, str]]:
        digests, bins = Digests(counted.part.streams), dict[str, BinCounts]()
        with session.open_sibling() as own:
            for first, last, answers in read_part(own, release, counted.part, stopped):
                digests.add(answers)
                for stream, noisy in answers.items():
                    query = stream.measured
                    exact = counted.exact.locate(query.marginal, first, last)
                    of_batch = bin_answers(noisy.ravel(), *exact, query.noise)
                    bins[query.label] = bins[query.label] + of_batch if query.label in bins else of_batch
        return bins, digests.by_label()

    streams = read_streams(session, release)
    # Computed once, before the threads ask for it concurrently.
    list_partitions(session, release)
    with closing(in_threads(bin_noise, count_parts(session, release, streams), release.processes)) as found:
        parts = list(found)
    noise: dict[str, BinCounts] = {}
    for bins, _ in parts:
        for label, of_part in bins.items():
            noise[label] = noise[label] + of_part if label in noise else of_part
    wrong = find_misfits({query.label: noise[query.label] for query in release.design.measured})
    return wrong, hash_parts(streams, (digests for _, digests in parts))


def count_parts(
    session: Session, release: TopDownRelease, streams: Sequence[Stream], *, stored: bool = False, state: str = ""
) -> Iterator[CountedPart]:
    """The parts of some streams; with a state, only its places are counted."""
    for (histogram, level), parts in groupby(order_parts(streams), lambda part: part.level):
        counts = roll_up(session, release, release.confidential(HISTOGRAMS), histogram, level, state)
        for part in parts:
            exact = read_counts(session, counts, SCHEMAS[histogram].size, part.first, part.last)
            if stored:
                codes = read_codes(session, release, level, part.first, part.last)
                yield CountedPart(part, exact, codes, find_summed(session, release, part))
            else:
                yield CountedPart(part, exact)


def _draw_part(counted: CountedPart, key: bytes, folder: Path | None, stopped: Stopped) -> DrawnPart:
    part, digests, summed = counted.part, Digests(counted.part.streams), counted.summed
    random, adding = [stream.random(key) for stream in part.streams], Adding(part, summed) if summed else None
    with ExitStack() as opened:
        writer = opened.enter_context(open_part(_file(folder, part), SCHEMA)) if folder else None
        of_sums = opened.enter_context(open_part(_file(folder, part, SUMS), SUMS_SCHEMA)) if folder and adding else None
        for first, last in part.batches():
            if stopped():
                break
            noisy = {
                stream: _draw_answers(stream, counted.exact, own, first, last)
                for stream, own in zip(part.streams, random, strict=True)
            }
            digests.add(noisy)
            if writer and counted.codes is not None:
                codes = counted.codes.slice(first - part.first, last - first)
                rows = [to_rows(stream, first, answers, codes) for stream, answers in noisy.items()]
                writer.write_table(pa.concat_tables(rows))
            if of_sums and adding:
                of_sums.write_table(adding.add(first, last, noisy))
    if adding is None or summed is None:
        return DrawnPart(part, digests.by_label())
    return DrawnPart(part, digests.by_label(), summed.region, adding.hexdigest())


def _draw_answers(stream: Stream, exact: Counts, random: RandomStream, first: int, last: int) -> NDArray[np.int32]:
    """The noisy answers to a query in the places from `first` up to `last`, shape (places, marginal cells)."""
    marginal = stream.measured.marginal
    answers = stream.measured.noise.sample((last - first) * marginal.size, random)
    np.add.at(answers, *exact.locate(marginal, first, last))
    return to_stored(answers, stream).reshape(last - first, marginal.size)


def _file(folder: Path, part: Part, what: str = MEASUREMENTS) -> Path:
    histogram, level = part.level
    return folder / f"{what}-{histogram}-{level.encode().hex()}-{part.first}.arrow"
