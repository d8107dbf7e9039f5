"""The mechanism's parts of charge, draw, gates and publication; `DeclaredCounts` has the rest."""

from collections.abc import Sequence

import dagster as dg

from assets.measurement.grid import DeclaredCounts, DeclaredTable
from assets.measurement.method import COUNTS, MEASUREMENTS, build_counts
from assets.planning.lines import plan_line
from assets.release.columns import describe_columns
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs
from assets.release.method import CHARGE
from assets.release.plan import Plan
from assets.release.published import PublishedColumn, PublishedTable, describe_column
from assets.release.statement import Accuracy, DataVersion, Parameter, Statement
from assets.tabulation.asset import TABLES, build_tables
from mechanisms.sampling.noise import DiscreteLaplace
from tests.contract.laplace_tables.declaration import LaplaceProduct
from tests.contract.laplace_tables.design import MECHANISM, SENSITIVITY, VERSION
from tests.contract.laplace_tables.release import LaplaceRelease


class LaplaceMethod(DeclaredCounts[LaplaceRelease]):
    """How a release of declared tables is charged, drawn, checked and published."""

    mechanism = MECHANISM
    version = VERSION
    stages = (COUNTS, CHARGE, MEASUREMENTS, TABLES)

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        return [
            build_counts(self, [CEF], "The exact counts of every declared cell of every table."),
            build_tables(
                release,
                [MEASUREMENTS],
                "The declared tables with noise.",
                self.table_recipes,
                describe_columns(release.variables),
            ),
        ]

    def noise_of(self, table: DeclaredTable) -> DiscreteLaplace:
        return self.release.design.noise_of(table.name)

    @property
    def declared_tables(self) -> Sequence[DeclaredTable]:
        return self.release.tables

    def plan(self) -> Plan:
        lines = []
        for table in self.release.tables:
            budget, size = self.release.design.budgets[table.name], table.size
            lines.append(
                plan_line(table.name, "units", budget, lambda other: DiscreteLaplace(SENSITIVITY / other), size)
            )
        return Plan(self.release.specification, tuple(lines))

    def charge_description(self) -> str:
        return "The sum of the tables' ε: a change of one record changes two counts of each table by 1."

    def draw_description(self) -> str:
        return "Every count of every table, plus independent discrete Laplace noise of scale 2/ε."

    def tables(self) -> Sequence[PublishedTable]:
        return [self._published(product) for product in self.release.declaration.products]

    def _published(self, product: LaplaceProduct) -> PublishedTable:
        columns = sorted(product.columns)
        return PublishedTable(
            product.name,
            product.title or product.name,
            product.description,
            self.release.public(product.table),
            (
                *(describe_column(name, self.release.variables[name]) for name in columns),
                PublishedColumn("count", "integer", "Noisy count; it may be negative", unit=product.of),
            ),
            tuple(columns),
        )

    def statement(self, draw: Draw[Inputs], output_version: str) -> Statement:
        budgets = tuple(f"{name}: ε = {budget}" for name, budget in self.release.design.budgets.items())
        return Statement(
            mechanism="Declared tables with discrete Laplace noise",
            mechanism_version=str(VERSION),
            method="Random noise was added to every count of every table.",
            parameters=(Parameter("Budgets", budgets, "Each count has noise of scale 2/ε."),),
            loss_source="The Laplace mechanism with L1 sensitivity 2, and sequential composition",
            accuracy=Accuracy(
                summary="Every count has noise of the stated scale.",
                columns=("Table", "Scale of the noise"),
                rows=tuple((name, float(2 / budget)) for name, budget in self.release.design.budgets.items()),
                note="The scale follows from the budget.",
            ),
            data_versions=(
                DataVersion("exact counts", draw.inputs.versions[COUNTS], keyed=True),
                DataVersion("noisy measurements", output_version, keyed=False),
            ),
        )
