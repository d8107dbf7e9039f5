"""The queue of a cluster's runs, which refuses what would give a run's pod another content; internal.

It is in this package because the settings of Dagster's instance name it, and a checkout and an installation call only
this package by the same name. The webserver and the daemon load it too, so it imports nothing but Dagster.
"""

from dagster import DagsterRun, QueuedRunCoordinator, SubmitRunContext

OF_PODS = "dagster-k8s/"
"""How the tags begin with which a run sets the command, image, environment and volumes of its pod."""


class RunQueue(QueuedRunCoordinator):
    """Refuses runs with such tags. Whoever may launch can give a run any tag, and with these, the run would be any
    program, with the custody's keys and the records of both zones."""

    def submit_run(self, context: SubmitRunContext) -> DagsterRun:
        if tags := sorted(tag for tag in context.dagster_run.tags if tag.startswith(OF_PODS)):
            raise ValueError(
                f"Tag {tags[0]}: no run chooses the command, image, environment or volumes of its pod; set them in the "
                "values of the chart. Nothing was launched, drawn or charged."
            )
        return super().submit_run(context)
