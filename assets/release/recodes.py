"""Recodes: how a column of the CEF follows from a value in the source, record by record.

A recode is a function of one value: bands of numbers or dates, categories merged into fewer, or values beyond a bound
taken as that bound. It is declared before any release, and no record influences the value of another record. So it has
no loss, and every method sees an ordinary column. `assets.release.columns` declares recodes, and `sql/cef/recoded.sql`
applies them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any

import dagster as dg
from pydantic import ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

Value = int | str | bool | date | Decimal

GivenBound = Annotated[Any, WithJsonSchema({"type": ["number", "string"]})]
"""A bound as given in YAML, to be checked against the column's type."""

MOST_BANDS = 1000

_MOST_NAMED = 12
"""The most codes that a category's label names, and the most bands or categories that a description explains."""


class Band(dg.Model):
    """The values of one band: `at_least` or more, but less than `below`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_least: GivenBound | SkipJsonSchema[None] = Field(
        None, description="The least value of the band. A band without it is open downward."
    )
    below: GivenBound | SkipJsonSchema[None] = Field(
        None, description="All values of the band are less than this. A band without it is open upward."
    )


@dataclass(frozen=True)
class Bands:
    """Contiguous bands in ascending order: names, which are values of the CEF, and ends.

    The ends of a band are its least value and the value below which it ends; None if it is open.
    """

    labels: tuple[str, ...]
    ends: tuple[tuple[Any, Any], ...]

    @classmethod
    def ordered(cls, given: Mapping[str, tuple[Any, Any]]) -> "Bands":
        """Bands from their ends. Raises ValueError if one is empty or has no end, or two overlap or leave a gap."""
        for label, (start, end) in given.items():
            if (start, end) == (None, None):
                raise ValueError(f"{label}: a band has at_least, below, or both")
            if None not in (start, end) and start >= end:
                raise ValueError(f"{label}: no value is at least {start} and below {end}")
        bands = sorted(given.items(), key=lambda band: (band[1][0] is not None, band[1][0]))
        for (lower, (_, end)), (upper, (start, _)) in pairwise(bands):
            if end is None or start is None or start < end:
                raise ValueError(f"{lower} and {upper} overlap")
            if end < start:
                raise ValueError(f"there is a gap between {lower}, below {end}, and {upper}, at least {start}")
        return cls(tuple(label for label, _ in bands), tuple(ends for _, ends in bands))

    @property
    def meanings(self) -> dict[str, str]:
        return {label: _in_words(start, end) for label, (start, end) in zip(self.labels, self.ends, strict=True)}

    @property
    def in_words(self) -> str:
        return _join_meanings(self.meanings)

    def record(self) -> dict[str, Any]:
        return {"bands": [[label, *map(_text, ends)] for label, ends in zip(self.labels, self.ends, strict=True)]}


@dataclass(frozen=True)
class Merge:
    """Categories made of codes; `everything_else` is the category of all other values, or None."""

    categories: Mapping[str, tuple[Any, ...]]
    everything_else: str | None

    def __post_init__(self) -> None:
        seen: dict[Any, str] = {}
        for category, codes in self.categories.items():
            for code in codes:
                other = seen.setdefault(code, category)
                if other != category:
                    raise ValueError(f"{code} is in both {other} and {category}")
            if len(set(codes)) < len(codes):
                raise ValueError(f"{category}: a code occurs twice")

    @property
    def category_of(self) -> dict[Any, str]:
        return {code: category for category, codes in self.categories.items() for code in codes}

    @property
    def meanings(self) -> dict[str, str]:
        meanings = {category: list_codes(codes) for category, codes in self.categories.items()}
        if self.everything_else is not None:
            own = meanings.get(self.everything_else)
            meanings[self.everything_else] = "any other value" if own is None else f"{own}, and any other value"
        return meanings

    @property
    def in_words(self) -> str:
        return _join_meanings(self.meanings)

    def record(self) -> dict[str, Any]:
        return {
            "merge": {category: sorted(map(str, codes)) for category, codes in self.categories.items()},
            "everything_else": self.everything_else,
        }


@dataclass(frozen=True)
class Coding:
    """Top- and bottom-coding: values beyond a bound become the bound; None without a bound."""

    bottom: Any
    top: Any

    @property
    def in_words(self) -> str:
        bottom = "" if self.bottom is None else f"{self.bottom} stands for {_in_words(None, self.bottom, True)}"
        top = "" if self.top is None else f"{self.top} stands for {_in_words(self.top, None)}"
        return "; ".join(filter(None, (bottom, top)))

    def record(self) -> dict[str, Any]:
        return {"bottom_coded": _text(self.bottom), "top_coded": _text(self.top)}


Recode = Bands | Merge | Coding
"""Recodes. Each has a `record` of plain values, which are equal if and only if two recodes mean the same."""


def _text(value: Any) -> str | None:
    # Equal decimals may differ in their trailing zeros.
    return None if value is None else f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


def _in_words(start: Any, end: Any, with_end: bool = False) -> str:
    if start is None:
        if with_end:
            return f"{end} or {'earlier' if isinstance(end, date) else 'less'}"
        return f"{'before' if isinstance(end, date) else 'below'} {end}"
    if end is None:
        return f"{start} or {'later' if isinstance(start, date) else 'more'}"
    if isinstance(end, Decimal):
        return f"{start} to below {end}"
    last = end - (timedelta(days=1) if isinstance(end, date) else 1)
    return f"{start}" if last == start else f"{start} to {last}"


def _join_meanings(meanings: Mapping[str, str]) -> str:
    more = len(meanings) - _MOST_NAMED
    sentences = [f"{name} is {meaning}" for name, meaning in list(meanings.items())[:_MOST_NAMED]]
    return "; ".join([*sentences, *([f"and {more:,} more"] if more > 0 else [])])


def list_codes(codes: Sequence[Any]) -> str:
    more = len(codes) - _MOST_NAMED
    return ", ".join(map(str, codes[:_MOST_NAMED])) + (f" and {more:,} more" if more > 0 else "")
