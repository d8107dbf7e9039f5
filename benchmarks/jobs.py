"""The jobs that `nation`, `safetab` and `slopes` launch: releases of a synthetic census of some size.

A job of `slopes` does the work of `stirred launch`: every stage from the source to the publication, with every check.
The jobs of the other two make the stages up to the publication, the ledger and the composition.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import dagster as dg
import yaml

from assets.cef.asset import build_cef
from assets.cef.synthetic import SyntheticCensusDeclaration, SyntheticPopulation, synthetic_census
from assets.release.method import PUBLICATION
from assets.topdown.declaration import PRODUCTION_ALLOCATIONS, PRODUCTION_SPINE
from assets.topdown.release import ACCURACY
from benchmarks.harness import launch
from mechanisms.safetab.design import Key, format_label
from mechanisms.safetab.lists import RegionType
from mechanisms.safetab.planning import BUDGETS_H, BUDGETS_P
from mechanisms.states import PUERTO_RICO
from mechanisms.states import STATES as NATION
from mechanisms.topdown.allocation import Allocation
from orchestration import components
from orchestration.components import SafeTabH, SafeTabP, TopDown
from orchestration.components.release import ReleaseComponent, releases_of
from orchestration.definitions import budget
from orchestration.release_definitions import define_jobs, define_resources, define_stages
from resources.project import PROJECT, deployment_folders

CASE = "STIRRED_BENCH_CASE"
"""The environment variable with the case to declare."""

RELEASES = {
    "swapping": ["two_states/swapped"],
    "pair_swapping": ["two_states/pairs_2010"],
    "phsafe": ["two_states/s_dhc"],
    "safetab_p": ["detailed/persons"],
    "safetab_h": ["detailed/persons", "detailed/households"],
    "table_builder": ["two_states/hypercubes"],
    "topdown": ["two_states/redistricting"],
    "dhc": ["two_counties/redistricting", "two_counties/dhc"],
    "coarsening": ["two_states/coarsened"],
    "suppression": ["two_states/suppressed"],
}
"""By kind, the releases of the demonstration that are declared. The last one is measured, and reads those before."""

EIGHT_STATES, DETAILED = "eight_states", "detailed"
"""The kinds of `nation`, redistricting data, and of `safetab`, both releases of detailed groups; with the parameters of
production. The CEF of the latter is made before the job."""

STATES = {
    EIGHT_STATES: ["01", "04", "05", "06", "08", "09", "10", "12"],
    DETAILED: sorted(state for state in NATION if state != PUERTO_RICO),
}
"""By kind, the states of its census; of all others, two."""

_OF_NATION: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    EIGHT_STATES: [(TopDown, {"name": "redistricting"})],
    DETAILED: [
        (SafeTabP, {"name": "ddhc_a", "states": STATES[DETAILED]}),
        (SafeTabH, {"name": "ddhc_b", "detail": "ddhc_a"}),
    ],
}
_TWO_STATES = ["10", "44"]
_DATASET, _UNTIL_TRACTS = "census", ("US", "State", "County", "Tract")


@dataclass(frozen=True)
class Case:
    """A deployment to measure: a kind of release, and the households of its census. If it is `coarse`, redistricting
    data end with tracts, and detailed groups with states, so that few numbers are measured from many records.
    `estimation` applies to redistricting data (by default, as declared), `replicates` to kinds that have them."""

    kind: str
    households: int
    coarse: bool = False
    estimation: str = ""
    replicates: int = 0

    @property
    def census(self) -> SyntheticCensusDeclaration:
        codes = self.kind.startswith("safetab") or self.kind == DETAILED
        states = STATES.get(self.kind, _TWO_STATES)
        dhc = self.kind == "dhc"
        generated = SyntheticPopulation(households=self.households, states=states, detailed_codes=codes, dhc=dhc)
        return synthetic_census(generated, name=_DATASET, cap={"epsilon": 1000, "delta": "1/10000000000"})

    @property
    def releases(self) -> list[ReleaseComponent]:
        """The releases; of `slopes`, the last one is measured."""
        declared = _OF_NATION.get(self.kind) or [self._read_declaration(name) for name in RELEASES[self.kind]]
        described = {"title": "Synthetic census", "dataset": _DATASET}
        described |= {"estimation": self.estimation} if self.estimation else {}
        return releases_of([kind(kind.declared_by.model_validate(described | fields)) for kind, fields in declared])

    def _read_declaration(self, name: str) -> tuple[Any, dict[str, Any]]:
        """The component and the fields of a release of the demonstration, for the census of the case."""
        declaration = yaml.safe_load((PROJECT / "orchestration" / "defs" / name / "defs.yaml").read_text("utf-8"))
        fields = declaration["attributes"] | {"dataset": _DATASET}
        if "states" in fields:
            fields["states"] = _TWO_STATES
        # In a small census, more units have unique characteristics.
        fields |= {"publishes_unique_records": "accepted"} if "publishes_unique_records" in fields else {}
        kind = declaration["type"].rpartition(".")[2]
        fields |= _COARSE[kind]() if self.coarse else {}
        fields |= {"replicates": self.replicates} if "replicates" in fields or self.replicates else {}
        return getattr(components, kind), fields

    def launch(self, home: str, release: ReleaseComponent, environment: Mapping[str, str] | None = None) -> float:
        """Run the job of a release; return its seconds, including all imports."""
        case = {CASE: json.dumps(asdict(self))}
        return launch(home, "benchmarks.jobs", release.job, case | dict(environment or {}))


def _end_with_tracts() -> dict[str, Any]:
    return {
        "spine": {level: list(PRODUCTION_SPINE[level].columns) for level in _UNTIL_TRACTS},
        "invariants": {"population": "State", "housing_units": "Tract", "group_quarters": "Tract"},
        **{name: _restrict(allocation) for name, allocation in PRODUCTION_ALLOCATIONS.items()},
    }


def _restrict(allocation: Allocation) -> dict[str, Any]:
    total = sum(allocation.levels[level] for level in _UNTIL_TRACTS)
    return {
        "rho": str(allocation.loss.rho * total),
        "levels": {level: str(allocation.levels[level] / total) for level in _UNTIL_TRACTS},
        "queries": {
            level: {query: str(share) for query, share in allocation.queries[level].items()} for level in _UNTIL_TRACTS
        },
    }


def _end_with_states(budgets: Mapping[Key, Fraction]) -> dict[str, Any]:
    """The fields of detailed groups that end with states, from the budgets by line."""
    return {
        "budgets": {
            format_label(key): str(budget)
            for key, budget in budgets.items()
            if key[0] in (RegionType.USA, RegionType.STATE)
        }
    }


_COARSE: Mapping[str, Callable[[], dict[str, Any]]] = {
    "TopDown": _end_with_tracts,
    "SafeTabP": lambda: _end_with_states(BUDGETS_P),
    "SafeTabH": lambda: _end_with_states(BUDGETS_H),
}
"""By component, the fields with which few numbers are measured."""


def _define(case: Case) -> Iterator[dg.Definitions]:
    home, published = deployment_folders()
    dataset, releases = case.census, case.releases
    cef, *checks = build_cef(dataset, home)
    yield dg.Definitions(assets=[cef], asset_checks=[] if case.kind == DETAILED else checks)
    for component in releases:
        method = component.method(component.release(dataset, published))
        yield define_stages(component, method)
        if case.kind in RELEASES:
            yield define_jobs(method, component.declaration, home)
            continue
        utility = [ACCURACY] if case.kind == EIGHT_STATES else []
        stages = [component.key(stage) for stage in (*method.stages, *utility, PUBLICATION)]
        others = [dg.AssetKey("ledger"), dg.AssetKey([dataset.name, "composition"])]
        others += [] if case.kind == DETAILED else [dg.AssetKey([dataset.name, "cef"])]
        job = dg.define_asset_job(component.job, selection=dg.AssetSelection.assets(*stages, *others))
        yield dg.Definitions(jobs=[job])
    yield budget([dataset], releases)
    yield define_resources(home)


@dg.definitions
@cache
def defs() -> dg.Definitions:
    """Dagster asks for them several times and gets the same objects, as from `orchestration.datasets`."""
    return dg.Definitions.merge(*_define(Case(**json.loads(os.environ[CASE]))))
