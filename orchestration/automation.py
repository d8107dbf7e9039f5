"""How a release is run: by hand as a job, on a schedule, and when its source file changes.

This module builds jobs, schedules and sensors. A job materializes the release's asset graph. A run that finds nothing
changed draws nothing and charges nothing, so a release can be run any number of times.
"""

import hmac
import json
from hashlib import sha256
from pathlib import Path

import dagster as dg

from assets.cef.readers import source_paths
from assets.charge.preflight import PREFLIGHT
from assets.release.release import Release
from resources.custody import Custody


def release_jobs(release: Release, charges: bool) -> dg.Definitions:
    """The job `<dataset>__<release>`, which makes a release from its source to its publication, and its preflight.

    Schedules and sensors refer to the job by its name, the release's schema.

    Args:
        release: the release.
        charges: whether it has a charge, and therefore the job `<dataset>__<release>__preflight`.
    """
    cef = dg.AssetSelection.assets(release.dataset_key("cef"))
    group = dg.AssetSelection.groups(release.schema)
    words = f"{release.title}: every stage from the source to the publication, with every check."
    if not charges:
        return dg.Definitions(jobs=[dg.define_asset_job(release.schema, selection=cef | group, description=words)])
    preflight = dg.AssetSelection.assets(release.key(PREFLIGHT))
    price = f"{release.title}: what the next charge would be, and why. Draws nothing and charges nothing."
    return dg.Definitions(
        jobs=[
            dg.define_asset_job(release.schema, selection=(cef | group) - preflight, description=words),
            dg.define_asset_job(f"{release.schema}__{PREFLIGHT}", selection=preflight.upstream(), description=price),
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


def source_sensor(release: Release, root: Path) -> dg.SensorDefinition:
    """Launch the release's job once its source files have changed and then stayed the same for one tick.

    Waiting for one tick avoids reading a file while it is still being copied. The files' sizes and modification times
    reveal something about their contents, so the cursor holds only a keyed hash of them.
    """
    paths = source_paths(release.dataset, root)

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
        before = json.loads(context.cursor or _cursor(seen, seen, 0))
        launches = before["launches"]
        if seen == before["launched"]:
            return dg.SensorResult(skip_reason="the source has not changed", cursor=_cursor(seen, seen, launches))
        if seen != before["seen"]:
            return dg.SensorResult(
                skip_reason="the source is changing", cursor=_cursor(before["launched"], seen, launches)
            )
        # The number makes the run key new when a source returns to an earlier state, so that the job is launched again.
        request = dg.RunRequest(run_key=f"{launches + 1}-{seen}")
        return dg.SensorResult(run_requests=[request], cursor=_cursor(seen, seen, launches + 1))

    return source_changed


def _cursor(launched: str, seen: str, launches: int) -> str:
    return json.dumps({"launched": launched, "seen": seen, "launches": launches})
