"""Folders for DuckDB's spilled data: one for each instance, with the process id in its name.

This module creates and removes the folders, including the folders of killed processes. `warehouse` sets up the
encryption of spilled data. Parts of public tables, which are not encrypted, lie in such folders too.

DuckDB uses the same names for temporary files in every instance, so two that spill into one folder would
overwrite each other's files. No two sessions share a folder, not even two threads of one process.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from resources.storage import WarehouseError

_PREFIX, _LOCK = "stirred-", ".lock"


@contextmanager
def create_spill_folder(base: Path) -> Iterator[Path]:
    """Create a folder inside `base`, with mode 0700, and remove it at the end of the block, even after an error.

    Next to the folder is a file with the same name plus `.lock`. The process holds a lock on it until the folder is
    gone. The kernel releases the lock when a process is killed. A lock that can be acquired therefore belongs to a
    folder that is no longer in use, even if another process has the same process id by now. Entering removes such
    folders first.

    Args:
        base: the parent of such folders; created with mode 0700 if it does not exist. Other users may write to it if it
            has the sticky bit, as `/tmp` has, which keeps them from replacing the files of others.

    Raises:
        OSError: if the folder cannot be created.
        WarehouseError: if other users could replace the folder.
    """
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    _refuse_planted(base)
    mode = base.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        raise WarehouseError(
            f"spill folder {base} can be written by others, who could replace its content (chmod go-w, or chmod +t); "
            f"its mode is {stat.S_IMODE(mode):04o}"
        )
    sweep(base)
    lock, descriptor = _lock_in(base)
    try:
        folder = _find_folder(lock)
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        _remove(lock)
        os.close(descriptor)


def _refuse_planted(base: Path) -> None:
    """Refuse a folder whose path has a folder or link that another user made in a place that other users can write,
    such as `/tmp`: the owner of a folder can replace its content, even with the sticky bit."""
    for way in (base.absolute(), base.resolve()):
        for place in (way, *way.parents):
            everyones = place.parent.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if everyones and place.lstat().st_uid not in (0, os.geteuid()):
                raise WarehouseError(
                    f"spill folder {base}: {place} belongs to somebody else, who could replace its content; remove it, "
                    "or name another spill folder"
                )


def sweep(base: Path) -> None:
    """Remove the folders inside `base` of killed processes. `base` need not exist."""
    for lock in base.glob(f"{_PREFIX}*{_LOCK}"):
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            # Another process has just removed it, or it belongs to another user.
            continue
        try:
            # Otherwise, another user's lock beside a folder of this user, such as `stirred-data`, would have the folder
            # removed.
            if os.fstat(descriptor).st_uid == os.geteuid() and _try_lock(descriptor):
                _remove(lock)
        finally:
            os.close(descriptor)


def _lock_in(base: Path) -> tuple[Path, int]:
    while True:
        lock = base / f"{_PREFIX}{os.getpid()}-{token_hex(8)}{_LOCK}"
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if _try_lock(descriptor) and os.fstat(descriptor).st_nlink:
            return lock, descriptor
        # Another process removed it before it was locked.
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(lock: Path) -> None:
    """Remove a folder, then its lock file. The next sweep removes what remains."""
    folder = _find_folder(lock)
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        lock.unlink(missing_ok=True)


def _find_folder(lock: Path) -> Path:
    return lock.with_name(lock.name.removesuffix(_LOCK))
