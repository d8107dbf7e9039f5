"""What the records of a layout must satisfy together, beyond what every row and every key must by itself.

Here belongs how such rules are declared. The rules of a layout stand with the layout (`census`), the statement
that counts their offenders in `sql/cef`, and the counting in `validation`.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One rule of a structure.

    Attributes:
        table: `units` or `persons`, whose rows are counted as offenders.
        column: the column that is wrong in them.
        offence: what is wrong, in words that hold no value of any record.
    """

    table: str
    column: str
    offence: str


@dataclass(frozen=True)
class Structure:
    """The rules of a layout.

    Attributes:
        statement: the SQL statement over `units` and `persons` whose one row has the number of offenders of each
            rule, in a column of the rule's name.
        rules: the rules by name.
    """

    statement: str
    rules: Mapping[str, Rule]
