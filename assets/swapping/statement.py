"""The part of a certificate that is specific to permutation swapping: words and figures for readers.

The mathematics is in `mechanisms.swapping`.
"""

from fractions import Fraction

from assets.release.statement import DataVersion, EvaluatedLoss, Parameter, Statement
from assets.swapping.draw import SwappingInputs
from assets.swapping.release import SwappingRelease
from assets.swapping.unique import UniqueRecords, percent
from mechanisms.accounting.specification import RECORDS_OF_OTHERS
from mechanisms.swapping import loss, permutation
from mechanisms.swapping.design import SwappingDesign

MECHANISM = "Permutation Swapping Algorithm (PSA)"

LOSS_SOURCE = "Bailie, Gong & Meng, “A Refreshment Stirred, Not Shaken”, Theorem 1"


def swapping_statement(release: SwappingRelease, inputs: SwappingInputs, output_version: str) -> Statement:
    """The statement of the certificate about the mechanism.

    Args:
        release: the release.
        inputs: the inputs of the draw.
        output_version: the content hash of the swapped data.
    """
    design, remarks = release.design, []
    remarks.append(f"Data sets that agree on the invariants and differ at all differ in at least two {design.unit}s.")
    if release.columns_of_others:
        remarks.append(
            f"This bounds no change of a person: {RECORDS_OF_OTHERS}, because {', '.join(release.columns_of_others)} "
            "may follow from its persons."
        )
    return Statement(
        mechanism=MECHANISM,
        mechanism_version=str(permutation.VERSION),
        parameters=(
            *parameters(design, inputs.largest_stratum, inputs.strata),
            *published_exactly(design, release.most_unique, inputs.unique),
        ),
        loss_source=LOSS_SOURCE,
        data_versions=(
            DataVersion("confidential records", inputs.versions["records"], keyed=True),
            DataVersion("margin of the holding variables", inputs.versions["holding"], keyed=True),
            DataVersion("margin of match and swap variables", inputs.versions["swap"], keyed=True),
            DataVersion("swapped data", output_version, keyed=False),
        ),
        remark=" ".join(remarks),
        evaluated=evaluated(design, inputs.largest_stratum),
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
        Parameter("Swap rate p", _rate(design.swap_rate), f"The probability with which a {unit} is selected."),
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
    exact = "These counts are exact, so these values of such a {unit} are published together, unchanged, at any ε."
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
    percent = swap_rate * 100
    return f"{swap_rate} ({percent.numerator}%)" if percent.denominator == 1 else str(swap_rate)
