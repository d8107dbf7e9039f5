"""The assets `level_…` of a TopDown release: one for each level, each after the one above.

Here belongs how the stage looks in Dagster. What it does belongs in `estimation`.
"""

import dagster as dg

from assets.conventions import StageKind, attributes, public_table_metadata, table_schema
from assets.topdown.estimation import estimate_level
from assets.topdown.release import TopDownRelease
from assets.topdown.tree import plural
from mechanisms.topdown.design import words
from resources.statements import Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"

ESTIMATE_COLUMNS = {
    "histogram": "persons or units",
    "number": "Number of the place within its level, as in the spine",
    "cell": "Number of the histogram's cell",
    "count": "The estimated count; cells that are not there count nobody",
}


def build_estimates(release: TopDownRelease) -> list[dg.AssetsDefinition]:
    """The assets `[dataset, release, "level_…"]`, in the order of the levels."""
    return [_build_estimates(release, depth) for depth in range(len(release.levels))]


def _build_estimates(release: TopDownRelease, depth: int) -> dg.AssetsDefinition:
    level, stage = release.levels[depth], release.estimates(release.levels[depth])
    above = release.levels[depth - 1] if depth else level

    @dg.asset(
        key=release.key(stage),
        deps=[
            release.key("noisy_measurements"),
            *([release.key(release.estimates(above))] if depth else []),
        ],
        group_name=release.schema,
        description=_description(release, depth),
        code_version=CODE_VERSION,
        **attributes(StageKind.POSTPROCESSING, Zone.PUBLIC, {"duckdb", "numba", "highs"}),
    )
    def estimates(context: dg.AssetExecutionContext, warehouse: Warehouse) -> dg.MaterializeResult:
        def report(done: int, parents: int) -> None:
            context.log.info(f"{words(level)}: {done:,} of {parents:,} {plural(above)}" if depth else words(level))

        made = estimate_level(warehouse, release, level, report)
        table = release.public(stage)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            metadata = public_table_metadata(session, table)
            schema = table_schema(session.columns(table), ESTIMATE_COLUMNS)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(made.content),
            metadata={
                **metadata,
                "places": made.places,
                **({plural(above): made.parents} if depth else {}),
                "problems solved": made.solved,
                "largest duality gap, relative": made.gap,
                "largest violation of a constraint before rounding": made.violation,
                "processor time (s)": made.seconds,
                "dagster/column_schema": schema,
            },
        )

    return estimates


def _description(release: TopDownRelease, depth: int) -> str:
    level = words(release.levels[depth])
    if not depth:
        whose = f"The histograms of the {level}, from its noisy measurements"
    else:
        above = words(release.levels[depth - 1])
        whose = f"The histograms of every {level}, from noisy measurements: those of one {above} jointly, each cell of "
        whose += f"which they make up exactly. What is 0 in the {above} is 0 in each of them"
    first = "Of persons first the totals, from their own query, then all else with totals held: the"
    passes = first if release.levels[depth] in release.design.total_first else "The"
    return f"""{whose}.

{passes} non-negative counts that minimize the sum of squared distances to the measurements, each over σ², within the
invariants and bounds. Every such solution carries a duality gap that proves it the best. Then the integers nearest to
it, query by query from coarse to fine, under the same constraints.

Only public tables are read, so nothing more is charged. Recipe whole or not at all; if nothing that it depends on has
changed it is not made again, so that a run that was killed goes on where it was."""
