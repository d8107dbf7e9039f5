"""The making of replicates of a DHC release; `assets.topdown.replicates` stores and checks them.

Each replicate keeps the counts of the redistricting release's replicate with the same number, as the DHC keeps the
counts of that release, so its deviations contain the errors of the redistricting data.
`mechanisms.topdown.dhc.replicates` has the mathematics.
"""

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import starmap

import numpy as np
from numpy.typing import NDArray

from assets.release.draw import StaleInputError
from assets.topdown.dhc.given import read_facilities, read_persons, read_units
from assets.topdown.dhc.products import read_estimates
from assets.topdown.dhc.release import ESTIMATES, FACILITIES, REDISTRICTING, DHCRelease
from assets.topdown.histograms import check_counts
from assets.topdown.reading import read_draw_id
from assets.topdown.release import REPLICATES, SPINE
from assets.topdown.replicates import (
    Basis,
    Replicate,
    Replication,
    TopDownReplication,
    is_current,
    read_accounts,
)
from assets.topdown.spine import read_tree
from mechanisms.topdown.dhc.design import SCHEMAS, DHCDesign
from mechanisms.topdown.dhc.households import UNITS
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.quarters import GROUPS
from mechanisms.topdown.dhc.replicates import estimate_homes, estimate_persons
from mechanisms.topdown.dhc.tree import Held, collect
from mechanisms.topdown.schema import Counts
from resources.custody import Custody
from resources.processes import in_processes
from resources.statements import Table
from resources.warehouse import Session

Numbers = NDArray[np.int64]

VERSION = 1
"""Increase it when the same estimates would give different replicates."""


@dataclass(frozen=True)
class Task:
    """A replicate to be made, with all its inputs, as in `estimate_persons` and `estimate_homes`."""

    replicate: int
    key: bytes = field(repr=False)
    design: DHCDesign
    parents: tuple[Numbers, ...]
    counts: Mapping[str, Counts]
    persons: Held
    occupancy: Numbers
    facilities: Numbers


def make_persons(task: Task) -> Replicate:
    """The persons of a replicate."""
    started, of = time.thread_time(), task
    counts = estimate_persons(of.design, of.parents, of.counts, of.persons, of.facilities, of.key)
    return of.replicate, counts, time.thread_time() - started


def make_homes(task: Task) -> Replicate:
    """The units and households of a replicate."""
    started, of = time.thread_time(), task
    counts = estimate_homes(of.design, of.parents, of.counts, of.persons, of.occupancy, of.facilities, of.key)
    return of.replicate, counts, time.thread_time() - started


def make_replicate(task: Task) -> Replicate:
    return _join(make_persons(task), make_homes(task))


def make_half(half: tuple[Callable[[Task], Replicate], Task]) -> Replicate:
    make, task = half
    return make(task)


def _join(persons: Replicate, homes: Replicate) -> Replicate:
    (replicate, of_persons, seconds), (_, of_homes, others) = persons, homes
    return replicate, {**of_persons, **of_homes}, seconds + others


class DHCReplication(Replication[DHCRelease]):
    schemas = SCHEMAS

    @property
    def declared(self) -> int:
        return self.release.declaration.replicates

    @property
    def before(self) -> TopDownReplication:
        return TopDownReplication(self.release.redistricting)

    def read_made_of(self, session: Session, custody: Custody) -> str:
        release = self.release
        tables = [release.public(name) for name in (SPINE, FACILITIES, REDISTRICTING, ESTIMATES)]
        content = session.content_version(tables, custody.seal_key())
        parts = [VERSION, release.design.as_record(), read_draw_id(session, release), content]
        return sha256(json.dumps([*parts, self.before.read_made_of(session, custody)]).encode()).hexdigest()

    def read_basis(self, session: Session, custody: Custody) -> Basis:
        release, made_of = self.release, self.read_made_of(session, custody)
        tree = read_tree(session, release)
        places = tree.places(release.finest)
        counts = {name: read_estimates(session, release, name, release.finest, 0, places) for name in SCHEMAS}
        parents = (np.zeros(1, dtype=np.int64), *tree.parents)
        persons, occupancy = read_persons(session, release, 0, places), read_units(session, release, places)[:, :2]
        before = release.redistricting
        held, occupied = self._read_before(session, before.public(before.estimates(before.finest)), places)
        columns = zip(vars(held.counts).values(), vars(persons.counts).values(), strict=True)
        if not np.array_equal(occupied, occupancy) or not all(starmap(np.array_equal, columns)):
            raise StaleInputError(
                f"{release.schema}: the estimates of {before.name} are not those that were published; its replicates "
                "would be of other counts"
            )
        facilities = read_facilities(session, release, places)
        template = Task(0, b"", release.design, parents, counts, persons, occupancy, facilities)
        return Basis(read_draw_id(session, release), made_of, template)

    def complete(self, session: Session, custody: Custody, task: Task) -> Task:
        before, number = self.before, task.replicate
        made_of = before.read_made_of(session, custody)
        accounts = {each.replicate: each for each in read_accounts(session, custody, before.release)}
        if number not in accounts or not is_current(session, before, made_of, accounts[number]):
            raise StaleInputError(
                f"{self.release.schema}: replicate {number} of {before.release.name} is missing, altered, or of other "
                f"estimates; materialize its stage {REPLICATES} first"
            )
        table = before.release.public(REPLICATES)
        persons, occupancy = self._read_before(session, table, len(task.occupancy), number)
        return replace(task, persons=persons, occupancy=occupancy)

    def perform(self, tasks: Iterator[Task], number: int) -> Generator[Replicate, None, None]:
        """Persons and homes are independent of each other, so two processes make a single replicate."""
        halves = ((make, task) for task in tasks for make in (make_persons, make_homes))
        with closing(in_processes(make_half, halves, min(self.release.processes, 2 * number))) as made:
            yield from starmap(_join, zip(made, made, strict=True))

    def _read_before(self, session: Session, counts: Table, places: int, replicate: int = 0) -> tuple[Held, Numbers]:
        """Persons by group and units by occupancy in the redistricting release, by finest place of the DHC."""
        before = self.before.release
        levels = {"level": self.release.finest, "level_before": before.finest}
        chosen: dict[str, int] = {"replicate": replicate} if replicate else {}
        found = dict[str, Held]()
        for histogram, cells in ((PERSONS.name, GROUPS), (UNITS.name, 2)):
            rows = session.arrow(
                "dhc/placed",
                {**levels, "histogram": histogram, **chosen},
                counts=counts,
                before=before.public(SPINE),
                spine=self.release.public(SPINE),
                chosen=list(chosen),
            )
            placed = check_counts(session, counts, cells, rows, histogram=histogram, **chosen)
            found[histogram] = Held(collect(**vars(placed)), cells)
        return found[PERSONS.name], found[UNITS.name][0:places]
