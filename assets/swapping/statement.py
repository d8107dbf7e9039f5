"""The part of a certificate that is specific to permutation swapping, and the words of pages, from `statement.md`.

The mathematics is in `mechanisms.swapping`. `docs/mechanisms/swapping-extensions.md` derives the losses of swaps that
are not plain. A plain swap's words are the same as before these extensions existed.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from assets.conventions import join_names
from assets.release.columns import distinguish_columns
from assets.release.prose import Prose
from assets.release.statement import REFRESHMENT, Accuracy, DataVersion, Equivalent, EvaluatedLoss, Parameter, Statement
from assets.swapping.draw import SwappingInputs
from assets.swapping.invariants import UniqueRecords, percent
from assets.swapping.release import SwappingRelease
from mechanisms.accounting.losses import Loss
from mechanisms.accounting.specification import PERSON_RECORD, RECORDS_OF_OTHERS
from mechanisms.swapping import loss, permutation
from mechanisms.swapping.design import Case, SwapLosses, SwappingDesign
from mechanisms.swapping.uncertainty import Moved

PROSE = Prose(__file__)

MECHANISM = "Permutation Swapping Algorithm (PSA)"

LOSS_SOURCE = PROSE("loss source, Theorem 1")

SWAP_KEY, LARGEST_STRATUM = "Swap key (match variables)", "Largest stratum b"
"""Labels in the certificate by which a later plan finds b."""

FEWEST = 2
"""Two different data sets with the same invariants differ in at least two records: a change of one record alone would
change a count that is held fixed."""


def swapping_statement(release: SwappingRelease, inputs: SwappingInputs, output_version: str) -> Statement:
    names = variable_words(release)
    design = put_in_words(release.design, names)
    specification = design.specification(release.dataset.title, inputs.loss)
    unique = inputs.unique
    return Statement(
        mechanism=MECHANISM,
        mechanism_version=str(permutation.VERSION),
        method=describe_method(design),
        parameters=(
            *parameters(design, inputs.largest_stratum, inputs.strata, inputs.losses),
            *unique_parameters(design, release.declaration.publishes_unique_records, unique),
        ),
        loss_source=LOSS_SOURCE if inputs.losses is None else PROSE("loss source, extended"),
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
        remark=_write(
            "remark",
            design,
            finer=inputs.losses is not None and inputs.losses.finer is not None,
            others=[names[name] for name in release.columns_of_others],
            records_of_others=RECORDS_OF_OTHERS,
        ).strip(),
        fewest=1 if design.noise else FEWEST,
        also_exact=(_write("also exact", design, unique=unique),) if unique.holding or unique.swap else (),
        evaluated=evaluate_loss(design, inputs.largest_stratum),
        equivalents=equivalents(design, specification.loss, inputs.losses),
        papers=(REFRESHMENT,),
        variables=names,
        flavor=specification.flavor,
    )


def variable_words(release: SwappingRelease) -> dict[str, str]:
    return distinguish_columns({**release.variables, **release.person_variables})


def put_in_words(design: SwappingDesign, names: Mapping[str, str]) -> SwappingDesign:
    """The same design with other names of its variables, for readers."""

    def words(role: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names[name] for name in role)

    def conditions(when: tuple[tuple[str, tuple[Any, ...]], ...]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
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
            cases=tuple(replace(case, when=conditions(case.when)) for case in rates.cases),
            rarity_of=None if rates.rarity_of is None else words(rates.rarity_of),
        ),
        exempt=conditions(design.exempt),
        second_stir=replace(stir, match=words(stir.match)) if stir else None,
        noise=tuple(replace(response, variable=names[response.variable]) for response in design.noise),
    )


def _write(heading: str, design: SwappingDesign, **values: Any) -> str:
    return PROSE(heading, design=design, unit=design.unit, **values)


def describe_method(design: SwappingDesign) -> str:
    return _write("method", design, rate=design.swap_rate.single_rate)


def describe_draw(release: SwappingRelease, heading: str = "draw") -> str:
    design, rates = release.design, release.design.swap_rate
    rate = _write("rate", design, rate=rates.single_rate, rates=rates, cases=list(map(format_case, rates.cases)))
    # The steps before and after the first stir are separate paragraphs.
    further = "\n\n" + _write("noise before", design) if design.noise else ""
    further += "\n\n" + _write("second stir", design) if design.second_stir else ""
    return _write(heading, design, rate=rate, further=further)


def format_case(case: Case) -> str:
    conditions = [f"{name} {' or '.join(map(str, values))}" for name, values in case.when]
    if case.at_most is not None:
        conditions.append(f"at most {case.at_most:,} alike")
    return f"{', '.join(conditions) or 'all others'}: {case.rate}"


def describe_charge(release: SwappingRelease) -> str:
    return _write("charge", release.design, person_record=PERSON_RECORD, records_of_others=RECORDS_OF_OTHERS)


def describe_invariants(release: SwappingRelease) -> str:
    allowed = release.declaration.publishes_unique_records
    return _write("invariants", release.design, limit=None if allowed is None else percent(allowed))


def equivalents(design: SwappingDesign, charged: Loss, losses: SwapLosses | None = None) -> tuple[Equivalent, ...]:
    """The loss for one record, for the fewest records in which data sets differ, and in finer universes."""
    source = "Theorem 1" if losses is None else PROSE("loss source, extended")
    equivalent_losses = [Equivalent(f"One {design.unit} (this is charged)", charged, source)]
    if not design.noise:
        equivalent_losses.append(
            Equivalent(
                f"Two {design.unit}s, the fewest in which data sets differ that agree on what is held fixed",
                charged.of_group(FEWEST),
                "Group privacy: twice the loss for one",
            )
        )
    if losses and losses.finer is not None:
        equivalent_losses.append(
            Equivalent(
                f"One {design.unit}, if {design.finer_invariant} is held fixed too",
                losses.finer,
                f"The smaller of the charge and the loss of the {'swap' if design.noise else 'first stir'}",
            )
        )
    return tuple(equivalent_losses)


def accuracy(design: SwappingDesign, moved: Moved) -> Accuracy:
    """The shares of records that the swap is expected to move, as far as they follow from rates and invariants."""
    unit, selected = design.unit, round(100 * moved.selected, 2)
    rows: list[tuple[str | float, ...]] = [(f"{unit}s selected for the exchange", selected)]
    changed = None
    if moved.changed is not None:
        changed = round(100 * moved.changed, 2)
        rows.append((f"{unit}s whose {join_names(design.swap)} differs after the exchange", changed))
    else:
        if moved.again is not None:
            rows.append((f"{unit}s selected for the second exchange", round(100 * moved.again, 2)))
        for response in design.noise:
            replaced = round(100 * (1 - float(response.keep)), 2)
            rows.append((f"{unit}s whose {response.variable} is replaced by another value", replaced))
    heading = "accuracy of selection" if changed is None else "accuracy"
    return Accuracy(
        summary=_write(heading, design, selected=selected, changed=changed),
        columns=("Expected share of records", "Percent"),
        rows=tuple(rows),
        note=_write(f"{heading}, note", design, estimates=_write("estimates", design)),
    )


def parameters(
    design: SwappingDesign, largest_stratum: int, strata: int, losses: SwapLosses | None = None
) -> tuple[Parameter, ...]:
    """The design, the number of strata, and b, on which the loss depends; 0 if no stratum has two distinct records."""
    return (
        Parameter("Records swapped", _write("Records swapped", design)),
        _parameter(design, SWAP_KEY, design.match),
        _parameter(design, "Swap variables", design.swap),
        _parameter(design, "Holding variables", design.holding),
        _rates(design, losses),
        *(_extended_parameters(design, losses) if losses else ()),
        _parameter(design, "Strata", strata),
        _parameter(design, LARGEST_STRATUM, largest_stratum),
    )


def _parameter(design: SwappingDesign, label: str, value: str | int | float | tuple[str, ...]) -> Parameter:
    return Parameter(label, value, _write(label, design))


def _rates(design: SwappingDesign, losses: SwapLosses | None) -> Parameter:
    rates = design.swap_rate
    rate = rates.single_rate
    if rate is not None:
        return Parameter("Swap rate p", float(rate), _write("Swap rate p", design), (str(rate),))
    assert losses is not None, "without losses of its own, a swap is plain, and has a single rate"
    attained = (losses.first.lowest, losses.first.highest)
    distinct = sorted({rate for rate in attained if rate is not None})
    shown = " to ".join(f"{float(rate):g}" for rate in distinct) or "none"
    if rates.epsilon is not None:
        return Parameter("Swap rates", shown, _write("Swap rates of strata", design, rates=rates))
    note = _write("Swap rates of cases", design, rates=rates, range=shown)
    return Parameter("Swap rates", tuple(map(format_case, rates.cases)), note)


def _extended_parameters(design: SwappingDesign, losses: SwapLosses) -> tuple[Parameter, ...]:
    extended = []
    if design.exempt:
        extended.append(Parameter(f"Exempt {design.unit}s", losses.first.exempt, _write("Exempt", design)))
    if design.second_stir and losses.second:
        label, rate = "Swap rate of the second stir", design.second_stir.swap_rate
        match, largest = design.second_stir.match or ("none: all records",), losses.second.largest_stratum
        extended += [
            _parameter(design, "Swap key of the second stir", match),
            Parameter(label, float(rate), _write(label, design), (str(rate),)),
            _parameter(design, "Largest stratum of the second stir", largest),
        ]
    for response in design.noise:
        note = _write("Noise", design, response=response)
        extended.append(Parameter(f"Noise on {response.variable}", float(response.keep), note, (str(response.keep),)))
    return tuple(extended)


def unique_parameters(
    design: SwappingDesign, most_unique: Fraction | None, unique: UniqueRecords
) -> tuple[Parameter, ...]:
    """The numbers of records that the invariants publish exactly, with the declared limit. `most_unique` is None if any
    share is accepted."""
    limit = "any number of them" if most_unique is None else f"at most {percent(most_unique)}"

    def parameter(label: str, number: int, further: str = "") -> Parameter:
        of_all = f"{number:,} of {unique.records:,} {design.unit}s ({percent(unique.share(number))}){further}"
        return Parameter(label, of_all, _write(label, design, limit=limit))

    on_swap = parameter("Unique on match and swap variables", unique.swap)
    if design.noise:
        return (on_swap,)
    persons = f", with {unique.persons:,} persons" if design.persons else ""
    return (
        parameter("Unique on the holding variables", unique.holding, persons),
        on_swap,
        parameter("Unique and never changed", unique.whole),
    )


def evaluate_loss(design: SwappingDesign, largest_stratum: int) -> EvaluatedLoss | None:
    """The bound from the ratio in the proof of Theorem 1, with its explanation; None for a swap that is not plain."""
    if design.plain_rate is None:
        return None
    return EvaluatedLoss(loss.evaluated(largest_stratum, design.plain_rate), _write("evaluated", design))
