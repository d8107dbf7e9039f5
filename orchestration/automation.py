"""How a release is run: by hand as a job, on a schedule, and when its source file changes.

This module builds jobs, schedules and sensors. A job materializes the release's asset graph. A run without changes
neither draws nor charges, so a release can be run any number of times.
"""

import hmac
import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from pydantic import AfterValidator, BaseModel

from assets.cef.readers import source_paths
from assets.conventions import EACH_PART, MADE_FOR, WRITES, escape_markdown
from assets.release.dataset import CEF, CEF_OF_PARTS, DatasetDeclaration
from assets.release.method import PLAN, PREFLIGHT, Method, Partitions, Round
from assets.release.release import Release
from assets.stages import conceal_faults, list_materializations
from orchestration.following import BY_COMMAND, COUNTING, list_jobs
from resources.custody import Custody

_ROOT = "dagster/root_run_id"
"""Dagster's tag of a repeated run: the first of the runs before it."""

_RETRIED = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")
"""Dagster's tags of a run that repeats only the steps that the run before it has not completed."""

_RETRIES = {"dagster/max_retries": "4", "dagster/retry_on_asset_or_op_failure": "false"}
"""A run of a partition is launched again if its process or machine is lost, but not if a step refused."""

_WITHOUT_PARTS = (
    "\n\nDagster asks for a confirmation if the parts of the source were not read or counted by jobs of their own: "
    "confirm it, because this job reads and counts them itself."
)
"""In a job of a dataset with partitions, Dagster warns that the job may fail, which is wrong."""


def define_job(
    name: str,
    work: dg.AssetSelection | dg.OpDefinition,
    description: str,
    *,
    writes: str | None,
    tags: Mapping[str, str] = {},
) -> Any:
    """A job of assets, or of one operation. All jobs are made here, so that none omits `writes`: the dataset, or
    another resource that several jobs write. Runs that write the same one wait for each other in a cluster; None if
    they need not wait."""
    tags = {**({WRITES: writes} if writes else {}), **tags}
    if isinstance(work, dg.OpDefinition):
        return dg.GraphDefinition(name, node_defs=[work], description=description).to_job(tags=tags)
    return dg.define_asset_job(name, work, description=description, tags=tags)


def select_upstream(selection: dg.AssetSelection) -> dg.AssetSelection:
    """Assets with everything upstream, except assets made for each partition of a dataset: if no run has made those,
    the assets after them do so themselves."""
    return selection.upstream() - dg.AssetSelection.tag(MADE_FOR, EACH_PART)


def part_jobs(dataset: DatasetDeclaration) -> dg.Definitions:
    """The job `cef__<dataset>` of a dataset with partitions, which reads one of them."""
    own = dg.AssetSelection.assets(dg.AssetKey([dataset.name, CEF_OF_PARTS]))
    words = f"{escape_markdown(dataset.title)}: the records of one partition, read and checked."
    job = define_job(f"{CEF}__{dataset.name}", own, words, writes=None, tags=_RETRIES)
    return dg.Definitions(jobs=[job])


def counting_job(method: Method[Any, Any, Any]) -> list[Any]:
    """The job `counts__<dataset>__<release>` of a release whose records are counted part by part, which reads and
    counts one partition of the dataset; none of any other release."""
    release = method.release
    if not (counted := [key for asset in method.assets_of_parts() for key in asset.keys]):
        return []
    own = dg.AssetSelection.assets(*counted, dg.AssetKey([release.dataset.name, CEF_OF_PARTS]))
    words = f"{escape_markdown(release.title)}: the records of one partition, read, checked and counted."
    return [define_job(f"{COUNTING}__{release.schema}", own, words, writes=None, tags=_RETRIES)]


def release_jobs(method: Method[Any, Any, Any]) -> dg.Definitions:
    """The job `<dataset>__<release>`, which makes a release from its source to its publication, and its preflight.

    With partitions, it makes everything before their first round. In each round, one job makes one partition, and
    another makes everything after all partitions, up to the next round or the publication. A sensor launches these jobs
    one after the other.

    No job makes other releases whose publications this one reads, because each is charged by itself.
    """
    release, partitions = method.release, method.partitions
    own = dg.AssetSelection.key_prefixes([release.dataset.name, release.name])
    read = method.reads_publications_of
    others = dg.AssetSelection.key_prefixes(*([other.dataset.name, other.name] for other in read))
    selected = select_upstream(own)
    if PLAN not in method.stages:
        selected -= dg.AssetSelection.assets(release.key(PLAN))
    title = escape_markdown(release.title)
    about = "\n\n".join(
        [f"**{title}**", *filter(None, [escape_markdown(release.description)]), "Every stage from the source"]
    )
    words = f"{about} to the publication, with every check."
    writes = release.dataset.name
    by_partition = dg.Definitions(jobs=counting_job(method))
    if partitions:
        by_partition = dg.Definitions.merge(by_partition, _partition_jobs(release, partitions, selected - others))
        selected -= _select(release, partitions.rounds[0].stages).downstream()
        words = f"{about} to the stage {partitions.keys_from}, with every check. "
        words += "While the UI's daemon runs, the runs of all partitions and the publication follow."
    if release.dataset.partitions:
        words += _WITHOUT_PARTS
    if not release.declaration.charges:
        job = define_job(release.schema, selected, words, writes=writes)
        return dg.Definitions.merge(dg.Definitions(jobs=[job]), by_partition)
    preflight = dg.AssetSelection.assets(release.key(PREFLIGHT))
    job = define_job(release.schema, selected - preflight - others, words, writes=writes)
    # No job may have the name of an operation, which for this asset is `<dataset>__<release>__preflight`.
    price = define_job(
        f"{PREFLIGHT}__{release.schema}",
        select_upstream(preflight) - others,
        f"{title}: the next charge and its reason. Draws and charges nothing.",
        writes=writes,
    )
    return dg.Definitions.merge(dg.Definitions(jobs=[job, price]), by_partition)


def define_uncharged_job(release: Release, words: str, *reads: dg.AssetKey) -> dg.Definitions:
    """The job `<dataset>__<name>`, which makes assets from published data alone, and its schedule. It makes no release,
    because each is charged by itself."""
    own = dg.AssetSelection.key_prefixes([release.dataset.name, release.name])
    words = f"**{escape_markdown(release.title)}**\n\n{words} Charges nothing."
    job = define_job(release.schema, own | dg.AssetSelection.assets(*reads), words, writes=release.dataset.name)
    schedule = release.declaration.schedule
    return dg.Definitions(jobs=[job], schedules=[release_schedule(release, schedule)] if schedule else [])


def _select(release: Release, stages: Sequence[str]) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*map(release.key, stages))


def _partition_jobs(release: Release, partitions: Partitions, selected: dg.AssetSelection) -> dg.Definitions:
    title = escape_markdown(release.title)
    by_part, jobs = _select(release, partitions.stages), []
    rounds = zip(partitions.rounds, [*partitions.rounds[1:], None], _list_jobs(partitions), strict=True)
    for each, following, (of_partition, after) in rounds:
        own, later, to = _select(release, each.stages), by_part, "the publication, with every check"
        if following:
            later, to = by_part | _select(release, following.stages).downstream(), following.follows
        rest = selected & own.downstream() - later
        words = f"{title}: for one partition, the stages {', '.join(each.stages)}."
        jobs.append(define_job(f"{of_partition}__{release.schema}", own, words, writes=None, tags=_RETRIES))
        words = f"{title}: once all partitions have {each.stages[-1]}, every stage after it, to {to}."
        jobs.append(define_job(f"{after}__{release.schema}", rest, words, writes=release.dataset.name))

    @dg.sensor(
        name=partitions.name,
        jobs=jobs,
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"After a run of {release.schema}, launches a run for each partition, and once all partitions are "
        "made from its draw, a run of the stages that follow, up to the publication.",
    )
    def follow(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        return _launch_next(context.instance, release, partitions)

    return dg.Definitions(jobs=jobs, sensors=[follow])


def _list_jobs(partitions: Partitions) -> list[tuple[str, str]]:
    return list_jobs([each.name for each in partitions.rounds])


def _launch_next(
    instance: dg.DagsterInstance, release: Release, partitions: Partitions
) -> dg.SensorResult | dg.SkipReason:
    """The runs to launch after the last run of the release's job. Run keys contain the id of the run that a round
    follows, so each run is launched only once. A failed partition is launched by hand, in the UI; the next job is
    launched when all partitions are made."""
    keys, job, run_key, since = partitions.list_keys(instance), release.schema, "", None
    for each, (of_partition, after) in zip(partitions.rounds, _list_jobs(partitions), strict=True):
        made = dg.AssetRecordsFilter(release.key(each.follows), after_storage_id=since)
        begun = instance.fetch_materializations(made, limit=1).records
        if run_key and not begun:
            break
        run = instance.get_run_by_id(begun[0].run_id) if begun else None
        if run is None or run.job_name != job:
            return dg.SkipReason(f"no run of {job} has made {each.follows} last")
        if BY_COMMAND in run.tags:
            return dg.SkipReason("the command that launched the last run launches what follows")
        if not (run.is_success or _succeeded_later(instance, run)):
            return dg.SkipReason("the last run has not succeeded")
        since, job, run_key = begun[0].storage_id, f"{after}__{release.schema}", f"{run.run_id}/{after}"
        made_of = [_list_made(instance, release.key(stage), begun[0], each) for stage in each.stages]
        if missing := [key for key in keys if not all(key in made for made in made_of)]:
            name = f"{of_partition}__{release.schema}"
            requests = [dg.RunRequest(f"{run.run_id}/{key}", job_name=name, partition_key=key) for key in missing]
            return dg.SensorResult(run_requests=requests)
    return dg.SensorResult(run_requests=[dg.RunRequest(run_key, job_name=job)])


def _list_made(
    instance: dg.DagsterInstance, key: dg.AssetKey, begun: dg.EventLogRecord, of_round: Round
) -> set[str | None]:
    """The partitions of a stage made after the materialization that the round follows, and from the same draw."""
    since = dg.AssetRecordsFilter(key, after_storage_id=begun.storage_id)
    # A partition can be made several times.
    records, due = list_materializations(instance, since, at_once=1000), _read_shown(begun, of_round.shows)
    return {record.partition_key for record in records if _read_shown(record, of_round.shows) == due}


def _succeeded_later(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    record = instance.get_run_record_by_id(run.run_id)
    again = dg.RunsFilter(
        job_name=run.job_name,
        statuses=[dg.DagsterRunStatus.SUCCESS],
        tags={_ROOT: run.tags.get(_ROOT, run.run_id)},
        created_after=record.create_timestamp if record else None,
    )
    return any("true" in map(later.tags.get, _RETRIED) for later in instance.get_runs(again))


def _read_shown(record: dg.EventLogRecord, name: str) -> object:
    made = record.asset_materialization
    return made.metadata[name].value if made and name in made.metadata else None


def release_schedule(release: Release, cron: str) -> dg.ScheduleDefinition:
    """Run the release's job on a cron expression (UTC), which Dagster checks. The schedule is active once declared."""
    return dg.ScheduleDefinition(
        name=f"{release.schema}__schedule",
        job_name=release.schema,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"{escape_markdown(release.title)}: made again. If the source is unchanged, this draws and charges "
        "nothing.",
    )


def source_sensor(release: Release, declared: str, root: Path) -> dg.SensorDefinition:
    """Launch the release's job once its source files have changed and then stayed the same for one tick, so that no
    file is read while it is still being copied. The files' sizes and modification times reveal something about their
    contents, so the cursor holds only a keyed hash of them.

    If the job's last run failed, for example because it was not authorized or exceeded the cap, the sensor launches it
    again once `declared`, the text of the declarations of release and dataset, has changed. An authorization needs no
    further run, because it is given to a run. Relative source paths start from `root`.
    """
    paths = source_paths(release.dataset, root)
    declarations = _shorten(sha256(declared.encode()).hexdigest())

    @dg.sensor(
        name=f"{release.schema}__source",
        job_name=release.schema,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Launches {release.schema} when {_name_files(paths)} changed, and 30 seconds have passed without "
        "another change.",
    )
    @conceal_faults()
    def source_changed(context: dg.SensorEvaluationContext, custody: Custody) -> dg.SensorResult | dg.SkipReason:
        missing = [path.name for path in paths if not path.exists()]
        if missing:
            return dg.SkipReason(f"{', '.join(missing)} is missing")
        state = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        seen = _shorten(hmac.new(custody.derive("source sensor"), json.dumps(state).encode(), sha256).hexdigest())
        first = _Cursor(launched=seen, seen=seen, launches=0, declarations=declarations)
        before = _Cursor.model_validate_json(context.cursor) if context.cursor else first
        if seen == before.launched:
            if before.declarations == declarations:
                return dg.SensorResult(skip_reason="nothing has changed", cursor=before.after_tick(seen))
            last = context.instance.get_runs(dg.RunsFilter(job_name=release.schema), limit=1)
            if last and not last[0].is_finished:
                return dg.SensorResult(skip_reason="the last run goes on", cursor=before.after_tick(seen))
            if not last or last[0].status is not dg.DagsterRunStatus.FAILURE:
                cursor = before.after_tick(seen, declarations=declarations)
                return dg.SensorResult(skip_reason="the last run did not fail", cursor=cursor)
        elif seen != before.seen:
            return dg.SensorResult(skip_reason="the source is changing", cursor=before.after_tick(seen))
        # The number makes the run key new when a source returns to an earlier state, so that the job is launched again.
        launches = before.launches + 1
        cursor = before.after_tick(seen, launched=seen, launches=launches, declarations=declarations)
        return dg.SensorResult(run_requests=[dg.RunRequest(f"{launches}-{seen}")], cursor=cursor)

    return source_changed


def _name_files(paths: Sequence[Path]) -> str:
    """The files whose change launches a run. Only one of many is named, because Dagster shows a single line."""
    if len(paths) > 3:
        return f"one of {len(paths)} source files, such as {paths[0].name},"
    return " or ".join(path.name for path in paths)


def _shorten(digest: str) -> str:
    """The beginning of a digest, enough to distinguish states: Dagster shows the cursor in one line, and cuts off the
    rest of a longer one."""
    return digest[:12]


_Digest = Annotated[str, AfterValidator(_shorten)]
"""Cursors of earlier versions have whole digests."""


class _Cursor(BaseModel, frozen=True):
    """The sensor's memory between ticks: the keyed state of the source when the job was last launched and at the last
    tick, the number of launches, and a digest of the declarations when the job was last launched or a launch was last
    found unnecessary."""

    launched: _Digest
    seen: _Digest
    launches: int
    declarations: _Digest = ""

    def after_tick(self, seen: str, **changes: Any) -> str:
        return self.model_copy(update={"seen": seen} | changes).model_dump_json()
