"""The statement of a mechanism about itself in a certificate, as values."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """A parameter of the mechanism, as shown in the certificate.

    Attributes:
        label: the name of the parameter.
        value: a text, an integer, or several texts.
        note: a sentence of explanation, or "".
    """

    label: str
    value: str | int | tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class EvaluatedLoss:
    """A bound on ε that is reported in addition to the loss charged.

    Attributes:
        epsilon: the bound.
        meaning: a sentence that explains it.
    """

    epsilon: float
    meaning: str


@dataclass(frozen=True)
class Equivalent:
    """Another statement of the same guarantee.

    Attributes:
        label: the kind of statement.
        value: the loss in words.
        source: what it follows from.
    """

    label: str
    value: str
    source: str


@dataclass(frozen=True)
class DataVersion:
    """The content hash of one input or output.

    Attributes:
        name: the name of the input or output.
        version: the hash.
        keyed: whether the hash is an HMAC, because it depends on confidential records.
    """

    name: str
    version: str
    keyed: bool


@dataclass(frozen=True)
class Statement:
    """The statement of a mechanism about itself.

    Attributes:
        mechanism: the mechanism in words.
        mechanism_version: the version of the mechanism (`Method.version`).
        parameters: the parameters, in the order of the certificate.
        loss_source: the theorem that gives the loss.
        data_versions: the versions of inputs and outputs.
        remark: a sentence that is added to the meaning of the loss, or "".
        evaluated: a bound reported in addition to the loss, or None.
        equivalents: other statements of the same guarantee.
    """

    mechanism: str
    mechanism_version: str
    parameters: tuple[Parameter, ...]
    loss_source: str
    data_versions: tuple[DataVersion, ...]
    remark: str = ""
    evaluated: EvaluatedLoss | None = None
    equivalents: tuple[Equivalent, ...] = ()
