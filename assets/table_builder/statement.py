"""The part of a certificate that is specific to the table builder, and the words of pages, from `statement.md`."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

from assets.measurement.method import COUNTS
from assets.release.columns import distinguish_columns
from assets.release.draw import Inputs
from assets.release.prose import Prose
from assets.release.statement import Accuracy, DataVersion, Equivalent, Paper, Parameter, Statement
from assets.table_builder.cells import query_of, table_name
from assets.table_builder.release import HypercubeInputs, HypercubeRelease
from mechanisms.accounting.losses import ApproximateLoss, format_loss
from mechanisms.accounting.rounding import format_decimal_above
from mechanisms.accounting.specification import PERSON_RECORD, RECORDS_OF_OTHERS, Specification
from mechanisms.table_builder.asking import error_of_one, margin_of_one
from mechanisms.table_builder.hypercube import VERSION, Consistency, Margins, NoiseFamily

PROSE = Prose(__file__)

MECHANISM = "Table builder: a hypercube with noise in every cell"

PAPERS = (
    Paper(
        "Rinott, O'Keefe, Shlomo and Skinner: Confidentiality and Differential Privacy in the Dissemination of "
        "Frequency Tables, Statistical Science 33 (2018)",
        "https://doi.org/10.1214/17-STS641",
    ),
)

RECORDS = "records"
"""The name of the version of all records among the inputs of a draw with cell consistency."""


def hypercube_statement(release: HypercubeRelease, inputs: Inputs, output_version: str) -> Statement:
    design, words = release.design, _words(release)
    besides = inputs.withheld if isinstance(inputs, HypercubeInputs) else None
    gaussian, by_cell = design.noise is NoiseFamily.GAUSSIAN, design.consistency is Consistency.CELL
    of_persons = release.unit == PERSON_RECORD
    return Statement(
        mechanism=MECHANISM,
        mechanism_version=str(VERSION),
        method=PROSE(
            "method",
            release=release,
            design=design,
            words=words,
            variables=[words[name] for name in release.cube.variables],
            margins=PROSE(f"margins, {design.margins.value}"),
        ),
        parameters=tuple(_parameters(release)),
        loss_source=PROSE("loss source", release=release, design=design, gaussian=gaussian, by_cell=by_cell),
        accuracy=accuracy(release),
        data_versions=(
            DataVersion("exact cells", inputs.versions[COUNTS], keyed=True),
            *([DataVersion("records", inputs.versions[RECORDS], keyed=True)] if RECORDS in inputs.versions else []),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark=PROSE("person records", records_of_others=RECORDS_OF_OTHERS) if of_persons else "",
        delta=release.cube.delta if gaussian else None,
        equivalents=_equivalents(release, besides),
        papers=PAPERS,
        variables=words,
        flavor=None if release.withheld else release.flavor([words[name] for name in release.columns_read]),
    )


def describe_charge(release: HypercubeRelease) -> str:
    design = release.design
    return PROSE(
        "charge",
        release=release,
        design=design,
        unbounded=format_loss(design.unbounded),
        bounded=format_loss(design.bounded),
        charge=format_loss(release.specification.charge),
        of_persons=release.unit == PERSON_RECORD,
        records_of_others=RECORDS_OF_OTHERS,
    )


def _equivalents(release: HypercubeRelease, besides: Specification | None) -> tuple[Equivalent, ...]:
    design, unit = release.design, release.unit
    if release.withheld is None or besides is None:
        return (
            Equivalent(f"One {unit} changed (bounded; this is charged)", design.bounded, "Two cells of every table"),
            *_with_least_delta(release),
            Equivalent(f"One {unit} added or removed (unbounded)", design.unbounded, "One cell of every table"),
        )
    held = "; ".join(besides.flavor.multiverse)
    return (
        Equivalent(
            f"All values of one {unit} changed (this is charged)",
            release.specification.charge,
            "Noise after swapping: two swapped records change",
        ),
        Equivalent(
            f"Only the holding values or only the swap values of one {unit} changed",
            design.bounded,
            "Noise after swapping: one swapped record changes",
        ),
        Equivalent(
            f"One {unit} changed, where what the swap keeps is held fixed: {held}",
            besides.loss,
            f"The swap of {release.withheld.name}, by post-processing. Both specifications hold at once",
        ),
    )


def _words(release: HypercubeRelease) -> dict[str, str]:
    columns = release.known_columns
    return distinguish_columns({name: columns[name] for name in release.columns_read})


def _with_least_delta(release: HypercubeRelease) -> tuple[Equivalent, ...]:
    """The loss for one record changed with a lower δ than the charge by basic composition of two cells, if there is
    one."""
    bounded, least = release.design.bounded, release.design.bounded_delta
    if not isinstance(bounded, ApproximateLoss) or not least:
        return ()
    delta = Fraction(format_decimal_above(least))
    if delta >= bounded.delta:
        return ()
    return (
        Equivalent(
            f"One {release.unit} changed, at the same ε with a lower δ",
            ApproximateLoss(bounded.epsilon, delta),
            "The hockey-stick divergence of two cells, rounded up",
        ),
    )


def _parameters(release: HypercubeRelease) -> Iterator[Parameter]:
    design, amount, words = release.design, release.amount, _words(release)
    capped = f", at most ±{design.cap:,}" if design.cap is not None else ""

    def parameter(label: str, value: str | int | tuple[str, ...]) -> Parameter:
        return Parameter(label, value, PROSE(label))

    yield Parameter("Counted", f"{release.unit}s")
    yield parameter("Variables", tuple(words[name] for name in release.cube.variables))
    noise = query_of(release, design.inner).noise
    yield Parameter("Noise", f"{noise}{capped}", PROSE(f"noise, {design.consistency.value}"))
    yield Parameter("Margins", design.margins.value, PROSE(f"margins, {design.margins.value}"))
    if design.is_bounded:
        yield parameter("Budget of each measured table", _budgets(release))
    if amount:
        lower, upper, step = (f"{float(end):g}" for end in (amount.grid.lower, amount.grid.upper, amount.grid.step))
        yield parameter("Added up", f"{words[amount.column]}, from {lower} to {upper} in steps of {step}")
    if release.structural_zeros:
        yield parameter("Structural zeros", design.cells(design.inner) - release.cells_of(design.inner))
    if release.cube.suppress_below:
        yield parameter("Not published", f"estimates below {float(release.cube.suppress_below):g}")


def _budgets(release: HypercubeRelease) -> str | tuple[str, ...]:
    design = release.design
    budgets = {table_name(table): design.budget_of(table) for table in design.tables}
    if len(set(budgets.values())) == 1:
        return str(next(iter(budgets.values())))
    return tuple(f"{name}: {budget}" for name, budget in budgets.items())


def accuracy(release: HypercubeRelease) -> Accuracy:
    """The standard error and the 90% margin of a measured cell, by table."""
    unit, rows = float(release.grid_step), []
    for table in release.design.tables:
        margin = margin_of_one(release.design, table) * unit
        error = ceil(error_of_one(release.design, table) * unit * 100) / 100
        rows.append((table_name(table), release.cells_of(table), error, ceil(margin * 100) / 100))
    margins = [row[-1] for row in rows]
    return Accuracy(
        summary=PROSE("accuracy", margins=margins, fitted=release.design.margins is Margins.FITTED),
        columns=("Measured table", "Cells", "Standard error", "90% margin (±)"),
        rows=tuple(rows),
        note=PROSE("accuracy, note", release=release),
    )
