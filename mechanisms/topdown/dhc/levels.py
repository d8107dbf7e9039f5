"""One level of the tree at a time: its measurements, and the histograms of all its places.

With full information, a place's answer to a query is combined with those of the places below: the answers of its
children add up to another, independent answer of the place, and the two are weighted by their precisions 1/σ². So the
precision of the combined answers of a place with its own precision p and children of precisions p_c is
p + 1/Σ(1/p_c). If queries had the same shares of ρ at all levels, the best fit of a family to the combined answers
would be the best linear fit to all answers at and below its places (Hay, Rastogi, Miklau and Suciu, 2010).

The answers of the places below are read where they add a twentieth of a place's precision. For queries with many
answers, only those of the children are read, because deeper places have more answers and each adds less.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.noise import DiscreteGaussian, NumberedNoise
from mechanisms.topdown.allocation import Allocation, compute_variances
from mechanisms.topdown.dhc.allocation import LEVELS, count_times
from mechanisms.topdown.dhc.answers import Asked, Lists, add_below, reach_lists
from mechanisms.topdown.dhc.estimation import Family, estimate
from mechanisms.topdown.dhc.householders import Householders
from mechanisms.topdown.dhc.households import HOUSEHOLDS, TENURE, UNITS
from mechanisms.topdown.dhc.passes import UNIT_PLAN, UNIT_PLAN_AFTER_HOUSEHOLDS, Plan, list_queries
from mechanisms.topdown.dhc.quarters import Quarters
from mechanisms.topdown.dhc.tree import Held, add_counts, climb
from mechanisms.topdown.least_squares import NotSolvedError
from mechanisms.topdown.rounding import NotRoundedError
from mechanisms.topdown.schema import Counts, Schema, add_up

_WORTH = 0.05
"""The least part of a place's own precision that answers of the places below must add to be read."""

COMPLETE_SIZE = 1000
"""Queries with up to this number of answers are read at all levels below, others only at the next; and they can be
drawn in full (`Level.complete`)."""

_AT_ONCE = 2**18
"""The most cells of all children whose answers are read together, unless a single family has more."""


@dataclass(frozen=True)
class Level:
    """The measurements of a level and their precision. An only child is not measured: its parent, which has the same
    counts, spends its ρ, and so on down the tree. If the parent's queries count more often in the charge than the
    child's, the parent spends less, so that the charge covers every path from the root.

    Attributes:
        variances: σ² of each query.
        runs: shape (places,): the number of only children below the place, one below the other; -1 for an only child.
        scales: by such a number, the multiple of the level's ρ that the place spends.
        complete: whether queries with few answers are read in full, also where the estimated counts are 0.
        first: the number of the first place in the level, if these are not all of its places.
    """

    name: str
    variances: Mapping[str, Fraction]
    runs: NDArray[np.int64]
    scales: tuple[Fraction, ...]
    complete: bool = False
    first: int = 0

    def take(self, first: int, last: int) -> "Level":
        """The places from `first` up to `last`, which are then counted from 0."""
        return replace(self, runs=self.runs[first:last], first=self.first + first)


def plan_levels(
    schema: Schema, allocation: Allocation, parents: Sequence[NDArray[np.int64]], complete: bool = False
) -> tuple[Level, ...]:
    """By level, from the root's. `parents` has, by level, the position of each place's parent in the level above, in
    ascending order; 0 for the root."""
    only = [np.zeros(1, dtype=np.bool_), *(np.bincount(above)[above] == 1 for above in parents[1:])]
    runs = [np.zeros(len(parents[-1]), dtype=np.int64)]
    for alone, above in zip(only[:0:-1], parents[:0:-1], strict=True):
        below = np.zeros(int(above[-1]) + 1, dtype=np.int64)
        below[above[alone]] = runs[0][alone] + 1
        runs.insert(0, below)
    levels, names = [], list(allocation.levels)
    for depth, name in enumerate(names):
        once = [allocation.of_level(below).rho for below in names[depth:]]
        charged = [_find_charge(schema, allocation, below) for below in names[depth:]]
        scales = tuple(
            min(sum(of_levels[: run + 1], Fraction()) / of_levels[0] for of_levels in (once, charged))
            for run in range(len(once))
        )
        own = np.where(only[depth], -1, runs[depth])
        levels.append(Level(name, compute_variances(allocation, name), own, scales, complete))
    return tuple(levels)


def _find_charge(schema: Schema, allocation: Allocation, level: str) -> Fraction:
    """ρ of a level for any change of one person's record."""
    queries = allocation.queries[level]
    return sum((allocation.part(level, query).rho * count_times(schema, query) for query in queries), Fraction())


class Answering(Protocol):
    """The answers of a level."""

    @property
    def schema(self) -> Schema: ...

    @property
    def level(self) -> Level: ...

    def answer(self, asked: Asked, /) -> NDArray[np.int64]:
        """The requested answers."""
        ...


ReadBeside = Callable[[int, int, NDArray[np.int64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""As `Reading.read`, for one query."""


@dataclass(frozen=True)
class Coarse:
    """The exact answers of some places of a level, ascending, to some queries, shape (places, answers)."""

    places: NDArray[np.int64]
    of_query: Mapping[str, NDArray[np.integer[Any]]]

    def answer(self, asked: Asked) -> NDArray[np.integer[Any]]:
        """The requested answers. Raises ValueError if a place has no answers here."""
        known = np.searchsorted(self.places, asked.places)
        if not np.array_equal(self.places[known[known < len(self.places)]], asked.places):
            raise ValueError(f"{asked.query}: a place is asked for whose exact answers are not there")
        return self.of_query[asked.query][np.repeat(known, np.diff(asked.ends)), asked.repeat_cells()]


Exact = Counts | Coarse
"""The exact counts of a level."""


def list_coarse(schema: Schema, levels: Iterable[Level]) -> list[str]:
    """The queries of some levels that the estimation of all levels above reads; the others are read only at the next
    level."""
    queries = dict.fromkeys(query for level in levels for query in level.variances)
    return [query for query in queries if schema.marginal(query).size <= COMPLETE_SIZE]


class Measuring:
    """The noisy answers of a level, made only where they are read. An answer is the same as in the complete draw, in
    which every measured place answers every query: it depends on the query, the place and the marginal cell."""

    def __init__(self, schema: Schema, level: Level, exact: Exact, key: bytes, purpose: str = "") -> None:
        self.schema, self.level, self._exact = schema, level, exact
        self._noise = [
            NumberedNoise(
                f"DHC {purpose}{schema.name} {level.name}",
                {query: DiscreteGaussian(variance / scale) for query, variance in level.variances.items()},
                key,
            )
            for scale in level.scales
        ]

    def read(self, query: str, first: int, last: int, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """The answers of the places from `first` up to `last`, shape (places, cells), for some cells of the query's
        marginal, ascending. Raises ValueError as `draw_noise`."""
        return self.answer(Asked.of_siblings(query, first, last, cells)).reshape(last - first, len(cells))

    def answer(self, asked: Asked) -> NDArray[np.int64]:
        """The requested answers. Raises ValueError as `draw_noise`."""
        answers = self.draw_noise(asked)
        if isinstance(self._exact, Coarse):
            answers += self._exact.answer(asked)
        else:
            asked.add_exact(self.schema.marginal(asked.query), self._exact, answers)
        return answers

    def draw_noise(self, asked: Asked) -> NDArray[np.int64]:
        """The noise of all requested answers. Raises ValueError if one of the places is not measured."""
        marginal, runs = self.schema.marginal(asked.query), self.level.runs[asked.places]
        self._require_measured(runs, asked.places)
        numbers, noise = asked.number(marginal.size, self.level.first), np.empty(asked.ends[-1], dtype=np.int64)
        for run in (several := np.unique(runs)).tolist():
            own = np.repeat(runs == run, np.diff(asked.ends)) if len(several) > 1 else slice(None)
            noise[own] = self._noise[run].at(asked.query, numbers[own])
        return noise

    def _require_measured(self, runs: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        if (runs < 0).any():
            place = self.level.first + int(places[runs.argmin()])
            raise ValueError(f"{self.level.name}: the place {place} is an only child, which is not measured")


class Reading:
    """The answers of a level as its estimation reads them: combined with those of the level `below` if there is one, in
    which places have the given `parents`."""

    def __init__(
        self, measuring: Answering, below: "Reading | None" = None, parents: NDArray[np.int64] | None = None
    ) -> None:
        self.measuring, self._below = measuring, below
        level = self.level = measuring.level
        scales = np.append([float(scale) for scale in level.scales], 0.0)
        self._own = defaultdict[str, NDArray[np.float64]](lambda: np.zeros(len(level.runs)))
        self._own |= {query: scales[level.runs] / float(variance) for query, variance in level.variances.items()}
        self._starts = np.zeros(1, np.int64) if parents is None else np.searchsorted(parents, range(parents[-1] + 2))
        self._precisions = dict[tuple[str, int], tuple[NDArray[np.float64], NDArray[np.bool_]]]()

    def precisions(self, query: str, depth: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The precisions of the combined answers to a query, shape (places,), if `depth` levels below are read, 0
        without answers; and for which places answers are combined."""
        # `lru_cache` on the method would make a cycle of references through the exact counts, which would then stay in
        # memory until Python's collector runs.
        if (query, depth) not in self._precisions:
            self._precisions[query, depth] = self._find_precisions(query, depth)
        return self._precisions[query, depth]

    def _find_precisions(self, query: str, depth: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        own = self._own[query]
        if self._below is None or not depth:
            return own, np.zeros(len(own), dtype=np.bool_)
        with np.errstate(divide="ignore"):
            added = 1 / np.add.reduceat(1 / self._below.precisions(query, depth - 1)[0], self._starts[:-1])
        worth = added > _WORTH * own
        return own + added * worth, worth

    def read(
        self, query: str, first: int, last: int, cells: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """As `Measuring.read`, with the precisions, shape (places,)."""
        answers = self.answer(Asked.of_siblings(query, first, last, cells))
        return answers.reshape(last - first, len(cells)), self.find_precisions(query)[first:last]

    def find_precisions(self, query: str) -> NDArray[np.float64]:
        """The precisions of the answers to a query, shape (places,)."""
        return self.precisions(query, find_depth(self.measuring.schema, query))[0]

    def answer(self, asked: Asked, depth: int | None = None) -> NDArray[np.float64]:
        """The requested answers; `depth` levels below are read."""
        if depth is None:
            depth = find_depth(self.measuring.schema, asked.query)
        precisions, combine = (each[asked.places] for each in self.precisions(asked.query, depth))
        own, sizes = self._own[asked.query][asked.places], np.diff(asked.ends)
        measured = own > 0
        answers = np.zeros(asked.ends[-1])
        if measured.all():
            answers[:] = self.measuring.answer(asked)
        elif measured.any():
            answers[np.repeat(measured, sizes)] = self.measuring.answer(asked.choose(measured))
        if self._below is not None and combine.any():
            share = np.repeat(own[combine] / precisions[combine], sizes[combine])
            of_combined = np.repeat(combine, sizes)
            below = self._add_below(self._below, asked.choose(combine), depth - 1)
            answers[of_combined] = answers[of_combined] * share + (1 - share) * below
        return answers

    def _add_below(self, below: "Reading", asked: Asked, depth: int) -> NDArray[np.float64]:
        """The sums of the answers of places' children."""
        first, last = self._starts[asked.places], self._starts[asked.places + 1]
        parents = np.repeat(np.arange(len(first)), last - first)
        children = Asked(asked.query, first, last, asked.lists, asked.of_family).choose(np.arange(len(parents)))
        sums, begun = np.zeros(asked.ends[-1]), 0
        for part in children.cut():
            own = parents[begun : begun + len(part.places)]
            add_below(part, own, below.answer(part, depth), sums, asked.ends)
            begun += len(own)
        return sums


def read_all(measured: Sequence[Answering], parents: Sequence[NDArray[np.int64]], full: bool = True) -> list[Reading]:
    """The answers of all levels, from the root's, as `estimate_level` reads them: with `full`, combined with those of
    the levels below."""
    readings = [Reading(measured[-1])]
    for own, below in zip(measured[-2::-1], parents[:0:-1], strict=True):
        readings.insert(0, Reading(own, readings[0], below) if full else Reading(own))
    return readings


def measure_tree(
    schema: Schema,
    allocation: Allocation,
    parents: Sequence[NDArray[np.int64]],
    finest: Counts,
    key: bytes,
    full: bool,
    purpose: str = "",
    complete: bool = False,
) -> list[Reading]:
    """The answers of all levels, as `read_all`, from the exact counts of the finest. Noise for another purpose has
    streams of its own."""
    levels = zip(plan_levels(schema, allocation, parents, complete), climb(finest, parents, add_counts), strict=True)
    return read_all([Measuring(schema, level, exact, key, purpose) for level, exact in levels], parents, full)


OfQuery = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
"""Marginal cells, ascending, answers, shape (children, cells), and precisions, shape (children,)."""

FamilyCells = tuple[int, int, int, NDArray[np.int64], NDArray[np.int64] | None]
"""A parent's number, the first of its children and the one after the last, its cells, and its counts."""


@dataclass(frozen=True)
class Answers:
    """All answers of siblings that their estimation reads, by query."""

    of_query: Mapping[str, OfQuery]

    def __call__(self, query: str, cells: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        known, answers, precisions = self.of_query[query]
        return (answers if len(cells) == len(known) else answers[:, np.searchsorted(known, cells)]), precisions


@dataclass(frozen=True)
class Task:
    """A family to estimate, with the number of its parent in the level above. It has everything that determines its
    estimate, and neither key nor exact counts."""

    parent: int
    family: Family

    @property
    def bytes(self) -> int:
        """The bytes of its answers, which are most of the task."""
        assert isinstance(self.family.read, Answers)
        return sum(answers.nbytes for _, answers, _ in self.family.read.of_query.values())


@dataclass(frozen=True)
class Estimated:
    """The estimated histograms of a level, and the certificate of its real-valued steps: the largest duality gap,
    relative to its objective (absolute below 1), and the largest violation of a constraint."""

    counts: Counts
    gap: float
    violation: float


Perform = Callable[[Callable[[Task], Estimated], Iterator[Task]], Iterable[Estimated]]
"""The results of all tasks, in order."""


def estimate_level(
    plan: Plan,
    reading: Reading | Answering,
    held: Held | NDArray[np.int64],
    parents: NDArray[np.int64],
    above: Counts | None,
    limiting: Quarters | Householders | None = None,
    perform: Perform = map,
    beside: Mapping[str, ReadBeside] | None = None,
) -> Estimated:
    """The histograms of all places of a level.

    Args:
        reading: one of `read_all`, or the level's own answers.
        held: shape (places, groups): the answers to the plan's held query.
        parents: shape (places,): the position of each place's parent, in ascending order; only 0 at the root.
        above: the histograms of the level above; None at the root.
        limiting: the limits of the level's counts by kind.
        perform: carries out the tasks, possibly in other processes; answers are read in this one.
        beside: by query that the plan names `beside`, the function that reads its answers.
    """
    reading = reading if isinstance(reading, Reading) else Reading(reading)

    def list_tasks() -> Iterator[Task]:
        families = list_families(plan, held, parents, above)
        for (parent, first, last, own, sums), answers in read_families(list_queries(plan), reading, families):
            for query, read in (beside or {}).items():
                if answers and own.size:
                    cells = plan.schema.marginal(query).reach(own)
                    answers[query] = cells, *read(first, last, cells)
            limits = None if limiting is None else limiting.take(first, last)
            yield Task(parent, Family(plan, own, sums, held[first:last], Answers(answers), first, last, limits))

    found = list(perform(estimate_task, list_tasks()))
    columns = ([getattr(each.counts, name) for each in found] for name in ("number", "cell", "count"))
    counts = Counts(*map(np.concatenate, columns))
    return Estimated(counts, max(each.gap for each in found), max(each.violation for each in found))


def estimate_task(task: Task) -> Estimated:
    """The histograms of a family."""
    family = task.family
    try:
        found = estimate(family)
    except (NotSolvedError, NotRoundedError) as error:
        where = f"{family.plan.schema.name} of the place {task.parent} of the level above"
        raise type(error)(f"{where}: {error}") from None
    child, position = np.nonzero(found.counts)
    counts = Counts(child + family.first, family.cells[position], found.counts[child, position])
    gaps = [solution.gap / max(solution.objective, 1.0) for solution in found.solutions]
    violations = [solution.violation for solution in found.solutions]
    return Estimated(counts, max(gaps, default=0.0), max(violations, default=0.0))


def estimate_tree(
    plan: Plan,
    readings: Sequence[Reading],
    held: Sequence[Held | NDArray[np.int64]],
    parents: Sequence[NDArray[np.int64]],
    limiting: Sequence[Quarters] | None = None,
) -> list[Estimated]:
    """By level, from the root's: the histograms of all places."""
    found = list[Estimated]()
    for depth, (reading, own, above) in enumerate(zip(readings, held, parents, strict=True)):
        limits = None if limiting is None else limiting[depth]
        found.append(estimate_level(plan, reading, own, above, found[-1].counts if found else None, limits))
    return found


def estimate_homes(
    plans: Mapping[str, Plan],
    units: Reading,
    households: Reading,
    occupancy: NDArray[np.int64],
    parents: NDArray[np.int64],
    above: tuple[Counts | None, Counts | None],
    householders: Householders | None = None,
    perform: Perform = map,
) -> tuple[Estimated, Estimated]:
    """Units and households of all places of a level. Households lie within the units by tenure; with `householders`,
    units within the households by tenure, which then have these limits.

    Args:
        plans: those of `PLANS`, or with `householders` of `PLANS_WITHIN_PERSONS`, perhaps with other passes.
        occupancy: shape (places, 26): occupied and vacant units, and facilities by type.
        above: units and households of the level above; None at the root.
    """
    above_units, above_households = above
    of_units, of_households = plans[UNITS.name], plans[HOUSEHOLDS.name]
    if householders is None:
        estimated = estimate_level(of_units, units, occupancy, parents, above_units, perform=perform)
        held = count_tenures(estimated.counts, len(parents))
        return estimated, estimate_level(of_households, households, held, parents, above_households, perform=perform)
    beside = {TENURE: read_tenures(units, occupancy, parents, above_units)}
    occupied = occupancy[:, :1]
    found = estimate_level(
        of_households, households, occupied, parents, above_households, householders, perform, beside
    )
    held = hold_units(found.counts, occupancy)
    return estimate_level(of_units, units, held, parents, above_units, perform=perform), found


def estimate_all_homes(
    plans: Mapping[str, Plan],
    units: Sequence[Reading],
    households: Sequence[Reading],
    occupancy: Sequence[NDArray[np.int64]],
    parents: Sequence[NDArray[np.int64]],
    householders: Sequence[Householders] | None = None,
) -> list[tuple[Estimated, Estimated]]:
    """By level, from the root's: as `estimate_homes`."""
    found = list[tuple[Estimated, Estimated]]()
    for depth, given in enumerate(zip(units, households, occupancy, parents, strict=True)):
        above = (found[-1][0].counts, found[-1][1].counts) if found else (None, None)
        found.append(estimate_homes(plans, *given, above, householders[depth] if householders else None))
    return found


def read_tenures(
    units: Reading, occupancy: NDArray[np.int64], parents: NDArray[np.int64], above: Counts | None
) -> ReadBeside:
    """The answers of units, read as in their own estimation, added up to tenures. One of the three tenures has two
    kinds, so variances are 1, 1 and 2 times the variance of an answer; their mean is used for each."""
    tenure = UNITS.marginal("tenure_3lev")
    answers, precisions = np.zeros((len(parents), tenure.size)), np.zeros(len(parents))
    families = list_families(UNIT_PLAN_AFTER_HOUSEHOLDS, occupancy, parents, above)
    for (_, first, last, own, _), of_family in read_families(list_queries(UNIT_PLAN), units, families):
        for cells, found, precisions[first:last] in of_family.values():
            known = np.isin(cells, own)
            answers[first:last] = add_up(found[:, known], tenure.find(cells[known]), tenure.size)

    def read(first: int, last: int, cells: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return answers[first:last, cells], precisions[first:last] * 3 / 4

    return read


def hold_units(households: Counts, occupancy: NDArray[np.int64]) -> NDArray[np.int64]:
    """The held counts of units after households: by place, occupied units by tenure and everything else, shape (places,
    28)."""
    tenures = households.answer(HOUSEHOLDS.marginal(TENURE), 0, len(occupancy))
    return np.concatenate([tenures, occupancy[:, 1:]], axis=1)


def count_tenures(units: Counts, places: int) -> NDArray[np.int64]:
    """The held counts of households: the occupied units of each place by tenure, shape (places, 3)."""
    return units.answer(UNITS.marginal("tenure_3lev"), 0, places)[:, :3]


def read_families(
    queries: Sequence[str], reading: Reading, families: Iterable[FamilyCells]
) -> Iterator[tuple[FamilyCells, dict[str, OfQuery]]]:
    """Each family with all answers that its estimation reads, by query. Answers are read for many families at a time,
    and never for only children."""
    waiting, weight, least = list[FamilyCells](), 0, COMPLETE_SIZE if reading.level.complete else 1
    for family in families:
        waiting.append(family)
        _, first, last, own, _ = family
        weight += (last - first) * max(len(own), least)
        if weight >= _AT_ONCE:
            yield from _read_families(queries, reading, waiting)
            waiting, weight = [], 0
    if waiting:
        yield from _read_families(queries, reading, waiting)


def _read_families(
    queries: Sequence[str], reading: Reading, families: Sequence[FamilyCells]
) -> Iterator[tuple[FamilyCells, dict[str, OfQuery]]]:
    answers = [dict[str, OfQuery]() for _ in families]
    schema, level = reading.measuring.schema, reading.level
    for query in queries:
        marginal, complete = schema.marginal(query), is_complete(schema, level, query)
        read = [
            number
            for number, (_, first, last, own, sums) in enumerate(families)
            if (sums is None or last - first > 1) and (complete or own.size)
        ]
        if not read:
            continue
        first, last = (np.array([families[number][each] for number in read]) for each in (1, 2))
        if complete:
            lists, of_family = Lists(np.array([0, marginal.size]), np.arange(marginal.size)), np.zeros_like(first)
        else:
            cells = [families[number][3] for number in read]
            starts = np.cumsum([0, *map(len, cells)])
            lists, of_family = reach_lists(marginal, Lists(starts, np.concatenate(cells))), np.arange(len(read))
        precisions, position = reading.find_precisions(query), iter(read)
        for asked in Asked(query, first, last, lists, of_family).cut():
            found = reading.answer(asked)
            for begin, end, of_cells, own in asked.list_families():
                of_query = of_cells, found[own].reshape(end - begin, -1), precisions[begin:end]
                answers[next(position)][query] = of_query
    return zip(families, answers, strict=True)


def is_complete(schema: Schema, level: Level, query: str) -> bool:
    """Whether all answers to a query are read, also where the estimated counts are 0."""
    return level.complete and schema.marginal(query).size <= COMPLETE_SIZE


def reach_cells(schema: Schema, level: Level, query: str, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """The marginal cells read for siblings whose parent has some cells, ascending."""
    marginal = schema.marginal(query)
    return np.arange(marginal.size) if is_complete(schema, level, query) else marginal.reach(own)


@dataclass(frozen=True)
class _Planned:
    """A level without answers, used only to find which ones are read."""

    schema: Schema
    level: Level

    def answer(self, asked: Asked) -> NDArray[np.int64]:
        raise NotImplementedError


def find_read(
    plan: Plan,
    levels: Sequence[Level],
    parents: Sequence[NDArray[np.int64]],
    peopled: NDArray[np.bool_],
    full: bool,
) -> list[dict[str, NDArray[np.bool_]]]:
    """By level, from the estimated one, and by query: the places whose answers its estimation reads.

    Args:
        parents: by level, the position of each place's parent in the level above.
        peopled: whether a place of the level above has any cells.
    """
    planned = [_Planned(plan.schema, level) for level in levels]
    readings, own = read_all(planned, parents, full), levels[0]
    read = [dict[str, NDArray[np.bool_]]() for _ in levels]
    for query in list_queries(plan):
        reached = (own.runs >= 0) & (peopled[parents[0]] | is_complete(plan.schema, own, query))
        deepest = find_depth(plan.schema, query)
        for depth, (reading, of_level) in enumerate(zip(readings, read, strict=True)):
            if depth:
                _, combined = readings[depth - 1].precisions(query, deepest - depth + 1)
                reached = (reached & combined)[parents[depth]]
            if not reached.any():
                break
            if query in reading.level.variances:
                of_level[query] = reached & (reading.level.runs >= 0)
    return read


def find_depth(schema: Schema, query: str) -> int:
    """The number of levels below that are read."""
    return len(LEVELS) if schema.marginal(query).size <= COMPLETE_SIZE else 1


def list_families(
    plan: Plan, held: Held | NDArray[np.int64], parents: NDArray[np.int64], above: Counts | None
) -> Iterator[FamilyCells]:
    if above is None:
        schema = plan.schema
        cells = np.flatnonzero(schema.possible)
        if not plan.every_cell:
            cells = cells[held[0:1][0, schema.marginal(plan.held).find(cells)] > 0]
        yield 0, 0, 1, cells, None
        return
    ends = np.searchsorted(parents, np.arange(parents[-1] + 2))
    rows = np.searchsorted(above.number, np.arange(len(ends)))
    for parent, (first, last) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        own = slice(int(rows[parent]), int(rows[parent + 1]))
        yield parent, first, last, above.cell[own], above.count[own]
