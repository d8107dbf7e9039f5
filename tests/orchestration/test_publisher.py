"""The publisher is declared once for a deployment, or not at all, and every release receives it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest

from assets.release.release import UNDECLARED, DeclarationError, Publisher
from orchestration import release_definitions
from orchestration.components import Dataset, PermutationSwapping, PublisherSettings
from orchestration.components.publisher import declared_publisher
from tests.deployments import PRODUCTS, small_dataset

OFFICE = PublisherSettings(Publisher.model_validate({"authority": "Office", "license": "CC-BY-4.0"}))


def context(root: Path, *components: dg.Component) -> dg.ComponentLoadContext:
    tree = SimpleNamespace(
        get_all_components=lambda kind: [component for component in components if isinstance(component, kind)]
    )
    return cast(dg.ComponentLoadContext, SimpleNamespace(project_root=root, component_tree=tree))


def test_it_is_declared_once_or_not_at_all(tmp_path: Path) -> None:
    assert declared_publisher(context(tmp_path).component_tree) == UNDECLARED
    assert declared_publisher(context(tmp_path, OFFICE).component_tree).authority == "Office"
    with pytest.raises(DeclarationError, match="publisher of all releases: it is declared 2 times"):
        declared_publisher(context(tmp_path, OFFICE, OFFICE).component_tree)


def test_every_release_receives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = PermutationSwapping.resolve_from_yaml(
        f"""
        name: counties
        dataset: village
        title: Counties
        match: [region, size]
        swap: [county]
        swap_rate: 1/2
        products: {PRODUCTS}
        """
    )
    built: list[Any] = []
    monkeypatch.setattr(
        release_definitions, "define_jobs", lambda method, *others: built.append(method) or dg.Definitions()
    )
    release.build_defs(context(tmp_path, OFFICE, Dataset(small_dataset(tmp_path))))
    assert built[0].release.publisher == OFFICE.declaration
