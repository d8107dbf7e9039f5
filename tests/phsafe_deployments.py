"""A small deployment with an S-DHC release by PHSafe, on a census in the production layout.

The components build the graph from their declarations, so that tests run the same graph as a deployment. `deployments`
has the helpers that the tests of all mechanisms share.
"""

import csv
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from assets.cef.census import CensusDeclaration, census_persons, census_units
from assets.cef.sample import write_sample
from assets.cef.synthetic import SyntheticPopulation
from assets.phsafe.declaration import PHSafeDeclaration
from assets.phsafe.release import PHSafeRelease
from assets.release.dataset import Reader
from orchestration.components import PHSafe
from orchestration.components.release import ReleaseComponent
from tests.deployments import Deployment, deploy, write_csv

FIRST_KEY, STEP = 941_700_000_003, 8_191
"""MAFIDs that cannot be mistaken for a count or a code."""

TO_COUNTS = ("cef", "truncated_join", "counts")
TO_DRAW = (*TO_COUNTS, "charge", "noisy_measurements")
TO_PUBLICATION = (*TO_DRAW, "plan", "postprocessed", "tables", "publication")

FEW: dict[str, Any] = {
    "PH1_num": {"truncation": 4, "budget": {"nation_*": "1/50", "state_A-G": "1/10"}},
    "PH1_denom": {"budget": {"nation_*": "1/20", "state_*": 0}},
    "PH2": {"truncation": 3, "budget": {"state_*": "1/10"}},
}
"""Some runs at some levels, enough for PH1 and PH2, for tests that do not need the whole release."""

Files = Mapping[str, Sequence[Mapping[str, str]]]
"""The rows of the files `persons`, `units` and `geo`."""


@cache
def census(
    households: int = 160, states: tuple[str, ...] = ("10", "44"), seed: int = 2020, *, dhc: bool = False
) -> Files:
    """A synthetic census, as rows of files."""
    folder = Path(mkdtemp(prefix="stirred-census-"))
    try:
        paths = write_sample(
            folder, SyntheticPopulation(seed=seed, households=households, states=list(states), dhc=dhc)
        )
        files = {path.stem: _read(path) for path in paths}
    finally:
        shutil.rmtree(folder)
    for rows in files.values():
        for row in rows:
            row["MAFID"] = str(FIRST_KEY + STEP * int(row["MAFID"]))
    return files


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def changed(files: Files, **changes: Callable[[list[dict[str, str]]], object]) -> Files:
    """The files, with the rows of some changed in place by a function for each file."""
    copies = {name: [dict(row) for row in rows] for name, rows in files.items()}
    for name, change in changes.items():
        change(copies[name])
    return copies


def deal_out(files: Files, parts: Sequence[str]) -> dict[str, Files]:
    """The files in parts, each with every so-manieth unit and its persons."""

    def place(row: Mapping[str, str]) -> str:
        return parts[int(row["MAFID"]) // STEP % len(parts)]

    return {part: {name: [row for row in rows if place(row) == part] for name, rows in files.items()} for part in parts}


def census_dataset(root: Path, **changes: Any) -> CensusDeclaration:
    """The declaration of a census whose files are in a folder. It is not synthetic unless declared so."""
    root = root / "{part}" if "partitions" in changes else root
    declared: dict[str, Any] = {"name": "town", "title": "A town", "cap": {"rho": 20}, "charging": "automatic"}
    return CensusDeclaration(
        **(declared | changes),
        reader=Reader.CSV,
        record_name="unit",
        units=census_units(str(root / "units.csv"), str(root / "geo.csv")),
        persons=census_persons(str(root / "persons.csv")),
    )


def phsafe_deployment(
    root: Path,
    *,
    files: Files | None = None,
    dataset: Mapping[str, Any] | None = None,
    beside: Sequence[ReleaseComponent] = (),
    **changes: Any,
) -> Deployment[PHSafeRelease]:
    """A deployment with its source files, before any run.

    Args:
        root: a new or empty folder, or the folder of an earlier such deployment, which then continues.
        files: the census, if not the usual one.
        dataset: changes to the dataset's declaration.
        beside: other releases of the same dataset.
        changes: to the release's declaration, which is the production one.
    """
    whole, parts = files or census(), (dataset or {}).get("partitions")
    for part, own in (deal_out(whole, parts) if parts else {"": whole}).items():
        (root / part).mkdir(exist_ok=True, parents=True)
        for name, rows in own.items():
            write_csv(root / part / f"{name}.csv", rows)
    return deploy(root, census_dataset(root, **(dataset or {})), PHSafe(_declaration(changes)), *beside)


def _declaration(changes: Mapping[str, Any]) -> PHSafeDeclaration:
    declared: dict[str, Any] = {
        "name": "s_dhc",
        "dataset": "town",
        "title": "Persons in households",
        "states": ["10", "44"],
    }
    return PHSafeDeclaration.model_validate(declared | changes)
