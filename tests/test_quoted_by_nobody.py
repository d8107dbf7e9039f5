"""No error, log or page quotes a secret: a key, a password, the value of a variable, or a confidential value.

The tests plant a canary in every variable that the project reads and in every file with a secret. They collect each
failure as Dagster and a terminal would show it, with its whole chain of errors, and search it for every form of the
canaries. `tests/faults/canaries.py` plants canaries in records and searches the files and logs of whole runs.
"""

import base64
import binascii
import json
import re
import traceback
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote as quote_url

import dagster as dg
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from dagster.components.component.app_managed_state import AppManagedComponentEntry, write_app_managed_component_entry
from dagster.components.testing import create_defs_folder_sandbox
from dagster_shared.error import SerializableErrorInfo
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from assets.cef.ingestion import ingest
from assets.cef.validation import SourceError
from assets.conventions import StageKind
from assets.release.release import DeclarationError
from assets.stages import stage, stage_check
from mechanisms.refusal import RefusedError
from mechanisms.topdown.least_squares import NotSolvedError
from orchestration import launch
from orchestration.checking import declaration_problems
from orchestration.cli import main
from orchestration.declarations import component_tree, load_declarations
from orchestration.environment import (
    dask_scheduler,
    deployment_resources,
    find_lake_paths,
    is_cluster,
    ledger_on_server,
    read_published_address,
)
from orchestration.explorer import launcher
from orchestration.explorer.settings import Settings
from orchestration.following import LOCATION
from orchestration.jobs import withdraw_job
from orchestration.queue import QueueError, find_webserver
from resources.custody import Custody
from resources.faults import FaultError, conceal, name_error
from resources.keyfiles import CustodyError
from resources.project import CODE
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.deployments import UNITS, households, small_dataset, small_deployment, write_csv
from tests.depth import deep_cases, quick_cases
from tests.orchestration.test_checking import DATASET
from tests.whole_repository import known

ROOT = Path(__file__).parents[1]

# Which variables there are -----------------------------------------------------------------------------------

SECRET = (
    "STIRRED_MASTER_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "PGPASSWORD",
    "PGHOST",
    "PGPORT",
    "PGUSER",
    "PGDATABASE",
    "PGSERVICE",
    "CEF_FOLDER",
    "DATABASE_PASSWORD",
)
"""Variables whose values must never be shown. The last one stands for all variables unknown to the project."""

REFUSED_UNQUOTED = {
    "STIRRED_PUBLISHED_URL": read_published_address,
    "STIRRED_DASK": dask_scheduler,
    "STIRRED_DEPLOYMENT": is_cluster,
    "STIRRED_LEDGER": ledger_on_server,
    "STIRRED_LAKE_CONFIDENTIAL": find_lake_paths,
    "STIRRED_LAKE_PUBLIC": find_lake_paths,
    "STIRRED_WEBSERVER": find_webserver,
    "STIRRED_THREADS": lambda: deployment_resources(Path("/nowhere")),
    "STIRRED_MEMORY_LIMIT": lambda: deployment_resources(Path("/nowhere")),
    "AWS_ENDPOINT_URL": lambda: deployment_resources(Path("/nowhere")),
    "AWS_CA_BUNDLE": lambda: deployment_resources(Path("/nowhere")),
    "STIRRED_TIME_AUTHORITY": lambda: deployment_resources(Path("/nowhere")),
    "STIRRED_TIME_AUTHORITY_ROOT": lambda: deployment_resources(Path("/nowhere")),
}
"""Settings, by the function that reads them: an impossible value may hold a password, and is not quoted."""

SHOWN = {
    **dict.fromkeys(
        ("STIRRED_PROJECT", "STIRRED_HOME", "STIRRED_PUBLISHED", "STIRRED_SPILL_FOLDER", "DAGSTER_HOME"),
        "folders, by name",
    ),
    **dict.fromkeys(
        ("PGPASSFILE", "PGSERVICEFILE", "PGSSLROOTCERT", "STIRRED_SECRETS"),
        "names of files, which only libpq or sh reads",
    ),
    **dict.fromkeys(("PGSSLMODE", "AWS_DEFAULT_REGION", "STIRRED_DECLARATION_VARIABLES"), "no secret whatever it is"),
    "EXPLORER_SETTINGS": "folders, which the launcher writes",
    "DAGSTER_EVENT_BATCH_SIZE": "a number that every command sets",
}
"""Variables whose values may be shown, with the reason."""

OF_SCRIPTS = {
    *("STIRRED_CODE_HOST", "STIRRED_CODE_LISTENS", "STIRRED_CODE_PORT", "STIRRED_CONTAINER_MEMORY", "STIRRED_PORT"),
    *("STIRRED_SECRETS_FOLDER", "STIRRED_SOURCES", "STIRRED_SSL", "STIRRED_VERSION", "STIRRED_PASSWORDS"),
    *("POSTGRES_INITDB_ARGS", "POSTGRES_PASSWORD_FILE", "STIRRED_BENCH_CASE"),
}
"""Variables of files in `deploy`, of benchmarks and of tests, which no shipped Python code reads."""

_NAMED = re.compile(r"\b(?:STIRRED|AWS|DAGSTER|POSTGRES|EXPLORER)_[A-Z][A-Z_0-9]*\b|\bPG[A-Z]{4,}\b|\bCEF_FOLDER\b")
_FOLDERS = ("orchestration", "assets", "resources", "mechanisms", "sql", "deploy", "docs", "benchmarks")


@pytest.mark.deep
def test_every_variable_that_is_named_anywhere_has_been_thought_of() -> None:
    """Wrong program: reads a new variable without a canary in this test."""
    files = [ROOT / name for name in ("Makefile", "dagster.yaml", "workspace.yaml", "README.md", "CONTRIBUTING.md")]
    files += [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts = [path.read_text("utf-8", "replace") for path in files if path.suffix not in (".png", ".pyc", ".parquet")]
    named = {name for text in texts for name in _NAMED.findall(text)}
    assert named == {*SECRET, *REFUSED_UNQUOTED, *SHOWN, *OF_SCRIPTS} - {"PGPASSWORD", "DATABASE_PASSWORD"}


# Canaries ----------------------------------------------------------------------------------------------------


def canary(name: str) -> str:
    return f"kanari{sha256(name.encode()).hexdigest()[:16]}"


def forms(text: str) -> set[str]:
    """A text as it could be written, in small letters."""
    encoded = {base64.b64encode(b"\0" * shift + text.encode())[4 * (shift > 0) : -4].decode() for shift in range(3)}
    return {
        form.lower() for form in (text, binascii.hexlify(text.encode()).decode(), quote_url(text), text[::-1], *encoded)
    }


def found(shown: str, *texts: str) -> list[str]:
    small = shown.lower()
    return [text for text in texts if any(form in small for form in forms(text))]


def everything(error: BaseException) -> str:
    """An error as a terminal and as Dagster's storage have it."""
    stored = SerializableErrorInfo.from_traceback(traceback.TracebackException.from_exception(error))
    return "\n".join([*traceback.format_exception(error), stored.to_string(), repr(error), str(error.args)])


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """A canary in every secret variable."""
    values = {name: canary(name) for name in SECRET}
    values["STIRRED_MASTER_KEY"] = "c0ffee" * 10 + "beef"
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return values


def test_the_search_finds_what_it_looks_for() -> None:
    text = canary("x")
    for shown in (text, text.upper(), text.encode().hex(), f"postgresql://u:{text}@h", quote_url(f"a b {text}")):
        assert found(f"… {shown} …", text) == [text]
    for before in ("", "1", "12", "123", "1234"):
        assert found(base64.b64encode(f"{before}{text} after".encode()).decode(), text) == [text]
    assert not found("nothing", text)


# Settings and keys -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", ["{}", "https://user:{}@host", "s3://bucket?secret={}", "tls://{}@host:1", "tcp://{}:1"]
)
@pytest.mark.parametrize("name", REFUSED_UNQUOTED)
def test_an_impossible_setting_is_named_and_not_quoted(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STIRRED_DEPLOYMENT", "cluster")
    monkeypatch.setenv("STIRRED_LAKE_CONFIDENTIAL", "/srv/one")
    monkeypatch.setenv("STIRRED_LAKE_PUBLIC", "/srv/two")
    monkeypatch.setenv(name, form.format(canary(name)))
    with pytest.raises((DeclarationError, QueueError), match=name) as refusal:
        REFUSED_UNQUOTED[name]()
    assert not found(everything(refusal.value), canary(name))


MALFORMED: Mapping[str, Callable[[str], str]] = {
    "a digit too few": lambda key: key[1:],
    "a digit too many": lambda key: f"{key}0",
    "a letter": lambda key: f"{key[:-1]}g",
    "a blank": lambda key: f"{key} ",
    "quotes": lambda key: f'"{key}"',
    "an assignment": lambda key: f"STIRRED_MASTER_KEY={key}",
    "base64": lambda key: base64.b64encode(bytes.fromhex(key)).decode(),
    "a PEM": lambda key: f"-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n",
    "no ASCII": lambda key: f"{key}é",
}


@pytest.mark.parametrize("wrong", MALFORMED)
def test_a_malformed_master_key_is_not_quoted(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "c0ffee" * 10 + "beef"
    text = MALFORMED[wrong](key)
    custody = Custody(folder=str(tmp_path / "custody"), databases=str(tmp_path / "warehouse"))
    monkeypatch.setenv("STIRRED_MASTER_KEY", text)
    said = []
    with pytest.raises(CustodyError, match="STIRRED_MASTER_KEY") as refusal:
        custody.establish()
    said.append(everything(refusal.value))
    monkeypatch.delenv("STIRRED_MASTER_KEY")
    folder = custody.private_folder()
    for file in ("master.key", "ledger.anchor", ".master.key.1"):
        (folder / file).touch(mode=0o600)
        (folder / file).write_text(text)
        with pytest.raises(CustodyError) as refusal:
            custody.establish()
        said.append(everything(refusal.value))
        if file == "master.key":
            (folder / file).write_text(key)
    assert not found("\n".join([*said, repr(custody), str(custody)]), key[:24], text)


# Messages of libraries and servers ----------------------------------------------------------------------------


def test_of_an_error_that_nobody_expected_only_the_kind_and_the_trace_are_shown(planted: Mapping[str, str]) -> None:
    def fail() -> None:
        try:
            int(planted["PGPASSWORD"])
        except ValueError as error:
            error.add_note(planted["PGPASSWORD"])
            raise KeyError(planted["AWS_SECRET_ACCESS_KEY"]) from error

    with pytest.raises(KeyError) as failure:
        fail()
    hidden = conceal(failure.value)
    shown = everything(hidden)
    assert not found(shown, *planted.values())
    assert "KeyError; its message is not shown" in shown
    assert "in fail" in shown, "where it was raised can be seen"
    assert str(conceal(NotSolvedError("P1 of 25: no solution"))) == "NotSolvedError: P1 of 25: no solution"
    assert name_error(OSError(28, "No space left on device", planted["PGHOST"])) == "OSError (No space left on device)"


def test_an_error_of_dagsters_database_shows_no_statement(planted: Mapping[str, str]) -> None:
    """Wrong programs: show SQLAlchemy's own message, which quotes the statement and the values that Dagster was
    storing; or PostgreSQL's message, which quotes them below its first line."""
    quoting = f"no event\nLINE 1: INSERT INTO event_logs\nDETAIL:  Failing row contains ({planted['PGPASSWORD']})."
    refusal = f"CREATE TRIGGER t BEFORE INSERT ON event_logs BEGIN SELECT RAISE(ABORT, '{quoting}'); END"
    insertion = text("INSERT INTO event_logs VALUES (:event)")
    with create_engine("sqlite://").connect() as connection:
        for message, preparation in (
            ("no such table: event_logs", []),
            ("no event", ["CREATE TABLE event_logs (event)", refusal]),
        ):
            for statement in preparation:
                connection.exec_driver_sql(statement)
            with pytest.raises(DBAPIError) as failure:
                connection.execute(insertion, {"event": planted["PGPASSWORD"]})
            shown = everything(failure.value)
            assert message in shown
            assert not found(shown, *planted.values(), "INSERT INTO")


def fault(planted: Mapping[str, str]) -> Any:
    try:
        raise duckdb.ConversionException(f"Could not convert string '{planted['PGPASSWORD']}' to INT32")
    except duckdb.Error as error:
        raise ValueError(f"postgresql://{planted['PGUSER']}:{planted['DATABASE_PASSWORD']}@host") from error


def refused(planted: Mapping[str, str]) -> Any:
    try:
        fault(planted)
    except ValueError:
        raise RefusedError("our own sentence")  # noqa: B904 - its cause stays in the chain


@pytest.mark.parametrize("failing", [fault, refused])
def test_dagster_records_no_message_of_a_library_whatever_fails(
    failing: Callable[[Mapping[str, str]], Any], planted: Mapping[str, str], tmp_path: Path, capfd: Any
) -> None:
    """Stages, checks, gates and operations: each raises an error with a secret, and another one as its cause."""
    key = dg.AssetKey(["village", "made"])

    @stage(dg.AssetKey(["village", "failing"]), "village", StageKind.CEF, "It fails.")
    def failing_stage() -> dg.MaterializeResult:
        return failing(planted)

    @stage(key, "village", StageKind.CEF, "It is made.")
    def made() -> dg.MaterializeResult:
        return dg.MaterializeResult()

    @stage_check(key, "fails", "It fails.", blocking=False)
    def check() -> dg.AssetCheckResult:
        return failing(planted)

    records = []
    definitions = dg.Definitions(assets=[failing_stage, made], asset_checks=[check], executor=dg.in_process_executor)
    with dg.DagsterInstance.ephemeral() as instance:
        job = definitions.resolve_implicit_global_asset_job_def()
        run = job.execute_in_process(instance=instance, raise_on_error=False)
        records += [dg.serialize_value(entry) for entry in instance.all_logs(run.run_id)]
    failed = {event.step_key for event in run.all_events if event.is_step_failure}
    assert failed == {"village__failing", "village__made_fails"}
    printed = capfd.readouterr()
    shown = "\n".join([*records, printed.out, printed.err])
    assert ("ValueError; its message is not shown" if failing is fault else "our own sentence") in shown
    assert not found(shown, *planted.values())


def test_gates_and_jobs_and_sensors_record_no_message_of_a_library(
    planted: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    here = small_deployment(tmp_path, watch_source=True)
    instance, custody = here.instance, here.context.custody
    for place in ("assets.gates.shared.find_leaks", "orchestration.jobs.withdraw"):
        monkeypatch.setattr(place, lambda *_: fault(planted))
    resources = {"ledger": dg.ResourceDefinition(lambda _: here.context.ledger)}
    withdrawal = dg.Definitions(jobs=[withdraw_job(tmp_path)], resources=resources).resolve_job_def("withdraw")
    config = {"ops": {"withdrawal": {"config": {"dataset": "village", "release": "counties", "by": "Ada"}}}}
    (gate,) = (key for key in here.definitions.resolve_asset_graph().asset_check_keys if key.name == "confidentiality")
    repository = here.definitions.get_repository_def()
    gates = repository.get_job("checks").get_subset(asset_selection=set(), asset_check_selection={gate})
    records = []
    for job, given in ((withdrawal, config), (gates, {})):
        with known(repository):
            run = job.execute_in_process(run_config=given, instance=instance, raise_on_error=False)
        assert not run.success
        records += [dg.serialize_value(entry) for entry in instance.all_logs(run.run_id)]
    sensor: Any = repository.get_sensor_def("village__counties__source")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "exists", lambda path: fault(planted))
        with pytest.raises(FaultError) as failure:
            sensor(dg.build_sensor_context(instance=instance, resources={"custody": custody}))
    printed = capfd.readouterr()
    shown = [*records, everything(failure.value), printed.out + printed.err]
    assert all("ValueError; its message is not shown" in text for text in ("\n".join(records), *shown[-2:]))
    assert not found("\n".join(shown), *planted.values())


def test_the_configuration_of_a_run_shows_no_variable(planted: Mapping[str, str], tmp_path: Path) -> None:
    """Wrong program: Dagster alone, which replaces `{env: NAME}` with the value. "... is not the name of a release" and
    the ledger's name of a person showed the value to every user who may launch."""
    here = small_deployment(tmp_path)
    resources = {"ledger": dg.ResourceDefinition(lambda _: here.context.ledger)}
    withdrawal = dg.Definitions(jobs=[withdraw_job(tmp_path)], resources=resources).resolve_job_def("withdraw")
    repository = here.definitions.get_repository_def()
    selected = {here.release.key("charge")}
    charge = repository.get_job("release").get_subset(asset_selection=selected, asset_check_selection=set())
    names = iter(planted)
    for job, fields in ((withdrawal, ("dataset", "release", "by")), (charge, ("authorized_by",))):
        given = {field: {"env": next(names)} for field in fields}
        (op,) = (node.name for node in job.nodes)
        config = {"ops": {op: {"config": given}}}
        with known(repository):
            run = job.execute_in_process(run_config=config, instance=here.instance, raise_on_error=False)
        assert not run.success
        records = "\n".join(dg.serialize_value(entry) for entry in here.instance.all_logs(run.run_id))
        assert not found(records, *planted.values())
        assert "names the variable" in records


@pytest.mark.parametrize(
    "broken",
    [
        "storage:\n  postgres: {{postgres_url: {}: a: b}}\n",
        "storage: *{}\n",
        "storage: !{} a\n",
        "storage:\n  postgres:\n    {0}: {0}\n",
        "storage:\n  sqlite:\n    base_dir: [{}]\n",
    ],
)
def test_a_broken_file_of_settings_is_not_quoted(
    broken: str, planted: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may hold a password. YAML's errors quote aliases and tags, and Dagster's quote the settings."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(broken.format(planted["PGPASSWORD"]))
    done = CliRunner().invoke(main, ["unblock"])
    assert done.exit_code == 1
    assert not found(done.output + (everything(done.exception) if done.exception else ""), *planted.values())


def test_a_fault_in_a_command_is_shown_without_its_message(
    planted: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestration.deployment.Deployment", lambda: fault(planted))
    done = CliRunner().invoke(main, ["status"])
    assert isinstance(done.exception, FaultError)
    assert not found(done.output + everything(done.exception), *planted.values())


def test_what_dagster_raises_is_in_the_log_of_a_launch_without_its_message(
    planted: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    class Entry:
        name = "dagster"

        def load(self) -> Callable[[], None]:
            return lambda: fault(planted)

    monkeypatch.setattr(launch, "entry_points", lambda **_: [Entry()])
    launch._run_dagster([], tmp_path / "log")
    shown = (tmp_path / "log").read_text() + capsys.readouterr().err
    assert "ValueError; its message is not shown" in shown
    assert not found(shown, *planted.values())


# Declarations ------------------------------------------------------------------------------------------------

TEMPLATES = (
    "{{ env.STIRRED_MASTER_KEY }}",
    "{{ env('PGPASSWORD') }}",
    "{% print(env.AWS_SECRET_ACCESS_KEY) %}",
    "{{ dg.__class__.__init__.__globals__ }}",
)
WHERE = {
    "post_processing": "post_processing:\n  assets:\n    - attributes:\n        description: {}\n",
    "post_processing of metadata": "post_processing:\n  assets:\n    - attributes:\n        metadata: {{a: {}}}\n",
    "requirements": "requirements:\n  env: [{}]\n",
    "a module": "template_vars_module: {}\n",
}


@deep_cases(8)
@quick_cases(8)
@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("where", [*WHERE, "a title", "a label", "a component of Dagster"])
def test_no_template_in_a_declaration_shows_a_variable(
    where: str, template: str, planted: Mapping[str, str], tmp_path: Path
) -> None:
    """Dagster would fill in all but the attributes of our own components, with any variable."""
    text, written = DATASET.format(name="good", large=3), json.dumps(template)
    if where in WHERE:
        text += WHERE[where].format(written)
    elif where == "a title":
        text = text.replace("A town", written)
    elif where == "a label":
        text = text.replace("[a, b]", f"{{a: {written}}}")
    else:
        text = f"type: dagster.DefinitionsComponent\nattributes:\n  path: {written}\n"
    shown = []
    with create_defs_folder_sandbox() as sandbox:
        (sandbox.defs_folder_path / "one").mkdir()
        (sandbox.defs_folder_path / "one" / "defs.yaml").write_text(text)
        with sandbox.build_component_tree() as tree:
            shown += [str(problem) for problem in declaration_problems(tree, tmp_path)]
            refuses = where in WHERE or where == "a component of Dagster"
            assert (
                any(re.search("only a type and attributes|none of the components", problem) for problem in shown)
                == refuses
            )
            try:
                shown += map(repr, load_declarations(tree))
                shown += [repr(list(asset.specs)) for asset in tree.build_defs().assets]
            except DeclarationError as error:
                shown.append(everything(error))
    assert not found("\n".join(shown), *planted.values())


@pytest.mark.parametrize(
    "declared",
    [
        # A program that is on every machine with Python, whose output Dagster shows.
        "type: dagster.PythonScriptComponent\nattributes:\n  execution: {path: /usr/lib/python3/timeit.py, "
        "args: [import os; print(os.environ)]}\n  assets: [{key: a}]\n",
        "type: dagster.FunctionComponent\nattributes:\n  execution: {fn: os.getenv}\n  assets: [{key: a}]\n",
        "type: orchestration.components.dataset.dg.PythonScriptComponent\n",
        "<<: {type: dagster.PythonScriptComponent}\nattributes: {}\n",
        "!!merge merge: {type: dagster.PythonScriptComponent}\nattributes: {}\n",
        # A parser that skips the mark reads the type as part of the quoted text.
        "attributes: {a: [b,\n\ufeff'c]}\ntype: dagster.PythonScriptComponent\n# ']}\n",
        "type: orchestration.components_of_others.Dataset\n",
        f"{DATASET.format(name='good', large=3)}template_vars_module: antigravity\n",
        f"{DATASET.format(name='good', large=3)}requirements: {{env: [HOME]}}\n",
    ],
)
def test_a_declaration_runs_no_code_of_others(declared: str, tmp_path: Path) -> None:
    """Wrong program: Dagster alone, which imports the module that a type names. Every editor of declarations could read
    every variable."""
    with create_defs_folder_sandbox() as sandbox:
        (sandbox.defs_folder_path / "one").mkdir()
        (sandbox.defs_folder_path / "one" / "defs.yaml").write_text(declared)
        with sandbox.build_component_tree() as tree:
            (problem,) = declaration_problems(tree, tmp_path)
            with pytest.raises(DeclarationError, match=r"only a type and attributes|none of the components"):
                load_declarations(tree)
    assert not problem.warning


def test_the_storage_of_dagster_declares_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong programs: Dagster, which loads components from its storage too, and imports the module that each names.
    With write access to the storage and to the publications, which can be imported in a checkout, an outsider had the
    code location read the master key."""
    # As in a code location that starts: an earlier run in this process leaves its pinned context behind.
    monkeypatch.setattr("dagster._core.definitions.definitions_load_context.DefinitionsLoadContext._instance", None)
    component_tree().find_root_decl()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        entry = AppManagedComponentEntry(component_type="published.of_an_outsider.Component", attributes="")
        for location in (LOCATION, CODE.name):
            write_app_managed_component_entry(instance.defs_state_storage, location, "id", entry)
        for use in (load_declarations, dg.ComponentTree.build_defs):
            with pytest.raises(DeclarationError, match="declarations of its own"):
                use(component_tree())


# Confidential values -------------------------------------------------------------------------------------------

CELL = "kanari-4711-zelle"
COLUMNS = UNITS | {"serial": {"type": "string", "role": "key", "pattern": "[a-z0-9-]+"}}

Rows = list[dict[str, Any]]


def in_row(number: int, **cells: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [{**row, **cells} if at == number else row for at, row in enumerate(rows)]


BAD_ROWS: Mapping[str, Callable[[Rows], Rows]] = {
    "a text for a number": in_row(3, size=CELL),
    "an unknown code": in_row(3, tenure=CELL),
    "a key that breaks its pattern": in_row(3, serial=f"{CELL}!"),
    "a repeated key": lambda rows: [*rows, rows[0]],
    "a column that is not declared": lambda rows: [{**row, CELL: CELL, "size": CELL} for row in rows],
    "a missing column": lambda rows: [
        {{"tenure": CELL}.get(name, name): cell for name, cell in row.items()} for row in rows
    ],
}
BAD_TEXTS: Mapping[str, Callable[[bytes], bytes]] = {
    "no header": lambda text: text.partition(b"\n")[2],
    "a header twice": lambda text: text.replace(b"\n", f",{CELL},{CELL}\n".encode(), 1),
    "a stray quote": lambda text: text.replace(b",N,", f',N{CELL}"x",'.encode(), 1),
    "text after a quote": lambda text: text.replace(b",N,", f',"N"{CELL},'.encode(), 1),
    "an open quote": lambda text: text.replace(b",N,", f',"N{CELL},'.encode(), 1),
    "a field too many": lambda text: text.replace(b",N,", f",{CELL},N,".encode(), 1),
    "not UTF-8": lambda text: text.replace(b",N,", f",{CELL}\xe9,".encode("latin-1"), 1),
    "a NUL": lambda text: text.replace(b",N,", f",{CELL}\0,".encode(), 1),
    "a row that is too long": lambda text: text.replace(b",N,", f",{CELL * 100_000},".encode(), 1),
    "a Parquet file that is cut": lambda text: b"PAR1" + text,
}
BAD_TYPES: Mapping[str, pa.Array] = {
    "a list": pa.array([[CELL]]),
    "a structure": pa.array([{CELL: 1}]),
    "bytes": pa.array([CELL.encode()]),
    "a dictionary": pa.array([CELL]).dictionary_encode(),
}


CASES = [
    *(("csv", wrong) for wrong in (*BAD_ROWS, *BAD_TEXTS)),
    *(("parquet", wrong) for wrong in (*BAD_ROWS, *BAD_TYPES, "a Parquet file that is cut")),
]


@deep_cases(8)
@quick_cases(5)
@pytest.mark.parametrize(("reader", "wrong"), CASES)
def test_what_is_wrong_with_a_source_quotes_no_cell_and_no_name_that_may_be_one(
    reader: str, wrong: str, tmp_path: Path, capfd: Any
) -> None:
    rows = [{**row, "serial": f"{CELL}-{row['serial']}"} for row in households(12)]
    rows = BAD_ROWS.get(wrong, lambda rows: rows)(rows)
    path = tmp_path / "units.csv"
    if reader == "csv":
        write_csv(path, rows)
    else:
        whole = pa.table({name: pa.array([row[name] for row in rows]) for name in rows[0] if name != "size"})
        sizes = [row.get("size", 1) for row in rows]
        whole = whole.append_column("size", pa.array(list(map(str, sizes)) if CELL in sizes else sizes))
        if wrong in BAD_TYPES:
            whole = whole.slice(0, 1).set_column(whole.num_columns - 1, "size", BAD_TYPES[wrong])
        pq.write_table(whole, path)
    path.write_bytes(BAD_TEXTS.get(wrong, lambda text: text)(path.read_bytes()))
    declared = small_dataset(tmp_path, reader=reader, units={"path": str(path), "columns": COLUMNS})
    warehouse = Warehouse(folder=str(tmp_path / "warehouse"), threads=1)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session, pytest.raises(SourceError) as refusal:
        ingest(session, declared, tmp_path, b"k" * 32)
    printed = capfd.readouterr()
    stored = SerializableErrorInfo.from_traceback(traceback.TracebackException.from_exception(refusal.value))
    chain = [stored.message, *(str(each) for each in (stored.cause, stored.context) if each)]
    assert not found("\n".join([*chain, printed.out, printed.err]), CELL, CELL[:12])


# The explorer ------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_the_process_of_the_explorer_gets_no_secret(planted: Mapping[str, str], tmp_path: Path) -> None:
    """But for the folders that declarations use, without which it could not load them."""
    given = launcher.make_environment(Settings(str(tmp_path), str(tmp_path), str(tmp_path), "", (), 1))
    secrets = {name: value for name, value in planted.items() if name != "CEF_FOLDER"}
    assert given["CEF_FOLDER"] == planted["CEF_FOLDER"]
    assert not found("\n".join(given.values()), *secrets.values())
