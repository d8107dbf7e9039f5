"""The pages' figures of SafeTab and of the products of 2020 match the production designs."""

import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from assets.safetab.lists import read_lists
from docs.pictures.__main__ import FOLDER
from mechanisms.accounting.composition import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.losses import ConcentratedLoss, Loss
from mechanisms.accounting.specification import DELTA, PERSON, Specification, Total, compose
from mechanisms.phsafe import design as phsafe
from mechanisms.safetab.design import Measured, SafeTabHDesign, SafeTabPDesign
from mechanisms.safetab.planning import PAIRS, chances
from mechanisms.sampling.quantiles import half_width
from mechanisms.states import PUERTO_RICO, STATES
from mechanisms.topdown.allocation import LEVELS, PERSON_ALLOCATION, UNIT_ALLOCATION
from mechanisms.topdown.design import TopDownDesign
from mechanisms.topdown.dhc.allocation import HOUSEHOLD_ALLOCATION as DHC_HOUSEHOLDS
from mechanisms.topdown.dhc.allocation import LEVELS as DHC_LEVELS
from mechanisms.topdown.dhc.allocation import PERSON_ALLOCATION as DHC_PERSONS
from mechanisms.topdown.dhc.allocation import PERSON_QUERIES
from mechanisms.topdown.dhc.allocation import UNIT_ALLOCATION as DHC_UNITS
from mechanisms.topdown.dhc.design import DHCDesign
from tests.mechanisms.safetab.designs import PUBLISHED_BOUNDED_P, margin_of_error, production_h, production_p

DOCS = FOLDER.parent
SAFETAB, PRODUCTS = DOCS / "mechanisms" / "safetab.md", DOCS / "explanation" / "products-of-2020.md"
DHC = Fraction("7.70") + Fraction("4.96")
"""The published ρ of the Demographic and Housing Characteristics File, where each histogram counts once (Table 3)."""


def rows(page: Path, head: str) -> list[list[str]]:
    """The cells of the rows of a table, which is found by the beginning of its head."""
    table = re.search(rf"^\| {re.escape(head)}.*\n\|[-|: ]+\|\n((?:\|.*\n)+)", page.read_text("utf-8"), re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


@cache
def designs(*states: str) -> tuple[SafeTabPDesign, SafeTabHDesign]:
    """Both production designs, with the shipped lists."""
    lists = read_lists()
    stabilities = {pair: lists.stability(*pair, max_race_codes=8) for pair in PAIRS}
    chosen = states or tuple(sorted(STATES))
    return production_p(chosen, stabilities), production_h(chosen, stabilities)


@cache
def line(label: str) -> Measured:
    """A line of SafeTab-P."""
    return next(each for each in designs()[0].measured if each.label == label)


def products() -> dict[str, Specification]:
    """The specifications of the releases of all states, the District of Columbia and Puerto Rico, by product; the S-DHC
    without Puerto Rico, which is a separate release."""
    held = {"population": "State", "housing_units": "Block", "group_quarters": "Block"}
    topdown = TopDownDesign(LEVELS, {"persons": PERSON_ALLOCATION, "units": UNIT_ALLOCATION}, held)
    allocations = {"persons": DHC_PERSONS, "units": DHC_UNITS, "households": DHC_HOUSEHOLDS}
    dhc = DHCDesign(DHC_LEVELS, allocations)
    persons, households = designs()
    without = tuple(sorted(set(STATES) - {PUERTO_RICO}))
    return {
        "redistricting data (P.L. 94-171)": topdown.specification("census"),
        "Demographic and Housing Characteristics (DHC)": dhc.specification("census"),
        "Detailed DHC-A": persons.specification("census"),
        "Detailed DHC-B": households.specification("census"),
        "Supplemental DHC (S-DHC)": phsafe.production(without).specification("census"),
    }


def total_for_persons() -> Total:
    """The composed ρ of all products for a change of one person's record."""
    (total,) = (
        each
        for each in compose(products().values())
        if (each.unit, each.output_premetric) == (PERSON, ConcentratedLoss.output_premetric)
    )
    return total


def with_published_dhc() -> Fraction:
    own = products()["Demographic and Housing Characteristics (DHC)"]
    return rho(total_for_persons().loss) - rho(own.loss) + DHC


def rho(loss: Loss) -> Fraction:
    """The ρ of a loss in zCDP."""
    assert isinstance(loss, ConcentratedLoss)
    return loss.rho


def stated(of: Fraction) -> list[str]:
    """ρ and its ε as the page of products states them."""
    loss = ConcentratedLoss(of)
    return [str(loss.round_up(4)), str(canonne_kamath_steinke(loss, DELTA, 4))]


def test_the_products_of_2020_are_stated_as_composed_here() -> None:
    table = {name: cells for name, _, *cells in rows(PRODUCTS, "product | mechanism")}
    found = products()
    for name, specification in found.items():
        unit, published, *ours = table.pop(name)
        assert specification.flavor.unit == unit
        loss = rho(specification.loss)
        assert ours == stated(loss), name
        # The published figures are rounded; only the Detailed DHC-A and the second unit of a move are counted
        # otherwise.
        if name == "Detailed DHC-A":
            assert Fraction(published) == PUBLISHED_BOUNDED_P == 2 * loss
        elif name.startswith("redistricting"):
            assert abs(Fraction(published) + UNIT_ALLOCATION.loss.rho - loss) < Fraction(1, 100)
        elif name.startswith("Demographic"):
            alone = sum(DHC_PERSONS.part(level, query).rho for level in DHC_LEVELS for query in PERSON_QUERIES[6:])
            more = 2 * alone + DHC_UNITS.loss.rho + 3 * DHC_HOUSEHOLDS.loss.rho
            assert Fraction(published) == DHC
            assert abs(DHC + more - loss) < Fraction(1, 100)
        else:
            assert abs(Fraction(published) - loss) < Fraction(1, 1000)

    total = total_for_persons()
    assert (total.releases, total.left_out) == (5, ())
    assert rho(total.loss) == sum(rho(each.loss) for each in found.values())
    _, published, *ours = table.pop("all five, for one person")
    assert (published, ours) == ("55.371", stated(rho(total.loss)))
    _, published, *ours = table.pop("all five, with the published ρ of the DHC")
    assert (published, ours) == ("55.371", stated(with_published_dhc()))
    assert not table


def test_the_conversions_beside_the_products_are_right() -> None:
    text = " ".join(PRODUCTS.read_text("utf-8").split())
    published, ours = ConcentratedLoss(Fraction("55.371")), with_published_dhc()
    assert f"{bun_steinke(published, DELTA, 4):.2f}" == "126.78"
    assert f"55.371 is ε = {canonne_kamath_steinke(published, DELTA, 4)}" in text
    assert f"45.5593 is ε = {bun_steinke(ConcentratedLoss(ours), DELTA, 4)}" in text


@pytest.mark.parametrize("run", ["both runs", "Puerto Rico alone"])
def test_the_losses_of_safetab_are_those_of_production(run: str) -> None:
    table = {name: cells for name, *cells in rows(SAFETAB, "production budgets, ρ")}
    for design in designs() if run == "both runs" else designs(PUERTO_RICO):
        name = "SafeTab-P" if isinstance(design, SafeTabPDesign) else "SafeTab-H"
        (cells,) = (cells for label, cells in table.items() if label.startswith(name) and label.endswith(run))
        assert [Fraction(cell) for cell in cells[:2]] == [rho(design.unbounded), rho(design.bounded)]


def test_the_lines_of_2020_are_those_of_production() -> None:
    labels = {"0.008": "TRACT 1", "2.134": "STATE 2", "0.159": "TRACT 2"}
    for _, budget, thresholds, stage_2, margin, cut_off in rows(SAFETAB, "line | ρ"):
        found = line(labels[budget])
        assert found.budget == Fraction(budget)
        assert thresholds == "; ".join(f"{each:,}" for each in found.thresholds)
        assert float(stage_2) == pytest.approx(float(found.stage_2.exact_variance), rel=2e-6)
        design = designs()[0]
        assert margin == f"{margin_of_error(design.noise, 9, found.budget, design.stage_1_share):.2f}"
        assert cut_off == ("–" if found.cut_off is None else str(found.cut_off))


@pytest.mark.parametrize(
    "cells", rows(SAFETAB, "level | true total"), ids=lambda cells: " of level ".join(cells[1::-1])
)
def test_what_suppression_does_is_as_stated(cells: list[str]) -> None:
    level, size, *shown = cells
    measured, true = line(f"TRACT {level}"), int(size)
    assert measured.cut_off is not None
    width = half_width(measured.stage_2, 1, Fraction(9, 10))
    noise = np.arange(-2000, 2001)
    probability = np.asarray(measured.stage_2.probabilities(noise), dtype=float)
    kept = true + noise > measured.cut_off
    published = probability[kept].sum()
    mean = ((true + noise[kept]) * probability[kept]).sum() / published
    covered = probability[kept & (abs(noise) <= width)].sum() / published
    assert shown == [f"{published:.2%}", f"{mean:.1f}", f"{covered:.0%}"]
    assert chances(measured, true).published == pytest.approx(published, abs=1e-9)


def test_the_iterations_are_those_of_the_lists() -> None:
    lists, found = read_lists(), designs()[0]
    sizes: dict[tuple[bool, int], int] = {}
    only: dict[tuple[bool, int], int] = {}
    for detailed in (True, False):
        region_type = next(each.region_type for each in found.measured if each.region_type.detailed == detailed)
        for level in (1, 2):
            universe = lists.universe(region_type, level)
            sizes[detailed, level] = len(universe)
            only[detailed, level] = sum(bool(each.detailed_only) for each in universe)
    text = " ".join(SAFETAB.read_text("utf-8").split())
    assert f"{sizes[True, 1]} iterations of level 1 and {sizes[True, 2]:,} of level 2" in text
    assert f"of which {only[True, 1]} and {only[True, 2]} have only totals" in text
    assert f"Elsewhere, without these, {sizes[False, 1]} and {sizes[False, 2]:,} remain." in text
    assert not only[False, 1] + only[False, 2]
