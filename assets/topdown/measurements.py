"""Noisy measurements in the warehouse: drawn batch by batch, written, read back and compared.

Here belongs the way between exact histograms, noise and the table `noisy_measurements`: a row for every place and
query, the answers of all its cells in a list. Nothing is ever held whole. When a draw is made belongs in
`assets.charge.drawing`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.release.draw import StaleInputError, is_drawn, label_drawn
from assets.topdown.draw import TopDownDraw
from assets.topdown.histograms import histograms_version, stage_level
from assets.topdown.release import MEASUREMENTS, TopDownRelease
from assets.topdown.spine import geoids, places_of, stage_ancestry
from mechanisms.topdown.design import SCHEMAS, Measured, TopDownDesign
from mechanisms.topdown.noise import Noise
from resources.custody import Custody
from resources.statements import Fragment
from resources.warehouse import Session

BATCH = 1024
"""Places whose measurements are made, written or read at a time: some ten megabytes."""

COLUMNS = {
    "histogram": "persons or units",
    "level": "Geographic level",
    "query": "The marginal that is measured",
    "number": "Number of the place within its level, as in the spine",
    "geoid": "Code of the place",
    "answers": "The noisy answers, one for each cell of the query in order",
}

_LARGEST = np.iinfo(np.int32).max


class MeasurementError(ValueError):
    """Measurements that are not those of every place and query; the message has histogram, level and query."""


@dataclass(frozen=True)
class Batch:
    """The exact or noisy answers of some places to one query.

    Attributes:
        measured: the query.
        first: the number of the first place.
        answers: shape (places, marginal cells).
    """

    measured: Measured
    first: int
    answers: NDArray[np.int64]


@dataclass(frozen=True)
class Drawn:
    """A draw's output, made anew whenever it is gone through."""

    session: Session
    release: TopDownRelease
    key: bytes

    def __iter__(self) -> Iterator[Batch]:
        noise = Noise(self.release.design, self.key)
        for exact in exact_batches(self.session, self.release):
            measured, answers = exact.measured, exact.answers
            noisy = answers + noise.of_next(measured, len(answers))
            if np.abs(noisy).max(initial=0) > _LARGEST:
                raise MeasurementError(f"{measured.label}: answers beyond 2^31")
            yield Batch(measured, exact.first, noisy)


def drawn_measurements(session: Session, release: TopDownRelease, draw: TopDownDraw, custody: Custody) -> Drawn:
    """The draw's output, from the exact histograms and the draw's key: the same whenever it is made.

    Raises:
        StaleInputError: if the histograms are not the ones that were charged.
        CustodyError: if the draw's key is gone.
    """
    if histograms_version(session, release, custody) != draw.histograms_version:
        raise StaleInputError(
            f"{release.schema}: the histograms have changed since they were charged; materialize charge again"
        )
    return Drawn(session, release, custody.open_key(draw.draw_id, release.custody))


def exact_batches(session: Session, release: TopDownRelease) -> Iterator[Batch]:
    """The exact answers in the order of the draw: by histogram and level, then by batch of places, then by query."""
    ancestry, places = stage_ancestry(session, release), places_of(session, release)
    for histogram in SCHEMAS:
        for level in release.levels:
            counts = stage_level(session, release, histogram, level, ancestry)
            asked = release.design.measured_at(histogram, level)
            for first in range(0, places[level], BATCH):
                last = min(first + BATCH, places[level])
                number, cell, count = counts_between(session, counts, first, last)
                for measured in asked:
                    marginal = measured.marginal
                    answers = np.zeros((last - first, marginal.size), dtype=np.int64)
                    np.add.at(answers, (number, marginal.cells[cell]), count)
                    yield Batch(measured, first, answers)


def counts_between(
    session: Session, counts: Fragment, first: int, last: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Place (counted from the first), cell and count of all counts above 0 of some places."""
    found = session.arrow("topdown/counts_between", {"first": first, "last": last}, counts=counts)
    number, cell, count = (found[name].to_numpy() for name in ("number", "cell", "count"))
    return number, cell, count


def write_measurements(session: Session, release: TopDownRelease, draw: TopDownDraw, drawn: Drawn) -> None:
    """Store measurements, and the draw they are of."""
    table = release.public(MEASUREMENTS)
    session.create(table, "topdown/no_measurements")
    codes = {level: geoids(session, release, level) for level in release.levels}
    for batch in drawn:
        rows = _rows(batch, codes[batch.measured.level][batch.first : batch.first + len(batch.answers)])
        session.run("topdown/append", table=table, rows=session.register("rows", rows))
    label_drawn(session, release, draw)


def _rows(batch: Batch, codes: NDArray[np.object_]) -> pa.Table:
    places, size = batch.answers.shape
    answers = pa.array(batch.answers.astype(np.int32).ravel())
    return pa.table(
        {
            "histogram": pa.repeat(batch.measured.histogram, places),
            "level": pa.repeat(batch.measured.level, places),
            "query": pa.repeat(batch.measured.query, places),
            "number": np.arange(batch.first, batch.first + places),
            "geoid": pa.array(codes, pa.string()),
            "answers": pa.ListArray.from_arrays(np.arange(places + 1, dtype=np.int32) * size, answers),
        }
    )


def stored_batches(session: Session, release: TopDownRelease) -> Iterator[Batch]:
    """The stored measurements in the order of the draw.

    Raises:
        MeasurementError: if some place is not there once for each query of its level, with an answer for every cell.
    """
    places = places_of(session, release)
    for histogram in SCHEMAS:
        for level in release.levels:
            asked = release.design.measured_at(histogram, level)
            for first in range(0, places[level], BATCH):
                for measured in asked:
                    yield read_batch(session, release, measured, first, min(first + BATCH, places[level]))


def read_batch(session: Session, release: TopDownRelease, measured: Measured, first: int, last: int) -> Batch:
    """The stored answers of some places to one query.

    Raises:
        MeasurementError: if one of the places is not there exactly once, with an answer for every cell.
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
        raise MeasurementError(
            f"{release.schema}: {measured.label}: some place is not measured exactly once with {size:,} answers"
        )
    return Batch(measured, first, lists.flatten().to_numpy().astype(np.int64).reshape(last - first, size))


def measurements_version(design: TopDownDesign, batches: Iterator[Batch]) -> str:
    """The content hash of measurements: 64 hexadecimal digits.

    It is the SHA-256 of what is measured and, for each in order, the SHA-256 of all answers as 32-bit integers.
    """
    digests = {each.label: sha256() for each in design.measured}
    for batch in batches:
        digests[batch.measured.label].update(batch.answers.astype("<i4").tobytes())
    lines = [f"{label} {digest.hexdigest()}\n" for label, digest in digests.items()]
    return sha256("".join(lines).encode()).hexdigest()


def stored_version(session: Session, release: TopDownRelease, draw: TopDownDraw) -> str | None:
    """The content hash of the stored measurements; None unless they are whole and their label says that they are this
    draw's.
    """
    if not is_drawn(session, release, draw):
        return None
    try:
        return measurements_version(release.design, stored_batches(session, release))
    except MeasurementError:
        return None
