"""Rules that the records of a layout must satisfy together, beyond the rules of single rows and keys.

This module defines how such rules are declared. The rules of a layout are in the module of the layout
(`assets.cef.census`). A statement in `sql/cef` counts violations, and `assets.cef.validation` runs it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One rule of a structure.

    Attributes:
        table: the table whose violating rows are counted, such as `units` or `persons`.
        column: the column that violates the rule.
        offence: a description of the violation, without a value of any record.
        needs: a column that not every dataset of the layout has, in any table. The rule does not apply without it.
    """

    table: str
    column: str
    offence: str
    needs: str | None = None


@dataclass(frozen=True)
class Structure:
    """The rules of a layout.

    Attributes:
        statement: the SQL statement over the dataset's tables that returns one row, with the number of violations of
            each rule in a column with the rule's name. Its placeholder `rules` lists the rules that apply.
    """

    statement: str
    rules: Mapping[str, Rule]

    def held(self, columns: Collection[str]) -> dict[str, Rule]:
        """The rules that apply to a dataset whose tables have these columns."""
        return {name: rule for name, rule in self.rules.items() if rule.needs is None or rule.needs in columns}
