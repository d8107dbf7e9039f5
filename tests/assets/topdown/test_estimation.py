"""From stored measurements down the tree: every constraint exact, resumable, and the same on any workers."""

import csv
import io
import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import dagster as dg
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from assets.measurement.method import GridError
from assets.release.draw import StaleInputError
from assets.release.gate import ReleaseContext
from assets.topdown import estimation, reading, workers
from assets.topdown.estimated import build_estimates
from assets.topdown.estimation import Estimation, estimate_level
from assets.topdown.gates import topdown_gates
from assets.topdown.invariants import Region, derive_all_limits
from assets.topdown.reading import Scope
from assets.topdown.release import TopDownRelease
from mechanisms.topdown.design import GROUP_QUARTERS, HOUSING_UNITS, POPULATION, unbounded
from mechanisms.topdown.estimation import Families, Measurement
from mechanisms.topdown.feasibility import FREE, InfeasibleError, Limits
from mechanisms.topdown.least_squares import NotSolvedError
from mechanisms.topdown.schema import PERSONS, UNITS
from mechanisms.topdown.sets import nearest_counts
from resources.processes import WorkerError
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.assets.topdown.table_oracle import (
    PRODUCTION_LIKE,
    TYPES,
    Country,
    countries,
    custody_of,
    estimated,
    peopled,
    release_of,
    village,
    write_invariants,
    write_measurements,
    write_spine,
    written,
)
from tests.depth import deep_cases, examples, quick_cases
from tests.phsafe_deployments import census
from tests.topdown_deployments import TO_PUBLICATION, redeclared, topdown_deployment, with_quarters

ROOT = Path(__file__).resolve().parents[3]

GATES = (
    "invariants_exact", "children_add_up", "whole_numbers", "structural_zeros", "inequalities",
    "persons_and_units_agree",
)  # fmt: skip


EXACT = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
"""The same examples every time; a failing one is small enough without shrinking, which would take minutes."""


class Standing:
    """As much of a context as gates on estimates look at."""

    def __init__(self, warehouse: Warehouse, release: TopDownRelease) -> None:
        self.warehouse, self.release = warehouse, release


def broken(warehouse: Warehouse, release: TopDownRelease) -> dict[str, list[str]]:
    deployment = cast(ReleaseContext[TopDownRelease], Standing(warehouse, release))
    of_estimates = [gate for gate in topdown_gates(release) if gate.name in GATES]
    return {gate.name: found for gate in of_estimates if (found := gate.problems(deployment))}


def silent(done: int, parents: int) -> None:
    assert 0 < done <= parents


def estimate_all(warehouse: Warehouse, release: TopDownRelease) -> dict[str, Estimation]:
    return {
        level: estimate_level(warehouse, custody_of(warehouse), release, Scope(level), silent)
        for level in release.levels
    }


@dataclass(frozen=True)
class Estimated:
    """A village all of whose levels are estimated."""

    country: Country
    release: TopDownRelease
    warehouse: Warehouse
    made: dict[str, Estimation]


@pytest.fixture(scope="module")
def estimated_village(tmp_path_factory: pytest.TempPathFactory) -> Estimated:
    """Its estimates pass every gate; no test may change it."""
    country = village()
    release = release_of(country)
    warehouse = written(tmp_path_factory.mktemp("village"), release, country)
    made = estimate_all(warehouse, release)
    assert broken(warehouse, release) == {}
    return Estimated(country, release, warehouse, made)


@pytest.fixture
def copied(estimated_village: Estimated, tmp_path: Path) -> Estimated:
    """A copy of the village, for a test to change."""
    folder = shutil.copytree(estimated_village.warehouse.folder, tmp_path / "copied")
    return replace(estimated_village, warehouse=Warehouse(folder=str(folder), threads=1))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The levels that are computed, in order."""
    levels: list[str] = []
    right = reading.Reading.tasks

    def spied(self: reading.Reading) -> Any:
        levels.append(str(self.scope))
        return right(self)

    monkeypatch.setattr(reading.Reading, "tasks", spied)
    return levels


def held(draw: st.DrawFn, levels: tuple[str, ...]) -> dict[str, str]:
    """Any invariants; the population's at any level."""
    found = {POPULATION: draw(st.sampled_from(levels))} if draw(st.booleans()) else {}
    return found | {name: levels[-1] for name in (HOUSING_UNITS, GROUP_QUARTERS) if draw(st.booleans())}


@st.composite
def declared(draw: st.DrawFn) -> tuple[Country, TopDownRelease]:
    country = draw(countries())
    return country, release_of(country, held(draw, country.levels))


def require_constraints(warehouse: Warehouse, country: Country, release: TopDownRelease) -> None:
    """Without the code that estimates, and without the gates' SQL."""
    found = {level: estimated(warehouse, release, level) for level in release.levels}
    for depth, level in enumerate(release.levels):
        persons, units = found[level]["persons"], found[level]["units"]
        if depth:
            for histogram, above in found[release.levels[depth - 1]].items():
                summed = np.zeros_like(above)
                np.add.at(summed, country.parents[depth - 1], found[level][histogram])
                assert np.array_equal(summed, above)
        assert persons.min() >= 0
        assert units.min() >= 0
        assert not persons[:, ~PERSONS.possible].any()
        of_type = PERSONS.groups.answer(persons)
        for name, at in release.design.invariants.items():
            if depth > release.levels.index(at):
                continue
            exact = country.held(name, level)
            if name == POPULATION:
                assert np.array_equal(persons.sum(axis=1), exact[:, 0])
            elif name == HOUSING_UNITS:
                assert np.array_equal(units.sum(axis=1), exact[:, 0])
                assert np.all(of_type[:, 0] <= 99_999 * exact[:, 0])
            else:
                assert np.all(exact <= of_type[:, 1:])
                assert np.all(of_type[:, 1:] <= 99_999 * exact)


@pytest.mark.deep
@settings(EXACT, max_examples=examples(15))
@given(declared(), st.integers(0, 2**32 - 1))
def test_every_constraint_is_exact_at_every_level(
    country_and_release: tuple[Country, TopDownRelease], seed: int
) -> None:
    country, release = country_and_release
    with tempfile.TemporaryDirectory() as folder:
        warehouse = written(Path(folder), release, country, seed=seed, scale=3.0)
        estimate_all(warehouse, release)
        require_constraints(warehouse, country, release)
        assert broken(warehouse, release) == {}


@pytest.mark.prove
@settings(EXACT, max_examples=4)
@given(declared())
def test_without_noise_the_truth_comes_back(country_and_release: tuple[Country, TopDownRelease]) -> None:
    country, release = country_and_release
    with tempfile.TemporaryDirectory() as folder:
        warehouse = written(Path(folder), release, country, scale=0.0)
        estimate_all(warehouse, release)
        for level in release.levels:
            for histogram, found in estimated(warehouse, release, level).items():
                assert np.array_equal(found, country.truth(histogram, level))


def crowded() -> Country:
    """Two states, five counties, fourteen blocks, with five types of dwelling, several in one block."""
    random = np.random.default_rng(0)
    return peopled(village().parents, [0, 1, 2, 5, 6], random, persons=1.0)


ALL_IN_BLOCKS = dict.fromkeys((POPULATION, HOUSING_UNITS, GROUP_QUARTERS), "Block")


@pytest.mark.prove
def test_population_is_held_in_blocks_together_with_group_quarters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under noise that drowns all counts. With this seed, counts of several types together must be decided at every
    level but the finest. It makes no difference whether that is a parent at a time or all at once."""
    country = crowded()
    release = release_of(country, ALL_IN_BLOCKS, rho=Fraction(1, 1000))
    warehouse = written(tmp_path / "whole", release, country, seed=1)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        sets = [limits.sets for limits in derive_all_limits(session, release)["persons"]]
    assert [each is not None for each in sets] == [True, True, True, False]
    decided: list[int] = []

    def spied(real: Any, *rest: Any) -> Any:
        decided.append(len(real))
        return nearest_counts(real, *rest)

    monkeypatch.setattr("mechanisms.topdown.estimation.nearest_counts", spied)
    whole = estimate_all(warehouse, release)
    assert decided == [1, 2, 3]
    require_constraints(warehouse, country, release)
    assert broken(warehouse, release) == {}
    monkeypatch.setattr(reading, "PLACES_AT_A_TIME", 3)
    monkeypatch.setattr(reading, "PLACES_OF_A_TASK", 1)
    parts = estimate_all(written(tmp_path / "parts", release, country, seed=1), release)
    assert {level: (each.made_of, each.content) for level, each in parts.items()} == {
        level: (each.made_of, each.content) for level, each in whole.items()
    }


def test_the_account_covers_everything_that_limits_follow_from() -> None:
    held = Region(("State", "Block"), (np.array([0, 0]),), {"population": np.array([[1], [2]])}, {"persons": 9}, "01")
    changed = [
        replace(held, levels=("State", "Tract")),
        replace(held, parents=(np.array([0, 1]),)),
        replace(held, invariants={"population": np.array([[2], [1]])}),
        replace(held, invariants={"housing_units": np.array([[1], [2]])}),
        replace(held, invariants={"population": np.array([[1, 2]])}),
        replace(held, invariants={}),
        replace(held, unbounded={"persons": 10}),
        replace(held, state="02"),
    ]
    assert len({each.digest for each in (held, *changed)}) == 1 + len(changed)


@pytest.mark.prove
def test_a_census_with_all_invariants_in_blocks_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From source files to publication; every block has in P1 as many persons as the files have."""
    monkeypatch.setenv("STIRRED_TEST_MASTER_KEY", "5a" * 32)
    files = with_quarters(census())
    products = ["P1", "persons", "units"]
    deployment = topdown_deployment(tmp_path / "deployment", files=files, invariants=ALL_IN_BLOCKS, products=products)
    deployment.run(*TO_PUBLICATION)
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        limits = derive_all_limits(session, deployment.release)["persons"]
    assert all(each.sets is not None for each in limits[:-1])
    codes = deployment.release.spine["Block"].columns
    block_of = {row["MAFID"]: "".join(row[code] for code in codes) for row in files["geo"]}
    persons = dict.fromkeys(block_of.values(), 0) | Counter(block_of[row["MAFID"]] for row in files["persons"])
    table = csv.DictReader(io.StringIO(deployment.published()["p1.csv"].decode()))
    assert {row["geoid"]: int(row["P0010001"]) for row in table if row["level"] == "Block"} == persons


@pytest.mark.deep
def test_a_killed_run_goes_on_at_the_level_it_reached(
    estimated_village: Estimated, tmp_path: Path, computed: list[str]
) -> None:
    release, whole = estimated_village.release, estimated_village.made
    warehouse = written(tmp_path, release, estimated_village.country)
    for level in release.levels[:2]:
        estimate_level(warehouse, custody_of(warehouse), release, Scope(level), silent)
    computed.clear()
    resumed = estimate_all(warehouse, release)
    assert computed == ["County", "Block"]
    assert {level: (each.made_of, each.content) for level, each in resumed.items()} == {
        level: (each.made_of, each.content) for level, each in whole.items()
    }
    computed.clear()
    assert estimate_all(warehouse, release) == resumed
    assert computed == []


def test_a_level_that_was_not_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    country = village()
    release = release_of(country)
    warehouse = written(tmp_path, release, country)
    before = estimate_level(warehouse, custody_of(warehouse), release, Scope("Nation"), silent)
    monkeypatch.setattr(reading, "PLACES_OF_A_TASK", 1)

    def killed(task: workers.Task) -> workers.Outcome:
        if task.first:
            raise KeyboardInterrupt
        return workers.estimate_task(task)

    estimate_level(warehouse, custody_of(warehouse), release, Scope("State"), silent)
    with monkeypatch.context() as patched:
        whole = workers.estimate_task
        patched.setattr(estimation, "estimate_task", lambda task: whole(task) if not task.first else killed(task))
        with pytest.raises(KeyboardInterrupt):
            estimate_level(warehouse, custody_of(warehouse), release, Scope("County"), silent)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert not session.columns(release.public("level_county"))
        assert estimation.read_estimation(session, custody_of(warehouse), release, Scope("Nation")) == before


@pytest.mark.prove
def test_another_draw_makes_every_level_again(copied: Estimated, computed: list[str]) -> None:
    release, warehouse, first = copied.release, copied.warehouse, copied.made
    with warehouse.session(writes=Zone.PUBLIC) as session:
        write_measurements(session, release, copied.country, seed=1, draw="two")
    second = estimate_all(warehouse, release)
    assert computed == list(release.levels)
    assert all(first[level].made_of != second[level].made_of for level in release.levels)
    assert all(first[level].content != second[level].content for level in release.levels[1:])


@deep_cases(1)
@pytest.mark.prove
@pytest.mark.parametrize("change", ["invariant", "spine", "method"])
def test_whatever_estimates_depend_on_makes_them_again(
    copied: Estimated, computed: list[str], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    country, release, warehouse = copied.country, copied.release, copied.warehouse
    with warehouse.session(writes=Zone.PUBLIC) as session:
        if change == "invariant":
            more = country.held(GROUP_QUARTERS, "Block")
            fullest = np.unravel_index(
                PERSONS.groups.answer(country.truth("persons", "Block"))[:, 1:].argmax(), more.shape
            )
            more[fullest] += 1
            write_invariants(session, release, country, {GROUP_QUARTERS: more})
        elif change == "spine":
            counties = np.array([0, 0, 0, 1, 1])
            write_spine(session, release, replace(country, parents=(country.parents[0], counties, country.parents[2])))
    if change == "method":
        monkeypatch.setattr(estimation, "VERSION", estimation.VERSION + 1)
    if change == "spine":
        release = release_of(country, {HOUSING_UNITS: "Block", GROUP_QUARTERS: "Block"})
        with warehouse.session(writes=Zone.PUBLIC) as session:
            write_invariants(session, release, country)
    estimate_all(warehouse, release)
    assert computed == list(release.levels)


@pytest.mark.deep
def test_estimates_that_were_changed_afterwards_are_made_again(copied: Estimated, computed: list[str]) -> None:
    release, warehouse, made = copied.release, copied.warehouse, copied.made
    tamper(warehouse, release, "County", lambda rows: rows[1:])
    tamper(warehouse, release, "Block", lambda rows: rows[1:])
    with pytest.raises(StaleInputError, match=r"estimates of County .* materialize level_county first"):
        estimate_level(warehouse, custody_of(warehouse), release, Scope("Block"), silent)
    computed.clear()
    again = estimate_all(warehouse, release)
    assert computed == ["County", "Block"]
    assert {level: each.content for level, each in again.items()} == {
        level: each.content for level, each in made.items()
    }


def test_a_level_waits_for_the_one_above(tmp_path: Path) -> None:
    country = village()
    release = release_of(country)
    warehouse = written(tmp_path, release, country)
    with pytest.raises(StaleInputError, match=r"estimates of Nation .* materialize level_nation first"):
        estimate_level(warehouse, custody_of(warehouse), release, Scope("State"), silent)


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("moment", ["reading", "writing"])
def test_measurements_that_are_drawn_anew_meanwhile_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    country = village()
    release = release_of(country)
    warehouse = written(tmp_path, release, country)
    for level in release.levels[:3]:
        estimate_level(warehouse, custody_of(warehouse), release, Scope(level), silent)
    monkeypatch.setattr(reading, "PLACES_AT_A_TIME", 3)
    monkeypatch.setattr(estimation, "SECONDS_BETWEEN_REPORTS", 0.0)

    def interfering(done: int, parents: int) -> None:
        if moment == "reading" or done == parents:
            with warehouse.session(writes=Zone.PUBLIC) as session:
                write_measurements(session, release, country, seed=5, draw="meanwhile")

    with pytest.raises(StaleInputError, match="anew"):
        estimate_level(warehouse, custody_of(warehouse), release, Scope("Block"), interfering)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert not session.columns(release.public("level_block"))


@pytest.mark.deep
def test_missing_measurements_are_refused(tmp_path: Path) -> None:
    country = village()
    release = release_of(country)
    warehouse = written(tmp_path, release, country)
    smaller = replace(country, parents=(*country.parents[:-1], country.parents[-1][:-1]))
    smaller = replace(smaller, histograms={name: each[:-1] for name, each in country.histograms.items()})
    for level in release.levels[:3]:
        estimate_level(warehouse, custody_of(warehouse), release, Scope(level), silent)
    with warehouse.session(writes=Zone.PUBLIC) as session:
        write_measurements(session, release, smaller)
    with pytest.raises(GridError, match="persons Block"):
        estimate_level(warehouse, custody_of(warehouse), release, Scope("Block"), silent)


@pytest.mark.prove
def test_how_many_processes_and_places_at_a_time_makes_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    country = village(seed=4)
    release = release_of(country)
    alone = estimate_all(written(tmp_path / "alone", release, country), release)
    monkeypatch.setattr(reading, "PLACES_AT_A_TIME", 3)
    monkeypatch.setattr(reading, "PLACES_OF_A_TASK", 1)
    warehouse = written(tmp_path / "together", release, country)
    for level in release.levels[:-1]:
        assert (
            estimate_level(warehouse, custody_of(warehouse), release, Scope(level), silent).content
            == alone[level].content
        )
    together = redeclared(release, processes=2)
    assert (
        estimate_level(warehouse, custody_of(warehouse), together, Scope("Block"), silent).content
        == alone["Block"].content
    )


def cramped(tasks: int) -> Iterator[workers.Task]:
    """Tasks without a solution: at least two units, and at most one."""
    limits = Limits(np.full((1, 1), 2), np.full((1, 1), 1), np.full(1, FREE))
    measurements = (Measurement("detailed", Fraction(1), np.zeros((1, UNITS.size), dtype=np.int32)),)
    for number in range(tasks):
        names = (f"blocks of county {number:03}",)
        families = Families(UNITS, names, np.array([0, 1]), measurements, limits, True, None)
        yield workers.Task(number, 1, {"units": families})


@pytest.mark.deep
def test_what_a_process_cannot_solve_is_named() -> None:
    with pytest.raises(NotSolvedError, match=r"^units of blocks of county 0\d\d: 1 children of 2 cells"):
        list(workers.perform(workers.estimate_task, cramped(30), 2))


class Deadly:
    """Ends the process that receives it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


@pytest.mark.prove
def test_a_process_that_ends_before_its_time_is_an_error() -> None:
    task = workers.Task(0, 1, cast(Any, Deadly()))
    with pytest.raises(WorkerError, match="it was killed, or ran out of memory"):
        list(workers.perform(workers.estimate_task, iter([task]), 2))


def endless() -> None:
    """Estimate without an end in two processes, and print their ids after 20 tasks."""
    tasks = (replace(next(cramped(1)), families={}, first=number) for number in itertools.count())
    for number, _ in enumerate(workers.perform(workers.estimate_task, tasks, 2)):
        if number == 20:
            print(*(process.pid for process in multiprocessing.active_children()), flush=True)


@pytest.mark.prove
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_the_processes_end_with_the_one_that_was_killed() -> None:
    code = "from tests.assets.topdown.test_estimation import endless; endless()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        started = [int(number) for number in run.stdout.readline().split()]
        run.kill()
    assert len(started) == 2
    deadline = time.monotonic() + 600
    while any(map(runs, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(runs, started))


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.prove
def test_progress_is_told_as_parents_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    country = village()
    release = release_of(country)
    warehouse = written(tmp_path, release, country)
    for level in release.levels[:3]:
        estimate_level(warehouse, custody_of(warehouse), release, Scope(level), silent)
    monkeypatch.setattr(reading, "PLACES_OF_A_TASK", 1)
    monkeypatch.setattr(estimation, "SECONDS_BETWEEN_REPORTS", 0.0)
    told: list[tuple[int, int]] = []
    estimate_level(
        warehouse, custody_of(warehouse), release, Scope("Block"), lambda done, parents: told.append((done, parents))
    )
    assert told == [(done, 5) for done in range(1, 6)]


@pytest.mark.prove
def test_the_assets_tell_how_far_they_are_and_how_good_the_estimates_are(tmp_path: Path) -> None:
    country = village()
    release = release_of(country)
    warehouse = written(tmp_path, release, country)
    instance = dg.DagsterInstance.ephemeral()
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    resources = {"warehouse": warehouse, "custody": custody_of(warehouse)}
    result = dg.materialize(build_estimates(release), quiet, instance=instance, resources=resources)
    said = [event.user_message for event in instance.all_logs(result.run_id) if not event.is_dagster_event]
    assert said == ["nation", "state: 1 of 1 nations", "county: 2 of 2 states", "block: 5 of 5 counties"]
    metadata = {
        event.asset_key.path[-1]: event.materialization.metadata
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }
    assert list(metadata) == ["level_nation", "level_state", "level_county", "level_block"]
    assert metadata["level_block"]["places"].value == 14
    assert metadata["level_block"]["counties"].value == 5
    assert cast(float, metadata["level_block"]["largest duality gap, relative"].value) <= 1e-9
    assert broken(warehouse, release) == {}


Rows = list[dict[str, Any]]


def tamper(warehouse: Warehouse, release: TopDownRelease, level: str, change: Callable[[Rows], Rows]) -> None:
    """Change the stored estimates of a level, as any writer of the file can."""
    table = release.public(release.estimates(level))
    with warehouse.session(writes=Zone.PUBLIC) as session:
        rows = change(session.arrow("warehouse/all", source=table).to_pylist())
        session.create(table, "warehouse/all", source=session.register("changed", pa.Table.from_pylist(rows)))


def more_of(histogram: str, by: int) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        row = next(row for row in rows if row["histogram"] == histogram)
        row["count"] += by
        return rows

    return change


def added(histogram: str, number: int, cell: int, count: float) -> Callable[[Rows], Rows]:
    return lambda rows: [*rows, {"histogram": histogram, "number": number, "cell": cell, "count": count}]


def without_type(rows: Rows) -> Rows:
    """The rows without prisoners."""
    return [row for row in rows if row["histogram"] != "persons" or row["cell"] // 252 != 1]


MINOR_IN_NURSING_FACILITY = 3 * 252
ADULT_IN_MILITARY_QUARTERS = 6 * 252 + 126

TAMPERED = [
    ("State", more_of("persons", 1), "invariants_exact", "population: places of State"),
    ("Block", more_of("units", 1), "invariants_exact", "housing_units: places of Block"),
    ("County", more_of("units", 1), "invariants_exact", "housing_units: places of County"),
    ("County", more_of("persons", 1), "children_add_up",
     "cells of State that are not the sums over their counties"),
    ("Block", lambda rows: rows[1:], "children_add_up", "cells of County"),
    ("Block", more_of("persons", -1_000), "whole_numbers", "counts of Block that are not positive: 1"),
    ("Block", added("persons", 0, 0, 0.5), "whole_numbers", "columns are not"),
    ("Block", added("persons", 0, 0, 0), "whole_numbers", "not positive"),
    ("Block", added("persons", 0, 2016, 1), "whole_numbers", "of unknown cells: 1"),
    ("Block", added("horses", 0, 0, 1), "whole_numbers", "of unknown cells: 1"),
    ("Block", added("persons", 14, 0, 1), "whole_numbers", "of unknown places: 1"),
    ("Block", lambda rows: [*rows, rows[0]], "whole_numbers", "repeated: 1"),
    ("County", added("persons", 0, MINOR_IN_NURSING_FACILITY, 2), "structural_zeros",
     "persons of County that the"),
    ("Block", added("persons", 0, ADULT_IN_MILITARY_QUARTERS, 1), "structural_zeros",
     "persons of a type but no dwell"),
    ("Nation", added("persons", 0, ADULT_IN_MILITARY_QUARTERS, 1), "structural_zeros",
     "group_quarters: places of Nat"),
    ("Block", without_type, "inequalities", "group_quarters: places of Block with fewer persons"),
    ("County", more_of("persons", 10**7), "inequalities", "places of County with over 99,999 persons"),
]  # fmt: skip


@deep_cases(3)
@quick_cases(1)
@pytest.mark.parametrize(("level", "change", "gate", "says"), TAMPERED)
def test_tables_that_break_a_rule_fail_its_gate(
    copied: Estimated, level: str, change: Callable[[Rows], Rows], gate: str, says: str
) -> None:
    tamper(copied.warehouse, copied.release, level, change)
    found = broken(copied.warehouse, copied.release)
    assert any(says in finding for finding in found[gate]), found


def limits_in(folder: Path, release: TopDownRelease, country: Country, said: dict[str, Any]) -> dict[str, Any]:
    warehouse = Warehouse(folder=str(folder), threads=1)
    with warehouse.session(writes=Zone.PUBLIC) as session:
        write_spine(session, release, country)
        write_invariants(session, release, country, said)
        return derive_all_limits(session, release)


@pytest.mark.deep
@settings(EXACT, max_examples=examples(50))
@given(countries(most_children=2), st.data())
def test_what_can_be_met_is_accepted_and_what_cannot_is_refused(country: Country, data: st.DataObject) -> None:
    """Facts are declared at random. Filling the blocks up decides whether persons by type exist for all of them, which
    is exact because totals are held for disjoint places; the persons found are within the limits of every level."""
    release = release_of(country, held(data.draw, country.levels))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    invariants, blocks = release.design.invariants, country.places("Block")
    said: dict[str, Any] = {}
    lower, upper = np.zeros((blocks, TYPES), np.int64), np.full((blocks, TYPES), 10**9)
    if GROUP_QUARTERS in invariants:
        said[GROUP_QUARTERS] = random.integers(0, 2, (blocks, TYPES - 1)) * (random.random((blocks, TYPES - 1)) < 0.2)
        lower[:, 1:], upper[:, 1:] = said[GROUP_QUARTERS], 99_999 * said[GROUP_QUARTERS]
    if HOUSING_UNITS in invariants:
        said[HOUSING_UNITS] = random.integers(0, 2, (blocks, 1))
        upper[:, 0] = 99_999 * said[HOUSING_UNITS][:, 0]
    possible, filled = True, lower.copy()
    if POPULATION in invariants:
        level = invariants[POPULATION]
        said[POPULATION] = random.integers(0, 4, (country.places(level), 1)) * random.integers(1, 3)
        place_of = np.arange(blocks)
        for depth in range(len(country.parents) - 1, release.levels.index(level) - 1, -1):
            place_of = country.parents[depth][place_of]
        for place, (total,) in enumerate(said[POPULATION]):
            for block in np.flatnonzero(place_of == place):
                for kind in range(TYPES):
                    lacking = total - filled[place_of == place].sum()
                    filled[block, kind] += max(0, min(lacking, upper[block, kind] - filled[block, kind]))
            possible &= filled[place_of == place].sum() == total
    with tempfile.TemporaryDirectory() as folder:
        try:
            limits = limits_in(Path(folder), release, country, said)
        except InfeasibleError:
            assert not possible
            return
    assert possible
    for level, each in zip(release.levels, limits["persons"], strict=True):
        found = country.added_up(filled, level)
        assert np.all((each.lower <= found) & (found <= each.upper))
        assert np.all((each.totals == -1) | (each.totals == found.sum(axis=1)))
    for level, each in zip(release.levels, limits["units"], strict=True):
        if HOUSING_UNITS in invariants:
            assert np.array_equal(each.totals, country.added_up(said[HOUSING_UNITS], level)[:, 0])
        else:
            assert np.all(each.totals == -1)
            assert each.upper.min() >= 10**9


def one_less(counts: Any, place: int) -> Any:
    changed = counts.copy()
    changed[place] = 0
    return changed


@pytest.mark.parametrize(
    ("level", "population", "says"),
    [
        ("Block", 0, r"persons .*: Block: .* less than the lower bounds' sum, in \d+ of \d+ places \(State \w+\)"),
        ("State", 0, r"persons .*: State: .* less than the lower bounds' sum, in 1 of 1 places \(State \w+\)"),
        ("Nation", 10**12, r"persons .*: Nation: the fixed total is more than the upper bounds' sum, in 1 of 1 places"),
    ],
)
def test_a_population_that_facilities_and_housing_contradict_is_refused(
    tmp_path: Path, level: str, population: int, says: str
) -> None:
    country = village()
    release = release_of(country, PRODUCTION_LIKE | {POPULATION: level})
    said = {POPULATION: np.full((country.places(level), 1), population)}
    with pytest.raises(InfeasibleError, match=says.replace("places", "units")):
        limits_in(tmp_path, release, country, said)


def test_a_facility_in_a_block_without_persons_is_refused(tmp_path: Path) -> None:
    country = village()
    release = release_of(country, PRODUCTION_LIKE | {POPULATION: "Block"})
    block = int(np.flatnonzero(country.facilities.sum(axis=1))[0])
    persons = country.held(POPULATION, "Block")
    persons[block] = 0
    with pytest.raises(InfeasibleError, match=r"village/redistricting: .*Block.* in 1 of \d+ units \(State \w+\)"):
        limits_in(tmp_path, release, country, {POPULATION: persons})


def test_counts_that_are_missing_are_refused(tmp_path: Path) -> None:
    country = village()
    release = release_of(country)
    said = {HOUSING_UNITS: country.held(HOUSING_UNITS, "Block")[:-1]}
    with pytest.raises(InfeasibleError, match=r"housing_units: \d+ counts, not 1 for each of \d+ places"):
        limits_in(tmp_path, release, country, said)


def test_without_an_invariant_bounds_add_up_exactly_and_rule_out_nothing() -> None:
    assert unbounded(14, TYPES) == 10**9
    most = unbounded(10**7, TYPES)
    assert 10**8 <= most <= 2**53 // (10**7 * TYPES)
