"""The pattern of every mechanism that adds noise to exact counts, whatever it counts and whatever noise it adds.

The exact counts are confidential. The charge sees nothing of them but a keyed version, which becomes part of the draw
id. `batches` makes the draw in batches of counts, one after the other.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar, final

from assets.gates.shared import differing_table
from assets.release.draw import Draw, Inputs, StaleInputError, published_version
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import CHARGE, PLAN, Method
from assets.release.release import Release
from assets.release.seal import SealError
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

    A mechanism defines what is counted (`counts_table`, `counts_recipe`), the draw (`drawn`, and the hooks of `Method`
    that write and read it), two gates on it (`not_measured_once`, `noise_found`), and its own gates (`further_gates`).
    `BatchedCounts` defines the draw for counts that come in batches.
    """

    draw_stage = MEASUREMENTS
    drawn_table = MEASUREMENTS
    drawn_words = "measurements"
    charge_follows: ClassVar[Sequence[str]] = (COUNTS,)
    draw_follows: ClassVar[Sequence[str]] = (COUNTS,)

    counts_stage: ClassVar[str] = COUNTS

    @property
    @abstractmethod
    def counts_table(self) -> Table:
        """The confidential table of the exact counts."""

    @abstractmethod
    def counts_recipe(self, session: Session) -> Recipe:
        """The recipe of the exact counts."""

    @abstractmethod
    def drawn(self, session: Session, key: bytes) -> O:
        """The output of the draw with this key.

        Args:
            session: a session that reads the confidential and the public zone.
        """

    @abstractmethod
    def not_measured_once(self, session: Session) -> list[str]:
        """The problems if not every declared cell is measured exactly once, or something else is measured."""

    @abstractmethod
    def noise_found(self, session: Session) -> tuple[list[str], str]:
        """The queries whose noise does not fit the declared distribution, and the version of the measurements read.

        The version must be what `read_version` gives, because gates on the same content take it over.

        Args:
            session: a session that reads the confidential and the public zone.

        Raises:
            GridError: unless every declared cell is measured exactly once.
        """

    def require_countable(self, session: Session, custody: Custody) -> None:
        """Raise an error if the mechanism cannot be applied to the exact counts just written; nothing by default."""

    @abstractmethod
    def further_gates(self) -> Sequence[Gate[R]]:
        """The gates that this mechanism adds to those of `NoisyCounts`."""

    @property
    def version_table(self) -> Table:
        return self.release.public(f"{self.counts_stage}_version")

    def counts_version(self, session: Session, custody: Custody) -> str:
        return session.content_version([self.counts_table], self.version_key(custody))

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {self.counts_stage: [self.version_table]}

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        return Inputs({COUNTS: published_version(session, self.version_table)})

    @final
    def make(self, session: Session, draw: Draw[Inputs], key: bytes, custody: Custody) -> O:
        if self.counts_version(session, custody) != draw.inputs.versions[COUNTS]:
            raise StaleInputError(
                f"{self.release.schema}: the exact counts have changed since the charge; materialize charge again"
            )
        return self.drawn(session, key)

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


Context = ReleaseContext[R]


def parameters_gate() -> Gate[Any]:
    """The gate on the tables that the plan stores."""
    return Gate("parameters_as_declared", PLAN, "The published parameters are the declared ones.", _parameters)


def _parameters(context: Context[R]) -> list[str]:
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for table, declared in context.method.plan_tables().items():
            again: Recipe = ("warehouse/all", {}, {"source": session.register("declared", declared)})
            problems += differing_table(session, table, again)
    return problems


def _method(context: Context[R]) -> NoisyCounts[R, Any]:
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
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        return _method(context).not_measured_once(session)


def _described(context: Context[R], session: Session) -> Draw[Inputs] | None:
    """The draw; None if a table that it follows from was altered, which other gates name."""
    try:
        return _method(context).describe(session, context.custody)
    except SealError:
        return None


def _noise(context: Context[R]) -> list[str]:
    """The queries whose noise does not fit.

    The verdict follows from the draw id, which covers the counts and the distributions, and from the version of the
    measurements. So it is kept for them, if the counts that were read have the version that the draw id covers.
    """
    method = _method(context)
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = _described(context, session) if context.verdicts.in_a_run else None
        settled = context.reading.find_settlement(draw.draw_id) if draw else None
        if draw and settled and context.verdicts.holds("noise", draw.draw_id, settled.output_version):
            return []
        try:
            unlikely, version = method.noise_found(session)
        except GridError as error:
            return [str(error)]
        if draw:
            method.take_version(session, draw, version)
        if draw and not unlikely and method.counts_version(session, context.custody) == draw.inputs.versions[COUNTS]:
            context.verdicts.keep("noise", draw.draw_id, version)
    return [f"the noise does not have the declared distribution: {name}" for name in unlikely]
