"""Every family of every level can be estimated, and the estimates meet every constraint of the DHC.

Wrong programs that these tests catch: one that holds the redistricting data at the upper levels only; one that lets
persons live in types of group quarters without a facility; one that draws less noise because it reads less; one that
measures only children or forgets their budget; one that rounds or projects something else.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from mechanisms.topdown import least_squares
from mechanisms.topdown.allocation import Allocation, allocate
from mechanisms.topdown.dhc import estimation
from mechanisms.topdown.dhc.allocation import (
    HOUSEHOLD_ALLOCATION,
    LEVELS,
    PERSON_ALLOCATION,
    UNIT_ALLOCATION,
    count_times,
)
from mechanisms.topdown.dhc.estimation import Family, estimate
from mechanisms.topdown.dhc.householders import Householders, HouseholdersError, count_householders
from mechanisms.topdown.dhc.households import HOUSEHOLDS, OCCUPANCY, ORIGIN_AND_RACE, TENURE, UNITS
from mechanisms.topdown.dhc.levels import (
    Coarse,
    Estimated,
    Exact,
    Level,
    Measuring,
    Reading,
    Task,
    estimate_homes,
    estimate_level,
    list_coarse,
    plan_levels,
    read_all,
)
from mechanisms.topdown.dhc.passes import (
    HOUSEHOLD_PLAN_WITHIN_PERSONS,
    PERSON_PLAN,
    PLANS,
    PLANS_WITHIN_PERSONS,
    Plan,
    divide_queries,
    list_queries,
)
from mechanisms.topdown.dhc.persons import PERSONS, QUARTERS_TYPES, REDISTRICTING
from mechanisms.topdown.dhc.quarters import Quarters, QuartersError, count_quarters, fill_facilities, find_short
from mechanisms.topdown.dhc.tree import Held, add_answers, climb
from mechanisms.topdown.least_squares import Constraints, Query, solve, solve_apart
from mechanisms.topdown.projection import project, project_together
from mechanisms.topdown.schema import Counts
from mechanisms.topdown.sets import nearest_counts, satisfies_sets
from mechanisms.topdown.splitting import prepare
from resources.processes import in_processes
from tests.mechanisms.topdown.dhc.country import Country, Numbers, add_up, count, draw_country

KEY = bytes(range(32))
TYPES = PERSONS.marginal(QUARTERS_TYPES)
HOMES = (UNITS, HOUSEHOLDS)


def equal(one: Counts, other: Counts) -> bool:
    return all(np.array_equal(*pair) for pair in zip(vars(one).values(), vars(other).values(), strict=True))


def lower_levels(allocation: Allocation, levels: int) -> Allocation:
    """Production's budget of its last levels, made whole."""
    names = list(allocation.levels)[-levels:]
    kept = sum(allocation.levels[name] for name in names)
    return Allocation(
        allocation.loss,
        {name: allocation.levels[name] / kept for name in names},
        {name: allocation.queries[name] for name in names},
        allocation.involved,
    )


def require_constraints(country: Country, depth: int, found: Counts, above: Counts) -> None:
    places = len(country.parents[depth])
    assert np.array_equal(found.answer(PERSONS.marginal(REDISTRICTING), 0, places), country.redistricting[depth])
    assert equal(add_up(PERSONS, found, country.parents[depth]), above)
    assert PERSONS.possible[found.cell].all()
    assert (found.count > 0).all()
    facilities = country.sum_up(country.facilities)[depth]
    assert not found.answer(TYPES, 0, places)[:, 1:][facilities == 0].any()


@pytest.mark.deep
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_parents_are_divided_within_the_redistricting_data_and_the_facilities(seed: int) -> None:
    country = draw_country(seed, 3, 3, 3)
    above = country.redraw(np.random.default_rng(seed))[1]
    limits = count_quarters(country.redistricting[-1], country.facilities)
    quarters = climb(limits, country.parents, Quarters.add_up)
    levels = plan_levels(PERSONS, lower_levels(PERSON_ALLOCATION, 4), country.parents)
    for depth in (2, 3):
        measuring = Measuring(PERSONS, levels[depth], country.persons[depth], KEY)
        held, parents = country.redistricting[depth], country.parents[depth]
        found = estimate_level(PERSON_PLAN, measuring, held, parents, above, quarters[depth])
        require_constraints(country, depth, found.counts, above)
        assert found.gap <= estimation.GAP
        assert found.violation < 1e-7
        above = found.counts


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.prove)])
def test_families_are_the_same_wherever_they_are_estimated(processes: int) -> None:
    """Fails for: a process that gets the key or the exact counts, or reads answers itself; results in the order of
    their arrival; and redistricting data of other places, where only those that are not 0 are in memory."""
    country = draw_country(5, 1, 3, 4, quarters=1)
    above = country.redraw(np.random.default_rng(5))[2]
    limits = count_quarters(country.redistricting[-1], country.facilities)
    levels, parents = plan_levels(PERSONS, lower_levels(PERSON_ALLOCATION, 4), country.parents), country.parents[3]
    measuring, held = Measuring(PERSONS, levels[3], country.persons[3], KEY), country.redistricting[3]
    due = estimate_level(PERSON_PLAN, measuring, held, parents, above, limits)
    sent = list[bytes]()

    def send(work: Callable[[Task], Estimated], tasks: Iterator[Task]) -> Iterable[Estimated]:
        sent.extend(map(pickle.dumps, tasks))
        if processes == 1:
            return [work(pickle.loads(each)) for each in sent]
        return in_processes(work, map(pickle.loads, sent), processes, lambda task: 2**40 * (task.parent % 2))

    place, group = np.nonzero(held)
    sparse_held = Held(Counts(place, group, held[place, group]), held.shape[1])
    of_sparse = count_quarters(sparse_held, country.facilities)
    assert all(np.array_equal(each, getattr(limits, name)) for name, each in vars(of_sparse).items())
    found = estimate_level(PERSON_PLAN, measuring, sparse_held, parents, above, limits, send)
    assert equal(found.counts, due.counts)
    assert (found.gap, found.violation) == (due.gap, due.violation)
    assert len(sent) == len(np.unique(parents)) > 2
    assert not any(KEY in each for each in sent)
    assert max(map(len, sent)) < 2**17


def test_answers_in_some_places_are_those_of_all_places() -> None:
    """Fails for: noise and budgets by a place's number among those in memory; and small queries, of which only
    answers are in memory below the next level, that are left out or read of other places."""
    country = draw_country(4, 3, 2, 3)
    levels, exact = plan_levels(PERSONS, lower_levels(PERSON_ALLOCATION, 4), country.parents), country.persons
    measured = [Measuring(PERSONS, *of, KEY) for of in zip(levels, exact, strict=True)]
    whole = read_all(measured, country.parents)[1]
    ranges, parents, some = [(1, 3)], [np.zeros(2, dtype=np.int64)], list[Measuring]()
    for above in country.parents[2:]:
        first, last = np.searchsorted(above, ranges[-1]).tolist()
        parents.append(above[first:last] - ranges[-1][0])
        ranges.append((first, last))
    for level, counts, (first, last) in zip(levels[1:], exact[1:], ranges, strict=True):
        own, inside = level.take(first, last), (first <= counts.number) & (counts.number < last)
        known: Exact = Counts(*(each[inside] for each in vars(counts).values())).shift(-first)
        if level is levels[-1]:
            marginals = [PERSONS.marginal(query) for query in list_coarse(PERSONS, [own])]
            answers = {each.query: counts.answer(each, first, last).astype(np.int32) for each in marginals}
            known = Coarse(np.arange(last - first), answers)
        some.append(Measuring(PERSONS, own, known, KEY))
    reading = read_all(some, parents)[0]
    for query in levels[1].variances:
        cells = PERSONS.marginal(query).reach(exact[0].cell)
        for due, found in zip(whole.read(query, 1, 3, cells), reading.read(query, 0, 2, cells), strict=True):
            assert np.array_equal(due, found)


def test_without_the_limits_of_types_somebody_lives_where_there_is_no_facility() -> None:
    country = draw_country(5, 1, 2, 6, quarters=1)
    above = country.redraw(np.random.default_rng(5))[2]
    levels = plan_levels(PERSONS, lower_levels(PERSON_ALLOCATION, 4), country.parents)
    measuring = Measuring(PERSONS, levels[3], country.persons[3], KEY)
    found = estimate_level(PERSON_PLAN, measuring, country.redistricting[3], country.parents[3], above).counts
    assert found.answer(TYPES, 0, len(country.facilities))[:, 1:][country.facilities == 0].any()


def test_the_root_has_any_possible_cell_of_its_groups() -> None:
    country = draw_country(1, 2, persons=3, races=1, quarters=1)
    limits = count_quarters(country.redistricting[-1], country.facilities)
    quarters = climb(limits, country.parents, Quarters.add_up)
    levels = plan_levels(PERSONS, lower_levels(PERSON_ALLOCATION, 2), country.parents)
    measuring = Measuring(PERSONS, levels[0], country.persons[0], KEY)
    root = estimate_level(
        PERSON_PLAN, measuring, country.redistricting[0], country.parents[0], None, quarters[0]
    ).counts
    require_constraints(country, 0, root, root)


def list_reachable(blocks: list[tuple[int, int]], types: int) -> set[tuple[int, ...]]:
    """All counts by type of blocks, given as (persons, types with a facility)."""
    reachable = {(0,) * types}
    for persons, facilities in blocks:
        own = [
            counts
            for counts in product(range(persons + 1), repeat=types)
            if sum(counts) == persons and not any(n and not facilities >> t & 1 for t, n in enumerate(counts))
        ]
        reachable = {tuple(map(sum, zip(a, b, strict=True))) for a in reachable for b in own}
    return reachable


@given(blocks=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 7)), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_limits_of_types_are_exactly_what_the_blocks_can_add_up_to(blocks: list[tuple[int, int]]) -> None:
    """Juvenile facilities have three types: all counts that satisfy the limits are reachable, and no others."""
    group = 2 * (2_016 // 8)
    redistricting, facilities = np.zeros((len(blocks), 2_016), np.int64), np.zeros((len(blocks), 24), np.int64)
    for number, (persons, own) in enumerate(blocks):
        redistricting[number, group] = persons
        facilities[number, 6:9] = own >> np.arange(3) & 1
    one = count_quarters(redistricting, facilities).add_up(np.zeros(len(blocks), dtype=np.int64))
    limits = one.limit(0, 1, group, np.arange(7, 10))
    assert limits.sets is not None
    in_set = np.arange(8)[:, None] >> np.arange(3) & 1
    persons = sum(persons for persons, _ in blocks)
    within = {
        counts
        for counts in product(range(persons + 1), repeat=3)
        if sum(counts) == limits.totals[0]
        and np.all((limits.sets.least[0] <= in_set @ counts) & (in_set @ counts <= limits.sets.most[0]))
    }
    assert within == list_reachable(blocks, 3)
    assert (limits.lower[0] == [min(c[t] for c in within) for t in range(3)]).all()
    assert (limits.upper[0] == [max(c[t] for c in within) for t in range(3)]).all()


def test_limits_of_types_that_a_parent_has_are_those_of_the_others_empty() -> None:
    quarters = Quarters(*(np.array(each) for each in ([0, 0], [504, 504], [0b101, 0b010], [4, 3])))
    limits = quarters.limit(0, 1, 504, np.array([7, 8]))
    assert (limits.lower.tolist(), limits.upper.tolist(), limits.totals.tolist()) == ([[4, 3]], [[4, 3]], [7])


def test_persons_in_a_type_without_a_facility_are_refused() -> None:
    country = draw_country(2, 3, quarters=1)
    facilities = country.facilities * (np.arange(len(country.facilities)) > 0)[:, None]
    with pytest.raises(QuartersError, match="1 blocks have persons in a type of group quarters without a facility"):
        count_quarters(country.redistricting[-1], facilities)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_facilities_are_filled_and_nothing_else_changes(seed: int) -> None:
    country = draw_country(seed, 4, 4, quarters=1)
    drawn, blocks = country.redraw(np.random.default_rng(seed))[-1], len(country.facilities)
    filled = fill_facilities(drawn, country.facilities)
    assert np.array_equal(filled.answer(PERSONS.marginal(REDISTRICTING), 0, blocks), country.redistricting[-1])
    persons, before = (each.answer(TYPES, 0, blocks)[:, 1:] for each in (filled, drawn))
    assert PERSONS.possible[filled.cell].all()
    assert not persons[country.facilities == 0].any()
    short, was_short = ((each < country.facilities).any(axis=1) for each in (persons, before))
    assert np.array_equal(find_short(filled, country.facilities), np.flatnonzero(short))
    assert not (short & ~was_short).any()
    # Age, sex, origin and race stay as they are.
    others = PERSONS.marginal("sex * age * hispanic * cenrace")
    assert np.array_equal(filled.answer(others, 0, blocks), drawn.answer(others, 0, blocks))
    assert equal(*(_keep(each, ~was_short) for each in (filled, drawn)))


def _keep(counts: Counts, blocks: np.ndarray) -> Counts:
    kept = blocks[counts.number]
    return Counts(counts.number[kept], counts.cell[kept], counts.count[kept])


def test_answers_that_are_read_are_those_of_a_complete_draw() -> None:
    country = draw_country(3, 2, 2)
    level = plan_levels(PERSONS, lower_levels(PERSON_ALLOCATION, 3), country.parents)[1]
    measuring = Measuring(PERSONS, level, country.persons[1], KEY)
    query, places = "age_38_groups * sex", len(country.parents[1])
    marginal = PERSONS.marginal(query)
    if (level.runs < 0).any():
        pytest.fail("the seed gives no only child")
    complete = measuring.read(query, 0, places, np.arange(marginal.size))
    random = np.random.default_rng(0)
    for place in range(places):
        cells = np.sort(random.choice(marginal.size, 9, replace=False))
        assert np.array_equal(measuring.read(query, place, place + 1, cells), complete[place : place + 1, cells])
    noise = complete - country.persons[1].answer(marginal, 0, places)
    assert np.unique(noise).size > 3
    # Another query, level or key has other noise.
    for other in (
        Measuring(PERSONS, level, country.persons[1], bytes(32)),
        Measuring(PERSONS, plan_levels(PERSONS, PERSON_ALLOCATION, [country.parents[0]] * 7 + [country.parents[1]])[7],
                  country.persons[1], KEY),
    ):  # fmt: skip
        assert not np.array_equal(other.read(query, 0, places, np.arange(marginal.size)), complete)


def test_noise_differs_by_place_level_and_histogram_and_is_as_wide_as_planned() -> None:
    query, cells, nobody = "hispanic * sex * age_38_groups", np.arange(100), Counts(*[np.empty(0, dtype=np.int64)] * 3)
    level = Level("County", {query: Fraction(10**8)}, np.array([0, 0, 1]), (Fraction(1), Fraction(10**6)))
    others = [(PERSONS, replace(level, name="State")), (replace(PERSONS, name="people"), level)]
    one, *rest = (Measuring(*each, nobody, KEY).read(query, 0, 3, cells) for each in ((PERSONS, level), *others))
    for other in (one[1], rest[0][0], rest[1][0]):
        assert (one[0] == other).mean() < 0.1
    assert np.abs(one[2]).max() < 100 < one[:2].std() / 50


def leave_out(allocation: Allocation, query: str, *levels: str) -> Allocation:
    """The budget without a query at some levels, whose share goes to the query of all cells."""
    queries = {level: dict(shares) for level, shares in allocation.queries.items()}
    for level in levels:
        queries[level]["detailed"] += queries[level].pop(query)
    return replace(allocation, queries=queries)


TOP, SECOND, THIRD, BLOCK = LEVELS[-4:]


@pytest.mark.parametrize("without", [(), (TOP,), (SECOND, BLOCK), (TOP, SECOND, BLOCK)])
def test_answers_of_the_places_below_are_added_up_by_their_precisions(without: tuple[str, ...]) -> None:
    """Against the sums, level by level, some of which do not ask a query; and the noise has the stated precisions. The
    wrong program reads a level twice, or forgets how many children there are, or that only children are not
    measured."""
    parents = [np.array(each) for each in ([0], [0, 0, 0], [0, 0, 1, 2, 2, 2], np.repeat(np.arange(6), 2))]
    nobody = Counts(*[np.empty(0, dtype=np.int64)] * 3)
    allocation = leave_out(lower_levels(PERSON_ALLOCATION, 4), "age_38_groups * sex", *without)
    levels = plan_levels(PERSONS, allocation, parents)
    measured = [Measuring(PERSONS, level, nobody, KEY) for level in levels]
    readings = read_all(measured, parents)
    for query, reach in (("age_38_groups * sex", 3), ("detailed", 1)):
        cells = np.arange(min(500, PERSONS.marginal(query).size))

        def combine(
            depth: int, place: int, reach: int, query: str = query, cells: Numbers = cells
        ) -> tuple[Any, float]:
            run = levels[depth].runs[place]
            unasked = run < 0 or query not in levels[depth].variances
            own = 0.0 if unasked else float(levels[depth].scales[run] / levels[depth].variances[query])
            noisy = measured[depth].read(query, place, place + 1, cells)[0] if own else np.zeros(len(cells))
            if not reach or depth == 3:
                return noisy, own
            below = [combine(depth + 1, child, reach - 1) for child in np.flatnonzero(parents[depth + 1] == place)]
            added = 1 / sum(1 / each for _, each in below) if all(each for _, each in below) else 0.0
            if added <= own / 20:
                return noisy, own
            return (own * noisy + added * sum(each for each, _ in below)) / (own + added), own + added

        answers, precision = readings[0].read(query, 0, 1, cells)
        if not precision.any():
            assert without == (TOP, SECOND, BLOCK), "an only child has a part"
            assert not answers.any()
            continue
        expected, of_all = combine(0, 0, reach)
        assert np.allclose(answers, expected)
        assert precision == pytest.approx([of_all])
        assert 0.7 < answers.var() * precision < 1.4
        if query not in levels[0].variances:
            continue
        (noisy,), of_own = Reading(measured[0]).read(query, 0, 1, cells)
        assert np.array_equal(noisy, measured[0].read(query, 0, 1, cells)[0])
        assert of_own < precision or without


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_tables_and_sections_are_projected_as_all_groups_together(seed: int) -> None:
    random = np.random.default_rng(seed)
    children, groups = int(random.integers(2, 6)), 4
    starts = np.append(0, np.cumsum(random.integers(1, 7, groups)))
    counts = random.poisson(2, (children, int(starts[-1])))
    counts[0, counts.sum(axis=0) == 0] = 1
    held = np.add.reduceat(counts, starts[:-1], axis=1).astype(np.float64)
    v = counts + random.normal(0, 2, counts.shape)
    found = []
    for projection, sections in ((project, np.arange(groups + 1)), (project_together, np.array([0, groups]))):
        totals = np.full((children, len(sections) - 1), np.nan)
        x = np.empty(v.shape)
        multipliers = np.zeros(len(v[0])), np.zeros(totals.shape), np.zeros(held.shape)
        lacking = projection(
            v, counts.sum(axis=0).astype(np.float64), starts, sections, held, held, totals, *multipliers, x
        )
        assert lacking < 1e3
        found.append(x)
        nu, _, mu = multipliers
        of_cell = np.repeat(np.arange(groups), np.diff(starts))
        assert np.abs(x - np.maximum(0, v + nu + mu[:, of_cell]))[held[:, of_cell] > 0].max() < 1e-6
    assert np.abs(found[0] - found[1]).max() < 1e-8


def test_counts_by_type_that_break_a_limit_of_two_types_are_mended() -> None:
    """In each of two children, ten persons live in a block with the types 101 and 102, ten in one with 103 and 104; but
    all answers have one child's persons in the first two types. Others, who stay as they are, have other ages."""
    adults = (3 * 2) * 63
    redistricting, facilities = np.zeros((4, 2_016), np.int64), np.zeros((4, 24), np.int64)
    redistricting[:, adults], redistricting[:, 127] = 10, 500
    facilities[0::2, :2] = facilities[1::2, 2:4] = 1
    quarters = count_quarters(redistricting, facilities).add_up(np.array([0, 0, 1, 1]))
    cells = np.array(
        [((relgq * 2 * 116 + age) * 2) * 63 + (relgq == 6) for relgq in (6, *range(18, 22)) for age in (30, 50)]
    )
    parent = np.array([1_000, 1_000, *[5] * 8])
    measured = np.array([[0, 1_000, 9, 1, 9, 1, 0, 0, 0, 0], [1_000, 0, 0, 0, 0, 0, 1, 9, 1, 9]])

    def read(query: str, asked: Numbers) -> tuple[np.ndarray, np.ndarray]:
        return (measured @ (PERSONS.marginal(query).find(cells)[:, None] == asked)).astype(np.float64), np.ones(2)

    held = redistricting[0::2] + redistricting[1::2]
    counts = estimate(Family(PERSON_PLAN, cells, parent, held, read, 0, 2, quarters)).counts
    assert np.array_equal(counts.sum(axis=0), parent)
    in_quarters = counts[:, 2:].reshape(2, 4, 2)
    assert in_quarters[:, :2].sum(axis=(1, 2)).tolist() == in_quarters[:, 2:].sum(axis=(1, 2)).tolist() == [10, 10]
    assert in_quarters[0, :, 0].sum() > in_quarters[0, :, 1].sum()


def test_budgets_of_only_children_are_their_parents() -> None:
    """Two levels below each other have only children: no path spends more than is charged for a change of one record
    or of one person (production's shares of queries that tell householders who live alone apart differ by level), and
    only one place of a run is measured. Fails for a program that divides the whole ρ of an only child among its
    parent's queries, which count more often."""
    parents = [np.array(each) for each in ([0], [0, 0], [0, 1, 1], [0, 1, 2], [0, 0, 1, 2, 2])]
    allocation = lower_levels(PERSON_ALLOCATION, 5)
    levels = plan_levels(PERSONS, allocation, parents)
    expected = [[0], [2, 0], [-1, 2, 1], [-1, -1, -1], [0, 0, -1, 0, 0]]
    assert [level.runs.tolist() for level in levels] == expected
    rho = [allocation.of_level(name).rho for name in allocation.levels]
    charged = [
        sum(1 / variance * count_times(PERSONS, query) for query, variance in level.variances.items())
        for level in levels
    ]
    for block in range(5):
        place, path, of_person = block, Fraction(), Fraction()
        for depth in range(4, -1, -1):
            run = int(levels[depth].runs[place])
            if run >= 0:
                path += rho[depth] * levels[depth].scales[run]
                of_person += charged[depth] * levels[depth].scales[run]
            place = int(parents[depth][place])
        assert path == allocation.loss.rho or of_person == sum(charged)
        assert path <= allocation.loss.rho
        assert of_person <= sum(charged)
    assert levels[1].scales[2] == sum(rho[1:4]) / rho[1]
    assert levels[2].scales[2] == sum(charged[2:5]) / charged[2] < sum(rho[2:5]) / rho[2]
    one = Measuring(PERSONS, levels[1], count(PERSONS, np.arange(2), np.arange(2)), KEY)
    assert one.read("hispanic * sex", 0, 1, np.arange(4)).shape == (1, 4)
    two = Measuring(PERSONS, levels[2], count(PERSONS, np.arange(3), np.arange(3)), KEY)
    with pytest.raises(ValueError, match="only child"):
        two.read("hispanic * sex", 0, 1, np.arange(4))


def solve_densely(queries: list[Query], constraints: Constraints, found: list[np.ndarray]) -> tuple[float, list[float]]:
    """The least objective, by an interior-point method, and the largest violation of a constraint by each of some
    solutions."""
    children, cells = len(constraints.totals), int(constraints.starts[-1])
    rows, targets, weights = [], [], []
    for child in range(children):
        for query in queries:
            picked = sparse.coo_matrix(
                (np.ones(cells), (query.cells, child * cells + np.arange(cells))),
                (query.measured.shape[1], children * cells),
            )
            rows.append(picked)
            targets.append(query.measured[child])
            weights.append(np.full(query.measured.shape[1], np.broadcast_to(query.precision, children)[child]))
    matrix, target, weight = sparse.vstack(rows).tocsc(), np.concatenate(targets), np.concatenate(weights)
    hessian = 2 * (matrix.T @ sparse.diags(weight) @ matrix)
    linear = -2 * matrix.T @ (weight * target)
    of_group = np.repeat(np.arange(len(constraints.starts) - 1), np.diff(constraints.starts))
    groups = sparse.coo_matrix((np.ones(cells), (of_group, np.arange(cells)))).tocsr()
    totals = [
        groups[slice(*pair)].sum(axis=0)
        for pair in zip(constraints.sections[:-1], constraints.sections[1:], strict=True)
    ]
    equal, right = [], []
    if constraints.parent is not None:
        equal.append(sparse.hstack([sparse.eye(cells)] * children))
        right.append(constraints.parent)
    for child, section in product(range(children), range(len(totals))):
        if not np.isnan(constraints.totals[child, section]):
            row = np.zeros((1, children * cells))
            row[0, child * cells : (child + 1) * cells] = totals[section]
            equal.append(sparse.csr_matrix(row))
            right.append([constraints.totals[child, section]])
    bounds = sparse.block_diag([groups] * children)
    rows_of = sparse.vstack([*equal, bounds, -bounds, -sparse.eye(children * cells)]).tocsc()
    limits = np.concatenate([*right, constraints.upper.ravel(), -constraints.lower.ravel(), np.zeros(children * cells)])
    held = int(sum(len(each) for each in right))
    settings_ = clarabel.DefaultSettings()
    settings_.verbose = False
    settings_.tol_gap_abs = settings_.tol_gap_rel = settings_.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(held), clarabel.NonnegativeConeT(len(limits) - held)]
    solution = clarabel.DefaultSolver(
        sparse.triu(hessian).tocsc(), linear, rows_of, limits.astype(np.float64), cones, settings_
    ).solve()
    assert str(solution.status) == "Solved"
    beyond = [rows_of @ x.ravel() - limits for x in found]
    violations = [float(max(np.abs(each[:held]).max(initial=0), each[held:].max())) for each in beyond]
    return float(weight @ (matrix @ np.array(solution.x) - target) ** 2), violations


def require_least(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> list[str]:
    """Each real-valued problem of some work is solved as an interior-point method solves it, by projected gradients and
    by alternating directions, whose objectives agree. The certificate of either holds. Fails for: a certificate that
    promises less than the distance to the minimum, or whose counts break a limit. Returns for each problem in turn how
    it was solved: its groups apart, in both ways, or by gradients alone if alternation does not apply."""
    compared, solved, steps = [], list[str](), []

    def note(*problem):  # type: ignore[no-untyped-def]
        steps.append(prepare(*problem))
        return steps[-1]

    def compare(queries: list[Query], constraints: Constraints, gap: float, *, apart: bool):  # type: ignore[no-untyped-def]
        found = []
        steps.clear()
        for steep in (np.inf,) if apart else (np.inf, 1e-9):
            monkeypatch.setattr(least_squares, "_STEEP", steep)
            found.append(solve_apart(queries[0], constraints, gap) if apart else solve(queries, constraints, gap))
        solved.append("apart" if apart else "both" if any(steps) else "gradients")
        compared.append((found, gap, solve_densely(queries, constraints, [each.x for each in found])))
        return found[-1]

    def compare_apart(query: Query, *rest):  # type: ignore[no-untyped-def]
        return compare([query], *rest, apart=True)

    monkeypatch.setattr(least_squares, "prepare", note)
    monkeypatch.setattr(estimation, "solve", lambda *rest: compare(*rest, apart=False))
    monkeypatch.setattr(estimation, "solve_apart", compare_apart)
    work()
    for found, gap, (least, violations) in compared:
        size = max(1.0, least)
        assert max(violations) <= least_squares.CONSTRAINT
        for each in found:
            assert abs(each.objective - least) <= 1e-6 * size
            assert each.objective - least <= each.gap + 1e-8 * size
            assert each.gap <= gap * size * (1 + 1e-6)
        assert abs(found[0].objective - found[-1].objective) <= 1e-6 * size
    return solved


OWN_PLAN = divide_queries(
    PERSON_PLAN,
    [
        ["sex", "hispanic * sex", "sex * gqlevels * votingage * hispanic * cenrace"],
        ["age_10_groups * sex", "relgq_4_groups", "sex * relgq * age_10_groups * hispanic * cenrace"],
        ["age_18_64_116 * sex", "sex * age", "detailed"],
    ],
)
"""With queries that are not production's, in three passes."""


@pytest.mark.parametrize("plan", [PERSON_PLAN, OWN_PLAN], ids=["production", "own"])
def test_real_valued_counts_are_the_best_of_all_that_meet_the_constraints(
    monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    """Each pass of a family with group quarters, whose children have their own scales. One child of the second plan has
    no answers by sex, and none has by age group and sex: fails for a program that divides by their precision,
    and from a plan that leaves out a query that is answered."""
    country = draw_country(2, 1, 4, persons=6, quarters=1)
    above = country.redraw(np.random.default_rng(11))[1]
    quarters = count_quarters(country.redistricting[-1], country.facilities)
    (level,) = plan_levels(PERSONS, lower_levels(PERSON_ALLOCATION, 1), [np.arange(1)])
    children = len(country.facilities)
    assert children > 2
    scales = np.linspace(1, 3, children)
    random = np.random.default_rng(0)
    noise, asked = dict[tuple[str, int], Numbers](), set[str]()
    exact = country.persons[-1]

    def read(query: str, cells: Numbers) -> tuple[np.ndarray, np.ndarray]:
        answers = exact.answer(PERSONS.marginal(query), 0, children)[:, cells]
        key = (query, len(cells))
        if key not in noise:
            noise[key] = np.rint(random.normal(0, 3, answers.shape)).astype(np.int64)
        measured = (query != "age_18_64_116 * sex") * ((query != "sex") | (np.arange(children) > 0))
        precision = measured * scales / float(level.variances.get(query, 100))
        asked.add(query)
        return (answers + noise[key]) * np.atleast_1d(precision > 0)[:, None], precision

    family = Family(
        plan, above.cell, above.count, country.redistricting[-1], read, 0, children,
        quarters,
    )  # fmt: skip
    solved = require_least(monkeypatch, lambda: estimate(family))
    assert set(solved) == ({"both", "apart"} if plan is PERSON_PLAN else {"gradients", "both"})
    assert asked == set(list_queries(plan))


def test_every_own_query_draws_the_estimates_to_its_answers() -> None:
    """Fails for a program that measures a query and fits the others alone, by which both distances are equal: the
    estimates are nearer to the truth if the answers to a query are exact and precise than if their weight is
    negligible."""
    country = draw_country(2, 1, 4, persons=30, quarters=1)
    quarters = count_quarters(country.redistricting[-1], country.facilities)
    children, exact, above = len(country.facilities), country.persons[-1], country.persons[-2]

    def find_error(of: str, own_precision: float) -> int:
        random = np.random.default_rng(1)

        def read(query: str, cells: Numbers) -> tuple[np.ndarray, np.ndarray]:
            answers = exact.answer(PERSONS.marginal(query), 0, children)[:, cells].astype(np.float64)
            noise = random.normal(0, 6, answers.shape)
            precise = np.full(children, own_precision if query == of else 1 / 36)
            return answers + (query != of) * noise, precise

        family = Family(OWN_PLAN, above.cell, above.count, country.redistricting[-1], read, 0, children, quarters)
        counts = estimate(family).counts
        marginal = PERSONS.marginal(of)
        number, position = np.nonzero(counts)
        found = Counts(number, above.cell[position], counts[number, position])
        return int(np.abs(found.answer(marginal, 0, children) - exact.answer(marginal, 0, children)).sum())

    for step in OWN_PLAN.passes:
        for query in step.queries:
            assert find_error(query, 10.0) < find_error(query, 1e-3), query


@pytest.mark.parametrize("among_persons", [pytest.param(True, marks=pytest.mark.prove), False])
def test_real_valued_homes_are_the_best_of_all_too(monkeypatch: pytest.MonkeyPatch, among_persons: bool) -> None:
    """Each pass of units and of households, also if householders are among persons, where a pass has limits by kind and
    reads answers of units. Fails for: a certificate that holds for persons alone."""
    homes = draw_homes(7, [np.zeros(1, np.int64), np.zeros(3, np.int64)])
    above = (homes.exact[0][0], homes.exact[0][1])
    limits = homes.householders[1] if among_persons else None
    units, households = homes.read_homes(1)
    held, parents = homes.hold(1), homes.parents[1]
    plans = PLANS_WITHIN_PERSONS if among_persons else PLANS
    solved = require_least(monkeypatch, lambda: estimate_homes(plans, units, households, held, parents, above, limits))
    assert set(solved) >= ({"apart", "gradients"} if among_persons else {"apart", "both"})


OWN_HOMES = {
    "units": [["tenure_3lev", "tenure_vacant_and_gq_types"], ["detailed"]],
    "households": [["hisp * race", "hisp * race * hhtenshort_3lev * multig"], ["sex * hhage", "detailed"]],
}


@pytest.mark.parametrize("among_persons", [pytest.param(True, marks=pytest.mark.prove), False])
def test_own_queries_of_homes_are_fitted_best_too(monkeypatch: pytest.MonkeyPatch, among_persons: bool) -> None:
    """In passes of their own; households also among persons, after which units have production's. Fails for:
    production's passes, whose queries have no answers here."""
    homes = draw_homes(7, [np.zeros(1, np.int64), np.zeros(3, np.int64)])
    plans = dict(PLANS_WITHIN_PERSONS if among_persons else PLANS)
    allocations = [UNIT_ALLOCATION]
    for schema, passes in zip(HOMES, OWN_HOMES.values(), strict=True):
        if schema is UNITS and among_persons:
            continue
        plans[schema.name] = divide_queries(plans[schema.name], passes)
        queries = [query for own in passes for query in own]
        shares = {level: {query: Fraction(1, len(queries)) for query in queries} for level in LEVELS}
        own = allocate(schema, Fraction(4), dict.fromkeys(LEVELS, Fraction(1, 8)), shares)
        allocations = [own, *allocations[1:]] if schema is UNITS else [*allocations, own]
    limits = homes.householders[1] if among_persons else None
    given = (*homes.read_homes(1, allocations), homes.hold(1), homes.parents[1])
    above = (homes.exact[0][0], homes.exact[0][1])
    found = list[tuple[Estimated, Estimated]]()
    solved = require_least(monkeypatch, lambda: found.append(estimate_homes(plans, *given, above, limits)))
    assert len(solved) >= (3 if among_persons else 4)
    (units, households), places = found[0], len(homes.parents[1])
    assert np.array_equal(units.counts.answer(UNITS.marginal(OCCUPANCY), 0, places), homes.hold(1))
    tenures = units.counts.answer(UNITS.marginal("tenure_3lev"), 0, places)[:, :3]
    assert np.array_equal(households.counts.answer(HOUSEHOLDS.marginal(TENURE), 0, places), tenures)


def test_units_tell_the_tenure_of_households_of_one_origin_and_race() -> None:
    """In passes whose first measures each cell by itself. Fails for a program that then leaves out the tenure
    from units."""
    plan = divide_queries(HOUSEHOLD_PLAN_WITHIN_PERSONS, [["detailed"]])
    cells = np.flatnonzero(HOUSEHOLDS.possible)
    cells = cells[HOUSEHOLDS.marginal(ORIGIN_AND_RACE).find(cells) == 0]
    _, first = np.unique(HOUSEHOLDS.marginal(TENURE).find(cells), return_index=True)
    of_units = np.array([[4, 0, 3], [0, 4, 1]])

    def read(query: str, _: Numbers) -> tuple[np.ndarray, np.ndarray]:
        told = query == TENURE
        return (of_units if told else np.full((2, 3), 2)).astype(np.float64), np.full(2, 1.0 if told else 1e-3)

    family = Family(plan, np.sort(cells[first]), of_units.sum(axis=0), of_units.sum(axis=1)[:, None], read, 0, 2)
    assert estimate(family).counts.tolist() == of_units.tolist()


def test_groups_rounded_together_are_as_near_as_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    country = draw_country(4, 1, 5)
    above = country.redraw(np.random.default_rng(4))[1]
    quarters = count_quarters(country.redistricting[-1], country.facilities)
    levels = plan_levels(PERSONS, lower_levels(PERSON_ALLOCATION, 3), country.parents)
    measuring = Measuring(PERSONS, levels[2], country.persons[2], KEY)
    distances = []
    for arcs in (1, 10**9):
        monkeypatch.setattr(estimation, "_ARCS", arcs)
        own: list[float] = []
        plain = estimation.round_children

        def measure(x, chain, parent, bounds, own=own, plain=plain):  # type: ignore[no-untyped-def]
            rounded = plain(x, chain, parent, bounds)
            own.append(float(np.abs(rounded - x).sum()))
            return rounded

        with monkeypatch.context() as patch:
            patch.setattr(estimation, "round_children", measure)
            estimate_level(PERSON_PLAN, measuring, country.redistricting[2], country.parents[2], above, quarters)
        distances.append((len(own), sum(own)))
    assert distances[0][0] > distances[1][0]
    assert distances[0][1] == pytest.approx(distances[1][1], abs=1e-3)


@dataclass(frozen=True)
class Homes:
    """Units and households of a small country, and their constraints, by level."""

    parents: list[Numbers]
    exact: list[list[Counts]]
    householders: Any
    persons: Any

    def hold(self, depth: int) -> Numbers:
        return self.exact[depth][0].answer(UNITS.marginal(OCCUPANCY), 0, len(self.parents[depth]))

    def read_homes(
        self, depth: int, allocations: Sequence[Allocation] = (UNIT_ALLOCATION, HOUSEHOLD_ALLOCATION)
    ) -> list[Reading]:
        levels = [
            plan_levels(schema, lower_levels(allocation, len(self.parents)), self.parents)
            for schema, allocation in zip(HOMES, allocations, strict=True)
        ]
        return [
            Reading(Measuring(schema, planned[depth], own, KEY))
            for schema, planned, own in zip(HOMES, levels, self.exact[depth], strict=True)
        ]


def draw_homes(seed: int, parents: list[Numbers]) -> Homes:
    random, blocks = np.random.default_rng(seed), len(parents[-1])
    cells = random.choice(random.choice(np.flatnonzero(HOUSEHOLDS.possible), 40), 200)
    homes = random.integers(0, blocks, 200)
    tenure = HOUSEHOLDS.marginal(TENURE).find(cells)
    units = np.where(tenure == 2, 2 + random.integers(0, 2, 200), tenure)
    others, places = random.integers(4, 35, 60), random.integers(0, blocks, 60)
    finest = (
        count(UNITS, np.append(homes, places), np.append(units, others)),
        count(HOUSEHOLDS, homes, cells),
    )
    of_level = [list(finest)]
    for above in parents[:0:-1]:
        of_level.insert(0, [add_up(schema, each, above) for schema, each in zip(HOMES, of_level[0], strict=True)])
    # A householder each, and a few others.
    kinds = HOUSEHOLDS.marginal(ORIGIN_AND_RACE).size
    living = np.append(
        homes * kinds + HOUSEHOLDS.marginal(ORIGIN_AND_RACE).find(cells), random.integers(0, blocks * kinds, 9)
    )
    persons = np.bincount(living, minlength=blocks * kinds).reshape(blocks, kinds)
    occupied = np.bincount(homes, minlength=blocks)
    householders = climb(Householders(np.arange(blocks), occupied, persons), parents, Householders.add_up)
    return Homes(parents, of_level, householders, climb(persons, parents, add_answers))


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_units_and_households_agree_with_each_other_and_with_the_redistricting_data(seed: int) -> None:
    """If declared, they also agree with persons by the householder's origin and race. Fails for: not at all, or at
    the upper levels only."""
    parents = [np.zeros(1, np.int64), np.zeros(2, np.int64), np.array([0, 0, 1]), np.repeat([0, 1, 2], 3)]
    homes = draw_homes(seed, parents)
    # The parents of the second level are the truth: the root's million cells take seconds.
    beyond = []
    for limits in (None, homes.householders):
        before = (homes.exact[1][0], homes.exact[1][1])
        for depth in (2, 3):
            count_of, held, readings = len(parents[depth]), homes.hold(depth), homes.read_homes(depth)
            found = estimate_homes(
                PLANS_WITHIN_PERSONS if limits else PLANS,
                readings[0],
                readings[1],
                held,
                parents[depth],
                before,
                limits[depth] if limits else None,
            )
            after = (found[0].counts, found[1].counts)
            tenures = after[0].answer(UNITS.marginal("tenure_3lev"), 0, count_of)[:, :3]
            assert np.array_equal(after[0].answer(UNITS.marginal(OCCUPANCY), 0, count_of), held)
            assert np.array_equal(after[1].answer(HOUSEHOLDS.marginal(TENURE), 0, count_of), tenures)
            assert HOUSEHOLDS.possible[after[1].cell].all()
            for schema, own, above_ in zip(HOMES, after, before, strict=True):
                assert equal(add_up(schema, own, parents[depth]), above_)
            of_kinds = after[1].answer(HOUSEHOLDS.marginal(ORIGIN_AND_RACE), 0, count_of)
            beyond.append(bool((of_kinds > homes.persons[depth]).any()))
            before = after
    assert beyond[2:] == [False, False], "among persons at every level"
    assert beyond[1], "which does not happen by itself"


def test_householders_of_a_place_can_be_divided_among_its_blocks() -> None:
    """Fails for: limits of single origins and races. The homes of one block are of two races, those of the other
    of two others, and each race could have them all."""
    persons = np.zeros((2, 14), dtype=np.int64)
    persons[0, [1, 2]] = persons[1, [3, 9]] = 2
    limits = Householders(np.arange(2), np.array([2, 2]), persons).add_up(np.zeros(2, dtype=np.int64))
    own = limits.limit(0, 1, 0, np.array([2, 3, 4, 10]))
    assert (own.lower.tolist(), own.upper.tolist(), own.totals.tolist()) == ([[0] * 4], [[2] * 4], [4])
    assert not satisfies_sets(own.sets, np.array([[2, 2, 0, 0]]))
    assert nearest_counts(np.array([[1.9, 1.7, 0.3, 0.1]]), own, None).tolist() == [[1, 1, 1, 1]]


def test_householders_are_counted_among_persons_in_households() -> None:
    """Fails for: persons of group quarters too, and races not added up to those of householders."""
    groups = np.zeros((1, 8, 2, 2, 63), dtype=np.int64)
    groups[0, 0, 0, 1, 62], groups[0, 0, 1, 1, 7], groups[0, 0, 1, 0, 5], groups[0, 3, 1, 0, 0] = 1, 2, 4, 8
    found = count_householders(groups.reshape(1, -1), np.array([7]))
    assert found.persons.nonzero()[1].tolist() == [5, 13]
    assert found.persons[0, [5, 13]].tolist() == [4, 3]
    with pytest.raises(HouseholdersError, match="1 blocks have more occupied units"):
        count_householders(groups.reshape(1, -1), np.array([8]))
