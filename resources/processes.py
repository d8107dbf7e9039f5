"""Pools that work on tasks in parallel: processes, which estimate families, make replicates, or attack draws; and
threads, for work that releases Python's lock.

A process imports only the module of its work. Processes are spawned, not forked, because DuckDB and numba have threads,
which would be in an undefined state after a fork.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from multiprocessing import active_children, connection, get_context, parent_process
from multiprocessing.util import Finalize
from typing import Any, TypeVar
from weakref import ref

from mechanisms.refusal import RefusedError

T = TypeVar("T")
R = TypeVar("R")

Stopped = Callable[[], bool]
"""Whether the work should stop early, because other work failed or the results are no longer needed."""

AHEAD = 4
"""The tasks for each process that are read in advance: enough to keep it busy, and few enough to bound memory."""

_AHEAD_OF_THREADS = 2
"""The tasks for each thread that are read in advance."""

_LARGE = 2**25
"""A task of twice as many bytes, or more, counts as several."""

_PATIENCE = 1.0
"""The seconds between checks whether awaited tasks can still end."""

_FIRST = 100
"""At the end of a process, the pool ends before its queues, which have lower priorities."""

_LOCK = threading.Lock()
"""Threads that begin at the same time share one pool."""

KEPT = "what was stored is kept, so another run continues from there"

ENDED = f"a working process ended prematurely: it was killed, or ran out of memory; {KEPT}"


class WorkerError(RefusedError):
    """A process of the pool has ended prematurely, or the cluster has failed."""


def in_processes(
    work: Callable[[T], R], tasks: Iterator[T], processes: int, measure: Callable[[T], int] = lambda _: 0
) -> Generator[R, None, None]:
    """The results of all tasks, in order. If `processes` is 1, this process does the work itself.

    The work is a function that spawned processes can import. If it raises, tasks that have not begun are cancelled.
    Fewer tasks are read in advance if they are large, by the bytes that `measure` gives. Several threads may share the
    processes. Raises WorkerError if a process ends prematurely.
    """
    if processes == 1:
        yield from map(work, tasks)
        return
    pool, submitted = _pool(processes), deque[Future[R]](maxlen=AHEAD * processes)

    def submit(task: T) -> Future[R]:
        submitted.append(pool.submit(work, task))
        return submitted[-1]

    try:
        yield from order_results(submit, tasks, AHEAD * processes, lambda task: max(1, measure(task) // _LARGE))
    except BrokenProcessPool:
        # The thread joins the pool, which ends all submitted tasks, so the tasks awaited below have ended too.
        pool.shutdown(cancel_futures=True)
        _start_pool.cache_clear()
        raise WorkerError(ENDED) from None
    finally:
        for future in submitted:
            future.cancel()
        while wait(submitted, timeout=_PATIENCE).not_done:
            try:
                pool.submit(os.getpid)
            except BrokenProcessPool:
                # The pool's thread has ended at the first cancelled task, and left other tasks and processes as they
                # were.
                for process in active_children():
                    process.kill()
                _start_pool.cache_clear()
                break
            except RuntimeError:
                # The pool has ended with this process, and all tasks that had begun.
                break


def in_threads(work: Callable[[T, Stopped], R], tasks: Iterable[T], threads: int) -> Generator[R, None, None]:
    """The results of all tasks, in order, by threads of this process, which share their input. If the work raises,
    tasks that have not begun are cancelled, and running tasks are told to stop."""
    pool, stop = ThreadPoolExecutor(threads), threading.Event()

    def perform(task: T) -> R:
        try:
            return work(task, stop.is_set)
        except BaseException:
            stop.set()
            raise

    try:
        yield from order_results(lambda task: pool.submit(perform, task), tasks, _AHEAD_OF_THREADS * threads)
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def order_results(
    submit: Callable[[T], Any], tasks: Iterable[T], ahead: int, weigh: Callable[[T], int] = lambda _: 1
) -> Generator[Any, None, None]:
    """The results of submitted futures in order, with tasks of at most the weight `ahead`, or a single one, running or
    waiting for an earlier one."""
    waiting, weights = deque[Any](), deque[int]()
    for task in tasks:
        waiting.append(submit(task))
        weights.append(weigh(task))
        while sum(weights) >= ahead:
            weights.popleft()
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _pool(processes: int) -> ProcessPoolExecutor:
    """A pool takes seconds to start, so the levels of a run share it until another pool is made."""
    with _LOCK:
        return _start_pool(processes)


@lru_cache(maxsize=1)
def _start_pool(processes: int) -> ProcessPoolExecutor:
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_process)
    # A process that multiprocessing started waits for its own processes before it tells them to end.
    Finalize(None, partial(_end_pool, ref(pool)), exitpriority=_FIRST)
    return pool


def _end_pool(pool: ref[ProcessPoolExecutor]) -> None:
    if running := pool():
        running.shutdown(cancel_futures=True)


def _start_process() -> None:
    """Ignore interrupts, which the parent process handles, and end when the parent process ends. NumPy, which the work
    imports later, gets one thread: there is a process for each core, and further threads of OpenBLAS wait actively."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
