"""How often TopDown's 90% intervals contain the truth: `python -m benchmarks.topdown_coverage`, about five minutes.

Two synthetic censuses are published ten times each, and each publication has its replicates. Every published interval
is compared with the true count. The output is the tables of `docs/mechanisms/topdown-uncertainty.md`, in Markdown.
Noise has fixed keys, so that every run gives the same figures. Nothing is stored: noise and estimation run in memory,
by the code of the replicates, which gives the estimates of a release if it is given the exact counts (a test shows it).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.histograms import read_counts
from assets.topdown.invariants import derive_all_limits
from assets.topdown.release import HISTOGRAMS
from assets.topdown.spine import read_tree
from assets.topdown.uncertainty import SIZES, describe_size
from assets.topdown.workers import ReplicateTask, in_processes, make_replicate
from benchmarks.harness import open_deployment, temporary_home
from benchmarks.stages import charge
from mechanisms.sampling.noise import Noise
from mechanisms.topdown.design import SCHEMAS, words
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.replicates import QUANTILE, Sums, compute_intervals, replicate_noise, roll_up
from mechanisms.topdown.schema import DETAILED, Counts, Schema
from orchestration.components.topdown import TopDown
from resources.statements import Zone

DRAWS, REPLICATES, PROCESSES = 10, 25, 2
CENSUSES = {
    "A": SyntheticPopulation(households=40_000, states=["10", "44"]),
    "B": SyntheticPopulation(households=20_000, states=["11", "50", "56"], seed=7),
}
GROUPS = {"P1 to P4": ("P1", "P2", "P3", "P4"), "P5": ("P5",), "H1": ("H1",)}
TOTALS = {
    "population (P1)": "P0010001",
    "of voting age (P3)": "P0030001",
    "group quarters (P5)": "P0050001",
    "occupied units (H1)": "H0010002",
}
RULES = ("published", "count itself as center", "measurement where narrower")
"""The rules that are compared: what is published; the same without taking off the bias; and the noisy measurement
± 1.645σ where that is narrower than what is published."""

_Z = 1.645


Tally: TypeAlias = dict[str, float]
"""Sums over cells and draws: `cells`, their number; `covered`, `centered` and `direct`, the intervals that contain the
truth, by rule; `width`, of published intervals; `error` and `bias`, published less true counts and the biases by the
replicates; `still` and `still_covered`, the cells where no replicate deviates, and how many of them are right."""

Tallies: TypeAlias = Mapping[tuple[str, str, int], Tally]
"""By group of tables, level and size of the true count; of totals, the size is 0."""


def main() -> None:
    """Measure and print."""
    started = perf_counter()
    tallies = {}
    for name, population in CENSUSES.items():
        census, persons = _make_census(population)
        print(f"{name}: {persons:,} persons in {len(census.parents[-1]):,} blocks", flush=True)
        tallies[name] = _measure(name, census)
    levels = census.design.levels
    for group in GROUPS:
        print(f"\n### {group}\n\n{_format_by_size(tallies, group, levels)}")
    print(f"\n### Three rules\n\n{_format_rules(tallies, levels)}")
    print(f"\n### Without deviation\n\n{_format_still(tallies, levels)}")
    print(f"\n{perf_counter() - started:.0f} s")


def _make_census(population: SyntheticPopulation) -> tuple[ReplicateTask, int]:
    """A census as the task of a replicate, whose counts are the exact ones, and its number of persons."""
    dataset = synthetic_census(population, name="bench", cap={"rho": 100})
    declaration = TopDownDeclaration(name="redistricting", dataset="bench", title="Redistricting data")
    with temporary_home() as home:
        release = TopDown(declaration).release(dataset, Path(home) / "published")
        persons, _ = charge(home, release)
        warehouse, _, _ = open_deployment(home)
        exact = release.confidential(HISTOGRAMS)
        with warehouse.session(reads=[Zone.PUBLIC, Zone.CONFIDENTIAL]) as session:
            counts = {histogram: read_counts(session, exact, histogram=histogram) for histogram in SCHEMAS}
            parents, limits = read_tree(session, release).parents, derive_all_limits(session, release)
    return ReplicateTask(0, b"", release.design, parents, counts, limits), persons


def _derive_key(*parts: object) -> bytes:
    return sha256(" ".join(map(str, parts)).encode()).digest()


def _measure(name: str, census: ReplicateTask) -> Tallies:
    """Publish a census several times, and compare every publication with the truth."""
    draws = [replace(census, replicate=draw, key=_derive_key("draw", name, draw)) for draw in range(DRAWS)]
    published = {draw: counts for draw, counts, _ in in_processes(make_replicate, iter(draws), PROCESSES)}
    tasks = (
        replace(
            census,
            replicate=draw * REPLICATES + number,
            key=_derive_key("replicate", name, draw, number),
            counts=published[draw],
        )
        for draw in range(DRAWS)
        for number in range(REPLICATES)
    )
    tallies: dict[tuple[str, str, int], Tally] = defaultdict(lambda: defaultdict(float))
    replicates: dict[int, list[Mapping[str, Counts]]] = defaultdict(list)
    for number, counts, _ in in_processes(make_replicate, tasks, PROCESSES):
        draw = number // REPLICATES
        replicates[draw].append(counts)
        if len(replicates[draw]) == REPLICATES:
            _compare(tallies, draws[draw], published[draw], replicates.pop(draw))
    return tallies


def _compare(
    tallies: dict[tuple[str, str, int], Tally],
    draw: ReplicateTask,
    published: Mapping[str, Counts],
    repeated: Sequence[Mapping[str, Counts]],
) -> None:
    """Add up one publication against the truth, which the draw was made of, at every level."""
    noise = replicate_noise(draw.design, draw.key)
    for histogram, schema in SCHEMAS.items():
        cells = [(table, cell) for table in REDISTRICTING.values() if table.schema is schema for cell in table.cells]
        counted = np.array([cell.counted for _, cell in cells])
        tables, names = np.array([table.name for table, _ in cells]), np.array([cell.name for _, cell in cells])
        sums = Sums(counted)
        true, release, *replicates = (
            roll_up(counts[histogram], draw.parents, schema.size) for counts in (draw.counts, published, *repeated)
        )
        for depth, level in enumerate(draw.design.levels):
            places = len(draw.parents[depth - 1]) if depth else 1
            truth = sums.of(true[depth], 0, places)
            moments = sums.moments(release[depth], [replicate[depth] for replicate in replicates], 0, places)
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
            for (group, size), selected in _select_cells(truth, tables, names).items():
                for quantity, values in quantities.items():
                    tallies[group, level, size][quantity] += float(values[selected].sum())


def _select_cells(
    truth: NDArray[np.int64], tables: NDArray[np.str_], names: NDArray[np.str_]
) -> dict[tuple[str, int], NDArray[np.bool_]]:
    """By group of tables and size of the true count, and by total, its cells: shape (places, cells), as the truth.

    Args:
        tables, names: shape (cells,): the table and the name of each cell.
    """
    size = np.searchsorted(SIZES, truth, side="right") - 1
    cells = {}
    for group, members in GROUPS.items():
        within = np.isin(tables, members)[None, :]
        for number in np.unique(size[:, within[0]]):
            cells[group, int(number)] = within & (size == number)
    for total, name in TOTALS.items():
        if name in names:
            cells[total, 0] = np.broadcast_to(names == name, size.shape)
    return cells


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
    """The noisy measurements of sums of cells at a level: those by the query that tells them best.

    Returns:
        The answers, shape (places, sums), and their standard deviations, shape (sums,): infinite where no query tells
        a sum.
    """
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


def _format_by_size(tallies: Mapping[str, Tallies], group: str, levels: Sequence[str]) -> str:
    """A row for each level and size of the true count, with columns for each census."""
    head = ["level", "true count"]
    for census in tallies:
        head += [f"{census}: cells", "covered", "error", "bias"]
    rows = []
    for level in levels:
        for size in range(len(SIZES)):
            by_census = [tallies_of_census.get((group, level, size)) for tallies_of_census in tallies.values()]
            if any(by_census):
                rows.append([words(level), _name_size(size), *chain.from_iterable(map(_format_row, by_census))])
    return _format_table(head, rows)


def _format_row(tally: Tally | None) -> list[str]:
    if not tally:
        return ["", "", "", ""]
    cells = tally["cells"]
    shares = f"{tally['covered'] / cells:.1%}", f"{tally['error'] / cells:+,.2f}", f"{tally['bias'] / cells:+,.2f}"
    return [f"{cells / DRAWS:,.0f}", *shares]


def _format_rules(tallies: Mapping[str, Tallies], levels: Sequence[str]) -> str:
    """Coverage by rule, over all censuses: of totals, and of the larger cells of P1 to P4."""
    keys = [(total, level, 0) for total in TOTALS for level in levels]
    keys += [("P1 to P4", level, size) for level in levels for size in range(SIZES.index(100), len(SIZES))]
    rows = []
    for group, level, size in keys:
        tally = _add_up(tallies, group, level, size)
        if cells := tally["cells"]:
            label = group if group in TOTALS else f"{group}: {_name_size(size)}"
            shares = (f"{tally[rule] / cells:.1%}" for rule in ("covered", "centered", "direct"))
            rows.append([label, words(level), f"{cells:,.0f}", *shares, f"{tally['width'] / cells:,.1f}"])
    return _format_table(["count", "level", "intervals", *RULES, "width"], rows)


def _format_still(tallies: Mapping[str, Tallies], levels: Sequence[str]) -> str:
    """Over all censuses, the cells of P1 to P4 in which no replicate deviates, and which no invariant decides."""
    rows = []
    for level in levels:
        for size in (0, 1):
            tally = _add_up(tallies, "P1 to P4", level, size)
            if still := tally["still"]:
                shares = f"{still / tally['cells']:.1%}", f"{tally['still_covered'] / still:.1%}"
                rows.append([words(level), _name_size(size), *shares])
    return _format_table(["level", "true count", "without deviation", "of these right"], rows)


def _name_size(number: int) -> str:
    return describe_size(SIZES[number], SIZES[number + 1] - 1 if number + 1 < len(SIZES) else None)


def _add_up(tallies: Mapping[str, Tallies], group: str, level: str, size: int) -> Tally:
    total: Tally = defaultdict(float)
    for tallies_of_census in tallies.values():
        for quantity, value in tallies_of_census.get((group, level, size), {}).items():
            total[quantity] += value
    return total


def _format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    aligned = ["---" if number < 2 else "---:" for number in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, aligned, *rows))


if __name__ == "__main__":
    main()
