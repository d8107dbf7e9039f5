"""The assets `utility` and `experiment`: the errors of the release, and those at other swap rates.

Both compare with the confidential records and are confidential. The UI shows their figures only for a synthetic
dataset. The chart of ε against p depends on invariants only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from statistics import median
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.conventions import StageKind, named, preview
from assets.pictures import picture
from assets.release.dataset import CEF
from assets.release.method import Method
from assets.release.release import DeclarationError
from assets.release.stage import release_stage
from assets.swapping.cells import SWAPPED
from assets.swapping.declaration import ExperimentDeclaration
from assets.swapping.draw import SwappingInputs, strata
from assets.swapping.errors import experiment_errors, product_errors
from assets.swapping.product import titles_of
from assets.swapping.release import SwappingRelease
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Warehouse

_ERRORS = pa.schema(
    [
        ("product", pa.string()),
        ("mape", pa.float64()),
        ("largest_difference", pa.int64()),
        ("cells", pa.int64()),
        ("empty_cells", pa.int64()),
    ]
)
STRATA = (2, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""The values of b in the chart of ε against the swap rate, as in Figure 2 of Bailie, Gong and Meng."""


def build_utility(method: Method[SwappingRelease, SwappingInputs, Any]) -> list[dg.AssetsDefinition]:
    """The assets `[dataset, release, "utility"]` and, if one is declared, `[dataset, release, "experiment"]`."""
    release = method.release
    return [
        _utility(release),
        *([_experiment(method, release.declaration.experiment)] if release.declaration.experiment else []),
    ]


def _utility(release: SwappingRelease) -> dg.AssetsDefinition:
    @release_stage(
        release,
        "utility",
        StageKind.UTILITY,
        "The error of each product: MAPE, the mean over its cells of |true − swapped| / true. Confidential, because it "
        "depends on the true counts; never published. The chart shows ε by Theorem 1 against the swap rate p; marks "
        "show the smallest ε for each b, ½ ln(b + 1), and this release.",
        [CEF, "swapped"],
        kinds={"duckdb", "matplotlib"},
    )
    def utility(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        from assets.swapping.charts import epsilon_against_swap_rate

        table = release.confidential("utility")
        with warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
            errors = product_errors(session, release, release.public(SWAPPED))
            rows = pa.Table.from_pylist([asdict(error) for error in errors], schema=_ERRORS)
            with session.transaction():
                session.create(table, "warehouse/all", source=session.register("errors", rows))
            version = session.content_version([table], custody.version_key())
            plain = release.design.plain_rate
            b = strata(session, release)[1] if plain is not None else 0
        metadata: dict[str, Any] = {
            "ε against swap rate": picture(
                epsilon_against_swap_rate(STRATA, (b, plain) if b and plain is not None else None),
                f"Lines of ε against the swap rate for largest strata of {STRATA[0]} to {STRATA[-1]:,} records; ε "
                "falls up to a rate near 1 and rises with the stratum. " + _this_release(b, plain),
            ),
        }
        metadata["table"] = named(table)
        if release.dataset.synthetic:
            titles = titles_of(release.declaration.products)
            shown = [
                (titles[error.product], "none" if error.mape is None else f"{error.mape:.4%}", f"{error.cells:,}")
                for error in errors
            ]
            metadata["MAPE (synthetic data)"] = preview(["product", "MAPE", "cells"], shown)
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    return utility


def _experiment(
    method: Method[SwappingRelease, SwappingInputs, Any], experiment: ExperimentDeclaration
) -> dg.AssetsDefinition:
    release = method.release
    rates = ", ".join(str(rate) for rate in sorted(experiment.swap_rates))

    @release_stage(
        release,
        "experiment",
        StageKind.UTILITY,
        f"MAPE of {experiment.product} over {experiment.draws} draws at each of the swap rates {rates}. The draws are "
        "not charged, so this is possible only on a synthetic dataset.",
        [CEF, "invariants"],
        kinds={"duckdb", "numba", "matplotlib"},
    )
    def experiment_asset(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        if not release.dataset.synthetic:
            raise DeclarationError(f"{release.schema}: only a dataset declared synthetic allows an experiment")
        table = release.confidential("experiment")
        errors: dict[Fraction, list[float]] = {rate: [] for rate in sorted(experiment.swap_rates)}
        rows = []
        with warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
            draw_id = method.describe(session, custody).draw_id
            key = custody.derive(f"experiment beside draw {draw_id}")
            for rate, draw, error in experiment_errors(session, release, experiment, key):
                errors[rate].append(error.mape or 0.0)
                rows.append({"swap_rate": str(rate), "draw": draw, **asdict(error)})
            with session.transaction():
                session.create(table, "warehouse/all", source=session.register("draws", pa.Table.from_pylist(rows)))
            version = session.content_version([table], custody.version_key())
        from assets.swapping.charts import mape_boxplots

        title = f"{release.dataset.title}: error of {experiment.product}"
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                "MAPE against swap rate": picture(mape_boxplots(errors, title), _medians(errors, title)),
                "draws": len(rows),
                "table": named(table),
            },
        )

    return experiment_asset


def _this_release(b: int, swap_rate: Fraction | None) -> str:
    if swap_rate is None:
        return "This release is no plain swap, and has no mark."
    return f"This release: p = {swap_rate}, b = {b:,}." if b else "This release swaps nothing."


def _medians(errors: Mapping[Fraction, Sequence[float]], title: str) -> str:
    each = ", ".join(f"{median(draws):.1%} at swap rate {rate}" for rate, draws in errors.items())
    return f"{title}. Boxplots of the MAPE of draws, with medians {each}."
