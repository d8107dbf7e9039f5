"""The custody of keys: the master key of a deployment, and every key that is derived from it.

This module makes, reads, derives and destroys key bytes. `mechanisms.sampling` turns a draw's key into random numbers,
and `ledger` keeps the public record of each draw. A key is never a field of a resource, so that no configuration,
representation or error message can reveal one.
"""

import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from dagster import ConfigurableResource

KEY_BYTES = 32


class CustodyError(Exception):
    """A key is missing, exposed or malformed. The message never contains key material."""


class CustodyMode(StrEnum):
    """What happens to a draw's key once the draw is settled: it can be derived again, or it is destroyed."""

    ESCROWED = "escrowed"
    EPHEMERAL = "ephemeral"


class Custody(ConfigurableResource):
    """The keys of one deployment.

    Attributes:
        folder: the folder of key files; created with mode 0700 on first use.
        variable: the environment variable that holds the master key as 64 hexadecimal digits. If it is set, no master
            key file is read or created.
    """

    folder: str
    variable: str = "STIRRED_MASTER_KEY"

    def derive(self, purpose: str) -> bytes:
        """A key of 32 bytes for one purpose: HKDF-SHA256 (RFC 5869) of the master key, with `purpose` as info.

        Raises:
            CustodyError: if the master key is malformed, or its file is exposed or unreadable.
        """
        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose.encode()).derive(self._master_key())

    def version_key(self) -> bytes:
        """The key for data versions that depend on confidential content."""
        return self.derive("data version")

    def seal_key(self) -> bytes:
        """The key for content hashes that seals cover."""
        return self.derive("seal content")

    def seal(self, facts: Mapping[str, Any]) -> str:
        """The HMAC-SHA256 of facts that a later stage relies on, 64 hexadecimal digits.

        Args:
            facts: text, integers, booleans, None, and lists and mappings of these.

        Raises:
            TypeError: if a fact is anything else.
        """
        return hmac.new(self.derive("seal"), canonical(dict(facts)), sha256).hexdigest()

    def draw_id(self, parts: Mapping[str, Any]) -> str:
        """The identifier of a draw: the HMAC-SHA256 of everything the draw depends on, 64 hexadecimal digits.

        Args:
            parts: text, integers, booleans, None, and lists and mappings of these.

        Raises:
            TypeError: if a part is anything else; a float, for example, has no unique text form.
        """
        return hmac.new(self.derive("draw id"), canonical(dict(parts)), sha256).hexdigest()

    def commit(self, draw_id: str, mode: CustodyMode) -> str:
        """The commitment to the key of a draw that is about to be charged. Only `open_key` returns the key itself.

        An escrowed key is derived from the master key and the draw id. An ephemeral key is random: the first call makes
        it and stores it on disk until `forget`, so that a draw that was killed midway resumes with the same key.

        Raises:
            CustodyError: if a key file is malformed or exposed.
        """
        if CustodyMode(mode) is CustodyMode.ESCROWED:
            return commitment(self._escrowed(draw_id))
        path = self._ephemeral(draw_id)
        return commitment(_read(path) or _make(path))

    def open_key(self, draw_id: str, mode: CustodyMode, committed: str) -> bytes:
        """The key of a draw that has been charged, 32 bytes. This method never makes a key.

        Args:
            draw_id: the draw.
            mode: the custody that its release declares.
            committed: the commitment in the draw's reservation. There is no way to a draw's key without it.

        Raises:
            CustodyError: if the key is not the one that was committed to, if it was ephemeral and is gone, or if a key
                file is malformed or exposed.
        """
        escrowed = CustodyMode(mode) is CustodyMode.ESCROWED
        key = self._escrowed(draw_id) if escrowed else _read(self._ephemeral(draw_id))
        if key is None:
            raise CustodyError(
                f"draw {draw_id} cannot be replayed: its custody is ephemeral and its key was destroyed; "
                "drawing again needs a release under a new name, with a new charge"
            )
        if not hmac.compare_digest(commitment(key).encode(), committed.encode()):
            raise CustodyError(
                f"draw {draw_id}: the key in custody is not the one that its charge committed to; nothing was drawn; "
                "restore the key, or draw under a new name of the release, with a new charge"
            )
        return key

    def forget(self, draw_id: str) -> None:
        """Delete a draw's ephemeral key, if there is one.

        The file is unlinked. Copies kept by a file system or a backup remain: put the folder of an ephemeral custody
        on storage that keeps none.
        """
        path = self._ephemeral(draw_id)
        path.unlink(missing_ok=True)
        flush_folder(path.parent)

    def keeps(self, draw_id: str) -> bool:
        """Whether a draw's ephemeral key still exists."""
        return self._ephemeral(draw_id).exists()

    def private_folder(self, name: str = "") -> Path:
        """The custody's folder, or a folder inside it, created with mode 0700 if it does not exist.

        Raises:
            CustodyError: if other users can write to it, and could therefore remove or replace a key.
        """
        folder = Path(self.folder)
        for step in (folder, folder / name) if name else (folder,):
            try:
                step.mkdir(parents=True, exist_ok=True, mode=0o700)
            except FileExistsError:
                raise CustodyError(f"{step} must be a folder") from None
            mode = stat.S_IMODE(step.stat().st_mode)
            if mode & 0o022:
                raise CustodyError(f"{step} must be writable by its owner alone (chmod 700); its mode is {mode:04o}")
        return step

    def _master_key(self) -> bytes:
        given = os.environ.get(self.variable)
        if given is None:
            path = self.private_folder() / "master.key"
            return _read(path) or _make(path)
        key = _parse(given)
        if key is None:
            raise CustodyError(f"environment variable {self.variable} must hold {2 * KEY_BYTES} hexadecimal digits")
        return key

    def _escrowed(self, draw_id: str) -> bytes:
        return self.derive(f"draw {_name(draw_id)}")

    def _ephemeral(self, draw_id: str) -> Path:
        return self.private_folder("ephemeral") / f"{_name(draw_id)}.key"


def commitment(key: bytes) -> str:
    """The SHA-256 of a draw's key, in hexadecimal digits: it binds a ledger entry to the key without revealing it."""
    return sha256(key).hexdigest()


def canonical(value: Any) -> bytes:
    """The canonical JSON form of a value, for hashing.

    Raises:
        TypeError: if the value contains anything but text, integers, booleans, None, lists, and mappings with text
            keys.
    """
    _refuse_ambiguous(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def flush_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk, so that file names are as durable as file contents."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_ambiguous(value: Any, where: str = "value") -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where} has a key that is a {type(key).__name__}, not text")
            _refuse_ambiguous(part, f"{where}.{key}")
    elif isinstance(value, list):
        for part in value:
            _refuse_ambiguous(part, f"{where}[]")
    elif not (value is None or isinstance(value, str | int)):
        raise TypeError(f"{where} is a {type(value).__name__}; only text, integers, booleans and None are hashed")


def _name(draw_id: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", draw_id):
        raise CustodyError("a draw id is 64 hexadecimal digits, as `draw_id` gives them")
    return draw_id


def _parse(text: str) -> bytes | None:
    return bytes.fromhex(text) if re.fullmatch(f"[0-9a-fA-F]{{{2 * KEY_BYTES}}}", text) else None


def _read(path: Path) -> bytes | None:
    """The key in a file, or None if there is no file."""
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
    key = _parse(content.decode("ascii", errors="replace").removesuffix("\n"))
    if key is None:
        raise CustodyError(f"key file {path} must hold {2 * KEY_BYTES} hexadecimal digits (mode {mode:04o})")
    return key


def _make(path: Path) -> bytes:
    """Create a key file atomically. If another process was first, return that process's key.

    The finished temporary file is linked to the final name. Only one process succeeds in linking, and the name never
    refers to a partial key.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_bytes(KEY_BYTES).hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
    flush_folder(path.parent)
    key = _read(path)
    if key is None:
        raise CustodyError(f"key file {path} disappeared while it was being created")
    return key
