"""The withdrawal of a release or a dataset: its tables, publications and ephemeral keys are removed.

The ledger's entries come first. From then on, no withdrawn draw is made or published again. If the process is killed
later, repeating the withdrawal completes it.
"""

import contextlib
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from assets.publication.listing import write_listing
from assets.publication.placement import remove
from assets.release.signature import earlier_editions, find_set_back, list_signed, public_key, signed_identity
from assets.texts import find_unfit_name, show_line
from resources.chain import RESERVE, Entry
from resources.custody import Custody
from resources.ledger import Ledger, LedgerError
from resources.statements import Table, Zone

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_ZONES = (Zone.CONFIDENTIAL, Zone.PUBLIC)


class WithdrawalError(Exception):
    """The withdrawal is impossible as requested, and all data are unchanged; or it is incomplete, as the message
    states."""


@dataclass(frozen=True)
class Withdrawal:
    """The entries and removals of a withdrawal.

    Attributes:
        entries: the ledger's withdrawals, one for each draw.
        schemas: the removed schemas, with their zones.
        folders: the removed folders of publications.
        within: the releases that stay published, though they were made within the counts of a withdrawn release, as
            their certificates state.
    """

    entries: tuple[Entry, ...]
    schemas: tuple[str, ...]
    folders: tuple[Path, ...]
    within: tuple[str, ...] = ()

    def __str__(self) -> str:
        numbers = ", ".join(str(entry.sequence) for entry in self.entries)
        where = f"its {'entry' if len(self.entries) == 1 else 'entries'} {numbers}"
        removed = ", ".join((*self.schemas, *map(str, self.folders)))
        text = (
            f"Removed: {removed or 'nothing, because nothing was left'}. The ledger says so in "
            f"{where if numbers else 'no entry, because nothing was charged'}; what was charged "
            "stays charged."
        )
        if self.within:
            text += f" Still published, and made within its counts: {', '.join(self.within)}. Withdraw that too."
        return text


def withdraw(ledger: Ledger, published: Path, dataset: str, release: str | None, by: str) -> Withdrawal:
    """Withdraw a release, or a dataset with all its releases, whether or not they are still declared.

    This removes the tables in both zones, the publications with all editions, and ephemeral keys. The databases are
    rewritten so that no remains stay in them. The ledger keeps its entries and gets one for each draw.

    Args:
        release: the name of the release, or None for the whole dataset.
        by: the person who withdraws it.

    Raises:
        WithdrawalError: if there is no charge, table or publication under this name, `by` does not name a person in
            one plain line, only earlier editions of another publication rest on the release, or, after the ledger's
            entries, a file cannot be removed.
        LedgerError: if the ledger is not intact, or lacks the charge of a published edition. The withdrawal would
            remove the only evidence of this charge, and the draw could be made again.
    """
    name = f"{dataset}/{release}" if release else dataset
    if not all(_NAME.fullmatch(part) for part in (dataset, *([release] if release is not None else []))):
        raise WithdrawalError(f"{show_line(name)} is not the name of a release or a dataset")
    if not by.strip():
        raise WithdrawalError(f"{name} is not withdrawn, because no person is named (by)")
    if unfit := find_unfit_name(by):
        raise WithdrawalError(f"{name} is not withdrawn: by {unfit}")
    zones = [zone for zone in _ZONES if ledger.warehouse.holds(zone)]
    folders = _find_folders(published / dataset, release, ledger.custody)
    charged = any(
        entry.kind == RESERVE and entry.dataset == dataset and release in (None, entry.release)
        for entry in ledger.entries()
    )
    if not charged and not folders and not any(_schemas_of(ledger, zone, dataset, release) for zone in zones):
        raise WithdrawalError(f"there is no data of {name}: no charge, no table and no publication")
    editions = list_signed(published, public_key(ledger.custody))
    if set_back := find_set_back(editions, ledger.read().require_intact()):
        raise LedgerError(f"{set_back[0]}. Nothing was withdrawn. See docs/how-to/lost-key.md")
    entries = ledger.withdraw(dataset, release, by.strip())
    try:
        return _remove(ledger, published, dataset, release, entries, folders)
    except OSError as error:
        cause = f"{error.filename or 'writing'}: {error.strerror}" if error.errno else str(error)
        raise WithdrawalError(
            f"{name} is not completely withdrawn: {cause}. The ledger's entries are written, so no withdrawn draw is "
            "made or published again. Make the file and its folder removable, and repeat the withdrawal, which removes "
            "the rest"
        ) from None


def _remove(
    ledger: Ledger, published: Path, dataset: str, release: str | None, entries: tuple[Entry, ...], folders: list[Path]
) -> Withdrawal:
    """Remove the data of a release or dataset after the ledger's entries; `folders` are those found before. Raises
    OSError."""
    name, warehouse = f"{dataset}/{release}" if release else dataset, ledger.warehouse
    zones = [zone for zone in _ZONES if warehouse.holds(zone)]
    # A run may be publishing for the first time. The removal waits for it. Later runs find the ledger's entries and
    # stop.
    own = folders if release is None else [published / dataset / release]
    for folder in sorted({*own, *(published / entry.dataset / entry.release for entry in entries)}):
        remove(folder, partial(ledger.custody.forget_editions, dataset, folder.name))
    # Retabulations go with the release that they rest on, even if one was first published just now. Their folders go
    # last, because they show the next withdrawal whose tables remain.
    last = _find_folders(published / dataset, release, ledger.custody)
    folders = sorted({*folders, *last})
    names = [None] if release is None else sorted({release, *(folder.name for folder in folders)})
    schemas = {zone: [each for name in names for each in _schemas_of(ledger, zone, dataset, name)] for zone in zones}
    for zone in zones:
        with warehouse.session(writes=zone) as session, session.transaction():
            for schema in schemas[zone]:
                for table in session.tables(zone, schema):
                    session.drop(Table(zone, schema, table))
        warehouse.compact(zone)
        # While tables remain, their schemas show the next withdrawal what to complete. A run that was not ended may
        # have written to them meanwhile.
        with warehouse.session(writes=zone) as session:
            for schema in schemas[zone]:
                if not session.tables(zone, schema):
                    session.drop_schema(zone, schema)
    for folder in last:
        remove(folder, partial(ledger.custody.forget_editions, dataset, folder.name))
    if published.is_dir():
        # The data are already gone, even if the catalog cannot be written.
        with contextlib.suppress(OSError):
            write_listing(published)
    removed = tuple(f"{zone.value}.{schema}" for zone in zones for schema in schemas[zone])
    left = _find_folders(published / dataset, None, ledger.custody)
    within = tuple(f"{dataset}/{path.name}" for path in left if _is_made_within(path, name, ledger.custody))
    return Withdrawal(entries, removed, tuple(folders), within)


def _schemas_of(ledger: Ledger, zone: Zone, dataset: str, release: str | None) -> list[str]:
    """The schemas of a release, or of a dataset and all its releases. Names of datasets never contain two underscores
    in a row."""
    with ledger.warehouse.session(reads=[zone]) as session:
        schemas = session.schemas(zone)
    if release is not None:
        return [schema for schema in schemas if schema == f"{dataset}__{release}"]
    return [schema for schema in schemas if schema == dataset or schema.startswith(f"{dataset}__")]


def _find_folders(folder: Path, release: str | None, custody: Custody) -> list[Path]:
    """The publications of a dataset, or of one release and the retabulations that rest on it by their signed
    certificates. Raises OSError if the folder exists and cannot be read, and WithdrawalError if it is a link, because
    links are not followed."""
    if folder.is_symlink():
        raise WithdrawalError(f"nothing is withdrawn: {folder} is a link; put the folder itself there, or remove it")
    if not folder.is_dir():
        return []
    folders = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    return [path for path in folders if release in (None, path.name) or _rests_on(path, release, custody)]


def _is_made_within(folder: Path, release: str, custody: Custody) -> bool:
    """Whether a signed certificate names a release, before its title, within whose counts the publication was made."""
    own = signed_identity(folder, public_key(custody))
    values = own.parameters.values() if own else ()
    return any(isinstance(value, str) and value.startswith(f"{release}: ") for value in values)


def _rests_on(folder: Path, release: str, custody: Custody) -> bool:
    """Whether any edition in the folder of a publication rests on a release. Raises WithdrawalError if only earlier
    editions do, as with earlier versions of Stirred: a person must confirm that the current one may go too."""
    own = (folder.parent.name, folder.name)
    editions = [signed_identity(path, public_key(custody)) for path in (folder, *earlier_editions(folder))]
    current, *earlier = [each if each and (each.dataset, each.release) == own else None for each in editions]
    if current and current.rests_on == release:
        return True
    if not any(each and each.rests_on == release for each in earlier):
        return False
    if current:
        name = "/".join(own)
        raise WithdrawalError(
            f"nothing is withdrawn: earlier editions of {name} rest on {release}, and its current one does not; "
            f"withdraw {name} first"
        )
    return True
