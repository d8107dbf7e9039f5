"""The part of a certificate that is specific to PHSafe: words and figures for readers.

The mathematics is in `mechanisms.phsafe` and `mechanisms.accounting`.
"""

from assets.measurement.method import COUNTS
from assets.phsafe.grid import NOISE
from assets.phsafe.release import PHSafeRelease
from assets.release.draw import Inputs
from assets.release.statement import DataVersion, Equivalent, Parameter, Statement
from mechanisms.accounting.composition import symbol
from mechanisms.accounting.conversions import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.rounding import decimal_text
from mechanisms.accounting.zcdp import ConcentratedLoss
from mechanisms.phsafe.design import MECHANISM, VERSION, PHSafeDesign
from mechanisms.phsafe.margins import Noise
from mechanisms.phsafe.runs import Geography
from mechanisms.states import STATES

PLACES = 4

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
        parameters=_parameters(release),
        loss_source=LOSS_SOURCE[release.design.noise],
        data_versions=(
            DataVersion("exact counts", inputs.versions[COUNTS], keyed=True),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark="Neighbors are two files that differ in one person's record, whatever this changes in units.",
        equivalents=equivalents(release),
    )


def equivalents(release: PHSafeRelease) -> tuple[Equivalent, ...]:
    """The guarantee for unbounded neighbors, and under zCDP both guarantees as (ε, δ) by two conversions."""
    unbounded, bounded = release.design.unbounded, release.design.bounded
    added, changed = "one person added or removed (unbounded)", "one person's record changed (bounded)"
    theorems = " Sexton et al., Theorems 1 and 2" if release.design.noise is Noise.GAUSSIAN else ""
    source = f"The sum over all runs and levels.{theorems}"
    stated = [
        Equivalent(f"{symbol(unbounded)} for {added}", f"{unbounded}, rounded up {unbounded.rounded_up()}", source)
    ]
    for loss, neighbors in ((unbounded, added), (bounded, changed)):
        if isinstance(loss, ConcentratedLoss):
            stated += [
                Equivalent(
                    f"(ε, δ) for {neighbors}",
                    f"ε = {convert(loss, release.delta, PLACES)} at δ = {decimal_text(release.delta)}",
                    f"From ρ by the conversion of {authors}, rounded up",
                )
                for convert, authors in (
                    (canonne_kamath_steinke, "Canonne, Kamath and Steinke"),
                    (bun_steinke, "Bun and Steinke"),
                )
            ]
    return tuple(stated)


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
            f"90%; for counts, {release.interval.value.replace('_', '-')} credible intervals",
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
