"""The assets `level_…` of a TopDown release: one for each level, each downstream of the level above.

`estimation` does the work. In a release with partitions, the levels below State have a partition for each state, whose
key is the state's code. The stage of State drops the tables of states that are not in the spine, and the asset
`estimates` joins all states. With full estimation, the levels contain only persons, the asset `occupancy` contains the
units of all levels, and `estimates` joins both.
"""

import json
from collections.abc import Sequence
from hashlib import sha256

import dagster as dg

from assets.conventions import StageKind, public_table_metadata, round_figures, shorten_digest, table_schema
from assets.measurement.method import MEASUREMENTS
from assets.release.method import DRAW
from assets.release.stage import release_stage
from assets.stages import name_partition
from assets.topdown.estimation import Estimation, estimate_levels, keep_states, unite_states
from assets.topdown.information import build_information
from assets.topdown.partitions import state_partitions
from assets.topdown.reading import Scope, list_scopes
from assets.topdown.release import ESTIMATES, INFORMATION, OCCUPANCY, TEXTS, TopDownRelease
from assets.topdown.spine import pluralize, read_states
from mechanisms.topdown.design import level_of_states, words
from mechanisms.topdown.schema import PERSONS, UNITS
from resources.custody import Custody
from resources.processes import WorkerError
from resources.statements import Zone
from resources.warehouse import Warehouse

RETRIES = 2
"""The number of retries of a level after an estimating process was killed or ran out of memory."""

ESTIMATE_COLUMNS = {
    "histogram": "Histogram: persons or units",
    "number": "Number of the place within its level, as in the spine",
    "cell": "Number of the cell in the histogram",
    "count": "Estimated count; cells with count 0 are left out",
}


def build_estimates(release: TopDownRelease) -> list[dg.AssetsDefinition]:
    levels = [_build_estimates(release, depth) for depth in range(len(release.levels))]
    if release.design.full:
        levels = [*build_information(release), *levels, _build_occupancy(release)]
    return [*levels, _build_united(release)] if release.in_parts else levels


def _build_estimates(release: TopDownRelease, depth: int) -> dg.AssetsDefinition:
    level, stage = release.levels[depth], release.estimates(release.levels[depth])
    above = release.levels[depth - 1] if depth else level
    by_state = release.is_by_state(level)

    @release_stage(
        release,
        stage,
        StageKind.POSTPROCESSING,
        TEXTS(
            "estimates",
            level=words(level),
            above=words(above) if depth else "",
            by_state=by_state,
            total_first=level in release.design.total_first,
            full=release.design.full,
            types_first=release.design.is_types_first(level),
            finest=level == release.finest,
            leans=release.design.leans(PERSONS.name, level),
        ),
        [MEASUREMENTS, *([INFORMATION] if release.design.full else []), *([release.estimates(above)] if depth else [])],
        code_version="2",
        kinds={"duckdb", "numba", "highs"},
        **(state_partitions(release).options if by_state else {}),
    )
    def estimates(context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        state = name_partition(context) if by_state else ""
        scope = Scope(level, state, PERSONS.name if release.design.full else "")

        with release.adapt(warehouse).in_turns() as turns:
            (made,) = _estimate(context, turns, custody, release, scope)
        if level == level_of_states(release.levels):
            with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
                keep_states(session, release)
        table = scope.table(release)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            metadata = public_table_metadata(session, table)
            schema = table_schema(session.columns(table), ESTIMATE_COLUMNS)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(made.content),
            metadata={
                **metadata,
                DRAW: shorten_digest(made.draw_id),
                "places": made.places,
                **({pluralize(above): made.parents} if depth else {}),
                "problems solved": made.solved,
                "largest duality gap, relative": round_figures(made.gap),
                "largest violation of a constraint before rounding": round_figures(made.violation),
                "processor time (s)": round_figures(made.seconds),
                **({"estimated without races first": made.without_parts} if release.design.full else {}),
                **({"τ² by state": made.spreads} if made.spreads != "{}" else {}),
                "dagster/column_schema": schema,
            },
        )

    return estimates


def _build_occupancy(release: TopDownRelease) -> dg.AssetsDefinition:
    @release_stage(
        release,
        OCCUPANCY,
        StageKind.POSTPROCESSING,
        TEXTS("occupancy", finest=words(release.finest)),
        [release.estimates(level) for level in release.levels],
        kinds={"duckdb", "numba", "highs"},
    )
    def occupancy(context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        scopes = [scope for scope in list_scopes(release, []) if scope.histogram == UNITS.name]
        with release.adapt(warehouse).in_turns() as turns:
            return _describe(_estimate(context, turns, custody, release, *scopes))

    return occupancy


def _estimate(
    context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, release: TopDownRelease, *scopes: Scope
) -> list[Estimation]:
    def report(scope: Scope, done: int, parents: int) -> None:
        level, above = words(scope.level), scope.above(release)
        context.log.info(f"{level}: {done:,} of {parents:,} {pluralize(above.level)}" if above else level)

    try:
        return estimate_levels(warehouse, custody, release, scopes, report)
    except WorkerError:
        if context.retry_number >= RETRIES:
            raise
        raise dg.RetryRequested(max_retries=RETRIES) from None


def _describe(made: Sequence[Estimation], **metadata: int) -> dg.MaterializeResult:
    contents = json.dumps([each.content for each in made])
    return dg.MaterializeResult(
        data_version=dg.DataVersion(sha256(contents.encode()).hexdigest()),
        metadata={
            **metadata,
            "tables": len(made),
            "places": sum(each.places for each in made),
            "processor time (s)": round_figures(sum(each.seconds for each in made)),
        },
    )


def _build_united(release: TopDownRelease) -> dg.AssetsDefinition:
    by_state = [release.estimates(level) for level in release.levels if release.is_by_state(level)]
    stages = [*by_state, *([OCCUPANCY] if release.design.full else [])]

    @release_stage(
        release,
        ESTIMATES,
        StageKind.POSTPROCESSING,
        TEXTS("united estimates", levels=[f"`{stage}`" for stage in by_state], full=release.design.full),
        stages,
        code_version="2",
    )
    def estimates(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
            made = unite_states(session, custody, release)
            states = len(read_states(session, release))
        return _describe(made, states=states)

    return estimates
