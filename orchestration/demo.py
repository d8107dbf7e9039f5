"""`make demo`: launch the built-in release as `stirred launch` does, and print the results, with the original table
next to the swapped one: the original counts of 1940 Massachusetts are public."""

import argparse
import csv
import json
import sys
from pathlib import Path

from assets.cef.readers import MA1940_MARGINS
from assets.ledger.comparison import compare
from mechanisms.accounting.losses import format_loss
from orchestration.deployment import Deployment
from orchestration.launch import open_instance, run_job
from resources.ledger import Ledger, of_population
from resources.project import PROJECT

RELEASE = "ma1940/tenure_by_county"


def main() -> int:
    """Launch the job, then print the files, the table, ε and the ledger; returns the exit status."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    deployment = Deployment()
    folder = deployment.published / RELEASE
    print(f"Launching {RELEASE}: 1940 Massachusetts, tenure by county, swap rate 1/2 ...", flush=True)
    with open_instance() as instance:
        run = run_job(instance, RELEASE, deployment.home)
    if not run.success:
        print(f"The run failed; its log is {run.log}", file=sys.stderr)
        return 1
    certificate = json.loads((folder / "certificate.json").read_text())
    _print_table(folder / "tenure_by_county.csv")
    loss, randomness = certificate["loss"], certificate["randomness"]
    print(f"\nε = {loss['exact']}, at most {loss['rounded_up']:.4f}, for changes of one household,")
    print("   within the universe of all data sets that agree on:")
    for invariant in certificate["invariants"]["held_fixed"]:
        print(f"   - {invariant}")
    print(f"   draw {randomness['draw_id']}")
    print(f"   randomness committed to by {randomness['commitment']}")
    _print_ledger(deployment.ledger)
    print(f"\nPublished in {folder.relative_to(PROJECT) if folder.is_relative_to(PROJECT) else folder}:")
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        print(f"   {path.name:42} {path.stat().st_size:>8,} bytes")
    print("\nRead certificate.html in a browser; `make ui` shows the run, its lineage, plots and checks.")
    print("Its jobs two_states__swapped, __s_dhc and __redistricting publish one synthetic census by three methods.")
    return 0


def _print_table(path: Path) -> None:
    with path.open(newline="") as file:
        published = {(row["county"], row["tenure"]): int(row["count"]) for row in csv.DictReader(file)}
    with MA1940_MARGINS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    print(f"\n{'':14}{'owned':>10}{'published':>11}{'rented':>11}{'published':>11}{'total':>11}")
    for row in rows:
        county, owned, rented = row["county"], int(row["owned"]), int(row["rented"])
        swapped = published[county, "owned"], published[county, "rented"]
        print(f"{county:14}{owned:>10,}{swapped[0]:>11,}{rented:>11,}{swapped[1]:>11,}{sum(swapped):>11,}")


def _print_ledger(ledger: Ledger) -> None:
    reading = ledger.read()
    print(f"\nThe ledger holds {len(reading.entries)} entries{'' if reading.problems else ', intact'}:")
    for entry in reading.entries:
        loss = format_loss(entry.parse_specification().charge) if entry.specification else ""
        print(f"   {entry.sequence:>3}  {entry.recorded_at}  {entry.kind:8} {entry.dataset}/{entry.release}  {loss}")
    for dataset in dict.fromkeys(entry.dataset for entry in reading.entries):
        for total in compare(of_population(reading.require_intact(), dataset)).totals:
            print(f"   {dataset} in total, for changes of one {total.unit}: {format_loss(total.loss)}")


if __name__ == "__main__":
    sys.exit(main())
