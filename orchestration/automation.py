"""How a release is run: by hand as a job, on a schedule, and when its source file changes.

This module builds jobs, schedules and sensors. A job materializes the release's asset graph. A run that finds nothing
changed draws nothing and charges nothing, so a release can be run any number of times.
"""

import hmac
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

import dagster as dg

from assets.cef.readers import source_paths
from assets.conventions import WRITES
from assets.release.method import DRAW, PLAN, PREFLIGHT, Partitions
from assets.release.release import Release
from orchestration.launch import BY_COMMAND, PUBLICATION_OF, STATES
from resources.custody import Custody

_ROOT = "dagster/root_run_id"
"""Dagster's tag of a run that was launched again: the first of the runs before it."""

_RETRIED = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")
"""Dagster's tags of a run that repeats only the steps that the run before it has not done."""

_RETRIES = {"dagster/max_retries": "2", "dagster/retry_on_asset_or_op_failure": "false"}
"""A run of a partition whose process or machine is lost is launched again; what was refused stays refused."""


def release_jobs(
    release: Release,
    charges: bool,
    reads: Sequence[Release] = (),
    *,
    with_plan: bool = False,
    partitions: Partitions | None = None,
) -> dg.Definitions:
    """The job `<dataset>__<release>`, which makes a release from its source to its publication, and its preflight.

    With partitions, it makes everything up to the stage that keeps their keys. The job `states__<dataset>__<release>`
    makes one partition, and `publication__<dataset>__<release>` the rest. A sensor launches them one after the other.

    Schedules and sensors refer to the job by its name, the release's schema.

    Args:
        charges: whether it has a charge, and therefore the job `preflight__<dataset>__<release>`.
        reads: other releases whose publications it reads. No job makes them, because each is charged by itself.
        with_plan: whether the release stores what it plans, so that its job makes the plan too.
        partitions: those of its stages that are made in parts, if it has any.
    """
    own = dg.AssetSelection.key_prefixes([release.dataset.name, release.name])
    others = dg.AssetSelection.key_prefixes(*([each.dataset.name, each.name] for each in reads))
    selected = own.upstream() if with_plan else own.upstream() - dg.AssetSelection.assets(release.key(PLAN))
    words = f"{release.title}: every stage from the source to the publication, with every check."
    tags = {WRITES: release.dataset.name}
    parted = dg.Definitions()
    if partitions:
        by_part = dg.AssetSelection.assets(*(release.key(stage) for stage in partitions.stages))
        parted = _partition_jobs(release, partitions, selected & by_part.downstream() - by_part - others)
        selected -= by_part.downstream()
        words = f"{release.title}: every stage from the source to {partitions.keys_from}, with every check. "
        words += "While the UI's daemon runs, the runs of all partitions and the publication follow."
    if not charges:
        return dg.Definitions(jobs=[dg.define_asset_job(release.schema, selected, description=words, tags=tags)])
    preflight = dg.AssetSelection.assets(release.key(PREFLIGHT))
    price = f"{release.title}: what the next charge would be, and why. Draws nothing and charges nothing."
    own_jobs = dg.Definitions(
        jobs=[
            dg.define_asset_job(release.schema, selected - preflight - others, description=words, tags=tags),
            # No job may have the name of an operation, which for this asset is `<dataset>__<release>__preflight`.
            dg.define_asset_job(
                f"{PREFLIGHT}__{release.schema}", preflight.upstream() - others, description=price, tags=tags
            ),
        ]
    )
    return dg.Definitions.merge(own_jobs, parted)


def _partition_jobs(release: Release, partitions: Partitions, rest: dg.AssetSelection) -> dg.Definitions:
    by_part = dg.AssetSelection.assets(*(release.key(stage) for stage in partitions.stages))
    states = dg.define_asset_job(
        f"{STATES}__{release.schema}",
        selection=by_part,
        tags=_RETRIES,
        description=f"{release.title}: {', '.join(partitions.stages)} of one partition.",
    )
    publication = dg.define_asset_job(
        f"{PUBLICATION_OF}__{release.schema}",
        selection=rest,
        tags={WRITES: release.dataset.name},
        description=f"{release.title}: every stage after all partitions, to the publication, with every check.",
    )

    @dg.sensor(
        name=f"{release.schema}__{STATES}",
        jobs=[states, publication],
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"After a run of {release.schema}, launches a run for each partition, and when all of them are "
        "made from its draw, the publication.",
    )
    def follow(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        return _following(context.instance, release, partitions)

    return dg.Definitions(jobs=[states, publication], sensors=[follow])


def _following(
    instance: dg.DagsterInstance, release: Release, partitions: Partitions
) -> dg.SensorResult | dg.SkipReason:
    """What is to be launched after the last run of the release's job.

    Run keys contain the id of that run, so nothing is launched twice. A partition that failed is launched by hand, in
    the UI; the publication follows when all are made.
    """
    begun = instance.fetch_materializations(release.key(partitions.keys_from), limit=1).records
    run = instance.get_run_by_id(begun[0].run_id) if begun else None
    if run is None or run.job_name != release.schema:
        return dg.SkipReason(f"no run of {release.schema} has made {partitions.keys_from} last")
    if BY_COMMAND in run.tags:
        return dg.SkipReason("the command that launched the last run launches what follows")
    if not (run.is_success or _succeeded_later(instance, run)):
        return dg.SkipReason("the last run has not succeeded")
    keys = set(instance.get_dynamic_partitions(partitions.name))
    draw = _draw_of(begun[0])
    after = dg.AssetRecordsFilter(release.key(partitions.stages[-1]), after_storage_id=begun[0].storage_id)
    # A partition can be made several times.
    found, cursor, more = list[dg.EventLogRecord](), None, True
    while more:
        result = instance.fetch_materializations(after, limit=1000, cursor=cursor)
        found, cursor, more = [*found, *result.records], result.cursor, result.has_more
    made = {each.partition_key for each in found if _draw_of(each) == draw}
    if missing := sorted(keys - made):
        requests = [
            dg.RunRequest(run_key=f"{run.run_id}/{key}", job_name=f"{STATES}__{release.schema}", partition_key=key)
            for key in missing
        ]
    else:
        job = f"{PUBLICATION_OF}__{release.schema}"
        requests = [dg.RunRequest(run_key=f"{run.run_id}/{PUBLICATION_OF}", job_name=job)]
    return dg.SensorResult(run_requests=requests)


def _succeeded_later(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    record = instance.get_run_record_by_id(run.run_id)
    again = dg.RunsFilter(
        job_name=run.job_name,
        statuses=[dg.DagsterRunStatus.SUCCESS],
        tags={_ROOT: run.tags.get(_ROOT, run.run_id)},
        created_after=record.create_timestamp if record else None,
    )
    return any("true" in map(each.tags.get, _RETRIED) for each in instance.get_runs(again))


def _draw_of(record: dg.EventLogRecord) -> object:
    made = record.asset_materialization
    return made.metadata[DRAW].value if made and DRAW in made.metadata else None


def release_schedule(release: Release, cron: str) -> dg.ScheduleDefinition:
    """Run the release's job on a cron expression (UTC), which Dagster checks. The schedule is on by default."""
    return dg.ScheduleDefinition(
        name=f"{release.schema}__schedule",
        job_name=release.schema,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Makes {release.title} again. If the source is unchanged, it draws and charges nothing.",
    )


def source_sensor(release: Release, declared: str, root: Path) -> dg.SensorDefinition:
    """Launch the release's job once its source files have changed and then stayed the same for one tick.

    Waiting for one tick avoids reading a file while it is still being copied. The files' sizes and modification times
    reveal something about their contents, so the cursor holds only a keyed hash of them.

    If the job's last run failed, for example because it was not authorized or did not fit under the cap, the sensor
    launches it again when the declarations have changed since. An authorization needs no further run: it is given to
    one.

    Args:
        declared: the declarations of the release and its dataset, as text.
        root: the folder that relative source paths start from.
    """
    paths = source_paths(release.dataset, root)
    declarations = sha256(declared.encode()).hexdigest()

    @dg.sensor(
        name=f"{release.schema}__source",
        job_name=release.schema,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Watches {', '.join(path.name for path in paths)}.",
    )
    def source_changed(context: dg.SensorEvaluationContext, custody: Custody) -> dg.SensorResult | dg.SkipReason:
        missing = [path.name for path in paths if not path.exists()]
        if missing:
            return dg.SkipReason(f"{', '.join(missing)} is missing")
        state = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        seen = hmac.new(custody.derive("source sensor"), json.dumps(state).encode(), sha256).hexdigest()
        before = _Cursor(**json.loads(context.cursor)) if context.cursor else _Cursor(seen, seen, 0, declarations)
        if seen == before.launched:
            if before.declarations == declarations:
                return dg.SensorResult(skip_reason="nothing has changed", cursor=replace(before, seen=seen).text)
            last = context.instance.get_runs(dg.RunsFilter(job_name=release.schema), limit=1)
            if last and not last[0].is_finished:
                return dg.SensorResult(skip_reason="the last run goes on", cursor=replace(before, seen=seen).text)
            if not last or last[0].status is not dg.DagsterRunStatus.FAILURE:
                cursor = replace(before, seen=seen, declarations=declarations)
                return dg.SensorResult(skip_reason="the last run did not fail", cursor=cursor.text)
        elif seen != before.seen:
            return dg.SensorResult(skip_reason="the source is changing", cursor=replace(before, seen=seen).text)
        # The number makes the run key new when a source returns to an earlier state, so that the job is launched again.
        launches = before.launches + 1
        request = dg.RunRequest(run_key=f"{launches}-{seen}")
        return dg.SensorResult(run_requests=[request], cursor=_Cursor(seen, seen, launches, declarations).text)

    return source_changed


@dataclass(frozen=True)
class _Cursor:
    """What the sensor remembers between ticks.

    Attributes:
        launched: the keyed state of the source when the job was last launched.
        seen: the keyed state at the last tick.
        declarations: a digest of the declarations when the job was last launched, or found not to need it.
    """

    launched: str
    seen: str
    launches: int
    declarations: str = ""

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))
