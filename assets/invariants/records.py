"""The confidential records as the swapping mechanism sees them.

Here belongs the way from the CEF to a contingency table of codes, and the keyed version of that table. A
record's key ends here: nothing downstream knows it.
"""

import hmac
from hashlib import sha256
from typing import Any

import numpy as np

from assets.release import SwappingRelease
from mechanisms.swapping.permutation import Contingency
from resources.statements import Fragment, Table
from resources.warehouse import Session

HOLDING, SWAPPING, COMPOSITIONS, RECORDS = "invariant_holding", "invariant_swap", "invariant_persons", "records"


class StaleInvariantsError(Exception):
    """The stored invariants are not those of the CEF as it is now."""


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
        "person_variables": list(release.dataset.persons.variables),
    }
    if release.swaps_persons:
        unit_variables = list(release.dataset.units.variables)
        return session.stage("records", "invariants/persons_as_records", unit_variables=unit_variables, **names)
    return session.stage("records", "invariants/households", variables=list(release.variables), **names)


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
        StaleInvariantsError: if a record has values that the stored invariants do not know.
    """
    cells = session.arrow("swap/contingency", records=records, **codebooks(release))
    column = {name: cells[name].to_numpy() for name in cells.column_names}
    table = Contingency(
        stratum=column["stratum"],
        holding=column["holding_code"],
        swap=column["swap_code"],
        count=column["count"].astype(np.int64, copy=False),
    )
    (expected,) = session.row("warehouse/count", table=records)
    if table.count.sum() != expected:
        raise StaleInvariantsError(
            f"{release.schema}: the CEF has changed since the invariants were computed; materialize them again"
        )
    return table


def records_version(table: Contingency, key: bytes) -> str:
    """The keyed version of what a draw is made from: HMAC-SHA256 of the contingency table.

    Args:
        table: in the one order a contingency table has, so that no sorting is left to chance.
        key: the custody's version key.
    """
    digest = hmac.new(key, digestmod=sha256)
    for column in (table.stratum, table.holding, table.swap, table.count):
        digest.update(len(column).to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()
