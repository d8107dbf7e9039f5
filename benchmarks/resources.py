"""The resources of a deployment in a folder of their own, shared by the measurements of stages."""

from pathlib import Path

from orchestration.definitions import deployment_resources
from resources.custody import Custody
from resources.ledger import Ledger
from resources.warehouse import Warehouse


def opened(home: str) -> tuple[Warehouse, Custody, Ledger]:
    """The warehouse, custody and ledger of the deployment in a folder."""
    resources = deployment_resources(Path(home))
    warehouse, custody, ledger = resources["warehouse"], resources["custody"], resources["ledger"]
    assert isinstance(warehouse, Warehouse)
    assert isinstance(custody, Custody)
    assert isinstance(ledger, Ledger)
    return warehouse, custody, ledger
