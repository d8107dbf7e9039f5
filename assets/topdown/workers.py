"""The pool of processes that estimate families in parallel.

`mechanisms.topdown.estimation` defines and estimates families; `estimation` reads and writes tables. A process of the
pool imports only this module and the mathematics, and opens no tables.

Processes are spawned, not forked, because DuckDB and numba have threads, which would be in an undefined state after a
fork.
"""

import os
import signal
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process

from mechanisms.refusal import RefusedError
from mechanisms.topdown.estimation import Children, Families, estimate_families

_AHEAD = 4
"""The number of tasks for each process that are read in advance: enough to keep processes busy while more are read, and
few enough to bound memory."""


class WorkerError(RefusedError):
    """A process of the pool has ended prematurely."""


@dataclass(frozen=True)
class Task:
    """The work for a process: consecutive parents, with the families of every histogram.

    Attributes:
        first: the number of the first child.
        parents: the number of parents.
        families: the families, by histogram.
    """

    first: int
    parents: int
    families: Mapping[str, Families]


@dataclass(frozen=True)
class Outcome:
    """The result of a task.

    Attributes:
        first: the number of the first child.
        parents: the number of parents.
        children: the estimated children, by histogram.
        seconds: the processor time.
    """

    first: int
    parents: int
    children: Mapping[str, Children]
    seconds: float


def outcome(task: Task) -> Outcome:
    """Estimate the families of a task.

    Raises:
        NotSolvedError: if a real-valued solution could not be certified.
        NotRoundedError: if a solution could not be rounded.
    """
    started = time.thread_time()
    children = {histogram: estimate_families(families) for histogram, families in task.families.items()}
    return Outcome(task.first, task.parents, children, time.thread_time() - started)


def outcomes(tasks: Iterator[Task], processes: int) -> Generator[Outcome, None, None]:
    """The results of all tasks, in any order. If `processes` is 1, this process does the work itself.

    Raises:
        WorkerError: if a process ends prematurely.
        NotSolvedError, NotRoundedError: as `outcome`; tasks that have not begun are then cancelled.
    """
    if processes == 1:
        yield from map(outcome, tasks)
        return
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_begin)
    try:
        waiting: set[Future[Outcome]] = set()
        for task in tasks:
            waiting.add(pool.submit(outcome, task))
            if len(waiting) == _AHEAD * processes:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    except BrokenProcessPool:
        raise WorkerError(
            "an estimating process ended prematurely: it was killed, or ran out of memory; the estimates of earlier "
            "levels are kept, so another run continues from there"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Ignore interrupts, which the parent process handles, and end when the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
