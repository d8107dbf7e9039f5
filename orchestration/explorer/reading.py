"""The source of the data on the explorer's pages: the declarations, the ledger's entries, the publications, the
replays.

A database is opened for one question and closed again, so that a run can write to it. This process cannot reach a key:
it verifies the chain of the ledger's entries, but not the anchor, which lies with the keys.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from assets.ledger.population import Population, group_populations
from assets.publication.asset import edition_problems
from assets.release.dataset import DatasetDeclaration
from assets.release.release import Publisher
from assets.release.signature import PUBLIC_KEY, VerificationError, fingerprint, read_public_key
from orchestration import declarations
from orchestration.checking import explain_refusal
from orchestration.components.publisher import declared_publisher
from orchestration.components.release import ReleaseComponent
from orchestration.environment import ledger_on_server
from orchestration.explorer.settings import REPLAYS, read_settings
from resources import chain
from resources.chain import Entry
from resources.ledger import LedgerError, read_stored_entries
from resources.project import DECLARATIONS, list_files
from resources.statements import Zone
from resources.storage import TransientError
from resources.warehouse import Session, Warehouse, WarehouseError

Answer = TypeVar("Answer")

_PATIENCE = 3.0
"""How many seconds to wait for a database while a run is writing it."""


class UnavailableError(Exception):
    """A part of a page cannot be shown now. The message is a sentence with the reason and the remedy."""


def find_published() -> Path:
    return Path(read_settings().published)


def find_warehouse() -> Warehouse:
    """The deployment's databases, with a spill folder of the explorer's own."""
    settings = read_settings()
    folder, spill = Path(settings.home) / "warehouse", Path(settings.temporary) / "spill"
    return Warehouse(folder=str(folder), threads=1, spill_folder=str(spill), patience=_PATIENCE)


def ask_files(question: Callable[[Session], Answer]) -> Answer:
    """Ask a question about published files, in a session that can open no other files."""
    temporary = Path(read_settings().temporary)
    warehouse = Warehouse(folder=str(temporary / "duckdb"), threads=2, spill_folder=str(temporary / "spill"))
    with warehouse.session(folder=find_published()) as session:
        return question(session)


def find_file_problems(release: str) -> Sequence[str]:
    """The reasons why the files of a release, `dataset/release`, are not the signed ones, or not those of a draw in the
    ledger that was not withdrawn, if the ledger can be read; empty if they are."""
    folder, entries = find_published(), None
    files = sorted(path for path in (folder / PUBLIC_KEY, *(folder / release).rglob("*")) if path.is_file())
    with suppress(UnavailableError):
        # A folder without a ledger may be a copy of the publications.
        entries = read_intact_entries() or None
    return _find_file_problems(folder, release, tuple((str(path), *find_change(path)) for path in files), entries)


def find_change(path: Path) -> tuple[int, int]:
    """The size of a file, and the time of its last change (`ctime`). Its writer can set back the time of modification,
    but not this time."""
    status = path.stat()
    return status.st_size, status.st_ctime_ns


def read_key() -> Ed25519PublicKey:
    """The public key beside the publications. Raises VerificationError if there is none, or the launcher knows another
    key of this deployment."""
    key, known = read_public_key(find_published() / PUBLIC_KEY), read_settings().public_key
    if known not in ("", fingerprint(key)):
        raise VerificationError(f"{PUBLIC_KEY} is not this deployment's key")
    return key


@lru_cache(maxsize=64)
def _find_file_problems(
    folder: Path, release: str, stamps: Sequence[tuple[str, int, int]], entries: tuple[Entry, ...] | None
) -> Sequence[str]:
    try:
        key = read_key()
    except VerificationError as error:
        return (f"no signature can be verified: {error}",)
    dataset, name = release.split("/")
    return tuple(edition_problems(folder, dataset, name, key, entries)[1])


def read_entries() -> tuple[Entry, ...]:
    """All entries of the ledger. Raises UnavailableError if they cannot be read now, or are on a server."""
    if ledger_on_server():
        raise UnavailableError(
            "The ledger is on a server, which this process cannot reach. `stirred budget` shows the budget."
        )
    if not find_warehouse().path(Zone.LEDGER).exists():
        return ()

    def ask() -> tuple[Entry, ...]:
        with find_warehouse().session(reads=[Zone.LEDGER]) as session:
            return read_stored_entries(session)

    try:
        return ask_database(ask)
    except LedgerError as error:
        raise UnavailableError(f"The ledger cannot be read: {error}.") from None


def read_intact_entries() -> tuple[Entry, ...]:
    """The entries as `read_entries` returns them; their chain must be intact."""
    entries = read_entries()
    if problems := chain.find_breaks(entries):
        raise UnavailableError(f"The ledger is not intact: {problems[0]}. The page Audit lists every problem.")
    return entries


def ask_database(ask: Callable[[], Answer]) -> Answer:
    """A database's answer to a question. Raises UnavailableError if it cannot be read, for example while a run holds
    it."""
    try:
        return ask()
    except (TransientError, WarehouseError) as error:
        reason = f"The database cannot be read: {error}. If a run has just made it, start the explorer again."
        if "has held it" in str(error):
            reason = "A run is writing the database. Try again when it has ended; publications can be read."
        raise UnavailableError(reason) from None


def load_declarations() -> tuple[list[DatasetDeclaration], dict[str, ReleaseComponent]]:
    """The datasets and the releases, by `dataset/release`, declared in the current files. Raises UnavailableError."""
    return _load_deployment()[:2]


def load_publisher() -> Publisher:
    return _load_deployment()[2]


def _load_deployment() -> tuple[list[DatasetDeclaration], dict[str, ReleaseComponent], Publisher]:
    files = list_files(DECLARATIONS)
    try:
        return _load_files(tuple((str(path), path.stat().st_mtime_ns) for path in files))
    except Exception as error:
        problems = ""
        with suppress(Exception):
            problems = explain_refusal(error, declarations.component_tree(), find_published()).replace("\n", "; ")
        reason = f": {problems}" if problems else f" ({type(error).__name__}); stirred check names every problem"
        raise UnavailableError(f"The declarations cannot be loaded{reason}.") from None


@lru_cache(maxsize=2)
def _load_files(
    state: tuple[tuple[str, int], ...],
) -> tuple[list[DatasetDeclaration], dict[str, ReleaseComponent], Publisher]:
    tree = declarations.component_tree()
    datasets, releases = declarations.load_declarations(tree)
    return datasets, {release.named: release for release in releases}, declared_publisher(tree)


def load_populations() -> tuple[Population, ...]:
    return group_populations(load_declarations()[0])


def read_replays() -> Mapping[str, str]:
    """The time and the result of the last replay by draw id, as the launcher copied them from Dagster."""
    with suppress(OSError, ValueError):
        return dict(json.loads((Path(read_settings().temporary) / REPLAYS).read_text()))
    return {}
