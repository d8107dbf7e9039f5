"""The part of a certificate that is specific to SafeTab-P and SafeTab-H: figures, with the texts of `statement.md`."""

from math import sqrt

from assets.cef.census import find_place_names, name_states
from assets.measurement.grid import NOISE_NAMES
from assets.measurement.method import COUNTS
from assets.release.draw import Inputs
from assets.release.prose import Prose
from assets.release.statement import REFRESHMENT, Accuracy, DataVersion, Equivalent, Paper, Parameter, Statement
from assets.safetab.plan import noises
from assets.safetab.release import GROUPS, REGIONS, SafeTabHRelease, SafeTabPRelease, SafeTabRelease
from mechanisms.noise import Noise
from mechanisms.safetab.design import VERSION, SafeTabPDesign
from mechanisms.safetab.lists import LEVELS
from mechanisms.safetab.planning import COVERAGE
from mechanisms.sampling.quantiles import half_width

PROSE = Prose(__file__)

PAPERS = (
    Paper(
        "Tumult Labs: SafeTab: DP Algorithms for 2020 Census Detailed DHC Race & Ethnicity (2022)",
        "https://www2.census.gov/about/partners/cac/sac/meetings/2022-03/dhc-attachment-1-safetab-dp-algorithms.pdf",
    ),
    REFRESHMENT,
)


def safetab_statement(release: SafeTabRelease, inputs: Inputs, output_version: str) -> Statement:
    design = release.design
    if isinstance(release, SafeTabHRelease):
        not_covered = "groups without a published total of persons"
        counted_in = DataVersion("published groups", inputs.versions[GROUPS], keyed=True)
        detail = [Parameter("Detail", f"The totals {release.totals_in_words}")]
    else:
        assert isinstance(release, SafeTabPRelease)
        not_covered = "totals that were left out"
        counted_in = DataVersion("regions", inputs.versions[REGIONS], keyed=True)
        detail = _describe_detail(release.design)
    return Statement(
        mechanism=PROSE(f"mechanism of {release.counted}"),
        mechanism_version=str(VERSION),
        method=PROSE(f"method of {release.counted}"),
        parameters=(
            Parameter("States", tuple(name_states(find_place_names(release.dataset), design.states).values())),
            Parameter("Noise", NOISE_NAMES[design.noise], PROSE("Noise")),
            Parameter("Iterations", _iterations(release), PROSE("Iterations")),
            Parameter("Groups of one record", _stabilities(release), PROSE("Groups of one record", design=design)),
            *detail,
        ),
        loss_source=PROSE(f"loss source, {design.noise.value}"),
        accuracy=_accuracy(release, not_covered),
        data_versions=(
            DataVersion("exact counts", inputs.versions[COUNTS], keyed=True),
            counted_in,
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark=PROSE(f"remark on {release.counted}"),
        delta=release.declaration.delta if design.noise is Noise.GAUSSIAN else None,
        equivalents=_equivalents(release),
        papers=PAPERS,
    )


def _describe_detail(design: SafeTabPDesign) -> list[Parameter]:
    share, chance = design.stage_1_share, design.zero_suppression_chance
    suppression = Parameter("Suppression", "None")
    if chance:
        empty = f"{float(100 * chance):g}% of the empty groups below the states"
        suppression = Parameter("Suppression", empty, PROSE("Suppression"), (str(chance),))
    return [Parameter("Detail", f"{float(share):g} of each budget", PROSE("Detail"), (str(share),)), suppression]


def _equivalents(release: SafeTabRelease) -> tuple[Equivalent, ...]:
    design, gaussian = release.design, release.design.noise is Noise.GAUSSIAN
    unit = "household" if isinstance(release, SafeTabHRelease) else "person"
    of_change = f"One {unit}'s record changed"
    stated = (
        Equivalent(
            f"{of_change} (bounded; this is charged)", design.bounded, PROSE("bounded", unit=unit, gaussian=gaussian)
        ),
        Equivalent(f"One {unit} added or removed (unbounded)", design.unbounded, "The sum over all lines"),
    )
    if unit == "household" or not gaussian:
        return stated
    general = design.unbounded.of_group(2)
    return (*stated, Equivalent(f"{of_change}, by the general conversion", general, PROSE("by the general conversion")))


def _accuracy(release: SafeTabRelease, not_covered: str) -> Accuracy:
    rows = [
        (f"{measured.region_type} {measured.level}", part, noise)
        for measured in release.design.measured
        for part, noise in noises(measured).items()
    ]
    margin_of = {noise: half_width(noise, 1, COVERAGE) for noise in {noise for _, _, noise in rows}}
    return Accuracy(
        summary=PROSE("accuracy", margins=list(margin_of.values())),
        columns=("Region type and level", "Numbers", "Standard deviation", "95% margin (±)"),
        rows=tuple(
            (line, part, round(sqrt(float(noise.exact_variance)), 2), margin_of[noise]) for line, part, noise in rows
        ),
        note=PROSE("accuracy, note", not_covered=not_covered),
    )


_LEVEL_WORDS = dict(zip(LEVELS, ("regional", "detailed"), strict=True))


def _iterations(release: SafeTabRelease) -> tuple[str, ...]:
    """The numbers of measured iterations by level, each with the region types to which it applies."""
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
