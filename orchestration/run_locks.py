"""Locks that show which runs of a deployment on one machine still have their process.

Dagster cannot tell a killed process from a slow one, so a killed run would keep its slot in the queue of writers until
a person ends it. The kernel can: it frees a process's locks however the process ends. On a cluster, Dagster looks after
lost runs (`jobs.lost_runs`).
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from resources.project import make_private

_FOLDER, _UNLOCKED = "runs", ".new"

_HELD = set[str]()
"""The runs of this process, which could take their locks again."""


@contextmanager
def hold_lock(home: Path, run_id: str) -> Iterator[None]:
    """Show that a run's process is there, until the process or the run ends.

    Forked processes do not inherit the lock (POSIX), so they do not keep it after this process ends.
    """
    folder = home / _FOLDER
    make_private(folder)
    # Under the run's name, the file is locked from the start: otherwise another process could find it free.
    unlocked = folder / f"{run_id}{_UNLOCKED}"
    descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        _HELD.add(run_id)
        unlocked.rename(folder / run_id)
        yield
    finally:
        (folder / run_id).unlink(missing_ok=True)
        _HELD.discard(run_id)
        os.close(descriptor)


def end_lost_runs(instance: dg.DagsterInstance, home: Path) -> None:
    """End the runs whose process is gone, and free their slots in the queue of writers.

    A run without a lock file, such as one that has only begun, is left alone.
    """
    for path in sorted((home / _FOLDER).glob("*")):
        if path.name in _HELD or path.suffix == _UNLOCKED or not _is_free(path):
            continue
        run = instance.get_run_by_id(path.name)
        if run and not run.is_finished:
            instance.report_run_failed(run, "The run's process is gone.")
        instance.event_log_storage.free_concurrency_slots_for_run(path.name)
        path.unlink(missing_ok=True)


def _is_free(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        # The run has just ended, or the file belongs to another user.
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A run that ends removes the file before it gives up the lock.
        return os.fstat(descriptor).st_nlink > 0
    except OSError:
        return False
    finally:
        os.close(descriptor)
