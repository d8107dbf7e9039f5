"""What a measurement says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One measurement against a peer or a limit.

    Attributes:
        name: what was measured, with the unit.
        ours: Stirred's figure.
        other: the peer's figure in the same run, or the limit itself.
        limit: what ours / other may be at most.
    """

    name: str
    ours: float
    other: float
    limit: float

    @property
    def ratio(self) -> float:
        """Ours over the other's."""
        return self.ours / self.other

    @property
    def kept(self) -> bool:
        """Whether the ratio is within its limit."""
        return self.ratio <= self.limit
