"""Time stamps of the ledger's entries by an outside authority (RFC 3161): requests, storage and verification.

If a ledger and its anchor are set back together, they look like the earlier state. A time stamp proves that an entry
existed at a time, and only the authority can make one. The stamp covers the SHA-256 of the 64 hexadecimal digits of the
entry's hash, which covers all earlier entries. The authority learns only this SHA-256. No policy is requested. `ledger`
decides when to request a stamp.

Without the settings and without stamps, this module does not import the library, and verification needs no database.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mechanisms.refusal import RefusedError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from resources.chain import Entry

ADDRESS, ROOT = "STIRRED_TIME_AUTHORITY", "STIRRED_TIME_AUTHORITY_ROOT"
"""The settings: the authority's address, and the file (PEM) of its root certificate, or of several."""

_NAME = re.compile(r"([1-9][0-9]*)-([0-9a-f]{64})\.tsr")
_LARGEST = 1 << 20
_SECONDS = 10


class ClockError(RefusedError):
    """A time stamp, the authority's answer or its certificate is invalid. The message quotes no server."""


@dataclass(frozen=True)
class TimeStamp:
    """A time stamp of an entry of the ledger.

    Attributes:
        sequence: the number of the entry.
        hash: its hash, 64 hexadecimal digits.
        token: the authority's answer in DER (TimeStampResp, RFC 3161); empty if it was not read.
        time: when the entry existed, by the authority's clock; None if neither a certificate nor `verify` states it.
        authority: the name of the authority; "" likewise.
    """

    sequence: int
    hash: str
    token: bytes = field(default=b"", repr=False)
    time: datetime | None = None
    authority: str = ""

    def __str__(self) -> str:
        time = f" of {self.time:%Y-%m-%d %H:%M:%S} UTC by {self.authority}" if self.time else ""
        return f"a time stamp{time} is of entry {self.sequence} with the hash {self.hash[:12]}…"


def locate(folder: Path, stamp: TimeStamp) -> Path:
    """The file of a stamp, whose content `openssl ts -verify -in` reads."""
    return folder / f"{stamp.sequence}-{stamp.hash}.tsr"


def list_kept(folder: Path) -> list[TimeStamp]:
    """The stamps in a folder, which may be missing, in the order of their entries, without tokens."""
    matches = (_NAME.fullmatch(path.name) for path in folder.glob("*.tsr"))
    return sorted((TimeStamp(int(match[1]), match[2]) for match in matches if match), key=lambda stamp: stamp.sequence)


def read_roots(path: Path) -> "list[Certificate]":
    """The certificates in a PEM file. Raises ClockError if it has none."""
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        raise ClockError(f"{path} is not a file with the root certificate of a time stamp authority (PEM)") from None


def ask(address: str, roots: "Sequence[Certificate]", stamp: TimeStamp) -> TimeStamp:
    """A new stamp of an entry, as `verify` returns it, from the authority at an address.

    Raises:
        TransientError: if the authority cannot be reached after several tries.
        ClockError: if the authority refuses, or its answer is not a stamp of this entry for this request by a certified
            authority.
    """
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    from resources.storage import keep_trying

    request = TimestampRequestBuilder(stamp.hash.encode(), HashAlgorithm.SHA256).build()
    query = request.as_bytes()
    token = keep_trying(lambda: _send(address, query))
    try:
        return verify(replace(stamp, token=token), roots, request.nonce)
    except ClockError as error:
        raise ClockError(f"{ADDRESS} gives no time stamp that {ROOT} certifies: {error}") from None


def _send(address: str, query: bytes) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    from resources.storage import TransientError

    request = Request(address, query, {"Content-Type": "application/timestamp-query"})
    try:
        with urlopen(request, timeout=_SECONDS) as answer:
            return bytes(answer.read(_LARGEST))
    except (OSError, HTTPException) as error:
        status = error.code if isinstance(error, HTTPError) else None
        if status and status < 500 and status not in (408, 429):
            raise ClockError(f"the time stamp authority of {ADDRESS} answers {status}") from None
        reason = f"answers {status}" if status else "cannot be reached"
        raise TransientError(f"the time stamp authority of {ADDRESS} {reason}") from None


def verify(stamp: TimeStamp, roots: "Sequence[Certificate]", nonce: int | None = None) -> TimeStamp:
    """The stamp with the time and the authority that its token proves. Needs no connection.

    The authority's certificate must have been valid at that time, and be certified by one of the roots.

    Args:
        nonce: the number of the request that the token must answer; None if it is no longer known.

    Raises:
        ClockError: if the token is not the authority's, is not of this entry, or has another time or authority than the
            stamp already has.
    """
    from cryptography.x509 import NameOID, load_der_x509_certificate
    from rfc3161_client import VerificationError, VerifierBuilder, decode_timestamp_response

    found = f"the time stamp of entry {stamp.sequence}"
    try:
        answer = decode_timestamp_response(stamp.token)
        verifier = VerifierBuilder(roots=list(roots), nonce=nonce).build()
        verifier.verify_message(answer, stamp.hash.encode())
        (signer,) = answer.signed_data.signer_infos
        # If two certificates had the signer's number, the library could check another one than the signer's.
        (certificate,) = (
            each
            for each in map(load_der_x509_certificate, answer.signed_data.certificates)
            if (each.issuer, each.serial_number) == (signer.issuer, signer.serial_number)
        )
    except (ValueError, VerificationError):
        raise ClockError(
            f"{found} was altered, is of another entry, answers another request, or is not signed by an authority that "
            "the root certificate certified at that time"
        ) from None
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = str(names[0].value) if names else certificate.subject.rfc4514_string()
    name = "".join(sign if sign.isprintable() else "?" for sign in name)
    proven = replace(stamp, time=answer.tst_info.gen_time, authority=name)
    if (stamp.time or proven.time, stamp.authority or name) != (proven.time, name):
        raise ClockError(f"{found} states another time or authority than its token")
    return proven


def find_set_back(stamps: Iterable[TimeStamp], entries: "Sequence[Entry]") -> tuple[str, ...]:
    """A sentence for each stamp whose entry is missing or different in the ledger."""
    hashes = [entry.hash for entry in entries]
    return tuple(
        f"the ledger was set back or rebuilt: {stamp}, and the ledger has "
        + ("another one there" if stamp.sequence <= len(hashes) else f"{len(hashes)} entries")
        for stamp in stamps
        if hashes[stamp.sequence - 1 : stamp.sequence] != [stamp.hash]
    )
