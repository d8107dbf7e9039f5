"""SafeTab-H as a method: its hooks for charge, draw, gates and publication, and the groups that it measures.

A group has tables of households if SafeTab-P published a total of persons for it, and the total determines their
detail. SafeTab-H reads the totals from the publication, like any reader, after verifying its signature, and spends no
budget on them.

The list of cells follows from the published groups alone. Cells are measured line by line, household types before
tenures, group by group.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assets.conventions import StageKind, escape_markdown, preview, public_table_metadata, table_schema
from assets.gates.shared import count_problem, differing_table
from assets.measurement.method import MEASUREMENTS, Batch, GridError, build_counts, plan_gate
from assets.measurement.parts import PartCounts
from assets.publication.asset import open_current_publication
from assets.release.contents import read_basis
from assets.release.dataset import CEF
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.method import CHARGE, PLAN, PUBLICATION, release_hook
from assets.release.release import Release
from assets.release.seal import seal_stage
from assets.release.signature import VerificationError
from assets.release.stage import COLUMN_SCHEMA, create_tables, release_stage
from assets.safetab.counting import (
    COUNT_COLUMNS,
    added_recipe,
    counts_recipe,
    require_households_in_groups,
    stage_regions,
)
from assets.safetab.lists import ListsFileError, read_totals
from assets.safetab.measurements import require_columns
from assets.safetab.method import SafeTabMethod, SafeTabPMethod, find_farthest
from assets.safetab.release import COLUMNS_OF_GROUPS, COUNTS, GROUPS, SafeTabHRelease
from assets.safetab.tables import (
    T1,
    build_household_tables,
    household_products,
    household_table_recipes,
    measured_tables,
    name_product,
)
from assets.tabulation.asset import TABLES, tables_gate
from mechanisms.refusal import RefusedError
from mechanisms.safetab.design import MECHANISM_H, MeasuredTable
from mechanisms.safetab.details import HOUSEHOLD_CELLS, HOUSEHOLD_TABLES
from mechanisms.sampling.quantiles import Uncapped
from resources.custody import Custody
from resources.ledger import Ledger
from resources.project import PROJECT
from resources.statements import Zone
from resources.warehouse import Recipe, Session, Warehouse

COLUMNS = {
    **COLUMNS_OF_GROUPS,
    "table_name": "Table, T03001 to T04002",
    "data_cell": "Measured cell of the table",
    "count": "Noisy count",
}

GROUP_COLUMNS = {
    "number": "Number of the group in the order of the draw",
    **COLUMNS_OF_GROUPS,
    "total": "Published total of persons",
    "t3": "Detail of household types: 0 to 3",
    "t4": "Detail of tenure: 0 or 1",
}

_UNIVERSES = pa.schema(
    [
        ("place", pa.int64()),
        ("region_type", pa.string()),
        ("level", pa.int64()),
        ("iteration_code", pa.string()),
        *((family.lower(), pa.list_(pa.int64())) for family in HOUSEHOLD_TABLES),
    ]
)


class DetailError(RefusedError, ValueError):
    """The publication that lists the groups is missing, or is not of the current records."""


class SafeTabHMethod(SafeTabMethod[SafeTabHRelease, Batch]):
    mechanism = MECHANISM_H
    stages = (PLAN, GROUPS, COUNTS, CHARGE, MEASUREMENTS, TABLES)
    publishes_also_from = (PLAN, GROUPS)
    draw_follows = (GROUPS, COUNTS)
    drawn_columns = COLUMNS
    counted_in = GROUPS
    tables = release_hook(household_products)

    @property
    def reads_publications_of(self) -> Sequence[Release]:
        return [self.release.detail] if self.release.detail else []

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        return [
            build_groups(release),
            build_counts(
                self,
                [CEF, GROUPS],
                "The exact counts of households of every group by type and tenure. Cells without households are left "
                "out.",
                COUNT_COLUMNS,
                reads=[Zone.PUBLIC],
            ),
            build_household_tables(release),
        ]

    @property
    def part_counts(self) -> PartCounts[SafeTabHRelease] | None:
        added_up = partial(added_recipe, groups=self.release.public(GROUPS))
        return PartCounts.of(self.release, COUNTS, counts_recipe, added_up)

    def counts_recipe(self, session: Session) -> Recipe:
        return counts_recipe(session, self.release, self.release.public(GROUPS))

    def require_countable(self, session: Session, custody: Custody) -> None:
        # Without this check, counts of other groups could be charged before a gate found them.
        self.release.require_sealed(session, custody, GROUPS, [self.release.public(GROUPS)])
        super().require_countable(session, custody)
        require_households_in_groups(session, self.release, self.counts_table)

    def distributions(self) -> Mapping[str, Uncapped]:
        return {line.label: line.noise for line in self.release.design.measured}

    def exact(self, session: Session) -> Iterator[Batch]:
        finest = np.eye(HOUSEHOLD_CELLS, dtype=np.int64)
        for line in self.release.design.measured:
            parts = [
                {"detail": table.detail, "place": place, "finest": cell}
                for table in HOUSEHOLD_TABLES[line.family]
                for cell, place in zip(*np.nonzero(table.fold(finest)), strict=True)
            ]
            counts = session.arrow(
                "safetab/households_exact",
                line.region_and_level,
                parts=session.register("parts", pa.Table.from_pylist(parts)),
                counts=self.counts_table,
                **self._identify_cells(session, line),
            )
            yield Batch(line.label, counts["count"].to_numpy())

    def stored(self, session: Session) -> Iterator[Batch]:
        table, schema, total = self.release.public(MEASUREMENTS), self.release.schema, 0
        require_columns(session, self.release, households=True)
        for line in self.release.design.measured:
            names = self._identify_cells(session, line)
            stored = session.arrow("safetab/households_stored", line.region_and_level, measurements=table, **names)
            order = stored["draw_order"].to_numpy()
            if stored["count"].null_count or not np.array_equal(order, np.arange(len(order))):
                raise GridError(f"{schema}: {line.label}: not every cell is measured exactly once")
            total += len(stored)
            yield Batch(line.label, stored["count"].to_numpy())
        if total != session.count(table):
            raise GridError(f"{schema}: measurements of other groups or cells than those declared")

    def store(self, session: Session, batches: Iterator[Batch]) -> None:
        table = self.release.public(MEASUREMENTS)
        session.create(table, "safetab/no_measurements", households=True)
        for line, batch in zip(self.release.design.measured, batches, strict=True):
            rows = pa.table({"draw_order": np.arange(len(batch.values)), "count": batch.values})
            names = self._identify_cells(session, line) | {"table": table, "rows": session.register("rows", rows)}
            session.run("safetab/households_append", line.region_and_level, **names)

    def _identify_cells(self, session: Session, line: MeasuredTable) -> dict[str, Any]:
        """Identifiers of `safetab/household_cells`: the groups, and the measured cells of each detail."""
        cells = [
            {"detail": table.detail, "table_name": table.name, "place": place, "data_cell": data_cell}
            for table in HOUSEHOLD_TABLES[line.family]
            for place, data_cell in enumerate(table.basis)
        ]
        registered = session.register("cells", pa.Table.from_pylist(cells))
        return {"groups": self.release.public(GROUPS), "cells": registered, "family": line.family.lower()}

    def perturb(self, session: Session, key: bytes) -> Iterator[Batch]:
        for batch in super().perturb(session, key):
            yield batch if self.release.design.negative_counts else replace(batch, values=np.maximum(batch.values, 0))

    def unlikely(self, pairs: Iterable[tuple[Batch, Batch]]) -> list[str]:
        """Clipping hides a part of the noise, so if numbers are clipped, only cells far above 0 are tested."""
        if self.release.design.negative_counts:
            return super().unlikely(pairs)
        farthest = {query: find_farthest(noise) for query, noise in self.distributions().items()}

        def far_above_zero() -> Iterator[tuple[Batch, Batch]]:
            for exact, noisy in pairs:
                far = exact.values >= farthest[exact.query]
                yield replace(exact, values=exact.values[far]), replace(noisy, values=noisy.values[far])

        return super().unlikely(far_above_zero())

    def further_gates(self) -> Sequence[Gate[SafeTabHRelease]]:
        release = self.release
        zones = [Zone.PUBLIC] if release.detail else [Zone.CONFIDENTIAL, Zone.PUBLIC]
        return [
            plan_gate(self),
            session_gate("groups_as_published", GROUPS, _check_groups, zones),
            tables_gate(lambda session: household_table_recipes(session, release)),
            session_gate("groups_complete", TABLES, _check_completeness),
        ]

    def charge_description(self) -> str:
        design = self.release.design
        return f"""All region types, levels and tables are charged together, with a line for each. Budgets are declared
for one household added or removed. The charge is the loss for one household's record changed: twice the sum of the
lines' {design.noise.symbol}. The groups and their detail follow from the totals
{escape_markdown(self.release.totals_in_words)}, which are public and cost nothing here."""

    def draw_description(self) -> str:
        return """For every published group, the exact count of every measured cell of its table of household types and
of its table of tenures, plus independent noise; empty cells and groups without households too."""


def _check_completeness(session: Session, context: ReleaseContext[SafeTabHRelease]) -> Iterator[str]:
    """Every group is in exactly one table of each family."""
    release = context.release
    for family, tables in measured_tables(release).items():
        measured = [line.region_and_level for line in release.design.measured if line.family == family]
        (groups,) = session.row(
            "safetab/groups_not_once",
            measured=session.register(f"measured_{family}", pa.Table.from_pylist(measured)),
            groups=release.public(GROUPS),
            tables=[release.public(name_product(table)) for table in tables],
        )
        yield from count_problem(int(groups), f"{family}: groups that are not in exactly one table")


def build_groups(release: SafeTabHRelease) -> dg.AssetsDefinition:
    # Of a file's totals, only those of regions with a unit count, and the list of these regions is an invariant.
    kind, read = (StageKind.POSTPROCESSING, []) if release.detail else (StageKind.INVARIANTS, [Zone.CONFIDENTIAL])

    @release_stage(
        release,
        GROUPS,
        kind,
        f"The groups with a total {escape_markdown(release.totals_in_words)}, in the regions in which there is a unit, "
        "and the detail that this total allows. What is read was published, so nothing is spent on it.",
        [release.detail.key(PUBLICATION) if release.detail else CEF],
        kinds={"duckdb", "parquet"},
    )
    def population_groups(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        table = release.public(GROUPS)
        with warehouse.session(reads=read, writes=Zone.PUBLIC) as session:
            totals = read_published_totals(session, release, custody, ledger)
            recipe = groups_recipe(session, release, totals)
            session.keep([table])
            with session.transaction():
                create_tables(session, {table: recipe})
                counted = read_basis(session, custody, release.dataset, release.counted_with)
                seal_stage(session, custody, release.schema, GROUPS, [table], counted)
            rows = [
                (kind, level, f"T3: {t3}, T4: {t4}", f"{groups:,}")
                for kind, level, t3, t4, groups in session.rows("safetab/groups_by_detail", table=table)
            ]
            metadata = {
                **public_table_metadata(session, table),
                "groups": preview(["region type", "level", "detail", "groups"], rows),
                COLUMN_SCHEMA: table_schema(session.columns(table), GROUP_COLUMNS),
            }
            version = dg.DataVersion(session.content_version([table]))
        return dg.MaterializeResult(data_version=version, metadata=metadata)

    return population_groups


def read_published_totals(session: Session, release: SafeTabHRelease, custody: Custody, ledger: Ledger) -> pa.Table:
    """T1 as the release by SafeTab-P published it from the current records, or the declared file of totals.

    Raises DetailError if the publication is missing or was altered, or is of other records or of another declaration;
    ListsFileError if the file is missing or breaks a rule."""
    persons = release.detail
    if persons is None:
        assert release.declaration.totals is not None
        return read_totals(PROJECT / release.declaration.totals.path)
    try:
        signed = open_current_publication(SafeTabPMethod(persons), session, custody, ledger)
        return pq.read_table(pa.BufferReader(signed.read(f"{T1}.parquet")))
    except VerificationError as error:
        raise DetailError(f"{release.schema}: {error}") from None


def groups_recipe(session: Session, release: SafeTabHRelease, totals: pa.Table) -> Recipe:
    """The recipe of the measured groups, in the order of the draw, from T1 in the production layout."""
    thresholds = {line.key: list(line.thresholds) for line in release.design.measured}
    universes = [
        {
            "place": place,
            "region_type": region_type.value,
            "level": level,
            "iteration_code": iteration.code,
            # A family that is not measured has no thresholds, even if they are declared: they would change the groups.
            **{family.lower(): thresholds.get((region_type, level, family), []) for family in HOUSEHOLD_TABLES},
        }
        for place, (region_type, level) in enumerate(release.pairs)
        for iteration in release.lists.universe(region_type, level)
    ]
    names = {
        "totals": session.register("published_totals", totals),
        "universes": session.register("universes", pa.Table.from_pylist(universes, _UNIVERSES)),
        "regions": None if release.detail else stage_regions(session, release)[-1],
    }
    return "safetab/groups", {}, names


def _check_groups(session: Session, context: ReleaseContext[SafeTabHRelease]) -> list[str]:
    """The groups are exactly those with published totals in measured iterations, in the detail that these allow."""
    release = context.release
    try:
        totals = read_published_totals(session, release, context.custody, context.ledger)
    except (DetailError, ListsFileError) as error:
        return [str(error)]
    return differing_table(session, release.public(GROUPS), groups_recipe(session, release, totals))
