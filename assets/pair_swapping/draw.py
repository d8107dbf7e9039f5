"""The swapped records: drawn from the households, and stored without the keys of the records."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa

from assets.pair_swapping.records import original, read_households
from assets.pair_swapping.release import SWAPPED, SWAPPED_PERSONS, PairSwappingRelease
from mechanisms.pair_swapping.design import MECHANISM
from mechanisms.pair_swapping.pairing import NOBODY, Households, Swapped, swap_pairs
from mechanisms.sampling.stream import RandomStream
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Session

_UNITS = SQL("pair_swapping/units", "SELECT unit, {{ variables | ids }} FROM {{ moved }} ORDER BY unit")


@dataclass(frozen=True)
class SwappedRecords:
    """The output of a draw.

    Attributes:
        tables: by name, the units and persons after the exchange, staged in the session of the draw.
        version: their content hash.
        households: the households that could be swapped; confidential.
        swapped: who was selected, and who exchanged with whom; confidential.
    """

    tables: Mapping[str, Fragment]
    version: str
    households: Households
    swapped: Swapped


def drawn_records(session: Session, release: PairSwappingRelease, key: bytes) -> SwappedRecords:
    """The output of the draw with this key, from the stored households and the CEF."""
    households, keys = read_households(session, release)
    swapped = swap_pairs(households, release.design.swap_rate, RandomStream(key, MECHANISM))
    moving = np.flatnonzero(swapped.partner != NOBODY)
    moves = pa.table({"unit_key": keys[moving], "partner_key": keys[swapped.partner[moving]]})
    units, persons = release.dataset.cef_tables()
    moved = session.stage(
        "moved",
        "pair_swapping/moved",
        records=original(session, release),
        units=units,
        moves=session.register("moves", moves),
        key=release.key_column,
        place=list(release.design.place),
        held=[name for name in release.variables if name not in release.design.place],
    )
    tables = {
        SWAPPED: session.stage(SWAPPED, _UNITS, moved=moved, variables=list(release.variables)),
        SWAPPED_PERSONS: session.stage(
            SWAPPED_PERSONS,
            "pair_swapping/persons",
            moved=moved,
            persons=persons,
            key=release.key_column,
            variables=list(release.person_variables),
        ),
    }
    return SwappedRecords(tables, _version(session, release, tables), households, swapped)


def write_records(session: Session, release: PairSwappingRelease, output: SwappedRecords) -> None:
    for name, table in output.tables.items():
        session.create(release.public(name), "warehouse/all", source=table)


def stored_version(session: Session, release: PairSwappingRelease) -> str | None:
    """The content hash of the stored output; None if it is missing or has other columns."""
    tables = {name: release.public(name) for name in (SWAPPED, SWAPPED_PERSONS)}
    for name, table in tables.items():
        if list(session.columns(table)) != _columns(release)[name]:
            return None
    return _version(session, release, tables)


def _columns(release: PairSwappingRelease) -> dict[str, list[str]]:
    return {SWAPPED: ["unit", *release.variables], SWAPPED_PERSONS: ["unit", *release.person_variables]}


def _version(session: Session, release: PairSwappingRelease, tables: Mapping[str, Fragment | Table]) -> str:
    content = []
    for name, columns in _columns(release).items():
        row = session.row("warehouse/multiset_hash", {"salt": ""}, table=tables[name], columns=columns)
        content.append([name, columns, [str(number) for number in row]])
    return sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
