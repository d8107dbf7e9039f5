"""A release from recoded columns: they are ordinary columns to the mechanism, and different recodes stay distinct.

`tests/assets/cef/test_recodes.py` proves the effect of a recode on the records.
"""

import csv
import io
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assets.release.draw import Draw
from assets.release.seal import SealError
from assets.swapping.draw import SwappingInputs
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Session
from tests.deployments import (
    COUNTIES,
    TO_PUBLICATION,
    UNITS,
    households,
    small_dataset,
    small_deployment,
    small_release,
)

NORTH = COUNTIES[:1]


def recoded_units(root: Path, large_from: int) -> dict[str, Any]:
    """Households with only a class of their size in the CEF, and with their county and its area.

    No household has five persons or more, so large ones may begin at any size from 5 on without a difference.
    """
    columns = {name: column for name, column in UNITS.items() if name != "size"} | {
        "class": {
            "source": "size",
            "type": "integer",
            "bands": {"small": {"below": large_from}, "large": {"at_least": large_from}},
        },
        "area": {
            "source": "county",
            "type": "string",
            "role": "geography",
            "merge": {"Up": list(NORTH)},
            "everything_else": "Down",
        },
    }
    return {"path": str(root / "units.csv"), "columns": columns}


DECLARED = {
    "match": ["region", "class"],
    "swap": ["county", "area"],
    "products": [{"name": "classes_by_area", "geography": ["area"], "dimensions": ["class"], "totals": ["class"]}],
}


def drawn_as(root: Path, monkeypatch: pytest.MonkeyPatch, large_from: int, **changes: Any) -> Draw[SwappingInputs]:
    """The draw of a release from a CEF and counts that never change, under any declaration."""
    dataset = small_dataset(root, units=recoded_units(root, large_from))
    component = small_release(dataset, **(DECLARED | changes))
    method = component.method(component.release(dataset, root))
    monkeypatch.setattr("assets.release.method.read_basis", lambda *given: {})
    monkeypatch.setattr(method, "charged_tables", dict)
    # The inputs that a draw's description reads.
    inputs = SimpleNamespace(versions={"records": "the same"}, largest_stratum=3, loss=3)
    monkeypatch.setattr(method, "inputs", lambda *given: inputs)
    session = cast(Session, SimpleNamespace(compute_once=lambda name, compute: compute()))
    return method.describe(session, Custody(folder=str(root / "custody"), databases=str(root)))


def test_another_recode_of_what_a_release_reads_is_another_draw_even_if_no_record_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = drawn_as(tmp_path, monkeypatch, large_from=5)
    after = drawn_as(tmp_path, monkeypatch, large_from=6)
    assert before.draw_id != after.draw_id, "an equal draw would show that no household is in between"
    bands = after.made_of["parameters"]["recodes"]["class"]["bands"]
    assert bands == [["small", None, "6"], ["large", "6", None]]
    few = {"variables": ["region", "county"], "match": ["region"], "swap": ["county"], "products": []}
    one, other = (drawn_as(tmp_path, monkeypatch, large_from=size, **few) for size in (5, 6))
    assert one.draw_id == other.draw_id, "a release that does not read the column need not be charged again"
    assert "recodes" not in one.made_of["parameters"]


@pytest.mark.prove
def test_a_release_from_recoded_columns_is_published_and_another_recode_is_another_draw(tmp_path: Path) -> None:
    deployment, later = (
        small_deployment(tmp_path, dataset={"units": recoded_units(tmp_path, large_from)}, **DECLARED)
        for large_from in (5, 6)
    )
    deployment.run(*TO_PUBLICATION)
    published = deployment.published()
    rows = list(csv.DictReader(io.StringIO(published["classes_by_area.csv"].decode())))
    # The draw exchanges counties and areas together, within region and class, so that their numbers stay.
    areas = Counter("Up" if row["county"] in NORTH else "Down" for row in households())
    published_areas: Counter[str] = Counter()
    for row in rows:
        if row["class"] in ("small", "large"):
            published_areas[row["area"]] += int(row["count"])
    assert published_areas == areas
    resources = json.loads(published["datapackage.json"])["resources"]
    (fields,) = (each["schema"]["fields"] for each in resources if each["path"] == "classes_by_area.csv")
    assert "recoded from size" in fields[1]["description"].lower()
    with deployment.opened("confidential") as connection:
        columns = connection.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = 'units'").fetchall()
    assert ("class",) in columns
    assert ("size",) not in columns, "what is taken only to be recoded never enters the CEF"

    later.instance = deployment.instance
    assert "materialize cef again" in later.refusal("charge")
    assert later.ledger == deployment.ledger
    later.run("cef")
    with pytest.raises(SealError), later.context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        later.context.method.describe(session, later.context.custody)
    later.run(*TO_PUBLICATION)
    (first, second) = (entry for entry in later.ledger if entry.kind == "reserve")
    changed = second.parse_details().draw["parameters"]["recodes"]["class"]["bands"]
    assert changed == [["small", None, "6"], ["large", "6", None]]
    before, after = (entry.parse_details().draw["inputs"] for entry in (first, second))
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values()), "equal versions would show that no household is in between"
