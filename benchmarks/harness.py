"""Results, deployments in temporary folders, and steps and jobs in separate processes, for all measurements."""

import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import dagster as dg
import psutil

from assets.cef.synthetic import SyntheticCensusDeclaration, SyntheticPopulation, synthetic_census
from assets.cef.synthetic import write as write_census
from assets.charge.asset import reserve
from assets.charge.drawing import make_draw
from assets.release.contents import hash_cef, publish_contents
from assets.release.dataset import DatasetDeclaration
from assets.release.method import Method
from mechanisms.people import Sketcher, to_bytes
from orchestration.environment import deployment_resources
from resources.custody import Custody
from resources.ledger import Ledger
from resources.project import PROJECT
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

_SAMPLING_INTERVAL = 0.2
"""Seconds between two samples of memory."""


@dataclass(frozen=True)
class Result:
    """One figure, named with its unit, against the peer's in the same run, a multiple of the peer's, or an absolute
    limit."""

    name: str
    ours: float
    other: float
    limit: float = 1.0
    """The upper limit of ours / other."""

    @property
    def ratio(self) -> float:
        return self.ours / self.other

    @property
    def within_limit(self) -> bool:
        return self.ratio <= self.limit

    def __str__(self) -> str:
        line = f"{self.name:72}{self.ours:>12,.2f}{self.other:>12,.2f}{self.ratio:>10.4g}{self.limit:>8.3g}"
        return line if self.within_limit else f"{line}  exceeded"


R = TypeVar("R", bound=tuple[float, ...])
T = TypeVar("T")


def find_median_run(runs: Iterable[R]) -> R:
    """The run with the median ratio of its first two figures, ours and the peer's."""
    ordered = sorted(runs, key=lambda run: run[0] / run[1])
    return ordered[len(ordered) // 2]


def compare(
    name: str, ours: Callable[[], float], other: Callable[[], float], limit: float, runs: int, *, warm_up: bool = False
) -> Result:
    """The figures of two programs that alternate, from the run with the median ratio; a warm-up does not count."""
    figures = [(ours(), other()) for _ in range(runs + warm_up)]
    return Result(name, *find_median_run(figures[warm_up:]), limit)


def limit_costs(name: str, seconds: float, most_seconds: float, memory: float, most_memory: float) -> list[Result]:
    """The seconds and the peak memory in GiB of one program, each against a limit."""
    return [
        Result(f"{name} (s)", seconds, most_seconds),
        Result(f"{name}: peak memory (GiB)", memory, most_memory),
    ]


def time_call(step: Callable[[], T], clock: Callable[[], float] = time.perf_counter) -> tuple[float, T]:
    """The wall-clock seconds of a step, and its result."""
    started = clock()
    returned = step()
    return clock() - started, returned


class Run(NamedTuple):
    """A step in a separate process, with its peak memory in GiB."""

    seconds: float
    peak: float
    returned: Any


def run_step(step: Callable[..., Any], *arguments: Any) -> Run:
    """Run a step in a fresh process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run, step, arguments).result()


def _run(step: Callable[..., Any], arguments: tuple[Any, ...]) -> Run:
    # Dagster's first context in a process imports for half a second, which should count for no step.
    with dg.build_asset_context():
        seconds, returned = time_call(lambda: step(*arguments))
    return Run(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, returned)


def launch(home: str, module: str, job: str, environment: Mapping[str, str] | None = None) -> float:
    """Run a job of a module by `dg launch` until it ends, with folders for Dagster's instance and the publications in
    `home`; return its seconds, including all imports. Raises RuntimeError if it fails, with the end of Dagster's
    output."""
    instance = Path(home) / "dagster"
    instance.mkdir(exist_ok=True)
    places = {"DAGSTER_HOME": str(instance), "STIRRED_HOME": home, "STIRRED_PUBLISHED": f"{home}/published"}
    command = [str(Path(sys.executable).with_name("dg")), "launch", "--module-name", module, "--job", job]
    options: Any = {"cwd": PROJECT, "env": os.environ | places | dict(environment or {}), "capture_output": True}
    seconds, run = time_call(lambda: subprocess.run(command, text=True, **options))
    if run.returncode:
        raise RuntimeError(f"the job {job} failed:\n{run.stderr[-5_000:]}")
    return seconds


@contextmanager
def sample(look: Callable[[], float], between: float) -> Iterator[list[float]]:
    """The values of a function, which another thread calls every `between` seconds and once at the end of the block."""
    samples, over = [0.0], threading.Event()

    def keep_sampling() -> None:
        while not over.wait(between):
            samples.append(look())

    sampler = threading.Thread(target=keep_sampling, daemon=True)
    sampler.start()
    try:
        yield samples
    finally:
        over.set()
        sampler.join()
        samples.append(look())


def read_processor_seconds() -> float:
    """The processor seconds of all ended programs that this process started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_with_memory(step: Callable[[], object]) -> tuple[float, float]:
    """The seconds of a step, and the peak memory of this process and all its descendants together in GiB, with shared
    pages divided among processes."""
    peak = 0

    def read_memory() -> int:
        nonlocal peak
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        # The kernel walks through all pages to divide the shared ones, which would take a fifth of a core from a job of
        # ten million persons. Without the division, memory is never less, and is read at once.
        if _add_up(processes, lambda process: process.memory_info().rss) > peak:
            peak = max(peak, _add_up(processes, lambda process: process.memory_full_info().pss))
        return peak

    with sample(read_memory, _SAMPLING_INTERVAL) as samples:
        seconds, _ = time_call(step)
    return seconds, samples[-1] / 2**30


def _add_up(processes: Iterable[psutil.Process], read_bytes: Callable[[psutil.Process], int]) -> int:
    memory = 0
    for process in processes:
        # A process may have ended meanwhile.
        with suppress(psutil.Error):
            memory += read_bytes(process)
    return memory


def temporary_home() -> tempfile.TemporaryDirectory[str]:
    """A folder for a deployment, which is removed when its block ends."""
    return tempfile.TemporaryDirectory(prefix="stirred-bench-")


def open_deployment(home: str) -> tuple[Warehouse, Custody, Ledger]:
    ledger = deployment_resources(Path(home))["ledger"]
    assert isinstance(ledger, Ledger)
    return ledger.warehouse, ledger.custody, ledger


def open_warehouse(home: str) -> Warehouse:
    return open_deployment(home)[0]


def declare_dataset(columns: Mapping[str, Any], **fields: Any) -> DatasetDeclaration:
    """A dataset of generated records with a key. `fields` replace fields of the declaration."""
    units = {"path": "units.csv", "columns": {"serial": {"type": "integer", "role": "key"}, **columns}}
    described = {"name": "bench", "title": "Generated records", "synthetic": True, "reader": "csv", "cap": 1000}
    return DatasetDeclaration.model_validate(described | {"units": units} | fields)


def declare_census(households: int, states: Sequence[str], **fields: Any) -> SyntheticCensusDeclaration:
    population = SyntheticPopulation(households=households, states=list(states), **fields)
    return synthetic_census(population, name="bench", cap={"rho": 100})


def write_census_cef(home: str, dataset: SyntheticCensusDeclaration) -> int:
    """Generate the CEF of a synthetic census; return the number of persons."""
    return write_cef(home, dataset, lambda session: write_census(session, dataset))


def generate_cef(home: str, dataset: DatasetDeclaration, query: str, values: Mapping[str, Any]) -> None:
    """Write the CEF of a dataset with one table by a query."""
    write_cef(home, dataset, lambda session: session.create(dataset.cef_tables()[0], query, values))


def write_cef(home: str, dataset: DatasetDeclaration, write: Callable[[Session], object]) -> int:
    """Write the CEF by a function and publish its versions; return the number of records of its last table."""
    warehouse, custody, _ = open_deployment(home)
    key = custody.version_key()
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        with session.transaction():
            write(session)
        versions, records = hash_cef(session, dataset, key), session.count(dataset.cef_tables()[-1])
    # No file has records to sketch.
    versions = replace(versions, sketch=to_bytes([Sketcher().finish()]))
    publish_contents(warehouse, custody, dataset, versions, {})
    return records


def make_stages(home: str, method: Method[Any, Any, Any], *names: str) -> None:
    assets = {asset.key.path[-1]: asset for asset in method.own_assets()}
    for name in names:
        with dg.build_asset_context(resources=dict(deployment_resources(Path(home)))) as context:
            assets[name](context)


_NUMBERS = count()


def name_release() -> str:
    """A unique name for a run's release, so that the run charges and draws."""
    return f"run{next(_NUMBERS)}"


def charge(home: str, method: Method[Any, Any, Any]) -> None:
    warehouse, custody, ledger = open_deployment(home)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = method.describe(session, custody)
    reserve(method.release, draw, ledger)


def make(home: str, method: Method[Any, Any, Any]) -> None:
    """Make the draw of a release: write it, and settle it in the ledger."""
    make_draw(method, *open_deployment(home))
