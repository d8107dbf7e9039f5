"""The custody of keys: the master key of a deployment, every key that is derived from it, and the ledger's anchor.

This module makes, derives and destroys keys, and keeps the sketches of records, encrypted under one. `keyfiles` reads
and writes their files, `mechanisms.sampling` turns a draw's key into random numbers, and `ledger` keeps the public
record of each draw. A key is never a field of a resource, so that no configuration, representation or error message can
reveal one.

If a new key replaced a lost one, an old deployment would look like a new one without charges. Therefore a master key is
made only for a deployment that has no databases, and no tables in a lake, and together with the anchor of the empty
ledger. `ledger` looks for entries on a server first. Afterwards every use of a key requires that key, anchor, ledger
and databases exist and match. The files are made in this order:

1. the key under a temporary name;
2. the anchor of the empty ledger, sealed with that key;
3. the final name of the key;
4. the fingerprint of the key, beside the databases;
5. the databases.

If a process is killed, the next one can continue: the anchor tells which temporary file has the key. A deployment that
lost all of these files looks like a new one.
"""

import hmac
import json
import re
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from os import environ
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from dagster import ConfigurableResource
from pydantic import Field

from resources import keyfiles
from resources.chain import Anchor, canonicalize, unseal
from resources.keyfiles import KEY_BYTES, CustodyError
from resources.project import make_private
from resources.spill import sweep
from resources.statements import Zone
from resources.warehouse import Warehouse

MASTER, ANCHOR, FINGERPRINT = "master.key", "ledger.anchor", "custody.fingerprint"
"""The names of the files of the master key and the anchor in the custody's folder, and of the key's fingerprint in the
folder of the databases."""

SKETCHES = "sketches"
"""The folder of the sketches of records that were read from files, in the custody's folder."""

TIME_STAMPS = "timestamps"
"""The folder of the time stamps of the ledger's entries, in the custody's folder."""

EDITIONS = "publications"
"""The folder of the records of published editions, a file for each release, in the custody's folder."""

CURRENT = "current"
"""The name of the edition of a record that is the release's current one, which may be among the earlier ones too."""

VERIFYING = ".verifying"
"""The folder beside the custody's in which a backup is restored once to verify it, with a copy of the key."""

_SEALING = "ledger anchor"

_KEY_FILE = re.compile(r"([0-9a-f]{64})\.key|\.([0-9a-f]{64})\.key\..+")
"""The name of the file of a draw's ephemeral key, or its second name (`keyfiles.write_temporary`)."""

_SKETCH_FILE = re.compile(r"\.?([0-9a-f]{64})(?:\..+)?")
"""The name of the file of a sketch, or its temporary name."""

_RECORD_FILE = re.compile(r"([a-z0-9]+(?:_[a-z0-9]+)*)__([a-z0-9_]+)")
"""The name of the file of a record of editions: dataset and release."""

_MAIN = "main"
"""The schema of every catalog, in which no stage writes."""


class CustodyMode(StrEnum):
    """The fate of a draw's key once the draw is settled: it can be derived again, or it is destroyed."""

    ESCROWED = "escrowed"
    EPHEMERAL = "ephemeral"


class Custody(ConfigurableResource):
    """The keys of one deployment.

    Attributes:
        folder: the folder of the key files and the anchor; created with mode 0700 on first use.
        databases: the folder of the deployment's databases, which show whether the custody is new, lost or of another
            deployment; empty if no databases depend on these keys.
        lake: the data paths of the zones in a lake (`Warehouse.lake`), whose tables show the same.
        variable: the environment variable that holds the master key as 64 hexadecimal digits. If it is set, no master
            key file is read or created.
    """

    folder: str
    databases: str = ""
    lake: dict[str, str] = Field(default_factory=dict)
    variable: str = "STIRRED_MASTER_KEY"

    def derive(self, purpose: str) -> bytes:
        """A key of 32 bytes for one purpose: HKDF-SHA256 (RFC 5869) of the master key, with `purpose` as info.

        The first use establishes the custody of a new deployment. Raises CustodyError if the master key is malformed,
        or its file is exposed or unreadable; or if key, anchor, ledger and databases do not match, or one of them is
        missing.
        """
        return _derive_from(self._master_key(), purpose)

    def establish(self) -> None:
        """Make or check the master key and the anchor of the deployment. Raises CustodyError as `derive`."""
        self._master_key()

    def anchor(self) -> Anchor | None:
        """The ledger's anchor; None in a new deployment, which stays new. Raises CustodyError as `derive`."""
        pair = self._find_key()
        return pair[1] if pair else None

    def set_anchor(self, anchor: Anchor) -> None:
        """Seal another anchor. Only the process that has the ledger open for writing may do so.

        Raises CustodyError as `derive`, and if the file cannot be written.
        """
        keyfiles.replace(Path(self.folder) / ANCHOR, anchor.seal(self.derive(_SEALING)))

    @property
    def time_stamps(self) -> Path:
        """The folder of the time stamps of the ledger's entries, which may be missing (`clock`)."""
        return Path(self.folder) / TIME_STAMPS

    def version_key(self) -> bytes:
        """The key for data versions that depend on confidential content."""
        return self.derive("data version")

    def seal_key(self) -> bytes:
        """The key for content hashes that seals cover."""
        return self.derive("seal content")

    def seal(self, facts: Mapping[str, Any]) -> str:
        """The HMAC-SHA256 of facts that a later stage relies on, 64 hexadecimal digits.

        Raises TypeError as `canonicalize`; a float, for example, has no unique text form.
        """
        return hmac.new(self.derive("seal"), canonicalize(dict(facts)), sha256).hexdigest()

    def keep_sketch(self, sketch: bytes, of: Mapping[str, Any]) -> str:
        """Keep the sketch of a dataset's records, encrypted; return its name, 64 hexadecimal digits.

        The name is an HMAC over the sketch and the versions of its input, so that equal names reveal no more than equal
        versions. A backup of these files without the master key reveals the number of sketches and their sizes, which
        distinguish small files from large ones. Raises CustodyError if the file cannot be written.
        """
        key = self.derive("sketch name")
        name = hmac.new(key, canonicalize(dict(of)) + sha256(sketch).digest(), sha256).digest()
        path = self.private_folder(SKETCHES) / name.hex()
        # The name follows from the content, so no two contents share a nonce. An existing file is written again,
        # because `list_sketches` goes by its age.
        content = AESGCM(self.derive("sketch")).encrypt(name[:12], sketch, name)
        keyfiles.write_temporary(path, content).replace(path)
        return name.hex()

    def open_sketch(self, name: str) -> bytes | None:
        """A kept sketch; None if its file is missing, or does not match its name."""
        if not name:
            return None
        content = keyfiles.read_file(Path(self.folder) / SKETCHES / _name_file(name))
        binary = bytes.fromhex(name)
        try:
            return None if content is None else AESGCM(self.derive("sketch")).decrypt(binary[:12], content, binary)
        except InvalidTag:
            return None

    def list_sketches(self, age: timedelta) -> set[str]:
        """The names of the sketches that were written longer than `age` ago, even if only under a temporary name."""
        latest, old, young = time.time() - age.total_seconds(), set[str](), set[str]()
        for path in (Path(self.folder) / SKETCHES).glob("*"):
            # Another process may have deleted it.
            with suppress(FileNotFoundError):
                if match := _SKETCH_FILE.fullmatch(path.name):
                    (old if path.stat().st_mtime < latest else young).add(match[1])
        return old - young

    def forget_sketch(self, name: str) -> None:
        """Delete a sketch, if it exists. Raises CustodyError if its file cannot be deleted."""
        _delete(Path(self.folder) / SKETCHES / _name_file(name))

    def record_edition(
        self, dataset: str, release: str, edition: str, draw_id: str, checksums: str, *, kept: bool
    ) -> None:
        """Record an edition that is about to be published, in place of an earlier publication of it.

        If an earlier publication of the same edition is kept among the earlier editions, its record stays. Only the
        process that has the folder of the dataset's publications locked may do so. Raises CustodyError as
        `read_editions`, and if the file cannot be written.
        """
        own = {CURRENT: [draw_id, checksums]} | ({} if kept else {edition: [draw_id, checksums]})
        self._write_editions(dataset, release, self.read_editions(dataset, release) | own)

    def _write_editions(self, dataset: str, release: str, editions: Mapping[str, Sequence[str]]) -> None:
        facts = {"dataset": dataset, "release": release, "editions": dict(editions)}
        path = self.private_folder(EDITIONS) / f"{dataset}__{release}"
        keyfiles.replace(path, canonicalize({**facts, "seal": self.seal(facts)}))

    def read_editions(self, dataset: str, release: str) -> dict[str, list[str]]:
        """The draw and the checksums of every edition of a release by its name, as it was last recorded, and of the
        current one by the name `CURRENT`; empty if none is recorded. Withdrawn editions have no checksums.

        Raises CustodyError if the record cannot be read, was altered, or belongs to another release.
        """
        path = Path(self.folder) / EDITIONS / f"{dataset}__{release}"
        if (content := keyfiles.read_file(path)) is None:
            return {}
        try:
            facts = json.loads(content)
            is_own = hmac.compare_digest(facts.pop("seal"), self.seal(facts))
            if is_own and (facts["dataset"], facts["release"]) == (dataset, release):
                return dict(facts["editions"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        raise CustodyError(f"{path} was altered; restore it from a backup, or delete it and launch again")

    def list_recorded(self) -> list[tuple[str, str]]:
        """The dataset and release of every record of editions, whether or not it was altered."""
        paths = sorted((Path(self.folder) / EDITIONS).glob("*"))
        return [(match[1], match[2]) for path in paths if (match := _RECORD_FILE.fullmatch(path.name))]

    def forget_editions(self, dataset: str, release: str) -> None:
        """Reduce the record of a withdrawn release to the numbers of its draws, because no other draw may get them;
        delete an altered record. Only the process that has the folder of the dataset's publications locked may do so,
        if there is one. Raises CustodyError if its file cannot be deleted or written."""
        try:
            editions = self.read_editions(dataset, release)
        except CustodyError:
            _delete(Path(self.folder) / EDITIONS / f"{dataset}__{release}")
        else:
            numbers = {name: [draw_id, ""] for name, (draw_id, _) in editions.items() if name != CURRENT}
            if numbers:
                self._write_editions(dataset, release, numbers)

    def draw_id(self, parts: Mapping[str, Any]) -> str:
        """The HMAC-SHA256 of everything that a draw depends on, 64 hexadecimal digits. Raises TypeError as `seal`."""
        return hmac.new(self.derive("draw id"), canonicalize(dict(parts)), sha256).hexdigest()

    def commit(self, draw_id: str, mode: CustodyMode) -> str:
        """The commitment to the key of a draw that `Ledger.reserve` charges. Only `open_key` returns the key itself.

        An escrowed key is derived from the master key and the draw id. An ephemeral key is random: the first call makes
        it and stores it on disk until `forget`, so that a draw that was killed midway resumes with the same key. Raises
        CustodyError if a key file is malformed or exposed.
        """
        if CustodyMode(mode) is CustodyMode.ESCROWED:
            return compute_commitment(self._derive_draw_key(draw_id))
        self.establish()
        path = self._locate_ephemeral_key(draw_id)
        return compute_commitment(keyfiles.read_key(path) or keyfiles.make_key(path))

    def open_key(self, draw_id: str, mode: CustodyMode, committed: str) -> bytes:
        """The key of a draw that has been charged, 32 bytes. This method never makes a key.

        `committed` is the commitment in the draw's reservation. A draw's key cannot be opened without it. Raises
        CustodyError if the key does not match the commitment, if it was ephemeral and is gone, or if a key file is
        malformed or exposed.
        """
        escrowed = CustodyMode(mode) is CustodyMode.ESCROWED
        key = self._derive_draw_key(draw_id) if escrowed else keyfiles.read_key(self._locate_ephemeral_key(draw_id))
        if key is None:
            raise CustodyError(
                f"draw {draw_id} cannot be replayed: its custody is ephemeral and its key was destroyed; "
                "drawing again needs a release under a new name, with a new charge"
            )
        if not hmac.compare_digest(compute_commitment(key).encode(), committed.encode()):
            raise CustodyError(
                f"draw {draw_id}: the key in custody is not the one that its charge committed to; nothing was drawn; "
                "restore the key, or draw under a new name of the release, with a new charge"
            )
        return key

    def forget(self, draw_id: str) -> None:
        """Delete a draw's ephemeral key, if it exists. `ledger` decides which draws no longer need theirs.

        The file is unlinked. Copies kept by a file system or a backup remain: put the folder of an ephemeral custody on
        storage without copies. Raises CustodyError if the file cannot be deleted.
        """
        _delete(self._locate_ephemeral_key(draw_id))

    @property
    def verifying(self) -> Path:
        return Path(self.folder).with_name(VERIFYING)

    def forget_copies(self) -> None:
        """Remove the copies of keys and databases that killed backups left beside the custody."""
        if self.verifying.is_dir():
            sweep(self.verifying)
            with suppress(OSError):
                self.verifying.rmdir()

    def list_keys(self) -> set[str]:
        """The ids of all draws that have an ephemeral key, even if only under its second name.

        Raises CustodyError if the folder of the keys cannot be read.
        """
        folder = Path(self.folder) / "ephemeral"
        try:
            names = [path.name for path in folder.iterdir()]
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise CustodyError(f"{folder} cannot be read ({error.strerror})") from None
        return {match[1] or match[2] for match in map(_KEY_FILE.fullmatch, names) if match}

    def private_folder(self, name: str = "") -> Path:
        """The custody's folder, or a folder inside it, created with mode 0700 if it does not exist.

        Raises CustodyError if other users can write to it, and could therefore remove or replace a key.
        """
        folder = Path(self.folder)
        for step in (folder, folder / name) if name else (folder,):
            _make_folder(step)
            _require_private(step)
        return step

    def _master_key(self) -> bytes:
        pair = self._find_key()
        if pair is None:
            # Another process may have made the files, and then the tables, since.
            if self._lake_has_tables() and self._find_key() is None:
                missing = f"{ANCHOR} is" if self._read_given_key() else f"{MASTER} and {ANCHOR} are"
                raise self._explain(f"the confidential zone in the lake has tables, but {missing} missing")
            self._make()
            pair = self._find_key()
        if pair is None:
            raise CustodyError(f"the files in {self.folder} disappeared while they were being made")
        self._tie_databases(pair[0])
        return pair[0]

    def _find_key(self) -> tuple[bytes, Anchor] | None:
        """The master key and the anchor, which match each other and the databases; None in a new deployment.

        The files are checked in the reverse order of their creation, so that files that another process is just making
        do not seem lost.
        """
        data = [name for name in (Zone.CONFIDENTIAL.database, Zone.LEDGER.database) if self._has_data(name)]
        tie = self._read_tie()
        folder = Path(self.folder)
        if folder.exists():
            _require_private(folder)
        given_key = self._read_given_key()
        key = given_key or keyfiles.read_key(folder / MASTER)
        sealed = keyfiles.read_file(folder / ANCHOR)
        if sealed is None:
            signs = [*data, *([FINGERPRINT] if tie is not None else [])]
            if not signs and (given_key or key is None):
                return None
            missing = ANCHOR if key else f"{MASTER} and {ANCHOR}"
            sign = f"{signs[0]} exists in {self.databases}" if signs else f"{MASTER} exists"
            raise self._explain(f"{sign}, but {missing} {'is' if key else 'are'} missing")
        key = key or self._recover(sealed)
        anchor = unseal(sealed, _derive_from(key, _SEALING))
        if anchor is None:
            holder = f"in the variable {self.variable}" if given_key else f"in {MASTER}"
            raise self._explain(f"{ANCHOR} was altered, or sealed with another custody's key than the one {holder}")
        if tie is not None and not hmac.compare_digest(tie, _compute_fingerprint(key)):
            raise self._explain(f"the databases in {self.databases} belong to another custody's key")
        if tie is None and data and not anchor.charged:
            raise self._explain(
                f"{FINGERPRINT} is missing in {self.databases}, and {ANCHOR} says that nothing was charged, so nothing "
                f"shows that {data[0]} belongs to this custody"
            )
        in_file = anchor.charged and not anchor.on_server
        if in_file and self.databases and not self._has_data(Zone.LEDGER.database):
            raise self._explain(
                f"{Zone.LEDGER.database} is missing in {self.databases}, but {ANCHOR} says that it has entries, "
                f"{anchor.sequence} or more"
            )
        return key, anchor

    def _recover(self, sealed: bytes) -> bytes:
        """The master key in a file without its final name, because its process was killed."""
        path = Path(self.folder) / MASTER
        for temporary in keyfiles.list_temporaries(path):
            with suppress(CustodyError):
                key = keyfiles.read_key(temporary)
                if key and unseal(sealed, _derive_from(key, _SEALING)):
                    keyfiles.link_new(temporary, path)
                    return key
        # Its process, or another one, may just have given it the final name.
        if key := keyfiles.read_key(path):
            return key
        raise self._explain(f"{ANCHOR} exists, but {MASTER}, with which it was sealed, is missing")

    def _make(self) -> None:
        """Make the anchor of the empty ledger and, unless it is given, the key. `_recover` gives the key's file its
        final name."""
        folder, given_key = self.private_folder(), self._read_given_key()
        key = given_key or secrets.token_bytes(KEY_BYTES)
        temporary = None if given_key else keyfiles.write_temporary(folder / MASTER, keyfiles.format_key(key))
        anchor = keyfiles.write_temporary(folder / ANCHOR, Anchor().seal(_derive_from(key, _SEALING)))
        if not keyfiles.link_new(anchor, folder / ANCHOR) and temporary:
            # Another process was first, and its key counts.
            temporary.unlink(missing_ok=True)

    def _tie_databases(self, key: bytes) -> None:
        """Leave the fingerprint of the key beside the databases, which may not exist yet."""
        if self.databases and self._read_tie() is None:
            path = Path(self.databases) / FINGERPRINT
            _make_folder(path.parent)
            keyfiles.link_new(keyfiles.write_temporary(path, _compute_fingerprint(key)), path)

    def _read_tie(self) -> bytes | None:
        return keyfiles.read_file(Path(self.databases) / FINGERPRINT) if self.databases else None

    def _has_data(self, name: str) -> bool:
        return bool(self.databases) and (Path(self.databases) / name).exists()

    def _lake_has_tables(self) -> bool:
        if Zone.CONFIDENTIAL.value not in self.lake:
            return False
        warehouse = Warehouse(folder=self.databases, lake=self.lake)
        if not warehouse.holds(Zone.CONFIDENTIAL):
            return False
        with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            return any(schema != _MAIN for schema in session.schemas(Zone.CONFIDENTIAL))

    def _read_given_key(self) -> bytes | None:
        text = environ.get(self.variable)
        if text is None:
            return None
        key = keyfiles.parse(text)
        if key is None:
            raise CustodyError(f"environment variable {self.variable} must hold {2 * KEY_BYTES} hexadecimal digits")
        return key

    def _explain(self, problem: str) -> CustodyError:
        return CustodyError(
            f"custody {self.folder}: {problem}. Nothing was charged, drawn or made. Restore the custody and the "
            "databases from one backup; see docs/how-to/lost-key.md if there is none"
        )

    def _derive_draw_key(self, draw_id: str) -> bytes:
        return self.derive(f"draw {_name_file(draw_id)}")

    def _locate_ephemeral_key(self, draw_id: str) -> Path:
        return self.private_folder("ephemeral") / f"{_name_file(draw_id)}.key"


def compute_commitment(key: bytes) -> str:
    """The SHA-256 of a draw's key, in hexadecimal digits: it binds a ledger entry to the key without revealing it."""
    return sha256(key).hexdigest()


def _derive_from(key: bytes, purpose: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose.encode()).derive(key)


def _compute_fingerprint(key: bytes) -> bytes:
    """A value that tells master keys apart without revealing anything else about them, as the content of a file."""
    return keyfiles.format_key(_derive_from(key, "fingerprint"))


def _name_file(draw_id: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", draw_id):
        raise CustodyError("a draw id is 64 hexadecimal digits, as `draw_id` gives them")
    return draw_id


def _delete(path: Path) -> None:
    try:
        # A process that was killed while making the file may have left a second name for it.
        for name in (path, *keyfiles.list_temporaries(path)):
            name.unlink(missing_ok=True)
        keyfiles.flush_folder(path.parent)
    except OSError as error:
        raise CustodyError(f"key file {path} cannot be deleted ({error.strerror})") from None


def _make_folder(folder: Path) -> None:
    try:
        make_private(folder)
    except FileExistsError:
        raise CustodyError(f"{folder} must be a folder") from None
    except OSError as error:
        raise CustodyError(f"folder {folder} cannot be created ({error.strerror})") from None


def _require_private(folder: Path) -> None:
    if not folder.is_dir():
        raise CustodyError(f"{folder} must be a folder")
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o022:
        raise CustodyError(f"{folder} must be writable by its owner alone (chmod 700); its mode is {mode:04o}")
