"""Small trees of places with answers, walked up and down, and the dense linear algebra for comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from benchmarks.topdown_problems import measure
from mechanisms.topdown.allocation import PERSON_ALLOCATION, compute_variances
from mechanisms.topdown.decomposition import Information
from mechanisms.topdown.estimation import Families, Measurement
from mechanisms.topdown.feasibility import FREE, Limits, propagate
from mechanisms.topdown.information import descend, finish_root, inform, inform_finest
from mechanisms.topdown.schema import PERSONS, Attribute, Recode, Schema

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answered:
    """A tree, or several, with answers at every level. The parents are as in `replicates.estimate_finest`; `upper`
    bounds the groups of the finest places, and `totals` has the fixed totals by level."""

    schema: Schema
    parents: tuple[NDArray[np.int64], ...]
    upper: NDArray[np.int64]
    totals: tuple[NDArray[np.int64], ...]
    measurements: tuple[tuple[Measurement, ...], ...]

    def families(self, depth: int, upper: NDArray[np.int64] | None = None) -> Families:
        """All families of a level."""
        places = len(self.totals[depth])
        finest = depth == len(self.parents)
        shown = (self.upper if upper is None else upper) if finest else np.ones((places, self.schema.groups.size), int)
        limits = Limits(np.zeros_like(shown), shown, self.totals[depth])
        above = np.arange(places) if not depth else self.parents[depth - 1]
        starts = np.searchsorted(above, np.arange(len(self.totals[max(depth - 1, 0)]) + 1))
        names = tuple(map(str, range(len(starts) - 1)))
        return Families(self.schema, names, starts, self.measurements[depth], limits, False, None)

    def inform(self, upper: NDArray[np.int64] | None = None) -> list[Information]:
        """By level, the information about all places."""
        found = [inform_finest(self.families(len(self.parents), upper))]
        above: Information | None = None
        for depth in reversed(range(len(self.parents))):
            above = inform(self.families(depth + 1, upper), above, self.measurements[depth])
            found.append(above)
        return found[::-1]

    def descend(self, informed: Sequence[Information]) -> list[Information]:
        """By level, the linear estimates of all places."""
        found = [finish_root(informed[0], self.families(0))]
        for depth in range(1, len(informed)):
            found.append(descend(found[-1], self.families(depth), informed[depth]))
        return found

    def ancestors(self, depth: int) -> NDArray[np.int64]:
        """For each of the finest places, its place at a level."""
        found = np.arange(len(self.upper))
        for parents in reversed(self.parents[depth:]):
            found = parents[found]
        return found


class Dense:
    """The least-squares problem of a tree as one matrix over the possible cells of all finest places."""

    def __init__(self, tree: Answered) -> None:
        schema = tree.schema
        self.tree = tree
        self.place, self.cell = np.nonzero(schema.possible & (tree.upper > 0)[:, schema.groups.cells])
        rows, answers, precisions = [], [], []
        for depth, measurements in enumerate(tree.measurements):
            of_place = tree.ancestors(depth)[self.place]
            for each in measurements:
                marginal = schema.marginal(each.query)
                rows.append(self.sum_by(of_place * marginal.size + marginal.cells[self.cell], each.answers.size))
                answers.append(each.answers.ravel().astype(float))
                precisions.append(np.full(each.answers.size, float(1 / each.variance)))
        queries, weights = sparse.vstack(rows).tocsr(), np.concatenate(precisions)
        self.normal = (queries.T @ sparse.diags(weights) @ queries).toarray()
        self.weighted = queries.T @ (weights * np.concatenate(answers))
        held, values = [], []
        for depth, totals in enumerate(tree.totals):
            for place in np.flatnonzero(totals != FREE):
                held.append((tree.ancestors(depth)[self.place] == place).astype(float))
                values.append(totals[place])
        self.held, self.values = np.array(held).reshape(len(held), -1), np.array(values, dtype=float)

    def sum_by(self, of: NDArray[np.int64], size: int) -> sparse.csr_matrix:
        return sparse.csr_matrix((np.ones(len(of)), (of, np.arange(len(of)))), shape=(size, len(of)))

    def hold_root(self, histogram: NDArray[np.int64]) -> None:
        """Hold all cells of the root, instead of the totals at its level."""
        cells = np.unique(self.cell)
        below = [place for depth, totals in enumerate(self.tree.totals) for place in np.flatnonzero(totals != FREE)]
        at_root = int((self.tree.totals[0] != FREE).sum())
        self.held = np.vstack([self.held[at_root : len(below)], (self.cell == cells[:, None]).astype(float)])
        self.values = np.concatenate([self.values[at_root:], histogram[cells]])

    def solve(self, functions: Floats) -> tuple[list[Floats], Floats]:
        """By level, the estimates of shape (places, cells); and the variances of functions of the unknowns."""
        unknowns = len(self.cell)
        matrix = np.block([[self.normal, self.held.T], [self.held, np.zeros((len(self.held),) * 2)]])
        right = np.column_stack(
            [np.concatenate([self.weighted, self.values]), *np.pad(functions, ((0, 0), (0, len(self.held))))]
        )
        solved = np.linalg.lstsq(matrix, right, rcond=None)[0] if len(self.held) > 3 else np.linalg.solve(matrix, right)
        estimates = []
        for depth, totals in enumerate(self.tree.totals):
            summed = np.zeros((len(totals), self.tree.schema.size))
            np.add.at(summed, (self.tree.ancestors(depth)[self.place], self.cell), solved[:unknowns, 0])
            estimates.append(summed)
        return estimates, np.einsum("ik,ki->i", functions, solved[:unknowns, 1:])


def answer_at_random(
    schema: Schema,
    parents: tuple[NDArray[np.int64], ...],
    upper: NDArray[np.int64],
    variances: Sequence[Mapping[str, Fraction]],
    random: np.random.Generator,
    scale: float = 40,
) -> Answered:
    """Answers that follow from no histogram, without fixed totals."""
    places = [int(parents[0].max()) + 1, *map(len, parents)]
    measurements = tuple(
        tuple(
            Measurement(query, variance, np.rint(scale * random.normal(1, 1, (count, schema.marginal(query).size))))
            for query, variance in own.items()
        )
        for count, own in zip(places, variances, strict=True)
    )
    whole = tuple(
        tuple(Measurement(each.query, each.variance, each.answers.astype(np.int64)) for each in own)
        for own in measurements
    )
    return Answered(schema, parents, upper, tuple(np.full(count, FREE) for count in places), whole)


def production(levels: Sequence[str]) -> list[dict[str, Fraction]]:
    """σ² by level and query of persons."""
    return [compute_variances(PERSON_ALLOCATION, level) for level in levels]


TOWN = Schema(
    name="town",
    attributes=(Attribute("kind", 3), Attribute("adult", 2), Attribute("origin", 2), Attribute("race", 5)),
    recodes=(Recode("household", "kind", (0, 1, 1)),),
    bounded="kind",
    impossible=({"kind": 2, "adult": 0},),
    rounding=("total", "kind", "kind * origin"),
    combined=Recode("one race", "race", (0, 1, 2, 2, 2)),
)
"""Sixty cells with all features of the persons' histogram."""


def draw_five() -> Answered:
    """Four levels with five finest places and random answers to production's queries; two totals are fixed."""
    levels = ("State", "County", "Tract", "Block_Group")
    tree = answer_at_random(PERSONS, FIVE, FACILITIES, production(levels), np.random.default_rng(3))
    totals = [each.copy() for each in tree.totals]
    totals[0][0], totals[1][1] = 90_000, 51_000
    return replace(tree, totals=tuple(totals))


def draw_town(seed: int, mean: float, *, fixed: bool) -> tuple[Answered, NDArray[np.int64], tuple[Limits, ...]]:
    """A town of three levels with 1, 3 and 7 places, answers with noise, the true histograms of the finest places, and
    the limits by level. If `fixed`, the totals of all three children of the root are fixed; otherwise, only the total
    of the second."""
    random = np.random.default_rng(seed)
    parents = (np.zeros(3, dtype=np.int64), np.array([0, 0, 0, 1, 1, 2, 2]))
    kinds = np.column_stack([np.ones(7, dtype=bool), random.random((7, 2)) < 0.6])
    shown = TOWN.possible & kinds[:, TOWN.groups.cells]
    truth = random.poisson(mean * random.exponential(1, (7, TOWN.size))) * shown
    by_level = [truth.sum(axis=0)[None], np.add.reduceat(truth, [0, 3, 5]), truth]
    totals = [np.full(len(own), FREE) for own in by_level]
    held = [0, 1, 2] if fixed else [1]
    totals[1][held] = by_level[1].sum(axis=1)[held]
    lower = np.minimum(TOWN.groups.answer(truth), kinds * np.array([0, 1, 1]))
    limits = propagate(("Root", "Middle", "Finest"), parents, lower, kinds * 10**6, totals)
    names = ("detailed", "kind", "household", "total", "origin * race")
    variances = [{name: Fraction(4 + depth + number, 2) for number, name in enumerate(names)} for depth in range(3)]
    measurements = tuple(measure(TOWN, own, noises, random) for own, noises in zip(by_level, variances, strict=True))
    return Answered(TOWN, parents, kinds * 10**6, tuple(totals), measurements), truth, limits


FIVE = (np.zeros(2, dtype=np.int64), np.array([0, 0, 1]), np.array([0, 0, 1, 2, 2]))
"""Four levels, with five finest places."""

FACILITIES = np.zeros((5, PERSONS.groups.size), dtype=np.int64)
"""The types of group quarters in the five places."""
FACILITIES[:, 0] = 99_999
FACILITIES[0, 3] = FACILITIES[1, 5] = FACILITIES[3, [1, 3]] = FACILITIES[4, 7] = 99_999
