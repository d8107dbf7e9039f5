"""The noisy measurements of a DHC release: their draw, storage and reading.

The table `noisy_measurements` has a row for every query and place, with the marginal cells read by the estimation and
their noisy answers. Each answer's noise is a function of the draw's key, the query, the place and the number of the
cell. The answers are therefore a part of the complete measurement of all cells, whose other answers are never made.
Siblings have the cells of their parent.

The version of measurements is a hash over the digests of all queries of all histograms at all levels. Answers are made,
written and read in batches of families; threads work on several levels and histograms.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from itertools import chain, product, takewhile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.gates.shared import count_problem
from assets.measurement.method import MEASUREMENTS, GridError
from assets.topdown.dhc.levels import (
    Digests,
    Planned,
    Span,
    estimates_of,
    hold_homes,
    join_digests,
    list_parents,
    list_scopes,
    list_spans,
    plan_histograms,
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
from mechanisms.topdown.dhc.answers import Asked, Kept, Lists, join_lists, list_cells
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.levels import (
    Level,
    Measuring,
    find_read,
    is_complete,
    list_families,
    reach_cells,
)
from mechanisms.topdown.dhc.passes import list_queries
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.schema import Counts, Schema
from resources.parts import open_part
from resources.processes import Stopped, in_threads
from resources.statements import SQL, Zone
from resources.warehouse import Session

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

Answers = Iterator[tuple[Asked, NDArray[np.int64]]]
"""The cells asked of siblings, by query and place, with the noisy answers, in batches."""

Readers = Mapping[str, NDArray[np.unsignedinteger[Any]]]
"""By query of a level, shape (places,): the levels whose estimation reads the answers of a place, as bits, the lowest
for the root. Levels are read from the root down, and a place's cells are among its parent's, so the first reading
contains the cells of all later ones."""

Digest = tuple[str, str, str, str]
"""A histogram, a level, a query, and the SHA-256 of answers."""

Of = TypeVar("Of")

FindCells = Callable[[str, int, NDArray[np.int64]], tuple[Lists, NDArray[np.int64]]]
"""The marginal cells of a query that the estimation of a level reads in families: lists of cells, and the list of each
family."""

_LARGEST = np.iinfo(np.int32).max

_PEOPLED = SQL(
    "dhc/peopled",
    "SELECT DISTINCT number FROM {{ counts }} WHERE histogram = $histogram AND number >= 0 AND number < $places",
)

NO_CELLS = np.zeros(0, dtype=np.int64)

EMPTY = Counts(NO_CELLS, NO_CELLS, NO_CELLS)


@dataclass(frozen=True)
class Batch:
    """The measurements of a histogram in the places of a span, which are numbered from 0.

    Attributes:
        families: shape (families + 1,): the first place of each family, followed by the number of places.
        exact: the exact counts, if the session reads them.
        scopes: by level from the root, the scopes of the places above and of the span.
    """

    schema: Schema
    level: Level
    families: NDArray[np.int64]
    exact: Counts
    readers: Readers
    find_cells: FindCells
    scopes: Sequence[Scope]

    @property
    def label(self) -> tuple[str, str]:
        return self.schema.name, self.level.name

    def list_measured(self) -> Iterator[Asked]:
        """By query and place, the cells measured: those of the first reading."""
        for query, readers in sorted(self.readers.items()):
            own = readers[self.families[:-1]]
            lowest = np.log2(np.maximum(own & np.negative(own), 1)).astype(np.int64)
            yield from self._ask(query, np.where(own > 0, lowest, -1))

    def list_read(self, reader: int) -> Iterator[Asked]:
        """By query and place, the cells that the estimation of a level reads."""
        for query, readers in sorted(self.readers.items()):
            own = readers[self.families[:-1]].astype(np.int64)
            yield from self._ask(query, np.where(own >> reader & 1, reader, -1))

    def _ask(self, query: str, readers: NDArray[np.int64]) -> Iterator[Asked]:
        """The cells of a query for each family with a reader."""
        families = np.flatnonzero(readers >= 0)
        lists, of_family, begun = list[Lists](), np.zeros(len(families), dtype=np.int64), 0
        for reader in np.unique(readers[families]).tolist():
            chosen = readers[families] == reader
            own, of_chosen = self.find_cells(query, reader, families[chosen])
            of_family[chosen] = of_chosen + begun
            begun += len(own)
            lists.append(own)
        if lists:
            first, last = self.families[families], self.families[families + 1]
            yield from Asked(query, first, last, join_lists(lists), of_family).cut()


@dataclass(frozen=True)
class Drawing:
    """The output of a draw, made on demand in a session that reads both zones. For measurements made in parts, it has
    their version and their files in the order of storage."""

    release: DHCRelease
    session: Session
    key: bytes = field(repr=False)
    version: str = ""
    files: tuple[Path, ...] = ()

    def compute_version(self) -> str:
        """The version of the measurements. Makes them if necessary, and keeps only hashes."""
        return self.version or combine_digests(digests for digests, _ in self._make(None))

    def in_parts(self, folder: Path) -> "Drawing":
        digests, files = zip(*self._make(folder), strict=True)
        return replace(self, version=combine_digests(digests), files=tuple(chain(*files)))

    def _make(self, folder: Path | None) -> Iterator[tuple[list[Digest], list[Path]]]:
        """By histogram and level, the digests of the answers and, with a folder, their files."""

        def make(_: Session, batches: Iterator[Batch]) -> tuple[list[Digest], list[Path]]:
            with closing(_Parts(folder)) as parts:
                made = ((batch, parts.write(batch, make_answers(batch, self.key))) for batch in batches)
                return digest_answers(made), parts.list_files()

        return _in_threads(make, self.session, self.release)


def make_answers(batch: Batch, key: bytes) -> Answers:
    measuring = Measuring(batch.schema, batch.level, batch.exact, key)
    for asked in batch.list_measured():
        answers = measuring.draw_noise(asked)
        asked.add_exact(batch.schema.marginal(asked.query), batch.exact, answers)
        yield asked, answers


def _in_threads(
    work: Callable[[Session, Iterator[Batch]], Of], session: Session, release: DHCRelease
) -> Generator[Of, None, None]:
    """The results of `work` on the batches of a histogram at a level, by level from the root and by histogram. Threads
    work on several in parallel, each in its own session."""

    def perform(label: tuple[str, str], stopped: Stopped) -> Of:
        with session.open_sibling() as own:
            return work(own, takewhile(lambda _: not stopped(), list_measured(own, release, *label)))

    _find_readers(session, release)
    with closing(in_threads(perform, product(release.levels, SCHEMAS), release.processes)) as found:
        yield from found


def list_measured(session: Session, release: DHCRelease, level: str, histogram: str) -> Iterator[Batch]:
    """By span, the answers that the estimation reads, with the exact counts if the session reads them."""
    readers, roots = _find_readers(session, release)
    tree, depth = read_tree(session, release), release.levels.index(level)
    for scope in list_scopes(release, read_partitions(session, release)):
        if scope.level == level:
            for span in list_spans(session, release, tree, scope, histogram):
                yield _read_batch(session, release, tree, span, readers[histogram][depth], roots[histogram])


def _read_batch(
    session: Session,
    release: DHCRelease,
    tree: Tree,
    span: Span,
    of_level: tuple[Schema, Level, Readers],
    root: Mapping[str, NDArray[np.int64]],
) -> Batch:
    (schema, whole, readers), ((first, last), *_) = of_level, span.cut(release, tree)
    level, depth = whole.take(first, last), release.levels.index(whole.name)
    exact = EMPTY
    if Zone.CONFIDENTIAL in session.zones:
        exact = read_exact(session, release, tree, schema.name, level)
    parents = list_parents(tree)
    families = np.flatnonzero(np.diff(parents[depth][first:last], prepend=-1, append=-1))
    # The families' parents and all places above them, and the scopes of the levels below these.
    ancestors, lineage, scopes = parents[depth][first:last][families[:-1]], dict[int, NDArray[np.int64]](), [span.scope]
    for above in range(depth - 1, -1, -1):
        lineage[above], ancestors = ancestors, parents[above][ancestors]
        scopes.insert(0, scopes[0].above(release) or scopes[0])

    @cache
    def read_level(reader: int) -> tuple[int, Counts]:
        """The first ancestor of the span above a level, and the ancestors' estimates, which the estimation of the level
        reads."""
        begin, end = lineage[reader - 1][[0, -1]].tolist()
        counts = read_above(session, release, scopes[reader], schema.name, begin, end + 1)
        assert counts is not None
        return begin, counts

    def find_cells(query: str, reader: int, chosen: NDArray[np.int64]) -> tuple[Lists, NDArray[np.int64]]:
        if not reader or is_complete(schema, level, query):
            cells = np.arange(schema.marginal(query).size) if reader else root[query]
            return Lists(np.array([0, len(cells)]), cells), np.zeros(len(chosen), dtype=np.int64)
        begin, counts = read_level(reader)
        places, of_chosen = np.unique(lineage[reader - 1][chosen] - begin, return_inverse=True)
        return list_cells(schema.marginal(query), counts, places), of_chosen

    own = {query: of_query[first:last] for query, of_query in readers.items()}
    return Batch(schema, level, families, exact, own, find_cells, scopes)


def _find_readers(
    session: Session, release: DHCRelease
) -> tuple[dict[str, list[tuple[Schema, Level, Readers]]], dict[str, dict[str, NDArray[np.int64]]]]:
    """By histogram and level, the readers of answers; and by histogram and query, the marginal cells read at the
    root."""
    return session.compute_once(("readers", release.schema), lambda: _list_readers(session, release))


def _list_readers(
    session: Session, release: DHCRelease
) -> tuple[dict[str, list[tuple[Schema, Level, Readers]]], dict[str, dict[str, NDArray[np.int64]]]]:
    tree = read_tree(session, release)
    for scope in list_scopes(release, read_partitions(session, release)):
        require_estimated(session, release, scope)
    design, every, planned = release.design, list_parents(tree), plan_histograms(release, tree)
    roots = _find_root_cells(session, release, tree, planned)
    marginals = dict[str, dict[str, NDArray[np.int64]]]()
    bits = np.min_scalar_type(2 ** len(every) - 1)
    found = dict[str, list[tuple[Schema, Level, Readers]]]()
    for name, schema in SCHEMAS.items():
        levels, plan = planned[name], design.plans[name]
        readers = [{query: np.zeros(len(level.runs), bits) for query in level.variances} for level in levels]
        for reader, above in enumerate([None, *release.levels[:-1]]):
            if above is None:
                peopled = np.array([roots[name].size > 0])
            else:
                peopled = np.zeros(tree.places(above), dtype=np.bool_)
                estimates, values = estimates_of(session, release, above), {"histogram": name, "places": len(peopled)}
                peopled[session.arrow(_PEOPLED, values, counts=estimates)["number"].to_numpy()] = True
            of_levels = find_read(plan, levels[reader:], every[reader:], peopled, design.full)
            for own, read in zip(readers[reader:], of_levels, strict=True):
                for query, places in read.items():
                    own[query] |= places.astype(bits) << bits.type(reader)
        found[name] = [(schema, *each) for each in zip(levels, readers, strict=True)]
        marginals[name] = {query: reach_cells(schema, levels[0], query, roots[name]) for query in list_queries(plan)}
    return found, marginals


def _find_root_cells(
    session: Session, release: DHCRelease, tree: Tree, planned: Planned
) -> dict[str, NDArray[np.int64]]:
    """By histogram, the cells read at the root."""
    scope = list_scopes(release, [])[0]
    inputs = read_inputs(session, release, tree, planned, Span(scope, 0, 1), counted=False)
    table = scope.table(release)
    homes = (
        read_counts(session, table, SCHEMAS[name].size, 0, 1, histogram=name) for name in (UNITS.name, HOUSEHOLDS.name)
    )
    given = inputs.given[PERSONS.name], *hold_homes(inputs, *homes)
    families = (list_families(each.plan, each.held, each.parents, each.above) for each in given)
    return {name: cells for name, ((_, _, _, cells, _),) in zip(SCHEMAS, families, strict=True)}


def digest_answers(answers: Iterable[tuple[Batch, Answers]]) -> list[Digest]:
    """The digests of the answers of batches. Consumes the answers."""
    digests = dict[tuple[str, str, str], Any]()
    for batch, of_batch in answers:
        begin = batch.level.first
        for asked, values in of_batch:
            digest = digests.setdefault((*batch.label, asked.query), sha256())
            for first, last, cells, own in asked.list_families():
                digest.update(f"{begin + first} {begin + last} {len(cells)}".encode())
                for numbers in (cells, values[own]):
                    digest.update(np.ascontiguousarray(numbers, dtype="<i8").data)
    return [(*of, digest.hexdigest()) for of, digest in digests.items()]


def combine_digests(digests: Iterable[list[Digest]]) -> str:
    """The version of all answers."""
    return sha256(json.dumps(sorted(chain(*digests))).encode()).hexdigest()


class Stored:
    """The stored answers of a histogram to all or some queries, at a level or in some of its places, renumbered from 0.
    Raises GridError for answers that are not lists of 32-bit integers, or are stored twice."""

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
        starts = [each.offsets.to_numpy() for each in lists]
        numbers = [each.values.to_numpy() for each in lists]
        number = rows["number"].to_numpy() - level.first
        queried = rows["query"].combine_chunks().dictionary_encode()
        self._rows, self._kept = len(rows), dict[str, Kept]()
        for position, query in enumerate(queried.dictionary.to_pylist()):
            own = np.flatnonzero(queried.indices.to_numpy() == position)
            own = own[np.argsort(number[own], kind="stable")]
            if np.any(np.diff(number[own]) == 0):
                raise self.wrong
            bounds = (start[own + step] for start in starts for step in (0, 1))
            self._kept[query] = Kept(number[own], *bounds, *numbers)

    def __len__(self) -> int:
        return self._rows

    def list_kept(self, query: str) -> Iterator[tuple[Asked, NDArray[np.int64]]]:
        """All stored answers to a query, although the estimation can skip the answers of siblings without persons."""
        if kept := self._kept.get(query):
            for asked in kept.ask(query).cut():
                yield asked, self.read(asked, whole=True)

    def read(self, asked: Asked, *, whole: bool) -> NDArray[np.int64]:
        """The requested answers. Raises GridError if one of them is not stored; with `whole`, also if other answers are
        stored for one of the places."""
        kept = self._kept.get(asked.query)
        answers = kept.pick(asked, whole=whole) if kept else None
        if answers is None:
            raise self.wrong
        return answers


def read_answers(session: Session, release: DHCRelease, batch: Batch) -> Answers:
    """The stored answers of a batch, in the order of the draw. Raises GridError unless every place has the answers that
    the estimation reads exactly once, and no others."""
    return _read_whole(Stored(session, release, batch.schema, batch.level), batch)


def _read_whole(stored: Stored, batch: Batch) -> Answers:
    read = 0
    for asked in batch.list_measured():
        yield asked, stored.read(asked, whole=True)
        read += len(asked.places)
    if read != len(stored):
        raise stored.wrong


@dataclass(frozen=True)
class Found:
    """The version of all stored answers, and by scope, the digests of the answers that its estimation reads."""

    version: str
    read: Mapping[Scope, str]


def find_stored(session: Session, release: DHCRelease) -> Found:
    """Raises GridError as `read_answers`."""
    return session.compute_once(("stored answers", release.schema), lambda: _find_stored(session, release))


def _find_stored(session: Session, release: DHCRelease) -> Found:
    def find(own: Session, batches: Iterator[Batch]) -> tuple[list[Digest], dict[Scope, Digests]]:
        read = defaultdict[Scope, Digests](Digests)

        def read_batches() -> Iterator[tuple[Batch, Answers]]:
            for batch in batches:
                stored = Stored(own, release, batch.schema, batch.level)
                yield batch, _read_whole(stored, batch)
                for reader, scope in enumerate(batch.scopes):
                    for asked in batch.list_read(reader):
                        read[scope].add(*batch.label, asked.query, stored.read(asked, whole=False))

        return digest_answers(read_batches()), read

    found = list(_in_threads(find, session, release))
    scopes = list_scopes(release, read_partitions(session, release))
    read = {scope: join_digests(own[scope] for _, own in found) for scope in scopes}
    return Found(combine_digests(digests for digests, _ in found), read)


def compute_stored_version(session: Session, release: DHCRelease) -> str:
    """Raises GridError as `read_answers`."""
    return find_stored(session, release).version


def find_unmeasured(session: Session, release: DHCRelease) -> list[str]:
    """The problems unless every place is measured exactly once in exactly its parent's cells."""
    try:
        find_stored(session, release)
    except GridError as error:
        return [str(error)]
    due = {"histograms": list(SCHEMAS)}
    names = {"measurements": release.public(MEASUREMENTS), "spine": release.public(SPINE)}
    (other,) = session.row("dhc/other_answers", due, **names)
    return count_problem(other, "measurements of other histograms or places")


def find_wrong_noise(session: Session, release: DHCRelease) -> tuple[list[str], str]:
    """The queries whose noise does not fit the declared distribution, and the version of the measurements read. Places
    with the budgets of only children below them count as separate queries of their level."""

    def bin_noise(own: Session, batches: Iterator[Batch]) -> tuple[list[Digest], dict[str, BinCounts]]:
        noise = dict[str, BinCounts]()

        def bin_batch(batch: Batch) -> Answers:
            for asked, answers in read_answers(own, release, batch):
                differences, runs = answers.copy(), batch.level.runs[asked.places]
                asked.add_exact(batch.schema.marginal(asked.query), batch.exact, differences, sign=-1)
                for run in np.unique(runs).tolist():
                    label = f"{' '.join(batch.label)} {asked.query}" + (f", {run} only children" if run else "")
                    variance = batch.level.variances[asked.query] / batch.level.scales[run]
                    of_run = differences[np.repeat(runs == run, np.diff(asked.ends))]
                    binned = bin_draws(of_run, DiscreteGaussian(variance))
                    noise[label] = noise[label] + binned if label in noise else binned
                yield asked, answers

        return digest_answers((batch, bin_batch(batch)) for batch in batches), noise

    digests, noise = zip(*_in_threads(bin_noise, session, release), strict=True)
    return find_misfits({label: bins for own in noise for label, bins in own.items()}), combine_digests(digests)


class _Parts:
    """The files of the answers of a histogram at a level, one for each query; none without a folder."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._files, self._writers = folder, dict[str, Path](), dict[str, pa.RecordBatchFileWriter]()

    def write(self, batch: Batch, answers: Answers) -> Answers:
        """Write the answers of a batch as they arrive."""
        for asked, values in answers:
            if self._folder:
                if asked.query not in self._writers:
                    name = " ".join((*batch.label, str(len(self._files))))
                    self._files[asked.query] = path = self._folder / f"{name}.arrow"
                    self._writers[asked.query] = open_part(path, SCHEMA)
                if np.abs(values).max(initial=0) > _LARGEST:
                    raise GridError(f"{' '.join(batch.label)} {asked.query}: answers beyond 2^31")
                self._writers[asked.query].write_table(_to_rows(batch, asked, values))
            yield asked, values

    def list_files(self) -> list[Path]:
        """The files in the order of queries."""
        return [self._files[query] for query in sorted(self._files)]

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _to_rows(batch: Batch, asked: Asked, values: NDArray[np.int64]) -> pa.Table:
    names = {"histogram": batch.label[0], "level": batch.label[1], "query": asked.query}
    offsets = pa.array(asked.ends.astype(np.int32))
    lists = {"cells": asked.repeat_cells(), "answers": values}
    columns = {
        **{name: pa.repeat(value, len(asked.places)) for name, value in names.items()},
        "number": batch.level.first + asked.places,
        **{name: pa.ListArray.from_arrays(offsets, pa.array(own.astype(np.int32))) for name, own in lists.items()},
    }
    return pa.table(columns, schema=SCHEMA)
