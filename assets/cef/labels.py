"""The descriptions of a profile's columns by codebooks and statistical packages: labels, and codes for no value.

`extracts` and `statistical` read them from their files. `profile` describes the content of a file.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assets.cef.extracts import Field, Variable
from assets.release.columns import means_no_value
from resources.statements import SQL, Fragment, quote_literal, render
from resources.warehouse import Session

if TYPE_CHECKING:
    from assets.cef.profile import ColumnProfile

MOST_LABELED = 1000
"""The most distinct codes of a column that are compared with their labels."""

_LETTER = re.compile(r"\.[A-Za-z_]")
"""A special missing value."""

_DIGIT = re.compile(r"\d")

_OCCURRING = SQL(
    "cef/occurring_codes",
    "SELECT DISTINCT {{ name | id }} FROM {{ relation }} WHERE list_contains($codes, {{ name | id }}) ORDER BY 1",
)
_DIFFERENT = SQL(
    "cef/different_codes",
    "SELECT DISTINCT {{ name | id }} FROM {{ relation }} WHERE {{ name | id }} IS NOT NULL LIMIT $most",
)


@dataclass(frozen=True)
class Known:
    """The known facts about the columns of a source.

    Attributes:
        relation: the source with NULL for known codes for no value, and with numbers without padding zeros.
        missing: these codes, with their rows, by column.
        labeled: by column whose codes all have labels, its codes; all are categories, even those for no value.
        named: by other column, its codes whose labels have no number and do not mean that there is no value.
    """

    relation: Fragment
    variables: Mapping[str, Variable]
    missing: Mapping[str, Mapping[str, int]]
    labeled: Mapping[str, Sequence[str]]
    named: Mapping[str, Sequence[str]]

    def describe(self, column: "ColumnProfile") -> "ColumnProfile":
        """The profile of a column of the relation, with the known facts about it."""
        variable = self.variables.get(column.name)
        if variable is None:
            return column
        missing = dict(column.missing)
        if column.name in self.labeled:
            codes = self.labeled[column.name]
            labels = label_codes(variable, codes)
            declared = {code: label for code, label in labels.items() if _is_missing(variable, code)}
            return replace(column, title=variable.label, codes=codes, missing={}, labels=labels, reasons=declared)
        if isinstance(variable, Field) and variable.filled_up:
            missing = {code and code.zfill(variable.width): rows for code, rows in missing.items()}
        missing |= self.missing.get(column.name, {})
        reasons = {code: label for code in missing if (label := _find_label(variable, code))}
        named = {code: _find_label(variable, code) for code in self.named.get(column.name, ()) if code not in missing}
        return replace(column, title=variable.label, missing=missing, reasons=reasons, named=named)

    def select_of_units(self, names: Iterable[str]) -> list[str]:
        """The named columns without those that describe persons, even if all persons of a unit have the same value."""
        return [name for name in names if self.variables.get(name, Variable()).of_units is not False]


def find_known(
    session: Session,
    relation: Fragment,
    columns: Sequence[str],
    variables: Mapping[str, Variable],
    names_code: Callable[[str], bool],
) -> Known:
    """The known facts about the columns of a table of texts, which is read several times.

    Args:
        names_code: whether a column has codes instead of numbers by its name.
    """
    missing: dict[str, dict[str, int]] = {}
    labeled, named, filled_up = dict[str, list[str]](), dict[str, list[str]](), []
    if not variables:
        return Known(relation, {}, {}, {}, {})
    for name in columns:
        variable = variables.get(name, Variable())
        bound: dict[str, Any] = {"most": MOST_LABELED + 1}
        if variable.codes:
            codes = sorted(code for (code,) in session.rows(_DIFFERENT, bound, relation=relation, name=name))
            if len(codes) <= MOST_LABELED and label_codes(variable, codes):
                labeled[name] = codes
                continue
        if variable.filled_up and not names_code(name):
            filled_up.append(name)
        words = [code for code, label in variable.codes.items() if _find_number(code) and not _DIGIT.search(label)]
        if words and (found := session.rows(_OCCURRING, {"codes": words}, relation=relation, name=name)):
            named[name] = [code for (code,) in found]
        by_label = [(code, code) for code, label in variable.codes.items() if means_no_value(label)]
        declared = [*variable.missing, *by_label]
        ranges = [pair for pair in declared if _find_number(pair[0]) is not None]
        for number, pair in enumerate(ranges):
            bound |= dict(zip((f"low_{number}", f"high_{number}"), map(_find_number, pair), strict=True))
        bound["texts"] = [low for low, _ in declared]
        if found := session.rows("cef/missing_codes", bound, relation=relation, name=name, ranges=len(ranges)):
            missing[name] = dict(found)
    listed = {
        name: Fragment(f"[{', '.join(quote_literal(code).text for code in codes)}]") for name, codes in missing.items()
    }
    names = {"relation": relation, "columns": columns, "missing": listed, "filled_up": filled_up}
    return Known(Fragment(render("cef/without_missing", names)), variables, missing, labeled, named)


def label_codes(variable: Variable, codes: Iterable[str]) -> dict[str, str]:
    """The label of each code of a column; none if one of them has no label, or most labels are the numbers themselves.

    A codebook and its data file can write a number differently: `01` and `1`.
    """
    labels = {code: _find_label(variable, code) for code in codes}
    numbers = sum(_find_number(label) == _find_number(code) is not None for code, label in labels.items())
    return labels if all(labels.values()) and 2 * numbers < len(labels) else {}


def _find_label(variable: Variable, code: str) -> str:
    number = _find_number(code)
    same = (label for other, label in variable.codes.items() if number is not None and _find_number(other) == number)
    return variable.codes.get(code) or next(same, "")


def _is_missing(variable: Variable, code: str) -> bool:
    number = _find_number(code)
    return bool(_LETTER.fullmatch(code)) or any(
        code == low or (number is not None and (_find_number(low) or 0) <= number <= (_find_number(high) or 0))
        for low, high in variable.missing
    )


def _find_number(code: str) -> float | None:
    try:
        return float(code)
    except ValueError:
        return None
