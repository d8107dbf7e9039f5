"""The assets `postprocessed` and `tables` of a PHSafe release, and `exact_measurements` of one without a draw.

`estimates` computes the estimates, and `tables` defines the tables.
"""

import dagster as dg

from assets.conventions import StageKind, attributes, named, preview, public_table_metadata, table_schema
from assets.failures import stated_plainly
from assets.measurement.grid import GridCounts
from assets.measurement.method import COUNTS, MEASUREMENTS
from assets.phsafe.estimates import estimate_tables
from assets.phsafe.release import PHSafeRelease
from assets.phsafe.tables import (
    ESTIMATES,
    NATION,
    file_recipe,
    finished_table,
    list_measured_files,
    table_recipes,
)
from assets.tabulation.asset import build_tables
from mechanisms.phsafe.runs import ITERATIONS, NATION_ID
from mechanisms.phsafe.tables import SHELL
from mechanisms.states import STATES
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

CODE_VERSION = "2"

_COLUMNS = {
    "table_name": "The finished table, PH1 to PH8",
    "level": "Population group level",
    "cell": "Number of the table's cell",
    "estimate": "Estimate of the count or average from the measurements",
    "lower": "Lower end of the 90% interval",
    "upper": "Upper end of the 90% interval",
    "standard_error": "Standard deviation of the noise of a count; empty for an average",
    "margin_of_error": "90% margin of error; for an average, half the width of the interval",
}


def build_postprocessed(method: GridCounts[PHSafeRelease]) -> dg.AssetsDefinition:
    release = method.release

    @dg.asset(
        key=release.key("postprocessed"),
        deps=[release.key(MEASUREMENTS)],
        group_name=release.schema,
        description=_description(release),
        code_version=CODE_VERSION,
        **attributes(StageKind.POSTPROCESSING, Zone.PUBLIC, {"duckdb", "numpy"}),
    )
    @stated_plainly(StageKind.POSTPROCESSING)
    def postprocessed(warehouse: Warehouse) -> dg.MaterializeResult:
        table = release.public(ESTIMATES)
        with warehouse.session(writes=Zone.PUBLIC) as session:
            made = estimate_tables(method, session)
            with session.transaction():
                session.create(table, "warehouse/all", source=session.register("made", made))
            version = session.content_version([table])
            metadata = public_table_metadata(session, table)
            schema = table_schema(session.columns(table), _COLUMNS)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version), metadata={**metadata, "dagster/column_schema": schema}
        )

    return postprocessed


def build_finished(release: PHSafeRelease) -> dg.AssetsDefinition:
    finished = ", ".join(f"{name} ({SHELL[name].title})" for name in release.products) or "none"
    measured = ", ".join(list_measured_files(release.design))
    return build_tables(
        release,
        [MEASUREMENTS, "postprocessed"],
        f"The finished tables: {finished}; and the measurements in the production format: {measured}. PH5_num equals "
        "PH4, and PH8_num is computed from PH7. Made from public data only.",
        lambda session: table_recipes(session, release),
        shown=lambda session: _first_rows(session, release),
    )


def build_exact_measurements(release: PHSafeRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "exact_measurements"]` of a release that is not private."""

    @dg.asset(
        key=release.key("exact_measurements"),
        deps=[release.key(COUNTS)],
        group_name=release.schema,
        description=(
            "The exact counts in the production format, without noise and therefore without its distribution and "
            "variance, for tuning on synthetic data. Confidential. This release charges, draws and publishes nothing."
        ),
        code_version=CODE_VERSION,
        **attributes(StageKind.TABULATION, Zone.CONFIDENTIAL, {"duckdb", "sql"}),
    )
    @stated_plainly(StageKind.TABULATION)
    def exact_measurements(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        written = [release.confidential(f"exact_{name.lower()}") for name in list_measured_files(release.design)]
        with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            with session.transaction():
                for table, file in zip(written, list_measured_files(release.design), strict=True):
                    name, values, names = file_recipe(session, file, release.confidential(COUNTS), noisy=False)
                    session.create(table, name, values, **names)
            version = session.content_version(written, custody.version_key())
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version), metadata={"tables": ", ".join(named(table) for table in written)}
        )

    return exact_measurements


def _first_rows(session: Session, release: PHSafeRelease) -> dict[str, dg.MetadataValue]:
    region = min(release.design.regions)
    place = f"{NATION if region == NATION_ID else STATES[region]}, {ITERATIONS['*'].lower()}"
    shown = {}
    for name in release.products:
        shell = SHELL[name]
        rows = session.rows("phsafe/of_region", {"region": region}, table=finished_table(release, name))
        if rows:
            shown[f"{name}: {shell.title} ({place})"] = preview(
                ["cell", "estimate", "90% interval"],
                [
                    ("\u2003" * cell.depth + cell.label, f"{estimate:,}", f"{lower:,}\u00a0–\u00a0{upper:,}")
                    for cell, (estimate, lower, upper) in zip(shell.cells, rows, strict=True)
                ],
            )
    return shown


def _description(release: PHSafeRelease) -> str:
    kind = release.declaration.interval.value.replace("_", "-")
    return f"""Estimates of every cell of the finished tables from the noisy measurements.

The margins of a table are sums of measured cells, whose variances add up. The posterior of a count under a flat prior
on 0, 1, 2, … is P(y | noisy) ∝ P(noise = noisy − y). The estimate is its rounded mean, and the interval its {kind}
credible set of 90%. An average is estimated from its numerator and denominator jointly, both restricted to plausible
values: a household has at least one person, a family at least two. Its interval contains the averages that are
compatible with both measurements, so that it covers the true average in about 90% of draws. No estimate is negative or
infinite. This stage reads only public measurements, so it charges nothing."""
