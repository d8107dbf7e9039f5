"""Files of PPMF and PUMS are read cell by cell, as public records, and published without a charge.

The wrong programs here: one that loses a leading zero or takes a column for another one; one that reads a file with
another code; and one that charges, or publishes without explanation.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from assets.cef.ingestion import SourceError, ingest
from assets.release.columns import Column
from assets.release.dataset import DatasetDeclaration
from orchestration.components import PpmfDataset, PumsDataset
from resources.chain import PUBLIC_BECAUSE
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.contract.kinds import to_publication
from tests.deployments import deploy, write_csv
from tests.depth import deep_cases, quick_cases
from tests.table_builder_deployments import hypercubes

PLACES = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "TABBLKGRPCE", "AIANNHCE"]
HEADERS = {
    "persons": "EPNUM RTYPE GQTYPE RELSHIP QSEX QAGE CENHISP CENRACE LIVE_ALONE NUMRACE PGQSHRT GQTYPE_PL VOTING_AGE",
    "units": "RTYPE GQTYPE TEN VACS HHSIZE HHT HHT2 CPLT UPART MULTG THHLDRAGE THHSPAN THHRACE PAOC TP18 TP60 TP65 "
    "TP75 PAC HHSEX TENSHORT HH_STATUS",
    "MDF": "SCHEMA_TYPE_CODE SCHEMA_BUILD_ID TABBLKST TABBLKCOU TABTRACTCE TABBLKGRPCE TABBLK EPNUM RTYPE GQTYPE_PL "
    "VOTING_AGE CENHISP CENRACE",
}
"""The columns of the published files, before the places, and of a file as the Bureau's system wrote it."""
PLACED = {"TABBLKST": "01", "TABBLKCOU": "001", "TABTRACTCE": "020100", "TABBLKGRPCE": "1", "TABBLK": "1000"}


def values_of(column: Column) -> list[str]:
    if column.codes:
        return list(column.codes)
    return [str(column.minimum), str(column.maximum)]


def declare_ppmf(path: Path, product: str, records: str, **changes: Any) -> DatasetDeclaration:
    declared = {"name": "ppmf", "title": "PPMF", "source": "The Bureau", "product": product, "records": records}
    return PpmfDataset.resolve_from_yaml(yaml.safe_dump(declared | {"path": str(path)} | changes)).declaration


def read(declaration: DatasetDeclaration, root: Path) -> dict[str, list[dict[str, Any]]]:
    with Warehouse(folder=str(root / "warehouse"), threads=1).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, root, bytes(32))
        tables = zip(declaration.tables, declaration.cef_tables(), strict=True)
        return {name: session.arrow("warehouse/all", source=table).to_pylist() for name, table in tables}


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("product", "records", "header", "separator"),
    [
        ("dhc", "persons", "persons", ","),
        ("redistricting", "persons", "persons", ","),
        ("redistricting", "persons", "MDF", "|"),
        ("dhc", "units", "units", ","),
        ("redistricting", "units", "units", ","),
    ],
)
def test_each_code_of_a_ppmf_is_read_and_no_other(
    product: str, records: str, header: str, separator: str, tmp_path: Path
) -> None:
    names = [*HEADERS[header].split(), *(PLACES if header != "MDF" else [])]
    path = tmp_path / "ppmf.csv"
    dialect = {"csv": {"separator": separator}} if separator != "," else {}
    declaration = declare_ppmf(path, product, records, **dialect)
    columns = declaration.units.columns
    assert set(columns) <= set(names)
    assert (declaration.public, declaration.cap, declaration.asks) == (True, None, False)
    domains = {name: values_of(column) for name, column in columns.items() if name not in PLACED}
    rows = [
        {name: PLACED.get(name, "9") for name in names}
        | {name: values[number % len(values)] for name, values in domains.items()}
        for number in range(max(map(len, domains.values())))
    ]

    def write(written: list[dict[str, str]]) -> None:
        path.write_text("".join(separator.join(fields) + "\n" for fields in [names, *(r.values() for r in written)]))

    write(rows)
    numbers = {"QAGE", "HHSIZE"}
    expected = [{name: int(row[name]) if name in numbers else row[name] for name in columns} for row in rows]
    assert sorted(read(declaration, tmp_path)["units"], key=repr) == sorted(
        [{name: row[name] for name in expected[0]} for row in expected], key=repr
    )
    write([*rows[1:], dict.fromkeys(names, "999999999")])
    with pytest.raises(SourceError) as error:
        read(declaration, tmp_path)
    assert {name for name in columns if re.search(rf"\b{name}\b", str(error.value))} == set(columns)


@pytest.mark.parametrize("state", ["STATE", "ST"])
def test_pums_is_read_with_its_persons(state: str, tmp_path: Path) -> None:
    """The first columns are those of the files of 2023, and of 2019 with ST."""
    places = {"PUMA": "00300", "REGION": "3", state: "01"}
    housing = [
        {"RT": "H", "SERIALNO": serial, "DIVISION": "6", **places, "ADJHSG": "1000000", "ADJINC": "1019518"}
        | {"WGTP": weight, "NP": persons, "TYPEHUGQ": "1", "TEN": "", "HINCP": "", "WGTP1": "-3"}
        for serial, weight, persons in (
            ("2023HU0000001", "00042", "2"),
            ("2023HU0000002", "15", "0"),
            ("2023GQ0000003", "0", "1"),
        )
    ]
    persons = [
        {"RT": "P", "SERIALNO": serial, "DIVISION": "6", "SPORDER": "01", **places, "ADJINC": "1019518"}
        | {"PWGTP": weight, "AGEP": age, "SEX": "2", "WAGP": "", "RAC1P": race, "HISP": hispanic, "PWGTP1": "-3"}
        for serial, weight, age, race, hispanic in (
            ("2023HU0000001", "45", "99", "9", "01"),
            ("2023HU0000001", "38", "0", "1", "24"),
            ("2023GQ0000003", "7", "19", "5", "02"),
        )
    ]
    write_csv(tmp_path / "psam_h01.csv", housing)
    write_csv(tmp_path / "psam_p01.csv", persons)
    declared = {"name": "pums", "title": "PUMS", "source": "The Bureau", "state": state}
    files = {"housing": str(tmp_path / "psam_h01.csv"), "persons": str(tmp_path / "psam_p01.csv")}
    declaration = PumsDataset.resolve_from_yaml(yaml.safe_dump(declared | files)).declaration
    assert declaration.public
    found = read(declaration, tmp_path)
    numbers = {"WGTP", "NP", "PWGTP", "AGEP"}
    for table, rows in (("units", housing), ("persons", persons)):
        names = list(declaration.tables[table].columns)
        expected = [{name: int(row[name]) if name in numbers else row[name] for name in names} for row in rows]
        assert sorted(found[table], key=repr) == sorted(expected, key=repr)


@pytest.mark.prove
def test_a_ppmf_is_published_without_a_charge(tmp_path: Path) -> None:
    path = tmp_path / "ppmf.csv"
    rows = [
        {"RTYPE": "3", "GQTYPE_PL": "0", "VOTING_AGE": "12"[n % 2], "CENHISP": "1", "CENRACE": "01"} | PLACED
        for n in range(100)
    ]
    write_csv(path, rows)
    cube = {"name": "ages", "of": "units", "variables": ["VOTING_AGE"], "epsilon": 1}
    deployment = deploy(tmp_path, declare_ppmf(path, "redistricting", "persons"), *hypercubes("ppmf", cube))
    refusal = deployment.refusal()
    given = dict(re.findall(r'(authorized_loss|authorized_draw): "(.*)"', refusal)) | {"authorized_by": "Ada"}
    deployment.authorization = given | {PUBLIC_BECAUSE: "The Bureau published them in 2021"}
    deployment.run(*to_publication(deployment.context.method))
    certificate = json.loads(deployment.published()["certificate.json"])
    assert (certificate["dataset"]["public"], certificate["ledger"]["cap"]) == (True, None)
