"""TopDown's counts, and the allocations of the 2020 Census."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mechanisms.topdown.allocation import (
    LEVELS,
    PERSON_ALLOCATION,
    UNIT_ALLOCATION,
    Allocation,
    allocate,
    compute_variances,
)
from mechanisms.topdown.dhc.households import HOUSEHOLDS
from mechanisms.topdown.dhc.persons import PERSONS as DHC_PERSONS
from mechanisms.topdown.schema import DETAILED, PERSONS, TOTAL, UNITS, QueryError, Recode, Schema
from tests.mechanisms.topdown.problems import SMALL

PUBLISHED = json.loads(((Path(__file__).parents[2] / "data") / "pl94_us_persons_production.json").read_text())


def test_persons_have_2016_cells_and_units_two() -> None:
    assert (PERSONS.size, UNITS.size) == (8 * 2 * 2 * 63, 2)


def test_no_minor_is_in_a_nursing_facility_and_everything_else_is_possible() -> None:
    cells = np.arange(PERSONS.size).reshape(8, 2, 2, 63)
    assert set(np.flatnonzero(~PERSONS.possible)) == set(cells[3, 0].ravel())


def test_a_marginal_is_the_sum_over_what_it_does_not_name() -> None:
    histograms = np.random.default_rng(1).integers(0, 1000, size=(3, PERSONS.size))
    cube = histograms.reshape(3, 8, 2, 2, 63)
    expected = {
        "total": cube.sum(axis=(1, 2, 3, 4)),
        "hhgq": cube.sum(axis=(2, 3, 4)),
        "votingage": cube.sum(axis=(1, 3, 4)),
        "hispanic": cube.sum(axis=(1, 2, 4)),
        "cenrace": cube.sum(axis=(1, 2, 3)),
        "hispanic * cenrace": cube.sum(axis=(1, 2)),
        "votingage * cenrace": cube.sum(axis=(1, 3)),
        "votingage * hispanic": cube.sum(axis=(1, 4)),
        "votingage * hispanic * cenrace": cube.sum(axis=1),
        "hhgq * hispanic": cube.sum(axis=(2, 4)),
        "detailed": cube,
    }
    for query, answers in expected.items():
        marginal = PERSONS.marginal(query)
        assert np.array_equal(marginal.answer(histograms), answers.reshape(3, -1)), query
        for cells in (np.arange(0, PERSONS.size, 2), np.array([1700, 3])):
            reached = marginal.reach(cells)
            assert reached.dtype == np.int64
            assert reached.tolist() == sorted(set(marginal.cells[cells].tolist())), query


@pytest.mark.parametrize("schema", [DHC_PERSONS, HOUSEHOLDS])
def test_marginal_cells_of_a_large_histogram_follow_from_the_codes(schema: Schema) -> None:
    """For every attribute and recode, and several, in either order. Wrong programs: the term of an attribute's first
    code is counted twice or subtracted; attributes are divided among the halves by the order of the query."""
    shape = [attribute.size for attribute in schema.attributes]
    cells = np.random.default_rng(3).integers(0, schema.size, 500).astype(np.int32)
    by_attribute = zip(schema.attributes, np.unravel_index(cells, shape), strict=True)
    codes = {attribute.name: (of_cells, attribute.size) for attribute, of_cells in by_attribute}
    # Its first code is not 0.
    backwards = [Recode(f"{part.name}_back", part.name, tuple(range(part.size))[::-1]) for part in schema.attributes]
    schema = replace(schema, recodes=(*schema.recodes, *backwards), _marginals={})
    for recode in schema.recodes:
        codes[recode.name] = np.array(recode.codes)[codes[recode.attribute][0]], max(recode.codes) + 1
    every = [f"{part.name}_back" for part in schema.attributes]
    queries = [[name] for name in codes] + [every, every[::-1], every[:2], every[-1:0:-2]]
    for query in queries:
        due = np.ravel_multi_index([codes[name][0] for name in query], [codes[name][1] for name in query])
        found = schema.marginal(" * ".join(query)).find(cells)
        assert found.tolist() == due.tolist(), query
        assert np.array_equal(found, schema.marginal(" * ".join(query)).find(cells + 9 * schema.size)), "forged cells"
    assert not schema.marginal(TOTAL).find(cells).any()
    assert schema.marginal(DETAILED).find(cells).tolist() == cells.tolist()


def test_the_recode_puts_types_of_group_quarters_together() -> None:
    histogram = np.zeros((1, PERSONS.size), dtype=np.int64)
    histogram.reshape(8, -1)[:, 0] = [1, 10, 20, 30, 40, 500, 600, 700]
    assert PERSONS.marginal("hhinstlevels").answer(histogram).tolist() == [[1, 100, 1800]]


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("age", "persons: the query 'age' names \\['age'\\]; there are hhgq, "),
        ("hhgq*cenrace", "names \\['hhgq\\*cenrace'\\]"),
        ("hhgq * hhinstlevels", "names an attribute twice"),
        ("cenrace * cenrace", "names an attribute twice"),
    ],
)
def test_a_query_that_the_histogram_cannot_answer_is_refused(query: str, complaint: str) -> None:
    with pytest.raises(QueryError, match=complaint):
        PERSONS.marginal(query)


@pytest.mark.parametrize("schema", [PERSONS, UNITS, SMALL])
def test_each_query_that_is_rounded_refines_the_one_before(schema: Schema) -> None:
    chain = [schema.marginal(query) for query in (*schema.rounding, DETAILED)]
    assert schema.rounding[0] == TOTAL
    assert schema.groups.query in schema.rounding
    for coarse, fine in pairwise(chain):
        assert len(set(zip(coarse.cells, fine.cells, strict=True))) == fine.size


def test_the_persons_allocation_is_the_published_one_in_every_share() -> None:
    assert Fraction(PUBLISHED["rho"]) == PERSON_ALLOCATION.loss.rho
    assert {level: Fraction(share) for level, share in PUBLISHED["geolevels"].items()} == PERSON_ALLOCATION.levels
    for level, shares in PUBLISHED["queries"].items():
        assert {query: Fraction(share) for query, share in shares.items()} == PERSON_ALLOCATION.queries[level]
    assert tuple(PERSON_ALLOCATION.levels) == LEVELS


def test_a_query_involves_the_attributes_it_is_made_of_recoded_or_not() -> None:
    involved = PERSON_ALLOCATION.involved
    assert involved["total"] == frozenset()
    assert involved["hhinstlevels"] == involved["hhgq"] == {"hhgq"}
    assert involved["votingage * cenrace"] == {"votingage", "cenrace"}
    assert involved["detailed"] == {"hhgq", "votingage", "hispanic", "cenrace"}


def test_units_lose_seven_hundredths_between_them() -> None:
    assert round(float(UNIT_ALLOCATION.loss.rho), 2) == 0.07
    assert UNIT_ALLOCATION.of_query("detailed") == UNIT_ALLOCATION.loss


@pytest.mark.parametrize("divided", [PERSON_ALLOCATION, UNIT_ALLOCATION])
def test_noise_of_the_stated_variances_costs_exactly_the_stated_rho(divided: Allocation) -> None:
    """A replaced record moves an answer by 2 in squared L2 distance: ρ = 2/(2σ²) each, all of them together ρ."""
    variances = [variance for level in LEVELS for variance in compute_variances(divided, level).values()]
    spent = sum(Fraction(2) / (2 * variance) for variance in variances)
    assert spent == divided.loss.rho


def test_the_variance_of_the_detailed_query_in_blocks_is_about_ten() -> None:
    """Worked out from the shares: 1/(2.556 · 165/4099 · 3945/4097)."""
    assert compute_variances(PERSON_ALLOCATION, "Block")["detailed"] == 1 / (
        Fraction(293764, 114921) * Fraction(165, 4099) * Fraction(3945, 4097)
    )
    assert "total" not in compute_variances(PERSON_ALLOCATION, "US")


def test_an_allocation_to_a_query_that_there_is_not_is_refused() -> None:
    with pytest.raises(QueryError, match="units: the query 'hhgq'"):
        allocate(UNITS, Fraction(1), {"US": Fraction(1)}, {"US": {"hhgq": Fraction(1)}})
