"""The loss of a swap follows from the records, regardless of the stored margins."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.release import method as release_method
from mechanisms.swapping.permutation import Contingency, count_cells, measure_strata
from tests.deployments import small_deployment
from tests.depth import deep_but, deep_cases

pytestmark = pytest.mark.deep


ALTERED = "UPDATE invariant_holding SET count = count - 1 WHERE holding_code = 0"
FEWER_STRATA = "UPDATE invariant_swap SET region = 'N' WHERE region = 'S'"


@deep_cases(1)
@pytest.mark.parametrize(
    "statement", deep_but([ALTERED], [ALTERED, FEWER_STRATA, "UPDATE records SET version = repeat('0', 64)"])
)
def test_altered_margins_are_neither_charged_nor_drawn(tmp_path: Path, statement: str) -> None:
    deployment = small_deployment(tmp_path)
    deployment.reach("cef", "invariants")
    with deployment.opened() as connection:
        connection.execute(statement)
    refusal = deployment.refusal("charge")
    assert "the stored tables of stage invariants are not those that the stage wrote" in refusal
    assert "materialize invariants again" in refusal
    assert deployment.ledger == ()
    deployment.reach("invariants", "charge")
    with deployment.opened() as connection:
        connection.execute(statement)
    assert "are not those that the stage wrote" in deployment.refusal("swapped")
    assert [entry.kind for entry in deployment.ledger] == ["reserve"]


def test_a_loss_that_does_not_follow_from_the_records_is_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the seal were no obstacle: the draw counts the strata of the records itself."""
    monkeypatch.setattr(release_method, "require_sealed", lambda *arguments: None)
    deployment = small_deployment(tmp_path)
    deployment.run("cef", "invariants")
    with deployment.opened() as connection:
        connection.execute("UPDATE invariant_holding SET count = 1")
    deployment.run("charge")
    refusal = deployment.refusal("swapped")
    assert "the charge was computed for other strata than the records have" in refusal
    assert [entry.kind for entry in deployment.ledger] == ["reserve"]
    with deployment.opened() as connection:
        assert not connection.execute("SELECT 1 FROM (SHOW ALL TABLES) WHERE name = 'swapped_cells'").fetchall()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 1)), max_size=7))
def test_strata_and_b_from_records_are_those_of_the_definition(records: list[tuple[int, int, int]]) -> None:
    """A stratum counts for b if two of its records differ."""
    strata: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for record in records:
        strata[record[0]].append(record)
    distinct = [len(each) for each in strata.values() if len(set(each)) > 1]
    keys = np.array([((2 * stratum + held) << 32) + swap for stratum, held, swap in records], dtype=np.int64)
    holding, swap, count = count_cells(keys)
    table = Contingency((holding // 2).astype(np.int32), holding, swap, count)
    assert measure_strata(table) == (len(strata), max(distinct, default=0))
