"""The gates that TopDown adds to the gates of all releases and of noisy counts. They check the stored tables.

Those on estimates are evaluated at every level, by SQL alone, and share no code with the estimation.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.gates.shared import count_problem, differing_table
from assets.release.gate import ByPart, Gate, ReleaseContext, session_gate
from assets.release.method import CHARGE
from assets.tabulation.asset import tables_gate
from assets.topdown.estimation import find_wrong_levels, is_united
from assets.topdown.histograms import count_impossible
from assets.topdown.intervals import are_intervals_as_made
from assets.topdown.invariants import invariants_recipe, require_feasible
from assets.topdown.measurements import hash_streams, read_streams
from assets.topdown.records import estimates_of_states, find_finest, find_stale_states
from assets.topdown.release import (
    HISTOGRAMS,
    INTERVALS,
    INVARIANTS,
    MICRODATA,
    RECORDS,
    SPINE,
    UNCERTAINTY,
    SpineError,
    TopDownRelease,
    TreeRelease,
)
from assets.topdown.replicates import TopDownReplication, replicates_gate
from assets.topdown.spine import find_ranges, pluralize, read_states, read_tree, spine_recipe, stage_ancestry
from assets.topdown.tables import (
    redistricting_table,
    redistricting_tables,
    register_codes,
    state_recipes,
    tables_recipe,
    united_recipes,
)
from assets.topdown.uncertainty import uncertainty_recipes
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.topdown.design import GROUP_QUARTERS, HOUSING_UNITS, MOST_PERSONS, POPULATION, SCHEMAS, level_of_states
from mechanisms.topdown.feasibility import InfeasibleError
from mechanisms.topdown.redistricting import RedistrictingTable
from mechanisms.topdown.schema import OCCUPIED, PERSONS, UNITS, Schema
from resources.digests import ROWS_HASHED
from resources.statements import SQL, Fragment, Table, Zone
from resources.warehouse import UNITED, Session

Context = ReleaseContext[TopDownRelease]

PLACES_AT_A_TIME = 100_000
"""The number of places whose records are compared with the estimates at once."""

_COUNTS = SQL("topdown/all_counts", "SELECT histogram::VARCHAR AS name, count::BIGINT AS count FROM {{ estimates }}")
_COLUMNS = {"histogram": "VARCHAR", "number": "BIGINT", "cell": "BIGINT", "count": "BIGINT"}
_COUNTED = {POPULATION: PERSONS.name, HOUSING_UNITS: UNITS.name}
_LEAST = {GROUP_QUARTERS: 1, HOUSING_UNITS: 0}


def topdown_gates(release: TopDownRelease) -> list[Gate[TopDownRelease]]:
    estimated, confidential = release.estimated, [Zone.CONFIDENTIAL]
    gates = [
        session_gate("spine_of_the_cef", SPINE, check_spine, [*confidential, Zone.PUBLIC]),
        session_gate("no_impossible_records", HISTOGRAMS, _check_impossible_records, confidential),
        session_gate("invariants_of_the_cef", INVARIANTS, _check_invariants, [*confidential, Zone.PUBLIC]),
        session_gate("invariants_declared", INVARIANTS, _check_declared_invariants),
        session_gate("charge_as_allocated", CHARGE, _check_allocation),
        session_gate("feasible", CHARGE, _check_feasibility),
        session_gate("estimates_as_made", estimated, _check_origin),
        session_gate("invariants_exact", estimated, _check_exact_invariants),
        session_gate("children_add_up", estimated, _check_sums_of_children),
        session_gate("whole_numbers", estimated, _check_whole_numbers),
        session_gate("structural_zeros", estimated, _check_structural_zeros),
        session_gate("inequalities", estimated, _check_inequalities),
        session_gate(
            "microdata_of_estimates",
            MICRODATA,
            _check_microdata,
            by_part=_by_state(release, _are_records_of_state, _are_records_joined),
        ),
        tables_gate(
            lambda session: tables_recipe(session, release),
            by_part=_by_state(release, _are_tables_of_state, _are_tables_joined),
        ),
        session_gate("tables_agree", "tables", _check_tables),
    ]
    if release.partitioned:
        gates += [
            session_gate("records_of_states", MICRODATA, _check_states),
            session_gate("tables_of_states", "tables", _check_tables_of_states),
        ]
    if release.design.full:
        gates += [
            session_gate("persons_and_units_agree", estimated, _check_units),
            session_gate("intervals_as_made", INTERVALS, _check_intervals),
        ]
    if release.declaration.replicates:
        gates += [
            replicates_gate(TopDownReplication(release)),
            tables_gate(lambda session: uncertainty_recipes(session, release), UNCERTAINTY),
        ]
    return gates


def _by_state(
    release: TopDownRelease,
    holds_in: Callable[[Session, TopDownRelease, str], bool],
    joins: Callable[[Session, TopDownRelease], bool],
) -> ByPart[TopDownRelease] | None:
    """The check of a rule on public tables state by state; None if states do not have their own runs."""

    def list_states(context: Context) -> list[str]:
        with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
            return read_states(session, context.release)

    def holds_in_state(context: Context, state: str) -> bool:
        with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
            return holds_in(session, context.release, state)

    def joins_states(context: Context) -> bool:
        with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
            return joins(session, context.release)

    return ByPart(list_states, holds_in_state, joins_states) if release.partitioned else None


def check_spine(session: Session, context: ReleaseContext[Any]) -> Iterable[str]:
    """The stored spine is a tree, and is that of the current CEF."""
    try:
        recipe = spine_recipe(session, context.release)
    except SpineError as error:
        return [str(error)]
    return differing_table(session, context.release.public(SPINE), recipe)


def _check_impossible_records(session: Session, context: Context) -> Iterable[str]:
    """The histograms count no records that the edit constraints rule out."""
    records = count_impossible(session, context.release.confidential(HISTOGRAMS))
    return count_problem(sum(records.values()), "records that the edit constraints rule out")


def _check_invariants(session: Session, context: Context) -> Iterable[str]:
    """The stored invariants are those of the current CEF."""
    return differing_table(session, context.release.public(INVARIANTS), invariants_recipe(session, context.release))


def _check_declared_invariants(session: Session, context: Context) -> Iterable[str]:
    """The declared invariants, and no others, are published exactly, for every place of their level."""
    release = context.release
    names = {"invariants": release.public(INVARIANTS), "spine": release.public(SPINE)}
    stored = session.rows("topdown/stored_invariants", **names)
    for name, level, missing in stored:
        if release.design.invariants.get(name) != level:
            yield f"{name} by {level} is published exactly but not declared"
        yield from count_problem(missing, f"{name}: places of {level} without a count")
    for name in release.design.invariants.keys() - {name for name, _, _ in stored}:
        yield f"{name} is declared but missing"


def _check_allocation(session: Session, context: Context) -> Iterable[str]:
    """The charge is exactly the sum over queries of ρ times the share of the level times the share of the query, where
    units count twice."""
    draw = context.method.describe(session, context.custody)
    entry = context.reading.find_reservation(draw.draw_id)
    if entry is None:
        return [f"no ledger entry for draw {draw.draw_id}"]
    due = Fraction()
    for histogram, times in (("persons", 1), ("units", 2)):
        allocation = context.release.design.allocations[histogram]
        for level, share in allocation.levels.items():
            for part in allocation.queries[level].values():
                due += times * allocation.loss.rho * share * part
    charged = entry.parse_specification().loss
    if charged == ConcentratedLoss(due):
        return []
    return [f"ledger entry {entry.sequence} charges {charged}, not ρ = {due}"]


def _check_feasibility(session: Session, context: Context) -> Iterable[str]:
    """There are histograms that satisfy every invariant and bound."""
    try:
        require_feasible(session, context.release)
    except InfeasibleError as error:
        return [str(error)]
    return []


def _check_origin(session: Session, context: Context) -> Iterable[str]:
    """The stored estimates of every level were made from the stored measurements, invariants and spine."""
    draw = context.method.describe(session, context.custody)
    wrong, read = find_wrong_levels(session, context.custody, context.release)
    if wrong:
        return [f"{scope}: altered, or made from other data" for scope in wrong]
    settled = context.reading.find_settlement(draw.draw_id)
    answers = {stream.label: read.get(stream.label, "") for stream in read_streams(session, context.release)}
    if settled is None or hash_streams(answers) != settled.output_version:
        return ["the estimates were made from other measurements than those that were drawn"]
    return []


def _check_exact_invariants(session: Session, context: Context) -> Iterable[str]:
    """The estimates of every level satisfy the invariants exactly."""
    release = context.release
    for name, level, values, names in _bounded_levels(session, release, _COUNTED):
        values |= {"histogram": _COUNTED[name]}
        (wrong,) = session.row("topdown/inexact", values, **names, spine=release.public(SPINE))
        yield from count_problem(wrong, f"{name}: places of {level} that differ from the invariant")


def _check_sums_of_children(session: Session, context: Context) -> Iterable[str]:
    """The estimates of every place are the sums of those below it in every cell."""
    release = context.release
    return find_wrong_sums(session, release, lambda level: release.public(release.estimates(level)))


def find_wrong_sums(
    session: Session, release: TreeRelease, estimates: Callable[[str], Table | Fragment]
) -> Iterator[str]:
    """The numbers of wrong sums, from the estimates of each level."""
    for depth, (level, below) in enumerate(pairwise(release.levels)):
        tables = {"above": estimates(level), "below": estimates(below), "spine": release.public(SPINE)}
        (wrong,) = session.row("topdown/not_adding_up", {"depth": depth}, **tables)
        yield from count_problem(wrong, f"cells of {level} that are not the sums over their {pluralize(below)}")


def _check_whole_numbers(session: Session, context: Context) -> Iterable[str]:
    """All estimates are nonnegative integers.

    Zeros are not stored, so a stored count is positive. Nor may there be counts of unknown cells or places.
    """
    release = context.release
    for level in release.levels:
        table = release.public(release.estimates(level))
        if session.columns(table) == _COLUMNS:
            yield from find_ill_formed(session, release, level, table, SCHEMAS)
        else:
            yield f"{table}: columns are not {', '.join(map(' '.join, _COLUMNS.items()))}"


def find_ill_formed(
    session: Session, release: TreeRelease, level: str, estimates: Table | Fragment, schemas: Mapping[str, Schema]
) -> Iterator[str]:
    """The numbers of counts at a level that no estimates could be, by rule."""
    sizes = pa.table({"histogram": list(schemas), "cells": [schema.size for schema in schemas.values()]})
    names = {"estimates": estimates, "spine": release.public(SPINE), "schemas": session.register("schemas", sizes)}
    numbers = session.row("topdown/ill_formed", {"depth": release.levels.index(level)}, **names)
    rules = ("not positive", "of unknown cells", "of unknown places", "repeated")
    for number, rule in zip(numbers, rules, strict=True):
        yield from count_problem(number, f"counts of {level} that are {rule}")


def _check_structural_zeros(session: Session, context: Context) -> Iterable[str]:
    """No person or unit is in an impossible cell. No place without a housing unit has persons in households, and
    no place has persons in a type of group quarters that it lacks."""
    release = context.release
    for level in release.levels:
        for histogram, records in count_impossible(session, release.public(release.estimates(level))).items():
            yield from count_problem(records, f"{histogram} of {level} that the edit constraints rule out")
    for name, level, (nowhere, _, _) in _count_out_of_bounds(session, release):
        yield from count_problem(
            nowhere, f"{name}: places of {level} with persons of a type but no dwelling of that type"
        )


def _check_inequalities(session: Session, context: Context) -> Iterable[str]:
    """No place has fewer persons in a type of group quarters than facilities of this type, or over 99,999 persons for
    each facility or housing unit."""
    for name, level, (_, fewer, more) in _count_out_of_bounds(session, context.release):
        yield from count_problem(fewer, f"{name}: places of {level} with fewer persons of a type than dwellings")
        yield from count_problem(more, f"{name}: places of {level} with over {MOST_PERSONS:,} persons per dwelling")


def _check_units(session: Session, context: Context) -> Iterable[str]:
    """Every place of the finest level with persons in households has an occupied unit, and no place has more occupied
    units than persons in households."""
    release, values = context.release, {"persons": PERSONS.name, "units": UNITS.name, "occupied": OCCUPIED}
    values |= {"cells_of_households": PERSONS.size // PERSONS.groups.size}
    estimates = release.public(release.estimates(release.finest))
    without, more = session.row("topdown/disagreeing_units", values, estimates=estimates)
    yield from count_problem(without, f"places of {release.finest} with persons in households but no occupied unit")
    yield from count_problem(more, f"places of {release.finest} with more occupied units than persons in households")


def _check_intervals(session: Session, context: Context) -> Iterable[str]:
    """The stored intervals were made from the current information."""
    if not are_intervals_as_made(session, context.custody, context.release):
        yield "the stored tables of intervals were altered, or made from other information"


def _count_out_of_bounds(session: Session, release: TopDownRelease) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    for name, level, values, names in _bounded_levels(session, release, _LEAST):
        values |= {
            "histogram": PERSONS.name,
            "cells_of_a_type": PERSONS.size // PERSONS.groups.size,
            "group_quarters": name == GROUP_QUARTERS,
            "least": _LEAST[name],
            "most": MOST_PERSONS,
        }
        yield name, level, session.row("topdown/out_of_bounds", values, **names)


def _bounded_levels(
    session: Session, release: TopDownRelease, among: Collection[str]
) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """The invariants in `among`, at every level from the root to their own, with the values and names for SQL
    statements."""
    ancestry = stage_ancestry(session, release)
    for name, lowest in release.design.invariants.items():
        if name in among:
            last = release.levels.index(lowest)
            for depth, level in enumerate(release.levels[: last + 1]):
                estimates, invariants = release.public(release.estimates(level)), release.public(INVARIANTS)
                names = {"estimates": estimates, "invariants": invariants, "ancestry": ancestry}
                yield name, level, {"invariant": name, "own_depth": last, "depth": depth}, names


def _check_microdata(session: Session, context: Context) -> Iterable[str]:
    """The microdata have exactly the counts estimated for the finest level, in the order of places and cells."""
    for schema in SCHEMAS.values():
        yield from _find_problems_of_all(session, context.release, schema)


def _find_problems_of_all(session: Session, release: TopDownRelease, schema: Schema) -> Iterator[str]:
    estimates = release.public(release.estimates(release.finest))
    return _find_record_problems(session, release, schema, release.public(schema.name), estimates)


def _are_records_of_state(session: Session, release: TopDownRelease, state: str) -> bool:
    """Whether the records of one state have exactly the counts estimated for its places, and are numbered after the
    records of the states before it."""
    _, (*_, (first, last)) = find_ranges(session, release, state)
    number, estimates = read_states(session, release).index(state), find_finest(release, state).table(release)
    for name in release.recorded_by_state:
        values = {"histogram": name, "first": first, "last": last}
        (elsewhere,) = session.row("topdown/estimated_elsewhere", values, estimates=estimates)
        records = release.public(release.of_state(name, state))
        due = _count_by_state(session, release, SCHEMAS[name])
        before = sum(count for other, count in due.items() if other < number)
        if elsewhere or any(_find_record_problems(session, release, SCHEMAS[name], records, estimates, before)):
            return False
    return True


def _are_records_joined(session: Session, release: TopDownRelease) -> bool:
    """Whether all records are exactly the records of the states, each state has as many as its estimates count, and the
    estimates of the finest level are exactly the tables of the states. Records of histograms without tables by state
    are compared with the estimates directly."""
    states = read_states(session, release)
    for schema in SCHEMAS.values():
        if schema.name not in release.recorded_by_state:
            if any(_find_problems_of_all(session, release, schema)):
                return False
            continue
        tables = [release.public(release.of_state(schema.name, state)) for state in states]
        due = _count_by_state(session, release, schema)
        names = {"tables": tables, "columns": list(session.columns(tables[0]))}
        if [session.count(table) for table in tables] != [due.get(number, 0) for number in range(len(states))]:
            return False
        if not session.is_view_of(release.public(schema.name), UNITED, **names):
            return False
    return is_united(session, release, release.finest, states)


def _count_by_state(session: Session, release: TopDownRelease, schema: Schema) -> dict[int, int]:
    """By number of the state, the number of records in the estimates of the state."""
    values = {"histogram": schema.name, "places": 1}
    return dict(session.rows("topdown/records_due", values, estimates=estimates_of_states(release)))


def _check_states(session: Session, context: Context) -> Iterator[str]:
    """The records made for each state are in that state, and follow from its stored estimates."""
    release, stale = context.release, find_stale_states(session, context.custody, context.release)
    for state in stale:
        yield f"{release.of_state(RECORDS, state)}: missing, altered, or made from other estimates"
    if not stale:
        yield from _find_strange_rows(session, release, release.recorded_by_state, {"finest": release.finest})


def _check_tables_of_states(session: Session, context: Context) -> Iterator[str]:
    """The stored tables of each state equal the rows of the complete tables about the state or a place in it."""
    release = context.release
    yield from _find_strange_rows(session, release, [name.lower() for name in release.tabulated_by_state])
    for table, recipe in united_recipes(session, release).items():
        yield from differing_table(session, table, recipe)


def _are_tables_of_state(session: Session, release: TopDownRelease, state: str) -> bool:
    """Whether the tables of one state follow from its estimates."""
    recipes = state_recipes(session, release, state)
    return not any(problem for table, recipe in recipes.items() for problem in differing_table(session, table, recipe))


def _are_tables_joined(session: Session, release: TopDownRelease) -> bool:
    """Whether the complete tables have the rows of the states' tables and the right rows above the states, whose
    estimates another gate compares with the sums over the states; and whether all other tables follow from the
    estimates."""
    recipes = tables_recipe(session, release, as_stored=True)
    return not any(problem for table, recipe in recipes.items() for problem in differing_table(session, table, recipe))


def _find_strange_rows(
    session: Session, release: TopDownRelease, names: Sequence[str], level: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The problems if a state's table has rows of places outside the state, or columns whose types differ from the
    whole table's. The union of all states could still have the right rows."""
    states, tree, above = read_states(session, release), read_tree(session, release), level_of_states(release.levels)
    top = release.levels.index(above)
    ranges = [
        {"state": state, "depth": top + below, "first": first, "last": last}
        for state in range(len(states))
        for below, (first, last) in enumerate(tree.ranges_below(above, state))
    ]
    places = {"spine": release.public(SPINE), "ranges": session.register("ranges", pa.Table.from_pylist(ranges))}
    for name in names:
        tables = [release.public(release.of_state(name, state)) for state in states]
        (rows,) = session.row("topdown/rows_of_other_states", level, tables=tables, has_level=level is None, **places)
        yield from count_problem(rows, f"{release.public(name)}: rows in the table of another state")
        due = session.columns(release.public(name))
        yield from (f"{table}: other columns than all states have" for table in tables if session.columns(table) != due)


def _find_record_problems(
    session: Session, release: TopDownRelease, schema: Schema, records: Table, estimates: Table, before: int = 0
) -> Iterator[str]:
    """Compare groups of consecutive places, whose records are consecutive too, so that memory is bounded. Record
    numbers start after `before`."""
    histogram, tables = {"histogram": schema.name}, {"estimates": estimates, "records": records}
    codes, begin = register_codes(session, schema), before
    differing = stored = numbered = nowhere = 0
    for piece, due in session.rows("topdown/records_due", histogram | {"places": PLACES_AT_A_TIME}, **tables):
        if piece is None:
            nowhere = due
            break
        bounds = {"first": before + 1, "last": before + due, "place": piece * PLACES_AT_A_TIME}
        bounds["to_place"] = bounds["place"] + PLACES_AT_A_TIME
        rows, numbers, cells = session.row(
            "topdown/differing_records",
            {**histogram, **bounds, "finest": release.finest},
            **tables,
            spine=release.public(SPINE),
            codes=codes,
            attributes=[attribute.name for attribute in schema.attributes],
        )
        before, stored, numbered, differing = before + due, stored + rows, numbered + numbers, differing + cells
    hidden = _count_estimated(session, schema, estimates) - (before - begin) - nowhere
    for number, problem in (
        (abs(hidden), "estimated records that the table's stored statistics hide or invent"),
        (nowhere, "estimated records of places that do not exist"),
        (differing, "cells whose records differ from the estimate in their number or order"),
        (stored - numbered, "records with the number of another one"),
        (session.count(records) - stored, "records numbered beyond the estimates"),
    ):
        yield from count_problem(number, f"{records}: {problem}")


def _count_estimated(session: Session, schema: Schema, estimates: Table) -> int:
    """The number of records that estimates count. The rows are read without a condition, with which forged statistics
    could hide rows."""
    records = 0
    for batch in session.batches(_COUNTS, ROWS_HASHED, estimates=estimates):
        own = batch.filter(pc.equal(batch["name"], schema.name))
        records += pc.sum(own["count"], min_count=0).as_py()
    return records


def _check_tables(session: Session, context: Context) -> Iterable[str]:
    """Tables are consistent with themselves and with each other.

    Each table has every place once. Cells are the sums of their parts, and places the sums of the places in them. No
    table counts more of a part than another table counts of the whole.
    """
    release = context.release
    published = redistricting_tables(release)
    for table in published:
        yield from _find_inner_problems(session, release, table)
    for one, other in combinations(published, 2):
        rules = [*_list_rules(one, other), *_list_rules(other, one)]
        if rules:
            (rows,) = session.row(
                "topdown/disagreeing",
                one=redistricting_table(release, one.name),
                other=redistricting_table(release, other.name),
                rules=rules,
            )
            yield from count_problem(int(rows), f"{one.name} and {other.name}: places where they disagree")


def _find_inner_problems(session: Session, release: TopDownRelease, table: RedistrictingTable) -> Iterator[str]:
    parts = {cell.path: [part.name for part in table.cells if part.path[:-1] == cell.path] for cell in table.cells}
    names = {
        "table": redistricting_table(release, table.name),
        "spine": release.public(SPINE),
        "columns": [cell.name for cell in table.cells],
    }
    sums = [(cell.name, parts[cell.path]) for cell in table.cells if parts[cell.path]]
    (rows,) = session.row("topdown/inconsistent", **names, sums=sums)
    (places,) = session.row("topdown/table_not_adding_up", **names)
    wrong = "places that are missing, repeated or unknown, or have cells that do not add up"
    yield from count_problem(int(rows), f"{table.name}: {wrong}")
    yield from count_problem(int(places), f"{table.name}: places that differ from the sums over the places in them")


def _list_rules(one: RedistrictingTable, other: RedistrictingTable) -> Sequence[tuple[str, str]]:
    """Cells of one table, each with the smallest cell of the other table that contains it; equal cells contain each
    other."""
    if one.schema is not other.schema:
        return ()
    outside = ~np.array([whole.counted for whole in other.cells])
    sizes = np.count_nonzero(~outside, axis=1)
    rules = []
    for cell in one.cells:
        wholes = np.flatnonzero(~outside[:, cell.counted].any(axis=1))
        if len(wholes):
            rules.append((cell.name, other.cells[wholes[sizes[wholes].argmin()]].name))
    return rules
