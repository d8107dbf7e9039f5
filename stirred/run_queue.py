"""The queue of a cluster's runs, which refuses tags that would change a run's pod, and launches a lost run again only
once; internal.

It is in this package because the settings of Dagster's instance name it, and a checkout and an installation call only
this package by the same name. The webserver and the daemon load it too, so it imports only Dagster.
"""

from dagster import DagsterRun, DagsterRunStatus, QueuedRunCoordinator, SubmitRunContext

OF_PODS = "dagster-k8s/"
"""The prefix of the tags with which a run sets the command, image, environment and volumes of its pod."""

AUTOMATIC = "dagster/retry_number"
"""The tag of a run that Dagster launches in place of a failed one."""

FOLLOWED = "stirred/launch"
"""The tag by which a command finds the runs that it follows (`orchestration.following.BY_COMMAND`)."""

_GOES_ON_OR_WELL = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.SUCCESS,
)


class RunQueue(QueuedRunCoordinator):
    """Refuses runs with tags of pods. Users who may launch can give a run any tag. With these tags, the run could be
    any program, with access to the custody's keys and the records of both zones.

    Ends an automatic run if another run does, or did, the same work. A run that Dagster could not store completely,
    such as when its database's disk is full, never begins. Minutes later, Dagster takes it for a failed run and
    launches it again, even if the job or its declaration has changed meanwhile.
    """

    def submit_run(self, context: SubmitRunContext) -> DagsterRun:
        run = context.dagster_run
        if tags := sorted(tag for tag in run.tags if tag.startswith(OF_PODS)):
            raise ValueError(
                f"Tag {tags[0]}: no run chooses the command, image, environment or volumes of its pod; set them in the "
                "values of the chart. Nothing was launched, drawn or charged."
            )
        if AUTOMATIC in run.tags and self._has_other(run):
            self._instance.add_run_tags(run.run_id, {FOLLOWED: ""})
            self._instance.report_run_canceled(run, "Another run already replaces the one that failed.")
            return run
        return super().submit_run(context)

    def _has_other(self, run: DagsterRun) -> bool:
        """Whether another automatic run in place of the first failed run is unfinished or was successful."""
        line = self._find_line(run)
        group = self._instance.get_run_group(run.run_id) if line else None
        others = [each for each in group[1] if each.run_id not in (run.run_id, *line)] if group else []
        return any(each.status in _GOES_ON_OR_WELL and self._find_line(each)[:1] == line[:1] for each in others)

    def _find_line(self, run: DagsterRun) -> list[str]:
        """The first failed run, and the automatic runs in its place up to this run's parent; none if this run is not
        automatic."""
        line = list[str]()
        above: DagsterRun | None = run
        while above and AUTOMATIC in above.tags and above.parent_run_id:
            line.append(above.parent_run_id)
            above = self._instance.get_run_by_id(above.parent_run_id)
        return line[::-1]
