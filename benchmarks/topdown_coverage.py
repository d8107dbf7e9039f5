"""How often TopDown's 90% intervals contain the truth: `python -m benchmarks.topdown_coverage`, about five minutes.

Two synthetic censuses are published ten times each, and each publication has its replicates. Every published interval
is compared with the true count. The output is the tables of `docs/mechanisms/topdown-uncertainty.md`, in Markdown.
Noise has fixed keys, so that every run gives the same figures. Nothing is stored: noise and estimation run in memory,
by the code of the replicates, which gives the estimates of a release if it is given the exact counts (a test shows it).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.limits import derive_all_limits
from assets.topdown.release import HISTOGRAMS
from assets.topdown.spine import read_tree
from assets.topdown.uncertainty import SIZES, describe_size
from assets.topdown.workers import ReplicateTask, in_processes, make_replicate
from benchmarks.harness import open_deployment, temporary_home
from benchmarks.topdown import charge
from mechanisms.sampling.noise import Noise
from mechanisms.topdown.design import SCHEMAS, words
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.replicates import QUANTILE, Intervals, Sums, compute_intervals, replicate_noise, roll_up
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


@dataclass(frozen=True)
class Comparison:
    """Published counts of a level beside the true ones. Arrays have the shape (places, cells).

    Attributes:
        level: the level.
        tables, names: shape (cells,): the table and the name of each cell.
        truth, estimate: the true and the published counts.
        found: the published errors.
        covered: by rule, whether the interval contains the truth.
        still: whether no replicate deviates.
    """

    level: str
    tables: NDArray[np.str_]
    names: NDArray[np.str_]
    truth: NDArray[np.int64]
    estimate: NDArray[np.int64]
    found: Intervals
    covered: Sequence[NDArray[np.bool_]]
    still: NDArray[np.bool_]


@dataclass
class Tally:
    """Sums over cells and draws.

    Attributes:
        cells: the number of cells.
        covered, centered, direct: how many intervals contain the truth, by rule.
        width: of published intervals.
        error, bias: published less true counts, and the biases by the replicates.
        still, still_covered: the cells where no replicate deviates, and how many of them are right.
    """

    cells: float = 0.0
    covered: float = 0.0
    centered: float = 0.0
    direct: float = 0.0
    width: float = 0.0
    error: float = 0.0
    bias: float = 0.0
    still: float = 0.0
    still_covered: float = 0.0

    def add(self, compared: Comparison, of: NDArray[np.bool_]) -> None:
        """Add the cells `of`, shape (places, cells)."""
        covered, centered, direct = compared.covered
        found = compared.found
        for name, array in {
            "cells": of,
            "covered": covered,
            "centered": centered,
            "direct": direct,
            "width": found.upper - found.lower,
            "error": compared.estimate - compared.truth,
            "bias": found.bias,
            "still": compared.still,
            "still_covered": compared.still & covered,
        }.items():
            setattr(self, name, getattr(self, name) + float(array[of].sum()))


Tallies = Mapping[tuple[str, str, int], Tally]
"""By group of tables, level and size of the true count; of totals, the size is 0."""


def main() -> None:
    """Measure and print."""
    started = perf_counter()
    found = {}
    for name, population in CENSUSES.items():
        census, persons = _make_census(population)
        print(f"{name}: {persons:,} persons in {len(census.parents[-1]):,} blocks", flush=True)
        found[name] = _measure(name, census)
    for group in GROUPS:
        print(f"\n### {group}\n\n{_format_by_size(found, group, census.design.levels)}")
    print(f"\n### Three rules\n\n{_format_rules(found, census.design.levels)}")
    print(f"\n### Without deviation\n\n{_format_still(found, census.design.levels)}")
    print(f"\n{perf_counter() - started:.0f} s")


def _make_census(population: SyntheticPopulation) -> tuple[ReplicateTask, int]:
    """A census as the task of a replicate, whose counts are the exact ones, and its number of persons."""
    dataset = synthetic_census(population, name="bench", cap={"rho": 100})
    declaration = TopDownDeclaration(name="redistricting", dataset="bench", title="Redistricting data")
    with temporary_home() as home:
        release = TopDown(declaration).release(dataset, Path(home) / "published")
        persons, _ = charge(home, release)
        warehouse, _, _ = open_deployment(home)
        counts = {}
        with warehouse.session(reads=[Zone.PUBLIC, Zone.CONFIDENTIAL]) as session:
            for histogram in SCHEMAS:
                exact = release.confidential(HISTOGRAMS)
                rows = session.arrow("topdown/estimated", {"histogram": histogram}, estimates=exact)
                counts[histogram] = Counts(*(rows[name].to_numpy() for name in ("number", "cell", "count")))
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
    tallies: dict[tuple[str, str, int], Tally] = defaultdict(Tally)
    made: dict[int, list[Mapping[str, Counts]]] = defaultdict(list)
    for number, counts, _ in in_processes(make_replicate, tasks, PROCESSES):
        draw = number // REPLICATES
        made[draw].append(counts)
        if len(made[draw]) == REPLICATES:
            for compared in _compare(draws[draw], published[draw], made.pop(draw)):
                _tally(tallies, compared)
    return tallies


def _tally(tallies: dict[tuple[str, str, int], Tally], compared: Comparison) -> None:
    size = np.searchsorted(SIZES, compared.truth, side="right") - 1
    for group, tables in GROUPS.items():
        within = np.isin(compared.tables, tables)[None, :]
        for number in np.unique(size[:, within[0]]):
            tallies[group, compared.level, int(number)].add(compared, within & (size == number))
    for total, name in TOTALS.items():
        of = np.broadcast_to(compared.names == name, size.shape)
        if of.any():
            tallies[total, compared.level, 0].add(compared, of)


def _compare(
    draw: ReplicateTask, published: Mapping[str, Counts], repeated: Sequence[Mapping[str, Counts]]
) -> Iterator[Comparison]:
    """One publication beside the truth, which the draw was made of, at every level."""
    noise = replicate_noise(draw.design, draw.key)
    for histogram, schema in SCHEMAS.items():
        cells = [(table, cell) for table in REDISTRICTING.values() if table.schema is schema for cell in table.cells]
        counted = np.array([cell.counted for _, cell in cells])
        sums = Sums(counted)
        true, shown, *others = (
            roll_up(each[histogram], draw.parents, schema.size) for each in (draw.counts, published, *repeated)
        )
        for depth, level in enumerate(draw.design.levels):
            places = len(draw.parents[depth - 1]) if depth else 1
            truth = sums.of(true[depth], 0, places)
            moments = sums.moments(shown[depth], [each[depth] for each in others], 0, places)
            found = compute_intervals(moments, REPLICATES)
            margin = QUANTILE * found.standard_error
            exact = true[depth].answer(schema.marginal(DETAILED), 0, places)
            answers, deviation = _measure_directly(draw, schema, level, counted, exact, noise)
            inside = (found.lower <= truth) & (truth <= found.upper)
            measured = _contains(truth, answers, _Z * deviation)
            yield Comparison(
                level,
                np.array([table.name for table, _ in cells]),
                np.array([cell.name for _, cell in cells]),
                truth,
                moments.estimate,
                found,
                (
                    inside,
                    _contains(truth, moments.estimate, margin),
                    np.where(_Z * deviation < margin, measured, inside),
                ),
                moments.squares == 0,
            )


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


def _format_by_size(found: Mapping[str, Tallies], group: str, levels: Sequence[str]) -> str:
    """A row for each level and size of the true count, with columns for each census."""
    head = ["level", "true count"]
    for name in found:
        head += [f"{name}: cells", "covered", "error", "bias"]
    rows = []
    for level in levels:
        for size in range(len(SIZES)):
            tallies = [of.get((group, level, size), Tally()) for of in found.values()]
            if any(tally.cells for tally in tallies):
                rows.append([words(level), _name_size(size), *(text for each in tallies for text in _format_row(each))])
    return _format_table(head, rows)


def _format_row(tally: Tally) -> list[str]:
    if not tally.cells:
        return ["", "", "", ""]
    return [
        f"{tally.cells / DRAWS:,.0f}",
        f"{tally.covered / tally.cells:.1%}",
        f"{tally.error / tally.cells:+,.2f}",
        f"{tally.bias / tally.cells:+,.2f}",
    ]


def _format_rules(found: Mapping[str, Tallies], levels: Sequence[str]) -> str:
    """Coverage by rule, over all censuses: of totals, and of the larger cells of P1 to P4."""
    keys = [(total, level, 0) for total in TOTALS for level in levels]
    keys += [("P1 to P4", level, size) for level in levels for size in range(SIZES.index(100), len(SIZES))]
    rows = []
    for group, level, size in keys:
        tally = _add_up(found, group, level, size)
        if tally.cells:
            rules = (tally.covered, tally.centered, tally.direct)
            of = group if group in TOTALS else f"{group}: {_name_size(size)}"
            shares = (f"{covered / tally.cells:.1%}" for covered in rules)
            rows.append([of, words(level), f"{tally.cells:,.0f}", *shares, f"{tally.width / tally.cells:,.1f}"])
    return _format_table(["count", "level", "intervals", *RULES, "width"], rows)


def _format_still(found: Mapping[str, Tallies], levels: Sequence[str]) -> str:
    """Over all censuses, the cells of P1 to P4 in which no replicate deviates, and which no invariant decides."""
    rows = []
    for level in levels:
        for size in (0, 1):
            tally = _add_up(found, "P1 to P4", level, size)
            if tally.still:
                share = f"{tally.still / tally.cells:.1%}"
                rows.append([words(level), _name_size(size), share, f"{tally.still_covered / tally.still:.1%}"])
    return _format_table(["level", "true count", "without deviation", "of these right"], rows)


def _name_size(number: int) -> str:
    return describe_size(SIZES[number], SIZES[number + 1] - 1 if number + 1 < len(SIZES) else None)


def _add_up(found: Mapping[str, Tallies], group: str, level: str, size: int) -> Tally:
    tally = Tally()
    for of in found.values():
        for field in fields(Tally):
            added = getattr(tally, field.name) + getattr(of.get((group, level, size), Tally()), field.name)
            setattr(tally, field.name, added)
    return tally


def _format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    aligned = ["---" if number < 2 else "---:" for number in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, aligned, *rows))


if __name__ == "__main__":
    main()
