"""The part of a certificate that is specific to the DHC: figures, with the texts of `statement.md`."""

from collections.abc import Iterator

from assets.measurement.method import COUNTS
from assets.release.draw import Inputs
from assets.release.prose import Prose
from assets.release.statement import DataVersion, Equivalent, Parameter, Statement
from assets.topdown.dhc.release import DHCRelease
from assets.topdown.release import PLACES
from assets.topdown.statement import PAPERS, describe_accuracy, describe_shares, query_words
from mechanisms.topdown.design import words
from mechanisms.topdown.dhc.design import MECHANISM, SCHEMAS, VERSION, DHCDesign

PROSE = Prose(__file__)

ATTRIBUTE_WORDS = {
    "relgq": "relationship or type of group quarters",
    "relgq_4_groups": "householder, other member or kind of group quarters",
    "popSehsdTargetsRelship": "relationship or group quarters",
    "relship_and_eight_level_GQ": "relationship or major type of group quarters",
    "hhgq8lev": "household or major type of group quarters",
    "gqlevels": "household or type of group quarters",
    "gq_constr_groups": "household or group of types of group quarters",
    "sex": "sex",
    "age": "single year of age",
    "votingage": "voting age",
    "age_18_64_116": "age (3 groups)",
    "age_10_groups": "age (10 groups)",
    "age_38_groups": "age (38 groups)",
    "age_40_groups": "age (40 groups)",
    "hispanic": "Hispanic origin",
    "cenrace": "race",
    "hhage": "age (9 groups)",
    "hisp": "Hispanic origin",
    "race": "race (7 groups)",
    "elderly": "age of the oldest person",
    "hhtenshort_3lev": "tenure",
    "hhtenshort_2lev": "owned or not",
    "hhtype_dhch": "type of household",
    "multig": "three generations or not",
    "coupled_hh_type": "type of couple",
    "partner_type_detailed_own_child_status": "kind of couple and own children",
    "DetailedCoupleTypeMultGenDetOwnChildSize": "type of couple, generations, own children and size",
    "tenvacgq": "tenure, kind of vacancy or type of group quarters",
    "occupancy_and_gq_types": "occupied, vacant or type of group quarters",
    "tenure_3lev": "tenure",
    "tenure_vacant_and_gq_types": "tenure, vacant or type of group quarters",
}
"""The attributes and recodes of the histograms in words; in households, they describe the householder."""

_CONSTRAINTS = (
    "every place is the sum of the places in it",
    "possible combinations of relationship and age, and of household, only",
    "nobody in group quarters of a type that the place does not have",
    "as many households by tenure as occupied units",
)

_AGREEMENT = ("no more households by origin and race of the householder than such persons in households",)

_INTERVALS = "Around linear estimates from the measurements of both releases"

_COUNTED = ("persons: 1, or 3 if householders who live alone are told apart", "units: 2", "households: 4")


def dhc_statement(release: DHCRelease, inputs: Inputs, output_version: str) -> Statement:
    return Statement(
        mechanism=PROSE("mechanism", mechanism=MECHANISM),
        mechanism_version=str(VERSION),
        method=PROSE("method"),
        parameters=_parameters(release),
        loss_source=PROSE("loss source"),
        accuracy=describe_accuracy(release.design, PROSE, _query_words),
        data_versions=(
            DataVersion("exact histograms", inputs.versions[COUNTS], keyed=True),
            DataVersion("spine, facilities and redistricting data", inputs.versions[PLACES], keyed=True),
            DataVersion("noisy measurements", output_version, keyed=False),
        ),
        remark=PROSE("remark"),
        delta=release.declaration.delta,
        equivalents=tuple(_list_equivalents(release)),
        papers=PAPERS,
    )


def _list_equivalents(release: DHCRelease) -> Iterator[Equivalent]:
    """The total loss, the loss by histogram, and the loss as the 2020 Census counts it."""
    design = release.design
    yield Equivalent("Any change of one person (this is charged)", design.loss, "The sum over its measurements")
    for histogram in SCHEMAS:
        source = f"The sum over its measurements; ρ = {design.of_histogram(histogram)} is charged"
        yield Equivalent(
            f"The measurements of {histogram}, one record changed", design.allocations[histogram].loss, source
        )
    yield Equivalent(
        "Each histogram counted once, as the 2020 Census states it (4.96 + 7.70 there)",
        design.once,
        "Bailie, Gong and Meng, Theorem 2, where a person changes one unit and one household",
    )
    before = release.redistricting.design
    yield Equivalent(
        "Any change of one person, with the redistricting data",
        design.loss + before.loss,
        "The sum of both charges",
    )
    yield Equivalent(
        "The same, each histogram counted once, as the 2020 Census states it (15.29 there)",
        design.once + before.one_unit,
        "Bailie, Gong and Meng, Table 3",
    )


def _query_words(query: str) -> str:
    return query_words(query, ATTRIBUTE_WORDS)


def _describe_passes(design: DHCDesign) -> Iterator[Parameter]:
    for histogram in design.passes:
        passes = tuple("; ".join(map(_query_words, step.queries)) for step in design.plans[histogram].passes)
        yield Parameter(f"Passes of {histogram}", passes, PROSE("Passes", histogram=histogram))


def _parameters(release: DHCRelease) -> tuple[Parameter, ...]:
    design, before = release.design, release.redistricting

    def parameter(label: str, value: str | tuple[str, ...]) -> Parameter:
        return Parameter(label, value, PROSE(label))

    return (
        parameter("Geographic spine", tuple(words(level) for level in release.levels)),
        parameter("Invariants", design.multiverse),
        parameter("Consistent with", f"{before.dataset.name}/{before.name}: {before.title}"),
        *describe_shares(design, PROSE, _query_words),
        *_describe_passes(design),
        parameter("Counted", _COUNTED),
        parameter("Estimation", "From the answers at and below every place" if design.full else "From own levels"),
        *([parameter("Intervals", _INTERVALS)] if design.complete else []),
        parameter("Noise", "Discrete Gaussian"),
        parameter("Constraints", _CONSTRAINTS + (_AGREEMENT if design.householders_among_persons else ())),
    )
