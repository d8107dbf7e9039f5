"""The part of a certificate that is specific to permutation swapping: words and figures for readers.

The mathematics is in `mechanisms.swapping`.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from assets.release.columns import title_columns
from assets.release.statement import Accuracy, DataVersion, Equivalent, EvaluatedLoss, Paper, Parameter, Statement
from assets.swapping import extended_words
from assets.swapping.draw import SwappingInputs
from assets.swapping.extended_words import SOURCE, counted_strata
from assets.swapping.release import SwappingRelease
from assets.swapping.unique import UniqueRecords, percent
from mechanisms.accounting.losses import Loss
from mechanisms.accounting.specification import RECORDS_OF_OTHERS
from mechanisms.swapping import loss, permutation
from mechanisms.swapping.design import SwapLosses, SwappingDesign
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

SWAP_KEY, LARGEST_STRATUM = "Swap key (match variables)", "Largest stratum b"
"""Labels in the certificate, from which a later plan reads b."""

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
    names = variable_words(release)
    design, remarks = in_words(release.design, names), []
    if not design.noise:
        remarks.append(
            f"Data sets that agree on the invariants and differ at all differ in at least two {design.unit}s."
        )
    if design.exempt:
        remarks.append(
            f"{_start(design.unit)}s with {design.exempt_in_words} are exempt: for a change of one of them, the loss "
            "is infinite."
        )
    if inputs.losses and inputs.losses.finer is not None:
        remarks.append(
            f"The charge needs no other counts. If {design.finer_invariant} is held fixed too, the smaller loss among "
            "the equivalents holds."
        )
    if release.columns_of_others:
        others = ", ".join(names[name] for name in release.columns_of_others)
        remarks.append(
            f"This bounds no change of a person: {RECORDS_OF_OTHERS}, because {others} may follow from its persons."
        )
    specification = design.specification(release.dataset.title, inputs.loss)
    return Statement(
        mechanism=MECHANISM,
        mechanism_version=str(permutation.VERSION),
        method=method(design),
        parameters=(
            *parameters(design, inputs.largest_stratum, inputs.strata, inputs.losses),
            *published_exactly(design, release.declaration.publishes_unique_records, inputs.unique),
        ),
        loss_source=LOSS_SOURCE if inputs.losses is None else SOURCE,
        accuracy=accuracy(design, inputs.moved),
        data_versions=(
            DataVersion("confidential records", inputs.versions["records"], keyed=True),
            DataVersion(
                "combinations of holding values" if design.noise else "margin of the holding variables",
                inputs.versions["holding"],
                keyed=True,
            ),
            DataVersion("margin of match and swap variables", inputs.versions["swap"], keyed=True),
            DataVersion("swapped data", output_version, keyed=False),
        ),
        remark=" ".join(remarks),
        fewest=1 if design.noise else FEWEST,
        also_exact=_also_exact(design, inputs.unique),
        evaluated=evaluated(design, inputs.largest_stratum),
        equivalents=equivalents(design, specification.loss, inputs.losses),
        papers=PAPERS,
        variables=names,
        flavor=specification.flavor,
    )


def variable_words(release: SwappingRelease) -> dict[str, str]:
    """The variables in the words of the data dictionary, or by their names if the words do not tell them apart."""
    words = title_columns({**release.variables, **release.person_variables})
    if len(set(words.values())) < len(words):
        return {name: name for name in words}
    return words


def in_words(design: SwappingDesign, names: Mapping[str, str]) -> SwappingDesign:
    """The same design with other names of its variables, for readers."""

    def words(role: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names[name] for name in role)

    def named(when: tuple[tuple[str, tuple[Any, ...]], ...]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        return tuple((names[name], values) for name, values in when)

    rates, stir = design.swap_rate, design.second_stir
    return replace(
        design,
        match=words(design.match),
        swap=words(design.swap),
        held=words(design.held),
        persons=words(design.persons),
        swap_rate=replace(
            rates,
            cases=tuple(replace(case, when=named(case.when)) for case in rates.cases),
            rarity_of=None if rates.rarity_of is None else words(rates.rarity_of),
        ),
        exempt=named(design.exempt),
        second_stir=replace(stir, match=words(stir.match)) if stir else None,
        noise=tuple(replace(response, variable=names[response.variable]) for response in design.noise),
    )


def method(design: SwappingDesign) -> str:
    """What swapping does, for readers who know no statistics."""
    unit, moved = design.unit, _and(design.swap)
    alike = f" that agree on {_and(design.match)}" if design.match else ""
    follow = ", together with the persons in them," if design.persons else ""
    rate = design.swap_rate.single_rate
    chance = "with probabilities that differ" if rate is None else f"each with probability {_rate(rate)}"
    exempt = f", except those with {design.exempt_in_words}" if design.exempt else ""
    before = after = ""
    if design.noise:
        before = (
            f"Every {unit} kept its {_and(tuple(response.variable for response in design.noise))} with a fixed "
            "probability, and otherwise got a random other value. Then "
        )
    if design.second_stir:
        coarse = f" that agree on {_and(design.second_stir.match)}" if design.second_stir.match else ""
        again = f"each with probability {_rate(design.second_stir.swap_rate)}"
        after = f" The same was done once more among {unit}s{coarse}, {again}."
    subject = f"{unit}s" if before else f"{_start(unit)}s"
    return (
        f"{before}{subject}{exempt} were selected at random, {chance}, and "
        f"exchanged their {moved}{follow} with other selected {unit}s{alike}.{after} Everything published was counted "
        "from the result."
    )


def equivalents(design: SwappingDesign, loss: Loss, losses: SwapLosses | None = None) -> tuple[Equivalent, ...]:
    """The loss for one record, and for the fewest in which two data sets of the universe differ."""
    if losses is not None:
        return extended_words.equivalents(design, losses, FEWEST)
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
    if moved.changed is None:
        return _accuracy_of_selection(design, moved)
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
        f"smaller than they are. {estimates_in_words(design)}",
    )


def _accuracy_of_selection(design: SwappingDesign, moved: Moved) -> Accuracy:
    """The same for a swap that is not plain: how many records change does not follow from the invariants."""
    unit = design.unit
    rows: list[tuple[str | float, ...]] = [(f"{unit}s selected for the exchange", round(100 * moved.selected, 2))]
    if moved.again is not None:
        rows.append((f"{unit}s selected for the second exchange", round(100 * moved.again, 2)))
    for response in design.noise:
        changed = round(100 * (1 - float(response.keep)), 2)
        rows.append((f"{unit}s whose {response.variable} is replaced by another value", changed))
    return Accuracy(
        summary=f"About {rows[0][1]:.2f}% of the {unit}s are expected to be selected for the exchange of "
        f"{_and(design.swap)}. Which ones is not published. Counts that are held fixed have no error.",
        columns=("Expected share of records", "Percent"),
        rows=tuple(rows),
        note="These shares follow from the declared rates and from counts that are held fixed, which the guarantee "
        "treats as known. A selected record may get the same values as its own. Within each stratum, swapping spreads "
        f"every characteristic more evenly over {_and(design.swap)}, so that differences come out smaller than they "
        f"are. {estimates_in_words(design)}",
    )


def estimates_in_words(design: SwappingDesign) -> str:
    """What the columns beside the counts of products are, and how they are made."""
    if design.without_estimates:
        return f"The counts before the exchange are not estimated, because {design.without_estimates}."
    return (
        "Beside each count y of a product after the exchange stand an unbiased estimate of the count before it, its "
        "standard error and a 90% interval. They are computed from what is published and the swap rates alone, without "
        "further loss. The mean of y in a stratum is c x + (1 − c) F G / n, where x is the count before the exchange, "
        f"F and G are what the counts held fixed say of the cell, n is the stratum's number of {design.unit}s, and "
        "c = 1 − p̃ n / (n − 1) with the probability p̃ that one moves; the estimate solves this for x, and estimates of "
        "strata are added up. The "
        "standard error is from the exact variance of y, in which what is unknown is replaced by unbiased estimates. "
        "The interval is the estimate ± 1.645 standard errors, wider by the greatest bias where one is stated, and cut "
        "to what the counts held fixed allow. It is meant for counts of 20 or more."
    )


def _also_exact(design: SwappingDesign, unique: UniqueRecords) -> tuple[str, ...]:
    if not unique.holding and not unique.swap:
        return ()
    unit = design.unit
    if design.noise:
        return (
            f"Where only one {unit} has its values in these counts, those values are published unchanged: for "
            f"{unique.swap:,} of {unique.records:,} {unit}s.",
        )
    return (
        f"Where only one {unit} has its values in one of these counts, those values are published unchanged: for "
        f"{unique.holding:,} of {unique.records:,} {unit}s in the first and {unique.swap:,} in the second.",
    )


def parameters(
    design: SwappingDesign, largest_stratum: int, strata: int, losses: SwapLosses | None = None
) -> tuple[Parameter, ...]:
    """The design, the number of strata, and b, on which the loss depends.

    Args:
        design: the design of the release.
        largest_stratum: b, the size of the largest stratum with two distinct records; 0 if there is none.
        strata: the number of strata.
        losses: those of a swap that is not plain.
    """
    unit, swap_rate = design.unit, design.plain_rate
    if losses is not None:
        rates = extended_words.parameters(design, losses)
    elif swap_rate is not None:
        rates = (
            Parameter(
                "Swap rate p",
                float(swap_rate),
                f"The probability with which a {unit} is selected.",
                (str(swap_rate),),
            ),
        )
    else:
        raise ValueError("a swap that is not plain has losses of its own")
    kept = "Every record keeps its values of these variables."
    if design.noise:
        kept = "They stay with the record; those that are not in the swap key are perturbed before."
    return (
        Parameter("Records swapped", f"All {unit}s{', each with its persons' if design.persons else ''}"),
        Parameter(SWAP_KEY, design.match, f"Only {unit}s that agree on these variables are swapped."),
        Parameter("Swap variables", design.swap, "Their values are permuted among the selected records."),
        Parameter("Holding variables", design.holding, kept),
        *rates,
        Parameter("Strata", strata, f"Groups of {unit}s that agree on the swap key."),
        Parameter(
            LARGEST_STRATUM,
            largest_stratum,
            f"The number of {unit}s in the largest stratum {counted_strata(design)}; 0 if there is none.",
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
    on_swap = Parameter(
        "Unique on match and swap variables",
        _of(unique, unique.swap, unit),
        f"No other {unit} has the same values of match and swap variables as each of these. "
        + exact.format(unit=unit)
        + f" The release allows {limit}.",
    )
    if design.noise:
        return (on_swap,)
    return (
        Parameter(
            "Unique on the holding variables",
            _of(unique, unique.holding, unit) + persons,
            f"No other {unit} has the same values of the holding variables{theirs} as each of these. "
            + exact.format(unit=unit)
            + f" The release allows {limit}.",
        ),
        on_swap,
        Parameter(
            "Unique and never changed",
            _of(unique, unique.whole, unit),
            f"All variables of these {unit}s are published exactly: nothing in their stratum differs that could be "
            "exchanged.",
        ),
    )


def _of(unique: UniqueRecords, number: int, unit: str) -> str:
    return f"{number:,} of {unique.records:,} {unit}s ({percent(unique.share(number))})"


def evaluated(design: SwappingDesign, largest_stratum: int) -> EvaluatedLoss | None:
    """The bound from the ratio in the proof of Theorem 1, with its explanation; None for a swap that is not plain."""
    if design.plain_rate is None:
        return None
    return EvaluatedLoss(
        loss.evaluated(largest_stratum, design.plain_rate),
        "For information; never greater than what is charged. The ratio in the proof of Theorem 1 (Equation E.5) for "
        "this b and p, without the relaxation of Lemma 6.",
    )


def _start(unit: str) -> str:
    """A unit at the beginning of a sentence."""
    return f"{unit[:1].upper()}{unit[1:]}"


def _rate(swap_rate: Fraction) -> str:
    return f"{float(swap_rate):g}"
