"""Work on several streams at a time, in threads of this process.

The kernels that sample, count, hash and write release Python's lock, so that threads keep all cores busy. Unlike
processes, they share the arrays that they work on, and the key of a draw never leaves the process.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

Stopped = Callable[[], bool]
"""Whether the work is to stop early, because a task failed or the process was interrupted."""


def threads_of(processes: int) -> int:
    """The number of threads of a release with this number of processes; 0 means one for each core."""
    return processes or os.cpu_count() or 1


def in_threads(work: Callable[[T, Stopped], R], tasks: Iterable[T], threads: int) -> list[R]:
    """The results of all tasks, in the order in which they were given.

    Args:
        work: does a task. It asks now and then whether to stop.
        tasks: taken one after the other, by the calling thread, never more than one for each thread in advance.
        threads: the most threads.

    Raises:
        Exception: what a task, or the iterator of tasks, raises; the others are then stopped.
    """
    stop = Event()
    futures: list[Future[R]] = []
    with ThreadPoolExecutor(threads) as pool:
        try:
            waiting: set[Future[R]] = set()
            for task in tasks:
                futures.append(pool.submit(work, task, stop.is_set))
                waiting.add(futures[-1])
                if len(waiting) >= 2 * threads:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
