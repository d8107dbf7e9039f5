"""Plans of swaps: real charges state what was planned for their b."""

from pathlib import Path
from typing import Any

import pytest

from assets.swapping.plan import published_stratum, swapping_plan
from resources.statements import Zone
from tests.deployments import TO_PUBLICATION, small_deployment
from tests.depth import deep_cases

BEFORE_THE_CHARGE = ("cef", "invariants")

KINDS: dict[str, tuple[dict[str, Any], bool]] = {
    "plain": ({}, False),
    "exempt": ({"exempt": {"size": 4}}, False),
    "second stir": ({"second_stir": {"match": ["region"], "swap_rate": "1/5"}}, False),
    "noise before": ({"variables": ["tenure"], "noise_before": {"tenure": "3/4"}}, False),
    "rates of strata": ({"swap_rate": {"by": [{"when": {"size": 1}, "rate": "1/10"}, {"rate": "2/5"}]}}, True),
    "one epsilon": ({"swap_rate": {"epsilon": "7/2"}}, True),
    "rates of records": (
        {"swap_rate": None, "risk": {"cases": [{"at_most": 5, "rate": "4/5"}, {"rate": "1/9"}]}},
        True,
    ),
}
"""By kind: the declaration, and whether the plan is an upper bound."""


@deep_cases(2)
@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_a_charge_states_what_was_planned_for_its_b(tmp_path: Path, kind: str) -> None:
    changes, is_bound = KINDS[kind]
    deployment = small_deployment(tmp_path / "release", **changes)
    deployment.reach(*BEFORE_THE_CHARGE, "charge")
    method = deployment.context.method
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        inputs = method.inputs(session, deployment.context.custody)
    second = inputs.losses.second if inputs.losses else None
    plan = swapping_plan(deployment.release, (second or inputs).largest_stratum)
    charged = deployment.ledger[0].parse_specification().charge
    assert plan.is_bound == is_bound
    assert plan.loss is not None
    assert charged <= plan.loss if is_bound else charged == plan.loss  # type: ignore[operator]


@pytest.mark.prove
@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_takes_b_from_the_published_edition(tmp_path: Path, kind: str) -> None:
    """Except with a second stir, whose strata are others."""
    deployment = small_deployment(tmp_path / "release", **KINDS[kind][0])
    deployment.reach(*TO_PUBLICATION)
    method = deployment.context.method
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        b = method.inputs(session, deployment.context.custody).largest_stratum
    assert b is not None
    assert published_stratum(deployment.release) == (None if kind == "second stir" else b)
