"""`make showcase`: publish the synthetic censuses by every mechanism, and open the explorer on them. It uses the
deployment of `make demo`, and leaves releases that are already published as they are."""

import argparse
import os
import sys

from assets.release.signature import CERTIFICATE
from orchestration.launch import open_instance, run_job
from resources.project import deployment_folders

RELEASES = {
    "two_states/swapped": "permutation swapping",
    "two_states/pairs_2010": "swapping in pairs, as in 2010",
    "two_states/s_dhc": "PHSafe",
    "two_states/redistricting": "TopDown",
    "two_counties/redistricting": "TopDown",
    "two_counties/dhc": "TopDown, in full detail",
    "two_counties/profile": "a retabulation of the DHC: the Demographic Profile",
    "two_counties/congress_118": "a retabulation of the DHC: congressional districts",
    "two_states/hypercubes": "the table builder",
    "detailed/persons": "SafeTab-P",
    "detailed/households": "SafeTab-H",
    "survey/tables": "the table builder, from a survey",
    "survey/incomes": "the table builder, with quantiles and correlations",
}
"""The published releases, with their methods."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog="Options of `stirred explore` can be added.")
    _, options = parser.parse_known_args()
    home, published = deployment_folders()
    for release, method in RELEASES.items():
        # The names of releases that are declared together begin alike.
        if any(published.glob(f"{release}*/{CERTIFICATE}")):
            print(f"{release}, by {method}: published already", flush=True)
            continue
        print(f"{release}, by {method} ...", flush=True)
        with open_instance() as instance:
            run = run_job(instance, release, home)
        if not run.success:
            sys.exit(f"The run failed; its log is {run.log}")
    # This process is replaced, so that ending it ends the explorer.
    os.execv(sys.executable, [sys.executable, "-W", "ignore", "-m", "orchestration.cli", "explore", *options])


if __name__ == "__main__":
    main()
