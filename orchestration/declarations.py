"""What a component tree declares, without the definitions that follow from it."""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError
from orchestration.components.dataset import Dataset
from orchestration.components.release import DeclaresReleases, ReleaseComponent, releases_of
from orchestration.defs_files import require_unambiguous


def component_tree() -> dg.ComponentTree:
    """The declarations under `defs/`, not loaded yet."""
    return dg.ComponentTree.for_project(Path(__file__).parent)


def load_declarations(tree: dg.ComponentTree) -> tuple[list[DatasetDeclaration], list[ReleaseComponent]]:
    """All datasets and releases that a component tree declares. Raises DeclarationError if a file of declarations has a
    key twice, or a name is declared twice."""
    require_unambiguous(tree.defs_module_path)
    datasets = [component.declaration for component in tree.get_all_components(Dataset)]
    declared = tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
    releases = releases_of(declared)
    groups = [component.named for component in declared if component not in releases]
    _require_single(
        [
            *(f"dataset {dataset.name}" for dataset in datasets),
            *(f"release {name}" for name in (*groups, *(release.named for release in releases))),
        ]
    )
    return datasets, releases


def _require_single(declared: Sequence[str]) -> None:
    twice = sorted({name for name in declared if declared.count(name) > 1})
    if twice:
        raise DeclarationError(f"{', '.join(twice)}: name: it is declared more than once")
