"""The part of a certificate that is specific to TopDown: words and figures for readers.

The mathematics is in `mechanisms.topdown` and `mechanisms.accounting`.
"""

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from assets.measurement.method import COUNTS
from assets.release.draw import Inputs
from assets.release.statement import Accuracy, DataVersion, Equivalent, Paper, Parameter, Statement
from assets.topdown.microdata import ATTRIBUTE_WORDS
from assets.topdown.release import PLACES as PLACES_INPUT
from assets.topdown.release import TopDownRelease
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.accounting.semantics import Allocation
from mechanisms.topdown.design import GROUP_QUARTERS, HOUSING_UNITS, MECHANISM, VERSION, words
from mechanisms.topdown.schema import DETAILED, PERSONS, TOTAL

PAPERS = (
    Paper(
        "Abowd et al.: The 2020 Census Disclosure Avoidance System TopDown Algorithm (2022)",
        "https://doi.org/10.1162/99608f92.529e3cb9",
    ),
    Paper(
        "Bailie, Gong and Meng: A Refreshment Stirred, Not Shaken: Invariant-Preserving Deployments of Differential "
        "Privacy for the U.S. Decennial Census (2025)",
        "https://arxiv.org/abs/2501.08449",
    ),
)

_Z = 1.645
"""The 95% quantile of the normal distribution."""

_BOUNDS = {
    GROUP_QUARTERS: "persons in group quarters of a type: between 1 and 99,999 in each facility, none without a "
    "facility",
    HOUSING_UNITS: "persons in households: at most 99,999 per housing unit, none without a housing unit",
}
"""The bounds that follow from an invariant, in words."""

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
        method="Persons and housing units were counted in every place of every level, by their characteristics. Random "
        "noise was added to every count, including those that are zero. From the noisy counts, whole numbers were "
        "estimated that are not negative and add up over places, level by level from the largest to the smallest. The "
        "tables are counted from them.",
        parameters=_parameters(release),
        loss_source=LOSS_SOURCE,
        accuracy=accuracy(release),
        data_versions=(
            DataVersion("exact histograms", inputs.versions[COUNTS], keyed=True),
            DataVersion("spine and invariants", inputs.versions[PLACES_INPUT], keyed=True),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark="Neighbors are two files that differ in one person's record, whatever this changes in units.",
        delta=release.declaration.delta,
        equivalents=tuple(equivalents(release)),
        papers=PAPERS,
    )


def equivalents(release: TopDownRelease) -> Iterator[Equivalent]:
    """The loss in total, by histogram, and for changes of an attribute or moves within a place."""
    design, summed = release.design, "The sum over its measurements"
    yield Equivalent("Any change of one person (this is charged)", design.loss, summed)
    yield Equivalent("A change of one person that changes the occupancy of at most one unit", design.one_unit, summed)
    yield Equivalent("The measurements of persons", design.persons, summed)
    yield Equivalent("The measurements of units, one unit changed", design.units, summed)
    for of, loss, source in semantics(design.allocations[PERSONS.name]):
        yield Equivalent(of, loss, source)


def accuracy(release: TopDownRelease) -> Accuracy:
    """The standard deviation of the noise of each query at each level, before estimation."""
    rows = []
    for each in release.design.measured:
        deviation = float(each.noise.exact_variance) ** 0.5
        margin = math.ceil(_Z * deviation * 100) / 100
        rows.append((each.histogram, words(each.level), query_words(each.query), round(deviation, 2), margin))
    coarse, fine = release.levels[0], release.finest
    margins = {level: math.ceil(_total_margin(release, level)) for level in (coarse, fine)}
    shown = [f"±{margin:,} at the level of the {words(level)}" for level, margin in margins.items()]
    return Accuracy(
        summary="The noisy counts alone tell the number of persons in a place to within "
        f"{' and '.join(shown)}, with a probability of about 90%. The estimation combines all levels, so that totals "
        "of large places are usually nearer. What is held fixed has no error.",
        columns=("Counted", "Level", "By", "σ of the noise", "90% margin (±)"),
        rows=tuple(rows),
        note="σ is the standard deviation of the noise of each answer, which follows from the declared budgets; 90% of "
        "such noise is within 1.645σ. The published tables are estimated from all answers together, so their errors "
        "differ: totals of large places are usually nearer, and small counts are biased upwards, because no estimate "
        "is negative. Not covered: errors of the census itself.",
    )


def _total_margin(release: TopDownRelease, level: str) -> float:
    """1.645σ of the number of persons in a place, from the query of it with the least noise."""
    deviations = [
        math.sqrt(each.marginal.size * each.noise.exact_variance)
        for each in release.design.measured_at(PERSONS.name, level)
    ]
    return math.ceil(_Z * min(deviations) * 100) / 100


def query_words(query: str) -> str:
    """A query's name in the words of the data dictionary."""
    if query == TOTAL:
        return "In total"
    if query == DETAILED:
        return "All characteristics together"
    return " × ".join(ATTRIBUTE_WORDS[name] for name in query.split(" * "))


def semantics(persons: Allocation) -> Iterator[tuple[str, ConcentratedLoss, str]]:
    """For each part of a person's record that may change: a description, its ρ, and the reason."""
    for attribute in PERSONS.attributes:
        yield (
            f"Measurements of persons, {ATTRIBUTE_WORDS[attribute.name]} changed",
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
            tuple(
                f"{query_words(query)}: {_percent(part)}" for query, part in allocation.queries[level].items() if part
            ),
            f"{_percent(share)} of the {histogram}' ρ, divided among these queries.",
            (str(share), *(f"{query}: {part}" for query, part in allocation.queries[level].items() if part)),
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
