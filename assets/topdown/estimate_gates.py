"""What the estimates promise, found out from the stored tables by SQL alone.

Here belongs the evaluation, at every level, without a line of what made the estimates. The promises' words, and the
stages they belong to, stand in `promises`.
"""

import itertools

import numpy as np
import pyarrow as pa

from assets.gates.shared import said
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
    """Places whose estimated persons or units are not as many as the invariant says, at its level or above."""
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
                problems += said(wrong, f"{name}: places of {level} with another number than the invariant")
    return problems


def children_add_up(context: Context) -> list[str]:
    """Cells of places that are not the sum of the places below."""
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
            problems += said(wrong, f"cells of {level} that are not the sum of their {plural(below)}")
    return problems


def non_negative_integers(context: Context) -> list[str]:
    """Counts that are no positive integers (zeros are not stored), and counts of nothing that there is."""
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
            rules = ("not positive", "of no cell", "of no place", "there more than once")
            for number, rule in zip(found, rules, strict=True):
                problems += said(number, f"counts of {level} that are {rule}")
    return problems


def structural_zeros(context: Context) -> list[str]:
    """Persons whom no record can be, and persons where there is no dwelling of their type."""
    release, problems = context.release, []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for level in release.levels:
            for histogram, schema in SCHEMAS.items():
                (records,) = session.row(
                    "topdown/impossible",
                    {"histogram": histogram, "impossible": np.flatnonzero(~schema.possible).tolist()},
                    histograms=release.public(release.estimates(level)),
                )
                problems += said(records, f"{histogram} of {level} that the edit constraints rule out")
        for name, level, (nowhere, _, _) in _out_of_bounds(session, release):
            problems += said(nowhere, f"{name}: places of {level} with persons of a type and no dwelling of it")
    return problems


def inequalities(context: Context) -> list[str]:
    """Places with fewer persons of a type than group quarters of it, or more than its dwellings can hold."""
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name, level, (_, fewer, more) in _out_of_bounds(session, context.release):
            problems += said(fewer, f"{name}: places of {level} with fewer persons of a type than dwellings")
            problems += said(more, f"{name}: places of {level} with over {MOST_PERSONS:,} persons to a dwelling")
    return problems


def _out_of_bounds(session: Session, release: TopDownRelease) -> list[tuple[str, str, tuple[int, int, int]]]:
    """By invariant that bounds persons and by level: the counts that the statement finds."""
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
    """The levels from the root to the one an invariant is held at, each with the values that its statements bind."""
    last = release.levels.index(held)
    return [
        (level, {"invariant": name, "held": last, "depth": depth})
        for depth, level in enumerate(release.levels[: last + 1])
    ]
