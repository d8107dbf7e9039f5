"""The part of a certificate that is specific to permutation swapping: words and figures for readers.

The mathematics is in `mechanisms.swapping`.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from assets.release.columns import titles
from assets.release.statement import Accuracy, DataVersion, Equivalent, EvaluatedLoss, Paper, Parameter, Statement
from assets.swapping.draw import SwappingInputs
from assets.swapping.release import SwappingRelease
from assets.swapping.unique import UniqueRecords, percent
from mechanisms.accounting.composition import Loss
from mechanisms.accounting.specification import RECORDS_OF_OTHERS
from mechanisms.swapping import loss, permutation
from mechanisms.swapping.design import SwappingDesign
from mechanisms.swapping.moved import Moved

MECHANISM = "Permutation Swapping Algorithm (PSA)"

LOSS_SOURCE = "Bailie, Gong & Meng, “A Refreshment Stirred, Not Shaken”, Theorem 1"

PAPERS = (
    Paper(
        "Bailie, Gong and Meng: A Refreshment Stirred, Not Shaken: Invariant-Preserving Deployments of Differential "
        "Privacy for the U.S. Decennial Census (2025)",
        "https://arxiv.org/abs/2501.08449",
    ),
)

FEWEST = 2
"""Two data sets with the same invariants that differ at all differ in two records or more: one record alone cannot
change without changing a count that is held fixed."""


def swapping_statement(release: SwappingRelease, inputs: SwappingInputs, output_version: str) -> Statement:
    """The statement of the certificate about the mechanism.

    Args:
        release: the release.
        inputs: the inputs of the draw.
        output_version: the content hash of the swapped data.
    """
    names = _words(release)
    design, remarks = in_words(release.design, names), []
    remarks.append(f"Data sets that agree on the invariants and differ at all differ in at least two {design.unit}s.")
    if release.columns_of_others:
        others = ", ".join(names[name] for name in release.columns_of_others)
        remarks.append(
            f"This bounds no change of a person: {RECORDS_OF_OTHERS}, because {others} may follow from its persons."
        )
    specification = design.specification(release.dataset.title, inputs.largest_stratum)
    return Statement(
        mechanism=MECHANISM,
        mechanism_version=str(permutation.VERSION),
        method=method(design),
        parameters=(
            *parameters(design, inputs.largest_stratum, inputs.strata),
            *published_exactly(design, release.most_unique, inputs.unique),
        ),
        loss_source=LOSS_SOURCE,
        accuracy=accuracy(design, inputs.moved),
        data_versions=(
            DataVersion("confidential records", inputs.versions["records"], keyed=True),
            DataVersion("margin of the holding variables", inputs.versions["holding"], keyed=True),
            DataVersion("margin of match and swap variables", inputs.versions["swap"], keyed=True),
            DataVersion("swapped data", output_version, keyed=False),
        ),
        remark=" ".join(remarks),
        fewest=FEWEST,
        also_exact=_also_exact(design, inputs.unique),
        evaluated=evaluated(design, inputs.largest_stratum),
        equivalents=equivalents(design, specification.loss),
        papers=PAPERS,
        variables=names,
        flavor=specification.flavor,
    )


def _words(release: SwappingRelease) -> dict[str, str]:
    """The variables in the words of the data dictionary, or by their names if the words do not tell them apart."""
    words = titles({**release.variables, **release.person_variables})
    if len(set(words.values())) < len(words):
        return {name: name for name in words}
    return words


def in_words(design: SwappingDesign, names: Mapping[str, str]) -> SwappingDesign:
    """The same design with other names of its variables, for readers."""

    def words(role: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names[name] for name in role)

    return replace(
        design,
        match=words(design.match),
        swap=words(design.swap),
        held=words(design.held),
        persons=words(design.persons),
    )


def method(design: SwappingDesign) -> str:
    """What swapping does, for readers who know no statistics."""
    unit, moved = design.unit, _and(design.swap)
    alike = f" that agree on {_and(design.match)}" if design.match else ""
    follow = ", together with the persons in them," if design.persons else ""
    return (
        f"{unit[:1].upper()}{unit[1:]}s were selected at random, each with probability {_rate(design.swap_rate)}, and "
        f"exchanged their {moved}{follow} with other selected {unit}s{alike}. Everything published was counted from "
        "the result."
    )


def equivalents(design: SwappingDesign, loss: Loss) -> tuple[Equivalent, ...]:
    """The loss for one record, and for the fewest in which two data sets of the universe differ."""
    return (
        Equivalent(f"One {design.unit} (this is charged)", loss, "Theorem 1"),
        Equivalent(
            f"Two {design.unit}s, the fewest in which data sets differ that agree on what is held fixed",
            loss.of_group(FEWEST),
            "Group privacy: twice the loss for one",
        ),
    )


def _and(words: tuple[str, ...]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def accuracy(design: SwappingDesign, moved: Moved) -> Accuracy:
    """The shares of records that the swap is expected to move; they follow from the swap rate and the invariants."""
    unit = design.unit
    selected, changed = round(100 * moved.selected, 2), round(100 * moved.changed, 2)
    return Accuracy(
        summary=f"About {selected:.2f}% of the {unit}s are expected to be selected, and {changed:.2f}% to be published "
        f"with another {_and(design.swap)} than their own. Which ones is not published. Counts that are held fixed "
        "have no error.",
        columns=("Expected share of records", "Percent"),
        rows=(
            (f"{unit}s selected for the exchange", selected),
            (f"{unit}s whose {_and(design.swap)} differs after the exchange", changed),
        ),
        note="These shares follow from the swap rate and from counts that are held fixed, which the guarantee treats "
        "as known. Within each stratum, "
        f"swapping spreads every characteristic more evenly over {_and(design.swap)}, so that differences come out "
        "smaller than they are.",
    )


def _also_exact(design: SwappingDesign, unique: UniqueRecords) -> tuple[str, ...]:
    if not unique.holding and not unique.swap:
        return ()
    unit = design.unit
    return (
        f"Where only one {unit} has its values in one of these counts, those values are published unchanged: for "
        f"{unique.holding:,} of {unique.records:,} {unit}s in the first and {unique.swap:,} in the second.",
    )


def parameters(design: SwappingDesign, largest_stratum: int, strata: int) -> tuple[Parameter, ...]:
    """The design, the number of strata, and b, on which the loss depends.

    Args:
        design: the design of the release.
        largest_stratum: b, the size of the largest stratum with two distinct records; 0 if there is none.
        strata: the number of strata.
    """
    unit = design.unit
    return (
        Parameter("Records swapped", f"All {unit}s{', each with its persons' if design.persons else ''}"),
        Parameter(
            "Swap key (match variables)", design.match, f"Only {unit}s that agree on these variables are swapped."
        ),
        Parameter("Swap variables", design.swap, "Their values are permuted among the selected records."),
        Parameter("Holding variables", design.holding, "Every record keeps its values of these variables."),
        Parameter(
            "Swap rate p",
            float(design.swap_rate),
            f"The probability with which a {unit} is selected.",
            (str(design.swap_rate),),
        ),
        Parameter("Strata", strata, f"Groups of {unit}s that agree on the swap key."),
        Parameter(
            "Largest stratum b",
            largest_stratum,
            f"The number of {unit}s in the largest stratum with two distinct records; 0 if there is none.",
        ),
    )


def published_exactly(
    design: SwappingDesign, most_unique: Fraction | None, unique: UniqueRecords
) -> tuple[Parameter, ...]:
    """How many records the invariants publish exactly, in words.

    Args:
        design: the design of the release.
        most_unique: the greatest share that the release declares; None if it accepts any.
        unique: the numbers.
    """
    unit = design.unit
    limit = f"at most {percent(most_unique)}" if most_unique is not None else "any number of them"
    persons = f", with {unique.persons:,} persons" if design.persons else ""
    theirs = ", and of its persons," if design.persons else ""
    exact = (
        "These counts are held fixed and treated as known, so these values of such a {unit} are known together, "
        "unchanged, at any ε."
    )
    return (
        Parameter(
            "Unique on the holding variables",
            _of(unique, unique.holding, unit) + persons,
            f"No other {unit} has the same values of the holding variables{theirs} as each of these. "
            + exact.format(unit=unit)
            + f" The release allows {limit}.",
        ),
        Parameter(
            "Unique on match and swap variables",
            _of(unique, unique.swap, unit),
            f"No other {unit} has the same values of match and swap variables as each of these. "
            + exact.format(unit=unit)
            + f" The release allows {limit}.",
        ),
        Parameter(
            "Unique and never changed",
            _of(unique, unique.whole, unit),
            f"All variables of these {unit}s are published exactly: nothing in their stratum differs that could be "
            "exchanged.",
        ),
    )


def _of(unique: UniqueRecords, number: int, unit: str) -> str:
    return f"{number:,} of {unique.records:,} {unit}s ({percent(unique.share(number))})"


def evaluated(design: SwappingDesign, largest_stratum: int) -> EvaluatedLoss:
    """The bound from the ratio in the proof of Theorem 1, with its explanation."""
    return EvaluatedLoss(
        loss.evaluated(largest_stratum, design.swap_rate),
        "For information; never greater than what is charged. The ratio in the proof of Theorem 1 (Equation E.5) for "
        "this b and p, without the relaxation of Lemma 6.",
    )


def _rate(swap_rate: Fraction) -> str:
    return f"{float(swap_rate):g}"
