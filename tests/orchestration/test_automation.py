"""Jobs, schedules and the sensor that watches a release's source files."""

import hmac
import itertools
import json
import os
import re
from hashlib import md5, sha1, sha256
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.gates.shared import all_gates
from assets.swapping.release import SwappingRelease
from orchestration.automation import source_sensor
from orchestration.jobs import audit_automation
from resources.custody import Custody
from tests.deployments import Deployment, deploy, households, members, small_dataset, small_release, write_csv

LEDGER_KEY, COMPOSITION_KEY = dg.AssetKey(["ledger"]), dg.AssetKey(["village", "composition"])


@pytest.fixture
def release(tmp_path: Path) -> SwappingRelease:
    """A release of households with persons, whose two source files exist."""
    write_csv(tmp_path / "units.csv", households(20))
    write_csv(tmp_path / "persons.csv", members(households(20)))
    dataset = small_dataset(tmp_path, with_persons=True)
    return small_release(dataset).release(dataset, tmp_path / "published")


class Watch:
    """The sensor and its cursor, evaluated by hand."""

    def __init__(self, release: SwappingRelease, root: Path) -> None:
        self.release, self.root = release, root
        self.instance = dg.DagsterInstance.ephemeral()
        self.declare("as at first")
        self.custody = Custody(folder=str(root / "custody"), variable="STIRRED_TEST_MASTER_KEY")
        self.cursor: str | None = None
        self.kept: list[str] = []

    def declare(self, declared: str) -> None:
        """Load the sensor with other declarations."""
        self.sensor = source_sensor(self.release, declared, self.root)

    def ran(self, *, success: bool) -> None:
        """A run of the release's job that ended."""

        @dg.op
        def stage() -> None:
            if not success:
                raise dg.Failure("refused")

        @dg.job(name=self.release.schema)
        def release_job() -> None:
            stage()

        release_job.execute_in_process(instance=self.instance, raise_on_error=False)

    def look(self) -> list[str]:
        """The run keys of one tick."""
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"custody": self.custody}
        )
        answer = self.sensor(context)
        if isinstance(answer, dg.SkipReason):
            return []
        assert isinstance(answer, dg.SensorResult)
        self.cursor = answer.cursor
        keys = [str(request.run_key) for request in answer.run_requests or []]
        self.kept += [self.cursor or "", *keys]
        return keys


@pytest.fixture
def watch(release: SwappingRelease, tmp_path: Path) -> Watch:
    return Watch(release, tmp_path)


def alter(path: Path, at: int, text: str = "\n") -> None:
    """Change a file at a chosen time, in seconds."""
    with path.open("a") as file:
        file.write(text)
    os.utime(path, (at, at))


def test_the_first_tick_launches_nothing(watch: Watch) -> None:
    assert [watch.look() for _ in range(3)] == [[], [], []]


@pytest.mark.parametrize("name", ["units.csv", "persons.csv"])
def test_a_changed_file_launches_once_after_a_tick_without_change(watch: Watch, name: str, tmp_path: Path) -> None:
    watch.look()
    alter(tmp_path / name, at=2_000_000_000)
    assert watch.look() == [], "it may still be changing"
    assert len(watch.look()) == 1
    assert [watch.look() for _ in range(3)] == [[], [], []]


def test_a_file_that_changes_at_every_tick_never_launches(watch: Watch, tmp_path: Path) -> None:
    watch.look()
    for tick in range(20):
        alter(tmp_path / "units.csv", at=2_000_000_000 + tick)
        assert watch.look() == []
    assert len(watch.look()) == 1, "and does once it has come to rest"


def test_a_refused_run_is_launched_again_once_the_declarations_have_changed(watch: Watch, tmp_path: Path) -> None:
    watch.look()
    alter(tmp_path / "units.csv", at=2_000_000_000)
    watch.look()
    (first,) = watch.look()
    watch.ran(success=False)
    assert [watch.look() for _ in range(2)] == [[], []], "a refusal that still holds is not repeated"
    watch.declare("with a higher cap")
    (again,) = watch.look()
    assert again != first, "a run key that was used launches nothing"
    assert watch.look() == []
    watch.ran(success=True)
    watch.declare("with another title")
    assert [watch.look() for _ in range(2)] == [[], []], "what was made is not made again for other declarations"


def test_a_change_of_content_at_the_same_size_launches(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "units.csv"
    watch.look()
    path.write_text(path.read_text().replace("own", "OWN", 1))
    os.utime(path, (2_000_000_000, 2_000_000_000))
    watch.look()
    assert len(watch.look()) == 1


def test_a_change_of_size_at_the_same_time_launches(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "units.csv"
    before = path.stat()
    watch.look()
    with path.open("a") as file:
        file.write("\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    watch.look()
    assert len(watch.look()) == 1


def test_a_change_reverted_before_the_next_tick_launches_nothing(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "units.csv"
    before, text = path.stat(), path.read_bytes()
    watch.look()
    alter(path, at=2_000_000_000)
    watch.look()
    path.write_bytes(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [watch.look() for _ in range(3)] == [[], [], []]


def test_every_change_is_a_new_run(watch: Watch, tmp_path: Path) -> None:
    watch.look()
    keys = []
    for change in range(5):
        alter(tmp_path / "units.csv", at=2_000_000_000 + change)
        watch.look()
        keys += watch.look()
    assert len(set(keys)) == 5


def test_a_source_restored_to_an_earlier_state_launches_again(watch: Watch, tmp_path: Path) -> None:
    """Dagster runs each run key only once, so the same state must not be requested under the same key twice."""
    path = tmp_path / "units.csv"
    watch.look()
    keys = []
    alter(path, at=2_000_000_000)
    earlier = path.read_bytes()
    for content, at in ((earlier, 2_000_000_000), (earlier + b"\n", 2_000_000_001), (earlier, 2_000_000_000)):
        path.write_bytes(content)
        os.utime(path, (at, at))
        watch.look()
        keys += watch.look()
    assert len(set(keys)) == 3


def test_the_sensor_waits_for_a_missing_file(watch: Watch, tmp_path: Path) -> None:
    """Neither its absence nor its unchanged return launches a run. Its return with other content does."""
    path, aside = tmp_path / "persons.csv", tmp_path / "aside.csv"
    watch.look()
    remembered = watch.cursor
    path.rename(aside)
    context = dg.build_sensor_context(cursor=watch.cursor, resources={"custody": watch.custody})
    answer = watch.sensor(context)
    assert isinstance(answer, dg.SkipReason)
    assert answer.skip_message == "persons.csv is missing"
    assert watch.look() == []
    assert watch.cursor == remembered
    aside.rename(path)
    assert [watch.look(), watch.look()] == [[], []]
    path.rename(aside)
    assert watch.look() == []
    path.write_bytes(aside.read_bytes() + b"\n")
    watch.look()
    assert len(watch.look()) == 1


def test_the_cursor_survives_a_restart(watch: Watch, release: SwappingRelease, tmp_path: Path) -> None:
    watch.look()
    alter(tmp_path / "units.csv", at=2_000_000_000)
    watch.look()
    again = Watch(release, tmp_path)
    again.cursor = watch.cursor
    assert len(again.look()) == 1


def test_a_cursor_with_whole_digests_launches_nothing(watch: Watch) -> None:
    """Earlier versions kept them. Wrong program: one that treats each watched source as changed after an update."""
    watch.look()
    kept = json.loads(watch.cursor or "")
    watch.cursor = json.dumps({name: f"{value}{'0' * 52}" if name != "launches" else 0 for name, value in kept.items()})
    assert [watch.look() for _ in range(3)] == [[], [], []]


def test_cursor_and_run_key_reveal_neither_size_nor_time(watch: Watch, tmp_path: Path) -> None:
    """Neither in plain text nor as a guessable hash: the size and time of a microdata file reveal how it changed."""
    states: list[list[tuple[str, int, int]]] = []
    for look in range(6):
        alter(tmp_path / "units.csv", at=1_900_000_000 + look // 2, text="\n" if look % 2 == 0 else "")
        paths = [tmp_path / "units.csv", tmp_path / "persons.csv"]
        states.append([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths])
        watch.look()
    kept = " ".join(watch.kept)
    numbers = set(re.findall(r"(?<![0-9a-f])[0-9]+(?![0-9a-f])", kept))
    assert len(watch.kept) > 6, "there are cursors and run keys"
    for state in states:
        assert not numbers & {str(number) for _, size, at in state for number in (size, at, at // 10**9)}
        writings = [json.dumps(state), json.dumps([list(file) for file in state]), str(state), repr(tuple(state))]
        writings += [f"{size}{changed}" for _, size, changed in state] + [str(changed) for _, _, changed in state]
        for writing, plain in itertools.product(writings, (sha256, sha1, md5)):
            assert plain(writing.encode()).hexdigest()[:12] not in kept
        for writing, key in itertools.product(writings, (b"", b"\0" * 32, b"source sensor")):
            assert hmac.new(key, writing.encode(), sha256).hexdigest()[:12] not in kept
        with_key = hmac.new(watch.custody.derive("source sensor"), json.dumps(state).encode(), sha256).hexdigest()
        assert with_key[:12] in kept, "who has the custody's key can tell, and computes it this way"


def deployment_of(root: Path) -> Deployment[Any]:
    """Two releases of one dataset. The first has a schedule and a sensor for its source."""
    write_csv(root / "units.csv", households(20))
    dataset = small_dataset(root)
    watched = small_release(dataset, schedule="30 4 * * 1", watch_source=True)
    return deploy(root, dataset, watched, small_release(dataset, name="again"))


def test_a_release_job_makes_its_release_with_shared_assets_and_no_other_release(tmp_path: Path) -> None:
    deployment = deployment_of(tmp_path)
    layer = deployment.definitions.resolve_job_def("village__counties").asset_layer
    stages = ("invariants", "charge", "swapped", "tables", "utility", "publication")
    made = {deployment.release.key(stage) for stage in stages} | {dg.AssetKey(["village", "cef"])}
    assert layer.executable_asset_keys == made
    graph = deployment.definitions.resolve_asset_graph()
    outside = {parent for key in made for parent in graph.get(key).parent_keys} - made
    assert outside == set(), "with an asset outside the job before it, the UI would ask whether one is sure"


def test_a_preflight_job_makes_what_the_charge_follows_and_nothing_that_charges(tmp_path: Path) -> None:
    deployment = deployment_of(tmp_path)
    layer = deployment.definitions.resolve_job_def("preflight__village__counties").asset_layer
    assert layer.executable_asset_keys == {
        dg.AssetKey(["village", "cef"]),
        deployment.release.key("invariants"),
        deployment.release.key("preflight"),
    }


@pytest.mark.deep
def test_ledger_and_compositions_follow_every_charge_by_themselves(tmp_path: Path) -> None:
    """Their automation needs no asset of another release and follows a charge by any launch."""
    deployment = deployment_of(tmp_path)
    instance = deployment.instance

    def due(cursor: Any = None) -> tuple[set[dg.AssetKey], Any]:
        found = dg.evaluate_automation_conditions(deployment.definitions, instance, cursor=cursor)
        return {key for key in (LEDGER_KEY, COMPOSITION_KEY) if found.get_num_requested(key)}, found.cursor

    nothing, cursor = due()
    assert nothing == set(), "there is no charge to show"
    deployment.run("ledger", "composition")
    assert due(cursor)[0] == set()
    _, cursor = due(cursor)
    deployment.run("cef", "invariants", "charge")
    requested, _ = due(cursor)
    assert requested == {LEDGER_KEY, COMPOSITION_KEY}, "while the release beside was never made"
    # With `eager` alone, charges before the first start of the UI appear only with the next charge.
    assert due()[0] == {LEDGER_KEY, COMPOSITION_KEY}, "at the first tick"


def test_the_job_has_every_check_of_its_assets_and_none_of_another_release(tmp_path: Path) -> None:
    deployment = deployment_of(tmp_path)
    gates = [gate for gate in all_gates(deployment.context.method) if gate.stage != "composition"]
    job = deployment.definitions.resolve_job_def("village__counties")
    steps, layer = {node.name for node in job.nodes}, job.asset_layer
    checked = {(key.asset_key.path[-1], key.name) for key in layer.asset_graph.asset_check_keys}
    for gate in gates:
        assert (gate.stage, gate.name) in checked, gate.name
        assert any(each.endswith(f"__{gate.stage}__gates") for each in steps), gate.name
    assert not any("again" in step for step in steps)


def test_the_schedule_runs_with_its_cron_expression_and_launches_the_job(tmp_path: Path) -> None:
    definitions = deployment_of(tmp_path).definitions
    schedule = definitions.resolve_schedule_def("village__counties__schedule")
    assert schedule.cron_schedule == "30 4 * * 1"
    assert schedule.job_name == "village__counties"
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


def test_the_sensor_runs_and_launches_the_job(tmp_path: Path) -> None:
    definitions = deployment_of(tmp_path).definitions
    sensor = definitions.resolve_sensor_def("village__counties__source")
    assert sensor.job_name == "village__counties"
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING


def test_the_examples_are_shipped_switched_off_and_audit_only_after_releases() -> None:
    @dg.op
    def nothing() -> None: ...

    @dg.job(name="audit")
    def audits() -> None:
        nothing()

    shipped = audit_automation(audits, ["village__counties"])
    schedule, sensor = shipped.resolve_schedule_def("weekly_audit"), shipped.resolve_sensor_def("audit_after_release")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
    assert (schedule.job_name, sensor.job_name) == ("audit", "audit")
    with dg.instance_for_test() as instance:
        for name, launched in (("village__counties", True), ("audit", False), ("preflight__village__counties", False)):
            run = dg.DagsterRun(job_name=name)
            event = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, name)
            context = dg.build_run_status_sensor_context("audit_after_release", event, instance, run)
            assert isinstance(sensor(context), dg.RunRequest) is launched, name
