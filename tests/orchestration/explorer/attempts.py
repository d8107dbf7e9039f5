"""Attempts of an explorer page to read forbidden files. Tests run them in the confined process.

Each attempt has a name, and answers either its result, or "refused" with the kind of error.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb


def attempts(secrets: dict[str, str], allowed: dict[str, str], temporary: str) -> dict[str, str]:
    """Try everything. `secrets` and `allowed` are paths by name; databases end with .duckdb."""
    found: dict[str, str] = {}

    def attempt(name: str, what: Callable[[], Any]) -> None:
        try:
            found[name] = f"got {what()!r}"
        except (OSError, duckdb.Error, KeyError) as error:
            found[name] = f"refused: {type(error).__name__}"

    for name, path in secrets.items():
        folder = str(Path(path).parent)
        attempt(f"open {name}", lambda path=path: Path(path).read_bytes()[:4])
        attempt(f"os.open {name}", lambda path=path: os.read(os.open(path, os.O_RDONLY), 4))
        attempt(f"write {name}", lambda path=path: os.open(path, os.O_WRONLY))
        attempt(f"list beside {name}", lambda folder=folder: list(os.scandir(folder)))
        attempt(f"link {name}", lambda path=path: os.link(path, Path(temporary) / "linked"))
        # The link itself can be made, but does not lead there.
        attempt(f"symbolic link to {name}", lambda path=path: _through_link(path, temporary))
        attempt(f"as text {name}", lambda path=path: duckdb.connect().execute(f"FROM read_text('{path}')").fetchall())
        if path.endswith(".duckdb"):
            attempt(f"connect {name}", lambda path=path: duckdb.connect(path, read_only=True).execute("SHOW TABLES"))
            attempt(f"attach {name}", lambda path=path: duckdb.connect().execute(f"ATTACH '{path}' (READ_ONLY)"))
    attempt("environment of the launcher", lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()[:4])
    attempt("master key in the environment", lambda: os.environ["STIRRED_MASTER_KEY"])
    attempt("master key in its first environment", lambda: _key_in(Path("/proc/self/environ").read_bytes()))
    attempt("write beside the databases", lambda: (Path(allowed["public"]).parent / "new").write_text(""))
    attempt("connect to a server", lambda: socket.create_connection(("127.0.0.1", int(allowed["port"])), 2))
    attempt("signal the launcher", lambda: os.kill(os.getppid(), 0))
    attempt("ask another process by its socket", lambda: _ask(allowed["socket"]))
    attempt("ask another process by a socket of a pair", lambda: _send_by_pair(allowed["socket"]))
    attempt("allowed for asyncio", lambda: [each.close() for each in socket.socketpair()])
    attempt("allowed for Streamlit", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close())
    attempt("connect in another protocol", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, MULTIPATH))
    attempt("allowed to listen", lambda: socket.create_server(("127.0.0.1", int(allowed["own port"]))).close())
    for name, path in allowed.items():
        if path.endswith(".duckdb"):
            attempt(f"allowed {name}", lambda path=path: _tables(path))
        elif name not in ("port", "own port", "socket"):
            attempt(f"allowed {name}", lambda path=path: Path(path).read_bytes()[:4])
    return found


MULTIPATH = 262
"""A protocol of streams that rules about TCP connections do not count as TCP."""


def _ask(path: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(path)
        return other.recv(4)


def _send_by_pair(path: str) -> int:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        return one.sendto(b"ask", f"{path}.datagrams")


def _tables(path: str) -> list[Any]:
    with duckdb.connect(path, read_only=True) as connection:
        return connection.execute("SHOW TABLES").fetchall()


def _through_link(path: str, temporary: str) -> bytes:
    link = Path(temporary) / "symbolic"
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    return link.read_bytes()[:4]


def _key_in(environment: bytes) -> bytes:
    if b"STIRRED_MASTER_KEY" not in environment:
        raise KeyError("STIRRED_MASTER_KEY")
    return environment[:4]
