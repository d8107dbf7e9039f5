"""The part of a certificate that is specific to SafeTab-P and SafeTab-H: words and figures for readers.

The mathematics is in `mechanisms.safetab` and `mechanisms.accounting`.
"""

from collections.abc import Mapping
from math import sqrt

from assets.measurement.method import COUNTS
from assets.release.draw import Inputs
from assets.release.statement import Accuracy, DataVersion, Equivalent, Paper, Parameter, Statement
from assets.safetab.plan import noises
from assets.safetab.release import GROUPS, REGIONS, SafeTabHRelease, SafeTabPRelease, SafeTabRelease
from mechanisms.noise import Noise
from mechanisms.safetab.design import VERSION
from mechanisms.safetab.lists import LEVELS
from mechanisms.safetab.planning import COVERAGE
from mechanisms.sampling.quantiles import half_width
from mechanisms.states import STATES

PAPERS = (
    Paper(
        "Tumult Labs: SafeTab: DP Algorithms for 2020 Census Detailed DHC Race & Ethnicity (2022)",
        "https://www2.census.gov/about/partners/cac/sac/meetings/2022-03/dhc-attachment-1-safetab-dp-algorithms.pdf",
    ),
    Paper(
        "Bailie, Gong and Meng: A Refreshment Stirred, Not Shaken: Invariant-Preserving Deployments of Differential "
        "Privacy for the U.S. Decennial Census (2025)",
        "https://arxiv.org/abs/2501.08449",
    ),
)

_TWICE = (
    "For bounded neighbors (one record changed in any way): twice the sum of the unbounded {symbol} over all region "
    "types and levels. A changed record leaves at most Δ groups and joins at most Δ, so that at most 2Δ numbers change "
    "by 1: their squared L2 norm is 2Δ, twice that of adding or removing a record, whatever the details are"
)

LOSS_SOURCE = {
    Noise.GAUSSIAN: _TWICE.format(symbol="ρ"),
    Noise.LAPLACE: "For bounded neighbors (one record changed in any way): twice the sum of the unbounded ε over all "
    "region types and levels, by group privacy for a removal and an addition",
}


def person_statement(release: SafeTabPRelease, inputs: Inputs, output_version: str) -> Statement:
    """The statement of the certificate of SafeTab-P.

    Args:
        release: the declared release.
        inputs: the inputs of the draw.
        output_version: the content hash of the measurements.
    """
    design = release.design
    shares = (
        Parameter(
            "Detail",
            f"{float(design.stage_1_share):g} of each budget",
            "A first noisy total of each group, which is not published, chooses its detail; the rest of the budget "
            "measures it with fresh noise.",
            (str(design.stage_1_share),),
        ),
        Parameter(
            "Suppression",
            f"{float(100 * design.zero_suppression_chance):g}% of the empty groups below the states"
            if design.zero_suppression_chance
            else "None",
            "Below the states, totals without detail are left out up to a cut-off, which follows from this share and "
            "the noise. The table of parameters has the cut-offs."
            if design.zero_suppression_chance
            else "",
            (str(design.zero_suppression_chance),) if design.zero_suppression_chance else (),
        ),
    )
    return Statement(
        mechanism="SafeTab-P: noisy counts of detailed race and ethnicity groups, in detail that follows their size",
        mechanism_version=str(VERSION),
        method="Persons were counted in every region by detailed race and ethnicity. A noisy total decided in what "
        "detail each group is published, and is not published itself. Fresh random noise was added to everything that "
        "is, whether anyone is in the group or not. Below the states, totals that are hardly above zero are left out.",
        parameters=(*_parameters(release), *shares),
        loss_source=LOSS_SOURCE[design.noise],
        accuracy=_accuracy(release, "totals that were left out"),
        data_versions=(
            DataVersion("exact counts", inputs.versions[COUNTS], keyed=True),
            DataVersion("regions", inputs.versions[REGIONS], keyed=True),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark="Neighbors are two files that differ in one person's record.",
        delta=release.declaration.delta if design.noise is Noise.GAUSSIAN else None,
        equivalents=_equivalents(release, "person"),
        papers=PAPERS,
    )


def household_statement(release: SafeTabHRelease, inputs: Inputs, output_version: str) -> Statement:
    """The statement of the certificate of SafeTab-H, with the same arguments."""
    design = release.design
    return Statement(
        mechanism="SafeTab-H: noisy counts of households by the householder's detailed race or ethnicity",
        mechanism_version=str(VERSION),
        method="Households were counted in every group of persons that has a published total, in the detail that this "
        "total allows. Random noise was added to every count, including those that are zero.",
        parameters=(
            *_parameters(release),
            Parameter("Detail", f"The published totals of {release.dataset.name}/{release.detail.name}"),
        ),
        loss_source=LOSS_SOURCE[design.noise],
        accuracy=_accuracy(release, "groups without a published total of persons"),
        data_versions=(
            DataVersion("exact counts", inputs.versions[COUNTS], keyed=True),
            DataVersion("published groups", inputs.versions[GROUPS], keyed=True),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark="Neighbors are two files that differ in one household's record. The release of persons, from whose "
        "published totals the groups and their detail follow, has a guarantee and a charge of its own.",
        delta=release.declaration.delta if design.noise is Noise.GAUSSIAN else None,
        equivalents=_equivalents(release, "household"),
        papers=PAPERS,
    )


def _equivalents(release: SafeTabRelease, unit: str) -> tuple[Equivalent, ...]:
    design = release.design
    as_published = (
        ", as the Census Bureau states the loss of the Detailed DHC-B of 2020 (ρ = 17.79)"
        if isinstance(release, SafeTabHRelease) and design.noise is Noise.GAUSSIAN
        else ""
    )
    stated = (
        Equivalent(
            f"One {unit}'s record changed (bounded; this is charged)",
            design.bounded,
            f"Twice the loss for one {unit} added or removed{as_published}",
        ),
        Equivalent(f"One {unit} added or removed (unbounded)", design.unbounded, "The sum over all lines"),
    )
    if isinstance(release, SafeTabHRelease) or design.noise is not Noise.GAUSSIAN:
        return stated
    return (
        *stated,
        Equivalent(
            f"One {unit}'s record changed, by the general conversion",
            design.unbounded.of_group(2),
            "Four times the unbounded ρ, which holds for any mechanism: so the Census Bureau states the loss of the "
            "Detailed DHC-A of 2020 (ρ = 19.776). The smaller figure above uses what a changed record does here",
        ),
    )


def _accuracy(release: SafeTabRelease, not_covered: str) -> Accuracy:
    measured = [
        (f"{each.region_type} {each.level}", part, noise)
        for each in release.design.measured
        for part, noise in noises(each).items()
    ]
    margin_of = {noise: half_width(noise, 1, COVERAGE) for noise in {noise for _, _, noise in measured}}
    margins = margin_of.values()
    return Accuracy(
        summary="The noise of a measured number is within its margin of error with a probability of at least 95%. The "
        f"margins run from ±{min(margins):,} to ±{max(margins):,}, by region type and level.",
        columns=("region type and level", "numbers", "standard deviation", "95% margin of error"),
        rows=tuple(
            (line, part, round(sqrt(float(noise.exact_variance)), 2), margin_of[noise])
            for line, part, noise in measured
        ),
        note="The noise of one measured number. Iterations are regional at level 1 and detailed at level 2. Sums of "
        "several numbers, such as the total of a group in detail, have more noise: every row of the tables in words "
        f"has its own standard error and 90% interval. Not covered: {not_covered}, and errors of the census itself.",
    )


_LEVEL_WORDS = dict(zip(LEVELS, ("regional", "detailed"), strict=True))


def _parameters(release: SafeTabRelease) -> tuple[Parameter, ...]:
    design = release.design
    names: Mapping[Noise, str] = {Noise.GAUSSIAN: "Discrete Gaussian", Noise.LAPLACE: "Discrete Laplace"}
    return (
        Parameter("States", tuple(STATES[state] for state in design.states)),
        Parameter("Noise", names[design.noise], "Sampled exactly for every region, iteration and cell."),
        Parameter("Iterations", _iterations(release), "The races and ethnicities whose groups are measured."),
        Parameter(
            "Groups of one record",
            _stabilities(release),
            "Δ, from the lists of iterations: the greater it is, the more noise there is. At most "
            f"{design.max_race_codes} race codes of a record are read.",
        ),
    )


def _iterations(release: SafeTabRelease) -> tuple[str, ...]:
    """How many iterations of which level are measured, with the region types that have as many."""
    levels: dict[str, list[str]] = {}
    for region_type, level in release.pairs:
        count = len(release.lists.universe(region_type, level))
        levels.setdefault(region_type, []).append(f"{count:,} {_LEVEL_WORDS[level]}")
    types: dict[str, list[str]] = {}
    for name, counts in levels.items():
        types.setdefault(" and ".join(counts), []).append(name)
    return tuple(f"{counts} ({', '.join(alike)})" for counts, alike in types.items())


def _stabilities(release: SafeTabRelease) -> str | tuple[str, ...]:
    stabilities = {
        f"{region_type} {level}": release.design.stabilities[region_type, level] for region_type, level in release.pairs
    }
    if len(set(stabilities.values())) == 1:
        return f"At most {next(iter(stabilities.values()))} of each region type and level"
    return tuple(f"{line}: {most}" for line, most in stabilities.items())
