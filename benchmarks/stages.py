"""The assets' stages of PHSafe and TopDown on synthetic censuses, with production's parameters: PHSafe from the CEF to
settled measurements, TopDown in whole estimations, replicates, the steps for siblings, and accuracy."""

import os
import time
from collections import defaultdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import mean, median
from typing import Any
from unittest.mock import patch

import dagster as dg
import numpy as np

from assets.cef.synthetic import SyntheticCensusDeclaration
from assets.phsafe.counts import JOINED
from assets.phsafe.declaration import PHSafeDeclaration
from assets.phsafe.method import PHSafeMethod
from assets.topdown.accuracy import measure_accuracy
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.estimation import estimate_level, estimate_levels, unite_states
from assets.topdown.information import make_information
from assets.topdown.method import TopDownMethod
from assets.topdown.reading import list_scopes
from assets.topdown.release import INVARIANTS, SPINE, TopDownRelease
from assets.topdown.replicates import TopDownReplication, make_replicates
from assets.topdown.spine import count_places
from benchmarks import harness
from benchmarks.jobs import Case
from benchmarks.topdown_problems import ConvexProblem, Siblings, compute_objective, draw_siblings
from benchmarks.topdown_trees import Dense, draw_five
from mechanisms.states import PUERTO_RICO, STATES
from mechanisms.topdown.decomposition import Decomposition
from mechanisms.topdown.design import words
from mechanisms.topdown.estimation import estimate as estimate_siblings
from mechanisms.topdown.least_squares import solve
from mechanisms.topdown.schema import UNITS
from orchestration.components import Dataset, PHSafe, TopDown
from resources.project import PROJECT
from resources.statements import Zone

PHSAFE_SIZES = (64_000, 400_000, 1_200_000, 3_900_000)
"""Households. The smallest size has 165,180 persons in 71,234 units of four states; the largest has 10,086,930 persons
in all states."""

RUNS = 3

SMALLEST, LARGEST = 198_500, 794_000
SIZES = SMALLEST, 397_000, LARGEST
"""Households in two states. The largest size has 2 million persons in 44,000 blocks."""

MILLION, DEMONSTRATION = 390_000, 40_000
"""Households of the two sizes in which both estimations are compared: about a million persons, and the dataset
`two_states`."""

ESTIMATIONS = ("own_levels", "full")

JOBS = 1.3
"""The limit of the processor seconds of a whole job with full estimation, against one with own levels, which takes 0.75
times as many as before full estimation existed."""

TWO_STATES = ["08", "09"]
PROCESSES = 2

REPLICATES = 4
"""Enough to keep all processes busy. All take equally long."""

PROBLEMS, BLOCKS, FEWEST_CELLS = 12, 28, 30
"""For the steps for siblings: the number of block groups, the blocks of each, and the minimum number of cells, because
fewer are not representative."""

DRAWS = 5
ACCURACY_LIMITS = {"race_by_hispanic": ("race × Hispanic", 1.0), "population": ("population", 1.05)}
"""By metric, its name in results and its limit."""


def measure_phsafe() -> list[harness.Result]:
    """The median time of three runs in seconds, the peak memory, and the growth of time with the number of persons."""
    results, seconds, persons = [], [], []
    for households in PHSAFE_SIZES:
        with harness.temporary_home() as home:
            persons.append(harness.run_step(harness.write_census_cef, home, _declare_census(households)).returned)
            runs = [harness.run_step(run_phsafe, home, households, number) for number in range(RUNS)]
        seconds.append(median(run.seconds for run in runs))
        name, most = f"PHSafe, CEF to measurements, {persons[-1]:,} persons", 60.0 if results else 2.0
        results += harness.limit_costs(name, seconds[-1], most, max(run.peak for run in runs), 6.0)
    # Below the second size, the fixed cost of a release outweighs the cost of each person.
    growth, expected = seconds[-1] / seconds[1], persons[-1] / persons[1]
    return [
        *results,
        harness.Result("PHSafe, CEF to measurements: growth of time, against persons", growth, expected, 1.25),
    ]


def run_phsafe(home: str, households: int, run: int) -> None:
    """Run the stages. Each run has its own release, so that every run charges and draws."""
    dataset = _declare_census(households)
    declaration = PHSafeDeclaration(
        name=f"run{run}", dataset=dataset.name, title="S-DHC", states=sorted(dataset.generated.states)
    )
    method = PHSafeMethod(PHSafe(declaration).release(dataset, Path(home) / "published"))
    harness.make_stages(home, method, JOINED, method.counts_stage)
    harness.charge(home, method)
    harness.make(home, method)


def _declare_census(households: int) -> SyntheticCensusDeclaration:
    states = [state for state in STATES if state != PUERTO_RICO]
    return harness.declare_census(households, states[:4] if households == PHSAFE_SIZES[0] else states)


def measure_estimation() -> list[harness.Result]:
    """Seconds of draw and estimation, peak memory of all processes together, and the growth of the estimation time per
    block from the smallest to the largest size: 1 if time is linear in the number of blocks."""
    results, milliseconds = [], {}
    for households in SIZES:
        with harness.temporary_home() as home:
            blocks, persons, answers = harness.run_step(prepare, home, households).returned
            drawing = harness.run_step(draw, home, households)
            seconds, peak = harness.run_step(estimate, home, households).returned
        milliseconds[households] = seconds / blocks * 1e3
        if households == LARGEST:
            results.append(
                harness.Result(f"TopDown, noisy measurements: {answers:,} answers (s)", drawing.seconds, 30.0)
            )
        costs = harness.limit_costs(
            f"TopDown, estimation: {blocks:,} blocks, {persons:,} persons", seconds, 600.0, peak, 8.0
        )
        results += costs if households == LARGEST else costs[:1]
    name = "TopDown, estimation: ms for each block, largest against smallest size"
    return [*results, harness.Result(name, milliseconds[LARGEST], milliseconds[SMALLEST], 1.5)]


def measure_replicates() -> list[harness.Result]:
    """Seconds for each replicate, against the seconds of the estimation, and the peak memory of all processes together.
    The estimation reads stored measurements; a replicate also draws its noise, and is stored. Both have the same census
    and as many processes."""
    with harness.temporary_home() as home:
        blocks, persons, _ = harness.run_step(prepare, home, LARGEST).returned
        harness.run_step(draw, home, LARGEST)
        estimation_seconds, _ = harness.run_step(estimate, home, LARGEST).returned
        seconds, peak = harness.run_step(replicate, home, LARGEST).returned
    size = f"{blocks:,} blocks, {persons:,} persons"
    return [
        harness.Result(
            f"TopDown, a replicate against the estimation: {size} (s)", seconds / REPLICATES, estimation_seconds
        ),
        harness.Result(f"TopDown, replicates: {size}: peak memory (GiB)", peak, 8.0),
    ]


def prepare(home: str, households: int) -> tuple[int, int, int]:
    """Run all stages up to the charge; return the numbers of blocks, persons and answers."""
    release = declare_release(home, households)
    persons, places = charge(home, release)
    answers = sum(places[query.level] * query.marginal.size for query in release.design.measured)
    return places[release.finest], persons, answers


def charge(home: str, release: TopDownRelease) -> tuple[int, dict[str, int]]:
    """Run all stages up to the charge, on a synthetic census; return the number of persons, and of places by level."""
    dataset = release.dataset
    assert isinstance(dataset, SyntheticCensusDeclaration)
    persons = harness.write_census_cef(home, dataset)
    method = TopDownMethod(release)
    harness.make_stages(home, method, SPINE, method.counts_stage, INVARIANTS)
    harness.charge(home, method)
    with harness.open_warehouse(home).session(reads=[Zone.PUBLIC]) as session:
        return persons, count_places(session, release)


def draw(home: str, households: int) -> None:
    harness.make(home, TopDownMethod(declare_release(home, households)))


def estimate(home: str, households: int, **fields: Any) -> tuple[float, float]:
    """Estimate all levels; return the seconds, and the peak memory of all processes together in GiB."""
    release = declare_release(home, households, **fields)
    return harness.time_with_memory(lambda: _estimate_levels(home, release))


def _estimate_levels(home: str, release: TopDownRelease) -> None:
    """Estimate as the stages do: each level separately, and with full estimation the units of all levels at once."""
    warehouse, custody, _ = harness.open_deployment(home)
    warehouse = release.adapt(warehouse)
    if release.design.full:
        make_information(warehouse, custody, release, lambda report: None)
    scopes = list_scopes(release, [])
    units = [scope for scope in scopes if scope.histogram == UNITS.name]
    for scope in scopes:
        if scope not in units:
            estimate_level(warehouse, custody, release, scope, lambda done, parents: None)
    if units:
        with warehouse.in_turns() as turns:
            estimate_levels(turns, custody, release, units, lambda scope, done, parents: None)
    if release.in_parts:
        with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
            unite_states(session, custody, release)


def measure_full() -> list[harness.Result]:
    """Full estimation against estimation from own levels, for one draw of a million persons: seconds, and additional
    GiB of peak memory; and the processor seconds of whole jobs, from the CEF to the publication, for the
    demonstration's census and for a million persons."""
    with harness.temporary_home() as home:
        _, persons, _ = harness.run_step(prepare, home, MILLION).returned
        harness.run_step(draw, home, MILLION)
        own, full = (
            harness.run_step(partial(estimate, estimation=each), home, MILLION).returned for each in ESTIMATIONS
        )
    name = f"TopDown, full estimation against own levels: {persons:,} persons"
    results = [
        harness.Result(f"{name} (s)", full[0], own[0], 1.6),
        harness.Result(f"{name}: peak memory more (GiB)", max(full[1] - own[1], 0.0), 0.5),
    ]
    for households, runs in ((DEMONSTRATION, RUNS), (MILLION, 1)):
        jobs = [partial(_time_whole_job, households, each) for each in reversed(ESTIMATIONS)]
        name = f"TopDown, whole job of {households:,} households, full against own levels (CPU s)"
        results.append(harness.compare(name, *jobs, JOBS, runs, warm_up=True))
    return results


def _time_whole_job(households: int, estimation: str) -> float:
    case = Case("topdown", households, estimation=estimation)
    with harness.temporary_home() as home:
        before = harness.read_processor_seconds()
        case.launch(home, case.releases[-1])
        return harness.read_processor_seconds() - before


def replicate(home: str, households: int) -> tuple[float, float]:
    """Make the replicates; return the seconds, and the peak memory of all processes together in GiB."""
    warehouse, custody, _ = harness.open_deployment(home)
    release = declare_release(home, households, replicates=REPLICATES)
    return harness.time_with_memory(
        lambda: make_replicates(warehouse, custody, TopDownReplication(release), lambda done, declared: None)
    )


def declare_release(home: str, households: int, **fields: Any) -> TopDownRelease:
    """The release of a synthetic census with so many households. Each level is estimated separately, unless the fields
    of its declaration set another estimation."""
    fields = {"estimation": "own_levels", **fields}
    dataset = harness.declare_census(households, TWO_STATES)
    declaration = TopDownDeclaration(
        name="redistricting", dataset=dataset.name, title="Redistricting data", processes=PROCESSES, **fields
    )
    return TopDown(declaration).release(dataset, Path(home) / "published")


def measure_steps() -> list[harness.Result]:
    """Processor seconds for a dozen block groups of 28 blocks and about 45 cells, of production's shape. Totals are
    fixed as in production's last pass. The set-up of Clarabel's problem is not timed. Both solutions must reach the
    same objective."""
    problems = _draw_block_groups(fixed=True)
    solve(*problems[0].build_problem())
    ours = other = 0.0
    for siblings in problems:
        queries, constraints = siblings.build_problem()
        peer = ConvexProblem(queries, constraints)
        seconds, solution = harness.time_call(partial(solve, queries, constraints), time.thread_time)
        ours += seconds
        seconds, x = harness.time_call(peer.solve, time.thread_time)
        other += seconds
        least = compute_objective(queries, x)
        if abs(compute_objective(queries, solution.x) - least) > 1e-6 * least:
            raise AssertionError("the two solutions differ by more than rounding")
    cells = round(float(np.mean([np.count_nonzero(siblings.parent) for siblings in problems])))
    shape = f"{len(problems)} × {BLOCKS} blocks, {cells} cells"
    problems = _draw_block_groups(fixed=False)
    _estimate_siblings(problems[0])
    whole = sum(harness.time_call(partial(_estimate_siblings, siblings), time.thread_time)[0] for siblings in problems)
    return [
        harness.Result(f"TopDown, real-valued step, against Clarabel: {shape} (s)", ours, other, 1 / 20),
        harness.Result(f"TopDown, both passes and rounding: {shape} (s)", whole, 0.1 * len(problems)),
    ]


def measure_information() -> list[harness.Result]:
    """Processor seconds for the linear estimates of a tree of 11 places with production's queries and two fixed totals,
    upwards and downwards, against the least-squares problem of all its 2,268 cells as one dense matrix, which must give
    the same. The set-up of the matrix is not timed."""
    tree = draw_five()
    dense, split = Dense(tree), Decomposition(tree.schema)
    tree.descend(tree.inform())
    ours, found = harness.time_call(lambda: tree.descend(tree.inform()), time.process_time)
    other, (expected, _) = harness.time_call(partial(dense.solve, np.zeros((0, len(dense.cell)))), time.process_time)
    for own, of_level in zip(found, expected, strict=True):
        if np.abs(own.estimate - split.arrange(of_level)).max() > 1e-8 * np.abs(of_level).max():
            raise AssertionError("the two solutions differ by more than rounding")
    return [harness.Result("TopDown, linear estimates of a tree, against one dense problem (s)", ours, other, 1 / 20)]


def _draw_block_groups(*, fixed: bool) -> list[Siblings]:
    """The first random block groups with enough cells."""
    groups: list[Siblings] = []
    seed = 0
    while len(groups) < PROBLEMS:
        siblings = draw_siblings("Block", BLOCKS, 60, 3, 1_800, seed=seed, fixed=fixed)
        seed += 1
        if np.count_nonzero(siblings.parent) >= FEWEST_CELLS:
            groups.append(siblings)
    return groups


def _estimate_siblings(siblings: Siblings) -> None:
    schema, measurements, limits = siblings.schema, siblings.measurements, siblings.limits
    estimate_siblings(schema, measurements, limits, siblings.parent, total_first=True)


def measure_improvement() -> list[harness.Result]:
    """Mean absolute errors of the estimates against the errors of the raw measurements, both over all places and draws.
    The demonstration's release is made as declared, with fixed keys, so that every run gives the same result."""
    errors: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    tree = dg.ComponentTree.for_project(PROJECT)
    datasets = {dataset.declaration.name: dataset.declaration for dataset in tree.get_all_components(Dataset)}
    (component,) = tree.get_all_components(TopDown)
    for number in range(DRAWS):
        key = sha256(f"accuracy {number}".encode()).hexdigest()
        with harness.temporary_home() as home, patch.dict(os.environ, {"STIRRED_MASTER_KEY": key}):
            declaration = component.declaration.model_copy(update={"processes": 1})
            dataset = datasets[declaration.dataset]
            release = TopDown(declaration).release(dataset, Path(home) / "published")
            charge(home, release)
            harness.make(home, TopDownMethod(release))
            _estimate_levels(home, release)
            with harness.open_warehouse(home).session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
                for error in measure_accuracy(session, release):
                    if error.metric in ACCURACY_LIMITS and error.value is not None:
                        errors[error.metric, error.level, error.source].append(error.value)
    return [
        harness.Result(
            f"TopDown, error of {name}, {words(level)}: estimates against raw",
            mean(errors[metric, level, "post-processed"]),
            mean(errors[metric, level, "raw"]),
            limit,
        )
        for metric, (name, limit) in ACCURACY_LIMITS.items()
        for level in release.levels
        if (metric, level, "raw") in errors
    ]
