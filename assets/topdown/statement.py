"""The part of a certificate that is specific to TopDown: words and figures for readers.

The mathematics is in `mechanisms.topdown` and `mechanisms.accounting`.
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
    GROUP_QUARTERS: "persons in group quarters of a type: between 1 and 99,999 in each facility, none without a "
    "facility",
    HOUSING_UNITS: "persons in households: at most 99,999 per housing unit, none without a housing unit",
}
"""The bounds that follow from an invariant, in words."""

_ATTRIBUTES = {
    "hhgq": "household or type of group quarters (hhgq)",
    "votingage": "voting age (votingage)",
    "hispanic": "Hispanic origin (hispanic)",
    "cenrace": "race (cenrace)",
}

_UNITS_TOO = "each unit whose occupancy changes adds its own ρ"

LOSS_SOURCE = (
    "For bounded neighbors (one person's record changed in any way): the sum of ρ over all histograms, levels and "
    "queries, where units count twice because a move may change the occupancy of two. Bailie, Gong and Meng, Theorem "
    "2 and Appendix H; ρ = 1/σ² for a marginal in which one cell loses 1 and another gains 1 (Canonne, Kamath and "
    "Steinke)"
)


def topdown_statement(release: TopDownRelease, inputs: Inputs, output_version: str) -> Statement:
    """The statement of the certificate about the mechanism.

    Args:
        release: the declared release.
        inputs: the inputs of the draw.
        output_version: the content hash of the noisy measurements.
    """
    return Statement(
        mechanism=f"{MECHANISM}: noisy marginals of every place, made consistent from the root to the finest level",
        mechanism_version=str(VERSION),
        parameters=_parameters(release),
        loss_source=LOSS_SOURCE,
        data_versions=(
            DataVersion("exact histograms", inputs.versions[COUNTS], keyed=True),
            DataVersion("spine and invariants", inputs.versions[PLACES_INPUT], keyed=True),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark="Neighbors are two files that differ in one person's record, whatever this changes in units.",
        equivalents=tuple(equivalents(release)),
    )


def equivalents(release: TopDownRelease) -> Iterator[Equivalent]:
    """The guarantee as (ε, δ): in total, by histogram, and for changes of an attribute or moves within a place."""
    design, delta = release.design, release.delta
    at = f"at δ = {decimal_text(delta)}"
    wholes = (
        ("any change of one person", design.loss),
        ("a change of one person that changes the occupancy of at most one unit", design.one_unit),
        ("the measurements of persons", design.persons),
        ("the measurements of units, one unit changed", design.units),
    )
    for what, loss in wholes:
        yield Equivalent(f"ρ of {what}", f"{loss}, rounded up {loss.rounded_up()}", "The sum over its measurements")
        for convert, authors in (
            (canonne_kamath_steinke, "Canonne, Kamath and Steinke"),
            (bun_steinke, "Bun and Steinke"),
        ):
            value = f"ε = {convert(loss, delta, PLACES)} {at}"
            yield Equivalent(f"(ε, δ) of {what}", value, f"From ρ by the conversion of {authors}, rounded up")
    persons = design.allocations[PERSONS.name]
    for what, loss, source in semantics(persons):
        value = f"ε = {canonne_kamath_steinke(loss, delta, PLACES)} {at}, ρ rounded up {loss.rounded_up()}"
        yield Equivalent(what, value, source)


def semantics(persons: Allocation) -> Iterator[tuple[str, ConcentratedLoss, str]]:
    """For each part of a person's record that may change: a description, its ρ, and the reason."""
    for attribute in PERSONS.attributes:
        yield (
            f"Measurements of persons, {_ATTRIBUTES[attribute.name]} changed",
            persons.of_attribute(attribute.name),
            f"The queries of persons that involve the attribute; {_UNITS_TOO}",
        )
    levels = list(persons.levels)
    for level, _ in reversed(list(pairwise(levels))):
        yield (
            f"Measurements of persons, {words(levels[-1])} changed within the {words(level)}",
            persons.of_move_within(level),
            f"The measurements of persons at the levels below the {words(level)}; {_UNITS_TOO}",
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
        Parameter("Invariants", design.multiverse, "Known exactly to everyone; the loss does not cover them."),
        *shares,
        Parameter(
            "Totals first",
            tuple(map(words, design.total_first)),
            "At these levels, the number of persons is estimated first, from its own query, and then fixed.",
        ),
        Parameter(
            "Noise", "Discrete Gaussian", "Sampled exactly for every cell of every query in every place; σ² = 1/ρ."
        ),
        Parameter(
            "Constraints",
            (
                "every place is the sum of the places in it",
                "no minors in nursing facilities",
                *(words for name, words in _BOUNDS.items() if name in design.invariants),
            ),
            "The constraints that estimates satisfy in addition to the invariants.",
        ),
    )


def _percent(share: Fraction) -> str:
    return f"{Decimal(share.numerator) * 100 / Decimal(share.denominator):.3g}%"
