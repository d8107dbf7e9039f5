"""Starts the explorer: chooses what it may open, runs its process, and opens a browser on it.

The launcher itself is not confined. It leaves the master key out of the environment of the process, tells it what
Dagster recorded of replays, whose storage the process cannot open, and starts it again when a database was made or
replaced, because a confined process can only open the files that were there when it began.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from assets.release.dataset import DatasetDeclaration
from orchestration.environment import PROJECT
from orchestration.explorer.settings import REPLAYS, VARIABLE, Settings

MASTER_KEY = "STIRRED_MASTER_KEY"
COMMAND = ("-m", "orchestration.explorer.process")
_BETWEEN_LOOKS, _BETWEEN_REPLAYS = 1.0, 30.0
_TO_START = 60.0


class ExplorerError(Exception):
    """The explorer cannot be started. The message says why."""


def explore(
    home: Path,
    published: Path,
    datasets: Sequence[DatasetDeclaration],
    replays: Callable[[], Mapping[str, str]],
    port: int,
    boundaries: Path | None,
    announce: Callable[[str], None],
    *,
    browser: bool,
) -> None:
    """Serve the explorer until it is interrupted.

    Args:
        datasets: the declared datasets, whose source files the explorer must not open.
        replays: by draw id, when it was last replayed and with which result.
        boundaries: a folder with GeoJSON files, if there is one.
        announce: called with the address once the page can be opened.
        browser: whether to open a browser on it.

    Raises:
        ExplorerError: if the port is taken, the folder of publications contains what must not be opened, or the
            process ends.
    """
    if boundaries is not None and not boundaries.is_dir():
        raise ExplorerError(f"{boundaries} is no folder")
    for path in list_left_out(home, datasets):
        if path.resolve().is_relative_to(published.resolve()):
            raise ExplorerError(
                f"the folder of publications, {published}, contains {path}, which the explorer must not open; publish "
                "to a folder of its own (STIRRED_PUBLISHED)"
            )
    # Whoever ends the launcher ends its process too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with TemporaryDirectory(prefix="stirred-explorer-") as temporary:
        known = Settings(
            home=str(home),
            published=str(published),
            temporary=temporary,
            boundaries=str(boundaries.absolute()) if boundaries else "",
            left_out=tuple(map(str, list_left_out(home, datasets))),
            port=find_port(port),
        )
        _write_replays(known, replays)
        address, announced = f"http://127.0.0.1:{known.port}", False
        while True:
            with _process(known) as process:
                _wait_for(known.port, process)
                if not announced:
                    announce(address)
                    announced = True
                    if browser:
                        webbrowser.open(address)
                _until_databases_change(known, process, replays)


def list_left_out(home: Path, datasets: Sequence[DatasetDeclaration]) -> list[Path]:
    """What the explorer must not open: all of the deployment's own folders, and the source files."""
    folders = [
        home,
        *(Path(os.environ[name]) for name in ("DAGSTER_HOME", "STIRRED_SPILL_FOLDER") if name in os.environ),
    ]
    files = [
        path
        for dataset in datasets
        for table in dataset.tables.values()
        for path in (table.path, table.geography_path)
        if path is not None
    ]
    return [PROJECT / path for path in [*folders, *map(Path, files)]]


def make_environment(known: Settings) -> dict[str, str]:
    """The environment of the explorer's process: without the master key, credentials and settings of Streamlit."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in (MASTER_KEY, "DAGSTER_HOME") and not name.startswith(("STREAMLIT_", "PG"))
    }
    return kept | {
        "HOME": known.temporary,
        "TMPDIR": known.temporary,
        "MPLCONFIGDIR": known.temporary,
        "PYTHONPATH": str(PROJECT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "STIRRED_HOME": known.home,
        "STIRRED_PUBLISHED": known.published,
        VARIABLE: known.as_text(),
    }


def find_port(port: int) -> int:
    """The port, or any free one for 0. Raises ExplorerError if it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ExplorerError(f"port {port}: {error.strerror}; name another one with --port") from None
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _process(known: Settings) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-W", "ignore", *COMMAND]
    # Streamlit greets on its standard output. What goes wrong is written to the other one.
    process = subprocess.Popen(command, cwd=known.temporary, env=make_environment(known), stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _TO_START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ExplorerError(f"its process ended with the exit code {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise ExplorerError(f"its process does not answer on port {port}")


def _until_databases_change(
    known: Settings, process: subprocess.Popen[bytes], replays: Callable[[], Mapping[str, str]]
) -> None:
    began, read_at = _identities(known), time.monotonic()
    while _identities(known) == began:
        if process.poll() is not None:
            raise ExplorerError(f"its process ended with the exit code {process.returncode}")
        time.sleep(_BETWEEN_LOOKS)
        if time.monotonic() - read_at > _BETWEEN_REPLAYS:
            _write_replays(known, replays)
            read_at = time.monotonic()


def _identities(known: Settings) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for path in (*known.databases, Path(known.published)):
        try:
            status = path.stat()
            found.append((status.st_dev, status.st_ino))
        except OSError:
            found.append(None)
    return found


def _write_replays(known: Settings, replays: Callable[[], Mapping[str, str]]) -> None:
    """Leave the replays for the process. It never reads half a file."""
    path = Path(known.temporary) / REPLAYS
    arriving = path.with_suffix(".arriving")
    try:
        found = replays()
    except Exception:
        # Dagster's storage may be busy or damaged. The pages then show what was known before, or nothing.
        return
    arriving.write_text(json.dumps(dict(found)))
    arriving.replace(path)
