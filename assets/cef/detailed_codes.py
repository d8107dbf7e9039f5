"""The detailed race and ethnicity codes of a person, and the person's sex, as in the person records of SafeTab.

This module defines the columns, and the rule that the eight race codes of a record satisfy together. They are an option
of the census layout (`census`), and columns of SafeTab's own files (`detailed_files`). Which codes there are and what
they mean is said by the lists of a release, never here.
"""

from itertools import pairwise
from typing import Any

from assets.release.columns import Column
from assets.release.dataset import Rule

NO_CODE = "Null"
"""The text in place of a race code, in the file and in the CEF: it is a value, and not a missing one."""

RACE_CODES = tuple(f"QRACE{place}" for place in range(1, 9))


def _column(title: str, description: str, **domain: Any) -> Column:
    return Column.model_validate({"type": "string", "title": title, "description": description, **domain})


def _race_code(place: int) -> Column:
    ending = f"; {NO_CODE} if the person has fewer" if place > 1 else ""
    pattern = f"[1-9][0-9]{{3}}|{NO_CODE}" if place > 1 else "[1-9][0-9]{3}"
    return _column(
        f"detailed race code {place}", f"Detailed race code number {place} of the person{ending}.", pattern=pattern
    )


SEX = {"QSEX": _column("sex", "Sex.", values={"1": "Male", "2": "Female"})}

DETAILED_CODES = {name: _race_code(place) for place, name in enumerate(RACE_CODES, 1)} | {
    "QSPAN": _column(
        "detailed Hispanic origin code",
        "Detailed Hispanic origin code; 9950 is not Hispanic in the lists of 2020.",
        pattern="[0-9]{4}",
    )
}
"""The columns of the detailed codes, in the order of SafeTab's files."""


def race_code_rules(table: str, prefix: str = "", needs: str | None = None) -> dict[str, Rule]:
    """The rule that no race code follows one that is Null, one for each column that can violate it.

    The statement that counts violations includes `cef/race_codes_after_null.sql`.

    Args:
        prefix: what the names of the rules begin with.
        needs: a column that only datasets with these codes have.
    """
    return {
        f"{prefix}race_code_{place}": Rule(table, name, f"a code although {before} is {NO_CODE}", needs=needs)
        for place, (before, name) in enumerate(pairwise(RACE_CODES[1:]), 3)
    }
