"""The part of a certificate that is specific to TopDown: figures, with the texts of `statement.md`."""

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from assets.measurement.method import COUNTS
from assets.release.draw import Inputs
from assets.release.prose import Prose
from assets.release.statement import REFRESHMENT, Accuracy, DataVersion, Equivalent, Paper, Parameter, Statement
from assets.topdown.release import PLACES as PLACES_INPUT
from assets.topdown.release import TopDownRelease
from assets.topdown.tables import ATTRIBUTE_WORDS
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.sampling.quantiles import QUANTILE, margin_of_error
from mechanisms.topdown.allocation import Allocation
from mechanisms.topdown.design import (
    GROUP_QUARTERS,
    HOUSING_UNITS,
    MECHANISM,
    VERSION,
    TopDownDesign,
    level_of_states,
    words,
)
from mechanisms.topdown.dhc.design import DHCDesign
from mechanisms.topdown.schema import DETAILED, PERSONS, TOTAL

PROSE = Prose(__file__)

PAPERS = (
    Paper(
        "Abowd et al.: The 2020 Census Disclosure Avoidance System TopDown Algorithm (2022)",
        "https://doi.org/10.1162/99608f92.529e3cb9",
    ),
    REFRESHMENT,
)

LEANING, GAIN = "Lean on housing units", "Gain of full estimation"
"""The labels of parameters."""

_BOUNDS = {
    GROUP_QUARTERS: "persons in group quarters of a type: between 1 and 99,999 in each facility, none without a "
    "facility",
    HOUSING_UNITS: "persons in households: at most 99,999 per housing unit, none without a housing unit",
}
"""The bounds that follow from an invariant, in words."""

_UNITS_TOO = "each unit whose occupancy changes adds its own ρ"


def topdown_statement(release: TopDownRelease, inputs: Inputs, output_version: str) -> Statement:
    return Statement(
        mechanism=PROSE("mechanism", mechanism=MECHANISM),
        mechanism_version=str(VERSION),
        method=PROSE("method"),
        parameters=_parameters(release),
        loss_source=PROSE("loss source"),
        accuracy=describe_accuracy(release.design, PROSE, query_words),
        data_versions=(
            DataVersion("exact histograms", inputs.versions[COUNTS], keyed=True),
            DataVersion("spine and invariants", inputs.versions[PLACES_INPUT], keyed=True),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark=PROSE("remark"),
        delta=release.declaration.delta,
        equivalents=tuple(equivalents(release)),
        papers=PAPERS,
    )


def equivalents(release: TopDownRelease) -> Iterator[Equivalent]:
    """The total loss, the loss by histogram, and the loss for changes of an attribute or moves within a place."""
    design, summed = release.design, "The sum over its measurements"
    yield Equivalent("Any change of one person (this is charged)", design.loss, summed)
    yield Equivalent("A change of one person that changes the occupancy of at most one unit", design.one_unit, summed)
    yield Equivalent("The measurements of persons", design.persons, summed)
    yield Equivalent("The measurements of units, one unit changed", design.units, summed)
    for of, loss, source in semantics(design.allocations[PERSONS.name]):
        yield Equivalent(of, loss, source)


def describe_accuracy(
    design: TopDownDesign | DHCDesign, prose: Prose, query_in_words: Callable[[str], str]
) -> Accuracy:
    """The standard deviation of the noise of each query at each level, before estimation, and its 90% margin: the least
    that at least 90% of the noise is within."""
    rows, shown = [], []
    for measured in design.measured:
        deviation, margin = float(measured.noise.exact_variance) ** 0.5, math.ceil(margin_of_error(measured.noise))
        query = query_in_words(measured.query)
        rows.append((measured.histogram, words(measured.level), query, round(deviation, 2), margin))
    for level in (design.levels[0], design.levels[-1]):
        # The variance of the number of persons in a place, from the query with the least noise.
        variances = (
            measured.marginal.size * measured.noise.exact_variance
            for measured in design.measured_at(PERSONS.name, level)
        )
        shown.append(f"±{math.ceil(QUANTILE * math.sqrt(min(variances))):,} at the level of the {words(level)}")
    return Accuracy(
        summary=prose("accuracy", margins=shown),
        columns=("Counted", "Level", "By", "σ of the noise", "90% margin (±)"),
        rows=tuple(rows),
        note=prose("accuracy, note"),
    )


def query_words(query: str, attributes: Mapping[str, str] = ATTRIBUTE_WORDS) -> str:
    """A query's name in words, given the words for attributes and recodes."""
    if query == TOTAL:
        return "In total"
    if query == DETAILED:
        return "All characteristics together"
    return " × ".join(attributes[name] for name in query.split(" * "))


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


def describe_shares(
    design: TopDownDesign | DHCDesign, prose: Prose, in_words: Callable[[str], str]
) -> Iterator[Parameter]:
    """By histogram and level, the division of ρ among queries."""
    for histogram, allocation in design.allocations.items():
        for level, share in allocation.levels.items():
            parts = {query: part for query, part in allocation.queries[level].items() if part}
            yield Parameter(
                f"Allocation of {histogram}: {words(level)}",
                tuple(f"{in_words(query)}: {_percent(part)}" for query, part in parts.items()),
                prose("Allocation", share=_percent(share), histogram=histogram),
                (str(share), *(f"{query}: {part}" for query, part in parts.items())),
            )


def _parameters(release: TopDownRelease) -> tuple[Parameter, ...]:
    design = release.design

    def parameter(label: str, value: str | tuple[str, ...]) -> Parameter:
        return Parameter(label, value, PROSE(label))

    return (
        parameter("Geographic spine", tuple(words(level) for level in release.levels)),
        parameter("Invariants", design.multiverse),
        *describe_shares(design, PROSE, query_words),
        *(
            (
                parameter("Estimation", "From all measurements at and below every place; units after persons"),
                parameter("Types first", tuple(words(each) for each in release.levels if design.is_types_first(each))),
            )
            if design.full
            else (parameter("Totals first", tuple(map(words, design.total_first))),)
        ),
        parameter("Noise", "Discrete Gaussian"),
        parameter(
            "Constraints",
            (
                "every place is the sum of the places in it",
                "no minors in nursing facilities",
                *(bound for name, bound in _BOUNDS.items() if name in design.invariants),
            ),
        ),
    )


def name_leaning(release: TopDownRelease, spreads: Mapping[str, float]) -> Parameter:
    """The model through which places lean on their housing units, with τ² by code of the state."""
    of = words(level_of_states(release.levels))
    values = tuple(f"{of} {code}: τ² = {spread:.4g}" for code, spread in spreads.items())
    return Parameter(LEANING, values, PROSE(LEANING, finest=words(release.finest)))


def state_gain(release: TopDownRelease, places: Mapping[str, int]) -> Parameter:
    """The standard errors of linear estimates by level, without and with full estimation, from the number of places of
    each level."""
    # Numba takes a while to import.
    from mechanisms.topdown.gain import compare_errors

    errors = compare_errors(release.design, [places[level] for level in release.levels])
    values = tuple(
        f"{words(level)}: "
        + ", ".join(f"{name} {own[depth][0]:,.2f} → {own[depth][1]:,.2f}" for name, own in errors.items())
        for depth, level in enumerate(release.levels)
    )
    return Parameter(GAIN, values, PROSE(GAIN, finest=words(release.finest)))


def _percent(share: Fraction) -> str:
    return f"{Decimal(share.numerator) * 100 / Decimal(share.denominator):.3g}%"
