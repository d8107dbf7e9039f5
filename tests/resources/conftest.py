"""Processes for the tests of custody, ledger and warehouse: see `processes.py`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROCESSES = Path(__file__).with_name("processes.py")


@pytest.fixture(scope="session")
def processes() -> Iterator[Callable[..., list[Any]]]:
    """One server, which imports everything once, starts a process for each request."""
    arguments = [sys.executable, PROCESSES]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    own_keys = {name: value for name, value in os.environ.items() if not name.startswith("STIRRED")}
    with subprocess.Popen(arguments, env=own_keys, **pipes) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        requests, answers = server.stdin, server.stdout

        def ask(*request: Any) -> list[Any]:
            requests.write(json.dumps(request, default=str) + "\n")
            requests.flush()
            ended, found = json.loads(answers.readline())
            assert ended == 0, "see what it printed"
            return found

        yield ask
        requests.close()
