"""A deployment from Python: plan a release, launch it, and read what it published.

    python examples/deployment.py FOLDER

FOLDER has the declarations of `ma1940/tenure_by_county` under `orchestration/defs`, as a checkout has. Its dataset is
synthetic, so no one has to authorize the charge.
"""

import sys

import stirred

RELEASE = "ma1940/tenure_by_county"


def main(folder: str) -> None:
    deployment = stirred.open(folder)
    for rate in ("1/20", "1/2"):
        plan = deployment.plan(RELEASE, {"swap_rate": rate}, largest_stratum=264_331)
        print(f"With a swap rate of {rate}: {plan['plan']['total']}")
    try:
        launch = deployment.launch(RELEASE)
    except stirred.deployment.NotAuthorizedError as refusal:
        sys.exit(str(refusal))
    print(f"Charged: {launch.charges or 'nothing, the draw was there already'}; {launch.checks_passed} checks passed")
    publication = deployment[RELEASE]
    print(publication)
    print(publication.table("tenure_by_county").to_string(index=False))


if __name__ == "__main__":
    main(sys.argv[1])
