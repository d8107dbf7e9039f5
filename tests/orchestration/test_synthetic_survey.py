"""A synthetic survey in YAML: the refusals of `dg check yaml`, its meaning, and the survey of this project."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from assets.cef.survey import SurveyParameters, synthetic_survey
from assets.release.columns import Role
from mechanisms.accounting.losses import PureLoss
from orchestration.components import PermutationSwapping, SyntheticSurvey
from orchestration.proposal import propose_swapping

PROJECT = Path(__file__).resolve().parents[2]
VALID: dict[str, Any] = {"name": "panel", "cap": 10, "households": 400, "states": ["01", "72"]}


def declared(**fields: Any) -> Any:
    return SyntheticSurvey.resolve_from_yaml(yaml.safe_dump(VALID | fields)).declaration


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"synthetic": False}, "'synthetic' was unexpected"),
        ({"waves": 0}, "0 is less than the minimum of 1"),
        ({"waves": 13}, "13 is greater than the maximum of 12"),
        ({"weight_places": 5}, "5 is greater than the maximum of 4"),
        ({"states": ["03"]}, "'03' is not one of"),
        ({"design": {"urban": {}}}, "'urban' was unexpected"),
        ({"design": {"other": {"sampling_rate": "1/2"}}}, "'response_rate' is a required property"),
    ],
)
def test_the_check_of_yaml_names_the_rule(fields: dict[str, Any], complaint: str) -> None:
    validator = Draft202012Validator(SyntheticSurvey.model().model_json_schema())
    assert list(validator.iter_errors(VALID)) == []
    assert complaint in next(error.message for error in validator.iter_errors(VALID | fields))


@pytest.mark.parametrize(
    ("rate", "exactly"),
    [(1, Fraction(1)), (0.1, Fraction(1, 10)), ("1/3", Fraction(1, 3)), ("0.25", Fraction(1, 4)), ("1", Fraction(1))],
)
def test_a_rate_is_the_number_that_was_written(rate: object, exactly: Fraction) -> None:
    """The check of YAML and loading accept the same rates."""
    stratum = {"sampling_rate": rate, "response_rate": rate, "retention_rate": rate}
    fields = {"design": {"other": stratum}}
    assert list(Draft202012Validator(SyntheticSurvey.model().model_json_schema()).iter_errors(VALID | fields)) == []
    design = declared(**fields).generated.design
    assert {getattr(design.other, each) for each in stratum} == {exactly}
    assert design.low_income == SurveyParameters.model_validate({"households": 4, "states": ["01"]}).design.low_income


def test_a_declaration_means_what_its_parameters_say() -> None:
    made = declared(waves=2, weight_places=0, seed=5, description="For a try.")
    parameters = SurveyParameters.model_validate(
        {"households": 400, "states": ["01", "72"], "waves": 2, "weight_places": 0, "seed": 5}
    )
    assert made == synthetic_survey(parameters, name="panel", cap=10, population="panel", description="For a try.")
    assert made.synthetic
    assert not made.asks, "a draw on generated records needs no authorization"
    assert made.population == "panel"
    assert made.record_name == "household"
    assert made.persons is not None
    assert {column.role for column in made.persons.columns.values()} == {Role.KEY, Role.UNIT, Role.CHARACTERISTIC}
    assert "income_2" in made.persons.columns
    assert "income_3" not in made.persons.columns


def test_columns_are_recoded_beside_those_of_the_survey() -> None:
    band = {"source": "income_2", "type": "integer", "bands": {"none": {"below": 1}, "some": {"at_least": 1}}}
    made = declared(recoded_persons={"band": band})
    assert made.persons is not None
    assert made.persons.variables["band"].codes == ("none", "some")
    for field, recodes, complaint in (
        ("recoded_persons", {"income_1": band}, "recoded_persons: income_1: the layout has a column income_1"),
        ("recoded_persons", {"Tenure": band}, "recoded_persons: Tenure: the layout has a column tenure"),
        ("recoded_units", {"band": band}, "recoded_units: band: source: there is no column income_2; units have"),
        ("recoded_persons", {"band": band | {"source": "income_5"}}, "there is no column income_5; persons have"),
        ("recoded_persons", {"band": {"type": "integer", "minimum": 0, "maximum": 1}}, "band: it is not recoded"),
    ):
        with pytest.raises(ValidationError, match=f"dataset panel: .*{complaint}"):
            declared(**{field: recodes})


def test_the_page_names_every_column_and_code() -> None:
    page = (PROJECT / "docs" / "reference" / "synthetic-survey.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([^`\n]+)`", page))
    for records in declared(waves=2).tables.values():
        for name, column in records.stored.items():
            assert name.replace("_2", "_1") in named
            assert name == "state" or {str(code) for code in column.codes} <= named, name


def test_a_release_by_swapping_can_be_proposed_for_a_survey() -> None:
    """`stirred new release` writes it. Weights and other columns without a list of values are left out."""
    made = declared()
    proposal = propose_swapping(made, "swapped")
    attributes = yaml.safe_load(proposal.text)["attributes"]
    assert attributes["swap"] == ["state"]
    assert "design_weight" not in attributes["variables"] + attributes["match"]
    component = PermutationSwapping.resolve_from_yaml(yaml.safe_dump(attributes))
    assert component.release(made, PROJECT).name == "swapped"


def test_the_survey_of_this_project_is_small_and_has_a_cap_in_epsilon() -> None:
    text = (PROJECT / "orchestration" / "defs" / "survey" / "dataset" / "defs.yaml").read_text(encoding="utf-8")
    survey = SyntheticSurvey.resolve_from_yaml(yaml.safe_dump(yaml.safe_load(text)["attributes"])).declaration
    assert survey.name == "survey"
    assert survey.generated.households <= 10_000
    assert isinstance(survey.cap, PureLoss)
