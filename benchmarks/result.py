"""The result of a measurement."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One measurement against a peer or a limit.

    Attributes:
        name: what was measured, with its unit.
        ours: Stirred's figure.
        other: the peer's figure in the same run, or a multiple of it, or an absolute limit.
        limit: the upper limit of ours / other.
    """

    name: str
    ours: float
    other: float
    limit: float

    @property
    def ratio(self) -> float:
        """Our figure divided by the other."""
        return self.ours / self.other

    @property
    def kept(self) -> bool:
        """Whether the ratio is within its limit."""
        return self.ratio <= self.limit
