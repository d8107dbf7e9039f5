"""A release without a finite loss is made only where its dataset allows it: at load, at the charge, and in the gate."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assets.charge.assessment import Assessment
from assets.ledger.asset import find_cap_problems
from assets.ledger.population import Population
from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError, Release, ReleaseDeclaration
from mechanisms.accounting.losses import InfiniteLoss
from mechanisms.accounting.specification import Flavor, Specification
from resources.chain import Details
from resources.custody import Custody, CustodyMode
from resources.ledger import Ledger
from resources.warehouse import Warehouse


class Pairs(Release):
    """A release that no finite loss bounds."""

    @property
    def has_finite_loss(self) -> bool:
        return False


def dataset(name: str = "town", population: str = "town", **declared: Any) -> DatasetDeclaration:
    columns = {"a": {"type": "string", "values": ["x", "y"]}}
    given = {"name": name, "title": name, "reader": "csv", "cap": 10, "units": {"path": "a.csv", "columns": columns}}
    return DatasetDeclaration.model_validate(given | {"population": population} | declared)


ALLOWED: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"synthetic": True}, True),
    ({"unbounded_releases": "allowed"}, True),
    ({"unbounded_releases": "refused", "synthetic": True}, False),
]


@pytest.mark.parametrize(("declared", "allowed"), ALLOWED)
def test_only_a_synthetic_dataset_or_one_that_says_so_allows_it(declared: dict[str, Any], allowed: bool) -> None:
    declaration = ReleaseDeclaration(name="pairs", dataset="town", title="Pairs")
    release, finite = (kind(declaration, dataset(**declared), None, Path()) for kind in (Pairs, Release))
    finite.require_allowed()
    if allowed:
        release.require_allowed()
    else:
        with pytest.raises(
            DeclarationError, match=r"release town/pairs: no finite loss .* unbounded_releases: allowed"
        ):
            release.require_allowed()


def test_datasets_of_one_population_agree_on_it() -> None:
    with pytest.raises(DeclarationError, match="population town: unbounded_releases: datasets a and b disagree"):
        Population("town", (dataset("a"), dataset("b", unbounded_releases="allowed")))


def test_the_gate_of_the_cap_finds_an_infinite_charge_that_is_allowed_no_longer(tmp_path: Path) -> None:
    warehouse = Warehouse(folder=str(tmp_path / "warehouse"), threads=1)
    ledger = Ledger(warehouse=warehouse, custody=Custody(folder=str(tmp_path / "custody"), databases=warehouse.folder))
    flavor = Flavor("all files", (), "household", 1, InfiniteLoss.output_premetric)
    specification = Specification(flavor, InfiniteLoss())
    escrowed, cap = CustodyMode.ESCROWED, dataset().cap
    ledger.reserve("town", "pairs", "0" * 64, specification, escrowed, cap, unbounded_releases=True)
    assert find_cap_problems(dataset(unbounded_releases="allowed"), ledger.read()) == []
    (problem,) = find_cap_problems(dataset(), ledger.read())
    assert problem.startswith("pairs was charged ε = ∞ in entry 1, which no cap bounds")


def test_the_price_that_authorizes_it_is_the_sign_and_nothing_else() -> None:
    specification = Specification(Flavor("", (), "household", 1, InfiniteLoss.output_premetric), InfiniteLoss())
    draw = SimpleNamespace(draw_id="d" * 64, specification=specification)
    assessment = Assessment(cast(Any, None), cast(Any, draw), Details("town"), None, "", "", "")
    assert assessment.price == "ε = ∞"
    assert [assessment.allows(text) for text in ("ε = ∞", "ε=∞", "∞")] == [True] * 3
    for text in ("", "ε", "ε =", "inf", "Infinity", "ε = Infinity", "ε = 1000000", "ρ = ∞"):
        assert not assessment.allows(text), text
