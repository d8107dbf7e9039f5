"""The atomic placement of a publication's folder, and of the files beside all folders. `listing` makes the content of
these files.

Earlier editions of a publication are in its folder, under `editions/`, and are placed together with it. Their files are
linked, not copied, because they are never written again.

A publication is written and signed in a private folder, so that other users cannot replace the signed files. While it
is moved into place, up to two folders stand next to the target. `.<name>.arriving` is the new publication, possibly
incomplete, and can always be deleted. `.<name>.leaving` is the old publication, and always complete. A killed process
may leave them behind; the next process cleans up. Only one process at a time works in the parent folder of the target.

A publication is for everyone, so its files and folders get modes that let everyone read them. Otherwise only their
owner could read them, because a process that opens the warehouse restricts its umask. To restrict access to
publications, close a folder above them.

A user who cannot read the keys may be able to write here. Links are therefore never followed: a link could lead to a
key, whose content would be published or whose mode would be opened. A hard link looks like a file, so files get their
modes in the private folder, where other users cannot have replaced them. Only folders get their modes in place.
"""

import errno
import fcntl
import filecmp
import logging
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from assets.release.signature import EDITIONS, is_readable, raise_error
from assets.texts import find_unseen, show_line
from resources.keyfiles import flush_file, flush_folder

ARRIVING, LEAVING = ".arriving", ".leaving"
"""The suffixes of the hidden names of files and folders that are moved into or out of their place."""


@contextmanager
def place_folder(
    target: Path,
    private: Path,
    kept_as: Callable[[Path], str | None],
    verify: Callable[[Path], None] = lambda folder: None,
    record: Callable[[], None] = lambda: None,
) -> Iterator[Path]:
    """A folder to write a publication into; when the block ends, it is moved to `target`.

    If `target` has exactly the same files, it is left untouched; otherwise it is replaced, and the editions in it are
    carried over. If the block raises an error, or the move fails, `target` stays as it was. If a process is killed
    between moving the old publication away and moving the new one into place, the next entry restores the old one
    first.

    Everyone can read the placed files and the parents that are created (0644, folders 0755), with any umask.

    Args:
        target: the folder of the publication; parents are created as needed. Another entry for a target with the same
            parent waits until this one ends.
        private: an empty folder that no other user can write to, where the publication is written. It may be on another
            disk.
        kept_as: given the folder of the present publication, the name under which it is kept as an earlier edition;
            None if another publication of the same edition replaces it. It is called before all moves, and may raise.
            An edition that is already kept stays as it is.
        verify: called with the complete new folder beside the target, where other users may have altered it; it may
            raise.
        record: called after `verify`, or if the target has the same files, before the target is replaced; it may raise.

    Raises:
        FileExistsError: if the target exists and is not a folder, or has anything but files and folders in it.
    """
    _require_no_link(target.parent)
    with _lock(target.parent, make=True):
        _recover(target)
        _require_plain(target)
        arriving, folder = _arriving(target), private / target.name
        try:
            arriving.mkdir()
            folder.mkdir()
            yield folder
            if _same(folder, target):
                record()
            else:
                _open_files(folder)
                _move(folder, arriving)
                _keep_editions(target, arriving, kept_as)
                verify(arriving)
                record()
                _open_folders(arriving)
                for path in (*arriving.rglob("*"), arriving):
                    (flush_folder if path.is_dir() else flush_file)(path)
                _replace(arriving, target)
        except BaseException:
            _recover(target)
            raise
        try:
            _recover(target)
        except OSError as error:
            # The publication is in its place all the same. The next entry removes the old one, or fails.
            words = f"{target}: published, but the earlier one beside it cannot be removed ({error.strerror})"
            logging.getLogger(__name__).warning(words)


def remove(target: Path, forget: Callable[[], object] = lambda: None) -> None:
    """Remove a publication with all its editions, if there is one, and the dataset's folder if it was the last.

    After a kill, the publication is either whole or gone. Leftovers of killed processes beside it, also of other
    publications, are removed too, because no later process would remove them for a publication that is no longer made.

    Args:
        forget: called before the removal, when no other process is placing a publication. One that waits to place its
            own reads the ledger again first.

    Raises:
        FileExistsError: if the folder of the dataset is a link.
    """
    _require_no_link(target.parent)
    if not target.parent.is_dir():
        forget()
        return
    with _lock(target.parent):
        forget()
        for left in (*target.parent.glob(f".?*{LEAVING}"), *target.parent.glob(f".?*{ARRIVING}")):
            _recover(target.with_name(left.stem.removeprefix(".")))
        if target.exists() or target.is_symlink():
            target.rename(_arriving(target))
            flush_folder(target.parent)
        _discard(_arriving(target))
        with suppress(OSError):
            # `rmdir` removes only an empty folder.
            target.parent.rmdir()
            flush_folder(target.parent.parent)


def place_file(target: Path, content: bytes) -> None:
    """Write a file that everyone can read, atomically, unless it has this content already."""
    place_files(target.parent, lambda: {target.name: content})


def place_files(folder: Path, make: Callable[[], Mapping[str, bytes]]) -> None:
    """Write files that everyone can read, each as `place_file` does, with the contents that `make` returns by name.

    No other process places files beside them between `make` and the writing.
    """
    with _lock(folder, make=True):
        for name, content in make().items():
            target = folder / name
            if has_content(target, content):
                continue
            arriving = _arriving(target)
            arriving.unlink(missing_ok=True)
            # The mode is exclusive, so a link planted under this name is not followed.
            with arriving.open("xb") as file:
                os.fchmod(file.fileno(), 0o644)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            arriving.replace(target)
            flush_folder(folder)


def has_content(path: Path, content: bytes) -> bool:
    """Whether the path is a file, not a link, with this content. A file of another size is not read, however large."""
    is_plain = path.is_file() and not path.is_symlink()
    return is_plain and path.stat().st_size == len(content) and path.read_bytes() == content


def publications(published: Path) -> list[tuple[str, str]]:
    """The names of the datasets and releases that have a publication."""
    folders = sorted(path for path in published.glob("*/*") if is_readable(path.parent) and path.is_dir())
    names = [path.relative_to(published).parts for path in folders]
    return [(dataset, release) for dataset, release in names if not dataset.startswith(".") and release[0] != "."]


def is_moving(path: Path) -> bool:
    """Whether a process is moving the file or folder with this hidden name into or out of its place, or has just done
    so.

    Such a process holds the folder's lock, which leftovers of killed processes and planted files lack.
    """
    if path.name[0] != "." or not path.name.endswith((ARRIVING, LEAVING)):
        return False
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return not os.path.lexists(path)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def copy_publications(
    published: Path, folder: Path, copy_records: Callable[[str], object] = lambda dataset: None
) -> None:
    """Copy all publications to a folder. Each copy is complete, because no process places files in a dataset's folder
    meanwhile.

    Args:
        copy_records: called for each dataset during its copy, for further records that are written only under this
            lock.

    Raises:
        FileExistsError: if there is anything but files and folders.
    """
    for path in sorted(published.glob("[!.]*")):
        _require_no_link(path)
        if path.is_file():
            shutil.copy2(path, folder, follow_symlinks=False)
            continue
        with ExitStack() as held:
            try:
                held.enter_context(_lock(path))
            except FileNotFoundError:
                # The dataset's last publication was withdrawn meanwhile.
                continue
            for leaving in path.glob(".*.leaving"):
                _recover(path / leaving.name.removeprefix(".").removesuffix(".leaving"))
            _require_plain(path)
            shutil.copytree(path, folder / path.name, symlinks=True, ignore=shutil.ignore_patterns(".*"))
            copy_records(path.name)
    _require_plain(folder)


def bring_publications(folder: Path, published: Path, without: Collection[str] = ()) -> None:
    """Copy publications from a folder to a place without publications.

    Args:
        without: the releases to leave out, as `dataset/release`.

    Raises:
        FileExistsError: if the folder has anything but files and folders in it.
    """

    def leave_out(place: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(place, name).relative_to(folder).as_posix() in without]

    _require_plain(folder)
    _make_public(published)
    shutil.copytree(folder, published, symlinks=True, ignore=leave_out, dirs_exist_ok=True, copy_function=_copy_opened)
    for release in without:
        with suppress(OSError):
            # `rmdir` removes only an empty folder.
            (published / release).parent.rmdir()
    _open_folders(published)


def _arriving(target: Path) -> Path:
    return target.with_name(f".{target.name}{ARRIVING}")


def _leaving(target: Path) -> Path:
    return target.with_name(f".{target.name}{LEAVING}")


@contextmanager
def _lock(folder: Path, *, make: bool = False) -> Iterator[None]:
    """Hold the folder's lock. The kernel releases the lock when the process ends, for any reason.

    Another process may remove the folder meanwhile, if it becomes empty. With `make`, the folder is then made again.
    """
    held = False
    while not held:
        if make:
            _make_public(folder)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if make:
                continue
            raise
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if held := folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat()):
                yield
        finally:
            os.close(descriptor)


def _recover(target: Path) -> None:
    """Restore the old publication if its place is empty, and delete all other leftovers."""
    arriving, leaving = _arriving(target), _leaving(target)
    if leaving.exists() and not target.exists():
        leaving.rename(target)
    _discard(arriving)
    if leaving.exists() or leaving.is_symlink():
        # If it were deleted under its own name, a partly deleted folder could later pass for a complete publication.
        leaving.rename(arriving)
        _discard(arriving)
    flush_folder(target.parent)


def _make_public(folder: Path) -> None:
    if not folder.is_dir():
        _make_public(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def _open_files(private: Path) -> None:
    """Let everyone read the files in a folder that no other user can write to."""
    for path in private.rglob("*"):
        if path.is_file():
            path.chmod(0o644)


def _open_folders(folder: Path) -> None:
    for *_, descriptor in os.fwalk(folder):
        os.fchmod(descriptor, 0o755)


def _require_plain(folder: Path) -> None:
    _require_no_link(folder)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is in the way: a publication is a folder")
    for path in folder.rglob("*"):
        _require_no_link(path)


def _require_no_link(path: Path) -> None:
    is_plain = path.is_file() or path.is_dir() or not path.exists()
    if path.is_symlink() or not is_plain or find_unseen(path.name):
        raise FileExistsError(_IN_THE_WAY.format(show_line(str(path))))


_IN_THE_WAY = "{} is in the way: a publication has only files and folders, whose names can be read; remove it"


def _discard(folder: Path) -> None:
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            # The error has the name of the file alone.
            error.filename = f"{error.filename} in {folder}"
            raise


def _move(folder: Path, arriving: Path) -> None:
    """Move a folder to the place of an empty one. From another disk, it is copied."""
    try:
        folder.rename(arriving)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with _opened(arriving) as descriptor:
            _copy_into(folder, descriptor)


def _copy_into(folder: Path, opened: int) -> None:
    """Copy a private folder's content into an open one, without following links or overwriting files."""
    for path in folder.iterdir():
        if path.is_dir():
            os.mkdir(path.name, 0o700, dir_fd=opened)
            with _opened(path.name, opened) as descriptor:
                _copy_into(path, descriptor)
            continue
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with path.open("rb") as source, os.fdopen(os.open(path.name, new, 0o600, dir_fd=opened), "wb") as copy:
            _fill(copy, source)


@contextmanager
def _opened(folder: Path | str, within: int | None = None) -> Iterator[int]:
    """The descriptor of a folder that is not a link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _replace(arriving: Path, target: Path) -> None:
    if target.exists():
        target.rename(_leaving(target))
    arriving.rename(target)
    flush_folder(target.parent)


def _keep_editions(target: Path, arriving: Path, kept_as: Callable[[Path], str | None]) -> None:
    """Link the earlier editions into the new publication, and the present publication if it becomes an earlier
    edition."""
    if not target.exists():
        return
    kept = arriving / EDITIONS
    if (target / EDITIONS).exists():
        _carry(target / EDITIONS, kept)
    name = kept_as(target)
    if name is not None and not (kept / name).exists():
        kept.mkdir(exist_ok=True)
        _carry(target, kept / name, without=EDITIONS)


def _carry(source: Path, destination: Path, without: str | None = None) -> None:
    """Link the files of a folder into a new one, through descriptors, so that links are not followed, even new ones.

    Raises:
        FileExistsError: if there is anything but files and folders.
    """
    for place, folders, files, descriptor in os.fwalk(source, onerror=raise_error):
        if without in folders and place == str(source):
            folders.remove(without)
        below = destination / Path(place).relative_to(source)
        below.mkdir()
        for name in (*folders, *files):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if not (stat.S_ISDIR(status.st_mode) if name in folders else stat.S_ISREG(status.st_mode)):
                raise FileExistsError(_IN_THE_WAY.format(show_line(f"{place}/{name}")))
        for name in files:
            try:
                os.link(name, below / name, src_dir_fd=descriptor, follow_symlinks=False)
            except OSError:
                # Some network file systems have no hard links.
                _copy(name, below / name, descriptor)
            if not stat.S_ISREG((below / name).lstat().st_mode):
                raise FileExistsError(_IN_THE_WAY.format(show_line(f"{place}/{name}")))


def _copy(name: str, destination: Path, folder: int) -> None:
    with (
        os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as source,
        destination.open("xb") as copy,
    ):
        _fill(copy, source)


def _copy_opened(source: str, destination: str) -> None:
    with Path(source).open("rb") as original, Path(destination).open("xb") as copy:
        _fill(copy, original)


def _fill(copy: BinaryIO, source: BinaryIO) -> None:
    """Write a new file that everyone can read."""
    os.fchmod(copy.fileno(), 0o644)
    shutil.copyfileobj(source, copy)


def _same(first: Path, second: Path) -> bool:
    if not second.exists():
        return False
    names = _files(first)
    return names == _files(second) and all(filecmp.cmp(first / name, second / name, shallow=False) for name in names)


def _files(folder: Path) -> list[Path]:
    """The files and empty folders of a publication, except those in earlier editions."""
    found = (path for path in folder.rglob("*") if not path.is_dir() or not any(path.iterdir()))
    names = (path.relative_to(folder) for path in found)
    return sorted(name for name in names if name.parts[0] != EDITIONS)
