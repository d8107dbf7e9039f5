"""Small prepared releases of every kind, the disturbed work, and the conditions that must hold after every fault.

Each fault happens in a separate process, forked from one with all imports, to a copy of a prepared deployment: its
source files, its custody, and all stages before the charge. The ledger's clock stands still and fixed keys replace
random ones, so that the same custody gives the same bytes as an undisturbed run.
"""

import ctypes
import inspect
import json
import logging
import os
import pickle
import secrets
import shutil
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg
import duckdb
from matplotlib.figure import Figure

from assets.charge import asset as charge_asset
from assets.publication import package
from assets.publication.asset import publish
from assets.release import seal
from assets.release.dataset import CEF
from assets.release.method import CHARGE
from assets.retabulation.asset import certify as certify_counts
from assets.topdown.reestimation.asset import certify as certify_estimates
from mechanisms.topdown.dhc import estimation
from mechanisms.topdown.least_squares import Solution, solve
from orchestration.following import list_jobs
from resources import chain, processes
from resources.instances import close_waiting
from tests.contract.kinds import KINDS, Build, before_draw, to_publication, village
from tests.deployments import Deployment
from tests.dhc_deployments import dhc_deployment
from tests.reestimation_deployments import reestimation_deployment
from tests.retabulation_deployments import retabulation_deployment
from tests.safetab_deployments import safetab_deployment
from tests.table_builder_deployments import AFTER, after_swap_deployment, hypercube_deployment
from tests.topdown_deployments import FOUR_LEVELS, THREE_LEVELS
from tests.whole_repository import known


@dataclass(frozen=True)
class Disturbed:
    """A release to be disturbed.

    Attributes:
        build: makes its deployment below a folder, as `Kind.build` does.
        cap: a cap of the dataset under which two such releases fit and three do not; None if no loss is finite.
        custody: of its key.
        charges: whether it makes its own draw; releases without one are only attacked, killed, and met by a full disk.
    """

    build: Build
    cap: Any
    custody: str = "escrowed"
    charges: bool = True


def _changed(kind: str, **changes: Any) -> Build:
    """A kind of release with other fields of its declaration."""
    return lambda root, guess=0, **further: KINDS[kind].build(root, guess, **(changes | further))


def _cube(declared: Mapping[str, Any], of_dataset: Mapping[str, Any]) -> Build:
    """The kind of the table builder with another hypercube, counted from a withheld swap if it names one."""
    make = after_swap_deployment if "swapped" in declared else hypercube_deployment

    def build(root: Path, guess: int = 0, dataset: Mapping[str, Any] | None = None, **changes: Any) -> Deployment[Any]:
        return make(root, declared, units=village(guess), dataset={**of_dataset, **(dataset or {})}, **changes)

    return build


def _of_households(
    root: Path, guess: int = 0, dataset: Mapping[str, Any] | None = None, **changes: Any
) -> Deployment[Any]:
    """A release by SafeTab-H, which reads the publication of one by SafeTab-P."""
    given: dict[str, Any] = {"size": 150, "guess": guess, "dataset": dict(dataset or {})}
    return safetab_deployment(root, releases="h", households=changes, **given)


_BY = {"variables": ["county", "tenure"]}
_CHANGES = {"largest_change": 3, "variance": 2, "threshold": 1}
_SMALL_DELTA = {"cap": {"epsilon": 5, "delta": "1/1000000"}}
_UNBOUNDED = {"unbounded_releases": "allowed"}

HYPERCUBES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], Any]] = {
    "after a withheld swap": (AFTER, {}, 10),
    "bounded noise": ({"name": "bounded", "epsilon": 1, "cap": 20, **_BY}, _SMALL_DELTA, _SMALL_DELTA["cap"]),
    "gaussian noise": (
        {"name": "gaussian", "rho": "1/2", "margins": "independent", **_BY},
        {"cap": {"rho": 9}},
        {"rho": 5},
    ),
    "p-table": ({"name": "judged", "p_table": _CHANGES, "margins": "independent", **_BY}, _UNBOUNDED, None),
    "cell keys": ({"name": "keyed", "p_table": _CHANGES, "consistency": "cell", **_BY}, _UNBOUNDED, None),
    "weights": ({"name": "rooms", "weight": {"column": "size", "grid": 1, "most": 9}, "epsilon": 1, **_BY}, {}, 5),
}
"""Hypercubes with the kinds of noise, consistency and margins that the hypercube of `KINDS` lacks: their declaration,
the dataset's, and the cap."""

_CAPS: Mapping[str, Any] = {
    "swapping": 10,
    "phsafe": {"rho": 1},
    "safetab": {"rho": 20},
    "topdown": {"rho": 5},
    "dhc": {"rho": 40},
    "table builder": 10,
    "quantiles": 10,
    "drawn quantiles": 10,
    "moments": 10,
    "pair swapping": None,
    "coarsening": None,
    "suppression": None,
    "laplace tables": 4,
}

RELEASES: Mapping[str, Disturbed] = {
    **{name: Disturbed(kind.build, _CAPS[name]) for name, kind in KINDS.items()},
    "swapping, ephemeral key": Disturbed(KINDS["swapping"].build, _CAPS["swapping"], "ephemeral"),
    "dhc": Disturbed(partial(dhc_deployment, homes=20), _CAPS["dhc"]),
    "safetab of households": Disturbed(_of_households, {"rho": 45}),
    "topdown, full estimation": Disturbed(_changed("topdown", estimation="full"), _CAPS["topdown"]),
    "topdown, replicates": Disturbed(_changed("topdown", replicates=2), _CAPS["topdown"]),
    "topdown, partitions": Disturbed(_changed("topdown", **THREE_LEVELS, partitions="state"), _CAPS["topdown"]),
    "topdown, two rounds of partitions": Disturbed(
        _changed("topdown", **FOUR_LEVELS, invariants="production", partitions="state", estimation="full"),
        _CAPS["topdown"],
    ),
    **{f"hypercube, {name}": Disturbed(_cube(cube, of), cap) for name, (cube, of, cap) in HYPERCUBES.items()},
    "retabulation": Disturbed(retabulation_deployment, None, charges=False),
    "reestimation": Disturbed(reestimation_deployment, None, charges=False),
}
"""The releases to be disturbed: every kind of the contract tests, and the variants within a kind."""

PATIENCE = 900
"""Seconds after which a process that does not end is killed, and counted as wrong."""


_CHARGED = charge_asset.charge_draw
_CERTIFIED = {"retabulation": certify_counts, "reestimation": certify_estimates}


def _of_one_run(assessment: Any, given: Any, run_id: str, *rest: Any) -> Any:
    """The charge without the id of its run, which is random and part of the ledger's entry."""
    return _CHARGED(assessment, given, "run", *rest)


class StoppedClock(datetime):
    """A clock for the ledger that stands still, so that two runs can be compared byte by byte."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "StoppedClock":
        return cls(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Ended:
    """The end of a process.

    Attributes:
        status: its exit status, or minus the signal that ended it.
        answer: the return value of its work, or None.
        error: the type and message of the exception that ended its work, with all causes; empty without an exception.
        process: its id.
    """

    status: int
    answer: Any
    error: str
    process: int


class InTurn(Executor):
    """Runs the work of threads one after the other, so that the order of effects is the same each time."""

    def __init__(self, threads: int = 1) -> None: ...

    def submit(self, work: Callable[..., Any], /, *given: Any, **options: Any) -> Future[Any]:
        future = Future[Any]()
        try:
            future.set_result(work(*given, **options))
        except BaseException as error:
            future.set_exception(error)
        return future


_random_bytes = secrets.token_bytes


def fixed_key(count: int = 32) -> bytes:
    """The replacement for `secrets.token_bytes`: the same key each time, and random shorter tokens, for names."""
    return sha256(b"a fixed key for the tests of faults").digest() if count == 32 else _random_bytes(count)


_SOLVED: dict[bytes, Solution] = {}


def _solve_once(problem: Any, *given: Any) -> Solution:
    """A solution of the same problem as before, which `warm_up` has solved for all processes that are forked."""
    digest = sha256(pickle.dumps((problem, given))).digest()
    if digest not in _SOLVED:
        _SOLVED[digest] = solve(problem, *given)
    return _SOLVED[digest]


@contextmanager
def repeatable() -> Iterator[None]:
    """Stop all clocks, fix random keys, run threads one after the other, and draw no pictures, which take half of the
    time and affect no result. The least-squares problems of a DHC take a third of it: the same one is solved once.
    Every seal notes a content version, as seals of large tables do."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(chain, "datetime", StoppedClock))
        stack.enter_context(patch.object(charge_asset, "charge_draw", _of_one_run))
        stack.enter_context(patch.object(secrets, "token_bytes", fixed_key))
        stack.enter_context(patch.object(time, "thread_time", float))
        for module in (package, processes):
            stack.enter_context(patch.object(module, "ThreadPoolExecutor", InTurn))
        stack.enter_context(patch.object(Figure, "savefig", lambda *_, **__: None))
        stack.enter_context(patch.object(estimation, "solve", _solve_once))
        stack.enter_context(patch.object(seal, "LARGE", 0))
        yield


def die_with_parent() -> None:
    """Have Linux kill this process when its parent ends (`prctl(2)`)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Child:
    """A process that waits for `go`, does some work, and sends back its result or exception.

    The answer goes through a socket, not a pipe, because a fault may make every `write` fail.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._here, there = socket.socketpair()
        self.process = os.fork()
        if self.process == 0:
            die_with_parent()
            self._here.close()
            signal.alarm(PATIENCE)
            logging.disable(logging.CRITICAL)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            there.recv(1)
            answer, error = None, ""
            try:
                with repeatable():
                    answer = work()
            except BaseException as raised:
                error = "\n".join(traceback.format_exception_only(raised)) + _causes(raised)
            there.sendall(json.dumps([answer, error]).encode())
            os._exit(1 if error else 0)
        there.close()

    def go(self) -> None:
        """Let the process begin."""
        self._here.send(b"!")

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        os.kill(self.process, signal.SIGKILL)

    def ended(self) -> Ended:
        """Wait for the end."""
        received = b""
        try:
            while part := self._here.recv(1 << 16):
                received += part
        except ConnectionResetError:
            pass
        self._here.close()
        _, status = os.waitpid(self.process, 0)
        answer, error = json.loads(received) if received else (None, "")
        return Ended(os.waitstatus_to_exitcode(status), answer, error, self.process)


def in_child(work: Callable[[], Any]) -> Ended:
    """Do some work in a separate process."""
    child = Child(work)
    child.go()
    return child.ended()


def _causes(error: BaseException) -> str:
    said = ""
    cause = error.__cause__ or error.__context__
    while cause:
        said += "".join(traceback.format_exception_only(cause))
        cause = cause.__cause__ or cause.__context__
    return said


def deployment(root: Path, name: str, /, **changes: Any) -> Deployment[Any]:
    """One of `RELEASES` in a folder; `changes` are as in `Kind.build`. Without any, a process makes it once."""
    return _build(root, name, **changes) if changes else _build_once(root, name)


def _build(root: Path, name: str, /, **changes: Any) -> Deployment[Any]:
    return RELEASES[name].build(root, **({"custody": RELEASES[name].custody} | changes))


_build_once = cache(_build)


def prepared(folder: Path, name: str) -> Path:
    """A folder in which all stages before the charge have run, and the releases from which this one is made."""
    start = folder / name.replace(" ", "-").replace(",", "") / "start"
    if not start.exists():
        start.parent.mkdir(parents=True, exist_ok=True)
        _require(in_child(lambda: prepare_charge(deployment(start, name))))
    return start


def prepare_charge(here: Deployment[Any]) -> None:
    """Run all stages before the charge."""
    here.run_assets(*sources(here), *(here.key(stage) for stage in _before_charge(here)))


def _before_charge(here: Deployment[Any]) -> list[str]:
    """The stages before the charge; only the stage of the records if there is no charge."""
    method = here.context.method
    return before_draw(method)[:-1] if CHARGE in method.stages else [CEF]


def sources(here: Deployment[Any]) -> list[dg.AssetKey]:
    """The assets of other releases from which this one is made."""
    graph, release = here.definitions.resolve_asset_graph(), here.release
    upstream = dg.AssetSelection.assets(here.key("publication")).upstream().resolve(graph)
    own = {key for key in upstream if key.path[:-1] in ([release.dataset.name, release.name], [release.dataset.name])}
    return sorted((upstream - own) & graph.materializable_asset_keys)


def _require(ended: Ended) -> Any:
    if ended.status:
        raise RuntimeError(f"an undisturbed process ended with {ended.status}: {ended.error}")
    return ended.answer


def from_charge(root: Path, name: str) -> None:
    """Every stage from the charge to the publication, without Dagster, whose own files would hide the stages' files."""
    here = deployment(root, name)
    before = _before_charge(here)
    _stages(here, [stage for stage in to_publication(here.context.method) if stage not in before])


def every_stage(root: Path, name: str) -> None:
    """Every stage of a release from the source to the publication, without Dagster, and its figures of utility."""
    here = deployment(root, name)
    stages = to_publication(here.context.method)
    others = sorted({key.path[-1] for key in _assets(here) if key.path[:-1] == here.key("charge").path[:-1]})
    _stages(here, [*(stage for stage in stages if stage != "publication"), *others, "publication"])


def launch(here: Deployment[Any]) -> None:
    """Every stage that a publication needs, from the source on, without Dagster, except for other releases."""
    if of_others := sources(here):
        here.run_assets(here.key("cef"), *of_others)
    _stages(here, to_publication(here.context.method))


def _stages(here: Deployment[Any], stages: Sequence[str]) -> None:
    assets, partitions = _assets(here), here.context.method.partitions
    for stage in dict.fromkeys(stages):
        if partitions and stage in partitions.stages:
            for partition in sorted(here.instance.get_dynamic_partitions(partitions.name)):
                _call(here, assets[here.key(stage)], partition)
        elif stage != "publication":
            _call(here, assets[here.key(stage)])
    ask_for_publication(here)


def ask_for_publication(here: Deployment[Any]) -> None:
    """Do the work of the step `publication`."""
    publish(here.context, _CERTIFIED.get(here.release.declaration.declares))


def _assets(here: Deployment[Any]) -> dict[dg.AssetKey, Any]:
    return {key: asset for asset in here.definitions.assets or [] for key in asset.keys}  # type: ignore[union-attr]


def _call(here: Deployment[Any], asset: Any, partition: str | None = None) -> None:
    """Call the function of an asset as Dagster would, without Dagster's preparations."""
    context, function = here.context, asset.op.compute_fn.decorated_fn
    resources = {"warehouse": context.warehouse, "custody": context.custody, "ledger": context.ledger}
    taken = inspect.signature(function).parameters
    given: dict[str, Any] = {name: resource for name, resource in resources.items() if name in taken}
    if "config" in taken:
        given["config"] = taken["config"].annotation()
    with dg.build_asset_context(resources=resources, instance=here.instance, partition_key=partition) as prepared:
        if "context" in taken:
            given["context"] = prepared
        function(**given)


def whole_job(root: Path, name: str) -> None:
    """The release's job from the source to the publication, through Dagster, with every blocking check."""
    run_job(deployment(root, name))


def run_job(here: Deployment[Any], tags: Mapping[str, str] | None = None, *, raises: bool = True) -> list[Any]:
    """Run the release's job, without the steps that its publication does not need; with partitions, also the jobs that
    follow it.

    Returns:
        The result of every run. With `raises` False, a run that fails is the last one.
    """
    method, partitions = here.context.method, here.context.method.partitions
    read = [[release.dataset.name, release.name] for release in method.reads_publications_of]
    keys = [*(key for key in sources(here) if key.path[:-1] not in read), *map(here.key, to_publication(method))]
    results: list[Any] = []

    def run(job: str, stages: Sequence[dg.AssetKey], partition: str | None = None) -> None:
        if not results or results[-1].success:
            repository = here.definitions.get_repository_def()
            with known(repository):
                results.append(
                    repository.get_job(job).execute_in_process(
                        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                        instance=here.instance,
                        asset_selection=list(stages),
                        partition_key=partition,
                        tags=tags,
                        raise_on_error=raises,
                    )
                )

    schema = here.release.schema
    if not partitions:
        run(schema, keys)
        return results
    job = schema
    for each, (of_partition, after) in zip(
        partitions.rounds, list_jobs([each.name for each in partitions.rounds]), strict=True
    ):
        by_part = [here.key(stage) for stage in each.stages]
        first = keys.index(by_part[0])
        run(job, keys[:first])
        for partition in sorted(here.instance.get_dynamic_partitions(partitions.name)):
            run(f"{of_partition}__{schema}", by_part, partition)
        keys, job = [key for key in keys[first:] if key not in by_part], f"{after}__{schema}"
    run(job, keys)
    return results


Work = Callable[[Path, str], None]


def tables(root: Path, *databases: str, views: bool = False) -> dict[str, str]:
    """Every stored table of the databases, and views if requested, with a hash of rows in any order and of columns."""
    found = {}
    for database in databases:
        path = root / "warehouse" / f"{database}.duckdb"
        if not path.exists():
            continue
        with duckdb.connect(str(path), read_only=True, config={"threads": 1}) as connection:
            found |= hashes(connection, database, views=views)
    return found


def hashes(connection: duckdb.DuckDBPyConnection, database: str, *, views: bool = False) -> dict[str, str]:
    """The tables of the current database, under a name of it, as `tables` lists them."""
    found = {}
    for schema, table in names(connection, views=views):
        described = connection.execute(f'DESCRIBE "{schema}"."{table}"').fetchall()
        # DuckDB ignores the case of names, and Stirred the order of a table's columns.
        columns = sorted((column.lower(), *others) for column, *others in described)
        chosen = ", ".join(f'"{column}"' for column, *_ in columns)
        rows = sorted(map(repr, connection.execute(f'SELECT {chosen} FROM "{schema}"."{table}"').fetchall()))
        found[f"{database}.{schema}.{table}"] = sha256(repr((columns, rows)).encode()).hexdigest()
    return found


def names(connection: duckdb.DuckDBPyConnection, *, views: bool = False) -> list[tuple[str, str]]:
    """Schema and name of every table of the current database, and of its views if requested."""
    here = "WHERE NOT internal AND database_name = current_database()"
    statement = f"SELECT schema_name, table_name FROM duckdb_tables() {here}"
    if views:
        statement += f" UNION ALL SELECT schema_name, view_name FROM duckdb_views() {here}"
    statement += " ORDER BY ALL"
    return [(str(schema), str(table)) for schema, table in connection.execute(statement).fetchall()]


def tree(folder: Path) -> dict[str, str]:
    """The files below a folder with their SHA-256."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest() for path in paths}


def visible(root: Path) -> dict[str, str]:
    """The published files, apart from folders whose names begin with a dot: those are not complete yet."""
    found = tree(root / "published")
    return {name: digest for name, digest in found.items() if not any(part[0] == "." for part in name.split("/"))}


def state(root: Path, name: str) -> dict[str, Any]:
    """The state that a new process finds, without changes."""
    here = deployment(root, name)
    entries = here.context.ledger.entries()
    return {
        "kinds": [entry.kind for entry in entries],
        "draws": [entry.draw_id for entry in entries],
        "outputs": [entry.output_version for entry in entries if entry.kind == "settle"],
        "commitments": sorted({entry.commitment for entry in entries}),
        "charged": [entry.parse_specification().loss.as_record() for entry in entries if entry.kind == "reserve"],
        "problems": list(here.context.ledger.verify()),
        "published": visible(root),
        "keys": sorted(path.name for path in root.glob("custody/ephemeral/*")),
    }


def settled_state(root: Path, name: str) -> dict[str, Any]:
    """The result of the work: the state, all tables, and the names of all files."""
    found = state(root, name) | {"tables": tables(root, "confidential", "public", "ledger")}
    # As at the end of the process: files that it still holds are not part of the deployment.
    close_waiting()
    return found | {
        "files": sorted(path.relative_to(root).as_posix() for path in root.rglob("*")),
    }


@dataclass(frozen=True, eq=False)
class Prepared:
    """A release to be disturbed.

    Attributes:
        name: one of `RELEASES`.
        start: its folder before the charge.
        work: the work to be disturbed.
        undisturbed: its settled state after undisturbed work.
        before: its state at the start, in which a release that it reads may be published.
    """

    name: str
    start: Path
    work: Work
    undisturbed: Mapping[str, Any]
    before: Mapping[str, Any] = field(default_factory=lambda: {"kinds": [], "charged": [], "published": {}})

    def copy(self, label: str) -> Path:
        """A fresh copy of the start."""
        place = self.start.parent / label
        shutil.copytree(self.start, place)
        return place

    def problems(self, place: Path) -> list[str]:
        """The errors in a copy after a fault, and after the work is then repeated.

        The copy is removed.
        """
        found = in_child(lambda: self._found(place))
        if found.status:
            wrong = [f"what is left cannot be read, or the work cannot be done again: {found.error or found.status}"]
        else:
            left, healed = found.answer
            wrong = self._left(left) + self._healed(healed)
        shutil.rmtree(place)
        return wrong

    def _found(self, place: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        left = state(place, self.name)
        self.work(place, self.name)
        return left, settled_state(place, self.name)

    def _left(self, left: Mapping[str, Any]) -> list[str]:
        wrong = []
        whole, before = self.undisturbed, self.before
        entries = len(left["kinds"])
        if left["kinds"] != whole["kinds"][:entries] or entries < len(before["kinds"]):
            wrong.append(f"the ledger has the entries {left['kinds']}")
        if left["problems"]:
            wrong.append(f"the ledger is not intact: {left['problems']}")
        if left["charged"] not in (before["charged"], whole["charged"]):
            wrong.append("another price than that of one draw is charged")
        published, complete = _of_releases(left), _of_releases(whole)
        strange = left["published"].items() - whole["published"].items() - before["published"].items()
        if strange or published not in (_of_releases(before), complete):
            wrong.append(f"a publication is visible that is not complete: {sorted(left['published'])}")
        if published == complete and left["kinds"] != whole["kinds"]:
            wrong.append("a draw is published that is not settled")
        return wrong

    def _healed(self, found: Mapping[str, Any]) -> list[str]:
        return [
            f"after the work was done again, {what} differ from those of an undisturbed run: {_differing(found, whole)}"
            for what, found, whole in ((what, found[what], self.undisturbed[what]) for what in self.undisturbed)
            if found != whole
        ]


def _of_releases(found: Mapping[str, Any]) -> dict[str, str]:
    """The published files in the folders of releases, without the files beside these folders, such as the public
    key."""
    return {name: digest for name, digest in found["published"].items() if "/" in name}


def _differing(found: Any, whole: Any) -> str:
    if isinstance(whole, dict):
        odd = sorted(key for key in found.keys() | whole.keys() if found.get(key) != whole.get(key))
        return ", ".join(odd[:6])
    if isinstance(whole, list):
        return str([each for each in found if each not in whole] + [each for each in whole if each not in found])
    return str(found)


@cache
def prepare(folder: Path, name: str, work: Work) -> Prepared:
    """Prepare a release, do the work once undisturbed, and keep the result."""
    start = prepared(folder, name)
    place = start.parent / f"undisturbed-{work.__name__}"
    shutil.copytree(start, place)
    before, _, whole = _require(
        in_child(lambda: (state(place, name), work(place, name), settled_state(place, name)))  # type: ignore[func-returns-value]
    )
    shutil.rmtree(place)
    added = whole["kinds"][len(before["kinds"]) :]
    if (
        added != ["reserve", "settle"] * RELEASES[name].charges
        or whole["problems"]
        or whole["keys"]
        or whole["published"] == before["published"]
    ):
        raise RuntimeError(f"{name}: an undisturbed run is not whole: {whole}")
    return Prepared(name, start, work, whole, before)


def warm_up(folder: Path, names: tuple[str, ...]) -> None:
    """Import and load everything that forked processes need once in this process, not in each of them."""
    for name in names:
        root = folder / "warm" / sha256(name.encode()).hexdigest()[:8]
        root.parent.mkdir(parents=True, exist_ok=True)
        logging.disable(logging.CRITICAL)
        with repeatable():
            here = deployment(root, name)
            prepare_charge(here)
            from_charge(root, name)
        here.definitions.get_repository_def()
