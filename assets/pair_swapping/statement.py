"""The part of a certificate that is specific to pair swapping: figures, with the texts of `statement.md`."""

from assets.pair_swapping.release import HOUSEHOLDS, PairSwappingRelease
from assets.release.columns import title_columns
from assets.release.draw import Draw, Inputs
from assets.release.prose import Prose
from assets.release.statement import REFRESHMENT, Accuracy, DataVersion, Parameter, Statement
from mechanisms.pair_swapping.design import WEIGHTS
from mechanisms.pair_swapping.pairing import VERSION

PROSE = Prose(__file__)

LOSS_SOURCE, WHY = PROSE("loss source"), PROSE("why")


def pair_swapping_statement(release: PairSwappingRelease, draw: Draw[Inputs], output_version: str) -> Statement:
    """The statement of the certificate about the mechanism."""
    design, imputed = release.design, release.counted_with["imputed"]
    rate = str(design.swap_rate)
    names = title_columns({**release.variables, **release.person_variables})
    values: dict[str, str | float | tuple[str, ...]] = {
        "Swap rate": float(design.swap_rate),
        "Key variables": tuple(names[name] for name in design.key),
        "Weights of the risks": ", ".join(map(str, WEIGHTS)),
        "Place": tuple(names[name] for name in design.place),
        "Imputed households": f"{imputed['column']}: {', '.join(imputed['values'])}" if imputed else "none marked",
    }
    return Statement(
        mechanism="Targeted pair swapping, as in the 2010 census",
        mechanism_version=str(VERSION),
        method=PROSE("method", rate=rate),
        parameters=tuple(
            Parameter(label, value, PROSE(label), (rate,) if label == "Swap rate" else ())
            for label, value in values.items()
        ),
        loss_source=LOSS_SOURCE,
        accuracy=Accuracy(
            summary=PROSE("accuracy", rate=rate),
            columns=("Figure", "Share"),
            rows=(("Households selected in each state", float(design.swap_rate)),),
            note=PROSE("accuracy, note"),
        ),
        data_versions=(
            DataVersion("confidential records", draw.inputs.versions[HOUSEHOLDS], keyed=True),
            DataVersion("swapped records", output_version, keyed=False),
        ),
        remark=WHY,
        papers=(REFRESHMENT,),
        variables=names,
    )
