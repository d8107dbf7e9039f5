"""Launches at once: by hand, by a schedule's tick and by a sensor's tick, of the same release and of others.

All share one folder and one Dagster instance on disk. In every tenth round the instance has the pool of `dagster.yaml`,
in which steps queue that write a database, some seconds each; in the others, DuckDB's locks alone keep them apart.
"""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from tests.deployments import Deployment, deploy, households, small_dataset, small_release, write_csv
from tests.faults.releases import Child, in_child
from tests.whole_repository import known

CAP = 10
"""Admits two of the three releases, each of ε = ln 62 = 4.13."""

LAUNCHES = (
    ("scheduled", "schedule"),
    ("scheduled", "by hand"),
    ("watched", "sensor"),
    ("watched", "by hand"),
    ("another", "by hand"),
)
"""The releases and how they are launched, all at once."""

SETTINGS = Path(__file__).parents[2] / "dagster.yaml"


def _deployment(root: Path) -> Deployment[Any]:
    dataset = small_dataset(root, cap=CAP)
    scheduled = small_release(dataset, name="scheduled", schedule="0 6 * * *")
    watched = small_release(dataset, name="watched", watch_source=True)
    return deploy(root, dataset, scheduled, watched, small_release(dataset, name="another"))


def _instance(root: Path) -> dg.DagsterInstance:
    return dg.DagsterInstance.from_config(str(root / "dagster"))


def _launch(root: Path, name: str, how: str) -> dict[str, Any]:
    """Launch a release's job as its schedule or sensor asks for it, or by hand."""
    here = _deployment(root)
    repository = here.definitions.get_repository_def()
    with _instance(root) as instance:
        if how == "schedule":
            tick = repository.get_schedule_def(f"village__{name}__schedule").evaluate_tick(
                dg.build_schedule_context(instance=instance)
            )
            requests = list(tick.run_requests or [])
        elif how == "sensor":
            requests = _looked(root, here, repository.get_sensor_def(f"village__{name}__source"))
        else:
            requests = [dg.RunRequest()]
        (request,) = requests
        with known(repository):
            result = repository.get_job(f"village__{name}").execute_in_process(
                instance=instance, tags=request.tags, raise_on_error=False
            )
    failed = [event for event in result.all_events if event.is_step_failure]
    return {
        "release": name,
        "how": how,
        "success": result.success,
        "failed": [str(event.step_key) for event in failed],
        "said": "\n".join(_said(event) for event in failed),
    }


def _looked(root: Path, here: Deployment[Any], sensor: dg.SensorDefinition) -> list[dg.RunRequest]:
    """Three ticks of a sensor: before its source is touched, at once afterwards, and once it is at rest."""
    cursor, requests = None, list[dg.RunRequest]()
    for tick in range(3):
        if tick == 1:
            os.utime(root / "units.csv", (2_000_000_000, 2_000_000_000))
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


def _found(root: Path) -> dict[str, Any]:
    here = _deployment(root)
    entries = here.ledger
    charged = here.context.ledger.read().compose("village", here.release.dataset.cap)
    return {
        "entries": [(entry.kind, entry.release, entry.draw_id) for entry in entries],
        "problems": list(here.context.ledger.verify()),
        "charged": float(charged.round_up(4)),
        "published": sorted(path.name for path in (root / "published" / "village").iterdir()),
        "spilled": sorted(path.name for path in (root / "warehouse" / "spill").iterdir()),
    }


def at_once(folder: Path, number: int, launches: Sequence[tuple[str, str]] = LAUNCHES) -> tuple[bool, list[str]]:
    """All launches at the same moment. Returns True, and what was wrong."""
    root = folder / f"launches-{number}"
    (root / "dagster").mkdir(parents=True)
    if number % 10 == 9:
        shutil.copy(SETTINGS, root / "dagster" / "dagster.yaml")
    else:
        (root / "dagster" / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    write_csv(root / "units.csv", households())
    in_child(lambda: _instance(root).dispose())
    children = [Child(lambda name=name, how=how: _launch(root, name, how)) for name, how in launches]
    for child in children:
        child.go()
    ended = [child.ended() for child in children]
    wrong = [f"a launch ended with {each.status}: {each.error}" for each in ended if each.status]
    found = in_child(lambda: _found(root))
    shutil.rmtree(root)
    if wrong or found.status:
        return True, [*wrong, found.error]
    return True, _judged([each.answer for each in ended], found.answer)


def _judged(answers: Sequence[dict[str, Any]], found: dict[str, Any]) -> list[str]:
    wrong = []
    times = Counter(kind for kind, *_ in map(tuple, found["entries"]))
    if times != {"reserve": 2, "settle": 2} or len({draw for *_, draw in found["entries"]}) != 2:
        wrong.append(f"not exactly one charge for each of two draws: {found['entries']}")
    if found["charged"] > CAP:
        wrong.append(f"{found['charged']} is charged, over the cap of {CAP}")
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
