"""The noise of a draw: independent noise for every count of every query, from the draw's own key.

Which distribution a query has is its mechanism's to say. How a distribution is sampled is in `discrete_gaussian` and
`discrete_laplace`.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.discrete_laplace import DiscreteLaplace
from mechanisms.sampling.stream import RandomStream

Distribution = DiscreteGaussian | DiscreteLaplace


class Noise:
    """The noise of a draw, read query by query and in parts of any size.

    Every query has a stream of its own, so that no other query has a part in its noise, and reading a stream in
    smaller parts gives the same numbers.

    Args:
        mechanism: its name, which every stream's name begins with.
        distributions: by query, what its noise is drawn from.
        key: of the draw, 32 bytes, secret.
    """

    def __init__(self, mechanism: str, distributions: Mapping[str, Distribution], key: bytes) -> None:
        self._distributions = distributions
        self._streams = {query: RandomStream(key, f"{mechanism} {query}") for query in distributions}

    def of_next(self, query: str, count: int) -> NDArray[np.int64]:
        """The noise of the next counts of a query, shape (count,)."""
        return self._distributions[query].sample(count, self._streams[query])
