"""The gates of SafeTab-P and SafeTab-H: which wrong draws and altered tables they refuse.

A wrong draw is written by the functions of the project, from a design that differs from the declared one, as a wrong
program would. The gates of the mechanism must notice it by itself; that it was not settled is left aside.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from assets.gates.shared import all_gates
from assets.publication import asset
from assets.release.gate import ReleaseContext
from assets.safetab.household_method import SafeTabHMethod
from assets.safetab.measurements import measure_batches, write_measurements
from assets.safetab.release import SafeTabPRelease
from mechanisms.safetab.adaptive import GroupNoise
from mechanisms.safetab.design import SafeTabPDesign
from resources.statements import Zone
from resources.warehouse import Session
from tests.contract.kinds import to_publication
from tests.deployments import Deployment
from tests.depth import deep_cases, quick_cases
from tests.docs.warehouse import tables_of, undescribed
from tests.safetab_deployments import HOUSEHOLDS, release_of_persons, safetab_deployment

pytestmark = pytest.mark.deep

KEY = bytes(range(32))

OTHER_THRESHOLDS = {**HOUSEHOLDS["thresholds"], "TRACT 2 T3": [41, 80, 160]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Deployment[Any]:
    """Both releases, published; that of households is the one under test."""
    root = tmp_path_factory.mktemp("town")
    persons = safetab_deployment(root)
    persons.reach(*to_publication(persons.context.method))
    found = safetab_deployment(root, releases="h")
    stages = ("plan", "population_groups", "counts", "charge", "noisy_measurements", "tables")
    found.reach(*stages, "publication")
    return found


def failing(context: ReleaseContext[Any], names: set[str] | None = None) -> set[str]:
    """The gates that find a problem, of all or of some."""
    return {
        gate.name for gate in all_gates(context.method) if (not names or gate.name in names) and gate.evaluate(context)
    }


def persons_of(deployment: Deployment[Any]) -> ReleaseContext[SafeTabPRelease]:
    from assets.safetab.method import SafeTabPMethod

    return replace(deployment.context, method=SafeTabPMethod(release_of_persons(deployment)))


@pytest.fixture
def put_back(made: Deployment[Any]) -> Iterator[None]:
    """Restore the stored tables of both releases after a test."""
    kept = made.context.warehouse.path(Zone.PUBLIC).read_bytes()
    yield
    made.context.warehouse.path(Zone.PUBLIC).write_bytes(kept)


def test_the_page_of_the_warehouse_describes_the_tables_of_both_releases(made: Deployment[Any]) -> None:
    tables = tables_of(made)
    assert {"public.town__a.t1", "public.town__b.population_groups"} <= set(tables)
    assert undescribed(tables, "safetab") == []


@pytest.mark.prove
def test_what_was_drawn_passes_every_gate(made: Deployment[Any]) -> None:
    assert not failing(made.context)
    assert not failing(persons_of(made))


OWN = {"measured_once", "noise_as_declared", "detail_as_declared", "suppression_as_declared"}


def draw(session: Session, release: SafeTabPRelease, design: SafeTabPDesign) -> None:
    """Store the draw of a program that took this design for the declared one."""
    wrong = replace(release, design=design)
    batches = list(measure_batches(session, wrong, GroupNoise(design.measured, KEY)))
    write_measurements(session, wrong, iter(batches))


def with_thresholds(design: SafeTabPDesign, *thresholds: int) -> SafeTabPDesign:
    return replace(design, thresholds=dict.fromkeys(design.thresholds, thresholds))


WRONG: dict[str, tuple[Callable[[SafeTabPDesign], SafeTabPDesign], set[str]]] = {
    "as declared": (lambda design: design, set()),
    "noise of another variance": (
        lambda design: replace(design, budgets={pair: each / 40 for pair, each in design.budgets.items()}),
        {"noise_as_declared"},
    ),
    "thresholds that no group reaches": (
        lambda design: with_thresholds(design, 10**6, 10**6, 10**6),
        {"detail_as_declared"},
    ),
    "thresholds that empty groups reach": (
        lambda design: with_thresholds(design, -(10**6), -(10**6), -(10**6)),
        {"detail_as_declared"},
    ),
    "no suppression": (lambda design: replace(design, zero_suppression_chance=Fraction(0)), {"measured_once"}),
    "suppression of half of the empty groups": (
        lambda design: replace(design, zero_suppression_chance=Fraction(1, 2)),
        {"measured_once", "suppression_as_declared"},
    ),
}


@deep_cases(1)
@quick_cases(2)
@pytest.mark.parametrize("variant", WRONG)
@pytest.mark.usefixtures("put_back")
def test_a_draw_from_another_design_is_noticed(made: Deployment[Any], variant: str) -> None:
    context, (change, expected) = persons_of(made), WRONG[variant]
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        draw(session, context.release, change(context.release.design))
    assert failing(context, OWN) >= expected
    assert bool(failing(context, OWN)) == bool(expected)


ALTERED: dict[str, tuple[str, set[str]]] = {
    "a cell is missing": (
        "DELETE FROM noisy_measurements WHERE rowid = (SELECT min(rowid) FROM noisy_measurements WHERE detail = 1)",
        {"measured_once"},
    ),
    "a group of the nation is missing": (
        "DELETE FROM noisy_measurements WHERE region_type = 'USA' AND detail = 0 AND rowid = (SELECT min(rowid) FROM "
        "noisy_measurements WHERE region_type = 'USA' AND detail = 0)",
        {"measured_once"},
    ),
    "a cell is there twice": (
        "INSERT INTO noisy_measurements SELECT * FROM noisy_measurements WHERE detail = 0 LIMIT 1",
        {"measured_once"},
    ),
    "a group is of no declared region": (
        "UPDATE noisy_measurements SET region_id = '99' WHERE region_type = 'STATE' AND region_id = '01'",
        {"measured_once"},
    ),
    "a region has another code of the same number": (
        "UPDATE noisy_measurements SET region_id = '1' WHERE region_type = 'STATE' AND region_id = '01'",
        {"measured_once"},
    ),
    "a line is not declared": ("UPDATE noisy_measurements SET level = 2 WHERE level = 1", {"measured_once"}),
    "large totals of counties are missing": (
        "DELETE FROM noisy_measurements WHERE region_type = 'COUNTY'",
        {"suppression_as_declared"},
    ),
    "levels have another type": ("ALTER TABLE noisy_measurements ALTER level TYPE HUGEINT", {"measured_once"}),
    "a count is changed": ("UPDATE noisy_measurements SET count = count + 1", {"settled", "replay", "tables_as_made"}),
    "a total is changed": ('UPDATE t1 SET "COUNT" = "COUNT" + 1', {"tables_as_made", "margins_agree"}),
    "a sex is changed": (
        'UPDATE t2 SET "COUNT" = "COUNT" + 1 WHERE "AGESTART" = \'*\'',
        {"tables_as_made", "margins_agree"},
    ),
    "an error is changed": ("UPDATE total_population SET standard_error = 0", {"tables_as_made"}),
    "a region is added": (
        "INSERT INTO regions SELECT region_type, 999, '99' FROM regions WHERE region_type = 'STATE' LIMIT 1",
        {"regions_of_the_cef"},
    ),
    "a margin of error is changed": ("UPDATE parameters SET margin = 0", {"parameters_as_declared"}),
}


@deep_cases(1)
@pytest.mark.parametrize("alteration", ALTERED)
@pytest.mark.usefixtures("put_back")
def test_altered_tables_of_persons_are_noticed(made: Deployment[Any], alteration: str) -> None:
    context, (statement, expected) = persons_of(made), ALTERED[alteration]
    with made.opened() as connection:
        connection.execute(f"USE public.{context.release.schema}")
        connection.execute(statement)
    assert failing(context) >= expected


ALTERED_HOUSEHOLDS: dict[str, tuple[str, set[str]]] = {
    "a cell is missing": (
        "DELETE FROM noisy_measurements WHERE rowid = (SELECT min(rowid) FROM noisy_measurements)",
        {"measured_once", "settled"},
    ),
    "a cell is there twice": (
        "INSERT INTO noisy_measurements SELECT * FROM noisy_measurements LIMIT 1",
        {"measured_once", "settled"},
    ),
    "levels have another type": ("ALTER TABLE noisy_measurements ALTER level TYPE HUGEINT", {"measured_once"}),
    "a group is missing": ("DELETE FROM population_groups WHERE number = 3", {"groups_as_published"}),
    "a group has another detail": (
        "UPDATE population_groups SET t3 = 3 WHERE t3 = 0",
        {"groups_as_published", "measured_once"},
    ),
    "noise of another variance": ("UPDATE noisy_measurements SET count = count * 5 + 7", {"noise_as_declared"}),
    "a table is changed": ('UPDATE t03001 SET "COUNT" = "COUNT" + 1', {"tables_as_made"}),
    "a group is in two tables": ("INSERT INTO t03001 SELECT * FROM t03002 LIMIT 1", {"groups_complete"}),
    "a margin of error is changed": ("UPDATE parameters SET margin = 0", {"parameters_as_declared"}),
}


@deep_cases(1)
@pytest.mark.parametrize("alteration", ALTERED_HOUSEHOLDS)
@pytest.mark.usefixtures("put_back")
def test_altered_tables_of_households_are_noticed(made: Deployment[Any], alteration: str) -> None:
    statement, expected = ALTERED_HOUSEHOLDS[alteration]
    with made.opened() as connection:
        connection.execute(statement)
    assert failing(made.context) >= expected


@deep_cases(1)
@pytest.mark.parametrize(
    "alteration", ["t3 = 3 WHERE t3 = 0", "total = total + 1", "region_id = '02' WHERE region_id = '01'"]
)
@pytest.mark.usefixtures("put_back")
def test_altered_groups_are_not_charged(made: Deployment[Any], alteration: str) -> None:
    with made.opened() as connection:
        connection.execute(f"UPDATE population_groups SET {alteration}")
    entries = len(made.ledger)
    # Counted first, because altered groups could be put back before the charge.
    for stage in ("counts", "charge"):
        assert "the stored tables of stage population_groups are not those that the stage wrote" in made.refusal(stage)
    assert len(made.ledger) == entries


@pytest.mark.usefixtures("put_back")
def test_groups_of_other_thresholds_are_not_charged(made: Deployment[Any]) -> None:
    """If only the charge is materialized after the thresholds changed, the groups still have the earlier details."""
    changed = safetab_deployment(made.root, releases="h", households={"thresholds": OTHER_THRESHOLDS})
    assert "the stored tables of stage" in changed.refusal("charge")


@pytest.mark.prove
def test_households_need_the_publication_of_persons_as_it_was_signed(made: Deployment[Any]) -> None:
    """Fails for a program that verifies the files, and then reads other files put in their place."""
    folder = release_of_persons(made).folder
    file = folder / "t1.parquet"
    kept, verify = file.read_bytes(), asset.publication_problems

    def exchange(*given: Any) -> list[str]:
        problems = verify(*given)
        pq.write_table(pq.read_table(file).slice(1), file)
        return problems

    try:
        with patch.object(asset, "publication_problems", exchange):
            assert "t1.parquet is missing or was altered" in made.refusal("population_groups")
        file.write_bytes(kept + b"x")
        assert "groups_as_published" in failing(made.context)
        refusal = made.refusal("population_groups")
    finally:
        file.write_bytes(kept)
    assert "the publication of town/a cannot be believed: " in refusal
    assert "t1.parquet" in refusal


@pytest.mark.prove
def test_households_wait_for_the_publication_of_persons(tmp_path: Any) -> None:
    deployment = safetab_deployment(tmp_path, releases="h")
    assert deployment.run_assets(deployment.key("cef"), deployment.key("plan")).success
    refusal = deployment.refusal("population_groups")
    assert "town/a is not published yet; launch the job town__a, and then this one again" in refusal
    assert not deployment.ledger


@pytest.mark.prove
def test_households_refuse_totals_of_other_records(tmp_path: Any) -> None:
    persons = safetab_deployment(tmp_path)
    persons.reach(*to_publication(persons.context.method))
    changed = safetab_deployment(tmp_path, releases="h", seed=2)
    a = release_of_persons(changed)
    assert changed.run_assets(changed.key("cef"), changed.key("plan")).success
    refusal = changed.refusal("population_groups")
    assert "town/a is published from other records or another declaration; launch the job town__a" in refusal
    assert changed.run_assets(changed.key("cef"), a.key("regions"), a.key("counts"), changed.key("plan")).success
    refusal = changed.refusal("population_groups")
    assert "town/a is published from other records or another declaration" in refusal


def test_the_jobs_of_households_leave_the_release_of_persons_alone(made: Deployment[Any]) -> None:
    method = made.context.method
    assert isinstance(method, SafeTabHMethod)
    for name in (made.release.schema, f"preflight__{made.release.schema}"):
        keys = made.definitions.resolve_job_def(name).asset_layer.executable_asset_keys
        assert not [key for key in keys if key.path[:2] == ["town", "a"]]
        assert any(key.path[:2] == ["town", "b"] for key in keys)
