"""A pool of processes that work on tasks in parallel: estimate families, make replicates, or attack draws.

A process imports only the module of its work. Processes are spawned, not forked, because DuckDB and numba have threads,
which would be in an undefined state after a fork.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing import connection, get_context, parent_process
from typing import Any, TypeVar

from mechanisms.refusal import RefusedError

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 4
"""The tasks for each process that are read in advance: enough to keep it busy, and few enough to bound memory."""

KEPT = "what was stored is kept, so another run continues from there"

ENDED = f"a working process ended prematurely: it was killed, or ran out of memory; {KEPT}"


class WorkerError(RefusedError):
    """A process of the pool has ended prematurely, or the cluster has failed."""


def in_processes(work: Callable[[T], R], tasks: Iterator[T], processes: int) -> Generator[R, None, None]:
    """The results of all tasks, in order. If `processes` is 1, this process does the work itself.

    The work is a function that spawned processes can import. If it raises, tasks that have not begun are cancelled.
    Raises WorkerError if a process ends prematurely.
    """
    if processes == 1:
        yield from map(work, tasks)
        return
    pool, submitted = _pool(processes), deque[Future[R]](maxlen=AHEAD * processes)

    def submit(task: T) -> Future[R]:
        submitted.append(pool.submit(work, task))
        return submitted[-1]

    try:
        yield from order_results(submit, tasks, AHEAD * processes)
    except BrokenProcessPool:
        # It joins the pool, which ends all that was submitted; what is waited for below has then ended too.
        pool.shutdown(cancel_futures=True)
        _pool.cache_clear()
        raise WorkerError(ENDED) from None
    finally:
        for future in submitted:
            future.cancel()
        wait(submitted)


def order_results(submit: Callable[[T], Any], tasks: Iterator[T], ahead: int) -> Generator[Any, None, None]:
    """The results of submitted futures in order, with at most `ahead` under way or waiting for one before them."""
    waiting = deque[Any]()
    for task in tasks:
        waiting.append(submit(task))
        if len(waiting) == ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@lru_cache(maxsize=1)
def _pool(processes: int) -> ProcessPoolExecutor:
    """A pool takes seconds to start, so the levels of a run share it until another one is made."""
    return ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_process)


def _start_process() -> None:
    """Ignore interrupts, which the parent process handles, and end when the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
