"""The gain of one least-squares problem of all answers of the DHC and of the redistricting data over the two fits,
combined in each place separately: `python -m benchmarks.dhc_one_problem`, about ten CPU-seconds.

Variances do not depend on counts. Here, they are the variances of persons with the budgets of production, in two
regular trees: a nation in which places of the redistricting data are places of the DHC, and a county in which every
tract is in both prims. No count is known exactly. The output has the standard errors of
`docs/mechanisms/topdown-dhc.md`, as means over the cells of a table, and the least and the greatest ratio of two.
"""

from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mechanisms.topdown.allocation import PERSON_ALLOCATION as BEFORE
from mechanisms.topdown.allocation import compute_variances
from mechanisms.topdown.decomposition import Decomposition
from mechanisms.topdown.dhc.allocation import PERSON_ALLOCATION
from mechanisms.topdown.dhc.linear import find_atoms, model_persons, share
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.tables import DHC_TABLES
from mechanisms.topdown.schema import PERSONS as PERSONS_BEFORE
from mechanisms.topdown.schema import Counts

Floats = NDArray[np.float64]

TABLES = ("P1", "P4", "P12", "P17")

NATION = {
    "US": 1.0, "State": 51.0, "County": 61.6, "Prim": 4.0, "Tract_Subset_Group": 2.5, "Tract_Subset": 2.7,
    "Block_Group": 2.8, "Block": 20.0,
}  # fmt: skip
"""The children of a parent, by level of the DHC. Below the counties, the numbers are assumed."""

SAME = {"Tract_Subset": "Tract"} | {level: level for level in ("US", "State", "County", "Block_Group", "Block")}
"""In the nation, the level of the redistricting data with the same places."""

PRIMS, TRACTS = 2, 3
"""Of the county, in which a tract subset is the intersection of a tract and a prim."""

GROUPS = "hhgq8lev * votingage * hispanic"
"""Persons as the redistricting data measured them, except races. Queries about races carry no information about other
cells."""

FITS = OWN, OTHER, WHOLE = "DHC", "redistricting data", "one problem"
COMBINED = "combined"


class Answers:
    """The input of a fit: the answers of the DHC about persons, the answers of the redistricting data, or both.
    Unknowns are orthogonal sums of the atoms of all answers."""

    def __init__(self, own: Floats | None, before: Floats | None) -> None:
        rows = np.concatenate([each for each in (own, before) if each is not None])
        _, values, found = np.linalg.svd(rows, full_matrices=False)
        self.basis = found[values > 1e-8 * values[0]]
        self._own, self._before = (None if each is None else each @ self.basis.T for each in (own, before))

    def weigh(self, level: str, before: str | None = None) -> Floats:
        """The precision of the unknowns from the answers of a place of a level of the DHC, "" for none, and from the
        answers of the same place in the redistricting data."""
        found = np.zeros((len(self.basis),) * 2)
        if level and self._own is not None:
            variances = compute_variances(PERSON_ALLOCATION, level)
            precisions = [
                1 / float(variances[each.query]) for each in model_persons().answered for _ in range(each.size)
            ]
            found += self._own.T @ (np.array(precisions)[:, None] * self._own)
        if before and self._before is not None:
            found += self._before.T @ _weigh_groups(before) @ self._before
        return found


def _find_groups() -> NDArray[np.int64]:
    """A cell of the redistricting data's histogram in each group that is possible, in order."""
    codes = [PERSONS_BEFORE.codes[name] for name in ("hhgq", "votingage", "hispanic")]
    groups, first = np.unique(np.ravel_multi_index(codes, (8, 2, 2)), return_index=True)
    return first[np.isin(groups, PERSONS.marginal(GROUPS).find(np.flatnonzero(PERSONS.possible)))]


def _weigh_groups(level: str) -> Floats:
    """The precision of the groups from the redistricting data's answers."""
    split, cells = Decomposition(PERSONS_BEFORE), _find_groups()
    variances = compute_variances(BEFORE, level)
    matrices = split.add_precisions((query, 1 / float(variance)) for query, variance in variances.items())
    kept, hispanic = split.kept.cells[cells], PERSONS_BEFORE.codes["hispanic"][cells]
    races = PERSONS_BEFORE.marginal("cenrace").size
    of_both, of_each = (
        matrices[own][np.ix_(kept, kept)] / races for own in (0, 1 << split.names_of_summed.index("hispanic"))
    )
    return np.asarray(0.5 * of_both + of_each * ((hispanic[:, None] == hispanic) - 0.5))


def _join(below: Floats, asked: Floats) -> Floats:
    """The covariance of the information at and below a place, from the sum over its children and its own answers."""
    return np.linalg.solve(np.eye(len(below)) + below @ asked, below)


def fit_nation(answers: Answers) -> dict[str, Floats]:
    """The covariance of the unknowns of a place, by level."""
    levels = list(NATION)
    variances = [np.linalg.inv(answers.weigh("Block", "Block"))]
    for level, below in zip(levels[-2::-1], levels[:0:-1], strict=True):
        variances.insert(0, _join(NATION[below] * variances[0], answers.weigh(level, SAME.get(level))))
    found = {levels[0]: variances[0]}
    for level, above, variance in zip(levels[1:], levels, variances[1:], strict=False):
        # With n alike children, V C⁻¹ is 1/n.
        found[level] = variance - (NATION[level] * variance - found[above]) / NATION[level] ** 2
    return found


def fit_county(answers: Answers) -> dict[str, Floats]:
    """The same for the county, and for its prims, tracts and tract subsets."""
    blocks = NATION["Block"] * np.linalg.inv(answers.weigh("Block", "Block"))
    groups = NATION["Block_Group"] * _join(blocks, answers.weigh("Block_Group", "Block_Group"))
    subset, subsets = np.linalg.inv(_join(groups, answers.weigh("Tract_Subset"))), np.arange(PRIMS * TRACTS)
    prim, tract = answers.weigh("Prim") + answers.weigh("Tract_Subset_Group"), answers.weigh("", "Tract")
    precision = np.kron(np.eye(len(subsets)), subset)
    precision += np.kron(np.ones((len(subsets),) * 2), answers.weigh("County", "County"))
    precision += np.kron(subsets[:, None] // TRACTS == subsets // TRACTS, prim)
    precision += np.kron(subsets[:, None] % TRACTS == subsets % TRACTS, tract)
    size = len(answers.basis)
    covariance = np.linalg.inv(precision).reshape(len(subsets), size, len(subsets), size)
    places = {
        "County": subsets,
        "Prim": subsets[subsets < TRACTS],
        "Tract": subsets[subsets % TRACTS == 0],
        "Tract_Subset": subsets[:1],
    }
    return {level: covariance[own][:, :, own].sum(axis=(0, 2)) for level, own in places.items()}


class Comparison:
    """The fits, and the cells of tables that the DHC's answers determine."""

    def __init__(self) -> None:
        model = model_persons()
        cell, atom, keys = find_atoms(PERSONS, [*(each.query for each in model.answered), GROUPS])
        self._counts = Counts(atom, cell, np.ones(len(cell), dtype=np.int64))
        columns = [keys[:, number] == code for number, each in enumerate(model.answered) for code in range(each.size)]
        own, groups = np.array(columns, dtype=np.float64), np.unique(keys[:, -1])
        before = (keys[:, -1] == groups[:, None]).astype(np.float64)
        self.answers = {OWN: Answers(own, None), OTHER: Answers(None, before), WHOLE: Answers(own, before)}
        shared = share(model)
        self.shared = shared.counted[: len(shared.sums), _find_groups()].astype(np.float64) @ before

    @cached_property
    def cells(self) -> dict[str, Floats]:
        """By table, the atoms that each cell counts, shape (cells, atoms)."""
        found, sizes = {}, np.bincount(self._counts.number)
        basis = self.answers[OWN].basis
        for name in TABLES:
            counts = DHC_TABLES[name].count(self._counts, len(sizes)).T
            whole = (counts[((counts == 0) | (counts == sizes)).all(axis=1)] > 0).astype(np.float64)
            found[name] = whole[np.abs(whole - whole @ basis.T @ basis).max(axis=1) < 1e-6]
        return found

    def compare(self) -> pd.DataFrame:
        """By tree, level and table: the standard errors of the DHC's fit, of both fits combined and of one problem, as
        means over the cells; and the least and the greatest ratio of the last two."""
        rows = []
        for tree, fit in (("nation", fit_nation), ("county", fit_county)):
            covariances = {name: fit(answers) for name, answers in self.answers.items()}
            for level in covariances[OWN]:
                of_level = {name: each[level] for name, each in covariances.items()}
                for table, cells in self.cells.items():
                    own, combined, whole = self._find_errors(of_level, cells)
                    means = {OWN: own.mean(), COMBINED: combined.mean(), WHOLE: whole.mean()}
                    ratios = whole / combined
                    rows.append(
                        {
                            "tree": tree,
                            "level": level,
                            "table": table,
                            **means,
                            "least": ratios.min(),
                            "most": ratios.max(),
                        }
                    )
        return pd.DataFrame(rows)

    def _find_errors(self, covariances: dict[str, Floats], cells: Floats) -> tuple[Floats, Floats, Floats]:
        def covary(name: str, first: Floats, second: Floats) -> Floats:
            basis = self.answers[name].basis
            return np.asarray(first @ basis.T @ covariances[name] @ basis @ second.T)

        own, whole = (np.diag(covary(name, cells, cells)) for name in (OWN, WHOLE))
        across = covary(OWN, cells, self.shared)
        spread = covary(OWN, self.shared, self.shared) + covary(OTHER, self.shared, self.shared)
        combined = own - (across @ np.linalg.inv(spread) * across).sum(axis=1)
        return np.sqrt(own), np.sqrt(combined), np.sqrt(whole)


def main() -> None:
    print(Comparison().compare().round(4).to_markdown(index=False))


if __name__ == "__main__":
    main()
