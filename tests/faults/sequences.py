"""Faults in sequence: a killed launch, a change, and the next launch.

After a kill alone, the next launch takes up the same draw (`kills`). After a change, it makes another draw and leaves
the first one. The test then checks the ledger, the keys and the audit. Finally, it undoes the change and requests the
first draw again: the draw is made with the same result, or refused if its key is gone or it was withdrawn.
"""

import shutil
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from assets.publication.audit import Verdict, audit
from assets.publication.withdrawal import withdraw
from mechanisms.refusal import RefusedError
from resources.chain import finished_draws
from resources.instances import close_waiting
from tests.deployments import Deployment
from tests.faults import strace
from tests.faults.releases import RELEASES, Prepared, deployment, in_child, launch

CHANGES: Mapping[str, dict[str, Any]] = {
    "a record changes": {"guess": 1},
    "the custody changes": {},
    "another release is declared in its place": {"name": "another"},
    "it is withdrawn and a record changes": {"guess": 1},
    "it is audited": {},
}
"""The change between the kill and the next launch, and the declarations of that launch."""

_ALWAYS = {"ledger_intact", "key_gone", "keys_deleted", "files_as_published"}
"""The claims that the audit must confirm even before the next launch."""


def killed_then(release: Prepared, effect: strace.Effect, change: str, label: str) -> tuple[bool, list[str]]:
    """Kill the work right before an effect, make a change, launch, undo the change and launch again.

    Returns whether the work was killed, and the errors.
    """
    place = release.copy(label)
    ended = strace.traced(lambda: release.work(place, release.name), *strace.killing(effect))
    wrong: list[str] = []
    found: list[dict[str, Any]] = []
    for act in (_look, _change, _undo):
        done = in_child(lambda act=act: act(place, release.name, change))  # type: ignore[misc]
        if done.status:
            wrong.append(f"{act.__name__}: {done.error or done.status}")
            break
        found.append(done.answer)
    else:
        output = release.undisturbed["outputs"][-1]
        wrong += judge(*found, change, RELEASES[release.name].custody, output)
    shutil.rmtree(place)
    return ended.status == -signal.SIGKILL, wrong


def judge(
    left: dict[str, Any], changed: dict[str, Any], undone: dict[str, Any], change: str, custody: str, output: str
) -> list[str]:
    """The errors in a sequence.

    Args:
        left: the state that the killed launch left.
        changed: the state after the change and the next launch, or the audit.
        undone: the state after undoing the change and launching the release again.
        custody: the custody of the release's key before the change.
        output: the version of the first draw's output in an undisturbed launch.
    """
    wrong = [f"the ledger is not intact: {each['problems']}" for each in (left, changed, undone) if each["problems"]]
    # Releases that are read are made again too if their records change: as many entries as before, of other draws.
    read = left["read"]
    anew = changed["read"][len(read) :]
    due = sorted(Counter(read).values()) if "record" in change else []
    is_due = changed["read"][: len(read)] == read and sorted(Counter(anew).values()) == due
    if not is_due or set(anew) & set(read) or undone["read"] != changed["read"]:
        wrong.append(f"what this release reads was charged otherwise: {read}, {changed['read']}, {undone['read']}")
    first = set(left["reserved"])
    withdrawn = change.startswith("it is withdrawn")
    for state in (changed, undone):
        for what in ("reserved", "settled"):
            if len(set(state[what])) != len(state[what]):
                wrong.append(f"a draw is {what} twice: {state[what]}")
        if kept := set(state["keys"]) & set(state["finished"]):
            wrong.append(f"keys of settled or withdrawn draws are left: {sorted(kept)}")
        if lost := set(state["ephemeral"]) - set(state["finished"]) - set(state["keys"]):
            wrong.append(f"the keys of draws that can still be made are gone: {sorted(lost)}")
        if strange := set(state["keys"]) - set(state["reserved"]) - set(left["keys"]):
            wrong.append(f"there are keys that nothing was charged for: {sorted(strange)}")
        if state["spilled"]:
            wrong.append(f"left are {state['spilled']}")
    new = set(changed["reserved"]) - first
    if len(new) != (change != "it is audited") or not new <= set(changed["settled"]):
        wrong.append(f"not exactly one new draw was charged and made: {changed['reserved']}, {changed['settled']}")
    # Before the next launch, the audit reports the missing results of the killed one.
    audited = _ALWAYS if change == "it is audited" else set(changed["failing"])
    if failing := audited & set(changed["failing"]):
        wrong.append(f"after the change, the audit finds that these do not hold: {sorted(failing)}")
    if not first:
        first = set(undone["reserved"]) - new
    if len(first) != 1 or set(undone["reserved"]) != first | new:
        wrong.append(f"not exactly one charge for the first draw, and one for the other: {undone['reserved']}")
    elif withdrawn and left["reserved"]:
        if "was withdrawn" not in undone["refused"]:
            wrong.append(f"the withdrawn draw was not refused: {undone['refused']}")
    elif undone["refused"]:
        replaced = "record" in change or "custody" in change
        if not (custody == "ephemeral" and left["settled"] and replaced and "was destroyed" in undone["refused"]):
            wrong.append(f"the first draw was refused: {undone['refused']}")
    elif undone["settled"].get(min(first)) != output:
        wrong.append("the first draw gave another result than undisturbed")
    if undone["failing"] and not undone["refused"]:
        wrong.append(f"in the end, the audit finds that these do not hold: {undone['failing']}")
    if undone["unpublished"] and not undone["refused"]:
        wrong.append(f"both draws are made, but the audit misses an edition: {undone['unpublished']}")
    return wrong


def _look(place: Path, name: str, change: str) -> dict[str, Any]:
    """The state that a new process finds, without changes."""
    return _state(deployment(place, name))


def _change(place: Path, name: str, change: str) -> dict[str, Any]:
    before = deployment(place, name)
    release, changes = before.release, dict(CHANGES[change])
    if change == "it is audited":
        return _audit(before) | _state(before)
    if change == "the custody changes":
        changes["custody"] = {"ephemeral": "escrowed", "escrowed": "ephemeral"}[release.custody.value]
    if change.startswith("it is withdrawn"):
        withdraw(before.context.ledger, release.published, release.dataset.name, release.name, "Ann")
    now = deployment(place, name, **changes)
    launch(now)
    return _state(now) | _audit(now)


def _undo(place: Path, name: str, change: str) -> dict[str, Any]:
    here, refused = deployment(place, name), ""
    try:
        launch(here)
    except dg.Failure as error:
        refused = error.description or "refused"
    except RefusedError as error:
        refused = str(error)
    return _state(here) | _audit(here) | {"refused": refused}


def _state(here: Deployment[Any]) -> dict[str, Any]:
    read = [release.name for release in here.context.method.reads_publications_of]
    every = here.context.ledger.entries()
    entries = [entry for entry in every if entry.release not in read]
    reserved = [entry for entry in entries if entry.kind == "reserve"]
    parameters = {entry.draw_id: entry.parse_details().draw["parameters"] for entry in reserved}
    problems = list(here.context.ledger.verify())
    # As at the end of the process: files that it still holds were not left by a launch.
    close_waiting()
    return {
        "problems": problems,
        "read": [entry.draw_id for entry in every if entry not in entries],
        "reserved": [entry.draw_id for entry in reserved],
        "settled": {entry.draw_id: entry.output_version for entry in entries if entry.kind == "settle"},
        "finished": sorted(finished_draws(entries)),
        "ephemeral": [draw_id for draw_id in parameters if parameters[draw_id]["custody"] == "ephemeral"],
        "keys": sorted(here.context.custody.list_keys()),
        "spilled": sorted(path.name for path in here.root.glob("warehouse/spill/*")),
    }


def _audit(here: Deployment[Any]) -> dict[str, Any]:
    """The names of the audit's claims that do not hold, and its messages about missing editions."""
    context = here.context
    record = audit([context.method], context.nodes, context.ledger, here.release.published, "2030-01-01T00:00:00Z")
    return {
        "failing": [each["name"] for each in record["findings"] if each["verdict"] == Verdict.FAILS],
        "unpublished": [line for each in record["findings"] if each["name"] == "editions" for line in each["details"]],
    }
