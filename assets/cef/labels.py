"""What codebooks and statistical packages say about columns, applied to a profile: labels, and codes for no value.

`extracts` and `statistical` read it from their files. `profile` describes what a file contains.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from assets.cef.extracts import Variable
from assets.cef.readers import Source
from resources.statements import SQL, Fragment, quote_literal, render
from resources.warehouse import Session

MOST_LABELED = 1000
"""The most different codes of a column that are compared with their labels."""

_DIFFERENT = SQL(
    "cef/different_codes",
    "SELECT DISTINCT {{ name | id }} FROM ({{ relation }}) WHERE {{ name | id }} IS NOT NULL LIMIT $most",
)


def hide_missing(
    session: Session, source: Source, variables: Mapping[str, Variable]
) -> tuple[Source, dict[str, dict[str, int]]]:
    """The source without the codes that stand for no value, and these codes with their rows, by column.

    Where every code has a label, all of them are categories. Numbers are not filled up with zeros.
    """
    missing: dict[str, dict[str, int]] = {}
    filled_up = []
    for name in source.columns:
        variable = variables.get(name, Variable())
        bound: dict[str, Any] = {**source.values, "most": MOST_LABELED}
        if variable.codes:
            codes = session.rows(_DIFFERENT, {**bound, "most": MOST_LABELED + 1}, relation=source.relation, name=name)
            if len(codes) <= MOST_LABELED and label_codes(variable, (code for (code,) in codes)):
                continue
        if variable.filled_up:
            filled_up.append(name)
        ranges = [pair for pair in variable.missing if _find_number(pair[0]) is not None]
        for number, pair in enumerate(ranges):
            bound |= dict(zip((f"low_{number}", f"high_{number}"), map(_find_number, pair), strict=True))
        bound["texts"] = [low for low, _ in variable.missing]
        found = session.rows("cef/missing_codes", bound, relation=source.relation, name=name, ranges=len(ranges))
        if found:
            missing[name] = dict(found)
    listed = {
        name: Fragment(f"[{', '.join(quote_literal(code).text for code in codes)}]") for name, codes in missing.items()
    }
    names = {"relation": source.relation, "columns": list(source.columns), "missing": listed, "filled_up": filled_up}
    return replace(source, relation=Fragment(render("cef/without_missing", names))), missing


def label_codes(variable: Variable, codes: Iterable[str]) -> dict[str, str]:
    """The label of each code of a column; none if one of them has no label, or most labels are the numbers themselves.

    A codebook and its data file can write a number differently: `01` and `1`.
    """
    by_number = {_find_number(code): label for code, label in variable.codes.items()}
    labels = {}
    for code in codes:
        number = _find_number(code)
        label = variable.codes.get(code) or (by_number.get(number) if number is not None else None)
        if not label:
            return {}
        labels[code] = label
    numbers = sum(_find_number(label) == _find_number(code) is not None for code, label in labels.items())
    return labels if 2 * numbers < len(labels) else {}


def _find_number(code: str) -> float | None:
    try:
        return float(code)
    except ValueError:
        return None
