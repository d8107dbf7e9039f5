"""The confidential records in the form that the swapping mechanism takes.

This module converts the CEF to a contingency table of codes, and computes the keyed version of that table. The records'
keys are not passed on from here.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from assets.release.draw import StaleInputError
from assets.swapping.release import SwappingRelease
from mechanisms.swapping.permutation import Contingency, count_cells
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Session

_STRATA_BY_CODE = SQL("swapping/strata_by_code", "SELECT stratum FROM {{ holding }} ORDER BY holding_code")

HOLDING, SWAPPING, COMPOSITIONS, RECORDS = "invariant_holding", "invariant_swap", "invariant_persons", "records"
HOLDING_VALUES = "holding_values"
"""All combinations of holding values that records may have after noise; they follow from the declared domains."""

_RECORDS_AT_A_TIME = 1_000_000


def stage_records(session: Session, release: SwappingRelease) -> Fragment | Table:
    """Stage the records to be swapped: their variables and, for units with persons, their `composition`."""
    units = release.dataset.cef_tables()[0]
    if release.dataset.persons is None or not (release.swaps_persons or release.has_persons_following):
        return units
    names: dict[str, Any] = {
        "units": units,
        "persons": release.dataset.cef_tables()[1],
        "key": release.dataset.units.key,
        "unit": release.dataset.persons.unit,
    }
    if release.swaps_persons:
        unit_variables, person_variables = (
            [name for name in table.variables if name in release.variables]
            for table in (release.dataset.units, release.dataset.persons)
        )
        return session.stage(
            "records",
            "swapping/persons_as_records",
            unit_variables=unit_variables,
            person_variables=person_variables,
            **names,
        )
    person_variables = sorted(release.person_variables)
    return session.stage(
        "records", "swapping/households", variables=list(release.variables), person_variables=person_variables, **names
    )


def holding_variables(release: SwappingRelease) -> list[str]:
    """The holding variables of a record, including its persons if they follow their unit."""
    return [*release.design.holding, *(["composition"] if release.has_persons_following else [])]


def swap_variables(release: SwappingRelease) -> list[str]:
    """The variables that a swap code stands for: match variables (of the last stir), then the swap variables."""
    return [*release.design.fixed, *release.design.swap]


def holding_table(release: SwappingRelease) -> Table:
    """The table that numbers holding values: their margin, or with noise all that records may get."""
    return release.public(HOLDING_VALUES if release.design.noise else HOLDING)


def margin_statements(release: SwappingRelease, records: Fragment | Table) -> dict[str, dict[str, Any]]:
    """For each margin, the identifiers of the statement `swapping/margin` that counts it from the records."""
    match = list(release.design.fixed)
    swapping = {"records": records, "code": "swap_code", "match": match, "variables": swap_variables(release)}
    if release.design.noise:
        return {SWAPPING: swapping}
    holding = {"records": records, "code": "holding_code", "match": match, "variables": holding_variables(release)}
    return {HOLDING: holding, SWAPPING: swapping}


def codebooks(release: SwappingRelease) -> dict[str, Any]:
    """The identifiers of statements that use the invariant margins as codebooks, with the variables to join on."""
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
    (expected,) = session.row("warehouse/count", table=records)
    keys, read = np.empty(expected, dtype=np.int64), 0
    for batch in session.batches("swapping/keys", _RECORDS_AT_A_TIME, records=records, **names):
        found, read = batch.column(0).to_numpy(), read + batch.num_rows
        if read > expected:
            break
        keys[read - len(found) : read] = found
    if read != expected:
        raise StaleInputError(
            f"{release.schema}: the CEF has changed since the invariants were computed; materialize them again"
        )
    holding, swap, count = count_cells(keys)
    strata = session.arrow(_STRATA_BY_CODE, holding=names["holding"])["stratum"].to_numpy()
    return Contingency(strata[holding], holding, swap, count)


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


def as_contingency(cells: pa.Table) -> Contingency:
    column = {name: cells[name].to_numpy() for name in cells.column_names}
    return Contingency(column["stratum"], column["holding_code"], column["swap_code"], column["count"])
