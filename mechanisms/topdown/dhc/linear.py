"""Linear estimates of coarse counts, with the standard deviation of each in closed form, from the measurements of the
DHC and of the redistricting data.

The queries with few answers (`list_complete`) are answered in full at every level. Production's persons have seven.
Households have five, which are fitted together with units, as both count occupied units by tenure. A `Model` has
parameters, the largest set of answers that are independent of each other, and every answer is a sum of them. As counts
add up over places, so do parameters, and the best linear unbiased estimates of all places follow from one pass up and
one down the tree, as in `mechanisms.topdown.information`: with the precisions K of a place's own answers, their
weighted sums b, and the sums C and s of the covariances and the estimates of its children,

    V = (I + C K)⁻¹ C,    z = (I + C K)⁻¹ (C b + s),

and for a child of a parent with the estimate x and the covariance W,

    x_child = z + V C⁻¹ (x − s),    W_child = V − V C⁻¹ (C − W) C⁻¹ V.

An only child is not measured and has the counts of its parent.

The redistricting data measured some of the same counts, with noise of their own. The linear fit of their measurements
in a place is another, independent estimate with a known covariance; a place missing from the redistricting data is a
union of their finest ones. `combine` weights both by their covariances. This is done for each place by itself, from the
two fits of all measurements, so no measurement counts twice. The difference of the two fits also improves counts that
only the redistricting data measured, such as persons by race, whose errors correlate with the errors of the counts that
both measured.

One least-squares problem of all answers to both would be closer, because a place would also learn from the differences
in other places. `benchmarks.dhc_one_problem` measures the gain: with the budgets of production, less than a tenth of
the standard error, and for most cells less than a hundredth.

Results determine published bytes, so the loops of `decomposition` multiply and invert matrices.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.allocation import Allocation
from mechanisms.topdown.decomposition import Decomposition, Information, invert, product
from mechanisms.topdown.dhc.allocation import HOUSEHOLD_ALLOCATION, PERSON_ALLOCATION
from mechanisms.topdown.dhc.design import DHCDesign
from mechanisms.topdown.dhc.households import HOUSEHOLDS, TENURE, UNITS
from mechanisms.topdown.dhc.levels import COMPLETE_SIZE, Level
from mechanisms.topdown.dhc.passes import HOUSEHOLD_PLAN, PERSON_PLAN, Plan, list_queries
from mechanisms.topdown.dhc.persons import PERSONS, REDISTRICTING
from mechanisms.topdown.dhc.tables import DHC_TABLES, ITERATIONS, Table
from mechanisms.topdown.estimation import Families
from mechanisms.topdown.information import (
    covary_sums,
    descend,
    finish_root,
    inform_finest,
    prepare_sums,
    sum_cells,
    unite,
)
from mechanisms.topdown.schema import DETAILED, OCCUPIED, Counts, Schema
from mechanisms.topdown.schema import PERSONS as PERSONS_BEFORE
from mechanisms.topdown.schema import UNITS as UNITS_BEFORE

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

_HOUSING = 11
"""The codes of `tenvacgq` below this are housing units, whose number is known."""

_OCCUPIED = 4
"""The codes of `tenvacgq` below this are occupied units."""

_PARENTS_AT_A_TIME = 64

_NOTHING = 1e-6
"""The bound on rounding errors in a number that is 0, where others are at least a quarter."""


@dataclass(frozen=True)
class Answered:
    """A query whose answers for the first `size` marginal cells are rows of a model."""

    schema: Schema
    query: str
    size: int


@dataclass(frozen=True, eq=False)
class Model:
    """The structure of answers and sums of cells.

    Attributes:
        answered: the queries, in order of the rows.
        known: 1 if the number of all records is known exactly in every place, and is the first parameter; else 0.
        atoms: shape (rows, atoms): which atoms each answer counts. Cells of an atom are counted by the same answers.
        of_cell: by histogram, a possible cell's number and its atom, ascending by atom.
    """

    answered: tuple[Answered, ...]
    known: int
    atoms: Floats
    of_cell: Mapping[str, tuple[Numbers, Numbers]]

    @cached_property
    def _basis(self) -> tuple[list[int], Floats, Floats, Floats]:
        """The rows that are parameters; by parameter, its row less a sum of the rows before, which is 0 at their
        pivots, as a row and as a sum of parameters; and all rows as sums of parameters."""
        rows = np.concatenate([np.ones((self.known, self.atoms.shape[1])), self.atoms])
        pivots, reduced, combined, all_sums = list[int](), list[Floats](), list[Floats](), list[Floats]()
        for row in rows:
            rest, own = row.copy(), np.zeros(len(rows))
            for pivot, vector, combination in zip(pivots, reduced, combined, strict=True):
                if factor := rest[pivot] / vector[pivot]:
                    rest -= factor * vector
                    own += factor * combination
            pivot = int(np.abs(rest).argmax())
            if abs(rest[pivot]) > _NOTHING:
                unit = np.zeros(len(rows))
                unit[len(pivots)] = 1.0
                pivots.append(pivot)
                reduced.append(rest)
                combined.append(unit - own)
                own = unit
            all_sums.append(own)
        size = len(pivots)
        return pivots, np.array(reduced), np.array(combined)[:, :size], np.array(all_sums)[:, :size]

    @property
    def parameters(self) -> int:
        """The number of unknown parameters."""
        return len(self._basis[0]) - self.known

    @cached_property
    def answers(self) -> tuple[Floats, Floats]:
        """Every answer as a sum of known numbers, shape (rows, known), and of parameters, shape (rows, parameters)."""
        sums = self._basis[3][self.known :]
        return sums[:, : self.known], np.ascontiguousarray(sums[:, self.known :])

    def express(self, counted: Floats) -> tuple[NDArray[np.bool_], Floats]:
        """Which sums of atoms, shape (sums, atoms), the answers determine; and these sums by known numbers and
        parameters."""
        pivots, reduced, combined, _ = self._basis
        rest, own = counted.astype(np.float64), np.zeros((len(counted), len(pivots)))
        for pivot, vector, combination in zip(pivots, reduced, combined, strict=True):
            factors = (rest[:, pivot] / vector[pivot])[:, None]
            rest -= factors * vector
            own += factors * combination
        found = np.abs(rest).max(axis=1, initial=0.0) < _NOTHING
        return found, own[found]

    def express_table(self, table: Table) -> tuple[Numbers, Floats]:
        """The positions of a table's cells that the answers determine, and these cells as in `express`."""
        cell, atom = self.of_cell[table.schema.name]
        counts = table.count(Counts(atom, cell, np.ones(len(cell), dtype=np.int64)), self.atoms.shape[1]).T
        sizes = np.bincount(atom, minlength=self.atoms.shape[1])
        whole = np.flatnonzero(((counts == 0) | (counts == sizes)).all(axis=1))
        found, sums = self.express((counts[whole] > 0).astype(np.float64))
        return whole[found], sums


def list_complete(plan: Plan, allocation: Allocation) -> tuple[str, ...]:
    """The queries of a histogram that have few answers and that every level asks."""
    return tuple(
        query
        for query in list_queries(plan)
        if plan.schema.marginal(query).size <= COMPLETE_SIZE
        and all(allocation.part(level, query).rho for level in allocation.levels)
    )


def find_models(design: DHCDesign) -> dict[str, Model]:
    """Persons, and units with households."""
    persons, households = (
        list_complete(design.plans[name], design.allocations[name]) for name in (PERSONS.name, HOUSEHOLDS.name)
    )
    return {PERSONS.name: model_persons(persons), UNITS.name: model_homes(households)}


@cache
def model_persons(queries: tuple[str, ...] = list_complete(PERSON_PLAN, PERSON_ALLOCATION)) -> Model:
    cell, atom, keys = find_atoms(PERSONS, queries)
    answered = tuple(Answered(PERSONS, query, PERSONS.marginal(query).size) for query in queries)
    rows = [keys[:, number] == code for number, each in enumerate(answered) for code in range(each.size)]
    return Model(answered, 0, np.array(rows, dtype=np.float64), {PERSONS.name: (cell, atom)})


@cache
def model_homes(queries: tuple[str, ...] = list_complete(HOUSEHOLD_PLAN, HOUSEHOLD_ALLOCATION)) -> Model:
    """Units and households. An occupied housing unit is a household; atoms are those of households by tenure, with no
    rent and rent separate, and after them the kinds of vacant units."""
    cell, atom, keys = find_atoms(HOUSEHOLDS, [*queries, TENURE])
    tenure = keys[:, -1]
    # Every atom of households that rent occurs twice.
    twice = np.flatnonzero(tenure == 2)
    household = np.concatenate([np.arange(len(keys)), twice])
    unit = np.concatenate([tenure, np.full(len(twice), 3), np.arange(_OCCUPIED, _HOUSING)])
    vacant = np.full(_HOUSING - _OCCUPIED, -1)
    answered = (
        Answered(UNITS, DETAILED, _HOUSING),
        *(Answered(HOUSEHOLDS, query, HOUSEHOLDS.marginal(query).size) for query in queries),
    )
    rows = [unit == code for code in range(_HOUSING)]
    for number, each in enumerate(answered[1:]):
        of_atom = np.concatenate([keys[household, number], vacant])
        rows += [of_atom == code for code in range(each.size)]
    again = np.isin(atom, twice)
    second = len(keys) + np.searchsorted(twice, atom[again])
    return Model(
        answered,
        1,
        np.array(rows, dtype=np.float64),
        {
            HOUSEHOLDS.name: (np.concatenate([cell, cell[again]]), np.concatenate([atom, second])),
            UNITS.name: (unit, np.arange(len(unit))),
        },
    )


@dataclass(frozen=True)
class Answers:
    """The answers of a level to all rows of a model.

    Attributes:
        levels: by histogram.
        parents: shape (places,): the position of each place's parent in the level above, ascending; 0 for the root.
        answers: shape (places, rows); 0 for an only child.
        known: shape (places, known).
    """

    levels: Mapping[str, Level]
    parents: Numbers
    answers: NDArray[np.int64]
    known: Numbers

    @property
    def runs(self) -> Numbers:
        """As in `Level`."""
        return next(iter(self.levels.values())).runs


@dataclass(frozen=True)
class _Pattern:
    """The common part of places of a level with the same budget and alike children: the covariance V of the estimates
    from measurements at and below them, None without any; and the inverse of C, None without children."""

    variance: Floats | None
    inverse: Floats | None


@dataclass(frozen=True)
class _Informed:
    """A level on the way up: the pattern of each place, and its estimate z, shape (places, parameters)."""

    patterns: Sequence[_Pattern]
    pattern: Numbers
    estimate: Floats


@dataclass(frozen=True)
class Linear:
    """For some places of a level: the linear estimates of sums, shape (places, sums), their covariances with the
    `shared` ones, shape (places, sums, shared), and their own variances, shape (places, sums)."""

    places: Numbers
    estimate: Floats
    variance: Floats
    covariance: Floats


def fit(model: Model, levels: Sequence[Answers], sums: Floats, shared: Floats) -> Iterator[tuple[int, Linear]]:
    """The linear estimates of all places from the answers of all levels, from the root's: by depth, some places at a
    time, each below its parent.

    `sums` and `shared` are sums of known numbers and parameters, as in `Model.express`. Other measurements may have
    another estimate of the `shared` ones, which are the last of the returned sums.
    """
    informed = _rise(model, levels)
    every = np.concatenate([sums, shared])
    known, wanted = every[:, : model.known], np.ascontiguousarray(every[:, model.known :])

    def describe(depth: int, places: Numbers, estimate: Floats, variance: Floats, covariance: Floats) -> Linear:
        offset = product(levels[depth].known[places].astype(np.float64), np.ascontiguousarray(known.T))
        return Linear(places, estimate + offset, np.broadcast_to(variance, estimate.shape), covariance)

    def visit(depth: int, place: int, x: Floats, w: Floats) -> Iterator[tuple[int, Linear]]:
        spread = product(wanted, w)
        covariance = product(spread, np.ascontiguousarray(wanted[len(sums) :].T))
        own = product(x[None], np.ascontiguousarray(wanted.T))
        yield depth, describe(depth, np.array([place]), own, (spread * wanted).sum(axis=1), covariance[None])
        if depth + 1 == len(levels):
            return
        first, last = np.searchsorted(levels[depth + 1].parents, [place, place + 1]).tolist()
        if last - first == 1:
            yield from visit(depth + 1, first, x, w)
            return
        below = informed[depth + 1]
        inverse = informed[depth].patterns[informed[depth].pattern[place]].inverse
        assert inverse is not None
        lacking = inverse - product(product(inverse, w), inverse)
        shift = product((x - below.estimate[first:last].sum(axis=0))[None], inverse)
        for number in np.unique(below.pattern[first:last]).tolist():
            own_variance = below.patterns[number].variance
            assert own_variance is not None
            children = first + np.flatnonzero(below.pattern[first:last] == number)
            estimates = below.estimate[children] + product(shift, own_variance)
            if depth + 2 < len(levels):
                change = product(product(own_variance, lacking), own_variance)
                of_child = own_variance - 0.5 * (change + change.T)
                for child, estimate in zip(children.tolist(), estimates, strict=True):
                    yield from visit(depth + 1, child, estimate, of_child)
                continue
            spread = product(wanted, own_variance)
            changed = product(spread, lacking)
            squares = (spread * wanted).sum(axis=1) - (changed * spread).sum(axis=1)
            apart = np.ascontiguousarray(wanted[len(sums) :].T)
            across = product(spread, apart) - product(changed, np.ascontiguousarray(spread[len(sums) :].T))
            found = product(estimates, np.ascontiguousarray(wanted.T))
            yield depth + 1, describe(depth + 1, children, found, squares, across[None])

    root = informed[0].patterns[informed[0].pattern[0]].variance
    assert root is not None
    yield from visit(0, 0, informed[0].estimate[0], root)


def _rise(model: Model, levels: Sequence[Answers]) -> list[_Informed]:
    """By level, from the root's."""
    of_known, of_parameters = model.answers
    informed: list[_Informed] = []
    for depth in reversed(range(len(levels))):
        own = levels[depth]
        answers = own.answers - product(own.known.astype(np.float64), np.ascontiguousarray(of_known.T))
        precisions, sums = dict[int, Floats](), np.zeros((len(answers), model.parameters))
        for run in np.unique(own.runs).tolist():
            weighted = of_parameters * _find_precisions(model, own, run)[:, None]
            precisions[run] = product(np.ascontiguousarray(of_parameters.T), weighted)
            sums[own.runs == run] = product(answers[own.runs == run], weighted)
        parents = levels[depth + 1].parents if informed else None
        informed.insert(0, _inform(precisions, own.runs, sums, parents, informed[0] if informed else None))
    return informed


def _find_precisions(model: Model, answers: Answers, run: int) -> Floats:
    """1/σ² of each row in places with `run` only children below, shape (rows,); 0 in an only child."""
    precisions = []
    for each in model.answered:
        level = answers.levels[each.schema.name]
        scale = float(level.scales[run] / level.variances[each.query]) if run >= 0 else 0.0
        precisions.append(np.full(each.size, scale))
    return np.concatenate(precisions)


def _inform(
    precisions: Mapping[int, Floats], runs: Numbers, sums: Floats, parents: Numbers | None, below: _Informed | None
) -> _Informed:
    """A level, from its own answers as precisions K by run and sums b by place, and from the level `below`, whose
    places have the given `parents`."""
    places, size = sums.shape
    keys: list[tuple[int, tuple[tuple[int, int], ...]]] = []
    ends = np.zeros(places + 1, np.int64) if parents is None else np.searchsorted(parents, np.arange(places + 1))
    for place, run in enumerate(runs.tolist()):
        alike: tuple[tuple[int, int], ...] = ()
        if below is not None:
            own, times = np.unique(below.pattern[ends[place] : ends[place + 1]], return_counts=True)
            if all(below.patterns[number].variance is not None for number in own.tolist()):
                alike = tuple(zip(own.tolist(), times.tolist(), strict=True))
        keys.append((run, alike))
    distinct = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    pattern = np.array([distinct[key] for key in keys], dtype=np.int64)
    patterns, estimate = list[_Pattern](), np.zeros((places, size))
    for (run, alike), number in distinct.items():
        own_places = np.flatnonzero(pattern == number)
        if below is None or not alike:
            variance = invert(precisions[run]) if run >= 0 else None
            patterns.append(_Pattern(variance, None))
            if variance is not None:
                estimate[own_places] = product(sums[own_places], variance)
            continue
        of_children = np.zeros((size, size))
        for kind, many in alike:
            of_child = below.patterns[kind].variance
            assert of_child is not None
            of_children += many * of_child
        solve = invert(np.eye(size) + product(of_children, precisions[run]))
        variance = product(solve, of_children)
        several = sum(many for _, many in alike) > 1
        patterns.append(_Pattern(0.5 * (variance + variance.T), invert(of_children) if several else None))
        added = np.array([below.estimate[ends[place] : ends[place + 1]].sum(axis=0) for place in own_places])
        right = product(sums[own_places], of_children) + added
        estimate[own_places] = product(right, np.ascontiguousarray(solve.T))
    return _Informed(patterns, pattern, estimate)


def find_atoms(schema: Schema, queries: Sequence[str]) -> tuple[Numbers, Numbers, Numbers]:
    """The possible cells in order of atom, the atom of each, and the marginal cells of each atom, shape (atoms,
    queries)."""
    cells, key = np.flatnonzero(schema.possible), np.zeros(1, dtype=np.int64)
    for query in queries:
        key = key * schema.marginal(query).size + schema.marginal(query).find(cells)
    _, first, atom = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(atom, kind="stable")
    examples = cells[first]
    keys = np.column_stack([schema.marginal(query).find(examples) for query in queries])
    return cells[order], atom[order].astype(np.int64), keys.astype(np.int64)


@dataclass(frozen=True)
class Told:
    """The results of other measurements about some places: independent estimates of the `shared` sums, and after them
    of others, shape (places, sums); their variances, of the same shape; and their covariances with the shared ones,
    shape (places, sums, shared)."""

    estimate: Floats
    variance: Floats
    covariance: Floats

    def take(self, places: Numbers) -> "Told":
        return Told(self.estimate[places], self.variance[places], self.covariance[places])

    @staticmethod
    def concatenate(parts: Sequence["Told"]) -> "Told":
        """The results about the places of all parts."""
        return Told(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


def combine(linear: Linear, told: Told) -> tuple[Floats, Floats]:
    """The estimates of sums and their variances, both of the shape (places, sums), from the linear estimates and from
    the results of other measurements about the same places. The sums of the linear estimates, the last of which are
    `shared`, are followed by the sums that only the other measurements have."""
    shared = told.covariance.shape[2]
    of_places = np.broadcast_to(linear.covariance, (*linear.estimate.shape, shared))
    found = np.concatenate([linear.estimate, told.estimate[:, shared:]], axis=1)
    variance = np.concatenate([linear.variance, told.variance[:, shared:]], axis=1)
    difference = told.estimate[:, :shared] - linear.estimate[:, -shared:]
    for place, own in enumerate(of_places):
        spread = own[-shared:] + told.covariance[place, :shared]
        # The error of a sum correlates with the negative difference if it is of the linear estimates, otherwise with
        # the difference.
        across = np.concatenate([own, -told.covariance[place, shared:]])
        weights = product(across, invert(spread))
        found[place] += product(weights, difference[place][:, None])[:, 0]
        variance[place] -= (weights * across).sum(axis=1)
    return found, variance


@dataclass(frozen=True)
class Shared:
    """Counts that the redistricting data measured.

    Attributes:
        sums: the sums that both releases measured, as in `Model.express`.
        counted: the cells of the redistricting data's histogram that these sums count, and after them the cells of sums
            that only the redistricting data measured; shape (counts, cells).
    """

    sums: Floats
    counted: NDArray[np.bool_]

    @property
    def others(self) -> NDArray[np.bool_]:
        return self.counted[len(self.sums) :]


def share(model: Model) -> Shared:
    """Persons by voting age and by whether they live in households, institutions or other group quarters, and Hispanic
    persons, as far as the model determines them, and in the tables, other counts by race; or occupied units."""
    if UNITS.name in model.of_cell:
        before = UNITS_BEFORE
        cell, atom = model.of_cell[UNITS.name]
        own, theirs = [cell < _OCCUPIED], [before.codes["occupancy"] == OCCUPIED]
    else:
        before = PERSONS_BEFORE
        cell, atom = model.of_cell[PERSONS.name]
        age, origin, home = (PERSONS.marginal(name).find(cell) for name in ("votingage", "hispanic", "relgq_4_groups"))
        codes = before.codes
        own, theirs = [origin == 1], [codes["hispanic"] == 1]
        for kind, adult in np.ndindex(3, 2):
            own.append((np.maximum(home - 1, 0) == kind) & (age == adult))
            theirs.append((codes["hhinstlevels"] == kind) & (codes["votingage"] == adult))
    sizes = np.bincount(atom, minlength=model.atoms.shape[1])
    counted = np.array([np.bincount(atom, each, len(sizes)) for each in own])
    whole = np.flatnonzero(((counted == 0) | (counted == sizes)).all(axis=1))
    found, sums = model.express((counted[whole] > 0).astype(np.float64))
    theirs = [theirs[number] for number in whole[found].tolist()]
    others = [] if UNITS.name in model.of_cell else _list_others(theirs)
    return Shared(sums, np.array([*theirs, *others]))


def express_before(table: Table) -> dict[int, NDArray[np.bool_]]:
    """By position, the cells of a table of persons that count whole cells of the redistricting data's histogram, with
    the cells that each counts."""
    query, found = PERSONS.marginal(REDISTRICTING), dict[int, NDArray[np.bool_]]()
    classes = {part.step: part for part in query.parts}
    for position, cell in enumerate(table.cells):
        counted, whole = np.ones(1, dtype=np.bool_), True
        for attribute in PERSONS.attributes:
            one = PERSONS.marginal(attribute.name).parts[0]
            members = np.isin(np.arange(attribute.size), cell.where.get(attribute.name, range(attribute.size)))
            part = classes.get(one.step)
            of_code = part.code(np.arange(attribute.size) * one.step) if part else np.zeros(attribute.size, np.int64)
            chosen = np.zeros(part.codes if part else 1, dtype=np.bool_)
            chosen[of_code[members]] = True
            whole = whole and bool((chosen[of_code] == members).all())
            counted = (counted[:, None] & chosen).ravel()
        if whole:
            found[position] = counted
    return found


def _list_others(shared: Sequence[NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    """The cells of tables of persons without iterations that the redistricting data measured, and that do not follow
    from the shared counts: each once, by the cells of the redistricting data's histogram that it counts."""
    follows, others = Model((), 0, np.array(shared, dtype=np.float64), {}), dict[bytes, NDArray[np.bool_]]()
    for name, table in DHC_TABLES.items():
        if table.schema.name == PERSONS.name and name[-1] not in ITERATIONS:
            for counted in express_before(table).values():
                if not (shared and follows.express(counted[None].astype(np.float64))[0].any()):
                    others.setdefault(counted.tobytes(), counted)
    return list(others.values())


def fit_redistricting(
    families: Sequence[Families], informed: Sequence[Information | None], counted: NDArray[np.bool_], shared: int
) -> Iterator[Told]:
    """By level, from the root's: the linear estimates of sums of cells from all measurements of the redistricting data;
    `counted` has the shape (sums, cells), and the first sums are `shared`.

    By level, `families` has all families, and `informed` the information about the level, None for the finest.
    """
    split = Decomposition(families[0].schema)
    sums, above = prepare_sums(split, counted), None
    for own, information in zip(families, informed, strict=True):
        parts, below = list[Told](), list[Information]()
        for begin in range(0, len(own.parents), _PARENTS_AT_A_TIME):
            end = min(begin + _PARENTS_AT_A_TIME, len(own.parents))
            some = own.between(begin, end)
            first, last = own.starts[[begin, end]].tolist()
            alone = inform_finest(some) if information is None else information.between(first, last)
            linear = finish_root(alone, some) if above is None else descend(above.between(begin, end), some, alone)
            parts.append(Told(*sum_cells(sums, linear), covary_sums(split, counted, counted[:shared], linear)))
            if information is not None:
                below.append(linear)
        yield Told.concatenate(parts)
        if below:
            above = Information.concatenate(below)


def fit_unions(
    families: Sequence[Families],
    informed: Sequence[Information | None],
    counted: NDArray[np.bool_],
    shared: int,
    unions: Sequence[Numbers],
) -> Told:
    """As `fit_redistricting`, for unions of the finest places."""
    split = Decomposition(families[0].schema)
    sums, above = prepare_sums(split, counted), [np.zeros(0, dtype=np.int64)] * (len(families) - 1)
    parts = list[Told]()
    for begin in range(0, len(unions), _PARENTS_AT_A_TIME):
        united = [unite(families, informed, [*above, own]) for own in unions[begin : begin + _PARENTS_AT_A_TIME]]
        linear = Information.concatenate(united)
        parts.append(Told(*sum_cells(sums, linear), covary_sums(split, counted, counted[:shared], linear)))
    return Told.concatenate(parts)
