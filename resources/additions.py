"""The entries that the catalog of a zone may have: tables of plain columns and keys, and views that only combine rows.

DuckDB and DuckLake write each of these in one form, so anything else is an addition. `warehouse` reads the definitions
and refuses a zone with additions.
"""

import re

from resources.packed import PACKED
from resources.statements import Zone

NAME = r'(?:\w+|"(?:[^"]|"")+")'
"""A name in a definition, quoted or not."""

_TYPE = r"(?:VARCHAR|BOOLEAN|DATE|DOUBLE|DECIMAL\(\d+,\d+\)|U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT))(?:\[\])*"
_COLUMN = rf'(?:{NAME} {_TYPE}|"?answers"? {PACKED})(?: DEFAULT\(NULL\))?'
_PLAIN_TABLE = re.compile(rf"CREATE TABLE (?:{NAME}\.)?{NAME}\({_COLUMN}(?:, {_COLUMN})*\);")
"""The definition of a table with only columns, as DuckDB writes it."""

_PLAIN_COLUMN = re.compile(_COLUMN)
"""The definition of a column in a lake, where all have the default NULL."""

_ENTRY = rf"{NAME} {_TYPE}(?: NOT NULL| PRIMARY KEY)?"
_ENTRIES = re.compile(rf"CREATE TABLE {NAME}\({_ENTRY}(?:, {_ENTRY})*(?:, UNIQUE\({NAME}(?:, {NAME})*\))?\);")
"""The definition of the table of entries in the file of the ledger (`ledger/create`)."""

_QUOTED = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'""")
_ADDITIONS = {
    " COLLATE ": "has a collation",
    " GENERATED ALWAYS": "has a column that is computed whenever it is read",
    " DEFAULT(": "has a default",
    "CHECK(": "has a check",
} | dict.fromkeys((" NOT NULL", "PRIMARY KEY", "UNIQUE(", " UNIQUE", "FOREIGN KEY"), "has a constraint")
"""Additions to a table's columns, by the word in its definition, outside quotes, that shows them."""

_OTHER_TYPE = "has a column of a type that no stage stores"

_TABLE = rf"public\.{NAME}\.{NAME} AS {NAME}"
_JOINED = re.compile(
    rf"CREATE VIEW ({NAME}\.)?{NAME} AS SELECT {NAME}\.{NAME}(, {NAME}\.{NAME})* "
    rf"FROM {_TABLE}( INNER JOIN {_TABLE} USING \({NAME}\))*;"
)
"""The text of a view that only joins tables of the public zone by name, as DuckDB and DuckLake write it."""

_UNITED = {
    zone.value: re.compile(rf"CREATE VIEW ({NAME}\.)?{NAME} AS {part}( ?UNION ALL {part})*;")
    for zone in (Zone.PUBLIC, Zone.CONFIDENTIAL)
    for part in [rf"\(*SELECT {NAME}\.{NAME}(, {NAME}\.{NAME})* FROM {zone.value}\.{NAME}\.{NAME} AS {NAME}\)*"]
}
"""By zone, the text of a view that is only a union of tables of the zone, however they are grouped."""


def find_addition(zone: str, kind: str, definition: str) -> str:
    """The feature of a table, column or view, or the kind of another catalog entry, that Stirred never writes; empty if
    none."""
    match kind:
        case "names":
            return ""
        case "column" if _PLAIN_COLUMN.fullmatch(definition):
            return ""
        case "table" if _PLAIN_TABLE.fullmatch(definition) or (zone == Zone.LEDGER and _ENTRIES.fullmatch(definition)):
            return ""
        case "table" | "column":
            words = _QUOTED.sub("", definition)
            return next((addition for word, addition in _ADDITIONS.items() if word in words), _OTHER_TYPE)
        case "view":
            is_united = zone in _UNITED and _UNITED[zone].fullmatch(definition)
            is_plain = is_united or (zone == Zone.PUBLIC and _JOINED.fullmatch(definition))
            return "" if is_plain else "is computed whenever it is read"
        case _:
            return f"is of the kind {kind}"
