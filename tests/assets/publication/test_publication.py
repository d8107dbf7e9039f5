"""A published release: what its certificate says of the budget when it is published again."""

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from assets.publication.asset import publish
from tests.contract.kinds import KINDS, to_publication
from tests.deployments import Deployment
from tests.gates import keep, put_back


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Deployment[Any]:
    deployment = KINDS["laplace tables"].build(tmp_path_factory.mktemp("publication") / "release")
    assert deployment.run(*to_publication(deployment.context.method)).success
    keep(deployment)
    return deployment


@pytest.fixture
def published(made: Deployment[Any]) -> Iterator[Deployment[Any]]:
    yield made
    put_back(made)


def charge_elsewhere(deployment: Deployment[Any], dataset: str, epsilon: int) -> None:
    """Charge another release."""
    specification = deployment.ledger[0].declared()
    other = type(specification)(specification.flavor, type(specification.loss)(Fraction(epsilon)))
    draw_id = f"{epsilon:064x}"
    deployment.context.ledger.reserve(dataset, "another", draw_id, other, "0" * 64, None)


def certificate(deployment: Deployment[Any]) -> dict[str, Any]:
    return json.loads((deployment.release.folder / "certificate.json").read_text())


def test_a_certificate_tells_the_total_after_its_charge_from_that_at_publication(
    published: Deployment[Any],
) -> None:
    """The first never changes. The second counts what was charged in between, whichever release it was for."""
    first = certificate(published)["ledger"]
    assert first["total_after_this_charge"] == first["total_at_publication"] == "ε = 1.5000"
    charge_elsewhere(published, published.release.dataset.name, 7)
    charge_elsewhere(published, "another_dataset", 5)
    publish(published.context)
    again = certificate(published)["ledger"]
    assert again["total_after_this_charge"] == "ε = 1.5000"
    assert again["total_at_publication"] == "ε = 8.5000"
    assert (again["sequence"], first["last_charge_at_publication"], again["last_charge_at_publication"]) == (1, 1, 3)


def test_charges_to_other_datasets_leave_a_publication_as_it_is(published: Deployment[Any]) -> None:
    before = published.published()
    charge_elsewhere(published, "another_dataset", 5)
    publish(published.context)
    assert published.published() == before
