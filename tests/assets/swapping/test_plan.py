"""Plans of swaps: real charges agree with the plan for their b."""

import json
from pathlib import Path
from typing import Any

import pytest

from assets.release.signature import CERTIFICATE
from assets.swapping import plan
from assets.swapping.plan import published_stratum, swapping_plan
from assets.swapping.statement import LARGEST_STRATUM, SWAP_KEY
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


@deep_cases(1)
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
    """Except with a second stir, which has other strata."""
    deployment = small_deployment(tmp_path / "release", **KINDS[kind][0])
    deployment.reach(*TO_PUBLICATION)
    method = deployment.context.method
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        b = method.inputs(session, deployment.context.custody).largest_stratum
    assert b is not None
    assert published_stratum(deployment.release) == (None if kind == "second stir" else b)


def test_the_match_variables_of_an_edition_may_have_words_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate has them in the order of their words. The kinds above have words in the order of the names."""
    release = small_deployment(tmp_path / "release").release
    first, second = release.design.match
    monkeypatch.setattr(plan, "variable_words", lambda _: {first: "zone", second: "age"})
    parameters = {SWAP_KEY: ["age", "zone"], LARGEST_STRATUM: 7}
    record = {
        "invariants": {"as_charged": release.design.invariants},
        "mechanism": {"parameters": [{"label": label, "value": value} for label, value in parameters.items()]},
    }
    release.folder.mkdir(parents=True)
    (release.folder / CERTIFICATE).write_text(json.dumps(record))
    assert published_stratum(release) == 7
    monkeypatch.setattr(plan, "variable_words", lambda _: {first: "zone", second: "sex"})
    assert published_stratum(release) is None
