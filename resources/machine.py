"""The share of the machine that this process may use, which is limited in a container, under a batch system or on
chosen cores."""

import atexit
import gc
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_OWN = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")


def count_cores() -> int:
    """The number of cores that this process may run on, at most the quotas of its control groups, rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _list_groups("cpu"):
        # Without a quota, the files contain the word max, or -1 in the older version.
        with suppress(OSError, ValueError):
            quota, period = map(int, (folder / "cpu.max").read_text().split())
            cores = min(cores, math.ceil(quota / period))
        with suppress(OSError, ValueError):
            quota, period = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
            cores = min(cores, math.ceil(quota / period)) if quota > 0 else cores
    return max(1, cores)


def skip_last_collection() -> None:
    """Let this process end without a search for garbage in all loaded objects: the system frees its memory anyway."""
    atexit.register(gc.freeze)


def count_memory() -> int:
    """The bytes of memory of this machine, at most the limits of this process' control groups."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for folder in _list_groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                memory = min(memory, int((folder / name).read_text()))
    return memory


def _list_groups(controller: str) -> Iterator[Path]:
    """The folders of this process' control groups and of those that contain them, in either version of the kernel's
    interface. Inside a container, the root is the container's own group."""
    yield from (_ROOT, _ROOT / controller)
    with suppress(OSError):
        for line in _OWN.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            root = _ROOT / controller if controller in controllers.split(",") else _ROOT
            if controllers and root == _ROOT:
                continue
            own = Path(path.lstrip("/"))
            yield from (root / group for group in (own, *own.parents))
