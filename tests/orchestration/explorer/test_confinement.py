"""The explorer's process cannot open the confidential database, a key or a source file for any user."""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from orchestration.explorer import launcher
from orchestration.explorer.launcher import ExplorerError, explore, find_port, list_left_out, make_environment
from orchestration.explorer.process import list_flags
from orchestration.explorer.settings import Settings
from resources.confinement import exclude, find_landlock_version

SECRET = "secret, and known to nobody"
ROOT = Path(__file__).resolve().parents[3]
ATTEMPTS = Path(__file__).with_name("attempts.py")

CONFINED = """
import json, sys
from pathlib import Path
from resources import confinement
from orchestration.explorer.process import list_readable
from orchestration.explorer.settings import read_settings
known, given = read_settings(), json.loads(sys.argv[1])
attempts = Path(given["attempts"]).read_text()
if given["python"]:
    confinement.find_landlock_version = lambda: 0
left_out = [Path(each) for each in known.left_out]
words = confinement.confine(list_readable(known), [Path(known.temporary)], left_out, known.port)
exec(attempts)
print(json.dumps([words, attempts(given["secrets"], given["allowed"], known.temporary)]))
"""


@pytest.fixture
def deployment(tmp_path: Path) -> tuple[Settings, dict[str, str], dict[str, str]]:
    """The files of a deployment: settings, and by name the paths that must and must not be opened."""
    home = tmp_path / "var"
    for folder in ("var/warehouse", "var/custody/ephemeral", "published/a/b", "temporary", "dagster"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("public", "confidential", "ledger"):
        with duckdb.connect(str(home / "warehouse" / f"{name}.duckdb")) as connection:
            connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    secrets = {
        "key": home / "custody" / "master.key",
        "ephemeral key": home / "custody" / "ephemeral" / "draw.key",
        "anchor": home / "custody" / "ledger.anchor",
        "source": tmp_path / "source.csv",
        "event log": tmp_path / "dagster" / "runs.db",
    }
    for path in secrets.values():
        path.write_text(SECRET)
    (tmp_path / "published" / "a" / "b" / "table.csv").write_text("a\n1\n")
    secrets["confidential"] = home / "warehouse" / "confidential.duckdb"
    allowed = {
        "public": home / "warehouse" / "public.duckdb",
        "ledger": home / "warehouse" / "ledger.duckdb",
        "published": tmp_path / "published" / "a" / "b" / "table.csv",
    }
    known = Settings(
        home=str(home),
        published=str(tmp_path / "published"),
        temporary=str(tmp_path / "temporary"),
        boundaries="",
        left_out=(str(home), str(tmp_path / "dagster"), str(tmp_path / "source.csv")),
        port=find_port(0),
    )
    return (
        known,
        {name: str(path) for name, path in secrets.items()},
        {name: str(path) for name, path in allowed.items()},
    )


def tried(
    deployment: tuple[Settings, dict[str, str], dict[str, str]], *, python: bool = False
) -> tuple[str, dict[str, str]]:
    """The answers of a confined process: about itself, and about each attempt."""
    known, secrets, allowed = deployment
    by_name = str(Path(known.temporary) / "socket")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(by_name, family=socket.AF_UNIX) as local,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as of_datagrams,
    ):
        of_datagrams.bind(f"{by_name}.datagrams")
        threading.Thread(target=_answer, args=[local], daemon=True).start()
        allowed = {**allowed, "port": str(server.getsockname()[1]), "own port": str(known.port), "socket": by_name}
        given = json.dumps({"secrets": secrets, "allowed": allowed, "python": python, "attempts": str(ATTEMPTS)})
        done = subprocess.run(
            [sys.executable, "-c", CONFINED, given],
            env={**make_environment(known), "PYTHONPATH": str(ROOT)},
            cwd=known.temporary,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    words, found = json.loads(done.stdout.splitlines()[-1])
    return words, found


def _answer(local: socket.socket) -> None:
    with suppress(OSError):
        local.settimeout(60)
        asked, _ = local.accept()
        asked.sendall(SECRET.encode())
        asked.close()


@pytest.mark.skipif(not find_landlock_version(), reason="this kernel has no Landlock")
def test_the_kernel_refuses_every_way_to_what_is_not_public(
    deployment: tuple[Settings, dict[str, str], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STIRRED_MASTER_KEY", "0" * 64)
    words, found = tried(deployment)
    assert words.startswith("The Linux kernel refuses")
    got = {name for name, answer in found.items() if answer.startswith("got")}
    files = {"allowed public", "allowed ledger", "allowed published"}
    signals = {"signal the launcher"} if find_landlock_version() < 6 else set()
    assert got == files | signals | {"allowed to listen", "allowed for Streamlit", "allowed for asyncio"}
    assert len(found) > 40, "the attempts themselves were made"


def test_without_landlock_python_refuses_these_files_and_the_page_says_so(
    deployment: tuple[Settings, dict[str, str], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STIRRED_MASTER_KEY", "0" * 64)
    words, found = tried(deployment, python=True)
    assert words.startswith("This system has no Landlock")
    assert "not against code that means to get around it" in words
    for name, answer in found.items():
        # DuckDB opens files past Python. Only the kernel refuses those, and the names in a source file's folder.
        if name == "list beside source":
            continue
        if name.split()[0] in ("open", "os.open", "write", "list", "symbolic", "link") or name.startswith("master key"):
            assert answer.startswith("refused"), name
        if name == "connect to a server":
            assert answer.startswith("refused")
        if name.startswith("allowed"):
            assert answer.startswith("got"), name


def test_what_is_left_out_is_in_no_allowed_folder(tmp_path: Path) -> None:
    for folder in ("code/a", "code/var/warehouse", "code/b/deep/secret", "other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "code" / "module.py").touch()
    (tmp_path / "code" / "a" / "link").symlink_to(tmp_path / "code" / "var")
    (tmp_path / "code" / "shortcut").symlink_to(tmp_path / "code" / "var")
    out = [tmp_path / "code" / "var", tmp_path / "code" / "b" / "deep" / "secret"]
    found = exclude([tmp_path / "code", tmp_path / "other"], out)
    assert set(found) == {tmp_path / "code" / "a", tmp_path / "code" / "module.py", tmp_path / "other"}
    assert exclude([tmp_path / "code" / "var" / "warehouse"], out) == []
    assert exclude([tmp_path / "other"], [tmp_path]) == []


def test_the_process_gets_neither_the_master_key_nor_credentials_nor_settings_of_streamlit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It fails for an environment that removes the known secrets and passes on the rest."""
    secrets = (
        "STIRRED_MASTER_KEY",
        "PGPASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "GH_TOKEN",
        "OF_OTHERS",
    )
    for name in (*secrets, "DAGSTER_HOME", "STREAMLIT_SERVER_ADDRESS", "LISTED_PASSWORD"):
        monkeypatch.setenv(name, "0" * 64)
    monkeypatch.setenv("STIRRED_DECLARATION_VARIABLES", "FOLDER, LISTED_PASSWORD, AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("FOLDER", "/data")
    known = Settings(str(tmp_path), str(tmp_path), str(tmp_path), "", (), 1)
    given = make_environment(known)
    assert "0" * 64 not in given.values()
    assert given["HOME"] == str(tmp_path), "no user's file of settings is found"
    assert given["FOLDER"] == "/data", "declarations can be read"


def test_deployments_own_folders_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    monkeypatch.setenv("STIRRED_SPILL_FOLDER", str(tmp_path / "spill"))
    assert list_left_out(tmp_path / "var", []) == [tmp_path / "var", tmp_path / "dagster", tmp_path / "spill"]


@pytest.mark.parametrize("host", ["*", "*.example", "", "a:80", "a/b", "user@a", "a b", "é"])
def test_only_the_name_of_a_host_is_taken_for_one(tmp_path: Path, host: str) -> None:
    with pytest.raises(ExplorerError, match="is not the name of a host"):
        explore(tmp_path / "var", tmp_path, [], dict, 0, None, print, browser=False, hosts=[host])


def test_publications_around_the_databases_are_refused(tmp_path: Path) -> None:
    """The whole folder of publications is readable, so that later publications can be read."""
    for home in (tmp_path / "var", tmp_path):
        with pytest.raises(ExplorerError, match="which the explorer must not open"):
            explore(home, tmp_path, [], dict, 0, None, print, browser=False)


def test_streamlit_listens_to_this_machine_alone_and_reports_nothing() -> None:
    given = list_flags(Settings("", "", "", "", (), 8600, ("explorer.example",)))
    pairs = dict(zip(given[::2], given[1::2], strict=True))
    assert pairs["--server.address"] == "127.0.0.1"
    hosts = [value for name, value in zip(given[::2], given[1::2], strict=True) if name == "--server.allowedHosts"]
    assert hosts == ["127.0.0.1", "localhost", "explorer.example"], "any other name is refused"
    assert pairs["--browser.gatherUsageStats"] == "false"
    assert pairs["--server.fileWatcherType"] == "none"
    assert pairs["--server.enableStaticServing"] == "false"
    assert pairs["--server.enableXsrfProtection"] == "true"
    assert pairs["--client.toolbarMode"] == "minimal"
    assert os.environ.get("STREAMLIT_SERVER_PORT") is None


def test_a_replaced_folder_of_programs_starts_the_process_again(
    deployment: tuple[Settings, dict[str, str], dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule belongs to the folder that had the name: without a new process, every page would fail."""
    monkeypatch.setattr(launcher, "PROGRAMS", [tmp_path / "program"])
    monkeypatch.setattr(launcher, "_BETWEEN_LOOKS", 0.01)
    looks = 0

    class Process:
        def poll(self) -> int | None:
            nonlocal looks
            looks += 1
            if looks == 2:
                (tmp_path / "program").rename(tmp_path / "old")
                (tmp_path / "program").mkdir()
            return None if looks < 100 else 1

    (tmp_path / "program").mkdir()
    launcher._wait_until_files_change(deployment[0], Process(), dict)  # type: ignore[arg-type]
    assert looks == 2
