"""Files of the custody: how a key file is checked and read, and how any of its files is written whole and durably.

`custody` decides which files exist, and when they are made.
"""

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from mechanisms.refusal import RefusedError

KEY_BYTES = 32


class CustodyError(RefusedError):
    """A key is missing, exposed, malformed or not the expected one. The message never contains key material."""


def parse(text: str) -> bytes | None:
    """The key of 64 hexadecimal digits; None for any other text."""
    return bytes.fromhex(text) if re.fullmatch(f"[0-9a-fA-F]{{{2 * KEY_BYTES}}}", text) else None


def read_key(path: Path) -> bytes | None:
    """The key in a file, or None if there is no file.

    Raises CustodyError if the file cannot be opened, is no regular file, belongs to another user, is open to others, or
    holds anything but a key.
    """
    try:
        # These flags keep `open` from following a link or waiting for a pipe; neither is a regular file, so both fail.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = "must be a regular file" if path.is_symlink() else f"cannot be opened ({error.strerror})"
        raise CustodyError(f"key file {path} {problem}") from None
    try:
        status = os.fstat(descriptor)
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISREG(status.st_mode):
            raise CustodyError(f"key file {path} must be a regular file (mode {mode:04o})")
        if status.st_uid != os.geteuid():
            raise CustodyError(f"key file {path} must belong to the user who runs this (mode {mode:04o})")
        if mode & 0o077:
            raise CustodyError(
                f"key file {path} must be closed to all but its owner (chmod 600), but has mode {mode:04o}"
            )
        content = os.read(descriptor, 4 * KEY_BYTES)
    finally:
        os.close(descriptor)
    key = parse(content.decode("ascii", errors="replace").removesuffix("\n"))
    if key is None:
        raise CustodyError(f"key file {path} must hold {2 * KEY_BYTES} hexadecimal digits (mode {mode:04o})")
    return key


def read_file(path: Path) -> bytes | None:
    """The content of a file, or None if there is no file. Raises CustodyError if the file cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CustodyError(f"{path} cannot be read ({error.strerror})") from None


def format_key(key: bytes) -> bytes:
    return f"{key.hex()}\n".encode()


def make_key(path: Path) -> bytes:
    """Create the file of a random key; if another process was first, return its key. Raises CustodyError."""
    link_new(write_temporary(path, format_key(secrets.token_bytes(KEY_BYTES))), path)
    key = read_key(path)
    if key is None:
        raise CustodyError(f"key file {path} disappeared while it was being created")
    return key


def write_temporary(path: Path, content: bytes) -> Path:
    """Write a file of mode 0600 durably under a temporary name beside `path`; return that name.

    Raises CustodyError if the file cannot be written, and then leaves no file.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write(temporary, content, os.O_EXCL)
        flush_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise CustodyError(f"{path} cannot be written ({error.strerror})") from None
    return temporary


def link_new(temporary: Path, path: Path) -> bool:
    """Give a written file its name, unless another process was first; return whether it has the name.

    Only one process succeeds, and the name never refers to a partial file. Afterwards no temporary file is left, not
    even one of a process that was killed. Raises CustodyError if the folder cannot be written to.
    """
    first = False
    try:
        # Not found: the process that was first has removed it already.
        with suppress(FileExistsError, FileNotFoundError):
            os.link(temporary, path)
            first = True
        for left in list_temporaries(path):
            left.unlink(missing_ok=True)
        flush_folder(path.parent)
    except OSError as error:
        raise CustodyError(f"{path} cannot be written ({error.strerror})") from None
    return first


def list_temporaries(path: Path) -> list[Path]:
    """The temporary files of `write_temporary` for a path, in the order of their names."""
    return sorted(path.parent.glob(f".{path.name}.*"))


def replace(path: Path, content: bytes) -> None:
    """Write a file of mode 0600 in place of the file with its name; readers see either the old or the new file.

    Only one process at a time may do so. If it is killed, the next one overwrites the remains. Raises CustodyError if
    the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}")
    try:
        _write(temporary, content, os.O_TRUNC)
        temporary.replace(path)
        flush_folder(path.parent)
    except OSError as error:
        raise CustodyError(f"{path} cannot be written ({error.strerror})") from None


def _write(path: Path, content: bytes, how: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | how, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def flush_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk, so that file names are as durable as file contents."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
