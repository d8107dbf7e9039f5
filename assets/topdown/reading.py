"""The inputs of the estimation of places, read task by task: families with their measurements, limits and estimates
above.

`estimation` reads down the tree, and `information` up. Memory is bounded by the largest state: limits are computed
state by state, and tables are read a few thousand places at a time, of one state or of several. No session is open
between tasks, because a reading session keeps other processes from writing; each new session checks whether the
measurements were drawn anew.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from assets.measurement.method import MEASUREMENTS, GridError
from assets.release.account import account_of
from assets.release.draw import DRAWN, StaleInputError
from assets.topdown.histograms import read_counts
from assets.topdown.invariants import Region, derive_limits, read_state_region, read_upper_region, take_highest
from assets.topdown.measurements import Digests, Stream, read_answers, read_streams
from assets.topdown.release import INFORMATION, TopDownRelease, TreeRelease
from assets.topdown.spine import Tree, pluralize, read_codes, read_states
from assets.topdown.sums import AlteredSumsError, SumsAccount, SumsDigest, read_sums
from assets.topdown.workers import Task
from mechanisms.topdown.decomposition import Decomposition, Information
from mechanisms.topdown.design import SCHEMAS, Measured, level_of_states, words
from mechanisms.topdown.estimation import Families, Measurement, divide_parents
from mechanisms.topdown.feasibility import Limits
from mechanisms.topdown.information import MeasuredKinds, list_kinds
from mechanisms.topdown.schema import DETAILED, PERSONS, UNITS, Counts, Schema
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

PLACES_AT_A_TIME = 4_000
"""The number of places read in one session: 40 MB of production's measurements."""

PLACES_WITH_UNITS = 25
"""The factor of places read when there are only units, which have two cells."""

PLACES_OF_A_TASK = 400
"""The maximum number of places given to a process at a time; fewer at a level with few places. A parent's children are
never split."""


PLACES_KNOWN = 100_000
"""The number of finest places whose limits are kept for the next reading: about 30 MB."""

StateLimits = dict[int, tuple[str, Mapping[str, Sequence[Limits]]]]
"""By number of a state, the digest of its region and the limits of its places, by histogram and level."""


@dataclass(frozen=True)
class Scope:
    """The places, and the histogram if there are several, that are estimated and stored together: those in the state
    with a code, or all places of the level."""

    level: str
    state: str = ""
    histogram: str = ""

    def __str__(self) -> str:
        of = f"{self.histogram} of {self.level}" if self.histogram else self.level
        return f"{of} in {self.state}" if self.state else of

    def above(self, release: TreeRelease) -> "Scope | None":
        depth = release.levels.index(self.level)
        if not depth:
            return None
        level = release.levels[depth - 1]
        return Scope(level, self.state if release.is_by_state(level) else "", self.histogram)

    def table(self, release: TreeRelease) -> Table:
        """The table of estimates; their account is next to it."""
        return release.public(release.estimates(self.level, self.state, self.histogram or "level"))


def find_scope(release: TopDownRelease, level: str, state: str) -> Scope:
    """The estimates of a level behind the records and tables of a state: below the states, only those of the state, and
    with full estimation, only persons."""
    return Scope(level, state if release.is_by_state(level) else "", PERSONS.name if release.design.full else "")


def list_scopes(release: TopDownRelease, states: Sequence[str]) -> list[Scope]:
    """The scopes of a release, in the order of estimation."""
    histograms = list(SCHEMAS) if release.design.full else [""]
    return [
        Scope(level, state, histogram)
        for histogram in histograms
        for level in release.levels
        for state in (states if release.is_by_state(level) and histogram != UNITS.name else [""])
    ]


@dataclass(frozen=True)
class Part:
    """Consecutive places whose limits are in memory together: those of a state, or all of a level above.

    The parents are numbered from `parent`; their starts, as in `mechanisms.topdown.replicates.find_starts`, have the
    shape (parents + 1,). `state` is the number of the state above the places; None for other places.
    """

    state: int | None
    parent: int
    starts: NDArray[np.int64]


class Reading:
    """The inputs of a scope, read in tasks, with the hashes of the answers and regions that were read.

    `contents` are the hashes of the information that the scope needs, by histogram for each part. The information is
    read unless it is in memory (`information`, by number of the part and histogram). Downwards, the parents' estimates
    are read with the families of their children, unless they are in memory (`above`, by histogram); upwards, the
    parents' measurements; without a direction, neither. `spreads` are the τ² of children that lean on their housing
    units, by number of the state, once they are estimated. `known` are the limits of the states read last, which can be
    passed to another reading of the same histograms. Upwards from the finest level, stored sums can replace the
    answers. With a `state`, answers and sums are read from the state's own tables, before all states are joined.
    """

    def __init__(
        self,
        session: Session,
        warehouse: Warehouse,
        release: TopDownRelease,
        scope: Scope,
        tree: Tree,
        draw_id: str,
        contents: Sequence[Mapping[str, str]] = (),
        direction: Literal["down", "up", ""] = "down",
        sums: SumsAccount | None = None,
        state: str = "",
    ) -> None:
        self._state = state
        self.scope, self.regions = scope, list[str]()
        self._warehouse, self._release, self._tree, self._draw_id = warehouse, release, tree, draw_id
        self._contents, self._direction, self.spreads = contents, direction, dict[int, float]()
        self.above: Mapping[str, Counts] = {}
        self.information: Mapping[int, Mapping[str, Information]] = {}
        self.known: StateLimits = {}
        self._leans = direction == "down" and release.design.leans(scope.histogram, scope.level)
        self.histograms = [scope.histogram] if scope.histogram else list(SCHEMAS)
        self._informed = release.design.full and scope.level != release.finest
        above = release.levels[max(release.levels.index(scope.level) - 1, 0)]
        streams = [
            stream
            for stream in read_streams(session, release)
            if stream.measured.level in (scope.level, above)
            and stream.measured.histogram in self.histograms
            and scope.state in ("", stream.state or "")
        ]
        own = [stream for stream in streams if stream.measured.level == scope.level]
        self._sums, self._summed = None if self._informed else sums, [] if self._informed or not sums else own
        self._streams = [] if self._informed or sums else own
        self._above = [stream for stream in streams if stream.measured.level == above] if direction == "up" else []
        self._starts = tree.starts(scope.level)
        first, last = min(stream.first for stream in own), max(stream.last for stream in own)
        self.places = last - first
        self.parents = int(np.searchsorted(self._starts, last) - np.searchsorted(self._starts, first))
        self._digests = Digests([*self._streams, *self._above])
        self._parts = self._list_parts(session)
        self._times = PLACES_WITH_UNITS if self.histograms == [UNITS.name] else 1
        self._of_a_task = self._choose_size()
        self._limits: Mapping[str, Limits] = {}
        self._read: dict[str, InformationDigest] = {}
        self._added: dict[str, SumsDigest] = {}

    @property
    def answers(self) -> dict[str, str]:
        """By label, the SHA-256 of the answers of each stream as they were read, or as they were added up."""
        summed = {stream.label: self._sums.answers[stream.label] for stream in self._summed} if self._sums else {}
        return summed | self._digests.by_label()

    @property
    def processes(self) -> int:
        """The number of the release's processes that have enough tasks."""
        return min(self._release.processes, self.parents, -(-self.places // self._of_a_task))

    def tasks(self) -> Iterator[Task]:
        for together in self._divide():
            with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
                require_draw(session, self._release, self._draw_id, self.scope, self._state)
                tasks = [task for batch in together for task in self._read_batch(session, *batch)]
            yield from tasks

    def _choose_size(self) -> int:
        """The number of places of a task. Histograms of persons take so long that every process gets several tasks."""
        if not self._direction:
            return PLACES_AT_A_TIME // 8
        most = self._times * PLACES_OF_A_TASK
        persons = self._direction == "down" and self._times == 1
        return min(most, -(-self.places // (8 * self._release.processes))) if persons else most

    def _divide(self) -> Iterator[list[tuple[int, int, int]]]:
        """The batches of one session: the number of a part, with its parents from the first up to the last."""
        together, places, most = list[tuple[int, int, int]](), 0, self._times * PLACES_AT_A_TIME
        for number, part in enumerate(self._parts):
            for first, last in divide_parents(part.starts, 0, len(part.starts) - 1, most):
                own = int(part.starts[last] - part.starts[first])
                if together and places + own > most:
                    yield together
                    together, places = [], 0
                together.append((number, first, last))
                places += own
        yield together

    def _read_batch(self, session: Session, number: int, first: int, last: int) -> Iterator[Task]:
        part = self._parts[number]
        if not first:
            self._limits = self._read_limits(session, part)
            self._read = {histogram: InformationDigest() for histogram in self.histograms}
            self._added = {histogram: SumsDigest() for histogram in self.histograms}
        families = self._read_families(session, number, first, last)
        above = {
            name: self._read_measurements(session, self._above, name, part.parent + first, part.parent + last)
            for name in families
        }
        sums = {name: self._read_sums(session, of_batch, part, first) for name, of_batch in families.items()}
        for begin, end in divide_parents(part.starts, first, last, self._of_a_task):
            own = {name: of_batch.between(begin - first, end - first) for name, of_batch in families.items()}
            parents = {
                name: tuple(replace(query, answers=query.answers[begin - first : end - first]) for query in queries)
                for name, queries in above.items()
            }
            of_task = {name: each.between(begin - first, end - first) for name, each in sums.items() if each}
            begins = part.parent + begin if self._direction == "up" else int(part.starts[begin])
            task = Task(begins, end - begin, own, parents, of_task)
            if self._leans and part.state is not None:
                units = self._limits[UNITS.name].totals[slice(*(part.starts[[begin, end]] - part.starts[0]))]
                task = replace(task, units=units, state=part.state, spread=self.spreads.get(part.state))
            yield task
        if self._informed and number not in self.information and last == len(part.starts) - 1:
            for name, digest in self._read.items():
                if digest.hexdigest() != self._contents[number][name]:
                    raise StaleInputError(
                        f"{self._release.schema}: the information about {self.scope} was altered; materialize "
                        f"{INFORMATION} first"
                    )

        if self._sums and last == len(part.starts) - 1:
            for name, added in self._added.items():
                first = int(part.starts[0])
                stream = next(iter(_choose(self._summed, name, first, first + 1).values()))
                if added.hexdigest() != self._sums.sums[stream.label]:
                    raise AlteredSumsError

    def _list_parts(self, session: Session) -> list[Part]:
        release, tree = self._release, self._tree
        depth, top = (release.levels.index(level) for level in (self.scope.level, level_of_states(release.levels)))
        if depth <= top:
            return [Part(None, 0, self._starts)]
        parts = []
        for number in _states(session, release, tree, self.scope):
            first, last = tree.ranges_below(release.levels[top], number)[depth - 1 - top]
            parts.append(Part(number, first, self._starts[first : last + 1]))
        return parts

    def _read_limits(self, session: Session, part: Part) -> Mapping[str, Limits]:
        """The limits of the places of a part, by histogram."""
        release, tree = self._release, self._tree
        depth, top = (release.levels.index(level) for level in (self.scope.level, level_of_states(release.levels)))
        if part.state is not None:
            limits = self._know_limits(session, part.state)
            return {name: levels[depth - top] for name, levels in limits.items()}
        upper = read_upper_region(session, release, tree)
        self.regions.append(upper.digest)
        numbers = _states(session, release, tree, self.scope)
        states = [take_highest(self._know_limits(session, number)) for number in numbers]
        return {name: levels[depth] for name, levels in derive_limits(release, upper, states).items()}

    def _know_limits(self, session: Session, state: int) -> Mapping[str, Sequence[Limits]]:
        if state not in self.known:
            region = read_state_region(session, self._release, self._tree, state)
            limits = self._derive_limits(session, region, state)
            places = [len(next(iter(own.values()))[-1].totals) for _, own in [*self.known.values(), ("", limits)]]
            if sum(places) > PLACES_KNOWN:
                self.known.clear()
            self.known[state] = region.digest, limits
        digest, limits = self.known[state]
        self.regions.append(digest)
        return limits

    def _derive_limits(self, session: Session, region: Region, number: int) -> Mapping[str, Sequence[Limits]]:
        """The limits of a state. If persons are estimated first, the limits of units follow from the persons in
        households."""
        release, households = self._release, None
        if self.scope.histogram == UNITS.name:
            first, last = self._tree.ranges_below(region.levels[0], number)[-1]
            state = region.state if release.is_by_state(release.finest) else ""
            table = Scope(release.finest, state, PERSONS.name).table(release)
            households = read_households(session, table, first, last)
        return derive_limits(release, region, None, households)

    def _read_families(self, session: Session, number: int, begin: int, end: int) -> dict[str, Families]:
        """By histogram, the families of the parents of a part from `begin` up to `end`, with the inputs of their
        estimation."""
        part = self._parts[number]
        release, level, above = self._release, self.scope.level, self.scope.above(self._release)
        first, last = (int(start) for start in part.starts[[begin, end]])
        origin = int(part.starts[0])
        parents = part.parent + begin, part.parent + end
        names: tuple[str, ...] = (level,)
        # Only the estimation can fail; its error names a parent.
        if above and self._direction == "down":
            codes = read_codes(session, release, above.level, *parents).to_pylist()
            names = tuple(f"{pluralize(level)} of {words(above.level)} {code}" for code in codes)
        families = {}
        for histogram in self.histograms:
            schema, histograms, information = release.design.schemas[histogram], None, None
            if above and self._direction == "down":
                counts = self.above.get(histogram)
                if counts is None:
                    counts = read_counts(session, above.table(release), schema.size, *parents, histogram=histogram)
                histograms = counts.answer(schema.marginal(DETAILED), *parents)
            if number in self.information:
                information = self.information[number][histogram].between(first - origin, last - origin)
            elif self._informed:
                table = information_table(release, level, part.state)
                information = read_information(session, table, schema, first, last, self._read[histogram])
            families[histogram] = Families(
                schema,
                names,
                part.starts[begin : end + 1] - first,
                self._read_measurements(session, self._streams, histogram, first, last),
                self._limits[histogram].between(first - origin, last - origin),
                level in release.design.total_first,
                histograms,
                information,
                histogram == PERSONS.name and release.design.is_types_first(level),
            )
        return families

    def _read_measurements(
        self, session: Session, streams: Sequence[Stream], histogram: str, first: int, last: int
    ) -> tuple[Measurement, ...]:
        """The measurements of the places from `first` up to `last`, which lie in one state if the streams do."""
        own = _choose(streams, histogram, first, last)
        if not own:
            return ()
        answers = read_answers(session, self._release, list(own), first, last, state=self._state)
        self._digests.add({stream: answers[query] for query, stream in own.items()})
        return tuple(Measurement(query.query, query.variance, answers[query]) for query in own)

    def _read_sums(self, session: Session, families: Families, part: Part, begin: int) -> MeasuredKinds | None:
        """The sums below the parents of `families` in a part, from the parent `begin`; None if answers are read
        instead."""
        histogram, first = families.schema.name, int(part.starts[begin])
        own = _choose(self._summed, histogram, first, first + 1)
        if not own:
            return None
        kinds = list_kinds(families.schema, families.starts, families.limits)
        digest = self._added[histogram]
        return read_sums(session, self._release, list(own), part.parent + begin, kinds, digest, self._state)


def _choose(streams: Sequence[Stream], histogram: str, first: int, last: int) -> dict[Measured, Stream]:
    """The streams of a histogram that contain all places from `first` up to `last`, by query."""
    return {
        stream.measured: stream
        for stream in streams
        if stream.measured.histogram == histogram and stream.first <= first and last <= stream.last
    }


class InformationDigest:
    """The SHA-256 of information about places in order, independent of the batch size."""

    def __init__(self) -> None:
        self._digests = [sha256() for _ in fields(Information)]

    def add(self, information: Information) -> None:
        for digest, (_, values) in zip(self._digests, flatten(information), strict=True):
            digest.update(values.astype(values.dtype.newbyteorder("<")).data)

    def hexdigest(self) -> str:
        return sha256(b"".join(digest.digest() for digest in self._digests)).hexdigest()


def flatten(information: Information) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """For each field of information, the number of values of each place and the values. Estimates and covariances are
    limited to the combinations that a place can have."""
    present = information.present
    places, combinations = present.shape
    own = present.sum(axis=1)
    yield np.full(places, combinations), present.ravel()
    yield own * information.estimate.shape[2], information.estimate[present].ravel()
    yield own**2 * information.variance.shape[1], information.variance[_both_present(information)]


def read_information(
    session: Session, table: Table, schema: Schema, first: int, last: int, digest: InformationDigest
) -> Information:
    """The stored information about the places from `first` up to `last`. Adds it to `digest`. Raises GridError unless
    each place is stored exactly once, with all its values."""
    values = {"histogram": schema.name, "first": first, "last": last}
    rows, split = session.arrow("topdown/information", values, table=table), Decomposition(schema)
    lists = [rows.column(field.name).combine_chunks() for field in fields(Information)]
    present = lists[0].flatten().to_numpy(zero_copy_only=False)
    if not np.array_equal(rows["number"], np.arange(first, last)) or len(present) != len(rows) * split.kept.size:
        raise GridError(f"{table}: not every place has its information once")
    information = Information(
        present.reshape(-1, split.kept.size),
        np.zeros((len(rows), split.kept.size, split.summed.size)),
        np.zeros((len(rows), len(split.divisors), split.kept.size, split.kept.size)),
    )
    stored = [each.flatten().to_numpy() for each in lists[1:]]
    if any(len(own) != counts.sum() for own, (counts, _) in zip(stored, [*flatten(information)][1:], strict=True)):
        raise GridError(f"{table}: not every place has its information once")
    information.estimate[information.present] = stored[0].reshape(-1, split.summed.size)
    information.variance[_both_present(information)] = stored[1]
    digest.add(information)
    return information


def _both_present(information: Information) -> NDArray[np.bool_]:
    """The mask of covariances between two combinations that the place can have."""
    present = information.present
    both = present[:, None, :, None] & present[:, None, None, :]
    return np.broadcast_to(both, information.variance.shape)


def information_table(release: TopDownRelease, level: str, state: int | None) -> Table:
    """The table of the information about the places of a level, or about those in the state with a number."""
    return release.public(release.estimates(level, "" if state is None else str(state), INFORMATION))


def read_households(session: Session, estimates: Table, first: int, last: int) -> NDArray[np.int64]:
    """The estimated persons in households of the places from `first` up to `last` of the finest level."""
    values = {"histogram": PERSONS.name, "cells": PERSONS.size // PERSONS.groups.size, "first": first, "last": last}
    rows = session.arrow("topdown/households", values, estimates=estimates)
    households = np.zeros(last - first, dtype=np.int64)
    households[rows["number"].to_numpy() - first] = rows["persons"].to_numpy()
    return households


def read_draw_id(session: Session, release: TreeRelease, state: str = "") -> str:
    """The draw recorded with the stored measurements: all of them, or those in a state's own table."""
    table = account_of(release.public(release.of_state(MEASUREMENTS, state))) if state else release.public(DRAWN)
    (draw_id,) = session.row("warehouse/labelled", table=table, column="draw_id")
    return str(draw_id)


def find_own(session: Session, release: TreeRelease, state: str, draw_id: str) -> str:
    """The state, if its measurements of the draw are in its own table; otherwise empty, for example if the release was
    not drawn in parts. A run of the state then reads only this table, whose reading time is independent of the number
    of states. The stage that joins the states compares the hashes of the answers read with those of all stored
    measurements."""
    table = account_of(release.public(release.of_state(MEASUREMENTS, state)))
    if not state or "draw_id" not in session.columns(table):
        return ""
    return state if read_draw_id(session, release, state) == draw_id else ""


def require_draw(session: Session, release: TopDownRelease, draw_id: str, scope: Scope, state: str = "") -> None:
    if read_draw_id(session, release, state) != draw_id:
        raise StaleInputError(f"{release.schema}: measurements were drawn anew while {scope} was estimated")


def read_regions(session: Session, release: TopDownRelease, tree: Tree, scope: Scope) -> Iterator[Region]:
    if not release.is_below_states(scope.level):
        yield read_upper_region(session, release, tree)
    for number in _states(session, release, tree, scope):
        yield read_state_region(session, release, tree, number)


def hash_facts(facts: Sequence[object]) -> str:
    return sha256(json.dumps(facts).encode()).hexdigest()


def _states(session: Session, release: TopDownRelease, tree: Tree, scope: Scope) -> Sequence[int]:
    if scope.state:
        return [read_states(session, release).index(scope.state)]
    return range(tree.places(level_of_states(release.levels)))
