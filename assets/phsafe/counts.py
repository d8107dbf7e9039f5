"""The counts of a PHSafe release: the asset `truncated_join`, which reads the records, and the cells made from it.

The join is Algorithm 3 of Sexton et al., written in `sql/phsafe/truncated_join.sql`. The cells and their order, which
is the order of the draw, follow from the declaration alone.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.conventions import preview
from assets.measurement.parts import PartCounts, build_counted
from assets.phsafe.release import PERSON_COLUMNS, UNIT_COLUMNS, PHSafeRelease
from assets.release.dataset import CEF
from assets.release.stage import Recipes
from mechanisms.phsafe.design import PHSafeDesign
from mechanisms.phsafe.runs import RUNS, Iterated
from resources.statements import SQL, Table, Zone
from resources.warehouse import Recipe, Session

JOINED, REPORT = "truncated_join", "truncation_report"

_CODES = {
    Iterated.HOUSEHOLDER: ("HHRACE", "HHSPAN"),
    Iterated.PERSON: ("CENRACE", "CENHISP"),
    Iterated.NOBODY: (),
}

_REPEATED = SQL("phsafe/repeated_units", "{% include 'phsafe/units_by_key.sql' %} HAVING count(*) > 1")
"""The keys shared by several units of the states, with the number of such units in each run's universe."""

_TEXTS = ("run", "level", "region_id", "region_type", "iteration_code")
_CELLS = pa.schema([*((name, pa.string()) for name in _TEXTS), ("data_cell", pa.int32())])


def list_cells(design: PHSafeDesign) -> pa.Table:
    """The cells that a design releases, in the order of the draw: run, level, region, iteration and cell."""
    cells = [
        (run.name, level.name, region, level.geography.region_type, code, cell)
        for run, level, _ in design.released
        for region in level.regions(design.states)
        for code in sorted(level.iterations.codes)
        for cell in run.cells
    ]
    return pa.table(list(zip(*cells, strict=True)), schema=_CELLS)


def counts_recipe(session: Session, joined: Table, cells: pa.Table) -> Recipe:
    """The recipe of the exact counts, zeros included, of the cells of `list_cells` in their `draw_order`."""
    return "phsafe/exact_counts", {}, {"joined": joined, "grid": session.register("grid", cells)}


def join_recipe(session: Session, release: PHSafeRelease) -> Recipe:
    """The recipe of each run's records, its truncated join or its units, by state, race, ethnicity and cell.

    Columns: `run`, `TABBLKST`, `race` and `hispanic` (codes of the householder or of the person, depending on the run's
    iterations; NULL for runs without iterations), `cell` and `count`. Records outside all cells, and zeros, are left
    out.
    """
    truncation = release.design.thresholds
    runs = [run for run in RUNS if run.name in truncation]
    states, names = {"states": list(release.design.states)}, _names(release)
    names |= {
        "unit_columns": UNIT_COLUMNS,
        "person_columns": PERSON_COLUMNS,
        "runs": [run.name for run in runs],
        "unit_runs": [run.name for run in runs if not run.joins],
        "grouping_sets": [
            ["TABBLKST", *codes, *(run.name for run in runs if run.iterated is iterated)]
            for iterated, codes in _CODES.items()
        ],
    }
    if names["truncation"]:
        names["crowded"] = session.stage("crowded_units", "phsafe/crowded_units", **names)
        names["repeated"] = session.stage("repeated_units", _REPEATED, states, **names)
    return "phsafe/joined_counts", states, names


def added_recipe(session: Session, release: PHSafeRelease, counted: Mapping[str, Any]) -> Recipe:
    """The recipe of the runs' records from the records of all partitions, named as in `assets.measurement.parts`. The
    persons and units with the same key, which are in one partition, determine whether a person is in a run's join."""
    return SQL("phsafe/added_up", "{% include 'measurement/added_up.sql' %} ORDER BY ALL"), {}, counted


def report_recipe(release: PHSafeRelease) -> Recipe:
    """The recipe of a report on the records that truncation and join drop. It has a row for each run that joins, and
    the columns:

    - `run`, and `truncation`, its τ;
    - `persons_in_universe`: all persons that satisfy the run's condition on persons, wherever they live;
    - `persons_without_unit`: of these, persons whose key belongs to no unit of the run's universe in the states, or to
      several;
    - `persons_truncated`: of the others, persons beyond the threshold;
    - `persons_kept`: the rest, the records of the truncated join;
    - `units_truncated`: units that lose persons to the threshold;
    - `units_repeated`: units of the universe that are dropped because another unit has the same key.
    """
    names = _names(release)
    return "phsafe/truncation_report", {"states": list(release.design.states), "runs": list(names["truncation"])}, names


def _names(release: PHSafeRelease) -> dict[str, Any]:
    """The tables of the CEF, and τ of each run that joins."""
    units, persons = release.dataset.cef_tables()
    thresholds = release.design.thresholds
    joining = {run.name: thresholds[run.name] for run in RUNS if thresholds.get(run.name) is not None}
    return {"units": units, "persons": persons, "truncation": joining}


def build_truncated_join(release: PHSafeRelease, parts: PartCounts[PHSafeRelease] | None) -> dg.AssetsDefinition:
    def recipes(session: Session) -> Recipes:
        return {release.confidential(JOINED): join_recipe(session, release)}

    return build_counted(
        release,
        JOINED,
        _join_description(release),
        [CEF],
        recipes,
        {},
        parts,
        shown_if_synthetic=lambda session, _: _show_report(session, release.confidential(REPORT)),
        reads=[Zone.PUBLIC],
        sealed=[release.confidential(JOINED)],
        finish=lambda session, _: write_report(session, release),
    )


def write_report(session: Session, release: PHSafeRelease) -> None:
    """Write the report on dropped records; without truncation, remove it."""
    report, (name, values, names) = release.confidential(REPORT), report_recipe(release)
    if names["truncation"]:
        session.create(report, name, values, **names)
    else:
        session.drop(report)


def _show_report(session: Session, report: Table) -> dict[str, dg.MetadataValue]:
    if not session.columns(report):
        return {}
    kept = session.arrow("warehouse/all", source=report).select(
        ["run", "truncation", "persons_truncated", "persons_kept"]
    )
    rows = [[f"{value:,}" if isinstance(value, int) else value for value in row.values()] for row in kept.to_pylist()]
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
        for run in release.design.released_runs
        if (threshold := release.design.truncation(run)) is not None
    ]
    listed = "\n".join(lines)
    return f"""The records that each run counts (Algorithm 3 of Sexton et al.): persons of the run's universe, at most \
τ per unit in the order of a hash of the record, joined with the units of the run's universe that have a unique MAFID. \
Stored as counts by state, race, ethnicity and basis cell. Confidential.

{listed}

`{REPORT}` shows how many persons the threshold drops in each run; its content appears on this page for synthetic \
datasets only."""
