"""What the columns of a source file contain, from which a first declaration of it can be proposed.

A profile is as confidential as the file. The author of a declaration decides what readers may know of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assets.cef.extracts import Variable
from assets.cef.labels import hide_missing
from assets.cef.readers import DescribedFile, UnreadableError, open_every_column
from assets.cef.validation import Finding, SourceError
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
        unfit: how all other columns are stored.
        fields: further fields of the table's declaration, by name.
        variables: what a codebook, or the file of a statistical package, says about columns.
        missing: by column, the codes that stand for no value there, with their rows. Columns are without them.
    """

    columns: Sequence[ColumnProfile]
    unfit: Mapping[str, str]
    fields: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    missing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def profile(
    session: Session,
    reader: Reader,
    path: Path,
    described: DescribedFile | None = None,
    variables: Mapping[str, Variable] | None = None,
) -> Profile:
    """Read a file, and describe what its columns contain.

    Raises SourceError if the file is missing, empty, or not exactly readable in its format.
    """
    source, unfit = open_every_column(reader, path, described)
    source.stage(session)
    missing: dict[str, dict[str, int]] = {}
    if variables:
        source, missing = hide_missing(session, source, variables)
    names: dict[str, Any] = {
        "relation": source.relation,
        "columns": list(source.columns),
        "types": [kind.value for kind in ColumnType],
    }
    try:
        records, *columns_facts = session.row("cef/profile", source.values, **names)
        if not records or source.records not in (None, records):
            raise SourceError([Finding(source.label, "contains no records" if not records else "cannot be read")])
        columns = []
        for name, facts in zip(source.columns, columns_facts, strict=True):
            rows = []
            if facts["different"] <= MOST_CODES:
                rows = session.rows("cef/codes", source.values, relation=source.relation, name=name)
            columns.append(_describe_column(name, records, facts, [code for (code,) in rows]))
    except WarehouseError:
        raise UnreadableError(source.label, source.kind) from None
    return Profile(columns, unfit, {}, variables or {}, missing)


def _describe_column(name: str, records: int, facts: Mapping[str, Any], codes: Sequence[str]) -> ColumnProfile:
    kind = next(kind for kind in _NARROWEST_FIRST if facts[kind.value] == 0 or kind is ColumnType.STRING)
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
