"""The part of a certificate that is specific to permutation swapping: words and figures for readers.

The mathematics is in `mechanisms.swapping`.
"""

from fractions import Fraction

from assets.release.statement import DataVersion, EvaluatedLoss, Parameter, Statement
from assets.swapping.draw import SwappingInputs
from mechanisms.swapping import loss, permutation
from mechanisms.swapping.design import SwappingDesign

MECHANISM = "Permutation Swapping Algorithm (PSA)"

LOSS_SOURCE = "Bailie, Gong & Meng, “A Refreshment Stirred, Not Shaken”, Theorem 1"


def swapping_statement(design: SwappingDesign, inputs: SwappingInputs, output_version: str) -> Statement:
    """The statement of the certificate about the mechanism.

    Args:
        design: the design of the release.
        inputs: the inputs of the draw.
        output_version: the content hash of the swapped data.
    """
    return Statement(
        mechanism=MECHANISM,
        mechanism_version=str(permutation.VERSION),
        parameters=parameters(design, inputs.largest_stratum, inputs.strata),
        loss_source=LOSS_SOURCE,
        data_versions=(
            DataVersion("confidential records", inputs.versions["records"], keyed=True),
            DataVersion("margin of the holding variables", inputs.versions["holding"], keyed=True),
            DataVersion("margin of match and swap variables", inputs.versions["swap"], keyed=True),
            DataVersion("swapped data", output_version, keyed=False),
        ),
        remark=f"Data sets that agree on the invariants and differ at all differ in at least two {design.unit}s.",
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
