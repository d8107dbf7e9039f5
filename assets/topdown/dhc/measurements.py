"""The noisy measurements of a DHC release: how they are made, stored and read.

The table `noisy_measurements` has a row for every query and place, with the marginal cells that were read and the noisy
answers for them. Each answer's noise is a function of the draw's key, the query, the place and the number of the cell,
so that these answers are those of the complete measurement of all cells, of which only they are ever made. Siblings
have the same cells, those of their parent.

The version of measurements is a hash over the digests of all queries of all histograms at all levels.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.gates.shared import count_problem
from assets.measurement.method import MEASUREMENTS, GridError
from assets.topdown.dhc.levels import (
    AnswerDigests,
    Answers,
    Given,
    hold_tenures,
    make_answers,
    read_inputs,
    require_estimated,
)
from assets.topdown.dhc.release import DHCRelease
from assets.topdown.histograms import read_counts
from assets.topdown.spine import read_tree
from mechanisms.sampling.goodness import BinCounts, bin_draws, find_misfits
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.households import UNITS
from mechanisms.topdown.schema import Counts, Marginal
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

_LARGEST = np.iinfo(np.int32).max

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
        return self.version or hash_answers(
            (given, make_answers(given, exact, self.key)) for given, exact in list_given(self.session, self.release)
        )

    def in_parts(self, folder: Path) -> "Drawing":
        files = list[Path]()

        def write() -> Iterator[tuple[Given, Answers]]:
            for given, exact in list_given(self.session, self.release):
                files.append(folder / f"{len(files)}.parquet")
                yield given, _write(files[-1], given, make_answers(given, exact, self.key))

        return replace(self, version=hash_answers(write()), files=tuple(files))


def list_given(session: Session, release: DHCRelease) -> Iterator[tuple[Given, Counts]]:
    """By level from the root and by histogram: what the measured cells follow from, and the exact counts, if the
    session reads them."""
    tree = read_tree(session, release)
    for level in release.levels:
        inputs = read_inputs(session, release, tree, level)
        require_estimated(session, release, level)
        units = read_counts(session, release.public(release.level(level)), histogram=UNITS.name)
        for given in (inputs.persons, inputs.units, hold_tenures(inputs.households, units)):
            yield given, inputs.exact.get(given.histogram, EMPTY)


def hash_answers(answers: Iterable[tuple[Given, Answers]]) -> str:
    """The version of all answers, which are read to the end."""
    digests = dict[str, str]()
    for given, of_level in answers:
        own = AnswerDigests(given)
        for siblings in of_level:
            own.add(*siblings)
        digests |= own.by_label()
    return hash_digests(digests)


def hash_digests(digests: Mapping[str, str]) -> str:
    return sha256("".join(f"{label} {digest}\n" for label, digest in digests.items()).encode()).hexdigest()


def read_answers(session: Session, release: DHCRelease, given: Given) -> Answers:
    """The stored answers of a histogram at a level, in the order in which they are made. Raises GridError unless every
    place has the answers for the cells of its parent once, and no others."""
    values = {"histogram": given.histogram, "level": given.level.name}
    rows = session.arrow("dhc/answers", values, measurements=release.public(MEASUREMENTS))
    wrong = GridError(
        f"{release.schema}: {' '.join(values.values())}: not every place is measured once in the cells of its parent"
    )
    lists = [rows[name].combine_chunks() for name in ("cells", "answers")]
    if any(each.null_count or each.flatten().null_count for each in lists):
        raise wrong
    starts = [each.offsets.to_numpy() for each in lists]
    numbers = [each.values.to_numpy() for each in lists]
    keys = zip(rows["query"].to_pylist(), rows["number"].to_pylist(), strict=True)
    place = {key: position for position, key in enumerate(keys)}
    read = 0
    for query, first, last, cells in given.list_reads():
        found = list[NDArray[np.int64]]()
        for number in range(first, last):
            at = place.get((query, number), -1)
            own, answers = (each[start[at] : start[at + 1]] for each, start in zip(numbers, starts, strict=True))
            if at < 0 or not np.array_equal(own, cells) or len(answers) != len(cells):
                raise wrong
            found.append(answers)
        read += last - first
        yield query, first, last, cells, np.array(found, dtype=np.int64)
    if read != len(rows) or len(place) != len(rows):
        raise wrong


def compute_stored_version(session: Session, release: DHCRelease) -> str:
    """Raises GridError as `read_answers`."""
    return hash_answers((given, read_answers(session, release, given)) for given, _ in list_given(session, release))


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

    def bin_noise(given: Given, exact: Counts) -> Answers:
        for query, first, last, cells, answers in read_answers(session, release, given):
            marginal, runs = given.plan.schema.marginal(query), given.level.runs[first:last]
            differences = answers - _count(exact, marginal, first, last, cells)
            for run in np.unique(runs).tolist():
                label = f"{given.histogram} {given.level.name} {query}" + (f", {run} only children" if run else "")
                variance = given.level.variances[query] / given.level.scales[run]
                own = bin_draws(differences[runs == run].ravel(), DiscreteGaussian(variance))
                noise[label] = noise[label] + own if label in noise else own
            yield query, first, last, cells, answers

    version = hash_answers((given, bin_noise(given, exact)) for given, exact in list_given(session, release))
    return find_misfits(noise), version


def _count(exact: Counts, marginal: Marginal, first: int, last: int, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The exact answers of the places from `first` up to `last` for some cells, shape (places, cells)."""
    own = slice(*np.searchsorted(exact.number, [first, last]))
    found = marginal.find(exact.cell[own])
    position = np.minimum(np.searchsorted(cells, found), len(cells) - 1)
    asked = cells[position] == found
    answers = np.zeros((last - first, len(cells)), dtype=np.int64)
    np.add.at(answers, (exact.number[own][asked] - first, position[asked]), exact.count[own][asked])
    return answers


def _write(path: Path, given: Given, answers: Answers) -> Answers:
    with open_part(path, SCHEMA) as writer:
        for query, first, last, cells, values in answers:
            if np.abs(values).max() > _LARGEST:
                raise GridError(f"{given.histogram} {given.level.name} {query}: answers beyond 2^31")
            places = last - first
            offsets = pa.array(np.arange(places + 1, dtype=np.int32) * len(cells))
            lists = (np.tile(cells, places), values.ravel())
            writer.write_table(
                pa.table(
                    {
                        "histogram": pa.repeat(given.histogram, places),
                        "level": pa.repeat(given.level.name, places),
                        "query": pa.repeat(query, places),
                        "number": np.arange(first, last),
                        **{
                            name: pa.ListArray.from_arrays(offsets, pa.array(own.astype(np.int32)))
                            for name, own in zip(("cells", "answers"), lists, strict=True)
                        },
                    },
                    schema=SCHEMA,
                )
            )
            yield query, first, last, cells, values
