"""The gain of the DHC's linear estimates from the measurements of all levels and of the redistricting data, and the
coverage of their intervals: `python -m benchmarks.dhc_intervals`, about two CPU-minutes.

A synthetic census is measured with fixed keys, so that every run gives the same figures. From the same answers, cells
are estimated from each place's own answers, from the answers of all levels, and from the answers of both releases.
Races, which the redistricting data alone measured, are estimated from all their levels and from both releases. The
output has the table of `docs/mechanisms/topdown-dhc.md`, in Markdown.
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
from assets.topdown.dhc.intervals import find_cells
from benchmarks.dhc_coverage import Census
from benchmarks.topdown_coverage import derive_key
from mechanisms.topdown.design import words
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.levels import measure_tree
from mechanisms.topdown.dhc.linear import (
    Answers,
    Linear,
    Model,
    Told,
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
TABLES = {"persons": ("P1", "P3", "P4", "P5", "P12", "P17"), "units": ("H3", "H4", "H10", "PCT15")}
SHARED_LEVELS = ("US", "State", "County", "Block")
"""The levels of the DHC with the same places as a level of the redistricting release."""

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


def fit_before(census: Census, model: Model, draw: int) -> Mapping[int, Told]:
    """By depth in the DHC, the information in the measurements of the redistricting data, in the same places or in
    unions of their blocks."""
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
    found, after, shared = {}, census.after, share(model)
    wanted = families, informed, shared.counted, len(shared.sums)
    for level, told in zip(task.design.levels, fit_redistricting(*wanted), strict=True):
        if level in SHARED_LEVELS:
            # Upper levels have the same places in both, in the order of their codes.
            order = census.order if level == after.design.levels[-1] else np.arange(len(told.estimate))
            found[after.design.levels.index(level)] = told.take(order)
    blocks = np.arange(len(census.order))
    for depth in reversed(range(len(after.parents))):
        if depth not in found:
            unions = [census.order[blocks == place] for place in range(len(after.parents[depth]))]
            found[depth] = fit_unions(*wanted, unions)
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
    """For each cell and place with an interval in a table, by the way of estimation: the absolute error, and whether it
    is at most 1.645 standard errors, which is missing for exact counts."""
    task, shared = census.after, share(model)
    cells = {name: find_cells(task.design, name) for name in names}
    sums, others = (np.concatenate([getattr(own, of) for own in cells.values()]) for of in ("sums", "other"))
    table, known = np.repeat(names, [len(own.other) for own in cells.values()]), others >= 0
    own = np.r_[: len(sums), len(sums) + len(shared.sums) + others[known]]
    order = np.r_[np.flatnonzero(~known), np.flatnonzero(known)]
    counts = {name: climb(of_blocks, task.parents, add_counts) for name, of_blocks in task.counts.items()}
    true = list[Floats]()
    for depth, above in enumerate(task.parents):
        tables = [(DHC_TABLES[name], determined.positions) for name, determined in cells.items()]
        cells_of = [each.count(counts[each.schema.name][depth], len(above))[:, where] for each, where in tables]
        true.append(np.concatenate(cells_of, axis=1)[:, order])
    levels, before = measure(census, model, draw), fit_before(census, model, draw)
    rows = [
        (OWN, depth, each.places, each.estimate[:, : len(sums)], each.variance[:, : len(sums)])
        for depth, each in estimate_alone(model, levels, sums, shared.sums)
    ]
    for depth, linear in fit(model, levels, sums, shared.sums):
        told = before[depth].take(linear.places)
        by_one = [
            np.concatenate([of_sums[:, : len(sums)], of_told[:, len(shared.sums) + others[known]]], axis=1)
            for of_sums, of_told in ((linear.estimate, told.estimate), (linear.variance, told.variance))
        ]
        rows.append((ALL, depth, linear.places, *by_one))
        rows.append((BOTH, depth, linear.places, *(each[:, own] for each in combine(linear, told))))
    for how, depth, places, estimate, variance in rows:
        size = estimate.shape[1]
        errors = np.abs(estimate - true[depth][places][:, :size])
        deviations = np.sqrt(np.maximum(variance, 0.0))
        inside = np.where(deviations > 1e-6, errors <= QUANTILE * deviations, np.nan)
        of_table = np.tile(table[order][:size], len(errors))
        columns = {"table": of_table, "error": errors.ravel(), "inside": inside.ravel()}
        frame = pd.DataFrame(columns).assign(how=how, level=words(task.design.levels[depth]))
        yield frame[~frame.table.isin(table[known])] if how == OWN else frame


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
