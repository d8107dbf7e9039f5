"""A release by states on a cluster of this machine, while servers and a run are lost:

python -m tests.faults.rehearsal --workers 2 --states 4 --households 600

The cluster comes from `tests.deploy.cluster`, and its queue has as many runs at once as there are workers. A run is
killed while it draws a state, and another one while it makes the levels of a state. While these are made, the daemon is
killed and started again, the database restarts, and the S3 server is gone, once each. With `--undisturbed`, none of
this happens. No person intervenes. After one charge, the published files must equal the files of one run without
partitions on files, which has fewer gates. The figures are printed as JSON; `docs/how-to/partitions.md` shows some.
"""

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any

import dagster as dg
import psycopg

from assets.topdown.declaration import OF_LEVELS, OF_MEASUREMENTS
from assets.topdown.release import MEASUREMENTS_OF_STATES
from mechanisms.states import STATES as CODES
from orchestration.following import BEFORE, PUBLICATION_OF
from tests.deploy.cluster import (
    Cluster,
    begin_launch,
    begun,
    contents,
    eventually,
    process_of,
    releases,
    rows,
    running_cluster,
    start_all,
)
from tests.faults.cluster import FAULTS, GONE
from tests.topdown_deployments import OF_STATES

RELEASE = "two_states/redistricting"

KILLED = "the run is killed"


def _daemon_is_killed(cluster: Cluster, disk: Path, worker: int) -> None:
    """It is started again as by the policy of its container."""
    cluster.kill("daemon")
    time.sleep(GONE)
    cluster.start("daemon")


_FAULTS = {**FAULTS, "the daemon is killed": _daemon_is_killed}

CAUSED = (
    (KILLED, OF_MEASUREMENTS, MEASUREMENTS_OF_STATES),
    (KILLED, OF_LEVELS, ""),
    ("the daemon is killed", OF_LEVELS, ""),
    ("the database restarts", OF_LEVELS, ""),
    ("the S3 server is gone", OF_LEVELS, ""),
)
"""Each fault in turn, the round of partitions in which it happens, and the stage that has begun then, if one is
named."""

PATIENCE = 7200
"""Seconds after which a launch that has not ended counts as wrong."""

_PARTITIONED = "\n  partitions: state"
_TICKS = os.sysconf("SC_CLK_TCK")


def declare_states(cluster: Cluster, states: Sequence[str]) -> None:
    """Give the dataset these states instead of its own two, and the release a partition for each."""
    folder = cluster.project / "orchestration" / "defs" / "two_states"
    census, release = folder / "dataset" / "defs.yaml", folder / "redistricting" / "defs.yaml"
    text = re.sub(r"^  states: .*$", f"  states: {json.dumps(states)}", census.read_text(), flags=re.M)
    census.write_text(re.sub(r"^  place_names: .*\n", "", text, flags=re.M))
    release.write_text(release.read_text().rstrip() + _PARTITIONED)


def publish_without_partitions(cluster: Cluster) -> Path:
    """Publish the release in one run, in a deployment on files; its folder of publications."""
    release = cluster.project / "orchestration" / "defs" / "two_states" / "redistricting" / "defs.yaml"
    release.write_text(release.read_text().removesuffix(_PARTITIONED))
    return cluster.on_files(RELEASE)


class Watch:
    """The measurements taken every second until the block ends.

    Attributes:
        connections: the most connections to PostgreSQL.
        memory: by kind of process, the most MiB of one.
        processor: by kind of process, the seconds of all of them.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._ended = cluster, Event()
        self.connections, self.memory = 0, Counter[str]()
        self._seconds: dict[tuple[str, str], float] = {}
        self._thread = Thread(target=self._look)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def processor(self) -> dict[str, int]:
        sums = Counter[str]()
        for (kind, _), seconds in self._seconds.items():
            sums[kind] += seconds
        return {kind: round(seconds) for kind, seconds in sums.items()}

    def _look(self) -> None:
        password = (self._cluster.secrets / "passwords" / "postgres").read_text()
        (port, *_) = re.findall(r"port=(\d+)", (self._cluster.secrets / "services" / "owner").read_text())
        server = f"host=127.0.0.1 port={port} user=postgres dbname=postgres password={password}"
        asked = b"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        while not self._ended.wait(1):
            with suppress(psycopg.Error), psycopg.connect(server) as connection:
                self.connections = max(self.connections, connection.execute(asked).fetchall()[0][0] - 1)
            kinds = {process.pid: service for service, process in list(self._cluster.running.items())}
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError, IndexError):
                    if kind := kinds.get(os.getpgid(int(folder.name))):
                        self._add(kind, folder)

    def _add(self, service: str, folder: Path) -> None:
        """Add a process. The code location spawns runs, and a run spawns processes that estimate."""
        # The name of the program, before the parenthesis, may have spaces.
        _, parent, *_ = stat = (folder / "stat").read_text().rpartition(")")[2].split()
        spawned = sum("spawn_main" in (each / "cmdline").read_text() for each in (folder, Path("/proc") / parent))
        kind = (service, "run", "estimating")[spawned]
        # An ended process for which its parent has not waited has no memory.
        resident, *_ = re.findall(r"VmRSS:\s+(\d+)", (folder / "status").read_text()) or ["0"]
        self.memory[kind] = max(self.memory[kind], int(resident) >> 10)
        # Fields 14, 15 and 22 of proc(5): the first that is left is field 3.
        self._seconds[kind, f"{folder.name} {stat[19]}"] = (int(stat[11]) + int(stat[12])) / _TICKS


def rehearse(
    cluster: Cluster, states: Sequence[str], caused: Sequence[tuple[str, str, str]] = CAUSED
) -> dict[str, Any]:
    """Launch the release, cause the faults, and compare the publication with one run without partitions.

    Raises AssertionError if a byte differs, if there is not exactly one charge, if a run had ended when it was to be
    killed, or if the launch fails; and TimeoutError or subprocess.TimeoutExpired if it lasts longer than `PATIENCE`.
    """
    declare_states(cluster, states)
    start_all(cluster)
    log_path, began, killed = cluster.root / "launched", time.monotonic(), list[str]()
    with Watch(cluster) as watch, log_path.open("wb") as log, ExitStack() as ended:
        launched = begin_launch(cluster, log, RELEASE)
        ended.callback(launched.kill)
        for fault, of_round, stage in caused:
            # Connections of an instance may be lost.
            with cluster.instance() as instance:
                find = partial(find_state, instance, f"{of_round}__{RELEASE}", stage, killed)
                run = eventually(lambda find=find: find() or launched.poll() is not None, PATIENCE)
                assert launched.poll() is None, log_path.read_text()
                worker = process_of(instance, run)
            _FAULTS[fault](cluster, cluster.root, worker)
            killed += [run] * (fault == KILLED)
        assert launched.wait(PATIENCE) == 0, log_path.read_text()
    seconds = time.monotonic() - began
    with cluster.instance() as instance:
        statuses = [instance.get_run_by_id(run).status.value for run in killed]
    assert statuses == ["FAILURE"] * len(killed)
    charged = rows(cluster, "owner", "SELECT kind FROM stirred.entries ORDER BY sequence")
    assert charged == [("reserve",), ("settle",)]
    found, gates = read_gates(cluster.published)
    expected, others = read_gates(publish_without_partitions(cluster))
    assert (gates - others, others - gates) == (OF_STATES, set())
    differing = [str(path) for path in found.keys() | expected.keys() if found.get(path) != expected.get(path)]
    assert differing == [], differing
    commits = sum(
        int(str(rows(cluster, "runs", "SELECT max(snapshot_id) FROM ducklake_snapshot", f"stirred_{zone}")[0][0]))
        for zone in ("confidential", "public")
    )
    return {
        "states": len(states),
        "faults": len(caused),
        "seconds": round(seconds),
        **time_jobs(cluster),
        "commits": commits,
        "commits a minute": round(60 * commits / seconds, 1),
        "most connections": watch.connections,
        "most MiB of a process": dict(watch.memory),
        "processor seconds": watch.processor,
    }


def read_gates(published: Path) -> tuple[dict[Path, bytes], set[str]]:
    """The published files (see `contents`) without the certificate's list of gates, and the names of these."""
    found = contents(published)
    path = Path(RELEASE) / "certificate.json"
    record = json.loads(found[path])
    gates = {check["name"] for check in record.pop("checks")}
    return found | {path: json.dumps(record).encode()}, gates


def find_state(instance: dg.DagsterInstance, job: str, stage: str, killed: Sequence[str]) -> str:
    """A run of a state by this job whose process runs and has begun the stage, if one is named; empty if there is
    none."""
    step = f"{RELEASE.replace('/', '__')}__{stage}" if stage else ""
    for number, run in enumerate(releases(instance, job), 1):
        with suppress(ValueError):
            runs = run.status.value == "STARTED" and Path(f"/proc/{process_of(instance, run.run_id)}").exists()
            if runs and run.run_id not in killed and begun(instance, number, step, job):
                return run.run_id
    return ""


def time_jobs(cluster: Cluster) -> dict[str, Any]:
    """The seconds of each job, from the first of its runs to the last, and of the runs of each state."""
    name = RELEASE.replace("/", "__")
    rounds = {"measurements": f"{OF_MEASUREMENTS}__{name}", "states": f"{OF_LEVELS}__{name}"}
    jobs = {
        "before states": name,
        "all measurements": rounds["measurements"],
        "levels above": f"{BEFORE}_{OF_LEVELS}__{name}",
        "all states": rounds["states"],
        "publication": f"{PUBLICATION_OF}__{name}",
    }
    figures: dict[str, Any] = {}
    with cluster.instance() as instance:
        for words, job in jobs.items():
            records = instance.get_run_records(dg.RunsFilter(job_name=job))
            times = [(each.start_time, each.end_time) for each in records if each.start_time and each.end_time]
            figures[f"seconds of {words}"] = round(max(end for _, end in times) - min(start for start, _ in times), 1)
            for which, _ in [each for each in rounds.items() if each[1] == job]:
                made = [each for each in records if each.dagster_run.is_success]
                took = [(each.end_time or 0) - (each.start_time or 0) for each in made]
                figures[f"runs of {which}"] = Counter(each.dagster_run.status.value for each in records)
                figures[f"seconds of a run of {which}, median and most"] = [round(median(took), 1), round(max(took), 1)]
    return figures


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.rehearsal", description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, choices=range(1, 9), help="the runs at once")
    parser.add_argument("--states", type=int, default=4, choices=range(2, len(CODES) + 1))
    parser.add_argument("--households", type=int, default=600, help="of all states")
    parser.add_argument("--undisturbed", action="store_true", help="cause no faults")
    chosen = parser.parse_args(arguments)
    # Servers have their own sessions: they must be ended with the rehearsal, or they stay.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="stirred-rehearsal-", ignore_cleanup_errors=True) as folder,
        running_cluster(Path(folder) / "cluster", RELEASE, chosen.households) as cluster,
    ):
        cluster.at_once = chosen.workers
        figures = rehearse(cluster, list(CODES)[: chosen.states], () if chosen.undisturbed else CAUSED)
        print(json.dumps({"workers": chosen.workers, "households": chosen.households, **figures}))


if __name__ == "__main__":
    main(sys.argv[1:])
