"""The jobs that `benchmarks.slopes` launches: a release of the demonstration, of a synthetic census of some size.

A job is that of `stirred launch`: every stage from the source to the publication, with every check.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import dagster as dg
import yaml

from assets.cef.asset import build_cef
from assets.cef.synthetic import SyntheticCensusDeclaration, SyntheticPopulation, synthetic_census
from assets.topdown.declaration import PRODUCTION_ALLOCATIONS, PRODUCTION_SPINE
from mechanisms.accounting.semantics import Allocation
from mechanisms.safetab.design import Pair
from mechanisms.safetab.lines import line_of
from mechanisms.safetab.production import BUDGETS_H, BUDGETS_P
from mechanisms.safetab.regions import RegionType
from orchestration import components
from orchestration.components.release import ReleaseComponent, automated, release_definitions, releases_of
from orchestration.definitions import budget, without_configuration
from orchestration.environment import PROJECT, deployment_folders, deployment_resources

CASE = "STIRRED_BENCH_CASE"
"""The environment variable with the case to declare."""

STATES = ("10", "44")

RELEASES = {
    "swapping": ["two_states/swapped"],
    "pair_swapping": ["two_states/pairs_2010"],
    "phsafe": ["two_states/s_dhc"],
    "safetab_p": ["detailed/persons"],
    "safetab_h": ["detailed/persons", "detailed/households"],
    "table_builder": ["two_states/hypercubes"],
    "topdown": ["two_states/redistricting"],
}
"""By kind, the releases of the demonstration that are declared. The last one is measured, and reads those before."""

_DATASET, _UNTIL_TRACTS = "census", ("US", "State", "County", "Tract")


@dataclass(frozen=True)
class Case:
    """A job.

    Attributes:
        kind: the kind of release.
        households: the households of its census.
        coarse: whether redistricting data end with tracts, and detailed groups with states, so that few numbers are
            measured of many records.
    """

    kind: str
    households: int
    coarse: bool = False

    @property
    def census(self) -> SyntheticCensusDeclaration:
        """The dataset."""
        codes = self.kind.startswith("safetab")
        generated = SyntheticPopulation(households=self.households, states=list(STATES), detailed_codes=codes)
        return synthetic_census(generated, name=_DATASET, cap={"epsilon": 1000, "delta": "1/10000000000"})

    @property
    def releases(self) -> list[ReleaseComponent]:
        """The releases; the last one is measured."""
        return releases_of([self._declared(name) for name in RELEASES[self.kind]])

    def _declared(self, name: str) -> Any:
        found = yaml.safe_load((PROJECT / "orchestration" / "defs" / name / "defs.yaml").read_text("utf-8"))
        fields = found["attributes"] | {"dataset": _DATASET}
        if "states" in fields:
            fields["states"] = list(STATES)
        # A small census has more units that are alone with their characteristics.
        fields |= {"publishes_unique_records": "accepted"} if "publishes_unique_records" in fields else {}
        kind = found["type"].rpartition(".")[2]
        fields |= _COARSE[kind]() if self.coarse else {}
        component = getattr(components, kind)
        return component(component.declared_by.model_validate(fields))

    @property
    def text(self) -> str:
        """The case for the environment."""
        return json.dumps(asdict(self))


def _coarse_spine() -> dict[str, Any]:
    """The fields of redistricting data that end with tracts."""
    held = {"population": "State", "housing_units": _UNTIL_TRACTS[-1], "group_quarters": _UNTIL_TRACTS[-1]}
    allocations = {name: _until_tracts(allocation) for name, allocation in PRODUCTION_ALLOCATIONS.items()}
    return {
        "spine": {level: list(PRODUCTION_SPINE[level].columns) for level in _UNTIL_TRACTS},
        "invariants": held,
        **allocations,
    }


def _until_tracts(allocation: Allocation) -> dict[str, Any]:
    total = sum(allocation.levels[level] for level in _UNTIL_TRACTS)
    return {
        "rho": str(allocation.loss.rho * total),
        "levels": {level: str(allocation.levels[level] / total) for level in _UNTIL_TRACTS},
        "queries": {
            level: {query: str(share) for query, share in allocation.queries[level].items()} for level in _UNTIL_TRACTS
        },
    }


def _until_states(budgets: Mapping[str, Mapping[Pair, Fraction]]) -> dict[str, Any]:
    """The fields of detailed groups that end with states, from the budgets by family of tables."""
    kept = {
        line_of(pair, family): str(budget)
        for family, by_pair in budgets.items()
        for pair, budget in by_pair.items()
        if pair[0] in (RegionType.USA, RegionType.STATE)
    }
    return {"budgets": kept}


_COARSE: Mapping[str, Callable[[], dict[str, Any]]] = {
    "TopDown": _coarse_spine,
    "SafeTabP": lambda: _until_states({"": BUDGETS_P}),
    "SafeTabH": lambda: _until_states(BUDGETS_H),
}
"""By component, the fields with which few numbers are measured."""


def _of_case(case: Case) -> Iterator[dg.Definitions]:
    home, published = deployment_folders()
    dataset, releases = case.census, case.releases
    cef, *checks = build_cef(dataset, home)
    yield dg.Definitions(assets=[cef], asset_checks=checks)
    for component in releases:
        method = component.method(component.release(dataset, published))
        yield release_definitions(component, method)
        yield automated(method, component.declaration, home)
    yield budget([dataset], releases)
    resources = without_configuration(deployment_resources(home))
    yield dg.Definitions(resources=resources, executor=dg.in_process_executor)


@dg.definitions
def defs() -> dg.Definitions:
    """The census of a case, its releases and their jobs."""
    case = Case(**json.loads(os.environ[CASE]))
    return dg.Definitions.merge(*_of_case(case))
