"""The assets `utility` and `experiment`: the errors of the release, and the errors at other swap rates.

Both compare with the confidential records, so they are confidential. The UI shows their figures only for a synthetic
dataset. The chart of ε against the swap rate depends on invariants only.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from statistics import median
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.conventions import StageKind, named, preview
from assets.pictures import BLUE, INK, PALE_BLUE, QUIET, VERMILION, blank, picture, png, shades
from assets.release.contents import require_synthetic
from assets.release.method import Method
from assets.release.release import DeclarationError
from assets.release.stage import build_stage, release_stage, store_rows
from assets.swapping.counting import drop_former_counts
from assets.swapping.declaration import ExperimentDeclaration, SwappedProduct, name_products
from assets.swapping.draw import SWAPPED, SwappingInputs, cells_table, decoding_names, stage_decoded
from assets.swapping.invariants import count_strata
from assets.swapping.plan import estimate_epsilon
from assets.swapping.records import read_contingency, stage_of_records, stage_records
from assets.swapping.release import SwappingRelease
from assets.swapping.statement import PROSE
from assets.swapping.tables import product_names, stage_counted
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.loss import smallest_attainable, theorem_1
from mechanisms.swapping.permutation import Contingency, permute
from resources.custody import Custody
from resources.ledger import Ledger
from resources.machine import count_cores
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Session, Warehouse

STRATA = (2, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""The values of b in the chart of ε against the swap rate, as in Figure 2 of Bailie, Gong and Meng."""

_DRAW_NUMBER = "draw_number"
_CELLS_AT_A_TIME = 2_000_000
"""The approximate number of cells of the experiment's draws that one statement compares."""

_WITHOUT_CELLS = {"mape": None, "largest_difference": None, "cells": 0, "empty_cells": 0}
"""The error of a product without cells, such as persons in vacant units, in the form of `swapping/mape`.

The mean of |true − swapped| / true covers the cells with a positive true count; `empty_cells` counts all others.
"""

_INTEGERS = ("largest_difference", "cells", "empty_cells")
_ERRORS = pa.schema([("product", pa.string()), ("mape", pa.float64()), *((name, pa.int64()) for name in _INTEGERS)])


def build_utility(release: SwappingRelease) -> dg.AssetsDefinition:
    table = release.confidential("utility")

    def describe(session: Session, _: Sequence[Table]) -> dict[str, Any]:
        plain = release.design.plain_rate
        b = count_strata(session, release)[1] if plain is not None else 0
        mark = " swaps nothing." if plain else " is not a plain swap, and has no mark."
        if b:
            mark = f": p = {plain}, b = {b:,}."
        metadata: dict[str, Any] = {
            "ε against swap rate": picture(
                draw_epsilon((b, plain) if b and plain is not None else None),
                f"Lines of ε against the swap rate for largest strata of {STRATA[0]} to {STRATA[-1]:,} records; ε "
                f"falls up to a rate near 1 and rises with the stratum. This release{mark}",
            ),
            "table": named(table),
        }
        return metadata

    def show_errors(session: Session, _: Sequence[Table]) -> dict[str, Any]:
        titles = name_products(release.declaration.products)
        cells = []
        for error in session.arrow("warehouse/all", source=table).to_pylist():
            mape = "none" if error["mape"] is None else f"{error['mape']:.2%}"
            cells.append((titles[error["product"]], mape, f"{error['cells']:,}"))
        return {"MAPE (synthetic data)": preview(["product", "MAPE", "cells"], cells)}

    return build_stage(
        release,
        "utility",
        StageKind.UTILITY,
        PROSE("utility"),
        [stage_of_records(release), "swapped"],
        lambda session: {table: store_rows(session, "errors", _measure_errors(session, release))},
        metadata=describe,
        shown_if_synthetic=show_errors,
        # No other stage writes the confidential zone.
        prepare=lambda session, custody: drop_former_counts(session, custody, release),
        version=lambda session, tables, custody: session.content_version(tables, custody.version_key()),
        reads=[Zone.PUBLIC],
        kinds={"duckdb", "matplotlib"},
    )


def build_experiment(
    method: Method[SwappingRelease, SwappingInputs, Any], experiment: ExperimentDeclaration
) -> dg.AssetsDefinition:
    release = method.release
    rates = ", ".join(str(rate) for rate in sorted(experiment.swap_rates))

    @release_stage(
        release,
        "experiment",
        StageKind.UTILITY,
        f"The mean absolute percentage error (MAPE) of {experiment.product} over {experiment.draws} draws at each of "
        f"the swap rates {rates}. The draws are not charged, so this is possible only on a synthetic dataset.",
        [stage_of_records(release), "invariants"],
        kinds={"duckdb", "numba", "matplotlib"},
    )
    def experiment_asset(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        if not release.dataset.synthetic:
            raise DeclarationError(f"{release.schema}: only a dataset declared synthetic allows an experiment")
        table = release.confidential("experiment")
        errors: dict[Fraction, list[float]] = {rate: [] for rate in sorted(experiment.swap_rates)}
        rows = []
        with warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
            require_synthetic(session, ledger, release.dataset)
            draw_id = method.describe(session, custody).draw_id
            key = custody.derive(f"experiment beside draw {draw_id}")
            for rate, draw, error in run_experiment(session, release, experiment, key):
                errors[rate].append(error["mape"] or 0.0)
                rows.append({"swap_rate": str(rate), "draw": draw, **error})
            with session.transaction():
                session.create(table, "warehouse/all", source=session.register("draws", pa.Table.from_pylist(rows)))
            version = session.content_version([table], custody.version_key())
        title = f"{release.dataset.title}: error of {experiment.product}"
        medians = ", ".join(f"{median(draws):.1%} at swap rate {rate}" for rate, draws in errors.items())
        words = f"{title}. Boxplots of the MAPE of draws, with medians {medians}."
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                "MAPE against swap rate": picture(draw_boxplots(errors, title), words),
                "draws": len(rows),
                "table": named(table),
            },
        )

    return experiment_asset


def _measure_errors(session: Session, release: SwappingRelease) -> pa.Table:
    """The error of every product of a release, without totals."""
    _, original = _stage_original(session, release)
    errors = []
    for product in release.declaration.products:
        truth = _tabulate(session, release, product, original)
        (error,) = _compare(session, release, product, truth, release.public(SWAPPED))
        errors.append({"product": product.name, **error})
    return pa.Table.from_pylist(errors, schema=_ERRORS)


def run_experiment(
    session: Session, release: SwappingRelease, experiment: ExperimentDeclaration, key: bytes
) -> Iterator[tuple[Fraction, int, dict[str, Any]]]:
    """The error of the experiment's product for each swap rate and each of its draws, numbered from 1.

    The key, of 32 bytes, seeds the experiment's own random streams.
    """
    (product,) = (product for product in release.declaration.products if product.name == experiment.product)
    table, original = _stage_original(session, release)
    truth = _tabulate(session, release, product, original)
    plan = [(rate, number) for rate in sorted(experiment.swap_rates) for number in range(1, experiment.draws + 1)]

    def draw(rate: Fraction, number: int) -> Contingency:
        return permute(table, rate, RandomStream(key, f"experiment {rate} {number}"))

    with ThreadPoolExecutor(count_cores()) as threads:
        size = max(1, _CELLS_AT_A_TIME // max(1, len(table.count)))
        for batch in (plan[first : first + size] for first in range(0, len(plan), size)):
            draws = _stage_draws(session, release, list(threads.map(draw, *zip(*batch, strict=True))))
            compared = _compare(session, release, product, truth, draws, [_DRAW_NUMBER])
            errors = {error.pop(_DRAW_NUMBER): error for error in compared}
            for position, (rate, number) in enumerate(batch):
                yield rate, number, {"product": product.name, **errors.get(position, _WITHOUT_CELLS)}


def _stage_original(session: Session, release: SwappingRelease) -> tuple[Contingency, Fragment]:
    table = read_contingency(session, release, stage_records(session, release))
    return table, stage_decoded(session, release, table, "original_records")


def _stage_draws(session: Session, release: SwappingRelease, tables: Sequence[Contingency]) -> Fragment:
    """Decode contingency tables into one temporary table of values, with the position of each in `_DRAW_NUMBER`."""
    columns = [
        cells_table(table).append_column(_DRAW_NUMBER, pa.array(np.full(len(table.count), number, dtype=np.int32)))
        for number, table in enumerate(tables)
    ]
    cells = session.register("cells_of_draws", pa.concat_tables(columns))
    names = decoding_names(release, cells) | {"kept": [_DRAW_NUMBER, "holding_code"]}
    return session.stage("drawn_records", "swapping/decoded", **names)


def _tabulate(
    session: Session,
    release: SwappingRelease,
    product: SwappedProduct,
    units: Fragment | Table,
    name: str = "truth",
    draws: Sequence[str] = (),
) -> Fragment:
    names = product_names(release, product, stage_counted(session, release, product, units))
    names |= {
        "columns": [*draws, *product.columns],
        "totals": {},
        "listed": [*([name] for name in draws), *names["listed"]],
    }
    return session.stage(name, "swapping/product", **names)


def _compare(
    session: Session,
    release: SwappingRelease,
    product: SwappedProduct,
    truth: Fragment,
    swapped: Fragment | Table,
    draws: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The errors of a product of swapped records, a row for each draw, with the columns that distinguish draws."""
    published = _tabulate(session, release, product, swapped, "published", draws)
    names = {"columns": list(product.columns), "draws": list(draws)}
    return list(session.arrow("swapping/mape", original=truth, swapped=published, **names).to_pylist())


def draw_boxplots(errors: Mapping[Fraction, Sequence[float]], title: str) -> bytes:
    """Draw the mean absolute percentage errors of draws as one box for each swap rate, with its median above it.

    The form follows Figure 1 of Bailie, Gong and Meng. Whiskers reach to the farthest draw within 1.5 times the
    interquartile range; draws beyond are points. `errors` are fractions of 1, and the picture is 1080 pixels wide.
    """
    rates = sorted(errors)
    percent = [100 * np.asarray(errors[rate], dtype=float) for rate in rates]
    numbers = sorted({len(draws) for draws in percent})
    number = " to ".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))
    remark = f"{number} draw{'s' if numbers[-1] > 1 else ''} at each swap rate; the median is above each box"
    figure, axes = blank(title, remark, height=4.2)
    axes.boxplot(
        percent,
        widths=0.5,
        patch_artist=True,
        boxprops={"facecolor": PALE_BLUE, "edgecolor": BLUE, "linewidth": 1},
        medianprops={"color": VERMILION, "linewidth": 1.4},
        whiskerprops={"color": BLUE, "linewidth": 1},
        capprops={"color": BLUE, "linewidth": 1},
        flierprops={"marker": "o", "markersize": 3.5, "markerfacecolor": "none", "markeredgecolor": BLUE},
    )
    above: dict[str, Any] = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center", "va": "bottom"}
    for position, draws in enumerate(percent, start=1):
        axes.annotate(f"{np.median(draws):.1f}%", (position, draws.max()), fontsize=10, color=INK, **above)
    axes.set_xticks(range(1, len(rates) + 1), [_percent(rate) for rate in rates])
    axes.set_ylim(0, 1.14 * max(draws.max() for draws in percent) or 1)
    axes.yaxis.set_major_formatter("{x:g}%")
    axes.set_xlabel("Swap rate p")
    axes.set_ylabel("Mean absolute percentage error (MAPE)")
    return png(figure)


def draw_epsilon(marked: tuple[int, Fraction] | None) -> bytes:
    """Draw ε by Theorem 1 against the swap rate, with one line for each of `STRATA`.

    The form follows Figure 2 of Bailie, Gong and Meng. Diamonds mark the smallest ε that each b can attain, and dotted
    lines the swap rates 5% and 50%. The picture, 1080 pixels wide, also marks b and p of a release, if they are given.
    """
    from matplotlib.ticker import MaxNLocator

    remark = (
        "b: the largest stratum with two distinct records. ◇: the smallest ε attainable for b.\n"
        "Different b come with different invariants; their values of ε are not comparable."
    )
    figure, axes = blank("Protection loss by swap rate and largest stratum", remark, height=5.4)
    rates = np.linspace(0.005, 1 - 1e-4, 4000)
    top = float(estimate_epsilon(STRATA[-1], rates).max())
    for rate, words in ((0.05, "p = 5%"), (0.5, "p = 50%")):
        axes.axvline(rate, color=QUIET, linestyle=":", linewidth=1.2, zorder=1)
        axes.text(rate, 0.985, f" {words}", transform=axes.get_xaxis_transform(), va="top", fontsize=10, color=QUIET)
    diamond: dict[str, Any] = {"marker": "D", "markersize": 6.5, "markerfacecolor": "white", "markeredgewidth": 1.6}
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    for size, color in zip(STRATA, shades(len(STRATA)), strict=True):
        axes.plot(rates, estimate_epsilon(size, rates), color=color, linewidth=1.8, zorder=2)
        height = float(estimate_epsilon(size, np.array([0.25]))[0])
        axes.text(0.25, height, f"b = {size:,}", fontsize=10, color=INK, ha="center", va="center", zorder=3, bbox=box)
        smallest, rate_of_smallest = smallest_attainable(size)
        axes.plot(rate_of_smallest, smallest, markeredgecolor=color, clip_on=False, zorder=4, **diamond)
    if marked:
        loss = theorem_1(*marked)
        place = (float(marked[1]), float(loss))
        top = max(top, float(loss))
        dot: dict[str, Any] = {"marker": "o", "markersize": 9, "color": VERMILION, "markeredgecolor": "white"}
        axes.plot(*place, clip_on=False, zorder=5, **dot)
        # In the upper right corner, which no line crosses.
        corner: dict[str, Any] = {"xytext": (0.985, 0.9), "textcoords": "axes fraction", "ha": "right", "va": "center"}
        box = {"facecolor": "white", "edgecolor": VERMILION, "boxstyle": "round,pad=0.35"}
        line = {"arrowstyle": "-", "color": VERMILION, "shrinkB": 6, "linewidth": 1.2}
        label = f"this release: ε = {loss.round_up(4)}\nat b = {marked[0]:,}, p = {_percent(marked[1])}"
        axes.annotate(label, place, fontsize=10.5, color=INK, bbox=box, arrowprops=line, zorder=6, **corner)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.04 * top)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.set_xticks(np.linspace(0, 1, 11))
    axes.xaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.0f}%")
    axes.set_xlabel("Swap rate p")
    axes.set_ylabel("Protection loss ε (Theorem 1)")
    return png(figure)


def _percent(rate: Fraction) -> str:
    return f"{float(100 * rate):g}%"
