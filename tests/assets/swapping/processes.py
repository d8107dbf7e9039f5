"""Whole releases in separate processes, for the tests of killed and of simultaneous runs.

    processes.py kill FOLDER CUSTODY    kill a run at each of several points, run again, print what was found
    processes.py run FOLDER NAME        wait for a line on the input, then run the release NAME

This module forks and kills, which must not happen inside pytest. It prints its results as JSON; `test_processes` checks
them.
"""

import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, tzinfo
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas  # noqa: F401 - DuckDB imports it at the first result; here, before the forks

from assets.charge import asset as charge_asset
from assets.publication import asset as publication
from assets.publication import placement
from assets.swapping import draw as swap
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.permutation import Contingency
from resources import chain
from resources.ledger import Ledger
from tests.deployments import TO_PUBLICATION, Deployment, small_deployment

FROM_CHARGE = ("charge", "swapped", "tables", "publication")
CAP = 5
"""A cap that admits one release of the small deployment (ε = ln 62 = 4.13), not two."""


class StoppedClock(datetime):
    """A clock for the ledger that stands still, so that two runs can be compared byte by byte."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "StoppedClock":
        return cls(2030, 1, 1, tzinfo=UTC)


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(function: Callable[..., Any]) -> Callable[..., Any]:
    return die


def after(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> None:
        function(*args, **kwargs)
        die()

    return called


def halfway(function: Callable[..., Any]) -> Callable[..., Any]:
    """Die in the middle of a loop: at the second call."""
    calls = []

    def called(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return function(*args, **kwargs) if len(calls) == 1 else die()

    return called


POINTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "before it is charged": (Ledger, "reserve", before),
    "once it is charged": (Ledger, "reserve", after),
    "once it is drawn, before anything is written": (swap, "permute", after),
    "once the swapped data are written, before they are settled": (Ledger, "settle", before),
    "once they are settled": (Ledger, "settle", after),
    "between two files of the publication": (publication, "to_html", before),
    "once the publication is in place": (placement, "_replace", after),
}


def points(custody: str) -> list[str]:
    """Where runs are killed. Once a draw is settled, the custody makes no difference."""
    names = list(POINTS)
    return names if custody == "escrowed" else names[: names.index("once they are settled") + 1]


def deployment(folder: Path, custody: str = "escrowed", name: str = "counties") -> Deployment:
    return small_deployment(folder, custody=custody, name=name, dataset={"cap": CAP})


def in_child(work: Callable[[], Any]) -> int:
    """Run a function in a child process; returns its exit status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def run(folder: Path, custody: str, point: str | None = None) -> None:
    with ExitStack() as stack:
        stack.enter_context(patch.object(chain, "datetime", StoppedClock))
        # The ledger's entry names the run, whose id is random.
        charged = charge_asset.charge_draw
        stack.enter_context(
            patch.object(
                charge_asset, "charge_draw", lambda price, given, run, *rest: charged(price, given, "run", *rest)
            )
        )
        if point:
            place, name, how = POINTS[point]
            stack.enter_context(patch.object(place, name, how(getattr(place, name))))
        deployment(folder, custody).run(*FROM_CHARGE)


def found(folder: Path, custody: str, answer: Path, again: bool) -> None:
    """The state that a new process finds, optionally after running the release again."""
    if again:
        run(folder, custody)
    there = deployment(folder, custody)
    entries = there.ledger
    answer.write_text(
        json.dumps(
            {
                "kinds": [entry.kind for entry in entries],
                "commitments": [entry.commitment for entry in entries],
                "problems": there.context.ledger.verify(),
                "keys": [
                    sha256(bytes.fromhex(path.read_text().strip())).hexdigest()
                    for path in folder.glob("custody/ephemeral/*.key")
                ],
                "beside": sorted(path.name for path in folder.glob("published/village/*")),
                "files": {name: sha256(content).hexdigest() for name, content in there.published().items()},
            }
        )
    )


def state(folder: Path, custody: str, *, again: bool = False) -> dict[str, Any]:
    answer = folder / "answer.json"
    ended = in_child(lambda: found(folder, custody, answer, again))
    return {"ended": ended} | json.loads(answer.read_text())


def warm_up(folder: Path) -> None:
    """Load Dagster's graph and the compiled mechanism once, instead of in every child.

    The children start DuckDB themselves, as it starts threads.
    """
    deployment(folder).definitions.get_repository_def()
    ones = np.arange(2, dtype=np.int32)
    cells = Contingency(np.zeros(2, np.int32), ones, ones, np.full(2, 3))
    swap.permute(cells, Fraction(1, 2), RandomStream(bytes(32), "warm-up"))


def kill(folder: Path, custody: str, chosen: Sequence[str]) -> dict[str, Any]:
    """Kill a run at each of some points, each in a copy of one folder whose custody already has its master key."""
    start, twin = folder / "start", folder / "twin"
    warm_up(folder / "warm")
    assert in_child(lambda: deployment(start, custody).run("cef", "invariants")) == 0
    answers = {}
    if custody == "escrowed":
        shutil.copytree(start, twin)
        answers["undisturbed"] = {"healed": state(twin, custody, again=True)}
    for number, point in enumerate(chosen):
        place = folder / str(number)
        shutil.copytree(start, place)
        ended = in_child(lambda place=place, point=point: run(place, custody, point))
        left = state(place, custody)
        answers[point] = {"ended": ended, "left": left, "healed": state(place, custody, again=True)}
    return answers


def race(folder: Path, name: str) -> dict[str, Any]:
    there = deployment(folder, name=name)
    print("ready", flush=True)
    sys.stdin.readline()
    result = there.run(*TO_PUBLICATION, raise_on_error=False)
    failed = [event for event in result.all_events if event.is_step_failure]
    said = []
    for event in failed:
        error = event.step_failure_data.error
        while error:
            said.append(error.message)
            error = error.cause
    return {
        "success": result.success,
        "failed": [event.step_key for event in failed],
        "said": "\n".join(said),
        "published": sorted(there.published()),
    }


if __name__ == "__main__":
    command, place, argument, *chosen = sys.argv[1:]
    print(json.dumps(kill(Path(place), argument, chosen) if command == "kill" else race(Path(place), argument)))
