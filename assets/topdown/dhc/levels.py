"""The stages `level_…` of a DHC release: what is measured of a level, and the histograms estimated from it.

A level is measured after the level above it was estimated, because only cells that the parent has are read. Each stage
is a part of the draw: it needs the charge and the draw's key. The stage `noisy_measurements`, which follows, makes all
answers again, stores them and settles the draw. Everything is a function of the key, of the exact counts and of the
levels above, so that a new run continues at the level where a killed run stopped, with the same result.

Beside the estimates of a level is an account of how they were made (`Made`), sealed under the custody. It has the
digests of the answers as they were read. The gate `estimates_as_made` compares them with the settled measurements.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import takewhile
from operator import attrgetter
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.charge.drawing import make_output
from assets.conventions import StageKind, public_table_metadata, table_schema
from assets.release.draw import StaleInputError
from assets.release.method import CHARGE, DRAW, Method
from assets.release.seal import is_sealed, seal_stage
from assets.release.stage import COLUMN_SCHEMA, release_stage
from assets.topdown.dhc.given import read_facilities, read_persons, read_units
from assets.topdown.dhc.release import HISTOGRAMS, TEXTS, DHCRelease
from assets.topdown.histograms import read_counts, stage_level
from assets.topdown.measurements import Stopped, run_in_threads
from assets.topdown.spine import Tree, pluralize, read_tree, stage_ancestry
from mechanisms.topdown.design import words
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.householders import Householders, count_householders
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.levels import (
    Answering,
    Estimated,
    Level,
    Measuring,
    Reading,
    Task,
    count_tenures,
    estimate_homes,
    estimate_level,
    hold_units,
    list_reads,
    plan_levels,
    read_all,
)
from mechanisms.topdown.dhc.passes import Plan
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.quarters import Quarters, count_quarters
from mechanisms.topdown.dhc.tree import Held, add_answers
from mechanisms.topdown.schema import Counts, Schema
from resources.custody import Custody
from resources.ledger import Ledger
from resources.machine import count_cores
from resources.processes import in_processes
from resources.statements import Zone
from resources.warehouse import Session, Warehouse, open_part, store_parts

ESTIMATE_COLUMNS = {
    "histogram": "Histogram: persons, units or households",
    "number": "Number of the place within its level, as in the spine",
    "cell": "Number of the cell in the histogram",
    "count": "Estimated count; cells with count 0 are left out",
}

_ESTIMATES = pa.schema(
    [("histogram", pa.string()), ("number", pa.int64()), ("cell", pa.int64()), ("count", pa.int64())]
)


@dataclass(frozen=True)
class Made:
    """How the estimates of a level were made; stored next to them. The time that it took is left out, because the exact
    counts take a part of it.

    Attributes:
        above: the content of the estimates above; "" at the root.
        read: by histogram, the digest of the answers as they were read, as JSON.
        content: the keyed content hash of the table of estimates.
        gap: the largest duality gap of a real-valued solution, relative to its objective (absolute below 1).
        violation: the largest violation of a constraint by a real-valued solution; the integers violate none.
    """

    draw_id: str
    above: str
    read: str
    content: str
    places: int
    gap: float
    violation: float


@dataclass(frozen=True)
class Given:
    """What a histogram's estimation at a level starts from: the plan of its queries, what holds in its places, the
    positions of their parents in the level above, and these parents' histograms; None at the root."""

    plan: Plan
    level: Level
    held: Held | NDArray[np.int64]
    parents: NDArray[np.int64]
    above: Counts | None

    @property
    def histogram(self) -> str:
        return self.plan.schema.name

    def list_reads(self) -> Iterator[tuple[str, int, int, NDArray[np.int64]]]:
        return list_reads(self.plan, self.level, self.held, self.parents, self.above)


class ReadDigest:
    """The SHA-256 of all answers that the estimation of a histogram at a level reads, in the order in which they are
    read first; a second pass reads some of them again."""

    def __init__(self) -> None:
        self._digest, self._seen = sha256(), set[tuple[str, str, int, int]]()

    def add(self, of: tuple[str, str, int, int], cells: NDArray[np.int64], answers: NDArray[np.int64]) -> None:
        if of not in self._seen:
            self._seen.add(of)
            self._digest.update(f"{of} {len(cells)}".encode())
            for values in (cells, answers):
                self._digest.update(np.ascontiguousarray(values, dtype="<i8").data)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


@dataclass(frozen=True)
class _Digested:
    """The answers of a level, added to a digest as they are read."""

    answers: Answering
    digest: ReadDigest

    @property
    def schema(self) -> Schema:
        return self.answers.schema

    @property
    def level(self) -> Level:
        return self.answers.level

    def read(self, query: str, first: int, last: int, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        found = self.answers.read(query, first, last, cells)
        self.digest.add((self.level.name, query, first, last), cells, found)
        return found


@dataclass(frozen=True)
class Inputs:
    """All that the measurement and the estimation of one level read, in memory.

    Attributes:
        given: by histogram.
        parents: of this level's places and of those of all levels below.
        levels: by histogram, this level and all below.
        exact: the exact counts of these levels, if the session reads them.
        full: whether places are estimated from the answers at and below them.
        occupancy: occupied and vacant units, and facilities by type, shape (places, 26).
        quarters: the limits of persons.
        householders: those of households, if they lie within persons.
    """

    given: Mapping[str, Given]
    parents: Sequence[NDArray[np.int64]]
    levels: Mapping[str, Sequence[Level]]
    exact: Mapping[str, Sequence[Counts]]
    full: bool
    occupancy: NDArray[np.int64]
    quarters: Quarters | None
    householders: Householders | None

    def measure(self, histogram: str, key: bytes) -> list[Measuring]:
        """The answers of this level and of all below."""
        schema, counts = SCHEMAS[histogram], self.exact[histogram]
        return [Measuring(schema, *of, key) for of in zip(self.levels[histogram], counts, strict=True)]

    def digest(self, answers: Sequence[Answering], digest: ReadDigest) -> Reading:
        """The answers of this level and of those below, as the estimation reads them, added to a digest."""
        return read_all([_Digested(each, digest) for each in answers], self.parents, self.full)[0]

    def read_again(self, given: Given, answers: Sequence[Answering]) -> str:
        """Read what the estimation of a histogram read; return its digest."""
        digest = ReadDigest()
        reading = self.digest(answers, digest)
        for query, first, last, cells in given.list_reads():
            reading.read(query, first, last, cells)
        return digest.hexdigest()


def build_level(method: Method[Any, Any, Any], release: DHCRelease, depth: int) -> dg.AssetsDefinition:
    level, stage = release.levels[depth], release.level(release.levels[depth])
    above = release.levels[depth - 1] if depth else ""

    @release_stage(
        release,
        stage,
        StageKind.DRAW,
        TEXTS("level", level=words(level), above=words(above) if above else ""),
        [HISTOGRAMS, CHARGE, *([release.level(above)] if above else [])],
        kinds={"duckdb", "numba", "highs"},
    )
    def estimates(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        made = make_level(method, release, release.adapt(warehouse), custody, ledger, level)
        table = release.public(stage)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            metadata = public_table_metadata(session, table)
            schema = table_schema(session.columns(table), ESTIMATE_COLUMNS)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(made.content),
            metadata={
                **metadata,
                DRAW: made.draw_id,
                pluralize(level): made.places,
                "largest duality gap, relative": made.gap,
                "largest violation of a constraint before rounding": made.violation,
                COLUMN_SCHEMA: schema,
            },
        )

    return estimates


def make_level(
    method: Method[Any, Any, Any],
    release: DHCRelease,
    warehouse: Warehouse,
    custody: Custody,
    ledger: Ledger,
    level: str,
) -> Made:
    """Measure and estimate all places of a level, and store their histograms, unless current ones are stored already.

    Raises:
        UnchargedDrawError, CustodyError: as `assets.charge.drawing.open_charged_key`.
        StaleInputError: if the level above is not that of this draw, or the draw's inputs are replaced meanwhile.
        NotSolvedError, NotRoundedError: if a parent's children cannot be estimated; the message names the parent.
    """
    table, account = release.public(release.level(level)), release.public(f"{release.level(level)}_made")
    with warehouse.private_folder() as folder:
        with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            draw = method.describe(session, custody)
            above = _require_above(session, custody, release, level, draw.draw_id)
            stored = read_made(session, custody, release, level)
            if stored and (stored.draw_id, stored.above) == (draw.draw_id, above):
                return stored
            drawing = make_output(method, session, draw, custody, ledger)
            inputs = read_inputs(session, release, read_tree(session, release), level)
        found, read = _estimate(inputs, drawing.key)
        path = folder / "estimates.parquet"
        _write_estimates(path, found)
        with warehouse.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
            if method.describe(session, custody).draw_id != draw.draw_id:
                raise StaleInputError(
                    f"{release.schema}: an input of the draw was replaced while {level} was estimated; nothing was "
                    f"stored; materialize {CHARGE} again"
                )
            store_parts(session, table, [path])
            made = Made(
                draw_id=draw.draw_id,
                above=above,
                read=json.dumps(read),
                content=session.sorted_version(table, custody.seal_key()),
                places=len(inputs.parents[0]),
                gap=max(each.gap for each in found.values()),
                violation=max(each.violation for each in found.values()),
            )
            row = session.register("made", pa.Table.from_pylist([vars(made)]))
            session.create(account, "warehouse/all", source=row)
            seal_stage(session, custody, release.schema, table.name, [account])
            return made


def read_made(session: Session, custody: Custody, release: DHCRelease, level: str) -> Made | None:
    """How the stored estimates of a level were made; None if there are none, or they or their account were altered."""
    table, account = release.public(release.level(level)), release.public(f"{release.level(level)}_made")
    if not session.columns(table) or not is_sealed(session, custody, release.schema, table.name, [account]):
        return None
    (row,) = session.arrow("warehouse/all", source=account).to_pylist()
    made = Made(**{name: row[name] for name in Made.__annotations__})
    return made if session.sorted_version(table, custody.seal_key()) == made.content else None


def find_wrong_levels(
    session: Session, custody: Custody, release: DHCRelease, draw_id: str
) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The levels whose estimates were altered or not made by this draw from the estimates above; and by level and
    histogram, the digests of the answers as they were read."""
    wrong, read, above = [], dict[str, dict[str, str]](), ""
    for level in release.levels:
        made = read_made(session, custody, release, level)
        if made is None or (made.draw_id, made.above) != (draw_id, above):
            wrong.append(level)
        if made is None:
            break
        read[level] = json.loads(made.read)
        above = made.content
    return wrong, read


def _require_above(session: Session, custody: Custody, release: DHCRelease, level: str, draw_id: str) -> str:
    """The content of the estimates of the level above; "" at the root."""
    depth = release.levels.index(level)
    if not depth:
        return ""
    above = release.levels[depth - 1]
    made = read_made(session, custody, release, above)
    if made is None or made.draw_id != draw_id:
        raise StaleInputError(missing_estimates(release, above))
    return made.content


def missing_estimates(release: DHCRelease, level: str) -> str:
    return (
        f"{release.schema}: the estimates of {level} are missing, altered, or not of this draw; materialize "
        f"{release.level(level)} again"
    )


def require_estimated(session: Session, release: DHCRelease, level: str) -> None:
    """Raise StaleInputError if there are no estimates of a level."""
    if not session.columns(release.public(release.level(level))):
        stage = release.level(level)
        raise StaleInputError(f"{release.schema}: {level} is not estimated yet; materialize {stage} first")


def read_inputs(session: Session, release: DHCRelease, tree: Tree, level: str, *, listing: bool = False) -> Inputs:
    """What a level is measured and estimated from; for `listing` what it reads, without exact counts below the root and
    limits of group quarters. What holds of households is known once its units are estimated; it is 0 until then.
    `hold_homes` has it."""
    places, depth = tree.places(release.finest), release.levels.index(level)
    if depth:
        require_estimated(session, release, release.levels[depth - 1])
    parents = [np.zeros(1, dtype=np.int64), *tree.parents]
    exact, ancestry = dict[str, list[Counts]](), stage_ancestry(session, release)
    for histogram in SCHEMAS if Zone.CONFIDENTIAL in session.zones and not (listing and depth) else ():
        exact[histogram] = [
            read_counts(session, stage_level(session, release, histogram, below, ancestry))
            for below in release.levels[depth:]
        ]
    persons, units = read_persons(session, release), read_units(session, release, places)
    quarters, householders = None, None
    if not listing:
        quarters = count_quarters(persons, read_facilities(session, release, places))
    if release.design.householders_among_persons:
        householders = count_householders(persons, units[:, 0])
    for below in parents[:depth:-1]:
        persons, units = add_answers(persons, below), add_answers(units, below)
        quarters = quarters and quarters.add_up(below)
        householders = householders and householders.add_up(below)
    levels = {
        histogram: plan_levels(allocation, parents, release.design.complete)[depth:]
        for histogram, allocation in release.design.allocations.items()
    }
    above = dict[str, Counts | None](dict.fromkeys(SCHEMAS))
    if depth:
        table = release.public(release.level(release.levels[depth - 1]))
        above = {histogram: read_counts(session, table, histogram=histogram) for histogram in SCHEMAS}
    held: dict[str, Held | NDArray[np.int64]] = {
        PERSONS.name: persons,
        UNITS.name: units,
        HOUSEHOLDS.name: np.zeros((len(units), 3), np.int64),
    }
    given = {
        histogram: Given(
            release.design.plans[histogram],
            levels[histogram][0],
            held[histogram],
            parents[depth],
            above[histogram],
        )
        for histogram in SCHEMAS
    }
    return Inputs(given, parents[depth:], levels, exact, release.design.full, units, quarters, householders)


def hold_homes(inputs: Inputs, units: Counts, households: Counts) -> tuple[Given, Given]:
    """Units and households with what held of them when they were estimated."""
    of_units, of_households = inputs.given[UNITS.name], inputs.given[HOUSEHOLDS.name]
    if inputs.householders is None:
        return of_units, replace(of_households, held=count_tenures(units, len(of_units.parents)))
    held = hold_units(households, inputs.occupancy)
    return replace(of_units, held=held), replace(of_households, held=inputs.occupancy[:, :1])


def _estimate(inputs: Inputs, key: bytes) -> tuple[dict[str, Estimated], dict[str, str]]:
    """The estimated histograms, and by histogram the digest of the answers. Persons, and units with households after
    them, do not depend on each other: this process reads the answers of both at a time, and others, which have neither
    key nor exact counts, estimate families."""

    processes = count_cores() if inputs.parents[0][-1] else 1

    def work(histogram: str, stopped: Stopped) -> list[tuple[str, Estimated, str]]:
        def perform(work: Callable[[Task], Estimated], tasks: Iterator[Task]) -> Iterator[Estimated]:
            return in_processes(work, takewhile(lambda _: not stopped(), tasks), processes, attrgetter("bytes"))

        def read(given: Given) -> tuple[Reading, ReadDigest]:
            digest = ReadDigest()
            return inputs.digest(inputs.measure(given.histogram, key), digest), digest

        given = inputs.given[histogram]
        reading, digest = read(given)
        if histogram == PERSONS.name:
            found = estimate_level(
                given.plan, reading, given.held, given.parents, given.above, inputs.quarters, perform=perform
            )
            return [(histogram, found, digest.hexdigest())]
        households = inputs.given[HOUSEHOLDS.name]
        other, digest_of_other = read(households)
        above = given.above, households.above
        own, others = estimate_homes(
            reading, other, inputs.occupancy, given.parents, above, inputs.householders, perform=perform
        )
        return [
            (histogram, own, digest.hexdigest()),
            (HOUSEHOLDS.name, others, digest_of_other.hexdigest()),
        ]

    results = [each for part in run_in_threads(work, [PERSONS.name, UNITS.name], 0) for each in part]
    return {name: found for name, found, _ in results}, {name: digest for name, _, digest in results}


def _write_estimates(path: Path, found: Mapping[str, Estimated]) -> None:
    with open_part(path, _ESTIMATES) as writer:
        for histogram in SCHEMAS:
            writer.write_table(to_rows(histogram, found[histogram].counts))


def to_rows(histogram: str, counts: Counts) -> pa.Table:
    columns = {"number": counts.number, "cell": counts.cell, "count": counts.count}
    return pa.table({"histogram": pa.repeat(histogram, len(counts.cell)), **columns}, schema=_ESTIMATES)
