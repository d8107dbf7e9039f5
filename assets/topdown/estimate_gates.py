"""The evaluation of TopDown's gates on the estimates, from the stored tables by SQL alone.

The gates are evaluated at every level, and share no code with the estimation. `gates` lists them with their words and
stages.
"""

import itertools

import numpy as np
import pyarrow as pa

from assets.gates.shared import count_problem
from assets.release.gate import ReleaseContext
from assets.topdown.limits import MOST_PERSONS
from assets.topdown.release import INVARIANTS, SPINE, TopDownRelease
from assets.topdown.spine import stage_ancestry
from assets.topdown.tree import plural
from mechanisms.topdown.design import GROUP_QUARTERS, HOUSING_UNITS, POPULATION, SCHEMAS
from mechanisms.topdown.schema import PERSONS, UNITS
from resources.statements import Zone
from resources.warehouse import Session

Context = ReleaseContext[TopDownRelease]

_COLUMNS = {"histogram": "VARCHAR", "number": "BIGINT", "cell": "BIGINT", "count": "BIGINT"}
_COUNTED = {POPULATION: PERSONS.name, HOUSING_UNITS: UNITS.name}
_LEAST = {GROUP_QUARTERS: 1, HOUSING_UNITS: 0}


def exact_invariants(context: Context) -> list[str]:
    """Places where the estimated number of persons or units differs from an invariant, at its level or above."""
    release, problems = context.release, []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        ancestry = stage_ancestry(session, release)
        for name, held in release.design.invariants.items():
            if name not in _COUNTED:
                continue
            for level, place in _at_or_above(release, name, held):
                (wrong,) = session.row(
                    "topdown/inexact",
                    place | {"histogram": _COUNTED[name]},
                    estimates=release.public(release.estimates(level)),
                    invariants=release.public(INVARIANTS),
                    spine=release.public(SPINE),
                    ancestry=ancestry,
                )
                problems += count_problem(wrong, f"{name}: places of {level} that differ from the invariant")
    return problems


def children_add_up(context: Context) -> list[str]:
    """Cells of places that are not the sums over the places below."""
    release, problems = context.release, []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for depth, (level, below) in enumerate(itertools.pairwise(release.levels)):
            (wrong,) = session.row(
                "topdown/not_adding_up",
                {"depth": depth},
                above=release.public(release.estimates(level)),
                below=release.public(release.estimates(below)),
                spine=release.public(SPINE),
            )
            problems += count_problem(wrong, f"cells of {level} that are not the sums over their {plural(below)}")
    return problems


def non_negative_integers(context: Context) -> list[str]:
    """Counts that are not positive integers (zeros are not stored), and counts of unknown cells or places."""
    release, problems = context.release, []
    sizes = pa.table(
        {"histogram": list(SCHEMAS), "cells": pa.array([schema.size for schema in SCHEMAS.values()], pa.int64())}
    )
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        schemas = session.register("schemas", sizes)
        for depth, level in enumerate(release.levels):
            table = release.public(release.estimates(level))
            if session.columns(table) != _COLUMNS:
                problems.append(f"{table}: columns are not {', '.join(map(' '.join, _COLUMNS.items()))}")
                continue
            found = session.row(
                "topdown/ill_formed",
                {"depth": depth},
                estimates=table,
                spine=release.public(SPINE),
                schemas=schemas,
            )
            rules = ("not positive", "of unknown cells", "of unknown places", "repeated")
            for number, rule in zip(found, rules, strict=True):
                problems += count_problem(number, f"counts of {level} that are {rule}")
    return problems


def structural_zeros(context: Context) -> list[str]:
    """Persons and units in impossible cells, and persons in places without a dwelling of their type."""
    release, problems = context.release, []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for level in release.levels:
            for histogram, schema in SCHEMAS.items():
                (records,) = session.row(
                    "topdown/impossible",
                    {"histogram": histogram, "impossible": np.flatnonzero(~schema.possible).tolist()},
                    histograms=release.public(release.estimates(level)),
                )
                problems += count_problem(records, f"{histogram} of {level} that the edit constraints rule out")
        for name, level, (nowhere, _, _) in _out_of_bounds(session, release):
            problems += count_problem(
                nowhere, f"{name}: places of {level} with persons of a type but no dwelling of that type"
            )
    return problems


def inequalities(context: Context) -> list[str]:
    """Places with fewer persons of a type than group quarters of that type, or more than dwellings can hold."""
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name, level, (_, fewer, more) in _out_of_bounds(session, context.release):
            problems += count_problem(fewer, f"{name}: places of {level} with fewer persons of a type than dwellings")
            problems += count_problem(
                more, f"{name}: places of {level} with over {MOST_PERSONS:,} persons per dwelling"
            )
    return problems


def _out_of_bounds(session: Session, release: TopDownRelease) -> list[tuple[str, str, tuple[int, int, int]]]:
    ancestry = stage_ancestry(session, release)
    found = []
    for name, held in release.design.invariants.items():
        if name not in _LEAST:
            continue
        for level, place in _at_or_above(release, name, held):
            values = place | {
                "histogram": PERSONS.name,
                "cells_of_a_type": PERSONS.size // PERSONS.groups.size,
                "group_quarters": name == GROUP_QUARTERS,
                "least": _LEAST[name],
                "most": MOST_PERSONS,
            }
            row = session.row(
                "topdown/out_of_bounds",
                values,
                estimates=release.public(release.estimates(level)),
                invariants=release.public(INVARIANTS),
                ancestry=ancestry,
            )
            found.append((name, level, (int(row[0]), int(row[1]), int(row[2]))))
    return found


def _at_or_above(release: TopDownRelease, name: str, held: str) -> list[tuple[str, dict[str, int | str]]]:
    """The levels from the root to the invariant's own level, each with the values that statements bind."""
    last = release.levels.index(held)
    return [
        (level, {"invariant": name, "held": last, "depth": depth})
        for depth, level in enumerate(release.levels[: last + 1])
    ]
