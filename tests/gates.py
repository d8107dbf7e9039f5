"""What the tests of a release's gates share: a published house to alter, and which promises that breaks.

Here belongs asking promises, altering stored tables past every safeguard, and putting a house's files back. What is
altered, and what that breaks, belongs in the tests of each kind of release.
"""

import shutil
from collections.abc import Callable
from typing import Any

from tests.house import SmallHouse

Tampering = Callable[[SmallHouse[Any]], None]


def keep(house: SmallHouse[Any]) -> None:
    """Copy a house's files, to be put back after each test."""
    shutil.copytree(house.root, house.root.parent / "kept")


def put_back(house: SmallHouse[Any]) -> None:
    """Put the files back that were kept."""
    shutil.rmtree(house.root)
    shutil.copytree(house.root.parent / "kept", house.root)


def broken(house: SmallHouse[Any]) -> set[str]:
    """The promises that are broken, or cannot be asked any more."""
    return {promise.name for promise in house.house.method.promises() if _asked(promise.broken, house)}


def _asked(question: Callable[[Any], list[str]], house: SmallHouse[Any]) -> bool:
    try:
        return question(house.house) != []
    except Exception:
        return True


def executes(*statements: str, zone: str = "public") -> Tampering:
    """A change as whoever can write to the file may make it; it changes something."""

    def alter(house: SmallHouse[Any]) -> None:
        with house.opened(zone) as connection:
            for statement in statements:
                ((rows,),) = connection.execute(statement).fetchall()
                assert rows > 0

    return alter


def in_confidence(statement: str) -> Tampering:
    """A change of a confidential table."""
    return executes(statement, zone="confidential")
