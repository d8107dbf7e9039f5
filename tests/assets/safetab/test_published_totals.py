"""SafeTab-H without persons: the totals come from a public file that was published elsewhere."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from assets.cef.census import detailed_files
from assets.safetab.declaration import SafeTabHDeclaration
from assets.safetab.lists import TOTALS, ListsFileError, read_totals
from orchestration.components.safetab import SafeTabH
from resources.statements import Zone
from tests.contract.kinds import to_publication
from tests.deployments import Deployment, deploy
from tests.gates import failing, keep_verdicts
from tests.safetab_deployments import HOUSEHOLDS, PERSONS, release_of_persons, safetab_deployment

SOURCE = "Bureau of Examples, https://example.org/*t1*"


def write_totals(path: Path, rows: list[tuple[Any, ...]]) -> Path:
    path.write_text("".join("|".join(map(str, row)) + "\n" for row in [tuple(TOTALS), *rows]), encoding="utf-8")
    return path


def without_persons(root: Path, totals: Path, **changes: Any) -> Deployment[Any]:
    """A deployment of the households alone, with the files of a town."""
    dataset = detailed_files(
        str(root / "GRF-C.txt"), None, str(root / "household-records.txt"), name="town", title="A town",
        cap={"rho": 60}, charging="automatic", population="town",
    )  # fmt: skip
    of_persons = {field: PERSONS[field] for field in ("states", "lists")}
    declared = {field: value for field, value in HOUSEHOLDS.items() if field != "detail"} | of_persons
    declared |= {"name": "c", "totals": {"path": str(totals), "source": SOURCE}} | changes
    return deploy(root, dataset, SafeTabH(SafeTabHDeclaration.model_validate(declared)))


@pytest.mark.prove
def test_a_file_of_totals_gives_the_groups_and_counts_of_the_release_that_published_it(tmp_path: Path) -> None:
    """Groups, their detail and exact counts agree with the release that reads the publication itself."""
    persons = safetab_deployment(tmp_path / "both")
    persons.reach(*to_publication(persons.context.method))
    both = safetab_deployment(tmp_path / "both", releases="h")
    both.reach("plan", "population_groups", "counts")
    t1 = pq.read_table(release_of_persons(both).folder / "t1.parquet").to_pylist()
    (tmp_path / "alone").mkdir()
    for name in ("GRF-C.txt", "household-records.txt"):
        (tmp_path / "alone" / name).write_bytes((tmp_path / "both" / name).read_bytes())
    rows = [tuple(row[name] for name in TOTALS) for row in t1]
    # Groups of an undeclared state, of a tract without a unit, and of an iteration that does not exist.
    measured = next(row[2] for row in rows if row[1] == "STATE")
    more = [("09", "STATE", measured, 5), ("01001999999", "TRACT", measured, 500), ("1", "USA", "0000", 7)]
    totals = write_totals(tmp_path / "pop-group-totals.txt", [*more, *reversed(rows)])
    alone = without_persons(tmp_path / "alone", totals)
    alone.reach("cef", "plan", "population_groups", "counts", "charge", "noisy_measurements", "tables", "publication")
    found = {}
    for name, deployment in (("both", both), ("alone", alone)):
        release = deployment.release
        with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            found[name] = [
                sorted(session.rows("warehouse/all", source=table))
                for table in (release.public("population_groups"), release.confidential("counts"))
            ]
    assert found["alone"] == found["both"]
    assert all(found["alone"])
    certificate = json.loads(alone.published()["certificate.json"])
    (detail,) = [each for each in certificate["mechanism"]["parameters"] if each["label"] == "Detail"]
    assert detail["value"] == f"The totals in pop-group-totals.txt, from {SOURCE}"
    keep_verdicts(alone)
    assert failing(alone) == set()
    # The gate reads the file itself, and so is asked every time.
    write_totals(totals, rows[1:])
    assert "groups_as_published" in failing(alone)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("01", "STATE", "1001", 3), ("01", "STATE", "1001", 4)], "a group is there twice: 1 row"),
        ([("01", "STATES", "1001", 3)], "REGION_TYPE: a type of regions is one of SafeTab's: 1 row"),
        ([("011", "STATE", "1001", 3)], "REGION_ID: a region is 1, or has 2, 4, 5, 7 or 11 digits: 1 row"),
        ([("01", "STATE", "101", 3)], "ITERATION_CODE: an iteration's code has four digits: 1 row"),
        ([("01", "STATE", "1001", "3.5")], "COUNT: a total is an integer: 1 row"),
        ([], "the file has no rows after the header"),
    ],
)
def test_a_file_of_totals_that_breaks_a_rule_is_refused(tmp_path: Path, rows: Any, says: str) -> None:
    with pytest.raises(ListsFileError, match=rf"pop-group-totals\.txt: {says}"):
        read_totals(write_totals(tmp_path / "pop-group-totals.txt", rows))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"detail": "a"}, "detail: name a release by SafeTab-P, or declare totals"),
        ({"totals": None}, "detail: name a release by SafeTab-P, or declare totals"),
        ({"totals": None, "detail": "a"}, "states: it follows from the release named in detail"),
        ({"states": None}, "states: they are required with totals"),
        ({"totals": {"path": "t.txt", "source": ""}}, "totals.source"),
    ],
)
def test_totals_and_detail_exclude_each_other(changes: dict[str, Any], says: str) -> None:
    declared = {field: value for field, value in HOUSEHOLDS.items() if field != "detail"}
    declared |= {"states": ["01"], "totals": {"path": "t.txt", "source": SOURCE}} | changes
    with pytest.raises(ValueError, match=says):
        SafeTabHDeclaration.model_validate(declared)
