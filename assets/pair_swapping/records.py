"""The confidential households in the form that the mechanism takes, and the asset that codes them."""

from collections.abc import Callable

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.conventions import StageKind
from assets.pair_swapping.release import ADULT, HOUSEHOLDS, PairSwappingRelease
from assets.release.dataset import CEF
from assets.release.stage import build_stage
from mechanisms.pair_swapping.pairing import Households, Places
from resources.custody import Custody
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

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


def build_households(
    release: PairSwappingRelease, version_of: Callable[[Session, Custody], str]
) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "households"]`.

    Args:
        version_of: returns the keyed version of all that a draw is made from.
    """
    return build_stage(
        release,
        HOUSEHOLDS,
        StageKind.COUNTS,
        "The households that may be swapped, as codes: where they are, who can be their partner, and their values of "
        f"the key variables ({', '.join(release.design.key)}). Confidential: the charge lets out only a keyed version "
        "of the records, which becomes part of the draw id.",
        [CEF],
        lambda session: {release.confidential(HOUSEHOLDS): households_recipe(session, release)},
        HOUSEHOLD_COLUMNS,
        version=lambda session, tables, custody: version_of(session, custody),
        publishes_version=True,
    )


def with_persons(
    session: Session, release: PairSwappingRelease, name: str, units: Table, persons: Table, key: str
) -> Fragment:
    """Stage units with the numbers of adults and minors, their persons as one text, and whether they may be swapped.

    Args:
        units: the units of the CEF, or those after the exchange.
        key: the column of both that identifies the unit.
    """
    imputed = release.declaration.imputed
    return session.stage(
        name,
        "pair_swapping/with_persons",
        {"adult": ADULT, **({"imputed": list(imputed.values)} if imputed else {})},
        units=units,
        persons=persons,
        key=key,
        person_variables=sorted(release.person_variables),
        imputed=imputed.column if imputed else "",
    )


def original(session: Session, release: PairSwappingRelease) -> Fragment:
    units, persons = release.dataset.cef_tables()
    return with_persons(session, release, "original", units, persons, release.key_column)


def households_recipe(session: Session, release: PairSwappingRelease) -> Recipe:
    names = {
        "records": original(session, release),
        "key": release.key_column,
        "key_variables": list(release.design.key),
    }
    return "pair_swapping/households", {}, names


def read_households(session: Session, release: PairSwappingRelease) -> tuple[Households, np.ndarray]:
    """The coded households as the mechanism takes them, and their keys."""
    stored = session.arrow("pair_swapping/in_order", households=release.confidential(HOUSEHOLDS))
    return as_households(stored), stored["unit_key"].to_numpy()


def as_households(stored: pa.Table) -> Households:
    """The households of a table with the columns of `HOUSEHOLD_COLUMNS`, in order of block."""
    column = {name: stored[name].to_numpy() for name in stored.column_names if name != "unit_key"}
    block = column["block"]
    firsts = np.flatnonzero(np.concatenate([np.ones(min(1, len(block)), dtype=bool), block[1:] != block[:-1]]))
    levels = ("block_group", "tract", "county", "state")
    above = np.stack([column[name][firsts] for name in levels])
    return Households(block, column["partners"], column["key_values"], Places(above))
