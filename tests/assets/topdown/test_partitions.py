"""Estimates made state by state, each state in a run of its own: the same as in one run, and refused if incomplete."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg
import duckdb
import pyarrow as pa
import pytest

from assets.confidentiality import find_leaks
from assets.gates.shared import all_gates
from assets.measurement.method import GridError
from assets.publication.audit import audit
from assets.release.draw import StaleInputError
from assets.release.gate import find_verdicts
from assets.release.release import DeclarationError
from assets.release.verdicts import VERDICTS
from assets.topdown import gates
from assets.topdown.drawing import Drawing
from assets.topdown.estimation import estimate_level, unite_states
from assets.topdown.measured import keep_charged, measure_state
from assets.topdown.measurements import Stream, compute_stored_version
from assets.topdown.reading import list_scopes
from assets.topdown.records import store_records, unite_records
from assets.topdown.release import SpineError, TopDownRelease
from assets.topdown.tables import build_redistricting
from resources.statements import Table, Zone
from resources.warehouse import Warehouse, WarehouseError
from tests.assets.topdown.products import LISTS
from tests.assets.topdown.table_oracle import Country, custody_of, release_of, village, write_measurements, written
from tests.deployments import Deployment
from tests.depth import quick_cases
from tests.gates import executes
from tests.lake import make_lake
from tests.topdown_deployments import (
    FOUR_LEVELS,
    OF_STATES,
    THREE_LEVELS,
    TO_CHARGE,
    TWO_LEVELS,
    redeclared,
    topdown_deployment,
)
from tests.whole_repository import known

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
FIRST, MEASURED, ABOVE, STATES, LAST = (
    f"{job}town__redistricting" for job in ("", "measurements__", "before_states__", "states__", "publication__")
)


@pytest.fixture(scope="module")
def key() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", "5a" * 32)
        yield


def execute(deployment: Deployment[Any], job: str, *, state: str | None = None, raises: bool = True) -> Any:
    """Run a job. Unless it may fail, every check that it evaluates must pass."""
    repository = deployment.definitions.get_repository_def()
    with known(repository):
        result = repository.get_job(job).execute_in_process(
            run_config=QUIET, instance=deployment.instance, partition_key=state, raise_on_error=raises
        )
    assert not raises or failed_checks(result) == set()
    return result


def failed_checks(result: dg.ExecuteInProcessResult) -> set[str]:
    """The checks that a run evaluated, and that did not pass."""
    return {each.check_name for each in result.get_asset_check_evaluations() if not each.passed}


def states_of(deployment: Deployment[Any]) -> list[str]:
    return sorted(deployment.instance.get_dynamic_partitions("town__redistricting__states"))


def follow(
    deployment: Deployment[Any], instance: dg.DagsterInstance
) -> list[tuple[str | None, str | None, str | None]]:
    """The runs that the sensor launches: job, partition and run key."""
    sensor = deployment.definitions.get_repository_def().get_sensor_def("town__redistricting__states")
    answer: Any = sensor(dg.build_sensor_context(instance=instance))
    requests = getattr(answer, "run_requests", None) or []
    return [(each.job_name, each.partition_key, each.run_key) for each in requests]


def made_by_state(deployment: Deployment[Any]) -> Deployment[Any]:
    """The release, in the runs that the sensor launches; the last state first."""
    execute(deployment, FIRST)
    for of_state, after in ((MEASURED, ABOVE), (STATES, LAST)):
        for state in reversed(states_of(deployment)):
            execute(deployment, of_state, state=state)
        execute(deployment, after)
    return deployment


def failure(result: Any) -> str:
    (failed, *_) = (event for event in result.all_events if event.is_step_failure)
    said = failed.step_failure_data.user_failure_data
    return f"{failed.step_key}: {said.description if said else failed.step_failure_data.error.message}"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, key: None) -> Deployment[TopDownRelease]:
    deployment = topdown_deployment(tmp_path_factory.mktemp("plain"), **FOUR_LEVELS)
    execute(deployment, FIRST)
    return deployment


@dataclass
class Parted:
    """A release that was estimated by state, and the events on the way.

    Attributes:
        begun: a copy of the files after the first run of the release's job.
        first: the state that was missing at first.
        launched: the runs that the sensor launches, before all runs and after each named one.
        runs: the ids of the two runs of the release's job, and between them, the id of the job's run before the levels.
        refused: the refusals while a state was not measured, while one was missing, and while tables of a nonexistent
            state were stored.
        audited: the findings of an audit while a state was missing.
        surplus: the tables of the nonexistent state after the next run of the release's job.
        failed: the checks that failed after an alteration, by the gate that must be among them.
        kinds: the kinds of the ledger's entries while the state was not measured.
        drawn: the tables of measurements after the state's run found other counts than the charged ones.
        published: whether anything was published before the end.
    """

    deployment: Deployment[TopDownRelease]
    begun: Path
    first: str = ""
    launched: dict[str, list[tuple[str | None, str | None, str | None]]] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    audited: list[dict[str, Any]] = field(default_factory=list)
    surplus: set[str] = field(default_factory=set)
    failed: dict[str, set[str]] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    drawn: set[str] = field(default_factory=set)
    published: bool = False


def alter_counts(deployment: Deployment[Any], more: int) -> None:
    """Change the exact counts of the first block."""
    with deployment.opened("confidential") as connection:
        table = deployment.release.confidential("histograms")
        connection.execute(f"UPDATE {table.text} SET count = count + $1 WHERE number = 0", [more])


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory, key: None) -> Parted:
    """In the runs that the sensor launches, the first state last; publishing is tried too early, and after
    alterations."""
    deployment = topdown_deployment(tmp_path_factory.mktemp("parted"), partitions="state", **FOUR_LEVELS)
    made = Parted(deployment, tmp_path_factory.mktemp("begun") / "release")

    def launch(after: str) -> None:
        made.launched[after] = follow(deployment, deployment.instance)

    def publish_too_early() -> Any:
        result = execute(deployment, LAST, raises=False)
        made.published |= deployment.published() != {}
        return result

    launch("nothing")
    made.runs.append(execute(deployment, FIRST).run_id)
    shutil.copytree(deployment.root, made.begun)
    made.first, *others = states_of(deployment)
    launch("the release's job")
    launch("the same")
    alter_counts(deployment, 1)
    made.refused["other counts"] = failure(execute(deployment, MEASURED, state=made.first, raises=False))
    for state in others:
        execute(deployment, MEASURED, state=state)
    alter_counts(deployment, -1)
    with deployment.opened() as connection:
        found = {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
    made.drawn = {name for name in found if name.startswith("noisy_measurements")}
    made.refused["unmeasured"] = failure(execute(deployment, ABOVE, raises=False))
    made.kinds = [entry.kind for entry in deployment.ledger]
    execute(deployment, MEASURED, state=made.first)
    launch("the measurements")
    made.runs.append(execute(deployment, ABOVE).run_id)
    launch("the levels above")
    for state in others:
        execute(deployment, STATES, state=state)
    launch("the other states")
    made.refused["missing"] = failure(publish_too_early())
    context, published = deployment.context, deployment.release.published
    made.audited = audit([context.method], context.nodes, context.ledger, published, "now")["findings"]
    execute(deployment, STATES, state=made.first)
    launch("the first state")
    with deployment.opened() as connection:
        for name in ("level_block", "persons", "noisy_measurements"):
            connection.execute(f'CREATE TABLE "{name}__zz" AS FROM "{name}__{made.first}"')
    made.refused["surplus"] = failure(publish_too_early())
    made.runs.append(execute(deployment, FIRST).run_id)
    launch("the release's job again")
    with deployment.opened() as connection:
        altered = "packed(list_transform(unpacked(answers), x -> x + 1))"
        connection.execute(f'UPDATE "noisy_measurements__{made.first}" SET answers = {altered} WHERE number = 0')
    made.failed["settled"] = failed_checks(execute(deployment, ABOVE, raises=False))
    execute(deployment, MEASURED, state=made.first)
    execute(deployment, ABOVE)
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        made.surplus = {name for name in session.tables(Zone.PUBLIC, deployment.release.schema) if "__zz" in name}
    for gate, table, change in ALTERATIONS:
        with deployment.opened() as connection:
            connection.execute(f'UPDATE "{table}__{made.first}" SET {change}')
        made.failed[gate] = failed_checks(publish_too_early())
    execute(deployment, STATES, state=made.first)
    execute(deployment, LAST)
    return made


@pytest.fixture
def begun(parted: Parted, tmp_path: Path) -> Deployment[TopDownRelease]:
    """As after the first run of the release's job, with the states as partitions but without events."""
    shutil.copytree(parted.begun, tmp_path / "release")
    deployment = topdown_deployment(tmp_path / "release", partitions="state", **FOUR_LEVELS)
    deployment.instance.add_dynamic_partitions("town__redistricting__states", states_of(parted.deployment))
    return deployment


@pytest.fixture(scope="module")
def by_state(parted: Parted) -> Deployment[TopDownRelease]:
    """As published at last."""
    return parted.deployment


ALTERATIONS = (
    ("tables_as_made", "p1", "p0010001 = p0010001 + 1 WHERE level = 'Block'"),
    (
        "microdata_of_estimates",
        "persons",
        "hispanic = CASE hispanic WHEN '1' THEN '2' ELSE '1' END WHERE record = 1",
    ),
    ("estimates_as_made", "level_block", "count = count + 1 WHERE number = 0"),
)
"""By gate, a table of a state and its alteration."""


def data_files(deployment: Deployment[Any]) -> dict[str, bytes]:
    return {name: data for name, data in deployment.published().items() if name.endswith((".csv", ".parquet"))}


def require_same(one: Deployment[Any], other: Deployment[Any]) -> None:
    assert data_files(one) == data_files(other) != {}
    assert [entry.draw_id for entry in one.ledger] == [entry.draw_id for entry in other.ledger] != []
    ours, theirs = one.versions(), other.versions()
    for stage in ("spine", "histograms", "noisy_measurements", "level_us", "level_state", "microdata", "tables"):
        name = one.key(stage).to_user_string()
        assert ours[name] == theirs[name]


def test_tables_wait_for_the_stage_that_refuses_stale_and_missing_states(parted: Parted) -> None:
    release = parted.deployment.release
    (upstream,) = build_redistricting(release).asset_deps.values()
    assert release.key("microdata") in upstream


def test_lists_of_an_earlier_version_stay_or_are_all_packed(tmp_path: Path, key: None) -> None:
    """Wrong programs: draw stored answers again, for which an ephemeral key would be gone; or keep lists of some states
    next to packed answers of others, which no view unites."""
    deployment = topdown_deployment(tmp_path, partitions="state", **THREE_LEVELS)
    deployment.run(*TO_CHARGE)
    context, states = deployment.context, ["10", "44"]
    first, _ = states
    measure = partial(measure_state, context.method, context.warehouse, context.custody, context.ledger)
    tables = [f"noisy_measurements_{end}" for end in ("above", *(f"_{state}" for state in states))]

    def kinds() -> set[str]:
        with deployment.opened() as connection:
            stored = (connection.execute(f'DESCRIBE "{name}"').fetchall() for name in (*tables, "noisy_measurements"))
            return {{column[0]: column[1] for column in columns}["answers"] for columns in stored}

    def failing() -> list[str]:
        gates = (each for each in all_gates(context.method) if each.name in ("measured_once", "settled", "replay"))
        return [problem for gate in gates for problem in gate.evaluate(context)]

    for state in states:
        measure(state)
    deployment.run("noisy_measurements")
    assert (kinds(), failing()) == ({"BLOB"}, [])
    with deployment.opened() as connection:
        united = connection.execute("SELECT sql FROM duckdb_views() WHERE view_name = 'noisy_measurements'").fetchone()
        connection.execute("DROP VIEW noisy_measurements")
        for name in tables:
            connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS {LISTS}'.format(f'"{name}"'))
        connection.execute(united[0])
    measure(first)
    deployment.run("noisy_measurements")
    assert (kinds(), failing()) == ({"INTEGER[]"}, [])
    executes(f'DELETE FROM "noisy_measurements__{first}" WHERE rowid = 0')(deployment)
    measure(first)
    assert (kinds(), failing()) == ({"BLOB"}, [])


@pytest.mark.deep
def test_estimates_by_state_are_those_of_one_run(
    plain: Deployment[TopDownRelease], by_state: Deployment[TopDownRelease]
) -> None:
    """Wrong programs: number the records of each state from 1; store the rows of all states' tables a second time."""
    require_same(plain, by_state)
    assert len(states_of(by_state)) > 1
    release = by_state.release
    with by_state.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert {name for name, is_view in session.tables(Zone.PUBLIC, release.schema).items() if is_view} > {"p1", "h1"}
    for level in release.levels:
        found = []
        for deployment in (plain, by_state):
            with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
                found.append(session.content_version([release.public(release.estimates(level))]))
        assert found[0] == found[1]


@pytest.mark.prove
def test_estimates_by_state_of_a_dataset_in_partitions_are_those_of_one_run(
    plain: Deployment[TopDownRelease], tmp_path: Path, key: None
) -> None:
    """Its partitions are no states."""
    require_same(
        plain, made_by_state(topdown_deployment(tmp_path, parts=("n", "S"), partitions="state", **FOUR_LEVELS))
    )


@pytest.mark.deep
def test_gates_and_the_walk_over_zones_hold_over_partitions(
    plain: Deployment[TopDownRelease], by_state: Deployment[TopDownRelease]
) -> None:
    """The publication has evaluated every gate."""
    assert find_leaks(by_state.context.nodes, by_state.key("publication")) == []
    names = [{gate.name for gate in all_gates(each.context.method)} for each in (plain, by_state)]
    assert names[1] - names[0] == OF_STATES
    assert names[0] < names[1]
    assert [entry.kind for entry in by_state.ledger] == ["reserve", "settle"]


@pytest.mark.prove
def test_the_sensor_launches_states_and_then_the_publication(plain: Deployment[TopDownRelease], parted: Parted) -> None:
    require_same(plain, parted.deployment)
    first, *others = states = states_of(parted.deployment)
    run, above, again = parted.runs
    launched = parted.launched
    assert launched["nothing"] == []
    assert launched["the release's job"] == [(MEASURED, state, f"{run}/{state}") for state in states]
    assert launched["the measurements"] == [(ABOVE, None, f"{run}/before_states")]
    assert launched["the levels above"] == [(STATES, state, f"{above}/{state}") for state in states]
    assert launched["the same"] == launched["the release's job"], "run keys keep them from being launched twice"
    assert others
    assert launched["the other states"] == [(STATES, first, f"{above}/{first}")]
    assert launched["the first state"] == [(LAST, None, f"{above}/publication")]
    # Another run of the release's job makes every state again, although the inputs have not changed.
    assert launched["the release's job again"] == [(MEASURED, state, f"{again}/{state}") for state in states]


def asked(deployment: Deployment[Any], monkeypatch: pytest.MonkeyPatch) -> tuple[set[str], set[tuple[str, str]]]:
    """The gates that fail where no verdict on the whole release is kept, and which rules they ask in which states."""
    found, draw = set[tuple[str, str]](), Drawing._draw

    def note(name: str) -> Callable[[Any, TopDownRelease, str], bool]:
        ask = getattr(gates, name)
        return lambda session, release, state: found.add((name, state)) or ask(session, release, state)

    def note_drawn(drawing: Drawing, streams: Sequence[Stream], *more: Any) -> Any:
        found.update(("_draw", stream.state) for stream in streams if stream.state)
        return draw(drawing, streams, *more)

    method, custody = deployment.context.method, deployment.context.custody
    (Path(custody.folder) / VERDICTS / deployment.release.schema).unlink(missing_ok=True)
    with monkeypatch.context() as patch, deployment.context.snapshot() as held:
        for name in ("_are_records_of_state", "_are_tables_of_state"):
            patch.setattr(gates, name, note(name))
        patch.setattr(Drawing, "_draw", note_drawn)
        context = replace(held, verdicts=find_verdicts(method, custody))
        failed = {gate.name for gate in all_gates(method) if gate.evaluate(context)}
    return failed, found


@pytest.mark.deep
def test_what_a_state_s_run_has_found_is_asked_again_only_where_its_tables_were_altered(
    by_state: Deployment[TopDownRelease], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: use verdicts without checking their content, or those of another state; or ask every state
    again."""
    deployment = by_state
    assert asked(deployment, monkeypatch) == (set(), set())
    first, other, *_ = states_of(deployment)
    folder = Path(deployment.context.custody.folder) / VERDICTS
    of_first, of_other = (folder / f"{deployment.release.schema}.{state}" for state in (first, other))
    shutil.copy(of_first, of_other)
    rules = {"_are_records_of_state", "_are_tables_of_state", "_draw"}
    assert asked(deployment, monkeypatch) == (set(), {(rule, other) for rule in rules})


def test_incomplete_altered_and_surplus_states_are_refused(parted: Parted) -> None:
    """A missing state, tables of another state, altered tables, records and estimates. Wrong program: an audit that
    shows DuckDB's errors for the missing tables."""
    assert (
        f"measurements below 1 states are missing, or not of this draw ({parted.first})" in parted.refused["unmeasured"]
    )
    assert parted.kinds == ["reserve"]
    # Noise of one stream on two versions of the counts would show their difference exactly.
    assert "have changed since the charge; materialize charge again" in parted.refused["other counts"]
    of_release = {each["name"]: each for each in parted.audited if each["subject"] == "town/redistricting"}
    assert {name: each["verdict"] for name, each in of_release.items()} == dict.fromkeys(
        ("made", "editions"), "could not be checked"
    )
    states, tables = of_release["made"]["details"]
    assert states == f"Of {len(states_of(parted.deployment))} states, 1 are not wholly made: {parted.first}."
    assert " tables to publish, " in tables
    of_first = {name for name in parted.drawn if name.startswith(f"noisy_measurements__{parted.first}")}
    assert parted.drawn
    assert not of_first
    missing = parted.refused["missing"]
    assert "2 parts of the estimates are missing" in missing or f"County in {parted.first}" in missing
    assert "states that the spine does not have (level_block__zz)" in parted.refused["surplus"]
    assert parted.surplus == set()
    assert "replay" in parted.failed["settled"]
    for gate, failed in parted.failed.items():
        assert gate in failed
    assert not parted.published
    deployment = parted.deployment
    first, other, *_ = states_of(deployment)
    with deployment.opened() as connection:
        # Rows of one state in the table of another: all states together have the same rows as before.
        for name in ("p1", "persons"):
            for old, now in ((first, "aside"), (other, first), ("aside", other)):
                connection.execute(f'ALTER TABLE "{name}__{old}" RENAME TO "{name}__{now}"')
    of_states = [gate for gate in all_gates(deployment.context.method) if gate.name in OF_STATES]
    strange = [problem for gate in of_states for problem in gate.evaluate(deployment.context)]
    assert sum("rows in the table of another state" in problem for problem in strange) == len(strange) == 2
    with deployment.opened() as connection:
        # Of other types; all states together keep their types.
        for name, column in (("h1", "H0010001"), ("units", "record")):
            connection.execute(f'ALTER TABLE "{name}__{first}" ALTER "{column}" TYPE SMALLINT')
    strange = [problem for gate in of_states for problem in gate.evaluate(deployment.context)]
    assert sum("other columns than all states have" in problem for problem in strange) == len(strange) - 2 == 2
    with deployment.opened() as connection:
        # A place above the states; a view with the rows of one state twice in place of another's; and, as in a release
        # of an earlier version, no table of the rows above the states.
        connection.execute("UPDATE p1_above SET P0010001 = P0010001 + 1")
        connection.execute("DROP TABLE p3_above")
        (view,) = connection.execute("SELECT sql FROM duckdb_views() WHERE view_name = 'p2'").fetchall()[0]
        twice = view.replace(f"p2__{other}", f"p2__{first}").replace("CREATE VIEW", "CREATE OR REPLACE VIEW")
        connection.execute(twice)
    views = {f"{deployment.release.public(name)}: not the view of its parts" for name in ("p2", "p3")}
    found = {problem for gate in of_states for problem in gate.evaluate(deployment.context)}
    assert {f"{deployment.release.public('p1_above')}: differing rows: 2", *views} <= found
    with deployment.opened() as connection:
        # Other measurements of a place, in the table of another state. The place is read from its own state's table.
        second = (
            '* REPLACE (packed(list_transform(unpacked(answers), x -> x + 1)) AS answers) FROM "noisy_measurements__'
        )
        connection.execute(f'INSERT INTO "noisy_measurements__{first}" SELECT {second}{other}" LIMIT 1')
    with (
        deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session,
        pytest.raises(GridError, match="not every place is measured exactly once"),
    ):
        compute_stored_version(session, deployment.release)
    with deployment.opened() as connection:
        connection.execute(f'UPDATE "records__{parted.first}_made" SET made_of = reverse(made_of)')
        connection.execute(f"UPDATE \"p1__{parted.first}\" SET level = '0' WHERE level = 'State'")
    assert {gate.name for gate in of_states if gate.evaluate(deployment.context)} == OF_STATES


@pytest.mark.prove
def test_estimates_by_state_in_a_lake_are_those_on_files(
    plain: Deployment[TopDownRelease], postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(postgres, tmp_path / "kept")
    lake.name_services(monkeypatch)
    monkeypatch.setattr("tests.deployments.Warehouse", partial(Warehouse, lake=lake.data))
    require_same(plain, made_by_state(topdown_deployment(tmp_path / "lake", partitions="state", **FOUR_LEVELS)))


Village = tuple[Country, TopDownRelease, Warehouse]
REFUSED = r"1 parts of the estimates are missing, or not those of the stored measurements \(County in S001\)"


@pytest.fixture
def incomplete(tmp_path: Path) -> Village:
    """A village of two states: the first is completely estimated, the second not at all."""
    country = village()
    release = redeclared(release_of(country), partitions="state")
    warehouse = written(tmp_path, release, country)
    estimate(release, warehouse, "", "S000")
    return country, release, warehouse


def estimate(release: TopDownRelease, warehouse: Warehouse, *states: str) -> None:
    for scope in list_scopes(release, ["S000", "S001"]):
        if scope.state in states:
            estimate_level(warehouse, custody_of(warehouse), release, scope, lambda done, parents: None)


def unite(release: TopDownRelease, warehouse: Warehouse) -> None:
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        assert len(unite_states(session, custody_of(warehouse), release)) == 4


def record(release: TopDownRelease, warehouse: Warehouse, state: str) -> None:
    with warehouse.session(writes=Zone.PUBLIC) as session:
        store_records(session, custody_of(warehouse), release, state)


def unite_microdata(release: TopDownRelease, warehouse: Warehouse) -> None:
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        unite_records(session, custody_of(warehouse), release)


def test_an_incomplete_set_of_states_is_not_united(incomplete: Village) -> None:
    _, release, warehouse = incomplete
    with pytest.raises(StaleInputError, match=REFUSED):
        unite(release, warehouse)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert "level_block" not in session.tables(Zone.PUBLIC, release.schema)


@pytest.mark.prove
def test_a_state_of_another_draw_is_not_united_with_the_others(incomplete: Village) -> None:
    """Wrong program: does not check the inputs of estimates or records, and shows states of two draws side by side."""
    country, release, warehouse = incomplete
    estimate(release, warehouse, "S001")
    unite(release, warehouse)
    record(release, warehouse, "S000")
    with pytest.raises(
        StaleInputError, match=r"records of 1 states are missing, or not those .* \(S001\); materialize"
    ):
        unite_microdata(release, warehouse)
    record(release, warehouse, "S001")
    unite_microdata(release, warehouse)
    with warehouse.session(writes=Zone.PUBLIC) as session:
        write_measurements(session, release, country, seed=1, draw="two")
    estimate(release, warehouse, "", "S000")
    with pytest.raises(StaleInputError, match=REFUSED):
        unite(release, warehouse)
    estimate(release, warehouse, "S001")
    unite(release, warehouse)
    record(release, warehouse, "S001")
    with pytest.raises(
        StaleInputError, match=r"records of 1 states are missing, or not those .* \(S000\); materialize"
    ):
        unite_microdata(release, warehouse)


@pytest.mark.prove
def test_a_release_changes_between_partitions_and_none(tmp_path: Path, key: None) -> None:
    """Wrong programs: a settled draw in one table that stays beside those of all states, and a view of measurements
    whose tables are dropped as those of no partition."""
    folder = tmp_path / "town"
    plain = topdown_deployment(folder)
    execute(plain, FIRST)
    before = data_files(plain)
    parted = made_by_state(topdown_deployment(folder, partitions="state"))
    assert data_files(parted) == before
    execute(plain, FIRST)
    assert data_files(plain) == before
    with plain.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        found = session.tables(Zone.PUBLIC, plain.release.schema)
    views = [name for name, is_view in found.items() if is_view]
    assert views == ["noisy_measurements"], "which stays as it was drawn"
    assert {name.split("__")[0] for name in found if "__" in name} == set(views)
    assert len(parted.ledger) == len(plain.ledger) == 2


def test_a_spine_without_states_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"partitions: the spine has no level State between Nation and Block"):
        topdown_deployment(tmp_path / "town", partitions="state", **TWO_LEVELS)


@quick_cases(2)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT part.n FROM public.village.a AS part UNION ALL SELECT random() AS n FROM public.village.a AS part",
        "SELECT part.n FROM public.village.a AS part UNION SELECT part.n FROM public.village.b AS part",
        "SELECT part.n FROM public.village.a AS part UNION ALL (SELECT part.n FROM public.village.b AS part LIMIT 1)",
        "SELECT part.n FROM public.village.a AS part UNION ALL SELECT part.n + 1 FROM public.village.b AS part",
        "SELECT part.n FROM public.village.a AS part UNION ALL "
        "SELECT part.n FROM public.village.b AS part WHERE current_query() LIKE 'x'",
        "SELECT part.n FROM public.village.a AS part UNION ALL SELECT part.n FROM read_csv('x.csv') AS part",
        None,
    ],
)
def test_only_views_that_put_tables_together_are_read(tmp_path: Path, text: str | None) -> None:
    warehouse = Warehouse(folder=str(tmp_path), threads=1)
    with warehouse.session(writes=Zone.PUBLIC) as session:
        for name in ("a", "b"):
            table = Table(Zone.PUBLIC, "village", name)
            session.create(table, "warehouse/all", source=session.register("rows", pa.table({"n": [1]})))
    good = " UNION ALL ".join(f"SELECT part.n FROM public.village.{name} AS part" for name in "abab")
    (tmp_path / "x.csv").write_text("n\n1\n")
    with duckdb.connect(str(warehouse.path(Zone.PUBLIC))) as connection:
        made = (text or good).replace("x.csv", str(tmp_path / "x.csv"))
        connection.execute(f"CREATE VIEW village.v AS {made}")
    if text is None:
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            assert session.count(Table(Zone.PUBLIC, "village", "v")) == 4
    else:
        with pytest.raises(WarehouseError, match="was altered"), warehouse.session(reads=[Zone.PUBLIC]):
            pass


@pytest.mark.prove
def test_full_estimation_by_state_is_that_of_one_run_and_passes_every_check(tmp_path: Path, key: None) -> None:
    """From source files to publication. Wrong programs: units estimated with the states' levels, before other states
    have persons; information that a partition makes for itself."""
    products = ["P1", "H1", "persons", "units", "noisy_measurements"]
    plain, parted = (
        topdown_deployment(tmp_path / name, estimation="full", products=products, **FOUR_LEVELS, **changes)
        for name, changes in (("plain", {}), ("parted", {"partitions": "state"}))
    )
    execute(plain, FIRST)
    execute(parted, FIRST)
    first, other = states_of(parted)
    assert [job for job, *_ in follow(parted, parted.instance)] == [MEASURED] * 2
    for state in (other, first):
        execute(parted, MEASURED, state=state)
    assert [job for job, *_ in follow(parted, parted.instance)] == [ABOVE]
    execute(parted, ABOVE)
    assert [job for job, *_ in follow(parted, parted.instance)] == [STATES] * 2
    with parted.opened() as connection:
        # Of the time when the release's levels were estimated by themselves, and units state by state.
        connection.execute(f'CREATE TABLE "h1__{first}" AS FROM spine')
    execute(parted, STATES, state=other)
    execute(parted, STATES, state=first)
    execute(parted, LAST)
    require_same(plain, parted)
    assert [entry.kind for entry in parted.ledger] == ["reserve", "settle"]
    assert "p1_intervals.csv" in data_files(parted)
    with parted.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert f"h1__{first}" not in session.tables(Zone.PUBLIC, parted.release.schema)


def test_no_run_makes_a_partition_that_the_spine_lacks(tmp_path: Path) -> None:
    """Anyone who can launch runs can also add partition keys, and launch runs without a partition. Wrong programs: a
    stage looks for the places of such a state and fails with a fault of the code, or reports missing tables as
    changed."""
    deployment = topdown_deployment(tmp_path, partitions="state", **FOUR_LEVELS, estimation="full")
    deployment.run("cef", "spine")
    deployment.instance.add_dynamic_partitions("town__redistricting__states", ["zz"])
    repository = deployment.definitions.get_repository_def()
    by_state = [key for key, asset in repository.assets_defs_by_key.items() if asset.partitions_def]
    assert len(by_state) == 6
    for key in by_state:
        job = repository.get_job("release").get_subset(asset_selection={key}, asset_check_selection=set())
        for tags, words in (
            ({"dagster/partition": "zz"}, "partition zz does not exist; "),
            ({}, "makes one partition in a run"),
        ):
            with known(repository):
                run = job.execute_in_process(QUIET, deployment.instance, tags=tags, raise_on_error=False)
            (failure,) = run.get_step_failure_events()
            assert words in str(failure.step_failure_data.user_failure_data), key


def test_a_state_that_is_measured_again_by_an_altered_spine_adds_its_noise_to_the_same_counts(
    begun: Deployment[TopDownRelease],
) -> None:
    """Wrong program: the run of a state compares the places that it was charged for, but counts by other columns of the
    spine. Of two measurements with the same noise, the difference is exact."""
    deployment, state = begun, states_of(begun)[0]
    table, answers = f'"noisy_measurements__{state}"', list[Any]()
    swapped = "UPDATE spine SET level = CASE level WHEN 'County' THEN 'Block' ELSE 'County' END"
    for statement in ("SELECT 1", f"{swapped} WHERE number = 0 AND depth >= 2"):
        with deployment.opened() as connection:
            connection.execute(statement)
        execute(deployment, MEASURED, state=state)
        with deployment.opened() as connection:
            answers.append(connection.execute(f"SELECT * EXCLUDE geoid FROM {table} ORDER BY ALL").fetchall())
            connection.execute(f"DROP TABLE {table}")
    assert answers[0] == answers[1] != []


def test_a_state_is_noted_by_the_places_of_the_records(begun: Deployment[TopDownRelease]) -> None:
    """Wrong program: determines a state's charge from a spine that was altered after its seal was compared, which a
    writer to a lake can do. The difference of two measurements with the same noise would be exact."""
    deployment, context = begun, begun.context
    assert keep_charged(context.method, context.warehouse, context.custody) == states_of(deployment)
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = context.method.describe(session, context.custody)
    with deployment.opened() as connection:
        connection.execute("UPDATE spine SET parent = 0 WHERE depth = 2")
    with (
        patch.object(type(context.method), "describe", lambda *_: draw),
        pytest.raises(SpineError, match="not that of the current records"),
    ):
        keep_charged(context.method, context.warehouse, context.custody)
