"""The launcher of the explorer, which chooses the files that the explorer may open, runs its process, and opens a
browser.

The launcher itself is not confined. It gives the process only the variables that it needs, and copies the replays from
Dagster's storage, which the process cannot open. It restarts the process when a database or a folder of the programs
was made or replaced, because a confined process can only open files that existed when it began.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from assets.release.dataset import DatasetDeclaration
from orchestration.environment import list_folder_variables
from orchestration.explorer.process import PROGRAMS
from orchestration.explorer.settings import REPLAYS, VARIABLE, Settings
from resources.project import IMPORTED_FROM, PROJECT

INHERITED = frozenset(
    {
        *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "STIRRED_DEPLOYMENT", "STIRRED_LEDGER"),
        *("STIRRED_PUBLISHED_URL", "STIRRED_DASK", "STIRRED_DECLARATION_VARIABLES"),
    }
)
"""The further variables of the explorer's process, besides the folders that declarations use. None is a secret."""
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*")
COMMAND = ("-m", f"{__package__}.process")
_BETWEEN_LOOKS, _BETWEEN_REPLAYS = 1.0, 30.0
_TO_START = 60.0


class ExplorerError(Exception):
    """The explorer cannot be started. The message gives the reason."""


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
    hosts: Sequence[str] = (),
    public_key: str = "",
) -> None:
    """Serve the explorer until it is interrupted.

    The source files of the declared datasets are never opened. `replays` returns the time and result of the last replay
    of each draw, by draw id; `announce` is called with the address once the page can be opened; `hosts` are names,
    besides this machine's, under which a proxy serves the page; `public_key` is the fingerprint of the key that must
    have signed the publications, if it is known. Raises ExplorerError if a host has an invalid name, the port is taken,
    the folder of publications contains files that must not be opened, or the process ends.
    """
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ExplorerError(f"{host} is not the name of a host, such as explorer.office.example")
    if boundaries is not None and not boundaries.is_dir():
        raise ExplorerError(f"{boundaries} is no folder")
    left_out = list_left_out(home, datasets)
    for path in left_out:
        if path.resolve().is_relative_to(published.resolve()):
            raise ExplorerError(
                f"the folder of publications, {published}, contains {path.name}, which the explorer must not open; "
                "publish to a folder of its own (STIRRED_PUBLISHED)"
            )
    # Ending the launcher ends its process too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with TemporaryDirectory(prefix="stirred-explorer-") as temporary:
        settings = Settings(
            home=str(home),
            published=str(published),
            temporary=temporary,
            boundaries=str(boundaries.absolute()) if boundaries else "",
            left_out=tuple(map(str, left_out)),
            port=find_port(port),
            further_hosts=tuple(hosts),
            public_key=public_key,
        )
        _write_replays(settings, replays)
        address = f"http://127.0.0.1:{settings.port}"
        for start in count():
            with _run_process(settings) as process:
                _wait_for(settings.port, process)
                if not start:
                    announce(address)
                if browser and not start:
                    webbrowser.open(address)
                _wait_until_files_change(settings, process, replays)


def list_left_out(home: Path, datasets: Sequence[DatasetDeclaration]) -> list[Path]:
    """The deployment's own folders and the source files, which the explorer must not open."""
    folders = [os.environ[name] for name in ("DAGSTER_HOME", "STIRRED_SPILL_FOLDER") if name in os.environ]
    files = [path for dataset in datasets for path in dataset.list_files()]
    return [PROJECT / path for path in (home, *map(Path, folders), *map(Path, files))]


def make_environment(settings: Settings) -> dict[str, str]:
    """The environment of the explorer's process: only the variables that it needs, without keys, passwords or settings
    of libraries."""
    inherited = INHERITED.union(list_folder_variables())
    return {name: value for name, value in os.environ.items() if name in inherited} | {
        "HOME": settings.temporary,
        "TMPDIR": settings.temporary,
        "MPLCONFIGDIR": settings.temporary,
        "PYTHONPATH": str(IMPORTED_FROM),
        "STIRRED_PROJECT": str(PROJECT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "STIRRED_HOME": settings.home,
        "STIRRED_PUBLISHED": settings.published,
        VARIABLE: settings.as_text(),
    }


def find_port(port: int) -> int:
    """The port, or a free one for 0. Raises ExplorerError if the port is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ExplorerError(f"port {port}: {error.strerror}; name another one with --port") from None
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _run_process(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-W", "ignore", *COMMAND]
    # Streamlit prints its greeting to the standard output, and errors to the standard error.
    environment = make_environment(settings)
    process = subprocess.Popen(command, cwd=settings.temporary, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _require_running(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        raise ExplorerError(f"its process ended with the exit code {process.returncode}")


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _TO_START
    while time.monotonic() < deadline:
        _require_running(process)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise ExplorerError(f"its process does not answer on port {port}")


def _wait_until_files_change(
    settings: Settings, process: subprocess.Popen[bytes], replays: Callable[[], Mapping[str, str]]
) -> None:
    first, read_at = _identify_files(settings), time.monotonic()
    while _identify_files(settings) == first:
        _require_running(process)
        time.sleep(_BETWEEN_LOOKS)
        if time.monotonic() - read_at > _BETWEEN_REPLAYS:
            _write_replays(settings, replays)
            read_at = time.monotonic()
    # Wait until the replacements are complete.
    changed = None
    while changed != (changed := _identify_files(settings)):
        time.sleep(_BETWEEN_LOOKS)


def _identify_files(settings: Settings) -> list[tuple[int, int] | None]:
    """The device and inode of each database, of the folders and of the programs; None for a missing one."""
    identities: list[tuple[int, int] | None] = []
    for path in (*settings.databases, settings.laboratory, Path(settings.published), *PROGRAMS):
        try:
            status = path.stat()
            identities.append((status.st_dev, status.st_ino))
        except OSError:
            identities.append(None)
    return identities


def _write_replays(settings: Settings, replays: Callable[[], Mapping[str, str]]) -> None:
    """Leave the replays for the process, which never reads an incomplete file."""
    path = Path(settings.temporary) / REPLAYS
    arriving = path.with_suffix(".arriving")
    try:
        recorded = dict(replays())
    except Exception:
        # Dagster's storage may be busy or damaged. The pages then show the earlier replays, or none.
        return
    arriving.write_text(json.dumps(recorded))
    arriving.replace(path)
