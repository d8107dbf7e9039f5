"""The interface between a mechanism and the stages that all releases share: charge, draw, gates and publication.

The package of each mechanism subclasses `Method`; the simplest example is `assets.swapping.method`. Mechanisms that add
noise to exact counts subclass `BatchedCounts` or `GridCounts` in `assets.measurement`, which define most of the hooks.

The shared stages call the hooks in this order:

0. The plan calls `plan_request`, `numbers` and `plan_tables`, before there are any data. For a wanted total or wanted
   margins, it calls `fields_for_total` or `fields_for_margins`.
1. The charge calls `require_chargeable` and `describe`, and reserves the loss.
2. The draw calls `describe` and `stored_version`. If the output is not stored yet, it calls `make` and `write`, and
   `in_parts` between them if the method draws in parts.
3. The gates are the shared gates and `own_gates`. The replay gate calls `make` and `version_of`.
4. The publication evaluates all gates again, and then calls `tables` and `statement`.

All other stages are the mechanism's own assets (`own_assets`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, final

import dagster as dg
import pyarrow as pa

from assets.conventions import PARTITIONS_POOL, list_some
from assets.release.contents import contents_table, read_basis
from assets.release.dataset import Size
from assets.release.draw import Draw, Inputs, is_drawn
from assets.release.gate import Gate
from assets.release.microdata import Microdata
from assets.release.plan import Plan, PlanRequest
from assets.release.published import PublishedTable
from assets.release.release import Release
from assets.release.seal import require_sealed
from assets.release.stage_names import CHARGE as CHARGE
from assets.release.stage_names import PLAN as PLAN
from assets.release.stage_names import PREFLIGHT as PREFLIGHT
from assets.release.stage_names import PUBLICATION as PUBLICATION
from assets.release.statement import Accuracy, Parameter, Statement
from assets.release.verdicts import Verdicts
from assets.release.withheld import WithheldRecords
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, PureLoss
from mechanisms.accounting.specification import Specification
from resources.custody import Custody
from resources.statements import Table
from resources.warehouse import Session, Warehouse

DRAW = "draw"
"""The metadata with the draw that a stage is made from."""

Fact = tuple[str | int | float, str]
"""A value in the charge's row, and the description of its column."""

T = TypeVar("T")
R = TypeVar("R", bound=Release)
I = TypeVar("I", bound=Inputs)  # noqa: E741 - the draw's inputs
O = TypeVar("O")  # noqa: E741 - the draw's output


@dataclass(frozen=True)
class Round:
    """Stages that run together for each partition, in the job `<name>__<dataset>__<release>`. The runs are launched
    after the stage that the round follows, which has no partitions.

    Attributes:
        shows: the metadata that identifies the input (by default the draw) of the stage that the round follows, and of
            each partition of the round's stages.
    """

    name: str
    follows: str
    stages: Sequence[str]
    shows: str = DRAW


@dataclass(frozen=True)
class Partitions:
    """The partitions of a release with stages made in parts, each part in a run of its own, in one or several rounds.

    Attributes:
        name: the name of the set of keys, and of the sensor that launches the runs.
        declared: the keys, if they are declared; otherwise the stage that the first round follows keeps them.
    """

    name: str
    rounds: Sequence[Round]
    declared: Sequence[str] = ()

    @property
    def keys_from(self) -> str:
        return self.rounds[0].follows

    @property
    def stages(self) -> Sequence[str]:
        return [stage for each in self.rounds for stage in each.stages]

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of a stage that has these partitions."""
        keys: dg.PartitionsDefinition = dg.DynamicPartitionsDefinition(name=self.name)
        if self.declared:
            keys = dg.StaticPartitionsDefinition(self.declared)
        return {"partitions_def": keys, "pool": PARTITIONS_POOL}

    def list_keys(self, instance: dg.DagsterInstance) -> list[str]:
        return sorted(self.declared or instance.get_dynamic_partitions(self.name))

    def keep_keys(self, instance: dg.DagsterInstance, keys: Sequence[str]) -> None:
        """Replace the keys of the partitions with these."""
        for key in set(self.list_keys(instance)).difference(keys):
            instance.delete_dynamic_partition(self.name, key)
        instance.add_dynamic_partitions(self.name, keys)


class Method(ABC, Generic[R, I, O]):
    """How one release is charged, drawn, checked and published.

    A mechanism cannot leave out the shared gates: `assets.gates.shared` adds them to `own_gates`.

    Type parameters: R is the mechanism's release, I its draws' inputs, and O the output of a draw.
    """

    mechanism: ClassVar[str]
    """The name of the mechanism, in draw ids and in the names of random streams."""

    version: ClassVar[int]
    """The version of the mechanism, part of the draw id. Increase it when the same stream would give another output,
    because earlier draws could no longer be replayed."""

    draw_stage: ClassVar[str]

    drawn_table: ClassVar[str]
    """The name of the public table that shows the draw's output."""

    drawn_words: ClassVar[str]
    """A plural noun for the output, used in the sentences of the shared gates."""

    draw_kinds: ClassVar[AbstractSet[str]] = frozenset({"duckdb", "numba"})
    """The Dagster kinds of the draw's asset."""

    is_random: ClassVar[bool] = True
    """Whether anything is drawn at random."""

    draws_in_parts: ClassVar[bool] = False
    """Whether the output is made in parts (`in_parts`), in files, before the session that stores it is opened."""

    keeps_verdicts: ClassVar[bool] = False
    """Whether a gate that passed is not evaluated again on the same content (`Gate.evaluate`), which pays for the
    largest releases. All inputs of gates must be in the release and the values that it holds (`describe`), the code,
    the tables or the ledger. The content of a file that a declaration names is in the release if it was read when the
    release was made. A gate that reads a file itself must also use the ledger, a key or the asset graph of its context,
    so that it is evaluated every time."""

    estimation: ClassVar[tuple[str, ...]] = ()
    """The labels of the certificate's parameters by which figures are estimated from the draw. When their values
    change, the same draw is published as a further edition."""

    draw_follows: Sequence[str] = ()
    """The stages that the draw reads besides the charge; `cef` if it reads the records."""

    closing_stage: ClassVar[str] = "tables"
    """The last stage before the publication. Its asset has the gate on paths from confidential data."""

    publishes_also_from: Sequence[str] = ()
    """The further stages that the publication reads, besides charge, draw and closing stage."""

    def __init__(self, release: R) -> None:
        self.release = release

    @property
    @abstractmethod
    def stages(self) -> Sequence[str]:
        """The names of all stages of the release except the publication, in the order in which gates are evaluated."""

    @property
    def charge_follows(self) -> Sequence[str]:
        """The stages that the charge depends on besides the CEF; by default, all stages before it."""
        return self.stages[: self.stages.index(CHARGE)]

    @property
    def partitions(self) -> Partitions | None:
        """The partitions of the stages made in parts, each part in a run of its own; None without such stages."""
        return None

    def keep_partitions(self, instance: dg.DagsterInstance, warehouse: Warehouse, custody: Custody) -> None:
        """Keep the keys of the partitions, and the parts of the charged draw that they need. By default, do nothing."""

    @property
    def reads_publications_of(self) -> Sequence[Release]:
        """Other releases whose publications this one reads; none by default. The jobs of this release do not make
        them."""
        return ()

    @abstractmethod
    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        """The assets of all stages except charge, draw and publication, which shared packages build."""

    def assets_of_parts(self) -> Sequence[dg.AssetsDefinition]:
        """The assets made for each partition of the dataset in a run of its own, after it was read; none by default.
        The stages after them make the parts that no run has made."""
        return ()

    @abstractmethod
    def own_gates(self) -> Sequence[Gate[R]]:
        """The gates that this mechanism adds to the shared ones."""

    def parameters(self) -> Mapping[str, Any]:
        """All declared parameters that the draw depends on, as plain exact values. They become part of the draw id.

        Two declarations with the same meaning must give equal values: sort everything whose order has no meaning.
        """
        return {**self.release.counted_with, **self.release.design.as_record()}

    @abstractmethod
    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        """The public tables that `inputs` reads, by the stage that makes and seals them (`assets.release.seal`)."""

    @abstractmethod
    def inputs(self, session: Session, custody: Custody) -> I:
        """The inputs of the draw, read from the `charged_tables`."""

    def specification(self, inputs: I) -> Specification:
        """The DP specification of a draw from these inputs. Its loss is charged."""
        return self.release.specification

    @final
    def describe_declared(self) -> dict[str, Any]:
        """The part of a draw's description that follows from the declaration alone, as plain exact values."""
        release = self.release
        recodes = release.dataset.recodes(release.columns_read)
        parameters = {
            **self.parameters(),
            "custody": release.custody.value,
            **({"recodes": recodes} if recodes else {}),
        }
        return {"mechanism": self.mechanism, "version": self.version, "parameters": parameters}

    @final
    def describe(self, session: Session, custody: Custody) -> Draw[I]:
        """The draw that follows from the release's parameters and the current public tables. Raises SealError if one of
        the `charged_tables` is not as its stage sealed it, or was made from another CEF or with other parameters."""
        return session.compute_once(("draw", self), lambda: self._derive_draw(session, custody))

    @final
    def hold_charged(self, session: Session) -> None:
        """Read the `charged_tables` and the version of the CEF once if they are in a lake, when a session that draws
        begins. The draw then uses the same tables that are compared with their seals. A draw from other tables with the
        same noise would disclose exact differences."""
        session.hold([contents_table(self.release.dataset), *chain.from_iterable(self.charged_tables().values())])

    def _derive_draw(self, session: Session, custody: Custody) -> Draw[I]:
        release = self.release
        counted = read_basis(session, custody, release.dataset, release.counted_with)
        for stage, tables in self.charged_tables().items():
            require_sealed(session, custody, release.schema, stage, tables, counted)
        inputs = self.inputs(session, custody)
        made_of = {**self.describe_declared(), "inputs": dict(inputs.versions)}
        named = {"dataset": release.dataset.name, "release": release.name, "stage": self.draw_stage, "partition": None}
        return Draw(custody.draw_id(named | made_of), self.specification(inputs), inputs, made_of)

    @abstractmethod
    def plan(self) -> Plan:
        """The charge and accuracy that a draw would have, from the declaration alone. No record is read."""

    def plan_request(self, request: PlanRequest) -> Plan:
        """The plan for a request whose changes of the declaration are already made. Raises ValueError if this mechanism
        does not support a part of the request."""
        if request.largest_stratum is not None:
            raise ValueError("largest_stratum: only the loss of swapping depends on it")
        return self.plan()

    def fields_for_margins(self, margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        """The fields of the declaration that give lines at most these 90% margins of error. Raises ValueError if none
        do."""
        raise ValueError("margins: this kind of release has no budget for each line")

    def fields_for_total(self, total: Fraction, request: PlanRequest) -> Mapping[str, Any]:
        """The fields of the declaration that make the charge equal a total. Raises ValueError if none do."""
        loss = self.plan().loss
        charged = loss.epsilon if isinstance(loss, ApproximateLoss) else loss
        if isinstance(charged, PureLoss) and charged.argument == 1 and charged.rational:
            return self.scale_budgets(total / charged.rational)
        if isinstance(charged, ConcentratedLoss):
            return self.scale_budgets(total / charged.rho)
        raise ValueError("total: this kind of release has no finite budget that could be scaled")

    def scale_budgets(self, factor: Fraction) -> Mapping[str, Any]:
        """The fields of the declaration with all budgets multiplied by a factor greater than 0."""
        raise ValueError("total: this kind of release has no budgets that could be scaled")

    def numbers(self, size: Size) -> int:
        """The number of values that a draw measures with noise, in a dataset of this size; 0 by default."""
        return 0

    @property
    def replicates(self) -> int:
        """The number of repetitions of noise and estimation for errors; 0 by default."""
        return 0

    @property
    def in_pieces(self) -> bool:
        """Whether the job handles records in pieces of bounded size, if jobs of its kind do."""
        return True

    def plan_tables(self) -> Mapping[Table, pa.Table]:
        """The public tables that the stage `plan` stores, from the declaration alone; none by default."""
        return {}

    def require_chargeable(self, session: Session, /) -> None:
        """Raise an error before the charge if a later stage could not be carried out. By default, do nothing."""

    def charge_facts(self, inputs: I) -> Mapping[str, Fact]:
        """Further public facts for the charge's row, besides draw id, commitment and ledger entry; by default, the
        loss."""
        return {"exact_loss": (str(self.specification(inputs).charge), "The loss that is charged, exact")}

    @abstractmethod
    def charge_description(self) -> str:
        """How the loss is derived, in Markdown, for the charge's page."""

    @abstractmethod
    def draw_description(self) -> str:
        """The description of the draw, in Markdown, for its page."""

    def draw_metadata(self, session: Session) -> Mapping[str, Any]:
        """Further public metadata for the draw's page, besides draw id, ledger entry and columns."""
        return {}

    @abstractmethod
    def make(self, session: Session, draw: Draw[I], key: bytes, custody: Custody) -> O:
        """Compute the draw's output from the confidential input and the key that its charge committed to.

        The same draw must always give the same output. The output is not stored. Raises StaleInputError if the version
        of the confidential input, keyed under the custody, is not the version in `draw.inputs`.
        """

    def in_parts(self, draw: Draw[I], output: O, folder: Path, custody: Custody) -> O:
        """Write an output of `make`, whose session is still open, to files of a private folder, and return an output
        that `write` can read.

        Only methods that draw in parts define it. The files are not encrypted, so they may hold only the output.
        """
        raise NotImplementedError(f"{self.mechanism} does not draw in parts")

    @abstractmethod
    def version_of(self, draw: Draw[I], output: O) -> str:
        """The content hash of an output of `make`."""

    def repeat(
        self, session: Session, draw: Draw[I], key: bytes, custody: Custody, verdicts: Verdicts | None, commitment: str
    ) -> str:
        """The content hash of the output that a repetition of the draw gives. Parts with a kept verdict that they were
        repeated with the key of this commitment need not be made."""
        return self.version_of(draw, self.make(session, draw, key, custody))

    @abstractmethod
    def write(self, session: Session, draw: Draw[I], output: O) -> str:
        """Store an output of `make` in the public zone; return its content hash."""

    @abstractmethod
    def read_version(self, session: Session, draw: Draw[I]) -> str | None:
        """The content hash of the stored output; None if the stored output is not complete and well-formed."""

    @final
    def stored_version(self, session: Session, draw: Draw[I]) -> str | None:
        """The content hash of the stored output; None unless it is labelled as the output of this draw."""
        if not is_drawn(session, self.release, draw):
            return None
        return session.compute_once(self._version_name(draw), lambda: self.read_version(session, draw))

    def read_earlier_version(self, session: Session, draw: Draw[I]) -> str | None:
        """The content hash of the stored output by the method of an earlier version of Stirred, if that differed. It
        may be weaker: the gate that repeats the draw compares `read_version`, unless the draw's key is gone."""
        return None

    @final
    def is_settled_as(self, session: Session, draw: Draw[I], settled: str | None) -> bool:
        """Whether the stored output, labelled as the output of this draw, was settled with this content hash."""
        stored = settled and self.stored_version(session, draw)
        return bool(stored) and (stored == settled or self.read_earlier_version(session, draw) == settled)

    @final
    def take_version(self, session: Session, draw: Draw[I], version: str) -> None:
        """Take the content hash of the stored output from a gate that has just read all of it in this session."""
        session.compute_once(self._version_name(draw), lambda: version)

    def _version_name(self, draw: Draw[I]) -> tuple[str, str, str]:
        return "stored version", self.release.schema, draw.draw_id

    @property
    def microdata(self) -> Microdata | None:
        """The published records that a retabulation can count; None if no table follows from published records."""
        return None

    @property
    def drawn_columns(self) -> Mapping[str, str]:
        """Descriptions of the columns of `drawn_table`, by name."""
        return {}

    @property
    def withheld_records(self) -> WithheldRecords | None:
        """The records that the release withholds, for another one to count from; None if it withholds none."""
        return None

    @abstractmethod
    def tables(self) -> Sequence[PublishedTable]:
        """The tables to publish."""

    def find_unmade(self, session: Session) -> Sequence[str]:
        """The tables to publish that are missing from an incomplete release, in words with counts."""
        tables = [published.table for published in self.tables()]
        missing = [table.name for table in tables if not session.columns(table)]
        words = f"Of {len(tables):,} tables to publish, {len(missing):,} are missing: {list_some(missing)}."
        return [words] if missing else []

    def errors(self, session: Session) -> Accuracy | None:
        """The errors of the published figures, from stored public tables, for the certificate; none by default."""
        return None

    def models(self, session: Session, custody: Custody) -> Sequence[Parameter]:
        """The inputs of figures besides the draw, for certificate and README, from stored public tables: models with
        their estimated parameters, and the gains of an estimation; none by default."""
        return ()

    @abstractmethod
    def statement(self, draw: Draw[I], output_version: str, /) -> Statement:
        """The certificate's statement on the mechanism. `output_version` is the settled version."""


def release_hook(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """A hook without arguments, from a function of the release."""
    return lambda method: function(method.release)


def statement_hook(function: Callable[[Any, Any, str], Statement]) -> Callable[[Any, Draw[Any], str], Statement]:
    """The hook `statement`, from a function of the release, the draw's inputs and the settled version."""
    return lambda method, draw, output_version: function(method.release, draw.inputs, output_version)


def session_hook(function: Callable[[Session, Any], T]) -> Callable[[Any, Session], T]:
    """A hook with a session as its argument, from a function of the session and the release."""
    return lambda method, session: function(session, method.release)
