"""Suppression as a method: its hooks of a release, with the texts of `statement.md`, and its gates."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.gates.shared import count_problem
from assets.measurement.grid import DeclaredTable
from assets.measurement.method import build_counts
from assets.release.columns import explain_amount, title_columns
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.prose import Prose
from assets.release.published import (
    SUPPRESSED,
    Product,
    PublishedColumn,
    PublishedTable,
    describe_column,
    describe_published,
)
from assets.release.stage import Recipes
from assets.release.statement import Accuracy, Parameter, Statement
from assets.suppression.release import CELLS, TOTAL, SuppressionRelease
from assets.tabulation.asset import TABLES, build_tables, tables_gate
from assets.unperturbed.method import LOSS_SOURCE, READ, WHY, UnperturbedCounts
from mechanisms.suppression import linked
from mechanisms.suppression.design import MECHANISM, VERSION
from mechanisms.suppression.linked import (
    Counts,
    count_narrow,
    count_revealed,
    rank_contributions,
    suppress,
    suppress_totals,
)
from resources.statements import Zone
from resources.warehouse import Recipe, Session

PROSE = Prose(Path(__file__).with_name("statement.md"))

Context = ReleaseContext[SuppressionRelease]


class Suppression(UnperturbedCounts[SuppressionRelease]):
    mechanism = MECHANISM
    version = VERSION
    draw_stage = CELLS
    drawn_table = CELLS
    drawn_words = "cells"

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        return [
            build_counts(self, [CEF], PROSE("counts")),
            build_tables(
                self.release,
                [CELLS],
                "The declared tables, without the suppressed cells.",
                self.table_recipes,
                describe_published(self.tables()),
            ),
        ]

    def parameters(self) -> Mapping[str, Any]:
        variables = self.release.variables
        domains = {name: list(variables[name].domain()) for name in self.release.design.variables}
        return {**super().parameters(), "domains": domains}

    @cached_property
    def linked(self) -> linked.Tables:
        """The tables over the positions of all variables in alphabetical order."""
        names = self.release.design.variables
        sizes = tuple(self.release.variables[name].domain_size for name in names)
        tables = tuple(tuple(map(names.index, columns)) for _, columns in self.release.design.tables)
        return linked.Tables(sizes, tables)

    def counts_recipe(self, session: Session, /) -> Recipe:
        return self.release.count_by(self.release.design.counted)

    @property
    def values(self) -> list[str]:
        """The columns of the tables that may be suppressed."""
        return ["count"] if self.release.design.dominance is None else ["count", TOTAL]

    @property
    def output_columns(self) -> Mapping[str, str]:
        return {"table_name": "VARCHAR", "cell": "BIGINT"} | dict.fromkeys(self.values, "BIGINT")

    def publish_from(self, counts: pa.Table) -> pa.Table:
        design, cell_of = self.release.design, self.linked.cell_of
        exact, needs = self._count_cells(counts)
        true = exact["count"]
        hidden = ((true > 0) & (true < design.threshold)) | (needs > 0)
        while True:
            primary = np.flatnonzero(hidden).tolist()
            further = suppress(cell_of, true, primary, design.width) == linked.SUPPRESSED
            if design.dominance is not None:
                further = suppress_totals(cell_of, exact[TOTAL], further, needs)
            if np.array_equal(further, hidden):
                break
            hidden = further
        tables = self.release.declared_tables
        return pa.table(
            {
                "table_name": pa.concat_arrays([pa.repeat(table.name, table.size) for table in tables]),
                "cell": np.concatenate([np.arange(table.size) for table in tables]),
                **{name: pa.array(exact[name], mask=hidden) for name in self.values},
            }
        )

    def _count_cells(self, counts: pa.Table) -> tuple[dict[str, Counts], Counts]:
        """The exact counts, and totals if there are any, of all cells, with the distance from its total up to which
        each cell's values must remain possible. `counts` has the number of records of each combination, and value of
        the magnitude, that occurs."""
        number, dominance = counts["count"].to_numpy(), self.release.design.dominance
        place = np.ravel_multi_index(self._find_places(counts, self.release.design.variables), self.linked.sizes)
        values = np.zeros_like(number) if dominance is None else counts[dominance.magnitude].to_numpy()
        exact = {}
        for name, added in (("count", number), (TOTAL, number * values)):
            combinations = np.zeros(int(np.prod(self.linked.sizes)), dtype=np.int64)
            np.add.at(combinations, place, added)
            exact[name] = self.linked.add_up(combinations)
        needs = np.zeros_like(exact["count"])
        if dominance is not None:
            # The rule looks at a limited number of contributions, so further records of one value do not matter.
            times, contributor = np.minimum(number, dominance.contributions), None
            if dominance.holding is not None:
                holdings = counts[dominance.holding].combine_chunks().dictionary_encode().indices
                codes = holdings.fill_null(-1).to_numpy().astype(np.int64)
                times = np.where(codes < 0, times, number)
                contributor = codes.repeat(times)
                contributor[contributor < 0] = -1 - np.arange(np.count_nonzero(contributor < 0))
            ranked = rank_contributions(
                self.linked.cell_of,
                place.repeat(times),
                values.repeat(times),
                len(needs),
                dominance.contributions,
                contributor,
            )
            totals = zip(exact[TOTAL].tolist(), ranked.tolist(), strict=True)
            needs = np.array([dominance.measure_need(total, greatest) for total, greatest in totals], dtype=np.int64)
        return exact, needs

    def _find_places(self, rows: pa.Table, names: Sequence[str]) -> tuple[Counts, ...]:
        """By variable, the position of each row's value in the variable's domain."""
        orders = ({value: at for at, value in enumerate(self.release.variables[name].domain())} for name in names)
        return tuple(
            np.array([order[value] for value in rows[name].to_pylist()], dtype=np.int64)
            for name, order in zip(names, orders, strict=True)
        )

    def draw_gates(self) -> Sequence[Gate[SuppressionRelease]]:
        both = [Zone.CONFIDENTIAL, Zone.PUBLIC]
        return [session_gate("small_suppressed", CELLS, self._check_cells, both)]

    def further_gates(self) -> Sequence[Gate[SuppressionRelease]]:
        gates = [tables_gate(self.table_recipes), session_gate("intervals_wide", TABLES, self._check_intervals)]
        if self.release.design.dominance is None:
            return gates
        both = [Zone.CONFIDENTIAL, Zone.PUBLIC]
        return [*gates, session_gate("dominated_hidden", TABLES, self._check_dominated, both)]

    def _read_exact(self, session: Session) -> tuple[dict[str, Counts], Counts]:
        source, _, names = self.release.count_by(self.release.design.counted)
        return self._count_cells(session.arrow(source, **names))

    def _check_cells(self, session: Session, context: Context) -> list[str]:
        """Every published count and total is exact, and no published count is above 0 and below the threshold."""
        exact, _ = self._read_exact(session)
        stored = session.arrow(READ, table=self.release.public(CELLS))
        rows = {
            table.name: stored.filter(pc.equal(stored["table_name"], table.name))
            for table in self.release.declared_tables
        }
        problems = []
        for name in self.values:
            found = self._as_published(rows, lambda table, own: own["cell"].to_numpy(), name)
            shown = found != linked.SUPPRESSED
            wrong = int((found[shown] != exact[name][shown]).sum())
            problems += count_problem(wrong, f"published cells with another {name}")
        found = self._as_published(rows, lambda table, own: own["cell"].to_numpy())
        small = (found > 0) & (found < self.release.design.threshold)
        return [*problems, *count_problem(int(small.sum()), "published cells below the threshold")]

    def _check_intervals(self, session: Session, context: Context) -> list[str]:
        """From all published tables together, no suppressed count is known more closely than declared, and the
        published counts do not contradict each other."""
        published = self._read_tables(session, "count")
        narrow = count_narrow(self.linked.cell_of, published, self.release.design.width)
        return count_problem(narrow, "suppressed cells whose count is known too closely")

    def _check_dominated(self, session: Session, context: Context) -> list[str]:
        """From all published totals together, no total that few records dominate is known more closely than the rule
        allows, and the published totals do not contradict each other."""
        exact, needs = self._read_exact(session)
        published = self._read_tables(session, TOTAL)
        revealed = count_revealed(self.linked.cell_of, published, exact[TOTAL], needs)
        return count_problem(revealed, "cells whose total tells of few records")

    def _read_tables(self, session: Session, name: str) -> Counts:
        tables = {
            table.name: session.arrow(READ, table=self.release.public(f"product_{table.name}"))
            for table in self.release.declared_tables
        }

        def find_cells(table: DeclaredTable, rows: pa.Table) -> Counts:
            shape = [len(domain) for domain in table.domains.values()]
            return np.ravel_multi_index(self._find_places(rows, list(table.columns)), shape)

        return self._as_published(tables, find_cells, name)

    def _as_published(self, tables: Mapping[str, pa.Table], find_cells: Any, name: str = "count") -> Counts:
        """The counts, or totals, of all cells in order, suppressed ones included. `find_cells` gives the cells of a
        table's rows."""
        parts = []
        for table in self.release.declared_tables:
            rows = tables[table.name]
            part = np.full(table.size, linked.SUPPRESSED, dtype=np.int64)
            part[find_cells(table, rows)] = rows[name].fill_null(linked.SUPPRESSED).to_numpy()
            parts.append(part)
        return np.concatenate(parts)

    def table_recipes(self, session: Session) -> Recipes:
        return {
            self.release.public(f"product_{table.name}"): (
                "suppression/table",
                {"table_name": table.name},
                {
                    "cells": session.register(f"cells_{table.name}", table.cells()),
                    "published": self.release.public(CELLS),
                    "columns": list(table.columns),
                    "further": self.values[1:],
                },
            )
            for table in self.release.declared_tables
        }

    def draw_description(self) -> str:
        return PROSE("draw", design=self.release.design)

    def tables(self) -> Sequence[PublishedTable]:
        return list(map(self._published, self.release.declaration.products))

    def _published(self, product: Product) -> PublishedTable:
        columns = [describe_column(name, self.release.variables[name]) for name in sorted(product.columns)]
        count = PublishedColumn("count", "integer", PROSE("count"), required=False, unit=product.of)
        total = [
            PublishedColumn(
                TOTAL,
                "integer",
                PROSE("total", amount=explain_amount(dominance.magnitude, self.release.variables[dominance.magnitude])),
                required=False,
                unit=dominance.magnitude,
            )
            for dominance in [self.release.design.dominance]
            if dominance is not None
        ]
        return PublishedTable(
            product.name,
            product.title or product.name,
            product.description,
            self.release.public(product.table),
            (*columns, count, *total, PublishedColumn(SUPPRESSED, "boolean", "Whether the count is not published")),
            tuple(sorted(product.columns)),
            geography=tuple(product.geography),
        )

    def statement(self, draw: Draw[Inputs], output_version: str) -> Statement:
        design = self.release.design
        return Statement(
            mechanism="Cell suppression in linked tables",
            mechanism_version=str(VERSION),
            method=PROSE("method", design=design),
            parameters=(
                Parameter("Threshold", design.threshold, PROSE("Threshold")),
                Parameter("Width", design.width, PROSE("Width")),
                *self._describe_dominance(),
                self.limits(PROSE("own limit", dominance=design.dominance)),
            ),
            loss_source=LOSS_SOURCE,
            accuracy=Accuracy(
                summary=PROSE("accuracy"),
                columns=("Figure", "Records"),
                rows=(("Least published count besides 0", design.threshold), ("Least width", design.width)),
                note=PROSE("accuracy, note"),
            ),
            data_versions=self.data_versions(draw, output_version),
            also_exact=(PROSE("exact", dominance=design.dominance),),
            remark=WHY,
            variables=title_columns(self.release.variables),
        )

    def _describe_dominance(self) -> list[Parameter]:
        rule = self.release.design.dominance
        if rule is None:
            return []
        words = f"p = {rule.p}%" if rule.p is not None else f"n = {rule.n}, k = {rule.k}%"
        return [Parameter("Dominance", words, PROSE("Dominance", dominance=rule))]
