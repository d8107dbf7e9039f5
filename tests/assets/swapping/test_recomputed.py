"""The loss of a swap follows from the records, whatever the stored margins say."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.release import method as release_method
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.deployments import small_deployment
from tests.depth import deep_but

pytestmark = pytest.mark.deep


ALTERED = "UPDATE invariant_holding SET count = count - 1 WHERE holding_code = 0"
FEWER_STRATA = "UPDATE invariant_swap SET region = 'N' WHERE region = 'S'"


@pytest.mark.parametrize(
    "statement", deep_but([ALTERED], [ALTERED, FEWER_STRATA, "UPDATE records SET version = repeat('0', 64)"])
)
def test_altered_margins_are_neither_charged_nor_drawn(tmp_path: Path, statement: str) -> None:
    deployment = small_deployment(tmp_path)
    deployment.run("cef", "invariants")
    with deployment.opened() as connection:
        connection.execute(statement)
    refusal = deployment.refusal("charge")
    assert "the stored tables of stage invariants are not those that the stage wrote" in refusal
    assert "materialize invariants again" in refusal
    assert deployment.ledger == ()
    deployment.run("invariants", "charge")
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
    assert "the charge was computed for other strata than those of the records" in refusal
    assert [entry.kind for entry in deployment.ledger] == ["reserve"]
    with deployment.opened() as connection:
        assert not connection.execute("SELECT 1 FROM (SHOW ALL TABLES) WHERE name = 'swapped_cells'").fetchall()


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(folder=str(tmp_path_factory.mktemp("strata")), threads=1)


VALUES = st.one_of(st.none(), st.sampled_from("ab"))


@given(st.lists(st.tuples(st.sampled_from("xy"), VALUES, VALUES), max_size=6), st.booleans())
def test_strata_and_b_from_records_are_those_of_the_definition(
    warehouse: Warehouse, records: list[tuple[Any, ...]], matched: bool
) -> None:
    """A stratum counts for b if two of its records differ, where a missing value differs from every other."""
    strata: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for record in records:
        strata[record[0] if matched else None].append(record)
    distinct = [len(each) for each in strata.values() if len(set(each)) > 1]
    expected = (len(strata), max(distinct, default=0))
    table = pa.table({name: pa.array([record[at] for record in records], pa.string()) for at, name in enumerate("mhs")})
    with warehouse.session(writes=Zone.PUBLIC) as session:
        source = session.register("given", table)
        match, others = (["m"], ["h", "s"]) if matched else ([], ["m", "h", "s"])
        found = session.row("swapping/strata_of_records", records=source, match=match, others=others)
    assert found == expected
