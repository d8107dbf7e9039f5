"""Faults of a cluster: a server or a process is lost at a step of a release, and all processes wait.

The cluster comes from `tests.deploy.cluster`: PostgreSQL, an S3 server, code location, daemon and webserver. Its
PostgreSQL server has its own small disk, so that the disk can be full. Every case takes another seed of the synthetic
census, and so makes another draw; a deployment on files publishes the same census beside it.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import dagster as dg

from mechanisms.compilation import compile_kernels
from tests.deploy.cluster import (
    Cluster,
    begin_launch,
    contents,
    eventually,
    process_of,
    releases,
    rows,
    running_cluster,
    start_all,
    start_code,
)
from tests.faults.releases import RELEASES

KINDS: Mapping[str, str] = {
    "swapping": "two_states/swapped",
    "phsafe": "two_states/s_dhc",
    "topdown": "two_states/redistricting",
    "pair swapping": "two_states/pairs_2010",
    "safetab": "detailed/persons",
    "safetab of households": "detailed/households",
    "table builder": "two_states/hypercubes_race",
    "coarsening": "two_states/coarsened",
    "suppression": "two_states/suppressed",
    "dhc": "two_counties/dhc",
    "retabulation": "two_counties/places",
}
"""The releases of the project that are made in a cluster, by kind. Each is made from a synthetic census."""

READ: Mapping[str, str] = {
    "detailed/households": "detailed/persons",
    "two_counties/dhc": "two_counties/redistricting",
    "two_counties/places": "two_counties/redistricting",
}
"""The releases that others read: each is published first, undisturbed."""

GONE = 20
"""The seconds without the S3 server, and with a full disk."""

PATIENCE = 1200
"""Seconds after which a launch that has not ended counts as wrong."""

_LOST = ("This is no verdict on the release", "sqlalchemy.exc.OperationalError")
"""Words of the failures of a step that lost a server: our words (`assets.stages`), and Dagster's, which quotes its
statement and the event if it cannot store an event."""


def _database_restarts(cluster: Cluster, disk: Path, worker: int) -> None:
    cluster.database.run("-m", "immediate", "restart")
    _start_database(cluster)


def _storage_is_gone(cluster: Cluster, disk: Path, worker: int) -> None:
    cluster.storage.restart(GONE)


def _run_is_killed(cluster: Cluster, disk: Path, worker: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)


def _code_location_is_killed(cluster: Cluster, disk: Path, worker: int) -> None:
    """With all its runs; it is started again as by the policy of its container."""
    cluster.kill("code")
    eventually(lambda: not Path(f"/proc/{worker}").exists())
    start_code(cluster)


def _disk_is_full(cluster: Cluster, disk: Path, worker: int) -> None:
    """A server that stopped because of it is started again as by the policy of its container."""
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    time.sleep(GONE)
    ballast.unlink()
    _start_database(cluster)


def _start_database(cluster: Cluster) -> None:
    eventually(lambda: cluster.database.run("status") == 0 or cluster.database.run("start") == 0)


FAULTS: Mapping[str, Callable[[Cluster, Path, int], None]] = {
    "the database restarts": _database_restarts,
    "the S3 server is gone": _storage_is_gone,
    "the run is killed": _run_is_killed,
    "the code location is killed": _code_location_is_killed,
    "the catalog's disk is full": _disk_is_full,
}


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 400 MB in memory. Only root can make one."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=755", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


class OneCluster:
    """At most one running cluster: the cluster of the kind of release requested last."""

    def __init__(self) -> None:
        self._opened, self._name = ExitStack(), ""

    def of(self, folder: Path, name: str) -> "Disturbed":
        """The cluster with the release of a kind, in its own folder."""
        if name != self._name:
            self.close()
            self._running = Disturbed(
                self._opened, Path(tempfile.mkdtemp(dir=folder)), KINDS[name], RELEASES[name].charges
            )
            self._name = name
        return self._running

    def close(self) -> None:
        """End everything that runs."""
        self._name = ""
        self._opened.close()


class Disturbed:
    """A running cluster with one release, which is launched and disturbed again and again."""

    def __init__(self, opened: ExitStack, root: Path, release: str, charges: bool) -> None:
        self._release, self._charges, self._launches, self._root = release, charges, 0, root
        self._releases = [*([READ[release]] if release in READ else []), release]
        self._disk = opened.enter_context(small_disk(root / "disk"))
        database = self._disk / "database"
        database.mkdir()
        # Runs have a copy of the code with its compiled kernels, and would otherwise compile them for minutes.
        compile_kernels()
        self._cluster = opened.enter_context(running_cluster(root / "cluster", release, 300, database))
        self._declare(r"cap: .*", "cap: {epsilon: 1000000, delta: 1/1000}")
        if release in READ:
            # Work for each table or replicate takes most of the time, and the releases that are read are not disturbed.
            few = "replicates: 0\n  products: [persons, units, P1, P12, H3, H12, noisy_measurements]"
            for name, text in ((READ[release], "estimation: own_levels"), (release, few)):
                path = self._defs / name / "defs.yaml"
                path.write_text(re.sub(r"^  replicates: \d+$", f"  {text}", path.read_text(), flags=re.M))
        start_all(self._cluster)

    @property
    def _defs(self) -> Path:
        return self._cluster.project / "orchestration" / "defs"

    def _declare(self, pattern: str, text: str) -> None:
        """Replace a line of the dataset's declaration, or add it."""
        path = self._defs / self._release.split("/")[0] / "dataset" / "defs.yaml"
        replaced, times = re.subn(rf"^  {pattern}$", f"  {text}", path.read_text(), flags=re.M)
        path.write_text(replaced if times else f"{replaced.rstrip()}\n  {text}\n")

    def steps(self) -> list[str]:
        """The steps of an undisturbed launch, in order."""
        _, wrong = self.attempt([])
        if wrong:
            raise RuntimeError(f"undisturbed: {'; '.join(wrong)}")
        with self._cluster.instance() as instance:
            logs = instance.all_logs(
                releases(instance, self._release)[-1].run_id, of_type=dg.DagsterEventType.STEP_START
            )
            return [str(entry.dagster_event.step_key) for entry in logs if entry.dagster_event]

    def attempt(self, faults: Sequence[tuple[str, str]]) -> tuple[list[bool], list[str]]:
        """Launch the release on another census, and let each fault happen once its step has begun, in the steps' order.

        Returns for each fault whether it happened at this step, and the errors.
        """
        self._launches += 1
        self._declare("seed: .*", f"seed: {1000 + self._launches}")
        cluster, release, took = self._cluster, self._release, [False] * len(faults)
        log_path = self._root / f"launched-{self._launches}"
        with log_path.open("wb") as log:
            with cluster.instance() as instance:
                earlier = len(releases(instance, release))
            for each in self._releases[:-1]:
                begin_launch(cluster, log, each).wait(PATIENCE)
            launched = begin_launch(cluster, log, release)
            try:
                for number, (fault, step) in enumerate(faults):
                    # A connection is lost with an earlier fault.
                    with cluster.instance() as instance:
                        run, latest = eventually(partial(self._latest_step, instance, earlier, step), PATIENCE)
                        worker = process_of(instance, run)
                    took[number] = latest == step and Path(f"/proc/{worker}").exists()
                    FAULTS[fault](cluster, self._disk, worker)
                on_files = [cluster.on_files(each) for each in self._releases][-1]
                launched.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                return took, [f"the launch goes on after {PATIENCE} seconds: {log_path.read_text()[-500:]}"]
            finally:
                launched.kill()
        with cluster.instance() as instance:
            wrong = self._runs(instance, earlier)
        if launched.returncode:
            wrong.append(f"the launch ended with {launched.returncode}: {log_path.read_text()[-500:]}")
        kinds = "SELECT kind FROM stirred.entries ORDER BY sequence"
        entries = [kind for (kind,) in rows(cluster, "owner", kinds)]
        if entries != ["reserve", "settle"] * self._launches * (len(self._releases) - (not self._charges)):
            wrong.append(f"not exactly one charge for each of {self._launches} draws: {entries}")
        found, expected = contents(cluster.published), contents(on_files)
        if odd := sorted(str(path) for path in found.keys() | expected.keys() if found.get(path) != expected.get(path)):
            wrong.append(f"published differs from a deployment on files: {', '.join(odd[:6])}")
        return took, wrong

    def _latest_step(self, instance: dg.DagsterInstance, earlier: int, step: str) -> tuple[str, str] | None:
        """The id of the last run of this launch in which a step has begun, and its latest step; None until then."""
        for run in reversed(releases(instance, self._release)[earlier:]):
            logs = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_START)
            begun = [str(entry.dagster_event.step_key) for entry in logs if entry.dagster_event]
            if step in begun:
                return run.run_id, begun[-1]
        return None

    def _runs(self, instance: dg.DagsterInstance, earlier: int) -> list[str]:
        runs = releases(instance, self._release)[earlier:]
        wrong = []
        if not runs or runs[-1].status is not dg.DagsterRunStatus.SUCCESS:
            wrong.append(f"the runs ended with {[run.status.value for run in runs]}")
        for run in runs:
            for entry in instance.all_logs(run.run_id):
                event = entry.dagster_event
                failure = _describe(event) if event and event.is_step_failure else ""
                if failure and not any(words in failure for words in _LOST):
                    wrong.append(f"{event.step_key} failed: {failure[:300]}")
                if any(secret in failure for secret in self._cluster.kept_secret):
                    wrong.append(f"the failure of {event.step_key} quotes a password or a key")
                evaluated = event and event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
                if event and evaluated and not event.asset_check_evaluation_data.passed:
                    wrong.append(f"the gate {event.asset_check_evaluation_data.check_name} failed")
        return wrong


def _describe(failed: dg.DagsterEvent) -> str:
    error, said = failed.step_failure_data.error, failed.step_failure_data.user_failure_data
    return f"{said.description if said else ''} {error.message if error else ''}"
