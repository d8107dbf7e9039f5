"""`make unblock RUN=…`: end a run whose process was killed, and free the place it holds in the queue of writers.

Here belongs nothing else. Dagster cannot tell a killed process from a slow one, so that a person says which run it is.
"""

import sys

import dagster as dg


def main(named: list[str]) -> int:
    """End the named runs and free their places; without any, list the runs that hold one. Returns the exit status."""
    with dg.DagsterInstance.get() as instance:
        storage = instance.event_log_storage
        holding = sorted(storage.get_concurrency_run_ids())
        for run_id in named:
            run = instance.get_run_by_id(run_id)
            if run is None:
                print(f"there is no run {run_id}", file=sys.stderr)
                return 1
            if not run.is_finished:
                instance.report_run_canceled(run, message="Its process was killed; ended by hand.")
            storage.free_concurrency_slots_for_run(run_id)
            print(f"{run_id}: ended, its place is free")
        if not named:
            print(
                "\n".join(["Runs that hold a place in the queue of writers:", *holding] if holding else ["None holds."])
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
