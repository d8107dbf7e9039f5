"""The confidential records and their margins in the swapping mechanism's form.

This module converts the CEF to a contingency table of codes, computes the table's keyed version, and converts the
margins to strata, rates and losses. It does not pass on the records' keys.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.release.dataset import CEF
from assets.release.draw import StaleInputError
from assets.swapping.release import SwappingRelease
from mechanisms.refusal import RefusedError
from mechanisms.swapping.design import Case, SwapLosses
from mechanisms.swapping.loss import EXEMPT, Stir, loss_of_stir, rates_of_sizes
from mechanisms.swapping.permutation import Contingency
from mechanisms.swapping.uncertainty import expected_selected
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Session

_STRATA_BY_CODE = SQL("swapping/strata_by_code", "SELECT stratum FROM {{ holding }} ORDER BY holding_code")

HOLDING, SWAPPING, COMPOSITIONS, RECORDS = "invariant_holding", "invariant_swap", "invariant_persons", "records"
HOLDING_VALUES = "holding_values"
"""All combinations of holding values that records may have after noise; they follow from the declared domains."""

COUNTED = "counts"
"""The confidential table of the records by their values, which is stored if the dataset has partitions."""

CEF_CHANGED = "{release}: the CEF has changed since the invariants were computed; materialize them again"

_NUMBER = SQL("swapping/number", "SELECT {{ number }} FROM {{ records }}")

SINGLE, BY_VALUES = Fragment("count(*)"), Fragment("sum(count)::BIGINT")
"""The number of records in rows: one for each row, or the sum of the column `count`."""


def stage_records(session: Session, release: SwappingRelease) -> Fragment | Table:
    """The records to be swapped, with the columns of `stage_single_records`; if they are counted in partitions, a row
    for each combination of values, with its `count`. `number_of` counts records."""
    if release.is_counted_in_parts:
        return release.confidential(COUNTED)
    return stage_single_records(session, release)


def stage_of_records(release: SwappingRelease) -> str:
    """The stage whose output `stage_records` reads."""
    return COUNTED if release.is_counted_in_parts else CEF


def number_of(release: SwappingRelease) -> Fragment:
    """The number of records in rows of `stage_records`."""
    return BY_VALUES if release.is_counted_in_parts else SINGLE


def stage_single_records(session: Session, release: SwappingRelease) -> Fragment | Table:
    """Stage the records to be swapped one by one: their variables and, for units with persons, their `composition`."""
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


def list_variables(release: SwappingRelease) -> list[str]:
    """All variables of a record, each once."""
    return list(dict.fromkeys([*holding_variables(release), *swap_variables(release)]))


def holding_table(release: SwappingRelease) -> Table:
    """The table that numbers holding values: their margin, or with noise all combinations that records may get."""
    return release.public(HOLDING_VALUES if release.design.noise else HOLDING)


def stage_margins(session: Session, release: SwappingRelease, records: Fragment | Table) -> dict[str, Fragment]:
    """Count the margins from the records, by the name of the table that publishes each; with noise, only `SWAPPING`."""
    match, margins = list(release.design.fixed), {}
    codes = {SWAPPING: ("swap_code", swap_variables(release))}
    if not release.design.noise:
        codes = {HOLDING: ("holding_code", holding_variables(release)), **codes}
    for table, (code, variables) in codes.items():
        names = {"records": records, "number": number_of(release), "code": code, "match": match, "variables": variables}
        margins[table] = session.stage(f"margin_of_{table}", "swapping/margin", **names)
    return margins


def codebooks(release: SwappingRelease) -> dict[str, Any]:
    """The identifiers of statements that join the margins as codebooks, and the variables to join on."""
    return {
        "holding": holding_table(release),
        "swapping": release.public(SWAPPING),
        "holding_variables": holding_variables(release),
        "swap_variables": swap_variables(release),
    }


def read_contingency(
    session: Session, release: SwappingRelease, records: Fragment | Table, margins: Mapping[str, Fragment] = {}
) -> Contingency:
    """The contingency table of the records, in the codes of the given margins, or else of the stored ones.

    Raises StaleInputError if a record has values that do not occur in the margins.
    """
    names = codebooks(release) | dict(margins)
    counted = {"records": records, "number": number_of(release)}
    cells = session.arrow("swapping/cells", variables=list_variables(release), **counted, **names)
    holding, swap, count = (column.to_numpy() for column in cells.itercolumns())
    if session.row(_NUMBER, **counted) != (count.sum(),):
        raise StaleInputError(CEF_CHANGED.format(release=release.schema))
    strata = session.arrow(_STRATA_BY_CODE, holding=names["holding"])["stratum"].to_numpy()
    return Contingency(strata[holding], holding, swap, count)


def cells_version(table: Contingency, key: bytes | None) -> str:
    """The version of a contingency table: the SHA-256 of its codes and counts, in their fixed order; or their HMAC, by
    the custody's version key, if it counts records. It does not cover the codebooks, so callers combine it with their
    versions."""
    digest = hmac.new(key, digestmod=sha256) if key else sha256()
    for column in (table.stratum, table.holding, table.swap, table.count):
        digest.update(len(column).to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()


class RatesError(RefusedError):
    """The declared rates do not give every stratum or record a rate."""


@dataclass(frozen=True)
class Groups:
    """Groups of records, in order: their first stir, and of shape (groups,), last strata and numbers of records."""

    first: Stir
    last: NDArray[np.int32]
    records: NDArray[np.int64]


@dataclass(frozen=True)
class Stirring:
    """One or two stirs of groups of records, with the share that each selects on average; a plain swap has none."""

    stirs: tuple[Stir, ...]
    losses: SwapLosses
    selected: tuple[float, ...]


def stored_stirring(session: Session, release: SwappingRelease) -> Stirring:
    return derive_stirring(session, release, release.public(HOLDING), release.public(SWAPPING))


def derive_stirring(
    session: Session, release: SwappingRelease, holding: Table | Fragment, swapping: Table | Fragment
) -> Stirring:
    """The stirs that follow from the margins, stored or staged. With noise, the function does not read the holding
    margin.

    Raises RatesError if a stratum or record has no rate, or no rate gives the declared ε.
    """
    design = release.design
    if design.noise:
        strata = session.stage("strata", "swapping/strata_of_margin", swapping=swapping, match=list(design.match))
        groups = read_groups(session, release, strata, "stratum")
    else:
        groups = read_groups(session, release, holding, "holding_code")
    first, records = groups.first, groups.records
    # Data sets of one universe differ only in strata that can hold two distinct records.
    strata_of_margin = session.arrow("swapping/strata_of_margin", swapping=swapping, match=[])
    can_differ = strata_of_margin["swap_values"].to_numpy() > 1
    if not design.noise:
        can_differ |= np.bincount(groups.last, minlength=len(can_differ)) > 1
    stirs: tuple[Stir, ...] = (first,)
    if design.second_stir is None:
        losses = design.losses(loss_of_stir(first, records, can_differ), None)
    else:
        # The distribution of swap values over the first stir's strata is not published, so every stratum of two or more
        # records counts.
        every_stratum = np.ones(int(first.stratum.max(initial=-1)) + 1, dtype=bool)
        second = Stir(groups.last, first.exempt.astype(np.int32), (design.second_stir.swap_rate, EXEMPT))
        losses = design.losses(loss_of_stir(first, records, every_stratum), loss_of_stir(second, records, can_differ))
        stirs = (first, second)
    return Stirring(stirs, losses, tuple(expected_selected(stir, records) for stir in stirs))


def read_groups(session: Session, release: SwappingRelease, groups: Table | Fragment, order: str) -> Groups:
    """Groups of records with their strata and rates, from a table of stratum, values that rates depend on, and count.

    The column `order` numbers the groups. Raises RatesError as `derive_stirring` does.
    """
    rates = release.design.rates
    names, values = bind_cases(rates.cases)
    rows = session.arrow(
        "swapping/rate_cases",
        values,
        groups=groups,
        order=order,
        match=list(release.design.ordered_match),
        cases=names,
        rarity=list(rates.rarity_of or ()),
    )
    cases = rows["rate_case"].fill_null(-1).to_numpy()
    last, strata, records = (rows[name].to_numpy() for name in ("stratum", "first_stratum", "count"))
    if rates.epsilon is None:
        if without := int((cases < 0).sum()):
            by_stratum = release.design.noise or release.declaration.withheld
            what = "strata" if by_stratum else "combinations of holding values"
            raise RatesError(
                f"{release.schema}: {without:,} {what} fit no case of the swap rate; add a case without conditions at "
                "the end"
            )
        return Groups(Stir(strata, cases, tuple(case.rate for case in rates.cases)), last, records)
    firsts = np.flatnonzero(np.diff(strata, prepend=-1))
    sizes = np.add.reduceat(records, firsts) if len(firsts) else records
    # With one ε, the only case is for exempt records, whose strata need no rate at any size.
    sizes = np.where(cases[firsts] < 0, sizes, 0)
    try:
        place, smallest = rates_of_sizes(sizes, rates.epsilon)
    except ValueError as error:
        raise RatesError(f"{release.schema}: swap_rate: {error}") from None
    rate_class = np.where(cases < 0, place[strata], len(smallest)).astype(np.int32)
    return Groups(Stir(strata, rate_class, (*smallest, EXEMPT)), last, records)


def bind_cases(cases: Sequence[Case]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The cases for a statement such as `swapping/rate_cases`: its identifiers, and the values to bind."""
    names: list[dict[str, Any]] = []
    values: dict[str, Any] = {}
    for number, case in enumerate(cases):
        conditions = []
        for place, (column, fits) in enumerate(case.when):
            values[f"case_{number}_{place}"] = list(fits)
            conditions.append({"column": column, "value": Fragment(f"$case_{number}_{place}")})
        names.append({"conditions": conditions, "at_most": case.at_most})
    return names, values
