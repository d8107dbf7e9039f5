"""The walk over the asset graph: on small graphs, on this deployment, and on deployments with a leak."""

from pathlib import Path

import dagster as dg
import pytest

from assets.confidentiality import find_leaks, list_nodes
from orchestration.definitions import defs
from tests.deployments import TO_PUBLICATION, Deployment, small_deployment
from tests.depth import deep_cases

PUBLICATION = dg.AssetKey("publication")


def node(zone: str | None, *parents: str, kind: str = "", crossing: str | None = None) -> dg.AssetSpec:
    tags = {"zone": zone, "stage_kind": kind, "crossing": crossing}
    deps = [dg.AssetKey.from_user_string(parent) for parent in parents]
    return dg.AssetSpec("node", deps=deps, tags={name: value for name, value in tags.items() if value})


SOUND = {
    "cef": node("confidential"),
    "invariants": node("public", "cef", kind="invariants", crossing="invariant"),
    "charge": node("public", "invariants", kind="charge"),
    "swapped": node("public", "cef", "charge", kind="draw", crossing="draw"),
    "tables": node("public", "swapped", kind="tabulation"),
    "utility": node("confidential", "cef", "swapped", kind="utility"),
    "publication": node("public", "tables", "invariants", kind="publication"),
}
"""A release whose charge depends only on statistics published exactly."""

KEYED = {
    "cef": node("confidential"),
    "counts": node("confidential", "cef", kind="counts"),
    "charge": node("public", "counts", kind="charge", crossing="keyed-version"),
    "noisy_measurements": node("public", "counts", "charge", kind="draw", crossing="draw"),
    "tables": node("public", "noisy_measurements", kind="tabulation"),
    "publication": node("public", "tables", "charge", kind="publication"),
}
"""A release whose charge depends on a keyed version of confidential data."""


def test_a_path_through_a_charged_draw_or_an_invariant_is_no_leak() -> None:
    assert find_leaks(SOUND, PUBLICATION) == []


def test_a_charge_may_see_a_keyed_version() -> None:
    assert find_leaks(KEYED, PUBLICATION) == []


@pytest.mark.parametrize(
    ("changed", "leak"),
    [
        (
            {"tables": node("public", "counts", kind="tabulation", crossing="keyed-version")},
            "tables crosses with a keyed version but is not a charge",
        ),
        (
            {"noisy_measurements": node("public", "counts", "charge", kind="measurement", crossing="keyed-version")},
            "noisy_measurements crosses with a keyed version but is not a charge",
        ),
        (
            {"publication": node("public", "tables", "cef", kind="publication", crossing="keyed-version")},
            "publication crosses with a keyed version but is not a charge",
        ),
        (
            {"charge": node("public", "counts", kind="charge")},
            "a path without a draw or an invariant: publication ← charge ← counts",
        ),
        (
            {"charge": node("confidential", "counts", kind="charge", crossing="keyed-version")},
            "a path without a draw or an invariant: publication ← charge",
        ),
        (
            {"publication": node("public", "charge", kind="publication")},
            "publication descends from no draw: the graph is incomplete",
        ),
        (
            {"noisy_measurements": node("public", "counts", kind="draw", crossing="draw")},
            "noisy_measurements draws without a charge among its parents",
        ),
    ],
)
def test_only_a_charge_may_cross_with_a_keyed_version(changed: dict[str, dg.AssetSpec], leak: str) -> None:
    assert leak in find_leaks(KEYED | changed, PUBLICATION)


@pytest.mark.parametrize(
    ("changed", "leak"),
    [
        (
            {"publication": node("public", "tables", "cef")},
            "a path without a draw or an invariant: publication ← cef",
        ),
        (
            {"tables": node("public", "swapped", "cef")},
            "a path without a draw or an invariant: publication ← tables ← cef",
        ),
        (
            {"publication": node("public", "tables", "utility")},
            "a path without a draw or an invariant: publication ← utility",
        ),
        (
            {"summary": node("public", "utility"), "tables": node("public", "swapped", "summary")},
            "a path without a draw or an invariant: publication ← tables ← summary ← utility",
        ),
        (
            {"swapped": node("public", "cef", "charge", kind="draw")},
            "a path without a draw or an invariant: publication ← tables ← swapped ← cef",
        ),
        (
            {"swapped": node("public", "cef", "charge", kind="draw", crossing="habit")},
            "a path without a draw or an invariant: publication ← tables ← swapped ← cef",
        ),
        (
            {"publication": node("confidential", "tables")},
            "a path without a draw or an invariant: publication",
        ),
        ({"swapped": node("public", "cef", kind="draw", crossing="draw")}, "swapped draws without a charge"),
        ({"charge": node("public", "invariants", kind="tabulation")}, "swapped draws without a charge"),
        ({"tables": node(None, "swapped")}, "tables states no zone"),
        ({"tables": node("secret", "swapped")}, "tables states no zone"),
        ({"publication": node("public", "tables", "more")}, "more is not in the graph"),
        ({"publication": node("public")}, "publication descends from no draw: the graph is incomplete"),
    ],
)
def test_any_other_path_is_found(changed: dict[str, dg.AssetSpec], leak: str) -> None:
    assert any(problem.startswith(leak) for problem in find_leaks(SOUND | changed, PUBLICATION))


def test_every_leak_is_named_and_not_only_the_first() -> None:
    leaky = SOUND | {
        "publication": node("public", "tables", "cef"),
        "tables": node("public", "swapped", "utility"),
        "swapped": node("public", "cef", kind="draw", crossing="draw"),
    }
    assert len(find_leaks(leaky, PUBLICATION)) == 3


def test_the_walk_over_a_cyclic_graph_ends() -> None:
    assert find_leaks(SOUND | {"tables": node("public", "swapped", "publication")}, PUBLICATION) == []


def test_a_publication_outside_the_graph_is_a_leak() -> None:
    assert "publication is not in the graph" in find_leaks({}, PUBLICATION)


@pytest.mark.deep
def test_nothing_leaks_in_this_deployment() -> None:
    nodes = list_nodes(defs().resolve_all_asset_specs())
    publications = [key for key, found in nodes.items() if found.tags.get("stage_kind") == "publication"]
    assert publications
    for key in publications:
        assert find_leaks(nodes, dg.AssetKey.from_user_string(key)) == []


@pytest.mark.deep
def test_every_asset_of_this_deployment_states_its_zone_and_its_kind_of_stage() -> None:
    for found in list_nodes(defs().resolve_all_asset_specs()).values():
        assert found.tags["zone"] in {"confidential", "public"}
        assert found.tags["stage_kind"]


def test_only_draws_invariants_and_charges_of_this_deployment_cross() -> None:
    """Every asset that may leave the confidential zone is listed here, so that a new one is a deliberate decision."""
    nodes = list_nodes(defs().resolve_all_asset_specs())
    crossing = [found.tags for found in nodes.values() if "crossing" in found.tags]
    crossings = {(tags["stage_kind"], tags["crossing"]) for tags in crossing}
    assert crossings == {
        ("invariants", "invariant"),
        ("charge", "keyed-version"),
        ("plan", "keyed-version"),
        ("draw", "draw"),
    }
    confidential = {key for key, found in nodes.items() if found.tags["zone"] == "confidential"}
    for key, found in nodes.items():
        if found.tags["zone"] == "public" and confidential & {dep.asset_key.to_user_string() for dep in found.deps}:
            assert "crossing" in found.tags, f"{key} reads confidential assets"


def mended(deployment: Deployment, stage: str, parent: str) -> Deployment:
    """The deployment with another parent of one asset, added by mistake."""
    deployment.definitions = deployment.definitions.map_resolved_asset_specs(
        func=lambda spec: (
            spec.merge_attributes(deps=[deployment.key(parent)]) if spec.key == deployment.key(stage) else spec
        )
    )
    return deployment


@pytest.mark.deep
@deep_cases(1)
@pytest.mark.parametrize(
    ("stage", "parent", "path"),
    [
        pytest.param(
            "publication",
            "utility",
            "village/counties/publication ← village/counties/utility",
            marks=pytest.mark.deep,
        ),
        ("tables", "cef", "village/counties/publication ← village/counties/tables ← village/cef"),
    ],
)
def test_a_deployment_with_a_leak_does_not_publish(stage: str, parent: str, path: str, tmp_path: Path) -> None:
    deployment = mended(small_deployment(tmp_path), stage, parent)
    result = deployment.run(*TO_PUBLICATION, raise_on_error=False)
    assert not result.success
    (check,) = (check for check in result.get_asset_check_evaluations() if check.check_name == "confidentiality")
    assert not check.passed
    assert path in (check.description or "")
    assert "publication" not in deployment.executed(result)
    assert deployment.published() == {}
    refusal = deployment.refusal("publication")
    assert f"confidentiality: a path without a draw or an invariant: {path}" in refusal
    assert deployment.published() == {}


@pytest.mark.deep
def test_a_later_leak_leaves_the_publication_unchanged(tmp_path: Path) -> None:
    deployment = small_deployment(tmp_path)
    deployment.reach(*TO_PUBLICATION)
    before = deployment.published()
    assert "confidentiality: " in mended(deployment, "publication", "utility").refusal("publication")
    assert deployment.published() == before


def test_without_the_whole_graph_the_check_fails(tmp_path: Path) -> None:
    """A job that runs outside a deployment does not know the other ancestors of its assets."""
    deployment = small_deployment(tmp_path)
    deployment.run("cef", "invariants", "charge", "swapped", "tables", "ledger", "composition")
    result = deployment.definitions.resolve_job_def("release").execute_in_process(
        instance=deployment.instance, asset_selection=[deployment.key("publication")], raise_on_error=False
    )
    (failed, *_) = (event for event in result.all_events if event.is_step_failure)
    failure = failed.step_failure_data.user_failure_data
    assert failure is not None
    assert (failure.description or "").startswith("This run belongs to no deployment")
    assert deployment.published() == {}
