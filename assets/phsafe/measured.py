"""The assets `truncated_join`, `counts` and `noisy_measurements` of a PHSafe release.

Here belong the stages from the CEF to the draw. What each does belongs in `join`, `counts` and `noise`.
"""

import dagster as dg

from assets.charge.drawing import draw_metadata, make_draw
from assets.conventions import DRAW, attributes, preview, public_table_metadata, table_schema
from assets.phsafe.draw import COUNTS_VERSION, PHSafeDraw
from assets.phsafe.measurements import (
    COUNTS,
    JOINED,
    MEASUREMENTS,
    REPORT,
    counts_version,
    write_exact_counts,
    write_join,
)
from assets.phsafe.release import PHSafeRelease
from assets.release.draw import publish_version
from assets.release.method import Method
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

CODE_VERSION = "1"

CELL_COLUMNS = {
    "draw_order": "Number of the cell: the order in which noise is drawn",
    "run": "The query",
    "level": "Population group level",
    "region_id": "1 for the nation, or the state's FIPS code",
    "region_type": "USA or STATE",
    "iteration_code": "Race and ethnicity iteration",
    "data_cell": "Basis cell of the run",
    "count": "The count",
    "noise_distribution": "What the noise was drawn from",
    "variance": "The exact variance of the noise, to 18 decimals",
}


def build_truncated_join(release: PHSafeRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "truncated_join"]`."""

    @dg.asset(
        key=release.key("truncated_join"),
        deps=[release.dataset_key("cef")],
        group_name=release.schema,
        description=_join_description(release),
        code_version=CODE_VERSION,
        **attributes("measurement", Zone.CONFIDENTIAL, {"duckdb", "sql"}),
    )
    def truncated_join(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            with session.transaction():
                write_join(session, release)
            version = session.content_version([release.confidential(JOINED)], custody.version_key())
            metadata = _shown_if_synthetic(session, release, release.confidential(REPORT))
            schema = table_schema(session.columns(release.confidential(JOINED)))
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version), metadata={**metadata, "dagster/column_schema": schema}
        )

    return truncated_join


def build_counts(release: PHSafeRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "counts"]`."""

    @dg.asset(
        key=release.key("counts"),
        deps=[release.key("truncated_join")],
        group_name=release.schema,
        description=(
            "The exact counts of every region, iteration and basis cell that is released, zeros included: which cells "
            "there are follows from the declaration alone. Confidential; only a keyed version of the table, which "
            "names the draw, is seen by the charge."
        ),
        code_version=CODE_VERSION,
        **attributes("measurement", Zone.CONFIDENTIAL, {"duckdb", "sql"}),
    )
    def counts(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        table = release.confidential(COUNTS)
        with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            with session.transaction():
                write_exact_counts(session, release)
            version = counts_version(session, release, custody)
            cells = session.count(table)
            schema = table_schema(session.columns(table), CELL_COLUMNS)
        publish_version(warehouse, release.public(COUNTS_VERSION), version)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={"dagster/row_count": cells, "dagster/column_schema": schema},
        )

    return counts


def build_noisy_measurements(method: Method[PHSafeRelease, PHSafeDraw]) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "noisy_measurements"]`."""
    release = method.release

    @dg.asset(
        key=release.key("noisy_measurements"),
        deps=[release.key("counts"), release.key("charge")],
        group_name=release.schema,
        description=_measurements_description(release),
        code_version=CODE_VERSION,
        **attributes("measurement", Zone.PUBLIC, {"duckdb", "numba"}, crossing=DRAW),
    )
    def noisy_measurements(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        draw, entry, version = make_draw(method, warehouse, custody, ledger)
        table = release.public(MEASUREMENTS)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            metadata = public_table_metadata(session, table)
            schema = table_schema(session.columns(table), CELL_COLUMNS)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                **metadata,
                **draw_metadata(release, draw, entry),
                "dagster/column_schema": schema,
            },
        )

    return noisy_measurements


def _shown_if_synthetic(session: Session, release: PHSafeRelease, table: Table) -> dict[str, dg.MetadataValue]:
    columns = session.columns(table)
    if not release.dataset.synthetic or not columns:
        return {}
    rows = [
        [f"{value:,}" if isinstance(value, int) else str(value) for value in row]
        for row in session.rows("warehouse/all", source=table)
    ]
    return {"truncation report (synthetic data)": preview([name.replace("_", " ") for name in columns], rows)}


def _join_description(release: PHSafeRelease) -> str:
    lines = [
        f"- **{run.name}**: at most {threshold} persons of a unit; Δ = 2τ + 2 = {run.stability(threshold)}"
        for run in dict.fromkeys(run for run, _, _ in release.design.released)
        if (threshold := release.design.truncation(run)) is not None
    ]
    return "\n".join(
        [
            "The records that each run counts (Algorithm 3 of Sexton et al.): persons of the run's universe, at most τ "
            "of each unit in an order by a hash of the record's content, joined with the units of its universe whose "
            "MAFID no other bears. Kept as counts by state, race, ethnicity and basis cell. Confidential.",
            "",
            *lines,
            "",
            f"`{REPORT}` says how many persons each threshold drops, by run; it is shown for synthetic datasets only.",
        ]
    )


def _measurements_description(release: PHSafeRelease) -> str:
    design = release.design
    noise = (
        "a discrete Gaussian of variance σ² = Δ² / 2ρ"
        if design.noise.value == "gaussian"
        else "a discrete Laplace of scale Δ / ε"
    )
    return f"""Every exact count of {len(design.released)} pairs of run and level, plus independent noise: {noise}, with
the unbounded budget of its run and level.

The randomness is AES-256-CTR under a key derived for this draw alone, sampled exactly (no floating point decides a
probability); custody is {release.custody.value}. It refuses to run without the charge for exactly these counts and
parameters. Counts may be negative: they are measurements, and the finished tables are made from them."""
