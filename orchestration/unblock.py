"""`make unblock RUN=…`: end a run whose process was killed, and free its slot in the queue of writers.

Dagster cannot tell a killed process from a slow one, so a person must name the run.
"""

import sys

import dagster as dg


def main(named: list[str]) -> int:
    """End the named runs and free their slots; if none is named, list the runs that hold one. Return an exit status."""
    with dg.DagsterInstance.get() as instance:
        storage = instance.event_log_storage
        holding = sorted(storage.get_concurrency_run_ids())
        for run_id in named:
            run = instance.get_run_by_id(run_id)
            if run is None:
                print(f"there is no run {run_id}", file=sys.stderr)
                return 1
            if not run.is_finished:
                instance.report_run_canceled(run, message="The run's process was killed; the run was ended by hand.")
            storage.free_concurrency_slots_for_run(run_id)
            print(f"{run_id}: ended, its slot is free")
        if not named:
            heading = "Runs that hold a slot in the queue of writers:"
            print("\n".join([heading, *holding] if holding else ["No run holds a slot in the queue of writers."]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
