"""Replicates of the DHC: noise and estimation once more, on counts that are already published.

As `mechanisms.topdown.replicates` has it for the redistricting data. A replicate of the DHC lies within the counts of a
replicate of the redistricting data, so that it has their errors too.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.dhc.design import SCHEMAS, DHCDesign
from mechanisms.topdown.dhc.householders import Householders, count_householders
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.levels import Reading, estimate_all_homes, estimate_tree, measure_tree
from mechanisms.topdown.dhc.passes import PLANS
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.quarters import Quarters, count_quarters, fill_facilities
from mechanisms.topdown.dhc.tree import Held, add_answers, climb
from mechanisms.topdown.schema import Counts

Numbers = NDArray[np.int64]


def estimate_finest(
    design: DHCDesign,
    parents: Sequence[Numbers],
    counts: Mapping[str, Counts],
    persons: Held | Numbers,
    occupancy: Numbers,
    facilities: Numbers,
    key: bytes,
) -> dict[str, Counts]:
    """The estimates of the finest level that follow from counts and noise, by histogram, with facilities filled.

    Args:
        parents: by level from the root's, the position of each place's parent in the level above; 0 for the root.
        counts: by histogram, the counts of the finest level that are measured.
        persons: what holds of persons in the finest level, shape (places, groups).
        occupancy: occupied and vacant units of the finest level, shape (places, 2).
        facilities: of the finest level, shape (places, types).

    Raises QuartersError, HouseholdersError, NotSolvedError and NotRoundedError.
    """

    def measure(histogram: str) -> list[Reading]:
        allocation, own = design.allocations[histogram], counts[histogram]
        return measure_tree(SCHEMAS[histogram], allocation, parents, own, key, design.full, "replicate ")

    quarters = climb(count_quarters(persons, facilities), parents, Quarters.add_up)
    held = climb(persons, parents, add_answers)
    of_persons = estimate_tree(PLANS[PERSONS.name], measure(PERSONS.name), held, parents, quarters)[-1]
    units_held = climb(np.concatenate([occupancy, facilities], axis=1), parents, add_answers)
    householders = None
    if design.householders_among_persons:
        householders = climb(count_householders(persons, occupancy[:, 0]), parents, Householders.add_up)
    homes = estimate_all_homes(measure(UNITS.name), measure(HOUSEHOLDS.name), units_held, parents, householders)
    units, households = homes[-1]
    filled = fill_facilities(of_persons.counts, facilities)
    return {PERSONS.name: filled, UNITS.name: units.counts, HOUSEHOLDS.name: households.counts}
