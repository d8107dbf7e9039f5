"""The budget ledger: the charged draws with their DP specifications, and their settlements.

This module decides which entries are appended, keeps the anchor, and enforces the cap. Entries and their chaining are
in `chain`, their storage in a file or a server in `ledger_storage`, keys in `custody`, and the composition of losses in
`mechanisms.accounting`.

The order is write-ahead: reserve, draw, settle. A reservation counts from the moment it is committed, whether or not
the draw follows. A run that is killed at any point therefore leaves either no reservation or a reservation that counts.

A draw has an ephemeral key from its reservation to its settlement or withdrawal. The key is made and deleted while no
other process can read or append. A process that reads a settlement therefore finds no key of that draw, unless a
process was killed in between. `forget_keys` deletes keys that such processes left.

At any moment the chain must end either at the anchor's head or at the entry that the anchor announces, which is written
*before* the entry is committed; otherwise, the ledger refuses all requests. The anchor cannot reveal that it was
restored to an earlier state together with the database: an attacker who can write to both can roll both back. Time
stamps of an outside authority can (`clock`): the chain must have every entry with a stamp.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from dagster import ConfigurableResource, ResourceDependency

from mechanisms.accounting.composition import DoesNotCompose, compose_like, fits
from mechanisms.accounting.losses import (
    ApproximateLoss,
    ConcentratedLoss,
    CurveLoss,
    InfiniteLoss,
    Loss,
    PureLoss,
    format_exact_loss,
    format_loss,
)
from mechanisms.accounting.risks import compose_charges
from mechanisms.accounting.rounding import DECIMALS, round_up
from mechanisms.accounting.specification import Specification
from mechanisms.people import SHARE, compute_overlap, from_bytes
from mechanisms.refusal import RefusedError
from resources import chain, clock, keyfiles
from resources.chain import DIFFERENT_PEOPLE, GENESIS, PUBLIC_BECAUSE, RESERVE, SETTLE, WITHDRAW, Anchor, Details, Entry
from resources.custody import TIME_STAMPS, Custody, CustodyMode
from resources.keyfiles import CustodyError
from resources.ledger_storage import FileLedger, OpenLedger, open_file
from resources.statements import Zone
from resources.storage import BusyError, TransientError
from resources.warehouse import Session, Warehouse, WarehouseError

_READINGS = 100
"""How often a ledger is read again if other processes append to it meanwhile."""

_NOTHING = Decimal(0).scaleb(-DECIMALS)
_MOVED = (
    f"the entries in {Zone.LEDGER.database} no longer count, because the ledger was moved to a server, and continues "
    "there (STIRRED_LEDGER=postgres)"
)
_NOT_MOVED = (
    "no entry on the server counts: this deployment's ledger was not moved there, which stirred ledger move "
    "does, also for a new deployment. If it was, the custody was lost and made anew: restore its backup"
)
_LOST = (
    "the ledger on the server has entries, but the custody has no anchor: the custody is lost, or the wrong folder is "
    "mounted. Nothing was charged, moved or made. Restore its backup (docs/how-to/lost-key.md). A new deployment "
    "needs a database of its own"
)


class LedgerError(RefusedError):
    """The ledger refuses a request: it is not intact, or the requested entry contradicts an existing one."""


class CapExceeded(LedgerError):  # noqa: N818 - the domain's term for this refusal
    """A charge does not fit under its population's cap; an infinite charge never fits. The ledger did not charge it.

    Attributes:
        verdict: the end of a sentence that begins with the charge, without the price and the rest of the cap, such as
            " does not fit under the cap of ρ = 3".
    """

    def __init__(self, message: str, verdict: str = "") -> None:
        super().__init__(message)
        self.verdict = verdict


class PopulationError(LedgerError):
    """A dataset, or its content, was charged to another population, or is declared public or synthetic but was charged
    as confidential. The ledger did not charge the draw."""


@dataclass(frozen=True)
class Reading:
    """The ledger as read at one moment.

    Every method raises LedgerError if it is not intact.

    Attributes:
        entries: all entries, in order. With problems, they cannot be trusted.
        problems: sentences that name the sequence number; empty if the ledger is intact.
    """

    entries: tuple[Entry, ...]
    problems: tuple[str, ...]

    def require_intact(self) -> tuple[Entry, ...]:
        _refuse(self.problems)
        return self.entries

    def find_reservation(self, draw_id: str) -> Entry | None:
        return chain.find(self.require_intact(), RESERVE, draw_id)

    def find_settlement(self, draw_id: str) -> Entry | None:
        return chain.find(self.require_intact(), SETTLE, draw_id)

    def find_withdrawal(self, draw_id: str) -> Entry | None:
        return chain.find(self.require_intact(), WITHDRAW, draw_id)

    def compose(
        self, population: str, cap: Loss, through: int | None = None, also: Sequence[Specification] = ()
    ) -> Loss:
        """The composition of a population's finite charges, settled or not, which is compared with the cap.

        Args:
            cap: the result has its output premetric, and its δ if it has one.
            through: the last sequence number that counts; None for all entries.
            also: specifications to count as if they were charged too.

        Raises:
            DoesNotCompose: if a charge cannot be stated in that output premetric.
        """
        charges = self._list_charges(population, through)
        recorded = None if also else find_bound(charges, cap)
        return recorded or compose_charges(cap, [*(entry.parse_specification() for entry in charges), *also])

    def count_infinite(self, population: str) -> int:
        """The number of a population's charges with an infinite loss, which no cap bounds."""
        charges = self._list_charges(population)
        return sum(isinstance(entry.parse_specification().charge, InfiniteLoss) for entry in charges)

    def require_chargeable(
        self,
        dataset: str,
        release: str,
        specification: Specification,
        cap: Loss | None,
        details: Details,
        unbounded_releases: bool = False,
    ) -> Details:
        """Refuse a new charge as `Ledger.reserve` does, with the same errors. Return the details to record, with the
        bound of all charges if the cap is on their curve."""
        self.require_never_confidential(dataset, details)
        if details.public:
            return details
        self._require_one_population(dataset, details)
        if isinstance(specification.charge, InfiniteLoss):
            if not unbounded_releases:
                verdict = f" fits under no cap, and dataset {dataset} does not declare unbounded_releases: allowed"
                price = f"release {dataset}/{release} would charge {format_loss(specification.charge)}"
                raise CapExceeded(f"population {details.population}: {price}, which{verdict}", verdict)
        elif cap is not None:
            total = self.require_fit(details.population, f"{dataset}/{release}", specification, cap)
            if isinstance(total, CurveLoss):
                count = len(self._list_charges(details.population)) + 1
                bound = {"charges": count, "epsilon": str(total.epsilon), "delta": str(total.delta)}
                return replace(details, bound=bound)
        return details

    def require_fit(self, population: str, release: str, specification: Specification, cap: Loss) -> Loss:
        """Refuse a further finite charge that does not fit under a cap, with the price in one sentence. Return the
        total including it.

        Args:
            release: the release, as `dataset/release`.

        Raises:
            CapExceeded: if it does not fit, or cannot be stated in the cap's output premetric.
        """
        charge = specification.charge
        price = f"population {population}: release {release} would charge {format_loss(charge)}, "
        try:
            total = self.compose(population, cap, also=[specification])
        except DoesNotCompose as error:
            verdict = f" cannot be counted under the cap of {format_loss(cap)}: {error}"
            raise CapExceeded(f"{price}which{verdict}", verdict) from None
        if not fits(total, cap):
            charged = self.compose(population, cap)
            if isinstance(cap, CurveLoss):
                counted = f"with which all charges together have {total.symbol} = {total.round_up()}, "
            elif isinstance(charge, type(cap)):
                counted = ""
            else:
                counted = f"counted as {format_loss(compose_like(cap, [charge]))}, "
            verdict = f"does not fit under the cap of {format_exact_loss(cap)}"
            raise CapExceeded(
                f"{price}{counted}which {verdict}: {format_loss(charged)} is charged so far and "
                f"{cap.symbol} = {remaining(charged, cap)} remains",
                f"{', ' if counted else ' '}{counted}{verdict}",
            )
        return total

    def refuse_withdrawn(self, draw_id: str) -> None:
        """Raise LedgerError if a draw was withdrawn."""
        if withdrawn := self.find_withdrawal(draw_id):
            raise LedgerError(
                f"draw {draw_id} of {withdrawn.dataset}/{withdrawn.release} was withdrawn in ledger entry "
                f"{withdrawn.sequence} and is never made again; a release under a new name is a new draw, with a new "
                "charge"
            )

    def _list_charges(self, population: str, through: int | None = None) -> list[Entry]:
        return list(_list_reservations(self.require_intact()[:through], population))

    def find_public_words(self, dataset: str, details: Details) -> str:
        """Why these records, from the same source, are public, in the words of an earlier authorization; "" if there is
        none."""
        for entry in self.require_intact():
            known = entry.parse_details()
            if (entry.kind, entry.dataset, known.public) == (RESERVE, dataset, details.public):
                words = known.authorization.get(PUBLIC_BECAUSE, "")
                others = set(details.contents).difference(known.contents)
                # At most one of several versions, of the CEF or of a file, may differ: otherwise, the records are not
                # the same.
                if words and len(others) < min(2, len(set(details.contents))):
                    return words
        return ""

    def require_never_confidential(self, dataset: str, details: Details) -> None:
        """Raise PopulationError if a dataset that is declared public or synthetic was charged as confidential, or if
        records of the same content or, for a synthetic dataset, other records of its population were.

        Charged records are never public. Entries of earlier versions do not state whether their records were synthetic.
        """
        if not (details.public or details.synthetic):
            return
        declared = "public" if details.public else "synthetic"
        for entry in self.require_intact():
            if entry.kind != RESERVE or (known := entry.parse_details()).public:
                continue
            if details.synthetic and known.synthetic is not False:
                continue
            if entry.dataset == dataset or not set(known.contents).isdisjoint(details.contents):
                raise PopulationError(
                    f"dataset {dataset} is declared {declared}, but its records are confidential: they were charged as "
                    f"dataset {entry.dataset} to population {known.population} in entry {entry.sequence}; declare "
                    f"{dataset} without {declared}"
                )
            if details.synthetic and known.population == details.population:
                raise PopulationError(
                    f"dataset {dataset} is declared synthetic, but population {known.population} is of real people: "
                    f"dataset {entry.dataset} was charged to it as a confidential one in entry {entry.sequence}; "
                    f"declare {dataset} without synthetic, or with a population of its own"
                )

    def is_charged(self, dataset: str, details: Details) -> bool:
        """Whether a dataset was charged with records of the same content."""
        charged = (entry for entry in self.require_intact() if (entry.kind, entry.dataset) == (RESERVE, dataset))
        return any(entry.parse_details().contents == details.contents for entry in charged)

    def _require_one_population(self, dataset: str, details: Details) -> None:
        for entry in self.require_intact():
            if entry.kind != RESERVE or (known := entry.parse_details()).population == details.population:
                continue
            if entry.dataset == dataset:
                require_population(entry, details.population)
            if not set(known.contents).isdisjoint(details.contents):
                raise PopulationError(
                    f"dataset {dataset} has the same content as dataset {entry.dataset}, {_describe_charge(entry)}; "
                    f"{_advise(dataset, entry)}"
                )


class Ledger(ConfigurableResource):
    """The ledger of one deployment: its entries in a file or a server, and its anchor in the custody.

    Attributes:
        warehouse: the warehouse; without a server, its zone `ledger` has the entries.
        custody: the keys and the anchor.
        on_server: whether the entries are in the PostgreSQL server that libpq's environment names. `move_to_server`
            must move them first, even in a new deployment, which has none.
        kept: whether this process keeps a ledger on a server unchanged (`keep_unchanged`) while reading it.
        time_authority: the address of the authority that stamps the last entry; empty if none does.
        time_authority_root: the file of its root certificate.
    """

    warehouse: ResourceDependency[Warehouse]
    custody: ResourceDependency[Custody]
    on_server: bool = False
    kept: bool = False
    time_authority: str = ""
    time_authority_root: str = ""

    def reserve(
        self,
        dataset: str,
        release: str,
        draw_id: str,
        specification: Specification,
        mode: CustodyMode,
        cap: Loss | None,
        details: Details | None = None,
        unbounded_releases: bool = False,
    ) -> Entry:
        """Charge a draw to its population before it is made. Repeated calls charge it only once.

        Args:
            draw_id: from `Custody.draw_id`.
            specification: the DP specification of the draw; its loss is the charge.
            mode: the custody of the draw's key, to which a new reservation commits. A refused charge makes no key.
            cap: the upper bound on the composition of all reservations of the population, in the cap's output
                premetric, compared exactly; None for no cap. It does not apply to a draw that has already been charged.
            details: the other facts to record, above all the population; by default, the population has the name of the
                dataset.
            unbounded_releases: whether a charge may have an infinite loss, which fits under no cap. If so, it is
                recorded beside the finite charges, and the cap bounds only these.

        Returns:
            The draw's reservation, new or existing.

        Raises:
            CapExceeded: if the charge does not fit under the cap, cannot be stated in the cap's output premetric, or is
                infinite and not allowed.
            PopulationError: if the dataset, its content, or records that resemble its own were charged to another
                population; for such records, unless the authorization explains in words that they are about different
                people. If the dataset is public: if it, its content, or records that resemble its own were ever
                charged, or no authorization explains in words why it is public. If it is synthetic: if it, its content,
                or other records of its population were charged as confidential.
            LedgerError: if the ledger is not intact, or the draw is reserved on other terms or was withdrawn.
            CustodyError: if a key file is malformed or exposed.
        """
        details = details or Details(dataset)
        with self._open_to_append() as (open_ledger, reading):
            reservation = reading.find_reservation(draw_id)
            if reservation is None:
                details = reading.require_chargeable(dataset, release, specification, cap, details, unbounded_releases)
                resemblance = self.find_resemblance(reading, dataset, details)
                if resemblance and (details.public or not details.authorization.get(DIFFERENT_PEOPLE)):
                    raise PopulationError(resemblance)
                if details.public and not (
                    details.authorization.get(PUBLIC_BECAUSE) or reading.find_public_words(dataset, details)
                ):
                    raise PopulationError(f"no reason was given why dataset {dataset} is public")
                commitment = self.custody.commit(draw_id, mode)
                new = chain.make_reservation(
                    reading.entries, dataset, release, draw_id, specification, commitment, details
                )
                self._append(open_ledger, new)
                return new
            reading.refuse_withdrawn(draw_id)
            reading.require_never_confidential(dataset, details)
            terms = {"dataset": dataset, "release": release}
            differing = [term for term, asked in terms.items() if getattr(reservation, term) != asked]
            if not reservation.parse_specification().protects_like(specification):
                differing.append("specification")
            if differing:
                raise LedgerError(
                    f"draw {draw_id} is reserved in entry {reservation.sequence} with another {differing[0]} than is "
                    "requested now"
                )
            return reservation

    def require_synthetic(self, dataset: str, details: Details) -> None:
        """Refuse to show or use, without a charge, records that are declared synthetic but were charged as
        confidential, or that resemble such records. Records charged as synthetic were compared at that time.

        Raises PopulationError; and LedgerError if the ledger is not intact, or the records' own sketch is missing.
        """
        reading = self.read()
        reading.require_never_confidential(dataset, details)
        charged = reading.is_charged(dataset, details)
        resemblance = "" if charged else self.find_resemblance(reading, dataset, details, only_confidential=True)
        if resemblance:
            raise PopulationError(resemblance)

    def find_resemblance(
        self, reading: Reading, dataset: str, details: Details, *, only_confidential: bool = False
    ) -> str:
        """Why records seem to be about people charged to other populations, compared with all charged records or only
        with those charged as confidential; "" if they do not.

        The message omits the number of records in both: it would be an exact count of confidential records without a
        charge.

        Earlier entries without a sketch are not compared. Raises LedgerError if the records' own sketch is missing.
        """
        others = {}
        for entry in reading.require_intact():
            known = entry.parse_details() if entry.kind == RESERVE else None
            if known is None or not known.sketch:
                continue
            if only_confidential and (known.public or known.synthetic is not False):
                continue
            if not known.public if details.public else known.population != details.population:
                others[known.population, known.sketch] = entry
        if not details.sketch:
            return ""
        kept = self.custody.open_sketch(details.sketch)
        if kept is None:
            raise LedgerError(f"the sketch of dataset {dataset} is missing in the custody; materialize its cef again")
        own, found, missing = from_bytes(kept), [], []
        of_population = "declared public" if details.public else f"of population {details.population}"
        for (_, name), entry in others.items():
            charged = f"dataset {entry.dataset}, {_describe_charge(entry)}"
            sketch = self.custody.open_sketch(name)
            if sketch is None:
                missing.append(
                    f"dataset {dataset} {of_population} cannot be compared with {charged}: the "
                    "sketch of its records is missing in the custody; restore it from a backup"
                )
            elif compute_overlap(own, from_bytes(sketch)) >= SHARE:
                if only_confidential:
                    advice = f"charged records are confidential: declare {dataset} without synthetic"
                else:
                    advice = "charged records are confidential" if details.public else _advise(dataset, entry)
                found.append(
                    f"dataset {dataset} {of_population} seems to be about the same people as {charged}: "
                    f"{SHARE:.0%} of the smaller one or more are in both; {advice}"
                )
        return "; ".join([*found, *missing])

    def settle(self, draw_id: str, output_version: str) -> Entry:
        """Record that a reserved draw was made, with the version of its output, and delete its ephemeral key.

        Settling again has no effect.

        Raises LedgerError if the ledger is not intact, the draw is not reserved or was withdrawn, or it is already
        settled with another output version, which the same key and the same inputs cannot produce.
        """
        with self._open_to_append() as (open_ledger, reading):
            reservation = reading.find_reservation(draw_id)
            if reservation is None:
                raise LedgerError(f"draw {draw_id} cannot be settled: it is not reserved")
            reading.refuse_withdrawn(draw_id)
            settled = reading.find_settlement(draw_id)
            if settled is None:
                settled = chain.make_settlement(reading.entries, reservation, output_version)
                self._append(open_ledger, settled)
            elif settled.output_version != output_version:
                raise LedgerError(f"draw {draw_id} is settled in entry {settled.sequence} with another output version")
            self.custody.forget(draw_id)
            return settled

    def confirm(self) -> None:
        """Anchor the last entry, if a run was killed between appending and anchoring it.

        Until then, an attacker who can write the ledger could remove the entry unnoticed. So no draw is made before.
        Raises LedgerError if the ledger is not intact.
        """
        anchor = self.custody.anchor()
        if anchor and anchor.announced:
            with self._open_to_append():
                pass

    def withdraw(self, dataset: str, release: str | None, by: str) -> tuple[Entry, ...]:
        """Record that every draw of a release, or of all releases of a dataset, is withdrawn. The charges remain.

        The draws' ephemeral keys are deleted, with all copies that killed backups left. Return the withdrawals of all
        these draws; earlier ones are not repeated. Raises LedgerError if the ledger is not intact.
        """
        withdrawn = f"release {dataset}/{release}" if release else f"dataset {dataset}"
        with self._open_to_append() as (open_ledger, reading):
            entries, withdrawals = reading.entries, []
            for entry in entries:
                if entry.kind != RESERVE or entry.dataset != dataset or release not in (None, entry.release):
                    continue
                withdrawal = chain.find(entries, WITHDRAW, entry.draw_id)
                if withdrawal is None:
                    withdrawal = chain.make_withdrawal(entries, entry, withdrawn, by)
                    self._append(open_ledger, withdrawal)
                    entries = (*entries, withdrawal)
                self.custody.forget(entry.draw_id)
                withdrawals.append(withdrawal)
            self.custody.forget_copies()
            return tuple(withdrawals)

    def forget_keys(self) -> tuple[str, ...]:
        """Delete the ephemeral keys of settled and withdrawn draws that killed processes left; return the draws' ids.
        All copies of keys and databases that killed backups left are deleted too.

        The key of every other draw stays: the draw may still be made, or another process is making it. Raises
        LedgerError if there are keys and the ledger is not intact, and CustodyError if a key cannot be deleted.
        """
        self.custody.forget_copies()
        keys = self.custody.list_keys()
        left = sorted(keys & chain.finished_draws(self.read().require_intact())) if keys else []
        for draw_id in left:
            self.custody.forget(draw_id)
        return tuple(left)

    def stamp_head(self) -> clock.TimeStamp | None:
        """The time stamp of the last entry, requested once from the authority; None without an authority.

        No lock is held during the request. A stored stamp is never replaced.

        Raises:
            LedgerError: if the ledger is not intact.
            ClockError: if the authority refuses, or the stamp does not verify.
            TransientError: if the authority cannot be reached.
        """
        if not self.time_authority:
            return None
        entries = self.read().require_intact()
        if not entries:
            return None
        head = clock.TimeStamp(entries[-1].sequence, entries[-1].hash)
        roots = clock.read_roots(Path(self.time_authority_root))
        path = clock.locate(self.custody.private_folder(TIME_STAMPS), head)
        if not path.exists():
            new = clock.ask(self.time_authority, roots, head)
            keyfiles.link_new(keyfiles.write_temporary(path, new.token), path)
        return clock.verify(replace(head, token=keyfiles.read_file(path) or b""), roots)

    def read(self) -> Reading:
        """Read the whole ledger at one moment.

        Raises:
            TransientError: if its server cannot be reached.
            WarehouseError: if it cannot be read.
        """
        # The database is created before the anchor announces an entry. Reading the anchor first rules out an anchor
        # without a database just because another process wrote both in the meantime.
        anchor, problems = self._read_anchor(self.on_server)
        if self.on_server or self.warehouse.path(Zone.LEDGER).exists():
            with self._open() as open_ledger:
                return self._load(open_ledger, self.on_server)
        if anchor and anchor.charged:
            problems += (f"all entries are missing: there is no {Zone.LEDGER.database}",)
        return Reading((), problems)

    def examine(self) -> Reading:
        """As `read`, but an unreadable ledger becomes a reading with a problem. Raises TransientError as `read`."""
        try:
            return self.read()
        except WarehouseError as error:
            return Reading((), (f"no entry can be read: {error}",))

    def entries(self) -> tuple[Entry, ...]:
        """All entries, in order and unverified. Raises WarehouseError if they cannot be read."""
        return self.read().entries

    def verify(self) -> tuple[str, ...]:
        """The problems of the ledger, each a sentence that names the sequence number; empty if it is intact."""
        return self.examine().problems

    def move_to_server(self) -> int:
        """Move a deployment's ledger from its file to the server, entry by entry. Afterwards, only the server's ledger
        continues.

        If the move is interrupted, the anchor determines which of the two ledgers continues, never both. Repeat the
        move then. Return the number of entries, which are the same as before in all fields and hashes.

        Raises:
            LedgerError: if this ledger is not `on_server`, if either ledger is not intact, if the server has entries
                that are not the first of the file, or if the server has entries and the custody is lost.
            StorageError: if the server refuses an entry.
        """
        if not self.on_server:
            raise LedgerError(
                "the ledger stays in its file, because nothing says that it is on a server; nothing was moved; set "
                "STIRRED_LEDGER=postgres for every process of the deployment first"
            )
        self._establish()
        with open_file(self.warehouse, to_append=True) as old:
            anchor = self.custody.anchor()
            if anchor and anchor.on_server:
                old.mark_moved()
                return len(self.read().require_intact())
            entries = self._load(old, on_server=False).require_intact()
            with self._open(to_append=True) as new:
                server_entries, _ = new.load()
                if server_entries != entries[: len(server_entries)]:
                    raise LedgerError(
                        f"the server's ledger is not empty: it has {len(server_entries)} entries, which are not those "
                        f"of {Zone.LEDGER.database}; nothing was moved. If they are this deployment's, its custody was "
                        "lost and made anew: restore its backup (docs/how-to/lost-key.md). If they are another's, "
                        "name a database of its own"
                    )
                for entry in entries[len(server_entries) :]:
                    # The anchor knows the entry already.
                    new.append(entry, lambda: None)
                moved, _ = new.load()
                if moved != entries or chain.find_breaks(moved):
                    raise LedgerError(
                        f"the server does not have the entries as {Zone.LEDGER.database} has them; nothing was moved"
                    )
                self.custody.set_anchor(replace(_make_anchor(moved), on_server=True))
            old.mark_moved()
            return len(moved)

    @contextmanager
    def keep_unchanged(self) -> Iterator[None]:
        """Keep the anchor unchanged, and keep all processes from appending to a ledger on a server, until the block
        ends.

        Inside the block, this process reads the ledger as `kept`, without waiting behind the next process that appends.
        Raises LedgerError if the server's role may not do so, such as an auditor's.
        """
        with self._open() as open_ledger:
            if not open_ledger.locked:
                raise LedgerError("the role of PGUSER cannot lock the ledger: it is not a member of stirred_charge")
            yield

    def _open(self, *, to_append: bool = False) -> AbstractContextManager[OpenLedger]:
        if not self.on_server:
            return open_file(self.warehouse, to_append=to_append)
        try:
            # Imported here, so that a deployment on files needs no driver for PostgreSQL.
            from resources.ledger_server import open_server
        except ImportError:
            raise LedgerError("a ledger on a server needs psycopg: install Stirred with the extra cluster") from None
        return open_server(self.warehouse.patience, to_append=to_append, kept=self.kept)

    def _establish(self) -> None:
        """Establish the custody of a new deployment, unless the server shows that it is not new."""
        if self.on_server and self.custody.anchor() is None:
            with self._open() as open_ledger:
                entries, problems = open_ledger.load()
            # Another process may have made the anchor, and then the entries, since.
            if (entries or problems) and self.custody.anchor() is None:
                raise LedgerError(_LOST)
        self.custody.establish()

    @contextmanager
    def _open_to_append(self) -> Iterator[tuple[OpenLedger, Reading]]:
        """Open an intact ledger for appending, and keep every other process out until the end of the block."""
        _, problems = self._read_anchor(self.on_server)
        _refuse(problems)
        # The keys of a new deployment come before its databases.
        self._establish()
        with self._open(to_append=True) as open_ledger:
            reading = self._load(open_ledger, self.on_server)
            head = replace(_make_anchor(reading.require_intact()), on_server=self.on_server)
            if self.custody.anchor() != head:
                # A run was killed after announcing an entry, before or after committing it.
                self.custody.set_anchor(head)
            yield open_ledger, reading

    def _load(self, open_ledger: OpenLedger, on_server: bool) -> Reading:
        # Stamps come first: other processes may append an entry, and have it stamped.
        stamps = clock.list_kept(self.custody.time_stamps)
        anchored = self._read_anchor(on_server)
        for _ in range(_READINGS):
            entries, altered = open_ledger.load()
            if altered:
                return Reading((), altered)
            before, anchored = anchored, self._read_anchor(on_server)
            if before == anchored:
                break
            # Another process appended meanwhile, as it may if the ledger is not locked.
        else:
            raise BusyError("other processes append to the ledger all the time, so that it cannot be read; try again")
        anchor, problems = anchored
        if anchor:
            problems += _find_departures(entries, anchor)
        elif not problems and (entries or not on_server):
            lost = _LOST if on_server else "the ledger has no anchor"
            problems += (f"no entry can be trusted: {lost}",)
        problems += clock.find_set_back(stamps, entries)
        return Reading(entries, (*chain.find_breaks(entries), *problems))

    def _append(self, open_ledger: OpenLedger, entry: Entry) -> None:
        before = Anchor(entry.sequence - 1, entry.previous_hash, on_server=self.on_server)
        announced = replace(before, announced=entry.hash)

        def announce() -> None:
            # No other process writes the anchor meanwhile, unless this process has lost its connection, and so its
            # lock.
            if self.custody.anchor() != before:
                raise TransientError(
                    "another process appended to the ledger meanwhile; nothing was charged; launch again"
                )
            self.custody.set_anchor(announced)

        open_ledger.append(entry, announce)
        if self.custody.anchor() == announced:
            self.custody.set_anchor(Anchor(entry.sequence, entry.hash, on_server=self.on_server))

    def _read_anchor(self, on_server: bool) -> tuple[Anchor | None, tuple[str, ...]]:
        """The anchor, if it can be trusted, and otherwise the problem; neither in a new deployment."""
        try:
            anchor = self.custody.anchor()
        except CustodyError as error:
            return None, (f"no entry can be trusted: {error}",)
        if anchor is None or anchor.on_server == on_server:
            return anchor, ()
        return None, (_MOVED if anchor.on_server else _NOT_MOVED,)


def require_population(entry: Entry, population: str) -> None:
    """Raise PopulationError if a dataset was charged to another population than it now declares."""
    charged = entry.parse_details().population
    if charged != population:
        raise PopulationError(
            f"dataset {entry.dataset} was charged to population {charged} in entry {entry.sequence} and "
            f"cannot be charged to population {population}: a dataset keeps its population"
        )


def _describe_charge(entry: Entry) -> str:
    details = entry.parse_details()
    if details.public:
        return f"which was drawn from as public data in entry {entry.sequence}"
    return f"which was charged to population {details.population} in entry {entry.sequence}"


def _advise(dataset: str, charged: Entry) -> str:
    population = charged.parse_details().population
    if charged.parse_details().public:
        return f"if these records are confidential, declare {population} so too, with the same population and cap"
    return f"declare population: {population} for {dataset}, so that one cap bounds the loss of the people they share"


def _make_anchor(entries: Sequence[Entry]) -> Anchor:
    return Anchor(entries[-1].sequence, entries[-1].hash) if entries else Anchor()


def read_stored_entries(session: Session) -> tuple[Entry, ...]:
    """All entries in a ledger's file, in order, unverified and without reading the anchor.

    Raises LedgerError if the table's columns are not the ledger's, or the entries were moved to a server.
    """
    entries, problems = FileLedger(session).load()
    if problems:
        raise LedgerError(problems[0])
    return entries


def _find_departures(entries: Sequence[Entry], anchor: Anchor) -> tuple[str, ...]:
    anchored = entries[: anchor.sequence]
    if len(anchored) < anchor.sequence:
        return (f"entries from {len(anchored) + 1} to {anchor.sequence} are missing at the end",)
    if (anchored[-1].hash if anchored else GENESIS) != anchor.hash:
        return (f"entry {anchor.sequence} is not the one that was anchored: the ledger was rebuilt or replaced",)
    later = [entry.hash for entry in entries[anchor.sequence :]]
    if later and later != [anchor.announced]:
        return (f"entry {anchor.sequence + 1} or one after it was not written by the ledger",)
    return ()


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        page = "ledger-on-a-server" if problems[0] in (_MOVED, _NOT_MOVED) else "lost-key"
        raise LedgerError(f"the ledger is not intact: {problems[0]}{more}. See docs/how-to/{page}.md")


def of_population(entries: Sequence[Entry], population: str) -> tuple[Entry, ...]:
    """The reservations of a population, and all other entries about their draws."""
    draws = {entry.draw_id for entry in _list_reservations(entries, population)}
    return tuple(entry for entry in entries if entry.draw_id in draws)


def _list_reservations(entries: Sequence[Entry], population: str) -> Iterator[Entry]:
    return (entry for entry in entries if entry.kind == RESERVE and entry.parse_details().population == population)


def find_bound(reservations: Sequence[Entry], cap: Loss) -> CurveLoss | None:
    """The bound that the last finite charge recorded for all these reservations, if it is at the δ of a cap on their
    curve.

    The ledger records the bound, and readers do not recompute it, because floating point differs between machines in
    the last digits. Raises LedgerError if a recorded value is not a bound, which this version never writes.
    """
    if not isinstance(cap, CurveLoss):
        return None
    for count, entry in zip(range(len(reservations), 0, -1), reversed(reservations), strict=True):
        bound = entry.parse_details().bound
        try:
            if bound.get("charges") == count and Fraction(bound["delta"]) == cap.delta:
                return CurveLoss(PureLoss(Fraction(bound["epsilon"])), cap.delta)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise LedgerError(f"entry {entry.sequence}: the bound that it records has no ε at δ in numbers") from None
        if not isinstance(entry.parse_specification().charge, InfiniteLoss):
            return None
    return None


def remaining(charged: Loss, cap: Loss) -> Decimal:
    """The rest of a cap, in the cap's symbol, rounded down, so that it is never overstated."""
    if isinstance(charged, ConcentratedLoss) and isinstance(cap, ConcentratedLoss):
        return max(_NOTHING, -round_up(charged.rho - cap.rho, DECIMALS))
    one, limit = (loss.epsilon if isinstance(loss, ApproximateLoss) else loss for loss in (charged, cap))
    assert isinstance(one, PureLoss)
    assert isinstance(limit, PureLoss)
    if not one <= limit:
        return _NOTHING
    rest = PureLoss(limit.rational - one.rational, limit.argument / one.argument)
    above = rest.round_up()
    return above if PureLoss(Fraction(above)) <= rest else above - Decimal(1).scaleb(-DECIMALS)
