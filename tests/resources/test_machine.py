"""Cores and memory are those of the control groups of this process, in a container and under a batch system.

The wrong program that this finds counts the cores of the whole machine: 64 processes in a container of two cores."""

import os
import re
from pathlib import Path

import pytest

from resources import machine
from resources.machine import count_cores, count_memory

CORES, MEMORY = len(os.sched_getaffinity(0)), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("own", "files", "cores", "memory"),
    [
        ("0::/", {}, CORES, MEMORY),
        ("0::/", {"cpu.max": "max 100000", "memory.max": "max"}, CORES, MEMORY),
        ("0::/", {"cpu.max": "100000 100000", "memory.max": "1048576"}, 1, 2**20),
        ("0::/", {"cpu.max": "10000 100000"}, 1, MEMORY),
        ("0::/", {"cpu.max": f"{CORES * 200_000} 100000"}, CORES, MEMORY),
        # Of a job's step, the job has the limit.
        ("0::/slurm/job_1/step_0", {"slurm/job_1/cpu.max": "50000 50000", "slurm/job_1/memory.max": "99"}, 1, 99),
        # The older version; another group's limits do not count.
        (
            "5:cpu,cpuacct:/docker/a\n4:memory:/docker/a",
            {
                "cpu/docker/a/cpu.cfs_quota_us": "150000",
                "cpu/docker/a/cpu.cfs_period_us": "150000",
                "memory/docker/a/memory.limit_in_bytes": "77",
                "memory/docker/b/memory.limit_in_bytes": "7",
            },
            1,
            77,
        ),
        ("5:cpu:/a", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, CORES, MEMORY),
    ],
)  # fmt: skip
def test_limits_of_the_control_groups_count(
    own: str, files: dict[str, str], cores: int, memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "groups"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    (tmp_path / "own").write_text(f"{own}\n")
    monkeypatch.setattr(machine, "_ROOT", root)
    monkeypatch.setattr(machine, "_OWN", tmp_path / "own")
    assert (count_cores(), count_memory()) == (cores, memory)


def test_without_control_groups_all_cores_of_this_process_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_ROOT", tmp_path / "missing")
    monkeypatch.setattr(machine, "_OWN", tmp_path / "missing")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert (count_cores(), count_memory()) == (1, MEMORY)


def test_nothing_else_counts_cores() -> None:
    """Nor are the pools made that count them by themselves, so that plan and run agree."""
    counted = re.compile(r"\.cpu_count\(|sched_getaffinity\(|PoolExecutor\(\)|[^_]Pool\(\)")
    root = Path(machine.__file__).parents[1]
    modules = [
        path
        for name in ("mechanisms", "assets", "resources", "orchestration", "stirred")
        for path in (root / name).rglob("*.py")
    ]
    assert len(modules) > 100
    assert [path.name for path in modules if counted.search(path.read_text())] == ["machine.py"]
