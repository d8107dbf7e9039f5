"""A guard that keeps a test's servers from outliving the test, even if it is killed with -9.

Servers have sessions of their own, and PostgreSQL has no parent. So a process waits for the end of the test's, and then
kills every process that was started with its mark in the environment.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock
from uuid import uuid4

MARK = "GUARD_OF_TESTS"
"""The variable with the mark of the guard."""

_ENDED = b"ended"


@contextmanager
def guard() -> Iterator[None]:
    """Kill all processes that are started in the block with this process's `MARK` if this process ends before the
    block."""
    mark = uuid4().hex
    with subprocess.Popen([sys.executable, __file__, mark], stdin=subprocess.PIPE, start_new_session=True) as guarding:
        try:
            with mock.patch.dict(os.environ, {MARK: mark}):
                yield
        finally:
            guarding.communicate(_ENDED)


def kill_marked(mark: str) -> None:
    """Kill processes with a mark until none remains."""
    while found := list(_list_marked(mark)):
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _list_marked(mark: str) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        # Others may have ended, or be of another user.
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


if __name__ == "__main__" and sys.stdin.buffer.read() != _ENDED:
    kill_marked(sys.argv[1])
