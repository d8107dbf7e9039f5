"""The assets `spine`, `histograms`, `invariants` and `noisy_measurements` of a TopDown release.

Here belong the stages from the CEF to the draw. What each does belongs in the modules named after it; the stages after
the draw belong in `estimation_asset`, `microdata`, `tables` and `accuracy`.
"""

import dagster as dg

from assets.charge.drawing import draw_metadata, make_draw
from assets.conventions import DRAW, INVARIANT, attributes, preview, public_table_metadata, table_schema
from assets.release.draw import publish_version
from assets.release.method import Method
from assets.topdown.draw import TopDownDraw
from assets.topdown.histograms import histograms_version, write_histograms, write_invariants
from assets.topdown.measurements import COLUMNS
from assets.topdown.release import HISTOGRAMS, HISTOGRAMS_VERSION, INVARIANTS, MEASUREMENTS, SPINE, TopDownRelease
from assets.topdown.spine import places_of, summary, write_spine
from mechanisms.topdown.design import SCHEMAS, words
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"

SPINE_COLUMNS = {
    "level": "Geographic level",
    "depth": "Its number, 0 for the widest",
    "number": "Number of the place within its level",
    "geoid": "Code of the place",
    "parent": "Number of the place above that it lies in",
}

INVARIANT_COLUMNS = {
    "invariant": "What is counted",
    "level": "Geographic level",
    "number": "Number of the place within its level",
    "geoid": "Code of the place",
    "category": "Type of group quarters; 0 for other counts",
    "count": "The exact count",
}


def build_spine(release: TopDownRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "spine"]`."""

    @dg.asset(
        key=release.key("spine"),
        deps=[release.dataset_key("cef")],
        group_name=release.schema,
        description=(
            f"The places of {len(release.levels)} levels, {', '.join(map(words, release.levels))}: those that a unit "
            "of the CEF lies in, checked to be a tree. Which places there are is known exactly to everyone: an "
            "invariant of every TopDown release."
        ),
        code_version=CODE_VERSION,
        **attributes("invariants", Zone.PUBLIC, {"duckdb", "sql"}, crossing=INVARIANT),
    )
    def spine(warehouse: Warehouse) -> dg.MaterializeResult:
        table = release.public(SPINE)
        with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
            with session.transaction():
                write_spine(session, release)
            levels = [(words(level), f"{places:,}", f"{most:,}") for level, places, most in summary(session, table)]
            return dg.MaterializeResult(
                data_version=dg.DataVersion(session.content_version([table])),
                metadata={
                    **public_table_metadata(session, table),
                    "places by level": preview(["level", "places", "most places below one"], levels),
                    "dagster/column_schema": table_schema(session.columns(table), SPINE_COLUMNS),
                },
            )

    return spine


def build_histograms(release: TopDownRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "histograms"]`."""
    cells = " and ".join(f"{schema.size:,} cells of {name}" for name, schema in SCHEMAS.items())

    @dg.asset(
        key=release.key("histograms"),
        deps=[release.dataset_key("cef"), release.key("spine")],
        group_name=release.schema,
        description=(
            f"The exact counts of every {words(release.finest)}: {cells}, those above 0. Confidential; only a keyed "
            "version of the table, which names the draw, is seen by the charge."
        ),
        code_version=CODE_VERSION,
        **attributes("measurement", Zone.CONFIDENTIAL, {"duckdb", "sql"}),
    )
    def histograms(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        table = release.confidential(HISTOGRAMS)
        with warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
            with session.transaction():
                write_histograms(session, release)
            version = histograms_version(session, release, custody)
            schema = table_schema(session.columns(table))
        publish_version(warehouse, release.public(HISTOGRAMS_VERSION), version)
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata={"dagster/column_schema": schema})

    return histograms


def build_invariants(release: TopDownRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "invariants"]`."""
    held = [f"- {statistic}" for statistic in release.design.held]

    @dg.asset(
        key=release.key("invariants"),
        deps=[release.dataset_key("cef"), release.key("spine")],
        group_name=release.schema,
        description="\n".join(["What the release holds exactly, and may publish as it is:", "", *held])
        if held
        else "The release holds nothing exactly but which places there are.",
        code_version=CODE_VERSION,
        **attributes("invariants", Zone.PUBLIC, {"duckdb", "sql"}, crossing=INVARIANT),
    )
    def invariants(warehouse: Warehouse) -> dg.MaterializeResult:
        table = release.public(INVARIANTS)
        with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
            with session.transaction():
                write_invariants(session, release)
            return dg.MaterializeResult(
                data_version=dg.DataVersion(session.content_version([table])),
                metadata={
                    **public_table_metadata(session, table),
                    "dagster/column_schema": table_schema(session.columns(table), INVARIANT_COLUMNS),
                },
            )

    return invariants


def build_noisy_measurements(method: Method[TopDownRelease, TopDownDraw]) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "noisy_measurements"]`."""
    release = method.release

    @dg.asset(
        key=release.key("noisy_measurements"),
        deps=[release.key("histograms"), release.key("charge")],
        group_name=release.schema,
        description=_measurements_description(release),
        code_version=CODE_VERSION,
        **attributes("measurement", Zone.PUBLIC, {"duckdb", "numba"}, crossing=DRAW),
    )
    def noisy_measurements(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        draw, entry, version = make_draw(method, warehouse, custody, ledger)
        table = release.public(MEASUREMENTS)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            places = places_of(session, release)
            metadata = public_table_metadata(session, table)
            schema = table_schema(session.columns(table), COLUMNS)
        measured = [
            (
                each.histogram,
                words(each.level),
                each.query,
                f"{float(each.loss.rounded_up(8)):.8f}",
                f"{float(each.variance) ** 0.5:,.2f}",
                f"{places[each.level] * each.marginal.size:,}",
            )
            for each in release.design.measured
        ]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                **metadata,
                **draw_metadata(release, draw, entry),
                "answers": sum(places[each.level] * each.marginal.size for each in release.design.measured),
                "measured": preview(["histogram", "level", "query", "ρ", "σ", "answers"], measured),
                "dagster/column_schema": schema,
            },
        )

    return noisy_measurements


def _measurements_description(release: TopDownRelease) -> str:
    return f"""Every query of persons and units in every place of {len(release.levels)} levels, all cells, zero or not,
plus independent discrete Gaussian noise with the parameter σ² = 1/ρ, ρ being the query's part at its level.

The randomness is AES-256-CTR under a key derived for this draw alone, sampled exactly (no floating point decides a
probability); custody is {release.custody.value}. It refuses to run without the charge for exactly these histograms and
parameters. A row is a place and a query; its answers, some of them negative, stand in a list in the order of the
query's cells."""
