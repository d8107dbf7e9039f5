"""The gates that the DHC adds to the gates of all releases and of noisy counts. They check the stored tables.

Those on estimates are evaluated at every level, by SQL alone, and share no code with the estimation.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

import numpy as np
import pyarrow as pa

from assets.gates.shared import count_problem, differing_table
from assets.measurement.method import GridError
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.method import CHARGE
from assets.tabulation.asset import recipes_gate, tables_gate
from assets.topdown.dhc.declaration import RECORDS
from assets.topdown.dhc.given import RedistrictingError, facilities_recipe, redistricting_recipes, require_feasible
from assets.topdown.dhc.intervals import intervals_recipes
from assets.topdown.dhc.levels import find_wrong_levels
from assets.topdown.dhc.measurements import find_stored
from assets.topdown.dhc.products import estimates_recipes, microdata_recipes, place_columns, tables_recipes
from assets.topdown.dhc.release import ESTIMATES, FACILITIES, HISTOGRAMS, MICRODATA, REDISTRICTING, DHCRelease
from assets.topdown.dhc.replicates import DHCReplication
from assets.topdown.dhc.uncertainty import uncertainty_recipes
from assets.topdown.gates import check_spine, find_ill_formed, find_wrong_sums
from assets.topdown.histograms import roll_up
from assets.topdown.release import INTERVALS, SPINE, UNCERTAINTY
from assets.topdown.replicates import replicates_gate
from assets.topdown.spine import read_tree, stage_ancestry
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.refusal import RefusedError
from mechanisms.topdown.dhc.allocation import count_times
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.households import HOUSEHOLDS, OCCUPANCY, TENURE, UNITS
from mechanisms.topdown.dhc.persons import HOUSEHOLD_CODES, PERSONS, QUARTERS
from mechanisms.topdown.dhc.persons import REDISTRICTING as GROUPS
from mechanisms.topdown.schema import Schema
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Session

Context = ReleaseContext[DHCRelease]

_COLUMNS = {"level": "VARCHAR", "histogram": "VARCHAR", "number": "BIGINT", "cell": "BIGINT", "count": "BIGINT"}


def dhc_gates(release: DHCRelease) -> list[Gate[DHCRelease]]:
    both = [Zone.CONFIDENTIAL, Zone.PUBLIC]
    words = "The estimates of all levels are the sums of the finest level's, after persons moved into empty facilities."
    gates: list[Gate[DHCRelease]] = [
        session_gate("spine_of_the_cef", SPINE, check_spine, both),
        session_gate("no_impossible_records", HISTOGRAMS, _check_impossible_records, [Zone.CONFIDENTIAL]),
        session_gate("facilities_of_the_cef", FACILITIES, _check_facilities, both),
        session_gate("redistricting_as_published", REDISTRICTING, _check_redistricting),
        session_gate("charge_as_allocated", CHARGE, _check_allocation),
        session_gate("feasible", CHARGE, _check_feasibility),
        recipes_gate("estimates_filled", ESTIMATES, words, lambda session: estimates_recipes(session, release)),
        session_gate("estimates_as_made", ESTIMATES, _check_origin),
        session_gate("children_add_up", ESTIMATES, _check_sums_of_children),
        session_gate("whole_numbers", ESTIMATES, _check_whole_numbers),
        session_gate("structural_zeros", ESTIMATES, _check_structural_zeros),
        session_gate("redistricting_held", ESTIMATES, _check_redistricting_held),
        session_gate("microdata_as_made", MICRODATA, _check_microdata),
        tables_gate(lambda session: tables_recipes(session, release)),
    ]
    if release.design.householders_among_persons:
        gates.append(session_gate("householders_among_persons", MICRODATA, _check_householders))
    if release.design.complete:
        gates.append(tables_gate(lambda session: intervals_recipes(session, release), INTERVALS))
    if release.declaration.replicates:
        gates += [
            replicates_gate(DHCReplication(release)),
            tables_gate(lambda session: uncertainty_recipes(session, release), UNCERTAINTY),
        ]
    return gates


def _check_impossible_records(session: Session, context: Context) -> Iterator[str]:
    """The histograms count no records that the edit constraints rule out."""
    yield from _find_impossible(session, context.release.confidential(HISTOGRAMS), "")


def _check_facilities(session: Session, context: Context) -> Iterable[str]:
    """The stored facilities of group quarters are those of the current CEF."""
    return differing_table(session, context.release.public(FACILITIES), facilities_recipe(session, context.release))


def _check_redistricting(session: Session, context: Context) -> Iterable[str]:
    """The stored redistricting data are those of the publication, whose signature is verified."""
    try:
        recipes = redistricting_recipes(session, context.release, context.custody, context.ledger)
    except RedistrictingError as error:
        return [str(error)]
    return [problem for table, recipe in recipes.items() for problem in differing_table(session, table, recipe)]


def _check_allocation(session: Session, context: Context) -> Iterable[str]:
    """The charge is exactly the sum over queries of ρ times the share of the level times the share of the query, where
    queries of persons that distinguish householders who live alone count three times, queries of units twice and
    queries of households four times."""
    draw = context.method.describe(session, context.custody)
    entry = context.reading.find_reservation(draw.draw_id)
    if entry is None:
        return [f"no ledger entry for draw {draw.draw_id}"]
    due = Fraction()
    for histogram, schema in SCHEMAS.items():
        allocation = context.release.design.allocations[histogram]
        for level, share in allocation.levels.items():
            for query, part in allocation.queries[level].items():
                due += count_times(schema, query) * allocation.loss.rho * share * part
    charged = entry.parse_specification().loss
    if charged == ConcentratedLoss(due):
        return []
    return [f"ledger entry {entry.sequence} charges {charged}, not ρ = {due}"]


def _check_feasibility(session: Session, context: Context) -> Iterable[str]:
    """The redistricting data can be completed: they count no persons in an impossible cell, or in a type of group
    quarters that the place lacks."""
    release = context.release
    try:
        require_feasible(session, release, read_tree(session, release).places(release.finest))
    except RefusedError as error:
        return [str(error)]
    return []


def _check_origin(session: Session, context: Context) -> Iterable[str]:
    """The stored estimates of every level were made by this draw, from its measurements and the level above."""
    draw = context.method.describe(session, context.custody)
    wrong, read = find_wrong_levels(session, context.custody, context.release, draw.draw_id)
    if wrong:
        return [f"{scope}: altered, or made from other data" for scope in wrong]
    try:
        due = find_stored(session, context.release).read
    except GridError as error:
        return [str(error)]
    return [f"{scope}: estimated from other measurements" for scope in due if due[scope] != read[scope]]


def _check_sums_of_children(session: Session, context: Context) -> Iterator[str]:
    """The estimates of every place are the sums of those below it in every cell."""
    release = context.release
    return find_wrong_sums(session, release, lambda level: _stage_level(session, release, level))


def _check_whole_numbers(session: Session, context: Context) -> Iterator[str]:
    """All estimates are nonnegative integers.

    Zeros are not stored, so a stored count is positive. Nor may there be counts of unknown levels, cells or places.
    """
    release, table = context.release, context.release.public(ESTIMATES)
    if session.columns(table) != _COLUMNS:
        yield f"{table}: columns are not {', '.join(map(' '.join, _COLUMNS.items()))}"
        return
    rows = 0
    for level in release.levels:
        staged = _stage_level(session, release, level)
        rows += session.row("warehouse/count", table=staged)[0]
        yield from find_ill_formed(session, release, level, staged, SCHEMAS)
    yield from count_problem(session.count(table) - rows, "counts of unknown levels")


def _check_structural_zeros(session: Session, context: Context) -> Iterator[str]:
    """No person or household is in an impossible cell, and none in a type of group quarters that the place lacks."""
    release, ancestry = context.release, stage_ancestry(session, context.release)
    types = pa.table({"relgq": np.arange(HOUSEHOLD_CODES, 42), "type": list(map(str, QUARTERS))})
    quarters = session.register("quarters", types)
    for depth, level in enumerate(release.levels):
        estimates = _stage_level(session, release, level)
        yield from _find_impossible(session, estimates, f" of {level}")
        persons = session.stage(
            "persons_of_level", "dhc/of_histogram", {"histogram": PERSONS.name}, estimates=estimates
        )
        (nowhere,) = session.row(
            "dhc/without_facility",
            counts=persons,
            quarters=quarters,
            facilities=release.public(FACILITIES),
            ancestry=ancestry,
            depth=depth,
            inner=PERSONS.size // 42,
        )
        yield from count_problem(nowhere, f"places of {level} and types of group quarters without a facility")


def _check_redistricting_held(session: Session, context: Context) -> Iterator[str]:
    """In every place of every level, persons by type of group quarters, voting age, Hispanic origin and race, and
    occupied and vacant units, are those of the redistricting data; and households by tenure are the occupied units."""
    release = context.release
    names = {
        PERSONS.name: _register_groups(session, "groups_of_persons", PERSONS, GROUPS),
        UNITS.name: _register_groups(session, "groups_of_units", UNITS, OCCUPANCY, 2),
        HOUSEHOLDS.name: _register_groups(session, "tenures", HOUSEHOLDS, TENURE),
    }
    tenures = _register_groups(session, "tenures_of_units", UNITS, "tenure_3lev", 3)
    cells = np.arange(PERSONS.marginal(GROUPS).size)
    themselves = session.register("themselves", pa.table({"cell": cells, "code": cells}))
    for level in release.levels:
        staged = _stage_level(session, release, level)
        own = {
            histogram: session.stage(
                f"{histogram}_of_level", "dhc/of_histogram", {"histogram": histogram}, estimates=staged
            )
            for histogram in SCHEMAS
        }
        for histogram in (PERSONS.name, UNITS.name):
            held = roll_up(session, release, release.public(REDISTRICTING), histogram, level)
            given = {"counts": own[histogram], "groups": names[histogram], "held": held, "held_groups": themselves}
            (wrong,) = session.row("dhc/differing_groups", **given)
            yield from count_problem(wrong, f"{histogram} of {level}: groups that differ from the redistricting data")
        given = {"counts": own[HOUSEHOLDS.name], "groups": names[HOUSEHOLDS.name]}
        (wrong,) = session.row("dhc/differing_groups", **given, held=own[UNITS.name], held_groups=tenures)
        yield from count_problem(wrong, f"households of {level}: tenures that differ from the occupied units")


def _check_microdata(session: Session, context: Context) -> list[str]:
    """Computing every table again gives the same table.

    Records are made again only if there are as many as stored ones, because a forged count could be of any size.
    """
    release = context.release
    recipes = microdata_recipes(session, release)
    due = session.row("dhc/records_due", {"finest": release.finest}, estimates=release.public(ESTIMATES))
    problems = [
        f"{table}: {stored:,} records, where the estimates have {records:,}"
        for table, records in zip(recipes, due, strict=True)
        if (stored := session.count(table)) != records
    ]
    if problems:
        return problems
    return [problem for table, recipe in recipes.items() for problem in differing_table(session, table, recipe)]


def _check_householders(session: Session, context: Context) -> Iterator[str]:
    """In the published records of every place, each Hispanic origin and race has at most as many householders as
    persons in households."""
    release = context.release
    place = [name for name, _, _ in place_columns(release)] or ["geoid"]
    records = {name: release.public(name) for name in RECORDS}
    (wrong,) = session.row("dhc/householders_beyond_persons", **records, place=place)
    yield from count_problem(wrong, f"origins and races of {release.finest} with more householders than persons")


def _register_groups(session: Session, name: str, schema: Schema, query: str, most: int | None = None) -> Fragment:
    """Register the marginal cell of each cell, only those below `most`."""
    codes = schema.marginal(query).cells
    cells = np.arange(schema.size) if most is None else np.flatnonzero(codes < most)
    return session.register(name, pa.table({"cell": cells, "code": codes[cells].astype(np.int64)}))


def _stage_level(session: Session, release: DHCRelease, level: str) -> Fragment:
    name, values = f"of_{level.lower()}", {"level": level}
    return session.stage(name, "dhc/estimates_of_level", values, estimates=release.public(ESTIMATES))


def _find_impossible(session: Session, counts: Table | Fragment, of: str) -> Iterator[str]:
    for histogram, schema in SCHEMAS.items():
        impossible = session.register("impossible", pa.table({"cell": np.flatnonzero(~schema.possible)}))
        values: Mapping[str, str] = {"histogram": histogram}
        (records,) = session.row("dhc/impossible", values, counts=counts, impossible=impossible)
        yield from count_problem(records, f"{histogram}{of} that the edit constraints rule out")
