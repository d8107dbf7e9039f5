"""The checksums of a publication, their signature, and the verification of a folder with the public key alone.

This module needs no database. Only `sign` and `public_key` need the custody; a verification needs the folder and the
public key. The signature is Ed25519 (RFC 8032), which is deterministic: the same files have the same signature.

Every edition of a release has its own signature. The checksums in the folder of a release do not cover the earlier
editions in its subfolder `editions/`, which have their own checksums.
"""

import base64
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from assets.texts import show_line
from resources.clock import TimeStamp
from resources.machine import count_cores
from resources.regular import open_regular, read_regular

if TYPE_CHECKING:
    # Verification, which needs only this module, works without Dagster and a database.
    from resources.chain import Entry
    from resources.custody import Custody

CHECKSUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
"""The signature of `SHA256SUMS`: 64 bytes, as `openssl pkeyutl -verify -rawin` takes them."""

EDITIONS = "editions"
"""The folder of a release's earlier editions, each named by its number, and by its revision, if any."""

CERTIFICATE = "certificate.json"
PACKAGE = "datapackage.json"
"""The data dictionary of a publication, with the size of each data file."""

PUBLIC_KEY = "public_key.pem"
"""The name of the public key in the folder of all publications."""

OF_ANOTHER_KEY = (
    "Publications that were signed with another key need that file. Publish into a folder of its own "
    "(STIRRED_PUBLISHED), or, if somebody replaced the file, remove it"
)
"""The remedy for a problem of `find_foreign_key`."""

_LARGEST = 2**28
"""The most bytes that are read of a publication's file if the data dictionary does not have its size."""

T = TypeVar("T")


class VerificationError(Exception):
    """A public key or a folder cannot be read."""


@dataclass(frozen=True)
class Identity:
    """The content of a folder according to its signed certificate: an edition of a release, and its ledger entry.

    Attributes:
        revision: the number of other estimates of the same draw that were published before.
        draw_id: for estimates from measurements that others published, the checksums of the measurements.
        ledger_entry, ledger_hash: 0 and "" for such estimates.
        rests_on: the release of the dataset whose draw this is, if the edition has no draw of its own; "" otherwise.
        parameters: the values of the mechanism's parameters, by label.
        time_stamp: the time stamp of the ledger's last entry at publication, unverified; None if there is none.
    """

    dataset: str
    release: str
    edition: int
    draw_id: str
    ledger_entry: int
    ledger_hash: str
    revision: int = 0
    rests_on: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict, compare=False)
    time_stamp: TimeStamp | None = None

    @property
    def name(self) -> str:
        """The edition's number, which names its folder among the earlier editions."""
        return name_edition(self.edition, self.revision)

    @property
    def drawn_as(self) -> str:
        """The release whose draw the edition is made from."""
        return self.rests_on or self.release

    @property
    def order(self) -> tuple[int, int]:
        return self.edition, self.revision

    def __str__(self) -> str:
        entry = f"ledger entry {self.ledger_entry}" if self.ledger_entry else "from published measurements"
        return f"{self.dataset}/{self.release}, edition {self.name}, {entry}"


def name_edition(number: int, revision: int) -> str:
    return f"{number}.{revision}" if revision else str(number)


@dataclass(frozen=True)
class SignedFolder:
    """A signed folder. All content read from it is as signed, even if files are replaced meanwhile.

    Attributes:
        digests: the SHA-256 of every signed file, by name.
        checksums: the SHA-256 of `SHA256SUMS`.
    """

    folder: Path
    digests: Mapping[str, str]
    checksums: str

    @classmethod
    def open(cls, folder: Path, key: Ed25519PublicKey) -> "SignedFolder":
        """Raises VerificationError if the checksums are missing, or were not signed with the key."""
        text = _read_file(folder / CHECKSUMS, _LARGEST)
        digests = _parse_signed(text, _read_file(folder / SIGNATURE, _LARGEST), key)
        return cls(folder, digests, sha256(text).hexdigest())

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The bytes of each data file, by name; empty if the data dictionary is missing or was altered."""
        text = _read_file(self.folder / PACKAGE, _LARGEST)
        if sha256(text).hexdigest() != self.digests.get(PACKAGE):
            return {}
        return {each["path"]: each["bytes"] for each in json.loads(text)["resources"] if "bytes" in each}

    def read(self, name: str) -> bytes:
        """Raises VerificationError if the file is missing or was altered."""
        content = _read_file(self.folder / name, self.sizes.get(name, _LARGEST))
        if sha256(content).hexdigest() != self.digests.get(name):
            raise VerificationError(f"{name} is missing or was altered")
        return content

    def find_problem(self, name: str) -> str:
        """Why a file is not as signed; "" if it is. A file that was made huge is not read to its end."""
        path = self.folder / name
        # A link could lead to the right content now and to another later.
        if path.is_symlink() or not path.is_file():
            return f"{name} was altered"
        size = path.stat().st_size
        if PACKAGE in self.digests and name not in self.sizes and size > _LARGEST:
            return f"{name} has {size:,} bytes, and {PACKAGE} lists no such file"
        is_same = size == self.sizes.get(name, size) and file_sha256(path) == self.digests[name]
        return "" if is_same else f"{name} was altered"

    def identity(self) -> Identity:
        """Raises VerificationError as `read` and `identity`."""
        return _identify(self.folder, self.read(CERTIFICATE))


def sign(folder: Path, custody: "Custody") -> None:
    """Write `SHA256SUMS`, which lists all other files of the folder except earlier editions, and its signature."""
    sums = checksums(folder)
    (folder / CHECKSUMS).write_bytes(sums)
    (folder / SIGNATURE).write_bytes(_private_key(custody).sign(sums))


def checksums(folder: Path) -> bytes:
    """The text of `SHA256SUMS`, for `sha256sum -c`: all other files in the folder except earlier editions, by name."""
    paths = sorted(name for name in _everything(folder) if name not in _SEALING and (folder / name).is_file())
    digests = _for_each(paths, lambda path: file_sha256(folder / path))
    return "".join(f"{digest}  {path}\n" for digest, path in zip(digests, paths, strict=True)).encode()


def _for_each(paths: Sequence[str], work: Callable[[str], T]) -> list[T]:
    """The results for all paths, in order. Files are hashed concurrently."""
    with ThreadPoolExecutor(count_cores()) as threads:
        return list(threads.map(work, paths))


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def public_key(custody: "Custody") -> Ed25519PublicKey:
    return _private_key(custody).public_key()


def pem(key: Ed25519PublicKey) -> bytes:
    """A public key as a PEM file that OpenSSL can read."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def fingerprint(key: Ed25519PublicKey) -> str:
    """The SHA-256 of a public key in DER (SubjectPublicKeyInfo), 64 hexadecimal digits."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def read_public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a PEM file.

    Raises:
        VerificationError: if the file cannot be read, or is not an Ed25519 public key in PEM.
    """
    try:
        with open_regular(path) as file:
            key = load_pem_public_key(file.read(_LARGEST))
    except OSError as error:
        raise VerificationError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise VerificationError(f"{path} is not a public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise VerificationError(f"{path} is not an Ed25519 key")
    return key


def find_foreign_key(published: Path, key: Ed25519PublicKey) -> str:
    """The problem if the public key beside the publications is another one; "" if it is missing or the right one."""
    path = published / PUBLIC_KEY
    if not path.exists():
        return ""
    if not path.is_file():
        # A reader would wait forever for a named pipe.
        return f"{path} is no file"
    try:
        return "" if read_public_key(path) == key else f"{PUBLIC_KEY} is not this deployment's key"
    except VerificationError as error:
        return str(error)


def verify(folder: Path, key: Ed25519PublicKey) -> tuple[dict[Path, Identity], list[str]]:
    """Verify a release's current edition and all earlier ones in its folder.

    Returns:
        The identity of each intact edition, by its folder, and the problems of all others. The earlier editions must be
        editions of the current one's release, each in the folder of its number.
    """
    editions: dict[Path, Identity] = {}
    problems = []
    for edition in (folder, *earlier_editions(folder)):
        prefix = "" if edition == folder else f"{EDITIONS}/{show_line(edition.name)}: "
        if altered := altered_files(edition, key):
            problems += [f"{prefix}{problem}" for problem in altered]
            continue
        try:
            own = identity(edition)
        except VerificationError as error:
            problems.append(f"{prefix}{show_line(str(error))}")
            continue
        current = editions.get(folder, own)
        if (own.dataset, own.release) != (current.dataset, current.release):
            problems.append(f"{prefix}is signed, but is {own}")
        elif edition != folder and edition.name != own.name:
            problems.append(f"{prefix}is signed, but is edition {own.name}")
        elif edition != folder and (edition / EDITIONS).exists():
            problems.append(f"{prefix}{EDITIONS} is not part of the publication")
        else:
            editions[edition] = own
    return editions, problems


def earlier_editions(folder: Path) -> list[Path]:
    """All entries in the folder of a release's earlier editions, by number; empty if the folder cannot be read."""
    if not _has_editions(folder):
        return []
    return sorted((folder / EDITIONS).iterdir(), key=lambda path: [(len(part), part) for part in path.name.split(".")])


def altered_files(folder: Path, key: Ed25519PublicKey, besides: Collection[Path] = ()) -> list[str]:
    """The problems of a signed folder: a missing or wrong signature, and files that are missing, altered or added. Each
    is one line, even with unusual file names.

    Earlier editions in the folder are ignored, and so are the paths in `besides`.
    """
    try:
        return _find_alterations(folder, key, {path.relative_to(folder).as_posix() for path in besides})
    except OSError as error:
        return [f"{show_line(os.path.relpath(error.filename, folder))} cannot be read: {error.strerror}"]


def _find_alterations(folder: Path, key: Ed25519PublicKey, besides: Collection[str]) -> list[str]:
    for path in (folder / CHECKSUMS, folder / SIGNATURE):
        if path.is_symlink() or not path.is_file():
            return [f"{path.name} is missing"]
    try:
        signed = SignedFolder.open(folder, key)
    except VerificationError as error:
        return [str(error)]
    expected, present = signed.digests.keys(), set(_everything(folder)) - _SEALING - set(besides)
    problems = [f"{name} is missing" for name in sorted(expected - present)]
    problems += [f"{show_line(name)} is not part of the publication" for name in sorted(present - expected)]
    return problems + list(filter(None, _for_each(sorted(expected & present), signed.find_problem)))


def signed_identity(folder: Path, key: Ed25519PublicKey) -> Identity | None:
    """The identity of a folder according to its signed certificate; None without one.

    The other files are not read: `altered_files` checks them.
    """
    try:
        return SignedFolder.open(folder, key).identity()
    except VerificationError:
        return None


def signed_editions(folder: Path, key: Ed25519PublicKey) -> list[Identity]:
    """The identities of a publication's current and earlier editions, by `signed_identity`."""
    editions = (folder, *earlier_editions(folder))
    return [edition for path in editions if (edition := signed_identity(path, key))]


def list_signed(published: Path, key: Ed25519PublicKey) -> list[Identity]:
    """The identities of all editions of all releases in the folder of publications."""
    return [edition for folder in sorted(published.glob("*/*")) for edition in signed_editions(folder, key)]


def find_set_back(editions: Iterable[Identity], entries: "Sequence[Entry]") -> list[str]:
    """A sentence for each published edition whose charge is missing or different in the ledger. No deployment signs an
    edition before its ledger has the charge, so an earlier state of the ledger and its anchor was restored.

    The editions must be listed before the ledger is read, because other processes may charge and publish meanwhile.
    """
    hashes = [entry.hash for entry in entries]
    return [
        f"the ledger was set back or rebuilt: {edition}, is published, and the ledger has "
        + ("another entry there" if edition.ledger_entry <= len(hashes) else f"{len(hashes)} entries")
        for edition in editions
        if edition.ledger_entry and hashes[edition.ledger_entry - 1 : edition.ledger_entry] != [edition.ledger_hash]
    ]


def identity(folder: Path) -> Identity:
    """The identity of a folder according to its certificate. Trust it only if the folder has no problems.

    Raises:
        VerificationError: if there is no certificate, or it lacks a field.
    """
    return _identify(folder, _read_file(folder / CERTIFICATE, _LARGEST))


def _identify(folder: Path, certificate: bytes) -> Identity:
    try:
        record: dict[str, Any] = json.loads(certificate)
        source = record.get("retabulation") or record.get("estimate") or {}
        of_others = "estimate" in record and record["ledger"] is None
        ledger: dict[str, Any] = {"sequence": 0, "entry_hash": ""} if of_others else record["ledger"]
        stamp = ledger.get("time_stamp")
        return Identity(
            dataset=record["dataset"]["name"],
            release=record["release"]["name"],
            edition=record["edition"]["number"],
            draw_id=record["randomness"]["draw_id"],
            ledger_entry=ledger["sequence"],
            ledger_hash=ledger["entry_hash"],
            revision=record["edition"].get("revision", 0),
            rests_on=source.get("release", ""),
            parameters={each["label"]: each["value"] for each in record.get("mechanism", {}).get("parameters", ())},
            time_stamp=stamp
            and TimeStamp(
                stamp["sequence"],
                stamp["entry_hash"],
                base64.b64decode(stamp["token"]),
                datetime.fromisoformat(stamp["time"]),
                stamp["authority"],
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise VerificationError(f"{folder}: {CERTIFICATE} is missing or is not a certificate") from None


_SEALING = {CHECKSUMS, SIGNATURE}


def _parse_signed(checksums: bytes, seal: bytes, key: Ed25519PublicKey) -> dict[str, str]:
    """The signed digests by name. Raises VerificationError if they were not signed with the key."""
    try:
        key.verify(seal, checksums)
    except InvalidSignature:
        raise VerificationError(f"{CHECKSUMS} was altered, or was not signed with the key {fingerprint(key)}") from None
    return {name: digest for digest, name in (line.split("  ", 1) for line in checksums.decode().splitlines())}


def _everything(folder: Path) -> Iterator[str]:
    """The relative names of all files, links and empty folders in a folder, except earlier editions.

    Raises OSError if a folder cannot be read.
    """
    for place, folders, files in os.walk(folder, onerror=raise_error):
        below = Path(place).relative_to(folder)
        if below == Path() and EDITIONS in folders and _has_editions(folder):
            folders.remove(EDITIONS)
        elif below != Path() and not folders and not files:
            yield below.as_posix()
        for name in (*files, *(name for name in folders if Path(place, name).is_symlink())):
            yield (below / name).as_posix()


def raise_error(error: OSError) -> NoReturn:
    raise error


def _has_editions(folder: Path) -> bool:
    """Whether there are earlier editions. If their folder cannot be read, it counts as a folder of the current edition,
    so that it is reported and stays."""
    path = folder / EDITIONS
    return is_readable(path) and path.is_dir() and not path.is_symlink()


def is_readable(folder: Path) -> bool:
    """Whether this user can list a folder and access its entries."""
    return os.access(folder, os.R_OK | os.X_OK)


def _read_file(path: Path, most: int) -> bytes:
    """The bytes of a file; empty if the path is not a file, cannot be read, or has more bytes than `most`."""
    with suppress(OSError):
        return read_regular(path, most)
    return b""


def _private_key(custody: "Custody") -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(custody.derive("publication signature"))
