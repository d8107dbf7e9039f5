"""Measurements of whole processes: steps and launched jobs, each in a process of its own, and samples beside them.

The peak memory of a process is that of its step.
"""

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
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


def launch(module: str, job: str, environment: Mapping[str, str]) -> None:
    """Run a job by `dg launch` until it ends.

    Args:
        module: the module of its definitions.
        job: its name.
        environment: variables beside those of this process.

    Raises:
        RuntimeError: if it fails, with the end of what Dagster printed.
    """
    command = [str(Path(sys.executable).with_name("dg")), "launch", "--module-name", module, "--job", job]
    root = Path(__file__).resolve().parents[1]
    ended = subprocess.run(
        command, cwd=root, env={**os.environ, **environment}, check=False, capture_output=True, text=True
    )
    if ended.returncode:
        raise RuntimeError(f"the job {job} failed:\n{ended.stderr[-5_000:]}")


@contextmanager
def sampled(look: Callable[[], float], between: float) -> Iterator[list[float]]:
    """What a function returns, sampled until the block ends, and once more then.

    Args:
        look: the function, which is called in another thread.
        between: the seconds between two samples.
    """
    samples, over = [0.0], threading.Event()

    def sample() -> None:
        while not over.wait(between):
            samples.append(look())

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield samples
    finally:
        over.set()
        sampler.join()
        samples.append(look())


def _report(connection: Connection, step: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    started = time.perf_counter()
    returned = step(*arguments)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    connection.send(json.dumps([seconds, peak, returned]))
