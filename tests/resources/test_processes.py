"""The pool of processes where a run and one of its processes are ended together, as by a signal to their group."""

import importlib
import os
import signal
import sys
import threading
import time
from contextlib import closing
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import pytest

from resources.processes import Stopped, in_processes, in_threads


def name_process(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def name_processes() -> None:
    results = in_processes(name_process, iter(repeat(0.5, 8)), 2)
    next(results)
    sys.exit()


def count_threads_of_numpy(_: object) -> int:
    threads = Path("/proc/self/task")
    before = set(threads.iterdir())
    importlib.import_module("numpy")
    return len(set(threads.iterdir()) - before)


@pytest.mark.deep
def test_a_process_that_was_started_by_another_one_ends_with_its_pool(capfd: pytest.CaptureFixture[str]) -> None:
    """As in a run that Dagster's server starts or in a step of a benchmark, while tasks wait. Fails for a pool that
    ends with the interpreter, because multiprocessing waits for the pool's processes first. Also fails if unused
    results submit to the pool after its end."""
    run = get_context("spawn").Process(target=name_processes)
    run.start()
    run.join(timeout=60)
    run.kill()
    assert run.exitcode == 0
    assert capfd.readouterr().err == ""


def test_threads_begin_no_task_after_one_has_failed() -> None:
    """Wrong program: all tasks that were read in advance are worked on first, as at the end of an executor's block."""
    begun = []

    def work(task: int, stopped: Stopped) -> None:
        begun.append(task)
        time.sleep(0.2 * task)
        if not task:
            raise ValueError(task)

    with pytest.raises(ValueError, match="0"):
        list(in_threads(work, iter(range(9)), 2))
    assert set(begun) <= {0, 1, 2}


@pytest.mark.parametrize("tasks", [8, 2])
def test_a_failing_thread_stops_the_others(tasks: int) -> None:
    """Wrong program: notices an error only when its result is due, after tasks that run until they are told to stop."""
    stopped_early = []

    def work(task: int, stopped: Stopped) -> None:
        if task == 1:
            raise ValueError("wrong")
        while not stopped():
            time.sleep(0.01)
        stopped_early.append(task)

    with pytest.raises(ValueError, match="wrong"):
        list(in_threads(work, range(tasks), 2))
    assert 0 in stopped_early


def test_threads_whose_results_are_no_longer_taken_stop() -> None:
    """Wrong program: waits on closing for tasks that run until they are told to stop."""

    def work(task: int, stopped: Stopped) -> int:
        while task and not stopped():
            time.sleep(0.01)
        return task

    with closing(in_threads(work, range(8), 2)) as results:
        assert next(results) == 0


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_run_that_is_interrupted_while_a_process_is_killed_ends_and_the_next_one_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fails for: a wait for all tasks. In Python 3.11, the pool's thread ends where it finds a cancelled one, so that
    those under way never end. On several cores also for processes in which NumPy starts threads."""
    results = in_processes(name_process, iter([0.0, *repeat(60.0, 7)]), 2)
    victim = next(results)
    ended = threading.Thread(target=results.close, daemon=True)
    ended.start()
    time.sleep(0.5)
    os.kill(victim, signal.SIGKILL)
    ended.join(timeout=30)
    assert not ended.is_alive()
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    with closing(in_processes(count_threads_of_numpy, iter(range(2)), 2)) as again:
        assert list(again) == [0, 0]
