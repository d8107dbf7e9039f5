"""What the tests of gates share: they alter stored tables, bypassing every safeguard, and then evaluate all gates."""

import shutil
from collections.abc import Callable
from typing import Any

from assets.gates.shared import all_gates
from assets.release.gate import ReleaseContext
from tests.deployments import Deployment

Tampering = Callable[[Deployment[Any]], None]


def keep(deployment: Deployment[Any]) -> None:
    """Copy a deployment's files, to be restored after each test."""
    shutil.copytree(deployment.root, deployment.root.parent / "kept")


def put_back(deployment: Deployment[Any]) -> None:
    """Restore the copied files."""
    shutil.rmtree(deployment.root)
    shutil.copytree(deployment.root.parent / "kept", deployment.root)


def failing(deployment: Deployment[Any]) -> set[str]:
    """The gates that find a problem or can no longer be evaluated. As in a publication, they read held content.

    Raises:
        WarehouseError: if a zone cannot be read, so that nothing is evaluated.
    """
    with deployment.context.snapshot() as context:
        return {gate.name for gate in all_gates(context.method) if _finds(gate.problems, context)}


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
