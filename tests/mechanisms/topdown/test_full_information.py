"""On a whole synthetic census, full information gains what the documentation states, and its intervals cover."""

import pandas as pd
import pytest

from assets.topdown.workers import ReplicateTask
from benchmarks.topdown_coverage import CENSUSES, make_census
from benchmarks.topdown_information import (
    TREES,
    compare,
    cover,
    cover_unions,
    estimate_linearly,
    expect,
)

pytestmark = pytest.mark.prove

LEVELS = ["US", "state", "county", "tract", "block group", "block"]


@pytest.fixture(scope="module")
def census() -> ReplicateTask:
    return make_census(CENSUSES["A"], "full")[0]


def test_five_draws_lose_the_bias_and_have_the_errors_that_are_documented(census: ReplicateTask) -> None:
    """The estimates of each level from its own measurements fail all of it: their group quarters are 212 too many, and
    their two or more races 71 off."""
    full, own = compare(census), compare(make_census(CENSUSES["A"], "own_levels")[0])
    assert list(full.columns) == LEVELS
    assert abs(full.loc[("group quarters, all", "bias"), "US"]) < 15
    assert abs(full.loc[("two or more races", "bias"), "US"]) < 15
    assert own.loc[("group quarters, all", "bias"), "US"] > 150
    assert own.loc[("two or more races", "error"), "US"] > 50
    documented = {
        "population": [1.43, 1.18, 7.08],
        "group quarters, all": [6.5, 2.83, 0.128],
        "of voting age": [7.96, 5.30, 5.46],
        "two or more races": [4.12, 3.49, 3.78],
        "cells of P1": [1.69, 1.17, 0.549],
        "race × Hispanic": [0.927, 0.580, 0.148],
    }
    for measure, errors in documented.items():
        assert full.loc[(measure, "error"), LEVELS[3:]].to_list() == pytest.approx(errors, rel=0.02)
    assert full.loc[("race × Hispanic", "error"), "county"] < 0.7 * own.loc[("race × Hispanic", "error"), "county"]


def test_the_linear_intervals_cover_what_they_state(census: ReplicateTask) -> None:
    """Nine in ten before rounding, in every level and size with 1,000 cells or more; at least 88% after rounding
    inwards and cutting; and so do unions of blocks, of which variances added up as if independent would not."""
    tallies = []
    for draw in range(2):
        persons, informed, linear = estimate_linearly(census, draw)
        tallies.append(cover(persons, linear))
    found = pd.concat(tallies).groupby(["depth", "size"]).sum()
    large = found[found["cells"] >= 1_000]
    assert len(large) >= 10
    before, after = large["before"] / large["cells"], large["after"] / large["cells"]
    assert before.between(0.88, 0.92).all()
    assert (after >= 0.88).all()
    assert ((large["squares"] / large["variance"]) ** 0.5).between(0.93, 1.07).all()
    assert 0.85 <= cover_unions(persons, informed, linear) <= 0.95


def test_a_nation_gains_most_at_tracts(census: ReplicateTask) -> None:
    ratios = expect(census.design, TREES["United States"]).round(2)
    assert ratios.loc["population"].to_list()[2:] == [0.98, 0.77, 0.94]
    assert ratios.loc["a race × Hispanic cell"].to_list() == [0.99, 0.99, 0.85, 0.81, 0.96]
    assert ratios.loc["a single cell"].to_list() == [0.99, 0.99, 0.90, 0.65, 0.88]
