"""A deployment of a redistricting release by TopDown on a small census, in separate files, run through Dagster.

`tests.deployments` has the helpers that all kinds of release share; `tests.phsafe_deployments` makes the census.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assets.cef.census import CensusDeclaration, census_persons, census_units
from assets.release.dataset import Reader
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.release import TopDownRelease
from orchestration.components import TopDown
from orchestration.components.release import ReleaseComponent
from tests.deployments import Deployment, deploy, write_csv
from tests.phsafe_deployments import Files, census, changed

RESIDENTS = {
    "1": ("37", 30), "2": ("37", 12), "3": ("37", 80), "4": ("37", 41),
    "5": ("38", 19), "6": ("38", 22), "7": ("38", 8),
}  # fmt: skip
"""By type of group quarters, the relationship of its residents, and the first resident's age."""

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")

TO_CHARGE = ("cef", "spine", "histograms", "invariants", "charge")
TO_DRAW = (*TO_CHARGE, "noisy_measurements")
ESTIMATES = tuple(f"level_{level.lower()}" for level in LEVELS)
TO_PUBLICATION = (*TO_DRAW, *ESTIMATES, "microdata", "tables", "publication")

OF_STATES = {"records_of_states", "tables_of_states"}
"""The gates of partitions alone."""

TWO_LEVELS: dict[str, Any] = {
    "spine": {"Nation": [], "Block": ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]},
    "invariants": {"population": "Nation", "housing_units": "Block", "group_quarters": "Block"},
    "persons": {
        "rho": 2,
        "levels": {"Nation": "1/4", "Block": "3/4"},
        "queries": {
            "Nation": {"detailed": 1},
            "Block": {"total": "1/10", "hispanic * cenrace": "4/10", "detailed": "1/2"},
        },
    },
    "units": {
        "rho": "1/10",
        "levels": {"Nation": "1/2", "Block": "1/2"},
        "queries": {"Nation": {"detailed": 1}, "Block": {"detailed": 1}},
    },
}
"""A release of two levels, for tests that do not need all six."""

THREE_LEVELS: dict[str, Any] = {
    "spine": {"Nation": [], "State": ["TABBLKST"], "Block": ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]},
    **{
        kind: TWO_LEVELS[kind]
        | {
            "levels": TWO_LEVELS[kind]["levels"] | {"Nation": "1/8", "State": "1/8"} | ({"Block": "3/4"}),
            "queries": TWO_LEVELS[kind]["queries"] | {"State": {"detailed": 1}},
        }
        for kind in ("persons", "units")
    },
}
"""The same with a level of states, which has partitions below it."""

FOUR_LEVELS: dict[str, Any] = {
    "spine": {
        "US": [],
        "State": ["TABBLKST"],
        "County": ["TABBLKST", "TABBLKCOU"],
        "Block": ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"],
    },
    **{
        kind: TWO_LEVELS[kind]
        | {
            "levels": {"US": "1/8", "State": "1/8", "County": "1/4", "Block": "1/2"},
            "queries": dict.fromkeys(("US", "State", "County", "Block"), TWO_LEVELS[kind]["queries"]["Block"]),
        }
        for kind in ("persons", "units")
    },
}
"""With two levels below that of the states, of which the second has its parents in the same partition."""

TWO_LEVELS_TO_PUBLICATION = (
    *TO_DRAW, "level_nation", "level_block", "microdata", "tables", "publication",
)  # fmt: skip


def with_quarters(files: Files) -> Files:
    """The files with group quarters of every type, each with three residents, and one without residents, of type 5."""
    places = files["geo"][:: max(1, len(files["geo"]) // 5)]
    key = max(int(row["MAFID"]) for row in files["units"])
    nobody = {name: "0" * len(value) for name, value in files["units"][0].items()}
    quarters = [*RESIDENTS, "5"]

    def units(rows: list[dict[str, str]]) -> None:
        for number, kind in enumerate(quarters, 1):
            residents = "3" if number <= len(RESIDENTS) else "0"
            rows.append(
                nobody | {"MAFID": str(key + number), "RTYPE": "4", "GQTYPE": kind, "FINAL_POP": residents, "NPF": "0"}
            )

    def geo(rows: list[dict[str, str]]) -> None:
        for number, _ in enumerate(quarters, 1):
            rows.append(places[number % len(places)] | {"MAFID": str(key + number), "RTYPE": "4"})

    def persons(rows: list[dict[str, str]]) -> None:
        for number, (relationship, age) in enumerate(RESIDENTS.values(), 1):
            for resident in range(3):
                codes = {"QAGE": str(age + resident), "CENRACE": f"{number:02}", "CENHISP": "12"[resident % 2]}
                rows.append({**rows[0], "MAFID": str(key + number), "RTYPE": "5", "RELSHIP": relationship, **codes})

    return changed(files, units=units, geo=geo, persons=persons)


def topdown_dataset(root: Path, **changes: Any) -> CensusDeclaration:
    """The declaration of a census with types of group quarters. It is not synthetic unless declared so."""
    declared: dict[str, Any] = {"name": "town", "title": "A town", "cap": {"rho": 20}, "charging": "automatic"}
    recodes, end = changes.pop("recoded_units", None), "_{part}.csv" if changes.get("partitions") else ".csv"
    units, geo, persons = (str(root / f"{name}{end}") for name in ("units", "geo", "persons"))
    return CensusDeclaration(
        **(declared | changes),
        reader=Reader.CSV,
        record_name="unit",
        units=census_units(units, geo, group_quarters_types=True, recodes=recodes),
        persons=census_persons(persons),
    )


def write_parts(root: Path, files: Files, parts: Sequence[str]) -> None:
    """Write the files of a census in partitions, to which its units are dealt out."""
    for name, rows in files.items():
        for number, part in enumerate(parts):
            own = [row for row in rows if int(row["MAFID"]) % len(parts) == number]
            write_csv(root / f"{name}_{part}.csv", own)


def topdown_deployment(
    root: Path,
    *,
    files: Files | None = None,
    dataset: Mapping[str, Any] | None = None,
    beside: Sequence[ReleaseComponent] = (),
    parts: Sequence[str] = (),
    **changes: Any,
) -> Deployment[TopDownRelease]:
    """A deployment with its source files, before any run.

    Args:
        root: a new or empty folder, or the folder of an earlier such deployment, which then continues.
        files: the census, if not the usual one.
        dataset: changes to the dataset's declaration.
        beside: other releases of the same dataset.
        parts: the partitions of the dataset; none by default.
        changes: to the release's declaration, which is the production one in a single process, with each level
            estimated by itself.
    """
    root.mkdir(exist_ok=True)
    files, described = files or with_quarters(census()), dict(dataset or {})
    if parts:
        write_parts(root, files, parts)
        described |= {"partitions": parts}
    else:
        for name, rows in files.items():
            write_csv(root / f"{name}.csv", rows)
    return deploy(root, topdown_dataset(root, **described), TopDown(topdown_declaration(**changes)), *beside)


def topdown_declaration(**changes: Any) -> TopDownDeclaration:
    """The declaration of the release, with changes."""
    declared: dict[str, Any] = {
        "name": "redistricting",
        "dataset": "town",
        "title": "Redistricting data",
        "processes": 1,
        "estimation": "own_levels",
    }
    return TopDownDeclaration.model_validate(declared | changes)


def redeclared(release: TopDownRelease, **changes: Any) -> TopDownRelease:
    """The release with other fields of its declaration, and the same design."""
    return replace(release, declaration=release.declaration.model_copy(update=changes))
