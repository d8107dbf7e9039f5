"""The declaration of a dataset's columns and tables of records: types, roles, domains and recodes.

`assets.cef.readers` reads a source, and `assets.cef.validation` checks its rows against the declaration. A declared
column describes the source. `Column.in_cef` is the resulting column of the CEF, which differs if the column is recoded.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from assets.release.declaration import Part
from assets.release.dialect import Dialect
from assets.release.names import ColumnName, SourcePath
from assets.release.numbers import shown
from assets.release.recodes import MOST_BANDS, Band, Bands, Coding, GivenBound, Merge, Recode, Value, list_codes
from assets.texts import drop_accents

LONGEST_PATTERN = 1000

_LONGEST_INTEGER = 64
"""The most bits of an integer that is written as text: no column holds a longer one, and Python might refuse to write
it."""

_NO_VALUE = re.compile(
    r"(?:^|[;,/] ?)n\.?a\.?(?=$| ?[;,/(:-])|\b(?:"
    r"n/a|n\. ?a\.|niu|not in universe|not applicable|inapplicable|missing|unknown|unspecified|refused|refusal"
    r"|refuse$|blank|flagged cases?"
    r"|not (?:reported|stated|known|specified$|ascertained|answered|asked|available|measured|present)"
    r"|(?:don['’]?t|do not) know|no (?:response|answer)|illegible"
    r"|k\. ?a\.|(?:keine|ohne) angaben?|keine antwort|weiss nicht|entfallt|unbekannt|verweigert|fehlend"
    r"|nicht (?:zutreffend|befragt|gefragt|erhoben)"
    r"|non[ -]reponse|sans (?:objet|reponse)|(?:ne sait|sait) pas(?! lire)|nsp|refus$|inconnue?|manquante?"
    r"|non (?:applicable|concerne|declare|renseigne)e?"
    r"|no (?:sabe(?! leer)|contesta|responde|aplica|consta|procede|especificad[oa])|ns ?/ ?n[cr]"
    r"|sin respuesta|desconocid[oa]"
    r"|nao (?:sabe(?! ler)|responde|respondeu|se aplica|aplicavel)|ignorad[oa]|sem (?:resposta|declaracao)"
    r"|desconhecid[oa]"
    r"|non (?:so|sa|risponde|applicabile|indicato|rilevato|pertinente)|senza risposta|sconosciut[oa]|mancante"
    r"|weet niet|geen antwoord|niet van toepassing|n\.?v\.?t\.?|onbekend|geweigerd|ontbreekt"
    r"|vet (?:ej|inte)|ej tillampligt|uppgift saknas|okand|v(?:et|ed) ikke|u(?:kjent|oppgitt|oplyst|besvart)|ej svar"
    r"|ei tiedossa"
    r"|brak (?:danych|odpowiedzi)|nie (?:wiem|dotyczy)|odmowa|nieznan[aey]|nezjisteno|neuvedeno"
    r")(?!\w)"
)
"""Words in the labels of codes for missing values, without accents, in the languages of most files."""


def means_no_value(label: str) -> bool:
    """Whether a code with this label stands for a missing value."""
    return bool(_NO_VALUE.search(drop_accents(label)))


_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]{1,14}(\.[0-9]{1,4})?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


class ColumnType(StrEnum):
    """The type of a column, which determines how its text is read. Any other text is ill-typed."""

    INTEGER = "integer"
    """Up to 18 digits, optionally after a minus sign; neither `1.5` nor `1e3`."""
    STRING = "string"
    """Any text; leading zeros are kept."""
    BOOLEAN = "boolean"
    """`true` or `false`."""
    DATE = "date"
    """ISO 8601, such as `1940-04-01`."""
    DECIMAL = "decimal"
    """Up to 14 digits before the decimal point and up to 4 after it."""

    @property
    def stored(self) -> str:
        """The DuckDB type of the column in the CEF."""
        return {"integer": "BIGINT", "string": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE"}.get(
            self.value, "DECIMAL(18,4)"
        )


ARROW = {
    ColumnType.INTEGER: pa.int64(),
    ColumnType.STRING: pa.string(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.DATE: pa.date32(),
    ColumnType.DECIMAL: pa.decimal128(18, 4),
}


class Role(StrEnum):
    """The role of a column."""

    KEY = "key"
    """Identifies the record. It is not a variable, and no mechanism sees it."""
    UNIT = "unit"
    """Identifies the unit of a person, in `persons`."""
    DONOR = "donor"
    """The key of the record whose answers were copied into this one; empty if none were. No mechanism sees it."""
    GEOGRAPHY = "geography"
    CHARACTERISTIC = "characteristic"


IDENTIFIERS = (Role.KEY, Role.UNIT, Role.DONOR)


@contextmanager
def name_error(field: str) -> Iterator[None]:
    """Prefix a ValueError raised in the block with the name of the field."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None


def _typed(kind: ColumnType, value: object) -> Value:
    wrong = ValueError(f"{shown(value)} is not of type {kind.value}")
    if isinstance(value, int) and value.bit_length() > _LONGEST_INTEGER:
        raise wrong
    text = str(value)
    match kind:
        case ColumnType.STRING if isinstance(value, str):
            return text
        case ColumnType.STRING:
            raise ValueError(f"{shown(value)} is not of type string; put it in quotes")
        case ColumnType.INTEGER if isinstance(value, int) and not isinstance(value, bool):
            if _INTEGER.fullmatch(text):
                return value
        case ColumnType.DECIMAL if not isinstance(value, bool):
            if _DECIMAL.fullmatch(text):
                return Decimal(text)
        case ColumnType.DATE if _DATE.fullmatch(text):
            try:
                return date.fromisoformat(text)
            except ValueError:
                raise wrong from None
    raise wrong


_Given = int | float | str | bool

_GivenValues = Annotated[
    list[_Given] | dict[_Given, str],
    WithJsonSchema({"type": ["array", "object"], "minItems": 1, "minProperties": 1}),
]

_GivenNesting = Annotated[
    dict[_Given, list[_Given]],
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": {"type": "array", "minItems": 1}}),
]

_GivenMerge = Annotated[
    dict[str, list[_Given]],
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": {"type": "array", "minItems": 1}}),
]


def _read_written(codes: object) -> object:
    """Codes as texts; YAML gives a whole number such as 99 as a number."""
    if not isinstance(codes, list | tuple) or any(type(code) not in (int, str) for code in codes):
        raise ValueError(
            "a list of codes as they are written in the source, of which all but whole numbers are in quotes"
        )
    return tuple(map(str, codes))


_Written = Annotated[
    tuple[str, ...],
    BeforeValidator(_read_written),
    WithJsonSchema({"type": "array", "items": {"type": ["integer", "string"]}}),
]


def _allow_unquoted_null(schema: dict[str, Any]) -> None:
    """Allow the unquoted name `null`, which YAML does not read as text, so that it cannot be listed as a property."""
    schema["propertyNames"] = {"enum": [*schema["properties"], None]}
    del schema["additionalProperties"]


class Column(Part):
    """One column of a table: its type, its role and its domain.

    A geography or characteristic column declares its domain:

    - `integer`: `values`, or both `minimum` and `maximum`;
    - `string`: `values`, or a `pattern` that the whole text must match;
    - `decimal` and `date`: optionally `minimum` and `maximum`;
    - `boolean`: no further field; the domain is its two values.

    In a recoded column, `bands` or `merge` are the whole domain, and the CEF has the names of bands or categories.
    `top_coded` and `bottom_coded` apply to the declared `maximum` and `minimum`. Several columns may have one `source`.

    `null` and `zero` list codes of the source. They are compared with its text before all other steps, so they are
    neither in the domain nor recoded.

    Key and unit columns are integers or strings, never null, and need no domain. Donor columns need no domain either,
    and may be empty.
    """

    model_config = ConfigDict(json_schema_extra=_allow_unquoted_null)

    type: ColumnType = Field(description="The type of the values in the source.")
    role: Role = Field(
        Role.CHARACTERISTIC,
        description="key: identifies the record; unit: identifies the unit of a person; donor: identifies the "
        "record whose answers were copied; geography: a variable of places; characteristic: any other variable.",
    )
    title: str = Field(
        "", description="The column's name in words; by default, the name with spaces in place of underscores."
    )
    description: str = Field("", description="What the column contains, for the data dictionary.")
    source: ColumnName | SkipJsonSchema[None] = Field(
        None, min_length=1, description="The column's name in the source, if it has another name there."
    )
    within: ColumnName | SkipJsonSchema[None] = Field(
        None,
        description="For a geography column: the column of the larger places in which its places lie, such as the "
        "region of each district.",
    )
    nesting: _GivenNesting | SkipJsonSchema[None] = Field(
        None,
        description="Only with `within`: for each larger place, the codes of this column that lie in it, each code "
        "once. Hypercubes then leave out impossible combinations, and have counts by the larger place too.",
    )
    values: _GivenValues | SkipJsonSchema[None] = Field(
        None, description="The codes that may occur: a list, or a mapping of each code to its label."
    )
    minimum: GivenBound | SkipJsonSchema[None] = Field(None, description="The least value that may occur.")
    maximum: GivenBound | SkipJsonSchema[None] = Field(None, description="The greatest value that may occur.")
    pattern: str | SkipJsonSchema[None] = Field(
        None, description="A regular expression (RE2) that the whole text must match."
    )
    bands: Annotated[dict[str, Band], Field(min_length=1)] | SkipJsonSchema[None] = Field(
        None,
        description="Bands of an integer, decimal or date, by name; the CEF has the band's name instead of the value.",
    )
    merge: _GivenMerge | SkipJsonSchema[None] = Field(
        None, description="Categories of an integer or string, each with the list of its codes in the source."
    )
    everything_else: str | SkipJsonSchema[None] = Field(
        None, min_length=1, description="The category of all codes that are in no list of `merge`."
    )
    top_coded: bool = Field(False, description="Whether values greater than `maximum` are replaced by `maximum`.")
    bottom_coded: bool = Field(False, description="Whether values less than `minimum` are replaced by `minimum`.")
    rounded: bool = Field(
        False,
        description="Whether a decimal is rounded to 4 digits after the point when it is read, halves away from 0. "
        "It may then have an exponent in the source, as in 1e+05.",
    )
    nullable: bool = Field(
        False, description="Whether the column may be empty. A column that declares `null` may always be empty."
    )
    null: _Written = Field(
        (), description="Codes that stand for no value, such as NA or 9999999, written exactly as in the source."
    )
    zero: _Written = Field(
        (),
        description="Codes that stand for 0, such as 9999998 for no income, written exactly as in the source.",
    )
    depends_on_persons: bool | SkipJsonSchema[None] = Field(
        None,
        description="Whether a change of one person can change the value, in units at all, in persons in the record of "
        "another person. If it can, the change also reaches the records of the unit's other persons. By default, "
        "Stirred assumes that it can in units, except in a geography column, and cannot in persons.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_null(cls, fields: Any) -> Any:
        """Accept the unquoted key `null`, which YAML does not read as text."""
        if not isinstance(fields, Mapping):
            return fields
        fields = {"null" if field is None else field: value for field, value in fields.items()}
        return {"nullable": True} | fields if fields.get("null") or fields.get("role") == Role.DONOR else fields

    @field_validator("values", mode="before")
    @classmethod
    def _keep_values_as_given(cls, values: object) -> object:
        if values is not None and not (isinstance(values, list | tuple | Mapping) and values):
            raise ValueError("values are a nonempty list of codes or a nonempty mapping of codes to labels")
        if isinstance(values, list | tuple | Mapping) and not all(isinstance(code, _Given) for code in values):
            raise ValueError("every code in values is a number, a text or a boolean")
        if isinstance(values, Mapping) and not all(isinstance(label, str) for label in values.values()):
            raise ValueError("every label in values is a text; put it in quotes")
        return values

    @field_validator("bands", "merge", "nesting", mode="before")
    @classmethod
    def _keep_names_as_given(cls, given: object, info: ValidationInfo) -> object:
        if given is None:
            return given
        kind = {"bands": "band", "merge": "category", "nesting": "place"}[info.field_name or ""]
        if not (isinstance(given, Mapping) and given):
            raise ValueError(f"it is a nonempty mapping with the name of each {kind}")
        for name, values in given.items():
            if not isinstance(name, _Given if kind == "place" else str) or name == "":
                raise ValueError(f"{shown(name)} is not the name of a {kind}; put it in quotes")
            if kind == "band" and not isinstance(values, Mapping | Band):
                raise ValueError(f"{shown(name)}: a band has at_least, below, or both")
            if kind != "band" and not (
                isinstance(values, list | tuple) and values and all(isinstance(code, _Given) for code in values)
            ):
                raise ValueError(f"{shown(name)}: a {kind} has a nonempty list of codes")
        if len(given) > MOST_BANDS and kind == "band":
            raise ValueError(f"at most {MOST_BANDS:,} bands are allowed")
        return given

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        if len(pattern) > LONGEST_PATTERN:
            raise ValueError(f"a pattern has at most {LONGEST_PATTERN:,} letters")
        # A pattern that is valid by itself has balanced parentheses, so it cannot end the group around it.
        for expression in (pattern, whole(pattern)):
            try:
                # An array made by Arrow: to convert a Python list, Arrow would import pandas.
                pc.match_substring_regex(pa.nulls(1, pa.string()), expression)
            except pa.ArrowInvalid:
                raise ValueError(f"{shown(pattern)} is not a regular expression of RE2") from None
        return pattern

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_which_recodes_fit()
        self._check_which_rules_fit()
        self._check_values()
        self._check_written()
        return self

    def _check_which_recodes_fit(self) -> None:
        kind, name = self.type, self.type.value
        fields = ("bands", "merge", "top_coded", "bottom_coded")
        declared = [field for field in fields if getattr(self, field) not in (None, False)]
        if self.everything_else is not None and self.merge is None:
            raise ValueError("everything_else is for a column with merge")
        if not declared:
            return
        if self.role in IDENTIFIERS:
            raise ValueError(f"a {self.role.value} column is not recoded: drop {' and '.join(declared)}")
        if declared[0] != "merge" and kind not in (ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.DATE):
            advice = "; merge its codes instead" if kind is ColumnType.STRING else ""
            raise ValueError(f"a {name} column takes no {declared[0]}{advice}")
        if declared[0] == "merge" and kind not in (ColumnType.INTEGER, ColumnType.STRING):
            advice = "" if kind is ColumnType.BOOLEAN else "; declare bands instead"
            raise ValueError(f"a {name} column takes no merge{advice}")
        if declared[0] in ("bands", "merge"):
            if len(declared) > 1:
                raise ValueError(f"a column is recoded in one way: drop {declared[0]} or {' and '.join(declared[1:])}")
            others = ("values", "minimum", "maximum", "pattern")
            if superfluous := [field for field in others if getattr(self, field) is not None]:
                verb = "are" if declared[0] == "bands" else "is"
                raise ValueError(f"{declared[0]} {verb} the whole domain: drop {', '.join(superfluous)}")
        for field, bound in (("top_coded", "maximum"), ("bottom_coded", "minimum")):
            if getattr(self, field) and getattr(self, bound) is None:
                raise ValueError(f"{field}: declare the {bound} that values beyond it are taken as")

    def _check_which_rules_fit(self) -> None:
        kind, name = self.type, self.type.value
        if self.values is not None and kind not in (ColumnType.INTEGER, ColumnType.STRING):
            raise ValueError(f"a {name} column takes no values")
        if self.rounded and kind is not ColumnType.DECIMAL:
            raise ValueError(f"a {name} column is not rounded: drop rounded")
        if self.pattern is not None and kind is not ColumnType.STRING:
            raise ValueError(f"a {name} column takes no pattern")
        bounds = (self.minimum, self.maximum)
        if bounds != (None, None) and kind in (ColumnType.STRING, ColumnType.BOOLEAN):
            raise ValueError(f"a {name} column takes no minimum or maximum")
        if self.values is not None and (self.pattern is not None or bounds != (None, None)):
            raise ValueError("values are the whole domain: drop minimum, maximum and pattern")
        if self.role in IDENTIFIERS:
            if kind not in (ColumnType.INTEGER, ColumnType.STRING):
                raise ValueError(f"a {self.role.value} column is an integer or a string, not a {name}")
            if self.nullable is not (self.role is Role.DONOR):
                raise ValueError(f"a {self.role.value} column is {'nullable' if not self.nullable else 'not nullable'}")
        elif self.bands is not None or self.merge is not None:
            return
        elif kind is ColumnType.INTEGER and self.values is None and None in bounds:
            raise ValueError("an integer column must declare its domain: values, or minimum and maximum")
        elif kind is ColumnType.STRING and self.values is None and self.pattern is None:
            raise ValueError("a string column must declare its domain: values or a pattern")

    def _check_values(self) -> None:
        if len(set(self.codes)) < len(self.codes):
            repeated = next(code for code, number in Counter(self.codes).items() if number > 1)
            raise ValueError(f"a code occurs twice in values: {shown(repeated)}")
        lowest, highest = self.bounds
        if lowest is not None and highest is not None and lowest > highest:  # type: ignore[operator]
            raise ValueError(f"minimum {self.minimum} is greater than maximum {self.maximum}")
        # Gaps, overlaps and codes in two categories are found when the recode is put together.
        _ = self.recode

    def _check_written(self) -> None:
        recode, (lowest, highest) = self.recode, self.bounds
        domain = {str(code) for code in (recode.category_of if isinstance(recode, Merge) else self.codes)}
        for field, codes in self.written.items():
            if self.role in (Role.KEY, Role.UNIT):
                raise ValueError(f"a {self.role.value} column is read as it is written: drop {field}")
            others = domain.union(self.zero if field == "null" else ())
            for code in codes:
                if codes.count(code) > 1 or code in others:
                    raise ValueError(f"{field}: {shown(code)} is also another code, of null, zero, values or merge")
        if self.null and not self.nullable:
            raise ValueError("nullable: a column with null may be empty")
        if self.zero and self.type not in (ColumnType.INTEGER, ColumnType.DECIMAL):
            raise ValueError(f"a {self.type.value} column takes no zero")
        if not self.zero:
            return
        has_zero = 0 in self.codes if self.values is not None else (lowest or 0) <= 0 <= (highest or 0)  # type: ignore[operator]
        if not has_zero:
            raise ValueError(f"zero: 0 is outside the domain {self.domain_in_words}")

    @property
    def written(self) -> dict[str, tuple[str, ...]]:
        """The codes of `null` and of `zero`; a field without codes is left out."""
        return {field: codes for field, codes in (("null", self.null), ("zero", self.zero)) if codes}

    @property
    def reading_in_words(self) -> str:
        """In sentences, how the texts of the source are read; "" if they are read as written."""
        codes = [
            f"{'no value' if field == 'null' else '0'} is also written as {list_codes([shown(code) for code in codes])}"
            for field, codes in self.written.items()
        ]
        sentences = [f"In the source, {', and '.join(codes)}."] if codes else []
        return " ".join([*sentences, *(["Rounded to 4 digits after the point."] if self.rounded else [])])

    @property
    def conversion(self) -> dict[str, Any]:
        """How a value of the source becomes one of the CEF, as plain values that are equal if and only if they mean the
        same; empty if it stays as it is."""
        recode = self.recode
        read: dict[str, Any] = {field: sorted(codes) for field, codes in self.written.items()}
        return read | ({"rounded": True} if self.rounded else {}) | (recode.record() if recode else {})

    @property
    def recode(self) -> Recode | None:
        """How a value of the source becomes one of the CEF; None if it stays as it is.

        Raises ValueError if an end or a code is not of the column's type, or bands or categories contradict each other.
        An accepted declaration never raises it.
        """
        if self.bands is not None:
            with name_error("bands"):
                ends = {name: self._type_all(name, (band.at_least, band.below)) for name, band in self.bands.items()}
                return Bands.ordered({name: (start, end) for name, (start, end) in ends.items()})
        if self.merge is not None:
            with name_error("merge"):
                codes = {name: self._type_all(name, codes) for name, codes in self.merge.items()}
                return Merge(codes, self.everything_else)
        if self.top_coded or self.bottom_coded:
            lowest, highest = self.bounds
            return Coding(lowest if self.bottom_coded else None, highest if self.top_coded else None)
        return None

    def _type_all(self, name: str, given: Sequence[object]) -> tuple[Value | None, ...]:
        with name_error(name):
            return tuple(None if value is None else _typed(self.type, value) for value in given)

    def larger_places(self, larger: "Column") -> dict[Value, Value]:
        """By code, the code of the larger place in `nesting`, for columns as the CEF has them.

        Raises ValueError unless each code lies in one place. The message names field and rule.
        """
        with name_error("nesting"):
            pairs = [
                (_typed(self.type, code), _typed(larger.type, place))
                for place, codes in (self.nesting or {}).items()
                for code in codes
            ]
            if self.nullable:
                raise ValueError("the column may be empty, and an empty place is in no larger one")
            named = Counter(code for code, _ in pairs)
            if unknown := [code for code in named if code not in self.codes]:
                raise ValueError(f"{shown(unknown[0])} is not among the codes of the column")
            if wrong := [code for code in self.codes if named[code] != 1]:
                raise ValueError(
                    f"it names each code of the column once, but {shown(wrong[0])} {named[wrong[0]]} times"
                )
            if unknown := [place for _, place in pairs if place not in larger.codes]:
                raise ValueError(f"{shown(unknown[0])} is not among the codes of the larger place")
        return dict(pairs)

    def in_cef(self, name: str) -> "Column":
        """The column as the CEF has it, under the name `name`: an ordinary column, whose domain follows from the
        recode.

        The names of bands are in ascending order of the bands, the names of categories in declared order.
        """
        recode, description = self.recode, self.description
        if not self.conversion:
            return self
        if recode is not None:
            origin = f"ecoded from {self.source or name}: {recode.in_words}"
            description = f"{description.rstrip('. ')} (r{origin})." if description else f"R{origin}."
        if reading := self.reading_in_words:
            description = f"{description}{'' if description[-1:] in ('', '.') else '.'} {reading}".lstrip()
        recoded: dict[str, Any] = {"description": description, "null": (), "zero": ()}
        recoded |= dict.fromkeys(("top_coded", "bottom_coded", "rounded"), False)
        if recode is not None and not isinstance(recode, Coding):
            recoded |= {"type": ColumnType.STRING, "values": recode.meanings}
            recoded |= dict.fromkeys(("bands", "merge", "everything_else"))
        return self.model_copy(update=recoded | {"source": None})

    @property
    def follows_persons(self) -> bool:
        """For a column of units: whether a change of one person can change the value of the unit in the other persons'
        records."""
        return self.role is not Role.GEOGRAPHY if self.depends_on_persons is None else self.depends_on_persons

    @property
    def codes(self) -> tuple[Value, ...]:
        """The values that may occur, in declared order; empty if the domain is not declared as a list."""
        return tuple(_typed(self.type, value) for value in self.values or ())

    @property
    def labels(self) -> dict[Value, str]:
        values = self.values if isinstance(self.values, Mapping) else {}
        return {_typed(self.type, code): label for code, label in values.items()}

    @property
    def bounds(self) -> tuple[Value | None, Value | None]:
        """The least and the greatest value that may occur; each is None if there is no bound."""
        lowest, highest = (
            None if bound is None else _typed(self.type, bound) for bound in (self.minimum, self.maximum)
        )
        return lowest, highest

    def domain(self) -> tuple[Value | None, ...]:
        """All values that may occur, in ascending order; None comes last if the column is nullable.

        Raises ValueError if the declaration determines no list of values, as with a pattern, a decimal or a date.
        """
        return (*self._listed, *([None] if self.nullable else []))

    @property
    def domain_size(self) -> int:
        """The number of values of `domain`, without listing them. Raises ValueError as `domain`."""
        return len(self._listed) + self.nullable

    @property
    def _listed(self) -> Sequence[Value]:
        lowest, highest = self.bounds
        if self.values is not None:
            codes: list[Any] = list(self.codes)
            return sorted(codes)
        if self.type is ColumnType.BOOLEAN:
            return (False, True)
        if self.type is ColumnType.INTEGER and isinstance(lowest, int) and isinstance(highest, int):
            return range(lowest, highest + 1)
        raise ValueError(f"its domain ({self.domain_in_words}) is not a list of values")

    @property
    def domain_in_words(self) -> str:
        """The domain in words, short enough for a message or a table cell."""
        if self.values is not None:
            first = [str(code) for code in self.codes[:12]]
            return f"[{', '.join(first)}{', …' if len(self.codes) > len(first) else ''}]"
        if self.pattern is not None:
            return f"matching {self.pattern}"
        lowest, highest = self.bounds
        if lowest is not None and highest is not None:
            return f"{lowest} to {highest}"
        if lowest is not None:
            return f"at least {lowest}"
        if highest is not None:
            return f"at most {highest}"
        return f"any {self.type.value}"


def title_columns(columns: Mapping[str, Column]) -> dict[str, str]:
    return {name: column.title or name.replace("_", " ") for name, column in columns.items()}


def distinguish_columns(columns: Mapping[str, Column]) -> dict[str, str]:
    """The words of the data dictionary for columns, or their names if the words do not tell them apart."""
    words = title_columns(columns)
    return words if len(set(words.values())) == len(words) else {name: name for name in words}


def explain_amount(name: str, column: Column, *further: str) -> str:
    """A column whose values are added up, with its title and description, which readers need for its unit."""
    words = "; ".join(filter(None, (column.title, column.description, *further)))
    return f"{name} ({words})" if words else name


def describe_columns(columns: Mapping[str, Column]) -> dict[str, str]:
    return {name: column.description for name, column in columns.items()}


def whole(pattern: str) -> str:
    """A regular expression (RE2) that matches a text if `pattern` matches the whole text."""
    return rf"\A(?:{pattern})\z"


def require_distinct_columns(columns: dict[str, Column]) -> dict[str, Column]:
    """The columns. Raises ValueError if two names differ only in the case of letters, which DuckDB ignores."""
    seen: dict[str, str] = {}
    for name in columns:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise ValueError(f"columns {other} and {name} differ only in upper and lower case")
    return columns


def require_recodes(layout: Mapping[str, Column], columns: dict[str, Column]) -> dict[str, Column]:
    """The columns. Raises ValueError if one is not recoded, or has the name of another one or of a column of the
    layout."""
    taken = {name.casefold(): name for name in layout}
    for name, column in columns.items():
        if name.casefold() in taken:
            raise ValueError(f"{name}: the layout has a column {taken[name.casefold()]}; choose another name")
        if column.recode is None:
            raise ValueError(f"{name}: it is not recoded; declare bands, merge, top_coded or bottom_coded")
    return require_distinct_columns(columns)


class RecordTable(Part):
    """The declaration of a table of records: its source and its columns."""

    path: SourcePath | SkipJsonSchema[None] = Field(
        None, description="The source file: absolute, or relative to the project's root."
    )
    geography_path: SourcePath | SkipJsonSchema[None] = Field(
        None,
        description="A second source file, with the column of role key, one record for each key, and the columns of "
        "role geography.",
    )
    csv: Dialect | SkipJsonSchema[None] = Field(
        default=None, description="How CSV files of the table are written, where that differs from the default."
    )
    codebook: SourcePath | SkipJsonSchema[None] = Field(
        default=None, description="For reader ddi: the DDI codebook that says where the variables are in a line."
    )
    record_type: str | SkipJsonSchema[None] = Field(
        default=None,
        description="In an extract with records of several types (hierarchical), the type of this table's "
        "records, such as H or P.",
    )
    columns: Annotated[dict[ColumnName, Column], Field(min_length=1)] = Field(
        description="The columns to take from the source, by name, recoded or as they are; other columns are ignored."
    )

    @field_validator("columns")
    @classmethod
    def _check_names(cls, columns: dict[str, Column]) -> dict[str, Column]:
        return require_distinct_columns(columns)

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if len(self._having(Role.KEY)) > 1:
            raise ValueError(f"more than one key: {', '.join(self._having(Role.KEY))}")
        if donors := self._having(Role.DONOR):
            if len(donors) > 1:
                raise ValueError(f"more than one donor column: {', '.join(donors)}")
            if self.key is None or self.columns[self.key].type is not self.columns[donors[0]].type:
                raise ValueError(f"column {donors[0]}: role donor: a key of the same type is required")
        geography = self._having(Role.GEOGRAPHY)
        for name, column in self.columns.items():
            larger = column.within
            if larger is not None and name not in geography:
                raise ValueError(f"column {name}: within: its role is not geography")
            if larger is not None and (larger not in geography or larger == name):
                raise ValueError(f"column {name}: within: {larger} is not another column of role geography")
            seen = {name}
            while larger in self.columns and larger not in seen:
                seen.add(larger)
                larger = self.columns[larger].within
            if larger in seen:
                raise ValueError(f"column {name}: within: {larger} would lie in itself")
            if column.nesting is not None:
                with name_error(f"column {name}"):
                    if column.within is None:
                        raise ValueError("nesting: it is for a column with within")
                    self.variables[name].larger_places(self.variables[column.within])
        if self.geography_path is not None:
            for required in (Role.KEY, Role.GEOGRAPHY):
                if not self._having(required):
                    raise ValueError(f"geography_path: a column of role {required.value} is required")
        return self

    @property
    def paths(self) -> dict[str, str]:
        """The declared source files, by field."""
        fields = {"path": self.path, "geography_path": self.geography_path, "codebook": self.codebook}
        return {field: path for field, path in fields.items() if path is not None}

    def _having(self, role: Role) -> list[str]:
        return [name for name, column in self.columns.items() if column.role is role]

    @property
    def key(self) -> str | None:
        """The column that identifies the record; None if the table has no key."""
        return next(iter(self._having(Role.KEY)), None)

    @property
    def unit(self) -> str | None:
        """The column that identifies the person's unit; None in `units`."""
        return next(iter(self._having(Role.UNIT)), None)

    @property
    def donor(self) -> str | None:
        """The column with the key of the record that this one was copied from; None if the table has none."""
        return next(iter(self._having(Role.DONOR)), None)

    @property
    def variables(self) -> dict[str, Column]:
        """The columns that describe the record, as the CEF has them: all except key, unit and donor."""
        return {name: column.in_cef(name) for name, column in self.columns.items() if column.role not in IDENTIFIERS}

    @property
    def stored(self) -> dict[str, Column]:
        """The columns in the order of the CEF: key, unit and donor, then the variables in declared order."""
        first = [name for name in (self.key, self.unit, self.donor) if name is not None]
        return {name: self.columns[name] for name in first} | self.variables

    @property
    def places(self) -> dict[str, Column]:
        """The columns that come from the file `geography_path`, as the CEF has them; empty if there is no such file."""
        if self.geography_path is None:
            return {}
        return {name: column for name, column in self.stored.items() if column.role is Role.GEOGRAPHY}
