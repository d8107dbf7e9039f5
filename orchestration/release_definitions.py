"""The definitions of a release, its assets, checks, jobs, schedule and sensor.

The declarations are in `orchestration.components`. This module imports every stage, so a process that only shows
declarations does not import it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg

from assets.charge.asset import build_charge, build_preflight
from assets.charge.drawing import build_draw
from assets.conventions import NO_CONFIG
from assets.gates.shared import build_gates
from assets.planning.asset import build_plan
from assets.publication.asset import build_publication
from assets.release.method import Method
from assets.release.plan import PlanRequest
from assets.release.published import require_placeable
from assets.release.release import ReleaseDeclaration
from orchestration.automation import release_jobs, release_schedule, source_sensor
from orchestration.components.publisher import declared_publisher
from orchestration.components.release import ReleaseComponent, dataset_of, declared_datasets
from orchestration.environment import deployment_resources, is_cluster
from orchestration.planning import PlannedDeclaration, plan_declaration
from orchestration.run_history import hold_history
from orchestration.run_locks import end_lost_runs, hold_lock
from resources.machine import skip_last_collection
from resources.project import deployment_folders

hold_history()
skip_last_collection()


def define_resources(home: Path) -> dg.Definitions:
    """The resources and the executor of a deployment. Dagster refuses a run that configures them, because the operator
    decides where keys and databases lie. Stages exchange no values through Dagster, so the resource with which a run
    could have them stored in any folder is replaced too. On one machine, a run first ends the runs whose process is
    gone, and then shows that its own process is there."""

    @dg.io_manager(config_schema=NO_CONFIG)  # type: ignore[arg-type]  # Generators are allowed, not in its types.
    def values(context: dg.InitResourceContext) -> Iterator[dg.IOManager]:
        assert context.instance is not None
        assert context.run is not None
        end_lost_runs(context.instance, home)
        with hold_lock(home, context.run.run_id):
            yield dg.InMemoryIOManager()

    resources = without_configuration(deployment_resources(home))
    return dg.Definitions(
        resources=resources if is_cluster() else resources | {"io_manager": values}, executor=dg.in_process_executor
    )


def without_configuration(resources: Mapping[str, object]) -> dict[str, dg.ResourceDefinition]:
    """The same resources without configuration by runs, and one that stores values in memory."""
    fixed = {
        name: dg.ResourceDefinition(lambda _, resource=resource: resource, config_schema=NO_CONFIG)
        for name, resource in resources.items()
    }
    return fixed | {"io_manager": dg.IOManagerDefinition(lambda _: dg.InMemoryIOManager(), config_schema=NO_CONFIG)}


def define_release(component: ReleaseComponent, context: dg.ComponentLoadContext) -> dg.Definitions:
    dataset = dataset_of(component.declaration, declared_datasets(context))
    release = component.release(dataset, deployment_folders(context.project_root)[1])
    method = component.method(replace(release, publisher=declared_publisher(context.component_tree)))
    return dg.Definitions.merge(
        define_stages(component, method), define_jobs(method, component.declaration, context.project_root)
    )


def define_stages(component: ReleaseComponent, method: Method[Any, Any, Any]) -> dg.Definitions:
    """The assets and checks of a release: its mechanism's, and those that all releases share. Raises DeclarationError
    if its publication could not be written, or its loss is infinite and the dataset does not allow that."""
    charges = component.declaration.charges
    method.release.require_allowed()
    if charges:
        require_placeable(method.release, method.tables())

    def plan(request: PlanRequest) -> PlannedDeclaration:
        return plan_declaration(component, method.release.dataset, method.release.published, request)

    assets = [build_plan(method, plan), *method.assets_of_parts(), *method.own_assets()]
    checks = build_gates(method)
    if charges:
        publication, files_check = build_publication(method)
        assets += [build_preflight(method), build_charge(method), build_draw(method), publication]
        checks.append(files_check)
    return dg.Definitions(assets=assets, asset_checks=checks)


def define_jobs(method: Method[Any, Any, Any], declaration: ReleaseDeclaration, root: Path) -> dg.Definitions:
    release = method.release
    schedules = [release_schedule(release, declaration.schedule)] if declaration.schedule else []
    sensors = [source_sensor(release, f"{declaration!r} {release.dataset!r}", root)] if declaration.watch_source else []
    return dg.Definitions.merge(release_jobs(method), dg.Definitions(schedules=schedules, sensors=sensors))
