"""The jobs of the whole deployment: `withdraw`, `audit` and, in a cluster, `delete_replaced`, and what launches them.

Jobs, schedules and sensors of single releases are in `automation`.

This module turns plain functions into jobs. The commands `stirred withdraw` and `stirred audit` do the same.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from assets.confidentiality import list_deployed_nodes
from assets.conventions import NO_CONFIG, POOL
from assets.publication.audit import Verdict, audit, write_report
from assets.publication.withdrawal import WithdrawalError, withdraw
from assets.release.method import Method
from assets.retention import RETENTION_KEY, build_retention
from assets.stages import conceal_faults
from resources.ledger import Ledger


class Withdrawal(dg.Config):
    """What is withdrawn, and by whom."""

    dataset: str = Field(description="The name of the dataset.")
    release: str = Field(description="The name of the release; * for the whole dataset with all its releases.")
    by: str = Field(description="The name of the person who withdraws it, for the ledger.")


def withdraw_job(published: Path) -> dg.JobDefinition:
    """The job `withdraw`, whose one operation is `withdrawal`. It cannot be undone."""

    @dg.op(name="withdrawal", pool=POOL)
    @conceal_faults()
    def withdraw_op(context: dg.OpExecutionContext, config: Withdrawal, ledger: Ledger) -> None:
        try:
            release = None if config.release == "*" else config.release
            context.log.info(str(withdraw(ledger, published, config.dataset, release, config.by)))
        except WithdrawalError as error:
            raise dg.Failure(str(error), allow_retries=False) from None

    words = "Removes the tables, publications and ephemeral keys of a release or a dataset, for good. The ledger keeps "
    words += "what was charged and records the withdrawal."
    return dg.GraphDefinition("withdraw", node_defs=[withdraw_op], description=words).to_job()


def audit_job(methods: Sequence[Method[Any, Any, Any]], published: Path, reports: Path) -> dg.JobDefinition:
    """The job `audit`, which fails if something does not hold; `reports` is the folder of its report."""

    @dg.op(name="audit_report", pool=POOL, config_schema=NO_CONFIG)
    @conceal_faults()
    def audit_op(context: dg.OpExecutionContext, ledger: Ledger) -> None:
        record = audit(methods, list_deployed_nodes(context), ledger, published, now())
        _, page = write_report(record, reports)
        context.add_output_metadata({"report": dg.MetadataValue.path(str(page)), **record["counts"]})
        if record["verdict"] == Verdict.FAILS:
            raise dg.Failure(f"The audit found what does not hold; the report is {page}", allow_retries=False)

    words = "Verifies the ledger, every stored table, every seal, signature and checksum, and repeats every draw whose "
    words += "key is kept. Writes a report. Charges nothing, and deletes only keys that killed processes left."
    return dg.GraphDefinition("audit", node_defs=[audit_op], description=words).to_job()


def audit_automation(audits: dg.JobDefinition, releases: Iterable[str]) -> dg.Definitions:
    """A schedule and a sensor that launch an audit, off until they are switched on; `releases` are names of jobs."""
    made = frozenset(releases)

    @dg.run_status_sensor(
        name="audit_after_release",
        run_status=dg.DagsterRunStatus.SUCCESS,
        request_job=audits,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="An example, off by default: launches an audit after every release that was made.",
    )
    def audit_after_release(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
        run = context.dagster_run
        if run.job_name not in made:
            return dg.SkipReason(f"{run.job_name} makes no release")
        return dg.RunRequest(run_key=run.run_id, job_name=audits.name)

    schedule = dg.ScheduleDefinition(
        name="weekly_audit",
        job_name=audits.name,
        cron_schedule="0 5 * * 1",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="An example, off by default: an audit every Monday at 5:00 UTC.",
    )
    return dg.Definitions(schedules=[schedule], sensors=[audit_after_release])


def retention_automation() -> dg.Definitions:
    """The asset that deletes replaced confidential data from a lake, its job, and the schedule that launches it."""
    return dg.Definitions(
        assets=[build_retention()],
        # No job may have the name of an operation, which for the asset is `retention`.
        jobs=[dg.define_asset_job("delete_replaced", selection=dg.AssetSelection.assets(RETENTION_KEY))],
        schedules=[
            dg.ScheduleDefinition(
                name="daily_retention",
                job_name="delete_replaced",
                cron_schedule="0 3 * * *",
                default_status=dg.DefaultScheduleStatus.RUNNING,
                description="Deletes replaced confidential data from the lake, every day at 3:00 UTC.",
            )
        ],
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
