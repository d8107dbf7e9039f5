"""A TopDown design has the 2020 Census's loss, line by line, and refuses declarations that it could not carry out."""

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from mechanisms.accounting.composition import bun_steinke, canonne_kamath_steinke, compose_concentrated
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.accounting.specification import compose
from mechanisms.design import DesignError
from mechanisms.topdown.allocation import LEVELS, PERSON_ALLOCATION, UNIT_ALLOCATION, Allocation, allocate
from mechanisms.topdown.design import SCHEMAS, TopDownDesign, words
from mechanisms.topdown.schema import PERSONS, UNITS

PUBLISHED = json.loads(((Path(__file__).parents[2] / "data") / "pl94_us_persons_production.json").read_text())
HELD = {"population": "State", "housing_units": "Block", "group_quarters": "Block"}
PRODUCTION = TopDownDesign(LEVELS, {"persons": PERSON_ALLOCATION, "units": UNIT_ALLOCATION}, HELD)


def test_every_query_of_every_level_costs_what_it_cost_in_2020() -> None:
    measured = {(each.level, each.query): each for each in PRODUCTION.measured if each.histogram == "persons"}
    published = {(level, query) for level, queries in PUBLISHED["queries"].items() for query in queries}
    assert measured.keys() == published
    for (level, query), each in measured.items():
        share = Fraction(PUBLISHED["geolevels"][level]) * Fraction(PUBLISHED["queries"][level][query])
        assert each.loss.rho == Fraction(PUBLISHED["rho"]) * share
        assert each.variance == 1 / each.loss.rho
        assert each.noise.variance == each.variance


def test_the_variance_is_that_of_a_marginal_of_which_two_cells_change_by_one() -> None:
    """By enumeration: every single record moved in a histogram of a few cells, every marginal of it."""
    for query in ("total", "hhgq", "hispanic * cenrace", "detailed"):
        marginal = PERSONS.marginal(query)
        changes = [
            0 if marginal.cells[one] == marginal.cells[other] else 2
            for one, other in product(range(0, 2016, 97), repeat=2)
        ]
        each = next(each for each in PRODUCTION.measured if (each.level, each.query) == ("Block", query))
        assert each.loss.rho * each.variance == 1 >= Fraction(max(changes), 2)


def test_the_loss_is_that_of_theorem_2_and_once_more_the_units_for_a_move() -> None:
    assert round(float(PRODUCTION.persons.rho), 2) == 2.56
    assert round(float(PRODUCTION.units.rho), 2) == 0.07
    assert round(float(PRODUCTION.one_unit.rho), 2) == 2.63
    assert PRODUCTION.loss.rho == PRODUCTION.persons.rho + 2 * PRODUCTION.units.rho


def test_a_move_from_one_unit_to_another_changes_the_units_answers_by_four_at_most() -> None:
    """Every move between two of three places with two units each: the squared L2 distance of occupied and vacant."""
    worst = 0
    for before, after in product(range(3), repeat=2):
        change = [[0, 0] for _ in range(3)]
        for place, sign in ((before, -1), (after, 1)):
            change[place][0] += sign
            change[place][1] -= sign
        worst = max(worst, sum(number**2 for counts in change for number in counts))
    assert PRODUCTION.lines[-1].loss == PRODUCTION.units
    units = [each for each in PRODUCTION.measured if each.histogram == "units"]
    exact = sum((Fraction(worst) / (2 * each.variance) for each in units), Fraction())
    assert exact == PRODUCTION.units.rho + sum((each.loss.rho for each in units), Fraction())


def test_the_lines_are_the_measurements_and_add_up_to_the_charge() -> None:
    specification = PRODUCTION.specification("town")
    assert len(specification.lines) == 65 + 6 + 1
    assert compose_concentrated(line.loss for line in specification.lines) == specification.charge == PRODUCTION.loss


def test_the_certificates_eleven_figures_are_reproduced() -> None:
    certificate, delta = PUBLISHED["certificate"], Fraction(PUBLISHED["delta"])
    persons = PRODUCTION.allocations["persons"]

    def stated(loss: ConcentratedLoss) -> Decimal:
        return round(canonne_kamath_steinke(loss, delta), 2)

    figures = [
        (stated(PRODUCTION.persons), certificate["zcdp_implied_epsilon"]),
        (round(bun_steinke(PRODUCTION.persons, delta), 2), certificate["bun_steinke_epsilon"]),
        *((stated(persons.of_attribute(name)), due) for name, due in certificate["per_attribute_epsilon"].items()),
        *(
            (stated(persons.of_move_within(move.removeprefix("Block-within-"))), due)
            for move, due in certificate["per_geography_epsilon"].items()
        ),
    ]
    assert len(figures) == 11
    assert all(found == Decimal(str(due)) for found, due in figures)


UNPUBLISHED = "housing units in each block, though it is not published exactly"


@pytest.mark.parametrize(
    ("held", "named"),
    [
        ({}, [UNPUBLISHED]),
        ({"population": "Block"}, ["persons in each block", UNPUBLISHED]),
        (HELD, ["persons in each state", "housing units in each block", "group quarters of each type in each block"]),
    ],
)
def test_the_multiverse_names_the_invariants_that_are_held_and_no_others(
    held: dict[str, str], named: list[str]
) -> None:
    which_places, *multiverse = replace(PRODUCTION, invariants=held).specification("town").flavor.multiverse
    assert which_places == "which blocks have a housing unit or group quarters, and the places they lie in"
    assert len(multiverse) == len(named)
    assert all(statistic.endswith(end) for statistic, end in zip(multiverse, named, strict=True))


def test_a_total_over_two_designs_holds_within_the_invariants_of_both() -> None:
    other = replace(PRODUCTION, invariants={"population": "County"})
    for total in compose([PRODUCTION.specification("town"), other.specification("town")]):
        assert set(total.multiverse) == set(PRODUCTION.multiverse) | set(other.multiverse)


def divided(
    queries: dict[str, Fraction], levels: tuple[str, ...] = ("US", "Block"), rho: Fraction = Fraction(1)
) -> Allocation:
    shares = {level: Fraction(1, len(levels)) for level in levels}
    return allocate(PERSONS, rho, shares, dict.fromkeys(levels, queries))


WHOLE = {"detailed": Fraction(1)}
UNITS_WHOLE = allocate(
    UNITS, Fraction(1), {"US": Fraction(1, 2), "Block": Fraction(1, 2)}, dict.fromkeys(("US", "Block"), WHOLE)
)
TINY = Fraction(1, 10**11)


@pytest.mark.parametrize(
    ("levels", "persons", "held", "complaint"),
    [
        (("US",), divided(WHOLE, ("US",)), {}, "two levels or more"),
        (("US", "US"), divided(WHOLE), {}, "each with a name of its own"),
        (("US", "Block"), divided(WHOLE), {"age": "US"}, "there is no invariant age; there are population"),
        (("US", "Block"), divided(WHOLE), {"population": "Tract"}, "population: there is no level Tract"),
        (("US", "Block"), divided(WHOLE), {"group_quarters": "US"}, "name the finest level of the spine, Block"),
        (("US", "Block"), divided(WHOLE, ("Block", "US")), {}, "persons: levels Block, US are not those of the spine"),
        (("US", "Block"), divided(WHOLE, rho=Fraction(1001)), {}, "persons: rho lies above 0 and up to 1000"),
        (("US", "Block"), divided(WHOLE, rho=Fraction(0)), {}, "persons: rho lies above 0"),
        (("US", "Block"), divided({"total": Fraction(1)}), {}, "US: the query detailed has no share"),
        (
            ("US", "Block"),
            divided({"hispanic": Fraction(199, 200), "detailed": Fraction(1, 200)}),
            {},
            "US: detailed has so small a share beside the coarser queries",
        ),
        (("US", "Block"), divided({"total": TINY, "detailed": 1 - TINY}), {}, "US total: σ² = 2e.11 drowns any count"),
        (
            ("US", "Block"),
            divided(WHOLE, rho=Fraction(1, 10**8)),
            {},
            "US: noise of σ = 14,142 in detailed would add about 11,374,062 persons",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_out_is_refused(
    levels: tuple[str, ...], persons: Allocation, held: dict[str, str], complaint: str
) -> None:
    with pytest.raises(DesignError, match=complaint):
        TopDownDesign(levels, {"persons": persons, "units": UNITS_WHOLE}, held)


@pytest.mark.parametrize(
    ("queries", "held"), [(WHOLE, {"population": "US"}), ({"total": Fraction(1, 50), "detailed": Fraction(49, 50)}, {})]
)
def test_wide_noise_makes_no_persons_if_their_number_is_held_or_measured_by_itself(
    queries: dict[str, Fraction], held: dict[str, str]
) -> None:
    allocations = {"persons": divided(queries, rho=Fraction(1, 10**8)), "units": UNITS_WHOLE}
    assert TopDownDesign(("US", "Block"), allocations, held).measured


def test_both_histograms_are_measured() -> None:
    assert list(SCHEMAS) == ["persons", "units"]
    with pytest.raises(DesignError, match="allocations are for persons and units"):
        TopDownDesign(LEVELS, {"persons": PERSON_ALLOCATION}, {})


def test_designs_that_release_the_same_have_the_same_record() -> None:
    assert PRODUCTION.as_record() == replace(PRODUCTION, invariants=dict(reversed(HELD.items()))).as_record()
    assert PRODUCTION.as_record() != replace(PRODUCTION, invariants={"population": "State"}).as_record()


def test_the_order_in_which_queries_are_declared_makes_no_difference() -> None:
    turned = {
        name: replace(each, queries={level: dict(reversed(of.items())) for level, of in each.queries.items()})
        for name, each in PRODUCTION.allocations.items()
    }
    other = replace(PRODUCTION, allocations=turned)
    assert other.measured == PRODUCTION.measured
    assert other.as_record() == PRODUCTION.as_record()
    for level in LEVELS:
        sizes = [each.marginal.size for each in PRODUCTION.measured_at("persons", level)]
        assert sizes == sorted(sizes)


def test_levels_are_written_as_words() -> None:
    assert [words(level) for level in LEVELS] == ["US", "state", "county", "tract", "block group", "block"]
