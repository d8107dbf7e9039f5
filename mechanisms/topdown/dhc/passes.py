"""The passes by which siblings' histograms are estimated, as in production: in each, the answers to some queries
determine real-valued counts, which are rounded and then held in the next pass. A release may declare its own queries in
passes of its own (`divide_queries`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mechanisms.topdown.dhc.allocation import HOUSEHOLD_QUERIES, PERSON_QUERIES
from mechanisms.topdown.dhc.households import (
    HOUSEHOLDS,
    OCCUPANCY,
    ORIGIN_AND_RACE,
    TENURE,
    TENURE_AND_OTHERS,
    UNITS,
)
from mechanisms.topdown.dhc.persons import PERSONS, QUARTERS_TYPES, REDISTRICTING
from mechanisms.topdown.schema import DETAILED, TOTAL, QueryError, Schema


class PassesError(ValueError):
    """Passes by which a histogram cannot be estimated."""


@dataclass(frozen=True)
class Pass:
    """The answers to `queries` determine the counts of the cells of the last query of `rounding`, of which each answer
    is a sum. The queries of `rounding` are rounded in turn; each refines the one before, and all refine the held query.
    The last is held in the next pass. The measurements of another histogram answer the queries `beside`."""

    queries: tuple[str, ...]
    rounding: tuple[str, ...]
    beside: tuple[str, ...] = ()

    @property
    def cells(self) -> str:
        return self.rounding[-1]


@dataclass(frozen=True)
class Plan:
    """The plan of a histogram's estimation. `held` is the query whose answers are given for every place. The first pass
    distinguishes the cells that the queries `apart` distinguish, whose counts have limits or are read elsewhere. At the
    root, the cells with `held` answers above 0 are read, or every cell."""

    schema: Schema
    held: str
    passes: tuple[Pass, ...]
    every_cell: bool = False
    apart: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # By name, so that a process of a pool does not get the schema's tables of codes with each family.
        own = None if self.passes == find_plan(self.schema.name, self.held).passes else self.passes
        return find_plan, (self.schema.name, self.held, own)


_TENURE_AND_TYPE = f"{TENURE} * DetailedCoupleTypeMultGenDetOwnChildSize"

PERSON_PLAN = Plan(
    PERSONS,
    REDISTRICTING,
    (
        Pass(
            PERSON_QUERIES[:9],
            (
                "hispanic * sex * votingage * hhgq8lev * cenrace",
                "hispanic * sex * age_18_64_116 * hhgq8lev * cenrace",
                *PERSON_QUERIES[7:9],
            ),
        ),
        Pass((DETAILED,), (DETAILED,)),
    ),
    apart=(QUARTERS_TYPES,),
)

UNIT_PLAN = Plan(UNITS, OCCUPANCY, (Pass((DETAILED,), (DETAILED,)),))

HOUSEHOLD_PLAN = Plan(
    HOUSEHOLDS,
    TENURE,
    (
        Pass(HOUSEHOLD_QUERIES[:6], (_TENURE_AND_TYPE, HOUSEHOLD_QUERIES[5])),
        Pass(HOUSEHOLD_QUERIES[6:], (DETAILED,)),
    ),
)

HOUSEHOLD_PLAN_WITHIN_PERSONS = Plan(
    HOUSEHOLDS,
    TOTAL,
    (replace(HOUSEHOLD_PLAN.passes[0], beside=(TENURE,)), HOUSEHOLD_PLAN.passes[1]),
    apart=(TENURE, ORIGIN_AND_RACE),
)
"""Households before units: the tenure of all occupied units is decided together with householders by origin and race,
which have limits. The units' measurements of tenure are also read here."""

UNIT_PLAN_AFTER_HOUSEHOLDS = Plan(UNITS, TENURE_AND_OTHERS, UNIT_PLAN.passes, every_cell=True)

PLANS: Mapping[str, Plan] = {plan.schema.name: plan for plan in (PERSON_PLAN, UNIT_PLAN, HOUSEHOLD_PLAN)}

PLANS_WITHIN_PERSONS: Mapping[str, Plan] = {
    **PLANS,
    UNITS.name: UNIT_PLAN_AFTER_HOUSEHOLDS,
    HOUSEHOLDS.name: HOUSEHOLD_PLAN_WITHIN_PERSONS,
}


def find_plan(histogram: str, held: str, passes: tuple[Pass, ...] | None = None) -> Plan:
    plan = next(plans[histogram] for plans in (PLANS, PLANS_WITHIN_PERSONS) if plans[histogram].held == held)
    return replace(plan, passes=passes) if passes else plan


def divide_queries(plan: Plan, passes: Sequence[Sequence[str]]) -> Plan:
    """The plan with other passes, each given as its queries. Answers to the last query of a pass add up to answers to
    the others, and its cells are those of the pass. Other queries that refine the previously rounded one are rounded
    too, in their order. Raises PassesError if a histogram cannot be estimated by these passes."""
    schema, fixed, found = plan.schema, (plan.held, *plan.apart), list[Pass]()
    if not all(passes) or not passes:
        raise PassesError("there is a pass without queries")
    named = [query for queries in passes for query in queries]
    if twice := [query for query in dict.fromkeys(named) if named.count(query) > 1]:
        raise PassesError(f"the query {twice[0]} is named twice")
    if answered := [query for query in named if query in plan.passes[0].beside]:
        raise PassesError(f"{answered[0]} is answered by another histogram's measurements")
    for number, (*others, cells) in enumerate(passes, 1):
        try:
            parts = [query for query in others if not schema.refines(cells, query)]
            lost = [query for query in fixed if not schema.refines(cells, query)]
        except QueryError as error:
            raise PassesError(str(error).removeprefix(f"{schema.name}: ")) from None
        if parts:
            raise PassesError(f"pass {number} ends with {cells}, whose answers do not add up to those of {parts[0]}")
        if lost:
            raise PassesError(
                f"pass {number} ends with {cells}, whose answers do not add up to those of {lost[0]}, which are fixed"
            )
        rounding, last = list[str](), fixed[0]
        for query in (*others, cells):
            if query == cells or schema.refines(query, last):
                rounding.append(query)
                last = query
        beside = plan.passes[0].beside if number == 1 else ()
        found.append(Pass((*others, cells), tuple(rounding), beside))
        fixed = (cells,)
    if fixed != (DETAILED,):
        raise PassesError(f"the last pass ends with {fixed[0]}, not with {DETAILED}")
    return replace(plan, passes=tuple(found))


def list_queries(plan: Plan) -> Sequence[str]:
    return [query for own in plan.passes for query in own.queries]
