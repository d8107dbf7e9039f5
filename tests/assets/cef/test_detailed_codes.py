"""Sex and detailed codes as an option of the census layout: read, checked, and without any effect on other datasets."""

from collections import Counter
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from assets.cef.census import DETAILED_COLUMNS, PERSON_COLUMNS, STRUCTURE, UNIT_COLUMNS, census_persons
from assets.cef.validation import structure_offenders
from orchestration.components import CensusDataset, SyntheticCensus
from resources.statements import Zone
from tests.assets.cef.test_census import HEADERS, HELD, Census, content
from tests.depth import deep_cases, quick_cases

CODES = [f"QRACE{place}" for place in range(1, 9)]
DETAILED_RULES = {name: rule for name, rule in STRUCTURE.select_rules(DETAILED_COLUMNS).items() if rule.needs}
MALE_HOUSEHOLDERS = {"5", "2"}
married, same_sex, cohabiting, partners, alone, father, grandmother, roommates = range(1, 9)
prison = 10


class DetailedCensus(Census):
    """The small census of `test_census`, in which everyone has a sex and one race code."""

    def __init__(self, folder: Path, warehouse: Path | None = None) -> None:
        super().__init__(folder, warehouse)
        for row in self.files["persons"]:
            unit = self.unit(int(row["MAFID"]))
            male = unit["HHT"] in MALE_HOUSEHOLDERS
            row.update(dict.fromkeys(CODES, "Null"))
            row.update(QSEX="1" if male else "2", QRACE1="1010", QSPAN="9950")

    def refusal_with_codes(self) -> list[str]:
        return self.refusal(persons=census_persons(str(self.folder / "persons.csv"), detailed_codes=True))


@pytest.fixture
def census(tmp_path: Path) -> DetailedCensus:
    return DetailedCensus(tmp_path)


def ingested(census: DetailedCensus) -> dict[str, list[str]]:
    """The stored columns of persons, each with its distinct values, after an ingestion with detailed codes."""
    persons = census_persons(str(census.folder / "persons.csv"), detailed_codes=True)
    census.write().ingest(census.declare(persons=persons))
    with census.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        columns, rows = content(session)["persons"]
    return {name: sorted({str(row[place]) for row in rows}) for place, name in enumerate(columns)}


def test_the_codes_are_kept_as_they_are_written(census: DetailedCensus) -> None:
    census.person(married, 0).update(dict(zip(CODES, map(str, range(1000, 9000, 1000)), strict=True)), QSPAN="0099")
    stored = ingested(census)
    assert list(stored) == [*PERSON_COLUMNS, "QSEX", *CODES, "QSPAN"]
    assert stored["QSEX"] == ["1", "2"]
    assert stored["QRACE1"] == ["1000", "1010"]
    assert stored["QRACE8"] == ["8000", "Null"], "Null is a text, and not a missing value"
    assert stored["QSPAN"] == ["0099", "9950"]


def test_without_the_field_the_same_files_give_the_same_cef(census: DetailedCensus, tmp_path: Path) -> None:
    """Without it, codes may have any content and are ignored, as all undeclared columns are."""
    plain = Census(tmp_path).write().ingest()
    for row in census.files["persons"]:
        row.update(QSEX="x", QRACE1="", QRACE8="1010")
    assert census.write().ingest() == plain
    with census.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert list(content(session)["persons"][0]) == list(PERSON_COLUMNS)
        assert set(structure_offenders(session, census.declare())) == set(HELD.values())


CODE, SPAN = "value outside its domain matching [1-9][0-9]{3}", "value outside its domain matching [0-9]{4}"
BAD_VALUES = [
    ("QSEX", "3", "value outside its domain [1, 2]"),
    ("QSEX", "", "null where none is allowed"),
    ("QRACE1", "Null", CODE),
    ("QRACE1", "0101", CODE),
    ("QRACE2", "", "null where none is allowed"),
    ("QRACE2", "null", f"{CODE}|Null"),
    ("QRACE2", "10100", f"{CODE}|Null"),
    ("QSPAN", "Null", SPAN),
    ("QSPAN", "99500", SPAN),
]


def test_every_value_outside_the_domain_of_its_column_is_counted(census: DetailedCensus) -> None:
    """All at once, each in a person of its own."""
    for row, (column, value, _) in zip(census.files["persons"], BAD_VALUES, strict=False):
        row[column] = value
    expected = Counter((column, rule) for column, _, rule in BAD_VALUES)
    found = {line for line in census.refusal_with_codes() if "a code although" not in line}
    assert found == {
        f"persons.csv: column {column}: {rule}: {rows} {'row' if rows == 1 else 'rows'}"
        for (column, rule), rows in expected.items()
    }


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("place", [3, 8, *(pytest.param(place, marks=pytest.mark.deep) for place in range(4, 8))])
def test_no_race_code_follows_a_null(census: DetailedCensus, place: int) -> None:
    for row in census.files["persons"][:2]:
        row[f"QRACE{place}"] = "1015"
    offence = f"a code although QRACE{place - 1} is Null"
    assert census.refusal_with_codes() == [f"persons.csv: column QRACE{place}: {offence}: 2 rows"]


def test_the_sex_of_the_householder_agrees_with_the_type_of_household(census: DetailedCensus) -> None:
    """The HHT of married couples, and of cohabiting couples with HHT 1, implies no sex; every other HHT does, and only
    for the householder."""
    for mafid in range(1, 9):
        for row in census.rows("persons", mafid):
            row["QSEX"] = "1" if row["QSEX"] == "2" else "2"
    offence = DETAILED_RULES["householder_sex"].offence
    assert census.refusal_with_codes() == [f"persons.csv: column QSEX: {offence}: 6 rows"]
    for mafid in (cohabiting, partners, alone, father, grandmother, roommates):
        householder = census.person(mafid, 0)
        householder["QSEX"] = "1" if householder["QSEX"] == "2" else "2"
    assert ingested(census)["QSEX"] == ["1", "2"]


def test_the_rules_tested_here_are_all_that_detailed_codes_add() -> None:
    assert set(DETAILED_RULES) == {"householder_sex", *(f"race_code_{place}" for place in range(3, 9))}
    assert HEADERS["persons"][0] == "RTYPE"
    assert {column for column in DETAILED_COLUMNS if column in {**PERSON_COLUMNS, **UNIT_COLUMNS}} == set()


@pytest.mark.parametrize("component", [CensusDataset, SyntheticCensus])
def test_a_recode_cannot_take_the_name_of_a_detailed_code(
    component: type[CensusDataset] | type[SyntheticCensus],
) -> None:
    made = {"households": 10, "states": ["01"]}
    read = {"title": "t", "format": "csv", "persons": "p.csv", "units": "u.csv", "geo": "g.csv"}
    declared = {"name": "census", "cap": 1, **(made if component is SyntheticCensus else read)}
    recoded = {"qsex": {"source": "RELSHIP", "type": "string", "merge": {"a": ["20"]}, "everything_else": "b"}}
    with_codes = declared | {"detailed_codes": True}
    persons = component.resolve_from_yaml(yaml.safe_dump(with_codes)).declaration.persons
    assert persons is not None
    assert set(DETAILED_COLUMNS) <= set(persons.columns)
    # Without detailed codes the name is free, as it was before there were any.
    plain = component.resolve_from_yaml(yaml.safe_dump(declared | {"recoded_persons": recoded})).declaration.persons
    assert plain is not None
    assert not set(DETAILED_COLUMNS) & set(plain.columns)
    with pytest.raises(ValidationError, match="recoded_persons: qsex: the layout has a column QSEX"):
        component.resolve_from_yaml(yaml.safe_dump(with_codes | {"recoded_persons": recoded}))
