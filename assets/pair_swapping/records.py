"""The households in the mechanism's form, and the swapped records: drawn, stored and published.

The swapped records are stored without their keys. `assets.pair_swapping.method` has the recipes of the products.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from assets.pair_swapping.release import ADULT, HOUSEHOLDS, SWAPPED, SWAPPED_PERSONS, PairSwappingRelease
from assets.release.published import Product, PublishedColumn, PublishedTable, describe_column
from mechanisms.pair_swapping.design import MECHANISM
from mechanisms.pair_swapping.pairing import (
    NOBODY,
    Households,
    Places,
    Swapped,
    Traits,
    Weights,
    risks,
    swap_pairs,
    weigh,
)
from mechanisms.sampling.stream import RandomStream
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Recipe, Session

UNIT = PublishedColumn("unit", "integer", "Number of the unit, from 1; the order is by content, not that of any file")

IN_ORDER = SQL("pair_swapping/in_order", "SELECT * FROM {{ households }} ORDER BY block, unit_key")
_UNITS = SQL("pair_swapping/numbered_units", "SELECT unit, {{ variables | ids }} FROM {{ moved }} ORDER BY unit")

HOUSEHOLD_COLUMNS = {
    "unit_key": "Key of the unit",
    "block": "Number of the block",
    "block_group": "Number of the block group",
    "tract": "Number of the tract",
    "county": "Number of the county",
    "state": "Number of the state",
    "partners": "Number of the combination of state, adults, minors and tenure, which partners share",
    "key_values": "Number of the combination of values of the key variables",
}

TRAIT_COLUMNS = {
    "block_households": "Number of households in the block",
    "block_imputed": "How many of them are imputed",
    "unique_race": "1 if a person has a race that no other unit of the block has",
    "imputed_items": "The declared number of imputed items",
}
"""The further columns if risk factors are declared."""


def stage_units(session: Session, release: PairSwappingRelease, *, swapped: bool = False) -> Fragment:
    """Stage units with their numbers of adults and minors, their persons as one text, and whether they may be
    swapped."""
    units, persons = release.dataset.cef_tables()
    if swapped:
        units, persons = release.public(SWAPPED), release.public(SWAPPED_PERSONS)
    imputed = release.declaration.imputed
    return session.stage(
        "after" if swapped else "original",
        "pair_swapping/units",
        {"adult": ADULT, **({"imputed": list(imputed.values)} if imputed else {})},
        units=units,
        persons=persons,
        key="unit" if swapped else release.key_column,
        person_variables=sorted(release.person_variables),
        imputed=imputed.column if imputed else "",
    )


def households_recipes(release: PairSwappingRelease, session: Session) -> dict[Table, Recipe]:
    names = {"records": stage_units(session, release), "key": release.key_column}
    names["key_variables"] = list(release.design.key)
    factors = release.design.risk_factors
    if factors.as_record():
        (race, _), (items, _) = factors.unique_race or ("", None), factors.imputed_items or ("", None)
        units, persons = release.dataset.cef_tables()
        names |= {"traits": True, "race": race, "items": items, "units": units, "persons": persons}
    return {release.confidential(HOUSEHOLDS): ("pair_swapping/households", {}, names)}


def as_households(stored: pa.Table) -> Households:
    """The households of a table with the columns of `HOUSEHOLD_COLUMNS`, in order of block."""
    column = {name: stored[name].to_numpy() for name in HOUSEHOLD_COLUMNS if name != "unit_key"}
    block = column["block"]
    firsts = np.flatnonzero(np.diff(block, prepend=-1))
    above = np.stack([column[name][firsts] for name in ("block_group", "tract", "county", "state")])
    return Households(block, column["partners"], column["key_values"], Places(above))


def as_weights(stored: pa.Table, households: Households, release: PairSwappingRelease) -> Weights | None:
    """The weights of the households of a table, from the declared risk factors; None if there are none."""
    factors = release.design.risk_factors
    if not factors.as_record():
        return None
    return weigh(factors, Traits(*(stored[name].to_numpy() for name in TRAIT_COLUMNS)), risks(households))


@dataclass(frozen=True)
class SwappedRecords:
    """The output of a draw: units and persons after the exchange, staged in the session that made it, with their
    content hash; and the households that could be swapped, the selection and the pairs, which are confidential."""

    tables: Mapping[str, Fragment]
    version: str
    households: Households
    swapped: Swapped
    weights: Weights | None = None


def draw_records(session: Session, release: PairSwappingRelease, key: bytes) -> SwappedRecords:
    stored = session.arrow(IN_ORDER, households=release.confidential(HOUSEHOLDS))
    households, keys = as_households(stored), stored["unit_key"].to_numpy()
    weights = as_weights(stored, households, release)
    swapped = swap_pairs(households, release.design.swap_rate, RandomStream(key, MECHANISM), weights)
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
    return SwappedRecords(tables, _version(session, release, tables), households, swapped, weights)


def stored_version(session: Session, release: PairSwappingRelease) -> str | None:
    """The content hash of the stored output; None if it is missing or has other columns."""
    tables = {name: release.public(name) for name in (SWAPPED, SWAPPED_PERSONS)}
    columns = {name: list(session.columns(table)) for name, table in tables.items()}
    return _version(session, release, tables) if columns == _columns(release) else None


def stored_earlier_version(session: Session, release: PairSwappingRelease) -> str:
    """The content hash in its earlier form, by sums of hashes of rows, for older settlements. It is weak: by choosing
    the swaps of ten thousand households, an attacker can find other records with the same sums in ten minutes."""
    return _hash_tables(
        release, lambda name, columns: list(map(str, session.sum_digests(release.public(name), columns)))
    )


def _columns(release: PairSwappingRelease) -> dict[str, list[str]]:
    return {SWAPPED: ["unit", *release.variables], SWAPPED_PERSONS: ["unit", *release.person_variables]}


def _version(session: Session, release: PairSwappingRelease, tables: Mapping[str, Fragment | Table]) -> str:
    return _hash_tables(release, lambda name, _: session.hash_sorted(tables[name]))


def _hash_tables(release: PairSwappingRelease, hash_rows: Callable[[str, list[str]], Any]) -> str:
    content = [[name, columns, hash_rows(name, columns)] for name, columns in _columns(release).items()]
    return sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def published_tables(release: PairSwappingRelease) -> list[PublishedTable]:
    units = "Every unit, with the place that it has after swapping."
    persons = "Every person, with the number of the unit that the person lives in."
    records = []
    for name, title, words, variables, key in (
        (SWAPPED, "Units after swapping", units, release.variables, ("unit",)),
        (SWAPPED_PERSONS, "Persons after swapping", persons, release.person_variables, ()),
    ):
        columns = (describe_column(column, declared) for column, declared in variables.items())
        records.append(PublishedTable(name, title, words, release.public(name), (UNIT, *columns), key))
    return [*records, *(_describe_product(release, product) for product in release.declaration.products)]


def _describe_product(release: PairSwappingRelease, product: Product) -> PublishedTable:
    variables = release.columns_of(product)
    return PublishedTable(
        product.name,
        product.title or product.name,
        f"{product.description} Counted from the swapped records; combinations that do not occur have no row.".strip(),
        release.public(product.table),
        (
            *(describe_column(name, variables[name]) for name in product.columns),
            PublishedColumn("count", "integer", f"Number of {product.of} after swapping", unit=product.of),
        ),
        product.columns,
        geography=tuple(product.geography),
    )
