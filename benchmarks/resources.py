"""A deployment's resources in a folder of their own.

Here belongs what the measurements of stages share.
"""

from pathlib import Path

from orchestration.definitions import deployment_resources
from resources.custody import Custody
from resources.ledger import Ledger
from resources.warehouse import Warehouse


def opened(home: str) -> tuple[Warehouse, Custody, Ledger]:
    """Warehouse, custody and ledger below a folder."""
    resources = deployment_resources(Path(home))
    warehouse, custody, ledger = resources["warehouse"], resources["custody"], resources["ledger"]
    assert isinstance(warehouse, Warehouse)
    assert isinstance(custody, Custody)
    assert isinstance(ledger, Ledger)
    return warehouse, custody, ledger
