"""The assets `level_…` of a TopDown release: one for each level, each downstream of the level above.

`estimation` does the work.
"""

import dagster as dg

from assets.conventions import StageKind, attributes, public_table_metadata, table_schema
from assets.failures import stated_plainly
from assets.topdown.estimation import estimate_level
from assets.topdown.release import TopDownRelease
from assets.topdown.tree import plural
from mechanisms.topdown.design import words
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"

ESTIMATE_COLUMNS = {
    "histogram": "Histogram: persons or units",
    "number": "Number of the place within its level, as in the spine",
    "cell": "Number of the cell in the histogram",
    "count": "Estimated count; cells with count 0 are left out",
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
        group_name=f"{release.schema}__levels",
        description=_description(release, depth),
        code_version=CODE_VERSION,
        **attributes(StageKind.POSTPROCESSING, Zone.PUBLIC, {"duckdb", "numba", "highs"}),
    )
    @stated_plainly(StageKind.POSTPROCESSING)
    def estimates(context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        def report(done: int, parents: int) -> None:
            context.log.info(f"{words(level)}: {done:,} of {parents:,} {plural(above)}" if depth else words(level))

        made = estimate_level(warehouse, custody, release, level, report)
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
        subject = f"The histograms of the {level}, estimated from its noisy measurements"
    else:
        above = words(release.levels[depth - 1])
        subject = f"The histograms of every {level}, estimated from noisy measurements. Those of one {above} are "
        subject += f"estimated jointly and add up to its histograms in every cell. A cell that is 0 in the {above} is "
        subject += "0 in all of them"
    first = "The total number of persons is estimated first, from its own query, and then fixed. "
    passes = first if release.levels[depth] in release.design.total_first else ""
    return f"""{subject}.

{passes}The estimates are the nonnegative counts that minimize the sum of squared distances to the measurements, each
divided by σ², subject to the invariants and bounds. A duality gap certifies that each solution is optimal. The solution
is then rounded to the nearest integers, query by query from coarse to fine, under the same constraints.

This stage reads only public tables, so it charges nothing. The estimates are stored all together or not at all. They
are not computed again if nothing that they depend on has changed, so a new run continues where a killed run stopped."""
