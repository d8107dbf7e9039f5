"""The part of a certificate that is specific to pair swapping: above all, why no finite loss holds."""

from assets.pair_swapping.release import HOUSEHOLDS, PairSwappingRelease
from assets.release.columns import title_columns
from assets.release.draw import Draw, Inputs
from assets.release.statement import Accuracy, DataVersion, Paper, Parameter, Statement
from mechanisms.pair_swapping.pairing import VERSION, WEIGHTS

LOSS_SOURCE = (
    "Bailie, Gong & Meng, “A Refreshment Stirred, Not Shaken”, Appendix C.2: disjoint pairwise swapping is not "
    "transitive on the universe of its invariants, so it has no finite loss"
)

PAPERS = (
    Paper(
        "Bailie, Gong and Meng: A Refreshment Stirred, Not Shaken: Invariant-Preserving Deployments of Differential "
        "Privacy for the U.S. Decennial Census (2025)",
        "https://arxiv.org/abs/2501.08449",
    ),
)

WHY = (
    "The reason: what is swapped are disjoint pairs, and exchanges of disjoint pairs, one after the other, reach data "
    "sets that one set of disjoint pairs does not reach. So there are data sets that agree on every invariant and "
    "differ in the places of two households only, such that some publications are possible under one and impossible "
    "under the other. Whoever knows all other records and sees such a publication knows which of the two is true."
)


def pair_swapping_statement(release: PairSwappingRelease, draw: Draw[Inputs], output_version: str) -> Statement:
    """The statement of the certificate about the mechanism."""
    design, imputed = release.design, release.counted_with["imputed"]
    rate = str(design.swap_rate)
    names = title_columns({**release.variables, **release.person_variables})
    return Statement(
        mechanism="Targeted pair swapping, as in the 2010 census",
        mechanism_version=str(VERSION),
        method=f"In every state, {rate} of the households were selected at random, those with rare characteristics "
        "more often. Each exchanged its place with another household of the state that has as many adults, as many "
        "minors and the same tenure. Everything published was counted from the result.",
        parameters=(
            Parameter("Swap rate", float(design.swap_rate), "Share of each state’s households selected.", (rate,)),
            Parameter(
                "Key variables",
                tuple(names[name] for name in design.key),
                "A household that is unique on these is more at risk.",
            ),
            Parameter(
                "Weights of the risks",
                ", ".join(map(str, WEIGHTS)),
                "From not unique in the block to unique in the county; those of 2010 are not public.",
            ),
            Parameter(
                "Place", tuple(names[name] for name in design.place), "What partners exchange; the state is the same."
            ),
            Parameter(
                "Imputed households",
                f"{imputed['column']}: {', '.join(imputed['values'])}" if imputed else "none marked",
                "They are never swapped.",
            ),
        ),
        loss_source=LOSS_SOURCE,
        accuracy=Accuracy(
            summary="Counts of households in a block by adults, minors and tenure are exact, and so are all counts of "
            f"a state. Others differ by what the {rate} of the households that were selected, and their partners, "
            "brought and took.",
            columns=("Figure", "Share"),
            rows=(("Households selected in each state", float(design.swap_rate)),),
            note="How far a table is from the truth depends on the records and is not stated.",
        ),
        data_versions=(
            DataVersion("confidential records", draw.inputs.versions[HOUSEHOLDS], keyed=True),
            DataVersion("swapped records", output_version, keyed=False),
        ),
        remark=WHY,
        papers=PAPERS,
        variables=names,
    )
