"""What the columns of a source file contain, from which a first declaration of it can be proposed.

A profile is as confidential as the file. Whoever writes a declaration from it decides what of it a reader may know.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.cef.findings import Finding, SourceError
from assets.cef.readers import open_every_column, unreadable
from assets.release.columns import ColumnType
from assets.release.dataset import Reader
from resources.warehouse import Session, WarehouseError

MOST_CODES = 40

_NARROWEST_FIRST = (ColumnType.BOOLEAN, ColumnType.DATE, ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.STRING)


@dataclass(frozen=True)
class ColumnProfile:
    """What a column contains.

    Attributes:
        type: the narrowest type that all its values have; text if a leading zero or more would be lost otherwise.
        codes: the different values as texts, in order; empty if there are more than `MOST_CODES`.
        lowest: the least value, if the type is integer.
        highest: the greatest value, if the type is integer.
        digits: the number of digits of every value, if all have only digits and as many of them; otherwise 0.
    """

    name: str
    type: ColumnType
    records: int
    present: int
    different: int
    codes: Sequence[str]
    lowest: int | None
    highest: int | None
    digits: int

    @property
    def identifies(self) -> bool:
        """Whether every record has a value, and no other record has it."""
        return self.different == self.present == self.records


@dataclass(frozen=True)
class Profile:
    """What a file contains.

    Attributes:
        columns: the columns that can be read exactly, in the order of the file.
        unfit: the others, each with what it is stored as.
    """

    columns: Sequence[ColumnProfile]
    unfit: Mapping[str, str]


def profile(session: Session, reader: Reader, path: Path) -> Profile:
    """Read a file, and say what its columns contain.

    Raises:
        SourceError: if the file is missing, empty, or not exactly readable in its format.
    """
    source, unfit = open_every_column(reader, path)
    named: dict[str, Any] = {"relation": source.relation, "columns": list(source.columns)}
    try:
        records, *found = session.row("cef/profile", source.values, types=[each.value for each in ColumnType], **named)
        if not records or source.records not in (None, records):
            raise SourceError([Finding(source.label, "contains no records" if not records else "cannot be read")])
        columns = []
        for name, facts in zip(source.columns, found, strict=True):
            listed = []
            if facts["different"] <= MOST_CODES:
                listed = session.rows("cef/codes", source.values, relation=source.relation, name=name)
            columns.append(_column(name, records, facts, [code for (code,) in listed]))
    except WarehouseError:
        raise SourceError([unreadable(source.label, source.kind)]) from None
    return Profile(columns, unfit)


def _column(name: str, records: int, facts: Mapping[str, Any], codes: Sequence[str]) -> ColumnProfile:
    kind = next(each for each in _NARROWEST_FIRST if facts[each.value] == 0 or each is ColumnType.STRING)
    if not facts["present"] or (kind in (ColumnType.INTEGER, ColumnType.DECIMAL) and facts["padded"]):
        kind = ColumnType.STRING
    whole = kind is ColumnType.INTEGER
    uniform = facts["present"] and not facts["not_digits"] and facts["shortest"] == facts["longest"]
    return ColumnProfile(
        name,
        kind,
        records,
        facts["present"],
        facts["different"],
        codes,
        facts["lowest"] if whole else None,
        facts["highest"] if whole else None,
        facts["longest"] if uniform else 0,
    )
