"""What a swap with varying rates, a second stir or noise is and costs, in words for pages and certificates.

The losses are derived in `docs/mechanisms/swapping-extensions.md`. Where a plain swap is described too, its words are
those that it always had.
"""

from collections.abc import Sequence
from fractions import Fraction

from assets.release.statement import Equivalent, Parameter
from mechanisms.swapping.design import Case, SwapLosses, SwappingDesign

SOURCE = "“Swapping, extended” in the documentation of Stirred, after Bailie, Gong & Meng, Theorem 1 and Appendix C.2"


def rate_in_words(design: SwappingDesign) -> str:
    """The rate of a record in the first stir, after "with"."""
    rates = design.swap_rate
    if rates.is_single:
        words = f"probability p = {rates.single_rate}"
    elif rates.epsilon is not None:
        words = f"the smallest probability that gives its stratum ε = {rates.epsilon}"
    else:
        words = "the probability of the first case that fits it (" + "; ".join(map(case_in_words, rates.cases)) + ")"
    return f"{words}, but for exempt records, which are never selected" if design.exempt else words


def case_in_words(case: Case) -> str:
    conditions = [f"{name} {' or '.join(map(str, values))}" for name, values in case.when]
    if case.at_most is not None:
        conditions.append(f"at most {case.at_most:,} alike")
    return f"{', '.join(conditions) or 'all others'}: {case.rate}"


def further_steps(design: SwappingDesign) -> str:
    """What happens before and after the first stir."""
    steps = ""
    if design.noise:
        each = ", ".join(f"{response.variable} with probability {response.keep}" for response in design.noise)
        steps += f"""

Before that, every record keeps its value of {each}, and otherwise gets one of the other values of the domain, each
equally likely."""
    if design.second_stir:
        coarse, rate = design.second_stir.match, design.second_stir.swap_rate
        steps += f"""

After that, the same is done once more with p = {rate}, among all {design.unit}s that agree on
{", ".join(coarse) or "nothing (all of them)"}."""
    return steps


def counted_strata(design: SwappingDesign) -> str:
    """Which strata of the first stir count towards b, after "stratum"."""
    if design.noise:
        return "with two swap values"
    exempt = ", exempt ones left out" if design.exempt else ""
    if design.second_stir:
        return f"of the first exchange with two records{exempt}"
    return f"with two distinct records{exempt}"


def charged_for(design: SwappingDesign) -> str:
    """How the charge follows, for its page."""
    by_stratum = "the greatest over strata of ln(n + 1) − ln o_min and ln o_max; o = p / (1 − p)"
    if design.noise:
        return (
            "The charge is ε_R of the noise on holding values, in universes that fix only "
            f"{design.invariants[0]}: the sum over variables of the logarithm of the greatest ratio of two "
            f"probabilities. Swapping is then post-processing. In finer universes, which also fix "
            f"{design.finer_invariant}, the loss is the smaller of ε_R and that of the swap."
        )
    if design.second_stir:
        return (
            f"The charge is that of the second stir, {by_stratum}, in universes that fix {design.invariants[0]}, and "
            f"{design.invariants[1]}. In finer universes, which also fix {design.finer_invariant}, the loss is the "
            "smaller of this and that of the first stir. The finer counts are not published, so the charge holds "
            "without them."
        )
    exempt = " Exempt strata do not count." if design.exempt else ""
    return (
        f"The charge is {by_stratum}. Here n is the number of records of the stratum, and o_min and o_max are over "
        f"their swap rates, which follow from match and holding values alone.{exempt}"
    )


def equivalents(design: SwappingDesign, losses: SwapLosses, fewest: int) -> tuple[Equivalent, ...]:
    """The loss that is charged, for one record and the fewest that can differ, and the loss in finer universes."""
    noise = losses.noise is not None
    found = [Equivalent(f"One {design.unit} (this is charged)", losses.charged, SOURCE)]
    if not noise:
        group = losses.charged.of_group(fewest)
        found.append(
            Equivalent(
                f"Two {design.unit}s, the fewest in which data sets differ that agree on what is held fixed",
                group,
                "Group privacy: twice the loss for one",
            )
        )
    if losses.finer is not None:
        found.append(
            Equivalent(
                f"One {design.unit}, if {design.finer_invariant} is held fixed too",
                losses.finer,
                f"The smaller of the charge and the loss of the {'swap' if noise else 'first stir'}",
            )
        )
    return tuple(found)


def parameters(design: SwappingDesign, losses: SwapLosses) -> tuple[Parameter, ...]:
    """The parameters that a plain swap has not, and the rates instead of its one rate."""
    unit, first = design.unit, losses.first
    found = [_rates(design, losses)]
    if design.exempt:
        found.append(
            Parameter(
                f"Exempt {unit}s",
                first.exempt,
                f"Those with {design.exempt_in_words}: they are never selected, all their values are published as they "
                "are, and the guarantee does not cover them.",
            )
        )
    if design.second_stir and losses.second:
        rate = design.second_stir.swap_rate
        found += [
            Parameter(
                "Swap key of the second stir",
                design.second_stir.match or ("none: all records",),
                f"After the first exchange, {unit}s that agree on these are swapped once more.",
            ),
            Parameter(
                "Swap rate of the second stir",
                float(rate),
                f"The probability with which a {unit} is selected again.",
                (str(rate),),
            ),
            Parameter(
                "Largest stratum of the second stir",
                losses.second.largest_stratum,
                "The loss that is charged follows from it and from the rate of the second stir.",
            ),
        ]
    for response in design.noise:
        found.append(
            Parameter(
                f"Noise on {response.variable}",
                float(response.keep),
                f"The probability with which a {unit} keeps its value before the swap; otherwise it gets another of "
                f"the {response.size} values, each equally likely.",
                (str(response.keep),),
            )
        )
    return tuple(found)


def _rates(design: SwappingDesign, losses: SwapLosses) -> Parameter:
    rates, unit = design.swap_rate, design.unit
    rate = rates.single_rate
    if rate is not None:
        return Parameter("Swap rate p", float(rate), f"The probability with which a {unit} is selected.", (str(rate),))
    range_of = (losses.first.lowest, losses.first.highest)
    shown = _range([rate for rate in range_of if rate is not None])
    if rates.epsilon is not None:
        note = f"Every stratum has the smallest rate, in millionths, with ε = {rates.epsilon} at most."
        return Parameter("Swap rates", shown, note)
    alike = ""
    if rates.counts_rarity:
        of = "all holding variables" if rates.rarity_of is None else ", ".join(rates.rarity_of)
        alike = f" Alike are {unit}s with the same values of {of}."
    return Parameter(
        "Swap rates",
        tuple(map(case_in_words, rates.cases)),
        f"The probability with which a {unit} is selected, by the first case that fits. In strata that count: {shown}."
        + alike,
    )


def _range(rates: Sequence[Fraction]) -> str:
    distinct = sorted(set(rates))
    return " to ".join(f"{float(rate):g}" for rate in distinct) or "none"
