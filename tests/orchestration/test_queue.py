"""Claims about `orchestration.queue`: the webserver reports the same of a run as the instance. A lost server is asked
again, and every other error is refused without quoting it."""

import io
import json
import urllib.error
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import HTTPMessage, IncompleteRead
from pathlib import Path
from typing import Any
from urllib.request import Request

import dagster as dg
import pytest
from dagster_graphql.schema import create_schema
from dagster_webserver.cli import WorkspaceProcessContext
from graphql import parse, validate

from assets.conventions import check_result
from orchestration import following, queue
from orchestration.following import (
    BY_COMMAND,
    GIVEN_UP,
    WEBSERVER,
    Page,
    Run,
    RunEvent,
    Step,
    WebserverLostError,
    ask,
    follow,
)
from orchestration.launch import _Here
from orchestration.queue import Queue, QueueError, UnknownJobError, find_webserver

SCHEMA = create_schema()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have every request answered by a function of the question and its variables."""

    def answer_by(answer: Callable[[str, dict[str, Any]], Any]) -> None:
        def open_request(request: Request, timeout: float) -> io.BytesIO:
            assert isinstance(request.data, bytes)
            asked = json.loads(request.data)
            said = answer(asked["query"], asked["variables"])
            response = io.BytesIO(said if isinstance(said, bytes) else json.dumps(said).encode())
            response.status = 200  # type: ignore[attr-defined]
            return response

        monkeypatch.setattr(queue.urllib.request, "urlopen", open_request)

    return answer_by


def run_something(instance: dg.DagsterInstance, name: str) -> str:
    """A run with every kind of event that is shown, from assets whose metadata and words a page would escape."""

    @dg.asset(
        key=["town", "r", "counted"],
        check_specs=[dg.AssetCheckSpec(check, asset=["town", "r", "counted"]) for check in ("held", "broken")],
    )
    def counted() -> dg.MaterializeResult:
        texts = {"loss": "ε = 1.0000", "how": dg.MetadataValue.md("```\nops\n```"), "rows": 10**12, "share": 0.1}
        results = [check_result("held", []), check_result("broken", ["a_b: 3 cells", "c: *none*"])]
        return dg.MaterializeResult(metadata=texts, check_results=results)

    @dg.asset(key=["town", "r", "refused"], deps=[["town", "r", "counted"]])
    def refused(context: dg.AssetExecutionContext) -> None:
        context.log.info("A message that is no event.")
        raise dg.Failure(
            "Nobody has authorized it.\nε = 1", metadata={"command": "stirred launch"}, allow_retries=False
        )

    @dg.asset(key=["town", "r", "faulty"], deps=[["town", "r", "counted"]])
    def faulty() -> None:
        raise ValueError("a fault")

    made = dg.Definitions(assets=[counted, refused, faulty], executor=dg.in_process_executor)
    job = made.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, raise_on_error=False, tags={BY_COMMAND: name}).run_id


def untimed(step: Step) -> Step:
    """A step without its time, of which the webserver tells milliseconds, and with its metadata as texts."""
    metadata = step.metadata and {name: str(value) for name, value in step.metadata.items()}
    return replace(step, seconds=0.0, metadata=metadata)


def test_the_webserver_tells_of_a_run_what_the_instance_has(
    instance: dg.DagsterInstance, answers: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts of three events. Wrong programs: show a check's words as Markdown or the message of Dagster's own
    failure, lose metadata, read a part twice or not at all, or change the order of runs."""
    monkeypatch.setattr(queue, "_EVENTS_AT_ONCE", 3)
    with WorkspaceProcessContext(instance, workspace_load_target=None) as context:

        def answer(question: str, variables: dict[str, Any]) -> Any:
            found = SCHEMA.execute(question, variable_values=variables, context_value=context.create_request_context())
            return {"data": found.data, "errors": [{"path": []} for _ in found.errors or []]}

        answers(answer)
        earlier, other = (dg.DagsterRun("r", tags={BY_COMMAND: name}) for name in ("name", "another name"))
        instance.run_storage.add_run(earlier)
        run_ids = [earlier.run_id, run_something(instance, "name")]
        instance.run_storage.add_run(other)
        asked = Queue("http://webserver")
        told, had = list[Step](), list[Step]()
        instance.add_run_tags(run_ids[-1], {GIVEN_UP: run_ids[-1]})
        found = follow(asked, "name", told.append)
        assert [run.run_id for run in found] == run_ids
        monkeypatch.setattr(following, "LONGEST_UNTIL_RETRY", 0.0)
        assert follow(_Here(instance, tmp_path), "name", had.append, None) == found
    assert list(map(untimed, told)) == list(map(untimed, had))
    assert all(abs(one.seconds - other.seconds) < 0.01 for one, other in zip(told, had, strict=True))
    said = {(step.kind, step.asset, step.check): step for step in told}
    assert said["failed", "town/r/counted", "broken"].words.startswith("a_b: 3 cells\nc: *none*")
    assert said["passed", "town/r/counted", "held"].words == ""
    assert said["refused", "town__r__refused", ""].words == "Nobody has authorized it.\nε = 1"
    assert said["refused", "town__r__refused", ""].metadata == {"command": "stirred launch"}
    assert said["refused", "town__r__faulty", ""].words == "ValueError: a fault"
    assert said["made", "town/r/counted", ""].seconds > 0
    assert {step.asset for step in told if step.kind == "planned"} == {
        f"town/r/{name}" for name in ("counted", "refused", "faulty")
    }


@pytest.mark.parametrize("question", ["LAUNCH", "RUNS", "LOG", "RETRIES", "FOLLOWING", "KEYS", "LOCATED"])
def test_every_question_is_one_that_dagster_understands(question: str) -> None:
    """A later version of Dagster may not."""
    assert validate(SCHEMA.graphql_schema, parse(getattr(queue, question))) == []


def test_a_job_is_put_into_the_queue_once(answers: Callable[..., None]) -> None:
    """If the first answer is lost. Wrong programs: launch two runs, or none after one that was only stored."""
    given, runs = list[dict[str, Any]](), list[str]()

    def answer(question: str, variables: dict[str, Any]) -> Any:
        if "launchRun" in question:
            given.append(variables["params"])
            return {"data": {"launchRun": {"__typename": "LaunchRunSuccess"}}}
        found = [{"runId": status, "status": status, "tags": []} for status in runs]
        return {"data": {"runsOrError": {"__typename": "Runs", "results": found}}}

    answers(answer)
    for runs[:] in (["NOT_STARTED"], ["QUEUED", "NOT_STARTED"], ["FAILURE"]):
        Queue("http://webserver").launch("town/r", job="states", partition="A", config={"ops": {}}, name="a name")
    (params,) = given
    assert params["selector"]["jobName"] == "states__town__r"
    assert json.loads(params["runConfigData"]) == {"ops": {}}
    tags = {tag["key"]: tag["value"] for tag in params["executionMetadata"]["tags"]}
    assert (tags[BY_COMMAND], tags["dagster/partition"]) == ("a name", "A")
    assert tags[".dagster/repository"] == "__repository__@stirred"


def test_a_configuration_that_is_refused_puts_nothing_into_the_queue(answers: Callable[..., None]) -> None:
    """Wrong program: a launch that then follows a missing run."""
    runs = {"data": {"runsOrError": {"__typename": "Runs", "results": []}}}
    refused = {"data": {"launchRun": {"__typename": "RunConfigValidationInvalid"}}}
    answers(lambda question, _: refused if "launchRun" in question else runs)
    for config, words in (
        ({"ops": {}}, "cannot be authorized: it charges nothing"),
        ({}, "cannot be put into the queue"),
    ):
        with pytest.raises(QueueError, match=words):
            Queue("http://webserver").launch("town/r", config=config, name="a name")


def test_the_jobs_that_follow_are_those_of_the_sensor_of_the_release(answers: Callable[..., None]) -> None:
    """Wrong program: uses the order in which Dagster lists them, by name."""
    jobs = [f"{job}__town__r" for job in ("before_states", "measurements", "publication", "states")]
    sensors = [
        *({"targets": targets} for targets in (None, [{"pipelineName": "town__r"}])),
        {"targets": [{"pipelineName": f"{job}__town__r2"} for job in ("states", "publication")]},
        {"targets": [{"pipelineName": job} for job in jobs]},
    ]
    keys = {"partitionKeysOrError": {"partitionKeys": ["b", "a"]}}
    asked = list[str]()

    def answer(question: str, variables: dict[str, Any]) -> Any:
        if "job" in variables:
            asked.append(variables["job"]["pipelineName"])
            return {"data": {"pipelineOrError": {"__typename": "Pipeline", **keys}}}
        return {"data": {"sensorsOrError": {"__typename": "Sensors", "results": sensors}}}

    answers(answer)
    following = Queue("http://webserver").list_following("town/r")
    assert following == [("measurements", "before_states"), ("states", "publication")]
    assert Queue("http://webserver").list_following("town/other") == []
    assert Queue("http://webserver").list_keys("town/r", following[0][0]) == ["a", "b"]
    assert asked == ["measurements__town__r"]
    del sensors[-1]["targets"][:2]
    assert Queue("http://webserver").list_following("town/r") == [("states", "publication")]


SECRET = "postgresql://office:password@host"


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ({"data": None, "errors": [{"message": SECRET, "path": ["runsOrError"]}]}, WebserverLostError, "to answer"),
        ({"errors": [{"message": SECRET}]}, QueueError, "another version"),
        (b"<html>Log in</html>", QueueError, "no webserver of Dagster answers there (status 200). If a log-in"),
        (b"[]", QueueError, "no webserver of Dagster answers there"),
        ({"__typename": "PythonError", "className": "OperationalError", "message": SECRET}, WebserverLostError, "lost"),
        (
            {"__typename": "PythonError", "className": "DagsterUserCodeUnreachableError", "message": SECRET},
            WebserverLostError,
            "lost another server: DagsterUserCodeUnreachableError",
        ),
        ({"__typename": "PythonError", "className": "KeyError", "message": SECRET}, QueueError, "failed: KeyError"),
        ({"__typename": "PipelineNotFoundError", "message": "no"}, UnknownJobError, "no such job"),
        ({"__typename": "PipelineNotFoundError", "message": "no"}, WebserverLostError, "not loaded"),
        ({"__typename": "UnauthorizedError", "message": "Read only."}, QueueError, "Read only."),
    ],
)
def test_a_lost_server_is_told_from_a_refusal_and_no_error_is_quoted(
    answers: Callable[..., None], said: Any, kind: type[Exception], words: str
) -> None:
    """Wrong programs: ask a log-in page for ten minutes, end when the code location restarts, or show the text of an
    error, which may contain a setting or a statement."""
    if isinstance(said, dict) and "__typename" in said:
        loaded = {"__typename": "RepositoryLocation" if kind is UnknownJobError else "PythonError"}
        said = {"data": {"runsOrError": said, "workspaceLocationEntryOrError": {"locationOrLoadError": loaded}}}
    answers(lambda *_: said)
    with pytest.raises(kind) as raised:
        Queue("http://webserver").find("a name")
    assert type(raised.value) is kind
    assert words in str(raised.value)
    assert SECRET not in str(raised.value)


def test_the_webserver_is_asked_again_while_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong programs: a launch that ends while its run goes on, and a wait for an address that answers 404."""
    monkeypatch.setattr(following, "_BETWEEN_LOOKS", 0.0)
    page = io.BytesIO(json.dumps({"data": {"runsOrError": {"__typename": "Runs", "results": []}}}).encode())
    page.status = 200  # type: ignore[attr-defined]
    refused = urllib.error.URLError(ConnectionRefusedError(SECRET))
    faults: list[Any] = [
        refused,
        urllib.error.HTTPError("", 502, "", HTTPMessage(), io.BytesIO()),
        TimeoutError(),
        IncompleteRead(b""),
    ]
    left = [page, *faults]

    def open_request(*given: Any, **options: Any) -> Any:
        said = left.pop()
        if isinstance(said, Exception):
            raise said
        return said

    monkeypatch.setattr(queue.urllib.request, "urlopen", open_request)
    assert ask(lambda step: None, Queue("http://webserver").find, "a name") == []
    left[:] = [urllib.error.HTTPError("", 404, "", HTTPMessage(), io.BytesIO(b"not here"))]
    with pytest.raises(QueueError, match="status 404"):
        ask(lambda step: None, Queue("http://webserver").find, "a name")


def test_what_is_launched_again_is_waited_for_as_the_settings_say(answers: Callable[..., None]) -> None:
    """The settings as Dagster shows them. Wrong programs: never wait, or wait for a run that was refused."""
    settings = ["run_retries:\n  enabled: true\n  max_retries: 1\n", "run_retries:\n  enabled: false\n", None]
    tags = {"dagster/max_retries": "2", "dagster/retry_number": "1"}
    for info, expected in zip(settings, ((True, True), (False, False), (False, False)), strict=True):
        answers(lambda *_, info=info: {"data": {"instance": {"info": info}}})
        asked = Queue("http://webserver")
        assert tuple(asked.awaits_retry(Run("run", "FAILURE", given)) for given in ({}, tags)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", ""),
        ("http://webserver:3000/", "http://webserver:3000"),
        ("https://[::1]/dagster", "https://[::1]/dagster"),
        ("webserver.example:3000", None),
        ("http://name:secret@webserver", None),
        ("file:///etc/passwd", None),
        ("http://webserver?key=secret", None),
        ("http://name:se#cret@webserver", None),
        ("http://webserver:secret", None),
        ("http://[::1", None),
        ("http://webserver/\x1b[2J", None),
    ],
)
def test_an_address_is_refused_without_quoting_it(
    monkeypatch: pytest.MonkeyPatch, given: str, expected: str | None
) -> None:
    monkeypatch.setenv(WEBSERVER, given)
    if expected is not None:
        assert find_webserver() == expected
        return
    with pytest.raises(QueueError) as raised:
        find_webserver()
    assert given not in str(raised.value)


def test_what_a_run_did_until_it_was_launched_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks, a run charges, is lost, and is launched again from where it failed. Wrong programs: read only
    the log of the last run, by which nothing was charged; show a log twice; and look forever for a deleted run."""
    monkeypatch.setattr(following, "_BETWEEN_LOOKS", 0.0)
    looks = [[Run("one", "STARTED", {})], [Run("one", "FAILURE", {}), Run("two", "STARTED", {})]]
    looks += [[Run("one", "FAILURE", {}), Run("two", "SUCCESS", {})], []]
    logs = {"one": ["plan", "charge"], "two": ["publication"]}

    class Looked(Queue):
        def find(self, name: str) -> list[Run]:
            return looks.pop(0)

        def read(self, run_id: str, cursor: str | None) -> Page:
            said = logs[run_id][int(cursor or 0) :][:1]
            return Page([RunEvent(Step("made", each)) for each in said], str(int(cursor or 0) + len(said)), False)

        def awaits_retry(self, run: Run) -> bool:
            return False

    told = list[Step]()
    assert len(follow(Looked("http://webserver"), "name", told.append)) == 2
    assert [step.asset for step in told] == ["plan", "charge", "publication"]
    assert follow(Looked("http://webserver"), "name", told.append) == []
