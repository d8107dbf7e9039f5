"""A census in YAML: the refusals of `dg check yaml`, and the meaning of a declaration."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox
from dagster_shared.yaml_utils import safe_load_yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from assets.cef.sample import write_sample
from assets.cef.synthetic import SyntheticPopulation
from assets.phsafe.declaration import PHSafeDeclaration
from assets.release.release import DeclarationError
from mechanisms.states import STATES
from orchestration.components import CensusDataset, Dataset, PermutationSwapping, SyntheticCensus
from orchestration.components.phsafe import PHSafe
from orchestration.environment import deployment_resources
from resources.statements import Table, Zone
from resources.warehouse import Warehouse

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"

FILES = """
name: census
title: A census
cap: {rho: 5}
format: csv
persons: "{{ env.CEF_FOLDER }}/persons.csv"
units: "{{ env.CEF_FOLDER }}/units.csv"
geo: files/geo.csv
"""
TYPED_FILES = f"{FILES}group_quarters_types: true\n"
MADE_UP = """
name: made_up
cap: 10
households: 400
states: ["01", "72"]
"""

RECODED = """
recoded_units:
  SIZE:
    source: FINAL_POP
    type: integer
    bands: {"0": {below: 1}, "1 to 3": {at_least: 1, below: 4}, "4+": {at_least: 4}}
  HALF: {source: REGIONCE, type: string, role: geography, merge: {West: ["4"]}, everything_else: Rest}
recoded_persons:
  AGE: {source: QAGE, type: integer, minimum: 0, maximum: 85, top_coded: true}
  KIND: {source: RTYPE, type: string, merge: {home: ["3"], other: ["5"]}}
"""


def complaints(component: type[Dataset], attributes: Any) -> list[str]:
    """The messages of `dg check yaml`, which validates the attributes against the JSON schema of the component."""
    model = component.get_model_cls()
    assert model is not None
    validator = Draft202012Validator(model.model_json_schema())
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(attributes)]


def without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda attributes: attributes.pop(name)


def with_(name: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda attributes: attributes.update({name: value})


@pytest.mark.parametrize(
    ("component", "text", "change", "complaint"),
    [
        (CensusDataset, FILES, with_("reader", "csv"), "'reader' was unexpected"),
        (CensusDataset, FILES, with_("format", "ma1940"), "format: 'ma1940' is not one of"),
        (CensusDataset, FILES, with_("geo", ""), "geo: '' should be non-empty"),
        (CensusDataset, FILES, with_("synthetic", "perhaps"), "synthetic: 'perhaps' is not of type 'boolean'"),
        (CensusDataset, FILES, with_("name", "The_Census"), "name: 'The_Census' does not match"),
        (CensusDataset, FILES, with_("group_quarters_types", 3), "group_quarters_types: 3 is not of type 'boolean'"),
        *((CensusDataset, FILES, without(name), f"'{name}' is a required property") for name in yaml.safe_load(FILES)),
        (SyntheticCensus, MADE_UP, with_("synthetic", False), "'synthetic' was unexpected"),
        (SyntheticCensus, MADE_UP, with_("households", 0), "households: 0 is less than the minimum of 1"),
        (SyntheticCensus, MADE_UP, with_("states", []), "states: [] should be non-empty"),
        (SyntheticCensus, MADE_UP, with_("states", ["03"]), "states.0: '03' is not one of"),
        (SyntheticCensus, MADE_UP, with_("states", ["01", "01"]), "has non-unique elements"),
        (SyntheticCensus, MADE_UP, with_("seed", -1), "seed: -1 is less than the minimum of 0"),
        *(
            (SyntheticCensus, MADE_UP, without(name), f"'{name}' is a required property")
            for name in yaml.safe_load(MADE_UP)
        ),
    ],
)
def test_the_check_of_yaml_names_the_field_and_the_rule(
    component: type[Dataset], text: str, change: Callable[[dict[str, Any]], object], complaint: str
) -> None:
    attributes = yaml.safe_load(text)
    assert complaints(component, attributes) == []
    change(attributes)
    found = complaints(component, attributes)
    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize("claim", [{"role": "geography"}, {"depends_on_persons": False}])
@pytest.mark.parametrize(
    ("component", "text"), [(CensusDataset, FILES), (SyntheticCensus, MADE_UP)], ids=["files", "made up"]
)
def test_what_is_recoded_from_persons_depends_on_them(
    component: type[Dataset], text: str, claim: dict[str, Any]
) -> None:
    """A hypercube of persons by it would charge for one of the persons whose records one person changes."""

    def declare(source: str) -> None:
        recode = {"source": source, "type": "string", "merge": {"a": ["1"]}, "everything_else": "b", **claim}
        component.declared_by.model_validate(yaml.safe_load(text) | {"recoded_units": {"KIND": recode}})

    declare("TEN")
    for source in ("HHRACE", "HHT"):
        with pytest.raises(ValidationError, match=f"recoded_units: KIND: {source} depends on the persons"):
            declare(source)


def test_the_names_of_states_label_their_codes() -> None:
    """Wrong program: one whose hypercubes by state call a region of another country Alabama."""
    text = f"{FILES.replace('{{ env.CEF_FOLDER }}', 'files')}place_names: {{'01': Østlandet, '01001': Asker}}\n"
    column = CensusDataset.resolve_from_yaml(text).declaration.units.columns["TABBLKST"]
    assert (column.labels["01"], column.labels["02"]) == ("Østlandet", "Alaska")
    assert column.codes == tuple(STATES), "the same codes, so that no draw is another one"


def test_a_place_whose_code_lacks_quotes_is_refused_with_the_remedy() -> None:
    """Wrong program: one that says that a text is missing, as if the name were wrong."""
    with pytest.raises(ValidationError, match="10 is a number; put the code in quotes"):
        CensusDataset.resolve_from_yaml(f"{FILES.replace('{{ env.CEF_FOLDER }}', 'files')}place_names: {{10: Oslo}}\n")


def test_the_declarations_have_the_stated_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEF_FOLDER", "/elsewhere")
    untyped = CensusDataset.resolve_from_yaml(FILES).declaration
    read = CensusDataset.resolve_from_yaml(TYPED_FILES).declaration
    assert not read.synthetic
    assert read.reader.value == "csv"
    assert read.units.path == "/elsewhere/units.csv"
    assert read.units.geography_path == "files/geo.csv"
    assert read.persons is not None
    assert read.persons.path == "/elsewhere/persons.csv"
    made_up = SyntheticCensus.resolve_from_yaml(MADE_UP).declaration
    assert made_up.synthetic
    assert made_up.title == "Synthetic census of Alabama and Puerto Rico"
    assert "(seed 2020)" in made_up.description
    assert read.record_name == made_up.record_name == "unit"
    one, other = ({name: dict(table.columns) for name, table in made.tables.items()} for made in (read, made_up))
    anywhere, here = one["units"].pop("TABBLKST"), other["units"].pop("TABBLKST")
    assert one == other
    assert list(one["units"].pop("GQTYPE").codes) == list("01234567")
    assert dict(untyped.units.columns) == {**one["units"], "TABBLKST": anywhere}
    assert set(here.codes) == set(made_up.generated.states) < set(anywhere.codes)


def test_a_release_of_a_state_outside_the_dataset_is_refused(tmp_path: Path) -> None:
    """Such a state would be charged and published as pure noise."""
    dataset = SyntheticCensus.resolve_from_yaml(MADE_UP).declaration
    declaration = PHSafeDeclaration(name="s_dhc", dataset="made_up", title="S-DHC", states=["01", "06"])
    with pytest.raises(DeclarationError, match=r"release made_up/s_dhc: states: 06 is not a state of made_up"):
        PHSafe(declaration).release(dataset, tmp_path)


def test_a_rule_between_fields_is_refused_on_loading() -> None:
    with pytest.raises(ValidationError, match="2 states need at least one household each"):
        SyntheticCensus.resolve_from_yaml(MADE_UP.replace("400", "1"))


@pytest.mark.prove
def test_both_components_become_the_same_cef_and_releases_find_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One census read from its files and the same census generated, each with a release by swapping."""
    monkeypatch.setenv("CEF_FOLDER", str(tmp_path))
    write_sample(tmp_path, SyntheticPopulation(seed=2020, households=400, states=["01", "72"]))
    release = {
        "name": "counties",
        "title": "Tenure by county",
        "match": ["TABBLKST", "SIZE"],
        "swap": ["TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK"],
        "swap_rate": "1/10",
    }
    recoded = yaml.safe_load(RECODED)
    files = {**yaml.safe_load(TYPED_FILES), **recoded, "geo": str(tmp_path / "geo.csv")}
    with create_defs_folder_sandbox() as sandbox:
        for name, component, attributes in (
            ("read", CensusDataset, files),
            ("made_up", SyntheticCensus, {**yaml.safe_load(MADE_UP), **recoded}),
            ("read_release", PermutationSwapping, {**release, "dataset": "census"}),
            ("made_up_release", PermutationSwapping, {**release, "dataset": "made_up"}),
        ):
            sandbox.scaffold_component(
                component_cls=component,
                defs_path=name,
                defs_yaml_contents={
                    "type": f"orchestration.components.{component.__name__}",
                    "attributes": attributes,
                },
            )
        with sandbox.build_all_defs() as definitions:
            resources = deployment_resources(tmp_path / "var")
            graph = dg.Definitions.merge(definitions, dg.Definitions(resources=resources)).resolve_asset_graph()
            for dataset in ("census", "made_up"):
                key = dg.AssetKey([dataset, "cef"])
                assert {check.name for check in graph.asset_check_keys if check.asset_key == key} == {
                    "schema_and_keys",
                    "as_read",
                    "structure",
                }
                assert graph.has(dg.AssetKey([dataset, "counties", "charge"]))
                told = graph.get(key).description or ""
                assert ("**Synthetic**" in told) == (dataset == "made_up")
                assert ("**Confidential**" in told) == (dataset == "census")
            result = dg.materialize(
                [*(definitions.assets or []), *(definitions.asset_checks or [])],
                selection=dg.AssetSelection.assets(["census", "cef"], ["made_up", "cef"]),
                resources=resources,
            )
    assert result.success
    evaluations = result.get_asset_check_evaluations()
    assert all(evaluation.passed for evaluation in evaluations)
    shown = [value for evaluation in evaluations for value in evaluation.metadata.values()]
    assert {type(value) for value in shown} == {dg.TextMetadataValue}, "of a number, Dagster draws a chart of one dot"
    warehouse = resources["warehouse"]
    assert isinstance(warehouse, Warehouse)
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        versions = {
            session.content_version(component.resolve_from_yaml(text).declaration.cef_tables())
            for component, text in ((CensusDataset, TYPED_FILES), (SyntheticCensus, MADE_UP))
        }
        sizes = Table(Zone.CONFIDENTIAL, "made_up", "units")
        found = session.rows("cef/records", columns=["FINAL_POP", "SIZE"], table=sizes)
        ages = session.rows(
            "cef/records",
            columns=["QAGE", "AGE", "PERSON_RTYPE", "KIND"],
            table=Table(Zone.CONFIDENTIAL, "made_up", "persons"),
        )
    assert len(versions) == 1
    assert all(size == ("0" if people == 0 else "1 to 3" if people < 4 else "4+") for people, size in found)
    assert all(coded == min(age, 85) for age, coded, _, _ in ages)
    assert all(kind == {"3": "home", "5": "other"}[lives] for _, _, lives, kind in ages)


def test_the_examples_of_the_documentation_pass_the_check_of_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEF_FOLDER", "/elsewhere")
    blocks = [
        block.split("```")[0]
        for page in ("datasets.md", "census-layout.md")
        for block in (DOCS / page).read_text(encoding="utf-8").split("```yaml\n")[1:]
    ]
    components = {
        f"orchestration.components.{component.__name__}": component
        for component in (CensusDataset, Dataset, SyntheticCensus)
    }
    documents = [safe_load_yaml(block) for block in blocks]
    assert {document["type"] for document in documents} == set(components)
    for document in documents:
        component = components[document["type"]]
        assert complaints(component, document["attributes"]) == []
        assert component.resolve_from_yaml(yaml.safe_dump(document["attributes"])).declaration


def test_the_path_of_a_geography_file_may_hold_a_template_variable_in_any_dataset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CEF_FOLDER", "/elsewhere")
    columns = {
        "serial": {"type": "integer", "role": "key"},
        "county": {"type": "string", "role": "geography", "pattern": "[0-9]{3}"},
    }
    path = "{{ env.CEF_FOLDER }}/places.csv"
    units = {"path": "units.csv", "geography_path": path, "columns": columns}
    attributes = {"name": "town", "title": "A town", "reader": "csv", "cap": 1, "units": units}
    assert complaints(Dataset, attributes) == []
    declared = Dataset.resolve_from_yaml(yaml.safe_dump(attributes)).declaration
    assert declared.units.geography_path == "/elsewhere/places.csv"
