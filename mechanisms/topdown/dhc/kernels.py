"""The compiled loop that counts tables (`counting`)."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def tally(columns, plan, figures):  # type: ignore[no-untyped-def]
    number, cell, count = columns
    steps, first, of_table, offsets, attributes, added, starts, counting = plan
    codes = np.empty(len(steps), dtype=np.int64)
    for each in range(len(cell)):
        rest = cell[each]
        for attribute in range(len(steps)):
            codes[attribute] = rest // steps[attribute]
            rest -= codes[attribute] * steps[attribute]
        of_place = figures[number[each]]
        for table in range(len(first)):
            leaf = first[table]
            for entry in range(of_table[table], of_table[table + 1]):
                leaf += added[offsets[entry] + codes[attributes[entry]]]
            for position in range(starts[leaf], starts[leaf + 1]):
                of_place[counting[position]] += count[each]
