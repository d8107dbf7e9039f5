"""The asset `truncated_join` of a PHSafe release: counts of each run's records, and what truncation leaves out."""

import dagster as dg

from assets.conventions import StageKind, preview
from assets.phsafe.counts import grid_counts
from assets.phsafe.join import joined_counts, write_truncation_report
from assets.phsafe.release import PHSafeRelease
from assets.release.dataset import CEF
from assets.release.stage import build_stage
from resources.statements import Table
from resources.warehouse import Recipe, Session

JOINED, REPORT = "truncated_join", "truncation_report"


def join_recipe(session: Session, release: PHSafeRelease) -> Recipe:
    return joined_counts(session, release.dataset, release.design.states, _truncation(release))


def counts_recipe(session: Session, release: PHSafeRelease) -> Recipe:
    released = {(run.name, level) for run, level, _ in release.design.released}
    return grid_counts(session, release.confidential(JOINED), release.design.states, released)


def build_truncated_join(release: PHSafeRelease) -> dg.AssetsDefinition:
    return build_stage(
        release,
        JOINED,
        StageKind.COUNTS,
        _join_description(release),
        [CEF],
        lambda session: {release.confidential(JOINED): join_recipe(session, release)},
        {},
        metadata=lambda session, _: _shown_if_synthetic(session, release, release.confidential(REPORT)),
        finish=lambda session, _: write_report(session, release),
    )


def _truncation(release: PHSafeRelease) -> dict[str, int | None]:
    return {run.name: release.design.truncation(run) for run, _, _ in release.design.released}


def write_report(session: Session, release: PHSafeRelease) -> None:
    """Write the report of what truncation leaves out; without truncation, there is none."""
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
