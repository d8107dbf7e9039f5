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
from assets.charge.preflight import PREFLIGHT
from assets.release.method import PLAN
from assets.release.release import Release
from resources.custody import Custody


def release_jobs(
    release: Release, charges: bool, reads: Sequence[Release] = (), *, with_plan: bool = False
) -> dg.Definitions:
    """The job `<dataset>__<release>`, which makes a release from its source to its publication, and its preflight.

    Schedules and sensors refer to the job by its name, the release's schema.

    Args:
        release: the release.
        charges: whether it has a charge, and therefore the job `preflight__<dataset>__<release>`.
        reads: other releases whose publications it reads. No job makes them, because each is charged by itself.
        with_plan: whether the release stores what it plans, so that its job makes the plan too.
    """
    own = dg.AssetSelection.key_prefixes([release.dataset.name, release.name])
    others = dg.AssetSelection.key_prefixes(*([each.dataset.name, each.name] for each in reads))
    selected = own.upstream() if with_plan else own.upstream() - dg.AssetSelection.assets(release.key(PLAN))
    words = f"{release.title}: every stage from the source to the publication, with every check."
    if not charges:
        return dg.Definitions(jobs=[dg.define_asset_job(release.schema, selection=selected, description=words)])
    preflight = dg.AssetSelection.assets(release.key(PREFLIGHT))
    price = f"{release.title}: what the next charge would be, and why. Draws nothing and charges nothing."
    return dg.Definitions(
        jobs=[
            dg.define_asset_job(release.schema, selection=selected - preflight - others, description=words),
            # No job may have the name of an operation, which for this asset is `<dataset>__<release>__preflight`.
            dg.define_asset_job(
                f"{PREFLIGHT}__{release.schema}", selection=preflight.upstream() - others, description=price
            ),
        ]
    )


def release_schedule(release: Release, cron: str) -> dg.ScheduleDefinition:
    """Run the release's job on a cron expression (UTC). The schedule is on by default.

    Raises:
        dagster.DagsterInvalidDefinitionError: if `cron` is not a cron expression.
    """
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
        release: the release.
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
        launches: how often the job was launched.
        declarations: a digest of the declarations when the job was last launched, or found not to need it.
    """

    launched: str
    seen: str
    launches: int
    declarations: str = ""

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))
