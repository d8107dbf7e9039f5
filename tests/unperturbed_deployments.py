"""Small deployments with releases without randomness, on the village of `tests.deployments`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assets.coarsening.declaration import CoarseningDeclaration
from assets.coarsening.release import CoarseningRelease
from assets.suppression.declaration import SuppressionDeclaration
from assets.suppression.release import SuppressionRelease
from orchestration.components.coarsening import Coarsening
from orchestration.components.suppression import Suppression
from tests.deployments import Deployment, deploy, households, small_dataset, write_csv

COARSE_PRODUCTS = [
    {"name": "size_by_county", "geography": ["region", "county"], "dimensions": ["size"]},
    {"name": "tenure", "dimensions": ["tenure"]},
]
SPARSE_PRODUCTS = [
    {"name": "size_by_county", "geography": ["county"], "dimensions": ["size"]},
    {"name": "tenure_by_county", "geography": ["county"], "dimensions": ["tenure"]},
    {"name": "tenure_by_size", "dimensions": ["size", "tenure"]},
    {"name": "county", "geography": ["county"]},
]


def coarsening_deployment(
    root: Path,
    *,
    units: Sequence[Mapping[str, Any]] | None = None,
    dataset: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Deployment[CoarseningRelease]:
    """A deployment with its source files, before any run. `changes` are to the release's declaration."""
    declared = {
        "name": "coarse",
        "geography": ["region", "county"],
        "place_threshold": 20,
        "key": ["size"],
        "least": 8,
        "kept": ["tenure"],
        "products": COARSE_PRODUCTS,
    }
    return _deploy(root, units, dataset, Coarsening, CoarseningDeclaration, declared | changes)


def suppression_deployment(
    root: Path,
    *,
    units: Sequence[Mapping[str, Any]] | None = None,
    dataset: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Deployment[SuppressionRelease]:
    """As `coarsening_deployment`."""
    declared = {"name": "sparse", "threshold": 8, "width": 3, "products": SPARSE_PRODUCTS}
    return _deploy(root, units, dataset, Suppression, SuppressionDeclaration, declared | changes)


def _deploy(root: Path, units: Any, dataset: Any, component: Any, kind: Any, declared: dict[str, Any]) -> Any:
    root.mkdir(exist_ok=True)
    write_csv(root / "units.csv", units or households())
    village = small_dataset(root, **({"unbounded_releases": "allowed"} | dict(dataset or {})))
    return deploy(root, village, component(kind.model_validate({"dataset": village.name, "title": "T"} | declared)))
