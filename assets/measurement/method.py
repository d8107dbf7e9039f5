"""The common pattern of all mechanisms that add noise to exact counts, for any counts and any noise.

The exact counts are confidential. The charge sees only a keyed version of them, which becomes part of the draw id.
`BatchedCounts` counts, draws, hashes, stores and checks in batches, one after another, in one session. Batches come in
a fixed order, the order of the draw, which does not depend on the records, and they keep memory bounded.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, final

import dagster as dg
import numpy as np
from numpy.typing import NDArray

from assets.measurement.parts import PartCounts, build_counted
from assets.release.draw import Draw, Inputs, StaleInputError, read_published_version, version_table
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.method import CHARGE, PLAN, Fact, Method
from assets.release.release import Release
from assets.release.seal import SealError
from assets.release.stage import Dependency, Recipes, store_tables
from assets.tabulation.asset import recipes_gate
from mechanisms.refusal import RefusedError
from mechanisms.sampling.goodness import BinCounts, bin_draws, find_misfits
from mechanisms.sampling.noise import Distribution, Noise
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session

MEASUREMENTS = "noisy_measurements"
"""The name of the stage that draws, and of its table."""

COUNTS = "counts"
"""The name of the version of the exact counts among a draw's inputs."""

_BOTH = (Zone.CONFIDENTIAL, Zone.PUBLIC)


class GridError(RefusedError, ValueError):
    """The stored counts or measurements are not one number for each declared cell. The message has the table, the rule
    and the number of violations, but no count."""


@dataclass(frozen=True)
class Batch:
    """Exact or noisy counts of one query, in an array of any shape. The query also names its stream of noise."""

    query: str
    values: NDArray[np.int64]


R = TypeVar("R", bound=Release)
B = TypeVar("B", bound=Batch)
O = TypeVar("O")  # noqa: E741 - the draw's output


class ExactCounts(Method[R, Inputs, O], Generic[R, O]):
    """A method whose draw is made from exact counts alone.

    A mechanism defines the counts (`counts_recipe`), the draw (`perturb`, and the hooks of `Method` that write and read
    it), and its own gates (`draw_gates`, `further_gates`).
    """

    draw_follows: Sequence[str] = (COUNTS,)

    counts_stage: ClassVar[str] = COUNTS

    @property
    def part_counts(self) -> PartCounts[R] | None:
        """How a stage of exact counts is made from the counts of the dataset's partitions; None if there are no
        partitions, or counts of this kind are not made from them."""
        return None

    def assets_of_parts(self) -> Sequence[dg.AssetsDefinition]:
        return [self.part_counts.build(self)] if self.part_counts else []

    def find_part_counts(self, stage: str) -> PartCounts[R] | None:
        """`part_counts` if it is for this stage, otherwise None."""
        return self.part_counts if self.part_counts and self.part_counts.stage == stage else None

    @property
    def counts_table(self) -> Table:
        return self.release.confidential(self.counts_stage)

    @abstractmethod
    def counts_recipe(self, session: Session, /) -> Recipe:
        """The recipe of the exact counts."""

    @abstractmethod
    def perturb(self, session: Session, key: bytes) -> O:
        """The output of the draw with this key, in a session that reads both zones."""

    def require_countable(self, session: Session, custody: Custody) -> None:
        """Raise an error if the mechanism cannot be applied to the exact counts just written; by default, never."""

    def draw_gates(self) -> Sequence[Gate[R]]:
        """The gates on the draw."""
        return ()

    def further_gates(self) -> Sequence[Gate[R]]:
        """The gates that this mechanism adds to those on counts and draw."""
        return ()

    @property
    def version_table(self) -> Table:
        return version_table(self.release, self.counts_stage)

    def counts_version(self, session: Session, custody: Custody) -> str:
        return session.content_version([self.counts_table], self.release.version_key(custody))

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {self.counts_stage: [self.version_table]}

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        return Inputs({COUNTS: read_published_version(session, self.version_table)})

    @final
    def make(self, session: Session, draw: Draw[Inputs], key: bytes, custody: Custody) -> O:
        self.require_counted(session, draw, custody)
        return self.perturb(session, key)

    def require_counted(self, session: Session, draw: Draw[Inputs], custody: Custody) -> None:
        """Raise StaleInputError unless the exact counts are the counts of the draw."""
        if self.counts_version(session, custody) != draw.inputs.versions[COUNTS]:
            raise StaleInputError(
                f"{self.release.schema}: the exact counts have changed since the charge; materialize charge again"
            )

    @final
    def require_current_counts(self, session: Session, custody: Custody) -> None:
        """Refuse stored counts of other records than the current ones, for another stage that reads the counts. Raises
        SealError or StaleInputError."""
        release, table = self.release, self.version_table
        release.require_sealed(session, custody, self.counts_stage, [table])
        if self.counts_version(session, custody) != read_published_version(session, table):
            words = f"the stored counts are not those that the stage wrote; materialize {self.counts_stage} again"
            raise StaleInputError(f"{release.schema}: {words}")

    def counts_gates(self) -> Sequence[Gate[R]]:
        """The gates on the exact counts."""
        words = "The stored counts are those of the current confidential records."
        parts = self.find_part_counts(self.counts_stage)
        by_part = parts.by_part() if parts else None
        return [recipes_gate("counts_exact", self.counts_stage, words, self.counts_recipes, _BOTH, by_part)]

    @final
    def own_gates(self) -> Sequence[Gate[R]]:
        if not self.release.declaration.charges:
            return [*self.counts_gates(), *self.further_gates()]
        return [
            *self.counts_gates(),
            session_gate("counts_as_charged", CHARGE, self._check_counts_as_charged, _BOTH),
            *self.draw_gates(),
            *self.further_gates(),
        ]

    def counts_recipes(self, session: Session) -> Recipes:
        return {self.counts_table: self.counts_recipe(session)}

    def _check_counts_as_charged(self, session: Session, context: ReleaseContext[R]) -> list[str]:
        """The exact counts have not changed since the charge."""
        charged = self.describe(session, context.custody).inputs.versions[COUNTS]
        if self.counts_version(session, context.custody) == charged:
            return []
        return [f"the counts have changed since the charge; materialize {self.counts_stage} and charge again"]


class NoisyCounts(ExactCounts[R, O], Generic[R, O]):
    """A method that adds independent noise to exact counts.

    A mechanism also defines two gates on the draw (`find_unmeasured`, `check_noise`). `BatchedCounts` defines the draw
    for counts that come in batches.
    """

    draw_stage = MEASUREMENTS
    drawn_table = MEASUREMENTS
    drawn_words = "measurements"

    @abstractmethod
    def find_unmeasured(self, session: Session, /) -> list[str]:
        """The problems if not every declared cell is measured exactly once, or another cell is measured."""

    @abstractmethod
    def check_noise(self, session: Session, /) -> tuple[list[str], str]:
        """The queries whose noise does not fit the declared distribution, and the version of the measurements read.

        The version must equal the result of `read_version`, because gates on the same content reuse it. Raises
        GridError unless every declared cell is measured exactly once.
        """

    @final
    def draw_gates(self) -> Sequence[Gate[R]]:
        return [
            session_gate("measured_once", self.draw_stage, self._check_measurements),
            session_gate("noise_as_declared", self.draw_stage, self._check_noise_once, _BOTH),
        ]

    def _check_measurements(self, session: Session, context: ReleaseContext[R]) -> list[str]:
        """Every declared cell is measured exactly once, and nothing else is measured."""
        return self.find_unmeasured(session)

    def _check_noise_once(self, session: Session, context: ReleaseContext[R]) -> list[str]:
        """The differences of measurements and exact counts fit the declared distribution (chi-square test).

        The verdict follows from the draw id, which covers the counts and the distributions, and from the version of the
        measurements. It is therefore kept for this id and version, if the counts have the version in the draw id.
        """
        draw: Draw[Inputs] | None = None
        if context.verdicts:
            # If an input of the draw was altered, other gates name it.
            with suppress(SealError):
                draw = self.describe(session, context.custody)
        settled = context.reading.find_settlement(draw.draw_id) if draw else None
        basis = (draw.draw_id, settled.output_version) if draw and settled else (None,)
        if context.verdicts and context.verdicts.holds("noise", *basis):
            return []
        try:
            unlikely, version = self.check_noise(session)
        except GridError as error:
            return [str(error)]
        if context.verdicts and draw:
            self.take_version(session, draw, version)
            if not unlikely and self.counts_version(session, context.custody) == draw.inputs.versions[COUNTS]:
                context.verdicts.keep("noise", draw.draw_id, version)
        return [f"the noise does not have the declared distribution: {name}" for name in unlikely]


class BatchedCounts(NoisyCounts[R, Iterable[B]], Generic[R, B]):
    """A method that adds noise to counts batch by batch.

    A mechanism defines the order of the counts (`exact`), their noise (`distributions`), and how measurements are
    written and read (`store`, `stored`). The draw, its versions and the gates on it are defined here.
    """

    @abstractmethod
    def distributions(self) -> Mapping[str, Distribution]:
        """The distribution of the noise of each query, by the query's name, in the order of the draw.

        Queries whose noise is not added are left out; a method with such queries also defines `query_names`, `perturb`
        and `unlikely`.
        """

    def query_names(self) -> Sequence[str]:
        return list(self.distributions())

    @abstractmethod
    def exact(self, session: Session, /) -> Iterator[B]:
        """The stored exact counts in the order of the draw; GridError unless every cell is stored exactly once."""

    @abstractmethod
    def stored(self, session: Session, /) -> Iterator[B]:
        """The stored measurements in batches of the same shapes as in `exact`. Raises GridError as `exact`."""

    @abstractmethod
    def store(self, session: Session, batches: Iterator[B]) -> None:
        """Write the measurements, which come in the order of the draw. All batches must be consumed."""

    def perturb(self, session: Session, key: bytes) -> Iterator[B]:
        """The noisy counts in the order of the draw: by default, the exact counts plus independent noise."""
        noise = Noise(self.mechanism, self.distributions(), key)
        for batch in self.exact(session):
            drawn = noise.of_next(batch.query, batch.values.size)
            yield replace(batch, values=batch.values + drawn.reshape(batch.values.shape))

    def unlikely(self, pairs: Iterable[tuple[B, B]]) -> list[str]:
        """The queries whose noise does not fit the declared distribution, by default by a chi-square test of each.

        The pairs are batches of exact counts with their measurements.
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
    """The problem if a declared cell is not stored exactly once, from batches that check the cells as they are read."""
    try:
        for _ in batches:
            pass
    except GridError as error:
        return [str(error)]
    return []


class _Hashed(Generic[B]):
    """Batches that are hashed during iteration.

    The version, once all batches have been consumed, is the SHA-256 of all queries' names, each followed by the SHA-256
    of its counts as 64-bit integers in the order of the draw.
    """

    def __init__(self, batches: Iterable[B], queries: Iterable[str]) -> None:
        self._batches = batches
        self._digests = {query: sha256() for query in queries}

    def __iter__(self) -> Iterator[B]:
        for batch in self._batches:
            self._digests[batch.query].update(np.ascontiguousarray(batch.values, dtype="<i8").data)
            yield batch

    def version(self) -> str:
        lines = [f"{query} {digest.hexdigest()}\n" for query, digest in self._digests.items()]
        return sha256("".join(lines).encode()).hexdigest()


def plan_gate(
    method: Method[Any, Any, Any],
    name: str = "parameters_as_declared",
    words: str = "The published parameters are the declared ones.",
) -> Gate[Any]:
    """The gate on the tables that the plan stores."""
    return recipes_gate(name, PLAN, words, lambda session: store_tables(session, method.plan_tables()))


def build_counts(
    method: ExactCounts[Any, Any],
    deps: Sequence[Dependency],
    description: str,
    columns: Mapping[str, str] = MappingProxyType({}),
    reads: Sequence[Zone] = (),
) -> dg.AssetsDefinition:
    """The asset of the exact counts, which stay in the confidential zone; only a keyed version of them is public.

    The description explains the counts in Markdown. `reads` are the zones to read besides the confidential one.
    """
    return build_counted(
        method.release,
        method.counts_stage,
        f"{description} Confidential: the charge lets out only a keyed version of the counts, which becomes part of "
        "the draw id.",
        deps,
        method.counts_recipes,
        columns,
        method.find_part_counts(method.counts_stage),
        finish=method.require_countable,
        version=lambda session, tables, custody: method.counts_version(session, custody),
        publishes_version=True,
        reads=reads,
    )


def budget_facts(design: Any, lines: int, added: str, changed: str, counted: str) -> dict[str, Fact]:
    """The facts, for the charge's row, of a design with a loss for a record added or removed, and one for a record
    changed.

    `added`, `changed` and `counted` name in words the record added or removed, the record changed, and the lines.
    """
    bounded = design.bounded
    return {
        "output_premetric": (bounded.output_premetric, "How the loss is measured"),
        "unbounded": (str(design.unbounded), f"Loss for {added} added or removed, exact"),
        "bounded": (str(bounded), f"Loss for {changed} changed, exact; this is charged"),
        "bounded_rounded_up": (float(bounded.round_up()), f"Loss for {changed} changed, rounded up"),
        "lines": (lines, f"Number of {counted}"),
    }
