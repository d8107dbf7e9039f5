"""The asset `truncated_join` of a PHSafe release: counts of each run's records, and what truncation leaves out."""

import dagster as dg

from assets.conventions import StageKind, attributes, preview, table_schema
from assets.failures import stated_plainly
from assets.phsafe.counts import grid_counts
from assets.phsafe.join import PERSON_COLUMNS, UNIT_COLUMNS, joined_counts, write_truncation_report
from assets.phsafe.release import PHSafeRelease
from assets.release.contents import with_recodes
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session, Warehouse

CODE_VERSION = "1"
JOINED, REPORT = "truncated_join", "truncation_report"


def join_recipe(session: Session, release: PHSafeRelease) -> Recipe:
    return joined_counts(session, release.dataset, release.design.states, _truncation(release))


def counts_recipe(session: Session, release: PHSafeRelease) -> Recipe:
    released = {(run.name, level) for run, level, _ in release.design.released}
    return grid_counts(session, release.confidential(JOINED), release.design.states, released)


def build_truncated_join(release: PHSafeRelease) -> dg.AssetsDefinition:
    @dg.asset(
        key=release.key(JOINED),
        deps=[release.dataset_key("cef")],
        group_name=release.schema,
        description=_join_description(release),
        code_version=CODE_VERSION,
        **attributes(StageKind.COUNTS, Zone.CONFIDENTIAL, {"duckdb", "sql"}),
    )
    @stated_plainly(StageKind.COUNTS)
    def truncated_join(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            with session.transaction():
                write_join(session, release)
            key = with_recodes(custody.version_key(), release.dataset.recodes((*UNIT_COLUMNS, *PERSON_COLUMNS)))
            version = session.content_version([release.confidential(JOINED)], key)
            metadata = _shown_if_synthetic(session, release, release.confidential(REPORT))
            schema = table_schema(session.columns(release.confidential(JOINED)))
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version), metadata={**metadata, "dagster/column_schema": schema}
        )

    return truncated_join


def _truncation(release: PHSafeRelease) -> dict[str, int | None]:
    return {run.name: release.design.truncation(run) for run, _, _ in release.design.released}


def write_join(session: Session, release: PHSafeRelease) -> None:
    """Write the counts of the truncated join, and the report of what truncation leaves out."""
    name, values, names = join_recipe(session, release)
    session.create(release.confidential(JOINED), name, values, **names)
    report, thresholds = release.confidential(REPORT), _truncation(release)
    if any(threshold is not None for threshold in thresholds.values()):
        write_truncation_report(session, release.dataset, report, release.design.states, thresholds)
    else:
        session.run("warehouse/drop_table", table=report)


def _shown_if_synthetic(session: Session, release: PHSafeRelease, table: Table) -> dict[str, dg.MetadataValue]:
    columns = session.columns(table)
    if not release.dataset.synthetic or not columns:
        return {}
    names = ["run", "truncation", "persons_truncated", "persons_kept"]
    rows = [
        [f"{row[name]:,}" if isinstance(row[name], int) else row[name] for name in names]
        for row in session.arrow("warehouse/all", source=table).to_pylist()
    ]
    header = {
        "run": "Run",
        "truncation": "The most persons of a unit that count",
        "truncated": "Persons of the run's universe who do not count",
        "kept": "Persons who count",
    }
    return {"truncation report (synthetic data)": preview(header, rows)}


def _join_description(release: PHSafeRelease) -> str:
    lines = [
        f"- **{run.name}**: at most {threshold} persons per unit; Δ = 2τ + 2 = {run.stability(threshold)}"
        for run in dict.fromkeys(run for run, _, _ in release.design.released)
        if (threshold := release.design.truncation(run)) is not None
    ]
    return "\n".join(
        [
            "The records that each run counts (Algorithm 3 of Sexton et al.): persons of the run's universe, at most τ "
            "per unit in the order of a hash of the record, joined with the units of the run's universe that have a "
            "unique MAFID. Stored as counts by state, race, ethnicity and basis cell. Confidential.",
            "",
            *lines,
            "",
            f"`{REPORT}` shows how many persons the threshold drops in each run; its content appears on this page for "
            "synthetic datasets only.",
        ]
    )
