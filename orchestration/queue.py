"""Jobs that a deployment's webserver puts into the queue on request, and its reports on their runs.

`STIRRED_WEBSERVER` is its address. A launch needs no other access to the deployment: no database, no key, and no
folder. The daemon launches the queued runs, and launches a run again if its process dies; a run continues if the
command that follows it is ended.

The questions use Dagster's GraphQL (`dagster_graphql`), as Dagster's own pages do. Quoted errors leave out any part
that may contain a statement or a value.
"""

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from typing import Any

from assets.texts import read_description
from mechanisms.refusal import RefusedError
from orchestration.following import (
    BEFORE,
    BLOCKED,
    BY_COMMAND,
    LOCATION,
    LOST_DATABASE,
    PUBLICATION_OF,
    REPOSITORY,
    WAITS_FOR_WRITER,
    WEBSERVER,
    Page,
    Run,
    RunEvent,
    Step,
    WebserverLostError,
    is_retried,
    list_jobs,
    name_job,
    tag,
)
from resources.addresses import is_web_address

_LOST = {
    *LOST_DATABASE,
    "DagsterUserCodeUnreachableError",
    "DagsterUserCodeLoadError",
    "DagsterCodeLocationLoadError",
    "DagsterCodeLocationNotFoundError",
}
"""Dagster's temporary errors: its database or the code location is starting, or cannot be reached."""

_OVERLOADED = (500, 502, 503, 504)
"""Statuses of a webserver, or of a proxy in front of it, that may answer later."""

_SECONDS, _EVENTS_AT_ONCE = 300, 1000

_HERE = {"repositoryLocationName": LOCATION, "repositoryName": REPOSITORY}

_ERROR = "__typename ... on Error { message } ... on PythonError { className }"

LAUNCH = f"""
mutation Launch($params: ExecutionParams!) {{
  launchRun(executionParams: $params) {{
    {_ERROR}
  }}
}}"""

RUNS = f"""
query Runs($filter: RunsFilter!) {{
  runsOrError(filter: $filter) {{ {_ERROR} ... on Runs {{ results {{ runId status tags {{ key value }} }} }} }}
}}"""

_METADATA = """
metadataEntries {
  label
  ... on TextMetadataEntry { text }
  ... on MarkdownMetadataEntry { text: mdStr }
  ... on PathMetadataEntry { text: path }
  ... on UrlMetadataEntry { text: url }
  ... on IntMetadataEntry { text: intRepr }
  ... on FloatMetadataEntry { text: floatRepr }
}"""

LOG = f"""
query Log($run: ID!, $cursor: String, $limit: Int!) {{
  logsForRun(runId: $run, afterCursor: $cursor, limit: $limit) {{
    {_ERROR}
    ... on EventConnection {{
      cursor hasMore
      events {{
        __typename
        ... on MessageEvent {{ message timestamp stepKey }}
        ... on AssetMaterializationPlannedEvent {{ assetKey {{ path }} }}
        ... on MaterializationEvent {{ assetKey {{ path }} {_METADATA} }}
        ... on AssetCheckEvaluationEvent {{ evaluation {{ success checkName description assetKey {{ path }} }} }}
        ... on ExecutionStepFailureEvent {{
          error {{ message className cause {{ message }} }}
          failureMetadata {{ description {_METADATA} }}
        }}
      }}
    }}
  }}
}}"""

RETRIES = "query Retries { instance { info } }"

FOLLOWING = f"""
query Following($repository: RepositorySelector!) {{
  sensorsOrError(repositorySelector: $repository) {{
    {_ERROR}
    ... on Sensors {{ results {{ targets {{ pipelineName }} }} }}
  }}
}}"""

KEYS = f"""
query Keys($job: PipelineSelector!) {{
  pipelineOrError(params: $job) {{
    {_ERROR}
    ... on Pipeline {{ partitionKeysOrError {{ partitionKeys }} }}
  }}
}}"""

LOCATED = """
query Located($name: String!) {
  workspaceLocationEntryOrError(name: $name) {
    ... on WorkspaceLocationEntry { locationOrLoadError { __typename } }
  }
}"""


class QueueError(RefusedError):
    """The webserver refuses a request, or the address is not a Dagster webserver's."""


class UnknownJobError(QueueError):
    """The deployment has no such job."""


def find_webserver() -> str:
    """The address in `STIRRED_WEBSERVER`, without a slash at its end; "" if it is not set.

    Raises QueueError, which does not quote it, if it is no web address or contains a name or password.
    """
    address = os.environ.get(WEBSERVER, "").rstrip("/")
    if not address:
        return ""
    if not is_web_address(address):
        raise QueueError(f"{WEBSERVER} is not an address such as http://webserver:3000, without a password in it")
    return address


class Queue:
    """The queue of a deployment, and the runs in it, as `orchestration.following.Runs` has them.

    Args:
        address: the webserver's.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._errors = dict[str, list[str]]()
        self._retries: Mapping[str, Any] | None = None

    def launch(
        self, release: str, *, job: str = "", partition: str = "", config: Mapping[str, Any] = {}, name: str
    ) -> None:
        """Put a job into the queue under a name, unless the webserver knows a run of this name: the answer to an
        earlier request may have been lost.

        Raises:
            UnknownJobError: if there is no such job.
            QueueError: if the job or its configuration is refused.
        """
        # A run that has not started was stored, but not put into the queue.
        if any(run.status != "NOT_STARTED" for run in self.find(name)):
            return
        tags = [{"key": key, "value": value} for key, value in tag(name, partition).items()]
        params = {
            "selector": {**_HERE, "jobName": name_job(release, job)},
            "runConfigData": json.dumps(config),
            "executionMetadata": {"tags": tags},
        }
        answer = self._ask(LAUNCH, "launchRun", params=params)
        if answer["__typename"] != "LaunchRunSuccess":
            # The configuration is refused: the authorization, if one was given.
            why = "it charges nothing, or several releases have this name, and each is authorized by its own name"
            raise QueueError(f"{release} cannot be {f'authorized: {why}' if config else 'put into the queue'}")

    def find(self, name: str) -> list[Run]:
        tags = [{"key": BY_COMMAND, "value": name}]
        found = self._ask(RUNS, "runsOrError", filter={"tags": tags})["results"]
        return [
            Run(run["runId"], run["status"], {each["key"]: each["value"] for each in run["tags"]})
            for run in reversed(found)
        ]

    def read(self, run_id: str, cursor: str | None) -> Page:
        found = self._ask(LOG, "logsForRun", run=run_id, cursor=cursor, limit=_EVENTS_AT_ONCE)
        events = list[RunEvent]()
        for event in found["events"]:
            if event["__typename"] == "ExecutionStepFailureEvent":
                self._errors.setdefault(run_id, []).append((event["error"] or {}).get("className") or "")
            if step := _read_step(event):
                events.append(RunEvent(step, event["stepKey"] or "", int(event["timestamp"]) / 1000))
        return Page(events, found["cursor"], found["hasMore"])

    def awaits_retry(self, run: Run) -> bool:
        if self._retries is None:
            self._retries = self._read_retries()
        most = int(self._retries.get("max_retries", 0)) if self._retries.get("enabled") else None
        return is_retried(run, most, self._errors.get(run.run_id, []))

    def list_following(self, release: str) -> list[tuple[str, str]]:
        """The prefixes of the jobs that follow a release's own, in order: for each round of partitions, its own job and
        the job after it. The sensor launches the same jobs after other runs.

        Dagster sorts them by name, so of up to two rounds, the second is the one with a job before it.
        """
        end = f"__{name_job(release)}"
        for sensor in self._ask(FOLLOWING, "sensorsOrError", repository=_HERE)["results"]:
            names = {target["pipelineName"].removesuffix(end) for target in sensor["targets"] or []}
            if PUBLICATION_OF in names:
                rounds = names - {PUBLICATION_OF, *(f"{BEFORE}_{name}" for name in names)}
                return list_jobs(sorted(rounds, key=lambda name: f"{BEFORE}_{name}" in names))
        return []

    def list_keys(self, release: str, job: str) -> list[str]:
        """The keys of the partitions of a job whose name begins with `job`."""
        found = self._ask(KEYS, "pipelineOrError", job={**_HERE, "pipelineName": name_job(release, job)})
        return sorted(found["partitionKeysOrError"]["partitionKeys"])

    def show_run(self, run_id: str) -> str:
        """The address of a run's page."""
        return f"{self._address}/runs/{run_id}"

    def show_asset(self, path: str) -> str:
        """The address of an asset's page."""
        return f"{self._address}/assets/{path}"

    def _read_retries(self) -> Mapping[str, Any]:
        # Its import takes longer than the rest of the command, and most launches need no retry.
        import yaml

        info = self._ask(RETRIES, "instance")["info"]
        return (yaml.safe_load(info or "") or {}).get("run_retries") or {}

    def _ask(self, question: str, key: str, **variables: Any) -> Any:
        """The webserver's answer to a question.

        Raises:
            WebserverLostError: if it cannot be reached, or cannot reach its database or the code location.
            QueueError: if it refuses, or is not a Dagster webserver.
        """
        asked = urllib.request.Request(
            f"{self._address}/graphql",
            json.dumps({"query": question, "variables": variables}).encode(),
            {"Content-Type": "application/json", "Accept": "application/json"},
        )
        text = b""
        try:
            with urllib.request.urlopen(asked, timeout=_SECONDS) as response:
                text, status = response.read(), response.status
        except urllib.error.HTTPError as error:
            with suppress(OSError, HTTPException):
                text = error.read()
            status = error.code
        except (OSError, HTTPException) as error:
            # If an address cannot be reached, the reason is the cause.
            cause = getattr(error, "reason", error)
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise QueueError(f"{WEBSERVER}: nobody whom this machine trusts signed the certificate there") from None
            raise WebserverLostError(f"The webserver cannot be reached: {type(cause).__name__}") from None
        if status in _OVERLOADED:
            raise WebserverLostError(f"The webserver answers with status {status}")
        try:
            answer = json.loads(text)
            data, errors = answer.get("data"), answer.get("errors", [])
        except (ValueError, AttributeError):
            raise QueueError(
                f"{WEBSERVER}: no webserver of Dagster answers there (status {status}). If a log-in is in front of it, "
                "name its address behind the log-in, or open a tunnel"
            ) from None
        if any("path" in error for error in errors):
            raise WebserverLostError("The webserver failed to answer")
        if errors or not data:
            raise QueueError(f"{WEBSERVER}: the webserver does not understand: is its Dagster of another version?")
        try:
            return _require_answer(data[key])
        except UnknownJobError:
            # A code location that is starting has no known jobs.
            entry = self._ask(LOCATED, "workspaceLocationEntryOrError", name=LOCATION)
            if not entry or (entry["locationOrLoadError"] or {}).get("__typename") == "RepositoryLocation":
                raise
            raise WebserverLostError("The webserver has not loaded the code location") from None


def _require_answer(answer: Any) -> Any:
    kind = (answer or {}).get("__typename", "")
    if kind == "PythonError":
        if answer["className"] in _LOST:
            raise WebserverLostError(f"The webserver lost another server: {answer['className']}")
        raise QueueError(f"The webserver failed: {answer['className']}")
    if kind in ("PipelineNotFoundError", "InvalidSubsetError"):
        raise UnknownJobError("The deployment has no such job")
    if "message" in (answer or {}):
        raise QueueError(answer["message"])
    return answer


def _read_step(event: Mapping[str, Any]) -> Step | None:
    key = event["stepKey"] or ""
    match event["__typename"]:
        case "AssetMaterializationPlannedEvent":
            return Step("planned", _join(event["assetKey"]))
        case "ExecutionStepStartEvent":
            return Step("begun", key)
        case "MaterializationEvent":
            return Step("made", _join(event["assetKey"]), metadata=_read_metadata(event))
        case "AssetCheckEvaluationEvent":
            check = event["evaluation"]
            kind, words = (
                ("passed", "") if check["success"] else ("failed", read_description(check["description"] or ""))
            )
            return Step(kind, _join(check["assetKey"]), check["checkName"], words=words)
        case "EngineEvent" if key and BLOCKED in event["message"]:
            return Step("waits", key, words=WAITS_FOR_WRITER)
        case "ExecutionStepFailureEvent":
            failed, error = event["failureMetadata"] or {}, event["error"] or {}
            # Dagster's own error wraps the step's.
            words = failed.get("description") or (error.get("cause") or error).get("message", "it failed").strip()
            return Step("refused", key, words=words, metadata=_read_metadata(failed) if failed else None)
    return None


def _join(key: Mapping[str, Sequence[str]]) -> str:
    return "/".join(key["path"])


def _read_metadata(event: Mapping[str, Any]) -> dict[str, Any]:
    return {entry["label"]: entry["text"] for entry in event["metadataEntries"] if "text" in entry}
