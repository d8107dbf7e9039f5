"""Small deployments of releases by SafeTab-P and SafeTab-H, for tests: a town in SafeTab's files, and the toy lists."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assets.cef.census import detailed_files
from assets.safetab.declaration import SafeTabHDeclaration, SafeTabPDeclaration
from assets.safetab.release import SafeTabHRelease, SafeTabPRelease
from orchestration.components.safetab import SafeTabH, SafeTabP
from tests.assets.safetab import examples
from tests.deployments import Deployment, deploy

_LINES = ("USA 1", "USA 2", "STATE 2", "COUNTY 2", "TRACT 1", "TRACT 2", "AIANNH 2", "PR-STATE 2", "PR-TRACT 2")

PERSONS: dict[str, Any] = {
    "name": "a",
    "dataset": "town",
    "title": "Detailed groups of persons",
    "states": ["01", "02", "72", "44"],
    "lists": str(examples.TOY),
    "budgets": dict.fromkeys(_LINES, 1),
    "thresholds": {**{line: [40, 80, 160] for line in _LINES}, "COUNTY 2": [100_000, 100_000, 100_000]},
}
"""A release with groups of every detail; groups of counties have totals only."""

HOUSEHOLDS: dict[str, Any] = {
    "name": "b",
    "dataset": "town",
    "title": "Detailed groups of households",
    "detail": "a",
    "budgets": {f"{line} {family}": "1/2" for line in _LINES for family in ("T3", "T4")},
    "thresholds": {f"{line} T3": [40, 80, 160] for line in _LINES} | {f"{line} T4": [40] for line in _LINES},
}


def safetab_components(
    persons: dict[str, Any] | None = None, households: dict[str, Any] | None = None
) -> tuple[SafeTabP, SafeTabH]:
    """The components of both releases, with changes to their declarations."""
    p = SafeTabP(SafeTabPDeclaration.model_validate({**PERSONS, **(persons or {})}))
    (h,) = SafeTabH(SafeTabHDeclaration.model_validate({**HOUSEHOLDS, **(households or {})})).releases([p])
    assert isinstance(h, SafeTabH)
    return p, h


def safetab_deployment(
    root: Path,
    persons: dict[str, Any] | None = None,
    *,
    seed: int = 1,
    size: int = 1500,
    guess: int | None = None,
    dataset: dict[str, Any] | None = None,
    releases: str = "p",
    households: dict[str, Any] | None = None,
    partitions: Sequence[str] = (),
) -> Deployment[Any]:
    """A deployment of a town with its files, before any run.

    Args:
        root: a new or empty folder, or the folder of an earlier such deployment, which then continues.
        persons: changes to the declaration of the release of persons.
        seed: of the town.
        size: the number of persons.
        guess: 0 or 1 for the sex of one person, who is in some group, or for the tenure of one household if the release
            under test is of households; otherwise the town stays as it is.
        dataset: changes to the dataset's declaration.
        releases: `p` for the release of persons alone; `ph` for both; `h` for both, with the release of households
            under test.
        households: changes to the declaration of the release of households.
        partitions: the keys of the partitions, among which the blocks are dealt out; none by default.
    """
    root.mkdir(exist_ok=True)
    town = examples.town(seed, size, examples.toy_lists())
    if guess is not None and releases == "h":
        town.households[0] = town.households[0]._replace(TEN="12"[guess])
    elif guess is not None:
        town.persons[0] = town.persons[0]._replace(QSEX="12"[guess], races=("1010",))
    for part, own in (examples.deal_out(town, partitions) if partitions else {"": town}).items():
        (root / part).mkdir(exist_ok=True)
        examples.write_input_files(root / part, own)
    folder = root / "{part}" if partitions else root
    paths = [str(folder / name) for name in ("GRF-C.txt", "person-records.txt", "household-records.txt")]
    declared = {"title": "A town", "cap": {"rho": 60}, "charging": "automatic", "population": "town"}
    declared |= {"partitions": list(partitions)} if partitions else {}
    data = detailed_files(*paths, name="town", **{**declared, **(dataset or {})})
    p, h = safetab_components(persons, households)
    return deploy(root, data, *{"p": [p], "ph": [p, h], "h": [h, p]}[releases])


def release_of_persons(deployment: Deployment[Any]) -> SafeTabPRelease:
    """The release of persons, of a deployment that may be of households."""
    release = deployment.release
    return release.detail if isinstance(release, SafeTabHRelease) else release
