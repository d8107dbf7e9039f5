"""The command `stirred` where nothing has run yet; with a release, it is tried in `test_swapping`."""

import json
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from errno import EPIPE
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import dagster as dg
import duckdb
import pytest
import yaml
from click.testing import CliRunner, Result
from sqlalchemy.exc import OperationalError

from assets.publication.signature import sign
from mechanisms.accounting.losses import ConcentratedLoss, InfiniteLoss, Loss, PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from orchestration import launch
from orchestration.cli import main, releases, runs
from orchestration.environment import PROJECT, deployment_resources
from orchestration.launch import Step
from resources.chain import Details
from resources.custody import CustodyMode
from resources.ledger import Ledger
from resources.statements import Zone
from tests.depth import deep_cases, quick_cases


@pytest.fixture
def stirred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    for name in ("STIRRED_HOME", "STIRRED_PUBLISHED", "DAGSTER_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return lambda *arguments: CliRunner().invoke(main, arguments)


def test_an_empty_deployment_has_a_status_and_a_budget(stirred: Callable[..., Result], tmp_path: Path) -> None:
    found = json.loads(stirred("status", "--json").stdout)
    assert {each["release"] for each in found["releases"]} >= {"ma1940/tenure_by_county", "two_states/s_dhc"}
    assert not any(each["draws"] or each["published"] or each["last_run"] for each in found["releases"])
    others = {each["name"]: (each["kind"], each["published"], each["last_run"]) for each in found["others"]}
    retabulated = ("congress_118", "places", "profile")
    assert others == {f"two_counties/{name}": ("retabulation", False, None) for name in retabulated}
    assert {each["left"] == each["cap"].split(" at ")[0] for each in found["populations"]} == {True}
    shown = stirred("budget")
    assert shown.exit_code == 0
    assert "Ledger, intact" in shown.stdout
    assert not (tmp_path / "stirred_home" / "custody" / "master.key").exists(), "looking makes no key"


@pytest.mark.deep
def test_a_folder_with_a_certificate_that_was_not_signed_here_is_no_publication(
    stirred: Callable[..., Result], tmp_path: Path
) -> None:
    ledger = deployment_resources(tmp_path / "stirred_home")["ledger"]
    assert isinstance(ledger, Ledger)
    charged = Specification(Flavor("all households", (), "household", 1), PureLoss(Fraction(1)))
    entry = ledger.reserve(
        "ma1940", "tenure_by_county", "00" * 32, charged, CustodyMode.ESCROWED, PureLoss(Fraction(2))
    )
    folder = tmp_path / "stirred_published" / "ma1940" / "tenure_by_county"
    folder.mkdir(parents=True)
    certificate = {
        "dataset": {"name": "ma1940"},
        "release": {"name": "tenure_by_county"},
        "edition": {"number": 1},
        "randomness": {"draw_id": entry.draw_id},
        "ledger": {"sequence": entry.sequence, "entry_hash": entry.hash},
    }
    (folder / "certificate.json").write_text(json.dumps(certificate))

    def published() -> bool:
        found = json.loads(stirred("status", "--json").stdout)["releases"]
        return [bool(each["published"]) for each in found if each["release"] == "ma1940/tenure_by_county"] == [True]

    assert not published()
    sign(folder, ledger.custody)
    assert published()
    other = certificate | {"ledger": {"sequence": 1, "entry_hash": "e" * 64}}
    (folder / "certificate.json").write_text(json.dumps(other))
    sign(folder, ledger.custody)
    assert not published(), "signed, but of no draw in the ledger"
    ledger.withdraw("ma1940", "tenure_by_county", "Ann")
    assert re.search(r"ma1940/tenure_by_county +0 +withdrawn ", stirred("status").stdout)


@pytest.mark.deep
def test_a_budget_is_shown_with_what_is_wrong_and_names_as_they_are(
    stirred: Callable[..., Result], tmp_path: Path
) -> None:
    ledger = deployment_resources(tmp_path / "stirred_home")["ledger"]
    assert isinstance(ledger, Ledger)
    details = Details("ma1940", authorization={"by": "Ann [/x] \x1b[31m[head]", "run": "a run"})
    charged = Specification(Flavor("all households", ("their number",), "household", 1), PureLoss(Fraction(1)))
    mode = CustodyMode.ESCROWED
    ledger.reserve("ma1940", "half", "00" * 32, charged, mode, PureLoss(Fraction(2)), details)
    flavor = replace(charged.flavor, output_premetric=InfiniteLoss.output_premetric)
    pairs = Specification(flavor, InfiniteLoss())
    ledger.reserve("ma1940", "pairs", "22" * 32, pairs, mode, PureLoss(Fraction(2)), unbounded_releases=True)
    shown = stirred("budget")
    assert shown.exit_code == 0
    assert "Ann [/x] �[31m[head]" in shown.stdout
    said = " ".join(shown.stdout.split())
    assert "ma1940: Besides the finite charges, one charge has no finite loss (ε = ∞)" in said
    assert "ε = 1.0000" in said
    with duckdb.connect(str(ledger.warehouse.path(Zone.LEDGER))) as connection:
        connection.execute("UPDATE entries SET release = 'other'")
    shown = stirred("budget")
    assert shown.exit_code == 1
    assert "Ledger, not intact" in shown.stdout
    assert "unknown: the ledger is not intact" in shown.stdout
    assert "entry 1" in shown.stderr
    assert json.loads(stirred("budget", "--json").stdout)["problems"]
    assert stirred("status").exit_code == 0


@pytest.mark.parametrize(
    ("charges", "says"),
    [(True, "Nothing was charged: the draw was there already."), (False, "Nothing was charged: this release charges")],
)
def test_a_release_that_charges_nothing_says_so_and_takes_no_authorization(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, charges: bool, says: str
) -> None:
    """As a withheld swap. The run itself is left out. No declaration is loaded twice."""
    component = SimpleNamespace(
        named="town/stirred",
        charges=charges,
        rounds=(),
        key=lambda stage: dg.AssetKey(["town", "stirred", stage]),
    )
    stages = ("charge",) if charges else ("swapped", "publication")
    steps = [Step("planned", f"town/stirred/{stage}") for stage in stages]
    (tmp_path / "published" / "town" / "stirred").mkdir(parents=True)
    monkeypatch.setenv("STIRRED_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STIRRED_PUBLISHED", str(tmp_path / "published"))
    outcome = SimpleNamespace(run_id="run", runs=("run",), success=True, log=tmp_path / "log")
    loaded: list[str] = []
    monkeypatch.setattr(runs, "load_releases", lambda name: loaded.append(name) or [component])
    monkeypatch.setattr(runs, "open_instance", lambda: nullcontext(None))
    monkeypatch.setattr(runs, "_run_job", lambda *given, **options: (steps, outcome))
    assert says in CliRunner().invoke(main, ["launch", "town/stirred"]).stdout
    given = ["launch", "town/stirred", "--authorize", "ε = 1", "--draw", "abc", "--by", "A. Officer"]
    loaded.clear()
    refused = CliRunner().invoke(main, given)
    assert (refused.exit_code == 2 and "town/stirred charges nothing" in refused.output) == (not charges)
    assert loaded == ["town/stirred"]


@pytest.mark.parametrize("deployment", ["files", "cluster"])
@pytest.mark.parametrize("rounds", [["states"], ["measurements", "states"]])
def test_in_a_cluster_all_states_are_in_the_queue_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, deployment: str, rounds: list[str]
) -> None:
    """Told apart from: states that are queued one after the other, which as many machines as one make; and a second
    round that is queued with the first; and from a launch that fails if the database is lost while the states are
    listed. The last run but one fails, or the one before that."""
    monkeypatch.setenv("STIRRED_DEPLOYMENT", deployment)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    done = list[str]()

    def run_dagster(arguments: list[str], log: Path) -> None:
        tags = json.loads(arguments[arguments.index("--tags") + 1])
        done.append(f"{arguments[arguments.index('-j') + 1]} {tags.get('dagster/partition', '')}".strip())

    def follow(*given: Any) -> list[Any]:
        done.append("followed")
        return [SimpleNamespace(run_id="run", is_success=done.count("followed") < 4)]

    monkeypatch.setattr(launch, "_run_dagster", run_dagster)
    monkeypatch.setattr(launch, "_follow", follow)
    monkeypatch.setattr(launch, "_BETWEEN_LOOKS", 0.0)
    list_keys = Mock(side_effect=[OperationalError("SELECT", {}, Exception()), *(["A", "B"] for _ in rounds)])
    partitions: Any = SimpleNamespace(list_keys=list_keys)
    monkeypatch.setattr(runs, "load_partitions", lambda _: partitions)
    component: Any = SimpleNamespace(rounds=rounds)
    instance = dg.DagsterInstance.ephemeral()
    *_, last, first = runs._run_jobs(instance, tmp_path, "town/r", {}, lambda: [component], quiet=True)
    assert (first.success, last.success) == (True, False)
    name, after = (rounds[0], "publication" if rounds == ["states"] else "before_states")
    states, rest = [f"{name}__town__r A", f"{name}__town__r B"], [f"{after}__town__r", "followed"]
    assert done[:2] == ["town__r", "followed"] or deployment == "files"
    if deployment == "cluster":
        assert done[2:] == [*states, "followed", "followed", *rest]
    else:
        assert [job for job in done if job != "followed"] == ["town__r", *states, rest[0]]
    assert (tmp_path / "logs").is_dir()


def test_in_a_cluster_a_launch_loads_no_declarations_but_asks_the_code_location(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Told apart from: a command that makes definitions itself, or has Dagster's make them, beside those that the code
    location has, or lets Dagster's connect to the database for each event; it takes twice the time. The code location
    and the run are left out."""
    for name in ("STIRRED_HOME", "STIRRED_PUBLISHED", "STIRRED_LAKE_CONFIDENTIAL", "STIRRED_LAKE_PUBLIC"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("STIRRED_DEPLOYMENT", "cluster")
    monkeypatch.setenv("STIRRED_LEDGER", "file")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    given, instance = list[list[str]](), Mock()
    monkeypatch.setattr(dg.DagsterInstance, "get", staticmethod(lambda: instance))

    def run_dagster(arguments: list[str], log: Path) -> None:
        assert dg.DagsterInstance.get() is instance
        log.touch()
        given.append(arguments)

    monkeypatch.setattr(launch, "_run_dagster", run_dagster)
    monkeypatch.setattr(launch, "_follow", lambda *_: [SimpleNamespace(run_id="run", is_success=True)])
    monkeypatch.setattr(runs, "open_instance", lambda: nullcontext(dg.DagsterInstance.ephemeral()))
    monkeypatch.setattr(runs, "_list_planned", lambda steps: [["two_states", "swapped", "publication"]])
    monkeypatch.setattr(dg, "ComponentTree", None)
    (tmp_path / "STIRRED_PUBLISHED" / "two_states" / "swapped").mkdir(parents=True)
    launched = CliRunner().invoke(main, ["launch", "two_states/swapped"])
    assert launched.exit_code == 0, launched.output
    instance.optimize_for_webserver.assert_called_once()
    assert dg.DagsterInstance.get() is instance
    instance.optimize_for_webserver.assert_called_once()
    (arguments,) = given
    options = dict(zip(arguments[2::2], arguments[3::2], strict=True))
    assert (arguments[:2], options.keys()) == (["job", "launch"], {"-w", "-j", "--tags"})
    assert [list(each) for each in yaml.safe_load(Path(options["-w"]).read_text())["load_from"]] == [["grpc_server"]]


@pytest.mark.parametrize("deployment", ["files", "cluster"])
def test_in_a_cluster_the_partitions_of_the_source_are_read_before_the_release_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, deployment: str
) -> None:
    """Told apart from: partitions that are queued one after the other, or beside the job that puts them together; that
    job after one has failed; and on one machine, runs that only take turns."""
    monkeypatch.setenv("STIRRED_DEPLOYMENT", deployment)
    (tmp_path / "dataset.yaml").write_text("attributes: {name: town, partitions: ['A', 'B']}\n---\n{}\n")
    (tmp_path / "release.yaml").write_text("attributes: {name: r, dataset: town, partitions: state}\n")
    monkeypatch.setattr(releases, "list_files", lambda _: sorted(tmp_path.glob("*.yaml")))
    done = list[str]()

    instance = dg.DagsterInstance.ephemeral()

    def queue_job(_: Any, name: str, *, job: str, partition: str, **options: Any) -> str:
        done.append(f"queued {job} {name} {partition}")
        return partition

    def run_job(_: Any, home: Path, name: str, **options: Any) -> tuple[list[Any], Any]:
        done.append(" ".join(filter(None, [name, options.get("partition", "")])))
        return [], SimpleNamespace(success=done[-1] != fails)

    monkeypatch.setattr(runs, "queue_job", queue_job)
    monkeypatch.setattr(runs, "_run_job", run_job)
    queued = ["queued cef town A", "queued cef town B"]
    for fails, last in ("", "town/r"), ("town B", "town B"):
        done.clear()
        *_, outcome, _first = runs._run_jobs(instance, tmp_path, "town/r", {}, list, quiet=True)
        if deployment == "files":
            assert done == ["town/r"]
        else:
            assert done == [*queued, "town A", "town B", *([last] if last == "town/r" else [])]
            assert outcome.success == (not fails)


def test_a_launch_speaks_before_it_loads_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it needs takes seconds to import. A command that prints first when that is done says nothing here."""
    monkeypatch.setitem(sys.modules, "orchestration.cli.runs", None)
    assert CliRunner().invoke(main, ["launch", "town/stirred"]).stdout.startswith("Launching town/stirred: ")
    assert CliRunner().invoke(main, ["launch", "town/stirred", "--json"]).stdout == ""


@pytest.mark.parametrize(
    ("charges", "total"),
    [
        ({"town/a": PureLoss(Fraction(2)), "town/long_name": PureLoss(Fraction(1))}, "in all          ε = 3.0000"),
        ({"town/a": ConcentratedLoss(Fraction(1)), "town/b": PureLoss(Fraction(1))}, "in all  ρ = 1.5000"),
        ({"town/a": PureLoss(Fraction(2)), "town/b": InfiniteLoss()}, "in all  ε = ∞"),
        ({"town/a": PureLoss(Fraction(2))}, "town/a  ε = 2.0000"),
    ],
)
def test_each_charge_of_a_launch_is_named_and_the_total_is_theirs(charges: dict[str, Loss], total: str) -> None:
    """A list of losses alone does not tell which release they are of, and ρ and ε do not add up."""
    first, *lines = runs.list_charges(charges).splitlines()
    assert (first, lines[-1].strip()) == ("Charged", total)
    assert [line.split()[0] for line in lines[: len(charges)]] == list(charges)


def test_a_refusal_of_one_release_does_not_deny_the_charge_of_another() -> None:
    """Of two hypercubes, the first one fits under the cap. Told apart from: its charge after "nothing was charged"."""
    refusal, charges = "Nothing was drawn, and nothing was charged.", {"town/a": PureLoss(Fraction(2))}
    assert runs.describe_charges(charges, refusal).splitlines()[0] == "But this launch charged"
    assert runs.describe_charges(charges, "It failed.").splitlines()[0] == "Charged"
    assert (runs.describe_charges({}, refusal), runs.describe_charges({}, "No.")) == ("", "Nothing was charged.")


def test_a_reader_that_has_read_enough_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """`stirred plan … | head`: the pipe's end is not the end of a file that cannot be written."""
    monkeypatch.setattr("orchestration.cli.plan_report.print_plans", Mock(side_effect=BrokenPipeError(EPIPE, "pipe")))
    found = CliRunner().invoke(main, ["plan", "town/stirred"])
    assert found.output == ""


def test_a_setting_or_folder_that_is_wrong_is_one_sentence(
    stirred: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("STIRRED_HOME", str(tmp_path / "file"))
    found = stirred("launch", "ma1940/tenure_by_county")
    assert (found.exit_code, "Traceback" in found.output) == (1, False)
    assert found.stderr.startswith("Error: ")
    assert str(tmp_path / "file") in found.stderr
    monkeypatch.setenv("STIRRED_THREADS", "many")
    found = stirred("status")
    assert (found.exit_code, found.stderr.startswith("Error: STIRRED_THREADS is not a number")) == (1, True)


@deep_cases(3)
@quick_cases(3)
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["launch", "ma1940/nothing"], 2, "there is no release ma1940/nothing; declared are detailed/households, "),
        (["launch", "ma1940"], 2, "there is no release ma1940;"),
        (["launch"], 2, "Missing argument"),
        (["launch", "two_counties/places", "--authorize", "1"], 2, "two_counties/places charges nothing"),
        (["table", "two_counties/places"], 2, "is no release, but a retabulation of two_counties/redistricting. It "),
        (["withdraw", "ma1940/nothing", "--by", "Ada"], 1, "ma1940/nothing"),
        (["verify", "nowhere", "--key", "nowhere"], 1, "nowhere cannot be read"),
        (["restore", "nowhere"], 1, "nowhere"),
        (["unblock", "nothing"], 1, "there is no run nothing"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    stirred: Callable[..., Result], arguments: list[str], code: int, says: str
) -> None:
    found = stirred(*arguments)
    assert found.exit_code == code, found.output
    assert says in found.stderr
    assert "Traceback" not in found.output


@pytest.mark.deep
def test_a_plan_is_tried_and_printed_as_the_file_that_declares_it(stirred: Callable[..., Result]) -> None:
    tried = (
        "--try",
        "runs: {PH2: {truncation: 4, budget: {state_*: 1}}}",
        "--try",
        "runs: {PH2: {moe: {nation_*: 9}}}",
    )
    text = stirred("plan", "two_states/s_dhc", *tried, "--yaml").stdout
    assert yaml.safe_load(text)["attributes"]["runs"] == {
        "PH2": {"truncation": 4, "budget": {"state_*": 1}, "moe": {"nation_*": 9}}
    }
    found = json.loads(stirred("plan", "two_states/s_dhc", *tried, "--total", "3", "--json").stdout)["plan"]
    assert (found["total"], found["exactly"], found["refusal"]) == ("ρ = 3.0000 (exactly 3)", {"rho": "3"}, "")
    assert "before this charge and" in found["left"]
    assert [line["name"] for line in found["lines"]] == ["PH2 nation_*", "PH2 state_*"]
    assert sum(Fraction(line["budget"]) for line in found["lines"]) == Fraction(3, 2)
    shown = stirred("plan", "ma1940/tenure_by_county", "--largest-stratum", "264331", "--total", "15").stdout
    assert "Total: ε = 15.0000 (exactly ln(244557058748/74811))" in shown
    assert "Gates" not in shown, "what a launch does is that of the declaration"


@pytest.mark.prove
def test_a_plan_states_what_a_launch_is_expected_to_take(stirred: Callable[..., Result]) -> None:
    shown = stirred("plan", "two_states/redistricting").stdout
    assert re.search(r"expected size +147,721 records, [0-9]+,[0-9,]+ numbers with noise", shown)
    assert re.search(r"expected time +about [0-9.]+ (s|min)\b", shown)
    assert re.search(r"expected memory +about [0-9.]+ [MG]iB", shown)
    assert re.search(r"expected disk +about [0-9.]+ [MG]iB in the warehouse, [0-9.]+ MiB published", shown)
    small, large = (
        json.loads(stirred("plan", "two_states/redistricting", "--json", "--records", records).stdout)["plan"][
            "expected"
        ]
        for records in ("1000", "331449281")
    )
    assert large["records"] == 331_449_281 + 140_498_736
    for quantity in ("numbers", "seconds", "memory", "warehouse", "published"):
        assert large[quantity] > small[quantity] > 0
    assert any("times the" in warning for warning in large["warnings"])
    assert stirred("plan", "two_states/redistricting", "--records", "0").exit_code == 2


def test_the_configuration_that_the_page_on_plans_shows_can_be_planned(stirred: Callable[..., Result]) -> None:
    page = (PROJECT / "docs" / "how-to" / "plan.md").read_text("utf-8")
    (block,) = re.findall(r"^```yaml\n(ops:.*?)^```", page, re.DOTALL | re.MULTILINE)
    config = yaml.safe_load(block)["ops"]["two_states__s_dhc__plan"]["config"]
    (margin,) = config["margins"].items()
    tried = ("--try", json.dumps(config["fields"]), "--margin", "{}={}".format(*margin))
    result = stirred("plan", "two_states/s_dhc", *tried, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["plan"]["refusal"] == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("ma1940/tenure_by_county", "--try", "swap_rate"), "--try: 'swap_rate' is not of the form 'FIELD: VALUE'"),
        (("ma1940/tenure_by_county", "--margin", "3"), "--margin: '3' is not of the form LINE=NUMBER"),
        (("survey/tables", "--total", "3"), "is declared as survey/tables_employment, survey/tables_income"),
        (("ma1940/tenure_by_county", "--try", "swap_rate: 2"), "swap_rate: the swap rate must be strictly between"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_one_sentence(
    stirred: Callable[..., Result], options: tuple[str, ...], message: str
) -> None:
    result = stirred("plan", *options)
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert "Traceback" not in result.output
