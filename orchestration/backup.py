"""Back up a deployment to a folder, and restore it into an empty home.

A backup holds the databases, the ledger's anchor and the publications, and is signed. It holds keys only on request: a
person with both the databases and the keys can test guesses about the records and repeat every draw. It leaves out
Dagster's own history of runs and the entries of a ledger on a server, which has its own backups.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

import dagster as dg

from assets.publication.listing import LISTING, write_listing
from assets.publication.placement import bring_publications, copy_publications, publications
from assets.release.contents import forget_sketches
from assets.release.signature import SIGNATURE, altered_files, public_key, sign, signed_identity
from assets.texts import show_line
from mechanisms.refusal import RefusedError
from orchestration.environment import deployment_resources
from resources import chain, clock
from resources.custody import ANCHOR, EDITIONS, FINGERPRINT, MASTER, SKETCHES, TIME_STAMPS, Custody, CustodyError
from resources.ledger import Ledger
from resources.spill import create_spill_folder
from resources.statements import Zone
from resources.warehouse import Warehouse

WAREHOUSE, CUSTODY, PUBLISHED = "warehouse", "custody", "published"


class BackupError(Exception):
    """A backup cannot be made or restored. The message gives the reason and the remedy."""


Resources = Callable[[Path], Mapping[str, dg.ConfigurableResource]]
"""A function from the folder of databases and keys to the resources of a deployment."""


def back_up(
    ledger: Ledger,
    published: Path,
    folder: Path,
    resources: Resources = deployment_resources,
    *,
    with_keys: bool = False,
) -> None:
    """Write a deployment's databases, anchor and publications to a folder, consistent with each other.

    As a test, the backup is restored once into a folder in the home, which is then removed.

    No other process can write a database meanwhile: writers wait, or this function waits for them. The backup contains
    no data that were deleted from a database. If the process is killed before the backup is complete, the backup has no
    signature and cannot be restored.

    Raises BackupError if the folder is not empty, is inside one that is backed up or cannot hold a backup, the
    deployment is new, the ledger is not intact, zones are in a lake, the publications are larger than the free disk, or
    the backup could not be restored; it has no signature then.
    """
    warehouse, custody = ledger.warehouse, ledger.custody
    _refuse_lake(warehouse, "backed up")
    if obstacle := _find_obstacle(folder, [published, Path(warehouse.folder), Path(custody.folder)]):
        raise BackupError(f"{show_line(str(folder))} {obstacle}")
    if custody.anchor() is None:
        raise BackupError(f"no backup was made, because {Path(custody.folder).parent} holds no deployment yet")
    if lack := _find_lack(published, folder):
        raise BackupError(f"no backup was made, because {lack}")
    # Outside the session: a process that closes a file gives up every lock that it holds on the file.
    if problems := ledger.verify():
        raise BackupError(f"no backup was made, because the ledger is not intact: {problems[0]}")
    ledger.forget_keys()
    forget_sketches(ledger)
    zones = [zone for zone in Zone if warehouse.path(zone).exists()]
    for name in (WAREHOUSE, CUSTODY, PUBLISHED):
        (folder / name).mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    kept = ledger.keep_unchanged() if ledger.on_server else nullcontext()
    with kept:
        with warehouse.session(reads=zones, folder=folder) as session:
            for zone in zones:
                session.copy_zone(zone, folder / WAREHOUSE / warehouse.path(zone).name)
            # The anchor changes only while the ledger is open for writing.
            if (tie := Path(warehouse.folder) / FINGERPRINT).exists():
                shutil.copy2(tie, folder / WAREHOUSE)
            _copy_files(custody, _list_custody_files(custody, with_keys=with_keys), folder / CUSTODY)
            # Records of editions are written while the publication is placed, so those of the copied edition are copied
            # once more.
            copy_publications(
                published,
                folder / PUBLISHED,
                lambda dataset: _copy_files(custody, _list_records(custody, dataset), folder / CUSTODY),
            )
        for place, _, _ in os.walk(folder / PUBLISHED, topdown=False):
            with suppress(OSError):
                # An empty folder cannot be signed. A folder with files is not removed.
                Path(place).rmdir()
        os.sync()
        sign(folder, custody)
        _require_restorable(folder, custody, resources)


def _find_obstacle(folder: Path, sources: Iterable[Path]) -> str:
    """The reason why a folder cannot hold a backup of others; "" if it can. A backup inside the publications would copy
    itself, and put the keys where readers look."""
    place = folder.resolve()
    if inside := next((source for source in sources if place.is_relative_to(source.resolve())), None):
        return f"is inside {inside}, which is backed up: a backup needs a folder of its own"
    if "?" in str(place) or not str(place).isprintable():
        return "has a question mark, which DuckDB misreads, or a letter that cannot be seen: choose another folder"
    if place.is_dir():
        return "is not empty: a backup needs a folder of its own" if any(place.iterdir()) else ""
    return "is not a folder" if os.path.lexists(folder) else ""


def _find_lack(source: Path, target: Path) -> str:
    """The reason why a disk has no room for the files below a folder; "" if it has. A copy fills the holes of a sparse
    file."""
    sizes = dict[Path, int]()
    for place, _, names in os.walk(source):
        for path in (Path(place) / name for name in names):
            with suppress(FileNotFoundError):
                sizes[path] = path.lstat().st_size
    free = shutil.disk_usage(next(path for path in (target, *target.absolute().parents) if path.exists())).free
    if (needed := sum(sizes.values())) <= free:
        return ""
    largest = max(sizes, key=lambda path: sizes[path])
    return (
        f"the files in {source} have {needed:,} bytes, and the disk of {target} has {free:,} free. The largest file is "
        f"{show_line(str(largest))} with {sizes[largest]:,} bytes"
    )


def _copy_files(custody: Custody, paths: Iterable[Path], folder: Path) -> None:
    for path in paths:
        copy = folder / path.relative_to(custody.folder)
        copy.parent.mkdir(exist_ok=True, mode=0o700)
        # A withdrawal may have deleted it by now.
        with suppress(FileNotFoundError):
            shutil.copy2(path, copy)


def _require_restorable(folder: Path, custody: Custody, resources: Resources) -> None:
    """Restore a backup into a folder beside the custody, which lends its key, and remove the folder again."""
    key, place = Path(custody.folder) / MASTER, custody.verifying
    try:
        # If this process is killed, `Custody.forget_copies` removes the remains.
        with create_spill_folder(place) as scratch:
            (scratch / CUSTODY).mkdir(mode=0o700)
            if key.exists():
                shutil.copy2(key, scratch / CUSTODY)
            restore(folder, scratch, scratch / PUBLISHED, lambda home: _keep_ledger(resources(home)))
    except BaseException as error:
        (folder / SIGNATURE).unlink(missing_ok=True)
        if not isinstance(error, RefusedError | BackupError | OSError):
            raise
        raise BackupError(f"the backup in {folder} is of no use, because it cannot be restored: {error}") from None
    finally:
        with suppress(OSError):
            place.rmdir()


def _keep_ledger(resources: Mapping[str, dg.ConfigurableResource]) -> Mapping[str, dg.ConfigurableResource]:
    ledger = resources["ledger"]
    assert isinstance(ledger, Ledger)
    return {**resources, "ledger": ledger.model_copy(update={"kept": ledger.on_server})}


def restore(
    folder: Path,
    home: Path,
    published: Path,
    resources: Resources = deployment_resources,
) -> tuple[str, ...]:
    """Restore a backup into a home without databases, and its publications where there are none.

    The master key must be in the home's custody, in the environment, or in the backup. If a custody in the home
    survived, its anchor is the one that counts. Restoring neither charges nor draws; materializing again gives the same
    bytes.

    Return the withdrawn releases, as `dataset/release`, whose publications are in the backup. They are not published
    again. A ledger on a server, or a custody in the home, may have their withdrawals since, or the backup was made
    before a withdrawal ended.

    Raises BackupError, and restores nothing, if something is in the way, there is no key, the backup was altered or
    made under another key, it is larger than the free disk, its ledger is older than the anchor, or zones are in a
    lake.
    """
    ledger = resources(home)["ledger"]
    assert isinstance(ledger, Ledger)
    _refuse_lake(ledger.warehouse, "restored")
    if (home / WAREHOUSE).exists() or (published.exists() and any(published.iterdir())):
        raise BackupError(f"{home / WAREHOUSE} or publications exist already: a backup is restored into an empty home")
    if lack := _find_lack(folder, home):
        raise BackupError(f"nothing was restored, because {lack}")
    staged = home / ".restoring"
    if staged.exists():
        shutil.rmtree(staged)
    staged.mkdir(parents=True, mode=0o700)
    try:
        shutil.copytree(folder / WAREHOUSE, staged / WAREHOUSE)
        shutil.copytree(folder / CUSTODY, staged / CUSTODY)
        if (home / CUSTODY).exists():
            shutil.copytree(home / CUSTODY, staged / CUSTODY, dirs_exist_ok=True)
        staged_ledger = resources(staged)["ledger"]
        assert isinstance(staged_ledger, Ledger)
        _require_ours(folder, staged, staged_ledger)
        # A ledger on a server may since have settled a draw whose key is in the backup.
        staged_ledger.forget_keys()
        withdrawn = _list_withdrawn(folder / PUBLISHED, staged_ledger)
        if (folder / PUBLISHED).exists():
            bring_publications(folder / PUBLISHED, published, withdrawn)
            if (published / LISTING).exists():
                write_listing(published)
        for path in _list_custody_files(staged_ledger.custody, with_keys=True):
            kept = home / CUSTODY / path.relative_to(staged / CUSTODY)
            kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not kept.exists():
                shutil.copy2(path, kept)
        os.sync()
        shutil.rmtree(staged / CUSTODY)
        # Last, because databases in the home mark it as restored. If this process is killed here, no copy of a key
        # remains.
        (staged / WAREHOUSE).rename(home / WAREHOUSE)
        return withdrawn
    except FileNotFoundError as error:
        raise BackupError(f"{folder} is not a complete backup: {error.filename} is missing") from None
    finally:
        shutil.rmtree(staged)


def _list_withdrawn(folder: Path, ledger: Ledger) -> tuple[str, ...]:
    """The releases in a folder of publications that were withdrawn, as `dataset/release`."""
    entries, key, found = ledger.read().require_intact(), public_key(ledger.custody), []
    for dataset, release in publications(folder):
        own = signed_identity(folder / dataset / release, key)
        if own is None:
            continue
        recorded = None
        with suppress(CustodyError):
            # The ledger has no withdrawal of a release without a draw of its own, such as a retabulation.
            recorded = ledger.custody.read_editions(dataset, release).get(own.name)
        if recorded == [own.draw_id, ""] or chain.find(entries, chain.WITHDRAW, own.draw_id):
            found.append(f"{dataset}/{release}")
    return tuple(found)


def _refuse_lake(warehouse: Warehouse, done: str) -> None:
    if warehouse.lake:
        raise BackupError(
            f"nothing was {done}, because zones of this deployment are in a lake. Back up the PostgreSQL server and "
            "the data paths with their own tools (docs/reference/deployment.md)"
        )


def _require_ours(folder: Path, staged: Path, ledger: Ledger) -> None:
    custody = ledger.custody
    if not (staged / CUSTODY / MASTER).exists() and custody.variable not in os.environ:
        raise BackupError(
            f"nothing was restored, because the master key is missing: put {MASTER} into the folder {CUSTODY} of the "
            f"home (mode 0600), or set the variable {custody.variable}. Without the key nobody can verify the ledger "
            "or repeat a draw. If the key is lost, keep the publications, which verify with the public key, and begin "
            "a new deployment: what was spent before still counts, so lower its caps by the totals of the last "
            "certificates."
        )
    try:
        # Earlier versions backed up such a folder for a dataset whose last publication was withdrawn.
        empty = [path for path in (folder / PUBLISHED).glob("*") if path.is_dir() and not any(path.iterdir())]
        altered = altered_files(folder, public_key(custody), besides=empty)
        problems = ledger.verify()
    except CustodyError as error:
        raise BackupError(f"nothing was restored: {error}") from None
    if altered:
        raise BackupError(
            f"nothing was restored, because the backup was altered, is incomplete or was made under another key: "
            f"{altered[0]}"
        )
    if problems and ledger.on_server:
        raise BackupError(
            f"nothing was restored, because the ledger on the server does not end where the custody's anchor does: "
            f"{problems[0]}. An older ledger would forget charges. If the server was restored, restore its latest "
            "state. If it is later than the anchor, because the custody was lost, restore a later backup."
        )
    if problems:
        raise BackupError(
            f"nothing was restored, because the backup's ledger does not end where the custody's anchor does: "
            f"{problems[0]}. An older ledger would forget charges. Restore the latest backup."
        )


def _list_custody_files(custody: Custody, *, with_keys: bool) -> list[Path]:
    """The files written by the custody itself. Any other file could be a copy of a key."""
    folder = Path(custody.folder)
    keys = [folder / MASTER, *sorted((folder / "ephemeral").glob("[!.]*.key"))] if with_keys else []
    sketches = sorted((folder / SKETCHES).glob("[0-9a-f]" * 64))
    stamps = [clock.locate(folder / TIME_STAMPS, stamp) for stamp in clock.list_kept(folder / TIME_STAMPS)]
    files = (folder / ANCHOR, *sketches, *stamps, *_list_records(custody), *keys)
    return [path for path in files if path.is_file()]


def _list_records(custody: Custody, dataset: str = "") -> list[Path]:
    """The records of editions, of one dataset if it is named."""
    names = (names for names in custody.list_recorded() if dataset in ("", names[0]))
    return [Path(custody.folder) / EDITIONS / "__".join(each) for each in names]
