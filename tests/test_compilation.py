"""The set-up compiles every kernel for the types that releases use, so that no release waits for the compiler.

These tests cannot find a kernel or an argument type that only other releases than those made here need. The functions
that call kernels therefore fix the types themselves.
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


def run_kernels(cache: Path, *arguments: str) -> list[str]:
    """The output of a separate process that has its cache in this folder."""
    command = [sys.executable, "-m", "tests.kernels", *arguments]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def lacking(cache: Path) -> list[str]:
    """The kernels that the set-up leaves out when it starts with an empty cache."""
    return run_kernels(cache, "set-up")


@pytest.mark.prove
def test_the_set_up_compiles_every_kernel(lacking: list[str]) -> None:
    assert len(kernels(ROOT, "mechanisms")) > 10, "kernels are found"
    assert lacking == []


@pytest.mark.prove
def test_the_set_up_keeps_within_its_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong program: an input of another shape than its kernel's, which corrupts memory and crashes some runs only."""
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    run_kernels(tmp_path, "set-up")


@pytest.mark.prove
def test_after_the_set_up_no_release_compiles_anything(cache: Path, lacking: list[str], tmp_path: Path) -> None:
    """The process that runs the release reports its compilations. Functions compiled by its workers would be in the
    cache."""
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}
    assert before
    assert run_kernels(cache, "releases", str(tmp_path)) == []
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
