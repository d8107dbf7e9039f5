"""The assets `postprocessed` and `tables` of a PHSafe release, and `exact_measurements` of one without a draw.

`estimates` computes the estimates, and `mechanisms.phsafe.runs` defines the tables.
"""

import dagster as dg

from assets.conventions import StageKind, named, preview
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
from assets.release.stage import build_stage, store_rows
from assets.tabulation.asset import build_tables
from mechanisms.phsafe.runs import ITERATIONS, NATION_ID, SHELL
from mechanisms.states import STATES
from resources.statements import Zone
from resources.warehouse import Session

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
    return build_stage(
        release,
        "postprocessed",
        StageKind.POSTPROCESSING,
        _description(release),
        [MEASUREMENTS],
        lambda session: {release.public(ESTIMATES): store_rows(session, "made", estimate_tables(method, session))},
        _COLUMNS,
        kinds={"duckdb", "numpy"},
        code_version="2",
    )


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
    counts = release.confidential(COUNTS)
    return build_stage(
        release,
        "exact_measurements",
        StageKind.TABULATION,
        "The exact counts in the production format, without noise and therefore without its distribution and variance, "
        "for tuning on synthetic data. Confidential. This release charges, draws and publishes nothing.",
        [COUNTS],
        lambda session: {
            release.confidential(f"exact_{name.lower()}"): file_recipe(session, name, counts, noisy=False)
            for name in list_measured_files(release.design)
        },
        metadata=lambda session, tables: {"tables": ", ".join(map(named, tables))},
        version=lambda session, tables, custody: session.content_version(tables, custody.version_key()),
        zone=Zone.CONFIDENTIAL,
        code_version="2",
    )


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
