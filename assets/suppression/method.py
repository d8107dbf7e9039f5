"""Suppression as a method: how it fills in the hooks of a release, with the texts of `statement.md`, and its gates."""

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
from assets.release.columns import describe_columns, title_columns
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.prose import Prose
from assets.release.published import SUPPRESSED, Product, PublishedColumn, PublishedTable, describe_column
from assets.release.stage import Recipes
from assets.release.statement import Accuracy, Parameter, Statement
from assets.suppression.release import CELLS, SuppressionRelease
from assets.tabulation.asset import TABLES, build_tables, tables_gate
from assets.unperturbed.method import LOSS_SOURCE, READ, WHY, UnperturbedCounts
from mechanisms.suppression import linked
from mechanisms.suppression.design import MECHANISM, VERSION
from mechanisms.suppression.linked import Counts, count_narrow, suppress
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
                describe_columns(self.release.variables),
            ),
        ]

    @cached_property
    def linked(self) -> linked.Tables:
        """The tables over the positions of all variables in alphabetical order."""
        names = self.release.design.variables
        sizes = tuple(self.release.variables[name].domain_size for name in names)
        tables = tuple(tuple(map(names.index, columns)) for _, columns in self.release.design.tables)
        return linked.Tables(sizes, tables)

    def counts_recipe(self, session: Session, /) -> Recipe:
        return self.release.count_by(self.release.design.variables)

    @property
    def output_columns(self) -> Mapping[str, str]:
        return {"table_name": "VARCHAR", "cell": "BIGINT", "count": "BIGINT"}

    def publish_from(self, counts: pa.Table) -> pa.Table:
        design, true = self.release.design, self._count_cells(counts)
        primary = np.flatnonzero((true > 0) & (true < design.threshold)).tolist()
        published = suppress(self.linked.cell_of, true, primary, design.width)
        tables = self.release.declared_tables
        return pa.table(
            {
                "table_name": pa.concat_arrays([pa.repeat(table.name, table.size) for table in tables]),
                "cell": np.concatenate([np.arange(table.size) for table in tables]),
                "count": pa.array(published, mask=published == linked.SUPPRESSED),
            }
        )

    def _count_cells(self, counts: pa.Table) -> Counts:
        """The exact counts of all cells from those of the combinations that occur."""
        combinations = np.zeros(self.linked.sizes, dtype=np.int64)
        place = self._find_places(counts, self.release.design.variables)
        combinations[place] = counts["count"].to_numpy()
        return self.linked.add_up(combinations.ravel())

    def _find_places(self, rows: pa.Table, names: Sequence[str]) -> tuple[Counts, ...]:
        """By variable, the positions of the values of rows among all that may occur."""
        orders = ({value: at for at, value in enumerate(self.release.variables[name].domain())} for name in names)
        return tuple(
            np.array([order[value] for value in rows[name].to_pylist()], dtype=np.int64)
            for name, order in zip(names, orders, strict=True)
        )

    def draw_gates(self) -> Sequence[Gate[SuppressionRelease]]:
        both = [Zone.CONFIDENTIAL, Zone.PUBLIC]
        return [session_gate("small_suppressed", CELLS, self._check_cells, both)]

    def further_gates(self) -> Sequence[Gate[SuppressionRelease]]:
        return [tables_gate(self.table_recipes), session_gate("intervals_wide", TABLES, self._check_intervals)]

    def _check_cells(self, session: Session, context: Context) -> list[str]:
        """Every published count is that of the records, and none is from 1 to below the threshold."""
        source, _, names = self.release.count_by(self.release.design.variables)
        true = self._count_cells(session.arrow(source, **names))
        stored = session.arrow(READ, table=self.release.public(CELLS))
        found = self._as_published({
            table.name: stored.filter(pc.equal(stored["table_name"], table.name))
            for table in self.release.declared_tables
        }, lambda table, rows: rows["cell"].to_numpy())  # fmt: skip
        shown = found != linked.SUPPRESSED
        small = (found > 0) & (found < self.release.design.threshold)
        return [
            *count_problem(int((found[shown] != true[shown]).sum()), "published cells with another count"),
            *count_problem(int(small.sum()), "published cells below the threshold"),
        ]

    def _check_intervals(self, session: Session, context: Context) -> list[str]:
        """From all published tables together, no suppressed count is known more closely than declared, and some counts
        add up to all that are published."""
        tables = {
            table.name: session.arrow(READ, table=self.release.public(f"product_{table.name}"))
            for table in self.release.declared_tables
        }

        def find_cells(table: DeclaredTable, rows: pa.Table) -> Counts:
            shape = [len(domain) for domain in table.domains.values()]
            return np.ravel_multi_index(self._find_places(rows, list(table.columns)), shape)

        narrow = count_narrow(self.linked.cell_of, self._as_published(tables, find_cells), self.release.design.width)
        return count_problem(narrow, "suppressed cells whose count is known too closely")

    def _as_published(self, tables: Mapping[str, pa.Table], find_cells: Any) -> Counts:
        """The counts of all cells, in order, of tables whose rows are given with their cells."""
        parts = []
        for table in self.release.declared_tables:
            rows = tables[table.name]
            part = np.full(table.size, linked.SUPPRESSED, dtype=np.int64)
            part[find_cells(table, rows)] = rows["count"].fill_null(linked.SUPPRESSED).to_numpy()
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
        return PublishedTable(
            product.name,
            product.title or product.name,
            product.description,
            self.release.public(product.table),
            (*columns, count, PublishedColumn(SUPPRESSED, "boolean", "Whether the count is not published")),
            tuple(sorted(product.columns)),
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
                self.limits(PROSE("own limit")),
            ),
            loss_source=LOSS_SOURCE,
            accuracy=Accuracy(
                summary=PROSE("accuracy"),
                columns=("Figure", "Records"),
                rows=(("Least published count besides 0", design.threshold), ("Least width", design.width)),
                note=PROSE("accuracy, note"),
            ),
            data_versions=self.data_versions(draw, output_version),
            remark=WHY,
            variables=title_columns(self.release.variables),
        )
