"""The chain of the budget ledger: its entries, their links, its breaks, and its anchor.

This module has values, pure functions, and the canonical text over which hashes and seals are computed. `ledger` stores
the entries and writes the anchor. `mechanisms.accounting` composes the losses.

A chain of hashes cannot reveal that its last entries were cut off, that the file was replaced by an earlier copy, or
that the whole chain was rebuilt. The anchor can: it records the end of the chain, in a small file that `custody` keeps
beside the master key, sealed under a key from it. It also records where the chain continues, so that after a move to a
server, only one of the two ledgers accepts entries.
"""

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from mechanisms.accounting.specification import Specification

GENESIS = "0" * 64
"""The hash before the first entry."""

RESERVE = "reserve"
SETTLE = "settle"
WITHDRAW = "withdraw"

DIFFERENT_PEOPLE = "different_people"
"""The part of an authorization that explains why records that resemble others are about different people."""

PUBLIC_BECAUSE = "public_because"
"""The part of an authorization that explains why records are public, so that draws from them are not charged."""


NOT_CHARGED = "public data, no budget charged"
"""The words of every page about a draw from public data."""


@dataclass(frozen=True)
class Details:
    """The facts that a reservation records about its charge besides the loss. Every value is either public or keyed.

    Attributes:
        population: the people in the dataset; the cap belongs to the population.
        contents: keyed versions of its CEF and of each source file.
        draw: its mechanism, the mechanism's version, parameters, and versions of inputs.
        authorization: who authorized the charge (`by`), the run that made it (`run`), and, if the records resemble
            another population's, why they are about different people (`different_people`), or why they are public
            (`public_because`).
        sketch: the name of the sketch of its records (`Custody.keep_sketch`); "" if they are built in, and in entries
            of earlier versions.
        public: where the records were published before, if the draw is therefore not charged; "" otherwise.
        synthetic: whether the records were declared synthetic; None in entries of earlier versions.
        bound: under a cap on the privacy curve, the bound of ε at δ for all charges of the population, with their
            number: `charges`, `epsilon` and `delta`.
    """

    population: str
    contents: tuple[str, ...] = ()
    draw: Mapping[str, Any] = field(default_factory=dict)
    authorization: Mapping[str, str] = field(default_factory=dict)
    sketch: str = ""
    public: str = ""
    synthetic: bool | None = None
    bound: Mapping[str, Any] = field(default_factory=dict)

    def as_text(self) -> str:
        fields = asdict(self) | {"contents": list(self.contents)}
        for name in ("sketch", "public", "synthetic", "bound"):
            if fields[name] in ("", None, {}):
                del fields[name]
        return canonicalize(fields).decode()


@dataclass(frozen=True)
class Entry:
    """One entry of the ledger. Every field is either public or keyed under the custody.

    Attributes:
        sequence: 1, 2, … without gaps.
        kind: "reserve", written before the draw; "settle", written once the draw's output is stored; or "withdraw",
            written before all results of the draw are removed. The charge remains.
        draw_id: the identifier of the draw, from `Custody.draw_id`.
        specification: the DP specification as canonical JSON; None in all but reservations.
        commitment: SHA-256 of the draw's key, 64 hexadecimal digits.
        output_version: the content hash of the draw's output; None in all but settlements.
        recorded_at: UTC, ISO 8601 to the second.
        previous_hash: `hash` of the previous entry; 64 zeros in the first.
        hash: SHA-256 of all other fields as canonical JSON, 64 hexadecimal digits.
        details: `Details` as canonical JSON, and in a withdrawal the person (`by`) and the withdrawn release or dataset
            (`withdrawn`); None in settlements, and in entries of earlier versions, whose hashes do not cover this
            field.
    """

    sequence: int
    kind: str
    dataset: str
    release: str
    draw_id: str
    specification: str | None
    commitment: str
    output_version: str | None
    recorded_at: str
    previous_hash: str
    hash: str = ""
    details: str | None = None

    def parse_details(self) -> Details:
        """The details of a reservation. Earlier versions recorded none; their population is the dataset."""
        fields = json.loads(self.details) if self.details else {}
        return Details(
            fields.get("population", self.dataset),
            tuple(fields.get("contents", ())),
            fields.get("draw", {}),
            fields.get("authorization", {}),
            fields.get("sketch", ""),
            fields.get("public", ""),
            fields.get("synthetic"),
            fields.get("bound", {}),
        )

    def parse_withdrawer(self) -> str:
        """Who withdrew the draw; "" in an entry that is no withdrawal."""
        return str(json.loads(self.details).get("by", "")) if self.kind == WITHDRAW and self.details else ""

    def parse_specification(self) -> Specification:
        """The DP specification of a reservation. Raises ValueError for any other entry."""
        if self.specification is None:
            raise ValueError(f"entry {self.sequence} is not a reservation and declares no specification")
        return Specification.from_record(json.loads(self.specification))

    def digest(self) -> str:
        fields = asdict(self)
        del fields["hash"]
        if self.details is None:
            del fields["details"]
        return sha256(canonicalize(fields)).hexdigest()


def make_reservation(
    chain: Sequence[Entry],
    dataset: str,
    release: str,
    draw_id: str,
    specification: Specification,
    commitment: str,
    details: Details | None = None,
) -> Entry:
    """The entry that charges a draw, ready to be appended to `chain`."""
    text = canonicalize(specification.as_record()).decode()
    entry = Entry(0, RESERVE, dataset, release, draw_id, text, commitment, None, "", "")
    return _link(chain, replace(entry, details=(details or Details(dataset)).as_text()))


def make_settlement(chain: Sequence[Entry], reservation: Entry, output_version: str) -> Entry:
    entry = replace(reservation, kind=SETTLE, specification=None, output_version=output_version, details=None)
    return _link(chain, entry)


def make_withdrawal(chain: Sequence[Entry], reservation: Entry, withdrawn: str, by: str) -> Entry:
    details = canonicalize({"withdrawn": withdrawn, "by": by}).decode()
    entry = replace(reservation, kind=WITHDRAW, specification=None, output_version=None, details=details)
    return _link(chain, entry)


def find(chain: Sequence[Entry], kind: str, draw_id: str) -> Entry | None:
    """The entry of this kind for this draw, or None."""
    return next((entry for entry in chain if entry.kind == kind and entry.draw_id == draw_id), None)


def finished_draws(chain: Sequence[Entry]) -> set[str]:
    """The ids of settled and withdrawn draws. They stay settled or withdrawn, and do not need their ephemeral keys."""
    return {entry.draw_id for entry in chain if entry.kind in (SETTLE, WITHDRAW)}


def settled_draws(chain: Sequence[Entry], dataset: str, release: str) -> tuple[Entry, ...]:
    """The reservations of a release's settled draws, in the order in which they were settled.

    The position in this order, from 1, is the number of the draw's edition. Later entries never change it.
    """
    reservations = {entry.draw_id: entry for entry in chain if entry.kind == RESERVE}
    return tuple(
        reservations[entry.draw_id]
        for entry in chain
        if entry.kind == SETTLE and (entry.dataset, entry.release) == (dataset, release)
    )


def find_last_withdrawal(chain: Sequence[Entry], dataset: str, release: str) -> Entry | None:
    """The withdrawal of a release, if there was no charge for it since; None otherwise."""
    own = [entry for entry in chain if (entry.dataset, entry.release) == (dataset, release)]
    return own[-1] if own and own[-1].kind == WITHDRAW else None


def find_breaks(chain: Sequence[Entry]) -> tuple[str, ...]:
    """The problems of a chain, each a sentence that names the sequence number; empty if the chain is intact.

    Detects every edit, gap, repetition and change of order. It cannot detect that the end of the chain was cut off or
    that the whole chain was rebuilt; the ledger's anchor detects that.
    """
    problems = []
    previous = GENESIS
    seen: set[tuple[str, str]] = set()
    for position, entry in enumerate(chain, start=1):
        name = f"entry {entry.sequence}"
        if entry.sequence != position:
            problems.append(f"{name} stands where entry {position} belongs")
        if entry.previous_hash != previous:
            problems.append(f"{name} does not continue the entry before it")
        if entry.hash != entry.digest():
            problems.append(f"{name} was altered: its hash does not match its fields")
        if (entry.kind, entry.draw_id) in seen:
            problems.append(f"{name} repeats the {entry.kind} of a draw")
        if entry.kind == SETTLE and (RESERVE, entry.draw_id) not in seen:
            problems.append(f"{name} settles a draw that was not reserved before")
        if entry.kind == SETTLE and (WITHDRAW, entry.draw_id) in seen:
            problems.append(f"{name} settles a draw that was withdrawn before")
        if entry.kind == WITHDRAW and (RESERVE, entry.draw_id) not in seen:
            problems.append(f"{name} withdraws a draw that was not reserved before")
        seen.add((entry.kind, entry.draw_id))
        previous = entry.hash
    return tuple(problems)


@dataclass(frozen=True)
class Anchor:
    """The end of the chain.

    Attributes:
        sequence: the number of the last entry known to be committed; 0 before the first.
        hash: the hash of that entry; 64 zeros before the first.
        announced: the hash of the entry that is being appended, or None.
        on_server: whether the chain is in a PostgreSQL server, not in the deployment's file, and continues only there.
    """

    sequence: int = 0
    hash: str = GENESIS
    announced: str | None = None
    on_server: bool = False

    @property
    def charged(self) -> bool:
        """Whether the ledger has an entry, or may have the announced one."""
        return self.sequence > 0 or self.announced is not None

    def seal(self, key: bytes) -> bytes:
        """The content of the anchor's file, authenticated under a key."""
        return canonicalize(self._to_fields() | {"mac": self.compute_mac(key)})

    def compute_mac(self, key: bytes) -> str:
        """The HMAC-SHA256 of the anchor under a key, 64 hexadecimal digits."""
        return hmac.new(key, canonicalize(list(self._to_fields().values())), sha256).hexdigest()

    def _to_fields(self) -> dict[str, Any]:
        """The anchor of a file has no field `on_server`, as in earlier versions."""
        return {name: value for name, value in asdict(self).items() if name != "on_server" or value}


def unseal(content: bytes, key: bytes) -> Anchor | None:
    """The anchor in a file's content; None unless it was sealed with this key and not altered since."""
    try:
        record = json.loads(content)
        anchor = Anchor(record["sequence"], record["hash"], record["announced"], record.get("on_server", False))
        genuine = hmac.compare_digest(record["mac"], anchor.compute_mac(key))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return anchor if genuine else None


def canonicalize(value: Any) -> bytes:
    """The canonical JSON form of a value, for hashing.

    Raises TypeError if the value contains anything but text, integers, booleans, None, lists, and mappings with text
    keys.
    """
    _refuse_ambiguous(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


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


def _link(chain: Sequence[Entry], entry: Entry) -> Entry:
    linked = replace(
        entry,
        sequence=len(chain) + 1,
        recorded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        previous_hash=chain[-1].hash if chain else GENESIS,
    )
    return replace(linked, hash=linked.digest())
