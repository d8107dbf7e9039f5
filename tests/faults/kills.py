"""Processes that are killed, and disks that are full: at each effect, at each step, and at random moments."""

import os
import random
import signal
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg

from tests.faults import strace
from tests.faults.releases import Child, Ended, Prepared, in_child, tree, whole_job


@cache
def at_effects(release: Prepared) -> list[strace.Effect]:
    """The effects of the work on a release, listed in an undisturbed run. Source files, which tests write beside the
    deployment's folders, are left out."""
    place = release.copy("counted")
    found = strace.effects(place, lambda: release.work(place, release.name))
    Prepared.problems(release, place)
    return [effect for effect in found if "/" in effect.words]


def killed_before(release: Prepared, effect: strace.Effect, label: str) -> tuple[bool, list[str]]:
    """Kill the work right before an effect. Returns whether it was killed, and the errors."""
    place = release.copy(label)
    ended = strace.traced(lambda: release.work(place, release.name), *strace.killing(effect))
    return ended.status == -signal.SIGKILL, release.problems(place)


def full_from(release: Prepared, effect: strace.Effect, label: str) -> tuple[bool, list[str]]:
    """Let every write fail from an effect on. Returns whether the work was refused, and the errors.

    A run that is not refused has lost no data either: the failed write was a copy of an earlier one.
    """
    place = release.copy(label)
    ended = strace.traced(lambda: release.work(place, release.name), *strace.full(effect))
    wrong = [] if ended.status in (0, 1) else [f"the full disk ended the process with {ended.status}"]
    if ended.status == 1 and not any(word in ended.error for word in SAID_OF_A_FULL_DISK):
        wrong.append(f"the error does not say that the disk is full: {ended.error}")
    return ended.status == 1, wrong + release.problems(place)


SAID_OF_A_FULL_DISK = ("No space left", "disk is full", "ENOSPC")


class Steps:
    """Kills its process at the start of the n-th step of a job; without n it counts the steps.

    `is_other` tells for each step whether a kill at its start leaves another state than a kill at the previous step.
    """

    def __init__(self, place: Path, last: int | None = None) -> None:
        self.last, self.names, self.is_other = last, list[str](), list[bool]()
        self._place, self._left = place, dict[str, str]()

    def __call__(self, instance: dg.DagsterInstance, event: Any, **options: Any) -> None:
        told = event.dagster_event
        if told and told.event_type is dg.DagsterEventType.STEP_START:
            if len(self.names) == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
            self.names.append(str(told.step_key))
            if self.last is None:
                before, self._left = self._left, tree(self._place)
                self.is_other.append(self._left != before)
        HANDLE(instance, event, **options)


HANDLE = dg.DagsterInstance.handle_new_event


def _stepping(release: Prepared, place: Path, last: int | None) -> list[tuple[str, bool]]:
    steps = Steps(place, last)
    with patch.object(dg.DagsterInstance, "handle_new_event", lambda *given, **options: steps(*given, **options)):
        whole_job(place, release.name)
    return list(zip(steps.names, steps.is_other, strict=True))


def steps_of(release: Prepared) -> list[tuple[str, bool]]:
    """The steps of a release's job, assets and checks, in order, each with whether the previous step wrote."""
    place = release.copy("stepped")
    ended = in_child(lambda: _stepping(release, place, None))
    if ended.status:
        raise RuntimeError(f"the steps cannot be counted: {ended.error}")
    Prepared.problems(release, place)
    return [(str(name), bool(is_other)) for name, is_other in ended.answer]


def killed_at_step(release: Prepared, number: int, label: str) -> tuple[bool, list[str]]:
    """Kill a release's job between two steps: when the step of this number, from 0, is about to start."""
    place = release.copy(label)
    ended = in_child(lambda: _stepping(release, place, number))
    return ended.status == -signal.SIGKILL, release.problems(place)


def duration(release: Prepared) -> float:
    """The seconds that the work takes undisturbed."""
    place = release.copy("timed")
    begun = time.monotonic()
    in_child(lambda: release.work(place, release.name))
    taken = time.monotonic() - begun
    Prepared.problems(release, place)
    return taken


def killed_after(release: Prepared, seconds: float, label: str) -> tuple[bool, list[str]]:
    """Kill the work after some seconds. It may be done by then."""
    place = release.copy(label)
    child = Child(lambda: release.work(place, release.name))
    child.go()
    time.sleep(seconds)
    child.kill()
    ended: Ended = child.ended()
    return ended.status == -signal.SIGKILL, release.problems(place)


def moments(count: int, seed: int) -> Iterator[float]:
    """Random parts of a duration, the same for the same seed."""
    generator = random.Random(seed)
    return (generator.random() for _ in range(count))
