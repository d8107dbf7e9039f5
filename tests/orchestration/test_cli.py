"""The command `stirred` before any run; `test_swapping` tries it with a release."""

import io
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
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
from dagster_shared.error import SerializableErrorInfo
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from assets.release.release import DeclarationError
from assets.release.signature import Identity, sign
from assets.stages import conceal_faults
from mechanisms.accounting.losses import ConcentratedLoss, InfiniteLoss, Loss, PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from orchestration import launch
from orchestration.cli import explain_error, main, releases, runs
from orchestration.deployment import Deployment
from orchestration.environment import deployment_resources
from orchestration.following import WEBSERVER, Page, Run, RunOutcome, Step
from orchestration.queue import UnknownJobError
from resources.chain import Details
from resources.custody import CustodyMode
from resources.ledger import Ledger
from resources.project import PROJECT
from resources.statements import Zone
from tests.depth import deep_cases, quick_cases


@pytest.fixture
def stirred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    for name in ("STIRRED_HOME", "STIRRED_PUBLISHED", "DAGSTER_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return lambda *arguments: CliRunner().invoke(main, arguments)


def test_the_list_of_commands_shows_whole_sentences() -> None:
    """Wrong program: begins a command's help with a sentence that a terminal of 80 columns cuts."""
    groups = ([], ["export"], ["ledger"], ["new"])
    lists = [CliRunner().invoke(main, [*group, "--help"], terminal_width=80) for group in groups]
    assert {shown.exit_code for shown in lists} == {0}
    assert "..." not in "".join(shown.output.partition("Commands:")[2] for shown in lists)


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


def test_a_folder_without_declarations_is_named_until_its_first_dataset(
    stirred: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: shows pages of Dagster's code to a user in another folder than the deployment's."""
    for module in ("resources.project", "orchestration.declarations"):
        monkeypatch.setattr(f"{module}.DECLARATIONS", tmp_path / "defs")
    for command in (["status"], ["budget"], ["check"], ["launch", "town/tables"], ["new", "release", "town"]):
        refused = stirred(*command)
        assert (refused.exit_code, "stirred new dataset FILE begins a new one" in refused.stderr) == (1, True)
        assert "Traceback" not in refused.stderr
    (tmp_path / "town.csv").write_text("region,tenure\nN,own\nS,rent\n")
    assert stirred("new", "dataset", str(tmp_path / "town.csv")).exit_code == 0
    assert stirred("check").output == "All declarations can be loaded.\n"


def test_an_interruption_is_told_and_not_named_as_an_error_of_dagster() -> None:
    info = SerializableErrorInfo(
        "dagster._core.errors.DagsterExecutionInterruptedError\n", [], "DagsterExecutionInterruptedError"
    )
    failure = Mock(user_failure_data=None, error=info)
    assert launch._failure_message(Mock(step_failure_data=failure)).startswith("The run was interrupted. Launch again")


def test_an_interrupted_query_is_an_interruption_and_no_fault() -> None:
    """DuckDB raises an error of its own from the interruption."""
    with pytest.raises(dg.DagsterExecutionInterruptedError), conceal_faults():
        raise RuntimeError("Query interrupted") from KeyboardInterrupt()


def test_results_are_printed_in_any_locale_and_to_a_closed_output(
    stirred: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: a fault at the first ε where the locale is ISO-8859-1, or where a service has no output."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1", errors="surrogateescape"))
    main(["budget"], standalone_mode=False)
    print("\udcff", flush=True)
    assert "ε = 40.0000" in written.getvalue()[:-2].decode()
    assert written.getvalue().endswith(b"\xff\n"), "the name of a file that is no text, as the stream had it"
    monkeypatch.setattr(sys, "stdout", None)
    main(["budget"], standalone_mode=False)


def test_a_failed_run_of_which_everything_is_published_is_told_from_others(
    stirred: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: show the same sentence beside a charge that was never drawn, an earlier edition, or a success."""
    common = {"last_run_at": "2026-01-01T00:00:00", "withdrawn": False, "published": True}
    rows = (
        ("a/whole", 2, ["ε = 1"] * 2, "2.1", "failure"),
        ("a/undrawn", 1, ["ε = 1"] * 2, "1", "failure"),
        ("a/earlier", 2, ["ε = 1"] * 2, "1", "failure"),
        ("a/ended", 1, ["ε = 1"], "1", "success"),
    )
    names = ("release", "draws", "charges", "edition", "last_run")
    found = [common | dict(zip(names, row, strict=True)) for row in rows]
    found.append(found[0] | {"release": "a/nothing", "published": False, "edition": None})
    for name, value in (("statuses", found), ("other_statuses", []), ("budgets", [])):
        monkeypatch.setattr(f"orchestration.deployment.Deployment.{name}", lambda *_, value=value: value)
    monkeypatch.setattr("orchestration.launch.open_instance", nullcontext)
    told = [line for line in stirred("status").stdout.splitlines() if "last run " in line and ":" in line]
    assert told == ["a/whole: its last run failed, but its last charge is drawn and published, as edition 2.1"]


def test_the_last_run_of_a_release_with_partitions_is_one_of_all_its_jobs(
    stirred: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: shows the last run of its first job, a success, while a state fails."""
    name = "two_states/redistricting"
    component = Deployment().declared[1][name]
    parted = replace(component, declaration=component.declaration.model_copy(update={"partitions": "state"}))
    monkeypatch.setattr(Deployment, "declared", ([], {name: parted}))
    monkeypatch.setattr(Deployment, "groups", {name: [parted]})
    with dg.DagsterInstance.ephemeral() as instance:
        monkeypatch.setattr("orchestration.launch.open_instance", lambda: nullcontext(instance))
        jobs = ("", "measurements__", "before_states__", "states__", "publication__")
        for number, job in enumerate(jobs):
            status = dg.DagsterRunStatus.FAILURE if number % 2 else dg.DagsterRunStatus.NOT_STARTED
            instance.run_storage.add_run(dg.DagsterRun(f"{job}two_states__redistricting", status=status))
            (shown,) = re.findall(rf"{name}.*  (not started|failure), ", stirred("status").stdout)
            assert shown == ("failure" if number % 2 else "not started"), job


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
    recorded = json.loads(stirred("budget", "--json").stdout)["ledger"]
    assert [(each["kind"], each["withdrawn_by"]) for each in recorded] == [("reserve", ""), ("withdraw", "Ann")]
    assert re.search(r"withdraw +ma1940/tenure_by_county +Ann ", stirred("budget").stdout)


@pytest.mark.deep
def test_a_budget_is_shown_with_what_is_wrong_and_names_as_they_are(
    stirred: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    edition = Identity("ma1940", "half", 1, "33" * 32, 3, "44" * 32)
    monkeypatch.setattr(Deployment, "list_signed", lambda _: [edition])
    set_back = stirred("budget")
    assert (set_back.exit_code, "Ledger, not intact" in set_back.stdout) == (1, True)
    assert "the ledger was set back or rebuilt: ma1940/half, edition 1" in set_back.stderr
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
    [(True, "Nothing was charged: the draw was there already."), (False, "Nothing was charged: town/stirred charges")],
)
def test_a_release_that_charges_nothing_says_so_and_takes_no_authorization(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, charges: bool, says: str
) -> None:
    """An example is a withheld swap. The run itself is left out. No declaration is loaded twice."""
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
    outcome = RunOutcome("run", True, "log", frozenset({"run"}))
    loaded: list[str] = []
    monkeypatch.setattr(runs, "load_releases", lambda name: loaded.append(name) or [component])
    monkeypatch.setattr(runs, "_open_here", lambda: nullcontext(None))
    monkeypatch.setattr(runs, "_show", lambda *given, **options: (steps, outcome))
    assert says in CliRunner().invoke(main, ["launch", "town/stirred"]).stdout
    given = ["launch", "town/stirred", "--authorize", "ε = 1", "--draw", "abc", "--by", "A. Officer"]
    loaded.clear()
    refused = CliRunner().invoke(main, given)
    assert (refused.exit_code == 2 and "town/stirred charges nothing" in refused.output) == (not charges)
    assert loaded == ["town/stirred"]


class OfQueue:
    """A queue in which only runs of one name fail; `asked` lists the runs that were queued and followed. The source is
    in parts, which a job of the release reads if it counts them too."""

    def __init__(self, jobs: Sequence[tuple[str, str]], fails: str = "", *, counts: bool = False) -> None:
        self.asked, self._jobs, self._fails, self._counts = list[str](), jobs, fails, counts
        self._named = dict[str, str]()

    def launch(self, release: str, *, job: str, partition: str, config: Mapping[str, Any], name: str) -> None:
        self.asked.append(f"queued {' '.join(filter(None, [job, release, partition]))}")
        self._named[name] = self.asked[-1].removeprefix("queued ")

    def find(self, name: str) -> list[Run]:
        self.asked.append(self._named[name])
        return [Run(name, "FAILURE" if self._named[name] == self._fails else "SUCCESS", {})]

    def read(self, run_id: str, cursor: str | None) -> Page:
        return Page([], None, False)

    def awaits_retry(self, run: Run) -> bool:
        return False

    def list_following(self, release: str) -> list[tuple[str, str]]:
        return list(self._jobs)

    def list_keys(self, release: str, job: str) -> list[str]:
        if job == "counts" and not self._counts:
            raise UnknownJobError(release)
        return ["A", "B"]

    def show_run(self, run_id: str) -> str:
        return f"http://webserver/runs/{run_id}"


STATES = [("states", "publication")]
MEASURED = [("measurements", "before_states"), *STATES]


@pytest.mark.parametrize(
    ("jobs", "fails", "asked"),
    [
        ([], "", ["cef town A", "cef town B", "queued town/r", "town/r"]),
        ([], "cef town A", ["cef town A"]),
        (STATES, "town/r", ["cef town A", "cef town B", "queued town/r", "town/r"]),
        (
            MEASURED,
            "states town/r B",
            [
                *("cef town A", "cef town B", "queued town/r", "town/r"),
                *("queued measurements town/r A", "queued measurements town/r B"),
                *("measurements town/r A", "measurements town/r B"),
                *("queued before_states town/r", "before_states town/r"),
                *("queued states town/r A", "queued states town/r B", "states town/r A", "states town/r B"),
            ],
        ),
    ],
)
def test_all_partitions_are_in_the_queue_at_once_and_what_follows_after_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: list[tuple[str, str]], fails: str, asked: list[str]
) -> None:
    """Partitions of the source, before the release, and of each round. Wrong programs: queue partitions one after the
    other, so that many machines do the work of one, or beside the job that combines them; queue a second round with the
    first; and queue the following jobs after a failure."""
    (tmp_path / "dataset.yaml").write_text("attributes: {name: town, partitions: ['A', 'B']}\n---\n{}\n")
    (tmp_path / "release.yaml").write_text("attributes: {name: r, dataset: town, partitions: state}\n")
    monkeypatch.setattr(releases, "list_files", lambda _: sorted(tmp_path.glob("*.yaml")))
    queue: Any = OfQueue(jobs, fails)
    progress = runs._Progress(quiet=True)
    runs._run_jobs_queued(progress, queue, "town/r", {})
    assert queue.asked == ["queued cef town A", "queued cef town B", *asked]
    assert progress.outcome.success == (not fails)


def test_parts_that_a_release_counts_are_read_and_counted_by_one_run_each() -> None:
    """Wrong programs: count parts only in the job of the release, or launch runs that only read them before."""
    queue: Any = OfQueue([], counts=True)
    runs._run_jobs_queued(runs._Progress(quiet=True), queue, "town/r", {})
    of_parts = ["counts town/r A", "counts town/r B"]
    assert queue.asked == [*(f"queued {job}" for job in of_parts), *of_parts, "queued town/r", "town/r"]


@pytest.mark.parametrize("rounds", [["states"], ["measurements", "states"]])
def test_on_one_machine_states_take_turns_and_the_publication_follows_them(
    monkeypatch: pytest.MonkeyPatch, rounds: list[str]
) -> None:
    """Wrong programs: run parts of a source separately, although they would only take turns, or start jobs after a
    failed one."""
    done = list[str]()

    def run(
        instance: object, release: str, report: object, *, job: str = "", partition: str = "", **_: Any
    ) -> RunOutcome:
        done.append(" ".join(filter(None, [job, partition])))
        return RunOutcome("run", len(done) < 4, "log")

    monkeypatch.setattr(runs, "_run_here", run)
    component, partitions = SimpleNamespace(rounds=rounds), SimpleNamespace(list_keys=lambda _: ["A", "B"])
    monkeypatch.setattr(runs, "load_partitions", lambda _: partitions)
    progress, instance = runs._Progress(quiet=True), Mock()
    runs._run_jobs_here(progress, instance, "town/r", {}, lambda: [component])  # type: ignore[list-item]
    name, after = (rounds[0], "publication" if rounds == ["states"] else "before_states")
    assert done == ["", f"{name} A", f"{name} B", after]
    assert not progress.outcome.success


def test_in_a_cluster_no_job_is_run_in_the_process_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without the address of the webserver. The runs of the cluster would not wait for it."""
    for name in ("STIRRED_HOME", "STIRRED_PUBLISHED", "STIRRED_LAKE_CONFIDENTIAL", "STIRRED_LAKE_PUBLIC"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("STIRRED_DEPLOYMENT", "cluster")
    for command in ("launch", "preflight"):
        refused = CliRunner().invoke(main, [command, "two_states/swapped"])
        assert refused.exit_code == 1
        assert refused.stderr.startswith("Error: STIRRED_WEBSERVER is not set")


def test_a_launch_by_the_queue_says_what_its_own_runs_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A charge counts if the launch's first run reserved it before it was lost. A charge of another launch and a draw
    from public data do not count. Wrong programs: list every charge shown, or state charges after a failure that hides
    them."""
    loss = {"loss": "ε = 1.0000"}
    made = {
        "town/own": {**loss, "charged by run": "lost"},
        "town/earlier": {**loss, "charged by run": "of another launch"},
        "town/public": {**loss, "charged by run": "run", "charged": "public data"},
    }
    steps = [Step("made", f"{name}/charge", metadata=metadata) for name, metadata in made.items()]
    steps += [Step("planned", "town/own/publication")]
    monkeypatch.setenv(WEBSERVER, "http://webserver")
    monkeypatch.setattr(runs, "_run_jobs_queued", lambda progress, *_: progress.show(lambda report: None))
    for success, says in ((True, "http://webserver/assets/town/own/publication"), (False, "The log is")):
        outcome = RunOutcome("run", success, "http://webserver/runs/run", frozenset({"lost", "run"}))
        monkeypatch.setattr(runs, "_show", lambda *_, outcome=outcome, **__: (steps, outcome))
        launched = CliRunner().invoke(main, ["launch", "two_states/swapped"])
        assert launched.exit_code == (not success)
        assert "Charged\n  town/own  ε = 1.0000\n" in launched.output
        assert says in launched.output
        assert launched.output.count("ε") == 1
    steps.clear()
    assert "The page of the ledger says whether" in CliRunner().invoke(main, ["launch", "two_states/swapped"]).stderr


def test_a_launch_speaks_before_it_loads_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch's imports take seconds. A command that first prints after them prints no line here."""
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
    """Of two hypercubes, the first one fits under the cap. Wrong program: shows its charge after "nothing was
    charged"."""
    refusal, charges = "Nothing was drawn, and nothing was charged.", {"town/a": PureLoss(Fraction(2))}
    charged = runs.list_charges(charges)
    assert runs.describe_charges(charged, refusal).splitlines()[0] == "But this launch charged"
    assert runs.describe_charges(charged, "It failed.").splitlines()[0] == "Charged"
    assert (runs.describe_charges("", refusal), runs.describe_charges("", "No.")) == ("", "Nothing was charged.")


def test_a_launch_without_a_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails for: a launch that refers to `stirred check` for a mistake found only while stages are built."""
    problem = "the declarations cannot be loaded:\na/defs.yaml:7: exempt: every record would be exempt"
    monkeypatch.setattr("orchestration.definitions.defs", Mock(side_effect=DeclarationError(problem)))
    assert runs._explain_failure(RunOutcome("", False, "run.log")) == f"No run was started: {problem}"


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
        (["launch", "two_counties"], 2, "declared are two_counties/dhc, two_counties/redistricting\n"),
        (["launch", "ma1940/tenure_by_county/"], 2, "(did you mean ma1940/tenure_by_county?); declared are "),
        (["launch"], 2, "Missing argument"),
        (["launch", "two_counties/places", "--authorize", "1"], 2, "two_counties/places charges nothing"),
        (["table", "two_counties/places"], 2, "is no release, but a retabulation of two_counties/redistricting. It "),
        (["withdraw", "ma1940/nothing", "--by", "Ada"], 1, "ma1940/nothing"),
        (["withdraw", "two_states/hypercubes", "--by", "Ada"], 1, "withdraw each of them: two_states/hypercubes_race"),
        (["verify", "nowhere", "--key", "nowhere"], 1, "nowhere cannot be read"),
        (["restore", "nowhere"], 1, "nowhere"),
        (["unblock", "nothing"], 1, "there is no run nothing"),
        (["unblock", "--lost"], 2, "name the runs that are lost"),
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
    assert (found["total"], found["exactly"], found["refusal"]) == ("ρ = 3.0000", {"rho": "3"}, "")
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
    plan = json.loads(result.stdout)["plan"]
    assert plan["refusal"] == ""
    (budget,) = (float(Fraction(line["budget"])) for line in plan["lines"] if line["name"] in config["margins"])
    assert f"takes ρ = {budget:.6f} instead" in page


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


def test_a_history_that_cannot_be_written_is_explained_without_its_statement(tmp_path: Path) -> None:
    """Wrong programs: one that shows a trace instead, and one that quotes SQLite's other complaints."""

    def run(folder: str, statement: str) -> OperationalError:
        with (
            pytest.raises(OperationalError) as failed,
            create_engine(f"sqlite:///{tmp_path}/{folder}/a.db").begin() as db,
        ):
            db.execute(text(statement))
        return failed.value

    assert explain_error(run("missing", "SELECT 1")) == (
        "Dagster's history: unable to open database file. Its folder must be writable, on a disk with free space"
    )
    assert explain_error(run(".", "SELECT secret")) is None
