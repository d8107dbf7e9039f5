"""Own queries in their own passes: which of them are measured and charged, and which declarations are refused.
`test_estimation` shows that estimates are the best fit to their answers.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms.design import DesignError
from mechanisms.topdown.allocation import allocate
from mechanisms.topdown.dhc import allocation
from mechanisms.topdown.dhc.allocation import LEVELS
from mechanisms.topdown.dhc.design import SCHEMAS, DHCDesign
from mechanisms.topdown.dhc.levels import plan_levels
from mechanisms.topdown.dhc.linear import find_models, list_complete, share
from mechanisms.topdown.dhc.passes import PERSON_PLAN, PLANS, divide_queries
from mechanisms.topdown.dhc.persons import PERSONS

HELD = "gqlevels * votingage * hispanic * cenrace"
SMALL, FINE = "hispanic * sex", f"relgq * sex * {HELD.removeprefix('gqlevels * ')}"
PASSES = (("sex", SMALL, FINE), ("age_18_64_116 * sex", "detailed"))
PRODUCTION = dict(
    zip(
        SCHEMAS,
        (allocation.PERSON_ALLOCATION, allocation.UNIT_ALLOCATION, allocation.HOUSEHOLD_ALLOCATION),
        strict=True,
    )
)
SHARES: dict[str, dict[str, Any]] = {
    **{level: {SMALL: "1/4", FINE: "1/4", "detailed": "1/2"} for level in LEVELS},
    "US": {"sex": "1/8", "age_18_64_116 * sex": "1/8", FINE: "1/4", "detailed": "1/2"},
    "Block": {FINE: "1/2", "detailed": "1/2"},
}


def design(
    passes: Sequence[Sequence[str]] = PASSES,
    shares: Mapping[str, Mapping[str, Any]] = SHARES,
    histogram: str = "persons",
    **fields: Any,
) -> DHCDesign:
    """Production's but for the queries of a histogram, and their shares of each level's eighth of ρ = 2."""
    queries = {level: {query: Fraction(part) for query, part in own.items()} for level, own in shares.items()}
    own = allocate(SCHEMAS[histogram], Fraction(2), dict.fromkeys(LEVELS, Fraction(1, 8)), queries)
    return DHCDesign(LEVELS, PRODUCTION | {histogram: own}, passes={histogram: passes}, **fields)


def test_own_queries_are_measured_and_charged_where_they_are_declared() -> None:
    """Fails for: queries that all levels ask; a query that is charged and not measured; and the query that tells
    householders who live alone apart counted once, or all queries three times."""
    own = design()
    measured = [each for each in own.measured if each.histogram == "persons"]
    assert [each.query for each in measured if each.level == "US"] == ["sex", FINE, "age_18_64_116 * sex", "detailed"]
    assert [each.query for each in measured if each.level == "County"] == [SMALL, FINE, "detailed"]
    assert [each.query for each in measured if each.level == "Block"] == [FINE, "detailed"]
    assert {each.query for each in measured if each.times == 3} == {FINE, "detailed"}
    assert own.of_histogram("persons").rho == sum(
        Fraction(2, 8) * Fraction(part) * (3 if query in (FINE, "detailed") else 1)
        for shares in SHARES.values()
        for query, part in shares.items()
    )
    assert own.specification("a census").loss == own.loss
    assert [each for each in own.measured if each.histogram != "persons"] == [
        each for each in DHCDesign(LEVELS, PRODUCTION).measured if each.histogram != "persons"
    ]


def test_a_draw_is_that_of_its_passes_and_production_has_none_in_its_record() -> None:
    """Fails for a replay with other passes, by which other cells would be read."""
    passes = (("sex", FINE), (SMALL, "age_18_64_116 * sex", "detailed"))
    assert design().as_record() != design(passes).as_record()
    assert sorted(DHCDesign(LEVELS, PRODUCTION).as_record()) == ["full", "levels", "measured"]


def test_an_own_plan_crosses_to_another_process() -> None:
    """Fails for: production's plan, which is found by its name."""
    for plan in (divide_queries(PERSON_PLAN, PASSES), *PLANS.values()):
        assert pickle.loads(pickle.dumps(plan)) == plan


def test_queries_that_refine_what_was_rounded_are_rounded_too() -> None:
    finer = FINE.replace("votingage", "age_40_groups")
    first, second = divide_queries(PERSON_PLAN, [["sex", HELD, FINE], ["sex * age", finer, "detailed"]]).passes
    assert first.rounding == (HELD, FINE)
    assert second.rounding == (finer, "detailed")


def test_no_path_spends_more_than_is_charged_whatever_levels_ask() -> None:
    """A level whose only queries count three times has an only child whose queries mostly count once. Fails for a
    program that gives all of the child's ρ to its parent's queries."""
    shares = {level: {SMALL: "98/100", FINE: "1/100", "detailed": "1/100"} for level in LEVELS}
    own = design(shares=SHARES | {level: shares[level] for level in LEVELS[4:7]}).allocations["persons"]
    levels = plan_levels(PERSONS, own, [np.zeros(1, np.int64)] * 7 + [np.zeros(2, np.int64)])
    # The root is measured with the budgets of all seven, and the blocks with their own.
    charged = {level: sum(own.part(level, query).rho * (1 if query in (SMALL, "sex", "age_18_64_116 * sex") else 3)
                          for query in own.queries[level]) for level in LEVELS}  # fmt: skip
    assert levels[0].runs.tolist() == [6]
    scale = levels[0].scales[6]
    assert scale == sum(charged[level] for level in LEVELS[:7]) / charged["US"] < 7
    assert scale * own.of_level("US").rho < sum(own.of_level(level).rho for level in LEVELS[:7])


OF_UNITS = {level: {"tenure_3lev": "1/2", "tenure_vacant_and_gq_types": "1/4", "detailed": "1/4"} for level in LEVELS}
OF_HOUSEHOLDS = {level: {"hhtenshort_3lev * multig": "1/2", "detailed": "1/2"} for level in LEVELS}
OF_TENURE = ("hhtenshort_3lev", "hisp * race * hhtenshort_3lev", "detailed")

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a query that is in no pass": (
        {"shares": SHARES | {"State": {"cenrace": "1/2", FINE: "1/4", "detailed": "1/4"}}},
        "persons: State: the query cenrace is in no pass",
    ),
    "a query that no level asks": (
        {"passes": (("sex", SMALL, "cenrace", FINE), PASSES[1])},
        "persons: the query cenrace is in a pass, and no level has a share for it",
    ),
    "a level without the query with which a pass ends": (
        {"shares": SHARES | {"State": {SMALL: "1/2", "detailed": "1/2"}}},
        "persons: State: the query relgq .* with which a pass ends, has no share",
    ),
    "an unknown query": (
        {"passes": (("sex", SMALL, "kin", FINE), PASSES[1])},
        r"passes: persons: the query 'kin' names \['kin'\]; there are relgq, sex",
    ),
    "a query named twice": (
        {"passes": (("sex", SMALL, FINE), ("sex", *PASSES[1]))},
        "passes: persons: the query sex is named twice",
    ),
    "no queries": ({"passes": (PASSES[0], ())}, "passes: persons: there is a pass without queries"),
    "a query that is finer than the end of its pass": (
        {"passes": (("sex", SMALL, "sex * age", FINE), PASSES[1])},
        "pass 1 ends with relgq .*, whose answers do not add up to those of sex . age",
    ),
    "a pass that does not tell apart what the redistricting data hold": (
        {"passes": (("sex", SMALL, "gqlevels * sex * hispanic * cenrace"), PASSES[1])},
        "pass 1 ends with gqlevels .*, whose answers do not add up to those of hhgq8lev .*, which are fixed",
    ),
    "a pass that does not tell apart the types of group quarters": (
        {"passes": (("sex", SMALL, "hhgq8lev * sex * votingage * hispanic * cenrace"), PASSES[1])},
        "whose answers do not add up to those of gqlevels, which are fixed",
    ),
    "a pass that does not tell apart what was fixed before": (
        {"passes": (("sex", SMALL, FINE), ("age_18_64_116 * sex", "relgq * sex * age"), ("detailed",))},
        "pass 2 ends with relgq . sex . age, whose answers do not add up to those of relgq .*, which are fixed",
    ),
    "not every cell": ({"passes": PASSES[:1]}, "the last pass ends with relgq .*, not with detailed"),
    "a query that is a thousand times as precise as another": (
        {"shares": SHARES | {"State": {SMALL: "9998/10000", FINE: "1/10000", "detailed": "1/10000"}}},
        "persons: State: one query has over 1,000 times the share of another",
    ),
    "a query that levels below answer a thousand times as precisely": (
        {
            "passes": ((SMALL, "cenrace", FINE), ("sex", "age_18_64_116 * sex", "detailed")),
            "shares": SHARES | {
                "US": {"sex": "4993/5000", "age_18_64_116 * sex": "1/1000", FINE: "1/5000", "detailed": "1/5000"},
                "State": {"cenrace": "1/2", FINE: "1/4", "detailed": "1/4"},
            },
        },
        "persons: US: one query has over 1,000 times the share of another",
    ),
    "units whose tenure is read for households": (
        {
            "histogram": "units",
            "passes": (("tenure_3lev", "tenure_vacant_and_gq_types"), ("detailed",)),
            "shares": OF_UNITS,
            "householders_among_persons": True,
        },
        "passes: units: with householders_among_persons",
    ),
    "households whose origin is not told apart": (
        {
            "histogram": "households",
            "passes": (("hhtenshort_3lev * multig",), ("detailed",)),
            "shares": OF_HOUSEHOLDS,
            "householders_among_persons": True,
        },
        r"passes: households: pass 1 ends with .*, whose answers do not add up to those of hisp . race",
    ),
    "households whose tenure units answer": (
        {
            "histogram": "households",
            "passes": (("hhtenshort_3lev", "hisp * race * hhtenshort_3lev"), ("detailed",)),
            "shares": {level: dict.fromkeys(OF_TENURE, "1/3") for level in LEVELS},
            "householders_among_persons": True,
        },
        "passes: households: hhtenshort_3lev is answered by another histogram's measurements",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_queries_by_which_nothing_could_be_estimated_are_refused(name: str) -> None:
    fields, rule = REFUSED[name]
    with pytest.raises(DesignError, match=rule):
        design(**fields)


def test_other_histograms_have_passes_too() -> None:
    """The values refused above are accepted with another option."""
    design((("tenure_3lev", "tenure_vacant_and_gq_types"), ("detailed",)), OF_UNITS, "units")
    design((("hhtenshort_3lev * multig",), ("detailed",)), OF_HOUSEHOLDS, "households")
    shares = {level: dict.fromkeys(OF_TENURE, "1/3") for level in LEVELS}
    design((OF_TENURE[:2], OF_TENURE[2:]), shares, "households")


def test_intervals_follow_from_the_queries_that_every_level_asks() -> None:
    """Fails for: a model of production's queries, and one with answers that some level lacks."""
    everywhere = {level: {"sex": "1/4", **own} for level, own in SHARES.items()}
    shares = {level: {query: Fraction(part) / sum(map(Fraction, own.values())) for query, part in own.items()}
              for level, own in everywhere.items()}  # fmt: skip
    own = design(shares=shares)
    assert list_complete(own.plans["persons"], own.allocations["persons"]) == ("sex",)
    assert find_models(own)["persons"].parameters == 2
    assert len(share(find_models(own)["persons"]).sums) == 0
    production = find_models(replace(own, allocations=PRODUCTION, passes={}))
    assert len(share(production["persons"]).sums) == 7
