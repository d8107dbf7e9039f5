"""The declared dialect of a CSV file. `assets.cef.text_files` reads files by it, and `assets.cef.recognition` detects
the dialect of a file."""

import codecs
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from typing import Literal

from pydantic import Field, ValidationError, field_validator

from assets.release.declaration import Part
from assets.release.numbers import shown

UTF_8, UTF_16 = "utf-8", ("utf-16", "utf-16-le", "utf-16-be")
_OF_BYTES = (
    *(f"windows-{number}" for number in range(1250, 1259)),
    *(f"iso-8859-{number}" for number in range(1, 17) if number != 12),
    *("koi8-r", "koi8-u", "mac-roman", "cp437", "cp850", "cp852", "cp866"),
)
ENCODINGS = {codecs.lookup(name).name: name for name in (UTF_8, *UTF_16, *_OF_BYTES)}
"""The encodings by their names in Python: UTF-8, UTF-16, and encodings of one byte per character that extend ASCII."""

SEPARATORS = {
    **{",": "commas", ";": "semicolons", "tab": "tabs", "|": "|"},
    **{":": "colons", "^": "^", "~": "~"},
}
"""The separators in words, as declared."""

Separator = Literal[",", ";", "tab", "|", ":", "^", "~"]
Compression = Literal["none", "gzip", "zstd"]

_NUMBER = re.compile("[-+0-9eE.,]*[0-9][-+0-9eE.,]*", re.ASCII)
ISO = "YYYY-MM-DD"
_DATES = re.compile(r"(DD([./-])MM\2YYYY|MM([./-])DD\3YYYY|YYYY([./-])MM\4DD)", re.ASCII)


class Dialect(Part):
    """How a CSV file differs from one in UTF-8 with commas, decimal points and dates as in ISO 8601."""

    separator: Separator = Field(",", description='The separator of fields: a comma, ";", tab, "|", ":", ^ or "~".')
    encoding: str = Field(
        UTF_8,
        description="utf-8 (the default), utf-16 (with a byte-order mark), utf-16-le, utf-16-be, or an encoding with "
        "one byte per character: windows-1250 to -1258, iso-8859-1 to -16, koi8-r, koi8-u, mac-roman, cp437, cp850, "
        "cp852, cp866.",
    )
    quote: Literal['"', "'", "none"] = Field(
        '"', description="The character around quoted fields; none: quotes are ordinary characters."
    )
    escape: Literal["doubled", "backslash"] = Field(
        "doubled", description="How a quote inside quotes is written: doubled, or after a backslash."
    )
    compression: Compression = Field("none", description="The compression of the files.")
    decimal: Literal[".", ","] = Field(".", description="The decimal mark of columns of type decimal.")
    dates: str = Field(
        ISO,
        description="How columns of type date are written: YYYY-MM-DD (the default), DD.MM.YYYY, MM/DD/YYYY or another "
        "order of the three with . / or - between them. Days and months may have one digit, except in YYYY-MM-DD.",
    )

    @field_validator("encoding")
    @classmethod
    def _name_encoding(cls, encoding: str) -> str:
        try:
            return ENCODINGS[codecs.lookup(encoding).name]
        except (LookupError, ValueError):
            known = ", ".join(ENCODINGS.values())
            rule = f"{shown(encoding)} is none of {known}; write a file in any other encoding in UTF-8"
            raise ValueError(rule) from None

    @field_validator("dates")
    @classmethod
    def _check_dates(cls, dates: str) -> str:
        if not _DATES.fullmatch(dates):
            raise ValueError(f"{shown(dates)} is not like YYYY-MM-DD, DD.MM.YYYY or MM/DD/YYYY")
        return dates

    @property
    def delimiter(self) -> str:
        return "\t" if self.separator == "tab" else self.separator

    @property
    def quote_character(self) -> str:
        """Empty if fields are never quoted."""
        return "" if self.quote == "none" else self.quote

    @property
    def escape_character(self) -> str:
        """Empty if quotes are doubled."""
        return "\\" if self.escape == "backslash" and self.quote_character else ""

    @property
    def date_pattern(self) -> str:
        """The regular expression of a date; empty if dates are as in ISO 8601."""
        pattern = "" if self.dates == ISO else self.dates.replace(".", r"\.")
        return pattern.replace("YYYY", "[0-9]{4}").replace("DD", "[0-9]{1,2}").replace("MM", "[0-9]{1,2}")

    @property
    def date_format(self) -> str:
        return self.dates.replace("YYYY", "%Y").replace("DD", "%d").replace("MM", "%m")

    def as_usual(self, text: str, kind: str) -> str:
        """A text of a column of this type, in the usual form if it is a decimal or a date (see `cef/as_usual.sql`)."""
        if kind == "decimal" and self.decimal == "," and _NUMBER.fullmatch(text):
            return text.translate(str.maketrans(",.", ".,"))
        if kind == "date" and self.date_pattern and re.fullmatch(self.date_pattern, text, re.ASCII):
            with suppress(ValueError):
                return datetime.strptime(text, self.date_format).date().isoformat()
        return text

    def as_written(self, text: str, kind: str) -> str:
        """The text in this dialect that `as_usual` converts to this one."""
        if kind == "date" and self.date_pattern:
            with suppress(ValueError):
                return date.fromisoformat(text).strftime(self.date_format)
        return self.as_usual(text, kind)

    @property
    def in_words(self) -> str:
        compressed = "" if self.compression == "none" else f", compressed by {self.compression}"
        encoding = self.encoding.upper() if self.encoding == UTF_8 else self.encoding
        return f"{encoding}, separated by {SEPARATORS[self.separator]}, with a header{compressed}"

    @property
    def unusual(self) -> dict[str, str]:
        """The fields that differ from their defaults."""
        return {name: value for name, value in dict(self).items() if value != type(self).model_fields[name].default}


def parse_dialect(given: Mapping[str, str]) -> Dialect:
    """The dialect with these fields. Raises ValueError, beginning with the field, if a field is invalid."""
    try:
        return Dialect.model_validate(dict(given))
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        raise ValueError(
            f"{'.'.join(map(str, detail['loc']))}: {detail['msg'].removeprefix('Value error, ')}"
        ) from None


USUAL = Dialect.model_construct()
