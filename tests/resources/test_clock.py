"""Claims about time stamps: only stamps of the authority are kept, and they reveal a ledger that was set back."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from resources import clock, storage
from resources.clock import ClockError, TimeStamp
from resources.ledger import Ledger, LedgerError
from resources.storage import TransientError
from tests.depth import quick_cases
from tests.resources.test_ledger import deployment, reserve
from tests.time_authority import HOUR, SECRET, Answer, Authority, certify, needs_openssl, stamp, time_authority

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    with time_authority(tmp_path_factory.mktemp("clock") / "authority") as authority:
        yield authority


@pytest.fixture
def authority(running: Authority) -> Iterator[Authority]:
    running.queries.clear()
    usual = running.answer
    yield running
    running.answer = usual


@pytest.fixture
def ledger(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A ledger with an entry."""
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    monkeypatch.setattr(storage, "WAITS", (0, 0))
    settings = {"time_authority": authority.address, "time_authority_root": str(authority.root)}
    ledger = deployment(tmp_path).model_copy(update=settings)
    reserve(ledger, "first")
    return ledger


def kept(ledger: Ledger) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in ledger.custody.time_stamps.glob("*")}


def test_the_head_is_stamped_once_and_the_authority_gets_only_its_hash(ledger: Ledger, authority: Authority) -> None:
    """Wrong programs: make a stamp for every publication, replace a stamp by another, or send other data in the
    query."""
    (entry,) = ledger.entries()
    before = datetime.now(UTC).replace(microsecond=0)
    made = ledger.stamp_head()
    assert made
    assert (made.sequence, made.hash, made.authority) == (1, entry.hash, "Clock of the Office")
    assert made.time
    assert before <= made.time <= datetime.now(UTC)
    assert ledger.stamp_head() == made
    (query,) = authority.queries
    assert sha256(entry.hash.encode()).digest() in query
    assert len(query) <= 70, "version, digest with its kind, nonce, and that certificates are asked for"
    assert kept(ledger) == {f"1-{entry.hash}.tsr": made.token}
    reserve(ledger, "second")
    second = ledger.stamp_head()
    assert second
    assert (second.sequence, len(authority.queries), len(kept(ledger))) == (2, 2, 2)
    assert kept(ledger)[f"1-{entry.hash}.tsr"] == made.token
    (authority.root.parent / "hash").write_text(entry.hash)
    given = ["-data", authority.root.parent / "hash", "-in", ledger.custody.time_stamps / f"1-{entry.hash}.tsr"]
    subprocess.run(["openssl", "ts", "-verify", *given, "-CAfile", authority.root], check=True, capture_output=True)


def test_without_an_authority_nothing_is_asked_and_nothing_kept(ledger: Ledger, authority: Authority) -> None:
    assert ledger.model_copy(update={"time_authority": ""}).stamp_head() is None
    assert (authority.queries, kept(ledger)) == ([], {})


WRONG = (
    *("another head", "another hash function", "an earlier answer", "another authority", "an expired certificate"),
    *("a certificate of later", "a certificate that looks alike", "an altered time", "an altered signature"),
    *("no stamp", "a refusal", "a grant without a stamp", "404"),
)


def answer_wrongly(wrong: str, authority: Authority, ledger: Ledger, folder: Path) -> Answer:
    own, elsewhere = authority.root.parent, folder / "elsewhere"
    digest = sha256(ledger.entries()[-1].hash.encode()).digest()
    spans = {"an expired certificate": (-2 * HOUR, -HOUR), "a certificate of later": (HOUR, 2 * HOUR)}
    certify(elsewhere, *spans.get(wrong, ()))
    if wrong in spans:
        authority.root.write_bytes(authority.root.read_bytes() + (elsewhere / "root.pem").read_bytes())
    if wrong == "an earlier answer":
        earlier = clock.ask(authority.address, clock.read_roots(authority.root), TimeStamp(1, ledger.entries()[0].hash))
        return lambda query: earlier.token

    def alter(query: bytes, place: bytes, at: int) -> bytes:
        answer = bytearray(stamp(own, query))
        position = answer.index(place) + at if at >= 0 else at
        answer[position] ^= 1
        return bytes(answer)

    answers: dict[str, Answer] = {
        "another head": lambda query: stamp(own, query.replace(digest, sha256(b"other").digest())),
        "another hash function": lambda query: stamp(
            # The same digest, but said to be of SHA3-256.
            own,
            query.replace(bytes.fromhex("608648016503040201"), bytes.fromhex("608648016503040208")),
        ),
        "another authority": partial(stamp, elsewhere),
        "an expired certificate": partial(stamp, elsewhere),
        "a certificate of later": partial(stamp, elsewhere),
        "a certificate that looks alike": lambda query: stamp(own, query, "-chain", "alike.pem"),
        # Of the year: 18 0f, the tag and the length of a time, come before it.
        "an altered time": lambda query: alter(query, b"\x18\x0f20", 5),
        "an altered signature": lambda query: alter(query, b"", -1),
        "no stamp": lambda query: SECRET.encode(),
        "a refusal": lambda query: bytes.fromhex("30053003020102"),
        "a grant without a stamp": lambda query: bytes.fromhex("30053003020100"),
        "404": lambda query: 404,
    }
    return answers[wrong]


@quick_cases(4)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_stamp_of_this_entry_for_this_request_is_refused_and_not_kept(
    wrong: str, ledger: Ledger, authority: Authority, tmp_path: Path
) -> None:
    """Wrong programs: omit a comparison: of digest, kind, nonce, chain, validity or signer."""
    root = authority.root.read_bytes()
    (authority.root.parent / "ts.cnf").write_text(
        (authority.root.parent / "ts.cnf").read_text().replace("sha256, sha512\n", "sha256, sha512, sha3-256\n")
    )
    try:
        authority.answer = answer_wrongly(wrong, authority, ledger, tmp_path)
        with pytest.raises(ClockError, match=clock.ADDRESS) as refusal:
            ledger.stamp_head()
    finally:
        authority.root.write_bytes(root)
    assert SECRET not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert kept(ledger) == {}


@pytest.mark.parametrize("status", [503, 429, None])
def test_an_authority_that_cannot_be_reached_is_asked_again_and_then_the_setting_is_named(
    status: int | None, ledger: Ledger, authority: Authority
) -> None:
    """Wrong programs: publish without the stamp, or give a refusal that is not retried."""
    if status is None:
        ledger = ledger.model_copy(update={"time_authority": "http://127.0.0.1:9/tsr"})
    answers: list[int | None] = [status, status]
    usual = authority.answer
    authority.answer = lambda query: answers.pop() or 500 if answers else usual(query)
    if status:
        assert ledger.stamp_head()
        assert len(authority.queries) == 3
        shutil.rmtree(ledger.custody.time_stamps)
        authority.answer = lambda query: status
    with pytest.raises(TransientError, match=clock.ADDRESS) as failure:
        ledger.stamp_head()
    assert SECRET not in str(failure.value)
    assert kept(ledger) == {}


def test_a_stamp_is_verified_for_the_time_at_which_it_was_made_and_against_what_is_stated(
    ledger: Ledger, authority: Authority, tmp_path: Path
) -> None:
    """Wrong program: makes a stamp that is worthless once the authority has another certificate."""
    root = certify(tmp_path / "brief", ends=timedelta(seconds=2))
    authority.answer = partial(stamp, root.parent)
    made = ledger.model_copy(update={"time_authority_root": str(root)}).stamp_head()
    assert made
    roots = clock.read_roots(root)
    for stated in ({"time": made.time and made.time - timedelta(seconds=1)}, {"authority": "Another clock"}):
        with pytest.raises(ClockError, match="another time or authority"):
            clock.verify(replace(made, **stated), roots)
    with pytest.raises(ClockError, match="is of another entry"):
        clock.verify(replace(made, hash="0" * 64), roots)
    with pytest.raises(ClockError, match=r"key.pem is not a file with the root certificate"):
        clock.read_roots(root.parent / "key.pem")
    time.sleep(2)
    assert clock.verify(made, roots) == made


def state(ledger: Ledger) -> dict[Path, bytes]:
    folders = Path(ledger.warehouse.folder), Path(ledger.custody.folder)
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("ledger.*")}


def set_back(earlier: dict[Path, bytes]) -> None:
    for path, content in earlier.items():
        path.write_bytes(content)


def test_a_ledger_that_was_set_back_with_its_anchor_is_found_by_a_stamp_and_charges_nothing(ledger: Ledger) -> None:
    """Wrong programs: check only the anchor, which is set back too, or only sequence numbers."""
    ledger.stamp_head()
    earlier = state(ledger)
    reserve(ledger, "second")
    second = ledger.stamp_head()
    assert second
    assert ledger.verify() == ()
    set_back(earlier)
    (problem,) = ledger.verify()
    assert problem.startswith("the ledger was set back or rebuilt: a time stamp is of entry 2 with the hash ")
    assert problem.endswith("and the ledger has 1 entries")
    with pytest.raises(LedgerError, match="set back or rebuilt"):
        reserve(ledger, "third")
    with pytest.raises(LedgerError, match="set back or rebuilt"):
        ledger.stamp_head()
    stamps = ledger.custody.time_stamps
    stamps.rename(stamps.with_name("hidden"))
    assert ledger.verify() == (), "without the stamps nothing shows it"
    reserve(ledger, "another second")
    stamps.with_name("hidden").rename(stamps)
    (problem,) = ledger.verify()
    assert problem.endswith("and the ledger has another one there")


def test_a_kept_stamp_that_was_altered_is_not_replaced(ledger: Ledger, authority: Authority) -> None:
    ledger.stamp_head()
    (path,) = ledger.custody.time_stamps.iterdir()
    path.write_bytes(b"altered")
    with pytest.raises(ClockError, match="the time stamp of entry 1 was altered"):
        ledger.stamp_head()
    assert (path.read_bytes(), len(authority.queries)) == (b"altered", 1)


def test_a_process_that_is_second_takes_the_stamp_of_the_first(
    ledger: Ledger, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[Any] = []

    def ask(*arguments: Any, ask: Any = clock.ask) -> TimeStamp:
        if not first:
            first.append(None)
            first[0] = ledger.stamp_head()
        return ask(*arguments)

    monkeypatch.setattr(clock, "ask", ask)
    assert ledger.stamp_head() == first[0]
    assert (len(authority.queries), len(kept(ledger))) == (2, 1)
