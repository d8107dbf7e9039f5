"""The set-up's last step, `python -m mechanisms.compilation`: compile every kernel before a release needs it.

The argument types of a kernel follow from the function that calls it, so this module calls that function with a small
input. Numba caches the machine code next to the module, or in `NUMBA_CACHE_DIR`, for this processor and this version of
the module's file. It does not notice a change of a kernel in another module that a kernel calls: delete the cached code
and compile again, as `make` does.

Two processes compile parts that share only one small kernel; then this process compiles the callers of both parts.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np

from mechanisms import delimited
from mechanisms.pair_swapping.pairing import Households, Places, swap_pairs
from mechanisms.phsafe.averages import estimate_averages
from mechanisms.row_digests import sum_of_digests
from mechanisms.row_texts import write_lines
from mechanisms.sampling.goodness import bin_answers, bin_draws
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.permutation import Contingency, count_cells, permute
from mechanisms.table_builder.p_table import PTable, Row
from mechanisms.topdown.decomposition import Decomposition, Information
from mechanisms.topdown.dhc.answers import Asked, Kept, add_below, list_cells
from mechanisms.topdown.dhc.households import UNITS
from mechanisms.topdown.dhc.tables import count_figures
from mechanisms.topdown.estimation import Families, Measurement, estimate_families
from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.information import (
    descend,
    estimate_finest_cells,
    finish_root,
    inform,
    prepare_sums,
    round_intervals,
    sum_cells,
    unite,
)
from mechanisms.topdown.leaning import lean, measure_spread
from mechanisms.topdown.least_squares import Constraints, Query, solve, solve_apart
from mechanisms.topdown.rounding import cheapest_flow
from mechanisms.topdown.schema import DETAILED, PERSONS, Counts


def compile_kernels() -> None:
    for part in _PARTS:
        part()
    _compile_full_estimation()


def _compile_in_processes() -> None:
    with ProcessPoolExecutor(_PROCESSES) as processes:
        for part in [processes.submit(part) for part in _PARTS]:
            part.result()
    _compile_full_estimation()


def _compile_solvers() -> None:
    codes, ones = np.arange(2, dtype=np.int32), np.ones(2, dtype=np.int64)
    measured = Query(cells=codes, precision=1.0, measured=np.ones((1, 2)))
    constraints = Constraints(ones, np.array([0, 2]), np.zeros((1, 1)), np.full((1, 1), 2.0), np.array([2.0]))
    solve([measured], constraints)
    solve_apart(measured, constraints)
    coarse = [Query(np.zeros_like(codes), precision, measured.measured[:, :1]) for precision in (1e4, 1.0)]
    each = np.ones((1, 2))
    apart = Constraints(ones, np.arange(3), each, each, np.nan * each, np.arange(3))
    solve([measured, *coarse], apart)
    cheapest_flow(ones, ones, ones, ones, ones)


def _compile_information() -> None:
    families, information = _inform()
    root = finish_root(information, families)
    descend(root, families, information)
    place = np.zeros(1, dtype=np.int64)
    union = unite([families, families], [root, None], [place[:0], place])
    sums = prepare_sums(Decomposition(PERSONS), PERSONS.possible[None])
    round_intervals(*sum_cells(sums, union), np.ones((1, 1)))
    estimate_finest_cells(sums, root, np.ones((1, 1), dtype=np.int64), families)


def _inform() -> tuple[Families, Information]:
    """Two levels of one place each, of which the finer one has informed the other."""
    own = (Measurement(DETAILED, Fraction(1), np.ones((1, PERSONS.size), dtype=np.int32)),)
    bounds = np.zeros((1, PERSONS.groups.size), dtype=np.int64)
    limits = Limits(bounds, bounds + 9, np.full(1, FREE))
    families = Families(PERSONS, ("",), np.array([0, 1]), own, limits, False, None)
    return families, inform(families, inform(families, None, own), own)


def _compile_full_estimation() -> None:
    families, information = _inform()
    estimate_families(replace(families, information=information, hold=True))
    finest = replace(families, histograms=np.ones((1, PERSONS.size), dtype=np.int64))
    measure_spread(finest, np.ones(1, dtype=np.int64))
    lean(finest, np.ones(1, dtype=np.int64), 1.0)


def _compile_swaps() -> None:
    zeros, codes, ones = np.zeros(2, dtype=np.int32), np.arange(2, dtype=np.int32), np.ones(2, dtype=np.int64)
    stream = RandomStream(bytes(32), "compilation")
    permute(Contingency(stratum=zeros, holding=codes, swap=codes, count=ones), Fraction(1, 2), stream)
    count_cells(ones.copy())
    swap_pairs(Households(codes, zeros, codes, Places(np.zeros((4, 2), dtype=np.int32))), Fraction(1), stream)


def _compile_noise_and_tables() -> None:
    stream, ones = RandomStream(bytes(32), "compilation"), np.ones(2, dtype=np.int64)
    bin_draws(DiscreteGaussian(Fraction(1)).sample(2, stream), DiscreteGaussian(Fraction(1)))
    bin_answers(np.zeros(2, dtype=np.int32), ones, ones, DiscreteGaussian(Fraction(1)))
    estimate_averages(2, 1, 1, 1, least=1)
    table = PTable((Row((0,), (1,)), Row((0, 1), (1, 1))))
    table.draw(ones, stream)
    table.look_up(ones, ones)
    text = np.frombuffer(b"0", dtype=np.uint8), np.array([0, 1])
    sum_of_digests(b"", *text)
    write_lines(text, ones[:, None], [0, 2])
    delimited.form([np.frombuffer(b"0", dtype=np.uint8)], 1, 1)


def _compile_dhc() -> None:
    """A table, and the answers of one place."""
    one, every = np.arange(1), UNITS.marginal(DETAILED)
    counts = Counts(one, one, one + 1)
    count_figures(["H1"], counts, 1)
    asked = Asked(DETAILED, one, one + 1, list_cells(every, counts, one), one)
    answers = asked.number(every.size, 0)
    asked.add_exact(every, counts, answers)
    add_below(asked, one, np.zeros(len(answers)), np.zeros(len(answers)), one)
    stored = one.astype(np.int32)
    Kept(one, one, one + 1, one, one + 1, stored, stored).pick(asked, whole=True)


_PARTS = _compile_solvers, _compile_information, _compile_swaps, _compile_noise_and_tables, _compile_dhc
"""The longest part first; it takes as long as all the others."""

_PROCESSES = 2


if __name__ == "__main__":
    _compile_in_processes()
