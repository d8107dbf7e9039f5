"""A DHC made state by state, each state in runs of its own: the same files as in one run, with one charge."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from assets.gates.shared import all_gates
from assets.topdown import histograms
from assets.topdown.dhc import levels
from resources.statements import Zone
from tests.assets.topdown.test_partitions import QUIET, data_files, failure
from tests.deployments import Deployment
from tests.dhc_deployments import BUDGETS, LEVELS, dhc_deployment
from tests.whole_repository import known

pytestmark = pytest.mark.prove

JOB = "town__dhc"
OF_STATES = ("US", "State", "Block")


def declare_states() -> dict[str, Any]:
    """The budgets of the three levels of other tests, with states below the root."""
    names = dict(zip(LEVELS, OF_STATES, strict=True))
    declared: dict[str, Any] = {
        "spine": {"US": [], "State": ["TABBLKST"], "Block": BUDGETS["spine"]["Block"]},
    }
    for histogram in ("persons", "units", "households"):
        own = BUDGETS[histogram]
        declared[histogram] = own | {
            part: {names[level]: shares for level, shares in own[part].items()} for part in ("levels", "queries")
        }
    return declared


def deploy_states(root: Path, **changes: Any) -> Deployment[Any]:
    return dhc_deployment(root, states=("10", "44"), homes=300, **declare_states() | changes)


def execute(deployment: Deployment[Any], job: str, *, state: str | None = None, raises: bool = True) -> Any:
    repository = deployment.definitions.get_repository_def()
    with known(repository):
        return repository.get_job(job).execute_in_process(
            run_config=QUIET, instance=deployment.instance, partition_key=state, raise_on_error=raises
        )


def test_a_dhc_by_state_is_that_of_one_run(tmp_path: Path) -> None:
    """Wrong programs: noise that depends on a place's number within its state, estimates of a state that are read from
    other states' tables, and a state that is altered, missing or left over."""
    folder = tmp_path / "town"
    plain = deploy_states(folder)
    # Each state's blocks are in memory by themselves; the gates below read all of them together.
    with patch.object(histograms, "CELLS_AT_A_TIME", 100), patch.object(levels, "_PLACES_AT_A_TIME", 7):
        execute(plain, JOB)
    before = data_files(plain)
    assert before
    for gate in all_gates(plain.context.method):
        if gate.name in ("estimates_as_made", "settled", "replay", "measured_once"):
            assert gate.evaluate(plain.context) == []
    parted = deploy_states(folder, partitions="state")
    execute(parted, JOB)
    states = sorted(parted.instance.get_dynamic_partitions("town__dhc__states"))
    assert states == ["10", "44"]
    execute(parted, f"states__{JOB}", state="44")
    assert "Block in 10" in failure(execute(parted, f"publication__{JOB}", raises=False))
    execute(parted, f"states__{JOB}", state="10")
    execute(parted, f"publication__{JOB}")
    assert data_files(parted) == before
    assert [entry.kind for entry in parted.ledger] == ["reserve", "settle"]
    assert [gate.name for gate in all_gates(parted.context.method) if gate.evaluate(parted.context)] == []
    with parted.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        stored = session.tables(Zone.PUBLIC, parted.release.schema)
    assert {"level_block__10", "level_block__44"} <= set(stored)
    assert "level_block" not in stored
    (as_made,) = (gate for gate in all_gates(parted.context.method) if gate.name == "estimates_as_made")
    for change in ("count = count + 1 WHERE histogram = 'units'", "cell = cell + 1 WHERE histogram = 'households'"):
        with parted.opened() as connection:
            connection.execute(f'UPDATE "level_block__44" SET {change}')
        assert as_made.evaluate(parted.context) == ["Block in 44: altered, or made from other data"]
    execute(parted, f"states__{JOB}", state="44")
    assert as_made.evaluate(parted.context) == []
    execute(deploy_states(folder), JOB)
    with parted.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert not any("__" in name for name in session.tables(Zone.PUBLIC, parted.release.schema))
