"""Small deployments of releases by the table builder, for tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assets.table_builder.declaration import TableBuilderDeclaration
from orchestration.components.release import ReleaseComponent
from orchestration.components.table_builder import TableBuilder
from tests.deployments import (
    Deployment,
    deploy,
    households,
    members,
    small_dataset,
    small_release,
    write_csv,
)

TENURE: dict[str, Any] = {
    "name": "tenure",
    "variables": ["county", "tenure", "size"],
    "epsilon": 2,
    "margins": "fitted",
    "products": [{"name": "owners", "by": ["county"], "where": {"tenure": ["own"]}}],
}
"""A hypercube of households whose margins are all measured."""

STATISTICS: dict[str, Any] = {
    "name": "sizes",
    "variables": ["county", "tenure"],
    "epsilon": 2,
    "quantiles": {"size": {"bounds": [1, 9], "grid": 1, "branching": 3}},
    "moments": ["size"],
}
"""A hypercube of households with quantiles and moments."""

SWAP = {"name": "stirred", "withheld": True, "products": [], "saturated": False, "swap_rate": "1/2"}
AFTER = {"name": "after", "swapped": "stirred", "variables": ["county", "tenure"], "epsilon": 1}
"""A swap of households that is withheld, and a hypercube that is counted from its records."""


def hypercubes(dataset: str, *cubes: Mapping[str, Any], **changes: Any) -> list[ReleaseComponent]:
    """The components of declared hypercubes, which are released together as `tables`."""
    declared = {"name": "tables", "dataset": dataset, "title": "Noisy tables", "hypercubes": list(cubes)}
    return list(TableBuilder(TableBuilderDeclaration.model_validate(declared | changes)).releases())


def hypercube_deployment(
    root: Path,
    *cubes: Mapping[str, Any],
    units: Sequence[Mapping[str, Any]] | None = None,
    persons: Sequence[Mapping[str, Any]] | None = None,
    dataset: Mapping[str, Any] | None = None,
    tested: int = 0,
    **changes: Any,
) -> Deployment[Any]:
    """A deployment of the small dataset with persons and its files, before any run.

    Args:
        root: a new or empty folder, or the folder of an earlier such deployment, which then continues.
        cubes: the declared hypercubes. By default `TENURE`.
        units, persons: the records, if not the usual ones.
        dataset: changes to the dataset's declaration.
        tested: the number of the release under test; after a hypercube come its quantiles and moments.
        changes: the changed fields of the release's declaration.
    """
    root.mkdir(exist_ok=True)
    rows = units if units is not None else households()
    write_csv(root / "units.csv", rows)
    write_csv(root / "persons.csv", persons if persons is not None else members(rows))
    declared = small_dataset(root, with_persons=True, **(dataset or {}))
    releases = hypercubes(declared.name, *(cubes or (TENURE,)), **changes)
    return deploy(root, declared, releases.pop(tested), *releases)


def after_swap_deployment(
    root: Path,
    cube: Mapping[str, Any] = AFTER,
    *,
    units: Sequence[Mapping[str, Any]] | None = None,
    dataset: Mapping[str, Any] | None = None,
    swap: Mapping[str, Any] | None = None,
    tested: int = 0,
    **changes: Any,
) -> Deployment[Any]:
    """A deployment of a hypercube that is counted from the withheld records of a swap of the same dataset.

    Args:
        root, units, dataset, tested, changes: as in `hypercube_deployment`.
        cube: the declared hypercube.
        swap: changes to the declaration of the swap.
    """
    root.mkdir(exist_ok=True)
    write_csv(root / "units.csv", units if units is not None else households())
    declared = small_dataset(root, **(dataset or {}))
    swapping = small_release(declared, **(SWAP | dict(swap or {})))
    given = {"name": "tables", "dataset": "village", "title": "Noisy tables", "hypercubes": [cube], **changes}
    releases = list(TableBuilder(TableBuilderDeclaration.model_validate(given)).releases([swapping]))
    return deploy(root, declared, releases.pop(tested), *releases, swapping)
