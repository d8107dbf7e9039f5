"""Parallel estimation of families and replicates in processes of this machine, from `resources.processes`.

`mechanisms.topdown` has the mathematics; `estimation` and `replicates` read and write tables. A process of the pool
imports only this module and the mathematics, and opens no tables.

The same tasks can go to the workers of a Dask cluster (`on_cluster`), which need this project's code. Only estimation
and replicates send tasks there, and these tasks follow from public tables.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.decomposition import Floats, Information
from mechanisms.topdown.design import TopDownDesign
from mechanisms.topdown.estimation import Children, Families, Measurement, estimate_families
from mechanisms.topdown.information import MeasuredKinds, inform
from mechanisms.topdown.leaning import lean, measure_spread
from mechanisms.topdown.replicates import LevelLimits, estimate_finest, replicate_noise
from mechanisms.topdown.schema import PERSONS, Counts
from resources.processes import AHEAD, ENDED, KEPT, WorkerError, in_processes, order_results

T = TypeVar("T")
R = TypeVar("R")

_RETRIES = 2
"""The number of retries of a task whose worker was lost."""

_CONNECT = 30
"""The seconds within which a cluster must answer and a broken connection must be restored."""


@dataclass(frozen=True)
class Task:
    """The work for a process: consecutive parents, with the families of every histogram, from the child `first`. For
    information about the parents, from the parent `first`, with the parents' measurements, and with the children's
    measurements by kind if these are added up. If children lean on their housing units, `units` has the units, shape
    (children,), `state` the number of their state, and `spread` its τ², once estimated."""

    first: int
    parents: int
    families: Mapping[str, Families]
    measurements: Mapping[str, tuple[Measurement, ...]] = field(default_factory=dict)
    kinds: Mapping[str, MeasuredKinds] = field(default_factory=dict)
    units: NDArray[np.int64] | None = None
    state: int | None = None
    spread: float | None = None


@dataclass(frozen=True)
class ReplicateTask:
    """A replicate to be made, with its number from 1, the key of its noise and all other inputs."""

    replicate: int
    key: bytes = field(repr=False)
    design: TopDownDesign
    parents: Sequence[NDArray[np.int64]]
    counts: Mapping[str, Counts]
    limits: LevelLimits


@dataclass(frozen=True)
class Outcome:
    """The result of a task, with the processor time in seconds."""

    first: int
    parents: int
    children: Mapping[str, Children]
    seconds: float


def estimate_task(task: Task) -> Outcome:
    """Estimate the families of a task. Raises NotSolvedError and NotRoundedError, as `estimate_families`."""
    started, of_task = time.thread_time(), task.families
    if task.units is not None and task.spread is not None:
        of_task = {name: lean(families, task.units, task.spread) for name, families in of_task.items()}
    children = {histogram: estimate_families(families) for histogram, families in of_task.items()}
    return Outcome(task.first, task.parents, children, time.thread_time() - started)


def spread_task(task: Task) -> tuple[int, Floats]:
    """The number of the state of a task whose children lean on their housing units, and the sums for τ²."""
    assert task.units is not None
    assert task.state is not None
    return task.state, measure_spread(task.families[PERSONS.name], task.units)


@dataclass(frozen=True)
class Informed:
    """The information about places from the number `first`, by histogram, with the processor time in seconds."""

    first: int
    information: Mapping[str, Information]
    seconds: float


def inform_task(task: Task) -> Informed:
    """The information about the parents of a task."""
    started = time.thread_time()
    information = {
        histogram: inform(families, families.information, task.measurements[histogram], task.kinds.get(histogram))
        for histogram, families in task.families.items()
    }
    return Informed(task.first, information, time.thread_time() - started)


def make_replicate(task: ReplicateTask) -> tuple[int, Mapping[str, Counts], float]:
    """The number of a replicate, its counts of the finest level by histogram, and the processor time in seconds. Raises
    errors as `estimate_finest`."""
    started = time.thread_time()
    noise = replicate_noise(task.design, task.key)
    counts = estimate_finest(task.design, task.parents, task.counts, task.limits, noise)
    return task.replicate, counts, time.thread_time() - started


def perform(
    work: Callable[[Any], R], tasks: Iterator[Task] | Iterator[ReplicateTask], processes: int, scheduler: str = ""
) -> Generator[R, None, None]:
    """The results of all tasks, in order: from a Dask cluster if there is a scheduler, otherwise from processes."""
    return on_cluster(work, tasks, scheduler) if scheduler else in_processes(work, tasks, processes)


def on_cluster(
    work: Callable[[Any], R], tasks: Iterator[Task] | Iterator[ReplicateTask], scheduler: str
) -> Generator[R, None, None]:
    """The results of all tasks, in order, computed by the workers of a Dask cluster.

    Only the two kinds of tasks of this module are sent (any other raises TypeError). They are computed from public
    tables and contain neither a draw's key nor exact counts; the code that works on those has no access to a cluster.
    Raises WorkerError if the cluster cannot be reached, has no workers or different code, is lost, loses a task three
    times, or needs certificates and none are configured.
    """
    # The package is installed only where a cluster is used.
    from distributed import Client, KilledWorker, Security
    from distributed.client import ClosedClientError

    try:
        if scheduler.startswith("tls://") and Security().get_connection_args("client")["ssl_context"] is None:
            raise WorkerError(
                f"the Dask cluster {scheduler} needs certificates, and Dask's configuration distributed.comm.tls names "
                "none for clients"
            )
        with Client(scheduler, set_as_default=False, timeout=_CONNECT) as client:
            threads = sum(client.nthreads().values())
            if not threads:
                raise WorkerError(f"the Dask cluster {scheduler} has no workers")
            # Not the client's executor, which never ends a future whose result cannot be fetched.
            submit = partial(client.submit, pure=False, retries=_RETRIES)
            yield from order_results(partial(_send, submit, work), tasks, AHEAD * threads)
    except KilledWorker:
        raise WorkerError(ENDED) from None
    except (CancelledError, ClosedClientError):
        raise WorkerError(f"the Dask cluster {scheduler} was lost; {KEPT}") from None
    except OSError:
        raise WorkerError(f"the Dask cluster {scheduler} cannot be reached, or the connection broke") from None


def _send(submit: Callable[..., Any], work: Callable[[T], R], task: T) -> Any:
    if type(task) not in (Task, ReplicateTask):
        raise TypeError(f"{type(task).__name__} is not sent to a cluster: it may not be public")
    return submit(_with_same_code, work, task, hash_code())


def _with_same_code(work: Callable[[T], R], task: T, digest: str) -> R:
    if hash_code() != digest:
        raise WorkerError("a worker of the Dask cluster has other code; install the same version of Stirred on all")
    return work(task)


@cache
def hash_code() -> str:
    """The SHA-256 of the code behind the results: this module and the mathematics."""
    mathematics = Path(__file__).parents[2] / "mechanisms"
    digest = sha256()
    for path in (Path(__file__), *sorted(mathematics.rglob("*.py"))):
        digest.update(f"{path.name} {path.stat().st_size} ".encode() + path.read_bytes())
    return digest.hexdigest()
