"""The failures that the harness must recognize. `make faults` tries the faults and writes the figures of
docs/explanation/reliability.md."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from mechanisms.table_builder.hypercube import Consistency, Hypercube, Margins, NoiseFamily
from orchestration.components.release import ReleaseComponent
from tests.deploy.cluster import eventually
from tests.deployments import Deployment
from tests.faults import __main__ as command
from tests.faults import cluster, rehearsal, releases, sequences, strace
from tests.faults.__main__ import FIGURES, row
from tests.faults.releases import RELEASES, Prepared, deployment

ROOT = Path(__file__).resolve().parents[2]


def components(base: type[ReleaseComponent] = ReleaseComponent) -> Iterator[type[ReleaseComponent]]:
    """All components of the project that make a release."""
    for each in base.__subclasses__():
        yield from components(each)
        if each.__module__.startswith("orchestration.") and getattr(each, "method_name", ""):
            yield each


@pytest.mark.prove
def test_every_kind_of_release_is_disturbed(tmp_path: Path) -> None:
    """Wrong programs: a list of releases that stays the same when a method, a noise, or a consistency is added; and
    changes before the next launch that cannot be declared, so that they count as wrong."""
    for change in filter(None, sequences.CHANGES.values()):
        changed = deployment(tmp_path / "changed", "swapping", **change)
        assert changed.release.name == change.get("name", changed.release.name)
    methods = [deployment(tmp_path / str(number), name).context.method for number, name in enumerate(RELEASES)]
    names = {f"{type(method).__module__}:{type(method).__name__}" for method in methods}
    assert {component.method_name for component in components()} <= names
    assert len(names) >= 7
    cubes = [method.release.design for method in methods if isinstance(method.release.design, Hypercube)]
    of_queries = {(family, Consistency.QUERY) for family in NoiseFamily}
    assert {(cube.noise, cube.consistency) for cube in cubes} == of_queries | {(NoiseFamily.P_TABLE, Consistency.CELL)}
    assert {cube.margins for cube in cubes} == set(Margins)
    declared = [method.release.declaration for method in methods]
    for which in ("replicates", "partitions"):
        assert any(getattr(each, which, None) for each in declared), which
    assert {each.estimation for each in declared if hasattr(each, "estimation")} == {"full", "own_levels"}
    assert any(getattr(method.release, "withheld", None) for method in methods)
    assert any(method.reads_publications_of for method in methods)
    assert set(cluster.KINDS) <= set(RELEASES)
    assert {each.custody.value for each in declared} == {"escrowed", "ephemeral"}


@pytest.mark.prove
@pytest.mark.parametrize("name", ["hypercube, after a withheld swap", pytest.param("dhc", marks=pytest.mark.fault)])
def test_a_kill_of_a_younger_kind_of_release_does_no_harm(name: str, tmp_path: Path) -> None:
    """After the draw. `python -m tests.faults` kills at every effect on disk."""
    release = releases.prepare(tmp_path, name, releases.from_charge)
    call, place = releases._call, release.copy("killed")

    def kill_after_draw(here: Deployment[Any], asset: Any, partition: str | None = None) -> None:
        call(here, asset, partition)
        if asset.key == here.key(here.context.method.draw_stage):
            os.kill(os.getpid(), signal.SIGKILL)

    with mock.patch.object(releases, "_call", kill_after_draw):
        ended = releases.in_child(lambda: release.work(place, release.name))
    assert ended.status == -signal.SIGKILL
    assert release.problems(place) == []


def test_a_rehearsal_that_is_ended_ends_its_servers() -> None:
    """Wrong program: ends only the command on SIGTERM, although its servers have their own sessions."""
    ended, handlers = [], {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    @contextmanager
    def servers(*_: object) -> Iterator[mock.Mock]:
        try:
            yield mock.Mock()
        finally:
            ended.append("servers")

    def end(*_: object) -> dict[str, int]:
        signal.raise_signal(signal.SIGTERM)
        return {}

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with mock.patch.multiple(rehearsal, running_cluster=servers, rehearse=end), pytest.raises(KeyboardInterrupt):
            rehearsal.main([])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert ended == ["servers"]


def test_servers_end_with_a_test_that_is_killed() -> None:
    """Wrong programs: servers that the test ends itself, and that outlive it if it cannot."""
    server = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, flush=True)"
    text = f"from tests.deploy.guard import guard\nwith guard():\n    {server}\n    input()"
    with subprocess.Popen([sys.executable, "-c", text], cwd=ROOT, stdin=-1, stdout=-1, start_new_session=True) as test:
        assert test.stdout
        process = Path("/proc", test.stdout.readline().decode().strip(), "exe")
        assert process.exists()
        test.kill()
        eventually(lambda: not process.exists())


WHOLE: dict[str, Any] = {
    "kinds": ["reserve", "settle"],
    "charged": ["ln 30"],
    "problems": [],
    "published": {"key.pem": "0", "village/table.csv": "1", "village/certificate.json": "2"},
    "keys": [],
    "tables": {"public.village.draw": "3"},
    "files": ["warehouse/public.duckdb"],
}


@pytest.mark.parametrize(
    "left",
    [
        {"kinds": ["reserve", "reserve"]},
        {"kinds": ["settle"]},
        {"charged": ["ln 8"]},
        {"charged": ["ln 30", "ln 30"]},
        {"problems": ["entry 1 was altered"]},
        {"published": {"key.pem": "0", "village/table.csv": "1"}},
        {"published": {"key.pem": "0", "village/table.csv": "1", "village/certificate.json": "0"}},
        {"published": {"key.pem": "1", "village/table.csv": "1", "village/certificate.json": "2"}},
        {"kinds": ["reserve"]},
    ],
    ids=str,
)
def test_what_must_not_be_left_is_noticed(left: dict[str, Any]) -> None:
    release = Prepared("swapping", ROOT, lambda root, name: None, WHOLE)
    assert release._left(WHOLE) == []
    assert release._left({**WHOLE, "kinds": [], "charged": [], "published": {}}) == []
    assert release._left({**WHOLE, "published": {"key.pem": "0"}}) == []
    assert release._left(WHOLE | left)


@pytest.mark.parametrize("what", WHOLE)
def test_any_difference_from_an_undisturbed_run_is_noticed(what: str) -> None:
    release = Prepared("swapping", ROOT, lambda root, name: None, WHOLE)
    more = {**WHOLE[what], "more": "0"} if isinstance(WHOLE[what], dict) else [*WHOLE[what], "more"]
    assert release._healed(WHOLE) == []
    assert len(release._healed(WHOLE | {what: more})) == 1


LEFT: dict[str, Any] = {
    "problems": [],
    "reserved": ["a"],
    "settled": {"a": "1"},
    "finished": ["a"],
    "ephemeral": ["a"],
    "keys": ["a"],
    "spilled": ["stirred-1"],
    "read": [],
}
CHANGED = LEFT | {
    "reserved": ["a", "b"],
    "settled": {"a": "1", "b": "2"},
    "finished": ["a", "b"],
    "ephemeral": ["a", "b"],
    "keys": [],
    "spilled": [],
    "failing": [],
    "unpublished": [],
}
UNDONE = CHANGED | {"refused": "its key was destroyed"}
HALFWAY = {"settled": {}, "finished": []}


def judge(left: Any, changed: Any, undone: Any, change: str = "a record changes") -> list[str]:
    return sequences.judge(LEFT | left, CHANGED | changed, UNDONE | undone, change, "ephemeral", "1")


@pytest.mark.parametrize(
    ("left", "changed", "undone"),
    [
        ({}, {"keys": ["a"]}, {}),
        ({}, {}, {"keys": ["a"]}),
        ({}, {"reserved": ["a", "a", "b"]}, {}),
        ({}, {"reserved": ["a"], "settled": {"a": "1"}}, {}),
        ({}, {"failing": ["keys_deleted"]}, {}),
        ({}, {"keys": ["c"]}, {}),
        ({}, {"spilled": ["stirred-1"]}, {}),
        ({}, {}, {"read": ["c"]}),
        ({"read": ["c"]}, {"read": ["c"]}, {"read": ["c"]}),
        ({"read": ["c"]}, {"read": ["c", "d"]}, {"read": ["c", "d", "e"]}),
        ({"read": ["c", "c"]}, {"read": ["c", "c", "d"]}, {"read": ["c", "c", "d"]}),
        ({"read": ["c"]}, {"read": ["c", "d", "d"]}, {"read": ["c", "d", "d"]}),
        ({}, {"problems": ["entry 1 was altered"]}, {}),
        ({}, {}, {"refused": "for another reason"}),
        ({}, {}, {"reserved": ["a", "b", "c"]}),
        (HALFWAY, {"settled": {"b": "2"}, "finished": ["b"], "keys": []}, {"refused": ""}),
        (HALFWAY, {"settled": {"b": "2"}, "finished": ["b"], "keys": ["a"]}, {}),
        (HALFWAY, {"settled": {"b": "2"}, "finished": ["b"], "keys": ["a"]}, {"refused": "", "unpublished": ["1"]}),
        (HALFWAY, {"settled": {"b": "2"}, "finished": ["b"], "keys": ["a"]}, {"refused": "", "settled": {"a": "3"}}),
    ],
    ids=str,
)
def test_what_is_wrong_after_a_sequence_is_noticed(left: Any, changed: Any, undone: Any) -> None:
    assert judge({}, {}, {}) == []
    once_more = {"settled": {"b": "2"}, "finished": ["b"], "keys": ["a"]}
    assert judge(HALFWAY, once_more, {"refused": ""}) == []
    assert judge({"read": ["c"]}, {"read": ["c", "d"]}, {"read": ["c", "d"]}) == []
    assert judge({"read": ["c"]}, {"read": ["c", "d"]}, {"read": ["c", "d"]}, "the custody changes")
    withdrawn = judge({}, {}, {"refused": "was withdrawn"}, "it is withdrawn and a record changes")
    assert withdrawn == []
    assert judge(left, changed, undone)


def slow(number: int) -> tuple[bool, list[str]]:
    """A try that takes effect, and that hangs from the fourth on the first time."""
    if number > 3 and not (HANGING / str(number)).exists():
        (HANGING / str(number)).touch()
        time.sleep(300)
    return True, ["a finding"] * (number == 1)


HANGING = Path()


def test_an_interrupted_run_has_recorded_its_tries_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong programs: count figures in memory, which two interruptions of several processes lose; and wait in the pool
    for a process that was interrupted while it started."""
    tries, figures = tmp_path / "tries", tmp_path / "figures"
    arguments = ["slow", "--tries", str(tries), "--figures", str(figures), "--releases", "swapping"]
    cases = [("swapping", "a fault", slow, number) for number in range(8)]
    monkeypatch.setattr(sys.modules[__name__], "HANGING", tmp_path)
    monkeypatch.setattr(command, "warm_up", lambda *_: None)
    monkeypatch.setattr(command, "choose", lambda *given: sorted(CHOOSE(*given), key=lambda case: case[-1]))
    monkeypatch.setattr(command, "SECTIONS", {"slow": lambda folder, names: cases})
    monkeypatch.setattr(command, "row", lambda *_: "")
    running = releases.Child(lambda: command.main(arguments))
    running.go()
    eventually(lambda: (tmp_path / "5").exists() and tries.read_text().count("took_effect") == 4)
    for _ in range(2):
        os.kill(running.process, signal.SIGINT)
        time.sleep(0.05)
    assert running.ended().answer == 130
    cut = json.loads(figures.read_text())["slow"]
    assert (cut["cases"], cut["tried"], cut["wrong"]) == (8, 4, ["swapping, a fault (2): a finding"])
    for number in (6, 7):
        (tmp_path / str(number)).touch()
    assert releases.in_child(lambda: (start_second_slowly(), command.main(arguments))[1]).answer == 1
    whole = json.loads(figures.read_text())["slow"]
    assert (whole["tried"], whole["took_effect"], whole["wrong"]) == (8, 8, cut["wrong"])
    assert tries.read_text().count("took_effect") == 8


CHOOSE = command.choose


def start_second_slowly() -> None:
    """From the second fork on, a process of this one takes half a second to begin."""
    seconds = [-0.5]
    os.register_at_fork(before=lambda: seconds.append(0.5), after_in_child=lambda: time.sleep(sum(seconds)))


@pytest.mark.deep
@pytest.mark.parametrize("figures", [FIGURES, FIGURES.with_name("reliability_sample.json")], ids=lambda path: path.stem)
def test_the_page_on_reliability_shows_the_figures_of_the_last_run(figures: Path) -> None:
    page = (ROOT / "docs/explanation/reliability.md").read_text()
    for section, found in json.loads(figures.read_text()).items():
        assert row(section, found) in page


@pytest.mark.parametrize(
    "sections",
    [
        pytest.param(["altered_tables"], marks=pytest.mark.prove),
        pytest.param(
            ["steps", "writes", "full_disk", "in_sequence", "attacked", "attacked_lakes"],
            marks=[pytest.mark.fault, pytest.mark.skipif(not strace.available(), reason="needs strace")],
        ),
    ],
)
def test_a_sample_of_the_faults_does_no_harm(sections: list[str], tmp_path: Path) -> None:
    """The command itself, so that it does not rot between its runs at full size."""
    options = ["--sample", "1", "--releases", "swapping", "--figures", str(tmp_path / "figures.json")]
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults", *sections, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "figures.json").read_text())
    assert list(found) == sections
    assert all(each["took_effect"] for each in found.values())
