"""The jobs that `benchmarks.nation` launches: redistricting data of a synthetic census of eight states, at some sizes.

A job makes every stage from the CEF to the publication, with every gate, with the production parameters.
"""

import os

import dagster as dg

from assets.cef.asset import build_cef
from assets.cef.synthetic import SyntheticCensusDeclaration, SyntheticPopulation, synthetic_census
from assets.release.method import PUBLICATION
from assets.topdown.declaration import TopDownDeclaration
from orchestration.components.release import release_definitions
from orchestration.components.topdown import TopDown
from orchestration.definitions import budget, without_configuration
from orchestration.environment import deployment_folders, deployment_resources

STATES = ("01", "04", "05", "06", "08", "09", "10", "12")

HOUSEHOLDS = {"small": 390_000, "medium": 1_170_000, "large": 3_900_000, "tenth": 13_000_000}
"""By dataset, its households in all states: about 1, 3, 10 and 33.6 million persons."""

RELEASE = "redistricting"

SIZES = "STIRRED_BENCH_SIZES"
"""The environment variable with the datasets to declare, separated by spaces."""


def census(name: str) -> SyntheticCensusDeclaration:
    """The dataset of one size."""
    generated = SyntheticPopulation(households=HOUSEHOLDS[name], states=list(STATES))
    return synthetic_census(generated, name=name, cap={"rho": 100})


def redistricting(name: str) -> TopDown:
    """The release of a dataset."""
    declaration = {"name": RELEASE, "dataset": name, "title": "Redistricting data"}
    return TopDown(TopDownDeclaration.model_validate(declaration))


@dg.definitions
def defs() -> dg.Definitions:
    """The datasets, each with its release and the job of both."""
    home, published = deployment_folders()
    datasets = [census(name) for name in os.environ.get(SIZES, " ".join(HOUSEHOLDS)).split()]
    found, components = list[dg.Definitions](), list[TopDown]()
    for dataset in datasets:
        cef, *checks = build_cef(dataset, home)
        component = redistricting(dataset.name)
        components.append(component)
        method = component.method(component.release(dataset, published))
        stages = [component.key(stage) for stage in (*method.stages, PUBLICATION)]
        beside = [dg.AssetKey("ledger"), dg.AssetKey([dataset.name, "composition"]), dg.AssetKey([dataset.name, "cef"])]
        job = dg.define_asset_job(component.job, selection=dg.AssetSelection.assets(*stages, *beside))
        made = dg.Definitions(assets=[cef], asset_checks=checks, jobs=[job])
        found += [made, release_definitions(component, method)]
    return dg.Definitions.merge(
        *found,
        budget(datasets, components),
        dg.Definitions(resources=without_configuration(deployment_resources(home)), executor=dg.in_process_executor),
    )
