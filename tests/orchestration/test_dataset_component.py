"""A dataset in YAML: the refusals of `dg check yaml` and of loading, and the meaning of a valid declaration."""

import pwd
import re
import traceback
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster_shared.yaml_utils import safe_load_yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from assets.cef.readers import describe_file, open_every_column, open_source
from assets.cef.validation import SourceError
from assets.release.columns import RecordTable
from assets.release.dataset import Reader
from mechanisms.accounting.losses import PureLoss
from orchestration.components import Dataset
from orchestration.environment import deployment_resources
from resources.statements import Zone
from resources.warehouse import Warehouse

DEFS = Path(__file__).resolve().parents[2] / "orchestration" / "defs"

TOWN = """
name: town
title: "1940"
reader: csv
record_name: household
cap: 1/2
units:
  path: "{{ env.CEF_FOLDER }}/households.csv"
  columns:
    county:
      type: string
      role: geography
      values: {"01": "{{ no template }}", "1": One}
    rooms:
      type: integer
      values: {1: One, 2: Two or more}
    moved:
      type: date
      minimum: 1850-01-01
      nullable: true
    size:
      source: rooms
      type: integer
      bands: {few: {below: 2}, many: {at_least: 2}}
    place:
      source: county
      type: string
      merge: {One: ["01", "1"]}
      everything_else: Elsewhere
"""


def complaints(attributes: Any) -> list[str]:
    """The messages of `dg check yaml`, which validates the attributes against the JSON schema of the component."""
    model = Dataset.get_model_cls()
    assert model is not None
    validator = Draft202012Validator(model.model_json_schema())
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(attributes)]


def test_the_datasets_of_this_deployment_pass_the_check_of_yaml() -> None:
    documents = [
        document
        for path in DEFS.rglob("defs.yaml")
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document["type"] == "orchestration.components.Dataset"
    ]
    assert documents
    assert [complaint for document in documents for complaint in complaints(document["attributes"])] == []


def test_a_valid_declaration_has_the_stated_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEF_FOLDER", "/elsewhere")
    assert complaints(safe_load_yaml(TOWN)) == []
    declaration = Dataset.resolve_from_yaml(TOWN).declaration
    assert declaration.title == "1940"
    assert declaration.cap == PureLoss(Fraction(1, 2))
    assert declaration.units.path == "/elsewhere/households.csv"
    county = declaration.units.columns["county"]
    assert county.codes == ("01", "1"), "a quoted code stays a text"
    assert county.labels["01"] == "{{ no template }}"
    assert declaration.units.columns["rooms"].codes == (1, 2)
    assert declaration.units.variables["size"].codes == ("few", "many")
    assert declaration.units.variables["place"].codes == ("One", "Elsewhere")


CANARY = "c0ffee" * 10


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("{{ env.STIRRED_MASTER_KEY }}/a.csv", "STIRRED_MASTER_KEY is not a folder of source files"),
        ("data/{{ env.AWS_SECRET_ACCESS_KEY }}/a.csv", "AWS_SECRET_ACCESS_KEY is not a folder"),
        ("{{ env.PGPASSWORD }}/a.csv", "PGPASSWORD is not a folder"),
        ("{{ env.UNLISTED }}/a.csv", "STIRRED_DECLARATION_VARIABLES does not list UNLISTED"),
        ("{{ env.MISSING_FOLDER }}/a.csv", "MISSING_FOLDER is not set"),
        ("data/{{ env.CEF_FOLDER }}", "only in the folder of a file"),
        ("{{ env('UNLISTED') }}/a.csv", "only {{ env.NAME }} is filled in"),
        ("{{ env.CEF_FOLDER ~ env.STIRRED_MASTER_KEY }}/a.csv", "only {{ env.NAME }} is filled in"),
        ("{{ env.CEF_FOLDER }}/{% print(env.UNLISTED) %}/a.csv", "only {{ env.NAME }} is filled in"),
        ("{{ env.LONG_FOLDER }}/a.csv", "it is no possible path"),
    ],
)
def test_a_template_tells_no_variable_but_folders_that_the_deployment_lists(
    path: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STIRRED_MASTER_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "UNLISTED"):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("CEF_FOLDER", f"/srv/{CANARY}")
    monkeypatch.setenv("LONG_FOLDER", CANARY * 10)
    listed = "CEF_FOLDER, MISSING_FOLDER,LONG_FOLDER,STIRRED_MASTER_KEY,AWS_SECRET_ACCESS_KEY,PGPASSWORD"
    monkeypatch.setenv("STIRRED_DECLARATION_VARIABLES", listed)
    with pytest.raises(Exception, match=r"units\.path") as refusal:
        Dataset.resolve_from_yaml(TOWN.replace("{{ env.CEF_FOLDER }}/households.csv", path))
    told = "".join(traceback.format_exception(refusal.value))
    assert said in told
    assert CANARY not in told


def test_a_missing_source_is_told_by_the_name_of_its_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEF_FOLDER", f"/srv/{CANARY}")
    declaration = Dataset.resolve_from_yaml(TOWN).declaration
    with pytest.raises(SourceError) as refusal:
        open_source(declaration, "units", Path("/"))
    assert str(refusal.value).endswith("households.csv: there is no such file")

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(SourceError) as refusal:
        open_source(declaration, "units", Path("/"))
    assert CANARY not in "".join(traceback.format_exception(refusal.value))


@pytest.mark.parametrize(
    "path",
    [
        "{home}/custody/master.key",
        "{home}/custody/../custody/ephemeral/a.csv",
        "{link}/master.key",
        "{home}/warehouse/spill/a.parquet",
        "{secrets}/services.csv",
        "{secrets}/hard.csv",
        "{user}/.pgpass",
        "/proc/self/environ",
        "/run/secrets/services_runs",
    ],
)
def test_no_declaration_reads_a_file_of_keys(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong program: treats the file like any other. A declaration could describe each digit of the master key as a
    column of a file of fixed width, and the failure of `cef` showed whether the digit was in the declared domain."""
    folders = {name: tmp_path / name for name in ("home", "secrets", "user", "data")}
    for folder in (*folders.values(), folders["home"] / "custody"):
        folder.mkdir()
    folders["link"] = tmp_path / "link"
    folders["link"].symlink_to(folders["home"] / "custody")
    for name, value in {"STIRRED_HOME": "home", "HOME": "user", "PGSERVICEFILE": "secrets/services.csv"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    files = (folders["home"] / "custody/master.key", folders["secrets"] / "services.csv", folders["user"] / ".pgpass")
    for file in files:
        file.write_text(CANARY)
    (folders["secrets"] / "hard.csv").hardlink_to(folders["secrets"] / "services.csv")
    named = path.format(**folders)
    for field in ("path", "codebook", "geography_path"):
        with pytest.raises(ValidationError, match="the path leads to keys"):
            RecordTable.model_validate({field: named, "columns": {"a": {"type": "string", "pattern": ".*"}}})
    for read in (Reader.CSV, Reader.DDI):
        with pytest.raises(SourceError, match="the path leads to keys"):
            describe_file(read, Path(named), folders["data"] / "codebook.xml") or open_every_column(read, Path(named))
    # Of a file that may be declared, both go on.
    free = folders["data"] / "a.csv"
    RecordTable.model_validate({"path": str(free), "columns": {"a": {"type": "string", "pattern": ".*"}}})
    with pytest.raises(SourceError, match="there is no such file"):
        open_every_column(Reader.CSV, free)


def test_without_the_variable_home_a_hidden_file_of_the_user_is_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: takes / for the home of a service without HOME, and so reads its `~/.pgpass`."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", lambda user: SimpleNamespace(pw_dir=str(tmp_path)))
    (tmp_path / ".pgpass").write_text(CANARY)
    with pytest.raises(ValidationError, match="the path leads to keys"):
        RecordTable.model_validate({"path": str(tmp_path / ".pgpass"), "columns": {"a": {"type": "integer"}}})


def change(*path: str, to: object) -> Callable[[dict[str, Any]], None]:
    def changed(attributes: dict[str, Any]) -> None:
        *folders, last = path
        for folder in folders:
            attributes = attributes[folder]
        attributes[last] = to

    return changed


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        (change("tittle", to="A town"), "'tittle' was unexpected"),
        (change("name", to="my__town"), "name: 'my__town' does not match"),
        (change("reader", to="excel"), "reader: 'excel' is not one of"),
        (change("cap", to=0), "cap: 0 is less than or equal to the minimum of 0"),
        (change("cap", to="half"), "cap: 'half' does not match"),
        (change("synthetic", to="perhaps"), "synthetic: 'perhaps' is not of type 'boolean'"),
        (change("units", to={}), "units: 'columns' is a required property"),
        (change("units", "columns", to={}), "units.columns: {} should be non-empty"),
        (change("units", "columns", "rooms", "type", to="int"), "units.columns.rooms.type: 'int' is not one of"),
        (change("units", "columns", "rooms", "role", to="id"), "units.columns.rooms.role: 'id' is not one of"),
        (change("units", "columns", "rooms", "values", to="1,2"), "is not of type 'array', 'object'"),
        (change("units", "columns", "rooms", "width", to=3), "'width' is not one of"),
        (change("units", "columns", "size", "bands", to={}), "units.columns.size.bands: {} should be non-empty"),
        (change("units", "columns", "size", "bands", "few", to={"from": 2}), "'from' was unexpected"),
        (change("units", "columns", "place", "merge", "One", to="01"), "'01' is not of type 'array'"),
        (change("units", "columns", "place", "merge", "One", to=[]), "[] should be non-empty"),
        (change("persons", to={"path": "p.csv"}), "persons: 'columns' is a required property"),
    ],
)
def test_the_check_of_yaml_names_the_field_and_the_rule(
    changed: Callable[[dict[str, Any]], None], complaint: str
) -> None:
    attributes = safe_load_yaml(TOWN)
    changed(attributes)
    found = complaints(attributes)
    assert len(found) == 1
    assert complaint in found[0]


def test_a_rule_between_fields_is_refused_on_loading_with_file_and_line() -> None:
    text = TOWN.replace("values: {1: One, 2: Two or more}", "minimum: 3\n      maximum: 1")
    with pytest.raises(ValidationError) as refusal:
        Dataset.resolve_from_yaml(text)
    assert refusal.value.error_count() == 1
    assert re.search(r"units\.columns\.rooms at .*:14", str(refusal.value))
    assert "minimum 3 is greater than maximum 1" in str(refusal.value)


def test_the_component_becomes_the_cef_and_its_blocking_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEF_FOLDER", str(tmp_path))
    (tmp_path / "households.csv").write_text("rooms,county,moved\n1,01,\n2,1,1939-05-01\n")
    component = Dataset.resolve_from_yaml(TOWN)
    resources = deployment_resources(tmp_path / "var")
    definitions = component.build_defs(dg.ComponentTree.for_test().load_context)
    graph = dg.Definitions.merge(definitions, dg.Definitions(resources=resources)).resolve_asset_graph()
    node = graph.get(dg.AssetKey(["town", "cef"]))
    assert node.group_name == "town"
    assert node.kinds == {"duckdb", "pandera", "confidential"}
    assert node.owners == ["team:disclosure-avoidance"]
    assert node.tags["zone"] == "confidential"
    assert node.tags["stage_kind"] == "cef"
    assert node.pools == {"warehouse"}
    assert "household" in (node.description or "")
    check = graph.get(dg.AssetCheckKey(dg.AssetKey(["town", "cef"]), "schema_and_keys"))
    assert check.blocking
    result = dg.materialize(
        [*(definitions.assets or []), *(definitions.asset_checks or [])],
        selection=dg.AssetSelection.assets(["town", "cef"]),
        resources=resources,
    )
    assert result.success
    assert {evaluation.check_name for evaluation in result.get_asset_check_evaluations()} == {
        "schema_and_keys",
        "as_read",
    }
    warehouse = resources["warehouse"]
    assert isinstance(warehouse, Warehouse)
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.count(component.declaration.cef_tables()[0]) == 2
