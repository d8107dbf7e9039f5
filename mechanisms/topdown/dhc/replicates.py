"""Replicates of the DHC: noise and estimation repeated on published counts.

`mechanisms.topdown.replicates` does the same for the redistricting data. A replicate of the DHC lies within the counts
of a replicate of the redistricting data, so it also has their errors.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.dhc.design import SCHEMAS, DHCDesign
from mechanisms.topdown.dhc.householders import Householders, count_householders
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.levels import Reading, estimate_all_homes, estimate_tree, measure_tree
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.quarters import Quarters, count_quarters, fill_facilities
from mechanisms.topdown.dhc.tree import Held, add_answers, climb
from mechanisms.topdown.schema import Counts

Numbers = NDArray[np.int64]


def estimate_persons(
    design: DHCDesign,
    parents: Sequence[Numbers],
    counts: Mapping[str, Counts],
    persons: Held | Numbers,
    facilities: Numbers,
    key: bytes,
) -> dict[str, Counts]:
    """The estimates of the finest level that follow from counts and noise, with facilities filled, by histogram.

    Args:
        parents: by level from the root's, the position of each place's parent in the level above; 0 for the root.
        counts: by histogram, the measured counts of the finest level.
        persons: the held counts of persons in the finest level, shape (places, groups).
        facilities: the facilities of the finest level, shape (places, types).

    Raises QuartersError, NotSolvedError and NotRoundedError.
    """
    quarters = climb(count_quarters(persons, facilities), parents, Quarters.add_up)
    held = climb(persons, parents, add_answers)
    readings = _measure(PERSONS.name, design, parents, counts, key)
    found = estimate_tree(design.plans[PERSONS.name], readings, held, parents, quarters)[-1]
    return {PERSONS.name: fill_facilities(found.counts, facilities)}


def estimate_homes(
    design: DHCDesign,
    parents: Sequence[Numbers],
    counts: Mapping[str, Counts],
    persons: Held | Numbers,
    occupancy: Numbers,
    facilities: Numbers,
    key: bytes,
) -> dict[str, Counts]:
    """As `estimate_persons`, for units and households, which do not depend on the persons' estimates. Raises
    HouseholdersError, NotSolvedError and NotRoundedError.

    Args:
        occupancy: occupied and vacant units of the finest level, shape (places, 2).
    """
    held = climb(np.concatenate([occupancy, facilities], axis=1), parents, add_answers)
    householders = None
    if design.householders_among_persons:
        householders = climb(count_householders(persons, occupancy[:, 0]), parents, Householders.add_up)
    of_units, of_households = (_measure(name, design, parents, counts, key) for name in (UNITS.name, HOUSEHOLDS.name))
    units, households = estimate_all_homes(design.plans, of_units, of_households, held, parents, householders)[-1]
    return {UNITS.name: units.counts, HOUSEHOLDS.name: households.counts}


def _measure(
    histogram: str, design: DHCDesign, parents: Sequence[Numbers], counts: Mapping[str, Counts], key: bytes
) -> list[Reading]:
    allocation, own = design.allocations[histogram], counts[histogram]
    return measure_tree(SCHEMAS[histogram], allocation, parents, own, key, design.full, "replicate ")
