"""A retabulation beside a release by TopDown, and as a release under test, although it makes no draw."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import yaml

from assets.confidentiality import list_nodes
from assets.release.dataset import DatasetDeclaration
from assets.release.release import Publisher, Release
from assets.retabulation.asset import Recount
from orchestration.components import Retabulation
from orchestration.components.dataset import Dataset
from orchestration.components.topdown import TopDown
from tests.contract.kinds import KINDS
from tests.deployments import Deployment

DECLARED = {
    "name": "places",
    "dataset": "town",
    "of": "redistricting",
    "title": "Places",
    "geographies": {"place": ["TABBLKST", "PLACEFP"], "district": "districts.csv"},
    "tables": ["P1", "P2", "H1"],
}


@dataclass(frozen=True)
class Counting(Recount):
    """A method with the attributes that tests need of every release's method.

    Attributes:
        counted: the method of the release that it counts again.
    """

    counted: Any
    partitions = None
    draw_stage = ""

    @property
    def reads_publications_of(self) -> Sequence[Release]:
        return [self.release.source]


def declare(deployment: Deployment[Any], *datasets: DatasetDeclaration, **changes: Any) -> Deployment[Any]:
    """The deployment with a retabulation beside its release, which stays the one under test, and further datasets."""
    release = deployment.release
    components = [Dataset(release.dataset), TopDown(release.declaration), *map(Dataset, datasets)]
    tree = SimpleNamespace(get_all_components=lambda kind: [each for each in components if isinstance(each, kind)])
    context = cast(dg.ComponentLoadContext, SimpleNamespace(project_root=deployment.root, component_tree=tree))
    component = Retabulation.resolve_from_yaml(yaml.safe_dump(DECLARED | changes))
    definitions = dg.Definitions.merge(deployment.definitions, component.build_defs(context))
    return replace(deployment, definitions=definitions)


def retabulation_deployment(root: Path, guess: int = 0, custody: str = "", **changes: Any) -> Deployment[Any]:
    """A deployment with the retabulation as the release under test, before any run. Its custody is its release's.

    Args:
        root, guess: as in `Kind.build`.
        changes: to the retabulation's declaration.
    """
    products = ["P1", "H1", "persons", "units"]
    town = KINDS["topdown"].build(root, guess, products=products)
    given: dict[str, Any] = {"geographies": {"place": ["TABBLKST", "PLACEFP"]}} | changes
    component, of = Retabulation.resolve_from_yaml(yaml.safe_dump(DECLARED | given)), town.release
    others = [TopDown(of.declaration)]
    release = component.find({"town": of.dataset}, others, of.published, Publisher.model_validate({}), root)
    declared = declare(town, **given)
    nodes = list_nodes(declared.definitions.resolve_all_asset_specs())
    return replace(
        declared, context=replace(town.context, method=cast(Any, Counting(release, town.context.method)), nodes=nodes)
    )
