"""Declarations proposed from files: their contents come from the files, and they are accepted unchanged."""

import csv
import re
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.cef.ingestion import ingest
from assets.cef.profile import profile
from assets.cef.validation import SourceError
from assets.coarsening.declaration import CoarseningDeclaration
from assets.release.dataset import DatasetDeclaration, Reader
from assets.release.release import DeclarationError
from assets.suppression.declaration import SuppressionDeclaration
from assets.swapping.declaration import SwappingDeclaration
from assets.table_builder.declaration import TableBuilderDeclaration
from assets.table_builder.release import HypercubeRelease
from orchestration.checking import Problem
from orchestration.cli.new import _write_draft
from orchestration.components import Coarsening, Suppression, TableBuilder
from orchestration.components.scaffolding import fill_in_example
from orchestration.components.swapping import PermutationSwapping
from orchestration.proposal import (
    MOST_PROPOSED,
    Proposal,
    propose_coarsening,
    propose_dataset,
    propose_name,
    propose_suppression,
    propose_swapping,
    propose_tables,
    propose_title,
    widen,
)
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.depth import examples

HOUSEHOLDS = [
    {
        "hh_id": str(number),
        "county": ("001", "002")[number % 2],
        "size": str(number % 4 + 1),
        "tenure": ("own", "no", "1e3")[number % 3],
        "income": str(number // 2 * 1034 - 3),
        "built": f"19{number % 90 + 10}-01-02" if number % 5 else "",
        "rent": f"{number}.5",
        "heated": ("true", "false")[number % 2],
        "address": f'{number} Main St, "O\'Hara"',
    }
    for number in range(250)
]
PERSONS = [
    {"serial": str(number), "hh_id": str(number % 250), "size": "7", "age": str(number % 98)} for number in range(400)
]


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(folder=str(tmp_path / "warehouse"))


def proposed(warehouse: Warehouse, units: Path, persons: Path | None = None, **given: Any) -> Proposal:
    reader = Reader(units.suffix.removeprefix("."))
    with warehouse.session() as session:
        found = [(path, profile(session, reader, path)) for path in (units, persons) if path]
    return propose_dataset("town", reader, *found, **given)


def declared(proposal: Proposal) -> DatasetDeclaration:
    return DatasetDeclaration.model_validate(attributes_of(proposal))


def attributes_of(proposal: Proposal) -> Any:
    return yaml.safe_load(proposal.text)["attributes"]


def records_read(warehouse: Warehouse, declaration: DatasetDeclaration) -> list[int]:
    """Read the dataset as declared; every value must be in its domain."""
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, Path("/"), b"key")
        return [session.count(table) for table in declaration.cef_tables()]


def test_a_proposal_is_read_as_it_is_and_names_what_to_look_at(warehouse: Warehouse, tmp_path: Path) -> None:
    units, persons = written(tmp_path / "units.csv", HOUSEHOLDS), written(tmp_path / "persons.csv", PERSONS)
    proposal = proposed(warehouse, units, persons, record_name="household")
    declaration = declared(proposal)
    columns = declaration.units.columns
    assert {name: (column.type.value, column.role.value) for name, column in columns.items()} == {
        "hh_id": ("integer", "key"),
        "county": ("string", "geography"),
        "size": ("integer", "characteristic"),
        "tenure": ("string", "characteristic"),
        "income": ("integer", "characteristic"),
        "built": ("date", "characteristic"),
        "rent": ("decimal", "characteristic"),
        "heated": ("boolean", "characteristic"),
    }
    assert columns["tenure"].codes == ("1e3", "no", "own"), "what YAML would read as something else is in quotes"
    assert columns["built"].nullable
    assert (columns["income"].minimum, columns["income"].maximum) == (-100000, 200000), "not the incomes of a person"
    assert "Main St" not in proposal.text
    assert declaration.persons
    assert declaration.persons.columns["hh_id"].role.value == "unit"
    assert declaration.persons.columns["person_size"].source == "size"
    assert [warning.partition(" is ")[0] for warning in proposal.warnings] == [
        "units: column income", "units: column built", "units: column rent", "units: column address",
    ]  # fmt: skip
    assert records_read(warehouse, declaration) == [250, 400]
    release = propose_swapping(declaration, "swapped")
    swapping = SwappingDeclaration.model_validate(yaml.safe_load(release.text)["attributes"])
    PermutationSwapping(swapping).release(declaration, tmp_path)
    assert "Left out: income, built, rent" in release.text
    hypercube = yaml.safe_load(propose_tables(declaration, "tables").text)["attributes"]
    # Columns in their own letters, so that a reader finds STATEFIP; the release's title stands where its cube's does.
    assert hypercube["title"] == hypercube["hypercubes"][0]["title"] == "Persons by county, size, tenure"
    (built,) = (
        each.release(declaration, tmp_path)
        for each in TableBuilder(TableBuilderDeclaration.model_validate(hypercube)).releases()
    )
    assert isinstance(built, HypercubeRelease)
    assert (built.cube.of, built.cube.variables) == ("persons", ["county", "size", "tenure"])
    assert all(built.columns[name].domain_size <= MOST_PROPOSED for name in built.cube.variables)
    # Wrong programs: products that count units where the release counts persons, and numbers as variables.
    without_noise = declaration.model_copy(update={"unbounded_releases": "allowed"})
    coarsened = CoarseningDeclaration.model_validate(attributes_of(propose_coarsening(declaration, "coarsened")))
    Coarsening(coarsened).release(without_noise, tmp_path)
    assert (coarsened.of, coarsened.geography, coarsened.key) == ("persons", ["county"], ["size", "tenure"])
    suppressed = SuppressionDeclaration.model_validate(attributes_of(propose_suppression(declaration, "suppressed")))
    Suppression(suppressed).release(without_noise, tmp_path)
    assert [product.columns for product in suppressed.products] == [("county", "size"), ("county",), ("size",)]


def test_a_column_named_like_one_of_our_own_is_marked_and_no_release_is_proposed_with_it(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    rows = [{"county": str(number % 2), "Persons": str(number % 4), "tenure": "ab"[number % 2]} for number in range(20)]
    proposal = proposed(warehouse, written(tmp_path / "units.csv", rows))
    (line,) = [line for line in proposal.text.splitlines() if line.strip().startswith("Persons:")]
    assert line.endswith("give it another name, with source: Persons")
    assert any("column Persons is named like a column of Stirred's own" in warning for warning in proposal.warnings)
    declaration = declared(proposal)
    release = yaml.safe_load(propose_swapping(declaration, "swapped").text)["attributes"]
    assert "Persons" not in [*release["match"], *release["variables"]]
    PermutationSwapping(SwappingDeclaration.model_validate(release)).release(declaration, tmp_path)


def test_a_hypercube_refuses_variables_named_like_its_own_columns(warehouse: Warehouse, tmp_path: Path) -> None:
    rows = [
        {"a": "xy"[number % 2], "Lower": "xy"[number // 2 % 2], "A_total": "zw"[number % 2]} for number in range(20)
    ]
    declaration = declared(proposed(warehouse, written(tmp_path / "units.csv", rows)))
    found = yaml.safe_load(propose_tables(declaration, "tables").text)["attributes"]
    (cube,) = found["hypercubes"]
    assert "Lower" not in cube["variables"]
    for taken, variables in (("Lower", ["a", "Lower"]), ("A_total", ["a", "A_total"])):
        tables = TableBuilderDeclaration.model_validate(
            found | {"hypercubes": [cube | {"variables": variables, "products": []}]}
        )
        (hypercube,) = TableBuilder(tables).releases()
        with pytest.raises(DeclarationError, match=f"variables: {taken} is the name of a column"):
            hypercube.release(declaration, tmp_path)


ODD = ["", "0", "007", "-0", "1.50", "true", "no", "~", "2020-02-30", "2020-02-29", "' # {", '"', "é"]
UNWRITABLE = "\x7f\x85\ufeff\u2028\u2029"
"""Letters that a declaration may refuse, in one sentence."""
TEXTS = st.one_of(
    st.sampled_from([*ODD, *UNWRITABLE]),
    st.integers(-(10**18) + 1, 10**18 - 1).map(str),
    st.decimals(-1000, 1000, places=2).map(str),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n", exclude_categories=["C"]), max_size=5),
)


@pytest.mark.prove
@settings(max_examples=examples(100), deadline=None)
@given(rows=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=30))
def test_whatever_a_file_contains_its_proposal_can_be_read(rows: list[tuple[str, str]], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("proposed")
    path = written(folder / "units.csv", [{"n": str(3 * i), "a": a, "b": b} for i, (a, b) in enumerate(rows)])
    warehouse = Warehouse(folder=str(folder / "warehouse"))
    if any(set("".join(row)) & set(UNWRITABLE) for row in rows):
        with suppress(DeclarationError):
            proposed(warehouse, path)
        return
    proposal = proposed(warehouse, path)
    assert records_read(warehouse, declared(proposal)) == [len(rows)]


@given(lowest=st.integers(-(10**9), 10**9), length=st.integers(0, 10**9))
def test_widened_bounds_contain_the_range_and_hide_the_greatest_value(lowest: int, length: int) -> None:
    low, high = widen(lowest, lowest + length)
    assert low <= lowest <= lowest + length < high
    assert high - low <= 30 * max(length, 1)


def kinds_of_columns() -> list[dict[str, str]]:
    """Records with features of foreign files: codes among numbers, several notations, nested places."""
    return [
        {
            "hoursPaid": f"{100 + number / 7:.9f}",
            "caseId": str(7 * number),
            "région": f"R{number % 4}",
            "COUNTYFIP": str(number % 24 + 1),
            "ST": str(number % 3 + 1),
            "income": ("9999999", "9999998", "NA")[number % 3] if number % 5 == 0 else str(number * 37),
            "hours": str(996 + number % 4) if number % 7 == 0 else str(number % 61),
            "benefit": str(-9 + number // 6 % 2) if number % 6 == 0 else str(number % 90 * 100),
            "loss": str(number // 2 * 62 - 2000),
            "net": "-9" if number % 9 == 0 else str(number * 62 - 2000),
            "wages": "99998" if number % 9 == 0 else str(number * 397),
            "age": str(number % 100),
            "height": ("9999", "9994")[number % 2] if number % 9 == 0 else str(800 + number),
            "ethnic": ("-9", "-7", "1", "2")[number % 4],
            "asked": "refused" if number == 50 else str(number * 3),
            "PERWT": f"{number * 1.23456 - 9:.6f}",
            "scientific": "1e+05" if number == 100 else str(number),
            "thousands": f"{number // 2 * 1000 + 1000:,}",
            "padded": f"{'0' * (number % 2)}{number % 90}",
            "code": ("1", "2", "01")[number % 3],
            "pandas": ("1.0", "2.0", "")[number % 3],
            "known": ("0", "1", "N/A")[number % 3],
            "heated": ("true", "false", ".")[number % 3],
            "blank": ("01", "01 ")[number % 2],
            "exporter": ("yes", "no", "NA")[number % 3],
            "street": ("Straße", "STRASSE", "Platz")[number % 3],
        }
        for number in range(420)
    ]


def test_weights_and_numbers_of_persons_are_no_categories(warehouse: Warehouse, tmp_path: Path) -> None:
    """Wrong programs: one that lists the few weights of a stratified sample as codes, one that publishes them or the
    persons' numbers as variables, and one that takes codes such as 9, 99 and 99999.98 for categories or numbers, or
    amounts with zeros before them for codes, without a word."""
    rows = [
        {
            "PERNUM": str(number % 4 + 1),
            "design_weight": str(100 + number % 2 * 10),
            "wt2": f"{number % 2 + 1}.0",
            "vikt": str(number % 3 * 5),
            "v005": str(150_000 + number // 2 * 7_001),
            "sex": ("1", "2", "9")[number % 3],
            "education": ("1", "2", "3", "-8", "99")[number % 5],
            "change": ("-1", "0", "1")[number % 3],
            "race": ("1", "6", "7", "8")[number % 4],
            "hours": str(97 + number % 3) if number % 4 == 0 else str(number * 7 % 71),
            "age": str(number * 7 % 100),
            "days": str(99 if number % 150 == 7 else number * 7 % 71),
            "pay": (f"99999.9{8 + number % 2}" if number % 9 < 2 else f"{number * 9 + 0.25:.2f}"),
            "amount": f"{number * 7 % 500:07d}",
            "rent": f"{number + 1000:,}",
        }
        for number in range(600)
    ]
    proposal = proposed(warehouse, written(tmp_path / "units.csv", rows))
    declaration, said = declared(proposal), "\n".join(proposal.warnings)
    columns = declaration.units.columns
    assert {name: columns[name].type.value for name in ("design_weight", "wt2", "vikt")} == {
        "design_weight": "integer", "wt2": "decimal", "vikt": "integer",
    }  # fmt: skip
    assert not any(columns[name].values for name in ("design_weight", "wt2", "vikt"))
    assert columns["pay"].null == ("99999.99", "99999.98")
    for sentence in (
        "column vikt is a weight: take its bounds from the design of the survey.",
        "a weight of large whole numbers: if the codebook implies decimals, as six for v005,",
        'column sex is a list of codes in which "9" may stand for no value; if so, move it to null.',
        'column education is a list of codes in which "-8", "99" may stand for no value; if so, move it to null.',
        'column hours is of numbers, of which "99" (50 rows), "98" (50 rows), "97" (50 rows) stand apart; list those',
        'column days is of numbers, of which "99" (4 rows) stand apart; list those that stand for no value in null.',
        "column amount is text, because of zeros before numbers; if they are amounts, declare type integer.",
        "column rent is left out: text and no number, because of marks between thousands in 600 rows",
    ):
        assert sentence in said
    assert not any(f"column {name} " in said for name in ("change", "race", "age"))
    tables = propose_tables(declaration, "tables")
    (cube,) = attributes_of(tables)["hypercubes"]
    assert cube["variables"] == ["sex", "education"]
    assert "column vikt is a weight: without the field weight, the hypercube counts" in "\n".join(tables.warnings)


def test_columns_of_european_and_other_surveys_are_recognized(warehouse: Warehouse, tmp_path: Path) -> None:
    """Wrong programs: one that sums the weights of EU-SILC or an expansion factor as amounts, or takes a respondent
    ("responder") or pesos for a weight; one that takes an area in square meters for a place; and one that knows no
    regions, counties or households with numbers or foreign words for names."""
    units = [
        {
            "DB030": str(number),
            "DB040": f"CZ0{number % 8 + 1}",
            "DB090": str(number * 17 % 150),
            "FACTOR": str(number * 13 % 200),
            "responder": str(number % 3),
            "pesos": str(number % 4),
            "floor_area": str(20 + number * 7 % 100),
            "rating": ("-9", "1", "2", "9")[number % 4],
        }
        for number in range(300)
    ]
    persons = [
        {"RB030": str(10 * number + 1), "RB040": str(number // 2), "Län": f"0{number // 2 % 3 + 1}"}
        for number in range(600)
    ]
    proposal = proposed(warehouse, written(tmp_path / "d.csv", units), written(tmp_path / "r.csv", persons))
    declaration, said = declared(proposal), "\n".join(proposal.warnings)
    assert declaration.persons
    columns = {**declaration.units.columns, **declaration.persons.columns}
    assert {name: column.role.value for name, column in columns.items() if column.role.value != "characteristic"} == {
        "DB030": "key", "DB040": "geography", "RB030": "key", "RB040": "unit", "Län": "geography",
    }  # fmt: skip
    weights = [name for name in columns if f"column {name} is a weight" in said]
    assert (weights, columns["responder"].codes, columns["pesos"].codes) == (
        ["DB090", "FACTOR"], (0, 1, 2), (0, 1, 2, 3),
    )  # fmt: skip
    assert 'column rating is a list of codes in which "-9", "9" may stand for no value' in said
    # Another file of persons, whose number of the household has no word for it.
    renamed = written(tmp_path / "u.csv", [{"URUT": row["DB030"], "WI1": row["pesos"]} for row in units])
    of_persons = written(tmp_path / "p.csv", [{"URUT": row["RB040"], "R405": row["Län"]} for row in persons])
    assert declared(proposed(warehouse, renamed, of_persons)).units.key == "URUT"
    numbered = [{"Hushållsnr": row["RB040"], "Län": row["Län"], "age": row["RB030"][-3:]} for row in persons]
    proposal = proposed(warehouse, written(tmp_path / "l.csv", numbered))
    assert attributes_of(proposal)["rectangular"] == {"household": ["Hushållsnr"], "columns": ["Län"]}
    with pytest.raises(DeclarationError, match="variable with at most 30 values; for those of persons, use --kind tab"):
        propose_swapping(declared(proposal), "swapped")


def test_rows_without_any_value_are_pointed_out(warehouse: Warehouse, tmp_path: Path) -> None:
    """Wrong program: one that counts the empty rows below a table of Excel as records without a word."""
    path = tmp_path / "export.csv"
    path.write_text("id,size\na,1\nb,2\n,\n,\n")
    assert (
        "export.csv has records without any value: 2. Each counts, so delete their rows"
        in proposed(warehouse, path).warnings
    )


def test_rows_of_several_kinds_and_repeated_keys_are_pointed_out(warehouse: Warehouse, tmp_path: Path) -> None:
    """Wrong programs: one that counts households and persons of a hierarchical file as records of one kind, and one
    that does not tell which key is repeated, or takes a misspelled one for repeated."""
    rows = [{"RECTYPE": "HP"[number % 2], "hhid": str(number), "sex": str(number % 2)} for number in range(40)]
    proposal = proposed(warehouse, written(tmp_path / "units.csv", rows))
    assert any("rows are of several kinds by RECTYPE" in sentence for sentence in proposal.warnings)
    path = written(tmp_path / "repeated.csv", [*rows, rows[0]])
    for key, reason in (
        (None, "hhid: 41 rows have 40 different values, and 0 none"),
        ("hhid", "does not identify each record: 41 rows have 40 different values"),
        ("hidd", "column hidd is not in the file: there are RECTYPE, hhid, sex"),
    ):
        with pytest.raises(DeclarationError, match=reason):
            proposed(warehouse, path, path, key=key)


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029"])
def test_a_name_in_a_comment_declares_nothing(warehouse: Warehouse, tmp_path: Path, end: str) -> None:
    """Wrong program: the name of a column ends the comment, as YAML reads it, and makes the records synthetic, which an
    editor shows as one line."""
    declared = [
        "  synthetic: true",
        "  persons:",
        "    path: b.csv",
        "    columns:",
        "      a: {type: integer, role: unit}",
    ]
    name = end.join(["person_id", "      serial: {type: integer, role: key}", *declared, "      #"])
    rows = [f"{1000 + number % 400},{('own', 'rent')[number % 2]}" for number in range(500)]
    source = tmp_path / "town.csv"
    source.write_text("\n".join([f'"{name}",tenure', *rows]) + "\n", encoding="utf-8")
    with warehouse.session() as session:
        proposal = propose_dataset("town", Reader.CSV, (source, profile(session, Reader.CSV, source)))
    attributes = yaml.safe_load(proposal.text)["attributes"]
    assert "several rows have the same person_id" in proposal.text
    assert "synthetic" not in attributes
    assert list(attributes["units"]["columns"]) == ["tenure"]


@pytest.mark.deep
def test_what_foreign_files_have_is_found_and_said(warehouse: Warehouse, tmp_path: Path) -> None:
    """Wrong programs: a key that ends in "id"; a bound that includes a code; a code among true values (age 99, losses);
    a number that becomes text for one word; places in all combinations."""
    proposal = proposed(warehouse, written(tmp_path / "units.csv", kinds_of_columns()))
    declaration = declared(proposal)
    columns = declaration.units.columns
    assert declaration.units.key == "caseId"
    assert {name: column.written["null"] for name, column in columns.items() if column.null} == {
        "income": ("NA", "9999999", "9999998"),
        "hours": ("999", "998", "997", "996"),
        "benefit": ("-9", "-8"),
        "height": ("9999", "9994"),
        "asked": ("refused",),
        "known": ("N/A",),
        "heated": (".",),
    }
    assert {name: (column.minimum, column.maximum) for name, column in columns.items() if column.maximum} == {
        "hoursPaid": (100, 160), "income": (0, 20000), "hours": (0, 70), "benefit": (0, 9000), "loss": (-10000, 20000),
        "net": (-10000, 30000), "wages": (0, 200000),
        "height": (800, 1300),
        "age": (0, 100), "asked": (0, 2000), "PERWT": (-100, 600), "scientific": (0, 200000),
    }  # fmt: skip
    assert {name for name, column in columns.items() if column.rounded} == {"hoursPaid", "PERWT", "scientific"}
    assert [name for name, column in columns.items() if column.role.value == "geography"] == [
        "région",
        "COUNTYFIP",
        "ST",
    ]
    assert (columns["COUNTYFIP"].within, columns["région"].within) == ("région", None)
    assert columns["padded"].pattern == "[0-9]{1,3}"
    assert (columns["code"].codes, columns["pandas"].codes, columns["known"].codes) == (
        ("01", "1", "2"), ("1.0", "2.0"), (0, 1),
    )  # fmt: skip
    said = "\n".join(proposal.warnings)
    for sentence in (
        'column income is taken as no value where it is "NA" (28 rows), "9999999" (28 rows), "9999998" (28 rows); ',
        'column asked is taken as no value where it is "refused" (1 row);',
        "column PERWT is rounded to 4 digits, because of more than 4 digits after the point in 420 rows; a weight that "
        "is negative in 8 rows.",
        "column scientific is rounded to 4 digits, because of an exponent, as in 1e+05 in 1 row;",
        "column thousands is left out: text and no number, because of marks between thousands in 420 rows;",
        "column blank is text with blanks at an end in 210 rows, which is part of the code; "
        'text in which "01", "01 " may be one category; if so, merge them.',
        'column code is text in which "01", "1" may be one category; if so, merge them.',
        'text in which "STRASSE", "Straße" may be one category; if so, merge them.',
        'column net is of numbers, of which "-9" (47 rows) stand apart; list those that stand for no value in null;',
        'column wages is of numbers, of which "99998" (47 rows) stand apart; list those that stand for no value',
        'column ethnic is a list of codes in which "-7", "-9" may stand for no value; if so, move it to null.',
        'column exporter is text in which "NA" may stand for no value; if so, move it to null.',
    ):
        assert sentence in said
    assert "blanks at an end in some rows" in proposal.text, "exact counts of records are in no declaration"
    assert not re.search(r"\d (row|code|number)s?\b", proposal.text)
    assert records_read(warehouse, declaration) == [420]
    for release, places in (
        (propose_swapping(declaration, "a"), "[COUNTYFIP, ST]"),
        (propose_tables(declaration, "b"), ""),
    ):
        (line,) = [
            line for line in release.text.splitlines() if line.strip().startswith(("geography:", "variables: [CO"))
        ]
        assert (places or "[COUNTYFIP, ") in line
        assert "rgion" not in release.text
    assert attributes_of(propose_coarsening(declaration, "c"))["geography"] == ["région", "COUNTYFIP"], "coarsest first"
    assert (propose_title("enquête_ménages"), propose_title("enque\u0302te EU-SILC")) == (
        "Enquête ménages",
        "Enquête EU-SILC",
    )
    assert (
        propose_name("Bev\N{LATIN SMALL LETTER O WITH DIAERESIS}lkerung je Région, Øst") == "bevolkerung_je_region_ost"
    )


def test_a_column_that_no_declaration_can_have_is_left_out_alone(warehouse: Warehouse, tmp_path: Path) -> None:
    """Wrong program: a refusal of the whole file, because one of its columns has a line break in a text."""
    odd = {"lines": "a\nb", "zero": "-0", "n" * 121: "1", "bell\a": "1", "unseen": "\u200b"}
    rows = [{"a": f"{number}", **odd} for number in range(3)] + [{"a": "3", **dict.fromkeys(odd, "0")}]
    proposal = proposed(warehouse, written(tmp_path / "units.csv", rows))
    declaration = declared(proposal)
    assert {name: column.codes for name, column in declaration.units.columns.items()} == {
        "a": (0, 1, 2, 3), "zero": (0,),
    }  # fmt: skip
    assert [sentence.partition(" left out: ")[2][:13] for sentence in proposal.warnings] == [
        "it has texts ", "its name has ", "its name has ", "it has texts ",
    ]  # fmt: skip
    assert records_read(warehouse, declaration) == [4]
    (tmp_path / "fixed.csv").write_text("\n".join(map(str, range(140000, 140012))))
    with pytest.raises(DeclarationError, match=r"fixed\.csv: its one column cannot be declared"):
        proposed(warehouse, tmp_path / "fixed.csv")
    (tmp_path / "names.csv").write_bytes(b"a\0b,c\n1,2\n")
    with pytest.raises(SourceError, match=r"^names\.csv: NUL in the name of a column$"):
        proposed(warehouse, tmp_path / "names.csv")


def test_a_range_has_its_integers_of_more_than_fourteen_digits(warehouse: Warehouse, tmp_path: Path) -> None:
    """Codes of blocks have such integers. Wrong program: one that finds ends among decimals alone."""
    rows = [{"a": f"{n % 3}", "block": f"{10**14 - 30 + n // 3}"} for n in range(180)]
    with warehouse.session() as session:
        (*_, block) = profile(session, Reader.CSV, written(tmp_path / "x.csv", rows)).columns
    assert (block.lowest, block.highest) == (10**14 - 30, 10**14 + 29)
    with warehouse.session() as session:
        (*_, block) = profile(session, Reader.CSV, written(tmp_path / "x.csv", rows[90:])).columns
    assert (block.lowest, block.highest) == (10**14, 10**14 + 29)


def test_a_row_of_totals_is_pointed_out(warehouse: Warehouse, tmp_path: Path) -> None:
    """Wrong programs: one that proposes the row like a record, so that every sum doubles; one that adds up codes."""
    rows = [
        {"a": f"{(n // 2) ** 2}", "b": "9999" if n % 5 == 0 else f"{n % 12}", "c": f"{n // 3}"} for n in range(1, 41)
    ]
    total = {name: f"{sum(int(row[name]) for row in rows if row[name] != '9999')}" for name in rows[0]}
    said = [
        [
            sentence.split()[2]
            for sentence in proposed(warehouse, written(tmp_path / "x.csv", of)).warnings
            if " sum " in sentence
        ]
        for of in ([*rows, total], [total | {"b": "1"}, *rows], rows)
    ]
    assert said == [["a", "b", "c"], ["a", "c"], []]


def test_a_place_in_two_larger_ones_is_refused(warehouse: Warehouse, tmp_path: Path) -> None:
    rows = [{"id": str(number), "region": "AB"[number % 2], "county": f"{number % 6}"} for number in range(24)]
    declaration = declared(proposed(warehouse, path := written(tmp_path / "units.csv", rows)))
    county = declaration.units.columns["county"]
    assert (county.within, county.nesting) == ("region", {"A": ["0", "2", "4"], "B": ["1", "3", "5"]})
    rows[3]["region"] = "A"
    written(path, rows)
    with pytest.raises(SourceError, match=r"column county: place in another region than nesting says: 1 row$"):
        records_read(warehouse, declaration)
    columns = declaration.units.columns | {"county": county.model_copy(update={"nesting": None})}
    units = declaration.units.model_copy(update={"columns": columns})
    with pytest.raises(SourceError, match=r"^units.csv: column county: place in more than one region: 4 rows$"):
        records_read(warehouse, declaration.model_copy(update={"units": units}))


def test_parquet_columns_that_are_not_exact_are_left_out(warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "units.parquet"
    table = pa.table(
        {
            "weight": [0.5, 1.5],
            "at": pa.array([1, 2], pa.timestamp("s")),
            "born": pa.array([-86400 * 10**9, None], pa.timestamp("ns")),
            "zip": pa.array(["01", "02"]).dictionary_encode(),
            "rent": pa.array([Decimal("1.25"), None], pa.decimal128(6, 2)),
            "heated": [True, False],
            # As pandas stores dates, integers if one is missing, and a category that no record has.
            "puma": [101.0, None],
            "rooms": [3.0, None],
            "bad": [9999.0, 1.5],
            "tenure": pa.DictionaryArray.from_arrays([0, 1], ["own", "rent", "free"]),
            "size": pa.DictionaryArray.from_arrays([0, 1], ["1", "2", "3+"]),
        }
    )
    pq.write_table(table, path)
    proposal = proposed(warehouse, path)
    declaration = declared(proposal)
    assert {name: column.type.value for name, column in declaration.units.columns.items()} == {
        "weight": "decimal", "zip": "string", "rent": "decimal", "heated": "boolean", "puma": "string",
        "rooms": "integer", "bad": "decimal", "tenure": "string", "size": "string",
        "born": "date",
    }  # fmt: skip
    columns = declaration.units.columns
    assert (columns["puma"].codes, columns["rooms"].codes) == (("101",), (3,)), "no 101.0"
    assert columns["tenure"].codes == ("free", "own", "rent"), "with the category of no record"
    assert columns["size"].codes == ("1", "2", "3+"), "no integers"
    assert proposal.warnings == [
        "units: column weight is rounded to 4 digits, because of floating-point numbers; a weight: take its bounds "
        "from the design of the survey.",
        "units: column bad is rounded to 4 digits, because of floating-point numbers.",
        "units: column at is left out: it has times of the day, or years before 1 or after 9999, which Stirred does "
        "not read.",
    ]
    assert records_read(warehouse, declaration) == [2]
    integers = columns["rooms"].model_copy(update={"source": "bad", "values": [1, 9999]})
    misread = declaration.model_copy(
        update={"units": declaration.units.model_copy(update={"columns": {"bad": integers}})}
    )
    with pytest.raises(SourceError, match="column bad: not of type integer: 1 row"):
        records_read(warehouse, misread)
    # A code of floating-point numbers is the text that is read.
    pq.write_table(pa.table({"income": [*(number + 0.5 for number in range(60)), 9999.0, 9999.0]}), path)
    declaration = declared(proposed(warehouse, path))
    assert declaration.units.columns["income"].written["null"] == ("9999.0",)
    assert records_read(warehouse, declaration) == [62]


def test_what_is_true_of_many_columns_is_told_once(warehouse: Warehouse, tmp_path: Path) -> None:
    """Wrong program: one that hides its important sentences among four hundred similar ones."""
    rows = [{"region": "NS"[n % 2]} | {f"q{k}": ("1", "9", "98"[k % 2])[n % 3] for k in range(11)} for n in range(30)]
    rest = "may stand for no value; if so, move it to null."
    assert proposed(warehouse, written(tmp_path / "x.csv", rows)).warnings == [
        f'units: 6 columns (q0, q2, …, q10) are each a list of codes in which "9" {rest}',
        f'units: 5 columns (q1, q3, …, q9) are each a list of codes in which "8", "9" {rest}',
    ]


def test_what_cannot_be_proposed_is_said_in_one_sentence(warehouse: Warehouse, tmp_path: Path) -> None:
    units = written(tmp_path / "units.csv", [{"size": "1"}, {"size": "1"}])
    persons = written(tmp_path / "persons.csv", PERSONS)
    with pytest.raises(DeclarationError, match=r"no column identifies a record: in .* into one column of both"):
        proposed(warehouse, units, persons)
    with pytest.raises(DeclarationError, match="column size does not identify each record"):
        proposed(warehouse, units, key="size")
    fixed = written(tmp_path / "fixed.csv", [{"hid  region  tenure": f"  {i}  N  own"} for i in range(3)])
    with pytest.raises(DeclarationError, match="If it is text in fields of fixed width, write it as CSV"):
        proposed(warehouse, fixed)
    other = written(tmp_path / "other.csv", [{"number": str(i), "income": f"{i}.5"} for i in range(3)])
    with pytest.raises(DeclarationError, match="persons: name the column that identifies the unit with --unit"):
        proposed(warehouse, other, persons)
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(SourceError, match="contains no records"):
        proposed(warehouse, tmp_path / "empty.csv")
    with pytest.raises(DeclarationError, match="a hypercube needs a variable with at most 30 values"):
        propose_tables(declared(proposed(warehouse, other)), "tables")
    with pytest.raises(DeclarationError, match="swapping needs a column that is a geography"):
        propose_swapping(declared(proposed(warehouse, units)), "swapped")
    with pytest.raises(DeclarationError, match="coarsening needs a column that is a geography"):
        propose_coarsening(declared(proposed(warehouse, units)), "coarsened")
    with pytest.raises(DeclarationError, match="suppression needs two variables with at most 30 values"):
        propose_suppression(declared(proposed(warehouse, other)), "suppressed")


@pytest.mark.parametrize("failure", ["refused", "unreadable", "warned"])
def test_a_refused_draft_leaves_no_file_and_no_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The draft of a dataset has a new folder too. The same holds if another file stops the check."""

    def check(tree: object, published: Path) -> list[Problem]:
        if failure == "unreadable":
            raise DeclarationError("another file is no YAML")
        return [Problem("town/tables/defs.yaml", 3, "release town/tables: no", warning=failure == "warned")]

    monkeypatch.setattr("orchestration.checking.declaration_problems", check)
    monkeypatch.setattr("orchestration.declarations.component_tree", lambda: None)
    (tmp_path / "city").mkdir()
    monkeypatch.setattr("resources.project.DECLARATIONS", tmp_path)
    deployment: Any = SimpleNamespace(published=tmp_path)
    target = tmp_path / "town" / "tables" / "defs.yaml"
    with suppress(SystemExit, DeclarationError):
        _write_draft(deployment, target, Proposal("type: it"), "stirred check")
    assert target.exists() == (failure == "warned")
    if failure != "warned":
        assert [path.name for path in tmp_path.iterdir()] == ["city"]
    if failure == "refused":
        assert capsys.readouterr().err == "release town/tables: no\nNothing was written.\n"


@pytest.mark.parametrize(
    ("component", "states", "proposed"),
    [
        ("PHSafe", ["10", "44"], ["10", "44"]),
        ("PHSafe", ["10", "44", "72"], ["10", "44"]),
        ("PHSafe", ["72"], ["72"]),
        ("SafeTabP", ["10", "44", "72"], ["10", "44", "72"]),
    ],
)
def test_examples_have_the_states_of_the_dataset(component: str, states: list[str], proposed: list[str]) -> None:
    """A census from files declares all states and Puerto Rico, which PHSafe refuses together."""
    text = fill_in_example(f"orchestration.components.{component}", "town", "s_dhc", states=states)
    assert yaml.safe_load(text)["attributes"]["states"] == proposed


@pytest.mark.parametrize(("text", "name"), [("My File-2", "my_file_2"), ("2024 survey", "table_2024_survey")])
def test_names_are_made_possible(text: str, name: str) -> None:
    assert propose_name(text) == name


RECTANGULAR = [
    {"YEAR": year, "SERIAL": f"{household}", "PERNUM": f"{person}", "STATEFIP": f"0{household % 2 + 1}",
     "HHWT": f"{household + 9}.5", "AGE": f"{(household * 7 + person * 31) % 90}"}
    for year in ("1940", "1950") for household in range(60) for person in range(1, 2 + household % 3)
]  # fmt: skip


@pytest.mark.prove
def test_households_repeated_on_the_rows_of_persons_are_proposed_as_such(warehouse: Warehouse, tmp_path: Path) -> None:
    """Wrong program: reads persons as units, so that the sum of HHWT counts a household once for each person."""
    for years, names, key, count in ((2, [], ["YEAR", "SERIAL"], 120), (1, [], ["SERIAL"], 60), (1, ["N"], ["N"], 60)):
        rows = [dict(row) for row in RECTANGULAR if years == 2 or row["YEAR"] == "1940"]
        if names:
            # Without a name, a household is recognized by the numbers of its persons.
            rows = [{"N": row.pop("SERIAL"), "YEAR": row.pop("YEAR"), **row} for row in rows]
        proposal = proposed(warehouse, written(tmp_path / "rows.csv", rows))
        declaration = declared(proposal)
        assert declaration.rectangular
        assert declaration.persons
        assert declaration.rectangular.household == key
        assert set(declaration.units.variables) == {"YEAR", "STATEFIP", "HHWT"}
        assert set(declaration.persons.variables) == {"PERNUM", "AGE"}
        assert records_read(warehouse, declaration) == [count, len(rows)]
        assert f"rows with the same {' and '.join(key)} are one household" in proposal.warnings[0]
    for key in ("STATEFIP", "AGE"):
        rows = [{key: row[key], "PERNUM": row["PERNUM"], "HHWT": row["HHWT"]} for row in RECTANGULAR]
        assert declared(proposed(warehouse, written(tmp_path / "rows.csv", rows))).rectangular is None
    rows = [dict(row) for row in RECTANGULAR]
    rows[2]["HHWT"] = "0.5"
    proposal = proposed(warehouse, written(tmp_path / "rows.csv", rows))
    assert "column HHWT differs within 1 of the households only. If it is theirs, make" in "".join(proposal.warnings)
    assert "have the same" not in "".join(proposal.warnings)
    assert "HHWT" in (declared(proposal).persons or declared(proposal).units).variables
    assert not re.search(r"within 1\b", proposal.text)


def test_rows_that_are_no_persons_are_said(warehouse: Warehouse, tmp_path: Path) -> None:
    """Activities, several a person: with losses for a row, a person would lose many times as much without a word."""
    rows: Any = [row | {"ACTIVITY": activity} for row in RECTANGULAR for activity in ("sleep", "work")]
    proposal = proposed(warehouse, written(tmp_path / "activities.csv", rows))
    assert declared(proposal).rectangular
    assert "persons: several rows have the same YEAR and SERIAL and PERNUM. If they" in "".join(proposal.warnings)
    for name in ("CASEID", "patient_id"):
        letter = "P" * name.islower()
        visits = [{name: f"{letter}{number // 2 + 100}", "days": str(number * 7 % 9)} for number in range(100)]
        proposal = proposed(warehouse, written(tmp_path / f"{name}.csv", visits))
        assert f"units: several rows have the same {name}. If they are of one person" in "".join(proposal.warnings)
        assert f"# several rows have the same {name}. If they" in proposal.text
    waves = [
        {"pidp": str(person + 7000), "wave": str(wave), "sex": str(person % 2), "pay": str(7 * person * wave % 90)}
        for person in range(60)
        for wave in range(person % 2, 4)
    ]
    proposal = proposed(warehouse, written(tmp_path / "waves.csv", waves))
    assert "units: several rows have the same pidp. If they are of one person" in "".join(proposal.warnings)
