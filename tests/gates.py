"""What the tests of gates share: altering stored tables past every safeguard, and evaluating all gates after it."""

import shutil
from collections.abc import Callable
from typing import Any

from assets.gates.shared import all_gates
from tests.deployments import Deployment

Tampering = Callable[[Deployment[Any]], None]


def keep(deployment: Deployment[Any]) -> None:
    """Copy a deployment's files, to be put back after each test."""
    shutil.copytree(deployment.root, deployment.root.parent / "kept")


def put_back(deployment: Deployment[Any]) -> None:
    """Put the files back that were kept."""
    shutil.rmtree(deployment.root)
    shutil.copytree(deployment.root.parent / "kept", deployment.root)


def failing(deployment: Deployment[Any]) -> set[str]:
    """The gates that find a problem, or cannot be evaluated any more."""
    return {gate.name for gate in all_gates(deployment.context.method) if _finds(gate.problems, deployment)}


def _finds(problems: Callable[[Any], list[str]], deployment: Deployment[Any]) -> bool:
    try:
        return problems(deployment.context) != []
    except Exception:
        return True


def executes(*statements: str, zone: str = "public") -> Tampering:
    """A change as whoever can write to the file may make it; it changes something."""

    def alter(deployment: Deployment[Any]) -> None:
        with deployment.opened(zone) as connection:
            for statement in statements:
                ((rows,),) = connection.execute(statement).fetchall()
                assert rows > 0

    return alter


def in_confidence(statement: str) -> Tampering:
    """A change of a confidential table."""
    return executes(statement, zone="confidential")


broken = failing
