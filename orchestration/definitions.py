"""The one `Definitions` object: everything under `defs/`, the ledger to which all releases are charged, and the
resources."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from assets.conventions import WRITES
from assets.ledger.asset import build_composition, build_composition_checks, build_ledger, build_ledger_checks
from assets.ledger.population import group_populations
from assets.release.dataset import DatasetDeclaration
from assets.release.method import CHARGE, Method
from assets.release.release import DeclarationError
from orchestration.automation import define_job
from orchestration.checking import explain_refusal
from orchestration.components.release import ReleaseComponent, dataset_of
from orchestration.declarations import component_tree, load_declarations
from orchestration.environment import is_cluster
from orchestration.jobs import audit_automation, audit_job, lost_runs, retention_automation, withdraw_job
from orchestration.release_definitions import define_resources
from resources.project import deployment_folders


def deployment(tree: dg.ComponentTree, home: Path) -> dg.Definitions:
    """Everything that a component tree declares, with the ledger and the resources. Raises DeclarationError as
    `load_declarations`."""
    datasets, releases = load_declarations(tree)
    published = deployment_folders()[1]
    audits = audit_job(declared_methods(tree, published), published, home / "audit")
    return dg.Definitions.merge(
        tree.build_defs(),
        budget(datasets, releases),
        *([retention_automation(), dg.Definitions(sensors=[lost_runs])] if is_cluster() else []),
        audit_automation(audits, (release.publishing_job for release in releases)),
        dg.Definitions(jobs=[withdraw_job(published), audits]),
        define_resources(home),
    )


def declared_methods(tree: dg.ComponentTree, published: Path) -> list[Method[Any, Any, Any]]:
    """The methods of all declared releases that are charged."""
    datasets, releases = load_declarations(tree)
    by_name = {dataset.name: dataset for dataset in datasets}
    charged = (release for release in releases if release.charges)
    return [release.method(release.release(dataset_of(release.declaration, by_name), published)) for release in charged]


def budget(datasets: Iterable[DatasetDeclaration], releases: Iterable[ReleaseComponent]) -> dg.Definitions:
    """The ledger and the compositions of all populations, with their checks, job and automation.
    Raises ValueError if datasets of one population contradict each other."""
    charged = [component for component in releases if component.charges]
    charges = [component.key(CHARGE) for component in charged]
    draws = [component.key(component.method.draw_stage) for component in charged]
    found = group_populations(datasets)
    shown = [build_ledger(charges, draws, found), *(build_composition(population) for population in found)]
    selection = dg.AssetSelection.assets(*shown)
    words = "Brings the ledger and the compositions of all populations up to date."
    return dg.Definitions(
        assets=shown,
        asset_checks=[
            *build_ledger_checks(),
            *(check for population in found for check in build_composition_checks(population)),
        ],
        jobs=[define_job("budget", selection, words, writes="ledger")],
        sensors=[
            dg.AutomationConditionSensorDefinition(
                "budget_up_to_date",
                target=selection,
                default_status=dg.DefaultSensorStatus.RUNNING,
                # Each evaluation costs the daemon 0.12 CPU-s, and the server of its database the same.
                minimum_interval_seconds=60 if is_cluster() else 10,
                run_tags={WRITES: "ledger"},
                description=f"{words[:-1]} after every charge and draw.",
            )
        ],
    )


@dg.definitions
@cache
def defs() -> dg.Definitions:
    """The definitions of this deployment. Dagster calls this six times in a process that launches a job."""
    tree, (home, published) = component_tree(), deployment_folders()
    try:
        return deployment(tree, home)
    except Exception as error:
        if not (problems := explain_refusal(error, tree, published)):
            raise
    # Dagster's own error names the problem only after all declarations and pages of code.
    raise DeclarationError(f"the declarations cannot be loaded:\n{problems}")
