"""The DHC's counts and budgets match the Census Bureau's production code: long lists are compared by their digests,
made from the published lists."""

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest

from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.design import DesignError
from mechanisms.topdown import schema as redistricting
from mechanisms.topdown.allocation import PERSON_ALLOCATION, UNIT_ALLOCATION, compute_variances
from mechanisms.topdown.dhc import allocation
from mechanisms.topdown.dhc.design import SCHEMAS, DHCDesign
from mechanisms.topdown.dhc.households import HOUSEHOLDS, OCCUPANCY, TYPES, UNITS
from mechanisms.topdown.dhc.passes import HOUSEHOLD_PLAN, PERSON_PLAN, PLANS, Plan
from mechanisms.topdown.dhc.persons import PERSONS, QUARTERS_TYPES, REDISTRICTING
from tests.depth import deep_cases, quick_cases


def digest(listed: object) -> str:
    return sha256(repr(listed).encode()).hexdigest()


def test_household_types_are_the_published_list_in_its_order() -> None:
    rows = [
        (each.size, int(each.multigenerational), int(each.couple), int(each.relatives), int(each.own),
         int(each.others), int(each.minors)) for each in TYPES
    ]  # fmt: skip
    assert len(rows) == 522
    assert rows[0] == (3, 0, 1, 1, 1, 1, 1)
    assert rows[-1] == (7, 0, 0, 0, 0, 0, 1)
    assert digest(rows) == "cd5c834910fe1d278c9999c7018d520c5fe6d6d1bfb7ca3ca4e8ec20af2bb830"


def test_recodes_are_the_published_ones() -> None:
    recodes = sorted((recode.name, recode.codes) for schema in (PERSONS, HOUSEHOLDS) for recode in schema.recodes)
    assert digest(recodes) == "1a385c59994029dfbbc29c2e82a35c150bd7d7f8d3351a086a1ca6aa007e8def"


def test_every_part_of_rho_is_the_published_one() -> None:
    nations = {
        "US": ("PERSON_ALLOCATION", "HOUSEHOLD_ALLOCATION", "UNIT_ALLOCATION"),
        "PR": tuple(f"{name}_ALLOCATION_OF_PUERTO_RICO" for name in ("PERSON", "HOUSEHOLD", "UNIT")),
    }
    parts = [
        (nation, level, f"{histogram} {query}", str(own.part(level, query).rho))
        for nation, names in nations.items()
        for histogram, own in zip(("persons", "units", "u"), (getattr(allocation, name) for name in names), strict=True)
        for level in own.levels
        for query in own.queries[level]
    ]
    assert digest(sorted(parts)) == "5d50c497066b343ca1d0b6500aa1fd38d2a9f9424fcd3243c5d1c7803b6725a5"
    assert compute_variances(allocation.PERSON_ALLOCATION, "US")["detailed"] == Fraction(10_000, 73)


def test_budgets_are_those_of_the_table_of_all_systems() -> None:
    persons = allocation.PERSON_ALLOCATION.loss
    homes = allocation.HOUSEHOLD_ALLOCATION.loss + allocation.UNIT_ALLOCATION.loss
    assert (persons.rho, homes.rho) == (Fraction(24811, 5000), Fraction(15401, 2000))
    together = persons + homes + PERSON_ALLOCATION.loss + UNIT_ALLOCATION.loss
    epsilons = [float(each.rho) + 2 * (float(each.rho) * np.log(10) * 10) ** 0.5 for each in (persons, homes, together)]
    assert [round(epsilon, 2) for epsilon in epsilons] == [26.34, 34.33, 52.83]
    assert round(float(together.rho), 2) == 15.29
    assert isinstance(together, ConcentratedLoss)
    of_persons, of_homes = (
        [round(100 * float(sum(own.of_level(level).rho for own in parts) / sum(own.loss.rho for own in parts)), 2)
         for level in ("US", "Block")]
        for parts in ([allocation.PERSON_ALLOCATION], [allocation.HOUSEHOLD_ALLOCATION, allocation.UNIT_ALLOCATION])
    )  # fmt: skip
    assert (of_persons, of_homes) == ([1.91, 0.22], [6.28, 0.21])


def test_the_budgets_of_production_are_charged_in_full_for_a_move() -> None:
    """Four of persons' queries count three times, units twice and households four times. Fails for: each once, as in
    the 2020 Census, and all histograms of homes twice."""
    allocations = (allocation.PERSON_ALLOCATION, allocation.UNIT_ALLOCATION, allocation.HOUSEHOLD_ALLOCATION)
    design = DHCDesign(allocation.LEVELS, dict(zip(SCHEMAS, allocations, strict=True)))
    assert design.once.rho == Fraction(24811, 5000) + Fraction(15401, 2000)
    assert design.loss.rho == Fraction(376_220, 10_000)


def test_no_answers_of_a_pass_are_over_a_thousand_times_as_precise_as_others() -> None:
    """Fails for: a pass of households that reads any answers of units too."""
    units = replace(allocation.UNIT_ALLOCATION, loss=ConcentratedLoss(Fraction(200)))
    allocations = (allocation.PERSON_ALLOCATION, units, allocation.HOUSEHOLD_ALLOCATION)
    parts = allocation.LEVELS, dict(zip(SCHEMAS, allocations, strict=True))
    DHCDesign(*parts)
    with pytest.raises(DesignError, match="households: State: one query has over 1,000 times the share of another"):
        DHCDesign(*parts, householders_among_persons=True)


def test_sizes() -> None:
    assert (PERSONS.size, int(PERSONS.possible.sum())) == (1_227_744, 905_184)
    assert (HOUSEHOLDS.size, int(HOUSEHOLDS.possible.sum())) == (1_578_528, 1_111_572)
    assert np.count_nonzero(~HOUSEHOLDS.possible) == 11_118 * 2 * 7 * 3
    assert HOUSEHOLDS.size == 37_584 * 2 * 7 * 3
    assert HOUSEHOLDS.marginal("DetailedCoupleTypeMultGenDetOwnChildSize").size == 183
    answers = [sum(plan.schema.marginal(query).size for step in plan.passes for query in step.queries) for plan in
               PLANS.values()]  # fmt: skip
    assert (answers[0], answers[1] + answers[2]) == (1_903_289, 1_737_332)
    assert PERSONS.marginal(PERSON_PLAN.passes[0].cells).size == 423_360
    assert PERSONS.marginal(PERSON_PLAN.passes[0].rounding[-2]).size == 252_000
    assert HOUSEHOLDS.marginal(HOUSEHOLD_PLAN.passes[0].cells).size == 15_372
    assert PERSONS.marginal(REDISTRICTING).size == redistricting.PERSONS.size == 2_016


def refines(plan: Plan, fine: str, coarse: str) -> bool:
    of_fine, of_coarse = (plan.schema.marginal(query).cells for query in (fine, coarse))
    image = np.zeros(plan.schema.marginal(fine).size, dtype=np.int32)
    image[of_fine] = of_coarse
    return np.array_equal(image[of_fine], of_coarse)


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("name", PLANS)
def test_what_is_rounded_refines_what_is_held_and_adds_up_to_every_answer(name: str) -> None:
    plan = PLANS[name]
    held = plan.held
    for step in plan.passes:
        for coarse, fine in pairwise((held, *step.rounding)):
            assert refines(plan, fine, coarse), (fine, coarse)
        assert all(refines(plan, step.cells, query) for query in step.queries)
        held = step.cells
    assert plan.schema.marginal(held).size == plan.schema.size


def test_impossible_persons_are_ruled_out_and_no_others() -> None:
    cells = np.arange(PERSONS.size).reshape([attribute.size for attribute in PERSONS.attributes])

    def is_possible(relationship: int, age: int) -> bool:
        return bool(PERSONS.possible[cells[relationship, 0, age, 0, 0]])

    # Type 901 has no ages in the production configuration, though its code has some; other nonrelatives have none.
    assert is_possible(40, 10)
    assert is_possible(17, 0)
    assert is_possible(27, 20)
    assert not (is_possible(27, 19))
    assert not (is_possible(0, 14))
    assert not (is_possible(8, 90))
    assert not (is_possible(16, 21))


def test_redistricting_cells_and_types_keep_their_order() -> None:
    """The held query numbers its cells as the redistricting data's histogram does."""
    assert next(recode.codes for recode in PERSONS.recodes if recode.name == "hhgq8lev")[18:] == tuple(
        np.repeat(np.arange(1, 8), (6, 3, 1, 5, 1, 2, 6)).tolist()
    )
    assert PERSONS.marginal(QUARTERS_TYPES).size == 25
    assert UNITS.marginal(OCCUPANCY).size == 26
