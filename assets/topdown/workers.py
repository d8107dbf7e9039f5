"""Families estimated by several processes at once.

Here belong the pool and what a process of it does. What a family is, and how it is estimated, belongs in
`mechanisms.topdown.estimation`; reading and writing tables in `estimation`. A process of the pool imports this module
and the mathematics, and opens no table.

Processes are started afresh (spawn), not forked: DuckDB and numba keep threads, which a fork would leave behind in an
unknown state.
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

from mechanisms.topdown.estimation import Children, Families, estimate_families

_AHEAD = 4
"""Tasks for each process that are read before they are wanted: enough to bridge the reading of more, and few enough
that memory stays bounded."""


class WorkerError(RuntimeError):
    """A process that estimates families has ended."""


@dataclass(frozen=True)
class Task:
    """What a process is given: some neighbouring parents, with the families of every histogram.

    Attributes:
        first: the number of the first of the children.
        parents: how many there are.
        families: by histogram.
    """

    first: int
    parents: int
    families: Mapping[str, Families]


@dataclass(frozen=True)
class Outcome:
    """What came of a task.

    Attributes:
        first: the number of the first of the children.
        parents: how many there are.
        children: by histogram.
        seconds: of processor time.
    """

    first: int
    parents: int
    children: Mapping[str, Children]
    seconds: float


def outcome(task: Task) -> Outcome:
    """Estimate the families of a task.

    Raises:
        NotSolvedError: if a real-valued solution could not be certified.
        NotRoundedError: if there are no integers nearby.
    """
    started = time.thread_time()
    children = {histogram: estimate_families(families) for histogram, families in task.families.items()}
    return Outcome(task.first, task.parents, children, time.thread_time() - started)


def outcomes(tasks: Iterator[Task], processes: int) -> Generator[Outcome, None, None]:
    """What came of all tasks, in whatever order they are done. One process is this one.

    Raises:
        WorkerError: if a process ends before its time.
        NotSolvedError, NotRoundedError: as `outcome`; tasks not begun are dropped then.
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
            "a process that estimates has ended before its time: killed, or out of memory; what earlier levels have is "
            "kept, so that another run goes on from there"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Leave interrupts to the process that runs the pool, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
