"""A method without randomness: a public table follows from exact counts and the declaration alone."""

import json
from abc import abstractmethod
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TypeVar, final

import pyarrow as pa

from assets.measurement.method import COUNTS, ExactCounts
from assets.release.columns import describe_columns
from assets.release.draw import Draw, Inputs
from assets.release.method import CHARGE, Fact
from assets.release.plan import Plan
from assets.release.prose import Prose
from assets.release.published import describe_published
from assets.release.statement import DataVersion, Parameter
from assets.tabulation.asset import TABLES
from assets.unperturbed.release import UnperturbedRelease
from resources.statements import SQL
from resources.warehouse import Session

PROSE = Prose(Path(__file__).with_name("statement.md"))

LOSS_SOURCE, WHY = PROSE("loss source"), PROSE("why")

READ = SQL("unperturbed/read", "FROM {{ table }} ORDER BY ALL")

R = TypeVar("R", bound=UnperturbedRelease)


class UnperturbedCounts(ExactCounts[R, pa.Table]):
    """A method whose output is one public table, made from the exact counts by `publish_from`.

    The key of the draw is not used, because the method has no randomness.
    """

    is_random = False

    @property
    def stages(self) -> tuple[str, ...]:
        return (COUNTS, CHARGE, self.draw_stage, TABLES)

    @property
    def drawn_columns(self) -> Mapping[str, str]:
        numbered = {"table_name": "Name of the table", "cell": "Number of the cell in its table"}
        return describe_columns(self.release.variables) | describe_published(self.tables()) | numbered

    @abstractmethod
    def publish_from(self, counts: pa.Table) -> pa.Table:
        """The public table from the exact counts. Raises RefusedError if the declared rules cannot be kept."""

    @property
    @abstractmethod
    def output_columns(self) -> Mapping[str, str]:
        """The columns of the public table with their DuckDB types."""

    @final
    def perturb(self, session: Session, key: bytes) -> pa.Table:
        return self.publish_from(session.arrow(READ, table=self.counts_table))

    @final
    def version_of(self, draw: Draw[Inputs], output: pa.Table) -> str:
        return _hash_rows(output)

    @final
    def write(self, session: Session, draw: Draw[Inputs], output: pa.Table) -> str:
        table = self.release.public(self.drawn_table)
        # The order of rows follows from the published table, not from the exact counts.
        session.create(table, READ, table=session.register("made", output))
        return _hash_rows(output)

    @final
    def read_version(self, session: Session, draw: Draw[Inputs]) -> str | None:
        table = self.release.public(self.drawn_table)
        if dict(session.columns(table)) != dict(self.output_columns):
            return None
        return _hash_rows(session.arrow(READ, table=table))

    def plan(self) -> Plan:
        return Plan(self.release.specification, facts={"loss": self.charge_description()})

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        return {"loss": (str(self.release.specification.loss), "The loss: no finite one")}

    def charge_description(self) -> str:
        return f"ε = ∞ ({LOSS_SOURCE}). {WHY}"

    def data_versions(self, draw: Draw[Inputs], output_version: str) -> tuple[DataVersion, ...]:
        return (
            DataVersion("exact counts", draw.inputs.versions[COUNTS], keyed=True),
            DataVersion(self.drawn_words, output_version, keyed=False),
        )

    def limits(self, own: str) -> Parameter:
        """The limits of the guarantee, for the certificate: this method's own, then those of all methods of this
        kind."""
        return Parameter("Not guaranteed", (own, *PROSE("limits").split("\n\n")))


def _hash_rows(table: pa.Table) -> str:
    """The hash of rows, independent of their order."""
    rows = sorted(json.dumps(list(row.values()), default=str) for row in table.to_pylist())
    return sha256("\n".join([json.dumps(table.column_names), *rows]).encode()).hexdigest()
