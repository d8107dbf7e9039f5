"""The statement of a mechanism about itself in a certificate, as values.

Parameters, figures, papers and versions stand in the record of a certificate as they are here. The descriptions of
their fields appear in its JSON Schema (`assets.publication.record`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as recorded

from mechanisms.accounting.losses import Loss
from mechanisms.accounting.specification import Flavor

RECORDED = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)
"""The configuration of all parts of a record: the schema requires all fields and allows no others."""

Sha256 = Annotated[str, Field(json_schema_extra={"pattern": "^[0-9a-f]{64}$"})]
Uri = Annotated[str, Field(json_schema_extra={"format": "uri"})]


@recorded(frozen=True, config=RECORDED)
class Parameter:
    """A parameter of the mechanism, as shown in the certificate."""

    label: str = Field(description="The name of the parameter.")
    value: str | int | float | tuple[str, ...] = Field(description="A text, a number, or several texts.")
    note: str = Field(default="", description="A sentence of explanation, or empty.")
    exact: tuple[str, ...] = Field(
        default=(),
        description="The same value as exact fractions, if `value` is rounded; they stand in the certificate's "
        "appendix.",
    )


@dataclass(frozen=True)
class EvaluatedLoss:
    """A bound on ε that is reported in addition to the loss charged, with a sentence that explains it."""

    epsilon: float
    meaning: str


@dataclass(frozen=True)
class Equivalent:
    """The loss of a part of the release, or for some of the changes that the guarantee covers, and its source."""

    of: str
    loss: Loss
    source: str


@recorded(frozen=True, config=RECORDED)
class Accuracy:
    """How accurate the published figures are. Everything in it follows from parameters and published statistics.

    Nothing here is compared with the confidential records, whose differences from the published figures would
    themselves need a charge.
    """

    summary: str = Field(description="One or two sentences, for the first page.")
    columns: tuple[str, ...] = Field(description="The headings of the table.")
    rows: tuple[tuple[str | int | float, ...], ...] = Field(description="The rows, with a value for each heading.")
    note: str = Field(description="What the figures mean, and what they leave out.")

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("every row of a table of accuracy has a value for each column")


@recorded(frozen=True, config=RECORDED)
class Paper:
    """A publication that the mechanism or its guarantee comes from."""

    title: str = Field(description="Authors, title and year.")
    url: Uri = Field(description="Where it can be read.")


REFRESHMENT = Paper(
    "Bailie, Gong and Meng: A Refreshment Stirred, Not Shaken: Invariant-Preserving Deployments of Differential "
    "Privacy for the U.S. Decennial Census (2025)",
    "https://arxiv.org/abs/2501.08449",
)
"""The paper on DP specifications, on which several mechanisms rest."""


@recorded(frozen=True, config=RECORDED)
class DataVersion:
    """The content hash of one input or output."""

    name: str = Field(description="The name of the input or output.")
    version: str = Field(description="The hash.")
    keyed: bool = Field(
        description="Whether it is an HMAC, as it depends on confidential records; only the custodian can recompute it."
    )


@dataclass(frozen=True)
class Statement:
    """The statement of a mechanism about itself.

    Attributes:
        method: its effect on the records, in a sentence or two for readers who know no statistics.
        loss_source: the theorem that gives the loss.
        accuracy: computed from parameters and statistics held fixed.
        errors: of the published figures, estimated from published statistics.
        remark: a sentence that is added to the meaning of the loss.
        fewest: the fewest units in which two data sets differ that agree on the invariants and differ at all.
        also_exact: the statistics published exactly besides the invariants, in sentences.
        delta: the δ at which a loss in zCDP is also stated as (ε, δ).
        variables: by name, the data dictionary's words for each variable that the certificate names.
        flavor: the flavor of the specification with these words instead of names; None if it contains no names.
    """

    mechanism: str
    mechanism_version: str
    method: str
    parameters: tuple[Parameter, ...]
    loss_source: str
    accuracy: Accuracy
    data_versions: tuple[DataVersion, ...]
    errors: Accuracy | None = None
    remark: str = ""
    fewest: int = 1
    also_exact: tuple[str, ...] = ()
    delta: Fraction | None = None
    evaluated: EvaluatedLoss | None = None
    equivalents: tuple[Equivalent, ...] = ()
    papers: tuple[Paper, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    flavor: Flavor | None = None
