"""What linear estimates of the DHC gain by the measurements of all levels and of the redistricting data, and how often
their intervals contain the truth: `python -m benchmarks.dhc_intervals`, about four CPU-minutes.

A synthetic census is measured with fixed keys, so that every run gives the same figures.
From the same answers, cells are estimated from each place's own answers, from those of all levels, and from those of
both releases. The output has the table of `docs/mechanisms/topdown-dhc.md`, in Markdown.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from time import process_time

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from assets.cef.synthetic import SyntheticPopulation
from benchmarks.dhc_coverage import Census
from benchmarks.topdown_coverage import derive_key
from mechanisms.topdown.design import words
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.levels import measure_tree
from mechanisms.topdown.dhc.linear import (
    Answers,
    Linear,
    Model,
    combine,
    fit,
    fit_redistricting,
    fit_unions,
    model_homes,
    model_persons,
    share,
)
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.tables import DHC_TABLES
from mechanisms.topdown.dhc.tree import add_answers, add_counts, climb
from mechanisms.topdown.feasibility import limit_by_occupancy
from mechanisms.topdown.information import QUANTILE
from mechanisms.topdown.replicates import Census as Before
from mechanisms.topdown.replicates import replicate_noise, roll_up

DRAWS = 5
POPULATION = SyntheticPopulation(households=6_000, states=["10", "44"], dhc=True)
TABLES = {"persons": ("P1", "P4", "P12", "P17"), "units": ("H3", "H4", "H10", "PCT15")}
SHARED_LEVELS = ("US", "State", "County", "Block")
"""The levels of the DHC whose places are those of a level of the redistricting release."""

OWN, ALL, BOTH = "own answers", "all levels", "both releases"
Floats = NDArray[np.float64]


def measure(census: Census, model: Model, draw: int) -> list[Answers]:
    """The answers of all levels, drawn in full."""
    task, depths = census.after, range(len(census.after.parents))
    readings = {
        name: measure_tree(
            SCHEMAS[name], task.design.allocations[name], task.parents, task.counts[name], derive_key("dhc", draw), True
        )
        for name in model.of_cell
    }
    homes = task.counts["units"].answer(SCHEMAS["units"].marginal("tenvacgq"), 0, len(task.parents[-1]))[:, :11]
    known = climb(homes.sum(axis=1, keepdims=True)[:, : model.known], task.parents, add_answers)
    levels = []
    for depth in depths:
        of_level = {name: own[depth].level for name, own in readings.items()}
        measured = np.flatnonzero(next(iter(of_level.values())).runs >= 0)
        answers = []
        for each in model.answered:
            own, size = np.zeros((len(task.parents[depth]), each.size), dtype=np.int64), np.arange(each.size)
            for place in measured.tolist():
                own[place] = readings[each.schema.name][depth].measuring.read(each.query, place, place + 1, size)[0]
            answers.append(own)
        levels.append(Answers(of_level, task.parents[depth], np.concatenate(answers, axis=1), known[depth]))
    return levels


def fit_before(census: Census, model: Model, draw: int) -> Mapping[int, tuple[Floats, Floats]]:
    """By depth in the DHC, what the measurements of the redistricting data tell about counts that both measured, in the
    same places or in unions of their blocks."""
    task, name = census.before, PERSONS.name if PERSONS.name in model.of_cell else "units"
    schema, limits = task.design.schemas[name], task.limits[name]
    if name == "units":
        limits = limit_by_occupancy(task.design.levels, task.parents, limits)
    exact = roll_up(task.counts[name], task.parents, schema.size)
    before = Before(task.design, schema, task.parents, exact, limits)
    noise = replicate_noise(task.design, derive_key("redistricting", draw))
    informed = before.inform(noise.from_the_beginning())
    families = []
    for depth, information in enumerate(informed):
        above = len(task.parents[depth - 2]) if depth > 1 else 1
        families.append(before.take(depth, 0, above, None if information else noise, information))
    found, after, counted = {}, census.after, share(model).counted
    fitted = fit_redistricting(families, informed, counted)
    for level, (estimate, covariance) in zip(task.design.levels, fitted, strict=True):
        if level in SHARED_LEVELS:
            # Upper levels have the same places in both, in the order of their codes.
            order = census.order if level == after.design.levels[-1] else np.arange(len(estimate))
            found[after.design.levels.index(level)] = estimate[order], covariance[order]
    blocks = np.arange(len(census.order))
    for depth in reversed(range(len(after.parents))):
        if depth not in found:
            unions = [census.order[blocks == place] for place in range(len(after.parents[depth]))]
            found[depth] = fit_unions(families, informed, counted, unions)
        blocks = after.parents[depth][blocks]
    return found


def estimate_alone(
    model: Model, levels: Sequence[Answers], sums: Floats, shared: Floats
) -> Iterator[tuple[int, Linear]]:
    """The linear estimates of places that are measured, each from its own answers."""
    for depth, level in enumerate(levels):
        measured = np.flatnonzero(level.runs >= 0)
        for place in measured.tolist():
            planned = {name: replace(own, runs=own.runs[[place]]) for name, own in level.levels.items()}
            own = Answers(planned, np.zeros(1, dtype=np.int64), level.answers[[place]], level.known[[place]])
            for _, linear in fit(model, [own], sums, shared):
                yield depth, replace(linear, places=np.array([place]))


def compare(census: Census, model: Model, names: Sequence[str], draw: int) -> Iterator[pd.DataFrame]:
    """For each cell and place that a table has, by how it is estimated: the absolute error, and whether it is at most
    1.645 standard errors. Of exact counts, that is missing."""
    task = census.after
    expressed = {name: model.express_table(DHC_TABLES[name]) for name in names}
    sums, shared = np.concatenate([own for _, own in expressed.values()]), share(model)
    size, true = len(sums), list[Floats]()
    counts = {name: climb(own, task.parents, add_counts) for name, own in task.counts.items()}
    for depth, above in enumerate(task.parents):
        tables = [(DHC_TABLES[name], cells) for name, (cells, _) in expressed.items()]
        cells_of = [table.count(counts[table.schema.name][depth], len(above))[:, own] for table, own in tables]
        true.append(np.concatenate(cells_of, axis=1))
    table = np.repeat(list(expressed), [len(cells) for cells, _ in expressed.values()])
    levels, before = measure(census, model, draw), fit_before(census, model, draw)
    found = [(OWN, *each) for each in estimate_alone(model, levels, sums, shared.sums)]
    for depth, linear in fit(model, levels, sums, shared.sums):
        found.append((ALL, depth, linear))
        estimate, variance = combine(linear, *(own[linear.places] for own in before[depth]))
        found.append((BOTH, depth, replace(linear, estimate=estimate, variance=variance)))
    for how, depth, linear in found:
        errors = np.abs(linear.estimate[:, :size] - true[depth][linear.places])
        deviations = np.sqrt(np.maximum(linear.variance[:, :size], 0.0))
        inside = np.where(deviations > 1e-6, errors <= QUANTILE * deviations, np.nan)
        columns = {"table": np.tile(table, len(errors)), "error": errors.ravel(), "inside": inside.ravel()}
        yield pd.DataFrame(columns).assign(how=how, level=words(task.design.levels[depth]))


def compare_all(census: Census, draws: int) -> pd.DataFrame:
    """As `compare`, of all tables."""
    models = (model_persons(), "persons"), (model_homes(), "units")
    return pd.concat(
        [each for model, kind in models for draw in range(draws) for each in compare(census, model, TABLES[kind], draw)]
    )


def main(draws: int = DRAWS) -> None:
    census = Census(POPULATION)
    print(f"{census.persons:,} persons in {len(census.order):,} blocks, {draws} draws\n", flush=True)
    found = compare_all(census, draws)
    print(
        f"| table | level | places | {OWN} | {ALL} | {BOTH} | in the interval (cells) |\n|---|---|--:|--:|--:|--:|--:|"
    )
    for name in chain(*TABLES.values()):
        for depth, level in enumerate(census.after.design.levels):
            rows = found[(found.table == name) & (found.level == words(level))]
            errors = rows.groupby("how").error.mean()
            last = rows[rows.how == BOTH].inside.dropna()
            covered = f"{100 * last.mean():.1f}% ({len(last):,})" if len(last) else "exact"
            figures = " | ".join(f"{errors[how]:.2f}" if how in errors else "–" for how in (OWN, ALL, BOTH))
            print(f"| {name} | {words(level)} | {len(census.after.parents[depth]):,} | {figures} | {covered} |")
    for how, own in found.dropna().groupby("how"):
        print(f"\n{how}: {100 * own.inside.mean():.2f}% of {len(own):,} within the interval before rounding")
    print(f"\n{process_time():.0f} CPU-s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
