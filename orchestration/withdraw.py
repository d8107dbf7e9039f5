"""Withdraw a release or a dataset for good, as the job `withdraw` does.

Its tables, publications and ephemeral keys are removed. The ledger keeps what was charged and records the withdrawal.
"""

import argparse
import sys
from collections.abc import Sequence

from assets.publication.withdrawal import WithdrawalError, withdraw
from orchestration.definitions import deployment_folders, deployment_resources
from resources.custody import CustodyError
from resources.ledger import Ledger, LedgerError
from resources.warehouse import WarehouseError


def main(arguments: Sequence[str]) -> int:
    """Withdraw what is named from the deployment that the environment names; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m orchestration.withdraw", description=__doc__)
    parser.add_argument("name", help="<dataset>/<release>, or <dataset> for all its releases and its records")
    parser.add_argument("--by", required=True, help="who withdraws it, for the ledger")
    given = parser.parse_args(arguments)
    home, published = deployment_folders()
    ledger = deployment_resources(home)["ledger"]
    assert isinstance(ledger, Ledger)
    dataset, slash, release = given.name.partition("/")
    try:
        print(withdraw(ledger, published, dataset, release if slash else None, given.by))
    except (WithdrawalError, LedgerError, CustodyError, WarehouseError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
