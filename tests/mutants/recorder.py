"""A pytest plugin that writes seconds and outcome of each test as JSON: `-p tests.mutants.recorder`."""

import json
import os
from pathlib import Path

import pytest

_tests: dict[str, tuple[float, str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seconds, outcome = _tests.get(report.nodeid, (0.0, "passed"))
    worst = report.outcome if report.outcome == "failed" or outcome == "passed" else outcome
    _tests[report.nodeid] = (seconds + report.duration, worst)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        Path(os.environ["STIRRED_TESTS_RECORD"]).write_text(json.dumps(_tests))
