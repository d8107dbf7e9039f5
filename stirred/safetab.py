"""SafeTab's adaptive noise: the size of each population group determines the detail of its measurement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from assets.release.numbers import exact_fraction, positive_fraction
from mechanisms.noise import Noise
from mechanisms.safetab.adaptive import GroupNoise, Kept, draw_block
from mechanisms.safetab.design import SafeTabHDesign, SafeTabPDesign
from mechanisms.safetab.details import (
    AGES,
    DATA_CELLS,
    FINEST,
    HOUSEHOLD_CELLS,
    HOUSEHOLD_TABLES,
    OLDEST,
    SEXES,
    find_details,
)
from mechanisms.safetab.lists import Iteration, RegionType
from stirred.accounting import Number
from stirred.noise import draw, read_counts
from stirred.random import Randomness
from stirred.results import TableDraw

__all__ = [
    "AGES",
    "FINEST",
    "HOUSEHOLD_CELLS",
    "SEXES",
    "Groups",
    "Households",
    "SafeTabHDesign",
    "SafeTabPDesign",
    "measure_groups",
    "measure_households",
]

_PAIR = (RegionType.COUNTY, 1)
_WORDS = {"table": pa.string(), "label": pa.string()}
_HOUSEHOLDS = pa.schema([(name, _WORDS.get(name, pa.int64())) for name in ("group", "table", "cell", "label", "count")])


@dataclass(frozen=True, repr=False, eq=False)
class Groups(TableDraw):
    """Noisy counts of groups: a row for each published cell, with the positions of its region and iteration, the
    group's detail (0: its total, 3: sex by 23 ages), sex and ages (null for a total), and the count."""

    design: SafeTabPDesign


@dataclass(frozen=True, repr=False, eq=False)
class Households(TableDraw):
    """Noisy counts of households: a row for each data cell, with the position of its group, the group's table, the
    label of the cell, and the count: a measured count, or the sum of measured counts."""

    design: SafeTabHDesign


def measure_groups(
    counts: ArrayLike,
    *,
    thresholds: Sequence[int],
    stability: int,
    randomness: Randomness,
    rho: Number | None = None,
    epsilon: Number | None = None,
    stage_1_share: Number = "1/10",
    zero_suppression_chance: Number = 0,
    kind: str = "arrow",
    name: str = "the data",
) -> Groups:
    """Measure population groups as SafeTab-P does.

    Args:
        counts: the exact counts, shape (regions, iterations, 46): for each sex, in 23 age groups (`AGES[3]`).
        thresholds: the minimum noisy totals for details 1, 2 and 3, in nondecreasing order.
        stability: Δ, the greatest number of groups that one person is in.
        rho, epsilon: the budget for a person added or removed: ρ for Gaussian noise, or ε for Laplace noise. Give
            exactly one.
        stage_1_share: γ, the part of the budget that determines the detail.
        zero_suppression_chance: the minimum probability that the total of an empty group is left out.
        kind: "arrow", "pandas" or "duckdb", for the table.

    Raises DesignError for numbers that are out of range, ValueError for counts of another shape, and TypeError if they
    are not integers.
    """
    exact = read_counts(counts)
    if exact.ndim != 3 or exact.shape[2] != FINEST:
        raise ValueError(f"counts have the shape (regions, iterations, {FINEST}), not {exact.shape}")
    if (rho is None) == (epsilon is None):
        raise ValueError("give rho or epsilon")
    design = SafeTabPDesign(
        states=("01",),
        noise=Noise.LAPLACE if rho is None else Noise.GAUSSIAN,
        stabilities={_PAIR: stability},
        budgets={_PAIR: positive_fraction(epsilon if rho is None else rho)},
        thresholds={_PAIR: tuple(thresholds)},
        stage_1_share=exact_fraction(stage_1_share),
        zero_suppression_chance=exact_fraction(zero_suppression_chance),
    )
    (measured,) = design.measured
    iterations = [Iteration(f"{place:04}", "", 1, None, None, None) for place in range(exact.shape[1])]
    kept = draw_block(
        measured,
        [str(place) for place in range(len(exact))],
        iterations,
        exact.sum(axis=2),
        lambda regions, columns: exact[regions, columns],
        GroupNoise(design.measured, randomness.next_key()),
    )
    table = pa.concat_tables([_list_cells(groups) for groups in kept])
    order = [("region", "ascending"), ("iteration", "ascending"), ("sex", "ascending"), ("youngest", "ascending")]
    return Groups(design.specification(name), table.sort_by(order), kind, design)


def measure_households(
    counts: ArrayLike,
    totals: ArrayLike,
    budgets: Mapping[str, Number],
    *,
    thresholds: Mapping[str, Sequence[int]],
    stability: int,
    randomness: Randomness,
    noise: str = "gaussian",
    kind: str = "arrow",
    name: str = "the data",
) -> Households:
    """Measure households of population groups as SafeTab-H does, in the detail that published totals determine.

    Args:
        counts: the exact counts, shape (groups, 20): for each of 5 household types, by 4 tenures.
        totals: the published totals of the groups, shape (groups,), such as those that SafeTab-P measured. They are
            public: exact ones would add a loss that is not in the specification.
        budgets: by family, `T3` (household types) or `T4` (tenures), ρ or ε for a household added or removed.
        thresholds: by family, the minimum totals for details 1, 2 and 3, or for detail 1 (T4).
        stability: Δ, the greatest number of groups that one household is in.
        noise: "gaussian", or "laplace" if budgets are ε.

    Raises DesignError for numbers that are out of range, ValueError for counts of another shape, and TypeError if they
    are not integers.
    """
    exact, sizes = read_counts(counts), read_counts(totals)
    if exact.shape != (sizes.size, HOUSEHOLD_CELLS):
        raise ValueError(f"counts have the shape (groups, {HOUSEHOLD_CELLS}), and totals (groups,)")
    if unknown := sorted({*budgets, *thresholds} - set(HOUSEHOLD_TABLES)):
        raise ValueError(f"families are {' and '.join(HOUSEHOLD_TABLES)}, not {unknown[0]}")
    design = SafeTabHDesign(
        states=("01",),
        noise=Noise(noise),
        stabilities={_PAIR: stability},
        budgets={(*_PAIR, family): positive_fraction(budget) for family, budget in budgets.items()},
        thresholds={(*_PAIR, family): tuple(least) for family, least in thresholds.items()},
    )
    rows = []
    for measured in design.measured:
        details = find_details(sizes, measured.thresholds)
        for table in HOUSEHOLD_TABLES[measured.family]:
            groups = np.flatnonzero(details == table.detail)
            basis = table.fold(exact[groups])
            basis = basis + draw(measured.noise, basis.size, randomness=randomness).reshape(basis.shape)
            places = {cell: place for place, cell in enumerate(table.basis)}
            for cell, parts in table.data_cells.items():
                summed = basis[:, [places[part] for part in parts]].sum(axis=1).tolist()
                label = DATA_CELLS[measured.family][cell]
                rows += [
                    {"group": group, "table": table.name, "cell": cell, "label": label, "count": count}
                    for group, count in zip(groups.tolist(), summed, strict=True)
                ]
    order = [(column, "ascending") for column in ("group", "table", "cell")]
    table = pa.Table.from_pylist(rows, _HOUSEHOLDS).sort_by(order)
    return Households(design.specification(name), table, kind, design)


def _list_cells(groups: Kept) -> pa.Table:
    ages = [(sex, *ages) for sex in SEXES for ages in AGES[groups.detail]] if groups.detail else [(None, 0, OLDEST)]
    number = len(groups.regions)
    sex, youngest, oldest = zip(*ages, strict=True)
    columns = {
        "region": np.repeat(groups.regions, len(ages)),
        "iteration": np.repeat(groups.iterations, len(ages)),
        "detail": np.full(number * len(ages), groups.detail),
        "sex": pa.array(list(sex) * number, pa.int64()),
        "youngest": pa.array(list(youngest) * number, pa.int64()),
        "oldest": pa.array(list(oldest) * number, pa.int64()),
        "count": groups.cells.ravel(),
    }
    return pa.table(columns)
