"""The DHC's persons and homes of a made-up country: `python -m benchmarks.dhc`, minutes of one core.

`measure` is its part of `make bench`: a million persons, the growth from 0.3 million, and Clarabel on some of the
families; five minutes of one core. `docs/how-to/nation.md` has whole jobs, to three million persons.

For each level, a row with the CPU-seconds, the cells that are not zero, and the mean absolute error of persons by sex
and 38 ages, or of households by couple, Hispanic origin and tenure: as measured and as estimated. The output is the
table of `docs/mechanisms/topdown-dhc.md`, in Markdown. Persons are drawn from wide distributions: they are less alike
than real neighbors, so they occupy more cells than in real places. `python -m benchmarks.dhc 2 3 2 2 2 3 5` sets the
number of children in each level.
"""

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from unittest import mock

import numpy as np

from benchmarks.harness import Result, limit_costs, run_step
from mechanisms.topdown.dhc import estimation
from mechanisms.topdown.dhc.allocation import HOUSEHOLD_ALLOCATION, PERSON_ALLOCATION, UNIT_ALLOCATION
from mechanisms.topdown.dhc.households import HOUSEHOLDS, OCCUPANCY, TENURE, UNITS
from mechanisms.topdown.dhc.levels import Reading, count_tenures, estimate_level, measure_tree
from mechanisms.topdown.dhc.passes import HOUSEHOLD_PLAN, PERSON_PLAN, UNIT_PLAN, Plan
from mechanisms.topdown.dhc.persons import HOUSEHOLD_CODES, PERSONS, QUARTERS_TYPES, REDISTRICTING
from mechanisms.topdown.dhc.quarters import Quarters, count_quarters
from mechanisms.topdown.dhc.tree import Numbers, add_answers, add_counts, climb, collect
from mechanisms.topdown.least_squares import Constraints, Query, Solution
from mechanisms.topdown.schema import Counts

CHILDREN = (5, 4, 3, 3, 2, 4, 12)
"""By level below the root, the children of each place: 17,280 blocks, a state of a million persons."""

FEWER = (3, 2, 3, 3, 2, 4, 12)
"""0.3 million persons in 5,184 blocks."""

FAMILIES = 20
"""The number of families of blocks that the peer solves too."""

PERSONS_OF_A_BLOCK, HOUSEHOLDS_OF_A_BLOCK, KEY = 58, 22, bytes(range(32))

COMPARED = {PERSONS.name: "age_38_groups * sex", HOUSEHOLDS.name: "coupled_hh_type * hisp * hhtenshort_2lev"}

_RELATIONSHIPS = np.array([10, 25, 18, 2, 0.2, 0.2, 25, 1, 1.5, 1.5, 1.5, 3, 0.5, 0.5, 1.5, 2, 0.3, 1.5])
_RACES = np.concatenate([[60, 12, 1, 6, 0.3, 8], 2 / np.arange(1, 58) ** 1.3])
_AGES = {6: (0, 30), 7: (0, 30), 8: (0, 30), 10: (50, 90), 11: (0, 20), 12: (50, 90), 16: (0, 18)}
_QUARTERS_AGES = {6: (10, 18), 7: (10, 18), 8: (10, 18), 9: (65, 99), 14: (18, 25), 16: (18, 50), 17: (18, 50)}


def grow(children: Sequence[int]) -> list[Numbers]:
    """By level from the root's, the position of each place's parent."""
    parents, places = [np.zeros(1, dtype=np.int64)], 1
    for of_each in children:
        parents.append(np.repeat(np.arange(places), of_each))
        places *= of_each
    return parents


def count(number: Numbers, cell: Numbers) -> Counts:
    """The histograms of records."""
    return collect(number, cell, np.ones(len(cell), dtype=np.int64))


def draw_persons(random: np.random.Generator, blocks: int) -> tuple[Counts, Numbers]:
    """Persons by block, and facilities, shape (blocks, 24): every twelfth block has some."""
    sizes = random.poisson(PERSONS_OF_A_BLOCK, blocks)
    number = np.repeat(np.arange(blocks), sizes)
    relgq = random.choice(HOUSEHOLD_CODES, len(number), p=_RELATIONSHIPS / _RELATIONSHIPS.sum())
    facilities = np.zeros((blocks, 24), dtype=np.int64)
    for block in np.flatnonzero(random.random(blocks) < 1 / 12).tolist():
        for kind in random.choice(24, random.integers(1, 4), replace=False).tolist():
            inmates = int(random.integers(2, 40))
            facilities[block, kind] = random.integers(1, 3)
            number = np.append(number, np.full(inmates, block))
            relgq = np.append(relgq, np.full(inmates, HOUSEHOLD_CODES + kind))
    least, end = np.full(42, 18), np.full(42, 90)
    end[HOUSEHOLD_CODES:] = 60
    for code, ages in {**_AGES, **{HOUSEHOLD_CODES + kind: ages for kind, ages in _QUARTERS_AGES.items()}}.items():
        least[code], end[code] = ages
    age = random.integers(least[relgq], end[relgq])
    sex, hispanic = random.integers(0, 2, len(number)), random.random(len(number)) < 0.18
    race = random.choice(63, len(number), p=_RACES / _RACES.sum())
    cell = (((relgq * 2 + sex) * 116 + age) * 2 + hispanic) * 63 + race
    possible = PERSONS.possible[cell]
    persons = count(number[possible], cell[possible])
    lived_in = persons.answer(PERSONS.marginal(QUARTERS_TYPES), 0, blocks)[:, 1:]
    return persons, np.minimum(facilities, lived_in)


def draw_homes(random: np.random.Generator, blocks: int) -> tuple[Counts, Counts]:
    """Units and households by block."""
    homes = blocks * HOUSEHOLDS_OF_A_BLOCK
    possible = np.flatnonzero(HOUSEHOLDS.possible)
    of_type = random.pareto(1.2, 522) + 0.01
    weights = (
        of_type[HOUSEHOLDS.marginal("hhtype_dhch").find(possible)]
        * np.array([60, 12, 1, 6, 0.3, 8, 5])[HOUSEHOLDS.marginal("race").find(possible)]
        * np.array([0.85, 0.15])[HOUSEHOLDS.marginal("hisp").find(possible)]
    )
    cell = random.choice(possible, homes, p=weights / weights.sum())
    block = random.integers(0, blocks, homes)
    tenure = HOUSEHOLDS.marginal(TENURE).find(cell)
    occupied = np.where(tenure == 2, 2 + (random.random(homes) < 0.1), tenure)
    others = np.concatenate([random.integers(4, 11, homes // 10), random.integers(11, 35, blocks // 10)])
    units = np.concatenate([occupied, others])
    places = np.concatenate([block, random.integers(0, blocks, len(others))])
    return count(places, units), count(block, cell)


class Step(NamedTuple):
    """A level of persons, or of units and households, with its CPU-seconds."""

    plan: Plan
    reading: Reading
    exact: Counts
    found: Counts
    places: int
    seconds: float


def run(children: Sequence[int], *, full: bool = True) -> Iterator[Step]:
    random, parents = np.random.default_rng(0), grow(children)
    blocks = len(parents[-1])
    persons, facilities = draw_persons(random, blocks)
    held = climb(persons.answer(PERSONS.marginal(REDISTRICTING), 0, blocks), parents, add_answers)
    quarters = climb(count_quarters(held[-1], facilities), parents, Quarters.add_up)
    above = None
    exact = climb(persons, parents, add_counts)
    readings = measure_tree(PERSONS, PERSON_ALLOCATION, parents, persons, KEY, full)
    for depth, reading in enumerate(readings):
        begin, places = time.process_time(), len(parents[depth])
        above = estimate_level(PERSON_PLAN, reading, held[depth], parents[depth], above, quarters[depth]).counts
        yield Step(PERSON_PLAN, reading, exact[depth], above, places, time.process_time() - begin)
    units, households = draw_homes(random, blocks)
    of_units, of_households = (climb(each, parents, add_counts) for each in (units, households))
    readings = measure_tree(UNITS, UNIT_ALLOCATION, parents, units, KEY, full)
    of_homes = measure_tree(HOUSEHOLDS, HOUSEHOLD_ALLOCATION, parents, households, KEY, full)
    above_units = above_homes = None
    for depth, (of_unit, of_household) in enumerate(zip(readings, of_homes, strict=True)):
        begin, places = time.process_time(), len(parents[depth])
        occupancy = of_units[depth].answer(UNITS.marginal(OCCUPANCY), 0, places)
        above_units = estimate_level(UNIT_PLAN, of_unit, occupancy, parents[depth], above_units).counts
        tenure = count_tenures(above_units, places)
        above_homes = estimate_level(HOUSEHOLD_PLAN, of_household, tenure, parents[depth], above_homes).counts
        took = time.process_time() - begin
        yield Step(HOUSEHOLD_PLAN, of_household, of_households[depth], above_homes, places, took)


def write_rows(children: Sequence[int], *, full: bool = True) -> Iterator[str]:
    yield "| histogram | level | places | CPU-s | cells | error measured | estimated |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    steps = []
    for step in run(children, full=full):
        steps.append((step.plan, step.seconds))
        yield _row(step)
    yield f"\n{sum(seconds for _, seconds in steps):.0f} CPU-s"
    yield f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB"


def time_all(children: Sequence[int]) -> tuple[int, float, float]:
    """The persons, the CPU-seconds of all levels, and the peak memory in GiB, in a separate process."""
    persons, seconds = 0, 0.0
    for step in run(children):
        seconds += step.seconds
        if step.plan is PERSON_PLAN:
            persons = int(step.exact.count.sum())
    return persons, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def time_families() -> tuple[float, float]:
    """CPU-seconds of the first least-squares problem of persons in each of `FAMILIES` families of blocks: our own, and
    Clarabel's to the same gap, 1e-6. Raises ArithmeticError if the least objectives differ by more."""
    parents, random = grow((1, 1, 1, 1, 1, FAMILIES, CHILDREN[-1])), np.random.default_rng(0)
    blocks = len(parents[-1])
    persons, facilities = draw_persons(random, blocks)
    held = persons.answer(PERSONS.marginal(REDISTRICTING), 0, blocks)
    reading = measure_tree(PERSONS, PERSON_ALLOCATION, parents, persons, KEY, True)[-1]
    problems, plain = list[tuple[Sequence[Query], Constraints, float]](), estimation.solve

    def note(queries: Sequence[Query], constraints: Constraints, gap: float) -> Solution:
        problems.append((queries, constraints, gap))
        return plain(queries, constraints, gap)

    with mock.patch.object(estimation, "solve", note):
        above = add_counts(persons, parents[-1])
        estimate_level(PERSON_PLAN, reading, held, parents[-1], above, count_quarters(held, facilities))
    begin = time.process_time()
    ours = [plain(*problem) for problem in problems]
    between = time.process_time()
    others = [solve_by_clarabel(*problem) for problem in problems]
    end = time.process_time()
    for solution, least in zip(ours, others, strict=True):
        if abs(solution.objective - least) > 1e-6 * max(1.0, least):
            raise ArithmeticError(f"Clarabel finds {least:,.6f}, we {solution.objective:,.6f}")
    return between - begin, end - between


def solve_by_clarabel(queries: Sequence[Query], constraints: Constraints, gap: float) -> float:
    """The least objective. The residuals of all answers are variables, so that its matrices are sparse."""
    import clarabel
    from scipy import sparse

    children, cells = len(constraints.totals), int(constraints.starts[-1])
    blocks = [sparse.csr_matrix((np.ones(cells), (query.cells, np.arange(cells)))) for query in queries]
    answers = sparse.block_diag([sparse.vstack(blocks)] * children)
    measured = np.concatenate([query.measured[child] for child in range(children) for query in queries])
    weights = np.concatenate(
        [np.full(query.measured.shape[1], (np.zeros(children) + query.precision)[child])
         for child in range(children) for query in queries]
    )  # fmt: skip
    of_part = np.repeat(np.arange(len(constraints.starts) - 1), np.diff(constraints.starts))
    parts = sparse.csr_matrix((np.ones(cells), (of_part, np.arange(cells))))
    assert constraints.parent is not None
    assert constraints.sections is not None
    of_section = np.repeat(np.arange(len(constraints.sections) - 1), np.diff(constraints.sections))
    sections = sparse.csr_matrix((np.ones(len(of_section)), (of_section, np.arange(len(of_section))))) @ parts
    fixed = ~np.isnan(constraints.totals.ravel())
    sums = sparse.block_diag([sections] * children).tocsr()[fixed]
    bounds = sparse.block_diag([parts] * children)
    equal = sparse.vstack([sparse.hstack([sparse.eye(cells)] * children), sums])
    most = sparse.vstack([bounds, -bounds, -sparse.eye(children * cells)])
    rows = sparse.bmat([[answers, -sparse.eye(len(measured))], [equal, None], [most, None]]).tocsc()
    right = np.concatenate(
        [measured, constraints.parent, constraints.totals.ravel()[fixed], constraints.upper.ravel(),
         -constraints.lower.ravel(), np.zeros(children * cells)]
    )  # fmt: skip
    hessian = sparse.diags(np.concatenate([np.zeros(children * cells), 2 * weights])).tocsc()
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_rel = settings.tol_gap_abs = gap
    held = len(measured) + equal.shape[0]
    cones = [clarabel.ZeroConeT(held), clarabel.NonnegativeConeT(len(right) - held)]
    linear = np.zeros(hessian.shape[0])
    return float(clarabel.DefaultSolver(hessian, linear, rows, right, cones, settings).solve().obj_val)


def measure() -> list[Result]:
    persons, seconds, peak = run_step(time_all, CHILDREN).returned
    fewer, of_fewer, _ = run_step(time_all, FEWER).returned
    ours, others = run_step(time_families).returned
    families = int(np.prod(CHILDREN[:-1]))
    return [
        *limit_costs(f"DHC, all levels: {persons:,} persons", seconds, 1200.0, peak, 6.0),
        Result(
            f"DHC: growth of CPU-seconds from {fewer:,} to {persons:,} persons", seconds / of_fewer, persons / fewer
        ),
        Result(f"DHC, first problem of {FAMILIES} families of blocks, against Clarabel (CPU-s)", ours, others),
        Result(
            f"DHC, all levels, against Clarabel for {families:,} such families in proportion (CPU-s)",
            seconds,
            others * families / FAMILIES,
        ),
    ]


def _row(step: Step) -> str:
    plan, reading, exact, found, places, took = step
    name, measuring = plan.schema.name, reading.measuring
    level = measuring.level
    marginal = plan.schema.marginal(COMPARED[name])
    truth = exact.answer(marginal, 0, places)
    estimated, noise = np.abs(found.answer(marginal, 0, places) - truth).mean(), "–"
    if measured := [place for place in range(places) if level.runs[place] >= 0]:
        every = np.arange(marginal.size)
        noisy = np.concatenate([measuring.read(marginal.query, place, place + 1, every) for place in measured])
        noise = f"{np.abs(noisy - truth[measured]).mean():.1f}"
    return f"| {name} | {level.name} | {places:,} | {took:.1f} | {len(found.cell):,} | {noise} | {estimated:.1f} |"


if __name__ == "__main__":
    for line in write_rows([int(each) for each in sys.argv[1:]] or CHILDREN):
        print(line, flush=True)
