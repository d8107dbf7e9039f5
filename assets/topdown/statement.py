"""What a certificate states about TopDown and no other mechanism.

Here belong words and figures for readers. The mathematics belongs in `mechanisms.topdown` and `mechanisms.accounting`.
"""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from assets.measurement.method import COUNTS
from assets.release.draw import Inputs
from assets.release.statement import DataVersion, Equivalent, Parameter, Statement
from assets.topdown.release import PLACES as PLACES_INPUT
from assets.topdown.release import TopDownRelease
from mechanisms.accounting.conversions import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.rounding import decimal_text
from mechanisms.accounting.semantics import Allocation
from mechanisms.accounting.zcdp import ConcentratedLoss
from mechanisms.topdown.design import GROUP_QUARTERS, HOUSING_UNITS, MECHANISM, VERSION, words
from mechanisms.topdown.schema import PERSONS

PLACES = 4

_BOUNDS = {
    GROUP_QUARTERS: "persons in group quarters of a type: at least one in each, 99,999 at most, none where there are "
    "none",
    HOUSING_UNITS: "persons in households: 99,999 in each housing unit at most, none where there are none",
}
"""What a statistic that is held bounds, in words."""

_ATTRIBUTES = {
    "hhgq": "household or type of group quarters (hhgq)",
    "votingage": "voting age (votingage)",
    "hispanic": "Hispanic origin (hispanic)",
    "cenrace": "race (cenrace)",
}

_BESIDE = "units whose occupancy it changes come on top, with their ρ each"

LOSS_SOURCE = (
    "For bounded neighbors (one person's record changed in any way): the sum of ρ over all histograms, levels and "
    "queries, the units' a second time because a move may change the occupancy of two. Bailie, Gong and Meng, Theorem "
    "2 and Appendix H; ρ = 1/σ² for a marginal of which one cell loses 1 and one gains 1 (Canonne, Kamath and Steinke)"
)


def topdown_statement(release: TopDownRelease, inputs: Inputs, output_version: str) -> Statement:
    """What the certificate says of the mechanism.

    Args:
        release: as declared.
        inputs: of the draw.
        output_version: the content hash of the noisy measurements.
    """
    return Statement(
        mechanism=f"{MECHANISM}: noisy marginals of every place, made consistent from the widest level to the finest",
        mechanism_version=str(VERSION),
        parameters=_parameters(release),
        loss_source=LOSS_SOURCE,
        data_versions=(
            DataVersion("exact histograms", inputs.versions[COUNTS], keyed=True),
            DataVersion("spine and invariants", inputs.versions[PLACES_INPUT], keyed=False),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark="Neighbors are two files that differ in one person's record, whatever becomes of the units it touches.",
        equivalents=tuple(equivalents(release)),
    )


def equivalents(release: TopDownRelease) -> Iterator[Equivalent]:
    """The guarantee as (ε, δ), by histogram, and for changes of an attribute or moves within a place."""
    design, delta = release.design, release.delta
    at = f"at δ = {decimal_text(delta)}"
    wholes = (
        ("any change of one person", design.loss),
        ("a change of one person that changes one unit's occupancy at most", design.one_unit),
        ("the persons' measurements", design.persons),
        ("the units' measurements, one unit changed", design.units),
    )
    for what, loss in wholes:
        yield Equivalent(f"ρ of {what}", f"{loss}, rounded up {loss.rounded_up(6)}", "The sum over its measurements")
        for convert, authors in (
            (canonne_kamath_steinke, "Canonne, Kamath and Steinke"),
            (bun_steinke, "Bun and Steinke"),
        ):
            value = f"ε = {convert(loss, delta, PLACES)} {at}"
            yield Equivalent(f"(ε, δ) of {what}", value, f"From ρ by the conversion of {authors}, rounded up")
    persons = design.allocations[PERSONS.name]
    for what, loss, source in semantics(persons):
        value = f"ε = {canonne_kamath_steinke(loss, delta, PLACES)} {at}, ρ rounded up {loss.rounded_up(6)}"
        yield Equivalent(what, value, source)


def semantics(persons: Allocation) -> Iterator[tuple[str, ConcentratedLoss, str]]:
    """By part of a person's record that changes: what changes, its ρ, and why."""
    for attribute in PERSONS.attributes:
        yield (
            f"Persons' measurements, {_ATTRIBUTES[attribute.name]} changed",
            persons.of_attribute(attribute.name),
            f"The persons' queries that involve the attribute; {_BESIDE}",
        )
    levels = list(persons.levels)
    for level, _ in reversed(list(pairwise(levels))):
        yield (
            f"Persons' measurements, {words(levels[-1])} changed within the {words(level)}",
            persons.of_move_within(level),
            f"The persons' levels below the {words(level)}; {_BESIDE}",
        )


def _parameters(release: TopDownRelease) -> tuple[Parameter, ...]:
    design = release.design
    shares = tuple(
        Parameter(
            f"Allocation of {histogram}: {words(level)}",
            tuple(f"{query} {part} ({_percent(part)})" for query, part in allocation.queries[level].items() if part),
            f"{share} ({_percent(share)}) of the {histogram}' ρ, divided among these queries.",
        )
        for histogram, allocation in design.allocations.items()
        for level, share in allocation.levels.items()
    )
    return (
        Parameter("Geographic spine", tuple(words(level) for level in release.levels), "From the root to the finest."),
        Parameter("Held exactly", design.multiverse, "Known exactly to everyone; the loss does not cover them."),
        *shares,
        Parameter(
            "Totals first",
            tuple(map(words, design.total_first)),
            "At these levels the number of persons is estimated from its own query, then all else.",
        ),
        Parameter(
            "Noise", "Discrete Gaussian", "Drawn exactly, for every cell of every query in every place, σ² = 1/ρ."
        ),
        Parameter(
            "Constraints",
            (
                "every place is the sum of those below it",
                "no minors in nursing facilities",
                *(words for name, words in _BOUNDS.items() if name in design.invariants),
            ),
            "What estimates satisfy besides the statistics that are held.",
        ),
    )


def _percent(share: Fraction) -> str:
    return f"{Decimal(share.numerator) * 100 / Decimal(share.denominator):.3g}%"
