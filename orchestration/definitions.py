"""The one `Definitions` object of the deployment.

It combines everything declared under `defs/`, the ledger that all releases are charged to, and the resources. These
environment variables configure the deployment:

- `STIRRED_HOME`: the folder of databases and keys; `var` in the project by default;
- `STIRRED_PUBLISHED`: the folder of publications; `published` in the project by default;
- `STIRRED_MEMORY_LIMIT`, `STIRRED_THREADS`, `STIRRED_SPILL_FOLDER`: DuckDB's settings for each session;
- `STIRRED_MASTER_KEY`: the master key, if it is not kept in a file.
"""

import os
from pathlib import Path

import dagster as dg

from assets.ledger.asset import build_ledger
from orchestration.components.release import ReleaseComponent
from resources.custody import Custody
from resources.ledger import Ledger
from resources.warehouse import Warehouse


def deployment_resources(home: Path) -> dict[str, dg.ConfigurableResource]:
    """The warehouse, custody and ledger of the deployment that keeps its state in `home`."""
    warehouse = Warehouse(
        folder=str(home / "warehouse"),
        memory_limit=os.environ.get("STIRRED_MEMORY_LIMIT", "2GiB"),
        threads=int(os.environ.get("STIRRED_THREADS", "0")),
        spill_folder=os.environ.get("STIRRED_SPILL_FOLDER", ""),
    )
    custody = Custody(folder=str(home / "custody"))
    return {"warehouse": warehouse, "custody": custody, "ledger": Ledger(warehouse=warehouse, custody=custody)}


def deployment(tree: dg.ComponentTree, home: Path) -> dg.Definitions:
    """Everything that a component tree declares, with the ledger and the resources.

    Args:
        tree: the loaded `defs` folder.
        home: the folder of databases and keys.
    """
    components = tree.get_all_components(ReleaseComponent)  # type: ignore[type-abstract]
    releases = [component for component in components if component.charges]
    charges = [component.key("charge") for component in releases]
    draws = [component.key(component.method.draw_stage) for component in releases]
    return dg.Definitions.merge(
        tree.build_defs(),
        dg.Definitions(
            assets=[build_ledger(charges, draws)],
            resources=deployment_resources(home),
            executor=dg.in_process_executor,
        ),
    )


@dg.definitions
def defs() -> dg.Definitions:
    """What this deployment runs."""
    tree = dg.ComponentTree.for_project(Path(__file__).parent)
    return deployment(tree, Path(os.environ.get("STIRRED_HOME", tree.project_root / "var")))
