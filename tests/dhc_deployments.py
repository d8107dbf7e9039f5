"""A deployment of a DHC release on a small synthetic census, within redistricting data that are published before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.cef.census import CensusDeclaration, census_persons, census_units
from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.release.dataset import Reader
from assets.topdown.dhc.declaration import DHCDeclaration
from assets.topdown.dhc.release import DHCRelease
from orchestration.components import DHC, TopDown
from resources.chain import Entry
from tests.deployments import Deployment, deploy, write_csv
from tests.phsafe_deployments import Files
from tests.topdown_deployments import TO_DRAW, TWO_LEVELS, TWO_LEVELS_TO_PUBLICATION, topdown_declaration

PERSON_QUERIES = (
    "age_18_64_116 * relgq_4_groups", "age_18_64_116 * sex", "age_38_groups * sex", "hispanic * sex",
    "sex * relgq_4_groups", "gq_constr_groups * age_10_groups", "popSehsdTargetsRelship",
    "hispanic * sex * age_40_groups * relship_and_eight_level_GQ * cenrace",
    "relgq * age_40_groups * hispanic * cenrace * sex", "detailed",
)  # fmt: skip

_TYPE = "DetailedCoupleTypeMultGenDetOwnChildSize"
HOUSEHOLD_QUERIES = (
    "multig * hisp * hhtenshort_2lev", "hisp * hhtenshort_2lev", "hisp * hhtenshort_2lev * race",
    "partner_type_detailed_own_child_status * sex * hhtenshort_2lev", "coupled_hh_type * hisp * hhtenshort_2lev",
    f"sex * hisp * hhtenshort_3lev * race * {_TYPE}", f"sex * hisp * hhtenshort_3lev * race * hhage * {_TYPE}",
    f"hhtenshort_3lev * hhage * {_TYPE}", "detailed",
)  # fmt: skip

LEVELS = ("State", "County", "Block")
"""As in Puerto Rico: the root is a state. The county is its only child."""


def _allocate(rho: int | str, queries: tuple[str, ...]) -> dict[str, Any]:
    shares = {query: f"1/{len(queries)}" for query in queries}
    return {"rho": rho, "levels": dict.fromkeys(LEVELS, "1/3"), "queries": dict.fromkeys(LEVELS, shares)}


BUDGETS: dict[str, Any] = {
    "spine": {
        "State": [],
        "County": ["TABBLKST", "TABBLKCOU"],
        "Block": ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"],
    },
    "persons": _allocate(3, PERSON_QUERIES),
    "units": _allocate("1/2", ("detailed",)),
    "households": _allocate(2, HOUSEHOLD_QUERIES),
}

_HELD = "votingage * hispanic * cenrace"
OWN_QUERIES: dict[str, Any] = {
    "persons": {
        "rho": 12,
        "levels": dict.fromkeys(LEVELS, "1/3"),
        "queries": {
            "State": {"sex": "1/4", f"relgq * sex * {_HELD}": "1/4", "detailed": "1/2"},
            "County": {"sex * age_38_groups": "1/2", f"relgq * sex * {_HELD}": "1/4", "detailed": "1/4"},
            "Block": {"sex * hispanic": "9/10", f"relgq * sex * {_HELD}": "1/20", "detailed": "1/20"},
        },
    },
    "households": {
        "rho": 2,
        "levels": dict.fromkeys(LEVELS, "1/3"),
        "queries": {
            "State": {"sex * hhage": "1/2", "hhtenshort_3lev * multig": "1/4", "detailed": "1/4"},
            "County": {"hhtenshort_3lev * multig": "1/2", "detailed": "1/2"},
            "Block": {"hhtenshort_3lev * multig": "1/2", "detailed": "1/2"},
        },
    },
    "units": {
        "rho": "1/2",
        "levels": dict.fromkeys(LEVELS, "1/3"),
        "queries": {
            "State": {"detailed": 1},
            "County": {"tenure_vacant_and_gq_types": "1/2", "detailed": "1/2"},
            "Block": {"detailed": 1},
        },
    },
    "passes": {
        "persons": [
            ["sex", "sex * hispanic", f"relgq * sex * {_HELD}"],
            ["sex * age_38_groups", "detailed"],
        ],
        "households": [["hhtenshort_3lev * multig"], ["sex * hhage", "detailed"]],
        "units": [["tenure_vacant_and_gq_types", "detailed"]],
    },
}
"""Other queries at every level, in other passes than production's. No query of persons with few answers is asked at
every level."""

FULL_TO_PUBLICATION = (
    *TO_DRAW, "information", "level_nation", "level_block", "occupancy", "estimates", "microdata", "tables",
    "intervals", "publication",
)  # fmt: skip
"""Of the redistricting data, with full estimation."""

LEVEL_STAGES = tuple(f"level_{level.lower()}" for level in LEVELS)
TO_CHARGE = ("cef", "spine", "facilities", "redistricting", "histograms", "charge")
TO_PUBLICATION = (
    *TO_CHARGE, *LEVEL_STAGES, "noisy_measurements", "estimates", "microdata", "tables", "publication",
)  # fmt: skip
ERRORS = ("replicates", "uncertainty")
CHARGED = "72/5"
"""ρ: 3 × (6 + 3 × 4) / 10 + 2 × 1/2 + 4 × 2."""


@dataclass
class DHCDeployment(Deployment[DHCRelease]):
    """`ledger` has only the DHC release's entries, not the redistricting data's."""

    @property
    def ledger(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in super().ledger if entry.release == self.release.name)


def dhc_deployment(
    root: Path,
    guess: int = 0,
    dataset: Mapping[str, Any] | None = None,
    repeated: int = 0,
    full: bool = False,
    homes: int = 300,
    measured: bool = False,
    states: Sequence[str] = ("10",),
    files: Files | None = None,
    **changes: Any,
) -> DHCDeployment:
    """A deployment with published redistricting data, before any run of the DHC.

    Args:
        root: a new or empty folder, or one of such a deployment, which is then continued.
        guess: 0 or 1 for one census or another.
        dataset: changes to the dataset's declaration.
        repeated: the number of replicates of the redistricting release.
        full: whether the redistricting data have full estimation, by which their persons and units agree.
        homes: the households of the census.
        measured: whether the redistricting release publishes its noisy measurements and invariants.
        states: the states of the census.
        files: the census, if it is not generated.
        changes: to the release's declaration.
    """
    described: dict[str, Any] = {"name": "town", "title": "A town", "cap": {"rho": 40}, "charging": "automatic"}
    population = SyntheticPopulation(households=homes, states=list(states), seed=20 + guess, dhc=True)
    described |= dataset or {}
    town: CensusDeclaration
    if not files:
        town = synthetic_census(population, **described)
    else:
        end = "_{part}.csv" if described.get("partitions") else ".csv"
        units, geo, persons = (str(root / f"{name}{end}") for name in ("units", "geo", "persons"))
        town = CensusDeclaration(
            **described,
            reader=Reader.CSV,
            record_name="unit",
            units=census_units(units, geo, dhc=True),
            persons=census_persons(persons, dhc=True),
        )
    before = {"products": ["P1", "persons", "units"] if repeated else ["persons", "units"], "replicates": repeated}
    before |= {"estimation": "full"} if full else {}
    before |= {"products": []} if measured else {}
    redistricting = TopDown(topdown_declaration(**TWO_LEVELS | before))
    declared: dict[str, Any] = {
        "name": "dhc",
        "dataset": "town",
        "title": "The DHC",
        "consistent_with": "redistricting",
        "products": ["P1", "P8", "P12", "P13", "P16", "H3", "persons", "units", "noisy_measurements", "facilities"],
    }
    made = root / f"made_of_{guess}"
    if not made.exists():
        root.mkdir(exist_ok=True)
        for name, rows in (files or {}).items():
            write_csv(root / f"{name}.csv", rows)
        stages = FULL_TO_PUBLICATION if full else TWO_LEVELS_TO_PUBLICATION
        deploy(root, town, redistricting).reach(*(stages[:-1] + ERRORS + stages[-1:] if repeated else stages))
        for other in root.glob("made_of_*"):
            other.unlink()
        made.touch()
    component = DHC(DHCDeclaration.model_validate(declared | BUDGETS | changes), redistricting)
    return DHCDeployment(**vars(deploy(root, town, component, redistricting)))
