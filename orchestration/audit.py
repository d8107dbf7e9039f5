"""Audit the deployment and write a report, as the job `audit` does."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from assets.confidentiality import nodes_of
from assets.publication.audit import Verdict, audit, write_report
from orchestration.definitions import declared_methods, deployment, deployment_folders, deployment_resources
from orchestration.jobs import now
from resources.ledger import Ledger


def main(arguments: Sequence[str]) -> int:
    """Audit the deployment that the environment names; returns 0 unless something does not hold."""
    home, published = deployment_folders()
    parser = argparse.ArgumentParser(prog="python -m orchestration.audit", description=__doc__)
    parser.add_argument("--to", type=Path, default=home / "audit", help="the folder of audit.html and audit.json")
    given = parser.parse_args(arguments)
    tree = dg.ComponentTree.for_project(Path(__file__).parent)
    ledger = deployment_resources(home)["ledger"]
    assert isinstance(ledger, Ledger)
    nodes = nodes_of(deployment(tree, home).resolve_all_asset_specs())
    record = audit(declared_methods(tree, published), nodes, ledger, published, now())
    _, page = write_report(record, given.to)
    print("Claims: " + ", ".join(f"{verdict}: {count}" for verdict, count in record["counts"].items()))
    print(f"The report is {page}")
    return 1 if record["verdict"] == Verdict.FAILS else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
