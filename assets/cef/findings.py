"""Findings: what is wrong with a source or a table, stated without any of its values.

This module defines the finding and the error that collects findings. The rules are in `readers` and `validation`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assets.release.columns import Column
from mechanisms.refusal import RefusedError

NULL = "null where none is allowed"


def outside_its_domain(column: Column) -> str:
    return f"value outside its domain {column.domain_in_words}"


@dataclass(frozen=True)
class Finding:
    """A violated rule.

    Attributes:
        rule: a description of the problem, without a value of any record.
        column: the column; empty if the finding is about the whole file or table.
        rows: the number of rows that violate the rule; None if the finding is not about rows.
    """

    place: str
    rule: str
    column: str = ""
    rows: int | None = None

    @property
    def statement(self) -> str:
        return f"{self.place}: column {self.column}: {self.rule}" if self.column else f"{self.place}: {self.rule}"

    def __str__(self) -> str:
        if self.rows is None:
            return self.statement
        return f"{self.statement}: {self.rows:,} {'row' if self.rows == 1 else 'rows'}"


class SourceError(RefusedError):
    """A source cannot become a CEF. The message names files, columns, rules and counts, and contains no value."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        # Two columns of the CEF may come from the same column of the source, and find the same there.
        self.findings = tuple(dict.fromkeys(findings))
        super().__init__("\n".join(str(finding) for finding in self.findings))
