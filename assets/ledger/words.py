"""The comparison of a dataset's releases in words: tables for its page, and remarks on what adds up and what not.

All sentences follow from specifications and totals, whatever the releases are. The figures come from `comparison`.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import dagster as dg

from assets.conventions import WIDE_ROOM, plainly, preview
from assets.ledger.comparison import Charge, Comparison, Share, converted
from mechanisms.accounting.approximate import ApproximateLoss
from mechanisms.accounting.composition import Loss, concentrated_total, stated
from mechanisms.accounting.conversions import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.infinite import InfiniteLoss
from mechanisms.accounting.loss import PureLoss
from mechanisms.accounting.rounding import DECIMALS, decimal_text
from mechanisms.accounting.specification import DELTA, PERSON, PERSON_RECORD, RECORDS_OF_OTHERS
from mechanisms.accounting.zcdp import ConcentratedLoss

_OF_PERSONS = (PERSON, PERSON_RECORD)


def releases_shown(comparison: Comparison, delta: Fraction = DELTA) -> dict[str, dg.MetadataValue]:
    """One row for each release in each table, with its latest charge; then the domains."""
    latest = [(_named(charge), charge, charge.specification) for charge in comparison.latest]
    tables: dict[str, dg.MetadataValue] = {
        "releases": preview(
            {
                "release": "Release, with its latest charge",
                "unit": "What is protected, and which data sets are neighbors",
                "loss": "The loss that was charged, rounded up",
                "charges": "How often the release was charged; every charge counts",
            },
            [
                (name, _unit(charge), stated(specification.loss), len(comparison.of(charge.release)))
                for name, charge, specification in latest
            ],
            room=WIDE_ROOM,
        ),
        "guarantees": preview(
            {
                "release": "Release, with its latest charge",
                "output premetric": "How the loss is measured",
                "exactly": "The loss, exactly",
                "invariants": "How many statistics are published exactly; they are listed below",
            },
            [
                (name, specification.loss.output_premetric, specification.loss, len(specification.flavor.multiverse))
                for name, _, specification in latest
            ],
            room=WIDE_ROOM,
        ),
    }
    converted_losses = [
        (name, canonne_kamath_steinke(loss, delta, DECIMALS), bun_steinke(loss, delta, DECIMALS))
        for name, _, specification in latest
        if isinstance(loss := specification.loss, ConcentratedLoss)
    ]
    if converted_losses:
        tables[f"ε at δ = {decimal_text(delta)}"] = preview(
            {
                "release": "Release whose loss is a ρ",
                "ε": "Its ρ, converted as Canonne, Kamath and Steinke do",
                "by Bun and Steinke": "The same with their looser bound",
            },
            converted_losses,
            room=WIDE_ROOM,
        )
    return tables | {"domains": dg.MetadataValue.md(domains_in_words(comparison))}


def domains_in_words(comparison: Comparison) -> str:
    """The domains, each with the releases that share it."""
    domains: dict[str, list[str]] = {}
    for charge in comparison.latest:
        domains.setdefault(charge.specification.flavor.domain, []).append(charge.release)
    return "\n".join(f"- Domain of {listed(releases)}: {domain}." for domain, releases in domains.items())


def totals_shown(comparison: Comparison) -> dict[str, dg.MetadataValue]:
    """One row for each total; then which releases it counts, and which it does not count, with the reason."""
    rows, counts = [], []
    for total in comparison.totals:
        shares = comparison.shares(total)
        unit = f"{total.unit} (no moves)" if on_moves(shares, total.unit) else total.unit
        left_out = [f"{listed(releases)}: {reason}" for reason, releases in reasons(shares).items()]
        rows.append((unit, total.output_premetric, stated(total.loss), total.releases))
        counts.append(
            f"- **{stated(total.loss)} for one {unit}** counts {listed(counted_releases(shares))}, with "
            f"{len(total.multiverse)} invariants; leaves out "
            + ("nothing" if not left_out else f"{plainly('; '.join(left_out))}")
        )
    header = {
        "unit": "Whose change the total bounds",
        "output premetric": "How the loss is measured",
        "loss": "The total, rounded up",
        "charges": "How many charges it counts",
    }
    return {
        "totals": preview(header, rows, room=WIDE_ROOM),
        "what they count": dg.MetadataValue.md("\n".join(counts)),
    }


def invariants_in_markdown(comparison: Comparison) -> dg.MarkdownMetadataValue:
    """Every invariant once, with the releases that hold it."""
    if not comparison.invariants:
        return dg.MetadataValue.md("No release has invariants.")
    return dg.MetadataValue.md(
        "\n".join(f"- {words} ({listed(releases)})" for words, releases in comparison.invariants.items())
    )


def in_one_sentence(comparison: Comparison, cap: Loss) -> str:
    """What the picture of the comparison shows."""
    each = listed([f"{charge.release} with {stated(charge.specification.loss)}" for charge in comparison.latest])
    totals = listed([f"{stated(total.loss)} for one {total.unit}" for total in comparison.totals])
    return f"Bars of the losses of {each}, under a cap of {stated(cap)}; together {totals}."


def remarks(comparison: Comparison) -> tuple[str, ...]:
    """What adds up, what does not, and why: one or two sentences for each fact about these releases."""
    return (
        *_on_infinite_losses(comparison),
        *_on_several_datasets(comparison),
        *_on_repeated_charges(comparison),
        *_on_pure_losses_in_zcdp(comparison),
        *_on_conversions(comparison),
        *_on_units(comparison),
        *_on_universes(comparison),
    )


def reasons(shares: Iterable[Share]) -> dict[str, list[str]]:
    """The releases that a total leaves out, by reason."""
    found: dict[str, dict[str, None]] = {}
    for share in shares:
        if share.reason is not None:
            found.setdefault(share.reason, {})[share.charge.release] = None
    return {reason: list(releases) for reason, releases in found.items()}


def on_moves(shares: Iterable[Share], unit: str) -> list[str]:
    """What a total for persons does not bound because it counts guarantees for other units; empty for other totals."""
    flavors = [share.charge.specification.flavor for share in shares if share.loss is not None]
    others = dict.fromkeys(flavor.unit for flavor in flavors if unit == "person" != flavor.unit)
    return [f"It bounds a change of characteristics, not a move from one {other} to another." for other in others]


def counted_releases(shares: Iterable[Share]) -> list[str]:
    """The releases with a charge that a total counts."""
    return list(dict.fromkeys(share.charge.release for share in shares if share.loss is not None))


def listed(names: Sequence[str]) -> str:
    """Names joined for a sentence: `a, b and c`."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _unit(charge: Charge) -> str:
    flavor = charge.specification.flavor
    return f"{flavor.unit} ({flavor.neighbors})"


def _named(charge: Charge) -> str:
    return charge.release if charge.settled else f"{charge.release} (charged, not drawn yet)"


def _on_infinite_losses(comparison: Comparison) -> Iterator[str]:
    releases = list(dict.fromkeys(charge.release for charge in comparison.infinite))
    if releases:
        which = "it" if len(releases) == 1 else "them"
        yield (
            f"No finite loss holds for {listed(releases)} (ε = ∞), and no finite total counts {which}. Every other "
            "total, and the cap, bounds only what the releases that it counts disclose; nothing bounds what all "
            "releases disclose together."
        )


def _on_several_datasets(comparison: Comparison) -> Iterator[str]:
    if len(comparison.datasets) > 1:
        yield (
            f"{listed(comparison.datasets)} are about the same people. A total therefore adds the losses of releases "
            "from all of them: it bounds a change of one unit in each of the datasets at once."
        )


def _on_repeated_charges(comparison: Comparison) -> Iterator[str]:
    for charge in comparison.latest:
        entries = [str(each.entry) for each in comparison.of(charge.release)]
        if len(entries) > 1:
            yield (
                f"{charge.release} was charged {len(entries)} times (ledger entries {listed(entries)}). Every charge "
                "counts in full; the table shows only the last."
            )


def _on_pure_losses_in_zcdp(comparison: Comparison) -> Iterator[str]:
    counted = {
        share.charge.entry
        for total in comparison.totals
        if isinstance(total.loss, ConcentratedLoss)
        for share in comparison.shares(total)
        if share.loss is not None
    }
    for charge in comparison.latest:
        loss = charge.specification.charge
        if isinstance(loss, PureLoss) and charge.entry in counted:
            yield (
                f"{stated(loss)} of {charge.release} cannot be added to ρ directly: in zCDP, a pure ε counts "
                f"as ε²/2, here {stated(ConcentratedLoss.of_pure(loss))}."
            )


def _on_conversions(comparison: Comparison) -> Iterator[str]:
    for total in comparison.totals:
        shares = comparison.shares(total)
        together = converted(shares, total.loss)
        if together is None or not isinstance(total.loss, ApproximateLoss):
            continue
        of_release: dict[str, list[ConcentratedLoss]] = {}
        for share in shares:
            if isinstance(share.loss, ConcentratedLoss):
                of_release.setdefault(share.charge.release, []).append(share.loss)
        delta = decimal_text(total.loss.delta)
        if len(of_release) > 1:
            single = [
                f"ε = {canonne_kamath_steinke(concentrated_total(losses), total.loss.delta, DECIMALS)} of {release}"
                for release, losses in of_release.items()
            ]
            yield (
                f"For one {total.unit}, {listed(single)} at δ = {delta} cannot be added directly: each uses up that δ "
                "by itself. The ρ are added first, and their sum is converted."
            )
        pure = [share.charge.release for share in shares if isinstance(share.loss, PureLoss)]
        if pure:
            how = "is included in this ρ as ε²/2, which gives less" if together.takes_pure else "is added to that"
            yield (
                f"For one {total.unit} at δ = {delta}, {stated(together.loss)} is converted to "
                f"{stated(together.epsilon)}; the pure ε of {listed(list(dict.fromkeys(pure)))} {how}."
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
            f"{listed(releases)}: a guarantee for one {unit} counts {count} for a change of one person's "
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
            f"{listed(persons)}: a guarantee for one person does not bound a change of a {' or a '.join(units)}, in "
            "which all persons may change."
        )
    if records:
        yield (
            f"{listed(records)}: a guarantee for one person record counts in no total for persons: {RECORDS_OF_OTHERS}."
        )


def _on_universes(comparison: Comparison) -> Iterator[str]:
    totals = [total for total in comparison.totals if not isinstance(total.loss, InfiniteLoss)]
    if not totals:
        return
    widest = max(totals, key=lambda total: len(total.multiverse))
    own = {
        release: {words for words, holders in comparison.invariants.items() if release in holders}
        for release in counted_releases(comparison.shares(widest))
    }
    every = set(widest.multiverse)
    if not every:
        yield "No total depends on invariants: each compares any two data sets in the domains of its releases."
        return
    yield (
        "A total compares only data sets that agree on every invariant of all the releases it counts: on "
        f"{len(every)}, counted as worded, for the total with the most."
    )
    fewer = {release: held for release, held in own.items() if held < every}
    if fewer:
        alone = [f"{release} alone has {len(held)}" for release, held in fewer.items()]
        yield (
            f"These universes are finer than those of single releases ({listed(alone)}): the total does not protect "
            "differences that any of the invariants reveals. The loss does not say how much this leaves unprotected, "
            "and losses within different universes are not comparable."
        )
    for finer in own:
        coarser = [release for release in own if own[release] < own[finer]]
        if coarser:
            yield f"{finer} holds every invariant of {listed(coarser)}, and more."
