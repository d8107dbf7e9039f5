"""How a release is run: by hand as a job, on a schedule, and when its source file changes.

Here belong jobs, schedules and sensors. What a job carries out is the release's asset graph; a run that finds
nothing changed draws nothing and charges nothing, so a release may be run as often as one likes.
"""

import hmac
import json
from hashlib import sha256
from pathlib import Path

import dagster as dg

from assets.cef.readers import source_paths
from assets.ledger.asset import LEDGER_KEY
from assets.release.release import Release
from resources.custody import Custody


def release_job(release: Release) -> dg.Definitions:
    """The job that makes a release from its source to its publication, `<dataset>__<release>`.

    Schedules and sensors name it as they do any job, by the release's schema.
    """
    shared = [release.dataset_key("cef"), LEDGER_KEY, release.dataset_key("composition")]
    job = dg.define_asset_job(
        release.schema,
        selection=dg.AssetSelection.groups(release.schema) | dg.AssetSelection.assets(*shared),
        description=f"{release.title}: every stage from the source to the publication, with every check.",
    )
    return dg.Definitions(jobs=[job])


def release_schedule(release: Release, cron: str) -> dg.ScheduleDefinition:
    """Run the release's job on a cron expression (UTC); on from the start.

    Raises:
        dagster.DagsterInvalidDefinitionError: if it is not a cron expression.
    """
    return dg.ScheduleDefinition(
        name=f"{release.schema}__schedule",
        job_name=release.schema,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Makes {release.title} again. With an unchanged source it draws and charges nothing.",
    )


def source_sensor(release: Release, root: Path) -> dg.SensorDefinition:
    """Launch the release's job once its source files have changed and then stayed the same for one tick.

    A file still being copied is not read half-way. The files' sizes and times, which say something of what is
    in them, are kept under a keyed hash.
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
        # Numbered, so that a source which returns to an earlier state is launched again.
        request = dg.RunRequest(run_key=f"{launches + 1}-{seen}")
        return dg.SensorResult(run_requests=[request], cursor=_cursor(seen, seen, launches + 1))

    return source_changed


def _cursor(launched: str, seen: str, launches: int) -> str:
    return json.dumps({"launched": launched, "seen": seen, "launches": launches})
