"""Common types of fields in declarations of noisy counts: the definition of DP, states, and values of the 2020 Census
or of the release's own."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from assets.release.declaration import Part
from assets.release.release import Release
from mechanisms.noise import Noise


class Definition(StrEnum):
    """The definition of DP, which determines the noise."""

    ZCDP = "zcdp"
    PURE = "pure"

    @property
    def noise(self) -> Noise:
        return Noise.GAUSSIAN if self is Definition.ZCDP else Noise.LAPLACE


def refuse_unused_delta(noise: Definition, declared: Collection[str]) -> None:
    """Raise ValueError if `delta` is among the declared fields, although the loss is an ε, to which no δ belongs."""
    if noise is Definition.PURE and "delta" in declared:
        raise ValueError("delta: a loss in ε is not stated at a δ; remove delta, or declare noise: zcdp")


Production = Annotated[Literal["production"], Tag("production")]

PRODUCTION_OR_OWN = Discriminator(lambda value: "own" if isinstance(value, Mapping | Part) else "production")
"""Discriminates between `Production` and a mapping or part with the tag `own`."""


def _state(value: object) -> object:
    if isinstance(value, int):
        raise ValueError(f"{value} is a number; write a state's FIPS code in quotes, with both of its digits")
    return value


State = Annotated[str, Field(pattern=r"^[0-9]{2}$"), BeforeValidator(_state)]


def require_known_states(release: Release, states: Iterable[str]) -> None:
    """Refuse states that are not among the codes of the dataset's column TABBLKST, if it lists any."""
    codes = release.dataset.units.stored["TABBLKST"].codes
    for state in states:
        if codes and state not in codes:
            known = ", ".join(str(code) for code in codes)
            release.refuse(f"states: {state} is not a state of {release.dataset.name}, which has {known}")
