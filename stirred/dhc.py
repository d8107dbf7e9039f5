"""The Demographic and Housing Characteristics File on small trees: histograms of persons, units and households in full
detail, within a redistricting file's counts.

Everything is in memory. Histograms list the cells that are not zero. Only the noisy answers that estimation reads are
drawn; each equals the same answer of the complete draw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.accounting.specification import Flavor, Line, Specification
from mechanisms.design import DesignError
from mechanisms.topdown.allocation import Allocation, AllocationError
from mechanisms.topdown.dhc.allocation import (
    HOUSEHOLD_ALLOCATION,
    HOUSEHOLD_ALLOCATION_OF_PUERTO_RICO,
    LEVELS,
    PERSON_ALLOCATION,
    PERSON_ALLOCATION_OF_PUERTO_RICO,
    UNIT_ALLOCATION,
    UNIT_ALLOCATION_OF_PUERTO_RICO,
    count_times,
    divide,
)
from mechanisms.topdown.dhc.design import check_plan
from mechanisms.topdown.dhc.householders import Householders, HouseholdersError, count_householders
from mechanisms.topdown.dhc.households import HOUSEHOLDS, OCCUPANCY, TYPES, UNITS, Children, Couple, HouseholdType
from mechanisms.topdown.dhc.levels import Estimated as EstimatedLevel
from mechanisms.topdown.dhc.levels import estimate_all_homes, estimate_tree, measure_tree
from mechanisms.topdown.dhc.passes import (
    PERSON_PLAN,
    PLANS,
    PLANS_WITHIN_PERSONS,
    PassesError,
    Plan,
    divide_queries,
)
from mechanisms.topdown.dhc.persons import PERSONS, QUARTERS, REDISTRICTING, RELATIONSHIPS
from mechanisms.topdown.dhc.quarters import GROUPS, Quarters, QuartersError, count_quarters, fill_facilities, find_short
from mechanisms.topdown.dhc.tables import (
    DHC_TABLES,
    MEDIAN_AGES,
    P_L_TABLES,
    count_figures,
    find_median_ages,
)
from mechanisms.topdown.dhc.tree import add_answers, add_counts, climb, collect
from mechanisms.topdown.schema import Counts, Schema
from stirred.noise import read_counts
from stirred.random import Randomness
from stirred.results import Draw, Frame, frame_kind, read_frame, write_frame

__all__ = [
    "DHC_TABLES",
    "HOUSEHOLDS",
    "HOUSEHOLD_ALLOCATION",
    "HOUSEHOLD_ALLOCATION_OF_PUERTO_RICO",
    "LEVELS",
    "PERSONS",
    "PERSON_ALLOCATION",
    "PERSON_ALLOCATION_OF_PUERTO_RICO",
    "QUARTERS",
    "RELATIONSHIPS",
    "TYPES",
    "UNITS",
    "UNIT_ALLOCATION",
    "UNIT_ALLOCATION_OF_PUERTO_RICO",
    "Allocation",
    "AllocationError",
    "Children",
    "Couple",
    "Estimated",
    "HouseholdType",
    "HouseholdersError",
    "QuartersError",
    "divide",
    "measure_homes",
    "measure_persons",
]

_Tree = Mapping[str, Sequence[int]]
_Passes = Sequence[Sequence[str]]
_Estimation = Literal["full", "own_levels"]


@dataclass(frozen=True, repr=False, eq=False)
class Estimated(Draw):
    """Estimated histograms of all places.

    Attributes:
        gap, violation: the largest duality gap of a real-valued solution, and the largest violation of a constraint.
        unfilled: the number of blocks with a facility of group quarters in which no person could be placed.
    """

    gap: float
    violation: float
    unfilled: int
    _schemas: Mapping[str, Schema] = field(repr=False)
    _histograms: Mapping[str, Mapping[str, Counts]] = field(repr=False)
    _places: Mapping[str, int] = field(repr=False)
    _kind: str = field(repr=False)

    @property
    def _title(self) -> str:
        return f"The DHC's histograms of {' and '.join(self._schemas)}, by {', '.join(self._histograms)}"

    def table(self, histogram: str, level: str) -> Any:
        """A histogram of a level: the position of the place, the code of each attribute, and the count, a row for each
        cell that is not zero. Raises KeyError for an unknown histogram or level."""
        counts, schema = self._histograms[level][histogram], self._schemas[histogram]
        codes = {part.name: schema.marginal(part.name).find(counts.cell) for part in schema.attributes}
        return write_frame(pa.table({"place": counts.number, **codes, "count": counts.count}), self._kind)

    def tabulate(self, name: str, level: str) -> Any:
        """A table of all places of a level, such as `P12` or `P12A`: the position of the place, and a column for each
        cell, by its name. P13 has median ages as floats, null where there are no persons. Raises KeyError for an
        unknown table or level, or a table of another histogram."""
        places, histograms = self._places[level], self._histograms[level]
        if name in MEDIAN_AGES:
            medians = find_median_ages(histograms[PERSONS.name], places, name[3:])
            columns = [
                [None if each is None else float(each) for each in column] for column in zip(*medians, strict=True)
            ]
        else:
            schema = PERSONS if name in P_L_TABLES else DHC_TABLES[name].schema
            columns = [*count_figures([name], histograms[schema.name], places)[name].T]
        named = {f"{name}_{number:03}N": column for number, column in enumerate(columns, 1)}
        return write_frame(pa.table({"place": np.arange(places), **named}), self._kind)


def measure_persons(
    tree: _Tree,
    persons: Frame,
    redistricting: ArrayLike,
    facilities: ArrayLike,
    *,
    randomness: Randomness,
    allocation: Allocation = PERSON_ALLOCATION,
    passes: _Passes | None = None,
    estimation: _Estimation = "full",
    name: str = "the data",
) -> Estimated:
    """Measure persons, and estimate their histograms from the root down, within a redistricting file's counts.

    After a person's move, one householder may live alone, and another no longer. So the squared L2 distance of a query
    that distinguishes householders who live alone is up to 6 instead of 2, and its ρ counts three times.

    Args:
        tree: by level, from the root's to the finest, the position of each place's parent in the level above; `[0]` at
            the root, which is a single place. Places lie in the order of their parents.
        persons: a row for each person, with the columns `block`, a position in the finest level, and `relgq`, `sex`,
            `age`, `hispanic` and `cenrace`, codes of `PERSONS`.
        redistricting: the published persons of each block by type of dwelling, voting age, Hispanic origin and race,
            shape (blocks, 2016), in the order of `stirred.topdown.PERSONS`. The estimates of every place agree with
            these counts.
        facilities: the exact number of facilities of each block by type of group quarters (`QUARTERS`), shape
            (blocks, 24). It is public.
        allocation: ρ of each level and query, whose levels are the tree's.
        passes: the queries of each pass of estimation, by default production's. The answers to the last query of a pass
            add up to the answers to its other queries and to the answers fixed by earlier passes; from then on, they
            are fixed too. The last query needs ρ at every level, the others at some level. The last pass ends with
            `detailed`.
        estimation: "full" estimates a place from the answers at and below it, "own_levels" from its own level's.

    Raises QuartersError if the redistricting file has persons in a type of group quarters without a facility,
    AllocationError for levels that are not the tree's, passes that cannot be estimated, queries without ρ, or queries
    with over 1,000 times the ρ of others in the same pass, and ValueError for codes, shapes or trees that do not fit,
    or another kind of estimation.
    """
    plan, full = _plan(PERSON_PLAN, passes), _is_full(estimation)
    parents = _read_tree(tree, allocation, plan, full)
    blocks = len(parents[-1])
    exact = _count(PERSONS, read_frame(persons), blocks)
    held, types = _read_array(redistricting, blocks, GROUPS), _read_array(facilities, blocks, len(QUARTERS))
    group = PERSONS.marginal(REDISTRICTING)
    possible = np.bincount(group.find(np.flatnonzero(PERSONS.possible)), minlength=GROUPS)
    if wrong := np.count_nonzero(held[:, possible == 0].any(axis=1)):
        raise ValueError(
            f"redistricting: {wrong:,} blocks have impossible persons, such as minors in nursing facilities"
        )
    quarters = climb(count_quarters(held, types), parents, Quarters.add_up)
    readings = measure_tree(PERSONS, allocation, parents, exact, randomness.next_key(), full)
    found = estimate_tree(plan, readings, climb(held, parents, add_answers), parents, quarters)
    filled = fill_facilities(found[-1].counts, types)
    counts = climb(filled, parents, add_counts)
    histograms = {level: {PERSONS.name: own} for level, own in zip(tree, counts, strict=True)}
    given = "the redistricting file's persons, and the facilities of group quarters of each type, in each block"
    specification = _specify("person", name, given, [(PERSONS, allocation)])
    return Estimated(
        specification,
        *_certify(found),
        len(find_short(filled, types)),
        {PERSONS.name: PERSONS},
        histograms,
        _count_places(tree),
        frame_kind(persons),
    )


def measure_homes(
    tree: _Tree,
    units: Frame,
    households: Frame,
    redistricting: ArrayLike,
    *,
    randomness: Randomness,
    unit_allocation: Allocation = UNIT_ALLOCATION,
    household_allocation: Allocation = HOUSEHOLD_ALLOCATION,
    unit_passes: _Passes | None = None,
    household_passes: _Passes | None = None,
    estimation: _Estimation = "full",
    persons: ArrayLike | None = None,
    name: str = "the data",
) -> Estimated:
    """Measure units and households, and estimate their histograms from the root down, within a redistricting file's
    counts.

    After a person's move, one unit may be vacant and another occupied: the squared L2 distance of a query is 4 instead
    of 2, and ρ of units counts twice. Both households may leave the same cell and enter the same cell. This doubles the
    distance, so the ρ of households counts four times.

    Args:
        tree: as in `measure_persons`.
        units: a row for each housing unit and each facility of group quarters, with the columns `block` and
            `tenvacgq`, a code of `UNITS`. The number of housing units and the facilities by type are public.
        households: a row for each occupied unit, with the column `block` and codes of `HOUSEHOLDS`.
        redistricting: the published occupied and vacant units of each block, shape (blocks, 2).
        unit_passes, household_passes, estimation: as in `measure_persons`. With `persons`, the passes of units are
            production's.
        persons: the redistricting file's persons, as in `measure_persons`. With them, a block has at most as many
            householders of an origin and race as persons of that origin and race in households.

    Raises as `measure_persons`, ValueError if the redistricting file has another number of units in a block, and
    HouseholdersError if it has more occupied units than persons in households.
    """
    if persons is not None and unit_passes is not None:
        raise AllocationError(
            "with persons, the tenure of households is estimated from the units' detailed query alone"
        )
    plans = {
        name: _plan(plan, {UNITS.name: unit_passes, HOUSEHOLDS.name: household_passes}.get(name))
        for name, plan in (PLANS if persons is None else PLANS_WITHIN_PERSONS).items()
    }
    full = _is_full(estimation)
    parents = _read_tree(tree, unit_allocation, plans[UNITS.name], full)
    _read_tree(tree, household_allocation, plans[HOUSEHOLDS.name], full, unit_allocation)
    blocks = len(parents[-1])
    exact = [_count(schema, read_frame(each), blocks) for schema, each in ((UNITS, units), (HOUSEHOLDS, households))]
    held = exact[0].answer(UNITS.marginal(OCCUPANCY), 0, blocks)
    published = _read_array(redistricting, blocks, 2)
    if differing := np.count_nonzero(published.sum(axis=1) != held[:, :2].sum(axis=1)):
        raise ValueError(f"redistricting: {differing:,} blocks have another number of housing units")
    held[:, :2] = published
    key = randomness.next_key()
    readings = measure_tree(UNITS, unit_allocation, parents, exact[0], key, full)
    of_households = measure_tree(HOUSEHOLDS, household_allocation, parents, exact[1], key, full)
    householders = None
    if persons is not None:
        counted = count_householders(_read_array(persons, blocks, GROUPS), held[:, 0])
        householders = climb(counted, parents, Householders.add_up)
    occupancy = climb(held, parents, add_answers)
    homes = estimate_all_homes(plans, readings, of_households, occupancy, parents, householders)
    histograms = {
        level: {UNITS.name: own.counts, HOUSEHOLDS.name: others.counts}
        for level, (own, others) in zip(tree, homes, strict=True)
    }
    people = "" if persons is None else ", its persons"
    units_given = f"the redistricting file's occupied and vacant units{people}"
    given = f"{units_given}, and the facilities of group quarters, in each block"
    specification = _specify("person", name, given, [(UNITS, unit_allocation), (HOUSEHOLDS, household_allocation)])
    schemas = {schema.name: schema for schema in (UNITS, HOUSEHOLDS)}
    certified = _certify([each for of_level in homes for each in of_level])
    return Estimated(specification, *certified, 0, schemas, histograms, _count_places(tree), frame_kind(households))


def _is_full(estimation: _Estimation) -> bool:
    if estimation not in get_args(_Estimation):
        raise ValueError(f"estimation: it is {' or '.join(get_args(_Estimation))}, not {estimation}")
    return estimation == "full"


def _certify(found: Sequence[EstimatedLevel]) -> tuple[float, float]:
    """The largest duality gap and the largest violation of a constraint."""
    return max(each.gap for each in found), max(each.violation for each in found)


def _specify(unit: str, name: str, given: str, parts: Sequence[tuple[Schema, Allocation]]) -> Specification:
    domain = f"all possible files of {unit}s with the attributes of {name}, each in one of the places"
    charged = {
        f"{schema.name} {level} {query}": ConcentratedLoss(
            allocation.part(level, query).rho * count_times(schema, query)
        )
        for schema, allocation in parts
        for level in allocation.levels
        for query in allocation.queries[level]
    }
    flavor = Flavor(domain, ("which places there are", given), unit, None, ConcentratedLoss.output_premetric)
    loss = sum(charged.values(), ConcentratedLoss())
    return Specification(flavor, loss, tuple(Line(label, each) for label, each in charged.items()))


def _plan(plan: Plan, passes: _Passes | None) -> Plan:
    try:
        return plan if passes is None else divide_queries(plan, passes)
    except PassesError as error:
        raise AllocationError(f"passes: {plan.schema.name}: {error}") from None


def _read_tree(
    tree: _Tree, allocation: Allocation, plan: Plan, full: bool, units: Allocation | None = None
) -> list[NDArray[np.int64]]:
    if list(tree) != list(allocation.levels):
        raise AllocationError(
            f"the allocation's levels are {', '.join(allocation.levels)}, the tree's {', '.join(tree)}"
        )
    try:
        check_plan(plan, allocation, full, units)
    except DesignError as error:
        raise AllocationError(str(error)) from None
    parents = [read_counts(places) for places in tree.values()]
    places = 1
    for level, own in zip(tree, parents, strict=True):
        if own.ndim != 1 or (np.diff(own) < 0).any() or set(own.tolist()) != set(range(places)):
            raise ValueError(f"tree: {level}: places lie in the order of their parents, each of which has one or more")
        places = len(own)
    if len(parents[0]) != 1:
        raise ValueError("tree: the root is a single place")
    return parents


def _count_places(tree: _Tree) -> dict[str, int]:
    return {level: len(places) for level, places in tree.items()}


def _read_array(values: ArrayLike, blocks: int, columns: int) -> NDArray[np.int64]:
    array = read_counts(values)
    if array.shape != (blocks, columns):
        raise ValueError(f"counts have the shape ({blocks}, {columns}), not {array.shape}")
    if (array < 0).any():
        raise ValueError("counts are not negative")
    return array


def _count(schema: Schema, records: pa.Table, blocks: int) -> Counts:
    """The histogram of records, by block."""
    columns = {"block": blocks, **{part.name: part.size for part in schema.attributes}}
    if missing := [name for name in columns if name not in records.column_names]:
        raise ValueError(f"{schema.name}: there is no column {missing[0]}")
    keys = np.zeros(records.num_rows, dtype=np.int64)
    for name, size in columns.items():
        codes = read_counts(records[name].to_numpy())
        if outside := np.count_nonzero((codes < 0) | (codes >= size)):
            raise ValueError(f"{schema.name}: {name}: {outside:,} codes are not between 0 and {size - 1}")
        keys = keys * size + codes
    if impossible := np.count_nonzero(~schema.possible[keys % schema.size]):
        raise ValueError(f"{schema.name}: {impossible:,} records are impossible, such as a spouse under 15")
    return collect(keys // schema.size, keys % schema.size, np.ones(len(keys), dtype=np.int64))
