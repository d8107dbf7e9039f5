"""What all declarations have in common: every error begins with what is declared, and every text can be written.

`numbers` and `names` define the types of fields. A declaration is made from the attributes of a component in YAML.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import dagster as dg
from pydantic import ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from assets.release.names import LONGEST_NAME
from assets.release.numbers import shown

MOST_VALUES = 1_000_000
"""The most values, lists and mappings in a declaration; an alias in YAML can repeat its list without end."""

_CONTROL, _SURROGATE = "Cc", "Cs"


class Declaration(dg.Model):
    """A declaration whose errors begin with what is declared: `dataset town`, or `release town/tenure`."""

    declares: ClassVar[str]
    """What is declared: a dataset or a release."""

    @model_validator(mode="wrap")
    @classmethod
    def _name_errors(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        named = f"{cls.declares} {cls.named(given)}"
        if unwritable := _unwritable(given):
            raise ValueError(f"{named}: {unwritable}")
        try:
            return handler(given)
        except ValidationError as error:
            found = [
                InitErrorDetails(
                    type="value_error",
                    loc=each["loc"],
                    input=each["input"],
                    ctx={"error": ValueError(_sentence(named, each["loc"], each["msg"]))},
                )
                for each in error.errors(include_url=False)
            ]
            raise ValidationError.from_exception_data(error.title, found) from None

    @classmethod
    def named(cls, given: Any) -> str:
        """The name of what is declared, as far as it is given; a question mark otherwise."""
        return given_text(given, "name")


def given_text(given: Any, field: str) -> str:
    """A field of unchecked attributes for a message."""
    value = given.get(field) if isinstance(given, Mapping) else None
    if value is None:
        return "?"
    return value if isinstance(value, str) and len(value) <= LONGEST_NAME and value.isprintable() else shown(value)


def _sentence(named: str, fields: tuple[int | str, ...], rule: str) -> str:
    where = ".".join(str(field) for field in fields)
    return f"{named}: {where + ': ' if where else ''}{rule.removeprefix('Value error, ')}"


def _unwritable(given: Any) -> str | None:
    """Why a declaration cannot be written to files: the field and the rule; None if it can."""
    for number, (fields, value) in enumerate(_values(given, ())):
        if number >= MOST_VALUES:
            return f"{fields[0]}: a declaration has at most {MOST_VALUES:,} values"
        if isinstance(value, str) and any(
            (kind := unicodedata.category(letter)) == _SURROGATE or (kind == _CONTROL and letter not in "\n\r\t")
            for letter in value
        ):
            return f"{'.'.join(fields)}: {shown(value)} contains a character that cannot be written to a file"
    return None


def _values(given: Any, fields: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All values in a declaration with the fields that lead to them; keys of mappings are values too."""
    yield fields, given
    if isinstance(given, Mapping):
        for key, value in given.items():
            below = (*fields, shown(key) if not isinstance(key, str) else ascii(key)[1:-1][:LONGEST_NAME])
            yield below, key
            yield from _values(value, below)
    elif isinstance(given, list | tuple):
        for place, value in enumerate(given):
            yield from _values(value, (*fields, str(place)))
