"""Small problems of TopDown's shape. A histogram with every feature of the persons' histogram, and random families of
it. `benchmarks.topdown_problems` has problems of production's shape.
"""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from benchmarks.topdown_problems import Siblings, measure
from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.schema import Attribute, Recode, Schema

SMALL = Schema(
    name="people",
    attributes=(Attribute("kind", 3), Attribute("adult", 2), Attribute("race", 2)),
    recodes=(Recode("household", "kind", (0, 1, 1)),),
    bounded="kind",
    impossible=({"kind": 2, "adult": 0},),
    rounding=("total", "kind", "kind * race"),
    combined=Recode("either race", "race", (0, 1)),
)
"""A histogram of twelve cells with every feature of the persons' histogram."""


@st.composite
def small_siblings(draw: st.DrawFn, most: int = 4, scale: float = 1) -> Siblings:
    """A few children of the small histogram, some totals fixed, bounds around the truth, any queries and noise.

    Every cell is asked by itself, as at every level of production.
    """
    children = draw(st.integers(1, most))
    possible = SMALL.possible.astype(np.int64)
    counts = st.lists(st.integers(0, 6), min_size=children * SMALL.size, max_size=children * SMALL.size)
    truth = np.array(draw(counts), dtype=np.int64).reshape(children, -1) * possible
    kinds = SMALL.groups.answer(truth)
    slack = np.array(draw(st.lists(st.integers(0, 4), min_size=2 * kinds.size, max_size=2 * kinds.size)))
    below, above = slack.reshape(2, *kinds.shape)
    fixed = np.array(draw(st.lists(st.booleans(), min_size=children, max_size=children)))
    limits = Limits(np.maximum(0, kinds - below), kinds + above, np.where(fixed, truth.sum(axis=1), FREE))
    optional = ["total", "kind", "household", "race", "kind * race", "adult * race"]
    asked = ["detailed", *draw(st.lists(st.sampled_from(optional), unique=True))]
    noises = {query: draw(st.fractions(Fraction(1, 2), 40, max_denominator=4)) for query in asked}
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Siblings(SMALL, measure(SMALL, truth, noises, random, scale), limits, truth)
