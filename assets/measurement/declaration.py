"""Types of fields that the declarations of noisy counts share: the definition of DP, and the states."""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from mechanisms.noise import Noise


class Definition(StrEnum):
    """The definition of DP, which determines the noise."""

    ZCDP = "zcdp"
    PURE = "pure"

    @property
    def noise(self) -> Noise:
        """Discrete Gaussian or discrete Laplace."""
        return Noise.GAUSSIAN if self is Definition.ZCDP else Noise.LAPLACE


def _state(value: object) -> object:
    if isinstance(value, int):
        raise ValueError(f"{value} is a number; write a state's FIPS code in quotes, with both of its digits")
    return value


_STATE_TEXT = r"^[0-9]{2}$"

State = Annotated[str, Field(pattern=_STATE_TEXT), BeforeValidator(_state)]
