"""Randomized response on holding variables, before they are swapped: each record keeps its value of a variable with a
declared probability, and otherwise gets one of the other values of the declared domain, each equally likely. All
probabilities are exact rational numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import PureLoss
from mechanisms.sampling.stream import TOP_WORD, RandomStream, Words

_RECORDS_AT_A_TIME = 1 << 20


@dataclass(frozen=True)
class Response:
    """Randomized response on one variable, whose value a record keeps with the probability `keep`. Raises ValueError if
    the domain has fewer than two values, `keep` is not strictly between 0 and 1, or the exact probabilities are too
    fine for a random word."""

    variable: str
    keep: Fraction
    size: int

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ValueError(f"{self.variable} has fewer than two values, so there is no other value to give")
        if not 0 < self.keep < 1:
            raise ValueError(f"the probability to keep {self.variable} must lie strictly between 0 and 1")
        if self.outcomes > 2**62:
            raise ValueError(f"the probability to keep {self.variable} is too fine")

    @property
    def outcomes(self) -> int:
        return self.keep.denominator * (self.size - 1)

    @property
    def loss(self) -> PureLoss:
        """ε for a change of one record's value: the logarithm of the greatest ratio of two probabilities."""
        ratio = self.keep * (self.size - 1) / (1 - self.keep)
        return PureLoss.logarithm(max(ratio, 1 / ratio))

    def as_record(self) -> dict[str, Any]:
        return {"variable": self.variable, "keep": str(self.keep), "values": self.size}


def loss_of_responses(responses: Sequence[Response]) -> PureLoss:
    """ε_R for a change of all perturbed values of one record: the sum over variables."""
    return sum((response.loss for response in responses), PureLoss())


def respond(codes: NDArray[np.int32], responses: Sequence[Response], stream: RandomStream) -> None:
    """Randomize the values behind codes, in place. A code is a number in mixed radix: its digits are the positions of
    the values in their domains, the last variable's first; higher digits stay."""
    place = math.prod(response.size for response in responses)
    for response in responses:
        place //= response.size
        for start in range(0, len(codes), _RECORDS_AT_A_TIME):
            block = codes[start : start + _RECORDS_AT_A_TIME]
            moves = shifts(response, len(block), stream)
            value = block // place % response.size
            block += ((value + moves) % response.size - value).astype(np.int32) * np.int32(place)


def shifts(response: Response, count: int, stream: RandomStream, top: int = int(TOP_WORD)) -> NDArray[np.int64]:
    """The number of positions by which each response moves its value, shape (count,): 0 with probability `keep`, else
    uniform. Words, up to `top`, beyond the last whole run of outcomes are drawn again, which makes the others exactly
    uniform."""
    run = np.uint64((top + 1) // response.outcomes)
    outcome: Words = stream.words(count) // run
    while len(again := np.flatnonzero(outcome >= np.uint64(response.outcomes))):
        outcome[again] = stream.words(len(again)) // run
    kept = np.int64(response.keep.numerator * (response.size - 1))
    of_other_value = np.int64(response.keep.denominator - response.keep.numerator)
    beyond = outcome.astype(np.int64) - kept
    return np.where(beyond < 0, 0, 1 + beyond // of_other_value)
