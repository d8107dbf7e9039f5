"""The part of a certificate that is specific to PHSafe: figures, with the texts of `statement.md`."""

import math

from assets.cef.census import find_place_names, name_states
from assets.measurement.grid import NOISE_NAMES
from assets.measurement.method import COUNTS
from assets.phsafe.release import PHSafeRelease
from assets.release.draw import Inputs
from assets.release.prose import Prose
from assets.release.statement import Accuracy, DataVersion, Equivalent, Paper, Parameter, Statement
from mechanisms.noise import Noise
from mechanisms.phsafe.design import MECHANISM, VERSION, PHSafeDesign, Z
from mechanisms.phsafe.runs import LEVELS, RUN, SHELL, Geography, Level, Part, Shell

PROSE = Prose(__file__)

PAPERS = (
    Paper(
        "Sexton et al.: PHSafe: Disclosure Avoidance for the 2020 Census Supplemental Demographic and Housing "
        "Characteristics File (S-DHC) (2024)",
        "https://arxiv.org/abs/2505.01254",
    ),
)


def phsafe_statement(release: PHSafeRelease, inputs: Inputs, output_version: str) -> Statement:
    design, gaussian = release.design, release.design.noise is Noise.GAUSSIAN
    twice = "Twice the loss for one person added or removed"
    source = "The sum over all runs and levels." + (" Sexton et al., Theorems 1 and 2" if gaussian else "")
    return Statement(
        mechanism=f"{MECHANISM}: truncated join, and noise for every count",
        mechanism_version=str(VERSION),
        method=PROSE("method"),
        parameters=_parameters(release),
        loss_source=PROSE(f"loss source, {design.noise.value}"),
        accuracy=_accuracy(release),
        data_versions=(
            DataVersion("exact counts", inputs.versions[COUNTS], keyed=True),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark=PROSE("remark"),
        delta=release.declaration.delta if gaussian else None,
        equivalents=(
            Equivalent("One person's record changed (bounded; this is charged)", design.bounded, twice),
            Equivalent("One person added or removed (unbounded)", design.unbounded, source),
        ),
        papers=PAPERS,
    )


def _accuracy(release: PHSafeRelease) -> Accuracy:
    """The 90% margins of error of the noisy counts from which each table is made, by level."""
    rows = []
    for shell in (SHELL[name] for name in release.products):
        for level in LEVELS:
            for what, parts in _counted(shell):
                if margins := _margins(release.design, parts, level):
                    name = f"{shell.name}: {shell.title}{what}"
                    rows.append((name, level.words, len(margins), min(margins), max(margins)))
    margins = [margin for row in rows for margin in row[3:]]
    return Accuracy(
        summary=PROSE("accuracy", margins=margins),
        columns=("Table", "Level", "Cells", "Least 90% margin (±)", "Greatest 90% margin (±)"),
        rows=tuple(rows),
        note=PROSE("accuracy, note"),
    )


def _counted(shell: Shell) -> list[tuple[str, list[Part]]]:
    """The counted parts of a table, each list with a label: the cells of counts, or both terms of averages."""
    numerators = [cell.counted for cell in shell.cells]
    denominators = [cell.per for cell in shell.cells if cell.per]
    if not denominators:
        return [("", numerators)]
    return [(" (numerators)", numerators), (" (denominators)", denominators)]


def _margins(design: PHSafeDesign, parts: list[Part], level: Level) -> list[float]:
    """The margins of error of sums of measured cells, rounded up to hundredths; none if the level is not released."""
    released = {(measured.run.name, measured.level.name) for measured in design.released}
    if any((part.run, level.name) not in released for part in parts):
        return []
    variances = [len(part.cells) * design.noise_of(RUN[part.run], level).exact_variance for part in parts]
    return [math.ceil(float(Z) * math.sqrt(variance) * 100) / 100 for variance in variances]


def _parameters(release: PHSafeRelease) -> tuple[Parameter, ...]:
    design = release.design
    runs = tuple(dict.fromkeys(run for run, _, _ in design.released))
    thresholds = []
    for run in runs:
        threshold = design.truncation(run)
        kept = "" if threshold is None else f"τ = {threshold}, "
        thresholds.append(f"{run.name}: {kept}Δ = {design.stability(run)}")
    names = tuple(name_states(find_place_names(release.dataset), design.states).values())
    kind = release.declaration.interval.value.replace("_", "-")
    nation = ("the nation",) if Geography.NATION.region_type in design.region_types else ()
    regions = Parameter("Regions", nation, f"The nation is {', '.join(names)}.")
    if Geography.STATE.region_type in design.region_types:
        regions = Parameter("Regions", (*nation, *names))
    return (
        regions,
        Parameter("Noise", NOISE_NAMES[design.noise], PROSE("Noise")),
        Parameter("Truncation and stability", tuple(thresholds), PROSE("Truncation and stability")),
        Parameter("Intervals", f"90%; for counts, {kind} credible intervals", PROSE("Intervals")),
    )
