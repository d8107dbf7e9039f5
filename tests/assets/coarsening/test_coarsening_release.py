"""A whole release by coarsening: its records follow from the rules, and every gate finds the fault it names."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from assets.release.release import DeclarationError
from tests.contract.kinds import to_publication
from tests.deployments import UNITS, Deployment, households
from tests.depth import deep_cases, quick_cases
from tests.gates import executes, failing
from tests.unperturbed_deployments import coarsening_deployment


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:  # type: ignore[type-arg]
    made = coarsening_deployment(tmp_path / "release")
    made.reach(*to_publication(made.context.method))
    return made


def test_records_and_tables_are_published_add_up_and_state_what_is_not_guaranteed(deployment: Deployment) -> None:  # type: ignore[type-arg]
    files = deployment.published()
    records = list(csv.DictReader(files["coarsened.csv"].decode().splitlines()))
    assert sum(int(row["count"]) for row in records) == 120
    sums: Counter[tuple[str, ...]] = Counter()
    for row in records:
        sums[row["region"], row["county"], row["size"]] += int(row["count"])
    with deployment.opened() as connection:
        stored = connection.execute("FROM coarsened").fetchall()
        assert stored == connection.execute("FROM coarsened ORDER BY ALL").fetchall(), (
            "as counted, it tells places apart"
        )
    table = csv.DictReader(files["size_by_county.csv"].decode().splitlines())
    assert {(row["region"], row["county"], row["size"]): int(row["count"]) for row in table} == sums
    assert min(sums.values()) >= 8
    resources = {each["path"]: each for each in json.loads(files["datapackage.json"])["resources"]}
    described = resources["size_by_county.csv"]
    assert described["geography"] == ["region", "county"]
    empty = [field["name"] for field in described["schema"]["fields"] if "missingValues" in field]
    assert empty == ["region", "county"], "readers learn what an empty place stands for"
    certificate = json.loads(files["certificate.json"])
    (limits,) = (one for one in certificate["mechanism"]["parameters"] if one["label"] == "Not guaranteed")
    assert len(limits["value"]) == 4
    page = files["certificate.html"].decode()
    assert "The number of records of every published place is exact" in page.partition("What is exact")[2][:300]
    assert "counts by the kept variables.</p>" in (deployment.release.published / "index.html").read_text()


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("alteration", "gates"),
    [
        ("UPDATE coarsened SET count = 1 WHERE county = 'Avon'", {"places_large", "combinations_large"}),
        ("UPDATE coarsened SET tenure = 'own'", {"places_exact"}),
        ("UPDATE coarsened SET size = 9 WHERE tenure = 'own'", {"combinations_large"}),
        ("UPDATE product_tenure SET count = count + 1", {"tables_as_made"}),
    ],
)
def test_every_gate_finds_what_it_names(deployment: Deployment, alteration: str, gates: set[str]) -> None:  # type: ignore[type-arg]
    executes(alteration)(deployment)
    assert gates <= set(failing(deployment))


def _by_ages(root: Path, ages: list[str]) -> Deployment:  # type: ignore[type-arg]
    """A place in which 3 units are of the class 5-9, 8 of 10-14, and the others of 15+; the classes are listed."""
    units = [
        unit | {"county": "Avon", "region": "N", "ages": "5-9" if at < 3 else "10-14" if at < 11 else "15+"}
        for at, unit in enumerate(households())
    ]
    columns = UNITS | {"ages": {"type": "string", "values": ages}}
    dataset = {"units": {"path": str(root / "units.csv"), "columns": columns}}
    return coarsening_deployment(root, units=units, dataset=dataset, key=["ages"], kept=[], products=[])


def test_steps_follow_the_declared_list_which_the_draw_depends_on(tmp_path: Path) -> None:
    """Wrong programs: steps in alphabetical order, by which 15+ is nearer to 5-9 than 10-14 is; or with a further class
    in the list, the same draw gives other records, so that its repetition fails for good."""
    made = _by_ages(tmp_path / "made", ["5-9", "10-14", "15+"])
    made.run(*to_publication(made.context.method))
    records = list(csv.DictReader(made.published()["coarsened.csv"].decode().splitlines()))
    assert {row["ages"]: int(row["count"]) for row in records} == {"10-14": 11, "15+": 109}
    lists = [["5-9", "7", "10-14", "15+"], ["10-14", "5-9", "15+"]]
    others = [_by_ages(tmp_path / str(at), ages) for at, ages in enumerate(lists)]
    draws = [each.context.method.describe_declared() for each in (made, *others)]
    assert [draws.count(draw) for draw in draws] == [1, 1, 1]


def test_it_needs_a_dataset_that_allows_it_and_places_from_the_coarsest_on(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="in order"):
        coarsening_deployment(
            tmp_path / "order", products=[{"name": "one", "geography": ["county"], "dimensions": ["size"]}]
        )
    with pytest.raises(DeclarationError, match="no column"):
        coarsening_deployment(tmp_path / "column", key=["nothing"])
    # The county of every record, regardless of its size.
    with pytest.raises(DeclarationError, match="county is a place"):
        coarsening_deployment(tmp_path / "kept", geography=["region"], kept=["county"], products=[])
    assert "unbounded_releases" in refused(tmp_path / "finite")


def refused(root: Path) -> str:
    try:
        coarsening_deployment(root, dataset={"unbounded_releases": "refused"})
    except Exception as error:
        return str(error)
    return ""
