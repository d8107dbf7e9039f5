"""The asset `parameters`: the accuracy that a PHSafe release's budgets give, and the effect of other parameters.

The stage needs no other asset and no record, so a release can be planned before there is any data. The launchpad takes
other parameters to try; their effect is shown in the metadata, and the declared release does not change.
"""

from decimal import Decimal
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.conventions import StageKind, attributes, named, preview, table_schema
from assets.failures import stated_plainly
from assets.phsafe.charts import margin_against_budget
from assets.phsafe.planning import Plan, answers, grid, margin_of, parameters, planned_design, rounded_up, totals
from assets.phsafe.release import PHSafeRelease
from assets.pictures import picture
from mechanisms.noise import Noise
from mechanisms.phsafe.design import DesignError, PHSafeDesign, Released
from mechanisms.phsafe.margins import exact_margin
from resources.statements import Table, Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"
PARAMETERS, PLANNING = "parameters", "planning"
"""The tables: the released runs and levels, and the budget that each margin of error of a grid needs."""

PARAMETER_COLUMNS = {
    "run": ("string", "The run, such as PH1_num"),
    "level": ("string", "The population group level, such as state_A-G"),
    "truncation": ("integer", "τ, the maximal number of persons kept in a unit; empty for runs that count units"),
    "stability": (
        "integer",
        "Δ, the maximal number of records that one added or removed person changes: 2τ + 2, or 2 units",
    ),
    "budget_exact": ("string", "ρ, or ε under pure DP, for one person added or removed, exact"),
    "budget": ("decimal", "Budget for one person added or removed, rounded up to six decimals"),
    "share": ("decimal", "Share of the release's budget, as a fraction of 1"),
    "variance": ("string", "Variance of the noise of one count, to 40 digits"),
    "standard_deviation": ("decimal", "σ, the standard deviation of the noise of one count"),
    "margin": ("decimal", "Planned 90% margin of error of one count: 1.645·Δ/√(2ρ); under pure DP, the exact margin"),
    "exact_margin": (
        "integer",
        "Least integer that bounds the noise in at least 90% of draws; empty if it was not computed",
    ),
    "groups": ("integer", "Population groups of the level: regions times iterations"),
    "cells": ("integer", "Basis cells of each group; each is a count with its own noise"),
    "budget_for_half_the_margin": ("string", "Budget that would halve the margin, exact"),
}
"""The columns of the table `parameters`: their types and descriptions."""

NULLABLE = frozenset({"truncation", "exact_margin"})
"""The columns of `parameters` that may be empty."""

PLANNING_COLUMNS = {
    **{name: PARAMETER_COLUMNS[name] for name in ("run", "truncation", "stability")},
    "margin": ("integer", "90% margin of error of one count, at any level"),
    "budget_exact": ("string", "ρ, or ε under pure DP, that this margin needs, exact"),
    "budget": PARAMETER_COLUMNS["budget"],
}
"""The columns of the table `planning`."""

_STORED = {"string": pa.string(), "integer": pa.int64(), "decimal": pa.decimal128(24, 6)}


def parameter_tables(release: PHSafeRelease) -> dict[Table, pa.Table]:
    """The content of both tables, from the design."""
    tables = {
        PARAMETERS: (PARAMETER_COLUMNS, parameters(release.design)),
        PLANNING: (PLANNING_COLUMNS, grid(release.design)),
    }
    return {
        release.public(name): pa.Table.from_pylist(
            rows, pa.schema([(column, _STORED[kind]) for column, (kind, _) in columns.items()])
        )
        for name, (columns, rows) in tables.items()
    }


def build_parameters(release: PHSafeRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "parameters"]`."""

    @dg.asset(
        key=release.key(PARAMETERS),
        group_name=release.schema,
        description=_description(release.design, release.schema),
        code_version=CODE_VERSION,
        **attributes(StageKind.PLAN, Zone.PUBLIC, {"duckdb", "matplotlib"}),
    )
    @stated_plainly(StageKind.PLAN)
    def parameters_asset(config: Plan, warehouse: Warehouse) -> dg.MaterializeResult:
        try:
            planned = planned_design(release.design, config) if config.runs else None
        except DesignError as error:
            words = f"release {release.dataset.name}/{release.name}: plan: {error}"
            raise dg.Failure(words, allow_retries=False) from None
        rows, budgets = parameters(release.design), grid(release.design)
        tables = parameter_tables(release)
        with warehouse.session(writes=Zone.PUBLIC) as session:
            with session.transaction():
                for table, source in tables.items():
                    session.create(table, "warehouse/all", source=session.register(table.name, source))
            version = session.content_version(list(tables))
            schema = table_schema(
                session.columns(release.public(PARAMETERS)),
                {name: words for name, (_, words) in PARAMETER_COLUMNS.items()},
            )
        metadata: dict[str, Any] = {
            "margin against budget": picture(
                margin_against_budget(release.design, planned),
                "Falling lines of the 90% margin of error of one count against its budget, with a mark for each of the "
                f"{len(rows)} released pairs of a run and a level. The table `parameters` has their figures.",
            ),
            "parameters": _parameters_preview(release.design, rows),
            **totals(release.design, release.delta),
            "budget for a margin": _grid_preview(release.design, budgets),
            "table": named(release.public(PARAMETERS)),
            "planning table": named(release.public(PLANNING)),
            "dagster/row_count": len(rows),
            "dagster/column_schema": schema,
        }
        if planned:
            metadata |= _plan_metadata(release, config, planned)
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    return parameters_asset


def _parameters_preview(design: PHSafeDesign, rows: list[dict[str, Any]]) -> dg.MetadataValue:
    header = ["run, level", design.noise.symbol, "σ", "90% margin"]
    return preview(
        header,
        [
            (
                f"{row['run']} {row['level']}",
                str(row["budget"]),
                f"{row['standard_deviation']:,.2f}",
                f"{row['margin']:,.2f}",
            )
            for row in rows
        ],
    )


def _grid_preview(design: PHSafeDesign, planning: list[dict[str, Any]]) -> dg.MetadataValue:
    """One row for each margin and Δ, because all runs with the same Δ need the same budget."""
    margins = sorted({row["margin"] for row in planning})
    budgets = {(row["stability"], row["margin"]): row["budget"] for row in planning}
    runs: dict[int, list[str]] = {}
    for run, stability in dict.fromkeys((row["run"], row["stability"]) for row in planning):
        runs.setdefault(stability, []).append(run)
    symbol = design.noise.symbol
    return preview(
        ["margin", "Δ", symbol, "runs"],
        [
            (f"±{margin:,}", stability, _or_dash(budgets.get((stability, margin)), "f"), ", ".join(names))
            for margin in margins
            for stability, names in runs.items()
        ],
    )


def _plan_metadata(release: PHSafeRelease, plan: Plan, planned: PHSafeDesign) -> dict[str, Any]:
    """For every level of the planned runs, budget and margin as planned and as declared; and the totals."""
    symbol = planned.noise.symbol
    header = ["run, level", "of", symbol, "90% margin"]
    rows = [
        row
        for declared, each in answers(release.design, plan, planned)
        for row in _planned_and_declared(release.design, declared, planned, each)
    ]
    now = totals(release.design, release.delta)
    return {
        "plan": preview(header, rows),
        "plan: totals": preview(
            ["quantity", "of", "total"],
            [
                (name, of, value)
                for name, planned_total in totals(planned, release.delta).items()
                for of, value in (("plan", planned_total), ("declared", now[name]))
            ],
        ),
    }


def _planned_and_declared(
    design: PHSafeDesign, declared: Released | None, planned: PHSafeDesign, each: Released
) -> list[tuple[str, str, str, str]]:
    """The rows of a run at a level: as planned, and as declared."""
    name = f"{each.run.name} {each.level.name}"
    truncation, stability = _or_dash(planned.truncation(each.run)), planned.stability(each.run)
    exact = exact_margin(planned.noise_of(each.run, each.level))
    margin = f"{margin_of(planned, each):,.2f}" + ("" if exact is None else f", exactly {exact:,}")
    rows = [(name, f"plan: τ = {truncation}, Δ = {stability}", str(rounded_up(each.budget)), margin)]
    if declared is None:
        return [*rows, (name, "declared", "not released", "–")]
    return [*rows, (name, "declared", str(rounded_up(declared.budget)), f"{margin_of(design, declared):,.2f}")]


def _or_dash(value: int | Decimal | None, form: str = ",") -> str:
    return "–" if value is None else f"{value:{form}}"


def _description(design: PHSafeDesign, schema: str) -> str:
    if design.noise is Noise.GAUSSIAN:
        law = "discrete Gaussian noise, σ² = Δ²/2ρ, with a 90% margin of error of 1.645·σ; so ρ = (1.645²/2)·Δ²/margin²"
    else:
        law = "discrete Laplace noise of scale Δ/ε, with the exact least 90% margin of error"
    return f"""For every run and level, the truncation τ, the sensitivity Δ = 2τ + 2 (2 for runs of units), the budget
and the accuracy: {law}.

This asset reads no records. To plan a release, launch it with other parameters for some runs. Their effect is shown in
the metadata, and the declared release does not change:

    ops:
      {schema}__parameters:
        config:
          runs:
            PH3:
              truncation: 7
              moe: {{state_A-G: 25}}
              budget: {{"state_*": 1/100}}"""
