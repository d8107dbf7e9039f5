"""The errors of a DHC's answers are those of the places that were measured."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from assets.topdown.dhc.accuracy import compare_answers
from assets.topdown.dhc.measurements import Stored
from mechanisms.topdown.dhc.allocation import UNIT_ALLOCATION
from mechanisms.topdown.dhc.households import UNITS
from mechanisms.topdown.dhc.levels import find_read, plan_levels
from mechanisms.topdown.dhc.passes import UNIT_PLAN
from mechanisms.topdown.schema import DETAILED, Counts
from tests.mechanisms.topdown.dhc.country import count
from tests.mechanisms.topdown.dhc.test_estimation import lower_levels


def test_siblings_whose_parent_is_empty_are_not_compared() -> None:
    """Wrong program: errors over all places, which ask for answers that the estimation never read."""
    parents = [np.zeros(1, np.int64), np.array([0, 0]), np.array([0, 0, 1, 1])]
    level = plan_levels(UNITS, lower_levels(UNIT_ALLOCATION, 3), parents)[-1]
    exact = count(UNITS, np.array([0, 1]), np.array([0, 4]))
    above = Counts(np.zeros(2, np.int64), np.array([0, 4]), np.ones(2, np.int64))
    (read,) = find_read(UNIT_PLAN, [level], parents[-1:], np.array([True, False]), True)
    rows = [
        {
            "query": query,
            "number": place,
            "cells": above.cell,
            "answers": [3 + int(cell == 4 * place) for cell in (0, 4)],
        }
        for query, places in read.items()
        for place in np.flatnonzero(places).tolist()
    ]
    assert [row["number"] for row in rows] == [0, 1]
    kinds = pa.schema(
        {"query": pa.string(), "number": pa.int64()} | dict.fromkeys(["cells", "answers"], pa.list_(pa.int32()))
    )
    stored: Any = SimpleNamespace(arrow=lambda *_, **__: pa.Table.from_pylist(rows, schema=kinds))
    release: Any = SimpleNamespace(schema="town__dhc", public=str)
    estimates = count(UNITS, np.array([0, 1]), np.array([4, 4]))
    assert compare_answers(Stored(stored, release, UNITS, level), DETAILED, exact, estimates) == [(12, 4), (2, 4)]
