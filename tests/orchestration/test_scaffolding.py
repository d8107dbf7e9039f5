"""`dg scaffold defs` writes a complete example of every component, which can be loaded as it stands."""

from pathlib import Path

import yaml
from dagster.components.testing import create_defs_folder_sandbox
from jsonschema import Draft202012Validator

from orchestration import components
from orchestration.checking import declaration_problems
from orchestration.components.scaffolding import EXAMPLES

FOLDERS = {
    "Dataset": "town/dataset",
    "PermutationSwapping": "town/tenure",
    "CensusDataset": "Census_2020",
    "SyntheticCensus": "rehearsal/dataset",
    "SyntheticSurvey": "Panel-2024/dataset",
    "SafeTabDataset": "detailed/dataset",
    "PpmfDataset": "ppmf/dataset",
    "PumsDataset": "pums/dataset",
    "SafeTabP": "detailed/persons",
    "SafeTabH": "detailed/Households",
    "PHSafe": "rehearsal/s-dhc",
    "TopDown": "rehearsal/redistricting",
    "DHC": "rehearsal/dhc",
    "PairSwapping2010": "rehearsal/pairs",
    "Coarsening": "rehearsal/coarse",
    "Suppression": "rehearsal/sparse",
    "TableBuilder": "town/tables",
    "Laboratory": "rehearsal/risk",
    "Retabulation": "rehearsal/places",
    "Reestimation": "rehearsal/anew",
    "PublisherSettings": "publisher",
}
"""Where each component is scaffolded."""


def test_the_scaffolded_example_of_each_component_is_accepted_with_names_from_its_folder(tmp_path: Path) -> None:
    assert {path.stem for path in EXAMPLES.iterdir()} == set(FOLDERS) == set(components.__all__)
    with create_defs_folder_sandbox() as sandbox:
        written = {}
        for name, folder in FOLDERS.items():
            sandbox.scaffold_component(getattr(components, name), folder)
            written[name] = (sandbox.defs_folder_path / folder / "defs.yaml").read_text(encoding="utf-8")
        with sandbox.build_component_tree() as tree:
            assert declaration_problems(tree, tmp_path) == []
    declared = {name: yaml.safe_load(text)["attributes"] for name, text in written.items()}
    assert {name: attributes["name"] for name, attributes in declared.items() if "name" in attributes} == {
        "Dataset": "town",
        "PermutationSwapping": "tenure",
        "CensusDataset": "census_2020",
        "SyntheticCensus": "rehearsal",
        "SyntheticSurvey": "panel_2024",
        "SafeTabDataset": "detailed",
        "PpmfDataset": "ppmf",
        "PumsDataset": "pums",
        "SafeTabP": "persons",
        "SafeTabH": "households",
        "PHSafe": "s_dhc",
        "TopDown": "redistricting",
        "DHC": "dhc",
        "PairSwapping2010": "pairs",
        "Coarsening": "coarse",
        "Suppression": "sparse",
        "TableBuilder": "tables",
        "Laboratory": "risk",
        "Retabulation": "places",
        "Reestimation": "anew",
    }
    for name, text in written.items():
        assert "docs/" in text or name == "SyntheticCensus"
        assert text.count("# ") >= 5, "every example explains its fields"
        schema = getattr(components, name).model().model_json_schema()
        assert list(Draft202012Validator(schema).iter_errors(declared[name])) == [], "`dg check yaml` accepts it too"


def test_the_schema_of_a_column_accepts_the_unquoted_name_null_and_no_unknown_name() -> None:
    """Wrong program: a list of properties, which cannot have a name that YAML does not read as text."""
    validator = Draft202012Validator(components.Dataset.get_model_cls().model_json_schema())
    text = (EXAMPLES / "Dataset.yaml").read_text(encoding="utf-8").replace("{dataset}", "town")
    for line, wrong in (("null: ['99']", 0), ("'null': ['99']", 0), ("nulll: ['99']", 1)):
        attributes = yaml.safe_load(text)["attributes"]
        column = next(iter(attributes["units"]["columns"].values()))
        column.update(yaml.safe_load(line))
        assert len(list(validator.iter_errors(attributes))) == wrong, line
