"""The jobs that `benchmarks.safetab` launches: SafeTab-P and SafeTab-H with the production parameters, at two sizes.

A job makes every stage from the CEF to the publication, with every check. The CEF itself is made before, by `prepare`.
"""

from dataclasses import replace

import dagster as dg

from assets.cef.asset import build_cef
from assets.cef.synthetic import SyntheticCensusDeclaration, SyntheticPopulation, synthetic_census
from assets.cef.synthetic import write as write_census
from assets.release.contents import publish_contents, versions_of_cef
from assets.release.method import PUBLICATION
from assets.safetab.declaration import SafeTabHDeclaration, SafeTabPDeclaration
from benchmarks.resources import opened
from mechanisms.states import PUERTO_RICO, STATES
from orchestration.components.release import ReleaseComponent, release_definitions
from orchestration.components.safetab import SafeTabH, SafeTabP
from orchestration.definitions import budget, without_configuration
from orchestration.environment import deployment_folders, deployment_resources
from resources.statements import Zone

HOUSEHOLDS = {"half": 1_950_000, "whole": 3_900_000}
"""By dataset, its households in all states. The larger one has over 10 million persons and over 5,000 tracts."""

RELEASES = (PERSONS, OF_HOUSEHOLDS) = ("ddhc_a", "ddhc_b")
"""The releases of each dataset, in the order of their jobs `<dataset>__<release>`."""

_EVERYWHERE = sorted(state for state in STATES if state != PUERTO_RICO)


def census(name: str) -> SyntheticCensusDeclaration:
    """The dataset of one size."""
    generated = SyntheticPopulation(households=HOUSEHOLDS[name], states=_EVERYWHERE, detailed_codes=True)
    return synthetic_census(generated, name=name, cap={"rho": 100})


def prepare(home: str, name: str) -> tuple[int, int]:
    """Generate the CEF; return the numbers of persons and of tracts.

    A tract of the synthetic census has three block groups. Here the third is a tract of its own, so that 10 million
    persons live in over 5,000 tracts.
    """
    dataset = census(name)
    warehouse, custody, _ = opened(home)
    key = custody.version_key()
    units, persons = dataset.cef_tables()
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        with session.transaction():
            write_census(session, dataset)
            session.create(units, "benchmarks/units_in_smaller_tracts", units=units)
        versions = versions_of_cef(session, dataset, key)
        found = session.count(persons), int(session.row("benchmarks/tracts", units=units)[0])
    publish_contents(warehouse, custody, dataset, versions, {})
    return found


def releases(name: str) -> tuple[SafeTabP, SafeTabH]:
    """The releases of a dataset."""
    described = {"dataset": name, "title": "Synthetic census"}
    persons = SafeTabP(SafeTabPDeclaration.model_validate({"name": PERSONS, **described, "states": _EVERYWHERE}))
    households = SafeTabH(SafeTabHDeclaration.model_validate({"name": OF_HOUSEHOLDS, **described, "detail": PERSONS}))
    return persons, replace(households, persons=persons)


@dg.definitions
def defs() -> dg.Definitions:
    """Both datasets, each with its two releases and their jobs."""
    home, published = deployment_folders()
    datasets, declared = [census(name) for name in HOUSEHOLDS], list[ReleaseComponent]()
    found = [dg.Definitions(assets=[build_cef(dataset, home)[0]]) for dataset in datasets]
    for dataset in datasets:
        components = releases(dataset.name)
        declared += components
        for component in components:
            method = component.method(component.release(dataset, published))
            stages = [component.key(stage) for stage in (*method.stages, PUBLICATION)]
            beside = [dg.AssetKey("ledger"), dg.AssetKey([dataset.name, "composition"])]
            job = dg.define_asset_job(component.job, selection=dg.AssetSelection.assets(*stages, *beside))
            found += [release_definitions(component, method), dg.Definitions(jobs=[job])]
    return dg.Definitions.merge(
        *found,
        budget(datasets, declared),
        dg.Definitions(resources=without_configuration(deployment_resources(home)), executor=dg.in_process_executor),
    )
