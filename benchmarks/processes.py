"""Measurements of whole processes: each step runs in a process of its own, so that peak memory is that of the step."""

import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


def measured(step: Callable[..., Any], *arguments: Any) -> tuple[float, float, Any]:
    """Run a step in a fresh process.

    Returns:
        The step's duration in seconds, the process's peak memory in GiB, and the step's return value.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(theirs, step, arguments))
    process.start()
    theirs.close()
    try:
        seconds, peak, returned = json.loads(ours.recv())
    except EOFError:
        raise RuntimeError(f"{step.__name__} failed in its process") from None
    finally:
        process.join()
    return seconds, peak, returned


def _report(connection: Connection, step: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    started = time.perf_counter()
    returned = step(*arguments)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    connection.send(json.dumps([seconds, peak, returned]))
