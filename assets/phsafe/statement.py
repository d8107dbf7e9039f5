"""The part of a certificate that is specific to PHSafe: words and figures for readers.

The mathematics is in `mechanisms.phsafe` and `mechanisms.accounting`.
"""

import math

from assets.measurement.method import COUNTS
from assets.phsafe.grid import NOISE
from assets.phsafe.release import PHSafeRelease
from assets.release.draw import Inputs
from assets.release.statement import Accuracy, DataVersion, Equivalent, Paper, Parameter, Statement
from mechanisms.noise import Noise
from mechanisms.phsafe.design import MECHANISM, VERSION, PHSafeDesign
from mechanisms.phsafe.margins import Z
from mechanisms.phsafe.runs import LEVELS, RUN, Geography, Iterations, Level
from mechanisms.phsafe.tables import SHELL, Part, Shell
from mechanisms.states import STATES

PAPERS = (
    Paper(
        "Sexton et al.: PHSafe: Disclosure Avoidance for the 2020 Census Supplemental Demographic and Housing "
        "Characteristics File (S-DHC) (2024)",
        "https://arxiv.org/abs/2505.01254",
    ),
)

_GROUPS = {
    Iterations.ALL: "everybody",
    Iterations.RACE: "by race",
    Iterations.ETHNICITY: "by Hispanic origin",
}

LOSS_SOURCE = {
    Noise.GAUSSIAN: "For bounded neighbors (one person's record changed in any way): twice the sum of the unbounded ρ "
    "over all runs and levels; every line of the allocation is doubled likewise. Sexton et al., “PHSafe”, Theorems 3 "
    "and 4",
    Noise.LAPLACE: "For bounded neighbors (one person's record changed in any way): twice the sum of the unbounded ε "
    "over all runs and levels, by group privacy for two changes; every line of the allocation is doubled likewise",
}


def phsafe_statement(release: PHSafeRelease, inputs: Inputs, output_version: str) -> Statement:
    """The statement of the certificate about the mechanism.

    Args:
        release: the declared release.
        inputs: the inputs of the draw.
        output_version: the content hash of the noisy measurements.
    """
    return Statement(
        mechanism=f"{MECHANISM}: truncated join, and noise for every count",
        mechanism_version=str(VERSION),
        method="Persons were counted together with facts about their household, only so many of each household that "
        "no household counts too much. Random noise was then added to every count, including those that are zero. The "
        "published figures are estimates from the noisy counts, and the noisy counts are published too.",
        parameters=_parameters(release),
        loss_source=LOSS_SOURCE[release.design.noise],
        accuracy=accuracy(release),
        data_versions=(
            DataVersion("exact counts", inputs.versions[COUNTS], keyed=True),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark="Neighbors are two files that differ in one person's record, whatever this changes in units.",
        delta=release.declaration.delta if release.design.noise is Noise.GAUSSIAN else None,
        equivalents=equivalents(release),
        papers=PAPERS,
    )


def equivalents(release: PHSafeRelease) -> tuple[Equivalent, ...]:
    """The loss of the whole release for both kinds of neighbors."""
    theorems = " Sexton et al., Theorems 1 and 2" if release.design.noise is Noise.GAUSSIAN else ""
    source = f"The sum over all runs and levels.{theorems}"
    twice = "Twice the loss for one person added or removed"
    return (
        Equivalent("One person's record changed (bounded; this is charged)", release.design.bounded, twice),
        Equivalent("One person added or removed (unbounded)", release.design.unbounded, source),
    )


def accuracy(release: PHSafeRelease) -> Accuracy:
    """The 90% margins of error of the noisy counts that each table is made from, by level."""
    rows = []
    for shell in (SHELL[name] for name in release.products):
        for level in LEVELS:
            for what, parts in _counted(shell):
                if margins := _margins(release.design, parts, level):
                    name = f"{shell.name}: {shell.title}{what}"
                    rows.append((name, _level(level), len(margins), min(margins), max(margins)))
    margins = [margin for row in rows for margin in row[3:]]
    return Accuracy(
        summary=f"The noise of a published count is within its margin of error with a probability of about 90%. The "
        f"margins run from ±{math.ceil(min(margins)):,} to ±{math.ceil(max(margins)):,}, by table, level and cell. "
        "Persons whom the truncation leaves out come on top, and no margin covers them."
        if margins
        else "Only noisy counts are published; the files state the variance of the noise of each.",
        columns=("Table", "Level", "Cells", "Least 90% margin (±)", "Greatest 90% margin (±)"),
        rows=tuple(rows),
        note="A margin is 1.645 standard deviations of the noise of a cell before the estimation; they follow from the "
        "declared parameters. Estimates are at least 0 and usually nearer. A cell that adds up several measured cells "
        "has a greater margin. Averages divide two such counts; every row of a table of averages has its own interval. "
        "Not covered: persons whom the truncation leaves out, and errors of the census itself.",
    )


def _counted(shell: Shell) -> list[tuple[str, list[Part]]]:
    """What a table counts, each with a word about it: the cells of counts, or both terms of averages."""
    numerators = [cell.counted for cell in shell.cells]
    denominators = [cell.per for cell in shell.cells if cell.per]
    if not denominators:
        return [("", numerators)]
    return [(" (numerators)", numerators), (" (denominators)", denominators)]


def _margins(design: PHSafeDesign, parts: list[Part], level: Level) -> list[float]:
    """The margins of error of sums of measured cells, rounded up to hundredths; none if the level is not released."""
    released = {(each.run.name, each.level.name) for each in design.released}
    if any((part.run, level.name) not in released for part in parts):
        return []
    variances = [len(part.cells) * design.noise_of(RUN[part.run], level).exact_variance for part in parts]
    return [math.ceil(float(Z) * math.sqrt(variance) * 100) / 100 for variance in variances]


def _level(level: Level) -> str:
    return f"{level.geography.value.capitalize()}, {_GROUPS[level.iterations]}"


def _parameters(release: PHSafeRelease) -> tuple[Parameter, ...]:
    design = release.design
    runs = tuple(dict.fromkeys(run for run, _, _ in design.released))
    thresholds = tuple(
        f"{run.name}: τ = {threshold}, Δ = {design.stability(run)}"
        if (threshold := design.truncation(run)) is not None
        else f"{run.name}: Δ = {design.stability(run)}"
        for run in runs
    )
    return (
        _regions(design),
        Parameter("Noise", NOISE[design.noise], "Sampled exactly for every run, region, iteration and cell."),
        Parameter(
            "Truncation and stability",
            thresholds,
            "At most τ persons per unit are counted. One added or removed person changes at most Δ of the records "
            "that a run counts: 2τ + 2 joined records (Sexton et al., Lemma 6), or 2 units.",
        ),
        Parameter(
            "Intervals",
            f"90%; for counts, {release.declaration.interval.value.replace('_', '-')} credible intervals",
            "Intervals account for the noise but not for persons dropped by truncation. The interval of an average "
            "contains the averages that are compatible with its two measurements.",
        ),
    )


def _regions(design: PHSafeDesign) -> Parameter:
    names = tuple(STATES[code] for code in design.states)
    nation = ("the nation",) if Geography.NATION.region_type in design.region_types else ()
    if Geography.STATE.region_type in design.region_types:
        return Parameter("Regions", (*nation, *names))
    return Parameter("Regions", nation, f"The nation is {', '.join(names)}.")
