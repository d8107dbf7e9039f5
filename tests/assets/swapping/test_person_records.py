"""Whom a swap protects, by brute force: one person is changed in every possible way, and differing records are counted.

If persons are swapped, each one's record shows columns of the household. A guarantee for one such record is one for one
person only if a change of one person can never change a second record. A program that always says "person" is told
apart as soon as a household's size, or its householder's race, is among the columns.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pydantic import ValidationError

from assets.cef.census import UNIT_COLUMNS, census_persons, census_units
from assets.ledger.comparison import Comparison, compare
from assets.ledger.page import describe_totals
from assets.ledger.remarks import write_remarks
from assets.publication.certificate import building_blocks
from assets.release.dataset import DatasetDeclaration, Reader
from assets.release.draw import Draw
from assets.swapping.declaration import SwappingDeclaration
from assets.swapping.draw import SwappingInputs
from assets.swapping.invariants import UniqueRecords
from assets.swapping.method import Swapping
from assets.swapping.release import SwappingRelease
from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.specification import Flavor, Specification, compose
from mechanisms.swapping.uncertainty import Moved
from orchestration.components.swapping import PermutationSwapping
from resources.chain import Entry, make_reservation

PERSONS, HOUSEHOLDS, RACES = 3, 2, "ab"
Person = tuple[int, str]
"""A person's household and race."""
Population = tuple[Person, ...]

COLUMNS: dict[str, tuple[dict[str, Any], Callable[[int, Sequence[str]], object]]] = {
    "county": (
        {"type": "string", "role": "geography", "values": ["c0", "c1"]},
        lambda household, races: f"c{household}",
    ),
    "tenure": (
        {"type": "string", "values": ["own", "rent"], "depends_on_persons": False},
        lambda household, races: "own" if household else "rent",
    ),
    "size": ({"type": "integer", "minimum": 0, "maximum": 9}, lambda household, races: len(races)),
    "householder": ({"type": "string", "values": ["a", "b"]}, lambda household, races: races[0]),
}
"""The columns of households: their declaration, and their value for a household and the races of its persons."""


def declared_dataset() -> dict[str, Any]:
    units = {"serial": {"type": "integer", "role": "key"}} | {name: column for name, (column, _) in COLUMNS.items()}
    persons = {
        "serial": {"type": "integer", "role": "unit"},
        "race": {"type": "string", "values": list(RACES)},
        "odd": {"type": "boolean"},
    }
    declared = {
        "name": "village",
        "title": "A village",
        "reader": "csv",
        "record_name": "household",
        "cap": 40,
        "units": {"path": "units.csv", "columns": units},
        "persons": {"path": "persons.csv", "columns": persons},
    }
    return deepcopy(declared)


def dataset() -> DatasetDeclaration:
    return DatasetDeclaration.model_validate(declared_dataset())


def swapping(unit: str, columns: Sequence[str], data: DatasetDeclaration | None = None) -> SwappingRelease:
    declared = {
        "name": "swapped",
        "dataset": "village",
        "title": "Swapped",
        "unit": unit,
        "match": [],
        "swap": ["race"] if unit == "person" else columns[:1],
        "swap_rate": "1/2",
        "variables": [*columns, "race", "odd"],
    }
    return PermutationSwapping(SwappingDeclaration.model_validate(declared)).release(
        data or dataset(), Path("published")
    )


def flavor(release: SwappingRelease) -> Flavor:
    return release.design.specification("village", 3).flavor


def specification(release: SwappingRelease) -> Specification:
    return release.design.specification("village", 3)


def of_household(population: Population, household: int, columns: Sequence[str]) -> tuple[object, ...]:
    races = [race for home, race in population if home == household]
    return tuple(COLUMNS[name][1](household, races) for name in columns) if races else ()


def flat_file(population: Population, columns: Sequence[str]) -> Counter[object]:
    """A record for each person, with the columns of the household."""
    return Counter((race, of_household(population, home, columns)) for home, race in population)


def households_file(population: Population, columns: Sequence[str]) -> Counter[object]:
    """A record for each household, with its persons."""
    return Counter(
        (
            of_household(population, household, columns),
            tuple(sorted(race for home, race in population if home == household)),
        )
        for household in range(HOUSEHOLDS)
    )


def neighbors(moves: bool) -> Iterator[tuple[Population, Population]]:
    """All pairs of populations that differ in one person, with or without that person's household."""
    possible = list(product(range(HOUSEHOLDS), RACES))
    for population in product(possible, repeat=PERSONS):
        for number, changed in product(range(PERSONS), possible):
            if moves or changed[0] == population[number][0]:
                yield population, (*population[:number], changed, *population[number + 1 :])


def farthest(file: Callable[[Population, Sequence[str]], Counter[object]], columns: Sequence[str], moves: bool) -> int:
    """The most records in which two files differ if one person differs (Hamming distance)."""
    return max((file(one, columns) - file(other, columns)).total() for one, other in neighbors(moves))


SUBSETS = list(chain.from_iterable(combinations(COLUMNS, number) for number in range(1, len(COLUMNS) + 1)))


@pytest.mark.parametrize("columns", SUBSETS, ids="-".join)
def test_a_swap_of_persons_is_for_one_person_exactly_if_no_second_record_can_change(columns: tuple[str, ...]) -> None:
    """Any change of one person counts, moves to another household included."""
    stated = specification(swapping("person", columns))
    for_a_person = farthest(flat_file, columns, moves=True) == 1
    assert (stated.loss_for("person") is not None) == for_a_person
    assert stated.flavor.unit == ("person" if for_a_person else "person record")
    assert stated.loss_for(stated.flavor.unit) == stated.loss
    assert any(total.unit == "person" for total in compose([stated])) == for_a_person


def test_a_change_of_one_person_can_change_every_record_of_a_household() -> None:
    assert farthest(flat_file, ["size"], moves=True) == PERSONS
    assert farthest(flat_file, ["householder"], moves=False) == PERSONS
    assert farthest(flat_file, ["county", "tenure"], moves=True) == 1


@pytest.mark.parametrize("columns", [each for each in SUBSETS if len(each) > 1], ids="-".join)
def test_a_swap_of_households_counts_once_for_a_persons_characteristics_and_bounds_no_move(
    columns: tuple[str, ...],
) -> None:
    stated = specification(swapping("household", columns))
    assert (stated.flavor.unit, stated.flavor.changes_per_person) == ("household", 1)
    assert farthest(households_file, columns, moves=False) == 1
    assert farthest(households_file, columns, moves=True) == HOUSEHOLDS
    shown = describe_totals(compared(households=stated))["totals"]
    assert isinstance(shown, dg.TableMetadataValue)
    units = [record.data["unit"] for record in shown.records]
    assert "person (no moves)" in units
    assert "person" not in units


def compared(**specifications: Specification) -> Comparison:
    entries: list[Entry] = []
    for number, (name, each) in enumerate(specifications.items()):
        entries.append(make_reservation(entries, "village", name, f"draw {number}", each, "0" * 64))
    return compare(entries)


def test_person_records_are_left_out_of_totals_for_persons_with_the_reason() -> None:
    records, persons, households = (
        specification(swapping(unit, columns))
        for unit, columns in (
            ("person", ["county", "size"]),
            ("person", ["county", "tenure"]),
            ("household", ["county", "size"]),
        )
    )
    comparison = compared(records=records, persons=persons, households=households)
    by_unit = {total.unit: total for total in comparison.totals}
    assert set(by_unit) == {"household", "person", "person record"}
    assert by_unit["person record"].loss == records.loss
    assert by_unit["person record"].releases == 1
    assert by_unit["person"].releases == 2
    assert by_unit["person"].left_out == (
        "1 release: a guarantee for one person record bounds no change of a person: a change of one person can change "
        "the records of all persons in the same unit",
    )
    said = write_remarks(comparison)
    assert (
        "records: a guarantee for one person record counts in no total for persons: a change of one person can change "
        "the records of all persons in the same unit." in said
    )
    assert (
        "persons: a guarantee for one person does not bound a change of a household, in which all persons may "
        "change." in said
    )
    alone = compared(records=records)
    assert {total.unit for total in alone.totals} == {"person record"}
    assert any("counts in no total for persons" in each for each in write_remarks(alone))


def test_everything_that_states_the_guarantee_names_person_records() -> None:
    release = swapping("person", ["county", "size", "householder"])
    method = Swapping(release)
    inputs = SwappingInputs(
        dict.fromkeys(("records", "holding", "swap"), ""), 1, 3, UniqueRecords(3, 0, 0, 0), Moved(0.5, 0.25)
    )
    stated = method.specification(inputs)
    (granularity,) = (block.answer for block in building_blocks(stated) if block.block == "Input premetric")
    assert granularity == (
        "One person record: two data sets are as far apart as the number of person records in which they differ "
        "(Hamming distance). It bounds no change of a person: a change of one person can change the records of all "
        "persons in the same unit"
    )
    statement = swapping_remark(method, inputs)
    assert "because size, householder may follow from its persons" in statement
    assert "person record" in method.charge_description()
    assert "person records" in method.draw_description()
    assert "person records" in stated.flavor.domain
    assert all("person records" in invariant for invariant in stated.flavor.multiverse)
    other = Swapping(swapping("person", ["county", "tenure"]))
    assert "person record" not in other.charge_description() + other.draw_description()
    assert "bounds no change" not in swapping_remark(other, inputs)


def swapping_remark(method: Swapping, inputs: SwappingInputs) -> str:
    return method.statement(Draw("", method.specification(inputs), inputs), "").remark


def test_the_two_guarantees_have_different_draws() -> None:
    """A draw that was charged for one person is not taken for one that is charged for one record."""
    one, other = (swapping("person", ["county"], declared) for declared in (dataset(), dependent_geography()))
    assert one.design.as_record() != other.design.as_record()


def dependent_geography() -> DatasetDeclaration:
    declared = declared_dataset()
    declared["units"]["columns"]["county"]["depends_on_persons"] = True
    return DatasetDeclaration.model_validate(declared)


def test_a_geography_that_depends_on_persons_can_be_declared() -> None:
    assert flavor(swapping("person", ["county"], dependent_geography())).unit == "person record"


def test_the_census_layout_knows_which_columns_of_units_are_facts_about_the_unit() -> None:
    facts = {name for name, column in UNIT_COLUMNS.items() if name != "MAFID" and not column.follows_persons}
    geography = {name for name, column in UNIT_COLUMNS.items() if column.role == "geography"}
    assert facts == geography | {"RTYPE", "GQTYPE", "TEN"}
    census = DatasetDeclaration(
        name="village",
        title="A census",
        reader=Reader.CSV,
        record_name="unit",
        cap=PureLoss.logarithm(9),
        units=census_units("units.csv", "geo.csv", group_quarters_types=True),
        persons=census_persons("persons.csv"),
    )
    person = {"name": "swapped", "dataset": "village", "title": "Swapped", "unit": "person", "swap_rate": "1/2"}
    for variables, unit in (
        ([*facts, "QAGE"], "person"),
        ([*facts, "QAGE", "FINAL_POP"], "person record"),
        ([*facts, "HHRACE"], "person record"),
        (None, "person record"),
    ):
        declared = person | {"match": ["TABBLKST"], "swap": ["TABBLK"], "variables": variables}
        release = PermutationSwapping(SwappingDeclaration.model_validate(declared)).release(census, Path("published"))
        assert flavor(release).unit == unit


@pytest.mark.parametrize("table", ["persons", "units"])
def test_only_variables_depend_on_persons(table: str) -> None:
    declared = declared_dataset()
    declared[table]["columns"]["serial"]["depends_on_persons"] = False
    with pytest.raises(ValidationError, match=f"{table}: column serial: depends_on_persons is for variables"):
        DatasetDeclaration.model_validate(declared)


def test_a_column_of_persons_can_depend_on_the_others() -> None:
    """Such as the size of a person's family, which a household's columns cannot tell."""
    declared = declared_dataset()
    declared["persons"]["columns"]["race"]["depends_on_persons"] = True
    release = swapping("person", ["county"], DatasetDeclaration.model_validate(declared))
    assert (flavor(release).unit, release.columns_of_others) == ("person record", ("race",))


def test_a_dataset_of_persons_alone_says_by_its_record_name_that_columns_depend_on_others() -> None:
    """A program that ignores the field would claim to protect a person."""
    declared = declared_dataset()
    del declared["persons"]
    declared["units"]["columns"]["county"]["depends_on_persons"] = True
    for name in ("household", "person record"):
        DatasetDeclaration.model_validate(declared | {"record_name": name})
    with pytest.raises(ValidationError, match=r"county: depends_on_persons: .*declare record_name: person record"):
        DatasetDeclaration.model_validate(declared | {"record_name": "person"})


def test_units_with_persons_cannot_be_called_person_records() -> None:
    with pytest.raises(ValidationError, match="cannot be called person record"):
        DatasetDeclaration.model_validate(declared_dataset() | {"record_name": "person record"})
