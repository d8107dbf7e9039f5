"""A cap belongs to a population: the same people cannot be charged under two caps."""

from pathlib import Path
from random import Random
from typing import Any

import dagster as dg
import pytest

from assets.ledger.population import group_populations
from mechanisms.accounting.losses import PureLoss
from resources.ledger import of_population
from tests.deployments import COUNTIES, households, small_dataset, small_deployment, write_csv
from tests.depth import deep_cases

BEFORE = ("cef", "invariants")


def charged(root: Path, dataset: dict[str, Any], **changes: Any) -> Any:
    """A deployment in a folder that others may share, charged."""
    deployment = small_deployment(root, dataset=dataset, **changes)
    deployment.run(*BEFORE, "charge")
    return deployment


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize(
    "again",
    [
        pytest.param({"name": "twin"}, id="another name"),
        pytest.param(
            {"name": "twin", "title": "Something else", "record_name": "dwelling"},
            id="other words",
            marks=pytest.mark.deep,
        ),
    ],
)
def test_the_same_records_under_another_name_are_refused(tmp_path: Path, again: dict[str, Any]) -> None:
    first = charged(tmp_path, {})
    twin = small_deployment(tmp_path, dataset=again)
    twin.run(*BEFORE)
    refusal = twin.refusal("charge")
    assert "dataset twin has the same content as dataset village, which was charged to population village" in refusal
    assert "declare population: village for twin" in refusal
    assert "Nothing was drawn, and nothing was charged." in refusal
    assert len(first.ledger) == 1


def test_another_selection_of_columns_from_the_same_file_is_refused(tmp_path: Path) -> None:
    """The CEFs differ, but the source file is the same."""
    charged(tmp_path, {})
    units = small_dataset(tmp_path).units.model_dump(mode="json", exclude_defaults=True)
    units["columns"]["size"] = {"type": "integer", "minimum": 1, "maximum": 12}
    units["columns"]["serial"] = {"type": "string", "role": "key"}
    twin = small_deployment(tmp_path, dataset={"name": "twin", "units": units})
    twin.run(*BEFORE)
    assert "has the same content as dataset village" in twin.refusal("charge")


@pytest.mark.deep
def test_datasets_of_one_population_share_its_cap(tmp_path: Path) -> None:
    first = charged(tmp_path, {"cap": 6})
    (entry,) = first.ledger
    assert entry.parse_specification().charge.round_up(2) < 6
    twin = small_deployment(tmp_path, dataset={"name": "twin", "population": "village", "cap": 6}, swap_rate="1/4")
    twin.run(*BEFORE)
    refusal = twin.refusal("charge")
    assert "to population village" in refusal
    assert "does not fit under the cap of ε = 6" in refusal
    twin = charged(tmp_path, {"name": "twin", "population": "village", "cap": 12}, swap_rate="1/4")
    twin.run("ledger")
    result = twin.run_assets(dg.AssetKey([twin.release.dataset.population, "composition"]))
    ledger = twin.context.ledger
    first_loss, second_loss = (
        entry.parse_specification().charge for entry in of_population(ledger.entries(), "village")
    )
    assert ledger.read().compose("village", PureLoss()) == first_loss + second_loss
    assert ledger.read().compose("twin", PureLoss()) == PureLoss(), "nothing counts for a dataset alone"
    (made,) = result.get_asset_materialization_events()
    shown = str(made.materialization.metadata["releases"].value)
    assert "village/counties" in shown
    assert "twin/counties" in shown


@pytest.mark.prove
def test_other_records_are_another_population(tmp_path: Path) -> None:
    charged(tmp_path, {})
    drawn = Random(3)
    others = [{**row, "size": drawn.randint(1, 9), "county": drawn.choice(COUNTIES)} for row in households(60)]
    write_csv(tmp_path / "others.csv", others)
    units = small_dataset(tmp_path).units.model_dump(mode="json", exclude_defaults=True)
    other = charged(tmp_path, {"name": "hamlet", "units": {**units, "path": str(tmp_path / "others.csv")}})
    assert [entry.parse_details().population for entry in other.ledger] == ["village", "hamlet"]


@pytest.mark.parametrize(
    "swap_rate", [pytest.param("1/3", id="same draw"), pytest.param("1/4", id="new draw", marks=pytest.mark.prove)]
)
def test_a_dataset_keeps_its_population(tmp_path: Path, swap_rate: str) -> None:
    """Wrong program: a preflight that calls such a draw charged, though its gate refuses it at each launch."""
    charged(tmp_path, {})
    moved = small_deployment(tmp_path, dataset={"population": "elsewhere"}, swap_rate=swap_rate)
    moved.reach(*BEFORE)
    assert "a dataset keeps its population" in moved.refusal("charge")
    assert len(moved.ledger) == 1


def test_populations_are_declared_without_contradiction(tmp_path: Path) -> None:
    def declared(name: str, **changes: Any) -> Any:
        return small_dataset(tmp_path, name=name, **changes)

    first, second = group_populations(
        [declared("a"), declared("b", population="people"), declared("c", population="people")]
    )
    assert (first.name, [dataset.name for dataset in first.datasets]) == ("a", ["a"])
    assert (second.name, [dataset.name for dataset in second.datasets]) == ("people", ["b", "c"])
    with pytest.raises(ValueError, match="population people: cap: datasets b and c declare different caps"):
        group_populations([declared("b", population="people"), declared("c", population="people", cap=3)])
    with pytest.raises(ValueError, match="population people: charging: datasets b and c disagree"):
        group_populations([declared("b", population="people"), declared("c", population="people", charging="ask")])
    with pytest.raises(ValueError, match="another dataset declares population: a"):
        group_populations([declared("a", population="people"), declared("b", population="a")])
