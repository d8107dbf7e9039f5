"""Stages as Dagster assets: their common parts, and their failures.

`assets.release.stage` makes the stages of a release, with their tables, their transaction and their metadata. A stage
that refuses shows sentences instead of a stack trace: the problem, then the consequence for budget and publication, the
state that remains, and the remedy. For a fault in the code, Dagster records the trace and the kind of error, but no
message of a library, which could quote a value or a key.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, nullcontext
from typing import Any

import dagster as dg

from assets.conventions import (
    CROSSING,
    DRAW,
    EACH_PART,
    INVARIANT,
    KEYED,
    MADE_FOR,
    NO_CONFIG,
    OWNERS,
    PARTITIONS_POOL,
    POOL,
    STAGE_KIND,
    ZONE,
    StageKind,
)
from assets.texts import show_line
from mechanisms.refusal import RefusedError
from resources.chain import find_last_withdrawal
from resources.faults import FaultError, conceal
from resources.ledger import Ledger
from resources.statements import Zone
from resources.storage import TransientError

_CONFIDENTIAL = {StageKind.CEF, StageKind.COUNTS, StageKind.UTILITY, StageKind.RETENTION}
_CROSSINGS = {StageKind.INVARIANTS: INVARIANT, StageKind.CHARGE: KEYED, StageKind.DRAW: DRAW}
_BEFORE_CHARGE = {StageKind.CEF, StageKind.INVARIANTS, StageKind.COUNTS, StageKind.PLAN}
_CONSEQUENCES = {
    StageKind.CHARGE: "Nothing was drawn or published. If the ledger shows the charge, it stays, and a new run adds "
    "none.",
    StageKind.DRAW: "Nothing was published. If the ledger shows the charge, it stays and counts, and a new run makes "
    "the same draw and charges nothing more.",
    StageKind.LEDGER: "Nothing is charged, drawn or published until this is resolved.",
    StageKind.COMPOSITION: "Nothing is charged, drawn or published until this is resolved.",
}
_OTHERWISE = (
    "Nothing was published. What was charged and drawn stays; a new run takes it over and charges nothing more."
)
_WAITS = (5, 15, 45)
"""The waits, in seconds, before the repetitions of a step that lost a server: 65 in all."""

REPEATS_STEPS, _BEGUN = "dagster/retry_on_asset_or_op_failure", "stirred/begun"
"""Dagster's tag of a run that its queue launches again even if a step has failed, and the tag with the id of the run
that reset it.
"""

_STANDS = "An earlier publication stays unchanged. Correct the cause, and launch the job again."


def zone_of(kind: StageKind) -> Zone:
    """The zone of the data of a stage, unless the stage names another one."""
    return Zone.CONFIDENTIAL if kind in _CONFIDENTIAL else Zone.PUBLIC


def stage(
    key: dg.AssetKey,
    group: str,
    kind: StageKind,
    description: str,
    deps: Sequence[dg.AssetKey] = (),
    *,
    code_version: str | None = "1",
    kinds: AbstractSet[str] = frozenset({"duckdb", "sql"}),
    zone: Zone | None = None,
    crossing: str | None = None,
    parts: Sequence[str] | None = None,
    release: tuple[str, str] | None = None,
    **options: Any,
) -> Callable[[Callable[..., dg.MaterializeResult]], dg.AssetsDefinition]:
    """A decorator that makes the asset of a stage from its function.

    The zone is one of the kinds too, because the graph shows kinds and no tags. A function with an argument `config`
    takes its configuration from it; any other function has none.

    Args:
        code_version: increased when the same input would give another output.
        parts: the keys of the dataset's partitions, if the stage is made for each of them in a separate run.
        crossing: why the data may leave the confidential zone; by default, the reason that the kind of stage gives.
        release: the names of dataset and release, if the stage is one of a release.
        options: further arguments of `dagster.asset`.
    """
    zone, crossing = zone or zone_of(kind), crossing or _CROSSINGS.get(kind)
    tags = {ZONE: zone.value, STAGE_KIND: kind.value} | ({CROSSING: crossing} if crossing else {})
    if parts is not None:
        tags |= {MADE_FOR: EACH_PART}
        options |= {"partitions_def": dg.StaticPartitionsDefinition(parts), "pool": PARTITIONS_POOL}
    asset = dg.asset(
        key=key,
        deps=deps,
        group_name=group,
        description=description,
        code_version=code_version,
        owners=OWNERS,
        tags=tags,
        kinds={*kinds, zone.value},
        **{"pool": POOL, "config_schema": NO_CONFIG} | options,
    )
    return lambda function: asset(guard_step()(explain_refusals(kind, release)(function)))


def stage_check(
    asset: dg.AssetKey, name: str, description: str, *, blocking: bool = True
) -> Callable[[Callable[..., dg.AssetCheckResult]], dg.AssetChecksDefinition]:
    """A decorator that makes a check of an asset from its function."""
    check = dg.asset_check(
        asset=asset, name=name, description=description, blocking=blocking, pool=POOL, config_schema=NO_CONFIG
    )
    return lambda function: check(guard_step()(function))


class PartitionError(RefusedError):
    """A run does not have exactly one partition, or its partition does not exist."""


def read_partition(context: dg.AssetExecutionContext, keys: Container[str]) -> str:
    """The partition that a run makes. Raises PartitionError if it is not one of the keys."""
    if (partition := name_partition(context)) not in keys:
        raise refuse_partition(partition, "launch another one")
    return partition


def name_partition(context: dg.AssetExecutionContext) -> str:
    """The partition that a run claims to make. Anyone who can launch runs can give one any partition, none or several,
    so it may not exist (`refuse_partition`). Raises PartitionError unless the run has exactly one.
    """
    if not context.has_partition_key:
        raise PartitionError("this stage makes one partition in a run, not none or several; launch it for one")
    return context.partition_key


def refuse_partition(partition: str, remedy: str) -> PartitionError:
    return PartitionError(f"partition {show_line(partition)} does not exist; {remedy}")


def list_materializations(
    instance: dg.DagsterInstance, asset: dg.AssetKey | dg.AssetRecordsFilter, at_once: int
) -> Iterator[dg.EventLogRecord]:
    """The materializations of an asset, the latest first, read `at_once` at a time."""
    cursor, more = None, True
    while more:
        page = instance.fetch_materializations(asset, limit=at_once, cursor=cursor)
        yield from page.records
        cursor, more = page.cursor, page.has_more


@contextmanager
def guard_step() -> Iterator[None]:
    """Conceal faults in a step, repeat one that lost a server, and refuse variables in the configuration of its run;
    also a decorator of the step's function."""
    with conceal_faults():
        try:
            context = dg.OpExecutionContext.get()
        except dg.DagsterInvariantViolationError:
            # A call outside of a run has no configuration and cannot be repeated.
            context = None
        if context:
            _require_values(context.run.run_config)
        with _repeat_step(context) if context else nullcontext():
            yield


def _require_values(configuration: object) -> None:
    """Raise dagster.Failure if a part of a run's configuration is `{env: NAME}`, which Dagster replaces with the value
    of that variable. Pages show names given for the ledger and names of withdrawn releases, so anyone who may launch
    runs could read every variable of the deployment, including its keys.
    """
    parts = configuration.values() if isinstance(configuration, Mapping) else configuration
    if isinstance(configuration, Mapping) and list(configuration) == ["env"] and isinstance(configuration["env"], str):
        name = configuration["env"]
        raise dg.Failure(
            f"The configuration of the run names the variable {show_line(name)} (env); write a value instead. Nothing "
            "was charged, drawn, published or withdrawn.",
            allow_retries=False,
        )
    if isinstance(parts, Iterable) and not isinstance(parts, str):
        for part in parts:
            _require_values(part)


@contextmanager
def conceal_faults() -> Iterator[None]:
    """Keep the messages of unexpected errors out of Dagster's records; also a decorator of functions that Dagster
    calls.

    Raises FaultError in place of every error except refusals, whose sentences are Stirred's own, and Dagster's own
    errors. Dagster records a whole chain of errors, so the cause of a refusal is left out too.
    """
    try:
        yield
    except (RefusedError, TransientError, FaultError, dg.Failure, dg.RetryRequested, dg.DagsterError) as error:
        raise error from None
    except Exception as error:
        # If a query is interrupted, DuckDB raises its own error.
        if isinstance(error.__cause__, KeyboardInterrupt | dg.DagsterExecutionInterruptedError):
            raise dg.DagsterExecutionInterruptedError from None
        raise conceal(error) from None


@contextmanager
def _repeat_step(context: dg.OpExecutionContext) -> Iterator[None]:
    """Repeat a step that lost a server, and have the queue launch the run again if that does not help.

    Repeating a step is as safe as launching its run again, which does the same: a step that was interrupted at any
    point continues with the charge and the key that it finds.
    """
    run, instance = context.run, context.instance
    if run.tags.get(REPEATS_STEPS) == "true":
        # An earlier run set the tag when it lost a server, so it does not apply to refusals of this run. A later step
        # of this run may not reset a tag that an earlier step set.
        now = instance.get_run_by_id(run.run_id)
        if now and now.tags.get(_BEGUN) != run.run_id:
            instance.add_run_tags(run.run_id, {REPEATS_STEPS: "false", _BEGUN: run.run_id})
    try:
        yield
    except TransientError as error:
        if context.retry_number < len(_WAITS):
            raise dg.RetryRequested(len(_WAITS), _WAITS[context.retry_number]) from None
        if instance.run_retries_enabled:
            instance.add_run_tags(run.run_id, {REPEATS_STEPS: "true"})
        sentences = (
            f"{str(error).rstrip('.')}.\nThis is no verdict on the release. All charges, draws and publications "
            "stay, and a new run continues with it. The queue of a cluster launches the run again; elsewhere, launch "
            "it again yourself."
        )
        raise dg.Failure(sentences, allow_retries=False) from None


@contextmanager
def explain_refusals(kind: StageKind, release: tuple[str, str] | None = None) -> Iterator[None]:
    """Show a stage's refusal as sentences instead of a stack trace; also a decorator of the stage's function.

    Args:
        release: the names of dataset and release, if the stage is one of a release. If the release is withdrawn, the
            promises of other refusals do not hold: its publication is gone, and no launch reuses its draw.
    """
    try:
        yield
    except RefusedError as error:
        problem, is_before = str(error).rstrip("."), kind in _BEFORE_CHARGE
        before = "Nothing was charged, drawn or published."
        consequence = before if is_before else _CONSEQUENCES.get(kind, _OTHERWISE)
        sentences = f"{problem}.\n{consequence}\n{_STANDS}"
        if release and (fate := _find_fate(*release)):
            # After the charge, the problem follows from the withdrawal.
            sentences = f"{problem}.\n{before}\n{fate}" if is_before else f"{fate}\nThe stage stopped here: {problem}."
        raise dg.Failure(sentences, allow_retries=False) from None


def _find_fate(dataset: str, release: str) -> str:
    """The result of `explain_withdrawal` in the run of a stage. Most stages have no ledger, so the job's ledger is
    read.
    """
    try:
        context = dg.OpExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        return ""
    ledger = context.job_def.resource_defs.get("ledger")
    if ledger is None:
        return ""
    with dg.build_resources({"ledger": ledger}, instance=context.instance) as resources:
        return explain_withdrawal(resources.ledger, dataset, release)


def explain_withdrawal(ledger: Ledger, dataset: str, release: str) -> str:
    """Sentences that report the withdrawal of a release and its effect on the next launch; "" if the release is not
    withdrawn or was charged since, or if the ledger is not intact.
    """
    reading = ledger.examine()
    withdrawn = None if reading.problems else find_last_withdrawal(reading.entries, dataset, release)
    if withdrawn is None:
        return ""
    return (
        f"{dataset}/{release} was withdrawn in ledger entry {withdrawn.sequence}. A withdrawal removes all tables and "
        "publications of a release; what was charged stays charged. A launch with the same records and declaration is "
        "refused. With others, or under a new name, it is a new draw, with a new charge unless the data are public."
    )
