"""Recognizes how a CSV file writes numbers and dates, from the forms of all values of its columns.

An ambiguous file is refused, with the option that settles it. `recognition` finds the other properties of a file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assets.cef.readers import Source
from assets.cef.validation import Finding, SourceError
from assets.release.columns import IDENTIFIERS, ColumnType
from assets.release.dialect import ISO, USUAL, Dialect
from resources.statements import SQL, Fragment, quote_literal, render
from resources.warehouse import Session

_DAY = "(?:1[3-9]|2[0-9]|3[01])"
_SPACES = "\u0020\u00a0\u2009\u202f"

_NUMBER = rf"-?[0-9][0-9.,'’{_SPACES}]*"
_OTHER_DIGITS = r"[^\P{Nd}0-9]+"
_SIGN = r"(?:%|‰|\p{Sc}|EUR|USD|GBP|CHF)"

_FORMS = {
    "missing": r"(?i)NA|N/A|#N/A|#DIV/0!|NaN|null|none|\.|-+|\?",
    "words": r"\P{Nd}+|#DIV/0!",
    "whole": "-?[0-9]+",
    **{name: f"-?[0-9]*{mark}[0-9]+" for name, mark in (("comma", ","), ("point", r"\."))},
    # 1,234 is a decimal or one thousand.
    **{f"{name}_open": f"-?[1-9][0-9]{{0,2}}{mark}[0-9]{{3}}" for name, mark in (("comma", ","), ("point", r"\."))},
    "thousands": rf"-?[0-9]{{1,3}}(?:[.,'’{_SPACES}][0-9]{{3}})+(?:[.,][0-9]+)?",
    # No decimal is written like 1,234,567 or 1,234.5.
    **{
        f"{name}_thousands": rf"-?[0-9]{{1,3}}(?:(?:{mark}[0-9]{{3}}){{2,}}|(?:{mark}[0-9]{{3}})+{other}[0-9]+)"
        for name, mark, other in (("comma", ",", r"\."), ("point", r"\.", ","))
    },
    "spaced": rf"-?[0-9]{{1,3}}(?:['’{_SPACES}][0-9]{{3}})+(?:[.,][0-9]+)?",
    "minus": rf"[+−–‒]{_NUMBER}|\({_NUMBER}\)|{_NUMBER}-",
    "open": rf"{_NUMBER}[{_SPACES}]?\+|[<>≤≥]=?[{_SPACES}]?{_NUMBER}|{_NUMBER} (?i:(?:and|or) (?:more|over|older))",
    "script": rf"[-−]?{_OTHER_DIGITS}(?:[.,٫]{_OTHER_DIGITS})?",
    "signed": rf"-?{_SIGN}[{_SPACES}]?{_NUMBER}|{_NUMBER}{_SIGN}",
    "iso": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "undivided": "[0-9]{8}",
    **{
        name: pattern.replace("_", r"\." if mark == "." else mark)
        for mark in "./-"
        for name, pattern in (
            (f"year_last{mark}", "[0-9]{1,2}_[0-9]{1,2}_[0-9]{4}"),
            (f"day_first{mark}", f"{_DAY}_[0-9]{{1,2}}_[0-9]{{4}}"),
            (f"month_first{mark}", f"[0-9]{{1,2}}_{_DAY}_[0-9]{{4}}"),
            (f"year_first{mark}", "[0-9]{4}_[0-9]{1,2}_[0-9]{1,2}"),
        )
        if name != "year_first-"
    },
    "short_year": r"[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2}",
    "month_name": r"(?:[0-9]{1,2}[. /-]*)?\pL{3,}\.?[ /-]*(?:[0-9]{1,2},? )?(?:[0-9]{2}|[0-9]{4})",
    "time": r"[0-9./-]{8,10}[ T][0-9]{1,2}:[0-9]{2}.*",
}

_UNLISTED = SQL(
    "cef/unlisted", "SELECT {{ name | id }} FROM ({{ relation }}) WHERE NOT list_contains($codes, {{ name | id }})"
)

_AT_A_TIME = 50
"""The most columns that one statement examines."""

_DATED = ("iso", "year_", "short_year", "month_name", "time")
"""Dates, by the beginnings of their forms; each has one."""


@dataclass(frozen=True)
class Notation:
    """How a file writes numbers and dates.

    Attributes:
        types: the columns whose values are decimals with the file's mark, or dates in its form, if these are not the
            usual ones.
        reasons: why the values of a column are neither numbers nor dates, although they look like them.
    """

    dialect: Dialect
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)


def find_notation(session: Session, source: Source, relation: Fragment, given: Mapping[str, str]) -> Notation:
    """How a file writes numbers and dates.

    Args:
        relation: the texts of all its columns, in a temporary table.
        given: fields of the dialect that the person knows.

    Raises SourceError if the values can be read in two ways, with the option that settles it.
    """
    # Most columns have whole numbers, or words without digits, and no other form.
    likely = _count_forms(session, relation, {}, list(source.columns), ["whole", "words"])
    chosen = [name for name, forms in likely.items() if forms["present"] > forms["whole"] + forms["words"]]
    columns = _count_forms(session, relation, {}, chosen, list(_FORMS)) if chosen else {}
    decimal = _find_decimal(source, columns, given.get("decimal"))
    dates = given.get("dates") or _find_dates(source, columns)
    dialect = (source.dialect or USUAL).model_copy(update={"decimal": decimal, "dates": dates})
    types = {name: ColumnType.DECIMAL for name, forms in columns.items() if decimal == "," and _wholly(forms, "comma")}
    form = _name_form(dates)
    types |= {name: ColumnType.DATE for name, forms in columns.items() if form and _wholly(forms, form)}
    reasons = {
        name: reason
        for name, forms in columns.items()
        if name not in types and (reason := _explain(forms, decimal, dates))
    }
    return Notation(dialect, types, reasons)


_OF_FIXED_COLUMNS = {
    "point": "a decimal point, as in 5.0: write whole numbers",
    "comma": "commas: write whole numbers, without marks between thousands",
    "open": "the mark of a bound, as in 100+ or <5: write the number alone",
    "missing": "a word such as NA, in place of a number",
}
"""The errors in numbers of a census, whose columns are not declared."""


def explain_ill_typed(session: Session, source: Source, name: str, ill_typed: int) -> dict[str, int]:
    """Why `ill_typed` values of a column of a CSV file are not of its type, as rules with their numbers of rows; empty
    if the reason is unknown."""
    dialect, column = source.dialect, source.columns[name]
    kind = column.type
    if dialect is None or not ill_typed or kind in (ColumnType.STRING, ColumnType.BOOLEAN):
        return {}
    of_numbers = {
        "signed": "a sign of percent or of a currency, which is left out",
        "spaced": "spaces or apostrophes between thousands, which are written without",
        "minus": "a sign such as +5, (5) or 5-, which is written as 5 and -5",
        "open": "the mark of a bound, as in 100000+ or <5, which is left out: declare top_coded or bottom_coded",
        "script": "the digits of another script, which are written as 0 to 9",
        "comma_thousands": "marks between thousands, which are written without",
    }
    order = "written in another order, which `csv: {dates: …}` declares as in DD.MM.YYYY"
    words = {
        ColumnType.INTEGER: of_numbers
        | {
            "point": "a decimal point, as in 5.0, for which the type is decimal",
            "comma": "commas: thousands are written without; for decimals, the type is decimal",
        },
        ColumnType.DECIMAL: of_numbers
        | {
            # If commas are declared, the relation has them exchanged with points.
            "comma": "decimal commas, which `csv: {decimal: ','}` declares"
            if dialect.decimal == "."
            else "decimal points, although `csv: {decimal: ','}` declares commas"
        },
        ColumnType.DATE: {name: order for name in _FORMS if name.startswith("year_")}
        | {
            "short_year": "years of two digits, which do not tell the century",
            "undivided": "no marks between year, month and day: write them, or declare type integer with bands",
            "time": "times of the day, which are left out",
        },
    }[kind]
    if column.role not in IDENTIFIERS:
        words |= {"missing": "a word such as NA, which `null` lists if it stands for no value"}
    codes = [dialect.as_usual(code, kind) for listed in column.written.values() for code in listed]
    left = Fragment(f"({render(_UNLISTED, {'name': name, 'relation': source.relation})})")
    forms = _count_forms(session, left, {**source.values, "codes": codes}, [name], list(_FORMS))[name]
    for form, mark, declared in (
        ("point", ".", "the type is decimal"),
        ("comma", ",", "`csv: {decimal: ','}` declares them"),
    ):
        # A thousand read as 1.234 would be published as a thousandth of it.
        if form in words and dialect.decimal == "." and forms[form] == forms[f"{form}_open"]:
            words[form] = f"{form}s, as in 1{mark}234: thousands are written without; for decimals, {declared}"
    if source.fixed:
        words |= {form: rule for form, rule in _OF_FIXED_COLUMNS.items() if form in words}
    found: dict[str, int] = {}
    for form in words:
        if form != _name_form(dialect.dates) and (rows := min(forms[form], ill_typed - sum(found.values()))):
            found[f"not of type {kind.value}: {words[form]}"] = rows
    # In the relation, all other dates that are written as declared are ISO 8601.
    if kind is ColumnType.DATE and (
        rows := min(forms.get(_name_form(dialect.dates), 0), ill_typed - sum(found.values()))
    ):
        rule = (
            f"not of type date: no days of the calendar as {dialect.dates}, the order that `csv: {{dates: …}}` declares"
        )
        found[rule] = rows
    return found


def _count_forms(
    session: Session, relation: Fragment, values: Mapping[str, Any], columns: Sequence[str], forms: Sequence[str]
) -> dict[str, Mapping[str, int]]:
    """By column, the number of its values, `present`, and of those in each form."""
    patterns = {form: quote_literal(_FORMS[form]) for form in forms}
    counts = examine_columns(session, "cef/notation", values, relation=relation, columns=columns, forms=patterns)
    return dict(zip(columns, counts, strict=True))


def examine_columns(
    session: Session, statement: str, values: Mapping[str, Any], *, columns: Sequence[str], **names: Any
) -> Iterator[Any]:
    """The results of a statement for each column. It examines some columns at a time, because DuckDB refuses a
    statement that nests a thousand queries."""
    for start in range(0, len(columns), _AT_A_TIME):
        yield from session.row(statement, values, columns=columns[start : start + _AT_A_TIME], **names)


def _count_values(forms: Mapping[str, int]) -> int:
    """The number of values without codes for no value. Words are such codes if they are at most half of all values."""
    return forms["present"] - forms["words" if 2 * forms["words"] <= forms["present"] else "missing"]


def _wholly(forms: Mapping[str, int], form: str) -> bool:
    """Whether all values are in a form, except codes for no value, and whole numbers among decimals."""
    whole = forms["whole"] if form in ("comma", "point") else 0
    return 0 < forms[form] == _count_values(forms) - whole


def _find_decimal(source: Source, columns: Mapping[str, Mapping[str, int]], given: str | None) -> str:
    commas, points = ([name for name, forms in columns.items() if _wholly(forms, form)] for form in ("comma", "point"))
    sure_commas = [name for name in commas if columns[name]["comma"] > columns[name]["comma_open"]]
    sure_points = [name for name in points if columns[name]["point"] > columns[name]["point_open"]]
    # Where one column has 1,234,567, another one's 1,234 is no decimal.
    grouped = {
        mark: next((name for name, forms in columns.items() if _groups_thousands(forms, form)), "")
        for mark, form in ((",", "comma"), (".", "point"))
    }
    of_marks = {",": ("commas", commas, sure_commas, "."), ".": ("points", points, sure_points, ",")}
    if given is not None:
        words, marked, sure, other = of_marks[given]
        if grouped[given] and marked and not sure:
            rule = (
                f"it has {words} between thousands, as in 1{given}234{given}567, so that they are no decimal marks in "
            )
            rule += f"column {marked[0]}; give --csv decimal={other}"
            raise SourceError([Finding(source.label, rule, grouped[given])])
        return given
    separator = (source.dialect or USUAL).separator
    quoted = separator == ","
    if sure_points and (quoted or not sure_commas):
        return "."
    if sure_commas and not sure_points and not quoted:
        return ","
    if sure_commas and sure_points:
        rule = f"it has decimal commas, and column {sure_points[0]} has decimal points"
        raise _ask(source, sure_commas[0], rule, "decimal", [",", "."])
    for mark, (words, marked, _, other) in of_marks.items():
        if marked and not grouped[mark] and (mark == "," or separator == ";"):
            rule = f"its {words} may be decimal marks (--csv decimal={mark}), or mark thousands or parts of a code "
            raise SourceError([Finding(source.label, f"{rule}(--csv decimal={other}). Say which", marked[0])])
    return "," if grouped["."] and separator == ";" else "."


def _groups_thousands(forms: Mapping[str, int], form: str) -> bool:
    """Whether all values are numbers, some with this mark between thousands, and none with it as a decimal mark."""
    numbers = forms["whole"] + forms[f"{form}_open"] + forms[f"{form}_thousands"]
    return forms[f"{form}_thousands"] > 0 and numbers == _count_values(forms)


def _ask(source: Source, column: str, rule: str, option: str, values: Iterable[str]) -> SourceError:
    options = " or ".join(f"--csv {option}={value}" for value in values)
    return SourceError([Finding(source.label, f"{rule}. Say which with {options}", column)])


def _find_dates(source: Source, columns: Mapping[str, Mapping[str, int]]) -> str:
    found = dict(_list_dates(columns))
    if not found or any(_wholly(forms, "iso") for forms in columns.values()):
        return ISO
    column, possible = next(iter(found.items()))
    if len(possible) > 1:
        rule = "the day or the month may come first in its dates, as no number is above 12"
        raise _ask(source, column, rule, "dates", possible)
    for other, differently in found.items():
        if differently != possible:
            rule = f"its dates have another form than the dates of column {other}"
            raise _ask(source, column, rule, "dates", [*possible, *differently])
    return possible[0]


def _list_dates(columns: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, list[str]]]:
    """The columns of dates in another form than ISO 8601, and the forms that they can have."""
    for mark in "./-":
        dated = {name: forms for name, forms in columns.items() if _wholly(forms, f"year_last{mark}")}
        days = sum(forms[f"day_first{mark}"] for forms in dated.values())
        months = sum(forms[f"month_first{mark}"] for forms in dated.values())
        for name in dated:
            # In dates with points, the day always comes first.
            possible = [f"DD{mark}MM{mark}YYYY"] * (not months)
            possible += [f"MM{mark}DD{mark}YYYY"] * (not days and (mark != "." or months > 0))
            if possible:
                yield name, possible
        for name, counts in columns.items():
            if f"year_first{mark}" in _FORMS and _wholly(counts, f"year_first{mark}"):
                yield name, [f"YYYY{mark}MM{mark}DD"]


def _name_form(dates: str) -> str:
    """The form of dates; empty for ISO 8601."""
    mark = dates.strip("DMY")[0]
    return "" if dates == ISO else f"year_first{mark}" if dates.startswith("Y") else f"year_last{mark}"


def _explain(forms: Mapping[str, int], decimal: str, dates: str) -> str:
    """Why the values of a column are neither decimals nor dates, although they look like them; empty if they do not."""
    present, other = _count_values(forms), {".": "comma", ",": "point"}[decimal]
    if not present or _wholly(forms, "comma" if decimal == "," else "point"):
        return ""
    decimals = forms["comma"] + forms["point"]
    numbers = forms["whole"] + decimals + forms["thousands"] - forms["comma_open"] - forms["point_open"]
    if forms["thousands"] and numbers == present:
        marks = "spaces or apostrophes" if forms["spaced"] else "points or commas"
        return f"some numbers may have {marks} between thousands; write them without"
    if forms["signed"] and numbers + forms["signed"] == present:
        return "its numbers have a sign of percent or of a currency; write them without"
    if 0 < forms["minus"] < present == numbers + forms["minus"]:
        return "some of its numbers have a sign such as +5, (5) or 5-; write 5 and -5"
    if 0 < forms["open"] < present == numbers + forms["open"]:
        return (
            "some of its numbers have the mark of a bound, as in 100000+ or <5; write the number alone, and declare "
            "the column top_coded or bottom_coded"
        )
    if forms["script"] and numbers + forms["script"] == present:
        return "its numbers have the digits of another script; write them with 0 to 9"
    if forms["comma"] and forms["point"] and forms["whole"] + decimals == present:
        return "it has decimal commas in some rows and decimal points in others"
    if _wholly(forms, other):
        return f"it has decimal {other}s, and csv declares decimal {decimal}"
    dated = {form: rows for form, rows in forms.items() if rows and form.startswith(_DATED)}
    if len(dated) > 1 and sum(dated.values()) == present:
        return "it has dates in more than one form; write them in one"
    if any(
        _wholly(forms, f"year_last{mark}") and forms[f"day_first{mark}"] * forms[f"month_first{mark}"] for mark in "./-"
    ):
        return "some of its dates have the day first and others the month; write them in one form"
    reasons = {
        "short_year": "its years have two digits, which do not tell the century; write them with four",
        "month_name": "it has dates with the names of months; write them with numbers",
        "time": "its dates have times of the day; leave these out",
        **({} if dates == ISO else {"iso": f"it has dates as in ISO 8601, and csv declares dates {dates}"}),
        **{f"year_last{mark}": f"it has dates in another form than csv declares, which is {dates}" for mark in "./-"},
        **{f"year_first{mark}": f"it has dates in another form than csv declares, which is {dates}" for mark in "./"},
    }
    return next((reason for form, reason in reasons.items() if _wholly(forms, form)), "")
