"""An S-DHC release in YAML: its meaning, and the refusals of `dg check yaml` and of loading."""

from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from assets.phsafe.declaration import PHSafeDeclaration
from assets.phsafe.release import available_products
from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError
from mechanisms.noise import Noise
from mechanisms.phsafe.design import production
from mechanisms.phsafe.runs import RUN
from orchestration.components.phsafe import PHSafe
from resources.custody import CustodyMode
from tests.phsafe_deployments import census_dataset

SHORTEST = """
name: sdhc
dataset: made_up
title: Households and the persons in them
states: ["25", "44"]
"""

OWN = """
name: sdhc
dataset: made_up
title: Households and the persons in them
states: ["44", "25"]
noise: zcdp
runs:
  PH1_num:
    truncation: 10
    moe: {nation_*: 500, "state_H,I": 200.5}
    budget: {state_A-G: 0.141622, "nation_H,I": 0}
  PH1_denom:
    budget:
      state_*: 1/7
  PH3: {truncation: 6, moe: {state_A-G: 20}}
delta: 1e-10
products: [PH1, PH3]
interval: equal_tailed
private: false
custody: ephemeral
schedule: "0 6 1 * *"
watch_source: true
"""

TOWN = census_dataset(Path("/none"))

VALIDATOR = Draft202012Validator(PHSafeDeclaration.model_json_schema())


def declared(**changes: Any) -> dict[str, Any]:
    """The shortest declaration, with changes."""
    return deepcopy(yaml.safe_load(SHORTEST)) | changes


def test_a_declaration_of_four_lines_is_production_in_zcdp_with_all_products() -> None:
    declaration = PHSafeDeclaration.model_validate(declared())
    assert declaration.design(TOWN) == production(("25", "44"), Noise.GAUSSIAN)
    assert available_products(declaration.design(TOWN)) == tuple(f"PH{number}" for number in range(1, 9))
    assert declaration.delta == Fraction(1, 10**10)
    assert declaration.interval.value == "shortest"
    assert declaration.custody is CustodyMode.ESCROWED
    assert (declaration.private, declaration.watch_source, declaration.schedule) == (True, False, None)


def test_pure_noise_has_the_same_margins_with_epsilon() -> None:
    pure = PHSafeDeclaration.model_validate(declared(noise="pure"))
    assert pure.design(TOWN) == production(("25", "44"), Noise.LAPLACE)
    given = declared(noise="pure", runs={"PH2": {"truncation": 4, "budget": {"state_*": 1.5}}})
    design = PHSafeDeclaration.model_validate(given).design(TOWN)
    assert str(design.unbounded) == "3/2"
    with pytest.raises(ValidationError, match="delta: a loss in ε is not stated at a δ"):
        PHSafeDeclaration.model_validate(given | {"delta": "1/1000"})
    assert str(design.bounded) == "3"


def test_puerto_rico_alone_has_no_level_of_the_nation() -> None:
    design = PHSafeDeclaration.model_validate(declared(states=["72"])).design(TOWN)
    assert design == production(("72",))
    assert design.region_types == {"STATE"}


def test_declared_budgets_and_margins_are_used_exactly_as_written() -> None:
    declaration = PHSafeDeclaration.model_validate(yaml.safe_load(OWN))
    design = declaration.design(TOWN)
    assert design.states == ("25", "44")
    assert {each.label: each.budget for each in design.released} == {
        "PH1_num nation_*": Fraction("0.002619"),
        "PH1_num state_A-G": Fraction("0.141622"),
        "PH1_num state_H,I": Fraction(round(Fraction("1.645") ** 2 / 2 * 484 / Fraction("200.5") ** 2 * 10**6), 10**6),
        "PH1_denom state_*": Fraction(1, 7),
        "PH3 state_A-G": Fraction("0.662976"),
    }
    assert (design.truncation(RUN["PH1_num"]), design.truncation(RUN["PH1_denom"])) == (10, None)
    assert declaration.delta == Fraction(1, 10**10)
    assert (declaration.products, declaration.interval.value) == (["PH1", "PH3"], "equal_tailed")
    assert not declaration.private
    assert (declaration.custody, declaration.schedule) == (CustodyMode.EPHEMERAL, "0 6 1 * *")


@pytest.mark.parametrize(
    "text",
    [
        SHORTEST,
        OWN,
        SHORTEST + "runs: production",
        SHORTEST + "delta: 1/1000000",
        SHORTEST + "delta: 0.000001",
        SHORTEST + "delta: 2.5E-7",
        SHORTEST + 'runs: {PH2: {truncation: 1, budget: {state_*: "0.5"}, moe: {nation_*: "33/2"}}}',
    ],
)
def test_valid_declarations_pass_both_the_schema_and_the_model(text: str) -> None:
    given = yaml.safe_load(text)
    assert list(VALIDATOR.iter_errors(given)) == []
    assert PHSafeDeclaration.model_validate(given).design(TOWN).released


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"states": []}, "states", "1 or more"),
        ({"states": [25]}, "states.0", "write a state's FIPS code in quotes"),
        ({"states": ["6"]}, "states.0", "two digits"),
        ({"noise": "laplace"}, "noise", "'zcdp' or 'pure'"),
        ({"runs": "productoin"}, "runs", "'production'"),
        ({"runs": 3}, "runs", "'production'"),
        ({"runs": {"PH2": {"truncation": 0}}}, "truncation", "greater than or equal to 1"),
        ({"runs": {"PH2": {"truncation": 2.5}}}, "truncation", "whole number"),
        ({"runs": {"PH2": {"truncation": "10"}}}, "truncation", "whole number"),
        ({"runs": {"PH2": {"budget": {"state_*": -1}}}}, "runs.PH2.budget.state_*", "-1 is negative"),
        ({"runs": {"PH2": {"budget": {"state_*": "1/0"}}}}, "runs.PH2.budget.state_*", "not a number or a fraction"),
        ({"runs": {"PH2": {"budget": {"state_*": "much"}}}}, "runs.PH2.budget.state_*", "not a number or a fraction"),
        ({"runs": {"PH2": {"moe": {"state_*": 0}}}}, "runs.PH2.moe.state_*", "greater than 0"),
        ({"runs": {"PH2": {"rho": {"state_*": 1}}}}, "runs.PH2.rho", "there is no such field"),
        ({"delta": 0}, "delta", "strictly between 0 and 1"),
        ({"delta": 1}, "delta", "strictly between 0 and 1"),
        ({"products": ["PH9"]}, "products.0", "'PH1'"),
        ({"interval": "widest"}, "interval", "'shortest' or 'equal_tailed'"),
        ({"custody": "none"}, "custody", "'escrowed' or 'ephemeral'"),
        ({"budget": 3}, "budget", "there is no such field"),
    ],
)
def test_invalid_declarations_are_refused_by_schema_and_model_naming_the_field(
    changes: dict[str, Any], field: str, message: str
) -> None:
    given = declared(**changes)
    assert list(VALIDATOR.iter_errors(given)) != []
    with pytest.raises(ValidationError) as refused:
        PHSafeDeclaration.model_validate(given)
    (error,) = refused.value.errors()
    assert ".".join(str(part) for part in error["loc"]).endswith(field) or error["loc"][0] == field
    assert message in error["msg"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "monthly"}, "not a cron expression"),
        ({"products": ["PH1", "PH2", "PH1"]}, "PH1: a product is declared once"),
    ],
)
def test_what_the_schema_cannot_express_is_refused_by_the_model(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PHSafeDeclaration.model_validate(declared(**changes))


SOME = {"state_*": "1/10"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"states": ["03"]}, "states: 03 is not the FIPS code"),
        ({"states": ["25", "25"]}, "states: 25 is given 2 times"),
        ({"states": ["25", "72"]}, "states: Puerto Rico is released by itself"),
        ({"runs": {}}, "runs: nothing is released"),
        ({"runs": {"PH9": {"budget": SOME}}}, "runs: there is no run PH9; runs are PH1_num, "),
        ({"runs": {"PH2": {"budget": SOME}}}, "runs: PH2: truncation: PH2 counts persons"),
        ({"runs": {"PH1_denom": {"truncation": 3, "budget": SOME}}}, "runs: PH1_denom: truncation: "),
        (
            {"runs": {"PH2": {"truncation": 3, "budget": SOME, "moe": {"state_*": 5}}}},
            "runs: PH2: state_.*: a level has a budget or an moe target, not both",
        ),
        ({"runs": {"PH2": {"truncation": 3, "moe": {"state_A-G": 5}}}}, "runs: PH2: moe: there is no level state_A-G"),
        ({"runs": {"PH2": {"truncation": 3, "moe": {"state_*": 10**6}}}}, "runs: PH2: moe: state_.* rounds to 0"),
        (
            {"runs": {"PH2": {"truncation": 3, "moe": {"state_*": 0.01}}}},
            "runs: PH2: budget: state_.* the most is 1000",
        ),
        (
            {"states": ["72"], "runs": {"PH2": {"truncation": 3, "budget": {"nation_*": 1}}}},
            "runs: PH2: budget: nation_.*: Puerto Rico has no levels",
        ),
    ],
)
def test_an_impossible_design_is_refused_naming_release_field_and_rule(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=f"^release made_up/sdhc: {message}"):
        PHSafe(PHSafeDeclaration.model_validate(declared(**changes))).release(TOWN, Path())


def test_a_dataset_with_the_layouts_columns_but_without_its_rules_is_refused() -> None:
    """Wrong program: one that asks for columns of these names alone, so that a household may have two householders."""
    fields = {name: getattr(TOWN, name) for name in DatasetDeclaration.model_fields}
    with pytest.raises(DeclarationError, match="dataset: town is not a census in the production layout"):
        PHSafe(PHSafeDeclaration.model_validate(declared())).release(DatasetDeclaration(**fields), Path())
