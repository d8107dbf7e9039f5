"""Reconstruction of blocks: every answer is compared with the enumeration of all histograms with the same tables."""

import numpy as np
import pytest

from mechanisms.risk.matching import measure_agreement
from mechanisms.risk.reconstruction import NotSolvedError, System, measure_variability
from mechanisms.risk.tiers import REDISTRICTING, SUMMARY_FILE, WITH_TRACT, Counts, Tier

RACES_DRAWN = (0, 1, 3, 6, 63, 64)


def draw_block(tier: Tier, persons: int, seed: int, frames: int = 12) -> Counts:
    """A histogram of one block, shape (1, frames, categories)."""
    rng = np.random.default_rng(seed)
    histogram = np.zeros((1, *tier.shape), dtype=np.int64)
    types = rng.integers(0, min(frames, tier.shape[0]), persons), rng.choice(RACES_DRAWN, persons)
    np.add.at(histogram[0], types, 1)
    return histogram


def enumerate_solutions(system: System) -> list[Counts]:
    """All histograms of a system, by depth first: a branch ends as soon as a row has too many or can have too few."""
    solutions: list[Counts] = []
    counted = np.array([np.isin(np.arange(len(system.types)), members) for members in system.members], dtype=np.int64)
    least = np.where(system.exact, system.counts, 0)

    def extend(chosen: Counts, place: int) -> None:
        sums = counted @ chosen
        most = sums + counted[:, place:] @ system.upper[place:]
        if np.any(sums > system.counts) or np.any(most < least):
            return
        if place == len(chosen):
            solutions.append(chosen.copy())
            return
        for number in range(int(system.upper[place]) + 1):
            chosen[place] = number
            extend(chosen, place + 1)
        chosen[place] = 0

    extend(np.zeros(len(system.types), dtype=np.int64), 0)
    return solutions


CASES = [(3, 7, 76), (7, 1, 3), (8, 2, 3), (9, 3, 3), (10, 4, 4), (10, 5, 76)]
"""Persons, seed, and frames of blocks."""


def test_types_that_are_in_halves_in_the_linear_program_are_decided_by_integers() -> None:
    """Of three types, any two together occur once at most. Fails for: the halves of the linear program's only
    solution at these costs, rounded to no person, which no inequality forbids."""
    pairs = tuple(map(np.array, [(0, 1), (1, 2), (0, 2)]))
    ones = np.ones(3, dtype=np.int64)
    system = System(np.arange(3), ones, pairs, ones, np.zeros(3, dtype=np.bool_))
    confidence = system.rank(np.eye(3, dtype=np.int64)[0], np.eye(3, dtype=np.int64)[1], np.array([[-1.0, -1.1, -1.0]]))
    assert confidence.tolist() == [0, 1, 0]


@pytest.mark.deep
def test_variability_and_provable_records_are_those_of_the_enumeration() -> None:
    """Fails for: the distance to any other solution instead of the farthest; a big-M that lets y and w differ;
    records that only some solutions have; and one reconstruction many times, which is sure of all its records."""
    numbers, confidences = [], set()
    for persons, seed, frames in CASES:
        tables = SUMMARY_FILE.tabulate(draw_block(SUMMARY_FILE, persons, seed, frames))
        system = System.of(SUMMARY_FILE, tables[0])
        solutions = enumerate_solutions(system)
        numbers.append(len(solutions))
        solution = system.reconstruct()
        assert any(np.array_equal(solution, one) for one in solutions)
        other = system.differ_most(solution)
        assert any(np.array_equal(other, one) for one in solutions)
        assert measure_variability(solution, other) == max(measure_variability(solution, one) for one in solutions)
        assert system.count_provable(solution, other) == np.minimum.reduce(solutions).sum()
        confidence = system.rank(solution, other, np.random.default_rng(0).normal(size=(8, len(system.types))))
        assert np.all(confidence[np.minimum.reduce(solutions) > 0] == 1)
        assert not confidence[np.maximum.reduce(solutions) == 0].any()
        confidences |= set(confidence)
    assert min(numbers) == 1
    assert max(numbers) > 100
    assert confidences > {0, 1}


def test_blocks_of_a_tract_are_reconstructed_together() -> None:
    """Fails for: each block by itself, which leaves the tables of the tract; counts of the tract as those of each
    block; and the most of all blocks at once as the variability of one."""
    of_tract = WITH_TRACT.of_tract
    assert of_tract is not None
    histograms = np.zeros((2, *WITH_TRACT.shape), dtype=np.int64)
    # In the first block, only the tract's tables PCT12K and PCT12M show who of 30 and 40 is Hispanic.
    records = [(0, 30, 1), (0, 31, 66), (0, 40, 64), (0, 41, 3), (0, 32, 0), (1, 30, 0), (1, 31, 63), (1, 32, 0)]
    np.add.at(histograms, tuple(np.array(records).T), 1)
    counts = WITH_TRACT.tabulate(histograms)
    around = of_tract.tables.tabulate(histograms.sum(axis=0)[None])[0]
    together = System.of_tract(WITH_TRACT, counts, around)
    solutions = enumerate_solutions(together)
    assert len(solutions) > 1
    for one in solutions:
        filled = np.zeros_like(histograms)
        filled.ravel()[together.types] = one
        assert np.array_equal(WITH_TRACT.tabulate(filled), counts)
        assert np.array_equal(of_tract.tables.tabulate(filled.sum(axis=0)[None])[0], around)
    solution = together.reconstruct()
    most = max(measure_variability(solution, one) for one in solutions)
    assert measure_variability(solution, together.differ_most(solution)) == most
    alone = 0
    for block in range(2):
        system = System.of(WITH_TRACT, counts[block], around)
        fits = enumerate_solutions(system)
        alone += len(enumerate_solutions(System.of(of_tract.coarse, counts[block]))) - len(fits)
        for one in solutions:
            filled = np.zeros_like(histograms)
            filled.ravel()[together.types] = one
            joined = of_tract.join(filled)[block].ravel()[system.types]
            assert any(np.array_equal(joined, fit) for fit in fits), "a block's own equations allow what all do"
    assert alone > 0, "the tract's counts rule something out"


def test_a_block_of_one_person_is_determined_and_provable() -> None:
    for seed in range(5):
        histogram = draw_block(SUMMARY_FILE, 1, seed, frames=76)
        system = System.of(SUMMARY_FILE, SUMMARY_FILE.tabulate(histogram)[0])
        solution = system.reconstruct()
        other = system.differ_most(solution)
        assert measure_variability(solution, other) == 0
        assert system.count_provable(solution, other) == 1
    # So is an empty block, as in the world without its only person.
    nobody = System.of(SUMMARY_FILE, SUMMARY_FILE.tabulate(np.zeros_like(histogram))[0])
    assert len(nobody.reconstruct()) == 0


@pytest.mark.parametrize(("tier", "persons"), [(REDISTRICTING, 60), (SUMMARY_FILE, 4)])
def test_the_records_of_a_determined_block_are_reconstructed(tier: Tier, persons: int) -> None:
    """P1 to P4 determine the records of T1, so every block is determined there."""
    determined = 0
    for seed in range(6):
        histogram = draw_block(tier, persons, seed, frames=76)
        system = System.of(tier, tier.tabulate(histogram)[0])
        solution = system.reconstruct()
        if measure_variability(solution, system.differ_most(solution)) == 0:
            determined += 1
            found = np.zeros_like(histogram).reshape(-1)
            found[system.types] = solution
            assert measure_agreement(found.reshape(histogram.shape), histogram) == 1
    assert determined == 6 if tier is REDISTRICTING else determined >= 1


def test_tables_that_contradict_each_other_have_no_solution() -> None:
    counts = REDISTRICTING.tabulate(draw_block(REDISTRICTING, 5, 0))[0]
    counts[np.flatnonzero(counts)[0]] += 1
    with pytest.raises(NotSolvedError):
        System.of(REDISTRICTING, counts).reconstruct()
