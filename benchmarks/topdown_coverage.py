"""How often TopDown's 90% intervals contain the truth: `python -m benchmarks.topdown_coverage own_levels`, about five
minutes, or `… full`, for either estimation.

Two synthetic censuses are published ten times each, with replicates, and every published interval is compared with the
true count. The output has the figures of `docs/mechanisms/topdown-*.csv`, in Markdown. Noise has fixed keys, so that
every run gives the same figures. Noise and estimation run in memory, by the code of the replicates. A test shows that
this code, given the exact counts, returns the estimates of a release.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.histograms import read_counts
from assets.topdown.invariants import derive_all_limits
from assets.topdown.release import HISTOGRAMS
from assets.topdown.spine import read_tree
from assets.topdown.uncertainty import SIZES, describe_size
from assets.topdown.workers import ReplicateTask, make_replicate
from benchmarks.harness import open_warehouse, temporary_home
from benchmarks.stages import charge
from mechanisms.sampling.noise import Noise
from mechanisms.topdown.design import SCHEMAS, words
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.replicates import QUANTILE, add_deviations, compute_intervals, replicate_noise, roll_up
from mechanisms.topdown.schema import DETAILED, Counts, Schema, Sums
from orchestration.components.topdown import TopDown
from resources.processes import in_processes
from resources.statements import Zone

DRAWS, REPLICATES, PROCESSES = 10, 25, 2
CENSUSES = {
    "A": SyntheticPopulation(households=40_000, states=["10", "44"]),
    "B": SyntheticPopulation(households=20_000, states=["11", "50", "56"], seed=7),
}
GROUPS = {**dict.fromkeys(("P1", "P2", "P3", "P4"), "P1 to P4"), "P5": "P5", "H1": "H1"}
"""By table, the group of tables in which it is counted."""
TOTALS = {
    "P0010001": "population (P1)",
    "P0030001": "of voting age (P3)",
    "P0050001": "group quarters (P5)",
    "H0010002": "occupied units (H1)",
}
"""The totals, by cell."""
RULES = ("published", "count itself as center", "measurement where narrower")
"""The rules compared: the published interval; the same without subtracting the bias; and the noisy measurement ± 1.645σ
where that is narrower than the published interval."""

Estimation = Literal["own_levels", "full"]

_Z = 1.645


def main(estimation: Estimation) -> None:
    started = perf_counter()
    measured = {}
    for name, population in CENSUSES.items():
        census, persons = make_census(population, estimation)
        print(f"{name}: {persons:,} persons in {len(census.parents[-1]):,} blocks", flush=True)
        measured[name] = _measure(name, census)
    tallies = pd.concat(measured, names=["census"])
    in_words = [words(level) for level in census.design.levels]
    for group in dict.fromkeys(GROUPS.values()):
        print(f"\n### {group}\n\n{_format_by_size(tallies.xs(group, level='group'), in_words)}")
    both = tallies.groupby(["group", "depth", "size"]).sum()
    print(f"\n### Three rules\n\n{_format_rules(both, in_words)}")
    print(f"\n### Without deviation\n\n{_format_still(both, in_words)}")
    print(f"\n{perf_counter() - started:.0f} s")


def make_census(population: SyntheticPopulation, estimation: Estimation) -> tuple[ReplicateTask, int]:
    """A census as the task of a replicate, whose counts are the exact ones, and its number of persons."""
    dataset = synthetic_census(population, name="bench", cap={"rho": 100})
    declaration = TopDownDeclaration(
        name="redistricting", dataset="bench", title="Redistricting data", estimation=estimation
    )
    with temporary_home() as home:
        release = TopDown(declaration).release(dataset, Path(home) / "published")
        persons, _ = charge(home, release)
        exact = release.confidential(HISTOGRAMS)
        with open_warehouse(home).session(reads=[Zone.PUBLIC, Zone.CONFIDENTIAL]) as session:
            counts = {
                name: read_counts(session, exact, schema.size, histogram=name) for name, schema in SCHEMAS.items()
            }
            parents, limits = read_tree(session, release).parents, derive_all_limits(session, release)
    return ReplicateTask(0, b"", release.design, parents, counts, limits), persons


def derive_key(*parts: object) -> bytes:
    return sha256(" ".join(map(str, parts)).encode()).digest()


def _measure(name: str, census: ReplicateTask) -> pd.DataFrame:
    """Publish a census several times, and add up the figures of `_compare` for every publication."""
    draws = [replace(census, replicate=draw, key=derive_key("draw", name, draw)) for draw in range(DRAWS)]
    published = {draw: counts for draw, counts, _ in in_processes(make_replicate, iter(draws), PROCESSES)}
    tasks = (
        replace(
            census,
            replicate=draw * REPLICATES + number,
            key=derive_key("replicate", name, draw, number),
            counts=published[draw],
        )
        for draw in range(DRAWS)
        for number in range(REPLICATES)
    )
    tallies = []
    replicates: dict[int, list[Mapping[str, Counts]]] = defaultdict(list)
    for number, counts, _ in in_processes(make_replicate, tasks, PROCESSES):
        draw = number // REPLICATES
        replicates[draw].append(counts)
        if len(replicates[draw]) == REPLICATES:
            tallies += _compare(draws[draw], published[draw], replicates.pop(draw))
    return pd.concat(tallies).groupby(["group", "depth", "size"]).sum()


def _compare(
    draw: ReplicateTask, published: Mapping[str, Counts], repeated: Sequence[Mapping[str, Counts]]
) -> Iterator[pd.DataFrame]:
    """One publication against the truth, from which it was drawn, at every level.

    Yields:
        By group of tables, depth of the level, and size of the true count (0 for totals), sums over cells: `cells`,
        their number; `covered`, `centered` and `direct`, the intervals that contain the truth, by rule; `width`, of
        published intervals; `error` and `bias`, published minus true counts and the biases by the replicates; `still`
        and `still_covered`, the cells where no replicate deviates, and the number of these that are right.
    """
    noise = replicate_noise(draw.design, draw.key)
    for histogram, schema in SCHEMAS.items():
        cells = [(table, cell) for table in REDISTRICTING.values() if table.schema is schema for cell in table.cells]
        counted = np.array([cell.counted for _, cell in cells])
        sums = Sums(counted)
        true, release, *replicates = (
            roll_up(counts[histogram], draw.parents, schema.size) for counts in (draw.counts, published, *repeated)
        )
        for depth, level in enumerate(draw.design.levels):
            places = len(draw.parents[depth - 1]) if depth else 1
            truth = sums.of(true[depth], 0, places)
            counts = (release[depth], *(replicate[depth] for replicate in replicates))
            estimate, *others = (sums.of(each, 0, places) for each in counts)
            moments = add_deviations(estimate, others)
            errors = compute_intervals(moments, REPLICATES)
            margin = QUANTILE * errors.standard_error
            exact = true[depth].answer(schema.marginal(DETAILED), 0, places)
            answers, deviation = _measure_directly(draw, schema, level, counted, exact, noise)
            covered = (errors.lower <= truth) & (truth <= errors.upper)
            measured = _contains(truth, answers, _Z * deviation)
            still = moments.squares == 0
            quantities = {
                "cells": np.ones_like(truth),
                "covered": covered,
                "centered": _contains(truth, moments.estimate, margin),
                "direct": np.where(_Z * deviation < margin, measured, covered),
                "width": errors.upper - errors.lower,
                "error": moments.estimate - truth,
                "bias": errors.bias,
                "still": still,
                "still_covered": still & covered,
            }
            values = pd.DataFrame({name: array.ravel().astype(float) for name, array in quantities.items()})
            size = np.searchsorted(SIZES, truth.ravel(), side="right") - 1
            group = np.tile([GROUPS[table.name] for table, _ in cells], places)
            total = np.tile([TOTALS.get(cell.name) for _, cell in cells], places)
            for keys in (
                {"group": group, "depth": depth, "size": size},
                {"group": total, "depth": depth, "size": 0},
            ):
                yield values.assign(**keys).groupby(list(keys)).sum()


def _contains(truth: NDArray[np.int64], center: NDArray[np.int64], margin: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether an interval around a center, rounded outwards, contains the truth."""
    finite = np.where(np.isfinite(margin), margin, 0.0)
    return (np.floor(center - finite) <= truth) & (truth <= np.ceil(center + finite))


def _measure_directly(
    draw: ReplicateTask,
    schema: Schema,
    level: str,
    counted: NDArray[np.bool_],
    exact: NDArray[np.int64],
    noise: Noise,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The noisy measurements of sums of cells at a level, shape (places, sums), each by the query that determines it
    best; and their standard deviations, shape (sums,): infinite where no query determines a sum."""
    best = np.full(len(counted), np.inf)
    answers = np.zeros((len(exact), len(counted)), dtype=np.int64)
    for measured in draw.design.measured_at(schema.name, level):
        marginal = measured.marginal
        noisy = marginal.answer(exact)
        noisy += noise.of_next(measured.label, noisy.size).reshape(noisy.shape)
        for position, cells in enumerate(counted):
            parts = np.zeros(marginal.size, dtype=bool)
            parts[marginal.cells[cells]] = True
            deviation = np.sqrt(parts.sum() * float(measured.noise.exact_variance))
            if deviation < best[position] and np.array_equal(parts[marginal.cells], cells):
                best[position], answers[:, position] = deviation, noisy[:, parts].sum(axis=1)
    return answers, best


def _format_by_size(tally: pd.DataFrame, levels: Sequence[str]) -> str:
    """A row for each level and size of the true count, with columns for each census."""
    figures = pd.DataFrame(
        {
            "cells": (tally["cells"] / DRAWS).map("{:,.0f}".format),
            "covered": (tally["covered"] / tally["cells"]).map("{:.1%}".format),
            "error": (tally["error"] / tally["cells"]).map("{:+,.2f}".format),
            "bias": (tally["bias"] / tally["cells"]).map("{:+,.2f}".format),
        }
    )
    columns = [(name, census) for census in CENSUSES for name in figures]
    by_census = figures.unstack("census", fill_value="").reindex(columns=columns, fill_value="")
    head = [f"{census}: cells" if name == "cells" else name for name, census in columns]
    rows = [[levels[depth], name_size(size), *row] for (depth, size), *row in by_census.itertuples()]
    return format_table(["level", "true count", *head], rows)


def _format_rules(tally: pd.DataFrame, levels: Sequence[str]) -> str:
    """Coverage by rule: of totals, and of the larger cells of P1 to P4."""
    keys = [(total, depth, 0) for total in TOTALS.values() for depth in range(len(levels))]
    larger = range(SIZES.index(100), len(SIZES))
    keys += [("P1 to P4", depth, size) for depth in range(len(levels)) for size in larger]
    rows = []
    for group, depth, size in keys:
        if (group, depth, size) in tally.index:
            sums = tally.loc[(group, depth, size)]
            label = group if group in TOTALS.values() else f"{group}: {name_size(size)}"
            shares = [f"{sums[rule] / sums['cells']:.1%}" for rule in ("covered", "centered", "direct")]
            width = f"{sums['width'] / sums['cells']:,.1f}"
            rows.append([label, levels[depth], f"{sums['cells']:,.0f}", *shares, width])
    return format_table(["count", "level", "intervals", *RULES, "width"], rows)


def _format_still(tally: pd.DataFrame, levels: Sequence[str]) -> str:
    """The cells of P1 to P4 in which no replicate deviates, and which no invariant decides."""
    rows = [
        [
            levels[depth],
            name_size(size),
            f"{sums['still'] / sums['cells']:.1%}",
            f"{sums['still_covered'] / sums['still']:.1%}",
        ]
        for (depth, size), sums in tally.loc["P1 to P4"].iterrows()
        if size < 2 and sums["still"]
    ]
    return format_table(["level", "true count", "without deviation", "of these right"], rows)


def name_size(number: int) -> str:
    return describe_size(SIZES[number], SIZES[number + 1] - 1 if number + 1 < len(SIZES) else None)


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    aligned = ["---" if number < 2 else "---:" for number in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, aligned, *rows))


if __name__ == "__main__":
    main("full" if sys.argv[1:] == ["full"] else "own_levels")
