"""The definitions of single datasets with their releases, each an attribute of this module: what a launch needs.

A deployment with many datasets would otherwise load all of them for each launch. `definitions` has them together.
"""

import gc
from functools import cache
from pathlib import Path

import dagster as dg

from assets.ledger.population import group_populations
from orchestration.components.dataset import Dataset
from orchestration.components.release import DeclaresReleases
from orchestration.declarations import load_declarations
from orchestration.environment import deployment_folders
from orchestration.release_definitions import define_resources


@cache
def __getattr__(name: str) -> dg.Definitions:
    """The definitions of a dataset. All declarations are read, as some rules are about all of them.

    Raises:
        AttributeError: if no dataset has that name.
        DeclarationError: as `load_declarations`.
        ValueError: if datasets of one population contradict each other.
    """
    tree = dg.ComponentTree.for_project(Path(__file__).parent)
    datasets = {item.declaration.name: item for item in tree.get_all_components(Dataset)}
    if name not in datasets:
        raise AttributeError(f"there is no dataset {name}")
    group_populations(load_declarations(tree)[0])
    declared = tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
    components = [datasets[name], *(item for item in declared if item.declaration.dataset == name)]
    definitions = dg.Definitions.merge(
        *(component.build_defs(tree.load_context) for component in components),
        define_resources(deployment_folders()[0]),
    )
    # What is loaded by now stays as long as the process, so nobody looks for garbage in it again.
    gc.freeze()
    return definitions
