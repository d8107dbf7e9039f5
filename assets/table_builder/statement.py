"""The part of a certificate that is specific to the table builder: words and figures for readers.

The mathematics is in `mechanisms.table_builder` and `mechanisms.accounting`.
"""

from fractions import Fraction
from math import ceil

from assets.measurement.grid import DISTRIBUTIONS
from assets.measurement.method import COUNTS
from assets.release.columns import title_columns
from assets.release.draw import Inputs
from assets.release.statement import Accuracy, DataVersion, Equivalent, Paper, Parameter, Statement
from assets.table_builder.counting import table_name
from assets.table_builder.perturbation import noise_of
from assets.table_builder.release import HypercubeRelease
from mechanisms.accounting.losses import ApproximateLoss
from mechanisms.accounting.rounding import format_decimal_above
from mechanisms.accounting.specification import PERSON_RECORD, RECORDS_OF_OTHERS, Specification
from mechanisms.sampling.noise import Perturbation
from mechanisms.table_builder.asking import error_of_one, margin_of_one
from mechanisms.table_builder.hypercube import VERSION, Consistency, Margins, NoiseFamily

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

MARGINS = {
    Margins.SUMMED: "Only the table by all variables was measured; every other table is a sum of its cells, with "
    "the sum of their errors.",
    Margins.INDEPENDENT: "Every margin was measured with noise of its own, so margins are not the sums of inner cells.",
    Margins.FITTED: "Every margin was measured with noise of its own. Published are the tables that agree with each "
    "other and fit all measurements best (weighted least squares).",
}


NOISE = {
    Consistency.QUERY: "Sampled exactly and independently for every cell.",
    Consistency.CELL: "A function of the set of the cell's records: the same set has the same noise in every table of "
    "the hypercube.",
}


def hypercube_statement(
    release: HypercubeRelease, inputs: Inputs, output_version: str, besides: Specification | None = None
) -> Statement:
    """The statement of the certificate about the mechanism.

    Args:
        release: the hypercube.
        inputs: the inputs of the draw.
        output_version: the content hash of the noisy measurements.
        besides: the specification that the tables have besides, if they are counted from withheld records.
    """
    design = release.design
    gaussian = design.noise is NoiseFamily.GAUSSIAN
    remark = f"This bounds no change of a person: {RECORDS_OF_OTHERS}." if release.unit == PERSON_RECORD else ""
    return Statement(
        mechanism=MECHANISM,
        mechanism_version=str(VERSION),
        method=_method(release),
        parameters=_parameters(release),
        loss_source=_loss_source(release),
        accuracy=accuracy(release),
        data_versions=(
            DataVersion("exact cells", inputs.versions[COUNTS], keyed=True),
            *([DataVersion("records", inputs.versions[RECORDS], keyed=True)] if RECORDS in inputs.versions else []),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark=remark,
        delta=release.cube.delta if gaussian else None,
        equivalents=_equivalents(release, besides),
        papers=PAPERS,
        variables=_words(release),
        flavor=None if release.withheld else release.flavor([_words(release)[name] for name in release.columns_read]),
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
    """The columns read in the words of the data dictionary, or by their names if the words do not tell them apart."""
    columns = release.known_columns
    words = title_columns({name: columns[name] for name in release.columns_read})
    return words if len(set(words.values())) == len(words) else {name: name for name in words}


def _with_least_delta(release: HypercubeRelease) -> tuple[Equivalent, ...]:
    """The loss for one record changed with a lower δ than basic composition of two cells charges, if there is one."""
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


def _method(release: HypercubeRelease) -> str:
    words = _words(release)
    what = f"{release.unit}s were counted"
    if release.amount:
        what = f"{words[release.amount.column]} of {release.unit}s was added up"
    if release.withheld:
        what += f" from the swapped records of {release.withheld.name}, which are withheld,"
    by = " × ".join(words[name] for name in release.cube.variables)
    return (
        f"{what[:1].upper()}{what[1:]} by all combinations of {by}. {_perturbed(release)} "
        f"{MARGINS[release.design.margins]}"
    )


def _perturbed(release: HypercubeRelease) -> str:
    p_table = release.design.p_table
    if p_table is None:
        return "Random noise was added to every cell, also to those that are zero."
    kept = ", which leaves zero as it is" if p_table.rows[0].variance == 0 else ""
    return f"Every count was replaced by another one with the probabilities of a published p-table{kept}."


def _loss_source(release: HypercubeRelease) -> str:
    design = release.design
    if design.consistency is Consistency.CELL:
        return (
            "None: under cell consistency, equal noise in two tables says that they have the same records, which tells "
            "neighbors apart with certainty (Bailie and Chien, 2019)"
        )
    if not design.is_bounded:
        return "None is claimed: a p-table that keeps zero at zero tells an empty cell from any other"
    several = f"; sequential composition over the {len(design.tables)} measured tables" if design.tables[1:] else ""
    if design.noise is NoiseFamily.GAUSSIAN:
        noise = "Gaussian mechanism on integers (Canonne, Kamath and Steinke, 2020, Theorem 4)"
    elif design.p_table is not None:
        noise = "the greatest hockey-stick divergence of the p-table between counts that differ by one"
    elif design.cap is not None:
        noise = (
            "exponential mechanism with u(a, b) = −|a − b|, capped; δ is the probability of sums that only one of two "
        )
        noise += "neighbors can have"
    else:
        noise = "exponential mechanism with u(a, b) = −|a − b|"
    changed = f"a changed {release.unit} is in two cells"
    if release.withheld:
        changed = f"a changed {release.unit} changes up to two swapped ones, each of which is in two cells"
    return f"{noise[:1].upper()}{noise[1:]}{several}; {changed}"


def _parameters(release: HypercubeRelease) -> tuple[Parameter, ...]:
    design, amount, words = release.design, release.amount, _words(release)
    noise = noise_of(design, design.inner)
    named = noise.name if isinstance(noise, Perturbation) else DISTRIBUTIONS[type(noise)]
    capped = f", at most ±{design.cap:,}" if design.cap is not None else ""
    found = [
        Parameter("Counted", f"{release.unit}s"),
        Parameter(
            "Variables",
            tuple(words[name] for name in release.cube.variables),
            "Cells are the combinations of their categories.",
        ),
        Parameter("Noise", f"{named}{capped}", NOISE[design.consistency]),
        Parameter("Margins", design.margins.value, MARGINS[design.margins]),
    ]
    if design.is_bounded:
        found.append(
            Parameter("Budget of each measured table", _budgets(release), "For one record added or removed, exact.")
        )
    if amount:
        found.append(
            Parameter(
                "Added up",
                f"{words[amount.column]}, from {float(amount.grid.lower):g} to {float(amount.grid.upper):g} in steps "
                f"of {float(amount.grid.step):g}",
                "Every amount is rounded to a multiple of the step and taken as the bound that it exceeds. Grid and "
                "bounds were declared without looking at the records.",
            )
        )
    if release.cube.structural_zeros:
        inner = design.inner
        found.append(
            Parameter(
                "Structural zeros",
                design.cells(inner) - release.cells_of(inner),
                "Cells that no record can be in, as declared. They are not measured and not published.",
            )
        )
    if release.cube.suppress_below:
        found.append(
            Parameter(
                "Not published",
                f"estimates below {float(release.cube.suppress_below):g}",
                "Decided from the noisy cells alone, so it discloses nothing further.",
            )
        )
    return tuple(found)


def _budgets(release: HypercubeRelease) -> str | tuple[str, ...]:
    """The budgets of the measured tables: one number if all have the same."""
    design = release.design
    budgets = {table_name(table): design.budget_of(table) for table in design.tables}
    if len(set(budgets.values())) == 1:
        return str(next(iter(budgets.values())))
    return tuple(f"{name}: {budget}" for name, budget in budgets.items())


def accuracy(release: HypercubeRelease) -> Accuracy:
    """The standard error and the 90% margin of a measured cell, by table."""
    unit, rows = release.unit_of_cells, []
    for table in release.design.tables:
        margin = margin_of_one(release.design, table) * unit
        error = ceil(error_of_one(release.design, table) * unit * 100) / 100
        rows.append((table_name(table), release.cells_of(table), error, ceil(margin * 100) / 100))
    margins = [row[-1] for row in rows]
    fitted = release.design.margins is Margins.FITTED
    return Accuracy(
        summary=f"The noise of a measured cell is within ±{min(margins):,g}"
        + (f" to ±{max(margins):,g}, by table," if max(margins) > min(margins) else "")
        + " with a probability of at least 90%."
        + (
            " The published estimates combine all measurements and are nearer; each has its own interval."
            if fitted
            else ""
        ),
        columns=("Measured table", "Cells", "Standard error", "90% margin (±)"),
        rows=tuple(rows),
        note="They follow from the declared noise alone. A sum of n measured cells of a table has √n times the "
        "standard error of one; the command stirred table states the error of every table that it builds. Not covered: "
        "errors of the records themselves, and amounts that were rounded or taken as a bound.",
    )
