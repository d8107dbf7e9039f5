"""The stages `level_…` of a DHC release: the measurements of a level, and the histograms estimated from them.

A level is measured after the level above it is estimated, because only cells present in the parent are read. Each stage
is a part of the draw: it needs the charge and the draw's key. The subsequent stage `noisy_measurements` makes all
answers again, stores them and settles the draw. All results are functions of the key, the exact counts and the levels
above, so a new run continues at the level where a killed run stopped, with the same result.

Next to the estimates of a level is an account of how they were made (`Made`), sealed under the custody. It has digests
of the answers read, which the gate `estimates_as_made` compares with the settled measurements.

Memory holds a few families at a time (`Span`), or a single large one, with the counts of their places and of the places
one level below. Further below, only queries with few answers are read. Results are written to private files as they
arrive. In a release with partitions, each state has its own tables below State; the place numbers, and so the answers,
are the same.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import takewhile
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.charge.drawing import make_output
from assets.conventions import StageKind, public_table_metadata, round_figures, shorten_digest, table_schema
from assets.measurement.method import ExactCounts
from assets.release.account import read_account, store_account
from assets.release.draw import StaleInputError
from assets.release.method import CHARGE, DRAW
from assets.release.stage import COLUMN_SCHEMA, release_stage
from assets.stages import name_partition
from assets.topdown.dhc.given import read_given
from assets.topdown.dhc.release import HISTOGRAMS, TEXTS, DHCRelease
from assets.topdown.estimation import SECONDS_BETWEEN_REPORTS
from assets.topdown.histograms import add_up_finest, cut_places, read_counts
from assets.topdown.partitions import require_state, state_partitions
from assets.topdown.reading import Scope
from assets.topdown.spine import Tree, pluralize, read_states, read_tree
from mechanisms.topdown.design import level_of_states, words
from mechanisms.topdown.dhc.answers import Asked
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.householders import Householders, count_householders
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.levels import (
    COMPLETE_SIZE,
    Answering,
    Coarse,
    Estimated,
    Exact,
    Level,
    Measuring,
    Reading,
    Task,
    count_tenures,
    estimate_homes,
    estimate_level,
    find_read,
    hold_units,
    list_coarse,
    plan_levels,
    read_all,
)
from mechanisms.topdown.dhc.passes import Plan
from mechanisms.topdown.dhc.persons import PERSONS, QUARTERS
from mechanisms.topdown.dhc.quarters import GROUPS, Quarters, count_quarters
from mechanisms.topdown.dhc.tree import Held, add_answers, add_counts
from mechanisms.topdown.schema import Counts, Schema
from resources.custody import Custody
from resources.ledger import Ledger
from resources.parts import open_part, store_parts
from resources.processes import Stopped, in_processes, in_threads
from resources.statements import Fragment, Table, Zone
from resources.warehouse import UNITED, Session, Warehouse

ESTIMATE_COLUMNS = {
    "histogram": "Histogram: persons, units or households",
    "number": "Number of the place within its level, as in the spine",
    "cell": "Number of the cell in the histogram",
    "count": "Estimated count; cells with count 0 are left out",
}

Parts = TypeVar("Parts", Counts, Quarters, Householders)

Report = Callable[[str, int, int], None]
"""A callback that takes a histogram, the number of estimated families and the number of all families."""

_PLACES_AT_A_TIME = 8192
"""The number of finest places added up at a time to answers of the levels above."""

_ESTIMATES = pa.schema(
    [("histogram", pa.string()), ("number", pa.int64()), ("cell", pa.int64()), ("count", pa.int64())]
)


@dataclass(frozen=True)
class Made:
    """How the estimates of a level were made; stored next to them. The processing time is left out, because it depends
    on the exact counts.

    Attributes:
        above: the content of the estimates above; "" at the root.
        answers: the digests of the answers read, as JSON.
        content: the keyed content hash of the table of estimates.
        gap: the largest duality gap of a real-valued solution, relative to its objective (absolute below 1).
        violation: the largest violation of a constraint by a real-valued solution; the integers violate none.
    """

    draw_id: str
    above: str
    answers: str
    content: str
    places: int
    gap: float
    violation: float


@dataclass(frozen=True)
class Given:
    """The inputs of a histogram's estimation at a level: the plan of its queries, the fixed counts in its places, the
    positions of their parents in the level above, and the parents' histograms, None at the root."""

    plan: Plan
    level: Level
    held: Held | NDArray[np.int64]
    parents: NDArray[np.int64]
    above: Counts | None

    @property
    def histogram(self) -> str:
        return self.plan.schema.name


@dataclass(frozen=True)
class Span:
    """Families of a scope that are measured and estimated together: the children of the parents from `first` up to
    `last` in the level above. At the root, which has no parent, `first` and `last` are 0 and 1."""

    scope: Scope
    first: int
    last: int

    def cut(self, release: DHCRelease, tree: Tree) -> list[tuple[int, int]]:
        """By level from the scope's down, the first place in these families or below them, and the place after the
        last."""
        depth = release.levels.index(self.scope.level)
        places = np.searchsorted(tree.parents[depth - 1], [self.first, self.last]).tolist() if depth else (0, 1)
        return tree.extend_below(self.scope.level, *places)


class Digests:
    """By histogram, level and query, the SHA-256 of answers in order of place and cell, as 64-bit integers."""

    def __init__(self) -> None:
        self._digests = defaultdict[tuple[str, str, str], Any](sha256)

    def add(self, histogram: str, level: str, query: str, answers: NDArray[np.int64]) -> None:
        self._digests[histogram, level, query].update(np.ascontiguousarray(answers, dtype="<i8").data)

    def list_all(self) -> list[tuple[str, str, str, str]]:
        return [(*of, digest.hexdigest()) for of, digest in self._digests.items()]


def join_digests(digests: Iterable[Digests]) -> str:
    """As JSON."""
    return json.dumps(sorted(each for own in digests for each in own.list_all()))


@dataclass(frozen=True)
class _Digested:
    """The answers of a level, each added to a digest at its first reading. A second pass reads some answers again."""

    answers: Answering
    digests: Digests
    last: dict[str, int] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        return self.answers.schema

    @property
    def level(self) -> Level:
        return self.answers.level

    def answer(self, asked: Asked) -> NDArray[np.int64]:
        found, places = self.answers.answer(asked), asked.places
        if len(places) and places[0] > self.last.get(asked.query, -1):
            self.last[asked.query] = int(places[-1])
            self.digests.add(self.schema.name, self.level.name, asked.query, found)
        return found


@dataclass(frozen=True)
class Inputs:
    """All inputs of the measurement and estimation of a span, in memory. At each level, its places are numbered from 0.

    Attributes:
        given: the inputs of the estimation, by histogram.
        parents: the parents of the span's places and of the places at all lower levels read.
        levels: by histogram, the same levels.
        exact: the exact counts of these levels, if the session reads them.
        full: whether places are estimated from the answers at and below them.
        occupancy: occupied and vacant units, and facilities by type, shape (places, 26).
        quarters: the limits of persons.
        householders: the limits of households, if they lie within persons.
    """

    span: Span
    given: Mapping[str, Given]
    parents: Sequence[NDArray[np.int64]]
    levels: Mapping[str, Sequence[Level]]
    exact: Mapping[str, Sequence[Exact]]
    full: bool
    occupancy: NDArray[np.int64]
    quarters: Quarters | None
    householders: Householders | None

    def measure(self, histogram: str, key: bytes) -> list[Measuring]:
        """The answers of this level and all levels below."""
        schema, counts = SCHEMAS[histogram], self.exact[histogram]
        return [Measuring(schema, *of, key) for of in zip(self.levels[histogram], counts, strict=True)]

    def read(self, histogram: str, key: bytes, digests: Digests) -> Reading:
        """The answers read by the estimation. Adds them to `digests`."""
        answers = [_Digested(each, digests) for each in self.measure(histogram, key)]
        return read_all(answers, self.parents, self.full)[0]


def list_scopes(release: DHCRelease, states: Sequence[str]) -> list[Scope]:
    """The scopes of a release, in the order of estimation."""
    return [
        Scope(level, state)
        for level in release.levels
        for state in (states if release.is_by_state(level) else [""])
    ]  # fmt: skip


def build_level(method: ExactCounts[DHCRelease, Any], release: DHCRelease, depth: int) -> dg.AssetsDefinition:
    level, stage = release.levels[depth], release.estimates(release.levels[depth])
    above = release.levels[depth - 1] if depth else ""
    by_state = release.is_by_state(level)

    @release_stage(
        release,
        stage,
        StageKind.DRAW,
        TEXTS("level", level=words(level), above=words(above) if above else "", by_state=by_state),
        [HISTOGRAMS, CHARGE, *([release.estimates(above)] if depth else [])],
        kinds={"duckdb", "numba", "highs"},
        **(state_partitions(release).options if by_state else {}),
    )
    def estimates(
        context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.MaterializeResult:
        scope = Scope(level, name_partition(context) if by_state else "")

        def report(histogram: str, done: int, families: int) -> None:
            of = f"{families:,} {pluralize(above)}" if above else f"{families:,}"
            context.log.info(f"{words(level)}: {histogram}: {done:,} of {of}")

        made = make_level(method, release, release.adapt(warehouse), custody, ledger, scope, report)
        table = scope.table(release)
        if level == level_of_states(release.levels):
            with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
                state_partitions(release).keep_keys(context.instance, keep_states(session, release))
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            metadata = public_table_metadata(session, table)
            schema = table_schema(session.columns(table), ESTIMATE_COLUMNS)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(made.content),
            metadata={
                **metadata,
                DRAW: shorten_digest(made.draw_id),
                pluralize(level): made.places,
                "largest duality gap, relative": round_figures(made.gap),
                "largest violation of a constraint before rounding": round_figures(made.violation),
                COLUMN_SCHEMA: schema,
            },
        )

    return estimates


def make_level(
    method: ExactCounts[DHCRelease, Any],
    release: DHCRelease,
    warehouse: Warehouse,
    custody: Custody,
    ledger: Ledger,
    scope: Scope,
    report: Report,
) -> Made:
    """Measure and estimate all places of a scope, and store their histograms, unless current histograms are already
    stored. The reported numbers of families follow from the spine.

    Raises:
        PartitionError: if there is no such state.
        UnchargedDrawError, CustodyError: as `assets.charge.drawing.open_charged_key`.
        StaleInputError: if the level above was not made by this draw, or the draw's inputs are replaced meanwhile.
        NotSolvedError, NotRoundedError: if a parent's children cannot be estimated; the message names the parent.
    """
    table = scope.table(release)
    zones = [Zone.CONFIDENTIAL, Zone.PUBLIC]
    with warehouse.private_folder() as folder:
        with warehouse.session(reads=zones) as session:
            method.hold_charged(session)
            if scope.state:
                require_state(session, release, scope.state)
            draw = method.describe(session, custody)
            above = _require_above(session, custody, release, scope, draw.draw_id)
            stored = read_made(session, custody, release, scope)
            if stored and (stored.draw_id, stored.above) == (draw.draw_id, above):
                return stored
            ledger.confirm()
            drawing = make_output(method, session, draw, custody, ledger)
            tree = read_tree(session, release)
            spans = list_spans(session, release, tree, scope)
        planned = plan_histograms(release, tree)
        progress = _Progress(report, sum(span.last - span.first for span in spans))
        with closing(_Results(folder)) as results:
            for span in spans:
                with warehouse.session(reads=zones) as session:
                    inputs = read_inputs(session, release, tree, planned, span)
                results.add(inputs, _estimate(inputs, drawing.key, results.read, release.processes, progress))
                # Free the inputs before the next span is read or the results are stored.
                del inputs
        with warehouse.session(reads=zones) as session:
            # Another run may have counted anew since, by another declaration, before recording that.
            method.require_counted(session, draw, custody)
        with warehouse.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
            of_draw = method.describe(session, custody).draw_id == draw.draw_id
            if not of_draw or _require_above(session, custody, release, scope, draw.draw_id) != above:
                raise StaleInputError(
                    f"{release.schema}: an input of the draw was replaced while {scope} was estimated; nothing was "
                    f"stored; materialize {CHARGE} again"
                )
            store_parts(session, table, results.paths)
            made = Made(
                draw_id=draw.draw_id,
                above=above,
                answers=join_digests([results.read]),
                content=session.sorted_version(table, custody.seal_key()),
                places=results.places,
                gap=results.gap,
                violation=results.violation,
            )
            store_account(session, custody, table, made)
            return made


class _Progress:
    """Reports the number of estimated families of a scope, every few seconds and at the end."""

    def __init__(self, report: Report, families: int) -> None:
        self._report, self._families = report, families
        self._done, self._lock, self._reported = Counter[str](), Lock(), time.monotonic()

    def add(self, histogram: str) -> None:
        with self._lock:
            self._done[histogram] += 1
            done = self._done[histogram]
            if done == self._families or time.monotonic() - self._reported >= SECONDS_BETWEEN_REPORTS:
                self._report(histogram, done, self._families)
                self._reported = time.monotonic()


class _Results:
    """The estimates of spans, written to one file per histogram as they arrive, and the digests of the answers read."""

    def __init__(self, folder: Path) -> None:
        self.paths = [folder / f"{histogram}.arrow" for histogram in SCHEMAS]
        self._writers = [open_part(path, _ESTIMATES) for path in self.paths]
        self.read = Digests()
        self.places, self.gap, self.violation = 0, 0.0, 0.0

    def add(self, inputs: Inputs, found: Mapping[str, Estimated]) -> None:
        for (histogram, given), writer in zip(inputs.given.items(), self._writers, strict=True):
            own = found[histogram]
            writer.write_table(to_rows(histogram, own.counts.shift(given.level.first)))
            self.gap, self.violation = max(self.gap, own.gap), max(self.violation, own.violation)
        self.places += len(inputs.parents[0])

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def read_made(session: Session, custody: Custody, release: DHCRelease, scope: Scope) -> Made | None:
    """The account of the stored estimates of a scope; None if there are none, if they or their account were altered, or
    if another version of the code made them, whose account has different columns."""
    table = scope.table(release)
    made = read_account(session, custody, table, Made) if session.columns(table) else None
    return made if made and session.sorted_version(table, custody.seal_key()) == made.content else None


def find_wrong_levels(
    session: Session, custody: Custody, release: DHCRelease, draw_id: str
) -> tuple[list[Scope], dict[Scope, str]]:
    """The scopes whose estimates are missing, were altered, or were not made by this draw from the estimates above; and
    by scope, the digests of the answers that the estimation read. Scopes below one without an account are left out."""
    wrong, known = [], dict[Scope | None, Made]()
    for scope in list_scopes(release, read_partitions(session, release)):
        above = scope.above(release)
        if above and above not in known:
            continue
        made = read_made(session, custody, release, scope)
        due = known[above].content if above else ""
        if made is None or (made.draw_id, made.above) != (draw_id, due):
            wrong.append(scope)
        if made:
            known[scope] = made
    return wrong, {scope: made.answers for scope, made in known.items() if scope}


def read_partitions(session: Session, release: DHCRelease) -> list[str]:
    """The codes of the states if the release has partitions; otherwise empty."""
    return read_states(session, release) if release.partitioned else []


def keep_states(session: Session, release: DHCRelease) -> list[str]:
    """Drop the estimates of states that are not in the spine, and estimates in parts that the release no longer has;
    return the codes of the states as `read_partitions`."""
    states = read_partitions(session, release)
    due = {scope.table(release).name for scope in list_scopes(release, states)}
    of_levels = set(map(release.estimates, release.levels))
    for name in session.tables(Zone.PUBLIC, release.schema):
        own = name.removesuffix("_seal").removesuffix("_made")
        if own not in due and own.split("__")[0] in of_levels:
            session.drop(release.public(name))
    return states


def estimates_of(session: Session, release: DHCRelease, level: str) -> Table | Fragment:
    """The estimates of a level in all states. Raises StaleInputError if any are missing."""
    scopes = [scope for scope in list_scopes(release, read_partitions(session, release)) if scope.level == level]
    tables = [scope.table(release) for scope in scopes]
    for scope in scopes:
        require_estimated(session, release, scope)
    if len(tables) == 1:
        return tables[0]
    return session.stage(f"all_of_{level.lower()}", UNITED, tables=tables, columns=_ESTIMATES.names)


def _require_above(session: Session, custody: Custody, release: DHCRelease, scope: Scope, draw_id: str) -> str:
    """The content hash of the estimates above a scope; "" at the root."""
    above = scope.above(release)
    if above is None:
        return ""
    made = read_made(session, custody, release, above)
    if made is None or made.draw_id != draw_id:
        raise StaleInputError(missing_estimates(release, above))
    return made.content


def missing_estimates(release: DHCRelease, scope: Scope) -> str:
    return (
        f"{release.schema}: the estimates of {scope} are missing, altered, or not of this draw; materialize "
        f"{release.estimates(scope.level)} again"
    )


def require_estimated(session: Session, release: DHCRelease, scope: Scope) -> None:
    """Raise StaleInputError if there are no estimates of a scope."""
    if not session.columns(scope.table(release)):
        stage = release.estimates(scope.level)
        raise StaleInputError(f"{release.schema}: {scope} is not estimated yet; materialize {stage} first")


def list_spans(session: Session, release: DHCRelease, tree: Tree, scope: Scope, histogram: str = "") -> list[Span]:
    """The spans of a scope, from the estimates of the level above. The parents' counts of a span fit into memory
    together; with a histogram, so do the children's answers to one of its queries."""
    above = scope.above(release)
    if above is None:
        return [Span(scope, 0, 1)]
    first, last = 0, tree.places(above.level)
    if scope.state:
        state = read_states(session, release).index(scope.state)
        first, last = tree.range_within(above.level, level_of_states(release.levels), state)
    if histogram:
        children = np.diff(tree.starts(scope.level)[first : last + 1])
        least = COMPLETE_SIZE if release.design.complete else 1
        parents = cut_places(session, above.table(release), first, last, children, least, histogram=histogram)
    else:
        parents = cut_places(session, above.table(release), first, last)
    return [Span(scope, *places) for places in parents]


Planned = Mapping[str, Sequence[Level]]
"""The planned measurements by histogram and level, from the root."""


def plan_histograms(release: DHCRelease, tree: Tree) -> Planned:
    design, parents = release.design, list_parents(tree)
    return {
        histogram: plan_levels(SCHEMAS[histogram], allocation, parents, design.complete)
        for histogram, allocation in design.allocations.items()
    }


def read_inputs(
    session: Session, release: DHCRelease, tree: Tree, planned: Planned, span: Span, *, counted: bool = True
) -> Inputs:
    """The inputs of the measurement and estimation of a span, with the exact counts if `counted`. The fixed counts of
    households are 0 until their units are estimated; `hold_homes` then gives them."""
    design, depth = release.design, release.levels.index(span.scope.level)
    every, ranges = list_parents(tree), span.cut(release, tree)
    ranges = ranges if design.full else ranges[:1]
    firsts = [span.first, *(first for first, _ in ranges)]
    parents = [of[slice(*own)] - above for of, own, above in zip(every[depth:], ranges, firsts, strict=False)]
    levels = {
        histogram: [level.take(*own) for level, own in zip(of_levels[depth:], ranges, strict=False)]
        for histogram, of_levels in planned.items()
    }
    exact: dict[str, Sequence[Exact]] = {}
    if counted:
        exact = {name: _read_exact(session, release, tree, name, own, parents) for name, own in levels.items()}
    places = len(parents[0])
    persons, occupancy, quarters, householders = _read_held(session, release, tree, span)
    held: dict[str, Held | NDArray[np.int64]]
    held = {PERSONS.name: persons, UNITS.name: occupancy, HOUSEHOLDS.name: np.zeros((places, 3), np.int64)}
    given = {
        histogram: Given(
            design.plans[histogram],
            levels[histogram][0],
            held[histogram],
            parents[0],
            read_above(session, release, span.scope, histogram, span.first, span.last),
        )
        for histogram in SCHEMAS
    }
    return Inputs(span, given, parents, levels, exact, design.full, occupancy, quarters, householders)


def read_above(
    session: Session, release: DHCRelease, scope: Scope, histogram: str, first: int, last: int
) -> Counts | None:
    """The estimates of the places from `first` up to `last` of the level above a scope, renumbered from 0; None at the
    root."""
    above = scope.above(release)
    if above is None:
        return None
    table, size = above.table(release), SCHEMAS[histogram].size
    return read_counts(session, table, size, first, last, histogram=histogram).shift(-first)


def list_parents(tree: Tree) -> list[NDArray[np.int64]]:
    return [np.zeros(1, dtype=np.int64), *tree.parents]


def read_exact(session: Session, release: DHCRelease, tree: Tree, histogram: str, level: Level) -> Counts:
    """The exact counts of some places of a level, renumbered from 0."""
    places = level.name, level.first, level.first + len(level.runs)
    return add_up_finest(session, tree, SCHEMAS[histogram], release.confidential(HISTOGRAMS), *places)


def _read_exact(
    session: Session,
    release: DHCRelease,
    tree: Tree,
    histogram: str,
    levels: Sequence[Level],
    parents: Sequence[NDArray[np.int64]],
) -> list[Exact]:
    """The exact counts of a span's places and of the places one level below; further below, the answers to queries with
    few answers. The finest places are by far the most numerous, so only those read have answers."""
    exact: list[Exact] = [read_exact(session, release, tree, histogram, level) for level in levels[:2]]
    if len(levels) < 3:
        return exact
    finest, schema, table = levels[-1], SCHEMAS[histogram], release.confidential(HISTOGRAMS)
    queries = list_coarse(schema, levels[2:])
    peopled = np.ones(parents[0][-1] + 1, dtype=np.bool_)
    *read_above, read = find_read(release.design.plans[histogram], levels, parents, peopled, full=True)
    known = np.flatnonzero(np.any([read[query] for query in queries if query in read], axis=0))
    own = {query: list[NDArray[np.int32]]() for query in queries}
    above = [
        {query: np.zeros((len(level.runs), schema.marginal(query).size), np.int32) for query in queries if query in of}
        for level, of in zip(levels[2:-1], read_above[2:], strict=True)
    ]
    for begin in range(0, len(finest.runs), _PLACES_AT_A_TIME):
        end = min(begin + _PLACES_AT_A_TIME, len(finest.runs))
        counts = read_counts(
            session, table, schema.size, finest.first + begin, finest.first + end, histogram=histogram
        ).shift(-finest.first)
        for query in queries:
            answers, first = counts.answer(schema.marginal(query), begin, end).astype(np.int32), begin
            own[query].append(answers[known[slice(*np.searchsorted(known, [begin, end]))] - begin])
            for of_level, of_places in zip(above[::-1], parents[:2:-1], strict=True):
                places = of_places[first : first + len(answers)]
                answers, first = add_answers(answers, places - places[0]), int(places[0])
                if query in of_level:
                    of_level[query][first : first + len(answers)] += answers
    exact += [Coarse(np.arange(len(level.runs)), each) for level, each in zip(levels[2:-1], above, strict=True)]
    return [*exact, Coarse(known, {query: np.concatenate(parts) for query, parts in own.items()})]


def _read_held(
    session: Session, release: DHCRelease, tree: Tree, span: Span
) -> tuple[Held, NDArray[np.int64], Quarters | None, Householders | None]:
    """The fixed persons and units of a span's places, and the limits of persons and of households."""
    ranges = span.cut(release, tree)
    first, last = ranges[0]
    persons, quarters, householders = list[Counts](), list[Quarters](), list[Householders]()
    units = np.zeros((last - first, 2 + len(QUARTERS)), dtype=np.int64)
    for own, of_persons, of_units in read_given(session, release, *ranges[-1]):
        above = tree.find_above(span.scope.level, *own) - first
        persons.append(add_counts(of_persons.counts, above))
        quarters.append(count_quarters(of_persons, of_units[:, 2:]).add_up(above))
        if release.design.householders_among_persons:
            householders.append(count_householders(of_persons, of_units[:, 0]).add_up(above))
        places, starts = np.unique(above, return_index=True)
        units[places] += np.add.reduceat(of_units, starts)
    every = np.arange(last - first)
    held = Held(add_counts(_join(persons), every), GROUPS)
    return held, units, _join(quarters).add_up(every), _join(householders) if householders else None


def _join(parts: Sequence[Parts]) -> Parts:
    """The columns of several parts, concatenated."""
    return type(parts[0])(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


def hold_homes(inputs: Inputs, units: Counts, households: Counts) -> tuple[Given, Given]:
    """The inputs of units and households with the fixed counts used in their estimation."""
    of_units, of_households = inputs.given[UNITS.name], inputs.given[HOUSEHOLDS.name]
    if inputs.householders is None:
        return of_units, replace(of_households, held=count_tenures(units, len(of_units.parents)))
    held = hold_units(households, inputs.occupancy)
    return replace(of_units, held=held), replace(of_households, held=inputs.occupancy[:, :1])


def _estimate(
    inputs: Inputs, key: bytes, digests: Digests, processes: int, progress: _Progress
) -> dict[str, Estimated]:
    """The estimated histograms. Adds the answers to `digests`. Persons are independent of units and households, which
    are estimated in turn. This process reads the answers of both in parallel; other processes, which have neither key
    nor exact counts, estimate families."""

    if not inputs.parents[0][-1]:
        processes = 1

    def work(histogram: str, stopped: Stopped) -> list[tuple[str, Estimated]]:
        def perform(work: Callable[[Task], Estimated], tasks: Iterator[Task]) -> Iterator[Estimated]:
            of = ""

            def name_parents() -> Iterator[Task]:
                nonlocal of
                for task in takewhile(lambda _: not stopped(), tasks):
                    of = task.family.plan.schema.name
                    yield replace(task, parent=task.parent + inputs.span.first)

            for found in in_processes(work, name_parents(), processes, attrgetter("bytes")):
                progress.add(of)
                yield found

        def read(of: str) -> Reading:
            return inputs.read(of, key, digests)

        given = inputs.given[histogram]
        if histogram == PERSONS.name:
            found = estimate_level(
                given.plan, read(histogram), given.held, given.parents, given.above, inputs.quarters, perform=perform
            )
            return [(histogram, found)]
        households = inputs.given[HOUSEHOLDS.name]
        own, others = estimate_homes(
            {name: each.plan for name, each in inputs.given.items()},
            read(histogram),
            read(HOUSEHOLDS.name),
            inputs.occupancy,
            given.parents,
            (given.above, households.above),
            inputs.householders,
            perform=perform,
        )
        return [(histogram, own), (HOUSEHOLDS.name, others)]

    with closing(in_threads(work, [PERSONS.name, UNITS.name], 2)) as parts:
        return dict(each for part in parts for each in part)


def to_rows(histogram: str, counts: Counts) -> pa.Table:
    columns = {"number": counts.number, "cell": counts.cell, "count": counts.count}
    return pa.table({"histogram": pa.repeat(histogram, len(counts.cell)), **columns}, schema=_ESTIMATES)
