"""Extracts from the codebook to the published table, and the proposals and refusals of `stirred new dataset`."""

import csv
import random
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyreadstat
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from assets.cef.ingestion import ingest
from assets.cef.profile import profile
from assets.cef.validation import SourceError
from assets.release.dataset import DatasetDeclaration, Reader
from orchestration.checking import declaration_problems
from orchestration.extract import find_files, select_columns
from orchestration.proposal import Proposal, propose_dataset
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.assets.cef.extracts import Variable, write_codebook, write_lines, write_record
from tests.assets.cef.test_extracts import RECTANGULAR, make_records, write_hierarchical
from tests.contract.kinds import to_publication
from tests.deployments import deploy
from tests.table_builder_deployments import hypercubes


def propose(root: Path, given: Path, **options: Any) -> Proposal:
    files, profiles = find_files(given), []
    with Warehouse(folder=str(root / "proposing")).session() as session:
        for file in files:
            contents = profile(session, file.reader, file.path, file.described, file.variables)
            fields = {"codebook": str(file.codebook)} if file.codebook else {}
            fields |= {"record_type": file.record_type} if file.record_type else {}
            profiles.append((file.path, select_columns(file, replace(contents, fields=fields))))
    return propose_dataset("village", files[0].reader, *profiles, **options)


@pytest.mark.prove
def test_a_hierarchical_extract_becomes_a_table_with_the_labels_of_its_codebook(tmp_path: Path) -> None:
    """From `new dataset` through `check` and `launch` to the table, within a minute of processor time. Wrong program:
    one that loses labels or records."""
    started = time.process_time()
    records = make_records(360, random.Random(5))
    proposal = propose(
        tmp_path,
        write_hierarchical(tmp_path / "cps_00007.xml", tmp_path / "cps_00007.dat.gz", records),
        key="household",
        record_name="household",
    )
    with create_defs_folder_sandbox() as sandbox:
        (sandbox.defs_folder_path / "village").mkdir()
        (sandbox.defs_folder_path / "village" / "defs.yaml").write_text(proposal.text)
        with sandbox.build_component_tree() as tree:
            assert declaration_problems(tree, tmp_path) == []
    declared = DatasetDeclaration.model_validate(
        yaml.safe_load(proposal.text)["attributes"] | {"charging": "automatic"}
    )
    columns = {**declared.units.columns, **(declared.persons.columns if declared.persons else {})}
    assert columns["STATEFIP"].labels == {"01": "Alabama", "02": "Alaska", "06": "California"}
    assert (columns["INCTOT"].type, columns["INCTOT"].null) == ("integer", ("9999999",))
    assert (columns["HHWT"].title, columns["AGE"].type) == ("Household weight", "integer")
    assert "9999999" in "".join(proposal.warnings)
    assert "N/A" in "".join(proposal.warnings)
    cube = {"name": "sexes", "of": "persons", "variables": ["STATEFIP", "SEX"], "epsilon": 4}
    deployment = deploy(tmp_path, declared, *hypercubes("village", cube))
    assert deployment.run(*to_publication(deployment.context.method), checks=True).success
    assert time.process_time() - started < 60
    published = tmp_path / "published" / "village" / "tables_sexes"
    with (published / "hypercube.csv").open(newline="") as file:
        cells = [row for row in csv.DictReader(file) if row["STATEFIP"] and row["SEX"]]
    true = [(records[number // 3 * 3]["STATEFIP"], each["SEX"]) for number, each in enumerate(records)]
    assert len(cells) == 9
    for row in cells:
        # With noise of scale 1/2, a count is off by 16 with a probability below 1e-13.
        assert abs(int(row["measured"]) - true.count((row["STATEFIP"], row["SEX"]))) < 16
    assert "California" in (published / "categories.csv").read_text()
    assert "State (FIPS code)" in (published / "datapackage.json").read_text()


@pytest.mark.prove
def test_a_proposal_takes_what_the_codebook_says(tmp_path: Path) -> None:
    records = make_records(300, random.Random(6))
    codebook = write_codebook(tmp_path / "usa_00012.xml", RECTANGULAR)
    write_lines(tmp_path / "usa_00012.dat", [write_record(RECTANGULAR, each) for each in records])
    from_text = propose(tmp_path, codebook)
    assert propose(tmp_path, tmp_path / "usa_00012.dat").text == from_text.text
    assert 'values: {1: "Male", 2: "Female", 9: "Missing/blank"}, title: "Sex"' in from_text.text
    declared = DatasetDeclaration.model_validate(yaml.safe_load(from_text.text)["attributes"])
    with Warehouse(folder=str(tmp_path / "warehouse")).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declared, tmp_path, b"key")
        assert [session.count(table) for table in declared.cef_tables()] == [100, 300]
    assert set(declared.units.variables) >= {"STATEFIP", "GQ", "HHWT"}
    assert set(declared.persons.variables if declared.persons else {}) >= {"SEX", "AGE", "INCTOT", "PERWT"}
    (tmp_path / "usa_00012.dat").unlink()
    table = pd.DataFrame(records)
    for name in ("STATEFIP", "SERIAL", "SEX"):
        table[name] = table[name].astype(int)
    table["HHWT"] = table["HHWT"].str.lstrip("0")
    for suffix, reader in ((".csv", "csv"), (".csv.gz", "csv"), (".parquet", "parquet")):
        path = tmp_path / f"usa_00012{suffix}"
        table.to_parquet(path) if reader == "parquet" else table.to_csv(path, index=False)
        beside = propose(tmp_path, codebook)
        path.unlink()
        assert f"reader: {reader}" in beside.text
        assert ("compression: gzip" in beside.text) == (suffix == ".csv.gz")
        assert 'values: {"1": "Alabama", "2": "Alaska", "6": "California"}' in beside.text, "as the file has the codes"
        assert re.search(r'INCTOT: {type: integer, .*null: \[("", )?"9999999"\], title: "Total personal', beside.text)
        assert "rectangular: {household: [SAMPLE, SERIAL], columns: " in beside.text


def test_every_label_and_record_type_of_a_codebook_is_taken(tmp_path: Path) -> None:
    """Wrong programs: one that labels 40 codes at most, so that 51 states have no names; one that takes households for
    type H alone, where time use surveys have 1, or needs households, where health surveys have none."""
    states = {f"{number:02}": f"State {number}" for number in range(1, 52)}
    fields = (Variable("SERIAL", 4, types="1 2"), Variable("STATEFIP", 2, "State", states, types="1"))
    fields = (Variable("RECTYPE", 1, text=True, types="1 2"), *fields, Variable("SEX", 1, "Sex", types="2"))
    lines = [text for n in range(102) for text in (f"1{n:>4}{n % 51 + 1:02}", f"2{n:>4}{n % 2}")]
    write_lines(tmp_path / "atus_1.dat.gz", lines)
    kinds = {"1": "Household Record", "2": "Person Record"}
    codebook = write_codebook(tmp_path / "atus_1.xml", fields, hierarchical=True, kinds=kinds)
    proposal = propose(tmp_path, codebook, key="household")
    declared = DatasetDeclaration.model_validate(yaml.safe_load(proposal.text)["attributes"])
    assert declared.units.columns["STATEFIP"].labels == states
    assert [records.record_type for records in declared.tables.values()] == ["1", "2"]
    # Two names of one place are no contradiction.
    twice = (*fields, Variable("SERIALR", 1, types="2"))
    write_codebook(codebook, twice, hierarchical=True, kinds={"1": "Round Record", "2": "Person Record"})
    codebook.write_text(codebook.read_text().replace('EndPos="7" StartPos="7"', 'EndPos="6" StartPos="6"'))
    (file,) = find_files(codebook)
    assert (file.record_type, file.described and file.described.count_records()) == ("2", 102)


def test_a_proposal_takes_labels_and_missing_values_of_statistical_packages(tmp_path: Path) -> None:
    """Wrong program: takes 200 for a rent, although it is labeled as no answer and not declared as missing."""
    incomes = [*map(float, range(100, 218)), 98.0, 99.0]
    frame = pd.DataFrame({"sex": [1.0, 2.0] * 60, "income": incomes, "asked": [1.0, 2.0, 8.0] * 40, "rent": incomes})
    labels = {"sex": {1: "Men", 2: "Women"}, "income": {98: "Refused"}, "asked": {1: "Yes", 2: "No", 8: "Don't know"}}
    labels["rent"] = {200: "weiß nicht", 98: "Miete in Euro"}
    pyreadstat.write_sav(
        frame,
        str(tmp_path / "a.sav"),
        column_labels={"sex": "Sex of the person"},
        variable_value_labels=labels,
        missing_ranges={"income": [{"lo": 90, "hi": 99}], "asked": [8]},
    )
    proposal = propose(tmp_path, tmp_path / "a.sav")
    columns = DatasetDeclaration.model_validate(yaml.safe_load(proposal.text)["attributes"]).units.columns
    assert (columns["sex"].title, columns["sex"].labels) == ("Sex of the person", {1: "Men", 2: "Women"})
    assert (columns["income"].null, columns["income"].minimum, columns["income"].maximum) == (("98", "99"), 100, 300)
    assert columns["rent"].null == ("200",)
    said = "".join(proposal.warnings)
    assert '"98" (Refused)' in said
    assert columns["asked"].codes == (1, 2, 8)
    assert 'asked is of categories that the file declares as no value, "8" (Don\'t know); list them in null' in said


@pytest.mark.parametrize(
    ("files", "given", "error"),
    [
        ((), "usa_1.xml", "usa_1.xml: there is no data file usa_1.dat.gz, .dat, .csv or the like beside it"),
        (
            ("usa_1.csv", "usa_1.dat.gz"),
            "usa_1.xml",
            "usa_1.xml: more than one data file beside it: usa_1.csv, usa_1.dat.gz; name one of them instead",
        ),
        (("usa_2.dat",), "usa_2.dat", "usa_2.dat: fixed-width text needs its codebook: there is no usa_2.xml"),
        (("usa_3.dat", "usa_3.xml"), "usa_3.dat", "usa_3.xml: describes another extract than usa_3.dat"),
        (("usa.doc",), "usa.doc", "usa.doc: its suffix is not one of .xml, .dat, .csv, "),
    ],
)
def test_files_that_do_not_belong_together_are_refused(
    tmp_path: Path, files: tuple[str, ...], given: str, error: str
) -> None:
    write_codebook(tmp_path / "usa_1.xml", RECTANGULAR)
    for name in files:
        if name.endswith(".xml"):
            write_codebook(tmp_path / name, RECTANGULAR, data_file="usa_9.dat")
        else:
            (tmp_path / name).write_text("1\n")
    with pytest.raises(SourceError) as refused:
        find_files(tmp_path / given)
    assert str(refused.value).startswith(error)


def test_the_reader_of_a_declaration_fits_its_files() -> None:
    table = {"path": "a.dat", "columns": {"a": {"type": "boolean"}}}
    for reader, changes in ((Reader.DDI, {}), (Reader.CSV, {"codebook": "a.xml"})):
        with pytest.raises(ValueError, match="codebook: it is required with reader ddi, and other readers take none"):
            DatasetDeclaration.model_validate(
                {"name": "s", "title": "S", "reader": reader, "cap": 1, "units": {**table, **changes}}
            )
