"""The dataset of 1940 Massachusetts: the published table, and the household sizes added to it."""

from math import gcd
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from assets.cef.ingestion import ingest
from assets.cef.readers import MA1940_SIZES, MA1940_STRIDE
from assets.cef.validation import cef_problems
from assets.release.dataset import DatasetDeclaration
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

DEFS = Path(__file__).resolve().parents[3] / "orchestration" / "defs" / "ma1940" / "dataset" / "defs.yaml"

# The published table, copied a second time to reveal a mistake in the packaged file.
OWNED_AND_RENTED = {
    "Barnstable": (7461, 3825),
    "Berkshire": (14736, 18417),
    "Bristol": (33747, 63931),
    "Dukes": (1207, 534),
    "Essex": (53936, 81300),
    "Franklin": (7433, 6442),
    "Hampden": (30597, 58166),
    "Hampshire": (9427, 8630),
    "Middlesex": (104144, 147687),
    "Nantucket": (593, 432),
    "Norfolk": (44885, 40285),
    "Plymouth": (24857, 23882),
    "Suffolk": (49656, 176553),
    "Worcester": (53126, 78535),
}
DWELLINGS = 1_144_424


@pytest.fixture(scope="module")
def dwellings(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The CEF of the dataset, as declared in this deployment."""
    declaration = DatasetDeclaration.model_validate(yaml.safe_load(DEFS.read_text(encoding="utf-8"))["attributes"])
    assert declaration.synthetic
    folder = tmp_path_factory.mktemp("ma1940")
    statements: list[str] = []
    execute = Session._execute

    def record(session: Session, name: Any, *given: Any, **stated: Any) -> Any:
        statements.append(str(name))
        return execute(session, name, *given, **stated)

    with Warehouse(folder=str(folder)).session(writes=Zone.CONFIDENTIAL) as session:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Session, "_execute", record)
            ingest(session, declaration, folder, bytes(32))
        # All values are of their types: counted, they would be generated twice, and converted, read from texts again.
        assert statements.count("cef/typed") == 1
        # The serial numbers ascend.
        assert not {"cef/count_ill_typed", "cef/converted", "cef/count_repeated_keys"} & set(statements)
        assert cef_problems(session, declaration) == []
        (table,) = declaration.cef_tables()
        columns = list(declaration.units.stored)
        return session.arrow("cef/records", columns=columns, table=table).to_pandas()


@pytest.mark.prove
def test_the_published_table_is_reproduced_cell_by_cell(dwellings: pd.DataFrame) -> None:
    table = dwellings.groupby(["county", "tenure"]).size()
    assert len(table) == 28
    assert {
        county: (table[county, "owned"], table[county, "rented"]) for county in OWNED_AND_RENTED
    } == OWNED_AND_RENTED
    assert len(dwellings) == DWELLINGS
    assert set(dwellings["state"]) == {"MA"}
    assert dwellings["serial"].is_unique


@pytest.mark.prove
def test_two_person_households_have_the_published_number_and_are_the_mode(dwellings: pd.DataFrame) -> None:
    sizes = dwellings["persons_per_household"].value_counts()
    assert sizes.to_dict() == MA1940_SIZES
    assert sorted(sizes.index) == list(range(1, 13))
    assert sizes.idxmax() == 2
    assert sizes[2] == 264_331


@pytest.mark.prove
def test_sizes_are_independent_of_county_and_tenure(dwellings: pd.DataFrame) -> None:
    overall = dwellings["persons_per_household"].value_counts(normalize=True)
    within = dwellings.groupby(["county", "tenure"])["persons_per_household"].value_counts(normalize=True)
    difference = (within.unstack(fill_value=0) - overall).abs()
    assert difference.to_numpy().max() < 0.01


def test_the_stride_visits_every_place_once() -> None:
    assert sum(MA1940_SIZES.values()) == DWELLINGS
    assert gcd(MA1940_STRIDE, DWELLINGS) == 1
