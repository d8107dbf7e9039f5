"""The assets `postprocessed` and `tables` of a PHSafe release, and `exact_measurements` of one without a draw.

Finished tables are made from estimates, and measurement files from measurements. This module adds up measured cells in
each population group; `mechanisms.phsafe.estimation` and `averages` compute the estimates from the sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.cef.census import find_place_names, name_states
from assets.conventions import StageKind, named, preview
from assets.measurement.grid import GridCounts
from assets.measurement.method import COUNTS, MEASUREMENTS
from assets.phsafe.release import PHSafeRelease
from assets.release.published import ERRORS, ESTIMATE, LOWER, STANDARD_ERROR, UPPER
from assets.release.stage import build_stage, store_rows
from assets.tabulation.asset import build_tables
from mechanisms.phsafe.averages import estimate_averages
from mechanisms.phsafe.design import PHSafeDesign, Z
from mechanisms.phsafe.estimation import estimate_counts
from mechanisms.phsafe.runs import FILES, ITERATIONS, LEVELS, NATION_ID, SHELL, Cell, Level, Part, Run, Shell
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Recipe, Session

ESTIMATES = "estimates"
NATION = "Nation"

NOISE_MARGIN = "90% margin of the noise of the count: 1.645 standard deviations, rounded up to hundredths"

_COLUMNS = {
    "table_name": "The finished table, PH1 to PH8",
    "level": "Population group level",
    "cell": "Number of the table's cell",
    "estimate": "Estimate of the count or average from the measurements",
    "lower": "Lower end of the 90% interval",
    "upper": "Upper end of the 90% interval",
    "standard_error": "Standard deviation of the noise of a count; empty for an average",
    "noise_margin": f"{NOISE_MARGIN}; empty for an average",
}

_HUNDREDTHS = pa.decimal128(18, 2)
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("table_name", "level", "region_type", "region_id", "iteration_code")),
        ("cell", pa.int64()),
        *((name, _HUNDREDTHS) for name in (*ERRORS, "noise_margin")),
    ]
)


def list_measured_files(design: PHSafeDesign) -> tuple[str, ...]:
    """The names of the measurement files (of eleven) whose runs a design releases."""
    released = {run.name for run in design.released_runs}
    return tuple(name for name, file in FILES.items() if file.run in released)


def measured_table(release: PHSafeRelease, name: str) -> Table:
    return release.public(f"measured_{name.lower()}")


def finished_table(release: PHSafeRelease, name: str) -> Table:
    return release.public(f"finished_{name.lower()}")


def table_recipes(session: Session, release: PHSafeRelease) -> dict[Table, Recipe]:
    made: dict[Table, Recipe] = {
        measured_table(release, name): file_recipe(session, name, release.public(MEASUREMENTS), noisy=True)
        for name in list_measured_files(release.design)
    }
    regions, names = name_states(find_place_names(release.dataset), release.design.states) | {NATION_ID: NATION}, {}
    for name, column, words in (("regions", "region_id", regions), ("iterations", "iteration_code", ITERATIONS)):
        names[name] = session.register(name, pa.table({column: list(words), "name": list(words.values())}))
    for name in release.products:
        shell = SHELL[name]
        cells = pa.table({"cell": [cell.number for cell in shell.cells], "label": [cell.label for cell in shell.cells]})
        made[finished_table(release, name)] = (
            "phsafe/finished",
            {"table_name": name},
            {
                "estimates": release.public(ESTIMATES),
                "type": Fragment("DECIMAL(18, 2)" if shell.averages else "BIGINT"),
                "averages": shell.averages,
                "cells": session.register(f"cells_{name}", cells),
                **names,
            },
        )
    return made


def file_recipe(session: Session, name: str, counts: Table, *, noisy: bool) -> Recipe:
    """The recipe of a file in the production format, from the measurements or the exact counts of its run."""
    pairs = [(cell, part) for cell, parts in FILES[name].cells.items() for part in parts]
    mapping = session.register(
        f"parts_{name}", pa.table({"cell": [cell for cell, _ in pairs], "data_cell": [part for _, part in pairs]})
    )
    return (
        "phsafe/measured",
        {"run": FILES[name].run},
        {"measurements": counts, "parts": mapping, "cell_column": f"{name.upper()}_DATA_CELL", "noisy": noisy},
    )


def estimate_tables(method: GridCounts[PHSafeRelease], session: Session) -> pa.Table:
    """The estimates of all declared tables, with the columns of `_SCHEMA`, at every level for which all runs of a table
    are released.

    Averages have no standard error: the ratio of two noisy counts has no finite variance. Raises GridError unless there
    is exactly one measurement of every declared cell.
    """
    release, slices = method.release, method.slices(method.read_measurements(session))
    measured: dict[Level, dict[str, _Measurements]] = {level: {} for level in LEVELS}
    for (run, level, _), (query, part) in zip(release.design.released, slices, strict=True):
        groups = part.take(np.arange(0, len(part), len(run.cells)))
        counts = part["count"].to_numpy().reshape(-1, len(run.cells))
        measured[level][run.name] = _Measurements(run, groups, counts, float(query.variance))
    rows = [
        _estimate_cell(release, shell, level, cell, measured[level])
        for shell in (SHELL[name] for name in release.products)
        for level in LEVELS
        if all(run in measured[level] for run in shell.runs)
        for cell in shell.cells
    ]
    return pa.concat_tables([_SCHEMA.empty_table(), *rows])


@dataclass(frozen=True)
class _Measurements:
    """The measurements of a run at a level: counts of shape (groups, cells), and the variance of their noise."""

    run: Run
    groups: pa.Table
    counts: NDArray[np.int64]
    variance: float

    def add_up(self, part: Part) -> tuple[NDArray[np.int64], float]:
        """The sums of cells in every group, shape (groups,), and the variance of their noise."""
        places = [self.run.cells.index(cell) for cell in part.cells]
        return self.counts[:, places].sum(axis=1), len(places) * self.variance


def _estimate_cell(
    release: PHSafeRelease, shell: Shell, level: Level, cell: Cell, measured: Mapping[str, _Measurements]
) -> pa.Table:
    design, counted = release.design, measured[cell.counted.run]
    noisy, variance = counted.add_up(cell.counted)
    if cell.per is None:
        numbers = estimate_counts(noisy, variance, len(cell.counted.cells), design.noise, release.declaration.interval)
        deviations = np.full(len(noisy), variance**0.5)
        deviation, margin = _hundredths(deviations), _hundredths(np.ceil(float(Z) * deviations * 100) / 100)
    else:
        # A unit has at most as many persons in the numerator as its run's truncation keeps.
        most = design.truncation(counted.run) or 0
        denominators = measured[cell.per.run].add_up(cell.per)
        numbers = estimate_averages(noisy, variance, *denominators, cell.least, most, design.noise)
        deviation = margin = pa.nulls(len(noisy), _HUNDREDTHS)
    return pa.table(
        {
            "table_name": pa.repeat(shell.name, len(noisy)),
            "level": pa.repeat(level.name, len(noisy)),
            **{name: counted.groups[name] for name in ("region_type", "region_id", "iteration_code")},
            "cell": pa.repeat(pa.scalar(cell.number, pa.int64()), len(noisy)),
            ESTIMATE: _hundredths(numbers.estimate),
            STANDARD_ERROR: deviation,
            LOWER: _hundredths(numbers.lower),
            UPPER: _hundredths(numbers.upper),
            "noise_margin": margin,
        }
    )


def _hundredths(values: NDArray) -> pa.Array:
    """Numbers as decimals with two places, rounded to nearest."""
    hundredths = np.rint(values * 100).astype(np.int64)
    return pc.multiply(pa.array(hundredths).cast(pa.decimal128(19, 0)), Decimal("0.01")).cast(_HUNDREDTHS)


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
        code_version="3",
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
    names = {NATION_ID: NATION} | name_states(find_place_names(release.dataset), release.design.states)
    place = f"{names[region]}, {ITERATIONS['*'].lower()}"
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
