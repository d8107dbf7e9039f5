"""The pattern of every mechanism that adds noise to exact counts, whatever it counts and whatever noise it adds.

The exact counts are confidential. The charge sees nothing of them but a keyed version, which becomes part of the draw
id. `batches` makes the draw in batches of counts, one after the other.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, final

import dagster as dg

from assets.conventions import StageKind
from assets.gates.shared import differing_table
from assets.release.draw import Draw, Inputs, StaleInputError, read_published_version, version_table
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import CHARGE, PLAN, Fact, Method
from assets.release.release import Release
from assets.release.seal import SealError
from assets.release.stage import Dependency, build_stage, store_rows
from mechanisms.refusal import RefusedError
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session

MEASUREMENTS = "noisy_measurements"
"""The name of the stage that draws, and of its table."""

COUNTS = "counts"
"""The name of the version of the exact counts among a draw's inputs."""


class GridError(RefusedError, ValueError):
    """The stored counts or measurements do not have every declared cell exactly once. The message contains no count."""


R = TypeVar("R", bound=Release)
O = TypeVar("O")  # noqa: E741 - the draw's output


class NoisyCounts(Method[R, Inputs, O], Generic[R, O]):
    """A method that adds independent noise to exact counts.

    A mechanism defines what is counted (`counts_recipe`), the draw (`perturb`, and the hooks of `Method` that write and
    read it), two gates on it (`find_unmeasured`, `check_noise`), and its own gates (`further_gates`). `BatchedCounts`
    defines the draw for counts that come in batches.
    """

    draw_stage = MEASUREMENTS
    drawn_table = MEASUREMENTS
    drawn_words = "measurements"
    draw_follows: ClassVar[Sequence[str]] = (COUNTS,)

    counts_stage: ClassVar[str] = COUNTS

    @property
    def counts_table(self) -> Table:
        return self.release.confidential(self.counts_stage)

    @abstractmethod
    def counts_recipe(self, session: Session, /) -> Recipe:
        """The recipe of the exact counts."""

    @abstractmethod
    def perturb(self, session: Session, key: bytes) -> O:
        """The output of the draw with this key.

        Args:
            session: a session that reads the confidential and the public zone.
        """

    @abstractmethod
    def find_unmeasured(self, session: Session, /) -> list[str]:
        """The problems if not every declared cell is measured exactly once, or something else is measured."""

    @abstractmethod
    def check_noise(self, session: Session, /) -> tuple[list[str], str]:
        """The queries whose noise does not fit the declared distribution, and the version of the measurements read.

        The version must be what `read_version` gives, because gates on the same content take it over.

        Args:
            session: a session that reads the confidential and the public zone.

        Raises:
            GridError: unless every declared cell is measured exactly once.
        """

    def require_countable(self, session: Session, custody: Custody) -> None:
        """Raise an error if the mechanism cannot be applied to the exact counts just written; nothing by default."""

    def further_gates(self) -> Sequence[Gate[R]]:
        """The gates that this mechanism adds to those of all noisy counts; none by default."""
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
        if self.counts_version(session, custody) != draw.inputs.versions[COUNTS]:
            raise StaleInputError(
                f"{self.release.schema}: the exact counts have changed since the charge; materialize charge again"
            )
        return self.perturb(session, key)

    def counts_gates(self) -> Sequence[Gate[R]]:
        """The gates on the exact counts."""
        words = "The stored counts are those of the current confidential records."
        return [Gate("counts_exact", self.counts_stage, words, self._find_other_counts)]

    @final
    def own_gates(self) -> Sequence[Gate[R]]:
        if not self.release.declaration.charges:
            return [*self.counts_gates(), *self.further_gates()]
        return [
            *self.counts_gates(),
            Gate(
                "counts_as_charged",
                CHARGE,
                "The exact counts have not changed since the charge.",
                self._find_change_since_charge,
            ),
            Gate(
                "measured_once",
                self.draw_stage,
                "Every declared cell is measured exactly once, and nothing else is measured.",
                self._find_unmeasured,
            ),
            Gate(
                "noise_as_declared",
                self.draw_stage,
                "The differences of measurements and exact counts fit the declared distribution (chi-square test).",
                self._find_other_noise,
            ),
            *self.further_gates(),
        ]

    def _find_other_counts(self, context: ReleaseContext[R]) -> list[str]:
        with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            return differing_table(session, self.counts_table, self.counts_recipe(session))

    def _find_change_since_charge(self, context: ReleaseContext[R]) -> list[str]:
        with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            charged = self.describe(session, context.custody).inputs.versions[COUNTS]
            if self.counts_version(session, context.custody) != charged:
                return [f"the counts have changed since the charge; materialize {self.counts_stage} and charge again"]
        return []

    def _find_unmeasured(self, context: ReleaseContext[R]) -> list[str]:
        with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
            return self.find_unmeasured(session)

    def _find_other_noise(self, context: ReleaseContext[R]) -> list[str]:
        """The queries whose noise does not fit.

        The verdict follows from the draw id, which covers the counts and the distributions, and from the version of the
        measurements. So it is kept for them, if the counts that were read have the version that the draw id covers.
        """
        draw: Draw[Inputs] | None = None
        with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            if context.verdicts.in_a_run:
                # If a table that the draw follows from was altered, other gates name it.
                with suppress(SealError):
                    draw = self.describe(session, context.custody)
            settled = context.reading.find_settlement(draw.draw_id) if draw else None
            if draw and settled and context.verdicts.holds("noise", draw.draw_id, settled.output_version):
                return []
            try:
                unlikely, version = self.check_noise(session)
            except GridError as error:
                return [str(error)]
            if draw:
                self.take_version(session, draw, version)
            if draw and not unlikely and self.counts_version(session, context.custody) == draw.inputs.versions[COUNTS]:
                context.verdicts.keep("noise", draw.draw_id, version)
        return [f"the noise does not have the declared distribution: {name}" for name in unlikely]


def parameters_gate() -> Gate[Any]:
    """The gate on the tables that the plan stores."""
    words = "The published parameters are the declared ones."
    return Gate("parameters_as_declared", PLAN, words, _find_other_parameters)


def _find_other_parameters(context: ReleaseContext[Any]) -> list[str]:
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for table, declared in context.method.plan_tables().items():
            problems += differing_table(session, table, store_rows(session, "declared", declared))
    return problems


def build_counts(
    method: NoisyCounts[Any, Any],
    deps: Sequence[Dependency],
    description: str,
    columns: Mapping[str, str] = MappingProxyType({}),
    reads: Sequence[Zone] = (),
) -> dg.AssetsDefinition:
    """The asset of the exact counts, which stay in the confidential zone; only a keyed version of them is public.

    Args:
        description: what is counted, in Markdown.
        columns: descriptions of the columns of the counts' table, by name.
        reads: zones to read besides the confidential one.
    """
    return build_stage(
        method.release,
        method.counts_stage,
        StageKind.COUNTS,
        f"{description} Confidential: the charge lets out only a keyed version of the counts, which becomes part of "
        "the draw id.",
        deps,
        lambda session: {method.counts_table: method.counts_recipe(session)},
        columns,
        finish=method.require_countable,
        version=lambda session, tables, custody: method.counts_version(session, custody),
        publishes_version=True,
        reads=reads,
    )


def budget_facts(design: Any, lines: int, added: str, changed: str, counted: str) -> dict[str, Fact]:
    """What the charge's row shows of a design with a loss for a record added or removed, and one for a record changed.

    Args:
        added, changed: what is added or removed, and what is changed.
        counted: what a line is.
    """
    bounded = design.bounded
    return {
        "output_premetric": (bounded.output_premetric, "How the loss is measured"),
        "unbounded": (str(design.unbounded), f"Loss for {added} added or removed, exact"),
        "bounded": (str(bounded), f"Loss for {changed} changed, exact; this is charged"),
        "bounded_rounded_up": (float(bounded.round_up()), f"Loss for {changed} changed, rounded up"),
        "lines": (lines, f"Number of {counted}"),
    }
