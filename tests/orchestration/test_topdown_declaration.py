"""A redistricting release in YAML: its meaning, and the refusals of `dg check yaml` and of loading."""

from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.release.columns import Column
from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.release import PRODUCTS, Code
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.design import DesignError
from mechanisms.topdown.allocation import LEVELS, PERSON_ALLOCATION, UNIT_ALLOCATION
from orchestration.components.topdown import TopDown
from tests.deployments import small_dataset
from tests.topdown_deployments import TWO_LEVELS, topdown_dataset

SHORTEST = """
name: redistricting
dataset: town
title: Redistricting data
"""

OWN = """
name: redistricting
dataset: town
title: Redistricting data
spine:
  Nation: []
  State: {prefix: 2}
  Block: [TABBLKST, TABBLKCOU, TABTRACTCE, TABBLK]
invariants: {population: Block}
persons:
  rho: 2.5
  levels: {Nation: 1/4, State: 0.25, Block: 1/2}
  queries:
    Nation: {detailed: 1}
    State: {total: 3/4, detailed: 1/4}
    Block: {hispanic * cenrace: 1/2, hhinstlevels: "0.25", detailed: 1/4}
units:
  rho: 1/10
  levels: {Nation: 1/4, State: 1/4, Block: 1/2}
  queries: {Nation: {detailed: 1}, State: {detailed: 1}, Block: {detailed: 1}}
delta: 1e-10
products: [P1, H1, population]
processes: 2
custody: ephemeral
estimation: own_levels
"""

TOWN = topdown_dataset(Path("/none"))

VALIDATOR = Draft202012Validator(TopDownDeclaration.model_json_schema())


def declared(**changes: Any) -> dict[str, Any]:
    """The shortest declaration, with changes."""
    return deepcopy(yaml.safe_load(SHORTEST)) | changes


def test_a_declaration_of_three_lines_is_the_2020_census() -> None:
    declaration = TopDownDeclaration.model_validate(declared())
    design = declaration.design(TOWN)
    assert design.levels == LEVELS == tuple(declaration.codes)
    assert design.allocations == {"persons": PERSON_ALLOCATION, "units": UNIT_ALLOCATION}
    assert design.invariants == {"population": "State", "housing_units": "Block", "group_quarters": "Block"}
    assert (design.full, design.types_first, design.total_first) == (True, "State", ())
    own = TopDownDeclaration.model_validate(declared(estimation="own_levels")).design(TOWN)
    assert own.total_first == ("State", "County", "Tract", "Block_Group")
    assert declaration.delta == Fraction(1, 10**10)
    assert declaration.processes == 0


def test_declared_levels_shares_and_invariants_are_used_exactly_as_written() -> None:
    declaration = TopDownDeclaration.model_validate(yaml.safe_load(OWN))
    design = declaration.design(TOWN)
    assert declaration.codes == {
        "Nation": Code(),
        "State": Code(prefix=2),
        "Block": Code(("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")),
    }
    assert {each.label: each.loss.rho for each in design.measured if each.histogram == "persons"} == {
        "persons Nation detailed": Fraction(5, 8),
        "persons State total": Fraction(15, 32),
        "persons State detailed": Fraction(5, 32),
        "persons Block hispanic * cenrace": Fraction(5, 8),
        "persons Block hhinstlevels": Fraction(5, 16),
        "persons Block detailed": Fraction(5, 16),
    }
    assert design.invariants == {"population": "Block"}
    assert design.total_first == ("State",)
    assert design.loss == ConcentratedLoss(Fraction(5, 2) + 2 * Fraction(1, 10))


@pytest.mark.parametrize(
    "text", [SHORTEST, OWN, SHORTEST + "invariants: {}", SHORTEST + "spine: production\npersons: production"]
)
def test_valid_declarations_pass_both_the_schema_and_the_model(text: str) -> None:
    given = yaml.safe_load(text)
    assert list(VALIDATOR.iter_errors(given)) == []
    TopDownDeclaration.model_validate(given)


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"spine": "produktion"}, "spine", "'production'"),
        ({"spine": {"US": [], "Block": {"prefix": 0}}}, "prefix", "greater than or equal to 1"),
        ({"invariants": {"households": "Block"}}, "households", "'population'"),
        ({"persons": {"rho": 1}}, "levels", "it is missing"),
        ({"persons": TWO_LEVELS["persons"] | {"rho": "much"}}, "rho", "not a number or a fraction"),
        ({"persons": TWO_LEVELS["persons"] | {"epsilon": 1}}, "epsilon", "there is no such field"),
        ({"persons": TWO_LEVELS["persons"] | {"levels": {"US": "1/0"}}}, "US", "not a number or a fraction"),
        ({"delta": 1}, "delta", "strictly between 0 and 1"),
        ({"products": ["P6"]}, "products.0", "'P1'"),
        ({"processes": -1}, "processes", "greater than or equal to 0"),
        ({"budget": 3}, "budget", "there is no such field"),
    ],
)
def test_invalid_declarations_are_refused_by_schema_and_model_naming_the_field(
    changes: dict[str, Any], field: str, message: str
) -> None:
    given = declared(**changes)
    assert list(VALIDATOR.iter_errors(given)) != []
    with pytest.raises(ValidationError) as refused:
        TopDownDeclaration.model_validate(given)
    errors = refused.value.errors()
    assert any(
        ".".join(str(part) for part in error["loc"]).endswith(field) and message in error["msg"] for error in errors
    ), errors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"products": ["P1", "H1", "P1"]}, "P1: a product is declared once"),
        ({"spine": {"US": [], "a block": ["TABBLK"]}}, "is not written as the pattern"),
    ],
)
def test_what_the_schema_cannot_express_is_refused_by_the_model(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TopDownDeclaration.model_validate(declared(**changes))


@pytest.mark.parametrize(("said", "levels"), [([], ()), (["Block", "State"], ("Block", "State"))])
def test_levels_estimated_totals_first_can_be_declared(said: list[str], levels: tuple[str, ...]) -> None:
    assert (
        TopDownDeclaration.model_validate(declared(estimation="own_levels", total_first=said)).design(TOWN).total_first
        == levels
    )


@pytest.mark.parametrize(("changes", "first"), [({}, "State"), ({"types_first": "County"}, "County")])
def test_full_estimation_decides_types_first_at_the_upper_levels(changes: dict[str, str], first: str) -> None:
    design = TopDownDeclaration.model_validate(declared(**changes)).design(TOWN)
    assert (design.types_first, design.total_first, design.full) == (first, (), True)
    own = TopDownDeclaration.model_validate(declared(estimation="own_levels")).design(TOWN)
    assert not own.full
    assert own.as_record() == design.as_record(), "the draw is the same"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"estimation": "own_levels", "types_first": "State"}, "types_first: it belongs to estimation: full"),
        ({"types_first": "Block"}, "types_first: there is no level Block above the finest"),
        ({"total_first": ["State"]}, "total_first: with full estimation"),
        ({"estimation": "own_levels", "lean_on_housing_units": True}, "lean_on_housing_units: it belongs to"),
        (
            {"invariants": {"population": "State"}, "lean_on_housing_units": True},
            "lean_on_housing_units: it belongs to",
        ),
    ],
)
def test_fields_that_do_not_go_with_the_estimation_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(DesignError, match=says):
        TopDownDeclaration.model_validate(declared(**changes)).design(TOWN)


def two_levels(**changes: Any) -> dict[str, Any]:
    return declared(**(deepcopy(TWO_LEVELS) | changes))


def shares(histogram: str, **changes: Any) -> dict[str, Any]:
    return {histogram: TWO_LEVELS[histogram] | changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"spine": TWO_LEVELS["spine"]}, "invariants: population: there is no level State; levels are Nation, Block"),
        (two_levels(persons="production"), "persons: levels US, State, .* are not those of the spine, Nation, Block"),
        (two_levels(invariants={"housing_units": "Nation"}), "invariants: housing_units: name .* level .*, Block"),
        (two_levels(**shares("persons", levels={"Nation": "1/4", "Block": "1/4"})), "persons: levels: the shares add"),
        (
            two_levels(**shares("units", queries={"Nation": {"detailed": 1}, "Block": {"tenure": 1}})),
            "units: units: the query 'tenure' names",
        ),
        (two_levels(total_first=["Nation"]), "total_first: Nation: persons have no query total there"),
        (two_levels(**shares("persons", rho=5000)), "persons: rho lies above 0 and up to 1000"),
        (
            two_levels(**shares("persons", queries={"Nation": {"total": 1}, "Block": {"detailed": 1}})),
            "persons: Nation: the query detailed has no share",
        ),
    ],
)
def test_an_impossible_design_is_refused_naming_release_field_and_rule(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=f"^release town/redistricting: {message}"):
        TopDown(TopDownDeclaration.model_validate(declared(**changes))).release(TOWN, Path("published"))


def released(dataset: DatasetDeclaration, **changes: Any) -> Any:
    declaration = TopDownDeclaration.model_validate(declared(dataset=dataset.name, **changes))
    return TopDown(declaration).release(dataset, Path("published"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"products": ["group_quarters"], "invariants": {"population": "State"}},
            "products: group_quarters .* exactly",
        ),
        ({"products": ["P1", "population"], "invariants": {}}, "products: population .* exactly"),
        (two_levels(spine={"Nation": ["TABBLKST"], "Block": ["TABBLK"]}), "spine: Nation: .* takes no columns"),
        (
            two_levels(spine={"Nation": [], "Block": ["TABBLOCK"]}),
            "spine: Block: TABBLOCK is not a geographic column of",
        ),
        (two_levels(spine={"Nation": [], "Block": ["HHT"]}), "spine: Block: HHT is not a geographic column of town"),
        (
            two_levels(spine={"Nation": [], "Block": []}),
            "spine: Block: its code is either joined from columns or a prefix",
        ),
        (two_levels(spine={"Nation": [], "Block": {"prefix": 3}}), "spine: Block: a prefix is a number of characters"),
    ],
)
def test_an_impossible_release_is_refused_naming_field_and_rule(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DeclarationError, match=f"^release town/redistricting: {message}"):
        released(topdown_dataset(tmp_path), **{name: value for name, value in changes.items() if name != "dataset"})


def test_a_dataset_without_types_of_group_quarters_is_refused_with_a_hint(tmp_path: Path) -> None:
    dataset = topdown_dataset(tmp_path)
    columns = {name: column for name, column in dataset.units.columns.items() if name != "GQTYPE"}
    without = dataset.model_copy(update={"units": dataset.units.model_copy(update={"columns": columns})})
    with pytest.raises(DeclarationError, match=r"no column GQTYPE; .* group_quarters_types"):
        released(without)


def test_places_that_depend_on_persons_are_refused(tmp_path: Path) -> None:
    """A change of one person would move all persons of the unit, more than the charge covers."""
    changes = TWO_LEVELS | {"spine": {"Nation": [], "Block": ["PART", "TABBLK"]}}
    recode = {"source": "PLACEFP", "type": "string", "role": "geography", "merge": {"a": ["99999"]}}
    other, part = (Column.model_validate(recode | {"depends_on_persons": depends}) for depends in (False, True))
    released(topdown_dataset(tmp_path, recoded_units={"PART": other}), **changes)
    with pytest.raises(DeclarationError, match="spine: Block: column PART depends on persons"):
        released(topdown_dataset(tmp_path, recoded_units={"PART": part}), **changes)


def test_a_dataset_of_another_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="village is not a census in the production layout"):
        released(small_dataset(tmp_path))


def test_all_products_are_published_unless_some_are_named(tmp_path: Path) -> None:
    """Products of invariants are published only for declared invariants: no others are possible."""
    dataset = topdown_dataset(tmp_path)
    assert released(dataset).products == PRODUCTS
    held = released(dataset, invariants={"population": "County"}).products
    assert set(PRODUCTS) - set(held) == {"housing_units", "group_quarters"}
    assert released(dataset, products=["H1"]).products == ("H1",)


def test_a_synthetic_census_can_be_released() -> None:
    population = SyntheticPopulation(households=100, states=["44"])
    census = synthetic_census(population, name="made_up", cap=ConcentratedLoss(Fraction(3)))
    assert released(census).levels == LEVELS
