"""The queue of a cluster's runs, which refuses what would give a run's pod another content, and launches a lost run
again only once; internal.

It is in this package because the settings of Dagster's instance name it, and a checkout and an installation call only
this package by the same name. The webserver and the daemon load it too, so it imports nothing but Dagster.
"""

from dagster import DagsterRun, DagsterRunStatus, QueuedRunCoordinator, SubmitRunContext

OF_PODS = "dagster-k8s/"
"""How the tags begin with which a run sets the command, image, environment and volumes of its pod."""

AUTOMATIC = "dagster/retry_number"
"""The tag of a run that Dagster launches in the place of one that failed."""

FOLLOWED = "stirred/launch"
"""The tag by which a command finds the runs that it follows (`orchestration.following.BY_COMMAND`)."""

_GOES_ON_OR_WELL = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.SUCCESS,
)


class RunQueue(QueuedRunCoordinator):
    """Refuses runs with tags of pods. Whoever may launch can give a run any tag, and with these, the run would be any
    program, with the custody's keys and the records of both zones.

    Ends an automatic run if another one does the same, or did. A run that Dagster could not store whole, such as on a
    full disk of its database, never begins; minutes later, Dagster takes it for one that failed and launches it again,
    whatever has become of the job, and of its declaration, by then.
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
        """Whether another automatic run in the place of the one that failed first goes on, or was successful."""
        line = self._find_line(run)
        group = self._instance.get_run_group(run.run_id) if line else None
        others = [each for each in group[1] if each.run_id not in (run.run_id, *line)] if group else []
        return any(each.status in _GOES_ON_OR_WELL and self._find_line(each)[:1] == line[:1] for each in others)

    def _find_line(self, run: DagsterRun) -> list[str]:
        """The run that failed first, and the automatic ones in its place up to this one's parent; none if this one is
        not automatic."""
        line = list[str]()
        above: DagsterRun | None = run
        while above and AUTOMATIC in above.tags and above.parent_run_id:
            line.append(above.parent_run_id)
            above = self._instance.get_run_by_id(above.parent_run_id)
        return line[::-1]
