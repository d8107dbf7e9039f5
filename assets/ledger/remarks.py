"""Sentences on a population's releases: what adds up, what does not, and why.

They follow from specifications and totals alone. The figures come from `comparison`; `view` has the same facts as rows.
"""

from collections.abc import Iterator

from assets.conventions import join_names
from assets.ledger.comparison import Comparison, find_conversion
from assets.ledger.view import list_counted
from mechanisms.accounting.composition import canonne_kamath_steinke, compose_concentrated
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss, PureLoss, format_loss
from mechanisms.accounting.rounding import DECIMALS, format_decimal
from mechanisms.accounting.specification import PERSON, PERSON_RECORD, RECORDS_OF_OTHERS

_OF_PERSONS = (PERSON, PERSON_RECORD)


def write_remarks(comparison: Comparison) -> tuple[str, ...]:
    """One or two sentences for each fact about these releases: which add up, which do not, and why."""
    return (
        *_on_infinite_losses(comparison),
        *_on_several_datasets(comparison),
        *_on_repeated_charges(comparison),
        *_on_pure_losses_in_zcdp(comparison),
        *_on_conversions(comparison),
        *_on_units(comparison),
        *_on_universes(comparison),
    )


def _on_infinite_losses(comparison: Comparison) -> Iterator[str]:
    releases = list(dict.fromkeys(charge.release for charge in comparison.infinite))
    if releases:
        which = "it" if len(releases) == 1 else "them"
        yield (
            f"No finite loss holds for {join_names(releases)} (ε = ∞), and no finite total counts {which}. Every other "
            "total, and the cap, bounds only what the releases that it counts disclose; nothing bounds what all "
            "releases disclose together."
        )


def _on_several_datasets(comparison: Comparison) -> Iterator[str]:
    if len(comparison.datasets) > 1:
        yield (
            f"{join_names(comparison.datasets)} are about the same people. A total therefore adds the losses of "
            "releases from all of them: it bounds a change of one unit in each of the datasets at once."
        )


def _on_repeated_charges(comparison: Comparison) -> Iterator[str]:
    for charge in comparison.latest:
        entries = [str(earlier.entry.sequence) for earlier in comparison.find_charges(charge.release)]
        if len(entries) > 1:
            yield (
                f"{charge.release} was charged {len(entries)} times (ledger entries {join_names(entries)}). Every "
                "charge counts in full; the table shows only the last."
            )


def _on_pure_losses_in_zcdp(comparison: Comparison) -> Iterator[str]:
    counted = {
        share.charge.entry.sequence
        for total in comparison.totals
        if isinstance(total.loss, ConcentratedLoss)
        for share in comparison.list_shares(total)
        if share.loss is not None
    }
    for charge in comparison.latest:
        loss = charge.loss
        if isinstance(loss, PureLoss) and charge.entry.sequence in counted:
            yield (
                f"{format_loss(loss)} of {charge.release} cannot be added to ρ directly: in zCDP, a pure ε counts "
                f"as ε²/2, here {format_loss(ConcentratedLoss.of_pure(loss))}."
            )


def _on_conversions(comparison: Comparison) -> Iterator[str]:
    for total in comparison.totals:
        shares = comparison.list_shares(total)
        together = find_conversion(shares, total.loss)
        if together is None or not isinstance(total.loss, ApproximateLoss):
            continue
        by_release: dict[str, list[ConcentratedLoss]] = {}
        for share in shares:
            if isinstance(share.loss, ConcentratedLoss):
                by_release.setdefault(share.charge.release, []).append(share.loss)
        delta = format_decimal(total.loss.delta)
        if len(by_release) > 1:
            single = [
                f"ε = {canonne_kamath_steinke(compose_concentrated(losses), total.loss.delta, DECIMALS)} of {release}"
                for release, losses in by_release.items()
            ]
            yield (
                f"For one {total.unit}, {join_names(single)} at δ = {delta} cannot be added directly: each uses up "
                "that δ by itself. The ρ are added first, and their sum is converted."
            )
        if all(isinstance(share.loss, ConcentratedLoss) for share in shares):
            continue
        pure = [share.charge.release for share in shares if isinstance(share.loss, PureLoss)]
        how = "is included in this ρ as ε²/2, which gives less" if together.takes_pure else "is added to that"
        words = f"; the pure ε of {join_names(list(dict.fromkeys(pure)))} {how}" if pure else ""
        yield (
            f"For one {total.unit} at δ = {delta}, {format_loss(together.loss)} is converted to "
            f"{format_loss(together.epsilon)}{words}."
        )


def _on_units(comparison: Comparison) -> Iterator[str]:
    groups: dict[tuple[str, int], list[str]] = {}
    for charge in comparison.latest:
        flavor = charge.specification.flavor
        if flavor.changes_per_person and flavor.unit != "person":
            groups.setdefault((flavor.unit, flavor.changes_per_person), []).append(charge.release)
    for (unit, times), releases in groups.items():
        count = "once" if times == 1 else f"as a group of {times}"
        yield (
            f"{join_names(releases)}: a guarantee for one {unit} counts {count} for a change of one person's "
            f"characteristics. Neither it nor any total that counts it bounds a person's move from one {unit} to "
            "another."
        )
    persons, records = (
        [charge.release for charge in comparison.latest if charge.specification.flavor.unit == unit]
        for unit in _OF_PERSONS
    )
    units = [unit for unit in dict.fromkeys(total.unit for total in comparison.totals) if unit not in _OF_PERSONS]
    if persons and units:
        yield (
            f"{join_names(persons)}: a guarantee for one person does not bound a change of a {' or a '.join(units)}, "
            "in which all persons may change."
        )
    if records:
        yield (
            f"{join_names(records)}: a guarantee for one person record counts in no total for persons: "
            f"{RECORDS_OF_OTHERS}."
        )


def _on_universes(comparison: Comparison) -> Iterator[str]:
    totals = [total for total in comparison.totals if not isinstance(total.loss, InfiniteLoss)]
    if not totals:
        return
    widest = max(totals, key=lambda total: len(total.multiverse))
    own = {
        release: {words for words, holders in comparison.invariants.items() if release in holders}
        for release in list_counted(comparison.list_shares(widest))
    }
    invariants = set(widest.multiverse)
    if not invariants:
        yield "No total depends on invariants: each compares any two data sets in the domains of its releases."
        return
    yield (
        "A total compares only data sets that agree on every invariant of all the releases it counts: on "
        f"{len(invariants)}, counted as worded, for the total with the most."
    )
    fewer = {release: len(words) for release, words in own.items() if words < invariants}
    if fewer:
        alone = [f"{release} alone has {count}" for release, count in fewer.items()]
        yield (
            f"These universes are finer than those of single releases ({join_names(alone)}): the total does not "
            "protect differences that any of the invariants reveals. The loss does not say how much this leaves "
            "unprotected, and losses within different universes are not comparable."
        )
    for finer in own:
        coarser = [release for release in own if own[release] < own[finer]]
        if coarser:
            yield f"{finer} holds every invariant of {join_names(coarser)}, and more."
