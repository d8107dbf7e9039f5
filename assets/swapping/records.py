"""The confidential records in the form that the swapping mechanism takes.

This module converts the CEF to a contingency table of codes, and computes the keyed version of that table. The records'
keys are not passed on from here.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from assets.release.contents import with_recodes
from assets.release.draw import StaleInputError
from assets.swapping.release import SwappingRelease
from mechanisms.swapping.permutation import Contingency, count_cells
from resources.custody import Custody
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Session

_STRATA_BY_CODE = SQL("swapping/strata_by_code", "SELECT stratum FROM {{ holding }} ORDER BY holding_code")

HOLDING, SWAPPING, COMPOSITIONS, RECORDS = "invariant_holding", "invariant_swap", "invariant_persons", "records"
HOLDING_VALUES = "holding_values"
"""All combinations of holding values that records may have after noise; they follow from the declared domains."""

CEF_CHANGED = "{release}: the CEF has changed since the invariants were computed; materialize them again"

_RECORDS_AT_A_TIME = 1_000_000


def stage_records(session: Session, release: SwappingRelease) -> Fragment | Table:
    """Stage the records to be swapped: their variables and, for units with persons, their `composition`."""
    dataset, (units, *others) = release.dataset, release.dataset.cef_tables()
    if dataset.persons is None or not (release.swaps_persons or release.has_persons_following):
        return units
    names: dict[str, Any] = {
        "units": units,
        "persons": others[0],
        "key": dataset.units.key,
        "unit": dataset.persons.unit,
    }
    if not release.swaps_persons:
        names |= {"variables": list(release.variables), "person_variables": sorted(release.person_variables)}
        return session.stage("records", "swapping/households", **names)
    for role, table in (("unit_variables", dataset.units), ("person_variables", dataset.persons)):
        names[role] = [name for name in table.variables if name in release.variables]
    return session.stage("records", "swapping/persons_as_records", **names)


def holding_variables(release: SwappingRelease) -> list[str]:
    """The holding variables, with the persons of a record as one text if they follow their unit."""
    return [*release.design.holding, *(["composition"] if release.has_persons_following else [])]


def swap_variables(release: SwappingRelease) -> list[str]:
    """The variables of a swap code: the match variables of the last stir, then the swap variables."""
    return [*release.design.fixed, *release.design.swap]


def holding_table(release: SwappingRelease) -> Table:
    """The table that numbers holding values: their margin, or with noise all that records may get."""
    return release.public(HOLDING_VALUES if release.design.noise else HOLDING)


def stage_margins(session: Session, release: SwappingRelease, records: Fragment | Table) -> dict[str, Fragment]:
    """Count the margins from the records, by the name of the table that publishes each; with noise, only `SWAPPING`."""
    variables = {
        HOLDING: ("holding_code", holding_variables(release)),
        SWAPPING: ("swap_code", swap_variables(release)),
    }
    if release.design.noise:
        del variables[HOLDING]
    match = list(release.design.fixed)
    return {
        table: session.stage(
            f"margin_of_{table}", "swapping/margin", records=records, code=code, match=match, variables=columns
        )
        for table, (code, columns) in variables.items()
    }


def codebooks(release: SwappingRelease) -> dict[str, Any]:
    """The identifiers of statements that join the margins as codebooks, and the variables to join on."""
    return {
        "holding": holding_table(release),
        "swapping": release.public(SWAPPING),
        "holding_variables": holding_variables(release),
        "swap_variables": swap_variables(release),
    }


def read_contingency(
    session: Session,
    release: SwappingRelease,
    records: Fragment | Table,
    margins: Mapping[str, Fragment | Table] | None = None,
) -> Contingency:
    """The contingency table of the records, in the codes of their margins.

    Args:
        margins: `holding` and `swapping`; without it, those that the stage invariants stored.

    Raises:
        StaleInputError: if a record has values that do not occur in the margins.
    """
    names = codebooks(release) | dict(margins or {})
    (records_there,) = session.row("warehouse/count", table=records)
    keys, read = np.empty(records_there, dtype=np.int64), 0
    for batch in session.batches("swapping/keys", _RECORDS_AT_A_TIME, records=records, **names):
        first, read = read, read + batch.num_rows
        if read > records_there:
            break
        keys[first:read] = batch.column(0).to_numpy()
    if read != records_there:
        raise StaleInputError(CEF_CHANGED.format(release=release.schema))
    holding, swap, count = count_cells(keys)
    strata = session.arrow(_STRATA_BY_CODE, holding=names["holding"])["stratum"].to_numpy()
    return Contingency(strata[holding], holding, swap, count)


def version_key(release: SwappingRelease, custody: Custody) -> bytes:
    return with_recodes(custody.version_key(), release.dataset.recodes(release.columns_read))


def cells_version(table: Contingency, key: bytes | None) -> str:
    """The version of a contingency table: the SHA-256 of its codes and counts, in their fixed order.

    Args:
        table: the table. The version does not cover the codebooks that define its codes; use it with their versions.
        key: the custody's version key, for an HMAC, if the table counts records; None if it is a draw's output.
    """
    digest = hmac.new(key, digestmod=sha256) if key else sha256()
    for column in (table.stratum, table.holding, table.swap, table.count):
        digest.update(len(column).to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()
