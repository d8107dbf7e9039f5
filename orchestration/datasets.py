"""The definitions of single datasets with their releases, each an attribute of this module, so that a launch need not
load all datasets of a deployment. `definitions` combines them."""

import gc
from functools import cache
from pathlib import Path

import dagster as dg

from assets.ledger.population import group_populations
from orchestration.components.release import COMPONENTS
from orchestration.declarations import component_tree, load_declarations
from orchestration.defs_files import read_documents
from orchestration.launch import OF_DATASET
from orchestration.release_definitions import define_resources
from resources.project import deployment_folders, list_files


@cache
def __getattr__(attribute: str) -> dg.Definitions:
    """The definitions of a dataset. All declarations are read, because some rules apply across them. If a deployment
    defines more than datasets and releases, such as a check of its own, everything is loaded, because the check may
    concern any of them.

    Raises AttributeError if the attribute names no dataset, DeclarationError as `load_declarations`, and ValueError if
    datasets of one population contradict each other.
    """
    if not attribute.startswith(OF_DATASET):
        raise AttributeError(f"module {__name__} has no attribute {attribute}")
    tree = component_tree()
    group_populations(load_declarations(tree)[0])
    if (folders := find_folders(tree.defs_module_path, attribute.removeprefix(OF_DATASET))) is None:
        from orchestration.definitions import deployment

        definitions = deployment(tree, deployment_folders()[0])
    else:
        resources = define_resources(deployment_folders()[0])
        definitions = dg.Definitions.merge(*map(tree.build_defs_at_path, folders), resources)
    # The objects loaded so far live as long as the process, so the garbage collector can skip them.
    gc.freeze()
    return definitions


def find_folders(root: Path, dataset: str) -> list[Path] | None:
    """The folders whose files declare a dataset or its releases; None if there is anything besides our components."""
    if any(path.name != "__init__.py" or path.read_text("utf-8").strip() for path in list_files(root, ["*.py"])):
        return None
    folders: list[Path] = []
    for path, document in read_documents(root):
        attributes = document.get("attributes") if isinstance(document, dict) else None
        if not isinstance(attributes, dict) or not str(document.get("type")).startswith(f"{COMPONENTS}."):
            return None
        if attributes.get("dataset", attributes.get("name")) == dataset and path.parent not in folders:
            folders.append(path.parent)
    return folders
