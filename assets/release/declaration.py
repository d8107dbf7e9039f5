"""The base of all declarations: every error begins with the name of the declaration, and every text can be shown.

`numbers` and `names` define the types of fields. A declaration is made from the attributes of a component in YAML.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar, Self, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails
from pydantic_core.core_schema import no_info_wrap_validator_function

from assets.release.names import IN_WORDS, LONGEST_NAME
from assets.release.numbers import shown
from assets.texts import LONGEST_TEXT, find_unseen, show_line, suggest

MOST_VALUES = 1_000_000
"""The most values, lists and mappings in a declaration; an alias in YAML can repeat a list endlessly."""

_TITLE, _OF_SEVERAL_LINES = "title", "description"
"""Only descriptions may have line breaks and tabs, because YAML leaves them in long texts."""


class Part(dg.Model):
    """A part of a declaration with fields of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)


class Declaration(Part):
    """A declaration whose errors begin with its kind and name: `dataset town`, or `release town/tenure`."""

    declares: ClassVar[str]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # A model validator would run inside the validators of subclasses, and would not see their errors.
        return no_info_wrap_validator_function(cls._name_errors, handler(source))

    @classmethod
    def _name_errors(cls, given: Any, validate: Callable[[Any], Self]) -> Self:
        given = _end_titles(given)
        named = f"{cls.declares} {cls.named(given)}"
        if unwritable := _unwritable(given):
            raise ValueError(f"{named}: {unwritable}")
        try:
            given = cls.prepare(given)
        except ValueError as error:
            raise ValueError(f"{named}: {error}") from None
        try:
            return validate(given)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            # An optional field accepts None, so pydantic adds to each of its errors that the value is not None.
            errors = [detail for detail in errors if detail["type"] != "none_required"] or errors
            raise ValidationError.from_exception_data(
                error.title, [_named_error(named, given, detail, cls) for detail in errors]
            ) from None

    @classmethod
    def prepare(cls, given: Any) -> Any:
        """The attributes in the form of the fields, if they are given in another one. Raises ValueError."""
        return given

    @classmethod
    def named(cls, given: Any) -> str:
        """The name of the declaration as far as it is given, or a question mark."""
        return describe_field(given, "name")


def describe_field(given: Any, field: str) -> str:
    """A field of unchecked attributes for a message."""
    value = given.get(field) if isinstance(given, Mapping) else None
    if value is None:
        return "?"
    return value if isinstance(value, str) and len(value) <= LONGEST_NAME and value.isprintable() else shown(value)


_WORDS = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such field",
    "model_type": "it must be a mapping of fields and values",
    "dict_type": "it must be a mapping of names and values",
    "string_type": "it must be a text, in quotes if it looks like a number",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "too_short": "it must have {min_length} or more entries, not {actual_length}",
    "too_long": "it must have at most {max_length} entries",
    "string_too_short": "it must not be empty",
    "string_too_long": "it must have at most {max_length} letters",
    "string_pattern_mismatch": "{shown} is not {written}",
}
"""Our words for pydantic's kinds of errors. In other kinds, only the beginning is replaced."""


def _named_error(named: str, given: Any, error: ErrorDetails, declared: type[Part]) -> InitErrorDetails:
    kind, entered = error["type"], error["input"]
    fields = _fields(given, error["loc"], kind == "missing")
    message = error["msg"].removeprefix("Value error, ").replace("Input should be", "it must be", 1)
    if kind in _WORDS:
        context = error.get("ctx", {})
        pattern = context.get("pattern", "")
        written = IN_WORDS.get(pattern, f"written as the pattern {pattern} requires")
        message = _WORDS[kind].format(**context, shown=shown(entered), written=written)
    if kind == "extra_forbidden":
        known = set(_list_fields(declared, fields[:-1]))
        message += suggest(str(fields[-1]), known) or f"; there are {', '.join(sorted(known))}"
    if kind in ("list_type", "tuple_type"):
        # A code such as 01 is a text only in quotes.
        single = isinstance(entered, str) and entered.isidentifier()
        example = f"[{entered}]" if single else "[a, b], with codes in quotes"
        message = f"it must be a list, such as {example}"
    parts = [named, ".".join(map(_field_text, fields)), message]
    sentence = ": ".join(part for part in parts if part)
    return InitErrorDetails(type="value_error", loc=fields, input=entered, ctx={"error": ValueError(sentence)})


def _list_fields(declared: Any, fields: tuple[int | str, ...]) -> Iterator[str]:
    """The names that a mapping may have which these fields of a declared type lead to; none if it may have any."""
    kind = get_origin(declared) or declared
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if not fields:
            yield from declared.model_fields
        elif fields[0] in declared.model_fields:
            yield from _list_fields(declared.model_fields[str(fields[0])].annotation, fields[1:])
    elif isinstance(kind, type) and issubclass(kind, Collection):
        for part in get_args(declared) if fields else ():
            yield from _list_fields(part, fields[1:])
    else:
        for part in get_args(declared):
            yield from _list_fields(part, fields)


def _fields(given: Any, location: tuple[int | str, ...], missing: bool) -> tuple[int | str, ...]:
    """The fields that lead to an error, without pydantic's names for the alternatives of a type."""
    fields: list[int | str] = []
    place = given
    for part in location:
        known: Any = dict(enumerate(place)) if isinstance(place, list | tuple) else place
        if isinstance(known, Mapping) and part in known:
            place = known[part]
        elif not (missing and part == location[-1]):
            continue
        fields.append(part)
    return tuple(fields)


def _field_text(field: object) -> str:
    text = field if isinstance(field, str) else shown(field)
    return text if text.isprintable() and len(text) <= LONGEST_NAME else ascii(text)[1 : LONGEST_NAME + 1]


def _end_titles(given: Any) -> Any:
    """A declaration without the line break that a YAML block (`>` or `|`) leaves at the end of titles. Names and codes
    keep it."""
    if isinstance(given, Mapping):
        return {
            field: value.removesuffix("\n") if field == _TITLE and isinstance(value, str) else _end_titles(value)
            for field, value in given.items()
        }
    return [_end_titles(value) for value in given] if isinstance(given, list) else given


def _unwritable(given: Any) -> str | None:
    """The field and the rule if a text of a declaration cannot be shown or written; None if all can."""
    for number, (fields, value) in enumerate(_values(given, ())):
        if number >= MOST_VALUES:
            return f"{fields[0]}: a declaration has at most {MOST_VALUES:,} values"
        if not isinstance(value, str):
            continue
        rule, lines = "", "\n\r\t" if fields[-1:] == (_OF_SEVERAL_LINES,) else ""
        if len(value) > LONGEST_TEXT:
            rule = f"has over {LONGEST_TEXT:,} letters"
        elif unseen := find_unseen(value, lines):
            rule = f"contains the character U+{ord(unseen):04X}, and a text has only characters that can be seen"
            rule += "" if lines else ", on one line"
        if rule:
            return show_line(f"{'.'.join(fields)}: {shown(value)} {rule}")
    return None


def _values(given: Any, fields: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All values in a declaration with the fields that lead to them; keys of mappings are values too."""
    yield fields, given
    if isinstance(given, Mapping):
        for key, value in given.items():
            below = (*fields, _field_text(key))
            yield below, key
            yield from _values(value, below)
    elif isinstance(given, list | tuple):
        for place, value in enumerate(given):
            yield from _values(value, (*fields, str(place)))
