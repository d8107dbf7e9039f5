"""Killed runs and simultaneous runs, in real processes.

A run is killed (SIGKILL) at each of several points from its charge to its publication, and started again. Two
releases of one dataset run at once under a cap that admits one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.assets.swapping.processes import points
from tests.deployments import SHOWN, TO_PUBLICATION, small_deployment

ROOT = Path(__file__).resolve().parents[3]


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.assets.swapping.processes", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str], line: str = "") -> Any:
    output, errors = process.communicate(line, timeout=900)
    assert process.returncode == 0, errors[-4000:]
    return json.loads(output.splitlines()[-1])


pytestmark = pytest.mark.deep


Killed = Callable[[str, str], Any]

IN_CI = "once it is charged", "once the swapped data are written, before they are settled"
"""`make faults` tries all points."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """The state found at each point, by custody; for a point that CI tries, the others are not run."""

    @cache
    def kill(custody: str, chosen: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = answer(start("kill", tmp_path_factory.mktemp(custody), custody, *chosen))
        return found

    def found_at(custody: str, point: str) -> Any:
        return kill(custody, IN_CI if custody == "ephemeral" and point in IN_CI else tuple(points(custody)))[point]

    return found_at


at_every_point = pytest.mark.parametrize(
    ("custody", "point"),
    [
        *(pytest.param("escrowed", point, marks=pytest.mark.fault) for point in points("escrowed")),
        *(
            pytest.param("ephemeral", point, marks=[] if point in IN_CI else pytest.mark.fault)
            for point in points("ephemeral")
        ),
    ],
)


@pytest.mark.prove
@at_every_point
def test_a_killed_run_leaves_no_charge_or_one_that_counts(killed: Killed, custody: str, point: str) -> None:
    case = killed(custody, point)
    assert case["ended"] == -9, "the run was to be killed"
    assert case["left"]["kinds"] in ([], ["reserve"], ["reserve", "settle"])
    assert case["left"]["kinds"] or point == "before it is charged"
    assert case["left"]["problems"] == []


@pytest.mark.prove
@at_every_point
def test_a_restarted_run_is_charged_once_and_settled_once(killed: Killed, custody: str, point: str) -> None:
    case = killed(custody, point)
    healed = case["healed"]
    assert healed["ended"] == 0, "every stage and every check passed"
    assert healed["kinds"] == ["reserve", "settle"]
    assert healed["problems"] == []
    assert healed["keys"] == [], "no ephemeral key is kept"
    assert healed["beside"] == ["counties"], "nothing half-way is left beside the publication"


@pytest.mark.prove
@at_every_point
def test_a_restarted_run_keeps_the_charged_commitment(killed: Killed, custody: str, point: str) -> None:
    """The commitment never changes, and it binds the key that existed when the run was killed. Wrong program: makes a
    key before the draw is charged."""
    case = killed(custody, point)
    committed = set(case["healed"]["commitments"])
    assert len(committed) == 1
    assert set(case["left"]["commitments"]) <= committed
    if custody == "ephemeral" and "settle" not in case["left"]["kinds"]:
        assert set(case["left"]["keys"]) == (committed if case["left"]["kinds"] else set())


@pytest.mark.fault
@pytest.mark.parametrize("point", points("escrowed"))
def test_under_escrow_a_killed_run_publishes_the_same_as_an_undisturbed_one(killed: Killed, point: str) -> None:
    """The twin run had the same custody folder and the same (stopped) clock."""
    twin = killed("escrowed", "undisturbed")
    assert twin["healed"]["ended"] == 0
    assert len(twin["healed"]["files"]) > 8
    assert killed("escrowed", point)["healed"]["files"] == twin["healed"]["files"]


@pytest.mark.prove
@at_every_point
def test_nothing_is_published_before_it_is_complete(killed: Killed, custody: str, point: str) -> None:
    published = "counties" in killed(custody, point)["left"]["beside"]
    assert published == (point == "once the publication is in place")
    if published:
        assert killed(custody, point)["left"]["files"] == killed(custody, point)["healed"]["files"]


@pytest.mark.prove
def test_the_cap_admits_one_of_two_simultaneous_releases(tmp_path: Path) -> None:
    small_deployment(tmp_path).reach("cef")
    processes = [start("run", tmp_path, name) for name in ("one", "other")]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = {name: answer(process) for name, process in zip(("one", "other"), processes, strict=True)}
    (winner,) = (name for name, said in answers.items() if said["success"])
    (loser,) = (name for name, said in answers.items() if not said["success"])
    assert answers[loser]["failed"] == [f"village__{loser}__charge"]
    assert f"village/{loser} would charge" in answers[loser]["said"]
    assert answers[loser]["published"] == []
    assert "certificate.json" in answers[winner]["published"]
    deployment = small_deployment(tmp_path, name=winner, dataset={"cap": 5})
    assert [(entry.kind, entry.release) for entry in deployment.ledger] == [("reserve", winner), ("settle", winner)]
    assert deployment.context.ledger.verify() == ()
    assert sorted(path.name for path in (tmp_path / "published" / "village").iterdir()) == [winner]
    deployment.reach(*TO_PUBLICATION, *SHOWN)
    assert deployment.failed_checks() == set()
