"""How much post-processing improves the accuracy of the demonstration's redistricting release, level by level.

The release is made as declared, with fixed keys, so that every run gives the same result.
"""

import os
import shutil
import tempfile
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from statistics import mean
from unittest.mock import patch

import dagster as dg

from assets.charge.drawing import make_draw
from assets.topdown.accuracy import measure_accuracy
from assets.topdown.estimation import estimate_level
from assets.topdown.method import TopDownMethod
from assets.topdown.release import TopDownRelease
from benchmarks.resources import opened
from benchmarks.result import Result
from benchmarks.topdown_estimation import charge
from mechanisms.topdown.design import words
from orchestration.components import Dataset, TopDown
from resources.statements import Zone

DRAWS = 5

_LIMITS = {"race_by_hispanic": 1.0, "population": 1.05}
_WORDS = {"race_by_hispanic": "race × Hispanic", "population": "population"}


def measure() -> list[Result]:
    """Mean absolute errors of the estimates against those of the raw measurements, both over all places and draws."""
    errors: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for number in range(DRAWS):
        home = tempfile.mkdtemp(prefix="stirred-bench-")
        try:
            with patch.dict(os.environ, {"STIRRED_MASTER_KEY": sha256(f"accuracy {number}".encode()).hexdigest()}):
                release = _release(Path(home))
                for metric, level, source, value in _figures(home, release):
                    errors[metric, level, source].append(value)
        finally:
            shutil.rmtree(home)
    return [
        Result(
            f"TopDown, error of {_WORDS[metric]}, {words(level)}: estimates against raw",
            mean(errors[metric, level, "post-processed"]),
            mean(errors[metric, level, "raw"]),
            limit,
        )
        for metric, limit in _LIMITS.items()
        for level in release.levels
        if (metric, level, "raw") in errors
    ]


def _release(home: Path) -> TopDownRelease:
    tree = dg.ComponentTree.for_project(Path(__file__).resolve().parents[1])
    datasets = {each.declaration.name: each.declaration for each in tree.get_all_components(Dataset)}
    (component,) = tree.get_all_components(TopDown)
    declaration = component.declaration.model_copy(update={"processes": 1})
    return TopDown(declaration).release(datasets[declaration.dataset], home / "published")


def _figures(home: str, release: TopDownRelease) -> list[tuple[str, str, str, float]]:
    """Metric, level, source and error."""
    charge(home, release)
    warehouse, custody, ledger = opened(home)
    make_draw(TopDownMethod(release), warehouse, custody, ledger)
    for level in release.levels:
        estimate_level(warehouse, custody, release, level, lambda done, parents: None)
    with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        return [
            (each.metric, each.level, each.source, each.value)
            for each in measure_accuracy(session, release)
            if each.metric in _LIMITS and each.value is not None
        ]
