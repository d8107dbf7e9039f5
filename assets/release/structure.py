"""What the records of a layout must satisfy together, beyond what every row and every key must by itself.

Here belongs how such rules are declared. The rules of a layout stand with the layout (`census`), the statement
that counts their offenders in `sql/cef`, and the counting in `validation`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One rule of a structure.

    Attributes:
        table: `units` or `persons`, whose rows are counted as offenders.
        column: the column that is wrong in them.
        offence: what is wrong, in words that hold no value of any record.
        needs: the column of units that the rule speaks of, where the layout leaves open whether a dataset has it. A
            dataset without it is not held to the rule.
    """

    table: str
    column: str
    offence: str
    needs: str | None = None


@dataclass(frozen=True)
class Structure:
    """The rules of a layout.

    Attributes:
        statement: the SQL statement over `units` and `persons` whose one row has the number of offenders of each
            rule, in a column of the rule's name. It is told by `rules` which ones the dataset is held to.
        rules: the rules by name.
    """

    statement: str
    rules: Mapping[str, Rule]

    def held(self, columns: Collection[str]) -> dict[str, Rule]:
        """The rules that a dataset is held to whose units have these columns."""
        return {name: rule for name, rule in self.rules.items() if rule.needs is None or rule.needs in columns}
