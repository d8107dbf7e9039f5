"""Noisy counts in batches: counted, drawn, hashed, stored and checked one batch after the other, in one session.

Counts come in batches in a fixed order, the order of the draw, which does not depend on the records. Batches keep
memory bounded.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from assets.measurement.method import GridError, NoisyCounts
from assets.release.draw import Draw, Inputs
from assets.release.release import Release
from mechanisms.sampling.goodness import BinCounts, bin_draws, find_misfits
from mechanisms.sampling.noise import Distribution, Noise
from resources.warehouse import Session


@dataclass(frozen=True)
class Batch:
    """Exact or noisy counts of one query.

    Attributes:
        query: the name of the query, which also names its stream of noise.
        values: the counts, in an array of any shape.
    """

    query: str
    values: NDArray[np.int64]


R = TypeVar("R", bound=Release)
B = TypeVar("B", bound=Batch)


class BatchedCounts(NoisyCounts[R, Iterable[B]], Generic[R, B]):
    """A method that adds noise to counts batch by batch.

    A mechanism defines the order of the counts (`exact`), their noise (`distributions`), and how measurements are
    written and read (`store`, `stored`). The draw, its versions and the gates on it are defined here.
    """

    @abstractmethod
    def distributions(self) -> Mapping[str, Distribution]:
        """The distribution of the noise of each query, by the query's name, in the order of the draw.

        Queries whose noise is no sum are left out; a method that has such queries also defines `query_names`, `perturb`
        and `unlikely`.
        """

    def query_names(self) -> Sequence[str]:
        return list(self.distributions())

    @abstractmethod
    def exact(self, session: Session, /) -> Iterator[B]:
        """The stored exact counts in the order of the draw.

        Raises:
            GridError: unless every declared cell is stored exactly once.
        """

    @abstractmethod
    def stored(self, session: Session, /) -> Iterator[B]:
        """The stored measurements in the order of the draw, in batches of the same shapes as those of `exact`.

        Raises:
            GridError: unless every declared cell is stored exactly once.
        """

    @abstractmethod
    def store(self, session: Session, batches: Iterator[B]) -> None:
        """Write the measurements, which come in the order of the draw. All batches must be consumed."""

    def perturb(self, session: Session, key: bytes) -> Iterator[B]:
        """The noisy counts in the order of the draw: by default, the exact counts plus independent noise.

        Args:
            session: a session that reads the confidential zone.
        """
        noise = Noise(self.mechanism, self.distributions(), key)
        for batch in self.exact(session):
            drawn = noise.of_next(batch.query, batch.values.size)
            yield replace(batch, values=batch.values + drawn.reshape(batch.values.shape))

    def unlikely(self, pairs: Iterable[tuple[B, B]]) -> list[str]:
        """The queries whose noise does not fit the declared distribution: by default, by a chi-square test of each.

        Args:
            pairs: each batch of exact counts with the batch of its measurements.
        """
        distributions = self.distributions()
        counted: dict[str, BinCounts] = {}
        for exact, noisy in pairs:
            part = bin_draws((noisy.values - exact.values).ravel(), distributions[exact.query])
            counted[exact.query] = counted[exact.query] + part if exact.query in counted else part
        return find_misfits(counted)

    def version_of(self, draw: Draw[Inputs], output: Iterable[B]) -> str:
        hashed = _Hashed(output, self.query_names())
        for _ in hashed:
            pass
        return hashed.version()

    def write(self, session: Session, draw: Draw[Inputs], output: Iterable[B]) -> str:
        hashed = _Hashed(output, self.query_names())
        self.store(session, iter(hashed))
        return hashed.version()

    def read_version(self, session: Session, draw: Draw[Inputs]) -> str | None:
        try:
            return self.version_of(draw, self.stored(session))
        except GridError:
            return None

    def find_unmeasured(self, session: Session, /) -> list[str]:
        return find_gap(self.stored(session))

    def check_noise(self, session: Session, /) -> tuple[list[str], str]:
        stored = _Hashed(self.stored(session), self.query_names())
        unlikely = self.unlikely(zip(self.exact(session), stored, strict=True))
        return unlikely, stored.version()


def find_gap(batches: Iterable[Batch]) -> list[str]:
    """The problem if some declared cell is not stored exactly once, from batches that check it as they are read."""
    try:
        for _ in batches:
            pass
    except GridError as error:
        return [str(error)]
    return []


class _Hashed(Generic[B]):
    """Batches that are hashed while they are iterated over.

    The version is the SHA-256 of all queries' names, each followed by the SHA-256 of its counts as 64-bit integers in
    the order of the draw.
    """

    def __init__(self, batches: Iterable[B], queries: Iterable[str]) -> None:
        self._batches = batches
        self._digests = {query: sha256() for query in queries}

    def __iter__(self) -> Iterator[B]:
        for batch in self._batches:
            # 64-bit integers in order.
            self._digests[batch.query].update(np.ascontiguousarray(batch.values, dtype="<i8").data)
            yield batch

    def version(self) -> str:
        """The version, 64 hexadecimal digits, once all batches have been consumed."""
        lines = [f"{query} {digest.hexdigest()}\n" for query, digest in self._digests.items()]
        return sha256("".join(lines).encode()).hexdigest()
