"""The check of the asset graph for paths by which confidential data could be published.

The rule: every path from a confidential asset to a publication passes through a charged draw, a declared invariant, or
the keyed versions of a charge. Each asset states its zone with a tag.
"""

from collections.abc import Iterable, Mapping

import dagster as dg

from assets.conventions import CROSSING, DRAW, INVARIANT, KEYED, STAGE_KIND, ZONE, StageKind
from resources.statements import Zone

Nodes = Mapping[str, dg.AssetSpec]
"""The assets of a deployment, by their keys as text."""


def list_deployed_nodes(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext,
) -> Nodes:
    """The assets of the deployment that a run belongs to.

    Raises:
        dagster.Failure: if the run belongs to no deployment. A job that runs on its own knows only its own assets, so
            the paths between all assets cannot be checked.
    """
    try:
        repository = context.repository_def
    except Exception:  # Dagster has no public name for the error that it raises here.
        raise dg.Failure(
            "This run belongs to no deployment, so its asset graph is incomplete and cannot be checked. Launch the job "
            "with `stirred launch` or from the UI."
        ) from None
    return list_nodes(definition.get_asset_spec(key) for key, definition in repository.assets_defs_by_key.items())


def list_nodes(specs: Iterable[dg.AssetSpec]) -> Nodes:
    return {spec.key.to_user_string(): spec for spec in specs}


def find_leaks(nodes: Nodes, publication: dg.AssetKey, *, drawn: bool = True) -> list[str]:
    """The problems of the paths that end in a publication; empty if there are none.

    Every ancestor must state its zone. A path from a confidential asset to the publication must pass through an asset
    that crosses as an invariant, as a draw or with a keyed version. A draw must have a charge among its parents, and
    only a charge may read confidential stages through keyed versions. If no path passes through a draw or an invariant,
    the graph is incomplete, which is a problem too, unless it is not `drawn` in this deployment.
    """
    problems = []
    crossed = False
    seen: set[str] = set()
    open_paths: list[tuple[str, ...]] = [(publication.to_user_string(),)]
    while open_paths:
        path = open_paths.pop()
        key = path[-1]
        if key in seen:
            continue
        seen.add(key)
        node = nodes.get(key)
        if node is None:
            problems.append(f"{key} is not in the graph")
            continue
        zone, parents = node.tags.get(ZONE), sorted({dep.asset_key.to_user_string() for dep in node.deps})
        if zone not in {member.value for member in Zone}:
            problems.append(f"{key} states no zone")
        elif zone == Zone.CONFIDENTIAL:
            problems.append(f"a path without a draw or an invariant: {' ← '.join(path)}")
        elif node.tags.get(CROSSING) in (DRAW, INVARIANT):
            crossed = True
            kinds = {nodes[parent].tags.get(STAGE_KIND) for parent in parents if parent in nodes}
            if node.tags[CROSSING] == DRAW and StageKind.CHARGE not in kinds:
                problems.append(f"{key} draws without a charge among its parents")
        elif node.tags.get(CROSSING) == KEYED:
            if node.tags.get(STAGE_KIND) != StageKind.CHARGE:
                problems.append(f"{key} crosses with a keyed version but is not a charge")
            confidential = {name for name, other in nodes.items() if other.tags.get(ZONE) == Zone.CONFIDENTIAL}
            open_paths += [(*path, parent) for parent in parents if parent not in confidential]
        else:
            open_paths += [(*path, parent) for parent in parents]
    if drawn and not crossed:
        problems.append(f"{publication.to_user_string()} descends from no draw: the graph is incomplete")
    return sorted(problems)
