"""Exact counts of a dataset with partitions, each of which is counted in a run of its own. Ingestion reads partitions
(`assets.cef.parts`); TopDown's states are partitions of another kind (`assets.topdown.partitions`).

A table of counts can be made from partitions if it is additive: a record adds whole numbers to its rows that follow
from the record, its unit and the other records of that unit. A unit is in one partition with all of its records: each
partition has the unit of every record, and the CEF refuses a unit's key in two partitions. A record's contribution
therefore never depends on another partition, and the counts of all records are exactly the sums over the partitions.

A sealed account beside the counts of a partition identifies the records and the code that they come from. The stage
that adds up the counts first counts each partition that no run has counted, or whose counts were altered or are of
other records. Its result therefore does not depend on earlier runs. Its gate counts all records again, except in
partitions whose runs keep the verdict that their counts match their records.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex
from typing import Any, Generic, Self, TypeVar

import dagster as dg

from assets.conventions import StageKind
from assets.gates.shared import differing_table, keep_part_verdicts
from assets.release.account import read_account, store_account
from assets.release.contents import compute_basis, is_united, read_basis
from assets.release.dataset import CEF_OF_PARTS
from assets.release.gate import ByPart, ReleaseContext
from assets.release.method import Method
from assets.release.release import Release
from assets.release.seal import SealError
from assets.release.stage import Dependency, Recipes, build_stage, release_stage
from assets.release.verdicts import hash_code
from assets.stages import read_partition
from resources.chain import canonicalize
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session, Warehouse

R = TypeVar("R", bound=Release)


_BESIDE = ("_made", "_seal")
"""The suffixes of the tables beside counts: their account, and its seal."""

_THIS_PROCESS = token_hex()
"""In place of the hash of code that changed after this process started, so that no other process reuses its counts."""


@dataclass(frozen=True)
class _Counted:
    """The account of a partition's stored counts: a digest of their inputs, and a keyed version of their content."""

    made_of: str
    content: str


@dataclass(frozen=True)
class PartCounts(Generic[R]):
    """How the table of a stage is made from the counts of partitions.

    Attributes:
        stage: the stage, and its confidential table.
        count: the recipe of the counts of all records of a release's dataset, here a partition. It reads only these
            records, and follows from `Release.counted_with`.
        add_up: the recipe of the table of a release, from the identifiers of `sql/measurement/added_up.sql`.
    """

    release: R
    stage: str
    count: Callable[[Session, R], Recipe]
    add_up: Callable[[Session, R, Mapping[str, Any]], Recipe]

    @classmethod
    def of(
        cls,
        release: R,
        stage: str,
        count: Callable[[Session, R], Recipe],
        add_up: Callable[[Session, R, Mapping[str, Any]], Recipe],
    ) -> Self | None:
        """The parts of a stage; None if the dataset has no partitions."""
        return cls(release, stage, count, add_up) if release.dataset.partitions else None

    @property
    def name(self) -> str:
        """The stage that makes the counts of a partition."""
        return f"{self.stage}_of_parts"

    def table(self, part: str) -> Table:
        return self.release.confidential(f"{self.stage}__{part}")

    def recipes(self, session: Session) -> Recipes:
        return {self.release.confidential(self.stage): self._add_up(session)}

    def is_current(self, session: Session, custody: Custody, part: str) -> bool:
        """Whether the stored counts are unaltered and of the records that were read last. Raises SealError if no
        records were read."""
        table = self.table(part)
        counted = read_account(session, custody, table, _Counted) if session.columns(table) else None
        if counted is None or counted.content != self._hash(session, custody, table):
            return False
        return counted.made_of == self._describe(
            read_basis(session, custody, self.release.dataset.parts[part], self.release.counted_with)
        )

    def update(self, session: Session, custody: Custody, part: str) -> None:
        """Count the records of a partition, unless its counts are current. Raises SealError if no records were read, or
        others were read meanwhile."""
        if self.is_current(session, custody, part):
            return
        table, dataset, counted_with = self.table(part), self.release.dataset.parts[part], self.release.counted_with
        before = read_basis(session, custody, dataset, counted_with)
        source, values, names = self._count(session, part)
        with session.transaction():
            session.create(table, source, values, **names)
            # In a lake, another run may have read the partition again since.
            if compute_basis(session, custody, dataset, counted_with) != before:
                raise SealError(
                    f"{dataset.name}: the records were read again while they were counted, or are not those that were "
                    "read from the source; launch the release again"
                )
            counted = _Counted(self._describe(before), self._hash(session, custody, table))
            store_account(session, custody, table, counted)

    def require_current(self, session: Session, custody: Custody) -> None:
        """Raise SealError unless the counts of all partitions are of the records that were read last. Called in the
        transaction that adds them up, because in a lake another run may have replaced them since."""
        for part in self.release.dataset.parts:
            if not self.is_current(session, custody, part):
                raise SealError(
                    f"{self.release.schema}: a partition was read or counted again while {self.stage} was made; "
                    "launch the release again"
                )

    def build(self, method: Method[R, Any, Any]) -> dg.AssetsDefinition:
        """The asset `[dataset, release, "<stage>_of_parts"]`, which counts a partition and keeps verdicts on it."""
        release = self.release

        @release_stage(
            release,
            self.name,
            StageKind.COUNTS,
            f"What the stage {self.stage} counts, of the records of one partition. Nothing of it is public.",
            [dg.AssetKey([release.dataset.name, CEF_OF_PARTS])],
            parts=release.dataset.partitions or (),
        )
        def counted(
            context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
        ) -> dg.MaterializeResult:
            part = read_partition(context, release.dataset.partitions or ())
            adapted = release.adapt(warehouse)
            with adapted.session(writes=Zone.CONFIDENTIAL) as session:
                self.update(session, custody, part)
            keep_part_verdicts(method, adapted, custody, ledger, part, [self.stage])
            # No data version, because it would show whether the records of this partition have changed.
            return dg.MaterializeResult()

        return counted

    def by_part(self) -> ByPart[R]:
        """How to verify the counts of all records from the verdicts on each partition."""
        return ByPart(lambda context: list(self.release.dataset.parts), self._is_counted, self._is_added_up)

    def _is_counted(self, context: ReleaseContext[R], part: str) -> bool:
        with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            return not differing_table(session, self.table(part), self._count(session, part))

    def _is_added_up(self, context: ReleaseContext[R]) -> bool:
        with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            if not is_united(session, self.release.dataset):
                return False
            return not any(differing_table(session, *made) for made in self.recipes(session).items())

    def _count(self, session: Session, part: str) -> Recipe:
        return self.count(session, self.release.of_part(part))

    def _add_up(self, session: Session) -> Recipe:
        tables = list(map(self.table, self.release.dataset.parts))
        columns = list(session.columns(tables[0]))
        keys = [name for name in columns if name != "count"]
        return self.add_up(session, self.release, {"tables": tables, "columns": columns, "keys": keys})

    def _hash(self, session: Session, custody: Custody, table: Table) -> str:
        return session.ordered_version([table], self.release.version_key(custody))

    def _describe(self, basis: Mapping[str, Any]) -> str:
        return sha256(canonicalize({**basis, "code": hash_code(self.count.__module__) or _THIS_PROCESS})).hexdigest()


def complete_parts(
    session: Session, custody: Custody, release: Release, stage: str, parts: PartCounts[Any] | None
) -> None:
    """Before a stage adds up the counts of partitions, count the partitions whose counts are not current, and drop the
    counts of an earlier declaration of the dataset."""
    # DuckDB ignores upper and lower case.
    due = {f"{stage}__{part}{end}".lower() for part in release.dataset.partitions or () for end in ("", *_BESIDE)}
    for name in session.tables(Zone.CONFIDENTIAL, release.schema):
        if name.startswith(f"{stage}__") and name.lower() not in due:
            session.drop(release.confidential(name))
    if parts:
        for part in release.dataset.parts:
            parts.update(session, custody, part)


def build_counted(
    release: Release,
    stage: str,
    description: str,
    deps: Sequence[Dependency],
    recipes: Callable[[Session], Recipes],
    columns: Mapping[str, str],
    parts: PartCounts[Any] | None,
    *,
    finish: Callable[[Session, Custody], None],
    **options: Any,
) -> dg.AssetsDefinition:
    """The stage of exact counts, as `assets.release.stage.build_stage`: by recipes, or added up from `parts`."""

    def finish_current(session: Session, custody: Custody) -> None:
        if parts:
            parts.require_current(session, custody)
        finish(session, custody)

    return build_stage(
        release,
        stage,
        StageKind.COUNTS,
        description,
        [*deps, *([parts.name] if parts else [])],
        parts.recipes if parts else recipes,
        columns,
        prepare=lambda session, custody: complete_parts(session, custody, release, stage, parts),
        finish=finish_current,
        **options,
    )
