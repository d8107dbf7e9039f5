"""The confidential records as the swapping mechanism sees them.

Here belongs the way from the CEF to a contingency table of codes, and the keyed version of that table. A
record's key ends here: nothing downstream knows it.
"""

import hmac
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from assets.release.draw import StaleInputError
from assets.swapping.release import SwappingRelease
from mechanisms.swapping.permutation import Contingency
from resources.statements import Fragment, Table
from resources.warehouse import Session

HOLDING, SWAPPING, COMPOSITIONS, RECORDS = "invariant_holding", "invariant_swap", "invariant_persons", "records"


def stage_records(session: Session, release: SwappingRelease) -> Fragment | Table:
    """The records that are swapped: their variables, and for units with persons their `composition`."""
    units = release.dataset.cef_tables()[0]
    if release.dataset.persons is None:
        return units
    names: dict[str, Any] = {
        "units": units,
        "persons": release.dataset.cef_tables()[1],
        "key": release.dataset.units.key,
        "unit": release.dataset.persons.unit,
        "person_variables": sorted(release.dataset.persons.variables),
    }
    if release.swaps_persons:
        unit_variables = list(release.dataset.units.variables)
        return session.stage("records", "swapping/persons_as_records", unit_variables=unit_variables, **names)
    return session.stage("records", "swapping/households", variables=list(release.variables), **names)


def holding_variables(release: SwappingRelease) -> list[str]:
    """The holding variables of a record, its persons among them if they follow their unit."""
    return [*release.design.holding, *(["composition"] if release.has_persons_following else [])]


def swap_variables(release: SwappingRelease) -> list[str]:
    """The variables that number a swap value: the match variables, then the swap variables."""
    return [*release.design.match, *release.design.swap]


def codebooks(release: SwappingRelease) -> dict[str, Any]:
    """The invariant margins and the variables that join records to them, as a statement's identifiers."""
    return {
        "holding": release.public(HOLDING),
        "swapping": release.public(SWAPPING),
        "holding_variables": holding_variables(release),
        "swap_variables": swap_variables(release),
    }


def read_contingency(session: Session, release: SwappingRelease, records: Fragment | Table) -> Contingency:
    """The contingency table of the records, in the codes of the stored invariants.

    Raises:
        StaleInputError: if a record has values that the stored invariants do not know.
    """
    table = as_contingency(session.arrow("swapping/contingency", records=records, **codebooks(release)))
    (expected,) = session.row("warehouse/count", table=records)
    if table.count.sum() != expected:
        raise StaleInputError(
            f"{release.schema}: the CEF has changed since the invariants were computed; materialize them again"
        )
    return table


def cells_version(table: Contingency, key: bytes | None) -> str:
    """The version of a contingency table: SHA-256 of its codes and counts, in the one order they have.

    Args:
        table: its codes mean what the codebooks say, whose versions belong beside this one.
        key: the custody's version key, which makes it an HMAC, for records; None for what is drawn from them.
    """
    digest = hmac.new(key, digestmod=sha256) if key else sha256()
    for column in (table.stratum, table.holding, table.swap, table.count):
        digest.update(len(column).to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()


def as_contingency(cells: pa.Table) -> Contingency:
    """A contingency table from its columns `stratum`, `holding_code`, `swap_code` and `count`."""
    column = {name: cells[name].to_numpy() for name in cells.column_names}
    return Contingency(column["stratum"], column["holding_code"], column["swap_code"], column["count"])
