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
from mechanisms.swapping.design import Case, SwapLosses
from mechanisms.swapping.loss import EXEMPT, Stir, loss_of_stir, rates_of_sizes
from mechanisms.swapping.moved import expected_selected
from resources.statements import Fragment, Table
from resources.warehouse import Session


class RatesError(RefusedError):
    """The declared rates do not give every stratum or record a rate."""


@dataclass(frozen=True)
class Groups:
    """Groups of records, in order, each with one swap rate in the first stir.

    Attributes:
        first: the first stir of the groups.
        last: shape (groups,), the stratum in the last stir.
        records: shape (groups,), the number of records.
    """

    first: Stir
    last: NDArray[np.int32]
    records: NDArray[np.int64]


@dataclass(frozen=True)
class Stirring:
    """All stirs of a swap.

    Attributes:
        stirs: the first and, if there is one, the second, by group of records.
        selected: the share of records that each selects on average.
    """

    stirs: tuple[Stir, ...]
    losses: SwapLosses
    selected: tuple[float, ...]


def stored_stirring(session: Session, release: SwappingRelease) -> Stirring:
    return derive_stirring(session, release, release.public(HOLDING), release.public(SWAPPING))


def derive_stirring(
    session: Session, release: SwappingRelease, holding: Table | Fragment, swapping: Table | Fragment
) -> Stirring:
    """The stirs that follow from the margins, stored or staged. With noise, the holding margin is not read.

    Raises:
        RatesError: if a stratum or record has no rate, or no rate gives the declared ε.
    """
    design = release.design
    if design.noise:
        match = list(design.match)
        strata = session.stage("strata_of_margin", "swapping/strata_of_margin", swapping=swapping, match=match)
        groups = read_groups(session, release, strata, "stratum")
    else:
        groups = read_groups(session, release, holding, "holding_code")
    first, records = groups.first, groups.records
    # Data sets of one universe cannot differ in strata that cannot hold two distinct records.
    can_differ = session.arrow("swapping/swap_values", swapping=swapping)["swap_values"].to_numpy() > 1
    if not design.noise:
        can_differ |= np.bincount(groups.last, minlength=len(can_differ)) > 1
    stirs: tuple[Stir, ...] = (first,)
    if design.second_stir is None:
        losses = design.losses(loss_of_stir(first, records, can_differ), None)
    else:
        # How swap values lie in the first stir's strata is not published, so every one of two records or more counts.
        every_stratum = np.ones(int(first.stratum.max(initial=-1)) + 1, dtype=bool)
        second = Stir(groups.last, first.exempt.astype(np.int32), (design.second_stir.swap_rate, EXEMPT))
        losses = design.losses(loss_of_stir(first, records, every_stratum), loss_of_stir(second, records, can_differ))
        stirs = (first, second)
    return Stirring(stirs, losses, tuple(expected_selected(stir, records) for stir in stirs))


def read_groups(session: Session, release: SwappingRelease, groups: Table | Fragment, order: str) -> Groups:
    """Groups of records with their strata and rates.

    Args:
        groups: a table with a row for each group: its stratum, the values that rates depend on, and its count.
        order: the column that numbers the groups.

    Raises:
        RatesError: if a stratum or record has no rate, or no rate gives the declared ε.
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
    # Besides one ε, the only case is that of exempt records, whose strata need no rate, whatever their sizes.
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
        if case.at_most is not None:
            values[f"at_most_{number}"] = case.at_most
        at_most = None if case.at_most is None else Fragment(f"$at_most_{number}")
        names.append({"conditions": conditions, "at_most": at_most})
    return names, values
