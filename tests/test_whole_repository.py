"""The only private part of Dagster that tests use exists and works as they use it."""

from importlib import import_module

import dagster as dg
import pytest


@dg.asset
def sees(context: dg.AssetExecutionContext) -> str:
    """The name of the repository that the run belongs to."""
    return context.repository_def.name


DEFINITIONS = dg.Definitions(assets=[sees], jobs=[dg.define_asset_job("alone")], executor=dg.in_process_executor)
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def run() -> dg.ExecuteInProcessResult:
    job = DEFINITIONS.get_repository_def().get_job("alone")
    return job.execute_in_process(run_config=QUIET, raise_on_error=False)


def test_the_private_part_has_not_moved() -> None:
    where = "dagster._core.definitions.job_base"
    moved = f"Dagster {dg.__version__} has no InMemoryJob.get_repository_definition in {where}: see whole_repository"
    try:
        module = import_module(where)
    except ImportError:
        pytest.fail(moved)
    assert hasattr(getattr(module, "InMemoryJob", None), "get_repository_definition"), moved


def test_by_default_an_in_process_run_knows_no_repository() -> None:
    """If this fails, Dagster has a public way, and `whole_repository` can be removed."""
    assert not run().success


@pytest.mark.prove
def test_an_in_process_run_knows_the_repository_it_is_given() -> None:
    from tests.whole_repository import known

    repository = DEFINITIONS.get_repository_def()
    with known(repository):
        result = run()
    assert result.success, "InMemoryJob.get_repository_definition no longer decides what `repository_def` is"
    assert result.output_for_node("sees") == repository.name
