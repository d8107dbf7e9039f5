"""A folder that appears in its place whole, or not at all.

Here belongs moving a finished publication into place, whatever happens meanwhile. What is in it belongs
elsewhere.

Beside the target stand, for a moment, two folders: `.<name>.arriving`, which is always worth nothing and may
be thrown away, and `.<name>.leaving`, which is always a whole publication. A process that was killed leaves
them, and the next one to come puts them right. One process at a time works in the target's parent folder.

A publication is for everyone, so its files and folders get modes that let everyone read it: a process that opens
the warehouse creates files for their owner alone. To keep publications back, close a folder above them.
"""

import fcntl
import filecmp
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resources.custody import flush_folder


@contextmanager
def placed(target: Path) -> Iterator[Path]:
    """A folder to write a publication into, moved to `target` when the block ends.

    A target with the very same files is left untouched; any other is replaced. If the block raises, or the
    move fails, the target stays as it was. A process killed between taking the old publication away and
    putting the new one in its place leaves the old one aside; entering again restores it first.

    What is placed, and parents that are made, everyone can read (0644, folders 0755), whatever the umask is.

    Args:
        target: the publication's folder; parents are made as needed. Another entry for a target in the same
            parent waits until this one ends.

    Raises:
        FileExistsError: if the target exists and is not a folder.
    """
    _make_public(target.parent)
    with _alone_in(target.parent):
        _recover(target)
        if target.exists() and not target.is_dir():
            raise FileExistsError(f"{target} is in the way: a publication is a folder")
        arriving = _arriving(target)
        try:
            arriving.mkdir()
            yield arriving
            if not _same(arriving, target):
                _open_to_all(arriving)
                _flush(arriving)
                _replace(arriving, target)
        finally:
            _recover(target)


def _arriving(target: Path) -> Path:
    return target.with_name(f".{target.name}.arriving")


def _leaving(target: Path) -> Path:
    return target.with_name(f".{target.name}.leaving")


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel lets go when the process ends, however it ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _recover(target: Path) -> None:
    """Put back what was on its way out with nothing in its place; throw away all else that is left."""
    arriving, leaving = _arriving(target), _leaving(target)
    if leaving.exists() and not target.exists():
        leaving.rename(target)
    _discard(arriving)
    if leaving.exists():
        # Half removed under its own name, it could later be taken for a whole publication.
        leaving.rename(arriving)
        _discard(arriving)
    flush_folder(target.parent)


def _make_public(folder: Path) -> None:
    if not folder.is_dir():
        _make_public(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def _open_to_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _discard(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _replace(arriving: Path, target: Path) -> None:
    if target.exists():
        target.rename(_leaving(target))
    arriving.rename(target)
    flush_folder(target.parent)


def _same(first: Path, second: Path) -> bool:
    if not second.exists():
        return False
    names = _files(first)
    return names == _files(second) and all(filecmp.cmp(first / name, second / name, shallow=False) for name in names)


def _files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())


def _flush(folder: Path) -> None:
    """Make a folder's files and names durable, before anything gives way to them."""
    for path in folder.rglob("*"):
        if path.is_dir():
            flush_folder(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    flush_folder(folder)
