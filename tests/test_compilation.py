"""The set-up compiles every kernel for what releases give it, so that no release waits for the compiler.

Which wrong set-up would still pass? One that lacks a kernel, or an argument's type, which only a release unlike those
made here needs; functions that run kernels therefore fix the types by themselves.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import ROOT, compilations, kernels, uncompiled

KERNELS = """
from numba import njit, vectorize

@njit(cache=True)
def called(x): return x + 1

@njit
def forgotten(x): return x + 2

@vectorize
def forgotten_too(x): return x + 3
"""


def told(cache: Path, *arguments: str) -> list[str]:
    """What a process of its own prints, with its cache in this folder."""
    command = [sys.executable, "-m", "tests.kernels", *arguments]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def lacking(cache: Path) -> list[str]:
    """What the set-up leaves out, with nothing compiled before."""
    return told(cache, "set-up")


def test_the_set_up_compiles_every_kernel(lacking: list[str]) -> None:
    assert len(kernels(ROOT, "mechanisms")) > 10, "kernels are found"
    assert lacking == []


def test_after_the_set_up_no_release_compiles_anything(cache: Path, lacking: list[str], tmp_path: Path) -> None:
    """The process that runs the release says so itself; its workers would leave what they compile in the cache."""
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}
    assert before
    assert told(cache, "releases", str(tmp_path)) == []
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")} == before


def test_a_kernel_that_was_left_out_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "newcomers").mkdir()
    (tmp_path / "newcomers" / "arithmetic.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(tmp_path)
    found = kernels(tmp_path, "newcomers")
    with compilations() as names:
        assert found["newcomers.arithmetic.called"](1) == 2
    assert names == ["newcomers.arithmetic.called"]
    with compilations() as names:
        assert found["newcomers.arithmetic.called"](1) == 2
    assert names == []
    with compilations() as names:
        assert found["newcomers.arithmetic.called"](1.0) == 2.0
    assert names == ["newcomers.arithmetic.called"], "for another type it is compiled again"
    assert uncompiled(found) == ["newcomers.arithmetic.forgotten", "newcomers.arithmetic.forgotten_too"]
