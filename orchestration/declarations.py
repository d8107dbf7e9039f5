"""The datasets and releases that a component tree declares, without their definitions."""

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import dagster as dg

from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError
from orchestration.components.dataset import Dataset
from orchestration.components.release import COMPONENTS, DeclaresReleases, ReleaseComponent, releases_of
from orchestration.components.scaffolding import JobComponent
from orchestration.defs_files import require_unambiguous
from resources.project import CODE, DECLARATIONS, INSTALLED, PROJECT, list_files


class _OfFiles(dg.ComponentTree):
    """The declarations in files alone. Dagster would add components of any kind from its storage: a user with write
    access to the storage could make the code location import any module, and so read the keys."""

    def find_root_decl(self) -> Any:
        """All declarations. Raises DeclarationError if the storage contains some."""
        root = super().find_root_decl()
        if any(True for decl in root.decls[1:] for _ in decl.iterate_child_component_decls()):
            raise DeclarationError(
                "Dagster's storage has declarations of its own (app-managed components), and Stirred reads files "
                "alone; delete the entry __latest_defs_state_info__ of the storage's table kvs"
            )
        return root


def component_tree() -> dg.ComponentTree:
    """The declarations of the deployment, not yet loaded. Raises DeclarationError if the folder has none."""
    if not list_files(DECLARATIONS):
        raise DeclarationError(
            f"there is no defs.yaml in a folder of {DECLARATIONS}, so {PROJECT} is no deployment: change to the folder "
            "of one, or name it in STIRRED_PROJECT; stirred new dataset FILE begins a new one here"
        )
    if DECLARATIONS == CODE / "orchestration" / "defs":
        return _OfFiles.for_project(CODE)
    if INSTALLED:
        # Files name components as in a checkout; in an installation, no other modules have these names.
        for name in ("orchestration", COMPONENTS):
            sys.modules.setdefault(name, import_module(f"{__package__}{name.removeprefix('orchestration')}"))
    module = ModuleType("orchestration.defs")
    module.__file__, module.__path__ = None, [str(DECLARATIONS)]
    return _OfFiles(defs_module=module, project_root=PROJECT)


def load_declarations(tree: dg.ComponentTree) -> tuple[list[DatasetDeclaration], list[ReleaseComponent]]:
    """All datasets and releases that a component tree declares. Raises DeclarationError if a file of declarations has a
    key twice, or a name is declared twice."""
    require_unambiguous(tree.defs_module_path)
    datasets = [component.declaration for component in tree.get_all_components(Dataset)]
    declared = tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
    releases = releases_of(declared)
    groups = [component.named for component in declared if component not in releases]
    others = [component.named for component in tree.get_all_components(JobComponent)]  # type: ignore[type-abstract]
    _require_single(
        [
            *(f"dataset {dataset.name}" for dataset in datasets),
            # Their assets, jobs and tables have the same names.
            *(f"release {name}" for name in (*groups, *(release.named for release in releases), *others)),
        ]
    )
    return datasets, releases


def _require_single(declared: Sequence[str]) -> None:
    twice = sorted({name for name in declared if declared.count(name) > 1})
    if twice:
        raise DeclarationError(f"{', '.join(twice)}: name: it is declared more than once")
