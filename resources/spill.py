"""Folders for what DuckDB spills: one a session, with the process's number in its name.

Covers making them, removing them, and sweeping those of processes that were killed. What is spilled, and how it is
encrypted, is the matter of `warehouse`.

DuckDB names its temporary files alike in every session, and two sessions that spill into one folder overwrite each
other's files. So no two sessions share one, not even two threads of one process.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

_PREFIX, _LOCK = "stirred-", ".lock"


@contextmanager
def spill_folder(base: Path) -> Iterator[Path]:
    """A new folder inside `base`, with mode 0700, that is removed when the block ends, however it ends.

    Beside it lies a file of the same name that ends in `.lock`. The process holds a lock on it until the folder is
    gone. The kernel releases the lock of a process that was killed, so a lock that can be had belongs to a folder
    that nobody uses any more, whoever has the number of its process now. Entering removes such folders first.

    Args:
        base: where such folders lie; made with mode 0700 if it is not there. Others may write to it.

    Raises:
        OSError: if the folder cannot be made.
    """
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    _sweep(base)
    lock, descriptor = _lock_in(base)
    try:
        folder = _of(lock)
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        _remove(lock)
        os.close(descriptor)


def _sweep(base: Path) -> None:
    for lock in base.glob(f"{_PREFIX}*{_LOCK}"):
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            # It has just been removed, or it is another user's.
            continue
        try:
            if _held(descriptor):
                _remove(lock)
        finally:
            os.close(descriptor)


def _lock_in(base: Path) -> tuple[Path, int]:
    """A new lock file, and the descriptor that holds its lock."""
    while True:
        lock = base / f"{_PREFIX}{os.getpid()}-{token_hex(8)}{_LOCK}"
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if _held(descriptor) and os.fstat(descriptor).st_nlink:
            return lock, descriptor
        # Another process swept it before it was locked.
        os.close(descriptor)


def _held(descriptor: int) -> bool:
    """Take a lock if nobody has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(lock: Path) -> None:
    """Remove a folder, then its lock file: what cannot be removed now is left to the next sweep."""
    folder = _of(lock)
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        lock.unlink(missing_ok=True)


def _of(lock: Path) -> Path:
    return lock.with_name(lock.name.removesuffix(_LOCK))
