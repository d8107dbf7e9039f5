"""Launches at once: by hand, by a schedule's tick and by a sensor's tick, of the same release and of others.

All share one folder and one Dagster instance on disk. In every tenth round the instance has the pool of `dagster.yaml`,
in which steps queue that write a database, some seconds each; in the others, DuckDB's locks alone keep them apart.
"""

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.cef.readers import source_paths
from mechanisms.accounting.composition import fits
from resources.instances import close_waiting
from tests.deployments import Deployment
from tests.faults.releases import RELEASES, Child, deployment, in_child, prepared, run_job

LAUNCHES = (
    ("scheduled", "schedule"),
    ("scheduled", "by hand"),
    ("watched", "sensor"),
    ("watched", "by hand"),
    ("another", "by hand"),
)
"""The releases and how they are launched, all at once. The cap of `RELEASES` admits two of the three."""

_AUTOMATION: Mapping[str, dict[str, Any]] = {"scheduled": {"schedule": "0 6 * * *"}, "watched": {"watch_source": True}}

SETTINGS = Path(__file__).parents[2] / "dagster.yaml"


def _deployment(root: Path, name: str, release: str) -> Deployment[Any]:
    cap = RELEASES[name].cap
    dataset = {"cap": cap} if cap else {}
    return deployment(root, name, name=release, dataset=dataset, **_AUTOMATION.get(release, {}))


def _instance(root: Path) -> dg.DagsterInstance:
    return dg.DagsterInstance.from_config(str(root / "dagster"))


def _launch(here: Deployment[Any], how: str) -> dict[str, Any]:
    """Launch a release's job as its schedule or sensor asks for it, or by hand."""
    repository, schema = here.definitions.get_repository_def(), here.release.schema
    with _instance(here.root) as here.instance:
        if how == "schedule":
            tick = repository.get_schedule_def(f"{schema}__schedule").evaluate_tick(
                dg.build_schedule_context(instance=here.instance)
            )
            requests = list(tick.run_requests or [])
        elif how == "sensor":
            requests = _looked(here, repository.get_sensor_def(f"{schema}__source"))
        else:
            requests = [dg.RunRequest()]
        (request,) = requests
        results = run_job(here, request.tags, raises=False)
    failed = [event for result in results for event in result.all_events if event.is_step_failure]
    return {
        "release": here.release.name,
        "how": how,
        "success": all(result.success for result in results),
        "failed": [str(event.step_key) for event in failed],
        "said": "\n".join(_said(event) for event in failed),
    }


def _looked(here: Deployment[Any], sensor: dg.SensorDefinition) -> list[dg.RunRequest]:
    """Three ticks of a sensor: before its source is touched, at once afterwards, and once it is at rest."""
    (source, *_) = source_paths(here.release.dataset, here.root)
    cursor, requests = None, list[dg.RunRequest]()
    for tick in range(3):
        if tick == 1:
            os.utime(source, (2_000_000_000, 2_000_000_000))
        resources = {"custody": here.context.custody}
        answer: Any = sensor(dg.build_sensor_context(cursor=cursor, resources=resources))
        cursor = getattr(answer, "cursor", cursor)
        requests += getattr(answer, "run_requests", None) or []
    return requests


def _said(event: Any) -> str:
    error, metadata = event.step_failure_data.error, event.step_failure_data.user_failure_data
    said = (metadata.description or "") if metadata else ""
    while error:
        said += error.message
        error = error.cause
    return said


def _found(here: Deployment[Any]) -> dict[str, Any]:
    entries, dataset = here.context.ledger.entries(), here.release.dataset
    read = {release.name for release in here.context.method.reads_publications_of}
    charged = here.context.ledger.read().compose(dataset.population, dataset.cap)
    problems = list(here.context.ledger.verify())
    # As at the end of the process: files that it still holds were not left by a launch.
    close_waiting()
    return {
        "entries": [(entry.kind, entry.release, entry.draw_id) for entry in entries if entry.release not in read],
        "problems": problems,
        "over": not fits(charged, dataset.cap),
        "published": sorted({path.name for path in (here.root / "published" / dataset.name).iterdir()} - read),
        "spilled": sorted(path.name for path in (here.root / "warehouse" / "spill").iterdir()),
    }


def at_once(
    folder: Path, name: str, number: int, launches: Sequence[tuple[str, str]] = LAUNCHES
) -> tuple[bool, list[str]]:
    """All launches at the same moment. Returns True, and the errors."""
    root = folder / f"launches-{name.replace(' ', '-')}-{number}"
    if deployment(folder / "read", name).context.method.reads_publications_of:
        shutil.copytree(prepared(folder, name), root)
    (root / "dagster").mkdir(parents=True)
    if number % 10 == 9:
        shutil.copy(SETTINGS, root / "dagster" / "dagster.yaml")
    else:
        (root / "dagster" / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    # Each writes the source files, so all are made before any launch begins.
    deployed = [_deployment(root, name, release) for release, _ in launches]
    in_child(lambda: _instance(root).dispose())
    children = [
        Child(lambda here=here, how=how: _launch(here, how)) for here, (_, how) in zip(deployed, launches, strict=True)
    ]
    for child in children:
        child.go()
    ended = [child.ended() for child in children]
    wrong = [f"a launch ended with {each.status}: {each.error}" for each in ended if each.status]
    found = in_child(lambda: _found(deployed[0]))
    shutil.rmtree(root)
    if wrong or found.status:
        return True, [*wrong, found.error]
    expected = 2 if RELEASES[name].cap else len({release for release, _ in launches})
    return True, _judged([each.answer for each in ended], found.answer, expected)


def _judged(answers: Sequence[dict[str, Any]], found: dict[str, Any], expected: int) -> list[str]:
    wrong = []
    times = Counter(kind for kind, *_ in map(tuple, found["entries"]))
    if times != {"reserve": expected, "settle": expected} or len({draw for *_, draw in found["entries"]}) != expected:
        wrong.append(f"not exactly one charge for each of {expected} draws: {found['entries']}")
    if found["over"]:
        wrong.append("more is charged than the cap")
    if found["problems"]:
        wrong.append(f"the ledger is not intact: {found['problems']}")
    winners = {release for _, release, _ in found["entries"]}
    for answer in answers:
        if answer["release"] in winners and not answer["success"]:
            wrong.append(f"{answer['release']}, {answer['how']}, failed: {answer['said']}")
        if answer["release"] not in winners and "does not fit under the cap" not in answer["said"]:
            wrong.append(f"{answer['release']}, {answer['how']}, was not refused for the cap: {answer['said']}")
    if set(found["published"]) != winners:
        wrong.append(f"published are {found['published']}, charged are {sorted(winners)}")
    if found["spilled"]:
        wrong.append(f"left are {found['spilled']}")
    return wrong
