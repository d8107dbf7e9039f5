"""The sums of the answers of the finest places for `information`, made during the draw, so that `information` does not
read all measurements again.

`mechanisms.topdown.information` defines which places are of one *kind*. Their answers are added up as integers, so that
information is the same from sums as from answers. Sums are stored in one transaction with the measurements. A sealed
account records their draw, regions and answers, and the hashes of the sums. The reader compares all of them, and reads
the answers instead if any differs, or if the draw made no sums. Sums are dropped once all information is made, because
only `information` reads them and no gate would check them.

Sums follow only from the noisy measurements and public tables.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.measurement.method import MEASUREMENTS
from assets.release.account import account_of, read_account, store_account
from assets.topdown.invariants import derive_limits, read_state_region
from assets.topdown.measurements import Part, Stream, encode_answers
from assets.topdown.release import TopDownRelease
from assets.topdown.spine import read_states, read_tree
from mechanisms.topdown.design import Measured
from mechanisms.topdown.estimation import Measurement
from mechanisms.topdown.information import Kinds, MeasuredKinds, add_up_kinds, list_kinds
from resources.arrays import read_lists, to_lists
from resources.custody import Custody
from resources.parts import store_parts
from resources.statements import Table
from resources.warehouse import Session

SUMS = f"{MEASUREMENTS}_sums"

SCHEMA = pa.schema(
    [("histogram", pa.string()), ("parent", pa.int64()), ("kind", pa.int64()), ("sums", pa.list_(pa.int32()))]
)
"""A row for each kind, numbered within its part, with the sums of the answers to all queries in turn."""

RULE = 1
"""Increase it when the kinds of places or the addition of answers change. Sums by another rule are not read."""

_STORED = {"histogram": "VARCHAR", "parent": "BIGINT", "kind": "BIGINT", "sums": "INTEGER[]"}


class AlteredSumsError(Exception):
    """The stored sums do not match their account."""


@dataclass(frozen=True)
class SumsAccount:
    """The account of stored sums.

    Attributes:
        draw_id: the draw of the sums.
        regions: by code of the state, the digest of its spine and invariants, which determine the kinds.
        answers: by label, the SHA-256 of the answers of each stream in the sums.
        sums: by label of the first stream of a part, the SHA-256 of its sums.
        rule: the version of the rule of kinds.
    """

    draw_id: str
    regions: dict[str, str]
    answers: dict[str, str]
    sums: dict[str, str]
    rule: int = RULE


@dataclass(frozen=True)
class _Stored:
    """The account as JSON."""

    account: str


@dataclass(frozen=True)
class Summed:
    """The grouping of a part of the draw: the kinds of its places, and the parent of the first place."""

    region: str
    parent: int
    kinds: Kinds


class SumsDigest:
    """The SHA-256 of the sums of a part, independent of the batch size."""

    def __init__(self) -> None:
        self._digest = sha256()

    def add(self, sums: NDArray[np.signedinteger]) -> None:
        self._digest.update(encode_answers(sums))

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


class Adding:
    """The sums of a part of the draw, updated as its answers arrive."""

    def __init__(self, part: Part, summed: Summed) -> None:
        self._part, self._summed = part, summed
        self._columns = np.cumsum([0, *(stream.measured.marginal.size for stream in part.streams)]).tolist()
        self._first, self._waiting, self._digest, self._fit = 0, self._zeros(0), SumsDigest(), True

    def _zeros(self, kinds: int) -> NDArray[np.int64]:
        return np.zeros((kinds, self._columns[-1]), dtype=np.int64)

    def add(self, first: int, last: int, answers: Mapping[Stream, NDArray[np.int32]]) -> pa.Table:
        """Add the answers of the next places, and return the rows of the parents that are then complete."""
        kinds = self._summed.kinds
        own = kinds.of_child[first - self._part.first : last - self._part.first]
        parent = kinds.parents[own[-1]]
        begin, end = (int(kind) for kind in np.searchsorted(kinds.parents, [parent, parent + 1]))
        further = kinds.of_child[last - self._part.first :][:1]
        done = begin if further.size and kinds.parents[further[0]] == parent else end
        sums = self._zeros(end - self._first)
        sums[: len(self._waiting)] = self._waiting
        for column, stream in zip(self._columns, self._part.streams, strict=False):
            add_up_kinds(own - self._first, answers[stream], sums, column)
        number = np.arange(self._first, done)
        finished, self._waiting, self._first = sums[: len(number)], sums[len(number) :], done
        self._fit = self._fit and abs(finished).max(initial=0) <= np.iinfo(np.int32).max
        stored = finished.astype(np.int32)
        self._digest.add(stored)
        histogram = pa.repeat(self._part.level[0], len(number))
        columns = [histogram, self._summed.parent + kinds.parents[number], number, to_lists(stored)]
        return pa.table(columns, schema=SCHEMA)

    def hexdigest(self) -> str:
        """The digest of all sums; empty if a sum exceeds 32 bits, so that none can be kept."""
        return self._digest.hexdigest() if self._fit else ""


def sums_tables(release: TopDownRelease, state: str = "") -> tuple[Table, Table]:
    """The tables of the sums and of their account; with a state, the state's tables."""
    table = release.public(release.of_state(SUMS, state))
    return table, account_of(table)


def find_summed(session: Session, release: TopDownRelease, part: Part) -> Summed | None:
    """The grouping of a part; None unless its sums are kept, for the run that makes information from them."""
    histogram, level = part.level
    state, informs = part.state, release.design.full and (not release.partitioned or release.informs_by_state)
    if level != release.finest or state is None or not informs:
        return None
    tree = read_tree(session, release)
    region = read_state_region(session, release, tree, read_states(session, release).index(state))
    starts = tree.starts(level)
    first, last = np.searchsorted(starts, [part.first, part.last])
    limits = derive_limits(release, region)[histogram][-1]
    kinds = list_kinds(release.design.schemas[histogram], starts[first : last + 1] - part.first, limits)
    return Summed(region.digest, int(first), kinds)


def store_sums(
    session: Session,
    custody: Custody | None,
    release: TopDownRelease,
    account: SumsAccount | None,
    files: Sequence[Path],
    state: str = "",
) -> None:
    """Store the sums, all or those of one state, with their account; without an account, drop the sums of an earlier
    draw."""
    table, _ = sums_tables(release, state)
    if account is None or custody is None:
        drop_sums(session, release, state)
        return
    store_parts(session, table, files)
    store_account(session, custody, table, _Stored(json.dumps(vars(account))))


def drop_sums(session: Session, release: TopDownRelease, state: str = "") -> None:
    for each in sums_tables(release, state):
        session.drop(each)


def read_sums_account(
    session: Session,
    custody: Custody,
    release: TopDownRelease,
    draw_id: str,
    regions: Mapping[str, str],
    state: str = "",
) -> SumsAccount | None:
    """The account of the stored sums, all or those of one state; None unless it names this draw, the current rule, and
    these digests by state code."""
    table, _ = sums_tables(release, state)
    stored = read_account(session, custody, table, _Stored)
    if session.columns(table) != _STORED or stored is None:
        return None
    fields = json.loads(stored.account)
    if fields.get("rule") != RULE:
        return None
    account = SumsAccount(**fields)
    return account if account.draw_id == draw_id and regions.items() <= account.regions.items() else None


def read_sums(
    session: Session,
    release: TopDownRelease,
    measured: Sequence[Measured],
    parent: int,
    kinds: Kinds,
    digest: SumsDigest,
    state: str = "",
) -> MeasuredKinds:
    """The stored sums, by query of one histogram, of the kinds below the parents from the number `parent`. Adds them to
    `digest`. With a state, its own table is read. Raises AlteredSumsError unless each parent has all its kinds."""
    table, _ = sums_tables(release, state)
    last = parent + int(kinds.parents[-1]) + 1
    values = {"histogram": measured[0].histogram, "first": parent, "last": last}
    rows = session.arrow("topdown/sums", values, sums=table)
    columns = np.cumsum([0, *(query.marginal.size for query in measured)]).tolist()
    try:
        sums = read_lists(rows["sums"], columns[-1])
    except ValueError:
        raise AlteredSumsError from None
    if not np.array_equal(rows["parent"], parent + kinds.parents):
        raise AlteredSumsError
    digest.add(sums)
    measurements = (
        Measurement(query.query, query.variance, sums[:, first : first + query.marginal.size])
        for query, first in zip(measured, columns, strict=False)
    )
    return MeasuredKinds(kinds.parents, tuple(measurements))
