"""The profile of a source file: the contents of its columns, from which a first declaration can be proposed.

A profile is as confidential as the file. The author of a declaration decides which of its facts become public.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from assets.cef.extracts import Variable
from assets.cef.labels import MOST_LABELED, find_known
from assets.cef.notation import Notation, examine_columns, find_notation
from assets.cef.readers import (
    DescribedFile,
    UnreadableError,
    open_every_column,
    read_categories,
    refuse_unreadable,
)
from assets.cef.recognition import recognize_dialect
from assets.cef.text_files import describe_notation
from assets.cef.validation import Finding, SourceError
from assets.release.columns import ColumnType
from assets.release.dataset import Reader
from assets.release.dialect import USUAL
from assets.texts import drop_accents
from resources.statements import SQL, Fragment
from resources.warehouse import Session, WarehouseError

MOST_CODES = 40

_HOUSEHOLD = re.compile(
    r"(^|_)(serial(no)?|hh?(old)?_?(id|no|nr|num|number|key|seq|serial)|id_?hh?|hhn|household\w*|dwelling\w*|fam(ily)?_?id"
    r"|hushall\w*|haushalt\w*|menage\w*|hogar\w*|domicilio\w*|urut|[dh]b030|rb040|[rp]x030)($|_)"
)
"""Names of columns that identify a household, with Susenas's and EU-SILC's."""
_SAMPLE = re.compile(r"^(year|month|sample|wave|country|cntry|survey_?year|rb0[12]0)$", re.IGNORECASE)
"""Names of columns that distinguish samples, with EU-SILC's year and country of a person."""
_PERSON = re.compile(
    r"(^|_)(per(s|son)?_?(num|number|no|nr|nro|id)|pnum|pid|puid|line_?no|(subject|respondent|resp)_?(id|no|nr))($|_)",
    re.IGNORECASE,
)
"""Names of columns that distinguish the persons of a household."""
_WAVE = re.compile(
    r"(wave|round|year|month|quarter|period|interview|visit|panel|welle|jahr|vague|annee|ano|anio|onda|ola|ronda|periodo)s?"
)
"""Words in the names of columns that distinguish the times at which the same persons answered."""
_FEW_OF = 20
"""A column may describe households if it differs within at most one in this number of them."""
_MOST_KEYS = 4
"""The most columns to try as the key of households."""

FEW = 10
"""Up to this many distinct whole numbers count as codes, and more as amounts."""

MISSING = (
    *("NA", "na", "N/A", "n/a", "#N/A", "#DIV/0!", "NaN", "nan", "NAN", "NULL", "Null", "null", "None", "none", "NIU"),
    *("missing", "Missing", "MISSING", ".", "..", "-", "--", "?", "*", "**", "***", ":", ""),
)
"""Texts that programs write for no value."""

_NARROWEST_FIRST = (ColumnType.BOOLEAN, ColumnType.DATE, ColumnType.INTEGER, ColumnType.DECIMAL)

_ROUNDED = "rounded"
"""Numbers that a decimal column takes if it is rounded (`sql/cef/typed_column.sql`)."""

_ENDS = 12
"""The number of least and of greatest numbers to examine, and of texts among the numbers."""

_NINES = re.compile(r"-?(9+[6-9]|8{2,}|7{2,})(\.0+|\.9+[6-9]?)?")
_BELOW = re.compile(r"-([189]|(\d)\2+|9+[0-9])(\.0+)?")
"""The codes of surveys for unknown numbers, such as 9999998 or 88; and below 0, such as -1, -8 or -99."""
_FAR_NINES = re.compile(rf"{_NINES.pattern}|9{{3,}}[0-5]")
"""Beyond all other numbers, such codes can also end in another digit, as 9994 in Demographic and Health Surveys."""
_MOST_CODES = 6
"""The most such codes at an end."""

BLANKS = "blanks at an end"

_MARKS = {
    "blanks": BLANKS,
    "thousands": "marks between thousands",
    "exponents": "an exponent, as in 1e+05",
    "too_fine": "more than 4 digits after the point",
}
"""By column of `sql/cef/profile.sql`, an unusual feature of a text."""

_WHOLE = SQL("cef/profiled", "FROM ({{ relation }})")
_NESTED = SQL("cef/nested", "SELECT DISTINCT {{ outer | id }}, {{ inner | id }} FROM {{ relation }} ORDER BY ALL")

_NO_VALUE = re.compile(r"\D*|#DIV/0!|[09./-]+")
"""Among numbers or dates: words, a spreadsheet's error, and impossible dates such as 99.99.9999."""
_POINT = re.compile(r"\D$|[.e]")
_WORDS = re.compile(r"[^\W\d_]+")
_OF_PLACES = re.compile(
    r"((state|county|count(y|ies)|region|province|provincia|canton|district|municip\w*|city|town|village|tract|block"
    r"|blkgrp|bg|zip|zcta|postcode|postal|place|area|puma|migpuma|st|fips|cbsa|msa|csa|metro|metarea|commune|comune"
    r"|gemeinde|kommune?|kreis|bundesland|dep|dept|departement|departamento|departamentos|lau|parish|ward|prefecture"
    r"|constituency|division|prov|provincie|provinsi|kab|kabupaten|uf|distrito|comuna|depto|dpto|barrio|ubigeo|concelho"
    r"|freguesia|gemeente|bezirk|lan|fylke|kunta|maakunta|gmina|powiat|wojewodztwo|obec|okres|kraj|oblast|cma|lga)(s|e|fip|fips|fp|icp|ce|cd|code)?|geo\w*|nuts\w*)"
)
_MEASURED = {"floor", "living", "land", "plot", "farm", "crop", "total", "built", "usable", "harvested", "cultivated"}
"""Words that, together with `area`, name amounts."""


@dataclass(frozen=True)
class ColumnProfile:
    """The content of a column.

    Attributes:
        type: the narrowest type of all its values except `missing`; text if a narrower type would lose characters, such
            as a leading zero.
        rounded: whether it is a decimal only if it is rounded.
        codes: the distinct values as texts, in order; empty if there are more than `MOST_CODES`.
        lowest: the least value, if the type is a number, without `missing`.
        highest: the greatest value, likewise.
        digits: the least and the greatest number of digits of its values if all have only digits; otherwise None.
        missing: by code that seems to stand for no value, its number of rows.
        marks: by unusual feature of texts, in words, the number of rows.
        like_numbers: the number of values that look like numbers, including those that are not.
        negative: the number of negative values, without `missing`.
        has_total: whether one of many distinct numbers is the sum of all others.
        title: its label in a codebook, or in the file of a statistical package.
        labels: the labels of all `codes` there.
        reasons: the labels of codes in `missing`, or of categories that the file declares as no value.
        named: the labels of single numbers among unlabeled ones.
        frequent: by number that is written like a code for no value, and is far more frequent than the other numbers
            usually are or far from them, its number of rows.
    """

    name: str
    type: ColumnType
    records: int
    present: int
    different: int
    codes: Sequence[str]
    lowest: Decimal | None = None
    highest: Decimal | None = None
    digits: tuple[int, int] | None = None
    rounded: bool = False
    missing: Mapping[str, int] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)
    like_numbers: int = 0
    negative: int = 0
    has_total: bool = False
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    frequent: Mapping[str, int] = field(default_factory=dict)

    @property
    def identifies(self) -> bool:
        """Whether every record has a value of its own, and the values are not amounts."""
        return self.different == self.present == self.records and not self.rounded and not self.missing

    @property
    def is_place(self) -> bool:
        """Whether it seems to be a geography, by its name, or by a label of one word."""
        label = drop_accents(self.title)
        names = _names_place(self.name) or (label != "area" and _OF_PLACES.fullmatch(label))
        return bool(names) and self.type in (ColumnType.INTEGER, ColumnType.STRING)

    @property
    def has_whole_decimals(self) -> bool:
        """Whether it has few codes, written as decimals, as pandas writes whole numbers if one is missing."""
        whole = all(code.endswith(".0") for code in self.codes)
        return self.type is ColumnType.DECIMAL and not self.rounded and 0 < len(self.codes) <= FEW and whole


@dataclass(frozen=True)
class Profile:
    """The content of a file.

    Attributes:
        columns: the columns that can be read exactly, in the order of the file.
        unfit: why the other columns are left out, by name.
        fields: further fields of the table's declaration, by name.
        within: by geography, the smallest larger one that its value determines.
        nesting: by geography with few codes, by code of that larger one, the codes in it.
        household: the columns that identify a household, if rows of the same household repeat other columns.
        repeated: the columns that have the same value on all rows of each household.
        nearly_repeated: by further column, the number of households within which it differs, if these are few.
        persons: the columns that seem to distinguish the persons of a household, but have the same value on several of
            its rows; without households, the column that seems to identify a person with several rows.
        csv: the fields of a CSV file's dialect that differ from the default.
        reasons: why the values of a column are no numbers or dates, although they look like them.
        sentences: notes for a person on how the file was read.
    """

    columns: Sequence[ColumnProfile]
    unfit: Mapping[str, str]
    fields: Mapping[str, str] = field(default_factory=dict)
    within: Mapping[str, str] = field(default_factory=dict)
    nesting: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    household: Sequence[str] = ()
    repeated: Sequence[str] = ()
    nearly_repeated: Mapping[str, int] = field(default_factory=dict)
    persons: Sequence[str] = ()
    csv: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    sentences: Sequence[str] = ()


class _Number(NamedTuple):
    value: Decimal
    text: str
    rows: int


def split_words(name: str) -> list[str]:
    """The words of a column's name in small letters: `hoursPaid`, `HOURS_PAID` and `hours.paid` have two."""
    return _WORDS.findall(drop_accents(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)))


def names_household(name: str) -> bool:
    return bool(_HOUSEHOLD.search(drop_accents(name)))


def tells_persons_apart(name: str) -> bool:
    """Whether a column of this name seems to number persons, such as the members of a household."""
    return bool(_PERSON.search(name))


def list_likely_missing(codes: Collection[str]) -> list[str]:
    """The numbers among a few whole ones that surveys write for no value, such as -9 and 99. A number above 0 is one if
    it is written like such codes and more than twice as great as all other numbers. If one below 0 is written like such
    codes, all below 0 are codes, except those whose positive number occurs as an ordinary one."""
    above = {code for code in codes if code in ("8", "9") or _NINES.fullmatch(code)}
    greatest = max((int(code) for code in codes if code not in above), default=None)
    far = {code for code in above if greatest is not None and int(code) > 2 * max(greatest, 1)}
    below = {code for code in codes if code[:1] == "-" and (code[1:] not in codes or code[1:] in far)}
    likely = below if any(map(_BELOW.fullmatch, below)) else set[str]()
    return [code for code in codes if code in far | likely]


def _names_place(name: str) -> bool:
    words = split_words(name)
    measured = not _MEASURED.isdisjoint(words)
    # EU-SILC's column of the region has a number as its name.
    return name == "DB040" or any(_OF_PLACES.fullmatch(word) for word in words if not (measured and word == "area"))


def profile(
    session: Session,
    reader: Reader,
    path: Path,
    file: DescribedFile | None = None,
    variables: Mapping[str, Variable] | None = None,
    *,
    given: Mapping[str, str] | None = None,
) -> Profile:
    """Read a file and describe the contents of its columns.

    Args:
        given: fields of `csv` that the person knows. All others are recognized.

    Raises SourceError if the file is missing, empty, or not exactly readable in its format, or if the dialect of a CSV
    file cannot be recognized.
    """
    dialect, sentences = USUAL, list[str]()
    if reader is Reader.CSV:
        with refuse_unreadable(reader, path):
            dialect, sentences = recognize_dialect(path, given or {})
    source, unfit = open_every_column(reader, path, file, dialect)
    notation = Notation(dialect)
    source.stage(session)
    kinds = [*(kind.value for kind in ColumnType), _ROUNDED]
    try:
        # All queries below use the texts that were read once.
        relation = session.stage("read", _WHOLE, source.values, relation=source.relation)
        known = find_known(session, relation, list(source.columns), variables or {}, _names_place)
        if known.relation != relation:
            relation = session.stage("profiled", _WHOLE, relation=known.relation)
        if reader is Reader.CSV:
            notation = find_notation(session, source, relation, given or {})
        if notation.types:
            kinds_of = {name: notation.types.get(name, "") for name in source.columns}
            usual = describe_notation(notation.dialect)
            relation = session.stage("as usual", "cef/usual", relation=relation, columns=kinds_of, **usual)
        (records,) = session.row("warehouse/count", table=relation)
        if not records or source.records not in (None, records):
            raise SourceError([Finding(source.label, "contains no records" if not records else "cannot be read")])
        (empty,) = session.row("cef/empty_records", relation=relation, columns=list(source.columns))
        if empty:
            sentences.append(f"{path.name} has records without any value: {empty:,}. Each counts, so delete their rows")
        if path.suffix.lower() == ".xpt":
            sentences.append(f"{path.name} has {records:,} records, which it may not state itself: compare with SAS")
        columns, values = [], {"missing": list(MISSING)}
        examined = examine_columns(
            session, "cef/profile", values, relation=relation, columns=list(source.columns), types=kinds
        )
        for (name, column), facts in zip(source.columns.items(), examined, strict=True):
            rows, ends = [], ((), (), (), ())
            if facts["different"] <= MOST_CODES:
                rows = session.rows("cef/codes", relation=relation, name=name)
            if min(facts[kind] for kind in (_ROUNDED, ColumnType.INTEGER, ColumnType.DATE)) < facts["present"]:
                ends = session.row("cef/ends", {"most": _ENDS}, relation=relation, name=name)
            described = _describe_column(
                name, records, facts, [code for (code,) in rows], ends, is_text=name in notation.reasons
            )
            if column.type is ColumnType.DATE and described.type is not column.type and described.present:
                unfit[name] = "it has times of the day, or years before 1 or after 9999, which Stirred does not read"
                continue
            if column.rounded and described.type is ColumnType.DECIMAL:
                described = _as_floating(described)
            described = known.describe(described)
            columns.append(_as_written(described, notation) if name in notation.types else described)
        columns = [replace(column, has_total=_has_total(session, relation, column)) for column in columns]
        if reader is Reader.PARQUET:
            categories = read_categories(path)
            columns = [_add_categories(column, categories.get(column.name, ())) for column in columns]
        larger = _find_larger_places(session, relation, columns)
        household, differing = _find_households(session, relation, columns)
        repeated = known.select_of_units(name for name, households in differing.items() if not households)
        nearly = known.select_of_units(name for name, households in differing.items() if households)
        return Profile(
            columns,
            unfit,
            within=larger,
            nesting={
                column.name: _list_nested(session, relation, column.name, larger[column.name])
                for column in columns
                if column.name in larger and column.codes
            },
            household=household if repeated else (),
            repeated=repeated,
            nearly_repeated={name: differing[name] for name in nearly},
            persons=_find_repeated_persons(session, relation, household, columns)
            if repeated
            else _find_persons_of_waves(session, relation, columns),
            csv=notation.dialect.unusual,
            reasons=notation.reasons,
            sentences=sentences,
        )
    except WarehouseError:
        raise UnreadableError(source.label, source.kind) from None


def _describe_column(
    name: str,
    records: int,
    facts: Mapping[str, Any],
    codes: Sequence[str],
    ends: Sequence[Sequence[Mapping[str, Any]]],
    *,
    is_text: bool,
) -> ColumnProfile:
    present, missing = facts["present"], dict(facts["missing"] or {})
    lows, highs = ([_Number(Decimal(end["text"]), end["text"], end["rows"]) for end in side or ()] for side in ends[:2])
    others = {end["text"]: end["rows"] for end in ends[2] or ()}
    # Among many distinct numbers or dates, a few words can only mean that there is no value.
    if facts["different"] > MOST_CODES and len(others) < _ENDS and all(map(_NO_VALUE.fullmatch, others)):
        missing |= others if sum(others.values()) <= present / 2 else {}
    absent = sum(missing.values())
    fitting = [kind for kind in _NARROWEST_FIRST if facts[kind.value] == absent < present]
    rounded = not fitting and facts[_ROUNDED] == absent < present
    kind = ColumnType.DECIMAL if rounded else next(iter(fitting), ColumnType.STRING)
    numeric, frequent = kind in (ColumnType.INTEGER, ColumnType.DECIMAL), dict[str, int]()
    if is_text or kind is ColumnType.STRING or (numeric and facts["padded"]):
        kind, missing, numeric, rounded = ColumnType.STRING, {}, False, False
    if numeric and facts["different"] - len(missing) > FEW:
        usual_rows = present / facts["different"]
        missing |= {number.text: number.rows for number in _find_codes(lows, highs, usual_rows)}
        frequent = _find_frequent({end["text"]: end["rows"] for end in ends[3] or ()}, missing, usual_rows)
        above, below = ([each for each in side if each.text not in missing] for side in (highs, lows))
        frequent |= {number.text: number.rows for number in _find_set_apart(above, below[0].value, usual_rows)}
    lowest, highest = (
        next(number.value for number in side if number.text not in missing) if numeric else None
        for side in (lows, highs)
    )
    return ColumnProfile(
        name,
        kind,
        records,
        present,
        facts["different"],
        [code for code in codes if code not in missing],
        lowest,
        highest,
        (facts["shortest"], facts["longest"]) if present and not facts["not_digits"] else None,
        rounded,
        missing,
        {mark: facts[key] for key, mark in _MARKS.items() if facts[key]},
        facts["like_numbers"],
        facts["negative"] - sum(rows for code, rows in missing.items() if code[:1] == "-" and code[1:2].isdigit()),
        frequent=frequent,
    )


def _has_total(session: Session, relation: Fragment, column: ColumnProfile) -> bool:
    """Whether the greatest of many numbers is the sum of all others, as in a row of totals."""
    if not column.highest or column.different <= FEW:
        return False
    # Codes for no value are beyond the ends.
    low, high = float(column.lowest or 0), float(column.highest)
    (total,) = session.row("cef/sum_between", {"low": low, "high": high}, relation=relation, name=column.name)
    return math.isclose(total, 2 * high, rel_tol=1e-12)


def _as_written(column: ColumnProfile, notation: Notation) -> ColumnProfile:
    """The column with its codes as the file writes them."""
    kind = notation.types[column.name]
    missing = {notation.dialect.as_written(code, kind): rows for code, rows in column.missing.items()}
    frequent = {notation.dialect.as_written(code, kind): rows for code, rows in column.frequent.items()}
    codes = [notation.dialect.as_written(code, kind) for code in column.codes]
    return replace(column, codes=codes, missing=missing, frequent=frequent)


def _as_floating(column: ColumnProfile) -> ColumnProfile:
    """A column of floating-point numbers, which is read only if it is rounded. Its codes have a point."""
    missing, frequent = (
        {code if _POINT.search(code) else f"{code}.0": rows for code, rows in codes.items()}
        for codes in (column.missing, column.frequent)
    )
    return replace(column, rounded=True, missing=missing, frequent=frequent)


def _add_categories(column: ColumnProfile, categories: Collection[str]) -> ColumnProfile:
    """A column with few codes, and with the categories that no record has; text if one of these is no number."""
    codes = sorted({*column.codes, *categories}.difference(column.missing))
    if not categories or not column.codes or len(codes) > MOST_LABELED:
        return column
    whole = all(code.removeprefix("-").isdecimal() for code in codes)
    kind = ColumnType.STRING if column.type is ColumnType.INTEGER and not whole else column.type
    return replace(column, type=kind, codes=codes)


def _find_codes(lows: Sequence[_Number], highs: Sequence[_Number], usual_rows: float) -> list[_Number]:
    """Numbers at the ends of a range that seem to stand for no value.

    They are written like such codes. Below 0 they are few, and the only negative numbers. At either end, they lie
    farther from the other numbers than those from each other, or are far more frequent.
    """
    codes = [number for number in lows if number.value < 0]
    in_a_row = len(codes) > 3 and {-number.value for number in codes} == set(range(1, len(codes) + 1))
    likely = all(
        _BELOW.fullmatch(number.text) or (number.value > -10 and number.rows > 3 * usual_rows) for number in codes
    )
    if in_a_row or not likely or len(codes) > _MOST_CODES:
        codes = []
    left = [number for number in highs if number not in codes]
    lowest = next((number for number in lows if number not in codes), left[0])
    above = _find_codes_at_end(left, lowest, usual_rows)
    return codes + above + ([] if codes else _find_codes_at_end(lows, left[len(above)], usual_rows))


def _find_frequent(most: Mapping[str, int], missing: Collection[str], usual_rows: float) -> dict[str, int]:
    """The most frequent numbers that seem to be such codes among true numbers, by text. If one is below 0, the same
    number above 0 is less frequent."""
    return {
        text: rows
        for text, rows in most.items()
        if text not in missing and rows > 10 * max(usual_rows, 1)
        if (_BELOW.fullmatch(text) and text[1:] not in most) or (len(text) > 2 and _NINES.fullmatch(text))
    }


def _find_set_apart(highs: Sequence[_Number], lowest: Decimal, usual_rows: float) -> list[_Number]:
    """The greatest numbers if they are written like such codes, with a gap below them, and the gap is an eighth of the
    range of the other numbers, or each of them is more frequent."""
    size = next((place for place, number in enumerate(highs) if not _NINES.fullmatch(number.text)), len(highs))
    if not 0 < size < len(highs) or size > _MOST_CODES:
        return []
    codes, greatest = list(highs[:size]), highs[size].value
    gap = codes[-1].value - greatest
    is_far = 8 * gap >= greatest - lowest or all(number.rows > 3 * usual_rows for number in codes)
    return codes if gap > 1 and is_far else []


def _find_codes_at_end(side: Sequence[_Number], other: _Number, usual_rows: float) -> list[_Number]:
    """The first numbers of one side that are such codes; `other` is the last number of the other side."""
    for size in range(min(_MOST_CODES, len(side) - 1), 0, -1):
        codes, nearest = list(side[:size]), side[size].value
        if all(_FAR_NINES.fullmatch(number.text) for number in codes):
            rows, gap, digits = sum(number.rows for number in codes), abs(codes[-1].value - nearest), len(codes[0].text)
            is_far = gap >= max(abs(nearest - other.value), Decimal(1)) and (rows > 1 or digits > 3)
            is_frequent = digits > 2 and rows > 10 * max(usual_rows, 1)
            if is_far or (size == 1 and is_frequent and _NINES.fullmatch(codes[0].text)):
                return codes
    return []


def _find_households(
    session: Session, relation: Fragment, columns: Sequence[ColumnProfile]
) -> tuple[Sequence[str], Mapping[str, int]]:
    """The columns that identify a household of several rows, and the columns that its rows repeat, or nearly repeat,
    with the number of households within which they differ; empty if there are none.

    A key of households is recognized by its name, or because the rows with the same key are numbered from 1. The year
    or sample, if there are several, is part of it.
    """
    names = [column.name for column in columns]
    number = next((column.name for column in columns if column.lowest == 1 and 1 < column.different <= MOST_CODES), "")
    samples = [column.name for column in columns if column.different > 1 and _SAMPLE.search(column.name)]
    keys = [
        column.name
        for column in columns
        if column.present == column.records > column.different >= column.records / MOST_CODES
        and column.different > 1
        and column.name not in (number, *samples)
        and column.type in (ColumnType.INTEGER, ColumnType.STRING)
    ]
    for key in sorted(keys, key=lambda name: not names_household(name))[:_MOST_KEYS]:
        household = [*samples, key]
        others = [name for name in names if name not in household]
        households, several, numbered, *differing = session.row(
            "cef/households", relation=relation, key=household, columns=others, number=number
        )
        within = dict(zip(others, differing, strict=True))
        repeated = [name for name, households in within.items() if not households]
        varied = {column.name for column in columns if column.different > 1}
        if (
            households < columns[0].records
            and (numbered or names_household(key))
            and varied.intersection(repeated)
            and varied.difference(repeated, household, [number])
        ):
            return household, {name: differ for name, differ in within.items() if _FEW_OF * differ <= several}
    return (), {}


def _find_persons_of_waves(session: Session, relation: Fragment, columns: Sequence[ColumnProfile]) -> Sequence[str]:
    """The column that seems to identify a person with a row for each time: together with a wave, it identifies a row,
    and all rows of each of its values have the same value of another column, such as the sex."""
    varied = [column for column in columns if column.different > 1]
    waves = [column.name for column in varied if any(map(_WAVE.fullmatch, split_words(column.name)))]
    keys = [
        column
        for column in varied
        if column.type in (ColumnType.INTEGER, ColumnType.STRING)
        and column.present == column.records >= 1.5 * column.different
        and column.different >= column.records / MOST_CODES
        and column.name not in waves
    ]
    for key in sorted(keys, key=lambda column: -column.different)[: _MOST_KEYS if waves else 0]:
        others = [column.name for column in varied if column is not key and column.name not in waves]
        _, _, _, *differing = session.row(
            "cef/households", relation=relation, key=[key.name], columns=others, number=""
        )
        in_waves = ({"relation": relation, "key": [key.name, wave], "columns": [], "number": ""} for wave in waves)
        if 0 in differing and any(session.row("cef/households", **names)[0] == key.records for names in in_waves):
            return [key.name]
    return []


def _find_repeated_persons(
    session: Session, relation: Fragment, household: Sequence[str], columns: Sequence[ColumnProfile]
) -> Sequence[str]:
    named = [column.name for column in columns if tells_persons_apart(column.name) and column.name not in household]
    groups = {name: {"relation": relation, "key": [*household, name], "columns": [], "number": ""} for name in named}
    return [name for name, names in groups.items() if session.row("cef/households", **names)[1]]


def _list_nested(session: Session, relation: Fragment, inner: str, outer: str) -> dict[str, list[str]]:
    nested: dict[str, list[str]] = {}
    for place, code in session.rows(_NESTED, relation=relation, inner=inner, outer=outer):
        nested.setdefault(place, []).append(code)
    return nested


def _find_larger_places(session: Session, relation: Fragment, columns: Iterable[ColumnProfile]) -> dict[str, str]:
    places = {column.name: column for column in columns if column.is_place and column.present == column.records}
    by_size = sorted(places, key=lambda name: places[name].different)
    pairs = [
        (inner, outer)
        for outer, inner in combinations(by_size, 2)
        if places[inner].different > places[outer].different > 1 and not places[inner].identifies
    ]
    if not pairs:
        return {}
    found = zip(pairs, session.row("cef/pairs", relation=relation, pairs=pairs), strict=True)
    # The last one found is the smallest.
    return {inner: outer for (inner, outer), different in found if different == places[inner].different}
