"""What is wrong with a source or a table, said without showing any of it.

Here belong the finding and the error that gathers findings. What is looked for belongs in `readers` and
`validation`.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One broken rule.

    Attributes:
        place: the file, or the table of the CEF.
        rule: what is wrong, in words that hold no value of any record.
        column: where it is wrong; empty if it is the whole file or table.
        rows: how many rows break the rule; None where rows are not what is counted.
    """

    place: str
    rule: str
    column: str = ""
    rows: int | None = None

    @property
    def statement(self) -> str:
        """The finding without its count."""
        return f"{self.place}: column {self.column}: {self.rule}" if self.column else f"{self.place}: {self.rule}"

    def __str__(self) -> str:
        if self.rows is None:
            return self.statement
        return f"{self.statement}: {self.rows:,} {'row' if self.rows == 1 else 'rows'}"


class SourceError(Exception):
    """A source cannot become a CEF. The message names file, column, rule and count, and holds no value."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in findings))
