"""The swapped records: drawn from the households, stored without the keys of the records, and published with products.

The asset `tables` makes the products, as `assets.pair_swapping.method` says.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa

from assets.pair_swapping.records import read_households, stage_units
from assets.pair_swapping.release import SWAPPED, SWAPPED_PERSONS, PairSwappingRelease
from assets.release.published import PublishedColumn, PublishedTable
from assets.tabulation.declaration import Product
from assets.tabulation.dictionary import published_column
from mechanisms.pair_swapping.design import MECHANISM
from mechanisms.pair_swapping.pairing import NOBODY, Households, Swapped, swap_pairs
from mechanisms.sampling.stream import RandomStream
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Session

UNIT = PublishedColumn("unit", "integer", "Number of the unit, from 1; the order is by content, not that of any file")

_UNITS = SQL("pair_swapping/numbered_units", "SELECT unit, {{ variables | ids }} FROM {{ moved }} ORDER BY unit")


@dataclass(frozen=True)
class SwappedRecords:
    """The output of a draw.

    Attributes:
        tables: by name, the units and persons after the exchange, staged in the session of the draw.
        version: their content hash.
        households, swapped: who could be swapped, was selected and exchanged with whom; confidential.
    """

    tables: Mapping[str, Fragment]
    version: str
    households: Households
    swapped: Swapped


def draw_records(session: Session, release: PairSwappingRelease, key: bytes) -> SwappedRecords:
    """The output of the draw with this key, from the stored households and the CEF."""
    households, keys = read_households(session, release)
    swapped = swap_pairs(households, release.design.swap_rate, RandomStream(key, MECHANISM))
    moving = np.flatnonzero(swapped.partner != NOBODY)
    moves = pa.table({"unit_key": keys[moving], "partner_key": keys[swapped.partner[moving]]})
    units, persons = release.dataset.cef_tables()
    moved = session.stage(
        "moved",
        "pair_swapping/moved",
        records=stage_units(session, release),
        units=units,
        moves=session.register("moves", moves),
        key=release.key_column,
        place=list(release.design.place),
        kept=release.kept_variables,
    )
    names = {"persons": persons, "key": release.key_column, "variables": list(release.person_variables)}
    tables = {
        SWAPPED: session.stage(SWAPPED, _UNITS, moved=moved, variables=list(release.variables)),
        SWAPPED_PERSONS: session.stage(SWAPPED_PERSONS, "pair_swapping/persons", moved=moved, **names),
    }
    return SwappedRecords(tables, _version(session, release, tables), households, swapped)


def write_records(session: Session, release: PairSwappingRelease, output: SwappedRecords) -> None:
    for name, table in output.tables.items():
        session.create(release.public(name), "warehouse/all", source=table)


def stored_version(session: Session, release: PairSwappingRelease) -> str | None:
    """The content hash of the stored output; None if it is missing or has other columns."""
    tables = {name: release.public(name) for name in (SWAPPED, SWAPPED_PERSONS)}
    columns = {name: list(session.columns(table)) for name, table in tables.items()}
    return _version(session, release, tables) if columns == _columns(release) else None


def _columns(release: PairSwappingRelease) -> dict[str, list[str]]:
    return {SWAPPED: ["unit", *release.variables], SWAPPED_PERSONS: ["unit", *release.person_variables]}


def _version(session: Session, release: PairSwappingRelease, tables: Mapping[str, Fragment | Table]) -> str:
    content = []
    for name, columns in _columns(release).items():
        sums = session.row("warehouse/multiset_hash", {"salt": ""}, table=tables[name], columns=columns)
        content.append([name, columns, list(map(str, sums))])
    return sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def published_tables(release: PairSwappingRelease) -> list[PublishedTable]:
    """The swapped records, and the products."""
    words = {
        SWAPPED: ("Units after swapping", "Every unit, with the place that it has after swapping.", ("unit",)),
        SWAPPED_PERSONS: (
            "Persons after swapping",
            "Every person, with the number of the unit that the person lives in.",
            (),
        ),
    }
    variables = {SWAPPED: release.variables, SWAPPED_PERSONS: release.person_variables}
    records = []
    for name, (title, description, key) in words.items():
        columns = (published_column(column, declared) for column, declared in variables[name].items())
        records.append(PublishedTable(name, title, description, release.public(name), (UNIT, *columns), key))
    return [*records, *(_describe_product(release, product) for product in release.declaration.products)]


def _describe_product(release: PairSwappingRelease, product: Product) -> PublishedTable:
    variables = release.columns_of(product)
    return PublishedTable(
        product.name,
        product.title or product.name,
        f"{product.description} Counted from the swapped records; combinations that do not occur have no row.".strip(),
        release.public(product.table),
        (
            *(published_column(name, variables[name]) for name in product.columns),
            PublishedColumn("count", "integer", f"Number of {product.of} after swapping"),
        ),
        product.columns,
    )
