"""Claims about draws in a lake whose public files somebody exchanges after their seals were compared.

The tests use files, with sessions that take them for a lake. The exchange comes right after the draw was described.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from assets.charge.drawing import make_draw
from assets.release.contents import CONTENTS
from assets.release.method import Method
from assets.topdown.dhc.levels import Scope, make_level
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Session
from tests.contract.kinds import to_publication
from tests.deployments import Deployment
from tests.dhc_deployments import dhc_deployment
from tests.safetab_deployments import safetab_deployment
from tests.topdown_deployments import topdown_deployment


def households(root: Path) -> Deployment[Any]:
    persons = safetab_deployment(root)
    persons.reach(*to_publication(persons.context.method))
    return safetab_deployment(root, releases="h")


EXCHANGED: dict[str, tuple[Callable[[Path], Deployment[Any]], str]] = {
    "regions": (
        safetab_deployment,
        "UPDATE regions SET region_id = (SELECT min(region_id) FROM regions WHERE region_type = 'TRACT') "
        "WHERE region_type = 'TRACT'",
    ),
    "groups": (
        households,
        "INSERT INTO population_groups SELECT * REPLACE (number + 1000000 AS number) FROM population_groups",
    ),
}
"""The deployment, and the statement that makes one tract, or every group, be measured several times, with noise each
time."""


@pytest.fixture(autouse=True)
def in_lake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_on_servers", property(lambda _: True, lambda *_: None), raising=False)


@pytest.mark.parametrize("table", EXCHANGED)
def test_a_draw_is_made_by_the_tables_that_were_compared(tmp_path: Path, table: str) -> None:
    """Wrong program: reads them once more. Drawn again with the same key, such as after a run that ended before the
    settlement, the noise would be that of other counts, and the difference exact."""
    deploy, statement = EXCHANGED[table]
    deployment = deploy(tmp_path / "release")
    context, method, describe = deployment.context, deployment.context.method, Method.describe
    deployment.run("cef", *method.stages[: method.stages.index("charge") + 1], checks=False)

    def describe_and_exchange(self: Any, session: Session, custody: Custody) -> Any:
        draw = describe(self, session, custody)
        session._connection.execute(f"USE public.{self.release.schema}; {statement}; USE memory")
        return draw

    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = method.describe(session, context.custody)
        commitment = context.ledger.read().require_intact()[-1].commitment
        key = context.custody.open_key(draw.draw_id, deployment.release.custody, commitment)
        due = method.version_of(draw, method.make(session, draw, key, context.custody))
    with patch.object(Method, "describe", describe_and_exchange):
        _, _, version = make_draw(method, context.warehouse, context.custody, context.ledger)
    assert version == due


@pytest.mark.parametrize("kind", ["redistricting", pytest.param("DHC", marks=pytest.mark.prove)])
def test_places_and_the_version_of_the_records_are_read_once(tmp_path: Path, kind: str) -> None:
    """Wrong program: draws, or estimates a level, by another spine than the one that was compared, or of records of
    another version."""
    deployment = topdown_deployment(tmp_path / "release") if kind == "redistricting" else dhc_deployment(tmp_path)
    context, method, release = deployment.context, deployment.context.method, deployment.release
    held = set[str]()

    def hold(session: Session, tables: Any) -> None:
        assert not session._reads
        held.update(table.name for table in tables)
        raise InterruptedError

    resources = context.warehouse, context.custody, context.ledger
    deployment.run("cef", "spine", *(["facilities"] if kind == "DHC" else []), checks=False)
    scope = Scope(release.levels[0], "")
    draw = partial(make_level, method, release, *resources, scope, Mock()) if kind == "DHC" else None
    with patch.object(Session, "hold", hold), pytest.raises(InterruptedError):
        (draw or partial(make_draw, method, *resources))()
    assert held >= {"spine", CONTENTS}
