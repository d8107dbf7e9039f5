"""Coarsening as a method: its hooks of a release, with the texts of `statement.md`, and its gates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.coarsening.release import COARSENED, CoarseningRelease
from assets.gates.shared import count_problem
from assets.measurement.method import build_counts
from assets.release.columns import title_columns
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.prose import Prose
from assets.release.published import Product, PublishedColumn, PublishedTable, describe_column, describe_published
from assets.release.stage import Recipes
from assets.release.statement import Accuracy, Parameter, Statement
from assets.tabulation.asset import build_tables, tables_gate
from assets.unperturbed.method import LOSS_SOURCE, WHY, UnperturbedCounts
from mechanisms.coarsening.design import (
    MECHANISM,
    VERSION,
    Codes,
    coarsen,
)
from resources.statements import Zone
from resources.warehouse import Recipe, Session

PROSE = Prose(Path(__file__).with_name("statement.md"))

COUNT = PublishedColumn("count", "integer", "Number of records")

REST = "the rest of the place above"
"""The meaning of an empty place."""

Context = ReleaseContext[CoarseningRelease]


class Coarsening(UnperturbedCounts[CoarseningRelease]):
    mechanism = MECHANISM
    version = VERSION
    draw_stage = COARSENED
    drawn_table = COARSENED
    drawn_words = "coarsened records"

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        return [
            build_counts(self, [CEF], PROSE("counts")),
            build_tables(
                release,
                [COARSENED],
                "Tables, as sums of the coarsened records only.",
                self.table_recipes,
                describe_published(self.tables()),
            ),
        ]

    def parameters(self) -> Mapping[str, Any]:
        return {**super().parameters(), "distances": self.release.distances}

    def counts_recipe(self, session: Session, /) -> Recipe:
        return self.release.count_by(self.release.design.columns)

    @property
    def output_columns(self) -> Mapping[str, str]:
        declared = {name: self.release.variables[name].type.stored for name in self.release.design.columns}
        return {**declared, "count": "BIGINT"}

    def publish_from(self, counts: pa.Table) -> pa.Table:
        design = self.release.design
        numbers = counts["count"].to_numpy()
        places = np.column_stack([_rank(counts[name]) for name in design.geography])
        orders = self.release.orders
        steps = {name: {value: at for at, value in enumerate(orders[name])} for name in design.key}
        key = np.column_stack([[steps[name][value] for value in counts[name].to_pylist()] for name in design.key])
        depth, _, moved = coarsen(places, key.astype(np.int64), numbers, design.place_threshold, design.least)
        columns = {}
        for level, name in enumerate(design.geography):
            columns[name] = _blank(counts[name].combine_chunks(), depth <= level)
        for at, name in enumerate(design.key):
            values = pa.array(orders[name], counts.schema.field(name).type)
            columns[name] = values.take(pa.array(moved[:, at]))
        columns |= {name: counts[name] for name in design.kept}
        table = pa.table(columns).append_column("count", counts["count"])
        grouped = table.group_by(list(design.columns)).aggregate([("count", "sum")])
        return grouped.rename_columns([*design.columns, "count"])

    def draw_gates(self) -> Sequence[Gate[CoarseningRelease]]:
        both = [Zone.CONFIDENTIAL, Zone.PUBLIC]
        return [
            session_gate("places_large", COARSENED, self._check_places),
            session_gate("combinations_large", COARSENED, self._check_combinations),
            session_gate("places_exact", COARSENED, self._check_kept, both),
        ]

    def further_gates(self) -> Sequence[Gate[CoarseningRelease]]:
        return [tables_gate(self.table_recipes)]

    def _check_places(self, session: Session, context: Context) -> list[str]:
        """Every published place, and every rest of unpublished places, has at least the declared number of records."""
        design = context.release.design
        levels = [design.geography[: level + 1] for level in range(len(design.geography))]
        small = sum(self._count_small(session, columns, design.place_threshold) for columns in levels)
        return count_problem(small, "places with too few records")

    def _check_combinations(self, session: Session, context: Context) -> list[str]:
        """No combination of place and key variables has fewer than the declared number of records."""
        design = context.release.design
        small = self._count_small(session, (*design.geography, *design.key), design.least)
        return count_problem(small, "combinations with too few records")

    def _count_small(self, session: Session, columns: Sequence[str], least: int) -> int:
        records = self.release.public(COARSENED)
        return int(session.row("coarsening/small", {"least": least}, records=records, columns=list(columns))[0])

    def _check_kept(self, session: Session, context: Context) -> list[str]:
        """In every published place, the counts of records by the kept variables are exact."""
        design, wrong = context.release.design, 0
        source, values, names = context.release.count_by(design.columns)
        exact = session.stage("exact", source, values, **names)
        for level in range(len(design.geography) + 1):
            (differing,) = session.row(
                "coarsening/differing_places",
                exact=exact,
                records=context.release.public(COARSENED),
                places=list(design.geography[:level]),
                kept=list(design.kept),
            )
            wrong += int(differing)
        return count_problem(wrong, "numbers of records that differ")

    def table_recipes(self, session: Session) -> Recipes:
        records = self.release.public(COARSENED)
        return {
            self.release.public(product.table): (
                "unperturbed/sums",
                {},
                {"records": records, "columns": list(product.columns)},
            )
            for product in self.release.declaration.products
        }

    def draw_description(self) -> str:
        return PROSE("draw", design=self.release.design)

    def tables(self) -> Sequence[PublishedTable]:
        release = self.release
        records = PublishedTable(
            COARSENED,
            "Coarsened records",
            PROSE("records"),
            release.public(COARSENED),
            (*self._describe(release.design.columns), COUNT),
            (),
        )
        return [records, *map(self._published, release.declaration.products)]

    def _published(self, product: Product) -> PublishedTable:
        return PublishedTable(
            product.name,
            product.title or product.name,
            f"{product.description} {PROSE('table')}".strip(),
            self.release.public(product.table),
            (*self._describe(product.columns), replace(COUNT, unit=product.of)),
            (),
            geography=tuple(product.geography),
            dimensions=product.columns,
        )

    def _describe(self, names: Sequence[str]) -> list[PublishedColumn]:
        places = self.release.design.geography
        columns = [describe_column(name, self.release.variables[name]) for name in names]
        return [replace(one, required=False, empty=REST) if one.name in places else one for one in columns]

    def statement(self, draw: Draw[Inputs], output_version: str) -> Statement:
        design = self.release.design
        names = title_columns(self.release.variables)
        values: dict[str, int | tuple[str, ...]] = {
            "Places": tuple(names[name] for name in design.geography),
            "Threshold of places": design.place_threshold,
            "Key variables": tuple(names[name] for name in design.key),
            "Threshold of combinations": design.least,
        }
        return Statement(
            mechanism="Coarsening",
            mechanism_version=str(VERSION),
            method=PROSE("method", design=design),
            parameters=(
                *(Parameter(label, value, PROSE(label)) for label, value in values.items()),
                self.limits(PROSE("own limit")),
            ),
            loss_source=LOSS_SOURCE,
            accuracy=Accuracy(
                summary=PROSE("accuracy"),
                columns=("Figure", "Records"),
                rows=(("Least in a place", design.place_threshold), ("Least of a combination", design.least)),
                note=PROSE("accuracy, note"),
            ),
            data_versions=self.data_versions(draw, output_version),
            also_exact=(PROSE("exact"),),
            remark=WHY,
            variables=names,
        )


def _rank(values: pa.ChunkedArray) -> Codes:
    """The rank of each value among the distinct values that occur."""
    listed = values.to_pylist()
    order = {value: at for at, value in enumerate(sorted(set(listed)))}
    return np.array([order[value] for value in listed], dtype=np.int64)


def _blank(values: pa.Array, withheld: NDArray[np.bool_]) -> pa.Array:
    return pc.if_else(pa.array(withheld), pa.scalar(None, values.type), values)
