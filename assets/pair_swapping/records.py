"""The confidential households in the form that the mechanism takes, and the asset that codes them."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.conventions import StageKind, attributes, table_schema
from assets.failures import stated_plainly
from assets.pair_swapping.release import ADULT, HOUSEHOLDS, SWAPPED, SWAPPED_PERSONS, PairSwappingRelease
from assets.release.contents import counted_from
from assets.release.draw import publish_version
from mechanisms.pair_swapping.pairing import Households, Places
from resources.custody import Custody
from resources.statements import SQL, Fragment, Zone
from resources.warehouse import Recipe, Session, Warehouse

_IN_ORDER = SQL("pair_swapping/in_order", "SELECT * FROM {{ households }} ORDER BY block, unit_key")

CODE_VERSION = "1"
VERSION_TABLE = f"{HOUSEHOLDS}_version"

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
    """The asset `[dataset, release, "households"]`; `version_of` keys all that a draw is made from."""

    @dg.asset(
        key=release.key(HOUSEHOLDS),
        deps=[release.dataset_key("cef")],
        group_name=release.schema,
        description=(
            "The households that may be swapped, as codes: where they are, who can be their partner, and their values "
            f"of the key variables ({', '.join(release.design.key)}). Confidential: the charge lets out only a keyed "
            "version of the records, which becomes part of the draw id."
        ),
        code_version=CODE_VERSION,
        **attributes(StageKind.COUNTS, Zone.CONFIDENTIAL, {"duckdb", "sql"}),
    )
    @stated_plainly(StageKind.COUNTS)
    def households(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        table = release.confidential(HOUSEHOLDS)
        with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            with session.transaction():
                name, values, names = households_recipe(session, release)
                session.create(table, name, values, **names)
            version = version_of(session, custody)
            counted = counted_from(session, custody, release.dataset, counted_with(release))
            schema = table_schema(session.columns(table), HOUSEHOLD_COLUMNS)
        publish_version(warehouse, custody, release, HOUSEHOLDS, release.public(VERSION_TABLE), version, counted)
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata={"dagster/column_schema": schema})

    return households


def counted_with(release: PairSwappingRelease) -> dict[str, Any]:
    """The parameters that the coded households follow from."""
    return {"key": list(release.design.key), "imputed": imputed_record(release)}


def imputed_record(release: PairSwappingRelease) -> dict[str, Any] | None:
    """Which households are imputed, as plain values that are equal if they mean the same."""
    imputed = release.declaration.imputed
    return {"column": imputed.column, "values": sorted(imputed.values)} if imputed else None


def stage_units(session: Session, release: PairSwappingRelease, *, swapped: bool = False) -> Fragment:
    """Stage units with the numbers of adults and minors, their persons as one text, and whether they may be swapped."""
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


def households_recipe(session: Session, release: PairSwappingRelease) -> Recipe:
    names = {"records": stage_units(session, release), "key": release.key_column}
    return "pair_swapping/households", {}, names | {"key_variables": list(release.design.key)}


def read_households(session: Session, release: PairSwappingRelease) -> tuple[Households, np.ndarray]:
    """The coded households as the mechanism takes them, and their keys."""
    stored = session.arrow(_IN_ORDER, households=release.confidential(HOUSEHOLDS))
    return as_households(stored), stored["unit_key"].to_numpy()


def as_households(stored: pa.Table) -> Households:
    """The households of a table with the columns of `HOUSEHOLD_COLUMNS`, in order of block."""
    column = {name: stored[name].to_numpy() for name in stored.column_names if name != "unit_key"}
    block = column["block"]
    firsts = np.flatnonzero(np.diff(block, prepend=-1))
    above = np.stack([column[name][firsts] for name in ("block_group", "tract", "county", "state")])
    return Households(block, column["partners"], column["key_values"], Places(above))
