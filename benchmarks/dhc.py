"""The DHC's persons and homes of a made-up country: `python -m benchmarks.dhc`, minutes of one core.

For each level, a row with the CPU-seconds, the cells that are not zero, and the mean absolute error of persons by sex
and 38 ages, or of households by couple, Hispanic origin and tenure: as measured and as estimated. The output is the
table of `docs/mechanisms/topdown-dhc.md`, in Markdown. Persons are drawn from wide distributions: less alike than
neighbors are, so that there are more cells than in real places.
`python -m benchmarks.dhc 2 3 2 2 2 3 5` has another number of children in each level.
"""

import resource
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np

from mechanisms.topdown.allocation import Allocation
from mechanisms.topdown.dhc.allocation import HOUSEHOLD_ALLOCATION, PERSON_ALLOCATION, UNIT_ALLOCATION
from mechanisms.topdown.dhc.households import HOUSEHOLDS, OCCUPANCY, TENURE, UNITS
from mechanisms.topdown.dhc.levels import Measuring, Reading, estimate_level, plan_levels, read_all
from mechanisms.topdown.dhc.passes import HOUSEHOLD_PLAN, PERSON_PLAN, UNIT_PLAN, Plan
from mechanisms.topdown.dhc.persons import HOUSEHOLD_CODES, PERSONS, QUARTERS_TYPES, REDISTRICTING
from mechanisms.topdown.dhc.quarters import Quarters, count_quarters
from mechanisms.topdown.dhc.tree import Numbers, add_answers, add_counts, climb, collect
from mechanisms.topdown.schema import Counts, Schema

CHILDREN = (5, 4, 3, 3, 2, 4, 12)
"""By level below the root, the children of each place: 17,280 blocks, a state of a million persons."""

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


def write_rows(children: Sequence[int], *, full: bool = True) -> Iterator[str]:
    random, parents = np.random.default_rng(0), grow(children)
    blocks = len(parents[-1])
    persons, facilities = draw_persons(random, blocks)
    held = climb(persons.answer(PERSONS.marginal(REDISTRICTING), 0, blocks), parents, add_answers)
    quarters = climb(count_quarters(held[-1], facilities), parents, Quarters.add_up)
    yield f"{persons.count.sum():,} persons in {blocks:,} blocks\n"
    yield "| histogram | level | places | CPU-s | cells | error measured | estimated |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    above = None
    exact = climb(persons, parents, add_counts)
    for depth, reading in enumerate(_measure(PERSONS, PERSON_ALLOCATION, parents, exact, full)):
        begin = time.process_time()
        above = estimate_level(PERSON_PLAN, reading, held[depth], parents[depth], above, quarters[depth]).counts
        yield _row(PERSON_PLAN, reading, exact[depth], above, len(parents[depth]), time.process_time() - begin)
    units, households = draw_homes(random, blocks)
    of_units, of_households = (climb(each, parents, add_counts) for each in (units, households))
    readings = zip(
        _measure(UNITS, UNIT_ALLOCATION, parents, of_units, full),
        _measure(HOUSEHOLDS, HOUSEHOLD_ALLOCATION, parents, of_households, full),
        strict=True,
    )
    above_units = above_homes = None
    for depth, (of_unit, of_household) in enumerate(readings):
        begin, places = time.process_time(), len(parents[depth])
        occupancy = of_units[depth].answer(UNITS.marginal(OCCUPANCY), 0, places)
        above_units = estimate_level(UNIT_PLAN, of_unit, occupancy, parents[depth], above_units).counts
        tenure = above_units.answer(UNITS.marginal("tenure_3lev"), 0, places)[:, :3]
        above_homes = estimate_level(HOUSEHOLD_PLAN, of_household, tenure, parents[depth], above_homes).counts
        took = time.process_time() - begin
        yield _row(HOUSEHOLD_PLAN, of_household, of_households[depth], above_homes, places, took)
    yield f"\nat most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB"


def _measure(
    schema: Schema, allocation: Allocation, parents: Sequence[Numbers], exact: Sequence[Counts], full: bool
) -> list[Reading]:
    levels = zip(plan_levels(allocation, parents), exact, strict=True)
    return read_all([Measuring(schema, level, own, KEY) for level, own in levels], parents, full)


def _row(plan: Plan, reading: Reading, exact: Counts, found: Counts, places: int, took: float) -> str:
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
