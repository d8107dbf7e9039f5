"""The passes by which siblings' histograms are estimated, as in production: in each, the answers to some queries
determine real-valued counts, which are rounded, and what is rounded holds in the next pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mechanisms.topdown.dhc.allocation import HOUSEHOLD_QUERIES, PERSON_QUERIES
from mechanisms.topdown.dhc.households import HOUSEHOLDS, OCCUPANCY, TENURE, TENURE_AND_OTHERS, UNITS
from mechanisms.topdown.dhc.persons import PERSONS, REDISTRICTING
from mechanisms.topdown.schema import DETAILED, TOTAL, Schema


@dataclass(frozen=True)
class Pass:
    """The answers to `queries` determine the counts of the cells of the last query of `rounding`, which each of them
    adds up. The queries of `rounding` are rounded in turn, each of which refines the one before, and all refine what is
    held. The last holds in the next pass. The measurements of another histogram answer the queries `beside`."""

    queries: tuple[str, ...]
    rounding: tuple[str, ...]
    beside: tuple[str, ...] = ()

    @property
    def cells(self) -> str:
        return self.rounding[-1]


@dataclass(frozen=True)
class Plan:
    """How a histogram is estimated. `held` is the query whose answers are given for every place. At the root, the cells
    with answers above 0 are read, or every cell."""

    schema: Schema
    held: str
    passes: tuple[Pass, ...]
    every_cell: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # By name, so that a process of a pool does not get the schema's tables of codes with each family.
        return find_plan, (self.schema.name, self.held)


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
)
"""Households before units: of all occupied units, the tenure is decided together with householders by origin and race,
which have limits. What units' measurements tell about tenure is read here too."""

UNIT_PLAN_AFTER_HOUSEHOLDS = Plan(UNITS, TENURE_AND_OTHERS, UNIT_PLAN.passes, every_cell=True)

PLANS: Mapping[str, Plan] = {plan.schema.name: plan for plan in (PERSON_PLAN, UNIT_PLAN, HOUSEHOLD_PLAN)}

PLANS_WITHIN_PERSONS: Mapping[str, Plan] = {
    **PLANS,
    UNITS.name: UNIT_PLAN_AFTER_HOUSEHOLDS,
    HOUSEHOLDS.name: HOUSEHOLD_PLAN_WITHIN_PERSONS,
}


def find_plan(histogram: str, held: str) -> Plan:
    return next(plans[histogram] for plans in (PLANS, PLANS_WITHIN_PERSONS) if plans[histogram].held == held)


def list_queries(plan: Plan) -> Sequence[str]:
    return [query for own in plan.passes for query in own.queries]
