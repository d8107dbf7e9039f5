"""Sentences on a population's releases: the losses that add up, those that do not, and why.

They follow from specifications and totals alone. The texts are in `remarks.md`, and the figures come from `comparison`;
`view` has the same facts as rows.
"""

from collections.abc import Iterator

from assets.ledger.comparison import Comparison, find_conversion
from assets.ledger.view import list_counted
from assets.release.prose import Prose
from mechanisms.accounting.composition import canonne_kamath_steinke, compose_concentrated
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss, PureLoss, format_loss
from mechanisms.accounting.rounding import DECIMALS, format_decimal
from mechanisms.accounting.specification import PERSON, PERSON_RECORD, RECORDS_OF_OTHERS

PROSE = Prose(__file__)

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
        *_on_copies(comparison),
        *_on_universes(comparison),
    )


def _on_infinite_losses(comparison: Comparison) -> Iterator[str]:
    if releases := list(dict.fromkeys(charge.release for charge in comparison.infinite)):
        yield PROSE("infinite losses", releases=releases)


def _on_several_datasets(comparison: Comparison) -> Iterator[str]:
    if len(comparison.datasets) > 1:
        yield PROSE("several datasets", datasets=comparison.datasets)


def _on_repeated_charges(comparison: Comparison) -> Iterator[str]:
    for charge in comparison.latest:
        entries = [str(earlier.entry.sequence) for earlier in comparison.find_charges(charge.release)]
        if len(entries) > 1:
            yield PROSE("repeated charges", release=charge.release, entries=entries)


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
            in_zcdp = format_loss(ConcentratedLoss.of_pure(loss))
            yield PROSE("pure loss in zCDP", loss=format_loss(loss), release=charge.release, counted=in_zcdp)


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
        at = {"unit": total.unit, "delta": format_decimal(total.loss.delta)}
        if len(by_release) > 1:
            single = [
                f"ε = {canonne_kamath_steinke(compose_concentrated(losses), total.loss.delta, DECIMALS)} of {release}"
                for release, losses in by_release.items()
            ]
            yield PROSE("converted separately", single=single, **at)
        if all(isinstance(share.loss, ConcentratedLoss) for share in shares):
            continue
        pure = list(dict.fromkeys(share.charge.release for share in shares if isinstance(share.loss, PureLoss)))
        loss, epsilon = format_loss(together.loss), format_loss(together.epsilon)
        yield PROSE("converted together", loss=loss, epsilon=epsilon, pure=pure, takes_pure=together.takes_pure, **at)


def _on_units(comparison: Comparison) -> Iterator[str]:
    groups: dict[tuple[str, int], list[str]] = {}
    for charge in comparison.latest:
        flavor = charge.specification.flavor
        if flavor.changes_per_person and flavor.unit != "person":
            groups.setdefault((flavor.unit, flavor.changes_per_person), []).append(charge.release)
    for (unit, times), releases in groups.items():
        yield PROSE("units of persons", releases=releases, unit=unit, times=times)
    persons, records = (
        [charge.release for charge in comparison.latest if charge.specification.flavor.unit == unit]
        for unit in _OF_PERSONS
    )
    units = [unit for unit in dict.fromkeys(total.unit for total in comparison.totals) if unit not in _OF_PERSONS]
    if persons and units:
        yield PROSE("persons", releases=persons, units=units)
    if records:
        yield PROSE("person records", releases=records, records_of_others=RECORDS_OF_OTHERS)


def _on_copies(comparison: Comparison) -> Iterator[str]:
    copies = {charge.entry.dataset: charge.copies for charge in comparison.charges if charge.copies > 1}
    if copies:
        yield PROSE("copies", copies=[f"{number} records of {dataset}" for dataset, number in copies.items()])


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
        yield PROSE("no invariants")
        return
    yield PROSE("invariants", count=len(invariants))
    alone = [f"{release} alone has {len(words)}" for release, words in own.items() if words < invariants]
    if alone:
        yield PROSE("finer universes", alone=alone)
    for finer in own:
        if coarser := [release for release in own if own[release] < own[finer]]:
            yield PROSE("holds more", release=finer, coarser=coarser)
