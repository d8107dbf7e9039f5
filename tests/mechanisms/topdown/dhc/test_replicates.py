"""A replicate runs noise and estimation again, on published counts and within a replicate of the redistricting data."""

import numpy as np

from mechanisms.topdown.dhc.allocation import HOUSEHOLD_ALLOCATION, PERSON_ALLOCATION, UNIT_ALLOCATION
from mechanisms.topdown.dhc.design import SCHEMAS, DHCDesign
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.levels import Measuring, plan_levels
from mechanisms.topdown.dhc.persons import PERSONS, REDISTRICTING
from mechanisms.topdown.dhc.replicates import estimate_homes, estimate_persons
from mechanisms.topdown.schema import Counts
from tests.mechanisms.topdown.dhc.country import count, draw_country
from tests.mechanisms.topdown.dhc.test_estimation import KEY, equal, lower_levels

NOBODY = Counts(*(np.zeros(0, dtype=np.int64) for _ in range(3)))


def test_a_replicate_lies_within_the_redistricting_data_of_its_own_and_follows_from_its_key() -> None:
    """Fails for: one within the published redistricting data, whose counts would seem to have no error, and one
    with the noise of a draw with the same key. All housing units are vacant."""
    country = draw_country(1, 2, persons=3, races=1, quarters=1)
    blocks, random = len(country.facilities), np.random.default_rng(3)
    allocations = (PERSON_ALLOCATION, UNIT_ALLOCATION, HOUSEHOLD_ALLOCATION)
    lowered = [lower_levels(allocation, 2) for allocation in allocations]
    design = DHCDesign(tuple(lowered[0].levels), dict(zip(SCHEMAS, lowered, strict=True)))
    vacant = random.integers(4, 11, 5 * blocks)
    quarters = np.repeat(np.arange(11, 35), country.facilities.sum(axis=0))
    where = np.concatenate([np.full(n, block) for kind in country.facilities.T for block, n in enumerate(kind)])
    units = count(UNITS, np.append(np.repeat(np.arange(blocks), 5), where), np.append(vacant, quarters))
    counts = {PERSONS.name: country.persons[-1], UNITS.name: units, HOUSEHOLDS.name: NOBODY}
    occupancy = np.tile([0, 5], (blocks, 1))
    published = country.redistricting[-1]
    other = published.copy()
    group = int(np.flatnonzero(published[0])[0])
    other[0, group] += 2

    def repeat(held: np.ndarray, key: bytes) -> dict[str, Counts]:
        of = design, country.parents, counts, held
        homes = estimate_homes(*of, occupancy, country.facilities, key)
        return {**estimate_persons(*of, country.facilities, key), **homes}

    found = repeat(other, KEY)
    assert np.array_equal(found[PERSONS.name].answer(PERSONS.marginal(REDISTRICTING), 0, blocks), other)
    again, different = repeat(other, KEY), repeat(other, KEY[::-1])
    for name in (PERSONS.name, UNITS.name):
        assert equal(found[name], again[name])
        assert not equal(found[name], different[name])
    assert not len(found[HOUSEHOLDS.name].cell)
    level, _ = plan_levels(PERSONS, lowered[0], country.parents)
    drawn, repeated = (
        Measuring(PERSONS, level, NOBODY, KEY, purpose).read("hispanic * sex", 0, 1, np.arange(4))
        for purpose in ("", "replicate ")
    )
    assert not np.array_equal(drawn, repeated)
