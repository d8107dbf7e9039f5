"""Helpers for the tests of gates, which alter stored tables, bypassing every safeguard, and then evaluate all gates."""

import math
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from assets.gates.shared import all_gates
from assets.release.gate import Gate, ReleaseContext, find_verdicts
from tests.deployments import Deployment

BY_DRAW_ID = {"replay", "noise_as_declared"}

Tampering = Callable[[Deployment[Any]], None]


def keep(deployment: Deployment[Any]) -> None:
    """Copy a deployment's files, to be restored after each test, with a verdict of every gate that passes."""
    keep_verdicts(deployment)
    shutil.copytree(deployment.root, deployment.root.parent / "kept")


def put_back(deployment: Deployment[Any]) -> None:
    """Restore the copied files."""
    shutil.rmtree(deployment.root)
    shutil.copytree(deployment.root.parent / "kept", deployment.root)


def keep_verdicts(deployment: Deployment[Any], *, every: bool = False) -> None:
    """Evaluate all gates, even quick ones, as a run that keeps verdicts does: with the verdicts of all gates, or of all
    except `BY_DRAW_ID`."""
    with patch("assets.release.gate.SHORTEST_KEPT", 0), deployment.context.snapshot() as held:
        for gate in all_gates(held.method):
            with suppress(Exception):
                gate.evaluate(_with_verdicts(held, gate, every))


def failing(deployment: Deployment[Any]) -> set[str]:
    """The gates that find a problem or can no longer be evaluated. As in a publication, they read held content, and are
    not evaluated if there is a stored verdict. No verdict is stored, even for slow gates: some tests evaluate gates of
    a program that they have altered in memory, for which a stored verdict does not account.

    Raises:
        WarehouseError: if a zone cannot be read, so that no gate is evaluated.
    """
    with patch("assets.release.gate.SHORTEST_KEPT", math.inf), deployment.context.snapshot() as held:
        return {gate.name for gate in all_gates(held.method) if _finds(gate.evaluate, _with_verdicts(held, gate))}


def _with_verdicts(context: ReleaseContext[Any], gate: Gate[Any], every: bool = False) -> ReleaseContext[Any]:
    """Without any for gates whose verdicts follow from the draw id: other gates notice that counts are not its own."""
    verdicts = None if gate.name in BY_DRAW_ID and not every else find_verdicts(context.method, context.custody)
    return replace(context, verdicts=verdicts)


def _finds(problems: Callable[[Any], list[str]], context: ReleaseContext[Any]) -> bool:
    try:
        return problems(context) != []
    except Exception:
        return True


def executes(*statements: str, zone: str = "public") -> Tampering:
    """A change that anyone with write access to the file can make. Every statement must change at least one row."""

    def alter(deployment: Deployment[Any]) -> None:
        with deployment.opened(zone) as connection:
            for statement in statements:
                ((rows,),) = connection.execute(statement).fetchall()
                assert rows > 0

    return alter


def in_confidence(statement: str) -> Tampering:
    """A change of a confidential table."""
    return executes(statement, zone="confidential")
