"""The jobs of the whole deployment: `withdraw` and `audit`. Those of single releases are in `automation`.

This module turns plain functions into jobs. `orchestration.withdraw` and `orchestration.audit` are the same as
commands.
"""

from pathlib import Path

import dagster as dg
from pydantic import Field

from assets.conventions import POOL
from assets.publication.withdrawal import WithdrawalError, withdraw
from resources.ledger import Ledger


class Withdrawal(dg.Config):
    """What is withdrawn, and by whom."""

    dataset: str = Field(description="The name of the dataset.")
    release: str = Field("", description="The name of the release; empty for the whole dataset with all its releases.")
    by: str = Field(description="The name of the person who withdraws it, for the ledger.")


def withdraw_job(published: Path) -> dg.JobDefinition:
    """The job `withdraw`, whose one operation is `withdrawal`. It cannot be undone."""

    @dg.op(name="withdrawal", pool=POOL)
    def withdraw_op(context: dg.OpExecutionContext, config: Withdrawal, ledger: Ledger) -> None:
        try:
            context.log.info(str(withdraw(ledger, published, config.dataset, config.release or None, config.by)))
        except WithdrawalError as error:
            raise dg.Failure(str(error), allow_retries=False) from None

    @dg.job(
        name="withdraw",
        description="Removes the tables, publications and ephemeral keys of a release or a dataset, for good. The "
        "ledger keeps what was charged and records the withdrawal.",
    )
    def job() -> None:
        withdraw_op()

    return job
