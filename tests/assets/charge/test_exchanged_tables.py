"""Claims about draws in a lake whose public files an attacker exchanges, before or after the comparison of their seals.

The tests use files, with sessions that take them for a lake. The exchange comes right after the draw was described, or
right before a table is sealed.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock, patch

import pytest

from assets.charge.drawing import make_draw
from assets.release import seal
from assets.release import stage as stages
from assets.release.contents import CONTENTS
from assets.release.draw import StaleInputError
from assets.release.method import Method
from assets.release.seal import is_sealed, seal_stage
from assets.safetab import household_method
from assets.topdown import measured
from assets.topdown.dhc.levels import Scope, make_level
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Session
from tests.contract.kinds import to_publication
from tests.deployments import Deployment
from tests.depth import deep_cases, quick_cases
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
        "UPDATE {0}.regions SET region_id = (SELECT min(region_id) FROM {0}.regions WHERE region_type = 'TRACT') "
        "WHERE region_type = 'TRACT'",
    ),
    "groups": (
        households,
        "INSERT INTO {0}.population_groups SELECT * REPLACE (number + 1000000 AS number) FROM {0}.population_groups",
    ),
}
"""The deployment, and the statement that makes one tract, or every group, be measured several times, with noise each
time."""


@pytest.fixture(autouse=True)
def in_lake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_on_servers", property(lambda _: True, lambda *_: None), raising=False)


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize("table", EXCHANGED)
def test_a_draw_is_made_by_the_tables_that_were_compared(tmp_path: Path, table: str) -> None:
    """Wrong program: reads them once more. If the same key draws again, as after a run that ended before the
    settlement, the noise would be on other counts, and the difference exact."""
    deploy, statement = EXCHANGED[table]
    deployment = deploy(tmp_path / "release")
    context, method, describe = deployment.context, deployment.context.method, Method.describe
    deployment.run("cef", *method.stages[: method.stages.index("charge") + 1], checks=False)

    def describe_and_exchange(self: Any, session: Session, custody: Custody) -> Any:
        draw = describe(self, session, custody)
        session._connection.execute(statement.format(f"public.{self.release.schema}"))
        return draw

    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = method.describe(session, context.custody)
        commitment = context.ledger.read().require_intact()[-1].commitment
        key = context.custody.open_key(draw.draw_id, deployment.release.custody, commitment)
        due = method.version_of(draw, method.make(session, draw, key, context.custody))
    with patch.object(Method, "describe", describe_and_exchange):
        _, _, version = make_draw(method, context.warehouse, context.custody, context.ledger)
    assert version == due


def exchange_before(statement: str) -> Callable[..., None]:
    """`seal_stage`, right before which a statement alters the written tables."""

    def exchange_and_seal(session: Session, custody: Custody, schema: str, *sealed: Any) -> None:
        session._connection.execute(statement.format(f"public.{schema}"))
        seal_stage(session, custody, schema, *sealed)

    return exchange_and_seal


@pytest.mark.parametrize(("table", "module"), [("regions", stages), ("groups", household_method)])
def test_a_table_is_sealed_as_it_was_written(tmp_path: Path, table: str, module: ModuleType) -> None:
    """Wrong program: seals the table as read back. Then one measurement of a tract is charged, and several are made."""
    deploy, statement = EXCHANGED[table]
    deployment = deploy(tmp_path / "release")
    counted_in = deployment.context.method.counted_in
    deployment.run("cef", "plan", checks=False)
    with patch.object(module, "seal_stage", exchange_before(statement)):
        deployment.run(counted_in, checks=False)
    refusal = deployment.refusal("counts", "charge")
    assert f"stage {counted_in} are not those that the stage wrote" in refusal


def test_of_which_draw_states_are_is_sealed_as_it_was_written_and_read_once(tmp_path: Path) -> None:
    """Wrong program: seals the table as read back, or reads it once more. With the name of an earlier draw, the current
    counts are drawn with its noise, and the difference of both is exact."""
    deployment = topdown_deployment(tmp_path / "release", partitions="state")
    statement = "UPDATE {0}.charged_states SET draw_id = repeat('0', 64)"
    context = deployment.context
    method, resources = context.method, (context.warehouse, context.custody)
    deployment.run("cef", *method.stages[: method.stages.index("charge") + 1], checks=False)
    with patch.object(seal, "seal_stage", exchange_before(statement)):
        state, *_ = measured.keep_charged(method, *resources)
    with pytest.raises(StaleInputError):
        measured.measure_state(method, *resources, context.ledger, state)

    def compare_and_exchange(session: Session, *sealed: Any) -> bool:
        found = is_sealed(session, *sealed)
        session._connection.execute(statement.format(f"public.{context.release.schema}"))
        return found

    measured.keep_charged(method, *resources)
    compared = patch.object(measured, "is_sealed", compare_and_exchange)
    with compared, context.warehouse.session(writes=Zone.PUBLIC) as session:
        charged = measured._read_charged(session, context.custody, context.release, state)
    assert charged
    assert charged.draw_id == deployment.ledger[-1].draw_id


@pytest.mark.parametrize("kind", ["redistricting", pytest.param("DHC", marks=pytest.mark.prove)])
def test_places_and_the_version_of_the_records_are_read_once(tmp_path: Path, kind: str) -> None:
    """Wrong program: draws, or estimates a level, by another spine than the compared one, or from records of another
    version."""
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
