"""How often the DHC's 90% intervals contain the truth, and how far persons and households agree:
`python -m benchmarks.dhc_coverage`, about three CPU-minutes; `python -m benchmarks.dhc_coverage agreement` for the
second alone, one minute.

A synthetic census is published with the production levels and budgets, with replicates, and every cell's
interval is compared with the true count. Then it is published with `householders_among_persons`, on the same noise. The
output has the figures of `docs/mechanisms/topdown-dhc.md`, in Markdown. Noise has fixed keys, so that every run gives
the same figures. It runs in memory, by the code of the replicates.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.dhc.declaration import DHCDeclaration
from assets.topdown.dhc.given import read_facilities
from assets.topdown.dhc.method import DHCMethod
from assets.topdown.dhc.release import FACILITIES
from assets.topdown.dhc.replicates import Task, make_replicate
from assets.topdown.histograms import read_counts
from assets.topdown.invariants import derive_all_limits
from assets.topdown.method import TopDownMethod
from assets.topdown.release import HISTOGRAMS, INVARIANTS, SPINE, TreeRelease
from assets.topdown.spine import read_tree
from assets.topdown.uncertainty import SIZES
from assets.topdown.workers import ReplicateTask
from benchmarks import harness
from benchmarks.topdown_coverage import derive_key, format_table, name_size
from mechanisms.topdown.design import SCHEMAS as BEFORE
from mechanisms.topdown.design import words
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.householders import count_householders
from mechanisms.topdown.dhc.households import HOUSEHOLDS, ORIGIN_AND_RACE
from mechanisms.topdown.dhc.quarters import GROUPS
from mechanisms.topdown.dhc.tables import DHC_TABLES
from mechanisms.topdown.dhc.tree import Held, add_counts, climb, collect
from mechanisms.topdown.replicates import add_deviations, compute_intervals, estimate_finest, replicate_noise
from mechanisms.topdown.schema import DETAILED, UNITS, Counts
from orchestration.components import DHC, TopDown
from resources.statements import Zone
from resources.warehouse import Session

DRAWS, REPLICATES = 1, 8
POPULATION = SyntheticPopulation(households=2_000, states=["10", "44"], dhc=True)
TABLES = ("P12", "P16", "H4", "H10", "H12", "H13")
Numbers = NDArray[np.int64]


class Census:
    """A synthetic census, exact: its persons, and as tasks of a replicate of the redistricting data and of the DHC.
    `order` maps the block numbers of the DHC's task to the block numbers of the redistricting data's."""

    def __init__(self, population: SyntheticPopulation = POPULATION) -> None:
        dataset = synthetic_census(population, name="bench", cap={"rho": 100})
        declared = {"dataset": "bench", "title": "Benchmark"}
        before = TopDown(TopDownDeclaration.model_validate({"name": "redistricting"} | declared))
        after = DHC(
            DHCDeclaration.model_validate({"name": "dhc", "consistent_with": "redistricting"} | declared), before
        )
        with harness.temporary_home() as home:
            release, dhc = (component.release(dataset, Path(home) / "published") for component in (before, after))
            self.persons = harness.write_census_cef(home, dataset)
            harness.make_stages(home, TopDownMethod(release), SPINE, HISTOGRAMS, INVARIANTS)
            harness.make_stages(home, DHCMethod(dhc), SPINE, FACILITIES, HISTOGRAMS)
            with harness.open_warehouse(home).session(reads=[Zone.PUBLIC, Zone.CONFIDENTIAL]) as session:
                of_both = []
                for each, schemas in ((release, BEFORE), (dhc, SCHEMAS)):
                    exact = each.confidential(HISTOGRAMS)
                    counts = {
                        name: read_counts(session, exact, schema.size, histogram=name)
                        for name, schema in schemas.items()
                    }
                    of_both.append((read_tree(session, each).parents, counts))
                self.before = ReplicateTask(0, b"", release.design, *of_both[0], derive_all_limits(session, release))
                codes = [_list_blocks(session, each) for each in (release, dhc)]
                facilities = read_facilities(session, dhc, len(codes[1]))
        parents = (np.zeros(1, dtype=np.int64), *of_both[1][0])
        self.order = np.array([codes[0].index(code) for code in codes[1]])
        self.after = Task(0, b"", dhc.design, parents, of_both[1][1], facilities, facilities, facilities)

    def draw(self, published: "Published | None", *key: object) -> "Published":
        """A publication of the census, or a replicate of one."""
        noise = replicate_noise(self.before.design, derive_key("redistricting", *key))
        given = self.before.counts if published is None else published.before
        before = estimate_finest(self.before.design, self.before.parents, given, self.before.limits, noise)
        persons, units = (before[name] for name in BEFORE)
        number = np.argsort(self.order)
        held = Held(collect(number[persons.number], persons.cell, persons.count), GROUPS)
        occupancy = units.answer(UNITS.marginal(DETAILED), 0, len(number))[self.order]
        counts = self.after.counts if published is None else published.counts
        key_of_dhc = derive_key("dhc", *key)
        task = replace(self.after, key=key_of_dhc, counts=counts, persons=held, occupancy=occupancy)
        return Published(before, task, make_replicate(task)[1])


class Published(NamedTuple):
    """The redistricting data; the task that made the DHC; and the DHC's counts of blocks, by histogram."""

    before: Mapping[str, Counts]
    task: Task
    counts: Mapping[str, Counts]


def _list_blocks(session: Session, release: TreeRelease) -> list[str]:
    rows = session.arrow("warehouse/all", source=release.public(SPINE)).sort_by("number").to_pylist()
    return [row["geoid"] for row in rows if row["level"] == release.finest]


def main(*parts: str) -> None:
    census = Census()
    levels = [words(level) for level in census.after.design.levels]
    print(f"{census.persons:,} persons in {len(census.order):,} blocks", flush=True)
    draws = [census.draw(None, "draw", draw) for draw in range(DRAWS)]
    print("\n### Agreement\n\n" + compare_agreement(census, draws, levels), flush=True)
    if not parts:
        tallies = []
        for number, published in enumerate(draws):
            replicates = [census.draw(published, number, each).counts for each in range(REPLICATES)]
            tallies += list_coverage(census.after, published.counts, replicates)
        print("\n### Coverage\n\n" + format_coverage(pd.concat(tallies), levels))
    print(f"\n{process_time():.0f} CPU-s")


def compare_agreement(census: Census, draws: Sequence[Published], levels: Sequence[str]) -> str:
    """Blocks with a householder of an origin and race of whom fewer persons live in households, or none; and the mean
    absolute errors of tables, by level; apart, and with `householders_among_persons`."""
    rows = defaultdict[tuple[str, str], list[list[float]]](lambda: [[], []])
    for published in draws:
        design = replace(census.after.design, householders_among_persons=True)
        agreeing = make_replicate(replace(published.task, design=design))[1]
        persons = count_householders(published.task.persons, published.task.occupancy[:, 0]).persons
        for number, counts in enumerate((published.counts, agreeing)):
            householders = counts[HOUSEHOLDS.name].answer(HOUSEHOLDS.marginal(ORIGIN_AND_RACE), 0, len(persons))
            for label, wrong in (
                ("blocks with an origin and race of householders and of nobody", (householders > 0) & (persons == 0)),
                ("blocks with more householders of one than persons", householders > persons),
            ):
                rows[label, ""][number].append(float(wrong.any(axis=1).sum()))
            for name in TABLES[1:]:
                for level, error in zip(levels, _list_errors(name, census.after, counts), strict=True):
                    rows[f"{name}: mean absolute error", level][number].append(float(np.abs(error).mean()))
    shown = [[*key, *(f"{np.mean(each):,.2f}" for each in both)] for key, both in rows.items()]
    return format_table(["", "level", "apart", "among persons"], shown)


def _list_errors(name: str, exact: Task, counts: Mapping[str, Counts]) -> Iterator[Numbers]:
    """By level: a table minus its true figures, shape (places, cells)."""
    for truth, found in zip(*(list_tables(name, exact.parents, each) for each in (exact.counts, counts)), strict=True):
        yield found - truth


def list_tables(name: str, parents: Sequence[Numbers], counts: Mapping[str, Counts]) -> Iterator[Numbers]:
    """By level: the figures of a table, shape (places, cells)."""
    table = DHC_TABLES[name]
    for own, of_level in zip(climb(counts[table.schema.name], parents, add_counts), parents, strict=True):
        yield table.count(own, len(of_level))


def list_coverage(
    exact: Task, published: Mapping[str, Counts], replicates: Sequence[Mapping[str, Counts]]
) -> Iterator[pd.DataFrame]:
    """By table, depth of the level and size of the true count, sums over cells: `cells`, their number; `covered`, the
    intervals that contain the truth; `width`; `error`, published minus true counts; and `bias`, by the replicates."""
    for name in TABLES:
        of_all = (list_tables(name, exact.parents, each) for each in (exact.counts, published, *replicates))
        for depth, (truth, estimate, *repeated) in enumerate(zip(*of_all, strict=True)):
            errors = compute_intervals(add_deviations(estimate, repeated), len(repeated))
            quantities = {
                "cells": np.ones_like(truth),
                "covered": (errors.lower <= truth) & (truth <= errors.upper),
                "width": errors.upper - errors.lower,
                "error": estimate - truth,
                "bias": errors.bias,
            }
            values = pd.DataFrame({key: array.ravel().astype(float) for key, array in quantities.items()})
            size = np.searchsorted(SIZES, truth.ravel(), side="right") - 1
            yield values.assign(table=name, depth=depth, size=size).groupby(["table", "depth", "size"]).sum()


def format_coverage(tallies: pd.DataFrame, levels: Sequence[str]) -> str:
    sums = tallies.groupby(["table", "depth", "size"]).sum()
    rows = [
        [
            name,
            levels[depth],
            name_size(size),
            f"{own.cells / DRAWS:,.0f}",
            f"{own.covered / own.cells:.1%}",
            *(f"{own[key] / own.cells:+,.2f}" for key in ("error", "bias")),
            f"{own.width / own.cells:,.1f}",
        ]
        for (name, depth, size), own in sums.iterrows()
    ]
    return format_table(["table", "level", "true count", "cells", "covered", "error", "bias", "width"], rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
