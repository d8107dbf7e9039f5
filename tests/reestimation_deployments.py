"""A reestimation of a release by TopDown, or of files of the Census Bureau alone, as a release under test, although it
makes no draw."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import yaml

from assets.confidentiality import list_nodes
from assets.release.release import Publisher, Release
from assets.topdown.reestimation.asset import Anew
from orchestration.components import Reestimation
from orchestration.components.dataset import Dataset
from orchestration.components.topdown import TopDown
from tests.contract.kinds import guessed
from tests.deployments import Deployment
from tests.phsafe_deployments import census
from tests.topdown_deployments import TWO_LEVELS, topdown_deployment, with_quarters

DECLARED = {"name": "anew", "dataset": "town", "of": "redistricting", "title": "Estimated anew"}


@dataclass(frozen=True)
class Reading(Anew):
    """A method with the attributes that tests need of every release's method.

    Attributes:
        counted: the method of the release beside it.
    """

    counted: Any
    partitions = None
    draw_stage = ""

    @property
    def reads_publications_of(self) -> Sequence[Release]:
        return [self.release.of] if self.release.of else []


def reestimation_deployment(
    root: Path, guess: int = 0, custody: str = "", estimation: str = "own_levels", **changes: Any
) -> Deployment[Any]:
    """A deployment with the reestimation as the release under test, before any run. The release beside it is declared
    even if the measurements are in a folder.

    Args:
        root, guess: as in `Kind.build`.
        estimation: of the release and of the reestimation.
        changes: to the reestimation's declaration; None leaves a field out.
    """
    files = guessed(with_quarters(census()), guess) if guess else None
    town = topdown_deployment(root, files=files, **TWO_LEVELS, estimation=estimation)
    given = {
        name: value for name, value in (DECLARED | {"estimation": estimation} | changes).items() if value is not None
    }
    component, of = Reestimation.resolve_from_yaml(yaml.safe_dump(given)), town.release
    components = [Dataset(of.dataset), TopDown(of.declaration)]
    tree = SimpleNamespace(get_all_components=lambda kind: [each for each in components if isinstance(each, kind)])
    context = cast(dg.ComponentLoadContext, SimpleNamespace(project_root=root, component_tree=tree))
    release = component.find({"town": of.dataset}, components[1:], of.published, Publisher.model_validate({}), root)
    definitions = dg.Definitions.merge(town.definitions, component.build_defs(context))
    nodes = list_nodes(definitions.resolve_all_asset_specs())
    declared = f"{town.declared} {given}"
    return replace(
        town,
        definitions=definitions,
        declared=declared,
        context=replace(town.context, method=cast(Any, Reading(release, town.context.method)), nodes=nodes),
    )
