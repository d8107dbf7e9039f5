"""The passes by which siblings' histograms are estimated, as in production: in each, the answers to some queries
determine real-valued counts, which are rounded, and what is rounded holds in the next pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mechanisms.topdown.dhc.allocation import HOUSEHOLD_QUERIES, PERSON_QUERIES
from mechanisms.topdown.dhc.households import HOUSEHOLDS, OCCUPANCY, TENURE, UNITS
from mechanisms.topdown.dhc.persons import PERSONS, REDISTRICTING
from mechanisms.topdown.schema import DETAILED, Schema


@dataclass(frozen=True)
class Pass:
    """The answers to `queries` determine the counts of the cells of the last query of `rounding`, which each of them
    adds up. The queries of `rounding` are rounded in turn, each of which refines the one before, and all refine what is
    held. The last holds in the next pass."""

    queries: tuple[str, ...]
    rounding: tuple[str, ...]

    @property
    def cells(self) -> str:
        return self.rounding[-1]


@dataclass(frozen=True)
class Plan:
    """How a histogram is estimated. `held` is the query whose answers are given for every place."""

    schema: Schema
    held: str
    passes: tuple[Pass, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        # By name, so that a process of a pool does not get the schema's tables of codes with each family.
        return find_plan, (self.schema.name,)


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

PLANS: Mapping[str, Plan] = {plan.schema.name: plan for plan in (PERSON_PLAN, UNIT_PLAN, HOUSEHOLD_PLAN)}


def find_plan(histogram: str) -> Plan:
    return PLANS[histogram]


def list_queries(plan: Plan) -> Sequence[str]:
    return [query for own in plan.passes for query in own.queries]
