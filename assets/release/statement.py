"""What a mechanism states about itself in a certificate, as values."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """One thing a mechanism states about itself.

    Attributes:
        label: what it is.
        value: a text, a whole number, or several texts.
        note: a sentence of explanation, or "".
    """

    label: str
    value: str | int | tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class EvaluatedLoss:
    """A bound on ε that is reported beside the one charged.

    Attributes:
        epsilon: the bound.
        meaning: a sentence that says what it is.
    """

    epsilon: float
    meaning: str


@dataclass(frozen=True)
class Equivalent:
    """The same protection, stated otherwise.

    Attributes:
        label: how.
        value: the loss as it is written.
        source: what it follows from.
    """

    label: str
    value: str
    source: str


@dataclass(frozen=True)
class DataVersion:
    """The content hash of one input or output.

    Attributes:
        name: of what.
        version: the hash.
        keyed: whether it is an HMAC, because it depends on confidential records.
    """

    name: str
    version: str
    keyed: bool


@dataclass(frozen=True)
class Statement:
    """What a mechanism has to say of itself.

    Attributes:
        mechanism: what protects the data, in words.
        mechanism_version: raised when the same stream would give other output.
        parameters: in order.
        loss_source: the theorem that gives the loss.
        data_versions: of the inputs and outputs.
        remark: a sentence to add to what the loss means, or "".
        evaluated: a bound reported beside the loss, or None.
        equivalents: other statements of the same protection.
    """

    mechanism: str
    mechanism_version: str
    parameters: tuple[Parameter, ...]
    loss_source: str
    data_versions: tuple[DataVersion, ...]
    remark: str = ""
    evaluated: EvaluatedLoss | None = None
    equivalents: tuple[Equivalent, ...] = ()
