"""A swapping release in YAML: refusals with their messages, and a user's own release from two files.

`dg check yaml` validates a file against the component's JSON schema. Loading the deployment refuses the errors that the
schema cannot express. Both give one error, which names the field and the rule.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError
from assets.swapping.declaration import SwappingDeclaration
from assets.swapping.release import SwappingRelease
from orchestration import components
from orchestration.components import PermutationSwapping
from orchestration.components.release import dataset_of
from resources.custody import CustodyMode
from tests.deployments import PERSONS, UNITS, households, write_csv

ROOT = Path(__file__).resolve().parents[2]

DATASET: dict[str, Any] = {
    "name": "village",
    "title": "A village",
    "reader": "csv",
    "record_name": "household",
    "cap": 40,
    "units": {"path": "data/units.csv", "columns": UNITS},
}
RELEASE: dict[str, Any] = {
    "name": "counties",
    "dataset": "village",
    "title": "Households by county",
    "match": ["region", "size"],
    "swap": ["county"],
    "swap_rate": "1/3",
    "products": [{"name": "tenures", "geography": ["county"], "dimensions": ["tenure"], "totals": ["tenure"]}],
}

Change = Callable[[dict[str, Any], dict[str, Any]], None]


def complaints(attributes: dict[str, Any]) -> list[str]:
    """The messages of `dg check yaml`, which validates the attributes against the JSON schema of the component."""
    model = PermutationSwapping.get_model_cls()
    assert model is not None
    validator = Draft202012Validator(model.model_json_schema())
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(attributes)]


def loaded(release: dict[str, Any], dataset: dict[str, Any]) -> SwappingRelease:
    """The release that loading the deployment makes from YAML."""
    component = PermutationSwapping.resolve_from_yaml(yaml.safe_dump(release, sort_keys=False))
    declared = DatasetDeclaration.model_validate(dataset)
    found = dataset_of(component.declaration, {declared.name: declared})
    return component.release(found, Path("published"))


def to(*path: str | int, value: Any) -> Change:
    """Change one attribute of the release."""

    def change(release: dict[str, Any], dataset: dict[str, Any]) -> None:
        place: Any = release
        *folders, last = path
        for folder in folders:
            place = place[folder]
        place[last] = value

    return change


def product(**changes: Any) -> Change:
    def change(release: dict[str, Any], dataset: dict[str, Any]) -> None:
        release["products"][0] |= changes

    return change


def column(name: str, **declared: Any) -> Change:
    """Change or add a column of the dataset."""

    def change(release: dict[str, Any], dataset: dict[str, Any]) -> None:
        columns = dataset["units"]["columns"]
        columns[name] = columns.get(name, {}) | declared

    return change


def both(*changes: Change) -> Change:
    def change(release: dict[str, Any], dataset: dict[str, Any]) -> None:
        for one in changes:
            one(release, dataset)

    return change


def with_persons(release: dict[str, Any], dataset: dict[str, Any]) -> None:
    dataset["persons"] = {"path": "data/persons.csv", "columns": deepcopy(PERSONS)}


def built_in(release: dict[str, Any], dataset: dict[str, Any]) -> None:
    dataset["reader"] = "ma1940"
    del dataset["units"]["path"]


def changed(change: Change) -> tuple[dict[str, Any], dict[str, Any]]:
    release, dataset = deepcopy(RELEASE), deepcopy(DATASET)
    change(release, dataset)
    return release, dataset


def test_a_valid_declaration_has_the_stated_meaning() -> None:
    assert complaints(RELEASE) == []
    release = loaded(RELEASE, DATASET)
    design = release.design
    assert (design.unit, design.match, design.swap, design.held) == (
        "household",
        ("region", "size"),
        ("county",),
        ("tenure",),
    )
    assert design.plain_rate == Fraction(1, 3)
    assert release.custody is CustodyMode.ESCROWED
    assert release.folder == Path("published/village/counties")


def test_variables_name_what_takes_part_besides_match_and_swap() -> None:
    for named, held, following in (
        (None, ("tenure",), ("age", "sex")),
        ([], (), ()),
        (["age"], (), ("age",)),
        (["tenure", "county", "size"], ("tenure",), ()),
    ):
        release, dataset = changed(both(with_persons, to("variables", value=named), to("products", value=[])))
        if named is None:
            del release["variables"]
        found = loaded(release, dataset)
        assert (found.design.held, found.design.persons) == (held, following)
        assert tuple(found.person_variables) == following
        assert set(found.variables) == {"region", "county", "size", *held}
        assert not found.swaps_persons


def test_unique_records_are_limited_to_one_percent_unless_declared() -> None:
    for written, most in (
        (None, Fraction(1, 100)),
        ("1/20", Fraction(1, 20)),
        (0.2, Fraction(1, 5)),
        ("accepted", None),
    ):
        release, dataset = changed(lambda release, dataset: None)
        if written is not None:
            release["publishes_unique_records"] = written
        assert complaints(release) == []
        assert loaded(release, dataset).declaration.publishes_unique_records == most


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("1/2", Fraction(1, 2)),
        ("2/4", Fraction(1, 2)),
        (0.1, Fraction(1, 10)),
        ("0.05", Fraction(1, 20)),
        ("999999999/1000000000", Fraction(999999999, 10**9)),
    ],
)
def test_a_swap_rate_is_exactly_the_written_fraction(written: str | float, rate: Fraction) -> None:
    """It is never the nearest float: 0.1 is one tenth."""
    release, dataset = changed(to("swap_rate", value=written))
    assert complaints(release) == []
    assert loaded(release, dataset).design.plain_rate == rate


IN_THE_SCHEMA: list[tuple[Change, str]] = [
    *[
        (to("swap_rate", value=value), f"swap_rate: {value!r} ")
        for value in (0, 1, 1.2, -0.5, "half", "1/0", "0/1", "-1/2", "0", "1", "1.2", "", True, None, [1, 2])
    ],
    (to("swap", value=[]), "swap: [] should be non-empty"),
    (to("swap", value="county"), "swap: 'county' is not of type 'array'"),
    (to("swaps", value=["county"]), "('swaps' was unexpected)"),
    (to("name", value="Counties 1"), "name: 'Counties 1' does not match"),
    (to("title", value=""), "title: '' should be non-empty"),
    (to("custody", value="lost"), "custody: 'lost' is not one of ['escrowed', 'ephemeral']"),
    (to("watch_source", value="sometimes"), "watch_source: 'sometimes' is not of type 'boolean'"),
    (product(of="families"), "products.0.of: 'families' is not one of ['units', 'persons']"),
    (product(name="by county"), "products.0.name: 'by county' does not match"),
    (product(total=["tenure"]), "('total' was unexpected)"),
    (to("experiment", value={"product": "tenures", "swap_rates": [1]}), "experiment.swap_rates.0: 1 "),
    (to("variables", value="tenure"), "variables: 'tenure' is not of type 'array'"),
    (to("saturated", value="sometimes"), "saturated: 'sometimes' is not of type 'boolean'"),
    *[
        (to("publishes_unique_records", value=value), f"publishes_unique_records: {value!r} ")
        for value in (-0.1, 1.1, True, None, "all", "Accepted", ["accepted"])
    ],
    (
        to("experiment", value={"product": "tenures", "swap_rates": [0.1], "draws": 0}),
        "experiment.draws: 0 is less than the minimum of 1",
    ),
]


@pytest.mark.parametrize(("change", "complaint"), IN_THE_SCHEMA, ids=[complaint for _, complaint in IN_THE_SCHEMA])
def test_the_check_of_yaml_names_the_field_and_the_rule(change: Change, complaint: str) -> None:
    release, dataset = changed(change)
    (found,) = complaints(release)
    assert complaint in found
    with pytest.raises(ValidationError):
        loaded(release, dataset)


WHEN_LOADED: list[tuple[Change, str]] = [
    (to("swap_rate", value="3/2"), "the swap rate must be strictly between 0 and 1"),
    (to("publishes_unique_records", value="3/2"), "'3/2' is not a share from 0 to 1, such as 1/100, nor accepted"),
    (to("variables", value=["tenure", "tenure"]), "variables: tenure is named twice"),
    (to("variables", value=["rooms"]), "release village/counties: variables: village has no variable rooms"),
    (to("variables", value=["serial"]), "release village/counties: variables: village has no variable serial"),
    (
        to("variables", value=[]),
        "release village/counties: products: tenures: tenure is not among the release's variables; columns of the "
        "swapped data are region, county, size",
    ),
    (
        both(with_persons, to("variables", value=["tenure"]), product(of="persons", dimensions=["sex"], totals=[])),
        "release village/counties: products: tenures: no persons are swapped with their household",
    ),
    (
        both(
            with_persons, to("variables", value=["tenure", "age"]), product(of="persons", dimensions=["sex"], totals=[])
        ),
        "release village/counties: products: tenures: sex is not among the release's variables",
    ),
    (to("swap_rate", value="1/1000000001"), "the denominator of a swap rate must be at most a billion"),
    (to("schedule", value="every morning"), "'every morning' is not a cron expression such as '0 6 1 * *'"),
    (product(source="cef"), "a product is tabulated from the swapped data only, not from 'cef'"),
    (product(geography=[], dimensions=[], totals=[]), "product tenures: at least one column is required"),
    *[
        (product(name=name), f"the name {name} belongs to the saturated contingency table")
        for name in ("saturated", "saturated_persons")
    ],
    (product(dimensions=["county"], totals=[]), "product tenures: column county is named twice"),
    (product(totals=["size"]), "product tenures: totals: size is not a column of the product"),
    (
        product(dimensions=["tenure", "Tenure_Total"], totals=["tenure"]),
        "product tenures: totals: tenure_total, which marks totals over tenure, is a column too",
    ),
    (
        to("swap", value=["county", "size"]),
        "release village/counties: swap: size cannot be a swap variable and a match",
    ),
    (to("match", value=["region", "size", "size"]), "release village/counties: match: size"),
    (to("swap", value=["county", "county"]), "release village/counties: swap: county"),
    (
        both(to("match", value=[]), to("swap", value=["region", "county", "size", "tenure"])),
        "release village/counties: holding: at least one variable must be held",
    ),
    (to("match", value=["region", "rooms"]), "release village/counties: match: there is no column rooms; "),
    (to("swap", value=["Avon"]), "release village/counties: swap: there is no column Avon; "),
    (to("swap", value=["serial"]), "release village/counties: swap: serial identifies records"),
    (to("match", value=["serial"]), "release village/counties: match: serial identifies records"),
    (
        both(with_persons, to("swap", value=["age"])),
        "release village/counties: swap: age identifies records or belongs",
    ),
    (
        both(with_persons, to("unit", value="person"), to("match", value=["household"])),
        "release village/counties: match: household identifies records or belongs to another table",
    ),
    (product(geography=["parish"]), "release village/counties: products: tenures: there is no column parish; columns"),
    (
        product(dimensions=["rooms"], totals=["rooms"]),
        "release village/counties: products: tenures: there is no column",
    ),
    (
        product(dimensions=["serial"], totals=[]),
        "release village/counties: products: tenures: serial identifies records",
    ),
    (
        both(with_persons, product(dimensions=["sex"], totals=[])),
        "release village/counties: products: tenures: sex identifies records or belongs to another table",
    ),
    (product(of="persons"), "release village/counties: products: tenures: no persons are swapped with their hous"),
    (
        both(with_persons, to("unit", value="person"), product(of="persons")),
        "release village/counties: products: tenures: no persons are swapped with their person",
    ),
    (
        to("products", value=[RELEASE["products"][0], RELEASE["products"][0]]),
        "release village/counties: products: tenures is declared twice",
    ),
    (column("size", nullable=True), "release village/counties: match: size may be null, and a null does not match"),
    (to("dataset", value="town"), "release town/counties: dataset: there is no dataset town; declared are village"),
    (to("unit", value="person"), "release village/counties: unit: village has no records called person"),
    (to("unit", value="dwelling"), "release village/counties: unit: village has no records called dwelling"),
    (
        to("experiment", value={"product": "tenures", "swap_rates": [0.1]}),
        "release village/counties: experiment: its draws would spend budget without a charge",
    ),
    (
        both(
            lambda release, dataset: dataset.update(synthetic=True),
            to("experiment", value={"product": "sizes", "swap_rates": [0.1]}),
        ),
        "release village/counties: experiment: there is no product sizes",
    ),
    (both(built_in, to("watch_source", value=True)), "release village/counties: watch_source: village is built in"),
    *[
        (
            column(name, type="boolean"),
            f"release village/counties: column {name} of the dataset has a name that is reserved",
        )
        for name in (
            *("count", "stratum", "holding_code", "swap_code", "composition", "persons"),
            *("unit_key", "household_type", "Count", "STRATUM"),
        )
    ],
]


@pytest.mark.parametrize(("change", "error"), WHEN_LOADED, ids=[error for _, error in WHEN_LOADED])
def test_what_the_schema_cannot_express_is_refused_on_loading(change: Change, error: str) -> None:
    release, dataset = changed(change)
    with pytest.raises((ValidationError, DeclarationError)) as refusal:
        loaded(release, dataset)
    said = str(refusal.value)
    assert error in said
    if isinstance(refusal.value, ValidationError):
        assert refusal.value.error_count() == 1
    else:
        assert "\n" not in said, "one error, in one sentence"


def test_the_model_refuses_values_that_yaml_cannot_express() -> None:
    for rate in (float("nan"), float("inf"), Fraction(0), Fraction(1), Fraction(-1, 2), b"1/2", object()):
        with pytest.raises(ValidationError) as refusal:
            SwappingDeclaration.model_validate(RELEASE | {"swap_rate": rate})
        assert refusal.value.error_count() == 1


# The same with files: a copy of the project with a user's own folders under defs/.


def dg_command(project: Path, *arguments: str) -> tuple[int, str]:
    """The exit status and output of `dg`."""
    return command(project, str(Path(sys.executable).with_name("dg")), *arguments)


def stirred(project: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and output of `stirred`."""
    return command(project, sys.executable, "-W", "ignore", "-m", "orchestration.cli", *arguments)


def command(project: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        arguments,
        cwd=project,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(("STIRRED", "DAGSTER"))},
            "PYTHONPATH": str(project),
            "DAGSTER_HOME": str(project / "dagster_home"),
            "STIRRED_HOME": str(project / "kept"),
            "STIRRED_PUBLISHED": str(project / "shown"),
            "COLUMNS": "200",
            "NO_COLOR": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    return done.returncode, done.stdout


def declare(project: Path, folder: str, component: str, attributes: dict[str, Any]) -> None:
    path = project / "orchestration" / "defs" / folder / "defs.yaml"
    path.parent.mkdir(parents=True)
    document = {"type": f"orchestration.components.{component}", "attributes": attributes}
    path.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project to which a user added a dataset and a release."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("orchestration", "assets", "resources", "mechanisms", "sql"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("pyproject.toml", "dagster.yaml"):
        shutil.copy(ROOT / name, folder)
    (folder / "dagster_home").mkdir()
    shutil.copy(ROOT / "dagster.yaml", folder / "dagster_home")
    (folder / "data").mkdir()
    write_csv(folder / "data" / "units.csv", households())
    declare(folder, "village/dataset", "Dataset", DATASET)
    declare(folder, "village/counties", "PermutationSwapping", RELEASE)
    return folder


def changed_project(project: Path, folder: Path, **changes: Any) -> Path:
    """A copy of the project before any run, with a second release that differs in some attributes."""
    shutil.copytree(project, folder, dirs_exist_ok=True)
    for name in ("kept", "shown"):
        shutil.rmtree(folder / name, ignore_errors=True)
    declare(folder, f"village/{changes['name']}", "PermutationSwapping", RELEASE | changes)
    return folder


def left_behind(project: Path) -> set[str]:
    return {"kept", "shown", "var", "published"} & {path.name for path in project.iterdir()}


@pytest.mark.prove
def test_two_short_files_make_a_release_that_is_launched_and_published(project: Path) -> None:
    """With a user's tools, from the files to `<published>/<dataset>/<release>` and to no other folder."""
    status, said = stirred(project, "launch", "village/counties")
    assert status == 3, said
    assert "Release village/counties would charge ε = 4.1272 to population village. Nobody has authorized it." in said
    assert "Traceback" not in said
    assert re.search(r"^ +village/counties/charge +refused$", said, flags=re.MULTILINE), "nor is it still being made"
    published = project / "shown" / "village" / "counties"
    assert not published.exists()
    (command,) = re.findall(r"^stirred (launch .*)$", said, flags=re.MULTILINE)
    arguments = shlex.split(command)
    assert stirred(project, *arguments)[0] == 3, "the placeholder is nobody's name"
    status, said = stirred(project, *arguments[:-1], "Ada")
    assert status == 0, said
    assert "Charged\n  village/counties  ε = 4.1272\n" in said
    assert re.search(r"^\d+ checks passed.$", said, flags=re.MULTILINE)
    assert said.endswith(f" in\n  {published}\n")
    with dg.DagsterInstance.from_config(str(project / "dagster_home")) as instance:
        runs = instance.get_runs()
        origins = {run.remote_job_origin.repository_origin.get_label() for run in runs if run.remote_job_origin}
    assert (len(runs), origins) == (3, {"__repository__@stirred"}), "the timeline of this code location has every run"
    assert all(run.remote_job_origin for run in runs)
    assert "BetaWarning" not in (project / "kept" / "logs" / "village__counties.log").read_text()
    planned = json.loads(stirred(project, "plan", "village/counties", "--json")[1])
    assert [each["stage"] for each in planned["stages"]][:3] == ["invariants", "charge", "swapped"]
    assert {"within_cap", "confidentiality"} <= {each["gate"] for each in planned["gates"]}
    assert "tenures" in {each["table"] for each in planned["tables"]}
    certificate = json.loads((published / "certificate.json").read_text())
    assert certificate["loss"]["exact"] == "ln(62)"
    assert (published / "tenures.csv").read_text().startswith("county,tenure,tenure_total,count,estimate,")
    assert sorted(path.name for path in (project / "shown").iterdir()) == [
        "datapackage.json",
        "dcat.jsonld",
        "index.html",
        "public_key.pem",
        "village",
    ]
    assert sorted(path.name for path in (project / "kept").iterdir()) == ["custody", "logs", "runs", "warehouse"]
    assert left_behind(project) == {"kept", "shown"}
    status, said = stirred(project, "launch", "village/counties")
    assert (status, "Nothing was charged: the draw was there already." in said) == (0, True)
    status, said = stirred(project, "budget", "--json")
    found = json.loads(said)
    assert [(each["kind"], each["authorized_by"]) for each in found["ledger"]] == [("reserve", "Ada"), ("settle", "")]
    (village,) = [each for each in found["populations"] if each["population"] == "village"]
    assert village["charged"] == "ε = 4.1272"
    status, said = stirred(project, "preflight", "village/counties", "--json")
    assert json.loads(said)["decision"] == "Already charged in ledger entry 1; running it charges nothing."
    status, said = stirred(project, "status", "--json")
    (release,) = [each for each in json.loads(said)["releases"] if each["release"] == "village/counties"]
    assert (release["draws"], release["edition"], release["last_run"]) == (1, "1", "success")
    assert stirred(project, "verify", str(published), "--key", str(project / "shown" / "public_key.pem"))[0] == 0
    assert stirred(project, "audit")[0] == 0
    assert stirred(project, "backup", str(project / "safe"))[0] == 0
    status, said = stirred(project, "withdraw", "village/counties", "--by", "Ada")
    assert status == 0, said
    assert not published.exists()
    status, said = stirred(project, "launch", "village/counties")
    assert (status, "was withdrawn in ledger entry 3" in said) == (1, True)
    shutil.rmtree(project / "kept" / "warehouse")
    shutil.rmtree(project / "shown")
    status, said = stirred(project, "restore", str(project / "safe"))
    assert (status, "restore the latest" in said.lower()) == (1, True), "an older ledger forgets the withdrawal"


@pytest.mark.prove
def test_only_bad_files_are_named_with_field_and_rule(project: Path, tmp_path: Path) -> None:
    bad = changed_project(project, tmp_path, name="half", swap_rate="half")
    status, said = dg_command(bad, "check", "yaml")
    assert status != 0
    assert (
        "village/half/defs.yaml:11 - orchestration.components.PermutationSwapping attributes.swap_rate 'half'" in said
    )
    assert said.count("defs.yaml:") == 1
    assert not left_behind(bad)


@pytest.mark.prove
def test_every_broken_declaration_is_named_with_its_line(project: Path, tmp_path: Path) -> None:
    """`dg check defs` and the UI stop at the first."""
    status, said = stirred(project, "check")
    assert (status, said) == (0, "All declarations can be loaded.\n")
    bad = changed_project(project, tmp_path, name="roles", swap=["county", "size"])
    declare(bad, "village/far", "PermutationSwapping", RELEASE | {"name": "far", "dataset": "town"})
    declare(bad, "village/again", "PermutationSwapping", RELEASE)
    status, said = stirred(bad, "check")
    assert status == 1
    defs = bad / "orchestration" / "defs" / "village"
    assert (
        f"{defs}/counties/defs.yaml:3: release village/counties: it is declared in village/again/defs.yaml too" in said
    )
    assert f"{defs}/far/defs.yaml:4: release town/far: dataset: there is no dataset town" in said
    swap = (defs / "roles" / "defs.yaml").read_text().splitlines().index("  swap:") + 1
    assert f"{defs}/roles/defs.yaml:{swap}: release village/roles: swap: size cannot be a swap variable and" in said
    declare(bad, "village/half", "PermutationSwapping", RELEASE | {"name": "half", "swap_rate": "half", "match": 3})
    declare(bad, "village/kind", "Swapping", RELEASE)
    (defs / "far" / "defs.yaml").write_text("type: x\ntype: y\n")
    status, said = stirred(bad, "check")
    assert status == 1
    assert said.splitlines() == [
        f"{defs}/counties/defs.yaml:3: release village/counties: it is declared in village/again/defs.yaml too",
        f"{defs}/far/defs.yaml:2: 'type' is declared twice, first in line 1; only one would count",
        f"{defs}/half/defs.yaml:6: release village/half: match: it must be a list, such as [a, b], with codes in "
        "quotes",
        f"{defs}/half/defs.yaml:9: release village/half: swap_rate: 'half' is not a number or a fraction such as 1/2",
        f"{defs}/kind/defs.yaml:1: type: it names none of the components, which are {', '.join(components.__all__)}",
        *[line for line in said.splitlines() if line.startswith(f"{defs}/roles/defs.yaml:{swap}: ")],
    ]
    assert "swap: size cannot be a swap variable and" in said.splitlines()[-1]


@pytest.mark.prove
def test_valid_files_pass_the_check_of_yaml(project: Path) -> None:
    status, said = dg_command(project, "check", "yaml")
    assert status == 0, said


@pytest.mark.prove
def test_a_release_that_cannot_be_carried_out_is_named_and_nothing_runs(project: Path, tmp_path: Path) -> None:
    bad = changed_project(project, tmp_path, name="roles", swap=["county", "size"])
    status, said = dg_command(bad, "launch", "--job", "village__counties")
    assert status != 0, "a deployment with a release that cannot be carried out is not run in part"
    assert "release village/roles: swap: size cannot be a swap variable and a match variable at once" in said
    assert not left_behind(bad)
