"""A small deployment with a release by targeted pair swapping, on a census in the production layout."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assets.pair_swapping.declaration import PairSwappingDeclaration
from assets.pair_swapping.release import PairSwappingRelease
from orchestration.components.pair_swapping import PairSwapping2010
from tests.deployments import Deployment, deploy, write_csv
from tests.phsafe_deployments import Files, census, census_dataset
from tests.topdown_deployments import with_quarters

TO_DRAW = ("cef", "households", "charge", "swapped")
TO_PUBLICATION = (*TO_DRAW, "tables", "publication")

PRODUCTS: list[dict[str, Any]] = [
    {"name": "by_county", "title": "Units by county", "geography": ["TABBLKCOU"], "dimensions": ["HHRACE", "TEN"]},
    {"name": "persons", "of": "persons", "geography": ["TABBLKST", "TABTRACTCE"], "dimensions": ["CENRACE"]},
]


def pair_swapping_deployment(
    root: Path, *, files: Files | None = None, dataset: Mapping[str, Any] | None = None, **changes: Any
) -> Deployment[PairSwappingRelease]:
    """A deployment with its source files, before any run.

    Args:
        root: a new or empty folder, or one with the files of another such deployment, which is then continued.
        files: the census, if not the usual one with group quarters.
        dataset: changes to the dataset's declaration, which allows releases without a finite loss.
        changes: to the release's declaration.
    """
    root.mkdir(exist_ok=True)
    for name, rows in (files or with_quarters(census(160))).items():
        write_csv(root / f"{name}.csv", rows)
    declared: dict[str, Any] = {
        "name": "pairs",
        "dataset": "town",
        "title": "Swapped in pairs",
        "key": ["HHRACE", "HHSPAN", "HHT"],
        "swap_rate": "1/4",
        "products": PRODUCTS,
    }
    component = PairSwapping2010(PairSwappingDeclaration.model_validate(declared | changes))
    return deploy(root, census_dataset(root, **({"unbounded_releases": "allowed"} | dict(dataset or {}))), component)
