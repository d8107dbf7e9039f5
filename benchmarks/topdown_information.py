"""The gain from estimation with full information: `python -m benchmarks.topdown_information`, about five minutes.

Two synthetic censuses are drawn and estimated five times from the same noisy measurements, from the measurements of
each level alone and with full information; the smaller one also with parts of it, and with blocks that lean on their
housing units. Then the intervals of the linear estimates, and of random unions of blocks, are compared with the true
counts. The output is the tables of `docs/mechanisms/topdown-information.md`, in Markdown. Noise has fixed keys, so that
every run gives the same figures. Everything runs in memory, by the code of the replicates.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from assets.cef.synthetic import SyntheticPopulation
from assets.topdown.uncertainty import SIZES, describe_size
from assets.topdown.workers import ReplicateTask
from benchmarks.topdown_coverage import CENSUSES, GROUPS, derive_key, make_census
from mechanisms.races import RACE_COMBINATIONS
from mechanisms.sampling.noise import Noise
from mechanisms.topdown import estimation
from mechanisms.topdown.decomposition import Decomposition, Information
from mechanisms.topdown.design import SCHEMAS, TopDownDesign, words
from mechanisms.topdown.gain import expect_errors
from mechanisms.topdown.information import (
    QUANTILE,
    descend,
    finish_root,
    inform_finest,
    prepare_sums,
    round_intervals,
    sum_cells,
    unite,
)
from mechanisms.topdown.least_squares import NotSolvedError
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.replicates import Census, estimate_finest, replicate_noise, roll_up
from mechanisms.topdown.schema import PERSONS, UNITS, Sums

DRAWS, DRAWS_OF_INTERVALS = 5, 20
LARGER = SyntheticPopulation(households=170_000, states=["10", "11", "44"])
"""The larger census, called C."""

UNIONS, BLOCKS_OF_A_UNION, DRAWS_OF_UNIONS = 200, (10, 200), 30
"""The number of random unions, their minimum and maximum number of consecutive blocks, and the number of draws that
give their intervals."""

OCCUPIED = "occupied units (H1)"

TREES = {"United States": (51, 61.6, 26.9, 2.8, 34), "census A": (2, 2, 7.75, 2.9, 25)}
"""By name, the mean number of children of the places of each level."""

_SEVERAL = np.array([len(races) > 1 for races in RACE_COMBINATIONS])[PERSONS.marginal("cenrace").cells]
_QUARTERS = PERSONS.groups.cells > 0


def _split_cells(query: str, *, without_first: bool = False) -> NDArray[np.bool_]:
    marginal = PERSONS.marginal(query)
    return marginal.cells == np.arange(without_first, marginal.size)[:, None]


MEASURES: Mapping[str, NDArray[np.bool_]] = {
    "population": np.ones((1, PERSONS.size), dtype=np.bool_),
    "group quarters, all": _QUARTERS[None],
    "group quarters by type": _split_cells("hhgq", without_first=True),
    "of voting age": _split_cells("votingage", without_first=True),
    "two or more races": _SEVERAL[None],
    "cells of P1": np.array([cell.counted for cell in REDISTRICTING["P1"].cells]),
    "race × Hispanic": _split_cells("hispanic * cenrace"),
}
"""By name, sums of cells whose errors are averaged over all places of a level."""


def compare(census: ReplicateTask, draws: int = DRAWS) -> pd.DataFrame:
    """The mean absolute errors and biases of estimates, by measure, kind of error and level."""
    levels = [words(level) for level in census.design.levels]
    return measure_draws(census, draws).mean(axis=1).unstack("level")[levels]


def measure_draws(census: ReplicateTask, draws: int) -> pd.DataFrame:
    """As `compare`, with the level among the rows, and a column for each draw."""
    levels = [words(level) for level in census.design.levels]
    measures = [(PERSONS, name, Sums(counted)) for name, counted in MEASURES.items()]
    measures.append((UNITS, OCCUPIED, Sums(np.array([[True, False]]))))
    exact = {each.name: roll_up(census.counts[each.name], census.parents, each.size) for each in (PERSONS, UNITS)}
    errors: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for draw in range(draws):
        noise = replicate_noise(census.design, derive_key("draw", "A", draw))
        found = estimate_finest(census.design, census.parents, census.counts, census.limits, noise)
        for schema, name, sums in measures:
            by_level = roll_up(found[schema.name], census.parents, schema.size)
            for depth, (level, estimated, true) in enumerate(zip(levels, by_level, exact[schema.name], strict=True)):
                places = len(census.parents[depth - 1]) if depth else 1
                difference = sums.of(estimated, 0, places) - sums.of(true, 0, places)
                errors[name, "error", level].append(float(np.abs(difference).mean()))
                errors[name, "bias", level].append(float(difference.mean()))
    index = pd.MultiIndex.from_tuples(errors, names=["measure", "kind", "level"])
    return pd.DataFrame(list(errors.values()), index)


def count_contradictions(census: ReplicateTask, draws: int = DRAWS) -> list[int]:
    """By draw, the blocks with persons in households and no occupied unit."""
    places, found = len(census.parents[-1]), []
    for draw in range(draws):
        noise = replicate_noise(census.design, derive_key("draw", "A", draw))
        estimated = estimate_finest(census.design, census.parents, census.counts, census.limits, noise)
        households = Sums(~_QUARTERS[None]).of(estimated[PERSONS.name], 0, places)
        occupied = Sums(np.array([[True, False]])).of(estimated[UNITS.name], 0, places)
        found.append(int(((households > 0) & (occupied == 0)).sum()))
    return found


PARTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    "information from below": lambda: patch.object(TopDownDesign, "is_types_first", return_value=False),
    "and types held": lambda: patch.object(estimation, "_estimate_within_parts", side_effect=NotSolvedError),
    "and races held": nullcontext,
}
"""Full estimation without counts held near the root, with only the counts by type of group quarters, and complete."""


def compare_parts(census: ReplicateTask, draws: int = DRAWS) -> Mapping[str, pd.DataFrame]:
    """As `compare`, with parts of full estimation."""
    found = {}
    for name, only in PARTS.items():
        with only():
            found[name] = compare(census, draws)
    return found


def estimate_linearly(
    census: ReplicateTask, draw: int, histogram: str = PERSONS.name
) -> tuple[Census, list[Information], list[Information]]:
    """A histogram of a census; by level, the information about all places, and their linear estimates."""
    noise: Noise = replicate_noise(census.design, derive_key("draw", "A", draw))
    schema = census.design.schemas[histogram]
    exact = roll_up(census.counts[histogram], census.parents, schema.size)
    whole = Census(census.design, schema, census.parents, exact, census.limits[histogram])
    informed = [own for own in whole.inform(noise.from_the_beginning()) if own is not None]
    places = len(census.parents[-1])
    families = whole.take(len(informed), 0, len(informed[-1].present), noise, None)
    assert len(families.limits.totals) == places
    informed.append(inform_finest(families))
    linear = [finish_root(informed[0], whole.take(0, 0, 1, None, informed[0]))]
    for depth in range(1, len(informed)):
        of_level = whole.take(depth, 0, len(informed[depth - 1].present), None, informed[depth])
        linear.append(descend(linear[-1], of_level, informed[depth]))
    return whole, informed, linear


def measure_coverage(census: ReplicateTask) -> pd.DataFrame:
    """`_cover` of all tables over all draws, by group of tables, level and size of the true count."""
    tallies = defaultdict(list)
    for draw in range(DRAWS_OF_INTERVALS):
        for histogram in SCHEMAS:
            whole, _, linear = estimate_linearly(census, draw, histogram)
            for group in dict.fromkeys(GROUPS.values()):
                tables = [REDISTRICTING[name] for name, own in GROUPS.items() if own == group]
                if tables[0].schema.name == histogram:
                    counted = np.array([cell.counted for table in tables for cell in table.cells])
                    tallies[group].append(_cover(whole, linear, counted))
    summed = {group: pd.concat(own).groupby(["depth", "size"]).sum() for group, own in tallies.items()}
    return pd.concat(summed, names=["group"])


def _cover(whole: Census, linear: list[Information], counted: NDArray[np.bool_]) -> pd.DataFrame:
    """By level and size of the true count, over all cells: their number, the number of intervals that contain the truth
    before and after rounding and cutting, the mean width, and the root mean square error divided by its prediction."""
    split, sums, above = Decomposition(whole.schema), Sums(counted), np.full((1, len(counted)), np.inf)
    rows = []
    for depth, own in enumerate(linear):
        estimates, variances = sum_cells(prepare_sums(split, counted), own)
        truth = sums.of(whole.exact[depth], 0, len(own.present))
        parents = whole.parents[depth - 1] if depth else np.zeros(1, dtype=np.int64)
        lower, upper = round_intervals(estimates, variances, above[parents])
        above = upper.astype(np.float64)
        free = variances > 1e-6
        quantities = {
            "cells": free,
            "before": free & (np.abs(estimates - truth) <= QUANTILE * np.sqrt(np.maximum(variances, 0))),
            "after": free & (lower <= truth) & (truth <= upper),
            "width": free * (upper - lower),
            "squares": free * (estimates - truth) ** 2,
            "variance": free * variances,
        }
        values = pd.DataFrame({name: array.ravel().astype(float) for name, array in quantities.items()})
        size = np.searchsorted(SIZES, truth.ravel(), side="right") - 1
        rows.append(values.assign(depth=depth, size=size))
    return pd.concat(rows).groupby(["depth", "size"]).sum()


def cover_unions(census: ReplicateTask) -> tuple[float, float]:
    """The share of the 90% intervals of random unions of blocks that contain their population, over all draws; then
    the share if the variances of the blocks were added up, as if their errors were independent."""
    split, random = Decomposition(PERSONS), np.random.default_rng(7)
    everybody = np.ones((1, PERSONS.size), dtype=np.bool_)
    persons, informed, linear = estimate_linearly(census, 0)
    places = len(informed[-1].present)
    truth = Sums(everybody).of(persons.exact[-1], 0, places)[:, 0]
    wholes = [
        persons.take(depth, 0, len(informed[depth - 1].present) if depth else 1, None, information)
        for depth, information in enumerate(informed)
    ]
    upper = [np.zeros(0, dtype=np.int64)] * (len(informed) - 1)
    unions, variances = np.zeros((UNIONS, places)), np.zeros(UNIONS)
    for number, chosen in enumerate(unions):
        # Neighbors, as in a district: consecutive places, and a few more.
        blocks = int(np.exp(random.uniform(*np.log(BLOCKS_OF_A_UNION))))
        first = random.integers(places - blocks)
        chosen[first : first + blocks] = 1
        chosen[random.integers(places, size=5)] = 1
        union = unite(wholes, informed, [*upper, np.flatnonzero(chosen)])
        ((estimate,),), ((variances[number],),) = sum_cells(prepare_sums(split, everybody), union)
        assert abs(estimate - linear[-1].estimate.sum(axis=(1, 2)) @ chosen) < 1e-6
    (_, of_blocks) = sum_cells(prepare_sums(split, everybody), linear[-1])
    covered = []
    for draw in range(DRAWS_OF_UNIONS):
        _, _, linear = estimate_linearly(census, draw)
        errors = unions @ (linear[-1].estimate.sum(axis=(1, 2)) - truth)
        covered.append([np.abs(errors) <= QUANTILE * np.sqrt(each) for each in (variances, unions @ of_blocks[:, 0])])
    together, apart = np.mean(covered, axis=(0, 2))
    return float(together), float(apart)


def expect(design: TopDownDesign, children: tuple[float, ...]) -> pd.DataFrame:
    """By function and level, the standard error of the linear estimate with full information, divided by the standard
    error from each level's own measurements, in a tree whose places have so many children, down to the finest level."""
    own, full = (pd.DataFrame(expect_errors(design, children, full=full)) for full in (False, True))
    names = [words(level) for level in design.levels]
    return (full / own.where(own > 1e-3)).T.set_axis(names, axis=1).iloc[:, :-1]


def main() -> None:
    census, persons = make_census(CENSUSES["A"], "full")
    print(f"{persons:,} persons in {len(census.parents[-1]):,} blocks")
    alone = make_census(CENSUSES["A"], "own_levels")[0]
    own, parts = compare(alone), compare_parts(census)
    full = parts["and races held"]
    _print_gain(own, full)
    print("\n| | GQ, US | GQ, tract | two or more races, US | race × Hispanic, county |\n|---|---:|---:|---:|---:|")
    shown = [("group quarters, all", 0), ("group quarters, all", 3), ("two or more races", 0), ("race × Hispanic", 2)]
    for name, errors in {"own levels": own, **parts}.items():
        figures = [f"{errors.loc[(measure, 'error')].iloc[level]:.3g}" for measure, level in shown]
        print(f"| {name} | {' | '.join(figures)} |")
    contradictory = [count_contradictions(each) for each in (alone, census)]
    print(f"\nBlocks with persons in households and no occupied unit: {contradictory}")
    leaning = compare(replace(census, design=replace(census.design, lean_on_housing_units=True)))
    print("\nBlocks, without and with leaning on housing units")
    for measure in MEASURES:
        print(
            f"| {measure} | {_format_pair(*(errors.loc[(measure, 'error')].iloc[-1] for errors in (full, leaning)))} |"
        )
    larger, persons = make_census(LARGER, "full")
    print(f"\nC: {persons:,} persons in {len(larger.parents[-1]):,} blocks")
    _print_gain(compare(make_census(LARGER, "own_levels")[0]), compare(larger))
    print("\n| tables | level | true count | cells | before | after | width | error / predicted |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for (group, depth, size), row in measure_coverage(census).iterrows():
        if row["cells"]:
            of_size = describe_size(SIZES[size], SIZES[size + 1] - 1 if size + 1 < len(SIZES) else None)
            before, after, width = (row[name] / row["cells"] for name in ("before", "after", "width"))
            columns = f"{row['cells']:,.0f} | {before:.1%} | {after:.1%} | {width:.1f}"
            ratio = np.sqrt(row["squares"] / row["variance"])
            print(f"| {group} | {words(census.design.levels[depth])} | {of_size} | {columns} | {ratio:.3f} |")
    for name, children in TREES.items():
        print(f"\n{name}\n{expect(census.design, children).round(2).to_string()}")
    together, apart = cover_unions(census)
    print(
        f"\n{UNIONS} random unions of blocks, {DRAWS_OF_UNIONS} draws: {together:.1%} covered; as if blocks were "
        f"independent, {apart:.1%}"
    )


def _print_gain(own: pd.DataFrame, full: pd.DataFrame) -> None:
    print(f"\n| | {' | '.join(own.columns)} |\n|---|{'---:|' * len(own.columns)}")
    for measure, kind in [*((name, "error") for name in (*MEASURES, OCCUPIED)), ("group quarters, all", "bias")]:
        pairs = zip(own.loc[measure, kind], full.loc[measure, kind], strict=True)
        print(f"| {measure}{', bias' * (kind == 'bias')} | {' | '.join(_format_pair(*pair) for pair in pairs)} |")


def _format_pair(own: float, full: float) -> str:
    if not own and not full:
        return "held"
    digits = 0 if max(abs(own), abs(full)) >= 100 else 1 if abs(own) >= 10 else 2 if abs(own) >= 1 else 3
    return f"{own:.{digits}f} → {full:.{digits}f}"


if __name__ == "__main__":
    main()
