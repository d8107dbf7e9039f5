"""The pattern of every mechanism that adds noise to exact counts, whatever it counts and whatever noise it adds.

The exact counts are confidential. The charge sees nothing of them but a keyed version, which becomes part of the draw
id. Counts come in batches in a fixed order, the order of the draw, which does not depend on the records. Batches keep
memory bounded.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, ClassVar, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from assets.gates.shared import differing_table
from assets.release.draw import Draw, Inputs, StaleInputError, published_version
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import CHARGE, Method
from assets.release.release import Release
from mechanisms.refusal import RefusedError
from mechanisms.sampling.goodness import Binned, binned, misfits
from mechanisms.sampling.noise import Distribution, Noise
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session

MEASUREMENTS = "noisy_measurements"
"""The name of the stage that draws, and of its table."""

COUNTS = "counts"
"""The name of the version of the exact counts among a draw's inputs."""


class GridError(RefusedError, ValueError):
    """The stored counts or measurements do not have every declared cell exactly once. The message contains no count."""


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


class NoisyCounts(Method[R, Inputs, Iterable[B]], Generic[R, B]):
    """A method that adds independent noise to exact counts.

    A mechanism defines what is counted (`counts_table`, `counts_recipe`), the order of the counts (`exact`), their
    noise (`distributions`), how measurements are written and read (`store`, `stored`), and its own gates
    (`further_gates`). The draw, its versions and the gates of the pattern are defined here.
    """

    draw_stage = MEASUREMENTS
    drawn_table = MEASUREMENTS
    drawn_words = "measurements"
    charge_follows: ClassVar[Sequence[str]] = (COUNTS,)
    draw_follows: ClassVar[Sequence[str]] = (COUNTS,)

    counts_stage: ClassVar[str] = COUNTS
    """The name of the stage that counts."""

    @property
    @abstractmethod
    def counts_table(self) -> Table:
        """The confidential table of the exact counts."""

    @abstractmethod
    def counts_recipe(self, session: Session) -> Recipe:
        """The recipe of the exact counts."""

    @abstractmethod
    def distributions(self) -> Mapping[str, Distribution]:
        """The distribution of the noise of each query, by the query's name, in the order of the draw.

        Queries whose noise is no sum are left out; a method that has such queries also defines `query_names`,
        `perturbed` and `unlikely`.
        """

    def query_names(self) -> Sequence[str]:
        """The names of all queries, in the order of the draw."""
        return list(self.distributions())

    @abstractmethod
    def exact(self, session: Session) -> Iterator[B]:
        """The stored exact counts in the order of the draw.

        Raises:
            GridError: unless every declared cell is stored exactly once.
        """

    @abstractmethod
    def stored(self, session: Session) -> Iterator[B]:
        """The stored measurements in the order of the draw, in batches of the same shapes as those of `exact`.

        Raises:
            GridError: unless every declared cell is stored exactly once.
        """

    @abstractmethod
    def store(self, session: Session, batches: Iterator[B]) -> None:
        """Write the measurements, which come in the order of the draw. All batches must be consumed."""

    def perturbed(self, session: Session, key: bytes) -> Iterator[B]:
        """The noisy counts in the order of the draw: by default, the exact counts plus independent noise.

        Args:
            session: a session that reads the confidential zone.
            key: the draw's key.
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
        counted: dict[str, Binned] = {}
        for exact, noisy in pairs:
            part = binned((noisy.values - exact.values).ravel(), distributions[exact.query])
            counted[exact.query] = counted[exact.query] + part if exact.query in counted else part
        return misfits(counted)

    def surplus(self, session: Session) -> list[str]:
        """Problems with stored measurements that `stored` does not read; none by default."""
        return []

    def require_countable(self, session: Session, custody: Custody) -> None:
        """Raise an error if the mechanism cannot be applied to the exact counts just written; nothing by default."""

    @abstractmethod
    def further_gates(self) -> Sequence[Gate[R]]:
        """The gates that this mechanism adds to those of `NoisyCounts`."""

    @property
    def version_table(self) -> Table:
        """The public table of the keyed version of the exact counts."""
        return self.release.public(f"{self.counts_stage}_version")

    def counts_version(self, session: Session, custody: Custody) -> str:
        """The keyed version of the stored exact counts."""
        return session.content_version([self.counts_table], self.version_key(custody))

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {self.counts_stage: [self.version_table]}

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        return Inputs({COUNTS: published_version(session, self.version_table)})

    @final
    def make(self, session: Session, draw: Draw[Inputs], key: bytes, custody: Custody) -> Iterable[B]:
        if self.counts_version(session, custody) != draw.inputs.versions[COUNTS]:
            raise StaleInputError(
                f"{self.release.schema}: the exact counts have changed since the charge; materialize charge again"
            )
        return _Drawn(self, session, key)

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

    @final
    def own_gates(self) -> Sequence[Gate[R]]:
        counted = Gate[R](
            "counts_exact",
            self.counts_stage,
            "The stored counts are those of the current confidential records.",
            _counted,
        )
        return [counted, *(self._draw_gates() if self.charges else []), *self.further_gates()]

    def _draw_gates(self) -> list[Gate[R]]:
        return [
            Gate("counts_as_charged", CHARGE, "The exact counts have not changed since the charge.", _as_charged),
            Gate(
                "measured_once",
                self.draw_stage,
                "Every declared cell is measured exactly once, and nothing else is measured.",
                _measured_once,
            ),
            Gate(
                "noise_as_declared",
                self.draw_stage,
                "The differences of measurements and exact counts fit the declared distribution (chi-square test).",
                _noise,
            ),
        ]


@dataclass(frozen=True)
class _Drawn(Generic[B]):
    """The output of a draw, computed anew in every iteration."""

    method: NoisyCounts[Any, B]
    session: Session
    key: bytes

    def __iter__(self) -> Iterator[B]:
        return self.method.perturbed(self.session, self.key)


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
            self._digests[batch.query].update(hashed(batch))
            yield batch

    def version(self) -> str:
        """The version, 64 hexadecimal digits, once all batches have been consumed."""
        return version_of_queries({query: digest.hexdigest() for query, digest in self._digests.items()})


def hashed(batch: Batch) -> memoryview:
    """The bytes of a batch's counts that are hashed: 64-bit integers in order."""
    return np.ascontiguousarray(batch.values, dtype="<i8").data


def version_of_queries(digests: Mapping[str, str]) -> str:
    """The version of measurements, from the SHA-256 of the counts of each query, in the order of the draw."""
    return sha256("".join(f"{query} {digest}\n" for query, digest in digests.items()).encode()).hexdigest()


Context = ReleaseContext[R]


def _method(context: Context[R]) -> NoisyCounts[R, Batch]:
    assert isinstance(context.method, NoisyCounts)
    return context.method


def _counted(context: Context[R]) -> list[str]:
    method = _method(context)
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        return differing_table(session, method.counts_table, method.counts_recipe(session))


def _as_charged(context: Context[R]) -> list[str]:
    method = _method(context)
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        charged = method.describe(session, context.custody).inputs.versions[COUNTS]
        if method.counts_version(session, context.custody) != charged:
            return [f"the counts have changed since the charge; materialize {method.counts_stage} and charge again"]
    return []


def _measured_once(context: Context[R]) -> list[str]:
    method = _method(context)
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        try:
            for _ in method.stored(session):
                pass
        except GridError as error:
            return [str(error)]
        return method.surplus(session)


def _noise(context: Context[R]) -> list[str]:
    method = _method(context)
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        try:
            unlikely = method.unlikely(zip(method.exact(session), method.stored(session), strict=True))
        except GridError as error:
            return [str(error)]
    return [f"the noise does not have the declared distribution: {name}" for name in unlikely]
