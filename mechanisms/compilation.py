"""The set-up's last step, `python -m mechanisms.compilation`: every kernel is compiled before a release needs one.

What a kernel is compiled for follows from the function that runs it; here that function gets a little input of the
kind it has in a release. Numba keeps the machine code beside the module, or in `NUMBA_CACHE_DIR`, for this processor
and this state of the module's file. Every process that starts later loads it, workers included.

Numba does not notice that a kernel calls one in another module, and that one has changed. Whoever changes a kernel
removes the kept code and compiles again, as `make` does.
"""

from fractions import Fraction

import numpy as np

from mechanisms.phsafe.averages import estimate_averages
from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.permutation import Contingency, permute
from mechanisms.topdown.least_squares import Constraints, Query, solve


def compile_kernels() -> None:
    """Run every kernel once."""
    stream = RandomStream(bytes(32), "compilation")
    DiscreteGaussian(Fraction(1)).sample(2, stream)
    zeros, codes, ones = np.zeros(2, dtype=np.int32), np.arange(2, dtype=np.int32), np.ones(2, dtype=np.int64)
    permute(Contingency(stratum=zeros, holding=codes, swap=codes, count=ones), Fraction(1, 2), stream)
    solve(
        [Query(cells=codes, precision=1.0, measured=np.ones((1, 2)))],
        Constraints(ones, np.array([0, 2]), np.zeros((1, 1)), np.full((1, 1), 2.0), np.array([2.0])),
    )
    estimate_averages(2, 1, 1, 1, least=1)


if __name__ == "__main__":
    compile_kernels()
