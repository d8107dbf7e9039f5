"""Declarations of releases by SafeTab-P and SafeTab-H: lines that have no groups are neither charged nor measured."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError
from assets.safetab.release import SafeTabHRelease, SafeTabPRelease
from mechanisms.safetab.design import format_label
from tests.assets.safetab import examples
from tests.assets.safetab.test_lists import write
from tests.safetab_deployments import safetab_components

PRODUCTION = {"budgets": "production", "thresholds": "production"}


def declared(persons: dict[str, Any], households: dict[str, Any]) -> tuple[SafeTabPRelease, SafeTabHRelease]:
    p, h = safetab_components(persons, households)
    dataset, published = examples.of_files("town"), Path("published")
    return p.release(dataset, published), h.release(dataset, published)  # type: ignore[return-value]


def lines(release: SafeTabPRelease | SafeTabHRelease) -> set[str]:
    return {format_label(pair) for pair in release.pairs}


def test_lines_of_production_that_the_lists_have_no_iteration_for_are_left_out(tmp_path: Path) -> None:
    """For instance, level 1 has no iteration, and level 2 has one everywhere."""
    p, h = declared({"lists": str(write(tmp_path)), "states": ["01"], **PRODUCTION}, PRODUCTION)
    assert lines(p) == lines(h) == {f"{kind} 2" for kind in ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH")}
    charged = [each.label for each in p.design.lines]
    assert charged == [each.label for each in p.design.measured]


@pytest.mark.parametrize("field", ["budgets", "moe"])
def test_a_line_that_the_lists_have_no_iteration_for_is_refused(tmp_path: Path, field: str) -> None:
    """It would be charged without a measurement."""
    changes = {"lists": str(write(tmp_path)), "states": ["01"], "budgets": {"TRACT 2": 1}, "moe": {}}
    changes[field] = {**changes[field], "TRACT 1": 10}  # type: ignore[dict-item]
    with pytest.raises(DeclarationError, match=f"release town/a: {field}: TRACT 1: .*no iteration of this level"):
        declared(changes, {})


def test_a_line_without_budget_may_have_no_iteration(tmp_path: Path) -> None:
    changes = {"lists": str(write(tmp_path)), "states": ["01"], "budgets": {"TRACT 2": 1, "TRACT 1": 0}}
    assert lines(declared(changes, PRODUCTION)[0]) == {"TRACT 2"}


@pytest.mark.parametrize("noise", ["zcdp", "pure"])
def test_households_are_measured_where_persons_are(noise: str) -> None:
    """SafeTab-P publishes no total elsewhere, so that there are no groups."""
    _, h = declared({"budgets": {"TRACT 2": 1, "PR-STATE 1": 1}}, {**PRODUCTION, "noise": noise})
    assert lines(h) == {"TRACT 2", "PR-STATE 1"}
    if noise == "pure":
        with pytest.raises(ValidationError, match="delta: a loss in ε is not stated at a δ"):
            declared({"budgets": {"TRACT 2": 1}, "noise": noise, "delta": "1/1000"}, PRODUCTION)


@pytest.mark.parametrize("field", ["budgets", "moe"])
def test_households_are_refused_where_persons_are_not_measured(field: str) -> None:
    changes: dict[str, Any] = {"budgets": {"TRACT 2 T3": 1}, "moe": {}}
    changes[field] = {**changes[field], "STATE 2 T4": 10}
    with pytest.raises(DeclarationError, match=f"release town/b: {field}: STATE 2 T4: .*release a measures no totals"):
        declared({"budgets": {"TRACT 2": 1}}, changes)


def test_households_need_a_file_of_households() -> None:
    _, h = safetab_components()
    without = examples.of_files("town", with_households=False)
    with pytest.raises(DeclarationError, match="release town/b: dataset: town has no records of households; declare"):
        h.release(without, Path("published"))


@pytest.mark.parametrize("component", [0, 1])
def test_a_dataset_whose_records_no_layout_checks_is_refused(component: int) -> None:
    """The same columns could have households with several householders, each of whom would count."""
    census = examples.of_production("town")
    tables = {"units": census.units, "persons": census.persons, "reader": "csv", "cap": census.cap}
    unchecked = DatasetDeclaration(name="town", title="A town", **tables)
    release = safetab_components({}, {})[component].release
    release(census, Path("published"))
    with pytest.raises(DeclarationError, match=r"release town/\w: dataset: town is neither a census"):
        release(unchecked, Path("published"))
