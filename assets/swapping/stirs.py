"""The stirs of a swap with varying rates, a second stir or noise: strata, rates and losses from the margins.

A plain swap, with one rate for all records, needs none of this: its b follows from `swapping/strata`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.swapping.records import HOLDING, SWAPPING
from assets.swapping.release import SwappingRelease
from mechanisms.refusal import RefusedError
from mechanisms.swapping.design import SwapLosses
from mechanisms.swapping.permutation import Contingency
from mechanisms.swapping.rates import EXEMPT, Case, Stir, expected_selected, loss_of_stir, rates_of_sizes
from resources.statements import Fragment, Table
from resources.warehouse import Session


class RatesError(RefusedError):
    """The declared rates do not give every stratum or record a rate."""


@dataclass(frozen=True)
class Stirring:
    """All stirs of a swap, by group of records.

    Attributes:
        stirs: the first and, if there is one, the second.
        selected: the share of records that each selects on average.
    """

    stirs: tuple[Stir, ...]
    losses: SwapLosses
    selected: tuple[float, ...]

    def of_cells(self, table: Contingency, release: SwappingRelease) -> list[Stir]:
        groups = table.stratum if release.design.noise else table.holding
        return [stir.of_groups(groups) for stir in self.stirs]


def stored_stirring(session: Session, release: SwappingRelease) -> Stirring:
    """The stirs that follow from the stored margins."""
    return stirring(session, release, release.public(HOLDING), release.public(SWAPPING))


def stirring(
    session: Session, release: SwappingRelease, holding: Table | Fragment, swapping: Table | Fragment
) -> Stirring:
    """The stirs that follow from the margins, stored or staged. With noise, the holding margin is not read.

    Raises:
        RatesError: if a stratum or record has no rate, or no rate gives the declared ε.
    """
    design = release.design
    groups, order = holding, "holding_code"
    if design.noise:
        of: dict[str, Any] = {"swapping": swapping, "match": list(design.match)}
        groups = session.stage("strata_of_margin", "swapping/strata_of_margin", **of)
        order = "stratum"
    found = _read(session, release, groups, order)
    last, records = found.last, found.records
    swap_values = session.arrow("swapping/swap_values", swapping=swapping)["swap_values"].to_numpy()
    first = _first(release, found)
    can_differ = _distinct(last, swap_values, by_holding=not design.noise)
    if design.second_stir is None:
        loss = loss_of_stir(first, records, can_differ)
        return Stirring((first,), design.losses(loss, None), (expected_selected(first, records),))
    # How swap values lie in the first stir's strata is not published, so every one of two records or more counts.
    loss = loss_of_stir(first, records, np.ones(int(found.first.max(initial=-1)) + 1, dtype=bool))
    exempt = found.cases == 0 if design.exempt else np.zeros(len(last), dtype=bool)
    given = design.second_stir.swap_rate
    second = Stir(last, np.where(exempt, 1, 0).astype(np.int32), (given, *([EXEMPT] if design.exempt else [])))
    return Stirring(
        (first, second),
        design.losses(loss, loss_of_stir(second, records, can_differ)),
        (expected_selected(first, records), expected_selected(second, records)),
    )


def first_stir(
    session: Session, release: SwappingRelease, groups: Table | Fragment, order: str
) -> tuple[Stir, NDArray[np.int64]]:
    """The first stir of groups of records, and their numbers of records.

    Args:
        groups: a table with a row for each group: its stratum, the values that rates depend on, and its count.
        order: the column that numbers the groups.

    Raises:
        RatesError: if a stratum or record has no rate, or no rate gives the declared ε.
    """
    found = _read(session, release, groups, order)
    return _first(release, found), found.records


@dataclass(frozen=True)
class _Groups:
    """Groups of records, in order: their strata in the last and the first stir, their numbers, and their cases."""

    last: NDArray[np.int32]
    first: NDArray[np.int32]
    records: NDArray[np.int64]
    cases: NDArray[np.int32]


def _read(session: Session, release: SwappingRelease, groups: Table | Fragment, order: str) -> _Groups:
    rates = release.design.rates
    names, values = cases_bound(rates.cases)
    found = session.arrow(
        "swapping/rate_cases",
        values,
        groups=groups,
        order=order,
        match=list(release.design.ordered_match),
        cases=names,
        rarity=list(rates.rarity_of) if rates.rarity_of is not None else [],
    )
    column = {name: found[name].combine_chunks() for name in found.column_names}
    cases = column["rate_case"].fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    last, first, records = (column[name].to_numpy() for name in ("stratum", "first_stratum", "count"))
    return _Groups(last, first, records, cases)


def _distinct(stratum: NDArray[np.int32], swap_values: NDArray[np.int64], *, by_holding: bool) -> NDArray[np.bool_]:
    """Whether each stratum can hold two distinct records; data sets of one universe cannot differ in the others."""
    if not by_holding:
        return swap_values > 1
    return (swap_values > 1) | (np.bincount(stratum, minlength=len(swap_values)) > 1)


def cases_bound(cases: Sequence[Case]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The cases as identifiers of a statement such as `swapping/rate_cases`, and the values bound in it."""
    names: list[dict[str, Any]] = []
    values: dict[str, Any] = {}
    for number, case in enumerate(cases):
        conditions = []
        for place, (column, fits) in enumerate(case.when):
            values[f"case_{number}_{place}"] = list(fits)
            conditions.append({"column": column, "value": Fragment(f"$case_{number}_{place}")})
        if case.at_most is not None:
            values[f"at_most_{number}"] = case.at_most
        at_most = None if case.at_most is None else Fragment(f"$at_most_{number}")
        names.append({"conditions": conditions, "at_most": at_most})
    return names, values


def _first(release: SwappingRelease, groups: _Groups) -> Stir:
    rates, fine, cases = release.design.rates, groups.first, groups.cases
    if rates.epsilon is None:
        without = int((cases < 0).sum())
        if without:
            by_stratum = release.design.noise or release.declaration.withheld
            what = "strata" if by_stratum else "combinations of holding values"
            raise RatesError(
                f"{release.schema}: {without:,} {what} fit no case of the swap rate; add a case without conditions at "
                "the end"
            )
        return Stir(fine, cases, tuple(case.rate for case in rates.cases))
    firsts = np.flatnonzero(np.diff(fine, prepend=-1))
    sizes = np.add.reduceat(groups.records, firsts) if len(firsts) else groups.records
    # Beside one ε, the only case is that of exempt records, whose strata need no rate, whatever their sizes.
    sizes = np.where(cases[firsts] < 0, sizes, 0)
    try:
        of_stratum, each = rates_of_sizes(sizes, rates.epsilon)
    except ValueError as error:
        raise RatesError(f"{release.schema}: swap_rate: {error}") from None
    return Stir(fine, np.where(cases < 0, of_stratum[fine], len(each)).astype(np.int32), (*each, EXEMPT))
