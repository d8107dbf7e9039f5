"""The noise of a draw: independent noise for every count of every query, from the draw's own key.

The mechanism chooses the distribution of each query.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.capped_laplace import CappedLaplace
from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.discrete_laplace import DiscreteLaplace
from mechanisms.sampling.stream import RandomStream

Distribution = DiscreteGaussian | DiscreteLaplace | CappedLaplace


@dataclass(frozen=True)
class Perturbation:
    """Noise that is no sum: its distribution depends on the count, and `exact_variance` is its greatest variance."""

    name: str
    exact_variance: Decimal


class Noise:
    """The noise of a draw, read query by query and in parts of any size.

    Every query has its own stream, so its noise does not depend on other queries. The sizes of the parts do not change
    the numbers.

    Args:
        mechanism: the name that begins the label of every stream.
        distributions: by query.
        key: of the draw, 32 bytes, secret.
    """

    def __init__(self, mechanism: str, distributions: Mapping[str, Distribution], key: bytes) -> None:
        self._distributions = distributions
        self._streams = {query: RandomStream(key, f"{mechanism} {query}") for query in distributions}

    def of_next(self, query: str, count: int) -> NDArray[np.int64]:
        """The noise of the next `count` counts of a query, shape (count,)."""
        return self._distributions[query].sample(count, self._streams[query])
